/* What all instruction-set levels share: the choice of one, memory, time. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../include/kernels.h"

static int has_level(int level)
{
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    if (level == 3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    return has_level(3) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd");
#else
    (void)level;
    return 0;
#endif
}

const fa_kernels *fa_kernels_select(const char *name)
{
    const fa_kernels *v4 = has_level(4) ? fa_kernels_v4() : 0, *v3 = has_level(3) ? fa_kernels_v3() : 0,
                     *base = fa_kernels_baseline();
    if (!name || !*name)
        return v4 ? v4 : v3 ? v3 : base;
    if (v4 && !strcmp(name, v4->name))
        return v4;
    if (v3 && !strcmp(name, v3->name))
        return v3;
    return strcmp(name, base->name) ? 0 : base;
}

#if defined(_MSC_VER)
#define FA_THREAD __declspec(thread)
#else
#define FA_THREAD _Thread_local
#endif

#define FA_LISTEN 0.1 /* seconds between two looks at whether the caller still wants an answer */

static FA_THREAD int alloc_failed;
static FA_THREAD int64_t alloc_left = -1;
static FA_THREAD double ask_at; /* when this thread asks next, ... */
static FA_THREAD int (*asked)(void); /* ... and whom */
static FA_THREAD double counted;

static void *granted(void *memory)
{
    if (!memory)
        alloc_failed = 1;
    return memory;
}

static int refused(void)
{
    if (alloc_left > 0)
        alloc_left--;
    else if (alloc_left == 0)
        return 1;
    return 0;
}

void *fa_alloc(size_t size) { return granted(refused() ? 0 : malloc(size)); }
void *fa_alloc_zeroed(size_t size) { return granted(refused() ? 0 : calloc(1, size)); }
void fa_alloc_limit(int64_t n) { alloc_left = n; }

int fa_alloc_failed(void)
{
    int failed = alloc_failed;
    alloc_failed = 0;
    return failed;
}

void fa_ask(int (*is_given_up)(void))
{
    asked = is_given_up;
    ask_at = fa_seconds() + FA_LISTEN;
}

int fa_goes_on(void)
{
    double now;
    if (asked && !alloc_failed && (now = fa_seconds()) > ask_at) {
        ask_at = now + FA_LISTEN;
        alloc_failed = asked();
    }
    return !alloc_failed;
}

void fa_count(double terms) { counted += terms; }
double fa_counted(void) { return counted; }

#if defined(_MSC_VER)
#include <intrin.h>
static volatile long disagreed;
void fa_disagree(void) { _InterlockedExchange(&disagreed, 1); }
int fa_disagreed(void) { return (int)_InterlockedExchange(&disagreed, 0); }
#else
static int disagreed;
void fa_disagree(void) { __atomic_store_n(&disagreed, 1, __ATOMIC_RELAXED); }
int fa_disagreed(void) { return __atomic_exchange_n(&disagreed, 0, __ATOMIC_RELAXED); }
#endif

double fa_seconds(void)
{
    struct timespec now;
#if defined(CLOCK_MONOTONIC)
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    timespec_get(&now, TIME_UTC);
#endif
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
