/* line/mixture_nodes.h -- nodes of a capped line for steps of Gaussian mixtures, and what their sums may be off by.
 *
 * Nodes are uniform in z, z_j = j H exactly, xi = z/s^2.  On |Im xi| <= eta < pi the phases of all terms of w lie
 * within eta, so that with C = cos(eta/2), A and B the posterior means, D = A - B, all at Re xi,
 *
 *   C (1 + w) <= |1 + w| <= 1 + w at Re xi;     |Im l| <= eta D/C;     |Re l - l| <= eta^2 D/C^2
 *
 * docs/algorithms/line.md, "Mixtures".
 */
#ifndef FA_LINE_MIXTURE_NODES_H
#define FA_LINE_MIXTURE_NODES_H

#include "capped_nodes.h"

/* log of the size and of the slope */
FA_FUNC void fa_mix_lay(const fa_pair *m, fa_cap_nodes *s)
{
    double *l = s->sum.lr, *gross = s->gross, *moved = s->moved, *spread = s->spread, *b = s->large_i, *rough = s->slip,
           *more = s->large_r, top_p = m->p_top - m->p_from, top_q = -m->q_low, slope = m->slope, offset = m->offset;
    int j, n = s->sum.n;
    fa_mix_side(m->n_p, m->p_mean, m->p_log, m->inv_var, n, s->z, l, moved, rough);
    fa_mix_side(m->n_q, m->q_mean, m->q_log, m->inv_var, n, s->z, gross, b, more);
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
    if (!(step > 0.0) || !(count > 0.0) || !(count < FA_MIX_NODES_MAX - 2 * FA_LANES) || !(fabs(start) < 0x1p28 * step))
        return 0;
    n = ((int)count + 2 * FA_LANES - 1) / (2 * FA_LANES) * (2 * FA_LANES);
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

#endif
