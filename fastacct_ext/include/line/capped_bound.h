/* line/capped_bound.h -- what a job's capped windows bound without a line: the closed part, `put`, and Chernoff's bound
 * of the rest.
 *
 * For cells that no line certifies.  Any exponent and any windows are valid; K carries its error as in the ledger.
 */
#ifndef FA_LINE_CAPPED_BOUND_H
#define FA_LINE_CAPPED_BOUND_H

#include "capped_eps.h"

#define FA_CAP_LOOSE 1e-4 /* relative distance at which a search for an epsilon that is only bounded ends */

/* log of an upper bound of delta(eps); 0: nothing is known.  slope_out: its derivative, about */
FA_FUNC double fa_cap_upper(fa_cap_work *work, double eps, double *slope_out)
{
    fa_cap_job *job = &work->job;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_line *line = &work->line;
    fa_cap_plan plan = {.c = 1.0, .h = 1.0, .tilt = 1.0, .left = 1.0, .right = 1.0, .low = 1.0, .is_bare = 1};
    fa_cap_probes probes;
    fa_cap_saddle at;
    double ref, rate, rare, put, value;
    int i, least = 0;
    work->anchor = work->near = 0.0;
    work->certified = 0;
    if (!fa_cap_place_deep(job, &effort, eps, 0.0, &at))
        return 0.0;
    fa_cap_try_floor(job, eps, 0.0);
    fa_cap_probe(job, eps, &at, 0.0, 1, &probes);
    if (probes.n == 0)
        return 0.0;
    for (i = 1; i < probes.n; i++)
        least = probes.chernoff[i] < probes.chernoff[least] ? i : least;
    plan.c = plan.right = probes.v[least];
    line->plan = plan;
    line->eps = eps;
    line->ref = ref = at.log_size;
    line->n = line->made = 0;
    fa_cap_plan_blocks(job, &line->plan);
    if (!fa_cap_lay_nodes(job, line, &effort, 0.0))
        return 0.0;
    fa_cap_measure(job, line, 0.0, fa_cap_tilt(job, plan.right));
    put = fa_cap_put(job, line, eps, ref, &rate, &rare);
    value = fa_cap_closed_part(job, eps, ref).value + fa_cap_closed_error(job, eps, ref) + put + rare +
            1.001 * fa_cap_exp(fa_cap_log_weight(job, eps, ref, plan.right, 0));
    *slope_out = fa_min(at.slope, -1e-300);
    return value > 0.0 && value < INFINITY ? fa_min(0.0, ref + log(value) + 8.0 * FA_EPS * (4.0 + fabs(ref))) : 0.0;
}

/* an eps at which that bound is at most log_delta: Newton's method in log eps, between one where it is above and one
 * where it is not.  inf: none was found */
FA_FUNC double fa_cap_eps_upper(fa_cap_work *work, double log_delta)
{
    fa_cap_effort effort = fa_cap_usual_effort();
    double low = 0.0, high = INFINITY, eps = fa_cap_guess(&work->job, &effort, log_delta), slope = -1.0;
    int i;
    if (fa_cap_upper(work, 0.0, &slope) <= log_delta)
        return 0.0;
    for (i = 0; i < (work->job.mixtures ? 8 : 60) && !(high < INFINITY && high - low <= FA_CAP_LOOSE * high); i++) {
        double gap = fa_cap_upper(work, eps, &slope) - log_delta, next;
        if (gap <= 0.0) /* what is not a number proves nothing */
            high = eps;
        else
            low = eps;
        next = eps * exp(fa_max(-2.0, fa_min(2.0, -1.02 * gap / (slope * eps))));
        eps = next > low && next < high ? next : high < INFINITY ? sqrt(fa_max(low, 1e-6 * high) * high) : 4.0 * low;
        if (!(eps > 1e-300) || !(eps < 1e300))
            break;
    }
    return high;
}

#endif
