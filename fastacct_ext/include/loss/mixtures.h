/* loss/mixtures.h -- a dominating pair of one-dimensional Gaussian mixtures with one sigma, and its loss at complex
 * points.
 *
 *   P = sum p_i N(a_i, sigma^2),  a_i >= 0        Q = sum q_j N(b_j, sigma^2),  b_j <= 0
 *
 * Poisson-subsampled Gaussian (add/remove, zero-out), groups of k, replace-one and users' own sensitivities are special
 * cases.  Means on either side of 0 make the loss log dP/dQ increasing, and Im loss(x + i y) >= 0 for y >= 0: the whole
 * error analysis rests on it. Lengths are divided by the widest range of means, so that a change of the mechanism's
 * unit changes nothing.
 *
 * The loss is kept as kappa + l(z), kappa = log(p_0/q_0) with p_0, q_0 the weights at mean 0 when both exist: l is then
 * small where the mechanism has touched nothing, and sums of exp(u l) - 1 keep relative accuracy for any number of
 * steps.
 */
#ifndef FA_MECH_GAUSSIAN_MIXTURES_H
#define FA_MECH_GAUSSIAN_MIXTURES_H

#include "../num/vector.h"

#define FA_COMPONENTS 64 /* per side */

typedef struct {
    double sigma, inv_var; /* normalised */
    double kappa;          /* log(p_0/q_0) */
    double log_q0;
    double p_weight[FA_COMPONENTS + 1], q_weight[FA_COMPONENTS + 1]; /* log weights, the reference first */
    double slope, offset; /* l = slope z + offset + log1p(w_P) - log1p(w_Q); 0 when P has a component at 0 */
    double p_from;        /* P's reference: slope sigma^2 */
    int n_p, n_q;         /* components beside the reference */
    double p_mean[FA_COMPONENTS],
        p_log[FA_COMPONENTS]; /* mean relative to the reference, log weight with -mean^2/(2 sigma^2) */
    double q_mean[FA_COMPONENTS], q_log[FA_COMPONENTS];
    double p_top, q_low; /* largest mean of P, smallest of Q */
    int symmetric;       /* Q is the mirror image of P: both directions coincide */
    double sample_rate;  /* of a Poisson-sampled Gaussian, else 0 */
    double lattice;      /* all means of a side, less that of its reference, times this are whole numbers; 0: none */
} fa_pair;

/* Poisson-subsampled Gaussian, 0 < q < 1; or a plain Gaussian, q = 1 */
FA_FUNC void fa_pair_sampled(fa_pair *m, double sigma, double q)
{
    m->sigma = sigma;
    m->inv_var = 1.0 / (sigma * sigma);
    m->log_q0 = m->slope = m->offset = m->p_from = m->q_low = 0.0;
    m->p_top = 1.0;
    m->n_p = 1;
    m->n_q = m->symmetric = 0;
    m->sample_rate = q;
    m->lattice = 1.0;
    m->kappa = log1p(-q);
    m->p_mean[0] = 1.0;
    m->p_log[0] = log(q) - m->kappa - 0.5 * m->inv_var;
    m->p_weight[0] = m->kappa;
    m->p_weight[1] = log(q);
    m->q_weight[0] = 0.0;
}

/* log of the first of n weights: one of two, or most of them, it is what the others leave, for it has fewer digits than
 * they say together, and steps may be many; but where that is nothing */
FA_INLINE double fa_log_first(int n, const double *weight)
{
    double others = 0.0;
    int i;
    for (i = 1; i < n; i++)
        others += weight[i];
    return others < 0.5 || (n == 2 && others < 1.0) ? log1p(-others) : log(weight[0]);
}

/* 1/d if d divides all means of a side, less the first of them, to the last digit; else 0 */
FA_INLINE double fa_lattice_of(int n, const double *mean, double d)
{
    int i;
    for (i = 1; i < n; i++) {
        double times = fabs(mean[i] - mean[0]) / d;
        if (times != floor(times) || !(times < 1e6))
            return 0.0;
    }
    return 1.0 / d;
}

/* general mixtures; weights positive, summing to 1; means sorted outwards from 0 (|mean| increasing).  The caller has
 * checked. */
FA_FUNC void fa_pair_mixture(fa_pair *m, double sigma, int n_p, const double *p_weight, const double *p_mean, int n_q,
                             const double *q_weight, const double *q_mean)
{
    double range = fa_max(p_mean[n_p - 1] - p_mean[0], q_mean[0] - q_mean[n_q - 1]), base = q_mean[0], s;
    int i;
    if (!(range > 0.0))
        range = p_mean[0] - q_mean[0];
    m->sigma = s = sigma / range;
    m->inv_var = 1.0 / (s * s);
    m->sample_rate = 0.0;
    m->lattice = fa_max(n_p > 1 ? p_mean[1] - p_mean[0] : 0.0, n_q > 1 ? q_mean[0] - q_mean[1] : 0.0);
    m->lattice = range * fa_min(fa_lattice_of(n_p, p_mean, m->lattice), fa_lattice_of(n_q, q_mean, m->lattice));
    m->n_p = n_p - 1;
    m->n_q = n_q - 1;
    m->p_from = (p_mean[0] - base) / range;
    m->slope = m->p_from * m->inv_var;
    m->offset = -0.5 * (p_mean[0] - base) / range * (p_mean[0] - base) / range * m->inv_var;
    m->p_weight[0] = fa_log_first(n_p, p_weight);
    m->q_weight[0] = m->log_q0 = fa_log_first(n_q, q_weight);
    m->kappa = m->p_weight[0] - m->q_weight[0];
    for (i = 1; i < n_p; i++)
        m->p_weight[i] = log(p_weight[i]);
    for (i = 1; i < n_q; i++)
        m->q_weight[i] = log(q_weight[i]);
    for (i = 1; i < n_p; i++) {
        double mean = (p_mean[i] - base) / range, from = (p_mean[0] - base) / range;
        m->p_mean[i - 1] = mean - from;
        m->p_log[i - 1] = m->p_weight[i] - m->p_weight[0] - 0.5 * (mean - from) * (mean + from) * m->inv_var;
    }
    for (i = 1; i < n_q; i++) {
        double mean = (q_mean[i] - base) / range;
        m->q_mean[i - 1] = mean;
        m->q_log[i - 1] = m->q_weight[i] - m->q_weight[0] - 0.5 * mean * mean * m->inv_var;
    }
    m->p_top = (p_mean[n_p - 1] - base) / range;
    m->q_low = (q_mean[n_q - 1] - base) / range;
    m->symmetric = n_p == n_q && p_mean[0] == 0.0;
    for (i = 0; i < n_p && m->symmetric; i++)
        m->symmetric = p_mean[i] == -q_mean[i] && p_weight[i] == q_weight[i];
}

/* the pair in the other direction: P and Q change places, mirrored */
FA_FUNC void fa_pair_flip(fa_pair *m, double sigma, int n_p, const double *p_weight, const double *p_mean, int n_q,
                          const double *q_weight, const double *q_mean)
{
    double p[FA_COMPONENTS + 1], q[FA_COMPONENTS + 1];
    int i;
    for (i = 0; i < n_p; i++)
        p[i] = -p_mean[i];
    for (i = 0; i < n_q; i++)
        q[i] = -q_mean[i];
    fa_pair_mixture(m, sigma, n_q, q_weight, q, n_p, p_weight, p);
}

/* whether losses fall without end, and whether they grow without end */
FA_INLINE int fa_pair_falls(const fa_pair *m) { return m->n_q > 0 || m->slope > 0.0; }
FA_INLINE int fa_pair_grows(const fa_pair *m) { return m->n_p > 0 || m->slope > 0.0; }

/* log(1 + sum exp(mean x/sigma^2 + log)) */
FA_INLINE double fa_log1p_sum(int n, const double *mean, const double *log_weight, double inv_var, double x)
{
    double top = 0.0, rest = 0.0;
    int i, at = -1;
    for (i = 0; i < n; i++) {
        double e = FA_FMA(mean[i] * inv_var, x, log_weight[i]);
        if (e > top) {
            top = e;
            at = i;
        }
    }
    for (i = 0; i < n; i++) {
        double e = i == at ? -top : FA_FMA(mean[i] * inv_var, x, log_weight[i]) - top;
        rest += e > -700.0 ? exp(e) : 0.0;
    }
    return top + log1p(rest);
}

/* real loss l(x), with posterior means A(x) of P and B(x) of Q */
FA_FUNC double fa_pair_loss(const fa_pair *m, double x, double *a_out, double *b_out)
{
    double l = m->slope * x + m->offset, side[2] = {0.0, 0.0};
    int s, i;
    if (m->n_p == 1 && m->n_q == 0 && m->slope == 0.0) {
        double e = FA_FMA(m->p_mean[0] * m->inv_var, x, m->p_log[0]), w = exp(-fabs(e));
        *a_out = m->p_mean[0] * (e > 0.0 ? 1.0 : w) / (1.0 + w);
        *b_out = 0.0;
        return fa_max(e, 0.0) + log1p(w);
    }
    for (s = 0; s < 2; s++) {
        int n = s ? m->n_q : m->n_p;
        const double *mean = s ? m->q_mean : m->p_mean, *lw = s ? m->q_log : m->p_log;
        double f = fa_log1p_sum(n, mean, lw, m->inv_var, x);
        for (i = 0; i < n; i++) {
            double e = FA_FMA(mean[i] * m->inv_var, x, lw[i]) - f;
            side[s] += e > -700.0 ? mean[i] * exp(e) : 0.0;
        }
        l += s ? -f : f;
    }
    *a_out = side[0] + m->p_from;
    *b_out = side[1];
    return l;
}

#endif
