/* line/many_tail.h -- what a line of the lattice leaves out: a majorant of |M| of one sampled Gaussian for all t beyond
 * the last point.  docs/algorithms/contour.md, "Different steps".
 */
#ifndef FA_MANY_TAIL_H
#define FA_MANY_TAIL_H

#include "many_place.h"

#define FA_MANY_SLACK 15.0 /* -log of the error of a step's tail, relative to M(a) */
#define FA_MANY_WIDTH 8.5  /* standard deviations beyond which the sum ends */

/* the ends of the sum for exponents with real part a > 1 or a < 0: beyond them exp(a l) Q falls by as many deviations.
 * Every iterate will do on the right, where A increases; on the left |exp(u l)| <= 1 for a < 0, and the sum may be
 * exp(log_one) */
FA_INLINE void fa_many_tail_ends(double sigma, double constant, double a, double log_one, double *left, double *right)
{
    double width = FA_MANY_WIDTH * sigma, inv_var = 1.0 / (sigma * sigma);
    int i;
    if (a > 0.0) {
        *left = -width;
        *right = a + width;
        for (i = 0; i < 8; i++)
            *right = a / (1.0 + exp(-(*right * inv_var + constant))) + width;
        *right = fa_max(*right, width);
        return;
    }
    *left = fa_min(a / (1.0 + exp(-(constant - width * inv_var))) - width,
                   -sigma * sqrt(FA_MANY_WIDTH * FA_MANY_WIDTH - 2.0 * fa_min(0.0, log_one)));
    *right = 1.0 + width;
}

/* log(1 + exp(ex + i ey)), branch free */
FA_INLINE double fa_log1p_exp_v(double ex, double ey, double *im_out)
{
    double w = fa_exp_plain_v(-fabs(ex)), c, s = fa_sincos_v(ey, &c), sign = ex > 0.0 ? -1.0 : 1.0, li,
           lr = fa_clog1p_v(w * c, sign * w * s, &li);
    *im_out = li + (ex > 0.0 ? ey : 0.0);
    return lr + fa_max(ex, 0.0);
}

/* Log of a bound of |M| for all Im u >= t, u = a + i t, of the step in a lane, from one sum on the curve z = x + i
 * sigma^2 Y(x), Y rising to `top` where t A(x) reaches (1 + sigma^2) top: Im l >= 0 there, so exp(-t Im l) decreases in
 * t.  The sum's own error is added */
FA_FUNC double fa_many_tail(const fa_many_group *g, int lane, double a, double t)
{
    double sigma = g->sigma[lane], s2 = sigma * sigma, inv_var = g->inv_var[lane], constant = g->constant[lane],
           one = (g->at_a[lane] + 2.0 * g->error[lane]) * exp(-a * g->kappa[lane]),
           top = fa_min(0.9, fa_max(2.0 / sigma, t / s2)), d = 0.5 * top, left, right, h, sum = 0.0, base,
           rises = log((1.0 + s2) * top / t) - constant, /* inv_var times where */
           grown = 0.5 * s2 * (1.2 * top + d) * (1.2 * top + d) + 1.3 * (1.0 + s2) * top * sin(d) + 2.0;
    int64_t j0;
    int i, n;
    fa_many_tail_ends(sigma, constant, a, log(one), &left, &right);
    h = s2 * 2.0 * FA_PI * d / (grown + FA_MANY_SLACK + log((1.0 + one) / one));
    if (!(right - left < h * FA_NODES_MAX))
        return INFINITY;
    j0 = (int64_t)floor(left / h);
    n = (int)((int64_t)ceil(right / h) - j0) + 1;
    base = log(h / sigma) - FA_LOG_SQRT_2PI;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (i = 0; i < n; i++) {
        double x = (double)(j0 + i) * h, rise = 1.0 / (1.0 + fa_exp_plain_v(rises - x * inv_var)), y = top * rise,
               dy = y * (1.0 - rise), li, lr = fa_log1p_exp_v(FA_FMA(inv_var, x, constant), y, &li);
        sum += fa_exp_plain_v(base - 0.5 * x * (x * inv_var) + 0.5 * s2 * y * y + a * lr - t * li) *
               sqrt(1.0 + dy * dy);
    }
    return a * g->kappa[lane] +
           log(sum + one * exp(-FA_MANY_SLACK) + 4e-16 * (a > 0.0 ? fa_max(1.0, one) : one)) + 1e-15;
}

#endif
