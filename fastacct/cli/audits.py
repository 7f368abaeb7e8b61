"""The command about audits: scores in a file, and what they show beside what is proved of a run or a job."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path
from typing import Final

import numpy as np

import fastacct.audit as audits
from fastacct.audit.shared import Audit
from fastacct.cli.answers import Answer
from fastacct.cli.jobs import job_of
from fastacct.cli.options import first_of
from fastacct.core.inputs import Floats
from fastacct.core.rounding import digits_down, digits_up
from fastacct.run import as_delta

_FLAGS: Final = {"1": True, "0": False, "true": True, "false": False}


def audit(given: Namespace) -> Answer:
    """What the scores of runs, or of canaries of one run, show; exit code 1 where they refute the job that is given."""
    scores, inside = scores_in(given.scores)
    found: Audit
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


def scores_in(path: Path) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """The columns `score` and `member` (1 or 0, true or false) of a CSV file."""
    with path.open(newline="", encoding="utf-8-sig") as lines:
        table = csv.DictReader(lines)
        if missing := {"score", "member"} - set(table.fieldnames or ()):
            raise ValueError(f"{path}: has no column {min(missing)!r}; its first line must name score and member")
        scores, inside = [], []
        for row in table:
            where, flag = f"{path}, line {table.line_num}", _FLAGS.get((row["member"] or "").strip().lower())
            try:
                scores.append(float(row["score"] or ""))
            except ValueError:
                raise ValueError(f"{where}: score {row['score']!r} is not a number") from None
            if flag is None:
                raise ValueError(f"{where}: member {row['member']!r} is none of 1, 0, true, false")
            inside.append(flag)
    return np.array(scores), np.array(inside, dtype=np.bool_)
