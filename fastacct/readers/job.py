"""A whole job, all cells and targets: which reader evaluates it, and how its cells meet the targets."""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.bounds import Bounds, Found, Status, narrowed, status_of
from fastacct.core.engine import in_pieces
from fastacct.core.inputs import Cells
from fastacct.core.relations import Direction, Relation
from fastacct.losses.loss import OutOfReachError
from fastacct.mechanisms.process import Process, cell_pure_epsilon
from fastacct.readers.cell import CellReader, Quantity, Settings, log_below
from fastacct.readers.cell_job import DELTA, EPSILON, LOG_DELTA, read_run, status_within
from fastacct.readers.contour import Contour, kernel_directions

WHAT = {"epsilon": EPSILON, "delta": DELTA, "log_delta": LOG_DELTA}
_EXACTLY = Settings()
_HALVINGS: Final = np.arange(1.0, 9.0)
"""At which epsilons below the largest loss delta is tried, too: largest (1 - 2^-k)."""


class Ask(NamedTuple):
    """What is asked of a job: a quantity at targets, under a relation."""

    quantity: Quantity
    target: Cells
    shape: tuple[int, ...]
    """Broadcast shape of the job and the target."""
    relation: Relation = "add_remove"
    threads: int = 1
    only_upper: bool = False
    enough: Cells = np.array(-math.inf)
    """Of each target: an upper bound that is at most this need not be narrower."""


def exact(job: Process, ask: Ask) -> Bounds:
    """Certified bounds by the tightest readers there are."""
    if job.sampled(ask.relation, exactly=True):
        return _mended(job, ask, _contour(job, ask))
    whole, mine = job.decompose(ask.relation), ask if job.tight else ask._replace(only_upper=True)
    if any(m.alternatives() for m, _ in whole):
        if whole.shape:
            return _cell_by_cell(job, ask)
        bounds = _largest(whole.alternatives(ask.relation), mine, is_lower=job.tight)
    else:
        bounds = _one(whole, mine)
    if job.tight:
        return bounds
    if not whole.is_gaussian:  # the divergences of the mechanisms themselves may say more
        other = by_cells(job, mine, _EXACTLY._replace(by_losses=False))
        bounds = Bounds(bounds.lower, np.minimum(bounds.upper, other.upper), np.minimum(bounds.status, other.status))
    return bound_only(bounds, ask)


def _largest(jobs: list[Process], ask: Ask, *, is_lower: bool) -> Bounds:
    """The largest of several jobs.  Of most it costs little to know that another one is larger.

    Each target by itself, so that its bits do not depend on the others.
    """
    size, target = math.prod(ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
    quick = (_one(job, ask._replace(enough=np.array(math.inf))) for job in jobs)
    each = [[np.array(x).reshape(size) for x in found] for found in quick]
    lower, upper, status = (np.stack(x) for x in zip(*each, strict=True))
    is_final = (status == Status.TIGHT) | np.array([[job.is_gaussian] for job in jobs])
    known = lower if is_lower else np.where(is_final, upper, -math.inf)
    least = np.maximum(np.broadcast_to(ask.enough, ask.shape).ravel(), known.max(axis=0))
    for i in range(size):
        for k in np.argsort(-upper[:, i], kind="stable").tolist():
            if upper[k, i] > least[i] and not is_final[k, i]:
                found = _one(jobs[k], ask._replace(target=target[i], shape=(), enough=least[i]))
                lower[k, i], upper[k, i], status[k, i] = found
                least[i] = max(least[i], found.lower if is_lower else found.upper)
    code = np.where(upper == upper.max(axis=0), status, Status.NOT_MET).min(axis=0)
    low, high = lower.max(axis=0), upper.max(axis=0)
    code = np.where(code == Status.NOT_MET, code, status_within(low, high, ask.quantity == "log_delta"))
    return Bounds(*(x.reshape(ask.shape) for x in (low, high, code.astype(np.uint8))))


def falling(job: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """Bounds of one call: where an upper one is not tight, that of a harder target of the same cell holds, too.

    Delta falls with epsilon, and epsilon with delta, but readers that give up at different targets may not.
    """
    loose = (bounds.status != Status.TIGHT).ravel()
    if not loose.any() or math.prod(job.shape) == loose.size:
        return bounds
    lower, upper, status = (np.array(x).ravel() for x in bounds)
    owner, target = owners(job.shape, ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
    order = np.lexsort((target, owner))
    cells = np.unique(owner[loose])
    ends = np.searchsorted(owner[order], np.stack([cells, cells + 1]))
    for first, last in ends.T.tolist():
        mine = order[first:last]
        best = np.minimum.accumulate(upper[mine])
        for i, harder in zip(mine.tolist(), best.tolist(), strict=True):
            if loose[i] and harder < upper[i]:
                least, most = narrowed(-math.inf if ask.only_upper else float(lower[i]), float(upper[i]), harder)
                lower[i], upper[i], status[i] = most if ask.only_upper else least, most, Status.LOOSE
    return Bounds(*(x.reshape(ask.shape) for x in (lower, upper, status)))


def bound_only(bounds: Bounds, ask: Ask) -> Bounds:
    """Of a job that is analysed by a pair that is not its own: there is no lower bound."""
    lower = np.full(ask.shape, -np.inf if ask.quantity == "log_delta" else 0.0)
    loose = (bounds.status == Status.TIGHT) & (bounds.upper > lower)
    return Bounds(lower, bounds.upper, np.where(loose, Status.LOOSE, bounds.status).astype(np.uint8))


def _cell_by_cell(job: Process, ask: Ask) -> Bounds:
    """Each cell as a job of its own: what is possible for one depends on its counts."""
    lower, upper, status = np.empty(ask.shape), np.empty(ask.shape), np.empty(ask.shape, dtype=np.uint8)
    owner, target = owners(job.shape, ask.shape).reshape(ask.shape), np.broadcast_to(ask.target, ask.shape)
    for cell in np.unique(owner):
        mine = owner == cell
        asked = target[mine]
        found = exact(job.cell(int(cell)), ask._replace(target=asked, shape=asked.shape))
        lower[mine], upper[mine], status[mine] = found
    return Bounds(lower, upper, status)


def _one(process: Process, ask: Ask) -> Bounds:
    if not process.is_gaussian:
        return by_cells(process, ask, _EXACTLY)
    return _mended(process, ask, _contour(process, ask))


def _mended(process: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """What other readers say where the contour says little, and the job without samples where it says nothing."""
    if (bounds.status == Status.NOT_MET).any():
        bounds = _below_unsampled(process, ask, bounds)
    if ask.relation not in ("add", "replace_one") or not (bounds.status != Status.TIGHT).any():
        return bounds
    if ask.only_upper:  # there is no lower bound
        bounds = bounds._replace(lower=np.full(ask.shape, -np.inf if ask.quantity == "log_delta" else 0.0))
    whole = process.decompose(ask.relation)
    return _below_pure(whole, ask, bounds) if ask.relation == "add" else _improved(whole, ask, bounds)


def _below_unsampled(process: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """Upper bounds of the job without samples, where the line says nothing of the job."""
    whole = process.unsampled().decompose(ask.relation)
    if whole == process or not whole.is_gaussian:
        return bounds
    known = _contour(whole, ask)
    better = (bounds.status == Status.NOT_MET) & (known.upper < bounds.upper)
    status = np.where(better, Status.LOOSE, bounds.status).astype(np.uint8)
    return Bounds(bounds.lower, np.where(better, known.upper, bounds.upper), status)


def _below_pure(process: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """What bounded losses say where the contour says little: epsilon is at most the largest one, and delta falls to 0.

    Delta is at most 1 - exp(epsilon - largest), and at most what it is at a smaller epsilon.
    """
    lower, upper, status = (np.array(x).ravel() for x in bounds)
    owner, target = owners(process.shape, ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
    for i in np.flatnonzero(status == Status.LOOSE).tolist():
        cell = process.cell(int(owner[i])) if process.shape else process
        largest = cell_pure_epsilon(next(cell.cells()), ask.relation)
        known = largest
        if ask.quantity != "epsilon":
            before = largest * (1.0 - 0.5**_HALVINGS)
            before = before[before <= target[i]]
            at = _contour(cell, ask._replace(quantity="log_delta", target=before, shape=before.shape)).upper
            rest = log_below(largest, float(target[i])) if target[i] < largest else -math.inf
            known = min(rest, float(np.min(at, initial=0.0)))
            if ask.quantity == "delta":
                known = min(1.0, math.exp(known) * (1.0 + 1e-15) + 5e-324 * (known > -math.inf))
        if known < upper[i]:
            lower[i], upper[i] = narrowed(float(lower[i]), float(upper[i]), known)
            status[i] = Status.LOOSE
    return Bounds(*(x.reshape(ask.shape) for x in (lower, upper, status)))


def _contour(process: Process, ask: Ask) -> Bounds:
    sampled = process.sampled(ask.relation, exactly=True)
    if sampled and (run := sampled.run):
        ways, what = kernel_directions(ask.relation), WHAT[ask.quantity]
        return Bounds(*read_run(run, ask.target, ask.shape, what, ways, ask.threads, ask.only_upper))
    contour = Contour(process, ask.relation)
    what, ways = WHAT[ask.quantity], contour.directions
    if ask.shape:
        target, cells = np.broadcast_to(ask.target, ask.shape).flatten(), owners(contour.shape, ask.shape)
        found = contour.read(cells, target, what, ways, ask.threads, only_upper=ask.only_upper)
    else:
        found = contour.one(ask.target, what, ways, only_upper=ask.only_upper)
    return Bounds(*(x.reshape(ask.shape) for x in found))


def is_exact_curve(job: Process, relation: Relation) -> bool:
    """Whether the contour reads all of a job, and exactly."""
    line = Contour.of(whole := job.decompose(relation), relation)
    return job.tight and not line.is_apart and (whole.is_gaussian or line.is_certain)


def contour_of(job: Process, relation: Relation, what: str) -> Contour:
    """The contour reader of a job, for answers that need all of its curve."""
    if is_exact_curve(job, relation):
        return Contour.of(job.decompose(relation), relation)
    known = "Gaussians, their Poisson samples and mixtures, and what is made of them exactly"
    for mechanism, _ in job:
        if not is_exact_curve(mechanism * 1, relation):
            raise ValueError(
                f"{what} covers {known}, and losses that the contour integral certifies, not {mechanism!r}"
            )
    raise ValueError(f"{what} needs losses whose sum the contour integral certifies, which it does not for {job!r}")


def owners(job: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Which cell of the job each cell of the answer asks, flat."""
    if not job:
        return np.zeros(math.prod(shape), dtype=np.intp)
    place = np.arange(math.prod(job)).reshape(job)
    return np.ascontiguousarray(np.broadcast_to(place, shape)).ravel()


def by_cells(process: Process, ask: Ask, settings: Settings) -> Bounds:
    """Cell by cell: by the line where all losses are data, else, and where it is not tight, by the readers of a cell,
    which are made once and asked at all of its targets."""
    total = math.prod(ask.shape)
    lower, upper, status = np.empty(total), np.empty(total), np.empty(total, dtype=np.uint8)
    owner, wanted = owners(process.shape, ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
    enough = np.broadcast_to(ask.enough, ask.shape).ravel()
    line = Contour.of(process, ask.relation) if settings == _EXACTLY and len(process) else None
    order = np.lexsort((wanted, owner))  # neighbouring targets share a line
    pieces = np.split(order, np.flatnonzero(np.diff(owner[order])) + 1) if total else []
    at_zero = (wanted == 0.0) & (ask.quantity == "epsilon")  # the largest loss: the sum of pure guarantees knows it
    readers = cache(lambda: _readers(process, ask.relation, settings))

    def work(start: int, _: int) -> int:
        piece = pieces[start]
        cell, found = int(owner[piece[0]]), None
        if line and (found := line.read_cell(cell, wanted[piece], WHAT[ask.quantity], only_upper=ask.only_upper)):
            lower[piece], upper[piece], status[piece] = found[0].lower, found[0].upper, found[0].status
            left = ~found[1] & (lower[piece] < np.inf)  # what is known to be infinite is final
            left &= upper[piece] > enough[piece]
            piece = piece[left | at_zero[piece]]
        if found and line and line.components(cell) > _MANY:
            piece = piece[~np.isfinite(upper[piece])]
        if not piece.size:
            return start + 1
        reader = readers()[cell]
        listed = reader.deltas(wanted[piece]) if ask.quantity == "delta" and piece.size > 1 else None
        for k, i in enumerate(piece.tolist()):
            if listed:
                answer = Found(float(listed.lower[k]), float(listed.upper[k]), Status(int(listed.status[k])))
            else:
                answer = reader.answer(ask.quantity, float(wanted[i]), float(enough[i]))
            if found and not at_zero[i]:
                least = answer.lower if ask.only_upper else float(lower[i])  # of a class, no loss is a lower bound
                answer = _shared(answer, least, float(upper[i]))
            lower[i], upper[i], status[i] = answer
        return start + 1

    in_pieces(len(pieces), ask.threads, work)
    return Bounds(*(x.reshape(ask.shape) for x in (lower, upper, status)))


def _shared(answer: Found, lower: float, upper: float) -> Found:
    """What an answer and certified bounds that are not tight have in common."""
    low, high = narrowed(max(answer.lower, lower), answer.upper, upper)
    if high > min(answer.upper, upper) or (high < answer.upper and answer.status != Status.TIGHT):
        return Found(low, high, Status.LOOSE)
    return Found(low, high, answer.status)


def _readers(process: Process, relation: Relation, settings: Settings) -> list[CellReader]:
    """Readers of all cells; those of a job of plain numbers are kept with it, for other questions."""
    if process.shape or settings.orders is not None:
        return [CellReader(cell, relation, settings, delta_of) for cell in process.cells()]
    kept: dict[tuple[Relation, Settings], list[CellReader]] = process.__dict__.setdefault("kept_readers", {})
    if (relation, settings) not in kept:
        kept[relation, settings] = [CellReader(cell, relation, settings, delta_of) for cell in process.cells()]
    return kept[relation, settings]


def delta_of(job: Process, epsilons: Cells, relation: Relation) -> Cells:
    """Deltas of another job, for mechanisms whose divergence needs them."""
    return np.asarray(exact(job, Ask("delta", epsilons, epsilons.shape, relation, only_upper=True)).upper)


def largest_finite(whole: Process, direction: Direction) -> float:
    """The largest finite loss of a job of plain numbers whose losses are atoms, rounded up; inf for other losses."""
    total = 0.0
    for mechanism, count in whole:
        pair = mechanism.losses(direction)
        try:
            law = None if pair is None else pair.side(direction).upper.as_atoms()
        except OutOfReachError:  # of what is data for a line alone
            return math.inf
        if law is None or not law.loss.size:
            return math.inf
        total += float(np.asarray(count)) * (float((law.loss + law.loss_error).max()) + law.slack)
    return total + 4e-16 * (len(whole) + 2.0) * abs(total)


_FEW_KINDS: Final = 8
"""Divergences of mixtures cost up to a second a kind: those of jobs of more are not asked."""
_NO_GRID: Final = 1e-250
"""Deltas below which sums of losses on a grid say nothing for half a minute."""

_MANY: Final = 40
"""Components of mixtures, of which a grid takes a tenth of a second each."""

# Replace-one of a sampled Gaussian has mixtures on both sides, for which the contour may certify nothing.  A record is
# removed and another one added: delta(2 e) <= (1 + exp(e)) delta'(e), with delta' that of "add_remove".


def _improved(process: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """Where it is not tight: also the unsampled job, and the losses themselves."""
    target = np.broadcast_to(ask.target, ask.shape).ravel()
    lower, upper, status = (np.array(x).reshape(-1) for x in bounds)
    loose = (status != Status.TIGHT) & ((target > 0.0) | (ask.quantity != "epsilon")) & (target < np.inf)
    if not loose.any() or ask.quantity == "log_delta":
        return bounds
    owner, wanted, instead = owners(process.shape, ask.shape)[loose], target[loose], np.empty(int(loose.sum()))
    jobs = {int(cell): process.cell(int(cell)) if process.shape else process for cell in np.unique(owner)}
    for i, (cell, target) in enumerate(zip(owner.tolist(), wanted.tolist(), strict=True)):
        job, at = jobs[cell], np.flatnonzero(loose)[i]
        whole = job.unsampled()
        asked = Ask(ask.quantity, np.array(target), (), ask.relation, only_upper=True)
        instead[i] = min(_by_two(job, ask.quantity, target), float(_contour(whole, asked).upper), upper[at])
        is_nothing = ask.quantity == "delta" and instead[i] < _NO_GRID
        if is_nothing or Contour.of(job.decompose(ask.relation), ask.relation).components(0) > _MANY:
            continue
        few = _EXACTLY._replace(by_divergences=len(next(job.cells())) <= _FEW_KINDS)
        other = _readers(job, ask.relation, few)[0].answer(ask.quantity, target)
        least = max(float(lower[at]), other.lower)
        lower[at], instead[i] = narrowed(least, float(upper[at]), float(instead[i]), other.upper)
    better = instead != upper[loose]
    upper[loose] = instead
    status[loose] = np.where(better, status_of(lower[loose], instead), status[loose])
    return Bounds(*(x.reshape(ask.shape) for x in (lower, upper, status)))


def _by_two(job: Process, quantity: Quantity, target: float) -> float:
    def read(at: float) -> float:
        cell = np.array(at)
        return float(exact(job, Ask(quantity, cell, (), "add_remove", only_upper=True)).upper)

    if quantity == "delta":
        return min(1.0, read(0.5 * target) * (1.0 + math.exp(min(0.5 * target, 700.0))) * (1.0 + 4e-15))
    half = read(0.5 * target)
    for _ in range(12):  # up to e with epsilon'(delta / (1 + exp(e))) <= e
        if not half < 700.0:
            break
        needed = read(target / (1.0 + math.exp(half)) * (1.0 - 4e-15))
        if needed <= half:
            return 2.0 * half
        half = 1.01 * needed
    return math.inf
