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
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from fastacct._arrays import Cells
from fastacct._extras import import_extra
from fastacct._loss_distribution import LossDistribution
from fastacct._losses import losses
from fastacct._pld_sources import ROUNDING, Atoms, Index
from fastacct._renyi_forms import divergence
from fastacct.additive import ALL_RELATIONS
from fastacct.mechanisms import Mechanism
from fastacct_ext import _kernels

__all__ = ["Compiled", "dpsgd_delta", "dpsgd_epsilon", "dpsgd_rdp", "mechanism"]

Function = Callable[[float], float]
UNRESOLVED: Final = 1e-7
"""Largest share of the mass that two quadrature rules may disagree about."""
SUBNORMAL: Final = 1e-320
"""What the subnormal numbers in a panel may be off by."""
_NEXT_TO: Final = 1e-11
"""Part of a panel: how close to its ends its loss is looked at."""
_COARSE: Final = 512
_CONSTANT_MODULES: Final = ("math", "cmath", "numpy")
"""A function that reads no globals but these is the same function in every process."""
_FAR: Final = -720.0
_WIDEST: Final = 1e150


@dataclass(frozen=True, eq=False)
class Compiled(Mechanism):
    """A mechanism given by the densities of its worst pair of outputs; made by `fastacct.jit.mechanism`."""

    log_density_p: Any
    log_density_q: Any
    loss: Any = None
    domain: tuple[float, float] = (-math.inf, math.inf)
    breakpoints: tuple[float, ...] = ()
    panels: int = 1 << 14
    supported: tuple[str, ...] = ("add_remove", "add", "remove", "zero_out")
    exact: ClassVar[bool] = True
    _pointers: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def relations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those that the caller named."""
        return self.supported

    def _key(self) -> tuple[Any, ...]:
        functions = (self.log_density_p, self.log_density_q, self.loss)
        return (type(self), functions, self.domain, self.breakpoints, self.panels, self.supported)

    def _cells(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        names = [getattr(f, "__name__", repr(f)) for f in (self.log_density_p, self.log_density_q)]
        return f"jit.mechanism(log_density_p={names[0]}, log_density_q={names[1]}, domain={self.domain!r})"

    def _call(self, name: str, x: Cells) -> Cells:
        if name not in self._pointers:
            self._pointers[name] = _compiled(getattr(self, name), name)
        flat, out = np.ascontiguousarray(x, dtype=np.float64).ravel(), np.empty(x.size)
        _kernels.tabulate(self._pointers[name].address, flat, out)
        return out.reshape(x.shape)

    def at(self, x: Cells) -> tuple[Cells, Cells, Cells]:
        """Both log-densities and the loss."""
        log_p, log_q = self._call("log_density_p", x), self._call("log_density_q", x)
        with np.errstate(invalid="ignore"):
            return log_p, log_q, self._call("loss", x) if self.loss is not None else log_p - log_q

    def refined(self, low: float, high: float, epsilon: float, way: int, good: float) -> tuple[float, float]:
        """Bounds of the integral of (P - exp(epsilon) Q)_+ between two outputs; way 1: Q against P."""
        points, weights = _both_rules()
        log_p, log_q = (self._pointers[name].address for name in ("log_density_p", "log_density_q"))
        loss = self._pointers["loss"].address if self.loss is not None else 0
        return _kernels.refine(log_p, log_q, loss, bool(way), low, high, epsilon, points, weights, 6, good)

    @cached_property
    def table(self) -> Table:
        """Masses and losses of the panels."""
        return _table(self)

    @cached_property
    def sums(self) -> tuple[Sums, Sums]:
        """Of both directions."""
        return Sums(self.table), Sums(self.table.turned())

    @cached_property
    def losses(self) -> tuple[LossDistribution, LossDistribution]:
        """Of both directions."""
        return _direction(self.table), _direction(self.table.turned())


@dataclass(frozen=True, eq=False)
class Table:
    """Masses of P and Q in each panel with bounds of their errors, and the range of the loss."""

    edges: Cells
    p: Cells
    q: Cells
    p_error: Cells
    q_error: Cells
    low: Cells
    high: Cells

    def missing(self) -> float:
        """Mass of P outside the domain, if the errors do not explain it."""
        return max(0.0, 1.0 - math.fsum(self.p) - math.fsum(self.p_error))

    def turned(self) -> Table:
        """Q against P."""
        return Table(self.edges, self.q, self.p, self.q_error, self.p_error, -self.high, -self.low)


def _rises(values: Cells) -> bool:
    return bool((values[1:] >= values[:-1]).all())


class Sums:
    """Masses of the panels whose losses are all above a threshold, in extended precision."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.missing = table.missing()
        order = np.argsort(-np.nan_to_num(table.low, nan=-np.inf), kind="stable")
        order = order[np.isfinite(table.low[order]) | (table.low[order] > 0.0)]
        self._low = -table.low[order]
        columns = (table.p, table.q, table.p_error, table.q_error)
        self._sums = [np.append(0.0, np.cumsum(column[order].astype(np.longdouble))) for column in columns]

        # a not-a-number rises nowhere
        self._ways = [way for way in (1, -1) if _rises(table.low[::way]) and _rises(table.high[::way])]

    def around(self, epsilon: float) -> Index:
        """The panels in which the loss may pass epsilon."""
        table = self.table
        if not self._ways:
            return np.flatnonzero((table.low <= epsilon) & (table.high > epsilon))
        way = self._ways[0]
        first = int(np.searchsorted(table.high[::way], epsilon, side="right"))
        last = int(np.searchsorted(table.low[::way], epsilon, side="right"))
        found = np.arange(first, max(first, last))
        return found if way == 1 else table.low.size - 1 - found

    def _at(self, epsilon: float) -> list[float]:
        place = int(np.searchsorted(self._low, -epsilon, side="left"))
        return [float(sums[place]) for sums in self._sums]

    def loss_above(self, mass: float) -> float:
        """About the loss that P exceeds with this probability."""
        place = int(np.searchsorted(self._sums[0], mass))
        return float(-self._low[min(max(place - 1, 0), self._low.size - 1)]) if self._low.size else 0.0

    def of_q(self, epsilon: float) -> float:
        """Mass of Q."""
        return self._at(epsilon)[1]

    def excess(self, epsilon: float) -> tuple[float, float]:
        """Bounds of the sum of P - exp(epsilon) Q, from zero."""
        p, q, p_off, q_off = self._at(epsilon)
        times = math.exp(epsilon) if epsilon < 709.0 else math.inf
        p_off, q_off = p_off + 16.0 * ROUNDING * p, q_off + 16.0 * ROUNDING * q
        most, least = q + q_off, max(q - q_off, 0.0)
        low = p - p_off - (times * most if most > 0.0 else 0.0)
        high = p + p_off - (times * least if least > 0.0 and times < math.inf else 0.0)
        return max(0.0, low), max(0.0, high)


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
        Compiled by Numba once, and cached on disk where the function is in a file and uses no globals but
        `math` and `numpy`.
        They may use `math`.
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
    ImportError
        Without Numba (`pip install "fastacct[jit]"`).
    TypeError, ValueError
        For what is not a function or cannot be compiled; densities that are not resolved or do not sum to 1.
    """
    for name, function in (("log_density_p", log_density_p), ("log_density_q", log_density_q), ("loss", loss)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function of one number, not {function!r}")
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
    made = Compiled(log_density_p, log_density_q, loss, (float(domain[0]), float(domain[1])), cuts, int(panels), chosen)
    _ = made.table  # compile and refuse here, not at the first question
    return made


def _numba() -> Any:
    return import_extra("numba", "jit")


@lru_cache(maxsize=256)
def _compiled(function: Function, name: str) -> Any:
    numba = _numba()
    try:
        return numba.cfunc(numba.float64(numba.float64), cache=_is_in_a_file(function))(function)
    except (numba.core.errors.NumbaError, TypeError) as error:
        raise ValueError(f"{name} cannot be compiled by Numba: {error}") from error


def _is_in_a_file(function: Any) -> bool:
    """Whether Numba can cache it: not from a console, a module's own, and a function of its text alone.

    Numba compiles the values of globals in, and its cache does not notice when they change.
    """
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename.startswith("<") or code.co_freevars:
        return False
    if function.__globals__.get(function.__qualname__) is not function:
        return False  # its entry is found by name and line, which two lambdas may share
    todo, names = [code], set()
    while todo:  # functions inside functions too
        one = todo.pop()
        names |= set(one.co_names)
        todo += [inner for inner in one.co_consts if inspect.iscode(inner)]
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    return all(inspect.ismodule(value) and value.__name__ in _CONSTANT_MODULES for value in known)


@lru_cache(maxsize=2)
def rule_of(size: int) -> tuple[Cells, Cells]:
    points, weights = np.polynomial.legendre.leggauss(size)
    return points, weights


@lru_cache(maxsize=1)
def _both_rules() -> tuple[Cells, Cells]:
    points, weights = (np.concatenate(parts) for parts in zip(rule_of(6), rule_of(10), strict=True))
    return points, weights


def panels_of(made: Compiled, edges: Cells) -> Table:
    """Panels between increasing edges, each integrated by two rules."""
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
    points, weights = _both_rules()
    x = middle[:, None] + half[:, None] * points
    log_p, log_q = made._call("log_density_p", x), made._call("log_density_q", x)
    with np.errstate(invalid="ignore"):
        loss = made._call("loss", x) if made.loss is not None else log_p - log_q
    for name, values in (("log_density_p", log_p), ("log_density_q", log_q)):
        if not (values < np.inf).all():
            at = float(x[~(values < np.inf)].flat[0])
            raise ValueError(f"{name}({at!r}) is not a number; allowed: finite numbers and -inf")
    with np.errstate(divide="ignore"):  # in logarithms: a density may underflow where a panel's mass does not
        log_size = np.log(half)[:, None] + np.log(weights)
    in_p, in_q = np.exp(log_p + log_size), np.exp(log_q + log_size)
    p, q = in_p[:, 6:].sum(axis=1), in_q[:, 6:].sum(axis=1)
    off = np.abs(p - in_p[:, :6].sum(axis=1)), np.abs(q - in_q[:, :6].sum(axis=1))
    low, high = np.fmin.reduce(loss, axis=1), np.fmax.reduce(loss, axis=1)
    # the ends of a panel may go beyond the points seen in it: by 0.056 of their range for a parabola with its vertex
    # in the middle; where a density is 0, the loss is infinite
    with np.errstate(invalid="ignore"):
        margin = 0.15 * (high - low) + 16.0 * ROUNDING * np.maximum(np.abs(low), np.abs(high))
    # finite and infinite losses in one panel: nothing is known of their range
    mixed = ~np.isfinite(margin) & (low != high)
    margin = np.where(np.isfinite(margin), margin, 0.0)
    low, high = np.where(mixed, -np.inf, low - margin), np.where(mixed, np.inf, high + margin)
    # next to the ends: beyond the margin the loss has a singularity there
    inner = np.stack([edges[:-1] + _NEXT_TO * half, edges[1:] - _NEXT_TO * half], axis=1)
    with np.errstate(invalid="ignore"):
        end = made._call("log_density_p", inner) - made._call("log_density_q", inner)
        end = made._call("loss", inner) if made.loss is not None else end
    low = np.where((end < low[:, None]).any(axis=1), -np.inf, low)
    high = np.where((end > high[:, None]).any(axis=1), np.inf, high)
    return Table(edges, p, q, _error(p, off[0], half), _error(q, off[1], half), low, high)


def _error(mass: Cells, off: Cells, half: Cells) -> Cells:
    """Absolute: ten times the difference of the rules, the rounding of exp, and of what is no normal number."""
    with np.errstate(divide="ignore"):
        size = np.where(mass > 0.0, np.abs(np.log(mass)), 0.0) + 2.0 * np.abs(np.log(half))
    return np.asarray(10.0 * off + mass * (ROUNDING * (64.0 + 4.0 * size)) + SUBNORMAL)


def _table(made: Compiled) -> Table:
    table = panels_of(made, _edges(made))
    for name, mass, error in (("log_density_p", table.p, table.p_error), ("log_density_q", table.q, table.q_error)):
        if math.fsum(error) > UNRESOLVED:
            worst = int(np.argmax(error))
            low, high = float(table.edges[worst]), float(table.edges[worst + 1])
            raise ValueError(
                f"{name} is not resolved in [{low!r}, {high!r}]: name kinks and jumps in breakpoints, or more panels"
            )
        if abs((total := math.fsum(mass)) - 1.0) > 1e-9:
            raise ValueError(f"{name} integrates to {total!r} over {made.domain!r}, not to 1")
    return table


def _edges(made: Compiled) -> Cells:
    low, high = made.domain
    if math.isinf(low) or math.isinf(high):
        low, high = _reach(made, low, high)
    ends = [low, *(x for x in made.breakpoints if low < x < high), high]
    # towards ends and breakpoints ever shorter: a density may vanish there
    away = 0.5 ** np.arange(1.0, 46.0) * (high - low) / made.panels
    near = np.concatenate([np.concatenate([x - away, x + away]) for x in ends])
    even = cut_evenly(low, high, made.breakpoints, made.panels)
    edges = np.unique(np.concatenate([even, near[(near > low) & (near < high)]]))
    apart = np.diff(edges) > 1e-14 * np.maximum(np.abs(edges[1:]), 1e-300)
    edges = np.asarray(edges[np.append(True, apart)], dtype=np.float64)
    edges[-1] = high  # not the end itself
    return edges


def cut_evenly(low: float, high: float, breakpoints: Iterable[float], panels: int) -> Cells:
    """Edges of about so many panels, breakpoints among them."""
    ends = np.array([low, *(x for x in breakpoints if low < x < high), high])
    share = np.maximum(np.round(panels * np.diff(ends) / (high - low)).astype(int), 8)
    pieces = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(ends[:-1], ends[1:], share, strict=True)]
    return np.concatenate([*pieces, [high]])


def _reach(made: Compiled, low: float, high: float) -> tuple[float, float]:
    """Where a density is above exp(-720) of its largest value."""
    size = np.concatenate([[0.0], np.geomspace(1e-6, _WIDEST, 4000)])
    centre = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    for _ in range(6):
        x = np.unique(np.concatenate([centre - size, centre + size]))
        x = x[(x >= low) & (x <= high)]
        value = np.fmax(made._call("log_density_p", x), made._call("log_density_q", x))
        top = np.nanmax(np.where(np.isfinite(value), value, np.nan))
        inside = x[value > top + _FAR]
        if inside.size > 400:
            break
        centre, size = float(np.median(inside)), size[size <= 4.0 * max(float(np.ptp(inside)), 1e-6)]
        size = np.linspace(0.0, float(size[-1]), 4000)
    left, right = float(inside[0]), float(inside[-1])
    pad = 0.02 * (right - left)
    return max(low, left - pad), min(high, right + pad)


@losses.register(Compiled)
def _losses(mechanism: Compiled, cell: dict[str, float], neighbors: str) -> tuple[LossDistribution, LossDistribution]:
    return mechanism.losses


def _direction(table: Table) -> LossDistribution:
    """Panels as atoms: both ends of each with its masses of P and Q, or its mean."""
    seen = (table.p > 1e-300) & (table.q > 1e-300) & np.isfinite(table.low) & np.isfinite(table.high)
    rest = math.fsum((table.p + table.p_error)[~seen]) + table.missing() + 1e-290
    p, q, low, high = table.p[seen], table.q[seen], table.low[seen], table.high[seen]
    p_off, q_off = table.p_error[seen] / p, table.q_error[seen] / q
    mean = np.log(p) - np.log(q)
    off = p_off + q_off + 16.0 * ROUNDING * (1.0 + np.abs(np.log(p)) + np.abs(np.log(q)))
    low, high = np.minimum(low, mean - off), np.maximum(high, mean + off)
    # the masses of P and, at most, of Q stay: less of Q is more loss
    share = (1.0 - np.exp(low - mean) * (1.0 - 2.0 * off)) / -np.expm1(low - high)
    share = np.clip(share * (1.0 + 4.0 * ROUNDING), 0.0, 1.0)
    right, left = p * share * (1.0 + 1.01 * p_off), p * (1.0 - share) * (1.0 + 1.01 * p_off)
    pad = 4.0 * ROUNDING
    loss = np.concatenate([low, high])
    upper = Atoms(loss, pad * np.abs(loss), np.concatenate([left, right]), min(1.0, rest * (1.0 + 1e-12)))
    lower = Atoms(mean - off, pad * np.abs(mean), np.maximum(p * (1.0 - 1.01 * p_off), 0.0))
    return LossDistribution(upper, lower)


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
        log_p, log_q = made._call("log_density_p", x), made._call("log_density_q", x)
        with np.errstate(invalid="ignore"):
            loss = made._call("loss", x) if made.loss is not None else log_p - log_q
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
def _kernel(name: str) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    label = ctypes.pythonapi.PyCapsule_GetName
    label.restype, label.argtypes = ctypes.c_char_p, [ctypes.py_object]
    capsule = _kernels.__pyx_capi__[name]  # type: ignore[attr-defined]
    return ctypes.CFUNCTYPE(*[ctypes.c_double] * 5)(get(capsule, label(capsule)))


def dpsgd_epsilon() -> Any:
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


def dpsgd_delta() -> Any:
    """The function (noise_multiplier, sample_rate, steps, epsilon) -> delta for use in `@numba.njit` code."""
    return _kernel("dpsgd_delta")


def dpsgd_rdp() -> Any:
    """The function (noise_multiplier, sample_rate, steps, order) -> Rényi divergence for use in `@numba.njit` code."""
    return _kernel("dpsgd_rdp")
