/* line/many_steps.h -- jobs of different sampled Gaussians: certified epsilon and log delta, from one pass
 * over the steps.
 *
 * Their log-moments at real points say which line of a lattice is best (line/many_place.h).  Then every step is read
 * once along it (line/many_line.h).  docs/algorithms/contour.md, "Different steps".
 */
#ifndef FA_MANY_STEPS_H
#define FA_MANY_STEPS_H

#include "many_line.h"

#define FA_MANY_TOLERANCE 24.0 /* -log of the relative error aimed at ... */
#define FA_MANY_LONGER    4.0  /* a line that must be so many times longer is given up */
#define FA_MANY_RETRY     5.0  /* ... and how much more where that was not enough */

/* a line of the lattice for eps, or for log_delta where eps is NaN, evaluated over all steps; eps and log delta there,
 * about. more: to add to the tolerance.  0: no such line */
FA_FUNC int fa_many_place(fa_many *m, int way, double more, double *eps, double *log_delta)
{
    double tolerance = FA_MANY_TOLERANCE + more;
    fa_many_where where;
    int tries;
    if (!fa_many_choose(m, way, tolerance, eps, log_delta, &where))
        return 0;
    for (tries = 0; tries < 3 && where.giants; tries++) {
        double left, longer;
        if (!fa_many_pass(m, &where))
            return 0;
        left = m->line[way].log_tail - (m->line[way].c - 1.0) * *eps - *log_delta;
        if (left < 4.0 - tolerance)
            return 1;
        longer = 1.05 * pow((tolerance - 4.0) / fa_max(-left, 1e-3), 0.8);
        if (longer > FA_MANY_LONGER)
            return 0;
        where.giants = fa_many_length(fa_max(longer * where.giants, where.giants + 1.0));
    }
    return where.giants > 0;
}

/* the error that will do: other lines do better where they take so many blocks */
FA_INLINE double fa_many_good(const fa_many *m) { return (m->n > FA_CAP_BLOCKS ? 10.0 : 1.0) * FA_GOOD; }

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
        if (r.relative + r.alias < fa_many_good(m) * fa_max(1.0, -r.slope * eps))
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
        if (r.relative + r.alias < fa_many_good(m))
            return 1;
    }
    return 0;
}

/* whether delta_add(eps) <= exp(log_delta) is proved by Chernoff's bound, after a line of the other direction */
FA_FUNC int fa_many_add_is_below(const fa_many *m, double eps, double log_delta)
{
    double v = m->other_v;
    if (eps >= m->add_end * (1.0 + 8.0 * FA_EPS))
        return 1;
    return v > 1.0 && m->other_k + fa_log_b(v) - (v - 1.0) * eps + 1e-9 * (1.0 + fabs(m->other_k)) <= log_delta;
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
