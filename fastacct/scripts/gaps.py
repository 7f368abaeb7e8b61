"""Gaps of private loops: batches that are kept, steps and noise that are left out, records that are shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from typing import Final

from fastacct.scripts import noise
from fastacct.scripts.found import Loop
from fastacct.scripts.names import Key, Script
from fastacct.scripts.steps import is_earlier, steps_of
from fastacct.scripts.tree import Function, NoNumberError, UnclearError, last_name, walk

_KEEPS: Final = ("itertools.cycle", "builtins.list", "builtins.tuple", "builtins.sorted", "collections.deque")
_SCALARS: Final = ("gauss", "normalvariate")
_TURNS: Final = (
    *(
        "to",
        "cpu",
        "cuda",
        "numpy",
        "tolist",
        "detach",
        "item",
        "clone",
        "float",
        "double",
        "squeeze",
        "view",
        "reshape",
    ),
    *("flatten", "permute", "pin_memory", "half", "long", "contiguous", "unsqueeze", "items"),
)
"""Methods whose results are the same records."""
_WRAPS: Final = ("str", "repr", "list", "tuple", "make_grid", "Image", "array", "asarray", "fromarray")
_SHOWS: Final = re.compile(
    r"^(?:p?print|info|debug|warning|display|imshow|matshow|imsave|imwrite|savetxt|savez\w*|save|save_image|dump|tofile)$"
    r"|^(?:Image|Table|Histogram|log|log_\w*(?:image|table|artifact)s?|add_(?:images?|embedding|text)|write(?:rows?)?)$"
)
_SEEDS: Final = ("manual_seed", "default_rng", "RandomState")
_MOVES: Final = ("step", "sub_", "apply_updates", "apply_gradients")
_OF_GRADIENT: Final = re.compile(r"grad|None|noise|sigma", re.I)


def refuse_kept(script: Script, loaders: Set[Key]) -> None:
    """No number where batches of a private loader are kept, to be taken again."""
    if (node := _kept(script, loaders)) is not None:
        why = "keeps batches, which are taken again: no new sample is drawn for their steps"
        raise NoNumberError(node, f"{ast.unparse(node).splitlines()[0][:60]} {why}")


def _kept(script: Script, loaders: Set[Key]) -> ast.AST | None:
    """Where batches of a private loader are put into something else than the steps of a loop."""

    def is_drawn(node: ast.AST) -> bool:
        for one in walk(node):
            try:
                if isinstance(one, ast.Name | ast.Attribute) and script.origin(one) in loaders:
                    return True
            except UnclearError:
                continue
        return False

    for node in script.nodes:
        is_kept = isinstance(node, ast.Call) and script.is_call(node, *_KEEPS)
        if is_kept and isinstance(node, ast.Call) and any(map(is_drawn, node.args)):
            return node
        if isinstance(node, ast.ListComp) and is_drawn(node.generators[0].iter):
            names = {one.id for one in walk(node.generators[0].target) if isinstance(one, ast.Name)}
            if names & {one.id for one in walk(node.elt) if isinstance(one, ast.Name)}:
                return node
        if isinstance(node, ast.For) and (is_drawn(node.iter) or ast.unparse(node.iter).startswith("self.")):
            names = {one.id for one in walk(node.target) if isinstance(one, ast.Name)}
            for one in walk(node):
                is_put = isinstance(one, ast.Call) and last_name(one.func) in ("append", "setdefault")
                is_put |= isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Subscript)
                given = one.args if isinstance(one, ast.Call) else [getattr(one, "value", None)]
                if is_put and any(_is_batch(each, names) for each in given):
                    return one
    return None


def _is_batch(node: ast.AST | None, names: Set[str]) -> bool:
    """Whether a value is a batch, or records of one, on whatever device and in whatever shape."""
    while True:
        if isinstance(node, ast.Tuple | ast.List):
            return any(_is_batch(one, names) for one in node.elts)
        if isinstance(node, ast.Dict):
            return any(_is_batch(one, names) for one in node.values)
        if isinstance(node, ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call) and last_name(node.func) in _TURNS and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Call) and last_name(node.func) in _WRAPS and node.args:
            node = node.args[0]
        else:
            return isinstance(node, ast.Name) and node.id in names


def shown(script: Script, body: ast.For) -> Iterator[ast.Call]:
    """Calls that write or show records of a batch."""
    names = {one.id for one in walk(body.target) if isinstance(one, ast.Name)}
    for one in (each for each in walk(body) if isinstance(each, ast.Assign)):
        names |= {last_name(each) for each in one.targets} - {""} if _is_batch(one.value, names) else set()
    for call in (one for one in walk(body) if isinstance(one, ast.Call)):
        within = [call.func.value] if isinstance(call.func, ast.Attribute) and last_name(call.func) == "tofile" else []
        given = [*call.args, *(one.value for one in call.keywords), *within]
        if _SHOWS.search(last_name(call.func)) and any(_is_batch(one, names) for one in given):
            yield call


def held(script: Script, body: ast.For) -> ast.AST | None:
    """Where a loop keeps a batch of one of its rounds under a name that later rounds use."""
    names = {one.id for one in walk(body.target) if isinstance(one, ast.Name)}
    for test in (one for one in walk(body) if isinstance(one, ast.If) and not one.orelse):
        for one in (each for each in walk(test) if isinstance(each, ast.Assign)):
            targets = {each.id for target in one.targets for each in walk(target) if isinstance(each, ast.Name)} - names
            inside = {*walk(test)}
            is_used = any(use not in inside for name in targets for use in script.uses[name] if use in {*walk(body)})
            if is_used and _is_batch(one.value, names):
                return one
    return None


def beside(script: Script, given: ast.expr, returned: ast.expr, made: ast.Call) -> ast.AST | None:
    """A step of the optimizer that make_private was given, in the place of the one that it returned."""
    try:
        key = script.origin(given)
        if key == script.origin(returned):
            return None
        return next((one for one in steps_of(script, key) if not is_earlier(script, one, made)), None)
    except UnclearError as error:
        return next((one for one in script.attributes["step"] if error.node is one), None)  # scaler.step(optimizer)


def ask_of_kinds(loop: Loop, said: Mapping[str, ast.expr], made: ast.Call) -> None:
    """No number where Opacus draws by numbers of few bits, or where ghost clipping has another loss than its own."""
    script = loop.script
    for call in script.calls:
        if last_name(call.func) == "set_default_dtype" and not re.search("float(?:32|64)", ast.unparse(call)):
            text = f"{ast.unparse(call)[:50]}: Opacus draws by numbers of that type, at a larger rate"
            loop.ask("noise", f"line {call.lineno}: {text}")
    mode = said.get("grad_sample_mode")
    if mode is None or getattr(mode, "value", "ghost") in ("hooks", "functorch", "ew"):
        return
    target = script.parent[made]
    names = target.targets[0] if isinstance(target, ast.Assign) else None
    criterion = names.elts[2] if isinstance(names, ast.Tuple) and len(names.elts) == 4 else None
    uses = script.uses[criterion.id] if isinstance(criterion, ast.Name) else []
    if not any(isinstance(one.ctx, ast.Load) for one in uses):
        loop.ask("noise", f"line {made.lineno}: the criterion that this returns is not used, and no other loss clips")


# -- noise by hand ---------------------------------------------------------------------------------------------------


def noises(script: Script, over: ast.For) -> Iterator[tuple[ast.AST, str]]:
    """Lines in which noise that is added by hand is not there in each step, or is no Gaussian noise."""
    flow = noise.flow_of(script)
    for place in flow.sums():
        values = [place.left, place.right] if isinstance(place, ast.BinOp) else [getattr(place, "value", None)]
        values = getattr(place, "args", values)
        parts = [one for one in values if isinstance(one, ast.expr) and flow.is_noise(one)]
        for one in (each for part in parts for each in _made_of(script, flow, part)):
            if isinstance(one, ast.IfExp) and not (flow.is_noise(one.body) and flow.is_noise(one.orelse)):
                yield one, "adds noise in some cases only"
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
                for factor in (one.left, one.right):
                    if isinstance(factor, ast.Compare | ast.BoolOp) or _may_be_zero(script, factor):
                        yield factor, "sets the noise to 0"
            if isinstance(one, ast.Call) and noise.DRAWN.search(last_name(one.func)):
                scale = [word.value for word in one.keywords if word.arg in ("std", "scale", "stddev")]
                for factor in (*scale, *one.args[1:2]):
                    if _may_be_zero(script, factor):
                        yield factor, "sets the noise to 0"
            if isinstance(one, ast.Call) and re.search("[Ll]aplace$", last_name(one.func)):
                yield one, "is no Gaussian noise"
            seeds = [each for each in walk(one) if isinstance(each, ast.Call) and last_name(each.func) in _SEEDS]
            if (
                isinstance(one, ast.Call)
                and noise.DRAWN.search(last_name(one.func))
                and any(each.args for each in seeds)
            ):
                yield one, "draws from a seed that is set again in each step"
            if isinstance(one, ast.Call) and last_name(one.func) in _SCALARS:
                yield one, "is one number for all coordinates, whose differences have no noise"
            if isinstance(one, ast.Call) and last_name(one.func) == "randn" and _is_one(one):
                yield one, "is one number for all coordinates, whose differences have no noise"
        if (test := _decides(script, place, over)) is not None:
            yield test.test, "decides whether noise is added, and a step is taken in any case"


def _decides(script: Script, place: ast.AST, over: ast.For) -> ast.If | None:
    """A test around noise that is none of a parameter, and outside of which a step is taken."""
    test, home = script.above(place, ast.If), script.above(place, ast.FunctionDef) or over
    around = [*script.around(test)] if test is not None else []
    if test is None or test.orelse or home not in around or _OF_GRADIENT.search(ast.unparse(test.test)):
        return None
    inner = [one for one in around[: around.index(home)] if isinstance(one, ast.For)]
    moving = {each.id for one in inner for each in walk(one.target) if isinstance(each, ast.Name)}
    if moving & {one.id for one in walk(test.test) if isinstance(one, ast.Name)}:
        return None
    inside = {*walk(test)}
    for one in walk(home):
        is_step = isinstance(one, ast.Call) and last_name(one.func) in _MOVES
        is_step |= isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Sub)
        if is_step and one not in inside:
            return test
    return None


def _made_of(script: Script, flow: noise.Flow, node: ast.AST, depth: int = 4) -> Iterator[ast.AST]:
    """The parts of an expression, and of what its names of noise stand for."""
    for one in walk(node):
        yield one
        if depth and isinstance(one, ast.Name) and flow.is_noise(one):
            for bound in script.lookup(one.id, one)[1]:
                if bound.value is not None:
                    yield from _made_of(script, flow, bound.value, depth - 1)


def _is_one(call: ast.Call) -> bool:
    """Whether randn() draws a single number."""
    return all(isinstance(one, ast.Constant) and one.value == 1 for one in call.args)


def _may_be_zero(script: Script, node: ast.expr, depth: int = 3) -> bool:
    """Whether a factor is 0 in some case, as one that a schedule or a branch sets."""
    if isinstance(node, ast.Constant):
        return node.value == 0 and node.value is not False
    if isinstance(node, ast.IfExp):
        return _may_be_zero(script, node.body, depth) or _may_be_zero(script, node.orelse, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _may_be_zero(script, node.left, depth) or _may_be_zero(script, node.right, depth)
    if not depth:
        return False
    if isinstance(node, ast.Call):
        found = [one for one in script.nodes if isinstance(one, Function) and one.name == last_name(node.func)]
        ends = [one.value for each in found for one in walk(each) if isinstance(one, ast.Return) and one.value]
        return any(_may_be_zero(script, one, depth - 1) for one in ends)
    if not isinstance(node, ast.Name):
        return False
    for one in script.lookup(node.id, node)[1]:
        value = one.value
        if one.kind == "parameter":
            try:
                value = script.argument(script.parent[script.parent[one.node]], node.id)
            except UnclearError:
                continue
        if value is not None and _may_be_zero(script, value, depth - 1):
            return True
    return False


# -- models ----------------------------------------------------------------------------------------------------------


def scaled_in_place(script: Script) -> ast.Call | None:
    """An embedding that scales the rows which a batch looks up, without noise."""
    for call in script.calls:
        words = {one.arg: one.value for one in call.keywords}
        is_embedding = last_name(call.func).lower() in ("embedding", "embeddingbag", "embedding_bag")
        if is_embedding and "max_norm" in words and ast.unparse(words["max_norm"]) != "None":
            return call
    return None
