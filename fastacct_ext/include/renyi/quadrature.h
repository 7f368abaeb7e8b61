/* renyi/quadrature.h -- sums over the nodes of loss/sampled.h: the inner loops of every log-moment.
 *
 * direct  sum of p E2(a loss) and what the derivatives need, where weights and exponentials are normal doubles
 * scaled  sum of exp((1+a) loss + base - reference) where they are not; drops -w (1 + alpha x), upwards and negligible
 * there Reductions run in a fixed order for a given instruction-set level: the same nodes give the same bits.
 */
#ifndef FA_QUADRATURE_H
#define FA_QUADRATURE_H

#include "../loss/sampled.h"

/* t = a loss as a plain double (error 2^-53 |t|, enough while (2+a) loss is small) or as a double-double (2^-63 |t|) */
typedef enum { FA_PLAIN = 0, FA_PRECISE = 1 } fa_precision;
#define FA_PLAIN_LIMIT 32.0 /* of (2+a) max |loss| */

typedef struct {
    double e2, slope, curve, kl;   /* direct sums: p E2(t), p [(t-1) e^t + 1], p t^2 e^t, p E2(-loss) */
    double s0, s1, s2, reference;  /* scaled sums of e^(E - reference) {1, t, t^2} */
    double dropped, dropped_ratio; /* what scaled sums lack: absolute mass; and relative to the scaled sum */
    double loss_max;               /* largest |loss| met */
    fa_precision precision;        /* of the direct sums */
} fa_sums;

FA_INLINE double fa_sum_lanes(const double *s)
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

FA_INLINE double fa_e2_node(double loss_hi, double loss_lo, double a, fa_precision precision, double *t_out,
                            double *exp_out)
{
    fa_dd t;
    if (precision == FA_PLAIN) {
        *t_out = a * loss_hi;
        return fa_expm1_minus_plain_v(*t_out, exp_out);
    }
    t = fa_two_prod(a, loss_hi);
    *t_out = t.hi;
    return fa_expm1_minus_v(t.hi, FA_FMA(a, loss_lo, t.lo), exp_out);
}

FA_INLINE void fa_sums_direct_as(const double *loss_hi, const double *loss_lo, const double *weight, int n, double a,
                                 fa_precision precision, fa_sums *sums)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0;
    int i;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (i = 0; i < n; i++) {
        double e, t, w = weight[i], e2 = fa_e2_node(loss_hi[i], loss_lo[i], a, precision, &t, &e), wt = w * t;
        s0 = FA_FMA(w, e2, s0);
        s1 += FA_FMA(wt, e2 + t, -(w * e2));
        s2 = FA_FMA(wt * t, e, s2);
    }
    sums->e2 += s0;
    sums->slope += s1;
    sums->curve += s2;
}

FA_INLINE double fa_sums_value_as(const double *loss_hi, const double *loss_lo, const double *weight, int n, double a,
                                  fa_precision precision)
{
    double s[FA_LANES] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    int i, k;
    for (i = 0; i < n; i += FA_LANES) {
        FA_PRAGMA(omp simd)
        for (k = 0; k < FA_LANES; k++) {
            double e, t;
            s[k] = FA_FMA(weight[i + k], fa_e2_node(loss_hi[i + k], loss_lo[i + k], a, precision, &t, &e), s[k]);
        }
    }
    return fa_sum_lanes(s);
}

/* adds sum p E2(t), and what the derivatives need, in the precision of the sums */
FA_FUNC void fa_sums_direct(const double *loss_hi, const double *loss_lo, const double *weight, int n, double a,
                            fa_sums *sums)
{
    if (sums->precision == FA_PLAIN)
        fa_sums_direct_as(loss_hi, loss_lo, weight, n, a, FA_PLAIN, sums);
    else
        fa_sums_direct_as(loss_hi, loss_lo, weight, n, a, FA_PRECISE, sums);
}

/* the value alone, for curves and final answers */
FA_FUNC double fa_sums_value(const double *loss_hi, const double *loss_lo, const double *weight, int n, double a,
                             fa_precision precision)
{
    if (precision == FA_PLAIN)
        return fa_sums_value_as(loss_hi, loss_lo, weight, n, a, FA_PLAIN);
    return fa_sums_value_as(loss_hi, loss_lo, weight, n, a, FA_PRECISE);
}

FA_FUNC void fa_sums_scaled(const double *loss_hi, const double *loss_lo, const double *base_hi, const double *base_lo,
                            int n, double a, fa_sums *sums)
{
    double exponent[FA_BLOCK], tail[FA_BLOCK], peak = -INFINITY, s0 = 0.0, s1 = 0.0, s2 = 0.0, ref;
    int i;
    FA_PRAGMA(omp simd reduction(max : peak))
    for (i = 0; i < n; i++) {
        fa_dd loss = fa_dd_make(loss_hi[i], loss_lo[i]);
        fa_dd e = fa_dd_add(fa_dd_add(fa_dd_mul_d(loss, a), loss), fa_dd_make(base_hi[i], base_lo[i]));
        exponent[i] = e.hi;
        tail[i] = e.lo;
        peak = e.hi > peak ? e.hi : peak;
    }
    if (peak > sums->reference) {
        double shrink = sums->s0 > 0.0 ? exp(sums->reference - peak) : 0.0;
        sums->s0 *= shrink;
        sums->s1 *= shrink;
        sums->s2 *= shrink;
        sums->reference = peak;
    }
    ref = sums->reference;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (i = 0; i < n; i++) {
        double t = a * loss_hi[i], d = exponent[i] - ref, e;
        e = fa_exp_v(d, tail[i]);
        e = d < -690.0 ? 0.0 : e;
        s0 += e;
        s1 += t * e;
        s2 += t * t * e;
    }
    sums->s0 += s0;
    sums->s1 += s1;
    sums->s2 += s2;
}

FA_FUNC void fa_weights(const fa_sgm *m, const double *loss_hi, const double *loss_lo, const double *base_hi,
                        const double *base_lo, int n, double *weight)
{
    double unit = m->unit;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        fa_dd e = fa_two_sum(loss_hi[i], base_hi[i]);
        weight[i] = unit * fa_exp_v(e.hi, e.lo + (loss_lo[i] + base_lo[i]));
    }
}

/* nodes j0 <= j < j1 summed at order 1 + a without a cache */
FA_FUNC void fa_sums_range(fa_sgm *m, int64_t j0, int64_t j1, double a, fa_sums *sums)
{
    double loss_hi[FA_BLOCK], loss_lo[FA_BLOCK], base_hi[FA_BLOCK], base_lo[FA_BLOCK], weight[FA_BLOCK];
    int64_t j;
    m->j_next = INT64_MIN; /* the same range gives the same bits, whatever was computed before */
    for (j = j0; j < j1; j += FA_BLOCK) {
        int n = j1 - j < FA_BLOCK ? (int)(j1 - j + FA_LANES - 1) / FA_LANES * FA_LANES : FA_BLOCK;
        double last, light;
        fa_sgm_nodes(m, j, n, loss_hi, loss_lo, base_hi, base_lo);
        last = loss_hi[n - 1];
        light = fa_min(loss_hi[0] + base_hi[0], last + base_hi[n - 1]);
        sums->loss_max = fa_max(sums->loss_max, fabs(last));
        if (a * last < 690.0 && light > -640.0) {
            fa_weights(m, loss_hi, loss_lo, base_hi, base_lo, n, weight);
            fa_sums_direct(loss_hi, loss_lo, weight, n, a, sums);
            sums->kl += fa_sums_value(loss_hi, loss_lo, weight, n, -1.0, FA_PRECISE);
        }
        else {
            fa_sums_scaled(loss_hi, loss_lo, base_hi, base_lo, n, a, sums);
            /* lacking: w (1 + alpha x) <= (2+a) w e^loss, which is (2+a) e^(-a loss) of the term */
            if (a * loss_hi[0] > 100.0)
                sums->dropped_ratio = fa_max(sums->dropped_ratio, (2.0 + a) * fa_exp_v(-a * loss_hi[0], 0.0));
            else
                sums->dropped += (2.0 + a) * n * m->unit *
                                 fa_exp_v(fa_max(base_hi[0], base_hi[n - 1]) + fa_max(last, 0.0), 0.0);
        }
    }
}

#endif
