/* num/fa_wide.h -- elementary functions in double-double, branch free, for vectorised loops: exp, sincos, complex expm1
 * and log1p.
 *
 * Errors in units of w = FA_WIDE = 2^-102 (docs/algorithms/arithmetic.md, "Double-double functions"); a few u^2 are a
 * fraction of it.
 */
#ifndef FA_WIDE_H
#define FA_WIDE_H

#include "vector.h"

#define FA_WIDE 0x1p-102

typedef struct {
    fa_dd re, im;
} fa_cdd;

FA_INLINE fa_dd fa_dd_neg(fa_dd a) { return fa_dd_make(-a.hi, -a.lo); }
FA_INLINE fa_dd fa_dd_scale(fa_dd a, double power)
{
    return fa_dd_make(power * a.hi, power * a.lo);
} /* by a power of two */

FA_INLINE fa_cdd fa_cdd_make(fa_dd re, fa_dd im)
{
    fa_cdd r = {re, im};
    return r;
}
FA_INLINE fa_cdd fa_cdd_add(fa_cdd a, fa_cdd b) { return fa_cdd_make(fa_dd_add(a.re, b.re), fa_dd_add(a.im, b.im)); }

/* w of |a| |b| */
FA_INLINE fa_cdd fa_cdd_mul(fa_cdd a, fa_cdd b)
{
    return fa_cdd_make(fa_dd_add(fa_dd_mul(a.re, b.re), fa_dd_neg(fa_dd_mul(a.im, b.im))),
                       fa_dd_add(fa_dd_mul(a.re, b.im), fa_dd_mul(a.im, b.re)));
}

/* exp(t) - 1 and exp(t), |t| clamped to 700: 4 w each.  t = k ln 2 + 16 r, Taylor of r to r^13, four doublings */
FA_INLINE fa_dd fa_expm1_wide_v(fa_dd t, fa_dd *exp_out)
{
    double hi = fa_max(-FA_EXP_MAX, fa_min(FA_EXP_MAX, t.hi)), lo = hi == t.hi ? t.lo : 0.0;
    double shifted = FA_FMA(hi, FA_LOG2E, FA_ROUND_SHIFT), k = shifted - FA_ROUND_SHIFT, scale, x, p;
    fa_dd r, sum, one;
    int i;
    scale = fa_from_bits((fa_bits(shifted) << 52) + 0x3ff0000000000000ULL);
    r = fa_dd_add_d(fa_dd_make(hi, lo), -k * FA_LN2_HI);
    r = fa_dd_scale(fa_dd_add(r, fa_dd_mul_d(fa_dd_make(-FA_LN2_MID, -FA_LN2_LO), k)), 0.0625);
    x = r.hi;
    p = 1.0 / 6227020800.0;
    p = FA_FMA(p, x, 1.0 / 479001600.0);
    p = FA_FMA(p, x, 1.0 / 39916800.0);
    p = FA_FMA(p, x, 1.0 / 3628800.0);
    p = FA_FMA(p, x, 1.0 / 362880.0);
    p = FA_FMA(p, x, 1.0 / 40320.0);
    sum = fa_dd_add_d(fa_dd_make(0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73), x * p);            /* 1/7! */
    sum = fa_dd_add(fa_dd_mul(sum, r), fa_dd_make(0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65)); /* 1/6! */
    sum = fa_dd_add(fa_dd_mul(sum, r), fa_dd_make(0x1.1111111111111p-7, 0x1.1111111111111p-63));   /* 1/5! */
    sum = fa_dd_add(fa_dd_mul(sum, r), fa_dd_make(0x1.5555555555555p-5, 0x1.5555555555555p-59));
    sum = fa_dd_add(fa_dd_mul(sum, r), fa_dd_make(0x1.5555555555555p-3, 0x1.5555555555555p-57));
    sum = fa_dd_add_d(fa_dd_mul(sum, r), 0.5);
    sum = fa_dd_add(fa_dd_mul(sum, fa_dd_mul(r, r)), r);
    for (i = 0; i < 4; i++)
        sum = fa_dd_add(fa_dd_scale(sum, 2.0), fa_dd_mul(sum, sum));
    sum = fa_dd_scale(sum, scale);
    one = fa_two_sum(scale, -1.0);
    *exp_out = fa_dd_add_d(sum, scale);
    return fa_dd_add(sum, one);
}

/* sin(x) and cos(x), |x| < 2^50: absolute error w + w |x| */
FA_INLINE fa_dd fa_sincos_wide_v(fa_dd x, fa_dd *cos_out)
{
    double shifted = FA_FMA(x.hi, 2.0 / FA_PI, FA_ROUND_SHIFT), k = shifted - FA_ROUND_SHIFT, y, p;
    uint64_t bits = fa_bits(shifted), swap = 0 - (bits & 1), flip_s = (bits & 2) << 62, flip_c = ((bits + 1) & 2) << 62;
    fa_dd r, r2, s, c, sine, cosine;
    r = fa_dd_add(x, fa_dd_neg(fa_two_prod(k, 0x1.921fb54442d18p+0)));
    r = fa_dd_add(r, fa_dd_neg(fa_two_prod(k, 0x1.1a62633145c07p-54)));
    r = fa_dd_add_d(r, k * 0x1.f1976b7ed8fbcp-110); /* pi/2 is less by this */
    r2 = fa_dd_mul(r, r);
    y = r2.hi;
    p = -1.0 / 10888869450418352160768000000.0;
    p = FA_FMA(p, y, 1.0 / 15511210043330985984000000.0);
    p = FA_FMA(p, y, -1.0 / 25852016738884976640000.0);
    p = FA_FMA(p, y, 1.0 / 51090942171709440000.0);
    p = FA_FMA(p, y, -1.0 / 121645100408832000.0);
    s = fa_dd_add_d(fa_dd_make(0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103), y * p); /* 1/17! */
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(-0x1.ae7f3e733b81fp-41, -0x1.1d8656b0ee8cbp-97));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(-0x1.ae64567f544e4p-26, 0x1.c062e06d1f209p-80));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(-0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(0x1.1111111111111p-7, 0x1.1111111111111p-63));
    s = fa_dd_add(fa_dd_mul(s, r2), fa_dd_make(-0x1.5555555555555p-3, -0x1.5555555555555p-57));
    s = fa_dd_add(fa_dd_mul(fa_dd_mul(s, r2), r), r);
    p = -1.0 / 403291461126605635584000000.0;
    p = FA_FMA(p, y, 1.0 / 620448401733239439360000.0);
    p = FA_FMA(p, y, -1.0 / 1124000727777607680000.0);
    p = FA_FMA(p, y, 1.0 / 2432902008176640000.0);
    c = fa_dd_add_d(fa_dd_make(-0x1.6827863b97d97p-53, -0x1.eec01221a8b0bp-107), y * p); /* -1/18! */
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(-0x1.93974a8c07c9dp-37, -0x1.05d6f8a2efd1fp-92));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(-0x1.27e4fb7789f5cp-22, -0x1.cbbc05b4fa99ap-76));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(-0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65));
    c = fa_dd_add(fa_dd_mul(c, r2), fa_dd_make(0x1.5555555555555p-5, 0x1.5555555555555p-59));
    c = fa_dd_add_d(fa_dd_mul(c, r2), -0.5);
    c = fa_dd_add_d(fa_dd_mul(c, r2), 1.0);
    sine.hi = fa_from_bits(((fa_bits(c.hi) & swap) | (fa_bits(s.hi) & ~swap)) ^ flip_s);
    sine.lo = fa_from_bits(((fa_bits(c.lo) & swap) | (fa_bits(s.lo) & ~swap)) ^ flip_s);
    cosine.hi = fa_from_bits(((fa_bits(s.hi) & swap) | (fa_bits(c.hi) & ~swap)) ^ flip_c);
    cosine.lo = fa_from_bits(((fa_bits(s.lo) & swap) | (fa_bits(c.lo) & ~swap)) ^ flip_c);
    *cos_out = cosine;
    return sine;
}

/* exp(s) - 1, and exp(s), for s = p + i t, p clamped to 700: 8 w of the modulus + w |t| exp(p).  (e^p - 1)(1 - v) - v +
 * i e^p sin t, v = 2 sin^2(t/2) */
FA_INLINE fa_cdd fa_cexpm1_wide_v(fa_cdd s, fa_cdd *exp_out)
{
    fa_dd e, m = fa_expm1_wide_v(s.re, &e), c, sn = fa_sincos_wide_v(fa_dd_scale(s.im, 0.5), &c),
             v = fa_dd_scale(fa_dd_mul(sn, sn), -2.0), cosine = fa_dd_add_d(v, 1.0);
    fa_dd im = fa_dd_mul(e, fa_dd_scale(fa_dd_mul(sn, c), 2.0));
    *exp_out = fa_cdd_make(fa_dd_mul(e, cosine), im);
    return fa_cdd_make(fa_dd_add(fa_dd_mul(m, cosine), v), im);
}

/* log(1 + z), principal branch: 16 w of its modulus and of min(1, |z|).  One step of Newton's method from the double y:
 * y + d - d^2/2, 1 + d = (1 + z) e^-y, with 1 + z and e^-y either both less 1 (small z) or as they are */
FA_INLINE fa_cdd fa_clog1p_wide_v(fa_cdd z)
{
    fa_dd one = fa_dd_add_d(z.re, 1.0);
    double size = FA_FMA(z.re.hi, z.re.hi, z.im.hi * z.im.hi), yi, yr = fa_clog1p_v(z.re.hi, z.im.hi, &yi), dr, di;
    fa_cdd y = {{0.0, 0.0}, {yi, 0.0}}, e, m, near, far, d;
    y.re.hi = yr = size < 0.25 ? yr : 0.5 * fa_log_v(fa_max(FA_FMA(one.hi, one.hi, z.im.hi * z.im.hi), 1e-290));
    m = fa_cexpm1_wide_v(fa_cdd_make(fa_dd_make(-yr, 0.0), fa_dd_make(-yi, 0.0)), &e);
    near = fa_cdd_add(fa_cdd_add(z, m), fa_cdd_mul(z, m));
    far = fa_cdd_mul(fa_cdd_make(one, z.im), e);
    far.re = fa_dd_add_d(far.re, -1.0);
    d.re = size < 0.25 ? near.re : far.re;
    d.im = size < 0.25 ? near.im : far.im;
    dr = d.re.hi;
    di = d.im.hi;
    d.re = fa_dd_add_d(d.re, -0.5 * (dr * dr - di * di));
    d.im = fa_dd_add_d(d.im, -dr * di);
    return fa_cdd_add(y, d);
}

/* the same for real x > -1, scalar: log(1 + x) of a double, 8 w */
FA_FUNC fa_dd fa_log1p_wide(double x)
{
    fa_dd e, m, d, one = fa_two_sum(1.0, x);
    double y = log1p(x);
    m = fa_expm1_wide_v(fa_dd_make(-y, 0.0), &e);
    d = fabs(x) < 0.5 ? fa_dd_add(fa_dd_add_d(m, x), fa_dd_mul_d(m, x)) : fa_dd_add_d(fa_dd_mul(one, e), -1.0);
    return fa_dd_add_d(fa_dd_add_d(d, -0.5 * d.hi * d.hi), y);
}

/* log(x), x a normal double, 8 w max(1, |log x|) */
FA_FUNC fa_dd fa_log_wide(double x)
{
    fa_dd e, d;
    double y = log(x);
    (void)fa_expm1_wide_v(fa_dd_make(-y, 0.0), &e);
    d = fa_dd_add_d(fa_dd_mul_d(e, x), -1.0);
    return fa_dd_add_d(fa_dd_add_d(d, -0.5 * d.hi * d.hi), y);
}

#endif
