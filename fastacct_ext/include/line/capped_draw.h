/* line/capped_draw.h -- drawing a capped line: how far it goes, with or without a floor, or with no points at all.
 *
 * As in line/capped_place.h any choice is valid; the ledger bounds what it leaves out.
 */
#ifndef FA_LINE_CAPPED_DRAW_H
#define FA_LINE_CAPPED_DRAW_H

#include "capped_step.h"

#define FA_CAP_DEEP  1e120 /* 1/|B0| at the first point, which falls further: its square is to stay a normal number */
#define FA_CAP_LATE  1.4
#define FA_CAP_NOISE 16.0  /* how far above dead rounding may hold |F| t; the ledger decides whether it matters */

/* whether doubles hold F and the moment of every step, the square of its modulus included, at the first point, where
 * they are largest */
FA_FUNC int fa_cap_is_held(const fa_cap_job *job, const fa_cap_line *line)
{
    int b, held = line->log_f[0] < 500.0;
    for (b = 0; b < job->n; b++)
        held = held && job->blocks[b].inverse[0] > 1e-130 && job->blocks[b].inverse[0] < FA_CAP_DEEP;
    return held;
}

/* whether a short line is looked at after so many points: it is given up where |F| falls so slowly that it would end
 * beyond FA_CAP_LATE times its limit */
FA_INLINE int fa_cap_is_look(int points) { return points == 32 || points == 64 || points == 128; }

/* points until |F| t is dead, or as dead as rounding lets it be where the tail's majorant ends.  1: done; 0: given up;
 * 2: further than the nodes are made for, *t_out is where to */
FA_FUNC int fa_cap_run_points(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, int found, double *t_out)
{
    double h = line->plan.h, dead = -effort->dead, pairs = 0.0,
           most = found ? 2.0 + line->reach / h : INFINITY; /* further out nodes may be bad */
    int k, b, limit = effort->points, width = 0;
    for (b = 0; b < job->n; b++) {
        const fa_cap_nodes *s = &job->blocks[b].nodes;
        width += s->sum.n + (job->has_floor ? s->sum.n - s->lifted : 0);
    }
    line->made = 0;
    for (k = 0; k + FA_RUN <= limit; k += FA_RUN) {
        double t = (k + FA_RUN - 1) * h, last, fell, slow, end;
        if (!fa_goes_on() || !fa_cap_reserve_points(job, line, k + FA_RUN))
            return 0;
        fa_cap_points(job, line, k);
        if (k == 0 && !fa_cap_is_held(job, line))
            return 0;
        pairs += FA_RUN * width;
        last = line->log_f[k + FA_RUN - 1];
        if (last + log(t + h) < dead && line->log_f[k + FA_RUN - 2] + log(t + h) < dead + 1.0) {
            k += FA_RUN;
            while (k > 2 && line->log_f[k - 2] + log(k * h) < dead)
                k--;
            line->n = (int)fa_min(k, most);
            return 1;
        }
        fell = line->log_f[0] - last;
        if (pairs > effort->pairs * job->n ||
            (limit < FA_CAP_POINTS_MAX && fa_cap_is_look(k + FA_RUN) &&
             (line->log_f[0] - dead + log(t + h)) * (k + FA_RUN) > FA_CAP_LATE * limit * fell))
            return 0;
        if (k + FA_RUN >= most && line->log_f[(int)most - 1] + log(2.0 * most * h) < dead + FA_CAP_NOISE) {
            line->n = (int)most;
            return 1;
        }
        if (t > line->reach * 1.001 + FA_RUN * h) {
            slow = line->log_f[(k + FA_RUN) / 2] - last;
            end = t * (1.0 + 0.5 * (last - dead + log(2.0 * t)) / fa_max(slow, 0.1));
            *t_out = fa_max(1.5 * line->reach, fa_min(1.4 * end, 3.0 * line->reach));
            return 2;
        }
    }
    return 0;
}

#define FA_CAP_SEARCH 9

/* the floor's window on the nodes of a line, or none: then all losses are small */
FA_FUNC void fa_cap_finish_nodes(const fa_cap_job *job, fa_cap_block *block, double v)
{
    fa_cap_nodes *s = &block->nodes;
    if (block->split) {
        fa_cap_set_floor(block, s);
        block->w.low_cut = block->pair ? fa_cap_cut_low(block, s, v) : 0.0; /* no rule ends in the middle of a part */
        return;
    }
    fa_cap_no_floor(s);
    if (job->has_floor)
        memcpy(s->small, s->sum.wr, sizeof(double) * (size_t)s->sum.n);
}

/* few nodes of a line, of mixtures */
FA_FUNC int fa_cap_find_rough(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line,
                              const fa_cap_effort *effort)
{
    const fa_cap_windows *w = &block->w;
    double h = fa_min(0.8 / block->sigma, 0.5), edge = 1.0, narrow = INFINITY,
           z_high = fa_cap_line_end(job, block, line->plan.right, line->plan.low, effort->right);
    if (!(z_high < w->cap - FA_CAP_CUT * w->width)) {
        narrow = w->width;
        edge = narrow * block->inv_var * fa_cap_posterior(block, w->cap);
    }
    if (block->split) {
        narrow = fa_min(narrow, w->floor_width);
        edge = fa_min(edge, w->floor_width * block->inv_var * fa_cap_posterior(block, w->floor));
    }
    return block->family->rough(block, &block->nodes, h, edge, narrow,
                                fa_cap_begin(block, effort->left, fa_cap_tilt(job, line->plan.right)), z_high, 2);
}

/* Im u where |F| t is about dead, by the tail's majorant on few nodes, near `guess`.  Uses the line's nodes as scratch.
 * 0: not found, or beyond `most` */
FA_FUNC double fa_cap_find_reach(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double guess,
                                 double most)
{
    double t = guess, low = 0.0, high = INFINITY, last = 0.0, before = 0.0, gap, fall, next;
    int i, b;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        if (!block->family->find_rough(job, block, line, effort))
            return 0.0;
        fa_cap_finish_nodes(job, block, line->plan.low);
    }
    for (i = 0; i < FA_CAP_SEARCH; i++) {
        double shift = effort->dead - 3.0 - log(t) - line->ref;
        gap = fa_cap_log_beyond(job, line, line->eps, t, 1.0, 0.0) + shift;
        if (gap > 30.0)
            gap = fa_min(gap, fa_cap_log_beyond(job, line, line->eps, t, 0.6, 0.0) + shift);
        if (gap > 0.0)
            low = t;
        else
            high = t;
        fall = last > 0.0 ? (before - gap) / log(t / last) : 0.0;
        next = t * exp(fa_max(-1.0, fa_min(1.0, gap / (fall > 8.0 && fall < 80.0 ? fall : 25.0))));
        if (job->curves > 0 && fabs(gap + 3.5) < 4.5) /* their bounds fall in steps: none is guessed */
            return t < most ? t : 0.0;
        if ((job->curves == 0 && fabs(gap) < 8.0) || (gap > 0.0 && next > most))
            return next < most ? next : 0.0;
        last = t;
        before = gap;
        t = next > low * 1.02 && next < high * 0.98 ? next
            : high < INFINITY                       ? sqrt(fa_max(low, 0.1 * high) * high)
                                                    : 2.0 * low;
    }
    return high < most ? high : 0.0;
}

/* how far |F| is expected to reach in t */
FA_FUNC double fa_cap_guess_reach(const fa_cap_job *job, const fa_cap_line *line, const fa_cap_effort *effort,
                                  double dephase)
{
    const fa_cap_plan *p = &line->plan;
    double c = p->c, t = fa_max(1.3 * sqrt(60.0 / (p->d2 + 1.0 / (c * c) + 1.0 / ((c - 1.0) * (c - 1.0)))), 8.0 * p->h),
           sharp = 0.0, sigma = 0.0, eta, more;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        sigma = fa_max(sigma, block->sigma);
        if (block->split)
            sharp = fa_max(sharp,
                           8.0 / (block->w.floor_width * block->inv_var * fa_cap_posterior(block, block->w.floor)));
    }
    t = fa_max(t, sharp) * effort->far;
    eta = fa_min(1.5, 6.5 / sigma); /* more where it costs few nodes */
    more = fa_min(t, 0.1 * (22.0 / eta + 0.5 * sigma * sigma * eta));
    t = t + 16.0 * p->h < 2.0 * t ? fa_max(t + more, t + 16.0 * p->h) : t + more;
    if (effort->points < FA_CAP_POINTS_MAX)
        t = fa_max(t, fa_min(1.8 * dephase, (effort->points - 8) * p->h));
    return t;
}

/* nodes of every block for Im u up to t.  0: too many, or no memory */
FA_FUNC int fa_cap_lay_nodes(fa_cap_job *job, const fa_cap_line *line, const fa_cap_effort *effort, double t)
{
    int b;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        if (!block->family->lay(job, block, line, effort, t))
            return 0;
        fa_cap_finish_nodes(job, block, line->plan.low);
        if (block->walled)
            fa_cap_centre_plain(&block->nodes, line->plan.tilt);
        else
            fa_cap_centre(block, &block->nodes);
    }
    return 1;
}

/* nodes and points for the plan.  0: given up */
FA_FUNC int fa_cap_evaluate(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double dephase)
{
    int round, done, found = 0;
    line->n = line->made = line->closed = 0;
    if (line->plan.is_bare)
        return fa_cap_lay_nodes(job, line, effort, 0.0);
    line->reach = job->curves > 0 && line->reach > 0.0 ? 1.3 * line->reach
                                                        : fa_cap_guess_reach(job, line, effort, dephase);
    if (!effort->is_about &&
        (job->has_floor || job->mixtures || job->data || effort->far > 1.0 || 1.8 * dephase > 200.0 * line->plan.h)) {
        int is_short = effort->points < FA_CAP_POINTS_MAX;
        double t = fa_cap_find_reach(job, line, effort, line->reach,
                                     is_short ? 1.15 * effort->points * line->plan.h : INFINITY);
        if ((is_short || job->data == job->n) && !(t > 0.0)) /* losses that are data may never decay */
            return 0;
        found = t > 0.0;
        line->reach = found ? effort->far * t : line->reach;
    }
    for (round = 0; round < 10 && fa_goes_on(); round++) {
        if (!fa_cap_lay_nodes(job, line, effort, line->reach))
            return 0;
        done = fa_cap_run_points(job, line, effort, found, &line->reach);
        if (done < 2)
            return done;
    }
    return 0;
}

#define FA_CAP_LONG     60.0  /* points from which on a line is dear */
#define FA_CAP_NO_JUMPS 1e-25 /* a tilted chance of a large loss below this is none ... */
#define FA_CAP_FEW      1e-6  /* ... and at the floor's point it may be left to Chernoff's bound */

/* what the plan's c makes of each block.  Among several, one without large losses is not split */
FA_FUNC void fa_cap_plan_blocks(fa_cap_job *job, fa_cap_plan *plan)
{
    int b;
    plan->tilt = fa_cap_tilt(job, plan->c);
    plan->d2 = job->mu2;
    plan->jumps = 0.0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        fa_cap_real r = fa_cap_block_k(block, &block->coarse, plan->tilt, 0, 0.0);
        block->k = r.k;
        block->d1 = r.d1;
        block->jumps = r.jumps;
        plan->d2 += r.d2;
        plan->jumps += r.jumps;
        block->split = job->has_floor && block->may_split &&
                       (job->n == 1 || job->walled || r.jumps > FA_CAP_NO_JUMPS ||
                        fa_cap_block_k(block, &block->coarse, plan->low, 0, 0.0).jumps > FA_CAP_FEW);
    }
}

/* plan a line for eps, delta about exp(log_size); with_floor: whether small losses may be left to Chernoff's bound.
 * line->ref: log delta as the plan has it.  0: none */
FA_FUNC int fa_cap_plan_line(fa_cap_job *job, fa_cap_line *line, const fa_cap_saddle *at, double eps, double log_size,
                             int with_floor, int is_dear, const fa_cap_effort *effort)
{
    fa_cap_plan *plan = &line->plan;
    fa_cap_probes probes;
    double tol, size = log_size, next;
    int round;
    for (round = 0;; round++) {
        tol = size - effort->tolerance;
        plan->low = 1.0;
        if (with_floor && job->walled)
            plan->low = fa_cap_choose_low(job, eps, tol);
        else if (with_floor && !job->is_add)
            plan->low = fa_cap_choose_floor(job, effort, eps, tol, at, 0);
        else
            fa_cap_try_floor(job, eps, 0.0);
        fa_cap_probe(job, eps, at, tol, is_dear || job->has_floor, &probes);
        if (!job->has_floor || round == 2)
            break;
        next = log(exp(probes.least - 0.5 * log(2.0 * FA_PI * at->curvature) - size) +
                   fa_max(fa_cap_closed_part(job, eps, size).value, 0.0)) +
               size;
        if (!(next < size - (round ? 1.0 : 1.5))) /* the floor's tolerance is relative to what delta is without it */
            break;
        size = next;
    }
    line->eps = eps;
    line->ref = size;
    if (!fa_cap_choose_line(job, &probes, eps, size, tol, effort->quiet, plan))
        return 0;
    fa_cap_plan_blocks(job, plan);
    return 1;
}

/* Im u where records that are hardly moved dephase, about: sqrt(2 * 32/variance of the small losses), less where large
 * ones are certain */
FA_FUNC double fa_cap_dephase(const fa_cap_job *job, const fa_cap_effort *effort, double eps, double v)
{
    double jumps = 0.0, variance = job->mu2;
    int b, j;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const double *l = block->coarse.sum.lr, *w = block->coarse.sum.wr;
        double level = job->is_add ? INFINITY : 0.05 * fa_cap_lift(job, eps), tilt = fa_cap_tilt(job, v), all = 0.0,
               large = 0.0, m1 = 0.0, m2 = 0.0;
        int n = block->coarse.sum.n;
        FA_PRAGMA(omp simd reduction(+ : all, large, m1, m2))
        for (j = 0; j < n; j++) {
            double f = w[j] * fa_exp_plain_v(fa_min(600.0, tilt * l[j])), in = l[j] <= level ? f : 0.0;
            all += f;
            large += f - in;
            m1 += in * l[j];
            m2 += in * l[j] * l[j];
        }
        all = fa_max(all, 1e-300);
        jumps += fa_cap_certain(block, block->steps * large / all);
        variance += block->steps * (m2 / all - (m1 / all) * (m1 / all));
    }
    return jumps < effort->tolerance + 1.0 ? sqrt(2.0 * (effort->dead - jumps) / fa_max(variance, 1e-300)) : 0.0;
}

/* The line for *eps: first without a floor, as far as that is short.  wanted: the log delta that *eps is meant for, NAN
 * for any; where the plan finds another one there, *eps moves before anything dear is done */
FA_FUNC int fa_cap_draw(fa_cap_job *job, fa_cap_line *line, fa_cap_saddle *at, double *eps, double log_size,
                        double wanted, fa_cap_effort effort, int *with_floor)
{
    double dephase, gap, before = INFINITY;
    int round, planned;
    line->n = line->made = 0;
    if (!*with_floor) {
        effort.points = 640;
        effort.pairs = 4e5;
        dephase = fa_cap_dephase(job, &effort, *eps, at->v);
        planned = fa_cap_plan_line(job, line, at, *eps, log_size, 0, 0, &effort);
        if (planned && dephase > FA_CAP_LONG * line->plan.h)
            planned = fa_cap_plan_line(job, line, at, *eps, log_size, 0, 1, &effort);
        if (planned && !(dephase > 0.8 * effort.points * line->plan.h) && fa_cap_evaluate(job, line, &effort, dephase))
            return 1;
        *with_floor = 1;
    }
    effort.points = effort.is_about ? 2048 : FA_CAP_POINTS_MAX;
    effort.pairs = effort.is_about ? 2e7 : job->mixtures || job->data ? 1.2e8 : 4e7;
    for (round = 0; round < 5; round++) {
        if (!fa_cap_plan_line(job, line, at, *eps, log_size, 1, 1, &effort))
            break;
        gap = line->ref - wanted;
        if (!(fabs(gap) > 0.7) || round == 4 || (job->curves > 0 && fabs(gap) > 0.5 * before)) {
            if (fa_cap_evaluate(job, line, &effort, 0.0))
                return 1;
            break;
        }
        before = fabs(gap);
        if (job->walled) {
            double end = -job->least, eta = end - *eps;
            *eps = fa_max(1e-9 * end, end - eta * exp(-fa_max(-1.0, fa_min(1.0, gap / fa_max(0.3, -at->slope * eta)))));
        }
        else
            *eps *= 1.0 + fa_max(-0.5, fa_min(0.5, gap / (-at->slope * *eps)));
        if (!fa_cap_place(job, &effort, *eps, at->v, at))
            break;
        log_size = at->log_size;
    }
    line->n = 0;
    return 0;
}

#endif
