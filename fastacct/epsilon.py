"""The verbs of a job: epsilon, delta and their bounds, and Rényi divergences.

A job is a mechanism or a process.  Its parameters, its counts and the target broadcast like NumPy arrays: plain numbers
in, a Python float out; arrays in, float64 arrays out.  Trade-off curves and attacks are in `fastacct.tradeoff`,
edge cases in the table of `fastacct.dpsgd`.
"""

from __future__ import annotations

from typing import Unpack

from fastacct.accountants.question import CurveOptions, Job, Options, answer, plain_bounds, renyi
from fastacct.accountants.run import verb
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import Floats, Reals, unwrap

__all__ = ["delta", "delta_bounds", "delta_lower", "epsilon", "epsilon_bounds", "epsilon_lower"]
__all__ += ["log_delta", "log_delta_bounds", "rdp", "rdp_bounds"]


@verb(Options.__annotations__)
def epsilon(job: Job, delta: Reals, **options: Unpack[Options]) -> float | Floats:
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
        "add_remove" is the larger of "add" and "remove", each composed separately; "zero_out" has
        the same numbers for Poisson batches.
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
    return unwrap(answer("epsilon", job, delta, **options, only_upper=True).upper)


@verb(Options.__annotations__)
def epsilon_lower(job: Job, delta: Reals, **options: Unpack[Options]) -> float | Floats:
    """Epsilon that no analysis at `delta` can go below: a certified lower bound, or 0; arguments as in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon_lower(fa.Gaussian(1.0), delta=1e-6), 6)
    4.886554
    """
    return unwrap(answer("epsilon", job, delta, **options).lower)


@verb(Options.__annotations__)
def epsilon_bounds(job: Job, delta: Reals, **options: Unpack[Options]) -> Bounds:
    """Certified lower and upper bounds of epsilon, and a status.  Arguments and errors as in `epsilon`.

    >>> import fastacct as fa
    >>> lower, upper, status = fa.epsilon_bounds(fa.Gaussian(1.0) * 4, delta=1e-5)
    >>> round(lower, 6), round(upper, 6), fa.Status(status).name
    (9.997256, 9.997256, 'TIGHT')
    """
    return plain_bounds(answer("epsilon", job, delta, **options))


@verb(Options.__annotations__)
def delta(job: Job, epsilon: Reals, **options: Unpack[Options]) -> float | Floats:
    """Smallest delta that is proved for a job at `epsilon`, in [0, inf].

    **Guarantee.** Certified upper bound; never rounded down to 0 where something is released, and 1 where nothing can
    be proved.  Arguments and errors as in the function `epsilon`.

    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> f"{fa.delta(run, epsilon=1.5):.8e}"
    '1.09255908e-04'
    """
    return unwrap(answer("delta", job, epsilon, **options, only_upper=True).upper)


@verb(Options.__annotations__)
def delta_lower(job: Job, epsilon: Reals, **options: Unpack[Options]) -> float | Floats:
    """Delta that no analysis at `epsilon` can go below: a certified lower bound, or 0; arguments as in `delta`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta_lower(fa.Gaussian(1.0), epsilon=1.0), 6)
    0.126937
    """
    return unwrap(answer("delta", job, epsilon, **options).lower)


@verb(Options.__annotations__)
def delta_bounds(job: Job, epsilon: Reals, **options: Unpack[Options]) -> Bounds:
    """Certified lower and upper bounds of delta, and a status.  Arguments and errors as in `delta`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta_bounds(fa.Gaussian(1.0), epsilon=1.0).upper, 6)
    0.126937
    """
    return plain_bounds(answer("delta", job, epsilon, **options))


@verb(CurveOptions.__annotations__)
def log_delta(job: Job, epsilon: Reals, **options: Unpack[CurveOptions]) -> float | Floats:
    """Certified upper bound of the natural logarithm of delta, as `log_delta_bounds`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.log_delta(fa.Gaussian(1.0), epsilon=60.0), 6)
    -1779.233391
    """
    return unwrap(answer("log_delta", job, epsilon, None, **options, only_upper=True).upper)


@verb(CurveOptions.__annotations__)
def log_delta_bounds(job: Job, epsilon: Reals, **options: Unpack[CurveOptions]) -> Bounds:
    """Certified bounds of the natural logarithm of delta: for deltas far below the smallest float; -inf is delta 0.

    Arguments and errors as in `delta`.

    >>> import fastacct as fa
    >>> round(fa.log_delta_bounds(fa.Gaussian(1.0), epsilon=60.0).upper, 6)
    -1779.233391
    """
    return plain_bounds(answer("log_delta", job, epsilon, None, **options))


@verb(CurveOptions.__annotations__)
def rdp(job: Job, orders: Reals, **options: Unpack[CurveOptions]) -> float | Floats:
    """Rényi divergence of a job.

    **Guarantee.** Certified upper bound of the larger direction, for Gaussians and their Poisson samples
    with a relative excess of at most 1e-11 in the domain of `fastacct.dpsgd.rdp`; inf where none is known.

    The orders, in [1, 1e11] or inf, broadcast with the job.  1: the Kullback-Leibler divergence; inf: the largest loss,
    pure epsilon.  Keywords and errors as in `epsilon`.

    >>> import fastacct as fa
    >>> fa.rdp(fa.Gaussian(1.0).poisson(0.01) * 100 + fa.Gaussian(5.0), [2, 8]).round(6)
    array([0.057181, 0.249364])
    """
    return unwrap(renyi(job, orders, **options, only_upper=True).upper)


@verb(CurveOptions.__annotations__)
def rdp_bounds(job: Job, orders: Reals, **options: Unpack[CurveOptions]) -> Bounds:
    """Certified bounds of the Rényi divergence of a job, and a status.  As `rdp`.

    The lower one is 0 where a divergence is known from above alone: of discrete Gaussians, staircases, Skellam noise.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.rdp_bounds(fa.Gaussian(1.0), orders=8.0).lower, 6)
    4.0
    """
    return plain_bounds(renyi(job, orders, **options))
