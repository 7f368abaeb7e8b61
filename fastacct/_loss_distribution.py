"""The privacy loss of one release, as a certified pair of measures on a grid, and where it can come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from fastacct._arrays import Cells, Codes, Domain, as_cells, as_choice, unwrap
from fastacct._pld_compose import grid_epsilon, stitched, weighted
from fastacct._pld_convolve import Composition, log_moment
from fastacct._pld_grid import GridMeasure, as_source, grid_delta, lower_measure, upper_measure
from fastacct._pld_sources import ROUNDING, Atoms, GaussianMixtures, LaplaceLoss, Source
from fastacct.bounds import Bounds, Status

__all__ = ["COUNT", "DIRECTIONS", "POSITIVE", "SHARE", "LossDistribution", "as_bounds", "as_number"]

DIRECTIONS: Final = ("remove", "add")
POSITIVE: Final = Domain(0.0, np.inf, open_low=True)
SHARE: Final = Domain(0.0, 1.0, open_low=True)
COUNT: Final = Domain(0.0, 2.0**53, integer=True)
_ANY: Final = Domain(-np.inf, np.inf)
_FINITE: Final = Domain(-1e12, 1e12)
_MASS: Final = Domain(0.0, 1.0)


class LossDistribution:
    """The privacy loss of one release in one direction, as a certified pair of measures on a grid.

    **Guarantee.** `upper` has a delta that is at least the true one at every real epsilon, `lower` one that is at most
    the true one; so have their compositions.  Rounding is included, under IEEE arithmetic with exp, expm1, log1p good
    to 4 ulp.  The other direction (and the other neighbouring relation) is another `LossDistribution`: compose the two
    separately, and take the maximum of the results.

    Attributes
    ----------
    spacing : float
        Distance of neighbouring losses.
    upper, lower : GridMeasure
        Masses of the losses `origin` + i `spacing`, and `infinite`, the mass of an infinite loss.

    Examples
    --------
    >>> from fastacct.pld import LossDistribution
    >>> laplace = LossDistribution.from_laplace(noise_multiplier=2.0)
    >>> lower, upper, status = laplace.self_compose(5).delta(1.0)
    >>> lower <= 0.145315612763074 <= upper <= lower * 1.001
    True
    """

    def __init__(self, upper: Source, lower: Source, spacing: float | None = None) -> None:
        self.upper_source = upper
        self.lower_source = lower
        self.spacing = _default_spacing(upper) if spacing is None else as_number("spacing", spacing, POSITIVE)

    @classmethod
    def from_pmf(cls, p: Any, q: Any, *, spacing: float | None = None) -> LossDistribution:
        """Two finite distributions on the same outcomes: the loss of outcome i is log(p[i] / q[i]), infinite where
        q[i] = 0 < p[i].

        The probabilities are taken as they are, not normalised.

        Examples
        --------
        >>> coin = LossDistribution.from_pmf([0.75, 0.25], [0.25, 0.75])
        >>> round(coin.delta(0.5).upper, 6)
        0.33782
        """
        p, q = _vector("p", p), _vector("q", q)
        if p.size != q.size:
            raise ValueError(f"p and q must have one length, not {p.size} and {q.size}")
        for name, values in (("p", p), ("q", q)):
            _refuse_total(name, values)
        finite = (p > 0.0) & (q > 0.0)
        loss = np.log(p[finite]) - np.log(q[finite])
        error = ROUNDING * (8.0 + 4.0 * (np.abs(np.log(p[finite])) + np.abs(np.log(q[finite]))))
        near = (p[finite] < 2.0 * q[finite]) & (q[finite] < 2.0 * p[finite])
        with np.errstate(divide="ignore"):  # of no use there
            small = np.log1p((p[finite] - q[finite]) / q[finite])
        loss, error = np.where(near, small, loss), np.where(near, 8.0 * ROUNDING * np.abs(small), error)
        return cls._of_atoms(loss, error, p[finite], p[(p > 0.0) & (q == 0.0)], None, spacing)

    @classmethod
    def from_losses(
        cls, loss: Any, mass: Any, *, infinite_mass: float = 0.0, spacing: float | None = None
    ) -> LossDistribution:
        """A finite distribution of losses under P; losses of infinity count as `infinite_mass`."""
        losses, masses = np.atleast_1d(as_cells("loss", loss, _ANY)), _vector("mass", mass)
        if losses.shape != masses.shape:
            raise ValueError(f"loss and mass must have one length, not {losses.shape} and {masses.shape}")
        if (losses == -np.inf).any():
            raise ValueError("loss = -inf has mass under Q only; leave it out")
        infinite = as_number("infinite_mass", infinite_mass, _MASS)
        _refuse_total("mass", np.append(masses, infinite))
        finite = np.isfinite(losses) & (masses > 0.0)
        rest = np.append(masses[losses == np.inf], infinite)
        return cls._of_atoms(losses[finite], np.zeros(int(finite.sum())), masses[finite], rest, None, spacing)

    @classmethod
    def from_gaussian_pair(cls, noise_multiplier: float, *, spacing: float | None = None) -> LossDistribution:
        """N(1, sigma^2) against N(0, sigma^2); both directions are alike."""
        return cls.from_mixture(noise_multiplier, [1.0], [1.0], [1.0], [0.0], spacing=spacing)

    @classmethod
    def from_sampled_gaussian(
        cls, noise_multiplier: float, sample_rate: float, direction: str, *, spacing: float | None = None
    ) -> LossDistribution:
        """One step of the Poisson-sampled Gaussian mechanism: "remove" is the sampled mixture against the Gaussian,
        "add" the Gaussian against the mixture.
        """
        q = as_number("sample_rate", sample_rate, _MASS)
        if as_choice("direction", direction, DIRECTIONS) == "remove":
            return cls.from_mixture(noise_multiplier, [1.0 - q, q], [0.0, 1.0], [1.0], [0.0], spacing=spacing)
        return cls.from_mixture(noise_multiplier, [1.0], [0.0], [1.0 - q, q], [0.0, -1.0], spacing=spacing)

    @classmethod
    def from_mixture(
        cls,
        noise_multiplier: float,
        p_weights: Any,
        p_means: Any,
        q_weights: Any,
        q_means: Any,
        *,
        spacing: float | None = None,
    ) -> LossDistribution:
        """Mixtures of Gaussians with one standard deviation: sum of p_weights N(p_means, sigma^2) against that of q.

        The loss must increase with the output: p_weights[m] / q_weights[m] must not decrease in the mean m (it is
        refused otherwise).  The weight of the mean that is heaviest in Q is taken as one minus the others.
        """
        sigma = as_number("noise_multiplier", noise_multiplier, POSITIVE)
        p, q = _mixing("p", p_weights, p_means), _mixing("q", q_weights, q_means)
        means = np.unique(np.array([m for one in (p, q) for m, weight in one.items() if weight > 0.0]))
        p_all, q_all = (np.array([one.get(float(m), 0.0) for m in means]) for one in (p, q))
        if np.array_equal(p_all, q_all) or math.isinf(sigma):
            return cls._of_atoms(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1.0, spacing)
        # likelihood ratio order of the weights, hence of the mixtures (the normal kernel is totally positive)
        cross = p_all[None, :] * q_all[:, None]
        if (np.triu(cross.T - cross, 1) > 0.0).any():
            raise ValueError("the loss must increase with the output: p_weights / q_weights decreases in the mean")
        reference = int(np.argmax(q_all))
        for weights in (p_all, q_all):
            weights[reference] = max(0.0, 1.0 - math.fsum(np.delete(weights, reference)))
        source = GaussianMixtures(sigma, means, p_all, q_all, reference)
        return cls(source, source, spacing)

    @classmethod
    def from_laplace(cls, noise_multiplier: float, *, spacing: float | None = None) -> LossDistribution:
        """Laplace noise with scale `noise_multiplier` times the sensitivity; both directions are alike."""
        scale = as_number("noise_multiplier", noise_multiplier, POSITIVE)
        if 1.0 / scale < 1e-300:  # between nothing and a little more than there is
            nothing = cls._of_atoms(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1.0, spacing)
            return cls(cls.from_pure(1e-300).upper_source, nothing.lower_source, spacing)
        source = LaplaceLoss(1.0 / scale, slack=2.0 * ROUNDING / scale)
        return cls(source, source, spacing)

    @classmethod
    def from_pure(cls, epsilon: float, *, spacing: float | None = None) -> LossDistribution:
        """Anything that is epsilon-DP: dominated by randomised response, which is one."""
        return cls.from_epsilon_delta(epsilon, 0.0, spacing=spacing)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float, *, spacing: float | None = None) -> LossDistribution:
        """Anything that is (epsilon, delta)-DP: the pair that dominates all of them (Kairouz, Oh, Viswanath 2015)."""
        eps, rest = as_number("epsilon", epsilon), as_number("delta", delta)
        if math.isinf(eps) or rest == 1.0:
            return cls._of_atoms(np.zeros(0), np.zeros(0), np.zeros(0), np.ones(1), None, spacing)
        if eps == 0.0:
            loss, share = np.zeros(1), np.ones(1)
        else:
            loss = np.array([-eps, eps])
            share = np.array([math.exp(-eps), 1.0]) / (1.0 + math.exp(-eps))
        lattice, none = 2.0 * eps or 1.0, np.zeros_like(loss)
        return cls._of_atoms(loss, none, (1.0 - rest) * share, np.array([rest]), lattice, spacing, 6.0)

    @classmethod
    def _of_atoms(
        cls,
        loss: Cells,
        error: Cells,
        mass: Cells,
        infinite: Cells,
        lattice: float | None,
        spacing: float | None,
        ulps: float = 0.0,
    ) -> LossDistribution:
        """Atoms with masses good to `ulps`."""
        infinite = infinite[infinite > 0.0]
        sides = []
        for sign in (1.0, -1.0):
            rest = math.fsum(infinite) * (1.0 + sign * 2.0 * ROUNDING * (infinite.size > 1))
            sides.append(Atoms(loss, error, mass * (1.0 + sign * ulps * ROUNDING), min(rest, 1.0), 0.0, lattice))
        return cls(sides[0], sides[1], spacing)

    @classmethod
    def from_grids(cls, upper: GridMeasure, lower: GridMeasure) -> LossDistribution:
        """Measures that are known to bound a loss from above and from below, on one spacing."""
        if upper.spacing != lower.spacing:
            raise ValueError(f"upper and lower have different spacings, {upper.spacing!r} and {lower.spacing!r}")
        made = cls(as_source(upper), as_source(lower), upper.spacing)
        made.__dict__.update(upper=upper, lower=lower)
        return made

    @cached_property
    def upper(self) -> GridMeasure:
        """The measure that bounds from above."""
        return upper_measure(self.upper_source, self.spacing, 0.0)

    @cached_property
    def lower(self) -> GridMeasure:
        """The measure that bounds from below."""
        return lower_measure(self.lower_source, self.spacing, 0.0)

    def at_spacing(self, spacing: float) -> LossDistribution:
        """The same loss on another grid (from the original description, where there is one)."""
        return LossDistribution(self.upper_source, self.lower_source, spacing)

    def delta(self, epsilon: Any) -> Bounds:
        """Bounds of delta at any real epsilon; arrays in, arrays out."""
        cells = as_cells("epsilon", epsilon, _ANY)
        lower, upper = np.empty(cells.shape), np.empty(cells.shape)
        for i in np.ndindex(cells.shape):
            upper[i] = grid_delta(self.upper, float(cells[i]), True)
            lower[i] = min(grid_delta(self.lower, float(cells[i]), False), float(upper[i]))
        return as_bounds(lower, upper, np.zeros(cells.shape, dtype=np.uint8))

    def epsilon(self, delta: Any) -> Bounds:
        """Bounds of the smallest epsilon >= 0 with at most this delta; arrays in, arrays out."""
        cells = as_cells("delta", delta)
        lower, upper = np.zeros(cells.shape), np.zeros(cells.shape)
        for i in np.ndindex(cells.shape):
            upper[i] = grid_epsilon(self.upper, float(cells[i]), True)
            lower[i] = min(grid_epsilon(self.lower, float(cells[i]), False), float(upper[i]))
        return as_bounds(lower, upper, np.where(np.isinf(upper), Status.NOT_MET, Status.TIGHT).astype(np.uint8))

    def self_compose(self, n: int, *, smallest: float = 1e-30) -> LossDistribution:
        """`n` independent (or adaptive) releases.

        Several exponential tilts are stitched together, such that delta keeps its relative accuracy from 1 down to
        `smallest`; below it the bounds still hold.
        """
        return self._composed([(self, int(as_number("n", n, COUNT)))], smallest)

    def compose(self, other: LossDistribution, *, smallest: float = 1e-30) -> LossDistribution:
        """This release and another one, on the same spacing."""
        return self._composed([(self, 1), (other, 1)], smallest)

    @staticmethod
    def _composed(parts: Sequence[tuple[LossDistribution, int]], smallest: float) -> LossDistribution:
        smallest = as_number("smallest", smallest, SHARE)
        spacing = parts[0][0].spacing
        if any(part.spacing != spacing for part, _ in parts):
            raise ValueError("compose needs one spacing; use at_spacing, or compose_bounds")
        if not any(count for _, count in parts):
            nothing = GridMeasure(0.0, spacing, np.ones(1))
            return LossDistribution.from_grids(nothing, nothing)
        return LossDistribution.from_grids(
            stitched(Composition([(part.upper, count) for part, count in parts], True), smallest),
            stitched(Composition([(part.lower, count) for part, count in parts], False), smallest),
        )


def as_number(name: str, value: Any, domain: Domain | None = None) -> float:
    """One checked number; arrays are refused."""
    cell = as_cells(name, value, domain)
    if cell.ndim:
        raise TypeError(f"{name} must be one number, not an array of shape {cell.shape}")
    return float(cell)


def _vector(name: str, values: Any) -> Cells:
    array = np.atleast_1d(as_cells(name, values, _MASS))
    if array.ndim != 1:
        raise TypeError(f"{name} must be one-dimensional, not of shape {array.shape}")
    return array


def _refuse_total(name: str, values: Cells) -> None:
    total = math.fsum(values)
    if total > 1.0 + 1e-9:
        raise ValueError(f"{name} sums to {total!r}; allowed: at most 1")


def _mixing(name: str, weights: Any, means: Any) -> dict[float, float]:
    weight = _vector(f"{name}_weights", weights)
    mean = np.atleast_1d(as_cells(f"{name}_means", means, _FINITE))
    if weight.shape != mean.shape:
        raise ValueError(f"{name}_weights and {name}_means must have one length, not {weight.size} and {mean.size}")
    if abs(math.fsum(weight) - 1.0) > 1e-9:
        raise ValueError(f"{name}_weights sum to {math.fsum(weight)!r}; they must sum to 1")
    mixed: dict[float, float] = {}
    for one, share in zip(mean.tolist(), weight.tolist(), strict=True):
        mixed[one + 0.0] = mixed.get(one + 0.0, 0.0) + share
    return mixed


def _default_spacing(source: Source) -> float:
    """A fiftieth of the standard deviation, or what atoms share; at most 2^18 points."""
    if source.lattice is not None and source.quadrature == 0.0:
        return source.lattice
    sketch = weighted(source, 1)
    if not sketch[1].size:
        return 1.0
    low, high = source.extent(0.0)
    spacing = max(math.sqrt(log_moment([sketch], 0.0).variance) / 50.0, (high - low) / 2.0**18)
    if source.lattice is not None and spacing > 0.0:
        return source.lattice / math.ceil(source.lattice / spacing)
    return spacing or 1.0


def as_bounds(lower: Cells, upper: Cells, status: Codes) -> Bounds:
    """Plain numbers for arrays without dimensions."""
    return Bounds(unwrap(lower), unwrap(upper), int(status[()]) if status.ndim == 0 else status)
