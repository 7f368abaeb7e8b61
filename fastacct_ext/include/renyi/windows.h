/* renyi/windows.h -- the nodes that matter at one order, summed, and the bound of what they leave out.
 *
 * docs/algorithms/quadrature.md.
 */
#ifndef FA_WINDOWS_H
#define FA_WINDOWS_H

#include "quadrature.h"

#define FA_MAX_NODES (1 << 15) /* beyond it Minkowski's bound answers */

/* omitted masses are handled relative to exp(shift), so that they mean something where M itself would overflow */
FA_INLINE double fa_shift(const fa_sums *s) { return s->s0 > 0.0 ? fa_max(s->reference, 0.0) : 0.0; }

/* absolute bound of the left tail: g <= max(alpha/2, 1) a x^2 there, x^2 <= q^2 min(1, y^2) */
FA_INLINE double fa_omitted_left(const fa_sgm *m, double a, double z_left, double shift)
{
    double y = (z_left - 0.5) * m->inv_var.hi, q = m->q;
    return fa_max(0.5 * (1.0 + a), 1.0) * a * q * q * fa_min(1.0, 1.1 * y * y) * FA_TAIL_MASS *
           (shift > 0.0 ? fa_exp_v(-shift, 0.0) : 1.0);
}

/* log of a majorant of the integrand at z >= 1/2, up to N's constant: a alpha/2 q^2 e^(2y) (1+x)^max(alpha-2, 0) N(z)
 */
FA_INLINE double fa_log_majorant(const fa_sgm *m, double a, double z)
{
    double posterior, s2 = m->sigma * m->sigma, loss = fa_sgm_loss_guess(m, z, &posterior);
    double y = (z - 0.5) / s2;
    return log(0.5 * a * (1.0 + a)) + 2.0 * (m->log_q_d + y) + fa_max(a - 1.0, 0.0) * loss - 0.5 * z * z / s2;
}

/* bound of the sum over all grid points beyond z_right >= max(alpha, 2) + 8 sigma, by one of three majorants of g N:
 *   alpha a/2 q^2 min(1, y)^2 e^(2y) (1+x)^max(alpha-2, 0) N;   (1+x)^alpha N;   a loss (1 + a loss/2) (1+x)^alpha N
 * for a < 1/4, loss > 2.7 They fall there at least geometrically, with ratio exp(-(8 - 2/8) h/sigma)
 * (docs/algorithms/quadrature.md). */
FA_INLINE double fa_omitted_right(const fa_sgm *m, double a, double z_right, double loss, double shift)
{
    double y = (z_right - 0.5) * m->inv_var.hi, exponent = -0.5 * z_right * z_right * m->inv_var.hi - shift,
           factor = 1.0000001;
    if (a >= 0.25 ? 0.5 * a * (1.0 + a) * loss * loss > 1.0
                  : loss > 2.7) { /* about where the second, or the third, is smaller */
        exponent += (1.0 + a) * loss;
        if (a < 0.25)
            factor *= a * loss * (1.0 + 0.5 * a * loss);
    }
    else {
        exponent += 2.0 * (m->log_q_d + y) + fa_max(a - 1.0, 0.0) * loss;
        y = fa_min(1.0, y);
        factor *= 0.5 * a * (1.0 + a) * y * y;
    }
    /* fa_exp_v clamps to [-700, 700]: upwards below, and exp(700) makes the ledger refuse the result */
    return factor * fa_exp_v(exponent, 0.0) * m->tail_unit;
}

FA_INLINE double fa_right_end(const fa_sgm *m, double a) { return fa_max(1.0 + a, 2.0) + FA_TAIL_WIDTH * m->sigma; }

/* distance walked from a mode until the majorant has dropped below `floor_value`; steps grow, so a wide mode costs few
 * evaluations */
FA_FUNC double fa_walk(const fa_sgm *m, double a, double mode, double direction, double floor_value, double end)
{
    double step = 0.5 * m->sigma, z = mode + direction * step;
    while (direction * (end - z) > 0.0 && fa_log_majorant(m, a, z) > floor_value) {
        step *= 1.05;
        z += direction * step;
    }
    return direction * (end - z) > 0.0 ? z : end;
}

/* nodes from z = begin to z1 and, where there are two windows, from z2 to the right end */
typedef struct {
    double begin, z1, z2;
    int two;
} fa_windows;

/* 2 + (alpha-2) p(z): the majorant rises at z where this is above z */
FA_INLINE double fa_majorant_pull(const fa_sgm *m, double a, double z)
{
    double p;
    fa_sgm_loss_guess(m, z, &p);
    return 2.0 + fa_max(a - 1.0, 0.0) * p;
}

/* the majorant's lowest mode from z below it, or (side -1) its highest from above, without passing it */
FA_FUNC double fa_majorant_mode(const fa_sgm *m, double a, double z, double side)
{
    int i;
    for (i = 0; i < 400; i++) {
        double next = fa_majorant_pull(m, a, z);
        if (!(side * (next - z) > 1e-3 * m->sigma))
            break;
        z = next;
    }
    return z;
}

/* The grid range(s) that matter at one order.
 *
 * The majorant's slope is (2 + (alpha-2) p(z) - z)/sigma^2 with p logistic: at most two modes.  Iterating z <- 2 +
 * (alpha-2) p(z) from below stays below the lowest mode, from above it stays above the highest.  Hence the majorant
 * rises left of `low` and falls right of `high`, and if it falls at z1 and rises at z2 > z1 it has one minimum between:
 * its values at the ends bound what is left out. */
FA_FUNC fa_windows fa_windows_of(const fa_sgm *m, double a, double left, double right)
{
    fa_windows w = {left, right, right, 0};
    double low, high, peak, drop;
    if (!(right - left > 2048.0 * m->h && a > 1.0))
        return w;
    low = fa_majorant_mode(m, a, 2.0, 1.0);
    high = fa_majorant_mode(m, a, 1.0 + a, -1.0);
    peak = fa_max(fa_log_majorant(m, a, low), fa_log_majorant(m, a, high));
    /* the majorant exceeds the integrand by up to alpha^2/2 where x is large */
    drop = peak - 40.0 - log1p((right - left) / m->h) - log(0.5 * a * (1.0 + a));
    if (high - low > 4.0 * m->sigma) {
        w.z1 = fa_walk(m, a, low, 1.0, drop, high);
        w.z2 = fa_walk(m, a, high, -1.0, drop, low);
        w.two = w.z2 > w.z1 && fa_majorant_pull(m, a, w.z1) < w.z1 && fa_majorant_pull(m, a, w.z2) > w.z2;
    }
    if (w.two)
        return w;
    w.z1 = fa_walk(m, a, high, 1.0, drop, right);
    w.z2 = right;
    w.begin = fa_walk(m, a, low, -1.0, drop, 1.0);
    if (w.begin <= 1.0)
        w.begin = left;
    return w;
}

/* sums over these, not cached, and the bound of what they leave out; 0: too many nodes */
FA_FUNC int fa_sum_windows(fa_sgm *m, double a, fa_sums *sums, double *omitted_out)
{
    double h = m->h, right = fa_right_end(m, a), left = -FA_TAIL_WIDTH * m->sigma, z, p, ends = -INFINITY, shift;
    fa_windows w;
    int64_t j0, j1, j2, j3;
    if (!(h > 0.0))
        return 0;
    w = fa_windows_of(m, a, left, right);
    if (!(right / h < 0x1p52))
        return 0;
    j0 = (int64_t)floor(w.begin / h);
    j1 = (int64_t)ceil(w.z1 / h) + 1;
    j2 = (int64_t)floor(w.z2 / h);
    j3 = (int64_t)ceil(right / h) + 1;
    if (j1 >= j3 || (w.two && j2 <= j1)) {
        j1 = j3;
        w.two = 0;
    }
    if ((j1 - j0) + (w.two ? j3 - j2 : 0) > FA_MAX_NODES)
        return 0;
    fa_sums_range(m, j0, j1, a, sums);
    if (w.two)
        fa_sums_range(m, j2, j3, a, sums);
    if (w.begin > left)
        ends = fa_log_majorant(m, a, (double)j0 * h);
    if (j1 < j3)
        ends = fa_max(ends, fa_log_majorant(m, a, (double)j1 * h));
    if (w.two)
        ends = fa_max(ends, fa_log_majorant(m, a, (double)j2 * h));
    z = (double)(j3 - 1) * h;
    shift = fa_shift(sums);
    *omitted_out = fa_omitted_right(m, a, z, fa_sgm_loss_guess(m, z, &p), shift);
    if (ends > -INFINITY)
        *omitted_out += 1.0000001 * m->unit * (double)(j3 - (int64_t)floor(left / h)) * fa_exp_v(ends - shift, 0.0);
    if (w.begin > left)
        *omitted_out += fa_max(0.5 * (1.0 + a), 1.0) * a * m->q * m->q *
                        fa_exp_v(-shift, 0.0); /* z < 1/2: x^2 <= q^2, mass at most 1 */
    else
        *omitted_out += fa_omitted_left(m, a, (double)j0 * h, shift);
    return 1;
}

#endif
