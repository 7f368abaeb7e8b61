/* invert/blocks.h -- calibration of n cells, by Renyi DP and by the exact accountant. */
#ifndef FA_INVERT_BLOCKS_H
#define FA_INVERT_BLOCKS_H

#include "../late.h"
#include "calibrate.h"

/* fa_target_of -- the target of cell i; the parameter that is wanted has no column. */
static fa_target fa_target_of(const fa_cells *in, int64_t i, fa_wanted wanted)
{
    fa_target t = {.sigma = NAN, .q = NAN, .steps = NAN, .wanted = wanted, .delta = in->target[i], .eps = in->eps[i]};
    if (in->sigma)
        t.sigma = in->sigma[i];
    if (in->q)
        t.q = in->q[i];
    if (in->steps)
        t.steps = in->steps[i];
    return t;
}

static int64_t fa_calibrate_renyi_block(const fa_cells *in, const fa_question *ask, double seconds,
                                        const fa_answers *out)
{
    fa_log_moment moment;
    double end = fa_end_of(seconds);
    int64_t i;
    for (i = 0; i < in->n && !fa_is_late(i, end); i++) {
        fa_target t = fa_target_of(in, i, ask->wanted);
        int status;
        t.moment = &moment;
        t.renyi = fa_renyi_ask_of(ask);
        out->value[i] = fa_calibrate(&t, &status);
        out->status[i] = (uint8_t)status;
    }
    return i;
}

static int64_t fa_calibrate_exact_block(const fa_cells *in, const fa_question *ask, double seconds,
                                        const fa_answers *out)
{
    fa_exact e;
    double end = fa_end_of(seconds);
    int64_t i;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, 1, (int)ask->ways, FA_POINTS_MAX))
        return FA_NO_MEMORY;
    for (i = 0; i < in->n && !fa_is_late(i, end); i++) {
        fa_target t = fa_target_of(in, i, ask->wanted);
        int status;
        t.exact = &e;
        out->value[i] = fa_calibrate(&t, &status);
        out->status[i] = (uint8_t)status;
        if (fa_alloc_failed()) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

#endif
