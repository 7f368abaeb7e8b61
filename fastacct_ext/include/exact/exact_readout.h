/* exact/exact_readout.h -- exact epsilon, delta and their inverses for whole jobs: directions, edge cases, fall-back.
 *
 * add_remove is the larger of two directions, each composed separately.  Most runs have delta_add < delta_remove by a
 * factor: then one Chernoff bound, or one evaluation at the answer of `remove`, settles the matter.
 */
#ifndef FA_EXACT_READOUT_H
#define FA_EXACT_READOUT_H

#include "exact_job.h"

/* log delta(eps) of releases that see every record, and its slope */
FA_FUNC fa_interval fa_gaussian_log_delta_of(fa_exact *e, double eps)
{
    fa_interval r = {-INFINITY, 0.0};
    double mu = sqrt(e->mu2), a = 0.5 * mu - eps / mu, log_delta, pad, unused;
    if (mu > 1e150 || !(mu > 1e-150)) {
        r.upper = mu > 1.0 ? 0.0 : log(mu);
        return r;
    }
    log_delta = fa_gaussian_log_delta(mu, eps);
    pad = 8.0 * FA_EPS * (fabs(a) + 1.0) * (mu + eps / mu + 1.0) +
          8.0 * FA_EPS * fabs(fa_max(FA_LEAST, log_delta));
    r.upper = fa_min(0.0, fa_max(FA_LEAST, log_delta + pad));
    r.lower = log_delta - 2.0 * (1e-13 + pad + 8.0 * FA_EPS * (fabs(a) + 1.0) * 64.0 / mu);
    /* -Phi(a - mu) e^eps / delta */
    e->slope = -fa_mills(mu - a, &unused) * exp(-0.5 * a * a - FA_LOG_SQRT_2PI - 0.5 * (r.lower + r.upper));
    return r;
}

/* what reads a direction: the line; that of few added steps next to their largest loss, by plain sums; rays and
 * lattices, where nothing decays */
typedef enum { FA_NO_READER, FA_BY_LINE, FA_BY_WALL, FA_BY_RAYS } fa_reader;

/* what a direction is read by, in this order, until an answer is narrow.  Away from a largest loss sums of second order
 * come first */
FA_FUNC void fa_readers_of(const fa_cap_job *job, fa_reader *out)
{
    int other;
    if (fa_flat_is_for(job)) {
        other = fa_flat_is_first(job);
        out[!other] = FA_BY_RAYS;
        out[other] = fa_flat_fallen(job) > 0.0 || job->mu2 > 0.0 ? FA_BY_LINE : FA_NO_READER;
        return;
    }
    other = !fa_walled_first(job);
    out[!other] = FA_BY_LINE;
    out[other] = fa_may_be_walled(job) ? FA_BY_WALL : FA_NO_READER;
}

/* width, relative for eps, beyond which another reader is asked */
FA_INLINE double fa_width_of(const fa_cap_job *job)
{
    return fa_flat_is_long(job) ? FA_LONG_ENOUGH : FA_NARROW;
}

FA_FUNC int fa_reader_log_delta(fa_exact *e, int way, fa_reader by, double eps, fa_interval *out)
{
    fa_cap_work *work = e->capped + way;
    double slope;
    if (by == FA_NO_READER)
        return 0;
    fa_set_wall(work, by == FA_BY_WALL);
    if (!(by == FA_BY_RAYS ? fa_flat_log_delta(&work->job, e->flat + way, eps, out, &slope)
                           : fa_capped_log_delta(e, work, eps, out, &slope)))
        return 0;
    e->slope = slope;
    return 1;
}

/* log delta of a job that has no closed form */
FA_FUNC fa_interval fa_read_log_delta(fa_exact *e, int way, double eps)
{
    fa_interval r = {-INFINITY, 0.0}, d;
    fa_reader by[2];
    double before = e->end[way] * (1.0 - FA_BEFORE_END);
    int i, found = 0;
    fa_readers_of(&e->capped[way].job, by);
    /* next to the largest loss what is certified differs between points: delta is at most that a little before */
    if (by[0] == FA_BY_WALL && eps > before && fa_reader_log_delta(e, way, FA_BY_WALL, before, &d)) {
        r.upper = d.upper;
        return r;
    }
    for (i = 0; i < 2 && !(found && r.upper - r.lower <= fa_width_of(&e->capped[way].job)); i++)
        if (fa_reader_log_delta(e, way, by[i], eps, &d)) {
            r = fa_share(r, d);
            found = 1;
        }
    if (!found) {
        fa_set_wall(e->capped + way, 0);
        r.upper = fa_cap_upper(e->capped + way, eps, &e->slope);
    }
    return r;
}

/* log delta(eps) of one direction */
FA_FUNC fa_interval fa_log_delta_way(fa_exact *e, int way, double eps)
{
    fa_interval r = {-INFINITY, 0.0};
    e->slope = NAN;
    if (eps >= e->end[way] * (1.0 + 8.0 * FA_EPS)) {
        r.upper = -INFINITY;
        return r;
    }
    if (e->only_gaussian)
        return fa_gaussian_log_delta_of(e, eps);
    if (fa_is_one_step(e))
        return e->q > 0.0 ? fa_one_step(e->sigma, e->q, way ? -1 : 1, eps)
                          : fa_one_step_mixture(e->pairs, way ? -1 : 1, eps);
    if (e->capped[way].job.n == 0)
        return r;
    return fa_read_log_delta(e, way, eps);
}

FA_FUNC fa_interval fa_exact_log_delta_way(fa_exact *e, int way, double eps)
{
    fa_interval r = fa_log_delta_way(e, way, eps);
    if (eps == 0.0 && !fa_is_narrow(r)) { /* the total variation, in either direction; its slopes differ */
        double slope = e->slope;
        r = fa_share(r, fa_log_delta_way(e, !way, 0.0));
        e->slope = slope;
    }
    return fa_safe(r, -INFINITY, 0.0);
}

/* where delta has a closed form, log of one bound of it over log_delta's; below 0: eps is enough for it */
FA_FUNC double fa_closed_gap(fa_exact *e, int way, double eps, double log_delta, int side)
{
    fa_interval d = fa_exact_log_delta_way(e, way, eps);
    double gap = side ? d.lower - (log_delta + e->off) : d.upper - (log_delta - e->off);
    return gap == 0.0 && !side ? -1e-300 : gap;
}

/* eps at log_delta < 0 where delta has a closed form: bisection, once for the smallest eps proved enough, once for the
 * largest proved not enough; of mixtures, whose delta is dear, with three secants (Illinois's) between two halves */
FA_FUNC fa_interval fa_closed_eps(fa_exact *e, int way, double log_delta)
{
    double mu = e->only_gaussian ? sqrt(e->mu2) : 1.0 / (e->q > 0.0 ? e->sigma : e->pairs->sigma), end = e->end[way];
    fa_interval r = {0.0, INFINITY};
    int i, side, is_dear = !e->only_gaussian && !(e->q > 0.0);
    for (side = 0; side < 2; side++) {
        double low = 0.0, high = fa_min(0.5 * mu * mu + 3.0 * mu + 1.0, end), gap,
               above = fa_closed_gap(e, way, 0.0, log_delta, side), below = -INFINITY;
        if (above < 0.0 && side == 0)
            r.upper = 0.0;
        if (above < 0.0)
            continue;
        for (i = 0; i < 1100 && high < end && !((below = fa_closed_gap(e, way, high, log_delta, side)) < 0.0); i++) {
            low = high;
            above = below;
            high = fa_min(2.0 * high, end);
        }
        below = high < end ? below : -INFINITY;
        for (i = 0; i < 200 && high < INFINITY && high - low > 4.0 * FA_EPS * high; i++) {
            double mid = 0.5 * (low + high), least = 2.0 * FA_EPS * high;
            if (is_dear && i % 4 && above < INFINITY && below > -INFINITY)
                mid = fa_max(low + least, fa_min(high - least, low + (high - low) * above / (above - below)));
            gap = fa_closed_gap(e, way, mid, log_delta, side);
            *(gap < 0.0 ? &high : &low) = mid;
            above = gap < 0.0 ? 0.5 * above : gap;
            below = gap < 0.0 ? gap : 0.5 * below;
        }
        if (high < INFINITY)
            *(side ? &r.lower : &r.upper) = side ? low : high >= end ? end * (1.0 + 8.0 * FA_EPS) : high;
    }
    return r;
}

FA_FUNC int fa_reader_eps(fa_exact *e, int way, fa_reader by, double log_delta, fa_interval *out)
{
    fa_cap_work *work = e->capped + way;
    if (by == FA_NO_READER)
        return 0;
    fa_set_wall(work, by == FA_BY_WALL);
    return by == FA_BY_RAYS ? fa_flat_eps(&work->job, e->flat + way, log_delta, out)
                            : fa_capped_eps(work, log_delta, out);
}

/* eps, as fa_read_log_delta */
FA_FUNC fa_interval fa_read_eps(fa_exact *e, int way, double log_delta)
{
    fa_interval r = {0.0, INFINITY}, found;
    fa_reader by[2];
    int i;
    if (fa_is_at_end(e, way, log_delta, FA_AT_END, &r))
        return r;
    fa_readers_of(&e->capped[way].job, by);
    for (i = 0; i < 2 && !(r.upper < INFINITY && r.upper - r.lower <= fa_width_of(&e->capped[way].job) * r.upper); i++)
        if (fa_reader_eps(e, way, by[i], log_delta, &found))
            r = fa_share(r, found);
        else if (by[i] == FA_BY_WALL && fa_is_at_end(e, way, log_delta, FA_NEAR_END, &r))
            return r;
    if (r.upper == INFINITY) {
        fa_set_wall(e->capped + way, 0);
        r.upper = fa_cap_eps_upper(e->capped + way, log_delta - e->off);
    }
    r.upper = fa_min(r.upper, fa_max(0.0, e->end[way] * (1.0 + 8.0 * FA_EPS))); /* a largest loss may be below 0 */
    return r;
}

FA_FUNC fa_interval fa_eps_way(fa_exact *e, int way, double log_delta)
{
    if (e->only_gaussian || fa_is_one_step(e))
        return fa_closed_eps(e, way, log_delta);
    if (e->capped[way].job.n == 0)
        return (fa_interval){0.0, INFINITY};
    return fa_read_eps(e, way, log_delta);
}

FA_FUNC fa_interval fa_exact_eps_way(fa_exact *e, int way, double log_delta)
{
    return fa_safe(fa_eps_way(e, way, log_delta), 0.0, INFINITY);
}

/* whether delta_add(eps) <= exp(log_delta) by what costs next to nothing: the largest loss, one step's closed form, or
 * Chernoff's bound on the nodes of the other direction's line */
FA_FUNC int fa_add_is_below(fa_exact *e, double eps, double log_delta)
{
    if (e->symmetric || eps >= e->end[1] * (1.0 + 8.0 * FA_EPS))
        return 1;
    if (fa_is_one_step(e))
        return fa_exact_log_delta_way(e, 1, eps).upper <= log_delta;
    return e->capped[0].certified && !e->capped[0].job.is_add && eps > 0.0 &&
           fa_cap_add_bound(&e->capped[0].job, &e->capped[0].line, eps, log_delta) <= log_delta;
}

FA_FUNC fa_interval fa_exact_log_delta(fa_exact *e, double eps)
{
    fa_interval r = {-INFINITY, 0.0}, add;
    double slope;
    if (e->directions == FA_WAYS_ADD && !e->symmetric)
        return fa_exact_log_delta_way(e, 1, eps);
    r = fa_exact_log_delta_way(e, 0, eps);
    slope = e->slope;
    if (e->directions == FA_WAYS_REMOVE || e->symmetric || eps == 0.0 ||
        (r.lower > -INFINITY && fa_add_is_below(e, eps, r.lower))) {
        e->slope = slope;
        return r;
    }
    add = fa_exact_log_delta_way(e, 1, eps);
    if (add.upper < r.upper)
        e->slope = slope;
    r.lower = fa_max(r.lower, add.lower);
    r.upper = fa_max(r.upper, add.upper);
    return r;
}

FA_FUNC fa_interval fa_exact_eps(fa_exact *e, double log_delta)
{
    fa_interval r = {0.0, INFINITY}, add;
    if (e->directions == FA_WAYS_ADD && !e->symmetric)
        return fa_exact_eps_way(e, 1, log_delta);
    r = fa_exact_eps_way(e, 0, log_delta);
    /* at eps = 0 both directions are the total variation distance */
    if (e->directions == FA_WAYS_REMOVE || e->symmetric ||
        (r.upper < INFINITY && (r.upper == 0.0 || fa_add_is_below(e, r.upper, log_delta - e->off))) ||
        fa_add_is_soon_below(e, r.upper, log_delta - e->off))
        return r;
    add = fa_exact_eps_way(e, 1, log_delta);
    r.lower = fa_max(r.lower, add.lower);
    r.upper = fa_max(r.upper, add.upper);
    return r;
}

/* the Renyi bound, for what the line cannot certify: single sampled block only */
FA_FUNC double fa_exact_fallback(fa_exact *e, double target, int for_delta)
{
    fa_run run = {1, e->moment, &e->steps, NAN};
    fa_renyi_ask ask = {for_delta, FA_RULE_CKS, 0, 0};
    double order, value;
    int status;
    if (!(e->q > 0.0))
        return for_delta ? 1.0 : INFINITY;
    fa_log_moment_init(e->moment, e->sigma, e->q);
    value = fa_run_read(&run, &ask, target, &order, &status);
    return for_delta ? fa_min(value, 1.0) : fa_max(value, 0.0);
}

#define FA_FAR     25.0   /* deviations of the losses from which on Chernoff's bound of delta is asked first ... */
#define FA_NOTHING -745.2 /* ... and its log below which no double but the least one is above delta */

/* whether Chernoff's bound alone says that delta(eps) is below every double, in each direction that is asked: of all
 * losses, or where a rare large one decides of the others */
FA_FUNC int fa_is_nothing(fa_exact *e, double eps)
{
    const fa_cap_job *job = &e->capped[0].job;
    fa_run run = {1, e->moment, &e->steps, NAN};
    double order, slope;
    int status, way, good = e->q > 0.0 && e->q < 1.0 && !fa_is_one_step(e) &&
                            eps > FA_FAR * sqrt(job->variance) + 0.5 * job->variance;
    if (!good || !(e->directions & FA_WAYS_REMOVE))
        return 0;
    fa_log_moment_init(e->moment, e->sigma, e->q);
    if (fa_run_searched(&run, (fa_aim){1, FA_RULE_CKS, eps}, eps, &order, &status) < FA_NOTHING)
        return 1;
    for (way = 0; good && way < 2; way++)
        if (e->directions & (way ? FA_WAYS_ADD : FA_WAYS_REMOVE) && eps < e->end[way] * (1.0 + 8.0 * FA_EPS)) {
            fa_set_wall(e->capped + way, 0);
            good = fa_cap_upper(e->capped + way, eps, &slope) < FA_NOTHING;
        }
    return good;
}

/* log of the smaller of 1 - (1-q)^steps, the record took part at all, and steps * delta_1(0), for total variation is
 * subadditive; of a job, the latter sum.  Bounds delta at every epsilon >= 0, both directions; 0 where not known */
FA_FUNC double fa_participation(const fa_exact *e)
{
    double any, sum, each;
    if (!(e->q > 0.0 && e->q < 1.0))
        return e->apart;
    any = log(-expm1(e->steps * log1p(-e->q)));
    each = log(erf(fa_min(0.35355339059327376220 / e->sigma, 6.0)));
    sum = log(e->steps) + log(e->q) + each + 1e-14;
    return fa_min(0.0, fa_min(any, sum) + 8.0 * FA_EPS * (1.0 + fabs(log(e->q)) + fabs(each) + fabs(log(e->steps))));
}

/* the status of an interval of eps, delta or log delta: its width decides, relative to the upper bound, and nothing
 * else */
FA_INLINE int fa_status_of(double lower, double upper, fa_quantity what)
{
    if (what == FA_GIVE_LOG_DELTA)
        return upper == -INFINITY || upper - lower <= FA_TIGHT ? FA_OK : FA_LOOSE;
    return upper == INFINITY ? FA_NOT_MET : upper - lower <= FA_TIGHT * upper ? FA_OK : FA_LOOSE;
}

/* the largest loss of the directions that are asked, which is eps at delta 0 */
FA_FUNC fa_interval fa_largest_loss(const fa_exact *e)
{
    fa_interval r = {0.0, 0.0};
    int d;
    for (d = 0; d < 2; d++) {
        if (!(e->directions & (d ? FA_WAYS_ADD : FA_WAYS_REMOVE)))
            continue;
        r.upper = fa_max(r.upper, e->end[d] * (1.0 + 8.0 * FA_EPS));
        if (e->end_off[d] < INFINITY) /* else nothing is known of it */
            r.lower = fa_max(r.lower, (e->end[d] - e->end_off[d]) * (1.0 - 8.0 * FA_EPS));
    }
    return r;
}

/* one cell, the job set: lower and upper bounds of eps, delta or log delta */
FA_FUNC int fa_exact_read(fa_exact *e, double target, fa_quantity what, double *lower_out, double *upper_out)
{
    fa_interval r;
    e->slope = NAN;
    if (what == FA_GIVE_EPSILON) {
        if (target >= 1.0) {
            *lower_out = *upper_out = 0.0;
            return FA_OK;
        }
        if (!(target > 0.0)) {
            r = fa_largest_loss(e);
            *lower_out = r.lower;
            *upper_out = r.upper;
            return r.upper < INFINITY ? FA_OK : FA_NOT_MET;
        }
        if (fa_participation(e) <= log(target) - e->off - 4.0 * FA_EPS * (1.0 - log(target))) {
            *lower_out = *upper_out = 0.0;
            return FA_OK;
        }
        r = fa_exact_eps(e, log(target));
        if (!(r.upper < INFINITY) || !(r.upper - r.lower <= FA_TIGHT * r.upper))
            r = fa_share(r, (fa_interval){0.0, fa_exact_fallback(e, target, 0)});
        r = fa_safe(r, 0.0, INFINITY);
        *lower_out = r.lower;
        *upper_out = r.upper;
        return fa_status_of(*lower_out, *upper_out, what);
    }
    if (target == INFINITY) {
        *lower_out = *upper_out = what == FA_GIVE_LOG_DELTA ? -INFINITY : 0.0;
        return FA_OK;
    }
    if (what == FA_GIVE_DELTA && fa_is_nothing(e, target)) {
        *lower_out = 0.0;
        *upper_out = 0x1p-1074;
        return FA_LOOSE;
    }
    r = fa_exact_log_delta(e, target);
    if (r.upper > -INFINITY && !(r.upper - r.lower <= FA_TIGHT)) {
        double d = fa_exact_fallback(e, target, 1);
        if (d < 1.0 && d > 0.0)
            r = fa_share(r, (fa_interval){-INFINITY, log(d) * (1.0 - 2.0 * FA_EPS) + 2.0 * FA_EPS});
    }
    r = fa_safe(fa_share(r, (fa_interval){-INFINITY, fa_participation(e)}), -INFINITY, 0.0);
    if (what == FA_GIVE_LOG_DELTA) {
        *lower_out = r.lower;
        *upper_out = r.upper;
    }
    else {
        *upper_out = r.upper == -INFINITY ? 0.0 : fa_min(1.0, exp(r.upper) * (1.0 + 4.0 * FA_EPS) + 0x1p-1074);
        *lower_out = fa_max(0.0, exp(r.lower) * (1.0 - 4.0 * FA_EPS) -
                                     (r.lower < -707.0 ? 0x1p-1074 : 0.0)); /* below the normal range it rounds up */
    }
    return fa_status_of(*lower_out, *upper_out, what);
}

#endif
