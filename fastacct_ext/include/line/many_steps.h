/* line/many_steps.h -- jobs of very many different sampled Gaussians: certified epsilon and log delta, from one pass
 * over the steps.
 *
 * A few steps in the place of groups of similar ones (line/many_sketch.h) say where the line is best and how long it
 * must be.  Then every step is read once (line/many_line.h).  docs/algorithms/contour.md, "Many different steps".
 */
#ifndef FA_MANY_STEPS_H
#define FA_MANY_STEPS_H

#include "many_line.h"

#define FA_MANY_TOLERANCE 24.0 /* -log of the relative error aimed at ... */
#define FA_MANY_RETRY     5.0  /* ... and how much more where that was not enough */

/* place a line for eps, or for log_delta where eps is NaN, on the sketch and evaluate it over all steps; eps and log
 * delta there, about. more: to add to the tolerance.  0: no such line */
FA_FUNC int fa_many_place(fa_many *m, int way, double more, double *eps, double *log_delta)
{
    fa_contour *sketch = m->sketch + way, *other = m->sketch + 1;
    double other_v = 0.0, gap = INFINITY, unused;
    fa_interval guess;
    fa_reading r;
    int giants, tries;
    fa_contour_reset(sketch);
    sketch->tolerance = FA_COARSE;
    if (*eps == *eps)
        guess = fa_contour_log_delta(sketch, *eps, FA_MANY_POINTS);
    else {
        *eps = fa_place(sketch, NAN, *log_delta, *log_delta, FA_MANY_POINTS);
        if (*eps >= 0.0)
            fa_newton(sketch, *log_delta, eps, &gap, &r);
        guess.lower = guess.upper = *eps;
        if (!(*eps > 0.0) || !(gap < 1e-3) || !(r.relative + r.alias < 0.03))
            guess = fa_contour_eps(sketch, *log_delta, FA_MANY_POINTS);
        *eps = 0.5 * (guess.lower + guess.upper);
    }
    if (!(*eps > 0.0) || !(*eps < INFINITY) || !(guess.lower > -INFINITY))
        return 0;
    if (!(*log_delta == *log_delta))
        *log_delta = 0.5 * (guess.lower + guess.upper);
    sketch->tolerance = FA_MANY_TOLERANCE + more;
    if (!(fa_place(sketch, *eps, NAN, *log_delta, FA_MANY_POINTS) >= 0.0))
        return 0;
    if (way == 0 && (m->directions & FA_WAYS_ADD) && *eps < m->add_end) {
        fa_contour_reset(other);
        fa_share_real(other, sketch);
        if (fa_saddle(other, *eps, NAN, &unused))
            other_v = other->c;
    }
    for (tries = 0, giants = (int)(1.04 * sketch->n) / FA_MANY_GIANT + 1; tries < 3; tries++, giants += giants / 3 + 1)
        if (!fa_many_pass(m, m->line + way, sketch, giants, other_v))
            return 0;
        else if (m->line[way].log_tail - (sketch->c - 1.0) * *eps < *log_delta - FA_MANY_TOLERANCE - more + 4.0)
            break;
    return 1;
}

/* eps at log delta in one direction; 0: not certified here */
FA_FUNC int fa_many_eps_way(fa_many *m, int way, double log_delta, fa_interval *out)
{
    fa_contour *run = m->line + way;
    double eps = NAN, size = log_delta, gap, more;
    fa_reading r;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &eps, &size))
            return 0;
        fa_newton(run, log_delta, &eps, &gap, &r);
        if (!(gap < 1e-3) || !(eps > 0.0))
            return 0;
        if (r.relative + r.alias < 10.0 * FA_GOOD * fa_max(1.0, -r.slope * eps))
            return fa_ends(run, log_delta, eps, gap, &r, out) && out->lower > 0.0;
    }
    return 0;
}

/* log delta at eps > 0 in one direction; 0: not certified here */
FA_FUNC int fa_many_log_delta_way(fa_many *m, int way, double eps, fa_interval *out)
{
    double size = NAN, more;
    fa_reading r;
    out->lower = out->upper = -INFINITY;
    m->slope = NAN;
    if (way && eps >= m->add_end * (1.0 + 8.0 * FA_EPS))
        return 1;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &eps, &size))
            return 0;
        fa_contour_read(m->line + way, eps, &r);
        *out = fa_bounds_of(&r);
        m->slope = r.slope;
        if (r.relative + r.alias < 10.0 * FA_GOOD)
            return 1;
    }
    return 0;
}

/* whether delta_add(eps) <= exp(log_delta) is proved by Chernoff's bound, after a pass of the other direction */
FA_FUNC int fa_many_add_is_below(const fa_many *m, double eps, double log_delta)
{
    double v = m->chernoff_v;
    if (eps >= m->add_end * (1.0 + 8.0 * FA_EPS))
        return 1;
    return v > 1.0 && m->chernoff_k + fa_log_b(v) - (v - 1.0) * eps + 1e-9 * (1.0 + fabs(m->chernoff_k)) <= log_delta;
}

/* as fa_exact_eps, for log_delta < 0; 0: not certified here */
FA_FUNC int fa_many_eps(fa_many *m, double log_delta, fa_interval *out)
{
    fa_interval add;
    if (m->directions == FA_WAYS_ADD)
        return fa_many_eps_way(m, 1, log_delta, out);
    if (!fa_many_eps_way(m, 0, log_delta, out))
        return 0;
    if (m->directions == FA_WAYS_REMOVE || fa_many_add_is_below(m, out->upper, log_delta))
        return 1;
    if (!fa_many_log_delta_way(m, 1, out->upper, &add))
        return 0;
    if (add.upper <= log_delta)
        return 1;
    if (!fa_many_eps_way(m, 1, log_delta, &add))
        return 0;
    out->lower = fa_max(out->lower, add.lower);
    out->upper = fa_max(out->upper, add.upper);
    return 1;
}

/* as fa_exact_log_delta, for eps > 0; 0: not certified here */
FA_FUNC int fa_many_log_delta(fa_many *m, double eps, fa_interval *out)
{
    fa_interval add;
    double slope;
    if (m->directions == FA_WAYS_ADD)
        return fa_many_log_delta_way(m, 1, eps, out);
    if (!fa_many_log_delta_way(m, 0, eps, out))
        return 0;
    slope = m->slope;
    if (m->directions == FA_WAYS_REMOVE || fa_many_add_is_below(m, eps, out->lower))
        return 1;
    if (!fa_many_log_delta_way(m, 1, eps, &add))
        return 0;
    if (add.upper < out->upper)
        m->slope = slope;
    out->lower = fa_max(out->lower, add.lower);
    out->upper = fa_max(out->upper, add.upper);
    return 1;
}

#endif
