"""Jobs of any mechanisms, cell by cell: expanded into mechanisms that are read themselves, and composed by discretised
losses of each direction where all pairs are known, else by Rényi divergences.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct._arrays import Cells, in_pieces
from fastacct._jit_lines import CompiledLine, NoLineError
from fastacct._jit_release import OneRelease
from fastacct._jobs_renyi import RenyiJob
from fastacct._jobs_table import Table, tables
from fastacct._losses import Losses, has_losses, losses
from fastacct._pld_atoms import FewLosses
from fastacct._pld_compose import Found, Pair, Query
from fastacct._pld_sources import OutOfReachError
from fastacct.bounds import Bounds, Status
from fastacct.jit import Compiled
from fastacct.process import Process
from fastacct.sampling import Sampled

__all__ = ["TOLERANCE", "read_any", "renyi_any"]

TOLERANCE: Final = 1e-4
"""Relative width at which the composition of losses stops refining."""
_LOG_LEAST: Final = -744.4400719213812
_SIDES: Final = {"remove": (0,), "add": (1,)}


def read_any(
    process: Process,
    quantity: str,
    target: Cells,
    shape: tuple[int, ...],
    neighbors: str,
    threads: int,
    *,
    only_upper: bool,
    renyi: bool = False,
    orders: Cells | None = None,
    tolerance: float | None = None,
) -> Bounds:
    """Bounds of epsilon, delta or log delta; `renyi`: by divergences alone; `tolerance`: by losses on a grid alone."""
    lower, upper, status = np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.uint8)
    owner = np.broadcast_to(np.arange(math.prod(process.shape)).reshape(process.shape), shape).ravel()
    wanted = np.broadcast_to(target, shape).ravel()
    jobs = list(tables(process, neighbors))
    flat = [x.reshape(-1) for x in (lower, upper, status)]

    def work(i: int, _: int) -> int:
        found = _cell(jobs[owner[i]], quantity, float(wanted[i]), neighbors, only_upper, renyi, orders, tolerance)
        flat[0][i], flat[1][i], flat[2][i] = found
        return i + 1

    in_pieces(wanted.size, threads, work)
    return Bounds(lower, upper, status)


def renyi_any(process: Process, orders: Cells, shape: tuple[int, ...], neighbors: str) -> Bounds:
    """Upper bounds of the Rényi divergence."""
    upper = np.empty(shape)
    owner = np.broadcast_to(np.arange(math.prod(process.shape)).reshape(process.shape), shape)
    at = np.broadcast_to(orders, shape)
    for cell, table in enumerate(tables(process, neighbors)):
        mine = owner == cell
        upper[mine] = RenyiJob(table, neighbors, strict=True).divergence(np.ascontiguousarray(at[mine]))
    return Bounds(np.zeros(shape), upper, np.where(upper < np.inf, Status.TIGHT, Status.NOT_MET).astype(np.uint8))


def _cell(
    table: Table,
    quantity: str,
    target: float,
    neighbors: str,
    only_upper: bool,
    renyi: bool,
    orders: Cells | None,
    tolerance: float | None,
) -> Found:
    for_epsilon = quantity == "epsilon"
    nothing = -math.inf if quantity == "log_delta" else 0.0
    if not table or (target >= 1.0 if for_epsilon else target == math.inf):
        return Found(nothing, nothing, Status.TIGHT)
    job = RenyiJob(table, neighbors, orders)
    if not for_epsilon and target >= job.pure_epsilon():
        return Found(nothing, nothing, Status.TIGHT)
    if not renyi and all(has_losses(mechanism) for mechanism, _, _ in table):
        try:
            found = _by_losses(table, quantity, target, neighbors, only_upper, tolerance)
            pure = job.pure_epsilon()
            if not for_epsilon:  # losses reach further than epsilon: what underflowed is not nothing
                least = (_LOG_LEAST if quantity == "log_delta" else 5e-324) if pure < math.inf else nothing
                return found._replace(upper=max(found.upper, least))
            # not above basic composition of pure guarantees, whose sum no grid hits
            least = 5e-324 if 0.0 < pure < math.inf and target == 0.0 else 0.0
            return found._replace(upper=max(min(found.upper, pure), least), lower=min(found.lower, pure))
        except OutOfReachError:
            pass  # too many losses for a grid
    if for_epsilon:
        upper = job.epsilon(target)
        bad = not upper < math.inf
    else:
        upper = job.log_delta(target)
        bad = not upper < 0.0
        if quantity == "delta":
            upper = min(1.0, math.exp(upper) * (1.0 + 4e-16) + 5e-324 * (upper > -math.inf))
    status = Status.NOT_MET if bad else Status.TIGHT if renyi else Status.LOOSE
    return Found(nothing, upper, status)


def _by_losses(
    table: Table, quantity: str, target: float, neighbors: str, only_upper: bool, tolerance: float | None
) -> Found:
    """The larger of the directions that the relation asks for."""
    read = [(losses(mechanism, cell, neighbors), count) for mechanism, cell, count in table]
    used: list[tuple[Losses, float]] = [(both, count) for both, count in read if both is not None]
    directions = _SIDES.get(neighbors, (0, 1))
    if all(both[0] is both[1] for both, _ in used):
        directions = directions[:1]
    answers: list[Found] = []
    for way in directions:
        mechanism, _, count = table[0]
        if len(table) == 1 and count == 1.0 and isinstance(mechanism, Compiled):
            alone = OneRelease(mechanism, way)
            answers.append(alone.epsilon(target) if quantity == "epsilon" else alone.delta(target))
            continue
        found = _by_line(table, way, quantity, target) if tolerance is None else None
        if found is not None:
            answers.append(found)
            continue
        pairs = [Pair(both[way].upper_source, both[way].lower_source, int(count)) for both, count in used]
        few = FewLosses.is_possible(pairs)
        query = FewLosses(pairs) if few else Query(pairs, tolerance or TOLERANCE, one_sided=only_upper)
        answers.append(query.epsilon(target) if quantity == "epsilon" else query.delta(target))
    lower, upper = max(one.lower for one in answers), max(one.upper for one in answers)
    if quantity == "log_delta":
        lower = math.log(lower) * (1.0 + 4e-16) - 4e-16 if lower > 0.0 else -math.inf
        upper = math.log(upper) * (1.0 - 4e-16) + 4e-16 if upper > 0.0 else -math.inf
    return Found(lower, upper, max(one.status for one in answers))


def _by_line(table: Table, way: int, quantity: str, target: float) -> Found | None:
    """Compositions of compiled mechanisms and their samples; None where there is no line for them."""
    parts: list[tuple[Compiled, float, float]] = []
    for mechanism, cell, count in table:
        inner = mechanism.mechanism if isinstance(mechanism, Sampled) else mechanism
        if not isinstance(inner, Compiled):
            return None
        rate = cell.get("sample_rate", 1.0)
        if rate > 0.0:
            parts.append((inner, rate, count))
    if quantity == "epsilon" and not target > 0.0:
        return None
    try:
        line = CompiledLine(parts, way)
        return line.epsilon(target) if quantity == "epsilon" else line.delta(target)
    except NoLineError:
        return None
