/* libm.c -- the functions of the C library that the kernels call, one by one, so that a test can measure their errors;
 * compiled as explorer.c is.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define ONE(name)                                                                                                      \
    EXPORT(name##_all) void name##_all(size_t n, const double *x, const double *y, double *out)                        \
    {                                                                                                                  \
        size_t i;                                                                                                      \
        (void)y;                                                                                                       \
        for (i = 0; i < n; i++)                                                                                        \
            out[i] = name(x[i]);                                                                                       \
    }
#define TWO(name)                                                                                                      \
    EXPORT(name##_all) void name##_all(size_t n, const double *x, const double *y, double *out)                        \
    {                                                                                                                  \
        size_t i;                                                                                                      \
        for (i = 0; i < n; i++)                                                                                        \
            out[i] = name(x[i], y[i]);                                                                                 \
    }

ONE(exp)
ONE(expm1)
ONE(log)
ONE(log1p)
ONE(sin)
ONE(cos)
ONE(erf)
ONE(erfc)
ONE(exp2)
ONE(log2)
ONE(lgamma)
ONE(sqrt)
ONE(floor)
TWO(pow)
TWO(atan2)
TWO(hypot)

EXPORT(libm_alloc) void *libm_alloc(size_t size) { return malloc(size); }

/* x y + x in two roundings, unless the compiler contracts it */
EXPORT(contracted_all) void contracted_all(size_t n, const double *x, const double *y, double *out)
{
    size_t i;
    for (i = 0; i < n; i++)
        out[i] = x[i] * y[i] + x[i];
}
