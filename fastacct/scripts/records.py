"""Whether a record is one example of its batch, whose gradient no other record changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fastacct.scripts import gaps
from fastacct.scripts.found import Loop
from fastacct.scripts.mixing import combining
from fastacct.scripts.names import Script
from fastacct.scripts.sources import LOADER
from fastacct.scripts.sums import Sums
from fastacct.scripts.tree import Function, UnclearError, is_over_layers, last_name, walk

_STEPS: Final = ("forward", "call", "__call__", "training_step", "train_step", "compute_loss")
_JOINS: Final = ("cat", "concat", "concatenate", "vstack", "row_stack", "append")
_PUT_TOGETHER: Final = ("ConcatDataset", "ChainDataset", "concatenate_datasets", *_JOINS)
_FILLS: Final = ("append", "extend", "push", "add", "appendleft")
_EMPTIES: Final = ("pop", "popleft", "clear", "len", "print")
_PRINTS: Final = ("print", "info", "debug", "log", "set_postfix", "set_description", "write", "add_scalar")
_LISTS: Final = ("list", "zip", "")
_COPIES: Final = ("repeat", "repeat_interleave", "tile")
_ALONG: Final = ("flip", "roll", "reverse", "softmax", "log_softmax", "normalize", "cumsum", "logsumexp")
"""Functions that combine records along their axis."""
_MINING: Final = ("topk", "sort", "kthvalue", "quantile", "median")
_LOSS: Final = re.compile(r"loss|criterion|cross_entropy", re.I)
_ORDERS: Final = ("randperm", "permutation", "shuffle", "multinomial")
_STATISTICS: Final = ("mean", "std", "var", "max", "min", "amax", "norm", "sum", "reduce_mean", "reduce_std")
_COUNTS: Final = ("bincount", "histc", "unique", "pdist", "cov", "corrcoef")
_SPREADS: Final = ("std", "var", "reduce_std", "reduce_variance")
"""Functions of a batch that are no sums over its records; those of the second row along an axis."""
_PAIRED: Final = re.compile(r"unsqueeze\(0\)|\[None[,\]]"), re.compile(r"unsqueeze\(1\)|\[:, None")
_PRODUCTS: Final = ("mm", "matmul", "dot", "cdist", "einsum")
_PLAIN: Final = (
    *("shape", "size", "dim", "ndim", "numel", "device", "dtype", "argmax", "item", "tolist", "requires_grad"),
)
"""Fields and methods whose results say nothing of records one by one."""
_TURNED: Final = re.compile(r"\.(?:T|mT|t\(\)|transpose\((?:0, 1|1, 0)\)|permute\(1, 0\))$")
_AXES: Final = ("dim", "axis", "dims", "axes")


def ask_where_records_mix(loop: Loop) -> None:
    """Ask where a record counts more than once in a batch; give no number where it changes gradients of others."""
    script = loop.script
    if (node := combining(loop)) is not None:
        text = f"{ast.unparse(node)[:60]} combines records: each changes the gradients of others"
        loop.asks["one example"] = f"line {getattr(node, 'lineno', 1)}: {text}"
    if (node := gaps.scaled_in_place(script)) is not None:
        text = f"{ast.unparse(node)[:60]} scales the rows that a batch looks up, without noise"
        loop.ask("noise", f"line {node.lineno}: {text}")
    for body in (one for one in (loop.body, *loop.more) if one is not None):
        if (node := gaps.held(script, body)) is not None:
            text = f"{ast.unparse(node)[:60]}: a batch of an earlier step is used again"
            loop.ask("noise", f"line {getattr(node, 'lineno', 1)}: {text}")
    loop.regions = [*_regions(script, [*([loop.body] if loop.body is not None else []), *loop.more])]
    for node, how in (row for region in loop.regions for row in region.found() if row[0] not in loop.clips):
        line = f"line {getattr(node, 'lineno', 1)}: {ast.unparse(node).splitlines()[0][:60]}"
        if how == "mixes":
            loop.asks.setdefault("one example", f"{line} combines records: each changes the gradients of others")
        elif how == "keeps":
            loop.ask("noise", f"{line}: records of earlier batches are used again")
        else:
            why = f"{line}: with k gradients of a record in a batch, give the noise over k"
            loop.values.pop("noise_multiplier", None) if "noise_multiplier" not in loop.given else None
            loop.notes.append(why)
            loop.ask("noise_multiplier", why)
    if (drawn := gaps.drawn_again(script, {*_JOINS, *_COPIES})) is not None:
        text = f"line {drawn.lineno}: {ast.unparse(drawn)[:60]} may have an index twice, and its record then"
        loop.asks.setdefault("one example", text)
    if (again := _counted_again(script)) is not None:
        text = f"line {again.lineno}: {ast.unparse(again)}: a record may have several indices"  # type: ignore[attr-defined]
        loop.asks.setdefault("one example", text)
    for call in script.calls:
        if script.is_call(call, *LOADER) and (twice := _repeated(script, call)) is not None:
            text = f"line {twice.lineno}: {ast.unparse(twice)[:60]}: records may be in the data several times"
            loop.asks.setdefault("one example", text)
        for given in _collates(call):
            name = script.qualified(given.func if isinstance(given, ast.Call) else given)
            if _here(script, given) is None and not name.startswith(("torch.", "transformers.", "opacus.")):
                text = ast.unparse(given)[:40]
                loop.notes.append(f"line {given.lineno}: {text} must make one example of each record.")


def _repeated(script: Script, loader: ast.Call) -> ast.expr | None:
    """What puts records into the data set of a loader several times."""
    whole: list[ast.expr] = [*loader.args[:1], *(one.value for one in loader.keywords if one.arg == "dataset")]
    seen: set[ast.AST] = set()
    for node in whole:
        try:
            node = script.resolve(node)
        except UnclearError:
            continue
        if node in seen:
            return node  # made of itself
        seen.add(node)
        parts = [each.elts for each in walk(node) if isinstance(each, ast.List | ast.Tuple)]
        if isinstance(node, ast.Call) and last_name(node.func) in _PUT_TOGETHER:
            whole += [one for one in node.args if isinstance(one, ast.Name)]
            if any(len({*map(ast.unparse, one)}) < len(one) for one in parts):
                return node
        for one in walk(node):
            sides = [one.left, one.right] if isinstance(one, ast.BinOp) else []
            kinds = (ast.List, ast.ListComp)
            lists = [each for each in sides if isinstance(each, kinds) or script.is_call(each, "builtins.list")]
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult | ast.Add):
                is_same = ast.unparse(one.left) == ast.unparse(one.right)
                if is_same if isinstance(one.op, ast.Add) else lists:
                    return one
    return None


def _counted_again(script: Script) -> ast.AST | None:
    """A data set of the file that has an item for several indices."""
    items = (one for one in script.nodes if isinstance(one, ast.FunctionDef) and one.name == "__getitem__")
    for item in items:
        for one in walk(item):
            is_part = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod | ast.FloorDiv)
            if is_part and isinstance(one, ast.BinOp) and last_name(one.left) in _names(item.args):
                return one
    return None


def _regions(script: Script, bodies: Sequence[ast.For]) -> Iterator[Region]:
    """Where records are: in a loop over batches, in what it calls, in models and in collate functions."""
    functions = [one for one in script.nodes if isinstance(one, Function)]
    places: list[tuple[ast.AST, bool]] = [(one, False) for one in bodies]
    places += [(one, False) for one in functions if one.name in _STEPS]
    for call in script.calls:
        name = last_name(call.func)
        is_map = name == "map" and isinstance(call.func, ast.Attribute)
        words = [one.value for one in call.keywords if is_map and one.arg in ("function", "map_func")]
        losses = [
            one.value
            for one in call.keywords
            if one.arg == "compute_loss_func" or (name, one.arg) == ("compile", "loss")
        ]
        places += [(one, False) for each in losses for one in (_here(script, each),) if one is not None]
        given = _collates(call) + (call.args[:1] + words if is_map else [])
        places += [(one, name != "map") for each in given for one in (_here(script, each),) if one is not None]
    seen: set[ast.AST] = set()
    while places:
        node, is_collate = places.pop()
        if node in seen:
            continue
        seen.add(node)
        region = Region(script, node, is_collate)
        yield region
        names = {last_name(one.func) for one in region.touched}
        places += [(one, False) for one in functions if one.name in names]


def _collates(call: ast.Call) -> list[ast.expr]:
    """What a call is given to make batches of records."""
    given = (one.value for one in call.keywords if one.arg in ("collate_fn", "data_collator"))
    return [one for one in given if getattr(one, "value", "") is not None]


def _here(script: Script, node: ast.expr) -> ast.AST | None:
    """The function of the file that an expression is."""
    if isinstance(node, ast.Lambda):
        return node
    found = script.lookup(node.id, node)[1] if isinstance(node, ast.Name) else []
    made = found[0].value if len(found) == 1 and isinstance(found[0].value, ast.Lambda) else None
    return found[0].node if len(found) == 1 and isinstance(found[0].node, Function) else made


class Region:
    """A loop over batches, or a function that is given one: which names hold records."""

    def __init__(self, script: Script, node: ast.AST, is_collate: bool) -> None:
        self.script, self.node, self.is_collate = script, node, is_collate
        if isinstance(node, ast.For):
            self.names = {one.id for one in walk(node.target) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Lambda | Function):
            self.names = _names(node.args)
        self.orders: set[str] = set()
        self.statistics: set[str] = set()
        self.losses: set[str] = set()
        self.nodes = [*walk(node)]
        size = -1
        while size != (size := len(self.names)):
            for one in self.nodes:
                self._follow(one)
        self.sums = Sums(script, self.nodes, self.holds, self.is_statistic)
        self.touched = [one for one in self.nodes if isinstance(one, ast.Call) and self.holds(one)]

    def _follow(self, node: ast.AST) -> None:
        """Names that are set to something that holds records, or to an order of them."""
        value = getattr(node, "iter" if isinstance(node, ast.For | ast.comprehension) else "value", None)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        names = {one.id for each in targets if each is not None for one in walk(each) if isinstance(one, ast.Name)}
        if isinstance(value, ast.expr) and names:
            self.names |= names if self.holds(value) else set()
            self.orders |= names if isinstance(value, ast.Call) and last_name(value.func) in _ORDERS else set()
            self.statistics |= names if any(map(self.is_statistic, walk(value))) else set()
            self.losses |= names if _LOSS.search(ast.unparse(value)) else set()

    def holds(self, node: ast.AST | None) -> bool:
        """Whether records are in an expression, and not their number alone."""
        if (
            node is None
            or last_name(node) in _PLAIN
            or (isinstance(node, ast.Call) and last_name(node.func) in (*_PLAIN, "len"))
        ):
            return False
        if isinstance(node, ast.Name):
            return node.id in self.names
        return any(self.holds(one) for one in ast.iter_child_nodes(node))

    def found(self) -> Iterator[tuple[ast.AST, str]]:
        """What copies or mixes records here."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                how = self._called(node)
            elif isinstance(node, ast.Subscript) and self.holds(node.value):
                names = {last_name(one) for one in walk(node.slice)}
                how = "copies" if names & {*_COPIES} else ""
                how = "mixes" if names & {*self.orders, *_ORDERS} or ast.unparse(node.slice) == "::-1" else how
            elif isinstance(node, ast.BinOp):
                how = self._combined(node)
            else:
                how = "copies" if self.is_collate and self._doubled(node) else ""
            if how:
                yield node, how
        if not self.is_collate:
            yield from ((one, "mixes") for one in self.sums.found())
            yield from ((one, "keeps") for one in self._kept())

    def _kept(self) -> Iterator[ast.AST]:
        """Lists from outside of a loop that records are put into, and that are used in it again."""
        put: dict[str, ast.AST] = {}
        for node in self.nodes if isinstance(self.node, ast.For) else ():
            parts: list[ast.expr] = []
            target: ast.AST | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS:
                target, parts = node.func.value, node.args
            elif isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List | ast.ListComp | ast.Call):
                target, parts = node.target, [node.value] * (last_name(getattr(node.value, "func", node)) in _LISTS)
            if isinstance(target, ast.Name) and any(map(self._is_record, parts)):
                put[target.id] = node
        sets = (one for one in self.nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        inside = {one.id for one in sets if not isinstance(self.script.parent[one], ast.AugAssign)}
        for name in put.keys() - inside:
            uses = [one for one in self.nodes if isinstance(one, ast.Name) and one.id == name]
            read = [one for one in uses if isinstance(one.ctx, ast.Load) and not self._is_printed(one)]
            above = [self.script.parent[one] for one in read]
            if any(last_name(getattr(one, "func", one)) not in (*_FILLS, *_EMPTIES) for one in above):
                yield put[name]

    def _is_printed(self, node: ast.AST) -> bool:
        """Whether a name is only printed, logged, or shown beside a progress bar."""
        statement = self.script.statement(node)
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and last_name(call.func) in _PRINTS

    def _is_record(self, node: ast.expr) -> bool:
        """Whether records go into a list, and not their losses."""
        is_loss = self.sums.is_summed(node) or any(last_name(one) in self.losses for one in walk(node))
        return self.holds(node) and not is_loss

    def _called(self, call: ast.Call) -> str:
        """What a call does to records; of a method the object that it is called of is the first argument."""
        name, is_function = last_name(call.func), bool(self.script.qualified(call.func))
        if self.is_collate and sum(map(self.holds, call.args)) > {"chain": 1, "extend": 0}.get(name, 99):
            return "copies"
        of = call.args[:1] if is_function or not isinstance(call.func, ast.Attribute) else [call.func.value]
        of = of or [one.value for one in call.keywords if one.arg in ("tensors", "arrays", "values")]
        rest = call.args[1:] if of and call.args[:1] == of else call.args
        if name == "einsum" and sum(map(self.holds, call.args)) > 1:
            return "mixes" if _crosses(call.args[0]) else ""
        if not of or not self.holds(of[0]):
            return ""
        if name in _JOINS and is_function and _axis(call, call.args[1:]) == 0:
            parts = of[0].elts if isinstance(of[0], ast.List | ast.Tuple) else None
            is_keras = "keras" in self.script.qualified(call.func)
            return "copies" if not is_keras and (parts is None or sum(map(self.holds, parts)) > 1) else ""
        if name in _COPIES:
            first = (
                rest[0].elts[0]
                if rest and isinstance(rest[0], ast.Tuple) and rest[0].elts
                else rest[0]
                if rest
                else None
            )
            is_one = getattr(first, "value", None) == 1
            named = _axis(call, rest[1:] if name == "repeat_interleave" or is_function else [])
            return "" if is_one or named != 0 else "copies"
        is_loss = _LOSS.search(ast.unparse(of[0])) is not None or last_name(of[0]) in self.losses
        is_mined = name in _MINING and is_loss
        if is_mined or (name in _ALONG and _axis(call, rest[-1:], default=None) == 0):
            return "mixes"
        if name == "rearrange" and re.search(r"->\s*\(", ast.unparse(call)):
            return "copies"
        if name in ("view", "reshape") and isinstance(self.node, ast.For) and len(rest) > 3:
            return "copies" if ast.unparse(rest[0]) == "-1" else ""
        if name == "flatten" and [ast.unparse(one) for one in rest] == ["0", "1"]:
            return "copies"
        if name in _COUNTS or (name in _SPREADS and _axis(call, rest[:1]) == 0):
            return "mixes"
        last = call.args[-1] if call.args else of[0]
        is_pair = name in _PRODUCTS and self.holds(last) and (name == "cdist" or _is_turned(last))
        return "mixes" if is_pair or _are_paired(of[0], last) else ""

    def _doubled(self, node: ast.AST) -> bool:
        """Whether a list of records is made longer."""
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return len(node.generators) > 1
        if isinstance(node, ast.List | ast.Tuple):
            return sum(isinstance(one, ast.Starred) and self.holds(one) for one in node.elts) > 1
        if isinstance(node, ast.AugAssign):
            return isinstance(node.op, ast.Mult) or (isinstance(node.op, ast.Add) and self.holds(node.value))
        calls = [one for one in walk(node) if isinstance(one, ast.Call)] if isinstance(node, ast.For) else []
        added = [
            ast.unparse(one.func) for one in calls if last_name(one.func) in ("append", "extend") and self.holds(one)
        ]
        return len({*added}) < len(added)

    def _combined(self, node: ast.BinOp) -> str:
        """Records less their mean, or times those of others."""
        if isinstance(node.op, ast.MatMult):
            return "mixes" if self.holds(node.left) and self.holds(node.right) and _is_turned(node.right) else ""
        if self.is_collate and isinstance(node.op, ast.Mult | ast.Add) and isinstance(node.left, ast.Name):
            is_list = isinstance(node.op, ast.Mult) or ast.unparse(node.left) == ast.unparse(node.right)
            return "copies" if is_list and self.holds(node.left) and _is_whole(node.right, node.left) else ""
        if not self.holds(node.left):
            return ""
        is_less = isinstance(node.op, ast.Sub) and not self.sums.is_summed(node.left)  # a loss less a loss is a loss
        is_scaled = is_less or isinstance(node.op, ast.Div)
        of_all = (one for one in walk(node.right) if self.is_statistic(one) or last_name(one) in self.statistics)
        return "mixes" if (is_scaled and any(of_all)) or _are_paired(node.left, node.right) else ""

    def is_statistic(self, node: ast.AST) -> bool:
        """Whether a number is found of all records together, as a mean is."""
        if not isinstance(node, ast.Call) or last_name(node.func) not in _STATISTICS or not self.holds(node):
            return False
        if is_over_layers(node):
            return False
        rest = node.args if not self.script.qualified(node.func) else node.args[1:]
        rest = [one for one in rest if ast.unparse(one) != "2"] if last_name(node.func) == "norm" else rest
        return _axis(node, rest[:1]) == 0


def _are_paired(left: ast.expr, right: ast.expr) -> bool:
    """Whether each record meets each other one: z[None] and z[:, None]."""
    sides = ast.unparse(left), ast.unparse(right)
    rows, columns = _PAIRED
    return any(rows.search(one) and columns.search(other) for one, other in (sides, sides[::-1]))


def _crosses(pattern: ast.expr) -> bool:
    """Whether a pattern of einsum has the records of two operands as two axes: id,jd->ij."""
    text = str(getattr(pattern, "value", "")).replace(" ", "")
    operands, _, out = text.partition("->")
    first = [one[:1] for one in operands.split(",")]
    return len({*first} & {*out}) > 1


def _names(given: ast.arguments) -> set[str]:
    return {one.arg for one in walk(given) if isinstance(one, ast.arg)} - {"self", "cls"}


def _is_whole(right: ast.expr, left: ast.expr) -> bool:
    return (isinstance(right, ast.Constant) and type(right.value) is int) or ast.unparse(left) == ast.unparse(right)


def _axis(call: ast.Call, places: Iterable[ast.expr], default: int | None = 0) -> int | None:
    """The axis that a call works along; 0, that of records, also where it cannot be told."""
    given = next((one.value for one in call.keywords if one.arg in _AXES), None) or next(iter(places), None)
    if given is None:
        return default
    try:
        value = ast.literal_eval(given)
    except ValueError:
        return 0
    axes = value if isinstance(value, tuple | list) else (value,)
    return 0 if 0 in axes or None in axes else 1


def _is_turned(node: ast.AST) -> bool:
    """Whether a matrix is turned, so that records meet records."""
    return _TURNED.search(ast.unparse(node)) is not None
