/* exact/classical.h -- the accountants that came before Renyi DP, for comparison: basic and advanced composition of
 * Poisson-subsampled Gaussians.  One step is (eps0, delta0)-DP in both directions with eps0 = log(1 + q (e^{eps} - 1)),
 * delta0 = q delta_Gaussian(eps)            (Balle, Barthe, Gaboardi 2018) Upper bounds; deltas are spent as the
 * theorem says, nothing is optimised.
 */
#ifndef FA_CLASSICAL_H
#define FA_CLASSICAL_H

#include "../renyi/conversion.h"
#include "../loss/gaussian_profile.h"

/* delta(eps) of a Gaussian, rounded up */
FA_FUNC double fa_gaussian_delta(double mu, double eps)
{
    return mu > 0.0 && eps != INFINITY ? fa_delta_from_log(fa_gaussian_log_delta(mu, eps)) : 0.0;
}

/* eps0 of one step at delta0 */
FA_FUNC double fa_step_epsilon(double sigma, double q, double log_delta0)
{
    double eps;
    if (!(q > 0.0) || sigma == INFINITY || log_delta0 >= log(q))
        return 0.0;
    eps = fa_gaussian_epsilon(1.0 / sigma * (1.0 + 2.0 * FA_EPS),
                              log_delta0 - log(q) - 4.0 * FA_EPS * (fabs(log_delta0) + fabs(log(q))));
    if (q >= 1.0)
        return eps;
    return (eps > 600.0 ? eps + log(q) + (1.0 - q) / q * exp(-eps) : log1p(q * expm1(eps))) * (1.0 + 8.0 * FA_EPS);
}

/* T steps: (T eps0, T delta0) */
FA_FUNC double fa_basic_epsilon(double sigma, double q, double steps, double delta)
{
    if (!(steps > 0.0) || !(q > 0.0) || delta >= 1.0)
        return 0.0;
    return steps * fa_step_epsilon(sigma, q, log(delta) - log(steps) - 4.0 * FA_EPS * (fabs(log(delta)) + log(steps))) *
           (1.0 + 4.0 * FA_EPS);
}

/* Dwork, Rothblum, Vadhan 2010: (eps0 sqrt(2 T log(1/delta')) + T eps0 (e^eps0 - 1), T delta0 + delta'), delta' = T
 * delta0 = delta/2; never worse than the basic rule with all of delta */
FA_FUNC double fa_advanced_epsilon(double sigma, double q, double steps, double delta)
{
    double eps0, strong;
    if (!(steps > 0.0) || !(q > 0.0) || delta >= 1.0)
        return 0.0;
    eps0 = fa_step_epsilon(sigma, q,
                           log(0.5 * delta) - log(steps) - 4.0 * FA_EPS * (fabs(log(0.5 * delta)) + log(steps)));
    strong = eps0 * sqrt(2.0 * steps * -log(0.5 * delta)) + steps * eps0 * expm1(eps0);
    return fa_min(strong * (1.0 + 16.0 * FA_EPS), fa_basic_epsilon(sigma, q, steps, delta));
}

/* mu of the central limit theorem of Bu, Dong, Long, Su 2020.  NOT a bound: it can be far below the truth. */
FA_INLINE double fa_clt_mu_approx(double sigma, double q, double steps)
{
    return q > 0.0 && steps > 0.0 ? q * sqrt(steps * expm1(1.0 / (sigma * sigma))) : 0.0;
}

#endif
