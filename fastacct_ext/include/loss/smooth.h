/* loss/smooth.h -- a loss with a Gaussian part, given by weights on a lattice: what the lattice does not see.
 *
 * L = G + W under Q, G normal of variance 1/g and independent of W (loss/sums.h): the density f of L has |f(l + it)| at
 * most f(l) e^(g t^2/2).  The weights are those of f times a window, Phi((high - l) sqrt g).
 * docs/algorithms/allocation.md, "Reading".
 */
#ifndef FA_LOSS_SMOOTH_H
#define FA_LOSS_SMOOTH_H

#include "edges.h"
#include "table.h"

#define FA_SMOOTH_TURNS 8     /* heights of the path that are tried */
#define FA_SMOOTH_ENDS  8     /* points of an interval at the left end */
#define FA_SMOOTH_CUT   14.0  /* widths beyond the cap where nodes end */
#define FA_SMOOTH_GOOD  1e-15 /* share of the ends up to which an exponent does */

/* the mean of `count` log-normal numbers of this noise; step 0: none */
typedef struct {
    double noise, count, step, high;
} fa_smooth;

/* of the density times e^(vL): all of it up to the cap, with rounding, what is near the window, what both have near the
 * cap, and what is beyond the lattice or so far beyond the cap that it has no node */
typedef struct {
    double all, near, edge, near_edge, beyond;
} fa_smooth_size;

FA_INLINE double fa_smooth_g(const fa_smooth *s) { return s->count * s->noise * s->noise; }

/* log of a bound of E[e^(vL)] right of the last point, where the window is below e^(-x^2/2) and falls faster than what
 * it is multiplied with: by the first two moments, or Jensen's */
FA_FUNC double fa_smooth_right(const fa_smooth *s, double v, double end)
{
    double var = 1.0 / (s->noise * s->noise), root = sqrt(fa_smooth_g(s)), x = root * (end - s->high),
           plain = (v - 1.0) * end, jensen = v > 1.0 || v < 0.0 ? 0.5 * v * (v - 1.0) * var : 0.0,
           second = (v - 2.0) * end + log1p(expm1(fa_min(700.0, var)) / s->count);
    if (!(v - 1.0 < 0.9 * x * root))
        return INFINITY;
    return fa_min(plain, v > 2.0 ? fa_min(jensen, second) : jensen) - 0.5 * x * x;
}

/* the same left of the first one.  P[L <= l] is log-concave, since log(sum of e^z) is convex: with masses m and m' of
 * two neighbouring intervals of length w at the left end it is at most m^2/(m' - m) there, and beyond falls at least as
 * fast as e^(s l), s = log(m'/m)/w */
FA_FUNC double fa_smooth_left(const fa_smooth *s, const fa_atom *at, int n, double v)
{
    double top = at[n > 2 * FA_SMOOTH_ENDS ? 2 * FA_SMOOTH_ENDS : n - 1].log_weight, one = 0.0, two = 0.0, fall,
           p = fa_max(0.0, -v);
    int j;
    for (j = 0; j <= 2 * FA_SMOOTH_ENDS && j < n; j++) {
        one += j <= FA_SMOOTH_ENDS ? exp(at[j].log_weight - top) : 0.0;
        two += j >= FA_SMOOTH_ENDS ? exp(at[j].log_weight - top) : 0.0;
    }
    fall = log(two / one / 40.0) / (FA_SMOOTH_ENDS * s->step); /* sums are integrals up to a factor of 2 or 1/10 */
    if (!(fall > 1.01 * p) || !(two > 100.0 * one))
        return INFINITY;
    return v * at[0].loss + top + log(100.0 * one * one / two) + log(fall / (fall - p));
}

/* both parts near the far window, which only the last points are */
FA_FUNC void fa_smooth_near(const fa_smooth *s, const fa_atom *at, int n, double v, const fa_edge *cap,
                            fa_smooth_size *out)
{
    double root = sqrt(fa_smooth_g(s)), z, inv = cap->width > 0.0 ? 1.0 / cap->width : 0.0;
    int j;
    for (j = n - 1; j >= 0 && (z = (at[j].loss - s->high) * root) > -30.0; j--) {
        double y = inv > 0.0 ? (at[j].loss - cap->at) * inv : 0.0,
               size = 2.2 * exp(at[j].log_weight + v * at[j].loss - 0.5 * z * z) / erfc(z * FA_HALF_ROOT);
        out->near_edge += inv > 0.0 ? size * exp(-0.5 * y * y) : 0.0;
        out->near += inv > 0.0 && !(cap->side * y < s->step * inv) ? 0.0 : size;
    }
}

FA_FUNC fa_smooth_size fa_smooth_of(const fa_smooth *s, const fa_atom *at, int n, double v, const fa_edge *cap)
{
    double end = at[n - 1].loss, left = fa_smooth_left(s, at, n, v), right = fa_smooth_right(s, v, end),
           has_cap = cap->width > 0.0 ? 1.0 : 0.0, inv = has_cap > 0.0 ? 1.0 / cap->width : 0.0, middle = cap->at,
           side = cap->side, reach = has_cap > 0.0 ? s->step * inv : 1.0, all = 0.0, edge = 0.0, cut = 0.0,
           most = -INFINITY, last = has_cap * cap->side > 0.0 ? FA_SMOOTH_CUT : 1e300;
    fa_smooth_size out = {0.0, 0.0, 0.0, 0.0, INFINITY};
    int j;
    FA_PRAGMA(omp simd reduction(+ : all, edge, cut) reduction(max : most))
    for (j = 0; j < n; j++) {
        double power = at[j].log_weight + v * at[j].loss, size = 2.2 * fa_exp_plain_v(fa_min(power, 690.0)),
               y = (at[j].loss - middle) * inv, bump = size * fa_exp_plain_v(fa_max(-0.5 * y * y, -690.0));
        most = power > most ? power : most;
        edge += bump;
        cut += y > last ? bump : 0.0;
        all += side * y < reach ? size : 0.0;
    }
    out.all = most < 690.0 ? all : INFINITY;
    out.edge = has_cap > 0.0 ? edge : 0.0;
    fa_smooth_near(s, at, n, v, cap, &out);
    if (has_cap * cap->side > 0.0)
        right -= 0.5 * (end - cap->at) * (end - cap->at) * inv * inv;
    if (left < 700.0 && right < 700.0 && out.all < INFINITY)
        out.beyond = 4.0 * (exp(left) + exp(right)) + cut;
    return out;
}

/* log of a bound of |E[e^(uL)]| for all Im u >= t, of what is on the lattice and beyond it: on the path Im L = t/g, or
 * on the one that is best near the cap */
FA_FUNC double fa_smooth_majorant(const fa_smooth *s, const fa_atom *at, int n, double v, double t,
                                  const fa_edge *cap)
{
    fa_smooth_size size = fa_smooth_of(s, at, n, v, cap);
    double g = fa_smooth_g(s), stiff = cap->width > 0.0 ? 1.0 / (cap->width * cap->width) : 0.0, best = INFINITY;
    int k;
    for (k = 0; k < (stiff > 0.0 ? 2 : 1); k++) {
        double y = t / (k ? g + stiff : g), fall = exp(0.5 * g * y * y - t * y),
               lift = size.near > 0.0 ? exp(0.5 * g * y * y) : 0.0,
               more = 0.5 * exp(fa_min(700.0, 0.5 * stiff * y * y)),
               one = size.all + 0.5 * lift * size.near + more * (size.edge + 0.5 * lift * size.near_edge);
        best = fa_min(best, k || stiff > 0.0 ? fall * one : fall * size.all + 0.5 * size.near);
    }
    return log(best + size.beyond);
}

/* what the lattice's sum of e^(uL) is off by, Im u up to t: what aliases, on the best of some paths */
FA_FUNC double fa_smooth_alias(const fa_smooth *s, const fa_atom *at, int n, double v, double t,
                               const fa_edge *cap)
{
    double root = sqrt(fa_smooth_g(s)), period = 2.0 * FA_PI / s->step, away = (period - t) / root, best = INFINITY,
           stiff = cap->width > 0.0 ? 1.0 / (cap->width * root) : 0.0;
    fa_smooth_size size = fa_smooth_of(s, at, n, v, cap);
    int k;
    for (k = 1; k <= FA_SMOOTH_TURNS && away > 0.0; k++) {
        double turn = 1.25 * k, lift = exp(0.5 * turn * turn),
               one = 2.0 * exp(-away * turn) * lift / -expm1(-period / root * turn),
               more = stiff > 0.0 ? 0.5 * exp(fa_min(700.0, 0.5 * stiff * stiff * turn * turn)) : 0.0;
        best = fa_min(best,
                      one * (size.all + 0.5 * lift * size.near + more * (size.edge + 0.5 * lift * size.near_edge)));
    }
    return best + size.beyond;
}

/* of exp(u l), or (size > 0) of exp(u l) - 1 - u l, |u| <= size, l = L - mean: the linear term by Cauchy's inequality.
 * flipped: -L under P */
FA_FUNC double fa_smooth_error(const fa_smooth *s, const fa_atom *at, int n, double v, double t, double mean,
                               double size, int flipped, const fa_edge *cap)
{
    double side = flipped ? -1.0 : 1.0, one = flipped ? 1.0 : 0.0,
           out = fa_smooth_alias(s, at, n, one + side * v, t, cap) * exp(fa_min(700.0, -v * mean));
    if (size > 0.0)
        out += fa_smooth_alias(s, at, n, one, 0.0, cap) +
               size * (fa_smooth_alias(s, at, n, one + side, 1.0, cap) * exp(-mean) +
                       fa_smooth_alias(s, at, n, one - side, 1.0, cap) * exp(mean));
    return out == out ? out : INFINITY; /* what is not bounded, times nothing */
}

/* where nodes end */
FA_INLINE double fa_smooth_end(const fa_atom *at, int n, const fa_edge *cap)
{
    double end = at[n - 1].loss;
    return cap->width > 0.0 ? fa_min(end, cap->at + FA_SMOOTH_CUT * cap->width) : end;
}

/* the largest v for which the ends have no share of E[exp(v L)]; flipped: of E_P[exp(-v L)] */
FA_FUNC double fa_smooth_last(const fa_smooth *s, const fa_atom *at, int n, int flipped, const fa_edge *cap)
{
    double low = 0.0, high = 14.0; /* log(v - 1) less 1 */
    int i;
    for (i = 0; i < 12; i++) {
        double middle = 0.5 * (low + high), v = 1.0 + exp(middle - 1.0), own = flipped ? 1.0 - v : v;
        fa_smooth_size size = fa_smooth_of(s, at, n, own, cap);
        if (fa_max(own * at[0].loss, own * fa_smooth_end(at, n, cap)) < 690.0 &&
            size.near + size.beyond < FA_SMOOTH_GOOD * size.all)
            low = middle;
        else
            high = middle;
    }
    return 1.0 + exp(low - 1.0);
}

#endif
