"""Loops that clip by hand: whether what is clipped is the gradient of one record, and whether noise is drawn anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts import noise
from fastacct.scripts.found import Loop, number
from fastacct.scripts.names import Script
from fastacct.scripts.tree import Function, UnclearError, last_name, walk

_ROWS: Final = re.compile(
    r"flatten\((?:start_dim=)?1|(?:dim|axis)=\(?-?1\b|(?:dim|axis)=(?:tuple|list)\(range\(1|norm\(-?1\)|sum\(-?1\)"
    r"|norm\(2, dim|(?:reshape|view)\(\(?(?:len\([^()]*\)|\w+(?:\.shape\[0\]|\.size\(0\))?), -1|in_axes|axes=\[1"
    r"|range\(1, \w+\.(?:ndim|dim\(\))|batch_l2|norm_sample|keepdims?=True"
)
"""Norms along all axes but that of records."""
_EACH: Final = re.compile(
    r"grad_?sample|grad1|grad_batch|BatchGrad|backpack|vmap|functorch|jacrev|jacobian|vectorized_map|hook|per_?(?:example|sample|row)",
    re.I,
)
"""Words of scripts that find gradients of single records in one call."""
_ONE: Final = re.compile(
    r"(?:enumerate|tqdm)?\(?(?:zip\((?!.*(?:split|chunk|parameters|grad))|.*(?:unbind\(|split\(1[,)]|micro)"
    r"|range\((?:0, )?(?:len\(|\w+\.(?:shape\[0\]|size\(0\)))(?!.*,)|range\((?:batch_?size|n_?b|bs|b|B|BATCH\w*)\))"
)
"""What a loop over the records of a batch goes through, one at a time."""
_ALL: Final = re.compile(
    r"sum\(.*(?:values\(\)|leaves|parameters\(\)|items\(\)| in )|global_norm|clip_grad_norm|ravel_pytree|tree_reduce"
    r"|tree_norm|stack\(\[.*\]\)|array\(\[.*\]\)|l2_norm|batch_l2|clip_by_global|cat\(\["
)
"""Norms of all arrays of a gradient together."""
_SEVERAL: Final = re.compile(r"tree[._]|\.values\(\)|\.items\(\)|parameters\(\)|leaves")
"""Signs of gradients with several arrays."""
_GROUPS: Final = ("split", "chunk", "array_split", "tensor_split")
_LENGTH: Final = re.compile(r"len\(|shape\[0\]|size\(0\)")
_NEW: Final = re.compile(r"split|fold_in|next|secrets|urandom|spawn|make_rng")
_DRAWS: Final = re.compile(r"jax\.random\.(?:normal|laplace|gumbel|t$|multivariate|cauchy|truncated|generalized)")
_HOOKS: Final = re.compile(r"register_(?:full_|forward_|backward_|post_accumulate_grad_)*(?:pre_)?hook$")
_START: Final = re.compile(r"init|setup|make_|create|param", re.I)


def found(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Lines of a loop by hand of which it is not seen what its guarantee needs."""
    for rows in (clips(loop), keys(loop), divided(loop), echoed(loop), hooks(loop), privatized(loop)):
        yield from rows


def hooks(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """What hears of gradients and outputs of a model, and may show them."""
    for call in loop.script.calls:
        logged = [ast.unparse(one.value) for one in call.keywords if one.arg == "log"]
        is_watched = loop.script.qualified(call.func) == "wandb.watch" and not {*logged} & {"None", "'parameters'"}
        if is_watched or _HOOKS.match(last_name(call.func)):
            yield call, "no gradient and no output of private records is shown, kept or changed there"


def clips(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Calls that clip gradients by hand, where it is not seen that each is that of one record."""
    script = loop.script
    for call in noise.bounds(script) if loop.framework == "by hand" else ():
        is_single = _is_mapped(script, call) or _is_in_turn(loop, call) or _is_row(script, call)
        if not is_single or not _is_whole(script, call):
            yield call, "what is clipped there is the whole gradient of one record (or client), to a norm"


def _is_mapped(script: Script, node: ast.AST) -> bool:
    """Whether a function stands around a node that vmap() maps over records, or that such a function calls."""
    maps = [
        one for name in ("vmap", "vectorized_map", "map_fn") for one in (*script.uses[name], *script.attributes[name])
    ]
    mapped = {last_name(part) for one in maps for part in walk(script.parent[one])}
    given = [part for one in maps for part in getattr(script.parent[one], "args", [])]
    for _ in range(3):
        for one in (each for each in script.around(node, ast.FunctionDef) if isinstance(each, ast.Lambda)):
            named = {last_name(each) for each in getattr(script.parent[one], "targets", [])}
            if named & mapped or one in given:
                return True
        function = script.above(node, ast.FunctionDef)
        if function is None:
            return False
        if function.name in mapped:
            return True
        calls = [one for one in script.calls if last_name(one.func) == function.name]
        if not calls:
            return False
        node = calls[0]
    return False


def _is_whole(script: Script, call: ast.Call) -> bool:
    """Whether the norm is one of all arrays of a gradient, or there is one array alone; not of single values."""
    words = {one.arg for one in call.keywords}
    values = [one for one in call.args if isinstance(one, ast.UnaryOp)]  # clip(g, -c, c)
    if {"min", "max"} <= words or values or "value" in last_name(call.func):
        return False
    return _ALL.search(" ".join(_texts(script, call))) is not None or _SEVERAL.search(script.text) is None


def is_apart(loop: Loop, call: ast.Call) -> bool:
    """Whether a call clips each record by itself: in its turn, by a function that is mapped, by norms of rows."""
    script = loop.script
    is_single = _is_mapped(script, call) or _is_in_turn(loop, call)
    return is_single or "stack(" in " ".join(_texts(script, call))


def _is_in_turn(loop: Loop, node: ast.AST) -> bool:
    """Whether the innermost loop around a node that finds gradients goes through records one by one."""
    script = loop.script
    for over in noise.loops_around(script, node):
        called = {last_name(one.func) for one in walk(over) if isinstance(one, ast.Call)}
        if called & {"backward", "grad", "gradient", "value_and_grad"} or any("grad" in name for name in called):
            text = ast.unparse(over.iter)
            if any(f"{name}(" in text for name in _GROUPS):
                return not is_grouped(loop, over)
            return _ONE.match(text) is not None
    return False


def is_grouped(loop: Loop, inner: ast.For) -> bool:
    """Whether a loop goes through groups of a batch, of which none is sure to be one record."""
    try:
        whole = loop.script.resolve(inner.iter)
    except UnclearError:
        whole = inner.iter
    for call in (one for one in walk(whole) if isinstance(one, ast.Call)):
        if last_name(call.func) not in _GROUPS:
            continue
        is_library = bool(loop.script.qualified(call.func))
        sizes = [*call.args[is_library:], *(one.value for one in call.keywords)][:1]
        size = number(loop.script, sizes[0]) if sizes else None
        is_single = size == 1 if last_name(call.func) == "split" else size == loop.values.get("batch_size")
        if not is_single and not (sizes and _LENGTH.search(ast.unparse(sizes[0]))):
            return True
    return False


def _is_row(script: Script, call: ast.Call) -> bool:
    """Whether a norm of each row goes into a call, in a script that has gradients of single records."""
    return _EACH.search(script.text) is not None and any(_ROWS.search(one) for one in _texts(script, call))


def _texts(script: Script, node: ast.AST, depth: int = 4) -> Iterator[str]:
    """A statement, and those that set what it uses."""
    yield ast.unparse(node)
    names = [one for one in walk(node) if isinstance(one, ast.Name)] if depth else []
    for one in names:
        for bound in script.lookup(one.id, one)[1]:
            if bound.value is not None and bound.value is not node:
                yield from _texts(script, bound.value, depth - 1)
            elif isinstance(bound.node, Function):
                yield ast.unparse(bound.node)


def replaced(script: Script) -> ast.Call | None:
    """Where the rows of a batch are drawn with replacement, in a loop."""
    drawn = [one for one in script.calls if last_name(one.func) in ("integers", "randint", "choice")]
    for call in drawn:
        is_less = any(one.arg == "replace" and getattr(one.value, "value", 1) is False for one in call.keywords)
        is_many = len(call.args) > 1 or any(one.arg in ("size", "shape") for one in call.keywords)
        statement = script.statement(call)
        names = {last_name(one) for one in getattr(statement, "targets", []) if isinstance(one, ast.Name)}
        rows = [
            one.slice
            for one in walk(script.above(call, ast.FunctionDef) or script.tree)
            if isinstance(one, ast.Subscript)
        ]
        is_row = any(isinstance(one, ast.Name) and one.id in names for one in rows) or call in rows
        if is_many and is_row and not is_less and noise.is_looped(script, call, set()):
            return call
    return None


_DRAWN: Final = re.compile(r"(?:len\([^()]*\)|\w+\.(?:shape\[0\]|size\(0\)|sum\(\)|numel\(\))|\w+\.sum\(\)\.\w+\(\))")
"""How many records are drawn."""


def divided(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """What the sum of gradients and noise is divided by, where that is how many records a Poisson batch has."""
    script = loop.script
    if loop.framework != "by hand" or loop.sampling != "poisson":
        return
    near: set[ast.AST] = set()
    for one in (node for node in loop.noised if isinstance(node, ast.AST)):
        near |= {*walk(script.statement(one))}
    for _ in range(3):
        names = [one for one in near if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        values = [bound.value for one in names for bound in script.lookup(one.id, one)[1]]
        near |= {part for value in values if value is not None for part in walk(value)}
    for node in near:
        by = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
        by = node.value if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) else by
        found = script.lookup(by.id, by)[1] if isinstance(by, ast.Name) else []
        value = found[0].value if len(found) == 1 and found[0].value is not None else by
        if value is not None and _DRAWN.fullmatch(ast.unparse(value)) and noise.is_looped(script, value, set()):
            yield node, "what this is divided by does not depend on how many records are drawn"


_DRAWS_ROWS: Final = re.compile(r"rand|perm|choice|next|batch|sampl|select|draw|bern|binom|get|read|fetch|pick|chunk")
_OVER_MODEL: Final = re.compile(r"param|grad|leaves|layer|weight|values\(\)|items\(\)|keys|tree")


def echoed(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """A loop within another one, in each round of which noise is added, and in which no batch is seen to be drawn."""
    script, node = loop.script, loop.node
    if loop.framework != "by hand":
        return
    for _ in range(4):
        over = [one for one in noise.loops_around(script, node) if not _OVER_MODEL.search(ast.unparse(one.iter))]
        function = script.above(node, ast.FunctionDef)
        if over or function is None:
            break
        calls = [one for one in script.calls if last_name(one.func) == function.name]
        if not calls:
            return
        node = calls[0]
    if len(over) > 1 and isinstance(over[0].iter, ast.Call) and last_name(over[0].iter.func) == "range":
        names = {one.id for one in walk(over[0].target) if isinstance(one, ast.Name)}
        rows = [one.slice for one in walk(over[0]) if isinstance(one, ast.Subscript)]
        is_moving = any(isinstance(one, ast.Name) and one.id in names for row in rows for one in walk(row))
        called = {last_name(one.func) for one in walk(over[0]) if isinstance(one, ast.Call)}
        is_drawn = any(_DRAWS_ROWS.search(name) for name in called if not noise.DRAWN.search(name))
        if not (is_moving or is_drawn):
            yield over[0].iter, "each of its rounds has a batch of its own"


# -- keys of JAX -----------------------------------------------------------------------------------------------------


def keys(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Noise of JAX of which the key is not seen to be another in each step."""
    script = loop.script
    for call in script.calls if loop.framework in ("by hand", "optax", "jax_privacy") else ():
        function = script.above(call, ast.FunctionDef)
        is_seen = function is None or any(last_name(one.func) == function.name for one in script.calls)
        is_start = is_seen and not noise.is_looped(script, call, set())
        if not _DRAWS.match(script.qualified(call.func)) or is_start or (function and _START.search(function.name)):
            continue
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "key")]
        if not given or not _is_new(script, given[0], set()):
            yield call, "its key is a new one in each step, for each array"


def _is_new(script: Script, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether a key changes from step to step."""
    if node in seen:
        return False
    seen.add(node)
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Constant) or _is_new(script, node.value, seen)
    if isinstance(node, ast.Call):
        if last_name(node.func) == "fold_in":
            return any(_is_moving(script, one) for one in node.args[1:]) or _is_new(script, node.args[0], seen)
        if last_name(node.func) == "split" and node.args:
            statement = script.statement(node)
            targets = {last_name(one) for each in getattr(statement, "targets", []) for one in walk(each)}
            is_carried = last_name(node.args[0]) in targets - {""} and script.in_loop(node, script.scope(node))
            return is_carried or _is_new(script, node.args[0], seen)
        return _NEW.search(ast.unparse(node.func)) is not None
    if isinstance(node, ast.Attribute):
        stores = [one for one in script.attributes[node.attr] if not isinstance(one.ctx, ast.Load)]
        values = [ast.unparse(script.statement(one)) for one in stores if script.above(one, ast.FunctionDef)]
        values += [ast.unparse(word.value) for call in script.calls for word in call.keywords if word.arg == node.attr]
        return any(_NEW.search(one.partition("=")[2] or one) for one in values)
    if not isinstance(node, ast.Name):
        return False
    loops = (one for one in noise.loops_around(script, node) if not _OVER_MODEL.search(ast.unparse(one.iter)))
    inner = next(loops, None)
    for one in script.lookup(node.id, node)[1]:
        if inner is not None and inner not in noise.loops_around(script, one.node):
            continue  # the same in each of its rounds
        if one.kind == "parameter":
            if _is_given_new(script, one.node, seen):
                return True
        elif one.value is not None:
            if _is_new(script, one.value, seen):
                return True
        elif isinstance(one.node, ast.Name):
            above = script.parent[one.node]
            while isinstance(above, ast.Tuple | ast.List):
                above = script.parent[above]
            if isinstance(above, ast.For):
                return True
            over = above.iter if isinstance(above, ast.comprehension) else None
            if over is not None and any(
                _is_new(script, part, seen) for part in walk(over) if isinstance(part, ast.Name | ast.Call)
            ):
                return True
    return False


def _is_moving(script: Script, node: ast.expr) -> bool:
    """Whether a number is that of a step: a name of a loop, of a function, or a field."""
    return any(isinstance(one, ast.Attribute | ast.Name) for one in walk(node))


def _is_given_new(script: Script, parameter: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether a function is given a new key wherever it is called; so where it is passed on, and not called here."""
    function = script.parent[script.parent[parameter]]
    name, given = getattr(function, "name", ""), getattr(function, "args", None)
    calls = [one for one in script.calls if name and last_name(one.func) == name]
    if given is None or not calls:
        return True
    taken = [one.arg for one in (*given.posonlyargs, *given.args)]
    place = taken.index(last_name(parameter)) if last_name(parameter) in taken else 99
    for call in calls:
        words = [one.value for one in call.keywords if one.arg == last_name(parameter)]
        found = words + call.args[place : place + 1]
        if not found or not any(_is_new(script, part, {*seen}) for part in found):
            return False
    return True


# -- JAX Privacy -----------------------------------------------------------------------------------------------------

_INDEXED: Final = re.compile(
    r"^(?:sort|asarray|array|device_put|astype|len|sum|int|pad_to_multiple_of|split_and_pad\w*)$"
)
_ONCE: Final = "each record that is drawn is in the batch once, as one example, and no other record is"
_PRIVATE: Final = (
    "the clipped gradients get new noise once a batch, as they are, and nothing else moves what is trained"
)


def privatized(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Where indices of a batch, clipped gradients or the state of the noise are used in no form that is known."""
    script = loop.script
    if loop.framework != "jax_privacy":
        return
    for one in script.attributes["batch_iterator"]:
        if (over := script.above(one, ast.For)) is not None and one in walk(over.iter):
            target = over.target.elts[-1] if isinstance(over.target, ast.Tuple) else over.target
            yield from ((use, _ONCE) for use in _drawn_otherwise(script, over, last_name(target)))
    updates = [one for one in script.calls if last_name(one.func) == "update" and _adds_noise(script, one)]
    for call in updates:
        home = next((each for each in script.around(call) if isinstance(each, ast.For | Function)), script.tree)
        statement = script.statement(call)
        aim = statement.targets[0] if isinstance(statement, ast.Assign) else None
        names = [last_name(each) for each in aim.elts] if isinstance(aim, ast.Tuple) else [""]
        given = [*map(last_name, call.args), "", ""]
        inside = [each for each in walk(home) if isinstance(each, ast.Name)]
        is_kept = (
            names[1:] == [given[1]]
            and [each.id for each in inside if isinstance(each.ctx, ast.Store)].count(given[1]) == 1
        )
        uses = [each for each in inside if isinstance(each.ctx, ast.Load)]
        is_used = any(each.id == names[0] and each.lineno > call.lineno for each in uses)
        if not is_kept or not is_used or len(updates) > 1:
            yield call, _PRIVATE
        for use in uses:
            is_raw = use.id == given[0] and (names[0] != given[0] or use.lineno < call.lineno)
            if is_raw and script.parent[use] is not call and isinstance(script.parent[use], ast.expr | ast.keyword):
                yield use, _PRIVATE
        for other in (each.func for each in walk(home) if isinstance(each, ast.Call)):
            if isinstance(other, ast.Call) and last_name(other.func) in ("grad", "value_and_grad"):
                yield other, _PRIVATE


def _adds_noise(script: Script, call: ast.Call) -> bool:
    """Whether update() is that of a transformation of JAX Privacy that adds noise."""
    try:
        made = script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
    except UnclearError:
        return False
    return isinstance(made, ast.Call) and ".noise_addition." in script.qualified(made.func)


def _drawn_otherwise(script: Script, over: ast.For, name: str) -> Iterator[ast.AST]:
    """Uses of the indices of a batch but to sort, to pad and to index, and what joins records of a batch."""
    names, rows = {name}, set[str]()
    for one in (each for each in walk(over) if isinstance(each, ast.Assign)):
        targets = {each.id for target in one.targets for each in walk(target) if isinstance(each, ast.Name)}
        used = {each.id for each in walk(one.value) if isinstance(each, ast.Name)}
        is_index = isinstance(one.value, ast.Call) and _INDEXED.match(last_name(one.value.func)) is not None
        names |= targets if is_index and used & names else set()
        rows |= targets if used & (names | rows) and not is_index else set()
    for use in (each for each in walk(over) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)):
        above = script.parent[use]
        of = last_name(above.func if isinstance(above, ast.Call) else above)
        if use.id in names:
            is_here = isinstance(above, ast.Call) and not script.qualified(above.func)
            is_plain = isinstance(above, ast.Compare) or of in ("shape", "size") or _INDEXED.match(of) is not None
            is_known = is_here or is_plain or (isinstance(above, ast.Subscript) and above.slice is use)
            is_size = of in ("len", "shape", "size") and any(
                isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) for each in script.around(use, ast.stmt)
            )
            if not is_known or is_size:
                yield use
        elif use.id in rows and isinstance(above, ast.List):
            outer = script.parent[above]
            joined = last_name(outer.func) if isinstance(outer, ast.Call) else ""
            yield from [outer] * (joined in ("concatenate", "concat", "stack", "vstack", "append"))
