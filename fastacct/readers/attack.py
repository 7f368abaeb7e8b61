"""Error rates and Bayes risk of the best attack on a whole job: its trade-off curve, or lines that its deltas prove."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Status, meet, status_of
from fastacct.core.inputs import PAD, Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask
from fastacct.readers.cell_job import ADD, BOTH, REMOVE
from fastacct.readers.contour import Contour
from fastacct.readers.job import contour_of, exact, is_exact_curve, known_part, owners, per_cell
from fastacct.readers.lines import supporting_lines
from fastacct.readers.roc import error_rates
from fastacct_ext._kernels import Directions

_REVERSE: Final[dict[Relation, Relation]] = {"add": "remove", "remove": "add"}
_ONE_WAY: Final = "a trade-off curve of one direction"


def rates(
    process: Process,
    fpr: Cells,
    shape: tuple[int, ...],
    relation: Relation,
    threads: int,
    *,
    positives: bool,
    both: bool = True,
    convex: bool = False,
) -> Bounds:
    """Bounds of the false-negative rate, or of the true-positive rate; without `both` one side is trivial."""
    fpr = np.broadcast_to(fpr, shape)
    if relation not in _REVERSE and not is_exact_curve(process, relation):
        if process.shape:  # the curve of one cell may be known where those of others are not
            read = partial(rates, relation=relation, threads=threads, positives=positives, both=both, convex=convex)
            return per_cell(process.shape, fpr, shape, lambda cell, x: read(process.cell(cell), x, x.shape))
        return _by_lines(process, fpr, relation, threads, positives=positives, both=both)
    lower, upper, wide = _by_curve(process, fpr, relation, threads, positives=positives, both=both, convex=convex)
    if relation not in _REVERSE and wide.any():
        lines = supporting_lines(process, fpr, relation, threads, positives=positives, where=wide)
        lower, upper = meet(np.maximum(lower, lines.lower), np.minimum(upper, lines.upper))
        lower = np.maximum(lower, 0.0)
    status = np.where((lower <= 0.0) & (fpr < 1.0) & (not positives), Status.NOT_MET, status_of(lower, upper))
    return Bounds(lower, upper, status.astype(np.uint8))


def _by_curve(
    process: Process, fpr: Cells, relation: Relation, threads: int, *, positives: bool, both: bool, convex: bool = False
) -> tuple[Cells, Cells, NDArray[np.bool_]]:
    """Bounds of a job whose curve the line reads, and where lines of all readers may say more."""
    job, x, shape = contour_of(process, relation, _ONE_WAY), np.ascontiguousarray(fpr).ravel(), fpr.shape
    ways = (job.directions,) if convex else _ways(job)
    found = (error_rates(job, owners(job.shape, shape), x, way, threads, both=both) for way in ways)
    each, is_known = map(np.array, zip(*found, strict=True))
    lower, upper = each[:, :2].max(axis=0) if positives else each[:, 2:].min(axis=0) + 0.0  # no negative zero
    if not job.is_gaussian and (none := x == 0.0).any():  # what only one distribution has, above all finite losses
        lost = exact(process, Ask("delta", np.full(shape, 1e300), shape, relation, threads))
        ends = (lost.lower, lost.upper) if positives else (1.0 - lost.upper - PAD, 1.0 - lost.lower + PAD)
        lower[none], upper[none] = (np.clip(end, 0.0, 1.0).ravel()[none] for end in ends)
    wide: NDArray[np.bool_] = np.logical_not(is_known.all(axis=0) | job.is_gaussian)
    return lower.reshape(shape), upper.reshape(shape), wide.reshape(shape)


def _by_lines(process: Process, fpr: Cells, relation: Relation, threads: int, *, positives: bool, both: bool) -> Bounds:
    """Bounds of any job: what its deltas prove, and what an attack reaches that looks at a known part alone."""
    lines = supporting_lines(process, fpr, relation, threads, positives=positives)
    if process.tight or not both or not is_exact_curve(part := known_part(process), relation):
        return lines
    least, most, _ = _by_curve(part, fpr, relation, threads, positives=positives, both=True)
    inside = np.clip((most, least)[positives], lines.lower, lines.upper)
    lower, upper = ((lines.lower, inside), (inside, lines.upper))[positives]
    return Bounds(lower, upper, np.where(lines.status == Status.LOOSE, status_of(lower, upper), lines.status))


def _ways(job: Contour) -> tuple[Directions, ...]:
    """The directions to read one by one."""
    if job.directions != BOTH or job.is_mirrored:
        return (job.directions,)
    return (REMOVE,) if job.is_symmetric else (REMOVE, ADD)


def bayes_risk(process: Process, prior: Cells, shape: tuple[int, ...], relation: Relation, threads: int) -> Bounds:
    """min(prior, 1 - prior) (1 - delta) at epsilon = |log(prior / (1 - prior))|.

    e^epsilon = prior / (1 - prior) is right or left of 1, where the curve of the one or the other direction is touched.
    """
    if relation in _REVERSE:
        contour_of(process, relation, _ONE_WAY)
    prior = np.broadcast_to(prior, shape)
    smaller = np.minimum(prior, 1.0 - prior)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_one, log_other = np.log(prior), np.log1p(-prior)
        epsilon = np.where(smaller > 0.0, np.abs(log_one - log_other), np.inf)
        pad = np.where(smaller > 0.0, PAD * (1.0 + np.abs(log_one) + np.abs(log_other)), 0.0)

    def read(way: Relation) -> tuple[Bounds, Bounds]:
        ends = np.stack([np.maximum(epsilon - pad, 0.0), epsilon + pad])  # neighbours share a line
        both = exact(process, Ask("delta", ends, ends.shape, way, threads))
        return Bounds(*(x[0] for x in both)), Bounds(*(x[1] for x in both))

    near, far = read(relation)
    if relation in _REVERSE:
        right = prior >= 0.5
        pairs = zip((near, far), read(_REVERSE[relation]), strict=True)
        near, far = (Bounds(*np.where(right, *pair)) for pair in pairs)
    lower = np.maximum(smaller * (1.0 - near.upper) * (1.0 - PAD), 0.0)
    upper = smaller * (1.0 - far.lower) * (1.0 + PAD)
    return Bounds(lower, upper, np.maximum(near.status, far.status).astype(np.uint8))
