"""How tight every accountant is, ours and those of other libraries, against our certified interval.

    python -m bench.tightness [--quick] [--ours] [--picture FILE]

The core is `bench.scores`; here are the libraries that are installed. Each answers in a process of its own, with
a limit of time and memory for a query and of time for all of them.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from bench import dark, edgeworth, scores
from bench.isolated import Isolated
from bench.peers import ADAPTERS, EXACT_ADAPTERS, Accountant, is_installed
from bench.scores import Contender, Runs, Score, Truth
from fastacct import plot
from fastacct.core.inputs import Cells


@dataclass(frozen=True)
class Plan:
    """How much is asked."""

    own: int
    """Runs of each regime."""
    peer: int
    """Of these, how many a peer is asked at most."""
    budget: float
    """Seconds for all queries of one peer in one regime."""
    limit: float
    """Seconds for one query."""


FULL: Final = Plan(own=1000, peer=200, budget=900.0, limit=60.0)
QUICK: Final = Plan(own=60, peer=6, budget=60.0, limit=20.0)


def _edgeworth(runs: Runs) -> Cells:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([edgeworth.epsilon(*query) for query in runs])


def ask(adapter: Callable[[], Accountant], runs: Runs, bounds: Truth, plan: Plan) -> tuple[Score, dict[str, int]]:
    """The answers of one peer, as many as the budget allows, and the reasons of its failures."""
    name = str(adapter.name)  # type: ignore[attr-defined]
    values: list[float] = []
    spent: list[float] = []
    reasons: dict[str, int] = {}
    start = time.perf_counter()
    with Isolated(adapter, plan.limit) as peer:
        peer.call("epsilon", *next(iter(runs)))  # what is loaded once is not the price of a query
        for query in runs.head(plan.peer):
            if values and time.perf_counter() - start > plan.budget:
                break
            reply = peer.call("epsilon", *query)
            values.append(reply.value)
            spent.append(reply.seconds)
            if reply.reason:
                reasons[reply.reason] = reasons.get(reply.reason, 0) + 1
    n = len(values)
    contender = Contender(name, True, lambda _: np.array(values))
    scored = replace(
        scores.score(contender, runs.head(n), bounds.head(n)), seconds=float(np.nansum(spent)) if n else math.nan
    )
    return scored, reasons


def study(
    plan: Plan, regimes: Sequence[str], adapters: Sequence[Callable[[], Accountant]]
) -> tuple[dict[str, list[Score]], list[str]]:
    """Scores of every accountant by regime, and what went wrong."""
    studies: dict[str, list[Score]] = {}
    troubles: list[str] = []
    for regime in regimes:
        runs = scores.draw(regime, plan.own)
        bounds = scores.truth(runs)
        own = [scores.score(contender, runs, bounds) for contender in scores.own_accountants()]
        few = runs.head(plan.peer)
        approximation = Contender("Edgeworth (approximation)", False, _edgeworth)
        own.append(scores.score(approximation, few, bounds.head(len(few))))
        theirs = []
        for adapter in adapters:
            scored, reasons = ask(adapter, runs, bounds, plan)
            theirs.append(scored)
            print(f"{regime}: {scored.contender} answered {len(scored.runs)} queries", file=sys.stderr)
            troubles += [f"{regime}, {scored.contender}: {n} times {text}" for text, n in reasons.items()]
        exact, *others = own
        studies[regime] = [exact, *theirs, *others]
    return studies, troubles


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tightness", description="Accountants against the truth.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few queries")
    parser.add_argument("--ours", action="store_true", help="no other library")
    parser.add_argument("--regime", action="append", choices=list(scores.REGIMES), help="default: everyday and broad")
    parser.add_argument("--count", type=int, help="runs of each regime for our own accountants")
    parser.add_argument("--peer-count", type=int, help="runs of each regime for other libraries")
    parser.add_argument("--budget", type=float, help="seconds for one other library in one regime")
    parser.add_argument("--picture", type=Path, help="a .png, .pdf or .svg file")
    chosen = parser.parse_args(arguments)
    plan = QUICK if chosen.quick else FULL
    given = {"own": chosen.count, "peer": chosen.peer_count, "budget": chosen.budget}
    plan = replace(plan, **{name: value for name, value in given.items() if value is not None})
    adapters = [] if chosen.ours else [one for one in (*EXACT_ADAPTERS, *ADAPTERS) if is_installed(one)]
    studies, troubles = study(plan, chosen.regime or list(scores.USUAL), adapters)
    if chosen.picture:
        plot.save(scores.picture(studies), chosen.picture, overwrite=True)
        if chosen.picture.suffix == ".svg":
            dark.follow(chosen.picture)
        print(f"wrote {chosen.picture}")
    print(scores.report(studies))
    if troubles:
        print("failures:\n" + "\n".join(f"  {line}" for line in troubles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
