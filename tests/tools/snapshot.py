"""Answers of every example, verb, relation and accountant, bit for bit: taken before code moves, compared after.

    python -m tests.snapshot write FILE           # FILE.json.gz
    python -m tests.snapshot compare BEFORE AFTER
    python -m tests.snapshot contain BEFORE AFTER # intervals intersect, none wider than 1.05 times, status not worse

Numbers are stored as hexadecimal floats, refusals as the class of the error.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

DELTAS = (1e-6, 0.0, 0.3)
EPSILONS = (0.0, 0.7, 2.5)
ORDERS = (1.3, 2.0, 8.0, 64.0)
RATES = (0.2,)
RELATIONS = ("add_remove", "add", "remove", "zero_out", "replace_one")


def jobs(mechanism: Any) -> Iterator[tuple[str, Any]]:
    """What is asked of one mechanism: alone, repeated, and composed with a Gaussian and with Laplace noise."""
    import fastacct as fa

    yield "m", mechanism * 1
    yield "m*3", mechanism * 3
    yield "m*2+gaussian", mechanism * 2 + fa.Gaussian(5.0)
    yield "m+laplace*2", mechanism + fa.Laplace(4.0) * 2


def questions(name: str, job: Any, relation: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every verb and accountant, by name; what takes long of plain jobs only, and of mixed ones one target."""
    import fastacct as fa

    told = {"neighbors": relation, "threads": 1}
    mixed = "+" in name
    for delta in DELTAS[:1] if mixed else DELTAS:
        yield f"epsilon({delta})", lambda d=delta: fa.epsilon(job, delta=d, **told)
        yield f"epsilon_bounds({delta})", lambda d=delta: fa.epsilon_bounds(job, delta=d, **told)
        yield f"rdp epsilon({delta})", lambda d=delta: fa.epsilon(job, delta=d, accountant=fa.RDP(), **told)
    for epsilon in EPSILONS[1:2] if mixed else EPSILONS:
        yield f"delta_bounds({epsilon})", lambda e=epsilon: fa.delta_bounds(job, epsilon=e, **told)
        yield f"rdp delta({epsilon})", lambda e=epsilon: fa.delta(job, epsilon=e, accountant=fa.RDP(), **told)
    yield "rdp", lambda: fa.rdp(job, list(ORDERS), **told)
    if mixed:
        return
    yield "delta(0.7)", lambda: fa.delta(job, epsilon=0.7, **told)
    yield "log_delta_bounds(0.7)", lambda: fa.log_delta_bounds(job, epsilon=0.7, **told)
    yield "rdp_bounds", lambda: fa.rdp_bounds(job, list(ORDERS), **told)
    yield "advantage_bounds", lambda: fa.advantage_bounds(job, **told)
    if name == "m" and relation in ("add_remove", "replace_one"):
        yield "pld epsilon", lambda: fa.epsilon(job, delta=1e-6, accountant=fa.PLD(), **told)
        yield "pld delta", lambda: fa.delta(job, epsilon=0.7, accountant=fa.PLD(), **told)
        yield "tradeoff_bounds", lambda: fa.tradeoff_bounds(job, list(RATES), **told)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    return value.hex() if isinstance(value, float) else int(value)


def _answers(index: int) -> dict[str, Any]:
    """All answers of one example."""
    from fastacct.testing import examples

    mechanism = list(examples())[index]
    found: dict[str, Any] = {}
    for name, job in jobs(mechanism):
        for relation in RELATIONS:
            for question, ask in questions(name, job, relation):
                try:
                    answer = _plain(ask())
                except Exception as error:  # any refusal is an answer
                    answer = type(error).__name__
                found[f"{mechanism!r} | {name} | {relation} | {question}"] = answer
    return found


def write(path: Path, workers: int) -> None:
    """Take a snapshot."""
    from fastacct.testing import examples

    found: dict[str, Any] = {}
    with ProcessPoolExecutor(workers) as pool:
        for part in pool.map(_answers, range(len(list(examples())))):
            found.update(part)
    with gzip.open(path, "wt") as file:
        json.dump(found, file, indent=0)
    print(f"{len(found)} answers written to {path}")


def _load(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        return json.load(file)  # type: ignore[no-any-return]


def _flat(answer: Any) -> list[float]:
    if isinstance(answer, list):
        return [x for one in answer for x in _flat(one)]
    return [float.fromhex(answer) if isinstance(answer, str) else float(answer)]


def _worse(before: Any, after: Any) -> str:
    """What is worse in bounds (lower, upper, status), or in a plain upper bound; empty where nothing is."""
    if before == after or (isinstance(before, str) and not before.lstrip("-").startswith(("0x", "inf"))):
        return ""  # what was refused may be answered now
    if isinstance(after, str) and not after.lstrip("-").startswith(("0x", "inf")):
        return f"refused: {after}"
    if not isinstance(before, list) or len(before) != 3 or isinstance(before[0], list):
        a, b = _flat(before), _flat(after)
        far = max(abs(x - y) / max(abs(x), abs(y), 1e-300) if x != y else 0.0 for x, y in zip(a, b, strict=True))
        return f"moved by {far:.1e} relative: {a} -> {b}" if far > 0.0 else ""
    (low, high, status), (new_low, new_high, new_status) = ([_flat(x) for x in one] for one in (before, after))
    for one, two, three, four, five, six in zip(low, high, status, new_low, new_high, new_status, strict=True):
        if four > two or five < one:
            return f"disjoint: [{one!r}, {two!r}] -> [{four!r}, {five!r}]"
        ulps = 4.0 * math.ulp(max(abs(one), abs(two), 1e-300)) if math.isfinite(two) and math.isfinite(one) else 0.0
        if five - four > 1.05 * (two - one) + ulps:
            return f"wider: [{one!r}, {two!r}] -> [{four!r}, {five!r}]"
        if six > three:
            return f"status {three:g} -> {six:g}: [{four!r}, {five!r}]"
    return ""


def compare(before: Path, after: Path, bitwise: bool) -> int:
    """Print what differs; the number of differences."""
    one, two = _load(before), _load(after)
    bad = 0
    for key in one:
        if key not in two:
            said = "missing"
        elif bitwise:
            said = "" if one[key] == two[key] else f"{one[key]} -> {two[key]}"
        else:
            said = _worse(one[key], two[key])
        if said:
            bad += 1
            print(f"{key}: {said}")
    print(f"{bad} of {len(one)} answers differ")
    return bad


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare", "contain"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "write":
        write(given.files[0], given.workers)
    else:
        raise SystemExit(compare(given.files[0], given.files[1], given.what == "compare") > 0)


if __name__ == "__main__":
    main()
