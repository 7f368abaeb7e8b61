"""The verbs of a job: epsilon, delta and their bounds, and Rényi divergences.

A job is a mechanism or a process.  Its parameters, its counts and the target broadcast like NumPy arrays: plain numbers
in, a Python float out; arrays in, float64 arrays out.  Trade-off curves and attacks are in `fastacct.tradeoff`.

=======================================  ==================================================
edge case                                answer
=======================================  ==================================================
nothing is released (count 0, rate 0)    epsilon 0, delta 0
noise_multiplier = 0                     epsilon inf, delta 1
delta = 0                                epsilon inf ("add" alone may have a finite one)
delta = 1                                epsilon 0
epsilon = inf                            delta 0
=======================================  ==================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastacct._arrays import Cells, as_cells, as_choice, as_threads, common_shape, unwrap, unwrap_codes
from fastacct._jobs_any import read_any, renyi_any
from fastacct._jobs_dpsgd import accountant_bounds, renyi_bounds
from fastacct._jobs_exact import DIRECTIONS
from fastacct._jobs_read import read_exact
from fastacct._jobs_table import expanded, is_gaussian
from fastacct._losses import has_losses
from fastacct.accountants import RDP, Method
from fastacct.bounds import Bounds
from fastacct.exact import Exact
from fastacct.mechanisms import Mechanism
from fastacct.pld import PLD
from fastacct.process import Process

__all__ = [
    "delta",
    "delta_bounds",
    "delta_lower",
    "epsilon",
    "epsilon_bounds",
    "epsilon_lower",
    "log_delta_bounds",
    "rdp",
    "rdp_bounds",
]


def epsilon(
    job: Mechanism | Process,
    *,
    delta: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest epsilon that is proved for a job at `delta`.

    **Guarantee.** Certified upper bound for the mechanisms, their sampling and the neighbouring relation named; every
    error of truncation, aliasing, quadrature and rounding is in it.

    Parameters
    ----------
    job : Mechanism or Process
    delta : float or array in [0, 1]
    accountant : Method, optional
        Default `fastacct.Exact()`.  The others know Gaussians and their Poisson samples only.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
        "add_remove" is the larger of "add" and "remove", each composed separately; "zero_out" has the same numbers.
    threads : int, optional
        Default: all cores.  The result does not depend on it.

    Returns
    -------
    float or ndarray
        Broadcast shape of the job and `delta`; inf where nothing can be proved.

    Raises
    ------
    TypeError, ValueError
        Naming argument, value, index and allowed range; for a relation that a mechanism does not support.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> round(fa.epsilon(run, delta=1e-5), 6), round(fa.epsilon(run + fa.Gaussian(20.0) * 3, delta=1e-5), 6)
    (1.828237, 1.859516)
    """
    return unwrap(_read("epsilon", job, "delta", delta, accountant, neighbors, threads, only_upper=True).upper)


def epsilon_lower(
    job: Mechanism | Process,
    *,
    delta: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Epsilon that no analysis of the job at `delta` can go below.

    **Guarantee.** Certified lower bound of the smallest epsilon; 0 where none could be proved.  Arguments and errors as
    in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> 0 < fa.epsilon(run, delta=1e-5) - fa.epsilon_lower(run, delta=1e-5) < 1e-9
    True
    """
    return epsilon_bounds(job, delta=delta, accountant=accountant, neighbors=neighbors, threads=threads).lower


def epsilon_bounds(
    job: Mechanism | Process,
    *,
    delta: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Bounds:
    """Certified lower and upper bounds of epsilon, and a status.

    **Guarantee.** The smallest epsilon of the job at `delta` lies between them.  Arguments and errors as in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.epsilon_bounds(fa.Gaussian(1.0) * 4, delta=1e-5)
    >>> round(lower, 6), round(upper, 6), fa.Status(status).name
    (9.997256, 9.997256, 'TIGHT')
    """
    return _unwrapped(_read("epsilon", job, "delta", delta, accountant, neighbors, threads))


def delta(
    job: Mechanism | Process,
    *,
    epsilon: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest delta that is proved for a job at `epsilon`.

    **Guarantee.** Certified upper bound; never rounded down to 0 where something is released.  Arguments and errors as
    in the function `epsilon`; the target is a float or array in [0, inf].

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> f"{fa.delta(run, epsilon=1.5):.8e}"
    '1.09255908e-04'
    """
    return unwrap(_read("delta", job, "epsilon", epsilon, accountant, neighbors, threads, only_upper=True).upper)


def delta_lower(
    job: Mechanism | Process,
    *,
    epsilon: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Delta that no analysis of the job at `epsilon` can go below.

    **Guarantee.** Certified lower bound of the smallest delta; 0 where none could be proved.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.delta_lower(fa.Gaussian(1.0), epsilon=1.0) <= 0.12693673750664395 <= fa.delta(fa.Gaussian(1.0), epsilon=1.0)
    True
    """
    return delta_bounds(job, epsilon=epsilon, accountant=accountant, neighbors=neighbors, threads=threads).lower


def delta_bounds(
    job: Mechanism | Process,
    *,
    epsilon: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Bounds:
    """Certified lower and upper bounds of delta, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.delta_bounds(fa.Gaussian(1.0).poisson(0.01) * 1000, epsilon=1.5)
    >>> (upper - lower) / upper < 1e-8
    True
    """
    return _unwrapped(_read("delta", job, "epsilon", epsilon, accountant, neighbors, threads))


def log_delta_bounds(
    job: Mechanism | Process, *, epsilon: Any, neighbors: str = "add_remove", threads: int | None = None
) -> Bounds:
    """Certified bounds of the natural logarithm of delta: for deltas far below the smallest float.

    **Guarantee.** As `delta_bounds`; -inf stands for delta 0.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.log_delta_bounds(fa.Gaussian(1.0), epsilon=60.0)
    >>> round(lower, 6), round(upper, 6)
    (-1779.233391, -1779.233391)
    """
    return _unwrapped(_read("log_delta", job, "epsilon", epsilon, None, neighbors, threads))


def rdp(job: Mechanism | Process, orders: Any, *, neighbors: str = "add_remove", threads: int | None = None) -> Any:
    """Rényi divergence of a job of Gaussians and their Poisson samples.

    **Guarantee.** Certified upper bound of the larger direction, relative excess at most 1e-12 in the domain of
    `fastacct.dpsgd.rdp`.

    Parameters
    ----------
    job : Mechanism or Process
    orders : float or array in (1, 1e11]
        Broadcasts with the job.
    neighbors : str
        As in `epsilon`; "replace_one" only without sampling.
    threads : int, optional

    Returns
    -------
    float or ndarray

    Raises
    ------
    TypeError, ValueError
        As `epsilon`; also for mechanisms that have no Rényi kernel.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.rdp(fa.Gaussian(1.0).poisson(0.01) * 100 + fa.Gaussian(5.0), [2, 8]).round(6)
    array([0.057181, 0.249364])
    """
    return unwrap(np.asarray(_renyi(job, orders, neighbors, threads, only_upper=True).upper))


def rdp_bounds(
    job: Mechanism | Process, orders: Any, *, neighbors: str = "add_remove", threads: int | None = None
) -> Bounds:
    """Certified lower and upper bounds of the Rényi divergence, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.rdp_bounds(fa.Gaussian(1.0), 2)
    >>> lower <= 1.0 <= upper
    True
    """
    return _unwrapped(_renyi(job, orders, neighbors, threads, only_upper=False))


def as_process(job: Any) -> Process:
    """A job as a process."""
    if isinstance(job, Mechanism):
        return Process({job: 1})
    if isinstance(job, Process):
        return job
    raise TypeError(f"job must be a mechanism or a process such as fastacct.Gaussian(1.0) * 100, not {job!r}")


def as_neighbors(neighbors: Any) -> str:
    """One of the neighbouring relations."""
    return as_choice("neighbors", neighbors, tuple(DIRECTIONS))


def shape_with(process: Process, name: str, cells: Cells) -> tuple[int, ...]:
    """Broadcast shape of a job and its target."""
    return common_shape({"job": np.broadcast_to(0.0, process.shape), name: cells}) if process.shape else cells.shape


def _unwrapped(bounds: Bounds) -> Bounds:
    lower, upper, status = (np.asarray(x) for x in bounds)
    return Bounds(unwrap(lower), unwrap(upper), unwrap_codes(status))


def _read(
    quantity: str,
    job: Any,
    target_name: str,
    target: Any,
    accountant: Any,
    neighbors: Any,
    threads: Any,
    *,
    only_upper: bool = False,
) -> Bounds:
    process, relation, n_threads = as_process(job), as_neighbors(neighbors), as_threads(threads)
    cells = as_cells(target_name, target)
    shape = shape_with(process, target_name, cells)
    if accountant is None or isinstance(accountant, Exact):
        return read_exact(process, quantity, cells, shape, relation, n_threads, only_upper=only_upper)
    if not is_gaussian(expanded(process, relation)) and isinstance(accountant, PLD | RDP):
        return _read_other(accountant, process, quantity, cells, shape, relation, n_threads, only_upper)
    process = expanded(process, relation)
    if not isinstance(accountant, Method):
        raise TypeError(f"accountant must be an accountant object such as fastacct.RDP(), not {accountant!r}")
    if not accountant.certified:
        raise ValueError(
            f"accountant {type(accountant).__name__} proves nothing; fastacct.dpsgd.{quantity}_approx has its "
            "approximation"
        )
    return accountant_bounds(accountant, process, quantity, cells, shape, relation, n_threads, only_upper=only_upper)


def _read_other(
    accountant: Method,
    process: Process,
    quantity: str,
    cells: Cells,
    shape: tuple[int, ...],
    relation: str,
    threads: int,
    only_upper: bool,
) -> Bounds:
    """A job that is not of Gaussians alone, by losses or by divergences as the accountant says, and by no others."""
    name = type(accountant).__name__
    if not only_upper and not (isinstance(accountant, PLD) and all(mechanism.exact for mechanism, _ in process)):
        raise ValueError(f"accountant {name} proves no lower bound for this job; use fastacct.Exact()")
    whole, orders, tolerance = expanded(process, relation), None, 1e-4
    if isinstance(accountant, PLD):
        tolerance = accountant.tolerance
        for mechanism, _ in whole:
            if not has_losses(mechanism):
                raise ValueError(f"accountant PLD: no dominating pair is known for {mechanism!r}; use fastacct.RDP()")
    if isinstance(accountant, RDP):
        if accountant.conversion != "canonne_kamath_steinke":
            raise ValueError(
                f"conversion = {accountant.conversion!r} is offered for Gaussians and their Poisson samples only"
            )
        orders = np.array(accountant.orders) if accountant.orders else None
    return read_any(
        whole,
        quantity,
        cells,
        shape,
        relation,
        threads,
        only_upper=only_upper,
        renyi=isinstance(accountant, RDP),
        orders=orders,
        tolerance=tolerance,
    )


def _renyi(job: Any, orders: Any, neighbors: Any, threads: Any, *, only_upper: bool) -> Bounds:
    process, relation, n_threads = as_process(job), as_neighbors(neighbors), as_threads(threads)
    order = as_cells("orders", orders)
    shape = shape_with(process, "orders", order)
    process = expanded(process, relation)
    if not is_gaussian(process):
        if not only_upper:
            raise ValueError(f"rdp_bounds covers Gaussians and their Poisson samples, not {process!r}; use rdp")
        return renyi_any(process, order, shape, relation)
    return renyi_bounds(process, order, shape, relation, n_threads, only_upper=only_upper)
