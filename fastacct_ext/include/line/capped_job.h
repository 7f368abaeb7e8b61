/* line/capped_job.h -- steps of the Poisson-sampled Gaussian, direction remove, and the windows that split delta(eps)
 * in three.
 *
 *   keep(z) = Phi((cap - z)/width): losses beyond the cap have weight 1 - keep.  Where one step alone exceeds eps by
 * what the others can take back, the payoff exp(S) - exp(eps) is linear and needs no integral:
 *
 *     delta = closed + put + sum on the line + floor part,    closed = [1 - B0(1)^T] - e^eps [1 - B0(0)^T],    B0(u) =
 * E_Q[exp(u L) keep]
 *
 *   0 <= put <= what S is below eps though a step is beyond the cap;  0 <= floor part <= Chernoff of the small losses.
 * docs/algorithms/line.md.
 */
#ifndef FA_LINE_CAPPED_JOB_H
#define FA_LINE_CAPPED_JOB_H

#include "window.h"

#define FA_CAP_DEPTH 7.5 /* standard widths between the losses that reach eps and the cap */

typedef struct {
    double sigma, q, steps;
    double kappa, log_odds, inv_var; /* log(1-q), log(q/(1-q)), 1/sigma^2 */
    double variance;                 /* steps q^2 (exp(1/sigma^2) - 1), about that of the sum */
} fa_cap_job;

typedef struct {
    double cap, width;   /* in z */
    double log_q, log_p; /* log J0 = log Q(beyond the cap), log of q P_1(beyond the cap), P_1 = N(1, sigma^2) */
    double q_mass, gain; /* J0, and J1 - J0 where J1 is the mass under the sampled mixture */
    double depth;        /* cap over the standard deviation of z + window: how far out J0 is */
    int has_floor;
    double floor, floor_width; /* small losses, z below the floor, are left to Chernoff's bound */
} fa_cap_windows;

typedef struct {
    double value, fall, error; /* over exp(ref): the closed part, -d/d eps of it, bound of its rounding */
} fa_cap_closed;

FA_FUNC void fa_cap_job_set(fa_cap_job *job, double sigma, double q, double steps)
{
    job->sigma = sigma;
    job->q = q;
    job->steps = steps;
    job->kappa = log1p(-q);
    job->log_odds = log(q) - job->kappa;
    job->inv_var = 1.0 / (sigma * sigma);
    job->variance = steps * q * q * expm1(fa_min(job->inv_var, 50.0));
}

/* The budget of work.  Every bound holds for any of these; they decide how narrow it is, and what it costs */
typedef struct {
    int points;       /* a line that needs more is given up ... */
    double pairs;     /* ... and one that needs more points times nodes */
    double tolerance; /* -log of the relative size of what aliases and the floor may add */
    double dead;      /* -log of |F| t, relative to delta, where the points may end */
    double need;      /* -log of the quadrature's relative error aimed at */
    double far;       /* factor on the first guess of where the points end */
    double cap_ratio; /* the cap's loss over the least loss that reaches eps: narrower edges need more nodes */
    double cap_back;  /* share of what the other steps may take back that the cap allows for */
    double left;      /* standard deviations of Q left of 0 where the nodes begin */
} fa_cap_effort;

#define FA_CAP_POINTS_MAX 16384

FA_INLINE fa_cap_effort fa_cap_usual_effort(void)
{
    fa_cap_effort out = {FA_CAP_POINTS_MAX, 1e7, 26.0, 32.0, 24.0, 1.0, 1.35, 1.0, 8.3};
    return out;
}

/* z where one step's loss is `loss` > log(1-q) */
FA_INLINE double fa_cap_z(const fa_cap_job *job, double loss)
{
    double l = loss - job->kappa;
    return job->sigma * job->sigma * ((l > 30.0 ? l : log(expm1(l))) - job->log_odds) + 0.5;
}

/* l(z) = loss - log(1-q) >= 0 */
FA_INLINE double fa_cap_l(const fa_cap_job *job, double z)
{
    double x = job->log_odds + (z - 0.5) * job->inv_var;
    return x > 30.0 ? x : log1p(exp(x));
}

/* 1 - exp(-l), dl/dz sigma^2: 0 where a record is hardly touched, 1 where it surely took part */
FA_INLINE double fa_cap_posterior(const fa_cap_job *job, double z) { return -expm1(-fa_cap_l(job, z)); }

/* a cap of this width whose window begins at z; 0 where there is none in doubles */
FA_FUNC int fa_cap_set_cap(const fa_cap_job *job, double z, double width, fa_cap_windows *w)
{
    double sd;
    w->width = width;
    w->cap = z + FA_CAP_DEPTH * width;
    w->has_floor = 0;
    if (!(w->width > 1e-12 * fabs(w->cap)) || !(w->cap < 1e100))
        return 0;
    sd = sqrt(job->sigma * job->sigma + w->width * w->width);
    w->depth = w->cap / sd;
    w->log_q = fa_log_tail(w->depth);
    w->log_p = log(job->q) + fa_log_tail((w->cap - 1.0) / sd);
    w->q_mass = exp(w->log_q);
    w->gain = exp(w->log_p) - job->q * w->q_mass;
    return w->gain >= 0.0;
}

/* the cap for eps; 0 where there is none */
FA_FUNC int fa_cap_place_cap(const fa_cap_job *job, const fa_cap_effort *effort, double eps, fa_cap_windows *w)
{
    double back = effort->cap_back * fa_min(8.0 * sqrt(job->variance) + 0.5 * job->variance, -job->steps * job->kappa),
           reach = eps + back, z_reach = fa_cap_z(job, reach),
           width = fa_min((fa_cap_z(job, effort->cap_ratio * reach) - z_reach) / FA_CAP_DEPTH, 0.5 * job->sigma);
    width = fa_min(width, 5.0 * job->sigma * job->sigma /
                              fa_max(z_reach, job->sigma)); /* else its left end outweighs the noise's */
    return fa_cap_set_cap(job, z_reach, width, w);
}

/* the closed part at eps.  With f(J) = 1 - (1-J)^T it is f(J1) - f(J0) - (e^eps - 1) f(J0), every term without
 * cancellation. rounding: J's own 8 (1 + depth^2) u, exponents, and the difference J1 - J0 */
FA_FUNC fa_cap_closed fa_cap_closed_part(const fa_cap_job *job, const fa_cap_windows *w, double eps, double ref)
{
    fa_cap_closed out = {0.0, 0.0, 0.0};
    double t = job->steps, log_t = log(t), first, log_f, lost, fine;
    if (!(w->log_p + log_t - ref > -60.0)) {
        out.error = 1e-25;
        return out;
    }
    lost = exp(log(job->q) + w->log_q - w->log_p);    /* q J0 over q P_1: what the difference takes away */
    if (fa_max(w->log_p, w->log_q) + log_t < -40.0) { /* f(J) = T J to the last digit */
        first = exp(w->log_p + log_t - ref) * (1.0 - lost);
        log_f = w->log_q + log_t;
    }
    else {
        first = exp(t * log1p(-w->q_mass) - ref) * -expm1(t * log1p(-w->gain / (1.0 - w->q_mass)));
        log_f = w->log_q < -600.0 ? w->log_q + log_t : log(-expm1(t * log1p(-w->q_mass)));
    }
    out.fall = exp(eps - ref + log_f);
    out.value = first - (eps > 40.0 ? out.fall : out.fall * -expm1(-eps));
    fine = 64.0 + 16.0 * w->depth * w->depth + 8.0 * (fabs(log(job->q)) + eps + fabs(ref) + log_t);
    out.error = FA_EPS * fine *
                (first * (1.0 + lost) / fa_max(1.0 - lost, 1e-6) * (1.0 + t * w->q_mass) +
                 out.fall * (1.0 + t * w->q_mass));
    return out;
}

#endif
