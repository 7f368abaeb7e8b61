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
from fastacct.losses.loss import Apart, Pair
from fastacct.losses.mixture import Mixture
from fastacct.losses.mixture_moments import mixture_moments
from fastacct.losses.moments import drawn_moments
from fastacct.losses.panels import SMALLEST_WEIGHT, PiecesPair, drawn, replaced_pieces, sampled_pieces, symmetric_pieces
from fastacct.losses.pieces import Pieces
from fastacct.samplers.fixed_size import poisson_replaced, poisson_sampled

_MOST_TERMS: Final = 10**6
"""Of a tail, a few seconds."""
_HALF_LOG_TWO_PI: Final = Decimal("0.918938533204672741780329736405617639861397473637783412817")
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
        if rate == 1.0:
            tau, below, above = Decimal(1), Decimal(0), Decimal(1)
        else:
            (tau, below), (above, _) = _tail(records - 1, p, at_most), _tail(records, p, at_most + 1)
        swapped = b / n * above / tau
        kept = below * p + tau * swapped
        taken, left, moved = (min(float_above(x * (1 + _DECIMALS_OFF)), 1.0) for x in (tau, below, swapped))
        return Truncation(taken, left, moved, float_below(kept * (1 - _DECIMALS_OFF)))


def _tail(n: int, p: Decimal, k: int) -> tuple[Decimal, Decimal]:
    """P[Bin(n, p) >= k] and P[Bin(n, p) < k], 0 < p < 1: the smaller side, summed from its largest term."""
    if k > n:
        return Decimal(0), Decimal(1)
    if k <= 0:
        return Decimal(1), Decimal(0)
    if k <= n * p:  # the smaller side is that of many which are not drawn
        return _tail(n, 1 - p, n - k + 1)[::-1]
    odds, term, total, enough = p / (1 - p), _mass(n, p, k), Decimal(0), Decimal(10) ** -30
    if k + _MOST_TERMS <= n and _mass(n, p, k + _MOST_TERMS) > enough * term:  # known before the first of so many
        raise _too_large(n, p)
    for place in range(k, k + _MOST_TERMS):
        total += term
        ratio = Decimal(n - place) / (place + 1) * odds
        term *= ratio
        if ratio < 1 and term <= enough * total * (1 - ratio):
            return total, 1 - total
    raise _too_large(n, p)


def _too_large(n: int, p: Decimal) -> ValueError:
    return ValueError(f"at_most and records are too large: about {float(n * p):.3g} records are drawn; allowed: 1e9")


def _mass(n: int, p: Decimal, k: int) -> Decimal:
    """P[Bin(n, p) = k], 0 < p < 1."""
    logs = _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)
    return (logs + k * p.ln() + (n - k) * (1 - p).ln()).exp()


def _log_factorial(n: int) -> Decimal:
    if n < 400:
        return Decimal(math.factorial(n)).ln()
    x = Decimal(n + 1)
    # Stirling's series, whose next term is below 1e-31
    series = sum(1 / (c * x**power) for c, power in ((12, 1), (-360, 3), (1260, 5), (-1680, 7), (1188, 9)))
    return (x - Decimal("0.5")) * x.ln() - x + _HALF_LOG_TWO_PI + series


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
