"""Which reader answered a question about a job, and why the others did not."""

from __future__ import annotations

import math

import numpy as np

from fastacct.accountants import Exact, Method
from fastacct.accountants.question import Job, answer, as_accountant, as_process, plain_bounds
from fastacct.core.bounds import Found, Status
from fastacct.core.html import table
from fastacct.core.inputs import as_number
from fastacct.core.record import Compared
from fastacct.core.relations import Relation, as_relation
from fastacct.mechanisms.process import Process
from fastacct.readers.cell import CellReader, Quantity
from fastacct.readers.job import Ask, delta_of
from fastacct.run import verb


class Explanation(Compared):
    """The answer to one question, and what every reader said; `str` of it is the report.

    Examples
    --------
    >>> import fastacct as fa
    >>> why = fa.explain(fa.Laplace(2.0) * 5, delta=1e-6)
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
        rows += [f"{'answered' if name in self.answered else 'also'} by {name}: {said}" for name, said in self.readers]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        rows = [(f"{'answered' if name in self.answered else 'also'} by {name}", said) for name, said in self.readers]
        title = f"{self.question}: between {self.lower!r} and {self.upper!r} ({self.status})"
        return table(title, [("evaluated as", " + ".join(self.parts) or "nothing"), *rows])


@verb({})
def explain(
    job: Job,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
) -> Explanation:
    """Say which reader answers epsilon at `delta`, or delta at `epsilon`, and what the others say.

    The job is one of plain numbers, the target one number; arguments and errors as in `fastacct.epsilon`.  Print what
    is returned, or use its fields.

    >>> import fastacct as fa
    >>> why = fa.explain(fa.Laplace(2.0) * 5 + fa.ZCDP(0.01), delta=1e-6)
    >>> why.answered
    ('Rényi divergence of order 27.8369',)
    >>> fa.explain(fa.Gaussian(1.0).poisson(0.01) * 100, delta=1e-6).answered
    ('contour',)
    """
    if (epsilon is None) == (delta is None):
        raise TypeError("give either epsilon or delta")
    process, relation = as_process(job), as_relation(neighbors)
    if process.shape:
        raise TypeError(f"explain takes a job of plain numbers, not of shape {process.shape}")
    quantity: Quantity = "epsilon" if delta is not None else "delta"
    given, at = ("delta", delta) if delta is not None else ("epsilon", epsilon)
    target, chosen, whole = as_number(given, at), as_accountant(accountant, quantity), process.decompose(relation)
    is_exact = chosen == Exact()

    def bounds(job: Process) -> Found:
        found = plain_bounds(answer(quantity, job, target, chosen, relation, only_upper=not is_exact))
        return Found(*found) if is_exact else Found(0.0, found.upper, Status.LOOSE)

    lower, upper, status = total = bounds(process)
    name, settings = chosen.reading(process, Ask(quantity, np.array(target), (), relation))
    readers: list[tuple[str, Found | str]] = [(name, total)]
    if settings:
        readers = list(CellReader(next(whole.cells()), relation, settings, delta_of).every(quantity, target))
    if is_exact and any(mechanism.alternatives() for mechanism, _ in whole):  # the largest of these is the answer
        apart = [one for one in whole.alternatives(relation) if one != whole]
        readers = [(f"a record in the part of {one!r}", bounds(one)) for one in apart] + readers
    for i, (name, found) in enumerate(readers):
        if isinstance(found, Found) and math.isclose(found.upper, upper, rel_tol=1e-12):  # rounded by another path
            readers[i] = name, Found(min(found.lower, upper), upper, found.status)
    answered = tuple(name for name, found in readers if isinstance(found, Found) and found.upper == upper)
    if not answered:
        answered = ("these together",)
        readers.append((answered[0], total))
    return Explanation(
        f"{quantity} at {given} = {target!r}, {relation}, {type(chosen).__name__}",
        lower,
        upper,
        status.name,
        tuple(f"{mechanism!r} * {count}" for mechanism, count in whole),
        answered,
        tuple((one, f if isinstance(f, str) else f"[{f.lower!r}, {f.upper!r}]") for one, f in readers),
    )
