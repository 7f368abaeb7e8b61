"""Calibration of any job, and of runs of DP-SGD: the number at which a target is just met, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, NamedTuple, cast

import numpy as np

from fastacct.accountants.base import Method, Wanted
from fastacct.accountants.batching import Batches, batches_of
from fastacct.accountants.exact import Exact
from fastacct.accountants.question import CurveOptions, Job, Options, answer, as_accountant, as_process, checked
from fastacct.accountants.run import PARAMETERS, Block, Run, as_delta, of_history, parameters, refused, with_steps
from fastacct.core.engine import in_pieces
from fastacct.core.inputs import MAX_STEPS, POSITIVE, UNIT, Cells, Reals, as_cells, as_number, as_threads
from fastacct.core.inputs import common_shape as shape_of
from fastacct.core.labels import labelled
from fastacct.core.relations import Relation, as_relation, sensitivity
from fastacct.core.rounding import digits_up
from fastacct.core.search import WIDEST, Search, as_bracket, boundary, excess, settled, sketched, straightened
from fastacct.core.words import told_names
from fastacct.loaders.keywords import told as told_by_loader
from fastacct.mechanisms.error import ErrorLaw, as_law, root_mean_square
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.samplers import SAMPLERS
from fastacct.readers.asked import Ask
from fastacct.readers.attack import rates
from fastacct.readers.job import about, is_on_grid, roughly

_ROUGHLY: Final = {"noise_multiplier": (1.0, -1.2, math.inf), "sample_rate": (0.01, 1.0, 0.0), "steps": (1, 0.7, 0.0)}
"""Where a search begins that knows no better, the slope of log epsilon over the logarithm of the number, and what is
said where no number between its ends meets the target."""
_FIXED: Final = "which the parts that do not change with the number cost alone"
_DOMAINS: Final = {"epsilon": None, "delta": None, "error": POSITIVE}


class _Goal(NamedTuple):
    """An epsilon that is to be met, and at which delta."""

    epsilon: float
    delta: float


@told_names
def calibrate(
    build: Callable[[float], Job | ErrorLaw],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    error: float | None = None,
    beta: float | None = None,
    bracket: tuple[float, float] | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float:
    """The number x for which the job `build(x)` just meets a target.

    **Guarantee.** Safe side: what is asked for was evaluated at x, and is at most the target; within 1e-9 relative (or
    at the next whole number) it is above, or x is an end of the bracket; further off where answers take seconds each.

    Parameters
    ----------
    build : callable
        From a number to a job, or to the distribution of its error.  What is asked for must be monotone in it.
    epsilon, delta, advantage, tpr, fpr : float
        Target: epsilon at delta, or `fastacct.advantage`, or tpr, which is `fastacct.tpr_at_fpr` at fpr.
    error, beta : float
        Target of a `build` that returns errors (`fastacct.utility`): the root mean square error, or with beta
        the error that is exceeded with probability beta.  Of a noise the largest that meets it: the smallest epsilon.
    bracket : (low, high), optional
        Where to search; two ints mean whole numbers.  Default: outwards from 1, to 1e-6 or 1e12, for noise multipliers.
        Give (0.0, 1.0) for a sample rate and, say, (1, 10**7) for a number of steps.
    accountant, neighbors, threads
        As in `fastacct.epsilon`, and the same errors; an accountant goes with epsilon.

    Returns
    -------
    float or int
        int for a bracket of ints.  ValueError where no number of the bracket meets the target.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.calibrate(lambda n: fa.Gaussian(1.0).poisson(0.01) * n, epsilon=2.0, delta=1e-5, bracket=(1, 10**6))
    1202
    >>> fa.calibrate(lambda b: fa.utility(fa.Laplace(b)), error=3.0, beta=0.05)
    1.0014...
    """
    asked = {"epsilon": epsilon, "delta": delta, "advantage": advantage, "tpr": tpr, "fpr": fpr}
    asked |= {"error": error, "beta": beta}
    if not callable(build):
        raise TypeError(
            f"build must be a function of one number that returns a job, as fastacct.Gaussian, not {build!r}"
        )
    options: CurveOptions = {"neighbors": neighbors, "threads": threads}
    name, target, read = _readout(asked, accountant, options)
    seen: dict[float, float] = {}

    @cache
    def level(x: float) -> float:
        seen[x] = _one(read(_built(build, x, is_ranged=bracket is not None)), x)
        return excess(seen[x], target)

    def hint() -> str:
        stays, least = f"stays at {min(seen.values())!r}, {_FIXED}", f"is {min(seen.values())!r}; try another bracket"
        return f"{name} {stays}" if bracket is None else f"the smallest {name} in the bracket {least}"

    ends, start, slope = None if bracket is None else as_bracket(bracket), None, -1.0
    if name == "epsilon" and type(as_accountant(accountant, name)) is Exact:
        goal = _Goal(target, as_number("delta", delta))
        if target == 0.0:
            with suppress(TypeError, ValueError):  # said in words where epsilon is asked
                return _of_zero(lambda x: as_process(build(x)), goal, ends, options, level)
        if ends is None:
            _refuse_what_is_left(lambda x: as_process(build(x)), goal, options)
        start, slope = _start(lambda x: as_process(build(x)), goal, as_relation(neighbors), ends)
    return boundary(level, ends, f"{name} <= {target!r}", hint, start, slope)


def _readout(
    asked: dict[str, float | None], accountant: Method | None, options: CurveOptions
) -> tuple[str, float, Callable[[Any], Any]]:
    """What is to be met, how much of it, and the function that says how much a job, or an error, has of it."""
    given = {
        name: as_number(name, value, _DOMAINS.get(name, UNIT)) for name, value in asked.items() if value is not None
    }
    readouts: dict[tuple[str, ...], Callable[[Any], Any]] = {
        ("epsilon", "delta"): lambda job: (
            answer("epsilon", job, given["delta"], accountant, **options, only_upper=True).upper
        ),
        ("advantage",): lambda job: answer("delta", job, 0.0, **options).upper,
        ("tpr", "fpr"): lambda job: (
            rates(*checked(job, "fpr", given["fpr"], UNIT, **options), positives=True, both=False).upper
        ),
        ("error",): lambda law: root_mean_square(as_law(law)),
        ("error", "beta"): lambda law: as_law(law).quantile(given["beta"]),
    }
    if tuple(given) not in readouts:
        raise TypeError(
            f"give epsilon and delta, or advantage, or tpr and fpr, or error; not {', '.join(given) or 'nothing'}"
        )
    name, target = next(iter(given.items()))
    if accountant is not None and name != "epsilon":
        raise ValueError("accountant goes with epsilon and delta; the other targets are exact")
    return name, target, readouts[tuple(given)]


def _built(build: Callable[[float], Job | ErrorLaw], x: float, *, is_ranged: bool) -> Job | ErrorLaw:
    """What is built of a number; a refusal of a number that nobody gave says how whole ones are asked for."""
    try:
        return build(x)
    except (TypeError, ValueError) as error:
        if is_ranged or float(x).is_integer():
            raise
        raise type(error)(f"build({x!r}): {error}; of whole numbers give a range, bracket=(1, 10**7)") from None


def _by_lines(
    build: Callable[[float], Process],
    goal: _Goal,
    relation: Relation,
    search: Search,
    straight: Callable[[float], float] = float,
) -> tuple[float, float] | None:
    """About where the boundary is, and the slope there, by lines that prove nothing."""

    def level(x: float) -> float:
        value = about(build(x), goal.delta, relation, goal.epsilon)
        return straight(excess(value, goal.epsilon)) if value < math.inf else math.inf

    with suppress(TypeError, ValueError):  # said in words where it is asked again
        return sketched(level, *search)
    return None


def _start(
    build: Callable[[float], Process], goal: _Goal, relation: Relation, ends: tuple[float, float] | None
) -> tuple[float | None, float]:
    """Where the boundary is about, if lines or grids say it, and the slope there."""
    begin = (1.0, -1.0) if ends is None else (ends[0] or ends[1], 1.0)
    return _by_lines(build, goal, relation, (ends, *begin)) or (_nearby(build, goal, relation, ends), begin[1])


def _nearby(
    build: Callable[[float], Process], goal: _Goal, relation: Relation, ends: tuple[float, float] | None
) -> float | None:
    """Where coarse grids put the boundary, if grids answer for epsilon: a start that costs little."""

    def level(x: float) -> float:
        return excess(roughly("epsilon", build(x), goal.delta, relation), goal.epsilon)

    first = 1.0 if ends is None else ends[0]
    try:
        if not is_on_grid(build(first), goal.delta, relation) or level(first) == excess(math.inf, 1.0):
            return None
        return boundary(level, ends, "", width=4e-3)  # that of a coarse grid may be as far off
    except (TypeError, ValueError):  # said in words where it is asked again
        return None


def _refuse_what_is_left(build: Callable[[float], Process], goal: _Goal, options: CurveOptions) -> None:
    """Refuse a target that what does not change with the number is above alone, at both ends of the search."""
    fixed_part = Process()
    with suppress(TypeError, ValueError):  # said in words where it is asked again
        near, far = (dict(build(x)) for x in WIDEST)
        fixed_part = Process((kind, min(count, far[kind])) for kind, count in near.items() if kind in far)
    if not fixed_part or roughly("epsilon", fixed_part, goal.delta, as_relation(options["neighbors"])) <= goal.epsilon:
        return
    if (spent := answer("epsilon", fixed_part, goal.delta, **options)).lower > goal.epsilon:
        raise ValueError(
            f"epsilon <= {goal.epsilon!r} cannot be met: epsilon stays at {float(spent.upper)!r}, {_FIXED}"
        )


def _of_zero(
    build: Callable[[float], Process],
    goal: _Goal,
    ends: tuple[float, float] | None,
    options: CurveOptions,
    level: Callable[[float], float],
) -> float:
    """Where delta at 0 meets its target, for an epsilon that is to be 0; ValueError where epsilon is not 0 there."""

    def of_delta(x: float) -> float:
        return excess(float(answer("delta", build(x), 0.0, **options, only_upper=True).upper), goal.delta)

    found = boundary(of_delta, ends, "")
    if level(found) > 0.0:
        raise ValueError("epsilon is above 0 where delta meets its target")
    return found


def _one(value: float | Cells, x: float) -> float:
    if np.ndim(value):
        raise TypeError(f"build({x!r}) is a job with arrays; calibrate one job at a time")
    return float(value)


@labelled(outputs=("calibrated",))
def calibrated(wanted: Wanted, epsilon: Reals, delta: Reals | str, run: Run, after: Job | None = None) -> Cells:
    """The parameter `wanted` of a run of DP-SGD: by a kernel where there is one, else by a search in each cell."""
    chosen, history = as_accountant(run.get("accountant"), wanted), run.get("history")
    relation, threads = as_relation(run.get("neighbors", "add_remove")), as_threads(run.get("threads"))
    fixing = {"noise_multiplier": (), "sample_rate": ("batch_size",), "steps": ("epochs",)}[wanted]
    refused(run, (wanted,), "{} is what this function computes: do not give it")
    refused(run, fixing, f"{{}} would fix {wanted}, which is asked for")
    target, batches = {"epsilon": as_cells("epsilon", epsilon), "delta": as_delta(delta, run)}, batches_of(run, wanted)
    parameters_at, spent = parameters(run, wanted), _spent(history, after)
    if not spent and "epochs" not in parameters_at:
        ask = Ask("epsilon", target["delta"], shape_of(target | parameters_at), relation, threads, only_upper=True)
        if (by_kernel := _by_kernel(chosen, wanted, target["epsilon"], parameters_at, batches, ask)) is not None:
            return by_kernel
    parameters_at |= batches.cells if batches else {}
    shape = shape_of(target | parameters_at)
    values = np.empty(math.prod(shape))
    cells = {name: np.broadcast_to(given, shape).ravel() for name, given in (target | parameters_at).items()}

    def work(i: int, _: int) -> int:
        at = {name: float(given[i]) for name, given in cells.items()}
        values[i] = _searched(wanted, at, batches, spent, {"accountant": chosen, "neighbors": relation, "threads": 1})
        return i + 1

    in_pieces(values.size, threads, work)
    return values.reshape(shape)


def _spent(history: Iterable[Block] | None, after: Job | None) -> Process:
    """What was released before."""
    before = Process() if after is None else as_process(after)
    if before.shape:
        raise TypeError(f"after must be a job of plain numbers, not of shape {before.shape}")
    return before if history is None else of_history(history) + before


def _by_kernel(
    chosen: Method, wanted: Wanted, epsilon: Cells, known: dict[str, Cells], batches: Batches | None, ask: Ask
) -> Cells | None:
    """All cells at once, if the accountant has a kernel for it: runs on Poisson samples, and on batches of fixed size
    where these are such samples at half of the noise."""
    if batches is None:
        return chosen.calibrate(wanted, (epsilon, *known.values()), ask)
    if batches.kind != "fixed_size" or ask.relation in ("replace_one", "zero_out"):
        return None
    halved = [0.5 * cells if name == "noise_multiplier" else cells for name, cells in known.items()]
    calibrated_at = chosen.calibrate(wanted, (epsilon, *halved), ask)
    return calibrated_at if calibrated_at is None or wanted != "noise_multiplier" else 2.0 * calibrated_at


def calibrated_on_loader(wanted: Wanted, epsilon: Reals, delta: Reals | str, run: Run, after: Job | None) -> Cells:
    """A parameter of a run that may be on a loader: in the loader's steps, and in its noise."""
    told = told_by_loader(run, wanted=wanted)
    if (live := told.live) is None:
        return calibrated(wanted, epsilon, delta, run, after)
    target = as_delta(delta, {"records": told.records}) if isinstance(delta, str) else delta
    parameter = calibrated(wanted, epsilon, target, cast("Run", told.run), after)
    if wanted == "noise_multiplier":
        return parameter / live.share
    return np.minimum(parameter * (live.length if live.is_pass else live.per), live.most)


def _searched(wanted: Wanted, at: dict[str, float], batches: Batches | None, spent: Process, options: Options) -> float:
    """The parameter wanted in one cell."""

    def epsilon_of(job: Process) -> float:
        return float(answer("epsilon", job, at["delta"], **options, only_upper=True).upper)

    def run(x: float) -> Process:
        return spent + _released(with_steps(at | {wanted: float(x)}), batches)

    @cache
    def level(x: float) -> float:
        return excess(epsilon_of(run(x)), at["epsilon"])

    if (obvious := _without_search(wanted, at, used := epsilon_of(spent))) is not None:
        return obvious
    usual, slope, nowhere = _ROUGHLY[wanted]
    to_spend = math.sqrt(at["epsilon"] - used) * math.sqrt(at["epsilon"] + used)
    poisson = partial(_of_poisson, wanted, *_alike(at, batches, options["neighbors"]))
    start, ends = float(poisson(np.array(to_spend))) or usual, _ends(wanted, at, spent)
    if (is_noise := wanted == "noise_multiplier") and _is_met_anyway(run(ends[0]), at, options, level):
        return _least_noise(level, ends[0])
    straight, slope = straightened(poisson, at["epsilon"], slope) if is_noise and not spent else (float, slope)
    search, near = (ends, start, slope), None
    if _is_smooth(wanted, at, options):
        near = _by_lines(run, _Goal(at["epsilon"], at["delta"]), options["neighbors"], search, straight)
    parameter = settled(lambda x: straight(level(x)), near, search, nowhere)
    return _least_noise(level, parameter) if is_noise else float(parameter)


def _is_met_anyway(job: Process, at: dict[str, float], options: Options, level: Callable[[float], float]) -> bool:
    """Whether next to no noise is enough, and known to be before answers there are asked: they may take long."""
    return job.pure_epsilon(options["neighbors"]) <= at["epsilon"] and level(WIDEST[0]) <= 0.0


def _least_noise(level: Callable[[float], float], noise: float) -> float:
    """None, where hardly any is found and none is enough."""
    return 0.0 if noise == WIDEST[0] and level(0.0) <= 0.0 else float(noise)


def _released(given: dict[str, float], batches: Batches | None) -> Process:
    """A run in plain numbers."""
    if batches is not None:
        return batches.process({**given, "steps": int(given["steps"])})
    return Gaussian(given["noise_multiplier"]).poisson(given["sample_rate"]) * int(given["steps"])


def _without_search(wanted: Wanted, at: dict[str, float], used: float) -> float | None:
    """The parameter wanted where nothing is left for it, or anything meets the target; None elsewhere."""
    asks_nothing = at["epsilon"] == math.inf or at["delta"] == 1.0
    if used > at["epsilon"]:
        target = f"epsilon = {at['epsilon']:.6g} at delta = {at['delta']:.6g}"
        alone = f"costs epsilon {digits_up(used)} alone, and exceeds"
        raise ValueError(f"what was released already {alone} the target {target}")
    if wanted == "sample_rate" and 2.0 * at.get("epochs", 0.0) > MAX_STEPS:
        return 0.0
    if wanted == "steps":
        asks_nothing |= at["sample_rate"] == 0.0 or at["noise_multiplier"] == math.inf
    return {"noise_multiplier": 0.0, "sample_rate": 1.0, "steps": math.inf}[wanted] if asks_nothing else None


def _ends(wanted: Wanted, at: dict[str, float], spent: Process) -> tuple[float, float]:
    """Between which numbers the one that is wanted is looked for."""
    if wanted == "noise_multiplier":
        return WIDEST
    if wanted == "sample_rate":
        return max(1e-30, 2.0 * at.get("epochs", 0.0) / MAX_STEPS), 1.0  # epochs are no more steps than can be counted
    return 0, 2**52 if spent else int(MAX_STEPS)


def _is_smooth(wanted: Wanted, at: dict[str, float], options: Options) -> bool:
    """Whether lines say about where the boundary is: of whole epochs the steps jump with the sample rate."""
    return type(options["accountant"]) is Exact and (wanted, "epochs" in at) != ("sample_rate", True)


def _alike(at: dict[str, float], batches: Batches | None, way: Relation) -> tuple[dict[str, float], Relation, float]:
    """The run on Poisson samples that is most like one on these batches, its relation, and how far records move it."""
    sampler = SAMPLERS[batches.kind if batches else "poisson"]
    seen = {"sample_rate": 1.0, "steps": at["epochs"]} if sampler.is_seen else {}
    moved = 2.0 if sampler.keeps_size else sensitivity(way) ** 0.25
    return at | seen, way if way == "add" else "add_remove", moved


def _of_poisson(wanted: Wanted, at: dict[str, float], way: Relation, moved: float, epsilon: Cells) -> Cells:
    """The parameter wanted if the run were one on Poisson samples alone, where the others fix it; 0: not known."""
    at = with_steps(at) | {"noise_multiplier": at.get("noise_multiplier", moved) / moved}
    fixed = [at[name] for name in PARAMETERS if name != wanted and name in at]
    ask = Ask("epsilon", np.array(at["delta"]), epsilon.shape, way, 1, only_upper=True)
    found = Exact().calibrate(wanted, (epsilon, *map(np.array, fixed)), ask) if len(fixed) > 1 else None
    start = np.zeros_like(epsilon) if found is None else found * (moved if wanted == "noise_multiplier" else 1.0)
    return np.where((start > 0.0) & (start < math.inf), start, 0.0)
