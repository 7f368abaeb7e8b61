/* line/mixture_ends.h -- what lies beyond the nodes and the caps of sampled Gaussians and mixtures. */
#ifndef FA_LINE_MIXTURE_ENDS_H
#define FA_LINE_MIXTURE_ENDS_H

#include "mixture_nodes.h"

/* what lies left of the first node, of exp(ul) - 1 (order 1) or exp(ul) - 1 - ul (order 2), |u| <= u, Re u = v, l less
 * its mean.  d/dz log(Q e^(vl)) = (-z + B + v D)/s^2, and B >= q_low, A falls to the left.  inf where it does not fall
 */
FA_FUNC double fa_cap_left_end(const fa_cap_block *block, double v, double u, int order)
{
    const fa_cap_nodes *s = &block->nodes;
    double z = s->z[0], l = s->sum.lr[0], a = s->moved[0], low = -block->pair->q_low, s1 = block->sigma,
           first = -(low + z) / s1, fall = (-z - low - fa_max(0.0, -v) * (a + low)) * block->inv_var,
           mass = first > 0.0 ? 0.5 * exp(-0.5 * first * first) : 1.0, off = fabs(s->mean - block->kappa),
           least = INFINITY, x = u * fa_max(fabs(l), off);
    if (!block->falls) /* the loss stays between kappa and l, and Re(ul) below v times that */
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

/* what lies left of the first node of E_Q[exp(x l)], no loss falling without end: l is at least that of log(1-q), and
 * at most its value at the node; and for x < 0 the logarithm of exp(x l) Q falls by as much as there, or more */
FA_FUNC double fa_cap_plain_left(const fa_cap_block *block, double x)
{
    const fa_cap_nodes *s = &block->nodes;
    double first = s->z[0] / block->sigma, fall = -s->z[0] + x * fa_cap_posterior(block, s->z[0]), /* in X */
           most = fa_max(0.0, fa_max(x * s->sum.lr[0], -x * (s->mean - block->kappa))),
           left = 0.5 * exp(fa_min(600.0, most - 0.5 * first * first));
    if (x < 0.0 && fall > 0.0)
        left = fa_min(left, exp(fa_min(600.0, s->sum.log_w[0] + x * s->sum.lr[0])) *
                                (1.0 + 1.0 / (fall * s->h * s->slope[0])));
    return left;
}

/* what lies beyond them of e^L - 1 - L, which has L itself, not L less its mean.  Left of the nodes L is between kappa
 * and 0, where no loss falls without end.  Right of them L is at most L less its mean, for the mean is below 0 */
FA_FUNC double fa_cap_mean_ends(const fa_cap_block *block)
{
    double first = block->nodes.z[0] / block->sigma, kappa = block->kappa;
    return fa_cap_right_end(block, 1.0, 1.0) + (block->falls ? fa_cap_left_end(block, 0.0, 1.0, 2)
                                                             : 0.5 * exp(-0.5 * first * first) * kappa * kappa);
}

/* what lies beyond the first and the last node; order 0: of the mean */
FA_FUNC double fa_cap_ends(const fa_cap_block *block, double v, double u, int order)
{
    if (order == 0)
        return fa_cap_mean_ends(block);
    return fa_cap_left_end(block, v, u, order) + fa_cap_right_end(block, v, u);
}

/* log of a factor that keeps what is beyond a block's cap within doubles */
FA_INLINE double fa_cap_raise(const fa_cap_block *block)
{
    return fa_max(0.0, -600.0 - block->w.log_q);
}

/* weights beyond a block's cap times exp(fa_cap_raise), each cell's curvature added, in the nodes' scratch; in scratch2
 * what the curvature of the loss costs for each unit of a */
FA_FUNC void fa_cap_weigh_beyond(fa_cap_block *block)
{
    fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    double s2 = block->sigma * block->sigma, h = s->h, cell = exp(2.0 * h) * h * h / 8.0,
           stiff = 1.0 / s2 + 1.0 / (w->width * w->width), raise = fa_cap_raise(block), *beyond = s->scratch,
           *bent = s->scratch2;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double f = s->slope[j], u0 = fabs(s->z[j] - w->cap) + h * s2 + 0.8 * w->width,
               b = f * f * s2 * s2 * stiff +
                   f * s->bend[j] * (fabs(s->z[j]) + h * s2 + u0 * s2 / (w->width * w->width)) + 3.0 * s->bend[j] + 0.5;
        beyond[j] = s->beyond[j] * fa_cap_swell(fa_max(-690.0, s->log_q[j] + raise) + cell * b);
        bent[j] = cell * s->spread[j];
    }
}

/* what E_Q[e^(al) keep], a < 0, may be off by: its nodes' quadrature and ends.  Re l >= 0 in the strip, where no loss
 * falls without end; else the moduli are for FA_MIX_PUT as well */
FA_FUNC double fa_cap_back_error(const fa_cap_block *block, double a)
{
    if (block->falls)
        return a >= FA_MIX_PUT ? block->moduli.back + fa_cap_ends(block, a, -a, 1) : INFINITY;
    return (block->moduli.right + fa_cap_ends(block, 0.0, -a, 1)) *
           exp(-a * fa_max(0.0, block->nodes.mean - block->kappa));
}

/* sums beyond the cap at a, and these times the loss and its square, with what is beyond the nodes; log of their factor
 */
FA_FUNC double fa_cap_beyond_sums(const fa_cap_block *block, double a, double *sums)
{
    const fa_cap_nodes *s = &block->nodes;
    const double *l = s->sum.lr, *beyond = s->scratch, *bent = s->scratch2;
    double loss_end = l[s->sum.n - 1] + s->mean,
           raise = fa_cap_raise(block),
           rest = exp(fa_min(fa_log_tail(s->z[s->sum.n - 1] / block->sigma), block->w.log_q) + raise),
           j0 = rest * exp(a * loss_end), j1 = j0 * loss_end, j2 = j1 * loss_end;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : j0, j1, j2))
    for (j = 0; j < n; j++) {
        double loss = l[j] + s->mean, f = beyond[j] * fa_exp_plain_v(fa_max(-700.0, a * loss - a * bent[j]));
        j0 += f;
        j1 += f * loss;
        j2 += f * loss * loss;
    }
    sums[0] = j0, sums[1] = j1, sums[2] = j2;
    return raise;
}

#endif
