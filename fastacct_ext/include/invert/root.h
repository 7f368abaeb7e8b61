/* invert/root.h -- a parameter that meets a target, next to the boundary: searches in its logarithm.
 *
 * A search proves nothing: the check at its end is cold, as a caller would start it.
 */
#ifndef FA_ROOT_H
#define FA_ROOT_H

#include "trial.h"

#define FA_CALIBRATION_WIDTH 3e-10

/* Where the parameter is looked for; sign +1: epsilon falls with it (sigma), -1: it grows (q). */
typedef struct {
    double start, low, high;
    int sign;
} fa_range;

/* A parameter that meets the target and one that does not, with their excesses. */
typedef struct {
    double good, bad, w_good, w_bad;
} fa_bracket;

/* fa_secant -- where the excess is about 0, by secant steps in log x: a few digits first.
 *   returns  1, log x and the size of the last step; 0 where epsilon is not smooth, or not to be had so
 *   effort   out: what it took */
FA_FUNC int fa_secant(const fa_target *t, const fa_range *range, double *log_x, double *last_step, fa_effort *effort)
{
    double lx = log(fa_min(fa_max(range->start, range->low), range->high)), before = NAN, w_before = NAN,
           slope = range->sign > 0 ? -1.2 : 0.8;
    int i, n_fine = 0;
    *effort = FA_TRY_ROUGHLY;
    for (i = 0; i < 14; i++) {
        fa_trial at = fa_try(t, exp(lx), *effort, NAN);
        double step;
        if (at.fell_back && *effort == FA_TRY_ROUGHLY) { /* a few digits are not to be had */
            *effort = FA_TRY_QUICKLY;
            continue;
        }
        if (at.fell_back || !(fabs(at.excess) < 2.0))
            return 0;
        if (*effort == FA_TRY_QUICKLY && !(at.width < 1e-9)) { /* short lines do not do */
            *effort = FA_TRY_FULLY;
            continue;
        }
        n_fine += *effort != FA_TRY_ROUGHLY;
        if (lx != before && before == before) {
            double s = (at.excess - w_before) / (lx - before);
            if (range->sign > 0 ? s < -0.1 && s > -20.0 : s > 0.05 && s < 20.0)
                slope = s;
        }
        step = -at.excess / slope;
        before = lx;
        w_before = at.excess;
        lx += fa_max(-0.7, fa_min(0.7, step));
        if (!(lx > log(range->low) && lx < log(range->high)))
            return 0;
        if (n_fine >= 2 && fabs(step) < 1e-7) {
            *log_x = lx;
            *last_step = fabs(step);
            return 1;
        }
        if (fabs(step) < 3e-3 && *effort == FA_TRY_ROUGHLY)
            *effort = FA_TRY_QUICKLY;
    }
    return 0;
}

/* fa_solve_smooth -- x next to the boundary where epsilon is smooth, on its safe side; NAN where that does not work.
 *   effort   out: with which to look for it otherwise
 *   why      one direction, nearly always the larger, is half the work, and the check at the end is of both */
FA_FUNC double fa_solve_smooth(const fa_target *t, const fa_range *range, fa_effort *effort)
{
    int i, found, directions = t->exact->directions;
    double log_x = NAN, step = 0.0, margin;
    if (directions == (FA_ADD | FA_REMOVE))
        t->exact->directions = FA_REMOVE;
    found = fa_secant(t, range, &log_x, &step, effort);
    t->exact->directions = directions;
    if (*effort == FA_TRY_ROUGHLY)
        *effort = FA_TRY_QUICKLY;
    for (i = 0, margin = fa_max(2e-11, 1e-3 * step); found && i < 3; i++, margin *= 2.0) {
        double x = exp(log_x + range->sign * margin);
        if (fa_meets(t, x))
            return x;
    }
    return NAN;
}

/* fa_enclose -- steps as long as the excess, from a point tried, until one parameter meets the target and one does not.
 *   returns  FA_OK, also where the whole range meets it (good = bad), or FA_NOT_MET: nothing in the range does
 *   last     in: the point tried, out: the last one
 *   why      epsilon falls at least like 1/sigma and grows at least like q^(1/2) near the targets of interest */
FA_FUNC int fa_enclose(const fa_target *t, const fa_range *range, fa_effort effort, fa_bracket *b, fa_trial *last)
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
        *last = fa_try(t, b->bad, effort, last->log_a);
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
        *last = fa_try(t, b->good, effort, last->log_a);
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
FA_FUNC void fa_narrow(const fa_target *t, fa_effort effort, fa_bracket *b, fa_trial *last)
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
        *last = fa_try(t, x, effort, last->log_a);
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
 *   status   FA_OK, or FA_NOT_MET where none does
 *   why      what was found with short lines is looked at once more with all means, from there */
FA_FUNC double fa_solve(const fa_target *t, const fa_range *range, int *status_out)
{
    double x = range->start;
    fa_effort effort = FA_TRY_FULLY;
    fa_bracket b;
    fa_trial last;
    int i;
    if (t->exact) {
        double smooth = fa_solve_smooth(t, range, &effort);
        *status_out = FA_OK;
        if (smooth == smooth)
            return smooth;
    }
    for (;;) {
        x = fa_min(fa_max(x, range->low), range->high);
        last = fa_try(t, x, effort, NAN);
        if (effort == FA_TRY_QUICKLY && last.fell_back) { /* Renyi's bound may lead far away */
            effort = FA_TRY_FULLY;
            last = fa_try(t, x, effort, NAN);
        }
        b = (fa_bracket){.good = x, .bad = x, .w_good = last.excess, .w_bad = last.excess};
        *status_out = fa_enclose(t, range, effort, &b, &last);
        if (*status_out != FA_OK)
            return b.bad;
        fa_narrow(t, effort, &b, &last);
        x = b.good;
        if (effort == FA_TRY_FULLY || !(last.fell_back || !(last.width < 1e-9)))
            break;
        effort = FA_TRY_FULLY;
    }
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
