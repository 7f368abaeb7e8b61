"""The sentences and tables of a report, made of its numbers; how they are laid out is the templates' business."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from fastacct.core.relations import RELATIONS
from fastacct.core.rounding import digits_down
from fastacct.mechanisms import __all__ as _mechanisms
from fastacct.mechanisms.samplers import SAMPLERS
from fastacct.reports.assumed import ATTACK, WEAK, Section, assumed, unit_of
from fastacct.reports.numbers import KNOWN, REPLACED, Numbers, mechanism_in_words
from fastacct.reports.shown import at_most, of_100, percent, power, three_down

HALF: Final = 0.5
"""The same, above which a guarantee is weak."""
LARGE_DELTA: Final = 0.1
"""Over the number of records: delta should be no larger."""
ADDRESS: Final = "https://github.com/fastacct/fastacct"
_FACTOR: Final = 100.0
_RELATIONS: Final = {**RELATIONS, "zero_out": "replacing one record by an empty one"}
_RELEASED: Final = {True: "the model after every step of the training", False: "everything that the job releases"}
_FIELDS: Final = {
    "subject": "what is released",
    "data_set": "data set",
    "unit": "one record is one",
    "date": "date",
    "vouched_by": "who vouches for what is assumed",
}


def owners(n: Numbers, size: int) -> str:
    """Whose records a group has."""
    alike = f"groups of {size} records (each one {unit_of(n)}) that are used together or not at all"
    return f"people with {size} records" if unit_of(n) == "row" else alike


# -- the guarantee ---------------------------------------------------------------------------------------------------


def verdict(n: Numbers) -> str:
    """Why the guarantee protects nobody, or that it is weak; empty where it protects."""
    tpr = n["tpr_at_fpr"][0.01]
    weak = f"This guarantee is weak: up to {percent(tpr)} of the records that were used may be {ATTACK}."
    return void(n) or (weak if tpr > HALF else "")


def void(n: Numbers) -> str:
    """Why the guarantee protects nobody; empty where it may."""
    tpr, records = n["tpr_at_fpr"][0.01], n["run"].get("records")
    if n.get("audit", {}).get("refuted"):
        return (
            f"An audit refutes this guarantee, with confidence {_confidence(n)}: the run is not what it is said to be."
        )
    if n["epsilon"] == math.inf:
        return f"No finite ε is proved at δ = {power(n['delta'])}: at this δ nothing is promised."
    if tpr > WEAK:
        return (
            "This guarantee is too weak to protect a single record: "
            f"up to {percent(tpr)} of the records that were used may be {ATTACK}.{_at_least(n)}"
        )
    if records and n["delta"] * records >= 1.0 - 1e-12:  # 1 / records is rounded
        return "This guarantee protects nobody: who publishes one record in full, drawn at random, keeps it at this δ."
    return ""


def _at_least(n: Numbers) -> str:
    """Where an interval is wide, that the verdict is about its upper end."""
    is_wide = n["status"] != "TIGHT" and 0.0 < n["epsilon_lower"] < n["epsilon"]
    below = "How far below it the best attack stays is not known: the true ε is"
    return f" That is an upper bound. {below} {is_between(n)}." if is_wide else ""


def _confidence(n: Numbers) -> str:
    return f"{digits_down(100.0 * n['audit']['confidence'], 6)} %"


def differ(n: Numbers) -> str:
    """Of which data sets the guarantee is."""
    return f"for data sets that differ by {_RELATIONS[n['neighbors']]}"


def summary(n: Numbers) -> str:
    """The guarantee in a sentence, and why it is void if it is."""
    said = verdict(n)
    if n["epsilon"] == math.inf:
        return said
    told = f"ε ≤ {at_most(n['epsilon'])} at δ = {power(n['delta'])}, {differ(n)}"
    what = "training" if n["is_run"] else "job"
    return f"What the {what} releases satisfies (ε, δ)-differential privacy with {told}.{' ' * bool(said)}{said}"


def meaning(n: Numbers) -> str:
    """What the guarantee means."""
    relation = n["neighbors"]
    record = f"(one record is one {unit_of(n)})"
    if n["epsilon"] == math.inf:
        return f"To be promised anything at this δ: find a finite ε, {differ(n)} {record}."
    limit, plus = _factor(n["epsilon"]), f"plus δ = {power(n['delta'])}"
    if relation in ("add", "remove"):
        first, second = ("without", "with") if relation == "add" else ("with", "without")
        sets = f"The probability of any set of outcomes {first} the record is at most e^ε times its probability"
        return f"That means: compare two such data sets {record}. {sets} {second} it, {plus}; {limit}."
    sets = "The probability of any set of outcomes from either of them is at most e^ε times its probability"
    return f"That means: compare two such data sets {record}. {sets} from the other, {plus}; {limit}."


def _factor(epsilon: float) -> str:
    """exp(epsilon) of the epsilon that is shown, rounded up."""
    shown = float(at_most(epsilon).replace(",", ""))
    if shown == 0.0:
        return "e^ε = 1"
    factor = f"e^ε ≤ {power(math.exp(shown) * (1.0 + 1e-15))}" if shown < 700.0 else "e^ε is larger than 10³⁰³"
    return f"{factor}, which limits next to nothing" if epsilon > math.log(_FACTOR) else factor


def is_between(n: Numbers) -> str:
    """Between which ends the smallest true epsilon is, or which one it is."""
    low = n["epsilon_lower"]
    if n["epsilon"] == low:
        return at_most(low) if low == 0.0 else f"{at_most(low)} (rounded up)"
    if n["status"] == "TIGHT":
        return f"{at_most(n['epsilon'])} (rounded up; the two proved bounds agree to a millionth)"
    if low == 0.0 < n["epsilon"]:
        return f"at most {at_most(n['epsilon'])}; how far below it is not known"
    below = f"{math.floor(low):,}" if 1000.0 <= low < 1e6 else three_down(low)
    return f"between {below} and {at_most(n['epsilon'])}"


def released(n: Numbers) -> str:
    """What was run, for a paper: every parameter of a run, or the mechanisms of a job."""
    told = n["told"]
    if not told:
        named = ((count, mechanism_in_words(mechanism)) for count, mechanism in n["job"])
        parts = (f"{'once' if count == '1' else count + ' times'} the {mechanism}" for count, mechanism in named)
        return f"We release {'; '.join(parts) or 'nothing'}."
    details = [value for name, value in told.items() if name != "sampler"]
    if norm := n["about"].get("clipping_norm"):
        details.append(f"gradients clipped to norm {norm}")
    return f"We train with DP-SGD: {', '.join(details)}; {told['sampler']}."


# -- sections --------------------------------------------------------------------------------------------------------


def sections_of(n: Numbers) -> Iterator[Section]:
    """All parts of a report."""
    yield _about(n)
    yield Section("In plain words", tuple(_plain_words(n)))
    yield _attacks(n)
    yield Section("Whom it protects, and from whom", tuple(_protected(n)))
    if n["groups"]:
        rows = tuple((f"{size}", at_most(e), percent(tpr)) for size, (e, tpr) in n["groups"].items())
        is_row = unit_of(n) == "row"
        first = "records of one person" if is_row else f"records of a group, each one {unit_of(n)}"
        found = f"{'people' if is_row else 'groups'} {ATTACK}"
        together = ("All records of such a group are used, or none is.",)
        yield Section("If several records belong together", together, (first, "ε at most", found), rows)
    yield assumed(n)
    yield Section(
        "What is not covered",
        (
            "Other releases from the same data: test runs for tuning, earlier versions, statistics.",
            "What is shown beside the released model or figures: accuracy on the training data, logs, running times.",
            "What is true of everybody: a model may reveal that smokers fall ill, whoever took part.",
        ),
    )
    if n["what_if"]:
        rows = tuple((change, at_most(e), percent(tpr)) for change, (e, tpr) in n["what_if"].items())
        told = "For comparison: what the numbers would be under other circumstances."
        yield Section("What would change it", (told,), ("change", "ε at most", ATTACK), rows)
    elif n.get("is_dear"):
        told = "Left out: groups, the same once more, and other circumstances. Numbers of this job take too long."
        yield Section("What would change it", (told,))
    yield Section("What is guaranteed", tuple(_guaranteed(n)))
    if n["epsilon_at"]:
        told = "Every row is true. Which one is quoted is a choice: a smaller δ goes with a larger ε."
        pairs = tuple((power(delta), at_most(e)) for delta, e in n["epsilon_at"].items())
        yield Section("The same guarantee with other δ", (told,), ("δ", "ε at most"), pairs)
    yield _in_terms_of_nist(n)
    yield Section("How it was computed", (*mechanisms(n), *_again(n)))


def mechanisms(n: Numbers) -> Iterator[str]:
    """What computed the numbers, and from what."""
    yield f"Computed by the software fastacct {n['fastacct_version']} ({ADDRESS}), from what is said to have been run:"
    yield from (f"{'once' if count == '1' else count + ' times'} {mechanism}" for count, mechanism in n["job"])


def _again(n: Numbers) -> Iterator[str]:
    """How a reader checks the number."""
    call = f"fastacct.epsilon(job, delta={n['delta']!r}, neighbors={n['neighbors']!r})"
    if code := _as_code(n):
        yield f"To compute it again, in Python: import fastacct; job = {code}; {call}."
    else:
        told = f"{call} in Python, where job adds up what is listed"
        yield f"To compute it again: {told}: {ADDRESS}/blob/main/docs/howto/pipeline.md."
    page = f"{ADDRESS}/blob/main/docs/certificates.md"
    if "certificate" in n or not 0.0 < n["epsilon"] < math.inf:
        return
    if n["has_certificate"]:
        made = "from whoever vouches for this report, or by fastacct.certify(job, ...).save(FILE) in Python"
        checked = "fastacct/certificate/checker.py on it; it needs Python, python-flint and the files beside it alone"
        yield f"To check it without this library: get a certificate ({made}), and run {checked}: {page}."
    else:
        yield f"No certificate can be made of this job, and its number rests on this library alone: {page}."


def _as_code(n: Numbers) -> str:
    """The job as a line of Python; empty where a mechanism is not written whole, or long."""
    parts = [re.sub(r"(?<!\w)(?=[A-Z]\w*\()", "fastacct.", mechanism) for _, mechanism in n["job"]]
    counts = [count.replace(",", "") for count, _ in n["job"]]
    code = " + ".join(one + f" * {count}" * (count != "1") for one, count in zip(parts, counts, strict=True))
    is_known = set(_mechanisms).issuperset(re.findall(r"fastacct\.(\w+)", code))
    is_plain = len(code) <= 400 and "__" not in code and re.fullmatch(r"[\w.,:=+*(){}\[\]' -]*", code)
    return code if is_known and is_plain else ""


def _about(n: Numbers) -> Section:
    stated = {name: str(n["about"][name]) for name in _FIELDS if name in n["about"]}
    rows = [(words, stated[name]) for name, words in _FIELDS.items() if name in stated]
    if told := n["told"]:
        last_the_sampler = sorted(told.items(), key=lambda item: item[0] == "sampler")
        rows.append(("training", ", ".join(value for _, value in last_the_sampler)))
    if norm := n["about"].get("clipping_norm"):
        rows.append(("clipping norm", str(norm)))
    missing = [words for name, words in _FIELDS.items() if name not in stated and name != "unit"]
    sentence = (f"Not stated: {', '.join(missing)}.",) if missing else ()
    return Section("What this report is about", sentence, ("about", "stated") if rows else (), tuple(rows))


def _plain_words(n: Numbers) -> Iterator[str]:
    tpr, records, unit = n["tpr_at_fpr"][0.01], n["run"].get("records"), unit_of(n)
    if said := verdict(n):
        yield said
    if tpr < 1.0:
        yield (
            f"Someone who sees {_RELEASED[n['is_run']]} tries to tell which records were used. If they wrongly "
            "suspect 1 of 100 records that were not used, on average they recognize at most "
            f"{of_100(tpr)} that were. Blind guessing recognizes 1 of 100."
        )
    else:
        yield f"Someone who sees {_RELEASED[n['is_run']]} may recognize every record that was used."
    if (replaced := n["what_if"].get(REPLACED)) and replaced[1] > WEAK:
        yield (
            "Against someone who knows that a record has one of two values and wants to know which, next to nothing "
            "is promised."
        )
    elif replaced:
        yield (
            "Or someone knows that a record has one of two values, A or B. If they wrongly say A of 1 of 100 records "
            f"that have B, on average they say it of at most {of_100(replaced[1])} that have A."
        )
    whole = f"one of the {records:,.0f} rows" if unit == "row" and records else f"one {unit}"
    several = f"A record is {whole} of the data."
    if n["groups"]:
        size, (_, more) = next(reversed(n["groups"].items()))
        known = f"on average at most {of_100(more)} are recognized, if 1 of 100 that were not used is suspected"
        yield f"{several} Of {owners(n, size)}, {known}."
    else:
        less = f"{'A person with several' if unit == 'row' else 'A group of'} records is protected less"
        yield f"{several} {less}; no number is given."
    yield 'All of this holds if "What is assumed" holds. This report does not check it. See also "What is not covered".'
    if records and n["delta"] * records > LARGE_DELTA * (1.0 + 1e-12):
        share = f"{n['delta'] * records:.3g}"
        yield (
            f"δ is larger than advised: it is {share} divided by the number of records, and should be at most "
            f"{LARGE_DELTA} divided by it."
        )
    elif not records and n["delta"] > 0.0:
        yield (
            f"δ should be at most {LARGE_DELTA} divided by the number of records, which is not stated: this one is for "
            f"{math.floor(LARGE_DELTA / n['delta'] * (1.0 + 1e-12)):,} records or fewer."
            if n["delta"] <= LARGE_DELTA
            else f"δ is more than {LARGE_DELTA}: with this chance nothing is promised of a record, of however many."
        )


def _attacks(n: Numbers) -> Section:
    sentences = ["Shares are upper bounds of averages, over records and noise: a lucky attacker may do better once."]
    if n["neighbors"] in ("add", "remove"):
        sentences.append(
            "They are of both directions, a record that is added and one that is removed, since an attacker compares "
            "both data sets. The ε of this report is of one direction alone."
        )
    if n["neighbors"] == "replace_one":
        sentences.append("In place of a used record another one might have been used; the attacker knows both.")
    if not n.get("has_picture", True):
        sentences.append("A page has no picture of them: of this job it takes too long.")
    rows = [
        (
            f"used records recognized, if {100 * fpr:.3g} % of the unused are wrongly suspected",
            percent(tpr),
            f"{100 * fpr:.3g} %",
        )
        for fpr, tpr in n["tpr_at_fpr"].items()
    ]
    for members, right in n["right_alarms"].items():
        shared = f"{100 * members:.3g} %"
        suspected = f"if {shared} of all candidates were used and 1 % of the unused are wrongly suspected"
        rows.append((f"suspicions that are right, {suspected}", percent(right), shared))
    gap = "largest gap between used records recognized and unused ones wrongly suspected (advantage)"
    rows.append((gap, percent(n["advantage"]), "0 %"))
    columns = "attack", "at most", "by guessing"
    return Section("What an attacker can do at best", tuple(sentences), columns, tuple(rows))


def _protected(n: Numbers) -> Iterator[str]:
    if void(n):
        yield "What is proved holds for each record, also the most unusual one, and is too little to protect it."
    else:
        yield "It protects each record, also the most unusual one."
    sees = "sees what the job releases (of a training: the model after every step)"
    if void(n):
        yield (
            f"The numbers bound what an attacker reaches who {sees}, knows all other records, and computes without "
            "limit."
        )
    else:
        yield f"It protects from anyone who {sees}, even if they know all other records, and however long they compute."
    if n["is_run"]:
        yield "Those who see the last model alone may see less. How much less is not counted here."
    secret = ", or which record is in which batch" if KNOWN in n["what_if"] else ""
    yield f"It does not protect from those who see the noise{secret}."


def _guaranteed(n: Numbers) -> Iterator[str]:
    yield summary(n)
    yield meaning(n)
    if n["neighbors"] in ("add", "remove"):
        yield "That is one direction. The reverse is not promised: neighbors add_remove promises both."
    if known := n.get("certificate"):
        told = f"ε ≤ {known['epsilon']} at δ = {known['delta']}"
        yield f"A program of less than 500 lines proves it in ball arithmetic, without this library's engine: {told}."
        yield f"Ask its author for the certificate, a JSON file (SHA-256 {known['sha256']})."
        yield (
            "Check it with fastacct verify FILE, or with fastacct/certificate/checker.py, which needs Python and "
            "python-flint, for some jobs the files beside it, and nothing else."
        )
        if n["run"].get("sampling") == "shuffled":
            yield "It counts an epoch as one Gaussian release of all records: an upper bound for any order of them."
    if found := n.get("audit"):
        shown = f"shown by an audit: at least {three_down(found['shown'])} ({_confidence(n)})"
        end = f"the guarantee is {'' if found['refuted'] else 'not '}refuted"
        yield f"Proved: at most {at_most(n['epsilon'])}; {shown}; {end}."
    if n["run"].get("sampling") == "shuffled":
        yield "No gain from shuffling is proved: an epoch counts as one release of all records, of any batch size."
    yield 'The guarantee holds if "What is assumed" holds.'
    yield "Smaller ε is safer: 0 at δ = 0 is no change at all. δ is how far probabilities may exceed what ε allows."
    if n["epsilon"] == math.inf:
        return
    pair = f"of the worst pair of data sets, the smallest ε that is true is {is_between(n)}"
    safe, bounded = f"The calculation is on the safe side: {pair}", ", ".join(n["bounded"])
    if n["status"] == "TIGHT":
        yield f"The calculation is exact: {pair}."
    elif bounded and n["epsilon_lower"] > 0.0:
        yield f"{safe}. Only an upper bound is known of {bounded}; the lower end is what the rest of the job proves."
    elif bounded:
        yield f"{safe}. Only an upper bound is known of {bounded}."
    else:
        yield f"{safe}{', and may be well below the latter' * (n['epsilon_lower'] > 0.0)}."


def _in_terms_of_nist(n: Numbers) -> Section:
    """The words of SP 800-226 and what this report says to each."""
    bounded = {"replace_one": "bounded", "zero_out": "zero-out"}.get(n["neighbors"], "unbounded")
    size = "their number of records is public" if bounded != "unbounded" else "they differ in size"
    names_records = SAMPLERS[n["run"].get("sampling") or "poisson"].names_records
    if bounded == "unbounded" and names_records and "records" in n["run"]:
        size = f"the larger one has {float(n['run']['records']):,.0f} records"
    kind = "pure" if n["delta"] == 0.0 else "approximate"
    told = "none is proved at this δ" if n["epsilon"] == math.inf else f"ε ≤ {at_most(n['epsilon'])}"
    rows = (
        ("privacy parameters", f"{told}, δ = {power(n['delta'])} ({kind} differential privacy)"),
        (
            "unit of privacy",
            f"one {unit_of(n)}; groups of records: {'see their own section' if n['groups'] else 'no number is given'}",
        ),
        ("neighboring data sets", f"{bounded}: {_RELATIONS[n['neighbors']]}; {size}"),
        ("trust model", "central, unless the mechanisms say otherwise: who runs the job holds all records"),
        ("mechanisms, composition", "those listed at the end, together; further releases add up and are not counted"),
        ("implementation", "not checked: clipping, sampling and noise are assumed to be as listed"),
        ("side channels, floating point", "not covered: running times, logs, noise as rounded by a computer"),
        ("security, access control", "not covered: who can see the data, the noise, the batches"),
        ("data collection exposure", "not covered: what happens to data before the job runs"),
        ("utility, bias", "not covered: noise costs accuracy, and more of it for small groups"),
    )
    source = (
        "Terms of NIST SP 800-226 of March 2025, Guidelines for Evaluating Differential Privacy Guarantees, "
        "https://doi.org/10.6028/NIST.SP.800-226. This is no assessment by NIST."
    )
    return Section("In the terms of NIST SP 800-226", (source,), ("term", "this report"), rows)
