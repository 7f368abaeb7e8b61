/* line/capped_closed.h -- what a capped line leaves to closed forms: beyond the caps in direction remove, and next to
 * the wall in direction add of few steps.
 *
 * Such a job is `walled`: no loss is above its end, -least.  With S the sum of what every step brings beyond log(1-q)
 * and eta = -least - eps, delta = E_Q[(1 - e^(S - eta))_+]: small sums count, nearly in full.  Where every step is
 * below its floor the payoff is taken for 1 - e^(S - eta) without its end at 0, two products of tails; the line is of
 * the rest, and Chernoff's bound of what the payoff lacks (docs/algorithms/line.md, "Direction add of few steps").
 */
#ifndef FA_LINE_CAPPED_CLOSED_H
#define FA_LINE_CAPPED_CLOSED_H

#include "capped_job.h"

#define FA_WALL_CAP  1.15  /* over eta: the loss where a walled job's caps begin, and ... */
#define FA_WALL_WIDE 1.4   /* ... how many times that they are wide */
#define FA_WALL_FAR  300.0 /* square of the deviations from which on no wall is in sight */

/* what all blocks lose beyond their caps */
FA_FUNC void fa_cap_count_lost(fa_cap_job *job)
{
    fa_log_total p = {-INFINITY, 0.0}, q = p;
    fa_cap_lost lost = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    double top = -INFINITY;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_windows *w = &block->w;
        fa_add_log(&p, w->log_p + block->log_steps);
        fa_add_log(&q, w->log_q + block->log_steps);
        lost.gone += block->steps * log1p(-w->q_mass);
        lost.gains += block->steps * log1p(-w->gain / (1.0 - w->q_mass));
        lost.taken += block->steps * w->q_mass;
        top = fa_max(top, fa_max(w->log_p, w->log_q) + block->log_steps);
    }
    lost.log_p = fa_log_of_total(&p);
    lost.log_q = fa_log_of_total(&q);
    for (b = 0; b < job->n; b++) {
        fa_cap_windows *w = &job->blocks[b].w;
        w->share_p = exp(w->log_p + job->blocks[b].log_steps - lost.log_p);
        w->share_q = exp(w->log_q + job->blocks[b].log_steps - lost.log_q);
        lost.kept += w->share_p * (1.0 - w->lost);
    }
    if (top < -40.0) { /* f(J) = sum of n J to the last digit */
        lost.log_first = lost.log_p + log(lost.kept);
        lost.log_f = lost.log_q;
    }
    else {
        lost.log_first = lost.gone + log(-expm1(lost.gains));
        lost.log_f = lost.log_q < -600.0 ? lost.log_q : log(-expm1(lost.gone));
    }
    job->lost = lost;
}

typedef struct {
    double value, first, fall; /* over exp(ref): the closed part, f(J1) - f(J0), -d/d eps of all */
} fa_cap_closed;

/* whether the wall is as near as the deviations between it and the mean say */
FA_INLINE int fa_cap_sees_end(const fa_cap_job *job) { return job->least * job->least < FA_WALL_FAR * job->variance; }

/* z beyond which the chance of a step under Q, times e^eps, is nothing of delta = exp(log_size) */
FA_INLINE double fa_cap_nothing(const fa_cap_job *job, const fa_cap_block *block, double eps, double log_size)
{
    return block->sigma * sqrt(2.0 * (FA_CAP_NOTHING + eps + log(job->steps) - log_size));
}

/* the cap of a walled job: where the sum is below eta, so is every loss; or where nothing notices what is beyond.  0:
 * none in doubles */
FA_FUNC int fa_cap_begin_wall(const fa_cap_job *job, fa_cap_block *block, double eps)
{
    double eta = -job->least - eps, s = block->sigma, z = fa_cap_z(block, FA_WALL_CAP * eta + block->kappa), end;
    if (!fa_cap_sees_end(job)) /* a floor may lie beyond where nothing notices what is beyond */
        z = fa_min(z, fa_cap_nothing(job, block, 0.0, job->deepest));
    end = fa_cap_z(block, FA_WALL_WIDE * fa_cap_l(block, z) + block->kappa);
    block->walled = 1;
    block->deep = fa_max(0.0, -fa_cap_z(block, eta / job->steps + block->kappa));
    (void)fa_cap_set_cap(block, z, fa_min((end - z) / FA_CAP_DEPTH, fa_min(0.5 * s, 0.6 * s * s)));
    return block->w.width > 1e-12 * fabs(block->w.cap); /* what is beyond is not counted */
}

/* walled: the masses below the floors */
FA_FUNC void fa_cap_count_low(fa_cap_job *job)
{
    int b;
    job->low_q = job->low_p = 0.0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        fa_cap_windows *w = &block->w;
        double sd = sqrt(block->sigma * block->sigma + w->floor_width * w->floor_width);
        w->low_depth = w->floor / sd;
        w->low_q = fa_log_tail(-w->low_depth);
        w->low_more = exp(fa_mix_log_low(block->pair, w->floor, sd) - w->low_q);
        w->low_cut = 0.0;
        job->low_q += block->steps * w->low_q;
        job->low_p += block->steps * log1p(w->low_more);
    }
}

/* walled: over exp(ref), Q_low^n - e^(-eta) P_low^n */
FA_FUNC fa_cap_closed fa_cap_closed_low(const fa_cap_job *job, double eps, double ref)
{
    fa_cap_closed out = {0.0, 0.0, 0.0};
    double x = eps + job->least + job->low_p, size = job->low_q - ref;
    if (!job->has_floor || !(size > -60.0))
        return out;
    out.fall = exp(size + x);
    out.value = out.first = -exp(size) * expm1(x);
    return out;
}

/* Over exp(ref), what the closed part is off by since the floor's window stands there for its product with the cap's,
 * cut off.  Of one step that is at most Phi(-(cap - floor)/sqrt(width^2 + floor_width^2)) + low_cut under Q, and, P
 * being one, (1 - q) times that of e^l */
FA_FUNC double fa_cap_low_apart(const fa_cap_job *job, double eps, double ref)
{
    double x = eps + job->least + job->low_p, sum = 0.0;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_windows *w = &block->w;
        double gap = (w->cap - w->floor) / sqrt(w->width * w->width + w->floor_width * w->floor_width);
        sum += block->steps * fa_cap_exp(job->low_q - ref - w->low_q) * (exp(fa_log_tail(gap)) + w->low_cut) *
               (1.0 + exp(x - block->kappa) / (1.0 + w->low_more));
    }
    return sum * (1.0 + 1e-9);
}

/* bound of its error: that, and rounding, of tails 8 (1 + depth^2) u */
FA_FUNC double fa_cap_closed_low_error(const fa_cap_job *job, double eps, double ref)
{
    double x = eps + job->least + job->low_p, size = job->low_q - ref, a = 8.0 + fabs(ref) + fabs(job->low_q),
           c = 8.0 * (eps + fabs(job->least));
    int b;
    if (!job->has_floor || !(size > -60.0))
        return 1e-25;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_windows *w = &block->w;
        double n = block->steps, fine = 16.0 + 16.0 * w->low_depth * w->low_depth + 8.0 * block->inv_var;
        a += n * fine;
        c += n * (w->low_more * 2.0 * (fine + block->log_most) + 4.0 * log1p(w->low_more));
    }
    return 1e-25 + fa_cap_low_apart(job, eps, ref) + FA_EPS * exp(size) * (fabs(expm1(x)) * a + exp(x) * c);
}

/* the closed part at eps.  With f(J) = 1 - prod (1-J_b)^n_b it is f(J1) - f(J0) - (e^eps - 1) f(J0), every term without
 * cancellation */
FA_FUNC fa_cap_closed fa_cap_closed_part(const fa_cap_job *job, double eps, double ref)
{
    fa_cap_closed out = {0.0, 0.0, 0.0};
    const fa_cap_lost *all = &job->lost;
    if (job->walled)
        return fa_cap_closed_low(job, eps, ref);
    if (job->is_add || !(fa_max(all->log_p, all->log_f + eps) - ref > -60.0))
        return out;
    out.first = exp(all->log_first - ref);
    out.fall = exp(eps - ref + all->log_f);
    out.value = out.first - (eps > 40.0 ? out.fall : out.fall * -expm1(-eps));
    return out;
}

/* bound of its rounding: J's own 8 (1 + depth^2) u, exponents, and the difference J1 - J0, each block's by its share */
FA_FUNC double fa_cap_closed_error(const fa_cap_job *job, double eps, double ref)
{
    fa_cap_closed closed = fa_cap_closed_part(job, eps, ref);
    const fa_cap_lost *all = &job->lost;
    double error = 1e-25, fall = closed.first - closed.value,   /* (e^eps - 1) f(J0) */
        most = closed.fall > 0.0 ? exp(all->log_p - ref) : 0.0; /* at least f(J1) - f(J0) */
    int b;
    if (job->walled)
        return fa_cap_closed_low_error(job, eps, ref);
    for (b = 0; b < job->n; b++)
        if (!job->blocks[b].grows)
            error += fa_cap_exp(job->blocks[b].w.log_q + job->blocks[b].log_steps + eps - ref);
    for (b = 0; b < job->n && closed.fall > 0.0; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_windows *w = &block->w;
        double fine = 64.0 + 16.0 * w->depth * w->depth +
                      8.0 * (block->log_most + eps + fabs(ref) + fabs(all->log_first) + block->log_steps);
        double q_share = w->share_q * (fall + (job->n > 1 ? closed.first * all->taken : 0.0)),
               p_share = w->share_p * most * (1.0 + w->lost);
        error += FA_EPS * fine * (p_share * (1.0 + all->taken) + q_share * (1.0 + all->taken));
    }
    return error;
}

#endif
