/* bound.c -- what a job's windows bound without a line (line/capped_bound.h), and what errors of the points of a line
 * make of it (line/capped_ledger.h).
 */
#include "parts.h"

#include "line/capped_bound.h"
#include "once.h"

/* log of the bound of delta of sampled Gaussian steps, direction remove, and epsilon by it */
void upper(double sigma, double rate, double steps, double eps, double log_delta, double *out)
{
    fa_cap_work work;
    double slope;
    memset(&work, 0, sizeof(work));
    out[0] = out[1] = NAN;
    if (fa_cap_job_set(&work.job, sigma, rate, steps)) {
        out[0] = fa_cap_upper(&work, eps, &slope);
        out[1] = fa_cap_eps_upper(&work, log_delta);
    }
    fa_cap_work_free(&work);
}

/* A line of sampled Gaussian steps with few nodes (`need`: -log of what their quadrature may miss), at whose points
 * every B0 is then moved by as much as its errors allow, each in the worst direction: by how much that moves the sum,
 * over delta, and what the ledger has for it.  NAN: no line */
void moved(double sigma, double rate, double steps, double eps, double need, double *out)
{
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_work work;
    fa_cap_reading r;
    fa_cap_ledger g;
    memset(&work, 0, sizeof(work));
    out[0] = out[1] = out[2] = NAN;
    effort.need = need;
    if (fa_cap_job_set(&work.job, sigma, rate, steps) && read_once(&work, eps, &effort, 0, &r, &g)) {
        const fa_cap_line *line = &work.line;
        const fa_cap_block *block = work.job.blocks;
        double sum = 0.0, c1 = line->plan.c - 1.0, largest = 0.0,
               scale = line->plan.h / FA_PI * exp(line->ref - r.log_value - c1 * (eps - line->eps));
        int k, i;
        for (k = 0; k < line->n; k++) {
            double turn = line->arg_f[k] - k * line->plan.h * (eps - line->eps), most = 0.0;
            for (i = 0; i < 64; i++) { /* F (1 + x e^(i angle))^T */
                double angle = 2.0 * FA_PI * i / 64, x = block->share[k], re = 1.0 + x * cos(angle), im = x * sin(angle),
                       size = exp(0.5 * steps * log1p(x * x + 2.0 * x * cos(angle))),
                       moved = size * cos(turn + steps * atan2(im, re)) - cos(turn);
                most = fa_max(most, moved);
            }
            sum += line->size[k] * most; /* size: half of it at the first point */
            largest = fa_max(largest, steps * block->share[k]);
        }
        out[0] = scale * sum, out[1] = g.quadrature + g.rounding, out[2] = largest;
    }
    fa_cap_work_free(&work);
}

/* A line of direction add whose cap is at `cap`, where sums beyond it matter: log of delta, and what the ledger has for
 * the cap (its quadrature is not made for one there).  NAN: no line */
void added(double sigma, double rate, double steps, double eps, double cap, double *out)
{
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_work work;
    fa_cap_reading r;
    fa_cap_ledger g;
    fa_cap_saddle at;
    fa_cap_job *job = &work.job;
    memset(&work, 0, sizeof(work));
    out[0] = out[1] = NAN;
    if (fa_cap_job_set(job, sigma, rate, steps)) {
        job->is_add = 1;
        if (fa_cap_place(job, &effort, eps, 0.0, &at) && fa_cap_begin_at(job->blocks, &effort, cap)) {
            fa_cap_count_lost(job);
            if (fa_cap_plan_line(job, &work.line, &at, eps, at.log_size, 0, 1, &effort) &&
                fa_cap_evaluate(job, &work.line, &effort, 0.0)) {
                r = fa_cap_read(job, &work.line, eps);
                if (fa_cap_close(job, &work.line, &effort, eps, &r, &g))
                    out[0] = r.log_value, out[1] = g.put;
            }
        }
    }
    fa_cap_work_free(&work);
}
