/* loss/sampled.h -- the Poisson-subsampled Gaussian: dominating pair, nodes, bounds.
 *
 *   P = (1-q) N(0, sigma^2) + q N(1, sigma^2),  Q = N(0, sigma^2)          ("remove"; "add" swaps them)
 *   loss(z) = log dP/dQ = log(1 + x),  x = q (exp(y) - 1),  y = (z - 1/2) / sigma^2,  increasing in z
 *
 * Nodes lie on the grid z_j = j h (h has 24 significant bits: z_j is exact).  Two ways to compute a node:
 *   low   v = exp(y) by a double-double recurrence, x = q (v - 1), loss = log1p(x): relative accuracy for tiny x
 *   high  where (1-q)/q exp(-y) <= 2^-12: loss = y + log q + log1p((1-q)/q exp(-y)): no overflow at any y
 * Both give the loss to 2^-63 relative; the reason is that orders up to 1e5 multiply it
 * (docs/algorithms/quadrature.md).
 */
#ifndef FA_MECH_POISSON_GAUSSIAN_H
#define FA_MECH_POISSON_GAUSSIAN_H

#include "../num/math.h"

#define FA_LANES               8
#define FA_BLOCK               64      /* nodes filled at a time; a multiple of FA_LANES */
#define FA_TAIL_WIDTH          8.0     /* the grid ends this many sigma outside [0, alpha]: Phi(-8) = 6.2e-16 */
#define FA_TAIL_MASS           6.3e-16 /* > Phi(-FA_TAIL_WIDTH) */
#define FA_LOG_ALIAS_TOLERANCE 31.89   /* -log of the aliasing error allowed: 2^-46 */
#define FA_ALIAS_CONSTANT      704.0   /* aliasing error <= CONSTANT max(1, sigma^2) exp(...), see quadrature.md */

typedef struct {
    double sigma, q;
    double h, inv_h;         /* grid step, and 1/h for counting nodes */
    fa_dd inv_var;           /* 1 / sigma^2 */
    fa_dd rho[FA_LANES + 1]; /* exp(i h / sigma^2) */
    fa_dd log_q;
    double unit;      /* weight of one node is exp(base) * unit, unit = h / (sigma sqrt(2 pi)) */
    double tail_unit; /* unit (1 + sigma/(7.75 h)): sum of a tail that falls like exp(-7.75 z/sigma), over its first
                         term */
    double log_q_d, log_odds;              /* log q and log((1-q)/q) in plain doubles */
    double alias;                          /* relative aliasing error of a sum over the whole grid */
    int64_t j_high;                        /* first node computed the high way */
    int64_t j_next;                        /* the recurrence for v can go on from here ... */
    double v_hi[FA_LANES], v_lo[FA_LANES]; /* ... with these values of the nodes just before */
} fa_sgm;

/* e^x - 1, x = 1/sigma^2, about and without overflow: E_Q[(dP/dQ)^2] - 1 of a Gaussian */
FA_INLINE double fa_chi_square(double x) { return x < 30.0 ? expm1(x) : exp(fa_min(x, 300.0)); }

/* fa_sgm_step -- largest grid step whose aliasing error is below 2^-46 relative, for every order alpha > 1.
 *   source   docs/algorithms/quadrature.md, theorem 2; from the trapezoid theorem of Trefethen and Weideman (2014) */
FA_FUNC double fa_sgm_step(double sigma, double *alias_out)
{
    double spread = sigma > 1.0 ? 2.0 * log(sigma) : 0.0;
    double need = FA_LOG_ALIAS_TOLERANCE + log(FA_ALIAS_CONSTANT) + spread;
    const double pi = 3.14159265358979323846, theta_max = 0.9 * pi;
    double ratio = pi * sqrt(2.0 / need), theta, h, exponent;
    if (2.0 * pi / (ratio * sigma) > theta_max)
        ratio = 2.0 * pi * theta_max * sigma / (need + 0.5 * theta_max * theta_max * sigma * sigma);
    h = ratio * sigma;
    h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1));
    theta = 2.0 * pi / h; /* optimum of theta^2 sigma^2/2 - 2 pi theta sigma^2/h */
    theta = theta > theta_max ? theta_max : theta;
    exponent = 0.5 * theta * theta * sigma * sigma - 2.0 * pi * theta * sigma * sigma / h;
    *alias_out = FA_ALIAS_CONSTANT * exp(exponent + spread);
    return h;
}

/* 0 < q < 1, sigma > 0 finite */
FA_FUNC void fa_sgm_init(fa_sgm *m, double sigma, double q)
{
    fa_dd one = {1.0, 0.0}, arg;
    int i;
    double split;
    m->sigma = sigma;
    m->q = q;
    m->j_next = INT64_MIN;
    m->h = fa_sgm_step(sigma, &m->alias);
    m->inv_h = 1.0 / m->h;
    m->unit = m->h / sigma * 0.398942280401432677939946;
    m->tail_unit = m->unit * (1.0 + sigma / (7.75 * m->h));
    m->inv_var = fa_dd_div(one, fa_two_prod(sigma, sigma));
    arg = fa_dd_mul_d(m->inv_var, m->h);
    m->rho[0] = one;
    m->rho[1] = fa_exp_dd(arg);
    for (i = 2; i <= FA_LANES; i++)
        m->rho[i] = fa_dd_mul(m->rho[i - 1], m->rho[1]);
    m->log_q_d = log(q);
    m->log_odds = log1p(-q) - m->log_q_d;
    m->log_q.hi = m->log_q.lo = 0.0;
    /* high nodes only where low ones could overflow: y beyond 300 and v far above the odds */
    split = m->log_odds + 8.5;
    split = split > 300.0 ? split : 300.0;
    m->j_high = (split * sigma * sigma + 0.5) / m->h < 0x1p61 ? (int64_t)ceil((split * sigma * sigma + 0.5) / m->h)
                                                              : INT64_MAX;
}

/* nodes j .. j+n-1, n a multiple of FA_LANES, all on the same side of j_high:
 *   loss (hi, lo); base (hi, lo) = -z^2/(2 sigma^2) = log of Q's weight up to the constant `unit` */
FA_FUNC void fa_sgm_nodes_low(fa_sgm *m, int64_t j, int n, double *loss_hi, double *loss_lo, double *base_hi,
                              double *base_lo)
{
    double v_hi[FA_BLOCK], v_lo[FA_BLOCK];
    double q = m->q, h = m->h, start = (double)j * h;
    fa_dd half = {0.5 * m->inv_var.hi, 0.5 * m->inv_var.lo}, r8 = m->rho[FA_LANES];
    int i, s, goes_on = j == m->j_next;
    fa_dd y = fa_dd_mul(m->inv_var, fa_two_sum(start, -0.5)), v = {0.0, 0.0};
    if (!goes_on && !(y.hi < -200.0)) /* exp(-200) is below 1's last double-double bit */
        v = fa_exp_dd(y);
    for (i = 0; i < FA_LANES; i++) {
        fa_dd t = goes_on ? fa_dd_mul(fa_dd_make(m->v_hi[i], m->v_lo[i]), r8) : fa_dd_mul(v, m->rho[i]);
        v_hi[i] = t.hi;
        v_lo[i] = t.lo;
    }
    for (s = FA_LANES; s < n; s += FA_LANES) {
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            fa_dd t = fa_dd_mul(fa_dd_make(v_hi[s - FA_LANES + i], v_lo[s - FA_LANES + i]), r8);
            v_hi[s + i] = t.hi;
            v_lo[s + i] = t.lo;
        }
    }
    m->j_next = v_hi[n - 1] > 0.0 && v_hi[n - FA_LANES] > 0.0 ? j + n : INT64_MIN;
    for (i = 0; i < FA_LANES; i++) {
        m->v_hi[i] = v_hi[n - FA_LANES + i];
        m->v_lo[i] = v_lo[n - FA_LANES + i];
    }
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double z = start + (double)i * h;
        fa_dd zz = fa_two_prod(z, z), b = fa_dd_mul(zz, half);
        fa_dd d = fa_dd_add_d(fa_dd_make(v_hi[i], v_lo[i]), -1.0), l = fa_log1p_v(fa_dd_mul_d(d, q));
        loss_hi[i] = l.hi;
        loss_lo[i] = l.lo;
        base_hi[i] = -b.hi;
        base_lo[i] = -b.lo;
    }
}

FA_FUNC void fa_sgm_nodes_high(const fa_sgm *m, int64_t j, int n, double *loss_hi, double *loss_lo, double *base_hi,
                               double *base_lo)
{
    double h = m->h, start = (double)j * h, log_odds = m->log_odds;
    fa_dd half = {0.5 * m->inv_var.hi, 0.5 * m->inv_var.lo}, inv_var = m->inv_var, log_q = m->log_q;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double z = start + (double)i * h, v;
        fa_dd zz = fa_two_prod(z, z), b = fa_dd_mul(zz, half);
        fa_dd y = fa_dd_mul(inv_var, fa_two_sum(z, -0.5)), l = fa_dd_add(y, log_q);
        v = fa_exp_v(log_odds - y.hi, 0.0);
        l = fa_dd_add_d(l, v * (1.0 - v * (0.5 - v * (1.0 / 3.0 - 0.25 * v))));
        loss_hi[i] = l.hi;
        loss_lo[i] = l.lo;
        base_hi[i] = -b.hi;
        base_lo[i] = -b.lo;
    }
}

FA_FUNC void fa_sgm_nodes(fa_sgm *m, int64_t j, int n, double *loss_hi, double *loss_lo, double *base_hi,
                          double *base_lo)
{
    if (j >= m->j_high) {
        if (m->log_q.hi == 0.0)
            m->log_q = fa_log_dd(m->q);
        fa_sgm_nodes_high(m, j, n, loss_hi, loss_lo, base_hi, base_lo);
    }
    else
        fa_sgm_nodes_low(m, j, n, loss_hi, loss_lo, base_hi, base_lo);
}

/* loss and its slope's logistic p = q e^y/(1-q+q e^y) in plain doubles, any y: for choosing windows, never for answers
 */
FA_INLINE double fa_sgm_loss_guess(const fa_sgm *m, double z, double *posterior_out)
{
    double y = (z - 0.5) / (m->sigma * m->sigma), d = y - m->log_odds;
    if (d > 0) {
        *posterior_out = 1.0 / (1.0 + exp(-d));
        return y + m->log_q_d + log1p(exp(-d));
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
