/* line/flat.h -- delta and epsilon of jobs of bounded losses in which nothing decays, by rays or on a lattice. */
#ifndef FA_LINE_FLAT_H
#define FA_LINE_FLAT_H

#include "long_line.h"
#include "ray_line.h"

#define FA_FLAT_NEAR  1e-8 /* relative errors of delta with which a line serves a target that is not its own */
#define FA_FLAT_LINES 4    /* that are kept for other targets */
#define FA_FLAT_FINE  6e-9 /* width of delta, or of eps, that is aimed at where it costs as much as it is worth ... */
#define FA_FLAT_CHEAP 1e-11 /* ... and beside so much noise that a line ends soon: */
#define FA_FLAT_NOISY 1e-4

typedef enum { FA_FLAT_FOR_DELTA, FA_FLAT_FOR_EPS } fa_flat_aim;

typedef enum { FA_FLAT_BY_RAYS, FA_FLAT_BY_LATTICE, FA_FLAT_BY_POINTS } fa_flat_way;

/* any of these lines */
typedef struct {
    fa_ray_line ray;
    fa_lattice_line lattice;
    fa_long_line many;
    fa_flat_way by;      /* which one is drawn */
    fa_flat_aim aim;     /* what it is drawn for */
    double anchor, none; /* where it is drawn, and where none could be, or NaN */
    double enough;       /* relative errors of delta with which it serves a target that is not its own */
} fa_flat_line;

/* Lines at multiples of `unit`, each of which serves all targets near it, and one of a target's own: answers do not
 * depend on what was asked before */
typedef struct {
    fa_flat_line shared[FA_FLAT_LINES], own;
    double spacing, unit; /* of the lattice that all losses are on, 0: none is known; 0: not known yet */
} fa_flat_lines;

FA_FUNC void fa_flat_lines_free(fa_flat_lines *lines)
{
    int i;
    for (i = 0; i <= FA_FLAT_LINES; i++) {
        fa_flat_line *line = i < FA_FLAT_LINES ? lines->shared + i : &lines->own;
        fa_ray_line_free(&line->ray);
        fa_lattice_line_free(&line->lattice);
        fa_long_line_free(&line->many);
    }
}

FA_INLINE double fa_flat_c(const fa_flat_line *line)
{
    return line->by == FA_FLAT_BY_LATTICE ? line->lattice.c : line->by == FA_FLAT_BY_RAYS ? line->ray.c : line->many.c;
}

FA_FUNC fa_flat_reading fa_flat_read(fa_flat_line *line, double eps)
{
    return line->by == FA_FLAT_BY_LATTICE ? fa_lattice_read(&line->lattice, eps)
           : line->by == FA_FLAT_BY_RAYS  ? fa_ray_read(&line->ray, eps)
                                          : fa_long_read(&line->many, eps);
}

/* 0: none */
FA_FUNC int fa_flat_draw(fa_cap_job *job, fa_flat_line *line, double spacing, const fa_flat_place *at, double eps,
                         double ref)
{
    double good = (job->mu2 > FA_FLAT_NOISY ? FA_FLAT_CHEAP : FA_FLAT_FINE) *
                  (line->aim == FA_FLAT_FOR_EPS ? fa_max(1.0, (at->v - 1.0) * eps) : 1.0),
           own;
    fa_flat_reading r;
    line->enough = FA_FLAT_NEAR;
    line->by = FA_FLAT_BY_LATTICE;
    if (spacing > 0.0 && !(job->mu2 > 0.0) && fa_lattice_draw(job, &line->lattice, at, spacing, eps, ref))
        return 1;
    line->by = FA_FLAT_BY_RAYS;
    if (job->n <= FA_RAY_KINDS && !(job->mu2 > 0.0) && fa_ray_draw(job, &line->ray, at, eps, ref))
        return 1;
    line->by = FA_FLAT_BY_POINTS;
    if (!fa_long_draw(job, &line->many, at, eps, ref, good))
        return 0;
    r = fa_flat_read(line, eps);
    own = r.up + r.down;
    line->enough = fa_max(FA_FLAT_NEAR, own < 0.9e-6 ? fa_min(2.0 * fa_max(own, good), 0.9e-6) : 1.5 * own);
    return 1;
}

/* a line for targets up to `spread` from eps.  0: none */
FA_FUNC int fa_flat_at(fa_cap_job *job, fa_flat_line *line, double spacing, double eps, double spread)
{
    fa_flat_place at;
    int round;
    line->anchor = line->none = NAN;
    if (!fa_flat_find(job, eps, 0.0, &at))
        return 0;
    at.spread = spread;
    for (round = 0; round < 3; round++) {
        fa_flat_reading r;
        if (!fa_flat_draw(job, line, spacing, &at, eps, fa_min(-1e-3, at.log_size)))
            return 0;
        r = fa_flat_read(line, eps);
        if (fabs(r.log_value - at.log_size) < 3.0 || r.up + r.down < 0.1 * line->enough)
            break;
        at.log_size = r.log_value == r.log_value ? r.log_value : at.log_size - 10.0;
    }
    line->anchor = eps;
    return 1;
}

/* the line that serves the targets about eps: half a standard deviation of the losses under P apart.  NULL: none */
FA_FUNC fa_flat_line *fa_flat_near(fa_cap_job *job, fa_flat_lines *lines, double eps, fa_flat_aim aim)
{
    double anchor, steps;
    fa_flat_line *line;
    int i;
    if (!(lines->unit > 0.0)) {
        fa_flat_place at;
        if (!fa_flat_find(job, 0.0, 0.0, &at))
            return NULL;
        lines->unit = exp2(floor(log2(0.7 * sqrt(fa_flat_k(job, 1.0).d2))));
        for (i = 0; i < FA_FLAT_LINES; i++)
            lines->shared[i].anchor = lines->shared[i].none = NAN;
    }
    steps = floor(eps / lines->unit + 0.5);
    if (!(lines->unit > 0.0) || !(steps < 1e15))
        return NULL;
    anchor = lines->unit * steps;
    line = lines->shared + (int)fmod(steps, FA_FLAT_LINES);
    if (line->anchor == anchor && (line->aim == aim || line->by != FA_FLAT_BY_POINTS))
        return line;
    if (line->none == anchor || !(anchor < 0.99 * fa_flat_top(job)))
        return NULL;
    line->aim = aim;
    if (fa_flat_at(job, line, lines->spacing, anchor, 0.5 * lines->unit))
        return line;
    line->none = anchor;
    return NULL;
}

/* log delta at eps.  0: not certified */
FA_FUNC int fa_flat_log_delta(fa_cap_job *job, fa_flat_lines *lines, double eps, fa_interval *out, double *slope_out)
{
    fa_flat_reading r = {NAN, NAN, INFINITY, INFINITY};
    fa_flat_line *line;
    if (!fa_flat_is_for(job))
        return 0;
    if ((line = fa_flat_near(job, lines, eps, FA_FLAT_FOR_DELTA)) != NULL)
        r = fa_flat_read(line, eps);
    if (line == NULL || !(r.up + r.down < line->enough)) {
        lines->own.aim = FA_FLAT_FOR_DELTA;
        if (!fa_flat_at(job, &lines->own, lines->spacing, eps, 0.0))
            return 0;
        r = fa_flat_read(&lines->own, eps);
    }
    if (!(r.up + r.down < 0.1))
        return 0;
    out->upper = fa_min(0.0, r.log_value + log1p(r.up));
    out->lower = r.log_value + log1p(-r.down);
    *slope_out = r.slope;
    return 1;
}

/* checked ends about eps.  0: they are not where they should be */
FA_FUNC int fa_flat_ends_of(fa_flat_line *line, double log_delta, double eps, const fa_flat_reading *r,
                            fa_interval *out)
{
    double off = fabs(r->log_value - log_delta) + 8.0 * FA_EPS * (2.0 + fabs(log_delta)), pad;
    int tries, side, found = 0;
    for (side = 0; side < 2; side++) {
        pad = fa_max(1.05 * (r->up + off) / -r->slope, 2.0 * FA_EPS * eps);
        for (tries = 0; tries < 8; tries++, pad *= 3.0) {
            double x = side ? eps + pad : fa_max(0.0, eps - pad);
            fa_flat_reading at = fa_flat_read(line, x);
            if (side ? at.log_value + log1p(at.up) <= log_delta
                     : x == 0.0 || (at.down < 0.5 && at.log_value + log1p(-at.down) >= log_delta)) {
                *(side ? &out->upper : &out->lower) = x;
                found++;
                break;
            }
        }
    }
    return found == 2;
}

/* the eps at which a line reads log_delta, from one near it; low and high enclose it */
FA_FUNC fa_flat_reading fa_flat_solve(fa_flat_line *line, double log_delta, double low, double high, double *eps)
{
    fa_flat_reading r;
    int i;
    for (i = 0; i < 20; i++) {
        double step;
        r = fa_flat_read(line, *eps);
        if (!(r.log_value == r.log_value) || !(r.slope < 0.0)) {
            high = fa_min(high, *eps);
            *eps = 0.5 * (low + high);
            continue;
        }
        *(r.log_value > log_delta ? &low : &high) = *eps;
        step = (log_delta - r.log_value) / r.slope;
        if (fabs(step) < 1e-11 * *eps || high - low < 1e-13 * high ||
            (fabs(r.log_value - log_delta) < 3.0 * r.up && i > 1))
            break;
        *eps = *eps + step > low && *eps + step < high ? *eps + step : 0.5 * (low + high);
    }
    return r;
}

/* eps at log_delta.  0: not certified */
FA_FUNC int fa_flat_eps(fa_cap_job *job, fa_flat_lines *lines, double log_delta, fa_interval *out)
{
    fa_flat_line *line;
    fa_flat_place at;
    fa_flat_reading r;
    double eps, top = fa_flat_top(job);
    int round;
    if (!fa_flat_is_for(job) || !fa_flat_find(job, 0.0, log_delta, &at))
        return 0;
    eps = fa_max(1e-9, fa_min(at.eps, 0.999 * top));
    for (round = 0; round < 3 && (line = fa_flat_near(job, lines, eps, FA_FLAT_FOR_EPS)) != NULL; round++) {
        double start = line->anchor;
        r = fa_flat_solve(line, log_delta, 0.0, top, &eps);
        if (fabs(eps - start) <= 0.5 * lines->unit && r.up + r.down < line->enough &&
            fa_flat_ends_of(line, log_delta, eps, &r, out))
            return 1;
    }
    lines->own.aim = FA_FLAT_FOR_EPS;
    for (round = 0, line = &lines->own; round < 6; round++) {
        double start = eps;
        if (!fa_flat_draw(job, line, lines->spacing, &at, eps, log_delta))
            return 0;
        r = fa_flat_solve(line, log_delta, 0.0, top, &eps);
        if (fabs(eps - start) * (fa_flat_c(line) - 1.0) < 2.0 && r.up < 0.05 &&
            fa_flat_ends_of(line, log_delta, eps, &r, out))
            return 1;
        if (!(eps > 0.0) || !fa_flat_find(job, eps, 0.0, &at))
            return 0;
    }
    return 0;
}

#endif
