/* drawn.h -- random capped lines, drawn so coarsely that the bounds of their ledgers matter, and comparisons. */
#include "law.h"
#include "../parts/once.h"

enum { SAMPLED, FEW, ADDED, WALLED, GROUP, REPLACED, ADDED_GROUP, NEAR_ONE, OUTWEIGHED };

typedef struct {
    double rate, noise, steps, log_delta, eps;
    int kind, records, starved, floor;
} cell;

typedef struct {
    cell at;
    law law;
    fa_pair pair;
    fa_cap_work work;
    fa_cap_reading r;
    fa_cap_ledger g;
    fa_cap_effort effort;
    fa_cap_block *b;
    fa_cap_plan *p;
    ld shift, own_shift; /* of the losses on the nodes, from kappa, and from what the kernel has for it */
    double c, t, tilt;
} drawn;

#define NAMES 40
static const char *names[NAMES];
static long count[NAMES], broken[NAMES];
static double most[NAMES];

/* what is measured is at most the bound; what is no number is not compared.  `least`: what 80 bits themselves miss */
static void compare(const drawn *d, const char *name, ld measured, ld bound, ld least)
{
    const cell *a = &d->at;
    int i;
    double share;
    if (!(measured == measured) || !(bound < INFINITY) || !isfinite((double)measured))
        return;
    for (i = 0; i < NAMES - 1 && names[i] && strcmp(names[i], name); i++)
        continue;
    names[i] = name;
    count[i]++;
    share = measured <= least ? 0.0 : bound > 0.0L ? (double)((measured - least) / bound) : INFINITY;
    most[i] = share > most[i] ? share : most[i];
    if (share > 1.0 && broken[i]++ < 3)
        printf("# %s: %.3Lg > %.3Lg  kind %d rate %.17g noise %.17g steps %.17g log_delta %.17g starved %d floor %d"
               " records %d\n",
               name, measured, bound, a->kind, a->rate, a->noise, a->steps, a->log_delta, a->starved, a->floor,
               a->records);
}

/* ... of that kind; the last kind is two cells: where at the floor's point exp(v l) outweighs the cap's window, and
 * where the sum of small losses feels the node at which it is cut off */
static cell random_cell(int kind)
{
    static const cell outweighed[] = {{0.016652412988971767, 2.1613308575307149, 14.0, -11.285170793136064, 0.0,
                                       GROUP,                4,                  2,    1},
                                      {0.00021884100376715537, 1.1446594865943927, 2.0, -37.339483533471011, 0.0,
                                       SAMPLED,                0,                  2,   1}};
    static int next;
    static const double noise[][2] = {{0.4, 8.0}, {0.35, 1.5}, {0.8, 6.0}, {0.4, 2.0}, {0.5, 5.0}, {0.6, 5.0}, {0.8, 9},
                                      {0.7, 40}, {1, 1}},
                        rate[][2] = {{1e-4, 0.3}, {1e-5, 0.02}, {1e-3, 0.1}, {1e-3, 0.4}, {1e-4, 0.1}, {1e-4, 0.1},
                                     {1e-3, 0.3}, {1e-6, 0.1}, {0.1, 0.1}},
                        steps[][2] = {{2, 2e4}, {2, 5e3}, {20, 3e4}, {2, 12}, {2, 3e3}, {2, 3e3}, {2, 3e3}, {2, 200}, {2, 2}};
    cell out = {between(rate[kind][0], rate[kind][1]), between(noise[kind][0], noise[kind][1]),
                floor(between(steps[kind][0], steps[kind][1])), uniform(-30.0, -4.0), 0.0, kind, 0, 0, 0};
    if (kind == NEAR_ONE)
        out.rate = 1.0 - out.rate;
    if (kind == OUTWEIGHED)
        return outweighed[next++ % 2];
    out.records = kind == GROUP || kind == ADDED_GROUP ? 1 + (int)uniform(1.0, kind == GROUP ? 4.0 : 7.0)
                                                       : kind == REPLACED ? -1 : 0;
    out.starved = (int)uniform(0.0, 6.0);
    out.floor = kind == WALLED || kind == FEW || uniform(0.0, 1.0) < 0.3;
    return out;
}

/* budgets that starve one part of the ledger */
static fa_cap_effort effort_of(const cell *a)
{
    fa_cap_effort e = fa_cap_usual_effort();
    if (a->starved == 1 || a->starved == 2) { /* quadrature alone */
        e.need = a->starved == 1 ? 4.0 : 9.0;
        e.left = 12.0;
    }
    if (a->starved == 3)
        e.left = uniform(1.0, 4.0);
    if (a->kind == WALLED && a->starved == 4) /* floors next to the caps */
        e.tolerance = uniform(1.0, 8.0);
    if (a->starved == 5) {
        e.left = 12.0;
        e.right = uniform(1.0, 3.0);
    }
    if (a->starved == 4) {
        e.cap_ratio = 1.05;
        e.cap_back = 0.1;
    }
    return e;
}

/* the job of a cell */
static int job_of(drawn *d)
{
    fa_cap_job *job = &d->work.job;
    const cell *a = &d->at;
    double weight[9], mean[9], other[2] = {1.0 - a->rate, a->rate}, other_mean[2] = {0.0, -1.0};
    int i, k = a->records < 1 ? 1 : a->records;
    if (!fa_cap_job_clear(job, 1))
        return 0;
    d->law = law_of(a->noise, a->rate, a->records);
    if (a->records == 0)
        fa_cap_job_add(job, a->noise, a->rate, a->steps);
    else {
        for (i = 0; i <= k; i++) {
            mean[i] = i;
            weight[i] = (double)d->law.p[i];
        }
        other[0] = a->records < 0 ? other[0] : 1.0;
        fa_pair_mixture(&d->pair, a->noise, k + 1, weight, mean, a->records < 0 ? 2 : 1, other, other_mean);
        fa_cap_job_add_pair(job, &d->pair, a->steps);
    }
    job->is_add = a->kind == ADDED || a->kind == WALLED || a->kind == ADDED_GROUP || a->kind == NEAR_ONE;
    job->walled = a->kind == WALLED;
    return 1;
}

/* a line for the cell's delta.  0: none */
static int draw(drawn *d)
{
    fa_cap_effort usual = fa_cap_usual_effort();
    fa_cap_saddle at;
    double eps;
    ld z, l, weight;
    if (!job_of(d) || !fa_cap_place_delta(&d->work.job, &usual, d->at.log_delta, &eps, &at) || !job_of(d))
        return 0;
    d->at.eps = eps;
    d->effort = effort_of(&d->at);
    if (!read_once(&d->work, eps, &d->effort, d->at.floor, &d->r, &d->g))
        return 0;
    d->b = d->work.job.blocks;
    d->p = &d->work.line.plan;
    d->c = d->p->c;
    d->tilt = d->p->tilt;
    d->t = d->work.line.n * d->p->h;
    d->shift = d->b->nodes.mean - d->law.kappa;
    d->own_shift = (ld)d->b->nodes.mean - d->b->kappa;
    if (d->b->walled) { /* losses come with as many digits as what is taken from them */
        node(&d->law, d->b, 0, &z, &l, &weight);
        d->own_shift = l - d->b->nodes.sum.lr[0];
    }
    return 1;
}
