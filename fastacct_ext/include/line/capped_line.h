/* line/capped_line.h -- a capped line: its nodes, and log F at its points.
 *
 *   F(t) = R(u) exp(-(u-1) eps)/(u (u-1)), u = c + i t,   R = B0^T - Bb^T = B0^T (-expm1(T log1p(-D/B0)))
 *
 *   B0 exp(-u mu) = 1 - J0 + u e1 + sum W (exp(u l) - 1 - u l),  l the loss less mu
 *
 * It is of second order in the losses, so that many steps lose no digits.  D = B0 - Bb, the large losses (above the
 * floor), is a sum of its own; without a floor R = B0^T.  docs/algorithms/line.md, "The line's sum".
 */
#ifndef FA_LINE_CAPPED_LINE_H
#define FA_LINE_CAPPED_LINE_H

#include "capped_floor.h"

#define FA_CAP_LONGER  1.11 /* by what a tail's curve may be longer than the real line: sqrt(1 + 0.475^2) */

/* arrays over the points for the ledger, one group after the other in the same memory: of all losses, and of small and
 * large ones */
enum { FA_OF_GROW, FA_OF_RULE, FA_OF_ERROR };
enum { FA_LOW_REST, FA_LOW_ONCE, FA_LOW_GROW, FA_LOW_FALL, FA_LOW_WHOLE, FA_LOW_WORST, FA_LOW_PARTS, FA_CAP_SCRATCH };

struct fa_cap_line {
    fa_cap_plan plan;
    double eps, ref;              /* F is kept at eps, over exp(ref) */
    double reach;                 /* Im u up to which the nodes are fine enough */
    int n, made, capacity;        /* points read, points computed */
    int closed;                   /* whether the tail is bounded: the nodes' phasors are scratch from then on, ... */
    double tail_at, log_tail;     /* ... at which eps, and log of what it is at most, over 1 */
    double *log_f, *arg_f, *size; /* log |F|, its angle, |F|; the first point counts half */
    double *log_all;              /* with a floor: log of |B0^T/(u (u-1))| likewise */
    double *gross;                /* several blocks: the sizes of what is added up in log F and its angle */
    double *scratch[FA_CAP_SCRATCH];
    double *memory;
};

FA_FUNC void fa_cap_line_free(fa_cap_line *line)
{
    free(line->memory);
    memset(line, 0, sizeof(*line));
}

/* an array of `rows` rows for c points each, of which the first `made` points are kept; 0: no memory */
FA_FUNC int fa_cap_grow(double ***rows, int n_rows, double **memory, size_t c, int made)
{
    double *fresh = fa_alloc(sizeof(double) * (size_t)n_rows * c);
    int i;
    if (!fresh)
        return 0;
    for (i = 0; i < n_rows; i++) {
        if (made > 0)
            memcpy(fresh + (size_t)i * c, *rows[i], sizeof(double) * (size_t)made);
        *rows[i] = fresh + (size_t)i * c;
    }
    free(*memory);
    *memory = fresh;
    return 1;
}

FA_FUNC int fa_cap_reserve_points(fa_cap_job *job, fa_cap_line *line, int n)
{
    double **arrays[5 + FA_CAP_SCRATCH] = {&line->log_f, &line->arg_f, &line->size, &line->log_all, &line->gross};
    size_t c = 64;
    int b, i;
    while (c < (size_t)n)
        c *= 2;
    if (line->capacity < n) {
        for (i = 0; i < FA_CAP_SCRATCH; i++)
            arrays[5 + i] = &line->scratch[i];
        if (!fa_cap_grow(arrays, 5 + FA_CAP_SCRATCH, &line->memory, c, line->made))
            return 0;
        line->capacity = (int)c;
    }
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        double **own[] = {&block->inverse, &block->log_small, &block->ratio, &block->share};
        if (block->capacity >= n)
            continue;
        if (!fa_cap_grow(own, 4, &block->memory, c, line->made))
            return 0;
        block->capacity = (int)c;
    }
    return 1;
}

/* mu = -E_Q[keep (e^L - 1 - L)], its rounding error and what is beyond the nodes, and the losses relative to it */
FA_FUNC void fa_cap_centre(const fa_cap_block *block, fa_cap_nodes *s)
{
    const fa_cap_windows *w = &block->w;
    const double *log_w = s->sum.log_w, *weight = s->sum.wr, *fine = s->fine, *slip = s->slip;
    double kappa = block->kappa, sum = 0.0, error = 0.0, shift, *l = s->sum.lr;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum, error))
    for (j = 0; j < n; j++) {
        double loss = l[j] + kappa, e, tiny = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &e),
               size = loss + log_w[j];
        double big = size > -690.0 ? fa_exp_plain_v(size) : 0.0,
               value = loss < 1.0 ? weight[j] * tiny : big - weight[j] * (1.0 + loss);
        sum += value;
        error += fabs(value) * (8.0 + fine[j]) +
                 (loss < 1.0 ? weight[j] * fabs(e - 1.0) : big) * (slip[j] + fabs(l[j]) + 2.0 * fabs(kappa));
    }
    s->mean = -sum;
    s->linear = s->mean * w->q_mass - w->gain;
    shift = kappa - s->mean;
    for (j = 0; j < n; j++)
        l[j] += shift;
    s->mean_error = FA_EPS * (error + (64.0 + w->off) * (fabs(w->gain) + fabs(s->mean) * w->q_mass));
    s->mean_error += block->family->ends(block, 1.0, 1.0, 0);
}

/* walled: losses relative to their tilted mean */
FA_FUNC void fa_cap_centre_plain(fa_cap_nodes *s, double c)
{
    double s0 = 0.0, s1 = 0.0, top = -INFINITY, shift;
    double *l = s->sum.lr;
    const double *log_w = s->sum.log_w;
    int j, n = s->sum.n;
    for (j = 0; j < n; j++)
        top = fa_max(top, c * l[j] + log_w[j]);
    FA_PRAGMA(omp simd reduction(+ : s0, s1))
    for (j = 0; j < n; j++) {
        double e = fa_exp_plain_v(fa_max(-690.0, c * l[j] + log_w[j] - top));
        s0 += e;
        s1 += e * l[j];
    }
    shift = s1 / s0;
    s->mean += shift;
    s->mean_error = s->linear = 0.0;
    for (j = 0; j < n; j++)
        l[j] -= shift;
}

/* cos(x) - 1, sin(x) and sin(x) - x: docs/algorithms/arithmetic.md, "The start of a line" */
FA_INLINE double fa_cap_turn(double x, double *sin_out, double *rest_out)
{
    double half = 0.5 * x, co, si = fa_sincos_v(half, &co), full = 2.0 * si * co, x2 = x * x, series;
    series = FA_FMA(x2, -1.0 / 1307674368000.0, 1.0 / 6227020800.0);
    series = FA_FMA(-x2, series, 1.0 / 39916800.0);
    series = FA_FMA(-x2, series, 1.0 / 362880.0);
    series = FA_FMA(-x2, series, 1.0 / 5040.0);
    series = FA_FMA(-x2, series, 1.0 / 120.0);
    series = FA_FMA(-x2, series, 1.0 / 6.0);
    *sin_out = full;
    *rest_out = x2 < 0.5 ? -x * x2 * series : full - x;
    return -2.0 * si * si;
}

/* What a step i h of u adds to W E2(u l), at u = c, and by how much that grows a step: the sequel of real nodes'
 * phasors (fa_phasors has the general case) */
FA_FUNC void fa_cap_first_step(fa_cap_nodes *s, double c, double h)
{
    const double *l = s->sum.lr, *w = s->sum.wr;
    double *er = s->sum.er, *ei = s->sum.ei, *gr = s->first_r, *gi = s->first_i, *fr = s->sum.fr, *fi = s->sum.fi;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double d = h * l[j], si, rest, co = fa_cap_turn(d, &si, &rest), cl = c * l[j];
        er[j] = 1.0 + co;
        ei[j] = si;
        gr[j] = w[j] * FA_FMA(cl, co, co);
        gi[j] = w[j] * FA_FMA(cl, si, rest);
        fr[j] = -w[j] * d * si;
        fi[j] = w[j] * d * co;
    }
}

/* the phasors afresh at u = c + i t, t = steps h.  With s = u l = p + i x: E2(s) = E2(p) e^(ix) + (1+p) (e^(ix) - 1) -
 * ix */
FA_FUNC void fa_cap_start(fa_cap_nodes *s, double c, double t, double steps)
{
    const double *l = s->sum.lr, *w = s->sum.wr, *log_w = s->sum.log_w, *fr = s->sum.fr, *fi = s->sum.fi,
                 *first_r = s->first_r, *first_i = s->first_i;
    double *vr = s->sum.vr, *vi = s->sum.vi, *gr = s->sum.gr, *gi = s->sum.gi;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double p = c * l[j], x = t * l[j], si, rest, co = fa_cap_turn(x, &si, &rest), e, size = p + log_w[j],
               real = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(p, 1.0)), &e), one = 1.0 + p;
        real = p < -600.0 ? -one : real;
        e = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        vr[j] = p < 1.0 ? w[j] * (real * (1.0 + co) + one * co) : e * (1.0 + co) - w[j] * one;
        vi[j] = p < 1.0 ? w[j] * ((real + p) * si + rest) : e * si - w[j] * x;
        gr[j] = FA_FMA(steps, fr[j], first_r[j]);
        gi[j] = FA_FMA(steps, fi[j], first_i[j]);
    }
}

/* walled: phasors of W exp(u l) at u = c + i t */
FA_FUNC void fa_cap_start_plain(fa_cap_nodes *s, double c, double t)
{
    const double *l = s->sum.lr, *log_w = s->sum.log_w;
    double *vr = s->sum.vr, *vi = s->sum.vi;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double size = c * l[j] + log_w[j], co, si = fa_sincos_v(t * l[j], &co),
               e = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        vr[j] = e * co;
        vi[j] = e * si;
    }
}

/* walled: K and its angle at FA_RUN points from the plain sum of W exp(u l), which may be far below 1 */
FA_FUNC void fa_cap_run_plain(fa_cap_nodes *s, int first, double c, double h, double mean, double steps, double *re,
                              double *im, double *log_f, double *arg_f, double *gross, double *inverse)
{
    const fa_turning all = {s->sum.vr, s->sum.vi, NULL, NULL, s->sum.er, s->sum.ei, NULL, NULL};
    int i;
    fa_turn_run(&all, 0, s->sum.n, 0, re, im);
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_RUN; i++) {
        double square = re[i] * re[i] + im[i] * im[i], li = fa_angle_v(im[i], re[i]),
               lr = square > 1e-290 ? 0.5 * fa_log_v(square) : NAN; /* no reading where it has no digits */
        log_f[i] += steps * FA_FMA(c, mean, lr);
        arg_f[i] += steps * FA_FMA((first + i) * h, mean, li);
        gross[i] += steps * (fabs(lr) + fabs(li));
        inverse[i] = fa_exp_plain_v(-lr);
    }
}

/* start the large losses' phasors at u = c + i t, and advance both sums by FA_RUN points: E2 in re, im, D in large_re,
 * large_im */
FA_FUNC void fa_cap_start_large(fa_cap_nodes *s, double c, double t)
{
    const double *l = s->sum.lr, *log_w = s->sum.log_w, *above = s->above;
    double *vr = s->large_r, *vi = s->large_i;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = s->lifted; j < n; j++) {
        double size = c * l[j] + log_w[j], co, si = fa_sincos_v(t * l[j], &co),
               e = size > -690.0 ? above[j] * fa_exp_plain_v(size) : 0.0;
        vr[j] = e * co;
        vi[j] = e * si;
    }
}

FA_FUNC void fa_cap_run_large(fa_cap_nodes *s, double *re_out, double *im_out)
{
    const fa_turning all = {s->large_r, s->large_i, NULL, NULL, s->sum.er, s->sum.ei, NULL, NULL};
    fa_turn_run(&all, s->lifted, s->sum.n, 0, re_out, im_out);
}

/* one block's factors at points first .. first + FA_RUN - 1, which follow each other without gap: steps times log B0 is
 * added to log_f and arg_f, steps times log1p(-D/B0) to low_r and low_i */
FA_FUNC void fa_cap_block_points(const fa_cap_job *job, fa_cap_block *block, fa_cap_line *line, int first,
                                 double *low_r, double *low_i)
{
    fa_cap_nodes *s = &block->nodes;
    double re[FA_RUN], im[FA_RUN], lr_[FA_RUN], li_[FA_RUN], c = line->plan.tilt, h = line->plan.h,
                                                             steps = block->steps;
    double missing = block->w.q_mass, linear = s->linear, mean = s->mean, *log_f = line->log_f + first,
           *arg_f = line->arg_f + first, *gross = line->gross + first, *inverse = block->inverse + first,
           *log_small = block->log_small + first, *ratio = block->ratio + first;
    int i;
    fa_count(FA_RUN * (s->sum.n + 30.0));
    if (first % block->sync == 0) {
        if (first == 0)
            fa_cap_first_step(s, c, h);
        if (block->walled)
            fa_cap_start_plain(s, c, first * h);
        else
            fa_cap_start(s, c, first * h, first);
        if (job->has_floor)
            fa_cap_start_large(s, c, first * h);
    }
    if (block->walled)
        fa_cap_run_plain(s, first, c, h, mean, steps, re, im, log_f, arg_f, gross, inverse);
    else {
        fa_phasor_run(&s->sum, re, im);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_RUN; i++) {
            double t = (first + i) * h, x = re[i] - missing + c * linear, y = FA_FMA(t, linear, im[i]), li,
                   lr = fa_clog1p_v(x, y, &li);
            re[i] = 1.0 + x;
            im[i] = y;
            log_f[i] += steps * FA_FMA(c, mean, lr);
            arg_f[i] += steps * FA_FMA(t, mean, li);
            gross[i] += steps * (fabs(lr) + fabs(li));
            inverse[i] = fa_exp_plain_v(-lr);
        }
    }
    if (!job->has_floor)
        return;
    fa_cap_run_large(s, lr_, li_);
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_RUN; i++) {
        double a = re[i], b = im[i], over = 1.0 / (a * a + b * b), pr = -(lr_[i] * a + li_[i] * b) * over,
               pi = -(li_[i] * a - lr_[i] * b) * over;
        double li, lr = fa_clog1p_v(pr, pi, &li);
        low_r[i] += steps * lr;
        low_i[i] += steps * li;
        ratio[i] = sqrt(pr * pr + pi * pi);
        log_small[i] = fa_max(lr, -600.0);
    }
}

/* what else is in log F: Gaussians, eps, and what divides; the sums over the blocks are there */
FA_FUNC void fa_cap_divide(const fa_cap_job *job, const fa_cap_line *line, int first, int n)
{
    double c = line->plan.c, h = line->plan.h, eps = line->eps, ref = line->ref, mu2 = job->mu2,
           turn = job->is_add ? -1.0 : 1.0, *log_f = line->log_f + first, *arg_f = line->arg_f + first;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double t = (first + i) * h;
        log_f[i] = log_f[i] + 0.5 * mu2 * (c * (c - 1.0) - t * t) - (c - 1.0) * eps -
                   0.5 * (fa_log_v(c * c + t * t) + fa_log_v((c - 1.0) * (c - 1.0) + t * t)) - ref;
        arg_f[i] = turn * arg_f[i] + mu2 * (c - 0.5) * t - t * eps - (fa_angle_v(t, c) + fa_angle_v(t, c - 1.0));
    }
}

/* |F| at points; the first one counts half */
FA_FUNC void fa_cap_weigh(const fa_cap_line *line, int first, int n)
{
    const double *log_f = line->log_f + first;
    double *size = line->size + first;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++)
        size[i] = fa_exp_plain_v(fa_min(600.0, log_f[i]));
    if (first == 0)
        size[0] *= 0.5;
}

/* log F at points first .. first + FA_RUN - 1; they follow each other without gap */
FA_FUNC void fa_cap_points(fa_cap_job *job, fa_cap_line *line, int first)
{
    double low_r[FA_RUN] = {0.0}, low_i[FA_RUN] = {0.0}, turn = job->is_add ? -1.0 : 1.0, *log_f = line->log_f + first,
           *arg_f = line->arg_f + first, *log_all = line->log_all + first, *gross = line->gross + first;
    int i, b;
    for (i = 0; i < FA_RUN; i++)
        log_f[i] = arg_f[i] = gross[i] = 0.0;
    for (b = 0; b < job->n; b++)
        fa_cap_block_points(job, job->blocks + b, line, first, low_r, low_i);
    fa_cap_divide(job, line, first, FA_RUN);
    if (job->has_floor) {
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_RUN; i++) { /* -expm1(T log1p(-D/B0)) */
            double ei, er = fa_cexpm1_v(low_r[i], low_i[i], &ei);
            log_all[i] = log_f[i];
            log_f[i] += 0.5 * fa_log_v(fa_max(er * er + ei * ei, 1e-290));
            arg_f[i] += turn * fa_angle_v(-ei, -er);
        }
    }
    fa_cap_weigh(line, first, FA_RUN);
    line->made = first + FA_RUN;
}

#endif
