/* line/contour_tail.h -- what the points of a vertical line leave out: a majorant of |M| for all t beyond the last.
 * docs/algorithms/contour.md.
 */
#ifndef FA_CONTOUR_TAIL_H
#define FA_CONTOUR_TAIL_H

#include "placing.h"

/* whether a pair is one component against the noise alone, as a sampled Gaussian is */
FA_INLINE int fa_is_single(const fa_pair *m) { return m->n_p == 1 && m->n_q == 0 && m->slope == 0.0; }

/* The curve z = x + i sigma^2 Y(x) of fa_tail_majorant: Y rises from 0, where l is small, to `top`, at the scale where
 * t A(x) reaches (1 + sigma^2) top: about what decreases the sum most.  xp, xq: where it rises, on either side */
typedef struct {
    double top, xp, xq;
} fa_tail_curve;

FA_FUNC fa_tail_curve fa_tail_curve_of(const fa_pair *m, double t, double left, double right)
{
    double s2 = m->sigma * m->sigma, low = left, high = right, A, B;
    fa_tail_curve out = {(m->n_q ? 0.5 : 1.0) * fa_min(0.9, fa_max(2.0 / m->sigma, t / s2)), 0.0, -INFINITY};
    int i;
    if (fa_is_single(m)) {
        out.xp = s2 * (log((1.0 + s2) * out.top / t) - m->p_log[0]);
        return out;
    }
    for (i = 0; i < 40; i++) {
        double mid = 0.5 * (low + high);
        fa_pair_loss(m, mid, &A, &B);
        if (t * A > (1.0 + s2) * out.top)
            high = mid;
        else
            low = mid;
    }
    out.xp = high;
    low = left, high = right;
    for (i = 0; i < 40 && m->n_q; i++) {
        double mid = 0.5 * (low + high);
        fa_pair_loss(m, mid, &A, &B);
        if (-t * B > (1.0 + s2) * out.top)
            low = mid;
        else
            high = mid;
    }
    if (m->n_q)
        out.xq = low;
    return out;
}

/* sum of |exp(u l)| Q on the curve, nodes j h, j0 <= j <= j1 */
FA_FUNC double fa_tail_sum(const fa_pair *m, const fa_tail_curve *curve, double a, double t, double h, int64_t j0,
                           int64_t j1)
{
    double s2 = m->sigma * m->sigma, top = curve->top, xp = curve->xp, xq = curve->xq, sum = 0.0,
           base = m->log_q0 + log(h / m->sigma) - 0.918938533204672741780;
    int64_t j;
    if (fa_is_single(m)) {
        double mean = m->p_mean[0] * m->inv_var, lw = m->p_log[0], inv_var = m->inv_var, e_xp = xp * inv_var;
        int i, n = (int)(j1 - j0) + 1;
        FA_PRAGMA(omp simd reduction(+ : sum))
        for (i = 0; i < n; i++) {
            double x = (double)(j0 + i) * h, rise = 1.0 / (1.0 + fa_exp_plain_v(e_xp - x * inv_var)), y = top * rise,
                   dy = y * (1.0 - rise), li, lr;
            lr = fa_log1p_exp_v(FA_FMA(mean, x, lw), mean * s2 * y, &li);
            sum += fa_exp_plain_v(base - 0.5 * x * (x * inv_var) + 0.5 * s2 * y * y + a * lr - t * li) *
                   sqrt(1.0 + dy * dy);
        }
        return sum;
    }
    for (j = j0; j <= j1; j++) {
        double x = (double)j * h, up = 1.0 / (1.0 + exp((xp - x) * m->inv_var)),
               down = m->n_q ? 1.0 / (1.0 + exp((x - xq) * m->inv_var)) : 0.0;
        double y = s2 * top * (up + down), dy = top * (up * (1.0 - up) - down * (1.0 - down)), pi, qi, p, q, l, li;
        p = fa_log1p_sum(m->n_p, m->p_mean, m->p_log, m->inv_var, x, y, &pi);
        q = fa_log1p_sum(m->n_q, m->q_mean, m->q_log, m->inv_var, x, y, &qi);
        l = m->slope * x + m->offset + p - q;
        li = m->slope * y + pi - qi;
        sum += exp(fa_min(base - 0.5 * (x - y) * ((x + y) * m->inv_var) + q + a * l - t * li, 700.0)) *
               sqrt(1.0 + dy * dy);
    }
    return sum;
}

/* log of a bound of |E_Q exp(u l)| for all Im u >= t, u = a + i t, from one sum on a curve: Im l >= 0 there, so exp(-t
 * Im l) decreases in t.  one: E_Q exp(a l); log_slack: allowed error of the sum, relative to it */
FA_FUNC double fa_tail_majorant(const fa_block *block, double a, double t, double one, double log_slack)
{
    const fa_pair *m = &block->pair;
    double s2 = m->sigma * m->sigma, top, d, left, right, h, e_d, sum;
    fa_tail_curve curve;
    fa_pair_ends(m, a, &left, &right);
    right = fa_min(right, block->cut);
    if (a < 0.0) /* outside, |exp(u l)| <= 1 and the sum may be much smaller */
        left = fa_min(left, m->q_low - m->sigma * sqrt(FA_WIDTH * FA_WIDTH - 2.0 * fa_min(0.0, log(one))));
    curve = fa_tail_curve_of(m, t, left, right);
    top = curve.top;
    d = 0.5 * top;
    e_d = 0.5 * s2 * (1.2 * top + d) * (1.2 * top + d) + 1.3 * (1.0 + s2) * top * sin(d) + 2.0;
    if (m->n_q)
        e_d *= 2.5;
    h = s2 * 2.0 * FA_PI * d / (e_d - log_slack + log((1.0 + one) / one));
    if (!(right - left < h * FA_NODES_MAX))
        return INFINITY;
    sum = fa_tail_sum(m, &curve, a, t, h, (int64_t)floor(left / h), (int64_t)ceil(right / h));
    if (right == block->cut) { /* the curve's end, back to the real axis */
        double y = s2 * top / (1.0 + exp((curve.xp - right) * m->inv_var));
        sum += exp(fa_min(700.0, a * (block->cut_loss - m->kappa) - 0.5 * (right - y) * (right + y) * m->inv_var)) *
               (1.0 + y);
    }
    return log(sum + one * exp(log_slack) + 4e-16 * (a > 0.0 ? fa_max(1.0, one) : one)) + 1e-15;
}

/* what rounding may change in log of a bound of M^n, summed over blocks, |u| <= u_max */
FA_FUNC double fa_slop(const fa_contour *run, double u_max)
{
    double sum = 0.0;
    int b;
    for (b = 0; b < run->n_blocks; b++)
        sum += run->blocks[b].count * (u_max + 1.0) * (fabs(run->blocks[b].pair.kappa) + fabs(run->blocks[b].mean));
    return 64.0 * FA_EPS * sum;
}

/* log of the bound of what the sum leaves out beyond t, at eps = 0 */
FA_FUNC double fa_tail(const fa_contour *run, double t, const double *real_r)
{
    double a = fa_line_u(run, run->c),
           log_tail = -log(FA_PI * t) + 0.5 * (run->c * (run->c - 1.0) - t * t) * run->mu2 + 1e-9;
    int b;
    for (b = 0; b < run->n_blocks; b++)
        log_tail += run->blocks[b].count *
                    (a * run->blocks[b].pair.kappa +
                     fa_tail_majorant(run->blocks + b, a, t,
                                      (1.0 + real_r[b]) * exp(a * (run->blocks[b].mean - run->blocks[b].pair.kappa)),
                                      -6.0 - log(run->total) - 40.0 / run->total));
    return log_tail + fa_slop(run, fabs(a)) + 64.0 * FA_EPS * fabs(log_tail);
}

#endif
