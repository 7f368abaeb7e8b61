"""Gradients of epsilon and of log delta of a run of DP-SGD, for optimisers and for calibration.

Values are computed from the line that certifies epsilon or delta; their errors are estimated, not proved.

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
sample_rate = 1            closed form.  By sample_rate from below, for the direction that is larger there
fewer than 10 steps        by steps NaN, the whole cell `LOOSE`: delta between whole numbers has no one meaning there
steps not whole, < 100     NaN, `LOOSE`, for the same reason (but for sample_rate = 1)
nothing certified          NaN, `LOOSE`
=========================  ==========================================================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal, NamedTuple, Unpack

import numpy as np

from fastacct.accountants import Exact
from fastacct.accountants.question import as_accountant
from fastacct.batching import batches_of
from fastacct.core.bounds import Status
from fastacct.core.engine import in_pieces
from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Reals, as_cells, as_threads, check_memory, common_shape
from fastacct.core.inputs import unwrap as plain
from fastacct.core.relations import SAMPLED, as_relation, refuse
from fastacct.run import Run, as_delta, parameters, refused
from fastacct_ext import _kernels
from fastacct_ext._kernels import Directions, Quantity

__all__ = ["DeltaGradient", "EpsilonGradient", "delta_gradient", "epsilon_gradient"]

_REAL_STEPS: Final = Domain(0.0, MAX_STEPS)
_WAYS: Final = {"add": Directions.ADD, "remove": Directions.REMOVE}
_DECIDES: Final = np.array(["both", "remove", "add"])
_ROW: Final = 9
_CELLS_PER_TASK: Final = 8


class EpsilonGradient(NamedTuple):
    """Derivatives of epsilon at fixed delta; floats or float64 arrays.

    Examples
    --------
    >>> import fastacct as fa
    >>> slope = fa.dpsgd.epsilon_gradient(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> round(slope.noise_multiplier, 3), slope.direction
    (-3.823, 'remove')
    """

    noise_multiplier: Any
    sample_rate: Any
    steps: Any
    errors_approx: tuple[Any, Any, Any]
    """Estimates of their absolute errors, in the same order: not proved."""
    direction: Any
    """The direction that decides and that is differentiated: "remove", "add", or "both" where they tie."""
    status: Any
    """TIGHT: every error is estimated at 1e-6 of its derivative or less.  LOOSE: at more, or something is NaN: below
    100 steps that are not whole, below 10 the derivative by steps, or what is not certified.
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

    noise_multiplier: Any
    sample_rate: Any
    steps: Any
    epsilon: Any
    errors_approx: tuple[Any, Any, Any, Any]
    direction: Any
    status: Any


def epsilon_gradient(*, delta: Reals | str, **run: Unpack[Run]) -> EpsilonGradient:
    """Derivatives of the true epsilon at fixed `delta`, by noise multiplier, sample rate and steps.

    **Guarantee.** None: `errors_approx` are estimates, which no test has found too small.  Where epsilon is not
    certified to 1e-6 there is no derivative but NaN.  Under "add_remove" it is that of the larger direction.

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
    Edge cases are in the table of `fastacct.gradient`; the derivation in docs/algorithms/line.md.  A cell costs
    1.2 to 2 times its epsilon.

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


def _gradient(quantity: Literal["epsilon", "log_delta"], target: Cells, run: Run) -> tuple[Any, ...]:
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
    given = _parameters(run) | {"target": target}
    shape = common_shape(given)
    check_memory(shape, _ROW + len(given))
    runs = np.array([np.broadcast_to(one, shape).ravel() for one in given.values()])
    rows, status = np.empty((runs.shape[1], _ROW)), np.empty(runs.shape[1], dtype=np.uint8)
    kind, ways = Quantity[quantity.upper()], _WAYS.get(relation, Directions.BOTH)
    work = partial(_kernels.gradients, runs, rows, status, quantity=kind, directions=ways)
    in_pieces(status.size, threads, work, _CELLS_PER_TASK)
    n = 3 if quantity == "epsilon" else 4
    values = [plain(rows[:, i].reshape(shape)) for i in (*range(n), *range(4, 4 + n))]
    direction, codes = _DECIDES[rows[:, -1].astype(np.intp)].reshape(shape), status.reshape(shape)
    if shape:
        return *values[:n], tuple(values[n:]), direction, codes
    return *values[:n], tuple(values[n:]), str(direction), Status(int(codes))


def _parameters(run: Run) -> dict[str, Cells]:
    """Noise multiplier, sample rate and steps, which may be real."""
    steps = run.get("steps")
    if steps is None or run.get("epochs") is not None:
        return parameters(run)
    fixed: Any = {name: value for name, value in run.items() if name != "steps"}
    return parameters(fixed, "steps") | {"steps": as_cells("steps", steps, _REAL_STEPS, may_be_empty=True)}
