/* line/mixed_nodes.h -- nodes of a capped line for steps of Gaussian mixtures, and what their sums may be off by.
 *
 * Nodes are uniform in z, z_j = j H exactly, xi = z/s^2.  On |Im xi| <= eta < pi the phases of all terms of w lie
 * within eta, so that with C = cos(eta/2), A and B the posterior means, D = A - B, all at Re xi,
 *
 *   C (1 + w) <= |1 + w| <= 1 + w at Re xi;     |Im l| <= eta D/C;     |Re l - l| <= eta^2 D/C^2
 *
 * docs/algorithms/line.md, "Mixtures".
 */
#ifndef FA_LINE_MIXED_NODES_H
#define FA_LINE_MIXED_NODES_H

#include "capped_nodes.h"

/* log of the size and of the slope */
FA_FUNC void fa_mix_lay(const fa_pair *m, fa_cap_nodes *s)
{
    double *l = s->sum.lr, *gross = s->gross, *moved = s->moved, *spread = s->spread, *b = s->large_i,
           *rough = s->slip, *more = s->large_r, top_p = m->p_top - m->p_from, top_q = -m->q_low, slope = m->slope,
           offset = m->offset;
    int j, n = s->sum.n;
    fa_mix_side(m->n_p, m->p_mean, m->p_log, m->inv_var, n, s->z, s->scratch, s->scratch2, l, moved, rough);
    fa_mix_side(m->n_q, m->q_mean, m->q_log, m->inv_var, n, s->z, s->scratch, s->scratch2, gross, b, more);
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double a = moved[j], p = l[j], line = FA_FMA(slope, s->z[j], offset);
        spread[j] = fa_max(0.0, fa_min(a, top_p - a)) + fa_max(0.0, fa_min(-b[j], top_q + b[j]));
        moved[j] = a - b[j] + m->p_from;
        l[j] = p - gross[j] + line;
        s->log_q[j] = gross[j];
        gross[j] += p + fabs(line);
        rough[j] += more[j] + 4.0 * (fabs(slope * s->z[j]) + fabs(offset));
        s->fine[j] = 48.0 + 2.0 * s->z[j] * s->z[j] * m->inv_var + rough[j];
        rough[j] += 2.0 * fabs(l[j]);
    }
}

/* nodes from z_low to z_high, a step of h in xi, with the cap's window.  0: too many, or no memory */
FA_FUNC int fa_mix_fill(const fa_cap_block *block, fa_cap_nodes *s, double h, double z_low, double z_high)
{
    const fa_cap_windows *w = &block->w;
    double step = fa_from_bits(fa_bits(h * block->sigma * block->sigma) & ~((1ULL << 29) - 1)),
           start = floor(z_low / step) * step, count = ceil((z_high - start) / step) + 1.0,
           inv_width = FA_HALF_ROOT / w->width, cap = w->cap, half_inv = 0.5 * block->inv_var,
           unit = log(step / block->sigma) - FA_LOG_SQRT_2PI + block->pair->log_q0;
    double *z, *log_q, *log_w, *weight, *slope, *bend, *x;
    int j, n;
    if (!(step > 0.0) || !(count < FA_MIX_NODES_MAX - 2 * FA_LANE) || !(fabs(start) < 0x1p20 * step))
        return 0;
    n = ((int)count + 2 * FA_LANE - 1) / (2 * FA_LANE) * (2 * FA_LANE);
    if (!fa_cap_nodes_reserve(s, n))
        return 0;
    s->sum.n = n;
    s->has_logs = 1;
    s->h = step * block->inv_var;
    s->stretch = 1.0;
    s->start = start * block->inv_var;
    s->mean = block->kappa;
    z = s->z, log_q = s->log_q, log_w = s->sum.log_w, weight = s->sum.wr, slope = s->slope, bend = s->bend, x = s->x;
    for (j = 0; j < n; j++)
        z[j] = start + j * step;
    fa_mix_lay(block->pair, s);
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double size = unit + log_q[j] - z[j] * z[j] * half_inv;
        log_w[j] = log_q[j] = size;
        weight[j] = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        x[j] = (z[j] - cap) * inv_width;
        slope[j] = 1.0;
        bend[j] = 0.0;
    }
    fa_cap_edge(s, 1);
    return 1;
}

/* what lies left of the first node, of exp(ul) - 1 (order 1) or exp(ul) - 1 - ul (order 2), |u| <= u, Re u = v, l less
 * its mean.  d/dz log(Q e^(vl)) = (-z + B + v D)/s^2, and B >= q_low, A falls to the left.  inf where it does not fall
 */
FA_FUNC double fa_cap_left_end(const fa_cap_block *block, double v, double u, int order)
{
    const fa_cap_nodes *s = &block->nodes;
    double z = s->z[0], l = s->sum.lr[0], a = s->moved[0], low = -block->pair->q_low, s1 = block->sigma,
           first = -(low + z) / s1, fall = (-z - low - fa_max(0.0, -v) * (a + low)) * block->inv_var,
           off = fabs(s->mean - block->kappa), mass = 0.5 * exp(-0.5 * fa_max(0.0, first) * first), least = INFINITY,
           x = u * fa_max(fabs(l), off);
    if (!fa_cap_falls(block)) /* the loss stays between kappa and l, and Re(ul) below v times that */
        least = mass * exp(fa_max(0.0, fa_max(v * l, -v * off))) *
                (order == 1 ? fa_min(x, 2.0) : fa_min(0.5 * x * x, 2.0 + x));
    if ((v >= 0.0 && least < INFINITY) || !(fall > 1.0 / s1) || !(first > 1.0))
        return least;
    x = u * (fabs(l) + off + 2.0 * fa_max(1.0, block->pair->p_top + low) / (s1 * first));
    return fa_min(least, mass * (2.0 + x + exp(fa_max(0.0, v * l))) +
                             (v < 0.0 ? exp(v * l + s->sum.log_w[0]) / (s->h * s->slope[0] * s1 * s1 * fall) : 0.0));
}

/* what lies right of the last node, for either kind of block.  Up to where the window ends piece by piece: with A the
 * posterior mean under P, which grows, and |B| that under Q, which falls to the right, on a piece d/dz log(Q e^(vl)
 * keep) is at most (-z + v (A(right) + |B(left)|))/s^2, and l at most l(right).  There the trapezoid rule is closed by
 * a segment across the strip, on which its kernel falls faster than the modulus grows */
FA_FUNC double fa_cap_right_end(const fa_cap_block *block, double v, double u)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    int last = s->sum.n - 1, i;
    double z = s->z[last], l = s->sum.lr[last], s1 = block->sigma, inv_var = block->inv_var, tilt = fa_max(0.0, v),
           piece = 0.7 * s1 * s1, beyond = 0.0, size = s->sum.log_w[last], most = block->pair->p_top,
           low = -block->pair->q_low, moved = fa_min(s->moved[last], low),
           mass = (2.0 + u * (fabs(l) + 4.0 + 4.0 / s1)) * s->keep[last] * 0.5 * exp(-0.5 * z * z * inv_var),
           off = s->mean - block->kappa, unit = s->log_q[last] + 0.5 * z * z * inv_var,
           width = s->h * s1 * s1 * s->slope[last], end = w->cap + FA_CAP_CUT * w->width;
    for (i = 0; i < 200; i++) {
        double more, rate, fall = (z - tilt * (most + moved)) * inv_var, here = exp(tilt * l + size);
        if (z >= end)
            return mass + 2.0 * beyond / width + (2.0 + 4.0 * block->strip / s->h) * here;
        if (fall > 1.0 / s1)
            return mass + 2.0 * (beyond + here / fall) / width;
        piece = fa_min(piece, end - z) + 1e-12 * fabs(z);
        more = fa_cap_l(block, z + piece) - off;
        rate = fa_cap_posterior(block, z + piece);
        fall = (z - tilt * (rate + moved)) * inv_var;
        beyond += fa_min(piece, fall > 0.0 ? 1.0 / fall : piece) *
                  exp(size + fa_min(tilt * l + fa_max(0.0, -fall * piece), tilt * more));
        l = more;
        z += piece;
        piece *= 1.05;
        moved = fa_min(rate, low);
        size = unit - 0.5 * z * z * inv_var + fa_log_tail((z - w->cap) / w->width);
    }
    return INFINITY;
}

/* what lies beyond the first and the last node, for exponents with real part v and |u| up to u, of exp(ul) - 1 (order
 * 1) or exp(ul) - 1 - ul (order 2) */
FA_FUNC double fa_cap_ends(const fa_cap_block *block, double v, double u, int order)
{
    return fa_cap_left_end(block, v, u, order) + fa_cap_right_end(block, v, u);
}

/* nodes with steps of about h, or of 1.2 widths of the narrowest edge: `edge` in the loss where it lies, `narrow` in z
 */
FA_FUNC int fa_cap_fill_rough(const fa_cap_block *block, fa_cap_nodes *s, double h, double edge, double narrow,
                              double z_low, double z_high, int all)
{
    double stretch = fa_min(1.0, 1.2 * edge / h);
    if (!block->is_sampled)
        return fa_mix_fill(block, s, fa_min(h, 1.2 * narrow * block->inv_var), z_low, z_high);
    return all ? fa_cap_fill(block, s, h, stretch, z_low, z_high)
               : fa_cap_fill_coarse(block, s, h, stretch, z_low, z_high);
}

#endif
