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

import numpy as np

from fastacct.accountants import Exact, Method
from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells, Floats, Reals, as_cells, as_threads, common_shape, unwrap
from fastacct.core.relations import Relation, as_relation
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process
from fastacct.readers.cell import Quantity
from fastacct.readers.job import Ask
from fastacct.readers.orders import divergences

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

Job = Mechanism | Process
_EXACT = Exact()


def epsilon(
    job: Job,
    *,
    delta: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
    """Smallest epsilon that is proved for a job at `delta`.

    **Guarantee.** Certified upper bound for the mechanisms, their sampling and the neighbouring relation named; every
    error of truncation, aliasing, quadrature and rounding is in it.

    Parameters
    ----------
    job : Mechanism or Process
    delta : float or array in [0, 1]
    accountant : Method, optional
        Default `fastacct.Exact()`.  `RDP()` covers mechanisms whose divergences are known, `PLD()` those whose
        losses are known, the others Gaussians and their Poisson samples.
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
    return unwrap(_ask("epsilon", job, "delta", delta, accountant, neighbors, threads, only_upper=True).upper)


def epsilon_lower(
    job: Job,
    *,
    delta: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
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
    return unwrap(_ask("epsilon", job, "delta", delta, accountant, neighbors, threads, only_upper=False).lower)


def epsilon_bounds(
    job: Job,
    *,
    delta: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
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
    return plain_bounds(_ask("epsilon", job, "delta", delta, accountant, neighbors, threads, only_upper=False))


def delta(
    job: Job,
    *,
    epsilon: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
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
    return unwrap(_ask("delta", job, "epsilon", epsilon, accountant, neighbors, threads, only_upper=True).upper)


def delta_lower(
    job: Job,
    *,
    epsilon: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float | Floats:
    """Delta that no analysis of the job at `epsilon` can go below.

    **Guarantee.** Certified lower bound of the smallest delta; 0 where none could be proved.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.delta_lower(fa.Gaussian(1.0), epsilon=1.0) <= 0.12693673750664395 <= fa.delta(fa.Gaussian(1.0), epsilon=1.0)
    True
    """
    return unwrap(_ask("delta", job, "epsilon", epsilon, accountant, neighbors, threads, only_upper=False).lower)


def delta_bounds(
    job: Job,
    *,
    epsilon: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
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
    return plain_bounds(_ask("delta", job, "epsilon", epsilon, accountant, neighbors, threads, only_upper=False))


def log_delta_bounds(
    job: Job,
    *,
    epsilon: Reals,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
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
    return plain_bounds(_ask("log_delta", job, "epsilon", epsilon, None, neighbors, threads, only_upper=False))


def rdp(job: Job, orders: Reals, *, neighbors: Relation = "add_remove", threads: int | None = None) -> float | Floats:
    """Rényi divergence of a job.

    **Guarantee.** Certified upper bound of the larger direction, for Gaussians and their Poisson samples
    with a relative excess of at most 1e-12 in the domain of `fastacct.dpsgd.rdp`; inf where none is known.

    Parameters
    ----------
    job : Mechanism or Process
    orders : float or array in [1, 1e11], or inf
        Broadcasts with the job.  1: the Kullback-Leibler divergence; inf: the largest loss, pure epsilon.
    neighbors : str
        As in `epsilon`.
    threads : int, optional

    Returns
    -------
    float or ndarray

    Raises
    ------
    TypeError, ValueError
        As `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.rdp(fa.Gaussian(1.0).poisson(0.01) * 100 + fa.Gaussian(5.0), [2, 8]).round(6)
    array([0.057181, 0.249364])
    """
    return unwrap(_renyi(job, orders, neighbors, threads, only_upper=True).upper)


def rdp_bounds(job: Job, orders: Reals, *, neighbors: Relation = "add_remove", threads: int | None = None) -> Bounds:
    """Certified lower and upper bounds of the Rényi divergence, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.rdp_bounds(fa.Gaussian(1.0), 2)
    >>> lower <= 1.0 <= upper
    True
    """
    return plain_bounds(_renyi(job, orders, neighbors, threads, only_upper=False))


def as_process(job: object) -> Process:
    """A job as a process."""
    if isinstance(job, Mechanism):
        return Process({job: 1})
    if isinstance(job, Process):
        return job
    raise TypeError(f"job must be a mechanism or a process such as fastacct.Gaussian(1.0) * 100, not {job!r}")


def shape_with(process: Process, name: str, cells: Cells) -> tuple[int, ...]:
    """Broadcast shape of a job and its target."""
    return common_shape({"job": np.broadcast_to(0.0, process.shape), name: cells}) if process.shape else cells.shape


def plain_bounds(bounds: Bounds) -> Bounds:
    """Plain numbers and a `Status` for a single cell without dimensions."""
    lower, upper, status = (np.asarray(x) for x in bounds)
    return Bounds(unwrap(lower), unwrap(upper), status if status.ndim else Status(int(status)))


def as_accountant(accountant: object, quantity: str) -> Method:
    """An accountant whose answers are proved; None is the default."""
    if accountant is None:
        return _EXACT
    if not isinstance(accountant, Method):
        raise TypeError(f"accountant must be an accountant object such as fastacct.RDP(), not {accountant!r}")
    if not accountant.certified:
        raise ValueError(
            f"accountant {type(accountant).__name__} proves nothing; fastacct.dpsgd.{quantity}_approx has its "
            "approximation"
        )
    return accountant


def _ask(
    quantity: Quantity,
    job: Job,
    name: str,
    target: Reals,
    accountant: Method | None,
    neighbors: Relation,
    threads: int | None,
    *,
    only_upper: bool,
) -> Bounds:
    process, relation, n_threads = as_process(job), as_relation(neighbors), as_threads(threads)
    chosen, cells = as_accountant(accountant, quantity), as_cells(name, target)
    ask = Ask(quantity, cells, shape_with(process, name, cells), relation, n_threads, only_upper)
    return chosen.bounds(process, ask)


def _renyi(job: Job, orders: Reals, neighbors: Relation, threads: int | None, *, only_upper: bool) -> Bounds:
    process, relation, n_threads = as_process(job), as_relation(neighbors), as_threads(threads)
    cells = as_cells("orders", orders)
    return divergences(process, cells, shape_with(process, "orders", cells), relation, n_threads, only_upper=only_upper)
