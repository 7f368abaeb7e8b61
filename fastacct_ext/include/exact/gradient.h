/* exact/gradient.h -- derivatives of epsilon and of log delta of steps of one sampled Gaussian: which direction
 * decides, closed forms, and the lines' (line/gradient.h).
 */
#ifndef FA_EXACT_GRADIENT_H
#define FA_EXACT_GRADIENT_H

#include "../late.h"
#include "../line/gradient.h"
#include "exact_readout.h"

#define FA_GRADIENT_CLOSED                                                                                             \
    1e-11                       /* relative error of the closed forms, estimated: two tails may cancel to some digits */
#define FA_GRADIENT_STEPS 10.0  /* steps from which on there is a derivative by steps ... */
#define FA_GRADIENT_WHOLE 100.0 /* ... and from which on they need not be whole: docs/algorithms/line.md */
#define FA_GRADIENT_ROW   9     /* derivatives by sigma, q, steps and eps, their errors, and fa_decides */

/* which direction a derivative is of */
typedef enum { FA_DECIDES_BOTH, FA_DECIDES_REMOVE, FA_DECIDES_ADD } fa_decides;

/* the normal density at x, and Phi(-x), over exp(log_delta) */
FA_FUNC double fa_bell_over(double x, double log_delta) { return exp(-0.5 * x * x - FA_LOG_SQRT_2PI - log_delta); }
FA_FUNC double fa_tail_over(double x, double log_delta)
{
    double unused;
    return x < -8.0 ? 0.5 * erfc(x * FA_HALF_ROOT) * exp(-log_delta)
                    : fa_bell_over(x, log_delta) * fa_mills(x, &unused);
}

/* all records take part: delta = Phi(a) - e^eps Phi(a - mu), a = mu/2 - eps/mu.  By q from below, the direction's own:
 * one step less has a loss that is 1/sigma^2 smaller */
FA_FUNC void fa_gradient_gaussian(double sigma, double steps, int way, double eps, double log_delta, double *by)
{
    double mu = sqrt(steps) / sigma, a = 0.5 * mu - eps / mu, less = 1.0 / (sigma * sigma * mu), up = log_delta - eps,
           unused, bell = fa_bell_over(a, log_delta);
    by[FA_BY_SIGMA] = -bell * mu / sigma;
    by[FA_BY_STEPS] = 0.5 * bell * mu / steps;
    by[FA_BY_EPS] = -bell * fa_mills(mu - a, &unused);
    by[FA_BY_Q] = steps * (way ? fa_tail_over(mu - a - less, up) - fa_tail_over(mu - a, up)
                               : fa_tail_over(-a, log_delta) - fa_tail_over(less - a, log_delta));
}

/* one step: delta = q P_1(z > z*) - (e^eps - 1 + q) Q(z > z*) where the loss is eps at z*; direction add has z < z*, at
 * the loss -eps, and delta = (1 - (1-q) e^eps) Q - q e^eps P_1 */
FA_FUNC void fa_gradient_one_step(double sigma, double q, int way, double eps, double log_delta, double *by)
{
    double over = (way ? expm1(-eps) : expm1(eps)) + q, z = sigma * sigma * log(over / q) + 0.5,
           side = way ? -1.0 : 1.0, up = log_delta - eps, at = way ? up : log_delta, x = side * (z - 1.0) / sigma,
           at_p = fa_tail_over(x, at), at_q = fa_tail_over(side * z / sigma, at);
    by[FA_BY_SIGMA] = -q * fa_bell_over(x, at) / (sigma * sigma);
    by[FA_BY_Q] = side * (at_p - at_q);
    by[FA_BY_EPS] = way ? -(1.0 - q) * at_q - q * at_p : -fa_tail_over(side * z / sigma, up);
}

/* Derivatives of one direction.  By a line that stands, else by one drawn for eps.  target: where eps was searched, the
 * log delta that a line is to read, and `width` that of eps, else NaN, and of log delta.  0: none is certified */
FA_FUNC int fa_gradient_way(fa_exact *e, int way, double eps, double log_delta, double target, double width,
                            fa_gradient *out)
{
    fa_interval at = {-INFINITY, 0.0};
    fa_cap_work *capped = e->capped + way;
    double slope;
    int m, is_one = !e->only_gaussian && e->steps == 1.0;
    memset(out, 0, sizeof(*out));
    out->eps = eps;
    out->log_value = log_delta;
    if (e->only_gaussian)
        fa_gradient_gaussian(e->sigma, e->steps, way, eps, log_delta, out->by);
    else if (is_one)
        fa_gradient_one_step(e->sigma, e->q, way, eps, log_delta, out->by);
    else if (capped->certified)
        fa_gradient_capped(capped, eps, target, width, out);
    else {
        if (capped->job.n == 0 || !fa_cap_log_delta(capped, eps, 0.0, &at, &slope) || !capped->certified)
            return 0;
        fa_gradient_capped(capped, eps, NAN, at.upper - at.lower, out);
    }
    for (m = 0; m < FA_PARTIALS && (e->only_gaussian || is_one); m++)
        out->error[m] = FA_GRADIENT_CLOSED * fabs(out->by[m]);
    if (e->steps < FA_GRADIENT_STEPS && !e->only_gaussian)
        out->by[FA_BY_STEPS] = NAN;
    return 1;
}

/* eps of one direction at log_delta, or, where that is NaN, log delta at eps */
FA_FUNC fa_interval fa_gradient_answer(fa_exact *e, int way, double eps, double log_delta)
{
    return log_delta == log_delta ? fa_exact_eps_way(e, way, log_delta) : fa_exact_log_delta_way(e, way, eps);
}

/* which direction decides, and that answer */
FA_FUNC fa_decides fa_gradient_decide(fa_exact *e, double eps, double log_delta, fa_interval *out)
{
    int of_eps = log_delta == log_delta;
    fa_interval add;
    *out = fa_gradient_answer(e, e->directions == FA_WAYS_ADD, eps, log_delta);
    if (e->directions != FA_WAYS_BOTH)
        return e->directions == FA_WAYS_ADD ? FA_DECIDES_ADD : FA_DECIDES_REMOVE;
    if (e->symmetric || eps == 0.0)
        return FA_DECIDES_BOTH;
    if (of_eps ? out->upper < INFINITY && (out->upper == 0.0 || fa_add_is_below(e, out->upper, log_delta))
               : out->lower > -INFINITY && fa_add_is_below(e, eps, out->lower))
        return FA_DECIDES_REMOVE;
    add = fa_gradient_answer(e, 1, eps, log_delta);
    if (add.upper < out->lower || !(add.lower > out->upper))
        return add.upper < out->lower ? FA_DECIDES_REMOVE : FA_DECIDES_BOTH;
    *out = add;
    return FA_DECIDES_ADD;
}

/* the same number everywhere: 0 where nothing depends on anything, NaN where nothing is known, and `status` says why */
FA_FUNC int fa_gradient_plain(double value, int status, double *row)
{
    int m;
    for (m = 0; m < FA_PARTIALS; m++) {
        row[m] = value;
        row[FA_PARTIALS + m] = value == 0.0 ? 0.0 : INFINITY;
    }
    row[2 * FA_PARTIALS] = FA_DECIDES_BOTH;
    return status;
}

/* what needs no line: 1, and the status in *status_out */
FA_FUNC int fa_gradient_trivial(const fa_exact *e, double sigma, double target, int of_eps, double *row,
                                int *status_out)
{
    int nothing = sigma == INFINITY || !(e->q > 0.0) || !(e->steps > 0.0), is_one_way = e->directions == FA_WAYS_ADD;
    *status_out = fa_gradient_plain(0.0, FA_OK, row);
    if (of_eps &&
        (nothing || target >= 1.0 ||
         (sigma > 0.0 && target > 0.0 && fa_participation(e) <= log(target) - 4.0 * FA_EPS * (1.0 - log(target)))))
        return 1;
    if (of_eps && !(target > 0.0) && sigma > 0.0 && is_one_way && e->end[1] < INFINITY) { /* the largest loss */
        row[FA_BY_Q] = e->steps / (1.0 - e->q);
        row[FA_BY_STEPS] = -log1p(-e->q);
        row[FA_PARTIALS + FA_BY_Q] = 4.0 * FA_EPS * row[FA_BY_Q];
        row[FA_PARTIALS + FA_BY_STEPS] = 4.0 * FA_EPS * row[FA_BY_STEPS];
        row[2 * FA_PARTIALS] = FA_DECIDES_ADD;
        return 1;
    }
    *status_out = fa_gradient_plain(NAN, FA_NOT_MET, row);
    if (nothing || !(sigma > 0.0) || (of_eps ? !(target > 0.0) : target >= (is_one_way ? e->end[1] : INFINITY)))
        return 1;
    *status_out = FA_LOOSE;
    return e->q < 1.0 && e->steps < FA_GRADIENT_WHOLE && e->steps != floor(e->steps);
}

/* derivatives of eps at delta, or of log delta at eps, of the job that is set, and what needs no line has been seen */
FA_FUNC int fa_gradient_read(fa_exact *e, double target, int of_eps, double *row)
{
    double log_delta = of_eps ? log(target) : NAN, middle, slope, less;
    fa_gradient g, other;
    fa_interval r;
    fa_decides decides = fa_gradient_decide(e, of_eps ? NAN : target, log_delta, &r);
    int m, status = FA_OK;
    if (of_eps && r.upper == 0.0)
        return fa_gradient_plain(0.0, FA_OK, row);
    middle = 0.5 * (r.lower + r.upper);
    if (!(r.upper - r.lower <= FA_TIGHT * (of_eps ? r.upper : 1.0)) ||
        !fa_gradient_way(e, decides == FA_DECIDES_ADD, of_eps ? middle : target, of_eps ? log_delta : middle, log_delta,
                         r.upper - r.lower, &g))
        return fa_gradient_plain(NAN, FA_LOOSE, row);
    if (e->symmetric && decides == FA_DECIDES_BOTH) { /* q = 1: below it the larger direction falls least */
        (void)fa_gradient_way(e, 1, g.eps, g.log_value, log_delta, 0.0, &other);
        g.by[FA_BY_Q] = fa_min(g.by[FA_BY_Q], other.by[FA_BY_Q]);
    }
    slope = -g.by[FA_BY_EPS];
    less = g.error[FA_BY_EPS];
    for (m = 0; m < FA_PARTIALS; m++) {
        double by = of_eps ? g.by[m] / slope : g.by[m],
               error = of_eps ? (g.error[m] + fabs(by) * less) / fa_max(slope - less, 0.0) : g.error[m];
        row[m] = by;
        row[FA_PARTIALS + m] = by == by ? error : INFINITY;
        if (!(error <= FA_TIGHT * fabs(by)) && !(of_eps && m == FA_BY_EPS))
            status = FA_LOOSE;
    }
    row[2 * FA_PARTIALS] = decides;
    return status;
}

/* cells of sampled Gaussians: a row of derivatives and a status for each */
static int64_t fa_gradient_block(const fa_cells *in, const fa_question *ask, double seconds, double *row,
                                 uint8_t *status_out)
{
    fa_exact e;
    double end = fa_end_of(seconds);
    int of_eps = ask->quantity == FA_GIVE_EPSILON, status;
    int64_t i;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, (int)ask->ways))
        return FA_NO_MEMORY;
    for (i = 0; i < in->n && !fa_is_late(i, end); i++, row += FA_GRADIENT_ROW) {
        fa_exact_set(&e, in->sigma[i], in->q[i], in->steps[i]);
        if (!fa_gradient_trivial(&e, in->sigma[i], in->target[i], of_eps, row, &status))
            status = fa_gradient_read(&e, in->target[i], of_eps, row);
        status_out[i] = (uint8_t)status;
        if (fa_alloc_failed()) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

#endif
