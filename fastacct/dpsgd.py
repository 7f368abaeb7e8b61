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

from typing import Any, Final

import numpy as np

from fastacct import _dpsgd_inputs as inputs
from fastacct._arrays import as_cells, as_threads, run_kernel, unwrap, unwrap_codes
from fastacct._dpsgd_calibration import noise_multiplier, sample_rate, steps
from fastacct.accountants import CLT, RDP, SAMPLED_PAIR, Method
from fastacct.bounds import Bounds
from fastacct.exact import Exact
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


def __dir__() -> list[str]:
    return __all__


_APPROX: Final = "call fastacct.dpsgd.{}_approx for its approximation"
_readout_scalar = _kernels.readout_scalar
_RENYI: Final = RDP()
_EXACT: Final = Exact()


def _is_quick(accountant: object) -> bool:
    """Whether plain numbers are answered without arrays."""
    return accountant is None or (isinstance(accountant, (RDP, Exact)) and accountant in (_EXACT, _RENYI))


def epsilon(
    *,
    delta: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
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
    """
    if history is None and neighbors == "add_remove" and threads is None and _is_quick(accountant):
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, delta, False, accountant != _RENYI)
        if quick is not None:
            return quick
    chosen = inputs.certified(accountant, _APPROX.format("epsilon"))
    run = (noise_multiplier, sample_rate, steps)
    return unwrap(
        chosen.read(inputs.reading(chosen, "epsilon", ("delta", delta), run, history, neighbors, threads)).values
    )


def epsilon_lower(
    *,
    delta: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
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
    return epsilon_bounds(
        delta=delta,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        history=history,
        accountant=accountant,
        neighbors=neighbors,
        threads=threads,
    ).lower


def epsilon_bounds(
    *,
    delta: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Bounds:
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
    run = (noise_multiplier, sample_rate, steps)
    return _bounds("epsilon", ("delta", delta), run, history, accountant, neighbors, threads)


def delta(
    *,
    epsilon: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest delta that the accountant proves for a run of DP-SGD at `epsilon`.

    **Guarantee.** Certified upper bound; 0 only where the true delta is 0.  Parameters and errors as in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> f"{fa.dpsgd.delta(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=1.5):.6e}"
    '1.092559e-04'
    """
    if history is None and neighbors == "add_remove" and threads is None and _is_quick(accountant):
        quick = _readout_scalar(noise_multiplier, sample_rate, steps, epsilon, True, accountant != _RENYI)
        if quick is not None:
            return quick
    chosen = inputs.certified(accountant, _APPROX.format("delta"))
    run = (noise_multiplier, sample_rate, steps)
    return unwrap(
        chosen.read(inputs.reading(chosen, "delta", ("epsilon", epsilon), run, history, neighbors, threads)).values
    )


def delta_lower(
    *,
    epsilon: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Largest delta that is proved to be needed at `epsilon`: no smaller one is true.

    **Guarantee.** Certified lower bound of the true delta; 0 where none can be certified.  Parameters and errors as in
    `epsilon_lower`.
    """
    return delta_bounds(
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        history=history,
        accountant=accountant,
        neighbors=neighbors,
        threads=threads,
    ).lower


def delta_bounds(
    *,
    epsilon: Any,
    noise_multiplier: Any = None,
    sample_rate: Any = None,
    steps: Any = None,
    history: Any = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Bounds:
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
    run = (noise_multiplier, sample_rate, steps)
    return _bounds("delta", ("epsilon", epsilon), run, history, accountant, neighbors, threads)


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
    """The Rényi order at which `epsilon` with `fastacct.RDP()` finds its bound (NaN where no order is involved).

    For the "optimal" conversion it is the order that is best for "canonne_kamath_steinke", where the search starts.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.best_order(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 2)
    7.78
    """
    chosen = inputs.certified(RDP() if accountant is None else accountant, "use fastacct.RDP()")
    run = (noise_multiplier, sample_rate, steps)
    order = chosen.read(inputs.reading(chosen, "epsilon", ("delta", delta), run, history, neighbors, threads)).order
    if order is None:
        raise ValueError(f"accountant {type(chosen).__name__} has no orders; use fastacct.RDP()")
    return unwrap(order)


def epsilon_approx(
    *,
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    delta: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Epsilon by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon_approx(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 4)
    1.6177
    """
    chosen = CLT() if accountant is None else inputs.some_accountant(accountant)
    run = (noise_multiplier, sample_rate, steps)
    return unwrap(
        chosen.read(inputs.reading(chosen, "epsilon", ("delta", delta), run, None, neighbors, threads)).values
    )


def delta_approx(
    *,
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    epsilon: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Delta by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.
    """
    chosen = CLT() if accountant is None else inputs.some_accountant(accountant)
    run = (noise_multiplier, sample_rate, steps)
    return unwrap(
        chosen.read(inputs.reading(chosen, "delta", ("epsilon", epsilon), run, None, neighbors, threads)).values
    )


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
    noise_multiplier in [0.03, 1e4] and orders in (1, 1e5]; outside this domain certified, possibly looser (see
    `rdp_bounds` for the status).

    Parameters
    ----------
    orders : float or array in (1, 1e11]
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
    if history is None:
        cells, shape, n_threads = inputs.divergence_inputs(
            noise_multiplier, sample_rate, steps, orders, neighbors, threads
        )
        (upper,), _ = run_kernel(_kernels.Op.RDP_UPPER, cells, shape, 1, n_threads)
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
        cells, shape, n_threads = inputs.divergence_inputs(
            noise_multiplier, sample_rate, steps, orders, neighbors, threads
        )
        (lower, upper), status = run_kernel(_kernels.Op.RDP, cells, shape, 2, n_threads)
    else:
        inputs.check_relation(neighbors, SAMPLED_PAIR, "Rényi divergences here")
        n_threads, order = as_threads(threads), as_cells("orders", orders)
        inputs.refuse_parameters(noise_multiplier, sample_rate, steps if np.ndim(steps) or steps != 1 else None)
        sigma, q, count = (np.reshape(x, (-1,) + (1,) * order.ndim) for x in inputs.history_blocks(history))
        shape = (len(sigma), *order.shape)
        (lowers, uppers), codes = run_kernel(_kernels.Op.RDP, (sigma, q, order, count), shape, 2, n_threads)
        padding = (len(sigma) + 1) * 2.0**-53
        lower = np.asarray(lowers.sum(axis=0) * (1.0 - padding))
        upper = np.asarray(uppers.sum(axis=0) * (1.0 + padding))
        status = np.asarray(codes.max(axis=0))
    return Bounds(unwrap(lower), unwrap(upper), unwrap_codes(status))


def _bounds(
    wanted: str,
    target: tuple[str, Any],
    run: tuple[Any, Any, Any],
    history: Any,
    accountant: Any,
    neighbors: Any,
    threads: Any,
) -> Bounds:
    chosen = inputs.certified(accountant)
    lower, upper, status = chosen.bounds(inputs.reading(chosen, wanted, target, run, history, neighbors, threads))
    return Bounds(unwrap(lower), unwrap(upper), unwrap_codes(status))
