"""What a meter is given: the noise of several releases, and a loader, which must stay as it was and draw as counted."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from fastacct.accountants.batching import SAMPLINGS
from fastacct.core.extras import Foreign
from fastacct.core.inputs import Domain, as_choice, as_number
from fastacct.core.rounding import as_written
from fastacct.loaders.seen import Seen

_ANY: Final = Domain(0.0, math.inf)
_PARTS: Final = ("batch_sampler", "sampler")
KERAS: Final = "fit() of Keras"
Table = dict[str, list[int]]
_SIZES: Final = ("batch_size", "drop_last", "sample_rate", "steps", "num_samples", "replacement")


class _Same:
    """An object that is equal to itself alone."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    __hash__ = None  # type: ignore[assignment]


def whole(loader: object) -> list[object]:
    """The samplers of a loader and their sizes, to be compared with what they were."""
    found: list[object] = []
    held = [loader]
    for depth, part in enumerate(held):
        sizes = (getattr(part, name, None) for name in _SIZES)
        found += [_Same(part), *(one if isinstance(one, int | float) else None for one in sizes)]
        held += [inner for name in _PARTS if depth < 8 and (inner := getattr(part, name, None)) is not None]
    return found


def named(others: object) -> tuple[str, Table]:
    """A name that no other meter has, and what others have counted; TypeError where that is no table of counts."""
    if not isinstance(others, dict) or not all(
        isinstance(one, list) and len(one) == 2 and all(type(n) is int and n >= 0 for n in one)
        for one in others.values()
    ):
        raise TypeError("meters are no table of counts")
    return secrets.token_hex(8), others


def total(counts: Table) -> tuple[int, int]:
    """Units and steps of all."""
    units, steps = zip((0, 0), *counts.values(), strict=True)
    return sum(units), sum(steps)


def counts_of(meter: Foreign) -> Table:
    """Units and steps of each meter that a count is of; a copy, or a process that was forked, has another name."""
    name: str = meter._named[0]
    others: Table = meter._named[1]
    units, steps = total(others)
    own = [meter._units - units, meter.steps - steps]
    return others | ({f"{name}-{os.getpid()}-{id(meter)}": own} if any(own) else {})


def is_new(meter: Foreign) -> bool:
    """Whether nothing was counted, and nothing was before."""
    return bool(meter.steps == 0 and meter._after is None)


def go_on(meter: Foreign, state: Mapping[str, Foreign]) -> None:
    """Load what a checkpoint kept, unless the meter has all of it: a process that goes back has released more.

    Of each meter that has counted in either the larger count holds, and these are added up.  A pass that was open here
    is left.
    """
    meter._in_pass = meter._left = None
    meter._counts_in(state)
    mine, theirs, none = counts_of(meter), state["meters"], (0, 0)
    most = {name: [*map(max, mine.get(name, none), theirs.get(name, none))] for name in mine | theirs}
    if most != mine or theirs == mine:
        meter.load_state_dict(state)
        meter._named = named(most)
        meter._units, meter.steps = total(most)


def together(noise: float | Sequence[float]) -> float:
    """The noise multiplier of several releases of one batch, never above the true one."""
    if not isinstance(noise, list | tuple):
        return as_number("noise_multiplier", noise, _ANY)
    each = [as_number(f"noise_multiplier[{i}]", one, _ANY) for i, one in enumerate(noise)]
    if not each:
        raise ValueError("noise_multiplier is empty: give one of each release")
    least = min(each)
    if len(each) == 1 or least in (0.0, math.inf):
        return least
    return least / math.sqrt(math.fsum((least / one) ** 2 for one in each)) * (1.0 - 2.0**-49)


def of_keywords(given: Mapping[str, Any]) -> Seen:
    """The same of a run that keywords describe as of a live loader."""
    kind = as_choice("sampling", given.get("sampling", "poisson"), SAMPLINGS)
    for name in {"records", "batch_size"} & given.keys():
        as_number(name, given[name])
    records, size = given.get("records"), given.get("batch_size")
    if kind not in ("shuffled", "allocation"):
        return Seen("", "", {}, dict(given), 0, records=records)
    if records is None or size is None:
        raise TypeError(f"sampling = {kind!r} needs records and batch_size")
    exact: Fraction = as_written(records) / as_written(size) * int(given.get("selected") or 1)
    length = math.ceil(exact) if kind == "shuffled" else math.floor(exact)
    return Seen("", "", {}, dict(given), length, "epochs", is_pass=True, records=records)


def refuse_other_draws(given: Seen, counted: Seen) -> None:
    """ValueError where batches are drawn otherwise than they are counted, or at a higher rate."""
    cure = (
        f"give the meter what fit() draws: sample_rate={given.run['sample_rate']!r}, that is batch_size / train_size"
        if given.name == KERAS and "sample_rate" in given.run
        else "train on the loader that the meter was given (a Trainer of Hugging Face on what its "
        "get_train_dataloader() returns), or give the meter this one"
    )
    if given.per < counted.per:
        raise ValueError(
            f"this loader may draw a record again after {given.per} batches, and the meter counts cycles of "
            f"{counted.per}: give the meter this loader"
        )
    if given.share < counted.share:
        raise ValueError(
            "this loader repeats some records in a pass, to share them evenly among workers, and the meter counts each "
            "once: give the meter this loader"
        )
    usual = {"sampling": "poisson"} | ({"bins": ""} if given.run.get("sampling") == "allocation" else {})
    for name in ("sampling", "sample_rate", "batch_size", "records", "at_most", *usual):
        drawn, known = (one.run.get(name, usual.get(name)) for one in (given, counted))
        if name == "sample_rate" and known is None and {"records", "batch_size"} <= counted.run.keys():
            known = counted.run["batch_size"] / counted.run["records"]
        if drawn is None or known is None or drawn == known:
            continue
        if name == "sample_rate" and drawn < known and given.run.keys() == {"sample_rate"} and not counted.is_pass:
            continue  # more is counted than Poisson samples cost
        raise ValueError(f"this loader draws {name} = {drawn!r}, and the meter counts {known!r}: {cure}")
