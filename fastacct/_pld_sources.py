"""Exact privacy losses of one direction, as weighted points: what a grid of losses is made from.

A source answers with `Nodes`: atoms, or Gauss-Legendre points of a density.  Each point carries bounds of its own
rounding errors, so that the discretisation rounds to the safe side without knowing where the numbers come from.

Quadrature: p and q are entire functions of the variable of integration, and so is p - exp(g) q, the only other
integrand.  On a panel with half-width a, a K-point rule is exact for degree 2K - 1, Chebyshev coefficients are at most
2 M rho^-k where |f| <= M on the Bernstein ellipse rho, hence an error below 8 M a rho^(-2K) / (1 - 1/rho).  A
normal density (X standard deviations from its centre) grows by at most exp(X (r + a) + (r^2 + a^2)/2) from its minimum
on the panel to its maximum on the ellipse, r = a (rho + 1/rho)/2, all in standard deviations.  `_rule` takes the
smallest K that makes the error, relative to the mass of the panel, at most `QUADRATURE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastacct._arrays import Cells

__all__ = ["QUADRATURE", "ROUNDING", "Atoms", "GaussianMixtures", "LaplaceLoss", "Nodes", "OutOfReachError", "Source"]

Index = NDArray[np.intp]

ROUNDING: Final = 2.0**-53
QUADRATURE: Final = 2.0**-58
_FAR: Final = 40.0
"""Beyond so many standard deviations a normal density is less than any mass `outside`."""
_MAX_SPREAD: Final = 1e5
_SMALLEST_TAIL: Final = 1e-299
_CHUNK: Final = 1 << 15


class OutOfReachError(ValueError):
    """The numbers are too extreme for a grid of any allowed size."""


class Nodes(NamedTuple):
    """Points of a privacy loss: `loss`, and `mass` under P, with bounds of their absolute errors, by cell of a grid."""

    cell: Index
    loss: Cells
    loss_error: Cells
    mass: Cells
    mass_error: Cells


class Source(Protocol):
    """The privacy loss of one direction.  Losses of nodes may be off by `slack`, beyond their own errors."""

    @property
    def infinite(self) -> float:
        """P-mass of an infinite loss."""

    @property
    def slack(self) -> float:
        """Bound of errors common to all losses."""

    @property
    def bottom(self) -> float:
        """Mass of finite losses that are only known to be above minus infinity (in lower bounds)."""

    @property
    def quadrature(self) -> float:
        """Relative error of the mass of a panel that `mass_error` does not contain."""

    @property
    def anchor(self) -> float | None:
        """A loss that a grid should hit, if any."""

    @property
    def lattice(self) -> float | None:
        """Distance that divides all differences of losses, if any."""

    def outside(self, tail: float) -> tuple[float, float]:
        """Upper bound of the P-mass without a node, about `tail`, and of its loss."""

    def extent(self, tail: float) -> tuple[float, float]:
        """Smallest and largest loss of a node."""

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """Nodes by cell between increasing `edges` that enclose the extent; in one cell without edges."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """A finite distribution of losses."""

    loss: Cells
    loss_error: Cells
    mass: Cells
    infinite: float = 0.0
    slack: float = 0.0
    lattice: float | None = None
    quadrature: float = 0.0
    bottom: float = 0.0
    fixed_anchor: float | None = None

    @property
    def anchor(self) -> float | None:
        """The loss of the heaviest atom, unless another one is wanted."""
        if self.fixed_anchor is not None or not self.loss.size:
            return self.fixed_anchor
        return float(self.loss[np.argmax(self.mass)])

    def outside(self, tail: float) -> tuple[float, float]:
        """Nothing."""
        return 0.0, -math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """Smallest and largest loss."""
        if not self.loss.size:
            return 0.0, 0.0
        return float(self.loss.min()), float(self.loss.max())

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms; one that may touch an edge from below counts as beyond it."""
        if edges is None:
            cell = np.zeros(self.loss.size, dtype=np.intp)
        else:
            cell = np.searchsorted(edges, self.loss + self.loss_error, side="right") - 1
            cell = np.clip(cell, 0, edges.size - 2)
        yield Nodes(cell, self.loss, self.loss_error, self.mass, np.zeros_like(self.mass))


@dataclass(frozen=True, eq=False)
class GaussianMixtures:
    """P = sum p_j N(m_j, sigma^2) against Q = sum q_j N(m_j, sigma^2), with a loss that increases in the output.

    The weight of the component `reference` is one minus the others: losses are log1p of terms that vanish with the
    sampling rate, accurate relative to themselves.
    """

    sigma: float
    means: Cells
    p: Cells
    q: Cells
    reference: int
    infinite: float = 0.0
    slack: float = 0.0
    quadrature: float = QUADRATURE
    bottom: float = 0.0
    anchor: float | None = None
    lattice: float | None = None

    @cached_property
    def _spread(self) -> float:
        """Largest distance from a centre of P at which a component of P or Q matters, in standard deviations."""
        spread = (float(self.means[-1]) - float(self.means[0])) / self.sigma
        if not spread <= _MAX_SPREAD:
            raise OutOfReachError(
                f"the means spread over {spread:g} standard deviations; allowed: at most {_MAX_SPREAD:g}"
            )
        return _FAR + spread

    def _reach(self, tail: float) -> float:
        """Standard deviations outside which any normal law has a mass of at most `tail`."""
        log_tail = math.log(min(0.5, max(tail, _SMALLEST_TAIL)))
        reach = 1.0
        while -0.5 * reach * reach - math.log(reach * 1.25) > log_tail:  # 2 phi(x)/x <= exp(-x^2/2) / (1.25 x)
            reach += 0.25
        return reach

    def outside(self, tail: float) -> tuple[float, float]:
        """Both tails of every component, at the supremum of the loss."""
        return max(tail, _SMALLEST_TAIL) * (1.0 + 1e-12), self.supremum

    @cached_property
    def supremum(self) -> float:
        """Least upper bound of the loss (rounded up)."""
        top = self.means.size - 1
        if self.q[top] == 0.0:
            return math.inf
        value = math.log(self.p[top] / self.q[top])
        return value + 8.0 * ROUNDING * (1.0 + abs(value))

    def _centres(self) -> Cells:
        return self.means[self.p > 0.0]

    def extent(self, tail: float) -> tuple[float, float]:
        """Losses of the ends of the outputs covered."""
        reach, centres = self._reach(tail) * self.sigma, self._centres()
        loss, error, _ = self.loss(np.array([centres[0] - reach, centres[-1] + reach]))
        return float(loss[0] - error[0]), float(loss[1] + error[1])

    def loss(self, x: Cells) -> tuple[Cells, Cells, Cells]:
        """Loss at outputs `x`, a bound of its error, and its derivative."""
        p_log, p_error, p_mean = self._log_mean(self.p, x)
        q_log, q_error, q_mean = self._log_mean(self.q, x)
        value = p_log - q_log
        slope = np.maximum(p_mean - q_mean, 0.0) / self.sigma**2
        return value, p_error + q_error + ROUNDING * np.abs(value), slope

    def _log_mean(self, weights: Cells, x: Cells) -> tuple[Cells, Cells, Cells]:
        """log sum w_j N(x; m_j) / N(x; m_reference), a bound of its error, and the mean m_j under its terms."""
        origin, variance = float(self.means[self.reference]), self.sigma**2
        total, highest = np.zeros_like(x), np.zeros_like(x)
        terms: list[tuple[float, float, Cells, Cells]] = []
        for j in range(self.means.size):
            if j != self.reference and weights[j] > 0.0:
                mean = float(self.means[j])
                shift = mean - origin
                y = shift * (x - 0.5 * (mean + origin)) / variance
                size = np.abs(shift) * (np.abs(x) + 0.5 * abs(mean + origin)) / variance
                total += weights[j] * np.expm1(np.minimum(y, 700.0))
                highest = np.maximum(highest, y + math.log(weights[j]))
                terms.append((float(weights[j]), mean, y, size))
        near = (total > -0.5) & (highest < 600.0)
        value = np.log1p(np.where(near, total, 0.0))
        if not near.all():
            far = ~near
            logs = (
                [np.full(int(np.count_nonzero(far)), math.log(weights[self.reference]))]
                if (weights[self.reference] > 0.0)
                else []
            )
            logs += [y[far] + math.log(weight) for weight, _, y, _ in terms]
            top = np.max(logs, axis=0)
            value[far] = top + np.log(np.sum([np.exp(one - top) for one in logs], axis=0))
        error, mean_of = 4.0 * ROUNDING * np.abs(value), np.full_like(x, origin)
        for weight, mean, y, size in terms:
            share = np.exp(np.minimum(y + (math.log(weight) - value), 0.0))
            with np.errstate(over="ignore"):
                rest = weight * np.exp(np.minimum(-value, 700.0))
            error += ROUNDING * (share * (6.0 * size + 8.0 - 2.0 * math.log(weight)) + 4.0 * np.minimum(rest, 2.0))
            mean_of += share * (mean - origin)
        return value, error, mean_of

    def _density(self, x: Cells) -> tuple[Cells, Cells]:
        """Density of P and a bound of its error."""
        value, error = np.zeros_like(x), np.zeros_like(x)
        for weight, mean in zip(self.p, self.means, strict=True):
            if weight > 0.0:
                z = (x - mean) / self.sigma
                term = (weight / (self.sigma * math.sqrt(2.0 * math.pi))) * np.exp(-0.5 * z * z)
                value += term
                error += term * (ROUNDING * (40.0 + 4.0 * np.abs(z) * (np.abs(z) + np.abs(x) / self.sigma)))
        return value, error

    @cached_property
    def _table(self) -> tuple[Cells, Cells]:
        """Outputs and losses, both increasing, from which inverses start."""
        reach = self._reach(0.0) * self.sigma
        x = np.unique(np.concatenate([m + np.linspace(-reach, reach, 2049) for m in self._centres()]))
        return x, np.maximum.accumulate(self.loss(x)[0])

    def _output(self, loss: Cells) -> Cells:
        """Outputs with these losses, nearly (what is missing becomes slack); the ends of the table beyond it."""
        x_table, loss_table = self._table
        x = np.interp(loss, loss_table, x_table)
        todo = np.flatnonzero((loss > loss_table[0]) & (loss < loss_table[-1]))
        right = np.searchsorted(loss_table, loss[todo])
        low, high = x_table[right - 1], x_table[right]
        for _ in range(60):
            now, wanted = x[todo], loss[todo]
            value, error, slope = self.loss(now)
            off = value - wanted
            low, high = np.where(off < 0.0, now, low), np.where(off < 0.0, high, now)
            open_ = (np.abs(off) > 4.0 * error) & (high - low > 4.0 * ROUNDING * np.abs(now))
            if not open_.any():
                break
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = now - off / slope
            step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
            todo, low, high = todo[open_], low[open_], high[open_]
            x[todo] = step[open_]
        return np.asarray(x)

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """Gauss points of panels that no edge cuts."""
        reach, centres = self._reach(tail), self._centres()
        n_edges = 2 if edges is None else edges.size
        n_base = math.ceil(max(min(n_edges / 8, 4096.0), reach * self._spread / 5.0))
        base = np.unique(np.concatenate([m + self.sigma * np.linspace(-reach, reach, n_base + 1) for m in centres]))
        first, last = base[0], base[-1]
        for start in range(0, n_edges - 1, _CHUNK):
            cuts = np.array([first, last])
            if edges is not None:
                # beyond the ends lies nothing, wherever rounding puts the outer edges
                cuts = self._output(edges[start : start + _CHUNK + 1])
                cuts[0] = first
                cuts[-1] = last if start + _CHUNK >= n_edges - 1 else cuts[-1]
                cuts = np.maximum.accumulate(np.clip(cuts, first, last))
                first = cuts[-1]
            breaks = np.unique(np.concatenate([cuts, base[(base > cuts[0]) & (base < cuts[-1])]]))
            middle, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * (breaks[1:] - breaks[:-1])
            near = np.abs(middle[:, None] - centres[None, :]).min(axis=1) <= reach * self.sigma
            middle, half = middle[near], half[near]
            if not middle.size:
                continue
            cell = np.minimum(np.searchsorted(cuts, middle, side="right") - 1, cuts.size - 2) + start
            points, weights = _rule(float(half.max()) / self.sigma * (1.0 + 1e-12), self._spread, 1.0)
            x = (middle[:, None] + half[:, None] * points).ravel()
            scale = (half[:, None] * weights).ravel()
            density, density_error = self._density(x)
            loss, loss_error, _ = self.loss(x)
            yield Nodes(np.repeat(cell, points.size), loss, loss_error, scale * density, scale * density_error)


@dataclass(frozen=True, eq=False)
class LaplaceLoss:
    """One release with Laplace noise, `largest` = sensitivity / scale: two atoms and a density between them.

    Without atoms the density alone, with mass 1: the dominating pair of all losses whose range is `largest`.
    """

    largest: float
    atoms: bool = True
    infinite: float = 0.0
    slack: float = 0.0
    quadrature: float = QUADRATURE
    bottom: float = 0.0

    @property
    def anchor(self) -> float | None:
        """The atom at the largest loss."""
        return self.largest

    @property
    def lattice(self) -> float | None:
        """Both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms."""
        return 2.0 * self.largest

    def outside(self, tail: float) -> tuple[float, float]:
        """Nothing."""
        return 0.0, -math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """The two atoms."""
        return -self.largest, self.largest

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and Gauss points of the density exp((loss - largest)/2)/4."""
        top = self.largest
        scale = 0.25 if self.atoms else 0.5 / -math.expm1(-top)
        if self.atoms:
            ends, none = np.array([-top, top]), np.zeros(2)
            mass = np.array([0.5 * math.exp(-top), 0.5])
            for atoms in Atoms(ends, none, mass).nodes(edges, tail):
                yield atoms._replace(mass_error=(4.0 + 4.0 * top) * ROUNDING * mass)
        n_base = math.ceil(min(max(4.0 * top, 8.0), 2.0**20))
        breaks = np.linspace(-top, top, n_base + 1)
        if edges is not None:
            breaks = np.unique(np.concatenate([breaks, edges[(edges > -top) & (edges < top)]]))
        for start in range(0, breaks.size - 1, _CHUNK):
            piece = breaks[start : start + _CHUNK + 1]
            middle, half = 0.5 * (piece[1:] + piece[:-1]), 0.5 * (piece[1:] - piece[:-1])
            cell = np.zeros(middle.size, dtype=np.intp)
            if edges is not None:
                cell = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, edges.size - 2)
            points, weights = _rule(float(half.max()) * (1.0 + 1e-12), 0.5, 0.0)
            loss = (middle[:, None] + half[:, None] * points).ravel()
            density = (half[:, None] * weights).ravel() * scale * np.exp(0.5 * (loss - top))
            error = density * (ROUNDING * (48.0 + 8.0 * top))
            yield Nodes(np.repeat(cell, points.size), loss, np.zeros_like(loss), density, error)


def _rule(half: float, slope: float, curvature: float) -> tuple[Cells, Cells]:
    """Gauss points and weights on [-1, 1] for half-widths up to `half` and exponents with these derivatives."""
    return _legendre(_size(2.0 ** (math.ceil(4.0 * math.log2(half)) / 4.0), slope, curvature))


@lru_cache(maxsize=4096)
def _size(half: float, slope: float, curvature: float) -> int:
    rho = np.geomspace(1.5, 1e4, 80)
    radius = 0.5 * half * (rho + 1.0 / rho)
    growth = slope * (radius + half) + 0.5 * curvature * (radius**2 + half**2)
    constant = math.log(4.0) - np.log1p(-1.0 / rho) + growth
    for n_points in range(2, 65):
        if np.min(constant - 2 * n_points * np.log(rho)) <= math.log(QUADRATURE):
            return n_points
    raise ValueError(f"no rule for a panel of half-width {half}")


@lru_cache(maxsize=64)
def _legendre(n_points: int) -> tuple[Cells, Cells]:
    """Correctly rounded up to an ulp: NumPy's weights are good to 1e-13 only, at 30 points."""
    points, weights = [], []
    with localcontext() as context:
        context.prec = 40
        for start in np.polynomial.legendre.leggauss(n_points)[0]:
            x = Decimal(float(start))
            for _ in range(3):
                last, value = Decimal(1), x
                for k in range(2, n_points + 1):
                    last, value = value, ((2 * k - 1) * x * value - (k - 1) * last) / k
                slope = n_points * (x * value - last) / (x * x - 1)
                x -= value / slope
            points.append(float(x))
            weights.append(float(2 / ((1 - x * x) * slope * slope)))
    return np.array(points), np.array(weights)
