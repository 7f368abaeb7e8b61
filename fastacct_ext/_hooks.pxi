# Functions of `_kernels` for tests: parts of kernels on their own, with budgets that starve one error after another.

def limit_memory(int64_t allocations):
    """This thread's next allocations inside kernels succeed, those after them fail; negative: no limit."""
    fa_alloc_limit(allocations)


def disagreed():
    """Whether two certified intervals of one number did not meet since the last call: then one of them is wrong."""
    return bool(fa_disagreed())


def rdp_bounds_by_series(const double[::1] noise_multiplier, const double[::1] sample_rate, const double[::1] orders,
                         double[::1] lower, double[::1] upper, uint8_t[::1] status):
    """Renyi divergences at integer orders, by the binomial series alone."""
    cdef int64_t n = orders.shape[0]
    fit(noise_multiplier.shape[0] == sample_rate.shape[0] == lower.shape[0] == upper.shape[0] == n >= 1)
    fit(status.shape[0] == n)
    _active.rdp_by_series(n, &noise_multiplier[0], &sample_rate[0], &orders[0], &lower[0], &upper[0], &status[0])


def log_moments(const double[::1] noise_multiplier, const double[::1] sample_rate, const double[::1] orders,
                double[::1] k, double[::1] d1, double[::1] d2):
    """The log-moment and its derivatives with respect to the order, uncertified, as the search for orders sees them."""
    cdef int64_t n = orders.shape[0]
    fit(noise_multiplier.shape[0] == sample_rate.shape[0] == k.shape[0] == d1.shape[0] == d2.shape[0] == n >= 1)
    _active.log_moments(n, &noise_multiplier[0], &sample_rate[0], &orders[0], &k[0], &d1[0], &d2[0])


def moment_ledger(double noise_multiplier, double sample_rate, double order, const double[::1] budget,
                  double[::1] out):
    """A log-moment with a budget of one's own; see `moment_ledger` in kernels.h."""
    fit(budget.shape[0] == 3 and out.shape[0] == 5)
    return bool(_active.moment_ledger(noise_multiplier, sample_rate, order, &budget[0], &out[0]))


def capped_line(const double[::1] noise_multiplier, const double[::1] sample_rate, const double[::1] steps, double mu2,
                double epsilon, const double[::1] budget, double[::1] out):
    """One capped line with a budget of one's own; see `capped_line` in kernels.h."""
    cdef int n = <int>steps.shape[0]
    fit(noise_multiplier.shape[0] == sample_rate.shape[0] == n >= 1 and budget.shape[0] == 9 and out.shape[0] == 11)
    return bool(_active.capped_line(
        n, &noise_multiplier[0], &sample_rate[0], &steps[0], mu2, epsilon, &budget[0], &out[0]))
