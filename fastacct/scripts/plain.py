"""Whether a private training is plain: each line that touches records, figures or the model has a form that is known.

All else is asked about.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.kinds import (
    ASIDE,
    DATA,
    FIGURE,
    KNOWN,
    LOSS,
    MODEL,
    NONE,
    OUTPUT,
    RECORD,
    SHOWN,
    TOLD,
    WORDS,
    Kinds,
)
from fastacct.scripts.rounds import Rounds
from fastacct.scripts.tree import Function, last_name, parts, walk

CLAIM: Final = (
    "there, too, each record is one example that is treated by itself, the private steps alone move the model, one for "
    "a batch, and nothing that is found of records is kept, shown or decides, but the model and printed losses"
)
_MODULE: Final = re.compile(r"(?:^|\.)(?:Module|LightningModule|Model|Layer|PreTrainedModel)$")
_STEPS: Final = ("training_step", "validation_step", "test_step", "predict_step")
_HOOKS: Final = re.compile(
    "on_|optimizer_step|lr_scheduler_step|configure_gradient|transfer_batch|backward|compute_loss"
)
_NUMBERS: Final = re.compile(r"_idx$|_index$|^(?:idx|_|training|epoch|\w*_step)$")
_SETTINGS: Final = re.compile(
    r"id$|^(?:e|rank|world\w*|epochs|step|seed|m|layer|args|argv|cfg|config|state|control|self|cls)$"
)
"""Parameters that are no records, and those of functions that others are given."""


class Plain(Rounds):
    """The lines of a training that are not plain."""

    def __init__(self, loop: Loop, flow: Flow) -> None:
        super().__init__(loop, flow)
        for home, name in (one for one in flow.seeds if len(one) == 2):
            self.add(
                (home, name) if isinstance(home, Function | ast.Lambda) else str(name).removeprefix("self."), RECORD
            )
        for name in flow.models:
            self.add(name, MODEL)
        for node in self.script.nodes:
            if isinstance(node, Function):
                self._begin(node)
            elif isinstance(node, ast.Lambda) and not isinstance(self.script.parent[node], ast.Assign):
                self._given(node)
        before = None
        while before != (before := [sum(map(len, one.values())) for one in (self.kinds, self.tags)]):
            self._round()
        self.is_last = True
        self._round()
        self.trained()
        self.stepped()

    def _begin(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """What a function is given that a library calls: records."""
        owner = self.script.owner(function)
        taken = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        uses = self.script.uses[function.name] if owner is None else self.script.attributes[function.name]
        if any(one is not getattr(self.script.parent[one], "func", None) for one in uses):
            self._given(function)
        if owner is None:
            return
        whole = [self.script.qualified(one) for one in owner.bases]
        is_forward = function.name == "forward" or (
            function.name in ("call", "__call__") and any(map(_MODULE.search, whole))
        )
        is_hook = any(whole) and _HOOKS.match(function.name)
        for one in taken[1:] if is_forward or function.name in (*_STEPS, "__call__") or is_hook else ():
            if not _NUMBERS.search(one):
                is_batch = not is_hook or re.search("batch|input|output|data", one)
                is_model = is_hook and re.search("optim|model|module", one)
                self.add((function, one), RECORD if is_batch else MODEL if is_model else SHOWN)
        if function.name in ("__getitem__", "__iter__", "collate_fn"):
            self.add(("returned", function), RECORD)

    def _given(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """A function that others are given, who may call it with records."""
        uses = self.script.uses[function.name] if isinstance(function, Function) else []
        above = [self.script.parent[one] for one in uses]
        said = {word.arg for one in above if isinstance(one, ast.Call) for word in one.keywords}  # partial(f, scale=2)
        if function.args.vararg is not None:
            self.add((function, function.args.vararg.arg), RECORD)
        for one in function.args.args:
            is_other = _NUMBERS.search(one.arg) or _SETTINGS.search(one.arg) or self.flow.is_model(one.arg)
            if not is_other and one.arg not in said:
                self.add((function, one.arg), RECORD)

    # -- statements --------------------------------------------------------------------------------------------------

    def put(self, target: ast.expr, kinds: Kinds) -> None:
        """Put kinds into what an assignment names."""
        for one in parts(target):
            if isinstance(one, ast.Starred):
                one = one.value
            if isinstance(one, ast.Name):
                self.add(self.key(one), kinds)
                if isinstance(self.script.scope(one), ast.ClassDef):  # Settings.mean
                    self.add(one.id, kinds & TOLD)
            elif isinstance(one, ast.Attribute):
                self._set_field(one, kinds)
            elif isinstance(one, ast.Subscript):
                kinds = kinds | SHOWN if self.of(one.slice) & RECORD else kinds
                root = self.root(one)
                is_set = isinstance(root, ast.Attribute) and root.attr == "environ"
                is_plain = is_set and not re.search("WATCH|GRAD", ast.unparse(one.slice))
                is_plain |= getattr(one.slice, "value", "") in ("lr", "weight_decay") and not kinds & TOLD
                is_plain &= not self.is_length(getattr(self.script.statement(one), "value", one))
                value = getattr(self.script.statement(one), "value", None)
                made = self.script.qualified(value.func) if isinstance(value, ast.Call) else ""
                if (self.of(root) & MODEL or is_set) and not is_plain and not made.startswith("torch.nn."):
                    self.ask(one)
                elif isinstance(root, ast.Name | ast.Attribute):
                    if self.of(root) & kinds & RECORD and isinstance(one.slice, ast.Slice | ast.Tuple | ast.UnaryOp):
                        self.ask(one)
                    self.add(self.key(root), kinds)
                    self._keep(root, kinds)

    def _set_field(self, target: ast.Attribute, kinds: Kinds) -> None:
        """A field of self, or of a model: a layer, or requires_grad."""
        value = getattr(self.script.statement(target), "value", None)
        is_of_class = self.script.qualified(target.value) or last_name(target.value) in self.classes
        if is_of_class and not isinstance(value, ast.Constant) and "environ" not in ast.unparse(target):
            self.ask(target)  # a function of a library, or a method, that is replaced
        self.add(target.attr, kinds if last_name(target.value) == "self" else kinds & TOLD)
        if last_name(target.value) == "self":
            self._keep(target, kinds)
        elif (
            self.of(target.value) & (MODEL | RECORD)
            or self.of(target.value) & kinds & TOLD
            or (kinds & TOLD and self.tag(target.value) & KNOWN)
        ) and target.attr not in WORDS["fields"]:
            made = self.script.qualified(value.func) if isinstance(value, ast.Call) else ""
            if not made.startswith("torch.nn."):
                self.ask(target)

    def _keep(self, target: ast.expr, kinds: Kinds) -> None:
        """What a module keeps of records while it is called, in a field of its own."""
        owner, here = self.script.owner(target), self.script.above(target, ast.FunctionDef)
        is_module = owner is not None and any(_MODULE.search(self.script.qualified(one)) for one in owner.bases)
        is_called = is_module and getattr(here, "name", "") in ("forward", "call", *_STEPS)
        if is_called and isinstance(target, ast.Attribute) and kinds & (RECORD | TOLD):
            self.ask(target)

    # -- statements --------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        for node in self.script.nodes:
            if isinstance(node, ast.stmt):
                self._statement(node)
            elif isinstance(node, ast.comprehension):
                self.put(node.target, self._each(node.iter, node.target))

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._assigned(target, node.value)
        elif isinstance(node, ast.AugAssign):
            self.put(node.target, self.combined(node, node.op, self.of(node.target), self.of(node.value)))
        elif isinstance(node, ast.For):
            self.put(node.target, self._each(node.iter, node.target))
            if isinstance(node.iter, ast.Attribute) and last_name(node.iter.value) == "self":
                self._tag(node.target, self.tag(node.iter))  # a layer of a list
        elif isinstance(node, ast.With):
            for one in node.items:
                kinds = self.of(one.context_expr)
                if one.optional_vars is not None:
                    self.put(one.optional_vars, kinds)
        elif isinstance(node, ast.If | ast.While):
            self._branch(node)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = self.script.above(node, ast.FunctionDef)
            kinds = self.of(node.value)
            self.add(("returned", function), kinds)
            if any("property" in ast.unparse(one) for one in getattr(function, "decorator_list", ())):
                self.add(function.name, kinds & TOLD)  # type: ignore[union-attr]
            if kinds & RECORD and getattr(function, "name", "") == "val_dataloader":
                self.ask(node)
            if kinds & SHOWN and getattr(function, "name", "") in ("training_step", "compute_loss"):
                self.ask(node)
        elif isinstance(node, ast.Expr | ast.Assert):
            kinds = self.of(node.value if isinstance(node, ast.Expr) else node.test)
            if isinstance(getattr(node, "value", None), ast.BoolOp | None) and kinds & (TOLD | RECORD):
                self.ask(node)
        elif isinstance(node, ast.Match) and self.of(node.subject) & (TOLD | RECORD):
            self.ask(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, Function):
            taken = [*node.args.posonlyargs, *node.args.args][::-1]
            for parameter, default in zip(taken, node.args.defaults[::-1], strict=False):
                self.add((node, parameter.arg), self.of(default) & TOLD)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        """Tuples element by element, and what make_private returns: a model, an optimizer, and records."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self.put(one, self.of(other))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Call) and self._is_private(value):
            self.of(value)
            for one in target.elts:
                is_loss = len(target.elts) == 4 and one is target.elts[2]
                self.put(one, RECORD if one is target.elts[-1] else NONE if is_loss else MODEL)
                if is_loss:
                    self._tag(one, LOSS)
        else:
            self.put(target, self.of(value))
            self._tag(target, self.tag(value))

    def _is_private(self, call: ast.Call) -> bool:
        name = last_name(call.func)
        return name.startswith("make_private") or name == "prepare"

    def _each(self, over: ast.expr, target: ast.expr) -> Kinds:
        """What a loop goes through gives its target; of enumerate() the number has no kind."""
        if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and isinstance(target, ast.Tuple):
            self.put(target.elts[1], self._each(over.args[0], target.elts[1]))
            return NONE
        if isinstance(over, ast.Call) and last_name(over.func) == "items" and isinstance(target, ast.Tuple):
            self.put(target.elts[1], self.of(over))
            return NONE
        if isinstance(over, ast.Call) and last_name(over.func) == "zip" and isinstance(target, ast.Tuple):
            for one, other in zip(target.elts, over.args, strict=False):
                self.put(one, self._each(other, one))
            return NONE
        return self.of(over)

    def _branch(self, node: ast.If | ast.While) -> None:
        """A branch that records decide may show figures, and no more."""
        if self.of(node.test) & (TOLD | RECORD):
            inside = [one for each in (*node.body, *node.orelse) for one in walk(each)]
            for one in inside:  # what is set there tells of the records
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    self.add(self.key(one), SHOWN)
                elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):  # and what is put into lists
                    self.add(self.key(self.root(one.func.value)), SHOWN)
            if _is_empty(node.test) or all(self._is_harmless(one) for one in (*node.body, *node.orelse)):
                return
            self.ask(node.test)

    def _is_harmless(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            given = NONE.union(*map(self.of, (*call.args, *(one.value for one in call.keywords))))
            return (last_name(call.func) in WORDS["shows"] and not given & MODEL) or isinstance(
                node.value, ast.Constant
            )
        if isinstance(node, ast.If):
            return all(self._is_harmless(one) for one in (*node.body, *node.orelse))
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_plain = isinstance(node.value, ast.Constant | ast.Name) or not self.of(node.value)
            return is_plain and self.of(node.value) <= TOLD and all(isinstance(one, ast.Name) for one in targets)
        return isinstance(node, ast.Pass)

    def _class(self, node: ast.ClassDef) -> None:
        """A class that a library calls in the middle of a training: its methods are not followed."""
        whole = [self.script.qualified(one) for one in node.bases]
        if any("BatchNorm" in one for one in whole):
            self.ask(node)
        if any(one and not _MODULE.search(one) and not one.endswith(tuple(WORDS["bases"])) for one in whole):
            called = [one for each in node.body if getattr(each, "name", "") != "__init__" for one in walk(each)]
            names = {last_name(one.func) for one in called if isinstance(one, ast.Call)}
            if names - WORDS["shows"] - {"get_epsilon", "format", "super", "round", "float", "len"}:
                self.ask(node)

    # -- expressions -------------------------------------------------------------------------------------------------

    def of(self, node: ast.AST | None) -> Kinds:
        """The kinds of an expression; what is not plain in it is noted."""
        if isinstance(node, ast.Lambda):
            return self.of(node.body) & TOLD
        if node is None or isinstance(node, ast.Constant):
            return NONE
        if isinstance(node, ast.Name):
            made = [self.kinds.get(("returned", one), NONE) & TOLD for one in self.functions.get(node.id, ())]
            return self.named(node).union(*made)
        if isinstance(node, ast.Attribute):
            return self._field(node)
        if isinstance(node, ast.Subscript):
            return self.element(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp):
            return self.combined(node, node.op, self.of(node.left), self.of(node.right))
        if isinstance(node, ast.Compare):
            found = NONE.union(*map(self.of, (node.left, *node.comparators)))
            is_named = any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
            is_word = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            is_named |= is_word and not found & TOLD  # "labels" in batch
            if found & RECORD and found & TOLD:
                self.ask(node)
            sides = (node.left, *node.comparators)
            is_length = any(map(self.is_length, sides)) and not all(isinstance(one, ast.Call) for one in sides)
            found |= SHOWN if is_length else NONE
            return NONE if is_named else found & (RECORD | OUTPUT) or (found & TOLD and SHOWN | (found & DATA))
        if isinstance(node, ast.IfExp):
            if self.of(node.test) & (TOLD | RECORD):
                self.ask(node)
            return self.of(node.body) | self.of(node.orelse)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            if any(self.of(test) & (TOLD | RECORD) for one in node.generators for test in one.ifs):
                self.ask(node)
            over = [bool(self.of(one.iter) & RECORD) for one in node.generators]
            targets = {last_name(part) for one in node.generators for part in walk(one.target)}
            is_fixed = not targets & {one.id for one in walk(node.elt) if isinstance(one, ast.Name)}
            if (is_fixed or (any(over) and not all(over))) and self.of(node.elt) & RECORD:
                self.ask(node)  # each of them several times
            found = RECORD if self.is_length(node.elt) else self.of(node.elt)
            return found | (SHOWN if isinstance(node, ast.SetComp) and found & RECORD else NONE)
        if isinstance(node, ast.DictComp):
            return self.of(node.value)
        if isinstance(node, ast.Dict):
            for word, value in zip(node.keys, node.values, strict=True):
                if getattr(word, "value", "") == "monitor" and not ASIDE.search(ast.unparse(value)):
                    self.ask(node)
        if isinstance(node, ast.Yield):
            self._yielded(node)
        starred = [one for one in getattr(node, "elts", ()) if isinstance(one, ast.Starred)]
        if sum(bool(self.of(one.value) & RECORD) for one in starred) > 1:
            self.ask(node)
        if isinstance(node, ast.NamedExpr):
            self.put(node.target, self.of(node.value))
        if isinstance(node, ast.Slice):
            return NONE.union(*map(self.of, (node.lower, node.upper, node.step)))
        return NONE.union(*(self.of(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)))

    def _yielded(self, node: ast.Yield) -> None:
        """What a generator of the file gives: of each thing that it goes through one."""
        function = self.script.above(node, ast.FunctionDef)
        kinds = self.of(node.value)
        self.add(("returned", function), kinds)
        other = [one for one in walk(function) if isinstance(one, ast.Yield)] if function is not None else []
        if kinds & RECORD and (len(other) > 1 or sum(isinstance(one, ast.For) for one in self.script.around(node)) > 1):
            self.ask(node)

    def _field(self, node: ast.Attribute) -> Kinds:
        if not isinstance(node.value, ast.Name | ast.Attribute):
            self.of(node.value)
        if node.attr in WORDS["sizes"] or self.script.qualified(node):
            return NONE
        if node.attr in WORDS["logs"]:
            return SHOWN
        if last_name(node.value) == "self":
            return self.kinds.get(node.attr, NONE)
        of = self.of(node.value) | (self.kinds.get(node.attr, NONE) & TOLD)
        if node.attr == "loss" and of:
            return of & TOLD or (FIGURE if self.is_mean else SHOWN)
        if node.attr in ("logits", "last_hidden_state", "pooler_output") and of & MODEL:
            return RECORD
        if (of & MODEL and node.attr in WORDS["inner"]) or (of & RECORD and node.attr in WORDS["turned"]):
            self.ask(node)
        return of


def _is_empty(test: ast.expr) -> bool:
    """Whether a condition is that a batch has no records."""
    return (
        re.fullmatch(
            r"(?:not )?len\([\w\[\]]+\)(?: [<>=!]=? [01])?|\w+\.(?:numel\(\)|shape\[0\]|size\(0\)) == 0",
            ast.unparse(test),
        )
        is not None
    )


def is_of_jax(loop: Loop) -> bool:
    """Whether a loop of the script goes through batches that JAX Privacy draws."""
    return loop.framework == "jax_privacy" and last_name(getattr(loop.node, "func", loop.node)) != "DPKerasConfig"


def odd(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Lines of a training that are not plain; of a loop by hand, which is asked about as a whole, none."""
    if loop.framework not in ("by hand", "flower") and not is_of_jax(loop):
        yield from ((node, CLAIM) for node in Plain(loop, flow).asks)
