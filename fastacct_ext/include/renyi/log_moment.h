/* renyi/log_moment.h -- K(1+a) = log E_Q[(dP/dQ)^(1+a)], a > 0, of the Poisson-subsampled Gaussian, with a proved error
 * bound.
 *
 * With t = a * loss, E2(t) = e^t - 1 - t, and Q-weights w, P-weights p = w e^loss on the grid of loss/sampled.h,
 *
 *     M - 1 = sum_j w_j [(1+x_j)^(1+a) - 1 - (1+a) x_j] = sum_j p_j E2(a loss_j)  +  a sum_j p_j E2(-loss_j).
 *
 * Every term is positive: nothing cancels at small q, and dividing by a is harmless as a -> 0 (the second sum is
 * KL(P||Q)). All orders share the nodes.  Nodes where E2 or the weight would overflow or underflow are summed in the
 * form exp((1+a) loss + base - reference) instead.
 *
 * The error ledger (docs/algorithms/quadrature.md) has four entries: aliasing of the trapezoid rule, the tails and the
 * valley left out, rounding of the terms, rounding of the exponents at huge orders.  It is added to the result: `upper`
 * is a proved upper bound.
 */
#ifndef FA_LOG_MOMENT_H
#define FA_LOG_MOMENT_H

#include "quadrature.h"

#define FA_SIGMA_MIN 1e-100 /* outside, 1/sigma^2 is not a normal double: Minkowski's bound answers */
#define FA_SIGMA_MAX 1e100
#define FA_CACHE     512       /* nodes kept for sharing over orders */
#define FA_MAX_NODES (1 << 15) /* beyond it Minkowski's bound answers */
#define FA_ROUNDING  5e-14     /* relative rounding error of a sum of terms, proved <= 400 u */

typedef enum {
    FA_OK = 0,
    FA_LOOSE = 1,
    FA_NOT_MET = 2
} fa_status; /* tight | certified but looser | target cannot be met */

/* k and the derivatives | k, lower and upper | all */
typedef enum { FA_SEARCH = 0, FA_BOUNDS = 1, FA_BOTH = 2 } fa_need;

typedef struct {
    double k;      /* log-moment K(1+a), nearest                         */
    double upper;  /* K with the error ledger added                      */
    double lower;  /* and taken away                                     */
    double d1, d2; /* a K', a^2 K''          (plain doubles, for search) */
    double excess; /* a K' - K >= 0          (plain doubles, for search) */
    int status;
} fa_moment;

typedef struct {
    fa_sgm mech;
    double a_cap;                       /* cached nodes serve orders 1 + a, a <= a_cap; 0: no cache */
    double a_limit;                     /* largest cap that FA_CACHE nodes can serve */
    int n, n_direct;                    /* cached nodes; those whose weight is a normal double */
    double kl[FA_CACHE / FA_LANES + 1]; /* kl[i]: sum of p E2(-loss) over the first i * FA_LANES nodes, so that results
                                           do not depend on how many nodes happen to be cached */
    double z_first;
    double first_loss[FA_CACHE / FA_LANES], last_loss[FA_CACHE / FA_LANES]; /* of FA_LANES nodes each: their ends */
    double first_base[FA_CACHE / FA_LANES], last_base[FA_CACHE / FA_LANES];
    double loss_hi[FA_CACHE], loss_lo[FA_CACHE], base_hi[FA_CACHE], base_lo[FA_CACHE], weight[FA_CACHE];
} fa_log_moment;

/* omitted masses are handled relative to exp(shift), so that they mean something where M itself would overflow */
FA_INLINE double fa_shift(const fa_sums *s) { return s->s0 > 0.0 ? fa_max(s->reference, 0.0) : 0.0; }

/* build K, its bounds and its derivatives from the sums; `omitted` and `alias` are absolute and relative errors of M -
 * 1 */
FA_FUNC void fa_moment_from_sums(const fa_log_moment *lm, const fa_sums *s, double a, double omitted, fa_need need,
                                 fa_moment *out)
{
    double unit = lm->mech.unit, head = s->e2 + a * s->kl, relative, lacking = s->dropped_ratio, log_mass, big = 0.0;
    relative = lm->mech.alias + FA_ROUNDING + (2.0 + a) * s->loss_max * (s->precision == FA_PLAIN ? 0x1p-52 : 0x1p-63);
    if (s->s0 > 0.0)
        big = s->reference + log(unit * s->s0);
    if (s->s0 > 0.0 && big > 650.0) {
        double c = exp(-s->reference) / unit; /* head relative to the scaled sum, often 0 */
        double total = s->s0 + (1.0 + head) * c;
        log_mass = s->reference + log(unit * total);
        out->d1 = (s->s1 + (s->slope + head) * c) / total;
        out->d2 = (s->s2 + s->curve * c) / total - out->d1 * out->d1;
        out->excess = out->d1 - log_mass;
        out->k = log_mass;
        relative += omitted * exp(fa_shift(s) - log_mass);
        lacking += s->dropped * exp(-log_mass);
    }
    else {
        double scaled = s->s0 > 0.0 ? exp(s->reference) * unit : 0.0;
        double m = head + scaled * s->s0, ml;
        log_mass = log1p(m);
        out->k = log_mass;
        if (need != FA_BOUNDS) {
            double inv = 1.0 / (1.0 + m);
            out->d1 = (s->slope + head + scaled * s->s1) * inv;
            out->d2 = (s->curve + scaled * s->s2) * inv - out->d1 * out->d1;
            ml = m < 1e-4 ? m * m * (0.5 - m * (1.0 / 6.0 - m * (1.0 / 12.0))) : (1.0 + m) * log_mass - m;
            out->excess = (s->slope + scaled * (s->s1 - s->s0) - ml) * inv;
        }
        if (s->s0 > 0.0) {
            omitted *= exp(fa_shift(s));
            lacking += m > 0.0 ? s->dropped / m : 0.0;
        }
        relative += m > 0.0 ? omitted / m : (omitted > 0.0 ? INFINITY : 0.0);
    }
    if (need == FA_SEARCH) {
        out->upper = out->lower = out->k;
        out->status = FA_OK;
        return;
    }
    out->upper = out->k + relative * fa_min(out->k, 1.0);
    out->upper += out->upper * 4.0 * FA_EPS;
    lacking += relative;
    out->lower = lacking < 0.5 ? fa_max(0.0, out->k - lacking * fa_min(out->k, 1.0) * (1.0 + lacking)) : 0.0;
    out->lower -= out->lower * 4.0 * FA_EPS;
    out->status = out->upper - out->lower <= 1e-12 * out->k ? FA_OK : FA_LOOSE;
}

/* absolute bound of the left tail: g <= max(alpha/2, 1) a x^2 there, x^2 <= q^2 min(1, y^2) */
FA_INLINE double fa_omitted_left(const fa_log_moment *lm, double a, double z_left, double shift)
{
    double y = (z_left - 0.5) * lm->mech.inv_var.hi, q = lm->mech.q;
    return fa_max(0.5 * (1.0 + a), 1.0) * a * q * q * fa_min(1.0, 1.1 * y * y) * FA_TAIL_MASS *
           (shift > 0.0 ? fa_exp_v(-shift, 0.0) : 1.0);
}

/* log of a majorant of the integrand at z >= 1/2, up to N's constant: a alpha/2 q^2 e^(2y) (1+x)^max(alpha-2, 0) N(z)
 */
FA_INLINE double fa_log_majorant(const fa_log_moment *lm, double a, double z)
{
    double posterior, s2 = lm->mech.sigma * lm->mech.sigma, loss = fa_sgm_loss_guess(&lm->mech, z, &posterior);
    double y = (z - 0.5) / s2;
    return log(0.5 * a * (1.0 + a)) + 2.0 * (lm->mech.log_q_d + y) + fa_max(a - 1.0, 0.0) * loss - 0.5 * z * z / s2;
}

/* bound of the sum over all grid points beyond z_right >= max(alpha, 2) + 8 sigma, by one of three majorants of g N:
 *   alpha a/2 q^2 min(1, y)^2 e^(2y) (1+x)^max(alpha-2, 0) N;   (1+x)^alpha N;   a loss (1 + a loss/2) (1+x)^alpha N
 * for a < 1/4, loss > 2.7 They fall there at least geometrically, with ratio exp(-(8 - 2/8) h/sigma)
 * (docs/algorithms/quadrature.md). */
FA_INLINE double fa_omitted_right(const fa_log_moment *lm, double a, double z_right, double loss, double shift)
{
    double y = (z_right - 0.5) * lm->mech.inv_var.hi, exponent = -0.5 * z_right * z_right * lm->mech.inv_var.hi - shift,
           factor = 1.0000001;
    if (a >= 0.25 ? 0.5 * a * (1.0 + a) * loss * loss > 1.0
                  : loss > 2.7) { /* about where the second, or the third, is smaller */
        exponent += (1.0 + a) * loss;
        if (a < 0.25)
            factor *= a * loss * (1.0 + 0.5 * a * loss);
    }
    else {
        exponent += 2.0 * (lm->mech.log_q_d + y) + fa_max(a - 1.0, 0.0) * loss;
        y = fa_min(1.0, y);
        factor *= 0.5 * a * (1.0 + a) * y * y;
    }
    /* fa_exp_v clamps to [-700, 700]: upwards below, and exp(700) makes the ledger refuse the result */
    return factor * fa_exp_v(exponent, 0.0) * lm->mech.tail_unit;
}

FA_INLINE double fa_right_end(const fa_log_moment *lm, double a)
{
    return fa_max(1.0 + a, 2.0) + FA_TAIL_WIDTH * lm->mech.sigma;
}

/* nodes from z_first that order 1 + a needs; one formula for filling and for using the cache */
FA_INLINE int fa_cached_nodes(const fa_log_moment *lm, double a, double z_first)
{
    return ((int)((fa_right_end(lm, a) - z_first) * lm->mech.inv_h) + 3 + FA_LANES - 1) / FA_LANES * FA_LANES;
}

FA_FUNC void fa_kl_prefix(fa_log_moment *lm)
{
    double term[FA_CACHE];
    int i, k;
    FA_PRAGMA(omp simd)
    for (i = 0; i < lm->n_direct; i++) {
        double e;
        term[i] = lm->weight[i] * fa_expm1_minus_v(-lm->loss_hi[i], -lm->loss_lo[i], &e);
    }
    lm->kl[0] = 0.0;
    for (i = 0; i < lm->n_direct / FA_LANES; i++) {
        double sum = 0.0;
        for (k = 0; k < FA_LANES; k++)
            sum += term[FA_LANES * i + k];
        lm->kl[i + 1] = lm->kl[i] + sum;
    }
}

/* fill the cache for orders up to 1 + a_cap <= 1 + a_limit */
FA_FUNC void fa_log_moment_cache(fa_log_moment *lm, double a_cap)
{
    fa_sgm *m = &lm->mech;
    int64_t j0 = (int64_t)floor(-FA_TAIL_WIDTH * m->sigma / m->h), n, i;
    n = fa_cached_nodes(lm, a_cap, (double)j0 * m->h);
    m->j_next = INT64_MIN;
    for (i = 0; i < n; i += FA_BLOCK) {
        int block = n - i < FA_BLOCK ? (int)(n - i) : FA_BLOCK;
        fa_sgm_nodes(m, j0 + i, block, lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i);
        fa_weights(m, lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i, block, lm->weight + i);
    }
    for (i = 0; i < FA_CACHE / FA_LANES; i++)
        lm->first_loss[i] = lm->last_loss[i] = lm->first_base[i] = lm->last_base[i] = -1e3;
    for (i = 0; i < n / FA_LANES; i++) {
        lm->first_loss[i] = lm->loss_hi[FA_LANES * i];
        lm->first_base[i] = lm->base_hi[FA_LANES * i];
        lm->last_loss[i] = lm->loss_hi[FA_LANES * i + FA_LANES - 1];
        lm->last_base[i] = lm->base_hi[FA_LANES * i + FA_LANES - 1];
    }
    lm->n = (int)n;
    lm->n_direct = (int)fa_min((double)n, floor(35.0 * m->sigma / m->h) - (double)j0) / FA_LANES * FA_LANES;
    lm->a_cap = a_cap;
    lm->z_first = (double)j0 * m->h;
    fa_kl_prefix(lm);
}

FA_FUNC void fa_log_moment_init(fa_log_moment *lm, double sigma, double q)
{
    lm->a_cap = lm->a_limit = 0.0;
    lm->n = 0;
    lm->mech.sigma = sigma;
    lm->mech.q = q;
    if (q > 0.0 && q < 1.0 && sigma > FA_SIGMA_MIN && sigma < FA_SIGMA_MAX) {
        fa_sgm_init(&lm->mech, sigma, q);
        lm->a_limit = (FA_CACHE - FA_LANES - 5) * lm->mech.h - 2.0 * FA_TAIL_WIDTH * sigma - 1.0;
        if (lm->a_limit < 1.0)
            lm->a_limit = 0.0;
    }
}

FA_FUNC void fa_moment_minkowski(const fa_log_moment *lm, double a, fa_moment *out)
{
    double d1, d2;
    out->k = fa_sgm_minkowski(lm->mech.sigma, lm->mech.q, a, &d1, &d2);
    out->d1 = a * d1;
    out->d2 = a * a * d2;
    out->excess = fa_max(out->d1 - out->k, 0.0);
    out->upper = out->k * (1.0 + 64.0 * FA_EPS);
    if (lm->mech.q < 1.0 &&
        a / lm->mech.sigma / lm->mech.sigma > 1.0) /* y + log q cancels in the kernel of the bound */
        out->upper += 8.0 * FA_EPS * (1.0 + a) * (0.5 * a / lm->mech.sigma / lm->mech.sigma - log(lm->mech.q));
    out->lower = 0.0;
    out->status = FA_LOOSE;
}

/* fa_moment_sandwich -- K in closed form where the sampled bump is all there is.
 *   q^alpha e^(a alpha/(2 sigma^2)) <= M <= that times (1 + rho)^alpha, rho = (1-q)/q e^(-a/(2 sigma^2)): from (1+x) >=
 * q v and from Minkowski's inequality.  Taken when the two agree to 2e-14 relative.       returns 0 when they do not */
FA_FUNC int fa_moment_sandwich(const fa_log_moment *lm, double a, fa_moment *out)
{
    double s = 0.5 * lm->mech.inv_var.hi, log_rho = lm->mech.log_odds - a * s, per_order = a * s + lm->mech.log_q_d,
           gap;
    if (!(log_rho < -27.0) || !(per_order > 0.0))
        return 0;
    gap = exp(log_rho);
    if (!(gap <= 2e-14 * per_order))
        return 0;
    out->k = (1.0 + a) * per_order;
    out->d1 = a * (per_order + (1.0 + a) * s);
    out->d2 = 2.0 * a * a * s;
    out->excess = a * a * s - lm->mech.log_q_d;
    /* rounding: 4 u of each of the two terms of per_order */
    gap += 6.0 * FA_EPS * (a * s - lm->mech.log_q_d);
    out->upper = (1.0 + a) * (per_order + gap) * (1.0 + 4.0 * FA_EPS);
    out->lower = (1.0 + a) * (per_order - gap) * (1.0 - 4.0 * FA_EPS);
    out->status = FA_OK;
    return 1;
}

/* sums over the cached nodes that matter at one order, and the bound of what they leave out */
FA_FUNC void fa_sum_cached(const fa_log_moment *lm, double a, fa_need need, fa_sums *s, double *omitted_out)
{
    const fa_sgm *m = &lm->mech;
    double alpha = 1.0 + a, p = 1.0 - (FA_TAIL_WIDTH + 0.5) * m->sigma / alpha;
    double log_left = 0.0, shift;
    int n = fa_cached_nodes(lm, a, lm->z_first), begin = 0, direct, i;
    /* Where the sampled bump dominates, start 8.5 sigma left of alpha.  The slope of log[(1+x)^alpha N] is (alpha p(z)
     * - z)/sigma^2: between the z_p where the logistic p reaches z/alpha at the new start, and that start, the terms
     * increase; left of z_p they sum to less than (1 + x(z_p))^alpha = ((1-q)/(1-p))^alpha. */
    if (p > 0.5) {
        double floor_k = alpha * (0.5 * a * m->inv_var.hi + m->log_q_d);
        if (floor_k > 45.0)
            log_left = -alpha * log1p(-p);
        if (floor_k > 45.0 && floor_k - log_left > 45.0 + fabs(floor_k) * 1e-10) {
            begin = (int)((p * alpha - lm->z_first) * m->inv_h) / FA_LANES * FA_LANES;
        }
    }
    direct = n < lm->n_direct ? n : lm->n_direct;
    if (direct > begin && a * lm->loss_hi[direct - 1] > 690.0) { /* losses increase along the grid */
        int low = begin;
        while (low < direct) {
            int mid = (low + direct) / 2;
            if (a * lm->loss_hi[mid] > 690.0)
                direct = mid;
            else
                low = mid + 1;
        }
        direct = direct / FA_LANES * FA_LANES;
    }
    if (direct > begin)
        s->kl = lm->kl[direct / FA_LANES] - lm->kl[begin / FA_LANES];
    else
        direct = begin;
    s->loss_max = fa_max(fabs(lm->loss_hi[0]), lm->loss_hi[n - 1]);
    if ((2.0 + a) * s->loss_max < FA_PLAIN_LIMIT)
        s->precision = FA_PLAIN;
    if (need == FA_BOUNDS)
        s->e2 += fa_sums_value(lm->loss_hi + begin, lm->loss_lo + begin, lm->weight + begin, direct - begin, a,
                               s->precision);
    else
        fa_sums_direct(lm->loss_hi + begin, lm->loss_lo + begin, lm->weight + begin, direct - begin, a, s->precision,
                       &s->e2, &s->slope, &s->curve);
    for (i = direct; i < n; i += FA_BLOCK)
        fa_sums_scaled(lm->loss_hi + i, lm->loss_lo + i, lm->base_hi + i, lm->base_lo + i,
                       n - i < FA_BLOCK ? n - i : FA_BLOCK, a, s);
    if (need == FA_SEARCH)
        return;
    if (direct < n) /* beyond 35 sigma under N(0), 35 - 1/sigma under N(1); or a loss > 690 */
        s->dropped = (2.0 + a) * exp(-0.5 * (35.0 - 1.0 / m->sigma) * (35.0 - 1.0 / m->sigma));
    shift = fa_shift(s);
    *omitted_out = fa_omitted_right(lm, a, lm->z_first + (n - 1) * m->h, lm->loss_hi[n - 1], shift);
    if (begin == 0)
        *omitted_out += fa_omitted_left(lm, a, lm->z_first, shift);
    else
        *omitted_out += 1.000001 *
                        (fa_exp_v(log_left - shift, 0.0) +
                         begin * m->unit * fa_exp_v(alpha * lm->loss_hi[begin] + lm->base_hi[begin] - shift, 0.0));
}

/* distance walked from a mode until the majorant has dropped below `floor_value`; steps grow, so a wide mode costs few
 * evaluations */
FA_FUNC double fa_walk(const fa_log_moment *lm, double a, double mode, double direction, double floor_value, double end)
{
    double step = 0.5 * lm->mech.sigma, z = mode + direction * step;
    while (direction * (end - z) > 0.0 && fa_log_majorant(lm, a, z) > floor_value) {
        step *= 1.05;
        z += direction * step;
    }
    return direction * (end - z) > 0.0 ? z : end;
}

/* The grid range(s) that matter at one order, not cached, and the bound of what they leave out.
 *
 * The majorant's slope is (2 + (alpha-2) p(z) - z)/sigma^2 with p logistic: at most two modes.  Iterating z <- 2 +
 * (alpha-2) p(z) from below stays below the lowest mode, from above it stays above the highest.  Hence the majorant
 * rises left of `low` and falls right of `high`, and if it falls at z1 and rises at z2 > z1 it has one minimum between:
 * its values at the ends bound what is left out. */
FA_FUNC int fa_sum_windows(fa_log_moment *lm, double a, fa_sums *sums, double *omitted_out)
{
    fa_sgm *m = &lm->mech;
    double h = m->h, right = fa_right_end(lm, a), b = fa_max(a - 1.0, 0.0), left = -FA_TAIL_WIDTH * m->sigma;
    double begin = left, z1 = right, z2 = right, p, p2, z, drop, peak, ends = -INFINITY, shift;
    int64_t j0, j1, j2, j3;
    int i, two = 0;
    if (!(h > 0.0))
        return 0;
    if (right - left > 2048.0 * h && a > 1.0) {
        double low = 2.0, high = 1.0 + a;
        for (i = 0; i < 400; i++, low = z) {
            fa_sgm_loss_guess(m, low, &p);
            z = 2.0 + b * p;
            if (!(z - low > 1e-3 * m->sigma))
                break;
        }
        for (i = 0; i < 400; i++, high = z) {
            fa_sgm_loss_guess(m, high, &p);
            z = 2.0 + b * p;
            if (!(high - z > 1e-3 * m->sigma))
                break;
        }
        peak = fa_max(fa_log_majorant(lm, a, low), fa_log_majorant(lm, a, high));
        /* the majorant exceeds the integrand by up to alpha^2/2 where x is large */
        drop = peak - 40.0 - log1p((right - left) / h) - log(0.5 * a * (1.0 + a));
        if (high - low > 4.0 * m->sigma) {
            z1 = fa_walk(lm, a, low, 1.0, drop, high);
            z2 = fa_walk(lm, a, high, -1.0, drop, low);
            fa_sgm_loss_guess(m, z1, &p);
            fa_sgm_loss_guess(m, z2, &p2);
            two = z2 > z1 && 2.0 + b * p < z1 && 2.0 + b * p2 > z2;
        }
        if (!two) {
            z1 = fa_walk(lm, a, high, 1.0, drop, right);
            begin = fa_walk(lm, a, low, -1.0, drop, 1.0);
            z2 = right;
            if (begin <= 1.0)
                begin = left;
        }
    }
    if (!(right / h < 0x1p52))
        return 0;
    j0 = (int64_t)floor(begin / h);
    j1 = (int64_t)ceil(z1 / h) + 1;
    j2 = (int64_t)floor(z2 / h);
    j3 = (int64_t)ceil(right / h) + 1;
    if (j1 >= j3 || (two && j2 <= j1)) {
        j1 = j3;
        two = 0;
    }
    if ((j1 - j0) + (two ? j3 - j2 : 0) > FA_MAX_NODES)
        return 0;
    fa_sums_range(m, j0, j1, a, sums);
    if (two)
        fa_sums_range(m, j2, j3, a, sums);
    if (begin > left)
        ends = fa_log_majorant(lm, a, (double)j0 * h);
    if (j1 < j3)
        ends = fa_max(ends, fa_log_majorant(lm, a, (double)j1 * h));
    if (two)
        ends = fa_max(ends, fa_log_majorant(lm, a, (double)j2 * h));
    z = (double)(j3 - 1) * h;
    shift = fa_shift(sums);
    *omitted_out = fa_omitted_right(lm, a, z, fa_sgm_loss_guess(m, z, &p), shift);
    if (ends > -INFINITY)
        *omitted_out += 1.0000001 * m->unit * (double)(j3 - (int64_t)floor(left / h)) * fa_exp_v(ends - shift, 0.0);
    if (begin > left)
        *omitted_out += fa_max(0.5 * (1.0 + a), 1.0) * a * m->q * m->q *
                        fa_exp_v(-shift, 0.0); /* z < 1/2: x^2 <= q^2, mass at most 1 */
    else
        *omitted_out += fa_omitted_left(lm, a, (double)j0 * h, shift);
    return 1;
}

/* First half of fa_log_moment_at: returns 1 if `out` is final but for fa_moment_finish, 0 if the sums are ready for
 * fa_moment_end. Blocks run the first half for many orders and then the second: its long chain of dependent operations
 * would stall the sums. */
FA_FUNC int fa_moment_begin(fa_log_moment *lm, double a, fa_need need, fa_sums *sums, double *omitted_out,
                            fa_moment *out)
{
    static const fa_sums empty = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -INFINITY, 0.0, 0.0, 0.0, FA_PRECISE};
    double sigma = lm->mech.sigma, q = lm->mech.q;
    if (q <= 0.0 || sigma == INFINITY) {
        memset(out, 0, sizeof(*out));
        return 1;
    }
    if (q >= 1.0 || sigma <= 0.0) {
        out->excess = 0.5 * (a / sigma) * (a / sigma);
        out->k = 0.5 * (a / sigma) * ((1.0 + a) / sigma);
        out->d1 = out->k + out->excess;
        out->d2 = 2.0 * out->excess;
        out->upper = out->k * (1.0 + 8.0 * FA_EPS);
        out->lower = out->k * (1.0 - 8.0 * FA_EPS);
        out->status = FA_OK;
        return 1;
    }
    if (!(sigma > FA_SIGMA_MIN && sigma < FA_SIGMA_MAX)) {
        fa_moment_minkowski(lm, a, out);
        return 1;
    }
    if (fa_moment_sandwich(lm, a, out))
        return 1;
    *sums = empty;
    *omitted_out = 0.0;
    if (a <= lm->a_cap)
        fa_sum_cached(lm, a, need, sums, omitted_out);
    else if (!fa_sum_windows(lm, a, sums, omitted_out)) {
        fa_moment_minkowski(lm, a, out);
        return 1;
    }
    return 0;
}

FA_FUNC void fa_moment_end(const fa_log_moment *lm, const fa_sums *sums, double a, double omitted, fa_need need,
                           fa_moment *out)
{
    fa_moment_from_sums(lm, sums, a, omitted, need, out);
    if (out->status != FA_OK) {
        fa_moment loose;
        fa_moment_minkowski(lm, a, &loose);
        if (loose.upper < out->upper)
            *out = loose;
    }
}

/* the allowance for underflow: more than all terms that can have vanished below the smallest double */
FA_INLINE void fa_moment_finish(const fa_log_moment *lm, double a, fa_moment *out)
{
    double underflow = (1.0 + a) * (0x1p-1050 + a * 0x1p-1072);
    if (!(lm->mech.q > 0.0) || lm->mech.sigma == INFINITY)
        return;
    out->upper += underflow;
    out->lower = out->lower > underflow ? out->lower - underflow : 0.0;
    if (!(out->upper >= 0.0))
        out->upper = INFINITY;
    if (!(out->upper - out->lower <= 1e-12 * out->k))
        out->status = FA_LOOSE;
}

/* fa_log_moment_at -- K(1+a) with bounds and derivatives.
 *   domain   any a > 0, 0 <= q <= 1, sigma >= 0        result nearest, with `lower` and `upper` certified
 *   error    measured and proved: docs/algorithms/quadrature.md; relative 1e-12 for sigma >= 0.03, q >= 1e-12, a <= 1e5
 *   status   FA_OK | FA_LOOSE (Minkowski's bound, or a ledger above 1e-12)
 *   need     which outputs are needed: see fa_need
 *   cost     cached: about 0.7 ns a node; else 5 ns a node
 *   oracle   reference.log_moment */
FA_FUNC void fa_log_moment_at(fa_log_moment *lm, double a, fa_moment *out, fa_need need)
{
    fa_sums sums;
    double omitted;
    if (!fa_moment_begin(lm, a, need, &sums, &omitted, out))
        fa_moment_end(lm, &sums, a, omitted, need, out);
    if (need != FA_SEARCH)
        fa_moment_finish(lm, a, out);
}

#endif
