"""Whether a private training is plain: each line that touches records, losses or the model has a form of a short list.

What touches none of them is left alone; all else is asked about.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts.calls import STEPS
from fastacct.scripts.found import Loop
from fastacct.scripts.kinds import (
    FIGURE,
    FOUND,
    LOSSES,
    MODEL,
    NONE,
    OUTPUT,
    RECORD,
    SIZE,
    TOLD,
    WORDS,
    Kinds,
)
from fastacct.scripts.tree import Function, UnclearError, last_name, parts, walk
from fastacct.scripts.values import Values

CLAIM: Final = (
    "there, too, each record is one example that is treated by itself, the private steps alone move the model, one for "
    "a batch, and nothing that is found of records is kept, shown or decides, but the model and printed losses"
)
PUBLIC: Final = "all data that moves a model there without noise is public, and none of it is made of private records"
_MODULE: Final = re.compile(r"(?:^|\.)(?:Module|LightningModule|Model|Layer|PreTrainedModel)$")
_HOOKS: Final = re.compile(
    "on_|optimizer_step|lr_scheduler_step|configure_gradient|transfer_batch|backward|compute_loss"
)
_NUMBERS: Final = re.compile(r"_idx$|_index$|^(?:idx|_|training|epoch|\w*_step)$")
_SETTINGS: Final = re.compile(
    r"id$|^(?:e|rank|world\w*|epochs|step|seed|m|layer|args|argv|cfg|config|state|control|self|cls)$"
)
"""Parameters that are no records, and those of functions that others are given."""
_MOVES_NOTHING: Final = re.compile(r"sched|prof|account|meter|engine|pbar|bar$|progress|\benv\b|tracker|privacy", re.I)
_TRAINS: Final = re.compile(r"(?<!pre)[tT]rain")
_MODE: Final = re.compile("True|False|mode|train|is_", re.I)


class Plain(Values):
    """The lines of a training that are not plain."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        for node in self.script.nodes:
            if isinstance(node, Function):
                self._begin(node)
            elif isinstance(node, ast.Lambda):
                self._given(node)
        before = None
        while before != (before := [sum(map(len, one.values())) for one in (self.kinds, self.tags)]):
            self._round()
        self.is_last = True
        self._round()
        for body in (one for one in (self.loop.body, *self.loop.more) if one is not None):
            self._trained(body)
        for one in self.script.nodes:
            if isinstance(one, ast.For) and any(self.of(part) & RECORD for part in parts(one.target)):
                self._carried(one)
        self._stepped()

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
        is_hook = any(whole) and _HOOKS.match(function.name)
        is_layer = function.name == "call" and any(map(_MODULE.search, whole))
        for one in taken[1:] if function.name in STEPS or is_layer or is_hook else ():
            if not _NUMBERS.search(one):
                is_batch = not is_hook or re.search("batch|input|output|data", one)
                is_model = is_hook and re.search("optim|model|module", one)
                self.add((function, one), RECORD if is_batch else MODEL if is_model else TOLD)
        if function.name in ("__getitem__", "__iter__"):
            self.add(("returned", function), RECORD)

    def _given(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """A function that others are given, who may call it with records."""
        uses = self.script.uses[function.name] if isinstance(function, Function) else []
        above = [self.script.parent[one] for one in uses]
        said = {word.arg for one in above if isinstance(one, ast.Call) for word in one.keywords}  # partial(f, scale=2)
        given = function.args
        more = [one for one in (given.vararg, given.kwarg) if one is not None]
        for one in (*given.args, *more):
            is_other = _NUMBERS.search(one.arg) or _SETTINGS.search(one.arg) or self.is_model(one.arg)
            if (one in more or not is_other) and one.arg not in said:
                self.add((function, one.arg), RECORD)

    # -- statements --------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        for node in self.script.nodes:
            if isinstance(node, ast.stmt):
                self._statement(node)
            elif isinstance(node, ast.comprehension):
                self._each(node.iter, node.target)
            elif isinstance(node, ast.Lambda) and isinstance(self.script.parent[node], ast.Call | ast.keyword):
                self.of(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assigned(target, node.value)
        elif isinstance(node, ast.AugAssign):
            self.put(node.target, self.combined(node, node.op, node.target, node.value))
        elif isinstance(node, ast.For):
            self._each(node.iter, node.target)
        elif isinstance(node, ast.With):
            for one in node.items:
                kinds = self.of(one.context_expr)
                if one.optional_vars is not None:
                    self.put(one.optional_vars, kinds)
        elif isinstance(node, ast.If | ast.While | ast.Assert):
            deciding = FOUND if isinstance(node, ast.Assert) else FOUND | SIZE
            if self.of(node.test) & deciding:
                self.ask(node.test)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = self.script.above(node, ast.FunctionDef)
            kinds, name = self.of(node.value), getattr(function, "name", "")
            self.add(("returned", function), kinds)
            if any("property" in ast.unparse(one) for one in getattr(function, "decorator_list", ())):
                self.add(name, kinds & (RECORD | FIGURE))
            is_loss = name in ("training_step", "compute_loss")
            if (kinds & RECORD and name == "val_dataloader") or (is_loss and kinds & (TOLD | RECORD)):
                self.ask(node)
        elif isinstance(node, ast.Expr):
            if self.of(node.value) & FIGURE and not isinstance(node.value, ast.Call):
                self.ask(node)
        elif isinstance(node, ast.Match):
            if self.of(node.subject) & FOUND:
                self.ask(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, Function):
            self._function_of_file(node)

    def _function_of_file(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Defaults that are of records, and functions that a decorator of the file may call in a way of its own."""
        taken = [*node.args.posonlyargs, *node.args.args][::-1]
        for parameter, default in zip(taken, node.args.defaults[::-1], strict=False):
            self.add((node, parameter.arg), self.of(default) & FOUND)
        if any(last_name(getattr(one, "func", one)) in self.functions for one in node.decorator_list):
            self.ask(node)

    def put(self, target: ast.expr, kinds: Kinds) -> None:
        """Put kinds into what an assignment names."""
        for one in parts(target):
            if isinstance(one, ast.Starred):
                one = one.value
            if isinstance(one, ast.Name):
                self.add(self.key(one), kinds)
                if isinstance(self.script.scope(one), ast.ClassDef):  # Settings.mean
                    self.add(one.id, kinds & FOUND)
            elif isinstance(one, ast.Attribute):
                self._set_field(one, kinds)
            elif isinstance(one, ast.Subscript):
                self._set_element(one, kinds)

    def _set_element(self, target: ast.Subscript, kinds: Kinds) -> None:
        """An element: a learning rate, a column of a table, or what is kept in a list."""
        root, at = self.root(target), target.slice
        of, is_word = self.of(root), isinstance(at, ast.Constant) and isinstance(at.value, str)
        is_rate = is_word and ast.unparse(at) in ("'lr'", "'weight_decay'") and not kinds
        is_column = is_word and kinds <= RECORD | OUTPUT
        is_watched = "environ" in ast.unparse(target) and re.search("WATCH|GRAD", ast.unparse(at))
        value = getattr(self.script.statement(target), "value", None)
        is_layer = isinstance(value, ast.Call) and self.script.qualified(value.func).startswith("torch.nn.")
        is_odd = (of & MODEL and not is_rate and not is_layer) or (of & RECORD and not is_column)
        if is_odd or self.of(at) & FOUND or is_watched:
            self.ask(target)
        self.add(self.key(root), kinds)

    def _set_field(self, target: ast.Attribute, kinds: Kinds) -> None:
        """A field of self, of a model, or of a library."""
        value = getattr(self.script.statement(target), "value", None)
        made = self.script.qualified(value.func) if isinstance(value, ast.Call) else ""
        if last_name(target.value) == "self":
            owner, here = self.script.owner(target), self.script.above(target, ast.FunctionDef)
            is_module = owner is not None and any(_MODULE.search(self.script.qualified(one)) for one in owner.bases)
            name = getattr(here, "name", "")
            if (kinds & FOUND and is_module and name in (*STEPS, "call")) or name == "__getitem__":
                self.ask(target)  # what a module keeps of records while it is called, or a data set from item to item
            self.add(target.attr, kinds)
            return
        is_of_class = bool(self.script.qualified(target.value)) or last_name(target.value) in self.classes
        is_set = is_of_class and not isinstance(value, ast.Constant)  # a function or a method that is replaced
        is_plain = target.attr in WORDS["fields"] and not kinds & (FOUND | SIZE)
        if (
            is_set
            or (self.of(target.value) and not is_plain and not made.startswith("torch.nn."))
            or kinds & (FOUND | SIZE)
        ):
            self.ask(target)
        self.add(target.attr, kinds & FOUND)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        """Tuples element by element, and what make_private returns: a model, an optimizer, and records."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assigned(one, other)
            return
        kinds = self.of(value)
        name = last_name(value.func) if isinstance(value, ast.Call) else ""
        if isinstance(target, ast.Tuple) and (name.startswith("make_private") or name in ("prepare", "setup")):
            for one in target.elts:
                is_loss = len(target.elts) == 4 and one is target.elts[2]
                self.put(one, RECORD if one is target.elts[-1] else NONE if is_loss else MODEL)
                if is_loss and isinstance(one, ast.Name):
                    self.tags[self.key(one)] = LOSSES
        else:
            self.put(target, kinds)
            self.tag_as(target, value)

    def _each(self, over: ast.expr, target: ast.expr) -> None:
        """What a loop goes through gives its target; of enumerate() the number has no kind."""
        name = last_name(over.func) if isinstance(over, ast.Call) else ""
        if name == "enumerate" and isinstance(target, ast.Tuple) and isinstance(over, ast.Call):
            self._each(over.args[0], target.elts[1])
        elif name == "items" and isinstance(target, ast.Tuple):
            self.put(target.elts[1], self.of(over))
        elif name == "zip" and isinstance(target, ast.Tuple) and isinstance(over, ast.Call):
            for one, other in zip(target.elts, over.args, strict=False):
                self._each(other, one)
        else:
            self.put(target, self.of(over))
            if isinstance(over, ast.Attribute) and isinstance(target, ast.Name):
                self.tag_as(target, over)  # a layer of a list

    def _class(self, node: ast.ClassDef) -> None:
        """A class that a library calls in the middle of a training: its methods are not followed."""
        whole = [self.script.qualified(one) for one in node.bases]
        is_known = all(not one or _MODULE.search(one) or one.endswith(tuple(WORDS["bases"])) for one in whole)
        called = [one for each in node.body if getattr(each, "name", "") != "__init__" for one in walk(each)]
        names = {last_name(one.func) for one in called if isinstance(one, ast.Call)}
        is_shown = names <= WORDS["shows"] | {"get_epsilon", "format", "super", "round", "float", "len"}
        if any("BatchNorm" in one for one in whole) or not (is_known or is_shown):
            self.ask(node)

    # -- rounds and steps --------------------------------------------------------------------------------------------

    def _trained(self, body: ast.For) -> None:
        """A loop that takes private steps: one backward() for a batch, of which nothing is kept."""
        back = [one for one in walk(body) if isinstance(one, ast.Call) and last_name(one.func).endswith("backward")]
        for call in back:
            if call is not back[0] or self.script.above(self.script.parent[call], ast.For) is not body:
                self.ask(call)

    def _carried(self, body: ast.For) -> None:
        """A loop over records, of which no round has what an earlier one had."""
        first: dict[str, tuple[int, int]] = {}
        each = {part for one in walk(body) if isinstance(one, ast.comprehension) for part in walk(one.target)}
        names = [one for one in walk(body) if isinstance(one, ast.Name) and one not in each and self.of(one) & RECORD]
        for one in names:
            if isinstance(one.ctx, ast.Store):
                first[one.id] = min(_place(self.script.statement(one)), first.get(one.id, (10**9, 0)))
                test = self.script.above(one, ast.If)
                if test is not None and body in self.script.around(test):
                    self.ask(one)  # a batch that later rounds use
        for one in names:
            where = _place(self.script.statement(one))
            if isinstance(one.ctx, ast.Load) and _place(body) < where <= first.get(one.id, (0, 0)):
                self.ask(one)  # what an earlier round had

    def _stepped(self) -> None:
        """Steps and trainings of which it is not seen that they have noise, or move nothing."""
        for one in (*self.script.attributes["step"], *self.script.attributes["fit"], *self.script.attributes["train"]):
            call = self.script.parent[one]
            is_own = call in (*self.loop.steps, *self.loop.own)
            if not isinstance(call, ast.Call) or call.func is not one or is_own:
                continue
            try:
                made = self.script.resolve(one.value)
            except UnclearError:
                made = one.value
            whole = self.script.qualified(made.func) if isinstance(made, ast.Call) else ""
            if one.attr == "train":
                is_mode = all(_MODE.search(ast.unparse(each)) for each in call.args)
                is_trainer = _TRAINS.search(ast.unparse(getattr(made, "func", made)))
                is_known = one.attr in self.functions or (is_mode and not is_trainer)
            elif one.attr == "fit":
                is_known = last_name(getattr(made, "func", made)) in self.classes and "fit" in self.functions
            else:
                is_known = not any(self.of(each) & MODEL for each in call.args) and bool(
                    _MOVES_NOTHING.search(last_name(one.value)) or ".lr_scheduler." in whole
                )
            if not is_known:
                self.ask(one, PUBLIC)


def _place(node: ast.AST) -> tuple[int, int]:
    """Where a node stands in its file."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def is_of_jax(loop: Loop) -> bool:
    """Whether a loop of the script goes through batches that JAX Privacy draws."""
    return loop.framework == "jax_privacy" and last_name(getattr(loop.node, "func", loop.node)) != "DPKerasConfig"


def odd(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Lines of a training that are not plain; of a loop by hand, which is asked about as a whole, none."""
    if loop.framework not in ("by hand", "flower", "optax") and not is_of_jax(loop):
        yield from ((node, claim or CLAIM) for node, claim in Plain(loop).asks.items())
