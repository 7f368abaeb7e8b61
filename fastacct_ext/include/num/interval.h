/* num/interval.h -- two certified bounds of one number, and what they say together. */
#ifndef FA_INTERVAL_H
#define FA_INTERVAL_H

#include "../kernels.h"
#include "math.h"

typedef struct {
    double lower, upper;
} fa_interval;

/* What two intervals share: both are certified.  Where they do not meet one of them is wrong, and nobody knows which:
 * the larger upper bound holds, and for a lower bound NaN, which stays NaN whatever it is shared with (fa_safe) */
FA_INLINE fa_interval fa_share(fa_interval a, fa_interval b)
{
    fa_interval both = {fa_max(a.lower, b.lower), fa_min(a.upper, b.upper)};
    if (a.lower <= b.upper && b.lower <= a.upper)
        return both;
    if (a.lower > b.upper || b.lower > a.upper)
        fa_disagree();
    both.lower = NAN;
    both.upper = a.upper >= b.upper ? a.upper : b.upper >= a.upper ? b.upper : NAN;
    return both;
}

/* What is not a number is on the safe side: fa_min and fa_max would drop it on either.  A lower bound above the upper
 * one is as two intervals that do not meet */
FA_INLINE fa_interval fa_safe(fa_interval r, double low, double high)
{
    if (r.lower > r.upper) {
        fa_disagree();
        r.upper = r.lower;
        r.lower = NAN;
    }
    r.upper = r.upper <= high ? r.upper : high;
    r.lower = r.lower >= low && r.lower <= r.upper ? r.lower : low;
    return r;
}

#endif
