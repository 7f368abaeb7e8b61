/* renyi/moments.h -- K(u) = log E_P[exp(u loss)], K' and K'' at a real u >= -1/2, from nodes of any loss, with bounds.
 *
 *   M - 1 = sum p E2(u l) + u sum p E2(-l)      M K' = sum p l (e^(u l) - 1) + sum p E2(-l)
 *   M (K' - c) = sum p (l - c) e^(u l)          M (K'' + (K' - c)^2) = sum p (l - c)^2 e^(u l)
 *
 * with p = q e^l and c near K'.  Nothing of first order is left to cancel, however little a mechanism touches; the
 * second form of K' is the narrower one where M is large.  K' is the mean of the loss under the
 * distribution tilted by u and K'' its variance: at u = 0 those of the loss itself.  docs/algorithms/quadrature.md,
 * "Moments".
 */
#ifndef FA_MOMENTS_H
#define FA_MOMENTS_H

#include "../num/interval.h"
#include "../num/vector.h"

#define FA_MOMENT_NODES 64
#define FA_MOMENT_BIG   40.0 /* e^t is E2(t) beyond it, but for (1 + t) e^-t < 2e-16 of it */

typedef struct {
    fa_interval k, mean, variance; /* K, K', K'' */
} fa_moments;

typedef struct {
    int n;
    double loss[FA_MOMENT_NODES], log_p[FA_MOMENT_NODES];    /* the step in log_p */
    double loss_off[FA_MOMENT_NODES], p_off[FA_MOMENT_NODES]; /* what they may be off by */
} fa_moment_nodes;

/* times e^-reference all of them; `off`: by how much sums may miss */
typedef struct {
    double u, about, reference;
    double e2, back, first, second, mass, moved, e2_off, back_off, first_off, second_off, moved_off;
    double slack; /* aliases, and what is left out: of each sum */
    int blocks;
} fa_moment_sums;

FA_FUNC void fa_moments_add(fa_moment_sums *s, const fa_moment_nodes *at)
{
    double u = s->u, size = fabs(u), c = s->about, ref = s->reference, e2 = 0.0, back = 0.0, first = 0.0, second = 0.0,
           mass = 0.0, moved = 0.0, e2_off = 0.0, back_off = 0.0, first_off = 0.0, second_off = 0.0, moved_off = 0.0;
    int j;
    FA_PRAGMA(omp simd reduction(+ : e2, back, first, second, mass, moved, e2_off, back_off, first_off, second_off) \
                  reduction(+ : moved_off))
    for (j = 0; j < at->n; j++) {
        double l = at->loss[j], t = u * l, d = fabs(l - c), lift = at->log_p[j] - ref, off = at->loss_off[j],
               off_p = at->p_off[j], off_t = size * off, p = lift < -690.0 ? 0.0 : fa_exp_plain_v(lift), e, down, w,
               em, one, two, q;
        one = fa_expm1_minus_plain_v(fa_min(t, FA_MOMENT_BIG), &e);
        w = t > FA_MOMENT_BIG ? (lift + t < -690.0 ? 0.0 : fa_exp_plain_v(lift + t)) : p * e;
        em = t > FA_MOMENT_BIG ? w : p * (t < -1.0 ? e - 1.0 : one + t);
        one = t > FA_MOMENT_BIG ? w : p * one;
        two = fa_expm1_minus_plain_v(fa_min(-l, FA_MOMENT_BIG), &down);
        q = l < -FA_MOMENT_BIG ? (lift - l < -690.0 ? 0.0 : fa_exp_plain_v(lift - l)) : p * down;
        down = l < -FA_MOMENT_BIG ? q : p * (l - two); /* p - q, or as large */
        two = l < -FA_MOMENT_BIG ? q : p * two;
        e2 += one;
        back += two;
        first += l * em;
        second += d * d * w;
        mass += w;
        moved += (l - c) * w;
        e2_off += one * off_p + fabs(em) * off_t + w * off_t * off_t;
        back_off += two * off_p + fabs(down) * off + (p + q) * off * off;
        first_off += fabs(l * em) * off_p + (fabs(em) + fabs(t) * w) * off + 2.0 * w * off_t * off;
        moved_off += d * w * (off_p + off_t) + w * off;
        second_off += d * d * w * (off_p + off_t) + 2.0 * d * w * off + w * off * off;
    }
    s->e2 += e2;
    s->back += back;
    s->first += first;
    s->second += second;
    s->mass += mass;
    s->e2_off += e2_off;
    s->back_off += back_off;
    s->first_off += first_off;
    s->second_off += second_off;
    s->moved += moved;
    s->moved_off += moved_off;
    s->blocks++;
}

/* x/y, y > 0 */
FA_INLINE fa_interval fa_moment_ratio(double x, double x_off, double low, double high)
{
    double a = x - x_off, b = x + x_off;
    fa_interval r = {a / (a > 0.0 ? high : low), b / (b > 0.0 ? low : high)};
    r.lower -= 4.0 * FA_EPS * fabs(r.lower);
    r.upper += 4.0 * FA_EPS * fabs(r.upper);
    return r;
}

/* `is_back`: sums of the pair with P and Q exchanged, for u < -1/2 */
FA_FUNC void fa_moments_of(const fa_moment_sums *s, int is_back, fa_moments *out)
{
    double u = s->u, one = exp(-s->reference), round = FA_EPS * (80.0 + s->blocks), more = 1.0 + 1e-9, c = s->about,
           m = s->e2 + u * s->back, off = more * (s->e2_off + fabs(u) * s->back_off) + s->slack +
                                          round * (s->e2 + fabs(u) * s->back),
           low = (one + m - off) * (1.0 - 2.0 * FA_EPS), high = (one + m + off) * (1.0 + 2.0 * FA_EPS), far, near;
    fa_interval k = {-INFINITY, INFINITY}, mean = k, variance = {0.0, INFINITY}, moved, raw;
    if (low > 0.0 && high < INFINITY) {
        k.lower = s->reference > 0.0 ? s->reference + log(low) : log1p(m - off);
        k.upper = s->reference > 0.0 ? s->reference + log(high) : log1p(m + off);
        k.lower -= 4.0 * FA_EPS * fabs(k.lower);
        k.upper += 4.0 * FA_EPS * fabs(k.upper);
        mean = fa_moment_ratio(s->first + s->back, more * (s->first_off + s->back_off) + s->slack +
                                                       round * (fabs(s->first) + s->back), low, high);
        moved = fa_moment_ratio(s->moved, more * s->moved_off + s->slack + round * sqrt(s->mass) * sqrt(s->second), low,
                                high);
        raw.lower = c + moved.lower - 2.0 * FA_EPS * (fabs(c) + fabs(moved.lower));
        raw.upper = c + moved.upper + 2.0 * FA_EPS * (fabs(c) + fabs(moved.upper));
        mean = fa_share(mean, raw);
        raw = fa_moment_ratio(s->second, more * s->second_off + s->slack + round * s->second, low, high);
        far = fa_max(fabs(moved.lower), fabs(moved.upper));
        near = fa_max(0.0, fa_max(moved.lower, -moved.upper));
        variance.lower = fa_max(0.0, raw.lower - far * far * (1.0 + 4.0 * FA_EPS));
        variance.upper = raw.upper - near * near * (1.0 - 4.0 * FA_EPS);
        if (is_back)
            mean = (fa_interval){-mean.upper, -mean.lower};
    }
    out->k = k;
    out->mean = mean;
    out->variance = variance;
}

#endif
