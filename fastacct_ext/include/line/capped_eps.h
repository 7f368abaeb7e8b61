/* line/capped_eps.h -- certified eps(delta) from a capped line: one of its own, or one that all targets near it share.
 */
#ifndef FA_LINE_CAPPED_EPS_H
#define FA_LINE_CAPPED_EPS_H

#include "capped_read.h"

/* lines are drawn for whole powers of 1/10, or for every third of them ... */
#define FA_CAP_TEN   2.30258509299404568402
#define FA_CAP_SPARE 2.0 /* ... with so much of their tolerance to spare, and a quarter of it of the quadrature's */
#define FA_CAP_NEAR  0.7 /* a line that is so near its target, in log delta, is near enough */
#define FA_CAP_JUMPY 0.8 /* noise below which epsilon moves too far for that: one step's loss makes it */

/* what a line is drawn for: how small its errors are to be, from which width of eps on it is drawn once more, and how
 * near its target, in log delta, its ledger may be closed */
typedef struct {
    fa_cap_effort effort;
    double good, near;
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
    if (!(a->r.slope < 0.0))
        return 0;
    if (fabs(a->r.log_value - log_delta) < near)
        return 2;
    step = fa_max(-0.5 * eps, fa_min(0.5 * eps, (log_delta - a->r.log_value) / a->r.slope));
    if (!fa_cap_newton(job, line, log_delta, &a->eps, &a->r)) {
        a->eps = eps + step;
        return fa_cap_read(job, line, 0.0).log_value > log_delta;
    }
    return last || (a->eps > 0.8 * eps && a->eps < 1.05 * eps && fabs(a->eps - eps) * (line->plan.c - 1.0) < 2.0) ? 2
                                                                                                                  : 1;
}

/* a line near eps(delta), its reading there, and its ledger; 0: none */
FA_FUNC int fa_cap_settle(fa_cap_work *work, double log_delta, const fa_cap_aim *aim, fa_cap_answer *a)
{
    fa_cap_job *job = &work->job;
    fa_cap_line *line = &work->line;
    fa_cap_effort effort = aim->effort;
    fa_cap_saddle at;
    double eps, size, width;
    int round, near, harder = 0, with_floor = 0;
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
            if (harder == 2 || (a->g.up + a->g.down) * width < aim->good)
                return a->r.slope < 0.0;
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
    g.floor *= exp(fa_max(-(p->low - 1.0) * by, p->is_bare ? -(p->right - 1.0) * by : -INFINITY) - value);
    g.alias *= exp(fa_max(-(p->left - 1.0) * by, -(p->right - 1.0) * by) - value);
    g.closed = fa_cap_closed_part(&work->job, eps, log_value).error;
    both = g.tail + g.quadrature + g.rounding + g.closed + 8.0 * FA_EPS * (4.0 + fabs(log_value));
    g.up = both + g.put + g.floor;
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
    fa_cap_reading r;
    if (!(eps > 0.0) || !fa_cap_newton(&work->job, &work->line, log_delta, &eps, &r) || !(eps > 0.0))
        return 0;
    g = fa_cap_move_ledger(work, a, eps, r.log_value);
    return g.up + g.down < good * -r.slope * eps &&
           fa_cap_ends_of(&work->job, &work->line, log_delta, eps, &r, &g, out);
}

/* eps at log delta, from a line of its own.  0: not certified, *out is untouched */
FA_FUNC int fa_cap_eps(fa_cap_work *work, double log_delta, fa_interval *out)
{
    fa_cap_aim aim = {fa_cap_usual_effort(), FA_CAP_WIDTH, 0.0};
    fa_cap_answer a;
    work->anchor = 0.0;
    work->certified = 0;
    if (fa_cap_settle(work, log_delta, &aim, &a) && fa_cap_eps_on(work, &a, log_delta, INFINITY, out))
        return work->certified = 1;
    if (!fa_cap_is_free(work, log_delta))
        return 0;
    out->lower = out->upper = 0.0;
    return 1;
}

/* The line that serves all targets near log_delta: drawn for a whole power of 1/10, for every third one where no single
 * step makes the loss.  It is the same one whatever was asked before.  */
FA_FUNC void fa_cap_anchor_line(fa_cap_work *work, double log_delta)
{
    fa_cap_aim aim = {fa_cap_usual_effort(), FA_CAP_WIDTH, FA_CAP_NEAR};
    double least = INFINITY, apart = FA_CAP_TEN, anchor;
    int b;
    for (b = 0; b < work->job.n; b++)
        least = fa_min(least, work->job.blocks[b].sigma);
    if (least >= FA_CAP_JUMPY) {
        apart *= 3.0;
        aim.effort.tolerance += FA_CAP_SPARE;
        aim.effort.need += 0.25 * FA_CAP_SPARE;
    }
    anchor = fa_min(floor(log_delta / apart + 0.5), -1.0) * apart;
    if (work->anchor == anchor)
        return;
    work->anchor = 0.0;
    if (!fa_cap_settle(work, anchor, &aim, &work->anchored))
        work->anchored.eps = 0.0;
    work->anchor = anchor;
}

/* eps at log delta from the line that serves all targets near it, else from one of its own.  0: not certified, *out is
 * untouched */
FA_FUNC int fa_cap_eps_anchored(fa_cap_work *work, double log_delta, fa_interval *out)
{
    work->certified = 0;
    fa_cap_anchor_line(work, log_delta);
    if (fa_cap_eps_on(work, &work->anchored, log_delta, FA_CAP_WIDTH, out))
        return work->certified = 1;
    return fa_cap_eps(work, log_delta, out);
}

#endif
