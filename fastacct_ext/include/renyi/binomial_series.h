/* renyi/binomial_series.h -- K at an integer order by the binomial series, in log space, every term positive:
 *
 *     M - 1 = sum_{k=2}^{alpha} C(alpha, k) (1-q)^(alpha-k) q^k expm1(k (k-1) / (2 sigma^2))
 *
 * The k = 0 and k = 1 terms are exactly 0: nothing cancels at small q.  Binomial weights come from the recurrence
 * b_{k+1} = b_k (alpha-k)/(k+1) q/(1-q) in double-double with an integer exponent of 2 beside it, so no underflow at
 * any order.
 */
#ifndef FA_BINOMIAL_SERIES_H
#define FA_BINOMIAL_SERIES_H

#include "log_moment.h"

#define FA_SERIES_MAX_ORDER    1e6
#define FA_SERIES_MAX_EXPONENT 0x1p43 /* of k (k-1)/(2 sigma^2): beyond, its reduction by ln 2 would lose digits */

/* 2^exponent * value */
typedef struct {
    fa_dd value;
    double exponent;
} fa_scaled;

/* exp(x), |x| <= 1: 6 u */
FA_INLINE fa_dd fa_exp_rest(fa_dd x)
{
    double e = fa_exp_plain_v(x.hi);
    return fa_dd_make(FA_FMA(e, x.lo, e), 0.0);
}

FA_INLINE void fa_renormalise(fa_scaled *s)
{
    int e;
    (void)frexp(s->value.hi, &e);
    s->value.hi = ldexp(s->value.hi, -e);
    s->value.lo = ldexp(s->value.lo, -e);
    s->exponent += e;
}

/* fa_series -- K(alpha) for an integer 2 <= alpha <= 1e6, 0 < q < 1.
 *   domain   also alpha^2/(2 sigma^2) <= 2^43
 *   error    relative 2^-47 + 20 u sqrt(alpha q (1-q)) + alpha |log(1-q)| 2^-63 of M - 1 (docs/algorithms/series.md),
 * added to `upper` then     fa_moment_finish, as for every log-moment cost     about 60 ns a term         oracle
 * reference.log_moment         source Mironov, Talwar, Zhang 2019, section 3.3 */
FA_FUNC void fa_series(double sigma, double q, double alpha, fa_moment *out)
{
    fa_dd variance = fa_two_prod(sigma, sigma), odds, log_start, half_inv, ln2 = {FA_LN2, 2.3190468138462996e-17};
    fa_scaled b;
    double sum = 0.0, sum_exponent = -1e300, k, relative, m, log_sum;
    half_inv = fa_dd_div(fa_dd_make(0.5, 0.0), variance);
    odds = fa_dd_div(fa_dd_make(q, 0.0), fa_two_sum(1.0, -q));
    log_start = fa_dd_mul_d(fa_log1p_v(fa_dd_make(-q, 0.0)), alpha);
    b.exponent = nearbyint(log_start.hi / FA_LN2);
    b.value = fa_exp_rest(fa_dd_add(log_start, fa_dd_mul_d(ln2, -b.exponent)));
    for (k = 0.0; k < alpha; k += 1.0) {
        double j = k + 1.0, e, factor, shift = 0.0, term, at;
        b.value = fa_dd_mul(fa_dd_div(fa_dd_mul_d(b.value, alpha - k), fa_dd_make(j, 0.0)), odds);
        fa_renormalise(&b);
        if (j < 2.0)
            continue;
        fa_dd c = fa_dd_mul(half_inv, fa_two_prod(j, j - 1.0));
        if (c.hi < 40.0) {
            double whole = fa_exp_both_v(c.hi, &e);
            factor = FA_FMA(c.lo, whole, e);
        }
        else {
            shift = nearbyint(c.hi / FA_LN2);
            c = fa_dd_add(c, fa_dd_mul_d(ln2, -shift));
            factor = fa_exp_rest(c).hi; /* the -1 is below e^-40 */
        }
        term = b.value.hi * factor;
        at = b.exponent + shift;
        if (at > sum_exponent + 100.0 || sum == 0.0) { /* a new, far larger reference */
            sum = sum_exponent < at - 1000.0 ? 0.0 : ldexp(sum, (int)(sum_exponent - at));
            sum_exponent = at;
        }
        if (at > sum_exponent - 1000.0)
            sum += ldexp(term, (int)(at - sum_exponent));
    }
    relative = 0x1p-47 + 20.0 * FA_EPS * sqrt(alpha * q * (1.0 - q)) + alpha * fabs(log_start.hi / alpha) * 0x1p-63 +
               alpha * 0x1p-90;
    log_sum = log(sum) + sum_exponent * FA_LN2;
    if (log_sum < 600.0) {
        int e;
        m = frexp(sum, &e);
        m = ldexp(m, (int)fa_max(sum_exponent + e, -1060.0));
        out->k = log1p(m);
    }
    else
        out->k = log_sum;
    out->upper = out->k + relative * fa_min(out->k, 1.0);
    out->upper += 6.0 * FA_EPS * out->upper;
    out->lower = fa_max(0.0, out->k - relative * fa_min(out->k, 1.0) * (1.0 + relative));
    out->lower -= 6.0 * FA_EPS * out->lower;
    out->d1 = out->d2 = out->excess = NAN;
    out->status = FA_OK;
}

#endif
