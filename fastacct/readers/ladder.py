"""The ladder: what can bound one cell of a job, in the order in which it is asked, and where its bounds meet.

Each rung is asked only at the targets where the interval is still wider than what it may gain.  What it refuses, and
what is left wide, goes to the next one.  An answer that is known to be infinite is final.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Found, Status, meet
from fastacct.core.inputs import Cells, Codes
from fastacct.losses.loss import OutOfReachError, refuse_where
from fastacct.readers.asked import Quantity
from fastacct.readers.nearby import BOTTOM, DELTA, EPSILON, LOG_DELTA, TOP, Reading, delta_from, status_within

if TYPE_CHECKING:
    from fastacct.readers.cell import CellReader
    from fastacct_ext._kernels import Quantity as What

WHAT: Final = {"epsilon": EPSILON, "delta": DELTA, "log_delta": LOG_DELTA}


class Question(NamedTuple):
    """What a rung is asked: a quantity at targets, of which some upper bounds are known."""

    quantity: Quantity
    target: Cells
    upper: Cells
    only_upper: bool


class Said(NamedTuple):
    """What a rung says: certified bounds, their status, whose they are, and where nothing else is to be asked."""

    lower: Cells
    upper: Cells
    status: Codes
    name: str
    is_final: NDArray[np.bool_]


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


_Asked = Literal["epsilon", "log_delta"]
_ASKED: Final[dict[Quantity, _Asked]] = {"epsilon": "epsilon", "delta": "log_delta", "log_delta": "log_delta"}


class _One(NamedTuple):
    """A question at one target; of delta its logarithm is asked."""

    quantity: _Asked
    what: What
    target: float
    upper: float
    only_upper: bool


def _each(ask: Callable[[CellReader, _One], tuple[float, float, str]]) -> Callable[[CellReader, Question], Said]:
    """A rung that is asked one target at a time; it refuses where it refuses all of them."""

    def every(cell: CellReader, question: Question) -> Said:
        quantity, target, upper, only_upper = question
        is_delta, asked = quantity == "delta", _ASKED[quantity]
        low, high, _ = Reading.nothing(np.zeros(target.size), WHAT[asked])
        if is_delta:
            upper = np.log(np.maximum(upper, 5e-324))
        name, why = "", None
        for i, each in enumerate(zip(target.tolist(), upper.tolist(), strict=True)):
            try:
                with cell.lock:
                    low[i], high[i], name = ask(cell, _One(asked, WHAT[asked], *each, only_upper))
            except OutOfReachError as error:
                why = error
        if why and not name:
            raise why
        if is_delta:
            low, high = delta_from(low, high)
        return Said(low, high, status_of_answer(quantity, low, high), name, np.zeros(low.size, dtype=np.bool_))

    return every


def status_of_answer(quantity: Quantity, lower: Cells, upper: Cells) -> Codes:
    """Codes of intervals."""
    within = status_within(lower, upper, WHAT[quantity])
    return np.where((upper >= TOP[WHAT[quantity]]) & (within > 0), Status.NOT_MET, within).astype(np.uint8)


def _line(cell: CellReader, question: Question) -> Said:
    """The contour integrals; epsilon at delta 0 is the sum of pure guarantees, where there is one."""
    quantity, target = question.quantity, question.target
    found, is_final = cell.read_line(target, WHAT[quantity], only_upper=question.only_upper)
    if quantity == "epsilon" and (at_zero := target == 0.0).any() and cell.largest < math.inf:
        found.put(at_zero, Reading.nothing(np.zeros(1), EPSILON))
        is_final = is_final & ~at_zero
    return Said(*found, "contour", is_final)


@_each
def _pure(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """Basic composition of pure guarantees: delta is at most 1 - exp(epsilon - largest), and 0 from there on."""
    refuse_where(cell.largest == math.inf, "no finite epsilon is known at delta = 0")
    if one.quantity != "epsilon":
        return -math.inf, log_below(cell.largest, one.target), "pure guarantee"
    is_known = one.target == 0.0 and "losses" in cell.settings.rungs and not cell.is_bound
    return min(max(cell.reached(), 0.0), cell.largest) if is_known else 0.0, cell.largest, "pure guarantee"


@_each
def _unsampled(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """The line of the job without its samples, which is never more private."""
    is_answered = one.upper < TOP[one.what] and not cell.is_gaussian
    refuse_where(is_answered, "it is asked for Gaussian noise alone, or where nothing else answers")
    unsampled = cell.process.unsampled()
    refuse_where(unsampled == cell.process, "nothing is sampled")
    return BOTTOM[one.what], cell.by_line(unsampled, cell.relation, one.what, one.target), "the job without subsampling"


@_each
def _twice(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """A record that is replaced is removed, and another one added: delta(2 e) <= (1 + exp(e)) delta'(e)."""
    is_other = not cell.process.is_gaussian or cell.relation != "replace_one"
    refuse_where(is_other, "it is asked for Gaussian noise alone, under replace_one")
    read = partial(cell.by_line, cell.process, "add_remove", one.what)
    half = read(0.5 * one.target)
    if one.quantity == "log_delta":
        upper = half + float(np.logaddexp(0.0, 0.5 * one.target))
        return -math.inf, min(0.0, upper + 4e-15 * (1.0 + abs(upper))), "removal plus addition"
    for _ in range(12):  # up to e with epsilon'(delta / (1 + exp(e))) <= e
        times = 1.0 + math.exp(half) if half < 700.0 else math.inf
        if (needed := read(one.target / times * (1.0 - 4e-15))) <= half:
            return 0.0, 2.0 * half, "removal plus addition"
        half = 1.01 * needed
    return 0.0, math.inf, "removal plus addition"


@_each
def _losses(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """Sums of losses, listed or on a grid: the larger direction."""
    is_known = cell.has_sums and (cell.relation != "replace_one" or len(cell.table) > 8 or one.upper < -575.0)
    refuse_where(is_known, "of Gaussian noise the contour says more, or sooner")
    if one.quantity == "epsilon":
        is_least = cell.is_on_grid and one.target == 0.0 and cell.largest < math.inf
        refuse_where(is_least, "at delta = 0 a grid says less than the pure guarantee")
        return cell.larger("epsilon", one.target, only_upper=one.only_upper)
    lower, upper, name = cell.larger("delta", one.target, only_upper=one.only_upper)
    if (before := cell.largest * (1.0 - 1e-6)) < math.inf:  # nearer to the largest loss grids say less
        if before < one.target and cell.is_on_grid:
            upper = min(upper, cell.larger("delta", before, only_upper=one.only_upper)[1])
        upper = max(upper, 5e-324)  # losses reach further than epsilon: what underflowed is not nothing
    lower = math.log(lower) * (1.0 + 4e-16) - 4e-16 if lower > 0.0 else -math.inf
    return lower, _log_above(upper), name


def _log_above(delta: float) -> float:
    """The logarithm of a delta, rounded up."""
    return min(math.log(delta) * (1.0 - 4e-16) + 4e-16, 0.0) if delta > 0.0 else -math.inf


@_each
def _coarse(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """Grids that take little time, from above."""
    if one.quantity == "epsilon":
        return 0.0, cell.roughly("epsilon", one.target), "coarse grid"
    return -math.inf, _log_above(cell.roughly("delta", one.target)), "coarse grid"


@_each
def _divergences(cell: CellReader, one: _One) -> tuple[float, float, str]:
    """Divergences at the best order."""
    read = cell.renyi.epsilon if one.quantity == "epsilon" else cell.renyi.log_delta
    upper = read(one.target, one.upper)
    order = "" if math.isnan(cell.renyi.best_order) else f" of order {cell.renyi.best_order:.6g}"
    return BOTTOM[one.what], upper, f"Rényi divergence{order}"


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

    `begun` is what the line says, the first rung, where it has been asked for all cells at once.
    """
    out = begun or Reading.nothing(target, WHAT[quantity])
    is_open = out.status != Status.TIGHT
    for name in cell.rungs(quantity)[begun is not None :]:
        nothing_yet = out.upper >= TOP[WHAT[quantity]]
        is_open &= out.lower < TOP[WHAT[quantity]]  # infinite ones are final
        if not is_open.any():
            break
        at = np.flatnonzero(is_open & (nothing_yet | _is_wide(cell, name, quantity, out)))
        if not at.size:
            continue
        before = out.upper[at]
        try:
            said = LADDER[name].ask(cell, Question(quantity, target[at], before, only_upper))
        except OutOfReachError as why:
            steps.append(Step(LADDER[name].told, str(why), counts=False))
            continue
        _meet(cell, quantity, out, at, said)
        is_open[at] &= ~said.is_final
        bounds = Found(float(said.lower[0]), float(said.upper[0]), Status(int(said.status[0])))
        steps.append(Step(said.name, bounds, counts=bool(out.upper[at[0]] < before[0])))
    return out


def _is_wide(cell: CellReader, name: str, quantity: Quantity, out: Reading) -> NDArray[np.bool_]:
    """Where intervals are so wide that a rung may say more."""
    if name in ("losses", "divergences") and cell.is_dear:
        return np.zeros(out.upper.size, dtype=np.bool_)
    low, high, _ = out
    least = 1e-3 if name == "losses" and cell.has_sums else LADDER[name].width
    with np.errstate(invalid="ignore"):
        return np.asarray(high - low > least * (1.0 if quantity == "log_delta" else np.maximum(high, 0.0)))


def _meet(cell: CellReader, quantity: Quantity, out: Reading, at: NDArray[np.intp], said: Said) -> None:
    """The one place where intervals meet; of a class of mechanisms no lower bound is known."""
    before = out.take(at)
    if said.name == "contour" or not cell.is_bound:
        lower, upper = meet(np.maximum(before.lower, said.lower), said.upper, before.upper)
        lower = np.maximum(lower, BOTTOM[WHAT[quantity]])
    else:
        lower, upper = np.full(at.size, BOTTOM[WHAT[quantity]]), np.minimum(said.upper, before.upper)
    status = status_of_answer(quantity, lower, upper)
    if said.name == "contour":
        status = np.where((lower == said.lower) & (upper == said.upper), said.status, status)
    else:
        status = np.where((lower == before.lower) & (upper == before.upper), before.status, status)
    out.put(at, Reading(lower, upper, status.astype(np.uint8)))
