"""Noise that a script adds to clipped gradients by itself, and calls of libraries that train privately."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from fastacct.scripts.accounts import claims
from fastacct.scripts.names import Key, Script
from fastacct.scripts.tree import UnclearError, last_name, walk

DRAWN: Final = re.compile(r"(?:randn(?:_like)?|(?:standard_)?normal_?|Normal|gauss|[Ll]aplace)$")
_GRADIENT: Final = re.compile(
    r"(?:^|_)(?:grads?|gradients?|jac(?:rev|obian)|updates|deltas|clipped)(?:_|\d|$)|^diffs?$", re.I
)
_TEXT: Final = (
    re.compile(
        r"(?:randn(?<!Parameter\(torch\.randn)(?:_like)?|normal(?<!init\.normal)(?<!weight\.normal)(?<!weight\.data\.normal)"
        r"(?<!trunc_normal)(?<!kaiming_normal)(?<!xavier_normal)_?|Normal|gauss|[Ll]aplace)\s*\("
    ),
    re.compile(r"[cC]lip|norm(?!al)|clamp|m(?:in|ax)(?:imum)?\(|where\("),
    re.compile(
        r"grad(?<![a-zA-Z]grad)(?<!requires_grad)(?<!no_grad)(?<!enable_grad)(?:s|ients?)?(?![a-zA-Z])(?!_checkpoint)"
        r"|jac(?:rev|obian)|updates(?<![a-zA-Z]updates)|deltas(?<![a-zA-Z]deltas)|diffs?\b(?<![.\w]diff)(?<![.\w]diffs)"
        r"|norm\((?s:.{0,200}?)(?:axis|dim)|_weights\(\)|parameters\(\)|state_dict\(\)|trainable_"
    ),
)
"""What stands in every script that adds noise to clipped gradients."""
_OF_MODEL: Final = re.compile(r"\.(?:parameters|state_dict|get_weights)\(\)|\.trainable_(?:variables|weights)")
_SCALED: Final = re.compile(
    r"(?:sigma|noise_?(?:multiplier|scale|std)|multiplier) ?\* ?[\w.]*(?:clip|norm|bound|sensitivity|\bc)\b"
    r"|(?:clip|norm|bound|sensitivity|\bc)\b ?\* ?[\w.]*(?:sigma|noise)"
)
"""Noise in units of a clipping norm."""
_BOUND: Final = re.compile(r"norm|l2|clip", re.I)
_ROWS: Final = re.compile(r"norm\(.*(?:axis|dim)")
_BOUNDING: Final = ("min", "max", "minimum", "maximum", "clamp", "clamp_", "clamp_max", "clamp_max_", "clip", "where")
_SAME: Final = ("to", "cuda", "cpu", "sample", "rsample", "reshape", "view", "type", "float", "double", "astype", "mul")
_CLIPS: Final = re.compile(r"clip(?:ped)?_?(?:by_\w*norm|grad)")
_GIVEN: Final = re.compile(r"noise_?(?:mult|scale|std)|target_eps"), re.compile(r"clip|max_\w*norm")
"""Words of arguments that an optimizer or an engine of another library is given: noise, and a clipping norm."""
_LIBRARIES: Final = (
    r"fastDP|private_transformers|dp_transformers|pyvacy|deepee|snsynth|d3p|pfl\.privacy|objax\.privacy"
    r"|mindarmour\.privacy|secretflow\.security\.privacy|nvflare\.app_common\.filters\.\w+_privacy"
    r"|optax\.contrib\.(?=dp|diff)|optax\.(?=dpsgd|diff)|flwr\.(?=[\w.]*(?:[dD]ifferential|dpfedavg|localdp))"
    r"|tensorflow_privacy|jax_privacy|tensorflow_federated\.(?=[\w.]*(?:dp_aggregator|DifferentiallyPrivate))"
)
_WORDS: Final = re.compile(rf"\b(?:{_LIBRARIES})\b|(?:PrivacyEngine|GradSampleModule|DPDataLoader|DPOptimizer)\w*\(")
_ROOTS: Final = {one[0] for one in map(re.compile(r"\w+").match, _LIBRARIES.split("|")) if one} - {"diff"} | {
    *("PrivacyEngine", "GradSampleModule", "DPDataLoader", "DPOptimizer")
}
"""Words of which one stands wherever those of a library do."""
_SINGLE: Final = re.compile(r"\.grad_sample\b|per_?(?:example|sample)_?grad|vmap\(\s*(?:\w+\.)*(?:value_and_)?grad\(")
"""Gradients of single records."""
_COUNTED: Final = re.compile(r"dp_accounting|ccountant|rivacy|\bDP\b|\bdelta\b|DELTA|\brho\b")
_NAMED: Final = re.compile(r"clip", re.I)
_EACH: Final = re.compile(r"\bin (?:zip|range)\((?:len\()?[a-zA-Z]")
_BACK: Final = re.compile(r"autograd\.grad\(|\.backward\(\)")
_CLIPPED: Final = re.compile(r"clip|min(?:imum)?\(|clamp", re.I)
_PRIVATE: Final = re.compile(rf"(?:{_LIBRARIES}|opacus)\b")
_AROUND: Final = re.compile(
    r"account|analysis|validat|compute_|_tests?\b|membership|epsilon|noise_multiplier|register|module_modif|audit",
    re.I,
)
"""Parts of such libraries that train nothing."""


def is_worth_reading(text: str) -> bool:
    """Whether a script may add noise to clipped gradients by itself, or by a library that is not known."""
    low = text.lower()
    if ("Meter(" in text and "fastacct" in text) or "optax.add_noise" in text:
        return True
    is_each = _SINGLE.search(text) or (_BACK.search(text) and _EACH.search(text))
    if is_each and _CLIPPED.search(text):
        return True
    if any(word in text for word in _ROOTS) and _WORDS.search(text):
        return True
    if not any(word in low for word in ("noise", "sigma", "norm", "rand", "gauss", "laplace", "target_eps")):
        return False
    is_drawn = any(word in low for word in ("randn", "normal", "gauss", "laplace"))
    if is_drawn and (all(one.search(text) for one in _TEXT) or claims(text)):
        return True
    if all(one.search(low) for one in _GIVEN):
        return True
    return ("noise" in low or "sigma" in low) and _SCALED.search(low) is not None


def library(script: Script, call: ast.Call) -> str:
    """The library that trains privately, and that a call is of; or, of others, one that is given noise and a norm."""
    name = script.qualified(call.func)
    if (found := _PRIVATE.match(name)) is not None and not _AROUND.search(name):
        return found[0].partition(".")[0]
    words = [one.arg or "" for one in call.keywords]
    words += [ast.unparse(one) for one in call.args if isinstance(one, ast.Name | ast.Attribute | ast.BinOp)]
    is_given = all(any(one.search(word.lower()) for word in words) for one in _GIVEN)
    return (name.partition(".")[0] or "by hand") if is_given and not _AROUND.search(name) else ""


def place(script: Script) -> ast.AST | None:
    """Where noise is added to gradients, in a file that clips them."""
    found = flow_of(script).sums()
    return found[0] if found and (bounds(script) or _is_tested(script)) else None


def _is_tested(script: Script) -> bool:
    """Whether something is scaled where a test of a norm says so: if norm > C: g = g * C / norm."""
    tests = (one for one in script.nodes if isinstance(one, ast.If | ast.IfExp) and isinstance(one.test, ast.Compare))
    scaled = (node for one in tests if _BOUND.search(ast.unparse(one.test)) for node in walk(one))
    return any(
        isinstance(getattr(one, "op", None), ast.Mult | ast.Div)
        or (isinstance(one, ast.Call) and last_name(one.func) in ("mul", "mul_", "div", "div_"))
        for one in scaled
    )


def drawn(script: Script) -> ast.Call | None:
    """Where noise in units of a clipping norm is drawn, in a file that clips, and adds it in another way."""
    if not _SCALED.search(script.text.lower()) or not _COUNTED.search(script.text) or not bounds(script):
        return None
    found = [one for one in script.calls if DRAWN.search(last_name(one.func))]
    near = (one for one in found if re.search("sigma|std|noise|scale", ast.unparse(script.statement(one)).lower()))
    return next(near, None)


def bounds(script: Script) -> list[ast.Call]:
    """Calls that clip gradients, or find by how much they are scaled to a norm."""
    return [*filter(flow_of(script).bounds, script.calls)]


def alone(script: Script) -> ast.AST | None:
    """Where gradients of single records are clipped, in a file that draws no noise for them."""
    is_each = _EACH.search(script.text) is not None and _BACK.search(script.text) is not None
    if not is_each and not _SINGLE.search(script.text):
        return None
    flow = flow_of(script)
    if _SINGLE.search(script.text):
        named = {*filter(_NAMED.search, flow.defined)}
        calls = [one for one in script.calls if not script.qualified(one.func).startswith("optax.")]
        return next((one for one in calls if flow.bounds(one) or last_name(one.func) in named), None)
    for one in script.calls:
        for inner in loops_around(script, one) if flow.bounds(one) else ():
            outer = script.above(script.parent[inner], ast.For)
            batch = {each.id for each in walk(outer.target) if isinstance(each, ast.Name)} if outer else set()
            called = {last_name(each.func) for each in walk(inner) if isinstance(each, ast.Call)}
            if batch & {last_name(each) for each in walk(inner.iter)} and called & {"grad", "backward"}:
                return one
    return None


_GLOBAL: Final = ("manual_seed", "manual_seed_all", "seed_everything", "set_seed", "set_random_seed", "seed")


def seeded_again(script: Script, *, is_torch: bool = False) -> ast.Call | None:
    """Where a generator is set to one and the same seed again and again."""
    seeds = (one for one in script.calls if last_name(one.func) in _GLOBAL[: -1 if is_torch else None])
    return next((one for one in seeds if is_same_each_time(script, one)), None)


def is_same_each_time(script: Script, seed: ast.Call) -> bool:
    """Whether a call with a constant stands in a loop, or in a function that is called in one."""
    try:
        given = [script.fold(one) for one in (*seed.args, *(word.value for word in seed.keywords))]
    except UnclearError:
        return False
    return len(given) == 1 and isinstance(given[0], int) and is_looped(script, seed, set())


def is_looped(script: Script, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether a node stands in a loop, or in a function that is called in one."""
    while not isinstance(node, ast.Module) and node not in seen:
        seen.add(node)
        node = script.parent[node]
        if isinstance(node, ast.For | ast.While):
            return True
        if isinstance(node, ast.FunctionDef):
            calls = [one for one in script.calls if last_name(one.func) == node.name]
            return any(is_looped(script, one, seen) for one in calls)
    return False


def loops_around(script: Script, node: ast.AST) -> Iterator[ast.For]:
    """The loops around a node in its function, from the inside."""
    yield from (one for one in script.around(node, ast.FunctionDef, ast.Lambda) if isinstance(one, ast.For))


@lru_cache(maxsize=1)
def flow_of(script: Script) -> Flow:
    """Gradients and noise of a file."""
    return Flow(script)


class Flow:
    """Which names of a file hold gradients, and which hold noise: more of them rather than fewer."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.keys: dict[ast.AST, Key] = {}
        self.named: dict[ast.AST, tuple[bool, list[Key]]] = {}
        self.noises: set[Key] = set()
        self.moved: set[Key] | None = None
        self.defined = {one.name: one for one in script.nodes if isinstance(one, ast.FunctionDef)}
        self.linked = [row for one in script.nodes for row in self.links(one)]
        """Names, and what is put into them."""
        while found := {self.key(name) for name, value in self.linked if self.is_noise(value)} - self.noises:
            self.noises |= found

    def gradients(self) -> set[Key]:
        """Names that hold gradients; of some files nobody asks."""
        if self.moved is not None:
            return self.moved
        rows = [(self.key(name), *self._read(value)) for name, value in (*self.linked, *self._summed())]
        found: set[Key] = set()
        while more := {key for key, is_sure, keys in rows if is_sure or not found.isdisjoint(keys)} - found:
            found |= more
        self.moved = found
        return found

    def key(self, node: ast.AST) -> Key:
        """A name with the scope that binds it; a field by its name alone."""
        if node not in self.keys:
            function = isinstance(node, ast.arg) and self.script.parent[self.script.parent[node]]
            self.keys[node] = function or self.script.lookup(last_name(node), node)[0], last_name(node)
            if isinstance(node, ast.Attribute):
                self.keys[node] = (node.attr,)
        return self.keys[node]

    def is_gradient(self, node: ast.AST) -> bool:
        """Whether gradients go into an expression."""
        is_sure, keys = self._read(node)
        return is_sure or not self.gradients().isdisjoint(keys)

    def _read(self, node: ast.AST) -> tuple[bool, list[Key]]:
        """Whether an expression is gradients by itself, and the names in it."""
        if node not in self.named:
            inside = walk(node)
            found = [one for one in inside if last_name(one) and not _is_method(one)]
            is_sure = any(_GRADIENT.search(last_name(one)) for one in found) or any(map(_is_scaled, inside))
            self.named[node] = is_sure, [] if is_sure else [self.key(one) for one in found]
        return self.named[node]

    def is_noise(self, node: ast.AST | None) -> bool:
        """Whether an expression is noise, scaled or of another shape; what a network makes of it is none."""
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if DRAWN.search(name) or (name and self.key(node.func) in self.noises):
                return True
            within = node.func.value if isinstance(node.func, ast.Attribute) else None
            return name in _SAME and any(self.is_noise(one) for one in (within, *node.args))
        if isinstance(node, ast.BinOp):
            return self.is_noise(node.left) or self.is_noise(node.right)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.is_noise(node.elt)
        if isinstance(node, ast.List | ast.Tuple | ast.Subscript | ast.UnaryOp | ast.IfExp):
            return any(self.is_noise(one) for one in ast.iter_child_nodes(node))
        return isinstance(node, ast.Name) and self.key(node) in self.noises

    def bounds(self, call: ast.Call) -> bool:
        """Whether a call clips gradients, or finds by how much they are scaled to a norm."""
        name = last_name(call.func).lower()
        if _CLIPS.search(name) or (name in _BOUNDING and _BOUND.search(ast.unparse(call).lower()[len(name) :])):
            return True
        within = [call.func.value] if isinstance(call.func, ast.Attribute) and name in _BOUNDING else []
        is_bound = "clip" in name or name in _BOUNDING
        return is_bound and any(self.is_gradient(one) for one in (*within, *call.args))

    def sums(self) -> list[ast.AST]:
        """Sums of gradients and noise, first of all those into which noise is drawn."""
        found: list[ast.AST] = []
        for node in self.script.nodes:
            parts: list[ast.expr] = []
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add):
                parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
            elif isinstance(node, ast.Call) and last_name(node.func) in ("add", "add_"):
                parts = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            for one in parts:
                others = [other for other in parts if other is not one]
                if others and self.is_noise(one) and self._is_fresh(one, node):
                    text = ast.unparse(one)
                    if any(map(self.is_gradient, others)) or _SCALED.search(text.lower()):
                        found.insert(0 if _TEXT[0].search(text) else len(found), node)
        return found

    def _is_fresh(self, noise: ast.expr, node: ast.AST) -> bool:
        """Whether noise is drawn where it is added, and is no parameter that began at random."""
        scope, is_looped = self.script.scope(node), self.script.in_loop(node, self.script.scope(node))
        for one in walk(noise):
            if isinstance(one, ast.Call) and self.is_noise(one):
                return True
            home, found = self.script.lookup(one.id, one) if isinstance(one, ast.Name) else (None, [])
            drawn = (each.node for each in found if home is scope and self.key(one) in self.noises)
            if any(self.script.in_loop(each, scope) >= is_looped for each in drawn):
                return not isinstance(node, ast.AugAssign) or noise is not node.target
        return False

    def links(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Names, and what is put into them; a parameter that is moved by a gradient does not become one."""
        if isinstance(node, ast.Assign):
            targets = [one for target in node.targets for one in _leaves(target)]
            is_moved = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add | ast.Sub)
            if not is_moved or not {*map(last_name, targets)} & {last_name(one) for one in walk(node.value)}:
                yield from ((one, node.value) for one in targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Mult | ast.Div):
            yield from ((one, node.value) for one in _leaves(node.target))
        elif isinstance(node, ast.For | ast.comprehension):
            yield from ((one, node.iter) for one in _leaves(node.target))
        elif isinstance(node, ast.Return) and node.value is not None:
            if (function := self.script.above(node, ast.FunctionDef)) is not None:
                home, name = self.script.parent[function], function.name
                yield from ((one, node.value) for one in self.script.uses[name] if self.key(one)[0] is home)
                yield from ((one, node.value) for one in self.script.attributes[name])
        elif isinstance(node, ast.Call):
            yield from self._passed(node)

    def _summed(self) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Names of sums, and what is added to them in place."""
        for method in self.script.attributes["add_"]:
            for one in getattr(self.script.parent[method], "args", ()):
                yield from ((name, one) for name in _leaves(method.value))

    def _passed(self, call: ast.Call) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Parameters, and what a call gives them; a function that a call is given takes the rest."""
        if (function := self.defined.get(last_name(call.func))) is not None:
            taken = [*function.args.posonlyargs, *function.args.args]
            taken = taken[1:] if isinstance(call.func, ast.Attribute) and taken and taken[0].arg == "self" else taken
            named = {one.arg: one.value for one in call.keywords}
            yield from zip(taken, call.args, strict=False)
            yield from ((one, named[one.arg]) for one in (*taken, *function.args.kwonlyargs) if one.arg in named)
        for one in call.args:
            if isinstance(one, ast.Lambda):
                yield from ((each, other) for each in one.args.args for other in call.args if other is not one)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend"):
            yield from ((call.func.value, one) for one in call.args)


def _is_method(node: ast.AST) -> bool:
    """Whether a name is numpy.diff, or that of another module."""
    return last_name(node) == "diff" and isinstance(node, ast.Attribute)


def _is_scaled(node: ast.AST) -> bool:
    """Whether rows are scaled to a norm here, or the parameters of two models subtracted."""
    if isinstance(node, ast.Call) and last_name(node.func) in _BOUNDING and _ROWS.search(ast.unparse(node)):
        return True
    return isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and _is_change(node)


def _is_change(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> bool:
    """Whether parameters of two models are subtracted, as for the update of a client."""
    value = node.value if isinstance(node, ast.DictComp) else node.elt
    is_less = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    return is_less and sum(len(_OF_MODEL.findall(ast.unparse(one.iter))) for one in node.generators) > 1


def _leaves(target: ast.AST) -> Iterator[ast.AST]:
    """The names that are set: of a tuple each, of an element the whole."""
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _leaves(one)
    elif last_name(target):
        yield target
