"""A report on a job: what is guaranteed, to whom, what is assumed, what an attacker can do, and what is not covered.

The sentences and tables are those of one template in Markdown; others lay them out as text, LaTeX or a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

import numpy as np

import fastacct.plot as plot
from fastacct.accountants.question import CurveOptions, as_process
from fastacct.batching import in_words
from fastacct.core.bounds import Bounds
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.inputs import as_choice
from fastacct.core.kept import cached
from fastacct.core.record import Record
from fastacct.core.relations import RELATIONS, Relation, as_relation, both_ways
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.version import __version__
from fastacct.core.words import as_json, as_latex, as_plain, in_one_line
from fastacct.epsilon import epsilon, epsilon_bounds
from fastacct.run import Run, as_delta, process_of, refused
from fastacct.tradeoff import advantage, tpr_at_fpr

if TYPE_CHECKING:
    import os

    from fastacct.accountants.question import Job
    from fastacct.mechanisms.process import Process

FORMATS: Final = {
    "text": "report.txt.j2",
    "markdown": "report.md.j2",
    "latex": "report.tex.j2",
    "html": "report.html.j2",
    "card": "card.md.j2",
    "appendix": "appendix.tex.j2",
    "json": "",
}
"""Formats and their templates: a card is a block for a model card, an appendix one for a paper."""
_SUFFIXES: Final = {".txt": "text", ".md": "markdown", ".tex": "latex", ".html": "html", ".json": "json"}
_FPR: Final = (0.001, 0.01)
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
_SHUFFLED: Final = "batches of shuffled data, as in most loaders (a record is told from an empty one)"
_REPLACED: Final = "the same job (a record is told from another one in its place)"
_KNOWN: Final = "it becomes known which record is in which batch"
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_Numbers = dict[str, Any]


class Section(NamedTuple):
    """A part of a report: sentences, or a table."""

    heading: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class Report(Record):
    """What `fastacct.report` found out; `str` of it is the text, and a notebook shows the page."""

    title: str
    job: Process
    delta: float
    neighbors: Relation
    found: Bounds
    summary: str
    """One sentence for a paper."""
    numbers: _Numbers
    """All numbers, as JSON has them."""

    @cached
    def sections(self) -> tuple[Section, ...]:
        """Its parts, from the template that holds the sentences."""
        run = self.numbers["run"]
        text = self._filled(
            "sections.md.j2",
            n=self.numbers,
            summary=self.summary,
            relation=RELATIONS[self.neighbors],
            sampler=in_words(run.get("sampling", "poisson")) if self.numbers["is_run"] else "",
            shuffled=_SHUFFLED,
            known=_KNOWN,
        )
        return tuple(_parsed(f"\n{text}"))

    def part(self, heading: str) -> Section:
        """The section with a heading."""
        return next(one for one in self.sections if one.heading == heading)

    def render(self, format: str = "text") -> str:
        """The report as text, markdown, latex (a section), html (one page, with pictures) or json.

        Also "card", a block for a model card, and "appendix", a paragraph for a paper.

        Raises
        ------
        ValueError, ModuleNotFoundError
            Another format; Jinja is missing, or matplotlib for html (extra `report`).

        Examples
        --------
        >>> import fastacct as fa
        >>> about = fa.report(fa.Gaussian(2.0), delta=1e-5)
        >>> print(about.render("appendix").splitlines()[0])
        \\paragraph{Privacy.} Everything released satisfies ($\\varepsilon$, $\\delta$)-differential privacy with
        """
        kind = as_choice("format", format, tuple(FORMATS))
        if kind == "json":
            return as_json(self.numbers, indent=2)
        return self._filled(FORMATS[kind], report=self, pictures=[*self._pictures()] if kind == "html" else [])

    def _filled(self, template: str, **given: object) -> str:
        jinja = import_extra("jinja2", "report")
        folder = jinja.PackageLoader("fastacct.reports", "templates")
        page = jinja.Environment(loader=folder, autoescape=".html" in template, trim_blocks=True, lstrip_blocks=True)
        page.filters |= {"tex": as_latex, "markdown": _markdown}
        page.globals |= {"up": digits_up, "down": digits_down, "power": _power, "percent": _percent, "factor": _factor}
        page.globals |= {"inf": math.inf, "short": "{:.3g}".format, "version": __version__}
        text: str = page.get_template(template).render(**given)
        return text

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the report in the format of its suffix: .txt, .md, .tex, .html or .json; whole or not at all."""
        target = Path(path)
        if target.suffix not in _SUFFIXES:
            raise ValueError(f"path = {str(target)!r}: a report's name must end in {', '.join(_SUFFIXES)}")
        refuse_existing(target, overwrite)
        text = self.render(_SUFFIXES[target.suffix])
        with atomic_output(target, overwrite=overwrite) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.render("text")

    def _repr_html_(self) -> str:
        return self.render("html")

    def _pictures(self) -> Iterator[tuple[str, str]]:
        """Pictures, and their names for who cannot see them."""
        about = both_ways(self.neighbors)
        figure = plot.tradeoff({"at most": self.job}, marked=_FPR, thin=False, smallest=1e-5, neighbors=about)
        axis = figure.axes[0]
        for side in (axis.xaxis, axis.yaxis):
            side.set_ticks([1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0])
            side.set_major_formatter(lambda share, _: f"{100.0 * share:g} %")
        axis.set(title="At most what any attack finds", xlabel="unused, wrongly suspected", ylabel="used, recognized")
        figure.set_size_inches(5.0, 3.8)
        target = StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
        yield "Used records recognized at most, over the share of unused ones wrongly suspected", target.getvalue()


def report(
    job: Job | None = None,
    *,
    delta: float | str,
    title: str = "Privacy report",
    **run: Unpack[Run],
) -> Report:
    """A report for those who have to rely on a number: what it promises, to whom, and what it does not promise.

    **Guarantee.** Every epsilon and every success rate of an attack is a certified upper bound, rounded up.

    Give a job, or a run of DP-SGD by the keywords of `dpsgd.epsilon`.  Of a run the report says more: how batches are
    drawn, and what other noise, lengths and batches would change.

    Parameters
    ----------
    job : Mechanism or Process, optional
    delta : float
        Of the guarantee; with `records` also in words, "1/n".
    title : str
    neighbors : str
        As in `dpsgd.epsilon`.
    noise_multiplier, sample_rate, steps, records, batch_size, epochs, sampling, ...
        A run, in place of a job.

    Returns
    -------
    Report
        `render(format)` and `save(path)` give text, Markdown, LaTeX, JSON and HTML.

    Raises
    ------
    TypeError, ValueError
        A job and a run, or neither; arrays; what `epsilon` refuses.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0408, records=50_000, batch_size=512, epochs=30)
    >>> fa.report(**run, delta=1e-5).summary
    'Everything released satisfies (ε, δ)-differential privacy with ε ≤ 2.99976 at δ = 10⁻⁵.'
    """
    relation, share = as_relation(run.pop("neighbors", "add_remove")), as_delta(delta, run)
    refused(run, ("accountant",), "a report is exact: give no {}")
    if (job is None) == (not run.keys() - {"records"}):
        raise TypeError("give either a job (and records, if need be) or the keywords of a run of DP-SGD")
    if not isinstance(title, str):
        raise TypeError(f"title must be a text, not {title!r}")
    if (history := run.get("history")) is not None:
        run["history"] = [*history]
    whole = process_of(run) if job is None else as_process(job)
    if whole.shape or share.ndim:
        raise TypeError("a report is of one job and one delta: give plain numbers, no arrays")
    at = float(share)
    found = epsilon_bounds(whole, delta=at, neighbors=relation)
    numbers = _numbers(whole, at, relation, found)
    numbers |= {"what_if": dict(_changes(whole, at, relation, run if job is None else {})), "is_run": job is None}
    numbers |= {"run": {name: as_plain(value) for name, value in run.items()}}
    upper = digits_up(found.upper)
    summary = f"Everything released satisfies (ε, δ)-differential privacy with ε ≤ {upper} at δ = {_power(at)}."
    return Report(in_one_line(title), whole, at, relation, found, summary, numbers)


def _numbers(job: Process, delta: float, relation: Relation, found: Bounds) -> _Numbers:
    """What the report is about, and the numbers that are of any job."""
    options: CurveOptions = {"neighbors": both_ways(relation)}  # attackers know both data sets
    deltas = [float(f"{delta * 10.0**k:.12g}") for k in (2, 1, 0, -1, -2, -3) if delta * 10.0**k < 0.5]
    others = [one for one in deltas if one != delta]
    epsilons = dict(zip(others, np.asarray(epsilon(job, delta=others, neighbors=relation)).tolist(), strict=True))
    tpr = dict(zip(_FPR, np.asarray(tpr_at_fpr(job, _FPR, **options)).tolist(), strict=True))
    groups = ((k, _asked(partial(job.group, k), delta, relation)) for k in _GROUPS)
    return {
        "epsilon": float(found.upper),
        "epsilon_lower": float(found.lower),
        "status": found.status.name,
        "delta": delta,
        "neighbors": relation,
        "job": [(f"{count:,.0f}", in_one_line(repr(mechanism))) for mechanism, count in job],
        "fastacct_version": __version__,
        "advantage": float(advantage(job, **options)),
        "tpr_at_fpr": tpr,
        "right_alarms": {share: right_alarms(tpr[_FPR[-1]], _FPR[-1], share) for share in _MEMBERS},
        "epsilon_at": {one: epsilons.get(one, float(found.upper)) for one in deltas},
        "groups": {k: value for k, value in groups if value is not None},
    }


def right_alarms(tpr: float, fpr: float, members: float) -> float:
    """The largest share of alarms that are right, if so many of all candidates are members."""
    right, wrong = members * tpr, (1.0 - members) * fpr
    return min(1.0, right / (right + wrong) * (1.0 + 1e-12)) if wrong > 0.0 else float(members > 0.0)


def _asked(make: Callable[[], Process], delta: float, relation: Relation) -> tuple[float, float] | None:
    """Epsilon, and the true positives of an attack, where something is proved."""
    try:
        job = make()
        found = epsilon(job, delta=delta, neighbors=relation), tpr_at_fpr(job, _FPR[-1], neighbors=both_ways(relation))
    except (ValueError, TypeError):
        return None
    return float(found[0]), float(found[1])


def _changes(job: Process, delta: float, relation: Relation, run: Run) -> Iterator[tuple[str, tuple[float, float]]]:
    """What would change epsilon and an attack, and to what."""
    changes: dict[str, tuple[Callable[[], Process], Relation]] = {}
    for name, factor, words in _CHANGES if run else ():
        if (value := run.get(name)) is not None:
            changes[words] = partial(process_of, cast("Run", {**run, name: factor * cast("float", value)})), relation
    if run.get("sampling", "poisson") == "poisson" and {"records", "batch_size", "epochs"} <= run.keys():
        changes[_SHUFFLED] = partial(process_of, cast("Run", {**run, "sampling": "shuffled"})), "zero_out"
    if not run:
        changes["the same once more"] = (lambda: job * 2), relation
    if job != job.unsampled():
        changes[_KNOWN] = job.unsampled, relation
    if relation != "replace_one":
        changes[_REPLACED] = (lambda: job), "replace_one"
    for words, (make, under) in changes.items():
        if (found := _asked(make, delta, under)) is not None:
            yield words, found


# -- text -------------------------------------------------------------------------------------------------------


def _percent(share: float) -> str:
    return f"{digits_up(100.0 * share, 3)} %"


def _factor(epsilon: float) -> str:
    return digits_up(math.exp(epsilon), 3) if epsilon < 700.0 else "more than 1e304"


def _power(number: float) -> str:
    """A small number as a person writes it, rounded up: 10⁻⁵."""
    digits, _, exponent = digits_up(number, 3).partition("e")
    raised = f"10{str(int(exponent)).translate(_RAISED)}" if exponent else ""
    return digits if not exponent else raised if digits == "1" else f"{digits} × {raised}"


def _parsed(text: str) -> Iterator[Section]:
    """The sections of the template: headings, sentences, and the rows of a table."""
    for part in text.split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines if line.startswith("| ")]
        yield Section(
            heading, tuple(line[2:] for line in lines if line.startswith("* ")), (rows or [()])[0], tuple(rows[1:])
        )


def _markdown(text: str) -> str:
    """Text for a cell or a heading of Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
