/* The portable level: whatever the compiler targets by default (SSE2 on x86-64, NEON on 64-bit Arm). */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define FA_HAS_FMA 1 /* fused multiply-add is part of the Arm baseline */
#endif
#define FA_LEVEL      baseline
#define FA_LEVEL_NAME "baseline"
#include "../include/kernels_impl.h"
