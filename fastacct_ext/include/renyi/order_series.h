/* renyi/order_series.h -- M - 1 = E_Q[(dP/dQ)^(1+a)] - 1 over a whole interval of orders, from one pass over the nodes.
 *
 * The half-line of orders is cut into leaves, by (sigma, q) alone.  In the leaf from c to c + r, a = c + r t,
 *
 *     M - 1 = sum_k t^k coefficient_k,     coefficient_k = sum_j w_j e^((1+c) loss_j) (r loss_j)^k / k!     for k >= 2,
 *
 * and what E2 takes off in the first two.  The series begins at the left end, so that its terms are positive and
 * nothing cancels.  All that is left out is bounded at the right end, where every term is largest: `relative` holds for
 * each order of the leaf (docs/algorithms/order_search.md).
 */
#ifndef FA_ORDER_SERIES_H
#define FA_ORDER_SERIES_H

#include "leaf_map.h"

#ifndef FA_LEAF_LEDGER /* tests starve the series */
#define FA_LEAF_LEDGER 4e-12 /* a series that is less certain is not used */
#endif
#define FA_TERMS           42 /* powers of a series: 2 and five strides */
#define FA_STRIDE          8
#define FA_LEAF_REACH      34.0    /* of r loss: nodes further out are left out */
#define FA_LEAF_ROUNDING   3.7e-14 /* of coefficients and of the sum of the series: 333 u */
#define FA_LEAF_HUGE       200.0   /* of log M: there is no series beyond */
#define FA_LEAF_LEAST      1e-150  /* of M - 1: no allowance for underflow is needed above it */
#define FA_LEAF_SIGMA_MOST 1e6     /* beyond, nodes err by more than the ledger counts */
#define FA_LEAF_RATE_MOST  0.25    /* of q: negative losses are small below it */

/* At the best order two sides balance: the left one grows with the order, the right one does not.
 *   epsilon   steps (a K' - K) + log(1+a)     against   -log delta
 *   delta     steps K'                        against   epsilon + log(1 + 1/a)         no logarithms for mironov */
typedef struct {
    int for_delta;
    double sharp; /* 1; 0 for mironov */
} fa_sides;

/* steps * value + shift against the target, at t = i/7, and the slopes of both in t */
typedef struct {
    double value[FA_LANES], shift[FA_LANES], value_slope[FA_LANES], shift_slope[FA_LANES];
} fa_balances;

/* cells whose best order lies in the leaf, up to FA_LANES, side by side: between which balances, and where about */
typedef struct {
    int64_t n, cell[FA_LANES];
    double steps[FA_LANES], target[FA_LANES], from[FA_LANES], t[FA_LANES];
} fa_waiting;

typedef struct {
    double begin, radius; /* orders a of the leaf: begin <= a < begin + radius */
    double relative;      /* ledger of M - 1, relative; INFINITY: no series, and balances at the ends alone */
    double coefficient[FA_TERMS];
    fa_balances at;
    fa_waiting waiting;
} fa_leaf;

/* a little above exp(t), by at most 2e-4 of it; t below 700 */
FA_INLINE double fa_exp_above_v(double t)
{
    double s = fa_max(-FA_EXP_MAX, t), k, scale = fa_power_of_two_v(s, &k), r = FA_FMA(-FA_LN2, k, s);
    return FA_HORNER4(1.0 / 24.0, r, 1.0 / 6.0, 0.5, 1.0, 1.0001) * scale;
}

/* the nodes that a series sums, block by block, each block with its share of one power of t; and what it leaves out */
typedef struct {
    int n, direct;                  /* blocks; those before `direct` have near nodes ... */
    int near;                       /* ... all nodes of the cache before this one */
    int block[FA_CACHE / FA_LANES]; /* which they are: losses increase */
    double rest;                    /* bound of the other nodes, over the leaf */
    double worst;                   /* error of a far node's exponent, in u; below 0 where there is none */
    double x[FA_CACHE];             /* r loss */
    double power[FA_CACHE];         /* w e^((1+c) loss) x^k */
} fa_leaf_nodes;

/* Which blocks of FA_LANES nodes are summed.  Nodes at the right end are bounded over the leaf: (1+x)^(1+a) min(1, a
 * (1+a) loss^2 / 2) where x > 0.  Within a block the loss is convex and z^2 / (2 sigma^2) lies at most `bend` below its
 * chord: the block's ends bound it. */
FA_FUNC void fa_leaf_choose(const fa_log_moment *lm, const fa_leaf *leaf, int n, fa_leaf_nodes *out)
{
    double a = leaf->begin + leaf->radius, peak[FA_CACHE / FA_LANES], total[FA_LANES] = {0.0}, least;
    double width = (FA_LANES - 1) * lm->mech.h, bend = 0.125 * width * width * lm->mech.inv_var + 1e-9;
    double unit = FA_LANES * lm->mech.unit, square = 0.5 * a * (1.0 + a), half = 0.5 * lm->mech.inv_var,
           step = FA_LANES * lm->mech.h;
    double rest = 0.0;
    int blocks = n / FA_LANES, summed = 0, direct = 0, i, k;
    out->near = fa_count_near(lm->loss, n, leaf->begin, FA_NEAR);
    for (i = 0; i < blocks; i += FA_LANES) {
        FA_PRAGMA(omp simd)
        for (k = 0; k < FA_LANES; k++) {
            double first = lm->first_loss[i + k], last = lm->last_loss[i + k], z = lm->z_first + (i + k) * step;
            double e = fa_max(FA_FMA(a, fa_max(first, 0.0), first - half * z * z),
                              FA_FMA(a, fa_max(last, 0.0), last - half * (z + width) * (z + width)));
            peak[i + k] = unit * fa_exp_above_v(fa_min(e + bend, 699.0)) * fa_min(1.0, square * last * last);
            total[k] += peak[i + k];
        }
    }
    least = 1e-18 * fa_sum_lanes(total);
    for (i = 0; i < blocks; i++) {
        double loss = lm->first_loss[i];
        int left_out = (loss > 0.0) & ((peak[i] <= least) | (leaf->radius * loss > FA_LEAF_REACH));
        out->block[summed] = i;
        summed += !left_out;
        direct += !left_out & (FA_LANES * i < out->near);
        rest += left_out ? peak[i] : 0.0;
    }
    out->n = summed;
    out->direct = direct;
    out->rest = least < 1e232 ? rest : INFINITY; /* beyond, exponents may have been clamped */
}

/* A block's shares of the first two coefficients, each lane near or far: p E2(c loss) and p (e^(c loss) - 1) x, or all
 * of the term, which is above; and w e^((1+c) loss) x */
FA_INLINE void fa_leaf_near(const fa_log_moment *lm, const fa_leaf *leaf, int begin, int near, double *x,
                            double *power, double *zero, double *one)
{
    const double *loss = lm->loss + begin, *weight = lm->weight + begin;
    double c = leaf->begin;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        double t = fa_min(c * loss[i], FA_NEAR), e, e2 = fa_expm1_minus_plain_v(t, &e), w = i < near ? weight[i] : 0.0;
        x[i] = leaf->radius * loss[i];
        zero[i] += w * e2;
        one[i] += w * x[i] * (fabs(t) < 0.5 ? e2 + t : e - 1.0);
        power[i] = w * x[i] * e;
    }
}

FA_INLINE void fa_leaf_far(const fa_log_moment *lm, const fa_leaf *leaf, const fa_bump *bump, int begin, int skip,
                           double *x, double *power, double *zero, double *one, double *worst)
{
    const double *loss = lm->loss + begin, *tail = lm->tail + begin;
    double from = (double)(lm->j_first + begin);
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        double error, exponent = fa_far_exponent(bump, from + i, loss[i], tail[i], &error),
                      term = lm->mech.unit * fa_exp_plain_v(exponent);
        term = i < skip ? 0.0 : term;
        x[i] = leaf->radius * loss[i];
        zero[i] += term;
        worst[i] = i < skip ? worst[i] : fa_max(worst[i], error);
        term *= x[i];
        one[i] += term;
        power[i] = i < skip ? power[i] : term;
    }
}

/* the coefficients of FA_STRIDE further powers */
FA_FUNC void fa_leaf_stride(fa_leaf_nodes *nodes, double *sum_out)
{
    double sum[FA_STRIDE][FA_LANES];
    int i, k, lane;
    for (k = 0; k < FA_STRIDE; k++)
        for (lane = 0; lane < FA_LANES; lane++)
            sum[k][lane] = 0.0;
    for (i = 0; i < nodes->n; i++) {
        double *x = nodes->x + FA_LANES * i, *power = nodes->power + FA_LANES * i;
        FA_PRAGMA(GCC unroll 8)
        for (k = 0; k < FA_STRIDE; k++) {
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANES; lane++) {
                power[lane] *= x[lane];
                sum[k][lane] += power[lane];
            }
        }
    }
    for (k = 0; k < FA_STRIDE; k++)
        sum_out[k] = fa_sum_lanes(sum[k]);
}

/* the first two coefficients from both sums of E2, the others power by power */
FA_FUNC void fa_leaf_sum(const fa_log_moment *lm, fa_leaf *leaf, fa_leaf_nodes *nodes)
{
    double zero[FA_LANES] = {0.0}, one[FA_LANES] = {0.0}, worst[FA_LANES];
    double kl = nodes->direct ? lm->kl[nodes->block[nodes->direct - 1] + 1] : 0.0, factor = 1.0;
    fa_bump bump = {.a = leaf->begin};
    int i, k;
    for (i = 0; i < FA_LANES; i++)
        worst[i] = -1.0;
    if (nodes->near < FA_LANES * (nodes->block[nodes->n - 1] + 1))
        fa_bump_place(&lm->mech, lm->z_first + FA_LANES * (nodes->block[nodes->n - 1] + 1) * lm->mech.h, &bump);
    for (i = 0; i < nodes->n; i++) {
        int from = FA_LANES * nodes->block[i], near = nodes->near - from;
        double *x = nodes->x + FA_LANES * i, *power = nodes->power + FA_LANES * i;
        if (near > 0)
            fa_leaf_near(lm, leaf, from, near, x, power, zero, one);
        if (near < FA_LANES)
            fa_leaf_far(lm, leaf, &bump, from, near, x, power, zero, one, worst);
    }
    nodes->worst = -1.0;
    for (i = 0; i < FA_LANES; i++)
        nodes->worst = fa_max(nodes->worst, worst[i]);
    for (k = 2; k < FA_TERMS; k += FA_STRIDE)
        fa_leaf_stride(nodes, leaf->coefficient + k);
    leaf->coefficient[0] = fa_sum_lanes(zero) + leaf->begin * kl;
    leaf->coefficient[1] = fa_sum_lanes(one) + leaf->radius * kl;
    FA_PRAGMA(GCC unroll 42)
    for (k = 2; k < FA_TERMS; k++)
        leaf->coefficient[k] *= factor /= k; /* 1/k!, which compilers know */
}

/* the i-th balance, at order 1 + a, from a K' - K, K' and K'' */
FA_INLINE void fa_balance_set(fa_balances *at, int i, fa_sides ask, double a, double r, double excess, double k1,
                              double k2)
{
    double log = fa_log1p_plain_v(ask.for_delta ? 1.0 / a : a), step = ask.sharp * r / (1.0 + a);
    at->value[i] = ask.for_delta ? k1 : excess;
    at->shift[i] = ask.for_delta ? -ask.sharp * log : ask.sharp * log;
    at->value_slope[i] = ask.for_delta ? r * k2 : r * a * k2;
    at->shift_slope[i] = ask.for_delta ? step / a : step;
}

/* balances at FA_LANES orders, from the first `terms` powers of the series */
FA_INLINE void fa_leaf_balances(const fa_leaf *leaf, fa_sides ask, int terms, const double *t, fa_balances *out)
{
    const double *c = leaf->coefficient;
    double r = leaf->radius, inverse_r = 1.0 / r;
    int i, k;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        double x = t[i], m = c[terms - 1], m1 = 0.0, m2 = 0.0, inverse, k1, a = FA_FMA(r, x, leaf->begin);
        FA_PRAGMA(GCC unroll 42)
        for (k = terms - 2; k >= 0; k--) {
            m2 = FA_FMA(m2, x, m1);
            m1 = FA_FMA(m1, x, m);
            m = FA_FMA(m, x, c[k]);
        }
        inverse = inverse_r / (1.0 + m);
        k1 = m1 * inverse;
        fa_balance_set(out, i, ask, a, r, a * k1 - fa_log1p_plain_v(m), k1,
                       2.0 * m2 * inverse * inverse_r - k1 * k1);
    }
}

/* balances at one order where no series does */
FA_FUNC void fa_balance_alone(fa_log_moment *lm, fa_leaf *leaf, fa_sides ask, int i)
{
    double a = leaf->begin + (i ? leaf->radius : 0.0);
    fa_moment m;
    fa_log_moment_at(lm, a, &m, FA_SEARCH);
    fa_balance_set(&leaf->at, i, ask, a, leaf->radius, m.excess, m.d1 / a, m.d2 / a / a);
}

/* The terms that the series lacks, from its last one: each is at most X/(k+1) times the one before.  Negative losses
 * have r loss >= -1, and less than 1e-30 of M - 1 in the last one. */
FA_FUNC double fa_leaf_remainder(const fa_leaf *leaf, const fa_leaf_nodes *nodes)
{
    double most = fa_max(nodes->x[FA_LANES * nodes->n - 1], 1.0);
    if (!(most < FA_TERMS && nodes->x[0] >= -1.0))
        return INFINITY;
    return 1.001 * leaf->coefficient[FA_TERMS - 1] * most / (FA_TERMS - most);
}

/* What rounding of nodes makes of M - 1, relatively, at every order of the leaf: that of near terms at its right end,
 * that of far ones at its left end and of the powers of r loss, which is at most FA_LEAF_REACH */
FA_FUNC double fa_leaf_error(const fa_log_moment *lm, const fa_leaf *leaf, const fa_leaf_nodes *nodes)
{
    const fa_sgm *m = &lm->mech;
    double top = leaf->begin + leaf->radius, near = 0.0, far = 0.0;
    if (nodes->direct) {
        int end = FA_LANES * (nodes->block[nodes->direct - 1] + 1);
        end = (end < nodes->near ? end : nodes->near) - 1;
        near = fa_near_error(m, top, lm->loss[0], lm->z_first + end * m->h, lm->loss[end]);
    }
    if (nodes->worst >= 0.0) {
        int end = FA_LANES * (nodes->block[nodes->n - 1] + 1);
        double y = (lm->z_first + end * m->h) * m->inv_var;
        far = FA_EPS * (200.0 + nodes->worst + leaf->radius * (9.0 + (y > FA_SGM_FAR ? 10.0 : 3.0) * y) +
                        4.0 * (FA_LEAF_HUGE + 50.0)) +
              fa_center_error(m, top);
    }
    return fa_max(near, far);
}

/* fa_leaf_fill -- the series of one leaf, or its ends alone (relative INFINITY) where no series is certain enough.
 *   domain   0 < q < 1, the leaf's right end at most lm->a_cap
 *   cost     about 3 ns a node */
FA_FUNC void fa_leaf_fill(fa_log_moment *lm, fa_leaf *leaf, fa_sides ask)
{
    static const double sevenths[] = {0.0, 1.0 / 7.0, 2.0 / 7.0, 3.0 / 7.0, 4.0 / 7.0, 5.0 / 7.0, 6.0 / 7.0, 1.0};
    double top = leaf->begin + leaf->radius, y = -leaf->radius * lm->loss[0], low, omitted;
    int n = fa_cached_nodes(lm, top, lm->z_first);
    fa_leaf_nodes nodes;
    leaf->relative = INFINITY;
    fa_leaf_choose(lm, leaf, n, &nodes);
    if (nodes.rest < INFINITY && nodes.n &&
        (1.0 + leaf->begin) * (0.5 * leaf->begin * lm->mech.inv_var + lm->mech.log_q) <= FA_LEAF_HUGE) {
        fa_leaf_sum(lm, leaf, &nodes);
        low = leaf->coefficient[0];
        omitted = fa_omitted_left(&lm->mech, top, lm->z_first, 0.0) +
                  fa_omitted_right(&lm->mech, top, lm->z_first + (n - 1) * lm->mech.h, lm->loss[n - 1], 0.0);
        leaf->relative = lm->mech.alias + FA_LEAF_ROUNDING * (1.0 + 2.0 / 3.0 * y * (1.0 + 6.4 * y)) +
                         fa_leaf_error(lm, leaf, &nodes) +
                         1.001 * (omitted + nodes.rest + fa_leaf_remainder(leaf, &nodes)) / low;
        if (low >= FA_LEAF_LEAST && leaf->relative <= FA_LEAF_LEDGER) {
            fa_leaf_balances(leaf, ask, FA_TERMS, sevenths, &leaf->at);
            return;
        }
        leaf->relative = INFINITY;
    }
    fa_balance_alone(lm, leaf, ask, 0);
    fa_balance_alone(lm, leaf, ask, FA_LANES - 1);
}

#endif
