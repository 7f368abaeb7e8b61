"""The privacy loss of one release, as a certified pair of measures on a grid, and where it can come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.engine import status_of
from fastacct.core.inputs import Cells, Codes, Domain, as_cells, as_choice, as_number, unwrap
from fastacct.core.kept import cached
from fastacct.losses.atoms import epsilon_delta, exact_atoms, table
from fastacct.losses.density import laplace_bracket
from fastacct.losses.loss import Bracket
from fastacct.losses.measure import (
    GridMeasure,
    as_source,
    default_spacing,
    lower_measure,
    upper_measure,
)
from fastacct.losses.mixture import mixture_bracket
from fastacct.readers.grid.composition import Composition
from fastacct.readers.grid.parts import Part
from fastacct.readers.grid.reader import Grid
from fastacct.readers.grid.stitching import stitched
from fastacct.readers.grid.window import Window

__all__ = ["LossDistribution", "compose_bounds"]

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

    def __init__(self, bracket: Bracket, spacing: float | None = None) -> None:
        self.bracket = bracket
        self.spacing = default_spacing(bracket.upper) if spacing is None else as_number("spacing", spacing, POSITIVE)

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
        return cls(table(p, q), spacing)

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
        return cls(exact_atoms(losses[finite], np.zeros(int(finite.sum())), masses[finite], rest, None), spacing)

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
        return cls(mixture_bracket(sigma, p, q), spacing)

    @classmethod
    def from_laplace(cls, noise_multiplier: float, *, spacing: float | None = None) -> LossDistribution:
        """Laplace noise with scale `noise_multiplier` times the sensitivity; both directions are alike."""
        scale = as_number("noise_multiplier", noise_multiplier, POSITIVE)
        return cls(laplace_bracket(scale), spacing)

    @classmethod
    def from_pure(cls, epsilon: float, *, spacing: float | None = None) -> LossDistribution:
        """Anything that is epsilon-DP: dominated by randomised response, which is one."""
        return cls.from_epsilon_delta(epsilon, 0.0, spacing=spacing)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float, *, spacing: float | None = None) -> LossDistribution:
        """Anything that is (epsilon, delta)-DP: the pair that dominates all of them (Kairouz, Oh, Viswanath 2015)."""
        eps, rest = as_number("epsilon", epsilon), as_number("delta", delta)
        return cls(epsilon_delta(eps, rest), spacing)

    @classmethod
    def from_grids(cls, upper: GridMeasure, lower: GridMeasure) -> LossDistribution:
        """Measures that are known to bound a loss from above and from below, on one spacing."""
        if upper.spacing != lower.spacing:
            raise ValueError(f"upper and lower have different spacings, {upper.spacing!r} and {lower.spacing!r}")
        made = cls(Bracket(as_source(upper), as_source(lower)), upper.spacing)
        made.__dict__.update(upper=upper, lower=lower)
        return made

    @cached
    def upper(self) -> GridMeasure:
        """The measure that bounds from above."""
        return upper_measure(self.bracket.upper, self.spacing, 0.0)

    @cached
    def lower(self) -> GridMeasure:
        """The measure that bounds from below."""
        return lower_measure(self.bracket.lower, self.spacing, 0.0)

    def at_spacing(self, spacing: float) -> LossDistribution:
        """The same loss on another grid (from the original description, where there is one)."""
        return LossDistribution(self.bracket, spacing)

    def delta(self, epsilon: Any) -> Bounds:
        """Bounds of delta at any real epsilon; arrays in, arrays out."""
        cells = np.clip(as_cells("epsilon", epsilon, _ANY), -1e300, 1e300)
        return self._read(cells, lambda window, target: window.delta(target))

    def epsilon(self, delta: Any) -> Bounds:
        """Bounds of the smallest epsilon >= 0 with at most this delta; arrays in, arrays out."""
        return self._read(as_cells("delta", delta), lambda window, target: window.epsilon(target))

    @cached
    def _windows(self) -> tuple[Window, Window]:
        return Window.of(self.upper, True), Window.of(self.lower, False)

    def _read(self, cells: Cells, ask: Callable[[Window, float], float]) -> Bounds:
        upper, lower = (
            np.array([ask(one, target) for target in cells.ravel().tolist()]).reshape(cells.shape)
            for one in self._windows
        )
        lower = np.minimum(lower, upper)
        return _as_bounds(lower, upper, status_of(lower, upper))

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


def compose_bounds(
    parts: Iterable[tuple[LossDistribution, int]],
    *,
    epsilon: Any = None,
    delta: Any = None,
    tolerance: float = 1e-3,
    spacing: float | None = None,
    max_points: int = 1 << 22,
) -> Bounds:
    """Bounds of delta at `epsilon`, or of epsilon at `delta`, for a composition of (release, count).

    **Guarantee.** lower <= truth <= upper, rounding included, for releases that are composed (adaptively) in one
    direction.  The grid is made for the question and refined until upper - lower <= tolerance * max(upper, 1e-290)
    (of epsilon: tolerance * max(upper, 1e-6)), or as far as `max_points` points per convolution suffice.

    Parameters
    ----------
    parts : iterable of (LossDistribution, int)
        The order does not matter; (a, 3) is (a, 1), (a, 1), (a, 1).
    epsilon, delta : float or array, one of them
        The target: epsilon in [0, inf], delta in [0, 1].
    tolerance : float in (0, 1)
    spacing : float, optional
        Use this grid instead.
    max_points : int

    Examples
    --------
    >>> from fastacct.pld import LossDistribution, compose_bounds
    >>> step = LossDistribution.from_sampled_gaussian(1.0, 0.01, "remove")
    >>> lower, upper, status = compose_bounds([(step, 1000)], delta=1e-12)
    >>> lower <= 3.91429815603747 <= upper <= 1.001 * lower
    True
    """
    if (epsilon is None) == (delta is None):
        raise TypeError("give either epsilon or delta")
    name, target = ("epsilon", epsilon) if delta is None else ("delta", delta)
    query = Grid(
        _parts(parts),
        as_number("tolerance", tolerance, SHARE),
        None if spacing is None else as_number("spacing", spacing, POSITIVE),
        int(as_number("max_points", max_points, Domain(16.0, 2.0**26, integer=True))),
    )
    cells = as_cells(name, target)
    lower, upper = np.empty(cells.shape), np.empty(cells.shape)
    status = np.empty(cells.shape, dtype=np.uint8)
    ask = query.delta if delta is None else query.epsilon
    for i in np.ndindex(cells.shape):
        lower[i], upper[i], status[i] = ask(float(cells[i]))
    return _as_bounds(lower, upper, status)


def _parts(parts: Iterable[tuple[LossDistribution, int]]) -> list[Part]:
    made = []
    for i, part in enumerate(parts):
        if not isinstance(part, tuple | list) or len(part) != 2 or not isinstance(part[0], LossDistribution):
            raise TypeError(f"parts[{i}] must be (LossDistribution, count), not {part!r}")
        count = int(as_number(f"parts[{i}] count", part[1], COUNT))
        made.append(Part(part[0].bracket, count))
    return made


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


def _as_bounds(lower: Cells, upper: Cells, status: Codes) -> Bounds:
    """Plain numbers and a `Status` for arrays without dimensions."""
    return Bounds(unwrap(lower), unwrap(upper), status if status.ndim else Status(int(status)))
