"""Inverses of `fastacct.dpsgd.epsilon`: a parameter from a target (epsilon, delta); public as `fastacct.dpsgd.*`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Unpack, cast

import numpy as np

from fastacct.accountants import Method
from fastacct.accountants.base import Calibration, Wanted
from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Floats, Reals, as_cells, as_threads, common_shape, unwrap
from fastacct.core.relations import Relation, as_relation
from fastacct.core.search import boundary
from fastacct.epsilon import as_accountant
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.readers.job import Ask
from fastacct.run import Run, as_delta, of_history, parameters, refused

__all__ = ["noise_multiplier", "relation_of", "sample_rate", "steps"]

MOST_STEPS: Final = 2**53 - 1
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
    history, epochs = run.get("history"), run.get("epochs") if wanted == "sample_rate" else None
    rest = cast(Run, {name: value for name, value in run.items() if epochs is None or name != "epochs"})
    found = parameters(rest)
    needed = [name for name in ("noise_multiplier", "sample_rate", "steps") if name != wanted]
    missing = [name for name in needed if name not in found and not (epochs is not None and name == "steps")]
    if missing:
        raise TypeError(f"missing {', '.join(missing)}")
    if history is None and epochs is None:
        first, second = (found[name] for name in needed)
        cells = (named["epsilon"], named["delta"], first, second)
        shape = common_shape(named | found)
        return chosen.calibrate(Calibration(wanted, cells, shape, relation, threads))[0]
    if epochs is not None:
        found["epochs"] = as_cells("epochs", epochs, Domain(0.0, MAX_STEPS))
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
            one = at | {wanted: float(x)}
            count = one["steps"] if "steps" in one else np.ceil(one["epochs"] / one["sample_rate"]) if x > 0.0 else 0.0
            job = spent + Gaussian(one["noise_multiplier"]).poisson(one["sample_rate"]) * int(min(count, MOST_STEPS))
            ask = Ask("epsilon", np.array(at["delta"]), (), relation, only_upper=True)
            value = float(chosen.bounds(job, ask).upper)
            if not 0.0 < value < np.inf or at["epsilon"] == 0.0:
                return -50.0 if value <= at["epsilon"] else 50.0
            return float(np.log(value / at["epsilon"])) or (1e-17 if value > at["epsilon"] else 0.0)

        values[i] = _boundary(wanted, level)
    return values


def _boundary(wanted: Wanted, level: Callable[[float], float]) -> float:
    if wanted == "noise_multiplier":
        return np.inf if level(1e12) > 0.0 else boundary(level, None, "epsilon")
    if level(0) > 0.0:
        raise ValueError("history alone exceeds the target")
    if wanted == "sample_rate":
        return boundary(level, (0.0, 1.0), "epsilon")
    return np.inf if level(MOST_STEPS) <= 0.0 else boundary(level, (0, MOST_STEPS), "epsilon")
