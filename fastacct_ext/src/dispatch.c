/* Chooses the instruction-set level once, at import. */
#include <string.h>
#include "../include/kernels.h"

static int has_level(int level)
{
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    if (level == 3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    return has_level(3) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
#else
    (void)level;
    return 0;
#endif
}

const fa_kernels *fa_kernels_select(const char *name)
{
    const fa_kernels *v4 = has_level(4) ? fa_kernels_v4() : 0, *v3 = has_level(3) ? fa_kernels_v3() : 0, *base = fa_kernels_baseline();
    if (!name || !*name)
        return v4 ? v4 : v3 ? v3 : base;
    if (v4 && !strcmp(name, v4->name))
        return v4;
    if (v3 && !strcmp(name, v3->name))
        return v3;
    return strcmp(name, base->name) ? 0 : base;
}
