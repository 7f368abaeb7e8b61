/* exact.h -- certified lower and upper bounds of log delta(eps) and eps(delta) of a composed run, both directions.
 *
 * Every answer is checked: an upper bound of eps is a point where the upper bound of delta(eps) has been evaluated and is not above the
 * target, a lower bound one where the lower bound of delta is not below it.  What cannot be certified is (0, inf) with FA_LOOSE.
 */
#ifndef FA_EXACT_H
#define FA_EXACT_H

#include "bent_path.h"
#include "gaussian_profile.h"

#define FA_GOOD 3e-10                  /* relative error that is good enough at once ... */
#define FA_LINE_POINTS 2000           /* a vertical line this long is given up for the bent path where that one applies */
#define FA_PRECISE_POINTS 20000       /* ... or for a second, more precise evaluation unless the line is already this long */

typedef struct {
    double lower, upper;
} fa_interval;

typedef enum { FA_ADD = 1, FA_REMOVE = 2 } fa_direction;

/* one sampled Gaussian step: profile in closed form (Balle, Barthe, Gaboardi 2018), its logarithm padded upwards.  -inf: exactly 0 */
FA_FUNC double fa_one_step_log_delta(double sigma, double q, int sign, double eps)
{
    double mu = 1.0 / sigma, k, e, pad;
    if (sign > 0) {
        e = eps > 690.0 ? eps - log(q) : log1p(expm1(eps) / q);
        pad = (eps > 690.0 ? 4.0 : 6.0) * FA_EPS * (e + 1.0);            /* error of e; d log delta/d e >= -(e/mu^2 + 1.5) or so */
        return fa_gaussian_log_delta(mu, e) + log(q) + pad * (e / (mu * mu) + 2.0 + 1.0 / mu) + 4.0 * FA_EPS * (1.0 - log(q));
    }
    k = q - (1.0 - q) * expm1(eps);
    if (!(k > 0.0))
        return -INFINITY;
    e = eps + log(q / k);
    /* k cancels near the largest loss: relative error 4 u (q + expm1 eps)/k */
    pad = 4.0 * FA_EPS * ((q + expm1(eps)) / k + e + 1.0);
    return fa_gaussian_log_delta(mu, e) + log(k) + pad * (e / (mu * mu) + 2.0 + 1.0 / mu);
}

/* its lower bound: the same less twice its padding */
FA_FUNC fa_interval fa_one_step(double sigma, double q, int sign, double eps)
{
    double mu = 1.0 / sigma, k, e = eps, pad = 0.0, scale = 0.0, a, log_delta;
    fa_interval r;
    if (q < 1.0 && sign > 0) {
        e = eps > 690.0 ? eps - log(q) : log1p(expm1(eps) / q);
        pad = 6.0 * FA_EPS * (e + 1.0);
        scale = log(q);
    }
    else if (q < 1.0) {
        k = q - (1.0 - q) * expm1(eps);
        if (!(k > 8.0 * FA_EPS * (q + expm1(eps)))) {
            r.lower = -INFINITY;
            r.upper = k > -8.0 * FA_EPS * (q + expm1(eps)) ? log(8.0 * FA_EPS * (q + expm1(eps))) + fa_gaussian_log_delta(mu, eps + log(q / (16.0 * FA_EPS * (q + expm1(eps))))) : -INFINITY;
            return r;
        }
        e = eps + log(q / k);
        pad = 4.0 * FA_EPS * ((q + expm1(eps)) / k + e + 1.0);
        scale = log(k);
    }
    log_delta = fa_gaussian_log_delta(mu, e);
    a = 0.5 * mu - e / mu;
    pad *= fabs(a) / mu + 2.0 + 1.0 / mu;                       /* |d log delta/d e| <= e^e Phi(a - mu)/delta <= (1 + |a|)/mu + 1 */
    pad += 4.0 * FA_EPS * (1.0 + fabs(scale));
    r.upper = fa_min(0.0, log_delta + scale + pad);
    /* the padding inside fa_gaussian_log_delta: 3e-14 + 128 u (r1 + r2)/bracket + 4 u (|a| + 1)(mu/2 + e/mu) + 4 u a^2, twice */
    r.lower = log_delta + scale - pad - 2.0 * (1e-13 + 4.0 * FA_EPS * (fabs(a) + 1.0) * (0.5 * mu + e / mu + 64.0 / mu) + 4.0 * FA_EPS * a * a);
    return r;
}

/* delta by the line already evaluated */
FA_INLINE fa_interval fa_bounds_of(const fa_reading *r)
{
    fa_interval d;
    double pad = 8.0 * FA_EPS * (1.0 + fabs(r->log_value));
    d.upper = r->relative < 0.5 ? fa_min(0.0, r->log_value + log1p(r->relative) + pad) : 0.0;
    d.lower = r->relative + r->alias < 0.5 ? r->log_value + log1p(-r->relative - r->alias) - pad : -INFINITY;
    return d;
}

FA_INLINE void fa_line_read(const fa_contour *run, double eps, fa_reading *out)
{
    if (run->on_bent)
        fa_bent_read(run->bent, eps, out);
    else
        fa_contour_read(run, eps, out);
}

/* place the line for eps (or for the target log_delta when eps is NaN) and evaluate it; returns eps it was placed for, NaN on failure.
 * log_size: what the errors are compared with, NaN: the saddle-point approximation */
FA_FUNC double fa_place(fa_contour *run, double eps, double log_delta, double log_size, int points_max)
{
    double at;
    int i, bendable;
    if (!fa_saddle(run, eps, log_delta, &at))
        return NAN;
    if (!(at >= 0.0)) {
        at = 0.0;
        if (!fa_saddle(run, 0.0, log_delta, &at))
            return NAN;
    }
    if (log_size != log_size) {
        log_size = run->saddle_k - (run->c - 1.0) * at - log(run->c) - log(run->c - 1.0) - 0.5 * log(2.0 * FA_PI * run->curvature);
        log_size = fa_min(log_size, -0.3);
    }
    bendable = run->n_blocks == 1 && run->sign > 0 && run->mu2 == 0.0 && run->blocks[0].pair.sample_rate > 0.0;
    run->on_bent = 0;
    for (i = bendable && run->total * run->blocks[0].pair.sample_rate < 0.05; i < 4; i++) {
        double saddle = run->c, k = run->saddle_k;
        if (i % 2 == 0 && fa_choose_step(run, at, log_size - FA_TOLERANCE) &&
            fa_contour_evaluate(run, at, log_size - FA_TOLERANCE, bendable && i == 0 ? FA_LINE_POINTS : points_max))
            return at;
        run->c = saddle;
        run->saddle_k = k;
        if (!bendable)
            return NAN;
        if (i == 1) {
            run->c = fa_bent_start(run, at);
            run->on_bent = run->bent && fa_bent_evaluate(run->bent, run, at, log_size - FA_TOLERANCE);
            if (run->on_bent)
                return at;
            run->c = saddle;
        }
    }
    return NAN;
}

/* log delta at eps in one direction */
FA_FUNC fa_interval fa_contour_log_delta(fa_contour *run, double eps, int points_max)
{
    fa_interval none = {-INFINITY, 0.0};
    fa_reading r;
    double log_size;
    int i;
    log_size = NAN;
    run->precise = 0;
    for (i = 0; i < 5; i++) {
        if (!(fa_place(run, eps, NAN, log_size, points_max) >= 0.0))
            return none;
        fa_line_read(run, eps, &r);
        if (r.relative + r.alias < FA_GOOD)
            break;
        if (r.log_value > -INFINITY && fabs(r.log_value - log_size) < 0.5) {
            if (run->precise || run->on_bent || run->n > FA_PRECISE_POINTS)
                break;
            run->precise = 1;
        }
        log_size = r.log_value > -INFINITY ? r.log_value : (log_size == log_size ? log_size : -10.0) * 2.0;   /* aimed at the wrong size */
    }
    return fa_bounds_of(&r);
}

/* eps at log delta in one direction */
FA_FUNC fa_interval fa_contour_eps(fa_contour *run, double log_delta, int points_max)
{
    fa_interval none = {0.0, INFINITY}, out = none, d;
    fa_reading r;
    double at, eps, pad;
    int i, round;
    run->precise = 0;
    at = fa_place(run, NAN, log_delta, log_delta, points_max);
    if (!(at >= 0.0))
        return none;
    for (round = 0;; round++) {
        eps = at;
        for (i = 0; i < 30; i++) {
            double step;
            fa_line_read(run, eps, &r);
            if (!(r.log_value > -INFINITY) || !(r.slope < 0.0) || !(r.relative + r.alias < 0.3))
                break;
            step = (log_delta - r.log_value) / r.slope;
            if (eps + step < 0.0)
                step = -eps;
            eps += step;
            if (fabs(step) * -r.slope < 1e-12 || fabs(step) <= 2.0 * FA_EPS * eps)
                break;
        }
        fa_line_read(run, eps, &r);
        if (fabs(r.log_value - log_delta) < 1e-3 && (r.relative + r.alias < FA_GOOD || (round > 0 && fabs(eps - at) * (run->c - 1.0) < 0.1))) {
            if (r.relative + r.alias < FA_GOOD || run->precise || run->on_bent || run->n > FA_PRECISE_POINTS)
                break;
            run->precise = 1;
        }
        if (round == 6)
            break;
        /* the guess was far off: place the line again, lower when nothing could be read */
        if (!(r.relative + r.alias < 0.3))
            eps *= 0.7;
        at = fa_place(run, eps, NAN, log_delta, points_max);
        if (!(at >= 0.0))
            return none;
    }
    pad = fa_max((r.relative + fabs(r.log_value - log_delta) + 16.0 * FA_EPS * (1.0 + fabs(log_delta))) / -r.slope, 2.0 * FA_EPS * eps);
    for (i = 0; i < 8; i++, pad *= 2.0) {
        double e = eps + 1.05 * pad;
        fa_line_read(run, e, &r);
        d = fa_bounds_of(&r);
        if (d.upper <= log_delta) {
            out.upper = e;
            break;
        }
        if (i == 7)
            return none;
    }
    fa_line_read(run, 0.0, &r);
    d = fa_bounds_of(&r);
    if (d.upper <= log_delta) {
        out.lower = out.upper = 0.0;
        return out;
    }
    fa_line_read(run, eps, &r);
    pad = fa_max((r.relative + r.alias + fabs(r.log_value - log_delta) + 16.0 * FA_EPS * (1.0 + fabs(log_delta))) / -r.slope, 2.0 * FA_EPS * eps);
    for (i = 0; i < 8 && eps - 1.05 * pad > 0.0; i++, pad *= 2.0) {
        double e = eps - 1.05 * pad;
        fa_line_read(run, e, &r);
        d = fa_bounds_of(&r);
        if (d.lower >= log_delta) {
            out.lower = e;
            break;
        }
    }
    return out;
}

#endif
