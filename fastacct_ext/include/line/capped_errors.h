/* line/capped_errors.h -- what the sums over the nodes of a capped line may be off by, block by block: quadrature,
 * rounding, and what lies beyond the nodes.  docs/algorithms/line.md has the inequalities. */
#ifndef FA_LINE_CAPPED_ERRORS_H
#define FA_LINE_CAPPED_ERRORS_H

#include "mixture_moduli.h"

/* sums of min(f1, f2) over cells of two steps, each function by its own chord (the cell lemma); beyond the nodes as a
 * geometric series of at most `beyond` cells */
FA_INLINE double fa_cap_cells(double *const *f, int n, double beyond)
{
    const double *f1 = f[0], *f2 = f[1];
    double sum = beyond * fa_min(f1[0], f2[0]), last;
    int j;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n - 1; j++)
        sum += 0.5 * fa_min(f1[j] + f1[j + 1], f2[j] + f2[j + 1]);
    last = fa_min(f1[n - 1], f2[n - 1]);
    return sum + beyond * last;
}

/* Moduli on Im xi = -eta (on +eta they are smaller: t Im l > 0) at every second node, for their integrals, with each
 * function's curvature added: -H'' <= b on a cell of step g implies integral <= chord exp(b g^2/8). |exp(s) - 1 - s| <=
 * min(E + 1 + x, x^2/2 max(1, E)), E = |exp(s)|, x = |s|;     |window| <= (left of its edge) + exp((y^2 - d^2)/(2
 * width^2))/2.  A block that is not split has no floor's window: it is as if its floor were beyond the nodes */
FA_INLINE void fa_cap_fill_moduli(fa_cap_block *block, const fa_cap_line *line, double t, double v_right,
                                  const int with_floor)
{
    fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const double *slope = s->slope, *bend = s->bend;
    double eta = block->strip, g = 2.0 * s->h, a = s->stretch, b1 = 1.0 - a, c = line->plan.tilt,
           u = sqrt(c * c + t * t), v_low = line->plan.low,
           most = fa_max(u, fa_max(fabs(v_right), with_floor ? v_low : 0.0)); /* |exponent|, of all moduli */
    double co = cos(eta), si = -sin(eta), s2 = block->sigma * block->sigma, odds = block->log_odds,
           half_inv = 0.5 * block->inv_var, kappa = block->kappa, mean = s->mean - kappa, start = s->start, h = s->h;
    double swell = 1.0 / (cos(0.5 * b1 * eta) * pow(cos(0.5 * eta), b1)),
           unit = log(g * s2 / block->sigma) - FA_LOG_SQRT_2PI, cells = exp(2.0 * g) * g * g / 8.0,
           bump = 0.5 + 0.5 / (eta * eta);
    double cap = w->cap, width = w->width, inv_cap = 0.5 / (width * width), plain = block->walled,
           floor_at = block->split ? w->floor : s->z[s->sum.n - 1] + 20.0 * w->floor_width,
           floor_width = with_floor ? w->floor_width : 1.0,
           inv_floor = with_floor ? 0.5 / (floor_width * floor_width) : 0.0;
    double *line1 = s->sum.vr, *line2 = s->sum.vi, *mean1 = s->sum.gr, *mean2 = s->sum.gi, *right = s->scratch,
           *large = s->scratch2, *low = s->large_r;
    int j, n = s->sum.n / 2;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double xi = start + 2 * j * h, xc = fa_min(xi, 200.0), e = fa_exp_plain_v(xc), pi,
               pr = fa_clog1p_v(e * co, e * si, &pi) + (xi - xc), lr = a * pr, li = a * pi, mi,
               mr = -fa_cexpm1_v(-fa_min(lr, 690.0), -li, &mi);
        double size = mr * mr + mi * mi, zr = s2 * (lr + 0.5 * fa_log_v(size) - odds) + 0.5,
               zi = s2 * (li + fa_angle_v(-mi, mr)), f_here = a * fa_exp_plain_v(xi - pr) / sqrt(size);
        double f = swell * slope[2 * j], ph = 2.0 * bend[2 * j], step = 1.5 * g * s2 * f, u0 = zr - cap,
               u1 = floor_at - zr, chi = 1.0 / (e + 1.0 / e), far = fabs(zr) + fabs(zi) + s2 * g * f;
        double e0 = fa_min(600.0, inv_cap * (zi * zi - u0 * u0)),
               b = s2 * f * f + far * f * ph + 3.0 * ph + most * a * chi + bump, q, eb, x, loss_r, loss, ek;
        b += u0 > -8.0 * width ? 2.0 * inv_cap * (s2 * s2 * f * f + (fabs(u0) + fabs(zi) + step) * s2 * f * ph) : 0.0;
        q = unit + half_inv * (zi * zi - zr * zr) + cells * b + (u0 < step ? 0.0 : e0);
        size = (u0 < step ? 1.0 + 0.5 * fa_exp_plain_v(e0) : 0.5) * f_here;
        ek = size * fa_exp_plain_v(fa_min(600.0, q));
        eb = size * fa_exp_plain_v(fa_min(600.0, q + c * (lr - mean) + t * fabs(li)));
        x = u * (lr + fabs(li) + fabs(mean));
        line1[j] = plain > 0.0 ? eb : eb + ek * (1.0 + x);
        line2[j] = plain > 0.0 ? eb : 0.5 * x * x * fa_max(ek, eb);
        right[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_right * (lr - mean)));
        loss_r = lr + kappa;
        loss = loss_r * loss_r + li * li;
        x = size * fa_exp_plain_v(fa_min(600.0, q + loss_r));
        mean1[j] = x + ek * (1.0 + sqrt(loss));
        mean2[j] = 0.5 * loss * fa_max(ek, x);
        if (with_floor) {
            double e1 = fa_min(600.0, inv_floor * (zi * zi - u1 * u1)), k1 = 0.5 * fa_exp_plain_v(e1),
                   more = u1 > -8.0 * floor_width
                              ? 2.0 * inv_floor * (s2 * s2 * f * f + (fabs(u1) + fabs(zi) + step) * s2 * f * ph)
                              : 0.0;
            double grow = fa_cap_swell(cells * more);
            large[j] = grow * (u1 < step ? 1.0 + k1 : k1) * eb;
            q += u1 > -step ? 0.0 : e1;
            low[j] = grow * size * (u1 > -step ? 1.0 + k1 : 0.5) *
                     (fa_exp_plain_v(fa_min(600.0, q)) + fa_exp_plain_v(fa_min(600.0, q + v_low * (lr - mean))));
        }
    }
}

FA_FUNC void fa_cap_moduli_of(fa_cap_block *block, const fa_cap_line *line, double t, double v_right, int with_floor,
                              fa_cap_cells_of *out)
{
    fa_cap_nodes *s = &block->nodes;
    double *right = s->scratch, *large = s->scratch2, *low = s->large_r;
    *out = (fa_cap_cells_of){{s->sum.vr, s->sum.vi}, {s->sum.gr, s->sum.gi}, {right, right},
                             {NULL, NULL},           {large, large},         {low, low}};
    if (with_floor)
        fa_cap_fill_moduli(block, line, t, v_right, 1);
    else
        fa_cap_fill_moduli(block, line, t, v_right, 0);
}

/* bounds of quadrature errors; out.right is for v <= `right` */
FA_FUNC fa_cap_moduli fa_cap_quadrature(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line, double t,
                                        double right)
{
    const fa_cap_nodes *s = &block->nodes;
    /* functions fall by 8 sigma f a unit of xi and more, f >= stretch */
    double alias, beyond = fa_max(1e4, 1.0 / (8.0 * block->sigma * s->stretch * s->h));
    fa_cap_moduli out = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {0.0}};
    fa_cap_cells_of f;
    int j, n = s->sum.n / 2;
    alias = fa_max(2.0 / expm1(2.0 * FA_PI * block->strip / s->h), 1e-240); /* what is cut off stays seen */
    block->family->moduli(block, line, t, right, job->has_floor, &f);
    out.line = alias * fa_cap_cells(f.line, n, beyond);
    out.mean = alias * fa_cap_cells(f.mean, n, beyond);
    out.right = alias * fa_cap_cells(f.right, n, beyond);
    out.back = f.back[0] ? alias * fa_cap_cells(f.back, n, beyond) : 0.0;
    if (job->has_floor) {
        out.large = alias * fa_cap_cells(f.large, n, beyond);
        for (j = s->seen / 2 + 2; j < n; j++) /* small losses end before */
            f.low[0][j] = 0.0;
        out.low = alias * fa_cap_cells(f.low, n, beyond);
    }
    return out;
}

/* |z| of a node and how far it is off, in u: s2 is that of a sampled Gaussian, whose z is computed from its loss, and 0
 * of others, whose nodes are exact */
FA_INLINE double fa_cap_place_off(const fa_cap_block *block, double s2, double z)
{
    double odds = block->log_odds;
    return fabs(z) + s2 * (14.0 + 6.0 * fabs(odds + (z - 0.5) * block->inv_var) + 2.0 * fabs(odds));
}

/* what the cap's window rounds at each node, in u, from its edge on */
FA_FUNC const double *fa_cap_window_off(const fa_cap_block *block)
{
    const fa_cap_nodes *s = &block->nodes;
    double inv_width = 1.0 / block->w.width, cap = fabs(block->w.cap), *out = s->scratch,
           s2 = block->family == &fa_sampled_family ? block->sigma * block->sigma : 0.0;
    int j;
    memset(out, 0, sizeof(double) * (size_t)s->edge);
    FA_PRAGMA(omp simd)
    for (j = s->edge; j < s->sum.n; j++)
        out[j] = 10.0 +
                 2.0 * (1.0 + fabs(fa_max(-9.0, s->x[j]))) * (fa_cap_place_off(block, s2, s->z[j]) + cap) * inv_width;
    return out;
}

/* Rounding of sum W (exp(u l) - 1 - u l) at |u| = c (near) and for |u| <= u_max (far): of weights, of losses, what z's
 * own makes of a window, and a phasor step as in contour.md; eight sums of n/8 terms.  Every entry grows at most like
 * |u|^2 */
FA_FUNC void fa_cap_rounding(const fa_cap_block *block, const fa_cap_line *line, double u_max, double steps,
                             fa_cap_errors *out)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const double *ls = s->sum.lr, *weight = s->sum.wr, *log_w = s->sum.log_w, *window = fa_cap_window_off(block);
    double c = line->plan.tilt, near_c = fabs(c), h = line->plan.h, shift = fabs(block->kappa - s->mean),
           near = 0.0, far = 0.0, terms = s->sum.n / 8.0;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : near, far))
    for (j = 0; j < n; j++) {
        double l = ls[j], al = fabs(l), x = u_max * al, y = near_c * al, d = fa_min(2.0, h * al);
        double wj = weight[j], m = fa_max(wj, fa_exp_plain_v(fa_min(690.0, log_w[j] + c * l))), fine = s->fine[j],
               loss = m * (s->slip[j] + 4.0 * al + 2.0 * shift), grow = 5.0 + 16.0 * d, add = (14.0 + steps) * wj * d;
        fine += grow * steps + terms + window[j];
        far += fa_min(0.5 * x * x * m, 2.0 * m + wj * x) * fine + fa_min(x, 2.0) * u_max * loss + add * x * steps;
        near += fa_min(0.5 * y * y * m, 2.0 * m + wj * y) * fine + fa_min(y, 2.0) * near_c * loss + add * y * steps;
    }
    out->near = FA_EPS * (near + (10.0 + w->off) * w->q_mass) + near_c * s->mean_error;
    out->far = FA_EPS * (far + (10.0 + w->off) * w->q_mass) + u_max * s->mean_error;
}

/* rounding of the large losses' sum D */
FA_FUNC double fa_cap_rounding_large(const fa_cap_block *block, const fa_cap_line *line, double u_max, double steps)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const double *ls = s->sum.lr, *log_w = s->sum.log_w, *zs = s->z, *xs = s->x, *above = s->above,
                 *window = fa_cap_window_off(block);
    double c = line->plan.tilt, shift = fabs(block->kappa - s->mean), cap = fabs(w->cap),
           s2 = block->family == &fa_sampled_family ? block->sigma * block->sigma : 0.0,
           scale = w->width / w->floor_width, offset = (w->cap - w->floor) / w->floor_width * FA_HALF_ROOT,
           inv_floor = 1.0 / w->floor_width, floor_at = fabs(w->floor), large = 0.0, terms = s->sum.n / 8.0;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : large))
    for (j = s->lifted; j < n; j++) {
        double l = ls[j], al = fabs(l), y = fabs(fa_min(9.0, xs[j] * scale + offset)), fine = 80.0 + terms + s->fine[j],
               z = fa_cap_place_off(block, s2, zs[j]);
        fine += window[j] + 2.0 * (1.0 + y) * (z + floor_at + cap) * inv_floor;
        large += above[j] * fa_exp_plain_v(fa_min(690.0, log_w[j] + c * l)) *
                 (fine + 9.0 * steps + u_max * (s->slip[j] + 10.0 * al + 2.0 * shift));
    }
    return FA_EPS * large;
}

/* walled: rounding of the plain sum of W exp(u l), relative to its node's weight */
FA_FUNC double fa_cap_rounding_plain(const fa_cap_block *block, const fa_cap_line *line, double u_max, double steps)
{
    const fa_cap_nodes *s = &block->nodes;
    const double *ls = s->sum.lr, *log_w = s->sum.log_w, *window = fa_cap_window_off(block);
    double c = line->plan.tilt, shift = fabs(block->kappa - s->mean), sum = 0.0, terms = s->sum.n / 8.0;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++) {
        double l = ls[j], al = fabs(l), fine = 80.0 + 9.0 * steps + terms + s->fine[j] + window[j],
               loss = s->slip[j] + 10.0 * al + 2.0 * shift;
        sum += fa_exp_plain_v(fa_min(690.0, log_w[j] + c * l)) * (fine + u_max * loss);
    }
    return FA_EPS * sum;
}

/* walled: what lies beyond the first and the last node of E_Q[exp(x l) keep], x < 0 or 1 */
FA_FUNC double fa_cap_plain_ends(const fa_cap_block *block, double x)
{
    const fa_cap_nodes *s = &block->nodes;
    int end = s->sum.n - 1;
    double mean = s->mean - block->kappa, last = s->sum.lr[end];
    if (x < 0.0) /* off the real line the loss may be less: |1 + w| >= 1 + w cos(strip) >= (1 + w)^cos(strip) */
        last = fa_max(last + s->stretch * log(cos(0.5 * block->strip)), (last + mean) * cos(block->strip) - mean);
    return fa_cap_plain_left(block, x) +
           (2.0 + 4.0 * block->strip / s->h) * exp(fa_min(600.0, s->sum.log_w[end] + x * last));
}

/* the errors of one block's B0 and D on the line */
FA_FUNC void fa_cap_count_errors(const fa_cap_block *block, const fa_cap_line *line, fa_cap_errors *errors)
{
    double t = line->n * line->plan.h, c = line->plan.tilt, u = sqrt(c * c + t * t),
           steps = fa_min(block->sync, line->n), ends;
    memcpy(errors->less, block->moduli.less, sizeof(errors->less));
    if (block->walled) {
        double b0 = exp(fa_min(600.0, block->k / block->steps - c * block->nodes.mean));
        ends = fa_cap_plain_ends(block, c);
        errors->near = fa_cap_rounding_plain(block, line, fabs(c), steps);
        errors->far = fa_cap_rounding_plain(block, line, u, steps);
        errors->fixed = block->moduli.line + ends;
        errors->mean = errors->large = 0.0;
        if (block->split)
            errors->large = fa_cap_rounding_large(block, line, u, steps) + block->moduli.large + ends +
                            2.0 * (fa_cap_unseen(block) + block->w.low_cut) * b0;
        return;
    }
    fa_cap_rounding(block, line, u, steps, errors);
    ends = block->family->ends(block, c, u, 2);
    errors->fixed = block->moduli.line + ends;
    errors->mean = block->moduli.mean + block->family->ends(block, 1.0, 1.0, 0) +
                   (block->grows ? 0.0 : block->w.q_mass); /* what P has less beyond such a cap is in no sum */
    errors->large = 0.0;
    if (block->split) {
        double b0 = exp(fa_cap_block_k(block, &block->nodes, c, 0, 0.0).k / block->steps - c * block->nodes.mean);
        errors->large = fa_cap_rounding_large(block, line, u, steps) + block->moduli.large + ends +
                        (fa_cap_unseen(block) + 2.0 * block->w.low_cut) * b0;
    }
}

/* the bounds of quadrature errors of every block, those for real exponents up to v */
FA_FUNC void fa_cap_measure(fa_cap_job *job, const fa_cap_line *line, double t, double v)
{
    int b;
    for (b = 0; b < job->n; b++)
        job->blocks[b].moduli = job->blocks[b].family->quadrature(job, job->blocks + b, line, t, v);
}

#endif
