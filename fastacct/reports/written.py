"""A report on a job: what is guaranteed, to whom, what is assumed, what an attacker can do, and what is not covered.

Sentences and tables are made here, once; templates lay them out as text, Markdown, LaTeX or a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import fastacct.dpsgd as dpsgd
import fastacct.plot as plot
from fastacct.accountants.question import as_process
from fastacct.batching import in_words
from fastacct.core.bounds import Bounds
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output
from fastacct.core.inputs import as_choice
from fastacct.core.record import Record
from fastacct.core.relations import RELATIONS, Relation, as_relation
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.version import __version__
from fastacct.core.words import as_json
from fastacct.epsilon import epsilon, epsilon_bounds
from fastacct.run import Run, as_delta, process_of
from fastacct.tradeoff import advantage, positive_predictive_value, tpr_at_fpr

if TYPE_CHECKING:
    import os

    from fastacct.accountants.question import Job
    from fastacct.mechanisms.process import Process

__all__ = ["FORMATS", "Report", "Section", "report"]

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
_PRIORS: Final = (0.01, 0.1, 0.5)
_GROUPS: Final = (2, 5)
_GREEK: Final = {"ε": r"$\varepsilon$", "δ": r"$\delta$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$"}
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED: Final = {high: chr(low) for low, high in _RAISED.items()}
_ESCAPED: Final = {c: "\\" + c for c in "#$%&_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
    "\\": r"\textbackslash{}",
}


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
    numbers: Mapping[str, Any]
    """All numbers, as JSON has them."""
    sections: tuple[Section, ...]

    def render(self, format: str = "text") -> str:
        """The report as text, markdown, latex (a section), html (one page, with pictures) or json.

        Also "card", a block for a model card, and "appendix", a paragraph for a paper.

        Raises
        ------
        ValueError, ModuleNotFoundError
            Another format; Jinja is missing, or matplotlib for html (`pip install "fastacct[report]"`).

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
        jinja = import_extra("jinja2", "report")
        folder = jinja.PackageLoader("fastacct.reports", "templates")
        page = jinja.Environment(loader=folder, autoescape=kind == "html", trim_blocks=True, lstrip_blocks=True)
        page.filters |= {"tex": _tex, "cell": lambda text: text.replace("|", "\\|")}
        pictures = list(self._pictures()) if kind == "html" else []
        text: str = page.get_template(FORMATS[kind]).render(report=self, version=__version__, pictures=pictures)
        return text

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the report in the format of its suffix: .txt, .md, .tex, .html or .json; whole or not at all."""
        target = Path(path)
        if target.suffix not in _SUFFIXES:
            raise ValueError(f"path = {str(target)!r}: a report's name must end in {', '.join(_SUFFIXES)}")
        text = self.render(_SUFFIXES[target.suffix])
        with atomic_output(target, overwrite=overwrite) as temporary:
            temporary.write_text(text)
        return target

    def __str__(self) -> str:
        return self.render("text")

    def _repr_html_(self) -> str:
        return self.render("html")

    def _pictures(self) -> Iterator[tuple[str, str]]:
        """Names of pictures for who cannot see them, and the pictures."""
        figure = plot.tradeoff({"this job": self.job}, delta=self.delta, marked=_FPR, neighbors=self.neighbors)
        target = StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
        yield "Largest true-positive rate of any attack over its false-positive rate", target.getvalue()


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
    if (job is None) == (not run):
        raise TypeError("give either a job or the keywords of a run of DP-SGD")
    whole = process_of(run) if job is None else as_process(job)
    if whole.shape or share.ndim:
        raise TypeError("a report is of one job and one delta: give plain numbers, no arrays")
    at = float(share)
    found = epsilon_bounds(whole, delta=at, neighbors=relation)
    numbers = _numbers(whole, at, relation, found)
    numbers |= {"what_if": dict(_changes(whole, at, relation, run)), "run": {k: _plain(v) for k, v in run.items()}}
    upper = digits_up(found.upper)
    summary = f"Everything released satisfies (ε, δ)-differential privacy with ε ≤ {upper} at δ = {_power(at)}."
    sections = tuple(_sections(whole, relation, numbers, str(run.get("sampling", "poisson")) if run else "", summary))
    return Report(title, whole, at, relation, found, summary, numbers, sections)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)


def _numbers(job: Process, delta: float, relation: Relation, found: Bounds) -> dict[str, Any]:
    """What the report is about, and the numbers that are of any job."""
    options: Any = {"neighbors": relation}
    deltas = [float(f"{delta * 10.0**k:.12g}") for k in (2, 1, 0, -1, -2, -3) if delta * 10.0**k < 0.5]
    groups = ((k, _tried(partial(_of_group, job, k, delta, relation))) for k in _GROUPS)
    return {
        "epsilon": float(found.upper),
        "epsilon_lower": float(found.lower),
        "status": found.status.name,
        "delta": delta,
        "neighbors": relation,
        "job": [f"{mechanism!r} * {count:g}" for mechanism, count in job],
        "fastacct_version": __version__,
        "advantage": float(advantage(job, **options)),
        "tpr_at_fpr": {fpr: float(tpr_at_fpr(job, fpr, **options)) for fpr in _FPR},
        "right_alarms": {
            prior: float(positive_predictive_value(job, _FPR[-1], prior=1.0 - prior, **options)) for prior in _PRIORS
        },
        "epsilon_at": {one: float(epsilon(job, delta=one, **options)) for one in deltas},
        "groups": {k: value for k, value in groups if value is not None},
    }


def _of_group(job: Process, size: int, delta: float, relation: Relation) -> float:
    return float(epsilon(job.group(size), delta=delta, neighbors=relation))


def _tried(find: Callable[[], Any]) -> float | None:
    """A number, where something is proved of it."""
    try:
        return float(find())
    except (ValueError, TypeError):
        return None


def _changes(job: Process, delta: float, relation: Relation, run: Run) -> Iterator[tuple[str, float]]:
    """What would change epsilon, and to what."""
    at: dict[str, Any] = {"delta": delta, "neighbors": relation}
    given, changes = {**at, **run}, dict[str, Callable[[], Any]]()
    if run:
        more = [("noise_multiplier", 1.1, "10 % more noise"), ("noise_multiplier", 0.9, "10 % less noise")]
        more += [(name, 2, f"twice as many {name}") for name in ("epochs", "steps")]
        more += [(name, 2, "batches twice as large") for name in ("batch_size", "sample_rate")]
        for name, factor, words in more:
            if given.get(name) is not None:
                changes[words] = partial(dpsgd.epsilon, **given | {name: factor * given[name]})
        if given.get("sampling", "poisson") == "poisson" and {"records", "batch_size", "epochs"} <= run.keys():
            shuffled = {"sampling": "shuffled", "neighbors": "zero_out"}
            changes["batches shuffled, not drawn; a record zeroed out"] = partial(dpsgd.epsilon, **given | shuffled)
    else:
        changes["the same once more"] = partial(epsilon, job * 2, **at)
    if relation != "replace_one":
        changes["a record is replaced"] = partial(epsilon, job, **at | {"neighbors": "replace_one"})
    for words, find in changes.items():
        if (value := _tried(find)) is not None:
            yield words, value


# -- sentences -------------------------------------------------------------------------------------------------------


def _percent(share: float) -> str:
    return f"{digits_up(100.0 * share, 3)} %"


def _factor(epsilon: float) -> str:
    return digits_up(math.exp(epsilon), 3) if epsilon < 700.0 else "more than 1e304"


def _power(number: float) -> str:
    """A small number as a person writes it: 10⁻⁵."""
    digits, _, exponent = f"{number:.3g}".partition("e")
    raised = f"10{str(int(exponent)).translate(_RAISED)}" if exponent else ""
    return digits if not exponent else raised if digits == "1" else f"{digits} × {raised}"


def _sections(
    job: Process, relation: Relation, numbers: Mapping[str, Any], sampling: str, summary: str
) -> Iterator[Section]:
    upper, delta, words = numbers["epsilon"], numbers["delta"], RELATIONS[relation]
    kind = "proved to the last digit shown" if numbers["status"] == "TIGHT" else "an upper bound that may be loose"
    yield Section(
        "What is guaranteed",
        (
            summary,
            f"Data sets are compared that differ by {words}.",
            f"No outcome is more than e^ε = {_factor(upper)} times as likely with one of them as with the other, "
            f"plus a probability of δ = {_power(delta)}.",
            "In plain words: whoever tries to find out whose records were used, and wrongly suspects 1 % of those "
            f"whose record was not, finds at most {_percent(numbers['tpr_at_fpr'][0.01])} of those whose record was. "
            "Guessing finds as many as it wrongly suspects.",
            f"The smallest ε that is true of the worst case is between {digits_down(numbers['epsilon_lower'])} and "
            f"{digits_up(upper)}: {kind}.",
        ),
    )
    yield Section(
        "Whom it protects, and from whom",
        (
            "It protects each single record of the data, whatever it contains.",
            "It protects from anyone who sees everything that is released, knows all other records and may compute for "
            "ever. Of a training, all steps count as released, not the last model alone.",
        ),
    )
    tpr, right = numbers["tpr_at_fpr"], numbers["right_alarms"]
    rows = [(f"members found, at {100 * fpr:g} % false alarms", f"at most {_percent(tpr[fpr])}") for fpr in tpr]
    rows += [("members found less false alarms, at best (advantage)", f"at most {_percent(numbers['advantage'])}")]
    rows += [
        (f"alarms that are right, if {100 * prior:g} % of the suspects are members, at 1 % false alarms",
         f"at most {_percent(right[prior])}") for prior in right
    ]  # fmt: skip
    about = "An attack decides whether one record was in the data: whether it is a member. It gives false alarms for "
    about += "some that are not. No attack whatsoever does better than this:"
    yield Section("What an attacker can do at best", (about,), ("attack", "success"), tuple(rows))
    at = tuple((_power(one), digits_up(value)) for one, value in numbers["epsilon_at"].items())
    yield Section("The same guarantee at other δ", (), ("δ", "ε at most"), at)
    yield Section("What is assumed", tuple(_assumptions(relation, sampling, numbers)))
    if changed := tuple((words, digits_up(value)) for words, value in numbers["what_if"].items()):
        yield Section("What would change it", (), ("change", "ε at most"), changed)
    several = [f"{k} records: ε ≤ {digits_up(value)}" for k, value in numbers["groups"].items()]
    yield Section(
        "What is not covered",
        (
            f"People who own several records ({'; '.join(several)})." if several else "People who own several records.",
            "Other releases from the same data: trials of hyperparameters, earlier versions, statistics.",
            "What leaks beside the output: accuracy or loss on training data without noise, logs, running times.",
            "What is true of everybody: a model may reveal that smokers fall ill, whoever took part.",
        ),
    )
    yield Section("What was computed", (*numbers["job"], f"fastacct {numbers['fastacct_version']}."))


def _assumptions(relation: Relation, sampling: str, numbers: Mapping[str, Any]) -> Iterator[str]:
    if sampling:
        yield f"How batches are drawn: {in_words(sampling)}. With another sampler the numbers do not hold."
        yield "The gradient of each record is clipped to the norm that the noise multiplier is relative to."
    yield "Noise is drawn anew each time, and nobody sees it."
    yield "What runs was decided without a look at the data."
    if relation == "replace_one":
        yield "The number of records is public."
    records = numbers["run"].get("records")
    if isinstance(records, int | float) and numbers["delta"] * records > 0.1:
        yield f"Beware: δ is {numbers['delta'] * records:.2g} / records. Choose a δ well below 1 / records."


def _tex(text: str) -> str:
    """Text for LaTeX."""
    plain = "".join(_GREEK.get(c, _ESCAPED.get(c, c)) for c in text)
    return re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda high: f"$^{{{high.group().translate(_LOWERED)}}}$", plain)
