"""Audits by one run: many canaries, each in or out by a coin of its own, and guesses which of them are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from fastacct.accountants.question import Job
from fastacct.audit.counts import tails
from fastacct.audit.shared import (
    SIZE,
    as_both_ways,
    as_confidence,
    as_list,
    at_each,
    largest_refuted,
    least_miss,
    least_refuted,
    lines,
)
from fastacct.core.inputs import NONNEGATIVE, Domain, Floats, Reals, as_cells, as_choice, as_number
from fastacct.core.record import Record
from fastacct.core.relations import Relation
from fastacct.core.words import told_names

Drawn = Literal["independent", "fixed_half"]


class OneRun(Record):
    """What `fastacct.audit.one_run` shows.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.audit.one_run(1000, guesses=200, right=140)
    >>> found.canaries, found.confidence
    (1000, 0.95)
    """

    canaries: int
    guesses: tuple[int, ...]
    right: tuple[int, ...]
    confidence: float
    """Probability that all that is shown is true."""
    jointly: ClassVar[bool] = True
    """All answers hold together, at all deltas and of all jobs."""

    def p_value(self, epsilon: float, delta: float) -> float:
        """Upper bound of the probability of so many right guesses, if the run is (epsilon, delta)-DP.

        Of several numbers of guesses the smallest, times how many there are.

        Raises
        ------
        ValueError, TypeError
            An epsilon or delta out of range, or an array.

        Examples
        --------
        >>> import fastacct as fa
        >>> round(fa.audit.one_run(1000, 200, 140).p_value(0.5, 1e-5), 9)
        0.0140891
        """
        e, d = as_number("epsilon", epsilon, NONNEGATIVE), as_number("delta", delta)
        least = min(_chance(self.canaries, *one, e, d) for one in zip(self.guesses, self.right, strict=True))
        return min(1.0, least * len(self.guesses))

    def epsilon(self, delta: Reals, *, neighbors: Relation = "add_remove") -> float | Floats:
        """Lower bound of the epsilon at a delta: the largest whose `p_value` is at most 1 - confidence, or 0.

        **Guarantee.** With probability `confidence` the run is (epsilon, delta)-DP for no smaller epsilon, at all
        deltas: every test refuses from some number of right guesses on, and the most sensitive one decides.

        Parameters
        ----------
        delta : float or array in [0, 1]
            It enters the probability, not the ratio alone, and costs much where canaries * delta is not small.
        neighbors : {"add_remove", "zero_out", "replace_one"}
            What a coin did to a canary; both directions are needed.

        Returns
        -------
        float or ndarray of the shape of delta

        Raises
        ------
        ValueError, TypeError
            A delta out of range; a relation of one direction.

        Examples
        --------
        >>> import fastacct as fa
        >>> round(fa.audit.one_run(1000, 200, 140).epsilon(1e-5), 9)
        0.583613888
        """
        as_both_ways(neighbors)
        alpha = 1.0 - self.confidence
        return at_each(delta, lambda d: largest_refuted(lambda e: self.p_value(e, d) <= alpha))

    def refutes(self, job: Job, *, neighbors: Relation = "add_remove") -> bool:
        """Whether so many right guesses are too many for the trade-off curve of a job.

        **Guarantee.** If the job's guarantee is true, this is False with probability `confidence`.  The curve is the
        convex one of both directions that certified deltas prove, which is never above the job's.

        Examples
        --------
        >>> import fastacct as fa
        >>> job = fa.Gaussian(1.0).poisson(0.05) * 200
        >>> [fa.audit.one_run(1000, 200, right).refutes(job) for right in (180, 195)]
        [False, True]
        """
        return self._gap(neighbors)(job) > 0.0

    def noise(self, build: Callable[[float], Job], *, neighbors: Relation = "add_remove") -> float:
        """The smallest noise multiplier of your own job that is refuted; inf where none is.  As `Scores.noise`.

        Examples
        --------
        >>> import fastacct as fa
        >>> found = fa.audit.one_run(1000, 200, 180)
        >>> round(found.noise(lambda sigma: fa.Gaussian(sigma).poisson(0.05) * 200), 2)
        1.26
        """
        return least_refuted(build, self._gap(neighbors))

    def _gap(self, neighbors: Relation) -> Callable[[Job], float]:
        relation, alpha = as_both_ways(neighbors), (1.0 - self.confidence) / len(self.guesses)

        def gap(job: Job) -> float:
            miss = least_miss(*lines(job, relation, 1e-4 * alpha / self.canaries))
            counts = zip(self.guesses, self.right, strict=True)
            return max(too_many(self.canaries, *one, alpha, miss) for one in counts)

        return gap


def too_many(canaries: int, guesses: int, right: int, alpha: float, miss: Callable[[float], float]) -> float:
    """Above 0 where right guesses are too many for a symmetric convex trade-off curve `miss`, at level alpha.

    If they had a probability of alpha, so would shares of the canaries that are guessed right and wrong; the curve
    forces a share of wrong ones on each lower number of right ones, and all of them together exceed the guesses made.
    """
    hit, wrong = alpha * right / canaries, alpha * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        forced = max(wrong, miss(max(0.0, 1.0 - hit)))
        hit += i / (guesses - i) * (forced - wrong)
        wrong = forced
    return (hit + wrong) * (1.0 - 1e-15 * (right + 10.0)) - guesses / canaries


def _chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    if not right:
        return 1.0
    at_least, factor = tails(guesses, epsilon)
    steps = (at_least[:right][::-1] - at_least[right] / factor) / np.arange(1.0, right + 1.0)
    return float(min(1.0, at_least[right] + 2.0 * canaries * delta * max(0.0, float(np.max(steps)))))


@told_names
def one_run(
    canaries: int,
    guesses: Reals,
    right: Reals,
    *,
    confidence: float = 0.95,
    drawn: Drawn = "independent",
) -> OneRun:
    """An audit by one run: how many guesses about many canaries were right, and what that shows of the run.

    **Guarantee.** With probability `confidence` all that the result shows is true, for every mechanism.  Each canary
    must have been put in by a coin of its own, with probability 1/2, and the guesses must not have looked at the coins.

    `epsilon` is the test of Steinke, Nasr and Jagielski for (epsilon, delta); `refutes` and `noise` compare with the
    whole curve of a job, by the test of Mahloujifar, Melis and Chaudhuri.  Canaries that disturb each other cost power
    and leave the guarantee.  They are records: `records` and sample rates count them, too.

    Parameters
    ----------
    canaries : int up to 1,000,000
        All that were drawn for, in or out.
    guesses, right : int or list of ints
        How many were guessed at, and how many of these guesses were right.  If several numbers of guesses were tried,
        give all of them: each is tested at (1 - confidence) over how many there are.  `count_guesses` counts them.
    confidence : float in [0.5, 0.999999]
    drawn : {"independent"}
        How canaries were chosen.  "fixed_half", exactly half of them, is refused: then coins are not independent.

    Returns
    -------
    OneRun

    Raises
    ------
    ValueError, TypeError
        Counts that are no whole numbers, more right than guesses or more guesses than canaries, lists of different
        lengths, a fixed half.

    References
    ----------
    Steinke, Nasr, Jagielski 2023 (https://arxiv.org/abs/2305.08846), theorem 5.2.  Mahloujifar, Melis, Chaudhuri 2024
    (https://arxiv.org/abs/2410.22235).

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.audit.one_run(1000, guesses=600, right=600).epsilon(1e-5), 6)
    5.270399
    """
    if as_choice("drawn", drawn, ("independent", "fixed_half")) == "fixed_half":
        raise ValueError(
            "drawn = 'fixed_half' is not supported: the test needs a coin of its own for each canary; "
            "allowed: 'independent'"
        )
    m = as_number("canaries", canaries, SIZE)
    tried = as_cells("guesses", guesses, Domain(0.0, m, integer=True))
    found = as_cells("right", right, Domain(0.0, m, integer=True))
    if tried.ndim > 1 or tried.shape != found.shape:
        raise ValueError(
            f"guesses and right must be two numbers or two lists, not of shapes {tried.shape}, {found.shape}"
        )
    numbers, hits = (tuple(map(int, np.atleast_1d(one).tolist())) for one in (tried, found))
    for i, (one, number) in enumerate(zip(hits, numbers, strict=True)):
        if one > number:
            where = f"[{i}]" if found.ndim else ""
            raise ValueError(
                f"right{where} = {one} is out of range; allowed: whole numbers in [0, {number}], the guesses"
            )
    return OneRun(int(m), numbers, hits, as_confidence(confidence))


@told_names
def count_guesses(
    scores: Reals, included: object, guesses: Reals, *, drawn: Drawn | None = None
) -> tuple[Floats, Floats]:
    """Guess from the scores of all canaries of a run, and count: guesses made, and how many of them are right.

    Half of the guesses call the canaries with the highest scores in, half those with the lowest out.  Where scores are
    equal at the end of a half, none of the equal ones is guessed at: their order might say who is in.

    Parameters
    ----------
    scores : array of numbers
        One of each canary; high scores speak for "in".  NaN is refused.
    included : array of bool
        Which of them were in.
    guesses : int or list of ints
        Numbers of guesses, chosen before `included` is looked at; all that are tried.
    drawn : {"independent"}, optional
        As in `one_run`.  It has to be said where exactly half of the canaries are in, which a fixed half has always.

    Returns
    -------
    tuple of two arrays
        Guesses and right, for `one_run(len(scores), *counts)`.

    Raises
    ------
    ValueError, TypeError
        NaN, lengths that differ, `included` that is not bool, more guesses than canaries, a fixed half.

    Examples
    --------
    >>> import numpy as np
    >>> import fastacct as fa
    >>> random = np.random.default_rng(2)
    >>> included = random.random(1000) < 0.5
    >>> counts = fa.audit.count_guesses(random.normal(size=1000) + 2 * included, included, [100, 200])
    >>> counts, round(fa.audit.one_run(1000, *counts).epsilon(1e-5), 3)
    ((array([100., 200.]), array([100., 200.])), 3.946)
    """
    given, inside = as_list("scores", scores), np.asarray(included)
    if inside.dtype != np.bool_ or inside.shape != given.shape:
        shown = f"dtype {inside.dtype} and shape {inside.shape}"
        raise TypeError(f"included must be {given.size} values True or False, one of each score, not of {shown}")
    if drawn is None and 2 * np.count_nonzero(inside) == inside.size:
        raise ValueError(
            "included has exactly half of the canaries, as a fixed half has, and the test needs a coin of its own for "
            "each: say drawn='independent' if there were such coins"
        )
    if drawn is not None and as_choice("drawn", drawn, ("independent", "fixed_half")) == "fixed_half":
        raise ValueError("drawn = 'fixed_half' is not supported; allowed: 'independent'")
    asked = as_cells("guesses", guesses, Domain(1.0, float(given.size), integer=True))
    rising, falling = np.sort(given), np.sort(given)[::-1]
    made, right = np.empty(asked.shape), np.empty(asked.shape)
    for place, number in np.ndenumerate(asked):
        lows = int(number) // 2
        highs = int(number) - lows
        called = given > falling[highs] if highs < given.size else np.ones(given.shape, dtype=bool)
        refused = given < rising[lows]
        made[place] = np.count_nonzero(called) + np.count_nonzero(refused)
        right[place] = np.count_nonzero(called & inside) + np.count_nonzero(refused & ~inside)
    return made, right
