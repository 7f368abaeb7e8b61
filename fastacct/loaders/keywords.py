"""A run on a live loader, in the keywords of `fastacct.dpsgd`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import as_cells, unwrap
from fastacct.core.relations import as_relation, refuse
from fastacct.core.rounding import as_written
from fastacct.loaders.guide import LoaderGuide, guide_of
from fastacct.loaders.objects import seen
from fastacct.loaders.seen import TORCH, Seen

_FIXED: Final = ("sample_rate", "records", "batch_size", "sampling", "at_most", "bands", "bins", "selected", "history")


class Told(NamedTuple):
    """A run whose loader has told its batches."""

    run: Mapping[str, Any]
    records: object
    """Of the data set; None where nobody said how many."""
    lower_holds: bool
    live: Seen | None = None


def proved(live: Seen, neighbors: object) -> LoaderGuide:
    """What is said of a live loader; ValueError where that is no number under this relation."""
    guide, relation = guide_of(live), as_relation(neighbors)
    if not guide.neighbors:
        raise ValueError(f"loader {live.name}: {guide.call}")
    if live.is_guessed:
        refuse_known(live)
    if relation not in guide.neighbors and not (relation in ("add", "remove") and "add_remove" in guide.neighbors):
        refusal = refuse(live.name, relation, guide.neighbors)  # type: ignore[arg-type]
        private = "; is it given to Opacus' make_private? Give the loader that this returns" * (live.loader == TORCH)
        raise ValueError(f"{refusal}{private}")
    refuse_known(live)
    return guide


def refuse_known(live: Seen) -> None:
    """Warn where a sample is drawn from a seed that somebody may know: what is proved of samples is for secret ones.

    Raises
    ------
    ValueError
        Where everybody knows it.
    """
    if live.is_pass or not live.notes:
        return
    if live.is_guessed:
        raise ValueError(f"loader {live.name}: {live.notes[0]} Batches that are known have no amplification")
    cure = (
        "Leave it to the system, rng=numpy.random.default_rng(); in DPKerasConfig take seed=secrets.randbits(63)"
        if live.loader.startswith("jax_privacy")
        else "Give what draws the batches a generator of its own, on the CPU, secret = torch.Generator(); "
        "secret.seed(): DPDataLoader.from_data_loader(loader, generator=secret), or DataLoader(..., generator=secret) "
        "for make_private"
    )
    warnings.warn(
        f"the batches may be known. {live.notes[0]} No amplification holds for them. {cure}",
        stacklevel=1,  # one place of all callers, so that it is said once
    )


def told(run: Mapping[str, Any], *, wanted: str = "") -> Told:
    """The keywords of a run, with those that its loader fixes in the place of the loader, if it has one.

    Without `wanted`, the keyword that is to be found, among them.

    Raises
    ------
    TypeError, ValueError
        Keywords that the loader fixes, or that it does not know; a loader, or a relation, of which nothing is proved.
    """
    if run.get("loader") is None:
        return Told(run, run.get("records"), True)
    given = {name: value for name, value in run.items() if value is not None and name != "loader"}
    live = seen(run["loader"])
    guide = proved(live, given.get("neighbors", "add_remove"))
    if twice := [name for name in given if name in _FIXED and name not in live.asks]:
        raise TypeError(f"{twice[0]} is what the loader fixes: leave it out")
    if missing := [name for name in live.asks if name not in given]:
        raise TypeError(f"the loader does not know {missing[0]}: give it, too")
    if wanted in _FIXED:
        raise TypeError(f"{wanted} is what the loader fixes: it cannot be asked for")
    count, is_whole = ({}, True) if wanted == "steps" else _counted(live, given)
    if live.share != 1.0 and "noise_multiplier" in given:
        given["noise_multiplier"] = unwrap(live.share * as_cells("noise_multiplier", given["noise_multiplier"]))
    records = given.get("records") if "records" in live.asks else live.records
    return Told(given | live.run | count, records, guide.lower_holds and is_whole, live)


def _counted(live: Seen, given: dict[str, Any]) -> tuple[dict[str, object], bool]:
    """How many units a run has, and whether the last of them is whole; takes steps and epochs out of the keywords."""
    if ("steps" in given) == ("epochs" in given):
        raise TypeError("a run on a loader needs steps or epochs, one of them")
    name = "epochs" if "epochs" in given else "steps"
    asked = as_cells(name, given.pop(name))
    if name == "epochs" and live.is_pass:
        return {live.unit: unwrap(np.ceil(asked))}, bool((asked % 1.0 == 0.0).all())
    per = live.length if live.is_pass else live.per
    if per == 0 or (name == "epochs" and live.length == 0):
        raise TypeError(f"the loader does not say how many steps an epoch has: give {'steps' if per else 'epochs'}")
    exact = np.frompyfunc(lambda epochs: float(math.ceil(as_written(epochs) * live.length)), 1, 1)
    steps = np.asarray(exact(asked), dtype=np.float64) if name == "epochs" else asked
    if (steps > live.most).any():
        raise ValueError(f"steps = {float(steps.max())!r}: the loader draws {live.most} batches and no more")
    return {live.unit: unwrap(-(-steps // per))}, bool((steps % per == 0.0).all())


def upper_alone(both: Bounds) -> Bounds:
    """Bounds whose lower end does not hold for the loader: 0."""
    status = np.where(np.equal(both.status, Status.TIGHT), Status.LOOSE, both.status).astype(np.uint8)
    return Bounds(both.lower * 0.0, both.upper, status if np.ndim(both.upper) else Status(int(status)))
