"""The commands about one run: epsilon, delta, Renyi DP, calibrations; and about a loader."""

from __future__ import annotations

import dataclasses
import math
import webbrowser
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import fastacct.dpsgd as dpsgd
import fastacct.plot as plot
from fastacct.accountants import RDP, Exact, Method
from fastacct.accountants.batching import in_words
from fastacct.cli.answers import Answer
from fastacct.cli.options import ACCOUNTANTS, accountant_by_name, first_of, one_run, parse_orders
from fastacct.core.files import refuse_existing
from fastacct.core.relations import RELATIONS
from fastacct.core.rounding import digits_down, digits_up
from fastacct.loaders import loader_guide, loaders

DEFAULT_ORDERS: Final = "1.5,2,3,4,6,8,12,16,24,32,48,64"
PAGE: Final = Path(__file__).parent.parent / "explorer" / "index.html"


# -- one number ------------------------------------------------------------------------------------------------------


def rdp(given: Namespace) -> Answer:
    """Renyi DP, order by order."""
    if given.steps is None and given.epochs is None:
        given.steps = [1]
    run, orders = one_run(given), parse_orders(given.orders or DEFAULT_ORDERS)
    values = np.asarray(dpsgd.rdp(**run, orders=np.array(orders)), dtype=np.float64).tolist()
    rows = [{"order": order, "rdp": value} for order, value in zip(orders, values, strict=True)]
    found = {"orders": orders, "rdp": values}
    run |= first_of(given, "records", "batch_size", "epochs")
    return _answer(given, RDP(orders), found, run, [])._replace(rows=rows)


def calibration(given: Namespace) -> Answer:
    """The noise multiplier, number of steps or sample rate that meets a target."""
    wanted = given.command.replace("-", "_")
    accountant, run = _accountant(given), one_run(given, wanted)
    inputs = {"epsilon": given.epsilon, "delta": run.pop("delta"), **run}
    value = float(getattr(dpsgd, wanted)(**inputs, accountant=accountant, neighbors=given.neighbors))
    name, target = wanted.replace("_", " "), f"epsilon = {given.epsilon:g} at delta = {inputs['delta']:g}"
    if wanted == "noise_multiplier":
        met, found = math.isfinite(value), f"{name} >= {digits_up(value)}"
    else:
        met, found = value > 0.0, f"{name} <= {digits_down(value)}"
    if wanted == "steps" and math.isfinite(value):
        value, found = int(value), f"{name} <= {int(value):,}"
    sentence = f"{found if met else f'no {name}'} is certified to meet {target}"
    promise = "certified to meet the target" if met else "none (the target cannot be certified)"
    result = {wanted: value, "met": met}
    if not met and not inputs["delta"]:
        sentence += ": Gaussian noise has no guarantee at delta = 0"
    inputs = first_of(given, "records", "batch_size", "epochs") | inputs
    found_so = _answer(given, accountant, result, inputs, [sentence], promise)
    return found_so._replace(exit_code=0 if met else 1, plain=repr(value))


def guarantee(given: Namespace) -> Answer:
    """epsilon or delta, by the function whose name says whether it is proven; the lower bound where there is one."""
    accountant, inputs, ending = _accountant(given), one_run(given), ""
    verb, name = given.command, "delta" if given.command == "epsilon" else "epsilon"
    at = inputs.setdefault(name, getattr(given, name))
    if isinstance(accountant, Exact):
        lower, value, _ = getattr(dpsgd, f"{verb}_bounds")(**inputs, neighbors=given.neighbors)
        result = {verb: float(value), f"{verb}_lower": float(lower)}
        if math.isinf(lower):
            ending = ": the true value is infinite"
        elif lower > 0.0:
            ending = f" (the true value is at least {digits_down(lower)})"
    else:
        function = getattr(dpsgd, verb if accountant.certified else f"{verb}_approx")
        value = function(**inputs, accountant=accountant, neighbors=given.neighbors)
        result = {verb: float(value)}
    sign = "=" if math.isinf(value) else "<=" if accountant.certified else "~"
    if math.isinf(value):
        ending = ending or ": no finite bound can be certified"
    sentence = f"{verb} {sign} {digits_up(value)} at {name} = {digits_up(at)}{ending}"
    inputs |= first_of(given, "records", "batch_size", "epochs")
    return _answer(given, accountant, result, inputs, [sentence])._replace(plain=repr(float(value)))


def _accountant(given: Namespace) -> Method:
    return accountant_by_name(given.accountant, given.orders, given.conversion)


def _answer(
    given: Namespace,
    accountant: Method,
    result: Mapping[str, object],
    inputs: Mapping[str, object],
    sentences: Sequence[str],
    guarantee: str = "certified upper bound",
) -> Answer:
    """The answer with everything that its reader has to know."""
    neighbors = getattr(given, "neighbors", "add_remove")
    if not accountant.certified:
        guarantee = "none (an approximation)"
    sampling = getattr(given, "sampling", "poisson")
    inputs = {name: value for name, value in inputs.items() if name != "sampling"}
    values = (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
        for value in inputs.values()
    )
    sentences = [
        *sentences,
        f"Given: {', '.join(map(' '.join, zip(inputs, values, strict=True))).replace('_', ' ')}.",
        f"Guarantee: {guarantee}, for data sets that differ by {RELATIONS[neighbors]},",
        f"when {in_words(sampling)}.",
        f"Accountant: {accountant!r}.",
    ]
    context = {"command": given.command, **result, "inputs": inputs, "guarantee": guarantee, "neighbors": neighbors}
    named = next(word for word, kind in ACCOUNTANTS.items() if kind is type(accountant))
    method = {"name": named, **dataclasses.asdict(accountant)}
    return Answer({**context, "sampler": sampling, "accountant": method}, sentences)


def files_of(given: Namespace) -> list[Path]:
    """The files to be written; what cannot be written is said before anything is computed."""
    table: Path | None = getattr(given, "csv", None)
    if table:
        if table.suffix != ".csv":
            raise ValueError(f"{table}: the name must end in .csv")
        refuse_existing(table, given.overwrite)
    if given.picture:
        plot.as_picture(given.picture, overwrite=given.overwrite)
    return [path for path in (table, given.picture) if path]


# -- loaders ---------------------------------------------------------------------------------------------------------


def check_loader(given: Namespace) -> Answer:
    """Which sampler a data loader is; the loaders that are known, where none is named."""
    if given.loader is None:
        known = {name: [*about["settings"]] for name, about in loaders()["loaders"].items()}
        rows = [f"{name}: {', '.join(settings) or 'no settings'}" for name, settings in known.items()]
        return Answer({"command": "check-loader", "loaders": known}, ["Loaders and the settings that matter:", *rows])
    settings: dict[str, object] = {}
    for word in given.setting or ():
        name, is_set, value = word.partition("=")
        if not is_set:
            raise ValueError(f"--setting {word}: write NAME=VALUE, such as shuffle=True")
        settings[name] = {"true": True, "false": False}.get(value.lower(), int(value) if value.isdigit() else value)
    found = loader_guide(given.loader, **settings)
    return Answer(
        {"command": "check-loader", **found._asdict(), "always": loaders()["always"]}, str(found).splitlines()
    )


# -- studies ---------------------------------------------------------------------------------------------------------


def explore(given: Namespace) -> Answer:
    """Open the page, or say where it is."""
    if not PAGE.is_file():
        raise OSError("the explorer page is not built; in a clone of the repository, make explorer builds it")
    is_open = given.print_path or webbrowser.open(PAGE.as_uri())
    words = str(PAGE) if given.print_path else f"The page is {PAGE}{'' if is_open else '; no browser was found'}."
    return Answer({"command": "explore", "path": str(PAGE)}, [words])
