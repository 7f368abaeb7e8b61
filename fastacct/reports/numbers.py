"""The numbers of a report, each asked once: the guarantee, attacks, groups, and what would change them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from fastacct.accountants.batching import COMPANIONS, in_words
from fastacct.accountants.run import Run, parameters, process_of
from fastacct.core.relations import Relation, both_ways
from fastacct.core.rounding import as_written
from fastacct.core.version import __version__
from fastacct.core.words import as_plain, in_one_line
from fastacct.core.work import counted
from fastacct.epsilon import delta as smallest_delta
from fastacct.epsilon import epsilon, epsilon_bounds
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.samplers import SAMPLERS
from fastacct.tradeoff import tpr_at_fpr

if TYPE_CHECKING:
    from fastacct.accountants.question import CurveOptions
    from fastacct.mechanisms.process import Process

Numbers = dict[str, Any]
FPR: Final = (0.001, 0.01)
SHUFFLED: Final = "batches of shuffled data, as in most loaders (an empty record takes the place of one)"
POISSON: Final = "Poisson batches: every step draws each record by itself (a record is added or removed)"
REPLACED: Final = "another relation: a record is replaced by another one"
KNOWN: Final = "the batches that draw a record become known (counted as if every batch drew it)"
_MEMBERS: Final = (0.01, 0.1, 0.5)
_GROUPS: Final = (2, 5)
_CHANGES: Final = (
    ("noise_multiplier", 1.1, "10 % more noise"),
    ("noise_multiplier", 0.9, "10 % less noise"),
    ("epochs", 2, "twice as many epochs (passes over the data)"),
    ("steps", 2, "twice as many steps"),
    ("batch_size", 2, "batches twice as large"),
    ("sample_rate", 2, "batches twice as large"),
)
_NO_OTHERS: Final = {"groups": dict[int, float](), "what_if": dict[str, float]()}
_LISTED: Final = 4
"""Parts of a history that are written out."""


def numbers_of(job: Process, delta: float, relation: Relation, run: Run, *, is_run: bool) -> Numbers:
    """All numbers of a report; `run` has the keywords of a run, or the number of records of a job."""
    options: CurveOptions = {"neighbors": both_ways(relation)}  # attackers know both data sets
    found = epsilon_bounds(job, delta=delta, neighbors=relation)
    deltas = [float(f"{delta * 10.0**k:.12g}") for k in (2, 1, 0, -1, -2, -3) if delta * 10.0**k < 0.5]
    others = [one for one in deltas if one != delta]
    epsilons = dict(zip(others, np.asarray(epsilon(job, delta=others, neighbors=relation)).tolist(), strict=True))
    with counted() as done:
        tpr = dict(zip(FPR, _recognized(job, FPR, options), strict=True))
    work = sum(done.values())
    is_dear = work > 6e8  # a second: then there is no time for ten other jobs
    return {
        "epsilon": float(found.upper),
        "epsilon_lower": float(found.lower),
        "status": found.status.name,
        "delta": delta,
        "neighbors": relation,
        "job": [(f"{count:,.0f}", in_one_line(repr(mechanism))) for mechanism, count in job],
        "bounded": sorted({type(mechanism.unsampled()).__name__ for mechanism, _ in job if not mechanism.tight}),
        "fastacct_version": __version__,
        "advantage": float(smallest_delta(job, epsilon=0.0, **options)),
        "tpr_at_fpr": tpr,
        "right_alarms": {share: right_alarms(tpr[FPR[-1]], FPR[-1], share) for share in _MEMBERS},
        "epsilon_at": {one: epsilons.get(one, float(found.upper)) for one in deltas},
        **(_NO_OTHERS if is_dear else _others(job, delta, relation, run if is_run else {}, float(found.upper))),
        "is_dear": is_dear,
        "has_picture": work <= 1e8,  # which has thirty times as many rates
        "is_run": is_run,
        "run": {name: as_plain(value) for name, value in run.items()},
    }


def _others(job: Process, delta: float, relation: Relation, run: Run, proved: float) -> Numbers:
    """Of groups, and of what would change the numbers."""
    groups = ((k, _asked(partial(job.group, k), delta, relation)) for k in _GROUPS)
    known = {k: value for k, value in groups if value is not None}
    return {"groups": known, "what_if": dict(_changes(job, delta, relation, run, proved))}


def right_alarms(tpr: float, fpr: float, members: float) -> float:
    """The largest share of alarms that are right, if so many of all candidates are members."""
    if tpr == fpr > 0.0:
        return members
    right, wrong = members * tpr, (1.0 - members) * fpr
    return min(1.0, right / (right + wrong) * (1.0 + 1e-12)) if wrong > 0.0 else float(members > 0.0)


def _recognized(job: Process, at: tuple[float, ...], options: CurveOptions) -> list[float]:
    """True positives of the best attack; of what releases nothing not a rounding more than the false ones."""
    found = [float(one) for one in np.asarray(tpr_at_fpr(job, at, **options))]
    is_near = all(tpr < fpr * (1.0 + 1e-9) for tpr, fpr in zip(found, at, strict=True))
    return [*at] if is_near and smallest_delta(job, epsilon=0.0, **options) == 0.0 else found


def _asked(make: Callable[[], Process], delta: float, relation: Relation) -> tuple[float, float] | None:
    """Epsilon, and the true positives of an attack, where something is proved."""
    try:
        job = make()
        at_most = float(epsilon(job, delta=delta, neighbors=relation))
        return at_most, _recognized(job, FPR[-1:], {"neighbors": both_ways(relation)})[0]
    except (ValueError, TypeError):
        return None


def _changes(
    job: Process, delta: float, relation: Relation, run: Run, proved: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """What would change the epsilon that is `proved`, and an attack, and to what; of shuffled batches it is no matter
    whether they are known."""
    changes: dict[str, tuple[Callable[[], Process], Relation]] = {}
    for name, factor, words in _CHANGES if run else ():
        if (value := run.get(name)) is not None:
            as_many = f", and as many {'epochs' if 'epochs' in run else 'steps'}" * words.startswith("batches")
            changed = cast("Run", {**run, name: factor * cast("float", value)})
            changes[words + as_many] = partial(process_of, changed), relation
    if {"records", "batch_size", "epochs"} <= run.keys():
        fewer = {name: value for name, value in run.items() if name not in (*COMPANIONS, "sampling")}
        others: tuple[tuple[str, str, Relation], ...] = (
            (POISSON, "poisson", "add_remove"),
            (SHUFFLED, "shuffled", "zero_out"),
        )
        for words, sampling, under in others:
            if run.get("sampling", "poisson") != sampling:
                changes[words] = partial(process_of, cast("Run", {**fewer, "sampling": sampling})), under
    elif run and run.get("sampling", "poisson") == "poisson" and (passes := [*_passes(run)]):
        changes[SHUFFLED] = (lambda: sum(passes[1:], passes[0])), "zero_out"
    if not run:
        changes["the whole job done twice"] = (lambda: job * 2), relation
    if job != job.unsampled():
        changes[KNOWN] = job.unsampled, relation
    if relation != "replace_one":
        changes[REPLACED] = partial(_replaced, job, delta, relation), "replace_one"
    for words, (make, under) in changes.items():
        found = _asked(make, delta, under)
        if found is not None and (words != KNOWN or found[0] > proved * (1.0 + 1e-9)):
            yield words, found


def _passes(run: Run) -> Iterator[Process]:
    """As many passes over shuffled data as the steps of a run need, each as one release of all records.

    Whole batches that a rate of 1 / 97.7 cuts from the data are 97.
    """
    history = run.get("history")
    checked = parameters(run) if history is None else {}
    given = [checked[name] for name in ("noise_multiplier", "sample_rate", "steps")] if checked else []
    for noise, rate, steps in [given] if history is None else history:
        if (q := float(rate)) > 0.0 < float(steps):
            yield Gaussian(float(noise)) * math.ceil(float(steps) / max(math.floor((1.0 + 1e-12) / q), 1))


def _replaced(job: Process, delta: float, relation: Relation) -> Process:
    """The job, unless a mechanism says the same of both relations: its number was given for the one of the report."""
    for mechanism, _ in job:
        both = {float(epsilon(mechanism, delta=delta, neighbors=one)) for one in (relation, "replace_one")}
        if len(both) == 1 and both != {0.0}:
            raise ValueError(f"{mechanism!r} is given for neighbors={relation!r}")
    return job


def run_in_words(run: Run, relation: Relation = "add_remove") -> dict[str, str]:
    """Every parameter of a run, as a paper names it: its noise, its batches, its length, its sampler."""
    sampling = run.get("sampling") or "poisson"
    about = in_words(sampling).replace("at_most and records", "this number and that of all records")
    if SAMPLERS[sampling].names_records and both_ways(relation) == "add_remove":
        about = about.rpartition(", and ")[0]  # data sets whose number is public do not differ in size
    for name in ("batch_size", "at_most", "bands"):
        about = about.replace(name, _grouped(run.get(name)) if run.get(name) is not None else name)
    told = {"sampler": about}
    if (history := run.get("history")) is not None:
        parts = [tuple(map(as_plain, part)) for part in history]
        listed = [f"{steps} steps with noise multiplier {noise} and sample rate {q}" for noise, q, steps in parts]
        more = [f"{len(listed) - _LISTED} more parts"] if len(listed) > _LISTED else []
        return {"parts": "; ".join(listed[:_LISTED] + more)} | told
    told["noise"] = f"noise multiplier {_short(run['noise_multiplier'])}"
    records, batch, epochs = (run.get(name) for name in ("records", "batch_size", "epochs"))
    of = f" of {_grouped(records)} records" if records is not None else ""
    if batch is not None:
        told["batches"] = f"{'expected ' * SAMPLERS[sampling].hides_size}batch size {_grouped(batch)}{of}"
    else:
        told["batches"] = f"sample rate {_short(run['sample_rate'])}{of}"
    steps = _steps(run, sampling)
    passes = "" if epochs is None else f"{_short(epochs)} epoch{'s' * (epochs != 1)}"
    told["length"] = f"{passes} ({steps} steps)" if passes else f"{steps} steps"
    for name in COMPANIONS:
        if (value := run.get(name)) is not None:
            told[name] = f"{name.replace('_', ' ')} {as_plain(value)}"
    return told


def mechanism_in_words(text: str) -> str:
    """A mechanism as a paper names it: of `Laplace(noise_multiplier=10.0)`, Laplace mechanism (noise multiplier 10)."""
    text = text.replace(".poisson(", ", on Poisson samples (")
    text = re.sub(r"\.([a-z_]+)\(", lambda batch: f", {batch[1].replace('_', ' ')} (", text)
    text = re.sub(r"\b([A-Z]\w+)\(", lambda kind: re.sub("(?<=[a-z])(?=[A-Z])", " ", kind[1]) + " mechanism (", text)
    text = text.replace(" And ", "-and-")
    text = re.sub(r"\b[a-z]\w*=", lambda name: name[0][:-1].replace("_", " ") + " ", text)
    return re.sub(r"(?<=\d)\.0(?![\w.])", "", text)


def _steps(run: Run, sampling: str) -> str:
    """The number of steps, for which the last batch of an epoch may be a smaller one."""
    if not SAMPLERS[sampling].is_by_epochs:
        return f"{float(parameters(run)['steps']):,.0f}"
    records, batch, epochs = (as_written(cast("float", run.get(name))) for name in ("records", "batch_size", "epochs"))
    share = as_written(cast("float", run.get("selected") or 1)) * records / batch
    return f"{(math.floor(share) if sampling == 'allocation' else math.ceil(share)) * int(epochs):,}"


def _grouped(number: object) -> str:
    return f"{float(cast('float', number)):,.15g}"


def _short(number: object) -> str:
    """All digits; a whole number without its point."""
    return str(as_plain(number)).removesuffix(".0")
