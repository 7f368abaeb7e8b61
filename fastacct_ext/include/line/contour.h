/* line/contour.h -- delta(eps) of a composed run by one vertical line in the complex plane, with every error bounded.
 *
 *   K(u) = sum over blocks of count * log E_Q[exp(u loss)],     v > 1 on the line,  u = v (remove) or 1 - v (add)
 *   delta(eps) = 1/(2 pi) Int F(t) dt,   F = exp(K(u) - (v-1) eps) / (v (v-1)),   v = c + i t
 *
 * The sum over t = k h, all k, is exactly  sum_k delta(eps + 2 pi k/h) exp((c-1) 2 pi k/h): all terms positive, so it
 * is never below delta, and Chernoff's bound at two other real points bounds the excess.  The rest of the ledger: the
 * tail of the sum beyond t_end (a majorant of |M| on a curved line, valid for all t >= t_end at once), the quadrature
 * error of M, rounding.  docs/algorithms/contour.md.
 */
#ifndef FA_CONTOUR_H
#define FA_CONTOUR_H

#include "contour_tail.h"

/* K and what divides it, at points first .. first+n-1, n a multiple of FA_RUN */
FA_INLINE void fa_contour_points(fa_contour *run, int first, int n)
{
    double a = fa_line_u(run, run->c), h = run->h, mu2 = run->mu2, *zr = run->zr + first, *zi = run->zi + first,
           *inverse = run->inverse + first;
    double re[64], im[64], size[64];
    int i, b;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double t = (first + i) * h;
        zr[i] = 0.5 * mu2 * (a * (a - 1.0) - t * t) -
                0.5 * (fa_log_v(FA_FMA(a, a, t * t)) + fa_log_v(FA_FMA(a - 1.0, a - 1.0, t * t)));
        zi[i] = mu2 * (a - 0.5) * t - (fa_angle_v(t, a) + fa_angle_v(t, a - 1.0));
        inverse[i] = size[i] = 0.0;
    }
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        double count = block->count, kappa = block->mean;
        for (i = 0; i < n; i += FA_RUN)
            fa_phasor_run(&block->line, re + i, im + i);
        FA_PRAGMA(omp simd)
        for (i = 0; i < n; i++) {
            double t = (first + i) * h, li, log_r = fa_clog1p_v(re[i], im[i], &li), lr = FA_FMA(a, kappa, log_r);
            li = FA_FMA(t, kappa, li);
            zr[i] += count * lr;
            zi[i] += count * li;
            size[i] += count * (fabs(lr) + fabs(li));
            inverse[i] = fa_max(inverse[i], fa_exp_plain_v(-log_r));
        }
    }
    for (i = 0; i < n && run->n_blocks > 1; i++)
        run->block_sum = fa_max(run->block_sum, size[i]);
}

/* E_Q of a bound of |exp(u l)|, l relative to its mean, on any line up to the Gaussian factor: the other mixture's
 * factor is at most 1. *spread_out: E_Q |l| */
FA_FUNC double fa_size_bound(const fa_block *block, double a, double one, double *spread_out)
{
    const fa_pair *m = &block->pair;
    const fa_nodes *s = &block->real;
    double off = m->kappa - block->mean, sum = 0.0, spread = 0.0, im;
    int i;
    for (i = 0; i < s->n; i++)
        spread += s->wr[i] * fabs(s->lr[i]);
    *spread_out = spread;
    if (m->n_q == 0 && m->slope == 0.0)
        return a > 0.0 ? one : exp(a * off);
    for (i = 0; i < s->n && (double)(s->j0 + i) * s->h <= block->cut; i++) {
        double x = (double)(s->j0 + i) * s->h,
               e = a * (off + m->slope * x + m->offset) - 0.5 * x * x * m->inv_var + m->log_q0;
        e += a > 0.0 ? a * fa_log1p_sum(m->n_p, m->p_mean, m->p_log, m->inv_var, x, 0.0, &im)
                     : (1.0 - a) * fa_log1p_sum(m->n_q, m->q_mean, m->q_log, m->inv_var, x, 0.0, &im);
        sum += exp(fa_min(e, 700.0));
    }
    return fa_max(one, 1.01 * sum * s->h / m->sigma * 0.39894228040143267794);
}

/* what the nodes from `left` to `right` leave out of the sums of exp(u l) - 1 - u l, or of exp(u l) - 1: left the mass
 * of Q, right the slope is below -8.5/sigma */
FA_FUNC double fa_line_ends(const fa_block *block, double left, double right, double h, double y, double a,
                            double u_max, double l_left, int first_order)
{
    const fa_pair *m = &block->pair;
    double s = m->sigma, off = m->kappa - block->mean, end, x = u_max * fabs(l_left), z_left = (left - m->q_low) / s,
           z_right, mass_right, tail, A, B;
    right = fa_min(right, block->cut);
    z_right = right / s;
    mass_right = 0.5 * exp(-0.5 * z_right * z_right); /* Phi(-z) < exp(-z^2/2)/2 */
    end = fa_pair_loss(m, right, &A, &B) + off;
    tail = first_order ? fa_min(2.0, fa_max(x, u_max * fabs(off))) : fa_min(0.5 * x * x, 2.0 + x);
    tail *= exp(-0.5 * z_left * z_left + fa_max(0.0, a > 0.0 ? a * l_left : log(block->size)));
    tail += mass_right * (1.0 + u_max * fabs(end) * 2.0 + (a > 0.0 ? 0.0 : exp(a * end)));
    if (a > 0.0)
        tail += 4.0 * fa_exp_plain_v(fa_min(690.0, a * end - 0.5 * z_right * z_right)) * fa_max(1.0, h / s);
    return exp(0.5 * y * y * m->inv_var) * tail;
}

/* nodes of every block for |Im u| up to t_max; r: 1 + r is M at c.  0: failure */
FA_FUNC int fa_contour_lay(fa_contour *run, double t_max, double *r)
{
    double a = fa_line_u(run, run->c), need = fa_line_need(run) - (FA_TOLERANCE - run->tolerance);
    int b;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        double left, right, y, h, d, dd, extra, spread;
        fa_pair_ends(&block->pair, a, &left, &right);
        right = fa_min(right, block->cut);
        r[b] = fa_real_sums(&block->real, a, right, &d, &dd);
        /* a < 0: the bounds use |exp(u l)| <= 1, M may be smaller */
        extra = a > 0.0 ? 0.0 : fa_max(0.0, log(fa_size_bound(block, a, 1.0 + r[b], &spread)) - log1p(r[b]));
        if (!(extra < 600.0))
            return 0;
        left = fa_min(left, block->pair.q_low - block->pair.sigma * sqrt(FA_WIDTH * FA_WIDTH + 2.0 * extra));
        block->extra = extra;
        h = fa_line_step(&block->pair, a, t_max, need + ceil(extra), &y, &block->error);
        if (!(r[b] < INFINITY) || !fa_nodes_fill(&block->line, &block->pair, h, y, left, right))
            return 0;
        fa_nodes_shift(&block->line, block->pair.kappa - block->mean);
        fa_nodes_cut(&block->line, block->cut);
        fa_phasors(&block->line, a, 0.0, run->h);
    }
    return 1;
}

/* whether the tail beyond one of the last eight points is below exp(log_tol) at eps: then the line ends there, and no
 * further than needed, since rounding grows with t */
FA_FUNC int fa_contour_ends(fa_contour *run, double eps, double log_tol, const double *r)
{
    double c1 = run->c - 1.0;
    int end = run->n - 1, last = end;
    while (last > 1 && last > end - 7 && run->zr[last - 1] - c1 * eps + log((last - 1) * run->h) < log_tol - 2.0)
        last--;
    for (; last <= end; last += 4) {
        run->t_end = last * run->h;
        run->log_tail = fa_tail(run, run->t_end, r);
        if (run->log_tail - c1 * eps < log_tol) {
            run->n = last + 1;
            return 1;
        }
    }
    return 0;
}

typedef enum { FA_LINE_FAILED, FA_LINE_DONE, FA_LINE_TOO_COARSE } fa_line_outcome;

/* points until the tail is below exp(log_tol) at eps.  TOO_COARSE: they go beyond t_max, and some nodes are not made
 * for that */
FA_FUNC fa_line_outcome fa_contour_run_points(fa_contour *run, double eps, double log_tol, int points_max, int sync,
                                              double t_max, const double *r)
{
    double a = fa_line_u(run, run->c), work = 0.0;
    int b, k, goal = 0;
    for (b = 0; b < run->n_blocks; b++)
        work += run->blocks[b].line.n;
    run->n = 0;
    run->block_sum = 0.0;
    for (k = 0; k < points_max; k += 8) {
        double t = (k + 7) * run->h;
        if ((double)k * work > fa_min(FA_WORK_MAX, run->budget) || !fa_contour_reserve(run, k + 8))
            return FA_LINE_FAILED;
        for (b = 0; b < run->n_blocks; b++) {
            if (k && k % sync == 0)
                fa_phasors(&run->blocks[b].line, a, k * run->h, run->h);
            if (t > t_max && run->blocks[b].line.y == 0.0)
                return FA_LINE_TOO_COARSE;
        }
        fa_contour_points(run, k, 8);
        run->n = k + 8;
        if (run->n >= goal && run->zr[k + 7] - (run->c - 1.0) * eps + log(t) < log_tol) {
            if (fa_contour_ends(run, eps, log_tol, r))
                return FA_LINE_DONE;
            goal = k + 8 + k / 6;
        }
    }
    return FA_LINE_FAILED;
}

/* what the sums over the nodes may be off by */
FA_FUNC void fa_contour_count_errors(fa_contour *run, int sync, const double *r)
{
    double a = fa_line_u(run, run->c), u_max = sqrt(a * a + run->t_end * run->t_end);
    int b;
    run->relative = 0.0;
    run->slop = fa_slop(run, run->right) + 64.0 * FA_EPS * (fabs(run->right_log) + fabs(run->left_log));
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_nodes *line = &block->line;
        double spread, error, off = block->pair.kappa - block->mean;
        block->size = fa_size_bound(block, a, 1.0 + r[b], &spread);
        block->size += 1.0 + 4.0 * u_max * (spread + fabs(off)); /* exp(u l) - 1 - u l */
        error = block->error * block->size + u_max * block->mean_error +
                FA_EPS * fa_rounding(line, &block->pair, off, a, u_max, run->h, fa_min(sync, (double)run->n));
        error += fa_line_ends(block, (double)line->j0 * line->h, (double)(line->j0 + line->n - 1) * line->h, line->h,
                              line->y, a, u_max, line->lr[0], 0);
        run->relative += block->count * error;
    }
}

/* evaluate the line for (c, h) until its tail is below exp(log_tol) at eps.  0: failure */
FA_FUNC int fa_contour_evaluate(fa_contour *run, double eps, double log_tol, int points_max)
{
    double guess = sqrt(60.0 / run->curvature) * 1.3, t_max, real_r[1], *r = real_r, *heap = 0, work = 0.0;
    int b, sync = run->total > 1e6 ? 16 : run->total > 1e4 ? 32 : 64;
    fa_line_outcome outcome = FA_LINE_FAILED;
    if (run->n_blocks > 1 && !(r = heap = fa_alloc(sizeof(double) * (size_t)run->n_blocks)))
        return 0;
    run->n = 0;
    for (t_max = 8.0; t_max < guess; t_max *= 2.0)
        ;
    while (fa_contour_lay(run, t_max, r) &&
           (outcome = fa_contour_run_points(run, eps, log_tol, points_max, sync, t_max, r)) == FA_LINE_TOO_COARSE)
        while (t_max < (run->n + 7) * run->h)
            t_max *= 4.0;
    for (b = 0; b < run->n_blocks; b++)
        work += run->blocks[b].line.n;
    run->budget -= (double)run->n * work * (1.0 + 20.0 / sync);
    if (outcome == FA_LINE_DONE)
        fa_contour_count_errors(run, sync, r);
    free(heap);
    return outcome == FA_LINE_DONE && run->relative * run->inverse[0] < 1e-3;
}

/* log of the sum, slope and ledger from the sum s, its derivative and the weighted errors, all times exp(-ref) */
FA_FUNC void fa_reading_finish(const fa_contour *run, double eps, double ref, double s, double ds, double weighted,
                               fa_reading *out)
{
    double h = run->h, spread = 2.0 * FA_PI / h, tail, alias;
    out->log_value = s > 0.0 ? ref + log(s * h / FA_PI) : -INFINITY;
    out->slope = s > 0.0 ? -ds / s : -1.0;
    tail = exp(fa_min(700.0, run->log_tail - (run->c - 1.0) * eps - out->log_value));
    out->relative = s > 0.0 ? 1.01 * weighted / s + 4.0 * FA_EPS * (2.0 + fabs(ref)) + tail +
                                  exp(fa_min(700.0, run->log_cut - out->log_value))
                            : INFINITY;
    alias = exp(fa_min(700.0, run->right_log - (run->right - 1.0) * eps - out->log_value)) /
            expm1((run->right - run->c) * spread);
    alias += exp(fa_min(700.0, run->left_log - (run->left - 1.0) * eps - out->log_value)) /
             expm1((run->c - run->left) * spread);
    out->alias = 1.0001 * alias * exp(fa_min(run->slop, 300.0));
}

/* relative error of F where each 1 + r is off by at most its share of `relative`, `inverse` = 1/|1 + r|: n factors (1 +
 * e/|1 + r|) */
FA_INLINE double fa_growth(const fa_contour *run, double inverse)
{
    double n = fa_max(run->total, 1.0);
    return expm1(fa_min(700.0, n * log1p(run->relative * inverse / n)));
}

/* what fa_contour_read sums of the errors, for lines that reach points next to a zero of 1 + r: n factors instead of an
 * exponential */
FA_FUNC double fa_weighted_far(const fa_contour *run, double eps, double ref)
{
    double weighted = 0.0, c1 = run->c - 1.0;
    int k;
    for (k = 0; k < run->n; k++) {
        double e = exp(fa_min(700.0, run->zr[k] - c1 * eps - ref)) * (k ? 1.0 : 0.5);
        weighted += e * (fa_growth(run, run->inverse[k]) +
                         8.0 * FA_EPS * (fabs(run->zr[k]) + fabs(run->zi[k]) + (c1 + k * run->h) * eps + 30.0));
    }
    return weighted;
}

/* read the sum at eps */
FA_FUNC void fa_contour_read(const fa_contour *run, double eps, fa_reading *out)
{
    double s = 0.0, ds = 0.0, weighted = 0.0, size = 0.0, peak = 0.0, c1 = run->c - 1.0, h = run->h,
           ref = run->zr[0] - c1 * eps, phase_sign = -run->sign * eps;
    const double *zr = run->zr, *zi = run->zi, *inverse = run->inverse;
    int k, n = run->n;
    FA_PRAGMA(omp simd reduction(+ : s, ds, weighted, size) reduction(max : peak))
    for (k = 0; k < n; k++) {
        double t = k * h, c, growth, e = fa_exp_plain_v(zr[k] - c1 * eps - ref),
               sn = fa_sincos_v(FA_FMA(phase_sign, t, zi[k]), &c);
        double half = k ? 1.0 : 0.5;
        e *= half;
        s = FA_FMA(e, c, s);
        ds += e * FA_FMA(c1, c, run->sign > 0 ? -t * sn : t * sn);
        size += e;
        peak = fa_max(peak, inverse[k]);
        (void)fa_exp_both_v(run->relative * inverse[k], &growth);
        weighted += e * (growth + 8.0 * FA_EPS * (fabs(zr[k]) + fabs(zi[k]) + (c1 + t) * eps + 30.0));
    }
    if (run->relative * peak > 1.0) /* far out, where |1 + r| is tiny */
        weighted = fa_weighted_far(run, eps, ref);
    weighted += (run->n_blocks > 1 ? FA_EPS * (4.0 + run->n_blocks) * run->block_sum * size
                                   : 0.0); /* a sum of many terms */
    fa_reading_finish(run, eps, ref, s, ds, weighted, out);
}

#endif
