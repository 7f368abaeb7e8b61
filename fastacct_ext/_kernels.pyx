# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The one file that knows both C and Python buffers: one function per kernel of the table in kernels.h.
Array functions take broadcast inputs and arrays for their answers, and return a `Task`, which does any range of cells.
Nothing here checks mathematical domains: `fastacct` does, before it calls.
"""
import os

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_TYPE
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset, strcmp

from fastacct_ext._headers cimport (
    FA_EPS_OF_TARGET, FA_LOWER, FA_MAX_DIMS, FA_MAX_ORDER, FA_MAX_STEPS, FA_MU, FA_ORDER, FA_OUT_OF_RANGE, FA_Q,
    FA_SIGMA, FA_SLOPE, FA_STATUS, FA_STEPS, FA_TARGET, FA_UPPER, FA_VALUE, FA_ARRAYS, fa_array, fa_bounds_of_run,
    fa_found, fa_grid, fa_grid_order, fa_grid_run, fa_safe_rdp_of_run, fa_safe_upper_of_run, fa_strided,
)

cdef extern from "Python.h":
    int check_signals "PyErr_CheckSignals"() noexcept    # leaves an error standing

# Seconds after which a long call comes up for air: Ctrl-C, calls given up.  A job prepares itself anew each time.
cdef double LISTEN = 0.1, LISTEN_IN_JOB = 0.2
cdef Conversion _USUAL = Conversion.CANONNE_KAMATH_STEINKE      # where none is asked for

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
    cdef bytes encoded = b"" if name is None else name.encode()
    cdef const fa_kernels *chosen = fa_kernels_select(encoded)
    if chosen is NULL:
        raise ValueError(f"instruction-set level {name!r} cannot run here; known: baseline, x86-64-v3, x86-64-v4")
    if _running and chosen is not _active:
        raise RuntimeError(f"instruction-set level {name!r}: {_running} call(s) are running; choose when none is")
    _active = chosen
    return chosen.name.decode()


def level():
    """Name of the instruction-set level in use."""
    return _active.name.decode()

if os.environ.get("FASTACCT_ISA"):
    select(os.environ["FASTACCT_ISA"])

_is_given_up = None     # whether nobody waits any more for what this thread does


def listen(is_given_up):
    """Kernels that take long ask this now and then in threads other than the main one."""
    global _is_given_up
    _is_given_up = is_given_up


cdef int heard() noexcept nogil:
    """Whether a signal's handler has raised an error, which is left standing, or the call is given up."""
    with gil:
        return 1 if check_signals() else _is_given_up is not None and _is_given_up()


cdef int64_t checked(int64_t done) except? -1:
    if PyErr_Occurred():
        return -1
    if done == FA_NO_MEMORY:
        raise MemoryError("not enough memory for the kernel's nodes")
    return done


cdef fa_question question(Quantity quantity, Directions directions, Conversion conversion,
                          const double[::1] orders) noexcept:
    cdef fa_question ask = fa_question(quantity, directions, conversion, NULL, 0, FA_FIND_NOISE_MULTIPLIER)
    if orders is not None and orders.shape[0] > 0:
        ask.orders, ask.n_orders = &orders[0], <int> orders.shape[0]
    return ask


# -- cells of broadcast arrays -----------------------------------------------------------------------------------------


@cython.final
cdef class Task:
    """A kernel over all cells of some arrays: `task(start, stop)` does those of a range, in any order and thread.

    A buffer that does not fit raises ValueError: that is a bug of the caller, not of the user.
    """
    cdef fa_kernel kernel
    cdef fa_question ask
    cdef const double[::1] orders           # to which `ask` points
    cdef fa_grid grid
    cdef Py_buffer views[FA_ARRAYS]
    cdef int opened

    def __dealloc__(self):
        cdef int i
        for i in range(self.opened):
            PyBuffer_Release(&self.views[i])

    cdef Py_buffer *open(self, object array, int flags, bytes kind, int size) except NULL:
        cdef Py_buffer *view = &self.views[self.opened]
        PyObject_GetBuffer(array, view, flags | PyBUF_STRIDES | PyBUF_FORMAT)
        self.opened += 1
        if view.itemsize != size or view.format != kind or view.ndim > FA_MAX_DIMS:
            raise ValueError("numbers must be float64 arrays and codes uint8 arrays")
        return view

    cdef int cells_of(self, object status) except -1:
        """The status codes say which cells there are."""
        cdef Py_buffer *view = self.open(status, PyBUF_WRITABLE, b"B", 1)
        cdef int d
        self.grid.n_dims, self.grid.total = view.ndim, 1
        for d in range(view.ndim):
            self.grid.shape[d] = view.shape[d]
            self.grid.total *= view.shape[d]
        return self.place(FA_STATUS, view)

    cdef Task read(self, fa_array which, object array):
        if array is not None:
            self.place(which, self.open(array, 0, b"d", 8))
        return self

    cdef Task write(self, fa_array which, object array):
        self.place(which, self.open(array, PyBUF_WRITABLE, b"d", 8))
        return self

    cdef Task asks(self, Quantity quantity, Directions directions, Conversion conversion, const double[::1] orders):
        self.ask, self.orders = question(quantity, directions, conversion, orders), orders
        return self

    cdef Task ready(self):
        fa_grid_order(&self.grid)
        return self

    cdef int place(self, fa_array which, const Py_buffer *view) except -1:
        """Inputs broadcast to the shape of the cells, answers have it."""
        cdef fa_strided *array = &self.grid.array[<int> which]
        cdef int d, lead = self.grid.n_dims - view.ndim
        cdef bint broadcasts = which < FA_LOWER
        if lead < 0 or (lead and not broadcasts):
            raise ValueError("arrays do not broadcast to the cells")
        for d in range(view.ndim):
            if view.shape[d] == self.grid.shape[lead + d]:
                array.stride[lead + d] = view.strides[d] if view.shape[d] > 1 else 0
            elif view.shape[d] != 1 or not broadcasts:
                raise ValueError("arrays do not broadcast to the cells")
        array.data = <char *> view.buf
        return 0

    def __call__(self, int64_t start, int64_t stop):
        """Do cells of range(start, stop), without the GIL, and return the first one not done: `stop`, or less."""
        if not 0 <= start <= stop <= self.grid.total:
            raise ValueError("cells out of range")
        with nogil:
            start = fa_grid_run(&self.grid, self.kernel, &self.ask, start, stop, LISTEN)
        return checked(start)


cdef Task on_runs(fa_kernel kernel, noise_multiplier, sample_rate, steps, target, status):
    """A task whose cells are runs of DP-SGD; what is None is not read."""
    cdef Task task = Task.__new__(Task)
    task.kernel = kernel
    task.cells_of(status)
    task.read(FA_SIGMA, noise_multiplier).read(FA_Q, sample_rate).read(FA_STEPS, steps).read(FA_TARGET, target)
    return task


def rdp_bounds(noise_multiplier, sample_rate, steps, orders, lower, upper, status):
    """Renyi divergences of runs."""
    cdef Task task = on_runs(_active.rdp, noise_multiplier, sample_rate, steps, orders, status)
    return task.write(FA_LOWER, lower).write(FA_UPPER, upper).ready()


def rdp_upper(noise_multiplier, sample_rate, steps, orders, upper, status):
    """Upper bounds of the same."""
    return on_runs(_active.rdp, noise_multiplier, sample_rate, steps, orders, status).write(FA_UPPER, upper).ready()


def renyi_upper(noise_multiplier, sample_rate, steps, target, upper, order, status, *, Quantity quantity,
                Conversion conversion, const double[::1] orders=None):
    """Epsilon or delta by Renyi DP, and the order it was found at; `orders`: the only ones that are tried."""
    cdef Task task = on_runs(_active.renyi, noise_multiplier, sample_rate, steps, target, status)
    task.asks(quantity, Directions.BOTH, conversion, orders)
    return task.write(FA_UPPER, upper).write(FA_ORDER, order).ready()


def exact_bounds(noise_multiplier, sample_rate, steps, target, lower, upper, slope, status, *, Quantity quantity,
                 Directions directions):
    """Epsilon, delta or log delta; slope: d log delta/d epsilon at a delta read, NaN where not known."""
    cdef Task task = on_runs(_active.exact, noise_multiplier, sample_rate, steps, target, status)
    task.asks(quantity, directions, _USUAL, None)
    return task.write(FA_LOWER, lower).write(FA_UPPER, upper).write(FA_SLOPE, slope).ready()


def exact_upper(noise_multiplier, sample_rate, steps, target, upper, status, *, Quantity quantity,
                Directions directions):
    """Upper bounds of the same."""
    cdef Task task = on_runs(_active.exact, noise_multiplier, sample_rate, steps, target, status)
    return task.asks(quantity, directions, _USUAL, None).write(FA_UPPER, upper).ready()


cdef Task calibrated(Task task, noise_multiplier, sample_rate, steps, epsilon, value):
    if (noise_multiplier is None) + (sample_rate is None) + (steps is None) != 1:
        raise ValueError("two of noise_multiplier, sample_rate and steps must be given")
    task.ask.wanted = (FA_FIND_NOISE_MULTIPLIER if noise_multiplier is None
                       else FA_FIND_SAMPLE_RATE if sample_rate is None else FA_FIND_STEPS)
    return task.read(FA_EPS_OF_TARGET, epsilon).write(FA_VALUE, value).ready()


def calibrate_renyi(epsilon, delta, value, status, *, noise_multiplier=None, sample_rate=None, steps=None,
                    Conversion conversion, const double[::1] orders=None):
    """That one of noise_multiplier, sample_rate and steps which is not given, for a target, by Renyi DP."""
    cdef Task task = on_runs(_active.calibrate_renyi, noise_multiplier, sample_rate, steps, delta, status)
    task.asks(Quantity.EPSILON, Directions.BOTH, conversion, orders)
    return calibrated(task, noise_multiplier, sample_rate, steps, epsilon, value)


def calibrate_exact(epsilon, delta, value, status, *, noise_multiplier=None, sample_rate=None, steps=None,
                    Directions directions):
    """The same by the exact accountant."""
    cdef Task task = on_runs(_active.calibrate_exact, noise_multiplier, sample_rate, steps, delta, status)
    task.asks(Quantity.EPSILON, directions, _USUAL, None)
    return calibrated(task, noise_multiplier, sample_rate, steps, epsilon, value)


def gaussian_epsilon(mu, delta, value, status):
    """Epsilon of N(mu, 1) against N(0, 1)."""
    cdef Task task = on_runs(_active.gaussian_epsilon, None, None, None, delta, status)
    return task.read(FA_MU, mu).write(FA_VALUE, value).ready()


def gaussian_delta(mu, epsilon, value, status):
    """Delta of the same."""
    cdef Task task = on_runs(_active.gaussian_delta, None, None, None, epsilon, status)
    return task.read(FA_MU, mu).write(FA_VALUE, value).ready()


def basic_composition_epsilon(noise_multiplier, sample_rate, steps, delta, value, status):
    """Epsilon where epsilons and deltas of the steps add up."""
    cdef fa_kernel kernel = _active.basic_composition_epsilon
    return on_runs(kernel, noise_multiplier, sample_rate, steps, delta, status).write(FA_VALUE, value).ready()


def advanced_composition_epsilon(noise_multiplier, sample_rate, steps, delta, value, status):
    """Epsilon by the strong composition theorem."""
    cdef fa_kernel kernel = _active.advanced_composition_epsilon
    return on_runs(kernel, noise_multiplier, sample_rate, steps, delta, status).write(FA_VALUE, value).ready()


def clt_mu_approx(noise_multiplier, sample_rate, steps, value, status):
    """mu of the central limit theorem: no bound."""
    cdef Task task = on_runs(_active.clt_mu_approx, noise_multiplier, sample_rate, steps, None, status)
    return task.write(FA_VALUE, value).ready()


include "_jobs.pxi"


# -- one run of plain numbers ------------------------------------------------------------------------------------------


cdef double dpsgd_epsilon(double noise_multiplier, double sample_rate, double steps, double delta) noexcept nogil:
    return fa_safe_upper_of_run(_active.exact, Quantity.EPSILON, noise_multiplier, sample_rate, steps, delta)


cdef double dpsgd_delta(double noise_multiplier, double sample_rate, double steps, double epsilon) noexcept nogil:
    return fa_safe_upper_of_run(_active.exact, Quantity.DELTA, noise_multiplier, sample_rate, steps, epsilon)


cdef double dpsgd_rdp(double noise_multiplier, double sample_rate, double steps, double order) noexcept nogil:
    return fa_safe_rdp_of_run(_active.rdp, noise_multiplier, sample_rate, steps, order)


cdef inline bint as_number(object value, double *out) except -1:
    if PyFloat_Check(value):  # NumPy's float64 is one
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value) or strcmp(Py_TYPE(value).tp_name, "numpy.int64") == 0:  # NumPy is not loaded here
        try:
            out[0] = <double> value
        except OverflowError:
            return False
        return out[0] < FA_MAX_STEPS            # beyond, the conversion may have rounded
    return False


def bounds_of_numbers(str by, dict run, target, Quantity quantity=Quantity.DELTA):
    """Bounds and status of one run by the kernel "exact", "renyi" (lower bound: 0) or "rdp".

    None if noise_multiplier, sample_rate, steps or the target is missing, no plain number, or out of range.
    """
    cdef fa_kernel kernel = _active.exact if by == "exact" else _active.renyi if by == "renyi" else _active.rdp
    cdef fa_found found = fa_found(0.0, 0.0, 0)
    cdef int64_t done
    cdef double sigma, q, t, at
    if not (as_number(run.get("noise_multiplier"), &sigma) and as_number(run.get("sample_rate"), &q)
            and as_number(run.get("steps"), &t) and as_number(target, &at)) or (
                kernel == _active.rdp and not 1.0 < at <= FA_MAX_ORDER):
        return None
    with nogil:
        done = fa_bounds_of_run(kernel, quantity, sigma, q, t, at, &found)
    return None if done == FA_OUT_OF_RANGE or checked(done) != 1 else (found.lower, found.upper, found.status)


def counted():
    """What this thread's kernels have done so far, in terms of sums of about a nanosecond."""
    return fa_counted()


# for tests

def limit_memory(int64_t allocations):
    """This thread's next allocations inside kernels succeed, those after them fail; negative: no limit."""
    fa_alloc_limit(allocations)


def disagreed():
    """Whether two certified intervals of one number did not meet since the last call: then one of them is wrong."""
    return bool(fa_disagreed())
