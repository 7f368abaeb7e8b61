"""Saved states that somebody or something has changed: each is refused, or answers stably and not less.

    python -m tests.tamper --states 12000 --seed 1

Fields are replaced by hostile values, moved by a little, left out, doubled, exchanged, or written as text; bytes of the
JSON are flipped, left out and doubled.  Of what has a checksum nothing may be believed but what was written; what has
none (as versions before it) comes back as it was understood, bit for bit.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.attack import is_refusal
from tests.documents import of_a_user, places

import fastacct as fa
from fastacct.testing import examples
from fastacct.training import Meter

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2.5, 1e400, -1e400, 1e300, 2**53, 10**400, "5", "inf", "nan", "-inf", "", "\ud800"),
    *([], {}, [1], [[1, 2]], math.nan, 1e-320, "1e-6", "__class__", "zcdp", "replace_one"),
    *({"kind": "Gaussian"}, {"kind": []}, {"kind": "Process", "blocks": []}, {"kind": "Parallel", "jobs": []}),
    {"kind": "Gaussian", "noise_multiplier": 1e9},
)


class State(NamedTuple):
    """A saved state, what reads it, what is said of it then, and how it is saved again."""

    text: str
    read: Callable[[bytes], Any]
    epsilon: Callable[[Any], float]
    again: Callable[[Any], str]
    is_sealed: bool = True


def _accountant(filter: str, jobs: list[Any], **given: Any) -> fa.Accountant:
    made = fa.Accountant(delta=1e-5, filter=filter, neighbors="zero_out", **given)
    for count, job in enumerate(jobs, 1):
        made.compose(job, count)
    return made


def _accountants() -> Iterator[State]:
    many = [one for one in examples() if "zero_out" in one.relations]
    given: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "none": (many, {}),
        "gdp": ([fa.Gaussian(20.0), fa.Gaussian(9.0).poisson(0.1)], {"epsilon": 8.0}),
        "zcdp": ([fa.Gaussian(20.0), fa.Laplace(30.0)], {"epsilon": 8.0}),
        "rdp": ([fa.Gaussian(20.0), fa.Laplace(30.0)], {"epsilon": 8.0, "order": 30.0}),
    }
    for filter, (jobs, settings) in given.items():
        fitting = [one for one in jobs if _takes(filter, one, settings)]
        # of many mechanisms the ledger is said alone: their epsilon takes seconds
        text = _accountant(filter, fitting, **settings).to_json()
        of_many = filter == "none"
        epsilon = (lambda made: float(len(made.ledger))) if of_many else (lambda made: float(made.spent()))
        own = json.loads(text)
        del own["checksum"]
        for one, is_sealed in ((text, True), (json.dumps(own), False)):
            yield State(one, fa.Accountant.from_json, epsilon, fa.Accountant.to_json, is_sealed)


def _takes(filter: str, job: Any, settings: dict[str, Any]) -> bool:
    try:
        _accountant(filter, [job], **settings)
    except (ValueError, TypeError, fa.BudgetExceededError):
        return False
    return True


def _meters() -> Iterator[State]:
    shuffled = {"records": 100, "batch_size": 15, "sampling": "shuffled", "neighbors": "zero_out"}
    runs: list[dict[str, Any]] = [
        {"sample_rate": 0.05},
        {"records": 1000, "batch_size": 50, "sampling": "fixed_size"},
        {"sample_rate": 0.05, "sampling": "cyclic", "bands": 4},
        {"sample_rate": 0.05, "after": fa.Laplace(5.0) * 3},
        shuffled,
    ]
    for run in runs:

        def made(run: dict[str, Any] = run) -> Meter:
            return Meter(noise_multiplier=2.0, delta=1e-5, **run)

        def read(text: bytes, made: Callable[[], Meter] = made) -> Meter:
            meter = made()
            meter.load_state_dict(_document(text))
            return meter

        first = made()
        for _ in range(3):
            first.epoch()
            first.step(5)
        yield State(json.dumps(first.state_dict()), read, lambda meter: meter.epsilon, _saved)


def _saved(meter: Meter) -> str:
    return json.dumps(meter.state_dict())


def _document(text: bytes) -> Any:
    """As a trainer reads its checkpoint; what is no JSON never comes to a meter."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NoStateError from None


class NoStateError(Exception):
    """What a state of a meter is in cannot be read."""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def _guarantees() -> Iterator[State]:
    path = Path(_folder().name, "guarantee.json")

    def read(text: bytes) -> fa.results.Guarantee:
        path.write_bytes(text)
        return fa.read_guarantee(path)

    own = of_a_user()
    yield State(
        json.dumps(own.to_dict()), read, lambda made: made.epsilon.upper, lambda made: json.dumps(made.to_dict())
    )


@cache
def states() -> list[State]:
    """All that are tampered with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*_accountants(), *_meters(), *_guarantees()]


# -- changes -----------------------------------------------------------------------------------------------------------


def _dumped(document: Any) -> str:
    return json.dumps(document)


def tampered(rng: random.Random, text: str) -> bytes:
    """The state with one change."""
    kind = rng.choice(("value", "value", "value", "moved", "left out", "doubled", "exchanged", "text", "byte", "bytes"))
    if kind in ("byte", "bytes"):
        whole = bytearray(text, "utf-8", "surrogatepass")
        at = rng.randrange(len(whole))
        if kind == "byte":
            whole[at] ^= 1 << rng.randrange(8)
        else:
            end = min(len(whole), at + rng.choice((1, 2, 16, len(whole))))
            whole[at:end] = rng.choice((b"", whole[at:end] * 2, b"9", b"0", b"\x00"))
        return bytes(whole)
    document = json.loads(text)
    at = rng.choice([*places(document)])
    part = document
    for name in at[:-1]:
        part = part[name]
    value, last = part[at[-1]], at[-1]
    if kind == "left out":
        del part[last]
    elif kind == "doubled" and isinstance(part, list):
        part.insert(last, deepcopy(value))
    elif kind == "doubled":  # a key that comes twice, with another value
        mark = "a place that is said twice"
        part[last] = mark
        twice = f"{_dumped(rng.choice(HOSTILE))}, {_dumped(last)}: {_dumped(value)}"
        return _dumped(document).replace(_dumped(mark), twice).encode()
    elif kind == "exchanged":
        other = rng.choice([*part] if isinstance(part, dict) else range(len(part)))
        part[last], part[other] = part[other], value
    elif kind == "moved" and isinstance(value, int | float) and not isinstance(value, bool):
        part[last] = rng.choice((-value, value + 1, value - 1, value / 2, value * 2, math.nextafter(value, 0.0)))
    elif kind == "text":
        part[last] = _dumped(value)
    else:
        part[last] = rng.choice(HOSTILE)
    return _dumped(document).encode("utf-8", "surrogatepass")


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verdict(state: State, text: bytes) -> str:
    """refused, the same, taken (a state without a checksum that is another one), or what is wrong."""
    try:
        made = state.read(text)
    except NoStateError:
        return "refused"
    except Exception as error:
        is_ours = isinstance(error, ValueError) and is_refusal(error)
        return "refused" if is_ours else f"WRONG: raised {type(error).__name__}: {str(error)[:200]}"
    try:
        saved = state.again(made)
        twice = state.again(state.read(saved.encode("utf-8", "surrogatepass")))
        if saved != twice:
            return "WRONG: another state after it was saved and read"
        if state.is_sealed:
            honest = state.read(state.text.encode("utf-8", "surrogatepass"))
            if saved != state.again(honest) or not state.epsilon(made) >= state.epsilon(honest):
                return "WRONG: another state than what was written"
            return "the same"
        return "taken" if state.epsilon(made) >= 0.0 else "WRONG: no number"
    except Exception as error:
        return f"WRONG: then raised {type(error).__name__}: {str(error)[:200]}"


def ask(count: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """Verdicts on so many changed states, and what is wrong."""
    rng, found, wrong = random.Random(seed), collections.Counter[str](), []
    for i in range(count):
        state = states()[i % len(states())]
        text = tampered(rng, state.text)
        said = verdict(state, text)
        found[said.partition(":")[0]] += 1
        if said.startswith("WRONG"):
            wrong.append(f"{i}: {said} of {text[:300]!r}")
    return found, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--states", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found, wrong = ask(given.states, given.seed)
    print(dict(found), *wrong, sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
