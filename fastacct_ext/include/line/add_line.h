/* line/add_line.h -- direction add, few steps of the sampled Gaussian: certified delta(eps) and eps(delta).
 *
 * One hyperbola is placed, evaluated and read (line/add_points.h); where its ledger leaves too much, another with a
 * smaller angle.  All intervals hold, so does what they share.  docs/algorithms/add_line.md.
 */
#ifndef FA_ADD_LINE_H
#define FA_ADD_LINE_H

#include "../kernels.h"
#include "../num/interval.h"
#include "add_points.h"

#define FA_ADD_STEPS  100.0 /* most steps */
#define FA_ADD_WIDTH  9e-10 /* relative width of eps, or error of log delta, that is good enough at once */
#define FA_ADD_COARSE 5e-11 /* relative error of delta aimed at where eps has a slope to spare ... */
#define FA_ADD_FINE   1e-13 /* ... and the least one */
#define FA_ADD_TRIES  4     /* lines placed for one answer */

typedef struct {
    double value, slope; /* delta/exp(log_size), d log delta/d eta */
    double lower, upper; /* of log delta; -inf and 0 where nothing is known */
} fa_add_reading;

/* delta at eta.   domain |eta - path.eta| <= reach, elsewhere and without points nothing is known */
FA_FUNC fa_add_reading fa_add_read(const fa_add_line *line, double eta)
{
    fa_add_reading r = {0.0, 0.0, -INFINITY, 0.0};
    double by = eta - line->path.eta, sum = 0.0, slope = 0.0, pad;
    const double *pr = line->pr, *pi = line->pi, *fr = line->fr, *fi = line->fi;
    int i, n = line->n;
    if (n == 0 || !(fabs(by) <= line->path.reach))
        return r;
    FA_PRAGMA(omp simd reduction(+ : sum, slope))
    for (i = 0; i < n; i++) {
        double e = fa_exp_plain_v(pr[i] * by), c, s = fa_sincos_v(pi[i] * by, &c),
               re = e * FA_FMA(fr[i], c, -fi[i] * s), im = e * FA_FMA(fr[i], s, fi[i] * c);
        sum += re;
        slope = FA_FMA(pr[i], re, FA_FMA(-pi[i], im, slope));
    }
    r.value = sum * line->path.h / FA_PI;
    r.slope = slope / sum;
    pad = 4.0 * FA_EPS * (2.0 + fabs(line->path.log_size));
    if (r.value > line->error) {
        r.lower = line->path.log_size + log(r.value - line->error) - pad;
        r.upper = fa_min(0.0, line->path.log_size + log(r.value + line->error) - log1p(-line->lost) + pad);
    }
    return r;
}

typedef enum { FA_ADD_UNREAD, FA_ADD_FOUND, FA_ADD_OUTSIDE } fa_add_outcome;

/* Newton's method within the line's reach for the eta with log delta; FA_ADD_OUTSIDE: *eta_out is where it would go
 * on, beyond that */
FA_FUNC fa_add_outcome fa_add_solve(const fa_add_line *line, double log_delta, double *eta_out, fa_add_reading *r)
{
    double eta = line->path.eta, reach = 0.98 * line->path.reach;
    int i;
    for (i = 0; i < 20; i++) {
        double gap, next;
        *r = fa_add_read(line, eta);
        *eta_out = eta;
        if (!(r->value > 0.0) || !(r->slope > 0.0))
            return FA_ADD_UNREAD;
        gap = line->path.log_size + log(r->value) - log_delta;
        next = eta - gap / r->slope;
        if (fabs(next - line->path.eta) > reach) {
            double side = next > line->path.eta ? 1.0 : -1.0;
            if (i > 0 && (eta - line->path.eta) * side >= 0.999 * reach) {
                *eta_out = next;
                return FA_ADD_OUTSIDE;
            }
            eta = line->path.eta + side * reach;
            continue;
        }
        eta = next;
        /* what is left is of the order of gap^2; the ends are checked */
        if (fabs(gap) < 1e-6) {
            *eta_out = eta;
            return FA_ADD_FOUND;
        }
    }
    return FA_ADD_UNREAD;
}

/* checked ends of eps about eta: 1 where both are.  eps = run->end - eta, good to 3 u of the end and u of the rest */
FA_FUNC int fa_add_ends(const fa_add_line *line, const fa_add_run *run, double log_delta, double eta,
                        const fa_add_reading *r, fa_interval *out)
{
    double width = line->error / r->value + line->lost + 16.0 * FA_EPS * (2.0 + fabs(line->path.log_size)),
           pad = 1.02 * width / r->slope;
    double slip = 5.0 * FA_EPS * run->end, low = NAN, high = NAN;
    int i;
    for (i = 0; i < 4; i++, pad *= 2.0) {
        if (high != high && fa_add_read(line, eta - pad).upper <= log_delta)
            high = fa_max(0.0, run->end - (eta - pad) + slip);
        if (low != low && fa_add_read(line, eta + pad).lower >= log_delta)
            low = fa_max(0.0, run->end - (eta + pad) - slip);
        if (high == high && low == low)
            break;
    }
    out->lower = low;
    out->upper = high;
    return high == high && low == low;
}

/* whether a run is within the domain */
FA_INLINE int fa_add_takes(double sigma, double q, double steps)
{
    return sigma > 0.0 && sigma < 1e6 && q > 0.0 && q < 1.0 && steps >= 2.0 && steps <= FA_ADD_STEPS &&
           steps == floor(steps);
}

/* the relative error of delta that leaves eps, about end - eta, to 4e-10 */
FA_INLINE double fa_add_aim(const fa_add_run *run, const fa_add_saddle *at, double eta)
{
    return fa_max(FA_ADD_FINE, fa_min(FA_ADD_COARSE, 1e-10 * at->c * (run->end - eta)));
}

/* eps at log_delta < 0 in direction add: certified and of a relative width of 1e-9 in all but rare runs; 0: nothing
 * is known. cost 15 to 60 us for up to ten steps */
FA_FUNC int fa_add_eps(fa_add_work *w, double sigma, double q, double steps, double log_delta, fa_interval *out)
{
    fa_add_run run;
    fa_add_saddle at;
    fa_add_reading r;
    double eta, turn = 1.0;
    int i, known = 0;
    if (!fa_add_takes(sigma, q, steps) || !(log_delta < 0.0) || !(log_delta > -700.0) || !fa_add_work_reserve(w))
        return 0;
    fa_add_run_set(&run, sigma, q, steps);
    fa_add_axis_fill(&w->axis, &run, -sigma * sqrt(-2.0 * log_delta / steps));
    if (!fa_add_find(&w->axis, &run, NAN, log_delta, 3.0 / (q * steps), &at))
        return 0;
    eta = fa_min(at.eta, run.end);
    if (eta < at.eta && !fa_add_find(&w->axis, &run, eta, NAN, at.c, &at))
        return 0;
    for (i = 0; i < FA_ADD_TRIES; i++) {
        fa_interval d;
        fa_add_outcome found = FA_ADD_UNREAD;
        double center = eta;
        if (fa_add_evaluate(w, &run, &at, center, center < run.end ? log_delta : fa_min(log_delta, at.log_delta), turn,
                            fa_add_aim(&run, &at, center))) {
            if (center == run.end && fa_add_read(&w->line, run.end * (1.0 + 8.0 * FA_EPS)).upper <= log_delta) {
                out->lower = out->upper = 0.0; /* even delta(0) is below the target */
                return 1;
            }
            found = fa_add_solve(&w->line, log_delta, &eta, &r);
        }
        if (found == FA_ADD_FOUND && fa_add_ends(&w->line, &run, log_delta, eta, &r, &d)) {
            *out = known ? fa_share(*out, d) : d;
            known = 1;
            if (out->upper - out->lower <= FA_ADD_WIDTH * out->upper)
                break;
        }
        if (found == FA_ADD_OUTSIDE)
            eta = fa_min(fa_max(eta, 0.4 * center), 2.5 * center);
        else if (w->line.n == 0 && turn < 1.0)
            break;
        else
            turn *= 0.8;
        if (!fa_add_find(&w->axis, &run, eta, NAN, at.c, &at))
            break;
    }
    return known;
}

/* log delta at eps >= 0 in direction add and its slope in eps; 0: nothing is known.   domain eps below the largest
 * loss */
FA_FUNC int fa_add_log_delta(fa_add_work *w, double sigma, double q, double steps, double eps, fa_interval *out,
                             double *slope_out)
{
    fa_add_run run;
    fa_add_saddle at;
    fa_add_reading r;
    fa_interval found;
    double eta, slip, turn = 1.0;
    int i, known = 0;
    if (!fa_add_takes(sigma, q, steps) || !(eps >= 0.0) || !fa_add_work_reserve(w))
        return 0;
    fa_add_run_set(&run, sigma, q, steps);
    eta = run.end - eps;
    slip = 5.0 * FA_EPS * run.end;
    if (!(eta > 1e3 * slip))
        return 0;
    fa_add_axis_fill(&w->axis, &run, fa_add_z(&run, eta));
    if (!fa_add_find(&w->axis, &run, eta, NAN, 3.0 / eta, &at))
        return 0;
    for (i = 0; i < FA_ADD_TRIES; i++, turn *= 0.8) {
        if (!fa_add_evaluate(w, &run, &at, eta, at.log_delta, turn, FA_ADD_COARSE)) {
            if (turn < 1.0)
                break;
            continue;
        }
        r = fa_add_read(&w->line, eta);
        if (!(r.lower > -INFINITY) || !(r.slope > 0.0))
            continue;
        r.lower = fa_min(r.lower, fa_add_read(&w->line, eta - slip).lower);
        r.upper = fa_max(r.upper, fa_add_read(&w->line, eta + slip).upper);
        found.lower = r.lower;
        found.upper = r.upper;
        *out = known ? fa_share(*out, found) : found;
        *slope_out = -r.slope;
        known = 1;
        if (out->upper - out->lower <= FA_ADD_WIDTH)
            break;
    }
    return known && out->lower > -INFINITY;
}

#endif
