/* num/math.h -- the few elementary functions the kernels need, and double-double arithmetic for set-up code.
 *
 * Everything here is branch free, so that compilers turn loops over these functions into vector code, and
 * free of libm in its vector part, so that the same source means the same arithmetic on every platform.
 *
 *   fa_dd            a number hi + lo, |lo| <= ulp(hi)/2, about 106 significant bits
 *   *_v              safe in vectorised loops;  *_dd  scalar set-up code, may call libm
 *
 * Error proofs: docs/algorithms/arithmetic.md.  Contraction of a*b+c must be off (-ffp-contract=off): fused operations
 * are written out as FA_FMA, and the error-free transformations rely on nothing else being fused.
 */
#ifndef FA_MATH_H
#define FA_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define FA_INLINE static inline __attribute__((always_inline, unused))
#define FA_FUNC   static __attribute__((unused))
#else
#define FA_INLINE static __inline
#define FA_FUNC   static
#endif

#if defined(_OPENMP) || defined(FA_OPENMP_SIMD)
#define FA_PRAGMA(text) _Pragma(#text)
#else
#define FA_PRAGMA(text)
#endif

#define FA_EPS           0x1p-53                /* unit roundoff u */
#define FA_HALF_ROOT     0.70710678118654752440 /* 1/sqrt(2) */
#define FA_LOG_SQRT_2PI  0.918938533204672741780
#define FA_LOG_2_ROOT_PI 1.26551212348464539649 /* of 2 sqrt(pi) */
#define FA_LN2           0.693147180559945309417232121458
#define FA_LN2_HI        0x1.62e42fefa3800p-1 /* ln 2 = HI + MID; k*HI is exact for |k| < 2^11 */
#define FA_LN2_MID       0x1.ef35793c76730p-45
#define FA_LOG2E         1.44269504088896340735992468100
#define FA_ROUND_SHIFT   0x1.8p52 /* adding it rounds a small double to an integer */
#define FA_EXP_MAX       700.0    /* |t| beyond it is clamped: callers scale instead */

typedef struct {
    double hi, lo;
} fa_dd;

/* of numbers, not NaN; libm's are function calls */
FA_INLINE double fa_min(double a, double b) { return a < b ? a : b; }
FA_INLINE double fa_max(double a, double b) { return a > b ? a : b; }

FA_INLINE fa_dd fa_two_sum(double a, double b)
{
    double s = a + b, t = s - a;
    fa_dd r = {s, (a - (s - t)) + (b - t)};
    return r;
}

/* requires |a| >= |b| or a == 0 */
FA_INLINE fa_dd fa_fast_two_sum(double a, double b)
{
    double s = a + b;
    fa_dd r = {s, b - (s - a)};
    return r;
}

#ifdef FA_HAS_FMA
#define FA_FMA(a, b, c) __builtin_fma((a), (b), (c))
FA_INLINE fa_dd fa_two_prod(double a, double b)
{
    double p = a * b;
    fa_dd r = {p, __builtin_fma(a, b, -p)};
    return r;
}
#else
#define FA_FMA(a, b, c) ((a) * (b) + (c))
/* Dekker's product: the same pair as with a fused multiply-add, for |a|, |b| < 2^995. */
FA_INLINE fa_dd fa_two_prod(double a, double b)
{
    double p = a * b;
    double ta = 134217729.0 * a, tb = 134217729.0 * b;
    double ah = ta - (ta - a), bh = tb - (tb - b), al = a - ah, bl = b - bh;
    fa_dd r = {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
    return r;
}
#endif

/* two, and four, steps of Horner's scheme: ((p x + a) x + b) ... */
#define FA_HORNER2(p, x, a, b)       FA_FMA(FA_FMA(p, x, a), x, b)
#define FA_HORNER4(p, x, a, b, c, d) FA_HORNER2(FA_HORNER2(p, x, a, b), x, c, d)

FA_INLINE fa_dd fa_dd_make(double hi, double lo)
{
    fa_dd r = {hi, lo};
    return r;
}

/* a + b with relative error below 4 u^2 (accurate sum of two double-doubles) */
FA_INLINE fa_dd fa_dd_add(fa_dd a, fa_dd b)
{
    fa_dd s = fa_two_sum(a.hi, b.hi), t = fa_two_sum(a.lo, b.lo);
    s = fa_fast_two_sum(s.hi, s.lo + t.hi);
    return fa_fast_two_sum(s.hi, s.lo + t.lo);
}

FA_INLINE fa_dd fa_dd_add_d(fa_dd a, double b)
{
    fa_dd s = fa_two_sum(a.hi, b);
    return fa_fast_two_sum(s.hi, s.lo + a.lo);
}

/* a * b with relative error below 8 u^2 */
FA_INLINE fa_dd fa_dd_mul(fa_dd a, fa_dd b)
{
    fa_dd p = fa_two_prod(a.hi, b.hi);
    double cross = FA_FMA(a.hi, b.lo, a.lo * b.hi);
    return fa_fast_two_sum(p.hi, p.lo + cross);
}

FA_INLINE fa_dd fa_dd_mul_d(fa_dd a, double b)
{
    fa_dd p = fa_two_prod(a.hi, b);
    return fa_fast_two_sum(p.hi, FA_FMA(a.lo, b, p.lo));
}

/* a / b with relative error below 20 u^2; one division */
FA_INLINE fa_dd fa_dd_div(fa_dd a, fa_dd b)
{
    double inv = 1.0 / b.hi, quo = a.hi * inv;
    fa_dd p = fa_two_prod(quo, b.hi);
    double rem = ((a.hi - p.hi) - p.lo) + FA_FMA(-quo, b.lo, a.lo);
    return fa_fast_two_sum(quo, rem * inv);
}

FA_INLINE uint64_t fa_bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}
FA_INLINE double fa_from_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, 8);
    return x;
}

/* 2^k, k the integer next to t log2(e): t - k ln 2 is at most ln2/2 */
FA_INLINE double fa_power_of_two_v(double t, double *k_out)
{
    double shifted = FA_FMA(t, FA_LOG2E, FA_ROUND_SHIFT);
    *k_out = shifted - FA_ROUND_SHIFT;
    return fa_from_bits((fa_bits(shifted) << 52) + 0x3ff0000000000000ULL);
}

/* 2^-k for x = 2^k m, m in [sqrt(1/2), sqrt(2)) */
FA_INLINE double fa_inverse_scale_v(double x, double *k_out)
{
    uint64_t b = fa_bits(x) + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL);
    *k_out = fa_from_bits((b >> 52) | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
    return fa_from_bits(0x7fe0000000000000ULL - (b & 0x7ff0000000000000ULL));
}

/* (exp(r) - 1 - r)/r^2 for |r| <= ln2/2, truncated where the next term is below u */
FA_INLINE double fa_exp_tail_v(double r)
{
    double poly = 1.0 / 6227020800.0;
    poly = FA_HORNER4(poly, r, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0);
    poly = FA_HORNER4(poly, r, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0);
    poly = FA_HORNER2(poly, r, 1.0 / 24.0, 1.0 / 6.0);
    poly = FA_FMA(poly, r, 0.5);
    return poly;
}

/* fa_expm1_minus_plain_v -- E2(t) = exp(t) - 1 - t, and exp(t) itself.
 *   domain   t <= 600; below -700 exp(t) is taken at -700, negligible beside -1 - t       result nearest
 *   error    E2: 28 u relative (measured 22), exp: 4 u relative (docs/algorithms/arithmetic.md); no cancellation at t
 * -> 0 cost     about 0.4 ns a point with 512-bit vectors
 * exp(t) = 2^k exp(r), |r| <= ln2/2, exp(r) = 1 + r + r^2 p(r). Then E2 = (2^k - 1) + (2^k r - t) + 2^k r^2 p(r), where
 * the first two brackets are exactly 0 for k = 0. */
FA_INLINE double fa_expm1_minus_plain_v(double t, double *exp_out)
{
    double k, r, scale, poly, square, s = fa_max(-FA_EXP_MAX, t);
    scale = fa_power_of_two_v(s, &k);
    r = FA_FMA(-k, FA_LN2_MID, FA_FMA(-k, FA_LN2_HI, s));
    poly = fa_exp_tail_v(r);
    square = r * r * poly;
    *exp_out = FA_FMA(scale, square, FA_FMA(scale, r, scale));
    return FA_FMA(scale, square, (scale - 1.0) + FA_FMA(scale, r, -t)); /* t, not s: right for t < -700 too */
}

/* fa_log1p_v -- log(1 + x) as a double-double, for a double-double x > -1.
 *   error    below 2^-63 |log(1 + x)| + 2^-96 (measured 1.07 * 2^-64): relative even for tiny x
 * (docs/algorithms/arithmetic.md) cost     about 40 floating-point operations and one division 1 + x = 2^k m, m in
 * [sqrt(1/2), sqrt(2)), s = (m - 1)/(m + 1), log m = 2 s + s (2 s^2/3 + 2 s^4/5 + ...): the first two terms are carried
 * in double-double, |s| <= 0.172 makes the rest small enough for doubles. */
FA_INLINE fa_dd fa_log1p_v(fa_dd x)
{
    double k, inv_scale = fa_inverse_scale_v(1.0 + x.hi, &k);
    double less = inv_scale - 1.0; /* exact unless x > 2^53: then its error is carried on */
    fa_dd num = fa_two_sum(less, inv_scale * x.hi);
    fa_dd den, s, s2, head, tail, result;
    double w, p = 2.0 / 27.0;
    num.lo += inv_scale - (less + 1.0);
    num = fa_fast_two_sum(num.hi, FA_FMA(inv_scale, x.lo, num.lo));
    den = fa_fast_two_sum(2.0, num.hi);
    den.lo += num.lo;
    s = fa_dd_div(num, den);
    s2 = fa_dd_mul(s, s);
    w = s2.hi;
    p = FA_HORNER4(p, w, 2.0 / 25.0, 2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0);
    p = FA_HORNER4(p, w, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0);
    p = FA_HORNER2(p, w, 2.0 / 9.0, 2.0 / 7.0);
    p = FA_FMA(p, w, 2.0 / 5.0);
    tail = fa_dd_mul(s2, fa_dd_make(0x1.5555555555555p-1, 0x1.5555555555555p-55));
    tail = fa_fast_two_sum(tail.hi, FA_FMA(w * w, p, tail.lo));
    tail = fa_dd_mul(tail, s);
    head = fa_fast_two_sum(k * FA_LN2_HI, 2.0 * s.hi); /* k = 0, or |k ln 2| > |2 s| */
    result = fa_fast_two_sum(head.hi, head.lo + (2.0 * s.lo + k * FA_LN2_MID));
    head = fa_fast_two_sum(result.hi, tail.hi);
    return fa_fast_two_sum(head.hi, head.lo + (result.lo + tail.lo));
}

/* Chernoff: delta(eps) <= B(v) exp(K(v) - (v-1) eps), v > 1.  log B = (v-1) log(v-1) - v log v, without cancellation */
FA_FUNC double fa_log_b(double v) { return v > 1.0 ? (v - 1.0) * log1p(-1.0 / v) - log(v) : 0.0; }

#endif
