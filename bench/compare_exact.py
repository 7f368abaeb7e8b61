"""The exact accountant beside numerical composition: values first, then times per configuration.

A peer is asked one query after the other, in a process of its own, as its users would.  Ours is asked the same queries
one after the other, and once all of them in an array call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct as fa
from bench import agreement, scores, shared_readers, timing
from bench.agreement import FastacctWrongError
from bench.isolated import Isolated, Reply
from bench.peers import Accountant, is_installed
from bench.peers.dp_accounting_pld import DpAccountingPld
from bench.peers.opacus_prv import OpacusPrv
from bench.report import Duel, Fact, Findings, Spread
from bench.scores import Runs, Truth
from bench.timing import duration

RIVALS: Final[tuple[Callable[[], Accountant], ...]] = (DpAccountingPld, OpacusPrv)
"""The exact accountants that people use; prv_accountant is what Opacus PRV was made from, and slower."""
TARGET_EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
PASSES: Final = 3
README_RUN: Final = {"noise_multiplier": 1.1, "sample_rate": 256 / 60000, "steps": 14062, "delta": 1e-5}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    ours: int
    """Configurations of one array call."""
    scalar: int
    """Of these, how many are timed one by one."""
    peer: int
    """Of these, how many everybody is asked."""
    calibrations: int
    """Of one array call of ours."""
    peer_calibrations: int
    """Of these, how many everybody is asked."""
    cells: int
    """Of the large grid; a fourth power."""
    rounds: int
    limit: float = 120.0
    """Seconds for one query of a peer."""


FULL: Final = Plan(
    ours=20_000, scalar=5_000, peer=200, calibrations=1_000, peer_calibrations=5, cells=32**4, rounds=5, limit=300.0
)
QUICK: Final = Plan(ours=200, scalar=50, peer=3, calibrations=10, peer_calibrations=1, cells=5**4, rounds=1)


def one_by_one(call: Callable[..., Any], queries: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Processor seconds of single calls with plain numbers, in order."""
    spans = np.empty(len(queries))
    for place, query in enumerate(queries):
        start = time.process_time()
        call(**query)
        spans[place] = time.process_time() - start
    return spans


def least_of(passes: int, call: Callable[..., Any], queries: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """The same, each the least of some passes over all of them: what else the machine does is not in it."""
    return np.asarray(np.min([one_by_one(call, queries) for _ in range(passes)], axis=0))


def _array_seconds(call: Callable[..., Any], columns: dict[str, Any], rounds: int) -> float:
    """Median seconds of an array call, after one that is not measured."""
    call(**columns, threads=1)
    return timing.median_cpu([timing.span(lambda: call(**columns, threads=1)) for _ in range(rounds)])


def _replies(adapter: Callable[[], Accountant], limit: float, method: str, queries: Sequence[Any]) -> list[Reply]:
    """Answers of a peer."""
    with Isolated(adapter, limit) as peer:
        peer.call("epsilon", 1.0, 0.01, 100, 1e-5)  # what is loaded once is not the price of a query
        return [peer.call(method, *query) for query in queries]


def _duel(
    task: str,
    regime: str,
    peer: str,
    replies: list[Reply],
    ours: tuple[Callable[..., Any], list[dict[str, Any]]],
    rounds: int,
) -> Duel:
    """Means over those configurations for which the peer's time is known."""
    call, queries = ours
    known = [place for place, reply in enumerate(replies) if not np.isnan(reply.seconds)]
    same = [queries[place] for place in known]
    columns = {name: np.array([query[name] for query in same], float) for name in same[0]}
    return Duel(
        task=task,
        regime=regime,
        peer=peer,
        n=len(same),
        peer_failed=sum(not np.isfinite(reply.value) for reply in replies),
        theirs=float(np.mean([replies[place].seconds for place in known])),
        alone=float(least_of(min(PASSES, rounds), call, same).mean()),
        together=_array_seconds(call, columns, rounds) / len(same),
    )


def _check_ours(runs: Runs, queries: list[dict[str, Any]], bounds: Truth) -> None:
    """Values before times: plain numbers, arrays and intervals are one answer."""
    columns: dict[str, Any] = dict(runs.keywords())
    if not np.array_equal(fa.dpsgd.epsilon(**columns), bounds.upper):
        raise FastacctWrongError(f"{runs.regime}: epsilon is not the upper end of its interval")
    if [fa.dpsgd.epsilon(**query) for query in queries] != bounds.upper[: len(queries)].tolist():
        raise FastacctWrongError(f"{runs.regime}: epsilon of plain numbers is not that of arrays")


def compare_epsilon(found: Findings, plan: Plan, regime: str) -> None:
    """Epsilon at delta, the larger of both directions."""
    runs = scores.draw(regime, plan.ours)
    queries = [query._asdict() for query in runs.head(plan.scalar)]
    bounds = scores.truth(runs)
    _check_ours(runs, queries, bounds)
    found.facts.append(
        Fact(
            f"{regime}: exact interval narrower than 1e-6 (relative), share of {len(runs):,}",
            _widths(bounds),
            "100%",
            None,
        )
    )
    few, answers = runs.head(plan.peer), {}
    for adapter in filter(is_installed, RIVALS):
        made = adapter()
        found.other_peers[made.name] = made.version
        answers[made.name] = _replies(adapter, plan.limit, "epsilon", list(few))
        values = np.array([reply.value for reply in answers[made.name]])
        found.agreements.append(agreement.compare_exact(made.name, few, bounds.head(len(few)), values))
    ours = fa.dpsgd.epsilon, queries[: plan.peer]
    for name, replies in answers.items():
        found.duels.append(_duel("epsilon", regime, name, replies, ours, plan.rounds))
    found.spreads.append(_spread(runs, queries, plan.rounds))


def _nothing(**_: float) -> float:
    return 0.0


def _spread(runs: Runs, queries: list[dict[str, Any]], rounds: int) -> Spread:
    """Means of array calls, and what single calls take in the order drawn."""
    call, columns = fa.dpsgd.epsilon, runs.keywords()
    every = np.array([one_by_one(call, queries) for _ in range(min(PASSES, rounds))])
    least = every.min(axis=0)
    median, high, largest = np.quantile(least, [0.5, 0.99, 1.0]).tolist()
    return Spread(
        regime=runs.regime,
        n=len(runs),
        together=_array_seconds(call, columns, rounds) / len(runs),
        n_single=len(queries),
        mean=float(least.mean()),
        median=median,
        high=high,
        largest=largest,
        largest_of_all=float(every.max()),
        empty=float(np.median(one_by_one(_nothing, queries))),
    )


def _widths(bounds: Truth) -> str:
    positive = bounds.upper > 0.0
    width = (bounds.upper[positive] - bounds.lower[positive]) / bounds.upper[positive]
    return f"{bounds.resolved.mean():.1%}, median width {np.median(width):.0e}, at most {width.max():.0e}"


def compare_calibration(found: Findings, plan: Plan) -> None:
    """The smallest noise multiplier for a target, exact, against `calibrate_dp_mechanism` with PLD."""
    runs = scores.draw("everyday", plan.calibrations)
    target = np.resize(TARGET_EPSILONS, len(runs))
    known: dict[str, Any] = {name: column for name, column in runs.keywords().items() if name != "noise_multiplier"}
    columns: dict[str, Any] = {"epsilon": target} | known
    ours = np.asarray(fa.dpsgd.noise_multiplier(**columns, threads=1))
    reached = fa.dpsgd.epsilon(noise_multiplier=ours, **known, threads=1)
    if bool((np.asarray(reached) > target).any()):
        raise FastacctWrongError("a noise multiplier misses its target")
    together = _array_seconds(fa.dpsgd.noise_multiplier, columns, plan.rounds) / len(runs)
    jobs = [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
    alone = least_of(1, fa.dpsgd.noise_multiplier, jobs)
    median, high, largest = (duration(x) for x in np.quantile(alone, [0.5, 0.99, 1.0]).tolist())
    found.facts += [
        Fact(
            f"noise multiplier, everyday: mean of an array call of {len(jobs):,}",
            duration(together),
            "-",
            None,
        ),
        Fact(
            "the same, one by one: mean; median, 99 %, maximum",
            f"{duration(alone.mean())}; {median}, {high}, {largest}",
            "-",
            None,
        ),
    ]
    if not is_installed(DpAccountingPld):
        return
    few = jobs[: plan.peer_calibrations]
    asked = [(job["epsilon"], job["delta"], job["sample_rate"], int(job["steps"])) for job in few]
    replies = _replies(DpAccountingPld, plan.limit, "noise_multiplier", asked)
    values = np.array([reply.value for reply in replies])
    found.agreements.append(agreement.compare_exact_noise("dp_accounting PLD", values, jobs, ours))
    solve = fa.dpsgd.noise_multiplier, few
    found.duels.append(_duel("noise multiplier", "everyday", "dp_accounting PLD", replies, solve, plan.rounds))


def _grid_call(side: int, shared: bool) -> Callable[[], Any]:
    """Epsilon on side**4 cells, whose (noise multiplier, sample rate) are an outer product or all different."""
    steps, deltas = np.floor(np.geomspace(1e2, 1e5, side)), np.geomspace(1e-9, 1e-5, side)
    sigmas, rates = np.geomspace(0.5, 8.0, side), np.geomspace(1e-4, 0.1, side)
    sigma, q, count, delta = np.meshgrid(sigmas, rates, steps, deltas, indexing="ij", sparse=True)
    if not shared:
        u = np.random.default_rng(scores.SEED).random((2, *(side,) * 4))
        sigma, q = 0.5 * 16.0 ** u[0], 1e-4 * 1e3 ** u[1]
    keywords: dict[str, Any] = {"noise_multiplier": sigma, "sample_rate": q, "steps": count, "delta": delta}
    return lambda: fa.dpsgd.epsilon(**keywords, threads=1)


def time_large_grid(found: Findings, plan: Plan) -> None:
    """The same number of cells with shared and with distinct (noise multiplier, sample rate)."""
    side = round(plan.cells**0.25)
    for what in ("shared", "distinct"):
        span = timing.span(_grid_call(side, what == "shared"))
        found.facts.append(
            Fact(
                f"exact epsilon on {side**4:,} cells, {what} (noise multiplier, sample rate)",
                f"{side**4 / span.cpu:,.0f} cells/s, {duration(span.cpu / side**4)} per cell",
                "-",
                None,
            )
        )


def time_one_call(found: Findings, plan: Plan) -> None:
    """A call with four numbers that has nothing to compute, and README's run."""
    n = 4_000 * plan.rounds
    for what, query, target in (
        (
            "nothing to compute (noise multiplier inf): Python's share",
            README_RUN | {"noise_multiplier": np.inf},
            2.5e-6,
        ),
        ("README's run", README_RUN, None),
    ):
        seconds = float(np.median(one_by_one(fa.dpsgd.epsilon, [query] * n)))
        limit, met = ("-", None) if target is None else (f"<= {duration(target)}", seconds <= target)
        found.facts.append(Fact(f"one call with four numbers, {what}", duration(seconds), limit, met))


def time_mixtures(found: Findings, plan: Plan) -> None:
    """Groups of two to eight records and replaced records, run by run, each timed alone."""
    sizes = np.random.default_rng(scores.SEED).integers(2, 9, plan.scalar)
    for regime in scores.USUAL:
        runs = scores.draw(regime, max(50, plan.scalar // 5))
        for what in ("groups of 2 to 8, remove", "replace_one"):
            seconds, widths = [], []
            for run, size in zip(runs, sizes, strict=False):
                step = fa.Gaussian(run.noise_multiplier).poisson(run.sample_rate)
                job = (step if what == "replace_one" else step.group(int(size))) * run.steps
                start = time.process_time()
                bounds = fa.epsilon_bounds(job, delta=run.delta, neighbors=what.split()[-1])
                seconds.append(time.process_time() - start)
                widths.append((bounds.upper - bounds.lower) / max(bounds.upper, 1e-300))
            shown = [duration(float(x)) for x in (np.mean(seconds), np.quantile(seconds, 0.99), np.max(seconds))]
            narrow = [float(np.mean(np.array(widths) <= limit)) for limit in (1e-9, 1e-6)]
            found.facts.append(
                Fact(
                    f"{regime}: epsilon of {what}, {len(seconds):,} runs one by one: mean; 99 %, maximum",
                    f"{shown[0]}; {shown[1]}, {shown[2]}; {narrow[0]:.1%} within 1e-9, {narrow[1]:.1%} within 1e-6",
                    "-",
                    None,
                )
            )


def compare(found: Findings, plan: Plan) -> None:
    """Everything about the exact accountant; stops with `FastacctWrongError` before timing a wrong number."""
    for regime in scores.USUAL:
        compare_epsilon(found, plan, regime)
    compare_calibration(found, plan)
    time_one_call(found, plan)
    time_mixtures(found, plan)
    found.facts += [Fact(what, value, "-", None) for what, value in shared_readers.exact_rows(plan.rounds)]
    time_large_grid(found, plan)


def notes(found: Findings) -> list[str]:
    if not found.spreads:
        return []
    best = {
        (task, regime): min(
            (duel for duel in found.duels if (duel.task, duel.regime) == (task, regime)), key=lambda duel: duel.theirs
        )
        for task, regime in dict.fromkeys((duel.task, duel.regime) for duel in found.duels)
    }
    empty = max(spread.empty for spread in found.spreads)
    return [
        "Exact accountant beside others: all means are over the same configurations. The peer is asked one after the "
        f"other; ours as well, in calls with plain numbers, each the least of {PASSES} passes, and once more in one "
        "array call.",
        "Exact accountant alone: the array call is repeated, and the median over its cells shown; single calls in the "
        f"order drawn, each the least of {PASSES} passes over all of them, with the call itself in it (an empty Python "
        f"function with these four keywords takes {duration(empty)}). The last column is the longest of all calls, "
        "whatever else the machine did.",
        *(
            f"Against the faster peer, {task}, {regime}: {duel.peer}, {duel.ratio_alone:,.0f} times one by one, "
            f"{duel.ratio_together:,.0f} times in an array call."
            for (task, regime), duel in best.items()
        ),
        *(f'Configurations "{regime}": {scores.REGIMES[regime]}.' for regime in scores.USUAL),
        "Not the same work: ours encloses epsilon from both sides (usually to 1e-10) with rounding included; "
        "dp_accounting PLD is pessimistic on a grid of 1e-4 up to the rounding of its FFT, Opacus PRV has an error of "
        "0.01 in epsilon.",
        'Exact epsilon, "peer below truth": below our certified lower bound by more than 1e-9. Such an answer is wrong '
        "unless we are; the run stops where rounding of an FFT cannot explain it.",
    ]
