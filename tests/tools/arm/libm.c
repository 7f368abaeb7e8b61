/* libm.c -- functions of the C library that the kernels trust, at random points; tests/tools/aarch64.py.
 *
 *     program reference POINTS SEED > file     correct to 64 bits, as two doubles, where long double has 64 bits
 *     program compare POINTS SEED < file       the largest error of each function in units of u = 2^-53, relative
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    double (*plain)(double);
    long double (*exact)(long double);
    double low, high;
    int is_log; /* points are spread over powers, on both sides of 0 where low is negative */
} function;

/* ranges in which values are normal numbers */
static const function all[] = {
    {"exp", exp, expl, -708.0, 709.0, 0},       {"exp near 0", exp, expl, -2.0, 2.0, 0},
    {"expm1", expm1, expm1l, -40.0, 709.0, 0},  {"expm1 near 0", expm1, expm1l, -1.0, 1.0, 1},
    {"log", log, logl, 1e-300, 1e300, 1},       {"log near 1", log, logl, 0.5, 2.0, 0},
    {"log1p", log1p, log1pl, 1e-18, 1e300, 1},  {"log1p near 0", log1p, log1pl, -0.999, 1.0, 1},
    {"erfc", erfc, erfcl, -6.0, 6.0, 0},        {"erfc far out", erfc, erfcl, 0.5, 26.5, 0},
};

#define FUNCTIONS (sizeof(all) / sizeof(all[0]))

static uint64_t state;

static double uniform(double low, double high)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* multiplications and additions alone: the same points whatever the C library */
static double point(const function *f)
{
    double x, mantissa, top = f->low < 0.0 ? (uniform(0.0, 1.0) < 0.5 ? f->low : f->high) : f->high;
    if (!f->is_log)
        return uniform(f->low, f->high);
    for (;;) {
        mantissa = uniform(1.0, 2.0);
        x = ldexp(mantissa, (int)uniform(-60.0, top > 4.0 ? 1000.0 : 1.0));
        if (top > 4.0 && f->low < 1e-200 && uniform(0.0, 1.0) < 0.5)
            x = 1.0 / x;
        if (x <= fabs(top) && x >= f->low)
            return top < 0.0 ? -x : x;
    }
}

static void write_truth(const function *f, int points)
{
    int i;
    for (i = 0; i < points; i++) {
        long double y = f->exact(point(f));
        double pair[2] = {(double)y, (double)(y - (long double)(double)y)};
        fwrite(pair, sizeof(double), 2, stdout);
    }
}

static int compare(const function *f, int points)
{
    double most = 0.0, where = 0.0;
    int i;
    for (i = 0; i < points; i++) {
        double x = point(f), pair[2], error;
        if (fread(pair, sizeof(double), 2, stdin) != 2)
            return 1;
        error = fabs(((f->plain(x) - pair[0]) - pair[1]) / pair[0]) * 0x1p53;
        if (!(error <= most)) {
            most = error;
            where = x;
        }
    }
    printf("%s|%.3f|%a\n", f->name, most, where);
    return 0;
}

int main(int argc, char **argv)
{
    int points = argc == 4 ? atoi(argv[2]) : 0, wrong = points < 1;
    size_t i;
    for (i = 0; i < FUNCTIONS && !wrong; i++) {
        state = (uint64_t)atoi(argv[3]) + 1000 * i;
        if (strcmp(argv[1], "reference"))
            wrong = compare(all + i, points);
        else
            write_truth(all + i, points);
    }
    return wrong;
}
