/* x86-64-v4: AVX-512, 512-bit vectors. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../include/kernels.h"
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__)) && !defined(FA_ONE_LEVEL)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,avx512f,avx512dq,avx512vl,avx512bw,avx512cd"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi,bmi2,avx512f,avx512dq,avx512vl,avx512bw,avx512cd,prefer-vector-width=512")
#endif
#define FA_HAS_FMA    1
#define FA_LEVEL      v4
#define FA_LEVEL_NAME "x86-64-v4"
#include "../include/kernels_impl.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
const fa_kernels *fa_kernels_v4(void) { return 0; }
#endif
