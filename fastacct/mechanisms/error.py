"""Accuracy of a release: the distribution of its error, as data.

Each mechanism says its own in its file (`error_law`).  Errors are in units of one record's contribution, as noise
multipliers are, or in the unit of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import import_extra
from fastacct.core.html import table
from fastacct.core.inputs import COUNT, POSITIVE, Cells, Domain, Floats, Reals, as_cells, as_number, unwrap
from fastacct.core.record import Record
from fastacct.core.words import hinting

_PROBABILITY: Final = Domain(0.0, 1.0, open_low=True)
_THRESHOLD: Final = Domain(0.0, math.inf)


class ErrorLaw(Record):
    """The distribution of an error: its mean square, the probability that it is larger than t, and its quantiles.

    Made by `fastacct.utility`.  `is_exact` says whether all three are exact or bounds from above.

    Examples
    --------
    >>> import fastacct as fa
    >>> error = fa.utility(fa.Laplace(2.0), dimension=10)
    >>> error.mean_square, round(error.tail(10.0), 3), round(error.quantile(0.05), 2)
    (80.0, 0.065, 10.55)
    """

    mean_square: float | Floats
    """Expected square of the error, of a vector the sum over its coordinates; NaN for the margin of a threshold."""
    of: str
    """What the error is."""
    tail_of: Callable[[Cells], Cells]
    published: Callable[[float], float] | None = None
    """The quantile at beta, a number in (0, 1), by the published theorem, if there is one: not below `quantile(beta)`
    but for rounding."""
    is_exact: bool = True
    source: str = ""
    if not TYPE_CHECKING:
        __getattr__ = hinting({})

    def __repr__(self) -> str:
        return f"ErrorLaw({self.of!r}, {self.root_mean_square!r}, {'exact' if self.is_exact else 'a bound'})"

    def _repr_html_(self) -> str:
        rows = [(f"quantile({beta})", self.quantile(beta)) for beta in (0.5, 0.05)]
        return table(repr(self), rows)

    @property
    def root_mean_square(self) -> float | Floats:
        """The square root of `mean_square`."""
        return unwrap(np.sqrt(np.asarray(self.mean_square)))

    def tail(self, t: Reals) -> float | Floats:
        """Probability that the error is larger than t, t at least 0; t broadcasts."""
        return unwrap(np.asarray(self.tail_of(as_cells("t", t, _THRESHOLD))))

    def quantile(self, beta: Reals) -> float | Floats:
        """The smallest error that is exceeded with probability at most beta, beta in (0, 1]; it broadcasts."""
        cells = as_cells("beta", beta, _PROBABILITY)
        shape = np.broadcast_shapes(cells.shape, np.shape(self.tail_of(np.asarray(0.0))))
        wanted, low, high = np.broadcast_to(cells, shape), np.zeros(shape), np.ones(shape)
        while (missed := self.tail_of(high) > wanted).any() and (high < 1e300).all():
            low, high = np.where(missed, high, low), np.where(missed, 2.0 * high, high)
        for _ in range(1100):  # to neighbouring floats; the tail falls
            middle = 0.5 * (low + high)
            if np.all((middle == low) | (middle == high)):
                break
            above = self.tail_of(middle) > wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        found = np.where(self.tail_of(high) > wanted, np.inf, high)  # a law that does not fall
        return unwrap(np.where(self.tail_of(np.zeros(shape)) <= wanted, 0.0, found))

    def scaled(self, by: float) -> ErrorLaw:
        """The distribution of the error multiplied by a positive number."""
        by = as_number("by", by, POSITIVE)
        square, published = unwrap(np.asarray(self.mean_square) * (by * by)), self.published
        moved = None if published is None else lambda beta: by * published(beta)
        return replace(self, mean_square=square, tail_of=lambda t: self.tail_of(t / by), published=moved)


def as_dimension(dimension: float) -> int:
    """The number of coordinates that are released."""
    return int(as_number("dimension", dimension, COUNT))


def additive(
    variance: float | Floats,
    tail: Callable[[Cells], Cells],
    dimension: float,
    published: Callable[[float], float] | None = None,
    source: str = "",
) -> ErrorLaw:
    """Independent noise on each of `dimension` coordinates, `tail` the distribution of one."""
    d = as_dimension(dimension)

    def of_largest(t: Cells) -> Cells:  # 1 - (1 - tail)^d
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(d * np.log1p(-np.minimum(tail(t), 1.0))))

    what = "largest absolute error of a coordinate" if d > 1 else "absolute error"
    return ErrorLaw(d * variance, what, of_largest, published, source=source)


_erfc: Final = np.vectorize(math.erfc, otypes=[np.float64])


def gaussian(deviation: float, dimension: float = 1, terms: Reals = 1) -> ErrorLaw:
    """Gaussian noise with a standard deviation on each coordinate, or sums of so many independent terms of it."""
    count = np.asarray(terms, dtype=np.float64)
    total = deviation * np.sqrt(count)

    def tail(t: Cells) -> Cells:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(_erfc(np.where(total > 0.0, t / total * math.sqrt(0.5), np.inf)))

    with np.errstate(over="ignore"):
        return additive(unwrap(np.float64(deviation) ** 2 * count), tail, dimension)


def sum_of_laplace(scale: float, terms: NDArray[np.int64]) -> ErrorLaw:
    """The sum of so many independent Laplace variables: differences of two Gamma variables, all terms positive."""

    def one(t: Cells, k: int) -> Cells:
        x = np.asarray(t / scale)
        total = np.zeros(x.shape)
        for j in range(k):  # density: exp(-x) times a polynomial; the tail of each power is a finite sum
            power = k - 1 - j
            log_weight = math.lgamma(k + j) - math.lgamma(j + 1) - math.lgamma(power + 1) - math.lgamma(k)
            term, inner = np.ones(x.shape), np.ones(x.shape)
            for i in range(1, power + 1):
                term = term * x / i
                inner = inner + term
            total += math.exp(log_weight - (k + j - 1) * math.log(2.0) + math.lgamma(power + 1)) * inner
        with np.errstate(invalid="ignore"):
            return np.where(x < 700.0, total * np.exp(-np.minimum(x, 700.0)), 0.0) if k else np.zeros(x.shape)

    def tail(t: Cells) -> Cells:
        wide, counts = np.broadcast_arrays(np.asarray(t, np.float64), terms)
        found = np.zeros(wide.shape)
        for k in np.unique(counts).tolist():
            found[counts == k] = one(wide[counts == k], int(k))
        return np.minimum(found, 1.0)

    return ErrorLaw(unwrap(np.asarray(2.0 * scale * scale * terms, dtype=np.float64)), "absolute error", tail)


def sum_of_norms(scale: float, dimension: int, terms: NDArray[np.int64]) -> ErrorLaw:
    """Of a sum of so many independent vectors with densities exp(-|y|_2/scale): each norm is Gamma distributed with
    shape d, and the norm of the sum at most the sum of the norms."""
    upper = import_extra("scipy.special", "pld").gammaincc

    def tail(t: Cells) -> Cells:
        size = t / scale if scale > 0.0 else np.full(np.shape(t), np.inf)
        return np.asarray(np.where(np.asarray(terms) > 0, upper(np.maximum(terms, 1) * dimension, size), 0.0))

    square = scale * scale * dimension * (dimension + 1.0) * np.asarray(terms, dtype=np.float64)
    return ErrorLaw(unwrap(square), "Euclidean norm of the error", tail, is_exact=bool(np.all(terms <= 1)))


def from_table(errors: Cells, probabilities: Cells, of: str, published: Callable[[float], float] | None) -> ErrorLaw:
    """A finite distribution."""
    order = np.argsort(errors, kind="stable")
    sizes, mass = errors[order], probabilities[order]
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)  # small ones first
    with np.errstate(over="ignore"):
        square = math.fsum(mass[mass > 0.0] * sizes[mass > 0.0] ** 2)
    return ErrorLaw(square, of, lambda t: above[np.searchsorted(sizes, t, side="right")], published)


def as_scores(scores: Sequence[float]) -> Cells:
    """What each outcome scores, in units of the sensitivity: how far below the best."""
    cells = np.atleast_1d(as_cells("scores", scores, Domain(-1e300, 1e300)))
    if cells.ndim != 1 or cells.size < 2:
        raise ValueError(f"scores must be a sequence of at least two numbers; got shape {cells.shape}")
    return np.asarray(cells.max() - cells)


def as_law(law: object) -> ErrorLaw:
    """What an error is asked of, checked."""
    if not isinstance(law, ErrorLaw):
        raise TypeError(f"with error=, build must return an error such as fastacct.utility(mechanism), not {law!r}")
    return law


def root_mean_square(law: ErrorLaw) -> float | Cells:
    """Where there is one."""
    if np.isnan(law.mean_square).any():
        raise ValueError(f"the {law.of} has no mean square: give beta, the probability of a larger one")
    return law.root_mean_square
