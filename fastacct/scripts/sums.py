"""Whether the loss of a batch is a sum over its records, which a function of a mean over the batch is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fastacct.scripts.names import Script
from fastacct.scripts.tree import Function, UnclearError, last_name, walk

_LOSS: Final = re.compile(r"loss|cross_entropy|kl_div", re.I)
_LINEAR: Final = ("mean", "sum", "reduce_mean", "reduce_sum")
_SAME: Final = (
    *("item", "detach", "cpu", "cuda", "to", "float", "double", "half", "clone", "contiguous", "scale", "type"),
    *("squeeze", "unsqueeze", "view", "reshape", "flatten", "stack", "cat", "hstack", "tensor", "as_tensor", "neg"),
    *("add", "sub", "mul", "div", "nan_to_num", "requires_grad_", "data_ptr", "size", "dim", "numel"),
)
"""Functions that leave a sum over records one."""
_WHOLE: Final = ("torch.", "tensorflow.", "jax.", "numpy.", "math.", "builtins.abs", "builtins.max", "builtins.min")
"""Libraries whose other functions are taken for curved ones."""


class Sums:
    """The losses of a region: `holds` tells what has records, and `reduces` what is found of all of them together."""

    def __init__(
        self,
        script: Script,
        nodes: Sequence[ast.AST],
        holds: Callable[[ast.AST | None], bool],
        reduces: Callable[[ast.AST], bool],
    ) -> None:
        self.script, self.nodes, self.holds, self.reduces = script, nodes, holds, reduces
        self.values: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        batch = getattr(nodes[0], "target", None) or getattr(nodes[0], "args", None)
        self.given = {last_name(one) for one in walk(batch)} if batch is not None else set()
        """Names of a batch, or of parameters."""
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.values.setdefault(target.id, []).append((node, node.value))

    def found(self) -> Iterator[ast.AST]:
        """What bends a sum over records, on the way to backward() or to what a function returns."""
        ends: list[ast.expr] = []
        for node in self.nodes:
            if isinstance(node, ast.Call) and last_name(node.func) in ("backward", "manual_backward"):
                ends += [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            elif isinstance(node, ast.Return) and node.value is not None and isinstance(self.nodes[0], Function):
                ends.append(node.value)
        seen: set[ast.AST] = set()
        for end in ends:
            yield from self._bent(end, seen)
        kept = {one.id for end in seen for one in walk(end) if isinstance(one, ast.Name)} & self.values.keys()
        for node in self.nodes:
            if isinstance(node, ast.If) and self.is_summed(node.test):
                stores = (one for part in (*node.body, *node.orelse) for one in walk(part))
                if any(isinstance(one, ast.Name | ast.Attribute) and self._is_moved(one, kept) for one in stores):
                    yield node.test

    def _is_moved(self, node: ast.Name | ast.Attribute, kept: set[str]) -> bool:
        """Whether a loss is set here, or its gradients are found."""
        is_set = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in kept
        return is_set or (isinstance(node, ast.Attribute) and node.attr == "backward")

    def _bent(self, node: ast.AST, seen: set[ast.AST]) -> Iterator[ast.AST]:
        """The functions of sums over records that are not linear."""
        if node in seen:
            return
        seen.add(node)
        parts: list[ast.AST] = []
        if isinstance(node, ast.Name):
            for statement, value in self._before(node):
                is_power = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Pow)
                if is_power and self.is_summed(node):
                    yield statement
                parts.append(value)
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
            left, right = self.is_summed(node.left), self.is_summed(node.right)
            is_product = isinstance(node.op, ast.Mult | ast.MatMult | ast.Div)
            is_both = is_product and ((left and self.holds(node.right)) or (right and self.holds(node.left)))
            is_under = isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow) and right
            if is_both or is_under or (isinstance(node.op, ast.Pow) and left):
                yield node
        elif isinstance(node, ast.Call):
            of = [*node.args, *(one.value for one in node.keywords)]
            of += [node.func.value] if isinstance(node.func, ast.Attribute) else []
            if not self._is_known(node):
                return
            parts, name = [*of], last_name(node.func)
            is_curved = name not in (*_SAME, *_LINEAR) and any(self.is_summed(one) for one in of)
            if is_curved or (self.reduces(node) and name not in _LINEAR):
                yield node
        elif isinstance(node, ast.Compare | ast.IfExp):
            test = node.test if isinstance(node, ast.IfExp) else node
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
            if any(self.is_summed(one) for one in ast.iter_child_nodes(test)):
                yield node
        elif isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
            parts = [node.value]
        elif isinstance(node, ast.Tuple | ast.List | ast.UnaryOp):
            parts = [*ast.iter_child_nodes(node)]
        elif isinstance(node, ast.Dict):  # that a model of Hugging Face returns
            parts = [one for key, one in zip(node.keys, node.values, strict=True) if getattr(key, "value", 0) == "loss"]
        for one in parts:
            yield from self._bent(one, seen)

    def _is_known(self, call: ast.Call) -> bool:
        """Whether a call is a function of a library, or a method of a tensor that has records or a sum of them."""
        if self.script.qualified(call.func):
            return self.script.qualified(call.func).startswith(_WHOLE)
        within = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_scaled = last_name(call.func) == "scale"
        return within is not None and (is_scaled or self.holds(within) or self.is_summed(within))

    def is_summed(self, node: ast.AST) -> bool:
        """Whether a sum or a mean over records is in an expression, or a loss that is one."""
        return self._is_in(node, set())

    def _is_in(self, node: ast.AST, seen: set[ast.AST]) -> bool:
        if node in seen:
            return False
        seen.add(node)
        if isinstance(node, ast.Name):
            return any(self._is_in(value, seen) for _, value in self._before(node))
        if isinstance(node, ast.Call):
            if self.reduces(node) or self._is_loss(node):
                return True
            if last_name(node.func) not in _SAME and not self.script.qualified(node.func).startswith(_WHOLE):
                within = node.func.value if isinstance(node.func, ast.Attribute) else None
                return within is not None and self._is_in(within, seen)
        if isinstance(node, ast.Attribute):
            return (node.attr == "loss" and self.holds(node.value)) or self._is_in(node.value, seen)
        if isinstance(node, ast.Lambda | ast.Subscript):
            return isinstance(node, ast.Subscript) and self._is_in(node.value, seen)
        return any(self._is_in(one, seen) for one in ast.iter_child_nodes(node))

    def _is_loss(self, call: ast.Call) -> bool:
        """Whether a call is a loss of PyTorch that is a mean or a sum over the batch."""
        try:
            made = call.func if self.script.qualified(call.func) else self.script.resolve(call.func)
        except UnclearError:
            return False
        name = self.script.qualified(made.func if isinstance(made, ast.Call) else made)
        said = [*call.keywords, *(made.keywords if isinstance(made, ast.Call) else [])]
        is_single = any(one.arg in ("reduction", "reduce", "size_average") for one in said)
        is_single = is_single and not any(getattr(one.value, "value", "") in ("mean", "sum") for one in said)
        return name.startswith("torch.nn.") and not is_single and bool(_LOSS.search(name)) and self.holds(call)

    def _before(self, name: ast.Name) -> Iterator[tuple[ast.stmt, ast.expr]]:
        """What a name may be set to where it is used."""
        found = sorted(self.values.get(name.id, ()), key=lambda one: _end(one[0]), reverse=True)
        before = [one for one in found if _end(one[0]) <= (name.lineno, name.col_offset)]
        around = {name} if not before else {*self.script.around(name)}
        for one in before or ([] if name.id in self.given else found):
            yield one
            if not isinstance(one[0], ast.AugAssign) and self.script.parent[one[0]] in around:
                return


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
