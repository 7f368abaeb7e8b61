"""How tight each accountant is: its epsilon against a certified interval that contains the truth.

The truth of a run is the smallest epsilon of its privacy curve. `truth` encloses it; an accountant whose epsilon is
below the enclosure is wrong, whatever it claims, and one above it is loose by a known factor.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants import CLT, RDP, AdvancedComposition, BasicComposition, Exact, Method, ZCDPComposition
from fastacct.core.files import atomic_output
from fastacct.dpsgd import epsilon as certified_epsilon
from fastacct.dpsgd import epsilon_approx, epsilon_bounds

__all__ = [
    "REGIMES",
    "Contender",
    "Query",
    "Runs",
    "Score",
    "Summary",
    "Truth",
    "draw",
    "duration",
    "own_accountants",
    "score",
    "table",
    "truth",
    "write_csv",
]

Cells = NDArray[np.float64]
Flags = NDArray[np.bool_]
SEED: Final = 20240229
RESOLVED: Final = 1e-6
"""Relative width up to which an interval counts as the truth when a ratio is taken."""
MARGIN: Final = 1e-9
"""An epsilon this far (relative) below the lower bound is below the truth; less may be a last digit."""


class RunKeywords(TypedDict):
    """Arguments of `fastacct.dpsgd.epsilon`."""

    noise_multiplier: Cells
    sample_rate: Cells
    steps: Cells
    delta: Cells


class Query(NamedTuple):
    """One run of DP-SGD and its delta in plain numbers: the epsilon is asked for."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float


@dataclass(frozen=True)
class Runs:
    """Runs of DP-SGD as columns of equal length."""

    regime: str
    noise_multiplier: Cells
    sample_rate: Cells
    steps: Cells
    delta: Cells

    def __len__(self) -> int:
        return len(self.delta)

    def __iter__(self) -> Iterator[Query]:
        for sigma, q, steps, delta in zip(*self.columns(), strict=True):
            yield Query(float(sigma), float(q), int(steps), float(delta))

    def columns(self) -> tuple[Cells, Cells, Cells, Cells]:
        """Noise multiplier, sample rate, steps, delta."""
        return self.noise_multiplier, self.sample_rate, self.steps, self.delta

    def keywords(self) -> RunKeywords:
        """Arguments of `fastacct.dpsgd.epsilon`."""
        sigma, q, steps, delta = self.columns()
        return {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "delta": delta}

    def head(self, n: int) -> Runs:
        """The first n runs."""
        return Runs(self.regime, *(column[:n] for column in self.columns()))


@dataclass(frozen=True)
class Truth:
    """Certified lower and upper bound of the smallest epsilon, and the status of each."""

    lower: Cells
    upper: Cells
    status: NDArray[np.uint8]

    @property
    def resolved(self) -> Flags:
        """Where the interval is narrow enough for ratios, and not zero."""
        return (self.lower > 0.0) & (self.upper <= self.lower * (1.0 + RESOLVED))

    def head(self, n: int) -> Truth:
        """The first n."""
        return Truth(self.lower[:n], self.upper[:n], self.status[:n])


@dataclass(frozen=True)
class Contender:
    """An accountant under test; `epsilon` maps runs to values, NaN where it has no answer."""

    name: str
    claims_bound: bool
    """Whether it says that its epsilon is an upper bound."""
    epsilon: Callable[[Runs], Cells]


class Summary(NamedTuple):
    """One row of the table."""

    asked: int
    median: float
    ninety: float
    largest: float
    judged: int
    """How many ratios there are: answered, and the truth known to 1e-6."""
    below: int
    """How often below the lower bound."""
    smallest: float
    """Smallest value / lower bound where it is below (1 if it never is)."""
    failed: int
    seconds: float
    """Per query."""


@dataclass(frozen=True)
class Score:
    """What one accountant answered on the runs of one regime."""

    contender: str
    claims_bound: bool
    runs: Runs
    truth: Truth
    values: Cells
    """NaN where it failed."""
    seconds: float
    """All queries together."""

    @property
    def failed(self) -> Flags:
        """No finite answer where the truth is finite."""
        return ~np.isfinite(self.values) & np.isfinite(self.truth.upper)

    @property
    def below(self) -> Flags:
        """Smaller than the truth can be."""
        return self.values < self.truth.lower * (1.0 - MARGIN)

    @property
    def ratios(self) -> Cells:
        """Value / lower bound of the truth, where the truth is known and the value is finite."""
        judged = self.truth.resolved & np.isfinite(self.values)
        return np.asarray(self.values[judged] / self.truth.lower[judged])

    @property
    def summary(self) -> Summary:
        """The figures of the table."""
        ratios, below = self.ratios, self.below
        median, ninety, largest = np.quantile(ratios, [0.5, 0.9, 1.0]) if ratios.size else [math.nan] * 3
        smallest = float((self.values[below] / self.truth.lower[below]).min()) if below.any() else 1.0
        return Summary(
            len(self.runs), float(median), float(ninety), float(largest), ratios.size, int(below.sum()), smallest,
            int(self.failed.sum()), self.seconds / len(self.runs),
        )  # fmt: skip


def _log_uniform(u: Cells, low: float, high: float) -> Cells:
    return np.asarray(low * (high / low) ** u)


def _everyday(u: Cells) -> tuple[Cells, Cells, Cells, Cells]:
    rate = _log_uniform(u[:, 1], 1e-4, 0.1)
    participations = _log_uniform(u[:, 2], 1.0, 300.0)
    return 0.5 + 7.5 * u[:, 0], rate, np.ceil(participations / rate), _log_uniform(u[:, 3], 1e-9, 1e-4)


def _broad(u: Cells) -> tuple[Cells, Cells, Cells, Cells]:
    steps = np.floor(_log_uniform(u[:, 2], 1e2, 1e5))
    return _log_uniform(u[:, 0], 0.4, 8.0), _log_uniform(u[:, 1], 1e-4, 0.1), steps, _log_uniform(u[:, 3], 1e-9, 1e-4)


def _small_delta(u: Cells) -> tuple[Cells, Cells, Cells, Cells]:
    return *_everyday(u)[:3], _log_uniform(u[:, 3], 1e-16, 1e-10)


REGIMES: Final[dict[str, Callable[[Cells], tuple[Cells, Cells, Cells, Cells]]]] = {
    "everyday": _everyday,
    "broad": _broad,
    "small-delta": _small_delta,
}
"""Name -> quantiles of (noise_multiplier, sample_rate, steps, delta) from uniform numbers."""

USUAL: Final = ("everyday", "broad")
"""The regimes of a study that names none."""
DESCRIPTIONS: Final = {
    "everyday": "q 1e-4..0.1, sigma 0.5..8, 1..300 expected participations, delta 1e-9..1e-4",
    "broad": "q 1e-4..0.1, sigma 0.4..8, 100..100,000 steps whatever q, delta 1e-9..1e-4",
    "small-delta": "as everyday, with delta 1e-16..1e-10",
}


LEGEND: Final = (
    "median, 90 %, largest: epsilon / truth, where the truth is known. below truth: smaller than the certified\n"
    "lower bound by more than 1e-9, which is wrong for what claims to be a bound. smallest: epsilon / lower bound, at\n"
    "worst. failed: an exception, NaN or infinity where a finite epsilon exists. per query: ours in one array call,\n"
    "one thread."
)


def draw(regime: str, n: int, seed: int = SEED) -> Runs:
    """Draw n random runs of a regime (a name in `REGIMES`); row i depends on the seed and i alone.

    Examples
    --------
    >>> len(draw("broad", 10))
    10
    """
    if regime not in REGIMES:
        raise ValueError(f"regime = {regime!r}: must be one of {', '.join(REGIMES)}")
    if n < 1:
        raise ValueError(f"n = {n}: must be at least 1")
    return Runs(regime, *REGIMES[regime](np.random.default_rng(seed).random((n, 4))))


def truth(runs: Runs, threads: int | None = None) -> Truth:
    """Enclose the smallest epsilon of each run: certified on both sides, for add/remove neighbours, Poisson sampling.

    Examples
    --------
    >>> bounds = truth(draw("everyday", 3))
    >>> bool((bounds.lower <= bounds.upper).all())
    True
    """
    return Truth(*epsilon_bounds(**runs.keywords(), threads=threads))


def own_accountants(threads: int | None = 1) -> list[Contender]:
    """The accountants of fastacct, tightest first; one thread each, so that times compare.

    Examples
    --------
    >>> [contender.name for contender in own_accountants()][:2]
    ['exact', 'RDP, optimal conversion']
    """

    def contender(name: str, accountant: Method) -> Contender:
        def epsilon(runs: Runs) -> Cells:
            function = certified_epsilon if accountant.certified else epsilon_approx
            return np.asarray(function(**runs.keywords(), accountant=accountant, threads=threads))

        return Contender(name, accountant.certified, epsilon)

    return [
        contender("exact", Exact()),
        contender("RDP, optimal conversion", RDP(conversion="optimal")),
        contender("RDP", RDP()),
        contender("RDP, Mironov's conversion", RDP(conversion="mironov")),
        contender("zCDP", ZCDPComposition()),
        contender("advanced composition", AdvancedComposition()),
        contender("basic composition", BasicComposition()),
        contender("CLT (approximation)", CLT()),
    ]


def score(contender: Contender, runs: Runs, bounds: Truth) -> Score:
    """Ask one accountant for the epsilon of every run, once, and keep the time.

    Examples
    --------
    >>> runs = draw("everyday", 5)
    >>> score(own_accountants()[2], runs, truth(runs)).summary.below
    0
    """
    contender.epsilon(runs.head(1))  # what is loaded or filled once is not the price of a query
    start = time.perf_counter()
    values = contender.epsilon(runs)
    seconds = time.perf_counter() - start
    if not len(values) == len(runs) == len(bounds.lower):
        raise ValueError(f"{contender.name}: {len(values)} values, {len(runs)} runs, {len(bounds.lower)} bounds")
    return Score(contender.name, contender.claims_bound, runs, bounds, values, seconds)


# fmt: off
HEADER: Final = ("accountant", "a bound?", "runs", "median", "90 %", "largest", "below truth", "smallest", "failed",
                 "per query")
COLUMNS: Final = ("regime", "run", "noise_multiplier", "sample_rate", "steps", "delta", "epsilon_lower",
                  "epsilon_upper", "accountant", "claims_bound", "epsilon", "ratio", "below_truth")
# fmt: on


def table(scores: Sequence[Score]) -> list[list[str]]:
    """One row of text per accountant, under `HEADER`, for the scores of one regime."""
    rows = []
    for entry in scores:
        found = entry.summary
        share = [f"{count / found.asked:.1%}" if count else "0" for count in (found.below, found.failed)]
        # a bound below the truth is a wrong answer; an approximation only shows what it is
        below = share[0] + (" WRONG" if found.below and entry.claims_bound else "")
        ratios = [ratio_text(value) for value in (found.median, found.ninety, found.largest)]
        smallest = ratio_text(found.smallest) if found.below else "-"
        claim = "yes" if entry.claims_bound else "no"
        rows.append(
            [entry.contender, claim, f"{found.asked:,}", *ratios, below, smallest, share[1], duration(found.seconds)]
        )
    return rows


def ratio_text(ratio: float) -> str:
    """A ratio in three digits; close to 1, what it is above or below 1.

    Examples
    --------
    >>> ratio_text(1.25), ratio_text(1 + 3e-10), ratio_text(12345.6), ratio_text(1.0)
    ('1.25', '1+3e-10', '12,346', '1')
    """
    if math.isnan(ratio):
        return "-"
    if ratio == 1.0:
        return "1"
    if abs(ratio - 1.0) < 5e-3:
        return f"1{ratio - 1.0:+.0e}"
    return f"{ratio:,.0f}" if ratio >= 1000.0 else f"{ratio:.3g}"


def duration(seconds: float) -> str:
    """Seconds in three digits with a fitting unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def write_csv(scores: Sequence[Score], path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write every value of every accountant, one row per run and accountant; whole or not at all."""
    target = Path(path)
    with atomic_output(target, overwrite=overwrite) as temporary, temporary.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for entry in scores:
            known, bounds = entry.truth.resolved, entry.truth
            for number, run in enumerate(entry.runs):
                value, lower = float(entry.values[number]), float(bounds.lower[number])
                asked = entry.runs.regime, number, *run, lower, float(bounds.upper[number])
                answered = not math.isnan(value)
                ratio = value / lower if answered and known[number] else ""
                said = (value, ratio, int(entry.below[number])) if answered else ("", "", "")
                rows.writerow([*asked, entry.contender, int(entry.claims_bound), *said])
    return target
