"""What a report assumes, and what becomes of the promise where it does not hold."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastacct.mechanisms.samplers import SAMPLERS
from fastacct.reports.numbers import KNOWN, SHUFFLED, Numbers
from fastacct.reports.shown import percent

WEAK: Final = 0.9
"""A true-positive rate at 1 % false positives above which a guarantee protects no single record."""
ATTACK: Final = "recognized, if 1 % of the unused are wrongly suspected"


class Section(NamedTuple):
    """A part of a report: sentences, or a table."""

    heading: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def _proved(share: float, where: str) -> str:
    """What is promised, at most, where an assumption does not hold."""
    if share > WEAK:
        return f"{where}, next to nothing is promised: up to {percent(share)} of the used records may be {ATTACK}."
    return f"{where}, up to {percent(share)} of the used records may be {ATTACK}."


def unit_of(n: Numbers) -> str:
    """What one record is."""
    return str(n["about"].get("unit", "row"))


def assumed(n: Numbers) -> Section:
    """Every assumption, and what is promised without it."""
    what_if, rows = n["what_if"], list[tuple[str, str]]()
    if n["told"]:
        shuffled = f" {_proved(what_if[SHUFFLED][1], 'If the loader shuffles')}" if SHUFFLED in what_if else ""
        drawn = f"{n['told']['sampler']}."
        if n["run"].get("sampling") == "shuffled":
            drawn = "a record is in one batch of an epoch, in any order that does not depend on the data."
        rows.append((f"How batches are drawn: {drawn}", f"The numbers do not hold.{shuffled}"))
        norm = f" ({n['about']['clipping_norm']})" if "clipping_norm" in n["about"] else ""
        limited = f"What a record contributes, its gradient, is limited (clipped) to the norm{norm}"
        rows.append((f"{limited} that the noise multiplier is relative to.", "Nothing is promised."))
        alone = "The gradient of a record depends on that record alone: no batch normalization, no loss over pairs."
        rows.append((alone, "Nothing is promised: clipping does not limit what a record adds to others."))
        if n["run"].get("sampling") == "shuffled":
            whole = "An epoch ends with a batch: no batch has records of two epochs."
            rows.append((whole, "The numbers do not hold: a record may be in such a batch twice."))
        if SAMPLERS[n["run"].get("sampling") or "poisson"].hides_size:
            fixed = "The noisy sum is divided by a fixed number (the expected batch size), not by how many were drawn."
            rows.append((fixed, "The numbers do not hold: how many were drawn is told without noise."))
    else:
        limited = "A record changes each released sum or count by at most the sensitivity that its noise is scaled to."
        rows.append((limited, "Nothing is promised."))
    if "RepeatedSelection" in n["bounded"]:
        tried = "The number of runs of RepeatedSelection was drawn at random as listed, before the first of them."
        rows.append((f"{tried} It was not changed later, and the best run alone was shown.", "Nothing is promised."))
    if bounded := ", ".join(name for name in n["bounded"] if name != "RepeatedSelection"):
        rows.append(
            (
                f"The numbers that are listed of {bounded} hold for data sets that differ in this way.",
                "Nothing is promised.",
            )
        )
    copies = "Each record is in the data once, without copies."
    rows.append((copies, "A record with copies is protected less, as several records that belong together."))
    if (unit := unit_of(n)) != "row":
        all_of = f"All that belongs to one {unit} is one record: drawn together, and limited together."
        rows.append((all_of, f"A {unit} is protected less, as one with several records."))
    if KNOWN in what_if:
        drawn = "" if n["is_run"] else ", and batches are drawn as the list of mechanisms says"
        rows.append((f"Who is in which batch stays secret{drawn}.", _proved(what_if[KNOWN][1], "Where it is known")))
    secret = "Noise is random, drawn anew each time, and stays secret; so does the seed of the random numbers."
    rows.append((secret, "Nothing is promised: who knows the seed can take the noise away."))
    settings = "Settings (noise, batches, length, δ) were fixed without a look at the data."
    rows.append((settings, "What their choice gives away is not counted."))
    if n["neighbors"] in ("replace_one", "zero_out"):
        more = "The guarantee compares data sets of one size: it does not hide how many records there are."
        rows.append(("The number of records is public.", more))
    elif "records" in n["run"] and SAMPLERS[n["run"].get("sampling") or "poisson"].names_records:
        larger = f"The larger of the two data sets has {float(n['run']['records']):,.0f} records."
        rows.append(
            (f"{larger} Both have the same batch size, or limit.", "Of another number of records other numbers hold.")
        )
    vouched = n["about"].get("vouched_by")
    sentence = f"Vouched for by {vouched}." if vouched else "Whoever ran the job vouches for it; nobody is named."
    return Section("What is assumed", (sentence,), ("assumption", "if it does not hold"), tuple(rows))
