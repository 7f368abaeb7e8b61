/* loss/allocation.h -- the loss of an epoch in which a record takes part in one random step: distributions of sums
 * joined until there are as many numbers as steps, and the lattice that a line takes.
 *
 * docs/algorithms/allocation.md.
 */
#ifndef FA_LOSS_ALLOCATION_H
#define FA_LOSS_ALLOCATION_H

#include "sums.h"

#ifndef FA_SUM_SMALL       /* tests starve it */
#define FA_SUM_SMALL 1e-21 /* of a sum: what may be left out */
#endif
#define FA_SUM_ABOUT   1e3   /* by which densities between points may be larger or smaller */
#define FA_SUM_QUIET   -35.0 /* log of what the rule in v may leave out */
#define FA_SUM_STRIDES 4     /* its steps: d, 2 d, 4 d and 8 d at most, the longest where ... */
#define FA_SUM_FLANK   4.0   /* ... densities rise no more steeply than so, in units of sqrt(g) */
#define FA_SUM_DEEP    (-520.0)
#define FA_SUM_WINDOW  15.0 /* deviations of G from the window to the end */
#define FA_SUM_LARGEST 1e11 /* g, at most */
#define FA_SUM_SLOPE   8.0  /* ... and times sqrt(g): of places */

/* log of what the trapezoid rule with step d leaves out at height y, over what is on the real line: e^(-2 pi y/d) times
 * the growth there.  Arguments of densities turn by y in all and grow by at most -log cos(y/2) */
FA_INLINE double fa_sum_off(double d, double g, double steep, double y)
{
    return -2.0 * FA_PI * y / d + 0.5 * g * y * y - steep * log(cos(0.5 * y));
}

/* the best height for densities that rise so steeply, both together */
FA_FUNC double fa_sum_height(double d, double g, double steep)
{
    double y, best = 0.0;
    for (y = 0.05 / sqrt(1.0 + g); y < 3.0; y *= 1.1)
        if (best == 0.0 || fa_sum_off(d, g, steep, y) < fa_sum_off(d, g, steep, best))
            best = y;
    return best;
}

/* step of v for which that is nothing that counts */
FA_FUNC double fa_sum_rule(double g, double steep, double quiet)
{
    double low = 1e-4 / sqrt(1.0 + g), high = 1e4 * low;
    while (high > 1.01 * low) {
        double d = sqrt(low * high);
        if (fa_sum_off(d, g, steep, fa_sum_height(d, g, steep)) < quiet)
            low = d;
        else
            high = d;
    }
    return low;
}

/* how steeply the density rises, at most */
FA_FUNC double fa_sum_steep(const fa_sum *s, double g)
{
    double most = 0.0;
    int i;
    for (i = 0; i < s->n; i++)
        most = fa_max(most, s->turn[i] / s->step);
    return most + g * s->step;
}

/* a point of v: where both densities are evaluated, in points of their lattices */
typedef struct {
    int whole[2];
    double part[2];
} fa_sum_place;

/* log(rise(v)/p) = -log1p((1-p) expm1(-w)) with w = v - log(p/(1-p)), to double-double digits but for expm1 */
FA_FUNC fa_sum_place fa_sum_place_of(const fa_sum *a, const fa_sum *b, double w, double shift)
{
    double both = a->count + b->count, side[2] = {b->count / both, a->count / both}, step = a->step;
    double lo[2] = {-fma(side[0], both, -b->count) / both, -fma(side[1], both, -a->count) / both};
    fa_sum_place out;
    int i;
    for (i = 0; i < 2; i++) {
        double e = expm1(i ? w : -w);
        fa_dd part = fa_dd_mul_d(fa_dd_make(side[i], lo[i]), e), value = fa_log1p_v(part);
        double x = -value.hi / step, whole, rest = fma(-x, step, -value.hi) - value.lo;
        fa_dd sum = fa_two_sum(x, shift);
        whole = floor(sum.hi);
        out.part[i] = (sum.hi - whole) + (sum.lo + rest / step);
        if (out.part[i] < 0.0)
            out.part[i] += 1.0, whole -= 1.0;
        if (out.part[i] >= 1.0)
            out.part[i] -= 1.0, whole += 1.0;
        out.whole[i] = (int)whole - (i ? b->first : a->first);
    }
    return out;
}

/* by how much densities grow at the heights of the longer steps, around their points: what their slopes do.  Every
 * eighth point is next to the one before it: a half block further on */
typedef struct {
    int row[2];                       /* points from one of the eight rows to the next */
    double *grown[2][FA_SUM_STRIDES]; /* ... to each, times the density itself */
    double off[FA_SUM_STRIDES];       /* and what else these leave out, over FA_SUM_QUIET */
    double *memory;
} fa_sum_strides;

/* a join of points of one phase of the new lattice: block by block about the sum at both ends and in the middle, for
 * each step of v, and what it takes to count there; the sum and its rounding; and the step as a power of two */
typedef struct {
    const fa_sum *a, *b;
    double d, shift;                      /* step of v; of the new points, in steps of the old ones */
    int low, high, first, blocks, levels; /* levels: how many steps of v there are */
    double *rough, *sum, *rest;
    int *every;
    char *counts;
    fa_sum_strides strides;
} fa_sum_work;

/* chooses the steps of v.  0: no memory */
FA_FUNC int fa_sum_stride(fa_sum_work *w, double sigma)
{
    double g = fa_max(w->a->count, w->b->count) * sigma * sigma, *room, flank = FA_SUM_FLANK * sqrt(g),
           least = fa_sum_rule(g, fa_sum_steep(w->a, g) + fa_sum_steep(w->b, g), FA_SUM_QUIET),
           d = fa_sum_rule(g, flank, FA_SUM_QUIET - log(2.0 * FA_SUM_ABOUT));
    int k, side, i, m, half = FA_SUM_BLOCK / 2;
    for (w->levels = 1; w->levels < FA_SUM_STRIDES && d > least; w->levels++)
        d *= 0.5;
    w->d = ldexp(floor(ldexp(fa_min(d, least), 30)), -30); /* multiples of it are exact */
    w->strides.row[0] = w->a->n / half + 1;
    w->strides.row[1] = w->b->n / half + 1;
    w->strides.memory = room =
        fa_alloc_zeroed(sizeof(double) * (size_t)((w->strides.row[0] + w->strides.row[1]) * half * w->levels));
    for (k = 0; room && k < w->levels; k++) {
        double y = fa_sum_height(ldexp(w->d, k), g, flank), more = -log(cos(0.5 * y));
        w->strides.off[k] = FA_SUM_ABOUT * exp(fa_sum_off(ldexp(w->d, k), g, 0.0, y) - FA_SUM_QUIET);
        for (side = 0; side < 2; room += w->strides.row[side] * half, side++) {
            const fa_sum *s = side ? w->b : w->a;
            int reach = half + 1 + (int)ceil(more / s->step);
            w->strides.grown[side][k] = room;
            for (i = 0; i < s->n; i++) {
                double steep = 0.0, *out = room + i % half * w->strides.row[side] + i / half;
                for (m = i > 0 ? i - 1 : 0; k > 0 && m < s->n && m <= i + reach; m++)
                    steep = fa_max(steep, s->turn[m]);
                *out = s->density[i] * (k ? exp(fa_min(600.0, more * (steep / s->step + g * s->step))) : 1.0);
            }
        }
    }
    return room != NULL;
}

/* points of a place at half blocks, of one density; which of them are there, out of those from `from` to `to` */
FA_FUNC const double *fa_sum_halves(const fa_sum_work *w, const fa_sum_place *at, int side, int level, int *from,
                                    int *to)
{
    int half = FA_SUM_BLOCK / 2, x = at->whole[side] + w->first, row = x & (half - 1), skip = (x - row) / half,
        last = ((side ? w->b : w->a)->n - 1 - row) / half - skip;
    *from = -skip > *from ? -skip : *from;
    *to = last < *to ? last : *to;
    return w->strides.grown[side][level] + row * w->strides.row[side] + skip;
}

/* about the sums */
FA_FUNC void fa_sum_sketch(fa_sum_work *w, const fa_sum_place *at, double times)
{
    int k, s, wide = 2 * w->blocks + 1;
    for (k = 0; k < w->levels; k++) {
        int from = 0, to = wide - 1;
        const double *a = fa_sum_halves(w, at, 0, k, &from, &to), *b = fa_sum_halves(w, at, 1, k, &from, &to);
        double *rough = w->rough + k * wide;
        FA_PRAGMA(omp simd)
        for (s = from; s <= to; s++)
            rough[s] += times * a[s] * b[s];
    }
}

/* the longest step of v that leaves out nothing that counts in a block, as a power of two of the shortest */
FA_FUNC int fa_sum_longest(const fa_sum_work *w, int i)
{
    const double *rough = w->rough + 2 * i, *more;
    int k, s, good = 0, wide = 2 * w->blocks + 1;
    for (k = w->levels - 1; k > 0 && !good; k--)
        for (more = rough + k * wide, good = k, s = 0; s < 3; s++)
            if (!(more[s] * w->strides.off[k] <= rough[s]))
                good = 0;
    return good;
}

/* adds a point of v to a block */
FA_FUNC void fa_sum_add(fa_sum_work *w, int i, const fa_sum_place *at, const double *weights, double times)
{
    double one[FA_SUM_BLOCK], two[FA_SUM_BLOCK], tilt, *sum = w->sum + i * FA_SUM_BLOCK,
                                                       *rest = w->rest + i * FA_SUM_BLOCK;
    int k, start = w->first + i * FA_SUM_BLOCK, a = at->whole[0] + start, b = at->whole[1] + start;
    if (a <= -FA_SUM_BLOCK || b <= -FA_SUM_BLOCK || a >= w->a->n || b >= w->b->n)
        return;
    tilt = fa_sum_read(w->a, a, weights, one) * at->part[0];
    tilt += fa_sum_read(w->b, b, weights + 2 * FA_SUM_TAPS, two) * at->part[1];
    times *= fa_exp_plain_v(tilt);
    FA_PRAGMA(omp simd)
    for (k = 0; k < FA_SUM_BLOCK; k++) {
        double x = times * fa_max(0.0, one[k] * two[k]), all = sum[k] + x, part = all - sum[k];
        rest[k] += (sum[k] - (all - part)) + (x - part);
        sum[k] = all;
    }
}

/* adds a point of v to all blocks where it counts */
FA_FUNC void fa_sum_point(fa_sum_work *w, int j, const fa_sum_place *at, double times)
{
    int i, s, from = 0, to = 2 * w->blocks;
    const double *a = fa_sum_halves(w, at, 0, 0, &from, &to), *b = fa_sum_halves(w, at, 1, 0, &from, &to);
    double weights[4 * FA_SUM_TAPS];
    int is_ready = 0;
    char *counts = w->counts;
    memset(counts, 0, (size_t)(2 * w->blocks + 1));
    FA_PRAGMA(omp simd)
    for (s = from; s <= to; s++)
        counts[s] = a[s] * b[s] > FA_SUM_SMALL * w->rough[s];
    for (i = from > 1 ? from / 2 - 1 : 0; i < w->blocks && 2 * i <= to; i++) {
        if (!(counts[2 * i] | counts[2 * i + 1] | counts[2 * i + 2]) || j & (w->every[i] - 1))
            continue;
        if (!is_ready) {
            fa_sum_weights(at->part[0], weights);
            fa_sum_weights(at->part[1], weights + 2 * FA_SUM_TAPS);
            is_ready = 1;
        }
        fa_sum_add(w, i, at, weights, times);
    }
}

/* one phase of the new lattice.  0: no memory, or given up */
FA_FUNC int fa_sum_phase(fa_sum_work *w, fa_sum *out, int ratio, int phase)
{
    fa_sum_place *place;
    int i, k, n, j, goes_on;
    w->shift = phase / (double)ratio;
    w->first = (int)floor((out->first - phase) / (double)ratio);
    w->blocks = (out->n / ratio + 2) / FA_SUM_BLOCK + 1;
    n = w->blocks * FA_SUM_BLOCK;
    w->sum = fa_alloc_zeroed(sizeof(double) * (size_t)(2 * n + w->levels * (2 * w->blocks + 1)));
    w->every = fa_alloc((sizeof(int) + 2) * (size_t)(w->blocks + 1));
    place = fa_alloc(sizeof(fa_sum_place) * (size_t)(w->high - w->low + 1));
    goes_on = w->sum && w->every && place;
    w->rest = w->sum + n, w->rough = w->rest + n, w->counts = (char *)(w->every + w->blocks + 1);
    for (j = w->low; goes_on && j <= w->high; j++) {
        place[j - w->low] = fa_sum_place_of(w->a, w->b, j * w->d, w->shift);
        fa_sum_sketch(w, place + j - w->low, w->a == w->b && j > 0 ? 2.0 : 1.0);
    }
    for (i = 0; goes_on && i < w->blocks; i++)
        w->every[i] = 1 << fa_sum_longest(w, i);
    for (j = w->low; goes_on && j <= w->high; j++) {
        fa_sum_point(w, j, place + j - w->low, w->a == w->b && j > 0 ? 2.0 : 1.0);
        goes_on = j % FA_SUM_BLOCK || fa_goes_on();
    }
    for (i = 0; goes_on && i < n; i++) {
        k = (w->first + i) * ratio + phase - out->first;
        if (k >= 0 && k < out->n)
            out->density[k] = w->d * w->every[i / FA_SUM_BLOCK] * (w->sum[i] + w->rest[i]);
    }
    free(w->sum);
    free(w->every);
    free(place);
    return goes_on;
}

/* the distribution of the mean of both.  0: too many points, or no memory */
FA_FUNC int fa_sum_join(const fa_sum *a, const fa_sum *b, double sigma, double step, fa_sum *out)
{
    double all = a->count + b->count, p = a->count / all, q = b->count / all, ends[2][2], low, high;
    fa_sum_work w = {.a = a, .b = b};
    int i, phase, good = 1, ratio = (int)(a->step / step);
    for (i = 0; i < 2; i++) {
        const fa_sum *s = i ? b : a;
        ends[i][0] = fa_sum_at(s, 0);
        ends[i][1] = fa_sum_at(s, s->n - 1);
    }
    low = log(p * exp(ends[0][0]) + q * exp(ends[1][0]));
    high = log(p * exp(ends[0][1]) + q * exp(ends[1][1]));
    if (!fa_sum_open(out, all, step, low, high))
        return 0;
    if (!fa_sum_stride(&w, sigma))
        return 0;
    w.low = a == b ? 0 : -1 - (int)ceil(log1p(expm1(high - ends[0][0]) / q) / w.d); /* where both are on a lattice */
    w.high = 1 + (int)ceil(log1p(expm1(high - ends[1][0]) / p) / w.d);
    for (phase = 0; good && phase < ratio; phase++)
        good = fa_sum_phase(&w, out, ratio, phase);
    free(w.strides.memory);
    if (!good)
        return 0;
    out->relative += a->relative + b->relative + 2.0 * FA_SUM_SMALL * FA_SUM_ABOUT * (w.high - w.low + 1) +
                     FA_EPS * (FA_SUM_ULPS + FA_SUM_SLOPE * sqrt(fa_max(a->count, b->count)) * sigma);
    out->absolute += a->absolute + b->absolute + a->absolute * b->absolute;
    fa_sum_trim(out, sigma);
    return 1;
}

/* n numbers, by the binary digits of n: two distributions are kept, of k and of k + 1 numbers.  0: as above */
FA_FUNC int fa_sum_of(double sigma, int64_t n, fa_sum *out)
{
    fa_sum pair[2], next[2];
    int64_t k = 1;
    int digit = 0, i, good;
    double unit = fa_sum_unit((double)n * sigma * sigma);
    memset(pair, 0, sizeof(pair));
    memset(out, 0, sizeof(*out));
    while ((int64_t)2 << digit <= n)
        digit++;
    if (!((double)n * sigma * sigma < FA_SUM_LARGEST))
        return 0;
    good = fa_sum_one(sigma, fa_sum_step(2.0 * sigma * sigma, unit), pair);
    good = good && fa_sum_prepare(pair, sigma) &&
           (n == 1 || (fa_sum_join(pair, pair, sigma, pair->step, pair + 1) && fa_sum_prepare(pair + 1, sigma)));
    for (digit--; good && digit >= 0; digit--) {
        int odd = (int)(n >> digit & 1), more;
        double step;
        memset(next, 0, sizeof(next));
        k = 2 * k + odd;
        more = (n & (((int64_t)1 << digit) - 1)) != 0; /* k + 1 is needed, too */
        step = fa_min(pair->step, fa_sum_step((double)(k + more) * sigma * sigma, unit));
        good = odd ? fa_sum_join(pair, pair + 1, sigma, step, next) : fa_sum_join(pair, pair, sigma, step, next);
        good = good && (digit == 0 || fa_sum_prepare(next, sigma));
        if (good && more)
            good = (odd ? fa_sum_join(pair + 1, pair + 1, sigma, step, next + 1)
                        : fa_sum_join(pair, pair + 1, sigma, step, next + 1)) &&
                   fa_sum_prepare(next + 1, sigma);
        for (i = 0; i < 2; i++) {
            fa_sum_free(pair + i);
            pair[i] = next[i];
        }
    }
    *out = pair[0];
    fa_sum_free(pair + 1);
    if (!good)
        fa_sum_free(out);
    return good;
}

/* every second point, under the window of loss/smooth.h, as atoms; known_out: step, window, and what of P and of Q may
 * be elsewhere.  How many; 0: too many */
FA_FUNC int fa_sum_rows(const fa_sum *s, double sigma, int room, fa_atom *rows_out, double *known_out)
{
    double root = sqrt(s->count) * sigma, step = 2.0 * s->step, off = 4.0 / (sigma * sigma), high;
    int i, n = 0, first = s->first & 1, end = s->n - FA_SUM_TAPS;           /* the last ones have no neighbours */
    while (end > first && !(log(step * s->density[end - 1]) > FA_SUM_DEEP)) /* the window's weights are to be numbers */
        end--;
    if (end <= first)
        return 0;
    high = fa_sum_at(s, end - 1) - FA_SUM_WINDOW / root;
    known_out[0] = step, known_out[1] = high;
    known_out[2] = known_out[3] = 4.0 * s->absolute;
    for (i = first; i < s->n; i += 2) {
        double x = fa_sum_at(s, i), mass = step * s->density[i], z = (x - high) * root * FA_HALF_ROOT,
               weight = i < end ? log(0.5 * mass * erfc(z)) : -INFINITY,
               gone = weight > -650.0 ? mass * erfc(-z) : 4.0 * mass;
        known_out[2] += gone * exp(x);
        known_out[3] += gone;
        if (!(weight > -650.0))
            continue;
        if (n == room)
            return 0;
        rows_out[n++] = (fa_atom){x, weight, off, s->relative / FA_EPS + 64.0 + 4.0 * fabs(weight)};
    }
    return n;
}

#endif
