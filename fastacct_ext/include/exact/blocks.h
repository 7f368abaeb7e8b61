/* exact/blocks.h -- the exact accountant over cells of sampled Gaussians, and over the targets of one job.
 *
 * Cells that follow each other with the same run share what they can.  Sharing never changes a result.
 */
#ifndef FA_EXACT_BLOCKS_H
#define FA_EXACT_BLOCKS_H

#include "../kernels.h"
#include "../late.h"
#include "exact_readout.h"

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
    static const double top[] = {
        [FA_GIVE_EPSILON] = (double)INFINITY, [FA_GIVE_DELTA] = 1.0, [FA_GIVE_LOG_DELTA] = 0.0};
    int trivial = quantity == FA_GIVE_EPSILON ? target >= 1.0 : target == INFINITY;
    fa_give_nothing(i, quantity, out);
    if (trivial)
        return;
    out->upper[i] = top[quantity];
    out->status[i] = FA_NOT_MET;
}

/* reads the job that is set at one target; 0 where memory was refused */
static int fa_exact_give(fa_exact *e, int64_t i, double target, fa_quantity quantity, const fa_answers *out)
{
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
    if (!fa_exact_init(&e, 0, (int)ask->ways))
        return FA_NO_MEMORY;
    for (i = 0; i < in->n && !fa_is_late(i, end); i++) {
        double sigma = in->sigma[i], q = in->q[i], steps = in->steps[i];
        if (!(q > 0.0) || !(steps > 0.0) || sigma == INFINITY) {
            fa_give_nothing(i, ask->quantity, out);
            continue;
        }
        if (!(sigma > 0.0)) {
            fa_give_no_noise(i, in->target[i], ask->quantity, out);
            continue;
        }
        if (!(i && ask->quantity == FA_GIVE_EPSILON && e.sigma == sigma && e.q == q && e.steps == steps))
            fa_exact_set(&e, sigma, q, steps);
        if (!fa_exact_give(&e, i, in->target[i], ask->quantity, out)) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

/* the jobs for the capped lines, of the blocks' pairs and counts; empty where there are more than they take.  A
 * direction whose losses all have an end is the other one at exponents 1 - u */
FA_FUNC void fa_job_capped(fa_exact *e, const double *count)
{
    int b, d, n = e->n_blocks, ends;
    for (d = 0; d < 2; d++) {
        fa_cap_job *job = &e->capped[d].job;
        const fa_pair *own = e->pairs + d * n, *other = e->pairs + (1 - d) * n;
        for (b = 0, ends = 1; b < n; b++)
            ends = ends && !fa_pair_grows(own + b);
        fa_capped_begin(e->capped + d, n <= FA_CAP_BLOCKS ? n : 0, ends);
        for (b = 0; b < n && n <= job->capacity; b++)
            fa_cap_job_add_pair(job, (ends ? other : own) + b, count[b]);
        job->mu2 = e->mu2;
    }
}

/* one block of a job as pairs of both directions; whether its mirror image is itself */
FA_FUNC int fa_job_pairs(double sigma, int n_p, int n_q, const double *weight, const double *mean, fa_pair *remove,
                         fa_pair *add)
{
    double share[2], moved[2] = {0.0, 1.0}, one = 1.0, apart;
    int is_sampled = n_p == 2 && n_q == 1 && mean[0] == mean[2];
    if (n_q && !is_sampled) {
        fa_pair_mixture(remove, sigma, n_p, weight, mean, n_q, weight + n_p, mean + n_p);
        fa_pair_flip(add, sigma, n_p, weight, mean, n_q, weight + n_p, mean + n_p);
        return remove->symmetric;
    }
    apart = is_sampled ? mean[1] - mean[0] : mean[0];
    share[1] = weight[is_sampled];
    share[0] = 1.0 - share[1];
    fa_pair_sampled(remove, sigma / apart, share[1]);
    fa_pair_flip(add, sigma / apart, 2, share, moved, 1, &one, moved);
    return 0;
}

/* the blocks of a job; 0: nothing is released.  `many`: only sampled Gaussians are expected, and they go there */
static int fa_job_blocks(fa_exact *e, fa_many *many, const fa_job *job, double *counts)
{
    const double *weight = job->weight, *mean = job->mean;
    int b, d, used = 0, lone = 0, n = job->n_blocks;
    fa_dd end[2] = {{0.0, 0.0}, {0.0, 0.0}}, mu2 = {0.0, 0.0}; /* 50,000 different Gaussians lose no digit */
    e->symmetric = !many;
    e->total = 0.0;
    for (b = 0; b < n; weight += job->n_p[b] + job->n_q[b], mean += job->n_p[b] + job->n_q[b], b++) {
        double count = job->count[b], sigma = job->sigma[b];
        int n_p = job->n_p[b], n_q = job->n_q[b];
        fa_pair *pair[2] = {e->pairs + used, e->pairs + n + used};
        if (!(count > 0.0) || sigma == INFINITY || (n_q == 0 && !(weight[0] > 0.0)))
            continue;
        if (n_q == 0 ? weight[0] >= 1.0 : n_p == 1 && n_q == 1) {
            double m = (mean[0] - (n_q ? mean[1] : 0.0)) / sigma;
            mu2 = fa_dd_add(mu2, fa_dd_mul_d(fa_two_prod(m, m), count));
            lone = 1;
            continue;
        }
        if (many) {
            fa_many_add(many, sigma / mean[0], weight[0], count);
            end[1] = fa_dd_add_d(end[1], -count * log1p(-weight[0]));
            continue;
        }
        e->symmetric &= fa_job_pairs(sigma, n_p, n_q, weight, mean, pair[0], pair[1]);
        for (d = 0; d < 2; d++)
            end[d] = fa_pair_grows(pair[d]) || !(end[d].hi < INFINITY) ? fa_dd_make(INFINITY, 0.0)
                                                                      : fa_dd_add_d(end[d], count * pair[d]->kappa);
        e->total += count;
        counts[used++] = count;
    }
    for (d = 0; d < 2; d++)
        e->end[d] = lone || (many && d == 0) ? INFINITY : end[d].hi;
    e->mu2 = lone ? fa_max(mu2.hi, 1e-306) : mu2.hi; /* more than nothing */
    if (many)
        return fa_many_ready(many, e->mu2, e->end[1]);
    memmove(e->pairs + used, e->pairs + n, sizeof(fa_pair) * (size_t)used);
    e->n_blocks = used;
    e->only_gaussian = used == 0 && lone;
    fa_job_capped(e, counts);
    return used > 0 || lone;
}

#define FA_NOT_DONE 255

/* whether the pass over all steps of line/many_steps.h may serve a job: very many sampled Gaussians, and nothing else
 */
static int fa_is_many(const fa_job *job)
{
    int b;
    if (job->n_blocks < FA_MANY_LEAST)
        return 0;
    for (b = 0; b < job->n_blocks; b++)
        if (job->n_q[b])
            return 0;
    return 1;
}

/* such a job, where that pass certifies it: status as it was elsewhere; how many targets were looked at */
static int64_t fa_exact_many(const fa_job *job, const fa_cells *at, const fa_question *ask, double end,
                             const fa_answers *out)
{
    fa_exact e;
    int64_t i;
    int ready;
    if (!fa_exact_init(&e, 0, (int)ask->ways))
        return FA_NO_MEMORY;
    e.many = fa_many_new(job->n_blocks, (int)ask->ways);
    ready = e.many && fa_job_blocks(&e, e.many, job, NULL);
    for (i = 0; i < at->n && ready && !fa_is_late(i, end); i++) {
        int status;
        e.refused = 0;
        status = fa_exact_read(&e, at->target[i], ask->quantity, out->lower + i, out->upper + i);
        out->slope[i] = e.slope;
        if (!e.refused)
            out->status[i] = (uint8_t)status;
    }
    fa_many_free(e.many);
    fa_exact_free(&e);
    return fa_alloc_failed() ? FA_NO_MEMORY : ready ? i : at->n;
}

/* one job, block by block, at those of n targets that are not done */
static int64_t fa_exact_blocks(const fa_job *job, const fa_cells *at, int64_t n, const fa_question *ask, double end,
                               const fa_answers *out)
{
    fa_exact e;
    int64_t i;
    int released;
    double *counts;
    if (!fa_exact_init(&e, job->n_blocks, (int)ask->ways))
        return FA_NO_MEMORY;
    if (!(counts = fa_alloc(sizeof(double) * (size_t)(job->n_blocks + 1)))) {
        fa_exact_free(&e);
        return FA_NO_MEMORY;
    }
    released = fa_job_blocks(&e, NULL, job, counts);
    free(counts);
    for (i = 0; i < n && !fa_is_late(i, end); i++) {
        if (out->status[i] != FA_NOT_DONE)
            continue;
        if (!released) {
            fa_give_nothing(i, ask->quantity, out);
            continue;
        }
        if (!fa_exact_give(&e, i, at->target[i], ask->quantity, out)) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

static int64_t fa_exact_job(const fa_job *job, const fa_cells *at, const fa_question *ask, double seconds,
                            const fa_answers *out)
{
    double end = fa_end_of(seconds);
    int64_t i, n = at->n, done = 0;
    (void)fa_alloc_failed();
    memset(out->status, FA_NOT_DONE, (size_t)n);
    if (fa_is_many(job))
        n = fa_exact_many(job, at, ask, end, out);
    for (i = 0; i < n; i++)
        done += out->status[i] != FA_NOT_DONE;
    return done == n || n < 0 ? n : fa_exact_blocks(job, at, n, ask, end, out);
}

#endif
