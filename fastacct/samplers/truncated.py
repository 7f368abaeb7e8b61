"""The privacy loss of Gaussian noise on a Poisson batch of which at most so many records are kept.

Records are drawn with probability p each; of more than B, a random B are kept.  Whether at least B of the others were
drawn does not depend on the record, and is revealed: then (probability tau) the record that is drawn takes the place of
another one, as in a batch of fixed size, with probability p'; else the sample is a Poisson sample.  With n records,

    tau = P[Bin(n - 1, p) >= B],    p' = (B / n) P[Bin(n, p) > B] / tau.

From below: the other records contribute nothing, and the record is kept with probability (1 - tau) p + tau p'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Final, NamedTuple

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.core.rounding import float_above, float_below
from fastacct.losses.drawn import drawn
from fastacct.losses.loss import Apart, Pair
from fastacct.losses.mixture import Mixture
from fastacct.losses.mixture_moments import mixture_moments
from fastacct.losses.moments import drawn_moments
from fastacct.losses.panels import SMALLEST_WEIGHT, PiecesPair, replaced_pieces, sampled_pieces, symmetric_pieces
from fastacct.losses.pieces import Pieces
from fastacct.samplers.fixed_size import poisson_replaced, poisson_sampled

_MOST_TERMS: Final = 10**6
"""Of a tail, a few seconds."""
_TWO_PI: Final = Decimal("6.283185307179586476925286766559005768394338798750211641949889")
_DECIMALS_OFF: Final = Decimal(10) ** -25
"""Relative error of the probabilities, by far, before they are rounded to floats."""


class Truncation(NamedTuple):
    """What at most `at_most` records do to a Poisson sample; probabilities are good to an ulp."""

    tau: float
    """That at least as many of the others are drawn, rounded up."""
    rest: float
    """1 - tau, rounded up."""
    replaced: float
    """p', rounded up."""
    kept: float
    """Of a record to be kept at all, rounded down."""


@lru_cache(maxsize=1024)
def truncation(rate: float, at_most: int, records: int) -> Truncation:
    """For 0 < rate <= 1 and 1 <= at_most < records."""
    with localcontext(Context(prec=60, Emin=-(10**17), Emax=10**17)):
        p, b, n = Decimal(rate), Decimal(at_most), Decimal(records)
        tau, below, above = (Decimal(1), Decimal(0), Decimal(1)) if rate == 1.0 else _tails(records, rate, at_most)
        swapped = b / n * above / tau
        kept = below * p + tau * swapped
        taken, left, moved = (min(float_above(x * (1 + _DECIMALS_OFF)), 1.0) for x in (tau, below, swapped))
        return Truncation(taken, left, moved, float_below(kept * (1 - _DECIMALS_OFF)))


def _tails(records: int, rate: float, at_most: int) -> tuple[Decimal, Decimal, Decimal]:
    """P[Bin(n - 1, p) >= B], P[Bin(n - 1, p) < B] and P[Bin(n, p) > B], 0 < p < 1, by the smaller of the first two.

    Of n draws more than B are taken if more than B of n - 1 are, or B of them and the last one.
    """
    others, p, (some, of) = records - 1, Decimal(rate), rate.as_integer_ratio()
    if at_most > others * p:
        mass = _mass(others, p, at_most)
        beyond = mass * _ratios(others, some, of - some, at_most)
        return mass + beyond, 1 - (mass + beyond), beyond + p * mass
    left_out = _mass(others, 1 - p, others - at_most + 1)  # fewer taken: more that are not
    below = left_out * (1 + _ratios(others, of - some, some, others - at_most + 1))
    mass = left_out * p / (1 - p) * (others - at_most + 1) / at_most
    return 1 - below, below, 1 - below - (1 - p) * mass


def _ratios(n: int, some: int, others: int, k: int) -> Decimal:
    """P[Bin(n, p) > k] over P[Bin(n, p) = k], p/(1 - p) = some/others, k >= n p or about, in whole numbers of 2^-239 of
    its first term or less."""
    one = 1 << (240 + max(0, (others * (k + 1)).bit_length() - (some * max(n - k, 1)).bit_length()))
    total, term = 0, one
    for start in range(k, min(n, k + _MOST_TERMS), 16):
        for place in range(start, min(start + 16, n)):
            term = term * ((n - place) * some) // ((place + 1) * others)
            total += term
        ratio = (n - start) * some / ((start + 1) * others)  # of what is left to the last term it is less than this
        if ratio < 1.0 and term / total * ratio <= 1e-30 * (1.0 - ratio):
            return Decimal(total) / one
        if start == k and _is_far(n, some, others, k):
            raise _too_large(n, some / (some + others))
    if n - k > _MOST_TERMS:
        raise _too_large(n, some / (some + others))
    return Decimal(total) / one


def _too_large(n: int, p: float) -> ValueError:
    return ValueError(f"at_most and records are too large: about {n * p:.3g} records are drawn; allowed: 1e9")


def _is_far(n: int, some: int, others: int, k: int) -> bool:
    """Whether the last of so many terms is more than 1e-30 of the k-th: known before the others."""
    if k + _MOST_TERMS >= n:
        return False
    p, q = (Decimal(part) / (some + others) for part in (some, others))
    return _mass(n, p, k + _MOST_TERMS, q) > Decimal(10) ** -30 * _mass(n, p, k, q)


def _mass(n: int, p: Decimal, k: int, q: Decimal | None = None) -> Decimal:
    """P[Bin(n, p) = k], 0 < p < 1, by powers: those of Stirling's formula are whole."""
    q = 1 - p if q is None else q
    if min(k, n - k) < 400:
        return math.comb(n, k) * p**k * q ** (n - k)
    off = _stirling(n) - _stirling(k) - _stirling(n - k)
    return (n / (_TWO_PI * k * (n - k))).sqrt() * (n * p / k) ** k * (n * q / (n - k)) ** (n - k) * off.exp()


def _stirling(n: int) -> Decimal:
    """log n!, less log(sqrt(2 pi n) (n/e)^n), for n >= 400: the series' next term is below 1e-31."""
    terms = ((12, 1), (-360, 3), (1260, 5), (-1680, 7), (1188, 9))
    return sum((1 / (c * Decimal(n) ** power) for c, power in terms), Decimal(0))


class _Drawn(PiecesPair):
    """One of two samples of Gaussians, in sight of everyone, as data; its moments are those of the two."""

    def __init__(self, pieces: Pieces, parts: Sequence[tuple[float, Mixture]]) -> None:
        super().__init__(pieces)
        self._parts = parts

    def moments(self, s: Cells, *, is_add: bool) -> Cells:
        """Of all losses, those too that are no data because they hardly ever occur."""
        return drawn_moments([(weight, mixture_moments(mixture, s, is_add=is_add)) for weight, mixture in self._parts])


def _often(parts: list[tuple[float, Pieces]]) -> tuple[list[tuple[float, Pieces]], float]:
    """Losses that occur often enough to be data, and how often the others do."""
    return [one for one in parts if one[0] >= SMALLEST_WEIGHT], sum(w for w, _ in parts if w < SMALLEST_WEIGHT)


def kept_at_most(noise: float, rate: float, given: Truncation, relation: Relation) -> Pair:
    """Losses under a relation, 0 < rate < 1, with some probability of truncation."""
    sampled = replaced_pieces if relation == "replace_one" else sampled_pieces
    swap = symmetric_pieces if relation in ("replace_one", "zero_out") else sampled_pieces  # its place stays a slot
    parts = [(given.rest, sampled(1.0 / noise, rate)), (given.tau, swap(2.0 / noise, given.replaced))]
    rows = drawn(*_often(parts))
    below = (poisson_replaced if relation == "replace_one" else poisson_sampled)(noise, given.kept)
    if swap is symmetric_pieces:
        return Apart(PiecesPair(rows), below)
    samples = (given.rest, rate, 1.0), (given.tau, given.replaced, 2.0)
    return Apart(_Drawn(rows, [(weight, Mixture(noise, ((q, mean),))) for weight, q, mean in samples]), below)
