/* The functions of fastacct.h: checked arrays in, the kernels of the exact accountant, the safe side for what fails.
 *
 * One source file: it includes the kernels, compiled for what the compiler targets.  Its other external names begin
 * with fa_.
 */
#if defined(__STRICT_ANSI__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, which -std=c99 hides */
#endif
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bounds are proved for IEEE doubles, rounded to nearest one operation at a time. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||                         \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "fastacct.c: compile without -ffast-math, -Ofast and their parts; nothing would be certified"
#endif
#if FLT_EVAL_METHOD != 0
#error "fastacct.c: compile for doubles without excess precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")
#pragma GCC diagnostic ignored "-Wunknown-pragmas" /* without -fopenmp-simd */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

#define FA_OPENMP_SIMD 1 /* where the compiler was not told, it skips these pragmas */
#if (defined(__FMA__) || defined(__aarch64__)) && (defined(__GNUC__) || defined(__clang__))
#define FA_HAS_FMA 1
#endif
#if defined(__FMA__) && defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__) &&                      \
    defined(__AVX512BW__) && defined(__AVX512CD__)
#define FA_LEVEL_NAME "x86-64-v4"
#elif defined(__FMA__) && defined(__AVX2__) && defined(__BMI2__)
#define FA_LEVEL_NAME "x86-64-v3"
#else
#define FA_LEVEL_NAME "baseline"
#endif
#define FA_LEVEL baseline
#include "include/kernels_impl.h"
#include "include/fastacct.h"
#include "include/scalar.h"
#include "src/dispatch.c"

const fa_kernels *fa_kernels_v3(void) { return 0; }
const fa_kernels *fa_kernels_v4(void) { return 0; }

const char *fastacct_version(void) { return FASTACCT_VERSION; }
const char *fastacct_instruction_set(void) { return fa_kernels_baseline()->name; }

/* One call: a kernel, its cells, what may be asked of it, and where the answers go. */
typedef struct {
    fa_kernel kernel;
    fa_question ask;
    fa_cells in;
    double *lower, *upper;
    uint8_t *status;
    double safe; /* upper bound of what has no answer */
    int is_refused;
} fa_call;

/* both are true of the default floating-point environment; a program linked with -ffast-math may lose the second */
static int fa_rounds_to_nearest(void)
{
    volatile double one = 1.0, half = 0x1p-53, more = 0x1.8p-53;
    return one + half == one && one + more > one && -one - half == -one && -one - more < -one;
}

static int fa_keeps_subnormals(void)
{
    volatile double least = DBL_MIN, subnormal = 0x1p-1074;
    return 0.5 * least > 0.0 && subnormal * 0x1p+1000 > 0.0;
}

static int fa_is_share(double x) { return x >= 0.0 && x <= 1.0; }

/* whether all arguments of cell i are in range */
static int fa_is_cell(const fa_call *call, int64_t i)
{
    const fa_cells *in = &call->in;
    double target = in->target[i];
    if (!fa_is_run(in->sigma ? in->sigma[i] : 0.0, in->q[i], in->steps[i]))
        return 0;
    if (in->eps)
        return in->eps[i] >= 0.0 && fa_is_share(target);
    if (call->kernel == fa_rdp)
        return target > 1.0 && target <= FA_MAX_ORDER;
    return call->ask.quantity == FA_GIVE_EPSILON ? fa_is_share(target) : target >= 0.0;
}

static void fa_give(const fa_call *call, int64_t i, double lower, double upper, fastacct_status status)
{
    if (call->lower)
        call->lower[i] = lower;
    if (call->upper)
        call->upper[i] = upper;
    if (call->status)
        call->status[i] = (uint8_t)status;
}

/* the largest loss, which no kernel has: that of Gaussian noise is unbounded */
static int fa_give_largest_loss(const fa_call *call, int64_t i)
{
    const fa_cells *in = &call->in;
    int released = in->q[i] > 0.0 && in->steps[i] > 0.0 && in->sigma[i] < INFINITY;
    double value = released ? INFINITY : 0.0;
    fastacct_status status = released ? FASTACCT_NOT_MET : FASTACCT_TIGHT;
    fa_give(call, i, value, value, status);
    return status;
}

/* under direction add, epsilon is at most what it is at delta = 0: the largest loss, whatever the kernel certifies */
static void fa_give_below_largest_loss(const fa_call *call, int64_t i)
{
    const fa_cells *in = &call->in;
    fa_found largest;
    fa_interval both;
    double none = 0.0, slope;
    fa_cells one = {.n = 1, .sigma = in->sigma + i, .q = in->q + i, .steps = in->steps + i, .target = &none};
    fa_answers out = {.lower = &largest.lower, .upper = &largest.upper, .slope = &slope, .status = &largest.status};
    if (call->kernel(&one, &call->ask, INFINITY, &out) != 1 || !(largest.upper < call->upper[i]))
        return;
    both = (fa_interval){call->lower ? call->lower[i] : 0.0, call->upper[i]};
    both = fa_safe(fa_share(both, (fa_interval){0.0, largest.upper}), 0.0, INFINITY);
    call->upper[i] = both.upper;
    if (call->lower)
        call->lower[i] = both.lower;
}

#define FA_CALL_CELLS 1024

/* cells begin <= i < end, all of them in range: the largest status */
static int fa_give_cells(const fa_call *call, int64_t begin, int64_t end)
{
    double lower[FA_CALL_CELLS], slope[FA_CALL_CELLS];
    uint8_t codes[FA_CALL_CELLS], most = FASTACCT_TIGHT;
    const fa_cells *all = &call->in;
    int ends = call->ask.ways == FA_WAYS_ADD && call->ask.quantity == FA_GIVE_EPSILON && !all->eps;
    fa_cells in = {.n = end - begin,
                   .sigma = all->sigma ? all->sigma + begin : NULL,
                   .q = all->q + begin,
                   .steps = all->steps + begin,
                   .target = all->target + begin,
                   .eps = all->eps ? all->eps + begin : NULL};
    fa_answers out = {.lower = call->lower ? call->lower + begin : lower,
                      .upper = call->upper + begin,
                      .slope = slope,
                      .value = call->upper + begin,
                      .status = call->status ? call->status + begin : codes};
    int64_t i;
    if (call->kernel(&in, &call->ask, INFINITY, &out) != in.n) {
        for (i = begin; i < end; i++)
            fa_give(call, i, 0.0, call->safe, FASTACCT_NO_MEMORY);
        return FASTACCT_NO_MEMORY;
    }
    for (i = 0; i < in.n; i++) {
        most = out.status[i] > most ? out.status[i] : most;
        if (ends && out.status[i] == FASTACCT_LOOSE)
            fa_give_below_largest_loss(call, begin + i);
    }
    return most;
}

/* all cells of a call, in stretches of those in range: the largest status */
static int fa_answer(const fa_call *call)
{
    const fa_cells *in = &call->in;
    int is_rdp = call->kernel == fa_rdp, is_refused = call->is_refused || !call->upper, most = FASTACCT_TIGHT, found;
    int is_broken = !fa_rounds_to_nearest() || !fa_keeps_subnormals();
    int64_t i, j;
    is_refused = is_refused || !in->q || !in->steps || !in->target;
    for (i = 0; i < in->n; i = j) {
        j = i + 1;
        if (is_refused || is_broken) {
            found = is_refused ? FASTACCT_BAD_INPUT : FASTACCT_BAD_ARITHMETIC;
            fa_give(call, i, 0.0, call->safe, (fastacct_status)found);
        }
        else if (fa_is_cell(call, i)) {
            while (j < in->n && j - i < FA_CALL_CELLS && fa_is_cell(call, j))
                j++;
            found = fa_give_cells(call, i, j);
        }
        else if (is_rdp && in->target[i] == INFINITY && fa_is_run(in->sigma[i], in->q[i], in->steps[i]))
            found = fa_give_largest_loss(call, i);
        else {
            found = FASTACCT_BAD_INPUT;
            fa_give(call, i, 0.0, call->safe, FASTACCT_BAD_INPUT);
        }
        most = found > most ? found : most;
    }
    return most;
}

/* the directions of a relation; 0: unknown */
static int fa_ways_of(int relation)
{
    return relation == FASTACCT_ADD_REMOVE ? FA_WAYS_BOTH
           : relation == FASTACCT_ADD      ? FA_WAYS_ADD
           : relation == FASTACCT_REMOVE   ? FA_WAYS_REMOVE
                                           : 0;
}

int fastacct_epsilon(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                     const double *delta, fastacct_relation relation, double *lower, double *upper, uint8_t *status)
{
    int ways = fa_ways_of((int)relation);
    fa_call call = {.kernel = fa_exact_block,
                    .ask = {.quantity = FA_GIVE_EPSILON, .ways = (fa_ways)ways, .conversion = FA_RULE_CKS},
                    .in = {(int64_t)n, noise_multiplier, sample_rate, steps, delta, NULL, NULL},
                    .lower = lower,
                    .upper = upper,
                    .status = status,
                    .safe = INFINITY,
                    .is_refused = !ways || !noise_multiplier};
    return fa_answer(&call);
}

int fastacct_delta(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                   const double *epsilon, fastacct_relation relation, double *lower, double *upper, uint8_t *status)
{
    int ways = fa_ways_of((int)relation);
    fa_call call = {.kernel = fa_exact_block,
                    .ask = {.quantity = FA_GIVE_DELTA, .ways = (fa_ways)ways, .conversion = FA_RULE_CKS},
                    .in = {(int64_t)n, noise_multiplier, sample_rate, steps, epsilon, NULL, NULL},
                    .lower = lower,
                    .upper = upper,
                    .status = status,
                    .safe = 1.0,
                    .is_refused = !ways || !noise_multiplier};
    return fa_answer(&call);
}

int fastacct_rdp(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                 const double *orders, double *lower, double *upper, uint8_t *status)
{
    fa_call call = {.kernel = fa_rdp,
                    .ask = {.ways = FA_WAYS_BOTH, .conversion = FA_RULE_CKS},
                    .in = {(int64_t)n, noise_multiplier, sample_rate, steps, orders, NULL, NULL},
                    .lower = lower,
                    .upper = upper,
                    .status = status,
                    .safe = INFINITY,
                    .is_refused = !noise_multiplier};
    return fa_answer(&call);
}

int fastacct_noise_multiplier(size_t n, const double *epsilon, const double *delta, const double *sample_rate,
                              const double *steps, fastacct_relation relation, double *noise_multiplier,
                              uint8_t *status)
{
    int ways = fa_ways_of((int)relation);
    fa_call call = {.kernel = fa_calibrate_exact_block,
                    .ask = {.ways = (fa_ways)ways, .conversion = FA_RULE_CKS, .wanted = FA_FIND_NOISE_MULTIPLIER},
                    .in = {(int64_t)n, NULL, sample_rate, steps, delta, epsilon, NULL},
                    .upper = noise_multiplier,
                    .status = status,
                    .safe = INFINITY,
                    .is_refused = !ways || !epsilon};
    return fa_answer(&call);
}
