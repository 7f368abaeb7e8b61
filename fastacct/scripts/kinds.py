"""What the names of a script are in a training: records, losses, what is told of records, sizes of batches, models.

A name has all kinds of what is put into it anywhere. What has no kind does not touch the private data, and is left
alone.
"""

from __future__ import annotations

import ast
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.tree import Function, UnclearError, last_name, names_in, value_of, walk

PUTS: Final = ("append", "extend", "add", "update")
"""Methods that put something into a list or a set."""
Kinds = frozenset[str]
NONE: Final[Kinds] = frozenset()
RECORD, OUTPUT, LOSS, TOLD, SIZE, MODEL = (
    frozenset({one}) for one in ("record", "output", "loss", "told", "size", "model")
)
"""Records and what is made of each; of which a model made it; a mean loss; another figure; how many; what trains."""
FIGURE: Final = LOSS | TOLD
FOUND: Final = RECORD | FIGURE
LOSSES, EACH_LOSS, PAIRS, KNOWN, MIXED = (frozenset({one}) for one in ("loss", "losses", "pairs", "known", "mixed"))
"""What a name calls: a loss of a library, one of each record, one that broadcasts, what libraries make, or several."""
WORDS: Final = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(Path(__file__).with_name("plain.toml").read_text("utf-8")).items()
}
LOSS_OF_LIBRARY: Final = re.compile(
    rf"(?:torch\.nn\.(?:functional\.)?|(?:tensorflow\.)?keras\.losses\.)(?:{'|'.join(WORDS['losses'])})$"
)
LIBRARY: Final = re.compile(
    "|".join(
        (
            *WORDS["libraries"],
            LOSS_OF_LIBRARY.pattern,
            *(
                rf"{home}(?:{'|'.join(WORDS[names])})$"
                for home, names in (
                    (r"(?:torch\.nn\.(?:functional\.|modules\.\w+\.)?|opacus\.layers\.)", "layers"),
                    (r"torchvision\.transforms\.(?:v2\.)?(?:functional\.)?", "transforms"),
                    (r"(?:tensorflow\.)?keras\.layers\.", "keras"),
                )
            ),
        )
    )
)
"""Functions, layers and classes that treat records one by one."""
WATCHED: Final = re.compile("|".join(WORDS["watched"]))
"""Libraries of which all else is asked about."""
ASIDE: Final = re.compile(r"test|valid|\bval\b|val_|dev\b|public|eval", re.I)
"""Words of data, and of figures of it, that is not trained on."""
_MODEL: Final = re.compile(
    r"(?:model|net|network|params|parameters|variables|state|opt|optimizer|optim|engine|trainer|scheduler|sched"
    r"|tok|tokenizer|device|key|rng|logger|writer|transforms?|criterion|config|cfg|conf|args|opts?|hparams|flags)\d*$",
    re.I,
)
_MODEL_METHODS: Final = (
    *("parameters", "state_dict", "train", "eval", "zero_grad", "step", "compile", "fit", "save_pretrained"),
    *("named_parameters", "load_state_dict", "make_private", "attach"),
)


class Names(ABC):
    """Names of a training with their kinds, and the lines that are asked about, with what must hold of them."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.script = loop, loop.script
        self.kinds: dict[object, Kinds] = {}
        self.tags: dict[object, Kinds] = {}
        self.asks: dict[ast.AST, str] = {}
        self.is_last = False
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.models: set[str] = set()
        for node in self.script.nodes:
            if isinstance(node, Function):
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Attribute) and node.attr in _MODEL_METHODS and last_name(node.value):
                self.models.add(last_name(node.value))
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                value = value_of(self.script, self.script.statement(node), node.attr)
                self.fields.setdefault(node.attr, []).extend([value] if value is not None else [])
        self.models -= {"self"}
        self.classes = {one.name: one for one in self.script.nodes if isinstance(one, ast.ClassDef)}
        self.add_all(self.models, MODEL)
        seen: set[ast.AST] = set()
        for one in loop.data:
            self._seed(one, seen)

    @abstractmethod
    def of(self, node: ast.AST | None) -> Kinds:
        """The kinds of an expression; what is not plain in it is noted."""

    @abstractmethod
    def put(self, target: ast.expr, kinds: Kinds) -> None:
        """Put kinds into what an assignment names."""

    def ask(self, node: ast.AST, claim: str = "") -> None:
        """Note a line that is not plain."""
        if self.is_last:
            self.asks.setdefault(node, claim)

    def add(self, key: object, kinds: Kinds) -> None:
        """Put kinds into a name."""
        self.kinds[key] = self.kinds.get(key, NONE) | kinds

    def add_all(self, keys: set[str], kinds: Kinds) -> None:
        """Put kinds into several names."""
        for key in keys:
            self.add(key, kinds)

    def key(self, node: ast.AST) -> object:
        """What an expression is kept under: a name by its scope, if a parameter or a local one; a field by its own."""
        if isinstance(node, ast.Attribute):
            return node.attr
        if not isinstance(node, ast.Name):
            return None
        scope = self.script.lookup(node.id, node)[0]
        return node.id if scope is self.script.tree or node.id in self.script.shared else (scope, node.id)

    def root(self, node: ast.expr) -> ast.expr:
        """The name or field that an element, or what a method returns, is of."""
        while isinstance(node, ast.Subscript | ast.Call | ast.Starred):
            node = getattr(node.func, "value", node.func) if isinstance(node, ast.Call) else node.value
        return node

    def named(self, node: ast.expr) -> Kinds:
        """The kinds of a name or a field; a parameter with the name of a model is one."""
        found = self.kinds.get(self.key(node), NONE)
        return found | (self.kinds.get(node.id, NONE) & MODEL if isinstance(node, ast.Name) else NONE)

    def is_model(self, name: str) -> bool:
        """Whether a name is that of a model, an optimizer or another thing that trains, or of settings."""
        return name in self.models or _MODEL.search(name) is not None

    def _seed(self, node: ast.expr, seen: set[ast.AST]) -> None:
        """Take private data for records, and what it is made of."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, ast.Call) and last_name(node.func).startswith("make_private"):
            for word in node.keywords:
                if word.arg == "data_loader":
                    self._seed(word.value, seen)
            return
        for call in (one for one in walk(node) if isinstance(one, ast.Call)):
            for end in self.ends(last_name(call.func)):
                self._seed(end, seen)
        fields = [one for one in walk(node) if isinstance(one, ast.Attribute) and last_name(one.value) == "self"]
        for field in fields:
            values = [*self.fields.get(field.attr, ()), *self.put_into(field.attr)]
            is_set = bool(values) and all(map(self._is_set, values))
            if not self.is_model(field.attr) and field.attr not in self.functions and not is_set:
                self.add(field.attr, RECORD)
                for value in values:
                    self._seed(value, seen)
        for name in names_in(node):
            rows = self.script.lookup(name.id, name)[1]
            values = [value_of(self.script, row.node, name.id) for row in rows]
            more = self.put_into(name.id)
            is_set = any(isinstance(one, ast.Constant) or last_name(self.root(one)) == "range" for one in values if one)
            is_set |= self._is_set(name) and not more
            is_other = name.id in self.functions or self.script.qualified(name) or self.is_model(name.id)
            if not is_other and not is_set and name.id not in ("self", "cls"):
                self.add(self.key(name), RECORD)
                for row, said in zip(rows, values, strict=True):
                    for part in self._arguments(row.node) if row.kind == "parameter" else (said,):
                        if part is not None:
                            self._seed(part, seen)
                for part in more:
                    self._seed(part, seen)

    def ends(self, name: str) -> list[ast.expr]:
        """What a function of the file returns, or the methods of a class of it that give records."""
        inside = self.classes[name].body if name in self.classes else ()
        makers = [one for one in inside if getattr(one, "name", "") in ("__getitem__", "__iter__", "train_dataloader")]
        found = [one for each in (*self.functions.get(name, ()), *makers) for one in walk(each)]
        return [one.value for one in found if isinstance(one, ast.Return | ast.Yield) and one.value is not None]

    def put_into(self, name: str) -> list[ast.expr]:
        """What is put into a list of that name."""
        methods = [one for word in PUTS for one in self.script.attributes[word] if last_name(one.value) == name]
        calls = [self.script.parent[one] for one in methods]
        return [part for call in calls if isinstance(call, ast.Call) for part in call.args]

    def _is_set(self, node: ast.expr) -> bool:
        """Whether a value is written out, also as what each call of a function gives it."""
        rows = self.script.lookup(node.id, node)[1] if isinstance(node, ast.Name) else []
        given = [part for row in rows if row.kind == "parameter" for part in self._arguments(row.node)]
        return all(map(self._is_set, given)) if given else self.is_fixed(node, "")

    def _arguments(self, parameter: ast.AST) -> Iterator[ast.expr]:
        """What the calls of a function give one of its parameters, and what it has else."""
        given = self.script.parent[parameter]
        function = self.script.parent[given]
        taken = [*given.posonlyargs, *given.args][::-1]  # type: ignore[attr-defined]
        yield from (one for each, one in zip(taken, given.defaults[::-1], strict=False) if each is parameter)  # type: ignore[attr-defined]
        name = getattr(function, "name", "")
        name = getattr(self.script.owner(function), "name", name) if name == "__init__" else name
        for call in self.script.calls:
            if name and last_name(call.func) == name:
                yield from (value for one, value in passed(function, call) if one is parameter)

    # -- what is called ----------------------------------------------------------------------------------------------

    def tag(self, node: ast.expr) -> Kinds:
        """Whether an expression is a loss, or made by a known library."""
        whole = self.script.qualified(node.func if isinstance(node, ast.Call) else node)
        if LOSS_OF_LIBRARY.search(whole):
            pairs = PAIRS if re.search(r"torch\..*(?:mse|l1|huber)_?loss$", whole, re.I) else NONE
            return self._loss(node if isinstance(node, ast.Call) else None) | pairs
        if isinstance(node, ast.Call):
            if last_name(node.func) in ("to", "cuda", "cpu") and isinstance(node.func, ast.Attribute):
                return self.tag(node.func.value)
            is_class = not whole and last_name(node.func) in self.classes
            return KNOWN if is_class or LIBRARY.match(whole) else NONE
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            return self.tag(node.value) & KNOWN  # models.mobilenet_v2().features
        if not isinstance(node, ast.Name | ast.Attribute):
            return NONE
        found = self.tags.get(self.key(node), NONE)
        if isinstance(node, ast.Name):
            found |= self.tags.get(node.id, NONE)
        return NONE if found & MIXED or len(found - PAIRS) > 1 else found

    def _loss(self, call: ast.Call | None) -> Kinds:
        """Whether a loss of a library is a mean over records, or one of each; other settings are asked about."""
        words = {one.arg or "**": ast.unparse(one.value).lower() for one in (call.keywords if call else ())}
        how = words.pop("reduction", "mean")
        fixed = {one.arg for one in (call.keywords if call else ()) if self.is_fixed(one.value)}
        odd = words.keys() - WORDS["loss_words"] - (fixed & {"pos_weight"})
        if call is not None and (odd or not re.search("mean|none", how)):
            self.ask(call)
        return EACH_LOSS if "none" in how else LOSSES

    def tag_as(self, target: ast.expr, value: ast.expr) -> None:
        """Keep what a name is, where it is called."""
        if isinstance(target, ast.Name | ast.Attribute):
            tags = self.tag(value)
            is_void = isinstance(value, ast.Constant) and value.value is None
            if not is_void:
                is_field = isinstance(self.script.scope(target), ast.ClassDef)  # self.net of a class
                key = last_name(target) if is_field else self.key(target)
                self.tags[key] = self.tags.get(key, NONE) | (tags or MIXED)

    def is_public(self, call: ast.Call) -> bool:
        """Whether weights that are loaded are those of another module, or of an address."""
        try:
            made = [part for one in call.args for part in walk(self.script.resolve(one)) if isinstance(part, ast.Call)]
        except UnclearError:
            return False
        last = [one.end_lineno or 0 for one in (self.loop.body, *self.loop.more, *self.loop.own) if one is not None]
        is_after = bool(last) and call.lineno > max(last)
        return is_after or (bool(made) and all("url" in last_name(one.func) for one in made))

    def is_fixed(self, node: ast.expr, made: str = "torch") -> bool:
        """Whether a value is of numbers that are written out, and of what a library makes of them."""
        try:
            node = self.script.resolve(node)
        except UnclearError:
            return False
        inside = [one for one in walk(node) if isinstance(one, ast.Name | ast.Call)]
        return all(bool(made) and self.script.qualified(getattr(one, "func", one)).startswith(made) for one in inside)


def passed(function: ast.AST, call: ast.Call) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Parameters, and what a call gives them."""
    given = function.args  # type: ignore[attr-defined]
    taken = [*given.posonlyargs, *given.args]
    taken = taken[1:] if taken and taken[0].arg in ("self", "cls") else taken
    named = {one.arg: one.value for one in call.keywords}
    yield from zip(taken, call.args, strict=False)
    yield from ((one, named[one.arg]) for one in (*taken, *given.kwonlyargs) if one.arg in named)
