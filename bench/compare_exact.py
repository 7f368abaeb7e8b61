"""The exact accountant beside numerical composition: values first, then times per configuration.

A peer is asked one query after the other, in a process of its own, as its users would; ours is timed both ways, one
call per configuration and one array call for all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import fastacct as fa
from bench import agreement, timing
from bench.isolated import Isolated, Reply
from bench.peers import Accountant, is_installed
from bench.peers.dp_accounting_pld import DpAccountingPld
from bench.peers.opacus_prv import OpacusPrv
from bench.report import Duel, Fact, Findings
from bench.timing import duration
from fastacct import tightness
from fastacct.tightness import Runs, Truth

RIVALS: Final[tuple[Callable[[], Accountant], ...]] = (DpAccountingPld, OpacusPrv)
"""The exact accountants that people use; prv_accountant is what Opacus PRV was made from, and slower."""
TRIAL: Final = 200
"""So many configurations tell how long the others will take."""
SMALL_SIDE: Final = 6
TARGET_EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    ours: int
    """Configurations of one array call."""
    scalar: int
    """Of these, how many are timed one by one."""
    peer: int
    """Of these, how many a peer is asked."""
    calibrations: int
    peer_calibrations: int
    cells: int
    """Of the large grid; a fourth power."""
    rounds: int
    limit: float = 120.0
    """Seconds for one query of a peer."""
    budget: float = 120.0
    """Seconds for one array call of ours; fewer configurations are taken where they would take longer."""


FULL: Final = Plan(
    ours=20_000, scalar=2_000, peer=40, calibrations=1_000, peer_calibrations=5, cells=32**4, rounds=3, limit=300.0
)
QUICK: Final = Plan(ours=200, scalar=50, peer=3, calibrations=10, peer_calibrations=1, cells=5**4, rounds=1)


COPIES: Final = 64


def one_by_one(call: Callable[[Any], Any], items: list[Any]) -> float:
    """Median seconds of single calls."""
    call(items[0])
    spans = []
    for item in items:
        start = time.perf_counter()
        call(item)
        spans.append(time.perf_counter() - start)
    return statistics.median(spans)


def each_in_a_crowd(call: Callable[[dict[str, Any]], Any], items: list[dict[str, Any]]) -> float:
    """Median over the configurations of the time one takes in an array call: copies of it, over their number.

    Cells share nothing, so copies cost what as many different cells of that kind would.
    """
    call({name: np.full(2, value) for name, value in items[0].items()})
    spans = []
    for item in items:
        start = time.perf_counter()
        call(item)
        n = COPIES if time.perf_counter() - start < 1e-3 else 4
        crowd = {name: np.full(n, value) for name, value in item.items()}
        start = time.perf_counter()
        call(crowd)
        spans.append((time.perf_counter() - start) / n)
    return statistics.median(spans)


EXACT: Final = fa.Exact()


def _duel(task: str, regime: str, peer: str, replies: list[Reply], n_ours: int, single: float, total: float) -> Duel:
    spent = [reply.seconds for reply in replies if not np.isnan(reply.seconds)]
    failed = sum(not np.isfinite(reply.value) for reply in replies)
    median, mean = statistics.median(spent), sum(spent) / len(spent)
    return Duel(task, regime, peer, len(replies), n_ours, median, mean, single, total / n_ours, failed)


def compare_epsilon(found: Findings, plan: Plan, regime: str) -> None:
    """Epsilon at delta, the larger of both directions."""
    trial = tightness.draw(regime, min(TRIAL, plan.ours))
    each = _array_seconds(trial, found.threads, 1) / len(trial)
    runs = tightness.draw(regime, max(len(trial), min(plan.ours, int(plan.budget / each))))
    few = runs.head(plan.peer)
    bounds = tightness.truth(few)
    answers: dict[str, list[Reply]] = {}
    for adapter in RIVALS:
        if not is_installed(adapter):
            continue
        with Isolated(adapter, plan.limit) as peer:
            peer.call("epsilon", *next(iter(runs)))
            replies = [peer.call("epsilon", *query) for query in few]
        made = adapter()
        found.exact_peers[made.name] = made.version
        answers[made.name] = replies
        values = np.array([reply.value for reply in replies])
        found.agreements.append(agreement.compare_exact(made.name, few, bounds, values))
    queries = [query._asdict() for query in runs.head(plan.scalar)]
    single = each_in_a_crowd(lambda job: fa.dpsgd.epsilon(**job, threads=found.threads), queries)
    alone = one_by_one(lambda job: fa.dpsgd.epsilon(**job), queries)
    total = _array_seconds(runs, found.threads, plan.rounds)
    for name, replies in answers.items():
        found.duels.append(_duel("epsilon", regime, name, replies, len(runs), single, total))
    bounds = tightness.truth(runs.head(plan.scalar))
    found.facts.append(
        Fact(f"{regime}: one call with plain numbers, median of {len(queries):,}", duration(alone), "-", None)
    )
    found.facts.append(
        Fact(
            f"{regime}: exact interval narrower than 1e-6 (relative), share of {len(bounds.lower):,}",
            _widths(bounds),
            "100%",
            None,
        )
    )


def _array_seconds(runs: Runs, threads: int, rounds: int) -> float:
    def call() -> None:
        fa.dpsgd.epsilon(**runs.keywords(), accountant=EXACT, threads=threads)

    return timing.median_wall([timing.span(call) for _ in range(rounds)])


def _widths(bounds: Truth) -> str:
    positive = bounds.upper > 0.0
    width = (bounds.upper[positive] - bounds.lower[positive]) / bounds.upper[positive]
    return f"{bounds.resolved.mean():.1%}, median width {np.median(width):.0e}"


def _calibrated(runs: Runs, threads: int) -> Any:
    return fa.dpsgd.noise_multiplier(
        epsilon=np.resize(TARGET_EPSILONS, len(runs)),
        delta=runs.delta,
        sample_rate=runs.sample_rate,
        steps=runs.steps,
        accountant=EXACT,
        threads=threads,
    )


def compare_calibration(found: Findings, plan: Plan) -> None:
    """The smallest noise multiplier for a target, exact, against `calibrate_dp_mechanism` with PLD."""
    trial = tightness.draw("everyday", min(TRIAL // 20, plan.calibrations))
    each = timing.span(lambda: _calibrated(trial, found.threads)).wall / len(trial)
    runs = tightness.draw("everyday", max(len(trial), min(plan.calibrations, int(plan.budget / each))))
    target = np.resize(TARGET_EPSILONS, len(runs))
    jobs = [
        {"epsilon": float(e), "delta": query.delta, "sample_rate": query.sample_rate, "steps": query.steps}
        for e, query in zip(target, runs, strict=True)
    ]
    answers: list[Any] = []
    span = timing.span(lambda: answers.append(_calibrated(runs, found.threads)))
    ours = answers[0]
    reached = fa.dpsgd.epsilon(**(runs.keywords() | {"noise_multiplier": ours}), threads=found.threads)
    if bool((reached > target).any()):
        raise agreement.FastacctWrongError("a noise multiplier misses its target")
    few = jobs[: max(plan.scalar // 10, 1)]
    single = each_in_a_crowd(lambda job: fa.dpsgd.noise_multiplier(**job, threads=found.threads), few)
    alone = one_by_one(lambda job: fa.dpsgd.noise_multiplier(**job), few)
    found.facts.append(Fact("noise multiplier: one call with plain numbers, median", duration(alone), "-", None))
    if not is_installed(DpAccountingPld):
        return
    with Isolated(DpAccountingPld, plan.limit) as peer:
        replies = [
            peer.call("noise_multiplier", job["epsilon"], job["delta"], job["sample_rate"], job["steps"])
            for job in jobs[: plan.peer_calibrations]
        ]
    values = np.array([reply.value for reply in replies])
    found.agreements.append(agreement.compare_exact_noise("dp_accounting PLD", values, jobs, ours))
    found.duels.append(
        _duel("noise multiplier", "everyday", "dp_accounting PLD", replies, len(runs), single, span.wall)
    )


def _grid_call(side: int, shared: bool, threads: int) -> Callable[[], Any]:
    """Epsilon on side**4 cells, whose (noise multiplier, sample rate) are an outer product or all different."""
    steps, deltas = np.floor(np.geomspace(1e2, 1e5, side)), np.geomspace(1e-9, 1e-5, side)
    sigmas, rates = np.geomspace(0.5, 8.0, side), np.geomspace(1e-4, 0.1, side)
    sigma, q, count, delta = np.meshgrid(sigmas, rates, steps, deltas, indexing="ij", sparse=True)
    if not shared:
        u = np.random.default_rng(tightness.SEED).random((2, *(side,) * 4))
        sigma, q = 0.5 * 16.0 ** u[0], 1e-4 * 1e3 ** u[1]
    keywords: dict[str, Any] = {"noise_multiplier": sigma, "sample_rate": q, "steps": count, "delta": delta}
    return lambda: fa.dpsgd.epsilon(**keywords, accountant=EXACT, threads=threads)


def time_large_grid(found: Findings, plan: Plan) -> None:
    """The same number of cells with shared and with distinct (noise multiplier, sample rate)."""
    trial = min(SMALL_SIDE, round(plan.cells**0.25))
    each = timing.span(_grid_call(trial, True, found.threads)).wall / trial**4
    side = max(trial, min(round(plan.cells**0.25), int((plan.budget / each) ** 0.25)))
    for what in ("shared", "distinct"):
        span = timing.span(_grid_call(side, what == "shared", found.threads))
        found.facts.append(
            Fact(
                f"exact epsilon on {side**4:,} cells, {what} (noise multiplier, sample rate)",
                f"{side**4 / span.wall:,.0f} cells/s, {duration(span.wall / side**4)} per cell",
                "-",
                None,
            )
        )


def compare(found: Findings, plan: Plan) -> None:
    """Everything about the exact accountant; stops with `FastacctWrongError` before timing a wrong number."""
    for regime in tightness.USUAL:
        compare_epsilon(found, plan, regime)
    compare_calibration(found, plan)
    time_large_grid(found, plan)


def notes(found: Findings) -> list[str]:
    if not found.duels:
        return []
    best = {}
    for regime in tightness.USUAL:
        rivals = [duel for duel in found.duels if duel.task == "epsilon" and duel.regime == regime]
        if rivals:
            best[regime] = min(rivals, key=lambda duel: duel.peer_median)
    return [
        f"Exact accountant. Median over the configurations: the peer's of single queries; ours of the time a "
        f"configuration takes in an array call on all threads ({COPIES} copies of it, over {COPIES}; cells share "
        "nothing). Total / n: all of them together; the peer one after the other, ours in one array call. A hard "
        "configuration costs many times the median, so both are shown.",
        *(
            f"Against the faster peer, {regime}: {duel.peer}, {duel.median_ratio:,.0f} times by the median, "
            f"{duel.mean_ratio:,.0f} times in total."
            for regime, duel in best.items()
        ),
        *(
            f'Configurations "{regime}": {text}.'
            for regime, text in tightness.REGIMES.items()
            if regime in tightness.USUAL
        ),
        "Not the same work: ours encloses epsilon from both sides (usually to 1e-10) with rounding included; "
        "dp_accounting PLD is pessimistic on a grid of 1e-4 up to the rounding of its FFT, Opacus PRV has an error of "
        "0.01 in epsilon.",
        'Exact epsilon, "peer below truth": below our certified lower bound by more than 1e-9. Such an answer is wrong '
        "unless we are; the run stops where rounding of an FFT cannot explain it.",
    ]
