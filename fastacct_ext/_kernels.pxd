# The C interface for Cython users:  from fastacct_ext._kernels cimport fa_kernels, kernels
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "include/kernels.h" nogil:
    ctypedef struct fa_kernels:
        const char *name
        void (*rdp_block)(int64_t n, const double *sigma, const double *q, const double *order, const double *steps,
                          double *lower_out, double *upper_out, uint8_t *status_out) noexcept nogil
        void (*rdp_series_block)(int64_t n, const double *sigma, const double *q, const double *order,
                                 double *lower_out, double *upper_out, uint8_t *status_out) noexcept nogil
        void (*readout_block)(int64_t n, const double *sigma, const double *q, const double *steps, const double *target,
                              int for_delta, int conversion, const double *orders, int n_orders,
                              double *out, double *order_out, uint8_t *status_out) noexcept nogil
        void (*calibrate_block)(int64_t n, int solve_for, const double *eps, const double *delta, const double *a,
                                const double *b, int conversion, const double *orders, int n_orders,
                                double *out, uint8_t *status_out) noexcept nogil
        int64_t (*history_readout)(int n_blocks, const double *sigma, const double *q, const double *steps, int64_t n,
                               const double *target, int for_delta, int conversion, const double *orders, int n_orders,
                               double seconds, double *out, double *order_out, uint8_t *status_out) noexcept nogil
        void (*log_moment_block)(int64_t n, const double *sigma, const double *q, const double *order,
                                 double *k_out, double *d1_out, double *d2_out) noexcept nogil
        void (*classical_epsilon_block)(int64_t n, int rule, const double *a, const double *b, const double *c,
                                        const double *delta, double *out) noexcept nogil
        void (*gaussian_delta_block)(int64_t n, const double *mu, const double *eps, double *out) noexcept nogil
        int64_t (*exact_block)(int64_t n, const double *sigma, const double *q, const double *steps, const double *target, int what,
                           int directions, double seconds, double *lower_out, double *upper_out, double *slope_out, uint8_t *status_out) noexcept nogil
        int64_t (*exact_job)(int n_blocks, const double *count, const double *sigma, const int32_t *n_p, const int32_t *n_q,
                         const double *weight, const double *mean, int64_t n, const double *target, int what, int directions,
                         double seconds, double *lower_out, double *upper_out, double *slope_out, uint8_t *status_out) noexcept nogil
        int64_t (*exact_calibrate_block)(int64_t n, int solve_for, const double *eps, const double *delta, const double *a,
                                     const double *b, int directions, double seconds, double *out, uint8_t *status_out) noexcept nogil
        void (*clt_mu_approx_block)(int64_t n, const double *sigma, const double *q, const double *steps,
                                    double *out) noexcept nogil
        int (*capped_line)(double sigma, double q, double steps, double eps, const double *budget, double *out) noexcept nogil
    const fa_kernels *fa_kernels_select(const char *name)
    enum: FA_NO_MEMORY
    void fa_alloc_limit(int64_t n)
    double fa_seconds()

cdef const fa_kernels *kernels() noexcept nogil

# One cell each, for Cython and (by their addresses in __pyx_capi__) for Numba: certified upper bounds under add/remove.
# Arguments out of range: the safe side, infinity or 1.
cdef double dpsgd_epsilon(double noise_multiplier, double sample_rate, double steps, double delta) noexcept nogil
cdef double dpsgd_delta(double noise_multiplier, double sample_rate, double steps, double epsilon) noexcept nogil
cdef double dpsgd_rdp(double noise_multiplier, double sample_rate, double steps, double order) noexcept nogil
