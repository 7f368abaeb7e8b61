/* num/window.h -- tails of the normal distribution: the smooth windows of the capped line.
 *
 * A window is keep(z) = Phi((z0 - z)/width): near 1 left of z0, near 0 right of it, and entire, so that no quadrature
 * notices its edge. docs/algorithms/line.md.
 */
#ifndef FA_NUM_WINDOW_H
#define FA_NUM_WINDOW_H

#include "vector.h"

#define FA_ERFC_END 26.0 /* erfc(26) = 6e-296 */

/* erfc(x) = t exp(-x^2 + p(t)), x >= 0: t = 2/(2 + x), and p of degree 27 in 2 t - 1: Chebyshev's interpolant of
 * log(erfc(x) exp(x^2)/t) at 64 points, cut where its coefficients are below 1e-18 */
FA_INLINE double fa_erfc_parts_v(double x, double *t_out)
{
    double t = 2.0 / (2.0 + x), y = 2.0 * t - 1.0, p = -1.8902306008944537e-09;
    p = FA_HORNER4(p, y, 4.06088214696972e-09, 1.1172352263623759e-08, -3.9171820510271855e-08, 1.4448658046252676e-09);
    p = FA_HORNER4(p, y, 1.5334345920908177e-07, -2.495832761719667e-07, -1.6849800720653297e-07,
                   1.2500276612569754e-06);
    p = FA_HORNER4(p, y, -1.27231190486887e-06, -2.947986876998259e-06, 8.562623420121286e-06, 1.3772664134464417e-07);
    p = FA_HORNER4(p, y, -3.0187884551394243e-05, 3.17451797494374e-05, 7.14010141275703e-05, -0.0001743029472030762);
    p = FA_HORNER4(p, y, -9.37350311709817e-05, 0.000673678795580235, -0.00014624686337800336, -0.002345812500482853);
    p = FA_HORNER4(p, y, 0.001758933557799016, 0.008824938557060623, -0.009872689366389959, -0.0468956102311753);
    p = FA_HORNER2(p, y, 0.04734330684190443, 0.6726432239776567);
    *t_out = t;
    return FA_FMA(p, y, -0.6717940840566923);
}

/* erfc(x), 0 <= x <= FA_ERFC_END: (13 + 2 x^2) u, relative, proved by bench/proof_erfc.py */
FA_INLINE double fa_erfc_v(double x)
{
    double t, p = fa_erfc_parts_v(x, &t);
    return t * fa_exp_plain_v(FA_FMA(-x, x, p));
}

/* log Phi(-x) to about ten digits, to compare sizes by */
FA_INLINE double fa_log_tail_about_v(double x)
{
    double a = FA_HALF_ROOT * fabs(x), t, p = fa_erfc_parts_v(a, &t), size = fa_log_v(0.5 * t) + FA_FMA(-a, a, p);
    return x > 0.0 ? size : fa_log1p_plain_v(-fa_exp_plain_v(size));
}

/* log Phi(-x), any x: 8 u of 1 + x^2 */
FA_FUNC double fa_log_tail(double x)
{
    double c = 0.0;
    int i;
    if (x < 30.0)
        return log(0.5 * erfc(x * FA_HALF_ROOT));
    for (i = 12; i > 0; i--) /* Mills' ratio 1/(x + 1/(x + 2/(x + ...))) */
        c = i / (x + c);
    return -0.5 * x * x - FA_LOG_SQRT_2PI - log(x + c);
}

/* log of a sum of exponentials, term by term: exp(peak) times `sum`; of one term it is that term */
typedef struct {
    double peak, sum;
} fa_log_total;

FA_INLINE void fa_add_log(fa_log_total *total, double x)
{
    if (x > total->peak) {
        total->sum = 1.0 + total->sum * exp(total->peak - x);
        total->peak = x;
    }
    else
        total->sum += exp(x - total->peak);
}

FA_INLINE double fa_log_of_total(const fa_log_total *total)
{
    return total->sum == 0.0 ? -INFINITY : total->peak + log(total->sum); /* what is no number stays none */
}

#endif
