"""What a comparison found, as data, and as a Markdown page and plain tables of it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.agreement import Agreement
from bench.stamp import measured_with
from bench.timing import duration

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, header, rows."""


@dataclass(frozen=True)
class Race:
    """One task against one peer; seconds per configuration."""

    task: str
    peer: str
    n_peer: int
    n_ours: int
    theirs: float
    ours: float
    target: float | None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    @property
    def verdict(self) -> str:
        if self.target is None:
            return "-"
        return "met" if self.ratio >= self.target else "MISSED"


@dataclass(frozen=True)
class Duel:
    """The exact accountant against one other on the same configurations; mean seconds of one."""

    task: str
    regime: str
    peer: str
    n: int
    peer_failed: int
    theirs: float
    alone: float
    """Ours, one call after the other."""
    together: float
    """Ours, one array call."""

    @property
    def ratio_alone(self) -> float:
        return self.theirs / self.alone

    @property
    def ratio_together(self) -> float:
        return self.theirs / self.together


@dataclass(frozen=True)
class Spread:
    """Exact epsilons of one regime; seconds per configuration."""

    regime: str
    n: int
    """Of an array call."""
    together: float
    """Mean of an array call."""
    n_single: int
    """Of calls with plain numbers, one after the other."""
    mean: float
    median: float
    high: float
    """99 % of them."""
    largest: float
    largest_of_all: float
    """Of all passes, not of the least of each configuration."""
    empty: float
    """An empty call."""


@dataclass(frozen=True)
class Regime:
    """Where we are slow: seconds per configuration of `epsilon`, ours on one thread."""

    name: str
    ours: float
    optimal: float
    peers: dict[str, float]


@dataclass(frozen=True)
class Fact:
    """One measured number with its target, both as text."""

    what: str
    value: str
    target: str
    met: bool | None


@dataclass
class Findings:
    command: str
    peers: dict[str, str]
    """Name and version of those by Renyi DP that are asked everything."""
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float] = (0.0, 0.0, 0.0)
    agreements: list[Agreement] = field(default_factory=list)
    other_peers: dict[str, str] = field(default_factory=dict)
    duels: list[Duel] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    regimes: list[Regime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _relative(value: float) -> str:
    return f"{value - 1.0:+.1e}" if abs(value - 1.0) < 0.01 else f"{value:.4g}x"


def tables(found: Findings) -> list[Table]:
    """All results, in reading order."""
    races = [
        (
            r.task,
            r.peer,
            duration(r.theirs),
            duration(r.ours),
            f"{r.ratio:,.0f}",
            "-" if r.target is None else f"{r.target:,.0f}",
            r.verdict,
            f"{r.n_peer:,} / {r.n_ours:,}",
        )
        for r in found.races
    ]
    duels = [
        (
            d.task,
            d.regime,
            d.peer,
            f"{d.n:,} ({d.peer_failed} failed)",
            duration(d.theirs),
            duration(d.alone),
            f"{d.ratio_alone:,.0f}",
            duration(d.together),
            f"{d.ratio_together:,.0f}",
        )
        for d in found.duels
    ]
    spreads = [
        (
            s.regime,
            f"{s.n:,}",
            duration(s.together),
            f"{s.n_single:,}",
            *(duration(x) for x in (s.mean, s.median, s.high, s.largest, s.largest_of_all)),
        )
        for s in found.spreads
    ]
    values = [
        (
            a.quantity,
            a.peer,
            a.regime,
            f"{a.total:,}",
            f"{a.equal:,}",
            f"{a.above:,}",
            f"{a.below_truth:,}",
            f"{a.failed:,}",
            _relative(a.median_ratio),
            f"{_relative(a.worst[0])} at {a.worst[1]}" if a.below_truth else "-",
        )
        for a in found.agreements
    ]
    facts = [(f.what, f.value, f.target, "-" if f.met is None else ("met" if f.met else "MISSED")) for f in found.facts]
    regimes = [
        (
            r.name,
            duration(r.ours),
            duration(r.optimal),
            *(f"{duration(r.peers[p])} ({r.peers[p] / r.ours:,.0f}x)" if p in r.peers else "-" for p in found.peers),
        )
        for r in found.regimes
    ]
    return [
        (
            "Exact accountant beside others: mean time of the same configurations",
            (
                "task",
                "configurations",
                "peer",
                "n",
                "peer",
                "fastacct, one by one",
                "ratio",
                "fastacct, array call",
                "ratio",
            ),
            duels,
        ),
        (
            "Exact accountant alone: time per configuration",
            (
                "configurations",
                "array call of",
                "mean",
                "one by one",
                "mean",
                "median",
                "99 %",
                "maximum",
                "longest call",
            ),
            spreads,
        ),
        (
            "Renyi DP: time per configuration",
            ("task", "peer", "peer", "fastacct", "ratio", "target", "", "configurations: peer / fastacct"),
            races,
        ),
        ("fastacct alone", ("what", "measured", "target", ""), facts),
        (
            "Values, compared before timing",
            (
                "quantity",
                "peer",
                "configurations",
                "values",
                "equal to 1e-9",
                "peer looser",
                "peer below truth",
                "peer failed",
                "median peer / ours",
                "worst peer / truth",
            ),
            values,
        ),
        (
            "Where Renyi DP is slow: epsilon by regime, one thread",
            ("regime", "fastacct", 'conversion="optimal"', *found.peers),
            regimes,
        ),
    ]


def facts_of_the_run(found: Findings) -> list[str]:
    from fastacct_ext import _kernels

    peers = ", ".join(f"{name} {v}" for name, v in (found.other_peers | found.peers).items()) or "none installed"
    before, after = (", ".join(f"{x:.2f}" for x in load) for load in (found.load_before, found.load_after))
    return [
        f"command: `{found.command}`",
        f"date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"processor: {cpu_model()}, {os.cpu_count()} cores, instruction set level {_kernels.level()}",
        "times: processor time of one thread each, unless wall time is said",
        f"load average (1, 5, 15 minutes) before: {before}; after: {after}",
        f"versions: Python {platform.python_version()}, NumPy {_version('numpy')}, {measured_with()}, {peers}",
    ]


def markdown(found: Findings) -> str:
    lines = ["# Side by side with other libraries", "", "Written by `python -m bench.compare`; do not edit.", ""]
    lines += [f"* {fact}" for fact in facts_of_the_run(found)]
    for title, header, rows in tables(found):
        if rows:
            lines += ["", f"## {title}", "", f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
            lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", "## How to read this", ""]
    lines += [f"* {note}" for note in found.notes]
    return "\n".join(lines) + "\n"


def show(found: Findings) -> None:
    """Tables on the terminal: with rich where it is installed, plain otherwise."""
    print("\n".join(facts_of_the_run(found)))
    for title, header, rows in tables(found):
        if not rows:
            continue
        try:
            from rich.console import Console
            from rich.table import Table as RichTable
        except ImportError:
            print(f"\n{title}\n" + "\n".join("  ".join(row) for row in (header, *rows)))
            continue
        table = RichTable(*header, title=title)
        for row in rows:
            table.add_row(*row)
        Console(width=None if sys.stdout.isatty() else 220).print(table)
