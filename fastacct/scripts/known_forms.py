"""Loops by hand: between the clip of single gradients and the step only known forms stand; all else is asked about.

Each expression has a kind: `each` (gradients of single records), `square`, `norm`, `under` (something over a norm),
`times` and `over` (factors that clip), `sum` (of records), `noise`, `noisy`, or none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fastacct.scripts import noise
from fastacct.scripts.beside import WORDS
from fastacct.scripts.found import Loop, number
from fastacct.scripts.puts import Events
from fastacct.scripts.tree import Function, last_name, walk

SUM: Final = (
    "a record moves the sum of gradients by its clipping norm at most, and all use of the sum is after the noise"
)
NOISE: Final = (
    "Gaussian noise is drawn anew there for each coordinate, in each step, as large as --noise-multiplier says"
)
UNUSED: Final = "what gets the noise there is what moves the parameters"
_RANK: Final = ("", "test", "noise", "noisy", "times", "over", "under", "norm", "square", "each", "sum")
_RAW: Final = frozenset(("norm", "under", "square", "each", "sum", "test"))
_GRADIENTS: Final = frozenset(("each", "sum"))
_MADE: Final = re.compile(r"grad(?!_fn)|jacobian|jacrev|backward")
"""Functions that find gradients."""
_FIELDS: Final = re.compile(r"^(?:grad|grad_?sample|grad1|grad_batch|accumulated\w*)$")
_NORMS: Final = re.compile(r"norm(?:_|$)|^norm|l2|^sqrt$|hypot")
_SQUARES: Final = frozenset(("square", "pow", "power", "pow_", "dot", "vdot", "inner", "float_power"))
_LOWER: Final = frozenset(("min", "minimum", "clamp", "clamp_", "clamp_max", "clip", "clip_by_value", "where"))
_UPPER: Final = frozenset(("max", "maximum", "clamp", "clamp_", "clamp_min", "clip"))
_PRODUCTS: Final = frozenset(("einsum", "tensordot", "matmul", "mm", "mv", "dot", "mul", "multiply", "mul_"))
_MASKS: Final = re.compile(r"mask|valid|pad|real|keep|^m$")
_CHECKS: Final = re.compile(
    r"(?:sigma|noise\w*) > 0|is (?:not )?None|requires_grad|isinstance\(|isnan|isfinite|trainable|grad_sample|hasattr"
)
_PLACED: Final = frozenset(("sample", "rsample", "type", "reshape", "view"))

_AROUND: Final = ("zero_grad", "set_grad_enabled", "no_grad", "enable_grad", "apply_gradients")
_MAPS: Final = ("map", "tree_map", "map_structure", "multimap", "tree_multimap")
_TRANSFORMS: Final = ("vmap", "grad", "value_and_grad", "jit", "pmap", "jacrev", "jacfwd", "vectorized_map")
_BEGINS: Final = re.compile(r"zeros|^0(?:\.0)?$|^\[\]$|^\{\}$|None|defaultdict|Counter|zero_")


def found(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """Lines of a loop by hand that are none of the known forms."""
    if loop.framework == "by hand":
        yield from Forms(loop).found()


class Forms(Events):
    """The kinds of expressions of a script that adds noise to clipped gradients by itself."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.odd: dict[ast.AST, str] = {}
        self.kinds: dict[ast.AST, str] = {}
        self.before: dict[ast.AST, str] = {}
        """The kinds of the round before: names of a loop depend on each other."""
        self.active: set[ast.AST] = set()
        self.sums = {*self.flow.sums()}
        self.places: list[ast.AST] = []
        """Where noise is added."""

    def found(self) -> Iterator[tuple[ast.AST, str]]:
        """All statements that are none of the known forms, and noise that is not like the noise that is asked for."""
        for _ in range(8):
            self.before, self.kinds, self.odd, self.places = self.kinds, {}, {}, []
            for node in self.script.nodes:
                if isinstance(node, ast.stmt):
                    self._statement(node)
            if self.kinds == self.before:
                break
        for place in self.flow.sums()[: not self.places]:
            self.odd.setdefault(place, NOISE)
        said = set()
        for node, claim in self.odd.items():
            line = getattr(node, "lineno", 1)
            if line not in said:
                said.add(line)
                yield node, claim

    # -- kinds -------------------------------------------------------------------------------------------------------

    def kind(self, node: ast.AST | None) -> str:
        """The kind of an expression."""
        if node is None or node in self.active:
            return self.before.get(node, "") if node is not None else ""
        if node not in self.kinds:
            self.active.add(node)
            self.kinds[node] = self._kind(node)
            self.active.discard(node)
        return self.kinds[node]

    def _join(self, nodes: Sequence[ast.AST | None]) -> str:
        return max((self.kind(one) for one in nodes), key=_RANK.index, default="")

    def is_raw(self, node: ast.AST) -> bool:
        """Whether gradients without noise are in an expression."""
        return self.kind(node) in _RAW

    def _named(self, node: ast.AST) -> str:
        """The kind of a name or a field."""
        if re.search("loss|accuracy", last_name(node), re.I):
            return ""
        is_own = any(one.scope is self.script.scope(node) for one in self.rows(node))
        is_made = isinstance(node, ast.Attribute) and _FIELDS.match(node.attr) is not None
        kinds = [self.kind(one) for one in self.last(node)] if is_own or not is_made else []  # which backward() sets
        if "noisy" in kinds and is_own:  # in place: the sum until then
            kinds = ["noisy", *kinds[len(kinds) - kinds[::-1].index("noisy") :]]
        is_named = isinstance(node, ast.Name) and self.flow.is_named(node) and not self.rows(node)
        return max(kinds, key=_RANK.index, default="") or ("each" if is_made or is_named else "")

    def _kind(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            if node.attr in WORDS["of_no_gradient"]:
                return ""
            return self.kind(node.value) if node.attr in WORDS["same_gradients"] else self._named(node)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Subscript):
            kind = self.kind(node.value)
            if kind in _GRADIENTS and (self._join([node.slice]) in _RAW or isinstance(node.slice, ast.Compare)):
                self.odd[node] = SUM
            return kind
        if isinstance(node, ast.BinOp):
            return self._binary(node, node.left, node.op, node.right)
        if isinstance(node, ast.AugAssign):
            return self._binary(node, node.target, node.op, node.value)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Compare):
            kind = self._join([node.left, *node.comparators])
            is_none = all(isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn) for one in node.ops)
            if kind in _GRADIENTS | {"square"} and not is_none:
                self.odd[node] = SUM
            return "test" if kind in ("norm", "under") and not is_none else ""
        if isinstance(node, ast.IfExp):
            kinds = {self.kind(node.body), self.kind(node.orelse)}
            if self.kind(node.test) in _RAW and not kinds <= {"under", "times", ""}:
                self.odd[node] = SUM
            if "noise" in kinds and kinds != {"noise"}:
                self.odd[node] = NOISE
            return "times" if self.kind(node.test) == "test" else max(kinds, key=_RANK.index)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            return self.kind(node.value if isinstance(node, ast.DictComp) else node.elt)
        if isinstance(node, ast.Dict | ast.Lambda):
            return self._join(node.values if isinstance(node, ast.Dict) else [node.body])
        return self._join([*ast.iter_child_nodes(node)]) if isinstance(node, ast.expr) else ""

    def _binary(self, node: ast.AST, left: ast.AST, op: ast.operator, right: ast.AST) -> str:
        """The kind of a sum, a product, a quotient or a power."""
        one, other = self.kind(left), self.kind(right)
        kinds = {one, other}
        if isinstance(op, ast.Add | ast.Sub):
            if "noise" in kinds and (kinds & _GRADIENTS or node in self.sums):
                self._add_noise(node, right if other == "noise" else left)
                return "noisy"
            is_less = isinstance(op, ast.Sub) and bool(kinds & _GRADIENTS)  # steps, and differences of gradients
            if is_less or ("noisy" in kinds and kinds & _RAW):
                self.odd[node] = SUM
            elif isinstance(node, ast.AugAssign) and other in _GRADIENTS:
                self._accumulate(node, left)
                return "sum"
            return max(kinds, key=_RANK.index)
        if isinstance(op, ast.Mult | ast.MatMult):
            if kinds == {"each"} and ast.unparse(left) == ast.unparse(right):
                return "square"
            if kinds & _GRADIENTS:
                plain = right if one in _GRADIENTS else left
                if not (kinds & {"times", "under"} or self._is_small(plain)) or "noise" in kinds:
                    self.odd[node] = SUM
                return "sum" if isinstance(op, ast.MatMult) else max(kinds, key=_RANK.index)
            if kinds & {"times", "under"} and "" in kinds:
                plain = right if other == "" else left
                if not self._is_small(plain) and "times" in kinds and _MASKS.search(ast.unparse(plain)) is None:
                    self.odd[node] = SUM
            return max(kinds, key=_RANK.index)
        if isinstance(op, ast.Div):
            if one in _GRADIENTS:
                is_known = other in ("", "over") or (other == "norm" and one == "each")
                if not is_known or not self._is_large(right):
                    self.odd[node] = SUM
                return one
            if other == "over":
                return "times"
            return "under" if other == "norm" else one or other
        if isinstance(op, ast.Pow) and kinds & _GRADIENTS | kinds & {"norm"}:
            value = number(self.loop.script, right) if isinstance(right, ast.expr) else None
            if value == 0.5 and one in ("square", "norm"):
                return "norm"
            if value != 2 or one == "sum":
                self.odd[node] = SUM
            return "square"
        if isinstance(op, ast.Pow) and one == "square":
            return "norm"
        return max(kinds, key=_RANK.index)

    def _is_small(self, node: ast.AST) -> bool:
        """Whether a factor is a number of at most 1, or none of this script's numbers is larger."""
        value = number(self.script, node) if isinstance(node, ast.expr) else None
        return value is not None and 0 < abs(value) <= 1

    def _is_large(self, node: ast.AST) -> bool:
        """Whether a divisor is not known to be below 1."""
        value = number(self.script, node) if isinstance(node, ast.expr) else None
        return value is None or abs(value) >= 1

    def _called(self, call: ast.Call) -> str:
        name, inner = last_name(call.func), call.func
        if isinstance(inner, ast.Call) and last_name(inner.func) in _TRANSFORMS and inner.args:
            name = last_name(inner.args[0])  # vmap(f)(x)
        if noise.DRAWN.search(name):
            return "noise"
        if noise.CLIPS.search(name.lower()) and (len(call.args) > 1 or call.keywords):
            return self._clip(call)
        if name in _TRANSFORMS and "autograd" not in ast.unparse(call.func):
            return ""
        within = call.func.value if isinstance(call.func, ast.Attribute) else None
        within = None if within is not None and self.script.qualified(call.func) else within
        given: list[ast.AST] = [*call.args, *(one.value for one in call.keywords)]
        of = [*([within] if within is not None else []), *given]
        if name in ("tree_unflatten", "unflatten", "pack_sequence_as") or (name in _MAPS and self._is_function(given)):
            of = given[:1] if name in _MAPS else given[-1:]
        kind, kinds = self._join(of), {self.kind(one) for one in of}
        if name in WORDS["of_no_gradient"]:
            return ""
        if name in self.flow.defined and self.rows(call.func):
            return self._named(call.func)
        if name in ("add_", "add") and (kinds & _RAW or ("noise" in kinds and call in self.sums)):
            return self._added(call, within, given)
        if not kinds & _RAW:
            text = ast.unparse(call.func) if isinstance(call.func, ast.Call) else name
            is_made = _MADE.search(text) is not None or self._is_gradient(call)
            if is_made and name not in _AROUND:
                return "each"
            return kind if kind != "noise" or name in _PLACED | WORDS["same_gradients"] else ""
        if name in _LOWER and kinds & {"under"}:
            return "times"
        if name in _UPPER and kinds & {"norm"} and not kinds & _GRADIENTS:
            return "over"
        if name == "where" and kinds <= {"", "test", "norm", "under", "times"}:
            return "times"
        if name in _SQUARES and kinds <= {"", "each", "norm"}:
            return "square"
        if _NORMS.search(name) and name != "batch_norm":
            if "sum" in kinds:
                self.odd[call] = SUM
            return "norm"
        if name in _PRODUCTS | WORDS["sums_gradients"]:
            if name in _PRODUCTS and not kinds & {"times", "under", "square"}:
                self.odd[call] = SUM
            return "sum" if kind == "each" else kind
        if name in ("div_", "div", "divide", "mul_", "mul", "sub_", "sub", "copy_") and within is not None and given:
            op = {"d": ast.Div(), "m": ast.Mult(), "s": ast.Sub()}.get(name[0])
            return self._binary(call, within, op, given[0]) if op is not None else self.kind(given[0])
        if name in ("abs", "square_", "neg", "negative") and not kinds & _GRADIENTS:
            return kind
        if name not in WORDS["same_gradients"] and (_MADE.search(name) is None or name in _AROUND):
            self.odd[call] = SUM
        return kind

    def _is_function(self, given: Sequence[ast.AST]) -> bool:
        """Whether what is mapped is written in the file."""
        return bool(given) and (isinstance(given[0], ast.Lambda) or last_name(given[0]) in self.flow.defined)

    def _is_gradient(self, call: ast.Call) -> bool:
        """Whether a name that is called stands for a function that finds gradients."""
        text = " ".join(ast.unparse(one.value) for one in self.rows(call.func) if isinstance(one.value, ast.expr))
        return _MADE.search(text) is not None

    def _clip(self, call: ast.Call) -> str:
        """A call that clips gradients: to a norm that is set, of all of them, without a condition."""
        words = {one.arg: one.value for one in call.keywords}
        of = words.get("parameters") or (call.args[0] if call.args else None)
        bound = words.get("max_norm") or words.get("clip_norm") or (call.args[1] if len(call.args) > 1 else None)
        order = words.get("norm_type") or (
            call.args[2] if len(call.args) > 2 and "grad" in last_name(call.func) else None
        )
        is_plain = bound is None or isinstance(bound, ast.Name | ast.Constant | ast.Attribute | ast.Subscript)
        is_all = not any(isinstance(one, ast.Slice) for one in walk(of)) if of is not None else True
        is_two = order is None or number(self.script, order) in (1, 2)
        if not (is_plain and is_all and is_two) or self._is_conditional(call):
            self.odd[call] = SUM
        return "each"

    def _is_conditional(self, node: ast.AST) -> bool:
        """Whether a branch is around a node that asks for more than a gradient, and a step is taken outside of it."""
        around = [*self.script.around(node)]
        home = next((one for one in around if isinstance(one, Function)), self.loop.body or self.script.tree)
        for one in around[: around.index(home)] if home in around else around:
            if isinstance(one, ast.If) and node not in walk(one.test) and _CHECKS.search(ast.unparse(one.test)) is None:
                inside = {*walk(one)}
                if any(_is_step(each) and each not in inside for each in walk(home)):
                    return True
        return False

    def _added(self, call: ast.Call, within: ast.AST | None, given: Sequence[ast.AST]) -> str:
        """t.add_(g), also with alpha=factor."""
        alpha = [one.value for one in call.keywords if one.arg in ("alpha", "value")]
        terms = [one for one in given if one not in alpha]
        kinds = {self.kind(one) for one in terms}
        if "noise" in kinds:
            self._add_noise(call, next(one for one in terms if self.kind(one) == "noise"))
            return "noisy"
        for one in alpha:
            if kinds & _GRADIENTS and self.kind(one) not in ("times", "under") and not self._is_small(one):
                self.odd[call] = SUM
        if "square" in kinds or (within is not None and self.kind(within) == "noisy" and kinds & _RAW):
            self.odd[call] = SUM
        if last_name(call.func) == "add_" and within is not None and kinds & _GRADIENTS:
            self._accumulate(call, within)
            return "sum"
        return self._join([within, *terms])

    def _accumulate(self, node: ast.AST, target: ast.AST) -> None:
        """A sum over records must begin at 0 in each step, and take each gradient once."""
        while isinstance(target, ast.Subscript):
            target = target.value
        sources = self.alias.get(self.flow.key(target), []) if last_name(target) else []
        rows = [row for one in (target, *sources) for row in self.rows(one)]
        adds = {row.value for row in rows if row.how == "more" and row.value is not node}
        is_again = any(self.kind(getattr(one, "value", None)) in _GRADIENTS for one in adds)
        begins = [row for row in rows if row.value is not None and _BEGINS.search(ast.unparse(row.value))]
        body = self.loop.body
        is_new = body is None or any(
            body in self.script.around(row.value) or row.scope is not self.script.scope(body)
            for row in begins
            if row.value is not None
        )
        if not is_new or is_again or (isinstance(target, ast.Attribute) and _FIELDS.match(target.attr)):
            self.odd[node] = SUM

    # -- noise -------------------------------------------------------------------------------------------------------

    def _add_noise(self, node: ast.AST, drawn: ast.AST) -> None:
        """Noise must be drawn for this sum alone, times what is set before the training, in all cases, and be used."""
        self.places.append(node)
        if not self.is_noise(drawn) or self._is_conditional(node):
            self.odd[node] = NOISE
        statement = self.script.statement(node)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            uses = [one for one in self.script.uses[statement.targets[0].id] if one.lineno >= statement.lineno]
            above = [getattr(self.script.parent[one], "func", one) for one in uses]
            if not any(last_name(one) not in ("print", "len", "info", "log") for one in above):
                self.odd[node] = UNUSED

    # -- statements --------------------------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            kind = self.kind(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                is_local = isinstance(getattr(target, "value", target), ast.Name) and not isinstance(
                    target, ast.Attribute
                )
                if not (is_local or isinstance(target, ast.Tuple | ast.List)) and kind in (
                    "norm",
                    "under",
                    "square",
                    "test",
                ):
                    self.odd[node] = SUM
                if isinstance(target, ast.Attribute) and target.attr == "grad" and kind in _GRADIENTS:
                    self._ask_unless_noised(node, target)
                if isinstance(target, ast.Subscript) and self.kind(target.slice) in _RAW:
                    self.odd[node] = SUM
                names = {one.id for one in walk(node.value) if isinstance(one, ast.Name)} if node.value else set()
                if kind in _GRADIENTS and isinstance(node.value, ast.BinOp) and last_name(target) in names:
                    self._accumulate(node, target)
        elif isinstance(node, ast.AugAssign):
            self.kind(node)
        elif isinstance(node, ast.If | ast.While):
            kind = self.kind(node.test)
            inner = [each for one in node.body for each in (one.body if isinstance(one, ast.For) else [one])]
            is_scaling = all(isinstance(one, ast.Assign | ast.AugAssign) for one in inner) and not node.orelse
            if kind in _RAW and not (kind == "test" and is_scaling):
                self.odd[node.test] = SUM
        elif isinstance(node, ast.Expr | ast.Return | ast.Assert | ast.For):
            self.kind(getattr(node, "iter", None) or getattr(node, "test", None) or getattr(node, "value", None))

    def _ask_unless_noised(self, node: ast.stmt, target: ast.Attribute) -> None:
        """A gradient that is set without noise, and that gets none later."""
        if not any(one.how == "more" and self.kind(one.value) == "noisy" for one in self.rows(target)):
            self.odd[node] = SUM


def _is_step(node: ast.AST) -> bool:
    """Whether a statement may move parameters, or adds a gradient up."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("step", "sub_", "apply_updates", "apply_gradients", "add_")
    return isinstance(node, ast.Return) or (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub))
