"""What a script tells of private records beside its noise: statistics, and what is saved of single records."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts import gaps
from fastacct.scripts.copies import copies
from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.scales import is_scaled_at_once
from fastacct.scripts.tree import UnclearError, last_name, walk

_SAVES: Final = re.compile(
    r"save\w*$|dump$|to_csv$|to_parquet$|to_pickle$|tofile$|add_(?:histogram|images?|embedding)$|writerows?$|write$"
)
_LOGS: Final = re.compile(r"log(?:_\w+)?$")
_LOGGERS: Final = re.compile(r"wandb|mlflow|comet|neptune|clearml|logger|\brun\b|experiment|fabric|accelerator", re.I)
_INIT: Final = re.compile(r"torch\.nn\.init\.")
_FITS: Final = ("fit", "fit_transform", "partial_fit", "adapt", "train_from_iterator", "train_new_from_iterator")
_LEARNS: Final = ("sklearn.", "xgboost.", "lightgbm.", "keras.layers.", "tensorflow.keras.layers.", "tokenizers.")
_NAMES_ONLY: Final = ("LabelEncoder", "LabelBinarizer", "OneHotEncoder", "OrdinalEncoder")
"""Of these the categories alone are learned, which a script takes for public."""
_VOCABULARIES: Final = ("build_vocab_from_iterator",)
_WEIGHS: Final = re.compile(r"weights?$|prior|^init|max_grad_norm|norm_clip|clip\w*_norm")
"""Arguments by which records or classes weigh in a loss, or are clipped."""
_IGNORED: Final = ("WeightedRandomSampler",)
"""What an engine that draws by itself takes no notice of."""
_RANKS: Final = ("rank", "qcut", "zscore", "minmax_scale", "robust_scale", "quantile_transform", "power_transform")
"""Functions that put records into relation to all others."""
_TABLES: Final = ("Counter", "DataFrame", "Series")


def ask_of_leaks(loop: Loop) -> None:
    """Give no number where private records are used beside the noise; ask where their data may be public."""
    try:
        flow = Flow(loop.script, loop.data, loop.noised)
        found = [*_statistics(loop, flow), *_shown(loop, flow)]
        found += [(one, "puts records several times into the data") for one in copies(loop, flow)]
    except (RecursionError, UnclearError) as error:
        loop.ask("noise", f"where private records go cannot be told: {error}")
        return
    for node, why in found:
        text = f"line {getattr(node, 'lineno', 1)}: {ast.unparse(node).splitlines()[0][:60]}"
        loop.ask("noise", f"{text} {why}")


# -- statistics ------------------------------------------------------------------------------------------------------


def _statistics(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Where a statistic of the private records goes into a loss, a transformation or a sampler."""
    script = loop.script
    why = "uses a statistic of the records that are trained on, without noise"

    def is_inside(node: ast.AST) -> bool:
        return loop.body is not None and loop.body in loop.script.around(node)

    for call in script.calls:
        name = last_name(call.func)
        words = {one.arg: one.value for one in call.keywords}
        given = [*call.args, *words.values()]
        is_learning = name in (*_FITS, *_VOCABULARIES, "train") and _is_learner(loop, call)
        if is_learning and any("data" in flow.kinds(one) for one in given):
            yield call, "learns from the records that are trained on, without noise"
        within = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in _RANKS and not is_inside(call) and any("data" in flow.kinds(one) for one in (within, *given)):
            yield call, why
        is_made = name[:1].isupper() and name not in (*_IGNORED, *_TABLES) and not is_inside(call)
        if is_made and any("figure" in flow.kinds(one) for one in given):
            yield call, why
        weighing = (value for word, value in words.items() if word is not None and _WEIGHS.search(word))
        if not name[:1].isupper() and any("figure" in flow.kinds(one) for one in weighing):
            yield call, why
        if _INIT.match(script.qualified(call.func)) and any("figure" in flow.kinds(one) for one in given):
            yield call, why
        if name in ("fillna", "register_buffer", "copy_", "fill_", "init_") and any(
            "figure" in flow.kinds(one) for one in given
        ):
            yield call, why
    for node in script.nodes:
        if isinstance(node, ast.AugAssign) and is_scaled_at_once(flow, node):
            is_used = {"figure", "extent"} & flow.kinds(node.value) and _is_records(loop, flow, node.target)
            yield from [(node, why)] * bool(is_used)
        above = script.parent.get(node)
        if isinstance(node, ast.Subscript) and isinstance(above, ast.BinOp) and "record" in flow.kinds(above):
            is_weight = "figure" in flow.kinds(node.value) and bool({"data", "record"} & flow.kinds(node.slice))
            yield from [(node, why)] * is_weight  # of the class of a record
        is_scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.Mult)
        if is_scaled and isinstance(node, ast.BinOp) and node not in loop.clips and not _is_of_one(loop, node):
            right = flow.kinds(node.right)
            is_kept = "mean" in right and {"data", "record"} & flow.kinds(node.left) and "figure" in right
            if is_kept or ({"figure", "extent"} & right and _is_records(loop, flow, node.left)):
                yield node, why


def _is_of_one(loop: Loop, node: ast.BinOp) -> bool:
    """Whether an item of a data set is scaled by what is found of itself, and of no field."""
    function = loop.script.above(node, ast.FunctionDef)
    is_item = function is not None and function.name == "__getitem__"
    return is_item and not any(isinstance(one, ast.Name) and one.id == "self" for one in walk(node.right))


def _is_records(loop: Loop, flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is records, or what a transformation is given."""
    kinds = flow.kinds(node)
    if kinds & {"figure", "extent"}:
        return False
    if "data" in kinds:
        return loop.body is None or loop.body not in [*loop.script.around(node)]
    lambdas = [one for one in loop.script.around(node) if isinstance(one, ast.Lambda)]
    names = {one.arg for each in lambdas for one in each.args.args}
    return any(isinstance(one, ast.Name) and one.id in names for one in walk(node))


def _is_learner(loop: Loop, call: ast.Call) -> bool:
    """Whether a method is that of a scaler, a vocabulary or a model of a library without noise."""
    script, name = loop.script, last_name(call.func)
    is_sure = name in ("fit_transform", "adapt", "train_from_iterator", "train_new_from_iterator", *_VOCABULARIES)
    within = call.func.value if isinstance(call.func, ast.Attribute) else None
    if within is None:
        return is_sure
    try:
        made = script.resolve(within)
    except UnclearError:
        return is_sure
    whole = script.qualified(made.func) if isinstance(made, ast.Call) else ""
    if whole.rpartition(".")[2] in _NAMES_ONLY:
        return False
    return is_sure or whole.startswith(_LEARNS)


# -- what is saved ---------------------------------------------------------------------------------------------------


def _shown(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Where gradients, outputs or losses of single records are saved, logged or kept."""
    script = loop.script
    why = "shows single records, without noise"
    if loop.framework != "by hand":
        for one in script.attributes["grad_sample"]:
            if isinstance(one.ctx, ast.Load) and not _is_asked_of(script.parent[one]):
                yield one, "takes gradients of single records, without noise"
    for body in (one for one in (loop.body, *loop.more) if one is not None):
        yield from ((one, why) for one in gaps.shown(script, body))
    for call in script.calls:
        name, within = last_name(call.func), getattr(call.func, "value", None)
        is_log = _LOGS.match(name) is not None and within is not None and _LOGGERS.search(ast.unparse(within))
        if _SAVES.search(name) or is_log:
            given = [*call.args, *(one.value for one in call.keywords)]
            given += [within] if within is not None and name.startswith("to") else []
            if any({"record", "mean"} & flow.kinds(one) for one in given):
                yield call, why


def _is_asked_of(above: ast.AST) -> bool:
    """Whether only what a field is, not what it holds, is asked."""
    is_plain = isinstance(above, ast.Attribute) and above.attr in ("shape", "ndim", "dtype", "device")
    is_test = isinstance(above, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot) for one in above.ops)
    return is_plain or is_test
