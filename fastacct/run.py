"""A run of DP-SGD from its keywords: the process it is, and targets that depend on the number of records."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypedDict

import numpy as np

from fastacct.accountants import Method
from fastacct.core.inputs import Cells, Real, Reals, as_cells, as_number, common_shape
from fastacct.core.relations import Relation
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process

__all__ = [
    "Block",
    "Run",
    "as_delta",
    "has",
    "of_history",
    "parameters",
    "process_of",
    "rate_of_batch",
    "refused",
    "steps_of_epochs",
]

Block = tuple[Real, Real, Real]
"""Noise multiplier, sample rate and steps of a part of a run."""
PARAMETERS: Final = ("noise_multiplier", "sample_rate", "steps")
_POWER: Final = re.compile(r"1\s*/\s*n(?:\s*(?:\^|\*\*)\s*(\d+(?:\.\d*)?))?")


class Run(TypedDict, total=False):
    """Keywords of a run of DP-SGD; see `fastacct.dpsgd.epsilon`."""

    noise_multiplier: Reals | None
    sample_rate: Reals | None
    steps: Reals | None
    records: Reals | None
    batch_size: Reals | None
    epochs: Reals | None
    history: Iterable[Block] | None
    accountant: Method | None
    neighbors: Relation
    threads: int | None


def parameters(run: Run) -> dict[str, Cells]:
    """The parameters among noise_multiplier, sample_rate and steps that the keywords fix, checked.

    sample_rate = batch_size / records and steps = ceil(epochs * records / batch_size) = ceil(epochs / sample_rate).
    """
    given = {name: value for name, value in run.items() if value is not None}
    for name, instead in (("sample_rate", "batch_size"), ("steps", "epochs")):
        if name in given and instead in given:
            raise TypeError(f"give either {name} or {instead}, not both")
    if "batch_size" in given and "records" not in given:
        raise TypeError("batch_size needs records, the number of records of the data set")
    found: dict[str, Cells] = {
        name: as_cells(name, given[name]) for name in ("noise_multiplier", "steps") if name in given
    }
    records = as_cells("records", given["records"]) if "records" in given else np.asarray(1.0)
    batch = None
    if "sample_rate" in given:
        found["sample_rate"] = _rate(given["sample_rate"])
    elif "batch_size" in given:
        batch = as_cells("batch_size", given["batch_size"])
        shape = common_shape({"batch_size": batch, "records": records})
        if (batch > records).any():
            first = np.argmax(batch > records)
            one, whole = (float(np.broadcast_to(x, shape).flat[first]) for x in (batch, records))
            raise ValueError(f"batch_size = {one!r} exceeds records = {whole!r}")
        found["sample_rate"] = _cells(rate_of_batch, batch, records)
    if "epochs" in given and "sample_rate" in found:
        epochs, rate = as_cells("epochs", given["epochs"]), found["sample_rate"]
        common_shape({"epochs": epochs, "sample_rate": rate})
        if ((epochs > 0.0) & (rate == 0.0)).any():
            raise ValueError("epochs needs a positive sample_rate: at sample_rate = 0 no number of steps is an epoch")
        parts = (epochs, rate) if batch is None else (epochs, batch, records)
        found["steps"] = as_cells("steps", _cells(steps_of_epochs, *parts))
    return {name: found[name] for name in PARAMETERS if name in found}


def rate_of_batch(batch_size: float, records: float) -> float:
    """batch_size / records as a sample rate, never below the exact quotient: a bound computed with it covers that.

    Examples
    --------
    >>> rate_of_batch(600, 60000)
    0.01
    """
    rate = float(batch_size) / float(records)
    return math.nextafter(rate, 1.0) if Fraction(rate) * Fraction(records) < Fraction(batch_size) else rate


def steps_of_epochs(epochs: float, batch_size: float, records: float = 1.0) -> int:
    """The number of steps in so many epochs, from the decimal digits and rounded up; 2**60 where there are more.

    A sample rate is a batch of one record.

    Examples
    --------
    >>> steps_of_epochs(60, 256, 60000), steps_of_epochs(7, 0.07)
    (14063, 100)
    """
    if epochs == 0.0:
        return 0
    wanted, batch, whole = (Fraction(repr(float(x))) for x in (epochs, batch_size, records))
    return min(math.ceil(wanted * whole / batch), 2**60)


def _cells(function: Any, *given: Cells) -> Cells:
    """A function of plain numbers, cell by cell."""
    return np.asarray(np.frompyfunc(function, len(given), 1)(*given), dtype=np.float64)


def _rate(value: object) -> Cells:
    try:
        return as_cells("sample_rate", value)
    except ValueError as error:
        if isinstance(value, float | int) and value > 1.0:
            raise ValueError(f"{error} (a batch size? give batch_size= and records=)") from None
        raise


def process_of(run: Run) -> Process:
    """The process that the keywords describe."""
    history = run.get("history")
    if history is not None:
        refused(run, (*PARAMETERS, "batch_size", "epochs"), "give either history or {}, not both")
        if has(run, "records"):
            as_cells("records", run["records"])
        return of_history(history)
    found = parameters(run)
    missing = [name for name in PARAMETERS if name not in found and not (name == "steps" and has(run, "epochs"))]
    if missing:
        raise TypeError(f"missing {', '.join(missing)} (or history=[(noise_multiplier, sample_rate, steps), ...])")
    common_shape(found)
    return Process([(Gaussian(found["noise_multiplier"]).poisson(found["sample_rate"]), found["steps"])])


def has(run: Mapping[str, object], name: str) -> bool:
    """Whether a keyword is given."""
    return run.get(name) is not None


def refused(run: Mapping[str, object], names: Iterable[str], message: str) -> None:
    """Refuse keywords by name."""
    beside = [name for name in names if run.get(name) is not None]
    if beside:
        raise TypeError(message.format(", ".join(beside)))


def of_history(history: Iterable[Block]) -> Process:
    """The process of a heterogeneous run; equal blocks are joined."""
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise TypeError(f"history must be a sequence of (noise_multiplier, sample_rate, steps), not {history!r}")
    blocks = []
    for i, row in enumerate(history):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str | bytes) or len(row) != 3:
            raise TypeError(f"history[{i}] must be (noise_multiplier, sample_rate, steps), not {row!r}")
        try:
            noise, rate, steps = (as_number(name, value) for name, value in zip(PARAMETERS, row, strict=True))
        except (TypeError, ValueError) as error:
            raise type(error)(f"history[{i}]: {error}") from None
        blocks.append((Gaussian(noise).poisson(rate), int(steps)))
    if not blocks:
        raise ValueError("history is empty; give at least one (noise_multiplier, sample_rate, steps)")
    try:
        return Process(blocks)
    except ValueError as error:  # the sum of equal blocks is beyond 2**53
        raise ValueError(f"history: equal blocks are joined, and their {error}") from None


def as_delta(delta: Reals | str | None, run: Mapping[str, object]) -> Cells:
    """delta as numbers; "1/n" and "1/n^1.1" are made of `records`."""
    if not isinstance(delta, str):
        return as_cells("delta", delta)
    match = _POWER.fullmatch(delta.strip())
    if match is None:
        raise ValueError(f'delta = {delta!r} is neither a number nor a power of the records such as "1/n" or "1/n^1.1"')
    if not has(run, "records"):
        raise TypeError(f"delta = {delta!r} needs records, the number of records of the data set")
    power = float(match.group(1) or 1.0)
    return _cells(lambda records: _power(records, power), as_cells("records", run["records"]))


def _power(records: float, power: float) -> float:
    """records^-power, never above it: what holds at it holds at the exact power."""
    value = math.pow(records, -power)
    if power == int(power) and power <= 64.0:
        return value if Fraction(value) * Fraction(records) ** int(power) <= 1 else math.nextafter(value, 0.0)
    return value * (1.0 - 1e-15 * (2.0 + power * math.log(records)))  # the decimal and its float differ
