/* line/gradient.h -- derivatives of log delta by the line that has read it: more sums over its nodes at each point.
 *
 *   M = E_Q[exp(u L)], u complex:   dM/dsigma = -u (u-1)/sigma^3 E_Q[p^2 exp(u L)],   p = 1 - exp(-l), l = L - log(1-q)
 *                                   dM/dq = u/q E_Q[(1 - exp(-L)) exp(u L)],          d M^T/dT = M^T log M
 *
 * F, at a point, is multiplied by R'/R, which is made of quotients of sums.  Windows stay where they are, but for their
 * widths, which follow sigma so that the closed part stays.  docs/algorithms/line.md has the derivation, and what of
 * the errors is estimated.
 */
#ifndef FA_LINE_GRADIENT_H
#define FA_LINE_GRADIENT_H

#include "capped_bound.h"

#define FA_GRADIENT_SYNC 64 /* points between fresh starts of the phasors; a multiple of FA_RUN */

typedef enum { FA_BY_SIGMA, FA_BY_Q, FA_BY_STEPS, FA_BY_EPS, FA_PARTIALS } fa_partial;

/* log delta at eps, its derivatives, and estimates of their errors */
typedef struct {
    double eps, log_value, by[FA_PARTIALS], error[FA_PARTIALS];
} fa_gradient;

typedef double _Complex fa_complex;

FA_INLINE fa_complex fa_of(double re, double im)
{
    fa_complex z;
    __real__ z = re;
    __imag__ z = im;
    return z;
}
FA_INLINE double fa_modulus(fa_complex z) { return hypot(__real__ z, __imag__ z); }
FA_INLINE double fa_angle(fa_complex z) { return atan2(__imag__ z, __real__ z); }
FA_INLINE fa_complex fa_cexpm1(fa_complex z)
{
    double im, re = fa_cexpm1_v(fa_max(-700.0, fa_min(600.0, __real__ z)), __imag__ z, &im);
    return fa_of(re, im);
}

/* A line of one sampled Gaussian that has been read; its phasors are used up.  Its points are log_f + log_over and
 * turn arg_f + shift t, t = k h, along u = tilt + i t.  Three sums are of all losses, three of large ones: with weights
 * 1, p^2 and 1 - exp(-L) */
typedef struct {
    const fa_cap_block *block;
    const fa_cap_line *line;
    double *v[6][2], turn, shift, log_over;
    int is_split;
    double gross; /* E_Q[|1 - exp(-L)| exp(u L)] at the first point */
} fa_gradient_line;

/* phasors of all sums at u = tilt + i t */
FA_FUNC void fa_gradient_start(fa_gradient_line *g, double t)
{
    const fa_cap_nodes *nodes = &g->block->nodes;
    const fa_nodes *s = &nodes->sum;
    double kappa = g->block->kappa, mean = nodes->mean, tilt = g->line->plan.tilt;
    int i, m;
    g->gross = t > 0.0 ? g->gross : 0.0;
    for (i = 0; i < s->n; i++) {
        double l = s->lr[i], size = tilt * l + s->log_w[i], co, si = fa_sincos_v(t * l, &co),
               e = size > -690.0 ? fa_exp_plain_v(size) : 0.0, p = -expm1(fa_min(600.0, kappa - mean - l)),
               x = -expm1(fa_min(600.0, -mean - l));
        fa_complex v[3];
        v[0] = fa_of(e * co, e * si);
        v[1] = v[0] * p * p;
        v[2] = v[0] * x;
        g->gross += t > 0.0 ? 0.0 : fa_modulus(v[2]);
        for (m = 0; m < 3; m++) {
            g->v[m][0][i] = __real__ v[m];
            g->v[m][1][i] = __imag__ v[m];
            if (g->is_split && i >= nodes->lifted) {
                g->v[3 + m][0][i] = nodes->above[i] * __real__ v[m];
                g->v[3 + m][1][i] = nodes->above[i] * __imag__ v[m];
            }
        }
    }
}

/* R'/R at one point by sigma, q and steps, and that of exp(-(u-1) eps) by eps, from its sums.  log_bt: log B0^T, once
 * 1 - rho^T is added, but for whole turns; angle: of the first sum, counted on from the point before */
FA_FUNC void fa_gradient_factors(const fa_gradient_line *g, double t, const fa_complex *sum, fa_complex log_bt,
                                 double angle, fa_complex *out)
{
    fa_complex u = fa_of(g->line->plan.tilt, t), by_sigma = sum[1] / sum[0], by_q = sum[2] / sum[0], log_rho = 0.0,
               rest = 1.0;
    double steps = g->block->steps, sigma = g->block->sigma, im;
    if (g->is_split) { /* rho = Bb/B0: R'/R is T times B0'/B0 + rho^(T-1)/(1 - rho^T) (D'/B0 - B0'/B0 D/B0) */
        fa_complex share = sum[3] / sum[0], power;
        log_rho = fa_clog1p_v(-__real__ share, -__imag__ share, &im);
        __imag__ log_rho = im;
        rest = -fa_cexpm1(steps * log_rho);
        power = (1.0 + fa_cexpm1((steps - 1.0) * log_rho)) / rest;
        by_sigma += power * (sum[4] / sum[0] - by_sigma * share);
        by_q += power * (sum[5] / sum[0] - by_q * share);
    }
    log_bt -= fa_of(log(fa_modulus(rest)), fa_angle(rest));
    angle += t * g->block->nodes.mean;
    __imag__ log_bt += 2.0 * FA_PI * rint((steps * angle - __imag__ log_bt) / (2.0 * FA_PI));
    out[FA_BY_SIGMA] = -steps / (sigma * sigma * sigma) * u * (u - 1.0) * by_sigma;
    out[FA_BY_Q] = steps / g->block->q * u * by_q;
    out[FA_BY_STEPS] = log_bt / steps - (1.0 - rest) / rest * log_rho;
    out[FA_BY_EPS] = fa_of(1.0 - g->line->plan.c, -g->turn * t);
}

/* The sums on the line, over the value, are added to out->by.  spread: relative error of the value.  Errors are
 * estimated: a point's goes with its factor, the tail's and what is beyond the line with the factors at its ends; and
 * the nodes' sums round */
FA_FUNC void fa_gradient_sum(fa_gradient_line *g, double spread, fa_gradient *out)
{
    double plain = 0.0, angle = 0.0, mass = 0.0, size[FA_PARTIALS] = {0.0}, re[6][FA_RUN], im[6][FA_RUN];
    const fa_cap_nodes *nodes = &g->block->nodes;
    const fa_nodes *s = &nodes->sum;
    const fa_cap_line *line = g->line;
    int k, m, i, n = line->n, count = g->is_split ? 6 : 3;
    for (k = 0; k < n; k++) {
        double t = k * line->plan.h, a = line->plan.tilt, f, co, si, log_u;
        fa_complex sum[6], factor[FA_PARTIALS], log_f;
        i = k % FA_RUN;
        if (k % FA_GRADIENT_SYNC == 0)
            fa_gradient_start(g, t);
        for (m = 0; m < count && i == 0; m++) {
            const fa_turning all = {g->v[m][0], g->v[m][1], NULL, NULL, s->er, s->ei, NULL, NULL};
            fa_turn_run(&all, m < 3 ? 0 : nodes->lifted, s->n, 0, re[m], im[m]);
        }
        for (m = 0; m < count; m++)
            sum[m] = fa_of(re[m][i], im[m][i]);
        log_f = fa_of(line->log_f[k] + g->log_over, g->turn * line->arg_f[k] + g->shift * t);
        f = exp(__real__ log_f) * line->plan.h / FA_PI * (k ? 1.0 : 0.5);
        si = fa_sincos_v(__imag__ log_f, &co);
        plain = k ? plain : fa_modulus(sum[0]);
        angle += remainder(fa_angle(sum[0]) - angle, 2.0 * FA_PI);
        log_u = 0.5 * (log(a * a + t * t) + log((a - 1.0) * (a - 1.0) + t * t));
        log_f += out->log_value +
                 fa_of((line->plan.c - 1.0) * out->eps + log_u,
                       g->turn * t * out->eps + atan2(t, a) + atan2(t, a - 1.0));
        fa_gradient_factors(g, t, sum, log_f, angle, factor);
        mass += f;
        for (m = 0; m < FA_PARTIALS; m++) {
            double far = fa_modulus(factor[m]), rough = far;
            if (m == FA_BY_Q)
                rough += g->block->steps / g->block->q * hypot(a, t) * g->gross / plain;
            out->by[m] += f * (co * __real__ factor[m] - si * __imag__ factor[m]);
            size[m] += f * far;
            out->error[m] += 64.0 * FA_EPS * f * rough * plain / fa_modulus(sum[0]);
            out->error[m] += far * (k == 0 ? 4.0 * spread : k < n - 1 ? 0.0 : fa_min(spread, n * f));
        }
    }
    for (m = 0; m < FA_PARTIALS; m++)
        out->error[m] += 4.0 * spread * size[m] / fa_max(mass, 1.0);
}

/* what the closed part adds, over the value */
FA_FUNC void fa_gradient_closed(const fa_cap_job *job, double eps, double log_value, double *by)
{
    const fa_cap_block *block = job->blocks;
    const fa_cap_windows *w = &block->w;
    double steps = block->steps, q = block->q, more = log1p(w->low_more), gone = log1p(-w->q_mass - w->gain);
    if (job->walled && job->has_floor) { /* Q_low^T - e^eps E1^T, E1 = E_Q[e^L low] */
        double all = exp(eps + job->least + job->low_q + job->low_p - log_value);
        by[FA_BY_Q] += all * steps * exp(-block->kappa - more) * (1.0 - w->low_more * (1.0 - q) / q);
        by[FA_BY_STEPS] += exp(job->low_q - log_value) * w->low_q - all * (block->kappa + w->low_q + more);
    }
    if (job->walled || job->is_add)
        return;
    by[FA_BY_Q] += exp(block->log_steps + (steps - 1.0) * gone - log_value) * w->gain / q;
    by[FA_BY_STEPS] += exp(eps + w->log_q - log_value + steps * log1p(-w->q_mass)) *
                           (w->q_mass > 1e-8 ? log1p(-w->q_mass) / w->q_mass : -1.0 - 0.5 * w->q_mass) -
                       exp(steps * gone - log_value) * gone;
}

/* By a capped line that is drawn for about eps, direction as its job's.  width: of log delta's interval, or, where eps
 * was searched for log_delta, which is NaN else, of that of eps */
FA_FUNC void fa_gradient_capped(fa_cap_work *work, double eps, double log_delta, double width, fa_gradient *out)
{
    const fa_cap_job *job = &work->job;
    const fa_cap_line *line = &work->line;
    const fa_cap_nodes *s = &job->blocks->nodes;
    fa_cap_reading r = fa_cap_read(job, line, eps);
    fa_gradient_line g = {.block = job->blocks,
                          .line = line,
                          .turn = job->is_add ? -1.0 : 1.0,
                          .is_split = job->has_floor,
                          .v = {{s->sum.vr, s->sum.vi}, {s->sum.gr, s->sum.gi}, {s->sum.fr, s->sum.fi},
                                {s->large_r, s->large_i}, {s->first_r, s->first_i}, {s->scratch, s->scratch2}}};
    if (fabs(r.log_value - log_delta) < 1e-3)
        r = fa_cap_read(job, line, eps + (log_delta - r.log_value) / r.slope);
    g.shift = -g.turn * (r.eps - line->eps);
    g.log_over = line->ref - (line->plan.c - 1.0) * (r.eps - line->eps) - r.log_value;
    out->eps = r.eps;
    out->log_value = r.log_value;
    out->by[FA_BY_EPS] = -fa_cap_closed_part(&work->job, r.eps, r.log_value).fall;
    fa_gradient_closed(&work->job, r.eps, r.log_value, out->by);
    fa_gradient_sum(&g, log_delta == log_delta ? width * -r.slope : width, out);
}

#endif
