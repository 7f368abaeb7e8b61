/* line/long_line.h -- jobs of bounded losses in which nothing decays, of many kinds: a line of as many points as its
 * tail is worth, each moment in closed form.
 *
 *   F_k = M_1 M_2 M_3 (c + i k h)/(u (u-1)), over M(c): the steps in three groups; Gaussians that see every record
 *
 * What is beyond the last point is bounded on average (Fejer's kernel), or dead beside one more release of a Gaussian
 * so small that it hardly matters.  docs/algorithms/rays.md, "Many kinds".
 */
#ifndef FA_LINE_LONG_LINE_H
#define FA_LINE_LONG_LINE_H

#include "long_kinds.h"

#define FA_LONG_MOST  0x1p20   /* points, at most; ... */
#define FA_LONG_KNOWN 4096     /* ... where some kind has nodes up to the last one; ... */
#define FA_LONG_SOON  4e6      /* ... and pairs of a point and a kind up to which width is bought, */
#define FA_LONG_DEAR  1.5e8    /* and at most, but for lines that would need ten times as many */
#define FA_LONG_GOOD  4e-7     /* relative errors of delta that are good enough where better ones are dear */
#define FA_LONG_ENOUGH 6e-7    /* widths that no other reader need better */
#ifndef FA_LONG_QUIET            /* tests starve it */
#define FA_LONG_QUIET 3.0      /* -log of the share of what is aimed at that may alias */
#endif
#define FA_LONG_SIDES 3.3      /* a bound of |p (e^((u-1) h) + e^(-u h)) - 1| */
#define FA_LONG_TRIED 12       /* Gaussians */

typedef struct {
    int n, kinds, capacity;
    double most;           /* points */
    double eps, ref, c, h; /* where it is drawn, and about log delta there */
    double log_m, start;   /* log M(c)^n; F is kept with phases of eps = start: the sum of all lower ends */
    double mu2, extra;     /* Gaussians of the job, and the one that is added: its s^2 */
    double left, right, k_left, k_right; /* Chernoff's points, and K there */
    double tail;           /* of the points, over e^(log_m - (c-1) eps), as all of these: */
    double fixed, by_t, flat, high; /* rounding of the product, in u; sums of |1/(u (u-1))| and of t times that */
    double done[2];        /* error that is aimed at, and what was reached */
    double *re, *im, *side_re, *side_im;
    double *memory;
    fa_long_kind *kind;
} fa_long_line;

FA_FUNC void fa_long_line_free(fa_long_line *line)
{
    free(line->memory);
    free(line->kind);
    memset(line, 0, sizeof(*line));
}

/* c and h from Chernoff's bounds of the aliases: the longest step where |F(c)| is not far above the least.  0: none */
FA_FUNC int fa_long_plan(const fa_cap_job *job, fa_long_line *line, const fa_flat_place *at, double good)
{
    double v[2 * FA_LATTICE_PROBES + 1], k[2 * FA_LATTICE_PROBES + 1], best = INFINITY, least = INFINITY,
        tol = line->ref + log(good) - FA_LONG_QUIET, eps = line->eps;
    int i, j, n = fa_lattice_probe(job, at, v, k);
    for (i = 0; i < n; i++)
        least = fa_min(least, k[i] - (v[i] - 1.0) * eps - log(v[i] * (v[i] - 1.0)));
    for (i = 1; i < n - 1; i++) {
        double c = v[i], left = -tol / (c - 1.0), right = INFINITY, from = 1.0, to = c, k_from = 0.0, k_to = 0.0, x,
               excess = k[i] - (c - 1.0) * eps - log(c * (c - 1.0)) - least + fabs(c - at->v) * at->spread;
        for (j = 0; j < n; j++) {
            x = (k[j] + fa_log_b(v[j]) - (v[j] - 1.0) * eps - tol) / fabs(v[j] - c);
            if (j < i && x < left)
                left = x, from = v[j], k_from = k[j];
            if (j > i && x < right)
                right = x, to = v[j], k_to = k[j];
        }
        x = fa_max(fa_max(left, right), 1e-3) + 1.5 * at->spread;
        if (excess < 4.0 && x * (1.0 + 0.1 * excess) < best) {
            best = x * (1.0 + 0.1 * excess);
            line->h = fa_from_bits(fa_bits(2.0 * FA_PI / x) & ~((1ULL << 22) - 1)); /* k h is exact */
            line->c = c;
            line->left = from, line->right = to, line->k_left = k_from, line->k_right = k_to;
        }
    }
    return best < INFINITY;
}

/* the i-th kind at c.  0: too many nodes, or no memory */
FA_FUNC int fa_long_set(fa_long_line *line, fa_cap_block *block, fa_long_kind *kind, double last)
{
    double c = line->c, log_m, far;
    fa_cap_real of = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    memset(kind, 0, sizeof(*kind));
    fa_flat_add_k(block, c, &of);
    kind->steps = block->steps;
    log_m = of.k / block->steps;
    if (block->two.is_known)
        fa_long_close(kind, &block->two, c, log_m);
    else if (!fa_long_lay(kind, block, c, line->h, log_m, last))
        return 0;
    kind->turn_i = fa_sincos_v(FA_LANES * line->h * kind->gap, &kind->turn_r);
    far = c * (fabs(kind->place) + kind->gap) + fabs(log_m);
    kind->fixed += 4.0 * far + 128.0 * line->h * kind->gap;
    kind->by_t += 3.0 * kind->gap;
    line->fixed += block->steps * (kind->fixed + 4.0 * far);
    line->by_t += block->steps * kind->by_t;
    line->log_m = of.k;
    line->start = block->steps * kind->place;
    return 1;
}

/* The steps in groups, for about `points`: half to the first, half to the second, first those whose bound far out is
 * most above their root mean square, until these averages would be below a few points' worth; the others to the third.
 * Any choice is valid */
FA_FUNC void fa_long_deal(fa_long_line *line, double points)
{
    double left = log(points), turn = 0.0, t = points * line->h;
    int i, used;
    for (i = 0; i < line->kinds; i++)
        line->kind[i].power[FA_LONG_REST] = line->kind[i].steps;
    for (used = 0; used < line->kinds && left > -1.0; used++) {
        fa_long_kind *next = NULL;
        double best = 1e-3, steps, mean;
        for (i = 0; i < line->kinds; i++) {
            fa_long_kind *kind = line->kind + i;
            double gain = fa_min(0.0, fa_long_share(kind, t)) - fa_long_mean(kind, t);
            if (kind->power[FA_LONG_ONE] + kind->power[FA_LONG_OTHER] == 0.0 && gain > best)
                best = gain, next = kind;
        }
        if (!next)
            return;
        mean = fa_long_mean(next, t);
        steps = fa_min(next->steps, ceil((left + 1.0) / (1e-9 - mean)));
        next->power[FA_LONG_ONE] = floor(0.5 * (steps + turn));
        next->power[FA_LONG_OTHER] = steps - next->power[FA_LONG_ONE];
        next->power[FA_LONG_REST] = next->steps - steps;
        turn = next->power[FA_LONG_OTHER] > next->power[FA_LONG_ONE] ? 1.0 : 0.0;
        left += steps * mean;
    }
}

/* sums of |M|^2 of the first two groups over the points, and of k times that */
typedef struct {
    double all[2], far[2];
} fa_long_squares;

/* a run of points: F without the job's Gaussians' phase, which is a shift of eps; about how many pairs that is */
FA_FUNC double fa_long_run(fa_long_line *line, int first, fa_long_squares *squares)
{
    double ar[FA_LONG_GROUPS][FA_LONG_RUN], ai[FA_LONG_GROUPS][FA_LONG_RUN], wr[FA_LONG_RUN], wi[FA_LONG_RUN],
        re[FA_LONG_RUN], im[FA_LONG_RUN], power_r[FA_LONG_RUN], power_i[FA_LONG_RUN], c = line->c, h = line->h,
        slope = NAN, flat = 0.0, high = 0.0, pairs = 4.0 * FA_LONG_RUN, mu2 = 0.5 * line->mu2,
        *out_r = line->re + first, *out_i = line->im + first;
    int i, b, g;
    for (g = 0; g < FA_LONG_GROUPS; g++)
        for (i = 0; i < FA_LONG_RUN; i++)
            ar[g][i] = 1.0, ai[g][i] = 0.0;
    for (b = 0; b < line->kinds; b++) {
        const fa_long_kind *kind = line->kind + b;
        if (kind->slope != slope) {
            slope = kind->slope;
            FA_PRAGMA(omp simd)
            for (i = 0; i < FA_LONG_RUN; i++) {
                double x = c + slope, y = (first + i) * h, over = 1.0 / FA_FMA(x, x, y * y);
                wr[i] = x * over;
                wi[i] = -y * over;
            }
        }
        pairs += fa_long_moments(kind, first * h, h, wr, wi, re, im);
        for (g = 0; g < FA_LONG_GROUPS; g++) {
            double n = kind->power[g];
            memcpy(power_r, re, sizeof(re));
            memcpy(power_i, im, sizeof(im));
            if (n > 0.0)
                fa_long_times(ar[g], ai[g], n == kind->steps ? re : power_r, n == kind->steps ? im : power_i, n);
        }
    }
    for (g = 0; g < 2; g++) {
        double all = 0.0, far = 0.0;
        FA_PRAGMA(omp simd reduction(+ : all, far))
        for (i = 0; i < FA_LONG_RUN; i++) {
            double size = FA_FMA(ar[g][i], ar[g][i], ai[g][i] * ai[g][i]);
            all += size;
            far += (first + i) * size;
        }
        squares->all[g] += all;
        squares->far[g] += far;
    }
    for (g = 1; g < FA_LONG_GROUPS; g++)
        fa_long_times(ar[0], ai[0], ar[g], ai[g], 1.0);
    FA_PRAGMA(omp simd reduction(+ : flat, high))
    for (i = 0; i < FA_LONG_RUN; i++) { /* over u (u - 1) */
        double t = (first + i) * h, x = c * (c - 1.0) - t * t, y = (2.0 * c - 1.0) * t, over = FA_FMA(x, x, y * y),
               dead = fa_exp_plain_v(-fa_min(690.0, mu2 * t * t)), size = 1.0 / sqrt(over);
        over = dead / over * (first + i ? 1.0 : 0.5);
        out_r[i] = (ar[0][i] * x + ai[0][i] * y) * over;
        out_i[i] = (ai[0][i] * x - ar[0][i] * y) * over;
        flat += dead * size;
        high += dead * size * t;
    }
    line->flat += flat;
    line->high += high;
    return pairs;
}

/* log of what the first n points leave out, beside a further Gaussian of this s^2, over e^(log M(c)^n - (c-1) eps):
 * docs/algorithms/rays.md, "Many kinds" */
FA_FUNC double fa_long_log_tail(const fa_long_line *line, const fa_long_squares *squares, int n, double extra)
{
    double t = n * line->h, off = 1.01 * FA_EPS * (line->fixed + line->by_t * t),
           sum = log(line->h * FA_PI / 3.0 / (t * t)) - 0.5 * (line->mu2 + extra) * t * t + off + 1e-9;
    int b, g;
    for (g = 0; g < 2; g++) /* 1 is what the first point counts twice, but for its rounding */
        sum += 0.5 * log(2.0 * (squares->all[g] - squares->far[g] / n) - 1.0 + n * off * (3.0 + off) + 1e-9);
    for (b = 0; b < line->kinds; b++)
        if (line->kind[b].power[FA_LONG_REST] > 0.0)
            sum += line->kind[b].power[FA_LONG_REST] * fa_min(0.0, fa_long_share(line->kind + b, t));
    return sum;
}

/* about the least relative error after n points, over that of a further Gaussian whose tail and curvature are less;
 * theta: how fast delta falls */
FA_FUNC double fa_long_best(fa_long_line *line, const fa_long_squares *squares, int n, double theta)
{
    double t = n * line->h, log_size = line->log_m - (line->c - 1.0) * line->eps - line->ref,
           plain = fa_long_log_tail(line, squares, n, 0.0) + log_size, best = INFINITY;
    int i;
    for (i = 0; i <= FA_LONG_TRIED; i++) {
        double x = i ? 0.5 * exp2(0.5 * (i - 1)) : 0.0, extra = 2.0 * x / (t * t),
               all = exp(fa_min(300.0, plain - x)) + 1.2 * theta * (1.0 + theta) * extra;
        if (all < best && 1.5 * sqrt(extra) * line->c < 0.5) {
            best = all;
            line->extra = extra;
        }
    }
    return best;
}

/* room for n points.  0: no memory */
FA_FUNC int fa_long_reserve(fa_long_line *line, int n)
{
    double **rows[] = {&line->re, &line->im, &line->side_re, &line->side_im};
    size_t c = 4096;
    if (n <= line->capacity)
        return 1;
    while (c < (size_t)n)
        c *= 2;
    if (!fa_cap_grow(rows, 4, &line->memory, c, line->capacity))
        return 0;
    line->capacity = (int)c;
    return 1;
}

/* the Gaussian that is added, on the points: what is left of F, and that times p (e^((u-1) x) + e^(-u x)) - 1, x = 3
 * s/2, the bound from below */
FA_FUNC void fa_long_smooth(fa_long_line *line)
{
    double half = 0.5 * line->extra, h = line->h, c = line->c, x = 1.5 * sqrt(line->extra), up = exp((c - 1.0) * x),
           down = exp(-c * x), p = 1.0 / (1.0 + exp(-x));
    int i;
    if (!(line->extra > 0.0))
        return;
    FA_PRAGMA(omp simd)
    for (i = 0; i < line->n; i++) {
        double t = i * h, dead = fa_exp_plain_v(-half * t * t), co, si = fa_sincos_v(t * x, &co),
               a = p * (up + down) * co - 1.0, b = p * (up - down) * si, re = line->re[i] * dead,
               im = line->im[i] * dead;
        line->re[i] = re;
        line->im[i] = im;
        line->side_re[i] = re * a - im * b;
        line->side_im[i] = re * b + im * a;
    }
}

/* points for the plan until their error is `good`, or as small as they are worth.  0: none */
FA_FUNC int fa_long_points(fa_long_line *line, double good, double theta)
{
    fa_long_squares squares = {{0.0, 0.0}, {0.0, 0.0}};
    double best = INFINITY, next = FA_LONG_RUN, pairs = 0.0;
    int n = 0, most = (int)line->most;
    for (;;) {
        if (!fa_goes_on() || !fa_long_reserve(line, n + FA_LONG_RUN))
            return 0;
        pairs += fa_long_run(line, n, &squares);
        n += FA_LONG_RUN;
        if (n < next && pairs < FA_LONG_DEAR && n < most)
            continue;
        next = 1.1 * n;
        best = fa_long_best(line, &squares, n, theta);
        if (!(best > good) || pairs > FA_LONG_DEAR || n >= most)
            break;
        if (pairs > FA_LONG_SOON && (best < FA_LONG_GOOD || pairs * sqrt(best / FA_LONG_GOOD) > 10.0 * FA_LONG_DEAR))
            break;
    }
    line->n = n;
    line->tail = exp(fa_min(300.0, fa_long_log_tail(line, &squares, n, line->extra)));
    fa_count(pairs);
    fa_long_smooth(line);
    return best < 0.05;
}

/* A line for eps, where delta is about exp(ref), to a relative error of about `good`.  0: none */
FA_FUNC int fa_long_draw(const fa_cap_job *job, fa_long_line *line, const fa_flat_place *at, double eps, double ref,
                         double good)
{
    fa_dd log_m = {0.0, 0.0}, start = {0.0, 0.0};
    double width = 0.0;
    int b;
    line->eps = eps;
    line->ref = ref;
    line->mu2 = job->mu2;
    line->n = line->kinds = 0;
    line->extra = line->fixed = line->by_t = line->flat = line->high = 0.0;
    free(line->kind);
    line->kind = fa_alloc(sizeof(fa_long_kind) * (size_t)job->n);
    if (!line->kind || !fa_long_plan(job, line, at, good))
        return 0;
    line->most = FA_LONG_MOST;
    for (b = 0; b < job->n; b++) {
        if (!fa_long_set(line, job->blocks + b, line->kind + line->kinds++, FA_LONG_KNOWN * line->h))
            return 0;
        if (line->kind[b].until == INFINITY)
            line->most = FA_LONG_KNOWN;
        log_m = fa_dd_add_d(log_m, line->log_m);
        start = fa_dd_add_d(start, line->start);
    }
    line->log_m = log_m.hi + 0.5 * job->mu2 * line->c * (line->c - 1.0);
    line->start = start.hi + job->mu2 * (line->c - 0.5);
    if (!(FA_EPS * (line->fixed + line->by_t / line->h) < 1e-4))
        return 0;
    for (b = 0; b < line->kinds; b++)
        width += line->kind[b].until > 0.0 ? line->kind[b].nodes->sum.n : 1.0;
    fa_long_deal(line, fa_max(512.0, fa_min(line->most, FA_LONG_SOON / width)));
    return fa_long_points(line, good, fa_max(at->v, line->c) - 1.0);
}

/* sums of the real parts of F e^(-i t by) over the points, and of u - 1 times that */
FA_FUNC void fa_long_sum(const fa_long_line *line, const double *re, const double *im, double by, double *sum_out,
                         double *fall_out)
{
    double all = 0.0, fall = 0.0, h = line->h, c1 = line->c - 1.0, turn_r,
           turn_i = fa_sincos_v(-FA_LANES * h * by, &turn_r);
    int first, i, lane;
    for (first = 0; first < line->n; first += FA_LONG_RUN) {
        double x[FA_LANES], y[FA_LANES], sum[FA_LANES] = {0.0}, high[FA_LANES] = {0.0}, s = 0.0, f = 0.0;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++)
            y[lane] = fa_sincos_v(-(first + lane) * h * by, &x[lane]);
        for (i = first; i < first + FA_LONG_RUN; i += FA_LANES) {
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANES; lane++) {
                double co = x[lane], si = y[lane], p = re[i + lane], q = im[i + lane], a = FA_FMA(p, co, -q * si),
                       b = FA_FMA(p, si, q * co);
                sum[lane] += a;
                high[lane] += FA_FMA(c1, a, -(i + lane) * h * b);
                x[lane] = FA_FMA(co, turn_r, -si * turn_i);
                y[lane] = FA_FMA(co, turn_i, si * turn_r);
            }
        }
        for (lane = 0; lane < FA_LANES; lane++)
            s += sum[lane], f += high[lane];
        all += s;
        fall += f;
    }
    *sum_out = all;
    *fall_out = fall;
}

/* what aliases at eps with the weight of Chernoff's point v, K = k there, over exp(ref) */
FA_INLINE double fa_long_alias(const fa_long_line *line, double eps, double v, double k)
{
    double x = fabs(v - line->c) * 2.0 * FA_PI / line->h;
    return 1.001 * fa_cap_entry(k + 0.5 * line->extra * v * (v - 1.0) + fa_log_b(v) - (v - 1.0) * eps - line->ref - x) /
           -expm1(-x);
}

/* delta at eps, and its errors.  NaN: no reading */
FA_FUNC fa_flat_reading fa_long_read(const fa_long_line *line, double eps)
{
    fa_flat_reading out = {NAN, NAN, INFINITY, INFINITY};
    double c = line->c, more = line->mu2 + line->extra, by = eps - line->start - line->extra * (c - 0.5), sum, fall,
           log_size = line->log_m + 0.5 * line->extra * c * (c - 1.0) - (c - 1.0) * eps - line->ref, scale,
           far = fabs(by), off, alias, gap = 0.0, side, x, value;
    if (!(fabs(log_size) < 600.0))
        return out;
    fa_long_sum(line, line->re, line->im, by, &sum, &fall);
    scale = exp(log_size) * line->h / FA_PI;
    value = scale * sum;
    if (!(value > 0.0))
        return out;
    off = 1.02 * FA_EPS * scale *
          ((line->fixed + 200.0 + line->n / 64.0 + 128.0 * line->h * far +
            4.0 * (fabs(line->log_m) + (c - 1.0) * eps + fabs(line->ref) + more * c * c)) *
               line->flat +
           (line->by_t + 4.0 * far + 4.0 * more * c) * line->high);
    off += exp(log_size) * line->tail;
    alias = fa_long_alias(line, eps, line->left, line->k_left) + fa_long_alias(line, eps, line->right, line->k_right);
    if (line->extra > 0.0) {
        x = 1.5 * sqrt(line->extra);
        fa_long_sum(line, line->side_re, line->side_im, by, &side, &x);
        x = 1.5 * sqrt(line->extra);
        gap = 1.05 * exp(1.5 * x + 0.125 * line->extra) * fa_max(0.0, scale * side + FA_LONG_SIDES * off + alias);
    }
    out.log_value = line->ref + log(value);
    out.slope = -fall / sum;
    out.up = off / value + 8.0 * FA_EPS * (4.0 + fabs(line->ref));
    out.down = (off + alias + gap) / value + 8.0 * FA_EPS * (4.0 + fabs(line->ref));
    return out;
}

#endif
