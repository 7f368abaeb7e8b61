/* sums.h -- what programs that compare kernels with sums in 80 bits have in common: their numbers, and chance. */
#ifndef SUMS_H
#define SUMS_H

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact/blocks.h"

#include "../src/dispatch.c"

const fa_kernels *fa_kernels_baseline(void) { return 0; }
const fa_kernels *fa_kernels_v3(void) { return 0; }
const fa_kernels *fa_kernels_v4(void) { return 0; }

typedef long double ld;
typedef long double complex lc;

#define PI 3.14159265358979323846264338327950288L

static uint64_t state;
static double uniform(double low, double high)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}
static double between(double low, double high) { return exp(uniform(log(low), log(high))); }

#endif
