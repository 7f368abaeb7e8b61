/* line/capped_read.h -- reading a capped line: certified delta(eps), checked ends of eps, and the other direction's
 * bound. */
#ifndef FA_LINE_CAPPED_READ_H
#define FA_LINE_CAPPED_READ_H

#include "../num/interval.h"
#include "families.h"

#define FA_CAP_WIDTH      8e-10 /* relative width of eps (or of delta) that is good enough at once ... */
#define FA_CAP_FINE       4e-9  /* ... that another line need not better, nor one of panels of Gaussians ... */
#define FA_CAP_DEAR_WIDTH 6e-7  /* ... where it would be one without caps */
#define FA_CAP_NEAR       0.7   /* a place whose estimate is so near the target, in log delta, is near enough ... */
#define FA_CAP_CLOSE      1.2   /* ... and a line that many targets share, whose reading is */

/* V, the sum and the closed part, at eps: log V, V'/V, negative, and V''/V.  NaN: no reading */
typedef struct {
    double eps, log_value, slope, bend;
} fa_cap_reading;

/* an eps, the line's reading there, and its ledger */
typedef struct {
    double eps;
    fa_cap_reading r;
    fa_cap_ledger g;
} fa_cap_answer;

typedef struct {
    fa_cap_job job;
    fa_cap_line line;
    double anchor;          /* log delta, a power of 1/10, or eps (> 0) that the line was drawn for, 0: none ... */
    fa_cap_answer anchored; /* ... and eps there, 0: there is no line */
    double none;            /* eps for which no line could be drawn that serves those about it, 0: none is known */
    double unit;            /* of the eps that lines are drawn for; 0: not known yet */
    double near;            /* log delta that the line was drawn for by itself, minus that where at once, 0: none ... */
    fa_cap_answer own;      /* ... and eps there, 0: there is no line */
    int certified;          /* whether the line's ledger is closed and its answer stands */
} fa_cap_work;

FA_INLINE double fa_cap_good(const fa_cap_job *job)
{
    return job->curves > 0 ? FA_CAP_FINE : FA_CAP_WIDTH;
}

FA_FUNC void fa_cap_work_free(fa_cap_work *work)
{
    fa_cap_line_free(&work->line);
    fa_cap_job_free(&work->job);
}

FA_FUNC fa_cap_reading fa_cap_read(const fa_cap_job *job, const fa_cap_line *line, double eps)
{
    const double *size = line->size, *arg_f = line->arg_f;
    double sum = 0.0, fall = 0.0, bend = 0.0, de = eps - line->eps, c1 = line->plan.c - 1.0, h = line->plan.h,
           scale = h / FA_PI * exp(fa_min(600.0, -c1 * de)), value;
    fa_cap_closed closed = fa_cap_closed_part(job, eps, line->ref);
    fa_cap_reading out = {eps, NAN, NAN, NAN};
    int k, n = line->n;
    FA_PRAGMA(omp simd reduction(+ : sum, fall, bend))
    for (k = 0; k < n; k++) {
        double t = k * h, co, si = fa_sincos_v(arg_f[k] - t * de, &co), a = c1 * co - t * si, b = c1 * si + t * co;
        sum += size[k] * co;
        fall += size[k] * a;
        bend += size[k] * (c1 * a - t * b);
    }
    value = sum * scale + closed.value;
    if (value > 0.0 && value < INFINITY && -c1 * de < 600.0) {
        out.log_value = line->ref + log(value);
        out.slope = -(fall * scale + closed.fall) / value;
        out.bend = (bend * scale - closed.fall) / value;
    }
    return out;
}

/* K'(1) and K''(1), mean and variance of the losses under P, on coarse nodes.  0: not known */
FA_FUNC int fa_cap_bulk(fa_cap_job *job, const fa_cap_effort *effort, double *mean_out, double *variance_out)
{
    double mean = 0.5 * job->mu2, variance = job->mu2;
    int b;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        fa_cap_real r;
        if ((block->pair && !fa_cap_begin_at(block, effort, 1.0 + 12.0 * block->sigma)) ||
            !block->family->coarse(block, 0.0, 4.0))
            return 0;
        r = fa_cap_block_k(block, &block->coarse, 1.0, 0, 0.0);
        mean += r.d1;
        variance += r.d2;
    }
    *mean_out = mean;
    *variance_out = variance;
    return 1;
}

/* eps where x deviations of the losses under P are wanted */
FA_FUNC double fa_cap_guess_bulk(fa_cap_job *job, const fa_cap_effort *effort, double x)
{
    double mean, variance;
    return fa_cap_bulk(job, effort, &mean, &variance) ? mean + x * sqrt(variance) : 0.0;
}

/* about eps of a Gaussian with mean difference mu, at log delta: delta = phi(a) (m(a) - m(a + mu)), a = eps/mu - mu/2,
 * Mills's ratio m(x) about 2/(x + sqrt(x^2 + 8/pi)) */
FA_FUNC double fa_cap_guess_gauss(double mu, double log_delta)
{
    double a = sqrt(-2.0 * log_delta);
    int i;
    for (i = 0; i < 4; i++) {
        double b = a + mu, ra = sqrt(a * a + 2.5464790894703255), rb = sqrt(b * b + 2.5464790894703255),
               m = 2.0 / (b + rb), less = m * (mu + mu * (a + b) / (ra + rb)) / (a + ra);
        a += (log(less) - 0.5 * a * a - FA_LOG_SQRT_2PI - log_delta) * less / (mu * m);
    }
    return mu * (a + 0.5 * mu);
}

/* a first guess of eps: the larger of the Gaussian's and of one record's that takes part once */
FA_FUNC double fa_cap_guess(fa_cap_job *job, const fa_cap_effort *effort, double log_delta)
{
    double mu = sqrt(job->variance + job->mu2),
           gauss = mu < 30.0 ? fa_cap_guess_gauss(mu, log_delta)
                             : fa_cap_guess_bulk(job, effort, sqrt(-2.0 * log_delta)),
           jump = 0.0;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        int i;
        for (i = 0; block->pair && i < block->pair->n_p; i++) {
            double log_p = log_delta - block->log_steps - block->pair->p_weight[i + 1];
            if (log_p < -0.92) {
                double y = sqrt(-2.0 * log_p), z = block->pair->p_mean[i] + block->sigma * (y - log(2.5 * y + 1.0) / y);
                jump = fa_max(jump, block->kappa + fa_cap_l(block, z));
            }
        }
    }
    return fa_max(fa_max(gauss, jump), 1e-12);
}

/* eps by Newton's method on the placing's own estimate of log delta; the windows and coarse nodes are those of the last
 * point */
FA_FUNC int fa_cap_place_delta(fa_cap_job *job, const fa_cap_effort *effort, double log_delta, double *eps_out,
                               fa_cap_saddle *at)
{
    double low = 0.0,
           high = job->mu2 > 0.0        ? INFINITY
                  : job->is_add         ? -job->least
                  : job->data == job->n ? job->top
                                        : INFINITY,
           eps = fa_min(fa_cap_guess(job, effort, log_delta), 0.5 * high), next;
    int i;
    at->v = 0.0;
    job->deepest = fa_cap_deepest(job, log_delta);
    if (job->walled)
        return fa_cap_place_wall(job, effort, log_delta, eps_out, at);
    for (i = 0; i < 12; i++) {
        double gap;
        if (!fa_cap_place(job, effort, eps, at->v, at))
            return 0;
        *eps_out = eps;
        gap = at->log_size - log_delta;
        if (fabs(gap) < fa_min(FA_CAP_NEAR, -0.3 * at->slope * eps))
            return 1;
        if (gap > 0.0)
            low = eps;
        else
            high = eps;
        next = eps + fa_max(-0.6 * eps, fa_min(eps, -gap / at->slope));
        if (!(next > low && next < high))
            next = high < INFINITY ? 0.5 * (low + high) : 2.0 * eps;
        eps = next;
    }
    return 1;
}

#define FA_CAP_SHORT 1e-5 /* a relative step that needs no other reading */

/* a step as far as the reading says something: half of eps, or up by half of what delta changes over */
FA_INLINE double fa_cap_stride(const fa_cap_reading *r, double step)
{
    return fa_max(-0.5 * r->eps, fa_min(fa_max(0.5 * r->eps, -0.5 / r->slope), step));
}

/* Halley's method on the line from the reading *r to *eps; *r is the last reading on the way there, a short step
 * before.  0: no reading */
FA_FUNC int fa_cap_newton(const fa_cap_job *job, const fa_cap_line *line, double log_delta, double *eps,
                          fa_cap_reading *r)
{
    double step, gap;
    int i;
    for (i = 0; i < 12; i++) {
        if (!(r->log_value == r->log_value) || !(r->slope < 0.0))
            return 0;
        gap = log_delta - r->log_value;
        step = gap / r->slope;
        step /= fa_max(0.7, fa_min(1.5, 1.0 + 0.5 * gap * (r->bend / (r->slope * r->slope) - 1.0)));
        step = fa_cap_stride(r, step);
        if (job->walled)
            step = fa_min(step, 0.5 * (-job->least - r->eps));
        *eps = r->eps + step;
        if (fabs(step) < FA_CAP_SHORT * *eps && fabs(step * r->slope) < FA_CAP_SHORT)
            return 1;
        *r = fa_cap_read(job, line, *eps);
    }
    return 0;
}

#define FA_CAP_AMPLIFIED 1e-9 /* rounding above this share of an answer is that of an |F| far above delta */

/* more nodes, a longer line, or a closer cap, for what a ledger says is too large; width: of the answer that one unit
 * of relative error makes */
FA_FUNC void fa_cap_try_harder(fa_cap_effort *effort, const fa_cap_ledger *g, double width)
{
    effort->need += fa_max(0.0, fa_min(15.0, log(g->quadrature * width / 5e-11)));
    if (g->rounding > g->quadrature)
        effort->need += fa_max(0.0, fa_min(8.0, log(g->rounding * width / 5e-11)));
    if (g->rounding * width > FA_CAP_AMPLIFIED) {
        effort->cap_ratio = 1.1;
        effort->cap_back = 0.6;
        effort->quiet = 20.0;
    }
    if (g->tail > 1e-10)
        effort->far *= 1.4;
}

/* The ledger of the reading r at eps; where the tail asks for more points, of the reading with them.  0: no reading */
FA_FUNC int fa_cap_close(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double eps, fa_cap_reading *r,
                         fa_cap_ledger *g)
{
    int points;
    do {
        if (!(r->log_value == r->log_value))
            return 0;
        points = line->n;
        fa_cap_close_ledger(job, line, effort, eps, r->log_value, g);
        if (line->n != points)
            *r = fa_cap_read(job, line, eps);
    } while (line->n != points);
    return 1;
}

/* other caps for a job that these have not certified; the usual ones: there are none.  Those of added steps are where
 * nothing is reached, whatever the effort */
FA_FUNC fa_caps fa_cap_next_caps(const fa_cap_job *job, const fa_cap_effort *effort)
{
    int b, has_cap = 0;
    for (b = 0; b < job->n; b++)
        has_cap |= !job->blocks[b].pair && job->blocks[b].grows;
    if (job->mixtures && !job->is_add && effort->caps < FA_CAPS_LOW)
        return job->taken_back > 0.0 && effort->caps == FA_CAPS_USUAL ? FA_CAPS_NEAR : FA_CAPS_LOW;
    return has_cap && effort->caps < FA_CAPS_NONE ? FA_CAPS_NONE : FA_CAPS_USUAL;
}

/* log delta at eps: what all lines that are drawn for it have in common; the last one's answer is kept.  spare: logs by
 * which their errors are smaller than usual.  0: not certified, *out is untouched */
FA_FUNC int fa_cap_log_delta(fa_cap_work *work, double eps, double spare, fa_interval *out, double *slope_out)
{
    fa_cap_job *job = &work->job;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_interval kept = {-INFINITY, 0.0}, found;
    fa_cap_saddle at;
    fa_cap_ledger g;
    fa_cap_reading r;
    double pad, size = NAN, before = INFINITY;
    fa_caps next;
    int round = 0, with_floor = fa_cap_is_near_wall(job);
    work->anchor = work->anchored.eps = work->near = work->own.eps = work->line.reach = 0.0;
    effort.tolerance += spare;
    effort.need += 0.25 * spare;
    while (round < 3) { /* other caps as long as there are any, and three times with more work */
        work->certified = 0;
        work->anchored.eps = 0.0; /* caps may move, and then no line be drawn */
        if (!fa_cap_place_deep(job, &effort, eps, size == size ? at.v : 0.0, &at) ||
            !fa_cap_draw(job, &work->line, &at, &eps, size == size ? size : at.log_size, NAN, effort, &with_floor)) {
            if ((effort.caps = fa_cap_next_caps(job, &effort)) == FA_CAPS_USUAL)
                break;
            continue;
        }
        r = fa_cap_read(job, &work->line, eps);
        if (!fa_cap_close(job, &work->line, &effort, eps, &r, &g))
            break;
        if (g.up + g.down < 0.1) {
            pad = 8.0 * FA_EPS * (1.0 + fabs(r.log_value));
            found.upper = r.log_value + log1p(g.up) + pad;
            found.lower = r.log_value + log1p(-g.down) - pad;
            kept = fa_share(kept, found);
            *slope_out = r.slope;
            work->certified = 1;
        }
        work->anchored = (fa_cap_answer){eps, r, g};
        if (g.up + g.down < fa_cap_good(job))
            break;
        next = fa_cap_next_caps(job, &effort);
        if (next != FA_CAPS_USUAL && !(g.up + g.down < (next == FA_CAPS_NONE ? FA_CAP_DEAR_WIDTH : INFINITY))) {
            effort.caps = next;
            continue;
        }
        if (job->data > 0 && g.up + g.down > 0.95 * before) /* what is left is no error of the line */
            break;
        before = g.up + g.down;
        fa_cap_try_harder(&effort, &g, 1.0);
        size = fa_min(-1e-3, r.log_value);
        round++;
    }
    if (!(kept.lower > -INFINITY))
        return 0;
    *out = kept;
    return 1;
}

/* whether even delta(0) is certified to be at most the target: then eps is 0 */
FA_FUNC int fa_cap_is_free(fa_cap_work *work, double log_delta)
{
    fa_interval at_zero;
    double slope;
    return fa_cap_log_delta(work, 0.0, 0.0, &at_zero, &slope) && at_zero.upper <= log_delta;
}

#define FA_CAP_CHANGE 0.0045 /* rate times distance: entries against delta change by e^0.009, 0.905 % ... */
#define FA_CAP_FREE   4400.0 /* ... and a 1e-12th of all by less than e^20, 0.05 % of all; 1 % is added */

/* how fast entries of the ledger, or delta, change with eps: each by its own rate */
FA_FUNC double fa_cap_steep(const fa_cap_line *line, double eps, const fa_cap_reading *r, const fa_cap_ledger *g)
{
    double put = g->put < 1e-12 * g->up ? g->put_rate / FA_CAP_FREE : g->put_rate,
           closed = g->closed < 1e-12 * fa_min(g->up, g->down) ? 1.0 / FA_CAP_FREE : 1.0;
    return fa_max(fa_max(fa_max(put, closed), fa_max(line->plan.right - 1.0, line->plan.low)),
                  fa_max(-r->slope, 1.0 / eps));
}

/* checked ends around eps, where the ledger is for.  Entries change by less than 1 % over that, which is added */
FA_FUNC int fa_cap_ends_of(const fa_cap_job *job, const fa_cap_line *line, double log_delta, double eps,
                           const fa_cap_reading *r, const fa_cap_ledger *g, fa_interval *out)
{
    double off = fabs(fa_cap_read(job, line, eps).log_value - log_delta) + 8.0 * FA_EPS * (2.0 + fabs(log_delta)) +
                 job->off,
           least = 2.0 * FA_EPS * eps, above = fa_max(1.05 * (g->up + off) / -r->slope, least),
           below = fa_max(1.05 * (g->down + off) / -r->slope, least), steep = fa_cap_steep(line, eps, r, g),
           round = 8.0 * FA_EPS * (1.0 + fabs(log_delta)) + job->off;
    if (!(fa_max(above, below) * steep < FA_CAP_CHANGE) || !(g->down < 0.5) || !(eps - below > 0.0))
        return 0;
    out->upper = eps + above;
    out->lower = eps - below;
    return fa_cap_read(job, line, out->upper).log_value + log1p(1.01 * g->up) + round <= log_delta &&
           fa_cap_read(job, line, out->lower).log_value + log1p(-1.01 * g->down) - round >= log_delta;
}

/* Chernoff's bound of log delta in direction add, delta_add <= B(v) E_Q[e^{(1-v) L}]^T e^{-(v-1) eps}, on the nodes of
 * a certified line: a few Newton steps in v, of which the last counts.  What lies beyond the cap is at most J0
 * exp((1-v) log(1-q)) */
FA_FUNC double fa_cap_add_bound(const fa_cap_job *job, const fa_cap_line *line, double eps, double wanted)
{
    double v = line->plan.c, best = 0.0, step;
    int i, b;
    for (i = 0; i < 5; i++) {
        double value = 0.5 * job->mu2 * v * (v - 1.0) * (1.0 + 8.0 * FA_EPS), d1 = job->mu2 * (0.5 - v), d2 = job->mu2;
        for (b = 0; b < job->n; b++) {
            const fa_cap_block *block = job->blocks + b;
            const fa_cap_nodes *s = &block->nodes;
            double mean = fa_max(0.0, s->mean - block->kappa), back = exp(fa_min(600.0, (v - 1.0) * mean)),
                   extra = block->falls ? INFINITY /* what is left of the nodes is not bounded */
                                               : block->w.q_mass * back + block->family->back_error(block, 1.0 - v);
            fa_cap_real r = fa_cap_block_k(block, s, 1.0 - v, 0, extra);
            double slop = FA_EPS * block->steps *
                          (64.0 * v * (fabs(s->mean) + fabs(block->kappa)) +
                           1000.0 * (v * sqrt(fa_max(0.0, r.d2 / block->steps)) +
                                     fabs(expm1(fa_min(600.0, r.k / block->steps)))));
            value += r.k + slop;
            d1 += r.d1;
            d2 += r.d2;
        }
        value = value + fa_log_b(v) - (v - 1.0) * eps;
        if (value == value)
            best = fa_min(best, value);
        if (best <= wanted)
            break;
        step = (-d1 + log((v - 1.0) / v) - eps) / (d2 + 1.0 / (v * (v - 1.0)));
        if (!(fabs(step) > 0.02 * (v - 1.0)))
            break;
        v = fa_max(1.0 + 0.3 * (v - 1.0), fa_min(v - step, 1.0 + 3.0 * (v - 1.0)));
    }
    return best;
}

#endif
