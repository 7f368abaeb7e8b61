"""What is done beside a private loop with what is found of its records: statistics, choices, and steps of others."""

from __future__ import annotations

import ast
import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.names import Script
from fastacct.scripts.records import Region
from fastacct.scripts.scales import is_each, is_over_records
from fastacct.scripts.tree import FUNCTIONS, Function, UnclearError, is_over_layers, last_name, walk

WORDS: Final = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(Path(__file__).with_name("known.toml").read_text("utf-8")).items()
}
"""Words that are known: libraries, functions that leave records apart, those that show figures, and suspect methods."""
ALONE: Final = "each record is treated by itself there, and is one example"
BESIDE: Final = "no model that is trained or kept depends on it"
PLOTS: Final = re.compile(r"wandb|matplotlib|seaborn|mlflow|comet_ml|neptune|clearml|plotly|rich")
LABEL: Final = re.compile(r"\by\b|y_|label|target|==|>|<|isnull|isna")
_OVER: Final = frozenset(
    ("mean", "std", "var", "median", "quantile", "percentile", "average", "sum", "cov", "corrcoef")
)
_LOSS: Final = re.compile(r"loss|cross_entropy|criterion|nll|bce|kl_div", re.I)
_SETTING: Final = re.compile(
    r"lr|noise|clip|norm|requires_grad|weight|momentum|temperature|threshold|alpha|batch", re.I
)
_GRADIENTS: Final = re.compile(r"grad|clip|\bg\b|per_ex")
_TRAINS: Final = ("step", "backward", "fit", "train", "apply_gradients", "update", "train_epoch", "train_step")
_ACTS: Final = (*_TRAINS, "save", "dump", "manual_backward")
"""What shows a figure, and does more where a branch depends on one."""
_FINITE: Final = re.compile(r"isnan|isfinite|isinf|is_nan")
_KEPT: Final = re.compile(r"ckpt|checkpoint|model|state|param|snap|weight|result|run", re.I)
_STOPS: Final = re.compile(r"early_?stop|stopp(?:er|ing)|keep_?best|best_?model|save_?best", re.I)
"""Objects that end a training, or keep a model, by the figure that they are called with."""
_WATCHES: Final = ("ModelCheckpoint", "EarlyStopping", "ReduceLROnPlateau")
_ASIDE: Final = re.compile(r"val|test|eval|dev|holdout", re.I)
"""Names of figures that are not of the records that are trained on."""
_OF_GRAD: Final = ("shape", "zero_", "detach_", "requires_grad_", "dtype", "device", "is_sparse", "numel")
_LOGGED: Final = re.compile(r"\blogs?(?:\.get\(|\[)|callback_metrics|logged_metrics|log_history")
_WEIGHTS: Final = re.compile(r"\.(?:weight|bias|data)\b|param|_module|buffer|running")
_HARMLESS: Final = re.compile(
    r"sched|prof|account|meter|engine|pbar|bar$|scaler|progress|\benv\b|tracker|privacy", re.I
)
"""What has a step() that moves no parameter by a gradient."""


# -- statistics ------------------------------------------------------------------------------------------------------


def statistics(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Statistics of many records that are more than printed, and of a batch that are no losses."""
    script = loop.script
    inside = {node for region in loop.regions for node in region.nodes}
    for call in script.calls:
        name = last_name(call.func)
        is_alone = is_each(script, call) or _is_in_turn(script, flow, call)
        is_alone = is_alone or is_over_layers(call)
        if call in inside or name not in _OVER or is_alone or not is_over_records(script, call):
            continue
        of = (
            call.args[:1]
            if script.qualified(call.func) or not isinstance(call.func, ast.Attribute)
            else [call.func.value]
        )
        if of and loop.framework != "opacus" and _GRADIENTS.search(ast.unparse(of[0])):
            continue
        if of and "data" in flow.kinds(of[0]) and not LABEL.search(ast.unparse(of[0])) and not is_shown(script, call):
            yield call, BESIDE
    for region in loop.regions:
        for node in region.nodes:
            is_sum = loop.framework != "opacus" and last_name(getattr(node, "func", node)) in ("sum", "norm")
            if is_sum or not isinstance(node, ast.Call) or not region.is_statistic(node):
                pass  # of gradients, by hand
            elif _is_along(node) and not _is_loss(region, node):
                yield node, ALONE
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                for one, other in ((node.left, node.right), (node.right, node.left)):
                    of = [each for each in walk(other) if isinstance(each, ast.Call) and region.is_statistic(each)]
                    if (
                        any(not _is_loss(region, each) for each in of)
                        and region.holds(one)
                        and not _is_loss(region, one)
                    ):
                        yield node, ALONE


def _is_in_turn(script: Script, flow: Flow, node: ast.AST) -> bool:
    """Whether records are gone through one by one around a node, and not their columns."""
    for one in script.around(node, *FUNCTIONS, ast.Lambda):
        for each in getattr(one, "generators", [one] if isinstance(one, ast.For) else []):
            if "len(" in ast.unparse(each.iter) or "data" in flow.kinds(each.iter):
                return True
    return False


def _is_along(call: ast.Call) -> bool:
    """Whether a statistic is said to be along the axis of records."""
    axes = [one.value for one in call.keywords if one.arg in ("dim", "axis")] + call.args[-1:]
    return any(ast.unparse(one) in ("0", "(0,)", "[0]") for one in axes)


def _is_loss(region: Region, node: ast.AST) -> bool:
    """Whether a loss, or an accuracy, is in an expression."""
    is_compared = any(isinstance(one, ast.Compare) or last_name(one) in ("eq", "argmax") for one in walk(node))
    is_named = any(last_name(one) in region.losses for one in walk(node))
    return is_compared or is_named or bool(_LOSS.search(ast.unparse(node)))


def is_shown(script: Script, node: ast.AST, before: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a value is only printed, asserted, or put into a name of which that is true; not one made of itself."""
    statement = script.statement(node)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return last_name(called) in WORDS["shows"] or PLOTS.match(script.qualified(called)) is not None
    if not isinstance(statement, ast.Assign) or not all(isinstance(one, ast.Name) for one in statement.targets):
        return False
    uses = [use for one in statement.targets for use in script.uses[last_name(one)]]
    seen = before | {statement}
    return all(script.statement(use) not in seen and is_shown(script, use, seen) for use in uses)


# -- what is chosen --------------------------------------------------------------------------------------------------


def choices(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """What depends on private figures, and is more than printed: branches, what is picked, settings, and what stops."""
    script = loop.script
    for node in script.nodes:
        test = getattr(node, "test", None)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and (
            "figure" in flow.kinds(test) or _is_logged(script, test)
        ):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
            is_shown = _FINITE.search(ast.unparse(node.test)) or all(_is_harmless(loop, flow, one) for one in parts)
            yield from [(node.test, BESIDE)] * (not is_shown)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_setting = any(
                isinstance(one, ast.Attribute | ast.Subscript) and _SETTING.search(ast.unparse(one)) for one in targets
            )
            if is_setting and {"figure", "extent"} & flow.kinds(node.value):
                yield node, BESIDE
        elif isinstance(node, ast.For) and {"figure", "data"} & flow.kinds(node.iter) == {"figure"}:
            is_training = any(isinstance(one, ast.Call) and last_name(one.func) in _TRAINS for one in walk(node))
            yield from [(node.iter, BESIDE)] * is_training
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            is_kept = _KEPT.search(ast.unparse(node.value)) is not None and "figure" in flow.kinds(node.slice)
            yield from [(node, BESIDE)] * is_kept
        elif isinstance(node, ast.Call):
            yield from ((one, BESIDE) for one in _chosen(loop, flow, node))


def _is_logged(script: Script, test: ast.expr | None) -> bool:
    """Whether a condition is of what a trainer tells its callbacks of the private data: logs, callback_metrics."""
    names = [one for one in walk(test) if isinstance(one, ast.Name)] if test is not None else []
    values = [row.value for one in names for row in script.lookup(one.id, one)[1] if row.value is not None]
    texts = [ast.unparse(one) for one in (*values, *([test] if test is not None else []))]
    return any(_LOGGED.search(one) and not _ASIDE.search(one) for one in texts)


def _chosen(loop: Loop, flow: Flow, call: ast.Call) -> Iterator[ast.AST]:
    """Calls by which a model is chosen, or a training ends, by private figures."""
    name, words = last_name(call.func), {one.arg: one.value for one in call.keywords}
    given = [*call.args, *words.values()]
    kinds = frozenset().union(*(flow.put(one) if isinstance(one, ast.Name) else flow.kinds(one) for one in given))
    outer = getattr(loop.script.statement(call), "value", None)
    is_act = isinstance(outer, ast.Call) and last_name(outer.func) not in WORDS["shows"] | {"str"}
    is_act = is_act and not PLOTS.match(loop.script.qualified(getattr(outer, "func", call)))
    is_picked = "choice" in kinds and name not in WORDS["shows"] and (is_act or not is_shown(loop.script, call))
    is_step = name == "step" and any("figure" in flow.kinds(one) for one in call.args)
    is_ended = "figure" in kinds and (name.startswith("load") or _is_stopper(loop.script, call))
    if is_picked or is_step or is_ended:
        yield call
    elif name in _WATCHES:
        named = [words["monitor"]] if "monitor" in words else call.args[:1]
        watched = [str(one.value) for one in named if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if watched and not _ASIDE.search(watched[0]):
            yield call
        elif watched:
            text = "chooses by data that is kept aside, whose own records are not protected by that"
            loop.notes.append(f"line {call.lineno}: {name} {text}.")
    elif getattr(words.get("load_best_model_at_end"), "value", False):
        sets = [one.value for each in loop.script.calls for one in each.keywords if one.arg == "eval_dataset"]
        yield from (one for one in sets if "data" in flow.kinds(one))


def _is_stopper(script: Script, call: ast.Call) -> bool:
    """Whether an object is called that its name, or that of its class, says to stop a training or to keep a model."""
    text = ast.unparse(call.func)
    for one in (call.func, getattr(call.func, "value", call.func)):
        with contextlib.suppress(UnclearError):
            made = script.resolve(one)
            text += ast.unparse(made.func) if isinstance(made, ast.Call) else ""
    return _STOPS.search(text) is not None


def _is_harmless(loop: Loop, flow: Flow, node: ast.AST) -> bool:
    """Whether a part of a branch prints, stops with an error, or keeps a figure."""
    if isinstance(node, ast.Break | ast.Continue | ast.Return):
        return not _is_around(loop, node)
    if isinstance(node, ast.Expr | ast.Call):
        node = getattr(node, "value", node)
        given = [last_name(one) for each in getattr(node, "args", ()) for one in walk(each)]
        is_shown = isinstance(node, ast.Call) and last_name(node.func) in WORDS["shows"] - {*_ACTS}
        return isinstance(node, ast.Constant) or (is_shown and not any(map(flow.is_model, given)))
    if isinstance(node, ast.If):
        return all(_is_harmless(loop, flow, one) for one in (*node.body, *node.orelse))
    value = node if isinstance(node, ast.expr) else getattr(node, "value", None)
    if isinstance(node, ast.Assign | ast.AugAssign | ast.expr) and value is not None:
        targets = getattr(node, "targets", [node.target] if isinstance(node, ast.AugAssign) else [])
        inside = walk(value)
        is_plain = not any(isinstance(one, ast.Call | ast.Attribute) for one in inside)
        is_number = is_plain or flow.kinds(value) == {"figure"}
        is_number = is_number and not any(flow.is_model(last_name(one)) for one in inside)
        return is_number and all(isinstance(one, ast.Name | ast.Tuple) for one in targets)
    return isinstance(node, ast.Pass | ast.Raise | ast.Assert)


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


# -- steps -----------------------------------------------------------------------------------------------------------


def steps(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Steps of which it is not seen whether they have noise, beside those of a private optimizer."""
    script = loop.script
    if loop.framework not in ("opacus", "private_transformers"):
        return
    for one in script.attributes["step"]:
        call = script.parent[one]
        if (
            not isinstance(call, ast.Call)
            or call.func is not one
            or call in loop.steps
            or one in loop.others
            or _HARMLESS.search(last_name(one.value))
        ):
            continue
        if not _is_step_known(script, one.value):
            yield call, "this step has noise, or moves nothing that is trained on private records"
    bodies = [one for one in loop.regions if isinstance(one.node, ast.For)]
    for region, call in ((one, each) for one in bodies for each in one.nodes if isinstance(each, ast.Call)):
        target = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") else None
        is_moved = target is not None and _WEIGHTS.search(ast.unparse(target)) and not region.holds(target)
        if is_moved and any(region.holds(one) for one in call.args):
            yield call, "nothing that is trained is moved there by records, without noise"
    if loop.framework == "opacus":
        for one in script.attributes["grad"]:
            above = script.parent[one]
            is_plain = isinstance(above, ast.Compare) or (isinstance(above, ast.Attribute) and above.attr in _OF_GRAD)
            is_none = isinstance(above, ast.Assign) and getattr(above.value, "value", 0) is None
            is_plain = is_plain or ("record" not in flow.kinds(one) and not _moves(script, one))
            if "autograd" not in ast.unparse(one) and not (is_plain or is_none) and not script.qualified(one):
                yield one, "this is a gradient with noise, and nothing else moves what is trained"


def _moves(script: Script, node: ast.AST) -> bool:
    """Whether a statement puts a gradient into something."""
    statement = script.statement(node)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return last_name(statement.value.func) in ("add_", "sub_", "copy_", "addcmul_", "addcdiv_", "mul_", "lerp_")
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return any(isinstance(one, ast.Attribute | ast.Subscript) for one in targets) or isinstance(
        statement, ast.AugAssign
    )


def _is_step_known(script: Script, node: ast.expr) -> bool:
    """Whether a step is that of a scheduler, or of the one optimizer of the file, which an engine is given."""
    found = script.lookup(node.id, node)[1] if isinstance(node, ast.Name) else []
    lists = [one.value for one in found if one.kind == "part" and isinstance(one.value, ast.Call)]
    if any(last_name(one.func) == "optimizers" for one in lists):
        return False
    names = [script.qualified(one.func) for one in script.calls]
    made = [one for one in names if one.startswith("torch.optim.") and ".lr_scheduler" not in one]
    moved = {ast.unparse(one.value) for one in script.attributes["step"] if not _HARMLESS.search(last_name(one.value))}
    if len(made) == len(moved) == 1 or (isinstance(node, ast.Call) and last_name(node.func) == "optimizers"):
        return True
    try:
        value = script.resolve(node)
    except UnclearError:
        return any("make_private" in ast.unparse(one.value) for one in found if one.value is not None)
    whole = script.qualified(value.func) if isinstance(value, ast.Call) else ""
    is_own = isinstance(value, ast.Call) and last_name(value.func) == "optimizers"
    return is_own or whole.startswith(("torch.optim.lr_scheduler.", "transformers.get_", "torch.profiler", "opacus."))
