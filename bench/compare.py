"""Side by side with other libraries in one process: values first, then interleaved times.

    python -m bench.compare [--quick] [--peer-count N] [--output FILE]

Writes RESULTS.md beside this file (`--quick`: a smoke run that writes nothing unless `--output` says where).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import fastacct as fa
from bench import agreement, compare_exact, report, timing
from bench.agreement import RDP
from bench.configurations import REGIMES, Configurations, broad, everyday, tiny_rate
from bench.peers import BATCH_ADAPTERS, Batches, Peer, installed, is_installed
from bench.report import Fact, Findings, Race, Regime
from bench.timing import duration
from fastacct.core.inputs import as_threads

CURVE_ORDERS: Final = tuple([1 + x / 10.0 for x in range(1, 100)] + [float(order) for order in range(12, 64)])
"""The default orders of Opacus, for every peer."""

TARGETS: Final = {
    ("epsilon", "Opacus RDP"): 2_500.0,
    ("epsilon", "dp_accounting RDP"): 5_000.0,
    ("RDP curve", "Opacus RDP"): 500.0,
    ("RDP curve", "dp_accounting RDP"): 500.0,
    ("noise multiplier", "dp_accounting RDP"): 10_000.0,
}
"""Ratios on one thread: half of what two are to reach."""
SCALAR_TARGET: Final = 20e-6
IMPORT_TARGET: Final = 60e-3
SCALING_TARGET: Final = 1.9
PARTS: Final = ("exact", "rdp")
SHARED: Final = 100
QUIET_PAIRS: Final = 5
"""So many undisturbed pairs of runs judge the second thread; fewer do not."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    ours: int
    """Distinct configurations of one array call of fastacct."""
    values: int
    """Configurations compared with a peer before timing."""
    calls: int
    """Configurations a peer is timed on."""
    calibrations: int
    oracle: int
    rounds: int


FULL: Final = Plan(ours=100_000, values=300, calls=150, calibrations=20, oracle=24, rounds=5)
QUICK: Final = Plan(ours=5_000, values=20, calls=8, calibrations=2, oracle=2, rounds=2)


def compare_values(found: Findings, peers: list[Peer], plan: Plan) -> None:
    """Every quantity of every peer; raises `FastacctWrongError` instead of timing a wrong number."""
    excess = agreement.check_against_oracle(everyday(plan.oracle))
    found.facts.append(
        Fact(
            f"epsilon above the oracle's infimum, worst of {plan.oracle}",
            f"{max(excess):.1e} relative",
            "1e-9",
            max(excess) <= 1e-9,
        )
    )
    n = 10 * plan.values
    around = agreement.search_excess(everyday(n))
    missed, worst = float((around > agreement.TOLERANCE).mean()), float(around.max())
    found.facts.append(
        Fact(
            f"epsilon above the best order nearby by more than 1e-9, share of {n:,}",
            f"{missed:.2%}, at worst {worst:.1e}",
            "0",
            missed == 0.0,
        )
    )
    for peer in peers:
        for regime in (everyday, broad, tiny_rate):
            found.agreements.append(agreement.compare_epsilon(peer, regime(plan.values)))
        for regime in (everyday, broad, tiny_rate):
            found.agreements.append(agreement.compare_curves(peer, regime(plan.values // 4), CURVE_ORDERS))
        found.agreements.append(agreement.compare_noise_multiplier(peer, everyday(plan.calibrations)))


def _scalar_calls(n: int) -> Callable[[], None]:
    """One call of `epsilon` per configuration, in plain numbers."""
    runs = [c._asdict() for c in everyday(n)]

    def loop() -> None:
        for run in runs:
            fa.dpsgd.epsilon(**run, accountant=RDP)

    return loop


def _tasks(peer: Peer, plan: Plan) -> list[tuple[str, int, Callable[[], Any], int, Callable[[], Any]]]:
    """Task, configurations and call of the peer, configurations and call of ours."""
    few = list(everyday(plan.calls))
    fewer = everyday(plan.calibrations)
    many = everyday(plan.ours)
    run, curves, target, orders = many.run(), many.curves(), many.target(), np.asarray(CURVE_ORDERS)
    n_scalar = min(plan.ours, 5_000)

    def their_epsilon() -> None:
        for c in few:
            peer.epsilon(c.noise_multiplier, c.sample_rate, c.steps, c.delta)

    def their_curve() -> None:
        for c in few:
            peer.rdp_curve(c.noise_multiplier, c.sample_rate, CURVE_ORDERS)

    def their_search() -> None:
        for c, epsilon in zip(fewer, fewer.epsilon.tolist(), strict=True):
            peer.noise_multiplier(epsilon, c.delta, c.sample_rate, c.steps)

    return [
        (
            "epsilon",
            len(few),
            their_epsilon,
            plan.ours,
            lambda: fa.dpsgd.epsilon(**run, accountant=RDP, threads=1),
        ),
        ("RDP curve", len(few), their_curve, plan.ours, lambda: fa.dpsgd.rdp(**curves, orders=orders, threads=1)),
        (
            "noise multiplier",
            len(fewer),
            their_search,
            plan.ours,
            lambda: fa.dpsgd.noise_multiplier(**target, accountant=RDP, threads=1),
        ),
        ("epsilon, scalar call", len(few), their_epsilon, n_scalar, _scalar_calls(n_scalar)),
    ]


def time_peers(found: Findings, peers: list[Peer], plan: Plan) -> None:
    for peer in peers:
        for task, n_peer, theirs, n_ours, ours in _tasks(peer, plan):
            spans, own = timing.interleaved(theirs, ours, plan.rounds)
            found.races.append(
                Race(
                    task,
                    peer.name,
                    n_peer,
                    n_ours,
                    timing.median_cpu(spans) / n_peer,
                    timing.median_cpu(own) / n_ours,
                    TARGETS.get((task, peer.name)),
                )
            )


def time_ourselves(found: Findings, plan: Plan) -> None:
    """Scalar call, import, and what a second thread gives."""
    loop = _scalar_calls(2_000)
    loop()
    scalar = timing.median_cpu([timing.span(loop) for _ in range(plan.rounds)]) / 2_000
    found.facts.append(
        Fact(
            "scalar epsilon call, Renyi DP",
            duration(scalar),
            f"< {duration(SCALAR_TARGET)}",
            scalar < SCALAR_TARGET,
        )
    )
    base, extra = timing.import_overhead(5 * plan.rounds)
    found.facts.append(
        Fact(
            f"import fastacct after import numpy ({duration(base)})",
            duration(extra),
            f"< {duration(IMPORT_TARGET)}",
            extra < IMPORT_TARGET,
        )
    )
    if as_threads(None) < 2:
        return
    run = everyday(plan.ours).run()
    one, two = timing.interleaved(
        lambda: fa.dpsgd.epsilon(**run, accountant=RDP, threads=1),
        lambda: fa.dpsgd.epsilon(**run, accountant=RDP, threads=2),
        5 * plan.rounds,
    )
    pairs = list(zip(one, two, strict=True))
    # while something else has the other core there is nothing to judge: both calls of a pair need what they use
    quiet = [(a, b) for a, b in pairs if a.cores > 0.95 and b.cores > 1.85]
    gains = [a.wall / b.wall for a, b in quiet or pairs]
    gain = statistics.median(gains)
    what = (
        f"{len(quiet)} of {len(pairs)} pairs that had two cores" if quiet else f"{len(pairs)} pairs, none had two cores"
    )
    given = "; ".join(f"{statistics.median(s.cores for s in spans):.2f}" for spans in (one, two))
    work = "; ".join(duration(statistics.median(s.cpu for s in spans) / plan.ours) for spans in (one, two))
    found.facts += [
        Fact(
            f"epsilon, 2 threads against 1, median of {what}",
            f"{gain:.2f}x",
            f">= {SCALING_TARGET}x",
            gain >= SCALING_TARGET if len(quiet) >= QUIET_PAIRS else None,
        ),
        Fact("cores that those runs were given, median (1 thread; 2 threads)", given, "1; 2", None),
        Fact("processor time per configuration, median (1 thread; 2 threads)", work, "equal", None),
    ]


def time_sharing(found: Findings, plan: Plan) -> None:
    """Renyi epsilons along an axis of steps and one of deltas, and who else shares work along steps."""
    runs, shares = everyday(plan.calls), np.geomspace(0.1, 1.0, SHARED)
    columns = {name: column[:, None] for name, column in runs.run().items()}
    axes = {"steps": np.ceil(columns["steps"] * shares), "delta": columns["delta"] * shares}

    def ours(**axis: Any) -> Any:
        return fa.dpsgd.epsilon(**(columns | axis), accountant=RDP, threads=1)

    for name, axis in axes.items():
        scattered = {
            key: np.broadcast_to(column, axis.shape).ravel() for key, column in (columns | {name: axis}).items()
        }
        if not np.array_equal(ours(**{name: axis}).ravel(), fa.dpsgd.epsilon(**scattered, accountant=RDP)):
            raise agreement.FastacctWrongError("a cell depends on those beside it")
        spans = [timing.span(partial(ours, **{name: axis})) for _ in range(plan.rounds)]
        each = timing.median_cpu(spans) / axis.size
        what = f"Renyi epsilon, {SHARED} cells share (noise multiplier, sample rate) along {name}, 1 thread"
        found.facts.append(Fact(what, f"{duration(each)} a cell", "<= 150 ns", each <= 150e-9))
    for adapter in filter(is_installed, BATCH_ADAPTERS):
        peer = adapter()
        found.other_peers[peer.name] = peer.version
        for regime in (everyday, broad, tiny_rate):
            found.agreements.append(agreement.compare_epsilon(peer, regime(plan.values)))
        _race_over_steps(found, plan, peer, ours)


def _race_over_steps(found: Findings, plan: Plan, peer: Batches, ours: Callable[..., Any]) -> None:
    runs = everyday(plan.calls)
    for n in (SHARED, 10 * SHARED):
        axis = np.ceil(runs.steps[:, None] * np.geomspace(0.1, 1.0, n))
        lists = [row.astype(int).tolist() for row in axis]

        def theirs(lists: list[list[int]] = lists) -> None:
            for c, steps in zip(runs, lists, strict=True):
                peer.epsilons(c.noise_multiplier, c.sample_rate, steps, c.delta)

        spans, own = timing.interleaved(theirs, partial(ours, steps=axis), plan.rounds)
        they, we = (timing.median_cpu(spent) / axis.size for spent in (spans, own))
        found.races.append(Race(f"epsilon at {n:,} numbers of steps", peer.name, axis.size, axis.size, they, we, None))


def time_regimes(found: Findings, peers: list[Peer], plan: Plan) -> None:
    def each(configurations: Configurations, accountant: fa.RDP) -> float:
        def call() -> None:
            fa.dpsgd.epsilon(**configurations.run(), accountant=accountant, threads=1)

        call()
        return timing.median_cpu([timing.span(call) for _ in range(plan.rounds)]) / len(configurations)

    for name, draw in REGIMES.items():
        n = min(plan.ours, 2_000)
        theirs = {}
        for peer in peers:
            few = list(draw(max(plan.calls // 6, 4)))

            def call(peer: Peer = peer, few: list[Any] = few) -> None:
                for c in few:
                    peer.epsilon(c.noise_multiplier, c.sample_rate, c.steps, c.delta)

            theirs[peer.name] = timing.span(call).cpu / len(few)
        found.regimes.append(
            Regime(name, each(draw(n), RDP), each(draw(n // 10), fa.RDP(conversion="optimal")), theirs)
        )


def _notes(found: Findings, peers: list[Peer], plan: Plan) -> list[str]:
    notes = [
        "Ratio = peer's time per configuration / ours. The peer is called once per configuration, as its interface "
        "wants, on one core; ours is one array call (the scalar row: one call per configuration too). Calls alternate; "
        "each time is a median.",
        "Renyi DP: configurations are everyday ones, all distinct; target epsilons log-uniform in 0.3..10. The peer's "
        "are the first of ours.",
        "Not the same work: ours searches all real orders and certifies rounding, the peers evaluate a fixed list.",
        *(f"Noise multiplier of {peer.name}: {peer.calibration}; ours: 1e-9 relative." for peer in peers),
        '"Peer below truth": smaller than the truth of the bound it claims, by the arbitrary-precision oracle (curves: '
        "by more than 1e-9 below our certified lower bound, which the oracle checks where the peer differs most; noise "
        "multipliers: the target is missed). Had fastacct been the wrong one, this run would have stopped before "
        "timing.",
    ]
    if found.regimes:
        slow = max(found.regimes, key=lambda r: r.ours)
        usual = found.regimes[0]
        notes.append(
            f"Where we lose: {slow.name} costs {slow.ours / usual.ours:.0f} times as much as everyday; "
            f'conversion="optimal" {usual.optimal / usual.ours:.0f} times as much as the default.'
        )
    missed = [
        f"{r.task} against {r.peer} ({r.ratio:,.0f} instead of {r.target:,.0f})"
        for r in found.races
        if r.verdict == "MISSED" and r.target
    ]
    missed += [f"{f.what} ({f.value})" for f in found.facts if f.met is False]
    notes.append(f"Targets missed in this run: {'; '.join(missed) or 'none'}.")
    unjudged = [f.what for f in found.facts if f.met is None and f.target.startswith(">=")]
    if unjudged:
        notes.append(f"Not judged, because the machine was busy with something else: {'; '.join(unjudged)}.")
    return notes


def compare(plan: Plan, exact: compare_exact.Plan, command: str, parts: list[str]) -> Findings:
    peers = installed()
    found = Findings(command, {p.name: p.version for p in peers}, os.getloadavg())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers warn that their lists of orders end too early
        if "exact" in parts:
            compare_exact.compare(found, exact)
        if "rdp" in parts:
            compare_values(found, peers, plan)
            time_ourselves(found, plan)
            time_peers(found, peers, plan)
            time_sharing(found, plan)
            time_regimes(found, peers, plan)
    found.load_after = os.getloadavg()
    found.notes = [*compare_exact.notes(found), *(_notes(found, peers, plan) if "rdp" in parts else [])]
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="Side by side with other libraries.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few configurations, nothing written")
    parser.add_argument("--output", type=Path, help="where to write the page (default: RESULTS.md beside this file)")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both; one alone writes nothing either")
    parser.add_argument("--peer-count", type=int, help="configurations that every exact accountant is asked")
    chosen = parser.parse_args(arguments)
    parts = chosen.part or list(PARTS)
    options = [*(["--quick"] if chosen.quick else []), *(f"--part {part}" for part in chosen.part or [])]
    options += [f"--peer-count {chosen.peer_count}"] if chosen.peer_count else []
    command = " ".join(["python -m bench.compare", *options])
    try:
        exact = compare_exact.QUICK if chosen.quick else compare_exact.FULL
        exact = replace(exact, peer=chosen.peer_count or exact.peer)
        found = compare(QUICK if chosen.quick else FULL, exact, command, parts)
    except agreement.FastacctWrongError as wrong:
        print(f"stopped before timing: {wrong}", file=sys.stderr)
        return 1
    report.show(found)
    output = chosen.output or (None if chosen.quick or chosen.part else Path(__file__).with_name("RESULTS.md"))
    if output:
        output.write_text(report.markdown(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
