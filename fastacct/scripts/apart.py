"""Indices, shapes and joined parts: whether they keep the records of a training apart."""

from __future__ import annotations

import ast
import math
import re
from typing import Final

from fastacct.scripts.kinds import (
    ASIDE_KEY,
    DATA,
    FIGURE,
    KNOWN,
    MODEL,
    NONE,
    OUTPUT,
    RECORD,
    SHOWN,
    SUM,
    TOLD,
    WATCHED,
    WORDS,
    Kinds,
    Names,
)
from fastacct.scripts.tree import UnclearError, last_name, walk

_WHOLES: Final = (28 * 28, 3 * 32 * 32, 3 * 224 * 224)
"""Numbers of a picture of the usual data sets."""
_ORDERED: Final = re.compile(r"(?:DP)?(?:LSTM|GRU|RNN|MultiheadAttention)|Transformer(?:En|De)coderLayer")
"""Layers whose first axis is not that of the batch, if not told so."""


class Apart(Names):
    """Indices, sums, shapes and joined parts with the kinds of their values."""

    def element(self, node: ast.Subscript) -> Kinds:
        """An element, or a part, of what an expression has."""
        of, at = self.of(node.value), self.of(node.slice)
        if isinstance(node.slice, ast.Constant) and ASIDE_KEY.fullmatch(str(node.slice.value)):
            return NONE
        function = self.script.above(node, ast.FunctionDef)
        is_item = function is not None and function.name == "__getitem__" and len(function.args.args) > 1
        is_item = is_item and isinstance(node.slice, ast.BinOp | ast.Slice)
        here = getattr(function, "name", "") == "__getitem__" and isinstance(node.value, ast.Attribute)
        if here and of & RECORD and isinstance(getattr(node.slice, "value", None), int):
            self.ask(node)  # one record in each item
        if is_item and function and function.args.args[1].arg in {last_name(one) for one in walk(node.slice)}:
            self.ask(node)
        if not of & RECORD:
            return of | (SHOWN if at & (TOLD | RECORD) else NONE)
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        first = axes[0] if axes else node.slice
        is_sure = isinstance(first, ast.Constant | ast.Slice | ast.UnaryOp) and not at
        is_new = any(isinstance(one, ast.Constant) and one.value is None for one in axes)
        is_sure &= not is_new or getattr(first, "value", None) is Ellipsis
        if isinstance(first, ast.Slice):
            inside = [one for one in walk(first) if isinstance(one, ast.Name)]
            rows = [row.node for one in inside for row in self.script.lookup(one.id, one)[1]]
            is_sure &= not any(isinstance(self.script.parent[one], ast.For | ast.comprehension) for one in rows)
            here = getattr(function, "name", "")
            is_batch = here in ("forward", "call", "training_step") or any(
                one in (self.loop.body, *self.loop.more) for one in self.script.around(node)
            )
            is_sure &= not is_batch or not (first.lower or first.upper or first.step)
        is_sure |= isinstance(first, ast.List) and all(isinstance(one, ast.Constant) for one in first.elts)
        if not is_sure and not self._is_place(first):
            self.ask(node)
        return of

    def _is_place(self, node: ast.expr) -> bool:
        """Whether an index is that of a data set's item, a part of an epoch's order, or the name of a column."""
        function = self.script.above(node, ast.FunctionDef)
        is_item = function is not None and function.name == "__getitem__" and len(function.args.args) > 1
        if is_item and function is not None and ast.unparse(node) == function.args.args[1].arg:
            return True
        if isinstance(node, ast.Name) and not self.of(node):
            try:
                made = self.script.resolve(node)
            except UnclearError:
                over = [self.script.parent[one.node] for one in self.script.lookup(node.id, node)[1]]
                return bool(over) and all(isinstance(one, ast.For | ast.comprehension) for one in over)
            elts = made.elts if isinstance(made, ast.List | ast.Tuple) else [made]
            is_inside = self.script.above(node, ast.For) is not None or self._is_given_records(node)
            is_order = last_name(getattr(made, "func", made)) in ("randperm", "permutation")
            return all(isinstance(one, ast.Constant) for one in elts) or (is_order and not is_inside)
        return False

    def _is_given_records(self, node: ast.AST) -> bool:
        function = self.script.above(node, ast.FunctionDef)
        return function is not None and any(
            self.kinds.get((function, one.arg), NONE) & RECORD for one in function.args.args
        )

    def _is_list(self, node: ast.AST) -> bool:
        try:
            made = self.script.resolve(node) if isinstance(node, ast.expr) else node
        except UnclearError:
            return False
        return isinstance(made, ast.List | ast.ListComp) or last_name(getattr(made, "func", made)) in ("list", "tolist")

    def combined(self, node: ast.AST, op: ast.operator, left: Kinds, right: Kinds) -> Kinds:
        """Records with records, one by one; figures added up, or times a number."""
        both = left | right
        if both & MODEL and (both - MODEL or isinstance(op, ast.Mult | ast.Div | ast.Pow | ast.MatMult)):
            self.ask(node)
        if both & RECORD:
            here = getattr(self.script.above(node, ast.FunctionDef), "name", "")
            is_apart = here in ("forward", "call", "__call__", "__getitem__") and not isinstance(op, ast.MatMult)
            is_list = isinstance(op, ast.Mult) and isinstance(node, ast.BinOp) and self._is_list(node.left)
            is_list |= isinstance(op, ast.Mult) and isinstance(self.script.parent[node], ast.DictComp)
            if both & TOLD or is_list or (left & right & RECORD and not is_apart):
                self.ask(node)
            return RECORD | (both & OUTPUT)
        if not both & TOLD:
            return both
        is_linear = isinstance(op, ast.Add | ast.Sub) or (isinstance(op, ast.Mult) and not (left and right))
        is_linear |= isinstance(op, ast.Div) and not right
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (getattr(node, "value", node),)
        is_linear &= not any(map(self.is_length, sides))  # how many records a batch has
        return (FIGURE if is_linear and both <= FIGURE | DATA | SUM else SHOWN) | (both & (DATA | SUM))

    def is_once(self, call: ast.Call) -> bool:
        """Whether indices of a part of the data are seen to come once each."""
        words = [one.value for one in call.keywords if one.arg == "indices"]
        given = words + call.args[last_name(call.func) == "Subset" :]
        try:
            inside = [one for each in given[:1] for one in walk(self.script.resolve(each))]
        except UnclearError:
            return False
        if any(isinstance(one, ast.BinOp) and isinstance(one.left, ast.List | ast.Call) for one in inside):
            return False
        if sum(isinstance(one, ast.comprehension) for one in inside) > 1:
            return False
        return {last_name(one.func) for one in inside if isinstance(one, ast.Call)} <= WORDS["once"]

    def joined(self, call: ast.Call, axes: list[str] | None) -> Kinds:
        """Parts that are joined: side by side, or what a list has of batches."""
        first = call.args[0] if call.args else call
        values = [one.value for one in self.script.lookup(first.id, first)[1]] if isinstance(first, ast.Name) else []
        is_list = bool(values) and all(
            (isinstance(one, ast.List) and not one.elts) or (isinstance(one, ast.Call) and last_name(one.func) == "zip")
            for one in values
        )
        for one in self.script.uses[first.id] if isinstance(first, ast.Name) else ():  # what is appended to it
            over = self.script.above(one, ast.For)
            is_list &= over is None or not isinstance(over.iter, ast.Tuple | ast.List)
        is_list |= isinstance(first, ast.ListComp | ast.GeneratorExp) and len(first.generators) == 1
        is_list &= not (isinstance(call.func, ast.Attribute) and self.of(call.func.value) & RECORD)
        here = getattr(self.script.above(call, ast.FunctionDef), "name", "")
        is_beside = here in ("forward", "call") and last_name(call.func) in ("cat", "concat", "concatenate")
        if not (is_list or (is_beside and axes and "0" not in axes)):
            self.ask(call)
        return RECORD

    def has_own_axis(self, call: ast.Call, whole: str) -> bool:
        """Whether a layer that has an axis is told one that is not that of the records."""
        name, words = last_name(call.func), {one.arg: one.value for one in call.keywords}
        if not WATCHED.match(whole):
            return True
        if _ORDERED.fullmatch(name) and "keras" not in whole:
            return getattr(words.get("batch_first"), "value", False) is True
        given = [words[one] for one in ("dim", "axis", "start_dim") if one in words]
        if re.fullmatch("(?:Log)?Softm(?:ax|in)|(?:Un)?[fF]latten", name) and "keras" not in whole:
            given += call.args[:1]
        return not any(re.fullmatch("-1|[1-9]", ast.unparse(one)) is None for one in given)

    def is_one_by_one(self, call: ast.Call, name: str, whole: str) -> bool:
        """Whether a function has one thing of records, and no axis of theirs."""
        axes = [ast.unparse(one.value) for one in call.keywords if one.arg in ("dim", "axis", "axes", "start_dim")]
        if name in ("flatten", "ravel", "unsqueeze", "expand_dims", "squeeze"):
            axes += [ast.unparse(one) for one in call.args[bool(whole) :][:1]]
        if any(re.fullmatch("-1|[1-9]", one) is None for one in axes):
            return False
        is_of_numbers = re.match(r"torch\.(?!utils)|numpy\.|jax\.", whole) is not None
        return not is_of_numbers or sum(bool(self.of(one) & RECORD) for one in call.args) < 2

    def is_flat(self, call: ast.Call, axes: list[str] | None) -> bool:
        """Whether the last axis may be that of the records."""
        here = getattr(self.script.above(call, ast.FunctionDef), "name", "")
        return "-1" in (axes or ()) and here not in ("forward", "call")

    def is_reshaped(self, given: list[ast.expr]) -> bool:
        """Whether the first axis stays that of the records."""
        sizes = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        first = sizes[0] if sizes else None
        here = getattr(self.script.above(first, ast.FunctionDef), "name", "") if first is not None else ""
        if first is None or isinstance(first, ast.Constant):
            return False
        if not isinstance(first, ast.UnaryOp) or here in ("forward", "call"):
            text = ast.unparse(first)
            return re.fullmatch(r"len\(.*\)|.*shape\[0\]|.*size\(0\)|\w+|-1|\*.*", text) is not None
        try:
            return math.prod(int(self.script.fold(one)) for one in sizes[1:]) in _WHOLES
        except UnclearError:
            return False

    def is_layer(self, call: ast.Call) -> bool:
        """Whether what is called is made by a library that treats records one by one, as a layer or a tokenizer."""
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "self":
            made = self.flow.fields.get(call.func.attr, [])
            return bool(made) and all(self.tag(one) == KNOWN for one in made)
        return isinstance(call.func, ast.Name) and self.tag(call.func) == KNOWN

    def axes(self, call: ast.Call, whole: str) -> list[str] | None:
        """The axes that a call names, as they are written; None where it names none."""
        words = [one.value for one in call.keywords if one.arg in ("dim", "axis", "dims", "start_dim")]
        given = words or call.args[1 if whole else 0 :]
        given = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        given = given[1:] if last_name(call.func) in ("topk", "roll") and not words else given
        texts = [ast.unparse(one) for one in given]
        return [one for one in texts if re.fullmatch(r"-?\d+|(?:list|tuple)\(range\(1.*", one)] or None
