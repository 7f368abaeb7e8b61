/* sums.c -- densities of means of log-normal numbers (loss/sums.h, loss/allocation.h), so coarse that one of their
 * errors matters.
 */
#include "parts.h"

static double densities_kept, right_kept, left_out;

#define FA_SUM_LEAST densities_kept
#define FA_SUM_RIGHT right_kept
#define FA_SUM_SMALL left_out
#include "loss/allocation.h"

/* the mean of two numbers (or one), on a lattice of that step times the deviation of one; budget: densities that are
 * kept, those on the right, what a sum may leave out.  Answers: errors, relative and absolute, place of the first
 * point, step, how many points, and the density there.  NaN: there is none */
void means(double count, double sigma, double step, double most, const double *budget, double *out)
{
    fa_sum one, two;
    const fa_sum *found = &one;
    int good, i, coarse = step > 0.0;
    memset(&two, 0, sizeof(two));
    densities_kept = budget[0], right_kept = budget[1], left_out = budget[2];
    step = fa_sum_unit(sigma * sigma) * ldexp(1.0, (int)step);
    out[0] = NAN;
    if (count > 1.0 && !coarse) /* so that the join alone is starved */
        densities_kept = 1e-250, right_kept = 1e-32;
    good = fa_sum_one(sigma, step, &one) && fa_sum_prepare(&one, sigma);
    densities_kept = budget[0], right_kept = budget[1];
    if (count > 1.0) {
        good = good && fa_sum_join(&one, &one, sigma, step, &two);
        found = &two;
    }
    if (good && found->n + 5 <= most) {
        out[0] = found->relative, out[1] = found->absolute, out[2] = fa_sum_at(found, 0), out[3] = found->step;
        out[4] = found->n;
        for (i = 0; i < found->n; i++)
            out[5 + i] = found->density[i];
    }
    fa_sum_free(&one);
    fa_sum_free(&two);
}

/* densities of one number's logarithm between points, by interpolation: places, in points from the first one on.
 * Answers: how far off that may be, of a density; place of the first point and step; the densities */
void between(double sigma, double n, const double *places, double *out)
{
    fa_sum one;
    int i;
    densities_kept = 1e-250, right_kept = 1e-32, left_out = 1e-21;
    if (!fa_sum_one(sigma, fa_sum_unit(sigma * sigma), &one) || !fa_sum_prepare(&one, sigma))
        return;
    out[0] = one.relative, out[1] = fa_sum_at(&one, 0), out[2] = one.step;
    for (i = 0; i < (int)n; i++) {
        double weights[2 * FA_SUM_TAPS], block[FA_SUM_BLOCK], part = places[i] - floor(places[i]), tilt;
        fa_sum_weights(part, weights);
        tilt = fa_sum_read(&one, (int)floor(places[i]) - i % FA_SUM_BLOCK, weights, block);
        out[3 + i] = block[i % FA_SUM_BLOCK] * exp(tilt * part);
    }
    fa_sum_free(&one);
}
