/* exact/one_step.h -- delta(eps) of one step of the sampled Gaussian, in closed form. */
#ifndef FA_ONE_STEP_H
#define FA_ONE_STEP_H

#include "../num/interval.h"
#include "../loss/gaussian_profile.h"
#include "../loss/mixtures.h"

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
        if (!(k > 8.0 * FA_EPS *
                      (q + expm1(eps)))) { /* k is not resolved: at most what it may be, its own rounding included */
            double most = 16.0 * FA_EPS * (q + expm1(eps));
            r.lower = -INFINITY;
            r.upper = k > -0.5 * most ? fa_max(FA_LEAST, log(most) + fa_gaussian_log_delta(mu, eps + log(q / most)))
                                      : -INFINITY;
            return r;
        }
        e = eps + log(q / k);
        pad = 4.0 * FA_EPS * ((q + expm1(eps)) / k + e + 1.0);
        scale = log(k);
    }
    log_delta = fa_gaussian_log_delta(mu, e);
    a = 0.5 * mu - e / mu;
    pad *= fabs(a) / mu + 2.0 + 1.0 / mu; /* |d log delta/d e| <= e^e Phi(a - mu)/delta <= (1 + |a|)/mu + 1 */
    pad += 4.0 * FA_EPS * (1.0 + fabs(scale) + fabs(fa_max(FA_LEAST, log_delta)));
    r.upper = fa_min(0.0, fa_max(FA_LEAST, log_delta + scale + pad));
    /* the padding inside fa_gaussian_log_delta: 4e-14 + 128 u (r1 + r2)/bracket + 4 u (|a| + 1)(mu/2 + e/mu) + 4 u a^2
     * + 4 u |log delta|, twice */
    r.lower = log_delta + scale - pad -
              2.0 * (1e-13 + 4.0 * FA_EPS * (fabs(a) + 1.0) * (0.5 * mu + e / mu + 64.0 / mu) + 4.0 * FA_EPS * a * a +
                     4.0 * FA_EPS * fabs(log_delta));
    return r;
}

/* one step of any pair of mixtures: delta = P(z > z*) - e^eps Q(z > z*), z* where the loss is eps.  sign < 0: the pair
 * swapped, z < z*. Both sides at z* itself, so an error of z* matters in second order only; the two terms may cancel,
 * which the interval counts. */
FA_FUNC fa_interval fa_one_step_mixture(const fa_pair *m, int sign, double eps)
{
    double s = m->sigma, low = m->q_low - 60.0 * s, high = m->p_top + 60.0 * s, z = 0.5 * (low + high), A, B,
           from = m->slope / m->inv_var, side[2] = {0.0, 0.0}, err[2] = {0.0, 0.0}, d, slip, grow;
    fa_interval r = {-INFINITY, 0.0};
    int i, k;
    for (i = 0; i < 200 && high - low > 0.0; i++) { /* Newton's method, or bisection */
        double gap = m->kappa + fa_pair_loss(m, z, &A, &B) - sign * eps,
               next = z - gap * s * s / fa_max(A - B, 1e-300);
        if (fabs(next - z) <= 2.0 * FA_EPS * (fabs(z) + s))
            low = high = z;
        else if (gap < 0.0)
            low = z;
        else
            high = z;
        z = next > low && next < high ? next : 0.5 * (low + high);
    }
    for (k = 0; k < 2; k++)
        for (i = 0; i <= (k ? m->n_q : m->n_p); i++) {
            double mean = k ? (i ? m->q_mean[i - 1] : 0.0) : (i ? m->p_mean[i - 1] + from : from),
                   log_w = k ? m->q_weight[i] : m->p_weight[i];
            double x = (low - mean) / s, term = exp(log_w) * 0.5 * erfc(sign * x * FA_HALF_ROOT);
            side[k] += term;
            err[k] += FA_EPS * (80.0 + (k ? m->n_q : m->n_p) +
                                16.0 * (fabs(log_w) + 0.5 * x * x + fabs(x) * (1.0 + fabs(mean)) / s)) * term +
                      1e-322; /* what underflows is off by a few 5e-324, which e^eps multiplies */
        }
    grow = exp(fa_min(eps, 700.0));
    d = sign > 0 ? side[0] - grow * side[1] : side[1] - grow * side[0];
    slip = (sign > 0 ? err[0] + grow * err[1] : err[1] + grow * err[0]) +
           8.0 * FA_EPS * (1.0 + eps) * grow * side[sign > 0 ? 1 : 0] + 1e-300;
    if (!(fabs(m->kappa) < INFINITY))
        return r;
    if (sign > 0 ? !(high < m->p_top + 59.0 * s) : !(low > m->q_low - 59.0 * s))
        r.upper = -1740.0; /* less than what lies 59 standard deviations out */
    if (!(high < m->p_top + 59.0 * s) || !(low > m->q_low - 59.0 * s) || eps > 690.0)
        return r;
    r.upper = fa_min(0.0, log(fa_max(d, 0.0) + slip));
    r.lower = d > slip ? log(d - slip) : -INFINITY;
    return r;
}

#endif
