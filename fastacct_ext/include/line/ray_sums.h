/* line/ray_sums.h -- a job of losses with two ends each, beyond Im u = T: its sum is at as many places as its steps
 * choose ends, and each term is integrated on a ray on which it falls.
 *
 *   prod M_b^n = sum over k of W_k(u) e^(u l_k), W_k = prod C(n,k) A_1^k A_0^(n-k)
 *   from c + i T to the right where l_k < eps, to the left where l_k > eps:   u = c + i T + s e^(i phi), phi 35 degrees
 *   s = S exp(y - e^(-y)), trapezoid rule of step g in y;   l_k = eps: w = 1/u on a segment
 *
 * Eight points at a time.  docs/algorithms/rays.md.
 */
#ifndef FA_LINE_RAY_SUMS_H
#define FA_LINE_RAY_SUMS_H

#include "ray_places.h"

#define FA_RAY_STRIP 0.8 /* |Im y| of the rule's error */
#define FA_RAY_COS   0.81915204428899179
#define FA_RAY_SIN   0.57357643635104609

FA_INLINE void fa_times(double *re, double *im, double br, double bi)
{
    double a = *re * br - *im * bi;
    *im = *re * bi + *im * br;
    *re = a;
}

/* the table of a block for k in [from, to] at eight points u, from its largest entry on both ways: what underflows is
 * nothing beside that */
FA_FUNC void fa_ray_fill(const fa_rays *rays, fa_ray_block *b, int from, int to, const double *ur, const double *ui)
{
    double n = b->steps, l0 = b->ends.end[0].place, upr[FA_LANES], upi[FA_LANES], downr[FA_LANES], downi[FA_LANES],
           wr[FA_LANES], wi[FA_LANES], choose, l;
    int i, k, mid = b->mode;
    fa_lanes *table = b->table - b->low;
    mid = mid < from ? from : mid > to ? to : mid;
    l = n * l0 + mid * b->gap;
    choose = lgamma(n + 1.0) - lgamma(mid + 1.0) - lgamma(n - mid + 1.0);
    for (i = 0; i < FA_LANES; i++) {
        double vr = ur[i] - (b->ends.is_flipped ? 1.0 : 0.0), over = 1.0 / (vr * vr + ui[i] * ui[i]), ai, bi, s2, cr,
               ci, ar = fa_end_at(b->ends.end, b->terms, vr * over, -ui[i] * over, &ai),
               br = fa_end_at(b->ends.end + 1, b->terms, vr * over, -ui[i] * over, &bi), size, turn;
        size = exp(rays->c * b->gap);
        turn = rays->t * b->gap;
        cr = br * size * cos(turn) - bi * size * sin(turn);
        ci = br * size * sin(turn) + bi * size * cos(turn);
        s2 = 1.0 / (ar * ar + ai * ai);
        upr[i] = (cr * ar + ci * ai) * s2;
        upi[i] = (ci * ar - cr * ai) * s2;
        s2 = 1.0 / (upr[i] * upr[i] + upi[i] * upi[i]);
        downr[i] = upr[i] * s2;
        downi[i] = -upi[i] * s2;
        size = exp(choose + 0.5 * mid * log(br * br + bi * bi) + 0.5 * (n - mid) * log(ar * ar + ai * ai) +
                   rays->c * l - b->log_m);
        turn = mid * atan2(bi, br) + (n - mid) * atan2(ai, ar) + rays->t * l;
        wr[i] = table[mid].re[i] = size * cos(turn);
        wi[i] = table[mid].im[i] = size * sin(turn);
    }
    for (k = mid; k < to; k++) {
        double f = (n - k) / (k + 1.0);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            double x = f * (wr[i] * upr[i] - wi[i] * upi[i]);
            wi[i] = f * (wr[i] * upi[i] + wi[i] * upr[i]);
            wr[i] = x;
            table[k + 1].re[i] = wr[i];
            table[k + 1].im[i] = wi[i];
        }
    }
    memcpy(wr, table[mid].re, sizeof(wr));
    memcpy(wi, table[mid].im, sizeof(wi));
    for (k = mid; k > from; k--) {
        double f = k / (n - k + 1.0);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            double x = f * (wr[i] * downr[i] - wi[i] * downi[i]);
            wi[i] = f * (wr[i] * downi[i] + wi[i] * downr[i]);
            wr[i] = x;
            table[k - 1].re[i] = wr[i];
            table[k - 1].im[i] = wi[i];
        }
    }
}

/* adds a term to the sums of delta and of what falls with eps, which is u - 1 times it */
FA_INLINE void fa_ray_count(double re, double im, double ur, double ui, double *sum)
{
    sum[0] += re;
    sum[1] += im;
    fa_times(&re, &im, ur - 1.0, ui);
    sum[2] += re;
    sum[3] += im;
}

/* the product of the other blocks' entries of a combination, times what is there */
FA_INLINE void fa_ray_pick(const fa_rays *rays, int x, double *re, double *im)
{
    int b, i;
    for (b = 0; b < rays->n; b++) {
        const fa_ray_block *block = rays->blocks + b;
        const fa_lanes *w;
        int m = block->high - block->low + 1;
        if (b == rays->last)
            continue;
        w = block->table + x % m;
        x /= m;
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            double a = re[i] * w->re[i] - im[i] * w->im[i];
            im[i] = re[i] * w->im[i] + im[i] * w->re[i];
            re[i] = a;
        }
    }
}

FA_FUNC void fa_ray_fill_others(const fa_rays *rays, const double *ur, const double *ui)
{
    int b;
    for (b = 0; b < rays->n; b++)
        if (b != rays->last)
            fa_ray_fill(rays, (fa_ray_block *)rays->blocks + b, rays->blocks[b].low, rays->blocks[b].high, ur, ui);
}

/* sums of the last block's table from its far end on, each term as it is where the next one is cut: at k, the sum of
 * W_j e^(d (l_j - l_k)), j <= k (way 1) or j >= k (way -1) */
FA_FUNC void fa_ray_prefix(fa_rays *rays, int from, int to, int way, const double *dr, const double *di)
{
    const fa_ray_block *b = rays->blocks + rays->last;
    const fa_lanes *table = b->table - b->low;
    fa_lanes *out = rays->prefix - b->low;
    double fr[FA_LANES], fi[FA_LANES], ar[FA_LANES] = {0.0}, ai[FA_LANES] = {0.0};
    int i, k;
    for (i = 0; i < FA_LANES; i++) {
        double e = exp(fa_max(-700.0, -way * dr[i] * b->gap)), turn = -way * di[i] * b->gap;
        fr[i] = e * cos(turn);
        fi[i] = e * sin(turn);
    }
    for (k = way > 0 ? from : to; k >= from && k <= to; k += way) {
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            double x = table[k].re[i] + ar[i] * fr[i] - ai[i] * fi[i];
            ai[i] = table[k].im[i] + ar[i] * fi[i] + ai[i] * fr[i];
            ar[i] = x;
            out[k].re[i] = ar[i];
            out[k].im[i] = ai[i];
        }
    }
}

/* sum of W_k e^(d (l_k - eps)) over the places on one side of eps at eight points, the part-th ones of their ray, all
 * sizes over prod M(c)^n; least: the smallest |Re d| */
FA_FUNC void fa_ray_side(fa_rays *rays, double eps, int way, int part, const double *ur, const double *ui,
                         const double *dr, const double *di, double least, double *re_out, double *im_out)
{
    const fa_ray_block *b = rays->blocks + rays->last;
    const int *cut = way > 0 ? rays->left : rays->right;
    int *made = rays->made + (way > 0), is_kept = rays->kept && part < FA_RAY_PARTS;
    int i, j, from = b->high + 1, to = b->low - 1, reach = (int)fa_min(1e6, ceil(50.0 / (least * b->gap)));
    for (j = 0; j < FA_LANES; j++)
        re_out[j] = im_out[j] = 0.0;
    for (i = 0; i < rays->picks; i++)
        if (cut[i] >= b->low && cut[i] <= b->high) {
            from = cut[i] < from ? cut[i] : from;
            to = cut[i] > to ? cut[i] : to;
        }
    if (from > to)
        return;
    if (is_kept || way > 0)
        from = is_kept || from - reach < b->low ? b->low : from - reach;
    if (is_kept || way < 0)
        to = is_kept || to + reach > b->high ? b->high : to + reach;
    (void)fa_rays_seat(rays, is_kept ? rays->kept + (size_t)rays->lanes * (size_t)(2 * part + (way > 0))
                                     : b->table + (b->high - b->low + 1));
    if (!is_kept || part >= *made) {
        fa_count((double)FA_LANES * (to - from));
        fa_ray_fill_others(rays, ur, ui);
        fa_ray_fill(rays, rays->blocks + rays->last, from, to, ur, ui);
        fa_ray_prefix(rays, from, to, way, dr, di);
        *made = is_kept ? part + 1 : *made;
    }
    fa_count(4.0 * FA_LANES * rays->picks);
    for (i = 0; i < rays->picks; i++) {
        double re[FA_LANES], im[FA_LANES], away;
        const fa_lanes *w;
        if (cut[i] < b->low || cut[i] > b->high)
            continue;
        away = rays->place[i] + cut[i] * b->gap - eps;
        if (fabs(away) * least > 50.0)
            continue;
        w = rays->prefix + (cut[i] - b->low);
        FA_PRAGMA(omp simd)
        for (j = 0; j < FA_LANES; j++) {
            double co, si = fa_sincos_v(di[j] * away, &co), e = fa_exp_plain_v(fa_max(-690.0, dr[j] * away));
            re[j] = e * (w->re[j] * co - w->im[j] * si);
            im[j] = e * (w->re[j] * si + w->im[j] * co);
        }
        fa_ray_pick(rays, i, re, im);
        for (j = 0; j < FA_LANES; j++) {
            re_out[j] += re[j];
            im_out[j] += im[j];
        }
    }
}

/* the part beyond T of delta (and of its derivative in -eps) over prod M(c)^n e^(-(c-1) eps), Im part's phase e^(-i T
 * eps) not yet taken: both rays */
FA_FUNC void fa_ray_both(fa_rays *rays, double eps, double *sum)
{
    double scale = fa_min(1.0 / rays->range, rays->t / 20.0),
           far = fa_min(42.0 / (rays->nearest * FA_RAY_COS), 1e16 * rays->t), end = log(far / scale);
    int way, i, part;
    for (way = 1; way >= -1; way -= 2) {
        double y = -3.6;
        for (part = 0; y < end; part++) {
            double ur[FA_LANES], ui[FA_LANES], dr[FA_LANES], di[FA_LANES], re[FA_LANES], im[FA_LANES], grow[FA_LANES],
                least = INFINITY;
            for (i = 0; i < FA_LANES; i++, y += rays->step) {
                double e = exp(-y), s = scale * exp(y - e);
                dr[i] = way * FA_RAY_COS * s;
                di[i] = FA_RAY_SIN * s;
                ur[i] = rays->c + dr[i];
                ui[i] = rays->t + di[i];
                grow[i] = s * (1.0 + e) * rays->step;
                least = fa_min(least, fa_max(fabs(dr[i]), 1e-300));
            }
            fa_ray_side(rays, eps, way, part, ur, ui, dr, di, least, re, im);
            for (i = 0; i < FA_LANES; i++) {
                double gr = way * FA_RAY_COS * grow[i], gi = FA_RAY_SIN * grow[i], pr = ur[i], pi = ui[i], over;
                fa_times(&pr, &pi, ur[i] - 1.0, ui[i]); /* u (u - 1) */
                over = 1.0 / (pr * pr + pi * pi);
                fa_times(&gr, &gi, pr * over, -pi * over);
                fa_times(&gr, &gi, re[i], im[i]);
                fa_ray_count(gr, gi, ur[i], ui[i], sum);
            }
        }
    }
}

/* the same of places at eps: the integral of W(1/w)/(1 - w) over w from 0 to 1/(c + i T), by 32 points */
FA_FUNC void fa_ray_there(fa_rays *rays, double *sum)
{
    double over = 1.0 / (rays->c * rays->c + rays->t * rays->t), endr = rays->c * over, endi = -rays->t * over;
    const fa_ray_block *b = rays->blocks + rays->last;
    int part, i, k, place = fa_gauss_place(32), any = 0;
    for (k = 0; k < rays->picks; k++)
        any |= rays->at[k] >= 0;
    (void)fa_rays_seat(rays, b->table + (b->high - b->low + 1));
    for (part = 0; any && part < 32; part += FA_LANES) {
        double ur[FA_LANES], ui[FA_LANES], wr[FA_LANES], wi[FA_LANES], weight[FA_LANES], re[FA_LANES], im[FA_LANES];
        for (i = 0; i < FA_LANES; i++) {
            int j = part + i, at = place + (j < 16 ? 15 - j : j - 16);
            double x = 0.5 * (1.0 + (j < 16 ? -fa_gauss_node[at] : fa_gauss_node[at])), size;
            wr[i] = x * endr;
            wi[i] = x * endi;
            size = 1.0 / (wr[i] * wr[i] + wi[i] * wi[i]);
            ur[i] = wr[i] * size;
            ui[i] = -wi[i] * size;
            weight[i] = 0.5 * fa_gauss_weight[at];
        }
        fa_ray_fill_others(rays, ur, ui);
        fa_ray_fill(rays, rays->blocks + rays->last, b->low, b->high, ur, ui);
        for (k = 0; k < rays->picks; k++) {
            if (rays->at[k] < 0)
                continue;
            memcpy(re, b->table[rays->at[k] - b->low].re, sizeof(re));
            memcpy(im, b->table[rays->at[k] - b->low].im, sizeof(im));
            fa_ray_pick(rays, k, re, im);
            for (i = 0; i < FA_LANES; i++) {
                double gr = weight[i] * endr, gi = weight[i] * endi, vr = 1.0 - wr[i], vi = -wi[i],
                       size = 1.0 / (vr * vr + vi * vi);
                fa_times(&gr, &gi, vr * size, -vi * size);
                fa_times(&gr, &gi, re[i], im[i]);
                fa_ray_count(gr, gi, ur[i], ui[i], sum);
            }
        }
    }
}

#endif
