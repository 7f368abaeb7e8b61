/* once.h -- a line with a budget of its own, for the parts and for sums in 80 bits. */
#ifndef PARTS_ONCE_H
#define PARTS_ONCE_H

#include "line/capped_read.h"

/* one line for eps with this budget, its reading and its ledger there; 0: none */
static int read_once(fa_cap_work *work, double eps, const fa_cap_effort *effort, int with_floor, fa_cap_reading *r,
                     fa_cap_ledger *g)
{
    fa_cap_job *job = &work->job;
    fa_cap_saddle at;
    if (!fa_cap_place(job, effort, eps, 0.0, &at) ||
        !fa_cap_plan_line(job, &work->line, &at, eps, at.log_size, with_floor, 1, effort) ||
        !fa_cap_evaluate(job, &work->line, effort, 0.0))
        return 0;
    *r = fa_cap_read(job, &work->line, eps);
    return fa_cap_close(job, &work->line, effort, eps, r, g);
}

#endif
