"""The one table of options, and what people write in them: numbers, batches, epochs, orders, accountants."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import fastacct as fa
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.cli.answers import Answer
from fastacct.core.inputs import as_choice
from fastacct.curve import Run
from fastacct.run import as_delta, rate_of_batch, steps_of_epochs

T = TypeVar("T")

ACCOUNTANTS: Final[dict[str, Callable[[], fa.Method]]] = {
    "exact": fa.Exact,
    "rdp": fa.RDP,
    "basic": fa.BasicComposition,
    "advanced": fa.AdvancedComposition,
    "zcdp": fa.ZCDPComposition,
    "analytic-gaussian": fa.AnalyticGaussian,
    "clt": fa.CLT,
}
MAX_ORDERS: Final = 100_000
LONGEST: Final = 30
"""Digits of a whole number: 1e999999999 is one too, but nobody can wait for its digits."""


# -- numbers ---------------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number, also written 1e4 or 10_000; inf only if it says so."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and "inf" not in text.lower()):
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a number")
    return value


def whole(text: str) -> int:
    """An integer, also written 1e4 or 10_000."""
    try:
        value = Decimal(text.replace("_", "").strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value.adjusted() > LONGEST or value != value.to_integral_value():
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a whole number")
    return int(value)


def numbers(text: str) -> list[float]:
    """One number, or several separated by commas."""
    return [number(part) for part in text.split(",")]


def wholes(text: str) -> list[int]:
    """One integer, or several separated by commas."""
    return [whole(part) for part in text.split(",")]


def delta_of_records(text: str) -> float | str:
    """A delta: a number, or 1/n and 1/n^1.1, which `--records` makes one."""
    return text if text.replace(" ", "").startswith("1/") else number(text)


def parse_orders(text: str) -> tuple[float, ...]:
    """Read Renyi orders such as "1.5, 2-64, 128" or "1.1-10.9/0.1" (from-to/step, both ends included).

    Decimal steps are exact: "1.1-1.3/0.1" is (1.1, 1.2, 1.3), with no rounding carried from one order to the next. A
    part that is not a number or a range, or an empty range, is a ValueError.

    Examples
    --------
    >>> parse_orders("1.5,2-4,8-9/0.5")
    (1.5, 2.0, 3.0, 4.0, 8.0, 8.5, 9.0)
    """
    orders: list[float] = []
    for part in text.split(","):
        bounds, slash, step_text = part.partition("/")
        start_text, dash, stop_text = bounds.partition("-")
        try:
            start = Decimal(start_text.strip())
            stop = Decimal(stop_text.strip()) if dash else start
            step = Decimal(step_text.strip()) if slash else Decimal(1)
            understood = all(value.is_finite() for value in (start, stop, step)) and (bool(dash) or not slash)
        except InvalidOperation:
            understood = False
        if not understood:
            raise ValueError(f"orders: {part.strip()!r} is not a number or a range; write 1.5,2-64,1.1-10.9/0.1")
        if step <= 0 or stop < start:
            raise ValueError(f"orders: the range {part.strip()!r} is empty; write from-to/step with a positive step")
        count = int((stop - start) / step) + 1
        if len(orders) + count > MAX_ORDERS:
            raise ValueError(f"orders: more than {MAX_ORDERS:,} orders")
        orders.extend(float(start + index * step) for index in range(count))
    return tuple(orders)


# -- the table -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Option:
    """How an option is read, and its line of help; without `read` it is a switch."""

    help: str
    read: Callable[[str], object] | None = None
    metavar: str = "X"
    default: object = None
    choices: tuple[str, ...] | None = None
    flags: tuple[str, ...] = ()
    """Default: the name with dashes."""
    repeated: bool = False

    def add_to(self, parser: argparse.ArgumentParser, name: str, required: bool) -> frozenset[str]:
        """Make it an option of a command; returns how it is written there."""
        flags = self.flags or (f"--{name.replace('_', '-')}",)
        if self.read is None:
            parser.add_argument(*flags, dest=name, action="store_true", help=self.help)
        elif not flags[0].startswith("-"):
            parser.add_argument(name, type=self.read, metavar=self.metavar, help=self.help)
        else:
            parser.add_argument(
                *flags, dest=name, type=self.read, metavar=None if self.choices else self.metavar,
                default=self.default, choices=self.choices, required=required, help=self.help,
                action="append" if self.repeated else "store",
            )  # fmt: skip
        return frozenset(flags)


class Options(argparse.Namespace):
    """Every option there is. A command has some of them; the numbers of a run may be lists where it says so."""

    noise_multiplier: Annotated[list[float], Option("standard deviation of the noise / clipping norm", numbers)]
    sample_rate: Annotated[list[float] | None, Option("Poisson sampling probability of a record in a step", numbers)]
    batch_size: Annotated[list[int] | None, Option("expected batch size, with --records", wholes, "N")]
    records: Annotated[
        list[int] | None,
        Option(
            "records in the data set, for --batch-size and --delta 1/n",
            wholes,
            "N",
            flags=("--records", "--dataset-size"),
        ),
    ]
    steps: Annotated[list[int] | None, Option("number of steps", wholes, "N")]
    epochs: Annotated[list[float] | None, Option("passes over the data, in place of --steps", numbers)]
    epsilon: Annotated[float, Option("epsilon of the guarantee", number)]
    delta: Annotated[
        float | str, Option("delta of the guarantee; with --records also 1/n or 1/n^1.1", delta_of_records)
    ]
    accountant: Annotated[
        str | None,
        Option(f"{', '.join(ACCOUNTANTS)}; default: exact, or rdp with --orders or --conversion", str, "NAME"),
    ]
    orders: Annotated[str | None, Option("Renyi orders, e.g. 1.5,2-64,1.1-10.9/0.1; default: the best", str, "LIST")]
    conversion: Annotated[str | None, Option(f"of Renyi DP to (epsilon, delta): {', '.join(CONVERSIONS)}", str, "NAME")]
    neighbors: Annotated[
        str, Option("add_remove (default), add, remove, zero_out or replace_one", str, "RELATION", "add_remove")
    ]
    kind: Annotated[
        str,
        Option("delta over epsilon (default), or errors of attacks", str, "", "privacy", ("privacy", "tradeoff")),
    ]
    smallest_delta: Annotated[
        float, Option("where a privacy curve ends; 1e-12, as small as 1e-300", number, "X", 1e-12)
    ]
    points: Annotated[int, Option("points of a privacy curve; 201", whole, "N", 201)]
    count: Annotated[int, Option("random runs of each regime; 1000", whole, "N", 1000)]
    regime: Annotated[list[str] | None, Option("everyday, broad or small-delta", str, "NAME", repeated=True)]
    seed: Annotated[int | None, Option("of the random runs", whole, "N")]
    config: Annotated[Path, Option("TOML file: axes, accountant, output, picture", Path, "FILE", flags=("config",))]
    csv: Annotated[Path | None, Option("write every value to this .csv file", Path, "FILE")]
    picture: Annotated[Path | None, Option("draw in this .png, .pdf or .svg file", Path, "FILE")]
    overwrite: Annotated[bool, Option("replace existing files")]
    quiet: Annotated[bool, Option("no progress bar")]
    json: Annotated[bool, Option("print one JSON document")]


SAMPLE: Final = ("sample_rate", "batch_size", "records")
RUN: Final = (*SAMPLE, "steps", "epochs")
HOW: Final = ("accountant", "orders", "conversion", "neighbors")


class Command(NamedTuple):
    """A command, its options (names in `Options`), and an example."""

    run: Callable[[Options], Answer]
    needs: Sequence[str]
    takes: Sequence[str]
    example: str


COMMANDS: Final[dict[str, Command]] = {}


def command(
    needs: Sequence[str] = (), takes: Sequence[str] = (), example: str = ""
) -> Callable[[Callable[[Options], Answer]], Callable[[Options], Answer]]:
    """Make a function a command: its name with dashes, its first line the help."""

    def register(function: Callable[[Options], Answer]) -> Callable[[Options], Answer]:
        COMMANDS[function.__name__.replace("_", "-")] = Command(function, needs, takes, example)
        return function

    return register


# -- what they mean --------------------------------------------------------------------------------------------------


def sampling(rate: float | None, batch_size: int | None, records: int | None) -> tuple[float, tuple[float, ...] | None]:
    """The sample rate, and what counts the steps of an epoch beside its number, where anything does."""
    if rate is not None and batch_size is None and records is None:
        if rate > 1.0:
            raise ValueError(
                f"sample_rate = {rate:g}: must be between 0 and 1. A batch size? Give --batch-size and --records"
            )
        return rate, (rate,) if rate > 0.0 else None
    if rate is not None or batch_size is None or records is None:
        raise ValueError("give either --sample-rate, or both --batch-size and --records")
    if records < 1:
        raise ValueError(f"records = {records}: must be at least 1")
    if not 0 <= batch_size <= records:
        raise ValueError(f"batch_size = {batch_size}: must be between 0 and records = {records}")
    return rate_of_batch(batch_size, records), (batch_size, records) if batch_size else None


def runs(options: Options) -> list[Run]:
    """The training runs of some options; one number holds for every run, lists are read side by side."""
    columns: dict[str, list[float] | list[int]] = {
        name: found for name in ("noise_multiplier", *RUN) if (found := getattr(options, name, None)) is not None
    }
    length = max((len(column) for column in columns.values()), default=1)
    for name, column in columns.items():
        if len(column) not in (1, length):
            raise ValueError(f"--{name.replace('_', '-')}: {len(column)} numbers where others have {length}")

    def at(index: int, column: list[float] | list[int] | None) -> float | None:
        return None if column is None else column[index % len(column)]

    found = []
    for index in range(length):
        given = {name: at(index, columns.get(name)) for name in ("noise_multiplier", *RUN)}
        batch, records, steps, epochs = (given[name] for name in ("batch_size", "records", "steps", "epochs"))
        if given["sample_rate"] is not None and isinstance(getattr(options, "delta", None), str):
            records = None  # they are for delta alone
        rate, batches = sampling(
            given["sample_rate"], None if batch is None else int(batch), None if records is None else int(records)
        )
        if (steps is None) == (epochs is None):
            raise ValueError("give either --steps or --epochs")
        if epochs is not None:
            if batches is None:
                raise ValueError("--epochs needs a positive sample rate")
            if not (math.isfinite(epochs) and epochs >= 0):
                raise ValueError(f"epochs = {epochs}: must be a finite number, at least 0")
            steps = steps_of_epochs(epochs, *batches)
        noise = given["noise_multiplier"]
        found.append(Run(math.nan if noise is None else noise, rate, int(steps or 0)))
    return found


def one_delta(options: Options) -> float:
    """The delta of the guarantee as a number; 1/n is made of the only number of records."""
    records = None if options.records is None else only(options.records)
    return float(as_delta(options.delta, {"records": records}))


def one_run(options: Options) -> Run:
    """The only training run; the noise multiplier is NaN where it is what is asked for."""
    return only(runs(options))


def only(values: Sequence[T]) -> T:
    """The one value of an option that may have several."""
    if len(values) != 1:
        raise ValueError("give one number per option; several runs side by side are for the command curve")
    return values[0]


def default_accountant(orders: str | None = None, conversion: str | None = None) -> str:
    """The accountant where none is named: "exact", or "rdp" if it is given settings of "rdp"."""
    return "exact" if orders is None and conversion is None else "rdp"


def accountant_by_name(name: str, orders: str | None = None, conversion: str | None = None) -> fa.Method:
    """The accountant that a command line or a file names.

    Settings that it does not have are refused, never ignored: `orders` and `conversion` are settings of "rdp".
    """
    if name not in ACCOUNTANTS:
        raise ValueError(f"accountant = {name!r}: must be one of {', '.join(ACCOUNTANTS)}")
    chosen = None if conversion is None else as_choice("conversion", conversion, CONVERSIONS)
    settings = [word for word, value in (("orders", orders), ("conversion", conversion)) if value is not None]
    if settings and name != "rdp":
        raise ValueError(f"{' and '.join(settings)}: only the accountant rdp has this setting, not {name}")
    if not settings:
        return ACCOUNTANTS[name]()
    listed = None if orders is None else parse_orders(orders)
    return fa.RDP(orders=listed) if chosen is None else fa.RDP(orders=listed, conversion=chosen)
