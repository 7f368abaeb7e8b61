"""A mechanism given by two log-densities, compiled to callbacks that no Python runs per point."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from fastacct.core.bounds import Answers
from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.core.record import fields_of
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.core.work import kept, spend
from fastacct.losses.atoms import DataPair
from fastacct.losses.loss import Pair
from fastacct.losses.pieces import Pieces
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.compiled.code import Callback, Function, compiled
from fastacct.mechanisms.compiled.pieces import pieces_at
from fastacct.mechanisms.compiled.release import OneRelease
from fastacct.mechanisms.compiled.table import Table, at_nodes, largest_outside, losses_of, rule, table_of
from fastacct.samplers.poisson import sample
from fastacct_ext import _densities

_COARSE: Final = 512
"""Panels of Rényi divergences."""
_STEEP: Final = 30.0
"""Growth within a panel, in logarithms, from which two rules may agree and both miss what is next to its end."""


class Compiled(Mechanism):
    """A mechanism given by the densities of its worst pair of outputs; made by `fastacct.jit.mechanism`.

    Examples
    --------
    >>> import fastacct as fa
    >>> noise = lambda x: -0.5 * x * x - 0.9189385332046727
    >>> moved = lambda x: -0.5 * (x - 1.0) ** 2 - 0.9189385332046727
    >>> type(fa.jit.mechanism(log_density_p=moved, log_density_q=noise)).__name__
    'Compiled'
    """

    log_density_p: Function
    log_density_q: Function
    loss: Function | None
    domain: tuple[float, float]
    breakpoints: tuple[float, ...]
    panels: int
    supported: tuple[Relation, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        """Those that the caller named."""
        return self.supported

    def place(self) -> tuple[str, tuple[float, ...]]:
        """By content."""
        return f"Compiled,{self!r}", ()

    def _key(self) -> tuple[Hashable, ...]:
        return (self._digest,)

    @cached
    def _digest(self) -> str:
        """Of all values in the panels: functions that have the same ones are one."""
        settings = repr((self.loss is None, self.domain, self.breakpoints, self.panels, self.supported)).encode()
        columns = (getattr(self.table, one.name).tobytes() for one in fields_of(Table))
        return hashlib.sha256(settings + b"".join(columns)).hexdigest()

    def __repr__(self) -> str:
        p, q = (getattr(one, "__name__", "function") for one in (self.log_density_p, self.log_density_q))
        return f"jit.mechanism(log_density_p={p}, log_density_q={q}, domain={self.domain!r})#{self._digest[:16]}"

    @cached
    def kept(self) -> dict[tuple[str, float, int], Any]:
        """What readers have found out about it; goes with it."""
        return {}

    @cached
    def callbacks(self) -> dict[str, Callback]:
        """The compiled functions by name."""
        named = {"log_density_p": self.log_density_p, "log_density_q": self.log_density_q, "loss": self.loss}
        return {name: compiled(name, function) for name, function in named.items() if function is not None}

    def evaluate(self, x: Cells) -> tuple[Cells, Cells, Cells]:
        """Both log-densities and the loss."""
        flat, found = np.ascontiguousarray(x, dtype=np.float64).ravel(), []
        for callback in self.callbacks.values():
            out = np.empty(x.size)
            _densities.tabulate(callback.address, flat, out)
            found.append(out.reshape(x.shape))
        with np.errstate(invalid="ignore"):
            return found[0], found[1], found[2] if self.loss is not None else found[0] - found[1]

    def rounding(self, log_p: Cells, log_q: Cells, loss: Cells) -> Cells:
        """Twice the rounding error of the loss, log-densities being good to 4 units in the last place."""
        size = 2.0 * np.abs(loss) if self.loss is not None else 2.0 + np.abs(log_p) + np.abs(log_q)
        return np.where(np.isfinite(loss), 8.0 * ROUNDING * size, 0.0)

    def refined(self, low: float, high: float, epsilon: float, way: int, good: float) -> tuple[float, float]:
        """Bounds of the integral of (P - exp(epsilon) Q)_+ between two outputs; way 1: Q against P."""
        log_p, log_q, *loss = (callback.address for callback in self.callbacks.values())
        return _densities.excess_of_panel(log_p, log_q, sum(loss), bool(way), low, high, epsilon, *rule(6, 10), 6, good)

    @cached
    def table(self) -> Table:
        """Masses and losses of the panels."""
        return table_of(self)

    @cached
    def largest_loss(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Bounds of the largest loss of both directions, which is the epsilon of pure differential privacy."""
        known = self.table.largest_loss(), self.table.turned().largest_loss()
        outside = largest_outside(self, (known[0][1], known[1][1]))
        return (known[0][0], outside[0]), (known[1][0], outside[1])

    @cached
    def pieces(self) -> Pieces | None:
        """Its loss as the kernels read it, where they can."""
        return pieces_at(self)

    @cached
    def _pair(self) -> CompiledPair:
        return CompiledPair(self, 1.0, Pair(losses_of(self.table), losses_of(self.table.turned())))

    def losses(self, relation: Relation) -> Pair:
        """Panels as atoms, and the densities themselves for the readers that evaluate them."""
        return self._pair

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """By the same two rules, on fewer panels; where they differ, or an infinite domain was cut too early, inf."""
        value = np.zeros(orders.size)
        for direction in DIRECTIONS[relation]:
            exact, error = _log_moments(self, direction == "add", np.asarray(orders, dtype=np.float64).tobytes())
            value = np.maximum(value, np.where(error <= 1e-6 * exact + 1e-12, exact + error, np.inf))
        return value.reshape(orders.shape)

    def pure_epsilon(self, relation: Relation) -> float:
        """The largest loss, where it is known."""
        return max(self.largest_loss[direction == "add"][1] for direction in DIRECTIONS[relation])


class CompiledPair(DataPair):
    """The losses of a compiled mechanism or of its Poisson sample, with the densities that they come from."""

    def __init__(self, made: Compiled, rate: float, losses: Pair) -> None:
        super().__init__(losses.remove, losses.add)
        self.made = made
        self.rate = rate

    def pieces(self) -> Pieces | None:
        whole = self.made.pieces
        return whole.sampled(self.rate) if whole is not None and self.rate < 1.0 else whole

    def one_release(self, direction: Direction) -> Answers | None:
        """From the panels, those around epsilon refined; a sample has none."""
        return OneRelease(self.made, direction == "add") if self.rate == 1.0 else None

    def sampled(self, rate: float) -> Pair | None:
        """Of the sample."""
        return CompiledPair(self.made, rate, sample(Pair(self.remove, self.add), rate)) if self.rate == 1.0 else None


@kept(64)
def _log_moments(made: Compiled, way: bool, at: bytes) -> tuple[Cells, Cells]:
    """log E_P exp((order - 1) loss) / (order - 1), and ten times the difference of the rules; kept, since a search asks
    for the same whole orders five times in each direction."""
    orders = np.frombuffer(at)
    every = max(1, made.panels // _COARSE)
    edges = np.unique(np.concatenate([made.table.edges[::every], made.table.edges[-1:], made.breakpoints]))
    half, a, sums = 0.5 * (edges[1:] - edges[:-1]), (orders - 1.0)[..., None], []
    spend(500.0 * orders.size * half.size)
    for size in (6, 10):
        _, log_p, log_q, loss, _ = (values.ravel() for values in at_nodes(made, edges, size))
        log_p, loss = (log_q, -loss) if way else (log_p, loss)
        unseen = _between_nodes(np.log(2.0 * half), log_p.reshape(-1, size), loss.reshape(-1, size), a)
        seen = ~np.isnan(loss) & (log_p > -np.inf)
        if (loss[seen] == np.inf).any():
            return np.full(orders.shape, np.inf), np.zeros(orders.shape)
        log_mass, loss = (np.log(half[:, None] * rule(size)[1]).ravel() + log_p)[seen], loss[seen]
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
    if table.missing > 0.0:
        return np.asarray(sums[1]), np.full(orders.shape, np.inf)
    with np.errstate(invalid="ignore"):
        error = 10.0 * np.abs(sums[1] - sums[0]) + rounding
        error = error + np.exp(np.minimum(unseen - a[..., 0] * sums[1], 700.0)) / a[..., 0]
    return np.asarray(sums[1]), np.where(np.isfinite(error) & ~is_cut, error, np.inf)


def _between_nodes(log_width: Cells, log_p: Cells, loss: Cells, a: Cells) -> Cells:
    """Log of what panels may hold in which p exp(a loss) changes so fast that neither rule sees it near an end.

    It is at most about as large as at the nodes next to that end, on either side.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.nan_to_num(log_p + a[..., None] * loss, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        most, least = size.max(axis=-1), size.min(axis=-1)
        beside = np.maximum(most, np.maximum(np.roll(size[..., 0], -1, axis=-1), np.roll(size[..., -1], 1, axis=-1)))
        found = np.where(beside - least > _STEEP, log_width + beside + math.log(2.0), -np.inf)
        top = found.max(axis=-1)
        total = top + np.log(np.sum(np.exp(found - top[..., None]), axis=-1))
    return np.asarray(np.where(top > -np.inf, total, -np.inf))
