/* loss/sampled.h -- the Poisson-subsampled Gaussian: dominating pair, nodes, bounds.
 *
 *   P = (1-q) N(0, sigma^2) + q N(1, sigma^2),  Q = N(0, sigma^2)          ("remove"; "add" swaps them)
 *   loss(z) = log dP/dQ = log(1 + x),  x = q (exp(y) - 1),  y = (z - 1/2) / sigma^2,  increasing in z
 *
 * Nodes lie on the grid z_j = j h (h has 24 significant bits: z_j is exact).  All is in plain doubles, and the loss in
 * two forms:
 *   log(1 + x)             accurate relative to itself for tiny x
 *   y + log q + tail       tail = log(1 + (1-q)/q exp(-y)), what the sampled bump lacks.  At order alpha it makes
 *                          alpha loss - z^2/(2 sigma^2) = center - (z - alpha)^2/(2 sigma^2) + alpha tail,
 *                          where nothing large is left to cancel (docs/algorithms/quadrature.md)
 */
#ifndef FA_MECH_POISSON_GAUSSIAN_H
#define FA_MECH_POISSON_GAUSSIAN_H

#include "../num/vector.h"

#define FA_BLOCK               64      /* nodes filled at a time; a multiple of FA_LANES */
#define FA_TAIL_WIDTH          8.0     /* the grid ends this many sigma outside [0, alpha]: Phi(-8) = 6.2e-16 */
#define FA_TAIL_MASS           6.3e-16 /* > Phi(-FA_TAIL_WIDTH) */
#define FA_LOG_ALIAS_TOLERANCE 31.89   /* -log of the aliasing error allowed: 2^-46 */
#define FA_ALIAS_CONSTANT      704.0   /* aliasing error <= CONSTANT max(1, sigma^2) exp(...), see quadrature.md */
#define FA_THETA_MAX           (0.9 * FA_PI) /* of Im z / sigma^2 */
#define FA_SGM_FAR             600.0         /* of y: beyond, exp(y) could overflow */

typedef struct {
    double sigma, q;
    double h, inv_h;                  /* grid step, and 1/h for counting nodes */
    fa_dd inv_var_dd, log_q_dd;       /* ... where two large terms cancel */
    double inv_var;                   /* 1 / sigma^2 */
    double log_q, log_keep, log_odds; /* log q, log(1-q), and their difference log((1-q)/q) ... */
    double odds_error;                /* ... to so many u */
    double unit;      /* weight of one node is exp(-z^2/(2 sigma^2)) * unit, unit = h / (sigma sqrt(2 pi)) */
    double tail_unit; /* unit (1 + sigma/(7.75 h)): sum of a tail that falls like exp(-7.75 z/sigma), over its first
                         term */
    double alias;     /* relative aliasing error of a sum over the whole grid */
} fa_sgm;

/* e^x - 1, x = 1/sigma^2, about and without overflow: E_Q[(dP/dQ)^2] - 1 of a Gaussian */
FA_INLINE double fa_chi_square(double x) { return x < 30.0 ? expm1(x) : exp(fa_min(x, 300.0)); }

/* fa_sgm_step -- largest grid step whose aliasing error is below 2^-46 relative, for every order alpha > 1.
 *   source   docs/algorithms/quadrature.md, theorem 2; from the trapezoid theorem of Trefethen and Weideman (2014) */
FA_FUNC double fa_sgm_step(double sigma)
{
    double need = FA_LOG_ALIAS_TOLERANCE + log(FA_ALIAS_CONSTANT) + (sigma > 1.0 ? 2.0 * log(sigma) : 0.0);
    double ratio = FA_PI * sqrt(2.0 / need);
    if (2.0 * FA_PI / (ratio * sigma) > FA_THETA_MAX)
        ratio = 2.0 * FA_PI * FA_THETA_MAX * sigma / (need + 0.5 * FA_THETA_MAX * FA_THETA_MAX * sigma * sigma);
    return ratio * sigma;
}

/* the grid with a step h, and its aliasing error */
FA_FUNC void fa_sgm_lay(fa_sgm *m, double h)
{
    double s2 = m->sigma * m->sigma, theta;
    m->h = h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1));
    theta = fa_min(2.0 * FA_PI / h, FA_THETA_MAX); /* optimum of theta^2 sigma^2/2 - 2 pi theta sigma^2/h */
    m->alias = FA_ALIAS_CONSTANT * fa_max(1.0, s2) * exp(0.5 * theta * theta * s2 - 2.0 * FA_PI * theta * s2 / h);
    m->inv_h = 1.0 / h;
    m->unit = h / m->sigma * 0.398942280401432677939946;
    m->tail_unit = m->unit * (1.0 + m->sigma / (7.75 * h));
}

/* log q, to 2^-63 of a number below log 2, and 2^-98 of itself */
FA_INLINE fa_dd fa_log_q(double q)
{
    int e;
    double m = frexp(q, &e);
    fa_dd r = fa_dd_mul_d(fa_dd_make(FA_LN2, 2.3190468138462996e-17), (double)e);
    return fa_dd_add(r, fa_log1p_v(fa_dd_make(m - 1.0, 0.0)));
}

/* 0 < q < 1, sigma > 0 finite */
FA_FUNC void fa_sgm_init(fa_sgm *m, double sigma, double q)
{
    m->sigma = sigma;
    m->q = q;
    fa_sgm_lay(m, fa_sgm_step(sigma));
    m->inv_var_dd = fa_dd_div(fa_dd_make(1.0, 0.0), fa_two_prod(sigma, sigma));
    m->log_q_dd = fa_log_q(q);
    m->inv_var = m->inv_var_dd.hi;
    m->log_q = m->log_q_dd.hi;
    m->log_keep = log1p(-q);
    m->log_odds = m->log_keep - m->log_q;
    m->odds_error = 2.0 * (fabs(m->log_q) + fabs(m->log_keep)) + 2.0 * fabs(m->log_odds);
}

/* n nodes from the j-th on: loss; tail; and weight under P, 0 where it is below e^-690.  Errors: quadrature.md */
FA_FUNC void fa_sgm_nodes(const fa_sgm *m, int64_t j, int n, double *loss, double *tail, double *weight)
{
    double h = m->h, start = (double)j * h, inv_var = m->inv_var, half = 0.5 * inv_var, q = m->q, odds = m->log_odds,
           keep = m->log_keep, unit = m->unit;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double z = start + (double)i * h, y = (z - 0.5) * inv_var, d = odds - y, rise, soft, low, size;
        (void)fa_exp_both_v(y, &rise);
        soft = fa_log1p_plain_v(fa_exp_plain_v(-fabs(d)));
        low = fa_log1p_plain_v(q * rise);
        loss[i] = y > FA_SGM_FAR ? (keep + soft) + fa_max(-d, 0.0) : low;
        tail[i] = soft + fa_max(d, 0.0);
        size = loss[i] - z * z * half;
        weight[i] = size > -690.0 ? unit * fa_exp_plain_v(size) : 0.0;
    }
}

/* loss and its slope's logistic p = q e^y/(1-q+q e^y) in plain doubles, any y: for choosing windows, never for answers
 */
FA_INLINE double fa_sgm_loss_guess(const fa_sgm *m, double z, double *posterior_out)
{
    double y = (z - 0.5) / (m->sigma * m->sigma), d = y - m->log_odds;
    if (d > 0) {
        *posterior_out = 1.0 / (1.0 + exp(-d));
        return y + m->log_q + log1p(exp(-d));
    }
    *posterior_out = exp(d) / (1.0 + exp(d));
    return log1p(-m->q) + log1p(exp(d));
}

/* log of Minkowski's bound, K(1+a) <= (1+a) log(1 - q + q exp(a/(2 sigma^2))), with first and second derivatives in a.
 *   source   M^(1/alpha) = ||1-q + q v||_alpha <= 1-q + q ||v||_alpha in L^alpha(Q), v = exp(y)        result upper
 * bound */
FA_FUNC double fa_sgm_minkowski(double sigma, double q, double a, double *d1_out, double *d2_out)
{
    double s = 0.5 / sigma / sigma, y = 0.5 * (a / sigma) / sigma, psi, p;
    if (q >= 1.0) {
        psi = y;
        p = 1.0;
    }
    else if (y > 30.0) {
        double r = (1.0 - q) / q * exp(-y);
        psi = y + log(q) + log1p(r);
        p = 1.0 / (1.0 + r);
    }
    else {
        double x = q * expm1(y);
        psi = log1p(x);
        p = q * exp(y) / (1.0 + x);
    }
    *d1_out = psi + (1.0 + a) * s * p;
    *d2_out = 2.0 * s * p + (1.0 + a) * s * s * p * (1.0 - p);
    return (1.0 + a) * psi;
}

#endif
