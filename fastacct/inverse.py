"""Inverses of `fastacct.dpsgd.epsilon`: a parameter from a target (epsilon, delta); public as `fastacct.dpsgd.*`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Unpack, cast

import numpy as np

from fastacct.accountants import Method
from fastacct.accountants.base import SMALLEST_RATE, Wanted
from fastacct.core.inputs import MAX_STEPS, Cells, Floats, Reals, as_cells, as_threads, common_shape, unwrap
from fastacct.core.relations import Relation, as_relation
from fastacct.core.search import boundary
from fastacct.epsilon import as_accountant
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.readers.job import Ask
from fastacct.run import Run, as_delta, has, of_history, parameters, refused, steps_of_epochs

__all__ = ["noise_multiplier", "relation_of", "sample_rate", "steps"]

_MOST_NOISE: Final = 1e12
_MOST_COUNT: Final = 2**52
_FAR: Final = 50.0
Delta = Reals | str


def noise_multiplier(*, epsilon: Reals, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Smallest noise multiplier that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side: `dpsgd.epsilon` at the value returned is at most `epsilon`, bit for bit, and at (1 - 1e-8)
    times it, it is not (where the bounds are tight; `fastacct.RDP(conversion="optimal")`: about 1e-7).  0 where no
    noise is needed, inf where no noise suffices (delta = 0).  The search covers noise multipliers from 1e-6 to 1e12.

    Keywords as in `epsilon`, but for the one that is asked for.  With `history`, what has been run already counts, too.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.noise_multiplier(epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=10000), 5)
    1.56497
    """
    return unwrap(_calibrated("noise_multiplier", epsilon, delta, run))


def sample_rate(*, epsilon: Reals, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Largest sample rate that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side, within 1e-8 relative of the boundary; 0 where no rate above 1e-30 satisfies the target.
    With `epochs` instead of `steps` the number of steps is ceil(epochs / sample_rate).

    Keywords as in `epsilon`, but for the one that is asked for.  With `history`, what has been run already counts, too.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.sample_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, steps=10000), 6)
    0.005315
    """
    return unwrap(_calibrated("sample_rate", epsilon, delta, run))


def steps(*, epsilon: Reals, delta: Delta, **run: Unpack[Run]) -> int | float | Floats:
    """Largest number of steps that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side: the number returned satisfies the target, one more does not.  inf where any number does
    (sample_rate = 0); at most 2**53 otherwise.  A plain int for plain numbers, float64 for arrays.

    Keywords as in `epsilon`, but for the one that is asked for.  With `history`, what has been run already counts, too.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.dpsgd.steps(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.01)
    2666
    """
    found = _calibrated("steps", epsilon, delta, run)
    return found if found.ndim else int(found) if np.isfinite(found) else float(found)


def relation_of(run: Run, chosen: Method) -> Relation:
    """The neighbouring relation asked for, if the accountant covers it."""
    relation = as_relation(run.get("neighbors", "add_remove"))
    if relation not in chosen.relations:
        raise ValueError(
            f"neighbors = {relation!r} is not supported by {type(chosen).__name__}: its dominating pair under Poisson "
            f"sampling is another one; supported: {', '.join(map(repr, chosen.relations))} "
            "(fastacct.Exact() covers all)"
        )
    return relation


def _calibrated(wanted: Wanted, epsilon: Reals, delta: Delta, run: Run) -> Cells:
    chosen = as_accountant(run.get("accountant"), wanted)
    relation, threads = relation_of(run, chosen), as_threads(run.get("threads"))
    fixing = {"noise_multiplier": (), "sample_rate": ("batch_size",), "steps": ("epochs",)}[wanted]
    refused(run, (wanted, *fixing), f"{{}} would fix {wanted}, which is asked for")
    named = {"epsilon": as_cells("epsilon", epsilon), "delta": as_delta(delta, run)}
    history, by_epochs = run.get("history"), wanted == "sample_rate" and has(run, "epochs")
    if by_epochs:
        refused(run, ("steps",), "give either {} or epochs, not both")
    found = parameters(cast(Run, {name: value for name, value in run.items() if not (by_epochs and name == "epochs")}))
    needed = [name for name in ("noise_multiplier", "sample_rate", "steps") if name != wanted]
    missing = [name for name in needed if name not in found and not (name == "steps" and has(run, "epochs"))]
    if missing:
        raise TypeError(f"missing {', '.join(missing)}")
    if by_epochs:
        found["epochs"] = as_cells("epochs", run["epochs"])
    elif history is None:
        first, second = (found[name] for name in needed)
        ask = Ask("epsilon", named["delta"], common_shape(named | found), relation, threads, only_upper=True)
        return chosen.calibrate(wanted, (named["epsilon"], first, second), ask)
    return _searched(wanted, named, found, Process() if history is None else of_history(history), chosen, relation)


def _searched(
    wanted: Wanted,
    target: dict[str, Cells],
    known: dict[str, Cells],
    spent: Process,
    chosen: Method,
    relation: Relation,
) -> Cells:
    """Cell by cell: the boundary of (epsilon, delta) for what has been run already and one more block."""
    shape = common_shape(target | known)
    values = np.empty(shape)
    for i in np.ndindex(shape):
        at = {name: float(np.broadcast_to(cells, shape)[i]) for name, cells in (target | known).items()}

        def level(x: float, at: dict[str, float] = at) -> float:
            return _level(at | {wanted: float(x)}, spent, chosen, relation)

        values[i] = _boundary(wanted, level, at.get("epochs"))
    return values


def _level(at: dict[str, float], spent: Process, chosen: Method, relation: Relation) -> float:
    """Above 0 where one more block exceeds the target, at most 0 where it does not."""
    rate, steps = at["sample_rate"], at.get("steps")
    if steps is None:
        steps = steps_of_epochs(at["epochs"], rate) if rate > 0.0 else 0
    job = spent + Gaussian(at["noise_multiplier"]).poisson(rate) * int(steps)
    ask = Ask("epsilon", np.array(at["delta"]), (), relation, only_upper=True)
    value, target = float(chosen.bounds(job, ask).upper), at["epsilon"]
    if not 0.0 < value < np.inf or not 0.0 < target < np.inf:
        return -_FAR if value <= target else _FAR
    distance = math.log(value) - math.log(target)
    return max(min(distance, _FAR), 1e-17) if value > target else min(max(distance, -_FAR), 0.0)


def _boundary(wanted: Wanted, level: Callable[[float], float], epochs: float | None) -> float:
    if wanted == "noise_multiplier":
        if level(0.0) <= 0.0:
            return 0.0
        return np.inf if level(_MOST_NOISE) > 0.0 else boundary(level, None, "epsilon")
    if level(0) > 0.0:
        raise ValueError("history alone exceeds the target")
    if wanted == "sample_rate":
        least = SMALLEST_RATE if epochs is None else max(SMALLEST_RATE, 2.0 * epochs / MAX_STEPS)
        return 0.0 if least > 1.0 or level(least) > 0.0 else boundary(level, (least, 1.0), "epsilon")
    return np.inf if level(_MOST_COUNT) <= 0.0 else boundary(level, (0, _MOST_COUNT), "epsilon")
