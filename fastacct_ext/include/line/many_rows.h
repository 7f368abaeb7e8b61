/* line/many_rows.h -- what one step of a sampled Gaussian gives a line of a lattice, from nodes without windows.
 *
 *   log M(u) = log E_Q[exp(u L)] at the points, what M may be off by, K at Chernoff's points, and a bound of |M| beyond
 *
 * The block is `walled`: its sums are plain, as those next to the wall.  docs/algorithms/contour.md, "Different steps".
 */
#ifndef FA_MANY_ROWS_H
#define FA_MANY_ROWS_H

#include "capped_eps.h"

#define FA_MANY_TOTAL  1e5  /* more steps in all: terms of first order would round too much */
#define FA_MANY_NEED   37.1 /* 25.5 + log(FA_MANY_TOTAL): -log of the quadrature's error that is aimed at ... */
#define FA_MANY_SLOPPY 16.5 /* ... and at Chernoff's points */
#define FA_MANY_PLACES 6    /* real exponents that are looked at together, to choose a line */

enum { FA_MANY_RIGHT, FA_MANY_LEFT, FA_MANY_OTHER, FA_MANY_REALS }; /* Chernoff's points; one of the other direction */

typedef struct { /* where a row is wanted: the line, and exponents on its nodes; 0: not wanted */
    fa_cap_plan plan;
    int points;
    double real[FA_MANY_REALS];
} fa_many_wish;

typedef struct { /* of one step on one line; log |M| follows, then angles */
    double error, tail, real[FA_MANY_REALS];
} fa_many_row;

FA_INLINE double *fa_row_points(fa_many_row *row) { return (double *)(row + 1); }

typedef struct { /* one step alone, and its points */
    fa_cap_job job;
    fa_cap_line line;
} fa_many_alone;

FA_FUNC void fa_many_alone_free(fa_many_alone *m)
{
    fa_cap_line_free(&m->line);
    fa_cap_job_free(&m->job);
}

/* the step, and coarse nodes for exponents from low to high; where its nodes have to end.  NaN: too many */
FA_FUNC double fa_many_take(fa_many_alone *m, int is_add, double sigma, double rate, double low, double high,
                            double deviations)
{
    fa_cap_job *job = &m->job;
    fa_cap_block *block;
    double end;
    if (!fa_cap_job_set(job, sigma, rate, 1.0))
        return NAN;
    block = job->blocks;
    memset(&block->w, 0, sizeof(block->w));
    job->is_add = is_add;
    job->walled = block->walled = 1;
    block->split = 0;
    block->sync = FA_RUN; /* of first order, what a turn rounds counts more than what a start costs */
    block->w.log_q = -INFINITY;
    block->w.width = sigma;
    block->w.cap = INFINITY;
    end = fa_cap_end(block, fa_max(0.0, high), deviations);
    low = fa_cap_begin(block, deviations - 2.5, low);
    block->w.cap = end + 20.0 * sigma;
    if (!block->family->rough(block, &block->coarse, fa_min(1.0 / (1.25 * sigma), 0.9), 1.0, INFINITY, low, end,
                              high * fa_cap_l(block, end) > FA_CAP_FAR))
        return NAN;
    fa_cap_no_floor(&block->coarse);
    return end;
}

/* its nodes for the line; 0: too many */
FA_FUNC int fa_many_lay(fa_many_alone *m, const fa_many_wish *w, double end)
{
    fa_cap_block *block = m->job.blocks;
    const fa_cap_plan *plan = &w->plan;
    fa_cap_needs needs;
    fa_cap_real at = fa_cap_block_k(block, &block->coarse, plan->tilt, 0, 0.0);
    double h, stretch, low = fa_cap_begin(block, 8.3, fa_min(w->real[FA_MANY_RIGHT], w->real[FA_MANY_OTHER]));
    memset(&needs, 0, sizeof(needs));
    needs.quick = 1;
    needs.need = FA_MANY_NEED;
    needs.least = FA_MANY_SLOPPY;
    needs.mean = fa_max(0.0, at.d1 - block->kappa);
    needs.log_m = at.k - plan->tilt * block->kappa;
    needs.right_tilt = w->real[FA_MANY_RIGHT];
    needs.right_log_m = fa_cap_block_k(block, &block->coarse, needs.right_tilt, 0, 0.0).k -
                        needs.right_tilt * block->kappa;
    needs.cap.width = INFINITY;
    needs.cap.need = -INFINITY;
    needs.right = needs.low = needs.lower = needs.cap;
    h = fa_cap_step_for(block, plan->tilt, &needs, (w->points - 1) * plan->h, low, end, log(FA_MANY_TOTAL), &stretch);
    if (!(needs.log_m < 600.0) || !(h > 0.0) || !fa_cap_fill(block, &block->nodes, h, stretch, low, end))
        return 0;
    fa_cap_bends(block, &block->nodes);
    fa_cap_no_floor(&block->nodes);
    return 1;
}

/* what lies beyond its nodes, of exp(x l) */
FA_INLINE double fa_many_ends(const fa_cap_block *block, double x)
{
    return fa_cap_plain_left(block, x) + fa_cap_right_end(block, x, 0.0);
}

/* K at a real exponent, its error added; inf: not known */
FA_INLINE double fa_many_real(const fa_cap_block *block, double x)
{
    fa_cap_real r = fa_cap_block_k(block, &block->nodes, x, 0, 0.0);
    double k = x * block->kappa +
               log(r.one * (1.0 + 1e-10 * (1.0 + fabs(r.k))) + block->moduli.right + fa_many_ends(block, x));
    return k == k ? k + 64.0 * FA_EPS * (fabs(x) + 1.0) * fabs(block->kappa) : INFINITY;
}

/* the row of a step; 0: not in doubles */
FA_FUNC int fa_many_row_of(fa_many_alone *m, double sigma, double rate, const fa_many_wish *w, fa_many_row *row)
{
    fa_cap_line *line = &m->line;
    fa_cap_block *block;
    double t = (w->points - 1) * w->plan.h, slack, c = w->plan.tilt, right = w->real[FA_MANY_RIGHT],
           least = fa_min(right, w->real[FA_MANY_OTHER]),
           end = fa_many_take(m, right < 0.0, sigma, rate, least, fa_max(right, c), 9.0);
    int i;
    line->plan = w->plan;
    line->n = w->points;
    line->made = 0;
    if (!(end == end) || !fa_many_lay(m, w, end) || !fa_cap_reserve_points(&m->job, line, w->points))
        return 0;
    block = m->job.blocks;
    memset(line->log_f, 0, sizeof(double) * (size_t)w->points);
    memset(line->arg_f, 0, sizeof(double) * (size_t)w->points);
    for (i = 0; i < w->points; i += FA_RUN)
        fa_cap_block_points(&m->job, block, line, i, NULL, NULL);
    memcpy(fa_row_points(row), line->log_f, sizeof(double) * (size_t)w->points);
    memcpy(fa_row_points(row) + w->points, line->arg_f, sizeof(double) * (size_t)w->points);
    block->moduli = fa_cap_quadrature(&m->job, block, line, t, right);
    row->error = exp(c * block->kappa) *
                 (block->moduli.line + fa_many_ends(block, c) +
                  fa_cap_rounding_plain(block, line, sqrt(c * c + t * t), block->sync));
    for (i = 0; i < FA_MANY_REALS; i++)
        row->real[i] = w->real[i] != 0.0 ? fa_many_real(block, w->real[i]) : 0.0;
    row->tail = block->family->majorant(block, line, t, fa_cap_curve_top(block, line, t), 1.0, &slack) +
                c * block->kappa + 64.0 * FA_EPS * (fabs(c) + 1.0) * fabs(block->kappa);
    return row->error < INFINITY && row->real[FA_MANY_RIGHT] < 600.0;
}

/* K, K', K'' of a step at the exponents of a page, to a few digits: inf where it is not known.  0: failure */
FA_FUNC int fa_many_look(fa_many_alone *m, int is_add, double sigma, double rate, const double *at,
                         double k[3][FA_MANY_PLACES])
{
    int i, last = FA_MANY_PLACES - 1;
    if (isnan(fa_many_take(m, is_add, sigma, rate, fa_min(at[0], at[last]), fa_max(at[0], at[last]), 7.5)))
        return 0;
    for (i = 0; i < FA_MANY_PLACES; i++) {
        fa_cap_real r = fa_cap_block_k(m->job.blocks, &m->job.blocks->coarse, at[i], 0, 0.0);
        k[0][i] = fabs(r.k) < 640.0 ? r.k : INFINITY;
        k[1][i] = is_add ? -r.d1 : r.d1;
        k[2][i] = r.d2;
    }
    return 1;
}

#endif
