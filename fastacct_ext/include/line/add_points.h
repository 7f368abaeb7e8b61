/* line/add_points.h -- direction add, few steps of the sampled Gaussian: the integrand on a hyperbola, with its ledger.
 *
 *   delta = (1/(2 pi i)) int G(p)^steps exp(p eta)/(p (p+1)) dp,   eta = -steps log(1-q) - eps
 *   p = c (1 - k (cosh v - 1) + i sinh v)
 *
 * A vertical line would need millions of points where few steps leave a transform that falls like a power; on the
 * hyperbola exp(p eta) falls twice exponentially.  The line is a value: it is evaluated once, and read at every eta
 * within its reach; one whose evaluation failed has no points and is not read.  Identity, ledger, debts:
 * docs/algorithms/add_line.md.
 */
#ifndef FA_ADD_POINTS_H
#define FA_ADD_POINTS_H

#include <stdlib.h>

#include "../kernels.h"
#include "add_ledger.h"

#define FA_ADD_PAIRS 3e5 /* points times nodes, about 1 ms, beyond which a line is given up */

/* points are evaluated and finished so many at a time */
#define FA_ADD_BLOCK 8

typedef struct {
    int n; /* points, 0: nothing to read */
    fa_add_path path;
    double error;              /* bound of what the sum misses, relative to exp(log_size) */
    double lost;               /* share of delta that the windows may take */
    double *pr, *pi, *fr, *fi; /* p, and the integrand at path.eta */
} fa_add_line;

typedef struct {
    fa_add_axis axis;
    fa_add_nodes nodes;
    fa_add_line line;
    double *memory;
} fa_add_work;

/* memory comes with the first use */
FA_FUNC int fa_add_work_init(fa_add_work *w)
{
    memset(w, 0, sizeof(*w));
    return 1;
}

FA_FUNC void fa_add_work_free(fa_add_work *w)
{
    free(w->memory);
    memset(w, 0, sizeof(*w));
}

FA_FUNC int fa_add_work_reserve(fa_add_work *w)
{
    size_t axis = FA_ADD_AXIS, nodes = FA_ADD_NODES, points = FA_ADD_POINTS + FA_ADD_BLOCK;
    double *p;
    if (w->memory)
        return 1;
    w->memory = fa_alloc(sizeof(double) * (3 * axis + 7 * nodes + 4 * points) + 64);
    if (!w->memory)
        return 0;
    p = (double *)(((uintptr_t)w->memory + 63) & ~(uintptr_t)63);
    w->axis.loss = p;
    w->axis.weight = p + axis;
    w->axis.log_w = p + 2 * axis;
    p += 3 * axis;
    w->nodes.lr = p;
    w->nodes.li = p + nodes;
    w->nodes.wr = p + 2 * nodes;
    w->nodes.wi = p + 3 * nodes;
    w->nodes.size = p + 4 * nodes;
    w->nodes.slip = p + 5 * nodes;
    w->nodes.slip_loss = p + 6 * nodes;
    p += 7 * nodes;
    w->line.pr = p;
    w->line.pi = p + points;
    w->line.fr = p + 2 * points;
    w->line.fi = p + 3 * points;
    return 1;
}

/* sums of one block of points: G, the majorant of its modulus, and its rounding error in u */
typedef struct {
    double sinh_v[FA_ADD_BLOCK], cosh_v[FA_ADD_BLOCK];
    double gr[FA_ADD_BLOCK], gi[FA_ADD_BLOCK], most[FA_ADD_BLOCK], slip[FA_ADD_BLOCK];
} fa_add_block;

/* p at the points k, k + 1, ...: 6 u of its modulus */
FA_FUNC void fa_add_block_place(fa_add_line *line, int k, fa_add_block *b)
{
    double c = line->path.c, bend = line->path.k, h = line->path.h;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_ADD_BLOCK; i++) {
        double m, e = fa_exp_both_v((k + i) * h, &m), versine = 0.5 * m * m / e; /* cosh v - 1 */
        b->cosh_v[i] = 1.0 + versine;
        b->sinh_v[i] = 0.5 * (m + m / e);
        line->pr[k + i] = c * (1.0 - bend * versine);
        line->pi[k + i] = c * b->sinh_v[i];
    }
}

/* the sums over the nodes at p */
FA_FUNC void fa_add_sum(const fa_add_nodes *s, double pr, double pi, int i, fa_add_block *b)
{
    const double *lr = s->lr, *li = s->li, *wr = s->wr, *wi = s->wi, *size = s->size, *slip = s->slip,
                 *slip_loss = s->slip_loss;
    double gr = 0.0, gi = 0.0, most = 0.0, err = 0.0, ap = sqrt(pr * pr + pi * pi);
    int j, n = s->n;
    FA_PRAGMA(omp simd reduction(+ : gr, gi, most, err))
    for (j = 0; j < n; j++) {
        double e = fa_exp_plain_v(FA_FMA(pi, li[j], -pr * lr[j])), c,
               sn = fa_sincos_v(-FA_FMA(pr, li[j], pi * lr[j]), &c);
        gr = FA_FMA(e, FA_FMA(wr[j], c, -wi[j] * sn), gr);
        gi = FA_FMA(e, FA_FMA(wr[j], sn, wi[j] * c), gi);
        most = FA_FMA(e, size[j], most);
        err = FA_FMA(e, FA_FMA(ap, slip_loss[j], slip[j]), err);
    }
    b->gr[i] = gr;
    b->gi[i] = gi;
    b->most[i] = most;
    b->slip[i] = err;
}

/* the integrand at a block's points from the sums there; returns the bound of their rounding errors' sum.
 * F = exp(steps log G + p eta + base) p'/(i p (p+1)): moduli and arguments apart, each good to a few u of its parts */
FA_FUNC double fa_add_block_finish(fa_add_line *line, const fa_add_run *run, int k, const fa_add_block *b)
{
    double T = run->steps, eta = line->path.eta, base = line->path.base, bend = line->path.k, c = line->path.c,
           total = 0.0;
    double fixed = 100.0 + 0.125 * FA_ADD_POINTS + 28.0 * T + 8.0 * (fabs(line->path.log_size) + fabs(base)) +
                   8.0 * fabs(log(c));
    int i;
    FA_PRAGMA(omp simd reduction(+ : total))
    for (i = 0; i < FA_ADD_BLOCK; i++) {
        double pr = line->pr[k + i], pi = line->pi[k + i], p2 = FA_FMA(pr, pr, pi * pi),
               q2 = FA_FMA(pr + 1.0, pr + 1.0, pi * pi), ap = sqrt(p2);
        double d2 = b->cosh_v[i] * b->cosh_v[i] + (bend * b->sinh_v[i]) * (bend * b->sinh_v[i]),
               g2 = fa_max(FA_FMA(b->gr[i], b->gr[i], b->gi[i] * b->gi[i]), 1e-280);
        double log_g = 0.5 * fa_log_v(g2), grow, cosine, sine, modulus, relative, argument,
               weight = k + i > 0 ? 1.0 : 0.5;
        double e = T * log_g + base + pr * eta + 0.5 * fa_log_v(d2 / (p2 / c)) - 0.5 * fa_log_v(q2 / c);
        argument = T * fa_angle_v(b->gi[i], b->gr[i]) + pi * eta - fa_angle_v(pi, pr) - fa_angle_v(pi, pr + 1.0) +
                   fa_angle_v(bend * b->sinh_v[i], b->cosh_v[i]);
        modulus = weight * fa_exp_plain_v(e);
        sine = fa_sincos_v(argument, &cosine);
        line->fr[k + i] = modulus * cosine;
        line->fi[k + i] = modulus * sine;
        (void)fa_exp_both_v(T * fa_log1p_plain_v(FA_EPS * b->slip[i] / sqrt(g2)), &grow);
        relative = FA_EPS * (fixed + 8.0 * T * fabs(log_g) + 16.0 * ap * eta);
        total += modulus * fa_exp_plain_v(fabs(pr) * line->path.reach) * (grow + relative * (1.0 + grow));
    }
    return total;
}

/* what the points beyond the one at v = asinh(sinh_v) would add: the majorant falls, Re p falls by c k sinh(v) h a
 * point at least, and |p'|/|p (p+1)| <= cosh v/(cos(bend) c sinh(v)^2).  inf where Re p >= 0 */
FA_FUNC double fa_add_tail(const fa_add_path *path, const fa_add_run *run, double most, double pr, double sinh_v)
{
    double side = cos(path->bend) * path->c * sinh_v, fall, sum;
    if (!(pr < 0.0))
        return INFINITY;
    fall = exp(-path->c * path->k * sinh_v * path->h * (path->eta - path->reach));
    sum = fall < 1.0 ? path->h * sqrt(1.0 + sinh_v * sinh_v) / sinh_v * fall / (1.0 - fall) : INFINITY;
    return fa_min(sum, 1.0) / (side * FA_PI) *
           exp(run->steps * log(FA_ADD_SURE * most) + path->base + pr * (path->eta - path->reach));
}

/* the points, block by block, until the tail is small or no longer falls below the rounding; 0 where it takes too
 * many */
FA_FUNC int fa_add_points(fa_add_line *line, const fa_add_nodes *s, const fa_add_run *run, double tail_most,
                          double *rounding_out, double *tail_out)
{
    fa_add_block b;
    int k, i, last = FA_ADD_BLOCK - 1;
    *rounding_out = 0.0;
    for (k = 0; k < FA_ADD_POINTS; k += FA_ADD_BLOCK) {
        fa_add_block_place(line, k, &b);
        for (i = 0; i < FA_ADD_BLOCK; i++)
            fa_add_sum(s, line->pr[k + i], line->pi[k + i], i, &b);
        *rounding_out += fa_add_block_finish(line, run, k, &b);
        *tail_out = fa_add_tail(&line->path, run, b.most[last], line->pr[k + last], b.sinh_v[last]);
        if (!(*rounding_out < 1e3) || (double)k * s->n > FA_ADD_PAIRS)
            return 0;
        if (*tail_out < tail_most) {
            line->n = k + FA_ADD_BLOCK;
            return 1;
        }
    }
    return 0;
}

/* a line for eta at the saddle `at`, and its ledger relative to exp(log_size).  0: no line, nothing to read */
FA_FUNC int fa_add_evaluate(fa_add_work *w, const fa_add_run *run, const fa_add_saddle *at, double eta, double log_size,
                            double turn, double aim)
{
    fa_add_line *line = &w->line;
    fa_add_path *path = &line->path;
    fa_add_gaps gaps;
    double rounding, tail, angle;
    int done;
    line->n = 0;
    path->eta = eta;
    path->reach = fa_min(0.45 / at->c, 0.4 * eta);
    if (!fa_add_shape(&w->nodes, &w->axis, run, at, eta + path->reach, turn, 0.5 - log(aim)) ||
        !fa_add_nodes_fill(&w->nodes, run))
        return 0;
    angle = fa_min(w->nodes.least_angle, 1.05);
    path->c = at->c;
    path->bend = 0.5 * angle;
    path->k = tan(path->bend);
    path->a = 0.46 * angle;
    path->h = 2.0 * FA_PI * path->a / (2.0 - log(aim) + w->nodes.amplify);
    path->log_size = log_size;
    path->base = run->steps * w->nodes.log_scale - log_size;
    if (!(1.0 + path->k - sin(path->bend + path->a) / cos(path->bend) > 0.02) ||
        !fa_add_points(line, &w->nodes, run, 0.1 * aim, &rounding, &tail))
        return 0;
    done = line->n;
    line->n = 0;
    fa_add_gaps_at(&w->nodes, run, path, &gaps);
    line->error = fa_add_quadrature(&gaps, run, path) + fa_add_seam(&gaps, run, path) +
                  fa_add_aliases(&w->nodes, run, path);
    line->error = 1.001 * (line->error + tail + rounding * path->h / FA_PI);
    line->lost = FA_ADD_LOST * run->steps;
    if (!(line->error < 0.5))
        return 0;
    line->n = done;
    return 1;
}

#endif
