"""Which names of a script stand for its private data, and for what that is made of, and which for models.

A name stands for what may have been put into it before its use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fastacct.scripts.names import Key, Script
from fastacct.scripts.sources import made_alike
from fastacct.scripts.tree import (
    FUNCTIONS,
    Function,
    UnclearError,
    is_command_line,
    last_name,
    names_in,
    parts,
    value_of,
    walk,
)

_MODEL: Final = re.compile(
    r"(?:model|net|network|params|parameters|variables|state|opt|optimizer|optim|engine|trainer|scheduler|sched"
    r"|tok|tokenizer|device|key|rng|logger|writer|transforms?|criterion)\d*$",
    re.I,
)
_SETTINGS: Final = re.compile(r"^(?:config|cfg|conf|args|opts?|options|settings|hparams|hp|flags)$", re.I)
_MODEL_METHODS: Final = (
    *("parameters", "state_dict", "train", "eval", "zero_grad", "step", "compile", "fit", "save_pretrained"),
    *("named_parameters", "load_state_dict", "get_weights", "set_weights", "make_private", "attach"),
)


class Flow:
    """What names of a file stand for the private data of one loop."""

    def __init__(self, script: Script, data: Sequence[ast.expr]) -> None:
        self.script = script
        self.defined: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.models: set[str] = set()
        for node in script.nodes:
            self._note(node)
        self.seeds: set[Key] = set()
        self.roots: set[str] = set()
        """Names of private data, and of what it is made of."""
        for one in data:
            self._seed(one, set())

    def _note(self, node: ast.AST) -> None:
        """Note functions, fields, and names of models."""
        if isinstance(node, Function):
            self.defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in _MODEL_METHODS and last_name(func.value):
                self.models.add(last_name(func.value))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for one in parts(target):
                    if isinstance(one, ast.Attribute):
                        self.fields.setdefault(one.attr, []).append(node.value)

    def _seed(self, node: ast.expr, seen: set[ast.AST]) -> None:
        """Take private data, and what it is made of."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, ast.Attribute) and last_name(node.value) == "self":
            self.seeds.add(self._key(node))
            self.roots.add(ast.unparse(node))
            for value in self.fields.get(node.attr, ()):
                self._seed(value, seen)
            return
        for one in names_in(node):
            if (
                self.script.qualified(one)
                or self.is_model(one.id)
                or one.id in self.defined
                or _SETTINGS.search(one.id)
            ):
                continue
            found = [*self.reaching(one)]
            is_plain = any(isinstance(value, ast.Constant) or is_command_line(value) for value in found)
            is_returned = one is node and isinstance(one.ctx, ast.Store)  # the loader that make_private returns
            if not (found or is_returned) or is_plain:
                continue
            self.seeds.add(self._key(one))
            self.roots.add(one.id)
            for value in found if (part := self._unpacked(one)) is None else [part]:
                self._seed(value, seen)
        for call in (one for one in walk(node) if isinstance(one, ast.Call)):
            for value in self._made(call):
                self._seed(value, seen)
            for other in made_alike(self.script, call):  # the same data set
                self.roots |= {ast.unparse(one) for one in getattr(self.script.parent[other], "targets", [])}

    def _made(self, call: ast.Call) -> Iterator[ast.expr]:
        """What a function of the file returns that is called once, and what a data set of the file has items of."""
        name = last_name(call.func)
        if self.script.qualified(call.func) or sum(last_name(one.func) == name for one in self.script.calls) > 8:
            return
        for function in self.defined.get(name, []) if len(self.script.uses[name]) == 1 else ():
            found = [one.value for one in walk(function) if isinstance(one, ast.Return)]
            yield from (one for one in found if one is not None and not isinstance(one, ast.Tuple))
        for item in self.defined.get("__getitem__", []):
            if getattr(self.script.owner(item), "name", "") == name:
                for one in walk(item):
                    field = one.value if isinstance(one, ast.Subscript) else None
                    while isinstance(field, ast.Attribute) and last_name(field.value) != "self":
                        field = field.value  # self.frame.iloc[i]
                    if isinstance(field, ast.Attribute) and not self.is_model(field.attr):
                        yield field

    def _unpacked(self, use: ast.Name) -> ast.expr | None:
        """The element of a tuple that a function of the file returns, and that a name is set to once."""
        found = self.script.lookup(use.id, use)[1]
        call = found[0].value if len(found) == 1 and found[0].kind == "part" else None
        if not isinstance(call, ast.Call) or len(self.defined.get(last_name(call.func), [])) != 1:
            return None
        try:
            return self.script.element(found[0], use.id)
        except UnclearError:
            return None

    def _key(self, node: ast.expr) -> Key:
        try:
            return self.script.origin(node)
        except UnclearError:
            return ("", ast.unparse(node))

    def is_model(self, name: str) -> bool:
        """Whether a name is that of a model, an optimizer or another thing that trains."""
        return name in self.models or _MODEL.search(name) is not None

    # -- what a name may stand for -----------------------------------------------------------------------------------

    def reaching(self, use: ast.Name) -> Iterator[ast.expr]:
        """Values that may have been put into a name before it is used; of a parameter those of all calls."""
        scope, found = self.script.lookup(use.id, use)
        if self.script.scope(use) is not scope:  # a name of an outer scope: all of its values
            yield from (value for one in found if (value := value_of(self.script, one.node, use.id)) is not None)
            for one in found:
                if one.kind == "parameter":
                    yield from self._arguments(one.node)
            return
        here = place(self.script.statement(use))
        rows = [(one, place(self.script.statement(one.node))) for one in found]
        before = sorted((row for row in rows if row[1] < here), key=lambda row: row[1], reverse=True)
        around = {*self.script.around(use, *FUNCTIONS)}
        last: ast.AST | None = None
        for one, _ in before:
            if one.kind == "parameter":
                yield from self._arguments(one.node)
                continue
            if (value := value_of(self.script, one.node, use.id)) is not None:
                yield value
            statement = self.script.statement(one.node)
            is_inside = (isinstance(statement, ast.For) and statement in around) or self.script.parent[
                statement
            ] in around
            if is_inside and not isinstance(statement, ast.AugAssign):
                last = statement
                break
        for one, there in rows:
            if there >= here and (value := value_of(self.script, one.node, use.id)) is not None:
                loops = {*self._loops(one.node)} & around
                if any(last is None or last not in [*walk(loop)] for loop in loops):
                    yield value

    def _arguments(self, parameter: ast.AST) -> Iterator[ast.expr]:
        """What the calls of a function give one of its parameters."""
        function = self.script.parent[self.script.parent[parameter]]
        name = getattr(function, "name", "")
        name = getattr(self.script.owner(function), "name", name) if name == "__init__" else name
        for call in self.script.calls:
            if name and last_name(call.func) == name:
                yield from (value for one, value in self.passed(function, call) if one is parameter)

    def passed(self, function: ast.AST, call: ast.Call) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Parameters, and what a call gives them."""
        given = function.args  # type: ignore[attr-defined]
        taken = [*given.posonlyargs, *given.args]
        taken = taken[1:] if taken and taken[0].arg in ("self", "cls") else taken
        named = {one.arg: one.value for one in call.keywords}
        yield from zip(taken, call.args, strict=False)
        yield from ((one, named[one.arg]) for one in (*taken, *given.kwonlyargs) if one.arg in named)

    def _loops(self, node: ast.AST) -> Iterator[ast.AST]:
        yield from (one for one in self.script.around(node, *FUNCTIONS) if isinstance(one, ast.For | ast.While))


def place(node: ast.AST) -> tuple[int, int]:
    """Where a node stands in its file."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
