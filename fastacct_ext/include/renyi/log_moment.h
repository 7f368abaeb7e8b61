/* renyi/log_moment.h -- K(1+a) = log E_Q[(dP/dQ)^(1+a)], a > 0, of the Poisson-subsampled Gaussian, with a proved error
 * bound.
 *
 * With t = a * loss, E2(t) = e^t - 1 - t, and Q-weights w, P-weights p = w e^loss on the grid of loss/sampled.h,
 *
 *     M - 1 = sum_j w_j [(1+x_j)^(1+a) - 1 - (1+a) x_j] = sum_j p_j E2(a loss_j)  +  a sum_j p_j E2(-loss_j).
 *
 * Every term is positive: nothing cancels at small q, and dividing by a is harmless as a -> 0 (the second sum is
 * KL(P||Q)). All orders share the nodes, which are plain doubles.  Nodes with a large a * loss are far ones: summed as
 * (1+x)^(1+a) relative to the largest of them, with exponents that are seen from the sampled bump.
 *
 * The error ledger (docs/algorithms/quadrature.md) has four entries: aliasing of the trapezoid rule, what is left out,
 * rounding of sums, rounding of near and of far terms.  It is added to the result: `upper` is a proved upper bound.
 */
#ifndef FA_LOG_MOMENT_H
#define FA_LOG_MOMENT_H

#include "node_cache.h"

#define FA_ROUNDING     5e-14 /* relative rounding error of a sum of terms, proved <= 357 u */
#define FA_MOMENT_TIGHT 1e-11 /* a relative width that counts as tight */

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

/* relative rounding error of the far sum */
FA_INLINE double fa_far_error(const fa_sgm *m, const fa_sums *s, double a)
{
    return FA_EPS * (60.0 + s->far / s->s0 + 4.0 * fabs(s->reference)) + fa_center_error(m, a);
}

/* the last step: M is off by at most `error`, relative to itself, and from below by `dropped` more */
FA_INLINE void fa_moment_bound(fa_moment *out, double error, double dropped, fa_need need)
{
    double lacking = error + dropped;
    out->upper = out->lower = out->k;
    out->status = FA_OK;
    if (need == FA_SEARCH)
        return;
    out->upper += error;
    out->upper += out->upper * 4.0 * FA_EPS;
    out->lower = lacking < 0.5 ? fa_max(0.0, out->k - lacking * (1.0 + lacking)) : 0.0;
    out->lower -= out->lower * 4.0 * FA_EPS;
    out->status = out->upper - out->lower <= FA_MOMENT_TIGHT * out->k ? FA_OK : FA_LOOSE;
}

/* where M overflows: all relative to the far sum */
FA_FUNC void fa_moment_from_far(const fa_log_moment *lm, const fa_sums *s, double a, double omitted, fa_need need,
                                fa_moment *out)
{
    double head = s->e2 + a * s->kl, c = exp(-s->reference) / lm->mech.unit, total = s->s0 + (1.0 + head) * c;
    out->k = s->reference + log(lm->mech.unit * total);
    out->d1 = (s->s1 + (s->slope + head) * c) / total;
    out->d2 = (s->s2 + s->curve * c) / total - out->d1 * out->d1;
    out->excess = out->d1 - out->k;
    omitted *= exp(fa_shift(s) - out->k);
    fa_moment_bound(out, lm->mech.alias + FA_ROUNDING + fa_far_error(&lm->mech, s, a) + omitted,
                    (2.0 + a) * FA_NEAR_REST, need);
}

/* build K, its bounds and its derivatives from the sums; `omitted` is an absolute error of M - 1, times exp(-shift) */
FA_FUNC void fa_moment_from_sums(const fa_log_moment *lm, const fa_sums *s, double a, double omitted, fa_need need,
                                 fa_moment *out)
{
    double head = s->e2 + a * s->kl, log_far = s->s0 > 0.0 ? s->reference + log(lm->mech.unit * s->s0) : -INFINITY,
           far = 0.0, scale = 0.0, m, inv, error = omitted + s->near;
    if (log_far > 650.0) {
        fa_moment_from_far(lm, s, a, omitted, need, out);
        return;
    }
    if (s->s0 > 0.0) {
        far = exp(log_far);
        scale = far / s->s0;
        error = omitted * exp(fa_shift(s)) + s->near + far * fa_far_error(&lm->mech, s, a);
    }
    m = head + far;
    inv = 1.0 / (1.0 + m);
    out->k = log1p(m);
    if (need != FA_BOUNDS) {
        double ml = m < 1e-4 ? m * m * (0.5 - m * (1.0 / 6.0 - m * (1.0 / 12.0))) : (1.0 + m) * out->k - m;
        out->d1 = (s->slope + head + scale * s->s1) * inv;
        out->d2 = (s->curve + scale * s->s2) * inv - out->d1 * out->d1;
        out->excess = (s->slope + scale * (s->s1 - s->s0) - ml) * inv;
    }
    fa_moment_bound(out, (error + m * (lm->mech.alias + FA_ROUNDING)) * inv, far * inv * (2.0 + a) * FA_NEAR_REST,
                    need);
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
    double s = 0.5 * lm->mech.inv_var, log_rho = lm->mech.log_odds - a * s, per_order = a * s + lm->mech.log_q,
           gap;
    if (!(log_rho < -27.0) || !(per_order > 0.0))
        return 0;
    gap = exp(log_rho);
    if (!(gap <= 2e-14 * per_order))
        return 0;
    out->k = (1.0 + a) * per_order;
    out->d1 = a * (per_order + (1.0 + a) * s);
    out->d2 = 2.0 * a * a * s;
    out->excess = a * a * s - lm->mech.log_q;
    /* rounding: 4 u of each of the two terms of per_order */
    gap += 6.0 * FA_EPS * (a * s - lm->mech.log_q);
    out->upper = (1.0 + a) * (per_order + gap) * (1.0 + 4.0 * FA_EPS);
    out->lower = (1.0 + a) * (per_order - gap) * (1.0 - 4.0 * FA_EPS);
    out->status = FA_OK;
    return 1;
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
    if (!(out->upper - out->lower <= FA_MOMENT_TIGHT * out->k))
        out->status = FA_LOOSE;
}

/* from the sums over nodes, or by Minkowski's bound where that is less or nodes run out */
FA_FUNC void fa_moment_sum(const fa_log_moment *lm, double a, fa_need need, fa_moment *out)
{
    fa_sums sums = {.reference = -INFINITY};
    double omitted = 0.0, limit = fa_near_limit(&lm->mech, a, fa_right_end(&lm->mech, a));
    fa_moment loose;
    out->upper = INFINITY;
    out->status = FA_LOOSE;
    if (a <= lm->a_cap) {
        fa_sum_cached(lm, a, need, &sums, &omitted);
        fa_moment_from_sums(lm, &sums, a, omitted, need, out);
    }
    else if (fa_sums_all(&lm->mech, a, limit, FA_SPARE, &sums, &omitted))
        fa_moment_from_sums(lm, &sums, a, omitted, need, out);
    if (out->status == FA_OK)
        return;
    fa_moment_minkowski(lm, a, &loose);
    if (!(out->upper <= loose.upper))
        *out = loose;
}

/* fa_log_moment_at -- K(1+a) with bounds and derivatives.
 *   domain   any a > 0, 0 <= q <= 1, sigma >= 0        result nearest, with `lower` and `upper` certified
 *   error    measured and proved: docs/algorithms/quadrature.md; relative 1e-11 for sigma >= 0.03, q >= 1e-12, a <= 1e6
 *   status   FA_OK | FA_LOOSE (Minkowski's bound, or a ledger above 1e-11)
 *   need     which outputs are needed: see fa_need
 *   cost     cached: about 0.4 ns a node; else 5 ns a node
 *   oracle   reference.log_moment */
FA_FUNC void fa_log_moment_at(const fa_log_moment *lm, double a, fa_moment *out, fa_need need)
{
    double sigma = lm->mech.sigma, q = lm->mech.q;
    if (q <= 0.0 || sigma == INFINITY) {
        memset(out, 0, sizeof(*out));
        return;
    }
    if (q >= 1.0 || sigma <= 0.0) {
        out->excess = 0.5 * (a / sigma) * (a / sigma);
        out->k = 0.5 * (a / sigma) * ((1.0 + a) / sigma);
        out->d1 = out->k + out->excess;
        out->d2 = 2.0 * out->excess;
        out->upper = out->k * (1.0 + 8.0 * FA_EPS);
        out->lower = out->k * (1.0 - 8.0 * FA_EPS);
        out->status = FA_OK;
    }
    else if (!(sigma > FA_SIGMA_MIN && sigma < FA_SIGMA_MAX))
        fa_moment_minkowski(lm, a, out);
    else if (!fa_moment_sandwich(lm, a, out))
        fa_moment_sum(lm, a, need, out);
    if (need != FA_SEARCH)
        fa_moment_finish(lm, a, out);
}

#endif
