"""A meter of a training run: steps are counted before they are released, and refused where the budget ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants.question import Job, as_process
from fastacct.accountants.run import Parameters, as_delta, parameters, process_of
from fastacct.core.inputs import Domain, Floats, as_number, unwrap
from fastacct.core.words import hinting
from fastacct.dpsgd import epsilon as epsilon_of_run
from fastacct.epsilon import epsilon
from fastacct.ledger.accountant import BudgetExceededError
from fastacct.ledger.state import refuse_changed, sealed
from fastacct.loaders.keywords import proved
from fastacct.loaders.objects import accumulated, seen
from fastacct.loaders.seen import Seen, UnknownLoaderError
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.training.given import counts_of, named, of_keywords, refuse_other_draws, together, total, whole
from fastacct.training.seeds import Begin, Seeds, begin_of, drawn_by

_VERSION: Final = 1  # of the state
_WHOLE: Final = Domain(1.0, 2.0**53, integer=True)
_ANY: Final = Domain(0.0, math.inf)
_MOST: Final = 2**53
_FIXED: Final = ("steps", "epochs", "history")
_LIMITS: Final = ("epsilon", "target_epsilon", "max_epsilon", "budget", "limit")
_COUNTS: Final = ("steps", "units", "in_pass")
_AHEAD: Final = 16
"""Answers at once cost less than one by one; TIGHT ones have the same bits."""
_STATE: Final = Domain(0.0, 2.0**53, integer=True)


class Meter:
    """Epsilon of a training run as it goes on, and a stop before the step that would exceed the budget.

    **Guarantee.** `epsilon` is a certified upper bound for what has been released, for the sampler and the relation
    named, rounding included; it equals that of `fastacct.dpsgd` for as many steps.  With `stop_at` it never exceeds
    that: `step` is called before the noisy gradient is used, and refuses one that would.  In the middle of a pass over
    shuffled data it is that of the whole pass.  Noise, batches and steps are fixed in advance, not chosen by the data.

    A pass over a loader that shuffles, or has a fixed order, is told by `epoch()`, since it may be left before its end:
    each that is begun counts.  `batches()` calls `epoch` and `step` by itself.  A cycle of JAX Privacy goes on
    until `epoch` is called, by `batches()` too, or a state is loaded: its groups of records are new ones then.

    Parameters
    ----------
    loader : optional
        A live loader or sampler, as in `fastacct.loader_guide`; else the keywords of `fastacct.dpsgd.epsilon` say how
        batches are drawn.
    delta : float, or "1/n"
    noise_multiplier : float, or a list of them
        Several releases of each batch, gradients first, as those and a count of the clipped, have one each.
    stop_at : float, default inf
        The budget: the largest epsilon.
    accumulate : int, default 1
        Batches whose gradients are added up before the noise, none of two passes.  Poisson samples are drawn
        independently: a record may be in several of them.
    after : job, optional
        What has been released already.
    make_private : bool
        Whether the loader is the one that Opacus' make_private is given.
    **run
        Of `fastacct.dpsgd.epsilon`: sample_rate, or records and batch_size, sampling, neighbors, accountant, ...

    Raises
    ------
    TypeError, ValueError
        Keywords that do not fit together; a loader, or a relation, of which nothing is proved.

    Examples
    --------
    >>> import fastacct as fa
    >>> meter = fa.training.Meter(noise_multiplier=1.0, sample_rate=0.01, delta=1e-6, stop_at=2.0)
    >>> while meter.remaining:
    ...     meter.step()  # then the optimizer's
    >>> meter.steps, meter.epsilon <= 2.0
    (874, True)
    >>> try:
    ...     meter.step()
    ... except fa.BudgetExceededError as error:
    ...     print(error)
    1 more step would spend epsilon 2.00063, above stop_at = 2.0; nothing was recorded
    """

    def __init__(
        self,
        loader: object = None,
        *,
        delta: float | str,
        noise_multiplier: float | Sequence[float],
        stop_at: float = math.inf,
        accumulate: int = 1,
        after: Job | None = None,
        make_private: bool = False,
        **run: Any,
    ) -> None:
        self.stop_at = stop_at
        if make_private and loader is None:
            raise TypeError("make_private says what the loader is given to: give it, too")
        self._is_private = loader is not None and bool(make_private)
        self.accumulate = int(as_number("accumulate", accumulate, _WHOLE))
        if isinstance(after, Meter):
            raise TypeError(
                "after is a meter: give the job that it counted, such as fa.Gaussian(1.0).poisson(0.01) * meter.steps"
            )
        self._loader, self._whole = loader, whole(loader)
        self._after = None if after is None else as_process(after)
        self._asked: dict[str, Any] = {
            name: run[name] for name in ("neighbors", "accountant", "threads") if name in run
        }
        given = {name: value for name, value in run.items() if name not in self._asked and value is not None}
        if several := [name for name, value in {**given, "delta": delta}.items() if np.ndim(value)]:
            value = given.get(several[0], delta)
            raise TypeError(f"{several[0]} = {value!r}: a meter counts one run, so that it must be one number")
        if beside := [name for name in given if name in _FIXED]:
            raise TypeError(f"{beside[0]} is what a meter counts: leave it out")
        if limit := [name for name in given if name in _LIMITS]:
            raise TypeError(f"{limit[0]}: the largest epsilon of a meter is stop_at")
        live = of_keywords(given) if loader is None else seen(loader, make_private=make_private)
        if loader is not None:
            proved(live, run.get("neighbors", "add_remove"))
            if twice := [name for name in given if name not in live.asks]:
                raise TypeError(f"{twice[0]} is what the loader fixes: leave it out")
            if missing := [name for name in live.asks if name not in given]:
                raise TypeError(f"the loader does not know {missing[0]}: give it, too")
        if live.batches > 1 and self.accumulate > 1:
            raise TypeError(f"accumulate is what the trainer says, {live.batches}: leave it out")
        is_poisson = not live.is_pass and live.per == 1 and live.run.get("sampling", "poisson") == "poisson"
        self._draws = self.accumulate if is_poisson else 1
        self._drawn = live
        if live.is_pass and not live.length:
            raise ValueError("the loader does not say how many batches a pass has: give the one that makes them")
        self._live = accumulated(live, self.accumulate // self._draws, loader)
        if live.most < math.inf:
            self._live = self._live._replace(most=live.most // self.accumulate)
        self.accumulate *= live.batches
        noise = together(noise_multiplier)
        self._run = given | self._live.run | {"noise_multiplier": live.share * noise}
        self.least_noise = noise_multiplier[0] if isinstance(noise_multiplier, Sequence) else noise
        """The noise multiplier that an optimizer must have at least: the first of several releases."""
        sizes = {"records": live.records if live.records is not None else given.get("records")}
        self.delta = float(unwrap(as_delta(delta, sizes)))
        self._asked["delta"] = self.delta
        self._known: dict[int, float] = {}
        self.steps = 0
        """Steps that have been recorded."""
        self._units = 0
        """What they count as: steps, cycles or passes, the last of which may be open."""
        self._size = self._live.length if self._live.is_pass else self._live.per
        self._in_pass: int | None = None
        """Steps of the pass or cycle that was begun; None where none was, or it is not known whether it goes on."""
        self._left: int | None = None
        """The same of a pass that was open when the state was saved."""
        self._named = named({})
        self._met: dict[str, tuple[int, int]] = {}  # units and steps of files when this meter met them
        self._seeds, self._uses_all = Seeds(), False
        self._epsilon_of(1)  # refused here, if at all
        is_plain = "bins" not in self._run and "accountant" not in self._asked
        self._uses_all = is_plain and self._run.get("sampling") == "shuffled"

    @property
    def stop_at(self) -> float:
        """The largest epsilon that is spent; a new one holds from the next step on."""
        return self._stop_at

    @stop_at.setter
    def stop_at(self, stop_at: float) -> None:
        self._stop_at = as_number("stop_at", stop_at, _ANY)
        self._fits: int | None = None

    __getattr__ = hinting(
        {"get_epsilon": "read epsilon", "update": "call step()", "spent": "read epsilon", "budget": "read stop_at"}
    )

    def __repr__(self) -> str:
        return f"Meter(steps={self.steps}, epsilon={self.epsilon:.6g}, delta={self.delta!r}, stop_at={self.stop_at!r})"

    @property
    def epsilon(self) -> float:
        """Certified upper bound for what has been recorded."""
        return self._epsilon_of(self._units)

    @property
    def counted(self) -> Mapping[str, object]:
        """What a step counts as, in the keywords of `fastacct.dpsgd.epsilon`."""
        return {**self._run, **self._asked}

    @property
    def waits(self) -> bool:
        """Whether a pass over the loader has to be told by `epoch` before the next step."""
        return self._live.is_pass and self._in_pass is None

    @property
    def was_open(self) -> bool:
        """Whether a pass was open when the state that was loaded was saved: `epoch(goes_on=True)` may go on with it."""
        return self._left is not None

    @property
    def remaining(self) -> int | float:
        """Steps that still fit into the budget, if passes are gone through to their ends; inf where any number does."""
        fits, own = self._fitting(), self._size - self._in_pass if self._in_pass else 0
        more = min((fits - self._units) * self._size + own, self._live.most - self.steps)
        return math.inf if fits >= _MOST and self._live.most == math.inf else max(int(more), 0)

    def epoch(self, *, goes_on: bool = False) -> None:
        """Begin a pass or a cycle; with `goes_on`, after a state was loaded, go on with the one that was open.

        A pass goes on only where the rest of the same order comes, and no batch comes twice.  Where that is not sure,
        leave it out: a new pass counts as one more.
        """
        if goes_on and self._left is None:
            raise ValueError("goes_on = True: no pass was open when the state was saved")
        self._in_pass, self._left = (self._left if goes_on else 0), None

    def step(self, steps: int = 1) -> None:
        """Record steps that are about to be released; call it before the noisy gradient is used.

        Raises
        ------
        BudgetExceededError
            Where it would exceed the budget, or the sampler draws no more batches.  Nothing has changed then.
        ValueError
            A pass that was not begun, or has fewer steps; a loader whose sampler was changed.
        """
        more, live = int(as_number("steps", steps, _WHOLE)), self._live
        if whole(self._loader) != self._whole:
            raise ValueError("the loader's sampler was changed since the meter was made: make a new meter for it")
        begun = self._in_pass or 0
        if live.is_pass:
            if self._in_pass is None:
                raise ValueError(
                    "no pass over the loader was begun: call epoch() before its first step, or use batches()"
                )
            if begun + more > live.length:
                this = f"a pass has {live.length} steps, and this would be step {begun + more}"
                raise ValueError(f"{this}: call epoch() where the next one begins")
        units = self._units - (begun > 0) - (begun + more) // -self._size
        if self.steps + more > live.most:
            raise BudgetExceededError(f"the sampler draws {live.most} batches, and no more; nothing was recorded")
        if units > self._fitting():
            words = "1 more step" if more == 1 else f"{more} more steps"
            words = "the next pass over the loader" if live.is_pass else words
            would = f"{self._epsilon_of(units):.6g}"
            raise BudgetExceededError(
                f"{words} would spend epsilon {would}, above stop_at = {self.stop_at!r}; nothing was recorded"
            )
        self.steps, self._units, self._in_pass = self.steps + more, units, (begun + more - 1) % self._size + 1

    def batches(self, loader: Iterable[Any] | None = None) -> Iterator[Any]:
        """The batches of the loader, each recorded before it is given out, until the budget ends.

        With `accumulate` a step is recorded before the first of so many batches.
        """
        if loader is None and self._is_private:
            raise TypeError("make_private returned another loader, which draws the batches: give it to batches()")
        for one in drawn_by(loader, self._run if self._loader is None or self._drawn.asks else {}):
            self.refuse_other(one)
        over = self._loader if loader is None else loader
        if not isinstance(over, Iterable):
            raise TypeError("batches() needs a loader to go through: give it here, or to Meter")
        if self._drawn.repeats and self._drawn.length % self.accumulate:
            raise ValueError(
                f"accumulate = {self.accumulate} leaves some of the {self._drawn.length} batches of a pass for the "
                "next one, where a record may come again: go through one pass at a time, without repeat()"
            )
        if self._run.get("bins") != "persistent":  # whose groups may come again
            self._draws_from(begin_of(over))
        for i, batch in enumerate(over):
            place = i % self._drawn.length if self._drawn.repeats else i
            if place == 0:
                self.epoch()
            if place % self.accumulate == 0:
                if not self.remaining:
                    return
                self.step()
            yield batch

    def refuse_other(self, loader: object) -> None:
        """Refuse a loader that draws otherwise than what is counted.

        Of a run that keywords describe, a loader of which nothing is known is taken for what they say.

        Raises
        ------
        ValueError
            Another sampler, another rate or size of its batches, or another number of steps a pass.
        """
        mine = self._drawn
        try:
            given = loader if isinstance(loader, Seen) else accumulated(seen(loader), mine.batches, loader)
        except UnknownLoaderError:
            if self._loader is not None:
                raise
            return
        if self._loader is None:
            proved(given, self._asked.get("neighbors", "add_remove"))
        refuse_other_draws(given, mine)
        proved(given, self._asked.get("neighbors", "add_remove"))
        if mine.is_pass and given.length not in (0, mine.length):
            raise ValueError(f"this loader has {given.length} steps a pass, and the meter counts {mine.length}")

    def _draws_from(self, *begins: Begin | None) -> None:
        """Note what samples and noise begin with, or refuse it."""
        for one in begins:
            self._seeds.refuse_again(one, is_counted=self.steps > 0, is_after=self._after is not None)

    def state_dict(self) -> dict[str, Any]:
        """What is kept in a checkpoint: plain numbers and words, for JSON too."""
        in_pass = (self._left if self._in_pass is None else self._in_pass) or 0
        found: dict[str, object] = dict(zip(_COUNTS, (self.steps, self._units, in_pass), strict=True))
        found |= {"version": _VERSION, "run": self._words(), "meters": counts_of(self)}
        return sealed(found | ({"seeds": sorted(marks)} if (marks := self._seeds.marks | self._seeds.theirs) else {}))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint.  A pass that was open is told by `epoch()`, or by `epoch(goes_on=True)`.

        Raises
        ------
        ValueError
            The state of another run, or a damaged one.  Nothing has changed then.
        """
        self.steps, self._units, in_pass = self._counts_in(state)
        self._named, self._met = named(state["meters"]), {}
        self._seeds.marks |= {*state.get("seeds", [])}
        self._in_pass, self._left = None, in_pass if 0 < in_pass < self._size else None

    def _counts_in(self, state: Mapping[str, object]) -> tuple[int, int, int]:
        """Steps, units and steps of an open pass that a state has; ValueError where it is not of this run."""
        if not isinstance(state, Mapping):
            raise ValueError(f"state = {state!r} is not what state_dict() returns, which is a dict")
        if state.get("version") != _VERSION or state.get("run") != self._words():
            raise ValueError(
                f"the state is of another run, {state.get('run')}, and not of {self._words()}: give what was released "
                "already as after="
            )
        try:
            steps, units, in_pass = (int(as_number(name, state[name], _STATE)) for name in _COUNTS)
            Seeds(state.get("seeds", []))
            own = total(named(state["meters"])[1])
            refuse_changed(state, needs_one=True)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: {error}") from error
        if own != (units, steps) or not -(-steps // self._size) <= units <= steps or in_pass > min(steps, self._size):
            raise ValueError("the state is damaged: its counts do not fit together")
        return steps, units, in_pass

    def _words(self) -> str:
        """The run and what was before it, for comparison."""
        before = f", after={self._after!r}" * (self._after is not None)
        parts = [f"{name}={value!r}" for name, value in sorted(self._run.items())]
        return f"{', '.join(parts)}, draws={self._draws}, per={self._live.per}, length={self._live.length}{before}"

    def _fitting(self) -> int:
        """Units that fit into the budget, found once."""
        if self._fits is None:
            top = _MOST if self._live.most == math.inf else int(self._live.most)
            low, high = (top, top + 1) if self.stop_at == math.inf else (0, 1)
            while high <= top and self._epsilon_of(high) <= self.stop_at:
                low, high = high, min(2 * high, top + 1) if high < top else top + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._epsilon_of(middle) <= self.stop_at else (low, middle)
            self._fits = low
        return self._fits

    def _epsilon_of(self, units: int) -> float:
        """Epsilon of so many steps or passes."""
        if units not in self._known:
            if self._draws != 1 or self._after is not None:
                self._known = {units: float(epsilon(self._job(units), **self._asked))}
            elif units - 1 in self._known and self._run.get("sampling") == "fixed_size":  # asked for in each step
                ahead = range(units, units + _AHEAD)
                found = epsilon_of_run(**self._of(np.array(ahead)), **self._asked)
                self._known = dict(zip(ahead, cast("Floats", found).tolist(), strict=True))
            else:
                run = self._of(units)
                if self._uses_all:  # what holds for a shuffled pass, without its lower end
                    run = {"noise_multiplier": self._run["noise_multiplier"], "sample_rate": 1.0, "steps": units}
                self._known = {units: float(epsilon_of_run(**run, **self._asked))}
        return self._known[units]

    def _of(self, units: int | NDArray[np.int64]) -> Parameters:
        """The keywords of a run of so many steps or passes."""
        return cast("Parameters", self._run | {self._live.unit: units})

    def _job(self, units: int) -> Process:
        """What has been released after so many steps or passes."""
        if self._draws == 1:
            own = process_of(self._of(units))
        else:
            noise, rate, _ = map(unwrap, parameters(self._of(units)).values())
            own = Gaussian(noise).poisson(rate, draws=self._draws) * units
        return own if self._after is None else self._after + own
