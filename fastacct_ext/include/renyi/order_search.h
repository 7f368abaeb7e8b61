/* renyi/order_search.h -- epsilon and delta of a composition from its log-moments, over continuous orders.
 *
 * For sum_i n_i K_i =: K the functions to minimise over a = alpha - 1 are quasi-convex with a monotone derivative:
 *   epsilon  a^2 d eps/da = (a K' - K) + [log(1+a)] + log delta       ([ ] for canonne_kamath_steinke, absent for
 * mironov) delta    d log delta/da = K' - eps - [log(1 + 1/a)] so a safeguarded Newton iteration in log a on the
 * logarithm of the increasing side finds the one root (docs/algorithms/order_search.md). The search is in plain doubles
 * and proves nothing: every order gives a valid bound, and the last one is evaluated with its ledger.
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
FA_FUNC double fa_guess_log_a(const fa_run *run, int for_delta, double target)
{
    double v = 0.0, barrier = INFINITY, a;
    int i, k;
    for (i = 0; i < run->n; i++) {
        double n = run->steps[i], s = run->moment[i].mech.sigma, q = run->moment[i].mech.q, x = 1.0 / (s * s), b, log_q;
        if (!(n > 0.0) || !(q > 0.0) || !(x > 0.0))
            continue;
        v += n * q * q * (x < 30.0 ? expm1(x) : exp(fa_min(x, 300.0)));
        log_q = log(q);
        b = fa_max(-2.0 * log_q / x, 0.1 * s);
        for (k = 0; k < 3; k++) {
            double weight = n * x * (1.0 + b) * (for_delta ? 1.0 : 0.5 * b);
            b = fa_max(2.0 / x * (log(target / weight) / (1.0 + b) - log_q), 0.1 * s);
        }
        barrier = fa_min(barrier, b);
    }
    a = for_delta ? target / v : sqrt(2.0 * target / v);
    a = a > barrier ? barrier : a;
    a = log(a);
    return a == a ? fa_min(fa_max(a, FA_LOG_A_MIN), FA_LOG_A_MAX) : 0.0;
}

/* one function value and slope in u = log a; increasing in u, its root is the best order */
FA_INLINE double fa_balance(fa_conversion c, int for_delta, const fa_moment *m, double a, double target,
                            double *slope_out)
{
    int sharp = c != FA_MIRONOV;
    double left, right, slope;
    if (for_delta) {
        left = m->d1 / a;
        right = target + (sharp ? log1p(1.0 / a) : 0.0);
        slope = m->d2 / fa_max(m->d1, 1e-300);
        slope += sharp ? 1.0 / ((1.0 + a) * right) : 0.0;
    }
    else {
        left = m->excess + (sharp ? log1p(a) : 0.0);
        right = target;
        slope = (m->d2 + (sharp ? a / (1.0 + a) : 0.0)) / fa_max(left, 1e-300);
    }
    *slope_out = slope;
    return log(fa_max(left, 1e-300)) - log(right);
}

/* what the search minimises: epsilon, or log delta */
FA_INLINE double fa_readout(fa_conversion c, int for_delta, const fa_moment *m, double a, double target)
{
    if (for_delta)
        return c == FA_MIRONOV ? fa_log_delta_mironov(m->upper, a, target) : fa_log_delta_cks(m->upper, a, target);
    return c == FA_MIRONOV ? fa_eps_mironov(m->upper, a, -target) : fa_eps_cks(m->upper, a, -target);
}

/* what a Newton step can still gain, relative to epsilon or to delta: half the step times the slope of the readout in
 * log a */
FA_INLINE double fa_gain(fa_conversion c, int for_delta, const fa_moment *m, double a, double target, double f,
                         double step)
{
    double eps;
    if (for_delta)
        return 0.5 * fabs(step * f) * a * (target + (c != FA_MIRONOV ? log1p(1.0 / a) : 0.0));
    eps = c == FA_MIRONOV ? fa_eps_mironov(m->k, a, -target) : fa_eps_cks(m->k, a, -target);
    return eps > 0.0 ? 0.5 * fabs(step * f) * target / a / eps : 0.0;
}

/* ends at (nearly) the best order, with a certified total there; target = -log delta, or eps when for_delta.
 * A point is accepted when one more step could gain less than 1e-12 of the answer; a small |f| alone says little near
 * the cliff, where the slope jumps. */
FA_FUNC double fa_best_order(fa_run *run, fa_conversion c, int for_delta, double target, fa_moment *total)
{
    double lo = FA_LOG_A_MIN, hi = FA_LOG_A_MAX,
           u = run->log_a == run->log_a ? run->log_a : fa_guess_log_a(run, for_delta, target), step, slope, f;
    fa_need need = FA_SEARCH;
    int i, settled = 0;
    for (i = 0; i < 100; i++) {
        double a = exp(u);
        fa_run_at(run, a, total, need);
        f = fa_balance(c, for_delta, total, a, target, &slope);
        if (f > 0.0)
            hi = u;
        else
            lo = u;
        step = -f / slope;
        /* on the cliff a flat part may hide just left: come down first */
        settled = fabs(f) < (slope < 1e3 ? 1e-2 : 1e-7) && fa_gain(c, for_delta, total, a, target, f, step) < 1e-12;
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
        if (fa_readout(c, for_delta, &left, exp(lo), target) < fa_readout(c, for_delta, total, exp(u), target)) {
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
FA_FUNC double fa_refine_optimal(fa_run *run, int for_delta, double target, double log_delta, double value)
{
    const double golden = 0.6180339887498949;
    double u0 = run->log_a, lo = u0 - 1.5, hi = u0 + 0.7, u[2], f[2], best = value;
    fa_moment total;
    int i, j;
    for (j = 0; j < 2; j++) {
        u[j] = j ? lo + golden * (hi - lo) : hi - golden * (hi - lo);
        fa_run_at(run, exp(u[j]), &total, FA_BOUNDS);
        f[j] = for_delta ? fa_log_delta_from(FA_OPTIMAL, total.upper, exp(u[j]), target)
                         : fa_eps_optimal(total.upper, exp(u[j]), log_delta);
    }
    for (i = 0; i < 22; i++) {
        best = fa_min(best, fa_min(f[0], f[1]));
        j = f[0] < f[1] ? 0 : 1;
        if (j == 0) {
            hi = u[1], u[1] = u[0], f[1] = f[0];
            u[0] = hi - golden * (hi - lo);
        }
        else {
            lo = u[0], u[0] = u[1], f[0] = f[1];
            u[1] = lo + golden * (hi - lo);
        }
        fa_run_at(run, exp(u[j]), &total, FA_BOUNDS);
        f[j] = for_delta ? fa_log_delta_from(FA_OPTIMAL, total.upper, exp(u[j]), target)
                         : fa_eps_optimal(total.upper, exp(u[j]), log_delta);
    }
    run->log_a = u0;
    return fa_min(best, fa_min(f[0], f[1]));
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

#define FA_ORDER_OF_KL 0x1p-40

/* fa_run_epsilon -- smallest epsilon that Renyi DP proves at delta; may be negative (callers clamp).
 *   domain   0 <= delta <= 1        result upper bound        status FA_OK | FA_LOOSE
 *   orders   NULL: continuous search; else the best of the n_orders given ones
 *   cost     about 2 us for one block        oracle reference.rdp_epsilon */
FA_FUNC double fa_run_epsilon(fa_run *run, double delta, fa_conversion c, const double *orders, int n_orders,
                              double *order_out, int *status_out)
{
    double log_delta, a, best = INFINITY;
    fa_moment total;
    int i;
    *order_out = NAN;
    *status_out = FA_OK;
    if (fa_run_is_free(run) || delta >= 1.0)
        return 0.0;
    if (!(delta > 0.0) || fa_run_is_bare(run)) {
        *status_out = FA_NOT_MET;
        return INFINITY;
    }
    log_delta = log(delta);
    if (orders) {
        fa_run_share(run, orders, n_orders);
        for (i = 0; i < n_orders; i++) {
            double eps;
            a = orders[i] - 1.0;
            fa_run_at(run, a, &total, FA_BOUNDS);
            eps = fa_eps_from(c, total.upper, a, log_delta);
            if (c != FA_MIRONOV && eps > 0.0 && fa_total_variation(&total, a) <= delta)
                eps = 0.0;
            if (eps < best) {
                best = eps;
                *order_out = orders[i];
                *status_out = total.status;
            }
        }
        return best;
    }
    a = fa_best_order(run, c, 0, -log_delta, &total);
    *order_out = 1.0 + a;
    *status_out = total.status;
    best = fa_eps_from(c, total.upper, a, log_delta);
    if (c != FA_MIRONOV && best > 0.0 && fa_variation_matters(run, delta)) {
        fa_run_at(run, FA_ORDER_OF_KL, &total, FA_BOUNDS);
        if (fa_total_variation(&total, FA_ORDER_OF_KL) <= delta) {
            *order_out = 1.0 + FA_ORDER_OF_KL;
            *status_out = total.status;
            return 0.0;
        }
    }
    if (c == FA_OPTIMAL)
        best = fa_refine_optimal(run, 0, -log_delta, log_delta, best);
    return best == best ? best : INFINITY;
}

/* fa_run_delta -- smallest delta that Renyi DP proves at epsilon; same conventions, clamped to 1 */
FA_FUNC double fa_run_delta(fa_run *run, double eps, fa_conversion c, const double *orders, int n_orders,
                            double *order_out, int *status_out)
{
    double a, best = INFINITY;
    fa_moment total;
    int i;
    *order_out = NAN;
    *status_out = FA_OK;
    if (fa_run_is_free(run) || eps == INFINITY)
        return 0.0;
    if (fa_run_is_bare(run)) {
        *status_out = FA_NOT_MET;
        return 1.0;
    }
    if (orders) {
        fa_run_share(run, orders, n_orders);
        for (i = 0; i < n_orders; i++) {
            double log_delta;
            a = orders[i] - 1.0;
            fa_run_at(run, a, &total, FA_BOUNDS);
            log_delta = fa_log_delta_from(c, total.upper, a, eps);
            if (c != FA_MIRONOV)
                log_delta = fa_min(log_delta, log(fa_total_variation(&total, a)) + 1e-13);
            if (log_delta < best) {
                best = log_delta;
                *order_out = orders[i];
                *status_out = total.status;
            }
        }
    }
    else {
        a = fa_best_order(run, c, 1, eps, &total);
        *order_out = 1.0 + a;
        *status_out = total.status;
        best = fa_log_delta_from(c, total.upper, a, eps);
        if (c == FA_OPTIMAL)
            best = fa_refine_optimal(run, 1, eps, 0.0, best);
        if (c != FA_MIRONOV && fa_variation_matters(run, exp(fa_min(best, 0.0)))) {
            double variation;
            fa_run_at(run, FA_ORDER_OF_KL, &total, FA_BOUNDS);
            variation = log(fa_total_variation(&total, FA_ORDER_OF_KL));
            if (variation < best) {
                best = variation + 1e-13;
                *order_out = 1.0 + FA_ORDER_OF_KL;
                *status_out = total.status;
            }
        }
    }
    return fa_delta_from_log(best);
}

#endif
