"""A run of DP-SGD from its keywords: the process it is, and targets that depend on the number of records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict

import numpy as np

from fastacct.accountants import Method
from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Real, Reals, as_cells, as_number, common_shape
from fastacct.core.relations import Relation
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process

__all__ = ["Block", "Run", "as_delta", "parameters", "process_of", "refused"]

Block = tuple[Real, Real, Real]
"""Noise multiplier, sample rate and steps of a part of a run."""
PARAMETERS: Final = ("noise_multiplier", "sample_rate", "steps")
_RECORDS: Final = Domain(1.0, MAX_STEPS, integer=True)
_BATCH: Final = Domain(0.0, MAX_STEPS, open_low=True)
_EPOCHS: Final = Domain(0.0, MAX_STEPS)
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
    for name in ("batch_size",):
        if name in given and "records" not in given:
            raise TypeError(f"{name} needs records, the number of records of the data set")
    found: dict[str, Cells] = {}
    for name in PARAMETERS:
        if name in given:
            found[name] = _rate(given[name]) if name == "sample_rate" else as_cells(name, given[name])
    if "batch_size" in given:
        batch = as_cells("batch_size", given["batch_size"], _BATCH)
        records = as_cells("records", given["records"], _RECORDS)
        common_shape({"batch_size": batch, "records": records})
        if (batch > records).any():
            raise ValueError(f"batch_size = {float(np.max(batch))!r} exceeds records = {float(np.min(records))!r}")
        found["sample_rate"] = np.asarray(batch / records)
    if "epochs" in given and "sample_rate" in found:
        epochs, rate = as_cells("epochs", given["epochs"], _EPOCHS), found["sample_rate"]
        common_shape({"epochs": epochs, "sample_rate": rate})
        if "batch_size" in given:
            rate = as_cells("batch_size", given["batch_size"], _BATCH)
            epochs = np.asarray(epochs * as_cells("records", given["records"], _RECORDS))
        with np.errstate(divide="ignore", invalid="ignore"):
            found["steps"] = as_cells("steps", np.where(epochs > 0.0, np.ceil(epochs / rate), 0.0))
    return {name: found[name] for name in PARAMETERS if name in found}


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
        return of_history(history)
    found = parameters(run)
    missing = [name for name in PARAMETERS if name not in found]
    if missing:
        raise TypeError(f"missing {', '.join(missing)} (or history=[(noise_multiplier, sample_rate, steps), ...])")
    common_shape(found)
    return Process([(Gaussian(found["noise_multiplier"]).poisson(found["sample_rate"]), found["steps"])])


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
    if run.get("records") is None:
        raise TypeError(f"delta = {delta!r} needs records, the number of records of the data set")
    records = as_cells("records", run["records"], _RECORDS)
    return np.asarray(records ** -float(match.group(1) or 1.0))
