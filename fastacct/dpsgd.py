"""The vectorised fast path of DP-SGD: Poisson-subsampled Gaussian, noise multiplier sigma, sample rate q, T steps.

All functions take keywords only and broadcast over everything like a NumPy ufunc: Python numbers in, Python float
out; arrays in, float64 arrays out.  The default accountant is `fastacct.Exact()`: the privacy curve itself.

**Guarantee (all functions but `*_approx`).** Poisson sampling; the named neighbouring relation; numbers include
quadrature, truncation and rounding error: an epsilon, delta or Rényi divergence is never below the true value, and a
`*_lower` never above it.

=====================  ====================================================================
edge case              answer
=====================  ====================================================================
sample_rate = 0        nothing is released: epsilon 0, delta 0
steps = 0              the same
noise_multiplier inf   the same
noise_multiplier = 0   no noise: epsilon inf, delta 1 (lower bounds 0)
delta = 0              epsilon inf (a Gaussian has no pure guarantee); for `neighbors="add"`
                       -steps log(1 - sample_rate), the largest loss there is
delta = 1              epsilon 0
epsilon = inf          delta 0
=====================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Unpack

import numpy as np

from fastacct.accountants import CLT, RDP, Exact, Method
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import Cells, Floats, Reals, as_cells, as_threads, unwrap
from fastacct.core.relations import Relation
from fastacct.epsilon import as_accountant, plain_bounds, shape_with
from fastacct.inverse import noise_multiplier, relation_of, sample_rate, steps
from fastacct.mechanisms.process import Process
from fastacct.readers.cell import Quantity
from fastacct.readers.job import Ask
from fastacct.readers.orders import divergences
from fastacct.run import Block, Run, as_delta, process_of
from fastacct_ext import _kernels

__all__ = [
    "best_order",
    "delta",
    "delta_approx",
    "delta_bounds",
    "delta_lower",
    "epsilon",
    "epsilon_approx",
    "epsilon_bounds",
    "epsilon_lower",
    "noise_multiplier",
    "rdp",
    "rdp_bounds",
    "sample_rate",
    "steps",
]

_readout_scalar = _kernels.readout_scalar
_RENYI: Final = RDP()
_EXACT: Final = Exact()
Delta = Reals | str


def __dir__() -> list[str]:
    return list(__all__)


def _is_quick(accountant: object) -> bool:
    """Whether plain numbers are answered without arrays."""
    return accountant is None or (isinstance(accountant, (RDP, Exact)) and accountant in (_EXACT, _RENYI))


def epsilon(
    *,
    delta: Delta,
    noise_multiplier: Reals | None = None,
    sample_rate: Reals | None = None,
    steps: Reals | None = None,
    records: Reals | None = None,
    batch_size: Reals | None = None,
    epochs: Reals | None = None,
    history: Iterable[Block] | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
    """Smallest epsilon that the accountant proves for a run of DP-SGD at `delta`.

    **Guarantee.** Certified upper bound, for Poisson sampling and the neighbouring relation named, rounding included.

    Parameters
    ----------
    delta : float or array in [0, 1], or "1/n", "1/n^1.1" ...
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise divided by the clipping norm.
    sample_rate : float or array in [0, 1]
        Probability that a record takes part in one step (expected batch size / dataset size).
    steps : int or array of whole numbers in [0, 2**53]
    records, batch_size, epochs : int, float or array, optional
        Instead of `sample_rate`, which is then batch_size / records, and of `steps`, ceil(epochs * records /
        batch_size) = ceil(epochs / sample_rate), from the decimal digits.  With `records`, delta may be "1/n" or a
        power such as "1/n^1.1".  What no float says exactly is rounded to the safe side: a rate up, a delta down.
    history : sequence of (noise_multiplier, sample_rate, steps), optional
        One heterogeneous run instead of the parameters; only `delta` broadcasts.
    accountant : Method, optional
        Default `fastacct.Exact()`; `fastacct.RDP()` and others for comparison.
    neighbors : {"add_remove", "remove", "add", "zero_out", "replace_one"}
        "add_remove" is the larger of "add" and "remove", each composed separately; "zero_out" has the same pair.
        "replace_one" exchanges a record: `fastacct.Exact()` alone covers it, one job per cell, which is slower.
    threads : int, optional
        Default: all cores.  The result does not depend on it.

    Returns
    -------
    float or ndarray
        Broadcast shape of all inputs.  inf where nothing can be proved; see the table of edge cases above.

    Raises
    ------
    TypeError, ValueError
        Naming argument, value, index and allowed range.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon(noise_multiplier=1.1, sample_rate=256 / 60000, steps=14062, delta=1e-5), 4)
    2.3816
    >>> fa.dpsgd.epsilon(history=[(1.0, 0.01, 500), (2.0, 0.02, 300)], delta=[1e-5, 1e-6]).round(4)
    array([1.5023, 1.7607])
    >>> round(fa.dpsgd.epsilon(noise_multiplier=1.1, records=60000, batch_size=256, epochs=60, delta="1/n"), 4)
    2.3071
    """
    is_special = not (records is batch_size is epochs is history is None)
    if not is_special and neighbors == "add_remove" and threads is None and _is_quick(accountant):
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, delta, False, accountant != _RENYI)
        if quick is not None:
            return quick
    run: Run = {
        "noise_multiplier": noise_multiplier,
        "sample_rate": sample_rate,
        "steps": steps,
        "records": records,
        "batch_size": batch_size,
        "epochs": epochs,
        "history": history,
        "accountant": accountant,
        "neighbors": neighbors,
        "threads": threads,
    }
    return unwrap(_bounds("epsilon", delta, run, only_upper=True).upper)


def epsilon_lower(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Largest epsilon that is proved to be needed at `delta`: no smaller one is true.

    **Guarantee.** Certified lower bound of the true epsilon; 0 where none can be certified.  Parameters and errors as
    in `epsilon`; the accountant must prove lower bounds, which `fastacct.Exact()` does.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> 1.8282366 < fa.dpsgd.epsilon_lower(**run) <= fa.dpsgd.epsilon(**run) < 1.8282367
    True
    """
    return unwrap(_bounds("epsilon", delta, run).lower)


def epsilon_bounds(*, delta: Delta, **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the true epsilon at `delta`, with a status per cell.

    **Guarantee.** The truth is between them; the upper bound is the number that `epsilon` returns.  Parameters and
    errors as in `epsilon`; the accountant must prove lower bounds, which `fastacct.Exact()` does.

    Examples
    --------
    >>> import fastacct as fa
    >>> bounds = fa.dpsgd.epsilon_bounds(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=[1e-5, 1e-12])
    >>> bounds.upper.round(8), (bounds.upper - bounds.lower).max() < 1e-9, bounds.status
    (array([1.82823667, 3.91429816]), np.True_, array([0, 0], dtype=uint8))
    """
    return plain_bounds(_bounds("epsilon", delta, run))


def delta(
    *,
    epsilon: Reals,
    noise_multiplier: Reals | None = None,
    sample_rate: Reals | None = None,
    steps: Reals | None = None,
    records: Reals | None = None,
    batch_size: Reals | None = None,
    epochs: Reals | None = None,
    history: Iterable[Block] | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
    """Smallest delta that the accountant proves for a run of DP-SGD at `epsilon`.

    **Guarantee.** Certified upper bound; 0 only where the true delta is 0.  Parameters and errors as in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> f"{fa.dpsgd.delta(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=1.5):.6e}"
    '1.092559e-04'
    """
    is_special = not (records is batch_size is epochs is history is None)
    if not is_special and neighbors == "add_remove" and threads is None and _is_quick(accountant):
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, epsilon, True, accountant != _RENYI)
        if quick is not None:
            return quick
    run: Run = {
        "noise_multiplier": noise_multiplier,
        "sample_rate": sample_rate,
        "steps": steps,
        "records": records,
        "batch_size": batch_size,
        "epochs": epochs,
        "history": history,
        "accountant": accountant,
        "neighbors": neighbors,
        "threads": threads,
    }
    return unwrap(_bounds("delta", epsilon, run, only_upper=True).upper)


def delta_lower(*, epsilon: Reals, **run: Unpack[Run]) -> float | Floats:
    """Largest delta that is proved to be needed at `epsilon`: no smaller one is true.

    **Guarantee.** Certified lower bound of the true delta; 0 where none can be certified.  Parameters and errors as in
    `epsilon_lower`.
    """
    return unwrap(_bounds("delta", epsilon, run).lower)


def delta_bounds(*, epsilon: Reals, **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the true delta at `epsilon`, with a status per cell.

    **Guarantee.** The truth is between them; the upper bound is the number that `delta` returns.  Parameters and errors
    as in `epsilon_bounds`.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.dpsgd.delta_bounds(history=[(1.0, 0.01, 500), (2.0, 0.02, 300)], epsilon=1.5)
    >>> upper - lower < 1e-9 * upper, fa.Status(status).name
    (True, 'TIGHT')
    """
    return plain_bounds(_bounds("delta", epsilon, run))


def best_order(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """The Rényi order at which `epsilon` with `fastacct.RDP()` finds its bound (NaN where no order is involved).

    For the "optimal" conversion it is the order that is best for "canonne_kamath_steinke", where the search starts.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.best_order(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 2)
    7.78
    """
    chosen = run.get("accountant") or _RENYI
    if not isinstance(chosen, RDP):
        raise ValueError(f"accountant {type(chosen).__name__} has no orders; use fastacct.RDP()")
    process, ask = _asked("epsilon", delta, run, chosen, only_upper=True)
    return unwrap(chosen.with_order(process, ask)[2])


def epsilon_approx(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Epsilon by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon_approx(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 4)
    1.6177
    """
    return unwrap(_approximately("epsilon", delta, run))


def delta_approx(*, epsilon: Reals, **run: Unpack[Run]) -> float | Floats:
    """Delta by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.
    """
    return unwrap(_approximately("delta", epsilon, run))


def rdp(*, orders: Reals, **run: Unpack[Run]) -> float | Floats:
    """Rényi divergence of a run at the given orders.

    **Guarantee.** Certified upper bound, relative excess at most 1e-12 for sample_rate in [1e-12, 1],
    noise_multiplier in [0.03, 1e4] and orders in (1, 1e5]; outside this domain certified, possibly looser (see
    `rdp_bounds` for the status).

    Parameters
    ----------
    orders : float or array in [1, 1e11], or inf
        Broadcasts with the other arguments: for curves of many configurations give `noise_multiplier[:, None]` and
        orders along the last axis, so that each curve shares its work.
    noise_multiplier, sample_rate, steps, history, neighbors, threads
        As in `epsilon`; not "replace_one".

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.1, orders=[1.5, 2, 32]).round(6)
    array([1.1735000e-02, 1.7037000e-02, 1.3623138e+01])
    """
    return unwrap(_renyi(orders, run, only_upper=True).upper)


def rdp_bounds(*, orders: Reals, **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the Rényi divergence (larger of the two directions), with a status per cell.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.dpsgd.rdp_bounds(noise_multiplier=1.0, sample_rate=1e-8, orders=2)
    >>> 0 < lower <= upper <= lower * (1 + 1e-12), fa.Status(status).name
    (True, 'TIGHT')
    """
    return plain_bounds(_renyi(orders, run, only_upper=False))


def _asked(quantity: Quantity, target: Delta, run: Run, chosen: Method, *, only_upper: bool) -> tuple[Process, Ask]:
    """The job that the keywords describe, and what is asked of it."""
    relation = relation_of(run, chosen)
    threads = as_threads(run.get("threads"))
    name = "delta" if quantity == "epsilon" else "epsilon"
    cells = as_delta(target, run) if quantity == "epsilon" else as_cells("epsilon", target)
    process = process_of(run)
    return process, Ask(quantity, cells, shape_with(process, name, cells), relation, threads, only_upper)


def _bounds(quantity: Literal["epsilon", "delta"], target: Delta, run: Run, *, only_upper: bool = False) -> Bounds:
    chosen = as_accountant(run.get("accountant"), quantity)
    process, ask = _asked(quantity, target, run, chosen, only_upper=only_upper)
    return chosen.bounds(process, ask)


def _approximately(quantity: Literal["epsilon", "delta"], target: Delta, run: Run) -> Cells:
    chosen = run.get("accountant") or CLT()
    if not isinstance(chosen, Method):
        raise TypeError(f"accountant must be an accountant object such as fastacct.CLT(), not {chosen!r}")
    process, ask = _asked(quantity, target, run, chosen, only_upper=True)
    return np.asarray(chosen.bounds(process, ask).upper)


def _renyi(orders: Reals, run: Run, *, only_upper: bool) -> Bounds:
    if run.get("history") is None and run.get("epochs") is None:
        run.setdefault("steps", 1)
    relation, threads, cells = relation_of(run, _RENYI), as_threads(run.get("threads")), as_cells("orders", orders)
    process = process_of(run)
    shape = shape_with(process, "orders", cells)
    return divergences(process, cells, shape, relation, threads, only_upper=only_upper)
