/* line/capped_eps.h -- certified eps(delta) from a capped line: one of its own, or one that all targets near it share;
 * certified delta(eps) from one that is shared.
 */
#ifndef FA_LINE_CAPPED_EPS_H
#define FA_LINE_CAPPED_EPS_H

#include "capped_read.h"

/* lines are drawn for whole powers of 1/10: for every third, every second or every one ... */
#define FA_CAP_TEN     2.30258509299404568402
#define FA_CAP_SPARE   2.0 /* ... the former with so much of their tolerance to spare (quadrature: a quarter of it) */
#define FA_CAP_CALM    1.2 /* noise from which on it is every third: below, one step's loss moves epsilon further ... */
#define FA_CAP_JUMPY   0.8 /* ... and below this every one, but for more than so many mechanisms: */
#define FA_CAP_SEVERAL 8
#define FA_CAP_SHARED  0.99 /* expected participations from which all targets near a round one share a line */
#define FA_CAP_WIDE    1e-6 /* width of delta from which on it is loose, whatever the line */

/* what a line is drawn for: how small its errors are to be, from which width of eps on it is drawn once more, how near
 * its target, in log delta, its ledger may be closed, and where bounds of eps are kept before it is drawn once more, or
 * NULL */
typedef struct {
    fa_cap_effort effort;
    double good, near;
    fa_interval *kept;
} fa_cap_aim;

/* From eps, where a line is drawn, to where it reads log_delta, unless it is `near` that already.  2: the line serves;
 * 1: it was drawn too far from there, unless that is the `last` time, or Newton's method does not end; 0: no reading,
 * or eps may be 0 */
FA_FUNC int fa_cap_go_near(const fa_cap_job *job, const fa_cap_line *line, double log_delta, double near, int last,
                           double eps, fa_cap_answer *a)
{
    double step;
    a->eps = eps;
    a->r = fa_cap_read(job, line, eps);
    if (!(a->r.slope < 0.0)) { /* delta is far below what was expected there */
        a->eps = 0.7 * eps;
        return !last;
    }
    if (fabs(a->r.log_value - log_delta) < near)
        return 2;
    step = fa_cap_stride(&a->r, (log_delta - a->r.log_value) / a->r.slope);
    if (!fa_cap_newton(job, line, log_delta, &a->eps, &a->r)) {
        a->eps = eps + step;
        return (job->data && a->eps > 0.3 * eps) || fa_cap_read(job, line, 0.0).log_value > log_delta;
    }
    a->r = fa_cap_read(job, line, a->eps);
    return last || (a->eps > 0.8 * eps && a->eps < 1.05 * eps && fabs(a->eps - eps) * (line->plan.c - 1.0) < 2.0) ? 2
                                                                                                                  : 1;
}

/* the ledger of an answer at another eps, delta there about exp(log_value): every entry has its own rate */
FA_FUNC fa_cap_ledger fa_cap_move_ledger(const fa_cap_work *work, const fa_cap_answer *a, double eps, double log_value)
{
    fa_cap_ledger g = a->g;
    const fa_cap_plan *p = &work->line.plan;
    double by = eps - a->eps, value = log_value - a->r.log_value, line = exp(-(p->c - 1.0) * by - value), both;
    g.tail *= line;
    g.quadrature *= line;
    g.rounding *= line * fa_max(1.0, eps / a->eps);
    g.put *= exp(g.put_rate * by - value);
    g.rare *= exp(by - value);
    g.floor *= exp(
        fa_max(work->job.walled ? p->low * by : -(p->low - 1.0) * by, p->is_bare ? -(p->right - 1.0) * by : -INFINITY) -
        value);
    if (work->job.walled)
        g.put = fa_cap_wall_lost(&work->job, eps, log_value);
    g.alias *= exp(fa_max(-(p->left - 1.0) * by, -(p->right - 1.0) * by) - value);
    g.closed = fa_cap_closed_error(&work->job, eps, log_value);
    both = g.tail + g.quadrature + g.rounding + g.closed + 8.0 * FA_EPS * (4.0 + fabs(log_value));
    g.up = both + g.put + g.rare + g.floor;
    g.down = both + g.alias;
    if (!(g.up < INFINITY) || !(g.down < INFINITY))
        g.up = g.down = INFINITY;
    return g;
}

/* eps at log delta from the line that has settled.  0: not certified to `good`, *out is untouched */
FA_FUNC int fa_cap_eps_on(fa_cap_work *work, const fa_cap_answer *a, double log_delta, double good, fa_interval *out)
{
    double eps = a->eps;
    fa_cap_ledger g;
    fa_cap_reading r = a->r;
    if (!(eps > 0.0) || !fa_cap_newton(&work->job, &work->line, log_delta, &eps, &r) || !(eps > 0.0))
        return 0;
    g = fa_cap_move_ledger(work, a, eps, log_delta);
    return g.up + g.down < good * -r.slope * eps &&
           fa_cap_ends_of(&work->job, &work->line, log_delta, eps, &r, &g, out);
}

/* a line near eps(delta), its reading there, and its ledger; 0: none */
FA_FUNC int fa_cap_settle(fa_cap_work *work, double log_delta, const fa_cap_aim *aim, fa_cap_answer *a)
{
    fa_cap_job *job = &work->job;
    fa_cap_line *line = &work->line;
    fa_cap_effort effort = aim->effort;
    fa_cap_saddle at;
    fa_interval found;
    double eps, size, width, before = INFINITY;
    int round, near, harder = 0, with_floor = fa_cap_is_near_wall(job);
    line->reach = 0.0;
    if (!fa_cap_place_delta(job, &effort, log_delta, &eps, &at))
        return 0;
    size = at.log_size;
    width = fa_max(0.0, fa_min(1.0, log(-at.slope * eps) - 0.3));
    effort.tolerance -= width;
    effort.dead -= width;
    effort.need -= width;
    for (round = 0; round < 8; round++) {
        double wanted = round == 0 || harder > 0 ? log_delta : NAN;
        if (!fa_cap_draw(job, line, &at, &eps, fa_min(-1e-3, size), wanted, effort, &with_floor))
            return 0;
        near = fa_cap_go_near(job, line, log_delta, aim->near, harder > 0, eps, a);
        if (!near)
            return 0;
        if (near == 2) {
            if (!fa_cap_close(job, line, &effort, a->eps, &a->r, &a->g))
                return 0;
            width = 1.0 / (-a->r.slope * a->eps);
            if (harder == 2 || (a->g.up + a->g.down) * width < fa_max(aim->good, fa_cap_good(job)) ||
                (job->data > 0 && (a->g.up + a->g.down > 0.9 * before ||
                                   (harder > 0 && a->g.rounding > 0.4 * (a->g.up + a->g.down))))) /* no more to gain */
                return a->r.slope < 0.0;
            before = a->g.up + a->g.down;
            if (aim->kept && fa_cap_eps_on(work, a, log_delta, INFINITY, &found))
                *aim->kept = fa_share(*aim->kept, found);
            fa_cap_try_harder(&effort, &a->g, width);
            harder++;
        }
        size = log_delta;
        eps = a->eps;
        if (!(eps > 0.0) || !fa_cap_place(job, &effort, eps, harder > 0 ? line->plan.c : at.v, &at))
            return 0;
    }
    return 0;
}

/* eps at log delta, from a line of its own.  0: not certified, *out is untouched */
FA_FUNC int fa_cap_eps(fa_cap_work *work, double log_delta, fa_interval *out)
{
    fa_interval kept = {0.0, INFINITY}, found;
    fa_cap_aim aim = {fa_cap_usual_effort(), FA_CAP_WIDTH, 0.0, &kept};
    fa_cap_answer a = {0};
    fa_caps next;
    double above;
    work->anchor = work->near = 0.0;
    for (;; aim.effort.caps = fa_cap_next_caps(&work->job, &aim.effort)) {
        double fine = aim.effort.caps == FA_CAPS_NONE ? FA_CAP_DEAR_WIDTH : FA_CAP_FINE;
        if (kept.upper < INFINITY && kept.upper - kept.lower <= fine * kept.upper)
            break;
        work->certified = fa_cap_settle(work, log_delta, &aim, &a) &&
                          fa_cap_eps_on(work, &a, log_delta, INFINITY, &found);
        work->own = a;
        work->own.eps *= work->certified;
        if (work->certified)
            kept = fa_share(kept, found);
        next = fa_cap_next_caps(&work->job, &aim.effort);
        if (next == FA_CAPS_USUAL || (next != FA_CAPS_NONE && a.g.put > 0.5 * a.g.up)) /* lower caps leave more to it */
            break;
    }
    if (kept.upper < INFINITY) {
        *out = kept;
        return 1;
    }
    above = a.r.log_value - a.r.slope * a.eps - log_delta; /* of delta(0), about */
    if (work->job.mixtures && a.eps > 0.0 && above > 0.01 && above < 1.0)
        return 0;
    if (!fa_cap_is_free(work, log_delta - work->job.off))
        return 0;
    out->lower = out->upper = 0.0;
    return 1;
}

/* The line that serves all targets near log_delta: drawn for a whole power of 1/10.  It is the same one whatever was
 * asked before */
FA_FUNC void fa_cap_anchor_line(fa_cap_work *work, double log_delta)
{
    fa_cap_aim aim = {fa_cap_usual_effort(), FA_CAP_WIDTH, FA_CAP_CLOSE, NULL};
    double least = INFINITY, apart = 1.0, odd, anchor;
    int b;
    for (b = 0; b < work->job.n; b++)
        least = fa_min(least, work->job.blocks[b].sigma);
    if (least >= FA_CAP_JUMPY || work->job.n > FA_CAP_SEVERAL) {
        apart *= least >= FA_CAP_CALM ? 3.0 : 2.0;
        aim.effort.tolerance += FA_CAP_SPARE;
        aim.effort.need += 0.25 * FA_CAP_SPARE;
    }
    odd = apart == 2.0 ? 1.0 : 0.0; /* odd powers: 1e-5, 1e-7 and 1e-9; no power stands half way between two */
    anchor = apart * floor((log_delta / FA_CAP_TEN + odd) / apart + 0.45) - odd;
    anchor = FA_CAP_TEN * fa_min(anchor, odd - apart);
    if (work->anchor == anchor)
        return;
    work->anchor = work->near = 0.0;
    if (!fa_cap_settle(work, anchor, &aim, &work->anchored))
        work->anchored.eps = 0.0;
    work->anchor = anchor;
}

/* whether all targets near a round one share a line: not where hardly any record takes part in one mechanism, and a
 * line serves one target */
FA_INLINE int fa_cap_is_shared(const fa_cap_job *job)
{
    return !job->walled && (job->n > 1 || job->mu2 > 0.0 || job->steps * job->blocks[0].q >= FA_CAP_SHARED);
}

/* whether steps of one loss that is data hardly ever take part: as there, a line serves one target */
FA_INLINE int fa_cap_is_seldom(const fa_cap_job *job)
{
    return job->n == 1 && job->data == 1 && !(job->mu2 > 0.0) &&
           job->steps * fa_pieces_taken(job->blocks->pieces) < FA_CAP_SHARED;
}

/* the width of eps on a line that is there, up to which no other one is drawn */
FA_INLINE double fa_cap_enough(const fa_cap_job *job)
{
    return job->curves > 0 ? 0.4 * FA_CAP_WIDE : FA_CAP_FINE;
}

/* log delta rounded so far that what is left out or rounded of a job does not change it: one line does */
FA_INLINE double fa_cap_round_target(double log_delta) { return floor(log_delta * 0x1p24 + 0.5) * 0x1p-24; }

/* eps at log delta from a line drawn for that, rounded.  0: not certified, *out is untouched */
FA_FUNC int fa_cap_eps_near(fa_cap_work *work, double log_delta, fa_interval *out)
{
    double at = fa_cap_round_target(log_delta);
    fa_interval there;
    if (work->near != at && at < 0.0) {
        (void)fa_cap_eps(work, at, &there);
        work->near = at;
        if (!(work->own.eps > 0.0) || !fa_cap_eps_on(work, &work->own, at, fa_cap_enough(&work->job), &there))
            work->own.eps = 0.0;
    }
    if (at < 0.0 && work->own.eps > 0.0 && fa_cap_eps_on(work, &work->own, log_delta, INFINITY, out))
        return work->certified = 1;
    return fa_cap_eps(work, log_delta, out);
}

#define FA_CAP_ABOUT 0.4 /* relative distance of eps from where a line stands, from which on it is drawn anew */

/* eps at log delta about, which may be `near`, by lines of which nothing is certified; 0: none says it */
FA_FUNC double fa_cap_eps_about(fa_cap_work *work, double log_delta, double near)
{
    fa_cap_job *job = &work->job;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_answer a = {0};
    fa_cap_saddle at;
    double eps = near;
    int round, placed, with_floor = fa_cap_is_near_wall(job);
    work->anchor = work->near = work->line.reach = 0.0;
    work->certified = 0;
    effort.is_about = 1;
    job->deepest = fa_cap_deepest(job, log_delta);
    placed = fa_cap_place(job, &effort, near, 0.0, &at);
    if (!placed || !(fabs(at.log_size - log_delta) < -FA_CAP_ABOUT * at.slope * near))
        placed = fa_cap_place_delta(job, &effort, log_delta, &eps, &at);
    for (round = 0; round < 4 && placed; round++) {
        if (!fa_cap_draw(job, &work->line, &at, &eps, fa_min(-1e-3, at.log_size), NAN, effort, &with_floor) ||
            !fa_cap_go_near(job, &work->line, log_delta, 0.0, 1, eps, &a))
            return 0.0;
        if (fabs(a.eps - eps) < FA_CAP_ABOUT * eps)
            return a.eps;
        eps = a.eps;
        placed = eps > 0.0 && fa_cap_place(job, &effort, eps, at.v, &at);
    }
    return 0.0;
}

/* whether eps at log delta is at most `eps`, by a line drawn for that, rounded, as good as it is at once */
FA_FUNC int fa_cap_is_below(fa_cap_work *work, double log_delta, double eps)
{
    const fa_cap_aim aim = {fa_cap_usual_effort(), INFINITY, 0.0, NULL};
    double at = fa_cap_round_target(log_delta);
    fa_interval found;
    if (!(at < 0.0))
        return 0;
    if (work->near != -at) {
        work->anchor = 0.0;
        if (!fa_cap_settle(work, at, &aim, &work->own))
            work->own.eps = 0.0;
        work->near = -at;
    }
    return work->own.eps > 0.0 && fa_cap_eps_on(work, &work->own, log_delta, INFINITY, &found) && found.upper <= eps;
}

/* eps at log delta from the line that serves all targets near it, else from one of its own; of losses that are data
 * that one serves targets that are the same when rounded, and the rounded one says which.  0: not certified, *out is
 * untouched */
FA_FUNC int fa_cap_eps_anchored(fa_cap_work *work, double log_delta, fa_interval *out)
{
    const int is_data = work->job.data > 0;
    const double at = is_data ? fa_cap_round_target(log_delta) : log_delta;
    work->certified = 0;
    if (is_data && work->near == at)
        return fa_cap_eps_near(work, log_delta, out);
    fa_cap_anchor_line(work, at);
    if (!fa_cap_eps_on(work, &work->anchored, at,
                       fa_max(0.1 * fa_cap_enough(&work->job), fa_cap_good(&work->job)), out))
        return is_data ? fa_cap_eps_near(work, log_delta, out) : fa_cap_eps(work, log_delta, out);
    if (at == log_delta || fa_cap_eps_on(work, &work->anchored, log_delta, INFINITY, out))
        return work->certified = 1;
    return fa_cap_eps(work, log_delta, out);
}

#define FA_WALL_UNIT 0.15 /* of what is left to the largest loss, a unit */

/* about half a deviation of the losses, a power of two: of losses that are data under P, which few large ones hardly
 * move; found once */
FA_FUNC double fa_cap_unit(fa_cap_work *work)
{
    fa_cap_job *job = &work->job;
    fa_cap_effort effort = fa_cap_usual_effort();
    double most = job->variance + job->mu2, mean, variance;
    if (work->unit > 0.0)
        return work->unit;
    if (job->data > 0 && fa_cap_bulk(job, &effort, &mean, &variance) && variance > 0.0)
        most = fa_min(most, variance);
    return work->unit = exp2(floor(log2(0.7 * sqrt(most))));
}

/* the same at eps: right of the bulk a loss of one step is what counts, and twice as far out twice as long a unit
 * serves, up to half a deviation of that.  Next to a largest loss logarithms fall over a share of what is left to it */
FA_FUNC double fa_cap_unit_at(fa_cap_work *work, double eps)
{
    const fa_cap_job *job = &work->job;
    double unit = fa_cap_unit(work), most = INFINITY, left = -job->least - eps;
    int b;
    if (job->walled && left > 0.0)
        return fa_min(unit, exp2(floor(log2(FA_WALL_UNIT * left))));
    for (b = 0; b < job->n; b++)
        most = fa_min(most, 0.5 / job->blocks[b].sigma);
    if (job->data || !(eps > 8.0 * unit) || !(most > unit))
        return unit;
    return exp2(floor(log2(fa_min(most, 0.125 * eps))));
}

/* whether a line that has been drawn for another eps says enough, its ledger moved to g: where its own errors are more
 * than what is good, and no more work makes them less, a line drawn for this eps would hardly say more */
FA_FUNC int fa_cap_serves(const fa_cap_work *work, const fa_cap_ledger *g)
{
    double own = work->anchored.g.up + work->anchored.g.down, good = fa_cap_good(&work->job);
    if (own > (work->job.data > 0 ? FA_CAP_FINE : 0.5 * good))
        good = fa_max(good, own < FA_CAP_WIDE ? fa_min(3.0 * own, 0.9 * FA_CAP_WIDE) : 1.5 * own);
    return g->up + g->down < good;
}

/* log delta at eps from the line that serves all targets about an odd multiple of half a deviation of the losses, or of
 * about so much, else from one of its own.  0: not certified, *out is untouched */
FA_FUNC int fa_cap_log_delta_shared(fa_cap_work *work, double eps, fa_interval *out, double *slope_out)
{
    double unit = fa_cap_unit_at(work, eps), anchor = unit * (floor(eps / unit) + 0.5), pad;
    fa_cap_answer *a = &work->anchored;
    fa_cap_reading r;
    fa_cap_ledger g;
    if ((work->job.data && !fa_cap_is_shared(&work->job)) || !(anchor < INFINITY) || work->none == anchor)
        return fa_cap_log_delta(work, eps, 0.0, out, slope_out);
    if (work->anchor != anchor)
        (void)fa_cap_log_delta(work, anchor, FA_CAP_SPARE, &(fa_interval){0.0, 0.0}, slope_out);
    work->anchor = anchor;
    if (!(a->eps == anchor && a->g.up + a->g.down < (work->job.data > 0 ? 0.1 : 0.3 * FA_CAP_WIDE))) {
        work->none = anchor;
        return fa_cap_log_delta(work, eps, 0.0, out, slope_out);
    }
    r = fa_cap_read(&work->job, &work->line, eps);
    if (r.log_value == r.log_value) {
        g = fa_cap_move_ledger(work, a, eps, r.log_value);
        if (fa_cap_serves(work, &g)) {
            pad = 8.0 * FA_EPS * (1.0 + fabs(r.log_value));
            *out = (fa_interval){r.log_value + log1p(-g.down) - pad, r.log_value + log1p(g.up) + pad};
            *slope_out = r.slope;
            return work->certified = 1;
        }
    }
    return fa_cap_log_delta(work, eps, 0.0, out, slope_out);
}

#endif
