"""Audits by many runs: scores of runs with a record and of runs without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fastacct.accountants.question import Job
from fastacct.audit.counts import rate_bounds
from fastacct.audit.shared import SIZE, as_confidence, as_list, at_each, least_refuted
from fastacct.core.inputs import Cells, Floats, Reals, as_number
from fastacct.core.kept import cached
from fastacct.core.record import Record
from fastacct.core.relations import DIRECTIONS, Relation, as_relation
from fastacct.core.words import told_names
from fastacct.tradeoff import tpr_at_fpr


class Scores(Record):
    """What `fastacct.audit.scores` shows: bounds of both error rates at every threshold.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.audit.scores([3.0, 4.0, 5.0], [0.0, 1.0, 2.0])
    >>> found.epsilon(1e-5), found.refutes(fa.Gaussian(1.0))
    (0.0, False)
    """

    members: Cells
    """Scores of runs with the record, sorted."""
    others: Cells
    """Scores of runs without it, sorted."""
    confidence: float
    """Probability that all that is shown is true."""
    jointly: ClassVar[bool] = True
    """All answers hold together, at all deltas and of all jobs."""

    def epsilon(self, delta: Reals, *, neighbors: Relation = "add_remove") -> float | Floats:
        """Lower bound of the epsilon at a delta: log((tpr - delta)/fpr) at the best threshold, or 0.

        **Guarantee.** With probability `confidence` over the runs: what made the scores is (epsilon, delta)-DP for no
        smaller epsilon, at all deltas at once.

        Parameters
        ----------
        delta : float or array in [0, 1]
        neighbors : str
            As in `fastacct.epsilon`.  "remove": runs without the record are the null hypothesis; "add": those with it.

        Returns
        -------
        float or ndarray of the shape of delta

        Raises
        ------
        ValueError, TypeError
            A delta out of range; an unknown relation.

        Examples
        --------
        >>> import fastacct as fa
        >>> round(fa.audit.scores(range(100, 200), range(100)).epsilon(1e-5), 6)
        2.537838
        """
        hits, alarms = self._rates(neighbors)

        def shown(one: float) -> float:
            above = hits > one
            return max(0.0, float(np.max(np.log((hits[above] - one) / alarms[above]), initial=0.0)) * (1 - 1e-14))

        return at_each(delta, shown)

    def refutes(self, job: Job, *, neighbors: Relation = "add_remove") -> bool:
        """Whether some threshold finds more than any attack on a job can: the scores are not those of this job.

        **Guarantee.** If the job's guarantee is true, this is False with probability `confidence`, of however many jobs
        it is asked.  Rates are compared with `fastacct.tpr_at_fpr`, an upper bound.

        Examples
        --------
        >>> import fastacct as fa
        >>> found = fa.audit.scores(range(100, 200), range(100))
        >>> found.refutes(fa.Gaussian(2.0)), found.refutes(fa.Gaussian(0.2))
        (True, False)
        """
        return self._gap(neighbors)(job) > 0.0

    def noise(self, build: Callable[[float], Job], *, neighbors: Relation = "add_remove") -> float:
        """The smallest noise multiplier of your own job that is refuted; inf where none is.

        Parameters
        ----------
        build : callable
            Makes the job of a noise multiplier; more noise must mean more privacy.

        Returns
        -------
        float
            It is refuted itself, and so is all that is larger.

        Examples
        --------
        >>> import fastacct as fa
        >>> found = fa.audit.scores(range(100, 200), range(100))
        >>> round(found.noise(lambda sigma: fa.Gaussian(sigma).poisson(0.1) * 100), 2)
        0.49
        """
        return least_refuted(build, self._gap(neighbors))

    def _gap(self, neighbors: Relation) -> Callable[[Job], float]:
        hits, alarms = self._rates(neighbors)
        return lambda job: float(np.max(hits - np.asarray(tpr_at_fpr(job, alarms, neighbors=neighbors))))

    def _rates(self, neighbors: Relation) -> tuple[Cells, Cells]:
        """True-positive rates from below and false-positive rates from above, of thresholds that none excels."""
        points = [one for way in DIRECTIONS[as_relation(neighbors)] for one in self._regions[way == "add"]]
        hits, alarms = (np.concatenate(one) for one in zip(*points, strict=True))
        order = np.lexsort((-hits, alarms))
        hits, alarms = hits[order], alarms[order]
        best = np.concatenate([[True], hits[1:] > np.maximum.accumulate(hits)[:-1]])
        return hits[best], alarms[best]

    @cached
    def _regions(self) -> tuple[list[tuple[Cells, Cells]], list[tuple[Cells, Cells]]]:
        """For members against others, and the reverse: rates at or above each threshold, and below it."""
        n, m = self.members.size, self.others.size
        each = (1.0 - self.confidence) / 4.0
        of_members, of_others = rate_bounds(n, each), rate_bounds(m, each)
        thresholds = np.unique(np.concatenate([self.members, self.others]))
        below = np.searchsorted(self.members, thresholds), np.searchsorted(self.others, thresholds)
        high, low = of_members[n - below[0]], of_members[below[0]]
        other_high, other_low = of_others[m - below[1]], of_others[below[1]]
        members = [(high, 1.0 - other_low), (low, 1.0 - other_high)]
        return members, [(other_high, 1.0 - low), (other_low, 1.0 - high)]


@told_names
def scores(members: Reals, others: Reals, *, confidence: float = 0.95) -> Scores:
    """An audit by many runs: what scores of runs with a record, and of runs without it, show of the privacy of a run.

    **Guarantee.** With probability `confidence` all that the result shows is true: every epsilon at every delta, every
    job that is refuted, at whatever threshold, in both directions, whichever way the scores point.  True for every
    mechanism, with no model of the scores.

    Rates have simultaneous bounds of equal local levels.  At a threshold where k of n members score as high, their rate
    is at least quantile eta of the beta distribution (k, n - k + 1); eta is such that all thresholds hold together.
    There are four such bounds, of members and others from below and above, each with (1 - confidence)/4.

    Parameters
    ----------
    members, others : array of numbers, 1 to 1,000,000 each
        One score of each run, every run with noise of its own; a threshold on it tells "with" from "without".  Infinite
        scores are scores, NaN is refused.  Ties are counted as what they are.  Many records of one run are not many
        runs: see `one_run`.
    confidence : float in [0.5, 0.999999]

    Returns
    -------
    Scores

    Raises
    ------
    ValueError, TypeError
        No scores, NaN, more than one dimension, a confidence out of range.

    References
    ----------
    Aldor-Noiman, Brown, Buja, Rolke, Stine 2013 (https://doi.org/10.1080/00031305.2013.847865): bounds of equal local
    levels.  Jagielski, Ullman, Oprea 2020 (https://arxiv.org/abs/2006.07709): epsilon from error rates.

    Examples
    --------
    >>> import numpy as np
    >>> import fastacct as fa
    >>> random = np.random.default_rng(1)
    >>> found = fa.audit.scores(random.normal(2, 1, 1000), random.normal(0, 1, 1000))
    >>> round(found.epsilon(1e-5), 3), round(fa.epsilon(fa.Gaussian(0.5), delta=1e-5), 3)
    (2.665, 9.997)
    """
    given = {}
    for name, value in (("members", members), ("others", others)):
        given[name] = np.sort(as_list(name, value))
        as_number(f"the number of {name}", given[name].size, SIZE)
    return Scores(given["members"], given["others"], as_confidence(confidence))
