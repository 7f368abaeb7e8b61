"""The ladder: what can bound one cell of a job, in the order in which it is asked, and where its bounds meet.

Each rung is asked only at the targets where the interval is still wider than what it may gain.  What it refuses, and
what is left wide, goes to the next one.  An answer that is known to be infinite is final.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastacct.core.bounds import TIGHT_WIDTH, Found, Status, narrowed, status_at
from fastacct.core.inputs import Cells, Codes
from fastacct.core.work import is_over, one_question
from fastacct.losses.loss import OutOfReachError, refuse_where
from fastacct.readers.asked import Quantity
from fastacct.readers.nearby import BOTTOM, DELTA, EPSILON, LOG_DELTA, TOP, Reading, delta_from, status_within

if TYPE_CHECKING:
    from fastacct.readers.cell import CellReader
    from fastacct_ext._kernels import Quantity as What

WHAT: Final = {"epsilon": EPSILON, "delta": DELTA, "log_delta": LOG_DELTA}


class Question(NamedTuple):
    """What a rung is asked: a quantity at one target, of which an upper bound is known; all but the line are asked the
    logarithm of delta for delta."""

    what: What
    target: float
    upper: float
    only_upper: bool


class Said(NamedTuple):
    """What a rung says: certified bounds, whose they are, their status, if it is not by their width alone, and whether
    nothing else is to be asked."""

    lower: float
    upper: float
    name: str
    status: Status | None = None
    is_final: bool = False


class Rung(NamedTuple):
    """One way to bounds, above which relative width of the interval it is asked, and what a user reads of it."""

    ask: Callable[[CellReader, Question], Said]
    width: float
    told: str


class Step(NamedTuple):
    """A rung of one answer: what it said, or why it said nothing, and whether it lowered the upper bound."""

    name: str
    said: Found | str
    counts: bool


def status_of_answer(quantity: Quantity, lower: Cells, upper: Cells) -> Codes:
    """Codes of intervals."""
    within = status_within(lower, upper, WHAT[quantity])
    return np.where((upper >= TOP[WHAT[quantity]]) & (within > 0), Status.NOT_MET, within).astype(np.uint8)


def _status(what: What, lower: float, upper: float) -> Status:
    """That of an interval, by its width."""
    return status_at(lower, upper, TOP[what], is_log=what == LOG_DELTA)


def _of_logarithms(ask: Callable[[CellReader, Question], Said]) -> Callable[[CellReader, Question], Said]:
    """A rung that knows logarithms of deltas, and is asked by one thread at a time."""

    def asked(cell: CellReader, one: Question) -> Said:
        with cell.lock:
            if one.what != DELTA:
                return ask(cell, one)
            said = ask(cell, one._replace(what=LOG_DELTA, upper=math.log(max(one.upper, 5e-324))))
        lower, upper = map(float, delta_from(said.lower, said.upper))
        return said._replace(lower=lower, upper=upper)

    return asked


def _line(cell: CellReader, one: Question) -> Said:
    """The contour integrals."""
    reading, is_final = cell.read_line(np.array([one.target]), one.what, only_upper=one.only_upper)
    found = reading.at(0)
    return Said(found.lower, found.upper, "contour", found.status, bool(is_final[0]))


@_of_logarithms
def _pure(cell: CellReader, one: Question) -> Said:
    """Basic composition of pure guarantees: delta is at most 1 - exp(epsilon - largest), and 0 from there on."""
    refuse_where(cell.largest == math.inf, "no finite epsilon is known at delta = 0")
    if one.what != EPSILON:
        return Said(-math.inf, log_below(cell.largest, one.target), "pure guarantee")
    is_known = one.target == 0.0 and "losses" in cell.settings.rungs and not cell.is_bound
    least = min(max(cell.reached(), 0.0), cell.largest) if is_known else 0.0
    return Said(least, cell.largest, "pure guarantee")


@_of_logarithms
def _unsampled(cell: CellReader, one: Question) -> Said:
    """The line of the job without its samples, which is never more private."""
    is_answered = one.upper < TOP[one.what] and not cell.is_gaussian
    refuse_where(is_answered, "it is asked for Gaussian noise alone, or where nothing else answers")
    unsampled = cell.process.unsampled()
    refuse_where(unsampled == cell.process, "nothing is sampled")
    upper = cell.by_line(unsampled, cell.relation, one.what, one.target)
    return Said(BOTTOM[one.what], upper, "the job without subsampling")


@_of_logarithms
def _twice(cell: CellReader, one: Question) -> Said:
    """A record that is replaced is removed, and another one added: delta(2 e) <= (1 + exp(e)) delta'(e)."""
    is_other = not cell.process.is_gaussian or cell.relation != "replace_one"
    refuse_where(is_other, "it is asked for Gaussian noise alone, under replace_one")
    read = partial(cell.by_line, cell.process, "add_remove", one.what)
    half = read(0.5 * one.target)
    if one.what == LOG_DELTA:
        upper = half + float(np.logaddexp(0.0, 0.5 * one.target))
        return Said(-math.inf, min(0.0, upper + 4e-15 * (1.0 + abs(upper))), "removal plus addition")
    for _ in range(12):  # up to e with epsilon'(delta / (1 + exp(e))) <= e
        times = 1.0 + math.exp(half) if half < 700.0 else math.inf
        if (needed := read(one.target / times * (1.0 - 4e-15))) <= half:
            return Said(0.0, 2.0 * half, "removal plus addition")
        half = 1.01 * needed
    return Said(0.0, math.inf, "removal plus addition")


@_of_logarithms
def _losses(cell: CellReader, one: Question) -> Said:
    """Sums of losses, listed or on a grid: the larger direction."""
    is_known = cell.has_sums and (cell.relation != "replace_one" or len(cell.table) > 8 or one.upper < -575.0)
    refuse_where(is_known, "of Gaussian noise the contour says more, or sooner")
    if one.what == EPSILON:
        is_least = cell.is_on_grid and one.target == 0.0 and cell.largest < math.inf
        refuse_where(is_least, "at delta = 0 a grid says less than the pure guarantee")
        return Said(*cell.larger("epsilon", one.target, only_upper=one.only_upper))
    lower, upper, name = cell.larger("delta", one.target, only_upper=one.only_upper)
    if (before := cell.largest * (1.0 - 1e-6)) < math.inf:  # nearer to the largest loss grids say less
        if before < one.target and cell.is_on_grid:
            upper = min(upper, cell.larger("delta", before, only_upper=one.only_upper)[1])
        upper = max(upper, 5e-324)  # losses reach further than epsilon: what underflowed is not nothing
    lower = math.log(lower) * (1.0 + 4e-16) - 4e-16 if lower > 0.0 else -math.inf
    return Said(lower, _log_above(upper), name)


def _log_above(delta: float) -> float:
    """The logarithm of a delta, rounded up."""
    return min(math.log(delta) * (1.0 - 4e-16) + 4e-16, 0.0) if delta > 0.0 else -math.inf


@_of_logarithms
def _coarse(cell: CellReader, one: Question) -> Said:
    """Grids that take little time, from above."""
    if one.what == EPSILON:
        return Said(0.0, cell.roughly("epsilon", one.target), "coarse grid")
    return Said(-math.inf, _log_above(cell.roughly("delta", one.target)), "coarse grid")


@_of_logarithms
def _divergences(cell: CellReader, one: Question) -> Said:
    """Divergences at the best order."""
    read = cell.renyi.epsilon if one.what == EPSILON else cell.renyi.log_delta
    upper = read(one.target, one.upper)
    order = "" if math.isnan(cell.renyi.best_order) else f" of order {cell.renyi.best_order:.6g}"
    return Said(BOTTOM[one.what], upper, f"Rényi divergence{order}")


def log_below(largest: float, epsilon: float) -> float:
    """Upper bound of log delta at an epsilon, delta being at most 1 - exp(epsilon - largest); -inf where it is 0."""
    if epsilon >= largest:
        return -math.inf
    value = math.log(-math.expm1(epsilon - largest))
    return min(value + 1e-14 + 4e-16 * abs(value), 0.0)


LADDER: Final = {
    "line": Rung(_line, TIGHT_WIDTH, "contour"),
    "pure": Rung(_pure, TIGHT_WIDTH, "pure guarantee"),
    "twice": Rung(_twice, TIGHT_WIDTH, "removal plus addition"),
    "losses": Rung(_losses, TIGHT_WIDTH, "list or grid of losses"),
    "divergences": Rung(_divergences, 1e-3, "Rényi divergence"),
    "unsampled": Rung(_unsampled, 1e-3, "the job without subsampling"),
    "coarse": Rung(_coarse, 1e-3, "coarse grid"),
}


def climb(
    cell: CellReader,
    quantity: Quantity,
    target: Cells,
    *,
    steps: list[Step],
    only_upper: bool = False,
    begun: Reading | None = None,
) -> Reading:
    """Bounds at some targets, rung by rung; `steps` takes the rungs of one target.

    `begun` is what the line says, the first rung, where it has been asked for all cells at once.  Of several targets it
    is asked at once, as neighbours share a line, and each of those that are left climbs by itself.
    """
    what, rungs = WHAT[quantity], cell.rungs(quantity)[begun is not None :]
    out = begun or Reading.nothing(target, what)
    is_open = out.status != Status.TIGHT
    if target.size > 1 and rungs[:1] == ("line",):
        rungs = rungs[1:]
        with suppress(OutOfReachError):
            out, is_final = cell.read_line(target, what, only_upper=only_upper)
            is_open = ~is_final
    for i in np.flatnonzero(is_open).tolist():
        one = Question(what, float(target[i]), TOP[what], only_upper)
        with one_question({}):
            out.put(i, _climbed(cell, rungs, one, out.at(i), steps))
    return out


def _climbed(cell: CellReader, rungs: tuple[str, ...], one: Question, known: Found, steps: list[Step]) -> Found:
    """Bounds at one target; infinite ones are final."""
    for name in rungs:
        if known.lower >= TOP[one.what]:
            break
        if not _is_wide(cell, name, one.what, known):
            continue
        try:
            said = LADDER[name].ask(cell, one._replace(upper=known.upper))
        except OutOfReachError as why:
            steps.append(Step(LADDER[name].told, str(why), counts=False))
            continue
        status = _status(one.what, said.lower, said.upper) if said.status is None else said.status
        found = Found(said.lower, said.upper, status)
        before, known = known, _meet(cell, one.what, known, found, is_line=name == "line")
        steps.append(Step(said.name, found, counts=known.upper < before.upper))
        if said.is_final:
            break
    return known


def _is_wide(cell: CellReader, name: str, what: What, known: Found) -> bool:
    """Whether the interval is so wide that a rung may say more."""
    if known.upper >= TOP[what]:
        return True
    if name == "divergences" and is_over():  # they take seconds where grids do
        return False
    if name in ("losses", "divergences") and cell.is_dear:
        return False
    least = 1e-3 if name == "losses" and cell.has_sums else LADDER[name].width
    return known.upper - known.lower > least * (1.0 if what == LOG_DELTA else max(known.upper, 0.0))


def _meet(cell: CellReader, what: What, before: Found, said: Found, *, is_line: bool) -> Found:
    """The one place where intervals meet; of a class of mechanisms no lower bound is known."""
    if is_line or not cell.is_bound:
        lower, upper = narrowed(max(before.lower, said.lower), said.upper, before.upper)
        lower = max(lower, BOTTOM[what])
    else:
        lower, upper = BOTTOM[what], min(said.upper, before.upper)
    known = {said[:2]: said.status, before[:2]: before.status}
    return Found(lower, upper, known.get((lower, upper), _status(what, lower, upper)))
