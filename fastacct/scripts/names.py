"""What the names of a script stand for, as far as that is sure without running it.

A name counts only where it is bound once; a number also through module constants, parameters of functions that are
called once, fields of classes, literal dictionaries, and defaults of the script's own command line.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from fastacct.scripts import tables
from fastacct.scripts.tree import (
    Binding,
    ElsewhereError,
    Function,
    Tree,
    UnclearError,
    keywords,
    last_name,
    line_of,
    methods_of,
    number_of,
    option_of,
    walk,
)

Key = tuple[object, ...]

_OPERATORS: Final[dict[type[ast.AST], Callable[..., object]]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.USub: operator.neg},
    **{ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.UAdd: operator.pos, ast.Not: operator.not_},
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_CALLS: Final[dict[str, Callable[[Any], object]]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": bool,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
}
_READERS: Final = ("builtins.print", "builtins.str", "builtins.repr", "dataclasses.asdict", "pprint.", "logging.")
"""Functions that leave what they are given as it is."""
_PLAIN_BASES: Final = {"torch.nn.Module", "builtins.object", "abc.ABC"}
"""Classes that do not call methods of those derived from them, but for forward."""


class Script(Tree):
    """A script of which names can be followed."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.early: list[ast.AST] = []  # where a training may end before its last epoch
        self.flags: dict[str, bool] = {}
        """Flags of the script's own command line that a private loop needs, other than their defaults."""

    # -- what an expression stands for -------------------------------------------------------------------------------

    def resolve(self, node: ast.expr, *, once: bool = False) -> ast.expr:
        """The expression behind names, parameters and fields; `once`: names that are set again are refused."""
        try:
            return self._resolved(node, once)
        except RecursionError:
            raise UnclearError(node, "too deep to follow") from None

    def _resolved(self, node: ast.expr, once: bool) -> ast.expr:
        if isinstance(node, ast.Attribute) and (flag := self.flag(node) or tables.hparam(self, node)) is not None:
            return self._resolved(flag, once)
        if isinstance(node, ast.Attribute):
            return node if self.qualified(node) else self._resolved(self._field(node), once)
        if isinstance(node, ast.Subscript):
            return self._resolved(tables.item(self, node, partial(self.resolve, once=True)), once)
        if not isinstance(node, ast.Name) or self.qualified(node):
            return node
        found = self._binding(node, once)
        if found.kind == "parameter":
            function = self.parent[self.parent[found.node]]
            return self._resolved(self.argument(function, node.id), once)
        if found.kind == "part":
            return self._resolved(self.element(found, node.id), once)
        if found.kind != "value" or found.value is None:
            raise UnclearError(found.node, f"{node.id} is not set to a value that can be read")
        return self._resolved(found.value, once)

    def _binding(self, node: ast.Name, once: bool) -> Binding:
        """The one binding that a use of a name sees."""
        scope, found = self.lookup(node.id, node)
        if not found:
            raise UnclearError(node, f"{node.id} is not set in this file")
        if self.hidden or node.id in self.shared:
            raise UnclearError((self.hidden or [node])[0], f"{node.id} may be set from elsewhere")
        for one in self.changed(node.id):
            raise UnclearError(one, f"{node.id} is changed")
        if getattr(self.parent[node], "value", None) is node and isinstance(self.parent[node], ast.Attribute):
            is_none = [getattr(one.value, "value", node) is None and one.kind == "value" for one in found]
            found = [one for one, none in zip(found, is_none, strict=True) if not none] or found  # None has no fields
        if len(found) == 1:
            return found[0]
        if once or self.scope(node) is not scope:
            raise UnclearError(found[-1].node, f"{node.id} is set more than once")
        line = line_of(self.statement(node))
        before = [one for one in found if line_of(one.node) < line]
        sure = len(before) == 1 or all(one.kind == "parameter" or self.parent[one.node] is scope for one in before)
        if not before or not sure or self.in_loop(node, scope):
            raise UnclearError(found[-1].node, f"{node.id} is set more than once")
        return before[-1]

    def origin(self, node: ast.expr) -> Key:
        """A key of the object that an expression names: the same for a parameter and for what it is called with."""
        try:
            return self._origin(node)
        except RecursionError:
            raise UnclearError(node, f"{ast.unparse(node)[:40]} is made of itself") from None

    def _origin(self, node: ast.expr) -> Key:
        if isinstance(node, ast.Attribute):
            owner = self.owner(node)
            is_own = owner is not None and isinstance(node.value, ast.Name) and node.value.id == "self"
            return (owner, node.attr) if is_own else ("expression", ast.unparse(node))
        if not isinstance(node, ast.Name):
            return ("expression", ast.unparse(node))
        scope, found = self.lookup(node.id, node)
        if len(found) == 1 and (one := found[0]).kind == "parameter":
            return self._origin(self.argument(self.parent[self.parent[one.node]], node.id))
        if len(found) == 1 and found[0].kind == "value" and isinstance(found[0].value, ast.Name | ast.Attribute):
            return self._origin(found[0].value)
        manager = "opacus.utils.batch_memory_manager.BatchMemoryManager"
        if len(found) == 1 and found[0].value is not None and self.is_call(found[0].value, manager):
            given = keywords(found[0].value, ("data_loader",))
            if "data_loader" in given:
                return self._origin(given["data_loader"])
        return (scope, node.id)

    # -- parameters and fields ---------------------------------------------------------------------------------------

    def caller(self, function: ast.AST) -> ast.Call:
        """The only call of a function."""
        if not isinstance(function, ast.FunctionDef):
            raise UnclearError(function, f"who calls {getattr(function, 'name', 'this')} cannot be told")
        if function.decorator_list:
            raise ElsewhereError(function, f"{function.name} has a decorator, which may call it in a way of its own")
        owner, name = self.parent[function], function.name
        if isinstance(owner, ast.ClassDef) and name == "__init__":
            name = owner.name
        is_method = isinstance(owner, ast.ClassDef) and name == function.name
        if is_method and isinstance(owner, ast.ClassDef) and {*map(self.qualified, owner.bases)} - _PLAIN_BASES:
            raise ElsewhereError(function, f"{owner.name}.{name} may be called from elsewhere")
        used: list[ast.expr] = [*(self.attributes[name] if is_method else self.uses[name])]
        same = [one for one in self.nodes if isinstance(one, Function | ast.ClassDef) and one.name == name]
        if not used:
            raise ElsewhereError(function, f"nothing in this file calls {name}")
        above = self.parent[used[0]]
        spawns = ["torch.multiprocessing.spawn"] * bool(self.attributes["init_process_group"])
        if self.is_call(above, "absl.app.run", *spawns) and len(used) == len(same) == 1:
            return above
        if len(used) > 1 or len(same) > 1 or not isinstance(above, ast.Call) or above.func is not used[0]:
            raise UnclearError(used[-1], f"{name} is used more than once, or is not called here")
        if is_method and isinstance(used[0], ast.Attribute) and not self._is_instance(used[0].value, owner):
            raise UnclearError(used[0], f"whether this calls {name} cannot be told")
        return above

    def returned(self, call: ast.Call) -> ast.expr:
        """What a function or a method of the file returns, where it has one return."""
        name = last_name(call.func)
        found = [one for one in self.nodes if isinstance(one, ast.FunctionDef) and one.name == name]
        values = [one for function in found for one in walk(function) if isinstance(one, ast.Return)]
        is_one = len(found) == len(values) == 1 and not found[0].decorator_list
        if not is_one or (value := values[0].value) is None:
            raise UnclearError(call, f"what {name}() returns cannot be told")
        for one in self._given_away(value):
            raise UnclearError(one, f"this may change {ast.unparse(value)}")
        return self.resolve(value)

    def element(self, binding: Binding, name: str) -> ast.expr:
        """What a name gets of a tuple that a function of the file returns."""
        node, call, why = binding.node, binding.value, f"{name} is not set to a value that can be read"
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        is_here = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not self.qualified(call.func)
        if not is_here or not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple):
            raise UnclearError(node, why)
        whole = self.returned(call)
        places = [place for place, one in enumerate(target.elts) if last_name(one) == name]
        if not isinstance(whole, ast.Tuple) or len(whole.elts) != len(target.elts) or len(places) != 1:
            raise UnclearError(node, why)
        value = whole.elts[places[0]]
        for one in self._given_away(value):
            raise UnclearError(one, f"this may change {ast.unparse(value)}")
        return value

    def _is_instance(self, node: ast.expr, owner: ast.AST) -> bool:
        """Whether an expression is `self` in a class, or an object of it."""
        if isinstance(node, ast.Name) and node.id == "self":
            return self.owner(node) is owner
        made = self.resolve(node)
        return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and self._class(made.func) is owner

    def argument(self, function: ast.AST, name: str) -> ast.expr:
        """What a parameter of a function is in the only call of it."""
        call = self.caller(function)
        assert isinstance(function, ast.FunctionDef)
        plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        defaults = dict(zip(reversed(plain), reversed(function.args.defaults), strict=False))
        more = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        defaults |= {one.arg: value for one, value in more if value is not None}
        given = keywords(call, plain[1:] if isinstance(self.parent[function], ast.ClassDef) else plain)
        if (name in given or name in defaults) and not self.is_call(call, "torch.multiprocessing.spawn"):
            return given.get(name) or defaults[name]
        raise UnclearError(call, f"{name} is not given in this call")

    def _field(self, node: ast.Attribute) -> ast.expr:
        """What a field is set to: of self, of a class, of the command line."""
        stores = [one for one in self.attributes[node.attr] if not isinstance(one.ctx, ast.Load)]
        own = self.statement(node)  # what x = f(x) reads was set before it
        stores = [one for one in stores if self.statement(one) is not own] or stores
        if isinstance(self.parent[node], ast.Attribute) and len(stores) > 1:  # None has no fields
            stores = [one for one in stores if getattr(self._stored(one).value, "value", one) is not None] or stores
        for one in (*self.uses["setattr"], *self.attributes["__dict__"], *self._given_away(node.value)):
            raise UnclearError(one, f"this may change {ast.unparse(node)}")
        if isinstance(node.value, ast.Name) and node.value.id == "self" and stores:
            found = self._stored(stores[0])
            is_plain = isinstance(found.node, ast.Assign) and len(found.node.targets) == 1 and found.value is not None
            if not is_plain or len(stores) != 1 or self.owner(stores[0]) is not self.owner(node):
                raise UnclearError(stores[-1], f"{ast.unparse(node)} is set more than once")
            value = self.element(found, node.attr) if found.kind == "part" else found.value
            assert value is not None
            return value
        if stores:
            raise UnclearError(stores[0], f"{node.attr} is set again")
        if isinstance(node.value, ast.Name):
            owner: ast.AST | None = self._class(node.value)
            if node.value.id == "self":
                owner = self.owner(node)
            if isinstance(owner, ast.ClassDef):
                return self._of_class(owner, node.attr, node)
        base = self.resolve(node.value, once=True)
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and not self._class(base.func):
            base = base if self.qualified(base.func) else self.returned(base)  # args = parse_args()
        if not isinstance(base, ast.Call):
            raise UnclearError(node, f"{ast.unparse(node)} cannot be read")
        if isinstance(base.func, ast.Name) and (made := self._class(base.func)):
            given = keywords(base, ())
            if node.attr in given and not methods_of(made):
                return given[node.attr]
            return self._of_class(made, node.attr, node)
        if self.is_call(base, "types.SimpleNamespace", "argparse.Namespace"):
            return keywords(base, ())[node.attr]
        return self._of_command_line(base, node)

    def _given_away(self, node: ast.expr) -> Iterator[ast.AST]:
        """Where an object is given to functions that are not seen, and may change it."""
        for use in self.uses[node.id] if isinstance(node, ast.Name) and node.id != "self" else ():
            if self.lookup(use.id, use)[0] is not self.lookup(use.id, node)[0]:
                continue  # another name that is spelled the same
            above = self.parent[use]
            call = self.parent[above] if isinstance(above, ast.keyword) else above
            if not isinstance(call, ast.Call) or call.func is use:
                continue
            name = self.qualified(call.func)
            is_vars = name == "builtins.vars" and isinstance(self.parent[call], ast.Call | ast.keyword)
            is_here = isinstance(call.func, ast.Name) and not name and self.lookup(call.func.id, call)[1]
            if not (is_vars or is_here or name.startswith(_READERS)):
                yield use

    def _class(self, node: ast.Name) -> ast.ClassDef | None:
        """The class of the file that a name is."""
        _, found = self.lookup(node.id, node)
        one = found[0].node if len(found) == 1 else None
        return one if isinstance(one, ast.ClassDef) else None

    def _of_class(self, owner: ast.ClassDef, name: str, node: ast.AST) -> ast.expr:
        """The value of a field that a class gives itself."""
        allowed = {"dataclass", "dataclasses.dataclass", ""}
        words = {self.qualified(getattr(one, "func", one)) for one in owner.decorator_list}
        is_own = methods_of(owner) & {"__post_init__", "__getattribute__"}
        if owner.bases or owner.keywords or words - allowed or is_own:
            raise UnclearError(owner, f"{owner.name}.{name} may be set elsewhere")
        found = [one for one in self.bindings[owner].get(name, []) if one.kind == "value" and one.value is not None]
        if len(self.bindings[owner].get(name, [])) != 1 or not found:
            raise UnclearError(node, f"{name} is not a field that {owner.name} sets once")
        value = found[0].value
        assert value is not None
        if self.is_call(value, "dataclasses.field"):
            given = keywords(value, ())
            if isinstance(maker := given.get("default_factory"), ast.Name) and self._class(maker):
                made = ast.copy_location(ast.Call(maker, [], []), value)
                self.parent[made] = value
                return made
            if "default" not in given:
                raise UnclearError(value, f"{name} has no default")
            return given["default"]
        return value

    def _of_command_line(self, base: ast.Call, node: ast.Attribute) -> ast.expr:
        """The default of an option of argparse."""
        parser = self.resolve(base.func.value) if isinstance(base.func, ast.Attribute) else base
        is_parsed = isinstance(base.func, ast.Attribute) and base.func.attr == "parse_args" and not base.args
        if not is_parsed or base.keywords or not self.is_call(parser, "argparse.ArgumentParser"):
            raise UnclearError(node, f"{ast.unparse(node)} cannot be read")
        options = [one for one in self.calls if getattr(one.func, "attr", "") == "add_argument" and option_of(one)]
        options = [one for one in options if option_of(one) == node.attr]
        if len(options) != 1 or self.attributes["set_defaults"]:
            raise UnclearError(node, f"the command line has not one option {node.attr}")
        given = keywords(options[0], None)
        if node.attr in self.flags:
            said = ast.copy_location(ast.Constant(self.flags[node.attr]), options[0])
            self.parent[said] = options[0]
            return said
        action = given.get("action")
        word = action.value if isinstance(action, ast.Constant) else ""
        if "default" not in given and word in ("store_true", "store_false"):
            value: ast.expr = ast.copy_location(ast.Constant(word == "store_false"), options[0])
            self.parent[value] = options[0]
        elif "default" in given and "required" not in given and "nargs" not in given:
            value = given["default"]
        else:
            raise UnclearError(options[0], f"--{node.attr.replace('_', '-')} is of the command line")
        self.defaults[f"--{node.attr.replace('_', '-')}"] = folded = self.fold(value)
        if folded is None or (isinstance(folded, str) and "type" in given):
            raise UnclearError(options[0], f"--{node.attr.replace('_', '-')} is of the command line")
        return value

    def assume(self, node: ast.AST) -> None:
        """Take flags of the command line as they must be for a node to run."""
        seen: set[ast.AST] = set()
        while not isinstance(node, ast.Module) and node not in seen:
            seen.add(node)
            above = self.parent[node]
            if isinstance(above, ast.If) and node is not above.test:
                test, value = above.test, node in above.body
                while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    test, value = test.operand, not value
                if isinstance(test, ast.Attribute) and self._is_flag(test, not value):
                    self.flags[test.attr] = value
            try:
                node = self.caller(above) if isinstance(above, ast.FunctionDef) else above
            except UnclearError:
                return

    def _is_flag(self, node: ast.Attribute, value: bool) -> bool:
        """Whether a field has a truth value by the default of the command line."""
        known = dict(self.defaults)
        try:
            is_said = node.attr not in self.flags and self.fold(node) is value
        except UnclearError:
            return False
        is_said = is_said and self.defaults != known
        self.defaults = known if is_said else self.defaults
        return is_said

    # -- numbers -----------------------------------------------------------------------------------------------------

    def fold(self, node: ast.expr, size: Callable[[ast.expr], int] | None = None) -> Any:
        """The number, word or truth value of an expression; `size` gives len() of a data set."""
        found = self.resolve(node, once=True)
        try:
            return self._folded(found, size)
        except (ArithmeticError, ValueError, TypeError, RecursionError):
            raise UnclearError(node, f"{ast.unparse(node)[:60]} cannot be computed here") from None

    def _folded(self, node: ast.expr, size: Callable[[ast.expr], int] | None) -> Any:
        of = partial(self.fold, size=size)

        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](number_of(of(node.left)), number_of(of(node.right)))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            base, power = number_of(of(node.left)), number_of(of(node.right))
            return base**power if abs(power) <= 64 else float(base) ** power
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            return _OPERATORS[type(node.ops[0])](of(node.left), of(node.comparators[0]))
        if isinstance(node, ast.BoolOp):
            parts = [of(one) for one in node.values]
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        if isinstance(node, ast.IfExp):
            return of(node.body if of(node.test) else node.orelse)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            name = self.qualified(node.func)
            if name in _CALLS:
                return _CALLS[name](number_of(of(node.args[0])))
            if name == "builtins.len" and size:
                return size(node.args[0])
        raise UnclearError(node, f"{ast.unparse(node)[:60]} cannot be computed here")
