"""Audits that may stop at any time: pairs of runs one after the other, and bets against a guarantee."""

from __future__ import annotations

import math
from typing import ClassVar, Final

import numpy as np

from fastacct.accountants.question import Job
from fastacct.audit.shared import as_confidence, at_each, largest_refuted
from fastacct.core.inputs import NONNEGATIVE, UNIT, Cells, Floats, Reals, as_common
from fastacct.core.record import Record
from fastacct.core.relations import DIRECTIONS, Relation, as_relation
from fastacct.core.words import told_names
from fastacct.epsilon import epsilon as epsilon_of

_STAKES: Final = np.geomspace(1e-6, 0.95, 36)
"""Bets; those that could lose more than all at an epsilon are not made there, so that wealth falls with epsilon.

Above an epsilon of 13.8 there is no bet left."""
_DELTAS: Final = np.geomspace(1e-6, 0.1, 11)


class Sequential(Record):
    """What `fastacct.audit.sequential` shows.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.audit.sequential([True] * 40, [False] * 40)
    >>> found.refuted_after(1.0, 1e-5)
    25
    """

    members: Cells
    others: Cells
    confidence: float
    """Probability that an answer is true, whenever it is looked at."""
    jointly: ClassVar[bool] = False
    """Each answer, at one delta or of one job, has this confidence alone."""

    def wealth(self, epsilon: Reals, delta: Reals, *, neighbors: Relation = "add_remove") -> Floats:
        """What bets against (epsilon, delta)-DP have made of 1, after each pair of runs.

        **Guarantee.** If the guarantee is true, it ever reaches 1/(1 - confidence) with probability 1 - confidence at
        most.  Of several epsilons and deltas of one mechanism it is the mean of what each makes.

        Returns
        -------
        ndarray of one number for each pair

        Raises
        ------
        ValueError, TypeError
            An epsilon or delta out of range.

        Examples
        --------
        >>> import fastacct as fa
        >>> fa.audit.sequential([True] * 3, [False] * 3).wealth(1.0, 1e-5).round(2)
        array([0.94, 0.97, 1.01])
        """
        claims = as_common(epsilon=(epsilon, NONNEGATIVE), delta=(delta, UNIT))
        ways = DIRECTIONS[as_relation(neighbors)]
        logs = np.full(self.members.size, -math.inf)
        with np.errstate(over="ignore"):
            for e, d in zip(*(one.ravel() for one in claims), strict=True):
                factor = np.exp(e)
                stakes = _STAKES[_STAKES * (factor + d) < 1.0]
                for way in ways if stakes.size else ():
                    found, false = self.members, self.others
                    if way == "add":  # the record's absence is what is found
                        found, false = 1.0 - false, 1.0 - found
                    bets = np.cumsum(np.log1p(stakes[:, None] * (found - factor * false - d)), axis=1)
                    logs = np.logaddexp(logs, np.logaddexp.reduce(bets, axis=0))
            return np.asarray(np.exp(logs) / (_STAKES.size * len(ways) * claims[0].size) * (1.0 - 1e-9))

    def refuted_after(self, epsilon: float, delta: float, *, neighbors: Relation = "add_remove") -> int | None:
        """After how many pairs (epsilon, delta)-DP was refuted; None if it was not."""
        over = np.flatnonzero(self.wealth(epsilon, delta, neighbors=neighbors) >= 1.0 / (1.0 - self.confidence))
        return int(over[0]) + 1 if over.size else None

    def epsilon(self, delta: Reals, *, neighbors: Relation = "add_remove") -> float | Floats:
        """Lower bound of the epsilon at a delta that has been shown by now: the largest that was refuted, or 0.

        Examples
        --------
        >>> import fastacct as fa
        >>> round(fa.audit.sequential([True] * 200, [False] * 200).epsilon(1e-5), 3)
        3.197
        """
        way = as_relation(neighbors)
        return at_each(delta, lambda d: largest_refuted(lambda e: self.refuted_after(e, d, neighbors=way) is not None))

    def refutes(self, job: Job, *, neighbors: Relation = "add_remove") -> bool:
        """Whether bets against the guarantees of a job at eleven deltas, 1e-6 to 0.1, have reached 1/(1 - confidence).

        Examples
        --------
        >>> import fastacct as fa
        >>> fa.audit.sequential([True] * 200, [False] * 200).refutes(fa.Gaussian(1.0))
        True
        """
        claimed = np.asarray(epsilon_of(job, delta=_DELTAS, neighbors=neighbors))
        finite = np.isfinite(claimed)
        if not finite.any():
            return False
        wealth = self.wealth(claimed[finite], _DELTAS[finite], neighbors=neighbors)
        return float(np.max(wealth)) >= 1.0 / (1.0 - self.confidence)


@told_names
def sequential(members: object, others: object, *, confidence: float = 0.95) -> Sequential:
    """An audit that may stop whenever it has shown enough: pairs of runs, one with the record and one without it.

    **Guarantee.** With probability `confidence` an answer of the result is true, for every mechanism, whenever one
    looks and for whatever reason one stops.  Ask one delta or one job: several answers have that confidence each.

    Each pair is a bet: found_in_member - exp(epsilon) found_in_other - delta is at most 0 on average, if the run is
    (epsilon, delta)-DP.  The wealth is the mean over several stakes, and over both directions.

    Parameters
    ----------
    members, others : array of bool, one entry for each pair
        Whether the attack said "with the record" of the run with it, and of the run without it.  How the attack decides
        may depend on earlier pairs, not on this one.
    confidence : float in [0.5, 0.999999]

    Returns
    -------
    Sequential

    Raises
    ------
    ValueError, TypeError
        Entries that are not bool, lengths that differ, no pairs.

    References
    ----------
    Waudby-Smith, Ramdas 2024 (https://arxiv.org/abs/2010.09686): bets on means.  Shekhar, Ramdas 2023
    (https://arxiv.org/abs/2112.09162).

    Examples
    --------
    >>> import numpy as np
    >>> import fastacct as fa
    >>> random = np.random.default_rng(1)
    >>> found = fa.audit.sequential(random.normal(2, 1, 500) > 2, random.normal(0, 1, 500) > 2)
    >>> found.refutes(fa.Gaussian(0.5)), found.refutes(fa.Gaussian(1.0))
    (False, True)
    """
    first, second = np.asarray(members), np.asarray(others)
    for name, one in (("members", first), ("others", second)):
        if one.dtype != np.bool_ or one.ndim != 1:
            raise TypeError(f"{name} must be a list of True and False, not of dtype {one.dtype} and shape {one.shape}")
    if first.size != second.size or not first.size:
        found = f"they have {first.size} and {second.size} entries"
        raise ValueError(f"members and others must be pairs, at least one: {found}")
    return Sequential(first.astype(np.float64), second.astype(np.float64), as_confidence(confidence))
