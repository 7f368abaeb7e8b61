"""Mechanisms with few outcomes: randomised response, and finite tables of probabilities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, Self, cast

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.core.inputs import NONNEGATIVE, ROUNDING, UNIT, Cells, Domain, Reals, as_cells, as_number
from fastacct.core.relations import SAMPLED, Relation
from fastacct.core.words import told_names
from fastacct.losses.atoms import atoms, both, everything, exact_atoms, in_reach, pair_of, table
from fastacct.losses.loss import Atoms, Bracket, Pair
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import WEIGHTS_OFF, constant, keep_tables, parameter, plain

_ANSWERS: Final = Domain(2.0, 1e9, integer=True)
_ABOVE: Final = Domain(-math.inf, math.inf, open_low=True)
_PEOPLE: Final = Domain(1.0, 1e5, integer=True)
"""Whose answers are enumerated."""


class RandomizedResponse(Mechanism, relations=("replace_one", "zero_out"), is_local=True):
    """One of `answers` values: the true one with odds exp(epsilon) against each other one (the local model).

    **Guarantee.** Exact when the value of one person is replaced.  Under "zero_out" a person without a value answers
    uniformly at random.  The fair-coin version, truth with probability 3/4, is epsilon = log 3.

    Examples
    --------
    >>> import fastacct as fa
    >>> coin = fa.RandomizedResponse(epsilon=1.0986122886681098)
    >>> round(fa.epsilon(coin * 10, delta=1e-6, neighbors="replace_one"), 4)
    10.9861
    """

    epsilon: Reals = parameter(NONNEGATIVE)
    answers: int = constant(_ANSWERS, 2)

    @classmethod
    def from_truth(cls, probability: float, answers: int = 2) -> Self:
        """The one that answers truthfully with this probability, of at least 1/answers, and else another value.

        >>> import fastacct as fa
        >>> round(fa.RandomizedResponse.from_truth(3 / 4).epsilon, 6)
        1.098612
        """
        p, k = as_number("probability", probability, UNIT), int(as_number("answers", answers, _ANSWERS))
        if Fraction(p) * k < 1:
            raise ValueError(f"probability = {p!r} is below 1/answers: the truth would be the rarest answer")
        odds = math.log(p * (k - 1) / (1.0 - p)) if p < 1.0 else math.inf
        return cls(max(odds, 0.0) * (1.0 + 4e-15) + 4e-16 * (Fraction(p) * k > 1), k)

    def losses(self, relation: Relation) -> Pair:
        epsilon, k = plain(self.epsilon), self.answers
        if math.isinf(epsilon):
            return both(everything())
        in_reach(epsilon, 600.0)
        true = 1.0 / (1.0 + (k - 1) * math.exp(-epsilon))
        lie = true * math.exp(-epsilon)
        relative = (8.0 + 4.0 * epsilon) * ROUNDING
        if relation == "zero_out":  # against a uniformly random answer
            loss = np.array([epsilon, 0.0]) - math.log1p(math.expm1(epsilon) / k)
            error = 8.0 * ROUNDING * (np.abs(loss) + epsilon)
            taken, left = np.array([true, (k - 1) * lie]), np.array([1.0 / k, (k - 1) / k])
            return pair_of(atoms(loss, error, taken, relative), atoms(-loss, error, left, relative))
        loss, mass = np.array([-epsilon, 0.0, epsilon]), np.array([lie, (k - 2) * lie, true])
        if epsilon == 0.0:
            loss, mass = np.zeros(1), np.ones(1)
        return both(atoms(loss, np.zeros_like(loss), mass, relative, 0.0, epsilon or 1.0))

    def pure_epsilon(self, relation: Relation) -> float:
        epsilon = plain(self.epsilon)
        if relation != "zero_out" or not 0.0 < epsilon < 600.0:
            return epsilon
        other = math.log1p(math.expm1(epsilon) / self.answers)  # against a uniformly random answer
        return min(max(other, epsilon - other) + 16.0 * ROUNDING * epsilon, epsilon)

    def _chances(self) -> tuple[float, float]:
        """Probability of an answer if it is true, and if another one is."""
        lie = math.exp(-plain(self.epsilon))
        whole = 1.0 + (self.answers - 1) * lie
        true, lie = 1.0 / whole, lie / whole
        if true <= lie:
            raise ValueError(f"{self!r} says nothing about the share")
        return true, lie

    def error_law(self, *, respondents: float, share: float) -> error.ErrorLaw:
        """Of the estimated share of one answer among so many people, `share` of whom have it: the answers of others are
        random, the people are fixed (`Shares` has the standard error of a sample of people, too)."""
        n, part = as_number("respondents", respondents, _PEOPLE), as_number("share", share, UNIT)
        true, lie = self._chances()
        have = round(part * n)
        variance = (have * true * (1.0 - true) + (n - have) * lie * (1.0 - lie)) / n / n
        counts = np.convolve(binomial(have, true), binomial(int(n) - have, lie))
        error_of = (np.arange(counts.size) / n - lie) / (true - lie) - have / n
        found = error.from_table(np.abs(error_of), counts, "absolute error of the estimated share", None)
        return dataclasses.replace(found, mean_square=variance / (true - lie) ** 2)

    def estimate(self, counts: Sequence[float], *, level: float = 0.95) -> Shares:
        """Shares of the population from how often each answer was given: unbiased, with exact intervals.

        **Guarantee.** Each interval contains the population's share with probability at least `level`, people drawn
        independently.  Source: Clopper, Pearson 1934, for the share of the answer given, solved for the true one.
        Estimates may lie outside of [0, 1]; intervals are cut off there.

        Examples
        --------
        >>> import fastacct as fa
        >>> found = fa.RandomizedResponse(epsilon=1.0986122886681098).estimate([450, 550])
        >>> found.share.round(6).tolist(), found.standard_error.round(6).tolist()
        ([0.4, 0.6], [0.03148, 0.03148])
        """
        given = np.atleast_1d(as_cells("counts", counts, Domain(0.0, 2.0**52, integer=True)))
        if given.shape != (self.answers,) or given.sum() == 0.0:
            raise ValueError(f"counts must be {self.answers} numbers, not all 0; got shape {given.shape}")
        n, alpha = float(given.sum()), 1.0 - as_number("level", level, Domain(0.0, 1.0))
        (true, lie), seen = self._chances(), given / n
        inverse = import_extra("scipy.special", "pld").betaincinv
        low = np.where(given > 0.0, inverse(np.maximum(given, 1.0), n - given + 1.0, 0.5 * alpha), 0.0)
        high = np.where(given < n, inverse(given + 1.0, np.maximum(n - given, 1.0), 1.0 - 0.5 * alpha), 1.0)
        share, lower, upper = ((one - lie) / (true - lie) for one in (seen, low, high))
        spread = np.sqrt(seen * (1.0 - seen) / max(n - 1.0, 1.0)) / (true - lie)
        return Shares(share, spread, np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))

    def grouped(self, size: int, relation: Relation) -> Process:
        """Every member of the group answers."""
        return self * size


class Shares(NamedTuple):
    """Estimated shares of the population that have each answer."""

    share: Cells
    standard_error: Cells
    lower: Cells
    upper: Cells


def binomial(n: int, p: float) -> Cells:
    """Probabilities of 0 to n successes, to 1e-12."""
    k = np.arange(n + 1.0)
    if p in (0.0, 1.0):
        return np.asarray(k == p * n, dtype=np.float64)
    logs = np.array([math.lgamma(n + 1.0) - math.lgamma(i + 1.0) - math.lgamma(n - i + 1.0) for i in k])
    mass = np.exp(logs + k * math.log(p) + (n - k) * math.log1p(-p))
    return np.asarray(mass / math.fsum(mass))


class PairOfTables(Mechanism, relations=SAMPLED):
    """Two finite tables of probabilities over the same outcomes; made by `from_pmf`."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def __post_init__(self) -> None:
        keep_tables(self, p=(self.p, UNIT), q=(self.q, UNIT))
        for name in ("p", "q"):
            _refuse_total(name, getattr(self, name))

    def losses(self, relation: Relation) -> Pair:
        p, q = np.array(self.p), np.array(self.q)
        return pair_of(table(p, q), table(q, p))


class PairOfLosses(Mechanism, relations=SAMPLED):
    """A finite distribution of the privacy loss; made by `from_losses`."""

    loss: tuple[float, ...]
    mass: tuple[float, ...]

    def __post_init__(self) -> None:
        keep_tables(self, loss=(self.loss, _ABOVE), mass=(self.mass, UNIT))
        _refuse_total("mass", self.mass)
        if (total := math.fsum(self._finite()[2])) > 1.0 + WEIGHTS_OFF:
            raise ValueError(f"mass * exp(-loss) sums to {total!r}: at most 1, the mass of the other distribution")

    def _finite(self) -> tuple[Cells, Cells, Cells]:
        """Finite losses with their masses, and those of the other distribution there."""
        loss, mass = np.array(self.loss), np.array(self.mass)
        keep = (loss < np.inf) & (mass > 0.0)
        with np.errstate(over="ignore"):
            return loss[keep], mass[keep], mass[keep] * np.exp(-loss[keep])

    def losses(self, relation: Relation) -> Pair:
        loss, mass, other = self._finite()
        in_reach(float(np.abs(loss).max(initial=0.0)))
        infinite = np.array(self.mass)[np.isinf(self.loss)]
        nothing, relative = np.zeros_like(loss), ROUNDING * (8.0 + 2.0 * np.abs(loss))
        off = math.fsum(other * relative) + 4.0 * ROUNDING
        left = 1.0 - math.fsum(other)  # where only the other distribution is; less than 1e-12 is the caller's rounding
        above, below = (min(left + off, 1.0), left - off) if left > WEIGHTS_OFF else (0.0, 0.0)
        upper = Atoms(-loss, nothing, np.maximum(other * (1.0 + relative), 5e-324), infinite=above)
        add = Bracket(upper, Atoms(-loss, nothing, other * (1.0 - relative), infinite=below))
        return pair_of(exact_atoms(loss, nothing, mass, infinite, None), add)


def _refuse_total(name: str, table: tuple[float, ...]) -> None:
    if abs((total := math.fsum(table)) - 1.0) > WEIGHTS_OFF:
        cure = "put what is missing on an outcome of its own" if total < 1.0 else "probabilities add up to 1"
        raise ValueError(f"{name} sums to {total!r}, not to 1; {cure}")


@told_names
def from_pmf(p: Iterable[float], q: Iterable[float]) -> PairOfTables:
    """A mechanism whose worst pair of outputs has these probabilities: p with the record, q without.

    **Guarantee.** Exact for the tables as they are: each sums to 1 within 1e-12, not normalised.  That
    the pair dominates the mechanism is the caller's claim.  "remove" reads p against q, "add" q against p.

    Examples
    --------
    >>> import fastacct as fa
    >>> table = fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
    >>> round(fa.delta(table, epsilon=0.3, neighbors="remove"), 12)
    0.195042357727
    """
    return PairOfTables(cast("tuple[float, ...]", p), cast("tuple[float, ...]", q))


@told_names
def from_losses(loss: Iterable[float], mass: Iterable[float]) -> PairOfLosses:
    """A mechanism by the distribution of its privacy loss: the losses, and their probabilities with the record.

    **Guarantee.** Exact for the masses as they are, rounding included: `mass` sums to 1 within 1e-12, not normalised.
    That the pair with these losses dominates the mechanism is the caller's claim.  "remove" takes it as given,
    "add" the one of the other distribution: losses -loss with masses mass * exp(-loss), and an infinite loss with what
    these lack to 1 (nothing, if that is below 1e-12).

    Parameters
    ----------
    loss : numbers above -inf
        math.inf for what only happens with the record.
    mass : numbers in [0, 1]
        As many, with sum of mass * exp(-loss) at most 1.

    Raises
    ------
    ValueError, TypeError
        Sums, lengths or values that are no such distribution.

    Examples
    --------
    >>> import fastacct as fa
    >>> leak = fa.from_losses([1.0, -1.0, math.inf], [0.7, 0.25, 0.05])
    >>> round(fa.delta(leak * 3, epsilon=4.0, neighbors="remove"), 12)  # 1 - 0.95^3
    0.142625
    """
    return PairOfLosses(cast("tuple[float, ...]", loss), cast("tuple[float, ...]", mass))
