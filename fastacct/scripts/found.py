"""What is found of one training loop: its sampler, its numbers, what must be asked for, and what breaks it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from fastacct.scripts.names import Script
from fastacct.scripts.sources import size_of
from fastacct.scripts.tree import UnclearError, keywords, last_name

Given = Mapping[str, Any]
"""Numbers by name, `batches`, a sampler, and `vouch`, lines."""

ALLOWED: Final[dict[str, Callable[[Any], bool]]] = {
    "noise_multiplier": lambda value: isinstance(value, int | float) and 0 <= value < math.inf,
    "records": lambda value: type(value) is int and value >= 1,
    "batch_size": lambda value: type(value) is int and value >= 1,
    "epochs": lambda value: isinstance(value, int | float) and 0 < value <= 1e9,
    "steps": lambda value: type(value) is int and 0 < value <= 2**53,
    "sample_rate": lambda value: isinstance(value, int | float) and 0 < value <= 1,
    "delta": lambda value: isinstance(value, float) and 0 < value < 1,
}
"""The numbers of a loop, and which values they may have."""
_SPENT: Final = ("get_epsilon", "get_privacy_spent")
_TARGETS: Final = ("PrivacyEngine", "get_noise_multiplier")
"""What finds the noise, or is told what it must be good for."""


class Loop:
    """A training loop as far as it is understood; `given` are numbers that the user names, which count first."""

    def __init__(self, script: Script, framework: str, node: ast.AST, given: Given) -> None:
        self.script, self.framework, self.node, self.given = script, framework, node, given
        self.line: int = getattr(node, "lineno", 1)
        self.body: ast.For | None = None
        """The loop over batches."""
        self.more: list[ast.For] = []
        """Other loops over the same batches, with steps of the same optimizer."""
        self.data: list[ast.expr] = []
        """The data set that is trained on, its loader, and arrays."""
        self.own: list[ast.Call] = []
        """Calls of trainers that are those of this loop."""
        self.earlier: list[ast.Call] = []
        """Steps that an optimizer took before an engine was given it."""
        self.sampling = ""
        self.lower_holds = False
        self.values = {name: value for name, value in given.items() if name in ALLOWED}
        self.asks: dict[str, str] = {}
        self.notes: list[str] = []
        self.breaks: tuple[int, str] | None = None
        self.target: float | None = None
        self.drop_last: bool | None = None
        self.is_told = False
        """Whether the user says how batches are drawn, where the script does not."""
        self.call = ""
        self.refused: set[str] = set()
        """Numbers of which those of the script do not count."""
        self.steps: list[ast.Call] = []
        """Steps of the private optimizer."""

    def ask(self, names: str, why: object) -> None:
        """Ask for what is not found, unless the user names it; `batches` asks for the sampler."""
        for name in names.split():
            if name == "batches":
                self.sampling, self.is_told = str(self.given.get("batches") or ""), "batches" in self.given
            if name not in self.given:
                self.asks.setdefault(name, str(why))

    def ask_instead(self, names: str, why: object) -> None:
        """Ask for numbers that the script has, and that are not those of its steps."""
        for name in names.split():
            if name not in self.given:
                self.refused.add(name)
                self.values.pop(name, None)
                self.asks[name] = str(why)

    def vouch(self, node: ast.AST, claim: str) -> None:
        """Ask whether a claim holds of a line that is not understood, unless the user vouches for it."""
        self.vouch_line(getattr(node, "lineno", 1), ast.unparse(node).splitlines()[0].removesuffix(":"), claim)

    def vouch_line(self, line: int, shown: str, claim: str) -> None:
        """The same of a line that has no node of its own."""
        text = f"line {line}: {shown[:60]}"
        if line in self.given.get("vouch", ()):
            self.notes.append(f"{text}: {claim}, as --vouch says.")
        else:
            asked = self.asks.get(f"vouch {line}", f"{text}: if {claim}")
            self.asks[f"vouch {line}"] = asked if claim in asked else f"{asked}; and if {claim}"

    def refuse(self, name: str, why: object) -> None:
        """Give no number, whatever is given, for how batches are drawn."""
        self.sampling, self.asks[name] = "", str(why)

    def ask_added(self, why: object) -> None:
        """Several batches for one step: shuffled ones are a larger batch, and of Poisson ones no option tells."""
        if "added up" in self.asks:
            return
        if self.framework == "opacus" and self.sampling == "poisson" and "batches" not in self.asks:
            self.refuse("added up", why)
        else:
            self.ask("batches", why)
            self.ask_instead("batch_size", f"{why}; of all batches of a step together")
            self.ask_left(why)

    def ask_secret(self, generator: ast.expr) -> None:
        """Ask whether the seed of the noise is secret, where it is not seen that it is drawn."""
        texts = [ast.unparse(generator)]
        bound = self.script.lookup(generator.id, generator)[1] if isinstance(generator, ast.Name) else []
        texts += [ast.unparse(one.value) for one in bound if one.value is not None]
        self.notes.append("The seed of noise_generator must be secret, and used once.")
        seeds = [one for name in ("seed", "manual_seed") for one in self.script.attributes[name]]
        own = [one.attr for one in seeds if isinstance(generator, ast.Name) and last_name(one.value) == generator.id]
        if own == ["seed"]:  # secret.seed() draws one
            return
        if not any(word in text for text in texts for word in ("secrets.", "urandom", "SystemRandom", "randbits")):
            self.vouch(generator, "the seed of this generator is secret, and used once")

    def note_seed(self, node: ast.expr) -> None:
        """Note a seed that the script says: a number, or a generator or a key of one."""
        try:
            made = self.script.resolve(node)
            given = made.args if isinstance(made, ast.Call) else [made]
            is_said = len(given) == 1 and isinstance(self.script.fold(given[0]), int)
        except UnclearError:
            return
        if is_said:
            text = f"line {node.lineno}: {ast.unparse(made)[:50]} is a seed that the script says"
            self.notes.append(f"{text}: who knows it can tell batches, or take the noise away.")

    def note_seeds(self) -> None:
        """Note generators that are set to a number by a statement of their own, where no other seed is noted."""
        for one in self.script.attributes["manual_seed"]:
            call = self.script.parent[one]
            is_own = isinstance(one.value, ast.Name) and not self.script.qualified(one)
            if is_own and isinstance(call, ast.Call) and call.args and "who knows" not in " ".join(self.notes):
                try:
                    self.script.fold(call.args[0])
                except UnclearError:
                    continue
                text = f"line {one.lineno}: {ast.unparse(call)[:50]} is a seed that the script says"
                self.notes.append(f"{text}: who knows it can tell batches, or take the noise away.")

    def ask_left(self, why: object) -> None:
        """Ask where gradients of the last batches of an epoch may be added to the first ones of the next."""
        node = getattr(why, "node", None)
        test = self.script.above(node, ast.If) if node is not None else None
        if test is not None and "len(" not in ast.unparse(test.test):
            self.vouch(test.test, "no gradients are left over at the end of an epoch, and added to those of the next")

    def ask_where(self, said: Mapping[str, ast.expr], ask: str, names: str, why: str) -> None:
        """Ask where one of the names is among the arguments of a call."""
        for name in names.split():
            if name in said:
                self.ask(ask, f"line {said[name].lineno}: {name} {why}")

    def take(self, name: str, node: ast.expr | None, why: str = "") -> None:
        """Take a number from the script, or ask for it; of records `node` is the data set."""
        if name in self.given or name in self.refused:
            return
        if node is not None and name == "noise_multiplier" and number(self.script, node) == 0:
            self.asks["noise"] = f"line {node.lineno}: noise multiplier 0: no noise is added"
        try:
            if node is None:
                raise UnclearError(
                    self.node, why or f"no {name.replace('_', ' ').replace('records', 'data set')} is found"
                )
            size = partial(size_of, self.script)
            value = size(node) if name == "records" else self.script.fold(node, size)
            if isinstance(value, bool) or not ALLOWED[name](value):
                raise UnclearError(node, f"{name.replace('_', ' ')} is {value!r}")
            if self.values.setdefault(name, value) != value:
                raise UnclearError(node, f"two values of {name.replace('_', ' ')}")
        except UnclearError as error:
            self.values.pop(name, None)
            self.ask(name, error)

    def take_delta(self, *nodes: ast.expr | None) -> None:
        """Take delta from what the script asks its own accountant, if it asks at one delta alone."""
        script = self.script
        found = [one for one in nodes if one is not None]
        for call in script.calls:
            name = last_name(call.func)
            try:
                given = keywords(call, ("delta",)) if name in _SPENT else {}
                is_asked = script.qualified(call.func).startswith("fastacct.")
                if name.startswith("compute_dp_sgd_privacy") or name in _TARGETS or is_asked:
                    given = keywords(call, None)
            except UnclearError:
                continue
            found += [given[word] for word in ("delta", "target_delta") if word in given]
        if not found:
            self.take("delta", None)
        for one in found:
            if "delta" not in self.asks:
                self.take("delta", one)


def asked(loop: Loop, error: Exception) -> Loop:
    """A loop of which nothing is sure: everything that is not given is asked for."""
    loop.sampling = ""
    loop.ask("batches noise_multiplier records batch_size epochs", error)
    loop.take_delta()
    return loop


def number(script: Script, node: ast.expr | None) -> float | None:
    """A number where it is sure; else None."""
    try:
        value = None if node is None else script.fold(node)
    except UnclearError:
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
