/* renyi/conversion.h -- from one point (alpha, K) of a log-moment curve to (epsilon, delta), as certified upper bounds.
 *
 * With a = alpha - 1, K = a * rdp:
 *
 *   mironov                 eps = (K - log delta)/a                                Mironov 2017, proposition 3
 *   canonne_kamath_steinke  eps = (K - log delta - log alpha)/a + log(a/alpha)     Canonne et al. 2020, proposition 12
 *   optimal                 the smallest eps that the point implies (Asoodeh et al. 2021), by its dual:
 *
 *     eps = log(a [x/alpha + c y^a (x - y)]),  x = (y^a + D/(alpha delta))^(1/a),  0 <= y < 1
 *     D = e^K - alpha y^a + a y^alpha,  c = delta/D
 *
 * y = 0 gives the line above; every y is a valid bound, and the minimum over y is the optimum: see
 * docs/algorithms/conversion.md.
 * Rounding is added as 8 u times the sum of the magnitudes that enter.
 */
#ifndef FA_CONVERSION_H
#define FA_CONVERSION_H

#include "../choices.h"
#include "../num/math.h"

FA_INLINE double fa_eps_mironov(double k, double a, double log_delta)
{
    double eps = (k - log_delta) / a;
    return eps + 8.0 * FA_EPS * (k + fabs(log_delta)) / a;
}

FA_INLINE double fa_eps_cks(double k, double a, double log_delta)
{
    double log_alpha = log1p(a), gain = log1p(1.0 / a);
    double eps = (k - log_delta - log_alpha) / a - gain;
    return eps + 8.0 * FA_EPS * ((k + fabs(log_delta) + log_alpha) / a + gain);
}

/* log delta of the same two */
#define FA_LOG_DELTA_MIN -1e300

FA_INLINE double fa_log_delta_mironov(double k, double a, double eps)
{
    if (a * eps > 1e300)
        return k < 1e299 ? FA_LOG_DELTA_MIN : 0.0;
    return k - a * eps + 8.0 * FA_EPS * (k + a * eps);
}

FA_INLINE double fa_log_delta_cks(double k, double a, double eps)
{
    double log_alpha = log1p(a), gain = a * log1p(1.0 / a);
    if (a * eps > 1e300)
        return k < 1e299 ? FA_LOG_DELTA_MIN : 0.0;
    return k - a * eps - gain - log_alpha + 8.0 * FA_EPS * (k + a * eps + gain + log_alpha);
}

/* log(D) for y = exp(log_y): D = (e^K - 1) + [1 - alpha y^a + a y^alpha], both brackets >= 0 */
FA_FUNC double fa_optimal_log_d(double k, double a, double log_y)
{
    /* 1 - alpha y^a + a y^alpha = E2-like: with s = a log y <= 0, r = log y: 1 - e^s - a e^s (1 - e^r) */
    double s = a * log_y, es = exp(s), rest = -expm1(s) + a * es * expm1(log_y);
    if (-s * (1.0 - log_y) < 1e-4) /* y -> 1: alpha a (log y)^2/2 (1 + (2 alpha - 1)/3 log y + ...) */
        rest = 0.5 * a * (1.0 + a) * log_y * log_y;
    rest = fa_max(rest, 0.0) +
           8.0 * FA_EPS * (fabs(expm1(s)) + fabs(a * es * expm1(log_y))); /* a larger D is a valid, looser D */
    if (k > 600.0)
        return k + log1p((rest - 1.0) * exp(-k));
    return log(expm1(k) + rest);
}

FA_FUNC double fa_eps_optimal_at(double k, double a, double log_delta, double log_y)
{
    double log_alpha = log1p(a), log_d, log_x, log_ya = a * log_y, step, gap, lead, second, sizes;
    if (log_y < -700.0)
        return fa_eps_cks(k, a, log_delta);
    log_d = fa_optimal_log_d(k, a, log_y);
    step = log_d - log_alpha - log_delta; /* log(D/(alpha delta)) */
    step -= log_ya;
    gap = (step > 0.0 ? step + log1p(exp(-step)) : log1p(exp(step))) / a; /* log(x/y), relatively accurate */
    log_x = log_y + gap;
    lead = log_x - log_alpha; /* log(x/alpha) */
    second = log_delta - log_d + log_ya + log_x + log(-expm1(-gap));
    sizes = fabs(log_d) + log_alpha + fabs(log_delta) + fabs(log_ya) + 1.0;
    lead = lead > second ? lead + log1p(exp(second - lead)) : second + log1p(exp(lead - second));
    return log(a) + lead + 32.0 * FA_EPS * (sizes / a + sizes + fabs(log(a)));
}

#define FA_GOLDEN 0.6180339887498949

/* golden section: the two inner points of an interval, and the values there, which the caller writes */
typedef struct {
    double low, high, at[2], value[2];
} fa_golden;

FA_INLINE fa_golden fa_golden_of(double low, double high)
{
    return (fa_golden){low, high, {high - FA_GOLDEN * (high - low), low + FA_GOLDEN * (high - low)}, {0.0, 0.0}};
}

/* cut off the end beside the larger value; which of the two points is new */
FA_INLINE int fa_golden_next(fa_golden *g)
{
    int fresh = g->value[0] < g->value[1] ? 0 : 1;
    if (fresh)
        g->low = g->at[0];
    else
        g->high = g->at[1];
    g->at[1 - fresh] = g->at[fresh];
    g->value[1 - fresh] = g->value[fresh];
    g->at[fresh] = fresh ? g->low + FA_GOLDEN * (g->high - g->low) : g->high - FA_GOLDEN * (g->high - g->low);
    return fresh;
}

/* minimum over y: golden section on t = log(-log y), where the objective has one valley; any y is a valid bound */
FA_FUNC double fa_eps_optimal(double k, double a, double log_delta)
{
    double lo = -18.0, hi = 7.0, best = fa_eps_cks(k, a, log_delta), best_t = hi, f;
    fa_golden g;
    int i;
    for (i = 0; i <= 25; i++) { /* coarse scan finds the valley */
        double t = lo + (hi - lo) * i / 25.0;
        f = fa_eps_optimal_at(k, a, log_delta, -exp(t));
        if (f < best) {
            best = f;
            best_t = t;
        }
    }
    g = fa_golden_of(best_t - 1.0, best_t + 1.0);
    for (i = -2; i < 36; i++) {
        int at = i < 0 ? i + 2 : fa_golden_next(&g);
        g.value[at] = fa_eps_optimal_at(k, a, log_delta, -exp(g.at[at]));
    }
    return fa_min(best, fa_min(g.value[0], g.value[1]));
}

FA_INLINE double fa_eps_from(fa_rule c, double k, double a, double log_delta)
{
    if (c == FA_RULE_MIRONOV)
        return fa_eps_mironov(k, a, log_delta);
    return c == FA_RULE_CKS ? fa_eps_cks(k, a, log_delta) : fa_eps_optimal(k, a, log_delta);
}

/* log delta implied at eps; the optimal one by bisection on log delta (monotone), safe side returned */
FA_FUNC double fa_log_delta_from(fa_rule c, double k, double a, double eps)
{
    double lo, hi;
    int i;
    if (c == FA_RULE_MIRONOV)
        return fa_log_delta_mironov(k, a, eps);
    hi = fa_log_delta_cks(k, a, eps);
    if (c == FA_RULE_CKS)
        return hi;
    hi = fa_min(hi, 0.0);
    lo = hi - 1.0;
    while (lo > -2000.0 && fa_eps_optimal(k, a, lo) <= eps)
        hi = lo, lo = hi - 2.0 * (1.0 + 0.05 * fabs(hi));
    for (i = 0; i < 60 && hi - lo > 1e-13 * (1.0 + fabs(hi)); i++) {
        double mid = 0.5 * (lo + hi);
        if (fa_eps_optimal(k, a, mid) <= eps)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

/* delta of its logarithm, rounded up: at most 1, never 0 */
FA_FUNC double fa_delta_from_log(double log_delta)
{
    double delta;
    if (!(log_delta < 0.0))
        return 1.0;
    delta = exp(log_delta) * (1.0 + 4.0 * FA_EPS) + 0x1p-1074;
    return delta < 1.0 ? delta : 1.0;
}

#endif
