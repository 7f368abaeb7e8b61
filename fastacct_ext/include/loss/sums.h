/* loss/sums.h -- the distribution of the mean of independent log-normal numbers, by doubling: no sum here cancels.
 *
 * X = exp(z), z normal with variance v = 1/sigma^2 and mean -v/2; L_n = log of the mean of n of them, with density f_n.
 *
 *   join      f_(n+m)(l) = integral over v of f_n(l + log(rise(v)/p)) f_m(l + log(rise(-v)/(1-p))), p = n/(n+m),
 *             rise(v) = 1/(1 + e^-v)
 *   smooth    L_n is a normal number of variance 1/g, g = n sigma^2, plus an independent one: |f_n(l + it)| is at most
 *             f_n(l) e^(g t^2/2), and log f_n + g l^2/2 is convex
 *
 * f_n is kept on a lattice, and taken between its points by sinc functions under a Gaussian, of f_n times an
 * exponential that makes it flat there.  docs/algorithms/allocation.md.
 */
#ifndef FA_LOSS_SUMS_H
#define FA_LOSS_SUMS_H

#include <string.h>

#include "../kernels.h"
#include "table.h"

#define FA_SUM_STEP   0.15   /* of the lattice times sqrt(g), at most */
#define FA_SUM_TAPS   30     /* points on each side */
#define FA_SUM_REACH  9.0    /* of the Gaussian over them, in deviations */
#ifndef FA_SUM_LEAST         /* tests starve both */
#define FA_SUM_LEAST 1e-250  /* densities that are kept, over the largest ... */
#define FA_SUM_RIGHT 1e-32   /* ... and on the right, times e^(6 l), but for ... */
#endif
#define FA_SUM_MORE   26.0   /* ... so many deviations of G beyond, for the window */
#define FA_SUM_BLOCK  16     /* points that are done at once */
#define FA_SUM_POINTS 48000  /* at most */
#define FA_SUM_ULPS   160.0  /* rounding of a join, with what interpolation makes of it, in u */
#define FA_SUM_ONE    10.0   /* and of a single number's density */
#define FA_SUM_GOOD   2e-15  /* what interpolation leaves out of a density, relative, that is counted so */

/* how many numbers, step, place of the first point; the density, and what interpolation needs: by how much its log
 * changes from point to point, and neighbours over it without that.  Errors: relative, and mass under P or Q that is
 * not there */
typedef struct {
    double count, step;
    int first, n, room;
    double *memory, *density, *turn, *taps; /* with a block of nothing on both sides */
    double relative, absolute;
} fa_sum;

FA_FUNC void fa_sum_free(fa_sum *s)
{
    free(s->memory);
    free(s->taps);
    memset(s, 0, sizeof(*s));
}

FA_INLINE double fa_sum_at(const fa_sum *s, int i) { return s->step * (s->first + i); }

/* 0: too many points, or no memory */
FA_FUNC int fa_sum_open(fa_sum *s, double count, double step, double low, double high)
{
    memset(s, 0, sizeof(*s));
    if (!(high - low < FA_SUM_POINTS * step))
        return 0;
    s->count = count;
    s->step = step;
    s->first = (int)ceil(low / step);
    s->n = (int)floor(high / step) - s->first + 1;
    s->room = s->n + 2 * FA_SUM_BLOCK;
    s->memory = s->n > 2 ? fa_alloc_zeroed(sizeof(double) * 2 * (size_t)s->room) : NULL;
    s->density = s->memory + FA_SUM_BLOCK;
    s->turn = s->density + s->room;
    return s->memory != NULL;
}

/* the largest step that is fine enough, a power of two times `unit` */
FA_FUNC double fa_sum_step(double g, double unit)
{
    return ldexp(unit, (int)floor(log2(FA_SUM_STEP / (sqrt(g) * unit))));
}

/* the largest number of three bits that is fine enough */
FA_FUNC double fa_sum_unit(double g)
{
    double whole = fa_sum_step(g, 1.0);
    return 0.25 * whole * floor(4.0 * FA_SUM_STEP / (sqrt(g) * whole));
}

/* keeps the points that count; what others have is lost */
FA_FUNC void fa_sum_trim(fa_sum *s, double sigma)
{
    double top = 0.0, lost = 0.0, more = FA_SUM_MORE / (sqrt(s->count) * sigma * s->step);
    int i, low = 0, high = s->n - 1, end;
    for (i = 0; i < s->n; i++)
        top = fa_max(top, s->density[i]);
    while (low < high && !(s->density[low] > FA_SUM_LEAST * top))
        low++;
    while (high > low && !(s->density[high] * exp(fa_max(0.0, 6.0 * fa_sum_at(s, high))) > FA_SUM_RIGHT * top))
        high--;
    for (end = high; high + 1 < s->n && high - end < more && s->density[high + 1] > FA_SUM_LEAST * top;)
        high++;
    for (i = 0; i < s->n; i++)
        if (i < low || i > high)
            lost += 2.0 * s->step * (s->density[i] + 1e-280) * exp(fa_max(0.0, fa_sum_at(s, i)));
    s->absolute += lost;
    memmove(s->density, s->density + low, sizeof(double) * (size_t)(high - low + 1));
    s->first += low;
    s->n = high - low + 1;
    memset(s->density + s->n, 0, sizeof(double) * (size_t)(s->room - s->n - FA_SUM_BLOCK));
}

/* neighbour m of points from `i` on, over their own densities and without the tilt */
FA_INLINE double *fa_sum_taps(const fa_sum *s, int m, int i)
{
    return s->taps + (size_t)(m + FA_SUM_TAPS - 1) * (size_t)s->room + FA_SUM_BLOCK + i;
}

/* one number.  z and z^2 have all digits: their rounding is taken apart */
FA_FUNC int fa_sum_one(double sigma, double step, fa_sum *s)
{
    double tau = 1.0 / sigma, mean = -0.5 * tau * tau, reach = 34.0;
    fa_dd left = fa_dd_div(fa_dd_make(0.5, 0.0), fa_dd_make(sigma, 0.0));
    int i;
    if (!fa_sum_open(s, 1.0, step, mean - reach * tau, mean + fa_min(37.0, reach + 16.0 * tau) * tau))
        return 0;
    for (i = 0; i < s->n; i++) {
        fa_dd z = fa_dd_add(fa_two_prod(fa_sum_at(s, i), sigma), left), square = fa_dd_mul(z, z);
        s->density[i] = exp(-0.5 * square.hi) * (1.0 - 0.5 * square.lo) * sigma * 0.39894228040143267794;
    }
    s->relative = FA_SUM_ONE * FA_EPS;
    fa_sum_trim(s, sigma);
    s->absolute += 1e-100;
    return 1;
}

/* log of the largest neighbour over density i, tilted, from m on for FA_SUM_TAPS/2 points */
FA_FUNC double fa_sum_far(const fa_sum *s, const double *log_f, int i, int m, int side)
{
    double most = -INFINITY;
    int k;
    for (k = m; k < m + FA_SUM_TAPS / 2; k++) {
        int j = i + side * k;
        if (j >= 0 && j < s->n)
            most = fa_max(most, log_f[j] - log_f[i] - s->turn[i] * side * k);
    }
    return most;
}

/* what interpolation right of point i leaves out, relative: the sum over all points is off by the integral of the
 * smooth function under the Gaussian times `rule`, and those that are not taken are left out */
FA_FUNC double fa_sum_misses(const fa_sum *s, const double *log_f, int i, double top, double rule, const double *under)
{
    double sum = 0.0, left = 0.0, down = *fa_sum_taps(s, -1, i);
    int m, side, far = 3 * FA_SUM_TAPS;
    for (m = -FA_SUM_TAPS + 1; m <= FA_SUM_TAPS; m++)
        sum += 2.0 * *fa_sum_taps(s, m, i) * under[m < 0 ? -m : m];
    for (side = -1; side < 2; side += 2)
        for (m = FA_SUM_TAPS; m < far; m += FA_SUM_TAPS / 2) { /* points beyond the taps are at least m away */
            double most = fa_sum_far(s, log_f, i, side > 0 ? m + 1 : m, side),
                   all = FA_SUM_TAPS / 2 * fa_exp_plain_v(most) * under[m + 1];
            left += all / (FA_PI * m);
            sum += 2.0 * all;
        }
    left += 100.0 * exp(top - log_f[i] + fabs(s->turn[i]) * (far + 1.0)) * under[far + 1];
    left += fabs(s->turn[i]) < 4.0 ? 0.0 : 1.0;
    return 1.1 * (rule * sum + left) * fmax(1.0, down);
}

/* what joins need of a distribution.  0: no memory */
FA_FUNC int fa_sum_prepare(fa_sum *s, double sigma)
{
    double g = s->count * sigma * sigma * s->step * s->step, wide = FA_SUM_TAPS / FA_SUM_REACH, top = -INFINITY, *log_f,
           under[3 * FA_SUM_TAPS + 2], stiff = g + 1.0 / (wide * wide),
           rule = exp(-0.5 * FA_PI * FA_PI / stiff) * 2.0 * stiff / (FA_PI * FA_PI);
    size_t room = (size_t)s->room;
    double good = 0.0;
    int i, m;
    s->taps = fa_alloc_zeroed(sizeof(double) * room * 2 * FA_SUM_TAPS);
    log_f = fa_alloc(sizeof(double) * room);
    if (!s->taps || !log_f) {
        free(log_f);
        return 0;
    }
    for (i = 0; i < s->n; i++) {
        log_f[i] = log(s->density[i]);
        top = fa_max(top, log_f[i]);
    }
    for (i = 0; i < s->n; i++) {
        int a = i > 0 ? i - 1 : 0, b = i + 1 < s->n ? i + 1 : s->n - 1;
        s->turn[i] = (log_f[b] - log_f[a]) / (b - a);
    }
    for (m = -FA_SUM_TAPS + 1; m <= FA_SUM_TAPS; m++) {
        double *row = fa_sum_taps(s, m, 0);
        int from = m < 0 ? -m : 0, to = m > 0 ? s->n - m : s->n;
        FA_PRAGMA(omp simd)
        for (i = from; i < to; i++)
            row[i] = s->density[i + m] / s->density[i] * fa_exp_plain_v(-s->turn[i] * m);
    }
    for (m = 0; m <= 3 * FA_SUM_TAPS + 1; m++) {
        double away = fmax(0.0, m - 1.0) / wide;
        under[m] = exp(-0.5 * away * away);
    }
    for (i = 0; i < s->n; i++) {
        double misses = fa_sum_misses(s, log_f, i, top, rule, under);
        if (misses <= FA_SUM_GOOD)
            good = fa_max(good, misses);
        else
            s->absolute += 2.0 * s->step * s->density[i] * fmax(1.0, exp(fa_sum_at(s, i))) * fmin(misses, 1e3);
    }
    s->relative += good;
    free(log_f);
    return 1;
}

#endif
