/* density/convolve.h -- the convolution of two lists of masses, by its definition: a sum of positive terms keeps its
 * relative accuracy, and takes no threads.
 */
#ifndef FA_CONVOLVE_H
#define FA_CONVOLVE_H

#include <stdint.h>

/* out[k] = sum of a[i] b[k - i], of n + m - 1 entries */
static inline void fa_convolve(int64_t n, const double *a, int64_t m, const double *b, double *out)
{
    int64_t i, j;
    for (i = 0; i < n + m - 1; i++)
        out[i] = 0.0;
    for (i = 0; i < n; i++) {
        double x = a[i];
        for (j = 0; x != 0.0 && j < m; j++)
            out[i + j] += x * b[j];
    }
}

#endif
