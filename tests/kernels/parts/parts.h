/* parts.h -- what the sources of tests/tools/kernel_parts.py have in common: memory, which the wheel's kernels share. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/dispatch.c"

const fa_kernels *fa_kernels_baseline(void) { return 0; }
const fa_kernels *fa_kernels_v3(void) { return 0; }
const fa_kernels *fa_kernels_v4(void) { return 0; }
