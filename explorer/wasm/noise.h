/* noise.h -- the smallest noise multiplier that is certified to meet a target. */
#ifndef EXPLORER_NOISE_H
#define EXPLORER_NOISE_H

#define EXPLORER_NOISE_CLOSE 1e-9 /* relative, of a noise multiplier that is searched here */

static int explorer_meets(double noise, double rate, double steps, int law, double delta, double epsilon)
{
    double lower, upper;
    uint8_t status;
    int found =
        explorer_read(noise, rate, steps, law, FA_GIVE_EPSILON, 1, &delta, &lower, &upper, &status);
    return found < FASTACCT_BAD_INPUT && upper <= epsilon;
}

/* The noise multiplier at which the upper bound of epsilon is at most the target; infinite where there is none.  Of
 * other laws it is searched from the Poisson sample's on. */
EXPORT(explorer_noise)
double explorer_noise(double epsilon, double delta, double rate, double steps, int law)
{
    double noise = INFINITY, low, high, all = steps * (law == EXPLORER_ALLOCATION ? rate : 1.0),
           share = law == EXPLORER_ALLOCATION ? 1.0 / rate : rate;
    int is_own = law >= EXPLORER_REPLACE_ONE, i;
    int found = fastacct_noise_multiplier(1, &epsilon, &delta, &share, &all,
                                          is_own ? FASTACCT_ADD_REMOVE : (fastacct_relation)law, &noise, NULL);
    if (found != FASTACCT_TIGHT || !(noise < INFINITY) || !is_own || noise == 0.0)
        return found == FASTACCT_TIGHT ? noise : INFINITY;
    low = 0.999 * noise;
    high = 1.001 * noise;
    for (i = 0; i < 60 && explorer_meets(low, rate, steps, law, delta, epsilon); i++) {
        high = low;
        low *= 0.8;
    }
    for (i = 0; i < 60 && !explorer_meets(high, rate, steps, law, delta, epsilon); i++) {
        low = high;
        high *= 1.25;
    }
    if (i == 60)
        return INFINITY;
    while (high - low > EXPLORER_NOISE_CLOSE * high) {
        double mid = 0.5 * (low + high);
        if (explorer_meets(mid, rate, steps, law, delta, epsilon))
            high = mid;
        else
            low = mid;
    }
    return high;
}

#endif
