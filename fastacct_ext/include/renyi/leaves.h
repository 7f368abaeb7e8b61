/* renyi/leaves.h -- M - 1 = E_Q[(dP/dQ)^(1+a)] - 1 over a whole interval of orders, from one pass over the nodes.
 *
 * The half-line of orders is cut into leaves, by (sigma, q) alone: octaves of a, or all `wide`, left of the cliff where
 * the sampled bump does not show yet; behind it the bump's exponent, a quadratic in a, grows by about the same in each.
 * In the leaf from c to c + r, a = c + r t,
 *
 *     M - 1 = sum_k t^k coefficient_k,     coefficient_k = sum_j w_j e^((1+c) loss_j) (r loss_j)^k / k!     for k >= 2,
 *
 * and what E2 takes off in the first two.  The series begins at the left end, so that its terms are positive and
 * nothing cancels.  All that is left out is bounded at the right end, where every term is largest: `relative` holds for
 * each order of the leaf (docs/algorithms/order_search.md).
 */
#ifndef FA_LEAVES_H
#define FA_LEAVES_H

#include "order_search.h"

#define FA_LEAF_MIN    0x1p-8 /* smallest a of a leaf */
#define FA_LEAF_LEVEL  8.0    /* growth of the sampled bump's exponent over a leaf, about */
#define FA_LEAF_SLOW   3.7    /* makes the first levels narrower: the exponent is quadratic */
#define FA_LEAF_HIDDEN 48.0   /* e^-48 beside the rest of M - 1, the bump is not summed */
#ifndef FA_LEAF_LEDGER        /* tests starve the series */
#define FA_LEAF_LEDGER 4e-12  /* a series that is less certain is not used */
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
    int index;            /* which of all leaves it is */
    double begin, radius; /* orders a of the leaf: begin <= a < begin + radius */
    double relative;      /* ledger of M - 1, relative; INFINITY: no series, and balances at the ends alone */
    double coefficient[FA_TERMS];
    fa_balances at;
    fa_waiting waiting;
} fa_leaf;

/* where leaves begin: `octaves` of them before `wide` or the cliff, `below` in all before that */
typedef struct {
    double wide, cliff, valley, bottom, root_s, level; /* the bump's exponent is (root_s (a - valley))^2 + bottom */
    double variance, skew; /* M - 1 is about variance a (1+a)/2 (1 + skew (a-1)/3) for small a */
    int octaves, below, all;                   /* in all up to where the cache has nodes for little more */
} fa_leaf_map;

/* where the i-th leaf begins: with 26 bits, so that ends and the orders between them are exact */
FA_FUNC double fa_leaf_begin(const fa_leaf_map *map, int i)
{
    if (i < map->octaves)
        return ldexp(FA_LEAF_MIN, i);
    if (i < map->below)
        return map->wide * (i - map->octaves + 1);
    if (i == map->below)
        return map->cliff;
    return fa_from_bits(fa_bits(map->valley + (sqrt(map->level + FA_LEAF_LEVEL * (i - map->below)) - FA_LEAF_SLOW) /
                                                  map->root_s) >> 27 << 27);
}

/* the leaf that holds a, or one beside it */
FA_FUNC int fa_leaf_about(const fa_leaf_map *map, double a)
{
    double x = map->root_s * (a - map->valley) + FA_LEAF_SLOW;
    double i = a >= map->cliff  ? map->below + (x * x - map->level) / FA_LEAF_LEVEL
               : a >= map->wide ? map->octaves + a / map->wide - 1.0
                                : log2(a / FA_LEAF_MIN);
    return (int)fa_max(0.0, fa_min(i, 1e9));
}

/* The bump: log of its part of M is (1+a)(a s + log q), s = 1/(2 sigma^2); of the rest, about a (1+a) q^2 expm1(2s)/2.
 * Where a valley lies between the two, leaves left of the cliff know nothing of the bump.  No leaf is much wider than
 * its left end */
FA_FUNC void fa_leaf_map_init(fa_leaf_map *map, const fa_log_moment *lm)
{
    const fa_sgm *m = &lm->mech;
    double s = 0.5 * m->inv_var, valley = fa_max(-0.5 * (m->log_q / s + 1.0), FA_LEAF_MIN), cross = 2.0 * valley,
           rise = fa_chi_square(2.0 * s), body = fa_log_v(0.5 * rise * cross * (1.0 + cross)) + 2.0 * m->log_q,
           bottom = (1.0 + valley) * (valley * s + m->log_q), depth = body - FA_LEAF_HIDDEN - bottom,
           narrow = fa_max(-2.0 * m->log_keep, depth > 0.0 ? 0.0 : 0.8 / m->sigma);
    map->variance = m->q * m->q * rise;
    map->skew = m->q * rise * (rise + 3.0);
    map->valley = valley;
    map->bottom = bottom;
    map->root_s = sqrt(s);
    map->cliff = fa_max(valley + sqrt(fa_max(depth, 0.0) / s), 1.0 / map->root_s);
    map->cliff = fa_from_bits(fa_bits(map->cliff) >> 27 << 27);
    map->wide = fa_from_bits(fa_bits(1.0 / narrow) >> 52 << 52);
    map->level = map->root_s * (map->cliff - valley) + FA_LEAF_SLOW;
    map->level *= map->level;
    map->octaves = (int)ceil(log2(fa_min(map->wide, map->cliff) / FA_LEAF_MIN));
    map->below = map->octaves + (int)fa_max(0.0, fa_min(ceil(map->cliff / map->wide) - 1.0, 1e9));
    for (map->all = fa_leaf_about(map, lm->a_limit) + 1; fa_leaf_begin(map, map->all) > lm->a_limit; map->all--)
        ;
}

/* The leaf of the smaller of two orders: the best one where K is about that of two moments, and the one where the bump
 * takes over */
FA_FUNC int fa_leaf_guess(const fa_leaf_map *map, fa_sides ask, double steps, double target)
{
    double scale = 1.0 / (steps * map->variance), cross = 2.0 * map->valley,
           weight = steps * 2.0 * map->root_s * map->root_s * (1.0 + cross) * (ask.for_delta ? 1.0 : 0.5 * cross),
           above = fa_log_v(fa_max(target / weight, 1e-290)) - map->bottom, body;
    if (ask.for_delta) {
        body = target * scale;
        body = fa_max(0.5 * body, body + ask.sharp * fa_log1p_plain_v(1.0 / body) * scale - 0.5);
        body /= sqrt(1.0 + map->skew * body);
    }
    else {
        body = ask.sharp * fa_log1p_plain_v(sqrt(2.0 * target * scale));
        body = sqrt(2.0 * fa_max(0.2 * target, target - body) * scale);
        body /= cbrt(1.0 + map->skew * body);
    }
    return fa_leaf_about(map, fa_min(body, map->valley + sqrt(fa_max(above, 0.0)) / map->root_s));
}

/* Which blocks of FA_LANES nodes are summed, and how many; what they leave out over the leaf.  Nodes are bounded at its
 * right end: (1+x)^(1+a) min(1, a (1+a) loss^2 / 2) where x > 0.  Within a block the loss is convex and
 * z^2 / (2 sigma^2) lies at most `bend` below its chord: the block's ends bound it. */
FA_FUNC int fa_leaf_choose(const fa_log_moment *lm, const fa_leaf *leaf, int blocks, int *block, double *rest_out)
{
    double a = leaf->begin + leaf->radius, peak[FA_CACHE / FA_LANES], total = 0.0, h = lm->mech.h,
           width = (FA_LANES - 1) * h, half = 0.5 * lm->mech.inv_var, bend = 0.25 * width * width * half + 1e-9,
           unit = FA_LANES * lm->mech.unit, square = 0.5 * a * (1.0 + a);
    int i, summed = 0, end = (blocks + FA_LANES - 1) / FA_LANES * FA_LANES;
    FA_PRAGMA(omp simd reduction(+ : total))
    for (i = 0; i < end; i++) {
        double first = lm->first_loss[i], last = lm->last_loss[i], z = lm->z_first + i * FA_LANES * h,
               e = fa_max(FA_FMA(a, fa_max(first, 0.0), first - half * z * z),
                          FA_FMA(a, fa_max(last, 0.0), last - half * (z + width) * (z + width)));
        peak[i] = unit * fa_exp_plain_v(fa_min(e + bend, 699.0)) * fa_min(1.0, square * last * last);
        peak[i] = i < blocks ? peak[i] : 0.0;
        total += peak[i];
    }
    *rest_out = total < 1e250 ? 0.0 : INFINITY; /* beyond, exponents may have been clamped */
    for (i = 0; i < blocks; i++) {
        int left_out = lm->first_loss[i] > 0.0 && (peak[i] <= 1e-18 * total ||
                                                   leaf->radius * lm->first_loss[i] > FA_LEAF_REACH);
        block[summed] = i;
        summed += !left_out;
        *rest_out += left_out ? peak[i] : 0.0;
    }
    return summed;
}

/* sums of x^k power over n blocks, of FA_STRIDE further powers */
FA_FUNC void fa_leaf_stride(const double *x, double *power, int n, double *sum_out)
{
    double sum[FA_STRIDE][FA_LANES];
    int i, k, lane;
    for (k = 0; k < FA_STRIDE; k++)
        for (lane = 0; lane < FA_LANES; lane++)
            sum[k][lane] = 0.0;
    for (i = 0; i < n; i++, x += FA_LANES, power += FA_LANES) {
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

/* The coefficients from n blocks of nodes: p E2(c loss) and p (e^(c loss) - 1) r loss, or all of the term, which is
 * above, of far nodes, with what KL adds; then w e^((1+c) loss) x^k/k!.  Returns the largest error of a far node's
 * exponent, in u */
FA_FUNC double fa_leaf_sum(const fa_log_moment *lm, fa_leaf *leaf, const int *block, int n)
{
    double x[FA_CACHE], power[FA_CACHE], e0[FA_LANES], e1[FA_LANES], zero[FA_LANES] = {0.0}, one[FA_LANES] = {0.0},
        worst[FA_LANES] = {0.0}, c = leaf->begin, factor = 1.0, kl = lm->kl[block[n - 1] + 1];
    fa_bump bump = {.a = c};
    int i, k, lane;
    if (c * lm->last_loss[block[n - 1]] > FA_NEAR)
        fa_bump_place(&lm->mech, lm->z_first + FA_LANES * (block[n - 1] + 1) * lm->mech.h, &bump);
    for (i = 0; i < n; i++) {
        int from = FA_LANES * block[i];
        const double *loss = lm->loss + from, *tail = lm->tail + from, *weight = lm->weight + from;
        double *at = x + FA_LANES * i, *first = power + FA_LANES * i;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++) {
            double t = fa_min(c * loss[lane], FA_NEAR), e, e2 = fa_expm1_minus_plain_v(t, &e), w = weight[lane];
            e0[lane] = w * e2;
            e1[lane] = w * (fabs(t) < 0.5 ? e2 + t : e - 1.0);
            first[lane] = w * e;
        }
        if (c * lm->last_loss[block[i]] > FA_NEAR) {
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANES; lane++) {
                double error, exponent = fa_far_exponent(&bump, (double)(lm->j_first + from + lane), loss[lane],
                                                         tail[lane], &error),
                              term = lm->mech.unit * fa_exp_plain_v(exponent), far = c * loss[lane] - FA_NEAR;
                worst[lane] = fa_max(worst[lane], far > 0.0 ? error : 0.0);
                e0[lane] = far > 0.0 ? term : e0[lane];
                e1[lane] = far > 0.0 ? term : e1[lane];
                first[lane] = far > 0.0 ? term : first[lane];
            }
        }
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++) {
            at[lane] = leaf->radius * loss[lane];
            zero[lane] += e0[lane];
            one[lane] += at[lane] * e1[lane];
            first[lane] *= at[lane];
        }
    }
    leaf->coefficient[0] = fa_sum_lanes(zero) + c * kl;
    leaf->coefficient[1] = fa_sum_lanes(one) + leaf->radius * kl;
    for (k = 2; k < FA_TERMS; k += FA_STRIDE)
        fa_leaf_stride(x, power, n, leaf->coefficient + k);
    FA_PRAGMA(GCC unroll 42)
    for (k = 2; k < FA_TERMS; k++)
        leaf->coefficient[k] *= factor /= k; /* 1/k!, which compilers know */
    for (i = 1; i < FA_LANES; i++)
        worst[0] = fa_max(worst[0], worst[i]);
    return worst[0];
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

/* The series and its ledger, relative at every order of the leaf; inf, or not a number, where there is none.  The terms
 * that it lacks, from its last one: each is at most X/(k+1) times the one before.  Rounding: that of near terms at the
 * right end, that of far ones at the left end and of the powers of r loss, which is at most FA_LEAF_REACH */
FA_FUNC double fa_leaf_series(const fa_log_moment *lm, fa_leaf *leaf)
{
    const fa_sgm *m = &lm->mech;
    double c = leaf->begin, r = leaf->radius, top = c + r, y = -r * lm->loss[0], h = m->h, rest, most, far = 0.0, end;
    int all = fa_cached_nodes(lm, top, lm->z_first), block[FA_CACHE / FA_LANES],
        blocks = fa_leaf_choose(lm, leaf, all / FA_LANES, block, &rest), n, near;
    if (blocks == 0)
        return INFINITY;
    n = FA_LANES * (block[blocks - 1] + 1);
    near = fa_count_near(lm->loss, n, c, FA_NEAR);
    most = fa_max(r * lm->loss[n - 1], 1.0);
    if (!(most < FA_TERMS && y <= 1.0 && (1.0 + c) * (0.5 * c * m->inv_var + m->log_q) <= FA_LEAF_HUGE))
        return INFINITY;
    far = fa_leaf_sum(lm, leaf, block, blocks);
    if (!(leaf->coefficient[0] >= FA_LEAF_LEAST))
        return INFINITY;
    end = (lm->z_first + n * h) * m->inv_var;
    far = near == n ? 0.0
                    : FA_EPS * (200.0 + far + r * (9.0 + (end > FA_SGM_FAR ? 10.0 : 3.0) * end) +
                                4.0 * (FA_LEAF_HUGE + 50.0)) + fa_center_error(m, top);
    if (near > 0)
        far = fa_max(far, fa_near_error(m, top, lm->loss[0], lm->z_first + (near - 1) * h, lm->loss[near - 1]));
    rest += fa_omitted_left(m, top, lm->z_first, 0.0) +
            fa_omitted_right(m, top, lm->z_first + (all - 1) * h, lm->loss[all - 1], 0.0) +
            leaf->coefficient[FA_TERMS - 1] * most / (FA_TERMS - most);
    return m->alias + FA_LEAF_ROUNDING * (1.0 + 2.0 / 3.0 * y * (1.0 + 6.4 * y)) + far +
           1.001 * rest / leaf->coefficient[0];
}

/* fa_leaf_fill -- the series of one leaf, or its ends alone (relative INFINITY) where no series is certain enough.
 *   domain   0 < q < 1, the leaf's right end at most lm->a_cap
 *   cost     about 3 ns a node */
FA_FUNC void fa_leaf_fill(fa_log_moment *lm, fa_leaf *leaf, fa_sides ask)
{
    static const double sevenths[] = {0.0, 1.0 / 7.0, 2.0 / 7.0, 3.0 / 7.0, 4.0 / 7.0, 5.0 / 7.0, 6.0 / 7.0, 1.0};
    leaf->relative = fa_leaf_series(lm, leaf);
    if (leaf->relative <= FA_LEAF_LEDGER) {
        fa_leaf_balances(leaf, ask, FA_TERMS, sevenths, &leaf->at);
        return;
    }
    leaf->relative = INFINITY;
    fa_balance_alone(lm, leaf, ask, 0);
    fa_balance_alone(lm, leaf, ask, FA_LANES - 1);
}

#endif
