/* line/contour_read.h -- certified bounds of log delta(eps) and eps(delta) of a composed run, both directions.
 *
 * Every answer is checked: an upper bound of eps is a point where the upper bound of delta(eps) has been evaluated and
 * is not above the target, a lower bound one where the lower bound of delta is not below it.  What cannot be certified
 * is (0, inf) with FA_LOOSE.
 */
#ifndef FA_CONTOUR_READ_H
#define FA_CONTOUR_READ_H

#include "../num/interval.h"
#include "../loss/gaussian_profile.h"
#include "contour.h"

#define FA_GOOD      4.5e-10 /* relative error that is good enough at once ... */
#define FA_MANY      16  /* more blocks than these: their errors add up, another line is no better, and costs as much */
#define FA_CUT_SIGMA 1.5 /* below it M explodes only where delta has its mass */

/* delta by the line already evaluated */
FA_INLINE fa_interval fa_bounds_of(const fa_reading *r)
{
    fa_interval d;
    double pad = 8.0 * FA_EPS * (1.0 + fabs(r->log_value));
    d.upper = r->relative < 0.5 ? fa_min(0.0, r->log_value + log1p(r->relative) + pad) : 0.0;
    d.lower = r->relative + r->alias < 0.5 ? r->log_value + log1p(-r->relative - r->alias) - pad : -INFINITY;
    if (d.lower > 0.0) { /* delta is at most 1: a sum of rounding errors, to which its ledger is relative */
        d.lower = -INFINITY;
        d.upper = 0.0;
    }
    return d;
}

/* whether there is something to read: a line whose evaluation was finished */
FA_INLINE int fa_has_line(const fa_contour *run) { return run->n > 0; }

/* nothing to read any more: a line given up half way has no ledger of its errors */
FA_INLINE void fa_forget_line(fa_contour *run) { run->n = 0; }

/* fa_place without the promise that a line given up is forgotten */
FA_FUNC double fa_try_places(fa_contour *run, double eps, double log_delta, double log_size, int points_max)
{
    static const double margins[3] = {40.0, 160.0, INFINITY};
    double at = NAN, size = log_size, least = INFINITY;
    int level;
    for (level = 0; level < run->n_blocks; level++)
        least = fa_min(least, run->blocks[level].pair.sigma);
    for (level = run->sign < 0 || least < FA_CUT_SIGMA ? 2 : 0; level < 3; level++) {
        fa_contour_cut(run,
                       log_size == log_size     ? log_size
                       : log_delta == log_delta ? log_delta
                                                : -25.0,
                       level ? margins[level] : margins[0] * (1.0 + 10.0 / (least * least)));
        if (!fa_saddle(run, eps, log_delta, &at))
            continue;
        if (!(at >= 0.0)) {
            at = 0.0;
            if (!fa_saddle(run, 0.0, log_delta, &at))
                continue;
        }
        size = log_size;
        if (size != size) {
            size = run->saddle_k - (run->c - 1.0) * at - log(run->c) - log(run->c - 1.0) -
                   0.5 * log(2.0 * FA_PI * run->curvature);
            size = fa_min(size, -0.3);
        }
        if (fa_choose_step(run, at, size - run->tolerance) &&
            fa_contour_evaluate(run, at, size - run->tolerance, points_max))
            return at;
    }
    return NAN;
}

/* place the line for eps (or for the target log_delta when eps is NaN) and evaluate it; returns eps it was placed for,
 * or NaN, and then no line can be read.  log_size: what the errors are compared with, NaN: the saddle-point
 * approximation */
FA_FUNC double fa_place(fa_contour *run, double eps, double log_delta, double log_size, int points_max)
{
    double at;
    fa_forget_line(run);
    at = fa_try_places(run, eps, log_delta, log_size, points_max);
    if (!(at >= 0.0))
        fa_forget_line(run);
    return at;
}

/* a guess of eps where the saddle-point approximation has none to offer: the Gaussian's of the same curvature */
FA_FUNC double fa_guess_eps(fa_contour *run, double log_delta)
{
    double d1, d2, mu, low = 0.0, high;
    int i;
    fa_real_k(run, 1.0, &d1, &d2);
    mu = sqrt(d2);
    if (!(mu > 0.0) || !(mu < 1e3))
        return NAN;
    high = mu * (mu + sqrt(-2.0 * log_delta));
    for (i = 0; i < 12; i++) {
        double mid = 0.5 * (low + high);
        if (fa_gaussian_log_delta(mu, mid) <= log_delta)
            high = mid;
        else
            low = mid;
    }
    return high;
}

/* Newton's method on the line evaluated last, from *eps; *gap_out: about what is left of log delta, *r the last reading
 */
FA_FUNC void fa_newton(const fa_contour *run, double log_delta, double *eps, double *gap_out, fa_reading *r)
{
    int i;
    for (i = 0; i < 30; i++) {
        double step, gap;
        fa_contour_read(run, *eps, r);
        *gap_out = gap = fabs(r->log_value - log_delta);
        if (!(r->log_value > -INFINITY) || !(r->slope < 0.0) || !(r->relative + r->alias < 0.3) || gap < 1e-12)
            break;
        step = fa_max((log_delta - r->log_value) / r->slope, -*eps);
        if (fabs(step) <= 2.0 * FA_EPS * *eps)
            break;
        *eps += step;
        if (gap < 1e-6 && *eps > 0.0) { /* what is left is of the order of gap^2; the ends are checked */
            *gap_out = gap * gap;
            break;
        }
    }
}

/* checked bounds of eps next to an approximation, from the line evaluated last; 0 and [0, inf) where none are found */
FA_FUNC int fa_ends(const fa_contour *run, double log_delta, double eps, double gap, const fa_reading *at,
                    fa_interval *out)
{
    double start = fa_max((at->relative + at->alias + gap + 16.0 * FA_EPS * (1.0 + fabs(log_delta))) / -at->slope,
                          2.0 * FA_EPS * eps),
           pad = start;
    fa_reading r;
    int i;
    out->lower = 0.0;
    out->upper = INFINITY;
    for (i = 0; i < 7 && out->upper == INFINITY; i++, pad *= 2.0) {
        fa_contour_read(run, eps + 1.05 * pad, &r);
        if (fa_bounds_of(&r).upper <= log_delta)
            out->upper = eps + 1.05 * pad;
    }
    if (out->upper == INFINITY)
        return 0;
    for (i = 0, pad = start; i < 8 && eps - 1.05 * pad > 0.0 && out->lower == 0.0; i++, pad *= 2.0) {
        fa_contour_read(run, eps - 1.05 * pad, &r);
        if (fa_bounds_of(&r).lower >= log_delta)
            out->lower = eps - 1.05 * pad;
    }
    if (out->lower == 0.0) { /* eps may be 0 */
        fa_contour_read(run, 0.0, &r);
        if (fa_bounds_of(&r).upper <= log_delta)
            out->upper = 0.0;
    }
    return 1;
}

/* log delta at eps in one direction: each line's bounds hold, so do the narrowest of all */
FA_FUNC fa_interval fa_contour_log_delta(fa_contour *run, double eps, int points_max)
{
    fa_interval out = {-INFINITY, 0.0}, d;
    fa_reading r;
    double log_size = NAN;
    int i;
    for (i = 0; i < 6 && fa_place(run, eps, NAN, log_size, points_max) >= 0.0; i++) {
        fa_contour_read(run, eps, &r);
        d = fa_bounds_of(&r);
        out = fa_share(out, d);
        if (r.relative + r.alias < (run->tolerance < FA_TOLERANCE ? 10.0 * exp(-run->tolerance) : FA_GOOD) ||
            (r.log_value > -INFINITY && r.relative + r.alias < 0.3 && fabs(r.log_value - log_size) < 0.5))
            break;
        log_size = r.log_value > -INFINITY
                       ? fa_min(r.log_value, -0.3)
                       : (log_size == log_size ? log_size : -10.0) * 2.0; /* aimed at the wrong size */
    }
    return out;
}

/* eps at log delta from the line placed last, for eps = at: Newton's method, placing the line again where the guess was
 * far off */
FA_FUNC fa_interval fa_contour_eps_from(fa_contour *run, double log_delta, double at, int points_max)
{
    fa_interval none = {0.0, INFINITY}, out = none, d;
    fa_reading r;
    double eps, gap = INFINITY, good = run->n_blocks > FA_MANY ? 10.0 * FA_GOOD : FA_GOOD;
    int i, round;
    for (round = 0;; round++) {
        eps = at;
        fa_newton(run, log_delta, &eps, &gap, &r);
        if (eps == 0.0 && r.log_value < log_delta &&
            r.relative + r.alias < 0.3) { /* even delta(0) is below the target, it seems */
            d = fa_bounds_of(&r);
            if (!(d.upper <= log_delta) && fa_place(run, 0.0, NAN, r.log_value, points_max) >= 0.0) {
                fa_contour_read(run, 0.0, &r);
                d = fa_bounds_of(&r);
            }
            if (d.upper <= log_delta) {
                out.lower = out.upper = 0.0;
                return out;
            }
            gap = fabs(r.log_value - log_delta);
        }
        if (round == 6 ||
            (gap < 1e-3 && (r.relative + r.alias < good || (round > 0 && fabs(eps - at) * (run->c - 1.0) < 0.1))))
            break;
        if (gap < 1e-3 && r.relative < 1e-3 &&
            fa_ends(run, log_delta, eps, gap, &r, &d)) /* in case nothing better comes */
            none = d;
        /* the guess was far off: place the line again, lower when nothing could be read */
        if (!(r.relative + r.alias < 0.3))
            eps *= 0.6;
        at = fa_place(run, eps, NAN, log_delta, points_max);
        for (i = 0; i < 4 && !(at >= 0.0); i++) {
            eps *= 0.6;
            at = fa_place(run, eps, NAN, log_delta, points_max);
        }
        if (!(at >= 0.0))
            return none;
    }
    (void)fa_ends(run, log_delta, eps, gap, &r, &out);
    return fa_share(out, none);
}

/* eps at log delta in one direction: from the saddle-point approximation, or from another guess */
FA_FUNC fa_interval fa_contour_eps(fa_contour *run, double log_delta, int points_max)
{
    fa_interval none = {0.0, INFINITY};
    fa_reading r;
    double at = fa_place(run, NAN, log_delta, log_delta, points_max);
    if (at >= 0.0) {
        fa_contour_read(run, at, &r);
        if (!(r.relative + r.alias < 0.3))
            at = NAN;
    }
    if (!(at >= 0.0)) {
        at = fa_guess_eps(run, log_delta);
        at = fa_place(run, at >= 0.0 ? at : NAN, log_delta, log_delta, points_max);
    }
    return at >= 0.0 ? fa_contour_eps_from(run, log_delta, at, points_max) : none;
}

#endif
