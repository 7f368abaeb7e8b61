/* exact/threshold.h -- the threshold of the best test with a false-positive rate x: the e at which
 *
 *   V(e) = delta(e) + e^e x,   delta(-t) = 1 - e^-t + e^-t delta_other(t),   t > 0, with the other direction
 *
 * is least: where Q(loss > e) = -e^-e delta'(e) = x, left of 0 better Q(loss <= -t) = delta_other(t) - delta_other'(t)
 * = 1 - x.  A search: what is proved is proved by deltas there.
 */
#ifndef FA_EXACT_THRESHOLD_H
#define FA_EXACT_THRESHOLD_H

#include "exact_readout.h"

#define FA_TEST_CLOSE 1e-6 /* of log x: V is flat at its minimum, so that this loses 1e-12 of it */
#define FA_TEST_STEPS 60

/* |z| with Phi(-z) = x, to three digits (Abramowitz, Stegun 26.2.22); x <= 1/2 */
FA_INLINE double fa_test_quantile(double x)
{
    double y = sqrt(-2.0 * log(fa_max(x, 1e-300)));
    return fa_max(0.0, y - (2.30753 + 0.27061 * y) / (1.0 + y * (0.99229 + 0.04481 * y)));
}

/* log delta at t in the direction asked, or turned in the other one; scale: of t, where no slope is known */
FA_FUNC fa_test fa_test_at(fa_exact *e, double t, int turned, double scale)
{
    int asked = e->directions;
    fa_test out = e->zero[turned];
    if (t == 0.0 && out.log_delta <= 0.0)
        return out;
    if (turned && asked != FA_WAYS_BOTH)
        e->directions = FA_WAYS_BOTH - asked;
    out.log_delta = fa_exact_log_delta(e, t).upper;
    out.slope = e->slope;
    if (!(fabs(out.slope) < INFINITY) && out.log_delta > -INFINITY) {
        double step = 1e-4 * (t + scale), low = fa_max(0.0, t - step), rise = -fa_exact_log_delta(e, low).upper;
        rise += fa_exact_log_delta(e, t + step).upper;
        out.slope = rise > -INFINITY ? rise / (t + step - low) : -1.0 / step;
    }
    e->directions = asked;
    out.slope = out.slope < -1e-300 ? out.slope : -1e-300;
    if (t == 0.0)
        e->zero[turned] = out;
    return out;
}

/* log of the rate of the test with threshold t over x, or over 1 - x */
FA_FUNC double fa_test_gap(const fa_test *at, double x, double t, int turned)
{
    if (at->log_delta >= 0.0) /* nothing is known: go on */
        return INFINITY;
    return at->log_delta + (turned ? log1p(-at->slope) - log1p(-x) : log(-at->slope) - t - log(x));
}

/* 0 < x < 1; steep: how fast the log of the rate falls there, 0 at a kink */
FA_FUNC double fa_threshold(fa_exact *e, double x, double *steep_out)
{
    fa_test at = fa_test_at(e, 0.0, 0, 1e-3);
    double mu = 2.0 * fa_test_quantile(-0.5 * expm1(fa_min(at.log_delta, 0.0))), /* a Gaussian with that delta(0) */
        z = fa_test_quantile(fa_min(x, 1.0 - x)), first = mu * (x < 0.5 ? z : -z) - 0.5 * mu * mu, low = 0.0, high, t,
           last_t = 0.0, last_gap = NAN, best = 1.0, best_t = 0.0, value = 1.0;
    int i, turned = !(fa_test_gap(&at, x, 0.0, 0) > 0.0);
    *steep_out = 0.0;
    if (turned) {
        at = fa_test_at(e, 0.0, 1, 1e-3);
        if (!(fa_test_gap(&at, x, 0.0, 1) > 0.0))
            return 0.0;
        first = -first;
    }
    high = turned ? 745.0 : -log(x); /* beyond it 1 - V is below the smallest float, V above 1 */
    t = fa_min(fa_max(first, 0.1 * mu), high);
    for (i = 0; i < FA_TEST_STEPS; i++) {
        double gap, secant, next, fall, delta;
        at = fa_test_at(e, t, turned, mu);
        delta = exp(at.log_delta);
        value = turned ? -expm1(-t) + exp(-t) * (delta + x) : delta + exp(t) * x;
        if (value < best)
            best = value, best_t = t;
        gap = fa_test_gap(&at, x, t, turned);
        fall = turned ? -at.slope : 1.0 - at.slope;
        if (gap > 0.0)
            low = t;
        else
            high = t;
        secant = (last_gap - gap) / (t - last_t);
        *steep_out = secant < INFINITY && secant > 0.1 * fall ? secant : fall;
        next = t + gap / *steep_out;
        last_t = t;
        last_gap = gap;
        if (fabs(gap) < FA_TEST_CLOSE || high <= low * (1.0 + 1e-9) || high - low <= e->flat[0].spacing)
            break;
        t = next > low && next < high && !(i % 4 == 3 && i > 8) /* a slope may jump */
                ? next
                : 0.5 * (low + fa_min(high, 4.0 * low + mu));
    }
    if (high <= low || !(*steep_out > 1e-100) || best < value * (1.0 - 1e-6)) { /* an end, or nothing is known there */
        *steep_out = 0.0;
        t = best_t;
    }
    return turned ? -t : t;
}

#endif
