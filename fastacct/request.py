"""What a command is asked for: the training run, the accountant, and how its answer is worded."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import typer

from fastacct import dpsgd
from fastacct.answers import RELATIONS, Answer, rounded_down
from fastacct.parsing import (
    accountant_by_name,
    default_accountant,
    describe_accountant,
    parse_numbers,
    rate_of_batch,
    steps_of_epochs,
)

__all__ = ["CANNOT_MEET", "Setup", "at_least", "sampling", "training", "trainings", "whole"]

CANNOT_MEET = 1
ARGUMENTS = ("noise_multiplier", "sample_rate", "batch_size", "dataset_size", "steps", "epochs")
WHOLE = frozenset({"batch_size", "dataset_size", "steps"})


def whole(text: str) -> int:
    """An integer, also written 1e4 or 10_000."""
    try:
        number = Decimal(str(text).replace("_", "").strip())
    except InvalidOperation:
        number = Decimal("NaN")
    # 1e999999999 is a whole number too, but nobody can wait for its digits
    if not number.is_finite() or number.adjusted() > 30 or number != number.to_integral_value():
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(number)


@dataclasses.dataclass(frozen=True)
class Setup:
    """The accountant and the relation of a command, and how its answer is worded."""

    named: str | None
    """None: the default, or the one whose settings are given."""
    orders: str | None
    conversion: str | None
    neighbors: str

    @property
    def name(self) -> str:
        """Of the accountant."""
        return default_accountant(self.orders, self.conversion) if self.named is None else self.named

    @property
    def accountant(self) -> Any:
        """The configuration object."""
        return accountant_by_name(self.name, self.orders, self.conversion)

    @property
    def keywords(self) -> dict[str, Any]:
        """Of every function of `fastacct.dpsgd`."""
        return {"accountant": self.accountant, "neighbors": self.neighbors}

    @property
    def approximate(self) -> bool:
        """Whether the answer is no bound."""
        return self.name == "clt"

    @property
    def sign(self) -> str:
        """Between a quantity and its value."""
        return "~" if self.approximate else "<="

    def read(self, verb: str, **parameters: Any) -> float:
        """epsilon or delta, by the function whose name says whether it is proven."""
        function = getattr(dpsgd, f"{verb}_approx" if self.approximate else verb)
        return float(function(**parameters, **self.keywords))

    def lower(self, verb: str, **parameters: Any) -> dict[str, float]:
        """The certified lower bound of epsilon or delta, from the accountant that proves one."""
        if self.name != "exact":
            return {}
        return {f"{verb}_lower": float(getattr(dpsgd, f"{verb}_lower")(**parameters, **self.keywords))}

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
        """The answer with everything that its reader has to know."""
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


def at_least(lower: dict[str, float]) -> str:
    """How a sentence ends where the true value has a lower bound."""
    positive = [value for value in lower.values() if value > 0.0]
    return f" (the true value is at least {rounded_down(positive[0])})" if positive else ""


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


def trainings(**texts: str | None) -> list[dict[str, Any]]:
    """Several runs, from options that hold one number, or several with commas.

    Options with one number hold for every run; the others give one run after the other.
    """
    columns = {name: parse_numbers("--" + name.replace("_", "-"), text) for name, text in texts.items() if text}
    length = max(len(column) for column in columns.values())
    for name, column in columns.items():
        if len(column) not in (1, length):
            raise ValueError(f"--{name.replace('_', '-')}: {len(column)} numbers where others have {length}")
    runs = []
    for index in range(length):
        given = {name: column[index % len(column)] for name, column in columns.items()}
        for name in given.keys() & WHOLE:
            if given[name].denominator != 1:
                raise ValueError(f"--{name.replace('_', '-')}: {float(given[name]):g} is not a whole number")
        plain: dict[str, Any] = {name: int(value) if name in WHOLE else float(value) for name, value in given.items()}
        runs.append(training(**{name: plain.get(name) for name in ARGUMENTS}))
    return runs


def _settings(accountant: Any) -> dict[str, Any]:
    known = dataclasses.is_dataclass(accountant) and not isinstance(accountant, type)
    return dataclasses.asdict(accountant) if known else {}


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
