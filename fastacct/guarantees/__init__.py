"""Guarantees as files: an epsilon with all that it depends on, which comes back, is compared, and is computed again.

The format is `schema.json`; `schema.py` reads it.  A digest finds damage.  It is no signature: whoever changes a number
can make a new one, and only computing everything again finds that.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

import numpy as np

from fastacct.accountants.batching import in_words
from fastacct.accountants.question import Job, as_process
from fastacct.accountants.run import Run, as_delta, process_of, refused
from fastacct.audit.betting import Sequential
from fastacct.audit.many_runs import Scores
from fastacct.audit.planned import compare
from fastacct.audit.single_run import OneRun, one_run
from fastacct.certificate import Certificate, certify
from fastacct.certificate.describe import releases, text_of
from fastacct.core.bounds import Bounds, Status
from fastacct.core.files import atomic_output, text_in
from fastacct.core.html import table
from fastacct.core.inputs import COUNT, as_choice, as_number
from fastacct.core.record import fields_of
from fastacct.core.relations import RELATIONS, Relation, Replaced, as_relation
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.version import __version__
from fastacct.core.words import as_plain, hinting, in_one_line, written_out
from fastacct.guarantees.content import (
    adjacency,
    double,
    intervals,
    numbers_of,
    refuse_contradictions,
    refuse_other,
    samplers,
)
from fastacct.guarantees.schema import MOST_BYTES, AuditRow, Document, Word, parsed
from fastacct.ledger.accountant import Accountant
from fastacct.ledger.state import checksum, decoded, encoded
from fastacct.mechanisms.guarantee import ApproxDP
from fastacct.mechanisms.process import Process
from fastacct_ext import _kernels

__all__ = ["Guarantee", "guarantee", "read_guarantee"]

Audit = Scores | OneRun | Sequential
FORMAT: Final = "fastacct guarantee"
TRUST_MODELS: Final = ("central", "local", "shuffle", "secure computation")
_METHODS: Final[dict[type, str]] = {Scores: "scores", OneRun: "one_run", Sequential: "sequential"}
_DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)
_SHOWN: Final = 8
"""Releases that are written out."""


class Guarantee:
    """An epsilon with all that it depends on; made by `fastacct.guarantee` and `fastacct.read_guarantee`.

    Attributes
    ----------
    epsilon : Bounds
        Certified, at `delta`, of the unit of privacy.
    delta : float
    job : Process
        What is released; parameters and counts are of rows.
    neighbors : str
    certificate : Certificate or None
    text : str
        JSON, as docs/howto/guarantee.md describes it.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.guarantee(fa.Laplace(5.0) * 10, delta=1e-6)
    >>> fa.results.Guarantee(found.text).epsilon == found.epsilon
    True
    """

    if not TYPE_CHECKING:
        __getattr__ = hinting({**dict.fromkeys(("json", "to_json"), "text is the JSON, to_dict() what it says")})

    def __init__(self, text: str) -> None:
        try:
            document = parsed(text)
            if document["digest"] != checksum(_rest(document)):
                raise ValueError("its digest is not that of what was written")
            self.neighbors: Final = as_relation(document["neighbors"])
            self.job: Final = Process((decoded(row["mechanism"]), int(row["count"])) for row in document["job"])
            self.job.refuse(self.neighbors)
            if self.job.shape:
                raise ValueError("it is of more than one job")
            self.delta: Final = double(document["delta"])
            (lower, upper), *_ = intervals(document).values()
            self.epsilon: Final = Bounds(lower, upper, Status[document["epsilon"]["status"]])
            refuse_contradictions(document, self.neighbors)
            self._document: Final = document
            known = document["certificate"]
            self.certificate: Final = None if known is None else Certificate(json.dumps(known))
            if self.certificate is not None:
                _refuse_certificate(self.certificate, self)
        except (ValueError, *_DAMAGE) as error:
            raise ValueError(f"no guarantee, or a damaged one: {_told(error)}") from None
        self.text: Final = text

    @property
    def released(self) -> Process:
        """The job as the unit of privacy sees it: all rows of a user change together."""
        rows = self._document["unit"]["rows"]
        return self.job if rows == 1 else self.job.group(int(rows))

    def to_dict(self) -> dict[str, object]:
        """The document, new and the caller's own."""
        return dict(json.loads(self.text))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the file, whole or not at all; an existing one is kept unless `overwrite`."""
        with atomic_output(Path(path), overwrite=overwrite) as temporary:
            temporary.write_text(self.text, encoding="utf-8")
        return Path(path)

    def model_card(self) -> str:
        """A block for a model card: a heading, and YAML in a fence."""
        rows = (f"  {name.replace(' ', '_')}: {json.dumps(told, ensure_ascii=False)}" for name, told in self._rows())
        return "\n".join(("## Privacy guarantee", "", "```yaml", "differential_privacy:", *rows, "```", ""))

    def __str__(self) -> str:
        return "\n".join(f"{name}: {told}" for name, told in self._rows())

    def __repr__(self) -> str:
        return f"Guarantee(epsilon <= {self.epsilon.upper!r} at delta = {self.delta!r}, neighbors={self.neighbors!r})"

    def _repr_html_(self) -> str:
        return table("Guarantee", self._rows())

    def _rows(self) -> Iterator[tuple[str, str]]:
        """What is said, in words, one line each."""
        document, (lower, upper, status) = self._document, self.epsilon
        most = f"at most {digits_up(upper)}" if upper < math.inf else "no finite one is proved"
        yield "epsilon", f"{most}, at least {digits_down(lower)} ({status})"
        yield "delta", repr(self.delta)
        rows, of = document["unit"]["rows"], document["unit"]["of"]
        yield "unit of privacy", f"user, to whom at most {rows:,} rows belong" if of == "user" else of
        yield "neighbors", f"{document['adjacency']}: {RELATIONS[self.neighbors]}"
        yield "trust model", document["trust_model"]
        yield "sampler", "; ".join(map(in_words, document["sampler"])) or "no batches are drawn"
        blocks = [f"{count:,} times {one!r}" for one, count in self.job]
        more = [f"and {len(blocks) - _SHOWN:,} more kinds"] if len(blocks) > _SHOWN else []
        yield "releases", in_one_line("; ".join([*blocks[:_SHOWN], *more])) or "nothing"
        for name, words in (("run", document["run"]), ("public", document["public"])):
            if words:
                yield name, in_one_line("; ".join(f"{word} = {value}" for word, value in words.items()))
        if self.certificate is not None:
            yield "certificate", in_one_line(f"epsilon <= {self.certificate.epsilon}: fastacct verify proves it again")
        for row in document["audits"]:
            shown, share = double(row["epsilon_lower"]), 100.0 * double(row["confidence"])
            yield f"audit {row['method']}", f"epsilon is at least {digits_down(shown, 3)} ({digits_down(share)} %)"
        yield "computed by", in_one_line(", ".join(f"{name} {told}" for name, told in document["versions"].items()))
        yield "digest", document["digest"]


def guarantee(
    job: Job | Accountant | None = None,
    *,
    delta: float | str | None = None,
    unit: str = "row",
    rows: int = 1,
    trust_model: str = "central",
    public: Mapping[str, Word] | None = None,
    certificate: bool | Certificate = False,
    audits: Iterable[Audit] = (),
    **run: Unpack[Run],
) -> Guarantee:
    """An epsilon with all that it depends on, to be saved beside what was released.

    **Guarantee.** The epsilon, 20 points of the curve and 20 of the trade-off are certified, from both sides.  What the
    writer says (unit, trust model, public numbers) is taken as it is.

    Parameters
    ----------
    job : Mechanism, Process or Accountant; or a run by the keywords of `fastacct.dpsgd`
        In plain numbers.  Of a budget the ledger; with a filter, which lets steps be chosen by what was seen, only the
        budget itself is guaranteed, and the job is `ApproxDP(budget)`.
    delta : float in [0, 1]
        With `records` also "1/n".  Of a budget by default its own.
    unit : {"row", "client", "user"}
        What a record of the job is.  Rounds of federated training draw clients.
    rows : int
        At most so many rows belong to one user; they change together.
    trust_model : {"central", "local", "shuffle", "secure computation"}
    public : mapping, optional
        What else is public, such as a clipping norm: numbers and texts.
    certificate : bool or Certificate
        True: make one (`fastacct.certify`).
    audits : iterable of results of `fastacct.audit`
        None may refute the job.

    Returns
    -------
    Guarantee
        With `save`, `to_dict` and `model_card`; `str` of it is the text, a notebook shows a table.

    Raises
    ------
    TypeError, ValueError
        A job and a run, or neither; arrays; a mechanism of one's own, which no file can hold; a relation or a group
        that is not supported; an audit or a certificate that contradicts the job.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0408, records=50_000, batch_size=512, epochs=30)
    >>> found = fa.guarantee(**run, delta=1e-6)
    >>> round(found.epsilon.upper, 6), found.to_dict()["sampler"]
    (3.406076, ['poisson'])
    """
    if isinstance(job, Accountant):
        told = job.delta if delta is None else delta
        if as_relation(run.setdefault("neighbors", job.neighbors)) != job.neighbors:
            raise ValueError(f"neighbors = {run['neighbors']!r} is not that of the budget, {job.neighbors!r}")
        job, delta = _of_budget(job), told
    relation = as_relation(run.pop("neighbors", "add_remove"))
    refused(run, ("accountant", "threads"), "a guarantee is exact, whatever the threads: give no {}")
    if (job is None) == (not run.keys() - {"records"}):
        raise TypeError("give either a job (and records, if need be) or the keywords of a run of DP-SGD")
    if delta is None:
        raise TypeError("delta is missing")
    if (history := run.get("history")) is not None:
        run["history"] = [*history]
    process, share = process_of(run) if job is None else as_process(job), as_delta(delta, run)
    if process.shape or share.ndim:
        raise TypeError("a guarantee is of one job and one delta: give plain numbers, no arrays")
    of, size, at = as_choice("unit", unit, ("row", "client", "user")), int(as_number("rows", rows, COUNT)), float(share)
    if of != "user" and size > 1:
        raise ValueError(f"rows = {size} is for unit = 'user'")
    released = process if size == 1 else process.group(size)
    given = {name: one for name, one in run.items() if one is not None and name != "history"}
    if isinstance(run.get("noise_multiplier"), Replaced):  # no number says as much: only the job does
        given = {name: one for name, one in given.items() if name == "records"}
    proof = certify(released, delta=at, neighbors=relation) if certificate is True else certificate or None
    blocks = [{"mechanism": encoded(one), "count": count} for one, count in process]
    versions = {"fastacct": __version__, "numpy": np.__version__, "python": platform.python_version()}
    return _sealed(
        {
            **{"format": FORMAT, "version": 1, "job": blocks},
            "run": {name: as_plain(one) for name, one in given.items()},
            **{"neighbors": relation, "adjacency": adjacency(relation), "unit": {"of": of, "rows": size}},
            "trust_model": as_choice("trust_model", trust_model, TRUST_MODELS),
            "sampler": sorted(samplers(blocks)),
            "public": {
                name: one.item() if isinstance(one, np.generic) else one for name, one in (public or {}).items()
            },
            "delta": repr(at),
            **numbers_of(released, at, relation),
            "certificate": proof and proof.document,
            "audits": [_audit_row(one, released, at, relation) for one in audits],
            "versions": versions | {"kernels": _kernels.level()},
        }
    )


def read_guarantee(path: str | os.PathLike[str], *, verify: bool = False) -> Guarantee:
    """The guarantee in a file.

    **Guarantee.** A file that was damaged is refused: its digest is compared.  That is no protection from somebody who
    alters it and makes a new digest.  With `verify` all numbers are computed again, the certificate is proved again,
    and those that differ by more than 1e-6 of them are refused; what is returned has the numbers computed now.  What
    the writer only says, and audits of many runs, whose scores are not in the file, cannot be computed.

    Parameters
    ----------
    path : path
    verify : bool
        It takes as long as `fastacct.guarantee`.

    Raises
    ------
    ValueError
        The file is none, is damaged, has numbers other than those computed, or is larger than any guarantee.
    ModuleNotFoundError
        To verify a certificate, python-flint: `pip install "fastacct[certificate]"`.

    Examples
    --------
    >>> import fastacct as fa
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "guarantee.json"
    >>> _ = fa.guarantee(fa.Gaussian(1.0).poisson(0.01) * 1000, delta=1e-5).save(path)
    >>> fa.read_guarantee(path, verify=True).job
    Process({Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01): 1000})
    """
    text = text_in(path, MOST_BYTES)
    try:
        found = Guarantee(text)
        return _verified(found) if verify else found
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _of_budget(budget: Accountant) -> Process:
    """What a budget guarantees."""
    if budget.filter == "none":
        return budget.ledger
    if budget.budget is None or budget.delta is None:
        raise ValueError(f"a ledger with filter = {budget.filter!r} and without a budget guarantees nothing")
    return ApproxDP(budget.budget, budget.delta) * 1


def _sealed(rest: Mapping[str, object]) -> Guarantee:
    """The guarantee with its digest."""
    return Guarantee(json.dumps({**rest, "digest": checksum(rest)}, allow_nan=False, indent=1))


def _told(error: Exception) -> str:
    """What an error says to a reader of the file, who does not care for its class if it says more."""
    return (str if isinstance(error, ValueError | TypeError) else repr)(error)[:300]


def _rest(document: Document) -> dict[str, object]:
    """What the digest is of."""
    return {name: one for name, one in document.items() if name != "digest"}


def _verified(given: Guarantee) -> Guarantee:
    """The same with all numbers computed again; ValueError where they differ."""
    document, about = given._document, (given.released, given.delta, given.neighbors)
    refuse_other(document, now := numbers_of(*about))
    try:
        if document["run"].keys() - {"records"} and process_of(cast("Run", document["run"])) != given.job:
            raise ValueError("the job is not that of the keywords of its run")
        if given.certificate is not None:
            given.certificate.verify()
        for i, row in enumerate(document["audits"]):
            if (again := _recounted(row)) is not None and row != (right := _audit_row(again, *about)):
                raise ValueError(f"audits[{i}] = {row!r:.200} is altered: {right!r:.200}")
    except _DAMAGE as error:
        raise ValueError(f"not verified: {_told(error)}") from None
    return _sealed({**_rest(document), **now})


# -- what stands beside ------------------------------------------------------------------------------------------------


def _refuse_certificate(found: Certificate, beside: Guarantee) -> None:
    """Refuse a certificate of another claim, or of less than is proved from below."""
    if Decimal(found.delta) != Decimal(text_of(beside.delta)) or found.neighbors != beside.neighbors:
        raise ValueError(f"the certificate is at delta = {found.delta:.60} under {found.neighbors!r:.30}")
    stated, own = (  # how far it reaches belongs to the proof
        [{word: one[word] for word in one if word != "reach"} for one in each]
        for each in (found.document.get("releases", []), releases(beside.released, beside.neighbors))
    )
    if stated != own:
        raise ValueError("the certificate is of another job")
    if Decimal(found.epsilon) < Decimal(beside.epsilon.lower):
        raise ValueError(f"the certificate is of epsilon <= {found.epsilon:.60}, which is not true")


def _audit_row(audit: Audit, job: Process, delta: float, relation: Relation) -> AuditRow:
    """What an audit shows of a job that it does not refute."""
    if type(audit) not in _METHODS:
        raise TypeError(f"audits must hold results of fastacct.audit, not {audit!r:.60}")
    found = compare(audit, job, delta=delta, neighbors=relation)
    if found.refuted:
        raise ValueError(f"an audit refutes the job, and no guarantee of it is made: {found}")
    sizes = {one.name: getattr(audit, one.name) for one in fields_of(type(audit)) if one.name != "confidence"}
    return {
        "method": _METHODS[type(audit)],
        "confidence": repr(found.confidence),
        "epsilon_lower": repr(found.shown),
        "of": {name: one.size if isinstance(one, np.ndarray) else _listed(one) for name, one in sizes.items()},
    }


def _listed(value: int | Iterable[int]) -> int | list[int]:
    return value if isinstance(value, int) else [*value]


def _recounted(row: AuditRow) -> OneRun | None:
    """The audit of one run whose counts a document has; None for others, whose scores it does not have."""
    if row["method"] != "one_run":
        return None
    (canaries,), guesses, right = (np.atleast_1d(row["of"][name]) for name in ("canaries", "guesses", "right"))
    return one_run(int(canaries), guesses, right, confidence=double(row["confidence"]))


written_out({"neighbors": "Relation", **Run.__annotations__}, [guarantee])
