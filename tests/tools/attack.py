"""Random jobs of all mechanisms, samplers, relations and verbs: what no answer may do, asked of thousands.

    python -m tests.attack --jobs 3000 --seed 1 --processes 2

Job i has the seed SEED + i, whatever the number of processes.  Each is asked for epsilon and delta, and for some of the
other verbs, alone and in arrays of targets and of parameters.  A fault is one of

* crash: an exception that is not a refusal, which is a ValueError, TypeError or OverflowError that a `raise` of the
  package made (no class of its own that is not public); a warning; a process that ended
* slow: an answer of more than `SECONDS` of processor time
* bits: a cell of an array that is not, bit for bit, what is said of it alone (where that is not TIGHT: above it)
* order: lower above upper; delta that rises with epsilon; what Rényi DP says below the lower bound; ...
* part: a composition below one of its parts, or below itself with one release less
* target: a calibrated number that misses its target
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import itertools
import linecache
import math
import multiprocessing
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.random_jobs import Draws, between, random_job

import fastacct as fa

SECONDS = 10.0
LISTED = 2.0
"""Answers of more processor time are listed at the end."""
_HANGS = 2.0
"""Times `SECONDS` of processor time a cell after which an answer is given up."""
_DEAD = 1200.0
"""Seconds of wall clock after which a process ends that does not even hear the signal."""
_QUESTIONS = 4
"""How many verbs a job is asked beside epsilon and delta."""
_WORK = 40.0
"""Processor time after which a job is asked no more."""
_RENEWED = 20
"""Jobs for each process after which they are renewed: what they have kept takes gigabytes after hundreds of jobs."""
ROUNDING = 1e-9
_HERE = os.path.dirname(fa.__file__)
_PUBLIC = (ValueError, TypeError, OverflowError, fa.BudgetExceededError)


class SlowError(BaseException):
    """An answer that took too long; no `except Exception` of the package may hide it."""


class GivenUpError(Exception):
    """A question without an answer: refused, or a fault that has been written down."""


@dataclass
class Report:
    """What was seen of one job."""

    seed: int
    about: str = ""
    faults: list[tuple[str, str]] = field(default_factory=list)
    answers: collections.Counter[str] = field(default_factory=collections.Counter)
    refusals: collections.Counter[str] = field(default_factory=collections.Counter)
    times: list[tuple[float, str]] = field(default_factory=list)

    def fault(self, kind: str, what: str) -> None:
        self.faults.append((kind, what))


def is_refusal(error: BaseException) -> bool:
    """Whether the package refused in words: a public class of error, made by one of its own `raise` statements."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if type(error) not in _PUBLIC or at is None:
        return False
    name = at.tb_frame.f_code.co_filename
    if name.endswith((".pyx", ".pxi")):
        return True
    return name.startswith(_HERE) and linecache.getline(name, at.tb_lineno).lstrip().startswith("raise")


def _place(error: BaseException) -> str:
    """File and line of the innermost frame."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else f" [{os.path.relpath(at.tb_frame.f_code.co_filename, _HERE)}:{at.tb_lineno}]"


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _same(one: Any, other: Any) -> bool:
    """Equal bit for bit, field by field.

    Where an answer alone is not TIGHT, that among others may have the upper bound of a harder target: delta falls.
    """
    if isinstance(other, fa.Bounds) and other.status != fa.Status.TIGHT and one[1] <= other.upper:
        one = (one[0], other.upper, other.status)
    pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
    return all(np.array_equal(np.asarray(a, float), np.asarray(b, float), equal_nan=True) for a, b in pairs)


def _cell(found: Any, index: int) -> Any:
    """One cell of the answer to an array."""
    if isinstance(found, tuple):
        return tuple(np.asarray(one).flat[index] for one in found)
    return np.asarray(found).flat[index]


class Attack:
    """The questions about one job."""

    def __init__(
        self, seed: int, rng: np.random.Generator | None = None, parts: Any = None, relation: str = ""
    ) -> None:
        self.rng = np.random.default_rng(seed) if rng is None else rng
        self.report = Report(seed)
        self.given = parts
        self.size = 0
        if parts is None:
            self.size = int(self.rng.choice([0, 2, 3]))
            self.parts, self.relation = self.drawn(0)
        else:
            self.parts, self.relation = parts, relation
        self.told = {"neighbors": self.relation}
        self.job = fa.Process(self.parts)
        self.report.about = f"{self.relation}, {self.parts}"
        self.found: dict[float, Any] = {}

    def drawn(self, only: int | None) -> tuple[Any, str]:
        """The parts, made anew: of all cells, or of one."""
        if self.given is not None:
            return self.given, self.relation
        return random_job(np.random.default_rng([self.report.seed, 1]), self.size, only)

    def again(self, only: int | None) -> Any:
        """The job without what has been kept of it."""
        return fa.Process(self.drawn(only)[0])

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(self, text: str, call: Callable[[], Any], cells: int = 1, *, must: bool = False) -> Any:
        """An answer, with the processor time that it took; GivenUpError where there is none."""
        report, verb = self.report, re.sub(r"\(.*\)(?=\.|$)|\(.*", "", text)
        most, rung = _HANGS * SECONDS * cells, []

        def ring(*_: Any) -> None:
            rung.append(True)
            raise SlowError

        start = time.process_time()
        before = signal.signal(signal.SIGPROF, ring)
        faulthandler.dump_traceback_later(_DEAD, exit=True)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                signal.setitimer(signal.ITIMER_PROF, most)
                try:
                    return call()
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0.0)
        except SlowError:
            report.fault("slow", f"{text}: no answer in {most:g} s of processor time")
            raise GivenUpError from None
        except Exception as error:
            if is_refusal(error) and not must:
                report.refusals[f"{verb}: {_without_numbers(str(error))}"] += 1
            else:
                report.fault("crash", f"{text}: {type(error).__name__}: {error}{_place(error)}")
            raise GivenUpError from None
        finally:
            signal.signal(signal.SIGPROF, before)
            faulthandler.cancel_dump_traceback_later()
            seconds = (time.process_time() - start) / cells
            report.answers[verb] += cells
            report.times.append((seconds, text))
            if seconds > SECONDS and not rung:
                report.fault("slow", f"{text}: {seconds:.1f} s")
            for one in warned:
                report.fault("crash", f"{text}: {one.category.__name__}: {one.message}")

    def put(self, verb: str, *values: Any, job: Any = None, must: bool = False, **told: Any) -> Any:
        """The answer of a verb about the job (or another one) under its relation."""
        told = {**told, **self.told}
        name = "job" if job is None else repr(job) if job is not self.many else "jobs"
        written = [name, *map(repr, map(_plain, values)), *(f"{k}={_plain(v)!r}" for k, v in told.items())]
        cells = max(np.size(one) for one in (0.0, *values, *told.values()) if not isinstance(one, str | fa.Method))
        if name == "jobs":
            cells = max(cells, self.size)
        at = self.job if job is None else job
        return self.ask(
            f"fa.{verb}({', '.join(written)})", lambda: getattr(fa, verb)(at, *values, **told), cells, must=must
        )

    many: Any = object()
    """The job with arrays of parameters."""

    def check(self, right: bool, kind: str, what: str) -> None:
        if not right:
            self.report.fault(kind, what)

    def ordered(self, found: Any, what: str, most: float = math.inf) -> None:
        low, high = np.asarray(found[0], float), np.asarray(found[1], float)
        self.check(bool(((low >= 0.0) & (low <= high) & (high <= most)).all()), "order", f"{what}: {found}")

    # -- what every job is asked --------------------------------------------------------------------------------------

    def base(self) -> None:
        """Epsilon at two deltas, delta there, a part of the job, and Rényi DP."""
        deltas = sorted({between(self.rng, 1e-300, 0.9), between(self.rng, 1e-12, 0.9)})
        found = self.found
        for delta in deltas:
            found[delta] = self.put("epsilon_bounds", delta=delta, must=True)
            self.ordered(found[delta], f"epsilon at delta {delta!r}")
        for low, high in itertools.pairwise(deltas):
            self.check(
                found[high].upper <= found[low].upper * (1.0 + ROUNDING) + 1e-300,
                "order",
                f"epsilon rises with delta: {found[low]} at {low!r}, {found[high]} at {high!r}",
            )
        delta = deltas[-1]
        self._of_delta(delta, *found[delta][:2])
        self._of_part(delta, found[delta].upper)
        renyi = self.put("epsilon", delta=delta, accountant=fa.RDP(), must=True)
        self.check(
            found[delta].lower <= renyi * (1.0 + ROUNDING),
            "order",
            f"the lower bound {found[delta].lower!r} at delta {delta!r} is above what Rényi DP says, {renyi!r}",
        )

    def _of_delta(self, delta: float, lower: float, upper: float) -> None:
        if not 0.0 < upper < math.inf:
            return
        at = np.array([lower, upper, upper * 1.2])
        both = self.put("delta_bounds", epsilon=at, must=True)
        self.ordered(both, f"delta at epsilon {at.tolist()}", 1.0)
        low, high, _ = both
        self.check(
            not (high[1:] > high[:-1] * (1.0 + ROUNDING)).any(),
            "order",
            f"delta rises with epsilon: {high} at {at.tolist()}",
        )
        self.check(
            low[1] <= delta * (1.0 + ROUNDING),
            "order",
            f"delta at epsilon(delta) is {low[1]!r} at least, above {delta!r}",
        )
        self.check(
            lower == 0.0 or high[0] >= delta * (1.0 - ROUNDING),
            "order",
            f"delta at the lower bound {lower!r} of epsilon({delta!r}) is {high[0]!r} at most",
        )

    def _of_part(self, delta: float, upper: float) -> None:
        rng, parts = self.rng, self.parts
        at = int(rng.integers(len(parts)))
        mechanism, count = parts[at]
        fewer = (
            [parts[at]]
            if len(parts) > 1 and rng.random() < 0.5
            else [*parts[:at], (mechanism, count - 1), *parts[at + 1 :]]
        )
        one = self.put("epsilon_bounds", job=fa.Process(fewer), delta=delta, must=True)
        self.check(
            one.lower <= upper * (1.0 + ROUNDING),
            "part",
            f"{upper!r} at delta {delta!r} is below its part {fewer}: {one}",
        )

    @property
    def point(self) -> tuple[float, float]:
        """A delta in the middle, and an epsilon that the job has about there."""
        delta = max(self.found)
        upper = float(self.found[delta].upper)
        return delta, upper if 0.0 < upper < 1e6 else 1.0

    def targets(self, name: str) -> float:
        """A target of an everyday size, or one far away."""
        rng, (delta, epsilon) = self.rng, self.point
        near: dict[str, Callable[[], float]] = {
            "delta": lambda: between(rng, 1e-14, 0.9),
            "epsilon": lambda: epsilon * between(rng, 0.05, 5.0),
            "orders": lambda: 1.0 + between(rng, 0.01, 300.0),
            "fpr": lambda: between(rng, 1e-9, 0.99),
            "members": lambda: float(rng.uniform(0.01, 0.99)),
        }
        far = {
            "delta": (delta, 0.0, 1.0, 1e-320, 1e-150, 1e-5),
            "epsilon": (epsilon, 0.0, 1.0, 20.0, 300.0, 1e4, 1e-6),
            "orders": (1.0, 1.2, 2.0, 3.0, 64.0, 1e4, math.inf),
            "fpr": (0.0, 1.0, 0.5, 1e-300, 0.01),
            "members": (0.0, 1.0, 0.5, 1e-12),
        }
        return near[name]() if rng.random() < 0.6 else float(Draws(rng).pick(far[name]))

    # -- other questions ----------------------------------------------------------------------------------------------

    def arrays(self, verb: str, name: str, **told: Any) -> None:
        """Several targets at once, or an array of jobs, or both, against one cell alone."""
        size = self.size
        by_jobs = bool(size) and self.rng.random() < 0.6
        length = size if by_jobs else int(self.rng.integers(2, 5))
        values = np.array([self.targets(name) for _ in range(length)])
        if by_jobs and self.rng.random() < 0.5:
            values[:] = values[0]
        at = int(self.rng.integers(length))
        target = float(values[at])
        jobs = self.again(None) if by_jobs else None
        self.many, only = jobs if by_jobs and jobs.shape else object(), at if by_jobs else 0
        by_name = name in ("delta", "epsilon", "members")
        several, single = (((), {name: v}) if by_name else ((v,), {}) for v in (values, target))
        alone = self.again(only)
        if not by_jobs and not size:
            alone = fa.Process(self.drawn(0)[0])
        one = self.put(verb, *single[0], job=alone, **single[1], **told, threads=1)
        found = self.put(verb, *several[0], job=jobs, **several[1], **told, threads=2)
        self.check(
            _same(_cell(found, at), one),
            "bits",
            f"fa.{verb} at {name}={values.tolist()}{' of an array of jobs' if by_jobs else ''}, {told}: "
            f"cell {at} is {_cell(found, at)}, alone {one} of {alone}",
        )
        if verb.endswith("_bounds") and verb != "log_delta_bounds":
            self.ordered(found, f"fa.{verb} at {name}={values.tolist()}")

    def calibrate_noise(self) -> None:
        delta, epsilon = self.point
        more = int(self.rng.integers(1, 200))
        target = epsilon * between(self.rng, 1.01, 3.0)
        x = self._calibrated(
            f"lambda s: job + fa.Gaussian(s) * {more}",
            lambda s: self.job + fa.Gaussian(s) * more,
            epsilon=target,
            delta=delta,
        )
        found = self.put("epsilon", job=self.job + fa.Gaussian(x) * more, delta=delta)
        self.check(found <= target, "target", f"noise {x!r}, {more} releases: epsilon {found!r}, target {target!r}")

    def calibrate_count(self) -> None:
        delta, epsilon = self.point
        target = epsilon * between(self.rng, 1.0, 8.0)
        n = self._calibrated(
            "lambda n: job * n", lambda n: self.job * int(n), epsilon=target, delta=delta, bracket=(1, 10_000)
        )
        found = self.put("epsilon", job=self.job * n, delta=delta)
        self.check(found <= target, "target", f"{n!r} times the job: epsilon {found!r}, target {target!r}")

    def calibrate_attack(self) -> None:
        goal: dict[str, float] = {"advantage": float(self.rng.uniform(0.05, 0.9))}
        if self.rng.random() < 0.5:
            fpr = between(self.rng, 1e-6, 0.3)
            goal = {"tpr": fpr + (1.0 - fpr) * float(self.rng.uniform(0.02, 0.8)), "fpr": fpr}
        made = self.parts[0][0]
        self._calibrated(
            f"lambda s: fa.Process([({made!r}, 1)]) + fa.Gaussian(s) * 20",
            lambda s: fa.Process([(made, 1)]) + fa.Gaussian(s) * 20,
            **goal,
        )

    def _calibrated(self, written: str, build: Callable[[Any], Any], **told: Any) -> Any:
        told |= self.told
        text = ", ".join([written, *(f"{k}={v!r}" for k, v in told.items())])
        return self.ask(f"fa.calibrate({text})", lambda: fa.calibrate(build, **told))

    def fit(self) -> None:
        floor = float(Draws(self.rng).pick((1e-10, 1e-6, 1e-15, 1e-3)))
        found = self.put("gdp", delta_floor=floor)
        self.check(0.0 <= found.mu_lower <= found.mu, "order", f"gdp: {found}")
        if 0.0 < found.mu < math.inf:
            epsilon = self.point[1] * between(self.rng, 0.1, 3.0)
            low = self.put("delta_lower", epsilon=epsilon)
            most = max(float(fa.delta(fa.GDP(found.mu), epsilon=epsilon)), floor)
            self.check(low <= most * (1.0 + 1e-6), "order", f"delta at {epsilon!r} is {low!r} at least, and {found}")

    def loss(self) -> None:
        """One or two facts about the privacy loss as a random variable."""
        ways = [one for one in ("remove", "add") if all(one in m.relations for m, _ in self.parts)]
        if not ways:
            return
        way = str(self.rng.choice(ways))
        told = f"fa.privacy_loss(job, neighbors={way!r})"
        loss = self.ask(told, lambda: fa.privacy_loss(self.again(0), neighbors=way), must=True)
        order = float(Draws(self.rng).pick((0.0, 0.5, 1.5, 2.0, 5.0, 64.0, math.inf)))
        chance = between(self.rng, 1e-12, 0.9)
        facts: dict[str, Callable[[Any], Any]] = {
            "mean": lambda one: one.mean,
            "variance": lambda one: one.variance,
            f"divergence({order!r})": lambda one: one.divergence(order),
            f"quantile({chance!r})": lambda one: one.quantile(chance),
            "exceeds": lambda one: one,
            "concentration": lambda one: one.concentration,
        }
        for name in self.rng.choice(list(facts), size=2, replace=False):
            if name == "exceeds":
                self._exceeds(told, way)
                continue
            found = self.ask(f"{told}.{name}", lambda name=name: facts[name](loss), must=True)
            if name == "concentration":
                self.check(found.mu >= 0.0 and found.tau >= 0.0, "order", f"{told}.concentration: {found}")
            else:
                low = found.lower >= 0.0 or name.startswith("quantile")
                self.check(low and found.lower <= found.upper, "order", f"{told}.{name}: {found}")
            if name.startswith("divergence") and order >= 1.0:
                most = self.ask(f"fa.rdp(job, {order!r})", lambda: fa.rdp(self.job, order, neighbors=way))
                self.check(found.lower <= most * (1.0 + ROUNDING), "order", f"{told}.{name}: {found}, rdp {most!r}")

    def _exceeds(self, told: str, way: str) -> None:
        values = np.array([self.targets("epsilon") * float(self.rng.choice([1, 1, -1])) for _ in range(3)])
        several, single = (fa.privacy_loss(self.again(0), neighbors=way) for _ in range(2))
        found = self.ask(f"{told}.exceeds({values.tolist()})", lambda: several.exceeds(values), 3, must=True)
        self.ordered(found, f"{told}.exceeds({values.tolist()})", 1.0)
        one = self.ask(f"{told}.exceeds({float(values[1])!r})", lambda: single.exceeds(float(values[1])), must=True)
        self.check(_same(_cell(found, 1), one), "bits", f"{told}.exceeds({values.tolist()}): cell 1 of {found}, {one}")

    def why(self) -> None:
        delta, epsilon = self.point
        asked = {"delta": delta} if self.rng.random() < 0.5 else {"epsilon": epsilon}
        str(self.put("explain", **asked, must=True))

    def grids(self) -> None:
        delta, _ = self.point
        pld = self.put("epsilon_bounds", delta=delta, accountant=fa.PLD())
        self.check(
            self.found[delta].lower <= pld.upper * (1.0 + ROUNDING) and pld.lower <= pld.upper,
            "order",
            f"PLD at {delta!r}: {pld}, exact {self.found[delta]}",
        )

    def sides(self) -> None:
        """The verbs for one side, and a smaller or a larger relation."""
        delta, epsilon = self.point
        upper, lower = (self.put(verb, delta=delta, must=True) for verb in ("epsilon", "epsilon_lower"))
        self.check(lower <= upper, "order", f"epsilon {upper!r} below epsilon_lower {lower!r} at {delta!r}")
        upper, lower = (self.put(verb, epsilon=epsilon, must=True) for verb in ("delta", "delta_lower"))
        self.check(lower <= upper, "order", f"delta {upper!r} below delta_lower {lower!r} at {epsilon!r}")
        self.ordered(self.put("advantage_bounds", must=True), "advantage", 1.0)

    def group(self) -> None:
        size = int(self.rng.integers(2, 5))
        delta, _ = self.point
        job = self.ask(f"job.group({size})", lambda: self.job.group(size))
        found = self.put("epsilon_bounds", job=job, delta=delta)
        self.check(
            self.found[delta].lower <= found.upper * (1.0 + ROUNDING),
            "part",
            f"a group of {size} has {found} at {delta!r}, one record {self.found[delta]}",
        )

    def sample(self) -> None:
        rate = between(self.rng, 1e-3, 1.0)
        delta, _ = self.point
        job = self.ask(f"job.poisson({rate!r})", lambda: self.job.poisson(rate))
        found = self.put("epsilon_bounds", job=job * 3, delta=delta)
        one = self.put("epsilon_bounds", job=job, delta=delta)
        self.check(
            one.lower <= found.upper * (1.0 + ROUNDING), "part", f"three samples {found}, one {one} at {delta!r}"
        )

    def report_of(self) -> None:
        delta, _ = self.point
        str(self.put("report", delta=delta))

    def budget(self) -> None:
        """An account that is charged the parts one by one, saved and loaded."""
        delta, _ = self.point
        account = fa.Accountant(**self.told)
        for mechanism, count in self.parts:
            self.ask(f"account.compose({mechanism!r}, {count})", lambda m=mechanism, n=count: account.compose(m, n))
        loaded = self.ask("Accountant.from_json", lambda: fa.Accountant.from_json(account.to_json()))
        one, other = (
            self.ask(f"account.spent({delta!r})", lambda a=a: a.spent(delta), must=True) for a in (account, loaded)
        )
        self.check(_same(one, other), "bits", f"an account has spent {one!r} at {delta!r}, and {other!r} when loaded")
        self.check(
            self.found[delta].lower <= one, "order", f"an account has spent {one!r} at {delta!r}, {self.found[delta]}"
        )

    # -- runs of DP-SGD -----------------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        d = Draws(self.rng)
        sampling = str(
            d.pick(("poisson", "fixed_size", "with_replacement", "truncated", "cyclic", "allocation", "shuffled"))
        )
        records = int(d.pick((1000, 10_000, 50_000, 60_000)))
        batch = d.whole(1, 20) * int(d.pick((1, 16)))
        run: dict[str, Any] = {"noise_multiplier": d.one(0.5, 5.0), "records": records, "batch_size": batch}
        run |= {"epochs": d.whole(1, 30), "sampling": sampling, "neighbors": self.relation}
        if sampling == "truncated":
            run["at_most"] = 2 * batch + 20
        if sampling == "cyclic":
            run["bands"] = d.whole(1, 8)
        if sampling in ("allocation", "shuffled") and d.rng.random() < 0.3:
            run["bins"] = "persistent"
        return run

    def _dpsgd(self, verb: str, run: dict[str, Any], cells: int = 1, **told: Any) -> Any:
        told = {**run, **told}
        written = ", ".join(f"{name}={_plain(value)!r}" for name, value in told.items())
        return self.ask(f"fa.dpsgd.{verb}({written})", lambda: getattr(fa.dpsgd, verb)(**told), cells)

    def dpsgd(self) -> None:
        run, delta = self.run(), between(self.rng, 1e-12, 1e-3)
        found = self._dpsgd("epsilon_bounds", run, delta=delta)
        self.ordered(found, f"fa.dpsgd.epsilon_bounds of {run} at {delta!r}")
        quantity, name = Draws(self.rng).pick(
            (("epsilon_bounds", "delta"), ("delta_bounds", "epsilon"), ("rdp_bounds", "orders"))
        )
        values = np.array([self.targets(name) for _ in range(3)])
        noise = run["noise_multiplier"] * np.array([1.0, 3.0, 0.7])
        several = {**run, "noise_multiplier": noise} if self.rng.random() < 0.5 else run
        many = self._dpsgd(quantity, several, 3, **{name: values})
        one = self._dpsgd(quantity, run, **{name: float(values[0])})
        self.check(
            _same(_cell(many, 0), one),
            "bits",
            f"fa.dpsgd.{quantity} of {several} at {name}={values.tolist()}: cell 0 is {_cell(many, 0)}, alone {one}",
        )

    def plan(self) -> None:
        """Noise, rate or steps of a run of DP-SGD, after other releases or without."""
        run, delta = self.run(), between(self.rng, 1e-10, 1e-4)
        wanted = str(Draws(self.rng).pick(("noise_multiplier", "noise_multiplier", "steps", "sample_rate")))
        target = between(self.rng, 0.3, 12.0)
        if wanted == "steps":
            del run["epochs"]
        if wanted == "sample_rate":
            run = {
                k: v
                for k, v in run.items()
                if k not in ("batch_size", "records", "sampling", "at_most", "bands", "bins")
            }
        if wanted == "noise_multiplier":
            del run["noise_multiplier"]
        more: dict[str, Any] = {}
        if self.rng.random() < 0.3 and self.point[1] < target:
            more["after"] = self.job
        found = self._dpsgd(wanted, run, epsilon=target, delta=delta, **more)
        if more or not 0.0 < found < math.inf:
            return
        reached = self._dpsgd("epsilon", {**run, wanted: found}, delta=delta)
        self.check(reached <= target, "target", f"{wanted} {found!r} of {run}: epsilon {reached!r}, target {target!r}")

    def all(self) -> Report:
        """Everything about the job."""
        with suppress(GivenUpError):
            self.base()
        if not self.found:
            return self.report
        names = self.rng.choice(len(OTHERS), size=_QUESTIONS, replace=False, p=_WEIGHTS)
        for index in names:
            if sum(seconds for seconds, _ in self.report.times) > _WORK:
                break
            with suppress(GivenUpError):
                list(OTHERS.values())[index][1](self)
        return self.report


OTHERS: dict[str, tuple[float, Callable[[Attack], None]]] = {
    "epsilons": (3.0, lambda a: a.arrays("epsilon_bounds", "delta")),
    "deltas": (3.0, lambda a: a.arrays("delta_bounds", "epsilon")),
    "upper epsilons": (1.0, lambda a: a.arrays("epsilon", "delta")),
    "upper deltas": (1.0, lambda a: a.arrays("delta", "epsilon")),
    "log deltas": (1.0, lambda a: a.arrays("log_delta_bounds", "epsilon")),
    "Rényi": (2.0, lambda a: a.arrays("rdp_bounds", "orders")),
    "upper Rényi": (1.0, lambda a: a.arrays("rdp", "orders")),
    "epsilons by Rényi": (1.0, lambda a: a.arrays("epsilon", "delta", accountant=fa.RDP())),
    "deltas by Rényi": (1.0, lambda a: a.arrays("delta", "epsilon", accountant=fa.RDP())),
    "epsilons by PLD": (1.0, lambda a: a.arrays("epsilon_bounds", "delta", accountant=fa.PLD())),
    "deltas by PLD": (1.0, lambda a: a.arrays("delta_bounds", "epsilon", accountant=fa.PLD())),
    "trade-off": (1.5, lambda a: a.arrays("tradeoff_bounds", "fpr")),
    "convex trade-off": (0.5, lambda a: a.arrays("tradeoff", "fpr", envelope="convex")),
    "hits": (1.5, lambda a: a.arrays("tpr_at_fpr_bounds", "fpr")),
    "risk": (1.0, lambda a: a.arrays("bayes_risk_bounds", "members")),
    "sides": (1.0, Attack.sides),
    "calibrated noise": (1.0, Attack.calibrate_noise),
    "calibrated count": (1.0, Attack.calibrate_count),
    "calibrated attack": (1.0, Attack.calibrate_attack),
    "Gaussian fit": (2.0, Attack.fit),
    "privacy loss": (3.0, Attack.loss),
    "explain": (1.0, Attack.why),
    "grid": (1.0, Attack.grids),
    "group": (1.0, Attack.group),
    "sample": (1.0, Attack.sample),
    "report": (0.5, Attack.report_of),
    "budget": (0.5, Attack.budget),
    "DP-SGD": (2.0, Attack.dpsgd),
    "plan": (2.0, Attack.plan),
}
_WEIGHTS = np.array([weight for weight, _ in OTHERS.values()]) / sum(weight for weight, _ in OTHERS.values())


def _without_numbers(text: str) -> str:
    """A refusal without what differs between jobs, and short."""
    return re.sub(r"\b\d[\w.+-]*", "#", text)[:110]


def one_job(seed: int) -> Report:
    """All about one random job; what breaks the harness is a fault of its own."""
    try:
        return Attack(seed).all()
    except Exception as error:  # the harness itself, or a question that was put wrongly
        report = Report(seed)
        report.fault("harness", f"{type(error).__name__}: {error}{_place(error)}")
        return report


def asked(seeds: Sequence[int], processes: int, ask: Callable[[int], Report] = one_job) -> Iterator[Report]:
    """The reports in order of the seeds; a process that ends is a fault of the job that ended it."""
    left = collections.deque(seeds)
    while left:
        try:
            for ended in _in_order(itertools.islice(left, _RENEWED * processes), processes, ask):
                left.popleft()
                yield ended
        except BrokenProcessPool:
            yield _alone(left.popleft(), ask)


def _in_order(seeds: Iterable[int], processes: int, ask: Callable[[int], Report]) -> Iterator[Report]:
    waiting: collections.deque[Future[Report]] = collections.deque()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for seed in list(seeds):
            waiting.append(pool.submit(ask, seed))
            if len(waiting) > 4 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _alone(seed: int, ask: Callable[[int], Report]) -> Report:
    try:
        return next(_in_order([seed], 1, ask))
    except BrokenProcessPool:
        report = Report(seed)
        report.fault("crash", "the process ended")
        return report


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    faults: collections.Counter[str] = collections.Counter()
    answers: collections.Counter[str] = collections.Counter()
    refusals: collections.Counter[str] = collections.Counter()
    slow = []
    for done, report in enumerate(asked(range(given.seed, given.seed + given.jobs), given.processes), start=1):
        answers += report.answers
        refusals += report.refusals
        slow += [(seconds, report.seed, text, report.about) for seconds, text in report.times if seconds > LISTED]
        for kind, what in report.faults:
            faults[kind] += 1
            print(f"{kind}: seed {report.seed}, {report.about}: {what}", flush=True)
        if done % 50 == 0:
            print(f"{done} jobs, {answers.total()} answers, {faults.total()} faults", flush=True)
    print(f"\nrefused, {refusals.total()} times:")
    for text, count in refusals.most_common():
        print(f"{count:6d}  {text}")
    print(f"\nabove {LISTED:g} s of processor time, {len(slow)} answers:")
    for seconds, seed, text, about in sorted(slow, reverse=True):
        print(f"{seconds:6.1f}  seed {seed}: {text} of {about}")
    print("\nanswers: " + ", ".join(f"{verb} {count}" for verb, count in answers.most_common()))
    kinds = ", ".join(f"{kind} {count}" for kind, count in faults.most_common()) or "none"
    print(f"{given.jobs} jobs, {answers.total()} answers, faults: {kinds}")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
