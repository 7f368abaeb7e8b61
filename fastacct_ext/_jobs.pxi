# One job at many targets.

cdef int64_t _AT_ONCE = 64                # exponents between two looks at Ctrl-C

cdef int fit(bint they_do) except -1:
    if not they_do:
        raise ValueError("array lengths do not fit")
    return 0


def renyi_of_history(const double[::1] noise_multiplier, const double[::1] sample_rate, const double[::1] steps,
                     const double[::1] target, double[::1] upper, double[::1] order, uint8_t[::1] status, *,
                     Quantity quantity, Conversion conversion, const double[::1] orders=None):
    """Epsilon or delta of one heterogeneous run at each target."""
    cdef int64_t n = target.shape[0], at = 0, done
    cdef int blocks = <int> noise_multiplier.shape[0]
    cdef const fa_kernels *k = _active
    cdef fa_question ask = question(quantity, Directions.BOTH, conversion, orders)
    cdef fa_history run
    cdef fa_cells cells
    cdef fa_answers out
    fit(blocks >= 1 and sample_rate.shape[0] == steps.shape[0] == blocks)
    fit(upper.shape[0] == order.shape[0] == status.shape[0] == n)
    run = fa_history(blocks, &noise_multiplier[0], &sample_rate[0], &steps[0])
    while at < n:
        cells = fa_cells(n - at, NULL, NULL, NULL, &target[at], NULL, NULL, NULL)
        out = fa_answers(NULL, &upper[at], NULL, &order[at], NULL, &status[at])
        with nogil:
            done = k.renyi_of_history(&run, &cells, &ask, LISTEN_IN_JOB, &out)
        at += checked(done)
        PyErr_CheckSignals()


cdef class Data:
    """Losses that are data, as `fa_job` in kernels.h takes them."""

    cdef fa_job job
    cdef tuple kept

    def __init__(self, const double[::1] times, const int32_t[::1] n_atoms, const int32_t[::1] n_panels,
                 const double[:, ::1] atom, const double[:, ::1] panel, const int32_t[::1] n_tables,
                 const int32_t[::1] n_slices, const double[:, ::1] point, const double[:, ::1] slices,
                 const double[::1] missed, const double[:, ::1] smooth):
        cdef int64_t atoms = 0, panels = 0, tables = 0, parts = 0
        cdef int n = <int> times.shape[0], b
        fit(n_atoms.shape[0] == n_panels.shape[0] == n_tables.shape[0] == n_slices.shape[0] == missed.shape[0] == n)
        fit(smooth.shape[0] == n and smooth.shape[1] == 4)
        for b in range(n):
            fit(min(n_atoms[b], n_panels[b], n_tables[b], n_slices[b]) >= 0)
            fit(n_atoms[b] + n_panels[b] + n_tables[b] >= 1)
            atoms += n_atoms[b]
            panels += n_panels[b]
            tables += n_tables[b]
            parts += n_slices[b]
        fit(atom.shape[0] == atoms and panel.shape[0] == panels and atom.shape[1] == 4 and panel.shape[1] == 12)
        fit(point.shape[0] == 16 * tables and slices.shape[0] == parts and point.shape[1] == slices.shape[1] == 4)
        self.kept = (times, n_atoms, n_panels, atom, panel, n_tables, n_slices, point, slices, missed, smooth)
        memset(&self.job, 0, sizeof(self.job))
        self.job.n_data = n
        if n:
            self.job.times, self.job.n_atoms, self.job.n_panels = &times[0], &n_atoms[0], &n_panels[0]
            self.job.n_tables, self.job.n_slices, self.job.missed = &n_tables[0], &n_slices[0], &missed[0]
            self.job.smooth = &smooth[0, 0]
            self.job.atom = &atom[0, 0] if atoms else NULL
            self.job.panel = &panel[0, 0] if panels else NULL
            self.job.point = &point[0, 0] if tables else NULL
            self.job.slice = &slices[0, 0] if parts else NULL


def exact_job(const double[::1] count, const double[::1] noise, const int32_t[::1] n_p, const int32_t[::1] n_q,
              const double[::1] weight, const double[::1] mean, Data data not None, const double[::1] target,
              double[::1] lower, double[::1] upper, double[::1] slope, uint8_t[::1] status, *, Quantity quantity,
              Directions directions, bint mirrored=False, double spacing=0.0, const double[::1] off=None,
              const double[::1] near=None):
    """Bounds of one composed job of mixtures and of losses that are data; `fa_job` in kernels.h has the layout.  off: of
    epsilons without data, what the logarithms of their deltas may be off by, either way.  near: of ABOUT, what it may be."""
    cdef int64_t n = target.shape[0], size = 0, done
    cdef int blocks = <int> count.shape[0], b
    cdef const fa_kernels *k = _active
    cdef fa_question ask = question(quantity, directions, _USUAL, None)
    cdef fa_job job = data.job
    cdef fa_cells cells
    cdef fa_answers out
    fit(blocks + job.n_data >= 1 and noise.shape[0] == n_p.shape[0] == n_q.shape[0] == blocks)
    for b in range(blocks):
        fit(1 <= n_p[b] <= 65 and 0 <= n_q[b] <= 65)
        size += n_p[b] + n_q[b]
    fit(weight.shape[0] == mean.shape[0] == size)
    fit(lower.shape[0] == upper.shape[0] == slope.shape[0] == status.shape[0] == n)
    fit(off is None or (off.shape[0] == n and job.n_data == 0 and quantity == Quantity.EPSILON))
    fit((near is not None and near.shape[0] == n) == (quantity == Quantity.ABOUT))
    job.n_blocks, job.mirrored, job.spacing = blocks, mirrored, spacing
    if blocks:
        job.count, job.sigma, job.n_p, job.n_q = &count[0], &noise[0], &n_p[0], &n_q[0]
        job.weight, job.mean = &weight[0], &mean[0]
    if n == 0:
        return
    cells = fa_cells(n, NULL, NULL, NULL, &target[0], NULL, NULL, NULL)
    if off is not None:
        cells.off = &off[0]
    if near is not None:
        cells.eps = &near[0]
    out = fa_answers(&lower[0], &upper[0], &slope[0], NULL, NULL, &status[0])
    with nogil:     # in one go: targets share lines, each of which may take longer than it takes to listen
        fa_ask(heard)
        done = k.exact_job(&job, &cells, &ask, INFINITY, &out)
        fa_ask(NULL)
    checked(done)
    PyErr_CheckSignals()


def allocation(double noise_multiplier, int64_t steps, double[:, ::1] rows, double[::1] known):
    """Atoms of the loss of noise in one of `steps` steps drawn at random, and what is known of them; `allocation` in
    kernels.h says what.  How many; 0: there is no room."""
    cdef const fa_kernels *k = _active
    cdef int n, room = <int> rows.shape[0]
    fit(noise_multiplier > 0.0 and steps >= 1 and room > 0 and rows.shape[1] == 4 and known.shape[0] == 4)
    with nogil:
        fa_ask(heard)
        n = k.allocation(noise_multiplier, steps, room, &rows[0, 0], &known[0])
        fa_ask(NULL)
    return checked(n)


def data_moments(Data data not None, bint flipped, const double[::1] lost, const double[::1] u, double[:, ::1] rows):
    """Bounds of K(u), K'(u) and K''(u), six in a row, of one loss; `data_moments` in kernels.h says of what."""
    cdef const fa_kernels *k = _active
    cdef int64_t i, n = u.shape[0]
    fit(data.job.n_data == 1 and lost.shape[0] == 3 and rows.shape[0] == n and rows.shape[1] == 6)
    for i in range(0, n, _AT_ONCE):
        with nogil:
            k.data_moments(&data.job, flipped, &lost[0], min(_AT_ONCE, n - i), &u[i], &rows[i, 0])
        PyErr_CheckSignals()


def mixture_moments(const double[::1] mean, const double[::1] p, const double[::1] q, int origin, double noise,
                    const double[::1] u, double[:, ::1] rows):
    """Bounds of K(u), K'(u) and K''(u), six in a row; `mixture_moments` in kernels.h says of what."""
    cdef const fa_kernels *k = _active
    cdef int64_t i
    fit(0 <= origin < mean.shape[0] == p.shape[0] == q.shape[0] <= 1 << 20)
    fit(rows.shape[0] == u.shape[0] and rows.shape[1] == 6)
    for i in range(u.shape[0]):
        with nogil:
            k.mixture_moments(<int> mean.shape[0], &mean[0], &p[0], &q[0], origin, noise, 1, &u[i], &rows[i, 0])
        PyErr_CheckSignals()
