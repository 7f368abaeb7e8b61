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

/* A parameter that was tried, with its excess; one that meets the target and one that does not. */
typedef struct {
    double x, w;
} fa_tried;

typedef struct {
    fa_tried good, bad;
} fa_bracket;

/* The secant method: where it is, the slope d excess/d log x, how far that may be off, relative, the point before with
 * its excess, and the last ones with an excess above 0 and below. */
typedef struct {
    double log_x, slope, doubt, before, w_before, above, below;
} fa_secant;

/* fa_secant_at -- at the start of the range, with slopes that are usual. */
FA_INLINE fa_secant fa_secant_at(const fa_range *range)
{
    double lx = log(fa_min(fa_max(range->start, range->low), range->high));
    return (fa_secant){
        .log_x = lx, .slope = range->sign > 0 ? -1.2 : 0.8, .doubt = 0.5, .before = lx, .above = NAN, .below = NAN};
}

/* fa_secant_anew -- from here on about another function, whose slope is nearly the same. */
FA_INLINE void fa_secant_anew(fa_secant *s)
{
    s->above = s->below = NAN;
    s->before = s->log_x;
    s->doubt = fa_max(s->doubt, 0.05);
}

/* fa_secant_step -- on to where the excess is just below 0, by the excess w here.
 *   returns  the length of the step, NaN where it leaves the range or w is not known
 *   why      a slope taken over h is off by about h, and by what the digits of a sketch leave of it over h */
FA_FUNC double fa_secant_step(fa_secant *s, const fa_range *range, double w)
{
    double by = s->log_x - s->before, slope = (w - s->w_before) / by, noise = FA_SKETCH_NOISE / fabs(by), step;
    if ((range->sign > 0 ? slope < -0.1 && slope > -20.0 : slope > 0.01 && slope < 20.0) && noise < s->doubt) {
        s->slope = slope;
        s->doubt = fa_min(0.5, fabs(by)) + noise;
    }
    step = fa_max(-0.7, fa_min(0.7, -(w + FA_SLACK / 3.0) / s->slope));
    *(w > 0.0 ? &s->above : &s->below) = s->log_x;
    if (fabs(step) > 0.02 && (s->log_x + step - s->above) * (s->log_x + step - s->below) >= 0.0)
        step = 0.5 * (s->above + s->below) - s->log_x; /* else it may go to and fro */
    s->before = s->log_x;
    s->w_before = w;
    s->log_x += step;
    return s->log_x > log(range->low) && s->log_x < log(range->high) ? fabs(step) : NAN;
}

/* fa_approach -- to where the excess of direction remove is about 0, by sketches: more digits the nearer it is.
 *   returns  1; 0 where they lead nowhere */
FA_FUNC int fa_approach(const fa_target *t, const fa_range *range, fa_secant *s)
{
    static const double near[] = {[FA_TRY_SADDLE] = 0.003, [FA_TRY_ROUGHLY] = 1e-5, [FA_TRY_FINELY] = 1e-9};
    fa_sketch_start start = {0.0, 0};
    int i, digits = FA_TRY_SADDLE;
    *s = fa_secant_at(range);
    for (i = 0; i < 24 && fa_is_sketched(t); i++) {
        double w = fa_try_sketch(t, exp(s->log_x), (fa_digits)digits, &start), step = fa_secant_step(s, range, w);
        if (!(step == step))
            break;
        if (step * s->doubt < near[digits]) {
            if (digits == FA_TRY_FINELY)
                return 1;
            if (digits == FA_TRY_SADDLE)
                fa_secant_anew(s);
            digits++;
        }
    }
    return 0;
}

/* fa_settle -- from there to where it meets the target and the excess is above -FA_SLACK, by certified values.
 *   returns  1 and x; 0 and the last x tried, where epsilon is not smooth */
FA_FUNC int fa_settle(const fa_target *t, const fa_range *range, fa_secant *s, double *x_out)
{
    int i;
    for (i = 0; i < 9; i++) {
        double w, step;
        *x_out = exp(s->log_x);
        w = fa_try(t, *x_out, NAN).excess;
        if (w <= 0.0 && w > -FA_SLACK)
            return 1;
        step = fa_secant_step(s, range, w);
        if (!(step == step))
            break;
    }
    return 0;
}

/* fa_enclose -- steps as long as the excess, from a point tried, until one parameter meets the target and one does not.
 *   returns  FA_OK, also where the whole range meets it (good = bad), or FA_NOT_MET: nothing in the range does
 *   last     in: the point tried, out: the last one
 *   why      epsilon falls at least like 1/sigma and grows at least like q^(1/2) near the targets of interest */
FA_FUNC int fa_enclose(const fa_target *t, const fa_range *range, fa_bracket *b, fa_trial *last)
{
    int meets = b->good.w <= 0.0, grows = (range->sign > 0) != meets; /* if it meets the target: towards the boundary */
    fa_tried *ahead = meets ? &b->bad : &b->good, *behind = meets ? &b->good : &b->bad;
    double reach = 1.1;
    while (meets ? ahead->w <= 0.0 : ahead->w > 0.0) {
        double factor = exp(reach * fa_min(fa_max(fabs(ahead->w), 1e-6), 1.0));
        *behind = *ahead;
        if (grows ? behind->x >= range->high : behind->x <= range->low)
            return meets ? FA_OK : FA_NOT_MET;
        ahead->x = grows ? fa_min(behind->x * factor, range->high) : fa_max(behind->x / factor, range->low);
        reach *= 3.0;
        *last = fa_try(t, ahead->x, last->log_a);
        ahead->w = last->excess;
    }
    return FA_OK;
}

/* fa_next -- log x of the next point inside a bracket: of regula falsi, or its middle.
 *   why      a third of the wanted width beyond the root, so that the bracket can close */
FA_FUNC double fa_next(const fa_bracket *b, int bisect)
{
    double lg = log(b->good.x), lb = log(b->bad.x), size = fabs(lb - lg), near = FA_CALIBRATION_WIDTH / 3.0,
           next = lg - b->good.w * (lb - lg) / (b->bad.w - b->good.w);
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
    double width = INFINITY, x, keep;
    fa_tried *mine, *other, *before = 0;
    int i;
    for (i = 0; i < 200 && fabs(log(b->good.x / b->bad.x)) > FA_CALIBRATION_WIDTH; i++) {
        int slow = 0;
        if (i % 4 == 3) {
            double size = fabs(log(b->bad.x) - log(b->good.x));
            slow = size > 0.5 * width;
            width = size;
        }
        x = exp(fa_next(b, slow));
        if (x == b->good.x || x == b->bad.x)
            break;
        *last = fa_try(t, x, last->log_a);
        mine = last->excess <= 0.0 ? &b->good : &b->bad;
        other = last->excess <= 0.0 ? &b->bad : &b->good;
        keep = 1.0 - last->excess / mine->w;
        if (before == mine)
            other->w *= keep > 0.0 ? keep : 0.5;
        *mine = (fa_tried){x, last->excess};
        before = mine;
    }
}

/* fa_solve -- a parameter in a range that meets the target, next to the boundary.
 *   status   FA_OK, or FA_NOT_MET where none does */
FA_FUNC double fa_solve(const fa_target *t, const fa_range *range, int *status_out)
{
    double x = fa_min(fa_max(range->start, range->low), range->high);
    fa_secant s;
    fa_bracket b;
    fa_trial last;
    int i;
    *status_out = FA_OK;
    if (t->exact && t->eps > 0.0) {
        if (!fa_approach(t, range, &s))
            s = fa_secant_at(range);
        if (fa_settle(t, range, &s, &x))
            return x;
    }
    last = fa_try(t, x, NAN);
    b = (fa_bracket){{x, last.excess}, {x, last.excess}};
    *status_out = fa_enclose(t, range, &b, &last);
    if (*status_out != FA_OK)
        return b.bad.x;
    fa_narrow(t, &b, &last);
    x = b.good.x;
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
