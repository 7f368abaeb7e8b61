/* invert/trial.h -- one parameter of a run of DP-SGD tried: on which side of a target (epsilon, delta), and how far. */
#ifndef FA_TRIAL_H
#define FA_TRIAL_H

#include "../exact/exact_readout.h"
#include "../kernels.h"
#include "../renyi/cells.h"

/* A run of DP-SGD, of which one parameter is wanted, and what it has to meet. */
typedef struct {
    double sigma, q, steps; /* the one that is wanted is written before it is read */
    fa_wanted wanted;
    double delta, eps;
    fa_exact *exact;       /* the exact accountant, or NULL: Renyi DP ... */
    fa_log_moment *moment; /* ... with its scratch, conversion and orders (NULL: all) */
    fa_conversion conversion;
    const double *orders;
    int n_orders;
} fa_target;

/* How hard the exact accountant tries: a few digits; short lines, and Renyi's bound where these do not do; all means.
 */
typedef enum { FA_TRY_ROUGHLY, FA_TRY_QUICKLY, FA_TRY_FULLY } fa_effort;

/* What a parameter that was tried came to. */
typedef struct {
    double excess; /* about log(epsilon / target); its sign is certified to be that of epsilon - target */
    int fell_back; /* exact: whether delta could not be read, so that epsilon was */
    double width;  /* exact, where it was: about that of the interval of log epsilon */
    double log_a;  /* Renyi: the best order, with which the next search may start */
} fa_trial;

/* fa_with -- the target's run with x as the parameter that is wanted. */
FA_INLINE fa_target fa_with(const fa_target *t, double x)
{
    fa_target run = *t;
    switch (t->wanted) {
    case FA_FIND_NOISE_MULTIPLIER:
        run.sigma = x;
        break;
    case FA_FIND_SAMPLE_RATE:
        run.q = x;
        break;
    case FA_FIND_STEPS:
        run.steps = x;
    }
    return run;
}

/* fa_excess_of_epsilon -- the excess by epsilon at the target delta.
 *   needs    the run set, with this effort
 *   why      delta far below the target may not be certifiable at the target epsilon; this is */
FA_FUNC double fa_excess_of_epsilon(const fa_target *run, fa_effort effort)
{
    double eps, lower;
    if (effort == FA_TRY_FULLY)
        fa_exact_read(run->exact, run->delta, FA_READ_EPSILON, &lower, &eps);
    else
        eps = fa_exact_fallback(run->exact, run->delta, 0);
    if (!(eps <= run->eps))
        return run->eps > 0.0 && eps < INFINITY ? log(eps / run->eps) : 1.0;
    if (effort != FA_TRY_FULLY)
        return -1e-3;
    return eps > 0.0 && run->eps > 0.0 ? fa_max(-2.0, log(eps / run->eps)) - 1e-300 : -0.5;
}

/* fa_try_exact -- a run by the exact accountant: (log delta(eps) - log delta) over -d log delta/d log eps.
 *   why      one reading of delta costs less than epsilon does, and says as much near the target */
FA_FUNC fa_trial fa_try_exact(const fa_target *run, fa_effort effort)
{
    fa_exact *e = run->exact;
    fa_trial found = {.width = NAN, .log_a = NAN};
    double log_delta = log(run->delta), excess, scale;
    fa_interval r;
    fa_exact_set(e, run->sigma, run->q, run->steps);
    e->way[0].quick = e->way[1].quick = effort != FA_TRY_FULLY;
    if (effort == FA_TRY_ROUGHLY)
        e->way[0].tolerance = e->way[1].tolerance = FA_COARSE;
    e->way[0].wanted = e->way[1].wanted = log_delta;
    r = fa_exact_log_delta(e, run->eps);
    if (!(r.upper < 0.0)) {
        found.fell_back = 1;
        found.excess = fa_excess_of_epsilon(run, effort);
        return found;
    }
    excess = r.upper - log_delta;
    scale = -e->slope * run->eps;
    found.width = (r.upper - r.lower) / fa_max(scale, 0.3);
    excess /= scale > 0.3 ? scale : scale > 0.0 || run->eps == 0.0 ? 0.3 : 10.0;
    found.excess = excess > 0.0 ? fa_min(excess, 2.0) + 1e-300 : fa_max(excess, -2.0) - 1e-300;
    return found;
}

/* fa_try_renyi -- a run by Renyi DP; where epsilon or its target is 0, what stands for the logarithm.
 *   needs    log_a: the order at which the search starts, NAN: none is known; then epsilon is as a caller is told it */
FA_FUNC fa_trial fa_try_renyi(const fa_target *run, double log_a)
{
    fa_run search = {.n = 1, .moment = run->moment, .steps = &run->steps, .log_a = log_a};
    fa_trial found = {.width = 0.0};
    double order, eps;
    int status;
    fa_log_moment_init(run->moment, run->sigma, run->q);
    if (log_a == log_a) {
        eps = fa_run_epsilon(&search, run->delta, run->conversion, run->orders, run->n_orders, &order, &status);
        found.log_a = search.log_a;
    }
    else {
        eps = fa_cell_epsilon(run->moment, run->steps, run->delta, run->conversion, run->orders, run->n_orders, &order,
                              &status);
        found.log_a = log(order - 1.0);
    }
    if (eps <= run->eps)
        found.excess = run->eps > 0.0 && eps > 0.0 ? log(eps / run->eps) - 1e-300 : -0.5;
    else
        found.excess = run->eps > 0.0 && eps < INFINITY ? log(eps / run->eps) + 1e-300 : 1.0;
    return found;
}

/* fa_try -- the parameter x.
 *   needs    effort for the exact accountant, log_a for Renyi DP */
FA_FUNC fa_trial fa_try(const fa_target *t, double x, fa_effort effort, double log_a)
{
    fa_target run = fa_with(t, x);
    return t->exact ? fa_try_exact(&run, effort) : fa_try_renyi(&run, log_a);
}

/* fa_meets -- whether x meets the target, by epsilon itself and from a cold start, as a caller would ask. */
FA_FUNC int fa_meets(const fa_target *t, double x)
{
    fa_target run = fa_with(t, x);
    double lower, eps;
    if (!t->exact)
        return fa_try_renyi(&run, NAN).excess <= 0.0;
    fa_exact_set(t->exact, run.sigma, run.q, run.steps);
    t->exact->way[0].quick = t->exact->way[1].quick = 0;
    fa_exact_read(t->exact, t->delta, FA_READ_EPSILON, &lower, &eps);
    return eps <= t->eps;
}

#endif
