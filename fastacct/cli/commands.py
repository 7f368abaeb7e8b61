"""The commands of `fastacct`, and how each is asked for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import numpy as np

import fastacct as fa
from fastacct import plot
from fastacct import tightness as study
from fastacct._figures import check
from fastacct.cli.answers import RELATIONS, Answer, render, rounded_down, rounded_up, shown
from fastacct.cli.options import (
    HOW,
    RUN,
    SAMPLE,
    Options,
    accountant_by_name,
    command,
    default_accountant,
    one_delta,
    one_run,
    only,
    parse_orders,
    runs,
)
from fastacct.core.files import refuse_existing
from fastacct.core.inputs import as_choice
from fastacct.core.relations import Direction
from fastacct.curve import (
    PrivacyCurve,
    TradeoffCurve,
    privacy_curve,
    tradeoff_curve,
    write_csv,
)
from fastacct.sweep import describe_accountant

__all__ = ["tightness_answer"]

T = TypeVar("T")
_CURVES: Final[tuple[Literal["add_remove", "remove", "add"], ...]] = ("add_remove", "remove", "add")
CANNOT_MEET: Final = 1
DEFAULT_ORDERS: Final = "1.5,2,3,4,6,8,12,16,24,32,48,64"
CURVE_ROWS: Final = 6


# -- one number ------------------------------------------------------------------------------------------------------


@command(
    ["noise_multiplier", "delta"], [*RUN, *HOW], "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5"
)
def epsilon(given: Options) -> Answer:
    """The epsilon that a training run guarantees at a given delta."""
    return _guarantee(given, "epsilon", {"delta": one_delta(given)})


@command(
    ["noise_multiplier", "epsilon"], [*RUN, *HOW], "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --epsilon 3"
)
def delta(given: Options) -> Answer:
    """The delta that a training run guarantees at a given epsilon."""
    return _guarantee(given, "delta", {"epsilon": given.epsilon})


@command(
    ["noise_multiplier"], [*RUN, "orders"], "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --orders 2-64"
)
def rdp(given: Options) -> Answer:
    """The Renyi DP of a training run, order by order (one step unless --steps or --epochs says otherwise)."""
    if given.steps is None and given.epochs is None:
        given.steps = [1]
    run, orders = one_run(given)._asdict(), parse_orders(given.orders or DEFAULT_ORDERS)
    values = np.asarray(fa.dpsgd.rdp(**run, orders=np.array(orders)), dtype=np.float64).tolist()
    rows = [f"{order:>8g}  {rounded_up(value)}" for order, value in zip(orders, values, strict=True)]
    how = How("rdp", fa.RDP(), "add_remove", "Renyi DP, order by order")
    return how.answer("rdp", {"orders": orders, "rdp": values}, run, ["   order  RDP <=", *rows])


@command(["epsilon", "delta"], [*RUN, *HOW], "--epsilon 3 --delta 1e-5 --sample-rate 0.004 --epochs 60")
def noise_multiplier(given: Options) -> Answer:
    """The smallest noise multiplier that is certified to meet a target."""
    given.noise_multiplier = [math.nan]
    return _calibration(given, "noise_multiplier")


@command(
    ["epsilon", "delta", "noise_multiplier"],
    [*SAMPLE, *HOW],
    "--epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --sample-rate 0.01",
)
def steps(given: Options) -> Answer:
    """The largest number of steps that is certified to meet a target."""
    given.steps = [1]
    return _calibration(given, "steps")


@command(
    ["epsilon", "delta", "noise_multiplier"],
    ["steps", "epochs", "records", *HOW],
    "--epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --steps 10000",
)
def sample_rate(given: Options) -> Answer:
    """The largest sample rate that is certified to meet a target."""
    return _calibration(given, "sample_rate")


def _calibration(given: Options, wanted: str) -> Answer:
    """The answer of an inverse verb, whose own entry in the run is not used."""
    how, delta, run = How.of(given), one_delta(given), _known(given, wanted)
    inputs = {"epsilon": given.epsilon, "delta": delta, **run}
    value = float(getattr(fa.dpsgd, wanted)(**inputs, **how.keywords()))
    target = f"({given.epsilon:g}, {delta:g})"
    if wanted == "noise_multiplier":
        met, found = math.isfinite(value), f"noise multiplier {rounded_up(value)} is enough for {target}"
        nothing = "no noise multiplier"
    elif wanted == "sample_rate":
        met, found = value > 0.0, f"sample rate {rounded_down(value)} stays within {target}"
        nothing = "no positive sample rate"
    elif math.isinf(value):
        met, found, nothing = True, f"any number of steps stays within {target}", ""
    else:
        value, epochs = int(value), rounded_down(value * run["sample_rate"])
        met, found = value >= 1, f"{value:,} steps ({epochs} epochs) stay within {target}"
        nothing = "not even one step"
    sentence = found if met else f"{nothing} is certified to meet epsilon = {given.epsilon:g} at delta = {delta:g}"
    guarantee = "certified to meet the target" if met else "none (the target cannot be certified)"
    name = wanted.replace("_", "-")
    return how.answer(name, {wanted: value, "met": met}, inputs, [sentence], guarantee, 0 if met else CANNOT_MEET)


def _known(given: Options, wanted: str) -> dict[str, Any]:
    """The keywords of a run but for the one that is asked for."""
    if wanted != "sample_rate":
        run = one_run(given)._asdict()
        del run[wanted]
        return run
    if (given.steps is None) == (given.epochs is None):
        raise ValueError("give either --steps or --epochs")
    if given.records is not None and not isinstance(given.delta, str):
        raise ValueError("--records is for --delta 1/n where the sample rate is asked for")
    named = {"noise_multiplier": given.noise_multiplier, "steps": given.steps, "epochs": given.epochs}
    return {name: only(values) for name, values in named.items() if values is not None}


def _guarantee(given: Options, verb: str, target: dict[str, float]) -> Answer:
    """epsilon or delta, by the function whose name says whether it is proven; the lower bound where there is one."""
    how, run = How.of(given), one_run(given)._asdict()
    keywords = {**run, **target, **how.keywords()}
    result, ending = {}, ""
    if how.name == "exact":
        lower, value, _ = getattr(fa.dpsgd, f"{verb}_bounds")(**keywords)
        result = {verb: float(value), f"{verb}_lower": float(lower)}
        if math.isinf(lower):
            ending = ": the true value is infinite"
        elif lower > 0.0:
            ending = f" (the true value is at least {rounded_down(lower)})"
    else:
        value = float(getattr(fa.dpsgd, verb if how.accountant.certified else f"{verb}_approx")(**keywords))
        result = {verb: value}
    ((name, at),) = target.items()
    sentence = f"{verb} {how.sign} {rounded_up(value)} at {name} = {at:g}{ending}"
    if math.isinf(value):
        sentence = f"{verb} = inf at {name} = {at:g}{ending or ': no finite bound can be certified'}"
    return how.answer(verb, result, {**run, **target}, [sentence])


@dataclasses.dataclass(frozen=True)
class How:
    """The accountant and the relation of a command, and how its answer is worded."""

    name: str
    accountant: fa.Method
    neighbors: str
    summary: str

    @classmethod
    def of(cls, given: Options) -> How:
        """From the options."""
        name = given.accountant or default_accountant(given.orders, given.conversion)
        accountant = accountant_by_name(name, given.orders, given.conversion)
        return cls(name, accountant, given.neighbors, describe_accountant(accountant))

    @property
    def sign(self) -> str:
        """Between a quantity and its value."""
        return "<=" if self.accountant.certified else "~"

    def keywords(self) -> dict[str, Any]:
        """Of every function of `fastacct.dpsgd`."""
        return {"accountant": self.accountant, "neighbors": self.neighbors}

    def answer(
        self,
        name: str,
        result: Mapping[str, object],
        inputs: Mapping[str, float],
        sentences: Sequence[str],
        guarantee: str = "certified upper bound",
        exit_code: int = 0,
    ) -> Answer:
        """The answer with everything that its reader has to know."""
        if not self.accountant.certified:
            guarantee = "none (an approximation)"
        settings = ", ".join(
            f"{key.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else f'{value:g}'}"
            for key, value in inputs.items()
        )
        sentences = [
            *sentences,
            f"Given: {settings}.",
            f"Guarantee: {guarantee}, for {RELATIONS.get(self.neighbors, self.neighbors)},",
            "when every step samples each record independently (Poisson).",
            f"Accountant: {self.summary}.",
        ]
        context = {
            "guarantee": guarantee,
            "neighbors": self.neighbors,
            "sampler": "poisson",
            "accountant": {"name": self.name, **dataclasses.asdict(self.accountant)},
        }
        return Answer(name, result, inputs, sentences, context, exit_code)


# -- curves ----------------------------------------------------------------------------------------------------------


@command(
    ["noise_multiplier"],
    [*RUN, "kind", "smallest_delta", "points", "neighbors", "csv", "picture", "overwrite"],
    "--noise-multiplier 0.8,1,2 --sample-rate 0.01 --steps 1000 --picture c.png",
)
def curve(given: Options) -> Answer:
    """Privacy curves or trade-off curves of one or several training runs, as a table and a picture.

    Options with several numbers, separated by commas, are read side by side; a single number holds for every run.
    """
    relation = as_choice("neighbors", given.neighbors, _CURVES)
    asked, files = runs(given), _files(given)
    found: list[PrivacyCurve | TradeoffCurve] = []
    if given.kind == "privacy":
        promise = "certified lower and upper bounds of delta at every epsilon"
        ways: tuple[Direction, ...] = ("remove", "add") if relation == "add_remove" else (relation,)
        least, points = given.smallest_delta, given.points
        privacy = [privacy_curve(run, way, smallest_delta=least, points=points) for run in asked for way in ways]
        found += privacy
    else:
        promise = "certified lower and upper bounds of the error rates of the best attack"
        tradeoff = [tradeoff_curve(run, relation) for run in asked]
        found += tradeoff
    if given.csv:
        write_csv(found, given.csv, overwrite=given.overwrite)
    if given.picture and given.kind == "privacy":
        figure = plot.privacy_curves(privacy, lowest_log10=math.log10(given.smallest_delta))
        plot.save(figure, given.picture, overwrite=given.overwrite)
    elif given.picture:
        plot.save(plot.tradeoff_curves(tradeoff), given.picture, overwrite=given.overwrite)
    listed = [one.points() for one in found]
    columns = list(listed[0][0])
    body = [
        [str(one.run), *(shown(name, value) for name, value in row.items())]
        for one, rows in zip(found, listed, strict=True)
        for row in _spread(rows)
    ]
    sentences = [
        render(["run", *columns], body, numeric=columns[1:]),
        f"{promise}, when every step samples each record independently (Poisson).",
        *(f"wrote {path}" for path in files),
    ]
    result = [{**one.run._asdict(), "points": rows} for one, rows in zip(found, listed, strict=True)]
    limits = {"smallest_delta": given.smallest_delta, "points": given.points}
    inputs = {"runs": [run._asdict() for run in asked], "kind": given.kind, **limits}
    context = {"guarantee": promise, "neighbors": given.neighbors, "sampler": "poisson"}
    return Answer("curve", {"curves": result, "files": list(map(str, files))}, inputs, sentences, context)


def _spread(rows: Sequence[T]) -> list[T]:
    """A few rows over the whole of a curve, the first and the last among them."""
    picked = np.unique(np.linspace(0, len(rows) - 1, CURVE_ROWS).round().astype(np.int64))
    return [rows[index] for index in picked]


def _files(given: Options) -> list[Path]:
    """The files to be written; what cannot be written is said before anything is computed."""
    if given.csv:
        if given.csv.suffix != ".csv":
            raise ValueError(f"{given.csv}: the name must end in .csv")
        refuse_existing(given.csv, given.overwrite)
    if given.picture:
        check(given.picture, overwrite=given.overwrite)
    return [path for path in (given.csv, given.picture) if path]


# -- tightness -------------------------------------------------------------------------------------------------------


@command(
    [], ["count", "regime", "seed", "csv", "picture", "overwrite"], "--count 200 --csv tightness.csv --picture t.png"
)
def tightness(given: Options) -> Answer:
    """How far each accountant is from the truth, on random runs: a table, and the values behind it."""
    files = _files(given)
    seed = study.SEED if given.seed is None else given.seed
    studies = {}
    for regime in dict.fromkeys(given.regime or study.USUAL):
        drawn = study.draw(regime, given.count, seed)
        bounds = study.truth(drawn)
        studies[regime] = [study.score(one, drawn, bounds) for one in study.own_accountants()]
    if given.csv:
        study.write_csv([one for scores in studies.values() for one in scores], given.csv, overwrite=given.overwrite)
    if given.picture:
        plot.save(plot.tightness(studies), given.picture, overwrite=given.overwrite)
    return tightness_answer(studies, {"count": given.count, "seed": seed}, files)


def tightness_answer(
    studies: Mapping[str, Sequence[study.Score]], inputs: Mapping[str, object], files: Sequence[Path]
) -> Answer:
    """What a study of tightness found, by regime."""
    sentences, rows = [], []
    for regime, scores in studies.items():
        bounds = scores[0].truth
        known = f"the truth is known to 1e-6 in {bounds.resolved.mean():.1%} of {len(bounds.lower):,} runs"
        sentences.append(f"{regime} ({study.REGIMES[regime]}): {known}")
        sentences.append(render(study.HEADER, study.table(scores), numeric=study.HEADER[1:]) + "\n")
        for one in scores:
            about = {"regime": regime, "accountant": one.contender, "claims_bound": one.claims_bound}
            rows.append({**about, **one.summary._asdict()})
    sentences += [study.LEGEND, *(f"wrote {path}" for path in files)]
    return Answer("tightness", {"rows": rows, "files": list(map(str, files))}, inputs, sentences)


@command(example="--json")
def version(given: Options) -> Answer:
    """The version of fastacct."""
    found = fa.__version__
    return Answer("version", {"version": found}, {}, [f"fastacct {found}"])
