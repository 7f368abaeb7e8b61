/* density/panel.h -- what a panel of two densities adds to delta: the integral of (P - e^eps Q)_+, between bounds.
 *
 * Two Gauss rules, whose difference (ten times) is added to the error.  Panels are halved where the loss passes eps.
 * docs/algorithms/compiled.md says what is assumed of the densities.
 */
#ifndef FA_PANEL_H
#define FA_PANEL_H

#include <math.h>

#define FA_PANELS_DEEP  60 /* halvings that may wait */
#define FA_PANELS_MOST  4000
#define FA_PANEL_FACTOR 10.0

typedef double (*fa_function)(double);

/* Log-densities of P and Q and their loss (0: their difference); turned: Q against P.  The first n_rough of n points
 * are those of the lower rule. */
typedef struct {
    fa_function log_p, log_q, loss;
    int turned;
    double eps;
    int n, n_rough;
    const double *points, *weights;
} fa_densities;

/* One panel: masses of P and e^eps Q, bounds of their errors, and of the loss. */
typedef struct {
    double p, q, p_off, q_off, bottom, top;
} fa_masses;

/* the loss at a point, and both log-densities */
static inline double fa_loss_at(const fa_densities *d, double x, double *lp, double *lq)
{
    double p = d->log_p(x), q = d->log_q(x), loss = d->loss ? d->loss(x) : p - q;
    *lp = d->turned ? q : p;
    *lq = d->turned ? p : q;
    return d->turned ? -loss : loss;
}

/* what a loss just inside an end says of a singularity there */
static inline void fa_masses_end(const fa_densities *d, double x, fa_masses *at)
{
    double loss = d->loss ? d->loss(x) : d->log_p(x) - d->log_q(x);
    loss = d->turned ? -loss : loss;
    if (loss > at->top)
        at->top = INFINITY;
    if (loss < at->bottom)
        at->bottom = -INFINITY;
}

/* the panel [a, b]: masses in logarithms, and Q times e^eps, so that neither underflows where it matters */
static inline fa_masses fa_masses_of(const fa_densities *d, double a, double b)
{
    double middle = 0.5 * (a + b), half = 0.5 * (b - a), size = log(half), p_rough = 0.0, q_rough = 0.0, margin;
    fa_masses at = {.bottom = INFINITY, .top = -INFINITY};
    int i;
    for (i = 0; i < d->n; i++) {
        double lp, lq, loss = fa_loss_at(d, middle + half * d->points[i], &lp, &lq), w = d->weights[i];
        if (!isnan(loss)) {
            at.bottom = fmin(at.bottom, loss);
            at.top = fmax(at.top, loss);
        }
        *(i < d->n_rough ? &p_rough : &at.p) += w * exp(lp + size);
        *(i < d->n_rough ? &q_rough : &at.q) += w * exp(lq + size + d->eps);
    }
    margin = 0.15 * (at.top - at.bottom) + 1.8e-15 * fmax(fabs(at.top), fabs(at.bottom));
    if (isfinite(margin)) {
        at.bottom = at.bottom - margin;
        at.top = at.top + margin;
    }
    else if (at.bottom != at.top) { /* finite and infinite losses: nothing is known of their range */
        at.bottom = -INFINITY;
        at.top = INFINITY;
    }
    fa_masses_end(d, a + 1e-11 * half, &at);
    fa_masses_end(d, b - 1e-11 * half, &at);
    at.p_off = FA_PANEL_FACTOR * fabs(at.p - p_rough) +
               at.p * 1.2e-16 * (64.0 + 8.0 * fabs(size) + 4.0 * (at.p > 0.0 ? fabs(log(at.p)) : 0.0)) + 1e-320;
    at.q_off = FA_PANEL_FACTOR * fabs(at.q - q_rough) +
               at.q * 1.2e-16 * (64.0 + 8.0 * (fabs(size) + d->eps) + 4.0 * (at.q > 0.0 ? fabs(log(at.q)) : 0.0)) +
               1e-320;
    return at;
}

/* bounds of the integral over [low, high]; a piece that adds at most `good` is left as it is */
static inline void fa_excess_of_panel(const fa_densities *d, double low, double high, double good, double *lower_out,
                                      double *upper_out)
{
    double stack[2 * FA_PANELS_DEEP + 4], upper = 0.0, lower = 0.0;
    int depth = 1, used = 0;
    stack[0] = low;
    stack[1] = high;
    while (depth) {
        double a, b, middle, chord;
        fa_masses at;
        depth--;
        a = stack[2 * depth];
        b = stack[2 * depth + 1];
        middle = 0.5 * (a + b);
        at = fa_masses_of(d, a, b);
        used++;
        if (!(at.top > d->eps))
            continue;
        if (at.bottom > d->eps)
            upper += fmax(0.0, at.p + at.p_off - fmax(at.q - at.q_off, 0.0));
        else {
            chord = (at.p + at.p_off) * -expm1(fmin(d->eps - at.top, 0.0));
            if (chord > good && depth < FA_PANELS_DEEP && used < FA_PANELS_MOST &&
                0.5 * (b - a) > 1e-15 * fabs(middle)) {
                stack[2 * depth] = a;
                stack[2 * depth + 1] = stack[2 * depth + 2] = middle;
                stack[2 * depth + 3] = b;
                depth += 2;
                continue;
            }
            upper += chord;
        }
        lower += fmax(0.0, at.p - at.p_off - (at.q + at.q_off));
    }
    *lower_out = lower * (1.0 - 1e-14);
    *upper_out = upper * (1.0 + 1e-14);
}

#endif
