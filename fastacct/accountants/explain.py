"""Which reader answered a question about a job, and why the others did not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from fastacct.accountants import Exact, Method
from fastacct.accountants.question import Job, answer, as_accountant, as_process, plain_bounds
from fastacct.accountants.run import verb
from fastacct.core.bounds import Found, Status
from fastacct.core.html import table
from fastacct.core.inputs import as_number
from fastacct.core.record import Compared
from fastacct.core.relations import Relation, as_relation
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask, Quantity
from fastacct.readers.job import explained
from fastacct.readers.ladder import Step

_TOGETHER: Final = ("these together",)
"""Where no reader alone has the answer."""
_NONE: Final = ("none of them",)
"""Where none has a bound."""
_INFINITE: Final = Found(np.inf, np.inf, Status.NOT_MET)
_BOUNDS: Final = ("[", "at most", ">=", "infinite")
"""What a reader with a bound begins with."""


class Explanation(Compared):
    """The answer to one question, and what every reader said; `str` of it is the report.

    Examples
    --------
    >>> import fastacct as fa
    >>> why = fa.explain(fa.Laplace(2.0) * 5, delta=0.0)
    >>> why.status, round(why.upper, 4), len(why.readers) > 1
    ('TIGHT', 2.5, True)
    """

    question: str
    lower: float
    upper: float
    status: str
    parts: tuple[str, ...]
    """The job in mechanisms that are evaluated directly."""
    answered: tuple[str, ...]
    """The readers whose bound is the answer: of jobs on parts of the data the largest one, else the smallest."""
    readers: tuple[tuple[str, str], ...]
    """Every reader, with its bounds or why it gives none."""

    def __str__(self) -> str:
        rows = [f"{self.question}: between {self.lower!r} and {self.upper!r} ({self.status})"]
        rows += ["evaluated as " + " + ".join(self.parts)] if self.parts else ["nothing is released"]
        rows += [f"{row}: {said}" for row, said in self._rows()]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        title = f"{self.question}: between {self.lower!r} and {self.upper!r} ({self.status})"
        return table(title, [("evaluated as", " + ".join(self.parts) or "nothing"), *self._rows()])

    def _rows(self) -> list[tuple[str, str]]:
        """What each reader says, and whether it is the answer, a bound beside it, or why there is none."""
        rows = []
        for name, said in self.readers:
            no_answer = "also by" if said.startswith(_BOUNDS) else "not by"
            rows.append((f"{'answered by' if name in self.answered else no_answer} {name}", said))
        return rows


@verb({})
def explain(
    job: Job,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
) -> Explanation:
    """Say which method answers epsilon at `delta`, or delta at `epsilon`, and what the others say.

    docs/mechanisms.md, "How a curve is computed", has the methods.  The job is one of plain numbers, the target one
    number; arguments and errors as in `fastacct.epsilon`.  Print what is returned, or use its fields.

    >>> import fastacct as fa
    >>> why = fa.explain(fa.Laplace(2.0) * 5 + fa.ZCDP(0.01), delta=1e-6)
    >>> why.answered
    ('Rényi divergence of order 27.83...',)
    >>> fa.explain(fa.Gaussian(1.0).poisson(0.01) * 100, delta=1e-6).answered
    ('contour',)
    """
    if (epsilon is None) == (delta is None):
        raise TypeError("give either epsilon or delta")
    process, relation = as_process(job), as_relation(neighbors)
    if process.shape:
        raise TypeError(f"explain takes a job of plain numbers, not of shape {process.shape}")
    quantity: Quantity = "delta" if delta is None else "epsilon"
    given, at = ("epsilon", epsilon) if delta is None else ("delta", delta)
    target, chosen = as_number(given, at), as_accountant(accountant, quantity)
    is_exact = isinstance(chosen, Exact)
    lower, upper, status = plain_bounds(answer(quantity, job, target, chosen, relation, only_upper=not is_exact))
    if not is_exact:
        lower, status = 0.0, Status.LOOSE
    ask = Ask(quantity, np.array(target), (), relation, only_upper=not is_exact)
    name, settings = chosen.reading(process, ask)
    steps = explained(process, ask, settings) if settings else [Step(name, Found(lower, upper, status), counts=True)]
    steps = _once(steps)
    answered = _answering(steps, upper)
    return Explanation(
        f"{quantity} at {given} = {target!r}, {relation}, {type(chosen).__name__}",
        lower,
        upper,
        status.name,
        tuple(f"{mechanism!r} * {count}" for mechanism, count in process.decompose(relation)),
        answered,
        _rows(steps, process.tight)
        + _of_none(answered, lower, upper)
        + (_from_below(process, lower) if is_exact else ()),
    )


def _once(steps: Sequence[Step]) -> list[Step]:
    """Of a ladder that is climbed twice: nothing twice, and no reason of a reader that has a bound elsewhere."""
    bounded = {step.name for step in steps if not isinstance(step.said, str)}
    return [step for step in dict.fromkeys(steps) if not isinstance(step.said, str) or step.name not in bounded]


def _rows(steps: Iterable[Step], tight: bool) -> tuple[tuple[str, str], ...]:
    """What every reader says."""
    return tuple((step.name, _in_words(step.said, tight)) for step in steps)


def _answering(steps: Iterable[Step], upper: float) -> tuple[str, ...]:
    """The readers whose bound is the answer."""
    if upper == np.inf:
        return tuple(step.name for step in steps if step.said == _INFINITE) or _NONE
    return tuple(step.name for step in steps if step.counts and step.said[1] == upper) or _TOGETHER


def _of_none(answered: tuple[str, ...], lower: float, upper: float) -> tuple[tuple[str, str], ...]:
    """The row of an answer that no reader alone has."""
    words = {_TOGETHER: f"[{lower!r}, {upper!r}]", _NONE: "no finite bound is known"}
    return tuple((name, said) for (name,), said in words.items() if answered == (name,))


def _in_words(said: Found | str, tight: bool) -> str:
    """What a reader proves: of jobs that are bounded from above alone there is no lower end of its own."""
    if isinstance(said, str):
        return said
    if said.upper == np.inf:
        return "infinite" if said == _INFINITE else "no finite bound"
    return f"[{said.lower!r}, {said.upper!r}]" if tight else f"at most {said.upper!r}"


def _from_below(process: Process, lower: float) -> tuple[tuple[str, str], ...]:
    """Where the lower end of a job is from of whose mechanisms some are bounded from above alone."""
    bounded = ", ".join(repr(mechanism) for mechanism, _ in process if not mechanism.tight)
    said = f">= {lower!r}, as only an upper bound is known of {bounded}"
    return (("the other mechanisms, from below", said),) if bounded else ()
