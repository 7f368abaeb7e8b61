/* loss/smooth.h -- a loss with a Gaussian part, given by weights on a lattice: what the lattice does not see.
 *
 * L = G + W under Q, G normal of variance 1/g and independent of W (loss/sums.h): the density f of L has |f(l + it)| at
 * most f(l) e^(g t^2/2).  The weights are those of f times a window, Phi((high - l) sqrt g).
 * docs/algorithms/allocation.md, "Reading".
 */
#ifndef FA_LOSS_SMOOTH_H
#define FA_LOSS_SMOOTH_H

#include "table.h"

#define FA_SMOOTH_TURNS 8     /* heights of the path that are tried */
#define FA_SMOOTH_ENDS  8     /* points of an interval at the left end */
#define FA_SMOOTH_GOOD  1e-13 /* share of the ends up to which an exponent does */

/* the mean of `count` log-normal numbers of this noise; step 0: none */
typedef struct {
    double noise, count, step, high;
} fa_smooth;

/* of the density times e^(vL): all of it, with rounding, what is near the window, and what is beyond the lattice */
typedef struct {
    double all, near, beyond;
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

FA_FUNC fa_smooth_size fa_smooth_of(const fa_smooth *s, const fa_atom *at, int n, double v)
{
    double root = sqrt(fa_smooth_g(s)), left = fa_smooth_left(s, at, n, v),
           right = fa_smooth_right(s, v, at[n - 1].loss);
    fa_smooth_size out = {0.0, 0.0, INFINITY};
    int j;
    for (j = 0; j < n; j++) {
        double size = exp(at[j].log_weight + v * at[j].loss), z = (at[j].loss - s->high) * root;
        out.all += 2.2 * size;
        if (z > -30.0)
            out.near += 2.2 * size / erfc(z * FA_HALF_ROOT) * exp(-0.5 * z * z);
    }
    if (left < 700.0 && right < 700.0 && out.all < INFINITY)
        out.beyond = 4.0 * (exp(left) + exp(right));
    return out;
}

/* log of a bound of |E[e^(uL)]| for all Im u >= t, of what is on the lattice and beyond it: on the path Im L = t/g */
FA_FUNC double fa_smooth_majorant(const fa_smooth *s, const fa_atom *at, int n, double v, double t)
{
    fa_smooth_size size = fa_smooth_of(s, at, n, v);
    return log(size.all * exp(-0.5 * t * t / fa_smooth_g(s)) + 0.5 * size.near + size.beyond);
}

/* what the lattice's sum of e^(uL) is off by, Im u up to t: what aliases, on the best of some paths */
FA_FUNC double fa_smooth_alias(const fa_smooth *s, const fa_atom *at, int n, double v, double t)
{
    double root = sqrt(fa_smooth_g(s)), period = 2.0 * FA_PI / s->step, away = (period - t) / root, best = INFINITY;
    fa_smooth_size size = fa_smooth_of(s, at, n, v);
    int k;
    for (k = 1; k <= FA_SMOOTH_TURNS && away > 0.0; k++) {
        double turn = 1.25 * k, lift = exp(0.5 * turn * turn),
               one = 2.0 * exp(-away * turn) * lift / -expm1(-period / root * turn);
        best = fa_min(best, one * (size.all + 0.5 * lift * size.near));
    }
    return best + size.beyond;
}

/* of exp(u l), or (size > 0) of exp(u l) - 1 - u l, |u| <= size, l = L - mean: the linear term by Cauchy's inequality.
 * flipped: -L under P */
FA_FUNC double fa_smooth_error(const fa_smooth *s, const fa_atom *at, int n, double v, double t, double mean,
                               double size, int flipped)
{
    double side = flipped ? -1.0 : 1.0, one = flipped ? 1.0 : 0.0,
           out = fa_smooth_alias(s, at, n, one + side * v, t) * exp(fa_min(700.0, -v * mean));
    if (size > 0.0)
        out += fa_smooth_alias(s, at, n, one, 0.0) + size * (fa_smooth_alias(s, at, n, one + side, 1.0) * exp(-mean) +
                                                             fa_smooth_alias(s, at, n, one - side, 1.0) * exp(mean));
    return out == out ? out : INFINITY; /* what is not bounded, times nothing */
}

/* the largest v for which the ends have no share of E[exp(v L)]; flipped: of E_P[exp(-v L)] */
FA_FUNC double fa_smooth_last(const fa_smooth *s, const fa_atom *at, int n, int flipped)
{
    double low = 0.0, high = 14.0; /* log(v - 1) less 1 */
    int i;
    for (i = 0; i < 12; i++) {
        double middle = 0.5 * (low + high), v = 1.0 + exp(middle - 1.0), own = flipped ? 1.0 - v : v;
        fa_smooth_size size = fa_smooth_of(s, at, n, own);
        if (fa_max(own * at[0].loss, own * at[n - 1].loss) < 690.0 &&
            size.near + size.beyond < FA_SMOOTH_GOOD * size.all)
            low = middle;
        else
            high = middle;
    }
    return 1.0 + exp(low - 1.0);
}

#endif
