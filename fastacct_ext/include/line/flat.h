/* line/flat.h -- delta and epsilon of jobs of bounded losses in which nothing decays, by rays or on a lattice. */
#ifndef FA_LINE_FLAT_H
#define FA_LINE_FLAT_H

#include "lattice_line.h"
#include "ray_line.h"

/* either line */
typedef struct {
    fa_ray_line ray;
    fa_lattice_line lattice;
    double spacing; /* of the lattice that all losses are on; 0: none is known */
    int by_lattice; /* which of both is drawn */
} fa_flat_line;

FA_FUNC void fa_flat_line_free(fa_flat_line *line)
{
    fa_ray_line_free(&line->ray);
    fa_lattice_line_free(&line->lattice);
}

FA_INLINE double fa_flat_c(const fa_flat_line *line) { return line->by_lattice ? line->lattice.c : line->ray.c; }

/* 0: none */
FA_FUNC int fa_flat_draw(fa_cap_job *job, fa_flat_line *line, const fa_flat_place *at, double eps, double ref)
{
    line->by_lattice = line->spacing > 0.0 && fa_lattice_draw(job, &line->lattice, at, line->spacing, eps, ref);
    return line->by_lattice || fa_ray_draw(job, &line->ray, at, eps, ref);
}

FA_FUNC fa_flat_reading fa_flat_read(fa_flat_line *line, double eps)
{
    return line->by_lattice ? fa_lattice_read(&line->lattice, eps) : fa_ray_read(&line->ray, eps);
}

/* log delta at eps.  0: not certified */
FA_FUNC int fa_flat_log_delta(fa_cap_job *job, fa_flat_line *line, double eps, fa_interval *out, double *slope_out)
{
    fa_flat_place at;
    fa_flat_reading r;
    int round;
    if (!fa_flat_is_for(job) || !fa_flat_find(job, eps, 0.0, &at))
        return 0;
    for (round = 0; round < 3; round++) {
        if (!fa_flat_draw(job, line, &at, eps, fa_min(-1e-3, at.log_size)))
            return 0;
        r = fa_flat_read(line, eps);
        if (fabs(r.log_value - at.log_size) < 3.0)
            break;
        at.log_size = r.log_value == r.log_value ? r.log_value : at.log_size - 10.0;
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

/* eps at log_delta.  0: not certified */
FA_FUNC int fa_flat_eps(fa_cap_job *job, fa_flat_line *line, double log_delta, fa_interval *out)
{
    fa_flat_place at;
    fa_flat_reading r;
    double eps, low = 0.0, high = job->top;
    int round, i;
    if (!fa_flat_is_for(job) || !fa_flat_find(job, 0.0, log_delta, &at))
        return 0;
    eps = fa_max(1e-9, fa_min(at.eps, 0.999 * high));
    for (round = 0; round < 6; round++) {
        double start = eps, step;
        if (!fa_flat_draw(job, line, &at, eps, log_delta))
            return 0;
        for (i = 0; i < 20; i++) {
            r = fa_flat_read(line, eps);
            if (!(r.log_value == r.log_value) || !(r.slope < 0.0)) {
                high = fa_min(high, eps);
                eps = 0.5 * (low + high);
                continue;
            }
            *(r.log_value > log_delta ? &low : &high) = eps;
            step = (log_delta - r.log_value) / r.slope;
            if (fabs(step) < 1e-11 * eps || high - low < 1e-13 * high ||
                (fabs(r.log_value - log_delta) < 3.0 * r.up && i > 1))
                break;
            eps = eps + step > low && eps + step < high ? eps + step : 0.5 * (low + high);
        }
        if (fabs(eps - start) * (fa_flat_c(line) - 1.0) < 2.0 && r.up < 0.05 &&
            fa_flat_ends_of(line, log_delta, eps, &r, out))
            return 1;
        if (!(eps > 0.0) || !fa_flat_find(job, eps, 0.0, &at))
            return 0;
    }
    return 0;
}

#endif
