"""What a script tells of private records beside its noise: choices, statistics, and what is saved of single records."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts.copies import copies
from fastacct.scripts.flow import Flow, Kinds
from fastacct.scripts.found import Loop
from fastacct.scripts.scales import is_scaled_at_once
from fastacct.scripts.tree import FUNCTIONS, Function, UnclearError, last_name, walk

_KEEPS: Final = (
    *("save", "save_pretrained", "save_model", "save_weights", "save_checkpoint", "save_state", "deepcopy", "dump"),
    *("state_dict", "get_weights", "set_weights", "load_state_dict", "load_weights", "push_to_hub", "restore"),
)
"""Methods that keep a model, or take one that was kept."""
_LOADS: Final = ("load", "load_state_dict", "from_pretrained", "load_weights", "load_from_checkpoint", "load_model")
_KEPT: Final = re.compile(r"ckpt|checkpoint|model|state|param|snap|weight|result|run", re.I)
_RATE: Final = re.compile(r"\blr\b|_lr\b|learning_rate")
_TRAINED: Final = re.compile(r"(?:model|net|network|params|optimizer|scheduler|sched)\d*$", re.I)
_HARMLESS: Final = ("train", "eval", "print", "info", "debug", "warning", "log", "add_scalar", "set_postfix", "append")
"""Functions that may be given a model, or called of one, and leave it as it is."""
_SHOWS: Final = (*_HARMLESS, "error", "exception", "set_description", "write", "title", "text", "annotate", "set_title")
_TRAINS: Final = ("backward", "step", "update", "apply_gradients", "fit", "train", "train_epoch", "train_step")
_FINITE: Final = re.compile(r"isnan|isfinite|isinf|is_nan")
_WATCHES: Final = ("ModelCheckpoint", "EarlyStopping", "ReduceLROnPlateau")
_ASIDE: Final = re.compile(r"val|test|eval|dev|holdout", re.I)
"""Names of figures that are not of the records that are trained on."""
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
_WEIGHS: Final = re.compile(r"weights?$|prior|^init")
"""Arguments by which records or classes weigh in a loss."""
_IGNORED: Final = ("WeightedRandomSampler",)
"""What an engine that draws by itself takes no notice of."""
_RANKS: Final = ("rank", "qcut", "zscore", "minmax_scale", "robust_scale", "quantile_transform", "power_transform")
"""Functions that put records into relation to all others."""
_SUBSETS: Final = ("Subset", "SubsetRandomSampler", "WeightedRandomSampler")
"""What is given the records that are trained on by their places."""
_STOPS: Final = re.compile(r"early_?stop|stopp(?:er|ing)|keep_?best|best_?model|save_?best", re.I)
"""Classes and objects that end a training, or keep a model, by the figure that they are called with."""
_TABLES: Final = ("Counter", "DataFrame", "Series")


def ask_of_leaks(loop: Loop) -> None:
    """Give no number where private records are used beside the noise; ask where their data may be public."""
    try:
        flow = Flow(loop.script, loop.data, loop.noised)
        found = [*_choices(loop, flow), *_statistics(loop, flow), *_shown(loop, flow)]
        found += [(one, "puts records several times into the data") for one in copies(loop, flow)]
    except (RecursionError, UnclearError) as error:
        loop.ask("noise", f"where private records go cannot be told: {error}")
        return
    for node, why in found:
        text = f"line {getattr(node, 'lineno', 1)}: {ast.unparse(node).splitlines()[0][:60]}"
        loop.ask("noise", f"{text} {why}")


# -- choices ---------------------------------------------------------------------------------------------------------

_CHOSEN: Final = "chooses by the records that are trained on, without noise"


def _choices(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Where a model is kept, or training ends or changes, by a figure of the private records."""
    script = loop.script
    for node in script.nodes:
        if isinstance(node, ast.If | ast.While) and not _FINITE.search(ast.unparse(node.test)):
            is_chosen = "figure" in flow.kinds(node.test) and any(_chooses(loop, flow, one) for one in _body(node))
            yield from [(node.test, _CHOSEN)] * is_chosen
        if isinstance(node, ast.IfExp) and "figure" in flow.kinds(node.test):
            parts = [each for one in (node.body, node.orelse) for each in walk(one)]
            if any(flow.is_model(last_name(one)) or last_name(one) in _KEEPS for one in parts):
                yield node, _CHOSEN
    for call in script.calls:
        name = last_name(call.func)
        given = [*call.args, *(one.value for one in call.keywords)]
        if name in _LOADS and any("figure" in _kinds(flow, one) for one in given):
            yield call, _CHOSEN
        elif name not in _SHOWS and any(_is_text(one) and "choice" in flow.kinds(one) for one in given):
            yield call, _CHOSEN  # a file that is named by the best epoch
        elif name in _SUBSETS and any("choice" in flow.kinds(one) for one in given):
            yield call, _CHOSEN
        elif name in ("max", "min", "sorted") and any(one.arg == "key" for one in call.keywords):
            if any("figure" in flow.kinds(one) and _has_models(flow, one) for one in call.args):
                yield call, _CHOSEN
        elif any("figure" in flow.kinds(one) for one in given) and _is_stopper(loop, call):
            yield call, _CHOSEN
        elif name in _WATCHES:
            words = [one.value for one in call.keywords if one.arg == "monitor"] + call.args[:1]
            watched = [str(one.value) for one in words if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if watched and not _ASIDE.search(watched[0]):
                yield call, _CHOSEN
            elif watched:
                text = "chooses by data that is kept aside, whose own records are not protected by that"
                loop.notes.append(f"line {call.lineno}: {name} {text}.")
        elif name == "step" and any("figure" in flow.kinds(one) for one in call.args):
            yield call, "follows the records that are trained on, without noise"
        elif any(one.arg == "load_best_model_at_end" and getattr(one.value, "value", 1) for one in call.keywords):
            yield from ((one, _CHOSEN) for one in _evaluated(loop, flow))
    for one in script.nodes:
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load):
            is_chosen = _KEPT.search(ast.unparse(one.value)) is not None and "figure" in flow.kinds(one.slice)
            yield from [(one, _CHOSEN)] * is_chosen


def _kinds(flow: Flow, node: ast.expr) -> Kinds:
    """The kinds of an expression, also of a name that is that of a model."""
    return flow.put(node) if isinstance(node, ast.Name) else flow.kinds(node)


def _is_text(node: ast.expr) -> bool:
    """Whether an expression makes the name of a file."""
    is_put = isinstance(node, ast.BinOp) and any(isinstance(getattr(one, "value", 0), str) for one in walk(node))
    return (
        is_put or isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and last_name(node.func) == "format")
    )


def _is_stopper(loop: Loop, call: ast.Call) -> bool:
    """Whether an object is called that its name, or that of its class, says to stop a training or to keep a model."""
    within = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    names = [last_name(one) for one in (call.func, *within)]
    for one in (call.func, *within):
        with contextlib.suppress(UnclearError):
            made = loop.script.resolve(one)
            names += [last_name(made.func)] if isinstance(made, ast.Call) else []
    return any(_STOPS.search(name) for name in names)


def _evaluated(loop: Loop, flow: Flow) -> Iterator[ast.AST]:
    """Where a trainer evaluates on what it trains on."""
    for call in loop.script.calls:
        yield from (one.value for one in call.keywords if one.arg == "eval_dataset" and "data" in flow.kinds(one.value))


def _body(node: ast.If | ast.While) -> Iterator[ast.AST]:
    """What stands under a condition."""
    todo: list[ast.AST] = [*node.body, *node.orelse]
    while todo:
        one = todo.pop()
        yield one
        if not isinstance(one, Function | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(one)


def _chooses(loop: Loop, flow: Flow, node: ast.AST) -> bool:
    """Whether a statement keeps a model, ends a training, or changes how it goes on."""
    if isinstance(node, ast.Break | ast.Return | ast.Continue):
        return _is_around(loop, node)
    if isinstance(node, ast.Call):
        parts = [*node.args, *(one.value for one in node.keywords), getattr(node.func, "value", node)]
        is_used = any(last_name(one) in flow.models or _TRAINED.search(last_name(one)) for one in parts)
        return last_name(node.func) in _KEEPS or (is_used and last_name(node.func) not in _HARMLESS)
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        named = [one for one in walk(node.value) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        is_kept = isinstance(node.value, ast.Name | ast.Tuple) and any(flow.is_model(one.id) for one in named)
        is_field = any(isinstance(one, ast.Attribute) and last_name(one.value) != "self" for one in targets)
        return is_kept or is_field or any(_RATE.search(ast.unparse(one)) for one in targets)
    return False


def _is_around(loop: Loop, node: ast.AST) -> bool:
    """Whether a jump leaves a loop that trains."""
    script = loop.script
    for over in script.around(node, *FUNCTIONS):
        if isinstance(over, ast.For | ast.While):
            inside = walk(over)
            called = {last_name(one.func) for one in inside if isinstance(one, ast.Call)}
            here = [one for one in script.nodes if isinstance(one, Function) and one.name in called]
            if called & {*_TRAINS} or loop.body in [*inside, *(part for one in here for part in walk(one))]:
                return True
    return False


def _has_models(flow: Flow, node: ast.expr) -> bool:
    """Whether models are put into a list."""
    values = [value for _, value in flow.filled.get(last_name(node), ())]
    parts = [one for value in values for one in walk(value)]
    return any(flow.is_model(last_name(one)) or last_name(one) in _KEEPS for one in parts)


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
