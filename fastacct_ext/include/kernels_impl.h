/* kernels_impl.h -- the table of kernels, compiled once per instruction-set level by isa_*.c, which define FA_LEVEL and
 * FA_LEVEL_NAME.
 *
 * Cells that follow each other with the same (sigma, q) share their nodes. Sharing never changes a result (the grid of
 * nodes depends on sigma alone, see renyi/log_moment.h).
 */
#include <float.h>
#include <stdlib.h>

#include "renyi/cells.h"
#include "renyi/mixture_moments.h"
#include "renyi/pieces_moments.h"
#include "exact/blocks.h"
#include "exact/classical_blocks.h"
#include "loss/allocation.h"
#include "invert/blocks.h"
#include "kernels.h"

#define FA_JOIN2(a, b) a##b
#define FA_JOIN(a, b)  FA_JOIN2(a, b)

static void fa_rdp_order(const fa_log_moment *lm, double order, double steps, double *lower_out, double *upper_out,
                         uint8_t *status_out)
{
    double a = order - 1.0, count = steps / a;
    fa_moment moment;
    fa_log_moment_at(lm, a, &moment, FA_BOUNDS);
    *lower_out = *upper_out = 0.0;
    *status_out = FA_OK;
    if (!(count > 0.0))
        return;
    *lower_out = count * moment.lower * (1.0 - 4.0 * FA_EPS);
    *upper_out = count * moment.upper * (1.0 + 4.0 * FA_EPS);
    *status_out = (uint8_t)moment.status;
    if (!(*upper_out <= DBL_MAX)) { /* overflow: the safe side */
        *upper_out = INFINITY;
        *status_out = FA_NOT_MET;
    }
    if (lm->mech.sigma > 0.0 && !(*lower_out <= DBL_MAX))
        *lower_out = *lower_out > 0.0 ? DBL_MAX : 0.0;
}

static int64_t fa_rdp(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)
{
    fa_log_moment lm;
    int64_t i, j, k;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i = j) {
        double top = 0.0;
        for (j = i; j < in->n && in->sigma[j] == in->sigma[i] && in->q[j] == in->q[i]; j++)
            top = fa_max(top, in->target[j] - 1.0);
        fa_log_moment_init(&lm, in->sigma[i], in->q[i]);
        if (lm.a_limit > 0.0)
            fa_log_moment_cache(&lm, fa_min(fa_max(top, 1.0), lm.a_limit));
        for (k = i; k < j; k++)
            fa_rdp_order(&lm, in->target[k], in->steps[k], out->lower + k, out->upper + k, out->status + k);
    }
    return in->n;
}

static fa_readouts fa_readouts_of(const double *steps, int64_t stride, const double *target, const fa_question *ask,
                                  const fa_answers *out)
{
    return (fa_readouts){.steps = steps,
                         .stride = stride,
                         .target = target,
                         .ask = fa_renyi_ask_of(ask),
                         .out = out->upper,
                         .order_out = out->order,
                         .status_out = out->status};
}

static int64_t fa_renyi(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)
{
    fa_readouts cells = fa_readouts_of(in->steps, 1, in->target, ask, out);
    fa_log_moment lm;
    int64_t i, j;
    (void)seconds;
    for (i = 0; i < in->n; i = j) {
        for (j = i + 1; j < in->n && in->sigma[j] == in->sigma[i] && in->q[j] == in->q[i]; j++)
            continue;
        fa_log_moment_init(&lm, in->sigma[i], in->q[i]);
        fa_cells_of_one(&lm, &cells, i, j);
    }
    return in->n;
}

#define FA_TARGETS_AT_ONCE 64

static int64_t fa_renyi_of_history(const fa_history *run, const fa_cells *at, const fa_question *ask, double seconds,
                                   const fa_answers *out)
{
    double end = fa_end_of(seconds);
    fa_log_moment *moment = fa_alloc(sizeof(fa_log_moment) * (size_t)(run->n_blocks > 0 ? run->n_blocks : 1));
    fa_run search = {.n = run->n_blocks, .moment = moment, .steps = run->steps, .log_a = NAN};
    fa_readouts cells = fa_readouts_of(run->steps, 0, at->target, ask, out);
    int64_t at_once = run->n_blocks == 1 ? FA_TARGETS_AT_ONCE : 1, i, j;
    int b;
    if (!moment)
        return FA_NO_MEMORY;
    for (b = 0; b < run->n_blocks; b++)
        fa_log_moment_init(moment + b, run->sigma[b], run->q[b]);
    for (i = 0; i < at->n && !fa_is_late(i, end); i = j) {
        j = at->n - i > at_once ? i + at_once : at->n;
        if (run->n_blocks == 1)
            fa_cells_of_one(moment, &cells, i, j);
        else
            fa_run_readout(&search, &cells, i);
    }
    free(moment);
    return i;
}

static void fa_data_moments(const fa_job *job, int is_flipped, const double *lost, int64_t n, const double *u,
                            double *rows_out)
{
    const fa_table table = {job->n_tables[0], job->n_slices[0], (const fa_atom *)job->point,
                            (const fa_slice *)job->slice, job->missed[0]};
    const fa_pieces law = {job->n_atoms[0],
                           job->n_panels[0],
                           is_flipped,
                           (const fa_atom *)job->atom,
                           (const fa_panel *)job->panel,
                           table,
                           *(const fa_smooth *)job->smooth};
    fa_moments_kept kept = {.n = 0};
    int64_t i;
    for (i = 0; i < n; i++)
        fa_pieces_moments(&law, u[i], lost, &kept, rows_out + 6 * i);
    fa_moments_free(&kept);
}

static int fa_allocation(double sigma, int64_t steps, int room, double *rows_out, double *known_out)
{
    fa_sum law;
    int n = fa_sum_of(sigma, steps, &law) ? fa_sum_rows(&law, sigma, room, (fa_atom *)rows_out, known_out) : 0;
    fa_sum_free(&law);
    return fa_alloc_failed() ? FA_NO_MEMORY : n;
}

const fa_kernels *FA_JOIN(fa_kernels_, FA_LEVEL)(void)
{
    static const fa_kernels table = {
        .name = FA_LEVEL_NAME,
        .rdp = fa_rdp,
        .renyi = fa_renyi,
        .exact = fa_exact_block,
        .calibrate_renyi = fa_calibrate_renyi_block,
        .calibrate_exact = fa_calibrate_exact_block,
        .gaussian_epsilon = fa_gaussian_epsilon_block,
        .gaussian_delta = fa_gaussian_delta_block,
        .basic_composition_epsilon = fa_basic_epsilon_block,
        .advanced_composition_epsilon = fa_advanced_epsilon_block,
        .clt_mu_approx = fa_clt_mu_approx_block,
        .renyi_of_history = fa_renyi_of_history,
        .exact_job = fa_exact_job,
        .mixture_moments = fa_mixture_moments_block,
        .data_moments = fa_data_moments,
        .allocation = fa_allocation,
    };
    return &table;
}
