"""A run of DP-SGD from its keywords: the process it is, and targets that depend on the number of records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeGuard,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import numpy as np

from fastacct.accountants.batching import COMPANIONS, batches_of, each
from fastacct.core.inputs import MAX_STEPS, Cells, Floats, Real, Reals, as_cells, as_number, common_shape, unwrap
from fastacct.core.kept import cached
from fastacct.core.relations import Relation, Replaced, as_relation
from fastacct.core.rounding import as_written, rate_of_batch
from fastacct.core.words import as_usual, refuse_unknown, too_many, written_out
from fastacct.core.words import formerly as renamed
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import Count, are_proper
from fastacct.mechanisms.base import Run as Columns
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process, Sampled

if TYPE_CHECKING:
    from fastacct.accountants.base import Method

    Job = Mechanism | Process

Of = TypeVar("Of", contravariant=True)
P = ParamSpec("P")
Answer = TypeVar("Answer", covariant=True)
Block = tuple[Real, Real, Real]
"""Noise multiplier, sample rate and steps of a part of a run."""
PARAMETERS: Final = ("noise_multiplier", "sample_rate", "steps")
_INSTEAD: Final = {"sample_rate": "batch_size", "steps": "epochs"}
"""What fixes a parameter in its place."""
_EITHER: Final = "give one job, or one run of DP-SGD by the keywords of fastacct.dpsgd and its target by name"
_POWER: Final = re.compile(r"1\s*/\s*[nN](?:\s*(?:\^|\*\*)\s*(\d+(?:\.\d*)?))?")
_NUMBER: Final = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?")


class Parameters(TypedDict, total=False):
    """What describes a run of DP-SGD; see `fastacct.dpsgd.epsilon`."""

    noise_multiplier: Reals | None
    sample_rate: Reals | None
    steps: Reals | None
    records: Reals | None
    batch_size: Reals | None
    epochs: Reals | None
    history: Iterable[Block] | None
    sampling: str
    at_most: Reals | None
    bands: Reals | None
    bins: str | None
    selected: Reals | None


class Run(Parameters, total=False):
    """A run of DP-SGD, and how it is accounted; see `fastacct.dpsgd.epsilon`."""

    loader: object
    accountant: Method | None
    neighbors: Relation
    threads: int | None


class Asked(Run, total=False):
    """A run of DP-SGD, and what is asked of it."""

    delta: Reals | str
    epsilon: Reals
    orders: Reals
    fpr: Reals
    members: Reals
    envelope: str
    delta_floor: float


def parameters(run: Parameters, wanted: str = "", hint: str = "") -> dict[str, Cells]:
    """The parameters that the keywords fix, checked; none is missing but the one that is wanted.

    sample_rate = batch_size / records and steps = ceil(epochs * records / batch_size) = ceil(epochs / sample_rate);
    epochs without a sample rate stay epochs.
    """
    names = (*PARAMETERS, "records", "batch_size", "epochs")
    named = {name: value for name in names if (value := run.get(name)) is not None}
    _refuse_twice(named)
    cells = {name: _checked(name, value) for name, value in named.items()}
    _fix(cells)
    excused = {wanted, *cells}
    if missing := [name for name in PARAMETERS if not excused & {name, _INSTEAD.get(name)}]:
        raise TypeError(f"missing {', '.join(missing)}{hint}")
    return {name: cells[name] for name in (*PARAMETERS, "epochs") if name in cells}


def _fix(cells: dict[str, Cells]) -> None:
    """Add what a batch size and epochs say of the sample rate and of the steps; epochs go where they are steps."""
    batch = (cells["batch_size"], cells["records"]) if "batch_size" in cells else None
    if batch:
        cells["sample_rate"] = _rate(*batch)
    if "epochs" in cells and "sample_rate" in cells:
        cells["steps"] = _steps(cells.pop("epochs"), cells["sample_rate"], batch)


def _refuse_twice(named: Mapping[str, object]) -> None:
    """Refuse what fixes one parameter in two ways, and a batch size of an unknown part of the records."""
    for name, instead in _INSTEAD.items():
        if name in named and instead in named:
            raise TypeError(f"give either {name} or {instead}, not both")
    if "batch_size" in named and "records" not in named:
        raise TypeError("batch_size needs records, the number of records of the data set")


def _rate(batch: Cells, records: Cells) -> Cells:
    """Sample rates of batches of no more than all records."""
    shape = common_shape({"batch_size": batch, "records": records})
    if (batch > records).any():
        first = np.argmax(batch > records)
        size, limit = (float(np.broadcast_to(x, shape).flat[first]) for x in (batch, records))
        raise ValueError(f"batch_size = {size!r} exceeds records = {limit!r}")
    return each(rate_of_batch, batch, records)


def _steps(epochs: Cells, rate: Cells, batch: tuple[Cells, Cells] | None) -> Cells:
    """Steps of so many epochs, by the batch where one is given."""
    common_shape({"epochs": epochs, "sample_rate": rate})
    if ((epochs > 0.0) & (rate == 0.0)).any():
        raise ValueError("epochs needs a positive sample_rate: at sample_rate = 0 no number of steps is an epoch")
    return as_cells("steps", each(steps_of_epochs, epochs, *(batch or (rate,))))


def _checked(name: str, value: object) -> Cells:
    try:
        return as_cells(name, value)
    except ValueError as error:
        if name == "sample_rate" and isinstance(value, float | int) and value > 1.0:
            raise ValueError(f"{error} (a batch size? give batch_size= and records=)") from None
        raise


def steps_of_epochs(epochs: float, batch_size: float, records: float = 1.0) -> int:
    """The number of steps in so many epochs, from the decimal digits and rounded up; 2**60 where there are more.

    A sample rate is a batch of one record.

    >>> steps_of_epochs(60, 256, 60000), steps_of_epochs(7, 0.07)
    (14063, 100)
    """
    if epochs == 0.0:
        return 0
    wanted, batch, of_all = (as_written(x) for x in (epochs, batch_size, records))
    return min(math.ceil(wanted * of_all / batch), 2**60)


def with_steps(at: dict[str, float]) -> dict[str, float]:
    """Epochs as the steps that they are, where the sample rate is known."""
    if "steps" in at or "epochs" not in at or "sample_rate" not in at:
        return at
    rate = at["sample_rate"]
    return at | {"steps": steps_of_epochs(at["epochs"], rate) if rate > 0.0 else 0.0}


class _Steps(Process):
    """Steps of sampled Gaussians, from checked numbers.  Readers take them as they are; few ask for the table."""

    def __init__(self, steps: Sampled) -> None:
        self._own, self._shape, self._facts = steps, steps.shape, {}

    @cached
    def _blocks(self) -> dict[Mechanism, Count]:
        table = (Gaussian(noise).poisson(rate) for noise, rate in zip(*self._own[:2], strict=True))
        return dict(Process(zip(table, self._own.steps, strict=True)))

    def sampled(self, relation: Relation, *, exactly: bool = False) -> Sampled | None:
        """As given, but under replace-one, where a sample has losses of another kind."""
        return super().sampled(relation, exactly=exactly) if relation == "replace_one" else self._own


def process_of(run: Parameters) -> Process:
    """The process that the keywords describe."""
    history = run.get("history")
    if history is not None:
        beside = (*PARAMETERS, "batch_size", "epochs", "sampling", *COMPANIONS)
        refused(run, beside, "give either history or {}, not both")
        if run.get("records") is not None:
            as_cells("records", run["records"])
        return of_history(history)
    refused(run, (), "")
    batches = batches_of(run)
    checked = parameters(run, hint=" (or history=[(noise_multiplier, sample_rate, steps), ...])")
    own = run.get("noise_multiplier")
    if batches is None and not isinstance(own, Replaced):
        noise, rate, steps = checked.values()
        return _Steps(Sampled([noise], [rate], [steps], common_shape(checked)))
    numbers = {name: unwrap(cells) for name, cells in (checked | (batches.cells if batches else {})).items()}
    numbers |= {"noise_multiplier": own} if isinstance(own, Replaced) else {}
    if batches is not None:
        return batches.process(numbers)
    return Gaussian(numbers["noise_multiplier"]).poisson(numbers["sample_rate"]) * cast("Count", numbers["steps"])


def job_or_run(job: Job | None, run: Mapping[str, object]) -> Job:
    """The job that is given, or the one that the keywords of a run describe; one of them, not both."""
    if job is None:
        if not run:
            raise TypeError(f"job is missing: {_EITHER}")
        return process_of(cast("Parameters", run))
    if run:
        raise TypeError(f"a job is given, and so is {', '.join(run)}: {_EITHER}; a job is repeated by job * count")
    return job


def _taken(job: Job | None, keywords: dict[str, object]) -> Job:
    """The job that is given, or that of the run among the keywords, out of which it is taken."""
    run = {name: keywords.pop(name) for name in Parameters.__annotations__ if name in keywords}
    if run and isinstance(delta := keywords.get("delta"), str):
        keywords["delta"] = unwrap(as_delta(delta, run))
    return job_or_run(job, run)


class Verb(Protocol[Of, P, Answer]):
    """A function of a job, which takes a run of DP-SGD in its place."""

    @overload
    def __call__(self, job: Of, *args: P.args, **keywords: P.kwargs) -> Answer: ...
    @overload
    def __call__(self, **run: Unpack[Asked]) -> Answer: ...


def verb(
    options: Mapping[str, object], formerly: Mapping[str, str] | None = None
) -> Callable[[Callable[Concatenate[Of, P], Answer]], Verb[Of, P, Answer]]:
    """Let a function of a job, with `options` behind its own arguments, take a run in place of the job.

    A run is given by the keywords of `fastacct.dpsgd`; its numbers are those of `fastacct.dpsgd.job`, to the last bit.
    Keywords that were called otherwise are `formerly`.
    """

    def decorate(function: Callable[Concatenate[Of, P], Answer]) -> Verb[Of, P, Answer]:
        (shown,) = written_out({**options, **Parameters.__annotations__}, [function])
        arguments = shown.parameters
        own = arguments.keys() - Parameters.__annotations__.keys()
        places = sum(argument.kind is argument.POSITIONAL_OR_KEYWORD for argument in arguments.values())

        @wraps(function)
        def call(*given: Any, **keywords: Any) -> Answer:
            if len(given) > places:
                raise too_many(function.__name__, places, filter(own.__contains__, arguments))
            if given and keywords.keys() <= own:
                try:
                    return function(*given, **keywords)
                except TypeError as error:
                    raise as_usual(error) from None
            for old, new in (formerly or {}).items():
                renamed(keywords, old, new)
            refuse_unknown(keywords, arguments)
            job = given[0] if given else keywords.pop("job", None)
            return function(cast("Of", _taken(job, keywords)), *given[1:], **keywords)

        return call

    return decorate


def refused(
    run: Mapping[str, object], names: Iterable[str], message: str, own: tuple[str, ...] = ("epsilon", "delta", "orders")
) -> None:
    """Refuse keywords by name, and those that are not known; `own` may have been meant, too."""
    refuse_unknown(run, Run.__annotations__, own)
    if run.get("loader") is not None:
        raise TypeError(
            "loader is for verbs of fastacct.dpsgd that have neighbors: write **fastacct.loader_guide(loader).run here"
        )
    relation = as_relation(run.get("neighbors", "add_remove"))
    if relation == "replace_one" and isinstance(run.get("noise_multiplier"), Replaced):
        raise ValueError("noise_multiplier was divided by a sensitivity under replace_one, which would count twice")
    beside = [name for name in names if run.get(name) is not None]
    if beside:
        raise TypeError(message.format(", ".join(beside)))


def of_history(history: Iterable[Block]) -> Process:
    """The process of a heterogeneous run; equal blocks are joined."""
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise TypeError(f"history must be a sequence of (noise_multiplier, sample_rate, steps), not {history!r}")
    columns, rows = _plain_columns(history), list[tuple[float, float, float]]()
    if columns is None:
        rows = _checked_rows(history)
        columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    if not columns.size:
        raise ValueError("history is empty; give at least one (noise_multiplier, sample_rate, steps)")
    if columns[2].sum() < MAX_STEPS:
        noise, rate, count = _merged(columns)
        return _Steps(Sampled(noise, rate, count, order=slice(None) if are_proper(noise, rate) else None))
    try:
        return Process((Gaussian(noise).poisson(rate), int(steps)) for noise, rate, steps in rows)
    except ValueError as error:  # the sum of equal blocks is beyond 2**53
        raise ValueError(f"history: equal blocks are joined, and their {error}") from None


def _are_triples(history: object) -> TypeGuard[list[Sequence[object]]]:
    """Whether it is a list, not too long, of lists and tuples of three."""
    if type(history) is not list or len(history) > 2**20:
        return False
    return {*map(type, history)} <= {tuple, list} and {*map(len, history)} == {3}


def _plain_columns(history: object) -> Floats | None:
    """The columns of a list of plain numbers in their usual range, quickly; None for any other, which may be wrong."""
    if not _are_triples(history):
        return None
    numbers = [*chain.from_iterable(history)]
    if not {*map(type, numbers)} <= {float, int}:
        return None
    try:
        columns = np.array(numbers, dtype=np.float64).reshape(-1, 3).T
    except OverflowError:
        return None
    _, rate, steps = columns
    is_usual = columns.min() >= 0.0 and columns.max() < MAX_STEPS / 2.0**20 and rate.max() <= 1.0
    return columns if is_usual and not (steps % 1.0).any() else None


def _merged(columns: Floats) -> Columns:
    """Rows of noise, rate and count in order, equal ones joined, and without those of no steps."""
    if columns.min(initial=1.0) == 0.0:
        columns = columns[:, columns[2] > 0.0] + 0.0
    noise, rate, count = np.ascontiguousarray(columns[:, np.lexsort(columns[1::-1])])
    is_new = (noise[1:] != noise[:-1]) | (rate[1:] != rate[:-1])
    if is_new.all():
        return noise, rate, count
    first = np.append(0, np.flatnonzero(is_new) + 1)
    return noise[first], rate[first], np.add.reduceat(count, first)


def _checked_rows(history: Iterable[Block]) -> list[tuple[float, float, float]]:
    rows = []
    for i, row in enumerate(history):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str | bytes) or len(row) != 3:
            raise TypeError(f"history[{i}] must be (noise_multiplier, sample_rate, steps), not {row!r}")
        try:
            noise, rate, steps = (as_number(name, value) for name, value in zip(PARAMETERS, row, strict=True))
        except (TypeError, ValueError) as error:
            raise type(error)(f"history[{i}]: {error}") from None
        rows.append((noise, rate, steps))
    return rows


def as_delta(delta: Reals | str | None, run: Mapping[str, object]) -> Cells:
    """delta as numbers; "1/n" and "1/n^1.1" are made of `records`."""
    if not isinstance(delta, str):
        return as_cells("delta", delta)
    match = _POWER.fullmatch(delta.strip())
    if match is None:
        hint = ": it is a text; write it without quotes" if _NUMBER.fullmatch(delta.strip()) else ""
        allowed = 'neither a number nor a power of the records such as "1/n" or "1/n^1.1"'
        raise ValueError(f"delta = {delta!r} is {allowed}{hint}")
    if run.get("records") is None:
        raise TypeError(f"delta = {delta!r} needs records, the number of records of the data set")
    power = float(match.group(1) or 1.0)
    return each(lambda records: _power(records, power), as_cells("records", run["records"]))


def _power(records: float, power: float) -> float:
    """records^-power, never above it: what holds at it holds at the exact power."""
    value = math.pow(records, -power)
    if power == int(power) and power <= 64.0:
        return value if Fraction(value) * Fraction(records) ** int(power) <= 1 else math.nextafter(value, 0.0)
    return value * (1.0 - 1e-15 * (2.0 + power * math.log(records)))  # the decimal and its float differ
