/* exact.h -- certified lower and upper bounds of log delta(eps) and eps(delta) of a composed run, both directions.
 *
 * Every answer is checked: an upper bound of eps is a point where the upper bound of delta(eps) has been evaluated and is not above the
 * target, a lower bound one where the lower bound of delta is not below it.  What cannot be certified is (0, inf) with FA_LOOSE.
 */
#ifndef FA_EXACT_H
#define FA_EXACT_H

#include "bent_path.h"
#include "gaussian_profile.h"

#define FA_GOOD 4.5e-10                  /* relative error that is good enough at once ... */
#define FA_LINE_POINTS 2000           /* a vertical line this long is given up for the bent path where that one applies */
#define FA_CUT_SIGMA 1.5               /* below it M explodes only where delta has its mass */
#define FA_PRECISE_POINTS 20000       /* ... or for a second, more precise evaluation unless the line is already this long */

typedef enum { FA_ADD = 1, FA_REMOVE = 2 } fa_direction;

/* delta by the line already evaluated */
FA_INLINE fa_interval fa_bounds_of(const fa_reading *r)
{
    fa_interval d;
    double pad = 8.0 * FA_EPS * (1.0 + fabs(r->log_value));
    d.upper = r->relative < 0.5 ? fa_min(0.0, r->log_value + log1p(r->relative) + pad) : 0.0;
    d.lower = r->relative + r->alias < 0.5 ? r->log_value + log1p(-r->relative - r->alias) - pad : -INFINITY;
    return d;
}

FA_INLINE void fa_line_read(const fa_contour *run, double eps, fa_reading *out)
{
    if (run->on_bent)
        fa_bent_read(run->bent, eps, out);
    else
        fa_contour_read(run, eps, out);
}

/* place the line for eps (or for the target log_delta when eps is NaN) and evaluate it; returns eps it was placed for, NaN on failure.
 * log_size: what the errors are compared with, NaN: the saddle-point approximation */
FA_FUNC double fa_place(fa_contour *run, double eps, double log_delta, double log_size, int points_max)
{
    static const double margins[3] = {40.0, 160.0, INFINITY};
    double at = NAN, size = log_size, least = INFINITY, saddle = 0.0, k = 0.0;
    int level, bendable, few, limit;
    bendable = run->n_blocks == 1 && run->sign > 0 && run->mu2 == 0.0 && run->blocks[0].pair.sample_rate > 0.0;
    run->on_bent = 0;
    few = bendable && run->total * run->blocks[0].pair.sample_rate < 0.5;
    for (level = 0; level < run->n_blocks; level++)
        least = fa_min(least, run->blocks[level].pair.sigma);
    limit = run->quick || few ? FA_LINE_POINTS / 8 : bendable ? FA_LINE_POINTS : points_max;
    for (level = run->sign < 0 || least < FA_CUT_SIGMA ? 2 : 0; level < 3; level++) {
        fa_contour_cut(run, log_size == log_size ? log_size : log_delta == log_delta ? log_delta : -25.0, level ? margins[level] : margins[0] * (1.0 + 10.0 / (least * least)));
        if (!fa_saddle(run, eps, log_delta, &at))
            continue;
        if (!(at >= 0.0)) {
            at = 0.0;
            if (!fa_saddle(run, 0.0, log_delta, &at))
                continue;
        }
        size = log_size;
        if (size != size) {
            size = run->saddle_k - (run->c - 1.0) * at - log(run->c) - log(run->c - 1.0) - 0.5 * log(2.0 * FA_PI * run->curvature);
            size = fa_min(size, -0.3);
        }
        saddle = run->c;
        k = run->saddle_k;
        if (fa_choose_step(run, at, size - run->tolerance) && fa_contour_evaluate(run, at, size - run->tolerance, limit))
            return at;
        run->c = saddle;
        run->saddle_k = k;
    }
    if (!(at >= 0.0) || !bendable || run->quick || (!(eps == eps) && few))       /* Chernoff's guess of eps may be far off: rather another guess */
        return NAN;
    run->c = fa_bent_start(run, at, size);
    run->on_bent = run->bent && fa_bent_evaluate(run->bent, run, at, size - run->tolerance);
    if (run->on_bent)
        return at;
    run->c = saddle;
    run->saddle_k = k;
    if (fa_choose_step(run, at, size - run->tolerance) && fa_contour_evaluate(run, at, size - run->tolerance, points_max))
        return at;
    return NAN;
}

/* a guess of eps where at most one participation matters: delta is about steps times one step's; NaN elsewhere.  Chernoff's bound, the
 * usual guess, can be off by orders of magnitude there */
FA_FUNC double fa_single_jump(const fa_contour *run, double log_delta)
{
    const fa_pair *m = &run->blocks[0].pair;
    double low = 0.0, high = 1.0, n;
    int i;
    if (run->n_blocks != 1 || run->sign < 0 || run->mu2 > 0.0 || !(m->sample_rate > 0.0) || run->total * m->sample_rate > 0.5)
        return NAN;
    n = run->blocks[0].count;
    for (i = 0; i < 200 && fa_one_step(m->sigma, m->sample_rate, 1, high).upper + log(n) > log_delta; i++) {
        low = high;
        high *= 2.0;
    }
    for (i = 0; i < 40 && high - low > 1e-3 * high; i++) {
        double mid = i < 20 && low == 0.0 ? 0.1 * high : 0.5 * (low + high);
        if (fa_one_step(m->sigma, m->sample_rate, 1, mid).upper + log(n) > log_delta)
            low = mid;
        else
            high = mid;
    }
    return high;
}

/* a guess of eps where the saddle-point approximation has none to offer: M explodes right of the saddle, because one large jump is all that
 * matters there, and says nothing about delta further left.  delta is about the sum of both, the Gaussian's and the jump's */
FA_FUNC double fa_guess_eps(fa_contour *run, double log_delta)
{
    double d1, d2, mu, low = 0.0, high, jump = fa_single_jump(run, log_delta);
    int i;
    fa_real_k(run, 1.0, &d1, &d2);
    mu = sqrt(d2);
    if (!(mu > 0.0) || !(mu < 1e3))
        return jump;
    high = mu * (mu + sqrt(-2.0 * log_delta));
    for (i = 0; i < 12; i++) {
        double mid = 0.5 * (low + high);
        if (fa_gaussian_log_delta(mu, mid) <= log_delta)
            high = mid;
        else
            low = mid;
    }
    return jump > high ? jump : high;
}

/* Newton's method on the line evaluated last, from *eps; *gap_out: about what is left of log delta, *r the last reading */
FA_FUNC void fa_newton(const fa_contour *run, double log_delta, double *eps, double *gap_out, fa_reading *r)
{
    int i;
    for (i = 0; i < 30; i++) {
        double step, gap;
        fa_line_read(run, *eps, r);
        *gap_out = gap = fabs(r->log_value - log_delta);
        if (!(r->log_value > -INFINITY) || !(r->slope < 0.0) || !(r->relative + r->alias < 0.3) || gap < 1e-12)
            break;
        step = fa_max((log_delta - r->log_value) / r->slope, -*eps);
        if (fabs(step) <= 2.0 * FA_EPS * *eps)
            break;
        *eps += step;
        if (gap < 1e-6 && *eps > 0.0) {                        /* what is left is of the order of gap^2; the ends are checked */
            *gap_out = gap * gap;
            break;
        }
    }
}

/* checked bounds of eps next to an approximation, from the line evaluated last; 0 and [0, inf) where none are found */
FA_FUNC int fa_ends(const fa_contour *run, double log_delta, double eps, double gap, const fa_reading *at, fa_interval *out)
{
    double start = fa_max((at->relative + at->alias + gap + 16.0 * FA_EPS * (1.0 + fabs(log_delta))) / -at->slope, 2.0 * FA_EPS * eps), pad = start;
    fa_reading r;
    int i;
    out->lower = 0.0;
    out->upper = INFINITY;
    for (i = 0; i < 7 && out->upper == INFINITY; i++, pad *= 2.0) {
        fa_line_read(run, eps + 1.05 * pad, &r);
        if (fa_bounds_of(&r).upper <= log_delta)
            out->upper = eps + 1.05 * pad;
    }
    if (out->upper == INFINITY)
        return 0;
    for (i = 0, pad = start; i < 8 && eps - 1.05 * pad > 0.0 && out->lower == 0.0; i++, pad *= 2.0) {
        fa_line_read(run, eps - 1.05 * pad, &r);
        if (fa_bounds_of(&r).lower >= log_delta)
            out->lower = eps - 1.05 * pad;
    }
    if (out->lower == 0.0) {                                   /* eps may be 0 */
        fa_line_read(run, 0.0, &r);
        if (fa_bounds_of(&r).upper <= log_delta)
            out->upper = 0.0;
    }
    return 1;
}

/* log delta at eps in one direction */
FA_FUNC fa_interval fa_contour_log_delta(fa_contour *run, double eps, int points_max)
{
    fa_interval out = {-INFINITY, 0.0};
    fa_reading r;
    double log_size = NAN;
    int i;
    run->precise = 0;
    for (i = 0; i < 5; i++) {
        if (!(fa_place(run, eps, NAN, log_size, points_max) >= 0.0))
            return out;
        fa_line_read(run, eps, &r);
        if (r.relative + r.alias < (run->tolerance < FA_TOLERANCE ? 10.0 * exp(-run->tolerance) : FA_GOOD))
            break;
        if (r.log_value > -INFINITY && fabs(r.log_value - log_size) < 0.5) {
            if (run->quick || run->precise || run->on_bent || run->n > FA_PRECISE_POINTS)
                break;
            run->precise = 1;
        }
        log_size = r.log_value > -INFINITY ? r.log_value : (log_size == log_size ? log_size : -10.0) * 2.0;   /* aimed at the wrong size */
    }
    out = fa_bounds_of(&r);
    return out;
}

/* eps at log delta in one direction */
FA_FUNC fa_interval fa_contour_eps(fa_contour *run, double log_delta, int points_max)
{
    fa_interval none = {0.0, INFINITY}, out = none, d;
    fa_reading r;
    double at, eps, gap = INFINITY;
    int i, round;
    run->precise = 0;
    run->on_bent = 0;
    at = fa_place(run, NAN, log_delta, log_delta, points_max);
    if (at >= 0.0) {
        fa_line_read(run, at, &r);
        if (!(r.relative + r.alias < 0.3))
            at = NAN;
    }
    if (!(at >= 0.0)) {
        at = fa_guess_eps(run, log_delta);
        at = fa_place(run, at >= 0.0 ? at : NAN, log_delta, log_delta, points_max);
    }
    if (!(at >= 0.0))
        return none;
    for (round = 0;; round++) {
        eps = at;
        fa_newton(run, log_delta, &eps, &gap, &r);
        if (eps == 0.0 && r.log_value < log_delta && r.relative + r.alias < 0.3) {      /* even delta(0) is below the target, it seems */
            d = fa_bounds_of(&r);
            if (!(d.upper <= log_delta) && fa_place(run, 0.0, NAN, r.log_value, points_max) >= 0.0) {
                fa_line_read(run, 0.0, &r);
                d = fa_bounds_of(&r);
            }
            if (d.upper <= log_delta) {
                out.lower = out.upper = 0.0;
                return out;
            }
            gap = fabs(r.log_value - log_delta);
        }
        if (gap < 1e-3 && (r.relative + r.alias < FA_GOOD || (round > 0 && fabs(eps - at) * (run->on_bent ? -5.0 * r.slope : run->c - 1.0) < 0.1) || (run->on_bent && r.relative < 2e-9 && fabs(eps - at) * -r.slope < 0.7))) {
            if (r.relative + r.alias < FA_GOOD || run->precise || run->on_bent || run->n > FA_PRECISE_POINTS)
                break;
            run->precise = 1;
        }
        if (round == 6)
            break;
        if (gap < 1e-3 && r.relative < 1e-3 && fa_ends(run, log_delta, eps, gap, &r, &d))      /* in case nothing better comes */
            none = d;
        /* the guess was far off: place the line again, lower when nothing could be read */
        if (!(r.relative + r.alias < 0.3))
            eps *= 0.6;
        at = fa_place(run, eps, NAN, log_delta, points_max);
        for (i = 0; i < 4 && !(at >= 0.0); i++) {
            eps *= 0.6;
            at = fa_place(run, eps, NAN, log_delta, points_max);
        }
        if (!(at >= 0.0))
            return none;
    }
    (void)fa_ends(run, log_delta, eps, gap, &r, &out);
    out.lower = fa_max(out.lower, none.lower);
    out.upper = fa_min(out.upper, none.upper);
    return out;
}

/* The last resort, direction remove: Chernoff's bound for the records up to a close cut, plus P(any record beyond).  A few percent above the
 * truth where Renyi's bound is tens of times above it, because M explodes.
 * K of what is left of the cut: by the trapezoid rule up to a node plus half a step; what the end adds to its error is below half a step of
 * the integrand there, for real u (docs/algorithms/contour.md, "The cut").  NaN: no memory */
FA_FUNC double fa_rough_k(fa_contour *run, double v, double *d1_out, double *d2_out)
{
    double k = 0.5 * v * (v - 1.0) * run->mu2, d1 = (v - 0.5) * run->mu2, d2 = run->mu2;
    int b;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_pair *m = &block->pair;
        double s1, s2, r, one, edge, unused;
        r = fa_real_sums(&block->real, v, INFINITY, &s1, &s2);
        edge = (floor(block->cut / block->real.h) + 0.5) * block->real.h;
        edge = v * (m->kappa + fa_pair_loss(m, edge, &unused, &unused) - block->mean) - 0.5 * edge * edge * m->inv_var;
        r += 0.2 * block->real.h / m->sigma * exp(fa_min(edge, 690.0)) + 1e-13 * (1.0 + fabs(r)) + v * block->mean_error;
        if (!(r < INFINITY) || !(edge < 690.0))
            return INFINITY;
        one = 1.0 / (1.0 + r);
        k += block->count * (v * block->mean + log1p(r));
        d1 += block->count * (block->mean + s1 * one);
        d2 += block->count * (s2 * one - s1 * one * (s1 * one));
    }
    *d1_out = d1;
    *d2_out = d2;
    return k;
}

/* nodes for fa_rough_k: up to `x` standard deviations beyond P's last mean; log of P(any record beyond).  0: failure */
FA_FUNC int fa_rough_fill(fa_contour *run, double x, double *log_beyond_out)
{
    int b;
    double beyond = 0.0;
    run->cut = NAN;                                                           /* the lines' cut is to be set again */
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_pair *m = &block->pair;
        double y, alias, h = fa_line_step(m, 2.0, 0.0, fa_line_need(run), &y, &alias), cut = m->p_top + x * m->sigma, last;
        if (!fa_nodes_fill(&block->real, m, h, 0.0, m->q_low - 2.0 * FA_WIDTH * m->sigma, fa_max(cut, fa_mean_end(m))))
            return 0;
        block->mean = fa_mean_loss(&block->real, m->kappa);
        block->mean_error = fa_mean_error(m, block->mean, fa_line_need(run));
        fa_nodes_shift(&block->real, m->kappa - block->mean);
        fa_nodes_cut(&block->real, cut);
        block->cut = cut;
        block->real_left = INFINITY;                                          /* of no use to the lines */
        block->real_right = -INFINITY;
        last = (floor(cut / block->real.h) + 0.5) * block->real.h;            /* what the sums stand for ends here */
        beyond += block->count * 0.5 * erfc((last - m->p_top) / m->sigma * 0.70710678118654752440) * (1.0 + 1e-13);
    }
    *log_beyond_out = beyond > 1e-290 ? log(beyond) : log(run->total) - 0.5 * (x - 0.5) * (x - 0.5);        /* erfc underflows */
    return 1;
}

/* smallest bound of eps at log_delta (for_delta = 0), or of log delta at eps, over v and some cuts; inf when there is none */
FA_FUNC double fa_rough(fa_contour *run, double target, int for_delta)
{
    double best = for_delta ? 0.0 : INFINITY, guess = for_delta ? -10.0 : target, log_beyond, d1, d2;
    int i, round;
    if (run->sign < 0)
        return best;
    run->n = 0;
    for (round = 0; round < (for_delta ? 12 : 1); round++) {
        double low = -40.0, high = 40.0, x, level = INFINITY, left;
        if (!fa_rough_fill(run, sqrt(2.0 * fa_max(1.0, log(run->total + 1.0) - guess + 1.0)), &log_beyond))
            break;
        left = for_delta ? target : target + log(-expm1(fa_min(log_beyond - target, -1e-9)));
        if (!for_delta && !(log_beyond < target - 0.1))
            break;
        for (i = 0; i < 100; i++) {                                           /* the bound is unimodal in log(v - 1): thirds */
            double value[2];
            int j;
            for (j = 0; j < 2; j++) {
                double v;
                x = low + (high - low) * (j ? 0.6 : 0.4);
                v = 1.0 + exp(x);
                value[j] = fa_rough_k(run, v, &d1, &d2);
                value[j] = !(value[j] < 1e300) ? INFINITY : for_delta ? value[j] + fa_log_b(v) - (v - 1.0) * target : (value[j] + fa_log_b(v) - left) / (v - 1.0);
                value[j] = fa_max(value[j], -1e12);                           /* no less is needed */
                value[j] += 1e-12 * (1.0 + fabs(value[j])) * (for_delta ? 1.0 : 1.0 / (v - 1.0));
                level = fa_min(level, value[j]);
            }
            if (value[0] < value[1] || !(value[1] < INFINITY))
                high = low + (high - low) * 0.6;
            else
                low = low + (high - low) * 0.4;
        }
        if (!for_delta)
            return fa_max(level, 0.0) * (1.0 + 1e-12);
        level = fa_max(level, log_beyond) + log1p(exp(-fabs(level - log_beyond))) + 1e-12;
        best = fa_min(best, level);
        if (level > guess - 0.5)                                              /* the cut matters no more, or too much already */
            break;
        guess = fa_max(level, guess - 60.0);
    }
    return best;
}

#endif
