/* renyi/shared_search.h -- epsilon and delta of cells that have (sigma, q) in common, over continuous orders.
 *
 * The leaves of order_series.h are functions of (sigma, q) alone.  They are filled when first needed and kept: a cell
 * looks for the leaf that holds its best order by the balance at the leaves' left ends, and finds the order in that
 * leaf, eight cells at a time.  What is kept saves work and decides nothing, so that a cell has the same bits alone, in
 * any grid and after any other cell (docs/algorithms/order_search.md, "Shared orders").
 */
#ifndef FA_SHARED_SEARCH_H
#define FA_SHARED_SEARCH_H

#include "order_series.h"

#define FA_LEAVES       32                   /* kept at a time */
#define FA_LEAF_TIE     1e-9                 /* of the balance at a common end: the leaf to the right decides */
#define FA_LEAF_GRID    (0x1.8p52 * 0x1p-26) /* t is a multiple of 2^-26, adding this rounds: orders are exact */
#define FA_SEARCH_TERMS 26                   /* as many powers say where an order is */
#define FA_LEAF_ROUNDS  2                    /* of Newton's method in a leaf, from a seventh of it */

/* leaf[place[i]] is the i-th by increasing order; the balance at its left end: value * steps + shift against target */
typedef struct {
    fa_log_moment *moment;
    fa_sides ask;
    fa_leaf_map map;
    double a_end; /* leaves end here, the cache has nodes for little more; 0: no leaves */
    int n_leaves;
    int place[FA_LEAVES];
    double value[FA_LEAVES], shift[FA_LEAVES];
    double variation; /* of fa_variation_floor */
    fa_leaf leaf[FA_LEAVES];
} fa_shared;

FA_INLINE double fa_leaf_end_of(const fa_leaf *leaf) { return leaf->begin + leaf->radius; }

/* left - right, and left + right: twice the ratio is about the logarithm of left/right */
FA_INLINE double fa_balance_gap(double steps, double target, const fa_balances *at, int i, double *size_out)
{
    *size_out = FA_FMA(steps, at->value[i], fabs(at->shift[i])) + target;
    return FA_FMA(steps, at->value[i], at->shift[i]) - target;
}

/* where Newton's method, in log a on the logarithm of the sides' ratio, goes from an end of a leaf */
FA_FUNC double fa_end_step(const fa_leaf *leaf, int i, double steps, double target)
{
    const fa_balances *at = &leaf->at;
    double a = leaf->begin + (i ? leaf->radius : 0.0), size, gap = fa_balance_gap(steps, target, at, i, &size),
           rise = FA_FMA(steps, at->value_slope[i], at->shift_slope[i]) / (0.5 * (size + gap));
    return a * exp(fa_max(-2.0, fa_min(2.0, -log((size + gap) / (size - gap)) * leaf->radius / (rise * a))));
}

FA_FUNC void fa_shared_init(fa_shared *s, fa_log_moment *lm, fa_sides ask)
{
    s->moment = lm;
    s->ask = ask;
    s->a_end = 0.0;
    s->n_leaves = 0;
    s->variation = fa_variation_floor(&lm->mech);
    if (lm->a_limit > 1.0 && lm->mech.q <= FA_LEAF_RATE_MOST && lm->mech.sigma <= FA_LEAF_SIGMA_MOST) {
        double beyond;
        fa_leaf_map_init(&s->map, lm);
        s->a_end = fa_leaf_place(&s->map, lm->a_limit, &beyond);
    }
}

/* fill the leaf that holds a; `at` leaves are left of it */
FA_FUNC void fa_shared_add(fa_shared *s, double a, int at)
{
    fa_log_moment *lm = s->moment;
    fa_leaf *leaf = s->leaf + s->n_leaves;
    double end;
    int i;
    memset(&leaf->waiting, 0, sizeof(leaf->waiting));
    leaf->begin = fa_leaf_place(&s->map, a, &end);
    leaf->radius = end - leaf->begin;
    if (end > lm->a_cap)
        fa_log_moment_cache(lm, fa_min(fa_max(1.1 * end, 1.25 * a), lm->a_limit));
    fa_leaf_fill(lm, leaf, s->ask);
    for (i = s->n_leaves; i > at; i--) {
        s->place[i] = s->place[i - 1];
        s->value[i] = s->value[i - 1];
        s->shift[i] = s->shift[i - 1];
    }
    s->place[at] = s->n_leaves++;
    s->value[at] = leaf->at.value[0];
    s->shift[at] = leaf->at.shift[0];
}

/* The smaller of two orders: the best one where K is about that of two moments, and the one where the bump takes over
 */
FA_FUNC double fa_shared_guess(const fa_shared *s, double steps, double target)
{
    const fa_leaf_map *map = &s->map;
    double scale = 1.0 / (steps * map->variance), bump = 2.0 * map->valley, unit = 2.0 * map->root_s * map->root_s,
           weight = steps * unit * (1.0 + bump) * (s->ask.for_delta ? 1.0 : 0.5 * bump),
           above = fa_log_v(fa_max(target / weight, 1e-290)) - map->bottom, plain, body;
    bump = map->valley + sqrt(fa_max(above, 0.0)) * map->inverse_root_s;
    if (s->ask.for_delta) {
        plain = target * scale;
        plain = fa_max(0.5 * plain, plain + s->ask.sharp * fa_log1p_plain_v(1.0 / plain) * scale - 0.5);
        body = plain / sqrt(1.0 + map->skew * plain);
    }
    else {
        plain = sqrt(2.0 * target * scale);
        plain = sqrt(2.0 * fa_max(0.2 * target, target - s->ask.sharp * fa_log1p_plain_v(plain)) * scale);
        body = plain / cbrt(1.0 + map->skew * plain);
    }
    return fa_min(body, bump);
}

/* an order between two leaves to try next: Newton's, where it lies between them; NAN: behind all leaves */
FA_FUNC double fa_shared_next(const fa_shared *s, const fa_leaf *before, const fa_leaf *behind, double steps,
                              double target)
{
    double a, begin = FA_LEAF_MIN, end = s->a_end * (1.0 - 2.0 * FA_EPS);
    if (before) {
        begin = fa_leaf_end_of(before);
        a = fa_end_step(before, FA_LANES - 1, steps, target);
        if (behind && !(a < behind->begin))
            a = sqrt(begin * behind->begin);
    }
    else if (behind) {
        end = behind->begin * (1.0 - 2.0 * FA_EPS);
        a = fa_end_step(behind, 0, steps, target);
    }
    else {
        a = fa_shared_guess(s, steps, target);
    }
    return begin <= end ? fa_max(begin, fa_min(a, end)) : NAN;
}

/* how many leaves begin before the best order, for FA_LANES cells */
FA_FUNC void fa_shared_count(const fa_shared *s, const double *steps, const double *target, int64_t *n_out)
{
    int i, j;
    for (i = 0; i < FA_LANES; i++)
        n_out[i] = 0;
    for (j = 0; j < s->n_leaves; j++) {
        double value = s->value[j], shift = s->shift[j];
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++)
            n_out[i] += FA_FMA(steps[i], value, shift) <= target[i];
    }
}

/* The leaf in which the balance changes sign: left is at most right at its left end, and more at that of the next leaf.
 * n: how many begin before that.  NULL: behind all leaves, or no room.  Which leaf it is does not depend on those that
 * are kept */
FA_FUNC fa_leaf *fa_shared_leaf(fa_shared *s, double steps, double target, int n)
{
    while (s->n_leaves < FA_LEAVES) {
        fa_leaf *before = n > 0 ? s->leaf + s->place[n - 1] : 0, *behind = n < s->n_leaves ? s->leaf + s->place[n] : 0;
        double a, gap = -1.0, size = 1.0;
        if (before) {
            a = fa_leaf_end_of(before);
            if (behind && behind->begin == a)
                return before;
            gap = fa_balance_gap(steps, target, &before->at, FA_LANES - 1, &size);
            if (gap > FA_LEAF_TIE * size)
                return before;
        }
        if (gap < -FA_LEAF_TIE * size)
            a = fa_shared_next(s, before, behind, steps, target);
        if (!(a < s->a_end))
            return 0;
        fa_shared_add(s, a, n);
        n += FA_FMA(steps, s->value[n], s->shift[n]) <= target;
    }
    return 0;
}

/* one more cell waits in its leaf, at the secant's t between two of its balances */
FA_FUNC void fa_leaf_wait(fa_leaf *leaf, int64_t cell, double steps, double target)
{
    const fa_balances *at = &leaf->at;
    fa_waiting *w = &leaf->waiting;
    int64_t i = w->n++;
    double before, behind, size[2];
    int j, n = 0;
    for (j = 1; j < FA_LANES - 1; j++)
        n += FA_FMA(steps, at->value[j], at->shift[j]) <= target;
    before = fa_balance_gap(steps, target, at, n, size);
    behind = fa_balance_gap(steps, target, at, n + 1, size + 1);
    w->cell[i] = cell;
    w->steps[i] = steps;
    w->target[i] = target;
    w->from[i] = n / (FA_LANES - 1.0);
    w->t[i] = (n + before * size[1] / (before * size[1] - behind * size[0])) / (FA_LANES - 1.0);
}

/* t of the best orders, by Newton's method between two balances */
FA_INLINE void fa_leaf_search(const fa_leaf *leaf, fa_sides ask, double *t)
{
    const fa_waiting *w = &leaf->waiting;
    fa_balances at;
    int i, round;
    memcpy(t, w->t, sizeof(w->t));
    for (round = 0; round < FA_LEAF_ROUNDS; round++) {
        fa_leaf_balances(leaf, ask, FA_SEARCH_TERMS, t, &at);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++) {
            double size, gap = fa_balance_gap(w->steps[i], w->target[i], &at, i, &size),
                         rise = FA_FMA(w->steps[i], at.value_slope[i], at.shift_slope[i]),
                         step = gap * (size + gap) / (size * rise);
            t[i] = fa_max(w->from[i], fa_min(w->from[i] + 1.0 / (FA_LANES - 1), t[i] - step));
        }
    }
}

/* the certified answers at t, rounded to the grid, and their orders */
FA_INLINE void fa_leaf_answer(const fa_leaf *leaf, fa_sides ask, const double *t, double *value_out, double *a_out)
{
    const double *c = leaf->coefficient;
    int i, k;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        double at = (t[i] + FA_LEAF_GRID) - FA_LEAF_GRID, square = at * at, m = c[FA_TERMS - 2], odd = c[FA_TERMS - 1];
        double a = FA_FMA(leaf->radius, at, leaf->begin), target = leaf->waiting.target[i];
        double inverse_a = 1.0 / a, total, log_alpha, log_ratio;
        FA_PRAGMA(GCC unroll 21)
        for (k = FA_TERMS - 4; k >= 0; k -= 2) {
            m = FA_FMA(m, square, c[k]);
            odd = FA_FMA(odd, square, c[k + 1]);
        }
        m = FA_FMA(odd, at, m);
        total = fa_log1p_plain_v(m);
        total += leaf->relative * fa_min(total, 1.0);
        total *= leaf->waiting.steps[i] * (1.0 + 10.0 * FA_EPS);
        log_alpha = ask.sharp * fa_log1p_plain_v(a);
        log_ratio = ask.sharp * fa_log1p_plain_v(inverse_a);
        a_out[i] = a;
        if (ask.for_delta)
            value_out[i] = total - a * target - a * log_ratio - log_alpha +
                           8.0 * FA_EPS * (total + a * target + a * log_ratio + log_alpha);
        else
            value_out[i] = (total + target - log_alpha) * inverse_a - log_ratio +
                           10.0 * FA_EPS * ((total + target + log_alpha) * inverse_a + log_ratio);
    }
}

FA_INLINE void fa_leaf_solve_as(const fa_leaf *leaf, fa_sides ask, double *value_out, double *a_out)
{
    double t[FA_LANES];
    fa_leaf_search(leaf, ask, t);
    fa_leaf_answer(leaf, ask, t, value_out, a_out);
}

/* epsilon or log delta of each waiting cell, and its order.  Lanes without a cell are computed too, and not used:
 * zeros, or cells of before */
FA_FUNC void fa_leaf_solve(const fa_leaf *leaf, fa_sides ask, double *value_out, double *a_out)
{
    fa_sides eps = {0, ask.sharp}, delta = {1, ask.sharp};
    if (ask.for_delta)
        fa_leaf_solve_as(leaf, delta, value_out, a_out);
    else
        fa_leaf_solve_as(leaf, eps, value_out, a_out);
}

#endif
