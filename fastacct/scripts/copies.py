"""Whether records come several times into the private data: arrays that grow, rows drawn again, sets of one source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.sources import in_words
from fastacct.scripts.tree import UnclearError, last_name, parts, walk

DATA_SETS: Final = ("ConcatDataset", "ChainDataset", "concatenate_datasets")
_JOINS: Final = ("cat", "concat", "concatenate", "vstack", "row_stack", "append", *DATA_SETS)
_GROWS: Final = ("fit_resample", "fit_sample", "resample")
_DRAWS: Final = ("choice", "choices", "randint", "integers")
_REPEATS: Final = ("repeat", "repeat_interleave", "tile")
_READS: Final = re.compile(r"load|read|open|from_|fetch|path|glob|split|^range$|^len$", re.I)
"""Functions whose results are not made of the records that they are given, or of a part of them alone."""
_SOME: Final = ("sample", "take", "skip", "shard", "filter")
"""Functions that leave some of the records out."""
_HOLDS: Final = ("DataFrame", "Series", "TensorDataset", "Dataset")


def copies(loop: Loop, flow: Flow) -> Iterator[ast.AST]:
    """What puts a record, or what is made of it, more than once into the data that is trained on."""
    script = loop.script
    inside = {*walk(loop.body)} if loop.body is not None else set()
    for node in script.nodes:
        if not isinstance(node, ast.Call | ast.BinOp | ast.Subscript) or node in inside:
            continue
        is_joined = last_name(getattr(node, "func", node)) in DATA_SETS
        if not is_joined and not _is_data(flow, node) and not any(node in [*walk(one)] for one in loop.data):
            continue
        if isinstance(node, ast.BinOp):
            sides = [_source(flow, node.left), _source(flow, node.right)] if isinstance(node.op, ast.Add) else [""]
            if sides[0] and sides[0] == sides[-1]:
                yield node
        elif isinstance(node, ast.Subscript):
            drawn = _drawn(flow, node.slice)
            if drawn is not None and _said(drawn, "replace", 2) is not False and not script.in_loop(node, script.tree):
                yield node
        elif _is_grown(flow, node):
            yield node


def _is_data(flow: Flow, node: ast.AST) -> bool:
    """Whether a statement puts something into the private data."""
    statement = flow.script.statement(node)
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = {ast.unparse(one) for each in targets for one in parts(each)}
        return bool(names & flow.roots)
    return isinstance(statement, ast.Return) and bool(whole(flow, node, set()) & flow.roots)


def _is_grown(flow: Flow, call: ast.Call) -> bool:
    """Whether a call joins records with what is made of them, or draws rows again."""
    name = last_name(call.func)
    if name in _GROWS:
        made = flow.script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
        is_fewer = "Under" in ast.unparse(made.func if isinstance(made, ast.Call) else made)
        return not is_fewer and _said(call, "replace") is not False
    if name == "sample":
        return _said(call, "replace") is True
    axis = next((one.value for one in call.keywords if one.arg in ("axis", "dim")), None)
    axis = axis or (call.args[1] if len(call.args) > 1 and name in ("cat", "concatenate", "concat", "repeat") else None)
    is_across = axis is not None and ast.unparse(axis) not in ("0", "'index'") and name not in _REPEATS
    if is_across:
        return False
    if name in _REPEATS and flow.script.qualified(call.func).startswith(("numpy.", "torch.")):
        return bool(call.args) and "data" in flow.kinds(call.args[0])
    if name == "repeat" and isinstance(call.func, ast.Attribute):
        return _is_repeated(flow, call)
    if name not in _JOINS or not call.args:
        return False
    first = call.args[0]
    given = first.elts if isinstance(first, ast.List | ast.Tuple) else [*call.args[: 2 if name == "append" else 1]]
    if name == "concatenate" and isinstance(call.func, ast.Attribute) and not flow.script.qualified(call.func):
        given = [call.func.value, first]
    sources = [one for one in (_source(flow, each) for each in given) if one]
    wholes = [whole(flow, one, set()) for one in given]
    partly = [whole(flow, one, set(), is_part=True) for one in given]
    pairs = [(i, j) for i in range(len(given)) for j in range(len(given)) if i != j]
    return len({*sources}) < len(sources) or any(wholes[i] & partly[j] & flow.roots for i, j in pairs)


def _is_repeated(flow: Flow, call: ast.Call) -> bool:
    """Whether a method gives the records of an array or of a pipeline again; batches without an end are counted."""
    given = {one.arg or "": one.value for one in call.keywords}
    along = given.pop("axis", None)
    counts = [*call.args, *given.values()]
    if along is not None:
        return ast.unparse(along) == "0"
    if len(counts) > 1 or flow.script.above(call, ast.Lambda) is not None:
        return False  # columns of a tensor, or one record alone
    try:
        count = flow.script.fold(counts[0]) if counts else None
    except UnclearError:
        count = 2
    made: ast.AST = call
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and last_name(made.func) != "batch":
        made = made.func.value
    is_batched = isinstance(made, ast.Call) and last_name(made.func) == "batch"
    return not is_batched if count in (None, -1) else count != 1


def whole(flow: Flow, node: ast.AST, seen: set[ast.AST], *, is_part: bool = False) -> set[str]:
    """Names of what an expression is made of, all records of it; `is_part`: also where it is made of some of them."""
    if node in seen:
        return set()
    seen.add(node)
    if isinstance(node, ast.Name):
        if flow.script.qualified(node) or flow.is_model(node.id):
            return set()
        values = [*flow.reaching(node)]
        found = (whole(flow, one, seen, is_part=is_part) for one in values)
        return {node.id}.union(*found)
    if isinstance(node, ast.Subscript):
        return whole(flow, node.value, seen, is_part=is_part) if is_part else set()
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if _READS.search(name) or (name in _SOME and not is_part):
            return set()
        if name[:1].isupper() and name not in _HOLDS and not is_part:
            return set()
        of: list[ast.AST] = [*node.args[: 1 if name[:1].isupper() else None]]
        if isinstance(node.func, ast.Attribute) and not flow.script.qualified(node.func):
            of.append(node.func.value)
        return set().union(*(whole(flow, one, seen, is_part=is_part) for one in of))
    if isinstance(node, ast.Constant | ast.Lambda | ast.Compare):
        return set()
    below = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr | ast.keyword))
    return set[str]().union(*(whole(flow, one, seen, is_part=is_part) for one in below))


def _source(flow: Flow, node: ast.expr) -> str:
    """A data set in words, without what leaves its records the same; empty for all else."""
    try:
        made = flow.script.resolve(node)
    except UnclearError:
        return ""
    if not isinstance(made, ast.Call) or not last_name(made.func)[:1].isupper() or not (made.args or made.keywords):
        return ""
    return in_words(made)


def _drawn(flow: Flow, node: ast.expr) -> ast.Call | None:
    """The call that draws indices at random, with rows that may come again."""
    values = [*flow.reaching(node)] if isinstance(node, ast.Name) else [node]
    found = (one for one in values if isinstance(one, ast.Call) and last_name(one.func) in _DRAWS)
    return next(found, None)


def _said(call: ast.Call, name: str, place: int = 99) -> object:
    """The value of a word of a call, where it is written."""
    if len(call.args) > place:
        return getattr(call.args[place], "value", None)
    return next((getattr(one.value, "value", None) for one in call.keywords if one.arg == name), None)
