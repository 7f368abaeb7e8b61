/* line/capped_ledger.h -- every error of a capped line, relative to delta at one eps.  docs/algorithms/line.md has the
 * inequalities. */
#ifndef FA_LINE_CAPPED_LEDGER_H
#define FA_LINE_CAPPED_LEDGER_H

#include "capped_chernoff.h"

#define FA_CAP_ROUNDS 51.0  /* u of |D/B0| that the floor's sum rounds, its logarithm's and one more a block apart */
#define FA_CAP_SMALL  1e-10 /* an entry that a second, dearer bound need not better */

typedef struct {
    double up, down;                                 /* delta <= value (1 + up), delta >= value (1 - down) */
    double tail, quadrature, rounding, ends, closed; /* either way */
    double put, floor, rare;                         /* up only; rare: of `put`, what grows with eps as e^eps */
    double alias;                                    /* down only: the sum is never below its integral */
    double put_rate;                                 /* how fast `put` grows with eps */
} fa_cap_ledger;

/* 0: J(a) vanishes */
FA_FUNC int fa_cap_beyond_at(const fa_cap_block *block, double a, fa_cap_beyond *out)
{
    const fa_cap_nodes *s = &block->nodes;
    double sums[3] = {0.0, 0.0, 0.0}, raise = block->family->outside(block, a, sums), j0, j1, j2;
    fa_cap_real r;
    int some;
    j0 = sums[0], j1 = sums[1], j2 = sums[2];
    some = j0 > 1e-300;
    j0 = fa_max(j0, 1e-300);
    r = block->dip.width > 0.0 ? fa_pieces_fallen(block, s, a, fa_pieces_dip_error(block, a, -1.0))
                               : fa_cap_block_k(block, s, a, 0, block->family->back_error(block, a));
    out->log_j = block->log_steps + log(j0) - raise;
    out->slope = j1 / j0;
    out->curve = j2 / j0 - (j1 / j0) * (j1 / j0);
    out->log_m = log(exp(r.k / block->steps) + j0 * exp(-raise));
    out->d1 = r.d1;
    out->d2 = r.d2;
    out->slop = 64.0 * FA_EPS * block->steps * (1.0 + (1.0 - a) * (fabs(s->mean) + fabs(block->kappa)));
    return some;
}

/* log of the bound of `put` at a < 0, and the next a by Newton's method.  NaN: no steps beyond the caps */
FA_FUNC double fa_cap_put_at(fa_cap_job *job, double eps, double a, double *next_out)
{
    double others = 0.0, once = 0.0, slop = 0.0, d1 = job->mu2 * (a - 0.5), d2 = job->mu2, slope = 0.0, curve = 0.0,
           value;
    fa_log_total total = {-INFINITY, 0.0};
    int b, some = 0;
    for (b = 0; b < job->n; b++) {
        fa_cap_beyond *at = &job->blocks[b].beyond;
        double steps = job->blocks[b].steps, rest = job->n > 1 ? 1.0 : fa_max(0.0, steps - 1.0) / steps;
        some |= fa_cap_beyond_at(job->blocks + b, a, at);
        others += steps > 1.0 ? (steps - 1.0) * at->log_m : 0.0;
        once += at->log_m;
        slop += at->slop;
        d1 += rest * at->d1;
        d2 += rest * at->d2;
    }
    if (!some)
        return NAN;
    if (job->n == 1) /* a step of the only block has no other */
        once = job->blocks->beyond.log_m = 0.0;
    if (!(once + others < INFINITY))
        return INFINITY;
    for (b = 0; b < job->n; b++)
        fa_add_log(&total, job->blocks[b].beyond.log_j + (once - job->blocks[b].beyond.log_m));
    value = fa_log_of_total(&total);
    for (b = 0; b < job->n; b++) {
        const fa_cap_beyond *at = &job->blocks[b].beyond;
        double share = exp(at->log_j + (once - at->log_m) - value);
        slope += share * at->slope;
        curve += share * at->curve;
    }
    value = value + others + 0.5 * job->mu2 * a * (a - 1.0) - (a - 1.0) * eps - a * log(-a) - (1.0 - a) * log(1.0 - a);
    slope = slope + d1 - eps;
    curve = curve + d2 + 1e-3 / (a * a);
    *next_out = fa_max(4.0 * a - 1.0, fa_min(-0.05, a - slope / curve));
    if (job->taken_back > 0.0)
        *next_out = fa_max(*next_out, FA_MIX_PUT);
    if (job->fall_a > 0.0)
        *next_out = fa_max(*next_out, -FA_PIECES_LAST * job->fall_a);
    return value + slop;
}

/* sums beyond a cap that are below eps all the same: <= C prod M^T sum of T J(a)/M(a) e^((1-a) eps), any a < 0 */
FA_FUNC double fa_cap_put(fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double *rate_out,
                          double *rare_out)
{
    double a = -fa_min(job->taken_back > 0.0 ? -FA_MIX_PUT : INFINITY, fa_max(1.0, 0.3 * (line->plan.c - 1.0))),
           best = INFINITY, rare = 0.0, value, next;
    int i, b;
    *rate_out = 1.0;
    *rare_out = 0.0;
    if (job->walled) {
        *rate_out = 0.0;
        return fa_cap_wall_lost(job, eps, log_value);
    }
    if (job->is_add) { /* the payoff is at most 1 */
        *rate_out = 0.0;
        return fa_cap_exp(job->lost.log_q - log_value);
    }
    if (job->lost.log_q + eps - log_value < -30.0) /* at most e^eps times the chance of a step beyond the cap */
        return exp(job->lost.log_q + eps - log_value);
    if (job->fall_a > 0.0)
        a = -job->fall_a;
    for (b = 0; b < job->n; b++)
        if (job->blocks[b].pair)
            fa_cap_weigh_beyond(job->blocks + b);
    for (i = 0; i < 10; i++) {
        value = fa_cap_put_at(job, eps, a, &next);
        if (!(value == value))
            break;
        if (value == INFINITY) {
            a *= 0.3;
            continue;
        }
        if (value < best) {
            best = value;
            *rate_out = 1.0 - a;
        }
        if (best - log_value < -27.0)
            break;
        a = next;
    }
    for (b = 0; b < job->n && job->steps > 1.0; b++) /* a step beyond, and another one that falls far */
        rare += job->blocks[b].steps * fa_pieces_below(job->blocks + b);
    *rare_out = rare > 0.0 ? fa_cap_exp(job->lost.log_q + eps - log_value + log(rare)) : 0.0;
    return 1.001 * fa_cap_entry(best - log_value); /* a dip's window rounds by far less than 0.1 % */
}

/* points up to the end of the last run: no loop has a rest */
FA_INLINE int fa_cap_whole_runs(const fa_cap_line *line) { return (line->n + FA_RUN - 1) & ~(FA_RUN - 1); }

/* what the errors of one block make of every point, with those of the blocks before it: log of the factor by which |F|
 * may be too small, and the errors and what of them is no rounding, in units of the first block's */
FA_INLINE void fa_cap_gather(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line, const int first)
{
    const fa_cap_errors *errors = &block->errors;
    double c = line->plan.tilt, h = line->plan.h, inv_c2 = 1.0 / (c * c), steps = block->steps,
           power = job->has_floor ? 1.06 * steps : steps, weight = steps / job->blocks[0].steps;
    double fixed = errors->fixed, mean = errors->mean, near = errors->near, far = errors->far, *share = block->share,
           *grow = line->scratch[FA_OF_GROW], *rule = line->scratch[FA_OF_RULE],
           *err = line->scratch[FA_OF_ERROR], end = line->n * h,
           less0 = errors->less[0], less1 = errors->less[1], less2 = errors->less[2];
    const double *inverse = block->inverse, *unit = job->blocks[0].inverse;
    int k, n = fa_cap_whole_runs(line);
    FA_PRAGMA(omp simd)
    for (k = 0; k < n; k++) {
        double t = k * h,
               less = t * 64.0 <= end   ? less2
                      : t * 16.0 <= end ? less1
                      : t * 4.0 <= end  ? less0
                                        : 0.0,
               fine = fixed - less + mean * sqrt(c * c + t * t),
               all = fine + fa_min(far, near * (1.0 + t * t * inv_c2)), x = all * inverse[k],
               e = x < 0.1 ? power * x : 1.000001 * steps * fa_log_v(1.0 + x),
               w = first ? 1.0 : weight * inverse[k] / unit[k];
        share[k] = x;
        grow[k] = first ? e : grow[k] + e;
        rule[k] = first ? fine : rule[k] + w * fine;
        err[k] = first ? all : err[k] + w * all;
    }
}

/* with a floor, one block's part: sum of (T-1) log |Bb/B0|, of log |Bb/B0|, of the logs of the factors by which |B0|
 * and |Bb| may be too small, and of max(|B0|, |Bb|) with all errors, over |B0|; the largest error */
FA_INLINE void fa_cap_gather_floor(const fa_cap_block *block, const fa_cap_line *line, const int first)
{
    double steps = block->steps, large = block->errors.large;
    double *small_all = line->scratch[FA_LOW_REST], *small_once = line->scratch[FA_LOW_ONCE],
           *grow = line->scratch[FA_LOW_GROW], *grow_low = line->scratch[FA_LOW_FALL],
           *whole = line->scratch[FA_LOW_WHOLE], *worst = line->scratch[FA_LOW_WORST];
    const double *log_small = block->log_small, *inverse = block->inverse, *share = block->share;
    int k, n = fa_cap_whole_runs(line);
    FA_PRAGMA(omp simd)
    for (k = 0; k < n; k++) {
        double x = share[k], y = x + large * inverse[k], small = log_small[k], bb = fa_exp_plain_v(small);
        double low = steps * 1.000001 * fa_log_v(1.0 + y / bb), /* small is at least -600 */
               all = steps * 1.000001 * fa_log_v(fa_max(1.0, bb) + y);
        small_all[k] = first ? (steps - 1.0) * small : small_all[k] + (steps - 1.0) * small;
        small_once[k] = first ? small : small_once[k] + small;
        grow[k] = first ? 1.06 * steps * x : grow[k] + 1.06 * steps * x;
        grow_low[k] = first ? low : grow_low[k] + low;
        whole[k] = first ? all : whole[k] + all;
        worst[k] = first ? x : fa_max(worst[k], x);
    }
}

/* what errors e of B0 and e_D of D make of the points with floors, over exp(log_value), but for |R| sum of T e/|B0|
 * (with the other points).  x = e/|B0|, y = (e + e_D)/|B0|; where some x >= 0.1, |B0|^T and |Bb|^T as a whole, errors
 * included */
FA_FUNC double fa_cap_weigh_floor(const fa_cap_job *job, const fa_cap_line *line, double log_scale)
{
    const double *small_all = line->scratch[FA_LOW_REST], *small_once = line->scratch[FA_LOW_ONCE],
                 *grow = line->scratch[FA_LOW_GROW], *grow_low = line->scratch[FA_LOW_FALL],
                 *whole = line->scratch[FA_LOW_WHOLE], *worst = line->scratch[FA_LOW_WORST],
                 *log_all = line->log_all;
    double *parts = line->scratch[FA_LOW_PARTS], sum = 0.0,
           last = FA_CAP_ROUNDS + job->n;
    int b, k, n = fa_cap_whole_runs(line);
    for (b = 0; b < job->n; b++)
        if (b == 0)
            fa_cap_gather_floor(job->blocks, line, 1);
        else
            fa_cap_gather_floor(job->blocks + b, line, 0);
    memset(parts, 0, sizeof(double) * (size_t)n);
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const double *log_small = block->log_small, *ratio = block->ratio, *inverse = block->inverse,
                     *share = block->share;
        double large = block->errors.large, log_t = block->log_steps;
        FA_PRAGMA(omp simd)
        for (k = 0; k < n; k++) {
            double first = log_all[k] + log_scale + log_t + (small_all[k] + (small_once[k] - log_small[k])) + grow[k] +
                           grow_low[k];
            parts[k] += fa_exp_plain_v(fa_min(600.0, first)) *
                        (large * inverse[k] + 1.12 * share[k] * (ratio[k] + large * inverse[k]) +
                         FA_EPS * (last + 9.0 * fa_max(1.0, fa_log_v(fa_max(1e-300, ratio[k])) + FA_PI)) * ratio[k]);
        }
    }
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (k = 0; k < line->n; k++) {
        double all = 2.0 * fa_exp_plain_v(fa_min(600.0, log_all[k] + log_scale + whole[k]));
        sum += (k ? 1.0 : 0.5) * (worst[k] < 0.1 ? parts[k] : all);
    }
    return sum;
}

/* what errors of B0 and D make of the sum, over exp(log_value): n factors (1 + e/|B0|), and the errors of log F and its
 * angle, sums over blocks included */
FA_FUNC void fa_cap_weigh_points(const fa_cap_job *job, fa_cap_line *line, double eps, double log_value,
                                 fa_cap_ledger *out)
{
    const double *log_f = line->log_f, *arg_f = line->arg_f, *size_f = line->size, *gross = line->gross,
                 *whole = job->has_floor ? line->log_all : line->log_f, *grow = line->scratch[FA_OF_GROW],
                 *rule = line->scratch[FA_OF_RULE],
                 *err = line->scratch[FA_OF_ERROR];
    double c = line->plan.c, tilt = line->plan.tilt, h = line->plan.h,
           log_scale = line->ref - log_value - (c - 1.0) * (eps - line->eps), drift = 0.0, ref = fabs(line->ref),
           more = job->n > 1 ? 2.0 + job->n / 8.0 : 0.0, wide = 2.0 * job->mu2;
    double sum = 0.0, size = 0.0, low = 0.0, share = 0.0, scale = exp(fa_min(600.0, log_scale));
    int b, k, n = line->n;
    for (b = 0; b < job->n; b++) {
        drift += job->blocks[b].steps * fabs(job->blocks[b].nodes.mean);
        if (b == 0)
            fa_cap_gather(job, job->blocks, line, 1);
        else
            fa_cap_gather(job, job->blocks + b, line, 0);
    }
    FA_PRAGMA(omp simd reduction(+ : sum, size, share))
    for (k = 0; k < n; k++) {
        double t = k * h, f = size_f[k] * scale, by;
        (void)fa_exp_both_v(grow[k], &by);
        by = grow[k] <= 690.0 ? by : INFINITY;
        sum += f * by;
        share += f * by * rule[k] / err[k];
        size += f * (fabs(log_f[k]) + fabs(whole[k] - log_f[k]) + ref + fabs(arg_f[k]) + (c - 1.0 + t) * eps + 8.0 +
                     n / 64.0 + 2.0 * fa_log_v(c * c + t * t + 1.0) + (fabs(tilt) + t) * drift + more * gross[k] +
                     wide * (c * c + t * t));
    }
    if (job->has_floor)
        low = fa_cap_weigh_floor(job, line, log_scale);
    out->quadrature = 1.02 * h / FA_PI * share;
    out->rounding = log_scale < 600.0 ? 1.02 * h / FA_PI * (sum - share + low + 8.0 * FA_EPS * size) : INFINITY;
}

/* log of Chernoff's bound at v of what the points stand for, or of the small losses, over exp(log_value) */
FA_FUNC double fa_cap_log_weight(const fa_cap_job *job, double eps, double log_value, double v, int small_only)
{
    double k = v > 1.0 ? fa_cap_chernoff(job, v, small_only) : 0.0;
    return k + fa_log_b(v) + (small_only && job->walled ? v : 1.0 - v) * eps - log_value;
}

/* what aliases with v's weight, over exp(log_value), by Chernoff's bound there: that over e^x - 1, x = 2 pi |v - c|/h
 */
FA_FUNC double fa_cap_alias(const fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double v)
{
    double x = fabs(v - line->plan.c) * 2.0 * FA_PI / line->plan.h;
    return 1.001 * fa_cap_entry(fa_cap_log_weight(job, eps, log_value, v, 0) - x) / -expm1(-x);
}

/* entries of the points: errors of their nodes, what aliases */
FA_FUNC void fa_cap_close_points(fa_cap_job *job, fa_cap_line *line, double t, double eps, double log_value,
                                 fa_cap_ledger *out)
{
    const fa_cap_plan *p = &line->plan;
    double left;
    int b;
    for (b = 0; b < job->n; b++) {
        fa_cap_count_errors(job->blocks + b, line, &job->blocks[b].errors);
        out->ends = fa_max(out->ends, job->blocks[b].errors.fixed - job->blocks[b].moduli.line);
    }
    fa_cap_weigh_points(job, line, eps, log_value, out);
    out->alias = fa_cap_alias(job, line, eps, log_value, p->right);
    left = fa_cap_alias(job, line, eps, log_value, p->left);
    if (!(left + out->put + out->rare < FA_CAP_SMALL)) { /* the moduli at the right point may say nothing left of it */
        fa_cap_measure(job, line, t, fa_cap_tilt(job, p->left));
        left = fa_cap_alias(job, line, eps, log_value, p->left);
        out->put = fa_cap_put(job, line, eps, log_value, &out->put_rate, &out->rare);
        fa_cap_measure(job, line, t, fa_cap_tilt(job, p->right));
    }
    out->alias += left;
}

/* all entries at eps, delta there about exp(log_value).  Adds points while the tail asks for them */
FA_FUNC void fa_cap_close_ledger(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double eps,
                                 double log_value, fa_cap_ledger *out)
{
    const fa_cap_plan *p = &line->plan;
    double t, both;
    memset(out, 0, sizeof(*out));
    if (!p->is_bare)
        out->tail = fa_cap_close_tail(job, line, effort, eps, log_value);
    t = line->n * p->h;
    fa_cap_measure(job, line, t, fa_cap_tilt(job, p->right));
    out->closed = fa_cap_closed_error(job, eps, log_value);
    out->put = fa_cap_put(job, line, eps, log_value, &out->put_rate, &out->rare);
    if (job->has_floor)
        out->floor = fa_cap_entry(fa_cap_log_weight(job, eps, log_value, p->low, 1));
    if (p->is_bare)
        out->floor += 1.001 * fa_cap_entry(fa_cap_log_weight(job, eps, log_value, p->right, 0));
    else
        fa_cap_close_points(job, line, t, eps, log_value, out);
    both = out->tail + out->quadrature + out->rounding + out->closed + 8.0 * FA_EPS * (4.0 + fabs(log_value));
    out->up = both + out->put + out->rare + out->floor;
    out->down = both + out->alias;
    if (!(out->up < INFINITY) || !(out->down < INFINITY))
        out->up = out->down = INFINITY;
}

#endif
