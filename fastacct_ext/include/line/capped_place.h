/* line/capped_place.h -- where a capped line goes: K at real points, the saddle, the floor, and (c, h) from Chernoff's
 * points.
 *
 * Nothing here needs to be exact: any choice is valid, at a cost.  What bounds an error is evaluated again on the
 * line's own nodes (line/capped_ledger.h).
 */
#ifndef FA_LINE_CAPPED_PLACE_H
#define FA_LINE_CAPPED_PLACE_H

#include "capped_nodes.h"

#define FA_CAP_FAR    600.0 /* exponents up to here stand alone */
#define FA_CAP_PROBES 13    /* Chernoff's points around the saddle */

/* K(v) = steps log E_Q[exp(v L) window], with derivatives, and steps times the tilted chance of a large loss; rest:
 * E_Q[exp(v l) window] - 1 */
typedef struct {
    double k, d1, d2, jumps, rest;
} fa_cap_real;

typedef struct {
    double v, k, curvature; /* the saddle of exp(K(v) - (v-1) eps)/(v (v-1)), second derivative of its exponent */
    double log_size, slope; /* about log delta, and its derivative in eps */
} fa_cap_saddle;

typedef struct {
    double c, h;             /* the line u = c + i k h */
    double left, right, low; /* Chernoff's points: aliases from either side, and the floor's (1: no floor) */
    double excess;           /* log |F(c)| - log delta, about */
    int is_bare;             /* no points: Chernoff's bound at c is negligible beside the closed part */
    double k, d1, d2, jumps; /* K at c, its derivatives, and the tilted number of large losses */
} fa_cap_plan;

FA_INLINE double fa_cap_log_b(double v) { return v > 1.0 ? (v - 1.0) * log(v - 1.0) - v * log(v) : 0.0; }

/* the sums of fa_cap_k where exp(v l) overflows and its product with the weight does not */
FA_FUNC void fa_cap_far_sums(const fa_cap_nodes *s, double v, int small_only, int n, double *sums)
{
    const double *l = s->sum.lr, *weight = s->sum.wr, *log_w = s->sum.log_w, *above = s->above;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, many = 0.0;
    int j;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, many))
    for (j = 0; j < n; j++) {
        double share = small_only ? 1.0 - above[j] : 1.0, size = v * l[j] + log_w[j],
               e = size > -690.0 ? fa_exp_plain_v(fa_min(size, 690.0)) : 0.0, in = share * e;
        s0 += in - share * weight[j];
        s1 = FA_FMA(in, l[j], s1);
        s2 = FA_FMA(in * l[j], l[j], s2);
        many = FA_FMA(above[j], e, many);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = many;
}

/* K of all losses up to the cap (small_only = 0) or of those below the floor; inf where it overflows.  add: to be added
 * to E_Q */
FA_FUNC fa_cap_real fa_cap_k(const fa_cap_job *job, const fa_cap_windows *w, const fa_cap_nodes *s, double v,
                             int small_only, double add)
{
    fa_cap_real out = {INFINITY, 0.0, 0.0, 0.0, INFINITY};
    const double *l = s->sum.lr, *weight = small_only ? s->small : s->sum.wr, *large = s->large;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, many = 0.0, missing = w->q_mass, one, mean;
    int j, n = s->sum.n;
    while (small_only && n > 16 && weight[n - 9] < 1e-300)
        n -= FA_LANE;
    if (v * l[n - 1] > FA_CAP_FAR) {
        double sums[4];
        if (!s->has_logs)
            return out;
        fa_cap_far_sums(s, v, small_only, n, sums);
        s0 = sums[0], s1 = sums[1], s2 = sums[2], many = sums[3];
        if (!(s0 < 1e290))
            return out;
    }
    else {
        FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, many))
        for (j = 0; j < n; j++) {
            double m, e = fa_exp_both_v(v * l[j], &m), a = weight[j] * l[j];
            s0 = FA_FMA(weight[j], m, s0);
            s1 = FA_FMA(a, e, s1);
            s2 = FA_FMA(a * l[j], e, s2);
            many = FA_FMA(large[j], e, many);
        }
    }
    for (j = s->lifted; small_only && j < s->sum.n; j++)
        missing += large[j];
    out.rest = s0 - missing + add;
    one = 1.0 + out.rest;
    mean = s1 / one;
    out.k = job->steps * (v * s->mean + log1p(out.rest));
    out.d1 = job->steps * (s->mean + mean);
    out.d2 = job->steps * (s2 / one - mean * mean);
    out.jumps = job->steps * many / one;
    return out;
}

/* real exponents for which exp(v l) does not outweigh the cap's window where the nodes end */
FA_FUNC double fa_cap_last_v(const fa_cap_job *job, const fa_cap_windows *w)
{
    double end = w->cap + 8.6 * w->width;
    return (end + job->sigma * job->sigma * (8.6 / w->width - 1.0 / job->sigma)) / fa_cap_posterior(job, end);
}

/* the saddle for eps by Newton's method in log(v - 1), from v = start */
FA_FUNC fa_cap_saddle fa_cap_find_saddle(const fa_cap_job *job, const fa_cap_windows *w, const fa_cap_nodes *s,
                                         double eps, double start, int small_only)
{
    fa_cap_saddle out = {start, 0.0, 1.0, 0.0, 0.0};
    double low = -40.0, high = 40.0, x = log(start - 1.0);
    int i;
    high = small_only ? 0.8 * FA_CAP_FAR / fa_cap_l(job, w->floor) : fa_cap_last_v(job, w);
    high = log(fa_max(0.1 * (start - 1.0), high - 1.0));
    x = fa_min(x, high - 0.1);
    for (i = 0; i < 60; i++) {
        double v = 1.0 + exp(x), rest, step;
        fa_cap_real r = fa_cap_k(job, w, s, v, small_only, 0.0);
        if (!(r.k < 1e300) || !(r.d2 < 1e300)) {
            high = x;
            x = fa_max(x - 1.0, 0.5 * (x + fa_max(low, x - 4.0)));
            continue;
        }
        rest = r.d1 - 1.0 / v - 1.0 / (v - 1.0) - eps;
        out.v = v;
        out.k = r.k;
        out.curvature = r.d2 + 1.0 / (v * v) + 1.0 / ((v - 1.0) * (v - 1.0));
        step = -rest / (out.curvature * (v - 1.0));
        if (rest > 0.0)
            high = x;
        else
            low = x;
        if (fabs(step) * (v - 1.0) * sqrt(out.curvature) < 0.4 || high - low < 1e-3)
            break;
        x += fa_max(-1.5, fa_min(1.5, step));
        if (!(x > low && x < high))
            x = low > -40.0 && high < 40.0 ? 0.5 * (low + high) : x <= low ? low + 0.5 : high - 0.5;
    }
    return out;
}

/* cap, coarse nodes and saddle for eps, and about how large delta is there: the closed part and the saddle-point
 * approximation.  0: none */
FA_FUNC int fa_cap_place(const fa_cap_job *job, const fa_cap_effort *effort, double eps, double start,
                         fa_cap_windows *w, fa_cap_nodes *s, fa_cap_saddle *out)
{
    double s1 = job->sigma, v = start, v_max, end, z_high, edge = 1.0, h, bulk, ref, share;
    fa_cap_closed closed;
    int round, narrow = 0;
    if (!fa_cap_place_cap(job, effort, eps, w))
        return 0;
    if (!(v > 1.0))
        v = fa_min(1.0 + fa_max(eps / job->variance, 1.0 / sqrt(job->variance)), 1.0 + 20.0 / eps);
    v_max = fa_max(4.0, 3.0 * v);
    for (round = 0; round < 6; round++) {
        end = w->cap + 8.6 * w->width;
        z_high = fa_min(end, v_max + 9.0 * s1);
        if (z_high == end)
            edge = w->width * job->inv_var * fa_cap_posterior(job, w->cap);
        h = fa_min(1.0 / (1.25 * s1), 0.9);
        share = fa_min(1.0, 1.2 * edge / h); /* stretch */
        if (!(2.0 * v_max * fa_cap_l(job, z_high) > FA_CAP_FAR
                  ? fa_cap_fill(job, w, s, h, share, -6.5 * s1, z_high)
                  : fa_cap_fill_coarse(job, w, s, h, share, -6.5 * s1, z_high)))
            return 0;
        fa_cap_no_floor(s);
        *out = fa_cap_find_saddle(job, w, s, eps, v, 0);
        if (out->v * 1.5 > v_max &&
            (z_high < end || (!s->has_logs && 1.6 * out->v * s->sum.lr[s->sum.n - 1] > FA_CAP_FAR))) {
            v = out->v;
            v_max = 3.0 * v;
            continue;
        }
        if (!(out->v > 0.7 * fa_cap_last_v(job, w)) || narrow++ == 8)
            break;
        round = 0; /* the window is too wide for so steep a tilt */
        if (!fa_cap_set_cap(job, w->cap - FA_CAP_DEPTH * w->width, 0.5 * w->width, w))
            return 0;
    }
    v = out->v;
    bulk = out->k - (v - 1.0) * eps - log(v * (v - 1.0)) - 0.5 * log(2.0 * FA_PI * out->curvature);
    ref = fa_max(bulk, fa_min(w->log_p + log(job->steps), 0.0));
    closed = fa_cap_closed_part(job, w, eps, ref);
    share = exp(bulk - ref);
    out->slope = -((v - 1.0) * share + closed.fall) / (share + fa_max(closed.value, 0.0));
    out->log_size = fa_min(ref + log(share + fa_max(closed.value, 0.0)), -1e-3);
    return out->log_size == out->log_size;
}

/* losses above `level` are large, sharply: to see how many a tilt asks for */
FA_FUNC void fa_cap_hard_floor(fa_cap_nodes *s, double level)
{
    int j, from, n = s->sum.n;
    for (from = 0; from < n && s->sum.lr[from] <= level; from++)
        s->large[from] = s->above[from] = 0.0;
    s->lifted = from / FA_LANE * FA_LANE;
    for (j = from; j < n; j++) {
        s->large[j] = s->sum.wr[j];
        s->above[j] = 1.0;
    }
}

/* a floor at `ratio` times eps */
FA_FUNC void fa_cap_try_floor(const fa_cap_job *job, fa_cap_windows *w, fa_cap_nodes *s, double eps, double ratio)
{
    double z = fa_cap_z(job, eps);
    w->has_floor = 1;
    w->floor = fa_cap_z(job, ratio * eps);
    w->floor_width = fa_min((z - w->floor) / 7.0, 0.35 * job->sigma * job->sigma);
    fa_cap_set_floor(w, s);
}

/* how often exp(-x) the share of B0^T at v is that no large loss has a part in: x = -T log(1 - p), p the tilted chance
 * of one */
FA_INLINE double fa_cap_certain(const fa_cap_job *job, double jumps)
{
    return -job->steps * log1p(-fa_min(jumps / job->steps, 1.0 - FA_EPS));
}

/* Without a floor a line is as long as the records that hardly move take to dephase.  Choose the highest floor below
 * which Chernoff's bound of the small losses is negligible; none where every sum of interest has many large losses.
 * Returns Chernoff's point, 1 without a floor */
FA_FUNC double fa_cap_choose_floor(const fa_cap_job *job, const fa_cap_effort *effort, fa_cap_windows *w,
                                   fa_cap_nodes *s, double eps, double log_tol, const fa_cap_saddle *at)
{
    static const double ratios[] = {0.62, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03, 0.015, 0.007, 0.003};
    int low = 0, high = (int)(sizeof(ratios) / sizeof(*ratios)), count = high;
    double point = 1.0, jumps;
    fa_cap_hard_floor(s, 0.05 * eps - job->kappa);
    jumps = fa_cap_certain(job, fa_cap_k(job, w, s, at->v, 0, 0.0).jumps);
    w->has_floor = 0;
    while (jumps < effort->tolerance + 1.0 && low < high) {
        int mid = (low + high) / 2;
        fa_cap_saddle small;
        fa_cap_try_floor(job, w, s, eps, ratios[mid]);
        small = fa_cap_find_saddle(job, w, s, eps, at->v, 1);
        if (small.k + fa_cap_log_b(small.v) - (small.v - 1.0) * eps < log_tol) {
            high = mid;
            point = small.v;
        }
        else
            low = mid + 1;
    }
    if (high < count && jumps < effort->tolerance + 1.0) {
        fa_cap_try_floor(job, w, s, eps, ratios[high]);
        jumps = fa_cap_certain(job, fa_cap_k(job, w, s, at->v, 0, 0.0).jumps);
        if (jumps < effort->tolerance + 1.0 && (high < 8 || jumps < 15.0))
            return point;
    }
    w->has_floor = 0;
    fa_cap_no_floor(s);
    return 1.0;
}

typedef struct {
    int n;
    double v[FA_CAP_PROBES], log_f[FA_CAP_PROBES], chernoff[FA_CAP_PROBES],
        least; /* points, log |F| there, Chernoff less the tolerance */
} fa_cap_probes;

/* log R(v) = log(B0^T - Bb^T) at points around the saddle */
FA_FUNC void fa_cap_probe(const fa_cap_job *job, const fa_cap_windows *w, const fa_cap_nodes *s, double eps,
                          const fa_cap_saddle *at, double log_tol, fa_cap_probes *out)
{
    static const double many[] = {0.0, 0.45, 1.0, 2.1, 4.2, 7.0, 12.0}, few[] = {0.0, 0.8, 2.0, 4.2, 8.5};
    const double *steps = w->has_floor ? many : few;
    double width = 1.0 / sqrt(at->curvature), last = fa_cap_last_v(job, w);
    int i, half = w->has_floor ? 6 : 4;
    out->n = 0;
    out->least = INFINITY;
    for (i = -half; i <= half; i++) {
        double step = width * steps[i < 0 ? -i : i],
               v = i >= 0 ? at->v + step : 1.0 + (at->v - 1.0) / (1.0 + step / (at->v - 1.0)), k;
        fa_cap_real r = fa_cap_k(job, w, s, v, 0, 0.0);
        if (!(r.k < 1e300) || !(v < last))
            break;
        k = w->has_floor ? r.k + log(-expm1(job->steps * log1p(-fa_min(0.9999999, r.jumps / job->steps)))) : r.k;
        out->v[out->n] = v;
        out->log_f[out->n] = k - (v - 1.0) * eps - log(v * (v - 1.0));
        out->chernoff[out->n] = k + fa_cap_log_b(v) - (v - 1.0) * eps - log_tol;
        out->least = fa_min(out->least, out->log_f[out->n]);
        out->n++;
    }
}

/* 2 pi/h that c = v[i] asks for, so that the aliases are below the tolerance: the least of (Chernoff - tolerance)/|v -
 * c| on either side */
FA_FUNC double fa_cap_period(const fa_cap_probes *p, int i, double log_tol, double *left_out, double *right_out)
{
    double c = p->v[i], left = -log_tol / (c - 1.0), right = INFINITY;
    int k;
    *left_out = 1.0;
    *right_out = c;
    for (k = 0; k < i; k++)
        if (p->chernoff[k] < left * (c - p->v[k])) {
            left = p->chernoff[k] / (c - p->v[k]);
            *left_out = p->v[k];
        }
    for (k = i + 1; k < p->n; k++)
        if (p->chernoff[k] < right * (p->v[k] - c)) {
            right = p->chernoff[k] / (p->v[k] - c);
            *right_out = p->v[k];
        }
    return fa_max(left, right);
}

/* the c with the longest step among those where |F(c)| is not far above delta = exp(log_size); no points where even
 * their whole is not worth a sum.  0: none */
FA_FUNC int fa_cap_choose_line(const fa_cap_windows *w, const fa_cap_probes *p, double eps, double log_size,
                               double log_tol, fa_cap_plan *plan)
{
    double best = INFINITY, period = 0.0, left, right, lowest = INFINITY;
    int i, least = 0;
    for (i = 1; i < p->n; i++) {
        least = p->chernoff[i] < p->chernoff[least] ? i : least;
        lowest = i < p->n - 1 ? fa_min(lowest, p->log_f[i]) : lowest;
    }
    plan->is_bare = p->n > 0 && p->chernoff[least] < 0.0;
    if (plan->is_bare) {
        plan->c = plan->right = p->v[least];
        plan->left = 1.0;
        plan->h = 1.0;
        plan->excess = 0.0;
        return 1;
    }
    for (i = 1; i < p->n - 1; i++) {
        double excess = p->log_f[i] - p->least,
               x = fa_max(fa_cap_period(p, i, log_tol, &left, &right), 1e-3 * fa_min(eps, 1.0));
        double cost = x * (w->has_floor ? 1.0 / (1.0 + 0.1 * log(p->v[i])) : 1.0 + 0.03 * excess);
        if (p->log_f[i] - log_size < fa_max(4.0, lowest - log_size + 1.0) && cost < best) {
            best = cost;
            period = x;
            plan->c = p->v[i];
            plan->left = left;
            plan->right = right;
            plan->excess = p->log_f[i] - log_size;
        }
    }
    if (!(best < INFINITY))
        return 0;
    plan->h = fa_from_bits(fa_bits(2.0 * FA_PI / period) & ~((1ULL << 22) - 1));
    return plan->h > 0.0;
}

#endif
