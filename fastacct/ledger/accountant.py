"""Running totals: what has been spent, and what may still be run, for plans fixed in advance and for adaptive ones."""

from __future__ import annotations

import copy
import json
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self, Unpack

from fastacct.accountants.question import Job, as_process
from fastacct.accountants.run import Parameters, job_or_run
from fastacct.calibrate import calibrate
from fastacct.core.html import table
from fastacct.core.inputs import SHARE, Domain, as_choice, as_number
from fastacct.core.kept import Guarded
from fastacct.core.relations import Relation, as_relation
from fastacct.core.search import boundary
from fastacct.core.words import hinting, told_names
from fastacct.epsilon import epsilon
from fastacct.ledger.filters import ENDLESS, UNIT, Filter
from fastacct.ledger.state import decoded, encoded, refuse_changed, sealed
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process

_VERSION: Final = 1  # of the JSON state
_FORMAT: Final = "fastacct.Accountant"
_SETTINGS: Final = ("epsilon", "delta", "filter", "order", "neighbors")
_FILTERS: Final = ("none", "gdp", "zcdp", "rdp")
_EPSILON: Final = Domain(0.0, 1e12, open_low=True)
_MOST: Final = 2**53 - 1
_COUNT: Final = Domain(0.0, float(_MOST), integer=True)
_HINTS: Final = {
    **dict.fromkeys(("step", "spend", "add", "record", "update"), "use compose(job, count)"),
    **dict.fromkeys(("get_epsilon", "get_privacy_spent", "epsilon"), "use spent(), and budget for the limit"),
    **dict.fromkeys(("history", "mechanisms", "steps"), "use ledger, the process of all that was recorded"),
    **dict.fromkeys(("remaining_epsilon", "left"), "use remaining_budget(), or remaining(job)"),
    **dict.fromkeys(("can_spend", "check", "allows"), "use would_exceed(job)"),
    **dict.fromkeys(("to_dict", "save", "dump", "write", "state_dict"), "to_json() has all of it"),
    **dict.fromkeys(("load", "from_dict"), "use fastacct.Accountant.from_json(text)"),
}
_AHEAD: Final = 4
"""A check looks this many times as far ahead as the ledger has grown since the last one."""


class BudgetExceededError(ValueError):
    """The job does not fit into the budget; nothing has been recorded.

    Examples
    --------
    >>> import fastacct as fa
    >>> budget = fa.Accountant(epsilon=1.0, delta=1e-6)
    >>> try:
    ...     budget.compose(fa.Laplace(0.5))
    ... except fa.BudgetExceededError:
    ...     print(budget.spent())
    0.0
    """


@dataclass(slots=True)
class _Entry:
    """One line of a ledger."""

    count: int
    cost: int  # what one release adds to the sum, in units


_Steps = list[tuple[Mechanism, _Entry, int]]
_Counts = dict[Mechanism, int]


class Accountant(Guarded):
    """A budget (epsilon, delta), the ledger of what has been run, and whether more may be run.

    **Guarantee.** What has been composed never exceeds the budget: a step is checked before it is recorded, and refused
    with `BudgetExceededError`.  With `filter="none"` the plan must be fixed in advance (the data may choose the inputs
    of a mechanism, not which one runs or when to stop): the certified epsilon of the whole ledger is what counts.  The
    other filters hold for steps chosen adaptively, parameters and number included:

    =========  =====================================================  ========================================
    filter     what adds up                                           source
    =========  =====================================================  ========================================
    "gdp"      mu^2 of Gaussian mechanisms                            Smith, Thakurta 2022; Koskela et al. 2023
    "zcdp"     rho of what is zero-concentrated                       Feldman, Zrnic 2021; Whitehouse et al. 2023
    "rdp"      the Rényi divergence at one `order`, fixed in advance  Feldman, Zrnic 2021
    =========  =====================================================  ========================================

    Each step's cost is rounded up once and the sums are exact, so the order of steps changes nothing; recording a step
    takes a time that does not depend on how many there have been.

    **Threads and processes.** Checking and recording are one atomic step: any number of threads may share an
    accountant.  An exception out of `compose`, Ctrl-C included, means that the step must not be run; what it may leave
    behind overstates what has been spent, never the reverse.  A forked or pickled accountant is a copy with a ledger of
    its own: processes that run steps on the same data must ask one of them, or divide the budget.

    Parameters
    ----------
    epsilon, delta : float, optional
        Budget, delta in (0, 1).  Without epsilon the accountant is a ledger that refuses nothing.
    filter : {"none", "gdp", "zcdp", "rdp"}
    order : float, optional
        Of filter "rdp"; default: the best one for a Gaussian that spends the budget at once.
    neighbors : str
        As in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    >>> budget.compose(fa.Gaussian(1.0).poisson(0.01), 1000)
    >>> round(budget.spent(), 4)
    1.8282
    >>> budget.would_exceed(fa.Laplace(1.0) * 3)
    True
    >>> budget.remaining(fa.Gaussian(1.0).poisson(0.01))
    1666
    >>> sigma = budget.calibrate(lambda s: fa.Gaussian(s).poisson(0.01) * 3000)
    >>> fa.Accountant.from_json(budget.to_json()).spent() == budget.spent()
    True
    """

    if not TYPE_CHECKING:
        __getattr__ = hinting(_HINTS)

    @told_names
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        filter: str = "none",
        order: float | None = None,
        neighbors: Relation = "add_remove",
    ) -> None:
        self.budget: Final = None if epsilon is None else as_number("epsilon", epsilon, _EPSILON)
        self.delta: Final = None if delta is None else as_number("delta", delta, SHARE)
        if self.delta == 1.0:
            raise ValueError("delta = 1.0 is out of range; allowed: (0, 1)")
        if self.budget is not None and self.delta is None:
            raise TypeError("a budget is (epsilon, delta): give delta too")
        self.filter: Final = as_choice("filter", filter, _FILTERS)
        self.neighbors: Final = as_relation(neighbors)
        if order is not None and filter != "rdp":
            raise ValueError(f"order = {order!r} goes with filter = 'rdp'")
        self._adds = None if filter == "none" else Filter(filter, self.budget, self.delta, order, self.neighbors)
        self.order: Final = self._adds.order if self._adds else math.nan
        self._busy = False
        self._sum = 0
        self._built: Process | None = None
        self._entries: dict[Mechanism, _Entry] = {}
        self._known: tuple[_Counts, _Counts] = {}, {}
        """The ledger at the last check, and a ledger, nowhere smaller, that is known to fit."""
        self._guard()

    @property
    def ledger(self) -> Process:
        """Everything that has been recorded."""
        with self._lock:
            self._built = self._built or Process(self._counts())
            return self._built

    def compose(self, job: Job | None = None, count: int = 1, **run: Unpack[Parameters]) -> None:
        """Check, then record `count` times a job, or a run of DP-SGD by its keywords; one atomic step.

        Raises
        ------
        BudgetExceededError
            Where it does not fit.  Nothing has been recorded then.
        RuntimeError
            When called by what is running inside `compose`, such as a signal handler.
        """
        job = job_or_run(job, run)
        with self._lock:
            if self._busy:
                raise RuntimeError("compose was called from inside compose of the same accountant; nothing is recorded")
            self._busy = True
            try:
                steps = self._steps(job, count)
                if not self._fits(steps, record=True):
                    budget = f"epsilon = {self.budget!r} at delta = {self.delta!r} (filter {self.filter!r})"
                    raise BudgetExceededError(f"{count!r} times {job!r} does not fit: {budget} would be exceeded")
                self._record(steps)
            finally:
                self._busy = False

    def would_exceed(self, job: Job | None = None, count: int = 1, **run: Unpack[Parameters]) -> bool:
        """Whether `compose` would refuse, as things stand."""
        job = job_or_run(job, run)
        with self._lock:
            return not self._fits(self._steps(job, count), record=False)

    def spent(self, delta: float | None = None) -> float:
        """Certified epsilon of the ledger, as a plan fixed in advance; with a filter: that of the sum so far.

        With a filter this is what has been spent if one stops now for reasons that do not depend on the outputs; use
        `odometer` for a bound that holds at all times at once.
        """
        at, total = self._at(delta), self._sum
        found = self._adds.epsilon(total, at) if self._adds else self._epsilon(self.ledger, at)
        if self.budget is None or at != self.delta:
            return found
        proved = self._adds.room(total) >= 0 if self._adds else bool(self._known[1])
        return min(found, self.budget) if proved else found

    def odometer(self, delta: float | None = None) -> float:
        """An epsilon that bounds the privacy loss at all times at once, with probability 1 - delta.

        **Guarantee.** For filters "rdp" and "zcdp" ("gdp" counts as zero-concentrated): the probability that the loss
        ever exceeds the value shown at that time is at most delta, however the steps and the moment of looking are
        chosen.  exp((order - 1) (loss - sum of divergences)) is a supermartingale, and Ville's inequality gives
        sum + log(1/delta)/(order - 1) at one order; for zCDP a grid of 32 orders shares delta.
        """
        at = self._at(delta)
        if self._adds is None:
            raise ValueError("an odometer needs a filter: 'gdp', 'zcdp' or 'rdp'")
        return self._adds.odometer(self._sum, at)

    def remaining(self, job: Job | None = None, **run: Unpack[Parameters]) -> int:
        """How many more times a job, or a run by its keywords, fits."""
        budget, job = self._needed(), job_or_run(job, run)
        with self._lock:
            steps, counts, total = self._steps(job, 1), self._counts(), self._sum
        most = min(((_MOST - counts.get(one, 0)) // times for one, _, times in steps), default=_MOST)
        if self._adds:
            cost, room = _cost(steps), self._adds.room(total)
            return 0 if room < 0 else min(most, room // cost) if cost else most

        def exceeds(n: int) -> bool:
            more = {one: counts.get(one, 0) + n * times for one, _, times in steps}
            return self._epsilon(Process(counts | more)) > budget

        high = 1
        while high <= most and not exceeds(high):
            high *= 2
        return bisect_left(range(most + 1), True, high // 2 + 1, min(high, most + 1), key=exceeds) - 1

    def remaining_budget(self) -> float:
        """What the filter's sum may still grow by: mu^2, rho or a divergence; "none": epsilon less `spent`."""
        budget = self._needed()
        if self._adds is None:
            return max(0.0, budget - self.spent())
        return max(0, self._adds.room(self._sum)) / UNIT * (1.0 - 1e-15)

    def calibrate(self, build: Callable[[float], Job], bracket: tuple[float, float] | None = None) -> float:
        """The number x for which the rest of the run, `build(x)`, just fits, given the history.

        **Guarantee.** Safe side: `build` at the x returned fits.  Arguments as in `fastacct.calibrate`.
        """
        budget = self._needed()
        if self._adds is None:
            history, target, relation = self.ledger, self.delta, self.neighbors
            return calibrate(
                lambda x: history + build(x), epsilon=budget, delta=target, neighbors=relation, bracket=bracket
            )
        room = self._adds.room(self._sum)

        def level(x: float) -> float:
            cost = _cost(self._steps(build(x), 1))
            if cost >= ENDLESS or cost <= 0 or room <= 0:
                return 50.0 if cost > room else -50.0
            excess = math.log(cost) - math.log(room)
            return max(excess, 1e-17) if cost > room else min(excess, 0.0)

        return boundary(level, bracket, f"a sum of at most {room / UNIT!r}")

    def copy(self) -> Self:
        """An accountant with the same budget and history, and a ledger of its own from here on."""
        return copy.copy(self)

    def to_json(self) -> str:
        """The state; floating-point numbers keep all their digits."""
        rows = [{"mechanism": encoded(one), "count": count} for one, count in self._counts().items()]
        order = self.order if self.filter == "rdp" else None
        settings = (self.budget, self.delta, self.filter, order, self.neighbors)
        state = {"format": _FORMAT, "version": _VERSION, **dict(zip(_SETTINGS, settings, strict=True)), "ledger": rows}
        return json.dumps(sealed(state), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The accountant whose state it is, bit for bit; ValueError for what is no state, damaged or not known.

        States of versions without a checksum are taken as they are.
        """
        if not isinstance(text, str | bytes | bytearray):
            raise TypeError(f"text must be the JSON that to_json returned, not {type(text).__name__}")
        try:
            state = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not the state of an accountant: {error}") from error
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ValueError(f"not the state of an accountant: its format must be {_FORMAT!r}")
        version = state.get("version")
        if type(version) is not int or version != _VERSION:
            raise ValueError(f"version = {version!r} of the state is not known; allowed: {_VERSION}")
        try:
            refuse_changed(state, "the state of an accountant is damaged: ")
            made = cls(**{name: state[name] for name in _SETTINGS})
            for row in state["ledger"]:
                steps = made._steps(decoded(row["mechanism"]), row["count"])
                if _cost(steps) >= ENDLESS:
                    raise ValueError("the state of an accountant is damaged: its ledger costs infinitely much")
                made._record(steps)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"the state of an accountant is damaged: {error!r}") from error
        return made

    def __repr__(self) -> str:
        return (
            f"Accountant(epsilon={self.budget!r}, delta={self.delta!r}, filter={self.filter!r}, "
            f"neighbors={self.neighbors!r}, ledger of {sum(self._counts().values())} releases)"
        )

    def _repr_html_(self) -> str:
        return table(repr(self), self._counts().items(), ("mechanism", "releases"))

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            entries = {one: replace(entry) for one, entry in self._entries.items()}
            return {**self.__dict__, "_entries": entries, "_lock": None, "_built": None, "_busy": False}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._guard()

    def _forget(self) -> None:
        self._busy, self._built = False, None

    def _counts(self) -> _Counts:
        with self._lock:
            return {one: entry.count for one, entry in self._entries.items()}

    def _at(self, delta: float | None) -> float:
        if delta is None and self.delta is None:
            raise TypeError("delta is missing: this accountant was made without one")
        return as_number("delta", self.delta if delta is None else delta, SHARE)

    def _needed(self) -> float:
        if self.budget is None:
            raise ValueError("this accountant is a ledger without a budget; make one with epsilon and delta")
        return self.budget

    def _steps(self, job: Job, count: int) -> _Steps:
        """What would be added to which entries."""
        found: _Steps = []
        times = count if type(count) is int and 0 <= count <= _MOST else int(as_number("count", count, _COUNT))
        for one, each in ((job, 1),) if isinstance(job, Mechanism) else as_process(job):
            entry = self._entries.get(one)
            if one.shape or not isinstance(each, int):
                raise TypeError(f"an accountant records jobs in plain numbers, not {job!r}")
            if entry is None:
                entry = _Entry(0, self._adds.cost(one) if self._adds and times else 0)
            if (total := entry.count + each * times) > _MOST:
                raise ValueError(f"count = {total} is out of range, of {one!r} in the ledger; allowed: {_COUNT}")
            if times:
                found.append((one, entry, each * times))
        return found

    def _fits(self, steps: _Steps, *, record: bool) -> bool:
        """Whether steps fit; what is found out on the way is kept if they are to be recorded."""
        if self._adds:
            return self._adds.room(self._sum + _cost(steps)) >= 0
        if self.budget is None:
            Process((one, 1) for one, _, _ in steps).refuse(self.neighbors)
            return True
        last, known = self._known
        after = {one: entry.count + n for one, entry, n in steps}
        if all(n <= known.get(one, 0) for one, n in after.items()):
            return True
        whole = self._counts() | after
        if record and after.keys() <= self._entries.keys():  # seen before: more of the same may follow
            more = {one: min(n + _AHEAD * max(0, n - last.get(one, 0)), _MOST) for one, n in whole.items()}
            if self._epsilon(Process(more)) <= self.budget:
                self._known = whole, more
                return True
        if (fits := self._epsilon(Process(whole)) <= self.budget) and record:
            self._known = whole, whole
        return fits

    def _record(self, steps: _Steps) -> None:
        """The sum first: what an interrupt or a fork leaves behind in between overstates what has been spent."""
        try:
            self._sum += _cost(steps)
            for one, entry, times in steps:
                entry.count += times
                self._entries[one] = entry
        finally:
            self._built = None

    def _epsilon(self, job: Process, delta: float | None = None) -> float:
        return float(epsilon(job, delta=self._at(delta), neighbors=self.neighbors))


def _cost(steps: _Steps) -> int:
    """What steps add to the sum, in units."""
    return sum([times * entry.cost for _, entry, times in steps])
