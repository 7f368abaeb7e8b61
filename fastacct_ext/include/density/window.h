/* density/window.h -- composed tilted masses on a grid, read at any epsilon or delta with every error on one side.
 *
 * fastacct/readers/grid/window.py says what is evaluated and makes the two sums from the right; docs/algorithms/grid.md
 * has the formula.  Each operation here adds a small multiple of 2^-53 for its rounding.
 */
#ifndef FA_WINDOW_H
#define FA_WINDOW_H

#include <math.h>
#include <stdint.h>

#define FA_WINDOW_ULP      0x1p-53
#define FA_WINDOW_NORMAL   0x1p-1022 /* what underflows is rounded up to this */
#define FA_WINDOW_UNSEEN   1e-300    /* what is too far to be seen from a point of the grid */
#define FA_WINDOW_TOGETHER 1e-14     /* relative error of the few geometric sums of which a sum of weights is made */
#define FA_WINDOW_TRIES    100

/* n masses from `first` on; the sums have n + 1 entries, the last one 0 */
typedef struct {
    int is_upper;
    int64_t n;
    const double *all_above, *gain_above;
    double first, spacing, infinite, slack, top, tilt, log_scale, each_error, norm_error, below, above, log_moment;
    double place_error, sum_error, peak;
} fa_window;

/* the sum of exp(-step k) over k < n */
static inline double fa_window_geometric(double step, double n)
{
    return step * n < 1e-300 ? n : expm1(-step * n) / expm1(-step);
}

/* what the errors of the last n masses add, with weights exp(-tilt y) (1 - near exp(-y)), from above */
static inline double fa_window_error(const fa_window *w, double n, double near)
{
    double t = w->tilt, h = w->spacing, once, twice, weights, squares, norm;
    if (w->each_error == 0.0)
        return 0.0;
    once = fa_window_geometric(t * h, n);
    twice = fa_window_geometric(2.0 * t * h, n);
    weights = once - near * fa_window_geometric((t + 1.0) * h, n) + FA_WINDOW_TOGETHER * once;
    squares = twice - near * (2.0 * fa_window_geometric((2.0 * t + 1.0) * h, n) -
                              near * fa_window_geometric((2.0 * t + 2.0) * h, n));
    norm = sqrt(fmax(squares, 0.0) + 4.0 * FA_WINDOW_TOGETHER * twice);
    return fmin(weights * w->each_error, norm * w->norm_error) * (1.0 + 1e-9);
}

/* an upper bound of delta from the log-moment alone, like that of Renyi DP */
static inline double fa_window_chernoff(const fa_window *w, double eps)
{
    double exponent = w->log_moment - w->tilt * eps;
    if (exponent < 700.0)
        exponent += 8.0 * FA_WINDOW_ULP * (fabs(exponent) + fabs(w->tilt * eps));
    return fmax(exp(fmin(exponent, 700.0)) * w->peak * (1.0 + 1e-12), FA_WINDOW_NORMAL);
}

/* part exp(log_scale - tilt x), rounded to the side of the bound; a part that counts against a lower one is rounded up
 */
static inline double fa_window_scaled(const fa_window *w, double part, double x)
{
    double exponent, off;
    if (part == 0.0)
        return 0.0;
    exponent = w->log_scale - w->tilt * x + log(fabs(part));
    off = 4.0 * FA_WINDOW_ULP * (fabs(w->log_scale) + fabs(w->tilt * x) + fabs(exponent) + 8.0);
    exponent += w->is_upper || part < 0.0 ? off : -off;
    return copysign(exp(fmin(exponent, 700.0)), part);
}

/* bound of what finite losses add to delta */
static inline double fa_window_finite(const fa_window *w, double eps)
{
    double sign = w->is_upper ? 1.0 : -1.0, k, at, rest, near, total, left_out, value;
    if (eps >= w->top + w->slack + 4.0 * FA_WINDOW_ULP * fabs(w->top))
        return 0.0;
    eps -= sign * (w->slack + (w->place_error + 8.0 * FA_WINDOW_ULP * fabs(eps)));
    k = fmin(fmax(ceil((eps - w->first) / w->spacing), 0.0), (double)w->n);
    at = w->first + w->spacing * k;
    near = exp(-fmax(at - eps, 0.0));
    rest = -expm1(-fmax(at - eps, 0.0));
    total = near * w->gain_above[(int64_t)k] + rest * w->all_above[(int64_t)k];
    total += w->is_upper && k < (double)w->n ? FA_WINDOW_UNSEEN : 0.0;
    total += sign * (fa_window_error(w, (double)w->n - k, near) +
                     total * (w->sum_error + 8.0 * FA_WINDOW_ULP * w->tilt * fabs(eps)));
    left_out = w->above + (!w->is_upper || eps < w->first ? w->below : 0.0);
    value = fa_window_scaled(w, total, at) + fa_window_scaled(w, sign * left_out * w->peak, eps);
    if (!w->is_upper)
        return fmax(value * (1.0 - 4.0 * FA_WINDOW_ULP), 0.0);
    return fmin(fmax(value * (1.0 + 4.0 * FA_WINDOW_ULP), FA_WINDOW_NORMAL), fa_window_chernoff(w, eps));
}

/* bound of delta */
static inline double fa_window_delta(const fa_window *w, double eps)
{
    double finite = fa_window_finite(w, eps), total = finite + w->infinite;
    if (finite != 0.0 && w->infinite != 0.0)
        total *= 1.0 + (w->is_upper ? 2.0 : -2.0) * FA_WINDOW_ULP;
    return fmin(1.0, total);
}

/* where finite losses add `finite` to delta, but for errors, and how fast its logarithm falls there */
static inline double fa_window_guess(const fa_window *w, double finite, double *slope_out)
{
    double rate = w->tilt * w->spacing, log_wanted = log(finite) - w->log_scale + w->tilt * w->first, wanted, some,
           rest;
    double d = 0.0;
    int64_t low = 0, high = w->n;
    while (low < high) { /* the first point with less than is wanted */
        int64_t middle = low + (high - low) / 2;
        if (rate * (double)middle - log(w->gain_above[middle]) < -log_wanted)
            low = middle + 1;
        else
            high = middle;
    }
    wanted = exp(fmin(fmax(log_wanted + rate * (double)low, -745.0), 700.0));
    /* delta = all_above - exp(-d) (all_above - gain_above) */
    some = w->all_above[low];
    rest = some - w->gain_above[low];
    if (some > wanted && rest > 0.0)
        d = -log((some - wanted) / rest);
    d = fmax(d, 0.0);
    *slope_out = wanted > 0.0 ? fmax((some - wanted) / wanted, 1e-3) : 1.0;
    return w->first + w->spacing * (double)low - (low ? fmin(d, w->spacing) : d) +
           (w->slack + w->place_error) * (w->is_upper ? 1.0 : -1.0);
}

/* Epsilons close together with delta(low) > delta >= delta(high), or low = 0, or high = top: the one on the side of the
 * bound. */
static inline double fa_window_crossing(const fa_window *w, double delta, double top)
{
    double low = 0.0, high = top, log_delta = log(delta), last_point = 0.0, last_error = 0.0, slope;
    double point = fa_window_guess(w, delta - w->infinite, &slope);
    int i;
    if (!(low < point && point < high))
        point = 0.5 * (low + high);
    for (i = 0; i < FA_WINDOW_TRIES; i++) {
        double value = point >= top ? w->infinite : fa_window_delta(w, point), error, step;
        if (value > delta)
            low = point;
        else
            high = point;
        if (high - low <= 1e-13 * high)
            break;
        error = (value > 0.0 ? log(value) : -750.0) - log_delta;
        if (i && last_point != point && (error - last_error) * (point - last_point) < 0.0)
            slope = (last_error - error) / (point - last_point);
        last_point = point;
        last_error = error;
        step = error / slope;
        /* past the root by a little: the other end of the bracket comes close, too */
        point += step + copysign(fmax(1e-3 * fabs(step), 3e-14 * point), step);
        if (!(low < point && point < high) || i % 8 == 7)
            point = 0.5 * (low + high);
    }
    return w->is_upper ? high : low;
}

/* bound of the smallest epsilon >= 0 with this delta */
static inline double fa_window_epsilon(const fa_window *w, double delta)
{
    double top = fmax(w->top + (w->is_upper ? 1.0 : -1.0) * (w->slack + 4.0 * FA_WINDOW_ULP * fabs(w->top)), 0.0);
    if (delta >= 1.0)
        return 0.0;
    if (w->infinite > delta)
        return INFINITY;
    if (w->infinite == delta)
        return top;
    if (w->is_upper && fa_window_delta(w, 0.0) <= delta)
        return 0.0;
    return fa_window_crossing(w, delta, top);
}

#endif
