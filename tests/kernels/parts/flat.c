/* flat.c -- lines of jobs in which nothing decays (line/ray_line.h, line/lattice_line.h, line/long_line.h), drawn so
 * coarsely that one of their errors matters.
 */
#include "parts.h"

#include "num/interval.h"
#include "line/flat_place.h"

static double rule_good, nodes_good, period_good, atoms_small, ends_lost, points_quiet;

/* what FA_FLAT_GOOD is in each function */
static double good_of(const char *where)
{
    return !strcmp(where, "fa_ray_points") ? rule_good : !strcmp(where, "fa_lattice_plan") ? period_good : nodes_good;
}

#undef FA_FLAT_GOOD
#define FA_FLAT_GOOD     good_of(__func__)
#define FA_RAY_LOST      ends_lost
#define FA_LATTICE_SMALL atoms_small
#define FA_LONG_QUIET    points_quiet
#include "line/flat.h"

/* log delta, errors above and below, slope */
static void give(const fa_flat_reading *r, double *out)
{
    out[0] = r->log_value, out[1] = r->up, out[2] = r->down, out[3] = r->slope;
}

/* Laplace noise of a scale, sampled at a rate, as losses */
typedef struct {
    fa_panel panel;
    fa_atom atoms[2];
    fa_pieces law;
} laplace;

static void laplace_of(laplace *out, double scale, double rate)
{
    double slope, top = 1.0 / scale;
    out->panel = (fa_panel){.low = -top, .high = top, .slope = -0.5, .rate = rate, .fine = 8.0};
    out->panel.log_density = log(0.25);
    out->atoms[0] = (fa_atom){fa_panel_loss(&out->panel, -top, &slope), log(0.5), 0.0, 8.0};
    out->atoms[1] = (fa_atom){fa_panel_loss(&out->panel, top, &slope), log(0.5) - top, 0.0, 8.0};
    out->law = (fa_pieces){2, 1, 0, out->atoms, &out->panel, {0}};
}

/* so many releases of it; budget: -log of the error of the line's rule, of its nodes, what the ends may leave out, the
 * rays' step in y (0: as it is).  NaN: no line */
void ray(double scale, double rate, double steps, double eps, double ref, double drawn_at, const double *budget,
         double *out)
{
    laplace release;
    fa_cap_job job;
    fa_ray_line line;
    fa_flat_place at;
    memset(&job, 0, sizeof(job));
    memset(&line, 0, sizeof(line));
    out[0] = out[1] = out[2] = out[3] = NAN;
    rule_good = budget[0], nodes_good = budget[1], ends_lost = budget[2];
    laplace_of(&release, scale, rate);
    if (fa_cap_job_clear(&job, 1)) {
        fa_cap_job_add_pieces(&job, &release.law, steps);
        if (fa_flat_find(&job, drawn_at, 0.0, &at) && fa_ray_draw(&job, &line, &at, drawn_at, ref)) {
            fa_flat_reading r;
            line.rays.step = budget[3] > 0.0 ? budget[3] : fa_min(line.rays.step, 0.09);
            r = fa_ray_read(&line, eps);
            give(&r, out);
            out[4] = line.rays.t, out[5] = line.n;
        }
    }
    fa_ray_line_free(&line);
    fa_cap_job_free(&job);
}

/* so many kinds of it, each with its scale and count, beside Gaussians of this mu^2: a line of points drawn at an
 * epsilon for a relative error, and -log of the share of that which may alias.  NaN: no line; also how many points, and
 * the Gaussian that was added */
void points(double kinds, double eps, double ref, double drawn_at, double good, double quiet, double mu2,
            const double *scales, const double *counts, double *out)
{
    static laplace release[64];
    fa_cap_job job;
    fa_long_line line;
    fa_flat_place at;
    int b, n = (int)kinds;
    memset(&job, 0, sizeof(job));
    memset(&line, 0, sizeof(line));
    out[0] = out[1] = out[2] = out[3] = NAN;
    points_quiet = quiet;
    if (n <= 64 && fa_cap_job_clear(&job, n)) {
        for (b = 0; b < n; b++) {
            laplace_of(release + b, scales[b], 1.0);
            fa_cap_job_add_pieces(&job, &release[b].law, counts[b]);
        }
        job.mu2 = mu2;
        if (fa_flat_find(&job, drawn_at, 0.0, &at) && fa_long_draw(&job, &line, &at, drawn_at, ref, good)) {
            fa_flat_reading r = fa_long_read(&line, eps);
            give(&r, out);
            out[4] = line.n, out[5] = line.extra;
        }
    }
    fa_long_line_free(&line);
    fa_cap_job_free(&job);
}

#define MUCH 1e6 /* times what is counted: far above the rounding of the readings that are compared */

/* one error of a ray alone, over delta: what its ledger counts, and by how much delta moves where that is really off.
 * which: what rounding of losses moves places by (0), what the ends' tables round (1), and the points (2).  NaN: no
 * line */
void is_counted(double scale, double rate, double steps, double eps, double ref, double which, double *out)
{
    laplace release;
    fa_cap_job job;
    fa_ray_line line;
    fa_flat_place at;
    double drift, plain;
    int i, e, k;
    memset(&job, 0, sizeof(job));
    memset(&line, 0, sizeof(line));
    out[0] = out[1] = NAN;
    rule_good = nodes_good = 29.5, ends_lost = 2e-14;
    laplace_of(&release, scale, rate);
    release.atoms[0].slip = release.atoms[1].slip = MUCH;
    if (fa_cap_job_clear(&job, 1)) {
        fa_cap_job_add_pieces(&job, &release.law, steps);
        if (fa_flat_find(&job, eps, 0.0, &at) && fa_ray_draw(&job, &line, &at, eps, ref)) {
            fa_flat_reading r[3];
            fa_end *end = line.rays.blocks->ends.end;
            drift = line.drift, plain = line.plain;
            line.moduli = line.plain = line.cut = line.rule = line.there = -INFINITY;
            line.drift = 0.0;
            for (k = 0; k < line.n; k++)
                line.off[k] = 0.0;
            r[0] = fa_ray_read(&line, eps);
            line.drift = which == 0.0 ? drift : 0.0;
            line.plain = which == 1.0 ? plain : -INFINITY;
            r[1] = fa_ray_read(&line, eps);
            for (e = 0; e < 2 && which == 0.0; e++)
                end[e].place += FA_EPS * MUCH;
            for (e = 0; e < 2 && which == 1.0; e++) {
                end[e].atom *= 1.0 + 10.0 * FA_EPS * MUCH;
                for (i = 0; i < FA_RAY_TERMS; i++)
                    end[e].coef[i] *= 1.0 + 300.0 * FA_EPS * MUCH;
            }
            for (k = 0; k < line.n && which == 2.0; k++) {
                line.arg_f[k] *= 1.0 + FA_EPS * MUCH;
                line.log_f[k] += 40.0 * FA_EPS * MUCH;
            }
            line.rays.made[0] = line.rays.made[1] = 0;
            r[2] = fa_ray_read(&line, eps);
            out[0] = which == 0.0   ? r[1].up - r[0].up
                     : which == 1.0 ? MUCH * (r[1].up - r[0].up)
                                    : MUCH * (r[0].up - 8.0 * FA_EPS * (4.0 + fabs(ref)));
            out[1] = fabs(expm1(r[2].log_value - r[1].log_value));
        }
    }
    fa_ray_line_free(&line);
    fa_cap_job_free(&job);
}

/* randomised responses of a size, `fold` of them at a time, so often; budget: -log of what may alias, and of the atoms
 * that are left out.  NaN: no line */
void lattice(double size, double fold, double steps, double eps, double ref, const double *budget, double *out)
{
    double other = log1p(exp(-size)), spacing = 2.0 * size;
    int i, n = (int)fold;
    fa_atom atoms[16];
    fa_pieces law = {n + 1, 0, 0, atoms, NULL, {0}};
    fa_cap_job job;
    fa_lattice_line line;
    fa_flat_place at;
    memset(&job, 0, sizeof(job));
    memset(&line, 0, sizeof(line));
    out[0] = out[1] = out[2] = out[3] = NAN;
    period_good = budget[0], atoms_small = budget[1];
    for (i = 0; i <= n; i++) {
        double choose = lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0);
        atoms[i] = (fa_atom){(2 * i - n) * size, choose - i * size - n * other, 0.0, 24.0};
    }
    if (fa_cap_job_clear(&job, 1)) {
        fa_cap_job_add_pieces(&job, &law, steps);
        if (fa_flat_find(&job, eps, 0.0, &at) && fa_lattice_draw(&job, &line, &at, spacing, eps, ref)) {
            fa_flat_reading r = fa_lattice_read(&line, eps);
            give(&r, out);
            out[4] = line.n, out[5] = line.c;
        }
    }
    fa_lattice_line_free(&line);
    fa_cap_job_free(&job);
}

/* bounds of log delta at eps, and of epsilon at log delta, of so many releases of Laplace noise; the budget is that of
 * a ray.  NaN: they are not certified */
void answers(double scale, double rate, double steps, double eps, double log_delta, const double *budget, double *out)
{
    laplace release;
    fa_cap_job job;
    fa_flat_lines lines;
    fa_interval found;
    double slope;
    int i;
    memset(&job, 0, sizeof(job));
    memset(&lines, 0, sizeof(lines));
    for (i = 0; i < 4; i++)
        out[i] = NAN;
    rule_good = budget[0], nodes_good = budget[1], ends_lost = budget[2];
    laplace_of(&release, scale, rate);
    if (fa_cap_job_clear(&job, 1)) {
        fa_cap_job_add_pieces(&job, &release.law, steps);
        if (fa_flat_log_delta(&job, &lines, eps, &found, &slope))
            out[0] = found.lower, out[1] = found.upper;
        if (fa_flat_eps(&job, &lines, log_delta, &found))
            out[2] = found.lower, out[3] = found.upper;
    }
    fa_flat_lines_free(&lines);
    fa_cap_job_free(&job);
}

/* log E[e^(aL)] of one release of it under the data without the record, by nodes made for Re u = at and this error
 * alone: what they say, and with what they may leave out (line/families.h) */
void back(double scale, double rate, double at, double most, double a, double *out)
{
    laplace release;
    fa_cap_job job;
    memset(&job, 0, sizeof(job));
    out[0] = out[1] = NAN;
    laplace_of(&release, scale, rate);
    if (fa_cap_job_clear(&job, 1)) {
        fa_cap_block *block = job.blocks;
        fa_cap_job_add_pieces(&job, &release.law, 1.0);
        const fa_asked ask = {at, 0.0, 0.0, 0.0, fa_pieces_edges(block, 0.0)};
        if (fa_pieces_lay(block, &block->nodes, &(const fa_demand){&ask, &ask, most}, 1)) {
            out[0] = fa_cap_block_k(block, &block->nodes, a, 0, 0.0).k;
            out[1] = fa_cap_block_k(block, &block->nodes, a, 0, block->family->back_error(block, a)).k;
        }
    }
    fa_cap_job_free(&job);
}
