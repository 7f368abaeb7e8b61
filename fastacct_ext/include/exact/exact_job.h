/* exact/exact_job.h -- a whole job as the exact accountant holds it: both directions' lines, and who answers which.
 */
#ifndef FA_EXACT_JOB_H
#define FA_EXACT_JOB_H

#include "../choices.h"
#include "../line/capped_bound.h"
#include "../line/contour_read.h"
#include "../line/many_steps.h"
#include "../renyi/order_search.h"
#include "one_step.h"

#define FA_BEFORE_END 1e-6  /* relative distance from the largest loss where few added steps are still certified */
#define FA_TIGHT      1e-6  /* relative width up to which the status is FA_OK */
#define FA_SHARED     0.99  /* expected participations from which all targets near a round one share a line */
#define FA_CLOSE      4e-9  /* width up to which a capped line of several answers: another line is far dearer */
#define FA_FAR_END    300.0 /* square of the deviations between the mean and the largest loss of added steps */
#define FA_NARROW     1e-9  /* width, relative for eps, beyond which another way is tried */
#define FA_ADD_STEPS  100.0 /* added steps up to which their largest loss is in sight; to this steps * sigma ... */
#define FA_ADD_WALLED 60.0  /* ... the capped line has the floor of few steps, and to this one ... */
#define FA_ADD_FIRST  12.0  /* ... it is cheaper than the vertical line, as measured */
#define FA_AT_END     4e-10 /* distance from the largest loss, relative, within which eps is known well enough ... */
#define FA_NEAR_END   4e-7  /* ... and within which it is where no line is certified */

typedef struct {
    fa_contour way[2]; /* [0] remove, [1] add: the same blocks, each with nodes of its own */
    int directions;    /* FA_WAYS_ADD | FA_WAYS_REMOVE */
    int points_max;
    int symmetric; /* both directions coincide */
    int only_gaussian;
    double sigma, q, steps; /* of a single sampled block (q > 0), for closed forms and the fall-back; else q = 0 */
    double add_end;         /* largest loss of the add direction when finite: delta_add = 0 from there */
    fa_log_moment *moment;  /* scratch of the fall-back, or NULL */
    double slope;           /* d log delta/d eps at the last delta read, of the direction that decided */
    fa_cap_work capped[2];  /* lines for steps of sampled Gaussians, as `way`; their jobs are empty elsewhere */
    fa_many *many;          /* or, instead of blocks, very many sampled Gaussians (line/many_steps.h) ... */
    int refused;            /* ... and whether the last answer could not be certified there */
    double add_anchor;      /* capped[0].anchor that way[1]'s line is placed for; 0: none */
} fa_exact;

FA_FUNC void fa_exact_free(fa_exact *e)
{
    fa_contour_free(&e->way[0]);
    fa_contour_free(&e->way[1]);
    fa_cap_work_free(e->capped);
    fa_cap_work_free(e->capped + 1);
    free(e->way[0].blocks);
    free(e->way[1].blocks);
    free(e->moment);
    memset(e, 0, sizeof(*e));
}

/* room for n blocks; 0 when out of memory */
FA_FUNC int fa_exact_init(fa_exact *e, int n_blocks, int directions, int points_max)
{
    int d;
    memset(e, 0, sizeof(*e));
    e->directions = directions;
    e->points_max = points_max;
    e->moment = fa_alloc(sizeof(fa_log_moment));
    for (d = 0; d < 2; d++) {
        e->way[d].blocks = fa_alloc_zeroed((size_t)(n_blocks > 0 ? n_blocks : 1) * sizeof(fa_block));
        e->way[d].n_blocks = n_blocks;
        e->way[d].sign = d ? -1 : 1;
    }
    if (e->moment && e->way[0].blocks && e->way[1].blocks)
        return 1;
    fa_exact_free(e);
    return 0;
}

/* another target of the same job: as if it had been set again */
FA_FUNC void fa_exact_again(fa_exact *e)
{
    fa_contour_reset(&e->way[0]);
    if (e->add_anchor == 0.0)
        fa_contour_reset(&e->way[1]);
}

/* an empty job for the capped line; without memory it has no capacity and stays empty */
FA_FUNC void fa_capped_begin(fa_cap_work *capped, int n_blocks, int is_add)
{
    (void)fa_cap_job_clear(&capped->job, n_blocks);
    capped->job.is_add = is_add;
    capped->anchor = 0.0;
    capped->certified = 0;
}

/* whether the capped line takes this direction of the job: several steps of sampled Gaussians, and Gaussians; added
 * ones where they are few, or their largest loss is so many deviations away that no end is in sight */
FA_INLINE int fa_is_capped(const fa_exact *e, int way)
{
    const fa_cap_job *job = &e->capped[way].job;
    int is_few = job->steps <= FA_ADD_STEPS, is_far = job->least * job->least > FA_FAR_END * job->variance;
    if (way && !(job->mu2 > 0.0) && (is_few ? job->mixtures > 0 : !is_far))
        return 0;
    return job->n > 0 && (job->steps > 1.0 || job->mu2 > 0.0);
}

/* the product of all steps and the largest noise: how far the vertical line of few added steps is from being cheap */
FA_FUNC double fa_added_size(const fa_cap_job *job)
{
    double sigma = 0.0;
    int b;
    for (b = 0; b < job->n; b++)
        sigma = fa_max(sigma, job->blocks[b].sigma);
    return job->steps * sigma;
}

/* how direction add is asked, once the job is whole */
FA_FUNC void fa_exact_added(fa_exact *e)
{
    fa_cap_job *job = &e->capped[1].job;
    job->walled = fa_is_capped(e, 1) && job->mu2 == 0.0 && job->mixtures == 0 && job->steps <= FA_ADD_STEPS &&
                  (job->n > 1 || fa_added_size(job) <= FA_ADD_WALLED);
}

/* one sampled Gaussian block, sigma > 0, 0 < q <= 1, steps > 0 */
FA_FUNC void fa_exact_set(fa_exact *e, double sigma, double q, double steps)
{
    int d, gaussian = q >= 1.0;
    e->add_anchor = 0.0;
    e->sigma = sigma;
    e->q = q;
    e->steps = steps;
    e->symmetric = e->only_gaussian = gaussian;
    e->add_end = gaussian ? INFINITY : -steps * log1p(-q);
    for (d = 0; d < 2; d++) {
        fa_contour *run = e->way + d;
        run->mu2 = gaussian ? steps / sigma / sigma : 0.0;
        if (gaussian && sigma < INFINITY && run->mu2 < 1e-306) /* more than nothing */
            run->mu2 = 1e-306;
        run->total = gaussian ? 0.0 : steps;
        run->n_blocks = gaussian ? 0 : 1;
        if (!gaussian) {
            fa_pair_sampled(&run->blocks[0].pair, sigma, q);
            run->blocks[0].count = steps;
        }
        fa_contour_reset(run);
        fa_capped_begin(e->capped + d, gaussian ? 0 : 1, d);
        if (e->capped[d].job.capacity > 0 && !gaussian)
            fa_cap_job_add(&e->capped[d].job, sigma, q, steps);
    }
    fa_exact_added(e);
}

FA_FUNC double fa_one_sided_eps_end(const fa_exact *e, int way) { return way ? e->add_end : INFINITY; }

/* whether the capped line is the only one for direction remove: a vertical line without cap has never bettered it for
 * one sampled Gaussian; of several different ones, and of mixtures, it serves some that the capped line gives up */
FA_INLINE int fa_is_lone(const fa_exact *e)
{
    return e->capped->job.n == 1 && e->capped->job.mixtures == 0;
}

/* Whether eps at log_delta is next to the largest loss: with eta = `near` of it, delta there is at least (1 -
 * e^(-eta/2)) times the chance that no step brings more than eta/2 over their number beyond log(1-q) */
FA_FUNC int fa_add_is_at_end(const fa_exact *e, double log_delta, double near, fa_interval *out)
{
    const fa_cap_job *job = &e->capped[1].job;
    double eta = near * e->add_end, chance = 0.0;
    int b;
    if (!(job->n > 0) || job->mixtures > 0 || !(e->add_end > 1e-290) || !(e->add_end < INFINITY))
        return 0;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        double z = block->sigma * block->sigma * (log(expm1(0.499999 * eta / job->steps)) - block->log_odds) + 0.5;
        chance += block->steps * fa_log_tail(-z / block->sigma);
    }
    if (!(log(-expm1(-0.5 * eta)) + chance * (1.0 + 1e-9) - 1e-9 > log_delta))
        return 0;
    *out = fa_share(*out, (fa_interval){e->add_end * (1.0 - near - 8.0 * FA_EPS), e->add_end * (1.0 + 8.0 * FA_EPS)});
    return 1;
}

/* whether few steps of sampled Gaussians are added, and the capped line is asked first */
FA_INLINE int fa_few_first(const fa_exact *e)
{
    const fa_cap_job *job = &e->capped[1].job;
    return job->walled && (job->n > 1 || fa_added_size(job) <= FA_ADD_FIRST);
}

/* whether direction add asks the capped line first: also mixtures that are far from their largest loss */
FA_INLINE int fa_added_first(const fa_exact *e)
{
    return fa_few_first(e) || (fa_is_capped(e, 1) && e->capped[1].job.mixtures > 0);
}

/* whether an interval of log delta is narrow; -inf on both sides is not */
FA_INLINE int fa_is_narrow(fa_interval r) { return r.upper - r.lower <= FA_NARROW; }

/* eps by the capped line: that of the nearest round target, but for one mechanism that hardly any record takes part
 * in: there a line serves one target */
FA_INLINE int fa_capped_eps(fa_cap_work *capped, double log_delta, fa_interval *out)
{
    const fa_cap_job *job = &capped->job;
    return !job->walled && (job->n > 1 || job->mu2 > 0.0 || job->steps * job->blocks[0].q >= FA_SHARED)
               ? fa_cap_eps_anchored(capped, log_delta, out)
               : fa_cap_eps(capped, log_delta, out);
}

#endif
