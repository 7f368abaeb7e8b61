/* loss/sums.h -- the distribution of the mean of independent log-normal numbers, by doubling: no sum here cancels.
 *
 * X = exp(z), z normal with variance v = 1/sigma^2 and mean -v/2; L_n = log of the mean of n of them, with density f_n.
 *
 *   join      f_(n+m)(l) = integral over v of f_n(l + log(rise(v)/p)) f_m(l + log(rise(-v)/(1-p))), p = n/(n+m),
 *             rise(v) = 1/(1 + e^-v)
 *   smooth    L_n is a normal number of variance 1/g, g = n sigma^2, plus an independent one: |f_n(l + it)| is at most
 *             f_n(l) e^(g t^2/2), and log f_n + g l^2/2 is convex
 *
 * f_n is kept on a lattice, and taken between its points by the polynomial through 24 of them, of f_n times an
 * exponential that makes it flat there.  docs/algorithms/allocation.md.
 */
#ifndef FA_LOSS_SUMS_H
#define FA_LOSS_SUMS_H

#include <string.h>

#include "../kernels.h"
#include "table.h"

#define FA_SUM_STEP   0.15   /* of the lattice times sqrt(g), at most */
#define FA_SUM_TAPS   12     /* points on each side */
#ifndef FA_SUM_LEAST         /* tests starve both */
#define FA_SUM_LEAST 1e-250  /* densities that are kept, over the largest ... */
#define FA_SUM_RIGHT 1e-32   /* ... and on the right, times e^(6 l), but for ... */
#endif
#define FA_SUM_MORE   26.0   /* ... so many deviations of G beyond, for the window */
#define FA_SUM_BLOCK  16     /* points that are done at once */
#define FA_SUM_POINTS 48000  /* at most */
#define FA_SUM_WIDE   30     /* points on each side that bound what interpolation leaves out */
#define FA_SUM_PAD    48     /* points of nothing on both sides */
#define FA_SUM_ULPS   160.0  /* rounding of a join, with what interpolation makes of it, in u */
#define FA_SUM_FLAT   6.0    /* sizes of an interpolation's terms and of what it is for, of which that is so; ... */
#define FA_SUM_TURN   8.0    /* tilt, at most */
#define FA_SUM_READ   20.0   /* ... of others, over these sizes */
#define FA_SUM_ONE    10.0   /* and of a single number's density */
#define FA_SUM_GOOD   2e-15  /* what interpolation leaves out of a density, relative, that is counted so */

/* how many numbers, step, place of the first point; the density, by how much its log changes from point to point; that
 * over eight points, which rounding far right turns little, and e to it.  Errors: relative, and mass under P or Q that
 * is not there */
typedef struct {
    double count, step;
    int first, n, room;
    double *memory, *density, *turn, *tilt, *rise; /* with nothing on both sides */
    double relative, absolute;
} fa_sum;

FA_FUNC void fa_sum_free(fa_sum *s)
{
    free(s->memory);
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
    s->room = s->n + 2 * FA_SUM_PAD;
    s->memory = s->n > 2 ? fa_alloc_zeroed(sizeof(double) * 4 * (size_t)s->room) : NULL;
    s->density = s->memory + FA_SUM_PAD;
    s->turn = s->density + s->room;
    s->tilt = s->turn + s->room;
    s->rise = s->tilt + s->room;
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
    memset(s->density + s->n, 0, sizeof(double) * (size_t)(s->room - s->n - FA_SUM_PAD));
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

/* weights of neighbours for a place between two points: Lagrange's.  Of both kinds of factors only the first loses
 * digits, and it is near 1 */
FA_FUNC void fa_sum_weights(double at, double *out)
{
    double both = at * (1.0 - at), more = 0.0, c = 1.0;
    int m;
    for (m = 1; m < FA_SUM_TAPS; m++) {
        double part = both / (m * (m + 1.0));
        more = FA_FMA(more, part, more + part);
    }
    out[FA_SUM_TAPS - 1] = (1.0 - at) * (1.0 + more);
    out[FA_SUM_TAPS] = at * (1.0 + more);
    both *= 1.0 + more;
    for (m = 2; m <= FA_SUM_TAPS; m++) {
        c *= (m - 1.0 - FA_SUM_TAPS) / (FA_SUM_TAPS - 1.0 + m);
        out[m + FA_SUM_TAPS - 1] = both * c / (m - at);
        out[FA_SUM_TAPS - m] = both * c / (m - 1.0 + at);
    }
}

/* the density between points, a block of them, over e^tilt to the power of the place, whose log is the answer.  Far
 * neighbours come first: their sums are small */
FA_FUNC double fa_sum_read(const fa_sum *s, int i, const double *weights, double *out)
{
    double sum[FA_SUM_BLOCK] = {0.0}, more[FA_SUM_BLOCK] = {0.0}, tilted[2 * FA_SUM_TAPS];
    int m, k, mid = i + FA_SUM_BLOCK / 2, from = i < 0 ? -i : 0, to = s->n - 1 - i;
    mid = mid < 0 ? 0 : mid < s->n ? mid : s->n - 1;
    double r = s->rise[mid], f = 1.0 / r, up[4] = {1.0, r, r * r, r * r * r}, r4 = up[2] * up[2],
           down[4] = {f, f * f, f * f * f, f * f * (f * f)}, f4 = down[3];
    for (m = 0; m < FA_SUM_TAPS; m += 4)
        for (k = 0; k < 4; k++) {
            tilted[FA_SUM_TAPS + m + k] = weights[FA_SUM_TAPS + m + k] * down[k];
            tilted[FA_SUM_TAPS - 1 - m - k] = weights[FA_SUM_TAPS - 1 - m - k] * up[k];
            down[k] *= f4;
            up[k] *= r4;
        }
    for (m = FA_SUM_TAPS; m > 0; m--) {
        const double *right = s->density + i + m, *left = s->density + i + 1 - m;
        double w = tilted[m + FA_SUM_TAPS - 1], v = tilted[FA_SUM_TAPS - m];
        FA_PRAGMA(omp simd)
        for (k = 0; k < FA_SUM_BLOCK; k++) {
            sum[k] = FA_FMA(w, right[k], sum[k]);
            more[k] = FA_FMA(v, left[k], more[k]);
        }
    }
    for (k = 0; k < FA_SUM_BLOCK; k++)
        out[k] = k < from || k >= to ? 0.0 : sum[k] + more[k];
    return s->tilt[mid];
}

/* What interpolation leaves out between two points, at most: of the density around them without the tilt, point m
 * counts out[m + FA_SUM_PAD] times.  Cauchy's formula on the rectangle from -FA_SUM_WIDE to FA_SUM_WIDE + 1, in steps,
 * of heights y and -y: |omega(1/2)| over |omega| there.  Between points densities are at most e^(g/8) times a chord */
FA_FUNC void fa_sum_contour(double g, double *out)
{
    double y = 0.8 * FA_SUM_WIDE, grow = 1.01 * exp(0.5 * g * (y * y + 0.25)) / FA_PI, side = grow * y / FA_SUM_WIDE;
    int i, m;
    for (i = -FA_SUM_WIDE; i <= FA_SUM_WIDE; i++) {
        double cell = 0.5 * grow / y;
        for (m = 1 - FA_SUM_TAPS; m <= FA_SUM_TAPS; m++) {
            double away = fa_max(0.0, fa_max((double)(m - i - 1), (double)(i - m)));
            cell *= fabs(0.5 - m) / sqrt(away * away + y * y);
        }
        out[i + FA_SUM_PAD] += cell;
        out[i + 1 + FA_SUM_PAD] += cell;
    }
    for (m = 1 - FA_SUM_TAPS; m <= FA_SUM_TAPS; m++)
        side *= fabs(0.5 - m) / (FA_SUM_WIDE + 1 - m);
    out[FA_SUM_WIDE + 1 + FA_SUM_PAD] += side;
    out[FA_SUM_PAD - FA_SUM_WIDE] += side;
}

/* the same of all that is there and all that is read instead: no weight is larger */
FA_FUNC void fa_sum_trivial(double g, double *out)
{
    double c = 1.0;
    int m;
    out[FA_SUM_PAD] = out[1 + FA_SUM_PAD] = 1.0 + 1.01 * exp(0.125 * g);
    for (m = 2; m <= FA_SUM_TAPS; m++) {
        c *= (FA_SUM_TAPS + 1.0 - m) / (FA_SUM_TAPS - 1.0 + m);
        out[m + FA_SUM_PAD] = out[1 - m + FA_SUM_PAD] = 0.32 * c / (m - 1);
    }
}

/* that right of each point with `wide` neighbours, over e^(tilt) at the place, where it is less than `out`.  Tilts are
 * those of any block that holds the point: e^-tilt at most down, e^tilt at most up */
FA_FUNC void fa_sum_misses(const fa_sum *s, const double *bound, int wide, const double *down, const double *up,
                           double *out)
{
    const double *at = bound + FA_SUM_PAD;
    int i, k, m, last = s->n - 1 - wide;
    for (i = wide; i < last; i += FA_SUM_BLOCK) {
        double right[FA_SUM_BLOCK] = {0.0}, left[FA_SUM_BLOCK] = {0.0};
        for (m = FA_SUM_WIDE + 1; m > 0; m--) {
            const double *next = s->density + i + m, *before = s->density + i - m;
            double a = at[m], b = at[-m];
            FA_PRAGMA(omp simd)
            for (k = 0; k < FA_SUM_BLOCK; k++) {
                right[k] = FA_FMA(a, next[k], right[k]) * down[i + k];
                left[k] = FA_FMA(b, before[k], left[k]) * up[i + k];
            }
        }
        for (k = 0; k < FA_SUM_BLOCK && i + k < last; k++)
            out[i + k] = fa_min(out[i + k], right[k] + left[k] + at[0] * s->density[i + k]);
    }
}

/* the least and the largest rise of a block that may hold each point's interval, the least as its inverse */
FA_FUNC void fa_sum_tilts(const fa_sum *s, double *down, double *up)
{
    int i, m, half = FA_SUM_BLOCK / 2;
    for (i = 0; i < s->n; i++) {
        double least = s->rise[i], most = s->rise[i];
        for (m = i > half - 1 ? i - half + 1 : 0; m < s->n && m <= i + half; m++) {
            least = fa_min(least, s->rise[m]);
            most = fa_max(most, s->rise[m]);
        }
        down[i] = 1.0 / least;
        up[i] = most;
    }
}

/* of the log of the density, from point to point, around one */
FA_FUNC double fa_sum_change(const fa_sum *s, const double *log_f, int i, int around)
{
    int a = i > around ? i - around : 0, b = i + around < s->n ? i + around : s->n - 1;
    return (log_f[b] - log_f[a]) / (b - a);
}

/* what joins need of a distribution.  0: no memory */
FA_FUNC int fa_sum_prepare(fa_sum *s, double sigma)
{
    double g = s->count * sigma * sigma * s->step * s->step, good = 0.0, *room, *log_f, *down, *up, *misses, *rough,
           contour[2 * FA_SUM_PAD + 1] = {0.0}, trivial[2 * FA_SUM_PAD + 1] = {0.0};
    int i;
    room = fa_alloc_zeroed(sizeof(double) * 5 * (size_t)s->room);
    if (!room)
        return 0;
    log_f = room, down = room + s->room, up = down + s->room, misses = up + s->room, rough = misses + s->room;
    for (i = 0; i < s->n; i++) {
        log_f[i] = log(fa_max(s->density[i], 1e-300));
        misses[i] = INFINITY;
    }
    for (i = 0; i < s->n; i++) {
        s->turn[i] = fa_sum_change(s, log_f, i, 1);
        s->tilt[i] = fa_max(-FA_SUM_TURN, fa_min(FA_SUM_TURN, fa_sum_change(s, log_f, i, 4)));
        s->rise[i] = exp(s->tilt[i]);
    }
    fa_sum_tilts(s, down, up);
    fa_sum_trivial(g, trivial);
    fa_sum_misses(s, trivial, 0, down, up, misses);
    for (i = 0; i < s->n - 1; i++)
        rough[i] = misses[i] > FA_SUM_FLAT * s->density[i] ? FA_SUM_READ * FA_EPS * misses[i] : 0.0;
    fa_sum_contour(g, contour);
    fa_sum_misses(s, contour, FA_SUM_WIDE, down, up, misses);
    misses[s->n - 1] = s->density[s->n - 1]; /* is not read */
    for (i = 0; i < s->n; i++) {
        double all = misses[i] + rough[i], one = all / s->density[i] * exp(g);
        if (i > 0)
            one *= fa_max(1.0, up[i] * s->density[i - 1] / s->density[i]);
        if (one <= FA_SUM_GOOD)
            good = fa_max(good, one);
        else
            s->absolute += 2.0 * s->step * all * fa_max(1.0, up[i]) * fa_max(1.0, exp(fa_sum_at(s, i + 1)));
    }
    s->absolute += 2.0 * s->step * s->density[0];
    s->relative += good;
    free(room);
    return 1;
}

#endif
