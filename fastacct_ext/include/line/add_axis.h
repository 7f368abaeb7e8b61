/* line/add_axis.h -- direction add of the sampled Gaussian: the loss of one step on the real axis, and where to
 * place the contour.
 *
 *   l = log(1 + w),  w = exp(log_odds + (z - 1/2)/sigma^2),  z ~ N(0, sigma^2)
 *       the loss of one step, less log(1 - q), never negative
 *   delta = E[(1 - exp(S - eta))_+],  S the sum of the steps' l,  eta = -steps log(1 - q) - eps
 *
 * Plain sums of real terms: they choose, and prove nothing.  docs/algorithms/add_line.md.
 */
#ifndef FA_ADD_AXIS_H
#define FA_ADD_AXIS_H

#include "window.h"

#define FA_ADD_AXIS 512 /* most nodes of the real axis */

typedef struct {
    double sigma, s2, inv_var, log_odds, q, steps;
    double end; /* largest loss, -steps log(1 - q): 3 u */
} fa_add_run;

typedef struct {
    int n;
    double first, h; /* z = first + i h */
    double *loss, *weight, *log_w;
} fa_add_axis;

typedef struct {
    double c, eta, psi2;     /* the saddle at c is that of eta; second derivative of the exponent */
    double log_g, log_delta; /* log G(c), and the saddle-point approximation of log delta */
} fa_add_saddle;

FA_FUNC void fa_add_run_set(fa_add_run *run, double sigma, double q, double steps)
{
    double kappa = log1p(-q);
    run->sigma = sigma;
    run->s2 = sigma * sigma;
    run->inv_var = 1.0 / run->s2;
    run->log_odds = log(q) - kappa;
    run->q = q;
    run->steps = steps;
    run->end = -steps * kappa;
}

/* the z with loss l > 0.   error a few u of sigma^2 (|log odds| + |log l|): for choices and the window's edge, which
 * has room */
FA_FUNC double fa_add_z(const fa_add_run *run, double l)
{
    double log_w = l > 30.0 ? l : log(expm1(l));
    return run->s2 * (log_w - run->log_odds) + 0.5;
}

/* fill the real axis for transforms whose mass begins right of z = from: trapezoid steps that leave about six digits */
FA_FUNC void fa_add_axis_fill(fa_add_axis *axis, const fa_add_run *run, double from)
{
    double s = run->sigma, left = fa_min(from, 0.0) - 7.0 * s, right = 1.0 + 7.5 * s;
    double h = fa_min(0.9 * s, 0.7 * run->s2), log_h;
    int i, n;
    h = fa_max(h, (right - left) / (FA_ADD_AXIS - 16));
    n = ((int)((right - left) / h) + 8) / 8 * 8;
    log_h = log(h / s) - FA_LOG_SQRT_2PI;
    axis->n = n;
    axis->first = left;
    axis->h = h;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double z = left + i * h, x = run->log_odds + (z - 0.5) * run->inv_var, lw = log_h - 0.5 * z * z * run->inv_var;
        axis->loss[i] = fa_log1p_plain_v(fa_exp_plain_v(-fabs(x))) + fa_max(x, 0.0);
        axis->log_w[i] = lw;
        axis->weight[i] = fa_exp_plain_v(lw);
    }
}

/* saddle-point approximation at c: the eta that has its saddle there, and delta */
FA_FUNC fa_add_saddle fa_add_at(const fa_add_axis *axis, const fa_add_run *run, double c)
{
    fa_add_saddle r;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, mean;
    const double *l = axis->loss, *w = axis->weight;
    int i, n = axis->n;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (i = 0; i < n; i++) {
        double e = w[i] * fa_exp_plain_v(-c * l[i]), el = e * l[i];
        s0 += e;
        s1 += el;
        s2 = FA_FMA(el, l[i], s2);
    }
    mean = s1 / s0;
    r.c = c;
    r.log_g = log(s0);
    r.eta = run->steps * mean + 1.0 / c + 1.0 / (c + 1.0);
    r.psi2 = run->steps * (s2 / s0 - mean * mean) + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0));
    r.log_delta = run->steps * r.log_g + c * r.eta - log(c) - log1p(c) - 0.5 * log(2.0 * FA_PI * r.psi2);
    return r;
}

/* the saddle of a given eta, or (eta NaN) the one where delta is about exp(log_delta), by Newton's method in log c;
 * 0 where none is found */
FA_FUNC int fa_add_find(const fa_add_axis *axis, const fa_add_run *run, double eta, double log_delta, double guess,
                        fa_add_saddle *out)
{
    double x = log(guess), low = -30.0, high = 90.0;
    int i, by_eta = eta == eta;
    for (i = 0; i < 60; i++) {
        fa_add_saddle r = fa_add_at(axis, run, exp(x));
        double width = r.c * r.c * r.psi2, rest = by_eta ? log(r.eta / eta) : r.log_delta - log_delta;
        double step = by_eta ? rest * r.c * r.eta / width : rest / width;
        if (!(fabs(step) < 1e300)) { /* nothing left of the transform: c is too large */
            high = x;
            x = 0.5 * (x + fa_max(low, x - 4.0));
            continue;
        }
        if (fabs(step) * sqrt(width) < 0.15 && (by_eta || fabs(rest) < 0.2)) {
            *out = r;
            if (!by_eta)
                out->eta = fa_max(r.eta - rest / r.c, 0.5 * r.eta);
            return 1;
        }
        if (rest > 0.0)
            low = x;
        else
            high = x;
        x += fa_max(-2.5, fa_min(2.5, step));
        if (!(x > low && x < high))
            x = 0.5 * (fa_max(low, high - 8.0) + fa_min(high, low + 8.0));
    }
    return 0;
}

/* log of sum exp(-c Re l) Q on the line turned by the angle phi, about: how far the modulus of a term exceeds what
 * it adds to G */
FA_FUNC double fa_add_turned(const fa_add_axis *axis, const fa_add_run *run, double c, double phi)
{
    double sum = 0.0, versine = 2.0 * sin(0.5 * phi) * sin(0.5 * phi);
    int i, n = axis->n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (i = 0; i < n; i++) { /* |1 + w e^(i phi)|^2 = (1 + w)^2 - 2 w versine */
        double l = axis->loss[i], e = fa_exp_plain_v(-l), less = fa_log1p_plain_v(-2.0 * versine * (1.0 - e) * e);
        sum += axis->weight[i] * fa_exp_plain_v(-c * (l + 0.5 * less));
    }
    return log(sum) + 0.5 * phi * phi * run->s2;
}

#endif
