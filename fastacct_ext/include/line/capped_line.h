/* line/capped_line.h -- a capped line: its nodes, and log F at its points.
 *
 *   F(t) = R(u) exp(-(u-1) eps)/(u (u-1)), u = c + i t,   R = B0^T - Bb^T = B0^T (-expm1(T log1p(-D/B0)))
 *
 *   B0 exp(-u mu) = 1 - J0 + u e1 + sum W (exp(u l) - 1 - u l),  l the loss less mu: second order in the losses, so
 * that many steps lose no digits D = B0 - Bb: large losses (above the floor), a sum of its own.  Without a floor R =
 * B0^T.
 */
#ifndef FA_LINE_CAPPED_LINE_H
#define FA_LINE_CAPPED_LINE_H

#include "capped_place.h"

#define FA_CAP_SYNC 128 /* points between fresh starts of the phasors; a multiple of FA_RUN */

/* bounds of quadrature errors: of the line's sum, of the large losses', of E_Q[exp(v l) keep] for v <= plan.right, of
 * the small losses' at plan.low, of the mean */
typedef struct {
    double line, large, right, low, mean;
} fa_cap_moduli;

typedef struct {
    fa_cap_windows w;
    fa_cap_plan plan;
    fa_cap_nodes nodes;
    fa_cap_moduli moduli;         /* set with the ledger */
    double eps, ref;              /* F is kept at eps, over exp(ref) */
    double strip, reach;          /* |Im xi| that the step was chosen for; Im u up to which the nodes are fine enough */
    int n, made, capacity;        /* points read, points computed */
    double *log_f, *arg_f, *size; /* log |F|, its angle, |F|; the first point counts half */
    double *inverse;              /* 1/|B0 exp(-u mu)| */
    double *log_all, *log_small;  /* with a floor: log of |B0^T/(u (u-1))| likewise, log |Bb/B0| ... */
    double *ratio;                /* ... and |D/B0| */
    double *memory;
} fa_cap_line;

FA_FUNC void fa_cap_line_free(fa_cap_line *line)
{
    fa_cap_nodes_free(&line->nodes);
    free(line->memory);
    memset(line, 0, sizeof(*line));
}

FA_FUNC int fa_cap_reserve_points(fa_cap_line *line, int n)
{
    double **arrays[] = {&line->log_f,   &line->arg_f,     &line->size, &line->inverse,
                         &line->log_all, &line->log_small, &line->ratio};
    double *memory;
    size_t c = 256, i;
    if (n <= line->capacity)
        return 1;
    while (c < (size_t)n)
        c *= 2;
    if (!(memory = fa_alloc(sizeof(double) * 7 * c)))
        return 0;
    for (i = 0; i < 7; i++) {
        if (line->made > 0)
            memcpy(memory + i * c, *arrays[i], sizeof(double) * (size_t)line->made);
        *arrays[i] = memory + i * c;
    }
    free(line->memory);
    line->memory = memory;
    line->capacity = (int)c;
    return 1;
}

/* mu = -E_Q[keep (e^L - 1 - L)], its rounding error, and the losses relative to it */
FA_FUNC void fa_cap_centre(const fa_cap_job *job, const fa_cap_windows *w, fa_cap_nodes *s)
{
    const double *log_w = s->sum.log_w, *weight = s->sum.wr, *z = s->z;
    double kappa = job->kappa, odds = fabs(job->log_odds), inv_var = job->inv_var, sum = 0.0, error = 0.0, shift,
           first = s->z[0] / job->sigma, *l = s->sum.lr;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum, error))
    for (j = 0; j < n; j++) {
        double loss = l[j] + kappa, e, tiny = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &e),
               size = loss + log_w[j];
        double big = size > -690.0 ? fa_exp_plain_v(size) : 0.0,
               value = loss < 1.0 ? weight[j] * tiny : big - weight[j] * (1.0 + loss), far = fabs(z[j]);
        double fine = 48.0 + 2.0 * far * far * inv_var +
                      far * (14.0 + 6.0 * (odds + far * inv_var + inv_var) + 2.0 * odds);
        sum += value;
        error += fabs(value) * fine + (loss < 1.0 ? weight[j] * fabs(e - 1.0) : big) * (9.0 * l[j] - 2.0 * kappa);
    }
    s->mean = -sum;
    s->mean_error = FA_EPS * (error + 64.0 * (w->gain + s->mean * w->q_mass)) +
                    0.5 * exp(-0.5 * first * first) * kappa * kappa;
    s->linear = s->mean * w->q_mass - w->gain;
    shift = kappa - s->mean;
    for (j = 0; j < n; j++)
        l[j] += shift;
}

/* cos(x) - 1, sin(x) and sin(x) - x */
FA_INLINE double fa_cap_turn(double x, double *sin_out, double *rest_out)
{
    double half = 0.5 * x, co, si = fa_sincos_v(half, &co), full = 2.0 * si * co, x2 = x * x, series;
    series = FA_FMA(x2, -1.0 / 6227020800.0, 1.0 / 39916800.0);
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
    double sr[FA_RUN][FA_LANE] = {{0.0}}, si[FA_RUN][FA_LANE] = {{0.0}};
    int start, lane, k, n = s->sum.n;
    for (start = s->lifted; start < n; start += FA_LANE) {
        double *vr = s->large_r + start, *vi = s->large_i + start;
        const double *er = s->sum.er + start, *ei = s->sum.ei + start;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double a = vr[lane], b = vi[lane], c = er[lane], d = ei[lane], next;
#define FA_POINT(k)                                                                                                    \
    sr[k][lane] += a;                                                                                                  \
    si[k][lane] += b;                                                                                                  \
    next = FA_FMA(a, c, -b * d);                                                                                       \
    b = FA_FMA(a, d, b * c);                                                                                           \
    a = next;
            FA_POINT(0)
            FA_POINT(1)
            FA_POINT(2)
            FA_POINT(3)
            FA_POINT(4)
            FA_POINT(5)
            FA_POINT(6)
            FA_POINT(7)
#undef FA_POINT
            vr[lane] = a;
            vi[lane] = b;
        }
    }
    for (k = 0; k < FA_RUN; k++) {
        double re = 0.0, im = 0.0;
        for (lane = 0; lane < FA_LANE; lane++) {
            re += sr[k][lane];
            im += si[k][lane];
        }
        re_out[k] = re;
        im_out[k] = im;
    }
}

/* log F at points first .. first + FA_RUN - 1; they follow each other without gap */
FA_FUNC void fa_cap_points(const fa_cap_job *job, fa_cap_line *line, int first)
{
    fa_cap_nodes *s = &line->nodes;
    double re[FA_RUN], im[FA_RUN], lr_[FA_RUN], li_[FA_RUN], c = line->plan.c, h = line->plan.h, eps = line->eps,
                                                             ref = line->ref, steps = job->steps;
    double missing = line->w.q_mass, linear = s->linear, mean = s->mean, *log_f = line->log_f + first,
           *arg_f = line->arg_f + first, *size = line->size + first;
    double *inverse = line->inverse + first, *log_all = line->log_all + first, *log_small = line->log_small + first,
           *ratio = line->ratio + first;
    int i;
    if (first % FA_CAP_SYNC == 0) {
        if (first == 0)
            fa_cap_first_step(s, c, h);
        fa_cap_start(s, c, first * h, first);
        if (line->w.has_floor)
            fa_cap_start_large(s, c, first * h);
    }
    fa_phasor_run(&s->sum, re, im);
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_RUN; i++) {
        double t = (first + i) * h, x = re[i] - missing + c * linear, y = FA_FMA(t, linear, im[i]), li,
               lr = fa_clog1p_v(x, y, &li);
        re[i] = 1.0 + x;
        im[i] = y;
        log_f[i] = steps * FA_FMA(c, mean, lr) - (c - 1.0) * eps -
                   0.5 * (fa_log_v(c * c + t * t) + fa_log_v((c - 1.0) * (c - 1.0) + t * t)) - ref;
        arg_f[i] = steps * FA_FMA(t, mean, li) - t * eps - (fa_angle_v(t, c) + fa_angle_v(t, c - 1.0));
        inverse[i] = fa_exp_plain_v(-lr);
    }
    if (line->w.has_floor) {
        fa_cap_run_large(s, lr_, li_);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_RUN; i++) { /* -expm1(T log1p(-D/B0)) */
            double a = re[i], b = im[i], over = 1.0 / (a * a + b * b), pr = -(lr_[i] * a + li_[i] * b) * over,
                   pi = -(li_[i] * a - lr_[i] * b) * over;
            double li, lr = fa_clog1p_v(pr, pi, &li), ei, er = fa_cexpm1_v(steps * lr, steps * li, &ei);
            ratio[i] = sqrt(pr * pr + pi * pi);
            log_all[i] = log_f[i];
            log_small[i] = fa_max(lr, -600.0);
            log_f[i] += 0.5 * fa_log_v(fa_max(er * er + ei * ei, 1e-290));
            arg_f[i] += fa_angle_v(-ei, -er);
        }
    }
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_RUN; i++)
        size[i] = fa_exp_plain_v(fa_min(600.0, log_f[i]));
    if (first == 0)
        size[0] *= 0.5;
    line->made = first + FA_RUN;
}

#endif
