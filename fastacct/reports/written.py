"""A report on a job: what is guaranteed, to whom, what is assumed, what an attacker can do, and what is not covered.

The numbers are of `numbers.py`, the sentences and tables of `sections.py`; templates lay them out.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import fastacct.plot as plot
from fastacct.accountants.question import as_process
from fastacct.accountants.run import Run, as_delta, process_of, refused
from fastacct.audit import compare
from fastacct.certificate import Certificate, certify
from fastacct.certificate.describe import releases
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.inputs import POSITIVE, as_choice, as_number
from fastacct.core.kept import cached
from fastacct.core.record import Record
from fastacct.core.relations import Relation, as_relation, both_ways
from fastacct.core.version import __version__
from fastacct.core.words import as_json, as_latex, hinting, in_one_line, written_out
from fastacct.guarantees import Guarantee, guarantee
from fastacct.plot.figures import spread
from fastacct.reports.assumed import Section
from fastacct.reports.numbers import FPR, Numbers, numbers_of, run_in_words
from fastacct.reports.sections import (
    differ,
    is_between,
    meaning,
    mechanisms,
    owners,
    released,
    sections_of,
    summary,
    verdict,
)
from fastacct.reports.shown import at_most, percent, power

if TYPE_CHECKING:
    import os

    from fastacct.accountants.question import Job
    from fastacct.audit.shared import Audit
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
_LONGEST: Final = 300
"""Characters of a field."""
CITED_AS: Final = "fastacct"
"""The key of the BibTeX entry in docs/references.md."""


class Report(Record):
    """What `fastacct.report` found out; `str` of it is the text, and a notebook shows the page."""

    title: str
    job: Process
    delta: float
    neighbors: Relation
    numbers: Numbers
    """All numbers, as JSON has them."""
    certificate: Certificate | None = None
    """If one was asked for; `save` it beside the report."""
    if not TYPE_CHECKING:
        __getattr__ = hinting({"epsilon": "numbers has it, and fastacct.epsilon(job, delta=...)"})

    @cached
    def sections(self) -> tuple[Section, ...]:
        """Its parts."""
        return tuple(sections_of(self.numbers))

    @cached
    def summary(self) -> str:
        """The guarantee in a sentence; and why it protects nobody, where that is so."""
        return summary(self.numbers)

    @cached
    def verdict(self) -> str:
        """That the guarantee is weak, or protects nobody (no finite epsilon, attacks that succeed); else empty."""
        return verdict(self.numbers)

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
        \\paragraph{Privacy.} We release once the Gaussian mechanism (noise multiplier 2).
        """
        kind = as_choice("format", format, tuple(FORMATS))
        if kind == "json":
            return as_json(self.numbers, indent=2)
        template = FORMATS[kind]
        jinja = import_extra("jinja2", "report")
        folder = jinja.PackageLoader("fastacct.reports", "templates")
        page = jinja.Environment(loader=folder, autoescape=".html" in template, trim_blocks=True, lstrip_blocks=True)
        page.filters |= {"tex": _latex, "markdown": _markdown}
        page.globals |= {"percent": percent, "power": power, "at_most": at_most, "is_between": is_between}
        page.globals |= {"differ": differ, "owners": owners, "mechanisms": mechanisms}
        page.globals |= {
            "meaning": meaning,
            "released": lambda n: in_six_digits(released(n)),
            "version": __version__,
            "key": CITED_AS,
        }
        page.globals |= {"inf": math.inf, "widths": _widths}
        pictures = [*self._pictures()] if kind == "html" else []
        text: str = page.get_template(template).render(report=self, n=self.numbers, pictures=pictures)
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

    def guarantee(self) -> Guarantee:
        """The epsilon with all that it depends on, to be saved: `fastacct.guarantee` of the job."""
        return guarantee(self.job, delta=self.delta, neighbors=self.neighbors)

    def __str__(self) -> str:
        return self.render("text")

    def _repr_html_(self) -> str:
        return self.render("html")

    def _pictures(self) -> Iterator[tuple[str, str]]:
        """Pictures, and their names for who cannot see them."""
        if not self.numbers["has_picture"]:
            return
        about = both_ways(self.neighbors)
        figure = plot.tradeoff({"at most": self.job}, marked=FPR, thin=False, smallest=1e-5, neighbors=about)
        axis = figure.axes[0]
        for side in (axis.xaxis, axis.yaxis):
            side.set_ticks([1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0])
            side.set_major_formatter(lambda share, _: f"{100.0 * share:g} %")
        axis.set(title="At most what any attack finds", xlabel="unused, wrongly suspected", ylabel="used, recognized")
        axis.set_ylim(top=1.6)  # a line of 100 % is not the frame
        figure.set_size_inches(5.0, 3.8)
        spread(axis.texts)
        target = StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
        yield "Used records recognized at most, over the share of unused ones wrongly suspected", target.getvalue()


def report(
    job: Job | None = None,
    delta: float | str | None = None,
    *,
    title: str = "Privacy report",
    subject: str | None = None,
    data_set: str | None = None,
    unit: str | None = None,
    date: str | datetime.date | None = None,
    vouched_by: str | None = None,
    clipping_norm: float | None = None,
    certificate: bool = False,
    audit: Audit | None = None,
    **run: Unpack[Run],
) -> Report:
    """A report for those who have to rely on a number: what it promises, to whom, and what it does not promise.

    **Guarantee.** Every epsilon and every success rate of an attack is a certified upper bound, rounded up to three
    digits; delta is rounded up, too.

    Give a job, or a run of DP-SGD by the keywords of `dpsgd.epsilon`.  Of a run the report says more: how batches are
    drawn, and what other noise, lengths and batches would change.

    Parameters
    ----------
    job : Mechanism or Process, optional
    delta : float
        Of the guarantee; with `records` also in words, "1/n".  At most a tenth of 1 / records is advised.
    title : str
    subject, data_set, unit, vouched_by : str, optional
        What is released, from which data, what one record is ("row"; "person", if all that belongs to a person is one
        record), and who vouches for what is assumed.  A report says what is not stated.
    date : str such as "2026-11-28" or datetime.date, optional
    clipping_norm : float, optional
        Of gradients; epsilon does not depend on it.
    certificate : bool
        True: prove the epsilon by `fastacct.certify`, too, in seconds; extra `certificate`.
    audit : result of `fastacct.audit.scores`, `one_run` or `sequential`, optional
        What an attack showed of the run: it is printed beside what is proved.
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
        A job and a run, or neither; arrays; what `epsilon` refuses; a field that is no text, or a date that is none.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0408, records=50_000, batch_size=512, epochs=30)
    >>> fa.report(**run, delta=1e-6, unit="person", vouched_by="A. Turing").summary.split(", for")[0]
    'What the training releases satisfies (ε, δ)-differential privacy with ε ≤ 3.41 at δ = 10⁻⁶'
    """
    whole = None if job is None else as_process(job)
    if delta is None:
        raise TypeError("delta is missing: of what (epsilon, delta) is the report?")
    relation, share = as_relation(run.pop("neighbors", "add_remove")), as_delta(delta, run)
    refused(run, ("accountant",), "a report is exact: give no {}", ("delta", "data_set", "unit", "vouched_by"))
    if (job is None) == (not run.keys() - {"records"}):
        raise TypeError("give either a job (and records, if need be) or the keywords of a run of DP-SGD")
    texts = {"title": title, "subject": subject, "data_set": data_set, "unit": unit, "vouched_by": vouched_by}
    about: dict[str, object] = {name: _text(name, value) for name, value in texts.items() if value is not None}
    if date is not None:
        about["date"] = _date(date)
    if clipping_norm is not None:
        about["clipping_norm"] = as_number("clipping_norm", clipping_norm, POSITIVE)
    if (history := run.get("history")) is not None:
        run["history"] = [*history]
    whole = process_of(run) if whole is None else whole
    if whole.shape or share.ndim:
        raise TypeError("a report is of one job and one delta: give plain numbers, no arrays")
    at = float(share)
    numbers = numbers_of(whole, at, relation, run, is_run=job is None)
    numbers |= {"about": about, "told": run_in_words(run, relation) if job is None else {}}
    numbers["has_certificate"] = _has_certificate(whole, relation)
    known = certify(whole, delta=at, neighbors=relation) if certificate else None
    if known is not None:
        digest = hashlib.sha256(known.text.encode()).hexdigest()
        numbers["certificate"] = {"epsilon": known.epsilon, "delta": known.delta, "sha256": digest}
    if audit is not None:
        found = compare(audit, whole, delta=at, neighbors=relation)
        numbers["audit"] = {"shown": found.shown, "confidence": found.confidence, "refuted": found.refuted}
    numbers |= {"summary": summary(numbers), "verdict": verdict(numbers)}
    return Report(str(about.pop("title")), whole, at, relation, numbers, known)


def _has_certificate(job: Process, relation: Relation) -> bool:
    """Whether certificates cover all of its mechanisms."""
    try:
        return bool(releases(job, relation))
    except ValueError:
        return False


def _text(name: str, value: object) -> str:
    """A field in one line."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {value!r}")
    line = in_one_line(value)
    if not 0 < len(line) <= _LONGEST:
        raise ValueError(f"{name} has {len(line)} characters; allowed: 1 to {_LONGEST}")
    return line


def _date(value: object) -> str:
    try:
        day = value if isinstance(value, datetime.date) else datetime.date.fromisoformat(str(value))
        return day.isoformat()[:10]
    except ValueError:
        raise ValueError(f"date = {value!r} is no date; write it as '2026-11-28'") from None


def _latex(text: str) -> str:
    """Text for LaTeX, with quotes that open and close, and long code that breaks behind its signs."""
    made = as_latex(re.sub(r'"([^"]*)"', r"``\1''", text))
    behind = r"([(,=]|(?<!\d)\.)(?=\w)"
    return re.sub(r"\S{24,}", lambda code: re.sub(behind, r"\1\\allowbreak{}", code[0]), made)


def in_six_digits(text: str) -> str:
    """Parameters as a paper writes them: 1/97 for what is that, and at most six digits for what is longer."""

    def shorter(found: re.Match[str]) -> str:
        value = float(found[0])
        whole = round(1.0 / value) if 0.0 < value < 1.0 else 0
        return f"1/{whole}" if 0 < whole < 10**9 and value == 1.0 / whole else f"{value:.6g}"

    return re.sub(r"(?<![\w.])\d*\.\d{8,}(?:e-?\d+)?", shorter, text)


def _widths(section: Section) -> list[float]:
    """Parts of a line that columns take in LaTeX, with room between them."""
    columns = len(section.columns)
    first = 0.28 if section.columns[1] in ("stated", "this report") else 0.55
    return [first, *[(0.95 - first - 0.03 * (columns - 1)) / (columns - 1)] * (columns - 1)]


def _markdown(text: str) -> str:
    """Text for a cell or a heading of Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


written_out({"neighbors": "Relation", **Run.__annotations__}, [report])
