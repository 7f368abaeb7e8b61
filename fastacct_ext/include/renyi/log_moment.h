/* renyi/log_moment.h -- K(1+a) = log E_Q[(dP/dQ)^(1+a)], a > 0, of the Poisson-subsampled Gaussian, with a proved error
 * bound.
 *
 * With t = a * loss, E2(t) = e^t - 1 - t, and Q-weights w, P-weights p = w e^loss on the grid of loss/sampled.h,
 *
 *     M - 1 = sum_j w_j [(1+x_j)^(1+a) - 1 - (1+a) x_j] = sum_j p_j E2(a loss_j)  +  a sum_j p_j E2(-loss_j).
 *
 * Every term is positive: nothing cancels at small q, and dividing by a is harmless as a -> 0 (the second sum is
 * KL(P||Q)). All orders share the nodes.  Nodes where E2 or the weight would overflow or underflow are summed in the
 * form exp((1+a) loss + base - reference) instead.
 *
 * The error ledger (docs/algorithms/quadrature.md) has four entries: aliasing of the trapezoid rule, the tails and the
 * valley left out, rounding of the terms, rounding of the exponents at huge orders.  It is added to the result: `upper`
 * is a proved upper bound.
 */
#ifndef FA_LOG_MOMENT_H
#define FA_LOG_MOMENT_H

#include "node_cache.h"

#define FA_ROUNDING 5e-14 /* relative rounding error of a sum of terms, proved <= 400 u */

typedef enum {
    FA_OK = 0,
    FA_LOOSE = 1,
    FA_NOT_MET = 2
} fa_status; /* tight | certified but looser | target cannot be met */

typedef struct {
    double k;      /* log-moment K(1+a), nearest                         */
    double upper;  /* K with the error ledger added                      */
    double lower;  /* and taken away                                     */
    double d1, d2; /* a K', a^2 K''          (plain doubles, for search) */
    double excess; /* a K' - K >= 0          (plain doubles, for search) */
    int status;
} fa_moment;

/* build K, its bounds and its derivatives from the sums; `omitted` and `alias` are absolute and relative errors of M -
 * 1 */
FA_FUNC void fa_moment_from_sums(const fa_log_moment *lm, const fa_sums *s, double a, double omitted, fa_need need,
                                 fa_moment *out)
{
    double unit = lm->mech.unit, head = s->e2 + a * s->kl, relative, lacking = s->dropped_ratio, log_mass, big = 0.0;
    relative = lm->mech.alias + FA_ROUNDING + (2.0 + a) * s->loss_max * (s->precision == FA_PLAIN ? 0x1p-52 : 0x1p-63);
    if (s->s0 > 0.0)
        big = s->reference + log(unit * s->s0);
    if (s->s0 > 0.0 && big > 650.0) {
        double c = exp(-s->reference) / unit; /* head relative to the scaled sum, often 0 */
        double total = s->s0 + (1.0 + head) * c;
        log_mass = s->reference + log(unit * total);
        out->d1 = (s->s1 + (s->slope + head) * c) / total;
        out->d2 = (s->s2 + s->curve * c) / total - out->d1 * out->d1;
        out->excess = out->d1 - log_mass;
        out->k = log_mass;
        relative += omitted * exp(fa_shift(s) - log_mass);
        lacking += s->dropped * exp(-log_mass);
    }
    else {
        double scaled = s->s0 > 0.0 ? exp(s->reference) * unit : 0.0;
        double m = head + scaled * s->s0, ml;
        log_mass = log1p(m);
        out->k = log_mass;
        if (need != FA_BOUNDS) {
            double inv = 1.0 / (1.0 + m);
            out->d1 = (s->slope + head + scaled * s->s1) * inv;
            out->d2 = (s->curve + scaled * s->s2) * inv - out->d1 * out->d1;
            ml = m < 1e-4 ? m * m * (0.5 - m * (1.0 / 6.0 - m * (1.0 / 12.0))) : (1.0 + m) * log_mass - m;
            out->excess = (s->slope + scaled * (s->s1 - s->s0) - ml) * inv;
        }
        if (s->s0 > 0.0) {
            omitted *= exp(fa_shift(s));
            lacking += m > 0.0 ? s->dropped / m : 0.0;
        }
        relative += m > 0.0 ? omitted / m : (omitted > 0.0 ? INFINITY : 0.0);
    }
    if (need == FA_SEARCH) {
        out->upper = out->lower = out->k;
        out->status = FA_OK;
        return;
    }
    out->upper = out->k + relative * fa_min(out->k, 1.0);
    out->upper += out->upper * 4.0 * FA_EPS;
    lacking += relative;
    out->lower = lacking < 0.5 ? fa_max(0.0, out->k - lacking * fa_min(out->k, 1.0) * (1.0 + lacking)) : 0.0;
    out->lower -= out->lower * 4.0 * FA_EPS;
    out->status = out->upper - out->lower <= 1e-12 * out->k ? FA_OK : FA_LOOSE;
}

FA_FUNC void fa_moment_minkowski(const fa_log_moment *lm, double a, fa_moment *out)
{
    double d1, d2;
    out->k = fa_sgm_minkowski(lm->mech.sigma, lm->mech.q, a, &d1, &d2);
    out->d1 = a * d1;
    out->d2 = a * a * d2;
    out->excess = fa_max(out->d1 - out->k, 0.0);
    out->upper = out->k * (1.0 + 64.0 * FA_EPS);
    if (lm->mech.q < 1.0 &&
        a / lm->mech.sigma / lm->mech.sigma > 1.0) /* y + log q cancels in the kernel of the bound */
        out->upper += 8.0 * FA_EPS * (1.0 + a) * (0.5 * a / lm->mech.sigma / lm->mech.sigma - log(lm->mech.q));
    out->lower = 0.0;
    out->status = FA_LOOSE;
}

/* fa_moment_sandwich -- K in closed form where the sampled bump is all there is.
 *   q^alpha e^(a alpha/(2 sigma^2)) <= M <= that times (1 + rho)^alpha, rho = (1-q)/q e^(-a/(2 sigma^2)): from (1+x) >=
 * q v and from Minkowski's inequality.  Taken when the two agree to 2e-14 relative.       returns 0 when they do not */
FA_FUNC int fa_moment_sandwich(const fa_log_moment *lm, double a, fa_moment *out)
{
    double s = 0.5 * lm->mech.inv_var.hi, log_rho = lm->mech.log_odds - a * s, per_order = a * s + lm->mech.log_q_d,
           gap;
    if (!(log_rho < -27.0) || !(per_order > 0.0))
        return 0;
    gap = exp(log_rho);
    if (!(gap <= 2e-14 * per_order))
        return 0;
    out->k = (1.0 + a) * per_order;
    out->d1 = a * (per_order + (1.0 + a) * s);
    out->d2 = 2.0 * a * a * s;
    out->excess = a * a * s - lm->mech.log_q_d;
    /* rounding: 4 u of each of the two terms of per_order */
    gap += 6.0 * FA_EPS * (a * s - lm->mech.log_q_d);
    out->upper = (1.0 + a) * (per_order + gap) * (1.0 + 4.0 * FA_EPS);
    out->lower = (1.0 + a) * (per_order - gap) * (1.0 - 4.0 * FA_EPS);
    out->status = FA_OK;
    return 1;
}

/* First half of fa_log_moment_at: returns 1 if `out` is final but for fa_moment_finish, 0 if the sums are ready for
 * fa_moment_end. Blocks run the first half for many orders and then the second: its long chain of dependent operations
 * would stall the sums. */
FA_FUNC int fa_moment_begin(fa_log_moment *lm, double a, fa_need need, fa_sums *sums, double *omitted_out,
                            fa_moment *out)
{
    static const fa_sums empty = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -INFINITY, 0.0, 0.0, 0.0, FA_PRECISE};
    double sigma = lm->mech.sigma, q = lm->mech.q;
    if (q <= 0.0 || sigma == INFINITY) {
        memset(out, 0, sizeof(*out));
        return 1;
    }
    if (q >= 1.0 || sigma <= 0.0) {
        out->excess = 0.5 * (a / sigma) * (a / sigma);
        out->k = 0.5 * (a / sigma) * ((1.0 + a) / sigma);
        out->d1 = out->k + out->excess;
        out->d2 = 2.0 * out->excess;
        out->upper = out->k * (1.0 + 8.0 * FA_EPS);
        out->lower = out->k * (1.0 - 8.0 * FA_EPS);
        out->status = FA_OK;
        return 1;
    }
    if (!(sigma > FA_SIGMA_MIN && sigma < FA_SIGMA_MAX)) {
        fa_moment_minkowski(lm, a, out);
        return 1;
    }
    if (fa_moment_sandwich(lm, a, out))
        return 1;
    *sums = empty;
    *omitted_out = 0.0;
    if (a <= lm->a_cap)
        fa_sum_cached(lm, a, need, sums, omitted_out);
    else if (!fa_sum_windows(&lm->mech, a, sums, omitted_out)) {
        fa_moment_minkowski(lm, a, out);
        return 1;
    }
    return 0;
}

FA_FUNC void fa_moment_end(const fa_log_moment *lm, const fa_sums *sums, double a, double omitted, fa_need need,
                           fa_moment *out)
{
    fa_moment_from_sums(lm, sums, a, omitted, need, out);
    if (out->status != FA_OK) {
        fa_moment loose;
        fa_moment_minkowski(lm, a, &loose);
        if (loose.upper < out->upper)
            *out = loose;
    }
}

/* the allowance for underflow: more than all terms that can have vanished below the smallest double */
FA_INLINE void fa_moment_finish(const fa_log_moment *lm, double a, fa_moment *out)
{
    double underflow = (1.0 + a) * (0x1p-1050 + a * 0x1p-1072);
    if (!(lm->mech.q > 0.0) || lm->mech.sigma == INFINITY)
        return;
    out->upper += underflow;
    out->lower = out->lower > underflow ? out->lower - underflow : 0.0;
    if (!(out->upper >= 0.0))
        out->upper = INFINITY;
    if (!(out->upper - out->lower <= 1e-12 * out->k))
        out->status = FA_LOOSE;
}

/* fa_log_moment_at -- K(1+a) with bounds and derivatives.
 *   domain   any a > 0, 0 <= q <= 1, sigma >= 0        result nearest, with `lower` and `upper` certified
 *   error    measured and proved: docs/algorithms/quadrature.md; relative 1e-12 for sigma >= 0.03, q >= 1e-12, a <= 1e5
 *   status   FA_OK | FA_LOOSE (Minkowski's bound, or a ledger above 1e-12)
 *   need     which outputs are needed: see fa_need
 *   cost     cached: about 0.7 ns a node; else 5 ns a node
 *   oracle   reference.log_moment */
FA_FUNC void fa_log_moment_at(fa_log_moment *lm, double a, fa_moment *out, fa_need need)
{
    fa_sums sums;
    double omitted;
    if (!fa_moment_begin(lm, a, need, &sums, &omitted, out))
        fa_moment_end(lm, &sums, a, omitted, need, out);
    if (need != FA_SEARCH)
        fa_moment_finish(lm, a, out);
}

#endif
