# Headers of the block loops, as `_kernels.pyx` sees them.
from libc.stdint cimport int64_t, uint8_t

from fastacct_ext._kernels cimport Quantity, fa_kernel, fa_question

cdef extern from "include/scalar.h" nogil:
    double FA_MAX_STEPS, FA_MAX_ORDER
    enum: FA_OUT_OF_RANGE
    ctypedef struct fa_found:
        double lower
        double upper
        uint8_t status
    int64_t fa_bounds_of_run(fa_kernel kernel, Quantity quantity, double sigma, double q, double steps, double target,
                             fa_found *found_out)
    double fa_safe_upper_of_run(fa_kernel kernel, Quantity quantity, double sigma, double q, double steps,
                                double target)
    double fa_safe_rdp_of_run(fa_kernel rdp, double sigma, double q, double steps, double order)

cdef extern from "include/grid.h" nogil:
    enum: FA_MAX_DIMS, FA_ARRAYS
    ctypedef enum fa_array:
        FA_SIGMA, FA_Q, FA_STEPS, FA_TARGET, FA_EPS_OF_TARGET, FA_MU
        FA_LOWER, FA_UPPER, FA_SLOPE, FA_ORDER, FA_VALUE, FA_STATUS
    ctypedef struct fa_strided:
        char *data
        int64_t stride[FA_MAX_DIMS]
    ctypedef struct fa_grid:
        int n_dims
        int64_t total
        int64_t shape[FA_MAX_DIMS]
        fa_strided array[FA_ARRAYS]
    void fa_grid_order(fa_grid *grid)
    int64_t fa_grid_run(const fa_grid *grid, fa_kernel kernel, const fa_question *ask, int64_t start, int64_t stop,
                        double seconds)
