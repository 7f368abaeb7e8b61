/* line/capped_line.h -- a capped line: its nodes, and log F at its points.
 *
 *   F(t) = R(u) exp(-(u-1) eps)/(u (u-1)), u = c + i t,   R = B0^T - Bb^T = B0^T (-expm1(T log1p(-D/B0)))
 *
 *   B0 exp(-u mu) = 1 - J0 + u e1 + sum W (exp(u l) - 1 - u l),  l the loss less mu: second order in the losses, so
 * that many steps lose no digits D = B0 - Bb: large losses (above the floor), a sum of its own.  Without a floor R =
 * B0^T.
 */
#ifndef FA_LINE_CAPPED_LINE_H
#define FA_LINE_CAPPED_LINE_H

#include "capped_place.h"

#define FA_CAP_SYNC 128 /* points between fresh starts of the phasors; a multiple of FA_RUN */

/* bounds of quadrature errors: of the line's sum, of the large losses', of E_Q[exp(v l) keep] for v <= plan.right, of
 * the small losses' at plan.low, of the mean */
typedef struct {
    double line, large, right, low, mean;
} fa_cap_moduli;

typedef struct {
    fa_cap_windows w;
    fa_cap_plan plan;
    fa_cap_nodes nodes;
    fa_cap_moduli moduli;  /* set with the ledger */
    double eps, ref;       /* F is kept at eps, over exp(ref) */
    double strip, reach;   /* |Im xi| that the step was chosen for; Im u up to which the nodes are fine enough */
    int n, made, capacity; /* points read, points computed */
    double *log_f, *arg_f, *inverse; /* log |F|, its angle, 1/|B0 exp(-u mu)| */
    double *log_low, *ratio;         /* log of |B0| |Bb|^(T-1)/|u (u-1)| likewise, |D/B0|: with a floor */
    double *memory;
} fa_cap_line;

FA_FUNC void fa_cap_line_free(fa_cap_line *line)
{
    fa_cap_nodes_free(&line->nodes);
    free(line->memory);
    memset(line, 0, sizeof(*line));
}

FA_FUNC int fa_cap_reserve_points(fa_cap_line *line, int n)
{
    double **arrays[] = {&line->log_f, &line->arg_f, &line->inverse, &line->log_low, &line->ratio};
    double *memory;
    size_t c = 256, i;
    if (n <= line->capacity)
        return 1;
    while (c < (size_t)n)
        c *= 2;
    if (!(memory = fa_alloc(sizeof(double) * 5 * c)))
        return 0;
    for (i = 0; i < 5; i++) {
        if (line->made > 0)
            memcpy(memory + i * c, *arrays[i], sizeof(double) * (size_t)line->made);
        *arrays[i] = memory + i * c;
    }
    free(line->memory);
    line->memory = memory;
    line->capacity = (int)c;
    return 1;
}

/* about E_Q[|exp(u l)| keep] on Im xi = -eta at Im u = t/eta, without the Gaussian's growth; l counted from its tilted
 * mean m */
FA_FUNC double fa_cap_growth(const fa_cap_nodes *s, double c, double m, double t_eta, double stretch)
{
    const double *l = s->sum.lr, *w = s->sum.wr;
    double sum = 0.0;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++)
        sum += w[j] * fa_exp_plain_v(fa_min(600.0, c * (l[j] - m) + t_eta * fa_min(stretch, l[j] * (1.0 + l[j]))));
    return fa_max(sum, 1.0);
}

/* an edge between windows, for the step: its width in the loss, and the exponent that its quadrature needs */
typedef struct {
    double width, need, growth;
} fa_cap_rim;

FA_FUNC fa_cap_rim fa_cap_rim_at(const fa_cap_job *job, double z, double width, double v, double mean, double need,
                                 double most)
{
    fa_cap_rim out;
    double l = fa_cap_l(job, z), a = job->inv_var * fa_cap_posterior(job, z), turn = width * (v * a - z * job->inv_var);
    double weight = -0.5 * z * z * job->inv_var + v * (l - fa_max(mean, 0.0)) + log(width / job->sigma) +
                    0.5 * turn * turn;
    out.width = 0.9 * width * a;
    out.need = need + fa_min(weight, most);
    out.growth = 0.0;
    return out;
}

/* Step and stretch of the nodes for Im u up to t: the least number of nodes for which the quadrature's error is below
 * exp(-need), relative. A guess, checked by the ledger; returns the step */
FA_FUNC double fa_cap_step(const fa_cap_job *job, fa_cap_line *line, const fa_cap_nodes *coarse,
                           const fa_cap_effort *effort, double t, double z_low, double z_high, double *stretch_out)
{
    const fa_cap_windows *w = &line->w;
    const fa_cap_plan *plan = &line->plan;
    double c = plan->c, s2 = job->sigma * job->sigma, log_t = log(job->steps),
           mean = plan->d1 / job->steps - job->kappa, u2 = c * c + t * t, need, most, eta, best = INFINITY, h = 0.0, a;
    double ampl = plan->excess +
                  log(fa_min(0.5 * FA_PI * c * (c - 1.0) / (2.0 * c - 1.0),
                             1.0 / sqrt(2.0 * FA_PI * (plan->d2 + 1.0 / (c * c) + 1.0 / ((c - 1.0) * (c - 1.0))))));
    double l_end = fa_cap_l(job, z_high);
    fa_cap_rim cap, right, low = {INFINITY, 0.0, 0.0};
    int worse = 0;
    ampl = fa_max(0.0, ampl);
    need = effort->need + ampl + log(fa_max(1.0, fa_min(job->steps, 20.0 + 4.0 * plan->d2 * u2))) +
           (job->sigma > 3.0 ? 3.0 : 0.0);
    cap = fa_cap_rim_at(job, w->cap, w->width, c, mean, effort->need + ampl + log_t, 1.0);
    right = fa_cap_rim_at(job, w->cap, w->width, plan->right, mean, 11.0 + log_t, INFINITY); /* K at Chernoff's point */
    if (w->has_floor) {
        most = log(plan->jumps / job->steps);
        low = fa_cap_rim_at(job, w->floor, w->floor_width, c, mean,
                            effort->need + ampl + log(job->steps / expm1(fa_min(600.0, fa_max(plan->jumps, 1e-9)))),
                            most);
    }
    eta = line->strip = fa_min(1.5, sqrt(2.0 * need) / job->sigma);
    for (a = 1.0; a > 1e-6; a *= 0.7) {
        double e = need + 0.5 * s2 * eta * eta + log(fa_cap_growth(coarse, c, fa_max(mean, 0.0), t * eta, a)),
               knee = fa_min(fa_cap_z(job, a + job->kappa), z_high), nodes;
        double turn = a * eta / cap.width;
        e = fa_max(e, fa_max(cap.need + t * a * eta, right.need) + 0.5 * turn * turn);
        turn = a * eta / low.width;
        e = fa_max(e, low.need + t * a * eta + 0.5 * turn * turn);
        nodes = (fa_max(2.0, (knee - z_low) * job->inv_var) + l_end / a) * e / (2.0 * FA_PI * eta);
        if (nodes < best) {
            best = nodes;
            *stretch_out = a;
            h = 2.0 * FA_PI * eta / e;
            worse = 0;
        }
        else if (++worse > 2 && nodes > 1.5 * best)
            break;
    }
    return fa_min(h, 0.9);
}

/* mu = -E_Q[keep (e^L - 1 - L)], its rounding error, and the losses relative to it */
FA_FUNC void fa_cap_centre(const fa_cap_job *job, const fa_cap_windows *w, fa_cap_nodes *s)
{
    const double *log_w = s->sum.log_w, *weight = s->sum.wr, *z = s->z;
    double kappa = job->kappa, odds = fabs(job->log_odds), inv_var = job->inv_var, sum = 0.0, error = 0.0, shift,
           first = s->z[0] / job->sigma, *l = s->sum.lr;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum, error))
    for (j = 0; j < n; j++) {
        double loss = l[j] + kappa, e, tiny = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &e),
               size = loss + log_w[j];
        double big = size > -690.0 ? fa_exp_plain_v(size) : 0.0,
               value = loss < 1.0 ? weight[j] * tiny : big - weight[j] * (1.0 + loss), far = fabs(z[j]);
        double fine = 48.0 + 2.0 * far * far * inv_var +
                      far * (14.0 + 6.0 * (odds + far * inv_var + inv_var) + 2.0 * odds);
        sum += value;
        error += fabs(value) * fine + (loss < 1.0 ? weight[j] * fabs(e - 1.0) : big) * (9.0 * l[j] - 2.0 * kappa);
    }
    s->mean = -sum;
    s->mean_error = FA_EPS * (error + 64.0 * (w->gain + s->mean * w->q_mass)) +
                    0.5 * exp(-0.5 * first * first) * kappa * kappa;
    s->linear = s->mean * w->q_mass - w->gain;
    shift = kappa - s->mean;
    for (j = 0; j < n; j++)
        l[j] += shift;
}

/* start the large losses' phasors at u = c + i t, and advance both sums by FA_RUN points: E2 in re, im, D in large_re,
 * large_im */
FA_FUNC void fa_cap_start_large(fa_cap_nodes *s, double c, double t)
{
    const double *l = s->sum.lr, *log_w = s->sum.log_w, *above = s->above;
    double *vr = s->large_r, *vi = s->large_i;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd)
    for (j = s->lifted; j < n; j++) {
        double size = c * l[j] + log_w[j], co, si = fa_sincos_v(t * l[j], &co),
               e = size > -690.0 ? above[j] * fa_exp_plain_v(size) : 0.0;
        vr[j] = e * co;
        vi[j] = e * si;
    }
}

FA_FUNC void fa_cap_run_large(fa_cap_nodes *s, double *re_out, double *im_out)
{
    double sr[FA_RUN][FA_LANE] = {{0.0}}, si[FA_RUN][FA_LANE] = {{0.0}};
    int start, lane, k, n = s->sum.n;
    for (start = s->lifted; start < n; start += FA_LANE) {
        double *vr = s->large_r + start, *vi = s->large_i + start;
        const double *er = s->sum.er + start, *ei = s->sum.ei + start;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double a = vr[lane], b = vi[lane], c = er[lane], d = ei[lane], next;
#define FA_POINT(k)                                                                                                    \
    sr[k][lane] += a;                                                                                                  \
    si[k][lane] += b;                                                                                                  \
    next = FA_FMA(a, c, -b * d);                                                                                       \
    b = FA_FMA(a, d, b * c);                                                                                           \
    a = next;
            FA_POINT(0)
            FA_POINT(1)
            FA_POINT(2)
            FA_POINT(3)
            FA_POINT(4)
            FA_POINT(5)
            FA_POINT(6)
            FA_POINT(7)
#undef FA_POINT
            vr[lane] = a;
            vi[lane] = b;
        }
    }
    for (k = 0; k < FA_RUN; k++) {
        double re = 0.0, im = 0.0;
        for (lane = 0; lane < FA_LANE; lane++) {
            re += sr[k][lane];
            im += si[k][lane];
        }
        re_out[k] = re;
        im_out[k] = im;
    }
}

/* log F at points first .. first + FA_RUN - 1; they follow each other without gap */
FA_FUNC void fa_cap_points(const fa_cap_job *job, fa_cap_line *line, int first)
{
    fa_cap_nodes *s = &line->nodes;
    double re[FA_RUN], im[FA_RUN], lr_[FA_RUN], li_[FA_RUN], c = line->plan.c, h = line->plan.h, eps = line->eps,
                                                             ref = line->ref, steps = job->steps;
    double missing = line->w.q_mass, linear = s->linear, mean = s->mean, *log_f = line->log_f + first,
           *arg_f = line->arg_f + first;
    double *inverse = line->inverse + first, *log_low = line->log_low + first, *ratio = line->ratio + first;
    int i;
    if (first % FA_CAP_SYNC == 0) {
        fa_phasors(&s->sum, c, first * h, h);
        if (line->w.has_floor)
            fa_cap_start_large(s, c, first * h);
    }
    fa_phasor_run(&s->sum, re, im);
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_RUN; i++) {
        double t = (first + i) * h, x = re[i] - missing + c * linear, y = FA_FMA(t, linear, im[i]), li,
               lr = fa_clog1p_v(x, y, &li);
        re[i] = 1.0 + x;
        im[i] = y;
        log_f[i] = steps * FA_FMA(c, mean, lr) - (c - 1.0) * eps -
                   0.5 * (fa_log_v(c * c + t * t) + fa_log_v((c - 1.0) * (c - 1.0) + t * t)) - ref;
        arg_f[i] = steps * FA_FMA(t, mean, li) - t * eps - (fa_angle_v(t, c) + fa_angle_v(t, c - 1.0));
        inverse[i] = fa_exp_plain_v(-lr);
    }
    if (line->w.has_floor) {
        fa_cap_run_large(s, lr_, li_);
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_RUN; i++) { /* -expm1(T log1p(-D/B0)) */
            double a = re[i], b = im[i], over = 1.0 / (a * a + b * b), pr = -(lr_[i] * a + li_[i] * b) * over,
                   pi = -(li_[i] * a - lr_[i] * b) * over;
            double li, lr = fa_clog1p_v(pr, pi, &li), ei, er = fa_cexpm1_v(steps * lr, steps * li, &ei);
            ratio[i] = sqrt(pr * pr + pi * pi);
            log_low[i] = log_f[i] + (steps - 1.0) * lr;
            log_f[i] += 0.5 * fa_log_v(fa_max(er * er + ei * ei, 1e-290));
            arg_f[i] += fa_angle_v(-ei, -er);
        }
    }
    line->made = first + FA_RUN;
}

/* points until |F| t is dead.  1: done; 0: given up; 2: further than the nodes are made for, *t_out is where to */
FA_FUNC int fa_cap_run_points(const fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double *t_out)
{
    double h = line->plan.h, dead = -effort->dead, pairs = 0.0;
    int k, limit = effort->points,
           width = line->nodes.sum.n + (line->w.has_floor ? line->nodes.sum.n - line->nodes.lifted : 0);
    line->made = 0;
    for (k = 0; k + FA_RUN <= limit; k += FA_RUN) {
        double t = (k + FA_RUN - 1) * h, last, fell;
        if (!fa_cap_reserve_points(line, k + FA_RUN))
            return 0;
        fa_cap_points(job, line, k);
        pairs += FA_RUN * width;
        last = line->log_f[k + FA_RUN - 1];
        if (last + log(t + h) < dead && line->log_f[k + FA_RUN - 2] + log(t + h) < dead + 1.0) {
            k += FA_RUN;
            while (k > 2 && line->log_f[k - 2] + log(k * h) < dead)
                k--;
            line->n = k;
            return 1;
        }
        fell = line->log_f[0] - last;
        if (pairs > effort->pairs || (limit < FA_CAP_POINTS_MAX && (k == 24 || k == 56 || k == 120) &&
                                      (line->log_f[0] - dead + log(t + h)) * (k + FA_RUN) > 1.4 * limit * fell))
            return 0;
        if (t > line->reach * 1.001 + FA_RUN * h) {
            double slow = line->log_f[(k + FA_RUN) / 2] - last,
                   end = t * (1.0 + 0.5 * (last - dead + log(2.0 * t)) / fa_max(slow, 0.1));
            *t_out = fa_max(1.5 * line->reach, fa_min(1.4 * end, 3.0 * line->reach));
            return 2;
        }
    }
    return 0;
}

/* how far |F| is expected to reach in t */
FA_FUNC double fa_cap_guess_reach(const fa_cap_job *job, const fa_cap_line *line, const fa_cap_effort *effort,
                                  double dephase)
{
    const fa_cap_plan *p = &line->plan;
    double c = p->c, t = fa_max(1.3 * sqrt(60.0 / (p->d2 + 1.0 / (c * c) + 1.0 / ((c - 1.0) * (c - 1.0)))), 8.0 * p->h),
           eta, more;
    if (line->w.has_floor)
        t = fa_max(t, 8.0 / (line->w.floor_width * job->inv_var * fa_cap_posterior(job, line->w.floor)));
    t *= effort->far;
    eta = fa_min(1.5, 6.5 / job->sigma); /* more where it costs few nodes */
    more = fa_min(t, 0.1 * (22.0 / eta + 0.5 * job->sigma * job->sigma * eta));
    t = t + 16.0 * p->h < 2.0 * t ? fa_max(t + more, t + 16.0 * p->h) : t + more;
    if (effort->points < FA_CAP_POINTS_MAX)
        t = fa_max(t, fa_min(1.8 * dephase, (effort->points - 8) * p->h));
    return t;
}

/* nodes and points for the plan; coarse: the nodes it was made with.  0: given up */
FA_FUNC int fa_cap_evaluate(const fa_cap_job *job, fa_cap_line *line, const fa_cap_nodes *coarse,
                            const fa_cap_effort *effort, double dephase)
{
    double z_low = -effort->left * job->sigma, z_high = fa_cap_end(job, &line->w, line->plan.right), h, stretch = 1.0;
    int round, done;
    line->reach = fa_cap_guess_reach(job, line, effort, dephase);
    for (round = 0; round < 10; round++) {
        h = fa_cap_step(job, line, coarse, effort, line->reach, z_low, z_high, &stretch);
        if (!(h > 0.0) || !fa_cap_fill(job, &line->w, &line->nodes, h, stretch, z_low, z_high))
            return 0;
        fa_cap_bends(&line->nodes);
        if (line->w.has_floor)
            fa_cap_set_floor(&line->w, &line->nodes);
        else
            fa_cap_no_floor(&line->nodes);
        fa_cap_centre(job, &line->w, &line->nodes);
        done = fa_cap_run_points(job, line, effort, &line->reach);
        if (done < 2)
            return done;
    }
    return 0;
}

/* plan and evaluate a line for eps, delta about exp(log_size); with_floor: whether small losses may be left to
 * Chernoff's bound */
FA_FUNC int fa_cap_draw(const fa_cap_job *job, fa_cap_line *line, fa_cap_nodes *coarse, const fa_cap_saddle *at,
                        double eps, double log_size, int with_floor, const fa_cap_effort *effort, double dephase)
{
    fa_cap_plan *plan = &line->plan;
    fa_cap_probes probes;
    fa_cap_real r;
    double tol, size = log_size, next;
    int round;
    for (round = 0;; round++) {
        tol = size - effort->tolerance;
        line->w.has_floor = 0;
        plan->low = with_floor ? fa_cap_choose_floor(job, effort, &line->w, coarse, eps, tol, at) : 1.0;
        if (!with_floor)
            fa_cap_no_floor(coarse);
        fa_cap_probe(job, &line->w, coarse, eps, at, tol, &probes);
        if (!line->w.has_floor || round == 2)
            break;
        next = log(exp(probes.least - 0.5 * log(2.0 * FA_PI * at->curvature) - size) +
                   fa_max(fa_cap_closed_part(job, &line->w, eps, size).value, 0.0)) +
               size;
        if (!(next < size - (round ? 1.0 : 1.5))) /* the floor's tolerance is relative to what delta is without it */
            break;
        size = next;
    }
    line->eps = eps;
    line->ref = size;
    if (!probes.n || probes.least < tol) { /* the line adds nothing worth a sum: refused, another reader answers */
        return 0;
    }
    if (!fa_cap_choose_line(&line->w, &probes, eps, size, tol, plan))
        return 0;
    r = fa_cap_k(job, &line->w, coarse, plan->c, 0, 0.0);
    plan->d1 = r.d1;
    plan->d2 = r.d2;
    plan->jumps = r.jumps;
    if (effort->points < FA_CAP_POINTS_MAX && dephase > 0.8 * effort->points * plan->h)
        return 0;
    return fa_cap_evaluate(job, line, coarse, effort, dephase);
}

/* Im u where records that are hardly moved dephase, about: sqrt(2 * 32/variance of the small losses), less where large
 * ones are certain */
FA_FUNC double fa_cap_dephase(const fa_cap_job *job, const fa_cap_effort *effort, const fa_cap_nodes *coarse,
                              double eps, double v)
{
    const double *l = coarse->sum.lr, *w = coarse->sum.wr;
    double level = 0.05 * eps - job->kappa, all = 0.0, large = 0.0, m1 = 0.0, m2 = 0.0, jumps, variance;
    int j, n = coarse->sum.n;
    FA_PRAGMA(omp simd reduction(+ : all, large, m1, m2))
    for (j = 0; j < n; j++) {
        double f = w[j] * fa_exp_plain_v(fa_min(600.0, v * l[j])), in = l[j] <= level ? f : 0.0;
        all += f;
        large += f - in;
        m1 += in * l[j];
        m2 += in * l[j] * l[j];
    }
    all = fa_max(all, 1e-300);
    jumps = job->steps * large / all;
    variance = job->steps * (m2 / all - (m1 / all) * (m1 / all));
    return jumps < effort->tolerance + 1.0 ? sqrt(2.0 * (effort->dead - jumps) / fa_max(variance, 1e-300)) : 0.0;
}

/* the line for eps: first without a floor, as far as that is short */
FA_FUNC int fa_cap_evaluate_line(const fa_cap_job *job, fa_cap_line *line, fa_cap_nodes *coarse,
                                 const fa_cap_saddle *at, double eps, double log_size, fa_cap_effort effort,
                                 int *with_floor)
{
    double dephase;
    line->n = line->made = 0;
    effort.points = *with_floor ? FA_CAP_POINTS_MAX : 360;
    effort.pairs = *with_floor ? 1e7 : 1.5e5;
    if (!*with_floor) {
        dephase = fa_cap_dephase(job, &effort, coarse, eps, at->v);
        if (fa_cap_draw(job, line, coarse, at, eps, log_size, 0, &effort, dephase))
            return 1;
        line->n = 0;
        *with_floor = 1;
        effort.points = FA_CAP_POINTS_MAX;
        effort.pairs = 1e7;
    }
    if (fa_cap_draw(job, line, coarse, at, eps, log_size, 1, &effort, 0.0))
        return 1;
    line->n = 0;
    return 0;
}

#endif
