/* line/capped_real.h -- K of a capped line at real exponents, on given nodes or on the coarse ones. */
#ifndef FA_LINE_CAPPED_REAL_H
#define FA_LINE_CAPPED_REAL_H

#include "mixture_ends.h"

#define FA_CAP_FAR 600.0 /* exponents up to here stand alone */

/* K(v) = steps log E_Q[exp(v L) window], with derivatives, and steps times the tilted chance of a large loss; one:
 * E_Q[exp(v l) window], and rest: that less 1 */
typedef struct {
    double k, d1, d2, jumps, rest, one;
} fa_cap_real;

/* the sums of fa_cap_k where exp(v l) overflows and its product with the weight does not.  The floor's window is a
 * factor of its own there: erfc(y) <= exp(-y^2)/(y sqrt(pi)) far out, where exp(v l) may outweigh it */
FA_FUNC void fa_cap_far_sums(const fa_cap_block *block, const fa_cap_nodes *s, double v, int small_only, int n,
                             double *sums)
{
    const fa_cap_windows *w = &block->w;
    const double *l = s->sum.lr, *weight = s->sum.wr, *log_w = s->sum.log_w, *above = s->above, *x = s->x,
                 *small = s->small;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, many = 0.0, scale = small_only ? w->width / w->floor_width : 0.0,
           shift = small_only ? (w->cap - w->floor) / w->floor_width * FA_HALF_ROOT : 0.0;
    int j;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, many))
    for (j = 0; j < n; j++) {
        double y = x[j] * scale + shift, far = y > 5.0 ? y : 5.0,
               share = !small_only    ? 1.0
                       : j >= s->seen ? 0.0
                       : y <= 5.0     ? 1.0 - above[j]
                                      : 1.0,
               size = v * l[j] + log_w[j] - (y > 5.0 ? far * far + fa_log_v(far) + FA_LOG_2_ROOT_PI : 0.0),
               e = size > -690.0 ? fa_exp_plain_v(fa_min(size, 690.0)) : 0.0, in = share * e;
        s0 += in - (small_only ? small[j] : weight[j]);
        s1 = FA_FMA(in, l[j], s1);
        s2 = FA_FMA(in * l[j], l[j], s2);
        many = FA_FMA(above[j], e, many);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = many;
}

/* one block's part of K, of all its losses up to the cap (small_only = 0) or of those below the floor; inf where it
 * overflows.  add: to be added to E_Q */
FA_FUNC fa_cap_real fa_cap_block_k(const fa_cap_block *block, const fa_cap_nodes *s, double v, int small_only,
                                   double add)
{
    fa_cap_real out = {INFINITY, 0.0, 0.0, 0.0, INFINITY, INFINITY};
    const double *l = s->sum.lr, *weight = small_only ? s->small : s->sum.wr, *large = s->large;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, many = 0.0, missing = block->w.q_mass, one, mean,
           base = v < 0.0 && v * l[0] < -FA_CAP_FAR ? v * l[0] : 0.0; /* where no loss is near log(1-q) */
    int j, n = s->sum.n, below;
    if (small_only && s->seen < n)
        n = (s->seen + FA_LANES - 1) / FA_LANES * FA_LANES;
    while (small_only && block->pair && n > 16 && weight[n - 9] < 1e-300)
        n -= FA_LANES;
    if (v * l[0] > FA_CAP_FAR && block->pair)
        return out;
    if (fa_max(v * l[0], v * l[n - 1]) > FA_CAP_FAR) {
        double sums[4];
        if (!s->has_logs)
            return out;
        fa_cap_far_sums(block, s, v, small_only, n, sums);
        s0 = sums[0], s1 = sums[1], s2 = sums[2], many = sums[3];
        if (!(s0 < 1e290))
            return out;
    }
    else {
        FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, many))
        for (j = 0; j < n; j++) {
            double m, e = fa_exp_both_v(v * l[j] - base, &m), a = weight[j] * l[j];
            s0 = FA_FMA(weight[j], m, s0);
            s1 = FA_FMA(a, e, s1);
            s2 = FA_FMA(a * l[j], e, s2);
            many = FA_FMA(large[j], e, many);
        }
    }
    for (j = s->lifted; small_only && j < s->sum.n; j++)
        missing += large[j];
    out.rest = s0 - missing + add;
    one = 1.0 + out.rest;
    below = base < 0.0 || ((v < 0.0 || block->walled) && out.rest < -0.5);
    if (below) { /* losses from log(1-q) on: the sum itself has more digits */
        one = add > 0.0 ? add * exp(-base) : 0.0;
        for (j = 0; j < n; j++)
            one += weight[j] * exp(fa_min(FA_CAP_FAR, v * l[j] - base));
        out.rest = one * exp(base) - 1.0;
    }
    out.one = one * exp(base);
    mean = s1 / one;
    out.k = block->steps * (v * s->mean + (below ? base + log(one) : log1p(out.rest)));
    out.d1 = block->steps * (s->mean + mean);
    out.d2 = block->steps * (s2 / one - mean * mean);
    out.jumps = block->steps * many / one;
    return out;
}

/* K on the coarse nodes, of all losses up to the caps or of those below the floors; inf where it overflows.  rest is
 * not set */
FA_FUNC fa_cap_real fa_cap_k(const fa_cap_job *job, double v, int small_only)
{
    fa_cap_real out = {0.5 * job->mu2 * v * (v - 1.0), job->mu2 * (v - 0.5), job->mu2, 0.0, 0.0, 0.0};
    int b;
    for (b = 0; b < job->n; b++) {
        fa_cap_real r = fa_cap_block_k(job->blocks + b, &job->blocks[b].coarse, fa_cap_tilt(job, v), small_only, 0.0);
        out.k += r.k;
        out.d1 += job->is_add ? -r.d1 : r.d1;
        out.d2 += r.d2;
        out.jumps += r.jumps;
        if (!(r.k < 1e300))
            break;
    }
    return out;
}

/* log R(v) = log(B0^T - Bb^T) on the coarse nodes, T the steps of each block */
FA_FUNC double fa_cap_log_r(const fa_cap_job *job, double v)
{
    double k = 0.5 * job->mu2 * v * (v - 1.0), none = 0.0;
    int b;
    for (b = 0; b < job->n && k < 1e300; b++) {
        const fa_cap_block *block = job->blocks + b;
        fa_cap_real r = fa_cap_block_k(block, &block->coarse, fa_cap_tilt(job, v), 0, 0.0);
        k += r.k;
        none += job->has_floor ? block->steps * log1p(-fa_min(0.9999999, r.jumps / block->steps)) : 0.0;
    }
    return job->has_floor && k < 1e300 ? k + log(-expm1(none)) : k;
}

/* real exponents for which exp(v l) does not outweigh the cap's window where the nodes end */
FA_FUNC double fa_cap_block_last_v(const fa_cap_block *block)
{
    double end = block->w.cap + FA_CAP_CUT * block->w.width;
    return (end + block->sigma * block->sigma * (FA_CAP_CUT / block->w.width - 1.0 / block->sigma)) /
           fa_cap_posterior(block, end);
}

FA_FUNC double fa_cap_last_v(const fa_cap_job *job)
{
    double last = job->walled ? 1e30 : 1e15; /* about 1/eta */
    int b;
    for (b = 0; b < job->n; b++)
        if (!job->blocks[b].pair)
            last = fa_min(last, job->blocks[b].last_v);
        else if (!job->is_add)
            last = fa_min(last, fa_cap_block_last_v(job->blocks + b));
    return last;
}

/* exponents up to which the small losses' sums hold */
FA_FUNC double fa_cap_last_small_v(const fa_cap_job *job)
{
    double last = INFINITY;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        double most = block->may_split ? fa_cap_l(block, block->w.floor)
                                              : block->coarse.sum.lr[block->coarse.sum.n - 1];
        last = fa_min(last, 0.8 * FA_CAP_FAR / fa_max(1e-300, most));
    }
    return last;
}

#endif
