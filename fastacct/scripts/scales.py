"""Names of statistics of many records, by which data is scaled."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastacct.scripts.names import Script
from fastacct.scripts.tree import Function, last_name

if TYPE_CHECKING:
    from fastacct.scripts.flow import Flow

_STATISTICS: Final = (
    *("mean", "std", "var", "median", "quantile", "percentile", "average", "sum", "min", "max", "amin", "amax"),
    *("nanmean", "nanstd", "nanvar", "std_mean", "var_mean", "reduce_mean", "reduce_std", "reduce_max", "reduce_min"),
)
_LABELS: Final = re.compile(r"y(?:$|_)|labels?|targets?", re.I)
_EACH: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.Lambda, ast.For, ast.While)


def is_scale(flow: Flow, use: ast.Name, values: Sequence[ast.expr]) -> bool:
    """Whether data is shifted or scaled by a name, into which statistics over all records alone are put."""
    return _is_scaling(flow.script, use) and not is_each(flow.script, use) and _are_statistics(flow, values, {use})


def is_scaled_at_once(flow: Flow, node: ast.AugAssign) -> bool:
    """Whether all records, and not only their labels, are shifted or scaled in place by a statistic of many."""
    is_label = _LABELS.match(last_name(node.target)) is not None
    is_alone = is_each(flow.script, node) or any(isinstance(one, _EACH) for one in flow.script.around(node))
    is_scale = isinstance(node.op, ast.Sub | ast.Div | ast.Mult) and not is_label and not is_alone
    return is_scale and _is_statistic(flow, node.value, set())


def _is_scaling(script: Script, node: ast.AST) -> bool:
    """Whether something is subtracted from another value, divides or multiplies it."""
    while isinstance(above := script.parent[node], ast.expr | ast.AugAssign):
        by = above.right if isinstance(above, ast.BinOp) else getattr(above, "value", None)
        if node is by and isinstance(getattr(above, "op", None), ast.Sub | ast.Div | ast.Mult):
            return True
        node = above
    return False


def is_each(script: Script, node: ast.AST) -> bool:
    """Whether a function has this that may be given one record at a time."""
    function = next((one for one in script.around(node) if isinstance(one, Function)), None)
    if function is None:
        return False
    calls = [one for one in script.calls if last_name(one.func) == function.name]
    return not calls or any(isinstance(each, _EACH) for one in calls for each in script.around(one))


def _are_statistics(flow: Flow, values: Sequence[ast.expr], seen: set[ast.AST]) -> bool:
    """Whether values are made of nothing but statistics over all records."""
    return bool(values) and all(_is_statistic(flow, one, seen) for one in values)


def _is_statistic(flow: Flow, node: ast.expr, seen: set[ast.AST]) -> bool:
    if node in seen:
        return False
    seen.add(node)
    if isinstance(node, ast.Name):
        return _are_statistics(flow, [*flow.reaching(node)], seen)
    if isinstance(node, ast.Call):
        if last_name(node.func) in _STATISTICS and is_over_records(flow.script, node):
            return True
        is_method = isinstance(node.func, ast.Attribute) and not flow.script.qualified(node.func)
        of = [node.func.value] if isinstance(node.func, ast.Attribute) and is_method else [*node.args[:1]]
        return _are_statistics(flow, of, seen)
    if isinstance(node, ast.BinOp):
        return all(isinstance(one, ast.Constant) or _is_statistic(flow, one, seen) for one in (node.left, node.right))
    if isinstance(node, ast.Attribute | ast.Subscript):
        return _is_statistic(flow, node.value, seen)
    return isinstance(node, ast.Tuple) and _are_statistics(flow, node.elts, seen)


def is_of_rows(call: ast.Call) -> bool:
    """Whether a figure is said to be one for each record: along other axes than the first."""
    axes = [ast.unparse(one.value) for one in call.keywords if one.arg in ("dim", "axis")]
    return bool(axes) and re.fullmatch(r"-1|[1-9]|\([-1-9, ]+\)|\[[-1-9, ]+\]", axes[0]) is not None


def is_over_records(script: Script, call: ast.Call) -> bool:
    """Whether a statistic is over all records: along no axis, or the first."""
    is_library = bool(script.qualified(call.func))
    axis = [one.value for one in call.keywords if one.arg in ("dim", "axis")]
    if last_name(call.func) not in ("quantile", "percentile"):
        axis += call.args[is_library : is_library + 1]
    return not axis or ast.unparse(axis[0]) == "0" or ast.unparse(axis[0]).startswith(("(0,", "[0,"))


def is_along_records(call: ast.Call, rest: Sequence[ast.expr]) -> bool:
    """Whether a mean is said to be along the axis of records."""
    axis = [one.value for one in call.keywords if one.arg in ("dim", "axis")] or [*rest[:1]]
    return bool(axis) and (ast.unparse(axis[0]) == "0" or ast.unparse(axis[0]).startswith(("(0,", "[0,")))
