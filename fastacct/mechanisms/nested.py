"""Mechanisms made of whole jobs: parallel composition, and the best of a random number of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.inputs import Cells, Domain, as_number
from fastacct.core.kept import cached, kept_by_argument
from fastacct.core.relations import ALL, SAMPLED, Relation, both_ways
from fastacct.core.rounding import at_least
from fastacct.core.search import ORDERS
from fastacct.core.work import kept
from fastacct.losses.curve import curve_of
from fastacct.losses.divergence import unknown
from fastacct.losses.loss import NOTHING, Bracket, OutOfReachError, Pair
from fastacct.losses.total import total_losses
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import DeltaOf, Process
from fastacct.samplers.poisson import sample

_MEAN: Final = Domain(1.0, 1e15)
_ROUNDS: Final = 3
_FINER: Final = 25
_ETA: Final = Domain(-0.9, 1e6)


def as_plain_job(name: str, job: object) -> Process:
    """A job of plain numbers."""
    process = job * 1 if isinstance(job, Mechanism) else job
    if not isinstance(process, Process) or process.shape:
        several = ": give several one by one, as (*jobs)" if isinstance(job, list | tuple) else ""
        raise TypeError(f"{name} must be a mechanism or a process of plain numbers, not {job!r}{several}")
    return process


def _jobs(made: Parallel | Together) -> tuple[Process, ...]:
    """What it is made of."""
    return made.jobs if isinstance(made, Parallel) else (made.job,)


def _of_any(name: str) -> property:
    """A property that says what the first mechanism of the jobs says that says anything, as why it has no samples."""

    def said(made: Parallel | Together) -> object:
        said_by = (getattr(one, name) for job in _jobs(made) for one, _ in job)
        return next(filter(None, said_by), getattr(Mechanism, name))

    return property(said)


def _shared(among: tuple[Relation, ...]) -> property:
    """A property: which of these relations all mechanisms of the jobs support."""

    def said(made: Parallel | Together) -> tuple[Relation, ...]:
        own = [one.relations for job in _jobs(made) for one, _ in job]
        return tuple(relation for relation in among if all(relation in each for each in own))

    return property(said)


class Parallel(Mechanism, no_group="members may be in different parts; compose groups of the jobs"):
    """Jobs on disjoint parts of the data: a record is in one of them.

    **Guarantee.** The largest of the jobs' curves, when a record is added or removed.  The parts must not depend on the
    data: which part a record belongs to is a property of the record alone.  (Replace-one is refused, since a record
    may move from one part to another; that is one added and one removed.)  Composed with others: the
    maximum over the jobs that a record may be in, as far as these are few, else by Rényi divergences.  Source: McSherry
    2009, theorem 4.

    Parameters
    ----------
    *jobs : Mechanism or Process
        Plain numbers, no arrays.

    Examples
    --------
    >>> import fastacct as fa
    >>> halves = fa.Parallel(fa.Laplace(2.0), fa.Gaussian(1.0))
    >>> fa.epsilon(halves, delta=1e-5) == fa.epsilon(fa.Gaussian(1.0), delta=1e-5)
    True
    """

    jobs: tuple[Process, ...]
    is_local, no_sample, relations = _of_any("is_local"), _of_any("no_sample"), _shared(SAMPLED)

    def __init__(self, *jobs: Mechanism | Process) -> None:
        if not jobs:
            raise ValueError("Parallel needs at least one job")
        object.__setattr__(self, "jobs", tuple(as_plain_job(f"jobs[{i}]", job) for i, job in enumerate(jobs)))

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return all(job.tight for job in self.jobs)

    def decompose(self, relation: Relation) -> Process | None:
        return self.jobs[0] if len(set(self.jobs)) == 1 else None

    def alternatives(self) -> tuple[Process, ...]:
        return self.jobs

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        return np.asarray(np.maximum.reduce([job.divergence(orders, relation, delta_of) for job in self.jobs]))

    def pure_epsilon(self, relation: Relation) -> float:
        return max((job.pure_epsilon(relation) for job in self.jobs), default=math.inf)

    def __repr__(self) -> str:
        return f"Parallel({', '.join(map(repr, self.jobs))})"


class Together(Mechanism, no_group="use Together(job.group(size)): its members change together in every release"):
    """All releases of a job as one, so that `.poisson(sample_rate)` of the job samples once for all of them.

    **Guarantee.** That of the job, which is evaluated in its place where nothing is sampled.  A record that is drawn
    takes part in every release, as a client does in all that a round of federated learning releases.  Losses of a
    sample come from the job's certified deltas.  The bounds are about 1e-6 of themselves apart.  Jobs without
    Gaussian noise, or with discrete noise that is sampled within a sample, are rounded to a lattice instead.  It takes
    at most 1,000 releases.  Its bounds are up to 1e-2 apart.  Releases may depend on what earlier ones of the
    same sample have shown.  Where losses are not known, Rényi divergences are sampled.

    Parameters
    ----------
    job : Mechanism or Process
        Plain numbers, no arrays.

    Examples
    --------
    >>> import fastacct as fa
    >>> both = (fa.Gaussian(2.0) + fa.Laplace(5.0)).poisson(0.01)  # a sum of gradients, and a count
    >>> each = fa.Gaussian(2.0).poisson(0.01) + fa.Laplace(5.0).poisson(0.01)  # a sample for each
    >>> [round(fa.epsilon(one * 1000, delta=1e-6), 3) for one in (both, each)]
    [0.787, 0.766]
    """

    job: Process
    is_local, no_sample, relations = _of_any("is_local"), _of_any("no_sample"), _shared(ALL)

    if TYPE_CHECKING:

        def __init__(self, job: Mechanism | Process) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", as_plain_job("job", self.job))
        if not len(self.job):
            raise ValueError("job needs at least one release")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return self.job.tight

    def decompose(self, relation: Relation) -> Process | None:
        return self.job

    @kept_by_argument
    def losses(self, relation: Relation) -> Pair | None:
        found = [(one.losses(relation), n) for one, n in next(self.job.decompose(relation).cells())]
        some = [(pair, int(n)) for pair, n in found if pair is not None and not pair.is_nothing]
        if any(pair is None for pair, _ in found):
            return None
        return _Whole(self.job, relation, some) if some else NOTHING

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        return self.job.divergence(orders, relation, delta_of)

    def pure_epsilon(self, relation: Relation) -> float:
        return self.job.pure_epsilon(relation)

    def __repr__(self) -> str:
        return f"Together({self.job!r})"


Process.together = Together


class _Whole(Pair):
    """Of all releases of a job: by their curve where its deltas are known, else rounded to a lattice."""

    def __init__(self, job: Process, relation: Relation, parts: Sequence[tuple[Pair, int]], rate: float = 1.0) -> None:
        self._asked, self._parts, self._rate = (job, relation), parts, rate

    @cached
    def _rounded(self) -> Pair:
        """On a lattice."""
        whole = total_losses(self._parts)
        return whole if self._rate == 1.0 else sample(whole, self._rate)

    @cached
    def remove(self) -> Bracket:
        """P against Q."""
        return self._rounded.remove

    @cached
    def add(self) -> Bracket:
        """Q against P."""
        return self._rounded.add

    def sampled(self, rate: float) -> Pair:
        return _Whole(*self._asked, self._parts, rate)

    def given(self, deltas_of: Callable[..., tuple[Cells, Cells]]) -> Pair:
        known = _by_curve(*self._asked, deltas_of)
        return self if known is None else known if self._rate == 1.0 else sample(known, self._rate)


@kept(16)
def _by_curve(job: Process, relation: Relation, deltas_of: Callable[..., tuple[Cells, Cells]]) -> Pair | None:
    """Kept for other rates and counts; None where deltas are not known well, or do not say all of it."""
    try:
        return curve_of(partial(deltas_of, job, relation))
    except OutOfReachError:
        return None


class RepeatedSelection(Mechanism):
    """The best of a random number of runs, as in tuning of hyper-parameters (Papernot, Steinke 2022).

    **Guarantee.** A bound, by Rényi divergences: those of `base`, plus what choosing costs.  If one run is epsilon-DP,
    the best one is (2 + eta) epsilon-DP (3 epsilon with the geometric distribution), or with the Poisson distribution
    epsilon + mean tanh(epsilon/2).  The number of runs must be drawn so, before and independently of
    the data; for a fixed number of runs nothing better than their composition is known.  With `eta`, mean = 1 is one
    run.

    Parameters
    ----------
    base : Mechanism or Process
        One run; plain numbers, no arrays.
    mean : float in [1, 1e15]
        Expected number of runs of the Poisson distribution; or, with `eta`, of the truncated negative binomial one.
    eta : float >= -0.9, optional
        1: geometric, 0: logarithmic, both at least one run.  Default: the Poisson distribution, which may be none.

    Examples
    --------
    >>> import fastacct as fa
    >>> tuned = fa.RepeatedSelection(fa.Gaussian(4.0), mean=10.0)
    >>> round(fa.rdp(tuned, 6.0), 6)
    1.018605
    >>> round(fa.epsilon(fa.RepeatedSelection(fa.PureDP(0.1), mean=1e12, eta=1.0), delta=0.0), 6)
    0.3
    """

    base: Mechanism | Process
    mean: float
    eta: float | None = None
    is_local, no_sample, no_group = _of_any("is_local"), _of_any("no_sample"), _of_any("no_group")
    relations = _shared(ALL)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", as_plain_job("base", self.base))
        object.__setattr__(self, "mean", as_number("mean", self.mean, _MEAN))
        if self.eta is not None:
            eta = as_number("eta", self.eta, _ETA)
            if 0.0 < abs(eta) < 1e-12:
                raise ValueError(f"eta = {self.eta!r} is out of range; allowed: 0 or at least 1e-12 away from it")
            object.__setattr__(self, "eta", eta)

    @property
    def job(self) -> Process:
        """One run."""
        return self.base if isinstance(self.base, Process) else self.base * 1

    @property
    def _is_one_run(self) -> bool:
        return self.eta is not None and self.mean == 1.0

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return self._is_one_run and self.job.tight

    def decompose(self, relation: Relation) -> Process | None:
        return self.job if self._is_one_run else None

    def pure_epsilon(self, relation: Relation) -> float:
        """Of the best run, from that of one in both directions (Liu and Talwar 2019 for the geometric distribution).

        The number of runs has the generating function f, outcomes up to y have probability Q, and what is chosen has
        the density f'(Q) dQ.  Poisson: f' = mean exp(mean (Q - 1)), and Q changes by the total variation at most.
        Negative binomial: f' is a power -(1 + eta) of gamma + (1 - gamma) (1 - Q), which changes by exp(epsilon).
        """
        one = self.job.pure_epsilon(both_ways(relation))
        more = self.mean * math.tanh(0.5 * one) if self.eta is None else (1.0 + self.eta) * one
        return at_least((one + more) * (1.0 + 1e-15), one)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """Papernot and Steinke 2022, theorems 2 and 6; a divergence is also bounded by one of larger order.

        Both theorems rest on both directions of the base, whichever one is asked for.
        """
        if self.eta is None and delta_of is None:
            return unknown(orders)
        relation = both_ways(relation)
        grid, beyond, least, delta = self._everywhere((relation, delta_of))
        at = np.searchsorted(grid, orders)
        value, added, _ = self._parts(orders, relation, delta_of, np.append(delta, 1.0)[at])
        found = np.minimum(self._found(orders, value, added, least), beyond[at])
        return np.asarray(np.minimum(found * (1.0 + 1e-12) + 1e-15, self.pure_epsilon(relation)))

    @kept_by_argument
    def _everywhere(self, asked: tuple[Relation, DeltaOf | None]) -> tuple[Cells, Cells, float, Cells]:
        """Orders, what bounds all that are smaller, what the number of runs adds at the best one, and delta at each:
        whatever orders are asked, which must not decide each other's bits."""
        grid = ORDERS[ORDERS < 1e5]
        rows = np.stack([grid, *self._parts(grid, *asked)])
        for _ in range(_ROUNDS):  # finer where the least values are
            grid, value, added, _ = rows
            best = {int(self._found(grid, value, added, added.min()).argmin()), int(added.argmin())}
            ends = [(float(grid[max(i - 1, 0)]), float(grid[min(i + 1, grid.size - 1)])) for i in best]
            finer = np.setdiff1d([np.linspace(low, high, _FINER) for low, high in ends], grid)
            rows = np.concatenate([rows, [finer, *self._parts(finer, *asked)]], axis=1)
            rows = rows[:, np.argsort(rows[0])]
        grid, value, added, delta = rows
        found, least = self._found(grid, value, added, added.min()), float(added.min())
        return grid, np.append(np.minimum.accumulate(found[::-1])[::-1], math.inf), least, delta

    def _parts(
        self, at: Cells, relation: Relation, delta_of: DeltaOf | None, most: Cells | None = None
    ) -> tuple[Cells, Cells, Cells]:
        """The divergence of one run, what the number of runs adds, and delta, by which they add to each order.

        `most`: delta is at most that, which is enough where it adds nothing.
        """
        value, a = self.job.divergence(at, relation, delta_of), at - 1.0
        if self.eta is not None:
            return value, (1.0 - 1.0 / at) * value - _log_share(self.eta, self.mean) / at, np.zeros(at.size)
        assert delta_of is not None
        delta = np.ones(at.size) if most is None else most.copy()
        if (counts := self.mean * delta > 1e-14 * value).any():
            delta[counts] = delta_of(self.job, np.log1p(1.0 / a[counts]), relation)
        return value, value + self.mean * delta + math.log(self.mean) / a, delta

    def _found(self, at: Cells, value: Cells, added: Cells, least: float) -> Cells:
        """The bound of each order, of which any order's counts may be used: its own, or the least of all."""
        if self.eta is None:
            return added
        return np.asarray(value + (1.0 + self.eta) * np.minimum(added, least) + math.log(self.mean) / (at - 1.0))


@lru_cache(maxsize=64)
def _log_share(eta: float, mean: float) -> float:
    """log gamma of the truncated negative binomial distribution with this mean, rounded down (towards more runs)."""

    def runs(log_gamma: float) -> float:
        more = -math.expm1(log_gamma) / math.exp(log_gamma)  # 1/gamma - 1
        return more / -log_gamma if eta == 0.0 else eta * more / -math.expm1(eta * log_gamma)

    low, high = -700.0, -1e-30
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if runs(middle) >= mean * (1.0 + 2e-15 - 1e-15 * middle) else (low, middle)
    return low
