"""Scores of accountants: their epsilons against a certified interval that contains the truth.

The truth of a run is the smallest epsilon of its privacy curve. `truth` encloses it; an accountant whose epsilon is
below the enclosure is wrong, whatever it claims, and one above it is loose by a known factor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants import CLT, RDP, AdvancedComposition, BasicComposition, Exact, Method, ZCDPComposition
from fastacct.cli.answers import render
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import Cells, as_choice
from fastacct.core.record import Compared
from fastacct.dpsgd import epsilon, epsilon_approx, epsilon_bounds
from fastacct.plot.figures import LARGE, MEDIUM, NARROWEST, SMALL, log_scale, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Flags = NDArray[np.bool_]
SEED: Final = 20240229
RESOLVED: Final = 1e-6
"""Relative width up to which an interval counts as the truth when a ratio is taken."""
MARGIN: Final = 1e-9
"""An epsilon this far (relative) below the lower bound is below the truth; less may be a last digit."""
REGIMES: Final = {
    "everyday": "q 1e-4..0.1, sigma 0.5..8, 1..300 expected participations, delta 1e-9..1e-4, all log-uniform",
    "broad": "q 1e-4..0.1, sigma 0.4..8, 100..100,000 steps whatever q, delta 1e-10..1e-4, all log-uniform",
    "small-delta": "as everyday, with delta 1e-16..1e-10",
}
USUAL: Final = ("everyday", "broad")
"""The regimes of a study that names none."""
WRONG, BOUND, GUESS = "#b23a00", "#0072b2", "#009e73"
"""Colours that people tell apart (Okabe, Ito; red darker, for text): below the truth, bounds, no bounds."""
RATIOS: Final = (0.4, 300.0)
"""What a picture shows of epsilon / truth."""


class Query(NamedTuple):
    """One run of DP-SGD and its delta in plain numbers: the epsilon is asked for."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float


class Runs(Compared):
    """Runs of DP-SGD as columns of equal length."""

    regime: str
    noise_multiplier: Cells
    sample_rate: Cells
    steps: Cells
    delta: Cells

    def __len__(self) -> int:
        return len(self.delta)

    def __iter__(self) -> Iterator[Query]:
        for sigma, q, steps, delta in zip(*self.keywords().values(), strict=True):
            yield Query(float(sigma), float(q), int(steps), float(delta))

    def keywords(self) -> dict[str, Cells]:
        """Arguments of `fastacct.dpsgd.epsilon`."""
        return {name: getattr(self, name) for name in Query._fields}

    def head(self, n: int) -> Runs:
        """The first n runs."""
        return Runs(self.regime, *(column[:n] for column in self.keywords().values()))


class Truth(NamedTuple):
    """Certified lower and upper bound of the smallest epsilon."""

    lower: Cells
    upper: Cells

    @property
    def resolved(self) -> Flags:
        """Where the interval is narrow enough for ratios, and not zero."""
        return (self.lower > 0.0) & (self.upper <= self.lower * (1.0 + RESOLVED))

    def head(self, n: int) -> Truth:
        """The first n."""
        return Truth(self.lower[:n], self.upper[:n])


class Contender(NamedTuple):
    """An accountant under test, whether it claims that its epsilon is an upper bound, and its epsilons (NaN: none)."""

    name: str
    claims_bound: bool
    epsilon: Callable[[Runs], Cells]


class Summary(NamedTuple):
    """The figures of a score, explained in `LEGEND`."""

    asked: int
    judged: int
    median: float
    ninety: float
    largest: float
    below: int
    smallest: float
    failed: int
    seconds: float


class Score(Compared):
    """What one accountant answered on the runs of one regime (NaN where it failed), and the seconds of all queries."""

    contender: str
    claims_bound: bool
    runs: Runs
    truth: Truth
    values: Cells
    seconds: float

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
        median, ninety, largest = (np.quantile(ratios, [0.5, 0.9, 1.0]) if ratios.size else np.full(3, np.nan)).tolist()
        smallest = float((self.values[below] / self.truth.lower[below]).min(initial=1.0))
        failed = int((~np.isfinite(self.values) & np.isfinite(self.truth.upper)).sum())
        counts = {"asked": len(self.runs), "judged": ratios.size, "below": int(below.sum()), "failed": failed}
        quantiles = {"median": median, "ninety": ninety, "largest": largest, "smallest": smallest}
        return Summary(**counts, **quantiles, seconds=self.seconds / len(self.runs))


LEGEND: Final = (
    "asked: runs. judged: ratios, where there is an answer and the truth is known to 1e-6. median, ninety (percent),\n"
    "largest: epsilon / truth. below: answers smaller than the certified lower bound by more than 1e-9, wrong for\n"
    "what claims to be a bound; smallest: epsilon / lower bound, at worst (1: never below). failed: an exception,\n"
    "NaN or infinity where a finite epsilon exists. seconds: per query; ours in one array call, one thread."
)


def draw(regime: str, n: int, seed: int = SEED) -> Runs:
    """Draw n random runs of a regime (a name in `REGIMES`); row i depends on the seed and i alone.

    Examples
    --------
    >>> len(draw("broad", 10))
    10
    """
    as_choice("regime", regime, tuple(REGIMES))
    if n < 1:
        raise ValueError(f"n = {n}: must be at least 1")
    u = np.random.default_rng(seed).random((n, 4)).T

    def spread(place: int, low: float, high: float) -> Cells:
        return np.asarray(low * (high / low) ** u[place])

    rate = spread(1, 1e-4, 0.1)
    if regime == "broad":
        return Runs(regime, spread(0, 0.4, 8.0), rate, np.floor(spread(2, 1e2, 1e5)), spread(3, 1e-10, 1e-4))
    delta = spread(3, 1e-16, 1e-10) if regime == "small-delta" else spread(3, 1e-9, 1e-4)
    return Runs(regime, spread(0, 0.5, 8.0), rate, np.ceil(spread(2, 1.0, 300.0) / rate), delta)


def truth(runs: Runs, threads: int | None = None) -> Truth:
    """Enclose the smallest epsilon of each run: certified on both sides, for add/remove neighbours, Poisson sampling.

    Examples
    --------
    >>> bounds = truth(draw("everyday", 3))
    >>> bool((bounds.lower <= bounds.upper).all())
    True
    """
    ask: Callable[..., Bounds] = epsilon_bounds
    return Truth(*ask(**runs.keywords(), threads=threads)[:2])


def own_accountants(threads: int | None = 1) -> list[Contender]:
    """The accountants of fastacct, tightest first; one thread each, so that times compare.

    Examples
    --------
    >>> [contender.name for contender in own_accountants()][:2]
    ['exact', 'RDP, optimal conversion']
    """
    accountants: dict[str, Method] = {
        "exact": Exact(),
        "RDP, optimal conversion": RDP(conversion="optimal"),
        "RDP": RDP(),
        "RDP, Mironov's conversion": RDP(conversion="mironov"),
        "zCDP": ZCDPComposition(),
        "advanced composition": AdvancedComposition(),
        "basic composition": BasicComposition(),
        "CLT (approximation)": CLT(),
    }

    def ask(accountant: Method, runs: Runs) -> Cells:
        verb: Callable[..., float | Cells] = epsilon if accountant.certified else epsilon_approx
        return np.asarray(verb(**runs.keywords(), accountant=accountant, threads=threads))

    return [Contender(name, one.certified, partial(ask, one)) for name, one in accountants.items()]


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


def table(scores: Sequence[Score]) -> list[dict[str, object]]:
    """One row per score; the columns are explained in `LEGEND`."""
    return [
        {"regime": one.runs.regime, "accountant": one.contender, "claims_bound": one.claims_bound}
        | one.summary._asdict()
        for one in scores
    ]


def report(studies: Mapping[str, Sequence[Score]]) -> str:
    """The table of a study, and what its columns and regimes are."""
    rows = [row for scores in studies.values() for row in table(scores)]
    return "\n".join([render(rows), LEGEND, *(f"{regime}: {REGIMES[regime]}" for regime in studies)])


def picture(studies: Mapping[str, Sequence[Score]]) -> Figure:
    """Draw how far the epsilon of each accountant is from the truth, one panel per regime of {regime: scores}.

    Ratios are taken where the truth is known to 1e-6; what is left of the line is below the truth. ValueError without
    any score.
    """
    names = list(dict.fromkeys(entry.contender for scores in studies.values() for entry in scores))
    if not names:
        raise ValueError("studies is empty: nothing to draw")
    figure, axes = new_figure(max(NARROWEST, 4.8 * len(studies)), 1.6 + 0.28 * len(names), 1, len(studies), share=True)
    for axis, (regime, scores) in zip(axes, studies.items(), strict=True):
        log_scale(axis, axis.xaxis, *RATIOS)
        axis.axvspan(RATIOS[0], 1.0, color=WRONG, alpha=0.15, linewidth=0)
        axis.axvline(1.0, color="black", linewidth=0.8)
        for entry in scores:
            _draw_ratios(axis, names.index(entry.contender), entry)
        axis.set_title(f"{regime} runs", fontsize=MEDIUM)
        axis.text(1.035, 1.02, "median", transform=axis.transAxes, fontsize=SMALL, va="bottom")
    axes[0].set_yticks(range(len(names)), labels=names, fontsize=SMALL)
    for label in axes[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == "exact" else "normal")
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    words = "dot: median; thick: 10 to 90 %; thin: all; arrow: goes on"
    figure.supxlabel(rf"$\varepsilon$ / exact $\varepsilon$ ({words})", fontsize=MEDIUM)
    figure.suptitle("How tight each accountant is (shaded: below the truth)", fontsize=LARGE)
    return figure


def _draw_ratios(axis: Axes, row: int, entry: Score) -> None:
    found, ratios = entry.summary, np.clip(entry.ratios, *RATIOS)
    color = "black" if entry.contender == "exact" else BOUND if entry.claims_bound else GUESS
    notes = []
    if ratios.size:
        low, ten, median, ninety, high = np.quantile(ratios, (0.0, 0.1, 0.5, 0.9, 1.0))
        axis.plot([low, high], [row, row], color=color, linewidth=1.0)
        axis.plot([ten, ninety], [row, row], color=color, linewidth=5.0, solid_capstyle="butt")
        shape = ">" if median >= RATIOS[1] else "o"
        axis.plot([median], [row], shape, color="white", markeredgecolor=color, markersize=5, clip_on=False)
        for end, arrow in ((low, "<"), (high, ">")):
            if end in RATIOS and end != median:
                axis.plot([end], [row], arrow, color=color, markersize=5, clip_on=False)
        notes = [f"{found.median:,.2f}" if found.median < 100.0 else f"{found.median:,.0f}"]
    for count, word in ((found.below, "below"), (found.failed, "fail")):
        if count:
            notes.append(f"{count} of {found.asked:,} {word}")
    if found.asked < 100 and not (found.below or found.failed):
        notes.append(f"{found.asked} runs")
    color = WRONG if found.below and entry.claims_bound else "black"
    place = axis.get_yaxis_transform()
    axis.text(1.035, row, ", ".join(notes), transform=place, va="center", fontsize=SMALL, color=color)
