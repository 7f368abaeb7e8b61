"""The vectorised fast path of DP-SGD: Poisson-subsampled Gaussian, noise multiplier sigma, sample rate q, T steps.

All functions take keywords only and broadcast over everything like a NumPy ufunc: Python numbers in, Python float
out; arrays in, float64
arrays out.  Keep (noise_multiplier, sample_rate) on the slow axes of a grid: cells that share them share most of the
work.

**Guarantee (all functions but `*_approx`).** Poisson sampling; the named neighbouring relation; numbers include
quadrature, truncation and
rounding error: an epsilon, delta or Rényi divergence is never below the true value of the bound it stands for.

=====================  ====================================================================
edge case              answer
=====================  ====================================================================
sample_rate = 0        nothing is released: epsilon 0, delta 0
steps = 0              the same
noise_multiplier inf   the same
noise_multiplier = 0   no noise: epsilon inf, delta 1
delta = 0              epsilon inf (a Gaussian has no pure guarantee)
delta = 1              epsilon 0
epsilon = inf          delta 0
=====================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from fastacct._arrays import Cells, as_cells, as_choice, as_threads, common_shape, run_kernel, unwrap
from fastacct.accountants import CLT, RDP, Accountant
from fastacct.bounds import Bounds
from fastacct_ext import _kernels

__all__ = [
    "best_order",
    "delta",
    "delta_approx",
    "epsilon",
    "epsilon_approx",
    "noise_multiplier",
    "rdp",
    "rdp_bounds",
    "sample_rate",
    "steps",
]

NEIGHBORS: Final = ("add_remove", "add", "remove", "zero_out", "replace_one")
_DEFAULT: Final = RDP()
_readout_scalar = _kernels.readout_scalar


def epsilon(
    *,
    delta: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest epsilon that the accountant proves for a run of DP-SGD at `delta`.

    **Guarantee.** Certified upper bound, for Poisson sampling and the neighbouring relation named, rounding included.

    Parameters
    ----------
    delta : float or array in [0, 1]
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise divided by the clipping norm.
    sample_rate : float or array in [0, 1]
        Probability that a record takes part in one step (expected batch size / dataset size).
    steps : int or array of whole numbers in [0, 2**53]
    history : sequence of (noise_multiplier, sample_rate, steps), optional
        One heterogeneous run instead of the three parameters; only `delta` broadcasts.
    accountant : Accountant, optional
        Default `fastacct.RDP()`.
    neighbors : {"add_remove", "remove", "add", "zero_out"}
        For "add" alone the bound of "remove" is used, which is never smaller.  "replace_one" is not covered by RDP
        and is refused.
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
    2.5965
    >>> fa.dpsgd.epsilon(history=[(1.0, 0.01, 500), (2.0, 0.02, 300)], delta=[1e-5, 1e-6]).round(4)
    array([1.7981, 2.116 ])
    """
    if accountant is None and history is None and neighbors == "add_remove" and threads is None:
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, delta, False)
        if quick is not None:
            return quick
    chosen = _certified(accountant, "epsilon")
    return _readout(
        "epsilon", chosen, noise_multiplier, sample_rate, steps, history, "delta", delta, neighbors, threads
    )[0]


def delta(
    *,
    epsilon: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest delta that the accountant proves for a run of DP-SGD at `epsilon`.

    **Guarantee.** Certified upper bound; never rounded down to 0 where something is released.  Parameters and errors
    as in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> f"{fa.dpsgd.delta(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=3.0):.4e}"
    '1.8756e-08'
    """
    if accountant is None and history is None and neighbors == "add_remove" and threads is None:
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, epsilon, True)
        if quick is not None:
            return quick
    chosen = _certified(accountant, "delta")
    return _readout(
        "delta", chosen, noise_multiplier, sample_rate, steps, history, "epsilon", epsilon, neighbors, threads
    )[0]


def best_order(
    *,
    delta: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: RDP | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """The Rényi order at which `epsilon` found its bound (NaN where no order is involved).

    For the "optimal" conversion it is the order that is best for "canonne_kamath_steinke", where the search starts.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.best_order(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 2)
    7.78
    """
    chosen = _certified(accountant, "epsilon")
    order = _readout(
        "epsilon", chosen, noise_multiplier, sample_rate, steps, history, "delta", delta, neighbors, threads
    )[1]
    if order is None:
        raise ValueError(f"accountant {type(chosen).__name__} has no orders; use fastacct.RDP()")
    return order


def epsilon_approx(
    *,
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    delta: Any,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Epsilon by an approximation without proof (default `fastacct.CLT()`).  **No guarantee**: it may be below the
    truth.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon_approx(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 4)
    1.6177
    """
    chosen = CLT() if accountant is None else _accountant(accountant)
    return _readout("epsilon", chosen, noise_multiplier, sample_rate, steps, None, "delta", delta, neighbors, threads)[
        0
    ]


def delta_approx(
    *,
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    epsilon: Any,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Delta by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.
    """
    chosen = CLT() if accountant is None else _accountant(accountant)
    return _readout(
        "delta", chosen, noise_multiplier, sample_rate, steps, None, "epsilon", epsilon, neighbors, threads
    )[0]


def rdp(
    *,
    orders: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = 1,
    history: Any = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Rényi divergence of a run at the given orders.

    **Guarantee.** Certified upper bound, relative excess at most 1e-12 for sample_rate in [1e-12, 1],
    noise_multiplier in [0.03, 1e4] and
    orders in (1, 1e5]; outside this domain certified, possibly looser (see `rdp_bounds` for the status).

    Parameters
    ----------
    orders : float or array in (1, 1e11]
        Broadcasts with the other arguments: for curves of many configurations give `noise_multiplier[:, None]` and
        orders along the last axis, so that each curve shares its work.
    noise_multiplier, sample_rate, steps, history, neighbors, threads
        As in `epsilon`.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.1, orders=[1.5, 2, 32]).round(6)
    array([1.1735000e-02, 1.7037000e-02, 1.3623138e+01])
    """
    if history is None:
        inputs, shape, n_threads = _rdp_inputs(noise_multiplier, sample_rate, steps, orders, neighbors, threads)
        (upper,), _ = run_kernel(_kernels.Op.RDP_UPPER, inputs, shape, 1, n_threads)
        return unwrap(upper)
    return rdp_bounds(
        orders=orders,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        history=history,
        neighbors=neighbors,
        threads=threads,
    ).upper


def rdp_bounds(
    *,
    orders: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = 1,
    history: Any = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Bounds:
    """Certified lower and upper bounds of the Rényi divergence (larger of the two directions), with a status per cell.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.dpsgd.rdp_bounds(noise_multiplier=1.0, sample_rate=1e-8, orders=2)
    >>> 0 < lower <= upper <= lower * (1 + 1e-12), fa.Status(status).name
    (True, 'TIGHT')
    """
    if history is None:
        inputs, shape, n_threads = _rdp_inputs(noise_multiplier, sample_rate, steps, orders, neighbors, threads)
        (lower, upper), status = run_kernel(_kernels.Op.RDP, inputs, shape, 2, n_threads)
    else:
        _relation(neighbors)
        n_threads, order = as_threads(threads), as_cells("orders", orders)
        _no_parameters(noise_multiplier, sample_rate, steps if np.ndim(steps) or steps != 1 else None)
        sigma, q, count = (np.reshape(x, (-1,) + (1,) * order.ndim) for x in _history(history))
        shape = (len(sigma), *order.shape)
        (lowers, uppers), codes = run_kernel(_kernels.Op.RDP, (sigma, q, order, count), shape, 2, n_threads)
        padding = (len(sigma) + 1) * 2.0**-53
        lower, upper = (
            np.asarray(lowers.sum(axis=0) * (1.0 - padding)),
            np.asarray(uppers.sum(axis=0) * (1.0 + padding)),
        )
        status = np.asarray(codes.max(axis=0))
    return Bounds(unwrap(lower), unwrap(upper), int(status[()]) if status.ndim == 0 else status)


def noise_multiplier(
    *,
    epsilon: Any,
    delta: Any,
    sample_rate: Any,
    steps: Any,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest noise multiplier that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side: `dpsgd.epsilon` at the value returned is at most `epsilon`, and at (1 - 1e-9) times it,
    it is not.
    (With `conversion="optimal"` about 1e-7 instead of 1e-9.)
    0 where no noise is needed, inf where no noise suffices (delta = 0).  The search covers noise multipliers from
    1e-6 to 1e12.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.noise_multiplier(epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=10000), 5)
    1.66186
    """
    named = {"sample_rate": as_cells("sample_rate", sample_rate), "steps": as_cells("steps", steps)}
    return _calibrate("noise_multiplier", epsilon, delta, named, accountant, neighbors, threads)


def sample_rate(
    *,
    epsilon: Any,
    delta: Any,
    noise_multiplier: Any,
    steps: Any,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Largest sample rate that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side, within 1e-9 relative of the boundary; 0 where no rate above 1e-30 satisfies the target.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.sample_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, steps=10000), 6)
    0.004912
    """
    named = {"noise_multiplier": as_cells("noise_multiplier", noise_multiplier), "steps": as_cells("steps", steps)}
    return _calibrate("sample_rate", epsilon, delta, named, accountant, neighbors, threads)


def steps(
    *,
    epsilon: Any,
    delta: Any,
    noise_multiplier: Any,
    sample_rate: Any,
    accountant: Accountant | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Largest number of steps that is certified to satisfy (epsilon, delta), as a float holding a whole number.

    **Guarantee.** Safe side: the number returned satisfies the target, one more does not.  inf where any number does
    (sample_rate = 0); at most 2**53 otherwise.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.dpsgd.steps(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.01)
    2195.0
    """
    named = {
        "noise_multiplier": as_cells("noise_multiplier", noise_multiplier),
        "sample_rate": as_cells("sample_rate", sample_rate),
    }
    return _calibrate("steps", epsilon, delta, named, accountant, neighbors, threads)


def _relation(neighbors: Any) -> None:
    if as_choice("neighbors", neighbors, NEIGHBORS) == "replace_one":
        raise ValueError(
            "neighbors = 'replace_one' is not supported: its dominating pair under Poisson sampling is another one; "
            "supported: 'add_remove', 'add', 'remove', 'zero_out'"
        )


def _accountant(accountant: Any) -> Accountant:
    if not isinstance(accountant, Accountant):
        raise TypeError(f"accountant must be an accountant object such as fastacct.RDP(), not {accountant!r}")
    return accountant


def _certified(accountant: Any, quantity: str) -> Accountant:
    if accountant is None:
        return _DEFAULT
    chosen = _accountant(accountant)
    if not chosen.certified:
        instead = (
            f"call fastacct.dpsgd.{quantity}_approx for its approximation"
            if quantity in ("epsilon", "delta")
            else "use RDP()"
        )
        raise ValueError(f"accountant {type(chosen).__name__} proves nothing; {instead}")
    return chosen


def _parameters(noise_multiplier: Any, sample_rate: Any, steps: Any) -> dict[str, Cells]:
    values = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise TypeError(f"missing {', '.join(missing)} (or history=[(noise_multiplier, sample_rate, steps), ...])")
    return {name: as_cells(name, value) for name, value in values.items()}


def _no_parameters(noise_multiplier: Any, sample_rate: Any, steps: Any) -> None:
    if noise_multiplier is not None or sample_rate is not None or steps is not None:
        raise TypeError("give either history or noise_multiplier, sample_rate and steps, not both")


def _history(history: Any) -> tuple[Cells, Cells, Cells]:
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise TypeError(f"history must be a sequence of (noise_multiplier, sample_rate, steps), not {history!r}")
    rows = list(history)
    if not rows:
        raise ValueError("history is empty; give at least one (noise_multiplier, sample_rate, steps)")
    columns: tuple[list[float], list[float], list[float]] = ([], [], [])
    for i, row in enumerate(rows):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str | bytes) or len(row) != 3:
            raise TypeError(f"history[{i}] must be (noise_multiplier, sample_rate, steps), not {row!r}")
        for name, value, column in zip(("noise_multiplier", "sample_rate", "steps"), row, columns, strict=True):
            try:
                cell = as_cells(name, value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"history[{i}]: {error}") from None
            if cell.ndim:
                raise TypeError(f"history[{i}]: {name} must be one number, not an array of shape {cell.shape}")
            column.append(float(cell))
    return np.array(columns[0]), np.array(columns[1]), np.array(columns[2])


def _rdp_inputs(
    noise_multiplier: Any, sample_rate: Any, steps: Any, orders: Any, neighbors: Any, threads: Any
) -> tuple[tuple[Cells, Cells, Cells, Cells], tuple[int, ...], int]:
    _relation(neighbors)
    named = _parameters(noise_multiplier, sample_rate, steps) | {"orders": as_cells("orders", orders)}
    sigma, q, count, order = named.values()
    return (sigma, q, order, count), common_shape(named), as_threads(threads)


def _readout(
    quantity: str,
    accountant: Accountant,
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    history: Any,
    target_name: str,
    target: Any,
    neighbors: Any,
    threads: Any,
) -> tuple[Any, Any]:
    _relation(neighbors)
    n_threads = as_threads(threads)
    cells = as_cells(target_name, target)
    if history is not None:
        _no_parameters(noise_multiplier, sample_rate, steps)
        values, order, _ = accountant.history(_history(history), cells, quantity)
    else:
        named = _parameters(noise_multiplier, sample_rate, steps) | {target_name: cells}
        shape = common_shape(named)
        read = accountant.epsilon if quantity == "epsilon" else accountant.delta
        sigma, q, count, last = named.values()
        values, order, _ = read((sigma, q, count, last), shape, n_threads)
    return unwrap(values), None if order is None else unwrap(order)


def _calibrate(
    solve_for: str, epsilon: Any, delta: Any, named: dict[str, Cells], accountant: Any, neighbors: Any, threads: Any
) -> Any:
    _relation(neighbors)
    chosen = _certified(accountant, solve_for)
    n_threads = as_threads(threads)
    everything = {"epsilon": as_cells("epsilon", epsilon), "delta": as_cells("delta", delta)} | named
    shape = common_shape(everything)
    wanted_epsilon, wanted_delta, first, second = everything.values()
    values, _ = chosen.calibrate(solve_for, (wanted_epsilon, wanted_delta, first, second), shape, n_threads)
    return unwrap(values)
