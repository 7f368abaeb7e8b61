/* density.c -- masses of densities in panels (density/panel.h), composed masses on a grid (density/window.h), and their
 * convolution (density/convolve.h); weights at any places (density/spread.h).
 */
#include <string.h>

#include "density/convolve.h"
#include "density/panel.h"
#include "density/spread.h"
#include "density/window.h"

static double apart;

static double log_p(double x) { return -0.5 * (x - apart) * (x - apart) - 0.91893853320467274178; }
static double log_q(double x) { return -0.5 * x * x - 0.91893853320467274178; }

/* bounds of the integral of (P - e^eps Q)_+ over [low, high], of normal distributions `distance` apart, by rules of 2
 * and 3 points: what may be left, and the points with their weights */
void excess(double distance, double low, double high, double eps, double good, double turned, const double *points,
            const double *weights, double *out)
{
    fa_densities d = {log_p, log_q, 0, turned != 0.0, eps, 5, 2, points, weights};
    apart = distance;
    fa_excess_of_panel(&d, low, high, good, out, out + 1);
}

/* bounds of delta at eps and of epsilon at delta, of n tilted masses whose sums from the right these are */
void window(double is_upper, double n, double first, double spacing, double infinite, double slack, double top,
            double tilt, double log_scale, double each_error, double norm_error, double below, double above,
            double log_moment, double place_error, double sum_error, double peak, double eps, double delta,
            const double *all_above, const double *gain_above, double *out)
{
    fa_window w = {is_upper != 0.0, (int64_t)n, all_above, gain_above, first,      spacing, infinite,
                   slack,           top,        tilt,      log_scale,  each_error, norm_error, below,
                   above,           log_moment, place_error, sum_error, peak};
    out[0] = fa_window_delta(&w, eps);
    out[1] = fa_window_epsilon(&w, delta);
}

/* masses of two lists, of 3 and of 4 */
void both(const double *a, const double *b, double *out) { fa_convolve(3, a, 4, b, out); }

/* three weights, of which the last counts `many` times, spread over 40 numbers: both parts of the sums */
void spread(double many, const double *place, const double *weight, double *out)
{
    int i, n = 40 + FA_SPREAD_ALL - 1;
    memset(out, 0, 2 * sizeof(double) * (size_t)n);
    for (i = 0; i < (int)many; i++)
        (void)fa_spread(i == 0 ? 3 : 1, place + (i == 0 ? 0 : 2), weight + (i == 0 ? 0 : 2), 40, out, out + n);
}
