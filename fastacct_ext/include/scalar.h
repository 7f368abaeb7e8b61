/* scalar.h -- one run of plain numbers through the kernels: its domain is checked here, for callers without Python. */
#ifndef FA_SCALAR_H
#define FA_SCALAR_H

#include <math.h>

#include "kernels.h"

#define FA_OUT_OF_RANGE 0
#define FA_MAX_STEPS    9007199254740992.0 /* 2^53: beyond, a number may have been rounded */
#define FA_MAX_ORDER    1e11

static inline int fa_is_run(double sigma, double q, double steps)
{
    return sigma >= 0.0 && 0.0 <= q && q <= 1.0 && 0.0 <= steps && steps <= FA_MAX_STEPS && steps == floor(steps);
}

/* certified bounds of one answer, and the status */
typedef struct {
    double lower, upper;
    uint8_t status;
} fa_found;

static inline int64_t fa_run_one(fa_kernel kernel, fa_quantity quantity, double sigma, double q, double steps,
                                 double target, fa_found *found_out)
{
    const fa_question ask = {.quantity = quantity, .ways = FA_WAYS_BOTH, .conversion = FA_RULE_CKS};
    const fa_cells in = {.n = 1, .sigma = &sigma, .q = &q, .steps = &steps, .target = &target};
    double slope, order;
    const fa_answers out = {.lower = &found_out->lower,
                            .upper = &found_out->upper,
                            .slope = &slope,
                            .order = &order,
                            .status = &found_out->status};
    return kernel(&in, &ask, INFINITY, &out);
}

/* epsilon at a delta, or delta at an epsilon, under add or remove, by the kernel `exact` or `renyi` of a table (lower
 * bound: only by `exact`)
 *   returns  1, or FA_NO_MEMORY, or FA_OUT_OF_RANGE for numbers outside the domain */
static inline int64_t fa_bounds_of_run(fa_kernel kernel, fa_quantity quantity, double sigma, double q, double steps,
                                       double target, fa_found *found_out)
{
    if (!fa_is_run(sigma, q, steps) || !(target >= 0.0) || (quantity == FA_GIVE_EPSILON && target > 1.0))
        return FA_OUT_OF_RANGE;
    return fa_run_one(kernel, quantity, sigma, q, steps, target, found_out);
}

/* the same, and the safe side where there is no answer */
static inline double fa_safe_upper_of_run(fa_kernel kernel, fa_quantity quantity, double sigma, double q, double steps,
                                          double target)
{
    fa_found found;
    if (fa_bounds_of_run(kernel, quantity, sigma, q, steps, target, &found) == 1)
        return found.upper;
    return quantity == FA_GIVE_EPSILON ? INFINITY : 1.0;
}

/* steps * rdp(order), by the kernel `rdp` */
static inline double fa_safe_rdp_of_run(fa_kernel rdp, double sigma, double q, double steps, double order)
{
    fa_found found;
    if (!fa_is_run(sigma, q, steps) || !(order > 1.0) || order > FA_MAX_ORDER)
        return INFINITY;
    (void)fa_run_one(rdp, FA_GIVE_EPSILON, sigma, q, steps, order, &found);
    return found.upper;
}

#endif
