/* invert/sketch.h -- about how far a run is from a target epsilon, by one capped line and without a proof.
 *
 * A search asks this many times and proves nothing by it: no ledger is closed, and the line has as few digits as the
 * search can use.
 */
#ifndef FA_SKETCH_H
#define FA_SKETCH_H

#include "../exact/exact_readout.h"

/* How many digits: those of the saddle-point approximation; five and eight of a line. */
typedef enum { FA_TRY_SADDLE, FA_TRY_ROUGHLY, FA_TRY_FINELY } fa_digits;

/* What one search hands from sketch to sketch: it starts nearby and may save time, and begins anew for every cell. */
typedef struct {
    double saddle;  /* 0: not known */
    int with_floor; /* whether lines without a floor are too long */
} fa_sketch_start;

/* the budget of a line of so many digits */
FA_FUNC fa_cap_effort fa_sketch_effort(fa_digits digits)
{
    fa_cap_effort out = fa_cap_usual_effort();
    double fewer = digits == FA_TRY_ROUGHLY ? 14.0 : 7.0;
    out.tolerance -= fewer;
    out.dead -= fewer + 2.0;
    out.need -= fewer;
    out.left = digits == FA_TRY_ROUGHLY ? 6.0 : 7.3;
    return out;
}

/* fa_sketch -- about log(epsilon of a run at delta / eps), direction remove; NAN where no line is to be had.
 *   needs    the job of `work` to be several steps of one sampled Gaussian; its line is overwritten
 *   error    a twentieth, up to one, over -d log delta/d log eps at the saddle point; 1e-5 and 1e-8 over it on a line
 *   why      log eps is nearly linear in the logarithms of all parameters, log delta is not: Newton's method on the
 *            line, but for long ways, on which it would mislead */
FA_FUNC double fa_sketch(fa_cap_work *work, double eps, double log_delta, fa_digits digits, fa_sketch_start *start)
{
    fa_cap_job *job = &work->job;
    fa_cap_effort budget = fa_sketch_effort(digits);
    fa_cap_saddle at;
    fa_cap_reading r;
    double found = eps, gap;
    work->certified = 0;
    if (!fa_cap_place(job, &budget, eps, start->saddle, &at))
        return NAN;
    start->saddle = at.v;
    if (digits == FA_TRY_SADDLE)
        return (at.log_size - log_delta) / (-at.slope * eps);
    if (!fa_cap_draw(job, &work->line, &at, &eps, at.log_size, NAN, budget, &start->with_floor))
        return NAN;
    r = fa_cap_read(job, &work->line, eps);
    gap = r.log_value - log_delta;
    if (fabs(gap) < 1.0 && fa_cap_newton(job, &work->line, log_delta, &found, &r) && found > 0.0)
        return log(found / eps);
    return gap / (-r.slope * eps);
}

#endif
