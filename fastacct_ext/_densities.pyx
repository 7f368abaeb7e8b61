# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Densities that are compiled functions, and lists of masses: the buffers of density/ in C.

Functions are addresses of C functions double(double): callbacks that Numba has compiled.
"""
from libc.stdint cimport int64_t

cdef extern from "include/density/panel.h" nogil:
    ctypedef double (*fa_function)(double) noexcept nogil
    ctypedef struct fa_densities:
        fa_function log_p
        fa_function log_q
        fa_function loss
        int turned
        double eps
        int n
        int n_rough
        const double *points
        const double *weights
    void fa_excess_of_panel(const fa_densities *d, double low, double high, double good, double *lower_out,
                            double *upper_out)

cdef extern from "include/density/convolve.h" nogil:
    void fa_convolve(int64_t n, const double *a, int64_t m, const double *b, double *out)

cdef extern from "include/density/spread.h" nogil:
    int FA_SPREAD_ALL
    int fa_spread(int64_t many, const double *place, const double *weight, int64_t n, double *sum, double *rest)

cdef extern from "include/density/window.h" nogil:
    ctypedef struct fa_window:
        int is_upper
        int64_t n
        const double *all_above
        const double *gain_above
        double first
        double spacing
        double infinite
        double slack
        double top
        double tilt
        double log_scale
        double each_error
        double norm_error
        double below
        double above
        double log_moment
        double place_error
        double sum_error
        double peak
    double fa_window_finite(const fa_window *w, double eps)
    double fa_window_delta(const fa_window *w, double eps)
    double fa_window_epsilon(const fa_window *w, double delta)

def tabulate(size_t address, const double[::1] x, double[::1] out):
    """Call the C function double(double) at an address for every x: callbacks that Numba has compiled."""
    cdef fa_function f = <fa_function> address
    cdef int64_t i, n = x.shape[0]
    if address == 0 or out.shape[0] < n:
        raise ValueError("no function, or too little room")
    with nogil:
        for i in range(n):
            out[i] = f(x[i])


def excess_of_panel(size_t log_p, size_t log_q, size_t loss, bint turned, double low, double high, double epsilon,
                    const double[::1] points, const double[::1] weights, int rough, double good):
    """Bounds of the integral of (P - exp(epsilon) Q)_+ over [low, high], within about `good`; see density/panel.h.

    `points` and `weights` are two Gauss rules, the first with `rough` points.
    """
    cdef double lower, upper
    cdef int n = <int> points.shape[0]
    cdef fa_densities densities
    if log_p == 0 or log_q == 0 or weights.shape[0] != n or not 0 < rough < n:
        raise ValueError("no functions or no rules")
    densities = fa_densities(<fa_function> log_p, <fa_function> log_q, <fa_function> loss, turned, epsilon, n, rough,
                             &points[0], &weights[0])
    with nogil:
        fa_excess_of_panel(&densities, low, high, good, &lower, &upper)
    return lower, upper


def convolve(const double[::1] a, const double[::1] b, double[::1] out):
    """out = a * b by its definition."""
    if a.shape[0] < 1 or b.shape[0] < 1 or out.shape[0] != a.shape[0] + b.shape[0] - 1:
        raise ValueError("array lengths do not fit")
    with nogil:
        fa_convolve(a.shape[0], &a[0], b.shape[0], &b[0], &out[0])


def spread(const double[::1] place, const double[::1] weight, int64_t n, double[:, ::1] out):
    """Weights spread over the whole numbers near their places, which begin again after n: sums, and what they lack."""
    cdef bint is_done
    if place.shape[0] < 1 or weight.shape[0] != place.shape[0] or n < 1:
        raise ValueError("array lengths do not fit")
    if out.shape[0] != 2 or out.shape[1] < n + FA_SPREAD_ALL - 1:
        raise ValueError("array lengths do not fit")
    with nogil:
        is_done = fa_spread(place.shape[0], &place[0], &weight[0], n, &out[0, 0], &out[1, 0])
    if not is_done:
        raise ValueError("a place is no finite number")


cdef class TiltedMasses:
    """Composed tilted masses by their two sums from the right, read with every error on one side; density/window.h."""

    cdef fa_window window
    cdef const double[::1] all_above, gain_above

    def __init__(self, const double[::1] all_above, const double[::1] gain_above, *, bint is_upper, double first,
                 double spacing, double infinite, double slack, double top, double tilt, double log_scale,
                 double each_error, double norm_error, double below, double above, double log_moment,
                 double place_error, double sum_error, double peak):
        cdef int64_t n = all_above.shape[0]
        if n < 1 or gain_above.shape[0] != n or not spacing > 0.0:
            raise ValueError("sums of two lengths, or no spacing")
        self.all_above, self.gain_above = all_above, gain_above
        self.window = fa_window(is_upper, n - 1, &all_above[0], &gain_above[0], first, spacing, infinite, slack, top,
                                tilt, log_scale, each_error, norm_error, below, above, log_moment, place_error,
                                sum_error, peak)

    def finite(self, double epsilon):
        """Bound of what finite losses add to delta."""
        return fa_window_finite(&self.window, epsilon)

    def delta(self, double epsilon):
        """Bound of delta."""
        return fa_window_delta(&self.window, epsilon)

    def epsilon(self, double delta):
        """Bound of the smallest epsilon >= 0 with this delta."""
        return fa_window_epsilon(&self.window, delta)
