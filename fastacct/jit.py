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
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import ClassVar, Final

import numpy as np

from fastacct._arrays import Cells
from fastacct._jit_code import Callback, Program, compiled
from fastacct._jit_release import Sums, Table, both_rules, largest_outside, losses_of, rule_of, table_of
from fastacct._loss_distribution import LossDistribution
from fastacct._losses import losses
from fastacct._pld_sources import ROUNDING
from fastacct._renyi_forms import divergence
from fastacct.additive import ALL_RELATIONS
from fastacct.mechanisms import Mechanism
from fastacct_ext import _kernels

__all__ = ["Compiled", "dpsgd_delta", "dpsgd_epsilon", "dpsgd_rdp", "mechanism"]

Function = Callable[[float], float]
Kernel = Callable[[float, float, float, float], float]
_COARSE: Final = 512
"""Panels of Rényi divergences."""


@dataclass(frozen=True, eq=False)
class Compiled(Mechanism):
    """A mechanism given by the densities of its worst pair of outputs; made by `fastacct.jit.mechanism`."""

    log_density_p: Program
    log_density_q: Program
    loss: Program | None = None
    domain: tuple[float, float] = (-math.inf, math.inf)
    breakpoints: tuple[float, ...] = ()
    panels: int = 1 << 14
    supported: tuple[str, ...] = ("add_remove", "add", "remove", "zero_out")
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("log_density_p", "log_density_q", "loss"):
            if name != "loss" or self.loss is not None:
                object.__setattr__(self, name, Program.of(name, getattr(self, name)))

    @property
    def relations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those that the caller named."""
        return self.supported

    def _cells(self) -> dict[str, Cells]:
        """None: nothing of it may be an array."""
        return {}

    def __repr__(self) -> str:
        content = repr([getattr(self, one.name) for one in fields(self)]).encode()
        return (
            f"jit.mechanism(log_density_p={self.log_density_p.name}, log_density_q={self.log_density_q.name}, "
            f"domain={self.domain!r})#{hashlib.sha256(content).hexdigest()[:16]}"
        )

    @cached_property
    def callbacks(self) -> dict[str, Callback]:
        """The compiled functions by name."""
        named = [(name, getattr(self, name)) for name in ("log_density_p", "log_density_q", "loss")]
        return {name: compiled(program, name) for name, program in named if program is not None}

    def at(self, x: Cells) -> tuple[Cells, Cells, Cells]:
        """Both log-densities and the loss."""
        flat, found = np.ascontiguousarray(x, dtype=np.float64).ravel(), []
        for callback in self.callbacks.values():
            out = np.empty(x.size)
            _kernels.tabulate(callback.address, flat, out)
            found.append(out.reshape(x.shape))
        with np.errstate(invalid="ignore"):
            return found[0], found[1], found[2] if self.loss is not None else found[0] - found[1]

    def rounding(self, log_p: Cells, log_q: Cells, loss: Cells) -> Cells:
        """Twice the rounding error of the loss, log-densities being good to 4 units in the last place."""
        size = 2.0 * np.abs(loss) if self.loss is not None else 2.0 + np.abs(log_p) + np.abs(log_q)
        return np.where(np.isfinite(loss), 8.0 * ROUNDING * size, 0.0)

    def refined(self, low: float, high: float, epsilon: float, way: int, good: float) -> tuple[float, float]:
        """Bounds of the integral of (P - exp(epsilon) Q)_+ between two outputs; way 1: Q against P."""
        points, weights = both_rules()
        log_p, log_q, *loss = (callback.address for callback in self.callbacks.values())
        return _kernels.refine(log_p, log_q, sum(loss), bool(way), low, high, epsilon, points, weights, 6, good)

    @cached_property
    def largest_loss(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Bounds of the largest loss of both directions, which is the epsilon of pure differential privacy."""
        known = self.table.largest_loss(), self.table.turned().largest_loss()
        outside = largest_outside(self, (known[0][1], known[1][1]))
        return (known[0][0], outside[0]), (known[1][0], outside[1])

    @cached_property
    def table(self) -> Table:
        """Masses and losses of the panels."""
        return table_of(self)

    @cached_property
    def sums(self) -> tuple[Sums, Sums]:
        """Of both directions."""
        return Sums(self.table), Sums(self.table.turned())

    @cached_property
    def losses(self) -> tuple[LossDistribution, LossDistribution]:
        """Of both directions."""
        return losses_of(self.table), losses_of(self.table.turned())


def mechanism(
    *,
    log_density_p: Function,
    log_density_q: Function,
    loss: Function | None = None,
    domain: tuple[float, float] = (-math.inf, math.inf),
    breakpoints: Iterable[float] = (),
    panels: int = 1 << 14,
    relations: Iterable[str] = ("add_remove", "add", "remove", "zero_out"),
) -> Compiled:
    """A mechanism whose worst pair of outputs has these log-densities: P with the record, Q without.

    **Guarantee.** Certified for the densities as they are resolved: the domain is cut into panels; the masses of P
    and Q in each are integrated by two Gauss rules, whose difference (times 10) is paid, and refused where it is
    not small. Upper bounds split every panel between the smallest and the largest loss seen in it, lower bounds
    collect it in one loss; compositions of eight and more whose loss is smooth and monotone need no grid
    (docs/algorithms/compiled.md). What no one can see from outside is a feature narrower than a panel: name kinks
    and jumps in `breakpoints`. That the pair dominates the mechanism is the caller's claim.
    `fastacct.testing.check_mechanism` checks the rest.

    Parameters
    ----------
    log_density_p, log_density_q : function of one float
        Compiled by Numba once, with the values of globals, closures and defaults as they are now; a mechanism does
        not follow later changes. Cached on disk where the function is in a file and reads no values. They may use
        `math` and NumPy, numbers, tuples and arrays, and call functions that are made of these.
    loss : function of one float, optional
        log_density_p - log_density_q without its cancellation, where that matters.
    domain : (low, high)
        Where the densities are; infinite ends are cut where both densities are below exp(-720) of their largest values.
    breakpoints : iterable of float
        Kinks and jumps.
    panels : int
        More panels, narrower bounds: the width falls with the square.
    relations : iterable of str
        Neighbouring relations for which the pair is the worst one.

    Raises
    ------
    ModuleNotFoundError
        Without Numba (`pip install "fastacct[jit]"`).
    TypeError, ValueError
        For what is not a function or cannot be compiled; densities that are not resolved or do not sum to 1.
    """
    p, q = Program.of("log_density_p", log_density_p), Program.of("log_density_q", log_density_q)
    of_loss = None if loss is None else Program.of("loss", loss)
    if not isinstance(domain, tuple) or len(domain) != 2 or not domain[0] < domain[1]:
        raise ValueError(f"domain must be (low, high) with low < high, not {domain!r}")
    cuts = tuple(sorted(float(x) for x in breakpoints))
    if not all(domain[0] < x < domain[1] for x in cuts):
        raise ValueError(f"breakpoints must be inside the domain {domain!r}, not {cuts!r}")
    if not 16 <= panels <= 1 << 16:
        raise ValueError(f"panels = {panels!r} is out of range; allowed: whole numbers in [16, {1 << 16}]")
    chosen = tuple(relations)
    if not chosen or not set(chosen) <= set(ALL_RELATIONS):
        raise ValueError(f"relations must be some of {', '.join(map(repr, ALL_RELATIONS))}, not {chosen!r}")
    made = Compiled(p, q, of_loss, (float(domain[0]), float(domain[1])), cuts, int(panels), chosen)
    _ = made.table  # compile and refuse here, not at the first question
    return made


@losses.register(Compiled)
def _losses(mechanism: Compiled, cell: dict[str, float], neighbors: str) -> tuple[LossDistribution, LossDistribution]:
    """Losses of one release, (remove, add)."""
    return mechanism.losses


@divergence.register(Compiled)
def _divergence(mechanism: Compiled, cell: dict[str, float], neighbors: str, orders: Cells) -> Cells:
    """By the same two rules, on fewer panels; where they differ, or an infinite domain was cut too early, unknown."""
    value = np.zeros(orders.shape)
    for way in {"remove": (0,), "add": (1,)}.get(neighbors, (0, 1)):
        exact, error = _log_moments(mechanism, way, orders)
        found = np.where(error <= 1e-6 * exact + 1e-12, exact + error, np.inf)
        value = np.maximum(value, found)
    return value


def _log_moments(made: Compiled, way: int, orders: Cells) -> tuple[Cells, Cells]:
    """log E_P exp((order - 1) loss) / (order - 1), and ten times the difference of the rules."""
    every = max(1, made.panels // _COARSE)
    edges = np.unique(np.concatenate([made.table.edges[::every], made.table.edges[-1:], made.breakpoints]))
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
    a = (orders - 1.0)[..., None]
    sums = []
    for size in (6, 10):
        points, weights = rule_of(size)
        x = (middle[:, None] + half[:, None] * points).ravel()
        log_p, log_q, loss = made.at(x)
        log_p, loss = (log_q, -loss) if way else (log_p, loss)
        seen = ~np.isnan(loss) & (log_p > -np.inf)
        if (loss[seen] == np.inf).any():
            return np.full(orders.shape, np.inf), np.zeros(orders.shape)
        log_mass, loss = (np.log(half[:, None] * weights).ravel() + log_p)[seen], loss[seen]
        with np.errstate(invalid="ignore", over="ignore"):
            size_of = log_mass + a * loss
            top = size_of.max(axis=-1)
            far = (top + np.log(np.sum(np.exp(size_of - top[..., None]), axis=-1))) / a[..., 0]
            near = np.log1p(np.sum(np.exp(log_mass) * np.expm1(np.minimum(a * loss, 1.0)), axis=-1)) / a[..., 0]
            small = (a * loss).max(axis=-1) < 1.0
            # what an infinite domain leaves out must be as small as what is seen at its ends
            ends = np.concatenate([size_of[..., :size], size_of[..., -size:]], axis=-1).max(axis=-1) - top
            is_cut = (ends > math.log(1e-14)) & (not all(map(math.isfinite, made.domain)))
        sums.append(np.where(small, near, far))
        rounding = 1e-14 * (np.abs(top) + 1.0) / a[..., 0] + 1e-13 * np.abs(sums[-1])
    table = made.table.turned() if way else made.table
    if table.missing() > 0.0:
        return np.asarray(sums[1]), np.full(orders.shape, np.inf)
    with np.errstate(invalid="ignore"):
        error = 10.0 * np.abs(sums[1] - sums[0]) + rounding
    return np.asarray(sums[1]), np.where(np.isfinite(error) & ~is_cut, error, np.inf)


# -- kernels that compiled code may call -----------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _kernel(name: str) -> Kernel:
    """The C function of the compiled module, callable from Numba."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    label = ctypes.pythonapi.PyCapsule_GetName
    label.restype, label.argtypes = ctypes.c_char_p, [ctypes.py_object]
    capsule = _kernels.__pyx_capi__[name]  # type: ignore[attr-defined]
    return ctypes.CFUNCTYPE(*[ctypes.c_double] * 5)(get(capsule, label(capsule)))


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


def dpsgd_delta() -> Kernel:
    """The function (noise_multiplier, sample_rate, steps, epsilon) -> delta for use in `@numba.njit` code."""
    return _kernel("dpsgd_delta")


def dpsgd_rdp() -> Kernel:
    """The function (noise_multiplier, sample_rate, steps, order) -> Rényi divergence for use in `@numba.njit` code."""
    return _kernel("dpsgd_rdp")
