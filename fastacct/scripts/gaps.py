"""Gaps of private loops: batches that are kept, steps and noise that are left out, records that are shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Set
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.names import Key, Script
from fastacct.scripts.steps import is_earlier, steps_of
from fastacct.scripts.tree import NoNumberError, UnclearError, last_name, walk

_KEEPS: Final = ("itertools.cycle", "builtins.list", "builtins.tuple", "builtins.sorted", "collections.deque")
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
