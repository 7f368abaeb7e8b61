/* line/capped_effort.h -- how much work a capped line is worth, and where its caps stand. */
#ifndef FA_LINE_CAPPED_EFFORT_H
#define FA_LINE_CAPPED_EFFORT_H

#include "../num/math.h"

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
    int caps;         /* of mixtures: 0 usual; 1: no room for what one step may take back where losses fall without
                       * end; 2: as low as fa_cap_lower lets them be; 3: of data, none (line/pieces_cap.h) */
    double quiet;     /* what a line may cost more, as a share, so that rounding is less */
    double left,
        right; /* standard deviations of Q left of 0 where the nodes begin, and by which they go on at the end */
} fa_cap_effort;

#define FA_CAP_POINTS_MAX 16384

FA_INLINE fa_cap_effort fa_cap_usual_effort(void)
{
    fa_cap_effort out = {FA_CAP_POINTS_MAX, 4e7, 26.0, 32.0, 24.0, 1.0, 1.35, 1.0, 0, 2.0, 8.3, 9.0};
    return out;
}

#endif
