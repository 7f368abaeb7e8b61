/* renyi/mixture_moments.h -- K(u), K' and K'' of two mixtures of Gaussians with one noise, by the trapezoidal rule on
 * the whole line: nodes, step, aliases, and what is left out.  docs/algorithms/quadrature.md, "Mixtures of Gaussians".
 *
 * Lengths are standard deviations, from the mean that is heaviest in Q.  P and Q may have any means in common; whatever
 * the order of their weights, the means of the components under their shares at z increase in z.
 */
#ifndef FA_MIXTURE_MOMENTS_H
#define FA_MIXTURE_MOMENTS_H

#include "moments.h"

#define FA_MIXTURE_SMALL 110.0
#define FA_MIXTURE_REACH 15.0
#define FA_MIXTURE_WORK  (1 << 20) /* nodes times components, and stretches looked at */

typedef struct {
    int n, origin;
    double inv_sigma;
    const double *mean, *weight[2]; /* increasing means; P, Q: from 1/2 on the one at `origin` is what others leave */
    double low[2], high[2];         /* the outermost means that have a weight, from the origin */
    double small, spare, reach;     /* -log of aliases and of what is passed over; from the last centre to the tails */
} fa_mixture;

typedef struct {
    double z[FA_MOMENT_NODES], log[2][FA_MOMENT_NODES], off[2][FA_MOMENT_NODES], centre[2][FA_MOMENT_NODES];
} fa_mixture_at;

/* what is summed at one u >= -1/2: exponents of W = P^(1 + u) Q^-u, P and Q at a point, and their centres */
typedef struct {
    double z, loss, log[3], centre[2];
} fa_mixture_edge;

FA_INLINE double fa_mixture_place(const fa_mixture *m, int i)
{
    return (m->mean[i] - m->mean[m->origin]) * m->inv_sigma;
}

/* place, weight and half the square of the place of a component beside the origin; -1: it has no weight */
FA_INLINE double fa_mixture_part(const fa_mixture *m, int side, int i, double *d, double *w, double *log_w)
{
    *d = fa_mixture_place(m, i);
    *w = m->weight[side][i];
    *log_w = *w > 0.0 ? log(*w) : 0.0;
    return i == m->origin || !(*w > 0.0) ? -1.0 : 0.5 * *d * *d;
}

/* log of one side over the normal density at the origin, its error, and the mean under its shares.  By the sum of
 * w (e^y - 1), which vanish with the weights, where that is small, and by w e^y over the largest of them elsewhere */
FA_FUNC void fa_mixture_side(const fa_mixture *m, int side, int n, fa_mixture_at *at)
{
    double top[FA_MOMENT_NODES], most[FA_MOMENT_NODES], sum[FA_MOMENT_NODES], all[FA_MOMENT_NODES],
        rough[FA_MOMENT_NODES], gross[FA_MOMENT_NODES], deep[FA_MOMENT_NODES], *centre = at->centre[side],
        *value = at->log[side], own = m->weight[side][m->origin];
    int i, j, leaves = own >= 0.5;
    for (j = 0; j < n; j++) {
        top[j] = own > 0.0 ? log(own) : -INFINITY;
        most[j] = sum[j] = rough[j] = gross[j] = deep[j] = centre[j] = 0.0;
    }
    for (i = 0; i < m->n; i++) {
        double d, w, log_w, bend = fa_mixture_part(m, side, i, &d, &w, &log_w);
        if (bend < 0.0)
            continue;
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double y = FA_FMA(d, at->z[j], -bend);
            most[j] = fa_max(most[j], y);
            top[j] = fa_max(top[j], y + log_w);
        }
    }
    for (j = 0; j < n; j++)
        all[j] = own > 0.0 ? exp(log(own) - top[j]) : 0.0;
    for (i = 0; i < m->n; i++) {
        double d, w, log_w, bend = fa_mixture_part(m, side, i, &d, &w, &log_w);
        if (bend < 0.0)
            continue;
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double y = FA_FMA(d, at->z[j], -bend), x = y + log_w - top[j], less,
                   e = x < -690.0 ? 0.0 : fa_exp_plain_v(x);
            (void)fa_exp_both_v(y, &less);
            all[j] += e;
            sum[j] += w * less;
            centre[j] += d * e;
            gross[j] += w * fabs(less);
            rough[j] += e * 8.0 * (fabs(d * at->z[j]) + bend);
            deep[j] += e * fabs(log_w);
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        int near = fabs(sum[j]) < 0.5 && most[j] < 690.0;
        double whole = near ? fa_log1p_plain_v(fa_max(-0.5, fa_min(0.5, sum[j]))) : top[j] + fa_log_v(all[j]);
        value[j] = whole;
        centre[j] /= all[j];
        at->off[side][j] =
            FA_EPS * (rough[j] / all[j] + (leaves ? 0.0 : 8.0) + (m->n + 8.0) * fabs(whole) +
                      (near ? 16.0 * gross[j] : 8.0 + 8.0 * fabs(top[j]) + 4.0 * deep[j] / all[j]));
    }
}

FA_FUNC void fa_mixture_look(const fa_mixture *m, double u, double z, fa_mixture_edge *out)
{
    fa_mixture_at at;
    double normal = -0.5 * z * z - FA_LOG_SQRT_2PI, p, q;
    at.z[0] = z;
    fa_mixture_side(m, 0, 1, &at);
    fa_mixture_side(m, 1, 1, &at);
    p = at.log[0][0], q = at.log[1][0];
    out->z = z;
    out->loss = p - q;
    out->log[1] = normal + p + at.off[0][0];
    out->log[2] = normal + q + at.off[1][0];
    out->log[0] = normal + p + u * (p - q) + (1.0 + fabs(u)) * (at.off[0][0] + at.off[1][0]);
    out->centre[0] = at.centre[0][0];
    out->centre[1] = at.centre[1][0];
}

/* Upper bounds of the three between two points: slopes are a centre less z, and the centres of P and Q increase */
FA_FUNC void fa_mixture_tops(const fa_mixture_edge *a, const fa_mixture_edge *b, double u, double *top)
{
    double most[3];
    int k;
    most[0] = (1.0 + u) * b->centre[0] - u * (u > 0.0 ? a : b)->centre[1];
    most[1] = b->centre[0];
    most[2] = b->centre[1];
    for (k = 0; k < 3; k++) {
        double at = fa_max(a->z, fa_min(b->z, most[k] + 1e-11 * (fabs(most[k]) + 1.0))),
               rise = (at - a->z) * (most[k] - 0.5 * (at + a->z));
        top[k] = a->log[k] + fa_max(0.0, rise) + 1e-9 * (1.0 + fabs(rise)) + 32.0 * FA_EPS * a->z * a->z;
    }
}

/* A step, what aliases make of W, P and Q at most, relative to their integrals, and by how much the loss on the strip
 * may differ from that of the real part */
FA_FUNC double fa_mixture_step(const fa_mixture *m, double u, double *alias_out, double *wild_out)
{
    double wide = fa_max(m->high[0] - m->low[0], m->high[1] - m->low[1]), q_wide = m->high[1] - m->low[1], step = 0.0,
           d = fa_min(8.0, 0.95 * FA_PI / fa_max(wide, 1e-3)), next;
    int i;
    *wild_out = INFINITY;
    for (i = 0; i < 60; i++, d *= 0.85) {
        double more = 0.5 * d * d, turn = -fa_max(u, 0.0) * log(cos(0.5 * q_wide * d)) * (1.0 + 1e-13);
        next = 2.0 * FA_PI * d / (more + turn + m->small);
        if (!(next > step))
            break;
        step = next;
        *wild_out = d * fa_max(m->high[0] - m->low[1], m->high[1] - m->low[0]) - log(cos(0.5 * wide * d));
    }
    step = fa_from_bits(fa_bits(step) & ~((1ULL << 29) - 1)); /* j * step is exact */
    *alias_out = 2.01 * exp(-m->small);
    return step;
}

/* Sums of one block of nodes */
FA_FUNC void fa_mixture_block(const fa_mixture *m, double first, double step, fa_moment_sums *s)
{
    fa_mixture_at at;
    fa_moment_nodes nodes;
    double unit = log(step) - FA_LOG_SQRT_2PI;
    int j;
    for (j = 0; j < FA_MOMENT_NODES; j++)
        at.z[j] = first + j * step;
    fa_mixture_side(m, 0, FA_MOMENT_NODES, &at);
    fa_mixture_side(m, 1, FA_MOMENT_NODES, &at);
    nodes.n = FA_MOMENT_NODES;
    FA_PRAGMA(omp simd)
    for (j = 0; j < FA_MOMENT_NODES; j++) {
        double z = at.z[j], p = at.log[0][j], l = p - at.log[1][j];
        nodes.loss[j] = l;
        nodes.loss_off[j] = at.off[0][j] + at.off[1][j] + FA_EPS * fabs(l);
        nodes.log_p[j] = p + unit - 0.5 * z * z;
        nodes.p_off[j] = at.off[0][j] + FA_EPS * (80.0 + 2.0 * z * z + 2.0 * fabs(nodes.log_p[j]));
    }
    fa_moments_add(s, &nodes);
}

/* Where W is largest, about: up the slopes from both ends, and a place between them where it stops to rise */
FA_FUNC void fa_mixture_peak(const fa_mixture *m, double u, double low, double high, fa_mixture_edge *best)
{
    double from[3] = {low, high, 0.5 * (low + high)};
    int k, i;
    best->log[0] = -INFINITY;
    for (k = 0; k < 3; k++) {
        double z = from[k], next, left = low, right = high;
        for (i = 0; i < 60; i++, z = next) {
            fa_mixture_edge here;
            fa_mixture_look(m, u, z, &here);
            if (here.log[0] > best->log[0])
                *best = here;
            next = (1.0 + u) * here.centre[0] - u * here.centre[1];
            if (k == 2) {
                *(next > z ? &left : &right) = z;
                next = 0.5 * (left + right);
            }
            if (fabs(next - z) < 0.05)
                break;
        }
    }
}

/* All sums at one u >= -1/2.  0: too much work */
FA_FUNC int fa_mixture_sum(const fa_mixture *m, double u, fa_moment_sums *s)
{
    double alias, wild, step = fa_mixture_step(m, u, &alias, &wild), size = 1.0 + fabs(u),
           spread = fa_max(m->high[0], m->high[1]) - fa_min(m->low[0], m->low[1]), wide = FA_MOMENT_NODES * step,
           top[3],
           low = (1.0 + u) * m->low[0] - u * (u > 0.0 ? m->high[1] : m->low[1]),
           high = (1.0 + u) * m->high[0] - u * (u > 0.0 ? m->low[1] : m->high[1]), at, end, stretch = 1.0, most, shrink;
    int k, tries = 0;
    fa_mixture_edge a, b;
    low = fa_min(low, fa_min(m->low[0], m->low[1])) - m->reach;
    high = fa_max(high, fa_max(m->high[0], m->high[1])) + m->reach;
    at = floor(low / wide), end = ceil(high / wide);
    if (!(end - at < 0x1p28 && spread < 1e6))
        return 0;
    fa_mixture_peak(m, u, low, high, &a);
    most = a.log[0];
    s->u = u;
    s->about = a.loss;
    s->reference = most > 500.0 ? most : 0.0;
    fa_mixture_look(m, u, at * wide, &a);
    fa_mixture_look(m, u, end * wide, &b);
    /* beyond them all fall by e^-reach a standard deviation at least, and losses grow by `spread` */
    most -= m->spare;
    wild += fabs(s->about);
    for (k = 0; k < 3; k++) {
        double left = 1.0 + wild + fabs(a.loss) + spread, right = 1.0 + wild + fabs(b.loss) + spread;
        s->slack += 2.0 * size * (1.0 + step) * left * left * exp(a.log[k] - s->reference);
        s->slack += 2.0 * size * (1.0 + step) * right * right * exp(b.log[k] - s->reference);
    }
    while (at < end) {
        double far = fa_min(at + stretch, end), count = (far - at) * FA_MOMENT_NODES, reach;
        if (++tries > FA_MIXTURE_WORK / FA_MOMENT_NODES || s->blocks * m->n > FA_MIXTURE_WORK / FA_MOMENT_NODES)
            return 0;
        fa_mixture_look(m, u, far * wide, &b);
        fa_mixture_tops(&a, &b, u, top);
        reach = 1.0 + wild + fabs(a.loss) + spread * (far - at) * wide;
        if (top[0] < most && top[1] < -m->spare && top[2] < -m->spare) {
            for (k = 0; k < 3; k++)
                s->slack += 2.0 * size * reach * reach * count * step * exp(top[k] - s->reference);
            stretch *= 2.0;
        }
        else if (stretch > 1.0) {
            stretch = 1.0;
            continue;
        }
        else {
            if (top[0] - s->reference > 600.0)
                s->slack = INFINITY;
            fa_mixture_block(m, at * wide, step, s);
        }
        a = b;
        at = far;
    }
    shrink = exp(-s->reference);
    wild = (1.0 + wild) * (1.0 + wild);
    s->slack += 4.0 * alias * (s->second + wild * s->mass + (wild + size) * shrink);
    return 1;
}

/* K(u), K'(u), K''(u) of P against Q; -inf to inf where it takes too much work.  The pair of the other direction is the
 * one of -1 - u */
FA_FUNC void fa_mixture_moments(const fa_mixture *pair, double u, fa_moments *out)
{
    fa_mixture m = *pair;
    fa_moment_sums sums = {.u = u};
    int is_back = u < -0.5, i, k;
    if (is_back) {
        m.weight[0] = pair->weight[1];
        m.weight[1] = pair->weight[0];
        u = -1.0 - u;
    }
    for (k = 0; k < 2; k++) {
        m.low[k] = INFINITY, m.high[k] = -INFINITY;
        for (i = 0; i < m.n; i++)
            if (m.weight[k][i] > 0.0) {
                m.low[k] = fa_min(m.low[k], fa_mixture_place(&m, i));
                m.high[k] = fa_max(m.high[k], fa_mixture_place(&m, i));
            }
    }
    if (!fa_mixture_sum(&m, u, &sums))
        sums.slack = INFINITY;
    fa_moments_of(&sums, is_back, out);
}

FA_FUNC void fa_mixture_moments_block(int components, const double *mean, const double *p, const double *q, int origin,
                                      double sigma, int64_t n, const double *u, double *rows_out)
{
    fa_mixture m = {.n = components, .origin = origin, .inv_sigma = 1.0 / sigma, .mean = mean, .weight = {p, q},
                    .small = FA_MIXTURE_SMALL, .spare = FA_MIXTURE_SMALL, .reach = FA_MIXTURE_REACH};
    fa_moments found;
    int64_t i;
    for (i = 0; i < n; i++) {
        fa_mixture_moments(&m, u[i], &found);
        memcpy(rows_out + 6 * i, &found, sizeof(found));
    }
}

#endif
