/* late.h -- time slices: a kernel that may take long gives way between two cells. */
#ifndef FA_LATE_H
#define FA_LATE_H

#include <math.h>

#include "kernels.h"

static inline double fa_end_of(double seconds) { return seconds < INFINITY ? fa_seconds() + seconds : INFINITY; }

/* whether the time of a call is up before cell i: never before its first cell is done */
static inline int fa_is_late(int64_t i, double end) { return i > 0 && end < INFINITY && fa_seconds() > end; }

#endif
