"""Jobs from files, and the commands about any job: attacks, reports, budgets; and plans of runs."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import fastacct.cli.commands as commands
import fastacct.mechanisms as mechanisms
import fastacct.plot as plot
from fastacct.accountants.question import CurveOptions
from fastacct.cli.answers import Answer
from fastacct.cli.options import Keywords, one_run
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.inputs import as_choice
from fastacct.core.relations import RELATIONS
from fastacct.core.rounding import digits_down, digits_up
from fastacct.epsilon import delta_bounds, epsilon_bounds
from fastacct.ledger.accountant import Accountant
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process
from fastacct.reports import plan as plan_of
from fastacct.reports import report as report_of
from fastacct.run import Run, as_delta, process_of
from fastacct.tradeoff import advantage, positive_predictive_value, tpr_at_fpr

__all__ = ["attack", "budget", "guarantee", "job_in", "job_of", "plan", "report"]

SAMPLERS: Final = ("poisson", "fixed_size", "with_replacement", "allocation", "shuffled", "group")
_FIRST: Final = {"poisson": "sample_rate", "group": "size", "allocation": "steps", "shuffled": "steps"}
_KINDS: Final = {
    name: kind
    for name in mechanisms.__all__
    if isinstance(kind := getattr(mechanisms, name), type) and issubclass(kind, Mechanism)
}
_RUN: Final = ("noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs")


# -- files -----------------------------------------------------------------------------------------------------------


def job_in(path: Path) -> Process:
    """The job that a TOML or JSON file lists: [[release]] tables with a mechanism, its parameters and a count.

    A sampler is a key of its own: `poisson = 0.01`, or `fixed_size = {batch_size = 512, records = 50000}`.
    """
    try:
        text = path.read_bytes().decode()
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        if not isinstance(document, Mapping) or [*document] != ["release"] or not isinstance(document["release"], list):
            raise ValueError("must have [[release]] tables, and nothing else")
        whole = Process()
        for i, one in enumerate(document["release"]):
            try:
                whole = whole + _release(one)
            except (ValueError, TypeError) as error:
                raise type(error)(f"release[{i}]: {error}") from None
        return whole
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def _release(table: object) -> Process:
    if not isinstance(table, Mapping) or not isinstance(table.get("mechanism"), str):
        raise TypeError(f"needs mechanism, the name of one, such as 'Gaussian'; got {table!r}")
    given = dict(table)
    kind, count = as_choice("mechanism", given.pop("mechanism"), tuple(_KINDS)), given.pop("count", 1)
    drawn = {name: given.pop(name) for name in SAMPLERS if name in given}
    one: Any = _KINDS[kind](**given)
    for name, value in drawn.items():  # in the order of SAMPLERS: a group of a sample
        settings = value if isinstance(value, Mapping) else {_FIRST.get(name, name): value}
        one = getattr(one, name)(**settings)
    return Process({one: count})


def job_of(given: Namespace) -> Process:
    """The job of a file, or the run that the options describe."""
    named = [name for name in _RUN if getattr(given, name, None) is not None]
    if given.job is None:
        return process_of(cast("Run", _run(given)))
    if [name for name in named if name != "records"] or given.sampling != "poisson":
        raise ValueError("give either --job or the options of a run")
    return job_in(given.job)


def _run(given: Namespace) -> Keywords:
    """The run as keywords of `fastacct.dpsgd`, as it was given."""
    found = one_run(given)
    found.pop("delta", None)
    if found.get("sampling") == "poisson":
        del found["sampling"]
    made_of = {name: getattr(given, name) for name in ("records", "batch_size", "epochs")}
    kept = {name: value[0] for name, value in made_of.items() if value is not None}
    if "batch_size" in kept:
        found.pop("sample_rate", None)
    if "epochs" in kept:
        found.pop("steps", None)
    return found | kept


# -- commands --------------------------------------------------------------------------------------------------------


def guarantee(given: Namespace) -> Answer:
    """Epsilon or delta of a run, or of the job in a file."""
    if given.job is None:
        return commands.guarantee(given)
    if given.orders or given.conversion or given.accountant not in (None, "exact"):
        raise ValueError("--job is answered by the exact accountant: give no --accountant, --orders or --conversion")
    job, name = job_of(given), "delta" if given.command == "epsilon" else "epsilon"
    run = {} if given.records is None else {"records": given.records[0]}
    at = float(as_delta(given.delta, run)) if name == "delta" else given.epsilon
    asked: Keywords = {name: at, "neighbors": given.neighbors}
    lower, upper, status = epsilon_bounds(job, **asked) if name == "delta" else delta_bounds(job, **asked)
    told = [
        f"{given.command} <= {digits_up(upper)} at {name} = {at:g} (the true value is at least {digits_down(lower)})",
        f"Guarantee: certified upper bound, {status.name}, for data sets that differ by {RELATIONS[given.neighbors]}.",
        *(f"{count:g} times {mechanism!r}" for mechanism, count in job),
    ]
    found = {given.command: upper, f"{given.command}_lower": lower, "status": status.name, name: at}
    document = {"command": given.command, **found, "job": repr(job), "neighbors": given.neighbors}
    return Answer(document, told, plain=repr(upper))


def attack(given: Namespace) -> Answer:
    """What the best attack on a job achieves."""
    job = job_of(given)
    options: CurveOptions = {"neighbors": given.neighbors}
    rows: list[dict[str, object]] = []
    for fpr in given.fpr:
        row: dict[str, object] = {"fpr": fpr, "tpr_upper": float(tpr_at_fpr(job, fpr, **options))}
        for prior in given.prior:
            right = float(positive_predictive_value(job, fpr, prior=1.0 - prior, **options))
            row[f"right_at_{100 * prior:g}%_upper"] = right
        rows.append(row)
    best = float(advantage(job, **options))
    told = [
        f"advantage <= {digits_up(best)}: the largest difference of the two rates",
        "fpr, tpr: false- and true-positive rate",
        "right_at_P%: the share of alarms that are right, if P % of the suspects are members",
        f"Guarantee: no attack does better, for data sets that differ by {RELATIONS[given.neighbors]}.",
    ]
    inputs = {"job": repr(job), "fpr": given.fpr, "prior": given.prior}
    document = {"command": "attack", "advantage": best, "rows": rows, "inputs": inputs, "neighbors": given.neighbors}
    return Answer(document, told, rows=rows, plain=repr(rows[0]["tpr_upper"]))


def report(given: Namespace) -> Answer:
    """A report, printed or written."""
    what: Keywords = {"job": job_of(given)} if given.job is not None else _run(given)
    if given.job is not None and isinstance(given.delta, str):
        what["records"] = None if given.records is None else given.records[0]
    found = report_of(**what, delta=given.delta, neighbors=given.neighbors, title=given.title)
    document = {"command": "report", **found.numbers}
    if given.write is None:
        formats = {"text": "text", "markdown": "markdown", "latex": "latex", "plain": "text"}
        return Answer(document, [], written=found.render(formats.get(given.format, "text")).rstrip("\n"))
    written = found.save(given.write, overwrite=given.overwrite)
    return Answer(document, [found.summary, f"wrote {written}"])


def plan(given: Namespace) -> Answer:
    """Runs that meet a target, and the noise that each needs."""
    if given.picture:
        plot.as_picture(given.picture, overwrite=given.overwrite)
    if given.csv:
        refuse_existing(given.csv, given.overwrite)
    after = {} if given.after is None else {"after": job_in(given.after)}
    run: Keywords = {"records": given.records[0], "epochs": given.epochs, "neighbors": given.neighbors, **after}
    table = plan_of(epsilon=given.epsilon, delta=given.delta, batch_sizes=given.batch_size, **run)
    if given.csv:
        with atomic_output(given.csv, overwrite=given.overwrite) as temporary:
            table.to_csv(temporary, index=False)
    if given.picture:
        plot.save(plot.plan(table), given.picture, overwrite=given.overwrite)
    files = [str(path) for path in (given.csv, given.picture) if path]
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    told = [
        f"Each row meets epsilon = {given.epsilon:g} at delta = {table.attrs['delta']:g}, Poisson batches, for data "
        f"sets that differ by {RELATIONS[given.neighbors]}; least noise on the average gradient first.",
        *(f"wrote {path}" for path in files),
    ]
    more = [f"({len(rows) - given.head:,} more)"] if len(rows) > given.head else []
    document = {"command": "plan", "rows": rows, "files": files, "target": dict(table.attrs) | {"after": repr(after)}}
    return Answer(document, [*more, *told], rows=rows[: given.head])


def budget(given: Namespace) -> Answer:
    """A budget kept in a file: made, asked, and charged with a job."""
    path, job = given.ledger, None if given.job is None else job_in(given.job)
    if given.epsilon is not None:
        refuse_existing(path, given.overwrite)
        ledger = Accountant(epsilon=given.epsilon, delta=given.delta, neighbors=given.neighbors)
    else:
        ledger = Accountant.from_json(path.read_text())
    if job is not None and given.dry_run:
        would = ledger.would_exceed(job, given.count)
        return _of_budget(ledger, [f"{given.job} would {'' if would else 'not '}exceed the budget"], int(would))
    if job is not None:
        ledger.compose(job, given.count)
    if job is not None or given.epsilon is not None:
        with atomic_output(path, overwrite=True) as temporary:
            temporary.write_text(ledger.to_json())
    return _of_budget(ledger, [] if job is None else [f"recorded: {given.job} * {given.count}"])


def _of_budget(ledger: Accountant, told: list[str], exit_code: int = 0) -> Answer:
    spent = ledger.spent()
    of = f" of {ledger.budget:g}" if ledger.budget is not None else ""
    told.append(f"epsilon <= {digits_up(spent)}{of} at delta = {ledger.delta:g}, {ledger.neighbors} neighbours")
    document = {"command": "budget", "spent": spent, "budget": ledger.budget, "delta": ledger.delta}
    return Answer(document | {"job": repr(ledger.ledger)}, told, exit_code, plain=repr(spent))
