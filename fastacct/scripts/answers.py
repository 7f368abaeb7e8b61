"""What is proved of a training loop that a script has, and the line that takes its guarantee away."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any, Final, NamedTuple

from fastacct.accountants.run import Run
from fastacct.core.relations import Relation
from fastacct.core.rounding import digits_down, digits_up, rate_of_float32
from fastacct.dpsgd import epsilon_bounds
from fastacct.scripts import engines, noise, others, trainers
from fastacct.scripts.accounts import ask_of_accountants, cure
from fastacct.scripts.found import Given, Loop, asked
from fastacct.scripts.loops import is_single
from fastacct.scripts.names import Script
from fastacct.scripts.steps import ask_of_trainers
from fastacct.scripts.tree import UnclearError, last_name
from fastacct.scripts.understood import ask_of_the_unknown, guess_data

_WORDS: Final = (
    ("make_private",),
    ("OpacusDPTrainer",),
    ("opacus", "DPOptimizer"),
    ("tensorflow_federated", "dp_aggregator"),
    ("tensorflow_federated", "DifferentiallyPrivate"),
    ("flwr", "Clipping"),
    ("flwr", "LocalDpMod"),
)
"""Words of which one row stands in a script that trains privately, beside names of libraries that do little else."""
_NO_OPTION: Final = {
    "one loop": "check each loop by itself, and add them up: if their own records choose one, no number is known",
    "one example": "no number is known",
    "noise": "no number is known",
    "sampler": "no number is known",
    "added up": "no option tells of these batches",
}
"""What is said where no option helps."""
_ASSUMED: Final = (
    "that each record is one example, that no record changes the gradient of another, that no weight, scale or "
    "vocabulary was computed from private records, and that nothing else that is found of records leaves the training"
)
"""What every number rests on, and a script does not show."""
_ONLY: Final = "only where --{} is {}, which is not its default: else this trains without privacy."
"""What is said of a flag of the script's own command line that a private loop needs."""
_LARGE: Final = "delta {:g} is not below 1 / {} records: it allows to show one whole record; take a smaller one."
_METHODS: Final = ("make_private", "make_private_with_epsilon")
_READERS: Final[dict[str, tuple[str, str, Callable[[Loop, ast.Call], Loop | None]]]] = {
    "make_private": ("", "opacus", engines.opacus),
    "make_private_with_epsilon": ("", "opacus", engines.opacus),
    "PrivacyEngine": ("", "opacus", engines.attached),
    "DPOptimizer": ("opacus.", "opacus", trainers.with_optimizer),
    "OpacusDPTrainer": ("", "dp_transformers", trainers.dp_transformers),
    "DPModel": ("tensorflow_privacy.", "tensorflow_privacy", others.tf_privacy),
    "DPSequential": ("tensorflow_privacy.", "tensorflow_privacy", others.tf_privacy),
    "Optimizer": ("tensorflow_privacy.", "tensorflow_privacy", others.tf_privacy),
    "Sampling": ("jax_privacy.", "jax_privacy", others.jax_selection),
    "DPKerasConfig": ("jax_privacy.", "jax_privacy", others.jax_keras),
    "dpsgd": ("optax.", "optax", others.optax),
    "differentially_private_aggregate": ("optax.", "optax", others.optax),
    "LocalDpMod": ("flwr.", "flower", others.flower),
    "Clipping": ("flwr.", "flower", others.flower),
}
"""What is called, or how its name ends: where it must be from, whose it is, and who reads it."""
_ENDS: Final = ("Optimizer", "Sampling", "Clipping")


class Finding(NamedTuple):
    """What is said of one training loop."""

    line: int
    framework: str
    sampling: str
    """The sampler; empty where it is asked for."""
    neighbors: str
    epsilon: float | None
    """Certified upper bound, or None where something is asked for."""
    epsilon_lower: float | None
    """Certified lower bound, or None where there is none."""
    poisson: float | None
    """What Poisson batches would have: the number that does not hold where a line breaks it."""
    target: float | None
    """The epsilon that the script asks its framework for."""
    breaks: tuple[int, str] | None
    """The line that takes the guarantee away, and what stands there."""
    asks: Mapping[str, str]
    """What must be given, as an option, and why."""
    inputs: Mapping[str, float]
    defaults: Mapping[str, object]
    """Defaults of the script's own command line that were taken."""
    notes: tuple[str, ...]
    call: str
    replaced: tuple[float | None, float] | None = None
    """Certified bounds under replace_one, where a line breaks the guarantee."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The finding in words, one sentence a line."""
        sampler = self.sampling.replace("_", " ") or "not clear"
        lines = [f"line {self.line}: {self.framework.replace('_', '-')}; batches: {sampler}"]
        if self.breaks:
            lines += [f"  line {self.breaks[0]}: {self.breaks[1]}: {self._verdict(self.breaks[1])}"]
        elif self.epsilon is not None:
            lines += [f"  epsilon: {self._interval(self.epsilon_lower, self.epsilon)}, neighbors: {self.neighbors}"]
        elif self.target is not None:
            lines += [f"  epsilon: the script asks for {self.target:g}, of Poisson batches"]
        if self.epsilon is not None:
            shown = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in self.inputs.items())
            lines += [f"  read: {shown}"]
        if self.defaults and self.epsilon is not None:
            shown = ", ".join(f"{name} {value}" for name, value in self.defaults.items())
            lines += [f"  defaults of its command line, if none is given there: {shown}"]
        lines += [f"  {note}" for note in self.notes] if self.epsilon is not None else []
        lines += [f"  assumes {self.assumes}"] if self.assumes else []
        for why in dict.fromkeys(self.asks.values()):
            names = [name for name, one in self.asks.items() if one == why]
            options = ", ".join(_option(name) for name in names if name not in _NO_OPTION)
            said = [f"give {options}"] * bool(options) + [_NO_OPTION[name] for name in names if name in _NO_OPTION]
            lines += [f"  {', and '.join(said)} ({why})"]
        return [*lines, f"  then: {self.call}"] if self.call else lines

    @property
    def assumes(self) -> str | None:
        """What the number rests on beside the text."""
        return None if self.epsilon is None else _ASSUMED

    def _interval(self, lower: float | None, upper: float) -> str:
        """Bounds, rounded outward."""
        if lower is None or self.sampling == "poisson":
            return f"at most {digits_up(upper)}"
        return f"{digits_down(lower)} to {digits_up(upper)}"

    def _verdict(self, what: str) -> str:
        """What holds for whom, and what mends it."""
        known = self.target if self.target is not None else self.poisson
        number = "the framework's number" if known is None else digits_up(known)
        if self.epsilon is None:
            return f"{number} holds for Poisson batches; not for this loop; {cure(what)}"
        shown = self._interval(self.epsilon_lower, self.epsilon)
        also = f" ({self._interval(*self.replaced)} under replace_one)" if self.replaced else ""
        end = f"report {'the upper end' if ' to ' in shown else 'that'}, or {cure(what)}"
        return f"{number} holds for Poisson batches; this loop: {shown} under {self.neighbors}{also}; {end}"


def _option(name: str) -> str:
    """How an option is written."""
    return f"--{name.replace('_', '-')}"


def is_worth_reading(text: str) -> bool:
    """Whether a private loop may be in a script: a quick look at its words."""
    return any(all(word in text for word in row) for row in _WORDS) or noise.is_worth_reading(text)


def check(text: str, **given: Any) -> list[Finding]:
    """What holds for the training loops of a script, without running it.

    **Guarantee.** A number is given only where sampler, noise, batch size, records, epochs and delta are sure from the
    text, or given.  It holds then for the loop as it is written, with gradients that are clipped by the framework; a
    default of the script's own command line is said, as it may be overridden.  All else is asked for.

    Parameters
    ----------
    text : str
        A Python script.
    **given
        Numbers that the script does not say, or that count before its own: noise_multiplier, records, batch_size,
        epochs, delta; `batches`, a sampler where it is not clear: "poisson", "shuffled" ...; and `vouch`, lines of
        which what is asked is true.

    Returns
    -------
    list of Finding
        One for each loop; empty where there is none.

    Raises
    ------
    SyntaxError, ValueError
        Where the text is no Python.

    Examples
    --------
    >>> text = '''
    ... from opacus import PrivacyEngine
    ... model, optimizer, loader = PrivacyEngine().make_private(
    ...     module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    ... )
    ... for epoch in range(20):
    ...     for x, y in loader:
    ...         loss(model(x), y).backward()
    ...         optimizer.step()
    ... '''
    >>> (found,) = check(text)
    >>> found.sampling, sorted(found.asks)
    ('poisson', ['batch_size', 'delta', 'records'])
    >>> (found,) = check(text, batch_size=512, records=50_000, delta=1e-6)
    >>> round(found.epsilon, 2)
    2.51
    """
    if not is_worth_reading(text):
        return []
    try:
        script = Script(text)
        loops = _loops(script, {name: value for name, value in given.items() if value is not None})
        return [_answered(loop) for loop in sorted(loops, key=lambda one: one.line)]
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply to be read") from None


def _loops(script: Script, given: Given) -> list[Loop]:
    """The training loops of a script; several of them are asked about one by one."""
    found: list[Loop] = []
    for call in script.calls:
        whole = script.qualified(call.func)
        name = whole.rpartition(".")[2] or last_name(call.func)
        known = _READERS.get(name) or _READERS.get(next(filter(name.endswith, _ENDS), ""))
        is_method = name.startswith("make_private") and not isinstance(call.func, ast.Attribute)
        if known is None or is_method or not whole.startswith(known[0]) or whole.endswith("keras_api.make_private"):
            continue
        _, framework, read = known
        script.assume(call)
        try:
            loop = read(Loop(script, framework, call, given), call)
        except UnclearError as error:
            loop = asked(Loop(script, framework, call, given), error)
        except (LookupError, TypeError, ValueError):
            loop = asked(Loop(script, framework, call, given), UnclearError(call, "what is given here is not known"))
        if loop is not None and loop.framework != "flower" and (why := is_single(script, call)):
            loop = Loop(script, loop.framework, call, given)
            loop.asks = {"one loop": why}
        if loop is not None and script.hidden:
            loop = Loop(script, loop.framework, call, given)
            asked(loop, UnclearError(script.hidden[0], "this may set any name"))
        found += [loop] if loop is not None else []
    found += [asked(Loop(script, "opacus", one, given), error) for one, error in _by_detours(script)]
    if not found and (place := noise.place(script)) is not None:
        found = [trainers.by_hand(script, place, given)]
    if not found and (place := noise.alone(script)) is not None:
        found = [trainers.without_noise(script, place, given)]
    if not found and (place := noise.drawn(script)) is not None:
        found = [trainers.by_hand(script, place, given)]
    for call in script.calls if not found else ():
        if framework := noise.library(script, call):
            unclear = UnclearError(call, "this trains privately, with batches that are not followed")
            found = [asked(Loop(script, framework, call, given), unclear)]
            break
    if not found and (loop := trainers.unfollowed(script, given)) is not None:
        return [loop]
    for loop in found:
        if loop.framework != "flower":  # whose records are clients
            loop.note_seeds()
            guess_data(loop)
            ask_of_trainers(loop)
            ask_of_the_unknown(loop)
            ask_of_accountants(loop)
    if len(found) > 1:
        for loop in found:
            loop.sampling, loop.asks = "", {"one loop": f"line {found[0].line} and line {found[1].line} train, too"}
    return found


def _by_detours(script: Script) -> Iterator[tuple[ast.AST, UnclearError]]:
    """Where Opacus is used in a way that is not followed: a method that is kept or named."""
    named = [one.args[1] for one in script.calls if script.is_call(one, "builtins.getattr") and len(one.args) > 1]
    for name in _METHODS if not script.hidden else ():
        kept = [one for one in script.attributes[name] if getattr(script.parent[one], "func", None) is not one]
        for one in (*kept, *(word for word in named if getattr(word, "value", "") == name)):
            yield one, UnclearError(one, f"{name} is called in a way that cannot be followed")


def _answered(loop: Loop) -> Finding:
    """The bounds of a loop that is understood."""
    values, asks = loop.values, dict(loop.asks)
    lower: float | None = None
    upper: float | None = None
    poisson: float | None = None
    replaced: tuple[float | None, float] | None = None
    needed, runs = [name for name in _needed(loop) if name not in values], list[Run]()
    if not asks and not needed and loop.sampling and not loop.call:
        runs = _runs(loop, loop.sampling)
        bounds = [epsilon_bounds(**run, delta=values["delta"]) for run in runs]
        upper, lower = max(float(one.upper) for one in bounds), min(float(one.lower) for one in bounds)
        is_whole = float(values.get("epochs", 1)).is_integer()
        lower = lower if loop.lower_holds and is_whole and not loop.script.early else None
        if loop.breaks:
            runs = _runs(loop, "poisson")
            poisson = max(float(epsilon_bounds(**run, delta=values["delta"]).upper) for run in runs)
            replaced = _replaced(loop) if _relation(loop.sampling) == "zero_out" else None
            replaced = (None, replaced[1]) if replaced and lower is None else replaced
        if values["delta"] * values.get("records", 1) >= 1 and "records" in values:
            loop.notes.append(_LARGE.format(values["delta"], values["records"]))
    asks |= {name: asks.get(name, "it is not found") for name in needed if name not in asks and not loop.call}
    return Finding(
        loop.line,
        loop.framework,
        loop.sampling,
        _relation(loop.sampling) if loop.sampling else "",
        upper,
        lower,
        poisson,
        loop.target,
        loop.breaks,
        asks,
        {name: values[name] for name in (*_needed(loop), "delta") if name in values},
        dict(loop.script.defaults),
        (*(_ONLY.format(name.replace("_", "-"), value) for name, value in loop.script.flags.items()), *loop.notes),
        loop.call,
        replaced,
    )


def _replaced(loop: Loop) -> tuple[float, float]:
    """The bounds under replace_one."""
    runs: list[Run] = [run | {"neighbors": "replace_one"} for run in _runs(loop, loop.sampling)]
    bounds = [epsilon_bounds(**run, delta=loop.values["delta"]) for run in runs]
    return min(float(one.lower) for one in bounds), max(float(one.upper) for one in bounds)


def _needed(loop: Loop) -> tuple[str, ...]:
    """The numbers without which there is no bound."""
    if _NO_OPTION.keys() & loop.asks.keys():
        return ()
    if loop.framework == "flower":
        return "noise_multiplier", "records", "batch_size", "steps", "delta"
    if "sample_rate" in loop.values or "steps" in loop.values:
        return "noise_multiplier", "sample_rate", "steps", "delta"
    if loop.sampling == "fixed_order" and not loop.breaks:
        return "noise_multiplier", "epochs", "delta"
    return "noise_multiplier", "records", "batch_size", "epochs", "delta"


def _relation(sampling: str) -> Relation:
    """The relation under which a number of a sampler is proved, the first one that `loader_guide` names."""
    return "zero_out" if sampling in ("shuffled", "fixed_order") else "add_remove"


def _runs(loop: Loop, sampling: str) -> list[Run]:
    """The run as `fastacct.dpsgd` takes it; two of them where it is not known whether the last batch is left out."""
    values = loop.values
    noise: Run = {"noise_multiplier": values["noise_multiplier"], "neighbors": _relation(sampling)}
    if "sample_rate" in values:
        return [noise | {"sample_rate": values["sample_rate"], "steps": values["steps"]}]
    records, batch, epochs = values["records"], values["batch_size"], values.get("epochs", 0)
    if sampling == "fixed_order":
        return [noise | {"sample_rate": 1.0, "steps": ceil(epochs)}]
    fewest, most = max(1, records // batch), -(-records // batch)
    sizes: Run = {"records": records, "batch_size": batch}
    if sampling == "poisson" and loop.framework == "opacus":
        lengths = {None: {fewest, most}, True: {fewest}, False: {most}}[loop.drop_last]
        rates = [1 / one for one in lengths]
        runs = [noise | {"sample_rate": rate_of_float32(one), "steps": ceil(epochs * int(1 / one))} for one in rates]
        is_own = loop.is_told and loop.sampling == "poisson"  # or of another sampler, at the plain rate
        return runs + [noise | sizes | {"batch_size": min(batch, records), "epochs": epochs}] * is_own
    if sampling in ("poisson", "shuffled"):
        whole = epochs if sampling == "poisson" else ceil(epochs)
        return [noise | sizes | {"batch_size": min(batch, records), "epochs": whole, "sampling": sampling}]
    steps = values.get("steps") or ceil(epochs) * (fewest if loop.drop_last else most)
    return [noise | sizes | {"steps": steps, "sampling": sampling}]
