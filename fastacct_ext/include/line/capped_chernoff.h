/* line/capped_chernoff.h -- K of a capped line at Chernoff's points, with a bound of its error added.
 */
#ifndef FA_LINE_CAPPED_CHERNOFF_H
#define FA_LINE_CAPPED_CHERNOFF_H

#include "capped_errors.h"

/* what ends E_Q[e^(vl) low] at the node where small losses are cut off: the trapezoid rule there */
FA_FUNC double fa_cap_low_end(const fa_cap_block *block, double v)
{
    const fa_cap_nodes *s = &block->nodes;
    int last = s->seen - 1;
    return (2.0 + 4.0 * block->strip / s->h) *
           exp(v * s->sum.lr[last] + s->sum.log_w[last] + fa_cap_log_low(block, s, last));
}

/* K at a Chernoff point on the nodes of the line, with a bound of its error added; large losses enlarged, for log(B0^T
 * - Bb^T).  Beyond the last node of a block that is split all losses are large */
FA_FUNC double fa_cap_chernoff(const fa_cap_job *job, double v, int small_only)
{
    double k = 0.5 * job->mu2 * v * (v - 1.0) * (1.0 + 8.0 * FA_EPS), none = 0.0;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_nodes *s = &block->nodes;
        double slop = 64.0 * FA_EPS * block->steps * (v + 1.0) * (fabs(s->mean) + fabs(block->kappa)),
               error = small_only ? block->moduli.low : block->moduli.right,
               x = small_only && job->walled ? v : fa_cap_tilt(job, v), real = small_only && block->split ? 1.0 : x;
        fa_cap_real r = fa_cap_block_k(block, s, x, small_only, 0.0);
        error += small_only && block->split && block->pair ? fa_cap_low_end(block, v) : 0.0;
        if (job->walled)
            error += fa_cap_plain_ends(block, real) + 1e-12 * r.one * (1.0 + fabs(r.k));
        else
            error += block->family->ends(block, real, v, 1) +
                     1e-12 * (fabs(expm1(r.k / block->steps - x * s->mean)) +
                              v * sqrt(fa_max(0.0, r.d2 / block->steps)));
        k += block->steps * (x * s->mean + (job->walled ? log(r.one + error) : log1p(r.rest + error))) + slop;
        if (block->split)
            none += block->steps * log1p(-fa_min(1.0, 1.25 * r.jumps / block->steps +
                                                          error / (job->walled ? r.one : 1.0)));
    }
    if (!small_only && job->has_floor)
        k += log(-expm1(none));
    return k;
}

/* walled: what the caps take from delta, over delta = exp(log_value).  Where the sum is below eta, so is every loss,
 * and its window is at least 1 - Phi(-x); and the payoff is at most 1 */
FA_FUNC double fa_cap_wall_lost(const fa_cap_job *job, double eps, double log_value)
{
    double lost = 0.0;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        double x = (block->w.cap - fa_cap_z(block, block->kappa - job->least - eps)) / block->w.width;
        lost += block->steps * exp(fa_log_tail(0.9999 * x));
    }
    return fa_min(lost < 0.1 ? 1.2 * lost : INFINITY, fa_cap_exp(job->lost.log_q - log_value));
}

#endif
