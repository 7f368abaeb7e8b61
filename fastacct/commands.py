"""The commands of `fastacct`; needs typer, which only `fastacct.cli` checks for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import typer.core

from fastacct import dpsgd
from fastacct.answers import Answer, rounded_down, rounded_up
from fastacct.parsing import ACCOUNTANTS, CONVERSIONS, parse_orders
from fastacct.request import CANNOT_MEET, Setup, at_least, sampling, training, trainings, whole

__all__ = ["app"]

INVALID = 2
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
    str | None, typer.Option(help="Renyi orders (rdp), e.g. 1.5,2-64,1.1-10.9/0.1. Default: the best real order.")
]
AccountantName = Annotated[
    str | None,
    typer.Option(help=f"One of {', '.join(ACCOUNTANTS)}. Default: exact; rdp with --orders or --conversion."),
]
Conversion = Annotated[str | None, typer.Option(help=f"RDP to (epsilon, delta): one of {', '.join(CONVERSIONS)}.")]
Neighbors = Annotated[str, typer.Option(help="Neighbouring relation, e.g. add_remove.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output files.")]
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
    accountant: AccountantName = None,
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
    lower = setup.lower("epsilon", **run, delta=delta)
    sentence = f"epsilon {shown} at delta = {delta:g}{at_least(lower)}"
    setup.print("epsilon", {"epsilon": value, **lower}, {**run, "delta": delta}, [sentence], as_json)


@app.command(epilog="Example: `fastacct delta --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --epsilon 3`")
def delta(
    noise_multiplier: Noise,
    epsilon: Epsilon,
    sample_rate: Rate = None,
    batch_size: Batch = None,
    dataset_size: Size = None,
    steps: Steps = None,
    epochs: Epochs = None,
    accountant: AccountantName = None,
    orders: Orders = None,
    conversion: Conversion = None,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """The delta that a training run guarantees at a given epsilon."""
    setup = Setup(accountant, orders, conversion, neighbors)
    run = training(noise_multiplier, sample_rate, batch_size, dataset_size, steps, epochs)
    value = setup.read("delta", **run, epsilon=epsilon)
    lower = setup.lower("delta", **run, epsilon=epsilon)
    sentence = f"delta {setup.sign} {rounded_up(value)} at epsilon = {epsilon:g}{at_least(lower)}"
    setup.print("delta", {"delta": value, **lower}, {**run, "epsilon": epsilon}, [sentence], as_json)


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
    accountant: AccountantName = None,
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
    accountant: AccountantName = None,
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
    accountant: AccountantName = None,
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
    overwrite: Overwrite = False,
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
    from fastacct.published import run_published

    text, all_match = run_published(file, as_json)
    typer.echo(text)
    if not all_match:
        raise typer.Exit(CANNOT_MEET)


@app.command(
    epilog="Example: `fastacct curve --noise-multiplier 0.8,1,2 --sample-rate 0.01 --steps 1000 --picture c.png`"
)
def curve(
    noise_multiplier: Annotated[str, typer.Option(help="Noise multiplier, or several with commas.", metavar="LIST")],
    sample_rate: Annotated[str | None, typer.Option(help="Poisson sampling probability.", metavar="LIST")] = None,
    batch_size: Annotated[str | None, typer.Option(help="In place of the sample rate.", metavar="LIST")] = None,
    dataset_size: Annotated[str | None, typer.Option(help="With --batch-size.", metavar="LIST")] = None,
    steps: Annotated[str | None, typer.Option(help="Number of steps.", metavar="LIST")] = None,
    epochs: Annotated[str | None, typer.Option(help="In place of --steps.", metavar="LIST")] = None,
    kind: Annotated[str, typer.Option(help="privacy (delta over epsilon) or tradeoff (of attacks).")] = "privacy",
    smallest_delta: Annotated[float, typer.Option(help="Where a privacy curve ends; as small as 1e-300.")] = 1e-12,
    points: Annotated[int, typer.Option(help="Points of a privacy curve.", parser=whole, metavar="INT")] = 201,
    csv: Annotated[Path | None, typer.Option(help="Write the points to this file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves in this .png file.")] = None,
    overwrite: Overwrite = False,
    neighbors: Neighbors = "add_remove",
    as_json: Json = False,
) -> None:
    """Privacy curves or trade-off curves of one or several training runs, as a table and a picture.

    Lists of the same length are read side by side; a single number holds for every run.
    """
    from fastacct.jobs import run_curves

    runs = trainings(
        noise_multiplier=noise_multiplier, sample_rate=sample_rate, batch_size=batch_size, dataset_size=dataset_size,
        steps=steps, epochs=epochs,
    )  # fmt: skip
    typer.echo(run_curves(runs, kind, neighbors, smallest_delta, points, csv, picture, overwrite, as_json))


@app.command(epilog="Example: `fastacct tightness --count 200 --csv tightness.csv --picture tightness.png`")
def tightness(
    count: Annotated[int, typer.Option(help="Random runs of each regime.", parser=whole, metavar="INT")] = 1000,
    regime: Annotated[list[str] | None, typer.Option(help="everyday, broad or small-delta; repeatable.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the random runs.", parser=whole, metavar="INT")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every value to this file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the distributions in this .png file.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """How far each accountant is from the truth, on random runs: a table, and the values behind it."""
    from fastacct.jobs import run_tightness

    typer.echo(run_tightness(count, regime, seed, csv, picture, overwrite, as_json))


@app.command(epilog="Example: `fastacct version --json`")
def version(as_json: Json = False) -> None:
    """The version of fastacct."""
    from fastacct.sweep import package_version

    number = package_version()
    typer.echo(Answer("version", {"version": number}, {}, [f"fastacct {number}"]).text(as_json))


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
