"""Gradients of epsilon and of log delta of a run of DP-SGD, for optimisers and for calibration.

They are differences of certified answers near by.  Errors are estimated, not proved, but for what intervals leave open.

=========================  ==========================================================================================
edge case                  answer
=========================  ==========================================================================================
nothing is released        epsilon's derivatives 0; log delta's NaN, `NOT_MET`: delta is 0.  (sample_rate or steps 0,
                           noise_multiplier inf.)  Derivatives at the boundary are those of larger delta: 0
no noise                   NaN, `NOT_MET` (at delta = 1: epsilon's are 0)
delta >= delta(epsilon=0)  epsilon is 0, and so are its derivatives
delta = 0                  NaN, `NOT_MET`; `neighbors="add"`: those of -steps log(1 - sample_rate)
delta(epsilon) = 0         log delta's NaN, `NOT_MET`: epsilon = inf, or the largest loss of `neighbors="add"`
epsilon = 0                both directions tie; the derivative by epsilon is that of direction remove
epsilon next to 0          where it is 0 at one of the six places: that derivative NaN, the cell `LOOSE`
sample_rate = 1            by sample_rate from below, for the direction that is larger there; 1e-5 below 1 often `LOOSE`
fewer than 10 steps        by steps NaN, the whole cell `LOOSE`: delta between whole numbers has no one meaning there
10 to about 50 steps       by steps from whole numbers: good to 2 to 6 digits, the cell `LOOSE`
steps not whole, < 100     NaN, `LOOSE`, as delta there has no one meaning (but for sample_rate = 1)
nothing certified          NaN, `LOOSE`
=========================  ==========================================================================================
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants import Exact
from fastacct.accountants.batching import batches_of
from fastacct.accountants.question import as_accountant
from fastacct.accountants.run import Run, as_delta, parameters, refused
from fastacct.core.bounds import TIGHT_WIDTH, Shaped, Status
from fastacct.core.inputs import (
    MAX_STEPS,
    Cells,
    Domain,
    Reals,
    as_cells,
    as_threads,
    check_memory,
    common_shape,
    unwrap,
)
from fastacct.core.relations import SAMPLED, as_relation, refuse
from fastacct.readers.cell_job import ADD, BOTH, CELLS_PER_TASK, REMOVE, read_run
from fastacct.readers.contour import kernel_directions
from fastacct.readers.nearby import EPSILON, Reading
from fastacct_ext._kernels import Directions, Quantity

__all__ = ["DeltaGradient", "EpsilonGradient", "delta_gradient", "epsilon_gradient"]

_REAL_STEPS: Final = Domain(0.0, MAX_STEPS)
_WHOLE_BELOW: Final = 100.0
"""Steps below which they are whole, or have no meaning."""
_SPACING: Final = 2.0**-9
"""Between two of six places where answers are asked for, relative."""
_STENCIL: Final = np.array([[-4, -2, -1, 1, 2, 4], [5, 4, 3, 2, 1, 0]])
"""On both sides of a cell; on the right next to epsilon = 0."""
_WEIGHTS: Final = np.array(
    [[-1 / 360, 1 / 9, -32 / 45, 32 / 45, -1 / 9, 1 / 360], [1 / 5, -5 / 4, 10 / 3, -5, 5, -137 / 60]]
)
"""They give the derivative of the polynomial through all six answers ..."""
_REST: Final = _WEIGHTS - np.array([[0, 1 / 12, -2 / 3, 2 / 3, -1 / 12, 0], [0, 0, 1 / 3, -3 / 2, 3, -11 / 6]])
"""... and what it has more than that through the nearest four."""


class EpsilonGradient(NamedTuple):
    """Derivatives of epsilon at fixed delta; floats or float64 arrays.

    Examples
    --------
    >>> import fastacct as fa
    >>> slope = fa.dpsgd.epsilon_gradient(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> round(slope.noise_multiplier, 3), slope.direction
    (-3.823, 'remove')
    """

    noise_multiplier: Shaped
    sample_rate: Shaped
    steps: Shaped
    errors_approx: tuple[Shaped, Shaped, Shaped]
    """Estimates of their absolute errors, in the same order: not proved."""
    direction: Shaped
    """The direction that decides and that is differentiated: "remove", "add", or "both" where they are not apart."""
    status: Shaped
    """TIGHT: every error is estimated at 1e-6 of its derivative or less.  LOOSE: at more (steps below about 50), or
    something is NaN: below 100 steps that are not whole, below 10 the derivative by steps, or what is not certified.
    NOT_MET: there is no finite number to differentiate (no noise, delta = 0); all is NaN."""


class DeltaGradient(NamedTuple):
    """Derivatives of log delta, each with the other three fixed; else as `EpsilonGradient`.

    Examples
    --------
    >>> import fastacct as fa
    >>> slope = fa.dpsgd.delta_gradient(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=2.0)
    >>> round(slope.epsilon, 3), slope.direction
    (-7.808, 'remove')
    """

    noise_multiplier: Shaped
    sample_rate: Shaped
    steps: Shaped
    epsilon: Shaped
    errors_approx: tuple[Shaped, Shaped, Shaped, Shaped]
    direction: Shaped
    status: Shaped


def epsilon_gradient(*, delta: Reals | str, **run: Unpack[Run]) -> EpsilonGradient:
    """Derivatives of the true epsilon at fixed `delta`, by noise multiplier, sample rate and steps.

    **Guarantee.** None: `errors_approx` are estimates, which no test has found too small.  What certified intervals
    leave open is in them whole; what is left of the differences' series is estimated from two steps.  Where epsilon is
    not certified to 1e-6 there is no derivative but NaN.  Under "add_remove" it is that of the larger direction.

    Parameters
    ----------
    delta, noise_multiplier, sample_rate, records, batch_size, epochs, neighbors, threads
        As in `fastacct.dpsgd.epsilon`; arrays broadcast.  Without `history` and fixed batches, by `fastacct.Exact()`.
    steps : float or array in [0, 2**53]
        From 100 on they need not be whole.

    Returns
    -------
    EpsilonGradient
        Floats, or arrays of the broadcast shape; labels of xarray and pandas are not kept.  Look at `status` first:
        without noise, at delta = 0 (`NOT_MET`), and for fewer than 100 steps that are not whole (`LOOSE`) there is no
        derivative, and all are NaN.

    Notes
    -----
    Edge cases are in the table of `fastacct.gradient`; what is computed in docs/algorithms/line.md.  A cell costs as
    much as about 20 epsilons.

    Examples
    --------
    >>> import fastacct as fa
    >>> g = fa.dpsgd.epsilon_gradient(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> round(g.noise_multiplier, 6), round(g.sample_rate, 4), round(g.steps, 9), g.direction
    (-3.82261, 198.1941, 0.000882872, 'remove')
    >>> max(g.errors_approx) < 1e-6, g.status
    (True, <Status.TIGHT: 0>)
    """
    return EpsilonGradient(*_gradient("epsilon", as_delta(delta, run), run))


def delta_gradient(*, epsilon: Reals, **run: Unpack[Run]) -> DeltaGradient:
    """Derivatives of the natural logarithm of the true delta, by noise multiplier, sample rate, steps and `epsilon`.

    **Guarantee.** None, as in `epsilon_gradient`, whose parameters, edge cases and cost these are.

    >>> import fastacct as fa
    >>> g = fa.dpsgd.delta_gradient(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=[1.0, 2.0])
    >>> g.noise_multiplier.round(6), g.epsilon.round(6)
    (array([-11.886121, -33.18251 ]), array([-5.679487, -7.808354]))
    """
    return DeltaGradient(*_gradient("log_delta", as_cells("epsilon", epsilon), run))


def _gradient(quantity: Literal["epsilon", "log_delta"], target: Cells, run: Run) -> tuple[Shaped, ...]:
    """The fields of an answer."""
    relation, threads = as_relation(run.get("neighbors", "add_remove")), as_threads(run.get("threads"))
    what = f"fastacct.dpsgd.{quantity.removeprefix('log_')}_gradient"
    refused(run, ("history",), f"{what} is of one run: give noise_multiplier, sample_rate and steps, not {{}}")
    if type(as_accountant(run.get("accountant"), quantity.removeprefix("log_"))) is not Exact:
        raise ValueError(f"{what} is of the exact epsilon and delta: accountant must be fastacct.Exact()")
    if batches_of(run) is not None:
        raise ValueError(f"{what} is for Poisson sampling, not sampling = {run['sampling']!r}")
    if relation not in SAMPLED:
        raise refuse(what, relation, SAMPLED)
    arguments = _parameters(run) | {"target": target}
    shape = common_shape(arguments)
    check_memory(shape, 32)  # arrays
    at = np.array([np.broadcast_to(argument, shape).ravel() for argument in arguments.values()])
    slopes = _Slopes(at, Quantity[quantity.upper()], threads)
    with np.errstate(all="ignore"):  # infinities meet where nothing is certified
        slopes.fill(kernel_directions(relation))
    n, values = len(slopes.values), [unwrap(values.reshape(shape)) for values in (*slopes.values, *slopes.errors)]
    direction, codes = slopes.direction.reshape(shape), slopes.status.reshape(shape)
    if shape:
        return *values[:n], tuple(values[n:]), direction, codes
    return *values[:n], tuple(values[n:]), str(direction), Status(int(codes))


class _Slopes:
    """Derivatives of flat cells; the rows of `at` are noise multipliers, sample rates, steps and targets."""

    def __init__(self, at: Cells, what: Quantity, threads: int) -> None:
        self.at, self.what, self.threads = at, what, threads if at.shape[1] > CELLS_PER_TASK else 1
        self.values = np.full((3 if what == EPSILON else 4, at.shape[1]), np.nan)
        self.errors = np.full(self.values.shape, np.inf)
        self.direction = np.full(at.shape[1], "remove")
        self.status = np.full(at.shape[1], Status.LOOSE, dtype=np.uint8)

    def fill(self, ways: Directions) -> None:
        """Fill all in: what is known without differences, and the others by those in the direction that decides."""
        answer = self._decide(ways)
        usual = self._plain(answer, ways)
        for way in (REMOVE, ADD):
            cells = np.flatnonzero(usual & ((self.direction == "add") == (way == ADD)))
            for start in range(0, cells.size, 1024):  # each takes a kilobyte
                chunk = cells[start : start + 1024]
                self.values[:, chunk], self.errors[:, chunk] = self._differences(chunk, way, answer.upper[chunk])
        tied = np.flatnonzero(usual & (self.direction == "both") & (self.at[1] == 1.0))
        if tied.size:  # below it the larger direction falls least
            added = self._of_all_records(self.at[:, tied], ADD, answer.upper[tied], self.values[0, tied])
            self.values[1, tied] = np.minimum(self.values[1, tied], added)
        self.values[np.isinf(self.errors)] = np.nan
        self.status[(self.errors <= TIGHT_WIDTH * np.abs(self.values)).all(axis=0)] = Status.TIGHT

    def _plain(self, answer: Reading, ways: Directions) -> NDArray[np.bool_]:
        """Fill in what is 0, what does not exist, and largest losses; which cells are certified and left."""
        noise, rate, steps, target = self.at
        if self.what == EPSILON:
            is_zero, is_none, scale = answer.upper == 0.0, (noise == 0.0) | (target == 0.0), answer.upper
        else:
            is_zero, is_none, scale = np.zeros(noise.shape, dtype=bool), answer.upper == -np.inf, np.ones(1)
            is_none |= noise == 0.0
        is_none &= ~is_zero
        self.values[:, is_zero] = self.errors[:, is_zero] = 0.0
        self.status[is_none] = Status.NOT_MET
        usual: NDArray[np.bool_] = (answer.upper - answer.lower <= TIGHT_WIDTH * scale) & ~is_zero & ~is_none
        usual &= (rate == 1.0) | (steps >= _WHOLE_BELOW) | (steps == np.floor(steps))
        self.direction[~usual] = "both"
        if self.what == EPSILON and ways == ADD:
            self._largest_losses(is_none & (noise > 0.0) & (rate < 1.0))
        return usual

    def _decide(self, ways: Directions) -> Reading:
        """Certified epsilons or logarithms of delta in the direction that decides."""
        first = self._read(self.at, REMOVE if ways == BOTH else ways)
        if ways == ADD:
            self.direction[:] = "add"
        if ways == BOTH:
            added = self._read(self.at, ADD)
            self.direction[added.upper >= first.lower] = "both"
            is_added = added.lower > first.upper
            self.direction[is_added] = "add"
            first.put(is_added, Reading(added.lower[is_added], added.upper[is_added], added.status[is_added]))
        return first

    def _largest_losses(self, cells: NDArray[np.bool_]) -> None:
        """Of epsilon at delta = 0, which is -steps log(1 - rate)."""
        _, rate, steps, _ = self.at[:, cells]
        self.values[:, cells] = np.zeros(rate.size), steps / (1.0 - rate), -np.log1p(-rate)
        self.errors[:, cells] = 2.0**-50 * self.values[:, cells]
        self.direction[cells] = "add"

    def _differences(self, cells: NDArray[np.intp], way: Directions, top: Cells) -> tuple[Cells, Cells]:
        """Derivatives in one direction, and their errors.  top: epsilon, where it is asked for."""
        n, columns = len(self.values), self.at[:, cells]
        noise, rate, steps, target = columns
        spread, is_sampled = rate * np.sqrt(steps) / noise, rate < 1.0
        apart, side = _SPACING * columns, np.zeros(columns.shape, dtype=np.intp)
        if self.what == EPSILON:  # which may end at 0 near by
            apart *= np.minimum(1.0, 16.0 * top / spread)
        else:
            apart[3] += _SPACING * spread
            side[3, target < 5.0 * apart[3]] = 1
        apart[1] = np.where(is_sampled, np.minimum(apart[1], (1.0 - rate) / 8.0), apart[1])
        is_whole = is_sampled & (steps == np.floor(steps))
        apart[2, is_whole] = np.maximum(1.0, np.rint(_SPACING * steps[is_whole]))
        places = np.tile(columns[:, None, :, None], (1, n, 1, 6))
        for by in range(n):
            places[by, by] += _STENCIL[side[by]] * apart[by, :, None]
        places[1, 1, ~is_sampled] = 1.0
        answers, side, apart = self._read(places, way), side[:n], apart[:n]
        middle, half = 0.5 * (answers.lower + answers.upper), 0.5 * (answers.upper - answers.lower)
        beyond = np.abs(_sum(_REST[side], middle))
        is_short = is_sampled & (steps < _WHOLE_BELOW)
        beyond[2, is_short] *= np.where(steps[is_short] < 10.0, np.inf, 4.0)
        values = _sum(_WEIGHTS[side], middle) / apart
        errors = (beyond + _sum(np.abs(_WEIGHTS[side]), half)) / apart
        errors[(middle == 0.0).any(axis=-1) & (self.what == EPSILON)] = np.inf  # from there on it is 0
        if not is_sampled.all():
            values[1] = np.where(is_sampled, values[1], self._of_all_records(columns, way, top, values[0]))
            errors[1] = np.where(is_sampled, errors[1], np.abs(values[1] / values[0]) * errors[0])
        return values, np.where(np.isfinite(errors), errors, np.inf)

    def _of_all_records(self, at: Cells, way: Directions, top: Cells, by_noise: Cells) -> Cells:
        """Derivatives by rates from below, at 1: the step that a record may miss is one of 1/noise less."""
        noise, _, steps, target = at
        mu, less = np.sqrt(steps) / noise, 1.0 / (noise * np.sqrt(steps))
        epsilon = (top if self.what == EPSILON else target) * (1.0 if way == ADD else -1.0)
        places, weights = np.polynomial.legendre.leggauss(64)
        nodes = 0.5 * (1.0 + places) * less[:, None]
        terms = 0.5 * weights * np.exp(nodes * ((0.5 * mu + epsilon / mu)[:, None] - 0.5 * nodes))
        by_rate: Cells = -noise * terms.sum(axis=1) * by_noise
        return by_rate

    def _read(self, at: Cells, way: Directions) -> Reading:
        """Certified bounds in one direction."""
        return read_run((at[0], at[1], at[2]), at[3], at[3].shape, self.what, way, self.threads, False)


def _sum(weights: Cells, answers: Cells) -> Cells:
    """Weighted sums of six, whose bits do not depend on how many there are."""
    terms = weights * answers
    total: Cells = ((terms[..., 0] + terms[..., 5]) + (terms[..., 1] + terms[..., 4])) + (terms[..., 2] + terms[..., 3])
    return total


def _parameters(run: Run) -> dict[str, Cells]:
    """Noise multiplier, sample rate and steps, which may be real."""
    steps = run.get("steps")
    if steps is None or run.get("epochs") is not None:
        return parameters(run)
    fixed = {name: value for name, value in run.items() if name != "steps"}
    return parameters(cast("Run", fixed), "steps") | {"steps": as_cells("steps", steps, _REAL_STEPS, may_be_empty=True)}
