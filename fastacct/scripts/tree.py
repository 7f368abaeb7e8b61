"""A script as a tree: what its names are bound to, and where."""

from __future__ import annotations

import ast
import builtins
import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeGuard, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_HARMLESS: Final = ("transform", "target_transform", "collate_fn", "requires_grad")
"""Attributes that are set without changing what a loader draws."""
_LEAVES: Final = (ast.Name, ast.Constant)
Kind = TypeVar("Kind", bound=ast.AST)
_HIDING: Final = ("exec", "eval", "globals")
_FRAMEWORKS: Final = (
    *("opacus", "private_transformers", "dp_transformers", "tensorflow_privacy", "jax_privacy", "torch.utils.data"),
    *("torchvision", "lightning", "pytorch_lightning", "builtins"),
)
"""Modules in which an attribute that is set changes what their names mean."""
_NOISE: Final = ("torch", "torch.Tensor", "numpy.random", "jax.random", "tensorflow.random", "random")
"""The same of what draws noise, whose other modules are set up in every script."""


class UnclearError(Exception):
    """Something that cannot be told without running the script: the line, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(f"line {getattr(node, 'lineno', 1)}: {why}")
        self.node = node


class ElsewhereError(UnclearError):
    """A function that nothing in the file calls."""


class AddedError(UnclearError):
    """Batches that are added up for one step."""


class NoNumberError(UnclearError):
    """Something that no number is known for, whatever is given."""


class Binding(NamedTuple):
    """One place where a name gets a value: `kind` is value, part (of a tuple), import, parameter, or other."""

    kind: str
    node: ast.AST
    value: ast.expr | None = None
    name: str = ""


class Tree:
    """A script as a tree, with what its names are bound to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        taken = [one.name for one in self.tree.body if isinstance(one, ast.FunctionDef)]
        if ".step" in text and any(text.count(f"{one}(") > 2 for one in taken):
            _apart(self.tree)
        self.parent: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.bindings: dict[ast.AST, dict[str, list[Binding]]] = defaultdict(lambda: defaultdict(list))
        self.uses: dict[str, list[ast.Name]] = defaultdict(list)
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        self.shared: set[str] = set()
        self.hidden: list[ast.AST] = []
        """What may set any name: star imports, exec, a patched framework."""
        self.defaults: dict[str, object] = {}
        """Defaults of the script's own command line that were taken."""
        self.nodes: list[ast.AST] = [self.tree]
        self.inner: dict[ast.AST, ast.AST] = {self.tree: self.tree}
        """The scope that a node stands in; of one that is a scope, what its defaults and decorators do."""
        self.names: dict[ast.AST, str] = {}
        for node in self.nodes:
            inside, outer = below(node), self.inner[node]
            is_lambda, is_scope = isinstance(node, ast.Lambda), isinstance(node, _SCOPES)
            for child in inside:
                self.parent[child] = node
                self.inner[child] = node if is_lambda or (is_scope and isinstance(child, ast.stmt)) else outer
            self.nodes += inside
        for node in self.nodes:
            self._bind(node)
        self.hidden += [one for name in _HIDING for one in self.uses[name]]
        for found in self.attributes.values():
            stores = (one for one in found if not isinstance(one.ctx, ast.Load))
            named = ((one, self.qualified(one.value)) for one in stores)
            self.hidden += [one for one, name in named if name.startswith(_FRAMEWORKS) or name in _NOISE]

    # -- what is bound where -----------------------------------------------------------------------------------------

    def _bind(self, node: ast.AST) -> None:
        """Note what a node binds or uses."""
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.Attribute):
            self.attributes[node.attr].append(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self.uses[node.id].append(node)
        elif isinstance(node, ast.Name):
            self._add(node.id, node, self._stored(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for one in node.names:
                if one.name == "*":
                    self.hidden.append(node)
                    continue
                base = "" if isinstance(node, ast.Import) else "." * node.level + (node.module or "") + "."
                whole = base + (one.name if one.asname or base else one.name.split(".")[0])
                bound = one.asname or (one.name if base else one.name.split(".")[0])
                self._add(bound, node, Binding("import", node, name=whole))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._add(node.name, node, Binding("other", node), self.scope(self.parent[node]))
        elif isinstance(node, ast.arg):
            self._add(node.arg, node, Binding("parameter", node), self.parent[self.parent[node]])
        elif isinstance(node, ast.Global | ast.Nonlocal):
            self.shared.update(node.names)
        else:
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if isinstance(name, str) and not isinstance(node, ast.alias):
                self._add(name, node, Binding("other", node))

    def _add(self, name: str, node: ast.AST, binding: Binding, scope: ast.AST | None = None) -> None:
        self.bindings[scope or self.scope(node)][name].append(binding)

    def _stored(self, name: ast.expr) -> Binding:
        """What a name is set to, where that is an expression of the script."""
        above = self.parent[name]
        if isinstance(above, ast.Assign):
            return Binding("value", above, above.value)
        if isinstance(above, ast.AnnAssign) and above.value is not None:
            return Binding("value", above, above.value)
        if isinstance(above, ast.Tuple) and isinstance(outer := self.parent[above], ast.Assign):
            if isinstance(outer.value, ast.Tuple) and len(outer.value.elts) == len(above.elts):
                return Binding("value", outer, outer.value.elts[above.elts.index(name)])
            return Binding("part", outer, outer.value)
        if isinstance(above, ast.withitem):
            return Binding("with", above, above.context_expr)
        return Binding("other", name)

    def scope(self, node: ast.AST) -> ast.AST:
        """The scope that names of a node are looked up in; defaults and decorators belong to the outer one."""
        if isinstance(node, _SCOPES):
            return node
        if node not in self.inner and node in self.parent:  # made since
            return self.scope(self.parent[node])
        return self.inner.get(node, node)

    def lookup(self, name: str, node: ast.AST) -> tuple[ast.AST, list[Binding]]:
        """The scope that binds a name, and its bindings; the module and none where it is not bound."""
        first = scope = self.scope(node)
        while scope is not self.tree:
            if name in self.bindings[scope] and (scope is first or not isinstance(scope, ast.ClassDef)):
                return scope, self.bindings[scope][name]
            scope = self.scope(self.parent[scope])
        return scope, self.bindings[scope].get(name, [])

    def qualified(self, node: ast.AST) -> str:
        """The dotted name of what an expression imports, also by an alias, such as torch.utils.data.DataLoader."""
        if node not in self.names:
            self.names[node] = self._qualified(node)
        return self.names[node]

    def _qualified(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            base = self.qualified(node.value)
            return f"{base}.{node.attr}" if base else ""
        if not isinstance(node, ast.Name):
            return ""
        _, found = self.lookup(node.id, node)
        names = {one.name for one in found}
        if (
            len(found) == 1
            and isinstance(value := found[0].value, ast.Name | ast.Attribute)
            and found[0].kind == "value"
        ):
            return "" if node.id in self.shared else self.qualified(value)
        if found and all(one.kind == "import" for one in found) and len(names) == 1:
            return names.pop()
        return f"builtins.{node.id}" if not found and hasattr(builtins, node.id) else ""

    def is_call(self, node: ast.AST, *names: str) -> TypeGuard[ast.Call]:
        """Whether a node calls one of the names, as they are imported."""
        return isinstance(node, ast.Call) and self.qualified(node.func) in names

    def flag(self, node: ast.Attribute) -> ast.expr | None:
        """The default of a flag of absl that nothing in the file sets: FLAGS.name."""
        if not self.qualified(node.value).endswith("flags.FLAGS"):
            return None
        defined = [one for one in self.calls if ".flags.DEFINE_" in self.qualified(one.func) and len(one.args) > 1]
        defined = [one for one in defined if getattr(one.args[0], "value", "") == node.attr]
        is_set = any(not isinstance(one.ctx, ast.Load) for one in self.attributes[node.attr])
        other = [*self.uses["setattr"], *self.attributes["set_default"], *self.attributes["flag_values"]]
        other += [one for one in self.uses[last_name(node.value)] if isinstance(self.parent[one], ast.Subscript)]
        value = defined[0].args[1] if len(defined) == 1 and not is_set and not other else None
        if value is None or getattr(value, "value", value) is None:
            return None
        self.defaults[f"--{node.attr}"] = ast.unparse(value)
        return value

    def changed(self, name: str) -> Iterator[ast.AST]:
        """Where an attribute or an element of a name is set."""
        for use in self.uses[name]:
            above = self.parent[use]
            while isinstance(above, ast.Attribute | ast.Subscript):
                if not isinstance(above.ctx, ast.Load) and getattr(above, "attr", "") not in _HARMLESS:
                    yield above
                above = self.parent[above]

    def statement(self, node: ast.AST) -> ast.AST:
        """The statement that a node is in."""
        return self.above(node, ast.stmt) or node

    def in_loop(self, node: ast.AST, scope: ast.AST) -> bool:
        """Whether a loop of a scope is around a node."""
        while node is not scope:
            if isinstance(node, ast.For | ast.While | ast.AsyncFor):
                return True
            node = self.parent[node]
        return False

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node stands in."""
        return self.above(node, ast.ClassDef)

    def around(self, node: ast.AST, *ends: type[ast.AST]) -> Iterator[ast.AST]:
        """What stands around a node, from the inside: to the module, or to the first that is of a kind of `ends`."""
        while not isinstance(node, (ast.Module, *ends)):
            node = self.parent[node]
            yield node

    def above(self, node: ast.AST, kind: type[Kind]) -> Kind | None:
        """The node itself, or the next one around it, of a kind."""
        return next((one for one in chain((node,), self.around(node)) if isinstance(one, kind)), None)


def _apart(tree: ast.Module) -> None:
    """Give a script a function of its own for each call of one that takes steps: train(public), train(private)."""
    nodes = [*walk(tree)]
    uses: dict[str, list[ast.AST]] = defaultdict(list)
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for node in nodes:
        name = getattr(node, "name", None) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
        uses[name or getattr(node, "id", "") or (isinstance(node, ast.arg) and node.arg) or ""].append(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls[node.func.id].append(node)
        if isinstance(node, ast.Global | ast.Nonlocal | ast.alias):
            for one in getattr(node, "names", [getattr(node, "asname", "") or getattr(node, "name", "")]):
                uses[str(one)] += [node, node]
    for function in [one for one in tree.body if isinstance(one, ast.FunctionDef)]:
        found, inside = calls[function.name], [*walk(function)]
        is_training = any(isinstance(one, ast.Attribute) and one.attr == "step" for one in inside)
        is_plain = not function.decorator_list and len(uses[function.name]) == 1 + len(found)
        if is_training and is_plain and 2 <= len(found) <= 8 and not any(one in inside for one in found):
            place = tree.body.index(function)
            for number, call in enumerate(found[1:], 2):
                copied = copy.deepcopy(function)
                copied.name = call.func.id = f"{function.name}_{number}_of_{len(found)}"  # type: ignore[attr-defined]
                tree.body.insert(place + 1, copied)


def below(node: ast.AST) -> list[ast.AST]:
    """What stands directly in a node, but for signs of how names are used."""
    found: list[ast.AST] = []
    for name in () if node.__class__ in _LEAVES else node._fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all that stands in it, the outer ones first."""
    found = [node]
    for one in found:
        found += below(one)
    return found


def last_name(node: ast.AST) -> str:
    """The last word of a name, a field or a parameter: DataLoader of data.DataLoader; empty for all else."""
    return getattr(node, "attr", "") or getattr(node, "id", "") or getattr(node, "arg", "") or ""


def keywords(call: ast.Call, names: Sequence[str] | None) -> dict[str, ast.expr]:
    """The arguments of a call by name; None: those in order are left out."""
    if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
        raise UnclearError(call, "* or ** in a call hides what is given")
    if names is not None and len(call.args) > len(names):
        raise UnclearError(call, "arguments in order that are not known")
    return dict(zip(names or (), call.args, strict=False)) | {one.arg: one.value for one in call.keywords if one.arg}


def parts(target: ast.expr) -> Iterator[ast.expr]:
    """What is set, of tuples each element."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from parts(one)
    else:
        yield target


def names_in(node: ast.AST) -> Iterator[ast.Name]:
    """Names in an expression, without functions that are called, transformations and numbers of records."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield from names_in(node.func.value)
        for one in (*node.args, *(word.value for word in node.keywords if "transform" not in (word.arg or ""))):
            yield from names_in(one)
    elif isinstance(node, ast.Subscript):
        yield from names_in(node.value)
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from names_in(child)


def value_of(script: Tree, node: ast.AST, name: str) -> ast.expr | None:
    """What a binding puts into a name, as far as it is an expression of the script."""
    if isinstance(node, ast.arg):
        return None
    if isinstance(node, ast.Name):  # stored in a loop, a tuple of tuples or an operation
        above = script.parent[node]
        while isinstance(above, ast.Tuple | ast.List | ast.Starred):
            above = script.parent[above]
        if isinstance(above, ast.For | ast.comprehension):
            return above.iter
        node = above
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        target, value = node.targets[0], node.value
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return next((each for one, each in pairs if last_name(one) == name), value)
    return getattr(node, "value", None) or getattr(node, "context_expr", None)


def methods_of(owner: ast.ClassDef) -> set[str]:
    """Names of methods that a class has beside its fields."""
    return {one.name for one in owner.body if isinstance(one, Function)}


def option_of(call: ast.Call) -> str:
    """The field that an option of argparse sets."""
    for one in call.keywords:
        if one.arg == "dest" and isinstance(one.value, ast.Constant):
            return str(one.value.value)
    words = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    long = [one for one in words if one.startswith("--")] or words
    return long[0].lstrip("-").replace("-", "_") if long else ""


_SETTINGS: Final = ("parse_args", "parse_known_args", "ArgumentParser", "ConfigParser", "getint", "getfloat", "getenv")


def is_command_line(node: ast.expr) -> bool:
    """Whether a value is the script's own command line, or what reads it."""
    return isinstance(node, ast.Call) and last_name(node.func) in _SETTINGS


def line_of(node: ast.AST) -> int:
    """The line of a node; 1 of what has none."""
    return getattr(node, "lineno", 1)


def number_of(value: object) -> float:
    """A number of a size that can be computed with."""
    if not isinstance(value, int | float) or abs(value) > 1e18:
        raise ValueError
    return value
