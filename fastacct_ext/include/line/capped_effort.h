/* line/capped_effort.h -- how much work a capped line is worth, and where its caps stand. */
#ifndef FA_LINE_CAPPED_EFFORT_H
#define FA_LINE_CAPPED_EFFORT_H

#include "../num/math.h"

/* where caps stand: as usual; of mixtures without room for what one step may take back where losses fall without end,
 * or as low as fa_cap_lower lets them be; and none of losses that are data */
typedef enum { FA_CAPS_USUAL, FA_CAPS_NEAR, FA_CAPS_LOW, FA_CAPS_NONE } fa_caps;

/* The budget of work.  Every bound holds for any of these; they decide how narrow it is, and what it costs */
typedef struct {
    int points;       /* a line that needs more is given up ... */
    double pairs;     /* ... and one that needs more points times nodes */
    double tolerance; /* -log of the relative size of what aliases and the floor may add */
    double dead;      /* -log of |F| t, relative to delta, where the points may end */
    double need;      /* -log of the quadrature's relative error aimed at */
    double far;       /* factor on the first guess of where the points end */
    double cap_ratio; /* the cap's loss over the least loss that reaches eps: narrower edges need more nodes */
    double cap_back;  /* share of what the other steps may take back that the cap allows for */
    fa_caps caps;
    double quiet;     /* what a line may cost more, as a share, so that rounding is less */
    int is_about; /* whether a line is to say about how much, and nothing is certified: no tail, and no ledger */
    double left,
        right; /* standard deviations of Q left of 0 where the nodes begin, and by which they go on at the end */
} fa_cap_effort;

#define FA_CAP_POINTS_MAX 16384

FA_INLINE fa_cap_effort fa_cap_usual_effort(void)
{
    return (fa_cap_effort){.points = FA_CAP_POINTS_MAX,
                           .pairs = 4e7,
                           .tolerance = 26.0,
                           .dead = 32.0,
                           .need = 24.0,
                           .far = 1.0,
                           .cap_ratio = 1.35,
                           .cap_back = 1.0,
                           .caps = FA_CAPS_USUAL,
                           .quiet = 2.0,
                           .left = 8.3,
                           .right = 9.0};
}

#endif
