"""The commands of `fastacct`; needs typer, which only `fastacct.cli` checks for."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import typer.core

from fastacct import dpsgd
from fastacct.answers import RELATIONS, Answer, rounded_down, rounded_up
from fastacct.parsing import (
    ACCOUNTANTS,
    CONVERSIONS,
    accountant_by_name,
    describe_accountant,
    parse_orders,
    rate_of_batch,
    steps_of_epochs,
)

__all__ = ["app"]

CANNOT_MEET, INVALID = 1, 2
DEFAULT_ORDERS = "1.5,2,3,4,6,8,12,16,24,32,48,64"


class FriendlyGroup(typer.core.TyperGroup):
    """Prints an error as one line on stderr, exit code 2, where Python would show a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, TypeError, OSError, ImportError) as error:
            typer.echo(f"error: {_message(error)}", err=True)
            raise typer.Exit(INVALID) from None


app = typer.Typer(
    cls=FriendlyGroup,
    help="Certified privacy accounting for DP-SGD (Poisson sampling). Every command has --json.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def whole(text: str) -> int:
    """An integer, also written 1e4 or 10_000."""
    try:
        number = Fraction(str(text).replace("_", ""))
    except (ValueError, ZeroDivisionError):
        number = Fraction(1, 2)
    if number.denominator != 1:
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(number)


Noise = Annotated[float, typer.Option(help="Standard deviation of the noise / clipping norm.")]
Rate = Annotated[float | None, typer.Option(help="Poisson sampling probability of a record in a step.")]
Batch = Annotated[
    int | None, typer.Option(help="Expected batch size (with --dataset-size).", parser=whole, metavar="INT")
]
Size = Annotated[int | None, typer.Option(help="Number of records, with --batch-size.", parser=whole, metavar="INT")]
Steps = Annotated[int | None, typer.Option(help="Number of steps.", parser=whole, metavar="INT")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data, in place of --steps.")]
Delta = Annotated[float, typer.Option(help="Delta of the guarantee.")]
Epsilon = Annotated[float, typer.Option(help="Epsilon of the guarantee.")]
Orders = Annotated[
    str | None, typer.Option(help="Renyi orders, e.g. 1.5,2-64,1.1-10.9/0.1. Default: the best real order.")
]
AccountantName = Annotated[str, typer.Option(help=f"One of {', '.join(ACCOUNTANTS)}.")]
Conversion = Annotated[str | None, typer.Option(help=f"RDP to (epsilon, delta): one of {', '.join(CONVERSIONS)}.")]
Neighbors = Annotated[str, typer.Option(help="Neighbouring relation, e.g. add_remove.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command(epilog="Example: `fastacct epsilon --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5`")
def epsilon(
    noise_multiplier: Noise,
    delta: Delta,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    steps: Steps = None,
    epochs: Epochs = None,
    accountant: AccountantName = "rdp",
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The epsilon that a training run guarantees at a given delta."""
    setup = Setup(accountant, orders, conversion, neighbors)
    run = training(noise_multiplier, sample_rate, batch_size, dataset_size, steps, epochs)
    value = setup.read("epsilon", **run, delta=delta)
    shown = f"{setup.sign} {rounded_up(value)}" if math.isfinite(value) else "= inf: no finite bound can be certified"
    sentence = f"epsilon {shown} at delta = {delta:g}"
    setup.print("epsilon", {"epsilon": value}, {**run, "delta": delta}, [sentence], as_json)


@app.command(epilog="Example: `fastacct delta --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --epsilon 3`")
def delta(
    noise_multiplier: Noise,
    epsilon: Epsilon,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    steps: Steps = None,
    epochs: Epochs = None,
    accountant: AccountantName = "rdp",
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The delta that a training run guarantees at a given epsilon."""
    setup = Setup(accountant, orders, conversion, neighbors)
    run = training(noise_multiplier, sample_rate, batch_size, dataset_size, steps, epochs)
    value = setup.read("delta", **run, epsilon=epsilon)
    sentence = f"delta {setup.sign} {rounded_up(value)} at epsilon = {epsilon:g}"
    setup.print("delta", {"delta": value}, {**run, "epsilon": epsilon}, [sentence], as_json)


@app.command(epilog="Example: `fastacct rdp --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --orders 2-64`")
def rdp(
    noise_multiplier: Noise,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    steps: Steps = None,
    epochs: Epochs = None,
    orders: Annotated[str, typer.Option(help="Renyi orders, e.g. 1.5,2-64,1.1-10.9/0.1.")] = DEFAULT_ORDERS,
    as_json: Json = False,
) -> None:
    """The Renyi DP of a training run, order by order (one step unless --steps or --epochs says otherwise)."""
    setup = Setup("rdp", None, None, "add_remove")
    once = 1 if steps is None and epochs is None else steps
    run = training(noise_multiplier, sample_rate, batch_size, dataset_size, once, epochs)
    listed = parse_orders(orders)
    values = np.asarray(dpsgd.rdp(**run, orders=np.array(listed)), dtype=np.float64).tolist()
    rows = (f"{order:>8g}  {rounded_up(value)}" for order, value in zip(listed, values, strict=True))
    lines = ["   order  RDP <=", *rows]
    setup.print("rdp", {"orders": list(listed), "rdp": values}, run, lines, as_json, summary="Renyi DP, order by order")


@app.command(
    name="noise-multiplier",
    epilog="Example: `fastacct noise-multiplier --epsilon 3 --delta 1e-5 --sample-rate 0.004 --epochs 60`",
)
def noise_multiplier(
    epsilon: Epsilon,
    delta: Delta,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    steps: Steps = None,
    epochs: Epochs = None,
    accountant: AccountantName = "rdp",
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The smallest noise multiplier that is certified to meet a target."""
    setup = Setup(accountant, orders, conversion, neighbors)
    run = training(None, sample_rate, batch_size, dataset_size, steps, epochs)
    value = float(dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, **run, **setup.keywords))
    found = f"noise multiplier {rounded_up(value)} is enough for ({epsilon:g}, {delta:g})"
    failed = f"no noise multiplier is certified to meet epsilon = {epsilon:g} at delta = {delta:g}"
    inputs = {"epsilon": epsilon, "delta": delta, **run}
    setup.print_target("noise-multiplier", value, math.isfinite(value), found, failed, inputs, as_json)


@app.command(epilog="Example: `fastacct steps --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --sample-rate 0.01`")
def steps(
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: Noise,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    accountant: AccountantName = "rdp",
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The largest number of steps that is certified to meet a target."""
    setup = Setup(accountant, orders, conversion, neighbors)
    rate, _ = sampling(sample_rate, batch_size, dataset_size)
    run: dict[str, Any] = {"noise_multiplier": noise_multiplier, "sample_rate": rate}
    value = float(dpsgd.steps(epsilon=epsilon, delta=delta, **run, **setup.keywords))
    found = f"any number of steps stays within ({epsilon:g}, {delta:g})"
    if math.isfinite(value):
        found = f"{value:,.0f} steps ({rounded_down(value * rate)} epochs) stay within ({epsilon:g}, {delta:g})"
    failed = f"not even one step is certified to meet epsilon = {epsilon:g} at delta = {delta:g}"
    answer: float = int(value) if math.isfinite(value) else value
    setup.print_target("steps", answer, value >= 1, found, failed, {"epsilon": epsilon, "delta": delta, **run}, as_json)


@app.command(
    name="sample-rate",
    epilog="Example: `fastacct sample-rate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --steps 10000`",
)
def sample_rate(
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: Noise,
    steps: Annotated[int, typer.Option(help="Number of steps.", parser=whole, metavar="INT")],
    accountant: AccountantName = "rdp",
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The largest sample rate that is certified to meet a target."""
    setup = Setup(accountant, orders, conversion, neighbors)
    run: dict[str, Any] = {"noise_multiplier": noise_multiplier, "steps": steps}
    value = float(dpsgd.sample_rate(epsilon=epsilon, delta=delta, **run, **setup.keywords))
    found = f"sample rate {rounded_down(value)} stays within ({epsilon:g}, {delta:g})"
    failed = f"no positive sample rate is certified to meet epsilon = {epsilon:g} at delta = {delta:g}"
    inputs = {"epsilon": epsilon, "delta": delta, **run}
    setup.print_target("sample-rate", value, value > 0, found, failed, inputs, as_json)


@app.command(epilog="Example: `fastacct sweep examples/sweep.toml`")
def sweep(
    config: Annotated[Path, typer.Argument(help="TOML file: axes, accountant, output, picture.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing output files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Every combination of the axes in a TOML file: a table of results, and a picture."""
    from fastacct.jobs import run_sweep

    typer.echo(run_sweep(config, overwrite, progress=not quiet, as_json=as_json))


@app.command(epilog="Example: `fastacct published examples/published_dp_sgd.toml`")
def published(
    file: Annotated[Path | None, typer.Argument(help="Default: examples/published_dp_sgd.toml.")] = None,
    as_json: Json = False,
) -> None:
    """Recompute published DP-SGD figures and compare; exit code 1 if one does not match."""
    from fastacct.jobs import run_published

    text, all_match = run_published(file, as_json)
    typer.echo(text)
    if not all_match:
        raise typer.Exit(CANNOT_MEET)


@app.command(epilog="Example: `fastacct version --json`")
def version(as_json: Json = False) -> None:
    """The version of fastacct."""
    from fastacct.sweep import package_version

    number = package_version()
    typer.echo(Answer("version", {"version": number}, {}, [f"fastacct {number}"]).text(as_json))


# -- shared by the commands ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Setup:
    """The accountant and the relation of a command, and how its answer is worded."""

    name: str
    orders: str | None
    conversion: str | None
    neighbors: str

    @property
    def accountant(self) -> Any:
        return accountant_by_name(self.name, self.orders, self.conversion)

    @property
    def keywords(self) -> dict[str, Any]:
        return {"accountant": self.accountant, "neighbors": self.neighbors}

    @property
    def approximate(self) -> bool:
        return self.name == "clt"

    @property
    def sign(self) -> str:
        return "~" if self.approximate else "<="

    def read(self, verb: str, **parameters: Any) -> float:
        """epsilon or delta, by the function whose name says whether it is proven."""
        function = getattr(dpsgd, f"{verb}_approx" if self.approximate else verb)
        return float(function(**parameters, **self.keywords))

    def print(
        self,
        command: str,
        result: dict[str, Any],
        inputs: dict[str, Any],
        sentences: list[str],
        as_json: bool,
        guarantee: str = "certified upper bound",
        summary: str = "",
    ) -> None:
        if self.approximate:
            guarantee = "none (an approximation)"
        summary = summary or describe_accountant(self.accountant)
        relation = RELATIONS.get(self.neighbors, self.neighbors)
        settings = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in inputs.items())
        sentences = [
            *sentences,
            f"Given: {settings}.",
            f"Guarantee: {guarantee}, for {relation},",
            "when every step samples each record independently (Poisson).",
            f"Accountant: {summary}.",
        ]
        context = {
            "guarantee": guarantee,
            "neighbors": self.neighbors,
            "sampler": "poisson",
            "accountant": {"name": self.name, **_settings(self.accountant)},
        }
        typer.echo(Answer(command, result, inputs, sentences, context).text(as_json))

    def print_target(
        self, command: str, value: float, met: bool, found: str, failed: str, inputs: dict[str, Any], as_json: bool
    ) -> None:
        """The answer of a calibration; exit code 1 if the target cannot be met."""
        result = {command.replace("-", "_"): value, "met": met}
        guarantee = "certified to meet the target" if met else "none (the target cannot be certified)"
        self.print(command, result, inputs, [found if met else failed], as_json, guarantee)
        if not met:
            raise typer.Exit(CANNOT_MEET)


def sampling(rate: float | None, batch_size: int | None, dataset_size: int | None) -> tuple[float, Fraction | None]:
    """The sample rate, and the exact number of batches in an epoch where there is one."""
    if rate is not None and batch_size is None and dataset_size is None:
        exact = Fraction(repr(rate)) if math.isfinite(rate) else Fraction(0)
        return rate, 1 / exact if exact > 0 else None
    if rate is not None or batch_size is None or dataset_size is None:
        raise ValueError("give either --sample-rate, or both --batch-size and --dataset-size")
    value = rate_of_batch(batch_size, dataset_size)
    return value, Fraction(dataset_size, batch_size) if batch_size else None


def training(
    noise_multiplier: float | None,
    sample_rate: float | None,
    batch_size: int | None,
    dataset_size: int | None,
    steps: int | None,
    epochs: float | None,
) -> dict[str, Any]:
    """The keywords of a training run (without a noise multiplier when that is what is asked for)."""
    rate, batches = sampling(sample_rate, batch_size, dataset_size)
    if (steps is None) == (epochs is None):
        raise ValueError("give either --steps or --epochs")
    if epochs is not None:
        if batches is None:
            raise ValueError("--epochs needs a positive sample rate")
        steps = steps_of_epochs(epochs, batches)
    run: dict[str, Any] = {} if noise_multiplier is None else {"noise_multiplier": noise_multiplier}
    return {**run, "sample_rate": rate, "steps": steps}


def _settings(accountant: Any) -> dict[str, Any]:
    known = dataclasses.is_dataclass(accountant) and not isinstance(accountant, type)
    return dataclasses.asdict(accountant) if known else {}


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
