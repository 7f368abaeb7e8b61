"""A whole job, all cells and targets: which reader evaluates it, and how its cells meet the targets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Found, Status, meet, narrowed
from fastacct.core.engine import in_pieces
from fastacct.core.inputs import Cells
from fastacct.core.relations import Direction, Relation
from fastacct.core.work import counted
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import DIVERGENCES, EXACTLY, QUICKLY, ROUGHLY, SPARINGLY, Ask, Quantity, Settings
from fastacct.readers.cell import CellReader
from fastacct.readers.cell_job import read_run
from fastacct.readers.contour import Contour, kernel_directions
from fastacct.readers.ladder import WHAT, Step, climb, status_of_answer
from fastacct.readers.nearby import BOTTOM, EPSILON, TOP, Reading
from fastacct.readers.reach import within_reach


def exact(job: Process, ask: Ask, settings: Settings = EXACTLY) -> Bounds:
    """Certified bounds by the tightest readers there are, or of losses by some rungs alone."""
    if job.sampled(ask.relation, exactly=True):
        return by_cells(job, ask)
    whole, mine = job.decompose(ask.relation), ask if job.tight else ask._replace(only_upper=True)
    if whole.has_alternatives:
        if whole.shape:

            def of_cell(cell: int, asked: Cells) -> Bounds:
                return exact(job.cell(cell), ask._replace(target=asked, shape=asked.shape))

            return per_cell(job.shape, ask.target, ask.shape, of_cell)
        bounds = _largest(whole.alternatives(ask.relation), mine, settings, is_lower=job.tight)
    else:
        bounds = by_cells(whole, mine, settings)
    if job.tight:
        return _or_alike(job, ask, bounds)
    if not whole.is_gaussian:  # the divergences of the mechanisms themselves may say more
        other = by_cells(job, mine, DIVERGENCES)
        bounds = Bounds(bounds.lower, np.minimum(bounds.upper, other.upper), np.minimum(bounds.status, other.status))
    part = known_part(job)
    if ask.only_upper:
        return Bounds(*bound_only(bounds.upper, ask.quantity))
    return _or_alike(part, ask, _beside(part, ask, bounds))


def known_part(job: Process) -> Process:
    """The mechanisms of a job whose pair is their own: who sees all releases sees theirs, so it releases no more."""
    return Process((mechanism, count) for mechanism, count in job if mechanism.tight)


def _beside(part: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """Bounds of a job from above, and from below what is proved of a part of it."""
    whole = part.decompose(ask.relation)
    # the lower end is far below the upper one
    nearly = Settings(rungs=("line", "pure", "losses"), tolerance=1e-4, only_lower=True)
    from_below = exact(part, ask) if whole.has_alternatives else by_cells(whole, ask, nearly)
    lower, upper = (x.reshape(ask.shape) for x in meet(np.ravel(from_below.lower), np.ravel(bounds.upper)))
    lower = np.maximum(lower, BOTTOM[WHAT[ask.quantity]])
    return Bounds(lower, upper, status_of_answer(ask.quantity, lower, upper))


def others_alike(job: Process, relation: Relation) -> Process:
    """What a job releases at least: where the other records of an epoch contribute nothing."""
    return job.changed(lambda mechanism: mechanism.others_alike(relation))


def _or_alike(job: Process, ask: Ask, bounds: Bounds) -> Bounds:
    """The larger of two lower ends: the other records of an epoch may contribute nothing, too."""
    if ask.only_upper or (other := others_alike(job, ask.relation)) is job:
        return bounds
    alike = _beside(other, ask, bounds)
    return Bounds(np.maximum(alike.lower, bounds.lower), bounds.upper, np.minimum(alike.status, bounds.status))


def _largest(jobs: list[Process], ask: Ask, settings: Settings, *, is_lower: bool) -> Bounds:
    """The largest of several jobs; of most it costs little to know that another one is larger.

    Each target by itself, so that its bits do not depend on the others.
    """
    is_deep = bool(ask.quantity == "epsilon" and np.min(ask.target, initial=1.0) < 1e-60)
    if is_deep and ask.shape:
        largest = partial(_largest, jobs, settings=settings, is_lower=is_lower)
        return per_cell(ask.shape, ask.target, ask.shape, lambda _, x: largest(ask._replace(target=x[0], shape=())))
    first = _by_lines(jobs, ask, is_deep=is_deep)
    lower, upper, status = (np.stack([np.ravel(found[i]) for found in first]) for i in range(3))
    is_final = status == Status.TIGHT
    for i, target in enumerate(np.broadcast_to(ask.target, ask.shape).ravel()):
        asked = ask._replace(target=np.array(target), shape=())
        _tell_apart(jobs, asked, [lower[:, i], upper[:, i]], is_final[:, i], settings, is_lower=is_lower)
    low, high = (x.max(axis=0).reshape(ask.shape) for x in (lower, upper))
    low = np.maximum(low, BOTTOM[WHAT[ask.quantity]])
    return Bounds(low, high, status_of_answer(ask.quantity, low, high))


def _by_lines(jobs: list[Process], ask: Ask, *, is_deep: bool) -> list[Bounds]:
    """What lines say; far out, where one that gives up takes seconds, what is known without after some of these."""
    with counted() as done:
        return [by_cells(job, ask, SPARINGLY if is_deep and sum(done.values()) > 2e9 else QUICKLY) for job in jobs]


def _tell_apart(
    jobs: list[Process], ask: Ask, ends: list[Cells], is_final: NDArray[np.bool_], settings: Settings, *, is_lower: bool
) -> None:
    """Better ends of those that may be the largest, in their places: by divergences, and then by grids, if the settings
    have any, for some seconds."""
    lower, upper = ends
    tried = (SPARINGLY, *{QUICKLY: (), ROUGHLY: (ROUGHLY,)}.get(settings, (ROUGHLY, EXACTLY)))
    with counted() as done:
        for k, one in itertools.product(np.argsort(-upper, kind="stable").tolist(), tried):
            if not is_final[k] and upper[k] > (lower if is_lower else upper[is_final]).max(initial=-math.inf):
                is_over = sum(done.values()) > 2e9
                found = by_cells(jobs[k], ask, (one, SPARINGLY)[is_over])
                lower[k], upper[k] = narrowed(max(lower[k], float(found.lower)), upper[k], float(found.upper))
                is_final[k] = is_over or one == EXACTLY


def _cells(job: tuple[int, ...], ask: Ask, where: NDArray[np.bool_]) -> list[tuple[int, Cells, NDArray[np.intp]]]:
    """Each cell with some target `where`, all of its targets and their places, harder ones first: neighbours share a
    line."""
    if not ask.shape:  # quickly
        return [(0, ask.target.reshape(1), np.zeros(1, dtype=np.intp))]
    owner, target = owners(job, ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
    order = np.lexsort((target, owner))
    pieces = np.split(order, np.flatnonzero(np.diff(owner[order])) + 1)
    return [(int(owner[piece[0]]), target[piece], piece) for piece in pieces if where[piece].any()]


def bound_only(upper: Cells, quantity: Quantity) -> Reading:
    """Upper bounds, without lower ones: of a job that is analysed by a pair that is not its own there are none."""
    lower = np.full(np.shape(upper), BOTTOM[WHAT[quantity]])
    return Reading(lower, upper, status_of_answer(quantity, lower, upper))


def per_cell(
    job: tuple[int, ...], target: Cells, shape: tuple[int, ...], read: Callable[[int, Cells], Bounds]
) -> Bounds:
    """Each cell of a job by itself, at all of its targets: what is possible for one depends on its counts."""
    out, owner, asked = Reading.empty(math.prod(shape)), owners(job, shape), np.broadcast_to(target, shape).ravel()
    for cell in np.unique(owner).tolist():
        out.put(owner == cell, Reading(*read(cell, asked[owner == cell])))
    return Bounds(*(column.reshape(shape) for column in out))


def _contour(process: Process, ask: Ask) -> Bounds | None:
    """The line of all cells of a job of Gaussian mixtures at once; None of other jobs."""
    sampled = process.sampled(ask.relation, exactly=True)
    if not sampled and not process.is_gaussian:
        return None
    if sampled and (run := sampled.run):
        ways, what = kernel_directions(ask.relation), WHAT[ask.quantity]
        return Bounds(*read_run(run, ask.target, ask.shape, what, ways, ask.threads, ask.only_upper))
    contour = Contour(process, ask.relation)
    what, ways = WHAT[ask.quantity], contour.directions
    if ask.shape:
        target, cells = np.broadcast_to(ask.target, ask.shape).flatten(), owners(contour.shape, ask.shape)
        found = contour.read(cells, target, what, ways, ask.threads, only_upper=ask.only_upper)
    else:
        found = contour.read_cell(0, ask.target.reshape(1), what, only_upper=ask.only_upper)[0]
    return Bounds(*(x.reshape(ask.shape) for x in found))


def is_exact_curve(job: Process, relation: Relation) -> bool:
    """Whether the contour reads all of a job, and exactly."""
    line = Contour.of(whole := job.decompose(relation), relation)
    return job.tight and not line.is_apart and (whole.is_gaussian or line.is_certain)


def contour_of(job: Process, relation: Relation, what: str) -> Contour:
    """The contour reader of a job, for answers that need all of its curve."""
    if is_exact_curve(job, relation):
        return Contour.of(job.decompose(relation), relation)
    covered = "Gaussians, their Poisson samples and mixtures, and what is made of them exactly"
    for mechanism, _ in job:
        if not is_exact_curve(mechanism * 1, relation):
            raise ValueError(
                f"{what} covers {covered}, and losses that the contour integral certifies, not {mechanism!r}"
            )
    raise ValueError(f"{what} needs losses whose sum the contour integral certifies, which it does not for {job!r}")


def owners(job: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Which cell of the job each cell of the answer asks, flat."""
    return np.broadcast_to(np.arange(math.prod(job)).reshape(job), shape).ravel()


def by_cells(process: Process, ask: Ask, settings: Settings = EXACTLY) -> Bounds:
    """Every cell up the ladder, at all of its targets; of Gaussian mixtures the line reads all cells at once."""
    begun = _contour(process, ask) if "line" in settings.rungs else None
    out, where = Reading.empty(size := math.prod(ask.shape)), np.ones(size, dtype=np.bool_)
    if begun is not None:
        lower, upper, status = map(np.ravel, begun)
        where = (status != Status.TIGHT) & (lower < TOP[WHAT[ask.quantity]]) & (upper != math.ulp(0.0))
        if not where.any():  # nothing says less than the smallest double
            return begun
        out, process = Reading(lower, upper, status).copy(), process.decompose(ask.relation)
    pieces = _cells(process.shape, ask, where)

    def work(start: int, _: int) -> int:
        cell, target, mine = pieces[start]
        is_left = where[mine]
        at, reader = mine[is_left], _reader(process, cell, ask.relation, settings)
        known = None if begun is None or ask.only_upper else out.take(at)
        out.put(at, climb(reader, ask.quantity, target[is_left], steps=[], only_upper=ask.only_upper, begun=known))
        _carry_on(out, mine)
        return start + 1

    in_pieces(len(pieces), ask.threads, work)
    return Bounds(*(column.reshape(ask.shape) for column in out))


def _carry_on(out: Reading, places: NDArray[np.intp]) -> None:
    """What is not tight is at most what a harder target of the call has."""
    if places.size > 1:
        lower, upper, status = out.take(places)
        least = np.minimum.accumulate(upper)
        is_beaten = (least < upper) & (status != Status.TIGHT)
        lower, upper = np.where(is_beaten, (np.minimum(lower, least), least), (lower, upper))
        out.put(places, Reading(lower, upper, np.where(is_beaten, np.uint8(Status.LOOSE), status)))


def explained(job: Process, ask: Ask, settings: Settings) -> list[Step]:
    """What each rung says of one target of a job of plain numbers; of parts of the data, what is said of each part."""
    whole, steps = job.decompose(ask.relation), []
    if settings == EXACTLY and whole.has_alternatives:
        parts = {f"a record in the part of {one!r}": exact(one, ask) for one in whole.alternatives(ask.relation)}
        largest = max(float(bounds.upper) for bounds in parts.values())
        for name, bounds in parts.items():
            said = Found(float(bounds.lower), float(bounds.upper), Status(int(bounds.status)))
            steps.append(Step(name, said, counts=said.upper == largest))
    else:
        _trace(whole, ask, settings, steps)
    if settings == EXACTLY and not job.tight and not whole.is_gaussian:
        _trace(job, ask, DIVERGENCES, steps)
    return steps


def _trace(job: Process, ask: Ask, settings: Settings, steps: list[Step]) -> None:
    cell = _reader(job, 0, ask.relation, settings)
    climb(cell, ask.quantity, ask.target.reshape(1), steps=steps, only_upper=ask.only_upper)


def _reader(process: Process, index: int, relation: Relation, settings: Settings) -> CellReader:
    """What the rungs share of one cell; of a job of plain numbers it is kept for other questions."""
    made = CellReader(Contour.of(process, relation), index, settings, delta_of)
    if process.shape or settings.orders is not None:
        return made
    kept: dict[tuple[Relation, Settings], CellReader] = process.__dict__.setdefault("kept_readers", {})
    return kept.setdefault((relation, settings), made)


def delta_of(job: Process, epsilons: Cells, relation: Relation, settings: Settings = EXACTLY) -> Cells:
    """Deltas of another job, for mechanisms whose divergence needs them."""
    return np.asarray(exact(job, Ask("delta", epsilons, epsilons.shape, relation, only_upper=True), settings).upper)


@within_reach(True)
def is_on_grid(job: Process, delta: float, relation: Relation) -> bool:
    """Whether grids answer for epsilon of a job of plain numbers, because the line does not certify it."""
    whole = job.decompose(relation)
    if whole.is_gaussian or whole.shape or whole.has_alternatives:
        return False
    cell = _reader(whole, 0, relation, EXACTLY)
    with cell.lock:
        return cell.is_on_grid and not cell.read_line(np.array([delta]), EPSILON, only_upper=True)[1][0]


@within_reach(math.inf)
def roughly(quantity: Literal["epsilon", "delta"], job: Process, target: float, relation: Relation) -> float:
    """Epsilon or delta of a job of plain numbers at most, by grids that take little time; inf where none tells."""
    if (whole := job.decompose(relation)).has_alternatives:
        return float(exact(job, Ask(quantity, np.array(target), (), relation, only_upper=True), ROUGHLY).upper)
    cell = _reader(whole, 0, relation, EXACTLY)
    with cell.lock:
        return cell.roughly(quantity, target)


@within_reach(math.inf)
def about(job: Process, delta: float, relation: Relation, near: float) -> float:
    """Epsilon of a job of plain numbers by lines of which nothing is certified, about `near`: no bound; inf where none
    says it."""
    alternatives = job.decompose(relation).alternatives(relation)
    return max(Contour.of(alternative, relation).about(delta, near) for alternative in alternatives)


@within_reach(math.inf)
def largest_finite(whole: Process, direction: Direction) -> float:
    """The largest finite loss of a job of plain numbers whose losses are atoms, rounded up; inf for other losses."""
    total = 0.0
    for mechanism, count in whole:
        pair = mechanism.losses(direction)
        law = None if pair is None else pair.side(direction).upper.as_atoms()
        if law is None or not law.loss.size:
            return math.inf
        total += float(np.asarray(count)) * float((law.loss + law.loss_error).max())
    return total + 4e-16 * (len(whole) + 2.0) * abs(total)
