"""Where private records go in a script: what is made of them, and what is found of all of them together.

An expression has kinds: `data` (records as they are), `record` (what a model makes of each, or its gradient), `figure`
(a loss or a statistic), `mean` (a figure along the axis of records), `extent` (a largest value, or which values occur),
`choice` (which of several figures is the best).
Functions of the file, lists and fields are followed; a name stands for what may have been put into it before its use.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from fastacct.scripts.loops import is_before_noise
from fastacct.scripts.names import Key, Script
from fastacct.scripts.scales import is_along_records, is_of_rows, is_scale
from fastacct.scripts.sources import made_alike
from fastacct.scripts.tree import (
    FUNCTIONS,
    Function,
    UnclearError,
    is_command_line,
    is_over_layers,
    last_name,
    names_in,
    parts,
    root_of,
    value_of,
    walk,
)

Kinds = frozenset[str]
_NONE: Final[Kinds] = frozenset()
_WHAT: Final[Kinds] = frozenset({"data", "record", "figure"})
_PLAIN: Final = (
    *("shape", "size", "dim", "ndim", "numel", "device", "dtype", "requires_grad", "columns", "column_names"),
    *("len", "range", "isinstance", "hasattr", "type", "id", "format", "features", "classes", "input_dim"),
    "class_to_idx",
)
"""Fields and functions that say nothing of single records, or what every script takes for public."""
_FIGURES: Final = (
    *("mean", "std", "var", "sum", "median", "quantile", "percentile", "norm", "average", "cov", "corrcoef", "corr"),
    *("reduce_mean", "reduce_sum", "reduce_std", "nanmean", "nanstd", "moments", "std_mean", "var_mean", "describe"),
    *("bincount", "histc", "histogram", "value_counts", "Counter", "compute_class_weight", "compute_sample_weight"),
    *("accuracy_score", "f1_score", "roc_auc_score", "count", "count_nonzero", "item_counts"),
)
_PICKS: Final = ("min", "max", "sorted", "sort", "nsmallest", "nlargest")
_PLACES: Final = ("argmin", "argmax", "argsort", "idxmin", "idxmax", "index", "heappop", "nsmallest", "nlargest")
"""Functions that say which of several figures is the best."""
_EXTENTS: Final = ("max", "min", "amax", "amin", "unique", "set", "nunique", "argmax_label")
_LOSS: Final = re.compile(r"loss|criterion|cross_entropy|kl_div|nll", re.I)
_SPLITS: Final = re.compile(r"split|^Subset$|^K?Fold$", re.I)
_OTHERS: Final = re.compile(r"test|valid|\bval\b|dev\b|public", re.I)
"""Keys of dictionaries of data sets, whose records are not trained on."""
_HOLDS: Final = ("DataLoader", "TensorDataset", "ConcatDataset", "Dataset", "DataFrame", "Series")
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
_FILLS: Final = ("append", "extend", "add", "add_", "insert", "appendleft", "update", "copy_", "push")


class Flow:
    """What names of a file stand for, of the private data of one loop."""

    def __init__(self, script: Script, data: Sequence[ast.expr], noised: Set[object] = frozenset()) -> None:
        self.script, self.noised = script, noised
        self.defined: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.filled: dict[str, list[tuple[ast.AST, ast.expr]]] = {}
        self.counted: dict[str, list[ast.expr]] = {}
        """Where elements are set: of counts, the labels that are counted."""
        self.fields: dict[str, list[ast.expr]] = {}
        self.models: set[str] = set()
        for node in script.nodes:
            self._note(node)
        self.memo: dict[ast.AST, Kinds] = {}
        self.open: set[ast.AST] = set()
        self.cut = False
        """Whether what is found may lack what is made of itself."""
        self.fuel = 20_000
        self.given: list[Mapping[ast.AST, Kinds]] = []
        self.seeds: set[Key] = set()
        self.roots: set[str] = set()
        """Names of private data, and of what it is made of."""
        self.alike: set[ast.AST] = set()
        for one in data:
            self._seed(one, set())

    def _note(self, node: ast.AST) -> None:
        """Note functions, what lists are filled with, fields, and names of models."""
        if isinstance(node, Function):
            self.defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute):
                is_used = func.attr == "update" and not isinstance(self.script.parent[node], ast.Expr)
                if func.attr in _FILLS and not is_used and (root := root_of(func.value)):
                    self.filled.setdefault(root, []).extend((node, one) for one in node.args)
                if func.attr.startswith("heap") and len(node.args) > 1 and (root := root_of(node.args[0])):
                    self.filled.setdefault(root, []).append((node, node.args[1]))
                if func.attr in _MODEL_METHODS and last_name(func.value):
                    self.models.add(last_name(func.value))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for one in parts(target):
                    if isinstance(one, ast.Subscript) and (root := root_of(one)):
                        self.filled.setdefault(root, []).append((node, node.value))
                        self.counted.setdefault(root, []).append(one.slice)
                    elif isinstance(one, ast.Attribute):
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
            if not (found or is_returned) or is_plain or is_scale(self, one, found):
                continue
            self.seeds.add(self._key(one))
            self.roots.add(one.id)
            for value in found if (part := self._unpacked(one)) is None else [part]:
                self._seed(value, seen)
        for call in (one for one in walk(node) if isinstance(one, ast.Call)):
            for value in self._made(call):
                self._seed(value, seen)
            for other in made_alike(self.script, call):  # the same data set
                self.alike.add(other)
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
        here = _place(self.script.statement(use))
        rows = [(one, _place(self.script.statement(one.node))) for one in found]
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
        for one, place in rows:
            if place >= here and (value := value_of(self.script, one.node, use.id)) is not None:
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
                yield from (value for one, value in self._passed(function, call) if one is parameter)

    def _passed(self, function: ast.AST, call: ast.Call) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Parameters, and what a call gives them."""
        given = function.args  # type: ignore[attr-defined]
        taken = [*given.posonlyargs, *given.args]
        taken = taken[1:] if taken and taken[0].arg in ("self", "cls") else taken
        named = {one.arg: one.value for one in call.keywords}
        yield from zip(taken, call.args, strict=False)
        yield from ((one, named[one.arg]) for one in (*taken, *given.kwonlyargs) if one.arg in named)

    def _loops(self, node: ast.AST) -> Iterator[ast.AST]:
        yield from (one for one in self.script.around(node, *FUNCTIONS) if isinstance(one, ast.For | ast.While))

    def kinds(self, node: ast.AST | None) -> Kinds:
        """The kinds of an expression."""
        if node is None or isinstance(node, ast.Constant | ast.Lambda | Function):
            return _NONE
        if node in self.memo and not self.given:
            return self.memo[node]
        if node in self.open:
            self.cut = True  # of what is made of itself, what else is put into it counts
            return _NONE
        self.fuel -= 1
        if self.fuel < 0:
            raise UnclearError(node, "too much to follow")
        before, self.cut = self.cut, False
        self.open.add(node)
        try:
            found = self._kinds(node)
        finally:
            self.open.discard(node)
        if not self.given and (not self.cut or not self.open):
            self.memo[node] = found
        self.cut = (self.cut or before) and bool(self.open)
        return found

    def _kinds(self, node: ast.AST) -> Kinds:
        if node in self.noised:
            return _NONE
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, ast.Attribute):
            return self._of_field(node)
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and node.elt in self.noised:
            return _NONE
        if isinstance(node, ast.Subscript):
            is_other = isinstance(node.slice, ast.Constant) and _OTHERS.search(str(node.slice.value))
            chosen = self.kinds(node.slice) & {"figure"}
            return _NONE if is_other else self.kinds(node.value) | chosen
        if isinstance(node, ast.Call):
            return frozenset({"data"}) if node in self.alike else self._of_call(node)
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            return _NONE
        children = [*ast.iter_child_nodes(node)]
        return _NONE.union(*map(self.kinds, children)) if children else _NONE

    def _of_name(self, node: ast.Name) -> Kinds:
        if self.script.qualified(node) or self.is_model(node.id):
            return _NONE
        _, found = self.script.lookup(node.id, node)
        for given in reversed(self.given):
            if (one := next((each for each in found if each.node in given), None)) is not None and len(found) == 1:
                return given[one.node]
        if self._key(node) in self.noised:
            return _NONE
        if self._key(node) in self.seeds:
            return frozenset({"data"})
        is_counted = any(_WHAT & self.kinds(one) for one in self.counted.get(node.id, ()))  # labels, or under a loss
        kinds = self.put(node) | ({"figure"} if is_counted else _NONE)
        for one in found:  # what is set where a figure decides
            test = self._decides(one.node)
            if test is not None and "figure" in self.kinds(test):
                kinds |= {"figure"}
        return kinds

    def put(self, node: ast.Name) -> Kinds:
        """The kinds of what is put into a name, whatever it is called."""
        part = self._unpacked(node)
        values = [*self.reaching(node)] if part is None else [part]
        values += [value for _, value in self.filled.get(node.id, ())]
        return _NONE.union(*map(self.kinds, values))

    def _decides(self, node: ast.AST) -> ast.expr | None:
        """The condition that a binding is under."""
        for one in self.script.around(node, *FUNCTIONS):
            if isinstance(one, ast.If):
                return one.test
            if isinstance(one, ast.For | ast.While):
                return None
        return None

    def _of_field(self, node: ast.Attribute) -> Kinds:
        if node.attr == "grad_sample" or (
            node.attr == "grad" and is_before_noise(self.script, node, is_by_hand=bool(self.noised))
        ):
            return frozenset({"record"})
        if node.attr in _PLAIN or self.script.qualified(node):
            return _NONE
        if last_name(node.value) == "self":
            if self._key(node) in self.seeds:
                return frozenset({"data"})
            values = [*self.fields.get(node.attr, ()), *(value for _, value in self.filled.get(ast.unparse(node), ()))]
            return _NONE.union(*map(self.kinds, values)) if not self.is_model(node.attr) else _NONE
        kinds = self.kinds(node.value)
        return _as(kinds, "figure") if node.attr == "loss" else kinds

    def _of_call(self, call: ast.Call) -> Kinds:
        name, whole = last_name(call.func), self.script.qualified(call.func)
        if name in _PLAIN or name.startswith("make_private") or _SPLITS.search(name):
            return _NONE
        within: ast.expr | None = call.func.value if isinstance(call.func, ast.Attribute) and not whole else None
        given = [*call.args, *(one.value for one in call.keywords)]
        if self.noised and any(isinstance(one, ast.Lambda) and one.body in self.noised for one in given):
            return _NONE
        if not whole and len(found := self.defined.get(name, [])) == 1 and len(self.given) < 4:
            return self._of_function(found[0], call)
        given += [one.body for one in given if isinstance(one, ast.Lambda) and name in _PICKS]  # by a key
        kinds = _NONE.union(self.kinds(within), *map(self.kinds, given))
        if within is not None and name in ("train", "fit", "evaluate") and self.is_model(last_name(within)):
            kinds = _as(kinds | {"data"} if name != "evaluate" else kinds, "figure")  # what a trainer says of it
        if name[:1].isupper() and name not in (*_HOLDS, *_FIGURES):
            return kinds & {"record", "mean"}  # an object that is made with them
        if _LOSS.search(name) and not self._is_single(call):
            return _as(kinds, "figure")
        is_picked = name in _PLACES or (name in _PICKS and "key" in {one.arg for one in call.keywords})
        if ("figure" in kinds and is_picked) or ("record" in kinds and name in ("argsort", "topk")):
            return kinds | {"choice"}
        if name in _FIGURES and not is_over_layers(call) and not is_of_rows(call):
            is_mean = name in ("mean", "sum", "median", "average", "reduce_mean", "reduce_sum")
            is_kept = is_mean and is_along_records(call, call.args[1:] if whole else call.args)
            return _as(kinds, "figure") | ({"mean"} if is_kept and kinds - {"figure"} else _NONE)
        if name in _EXTENTS and not (kinds & {"figure"}):
            return _as(kinds, "extent" if name != "unique" or len(given) < 2 else "figure")
        is_method = within is not None and not self.is_model(last_name(within)) and self.kinds(within)
        return kinds if whole or is_method or not kinds & {"data"} else kinds | {"record"}

    def _is_single(self, call: ast.Call) -> bool:
        """Whether a loss is one for each record."""
        text = ast.unparse(call)
        with contextlib.suppress(UnclearError):
            text += ast.unparse(self.script.resolve(call.func))
        return re.search(r"reduc\w*=(?:'none'|False|None)", text) is not None

    def _of_function(self, function: ast.AST, call: ast.Call) -> Kinds:
        """The kinds of what a function of the file returns, for what this call gives it."""
        given = {one: self.kinds(value) for one, value in self._passed(function, call)}
        arguments = function.args  # type: ignore[attr-defined]
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        self.given.append({**dict.fromkeys(every, _NONE), **given})
        try:
            returns = (one for one in walk(function) if isinstance(one, ast.Return | ast.Yield))
            return _NONE.union(*(self.kinds(one.value) for one in returns if self.script.scope(one) is function))
        finally:
            self.given.pop()


def _as(kinds: Kinds, kind: str) -> Kinds:
    """A figure of records is no record."""
    return frozenset({kind}) if kinds else kinds


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
