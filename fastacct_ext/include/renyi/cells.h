/* renyi/cells.h -- epsilon and delta of cells that have (sigma, q) in common, over continuous orders.
 *
 * The leaves of leaves.h are functions of (sigma, q) alone.  They are filled when first needed and kept: a cell looks
 * for the leaf that holds its best order by the balance at the leaves' left ends, and finds the order in it, eight
 * cells at a time.  What is kept saves work and decides nothing: a cell has the same bits alone, in any grid and
 * after any other cell (docs/algorithms/order_search.md, "Shared orders").  All others are answered one by one.
 */
#ifndef FA_CELLS_H
#define FA_CELLS_H

#include "leaves.h"

#define FA_LEAVES       32                   /* kept at a time */
#define FA_LEAF_TIE     1e-9                 /* of the balance at a common end: the leaf to the right decides */
#define FA_LEAF_GRID    (0x1.8p52 * 0x1p-26) /* t is a multiple of 2^-26, adding this rounds: orders are exact */
#define FA_SEARCH_TERMS 26                   /* as many powers say where an order is */
#define FA_LEAF_ROUNDS  2                    /* of Newton's method in a leaf, from a seventh of it */

typedef struct {
    const double *steps, *target; /* target: delta, or epsilon where delta is asked for */
    int64_t stride;               /* of steps: 1, or 0 where all cells have the same */
    fa_renyi_ask ask;
    double *out, *order_out;
    uint8_t *status_out;
} fa_readouts;

/* leaf[place[i]] is the i-th by increasing order; the balance at its left end: value * steps + shift against target */
typedef struct {
    fa_log_moment *moment;
    fa_sides ask;
    fa_leaf_map map;
    int n, place[FA_LEAVES];
    double value[FA_LEAVES], shift[FA_LEAVES];
    double variation; /* of fa_variation_floor */
    fa_leaf leaf[FA_LEAVES];
} fa_shared;

/* FA_LANES cells, and how many leaves begin before their best orders */
typedef struct {
    double steps[FA_LANES], target[FA_LANES];
    int64_t before[FA_LANES];
} fa_eight;

/* any run, one cell at a time */
FA_FUNC void fa_run_readout(fa_run *run, const fa_readouts *cells, int64_t i)
{
    int status;
    run->log_a = NAN; /* cold start: the answer must not depend on the cell before */
    cells->out[i] = fa_max(0.0, fa_run_read(run, &cells->ask, cells->target[i], cells->order_out + i, &status));
    cells->status_out[i] = (uint8_t)status;
}

FA_FUNC void fa_cell_alone(fa_log_moment *lm, const fa_readouts *cells, int64_t i)
{
    fa_run run = {1, lm, cells->steps + i * cells->stride, NAN};
    fa_run_readout(&run, cells, i);
}

/* where the search over leaves makes sense, and no total variation is smaller than what it finds */
FA_INLINE int fa_cell_is_shared(const fa_shared *s, const fa_readouts *cells, double steps, double target)
{
    if (cells->ask.for_delta)
        return (steps > 0.0) & (target >= 1e-9) & (target <= 1e9);
    return (steps > 0.0) & (target >= 1e-300) & (target <= 0.9) &
           ((cells->ask.conversion == FA_RULE_MIRONOV) | !fa_variation_matters_at(steps * s->variation, target));
}

/* left - right, and left + right: twice the ratio is about the logarithm of left/right */
FA_INLINE double fa_balance_gap(double steps, double target, const fa_balances *at, int i, double *size_out)
{
    *size_out = FA_FMA(steps, at->value[i], fabs(at->shift[i])) + target;
    return FA_FMA(steps, at->value[i], at->shift[i]) - target;
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

FA_INLINE void fa_leaf_solve(const fa_leaf *leaf, fa_sides ask, double *value_out, double *a_out)
{
    double t[FA_LANES];
    fa_leaf_search(leaf, ask, t);
    fa_leaf_answer(leaf, ask, t, value_out, a_out);
}

/* The answers of the cells that wait in a leaf.  Lanes without a cell are computed too, and not used */
FA_FUNC void fa_cells_flush(fa_shared *s, fa_leaf *leaf, const fa_readouts *cells)
{
    const fa_sides eps = {0, s->ask.sharp}, delta = {1, s->ask.sharp};
    double value[FA_LANES], a[FA_LANES];
    int k;
    if (leaf->waiting.n && s->ask.for_delta)
        fa_leaf_solve(leaf, delta, value, a);
    else if (leaf->waiting.n)
        fa_leaf_solve(leaf, eps, value, a);
    for (k = 0; k < leaf->waiting.n; k++) {
        int64_t i = leaf->waiting.cell[k];
        int ok = value[k] > -INFINITY && value[k] < INFINITY;
        if (ok && cells->ask.for_delta) {
            value[k] = fa_delta_from_log(value[k]);
            ok = cells->ask.conversion == FA_RULE_MIRONOV ||
                 !fa_variation_matters_at(cells->steps[i * cells->stride] * s->variation, value[k]);
        }
        if (!ok) {
            fa_cell_alone(s->moment, cells, i);
            continue;
        }
        cells->order_out[i] = 1.0 + a[k];
        cells->status_out[i] = FA_OK;
        cells->out[i] = fa_max(0.0, value[k]);
    }
    leaf->waiting.n = 0;
}

FA_FUNC void fa_cells_flush_all(fa_shared *s, const fa_readouts *cells)
{
    int i;
    for (i = 0; i < s->n; i++)
        fa_cells_flush(s, s->leaf + i, cells);
    s->n = 0;
}

/* fill the i-th leaf, `at` leaves being left of it; all others are forgotten where there is no more room */
FA_FUNC void fa_cells_add(fa_shared *s, const fa_readouts *cells, int i, int at)
{
    fa_log_moment *lm = s->moment;
    double begin = fa_leaf_begin(&s->map, i), end = fa_leaf_begin(&s->map, i + 1);
    fa_leaf *leaf;
    int j;
    if (s->n == FA_LEAVES)
        fa_cells_flush_all(s, cells);
    at = s->n ? at : 0;
    for (j = s->n; j > at; j--)
        s->place[j] = s->place[j - 1], s->value[j] = s->value[j - 1], s->shift[j] = s->shift[j - 1];
    leaf = s->leaf + (s->place[at] = s->n++);
    if (end > lm->a_cap)
        fa_log_moment_cache(lm, fa_min(fa_max(1.1 * end, 1.0), lm->a_limit));
    memset(&leaf->waiting, 0, sizeof(leaf->waiting));
    leaf->index = i, leaf->begin = begin, leaf->radius = end - begin;
    fa_leaf_fill(lm, leaf, s->ask);
    s->value[at] = leaf->at.value[0], s->shift[at] = leaf->at.shift[0];
}

/* the leaf where Newton's method, in log a on the logarithm of the sides' ratio, goes from an end of a leaf */
FA_FUNC int fa_cells_next(const fa_leaf_map *map, const fa_leaf *leaf, int i, double steps, double target)
{
    const fa_balances *at = &leaf->at;
    double a = leaf->begin + (i ? leaf->radius : 0.0), size, gap = fa_balance_gap(steps, target, at, i, &size),
           rise = FA_FMA(steps, at->value_slope[i], at->shift_slope[i]) / (0.5 * (size + gap));
    return fa_leaf_about(map, a * exp(fa_max(-2.0, fa_min(2.0, -log((size + gap) / (size - gap)) * leaf->radius /
                                                                   (rise * a)))));
}

FA_FUNC void fa_eight_count(const fa_shared *s, fa_eight *of)
{
    int i, j;
    for (i = 0; i < FA_LANES; i++)
        of->before[i] = 0;
    for (j = 0; j < s->n; j++) {
        double value = s->value[j], shift = s->shift[j];
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++)
            of->before[i] += FA_FMA(of->steps[i], value, shift) <= of->target[i];
    }
}

/* The leaf in which the balance changes sign: left is at most right at its left end, and more at that of the next leaf.
 * Which leaf it is does not depend on those that are kept.  Where it is not known, leaves between are filled: where
 * Newton's method goes, or in the middle.  NULL: before or behind all leaves */
FA_FUNC fa_leaf *fa_cells_find(fa_shared *s, const fa_readouts *cells, fa_eight *of, int k)
{
    double steps = of->steps[k], target = of->target[k];
    for (;; fa_eight_count(s, of)) {
        int n = (int)of->before[k], first, last, next;
        fa_leaf *before = n > 0 ? s->leaf + s->place[n - 1] : NULL,
                *behind = n < s->n ? s->leaf + s->place[n] : NULL;
        first = before ? before->index + 1 : 0;
        last = behind ? behind->index - 1 : s->map.all - 1;
        if (before && behind && first > last)
            return before;
        next = first;
        if (before) {
            double size, gap = fa_balance_gap(steps, target, &before->at, FA_LANES - 1, &size);
            if (gap > FA_LEAF_TIE * size)
                return before;
            if (gap < -FA_LEAF_TIE * size)
                next = fa_cells_next(&s->map, before, FA_LANES - 1, steps, target);
            if (next > last && behind)
                next = (first + last) / 2;
        }
        else if (behind)
            next = fa_cells_next(&s->map, behind, 0, steps, target);
        else
            next = fa_leaf_guess(&s->map, s->ask, steps, target);
        if (first > last)
            return NULL;
        fa_cells_add(s, cells, next < first ? first : next > last ? last : next, n);
    }
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

/* fa_cells_of_one -- cells begin <= i < end, all of the (sigma, q) of lm.
 *   result   upper bound; the same bits for any begin, end and other cells        status FA_OK | FA_LOOSE | FA_NOT_MET
 *   cost     about 0.15 us a cell where 100 share, 0.08 us where very many do, 2 us alone
 *   oracle   reference.rdp_epsilon */
FA_FUNC void fa_cells_of_one(fa_log_moment *lm, const fa_readouts *cells, int64_t begin, int64_t end)
{
    int are_shared = lm->a_limit > 1.0 && lm->mech.q <= FA_LEAF_RATE_MOST && lm->mech.sigma <= FA_LEAF_SIGMA_MOST &&
                     !cells->ask.orders && cells->ask.conversion != FA_RULE_OPTIMAL;
    fa_shared s;
    int64_t i;
    s.n = 0;
    if (are_shared) {
        s.moment = lm;
        s.ask = (fa_sides){cells->ask.for_delta, cells->ask.conversion == FA_RULE_MIRONOV ? 0.0 : 1.0};
        s.variation = fa_variation_floor(&lm->mech);
        fa_leaf_map_init(&s.map, lm);
    }
    for (i = begin; i < end; i += FA_LANES) {
        fa_eight of;
        int k;
        for (k = 0; k < FA_LANES; k++) {
            int64_t j = i + k < end ? i + k : i;
            of.steps[k] = cells->steps[j * cells->stride];
            of.target[k] = cells->target[j];
        }
        FA_PRAGMA(omp simd)
        for (k = 0; k < FA_LANES; k++)
            of.target[k] = cells->ask.for_delta ? of.target[k] : -fa_log_v(fa_max(of.target[k], 1e-300));
        fa_eight_count(&s, &of);
        for (k = 0; k < FA_LANES && i + k < end; k++) {
            fa_leaf *leaf = NULL;
            if (are_shared && fa_cell_is_shared(&s, cells, of.steps[k], cells->target[i + k]))
                leaf = fa_cells_find(&s, cells, &of, k);
            if (!leaf || leaf->relative == INFINITY) {
                fa_cell_alone(lm, cells, i + k);
                continue;
            }
            fa_leaf_wait(leaf, i + k, of.steps[k], of.target[k]);
            if (leaf->waiting.n == FA_LANES)
                fa_cells_flush(&s, leaf, cells);
        }
    }
    fa_cells_flush_all(&s, cells);
}

/* epsilon of one cell, as a caller is told it; may not be negative */
FA_FUNC double fa_cell_epsilon(fa_log_moment *lm, double steps, double delta, const fa_renyi_ask *ask,
                               double *order_out, int *status_out)
{
    double eps;
    uint8_t status;
    fa_readouts cells = {&steps, &delta, 1, *ask, &eps, order_out, &status};
    fa_cells_of_one(lm, &cells, 0, 1);
    *status_out = status;
    return eps;
}

#endif
