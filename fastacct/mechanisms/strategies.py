"""Matrix mechanisms: Gaussian noise on C x, x the contributions of all steps, C the strategy."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from fastacct.core.inputs import COUNT, NONNEGATIVE, Cells, Domain, Reals, as_cells, as_number, check_memory, unwrap
from fastacct.core.relations import SAMPLED, Relation
from fastacct.losses.loss import Apart, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, parameter
from fastacct.mechanisms.gaussian import Gaussian

_UNIT: Final = 2.0**-52
_SQUARE: Final = Domain(0.0, 1e300)
_BINS: Final = Domain(1.0, 4096.0, integer=True)
_NO_GROUP: Final = "its members may share a bin or not"
_NO_SAMPLE: Final = "its records are drawn already"


def as_strategy(strategy: ArrayLike, steps: int | None = None) -> tuple[Cells, float]:
    """A strategy matrix over its largest entry, and that; from its coefficients, where it is a Toeplitz matrix."""
    if np.iscomplexobj(strategy) or np.ma.isMaskedArray(strategy) or np.asarray(strategy).dtype.kind not in "fiu":
        raise TypeError("strategy must be an array of real numbers, without a mask")
    check_memory(np.shape(strategy), name="strategy")
    given = np.asarray(strategy, dtype=np.float64)
    if given.ndim == 1 and steps is None:
        raise TypeError("strategy is 1-D, coefficients of a Toeplitz matrix: give steps, too")
    if given.ndim not in (1, 2) or not given.size or not np.isfinite(given).all():
        raise ValueError(f"strategy must be a 1-D or 2-D array of finite numbers, not of shape {given.shape}")
    most = float(np.abs(given).max())
    given = given / most if most > 0.0 else given  # squares of what is left are numbers
    if given.ndim == 2:
        if steps not in (None, given.shape[1]):
            raise ValueError(f"steps = {steps!r}: the strategy has {given.shape[1]} columns")
        return given, most
    n = int(as_number("steps", steps, COUNT))
    below = np.subtract.outer(np.arange(n), np.arange(n))
    first = np.concatenate([given[:n], np.zeros(max(0, n - given.size))])
    return np.where(below >= 0, first[np.abs(below)], 0.0), most


class MatrixGaussian(Mechanism, relations=SAMPLED, no_group=_NO_GROUP, no_sample=_NO_SAMPLE):
    """A whole run of a matrix mechanism (DP-FTRL with a strategy C) on random bins; made by `from_strategy`.

    Each record is in one of `bins`, drawn uniformly, and takes part in the steps i, i + bins, ... of its bin i.

    **Guarantee.** An interval, by the inner products of the bins' sums of columns, none of them negative.  With all of
    them equal the run is a Gaussian beside a random allocation; the curve grows with each of them (Kahane 1985).  From
    above every bin may also be said to be in one of several classes, in which inner products are smaller.  For
    contributions that do not depend on earlier outputs, or all point in one direction.  Records that are not drawn at
    random have `Gaussian(noise / sensitivity.matrix(...))`.
    Source: docs/algorithms/batches.md; the sampler: Choquette-Choo, Ganesh et al. 2024.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.MatrixGaussian.from_strategy([1.0, 0.5, 0.375], noise_multiplier=4.0, bins=20, steps=100)
    >>> lower, upper, _ = fa.epsilon_bounds(run, delta=1e-6)
    >>> round(lower, 4), round(upper, 4)
    (0.7311, 1.645)
    """

    own: tuple[float, float]
    """Least and largest square of the norm of a bin's sum of columns."""
    classes: tuple[tuple[int, float], ...]
    """For ways to split them into classes, how many are in the smallest one, and the largest inner product inside."""
    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Standard deviation over the norm of a contribution.")
    bins: int = constant(_BINS, about="Above the number of steps some have none.")
    shared: float = constant(_SQUARE, about="Least inner product of two bins' sums of columns.")

    @classmethod
    def from_strategy(
        cls, strategy: ArrayLike, noise_multiplier: Reals, *, bins: int, steps: int | None = None
    ) -> MatrixGaussian:
        """Of a 2-D array, or of a 1-D array with the coefficients of a lower triangular Toeplitz matrix of `steps`."""
        c, most = as_strategy(strategy, steps)
        b = int(as_number("bins", bins, _BINS))  # above the number of steps, some have none
        modes = np.stack([c[:, i::b].sum(axis=1) for i in range(b)], axis=1)
        inner, off = modes.T @ modes, 4.0 * (c.shape[1] + len(c)) * _UNIT * (np.abs(modes).T @ np.abs(modes))
        if c.min() < 0.0 and (c.T @ c < -4.0 * len(c) * _UNIT * (np.abs(c).T @ np.abs(c))).any():
            raise ValueError("strategy has columns with a negative inner product: no bound is known with random bins")
        low, high = np.maximum(inner - off, 0.0) * most * most, (np.maximum(inner, 0.0) + off) * most * most
        apart = np.array([high.diagonal(n).max() for n in range(1, b)])  # of bins so far apart
        classes: list[tuple[int, float]] = []
        for n in range(1, b + 1):
            most_shared = float(apart[n - 1 :: n].max(initial=0.0))
            if not classes or most_shared < classes[-1][1]:
                classes.append((b // n, most_shared))
        shared = min((float(low.diagonal(n).min()) for n in range(1, b)), default=0.0)
        ends = float(low.diagonal().min()), float(high.diagonal().max())
        return cls(ends, tuple(classes), noise_multiplier, b, shared)

    def __post_init__(self) -> None:
        super().__post_init__()
        own, classes = as_cells("own", self.own, _SQUARE), _rows("classes", self.classes)
        if own.shape != (2,) or own[0] > own[1]:
            raise ValueError(f"own = {self.own!r} must be the least and the largest square of a norm, in this order")
        sizes = as_cells("size of classes", classes[:, 0], Domain(1.0, float(self.bins), integer=True)).astype(int)
        shared = as_cells("inner product of classes", classes[:, 1], _SQUARE)
        if (low := (sizes > 1) & (shared < self.shared)).any():
            raise ValueError(
                f"classes[{int(low.argmax())}] has inner products below shared = {self.shared!r}, the least"
            )
        object.__setattr__(self, "own", tuple(own.tolist()))
        object.__setattr__(self, "classes", tuple(zip(sizes.tolist(), shared.tolist(), strict=True)))

    def decompose(self, relation: Relation) -> Process:
        """What all bins share, and the rest of each; the classes that are best at each noise multiplier."""
        noise = np.asarray(self.noise_multiplier)
        best = {sigma: min(self.classes, key=partial(self._second_order, sigma)) for sigma in set(noise.flat)}
        chosen = np.array([best[sigma] for sigma in noise.flat]).reshape(*noise.shape, 2)
        size, most, least = unwrap(chosen[..., 0]), chosen[..., 1], np.asarray(min(self.shared, self.own[0]))
        together = self._between(least, most)
        alone = self._between(
            np.maximum(0.0, self.own[0] - least), np.maximum(0.0, self.own[1] - most) * (1.0 + 4.0 * _UNIT)
        )
        above, below = (one.allocation(n) for one, n in zip(alone, (size, self.bins), strict=True))
        return Process({_Between(*together): 1, _Between(above, below): 1})

    def _second_order(self, sigma: float, one: tuple[int, float]) -> float:
        """The Rényi divergence of order 2 of that bound, about, at this noise multiplier."""
        size, shared = one
        noise = min(max(float(sigma), 1e-3), 1e6)
        inverse = 1.0 / (noise * noise)
        alone = inverse * max(0.0, self.own[1] - shared)
        return inverse * shared + (math.log1p(math.expm1(alone) / size) if alone < 700.0 else alone - math.log(size))

    def _between(self, least: Cells, most: Cells) -> tuple[Gaussian, Gaussian]:
        """From above and below, for squares of the sensitivity."""
        ends = np.sqrt(most) * (1.0 + 4.0 * _UNIT), np.sqrt(least) * (1.0 - 4.0 * _UNIT)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            noise = [np.where(end > 0.0, np.asarray(self.noise_multiplier) / end, math.inf) for end in ends]
        above, below = (Gaussian(unwrap(one)) for one in noise)
        return above, below


def _rows(name: str, value: object) -> Cells:
    """A table of pairs of numbers."""
    listed = value if isinstance(value, np.ndarray) or not isinstance(value, tuple | list) else list(value)
    rows = as_cells(name, listed, Domain(0.0, math.inf))
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"{name} = {value!r} must be pairs of a number of bins and an inner product")
    return rows


class _Between(Mechanism, relations=SAMPLED):
    """What is no better than one mechanism, and no worse than another one."""

    above: Mechanism
    below: Mechanism

    def losses(self, relation: Relation) -> Pair | None:
        above, below = self.above.losses(relation), self.below.losses(relation)
        if above is None or below is None or above.is_nothing:
            return above
        return Apart(above, below)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.above.divergence(orders, relation)

    def pure_epsilon(self, relation: Relation) -> float:
        return self.above.pure_epsilon(relation)

    def concentration(self, relation: Relation) -> float:
        return min(one.concentration(relation) for one in (self.above, self.above.unsampled()))
