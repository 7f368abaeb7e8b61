/* renyi/quadrature.h -- sums over the nodes of loss/sampled.h: the inner loops of every log-moment.
 *
 *   near   sum of p E2(a loss), while a loss <= FA_NEAR and weights are normal doubles
 *   far    sum of exp(alpha loss - z^2/(2 sigma^2)) beyond, about the sampled bump; drops -w (1 + alpha x), upwards and
 *          negligible there
 * Both say what they may be off by (docs/algorithms/quadrature.md, Rounding).  Reductions run in a fixed order for a
 * given instruction-set level: the same nodes give the same bits.
 */
#ifndef FA_QUADRATURE_H
#define FA_QUADRATURE_H

#include "../loss/sampled.h"

#define FA_MAX_NODES (1 << 15) /* summed at one order; beyond it Minkowski's bound answers */
#define FA_NEAR      50.0      /* of a loss: beyond it 1 + alpha x is at most (2 + a) e^-50 of (1+x)^alpha ... */
#define FA_NEAR_REST 2e-22     /* ... this is e^-50 */
#define FA_SPARE     40.0      /* -log of what may be passed over */
#define FA_NEAR_MOST 600.0     /* of a loss, where the rounding of losses hardly counts */

typedef struct {
    double e2, slope, curve, kl;  /* near sums: p E2(t), p [(t-1) e^t + 1], p t^2 e^t, p E2(-loss) */
    double s0, s1, s2, reference; /* far sums of e^(E - reference) {1, t, t^2} */
    double near, far;             /* errors of near terms; of far terms, in u and in e^(E - reference) */
    double lost;                  /* bound of near terms whose weight was below the smallest double */
} fa_sums;

/* k and the derivatives | k, lower and upper | all */
typedef enum { FA_SEARCH = 0, FA_BOUNDS = 1, FA_BOTH = 2 } fa_need;

/* Order 1 + a, seen from the sampled bump: exponents are center - (z - alpha)^2/(2 sigma^2) + alpha tail.  The j-th
 * node lies offset + (j - j0) h right of alpha.  half: 1/(2 sigma^2); fine: errors of losses and tails, in u; limit: of
 * near nodes */
typedef struct {
    double a, alpha, h, half, center, fine, offset, limit;
    int64_t j0;
} fa_bump;

FA_INLINE double fa_sum_lanes(const double *s)
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* a loss up to which nodes are near: rounding of losses decides, which the order multiplies, and of exponents */
FA_INLINE double fa_near_limit(const fa_sgm *m, double a, double z_end)
{
    return a * (9.0 + 3.0 * z_end * m->inv_var) + 2.0 * z_end * z_end * m->inv_var <= 3e4 ? FA_NEAR_MOST : FA_NEAR;
}

/* absolute error of the center: log q, and a few double-double operations */
FA_INLINE double fa_center_error(const fa_sgm *m, double a)
{
    return (1.0 + a) * (0x1p-63 + 0x1p-90 * (0.5 * a * m->inv_var - m->log_q));
}

/* center = alpha (a/(2 sigma^2) + log q), whose two terms cancel where the bump begins to show: in double-double */
FA_FUNC void fa_bump_place(const fa_sgm *m, double z_end, fa_bump *b)
{
    fa_dd alpha = fa_two_sum(b->a, 1.0), d;
    double y = m->inv_var * z_end;
    b->alpha = alpha.hi;
    b->h = m->h;
    b->half = 0.5 * m->inv_var;
    b->center = fa_dd_mul(alpha, fa_dd_add(fa_dd_mul_d(m->inv_var_dd, 0.5 * b->a), m->log_q_dd)).hi;
    b->fine = 15.0 + m->odds_error + (y > FA_SGM_FAR ? 10.0 : 4.0) * y;
    b->j0 = (int64_t)floor(alpha.hi * m->inv_h + 0.5);
    d = fa_two_sum((double)b->j0 * m->h, -alpha.hi);
    b->offset = d.hi + (d.lo - alpha.lo);
}

/* Error of near terms between two nodes, relative, the first of them left of 0 or anywhere if the loss is positive
 * there.  Its parts grow with z > 0 */
FA_INLINE double fa_near_error(const fa_sgm *m, double a, double first_loss, double z, double loss)
{
    double y = fa_max(0.0, (z - 0.5) * m->inv_var), l = fa_max(0.0, loss), t = a * l;
    return FA_EPS * (60.0 + 27.0 * fa_max(0.0, -first_loss) +
                     (2.0 + fa_min(a, t)) * (9.0 + (y > FA_SGM_FAR ? 10.0 : 3.0) * y) + 5.0 * t + 9.0 * l +
                     4.0 * fa_max(40.0, 0.5 * z * z * m->inv_var));
}

/* adds sum p E2(t), and what the derivatives need */
FA_FUNC void fa_sums_near(const double *loss, const double *weight, int n, double a, fa_sums *sums)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0;
    int i;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (i = 0; i < n; i++) {
        double t = a * loss[i], e, e2 = fa_expm1_minus_plain_v(t, &e), w = weight[i], wt = w * t;
        s0 = FA_FMA(w, e2, s0);
        s1 += FA_FMA(wt, e2 + t, -(w * e2));
        s2 = FA_FMA(wt * t, e, s2);
    }
    sums->e2 += s0;
    sums->slope += s1;
    sums->curve += s2;
}

/* the value alone, for curves and final answers */
FA_INLINE double fa_sums_value(const double *loss, const double *weight, int n, double a)
{
    double s[FA_LANES] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    int i, k;
    for (i = 0; i < n; i += FA_LANES) {
        FA_PRAGMA(omp simd)
        for (k = 0; k < FA_LANES; k++) {
            double e;
            s[k] = FA_FMA(weight[i + k], fa_expm1_minus_plain_v(a * loss[i + k], &e), s[k]);
        }
    }
    return fa_sum_lanes(s);
}

/* The exponent of the j-th node as a far one, and its error in u: about the bump where the tail is less than the loss,
 * else alpha loss - z^2/(2 sigma^2) as it stands */
FA_INLINE double fa_far_exponent(const fa_bump *b, double j, double loss, double tail, double *error_out)
{
    double d = FA_FMA(j - (double)b->j0, b->h, b->offset), z = j * b->h, square = d * d * b->half,
           lift = b->alpha * tail, base = z * z * b->half, rise = b->alpha * loss;
    int is_bump = tail < loss;
    *error_out = FA_FMA(is_bump ? lift : rise, b->fine, 9.0 * (is_bump ? square : base));
    return is_bump ? b->center + (lift - square) : rise - base;
}

/* at most FA_BLOCK nodes from the j-th on, without the first `skip` */
FA_FUNC void fa_sums_far(const fa_bump *b, int64_t j, const double *loss, const double *tail, int skip, int n,
                         fa_sums *sums)
{
    double exponent[FA_BLOCK], error[FA_BLOCK], peak = -INFINITY, s0 = 0.0, s1 = 0.0, s2 = 0.0, far = 0.0, ref,
           from = (double)j;
    int i;
    FA_PRAGMA(omp simd reduction(max : peak))
    for (i = 0; i < n; i++) {
        double e = fa_far_exponent(b, from + i, loss[i], tail[i], error + i);
        exponent[i] = i < skip ? -INFINITY : e;
        peak = exponent[i] > peak ? exponent[i] : peak;
    }
    if (peak > sums->reference) {
        double shrink = sums->s0 > 0.0 ? exp(sums->reference - peak) : 0.0;
        sums->s0 *= shrink;
        sums->s1 *= shrink;
        sums->s2 *= shrink;
        sums->far *= shrink;
        sums->reference = peak;
    }
    ref = sums->reference;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, far))
    for (i = 0; i < n; i++) {
        double t = b->a * loss[i], d = exponent[i] - ref, e = fa_exp_plain_v(d);
        e = d < -690.0 ? 0.0 : e;
        s0 += e;
        s1 += t * e;
        s2 += t * t * e;
        far += e * error[i];
    }
    sums->s0 += s0;
    sums->s1 += s1;
    sums->s2 += s2;
    sums->far += far;
}

/* bound of near terms whose weight is 0, among n nodes up to one with that loss: weights are below e^-690 there */
FA_INLINE double fa_near_lost(double weight, double loss, double a, int n)
{
    return weight > 0.0 ? 0.0 : n * fa_exp_plain_v(a * loss - 690.0);
}

/* how many of n nodes are near: losses increase */
FA_INLINE int fa_count_near(const double *loss, int n, double a, double limit)
{
    int i, near = 0;
    if (a * loss[n - 1] <= limit)
        return n;
    for (i = 0; i < n; i++)
        near += a * loss[i] <= limit;
    return near;
}

/* n nodes from the j-th on, at most FA_BLOCK where some are far; kl: sum of p E2(-loss) over them.  Near ones err by
 * what the last of them does, far ones each by their own */
FA_INLINE void fa_sums_block(const fa_sgm *m, const fa_bump *bump, fa_need need, int64_t j, int n, const double *loss,
                           const double *tail, const double *weight, double kl, fa_sums *sums)
{
    double a = bump->a, before = sums->e2 + a * sums->kl;
    int near = fa_count_near(loss, n, a, bump->limit), whole = near / FA_LANES * FA_LANES;
    if (near > 0) {
        if (need == FA_BOUNDS)
            sums->e2 += fa_sums_value(loss, weight, whole, a);
        else
            fa_sums_near(loss, weight, whole, a, sums);
        if (whole < near)
            fa_sums_near(loss + whole, weight + whole, near - whole, a, sums);
        sums->kl += kl;
        sums->lost += fa_near_lost(weight[near - 1], loss[near - 1], a, near);
        sums->near += fa_near_error(m, a, loss[0], (double)(j + near - 1) * m->h, loss[near - 1]) *
                      (sums->e2 + a * sums->kl - before);
    }
    if (near < n)
        fa_sums_far(bump, j, loss, tail, near, n, sums);
}

/* omitted masses are handled relative to exp(shift), so that they mean something where M itself would overflow */
FA_INLINE double fa_shift(const fa_sums *s) { return s->s0 > 0.0 ? fa_max(s->reference, 0.0) : 0.0; }

/* absolute bound of the left tail: g <= max(alpha/2, 1) a x^2 there, x^2 <= q^2 min(1, y^2) */
FA_INLINE double fa_omitted_left(const fa_sgm *m, double a, double z_left, double shift)
{
    double y = (z_left - 0.5) * m->inv_var, q = m->q;
    return fa_max(0.5 * (1.0 + a), 1.0) * a * q * q * fa_min(1.0, 1.1 * y * y) * FA_TAIL_MASS *
           (shift > 0.0 ? fa_exp_plain_v(-shift) : 1.0);
}

/* bound of the sum over all grid points beyond z_right >= max(alpha, 2) + 8 sigma, by one of three majorants of g N:
 *   alpha a/2 q^2 min(1, y)^2 e^(2y) (1+x)^max(alpha-2, 0) N;   (1+x)^alpha N;   a loss (1 + a loss/2) (1+x)^alpha N
 * for a < 1/4, loss > 2.7 They fall there at least geometrically, with ratio exp(-(8 - 2/8) h/sigma)
 * (docs/algorithms/quadrature.md). */
FA_INLINE double fa_omitted_right(const fa_sgm *m, double a, double z_right, double loss, double shift)
{
    double y = (z_right - 0.5) * m->inv_var, exponent = -0.5 * z_right * z_right * m->inv_var - shift,
           factor = 1.0000001;
    if (a >= 0.25 ? 0.5 * a * (1.0 + a) * loss * loss > 1.0
                  : loss > 2.7) { /* about where the second, or the third, is smaller */
        exponent += (1.0 + a) * loss;
        if (a < 0.25)
            factor *= a * loss * (1.0 + 0.5 * a * loss);
    }
    else {
        exponent += 2.0 * (m->log_q + y) + fa_max(a - 1.0, 0.0) * loss;
        y = fa_min(1.0, y);
        factor *= 0.5 * a * (1.0 + a) * y * y;
    }
    exponent += 16.0 * FA_EPS * ((1.0 + a) * loss + z_right * z_right * m->inv_var - m->log_q);
    /* fa_exp_plain_v clamps to [-700, 700]: upwards below, and exp(700) makes the ledger refuse the result */
    return factor * fa_exp_plain_v(exponent) * m->tail_unit;
}

FA_INLINE double fa_right_end(const fa_sgm *m, double a) { return fa_max(1.0 + a, 2.0) + FA_TAIL_WIDTH * m->sigma; }

/* Whether all that lies between z0 >= 1/2 and z1 is below e^least, node by node: the slope of log[(1+x)^alpha N] is
 * (alpha p - z)/sigma^2 with the logistic p increasing, so if it has one sign, an end is the largest.  That end */
FA_FUNC int fa_is_small(const fa_sgm *m, double a, double z0, double z1, double least, double *top_out)
{
    double p0, p1, alpha = 1.0 + a, l0 = fa_sgm_loss_guess(m, z0, &p0), l1 = fa_sgm_loss_guess(m, z1, &p1),
           e0 = alpha * l0 - 0.5 * z0 * z0 * m->inv_var, e1 = alpha * l1 - 0.5 * z1 * z1 * m->inv_var;
    int falls = alpha * p1 < z0;
    *top_out = (falls ? e0 : e1) + 16.0 * FA_EPS * (alpha * l1 + z1 * z1 * m->inv_var);
    return z0 >= 0.5 && (falls || alpha * p0 > z1) && *top_out < least;
}

/* log of (1+x)^alpha N at a mode, its slope's fixed point from z on, where that is far above 1 */
FA_FUNC double fa_mode_height(const fa_sgm *m, double a, double z)
{
    double p, next, height;
    int i;
    for (i = 0; i < 100; i++) {
        fa_sgm_loss_guess(m, z, &p);
        next = (1.0 + a) * p;
        if (fabs(next - z) < 0.1 * m->sigma)
            break;
        z = next;
    }
    height = (1.0 + a) * fa_sgm_loss_guess(m, z, &p) - 0.5 * z * z * m->inv_var;
    return height > 10.0 ? height : -INFINITY;
}

/* The grid at one order, and what is too small to be summed */
typedef struct {
    int64_t begin, end;
    double least, most; /* of log[(1+x)^alpha N]: nodes below `least` are passed over, all of them are below `most` */
} fa_span;

/* least: e^-spare of about M - 1, shared by all nodes; a guess */
FA_FUNC int fa_span_of(const fa_sgm *m, double a, double center, double spare, fa_span *out)
{
    double right = fa_right_end(m, a), alpha = 1.0 + a;
    if (!(m->h > 0.0) || !(right / m->h < 0x1p52))
        return 0;
    out->begin = (int64_t)floor(-FA_TAIL_WIDTH * m->sigma / m->h);
    out->end = (int64_t)ceil(right / m->h) + 1;
    out->least = fa_min(log(fa_chi_square(m->inv_var)) + m->log_q, 0.0) + m->log_q + log(0.5 * a * alpha);
    if ((alpha - 0.5) * m->inv_var > m->log_odds)
        out->least = fa_max(out->least, center + fa_min(0.0, log(a)));
    if (out->end - out->begin > 4096)
        out->least = fa_max(out->least, fa_max(fa_mode_height(m, a, 1.0), fa_mode_height(m, a, alpha)));
    out->least -= spare + log1p((double)(out->end - out->begin));
    out->most = -INFINITY;
    return 1;
}

/* Sums the nodes of a range, or (sums 0) counts them: stretches, longer and longer, of nodes too small are passed over.
 * How many are summed, or more than FA_MAX_NODES */
FA_FUNC int fa_sum_span(const fa_sgm *m, const fa_bump *bump, fa_span *span, fa_sums *sums)
{
    int64_t j = span->begin, stride = FA_BLOCK;
    double top, loss[FA_BLOCK], tail[FA_BLOCK], weight[FA_BLOCK];
    int n = 0;
    while (j < span->end && n <= FA_MAX_NODES) {
        int64_t end = span->end - j < stride ? span->end : j + stride;
        int count = (int)((fa_min((double)(end - j), FA_BLOCK) + FA_LANES - 1) / FA_LANES) * FA_LANES;
        if (fa_is_small(m, bump->a, (double)j * m->h, (double)(end - 1) * m->h, span->least, &top)) {
            span->most = fa_max(span->most, top);
            j = end;
            stride *= 2;
            continue;
        }
        if (stride > FA_BLOCK) {
            stride /= 2;
            continue;
        }
        if (sums) {
            fa_sgm_nodes(m, j, count, loss, tail, weight);
            fa_sums_block(m, bump, FA_BOTH, j, count, loss, tail, weight, fa_sums_value(loss, weight, count, -1.0),
                          sums);
        }
        j += count;
        n += count;
    }
    return n;
}

/* Sums over all nodes that order 1 + a needs, without a cache, and the bound of what they leave out.  The limit of near
 * nodes is usually fa_near_limit's, spare FA_SPARE.  0: too many nodes */
FA_FUNC int fa_sums_all(const fa_sgm *m, double a, double limit, double spare, fa_sums *sums, double *omitted_out)
{
    double p, shift, z;
    fa_bump bump = {.a = a, .limit = limit};
    fa_span span;
    fa_bump_place(m, fa_right_end(m, a), &bump);
    if (!fa_span_of(m, a, bump.center, spare, &span))
        return 0;
    if (span.end - span.begin > FA_MAX_NODES && fa_sum_span(m, &bump, &span, 0) > FA_MAX_NODES)
        return 0;
    fa_sum_span(m, &bump, &span, sums);
    z = (double)span.end * m->h;
    shift = fa_shift(sums);
    *omitted_out = sums->lost * fa_exp_plain_v(-shift) +
                   fa_omitted_left(m, a, (double)span.begin * m->h, shift) +
                   fa_omitted_right(m, a, z, fa_sgm_loss_guess(m, z, &p), shift);
    if (span.most > -INFINITY)
        *omitted_out += 1.0000001 * m->unit * (double)(span.end - span.begin) * fa_exp_plain_v(span.most - shift);
    return 1;
}

#endif
