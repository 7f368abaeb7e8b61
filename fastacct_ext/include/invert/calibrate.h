/* invert/calibrate.h -- inverses of fa_run_epsilon: noise_multiplier, steps, sample_rate for a target (epsilon, delta),
 * on the safe side.
 *
 * The value returned satisfies the target when it is checked with fa_run_epsilon (or, for the exact accountant,
 * fa_exact_eps), bit for bit; where epsilon is tight, its neighbour at relative distance 1e-8 on the other side does
 * not.  The final check is cold, as a caller would start it.
 */
#ifndef FA_CALIBRATE_H
#define FA_CALIBRATE_H

#include "../exact/exact_readout.h"

#define FA_CALIBRATION_WIDTH 3e-10

typedef struct {
    fa_log_moment *moment; /* scratch for one block */
    fa_conversion conversion;
    const double *orders;
    int n_orders;
    double sigma, q, steps, delta, target;
    int solve_for_q; /* which of sigma, q is x */
    double log_a;    /* best order of the last evaluation: warm start */
    fa_exact *exact; /* NULL: Renyi */
    int quick;       /* exact: short lines, and Renyi's bound where they do not do */
    int fell_back;   /* whether the last quick evaluation used it */
    int coarse;      /* exact: a few digits will do */
    double width;    /* exact: of the last interval of log epsilon, about */
} fa_target;

/* the same for the exact accountant: (log delta(target) - log delta) over d log delta/d log eps.  check: by eps itself,
 * as a caller would */
FA_FUNC double fa_exact_excess(fa_target *t, double sigma, double q, double steps, int check)
{
    double log_delta = log(t->delta), excess, eps, lower, scale;
    fa_interval r;
    fa_exact_set(t->exact, sigma, q, steps);
    t->exact->way[0].quick = t->exact->way[1].quick = t->quick && !check;
    if (t->coarse && !check)
        t->exact->way[0].tolerance = t->exact->way[1].tolerance = FA_COARSE;
    t->exact->way[0].wanted = t->exact->way[1].wanted = check ? NAN : log_delta;
    t->fell_back = 0;
    if (check) {
        fa_exact_read(t->exact, t->delta, FA_READ_EPSILON, &lower, &eps);
        return eps <= t->target ? -1.0 : 1.0;
    }
    r = fa_exact_log_delta(t->exact, t->target);
    if (!(r.upper < 0.0)) {
        /* delta far below the target may not be certifiable at this epsilon: epsilon at the target delta is */
        if (t->quick)
            eps = fa_exact_fallback(t->exact, t->delta, 0);
        else
            fa_exact_read(t->exact, t->delta, FA_READ_EPSILON, &lower, &eps);
        t->fell_back = 1;
        if (eps <= t->target)
            return t->quick ? -1e-3 : eps > 0.0 && t->target > 0.0 ? fa_max(-2.0, log(eps / t->target)) - 1e-300 : -0.5;
        return t->target > 0.0 && eps < INFINITY ? log(eps / t->target) : 1.0;
    }
    excess = r.upper - log_delta;
    scale = -t->exact->slope * t->target;
    t->width = (r.upper - r.lower) / fa_max(scale, 0.3);
    excess /= scale > 0.3 ? scale : scale > 0.0 || t->target == 0.0 ? 0.3 : 10.0;
    return excess > 0.0 ? fa_min(excess, 2.0) + 1e-300 : fa_max(excess, -2.0) - 1e-300;
}

/* certified log(epsilon / target), or what stands for it where one of them is 0: its sign is that of epsilon - target.
 * warm: start the order search where the last one ended */
FA_FUNC double fa_target_excess(fa_target *t, double x, int warm)
{
    fa_run run = {1, t->moment, &t->steps, warm ? t->log_a : NAN};
    double order, eps;
    int status;
    if (t->exact)
        return fa_exact_excess(t, t->solve_for_q ? t->sigma : x, t->solve_for_q ? x : t->q, t->steps, 0);
    fa_log_moment_init(t->moment, t->solve_for_q ? t->sigma : x, t->solve_for_q ? x : t->q);
    eps = fa_run_epsilon(&run, t->delta, t->conversion, t->orders, t->n_orders, &order, &status);
    t->log_a = run.log_a;
    if (eps <= t->target)
        return t->target > 0.0 && eps > 0.0 ? log(eps / t->target) - 1e-300 : -0.5;
    return t->target > 0.0 && eps < INFINITY ? log(eps / t->target) + 1e-300 : 1.0;
}

FA_INLINE int fa_check(fa_target *t, double x)
{
    return (t->exact ? fa_exact_excess(t, t->solve_for_q ? t->sigma : x, t->solve_for_q ? x : t->q, t->steps, 1)
                     : fa_target_excess(t, x, 0)) <= 0.0;
}

/* the same for the exact accountant where everything is smooth: secant steps in log x, a few digits first, one
 * direction (nearly always the larger), and a cold check of the answer.  NaN where that does not work out */
FA_FUNC double fa_solve_smooth(fa_target *t, double start, int sign, double x_min, double x_max)
{
    double lx = log(fa_min(fa_max(start, x_min), x_max)), before = NAN, w_before = NAN, slope = sign > 0 ? -1.2 : 0.8,
           x, margin;
    int i, n_fine = 0, directions = t->exact->directions;
    if (directions == (FA_ADD | FA_REMOVE))
        t->exact->directions = FA_REMOVE;
    t->coarse = 1;
    for (i = 0; i < 14; i++) {
        double w = fa_target_excess(t, exp(lx), 1), step;
        if (t->fell_back && t->coarse) { /* a few digits are not to be had */
            t->coarse = 0;
            continue;
        }
        if (t->fell_back || !(fabs(w) < 2.0))
            break;
        if (!t->coarse && t->quick && !(t->width < 1e-9)) { /* short lines do not do */
            t->quick = 0;
            continue;
        }
        n_fine += !t->coarse;
        if (lx != before && before == before) {
            double s = (w - w_before) / (lx - before);
            if (sign > 0 ? s < -0.1 && s > -20.0 : s > 0.05 && s < 20.0)
                slope = s;
        }
        step = -w / slope;
        before = lx;
        w_before = w;
        lx += fa_max(-0.7, fa_min(0.7, step));
        if (!(lx > log(x_min) && lx < log(x_max)))
            break;
        if (n_fine >= 2 && fabs(step) < 1e-7) {
            margin = fa_max(2e-11, 1e-3 * fabs(step));
            t->exact->directions = directions;
            t->coarse = 0;
            for (i = 0; i < 3; i++, margin *= 2.0) {
                x = exp(lx + sign * margin);
                if (fa_check(t, x))
                    return x;
            }
            return NAN;
        }
        if (fabs(step) < 3e-3)
            t->coarse = 0;
    }
    t->exact->directions = directions;
    t->coarse = 0;
    return NAN;
}

/* x with excess <= 0 next to the boundary.  sign = +1: excess falls with x (sigma), -1: it grows (q).  x stays in
 * [x_min, x_max]. Root finding in log x: bracket by steps as long as the excess, then regula falsi (Anderson-Bjorck)
 * guarded by bisection. */
FA_FUNC double fa_solve(fa_target *t, double start, int sign, double x_min, double x_max, int *status_out)
{
    double good, bad, f, x = fa_min(fa_max(start, x_min), x_max), w_good, w_bad, reach = 1.1, width = INFINITY;
    int i, side = 0;
    if (t->exact && t->quick) {
        double smooth = fa_solve_smooth(t, start, sign, x_min, x_max);
        if (smooth == smooth) {
            *status_out = FA_OK;
            return smooth;
        }
    }
    f = fa_target_excess(t, x, 0);
    if (t->exact && t->quick && t->fell_back) { /* Renyi's bound may lead far away */
        t->quick = 0;
        f = fa_target_excess(t, x, 0);
    }
    good = bad = x;
    w_good = w_bad = f;
    *status_out = FA_OK;
    /* epsilon falls at least like 1/sigma and grows at least like q^(1/2) near the targets of interest */
    while (w_bad <= 0.0) { /* towards the boundary */
        double factor = exp(reach * fa_min(fa_max(-w_bad, 1e-6), 1.0));
        good = bad;
        w_good = w_bad;
        if ((sign > 0 && good <= x_min) || (sign < 0 && good >= x_max)) {
            bad = good; /* the whole range is good: only the cold check is left */
            break;
        }
        bad = sign > 0 ? fa_max(good / factor, x_min) : fa_min(good * factor, x_max);
        reach *= 3.0;
        w_bad = fa_target_excess(t, bad, 1);
    }
    while (w_good > 0.0) {
        double factor = exp(reach * fa_min(fa_max(w_good, 1e-6), 1.0));
        bad = good;
        w_bad = w_good;
        if ((sign > 0 && bad >= x_max) || (sign < 0 && bad <= x_min)) {
            *status_out = FA_NOT_MET;
            return bad;
        }
        good = sign > 0 ? fa_min(bad * factor, x_max) : fa_max(bad / factor, x_min);
        reach *= 3.0;
        w_good = fa_target_excess(t, good, 1);
    }
    for (i = 0; i < 200 && fabs(log(good / bad)) > FA_CALIBRATION_WIDTH; i++) {
        double lg = log(good), lb = log(bad), next = lg - w_good * (lb - lg) / (w_bad - w_good),
               near = FA_CALIBRATION_WIDTH / 3.0;
        int slow = 0;
        if (i % 4 == 3) { /* epsilon may jump: bisect where the bracket has not halved */
            slow = fabs(lb - lg) > 0.5 * width;
            width = fabs(lb - lg);
        }
        if (slow || !(fabs(next - lg) <= fabs(lb - lg)))
            next = 0.5 * (lg + lb);
        /* a third of the wanted width beyond the root: the bracket can then close */
        if (fabs(next - lg) < near)
            next = lg + (lb > lg ? 1.0 : -1.0) * fa_min(near, 0.5 * fabs(lb - lg));
        else if (fabs(next - lb) < near)
            next = lb + (lg > lb ? 1.0 : -1.0) * fa_min(near, 0.5 * fabs(lb - lg));
        x = exp(next);
        if (x == good || x == bad)
            break;
        f = fa_target_excess(t, x, 1);
        if (f <= 0.0) {
            double keep = 1.0 - f / w_good;
            if (side == 1)
                w_bad *= keep > 0.0 ? keep : 0.5;
            good = x;
            w_good = f;
            side = 1;
        }
        else {
            double keep = 1.0 - f / w_bad;
            if (side == -1)
                w_good *= keep > 0.0 ? keep : 0.5;
            bad = x;
            w_bad = f;
            side = -1;
        }
    }
    if (t->quick && *status_out == FA_OK &&
        (t->fell_back || (t->exact && !(t->width < 1e-9)))) { /* once more with all means, from here */
        t->quick = 0;
        return fa_solve(t, good, sign, x_min, x_max, status_out);
    }
    for (i = 0; i < 40 && !fa_check(t, good); i++) /* cold check; the search may end an ulp elsewhere */
        good = sign > 0 ? fa_min(good * (1.0 + ldexp(1e-14, i)), x_max) : fa_max(good / (1.0 + ldexp(1e-14, i)), x_min);
    if (i == 40)
        *status_out = FA_NOT_MET;
    return good;
}

/* smallest sigma; 0 if no noise is needed, inf if no noise is enough */
FA_FUNC double fa_noise_multiplier(fa_target *t, int *status_out)
{
    double l = -log(t->delta), v, start;
    *status_out = FA_OK;
    if (!(t->steps > 0.0) || !(t->q > 0.0) || t->delta >= 1.0 || t->target == INFINITY)
        return 0.0;
    if (!(t->delta > 0.0)) {
        *status_out = FA_NOT_MET;
        return INFINITY;
    }
    v = 2.0 * t->target / (sqrt(2.0 * l + 2.0 * t->target) + sqrt(2.0 * l));
    v = fa_max(v * v, 1e-12);
    start = 1.0 / sqrt(log1p(v / (t->steps * t->q * t->q)));
    start = fa_max(start, 0.3 / sqrt(1.0 + v));
    t->solve_for_q = 0;
    start = fa_solve(t, start, 1, 1e-6, 1e12, status_out);
    return *status_out == FA_NOT_MET ? INFINITY : start;
}

/* largest q in [0, 1] */
FA_FUNC double fa_sample_rate(fa_target *t, int *status_out)
{
    double l = -log(t->delta), v, x = 1.0 / (t->sigma * t->sigma), start;
    *status_out = FA_OK;
    if (!(t->steps > 0.0) || t->sigma == INFINITY || t->delta >= 1.0 || t->target == INFINITY)
        return 1.0;
    if (!(t->delta > 0.0) || !(t->sigma > 0.0))
        return 0.0;
    v = 2.0 * t->target / (sqrt(2.0 * l + 2.0 * t->target) + sqrt(2.0 * l));
    start = sqrt(fa_max(v * v, 1e-12) / t->steps / (x < 30.0 ? expm1(x) : exp(fa_min(x, 300.0))));
    t->solve_for_q = 1;
    start = fa_solve(t, fa_max(fa_min(start, 1.0), 1e-30), -1, 1e-30, 1.0, status_out);
    if (*status_out == FA_NOT_MET) {
        *status_out = FA_OK;
        return 0.0;
    }
    return start;
}

/* the largest number of steps found, or a smaller one, whose epsilon is certified as a caller would ask for it; 0 in
 * the worst case */
FA_FUNC double fa_checked_steps(fa_target *t, double steps)
{
    double less = 1.0;
    while (steps > 0.0 && fa_exact_excess(t, t->sigma, t->q, steps, 1) > 0.0) {
        steps = fa_max(0.0, steps - less);
        less = fa_max(less * 4.0, ceil(1e-15 * steps));
    }
    return steps;
}

/* the same for the exact accountant: bracket, then interpolation in log T */
FA_FUNC double fa_max_steps_exact(fa_target *t, int *status_out)
{
    double lo = 0.0, hi = 1.0, w_lo = -1.0, w_hi, next;
    int i;
    *status_out = FA_OK;
    if (!(t->q > 0.0) || t->sigma == INFINITY || t->delta >= 1.0 || t->target == INFINITY)
        return INFINITY;
    if (!(t->delta > 0.0) || !(t->sigma > 0.0))
        return 0.0;
    for (i = 0;; i++) {
        w_hi = fa_exact_excess(t, t->sigma, t->q, hi, 0);
        if (w_hi > 0.0)
            break;
        lo = hi;
        w_lo = w_hi;
        if (hi >= 0x1p53)
            return fa_checked_steps(t, hi);
        hi = fa_min(0x1p53, fmax(hi + 1.0, floor(hi * exp(fa_min(3.0, 0.3 - 2.5 * w_hi)))));
    }
    for (i = 0; i < 200 && hi - lo > 1.0; i++) {
        next = i % 3 == 2 || lo < 1.0 ? 0.5 * (lo + hi) : exp(log(lo) + (log(hi) - log(lo)) * w_lo / (w_lo - w_hi));
        next = floor(fa_max(lo + 1.0, fa_min(hi - 1.0, i % 3 == 1 ? next + 1.0 : next)));
        {
            double w = fa_exact_excess(t, t->sigma, t->q, next, 0);
            if (w <= 0.0) {
                lo = next;
                w_lo = w;
            }
            else {
                hi = next;
                w_hi = w;
            }
        }
    }
    return fa_checked_steps(t, lo);
}

/* largest integer number of steps; all trial values share the nodes of (sigma, q).  Newton on T: d eps/dT = rdp at the
 * best order. */
FA_FUNC double fa_max_steps(fa_target *t, int *status_out)
{
    double steps = 1.0, order, eps, lo = 0.0, hi = INFINITY, next;
    fa_run run = {1, t->moment, &steps, NAN};
    fa_moment m;
    int status, i;
    *status_out = FA_OK;
    if (!(t->q > 0.0) || t->sigma == INFINITY || t->delta >= 1.0 || t->target == INFINITY)
        return INFINITY;
    if (!(t->delta > 0.0) || !(t->sigma > 0.0))
        return 0.0;
    fa_log_moment_init(t->moment, t->sigma, t->q);
    for (i = 0; i < 200; i++) {
        run.log_a = NAN;
        eps = fa_run_epsilon(&run, t->delta, t->conversion, t->orders, t->n_orders, &order, &status);
        if (eps <= t->target)
            lo = steps;
        else
            hi = steps;
        if (hi - lo <= 1.0 || lo >= 0x1p53)
            break;
        if (t->conversion != FA_OPTIMAL && order == order && order > 1.0) {
            fa_run_at(&run, order - 1.0, &m, FA_SEARCH);
            next = floor(steps + (t->target - eps) / (m.k / steps / (order - 1.0)));
            if (next == steps)
                next += eps <= t->target ? 1.0 : -1.0;
        }
        else
            next = hi < INFINITY ? floor(0.5 * (lo + hi)) : 2.0 * steps;
        if (next <= lo)
            next = lo + 1.0;
        if (next >= hi)
            next = hi - 1.0;
        if (i > 8 && i % 2) /* not a smooth epsilon: guard */
            next = hi < INFINITY ? floor(0.5 * (lo + hi)) : 4.0 * steps;
        next = fa_max(fa_min(next, 0x1p53), 1.0);
        if (next <= lo || next >= hi)
            break;
        steps = next;
    }
    return lo;
}

#endif
