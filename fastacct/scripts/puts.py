"""What is put into the names of a script, line by line, in place too; noise that is drawn, and its scale."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fastacct.scripts import noise
from fastacct.scripts.beside import WORDS
from fastacct.scripts.found import Loop
from fastacct.scripts.names import Key
from fastacct.scripts.tree import FUNCTIONS, last_name, walk

_PLACED: Final = ("to", "cuda", "cpu", "type", "float", "double", "astype", "reshape", "view", "sample", "rsample")
_SHAPES: Final = re.compile(r"shape\[[^:]|size\(.|^1$")
_COUNTS: Final = re.compile(r"len\(\w+\)|\w+\.(?:shape\[0\]|size\(0\))")
_SEEDS: Final = ("manual_seed", "default_rng", "RandomState")
_OTHER: Final = re.compile("aplace|^gauss$|variate")
"""What draws no Gaussian noise, or one number for all coordinates."""


class Put(NamedTuple):
    """A value that is put into a name: how is set, part, more (in place), given (to a function) or out (of one)."""

    line: int
    scope: ast.AST
    value: ast.AST | None
    how: str


class Events:
    """What is put into names, and noise that is made of them."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.script, self.flow = loop, loop.script, noise.flow_of(loop.script)
        self.events: dict[Key, list[Put]] = {}
        self.alias: dict[Key, list[ast.expr]] = {}
        """What a loop goes through, by the name of its elements."""
        for node in self.script.nodes:
            self._follow(node)

    def rows(self, node: ast.AST) -> list[Put]:
        """What is put into a name or a field, or what a function returns."""
        return self.events.get(self.flow.key(node), []) if last_name(node) else []

    def _put(self, target: ast.AST, value: ast.AST | None, how: str, at: ast.AST | None = None) -> None:
        while isinstance(target, ast.Subscript | ast.Starred):
            target, how = target.value, "part" if how == "set" else how
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for place, one in enumerate(target.elts):
                self._put(one, values[place] if len(values) == len(target.elts) else value, how)
        elif last_name(target):
            at = at or target
            inner = next(
                (one for one in self.script.around(target, ast.stmt) if isinstance(one, ast.comprehension)), None
            )
            scope = self.script.scope(target) if inner is None else self.script.parent[inner]
            put = Put(getattr(at, "lineno", 0), scope, value, how)
            self.events.setdefault(self.flow.key(target), []).append(put)
            if how != "set":  # in place: of what a loop goes through, too
                around = {*self.script.around(at)}
                for source in self.alias.get(self.flow.key(target), []):
                    if self.script.parent[source] in around or self.script.statement(source) in around:
                        self._put(source, value, how, at)

    def _follow(self, node: ast.AST) -> None:
        if isinstance(node, ast.For | ast.comprehension):
            self._each(node.target, node.iter)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._put(target, node.value, "set")
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            self._put(node.target, node.value, "set")
        elif isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Sub):
            self._put(node.target, node, "more")
        elif isinstance(node, ast.Return):
            for one, value in self.flow.links(node):
                self._put(one, value, "out")
        elif isinstance(node, ast.Call):
            for one, value in self.flow.links(node):
                self._put(one, value, "more" if last_name(node.func) in ("append", "extend") else "given")
            if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_") and node.func.attr != "sub_":
                self._put(node.func.value, node, "more")

    def _each(self, target: ast.AST, source: ast.AST | None) -> None:
        """The elements of what a loop goes through."""
        name = last_name(source.func) if isinstance(source, ast.Call) else ""
        within = source.func.value if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) else None
        args = source.args if isinstance(source, ast.Call) else []
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        if name in ("enumerate", "items", "tqdm") and (within is not None or args):
            inner = within if name == "items" else args[0]
            if name == "tqdm" or len(elements) != 2:
                self._each(target, inner)
            else:
                self._each(elements[1], inner)
        elif name == "zip" and len(args) == len(elements):
            for one, part in zip(elements, args, strict=True):
                self._each(one, part)
        elif name in ("values", "list", "reversed", "detach") and (within is not None or args):
            self._each(target, within if name == "values" else args[0])
        else:
            self._put(target, source, "set")
            if isinstance(target, ast.Name) and isinstance(source, ast.Name | ast.Attribute):
                self.alias.setdefault(self.flow.key(target), []).append(source)

    def last(self, node: ast.AST) -> list[ast.AST | None]:
        """What may be in a name or a field: what was put into it last, and all that was added since."""
        rows, scope, line = self.rows(node), self.script.scope(node), getattr(node, "lineno", 0)
        for outer in self.script.around(node, ast.stmt):
            if inside := [one.value for one in rows if one.scope is outer]:
                return inside
        own = [one for one in rows if one.scope is scope and (one.line < line or one.how in ("given", "out"))]
        if not own:
            return [one.value for one in rows if one.scope is not scope or isinstance(node, ast.Name)]
        own.sort(key=lambda one: one.line)
        first = max((place for place, one in enumerate(own) if one.how == "set"), default=0)
        loops = {*self._loops(node)}
        if loops and not loops & {*self._loops(own[first].value)}:  # of an earlier round
            own += [
                one for one in rows if one.scope is scope and one.line >= line and loops & {*self._loops(one.value)}
            ]
        return [one.value for one in own[first:]]

    def _loops(self, node: ast.AST | None) -> Iterator[ast.AST]:
        """The loops around a node."""
        around = self.script.around(node, *FUNCTIONS) if node is not None else ()
        yield from (one for one in around if isinstance(one, ast.For | ast.While))

    def is_raw(self, node: ast.AST) -> bool:
        """Whether gradients without noise are in an expression."""
        raise NotImplementedError

    # -- noise -------------------------------------------------------------------------------------------------------

    def is_noise(self, node: ast.AST | None, depth: int = 5) -> bool:
        """Whether an expression is Gaussian noise of its own: for each coordinate, used once, of a known scale."""
        if node is None or not depth:
            return False
        if isinstance(node, ast.Name):
            rows = [row for row in self.rows(node) if row.how != "more"]
            uses = [one for one in self.script.uses[node.id] if isinstance(one.ctx, ast.Load)]
            uses = [one for one in uses if self.flow.key(one) == self.flow.key(node)]
            uses = [one for one in uses if getattr(self.script.parent[one], "attr", "") not in WORDS["of_no_gradient"]]
            return len(uses) == 1 and bool(rows) and all(self.is_noise(row.value, depth - 1) for row in rows)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            is_left = self.flow.is_noise(node.left)
            scale = node.right if is_left else node.left
            return self.is_noise(node.left if is_left else node.right, depth) and self._is_scale(scale)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.is_noise(node.elt, depth)
        if isinstance(node, ast.Subscript):
            return self.is_noise(node.value, depth)
        if not isinstance(node, ast.Call):
            return False
        name = last_name(node.func)
        if noise.DRAWN.search(name) and _OTHER.search(name) is None:
            words = {one.arg: one.value for one in node.keywords}
            scales = [words[one] for one in ("std", "scale", "stddev") if one in words]
            scales += node.args[1:2] if name in ("normal", "normal_", "Normal") and not self._is_jax(node) else []
            shapes = [words[one] for one in ("size", "shape") if one in words]
            shapes += node.args[:1] if name == "randn" else []
            seeded = any(isinstance(one, ast.Call) and one.args and last_name(one.func) in _SEEDS for one in walk(node))
            is_shaped = not any(_SHAPES.search(ast.unparse(one)) for one in shapes)
            return is_shaped and not seeded and all(map(self._is_scale, scales))
        if name in _PLACED and isinstance(node.func, ast.Attribute):
            return self.is_noise(node.func.value, depth)
        if name in self.flow.defined:
            rows = self.rows(node.func)
            return bool(rows) and all(self.is_noise(row.value, depth - 1) for row in rows)
        return False

    def _is_jax(self, call: ast.Call) -> bool:
        return self.script.qualified(call.func).startswith(("jax.", "mlx.")) or last_name(call.func) == "randn"

    def _is_scale(self, node: ast.AST | None, depth: int = 4) -> bool:
        """Whether the scale of noise is the same in all steps: made of numbers, and of how many records there are."""
        if node is None:
            return False
        plain = [one for one in walk(node) if _COUNTS.fullmatch(ast.unparse(one)) or isinstance(one, ast.Attribute)]
        inside = {part for one in plain for part in walk(one)} - {*plain}
        for one in (each for each in walk(node) if each not in inside):
            if isinstance(one, ast.Attribute) and sum(row.how != "given" for row in self.rows(one)) > 1:
                return False
            if isinstance(one, ast.IfExp | ast.Compare | ast.BoolOp | ast.Lambda) or self.is_raw(one):
                return False
            if isinstance(one, ast.Constant) and one.value == 0 and one.value is not False:
                return False
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                rows = self.rows(one)
                is_moving = any(row.how == "more" for row in rows) or sum(row.how == "set" for row in rows) > 1
                is_looped = any(
                    isinstance(row.node, ast.Name) for row in self.script.lookup(one.id, one)[1] if row.kind == "other"
                )
                if not depth or is_moving or is_looped or not all(self._is_scale(row.value, depth - 1) for row in rows):
                    return False
            if isinstance(one, ast.Call) and last_name(one.func) in self.flow.defined:
                rows = self.rows(one.func)
                if not depth or not all(self._is_scale(row.value, depth - 1) for row in rows):
                    return False
        return True
