"""Expressions of a training with the kinds of their values: elements, operations, comprehensions."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from fastacct.scripts.calls import STEPS, Calls
from fastacct.scripts.kinds import ASIDE, FIGURE, FOUND, LOSS, MODEL, NONE, OUTPUT, RECORD, SIZE, TOLD, WORDS, Kinds
from fastacct.scripts.tree import UnclearError, last_name, walk


class Values(Calls):
    """Expressions with their kinds."""

    def of(self, node: ast.AST | None) -> Kinds:
        """The kinds of an expression; what is not plain in it is noted."""
        if node is None or isinstance(node, ast.Constant):
            return NONE
        if isinstance(node, ast.Lambda):
            return self.of(node.body) & FIGURE
        if isinstance(node, ast.Name):
            made = [self.kinds.get(("returned", one), NONE) & FIGURE for one in self.functions.get(node.id, ())]
            return self.named(node).union(*made)
        if isinstance(node, ast.Attribute):
            return self._field(node)
        if isinstance(node, ast.Subscript):
            return self._element(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.BinOp):
            return self.combined(node, node.op, node.left, node.right)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            if isinstance(node, ast.IfExp) and self.of(node.test) & (FOUND | SIZE):
                self.ask(node)
            return NONE.union(*(self.of(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)))
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            return self._listed(node)
        found = NONE.union(*(self.of(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)))
        if isinstance(node, ast.NamedExpr):
            self.put(node.target, self.of(node.value))
        is_odd = isinstance(node, ast.Yield | ast.YieldFrom | ast.Starred | ast.Set) and found & RECORD
        if is_odd and not isinstance(self.script.parent[node], ast.Call):
            self.ask(node)
        if isinstance(node, ast.Dict):
            for word, value in zip(node.keys, node.values, strict=True):
                if getattr(word, "value", "") == "monitor" and not ASIDE.search(ast.unparse(value)):
                    self.ask(node)
        return found

    def _listed(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Kinds:
        """What a comprehension makes: of each record one thing, of itself."""
        elt = node.value if isinstance(node, ast.DictComp) else node.elt
        found = self.of(elt)
        over = [bool(self.of(one.iter) & RECORD) for one in node.generators]
        targets = {last_name(part) for one in node.generators for part in walk(one.target)}
        is_fixed = not targets & {one.id for one in walk(elt) if isinstance(one, ast.Name)}
        is_chosen = any(self.of(test) & FOUND for one in node.generators for test in one.ifs)
        is_many = (is_fixed or (any(over) and not all(over)) or sum(over) > 1) and bool(found & RECORD)
        if is_chosen or is_many or (isinstance(node, ast.SetComp) and found & RECORD):
            self.ask(node)
        return found

    def _compare(self, node: ast.Compare) -> Kinds:
        """What is compared: predictions with targets, one by one."""
        sides = [self.of(one) for one in (node.left, *node.comparators)]
        found = NONE.union(*sides)
        is_word = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops) or (is_word and not found & FIGURE):
            return NONE  # "labels" in batch
        if found & RECORD and found & FIGURE:
            self.ask(node)
        return found & (RECORD | OUTPUT) or (TOLD if found & FIGURE else found & SIZE)

    def combined(self, node: ast.AST, op: ast.operator, *sides: ast.expr) -> Kinds:
        """Records with numbers, or with others in a layer; losses added up, or times a number."""
        left, right = map(self.of, sides)
        both = left | right
        if both & MODEL and not isinstance(op, ast.Mod):
            self.ask(node)
        if both & RECORD:
            is_sure = not both & (FIGURE | SIZE) and not isinstance(op, ast.MatMult)
            if left & right & RECORD:
                is_sure &= self.is_layered(node) and isinstance(op, ast.Add | ast.Mult)
            elif isinstance(op, ast.Mult | ast.Add):
                is_sure &= not self._is_list(sides[0] if left & RECORD else sides[1])
            if not is_sure:
                self.ask(node)
            return RECORD | (both & OUTPUT)
        if not both & FIGURE:
            return both
        is_linear = isinstance(op, ast.Add | ast.Sub) or (isinstance(op, ast.Mult) and not (left and right))
        is_linear |= isinstance(op, ast.Div) and not right
        return LOSS if is_linear and both == LOSS else TOLD

    def _is_list(self, node: ast.expr) -> bool:
        """Whether a thing of records may be a list, which times two has each twice."""
        if isinstance(node, ast.Attribute):
            return any(map(self._is_list, self.fields.get(node.attr, ())))
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            return name in ("list", "tolist", "sorted") or any(map(self._is_list, self.ends(name)))
        if isinstance(node, ast.List | ast.ListComp | ast.Tuple) or isinstance(self.script.parent[node], ast.DictComp):
            return True
        if isinstance(node, ast.Name):
            rows = self.script.lookup(node.id, node)[1]
            mapped = self.script.above(node, ast.FunctionDef)
            is_item = any(row.kind == "parameter" for row in rows) and not self.is_layered(node)
            is_item &= getattr(mapped, "name", "") not in STEPS or getattr(mapped, "name", "") == "collate_fn"
            made = [row.value for row in rows if row.value is not None and not isinstance(row.value, ast.Name)]
            return is_item or any(map(self._is_list, made))
        return False

    def _element(self, node: ast.Subscript) -> Kinds:
        """An element, or a part, of what an expression has."""
        of, at = self.of(node.value), self.of(node.slice)
        function = self.script.above(node, ast.FunctionDef)
        index = function.args.args[-1].arg if function is not None and function.name == "__getitem__" else ""
        is_computed = index in {last_name(one) for one in walk(node.slice)} - {""} and ast.unparse(node.slice) != index
        if not of & RECORD:
            is_table = at & FOUND == RECORD and not self.is_batch(node)  # labels[name], of an item or a line of a file
            if (at & FOUND and not is_table) or is_computed:
                self.ask(node)
            return of | (at & (RECORD | SIZE))
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        first = axes[0]
        with suppress(UnclearError):
            made = self.script.resolve(first)
            first = made if isinstance(made, ast.List) else first  # a list of columns
        if isinstance(first, ast.Slice):
            is_sure = not (first.lower or first.step) and (first.upper is None or not self.is_batch(node))
            is_sure &= not any(isinstance(one, ast.Constant) and one.value is None for one in axes)
        elif isinstance(first, ast.Constant) and isinstance(first.value, int):
            is_sure = len(axes) == 1 and self._is_tuple(node.value)
        elif isinstance(first, ast.Constant):
            is_sure = first.value is not None and len(axes) == 1 and not isinstance(first.value, float)
        elif isinstance(first, ast.List):
            is_sure = all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in first.elts)
        else:
            is_sure = index != "" and ast.unparse(first) == index
        if not is_sure or at & (FOUND | SIZE):
            self.ask(node)
        return of

    def _is_tuple(self, node: ast.expr) -> bool:
        """Whether a thing of records is the whole that a loop or a library gives, of which a part is taken."""
        if not isinstance(node, ast.Name):
            return isinstance(node, ast.Call)
        rows = self.script.lookup(node.id, node)[1]
        is_given = all(row.kind in ("other", "parameter") for row in rows)
        return (
            is_given
            and not self.is_layered(node)
            and not any(isinstance(self.script.parent.get(row.node), ast.Tuple) for row in rows)
        )

    def _field(self, node: ast.Attribute) -> Kinds:
        if self.script.qualified(node):
            return NONE
        of = self.of(node.value)
        if node.attr in WORDS["sizes"]:
            above = self.script.parent[node]
            is_first = isinstance(above, ast.Subscript) and ast.unparse(above.slice) == "0" and node.attr == "shape"
            return SIZE if is_first and self._is_length([node.value]) else NONE
        if last_name(node.value) == "self":
            return self.kinds.get(node.attr, NONE)
        own = self.kinds.get(node.attr, NONE) & FIGURE
        if node.attr in WORDS["logs"]:
            return TOLD
        if node.attr == "loss" and of & (RECORD | MODEL):
            return LOSS if self._is_mean() else TOLD
        if of & RECORD and node.attr in ("logits", "last_hidden_state", "pooler_output"):
            return of
        if (of & MODEL and node.attr in WORDS["inner"]) or (of & RECORD and node.attr not in WORDS["parts"]):
            self.ask(node)
        return of | own

    def _is_mean(self) -> bool:
        """Whether the loss that a model gives is a mean over records."""
        made = [ast.unparse(one.value) for one in self.script.attributes["from_pretrained"]]
        known = "Tokenizer|Config|Processor|Extractor|(?<!Token)Classification|Choice"
        return all(re.search(known, one) for one in made)
