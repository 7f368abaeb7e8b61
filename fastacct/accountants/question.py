"""What the verbs ask: a job, a target and a relation, checked, and the accountant that answers."""

from __future__ import annotations

import textwrap
from typing import Final, TypedDict, Unpack, cast

from fastacct.accountants.base import Method
from fastacct.accountants.exact import Exact
from fastacct.core.bounds import Bounds, unwrapped
from fastacct.core.inputs import Cells, Domain, Reals, as_cells, as_threads, common_shape
from fastacct.core.labels import labelled, labels_of, together
from fastacct.core.relations import Relation, as_relation
from fastacct.core.words import in_one_line, refuse_unknown
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask, Quantity
from fastacct.readers.orders import divergences

_EXACT: Final = Exact()
_ACCOUNTANTS: Final = {"exact": "Exact", "prv": "PLD", "pld": "PLD", "gdp": "CLT", "clt": "CLT"}
"""Classes by the names that other libraries have for what they do."""
Job = Mechanism | Process


class CurveOptions(TypedDict, total=False):
    """Keywords of the verbs that are always read exactly; see `fastacct.epsilon`."""

    neighbors: Relation
    threads: int | None


class Options(CurveOptions, total=False):
    """Keywords of the verbs; see `fastacct.epsilon`."""

    accountant: Method | None


@labelled()
def answer(
    quantity: Quantity,
    job: Job,
    target: Reals,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
    *,
    only_upper: bool = False,
) -> Bounds:
    """Certified bounds of epsilon, delta or log delta, as arrays."""
    chosen = as_accountant(accountant, quantity)
    return chosen.bounds(*asked(quantity, job, target, neighbors, threads, only_upper))


def asked(
    quantity: Quantity, job: Job, target: Reals, neighbors: Relation, threads: int | None, only_upper: bool
) -> tuple[Process, Ask]:
    """The process that a job is, and what is asked of it."""
    name = "delta" if quantity == "epsilon" else "epsilon"
    process, cells, shape, relation, n_threads = checked(job, name, target, neighbors=neighbors, threads=threads)
    return process, Ask(quantity, cells, shape, relation, n_threads, only_upper)


@labelled("rdp")
def renyi(
    job: Job,
    orders: Reals,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
    *,
    only_upper: bool = False,
) -> Bounds:
    """Certified bounds of the Rényi divergence, as arrays."""
    question = checked(job, "orders", orders, neighbors=neighbors, threads=threads)
    return divergences(*question, only_upper=only_upper)


def checked(
    job: object, name: str, target: Reals, domain: Domain | None = None, **options: Unpack[CurveOptions]
) -> tuple[Process, Cells, tuple[int, ...], Relation, int]:
    """Process, target, their broadcast shape, relation and number of threads."""
    refuse_unknown(options, CurveOptions.__annotations__)
    relation, n_threads = as_relation(options.get("neighbors", "add_remove")), as_threads(options.get("threads"))
    process = as_process(job)
    try:
        cells = as_cells(name, target, domain, may_be_empty=True)
    except ValueError as error:
        below = name == "orders" and isinstance(target, float | int) and 0.0 <= target < 1.0
        hint = "; orders below 1: fa.divergence(job, orders)" if below else ""
        raise ValueError(f"{error}{hint}") from None
    shape = common_shape({"job": process.shape, name: cells}) if process.shape else cells.shape
    return process, cells, shape, relation, n_threads


def as_process(job: object) -> Process:
    """A job as a process."""
    if isinstance(job, Process):
        return job
    if isinstance(job, Mechanism):
        return Process({job: 1})
    shown = in_one_line(repr(job))
    raise TypeError(f"job must be a mechanism or a process, not {textwrap.shorten(shown, 120)}: {_instead_of(job)}")


def _instead_of(job: object) -> str:
    """What to give instead of what is no job."""
    is_state = isinstance(job, dict) and "history" in job
    cures = {
        "of a state of Opacus write fastacct.epsilon(history=state['history'], delta=...)": is_state,
        "a run is given as fastacct.epsilon(**run, delta=...)": isinstance(job, dict),
        "of several jobs give one, or their sum: job + other, job * count": isinstance(job, list | tuple),
        "its job is fastacct.compat.dp_accounting.from_dp_accounting(event)": "DpEvent" in type(job).__name__,
        "of an accountant write fastacct.epsilon(history=accountant.history, delta=...)": _has(job, "history"),
        "what a budget has released is budget.ledger, what it spent budget.spent()": _has(job, "ledger"),
        "of a table add up mechanism * count of its rows; of runs give columns, as steps=table.steps": _has(
            job, "columns"
        ),
        "a number says not what it is of: give the job, or the keywords of the run": isinstance(job, float | int),
    }
    return next((cure for cure, fits in cures.items() if fits), "such as fastacct.Gaussian(1.0) * 100")


def _has(job: object, name: str) -> bool:
    """Whether what is no class has an attribute."""
    return not isinstance(job, type) and hasattr(job, name)


def as_accountant(accountant: object, quantity: str) -> Method:
    """An accountant whose answers are proved; None is the default."""
    chosen = as_method(accountant, _EXACT)
    if not chosen.certified:
        name = type(chosen).__name__
        raise ValueError(f"accountant {name} proves nothing; fastacct.dpsgd.{quantity}_approx has its approximation")
    return chosen


def as_method(accountant: object, default: Method) -> Method:
    """An accountant, proved or not; None is the default."""
    if accountant is not None and not isinstance(accountant, Method):
        word = accountant if isinstance(accountant, str) else getattr(accountant, "__name__", "")
        named = _ACCOUNTANTS.get(word.casefold(), "RDP")
        raise TypeError(f"accountant must be an accountant object, not {accountant!r}: write fastacct.{named}()")
    return default if accountant is None else accountant


def plain_bounds(bounds: Bounds) -> Bounds:
    """Plain numbers and a `Status` for a single cell without dimensions; labelled bounds as one table."""
    return cast("Bounds", together(bounds)) if labels_of(bounds.upper) else unwrapped(bounds)
