/* renyi/order_search.h -- epsilon and delta of a composition from its log-moments, over continuous orders.
 *
 * For sum_i n_i K_i =: K the functions to minimise over a = alpha - 1 are quasi-convex with a monotone derivative:
 *
 *   epsilon  a^2 d eps/da = (a K' - K) + [log(1 + a)] + log delta
 *   delta    d log delta/da = K' - eps - [log(1 + 1/a)]               [ ]: for canonne_kamath_steinke alone
 *
 * A safeguarded Newton iteration in log a on the logarithm of the increasing side finds the one root
 * (docs/algorithms/order_search.md).  It is in plain doubles and proves nothing: every order gives a valid bound, and
 * the last one is evaluated with its ledger.
 */
#ifndef FA_ORDER_SEARCH_H
#define FA_ORDER_SEARCH_H

#include "conversion.h"
#include "log_moment.h"

#define FA_LOG_A_MIN (-36.0)
#define FA_LOG_A_MAX 25.3 /* alpha up to 1e11 */

typedef struct {
    int n;                 /* blocks of the history */
    fa_log_moment *moment; /* one per block */
    const double *steps;
    double log_a; /* where the last search ended; NAN: no guess */
} fa_run;

/* what is asked: epsilon at a delta or delta at an epsilon, by which conversion, at which orders */
typedef struct {
    int for_delta;
    fa_rule conversion;
    const double *orders; /* NULL: continuous search */
    int n_orders;
} fa_renyi_ask;

/* one question as the search sees it */
typedef struct {
    int for_delta;
    fa_rule conversion;
    double target; /* -log delta, or epsilon where delta is asked for */
} fa_aim;

/* total K of the run at order 1 + a; `certify` as in fa_log_moment_at */
FA_FUNC void fa_run_at(fa_run *run, double a, fa_moment *total, fa_need certify)
{
    fa_moment one;
    int i;
    memset(total, 0, sizeof(*total));
    for (i = 0; i < run->n; i++) {
        double n = run->steps[i];
        fa_log_moment *lm = &run->moment[i];
        if (!(n > 0.0))
            continue;
        if (a > lm->a_cap && a <= lm->a_limit)
            fa_log_moment_cache(lm, fa_min(fa_max(1.25 * a + 0.5, 1.0), lm->a_limit));
        fa_log_moment_at(lm, a, &one, certify);
        total->k += n * one.k;
        total->upper += n * one.upper;
        total->d1 += n * one.d1;
        total->d2 += n * one.d2;
        total->excess += n * one.excess;
        total->status |= one.status;
    }
    total->upper += total->upper * (2.0 + run->n) * FA_EPS;
}

/* caches once for a list of orders */
FA_FUNC void fa_run_share(fa_run *run, const double *orders, int n_orders)
{
    double top = 0.0;
    int i;
    for (i = 0; i < n_orders; i++)
        top = fa_max(top, orders[i] - 1.0);
    for (i = 0; i < run->n; i++) {
        fa_log_moment *lm = &run->moment[i];
        if (lm->a_limit > 0.0 && lm->a_cap < fa_min(top, lm->a_limit))
            fa_log_moment_cache(lm, fa_min(fa_max(top, 1.0), lm->a_limit));
    }
}

/* Start of the search, the smaller of two orders: the best one in the Gaussian-like regime, K ~ a (1+a) V/2, and the
 * one where the sampled bump, K ~ (1+a) (a/(2 sigma^2) + log q), takes over: the cliff behind it is steep, so a start
 * near it saves a long bisection. */
FA_FUNC double fa_guess_log_a(const fa_run *run, fa_aim aim)
{
    double v = 0.0, barrier = INFINITY, a;
    int i, k;
    for (i = 0; i < run->n; i++) {
        double n = run->steps[i], s = run->moment[i].mech.sigma, q = run->moment[i].mech.q, x = 1.0 / (s * s), b, log_q;
        if (!(n > 0.0) || !(q > 0.0) || !(x > 0.0))
            continue;
        v += n * q * q * fa_chi_square(x);
        log_q = log(q);
        b = fa_max(-2.0 * log_q / x, 0.1 * s);
        for (k = 0; k < 3; k++) {
            double weight = n * x * (1.0 + b) * (aim.for_delta ? 1.0 : 0.5 * b);
            b = fa_max(2.0 / x * (log(aim.target / weight) / (1.0 + b) - log_q), 0.1 * s);
        }
        barrier = fa_min(barrier, b);
    }
    a = aim.for_delta ? aim.target / v : sqrt(2.0 * aim.target / v);
    a = a > barrier ? barrier : a;
    a = log(a);
    return a == a ? fa_min(fa_max(a, FA_LOG_A_MIN), FA_LOG_A_MAX) : 0.0;
}

/* one function value and slope in u = log a; increasing in u, its root is the best order */
FA_INLINE double fa_balance(fa_aim aim, const fa_moment *m, double a, double *slope_out)
{
    int sharp = aim.conversion != FA_RULE_MIRONOV;
    double left, right, slope;
    if (aim.for_delta) {
        left = m->d1 / a;
        right = aim.target + (sharp ? log1p(1.0 / a) : 0.0);
        slope = m->d2 / fa_max(m->d1, 1e-300);
        slope += sharp ? 1.0 / ((1.0 + a) * right) : 0.0;
    }
    else {
        left = m->excess + (sharp ? log1p(a) : 0.0);
        right = aim.target;
        slope = (m->d2 + (sharp ? a / (1.0 + a) : 0.0)) / fa_max(left, 1e-300);
    }
    *slope_out = slope;
    return log(fa_max(left, 1e-300)) - log(right);
}

/* epsilon, or log delta, that a log-moment implies */
FA_INLINE double fa_implied(fa_aim aim, double k, double a)
{
    return aim.for_delta ? fa_log_delta_from(aim.conversion, k, a, aim.target)
                         : fa_eps_from(aim.conversion, k, a, -aim.target);
}

/* what a Newton step can still gain, relative to epsilon or to delta: half the step times the slope of what the search
 * minimises in log a */
FA_INLINE double fa_gain(fa_aim aim, const fa_moment *m, double a, double f, double step)
{
    double eps;
    if (aim.for_delta)
        return 0.5 * fabs(step * f) * a * (aim.target + (aim.conversion != FA_RULE_MIRONOV ? log1p(1.0 / a) : 0.0));
    eps = fa_implied(aim, m->k, a);
    return eps > 0.0 ? 0.5 * fabs(step * f) * aim.target / a / eps : 0.0;
}

/* ends at (nearly) the best order, with a certified total there; that of canonne_kamath_steinke for the optimal one.
 * A point is accepted when one more step could gain less than 1e-12 of the answer; a small |f| alone says little near
 * the cliff, where the slope jumps. */
FA_FUNC double fa_best_order(fa_run *run, fa_aim aim, fa_moment *total)
{
    double lo = FA_LOG_A_MIN, hi = FA_LOG_A_MAX, u = run->log_a == run->log_a ? run->log_a : fa_guess_log_a(run, aim),
           step, slope, f;
    fa_need need = FA_SEARCH;
    int i, settled = 0;
    if (aim.conversion == FA_RULE_OPTIMAL)
        aim.conversion = FA_RULE_CKS;
    for (i = 0; i < 100; i++) {
        double a = exp(u);
        fa_run_at(run, a, total, need);
        f = fa_balance(aim, total, a, &slope);
        if (f > 0.0)
            hi = u;
        else
            lo = u;
        step = -f / slope;
        /* on the cliff a flat part may hide just left: come down first */
        settled = fabs(f) < (slope < 1e3 ? 1e-2 : 1e-7) && fa_gain(aim, total, a, f, step) < 1e-12;
        if (settled && need == FA_BOTH) {
            run->log_a = u;
            return a;
        }
        if (settled)
            break;
        if (!(fabs(step) <= 2.0))
            step = f > 0.0 ? -2.0 : 2.0;
        need = fabs(f) < 1e-2 ? FA_BOTH : FA_SEARCH; /* the next point is probably the last */
        if (u + step <= lo || u + step >= hi) {
            if (hi - lo < 1e-14)
                break;
            step = fa_min(fa_max(0.5 * (lo + hi) - u, -3.0), 3.0);
        }
        u += step;
    }
    fa_run_at(run, exp(u), total, FA_BOUNDS);
    if (!settled && lo > FA_LOG_A_MIN) { /* the balance jumps: take the better side */
        fa_moment left;
        fa_run_at(run, exp(lo), &left, FA_BOUNDS);
        if (fa_implied(aim, left.upper, exp(lo)) < fa_implied(aim, total->upper, exp(u))) {
            *total = left;
            u = lo;
        }
    }
    run->log_a = u;
    return exp(u);
}

FA_INLINE int fa_run_is_free(const fa_run *run)
{
    int i;
    for (i = 0; i < run->n; i++)
        if (run->steps[i] > 0.0 && run->moment[i].mech.q > 0.0 && run->moment[i].mech.sigma < INFINITY)
            return 0;
    return 1;
}

FA_INLINE int fa_run_is_bare(const fa_run *run)
{
    int i;
    for (i = 0; i < run->n; i++)
        if (run->steps[i] > 0.0 && run->moment[i].mech.q > 0.0 && !(run->moment[i].mech.sigma > 0.0))
            return 1;
    return 0;
}

/* optimal conversion: the order that is best for canonne_kamath_steinke is not the best one; golden section around it
 */
FA_FUNC double fa_refine_optimal(fa_run *run, fa_aim aim, double value)
{
    fa_golden g = fa_golden_of(run->log_a - 1.5, run->log_a + 0.7);
    fa_moment total;
    int i;
    for (i = -2; i < 22; i++) {
        int at = i < 0 ? i + 2 : fa_golden_next(&g);
        fa_run_at(run, exp(g.at[at]), &total, FA_BOUNDS);
        g.value[at] = fa_implied(aim, total.upper, exp(g.at[at]));
    }
    return fa_min(value, fa_min(g.value[0], g.value[1]));
}

/* delta(0) = total variation <= sqrt(KL/2) (Pinsker) and <= sqrt(1 - e^-KL) (Bretagnolle-Huber), for any bound of KL: a
 * Renyi divergence of any order, with total its log-moment at 1 + a.  Orders near 1 carry more than the conversions of
 * Canonne et al. make of them. */
FA_INLINE double fa_total_variation(const fa_moment *total, double a)
{
    double kl = total->upper / a;
    return sqrt(fa_min(0.5 * kl, -expm1(-kl))) * (1.0 + 8.0 * FA_EPS);
}

/* KL of one step is at least this: 2 TV^2 with TV = q erf(1/(sqrt 8 sigma)) >= q min(0.6, 0.35/sigma) */
FA_INLINE double fa_variation_floor(const fa_sgm *m)
{
    double tv = m->q * fa_min(0.6, 0.35 / m->sigma);
    return 2.0 * tv * tv;
}

/* a delta below which the total variation cannot matter, from a lower bound of the KL divergence of the run */
FA_INLINE int fa_variation_matters_at(double kl, double delta) { return delta * delta >= 0.9 * fa_min(0.5 * kl, 0.3); }

FA_INLINE int fa_variation_matters(const fa_run *run, double delta)
{
    double kl = 0.0;
    int i;
    for (i = 0; i < run->n; i++)
        kl += run->steps[i] * fa_variation_floor(&run->moment[i].mech);
    return fa_variation_matters_at(kl, delta);
}

#define FA_ORDER_OF_KL   0x1p-40
#define FA_VARIATION_PAD 1e-13 /* of the logarithm of the total variation */

/* epsilon, or log delta, by the total variation where that is smaller than `value` */
FA_FUNC double fa_by_variation(fa_aim aim, double delta, const fa_moment *total, double a, double value)
{
    double variation = fa_total_variation(total, a);
    if (aim.for_delta)
        return fa_min(value, log(variation) + FA_VARIATION_PAD);
    return value > 0.0 && variation <= delta ? 0.0 : value;
}

/* the best of the orders that are given: epsilon, or log delta */
FA_FUNC double fa_run_listed(fa_run *run, const fa_renyi_ask *ask, fa_aim aim, double delta, double *order_out,
                             int *status_out)
{
    double best = INFINITY;
    fa_moment total;
    int i;
    fa_run_share(run, ask->orders, ask->n_orders);
    for (i = 0; i < ask->n_orders; i++) {
        double a = ask->orders[i] - 1.0, value;
        fa_run_at(run, a, &total, FA_BOUNDS);
        value = fa_implied(aim, total.upper, a);
        if (ask->conversion != FA_RULE_MIRONOV)
            value = fa_by_variation(aim, delta, &total, a, value);
        if (value < best) {
            best = value;
            *order_out = ask->orders[i];
            *status_out = total.status;
        }
    }
    return best;
}

/* the best of all orders */
FA_FUNC double fa_run_searched(fa_run *run, fa_aim aim, double delta, double *order_out, int *status_out)
{
    fa_moment total;
    double a = fa_best_order(run, aim, &total), first = fa_implied(aim, total.upper, a), best = first, known, value;
    *order_out = 1.0 + a;
    *status_out = total.status;
    if (aim.conversion == FA_RULE_OPTIMAL)
        best = fa_refine_optimal(run, aim, first);
    known = aim.for_delta ? best : first; /* what the total variation has to be better than */
    if (aim.conversion == FA_RULE_MIRONOV || (!aim.for_delta && !(known > 0.0)) ||
        !fa_variation_matters(run, aim.for_delta ? exp(fa_min(best, 0.0)) : delta))
        return best;
    fa_run_at(run, FA_ORDER_OF_KL, &total, FA_BOUNDS);
    value = fa_by_variation(aim, delta, &total, FA_ORDER_OF_KL, INFINITY);
    if (!(value < known + FA_VARIATION_PAD))
        return best;
    *order_out = 1.0 + FA_ORDER_OF_KL;
    *status_out = total.status;
    return value;
}

/* fa_run_read -- smallest epsilon that Renyi DP proves at a delta, which may be negative (callers clamp), or smallest
 * delta at an epsilon, at most 1.
 *   domain   0 <= delta <= 1, epsilon >= 0        result upper bound        status FA_OK | FA_LOOSE | FA_NOT_MET
 *   cost     about 2 us for one block             oracle reference.rdp_epsilon */
FA_FUNC double fa_run_read(fa_run *run, const fa_renyi_ask *ask, double target, double *order_out, int *status_out)
{
    fa_aim aim = {ask->for_delta, ask->conversion, ask->for_delta ? target : -log(target)};
    double best;
    *order_out = NAN;
    *status_out = FA_OK;
    if (fa_run_is_free(run) || (ask->for_delta ? target == INFINITY : target >= 1.0))
        return 0.0;
    if (!(ask->for_delta || target > 0.0) || fa_run_is_bare(run)) {
        *status_out = FA_NOT_MET;
        return ask->for_delta ? 1.0 : INFINITY;
    }
    best = ask->orders ? fa_run_listed(run, ask, aim, target, order_out, status_out)
                       : fa_run_searched(run, aim, target, order_out, status_out);
    if (ask->for_delta)
        return fa_delta_from_log(best);
    return best == best ? best : INFINITY;
}

#endif
