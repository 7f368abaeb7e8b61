"""Dictionaries that a script writes down and only reads, what ** takes from them, and arguments that are kept."""

from __future__ import annotations

import ast
from collections.abc import Callable

from fastacct.scripts.tree import Tree, UnclearError

Resolve = Callable[[ast.expr], ast.expr]


def item(tree: Tree, node: ast.Subscript, resolve: Resolve) -> ast.expr:
    """An element of a literal dictionary, also of one within another."""
    root: ast.expr = node
    path: list[object] = []
    while isinstance(root, ast.Subscript) and isinstance(root.slice, ast.Constant):
        path.insert(0, root.slice.value)
        root = root.value
    unclear = UnclearError(node, f"{ast.unparse(node)} cannot be read")
    if not isinstance(root, ast.Name):
        raise unclear
    value = resolve(root)
    for key in path:
        inner = _pairs(tree, value)
        if key not in inner:
            raise unclear
        value = inner[key]
    depths = [_depth(tree, one, path) for one in tree.uses[root.id] if not isinstance(one.ctx, ast.Store)]
    is_shared = any(one < len(path) for one in depths) or (depths.count(len(path)) > 1 and _pairs(tree, value))
    if is_shared:
        raise unclear
    return value


def spread(tree: Tree, call: ast.Call, resolve: Resolve) -> ast.Call:
    """A call with the arguments of the dictionaries that ** gives it, where nothing else is done with these."""
    words: list[ast.keyword] = []
    for one in call.keywords:
        name = one.value if one.arg is None and isinstance(one.value, ast.Name) else None
        above = [tree.parent[use] for use in tree.uses[name.id] if isinstance(use.ctx, ast.Load)] if name else []
        is_read = bool(above) and all(isinstance(each, ast.keyword) and each.arg is None for each in above)
        found = _either(tree, resolve(name)) if name is not None and is_read else {}
        is_named = bool(found) and all(isinstance(key, str) for key in found)
        words += [ast.keyword(str(key), value) for key, value in found.items()] if is_named else [one]
    return ast.copy_location(ast.Call(call.func, call.args, words), call)


def _pairs(tree: Tree, node: ast.expr) -> dict[object, ast.expr]:
    """Keys and values of a dictionary that is written down; empty where they are not sure."""
    if isinstance(node, ast.Dict):
        keys = [one.value if isinstance(one, ast.Constant) else None for one in node.keys]
        is_sure = None not in keys and len({*keys}) == len(keys)
        return dict(zip(keys, node.values, strict=True)) if is_sure else {}
    if isinstance(node, ast.Call) and tree.is_call(node, "builtins.dict") and not node.args:
        return {one.arg: one.value for one in node.keywords} if all(one.arg for one in node.keywords) else {}
    return {}


def _either(tree: Tree, node: ast.expr) -> dict[object, ast.expr]:
    """The same of `{...} if test else {...}`: a value that is not in both stays the choice, which cannot be read."""
    if not isinstance(node, ast.IfExp):
        return _pairs(tree, node)
    first, second = _pairs(tree, node.body), _pairs(tree, node.orelse)
    text = {key: [ast.unparse(each[key]) if key in each else "" for each in (first, second)] for key in first | second}
    both = {key: value if len({*text[key]}) == 1 else node for key, value in (first | second).items()}
    is_sure = all(each or ast.unparse(side) == "{}" for each, side in ((first, node.body), (second, node.orelse)))
    return both if is_sure else {}


def _depth(tree: Tree, use: ast.Name, path: list[object]) -> int:
    """How far a use of a dictionary goes along a path; more than its length where it leads elsewhere."""
    node: ast.AST = use
    depth = 0
    while isinstance(above := tree.parent[node], ast.Subscript) and above.value is node and depth < len(path):
        if isinstance(above.slice, ast.Constant) and above.slice.value != path[depth]:
            return len(path) + 1
        node, depth = above, depth + 1
    return depth


def hparam(tree: Tree, node: ast.Attribute) -> ast.expr | None:
    """The argument of a module of Lightning that save_hyperparameters() keeps: self.hparams.name."""
    owner = tree.owner(node)
    if owner is None or ast.unparse(node.value) != "self.hparams" or not isinstance(node.ctx, ast.Load):
        return None
    made = [one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    saves = [tree.parent[one] for one in tree.attributes["save_hyperparameters"] if tree.owner(one) is owner]
    is_plain = [isinstance(one, ast.Call) and not one.args and not one.keywords for one in saves] == [True]
    stores = [tree.parent[one] for one in tree.attributes["hparams"] if tree.owner(one) is owner]
    changed = [
        one for one in stores if isinstance(getattr(one, "ctx", None), ast.Store) or not isinstance(one, ast.Attribute)
    ]
    changed += [one for one in stores if getattr(one, "attr", "") in ("update", "setdefault", "pop")]
    if len(made) != 1 or not is_plain or changed:
        return None
    found = ast.copy_location(ast.Name(node.attr, ast.Load()), made[0].body[0])
    tree.parent[found] = made[0].body[0]
    return found
