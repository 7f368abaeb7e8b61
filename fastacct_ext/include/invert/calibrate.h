/* invert/calibrate.h -- noise multiplier, sample rate or steps for a target (epsilon, delta), on the safe side.
 *
 * The value returned satisfies the target when it is checked with fa_run_read (or, for the exact accountant, with
 * fa_exact_read), bit for bit; where epsilon is tight, its neighbour at relative distance 1e-8 on the other side does
 * not.
 */
#ifndef FA_CALIBRATE_H
#define FA_CALIBRATE_H

#include "root.h"

#define FA_SIGMA_FROM 1e-6
#define FA_SIGMA_TO   1e12
#define FA_RATE_FROM  1e-30
#define FA_STEPS_TO   0x1p53

/* fa_squared_mu -- mu^2 of the Gaussian that about meets the target. */
FA_FUNC double fa_squared_mu(const fa_target *t)
{
    double l = -log(t->delta), mu = 2.0 * t->eps / (sqrt(2.0 * l + 2.0 * t->eps) + sqrt(2.0 * l));
    return fa_max(mu * mu, 1e-12);
}

/* fa_noise_multiplier -- the smallest sigma.
 *   status   FA_NOT_MET: none is enough, INFINITY;   0 where no noise is needed */
FA_FUNC double fa_noise_multiplier(const fa_target *t, int *status_out)
{
    fa_range range = {.low = FA_SIGMA_FROM, .high = FA_SIGMA_TO, .sign = 1};
    double v = fa_squared_mu(t), found;
    *status_out = FA_OK;
    if (!(t->steps > 0.0) || !(t->q > 0.0) || t->delta >= 1.0 || t->eps == INFINITY)
        return 0.0;
    if (!(t->delta > 0.0)) {
        *status_out = FA_NOT_MET;
        return INFINITY;
    }
    range.start = fa_max(1.0 / sqrt(log1p(v / (t->steps * t->q * t->q))), 0.3 / sqrt(1.0 + v));
    found = fa_solve(t, &range, status_out);
    return *status_out == FA_NOT_MET ? INFINITY : found;
}

/* fa_sample_rate -- the largest q in [0, 1].
 *   status   never fails: 0 where no rate is small enough */
FA_FUNC double fa_sample_rate(const fa_target *t, int *status_out)
{
    fa_range range = {.low = FA_RATE_FROM, .high = 1.0, .sign = -1};
    double x = 1.0 / (t->sigma * t->sigma), found;
    *status_out = FA_OK;
    if (!(t->steps > 0.0) || t->sigma == INFINITY || t->delta >= 1.0 || t->eps == INFINITY)
        return 1.0;
    if (!(t->delta > 0.0) || !(t->sigma > 0.0))
        return 0.0;
    range.start = sqrt(fa_squared_mu(t) / t->steps / fa_chi_square(x));
    range.start = fa_max(fa_min(range.start, range.high), range.low);
    found = fa_solve(t, &range, status_out);
    if (*status_out == FA_OK)
        return found;
    *status_out = FA_OK;
    return 0.0;
}

/* fa_steps_between -- the largest number of steps from low, which meets the target, to high, which does not:
 * interpolation in log T, with the excesses.
 *   returns  a number that was tried and meets it, or low */
FA_FUNC double fa_steps_between(const fa_target *t, double low, double high, double w_low, double w_high)
{
    double next, w;
    int i;
    for (i = 0; i < 200 && high - low > 1.0; i++) {
        next = 0.5 * (low + high);
        if (i % 3 != 2 && low >= 1.0)
            next = exp(log(low) + (log(high) - log(low)) * w_low / (w_low - w_high));
        next = floor(fa_max(low + 1.0, fa_min(high - 1.0, i % 3 == 1 ? next + 1.0 : next)));
        w = fa_try(t, next, NAN).excess;
        if (w <= 0.0) {
            low = next;
            w_low = w;
        }
        else {
            high = next;
            w_high = w;
        }
    }
    return low;
}

/* fa_steps_exact -- the largest number of steps by the exact accountant.
 *   returns  a number whose epsilon is certified as a caller would ask for it; 0 in the worst case
 *   why      sketches tell the number of direction remove, nearly always the smaller, to 1e-8: it is tried, and the
 *            next one only where that may do as well */
FA_FUNC double fa_steps_exact(const fa_target *t)
{
    fa_range range = {.low = 1.0, .high = FA_STEPS_TO, .sign = -1};
    double low = 0.0, high = 1.0, w_low = -1.0, w_high, about = INFINITY, longer = 0.3, x = 1.0 / (t->sigma * t->sigma);
    fa_secant s;
    range.start = fa_squared_mu(t) / (t->q * t->q) / fa_chi_square(x);
    if (t->eps > 0.0 && fa_approach(t, &range, &s)) {
        about = exp(s.log_x);
        high = floor(about);
        longer = 1e-7;
    }
    while (!((w_high = fa_try(t, high, NAN).excess) > 0.0)) {
        if (high >= FA_STEPS_TO || ((t->exact->directions & FA_WAYS_REMOVE) && high + 1.0 > about * (1.0 + 1e-7)))
            return high;
        low = high;
        w_low = w_high;
        high = fmax(high + 1.0, floor(high * exp(fa_min(3.0, longer - 2.5 * w_high))));
        high = fa_min(FA_STEPS_TO, high);
    }
    return fa_steps_between(t, low, high, w_low, w_high);
}

/* fa_steps_renyi -- the largest number of steps by Renyi DP: Newton on T, d eps/dT = rdp at the best order.
 *   why      all numbers that are tried share the nodes of (sigma, q) */
FA_FUNC double fa_steps_renyi(const fa_target *t)
{
    double steps = 1.0, order, eps, low = 0.0, high = INFINITY, next;
    fa_run run = {.n = 1, .moment = t->moment, .steps = &steps, .log_a = NAN};
    fa_moment m;
    int status, i;
    fa_log_moment_init(t->moment, t->sigma, t->q);
    for (i = 0; i < 200; i++) {
        eps = fa_cell_epsilon(t->moment, steps, t->delta, &t->renyi, &order, &status);
        if (eps <= t->eps)
            low = steps;
        else
            high = steps;
        if (high - low <= 1.0 || low >= FA_STEPS_TO)
            break;
        next = high < INFINITY ? floor(0.5 * (low + high)) : 2.0 * steps;
        if (t->renyi.conversion != FA_RULE_OPTIMAL && order == order && order > 1.0) {
            fa_run_at(&run, order - 1.0, &m, FA_SEARCH);
            next = floor(steps + (t->eps - eps) / (m.k / steps / (order - 1.0)));
            if (next == steps)
                next += eps <= t->eps ? 1.0 : -1.0;
        }
        if (next <= low)
            next = low + 1.0;
        if (next >= high)
            next = high - 1.0;
        if (i > 8 && i % 2) /* not a smooth epsilon: guard */
            next = high < INFINITY ? floor(0.5 * (low + high)) : 4.0 * steps;
        next = fa_max(fa_min(next, FA_STEPS_TO), 1.0);
        if (next <= low || next >= high)
            break;
        steps = next;
    }
    return low;
}

/* fa_max_steps -- the largest whole number of steps.
 *   status   never fails: INFINITY where any number meets the target, 0 where none does */
FA_FUNC double fa_max_steps(const fa_target *t, int *status_out)
{
    *status_out = FA_OK;
    if (!(t->q > 0.0) || t->sigma == INFINITY || t->delta >= 1.0 || t->eps == INFINITY)
        return INFINITY;
    if (!(t->delta > 0.0) || !(t->sigma > 0.0))
        return 0.0;
    return t->exact ? fa_steps_exact(t) : fa_steps_renyi(t);
}

/* fa_calibrate -- the parameter that is wanted. */
FA_FUNC double fa_calibrate(const fa_target *t, int *status_out)
{
    return t->wanted == FA_FIND_NOISE_MULTIPLIER ? fa_noise_multiplier(t, status_out)
           : t->wanted == FA_FIND_SAMPLE_RATE    ? fa_sample_rate(t, status_out)
                                                 : fa_max_steps(t, status_out);
}

#endif
