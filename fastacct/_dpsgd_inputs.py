"""From the arguments of the DP-SGD verbs to a question for an accountant: checks and messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from fastacct._arrays import Cells, as_cells, as_choice, as_threads, common_shape
from fastacct.accountants import NEIGHBORS, SAMPLED_PAIR, Method, Question
from fastacct.exact import Exact

DEFAULT: Final = Exact()


def check_relation(neighbors: Any, covered: Sequence[str], by: str) -> None:
    """Refuse an unknown relation, and one that is not covered."""
    if as_choice("neighbors", neighbors, NEIGHBORS) not in covered:
        raise ValueError(
            f"neighbors = {neighbors!r} is not supported by {by}: its dominating pair under Poisson sampling is "
            f"another one; supported: {', '.join(map(repr, covered))} (fastacct.Exact() covers all)"
        )


def some_accountant(accountant: Any) -> Method:
    """An accountant object; None is the default."""
    if accountant is None:
        return DEFAULT
    if not isinstance(accountant, Method):
        raise TypeError(f"accountant must be an accountant object such as fastacct.Exact(), not {accountant!r}")
    return accountant


def certified(accountant: Any, instead: str = "use fastacct.Exact()") -> Method:
    """An accountant whose answers are proved."""
    chosen = some_accountant(accountant)
    if not chosen.certified:
        raise ValueError(f"accountant {type(chosen).__name__} proves nothing; {instead}")
    return chosen


def reading(
    accountant: Method,
    wanted: str,
    target: tuple[str, Any],
    run: tuple[Any, Any, Any],
    history: Any,
    neighbors: Any,
    threads: Any,
) -> Question:
    """Epsilon or delta of a run (noise_multiplier, sample_rate, steps) or of a history, at a (name, target)."""
    check_relation(neighbors, accountant.relations, type(accountant).__name__)
    n_threads = as_threads(threads)
    cells = as_cells(*target)
    if history is not None:
        refuse_parameters(*run)
        return Question(wanted, (*history_blocks(history), cells), cells.shape, neighbors, n_threads, history=True)
    named = run_parameters(*run) | {target[0]: cells}
    sigma, q, count, last = named.values()
    return Question(wanted, (sigma, q, count, last), common_shape(named), neighbors, n_threads)


def calibration(
    accountant: Method, wanted: str, epsilon: Any, delta: Any, known: dict[str, Any], neighbors: Any, threads: Any
) -> Question:
    """A parameter of a run from epsilon, delta and the two known parameters."""
    check_relation(neighbors, accountant.relations, type(accountant).__name__)
    n_threads = as_threads(threads)
    named = {name: as_cells(name, value) for name, value in ({"epsilon": epsilon, "delta": delta} | known).items()}
    first, second, third, fourth = named.values()
    return Question(wanted, (first, second, third, fourth), common_shape(named), neighbors, n_threads)


def divergence_inputs(
    noise_multiplier: Any, sample_rate: Any, steps: Any, orders: Any, neighbors: Any, threads: Any
) -> tuple[tuple[Cells, Cells, Cells, Cells], tuple[int, ...], int]:
    """Cells of a Rényi kernel, their shape and the number of threads."""
    check_relation(neighbors, SAMPLED_PAIR, "Rényi divergences here")
    named = run_parameters(noise_multiplier, sample_rate, steps) | {"orders": as_cells("orders", orders)}
    sigma, q, count, order = named.values()
    return (sigma, q, order, count), common_shape(named), as_threads(threads)


def run_parameters(noise_multiplier: Any, sample_rate: Any, steps: Any) -> dict[str, Cells]:
    """The three parameters of a run, checked."""
    values = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise TypeError(f"missing {', '.join(missing)} (or history=[(noise_multiplier, sample_rate, steps), ...])")
    return {name: as_cells(name, value) for name, value in values.items()}


def refuse_parameters(noise_multiplier: Any, sample_rate: Any, steps: Any) -> None:
    """Parameters beside a history contradict it."""
    if noise_multiplier is not None or sample_rate is not None or steps is not None:
        raise TypeError("give either history or noise_multiplier, sample_rate and steps, not both")


def history_blocks(history: Any) -> tuple[Cells, Cells, Cells]:
    """Three flat arrays, one entry per block."""
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise TypeError(f"history must be a sequence of (noise_multiplier, sample_rate, steps), not {history!r}")
    rows = list(history)
    if not rows:
        raise ValueError("history is empty; give at least one (noise_multiplier, sample_rate, steps)")
    columns: tuple[list[float], list[float], list[float]] = ([], [], [])
    for i, row in enumerate(rows):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str | bytes) or len(row) != 3:
            raise TypeError(f"history[{i}] must be (noise_multiplier, sample_rate, steps), not {row!r}")
        for name, value, column in zip(("noise_multiplier", "sample_rate", "steps"), row, columns, strict=True):
            try:
                cell = as_cells(name, value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"history[{i}]: {error}") from None
            if cell.ndim:
                raise TypeError(f"history[{i}]: {name} must be one number, not an array of shape {cell.shape}")
            column.append(float(cell))
    return np.array(columns[0]), np.array(columns[1]), np.array(columns[2])
