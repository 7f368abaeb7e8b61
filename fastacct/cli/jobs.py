"""Jobs from files, and the commands about any job: attacks, reports, budgets; and plans of runs."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

import fastacct.audit as audits
import fastacct.cli.commands as commands
import fastacct.curve as curves
import fastacct.mechanisms as mechanisms
import fastacct.plot as plot
from fastacct.accountants.batching import COMPANIONS, in_words
from fastacct.accountants.question import CurveOptions, Job
from fastacct.accountants.run import Run, as_delta, process_of
from fastacct.certificate import certify as certificate_of
from fastacct.certificate import read_certificate
from fastacct.cli.answers import Answer
from fastacct.cli.audits import scores_in
from fastacct.cli.options import RUN, Keywords, as_given, first_of, one_run, runs
from fastacct.core.files import atomic_output, locked, real_file, refuse_existing, text_in
from fastacct.core.inputs import UNIT, Domain, as_choice, as_number
from fastacct.core.relations import DIRECTIONS, RELATIONS, as_relation, both_ways
from fastacct.core.rounding import digits_down, digits_up
from fastacct.curve import PrivacyCurve, TradeoffCurve
from fastacct.epsilon import delta_bounds, epsilon_bounds
from fastacct.guarantees import FORMAT as GUARANTEE
from fastacct.guarantees import guarantee as guarantee_of
from fastacct.guarantees import read_guarantee
from fastacct.guarantees.schema import MOST_BYTES, once
from fastacct.ledger.accountant import Accountant
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.samplers import SAMPLERS, VERBS
from fastacct.reports import plan as plan_of
from fastacct.reports import report as report_of
from fastacct.reports.numbers import right_alarms
from fastacct.reports.written import FORMATS
from fastacct.tradeoff import advantage, tpr_at_fpr

CURVE_ROWS: Final = 6
FIELDS: Final = ("title", "subject", "data_set", "unit", "date", "vouched_by", "clipping_norm")
DRAWN: Final = {name: SAMPLERS[name].first for name in VERBS} | {"group": "size"}
"""Keys of a release that are methods of its mechanism, in the order of their use, and what a number alone says."""
_AGAIN: Final = "verified: all numbers were computed again, and agree with the file to 1e-6"
_KINDS: Final = {one.__name__: one for one in mechanisms.EVERY if one.__name__ in mechanisms.__all__}


# -- files -----------------------------------------------------------------------------------------------------------


def job_in(path: Path) -> Process:
    """The job that a TOML or JSON file lists: [[release]] tables with a mechanism, its parameters and a count.

    A sampler is a key of its own: `poisson = 0.01`, or `fixed_size = {batch_size = 512, records = 50000}`.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        document = json.loads(text, object_pairs_hook=once) if path.suffix == ".json" else tomllib.loads(text)
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
    drawn = {name: given.pop(name) for name in DRAWN if name in given}
    one: Any = _KINDS[kind](**given)
    if listed := [name for name in given if isinstance(getattr(one, name, None), np.ndarray)]:
        raise TypeError(f"{listed[0]} must be one number, not {given[listed[0]]!r}")
    for name, value in drawn.items():  # a group of a sample
        settings = value if isinstance(value, Mapping) else {DRAWN[name] or name: value}
        one = getattr(one, name)(**settings)
        if one.shape:
            raise TypeError(f"{name} must have one number each, not {value!r}")
    if isinstance(count, list):
        raise TypeError(f"count must be one number, not {count!r}")
    return Process({one: count})


def job_of(given: Namespace) -> Process:
    """The job of a file, or the run that the options describe."""
    if given.job is None:
        return process_of(cast("Run", _run(given)))
    named = [name for name in (*RUN, *COMPANIONS) if name != "records" and getattr(given, name, None) is not None]
    if named or given.sampling != "poisson":
        raise ValueError("give either --job or the options of a run")
    _records(given)
    return job_in(given.job)


def _records(given: Namespace) -> Keywords:
    """The number of records, where it is given."""
    if given.records is not None and len(given.records) > 1:
        raise ValueError("give one number per option")
    return first_of(given, "records")


def _run(given: Namespace) -> Keywords:
    """The run as it was given, where it is one."""
    one_run(given)
    return as_given(given)


# -- commands --------------------------------------------------------------------------------------------------------


def guarantee(given: Namespace) -> Answer:
    """Epsilon or delta of a run, or of the job in a file."""
    if given.job is None:
        return commands.guarantee(given)
    if given.orders or given.conversion or given.accountant not in (None, "exact"):
        raise ValueError("--job is answered by the exact accountant: give no --accountant, --orders or --conversion")
    job, name = job_of(given), "delta" if given.command == "epsilon" else "epsilon"
    at = float(as_delta(given.delta, _records(given))) if name == "delta" else given.epsilon
    asked: Keywords = {name: at, "neighbors": given.neighbors}
    lower, upper, status = epsilon_bounds(job, **asked) if name == "delta" else delta_bounds(job, **asked)
    told = [
        f"{given.command} <= {digits_up(upper)} at {name} = {digits_up(at)} "
        f"(the true value is at least {digits_down(lower)})",
        f"Guarantee: certified upper bound, {status.name}, for data sets that differ by {RELATIONS[given.neighbors]}.",
        *(f"{count:g} times {mechanism!r}" for mechanism, count in job),
    ]
    found = {given.command: upper, f"{given.command}_lower": lower, "status": status.name, name: at}
    document = {"command": given.command, **found, "job": repr(job), "neighbors": given.neighbors}
    return Answer(document, told, plain=repr(upper))


def attack(given: Namespace) -> Answer:
    """What the best attack on a job achieves."""
    job, relation = job_of(given), both_ways(given.neighbors)  # an attacker knows both data sets
    options: CurveOptions = {"neighbors": relation}
    if given.prior is not None:
        if given.members is not None:
            raise ValueError("give --members, and no --prior, which is its former name")
        print("warning: --prior is the share of members among the suspects: write --members", file=sys.stderr)
    members = given.members or given.prior or [0.5]
    for name, shares in (("fpr", given.fpr), ("members" if given.prior is None else "prior", members)):
        for share in shares:
            as_number(name, share, UNIT)
    rows: list[dict[str, object]] = []
    for fpr in given.fpr:
        found = float(tpr_at_fpr(job, fpr, **options))
        row: dict[str, object] = {"fpr": fpr, "tpr_upper": found}
        row |= {f"right_at_{100 * share:g}%_upper": right_alarms(found, fpr, share) for share in members}
        rows.append(row)
    best = float(advantage(job, **options))
    told = [
        f"advantage <= {digits_up(best)}: the largest difference of the two rates",
        "fpr, tpr: false- and true-positive rate",
        "right_at_P%: the share of alarms that are right, if P % of the suspects are members",
        f"Guarantee: no attack does better, for data sets that differ by {RELATIONS[relation]}.",
    ]
    inputs = {"job": repr(job), "fpr": given.fpr, "members": members}
    document = {"command": "attack", "advantage": best, "rows": rows, "inputs": inputs, "neighbors": relation}
    return Answer(document, told, rows=rows, plain=repr(rows[0]["tpr_upper"]))


def audit(given: Namespace) -> Answer:
    """What the scores of runs, or of canaries of one run, show; exit code 1 where they refute the job that is given."""
    scores, inside = scores_in(given.scores)
    found: audits.Scores | audits.OneRun
    if given.guesses is None:
        found = audits.scores(scores[inside], scores[~inside], confidence=given.confidence)
    else:
        counts = audits.count_guesses(scores, inside, given.guesses, drawn=given.drawn)
        found = audits.one_run(scores.size, *counts, confidence=given.confidence)
    delta = float(as_delta(given.delta, first_of(given, "records")))
    document: dict[str, object] = {"command": "audit", "delta": delta, "confidence": given.confidence}
    if given.job is None and given.noise_multiplier is None:
        shown = float(np.asarray(found.epsilon(delta, neighbors=given.neighbors)))
        share = digits_down(100.0 * given.confidence)
        told = f"shown: epsilon at least {digits_down(shown)} at delta = {digits_up(delta)} ({share} %)"
        return Answer({**document, "epsilon_lower": shown}, [told], plain=repr(shown))
    beside = audits.compare(found, job_of(given), delta=delta, neighbors=given.neighbors)
    document |= {"epsilon_lower": beside.shown, "epsilon": beside.proved, "refuted": beside.refuted}
    return Answer(document, [str(beside)], int(beside.refuted), plain=repr(beside.shown))


def curve(given: Namespace) -> Answer:
    """Privacy curves or trade-off curves of runs or of a job, as a table and a picture."""
    relation, files = as_relation(given.neighbors), commands.files_of(given)
    asked: list[curves.Run | Process]
    if given.job is not None or given.sampling != "poisson":
        asked = [job_of(given)]
    else:
        asked = [curves.Run(**run) for run in runs(given)]
    limits = {"smallest_delta": given.smallest_delta, "points": given.points}
    found: list[PrivacyCurve] | list[TradeoffCurve]
    if given.kind == "privacy":
        promise = "certified lower and upper bounds of delta at every epsilon"
        ways = DIRECTIONS[relation] if relation == "add_remove" else (relation,)
        found = privacy = [curves.privacy_curve(one, way, **limits) for one in asked for way in ways]
        figure = plot.privacy_curves(privacy) if given.picture else None
    else:
        promise = "certified lower and upper bounds of the error rates of the best attack"
        found = [curves.tradeoff_curve(one, relation) for one in asked]
        figure = plot.tradeoff(asked, neighbors=relation) if given.picture else None
    if given.csv:
        curves.write_csv(found, given.csv, overwrite=given.overwrite)
    if figure:
        plot.save(figure, given.picture, overwrite=given.overwrite)
    listed = [(one.job, one.points()) for one in found]
    few = np.unique(np.linspace(0, len(listed[0][1]) - 1, CURVE_ROWS).round().astype(np.int64))
    table = [{"run": curves.name_of(one), **points[place]} for one, points in listed for place in few]
    sampler = None if given.job is not None else given.sampling
    told = promise if sampler is None else f"{promise}, when {in_words(sampler)}"
    document = {
        "command": "curve",
        "curves": [{**_about(one), "points": points} for one, points in listed],
        "files": list(map(str, files)),
        "inputs": {"runs": [*map(_about, asked)], "kind": given.kind, **limits},
        "guarantee": promise,
        "neighbors": relation,
        "sampler": sampler,
    }
    return Answer(
        document, [f"{told}.", *(f"wrote {path}" for path in files)], rows=() if given.quiet or files else table
    )


def _about(job: curves.Run | Job) -> Mapping[str, object]:
    return job._asdict() if isinstance(job, curves.Run) else {"job": repr(job)}


def report(given: Namespace) -> Answer:
    """A report, printed or written."""
    if given.write is not None and given.format in ("card", "appendix"):
        raise ValueError(
            f"format {given.format!r} has no suffix of its own: leave write out, and send it to a file with >"
        )
    what: Keywords = _run(given) if given.job is None else {"job": job_of(given), **_records(given)}
    fields = {name: getattr(given, name) for name in FIELDS if getattr(given, name) is not None}
    if given.certify is not None:
        refuse_existing(given.certify, given.overwrite)
    proves, wrote = given.certify is not None, list[str]()
    found = report_of(**what, delta=given.delta, neighbors=given.neighbors, certificate=proves, **fields)
    if found.certificate is not None:
        wrote = [f"wrote {found.certificate.save(given.certify, overwrite=given.overwrite)}"]
    document = {"command": "report", **found.numbers}
    if given.write is None:
        text = found.render(given.format if given.format in FORMATS else "text").rstrip("\n")
        return Answer(document, [], written=text, plain=repr(found.numbers["epsilon"]))
    written = found.save(given.write, overwrite=given.overwrite)
    return Answer(document, [found.summary, f"wrote {written}", *wrote])


def plan(given: Namespace) -> Answer:
    """Runs that meet a target, and the noise that each needs."""
    files = commands.files_of(given)
    after = {} if given.after is None else {"after": job_in(given.after)}
    as_number("head", given.head, Domain(1.0, math.inf))
    run: Keywords = {**as_given(given), **after, "neighbors": given.neighbors, "cost": given.cost}
    run |= {**_records(given), "epochs": given.epochs, "batch_size": given.batch_size}
    table = plan_of(epsilon=given.epsilon, delta=given.delta, **run)
    figure = plot.plan(table) if given.picture else None
    if given.csv:
        with atomic_output(given.csv, overwrite=given.overwrite) as temporary:
            table.to_csv(temporary, index=False)
    if figure:
        plot.save(figure, given.picture, overwrite=given.overwrite)
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    hopeless = int(np.isinf(table["noise_multiplier"]).sum())
    each = f"No noise suffices for {hopeless} of {len(rows)} rows (inf). Each other" if hopeless else "Each"
    told = [
        f"{each} row meets epsilon = {given.epsilon:g} at delta = {digits_up(table.attrs['delta'])}, "
        f"when {in_words(given.sampling)}, for data sets that differ by {RELATIONS[given.neighbors]}; "
        "least noise on the average gradient first.",
        *(f"wrote {path}" for path in files),
    ]
    more = [f"({len(rows) - given.head:,} more)"] if len(rows) > given.head else []
    target = dict(table.attrs) | {"after": repr(after)}
    document = {"command": "plan", "rows": rows, "files": [*map(str, files)], "target": target}
    return Answer(document, [*more, *told], int(hopeless == len(rows)), rows[: given.head])


def budget(given: Namespace) -> Answer:
    """A budget kept in a file: made, asked, and charged with a job."""
    path, job = real_file(given.ledger), None if given.job is None else job_in(given.job)
    if job is None and (given.dry_run or given.count != 1):
        raise ValueError("--dry-run and --count are for --job")
    made = None
    if given.epsilon is not None:
        refuse_existing(path, given.overwrite)
        made = Accountant(epsilon=given.epsilon, delta=given.delta, neighbors=given.neighbors)
    elif not path.exists():
        raise FileNotFoundError(f"{path} does not exist: --epsilon and --delta make a budget")
    is_asked = given.dry_run or (job is None and made is None)  # nothing is written: nobody has to wait
    with contextlib.nullcontext() if is_asked else locked(path):
        ledger = _budget_in(path, given) if made is None else made
        if job is not None and (given.dry_run or ledger.would_exceed(job, given.count)):
            fits = not ledger.would_exceed(job, given.count)
            told = f"{given.job} * {given.count} {'would not exceed' if fits else 'exceeds'} the budget: not recorded"
            return _of_budget(ledger, [told], int(not fits))
        if job is not None:
            ledger.compose(job, given.count)
        if not is_asked:
            with atomic_output(path, overwrite=made is None or given.overwrite) as temporary:
                temporary.write_text(ledger.to_json(), encoding="utf-8")
    return _of_budget(ledger, [] if job is None else [f"recorded: {given.job} * {given.count}"])


def _budget_in(path: Path, given: Namespace) -> Accountant:
    """The budget in a file; options are not other than it."""
    ledger = Accountant.from_json(path.read_text(encoding="utf-8"))
    if given.delta is not None or given.neighbors not in ("add_remove", ledger.neighbors):
        raise ValueError("--delta and --neighbors are those of the budget: give them with --epsilon, which makes it")
    if ledger.delta is None:
        raise ValueError(f"{path}: the budget has no delta")
    return ledger


def _of_budget(ledger: Accountant, told: list[str], exit_code: int = 0) -> Answer:
    spent = ledger.spent()
    of = f" of {ledger.budget:g}" if ledger.budget is not None else ""
    told.append(f"epsilon <= {digits_up(spent)}{of} at delta = {ledger.delta:g}, {ledger.neighbors} neighbours")
    document = {"command": "budget", "spent": spent, "budget": ledger.budget, "delta": ledger.delta}
    return Answer(document | {"job": repr(ledger.ledger)}, told, exit_code, plain=repr(spent))


# -- certificates ----------------------------------------------------------------------------------------------------


def certify(given: Namespace) -> Answer:
    """A certified epsilon of a run, or of the job in a file."""
    found = certificate_of(job_of(given), delta=given.delta, neighbors=given.neighbors, digits=given.digits)
    told = [f"epsilon <= {found.epsilon} at delta = {found.delta}: proved in ball arithmetic, without the engine"]
    if given.write is not None:
        told.append(f"wrote {found.save(given.write, overwrite=given.overwrite)}")
    else:
        told.append("--write FILE keeps the certificate, which `fastacct verify FILE` proves again")
    document = {"command": "certify", "epsilon": found.epsilon, "delta": found.delta, "neighbors": found.neighbors}
    return Answer(document | {"certificate": found.document}, told, plain=found.epsilon)


def guarantee_file(given: Namespace) -> Answer:
    """A guarantee of a run, or of the job in a file; written, or printed as text."""
    what: Keywords = _run(given) if given.job is None else {"job": job_of(given), **_records(given)}
    what |= {} if given.rows is None else {"unit": "user", "rows": given.rows}
    what |= {} if given.unit is None else {"unit": given.unit}
    found = guarantee_of(**what, delta=given.delta, neighbors=given.neighbors, trust_model=given.trust_model)
    written = [] if given.write is None else [f"wrote {found.save(given.write, overwrite=given.overwrite)}"]
    document = {"command": "guarantee", "guarantee": found.to_dict()}
    return Answer(document, [*str(found).splitlines(), *written], plain=repr(found.epsilon.upper))


def verify(given: Namespace) -> Answer:
    """Whether a certificate proves what it claims, or a guarantee has the numbers that are computed now."""
    path = given.certificate
    try:
        text = text_in(path, MOST_BYTES)
        if not text.lstrip().startswith("{"):
            raise ValueError("it is no JSON file, as `fastacct certify --write` and `guarantee --write` make them")
        is_guarantee = GUARANTEE in text
        told = f"{_AGAIN}\n{read_guarantee(path, verify=True)}" if is_guarantee else read_certificate(path).verify()
    except ValueError as error:
        return Answer(
            {"command": "verify", "proved": False, "reason": str(error)}, [f"{path} is not proved: {error}"], 1
        )
    return Answer({"command": "verify", "proved": True, "claim": told}, told.splitlines())
