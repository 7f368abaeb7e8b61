/* loss/gaussian_profile.h -- delta(eps) of the Gaussian mechanism with mu = sensitivity/sigma (the analytic Gaussian
 * mechanism), and inverse (Balle and Wang 2018).
 *
 *   delta = Phi(a) - e^eps Phi(a - mu) = phi(a) [R(-a) - R(mu - a)],  a = mu/2 - eps/mu,  R Mills' ratio
 *
 * Relative accuracy for every mu and eps: for mu < 0.1 the bracket is the integral of S(t) = -R'(t) = 1 - t R(t) > 0.
 */
#ifndef FA_GAUSSIAN_PROFILE_H
#define FA_GAUSSIAN_PROFILE_H

#include "../num/math.h"

#define FA_SQRT_2PI 2.50662827463100050242
#define FA_LEAST    (-0x1p1022) /* above log delta where a^2 overflows: twice that is no double, and delta is not 0 */

/* R(t) = Phi(-t)/phi(t), to 33 u, and S(t) = 1 - t R(t), to 265 u, for t >= -4 */
FA_FUNC double fa_mills(double t, double *slope_out)
{
    double r, c;
    int i;
    if (t < 2.5) {
        r = 0.5 * FA_SQRT_2PI * exp(0.5 * t * t) * erfc(t * FA_HALF_ROOT);
        *slope_out = 1.0 - t * r;
        return r;
    }
    c = 0.0; /* R = 1/(t + C), C = 1/(t + 2/(t + 3/(t + ...))), S = C R */
    for (i = 120; i >= 1; i--)
        c = i / (t + c);
    r = 1.0 / (t + c);
    *slope_out = c * r;
    return r;
}

/* fa_gaussian_log_delta -- upper bound of log delta(eps).   domain mu > 0, eps >= 0   error added: of S, weights and
 * sums 300 u, and that of the exponent a^2/2 and of log delta itself (docs/algorithms/conversion.md) */
FA_FUNC double fa_gaussian_log_delta(double mu, double eps)
{
    static const double node[8] = {0.0198550717512319, 0.101666761293187, 0.237233795041836, 0.408282678752175,
                                   0.591717321247825,  0.762766204958164, 0.898333238706813, 0.980144928248768};
    static const double gauss[8] = {0.0506142681451881, 0.111190517226687, 0.156853322938944, 0.181341891689181,
                                    0.181341891689181,  0.156853322938944, 0.111190517226687, 0.0506142681451881};
    double a = 0.5 * mu - eps / mu, slope, bracket = 0.0, log_delta, pad = 4e-14;
    int i;
    if (mu > 1e150) /* a^2 would overflow */
        return 0.0;
    if (a > 4.0 && mu > 0.1) { /* delta near 1: through its complement */
        double miss = 0.5 * erfc(a * FA_HALF_ROOT) + exp(-0.5 * a * a) / FA_SQRT_2PI * fa_mills(mu - a, &slope);
        pad = 1e-12 * (1.0 + a * a) + 4.0 * FA_EPS * (a + 1.0) * (0.5 * mu + eps / mu);
        return log1p(-miss * fa_max(0.0, 1.0 - pad)) + 4.0 * FA_EPS;
    }
    if (mu < 0.1) {
        for (i = 0; i < 8; i++) {
            fa_mills(-a + mu * node[i], &slope);
            bracket += gauss[i] * slope;
        }
        bracket *= mu;
    }
    else {
        double r1 = fa_mills(-a, &slope), r2 = fa_mills(mu - a, &slope);
        bracket = r1 - r2;
        pad += 128.0 * FA_EPS * (r1 + r2) / bracket;
    }
    log_delta = -0.5 * a * a - FA_LOG_SQRT_2PI + log(bracket);
    pad += 4.0 * FA_EPS * (fabs(a) + 1.0) * (0.5 * mu + eps / mu) + 4.0 * FA_EPS * a * a +
           4.0 * FA_EPS * (1.0 + fabs(fa_max(FA_LEAST, log_delta)));
    log_delta += pad;
    return log_delta < 0.0 ? log_delta : 0.0;
}

/* upper bound of the smallest eps >= 0 with delta(eps) <= exp(log_delta) */
FA_FUNC double fa_gaussian_epsilon(double mu, double log_delta)
{
    double lo = 0.0, hi = 0.5 * mu * mu + mu;
    int i;
    if (!(mu > 0.0) || log_delta >= 0.0 || fa_gaussian_log_delta(mu, 0.0) <= log_delta)
        return 0.0;
    if (mu == INFINITY || log_delta == -INFINITY)
        return INFINITY;
    while (fa_gaussian_log_delta(mu, hi) > log_delta) {
        lo = hi;
        hi *= 2.0;
        if (hi > 1e300)
            return INFINITY;
    }
    for (i = 0; i < 200 && hi - lo > 2.0 * FA_EPS * hi; i++) {
        double mid = 0.5 * (lo + hi);
        if (fa_gaussian_log_delta(mu, mid) <= log_delta)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

#endif
