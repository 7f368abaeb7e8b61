/* line/capped_floor.h -- floors: below them small losses are left to Chernoff's bound, or next to the wall to a closed
 * form.
 */
#ifndef FA_LINE_CAPPED_FLOOR_H
#define FA_LINE_CAPPED_FLOOR_H

#include "capped_place.h"

#define FA_FLOOR_PART  0.2  /* of the range of means, at least, that decides how wide a floor's window is, ... */
#define FA_FLOOR_SHARP 0.1  /* ... where it is less than so many standard deviations, and up to these */
#define FA_PIECES_ROOM 12.0 /* widths between a floor and losses near 0, of losses that are data */
#define FA_WALL_FEW    3.0  /* steps times noise up to which a walled job has a floor at once */
#define FA_WALL_APART  20.0 /* what floors next to the caps may cost, over what is left out below them */

/* what one step has to bring beyond log(1-q) so that the sum reaches eps, all others being at log(1-q): of that a floor
 * is a share.  Counted from log(1-q), since near eps = 0 small losses are far below 0 */
FA_INLINE double fa_cap_lift(const fa_cap_job *job, double eps)
{
    double least = -job->least;
    if (job->data > 0) /* what falls without end takes back about this */
        least = fa_min(least, 8.0 * sqrt(job->variance) + 0.5 * job->variance);
    return eps + 0.5 * job->mu2 + least;
}

/* width of a floor's window, about 0.35 in the loss: a mixture's unit of length is the widest range of its means, of
 * which those of the losses there may be a small part */
FA_INLINE double fa_cap_floor_width(const fa_cap_block *block, double floor)
{
    double s = block->sigma, width = 0.35 * s * s;
    if (block->pair->n_p > 1 && width < FA_FLOOR_SHARP * s)
        width = fa_min(width / fa_max(FA_FLOOR_PART, fa_cap_posterior(block, floor)), FA_FLOOR_SHARP * s);
    return width;
}

/* floors where a step brings `ratio` times what has to be brought, or none (ratio = 0) */
FA_FUNC void fa_cap_try_floor(fa_cap_job *job, double eps, double ratio)
{
    double lift = fa_cap_lift(job, eps);
    int b;
    job->has_floor = ratio > 0.0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        fa_cap_windows *w = &block->w;
        block->share_at = NAN;
        if (job->has_floor && !block->may_split) { /* all its losses are small */
            fa_cap_no_floor(&block->coarse);
            memcpy(block->coarse.small, block->coarse.sum.wr, sizeof(double) * (size_t)block->coarse.sum.n);
            w->floor = w->cap;
            w->floor_width = w->width;
        }
        else if (job->has_floor) {
            w->floor = fa_cap_z(block, ratio * lift + block->kappa);
            w->floor_width = fa_min((fa_cap_z(block, lift + block->kappa) - w->floor) / 7.0,
                                    block->pair ? fa_cap_floor_width(block, w->floor) : ratio * lift / FA_PIECES_ROOM);
            fa_cap_set_floor(block, &block->coarse);
        }
        else
            fa_cap_no_floor(&block->coarse);
    }
}

/* how often exp(-x) the share of prod B0^T at v is that no large loss has a part in: x = -T log(1 - p), p the tilted
 * chance of one */
FA_INLINE double fa_cap_certain(const fa_cap_block *block, double jumps)
{
    return -block->steps * log1p(-fa_min(jumps / block->steps, 1.0 - FA_EPS));
}

FA_FUNC double fa_cap_all_certain(const fa_cap_job *job, double v)
{
    double sum = 0.0;
    int b;
    for (b = 0; b < job->n; b++)
        sum += fa_cap_certain(job->blocks + b,
                              fa_cap_block_k(job->blocks + b, &job->blocks[b].coarse, v, 0, 0.0).jumps);
    return sum;
}

/* coarse nodes of losses that are data again, which see the floor as it is: others may not at the exponent `steep`.  0:
 * there are none */
FA_FUNC int fa_cap_see_floor(fa_cap_job *job, double v, double steep)
{
    int b, any = 0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        if (block->pieces && block->may_split)
            any |= fa_pieces_lay_real(block, &block->coarse, 1.0 - 3.0 * v, 3.0 * v, steep);
    }
    return any;
}

/* Without a floor a line is as long as the records that hardly move take to dephase.  Choose the highest floor below
 * which Chernoff's bound of the small losses is negligible; none where every sum of interest has many large losses.
 * Returns Chernoff's point, 1 without a floor.  is_fine: the nodes are for such a floor */
FA_FUNC double fa_cap_choose_floor(fa_cap_job *job, const fa_cap_effort *effort, double eps, double log_tol,
                                   const fa_cap_saddle *at, int is_fine)
{
    static const double ratios[] = {0.62, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03, 0.015, 0.007, 0.003};
    int low = 0, high = (int)(sizeof(ratios) / sizeof(*ratios)), count = high, b;
    double point = 1.0, jumps;
    if (!(fa_cap_lift(job, eps) > 0.0)) { /* the others at their least reach eps by themselves */
        fa_cap_try_floor(job, eps, 0.0);
        return 1.0;
    }
    for (b = 0; b < job->n; b++)
        fa_cap_hard_floor(&job->blocks[b].coarse, 0.05 * fa_cap_lift(job, eps));
    jumps = fa_cap_all_certain(job, at->v);
    job->has_floor = 0;
    while (jumps < effort->tolerance + 1.0 && low < high) {
        int mid = (low + high) / 2;
        fa_cap_saddle small;
        fa_cap_try_floor(job, eps, ratios[mid]);
        small = fa_cap_find_saddle(job, eps, at->v, 1);
        if (small.k + fa_log_b(small.v) - (small.v - 1.0) * eps < log_tol) {
            high = mid;
            point = small.v;
        }
        else
            low = mid + 1;
    }
    if (high < count && jumps < effort->tolerance + 1.0) {
        fa_cap_try_floor(job, eps, ratios[high]);
        if (!is_fine && fa_cap_see_floor(job, at->v, point))
            return fa_cap_choose_floor(job, effort, eps, log_tol, at, 1);
        jumps = fa_cap_all_certain(job, at->v);
        if (jumps < effort->tolerance + 1.0)
            return point;
    }
    fa_cap_try_floor(job, eps, 0.0);
    return 1.0;
}

/* walled: the least log B(v) E_Q[e^(v l) low]^n e^(v eps) over v > 1, from *v_out on (by Newton's method in
 * log(v - 1)), until one is below `enough`: it bounds what the payoff lacks below the floors */
FA_FUNC double fa_cap_low_rest(const fa_cap_job *job, double eps, double enough, double *v_out)
{
    double x = log(*v_out > 1.0 ? *v_out - 1.0 : 30.0 / (-job->least - eps)), best = INFINITY;
    int i, b;
    for (i = 0; i < 14 && !(best < enough); i++) {
        double v = 1.0 + exp(x), k = 0.0, d1 = 0.0, d2 = 0.0, value, step;
        for (b = 0; b < job->n; b++) {
            fa_cap_real r = fa_cap_block_k(job->blocks + b, &job->blocks[b].coarse, v, 1, 0.0);
            k += r.k;
            d1 += r.d1;
            d2 += r.d2;
        }
        if (!(k < 1e300) || !(d2 < 1e300)) {
            x -= 1.0;
            continue;
        }
        value = k + fa_log_b(v) + v * eps;
        if (value < best) {
            best = value;
            *v_out = v;
        }
        step = -(d1 + eps + log((v - 1.0) / v)) / ((d2 + 1.0 / (v * (v - 1.0))) * (v - 1.0));
        if (fabs(step) < 0.02)
            break;
        x += fa_max(-1.5, fa_min(1.5, step));
    }
    return best;
}

/* walled: floors where a step brings `ratio` of eta, with windows `wide` sigma^2 wide, or about the noise */
FA_FUNC void fa_cap_set_low(fa_cap_job *job, double eps, double ratio, double wide)
{
    int b;
    job->has_floor = 1;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        block->w.floor = fa_cap_z(block, ratio * (-job->least - eps) + block->kappa);
        block->w.floor_width = fa_min(wide * block->sigma, 0.7) * block->sigma;
        fa_cap_set_floor(block, &block->coarse);
    }
    fa_cap_count_low(job);
}

/* whether a line without a floor is not worth a try */
FA_INLINE int fa_cap_is_near_wall(const fa_cap_job *job)
{
    double sigma = 0.0;
    int b;
    for (b = 0; b < job->n; b++)
        sigma = fa_max(sigma, job->blocks[b].sigma);
    return job->walled && job->steps * sigma <= FA_WALL_FEW;
}

/* walled: the highest floor below which what is left out is negligible.  Two steps have a shorter line where the window
 * is narrower.  Returns Chernoff's point, 1 without a floor */
FA_FUNC double fa_cap_choose_low(fa_cap_job *job, double eps, double log_tol)
{
    double wide = job->steps < 3.0 ? 0.2 : 0.28, x = log(job->steps < 3.0 ? 0.19 : 0.12), low = -INFINITY,
           high = INFINITY, point = 1.0;
    int i;
    for (i = 0; i < 12 && high - low > 0.1; i++) {
        double v = point;
        fa_cap_set_low(job, eps, exp(x), wide);
        if (fa_cap_low_apart(job, eps, log_tol) < FA_WALL_APART && fa_cap_low_rest(job, eps, log_tol, &v) < log_tol) {
            low = x;
            point = v;
            x = high < INFINITY ? 0.5 * (low + high) : x + 0.15;
        }
        else {
            high = x;
            x = low > -INFINITY ? 0.5 * (low + high) : x - (i ? 0.5 : 0.15);
        }
    }
    if (low > -INFINITY)
        fa_cap_set_low(job, eps, exp(low), wide);
    else
        fa_cap_try_floor(job, eps, 0.0);
    return point;
}

/* walled: fa_cap_place_delta by Newton's method in log eta, eta = -least - eps */
FA_FUNC int fa_cap_place_wall(fa_cap_job *job, const fa_cap_effort *effort, double log_delta, double *eps_out,
                              fa_cap_saddle *at)
{
    const fa_cap_block *block = job->blocks;
    double end = -job->least, top = log(end * (1.0 - 1e-9)), low = -INFINITY, high = top,
           x = log(job->steps * fa_cap_l(block, -block->sigma * sqrt(-2.0 * log_delta / job->steps)));
    int i;
    for (i = 0; i < 30; i++) {
        double gap, eta;
        x = fa_max(fa_min(x, top), top - 28.0); /* nearer to the wall eps has too few digits */
        *eps_out = fa_max(end - exp(x), 1e-9 * end);
        eta = end - *eps_out;
        if (!fa_cap_place(job, effort, *eps_out, i ? at->v : 1.0 + 5.0 / eta, at))
            return 0;
        gap = at->log_size - log_delta;
        if (fabs(gap) < 0.3 || (gap < 0.0 && x >= top))
            break;
        *(gap > 0.0 ? &high : &low) = x;
        x += fa_max(-3.0, fa_min(3.0, -gap / fa_max(-at->slope * eta, 0.3)));
        if (!(x > low && x < high) && low > -INFINITY && high < top)
            x = 0.5 * (low + high);
    }
    return 1;
}

#endif
