/* density/spread.h -- weights at any places, spread by a Gaussian over the whole numbers near them, which begin again
 * after so many: what a Fourier transform then takes for a sum over the places.
 * docs/algorithms/smoothed.md, "All points at once".
 */
#ifndef FA_SPREAD_H
#define FA_SPREAD_H

#include <math.h>
#include <stdint.h>

#define FA_SPREAD_NEAR 18 /* whole numbers on either side of the nearest one that an atom reaches */
#define FA_SPREAD_ALL  (2 * FA_SPREAD_NEAR + 1)

/* g(s + d) = e^(-d^2/8) e^(-s d/4) e^(-s^2/8) of all s within reach, times a weight, the second factor by powers; d:
 * from the place to the nearest number */
static inline void fa_spread_one(double d, double weight, const double *fall, double *out)
{
    double right = weight * exp(-0.125 * d * d), left = right, up = exp(-0.25 * d), down = exp(0.25 * d);
    int s;
    out[FA_SPREAD_NEAR] = right;
    for (s = 1; s <= FA_SPREAD_NEAR; s++) {
        right *= up;
        left *= down;
        out[FA_SPREAD_NEAR + s] = right * fall[s];
        out[FA_SPREAD_NEAR - s] = left * fall[s];
    }
}

/* Number k is entry k + FA_SPREAD_NEAR of n + FA_SPREAD_ALL - 1.  Sums of positive terms are in two parts: what
 * rounding takes of the first is in the second (Knuth's two-sum), so that both together are good to 2 u.  0: a place is
 * no finite number */
static inline int fa_spread(int64_t many, const double *place, const double *weight, int64_t n, double *sum,
                            double *rest)
{
    double fall[FA_SPREAD_NEAR + 1], each[FA_SPREAD_ALL];
    int64_t i;
    int s;
    for (s = 0; s <= FA_SPREAD_NEAR; s++)
        fall[s] = exp(-0.125 * s * s);
    for (i = 0; i < many; i++) {
        double first = rint(place[i]), at = fmod(first, (double)n), *high, *low;
        if (!(fabs(first) < INFINITY))
            return 0;
        fa_spread_one(first - place[i], weight[i], fall, each);
        high = sum + (int64_t)(at < 0.0 ? at + (double)n : at);
        low = rest + (high - sum);
        for (s = 0; s < FA_SPREAD_ALL; s++) {
            double whole = high[s] + each[s], part = whole - high[s];
            low[s] += (high[s] - (whole - part)) + (each[s] - part);
            high[s] = whole;
        }
    }
    return 1;
}

#endif
