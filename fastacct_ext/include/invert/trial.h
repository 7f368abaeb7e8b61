/* invert/trial.h -- one parameter of a run of DP-SGD tried: on which side of a target (epsilon, delta), and how far. */
#ifndef FA_TRIAL_H
#define FA_TRIAL_H

#include "../kernels.h"
#include "../renyi/cells.h"
#include "sketch.h"

/* the question of a call, for Renyi DP */
FA_INLINE fa_renyi_ask fa_renyi_ask_of(const fa_question *ask)
{
    return (fa_renyi_ask){ask->quantity == FA_GIVE_DELTA, ask->conversion, ask->orders, ask->n_orders};
}

/* A run of DP-SGD, of which one parameter is wanted, and what it has to meet. */
typedef struct {
    double sigma, q, steps; /* the one that is wanted is written before it is read */
    fa_wanted wanted;
    double delta, eps;
    fa_exact *exact;       /* the exact accountant, or NULL: Renyi DP ... */
    fa_log_moment *moment; /* ... with its scratch */
    fa_renyi_ask renyi;
} fa_target;

/* What a parameter that was tried came to. */
typedef struct {
    double
        excess;   /* log(epsilon / target), or what stands for it; its sign is certified to be that of the difference */
    double log_a; /* Renyi: the best order, with which the next search may start */
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

/* fa_excess -- how far an epsilon is from its target; where one of them is 0, what stands for the logarithm. */
FA_INLINE double fa_excess(double eps, double target)
{
    if (eps <= target)
        return eps > 0.0 && target > 0.0 ? log(eps / target) - 1e-300 : -0.5;
    return target > 0.0 && eps < INFINITY ? log(eps / target) + 1e-300 : 1.0;
}

/* fa_try_exact -- a run by the exact accountant, from a cold start, as a caller would ask.
 *   why      in direction add no loss is above its end, and how far below it epsilon is need not be known */
FA_FUNC fa_trial fa_try_exact(const fa_target *run)
{
    fa_exact *e = run->exact;
    double eps, lower;
    fa_exact_set(e, run->sigma, run->q, run->steps);
    if (e->directions == FA_WAYS_ADD && e->end[1] * (1.0 + 8.0 * FA_EPS) <= run->eps)
        return (fa_trial){.excess = -0.5, .log_a = NAN};
    fa_exact_read(e, run->delta, FA_GIVE_EPSILON, &lower, &eps);
    return (fa_trial){.excess = fa_max(-2.0, fa_excess(eps, run->eps)), .log_a = NAN};
}

/* fa_is_sketched -- whether fa_try_sketch can tell something: several steps of a sampled Gaussian that is known. */
FA_INLINE int fa_is_sketched(const fa_target *t)
{
    int sampled = t->wanted == FA_FIND_SAMPLE_RATE || (t->q > 0.0 && t->q < 1.0);
    return t->exact && sampled && (t->wanted == FA_FIND_STEPS || t->steps > 1.0);
}

/* fa_try_sketch -- about the excess of the parameter x, direction remove; NAN where it is not to be had. */
FA_FUNC double fa_try_sketch(const fa_target *t, double x, fa_digits digits, fa_sketch_start *start)
{
    fa_target run = fa_with(t, x);
    fa_cap_work *work = t->exact->capped;
    if (!fa_cap_job_set(&work->job, run.sigma, run.q, run.steps))
        return NAN;
    return fa_sketch(work, t->eps, log(t->delta), digits, start);
}

/* fa_try_renyi -- a run by Renyi DP.
 *   needs    log_a: the order at which the search starts, NAN: none is known; then epsilon is as a caller is told it */
FA_FUNC fa_trial fa_try_renyi(const fa_target *run, double log_a)
{
    fa_run search = {.n = 1, .moment = run->moment, .steps = &run->steps, .log_a = log_a};
    fa_trial found;
    double order, eps;
    int status;
    fa_log_moment_init(run->moment, run->sigma, run->q);
    if (log_a == log_a) {
        eps = fa_run_read(&search, &run->renyi, run->delta, &order, &status);
        found.log_a = search.log_a;
    }
    else {
        eps = fa_cell_epsilon(run->moment, run->steps, run->delta, &run->renyi, &order, &status);
        found.log_a = log(order - 1.0);
    }
    found.excess = fa_excess(eps, run->eps);
    return found;
}

/* fa_try -- the parameter x.
 *   needs    log_a for Renyi DP */
FA_FUNC fa_trial fa_try(const fa_target *t, double x, double log_a)
{
    fa_target run = fa_with(t, x);
    return t->exact ? fa_try_exact(&run) : fa_try_renyi(&run, log_a);
}

/* fa_meets -- whether x meets the target, from a cold start. */
FA_FUNC int fa_meets(const fa_target *t, double x) { return fa_try(t, x, NAN).excess <= 0.0; }

#endif
