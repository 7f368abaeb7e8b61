/* exact/exact_job.h -- a whole job as the exact accountant holds it: both directions' lines, and who answers which.
 */
#ifndef FA_EXACT_JOB_H
#define FA_EXACT_JOB_H

#include "../kernels.h"
#include "../line/capped_bound.h"
#include "../line/flat.h"
#include "../renyi/order_search.h"
#include "one_step.h"

#define FA_BEFORE_END 1e-6   /* relative distance from the largest loss where few added steps are still certified */
#define FA_TIGHT      1e-6   /* relative width up to which the status is FA_OK */
#define FA_NARROW     1e-9   /* width, relative for eps, beyond which another way is tried */
#define FA_WALL_STEPS 1000.0 /* steps up to which plain sums, which lose no digits, are tried where no end is near */
#define FA_WALL_NEAR  60.0   /* steps times noise, and square of the deviations up to the end, where they come first */
#define FA_WALL_GROUP 1.6    /* noise of a group of records below which they come first */
#define FA_AT_END     4e-10  /* distance from the largest loss, relative, within which eps is known well enough ... */
#define FA_NEAR_END   4e-7   /* ... and within which it is where no line is certified */
#define FA_APART_MOST 64     /* blocks whose total variations are added up: 0.02 ms each */

/* log delta, upper bound, and its slope */
typedef struct {
    double log_delta, slope;
} fa_test;

typedef struct {
    int directions; /* FA_WAYS_ADD | FA_WAYS_REMOVE */
    int n_blocks;   /* of sampled Gaussians and mixtures ... */
    int n_data;     /* of losses that are data */
    double total;   /* ... and their steps */
    double apart;   /* log of the sum of their total variations, which is above delta; 0: not known */
    double mu2;     /* sum of count mean^2/sigma^2 of releases that see every record: K = u (u-1) mu2/2 */
    int symmetric;  /* both directions coincide */
    int only_gaussian;
    double sigma, q, steps; /* of a single sampled block (q > 0), for closed forms and the fall-back; else q = 0 */
    double end[2];          /* largest loss of a direction when finite: its delta is 0 from there ... */
    double end_off[2];      /* ... and by how much more than the truth that is, at most */
    fa_log_moment *moment;  /* scratch of the fall-back, or NULL */
    double off;             /* what the log delta that is asked may be off by: bounds of eps are those of its ends */
    double target;          /* of this job that was read last, NaN: none; and where its answer is */
    int64_t at;
    int is_shared;         /* whether deltas that are near share a line, if many are expected, or lines are dear */
    double slope;          /* d log delta/d eps at the last delta read, of the direction that decided */
    fa_cap_work capped[2]; /* lines of directions remove and add */
    fa_pair *pairs;        /* of the blocks of a job: those of direction remove, then those of direction add */
    fa_pieces *pieces;     /* likewise */
    fa_flat_lines flat[2]; /* of jobs in which nothing decays */
    fa_test zero[2];       /* delta(0) as fa_threshold sees it, in the direction asked and in the other; 1: not yet */
} fa_exact;

FA_FUNC void fa_exact_free(fa_exact *e)
{
    fa_cap_work_free(e->capped);
    fa_cap_work_free(e->capped + 1);
    free(e->pairs);
    free(e->pieces);
    fa_flat_lines_free(e->flat);
    fa_flat_lines_free(e->flat + 1);
    free(e->moment);
    memset(e, 0, sizeof(*e));
}

/* answers of another job */
FA_INLINE void fa_exact_forget(fa_exact *e)
{
    e->zero[0].log_delta = e->zero[1].log_delta = 1.0;
    e->target = NAN;
}

/* 0 when out of memory */
FA_FUNC int fa_exact_init(fa_exact *e, int directions)
{
    memset(e, 0, sizeof(*e));
    e->directions = directions;
    fa_exact_forget(e);
    e->moment = fa_alloc(sizeof(fa_log_moment));
    return e->moment != NULL;
}

/* an empty job for the capped line; without memory it has no capacity and stays empty */
FA_FUNC void fa_capped_begin(fa_cap_work *capped, int n_blocks, int is_add)
{
    (void)fa_cap_job_clear(&capped->job, n_blocks);
    capped->job.is_add = is_add;
    capped->anchor = capped->near = capped->none = capped->unit = 0.0;
    capped->certified = 0;
}

/* one sampled Gaussian block, sigma > 0, 0 < q <= 1, steps > 0 */
FA_FUNC void fa_exact_set(fa_exact *e, double sigma, double q, double steps)
{
    int d, gaussian = q >= 1.0;
    e->sigma = sigma;
    e->q = q;
    e->steps = steps;
    fa_exact_forget(e);
    e->symmetric = e->only_gaussian = gaussian;
    e->end_off[0] = e->end_off[1] = 0.0;
    e->end[0] = INFINITY;
    e->end[1] = gaussian ? INFINITY : -steps * log1p(-q);
    e->mu2 = gaussian ? steps / sigma / sigma : 0.0;
    if (gaussian && sigma < INFINITY && e->mu2 < 1e-306) /* more than nothing */
        e->mu2 = 1e-306;
    e->total = gaussian ? 0.0 : steps;
    e->n_blocks = gaussian ? 0 : 1;
    e->n_data = 0;
    for (d = 0; d < 2; d++) {
        fa_capped_begin(e->capped + d, e->n_blocks, d);
        if (e->capped[d].job.capacity > 0 && !gaussian)
            fa_cap_job_add(&e->capped[d].job, sigma, q, steps);
    }
}

/* the jobs for the capped lines, of the blocks' pairs and counts; empty where there are more than they take.  A
 * direction whose losses all have an end is the other one at exponents 1 - u */
FA_FUNC void fa_job_capped(fa_exact *e, const double *count, const double *times)
{
    int b, d, n = e->n_blocks, more = e->n_data, all = n + more, ends;
    for (d = 0; d < 2; d++) {
        fa_cap_job *job = &e->capped[d].job;
        const fa_pair *own = e->pairs + d * n, *other = e->pairs + (1 - d) * n;
        for (b = 0, ends = n > 0; b < n; b++)
            ends = ends && !fa_pair_grows(own + b);
        fa_capped_begin(e->capped + d, all <= FA_CAP_BLOCKS ? all : 0, ends);
        for (b = 0; b < n && all <= job->capacity; b++)
            fa_cap_job_add_pair(job, (ends ? other : own) + b, count[b]);
        for (b = 0; b < more && all <= job->capacity; b++)
            fa_cap_job_add_pieces(job, e->pieces + (ends ? 1 - d : d) * more + b, times[b]);
        job->mu2 = e->mu2;
    }
}

/* Total variation is subadditive: log of the sum of what delta(0) of each step is at most, of mixtures and Gaussians */
FA_FUNC double fa_job_apart(const fa_exact *e, const double *count)
{
    double sum = erf(fa_min(0.35355339059327376220 * sqrt(e->mu2), 6.0));
    int b;
    if (e->n_data > 0 || e->n_blocks > FA_APART_MOST)
        return 0.0;
    for (b = 0; b < e->n_blocks; b++)
        sum += count[b] * exp(fa_one_step_mixture(e->pairs + b, 1, 0.0).upper);
    if (!(sum > 1e-290)) /* terms may have underflowed */
        return 0.0;
    return fa_min(0.0, log(sum) + 1e-13 + 8.0 * FA_EPS * fabs(log(sum)));
}

/* one block of a job as pairs of both directions; whether its mirror image is itself */
FA_FUNC int fa_job_pairs(double sigma, int n_p, int n_q, const double *weight, const double *mean, fa_pair *remove,
                         fa_pair *add)
{
    double share[2], moved[2] = {0.0, 1.0}, one = 1.0, apart;
    int is_sampled = n_p == 2 && n_q == 1 && mean[0] == mean[2] && weight[1] < 1.0;
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

/* the losses of a job that are data, in both directions, and the ends of both.  0: no memory */
FA_FUNC int fa_job_data(fa_exact *e, const fa_job *job, fa_dd *end)
{
    int b, d, n = job->n_data;
    const fa_atom *atom = (const fa_atom *)job->atom;
    const fa_panel *panel = (const fa_panel *)job->panel;
    const fa_atom *point = (const fa_atom *)job->point;
    const fa_slice *slice = (const fa_slice *)job->slice;
    e->n_data = n;
    e->end_off[0] = e->end_off[1] = 0.0;
    e->flat[0].spacing = e->flat[1].spacing = job->spacing;
    e->pieces = fa_alloc(sizeof(fa_pieces) * 2 * (size_t)(n + 1));
    for (b = 0; b < n && e->pieces; b++) {
        for (d = 0; d < 2; d++) {
            fa_pieces *own = e->pieces + d * n + b;
            fa_table table = {job->n_tables[b], job->n_slices[b], point, slice, job->missed[b]};
            *own = (fa_pieces){
                job->n_atoms[b], job->n_panels[b], d, atom, panel, table, ((const fa_smooth *)job->smooth)[b]};
            if (table.n_panels > 0 || own->smooth.step > 0.0) { /* what is beyond its points is not known */
                end[d] = fa_dd_make(INFINITY, 0.0);
                e->end_off[d] = table.n_panels > 0 ? INFINITY : e->end_off[d];
            }
            else if (end[d].hi < INFINITY) {
                double slip = FA_EPS * fa_pieces_slip(own);
                end[d] = fa_dd_add_d(end[d], job->times[b] * (fa_pieces_end(own, 1) + slip));
                e->end_off[d] += 2.0 * job->times[b] * slip;
            }
        }
        e->total += job->times[b];
        atom += job->n_atoms[b];
        panel += job->n_panels[b];
        point += (size_t)job->n_tables[b] * FA_TABLE_ROW;
        slice += job->n_slices[b];
    }
    return e->pieces != NULL;
}

/* the blocks of a job; 0: nothing is released, or there is no memory */
static int fa_job_blocks(fa_exact *e, const fa_job *job)
{
    const double *weight = job->weight, *mean = job->mean;
    int b, d, used = 0, lone = 0, n = job->n_blocks;
    double *counts = fa_alloc(sizeof(double) * (size_t)(n + 1));
    fa_dd end[2] = {{0.0, 0.0}, {0.0, 0.0}}, mu2 = {0.0, 0.0}; /* 50,000 different Gaussians lose no digit */
    e->symmetric = 1;
    e->total = 0.0;
    e->pairs = counts ? fa_alloc(sizeof(fa_pair) * 2 * (size_t)(n + 1)) : NULL;
    if (!e->pairs || !fa_job_data(e, job, end)) {
        free(counts);
        return 0;
    }
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
        e->symmetric &= fa_job_pairs(sigma, n_p, n_q, weight, mean, pair[0], pair[1]);
        for (d = 0; d < 2; d++)
            e->end_off[d] = fa_pair_grows(pair[d]) ? 0.0 : e->end_off[d]; /* infinite, whatever the others are */
        for (d = 0; d < 2; d++)
            end[d] = fa_pair_grows(pair[d]) || !(end[d].hi < INFINITY) ? fa_dd_make(INFINITY, 0.0)
                                                                       : fa_dd_add_d(end[d], count * pair[d]->kappa);
        e->total += count;
        counts[used++] = count;
    }
    for (d = 0; d < 2; d++) {
        e->end[d] = lone ? INFINITY : end[d].hi;
        e->end_off[d] = lone ? 0.0 : e->end_off[d];
    }
    e->mu2 = lone ? fa_max(mu2.hi, 1e-306) : mu2.hi; /* more than nothing */
    memmove(e->pairs + used, e->pairs + n, sizeof(fa_pair) * (size_t)used);
    e->n_blocks = used;
    e->symmetric &= !e->n_data || job->mirrored;
    e->only_gaussian = used == 0 && lone && !e->n_data;
    fa_job_capped(e, counts, job->times);
    e->apart = fa_job_apart(e, counts);
    free(counts);
    return used > 0 || lone || e->n_data;
}

/* whether the job is one step, for which there is a closed form */
FA_INLINE int fa_is_one_step(const fa_exact *e)
{
    return e->n_blocks == 1 && e->n_data == 0 && e->total == 1.0 && e->mu2 == 0.0;
}

/* whether a direction may have the line next to its largest loss, and asks it first */
FA_INLINE int fa_may_be_walled(const fa_cap_job *job)
{
    return job->is_add && job->mu2 == 0.0 && job->data == 0 && (job->steps <= FA_WALL_STEPS || fa_cap_sees_end(job));
}

/* Of groups noise is in units of a member, and by itself says whether the end is near */
FA_INLINE int fa_walled_first(const fa_cap_job *job)
{
    const fa_pair *pair = job->n == 1 ? job->blocks->pair : NULL;
    if (pair && job->mixtures && pair->lattice > 1.0)
        return fa_may_be_walled(job) && pair->sigma * pair->lattice < FA_WALL_GROUP;
    return fa_may_be_walled(job) && (job->n > 1 || job->steps * job->blocks[0].sigma <= FA_WALL_NEAR ||
                                     job->least * job->least < FA_WALL_NEAR * job->variance);
}

/* which of both lines a direction is asked by */
FA_FUNC void fa_set_wall(fa_cap_work *work, int walled)
{
    int b;
    if (work->job.walled == walled)
        return;
    work->job.walled = walled;
    work->anchor = work->near = work->none = work->unit = 0.0;
    for (b = 0; b < work->job.n; b++) {
        work->job.blocks[b].walled = 0;
        work->job.blocks[b].deep = 0.0;
    }
}

/* Whether eps at log_delta is next to the largest loss: with eta = `near` of it, delta there is at least (1 -
 * e^(-eta/2)) times the chance that no step brings more than eta/2 over their number beyond its least */
FA_FUNC int fa_is_at_end(const fa_exact *e, int way, double log_delta, double near, fa_interval *out)
{
    const fa_cap_job *job = &e->capped[way].job;
    double end = e->end[way], eta = near * end, chance = 0.0;
    int b;
    if (!(job->n > 0) || job->data > 0 || !job->is_add || !(end > 1e-290) || !(end < INFINITY))
        return 0;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        double z = fa_cap_z(block, 0.499999 * eta / job->steps + block->kappa);
        chance += block->steps * fa_log_tail(-z / block->sigma);
    }
    if (!(log(-expm1(-0.5 * eta)) + chance * (1.0 + 1e-9) - 1e-9 > log_delta + e->off))
        return 0;
    *out = fa_share(*out, (fa_interval){end * (1.0 - near - 8.0 * FA_EPS), end * (1.0 + 8.0 * FA_EPS)});
    return 1;
}

/* whether an interval of log delta is narrow; -inf on both sides is not */
FA_INLINE int fa_is_narrow(fa_interval r) { return r.upper - r.lower <= FA_NARROW; }

/* eps by the capped line */
FA_INLINE int fa_capped_eps(fa_cap_work *capped, double log_delta, fa_interval *out)
{
    const fa_cap_job *job = &capped->job;
    if (fa_cap_is_shared(job) && !fa_cap_is_seldom(job))
        return fa_cap_eps_anchored(capped, log_delta, out);
    return job->data + job->mixtures > 0 && !job->walled ? fa_cap_eps_near(capped, log_delta, out)
                                                         : fa_cap_eps(capped, log_delta, out);
}

/* log delta by the capped line, and its slope */
FA_INLINE int fa_capped_log_delta(const fa_exact *e, fa_cap_work *capped, double eps, fa_interval *out,
                                  double *slope_out)
{
    return e->is_shared ? fa_cap_log_delta_shared(capped, eps, out, slope_out)
                        : fa_cap_log_delta(capped, eps, 0.0, out, slope_out);
}

/* whether eps of direction add is at most `eps`, of losses that are data, by one line: where both are near, it need not
 * be as good as an answer */
FA_FUNC int fa_add_is_soon_below(fa_exact *e, double eps, double log_delta)
{
    fa_cap_work *work = e->capped + 1;
    return e->n_data > 0 && eps < INFINITY && work->job.n > 0 && !fa_is_one_step(e) &&
           !(fa_flat_is_for(&work->job) && fa_flat_is_first(&work->job)) &&
           fa_cap_is_below(work, log_delta, eps);
}

#endif
