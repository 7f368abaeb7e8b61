/* renyi/node_cache.h -- nodes of one (sigma, q) that all orders share, and their sums at an order. */
#ifndef FA_NODE_CACHE_H
#define FA_NODE_CACHE_H

#include "windows.h"

#define FA_CACHE     512    /* nodes kept for sharing over orders */
#define FA_SIGMA_MIN 1e-100 /* outside, 1/sigma^2 is not a normal double: Minkowski's bound answers */
#define FA_SIGMA_MAX 1e100

/* k and the derivatives | k, lower and upper | all */
typedef enum { FA_SEARCH = 0, FA_BOUNDS = 1, FA_BOTH = 2 } fa_need;

typedef struct {
    fa_sgm mech;
    double a_cap;                       /* cached nodes serve orders 1 + a, a <= a_cap; 0: no cache */
    double a_limit;                     /* largest cap that FA_CACHE nodes can serve */
    int n, n_direct;                    /* cached nodes; those whose weight is a normal double */
    double kl[FA_CACHE / FA_LANES + 1]; /* kl[i]: sum of p E2(-loss) over the first i * FA_LANES nodes, so that results
                                           do not depend on how many nodes happen to be cached */
    double z_first;
    double first_loss[FA_CACHE / FA_LANES], last_loss[FA_CACHE / FA_LANES]; /* of FA_LANES nodes each: their ends */
    double first_base[FA_CACHE / FA_LANES], last_base[FA_CACHE / FA_LANES];
    double loss_hi[FA_CACHE], loss_lo[FA_CACHE], base_hi[FA_CACHE], base_lo[FA_CACHE], weight[FA_CACHE];
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
    for (i = 0; i < lm->n_direct; i++) {
        double e;
        term[i] = lm->weight[i] * fa_expm1_minus_v(-lm->loss_hi[i], -lm->loss_lo[i], &e);
    }
    lm->kl[0] = 0.0;
    for (i = 0; i < lm->n_direct / FA_LANES; i++) {
        double sum = 0.0;
        for (k = 0; k < FA_LANES; k++)
            sum += term[FA_LANES * i + k];
        lm->kl[i + 1] = lm->kl[i] + sum;
    }
}

/* fill the cache for orders up to 1 + a_cap <= 1 + a_limit */
FA_FUNC void fa_log_moment_cache(fa_log_moment *lm, double a_cap)
{
    fa_sgm *m = &lm->mech;
    int64_t j0 = (int64_t)floor(-FA_TAIL_WIDTH * m->sigma / m->h), n, i;
    n = fa_cached_nodes(lm, a_cap, (double)j0 * m->h);
    m->j_next = INT64_MIN;
    for (i = 0; i < n; i += FA_BLOCK) {
        int block = n - i < FA_BLOCK ? (int)(n - i) : FA_BLOCK;
        fa_sgm_nodes(m, j0 + i, block, lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i);
        fa_weights(m, lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i, block, lm->weight + i);
    }
    for (i = 0; i < FA_CACHE / FA_LANES; i++)
        lm->first_loss[i] = lm->last_loss[i] = lm->first_base[i] = lm->last_base[i] = -1e3;
    for (i = 0; i < n / FA_LANES; i++) {
        lm->first_loss[i] = lm->loss_hi[FA_LANES * i];
        lm->first_base[i] = lm->base_hi[FA_LANES * i];
        lm->last_loss[i] = lm->loss_hi[FA_LANES * i + FA_LANES - 1];
        lm->last_base[i] = lm->base_hi[FA_LANES * i + FA_LANES - 1];
    }
    lm->n = (int)n;
    lm->n_direct = (int)fa_min((double)n, floor(35.0 * m->sigma / m->h) - (double)j0) / FA_LANES * FA_LANES;
    lm->a_cap = a_cap;
    lm->z_first = (double)j0 * m->h;
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
           floor_k = alpha * (0.5 * a * m->inv_var.hi + m->log_q_d);
    *log_left_out = 0.0;
    if (!(p > 0.5 && floor_k > 45.0))
        return 0;
    *log_left_out = -alpha * log1p(-p);
    if (!(floor_k - *log_left_out > 45.0 + fabs(floor_k) * 1e-10))
        return 0;
    return (int)((p * alpha - lm->z_first) * m->inv_h) / FA_LANES * FA_LANES;
}

/* where the nodes from `begin` on end whose weights and exponentials are normal doubles: losses increase */
FA_FUNC int fa_cached_direct(const fa_log_moment *lm, double a, int begin, int n)
{
    int direct = n < lm->n_direct ? n : lm->n_direct, low = begin;
    if (direct > begin && a * lm->loss_hi[direct - 1] > 690.0) {
        while (low < direct) {
            int mid = (low + direct) / 2;
            if (a * lm->loss_hi[mid] > 690.0)
                direct = mid;
            else
                low = mid + 1;
        }
        direct = direct / FA_LANES * FA_LANES;
    }
    return direct > begin ? direct : begin;
}

/* sums over the cached nodes that matter at one order, and the bound of what they leave out */
FA_FUNC void fa_sum_cached(const fa_log_moment *lm, double a, fa_need need, fa_sums *s, double *omitted_out)
{
    const fa_sgm *m = &lm->mech;
    double log_left, shift;
    int n = fa_cached_nodes(lm, a, lm->z_first), begin = fa_cached_begin(lm, a, &log_left),
        direct = fa_cached_direct(lm, a, begin, n), i;
    if (direct > begin)
        s->kl = lm->kl[direct / FA_LANES] - lm->kl[begin / FA_LANES];
    s->loss_max = fa_max(fabs(lm->loss_hi[0]), lm->loss_hi[n - 1]);
    if ((2.0 + a) * s->loss_max < FA_PLAIN_LIMIT)
        s->precision = FA_PLAIN;
    if (need == FA_BOUNDS)
        s->e2 += fa_sums_value(lm->loss_hi + begin, lm->loss_lo + begin, lm->weight + begin, direct - begin, a,
                               s->precision);
    else
        fa_sums_direct(lm->loss_hi + begin, lm->loss_lo + begin, lm->weight + begin, direct - begin, a, s);
    for (i = direct; i < n; i += FA_BLOCK)
        fa_sums_scaled(lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i,
                       n - i < FA_BLOCK ? n - i : FA_BLOCK, a, s);
    if (need == FA_SEARCH)
        return;
    if (direct < n) /* beyond 35 sigma under N(0), 35 - 1/sigma under N(1); or a loss > 690 */
        s->dropped = (2.0 + a) * exp(-0.5 * (35.0 - 1.0 / m->sigma) * (35.0 - 1.0 / m->sigma));
    shift = fa_shift(s);
    *omitted_out = fa_omitted_right(m, a, lm->z_first + (n - 1) * m->h, lm->loss_hi[n - 1], shift);
    if (begin == 0)
        *omitted_out += fa_omitted_left(m, a, lm->z_first, shift);
    else
        *omitted_out += 1.000001 *
                        (fa_exp_v(log_left - shift, 0.0) +
                         begin * m->unit * fa_exp_v((1.0 + a) * lm->loss_hi[begin] + lm->base_hi[begin] - shift, 0.0));
}

#endif
