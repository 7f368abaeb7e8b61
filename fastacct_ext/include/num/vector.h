/* num/vector.h -- elementary functions in plain doubles for the complex log-moments: branch free, for vectorised loops.
 *
 * Errors below are in units of u = 2^-53, relative unless said otherwise (docs/algorithms/arithmetic.md); the ledgers
 * count them.
 */
#ifndef FA_VECTOR_H
#define FA_VECTOR_H

#include "math.h"

#define FA_PI    3.14159265358979323846264338328
#define FA_LANES 8 /* numbers side by side in loops that the compiler turns into vectors */

/* exp(t) and expm1(t), |t| clamped to 700: 4 u each */
FA_INLINE double fa_exp_both_v(double t, double *expm1_out)
{
    double k, r, scale, s = fa_max(-FA_EXP_MAX, fa_min(FA_EXP_MAX, t)), part;
    scale = fa_power_of_two_v(s, &k);
    r = FA_FMA(-k, FA_LN2_MID, FA_FMA(-k, FA_LN2_HI, s));
    part = FA_FMA(r * r, fa_exp_tail_v(r), r);
    *expm1_out = FA_FMA(scale, part, scale - 1.0);
    return FA_FMA(scale, part, scale);
}

FA_INLINE double fa_exp_plain_v(double t)
{
    double k, r, scale, s = fa_max(-FA_EXP_MAX, fa_min(FA_EXP_MAX, t));
    scale = fa_power_of_two_v(s, &k);
    r = FA_FMA(-k, FA_LN2_MID, FA_FMA(-k, FA_LN2_HI, s));
    return FA_FMA(scale, r * r * fa_exp_tail_v(r), FA_FMA(scale, r, scale));
}

/* sin(x) and cos(x): absolute error 4 u + u |x|, |x| < 2^50.  Taylor on [-pi/4, pi/4] */
FA_INLINE double fa_sincos_v(double x, double *cos_out)
{
    double shifted = FA_FMA(x, 2.0 / FA_PI, FA_ROUND_SHIFT), k = shifted - FA_ROUND_SHIFT;
    /* pi/2 in three parts of 33 bits and a rest: products with |k| < 2^20 are exact */
    double r = ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    uint64_t bits = fa_bits(shifted);
    double r2 = r * r, s, c, sine, cosine;
    s = 1.0 / 355687428096000.0;
    s = FA_HORNER4(s, r2, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0);
    s = FA_HORNER2(s, r2, -1.0 / 5040.0, 1.0 / 120.0);
    s = FA_FMA(s, r2, -1.0 / 6.0);
    s = FA_FMA(s * r2, r, r);
    c = 1.0 / 20922789888000.0;
    c = FA_HORNER4(c, r2, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0);
    c = FA_HORNER4(c, r2, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0);
    sine = (bits & 1) ? c : s;
    cosine = (bits & 1) ? s : c;
    *cos_out = fa_from_bits(fa_bits(cosine) ^ (((bits + 1) & 2) << 62));
    return fa_from_bits(fa_bits(sine) ^ ((bits & 2) << 62));
}

/* log(one + lost), one a positive normal number and lost its rounding error, if any: 4 u */
FA_INLINE double fa_log_parts_v(double one, double lost)
{
    double k, inv_scale = fa_inverse_scale_v(one, &k);
    double f = (inv_scale * one - 1.0) + inv_scale * lost, s = f / (2.0 + f), w = s * s, p;
    p = 2.0 / 23.0;
    p = FA_HORNER4(p, w, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0);
    p = FA_HORNER4(p, w, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0);
    p = FA_HORNER2(p, w, 2.0 / 5.0, 2.0 / 3.0);
    return FA_FMA(k, FA_LN2_HI, FA_FMA(k, FA_LN2_MID, s * w * p) + 2.0 * s);
}

/* log(1 + y), y > -1: 4 u */
FA_INLINE double fa_log1p_plain_v(double y)
{
    double one = 1.0 + y;
    return fa_log_parts_v(one, y >= 1.0 ? 1.0 - (one - y) : y - (one - 1.0));
}

/* log(x) of a normal x > 0: 4 u of max(|log x|, |x - 1|) */
FA_INLINE double fa_log_v(double x)
{
    double k, inv_scale = fa_inverse_scale_v(x, &k);
    return FA_FMA(k, FA_LN2_HI, FA_FMA(k, FA_LN2_MID, fa_log1p_plain_v(inv_scale * x - 1.0)));
}

/* angle of x + i y in (-pi, pi]: 6 u; 0 at the origin */
FA_INLINE double fa_angle_v(double y, double x)
{
    double ax = fabs(x), ay = fabs(y), big = fa_max(ax, ay), small = fa_min(ax, ay), far, num, den, t, w, p;
    big = fa_max(big, 0x1p-1000);
    far = small > 0.41421356237309503 * big ? 1.0 : 0.0;
    num = small - far * big;
    den = big + far * small;
    t = num / den;
    w = t * t;
    p = 1.0 / 41.0;
    p = FA_HORNER4(p, -w, 1.0 / 39.0, 1.0 / 37.0, 1.0 / 35.0, 1.0 / 33.0);
    p = FA_HORNER4(p, -w, 1.0 / 31.0, 1.0 / 29.0, 1.0 / 27.0, 1.0 / 25.0);
    p = FA_HORNER4(p, -w, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0);
    p = FA_HORNER4(p, -w, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0);
    p = FA_HORNER2(p, -w, 1.0 / 7.0, 1.0 / 5.0);
    p = FA_FMA(p, -w, 1.0 / 3.0);
    t = t - t * w * p;
    t = t + far * (0.25 * FA_PI);
    t = ay > ax ? 0.5 * FA_PI - t : t;
    t = x < 0.0 ? FA_PI - t : t;
    return fa_from_bits(fa_bits(t) ^ (fa_bits(y) & 0x8000000000000000ULL));
}

/* log(1 + x + i y), 8 u of its modulus, also next to the zero of 1 + x + i y: there 1 + x is exact and its square is
 * taken */
FA_INLINE double fa_clog1p_v(double x, double y, double *im_out)
{
    double real = 1.0 + x, z = FA_FMA(y, y, x * (2.0 + x)), one = 1.0 + z,
           near = fa_max(FA_FMA(real, real, y * y), 1e-290);
    int is_near = near < 0.5;
    *im_out = fa_angle_v(y, real);
    return 0.5 * fa_log_parts_v(is_near ? near : one, is_near ? 0.0 : z >= 1.0 ? 1.0 - (one - z) : z - (one - 1.0));
}

/* exp(p + i t) - 1, 8 u of its modulus + u |t| exp(p) */
FA_INLINE double fa_cexpm1_v(double p, double t, double *im_out)
{
    double m, e = fa_exp_both_v(p, &m), c, s = fa_sincos_v(0.5 * t, &c), versine = 2.0 * s * s;
    *im_out = e * (2.0 * s * c);
    return m * (1.0 - versine) - versine;
}

#endif
