"""What the names of a script are in a training: records, figures, models, losses and what libraries make.

Expressions have kinds: `record` (records, and what is made of each by itself), `figure` (a mean or a sum over records),
`shown` (what else is found of several records), `model` (a model, its optimizer, an engine). A name has all kinds of
what is put into it anywhere.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.tree import Function, UnclearError, last_name, walk

Kinds = frozenset[str]
NONE: Final[Kinds] = frozenset()
RECORD, FIGURE, SHOWN, MODEL = (frozenset({one}) for one in ("record", "figure", "shown", "model"))
OUTPUT, DATA, SUM = frozenset({"output"}), frozenset({"data"}), frozenset({"sum"})
"""Beside them: records of which a model made something, figures of records of which none did, and sums."""
LOSS, EACH_LOSS, KNOWN = (frozenset({one}) for one in ("loss", "losses", "known"))
TOLD: Final = frozenset({"figure", "shown", "data", "sum"})
ALL: Final = TOLD | RECORD | OUTPUT | MODEL
WORDS: Final = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(Path(__file__).with_name("plain.toml").read_text("utf-8")).items()
}
LOSSES: Final = re.compile(
    rf"(?:torch\.nn\.(?:functional\.)?|keras\.losses\.|optax\.(?:losses\.)?)(?:{'|'.join(WORDS['losses'])})$"
)
LIBRARY: Final = re.compile(
    "|".join(
        (
            *WORDS["libraries"],
            LOSSES.pattern,
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
ASIDE_KEY: Final = re.compile(
    r"(?:[xy]_)?(?:test|valid|validation|val|dev|eval|public)"
    r"(?:_(?:x|y|data|set|split|loader|dataset|images|labels|loss|acc|accuracy|matched|mismatched)\w*)?",
    re.I,
)


_LENGTH: Final = re.compile(r"len\(.*\)|.*\.size\(0\)|.*\.shape\[0\]", re.S)


class Names:
    """Names of a training with their kinds, and the lines that are not plain."""

    def __init__(self, loop: Loop, flow: Flow) -> None:
        self.loop, self.script, self.flow = loop, loop.script, flow
        self.kinds: dict[object, Kinds] = {}
        self.tags: dict[object, Kinds] = {}
        """What is called by a name: a loss of a library, or another thing that a known library makes."""
        self.asks: dict[ast.AST, None] = {}
        self.is_last = False
        self.open: set[object] = set()
        self.functions = flow.defined
        made = [ast.unparse(one.value) for one in self.script.attributes["from_pretrained"]]
        self.is_mean = all(
            re.search("Tokenizer|Config|Processor|Extractor|(?<!Token)Classification|Choice", one) for one in made
        )
        """Whether the loss that a model gives is a mean over records."""
        self.classes = {one.name: one for one in self.script.nodes if isinstance(one, ast.ClassDef)}

    def of(self, node: ast.AST | None) -> Kinds:
        """The kinds of an expression; what is not plain in it is noted."""
        raise NotImplementedError

    def add(self, key: object, kinds: Kinds) -> None:
        """Put kinds into a name."""
        self.kinds[key] = self.kinds.get(key, NONE) | kinds

    def ask(self, node: ast.AST) -> None:
        """Note a line that is not plain."""
        if self.is_last:
            self.asks.setdefault(node)

    def key(self, node: ast.expr) -> object:
        """What an expression is kept under: a name by its scope, if a parameter or a local one; a field by its own."""
        if isinstance(node, ast.Attribute):
            return node.attr
        if not isinstance(node, ast.Name):
            return None
        scope = self.script.lookup(node.id, node)[0]
        is_shared = scope is self.script.tree or node.id in self.script.shared
        return node.id if is_shared else (scope, node.id)

    def root(self, node: ast.expr) -> ast.expr:
        """The name or field that an element, or what a method returns, is of."""
        while isinstance(node, ast.Subscript | ast.Call):
            node = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", node.func)
        return node

    def named(self, node: ast.expr) -> Kinds:
        """The kinds of a name or a field."""
        found = self.kinds.get(self.key(node), NONE)
        if isinstance(node, ast.Name) and isinstance(self.key(node), tuple):
            found |= self.kinds.get(node.id, NONE) & MODEL
        return found

    def is_length(self, node: ast.AST) -> bool:
        """Whether an expression says how long a thing of records is that a loop goes through, or a function has."""
        if isinstance(node, ast.BinOp):
            return self.is_length(node.left) or self.is_length(node.right)
        if isinstance(node, ast.Name) and node.id not in self.open:
            self.open.add(node.id)
            rows = self.script.lookup(node.id, node)[1]
            found = any(row.kind == "value" and row.value is not None and self.is_length(row.value) for row in rows)
            self.open.discard(node.id)
            return found
        is_said = isinstance(node, ast.Call | ast.Subscript) and _LENGTH.fullmatch(ast.unparse(node))
        of = [one for one in walk(node) if isinstance(one, ast.Name) and one.id != "len"] if is_said else []
        if not of:
            return False
        root = of[0]
        rows = self.script.lookup(root.id, root)[1] if isinstance(root, ast.Name) else []
        return any(row.kind in ("other", "parameter") for row in rows) and bool(self.of(root) & RECORD)

    def _tag(self, target: ast.expr, tags: Kinds) -> None:
        if tags and isinstance(target, ast.Name | ast.Attribute):
            self.tags[self.key(target)] = self.tags.get(self.key(target), NONE) | tags

    def _is_mixed(self, name: ast.Name) -> bool:
        """Whether something else than a thing of a library is put into a name, too."""
        if self.key(name) in self.open:
            return False
        self.open.add(self.key(name))
        rows = self.script.lookup(name.id, name)[1]
        values = [row.value for row in rows if row.kind == "value" and row.value is not None]
        is_mixed = any(isinstance(row.node, Function) for row in rows)
        is_mixed |= any(not isinstance(one, ast.Name) and not self.tag(one) for one in values)
        self.open.discard(self.key(name))
        return is_mixed

    def _is_fixed(self, node: ast.expr) -> bool:
        """Whether a value is of numbers that are written out."""
        try:
            node = self.script.resolve(node)
        except UnclearError:
            return False
        inside = [one for one in walk(node) if isinstance(one, ast.Name | ast.Call)]
        called = {self.script.qualified(one.func) for one in inside if isinstance(one, ast.Call)}
        names = [one for one in inside if isinstance(one, ast.Name) and not self.script.qualified(one)]
        return not self.of(node) and not names and called <= {"torch.tensor", "torch.ones", "torch.FloatTensor"}

    def tag(self, node: ast.expr) -> Kinds:
        """Whether an expression is a loss, or made by a library."""
        if isinstance(node, ast.IfExp):
            return self.tag(node.body) & self.tag(node.orelse)
        whole = self.script.qualified(node.func if isinstance(node, ast.Call) else node)
        if LOSSES.search(whole):
            said = node.keywords if isinstance(node, ast.Call) else []
            words = {one.arg: one.value for one in said}
            is_free = "weight" in words and "sum" not in map(ast.unparse, words.values())  # by which a mean is divided
            if is_free or any(not self._is_fixed(words[one]) for one in ("weight", "pos_weight") if one in words):
                self.ask(node)
            texts = " ".join(ast.unparse(one.value).lower() for one in said)
            return EACH_LOSS if "none" in texts else LOSS | SUM if "sum" in texts else LOSS
        if isinstance(node, ast.Call):
            is_moved = last_name(node.func) in ("to", "cuda", "cpu") and isinstance(node.func, ast.Attribute)
            if is_moved and isinstance(node.func, ast.Attribute):
                return self.tag(node.func.value)
            is_class = not whole and last_name(node.func) in self.classes
            return KNOWN if LIBRARY.match(whole) or is_class else NONE
        if isinstance(node, ast.Lambda):
            return NONE
        if isinstance(node, ast.Name) and self._is_mixed(node):
            return NONE
        found = self.tags.get(self.key(node), NONE)
        if isinstance(node, ast.Name) and isinstance(self.key(node), tuple):
            found |= self.tags.get(node.id, NONE)
        return found
