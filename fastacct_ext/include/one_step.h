/* one_step.h -- delta(eps) of one step of the sampled Gaussian, in closed form. */
#ifndef FA_ONE_STEP_H
#define FA_ONE_STEP_H

#include "gaussian_profile.h"

typedef struct {
    double lower, upper;
} fa_interval;

/* one sampled Gaussian step: profile in closed form (Balle, Barthe, Gaboardi 2018), both logarithms padded outwards */
FA_FUNC fa_interval fa_one_step(double sigma, double q, int sign, double eps)
{
    double mu = 1.0 / sigma, k, e = eps, pad = 0.0, scale = 0.0, a, log_delta;
    fa_interval r;
    if (q < 1.0 && sign > 0) {
        e = eps > 690.0 ? eps - log(q) : log1p(expm1(eps) / q);
        pad = 6.0 * FA_EPS * (e + 1.0);
        scale = log(q);
    }
    else if (q < 1.0) {
        k = q - (1.0 - q) * expm1(eps);
        if (!(k > 8.0 * FA_EPS * (q + expm1(eps)))) {
            r.lower = -INFINITY;
            r.upper = k > -8.0 * FA_EPS * (q + expm1(eps)) ? log(8.0 * FA_EPS * (q + expm1(eps))) + fa_gaussian_log_delta(mu, eps + log(q / (16.0 * FA_EPS * (q + expm1(eps))))) : -INFINITY;
            return r;
        }
        e = eps + log(q / k);
        pad = 4.0 * FA_EPS * ((q + expm1(eps)) / k + e + 1.0);
        scale = log(k);
    }
    log_delta = fa_gaussian_log_delta(mu, e);
    a = 0.5 * mu - e / mu;
    pad *= fabs(a) / mu + 2.0 + 1.0 / mu;                       /* |d log delta/d e| <= e^e Phi(a - mu)/delta <= (1 + |a|)/mu + 1 */
    pad += 4.0 * FA_EPS * (1.0 + fabs(scale));
    r.upper = fa_min(0.0, log_delta + scale + pad);
    /* the padding inside fa_gaussian_log_delta: 3e-14 + 128 u (r1 + r2)/bracket + 4 u (|a| + 1)(mu/2 + e/mu) + 4 u a^2, twice */
    r.lower = log_delta + scale - pad - 2.0 * (1e-13 + 4.0 * FA_EPS * (fabs(a) + 1.0) * (0.5 * mu + e / mu + 64.0 / mu) + 4.0 * FA_EPS * a * a);
    return r;
}

#endif
