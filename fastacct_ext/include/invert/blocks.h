/* invert/blocks.h -- calibration of n cells, by Renyi DP and by the exact accountant. */
#ifndef FA_INVERT_BLOCKS_H
#define FA_INVERT_BLOCKS_H

#include "../late.h"
#include "calibrate.h"

/* fa_calibrate_cells -- all cells, by the accountant that `t` names; the parameter that is wanted has no column. */
static int64_t fa_calibrate_cells(fa_target t, const fa_cells *in, double seconds, const fa_answers *out)
{
    double end = fa_end_of(seconds);
    int64_t i;
    (void)fa_alloc_failed();
    for (i = 0; i < in->n && !fa_is_late(i, end); i++) {
        int status;
        t.sigma = in->sigma ? in->sigma[i] : NAN;
        t.q = in->q ? in->q[i] : NAN;
        t.steps = in->steps ? in->steps[i] : NAN;
        t.delta = in->target[i];
        t.eps = in->eps[i];
        out->value[i] = fa_calibrate(&t, &status);
        out->status[i] = (uint8_t)status;
        if (fa_alloc_failed())
            return FA_NO_MEMORY;
    }
    return i;
}

static int64_t fa_calibrate_renyi_block(const fa_cells *in, const fa_question *ask, double seconds,
                                        const fa_answers *out)
{
    fa_log_moment moment;
    fa_target t = {.wanted = ask->wanted, .moment = &moment, .renyi = fa_renyi_ask_of(ask)};
    return fa_calibrate_cells(t, in, seconds, out);
}

static int64_t fa_calibrate_exact_block(const fa_cells *in, const fa_question *ask, double seconds,
                                        const fa_answers *out)
{
    fa_exact e;
    fa_target t = {.wanted = ask->wanted, .exact = &e};
    int64_t done;
    if (!fa_exact_init(&e, (int)ask->ways))
        return FA_NO_MEMORY;
    done = fa_calibrate_cells(t, in, seconds, out);
    fa_exact_free(&e);
    return done;
}

#endif
