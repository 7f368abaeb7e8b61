/* one_step.c -- delta of one step in closed form (exact/one_step.h), and the theorems that compose steps
 * (exact/classical.h).
 */
#include "parts.h"

#include "exact/classical.h"
#include "exact/one_step.h"

/* of a sampled Gaussian; way 1: remove, -1: add */
void sampled(double sigma, double rate, double way, double eps, double *out)
{
    fa_interval r = fa_one_step(sigma, rate, (int)way, eps);
    out[0] = r.lower, out[1] = r.upper;
}

/* of two normal distributions against two others: weight and mean of the second one of each; the first is at 0 */
void mixture(double sigma, double way, double eps, const double *p, const double *q, double *out)
{
    double p_weight[2] = {1.0 - p[0], p[0]}, p_mean[2] = {0.0, p[1]}, q_weight[2] = {1.0 - q[0], q[0]},
           q_mean[2] = {0.0, q[1]};
    fa_pair pair;
    fa_interval r;
    fa_pair_mixture(&pair, sigma, 2, p_weight, p_mean, q[0] > 0.0 ? 2 : 1, q_weight, q_mean);
    r = fa_one_step_mixture(&pair, (int)way, eps);
    out[0] = r.lower, out[1] = r.upper;
}

/* epsilon at delta of so many sampled steps by basic and by advanced composition */
void composed(double sigma, double rate, double steps, double delta, double *out)
{
    out[0] = fa_basic_epsilon(sigma, rate, steps, delta);
    out[1] = fa_advanced_epsilon(sigma, rate, steps, delta);
}
