"""Users' own mechanisms, compiled: plain Python functions of one number become callbacks that no Python runs per point.

>>> import fastacct as fa
>>> def p(x):
...     return -0.5 * (x - 1.0) ** 2 - 0.9189385332046727
>>> def q(x):
...     return -0.5 * x * x - 0.9189385332046727
>>> mine = fa.jit.mechanism(log_density_p=p, log_density_q=q)
>>> abs(fa.delta(mine, epsilon=1.0) / fa.delta(fa.Gaussian(1.0), epsilon=1.0) - 1.0) < 1e-9
True

And the other way round: `dpsgd_epsilon`, `dpsgd_delta` and `dpsgd_rdp` return functions that compiled code may call.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from fastacct.core.extras import import_extra
from fastacct.core.relations import ALL, SAMPLED, Relation
from fastacct.core.words import told_names
from fastacct.mechanisms.compiled.code import Function
from fastacct.mechanisms.compiled.mechanism import Compiled
from fastacct_ext import _kernels

__all__ = ["Compiled", "dpsgd_delta", "dpsgd_epsilon", "dpsgd_rdp", "mechanism"]

Kernel = Callable[[float, float, float, float], float]


@told_names
def mechanism(
    *,
    log_density_p: Function,
    log_density_q: Function,
    loss: Function | None = None,
    domain: tuple[float, float] = (-math.inf, math.inf),
    breakpoints: Iterable[float] = (),
    panels: int = 1 << 14,
    relations: Iterable[Relation] = SAMPLED,
) -> Compiled:
    """A mechanism whose worst pair of outputs has these log-densities: P with the record, Q without.

    **Guarantee.** Certified for the densities as they are resolved: the domain is cut into panels; the masses of P
    and Q in each are integrated by two Gauss rules, whose difference (times 10) is added, and refused where it is
    not small. Upper bounds split every panel between the smallest and the largest loss seen in it, lower bounds
    collect it in one loss; compositions of eight and more whose loss is smooth and monotone need no grid
    (docs/algorithms/compiled.md). What no one can see from outside is a feature narrower than a panel: name kinks
    and jumps in `breakpoints`. That the pair dominates the mechanism is the caller's claim.
    `fastacct.testing.check_mechanism` checks the rest.

    Parameters
    ----------
    log_density_p, log_density_q : function of one float
        Compiled by Numba once, with the values of globals, closures and defaults as they are now; a mechanism does
        not follow later changes. They may use `math` and NumPy, numbers, tuples and arrays, and call functions that
        are made of these.
    loss : function of one float, optional
        log_density_p - log_density_q without its cancellation, where that matters; refused where it is anything else,
        by more than their rounding, at a point of the panels that has mass.
    domain : (low, high)
        Where the densities are; infinite ends are cut where both densities are below exp(-720) of their largest values.
        Heavier tails, as of Cauchy noise, are refused: map the outputs to a finite domain.
    breakpoints : iterable of float
        Kinks and jumps.
    panels : int
        More panels, narrower bounds: the width falls with the square.
    relations : iterable of str
        Neighbouring relations for which the pair is the worst one.

    Raises
    ------
    ModuleNotFoundError
        Without Numba (extra `jit`).
    TypeError, ValueError
        For what is not a function or cannot be compiled; densities that are not resolved or do not sum to 1.

    Examples
    --------
    >>> import fastacct as fa
    >>> p, q = (lambda x: -abs(x - 1.0) - 0.6931471805599453), (lambda x: -abs(x) - 0.6931471805599453)
    >>> mine = fa.jit.mechanism(log_density_p=p, log_density_q=q, breakpoints=[0.0, 1.0])
    >>> round(fa.epsilon(mine, delta=1e-3), 6)
    0.997999
    """
    if not isinstance(domain, tuple) or len(domain) != 2 or not domain[0] < domain[1]:
        raise ValueError(f"domain must be (low, high) with low < high, not {domain!r}")
    cuts = tuple(sorted(float(x) for x in breakpoints))
    if not all(domain[0] < x < domain[1] for x in cuts):
        raise ValueError(f"breakpoints must be inside the domain {domain!r}, not {cuts!r}")
    if not 16 <= panels <= 1 << 16:
        raise ValueError(f"panels = {panels!r} is out of range; allowed: whole numbers in [16, {1 << 16}]")
    chosen = tuple(relations)
    if not chosen or not set(chosen) <= set(ALL):
        raise ValueError(f"relations must be some of {', '.join(map(repr, ALL))}, not {chosen!r}")
    ends = float(domain[0]), float(domain[1])
    made = Compiled(log_density_p, log_density_q, loss, ends, cuts, int(panels), chosen)
    _ = made.table  # compile and refuse here, not at the first question
    return made


@lru_cache(maxsize=3)
def _kernel(name: str) -> Kernel:
    """The C function of the compiled module, callable from Numba."""
    address = import_extra("numba.extending", "jit").get_cython_function_address(_kernels.__name__, name)
    return ctypes.CFUNCTYPE(*[ctypes.c_double] * 5)(address)


@told_names
def dpsgd_epsilon() -> Kernel:
    """The function (noise_multiplier, sample_rate, steps, delta) -> epsilon for use in `@numba.njit` code.

    **Guarantee.** As `fa.dpsgd.epsilon` with the exact accountant, the same bits; arguments out of range give infinity.
    Without the GIL, safe in threads.

    Examples
    --------
    >>> import numba, numpy as np
    >>> import fastacct as fa
    >>> epsilon = fa.jit.dpsgd_epsilon()
    >>> @numba.njit
    ... def smallest_noise(q, steps, delta, target):
    ...     sigma = 0.5
    ...     while epsilon(sigma, q, steps, delta) > target:
    ...         sigma *= 1.01
    ...     return sigma
    >>> round(smallest_noise(0.01, 1000.0, 1e-5, 2.0), 3)
    0.964
    """
    return _kernel("dpsgd_epsilon")


@told_names
def dpsgd_delta() -> Kernel:
    """The function (noise_multiplier, sample_rate, steps, epsilon) -> delta for use in `@numba.njit` code.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.jit.dpsgd_delta()(1.0, 0.01, 1000.0, 2.0), 9)
    2.666e-06
    """
    return _kernel("dpsgd_delta")


@told_names
def dpsgd_rdp() -> Kernel:
    """The function (noise_multiplier, sample_rate, steps, order) -> Rényi divergence for use in `@numba.njit` code.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.jit.dpsgd_rdp()(1.0, 0.01, 1000.0, 8.0), 6)
    0.893644
    """
    return _kernel("dpsgd_rdp")
