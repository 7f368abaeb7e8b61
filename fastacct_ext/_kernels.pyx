# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The one file that knows both C and Python buffers: it cuts broadcast arrays into contiguous blocks for the kernels.

Nothing here checks mathematical domains: `fastacct` does, before it calls.
"""
import os

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from libc.math cimport INFINITY, exp, expm1, fabs, fmax, fmin, floor, isfinite, isnan, log
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    CELLS = 1024
    FEW_CELLS = 64          # of an operation that takes milliseconds a cell and has no clock of its own
    MAX_INPUTS = 4
    MAX_DIMS = 32

# what `apply` computes; inputs in this order, outputs in [ ]
cpdef enum Op:
    RDP = 0                 # noise_multiplier, sample_rate, order, steps            [lower, upper], status
    RDP_SERIES = 1          # noise_multiplier, sample_rate, order                   [lower, upper], status
    READOUT = 2             # noise_multiplier, sample_rate, steps, delta or epsilon [value, order], status
    CALIBRATE = 3           # epsilon, delta, two of the three parameters            [value], status
    LOG_MOMENT = 4          # noise_multiplier, sample_rate, order                   [K, K', K'']
    CLASSICAL = 5           # a, b, c, delta                                         [epsilon]
    GAUSSIAN_DELTA = 6      # mu, epsilon                                            [delta]
    CLT_MU_APPROX = 7       # noise_multiplier, sample_rate, steps                   [mu]
    RDP_UPPER = 8           # noise_multiplier, sample_rate, order, steps            [upper], status
    EXACT = 9               # noise_multiplier, sample_rate, steps, target           [lower, upper, slope], status
    EXACT_UPPER = 10        # the same                                               [upper], status
    EXACT_CALIBRATE = 11    # epsilon, delta, two of the three parameters            [value], status

cdef double _SLICE = 0.2    # seconds after which a long call comes up for air: Ctrl-C, calls given up

cdef const fa_kernels *_active = fa_kernels_select(NULL)
cdef int _running = 0


cdef const fa_kernels *kernels() noexcept nogil:
    return _active


def begin():
    """A call of several kernels begins: until `end`, all of them use the same instruction-set level."""
    global _running
    _running += 1


def end():
    """The call is over."""
    global _running
    _running -= 1


def select(name=None):
    """Use the named instruction-set level (None: the best this processor has) and return its name.

    Raises RuntimeError while calls run in other threads: half of an answer would be computed at another level.
    """
    global _active
    cdef const fa_kernels *chosen
    cdef bytes encoded
    if name is None:
        chosen = fa_kernels_select(NULL)
    else:
        encoded = name.encode()
        chosen = fa_kernels_select(encoded)
    if chosen is NULL:
        raise ValueError(f"instruction-set level {name!r} cannot run here; known: baseline, x86-64-v3, x86-64-v4")
    if _running and chosen is not _active:
        raise RuntimeError(f"instruction-set level {name!r}: {_running} call(s) are running; choose when none is")
    _active = chosen
    return chosen.name.decode()


def level():
    """Name of the instruction-set level in use."""
    return _active.name.decode()


def limit_memory(int64_t allocations):
    """For tests: this thread's next allocations inside kernels succeed, those after them fail; negative: no limit."""
    fa_alloc_limit(allocations)


def capped_line(double noise_multiplier, double sample_rate, double steps, double epsilon, const double[::1] budget, double[::1] out):
    """For tests: one capped line with a budget of one's own; see `capped_line` in kernels.h."""
    if budget.shape[0] != 7 or out.shape[0] != 11:
        raise ValueError("array lengths do not fit")
    return bool(_active.capped_line(noise_multiplier, sample_rate, steps, epsilon, &budget[0], &out[0]))


if os.environ.get("FASTACCT_ISA"):
    select(os.environ["FASTACCT_ISA"])


cdef struct Strided:
    const char *data
    int64_t stride[MAX_DIMS]


cdef void gather(const Strided *source, const int64_t *shape, int n_dims, int64_t start, int64_t count, double *out) noexcept nogil:
    """Copy cells start .. start+count of a strided array, in C order, to `out`."""
    cdef int64_t index[MAX_DIMS]
    cdef int64_t rest = start, i, inner
    cdef int d
    cdef const char *at = source.data
    for d in range(n_dims - 1, -1, -1):
        index[d] = rest % shape[d]
        rest = rest // shape[d]
        at += index[d] * source.stride[d]
    for i in range(count):
        out[i] = (<const double *> at)[0]
        for d in range(n_dims - 1, -1, -1):
            index[d] += 1
            at += source.stride[d]
            if index[d] < shape[d]:
                break
            at -= source.stride[d] * shape[d]
            index[d] = 0


def apply(int op, tuple inputs, tuple shape, int64_t start, int64_t stop, double[::1] out0, double[::1] out1, double[::1] out2,
          uint8_t[::1] status, int option=0, int conversion=0, const double[::1] orders=None, double seconds=INFINITY):
    """Run one kernel over cells start <= i < stop (C order) of float64 arrays broadcast to `shape`; the GIL is released.

    Returns the first cell not done: `stop`, or less after more than `seconds`.  Outputs are contiguous arrays over all cells; those an operation does not write may be None.  Raises ValueError on a buffer that does
    not fit: that is a bug of the caller, not of the user.
    """
    cdef Py_buffer views[MAX_INPUTS]
    cdef Strided sources[MAX_INPUTS]
    cdef int64_t c_shape[MAX_DIMS]
    cdef int n_inputs = len(inputs), n_dims = len(shape), opened = 0, i, d, n_orders = 0, lead
    cdef int64_t total = 1
    cdef const double *c_orders = NULL
    cdef double *p0 = NULL
    cdef double *p1 = NULL
    cdef double *p2 = NULL
    cdef uint8_t *ps = NULL
    if n_inputs > MAX_INPUTS or n_dims > MAX_DIMS:
        raise ValueError("too many inputs or dimensions")
    for d in range(n_dims):
        c_shape[d] = shape[d]
        total *= c_shape[d]
    if not 0 <= start <= stop <= total:
        raise ValueError("cells out of range")
    if start == stop:
        return stop
    if out0 is not None:
        if out0.shape[0] < total:
            raise ValueError("output too short")
        p0 = &out0[0]
    if out1 is not None:
        if out1.shape[0] < total:
            raise ValueError("output too short")
        p1 = &out1[0]
    if out2 is not None:
        if out2.shape[0] < total:
            raise ValueError("output too short")
        p2 = &out2[0]
    if status is not None:
        if status.shape[0] < total:
            raise ValueError("output too short")
        ps = &status[0]
    if orders is not None and orders.shape[0] > 0:
        c_orders = &orders[0]
        n_orders = <int> orders.shape[0]
    if p0 == NULL or (op <= READOUT and (p1 == NULL or ps == NULL)) or ((op == CALIBRATE or op == RDP_UPPER) and ps == NULL) or (op == LOG_MOMENT and (p1 == NULL or p2 == NULL)):
        raise ValueError("an output is missing")
    if op >= EXACT and (ps == NULL or (op == EXACT and (p1 == NULL or p2 == NULL))):
        raise ValueError("an output is missing")
    if n_inputs != (4, 3, 4, 4, 3, 4, 2, 3, 4, 4, 4, 4)[op]:
        raise ValueError("wrong number of inputs")
    try:
        for i in range(n_inputs):
            PyObject_GetBuffer(inputs[i], &views[i], PyBUF_STRIDES | PyBUF_FORMAT)
            opened += 1
            if views[i].itemsize != 8 or views[i].format[0] != c'd' or views[i].ndim > n_dims:
                raise ValueError("inputs must be float64 arrays")
            sources[i].data = <const char *> views[i].buf
            lead = n_dims - views[i].ndim
            for d in range(n_dims):
                sources[i].stride[d] = 0
            for d in range(views[i].ndim):
                if views[i].shape[d] == c_shape[lead + d]:
                    sources[i].stride[lead + d] = views[i].strides[d] if views[i].shape[d] > 1 else 0
                elif views[i].shape[d] != 1:
                    raise ValueError("inputs do not broadcast")
        with nogil:
            start = run_cells(op, sources, n_inputs, c_shape, n_dims, start, stop, p0, p1, p2, ps, option, conversion, c_orders, n_orders,
                              seconds)
        return checked(start)
    finally:
        for i in range(opened):
            PyBuffer_Release(&views[i])


cdef int64_t checked(int64_t done) except -1:
    """How many cells a kernel has done."""
    if done == FA_NO_MEMORY:
        raise MemoryError("not enough memory for the kernel's nodes")
    return done


cdef int64_t run_cells(int op, const Strided *sources, int n_inputs, const int64_t *shape, int n_dims, int64_t start, int64_t stop,
                       double *p0, double *p1, double *p2, uint8_t *ps, int option, int conversion, const double *orders, int n_orders,
                       double seconds) noexcept nogil:
    """The first cell not done, or FA_NO_MEMORY."""
    cdef double cells[MAX_INPUTS][CELLS]
    cdef double unused[CELLS]
    cdef int64_t at = start, n, done
    cdef int i
    cdef double end = fa_seconds() + seconds, left = seconds
    cdef const fa_kernels *k = _active
    while at < stop and left > 0.0:
        n = FEW_CELLS if op == CALIBRATE else CELLS
        if n_dims and shape[n_dims - 1] <= n:             # end at a row of the last axis: rows share their nodes
            n -= (at + n) % shape[n_dims - 1]
        n = done = stop - at if stop - at < n else n
        for i in range(n_inputs):
            gather(&sources[i], shape, n_dims, at, n, cells[i])
        if op == RDP:
            k.rdp_block(n, cells[0], cells[1], cells[2], cells[3], p0 + at, p1 + at, ps + at)
        elif op == RDP_UPPER:
            k.rdp_block(n, cells[0], cells[1], cells[2], cells[3], unused, p0 + at, ps + at)
        elif op == RDP_SERIES:
            k.rdp_series_block(n, cells[0], cells[1], cells[2], p0 + at, p1 + at, ps + at)
        elif op == READOUT:
            k.readout_block(n, cells[0], cells[1], cells[2], cells[3], option, conversion, orders, n_orders, p0 + at, p1 + at, ps + at)
        elif op == CALIBRATE:
            k.calibrate_block(n, option, cells[0], cells[1], cells[2], cells[3], conversion, orders, n_orders, p0 + at, ps + at)
        elif op == LOG_MOMENT:
            k.log_moment_block(n, cells[0], cells[1], cells[2], p0 + at, p1 + at, p2 + at)
        elif op == CLASSICAL:
            k.classical_epsilon_block(n, option, cells[0], cells[1], cells[2], cells[3], p0 + at)
        elif op == GAUSSIAN_DELTA:
            k.gaussian_delta_block(n, cells[0], cells[1], p0 + at)
        elif op == CLT_MU_APPROX:
            k.clt_mu_approx_block(n, cells[0], cells[1], cells[2], p0 + at)
        elif op == EXACT:
            done = k.exact_block(n, cells[0], cells[1], cells[2], cells[3], option, conversion, left, p0 + at, p1 + at, p2 + at, ps + at)
        elif op == EXACT_UPPER:
            done = k.exact_block(n, cells[0], cells[1], cells[2], cells[3], option, conversion, left, unused, p0 + at, NULL, ps + at)
        elif op == EXACT_CALIBRATE:
            done = k.exact_calibrate_block(n, option, cells[0], cells[1], cells[2], cells[3], conversion, left, p0 + at, ps + at)
        if done < 0:
            return done
        at += done
        left = end - fa_seconds()
    return at


def history(const double[::1] noise_multiplier, const double[::1] sample_rate, const double[::1] steps, const double[::1] target, bint for_delta,
            int conversion, const double[::1] orders, double[::1] out, double[::1] order_out, uint8_t[::1] status):
    """epsilon (or delta) of one heterogeneous run at each target; see `history_readout` in kernels.h."""
    cdef int64_t n = target.shape[0], at = 0, done
    cdef int blocks = <int> noise_multiplier.shape[0], n_orders = 0
    cdef const fa_kernels *k = _active
    cdef const double *c_orders = NULL
    if sample_rate.shape[0] != blocks or steps.shape[0] != blocks or out.shape[0] < n or order_out.shape[0] < n or status.shape[0] < n or blocks < 1:
        raise ValueError("array lengths do not fit")
    if orders is not None and orders.shape[0] > 0:
        c_orders = &orders[0]
        n_orders = <int> orders.shape[0]
    while at < n:
        with nogil:
            done = k.history_readout(blocks, &noise_multiplier[0], &sample_rate[0], &steps[0], n - at, &target[at], for_delta, conversion,
                                     c_orders, n_orders, _SLICE, &out[at], &order_out[at], &status[at])
        at += checked(done)
        PyErr_CheckSignals()


def exact_job(const double[::1] count, const double[::1] noise, const int32_t[::1] n_p, const int32_t[::1] n_q, const double[::1] weight,
              const double[::1] mean, const double[::1] target, int what, int directions, double[::1] lower, double[::1] upper,
              double[::1] slope, uint8_t[::1] status):
    """Certified bounds of one composed job at each target; the layout is that of `exact_job` in kernels.h."""
    cdef int64_t n = target.shape[0], size = 0, at = 0, done
    cdef int blocks = <int> count.shape[0], b
    cdef const fa_kernels *k = _active
    if blocks < 1 or noise.shape[0] != blocks or n_p.shape[0] != blocks or n_q.shape[0] != blocks:
        raise ValueError("array lengths do not fit")
    for b in range(blocks):
        if not (1 <= n_p[b] <= 65 and 0 <= n_q[b] <= 65):
            raise ValueError("too many components")
        size += n_p[b] + n_q[b]
    if weight.shape[0] != size or mean.shape[0] != size or lower.shape[0] < n or upper.shape[0] < n or slope.shape[0] < n or status.shape[0] < n:
        raise ValueError("array lengths do not fit")
    while at < n:
        with nogil:
            done = k.exact_job(blocks, &count[0], &noise[0], &n_p[0], &n_q[0], &weight[0], &mean[0], n - at, &target[at], what, directions,
                               _SLICE, &lower[at], &upper[at], &slope[at], &status[at])
        at += checked(done)
        PyErr_CheckSignals()


cdef bint is_run(double sigma, double q, double t) noexcept nogil:
    return sigma >= 0.0 and 0.0 <= q <= 1.0 and 0.0 <= t <= 9007199254740992.0 and t == floor(t)


cdef double dpsgd_epsilon(double noise_multiplier, double sample_rate, double steps, double delta) noexcept nogil:
    cdef double lower, upper
    cdef uint8_t status
    if not (is_run(noise_multiplier, sample_rate, steps) and 0.0 <= delta <= 1.0):
        return INFINITY
    if _active.exact_block(1, &noise_multiplier, &sample_rate, &steps, &delta, 0, 3, INFINITY, &lower, &upper, NULL, &status) != 1:
        return INFINITY
    return upper


cdef double dpsgd_delta(double noise_multiplier, double sample_rate, double steps, double epsilon) noexcept nogil:
    cdef double lower, upper
    cdef uint8_t status
    if not (is_run(noise_multiplier, sample_rate, steps) and epsilon >= 0.0):
        return 1.0
    if _active.exact_block(1, &noise_multiplier, &sample_rate, &steps, &epsilon, 1, 3, INFINITY, &lower, &upper, NULL, &status) != 1:
        return 1.0
    return upper


cdef double dpsgd_rdp(double noise_multiplier, double sample_rate, double steps, double order) noexcept nogil:
    cdef double lower, upper
    cdef uint8_t status
    if not (is_run(noise_multiplier, sample_rate, steps) and 1.0 < order <= 1e11):
        return INFINITY
    _active.rdp_block(1, &noise_multiplier, &sample_rate, &order, &steps, &lower, &upper, &status)
    return upper


ctypedef double (*scalar_function)(double) noexcept nogil


def tabulate(size_t address, const double[::1] x, double[::1] out):
    """Call the C function double(double) at an address for every x: callbacks that Numba has compiled."""
    cdef scalar_function f = <scalar_function> address
    cdef int64_t i, n = x.shape[0]
    if address == 0 or out.shape[0] < n:
        raise ValueError("no function, or too little room")
    with nogil:
        for i in range(n):
            out[i] = f(x[i])


def refine(size_t log_p, size_t log_q, size_t loss, bint turned, double low, double high, double epsilon, const double[::1] points,
           const double[::1] weights, int rough, double good):
    """Bounds of the integral of (P - exp(epsilon) Q)_+ over [low, high]: panels are halved where the loss passes epsilon.

    `points` and `weights` are two Gauss rules, the first with `rough` points; their difference (ten times) is paid.  A piece that adds at
    most `good` is left as it is.
    """
    cdef scalar_function fp = <scalar_function> log_p, fq = <scalar_function> log_q, fl = <scalar_function> loss
    cdef double stack[128]
    cdef double a, b, middle, half, p, q, p_rough, q_rough, lp, lq, l, bottom, top, margin, w, p_off, q_off, size, upper = 0.0, below = 0.0, chord
    cdef int n = <int> points.shape[0], i, depth = 0, used = 0
    if log_p == 0 or log_q == 0 or weights.shape[0] != n or not 0 < rough < n:
        raise ValueError("no functions or no rules")
    with nogil:
        stack[0] = low
        stack[1] = high
        depth = 1
        while depth:
            depth -= 1
            a, b = stack[2 * depth], stack[2 * depth + 1]
            middle, half = 0.5 * (a + b), 0.5 * (b - a)
            size = log(half)
            p = q = p_rough = q_rough = 0.0
            bottom, top = INFINITY, -INFINITY
            for i in range(n):
                lp, lq = fp(middle + half * points[i]), fq(middle + half * points[i])
                l = fl(middle + half * points[i]) if loss else lp - lq
                if turned:
                    lp, lq, l = lq, lp, -l
                if not isnan(l):
                    bottom, top = fmin(bottom, l), fmax(top, l)
                w = weights[i]                             # in logarithms, and Q times exp(epsilon): neither underflows where it matters
                if i < rough:
                    p_rough += w * exp(lp + size)
                    q_rough += w * exp(lq + size + epsilon)
                else:
                    p += w * exp(lp + size)
                    q += w * exp(lq + size + epsilon)
            margin = 0.15 * (top - bottom) + 1.8e-15 * fmax(fabs(top), fabs(bottom))
            if isfinite(margin):
                bottom, top = bottom - margin, top + margin
            elif bottom != top:                            # finite and infinite losses: nothing is known of their range
                bottom, top = -INFINITY, INFINITY
            for i in range(2):                             # a singularity at an end
                w = b - 1e-11 * half if i else a + 1e-11 * half
                l = fl(w) if loss else fp(w) - fq(w)
                l = -l if turned else l
                if l > top:
                    top = INFINITY
                if l < bottom:
                    bottom = -INFINITY
            p_off = 10.0 * fabs(p - p_rough) + p * 1.2e-16 * (64.0 + 8.0 * fabs(size) + 4.0 * (fabs(log(p)) if p > 0.0 else 0.0)) + 1e-320
            q_off = 10.0 * fabs(q - q_rough) + q * 1.2e-16 * (64.0 + 8.0 * (fabs(size) + epsilon) + 4.0 * (fabs(log(q)) if q > 0.0 else 0.0)) + 1e-320
            used += 1
            if not top > epsilon:
                continue
            if bottom > epsilon:
                upper += fmax(0.0, p + p_off - fmax(q - q_off, 0.0))
                below += fmax(0.0, p - p_off - (q + q_off))
                continue
            chord = (p + p_off) * -expm1(fmin(epsilon - top, 0.0))
            if chord > good and depth < 60 and used < 4000 and half > 1e-15 * fabs(middle):
                stack[2 * depth], stack[2 * depth + 1] = a, middle
                stack[2 * depth + 2], stack[2 * depth + 3] = middle, b
                depth += 2
                continue
            upper += chord
            below += fmax(0.0, p - p_off - (q + q_off))
    return below * (1.0 - 1e-14), upper * (1.0 + 1e-14)


def convolve(const double[::1] a, const double[::1] b, double[::1] out):
    """out = a * b by its definition: a sum of positive terms keeps its relative accuracy, and takes no threads."""
    cdef int64_t n = a.shape[0], m = b.shape[0], i, j
    cdef double x
    cdef const double *from_b
    cdef double *to
    if n < 1 or m < 1 or out.shape[0] != n + m - 1:
        raise ValueError("array lengths do not fit")
    from_b, to = &b[0], &out[0]
    with nogil:
        for i in range(n + m - 1):
            to[i] = 0.0
        for i in range(n):
            x = a[i]
            if x != 0.0:
                for j in range(m):
                    to[i + j] += x * from_b[j]


cdef inline bint as_number(object value, double *out) except -1:
    if PyFloat_CheckExact(value):
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value):
        try:
            out[0] = <double> value
        except OverflowError:
            return False
        return out[0] < 9007199254740992.0            # beyond, the conversion may have rounded
    return False


def readout_scalar(noise_multiplier, sample_rate, steps, target, bint for_delta, bint exact):
    """epsilon (or delta) for four plain Python numbers with Exact() or RDP(); None if they are not all valid plain numbers."""
    cdef double sigma, q, t, d, out, lower, order
    cdef int64_t done = 1
    cdef uint8_t status
    if not (as_number(noise_multiplier, &sigma) and as_number(sample_rate, &q) and as_number(steps, &t) and as_number(target, &d)):
        return None
    if not (sigma >= 0.0 and 0.0 <= q <= 1.0 and 0.0 <= t <= 9007199254740992.0 and t == floor(t) and d >= 0.0 and (for_delta or d <= 1.0)):
        return None
    with nogil:
        if exact:
            done = _active.exact_block(1, &sigma, &q, &t, &d, for_delta, 3, INFINITY, &lower, &out, NULL, &status)
        else:
            _active.readout_block(1, &sigma, &q, &t, &d, for_delta, 1, NULL, 0, &out, &order, &status)
    checked(done)
    return out
