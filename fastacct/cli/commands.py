"""The commands of `fastacct` but `sweep`."""

from __future__ import annotations

import dataclasses
import math
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

import fastacct.dpsgd as dpsgd
import fastacct.plot as plot
import fastacct.tightness as study
from fastacct._figures import check
from fastacct.accountants import RDP, Exact, Method
from fastacct.cli.answers import RELATIONS, Answer, render, rounded_down, rounded_up, shown
from fastacct.cli.options import ACCOUNTANTS, accountant_by_name, one_delta, only, parse_orders, runs
from fastacct.core.files import refuse_existing
from fastacct.core.inputs import as_choice
from fastacct.core.relations import DIRECTIONS
from fastacct.core.version import __version__
from fastacct.curve import PrivacyCurve, Run, TradeoffCurve, privacy_curve, tradeoff_curve, write_csv
from fastacct.sweep import describe_accountant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["calibration", "curve", "guarantee", "rdp", "tightness", "tightness_answer", "version"]

CANNOT_MEET: Final = 1
DEFAULT_ORDERS: Final = "1.5,2,3,4,6,8,12,16,24,32,48,64"
CURVE_ROWS: Final = 6
_CURVES: Final[tuple[Literal["add_remove", "remove", "add"], ...]] = ("add_remove", "remove", "add")


# -- one number ------------------------------------------------------------------------------------------------------


def rdp(given: Namespace) -> Answer:
    """Renyi DP, order by order."""
    if given.steps is None and given.epochs is None:
        given.steps = [1]
    run, orders = only(runs(given)), parse_orders(given.orders or DEFAULT_ORDERS)
    values = np.asarray(dpsgd.rdp(**run, orders=np.array(orders)), dtype=np.float64).tolist()
    rows = [f"{order:>8g}  {rounded_up(value)}" for order, value in zip(orders, values, strict=True)]
    result = {"orders": orders, "rdp": values}
    return _answer("rdp", RDP(), "add_remove", result, run, ["   order  RDP <=", *rows], how="Renyi DP, order by order")


def calibration(given: Namespace, wanted: str) -> Answer:
    """The noise multiplier, number of steps or sample rate that meets a target."""
    accountant, delta, run = _accountant(given), one_delta(given), only(runs(given, wanted))
    inputs = {"epsilon": given.epsilon, "delta": delta, **run}
    value = float(getattr(dpsgd, wanted)(**inputs, accountant=accountant, neighbors=given.neighbors))
    met = math.isfinite(value) if wanted == "noise_multiplier" else value > 0.0
    if wanted == "noise_multiplier":
        found, nothing = f"noise multiplier {rounded_up(value)} is enough for", "no noise multiplier"
    elif wanted == "sample_rate":
        found, nothing = f"sample rate {rounded_down(value)} stays within", "no positive sample rate"
    elif math.isinf(value):
        found, nothing = "any number of steps stays within", ""
    else:
        value, epochs = int(value), rounded_down(value * run["sample_rate"])
        found, nothing = f"{value:,} steps ({epochs} epochs) stay within", "not even one step"
    sentence = f"{found} ({given.epsilon:g}, {delta:g})"
    if not met:
        sentence = f"{nothing} is certified to meet epsilon = {given.epsilon:g} at delta = {delta:g}"
    promise = "certified to meet the target" if met else "none (the target cannot be certified)"
    result = {wanted: value, "met": met}
    answer = _answer(wanted.replace("_", "-"), accountant, given.neighbors, result, inputs, [sentence], promise)
    return dataclasses.replace(answer, exit_code=0 if met else CANNOT_MEET)


def guarantee(given: Namespace, verb: str) -> Answer:
    """epsilon or delta, by the function whose name says whether it is proven; the lower bound where there is one."""
    name, at = ("delta", one_delta(given)) if verb == "epsilon" else ("epsilon", given.epsilon)
    accountant, inputs, ending = _accountant(given), {**only(runs(given)), name: at}, ""
    if isinstance(accountant, Exact):
        lower, value, _ = getattr(dpsgd, f"{verb}_bounds")(**inputs, neighbors=given.neighbors)
        result = {verb: float(value), f"{verb}_lower": float(lower)}
        if math.isinf(lower):
            ending = ": the true value is infinite"
        elif lower > 0.0:
            ending = f" (the true value is at least {rounded_down(lower)})"
    else:
        function = getattr(dpsgd, verb if accountant.certified else f"{verb}_approx")
        value = function(**inputs, accountant=accountant, neighbors=given.neighbors)
        result = {verb: float(value)}
    sign = "<=" if accountant.certified else "~"
    sentence = f"{verb} {sign} {rounded_up(value)} at {name} = {at:g}{ending}"
    if math.isinf(value):
        sentence = f"{verb} = inf at {name} = {at:g}{ending or ': no finite bound can be certified'}"
    return _answer(verb, accountant, given.neighbors, result, inputs, [sentence])


def _accountant(given: Namespace) -> Method:
    return accountant_by_name(given.accountant, given.orders, given.conversion)


def _answer(
    name: str,
    accountant: Method,
    neighbors: str,
    result: Mapping[str, object],
    inputs: Mapping[str, float],
    sentences: Sequence[str],
    guarantee: str = "certified upper bound",
    how: str | None = None,
) -> Answer:
    """The answer with everything that its reader has to know."""
    if not accountant.certified:
        guarantee = "none (an approximation)"
    settings = ", ".join(
        f"{key.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else f'{value:g}'}"
        for key, value in inputs.items()
    )
    sentences = [
        *sentences,
        f"Given: {settings}.",
        f"Guarantee: {guarantee}, for {RELATIONS[neighbors]},",
        "when every step samples each record independently (Poisson).",
        f"Accountant: {how or describe_accountant(accountant)}.",
    ]
    named = next(word for word, kind in ACCOUNTANTS.items() if kind is type(accountant))
    context = {
        "guarantee": guarantee,
        "neighbors": neighbors,
        "sampler": "poisson",
        "accountant": {"name": named, **dataclasses.asdict(accountant)},
    }
    return Answer(name, result, inputs, sentences, context)


# -- curves ----------------------------------------------------------------------------------------------------------


def curve(given: Namespace) -> Answer:
    """Privacy curves or trade-off curves, as a table and a picture."""
    relation = as_choice("neighbors", given.neighbors, _CURVES)
    asked, files = [Run(**run) for run in runs(given)], _files(given)
    limits = {"smallest_delta": given.smallest_delta, "points": given.points}
    found: Sequence[PrivacyCurve | TradeoffCurve]
    draw: Callable[[], Figure]
    if given.kind == "privacy":
        promise = "certified lower and upper bounds of delta at every epsilon"
        found = privacy = [privacy_curve(run, way, **limits) for run in asked for way in DIRECTIONS[relation]]
        draw = partial(plot.privacy_curves, privacy, lowest_log10=math.log10(given.smallest_delta))
    else:
        promise = "certified lower and upper bounds of the error rates of the best attack"
        found = tradeoff = [tradeoff_curve(run, relation) for run in asked]
        draw = partial(plot.tradeoff_curves, tradeoff)
    if given.csv:
        write_csv(found, given.csv, overwrite=given.overwrite)
    if given.picture:
        plot.save(draw(), given.picture, overwrite=given.overwrite)
    listed = [(one.run, one.points()) for one in found]
    columns = list(listed[0][1][0])
    body = []
    for run, points in listed:
        few = np.unique(np.linspace(0, len(points) - 1, CURVE_ROWS).round().astype(np.int64))
        body += [[str(run), *(shown(name, value) for name, value in points[place].items())] for place in few]
    sentences = [
        render(["run", *columns], body, numeric=columns[1:]),
        f"{promise}, when every step samples each record independently (Poisson).",
        *(f"wrote {path}" for path in files),
    ]
    result = {
        "curves": [{**run._asdict(), "points": points} for run, points in listed],
        "files": list(map(str, files)),
    }
    inputs = {"runs": [run._asdict() for run in asked], "kind": given.kind, **limits}
    context = {"guarantee": promise, "neighbors": given.neighbors, "sampler": "poisson"}
    return Answer("curve", result, inputs, sentences, context)


def _files(given: Namespace) -> list[Path]:
    """The files to be written; what cannot be written is said before anything is computed."""
    if given.csv:
        if given.csv.suffix != ".csv":
            raise ValueError(f"{given.csv}: the name must end in .csv")
        refuse_existing(given.csv, given.overwrite)
    if given.picture:
        check(given.picture, overwrite=given.overwrite)
    return [path for path in (given.csv, given.picture) if path]


# -- tightness -------------------------------------------------------------------------------------------------------


def tightness(given: Namespace) -> Answer:
    """A study of random runs."""
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


def version(given: Namespace) -> Answer:
    """What is installed."""
    return Answer("version", {"version": __version__}, {}, [f"fastacct {__version__}"])
