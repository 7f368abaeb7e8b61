"""How a run of DP-SGD draws its batches, from keywords: `sampling` and what belongs to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

import numpy as np

from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Reals, as_cells, as_choice, common_shape, unwrap
from fastacct.core.rounding import as_written, float_above
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import Count
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.samplers import SAMPLERS, Sampler

_WHOLE: Final = Domain(0.0, MAX_STEPS, integer=True)
_AT_LEAST_ONE: Final = Domain(1.0, MAX_STEPS, integer=True)
_DOMAINS: Final = {"epochs": _WHOLE, "at_most": _AT_LEAST_ONE, "selected": _AT_LEAST_ONE, "bands": _AT_LEAST_ONE}
BINS: Final = ("fresh", "persistent")
Given = Mapping[str, Any]


def each(function: Callable[..., float], *given: object) -> Cells:
    """A function of plain numbers, cell by cell."""
    applied: Any = np.frompyfunc(function, len(given), 1)
    return np.asarray(applied(*given), dtype=np.float64)


def _epochs(made_by: Callable[..., Mechanism], given: Given, *, is_allocation: bool) -> Process:
    """Epochs of an allocation, or of shuffled batches: of the latter the last one may be smaller."""
    epochs, more = given["epochs"], {}
    selected, rounded = given.get("selected", 1.0), math.floor if is_allocation else math.ceil
    size = given["records"], given["batch_size"], selected
    steps = unwrap(each(lambda n, m, k: rounded(int(k) * as_written(n) / as_written(m)), *size))
    if is_allocation:
        more["selected"] = selected
    if given.get("bins", "fresh") == "persistent":
        ran = np.asarray(epochs) > 0.0  # the draw of what runs in no epoch says nothing
        epoch = made_by(steps, epochs=unwrap(np.maximum(epochs, 1.0)), bins="persistent", **more)
        return Process({epoch: cast("Count", unwrap(np.where(ran, 1.0, 0.0)))})
    return Process({made_by(steps, **more): cast("Count", epochs)})


def _truncated(noise: Gaussian, given: Given) -> Process:
    kept = {"at_most": given["at_most"], "records": given["records"]}
    return Process({noise.poisson(given["sample_rate"], **kept): given["steps"]})


def _inside(batch: Fraction, group: float) -> float:
    return float_above(batch / int(group)) if group >= 1.0 else math.inf


def _cyclic(noise: Gaussian, given: Given) -> Process:
    """A record takes part in every round of as many steps as there are groups once at most.

    Groups of whole records may leave some out, and are smaller then: batches of this size draw more of each.
    """
    rate, bands = given["sample_rate"], given["bands"]
    if "batch_size" in given:
        batch, records = given["batch_size"], given["records"]
        inner = each(lambda m, n, b: _inside(as_written(m), n // b), batch, records, bands)
    else:
        inner = each(lambda q, b: float_above(Fraction(q) * int(b)), rate, bands)
    if np.any(inner > 1.0 + 1e-15):
        raise ValueError(
            f"bands = {bands!r}: each group is 1/bands of the records, and sample_rate * bands must be at most 1, with "
            f"sample_rate = {rate!r} of all records"
        )
    rounds = each(lambda steps, b: -(-int(steps) // int(b)), given["steps"], bands)
    return Process({noise.poisson(unwrap(np.minimum(inner, 1.0))): cast("Count", unwrap(rounds))})


_PROCESSES: Final = {"truncated": _truncated, "cyclic": _cyclic}
"""Of samplers that are no method of Gaussian noise."""
SAMPLINGS: Final = tuple(SAMPLERS)
"""How batches may be drawn."""
COMPANIONS: Final = ("at_most", "bands", "bins", "selected")
"""Keywords that belong to some of them."""
_TAKEN: Final = {
    name: [kind for kind, how in SAMPLERS.items() if name in (*how.needs, *how.takes)] for name in COMPANIONS
}


class Batches(NamedTuple):
    """Batches that are no Poisson samples."""

    kind: str
    cells: dict[str, Cells]
    """What fixes them, beside noise, sample rate and steps."""
    bins: str

    def process(self, given: Mapping[str, Reals]) -> Process:
        """The run, from noise_multiplier, sample_rate and steps or epochs and what fixes the batches."""
        noise, run = Gaussian(given["noise_multiplier"]), {**given, "bins": self.bins}
        if made := _PROCESSES.get(self.kind):
            return made(noise, run)
        made_by = getattr(noise, self.kind)
        if SAMPLERS[self.kind].is_by_epochs:
            return _epochs(made_by, run, is_allocation=self.kind == "allocation")
        return Process({made_by(given["batch_size"], given["records"]): cast("Count", given["steps"])})


def batches_of(run: Mapping[str, object], wanted: str = "") -> Batches | None:
    """How the keywords say that batches are drawn; None where they are Poisson samples.

    What batches are made of is not `wanted`: it is not calibrated.
    """
    kind = as_choice("sampling", run.get("sampling", "poisson"), SAMPLINGS)
    _refuse_others(kind, run)
    if kind == "poisson":
        return None
    sampler = SAMPLERS[kind]
    _check(kind, sampler, run, wanted)
    bins = as_choice("bins", "fresh" if run.get("bins") is None else run["bins"], BINS)
    names = [name for name in (*sampler.needs, *sampler.takes) if run.get(name) is not None and name != "bins"]
    cells = {name: as_cells(name, run[name], _DOMAINS.get(name)) for name in names}
    common_shape(cells)
    return Batches(kind, cells, bins)


def _refuse_others(kind: str, run: Mapping[str, object]) -> None:
    """Refuse keywords that belong to other samplers."""
    for name, kinds in _TAKEN.items():
        if run.get(name) is not None and kind not in kinds:
            raise TypeError(f"{name} is for sampling = {' or '.join(map(repr, kinds))}, not for {kind!r}")


def _check(kind: str, sampler: Sampler, run: Mapping[str, object], wanted: str) -> None:
    """Refuse what is not calibrated, and keywords that do not fix the batches."""
    never = {"sample_rate": "a batch size is"} | ({"steps": "epochs are"} if sampler.is_by_epochs else {})
    if wanted in never:
        of = {"steps": "ask epsilon for the epochs"}.get(wanted, "compare noise multipliers")
        raise ValueError(f"sampling = {kind!r}: {never[wanted]} not calibrated; {of} of a few runs")
    if sampler.is_by_epochs and run.get("steps") is not None:
        raise TypeError(f"sampling = {kind!r}: give epochs, not steps")
    if missing := [name for name in sampler.needs if run.get(name) is None]:
        raise TypeError(f"sampling = {kind!r} needs {', '.join(missing)}; other keywords do not fix the batches")


def in_words(sampling: str) -> str:
    """When a number holds."""
    return SAMPLERS[sampling].about
