/* renyi/cells.h -- epsilon or delta of cells of one (sigma, q): which of them the shared leaves answer, and the rest
 * one by one.
 */
#ifndef FA_CELLS_H
#define FA_CELLS_H

#include "shared_search.h"

typedef struct {
    const double *steps, *target; /* target: delta, or epsilon where delta is asked for */
    int64_t stride;               /* of steps: 1, or 0 where all cells have the same */
    fa_renyi_ask ask;
    double *out, *order_out;
    uint8_t *status_out;
} fa_readouts;

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
FA_INLINE int fa_cell_is_shared(const fa_shared *s, const fa_readouts *cells, int64_t i)
{
    double target = cells->target[i], steps = cells->steps[i * cells->stride];
    if (cells->ask.for_delta)
        return (steps > 0.0) & (target >= 1e-9) & (target <= 1e9);
    return (steps > 0.0) & (target >= 1e-300) & (target <= 0.9) &
           ((cells->ask.conversion == FA_RULE_MIRONOV) | !fa_variation_matters_at(steps * s->variation, target));
}

/* the answers of the cells that wait in a leaf */
FA_FUNC void fa_cells_flush(fa_shared *s, fa_leaf *leaf, const fa_readouts *cells)
{
    double value[FA_LANES], a[FA_LANES];
    int k;
    if (leaf->waiting.n)
        fa_leaf_solve(leaf, s->ask, value, a);
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
    for (i = 0; i < s->n_leaves; i++)
        fa_cells_flush(s, s->leaf + i, cells);
}

/* the leaf of a cell, n of them beginning before its best order; where no more can be kept, all are forgotten */
FA_FUNC fa_leaf *fa_cells_leaf(fa_shared *s, const fa_readouts *cells, double steps, double target, int n)
{
    fa_leaf *leaf = fa_shared_leaf(s, steps, target, n);
    if (s->n_leaves < FA_LEAVES)
        return leaf;
    fa_cells_flush_all(s, cells);
    s->n_leaves = 0;
    return fa_shared_leaf(s, steps, target, 0);
}

/* up to FA_LANES cells: those whose leaf is known, or can be, wait there */
FA_FUNC void fa_cells_eight(fa_shared *s, const fa_readouts *cells, int64_t begin, int n)
{
    double steps[FA_LANES], target[FA_LANES];
    int64_t count[FA_LANES];
    int i, known = -1;
    for (i = 0; i < FA_LANES; i++) {
        steps[i] = cells->steps[(begin + (i < n ? i : 0)) * cells->stride];
        target[i] = cells->target[begin + (i < n ? i : 0)];
    }
    if (!cells->ask.for_delta) {
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++)
            target[i] = -fa_log_v(fa_max(target[i], 1e-300));
    }
    for (i = 0; i < n; i++) {
        fa_leaf *leaf = 0;
        if (known != s->n_leaves) {
            fa_shared_count(s, steps, target, count);
            known = s->n_leaves;
        }
        if (fa_cell_is_shared(s, cells, begin + i))
            leaf = fa_cells_leaf(s, cells, steps[i], target[i], (int)count[i]);
        if (!leaf || leaf->relative == INFINITY) {
            fa_cell_alone(s->moment, cells, begin + i);
            continue;
        }
        fa_leaf_wait(leaf, begin + i, steps[i], target[i]);
        if (leaf->waiting.n == FA_LANES)
            fa_cells_flush(s, leaf, cells);
    }
}

/* fa_cells_of_one -- cells begin <= i < end, all of the (sigma, q) of lm.
 *   result   upper bound; the same bits for any begin, end and other cells        status FA_OK | FA_LOOSE | FA_NOT_MET
 *   cost     about 0.15 us a cell where 100 share, 0.08 us where very many do, 2 us alone
 *   oracle   reference.rdp_epsilon */
FA_FUNC void fa_cells_of_one(fa_log_moment *lm, const fa_readouts *cells, int64_t begin, int64_t end)
{
    fa_sides ask = {cells->ask.for_delta, cells->ask.conversion == FA_RULE_MIRONOV ? 0.0 : 1.0};
    fa_shared s;
    int64_t i;
    s.a_end = 0.0;
    if (!cells->ask.orders && cells->ask.conversion != FA_RULE_OPTIMAL)
        fa_shared_init(&s, lm, ask);
    if (!(s.a_end > 0.0)) {
        for (i = begin; i < end; i++)
            fa_cell_alone(lm, cells, i);
        return;
    }
    for (i = begin; i < end; i += FA_LANES)
        fa_cells_eight(&s, cells, i, end - i < FA_LANES ? (int)(end - i) : FA_LANES);
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
