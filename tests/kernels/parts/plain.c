/* plain.c -- what the larger headers rest on: intervals, tails, conversions, delta of a Gaussian, log-moments of sampled
 * ones and their sums.
 */
#include "parts.h"

#include "loss/gaussian_profile.h"
#include "num/interval.h"
#include "num/window.h"
#include "renyi/order_search.h"

/* what two intervals share */
void share(double a, double b, double c, double d, double *out)
{
    fa_interval both = fa_share((fa_interval){a, b}, (fa_interval){c, d});
    out[0] = both.lower, out[1] = both.upper, out[2] = fa_disagreed();
}

/* an interval on the safe side of what is possible */
void safe(double lower, double upper, double low, double high, double *out)
{
    fa_interval both = fa_safe((fa_interval){lower, upper}, low, high);
    out[0] = both.lower, out[1] = both.upper, out[2] = fa_disagreed();
}

void log_tail(double x, double *out) { out[0] = fa_log_tail(x); }

/* epsilon at log delta, log delta at epsilon, of K at 1 + a by a rule; and delta of its logarithm */
void implied(double rule, double k, double a, double log_delta, double eps, double *out)
{
    out[0] = fa_eps_from((fa_rule)rule, k, a, log_delta);
    out[1] = fa_log_delta_from((fa_rule)rule, k, a, eps);
    out[2] = fa_delta_from_log(log_delta);
}

/* log delta of a Gaussian at epsilon, and epsilon at that */
void gaussian(double mu, double eps, double *out)
{
    out[0] = fa_gaussian_log_delta(mu, eps);
    out[1] = fa_gaussian_epsilon(mu, out[0]);
}

/* K of a sampled Gaussian at 1 + a: bounds with a cache and without, Minkowski's */
void moment(double sigma, double q, double a, double *out)
{
    static fa_log_moment m;
    fa_moment at;
    double d1, d2;
    fa_log_moment_init(&m, sigma, q);
    fa_log_moment_at(&m, a, &at, FA_BOUNDS);
    out[0] = at.lower, out[1] = at.upper;
    if (m.a_limit > 0.0)
        fa_log_moment_cache(&m, fa_min(a, m.a_limit));
    fa_log_moment_at(&m, a, &at, FA_BOTH);
    out[2] = at.lower, out[3] = at.upper;
    out[4] = fa_sgm_minkowski(sigma, q, a, &d1, &d2);
}

/* two blocks: bounds of K at 1 + a; epsilon at log delta of the best order, and that order */
void run_of_two(double sigma0, double q0, double n0, double sigma1, double q1, double n1, double a, double delta,
                double *out)
{
    static fa_log_moment m[2];
    double steps[2] = {n0, n1};
    fa_run run = {2, m, steps, NAN};
    fa_renyi_ask ask = {0, FA_RULE_CKS, NULL, 0};
    fa_moment total;
    int status;
    fa_log_moment_init(m, sigma0, q0);
    fa_log_moment_init(m + 1, sigma1, q1);
    fa_run_at(&run, a, &total, FA_BOUNDS);
    out[0] = total.upper;
    out[1] = fa_run_read(&run, &ask, delta, out + 2, &status);
}

/* the total variation that K at 1 + a implies */
void variation(double upper, double a, double *out)
{
    fa_moment total = {.upper = upper};
    out[0] = fa_total_variation(&total, a);
}
