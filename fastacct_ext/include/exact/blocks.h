/* exact/blocks.h -- the exact accountant over cells of sampled Gaussians, and over the targets of one job.
 *
 * Cells that follow each other with the same run share what they can.  Sharing never changes a result.
 */
#ifndef FA_EXACT_BLOCKS_H
#define FA_EXACT_BLOCKS_H

#include "../kernels.h"
#include "../late.h"
#include "threshold.h"

/* the answer of cell i where nothing is released */
static void fa_give_nothing(int64_t i, fa_quantity quantity, const fa_answers *out)
{
    out->lower[i] = out->upper[i] = quantity == FA_GIVE_LOG_DELTA ? -INFINITY : 0.0;
    out->slope[i] = NAN;
    out->status[i] = FA_OK;
}

/* the answer of cell i where there is no noise: the safe side */
static void fa_give_no_noise(int64_t i, double target, fa_quantity quantity, const fa_answers *out)
{
    static const double top[] = {[FA_GIVE_EPSILON] = (double)INFINITY,
                                 [FA_GIVE_DELTA] = 1.0,
                                 [FA_GIVE_LOG_DELTA] = 0.0,
                                 [FA_GIVE_THRESHOLD] = 0.0,
                                 [FA_GIVE_ABOUT] = (double)INFINITY};
    int trivial = quantity == FA_GIVE_EPSILON ? target >= 1.0 : target == INFINITY;
    fa_give_nothing(i, quantity, out);
    if (trivial)
        return;
    out->upper[i] = top[quantity];
    out->status[i] = FA_NOT_MET;
}

/* reads the job that is set at one target; 0 where memory was refused */
static int fa_exact_give(fa_exact *e, int64_t i, double target, double off, fa_quantity quantity,
                         const fa_answers *out)
{
    if (target == e->target && off == e->off) { /* once more */
        out->lower[i] = out->lower[e->at];
        out->upper[i] = out->upper[e->at];
        out->slope[i] = out->slope[e->at];
        out->status[i] = out->status[e->at];
        return 1;
    }
    e->target = target;
    e->off = e->capped[0].job.off = e->capped[1].job.off = off;
    e->at = i;
    e->is_shared = quantity != FA_GIVE_DELTA || e->n_data > 0;
    if (quantity == FA_GIVE_THRESHOLD) {
        out->lower[i] = fa_threshold(e, target, out->upper + i);
        out->slope[i] = NAN;
        out->status[i] = FA_OK;
        return !fa_alloc_failed();
    }
    out->status[i] = (uint8_t)fa_exact_read(e, target, quantity, out->lower + i, out->upper + i);
    out->slope[i] = e->slope;
    return !fa_alloc_failed();
}

static int64_t fa_exact_block(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)
{
    fa_exact e;
    double end = fa_end_of(seconds);
    int64_t i;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, (int)ask->ways))
        return FA_NO_MEMORY;
    for (i = 0; i < in->n && !fa_is_late(i, end); i++) {
        double sigma = in->sigma[i], q = in->q[i], steps = in->steps[i];
        if (!(q > 0.0) || !(steps > 0.0) || sigma == INFINITY) {
            fa_give_nothing(i, ask->quantity, out);
            continue;
        }
        if (!(sigma > 0.0) && q < 1.0 && ask->ways == FA_WAYS_ADD)
            sigma = 1e-150; /* only that nobody was drawn says anything: no double differs */
        if (!(sigma > 0.0)) {
            fa_give_no_noise(i, in->target[i], ask->quantity, out);
            continue;
        }
        if (!(i && ask->quantity != FA_GIVE_DELTA && e.sigma == sigma && e.q == q && e.steps == steps))
            fa_exact_set(&e, sigma, q, steps);
        if (!fa_exact_give(&e, i, in->target[i], 0.0, ask->quantity, out)) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

/* eps at log_delta about, which may be `near`, by lines of which nothing is certified; inf: none says it */
FA_FUNC double fa_exact_eps_about(fa_exact *e, double log_delta, double near)
{
    double most = 0.0;
    int way, last = e->directions != FA_WAYS_REMOVE && !e->symmetric;
    for (way = last && e->directions == FA_WAYS_ADD; way <= last; way++) {
        fa_cap_job *job = &e->capped[way].job, *first = &e->capped[0].job;
        if (job->n == 0 || fa_is_one_step(e) || fa_flat_is_for(job))
            return e->only_gaussian || fa_is_one_step(e) ? fa_exact_eps(e, log_delta).upper : INFINITY;
        fa_set_wall(e->capped + way, 0);
        if (!(most > 0.0) || first->is_add ||
            !(fa_cap_add_bound(first, &e->capped[0].line, most, log_delta) <= log_delta))
            most = fa_max(most, fa_cap_eps_about(e->capped + way, log_delta, near));
    }
    return most > 0.0 ? most : INFINITY;
}

static int64_t fa_exact_job(const fa_job *job, const fa_cells *at, const fa_question *ask, double seconds,
                            const fa_answers *out)
{
    fa_exact e;
    double end = fa_end_of(seconds);
    int64_t i;
    int released;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, (int)ask->ways))
        return FA_NO_MEMORY;
    released = fa_job_blocks(&e, job);
    for (i = 0; i < at->n && !fa_is_late(i, end); i++) {
        if (released && ask->quantity == FA_GIVE_ABOUT) {
            fa_give_nothing(i, FA_GIVE_ABOUT, out);
            out->lower[i] = out->upper[i] = fa_exact_eps_about(&e, log(at->target[i]), at->eps[i]);
            if (!fa_alloc_failed())
                continue;
            i = FA_NO_MEMORY;
            break;
        }
        if (!released && !fa_alloc_failed())
            fa_give_nothing(i, ask->quantity, out);
        else if (!released || !fa_goes_on() ||
                 !fa_exact_give(&e, i, at->target[i], at->off ? at->off[i] : 0.0, ask->quantity, out)) {
            (void)fa_alloc_failed();
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

#endif
