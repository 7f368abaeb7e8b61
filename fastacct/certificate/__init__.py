"""Certificates: a number of a job that anyone can check, without believing this library.

The engine's bounds rest on many lines of C.  A certificate states a job, a delta and an epsilon, and a short program,
`fastacct/certificate/checker.py`, proves it in ball arithmetic: it needs Python and python-flint and nothing of
fastacct.  Random batches are in `batches.py` beside it, many digits in `line.py`.
"""

from __future__ import annotations

import json
import math
import os
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from html import escape
from itertools import cycle
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

from fastacct.accountants.question import Job
from fastacct.accountants.run import verb
from fastacct.certificate.describe import releases, text_of
from fastacct.certificate.search import FIRST, Direction, added_up, are_mirrored, listed
from fastacct.certificate.search_line import Lines
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, text_in
from fastacct.core.inputs import Domain, as_number
from fastacct.core.relations import Relation, as_relation
from fastacct.core.version import __version__
from fastacct.epsilon import delta as engine_delta
from fastacct.epsilon import epsilon as engine_epsilon

__all__ = ["Certificate", "certify", "read_certificate"]

FORMAT: Final = "fastacct certificate 1"
_DELTA: Final = Domain(1e-60, 0.999)
_EPSILON: Final = Domain(0.0, 500.0)
_DIGITS: Final = Domain(2.0, 12.0, integer=True)
_LATTICE: Final = 7
"""Digits that a lattice proves; more are proved on a line."""
_MOST_BYTES: Final = 10**6
_TRIES: Final = 3
_CLAIM: Final = ("epsilon", "delta", "relation")


def _checker() -> Any:
    import_extra("flint", "certificate")
    from fastacct.certificate import checker

    checker.STARTED[:] = [process_time()]  # it gives up after ten minutes, also of a search
    return checker


def _up(value: float | Fraction, digits: int) -> str:
    """A decimal of so many significant digits that is not below."""
    parts = map(Decimal, Fraction(value).as_integer_ratio())
    return format(Context(prec=digits, rounding=ROUND_CEILING).divide(*parts).normalize(), "f")


class Certificate:
    """One proved number of a job: a text that `checker.py` verifies.

    Attributes
    ----------
    epsilon, delta : str
        Exact decimals, rounded up; one of them is what was asked for.
    neighbors : str
        The neighbouring relation.
    text : str
        JSON; exact decimals in quotes.
    document : dict
        The same, parsed.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Certificate(fa.certify(fa.Laplace(5.0) * 10, delta=1e-6, digits=3).text).delta
    '0.000001'
    """

    def __init__(self, text: str) -> None:
        try:
            self.document: dict[str, Any] = dict(json.loads(text))
            known = self.document["format"]
            self.epsilon, self.delta, self.neighbors = (str(self.document[name]) for name in _CLAIM)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"the text is no certificate: {type(error).__name__}: {error}") from None
        if known != FORMAT:
            raise ValueError(f"format = {known!r:.60} of the certificate must be {FORMAT!r}")
        self.text: Final = text

    def verify(self) -> str:
        """Prove the number again; the sentence that is proved.

        Raises
        ------
        ValueError
            What is claimed is not proved, with the reason.
        """
        try:
            return str(_checker().proved(self.text))
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
            raise ValueError(f"not proved: {type(error).__name__}: {error}") from None

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the file, whole or not at all."""
        with atomic_output(Path(path), overwrite=overwrite) as temporary:
            temporary.write_text(self.text, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return f"Certificate(epsilon <= {self.epsilon} at delta = {self.delta}, neighbors={self.neighbors!r})"

    def _repr_html_(self) -> str:
        return f"<p><b>Certificate</b>: epsilon &le; {escape(self.epsilon)} at delta = {escape(self.delta)}</p>"


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """The certificate in a file; `.verify()` proves it.

    Raises
    ------
    ValueError
        The file is no certificate.

    Examples
    --------
    >>> import fastacct as fa
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "certificate.json"
    >>> _ = fa.certify(fa.Laplace(5.0) * 10, delta=1e-6).save(path)
    >>> fa.read_certificate(path).verify().startswith("proved: epsilon <= 1.99")
    True
    """
    return Certificate(text_in(path, _MOST_BYTES))


@verb({})
def certify(
    job: Job,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    neighbors: Relation = "add_remove",
    digits: int = 5,
) -> Certificate:
    """Prove an epsilon of a job at `delta`, or a delta at `epsilon`, in ball arithmetic, without the engine.

    **Guarantee.** `checker.py`, a short program over python-flint, has proved the number from the job that the
    certificate states.  It is above the exact one by about 10^-digits of it.  Not proved: that the two distributions of
    a release are the worst ones of the mechanism (docs/certificates.md names the theorems).

    Parameters
    ----------
    job : Mechanism or Process, or a run by the keywords of `fastacct.dpsgd`
        Of plain numbers, taken as the decimals that they print as.  Gaussian, Laplace, discrete and Skellam
        noise, guarantees, tables, randomized response, Poisson subsampling of these, and what consists of them.
        Not random allocation of more than one step: the engine alone answers for it.
    delta : float in [1e-60, 0.999]
    epsilon : float in [0, 500]
        One of the two.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
    digits : int in [2, 12]
        Seconds double with each digit and a half.  More than 7 for Gaussian noise, its samples, groups and mixtures.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        The job has no certificate, by name; or no epsilon was proved.
    ModuleNotFoundError
        python-flint is missing: `pip install "fastacct[certificate]"`.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.certify(fa.Laplace(5.0) * 100, delta=1e-6)
    Certificate(epsilon <= 10.2765 at delta = 0.000001, neighbors='add_remove')
    """
    checker, relation = _checker(), as_relation(neighbors)
    if (delta is None) == (epsilon is None):
        raise TypeError("give delta, to certify an epsilon, or epsilon, to certify a delta")
    miss = 0.5 * 10.0 ** ((delta is None) - int(as_number("digits", digits, _DIGITS)))
    document: dict[str, Any] = {"format": FORMAT, "by": f"fastacct {__version__}", "relation": relation}
    document["releases"] = releases(job, relation)
    if delta is not None:
        given = target = as_number("delta", delta, _DELTA)
        document["delta"], asked = text_of(given), "epsilon"
    else:
        given = as_number("epsilon", epsilon, _EPSILON)
        target = max(float(np.max(engine_delta(job, epsilon=given, neighbors=relation))), _DELTA.low)
        document["epsilon"], asked = text_of(given), "delta"
    if digits > _LATTICE:
        about = float(np.max(engine_epsilon(job, delta=given, neighbors=relation))) if delta is not None else given
        return _on_lines(checker, document, asked, about if asked == "epsilon" else target, given, int(digits))
    simple = _added_up(document, asked, given, 1 + int(digits))
    names = checker.DIRECTIONS[relation]
    document["releases"] = listed(checker, document["releases"], target)
    own = names[:1] if are_mirrored(document["releases"], relation) else names
    ways = [Direction(checker, document, name, target) for name in own]
    for way in ways:
        way.measure(FIRST, asked, given)
        way.measure(2 * FIRST, asked, given)
    for _ in range(_TRIES):
        claim, places = _laid(ways, miss, asked, given)
        if simple is not None and not claim < 0.9999 * float(simple[asked]):
            return _proved(checker, document | simple)
        if not claim < math.inf:
            raise ValueError(f"no finite {asked} is proved for {job!r} at {given:g}: try a larger one")
        document[asked] = _up(claim, 1 + int(digits))
        plans = [way.plan(n, given) for way, n in zip(ways, places, strict=True)]
        document["proof"] = dict(zip(names, cycle(plans)))
        try:
            return _proved(checker, document)
        except ValueError as error:  # few large atoms: chords do not miss by the square of their length
            failed = error
            for way, n in zip(ways, places, strict=True):
                if way.name in str(error):
                    way.failed = n
                    if way.tried[-1].places < way.most:
                        way.measure(max(n, min(2 * way.tried[-1].places, way.most)), asked, given)
    raise ValueError(f"no certificate was found: {failed}")


def _laid(ways: list[Direction], miss: float, asked: str, given: float) -> tuple[float, list[int]]:
    """What to claim, and with how many places in each direction; numbers of a quarter as many are known then."""
    while True:
        limit = max(0.0, *(way.limit for way in ways))
        best, off = max(limit, *(way.tried[-1].number for way in ways)), miss * (limit + 1e-3 * (asked == "epsilon"))
        is_last = any(way.tried[-1].places >= way.most for way in ways)
        claim = best + 0.1 * off if is_last or best <= limit + 2.0 * off else limit + off
        places = [way.places(claim) for way in ways]
        far = [(way, n) for way, n in zip(ways, places, strict=True) if n > 4 * way.tried[-1].places]
        if not far or not claim < math.inf:
            return claim, places
        for way, n in far:
            way.measure(n // 4, asked, given)


def _on_lines(
    checker: Any, document: dict[str, Any], asked: str, about: float, given: float, digits: int
) -> Certificate:
    """Of so many digits above what the engine says, if that is not too large a claim."""
    epsilon, delta = (about, given) if asked == "epsilon" else (given, about)
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon!r}: {digits} digits are proved of positive epsilons alone")
    for more in range(_TRIES):
        lines = Lines(checker, document, epsilon, delta, digits + more)
        document[asked] = _up(about * (1.0 + 4.0**more * 10.0**-digits), 1 + digits)
        document["proof"] = {name: lines.plan(name) for name in checker.DIRECTIONS[document["relation"]]}
        try:
            return _proved(checker, document)
        except ValueError as error:
            failed = error
        if max(one["nodes"] for one in document["proof"].values()) > 500:  # half a minute for each try
            break
    raise ValueError(f"no certificate of {digits} digits was found, ask for 7 or fewer: {failed}")


def _proved(checker: Any, document: dict[str, Any]) -> Certificate:
    """Raises a ValueError if it is not."""
    text = json.dumps(document, indent=1)
    checker.proved(text)
    return Certificate(text)


def _added_up(document: dict[str, Any], asked: str, given: float, digits: int) -> dict[str, str] | None:
    """What guarantees add up to, exactly; None: the job consists of other things, or is asked for less."""
    sums = added_up(document["releases"])
    if sums is None or sums[asked == "epsilon"] > Fraction(text_of(given)):
        return None
    return {asked: _up(sums[asked == "delta"], digits), "proof": "guarantees add up"}
