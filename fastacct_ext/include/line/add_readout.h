/* line/add_readout.h -- direction add of few steps as the exact accountant reads it: the hyperbola, and the vertical
 * line beside it. */
#ifndef FA_ADD_READOUT_H
#define FA_ADD_READOUT_H

#include "contour_read.h"
#include "add_line.h"

#define FA_NARROW    1e-9 /* width, relative for eps, beyond which another way is tried */
#define FA_ADD_FIRST 12.0 /* up to this steps * sigma the hyperbola is cheaper, as measured */

/* whether the run is direction add of a few steps of one sampled Gaussian */
FA_INLINE int fa_few_added(const fa_contour *run)
{
    const fa_pair *m = &run->blocks[0].pair;
    if (run->sign > 0 || run->n_blocks != 1 || run->mu2 != 0.0)
        return 0;
    return run->total >= 2.0 && run->total <= FA_ADD_STEPS && m->sample_rate > 0.0 && m->sample_rate < 1.0;
}

/* whether the hyperbola is read first there */
FA_INLINE int fa_few_added_first(const fa_contour *run)
{
    return fa_few_added(run) && run->total * run->blocks[0].pair.sigma <= FA_ADD_FIRST;
}

/* whether an interval of log delta is narrow; -inf on both sides is not */
FA_INLINE int fa_is_narrow(fa_interval r) { return r.upper - r.lower <= FA_NARROW; }

/* log delta(eps) and its slope by the hyperbola; 0: nothing is known, *slope_out as it was */
FA_FUNC int fa_few_added_log_delta(fa_add_work *w, const fa_contour *run, double eps, fa_interval *out,
                                   double *slope_out)
{
    const fa_pair *m = &run->blocks[0].pair;
    return fa_add_log_delta(w, m->sigma, m->sample_rate, run->total, eps, out, slope_out);
}

/* eps at log_delta: by the hyperbola first where that is cheaper, elsewhere where the vertical line is not narrow */
FA_FUNC fa_interval fa_few_added_eps(fa_add_work *w, fa_contour *run, double log_delta, int points_max)
{
    const fa_pair *m = &run->blocks[0].pair;
    fa_interval r = {0.0, INFINITY}, d = r;
    int way, first = fa_few_added_first(run) ? 0 : 1;
    for (way = 0; way < 2 && !(r.upper < INFINITY && r.upper - r.lower <= FA_NARROW * r.upper); way++) {
        if (way != first)
            r = fa_share(r, fa_contour_eps(run, log_delta, points_max));
        else if (fa_add_eps(w, m->sigma, m->sample_rate, run->total, log_delta, &d))
            r = fa_share(r, d);
    }
    return r;
}

#endif
