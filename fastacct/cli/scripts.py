"""The command that reads training scripts: `fastacct check-loop`."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastacct.cli.answers import Answer
from fastacct.cli.options import first_of
from fastacct.core.inputs import as_choice
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.words import in_one_line
from fastacct.scripts.files import Checked, check_files
from fastacct.scripts.found import ALLOWED

Row = Mapping[str, Any]


def check_loop(given: Namespace) -> Answer:
    """What holds for the training loops of scripts; with an earlier answer, how they moved."""
    numbers = first_of(given, "noise_multiplier", "records", "batch_size", "epochs")
    if given.delta is not None:
        numbers["delta"] = given.delta
    for name, value in numbers.items():
        if not ALLOWED[name](value):
            raise ValueError(f"{name} = {value!r} is out of range of what a training loop has")
    if given.batches is not None:
        numbers["batches"] = as_choice("batches", given.batches, ("poisson", "shuffled", "fixed_size"))
    if given.vouch is not None:
        if len(given.scripts) != 1 or given.scripts[0].is_dir():
            raise ValueError("--vouch names lines of one script: give that script alone")
        numbers["vouch"] = tuple(given.vouch)
    earlier = _earlier(given.before) if given.before else None
    found = check_files(given.scripts, **numbers)
    loops: list[Row] = [
        {"file": file, **one._asdict(), "breaks": _line(one.breaks), "assumes": one.assumes}
        for file, rows in found.loops.items()
        for one in rows
    ]
    document = {"command": "check-loop", "files": found.files, "loops": loops, "unread": found.unread}
    exit_code = 1 if any(loop["breaks"] for loop in loops) else 0
    if earlier is None:
        return Answer(document, _sentences(found), exit_code)
    rows = _moved(earlier, _named(loops))
    document["moved"] = rows
    sentences = _sentences(found) if rows else ["No loop moved.", *_sentences(found)]
    return Answer(document, sentences, exit_code, rows)


def _sentences(found: Checked) -> list[str]:
    """What was found, file by file."""
    lines: list[str] = []
    for file, rows in found.loops.items():
        lines += [f"{file}:{line[5:]}" if line.startswith("line ") else line for one in rows for line in one.lines()]
    lines += [f"{file} was not read: {why}" for file, why in found.unread.items()]
    loops, plural = sum(map(len, found.loops.values())), "" if found.files == 1 else "s"
    lines = [" " * (len(line) - len(line.lstrip())) + in_one_line(line) for line in lines]
    return [*lines, f"{loops or 'no'} private training loop{'' if loops == 1 else 's'} in {found.files:,} file{plural}"]


def _line(breaks: tuple[int, str] | None) -> dict[str, object] | None:
    return None if breaks is None else {"line": breaks[0], "what": breaks[1]}


def _named(loops: list[Row]) -> dict[str, Row]:
    """Loops by file, and by number where a file has several."""
    named: dict[str, Row] = {}
    for loop in loops:
        count = sum(name.partition(" ")[0] == loop["file"] for name in named)
        named[f"{loop['file']} ({count + 1})" if count else loop["file"]] = loop
    return named


def _earlier(path: Path) -> dict[str, Row]:
    """The loops of an answer that was written with --json."""
    try:
        document = json.loads(path.read_text("utf-8"))
        return _named([{**loop, "file": str(loop["file"])} for loop in document["loops"]])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: this is no answer of fastacct check-loop --json") from None


def _moved(before: Mapping[str, Row], now: Mapping[str, Row]) -> list[dict[str, object]]:
    """One row for each loop that moved: what held before, and what holds now."""
    names = sorted({*before, *now})
    rows: list[dict[str, object]]
    rows = [{"loop": name, "before": _shown(before.get(name)), "now": _shown(now.get(name))} for name in names]
    return [row for row in rows if row["before"] != row["now"]]


def _shown(loop: Row | None) -> str:
    """A loop in a few words."""
    if loop is None:
        return "no such loop"
    batches = str(loop["sampling"] or "batches not clear").replace("_", " ")
    if loop["epsilon"] is None:
        return f"not known ({batches})"
    upper, lower = float(loop["epsilon"]), loop["epsilon_lower"]
    is_interval = lower is not None and loop["sampling"] != "poisson"
    known = f"{digits_down(float(lower))} to {digits_up(upper)}" if is_interval else f"at most {digits_up(upper)}"
    broken = f"; line {loop['breaks']['line']}: {loop['breaks']['what']}" if loop["breaks"] else ""
    return f"epsilon {known} ({batches}{broken})"
