/* line/wide_line.h -- a vertical line evaluated once more in double-double, where rounding is all that keeps the plain
 * one from being tight.
 *
 * Two kinds of run need it: many steps at a high rate, where K is large, and lines far from where |F| is least, where
 * terms exceed delta by many orders of magnitude and cancel.  The line, its tail and its aliases stay those of
 * line/contour.h; here are nodes, K and the sum:
 *
 *   K(u) = count (u mean + log(1 + sum W (exp(u l) - 1))),   l the loss less `mean`, any double next to its mean
 *
 * Sampled Gaussians only.  Errors in units of w = FA_WIDE; docs/algorithms/contour.md, "In double-double".
 */
#ifndef FA_WIDE_LINE_H
#define FA_WIDE_LINE_H

#include "contour.h"
#include "../num/fa_wide.h"

#define FA_WIDE_SYNC     64   /* steps between fresh evaluations */
#define FA_WIDE_COST     12.0 /* work of a node's step against that of the plain line */
#define FA_WIDE_EXPONENT 650.0

/* number i of the k-th double-double array, all of length n */
#define FA_WIDE_AT(k) fa_dd_make(a[2 * (k) * n + i], a[(2 * (k) + 1) * n + i])
#define FA_WIDE_SET(k, value)                                                                                          \
    do {                                                                                                               \
        fa_dd set_ = (value);                                                                                          \
        a[2 * (k) * n + i] = set_.hi;                                                                                  \
        a[(2 * (k) + 1) * n + i] = set_.lo;                                                                            \
    } while (0)
#define FA_WIDE_PAIR(k) fa_cdd_make(FA_WIDE_AT(k), FA_WIDE_AT((k) + 1))
#define FA_WIDE_SET_PAIR(k, value)                                                                                     \
    do {                                                                                                               \
        fa_cdd pair_ = (value);                                                                                        \
        FA_WIDE_SET(k, pair_.re);                                                                                      \
        FA_WIDE_SET((k) + 1, pair_.im);                                                                                \
    } while (0)

enum {
    FA_W_LOSS = 0,
    FA_W_WEIGHT = 2,
    FA_W_FACTOR = 4,
    FA_W_ADD = 6,
    FA_W_VALUE = 8,
    FA_W_ARRAYS = 10
};                                                          /* complex arrays of the nodes */
enum { FA_P_EXPONENT = 0, FA_P_OVER = 2, FA_P_ARRAYS = 4 }; /* of the points */

FA_INLINE int fa_wide_possible(const fa_contour *run)
{
    int b, ok = run->mu2 == 0.0;
    for (b = 0; b < run->n_blocks && ok; b++)
        ok = run->blocks[b].pair.sample_rate > 1e-300;
    return ok;
}

/* losses and weights at z = j h + i y, j = j0 .. j0 + n - 1, up to the cut */
FA_FUNC void fa_wide_nodes(double *a, size_t n, const fa_block *block, int64_t j0, double h, double y, double mean)
{
    const fa_pair *m = &block->pair;
    fa_dd iv = fa_dd_div(fa_dd_make(1.0, 0.0), fa_two_prod(m->sigma, m->sigma)), kappa = fa_log1p_wide(-m->sample_rate),
          p_log, off, angle, scale;
    fa_dd y2 = fa_two_prod(y, y), half = fa_dd_scale(iv, 0.5);
    double cut = block->cut;
    size_t i;
    p_log = fa_dd_add(fa_dd_add(fa_log_wide(m->sample_rate), fa_dd_neg(kappa)), fa_dd_neg(half));
    off = fa_dd_add_d(kappa, -mean);
    angle = fa_dd_mul_d(iv, y);
    scale = fa_dd_mul(fa_dd_div(fa_dd_make(h, 0.0), fa_dd_make(m->sigma, 0.0)),
                      fa_dd_make(0x1.9884533d43651p-2, -0x1.cbc0d30ebfd15p-56)); /* 1/sqrt(2 pi) */
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double x = (double)(j0 + (int64_t)i) * h, sign, big;
        fa_dd e = fa_dd_add(fa_dd_mul_d(iv, x), p_log), x2 = fa_dd_add(fa_two_prod(x, x), fa_dd_neg(y2)),
              size = fa_dd_neg(fa_dd_mul(half, x2));
        fa_cdd w, l;
        sign = e.hi > 0.0 ? -1.0 : 1.0;
        big = e.hi > 0.0 ? 1.0 : 0.0;
        (void)fa_cexpm1_wide_v(fa_cdd_make(fa_dd_scale(e, sign), fa_dd_scale(angle, sign)), &w);
        l = fa_clog1p_wide_v(w);
        l.re = fa_dd_add(fa_dd_add(l.re, fa_dd_scale(e, big)), off);
        l.im = fa_dd_add(l.im, fa_dd_scale(angle, big));
        FA_WIDE_SET_PAIR(FA_W_LOSS, l);
        (void)fa_cexpm1_wide_v(fa_cdd_make(size, fa_dd_neg(fa_dd_mul_d(angle, x))), &w);
        big = x <= cut && size.hi > -FA_WIDE_EXPONENT ? 1.0 : 0.0;
        FA_WIDE_SET(FA_W_WEIGHT, fa_dd_scale(fa_dd_mul(w.re, scale), big));
        FA_WIDE_SET(FA_W_WEIGHT + 1, fa_dd_scale(fa_dd_mul(w.im, scale), big));
    }
}

/* W (exp(u l) - 1) at u = a + i t; with t = h_t, a = 0 also what a step multiplies and adds */
FA_FUNC void fa_wide_start(double *a, size_t n, double u_re, double u_im, int a_step)
{
    size_t i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        fa_cdd l = FA_WIDE_PAIR(FA_W_LOSS), e, m;
        fa_dd re = fa_dd_add(fa_dd_mul_d(l.re, u_re), fa_dd_mul_d(l.im, -u_im)),
              im = fa_dd_add(fa_dd_mul_d(l.re, u_im), fa_dd_mul_d(l.im, u_re));
        m = fa_cdd_mul(fa_cexpm1_wide_v(fa_cdd_make(re, im), &e), FA_WIDE_PAIR(FA_W_WEIGHT));
        if (a_step) {
            FA_WIDE_SET_PAIR(FA_W_FACTOR, e);
            FA_WIDE_SET_PAIR(FA_W_ADD, m);
        }
        else
            FA_WIDE_SET_PAIR(FA_W_VALUE, m);
    }
}

/* the sum, then one step on; n is a multiple of FA_LANE */
FA_FUNC fa_cdd fa_wide_step(double *a, size_t n)
{
    double rh[FA_LANE] = {0.0}, rl[FA_LANE] = {0.0}, ih[FA_LANE] = {0.0}, il[FA_LANE] = {0.0};
    fa_cdd sum = {{0.0, 0.0}, {0.0, 0.0}};
    size_t start;
    int lane;
    for (start = 0; start < n; start += FA_LANE) {
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            size_t i = start + (size_t)lane;
            fa_cdd v = FA_WIDE_PAIR(FA_W_VALUE);
            fa_dd re = fa_dd_add(fa_dd_make(rh[lane], rl[lane]), v.re),
                  im = fa_dd_add(fa_dd_make(ih[lane], il[lane]), v.im);
            rh[lane] = re.hi;
            rl[lane] = re.lo;
            ih[lane] = im.hi;
            il[lane] = im.lo;
            v = fa_cdd_add(fa_cdd_mul(v, FA_WIDE_PAIR(FA_W_FACTOR)), FA_WIDE_PAIR(FA_W_ADD));
            FA_WIDE_SET_PAIR(FA_W_VALUE, v);
        }
    }
    for (lane = 0; lane < FA_LANE; lane++) {
        sum.re = fa_dd_add(sum.re, fa_dd_make(rh[lane], rl[lane]));
        sum.im = fa_dd_add(sum.im, fa_dd_make(ih[lane], il[lane]));
    }
    return sum;
}

/* rounding error of the sum over w, on the line of real part `u_re`, |u| <= u_max; and in *dropped what nodes of
 * underflowing weight would add. A fresh value: 64 of the terms, (exponent of the loss + 40) |u| (|l| + |off|) of
 * exp(s); 12 a step; n nodes of the sum */
FA_FUNC double fa_wide_rounding(const double *a, size_t n, const fa_block *block, int64_t j0, double h, double y,
                                double u_re, double u_max, double *dropped)
{
    const fa_pair *m = &block->pair;
    double sum = 0.0, less = 0.0, off = fabs(m->kappa - block->mean), lw = log(h / m->sigma) + 0.5 * y * y * m->inv_var;
    size_t i;
    FA_PRAGMA(omp simd reduction(+ : sum, less))
    for (i = 0; i < n; i++) {
        double x = (double)(j0 + (int64_t)i) * h, re = a[2 * FA_W_LOSS * n + i], im = a[(2 * FA_W_LOSS + 2) * n + i],
               size = lw - 0.5 * x * (x * m->inv_var);
        double terms = x <= block->cut
                           ? fa_exp_plain_v(fa_min(690.0, size)) + fa_exp_plain_v(fa_min(690.0, FA_FMA(u_re, re, size)))
                           : 0.0;
        double exponent = fabs(x) * m->inv_var + y * m->inv_var + fabs(m->p_log[0]);
        sum += terms * (64.0 + 0.05 * (double)n + (exponent + 40.0) * u_max * (fabs(re) + fabs(im) + 2.0 * off) +
                        12.0 * FA_WIDE_SYNC);
        less += size - 0.5 * y * y * m->inv_var > -FA_WIDE_EXPONENT + 10.0 ? 0.0 : terms;
    }
    *dropped = less + 1e-290;
    return sum;
}

/* evaluate the line that fa_contour_evaluate has just found once more; delta is about exp(log_size) at eps.  0: not
 * possible, or no memory */
FA_FUNC int fa_wide_evaluate(fa_contour *run, double eps, double log_size)
{
    double u_re = fa_line_u(run, run->c), h = run->h, sum = 0.0, amplified, room,
           u_max = sqrt(u_re * u_re + run->t_end * run->t_end), *points, *nodes = 0;
    size_t n = ((size_t)run->n + FA_LANE - 1) / FA_LANE * FA_LANE, i;
    int b, k, ok = 0;
    for (k = 0; k < run->n; k++)
        sum += exp(fa_min(690.0, run->zr[k] - (run->c - 1.0) * eps - log_size));
    amplified = log(1.0 + sum * h);
    if (!(amplified < 55.0)) /* 2^-80 */
        return 0;
    if (n > run->wide_capacity) {
        free(run->wide_memory);
        run->wide_memory = fa_alloc(sizeof(double) * 2 * FA_P_ARRAYS * n);
        run->wide_capacity = run->wide_memory ? n : 0;
        if (!run->wide_memory)
            return 0;
    }
    points = run->wide_memory;
    {
        double *a = points;
        FA_PRAGMA(omp simd)
        for (i = 0; i < n; i++) { /* 1/(u (u-1)) */
            double t = (double)i * h;
            fa_dd re = fa_dd_add(fa_two_prod(u_re, u_re - 1.0), fa_dd_neg(fa_two_prod(t, t))),
                  im = fa_dd_mul_d(fa_two_sum(u_re, u_re - 1.0), t), square;
            square = fa_dd_add(fa_dd_mul(re, re), fa_dd_mul(im, im));
            FA_WIDE_SET(FA_P_EXPONENT, fa_dd_make(0.0, 0.0));
            FA_WIDE_SET(FA_P_EXPONENT + 1, fa_dd_make(0.0, 0.0));
            FA_WIDE_SET(FA_P_OVER, fa_dd_div(re, square));
            FA_WIDE_SET(FA_P_OVER + 1, fa_dd_div(fa_dd_neg(im), square));
        }
    }
    room = amplified + log(1.0 + run->total) + 7.0;
    run->relative = run->wide_rounding = 0.0;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_pair *m = &block->pair;
        double left = (double)block->line.j0 * block->line.h,
               right = (double)(block->line.j0 + block->line.n - 1) * block->line.h, y, step, alias, error, dropped;
        double more = (sqrt(FA_WIDTH * FA_WIDTH + 2.0 * room) - FA_WIDTH) * m->sigma, mean = block->mean;
        int64_t j0;
        size_t nodes_n;
        step = fa_line_step(m, u_re, run->t_end, fa_line_need(run) + ceil(room) + ceil(fa_max(0.0, block->extra)), &y,
                            &alias);
        step = fa_from_bits(fa_bits(step) & ~((1ULL << 29) - 1));
        right = fa_min(right + more, block->cut);
        j0 = (int64_t)floor((left - more) / step);
        if (!(right / step - (double)j0 < FA_NODES_MAX))
            goto done;
        nodes_n = (size_t)(ceil(right / step) - (double)j0) + 1;
        nodes_n = (nodes_n + FA_LANE - 1) / FA_LANE * FA_LANE;
        if ((double)nodes_n * (double)n * FA_WIDE_COST > run->budget ||
            !(nodes = fa_alloc(sizeof(double) * 2 * FA_W_ARRAYS * nodes_n)))
            goto done;
        run->budget -= (double)nodes_n * (double)n * FA_WIDE_COST;
        fa_wide_nodes(nodes, nodes_n, block, j0, step, y, mean);
        if (!(fabs(u_re) *
                  fa_max(fabs(nodes[2 * FA_W_LOSS * nodes_n]), fabs(nodes[2 * FA_W_LOSS * nodes_n + nodes_n - 1])) <
              FA_WIDE_EXPONENT)) {
            free(nodes);
            goto done;
        }
        fa_wide_start(nodes, nodes_n, 0.0, h, 1);
        for (k = 0; k < run->n; k++) {
            double *a = points, t = k * h;
            fa_cdd r, log_m;
            if (k % FA_WIDE_SYNC == 0)
                fa_wide_start(nodes, nodes_n, u_re, t, 0);
            r = fa_wide_step(nodes, nodes_n);
            log_m = fa_clog1p_wide_v(r);
            run->inverse[k] = b ? fa_max(run->inverse[k], exp(-log_m.re.hi)) : exp(-log_m.re.hi);
            i = (size_t)k;
            log_m.re = fa_dd_mul_d(fa_dd_add(fa_two_prod(u_re, mean), log_m.re), block->count);
            log_m.im = fa_dd_mul_d(fa_dd_add(fa_two_prod(t, mean), log_m.im), block->count);
            FA_WIDE_SET_PAIR(FA_P_EXPONENT, fa_cdd_add(FA_WIDE_PAIR(FA_P_EXPONENT), log_m));
        }
        error = FA_WIDE * fa_wide_rounding(nodes, nodes_n, block, j0, step, y, u_re, u_max, &dropped) + dropped;
        error += fa_line_ends(block, (double)j0 * step, right, step, y, u_re, u_max, nodes[2 * FA_W_LOSS * nodes_n], 1);
        error += alias * block->size;
        run->relative += block->count * error;
        run->wide_rounding += block->count * u_max * fabs(mean);
        free(nodes);
    }
    run->wide = ok = 1;
done:
    if (!ok)
        run->n = 0; /* the ledger is no longer that of the plain line */
    return ok;
}

/* read the sum at eps: as fa_contour_read */
FA_FUNC void fa_wide_read(const fa_contour *run, double eps, fa_reading *out)
{
    size_t n = ((size_t)run->n + FA_LANE - 1) / FA_LANE * FA_LANE, start;
    double *a = run->wide_memory, c1 = run->c - 1.0, h = run->h, ref = run->zr[0] - c1 * eps, weighted = 0.0,
           sh[FA_LANE] = {0.0}, sl[FA_LANE] = {0.0}, dh[FA_LANE] = {0.0}, dl[FA_LANE] = {0.0};
    double wh[FA_LANE] = {0.0}, ph[FA_LANE] = {0.0}, peak = 0.0,
           base = run->wide_rounding + fabs(ref) + 30.0 + 0.05 * (double)n;
    fa_dd less = fa_dd_add_d(fa_two_prod(c1, eps), ref), s = {0.0, 0.0}, ds = {0.0, 0.0};
    int lane;
    for (start = 0; start < n; start += FA_LANE) {
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            size_t i = start + (size_t)lane;
            double t = (double)i * h, keep = i < (size_t)run->n ? i ? 1.0 : 0.5 : 0.0;
            fa_cdd f = FA_WIDE_PAIR(FA_P_EXPONENT), over = FA_WIDE_PAIR(FA_P_OVER);
            fa_dd e, c, sn, d;
            (void)fa_expm1_wide_v(fa_dd_add(f.re, fa_dd_neg(less)), &e);
            e = fa_dd_scale(e, keep);
            sn = fa_sincos_wide_v(fa_dd_add(f.im, fa_two_prod(run->sign > 0 ? -t : t, eps)), &c);
            {
                double growth, size = e.hi * sqrt(FA_FMA(over.re.hi, over.re.hi, over.im.hi * over.im.hi)),
                               inverse = i < (size_t)run->n ? run->inverse[i] : 0.0;
                (void)fa_exp_both_v(run->relative * inverse, &growth);
                ph[lane] = fa_max(ph[lane], inverse);
                wh[lane] += size * (growth + 64.0 * FA_WIDE * (fabs(f.re.hi) + fabs(f.im.hi) + (c1 + t) * eps + base));
            }
            f = fa_cdd_mul(fa_cdd_make(fa_dd_mul(e, c), fa_dd_mul(e, sn)), over);
            d = fa_dd_add(fa_dd_mul_d(f.re, c1), fa_dd_mul_d(f.im, run->sign > 0 ? -t : t));
            f.re = fa_dd_add(fa_dd_make(sh[lane], sl[lane]), f.re);
            d = fa_dd_add(fa_dd_make(dh[lane], dl[lane]), d);
            sh[lane] = f.re.hi;
            sl[lane] = f.re.lo;
            dh[lane] = d.hi;
            dl[lane] = d.lo;
        }
    }
    for (lane = 0; lane < FA_LANE; lane++) {
        s = fa_dd_add(s, fa_dd_make(sh[lane], sl[lane]));
        ds = fa_dd_add(ds, fa_dd_make(dh[lane], dl[lane]));
    }
    for (lane = 0; lane < FA_LANE; lane++) {
        weighted += wh[lane];
        peak = fa_max(peak, ph[lane]);
    }
    if (run->relative * peak > 1.0) { /* next to a zero of 1 + r: n factors instead of an exponential */
        size_t i;
        for (i = 0, weighted = 0.0; i < (size_t)run->n; i++) {
            fa_cdd f = FA_WIDE_PAIR(FA_P_EXPONENT), over = FA_WIDE_PAIR(FA_P_OVER);
            double size = exp(fa_min(f.re.hi - less.hi, 700.0)) * hypot(over.re.hi, over.im.hi) * (i ? 1.0 : 0.5);
            weighted += size * (fa_growth(run, run->inverse[i]) +
                                64.0 * FA_WIDE * (fabs(f.re.hi) + fabs(f.im.hi) + (c1 + (double)i * h) * eps + base));
        }
    }
    fa_reading_finish(run, eps, ref, s.hi, ds.hi, weighted, out);
}

#endif
