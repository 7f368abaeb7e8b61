/* invert/root.h -- a parameter that meets a target, next to the boundary: searches in its logarithm.
 *
 * A search proves nothing: the check at its end is cold, as a caller would start it.
 */
#ifndef FA_ROOT_H
#define FA_ROOT_H

#include "trial.h"

#define FA_CALIBRATION_WIDTH 3e-10
#define FA_SLACK             3e-9 /* how far below the target epsilon may end, relative */
#define FA_SKETCH_NOISE      3e-7 /* of the excess, in a sketch of a few digits */

/* Where the parameter is looked for; sign +1: epsilon falls with it (sigma), -1: it grows (q). */
typedef struct {
    double start, low, high;
    int sign;
} fa_range;

/* A parameter that meets the target and one that does not, with their excesses. */
typedef struct {
    double good, bad, w_good, w_bad;
} fa_bracket;

/* d excess/d log x, and how far it may be off, relative: about the distance it was taken over. */
typedef struct {
    double value, doubt;
} fa_slope;

/* fa_slope_by -- the slope by two points, where they tell; what it was elsewhere. */
FA_INLINE fa_slope fa_slope_by(const fa_range *range, double by, double gain, fa_slope before)
{
    double s = gain / by;
    int usual = range->sign > 0 ? s < -0.1 && s > -20.0 : s > 0.01 && s < 20.0;
    fa_slope out = {s, fa_min(0.5, fabs(by)) + FA_SKETCH_NOISE / fabs(by)};
    return usual && FA_SKETCH_NOISE / fabs(by) < before.doubt ? out : before;
}

/* fa_secant -- where the excess is just below 0, by secant steps in log x: sketches first, with more digits the nearer
 * it is.
 *   returns  1, and x: with `most` FULLY it meets the target and its excess is above -FA_SLACK, else it is about there;
 *            0 where epsilon is not smooth, or not to be had so */
FA_FUNC int fa_secant(const fa_target *t, const fa_range *range, fa_effort most, double *x_out)
{
    static const double near[] = {[FA_TRY_SADDLE] = 0.003, [FA_TRY_ROUGHLY] = 1e-5, [FA_TRY_FINELY] = 1e-9};
    double lx = log(fa_min(fa_max(range->start, range->low), range->high)), before = lx, w_before = 0.0, w, step;
    fa_slope slope = {range->sign > 0 ? -1.2 : 0.8, 0.5};
    fa_effort effort = fa_is_sketched(t) ? FA_TRY_SADDLE : FA_TRY_FULLY;
    fa_sketch_start start = {0.0, 0};
    int i, n_fully = 0;
    for (i = 0; i < 24 && n_fully < 9; i++) {
        *x_out = exp(lx);
        n_fully += effort == FA_TRY_FULLY;
        w = effort == FA_TRY_FULLY ? fa_try(t, *x_out, NAN).excess : fa_try_sketch(t, *x_out, effort, &start);
        if (effort == FA_TRY_FULLY && w <= 0.0 && w > -FA_SLACK)
            return 1;
        if (lx != before)
            slope = fa_slope_by(range, lx - before, w - w_before, slope);
        step = fa_max(-0.7, fa_min(0.7, -(w + FA_SLACK / 3.0) / slope.value));
        before = lx;
        w_before = w;
        lx += step;
        if (!(lx > log(range->low) && lx < log(range->high)))
            return 0;
        if (effort < FA_TRY_FULLY && fabs(step) * slope.doubt < near[effort]) {
            if (effort == most) {
                *x_out = exp(lx);
                return 1;
            }
            if (effort == FA_TRY_SADDLE) {
                before = lx;
                slope.doubt = fa_max(slope.doubt, 0.05);
            }
            effort = (fa_effort)(effort + 1);
        }
    }
    return 0;
}

/* fa_enclose -- steps as long as the excess, from a point tried, until one parameter meets the target and one does not.
 *   returns  FA_OK, also where the whole range meets it (good = bad), or FA_NOT_MET: nothing in the range does
 *   last     in: the point tried, out: the last one
 *   why      epsilon falls at least like 1/sigma and grows at least like q^(1/2) near the targets of interest */
FA_FUNC int fa_enclose(const fa_target *t, const fa_range *range, fa_bracket *b, fa_trial *last)
{
    double reach = 1.1, factor;
    while (b->w_bad <= 0.0) { /* towards the boundary */
        factor = exp(reach * fa_min(fa_max(-b->w_bad, 1e-6), 1.0));
        b->good = b->bad;
        b->w_good = b->w_bad;
        if (range->sign > 0 ? b->good <= range->low : b->good >= range->high)
            return FA_OK;
        b->bad = range->sign > 0 ? fa_max(b->good / factor, range->low) : fa_min(b->good * factor, range->high);
        reach *= 3.0;
        *last = fa_try(t, b->bad, last->log_a);
        b->w_bad = last->excess;
    }
    while (b->w_good > 0.0) {
        factor = exp(reach * fa_min(fa_max(b->w_good, 1e-6), 1.0));
        b->bad = b->good;
        b->w_bad = b->w_good;
        if (range->sign > 0 ? b->bad >= range->high : b->bad <= range->low)
            return FA_NOT_MET;
        b->good = range->sign > 0 ? fa_min(b->bad * factor, range->high) : fa_max(b->bad / factor, range->low);
        reach *= 3.0;
        *last = fa_try(t, b->good, last->log_a);
        b->w_good = last->excess;
    }
    return FA_OK;
}

/* fa_next -- log x of the next point inside a bracket: of regula falsi, or its middle.
 *   why      a third of the wanted width beyond the root, so that the bracket can close */
FA_FUNC double fa_next(const fa_bracket *b, int bisect)
{
    double lg = log(b->good), lb = log(b->bad), size = fabs(lb - lg), near = FA_CALIBRATION_WIDTH / 3.0,
           next = lg - b->w_good * (lb - lg) / (b->w_bad - b->w_good);
    if (bisect || !(fabs(next - lg) <= size))
        next = 0.5 * (lg + lb);
    if (fabs(next - lg) < near)
        return lg + (lb > lg ? 1.0 : -1.0) * fa_min(near, 0.5 * size);
    if (fabs(next - lb) < near)
        return lb + (lg > lb ? 1.0 : -1.0) * fa_min(near, 0.5 * size);
    return next;
}

/* fa_narrow -- closes a bracket: regula falsi in log x (Anderson-Bjorck), guarded by bisection.
 *   last     the last point tried
 *   why      epsilon may jump: the middle is taken where the bracket has not halved in four steps */
FA_FUNC void fa_narrow(const fa_target *t, fa_bracket *b, fa_trial *last)
{
    double width = INFINITY, x, w, keep;
    int i, side = 0;
    for (i = 0; i < 200 && fabs(log(b->good / b->bad)) > FA_CALIBRATION_WIDTH; i++) {
        int slow = 0;
        if (i % 4 == 3) {
            double size = fabs(log(b->bad) - log(b->good));
            slow = size > 0.5 * width;
            width = size;
        }
        x = exp(fa_next(b, slow));
        if (x == b->good || x == b->bad)
            break;
        *last = fa_try(t, x, last->log_a);
        w = last->excess;
        if (w <= 0.0) {
            keep = 1.0 - w / b->w_good;
            if (side == 1)
                b->w_bad *= keep > 0.0 ? keep : 0.5;
            b->good = x;
            b->w_good = w;
            side = 1;
        }
        else {
            keep = 1.0 - w / b->w_bad;
            if (side == -1)
                b->w_good *= keep > 0.0 ? keep : 0.5;
            b->bad = x;
            b->w_bad = w;
            side = -1;
        }
    }
}

/* fa_solve -- a parameter in a range that meets the target, next to the boundary.
 *   status   FA_OK, or FA_NOT_MET where none does */
FA_FUNC double fa_solve(const fa_target *t, const fa_range *range, int *status_out)
{
    double x = fa_min(fa_max(range->start, range->low), range->high);
    fa_bracket b;
    fa_trial last;
    int i;
    *status_out = FA_OK;
    if (t->exact && t->eps > 0.0 && fa_secant(t, range, FA_TRY_FULLY, &x))
        return x;
    last = fa_try(t, x, NAN);
    b = (fa_bracket){.good = x, .bad = x, .w_good = last.excess, .w_bad = last.excess};
    *status_out = fa_enclose(t, range, &b, &last);
    if (*status_out != FA_OK)
        return b.bad;
    fa_narrow(t, &b, &last);
    x = b.good;
    for (i = 0; i < 40; i++) { /* the search may end an ulp elsewhere */
        double away = 1.0 + ldexp(1e-14, i);
        if (fa_meets(t, x))
            return x;
        x = range->sign > 0 ? fa_min(x * away, range->high) : fa_max(x / away, range->low);
    }
    *status_out = FA_NOT_MET;
    return x;
}

#endif
