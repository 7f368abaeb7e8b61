/* grid.h -- a kernel over all cells of broadcast arrays, cut into contiguous blocks.
 *
 * Axes along which neither sigma nor q changes vary fastest, and among them those along which the steps do not change
 * either: cells that share work follow each other, whatever the order of the axes.  No value is sorted: cells are
 * visited along a permutation of the axes, and every answer is written to its own place.
 */
#ifndef FA_GRID_H
#define FA_GRID_H

#include <string.h>

#include "late.h"

#define FA_BLOCK_CELLS 1024
#define FA_MAX_DIMS    32

/* one array: address and bytes from cell to cell along each axis, 0 where it is broadcast; data NULL: none */
typedef struct {
    char *data;
    int64_t stride[FA_MAX_DIMS];
} fa_strided;

/* the columns of fa_cells, and from FA_LOWER on the answers of fa_answers */
typedef enum {
    FA_SIGMA,
    FA_Q,
    FA_STEPS,
    FA_TARGET,
    FA_EPS_OF_TARGET,
    FA_MU,
    FA_LOWER,
    FA_UPPER,
    FA_SLOPE,
    FA_ORDER,
    FA_VALUE,
    FA_STATUS,
    FA_ARRAYS
} fa_array;

typedef struct {
    int n_dims;
    int64_t total, shape[FA_MAX_DIMS];
    int64_t row; /* that many cells in a row have one (sigma, q) */
    fa_strided array[FA_ARRAYS];
} fa_grid;

/* where a walk over the cells of one array is */
typedef struct {
    char *at;
    int64_t index[FA_MAX_DIMS];
} fa_walk;

static inline fa_walk fa_walk_from(const fa_grid *grid, const fa_strided *array, int64_t start)
{
    fa_walk walk;
    int d;
    walk.at = array->data;
    for (d = grid->n_dims - 1; d >= 0; d--) {
        walk.index[d] = start % grid->shape[d];
        start /= grid->shape[d];
        walk.at += walk.index[d] * array->stride[d];
    }
    return walk;
}

static inline void fa_step(const fa_grid *grid, const fa_strided *array, fa_walk *walk)
{
    int d;
    for (d = grid->n_dims - 1; d >= 0; d--) {
        walk->at += array->stride[d];
        if (++walk->index[d] < grid->shape[d])
            return;
        walk->at -= array->stride[d] * grid->shape[d];
        walk->index[d] = 0;
    }
}

/* how much cells along an axis share: 0 not even (sigma, q), 1 (sigma, q), 2 the steps as well */
static inline int fa_axis_shares(const fa_grid *grid, int d)
{
    if (grid->array[FA_SIGMA].stride[d] || grid->array[FA_Q].stride[d])
        return 0;
    return grid->array[FA_STEPS].stride[d] ? 1 : 2;
}

/* orders the axes by what cells along them share, and else as they are */
static inline void fa_grid_order(fa_grid *grid)
{
    fa_grid before = *grid;
    int i, d, shares, axis = 0;
    grid->row = 1;
    for (shares = 0; shares <= 2; shares++)
        for (d = 0; d < grid->n_dims; d++) {
            if (fa_axis_shares(&before, d) != shares)
                continue;
            grid->shape[axis] = before.shape[d];
            for (i = 0; i < FA_ARRAYS; i++)
                grid->array[i].stride[axis] = before.array[i].stride[d];
            grid->row *= shares ? before.shape[d] : 1;
            axis++;
        }
}

static inline void fa_gather(const fa_grid *grid, int column, int64_t start, int64_t n, double *out)
{
    const fa_strided *array = grid->array + column;
    fa_walk walk = fa_walk_from(grid, array, start);
    int64_t i;
    for (i = 0; i < n; i++, fa_step(grid, array, &walk))
        memcpy(out + i, walk.at, sizeof(double));
}

/* n values of `size` bytes to their places */
static inline void fa_scatter(const fa_grid *grid, int answer, int64_t start, int64_t n, const void *values,
                              size_t size)
{
    const fa_strided *array = grid->array + answer;
    const char *from = values;
    fa_walk walk = fa_walk_from(grid, array, start);
    int64_t i;
    for (i = 0; i < n; i++, fa_step(grid, array, &walk), from += size)
        memcpy(walk.at, from, size);
}

/* fa_grid_run -- does cells of range(start, stop), in the order of fa_grid_order, until about `seconds` have passed.
 *   returns  the first cell not done, or FA_NO_MEMORY
 *   why      blocks end where (sigma, q) changes, as far as rows fit into them: rows share their nodes */
static inline int64_t fa_grid_run(const fa_grid *grid, fa_kernel kernel, const fa_question *ask, int64_t start,
                                  int64_t stop, double seconds)
{
    double room[FA_BLOCK_CELLS * 8]; /* columns and answers of one kernel, and what is not asked for */
    double *block[FA_STATUS], *free_room = room + FA_BLOCK_CELLS, end = fa_seconds() + seconds, left = seconds;
    uint8_t codes[FA_BLOCK_CELLS];
    fa_cells in;
    fa_answers out;
    int64_t done;
    int i;
    for (i = 0; i < FA_STATUS; i++) {
        block[i] = i < FA_LOWER ? NULL : room;
        if (grid->array[i].data) {
            block[i] = free_room;
            free_room += FA_BLOCK_CELLS;
        }
    }
    in = (fa_cells){.sigma = block[FA_SIGMA],
                    .q = block[FA_Q],
                    .steps = block[FA_STEPS],
                    .target = block[FA_TARGET],
                    .eps = block[FA_EPS_OF_TARGET],
                    .mu = block[FA_MU]};
    out = (fa_answers){.lower = block[FA_LOWER],
                       .upper = block[FA_UPPER],
                       .slope = block[FA_SLOPE],
                       .order = block[FA_ORDER],
                       .value = block[FA_VALUE],
                       .status = codes};
    for (; start < stop && left > 0.0; start += done, left = end - fa_seconds()) {
        in.n = FA_BLOCK_CELLS;
        if (grid->row <= in.n)
            in.n -= (start + in.n) % grid->row;
        in.n = stop - start < in.n ? stop - start : in.n;
        for (i = 0; i < FA_LOWER; i++)
            if (block[i])
                fa_gather(grid, i, start, in.n, block[i]);
        done = kernel(&in, ask, left, &out);
        if (done < 0)
            return done;
        for (i = FA_LOWER; i < FA_STATUS; i++)
            if (grid->array[i].data)
                fa_scatter(grid, i, start, done, block[i], sizeof(double));
        fa_scatter(grid, FA_STATUS, start, done, codes, sizeof(codes[0]));
    }
    return start;
}

#endif
