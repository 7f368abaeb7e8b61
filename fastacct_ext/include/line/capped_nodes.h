/* line/capped_nodes.h -- nodes of a capped line: losses and weights on the real axis, uniform in z on the left and in
 * the loss on the right.
 *
 *   l = a log(1 + e^xi), xi = j h, a <= 1;   X = log(e^l - 1) = log_odds + (z - 1/2)/sigma^2;   weight = h Q(z) dz/dxi
 *
 * For Im u = t the integrand turns as exp(i t l): a map that is uniform in l needs a step of about pi/t, one that is
 * uniform in z a step for the steepest place.  Analytic for |Im xi| < pi; |Im l| <= a |Im xi|.  Bounds of f = dX/dxi
 * and its derivatives: docs/algorithms/line.md.
 */
#ifndef FA_LINE_CAPPED_NODES_H
#define FA_LINE_CAPPED_NODES_H

#include "capped_closed.h"

#define FA_CAP_NODES_MAX 8192
#define FA_MIX_NODES_MAX 32768 /* of mixtures, whose nodes are uniform in z */
#define FA_CAP_STRIP     0.8   /* |Im xi| that `bend` is made for */
#define FA_MIX_PUT       -4.0  /* the least exponent that mixtures on both sides have nodes for: line/mixture_nodes.h */

/* room for n nodes; 0 when out of memory */
FA_FUNC int fa_cap_nodes_reserve(fa_cap_nodes *s, int n)
{
    size_t c = ((size_t)n + 63) / 64 * 64;
    if (n <= s->capacity)
        return 1;
    free(s->memory);
    s->capacity = 0;
    s->memory = fa_alloc(sizeof(double) * FA_CAP_ARRAYS * (c + FA_CAP_GAP) + 64);
    if (!s->memory)
        return 0;
    fa_cap_nodes_lay(s, fa_cap_align(s->memory), c);
    return 1;
}

/* xi where a log(1 + e^xi) = l */
FA_INLINE double fa_cap_xi(double l, double stretch)
{
    double r = l / stretch;
    return r > 30.0 ? r : r < 1e-8 ? log(r) : log(expm1(r));
}

/* keep and 1 - keep from the first node of the edge on */
FA_INLINE void fa_cap_edge(fa_cap_nodes *s, const int all)
{
    double *weight = s->sum.wr, *log_w = s->sum.log_w, *x = s->x, *keep = s->keep, *beyond = s->beyond;
    int j, n = s->sum.n, from;
    for (from = n; from > 0 && x[from - 1] > -7.5; from--) /* left of it 1 - keep < 2e-26 */
        ;
    from = from / FA_LANES * FA_LANES;
    FA_PRAGMA(omp simd)
    for (j = 0; j < (all ? from : 0); j++) {
        double y = fa_min(26.3, -x[j]);
        keep[j] = 1.0;
        beyond[j] = 0.5 * fa_exp_plain_v(-y * y); /* at least 1 - keep */
    }
    FA_PRAGMA(omp simd)
    for (j = from; j < n; j++) {
        double half = 0.5 * fa_erfc_v(fa_min(FA_ERFC_END, fabs(x[j]))), k = x[j] > 0.0 ? half : 1.0 - half;
        if (all) {
            beyond[j] = x[j] > 0.0 ? 1.0 - half : half;
            keep[j] = k;
            log_w[j] += fa_log_v(fa_max(k, 1e-300));
        }
        weight[j] *= k;
    }
    s->edge = from;
}

/* the share of a step that is above the floor left of where its window counts: the window's value there, less where
 * many steps add it up */
FA_INLINE double fa_cap_unseen(const fa_cap_block *block) { return 2e-18 / (1.0 + 1e-4 * block->steps); }

/* the floor's window on the nodes as they are */
FA_FUNC void fa_cap_set_floor(const fa_cap_block *block, fa_cap_nodes *s)
{
    const fa_cap_windows *w = &block->w;
    double scale = w->width / w->floor_width, shift = (w->cap - w->floor) / w->floor_width * FA_HALF_ROOT;
    double *weight = s->sum.wr, *x = s->x, *above = s->above, *large = s->large, *small = s->small;
    double seen = -sqrt(38.5 + log1p(1e-4 * block->steps)); /* erfc(6.2)/2 < 1e-18 */
    int j, n = s->sum.n, from;
    for (from = n; from > 0 && x[from - 1] * scale + shift > seen; from--)
        ;
    s->lifted = from = from / FA_LANES * FA_LANES;
    s->seen = n;
    memset(above, 0, sizeof(double) * (size_t)from);
    memset(large, 0, sizeof(double) * (size_t)from);
    memcpy(small, weight, sizeof(double) * (size_t)from);
    FA_PRAGMA(omp simd)
    for (j = from; j < n; j++) {
        double y = x[j] * scale + shift, half = 0.5 * fa_erfc_v(fa_min(FA_ERFC_END, fabs(y))),
               up = y > 0.0 ? 1.0 - half : half;
        above[j] = up;
        large[j] = weight[j] * up;
        small[j] = weight[j] * (y > 0.0 ? half : 1.0 - half);
    }
}

/* log of the floor's window at a node, from above: erfc(y) <= exp(-y^2)/(y sqrt(pi)) */
FA_INLINE double fa_cap_log_low(const fa_cap_block *block, const fa_cap_nodes *s, int j)
{
    const fa_cap_windows *w = &block->w;
    double y = s->x[j] * w->width / w->floor_width + (w->cap - w->floor) / w->floor_width * FA_HALF_ROOT;
    return y < 1.0 ? 0.0 : -y * y - log(y) - 1.26;
}

/* Small losses end where exp(v l) begins to outweigh their window, which is negligible there, or at the last node; what
 * is beyond counts as large.  Returns the window where it is cut off, times the cap's where the nodes end, beyond which
 * all losses are counted as ends */
FA_FUNC double fa_cap_cut_low(const fa_cap_block *block, fa_cap_nodes *s, double v)
{
    double least = INFINITY;
    int j, n = s->sum.n, last = n - 1;
    for (j = s->lifted; j < n; j++) {
        double low = fa_cap_log_low(block, s, j), size = v * s->sum.lr[j] + s->sum.log_w[j] + low;
        if (low < -9.0 && size < least) {
            least = size;
            last = j;
        }
    }
    s->seen = last + 1;
    for (j = s->seen; j < n; j++) {
        s->small[j] = 0.0;
        s->above[j] = 1.0;
        s->large[j] = s->sum.wr[j];
    }
    return (last < n - 1 ? 1.0 : s->keep[last]) * exp(fa_cap_log_low(block, s, last));
}

/* no floor, and none of the losses counts as large */
FA_FUNC void fa_cap_no_floor(fa_cap_nodes *s)
{
    s->lifted = s->seen = s->sum.n;
    memset(s->large, 0, sizeof(double) * (size_t)s->sum.n);
    memset(s->above, 0, sizeof(double) * (size_t)s->sum.n);
}

/* What the bounds of a line's nodes are made of.  |f'/f| for |Im xi| <= FA_CAP_STRIP: min(1 + p/C, b w p/(2 C))/(cos(
 * eta/2) (1 + w)), p = a w/(e^l - 1), b = 1 - a, C = cos(b eta/2); l'' = a w/(1 + w)^2; rounding, z's own in it */
FA_FUNC void fa_cap_bends(const fa_cap_block *block, fa_cap_nodes *s)
{
    double b = 1.0 - s->stretch, inv_c = 1.0 / cos(0.5 * FA_CAP_STRIP * b), inv_h = 1.0 / cos(0.5 * FA_CAP_STRIP),
           h = s->h, start = s->start, inv_var = block->inv_var, odds = block->log_odds;
    const double *slope = s->slope, *l = s->sum.lr, *zs = s->z;
    double *bend = s->bend, *spread = s->spread, *fine = s->fine, *slip = s->slip;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double w = fa_exp_plain_v(fa_min(start + j * h, 300.0)), p = slope[j] * (1.0 + w) * fa_exp_plain_v(-l[j]),
               one = 1.0 + w, z = fabs(zs[j]);
        bend[j] = fa_min(1.0 + p * inv_c, 0.5 * b * w * p * inv_c) * inv_h / one;
        spread[j] = s->stretch * fa_min(w / (one * one), 1.0 / one);
        fine[j] = 40.0 + 2.0 * z * z * inv_var +
                  z * (14.0 + 6.0 * fabs(odds + (zs[j] - 0.5) * inv_var) + 2.0 * fabs(odds));
        slip[j] = 8.0 * l[j];
    }
    s->moved[0] = -expm1(-l[0]);
    s->moved[n - 1] = -expm1(-l[n - 1]);
}

/* nodes from z_low to z_high with the cap's window; losses counted from log(1-q).  Without `all`, losses and weights
 * alone.  0: too many, or no memory */
FA_INLINE int fa_cap_fill_some(const fa_cap_block *block, fa_cap_nodes *s, double h, double stretch, double z_low,
                               double z_high, const int all)
{
    const fa_cap_windows *w = &block->w;
    double low = fa_cap_xi(fa_cap_l(block, z_low), stretch), high = fa_cap_xi(fa_cap_l(block, z_high), stretch), count,
           s2 = block->sigma * block->sigma, odds = block->log_odds;
    double half_inv = 0.5 * block->inv_var, inv_width = FA_HALF_ROOT / w->width, cap = w->cap, unit, start, *l, *z,
           *log_q, *weight, *log_w, *slope, *x;
    int j, n;
    h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1)); /* j h is exact */
    if (!(h > 1e-9) || !(high > low) || !(high - low < h * (FA_CAP_NODES_MAX - 2 * FA_LANES)) ||
        !(fabs(low) < 0x1p28 * h))
        return 0;
    start = floor(low / h) * h;
    count = ceil((high - start) / h) + 1.0;
    n = ((int)count + 2 * FA_LANES - 1) / (2 * FA_LANES) * (2 * FA_LANES);
    if (!fa_cap_nodes_reserve(s, n))
        return 0;
    s->sum.n = n;
    s->has_logs = all;
    s->h = h;
    s->stretch = stretch;
    s->start = start;
    s->mean = block->kappa;
    unit = log(h * s2 * stretch / block->sigma) - FA_LOG_SQRT_2PI;
    l = s->sum.lr, z = s->z, log_q = s->log_q, weight = s->sum.wr, log_w = s->sum.log_w, slope = s->slope, x = s->x;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double xi = start + j * h, e = fa_exp_plain_v(-fabs(xi)),
               loss = stretch * (fa_log1p_plain_v(e) + fa_max(xi, 0.0)), rest, share, point, size;
        (void)fa_exp_both_v(-fa_min(loss, 690.0), &rest); /* rest = exp(-l) - 1 */
        share = (xi > 0.0 ? 1.0 : e) / ((1.0 + e) * -rest);
        point = s2 * (loss + fa_log_v(-rest) - odds) + 0.5;
        size = unit - point * point * half_inv;
        l[j] = loss;
        z[j] = point;
        if (all)
            log_w[j] = log_q[j] = size + fa_log_v(share);
        weight[j] = size > -690.0 ? share * fa_exp_plain_v(size) : 0.0;
        x[j] = (point - cap) * inv_width;
        slope[j] = stretch * share;
    }
    fa_cap_edge(s, all);
    return 1;
}

FA_FUNC int fa_cap_fill(const fa_cap_block *block, fa_cap_nodes *s, double h, double stretch, double z_low,
                        double z_high)
{
    return fa_cap_fill_some(block, s, h, stretch, z_low, z_high, 1);
}

FA_FUNC int fa_cap_fill_coarse(const fa_cap_block *block, fa_cap_nodes *s, double h, double stretch, double z_low,
                               double z_high)
{
    return fa_cap_fill_some(block, s, h, stretch, z_low, z_high, 0);
}

/* the last node that counts for real exponents up to v: the integrand falls by so many deviations, or a few more
 * where many steps add up what is beyond, or the window is closed */
FA_FUNC double fa_cap_end(const fa_cap_block *block, double v, double deviations)
{
    double far = block->sigma * sqrt(deviations * deviations + 2.0 * log1p(1e-6 * block->steps)), z = v + far;
    int i;
    for (i = 0; i < 3; i++)
        z = fa_max(fa_min(z, v * fa_cap_posterior(block, z) + far), 1.0 + far);
    return fa_min(z, block->w.cap + FA_CAP_CUT * block->w.width);
}

/* where exp(tilt l) Q is largest, tilt < 0, from below: z = tilt A(z), A = 1 - exp(-l) or the posterior mean */
FA_FUNC double fa_cap_bottom(const fa_cap_block *block, double tilt)
{
    double low = tilt * fa_cap_posterior(block, 0.0), high = 0.0;
    int i;
    for (i = 0; i < 30 && high - low > block->sigma; i++) {
        double mid = 0.5 * (low + high);
        *(mid > tilt * fa_cap_posterior(block, mid) ? &high : &low) = mid;
    }
    return low;
}

/* the first node of a line: the noise falls by so many standard deviations, from where a negative tilt moves its centre
 */
FA_INLINE double fa_cap_begin(const fa_cap_block *block, double deviations, double tilt)
{
    double far = deviations * block->sigma;
    if (block->falls) /* sums of both sides come back by Q's own means */
        return -far - 3.0 * block->sigma + block->pair->q_low * (1.0 - FA_MIX_PUT) + FA_MIX_PUT * block->pair->p_from;
    return -far + fa_min(-block->deep, tilt < 0.0 ? fa_cap_bottom(block, tilt) : 0.0);
}

/* the last node of a line: with floors, a block that is split goes on to where its floor's window is open, and one that
 * is not has nodes for the floor's point too */
FA_FUNC double fa_cap_line_end(const fa_cap_job *job, const fa_cap_block *block, double right, double low,
                               double deviations)
{
    const fa_cap_windows *w = &block->w;
    double end = fa_cap_end(block, fa_cap_tilt(job, right), deviations);
    if (job->walled)
        return w->cap + FA_CAP_CUT * w->width;
    if (!job->has_floor)
        return end;
    return block->split ? fa_max(end, fa_min(w->floor + 9.0 * w->floor_width, w->cap + FA_CAP_CUT * w->width))
                        : fa_cap_end(block, fa_max(right, low), deviations);
}

#endif
