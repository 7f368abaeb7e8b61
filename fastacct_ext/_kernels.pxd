# The C interface for Cython users:  from fastacct_ext._kernels cimport fa_kernels, kernels
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "include/kernels.h" nogil:
    # choices; in Python these are IntEnums
    cpdef enum Quantity "fa_quantity":
        EPSILON "FA_GIVE_EPSILON"
        DELTA "FA_GIVE_DELTA"
        LOG_DELTA "FA_GIVE_LOG_DELTA"
        THRESHOLD "FA_GIVE_THRESHOLD"
        ABOUT "FA_GIVE_ABOUT"
    cpdef enum Directions "fa_ways":
        ADD "FA_WAYS_ADD"
        REMOVE "FA_WAYS_REMOVE"
        BOTH "FA_WAYS_BOTH"
    cpdef enum Conversion "fa_rule":
        MIRONOV "FA_RULE_MIRONOV"
        CANONNE_KAMATH_STEINKE "FA_RULE_CKS"
        OPTIMAL "FA_RULE_OPTIMAL"
    ctypedef enum fa_wanted:
        FA_FIND_NOISE_MULTIPLIER
        FA_FIND_SAMPLE_RATE
        FA_FIND_STEPS
    ctypedef struct fa_question:
        Quantity quantity
        Directions ways
        Conversion conversion
        const double *orders
        int n_orders
        fa_wanted wanted
    ctypedef struct fa_cells:
        int64_t n
        const double *sigma
        const double *q
        const double *steps
        const double *target
        const double *eps
        const double *mu
        const double *off
    ctypedef struct fa_answers:
        double *lower
        double *upper
        double *slope
        double *order
        double *value
        uint8_t *status
    ctypedef struct fa_history:
        int n_blocks
        const double *sigma
        const double *q
        const double *steps
    ctypedef struct fa_job:
        int n_blocks
        const double *count
        const double *sigma
        const int32_t *n_p
        const int32_t *n_q
        const double *weight
        const double *mean
        int n_data
        int mirrored
        double spacing
        const double *times
        const int32_t *n_atoms
        const int32_t *n_panels
        const double *atom
        const double *panel
        const int32_t *n_tables
        const int32_t *n_slices
        const double *point
        const double *slice
        const double *missed
        const double *smooth
    ctypedef int64_t (*fa_kernel)(const fa_cells *cells, const fa_question *ask, double seconds,
                                  const fa_answers *out) noexcept nogil
    ctypedef struct fa_kernels:
        const char *name
        fa_kernel rdp
        fa_kernel renyi
        fa_kernel exact
        fa_kernel calibrate_renyi
        fa_kernel calibrate_exact
        fa_kernel gaussian_epsilon
        fa_kernel gaussian_delta
        fa_kernel basic_composition_epsilon
        fa_kernel advanced_composition_epsilon
        fa_kernel clt_mu_approx
        int64_t (*renyi_of_history)(const fa_history *run, const fa_cells *at, const fa_question *ask, double seconds,
                                    const fa_answers *out) noexcept nogil
        int64_t (*exact_job)(const fa_job *job, const fa_cells *at, const fa_question *ask, double seconds,
                             const fa_answers *out) noexcept nogil
        void (*mixture_moments)(int components, const double *mean, const double *p, const double *q, int origin,
                                double sigma, int64_t n, const double *u, double *rows_out) noexcept nogil
        void (*data_moments)(const fa_job *job, int is_flipped, const double *lost, int64_t n, const double *u,
                             double *rows_out) noexcept nogil
        int (*allocation)(double sigma, int64_t steps, int room, double *rows_out, double *known_out) noexcept nogil
    const fa_kernels *fa_kernels_select(const char *name)
    enum: FA_NO_MEMORY
    void fa_alloc_limit(int64_t n)
    void fa_ask(int (*is_given_up)() noexcept nogil) noexcept nogil
    double fa_seconds()
    double fa_counted() noexcept nogil
    int fa_disagreed()

cdef const fa_kernels *kernels() noexcept nogil

# One cell each, for Cython and (by their addresses in __pyx_capi__) for Numba: certified upper bounds under add/remove.
# Arguments out of range: the safe side, infinity or 1.
cdef double dpsgd_epsilon(double noise_multiplier, double sample_rate, double steps, double delta) noexcept nogil
cdef double dpsgd_delta(double noise_multiplier, double sample_rate, double steps, double epsilon) noexcept nogil
cdef double dpsgd_rdp(double noise_multiplier, double sample_rate, double steps, double order) noexcept nogil
