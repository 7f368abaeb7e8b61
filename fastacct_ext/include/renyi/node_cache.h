/* renyi/node_cache.h -- nodes of one (sigma, q) that all orders share, and their sums at an order. */
#ifndef FA_NODE_CACHE_H
#define FA_NODE_CACHE_H

#include "quadrature.h"

#define FA_CACHE     512    /* nodes kept for sharing over orders */
#define FA_SIGMA_MIN 1e-100 /* outside, 1/sigma^2 is not a normal double: Minkowski's bound answers */
#define FA_SIGMA_MAX 1e100

typedef struct {
    fa_sgm mech;
    double a_cap;                       /* cached nodes serve orders 1 + a, a <= a_cap; 0: no cache */
    double a_limit;                     /* largest cap that FA_CACHE nodes can serve */
    int n;                              /* cached nodes */
    double kl[FA_CACHE / FA_LANES + 1]; /* kl[i]: sum of p E2(-loss) over the first i * FA_LANES nodes, so that results
                                           do not depend on how many nodes happen to be cached */
    int64_t j_first;
    double z_first;
    double first_loss[FA_CACHE / FA_LANES], last_loss[FA_CACHE / FA_LANES]; /* of FA_LANES nodes each: their ends */
    double loss[FA_CACHE], tail[FA_CACHE], weight[FA_CACHE];
} fa_log_moment;

/* nodes from z_first that order 1 + a needs; one formula for filling and for using the cache */
FA_INLINE int fa_cached_nodes(const fa_log_moment *lm, double a, double z_first)
{
    return ((int)((fa_right_end(&lm->mech, a) - z_first) * lm->mech.inv_h) + 3 + FA_LANES - 1) / FA_LANES * FA_LANES;
}

FA_FUNC void fa_kl_prefix(fa_log_moment *lm)
{
    double term[FA_CACHE];
    int i, k;
    FA_PRAGMA(omp simd)
    for (i = 0; i < lm->n; i++) {
        double e, l = fa_min(lm->loss[i], FA_EXP_MAX); /* beyond, far at every order that has a cache */
        term[i] = lm->weight[i] * fa_expm1_minus_plain_v(-l, &e);
    }
    lm->kl[0] = 0.0;
    for (i = 0; i < lm->n / FA_LANES; i++) {
        double sum = 0.0;
        for (k = 0; k < FA_LANES; k++)
            sum += term[FA_LANES * i + k];
        lm->kl[i + 1] = lm->kl[i] + sum;
    }
}

/* fill the cache for orders up to 1 + a_cap <= 1 + a_limit */
FA_FUNC void fa_log_moment_cache(fa_log_moment *lm, double a_cap)
{
    const fa_sgm *m = &lm->mech;
    int i;
    lm->j_first = (int64_t)floor(-FA_TAIL_WIDTH * m->sigma / m->h);
    lm->z_first = (double)lm->j_first * m->h;
    lm->n = fa_cached_nodes(lm, a_cap, lm->z_first);
    fa_sgm_nodes(m, lm->j_first, lm->n, lm->loss, lm->tail, lm->weight);
    for (i = 0; i < FA_CACHE / FA_LANES; i++)
        lm->first_loss[i] = lm->last_loss[i] = -1e3;
    for (i = 0; i < lm->n / FA_LANES; i++) {
        lm->first_loss[i] = lm->loss[FA_LANES * i];
        lm->last_loss[i] = lm->loss[FA_LANES * i + FA_LANES - 1];
    }
    lm->a_cap = a_cap;
    fa_kl_prefix(lm);
}

FA_FUNC void fa_log_moment_init(fa_log_moment *lm, double sigma, double q)
{
    lm->a_cap = lm->a_limit = 0.0;
    lm->n = 0;
    lm->mech.sigma = sigma;
    lm->mech.q = q;
    if (q > 0.0 && q < 1.0 && sigma > FA_SIGMA_MIN && sigma < FA_SIGMA_MAX) {
        fa_sgm_init(&lm->mech, sigma, q);
        lm->a_limit = (FA_CACHE - FA_LANES - 5) * lm->mech.h - 2.0 * FA_TAIL_WIDTH * sigma - 1.0;
        if (lm->a_limit < 1.0)
            lm->a_limit = 0.0;
    }
}

/* The first cached node that matters at one order, and the log of what the terms left of it may sum to, 0 where there
 * are none.  Where the sampled bump dominates, start 8.5 sigma left of alpha.  The slope of log[(1+x)^alpha N] is
 * (alpha p(z) - z)/sigma^2: between the z_p where the logistic p reaches z/alpha at the new start, and that start, the
 * terms increase; left of z_p they sum to less than (1 + x(z_p))^alpha = ((1-q)/(1-p))^alpha. */
FA_FUNC int fa_cached_begin(const fa_log_moment *lm, double a, double *log_left_out)
{
    const fa_sgm *m = &lm->mech;
    double alpha = 1.0 + a, p = 1.0 - (FA_TAIL_WIDTH + 0.5) * m->sigma / alpha,
           floor_k = alpha * (0.5 * a * m->inv_var + m->log_q);
    *log_left_out = 0.0;
    if (!(p > 0.5 && floor_k > 45.0))
        return 0;
    *log_left_out = -alpha * log1p(-p);
    if (!(floor_k - *log_left_out > 45.0 + fabs(floor_k) * 1e-10))
        return 0;
    return (int)((p * alpha - lm->z_first) * m->inv_h) / FA_LANES * FA_LANES;
}

/* sums over the cached nodes that matter at one order, and the bound of what they leave out */
FA_FUNC void fa_sum_cached(const fa_log_moment *lm, double a, fa_need need, fa_sums *s, double *omitted_out)
{
    const fa_sgm *m = &lm->mech;
    double log_left, shift, end;
    int n = fa_cached_nodes(lm, a, lm->z_first), begin = fa_cached_begin(lm, a, &log_left), at_once = FA_BLOCK, i;
    fa_bump bump = {.a = a};
    end = lm->z_first + n * m->h;
    bump.limit = fa_near_limit(m, a, end);
    if (a * lm->loss[n - 1] > bump.limit)
        fa_bump_place(m, end, &bump);
    else if (bump.limit > FA_NEAR)
        at_once = n;
    for (i = begin; i < n; i += at_once) {
        int block = n - i < at_once ? n - i : at_once;
        fa_sums_block(m, &bump, need, lm->j_first + i, block, lm->loss + i, lm->tail + i, lm->weight + i,
                      lm->kl[(i + block) / FA_LANES] - lm->kl[i / FA_LANES], s);
    }
    if (need == FA_SEARCH)
        return;
    shift = fa_shift(s);
    *omitted_out = s->lost * fa_exp_plain_v(-shift) +
                   fa_omitted_right(m, a, lm->z_first + (n - 1) * m->h, lm->loss[n - 1], shift);
    if (begin == 0)
        *omitted_out += fa_omitted_left(m, a, lm->z_first, shift);
    else {
        double z = lm->z_first + begin * m->h;
        *omitted_out += 1.000001 * (fa_exp_plain_v(log_left - shift) +
                                    begin * m->unit * fa_exp_plain_v((1.0 + a) * lm->loss[begin] -
                                                                     0.5 * z * z * m->inv_var - shift));
    }
}

#endif
