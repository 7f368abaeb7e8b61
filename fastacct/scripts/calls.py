"""Calls of a training that are plain, and what they make of records, of losses and of models."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

from fastacct.scripts.kinds import (
    ASIDE,
    EACH_LOSS,
    FIGURE,
    KNOWN,
    LIBRARY,
    LOSS,
    LOSSES,
    MODEL,
    NONE,
    OUTPUT,
    PAIRS,
    PUTS,
    RECORD,
    SIZE,
    TOLD,
    WATCHED,
    WORDS,
    Kinds,
    Names,
    passed,
)
from fastacct.scripts.tree import UnclearError, last_name, parts, walk

_READS: Final = re.compile(
    r"^(?:pandas|polars)\.read_|^numpy\.(?:load|genfromtxt|loadtxt|memmap)$|^torchvision\.datasets\.|^datasets\.load_\w+$"
)
_TEST: Final = re.compile(r"train=False|(?:test|valid(?:ation)?)(?![a-z])")
_HELD: Final = re.compile(r"""\[['"](?:test|validation\w*)['"]\]$""")
_NORMED: Final = re.compile(
    r"[bB]atch_?[nN]orm|^(?:wide_)?(?:resn[e]xt|resnet|mobilenet|densenet|efficientnet|regnet|inception|shufflenet"
    r"|googlenet|mnasnet|vgg\d+_bn)|keras\.applications\.(?!VGG)"
    r"|create_model .*(?:resn|mobilenet|densenet|efficientnet|regnet|inception)",
    re.I,
)
"""Layers and models that normalise by batches."""
_LOCAL: Final = re.compile(
    r"^[./~]|^(?:out|run|result|save|model|log|exp)\w*/|checkpoint|ckpt|\.(?:pt|pth|bin|h5|safetensors)$"
)
_NUMBERS: Final = re.compile(r"^(?:torch|numpy|math|builtins|statistics)\.(?!save|dump)")
_COMPUTES: Final = re.compile(r"^(?:torch|numpy|math|tensorflow|jax)\.")
_SHOWS: Final = re.compile(r"^(?:wandb|mlflow|logging|matplotlib|seaborn)\b")
_LAYERED: Final = ("forward", "call")
STEPS: Final = ("training_step", "validation_step", "test_step", "predict_step", "forward", "__call__", "collate_fn")
"""Methods that a library gives batches."""
_WHOLES: Final = (28 * 28, 3 * 32 * 32, 3 * 224 * 224)
"""Numbers of a picture of the usual data sets."""
_ORDERED: Final = re.compile(r"(?:DP)?(?:LSTM|GRU|RNN|MultiheadAttention)|Transformer(?:En|De)coderLayer")
"""Layers whose first axis is not that of the batch, if not told so."""


class Calls(Names):
    """Calls with the kinds of their values."""

    def is_layered(self, node: ast.AST) -> bool:
        """Whether a node stands in a layer of the script."""
        return getattr(self.script.above(node, ast.FunctionDef), "name", "") in _LAYERED

    def call(self, call: ast.Call) -> Kinds:
        """The kinds of what a call returns."""
        whole = self.script.qualified(call.func)
        name = whole.rpartition(".")[2] or last_name(call.func)  # of what is imported by another name, too
        within = call.func.value if isinstance(call.func, ast.Attribute) and not whole else None
        on = self.of(within if within is not None else None if last_name(call.func) else call.func)
        given = NONE.union(*map(self.of, call.args), *(self.of(one.value) for one in call.keywords))
        every = on | given | (self.named(call.func) if isinstance(call.func, ast.Name) and not whole else NONE)
        self._whatever(call, name, whole)
        self._mapped(call)
        if not whole and (name in self.classes or self._is_here(call, name, on)):
            return self._followed(call, name)
        if name in WORDS["sizes"]:
            is_first = name in ("size", "numel") and " ".join(map(ast.unparse, call.args)) in ("", "0")
            of = call.args[:1] if name == "len" else [within] if is_first and within is not None else []
            return SIZE if self._is_length(of) else NONE
        if not every:
            is_data = _READS.search(whole) and not _TEST.search(ast.unparse(call))
            return RECORD if is_data else MODEL if whole.startswith("torch.optim.") else NONE
        is_shown = name in WORDS["shows"] and not _COMPUTES.match(whole)
        if (is_shown and (name != "log" or not on & (RECORD | FIGURE))) or _SHOWS.match(whole):
            return self._shown(call, name, on, given)
        if name in ("backward", "manual_backward"):
            if (given if name == "manual_backward" else every) != LOSS:
                self.ask(call)
            return NONE
        if every & MODEL or last_name(call.func) == "self":
            return self._of_model(call, name, whole, on, given)
        if every & RECORD:
            return self._of_records(call, name, whole, on, given)
        if name in WORDS["same"] or _NUMBERS.match(whole):
            return every if name in ("mean", "to") else TOLD if every & FIGURE else every
        if every & FIGURE or (name[:1].isupper() and not whole.startswith("torch.utils.data")):
            self.ask(call)
        return every

    def _is_length(self, of: list[ast.expr]) -> bool:
        """Whether a thing of records is what a loop goes through, or a function has: it is as long as a batch."""
        root = self.root(of[0]) if of else None
        if root is None or not self.named(root) & RECORD:
            return False
        if self.put_into(last_name(root)) and self.script.above(root, ast.For):
            return True  # the place of a record in a list
        if not isinstance(root, ast.Name):
            return False
        return any(row.kind in ("other", "parameter") for row in self.script.lookup(root.id, root)[1])

    def is_batch(self, node: ast.AST) -> bool:
        """Whether a node is in a loop of steps, or in a layer."""
        is_inside = any(one in (self.loop.body, *self.loop.more) for one in self.script.around(node))
        return is_inside or self._function(node) in (*STEPS, "call")

    def _is_row(self, call: ast.Call) -> bool:
        """Whether a list of records is given one for each that a loop goes through, whatever the others are."""
        loop = self.script.parent[self.script.statement(call)]
        if not isinstance(loop, ast.For) or self.is_batch(call):
            return False
        outer = (self.script.above(self.script.parent[loop], one) for one in (ast.For, ast.While))
        inner = [one for one in walk(loop) if isinstance(one, ast.For | ast.While | ast.If | ast.Try | ast.Continue)]
        calls = [one for one in walk(loop) if isinstance(one, ast.Call) and last_name(one.func) in PUTS]
        puts = [ast.unparse(one.func) for one in calls]
        is_once = puts.count(ast.unparse(call.func)) == 1 and all(one.endswith(".append") for one in puts)
        is_over = any(self.of(one) & RECORD for one in parts(loop.target))
        return inner == [loop] and not any(outer) and is_once and is_over

    # -- whatever is given -------------------------------------------------------------------------------------------

    def _whatever(self, call: ast.Call, name: str, whole: str) -> None:
        """What is asked of a call whatever it is given: layers and axes that are not known, weights of a file."""
        words = {one.arg or "**": one.value for one in call.keywords}
        texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        made = f"{name} {texts[0] if name == 'create_model' and texts else ''}"
        is_normed = _NORMED.search(whole if "keras.app" in whole else made) and "norm_layer" not in words
        trained = self.script.text.partition("requires_grad")[0]  # what is frozen is left as it is
        is_odd = (WATCHED.match(whole) and not LIBRARY.match(whole)) or not self._has_own_axis(call, name, whole)
        is_odd |= name in WORDS["never"] or any(one in WORDS["odd"] for one in words)
        is_odd |= bool(is_normed) and "ModuleValidator.fix(" not in trained
        given = [words[one] for one in WORDS["aside"] if one in words and not _HELD.search(ast.unparse(words[one]))]
        is_odd |= any(self.of(one) & RECORD for one in given)
        is_odd |= self._is_padded(name, words)
        is_odd |= "weights" in words and not whole.startswith("torchvision.models.")
        is_odd |= "plateau" in " ".join(ast.unparse(one).lower() for one in words.values())
        is_odd |= name == "from_pretrained" and any(map(_LOCAL.search, texts))
        is_odd |= name == "fit" and any(self.of(one) & RECORD for one in call.args[2:])
        is_odd |= ".callbacks." in whole and name not in WORDS["callbacks"]
        if name in ("EarlyStopping", "ModelCheckpoint"):
            watched = words.get("monitor") or next(iter(call.args), None)
            is_odd |= len(call.args) > (name == "EarlyStopping") or (
                watched is not None and not ASIDE.search(ast.unparse(watched))
            )
        hooks = words.get("callbacks")
        for one in getattr(hooks, "elts", [hooks] if hooks is not None else []):
            of = last_name(one.func) if isinstance(one, ast.Call) else last_name(one)
            is_odd |= of not in WORDS["callbacks"] and of not in self.classes and not isinstance(one, ast.Name)
        is_odd |= name == "load_state_dict" and not self.is_public(call)
        is_odd |= name in WORDS["seeds"] and bool(re.match("on_|.*_step$|forward$|call$|__", self._function(call)))
        if is_odd:
            self.ask(call)

    def _is_padded(self, name: str, words: Mapping[str, ast.expr]) -> bool:
        """Whether texts are as long as the longest of them, and it is not one of the models that leave padding out."""
        models = " ".join(ast.unparse(one.value) for one in self.script.attributes["from_pretrained"])
        is_masked = "forward" not in self.functions and re.search("Model|For[A-Z]", models) is not None
        padding = ast.unparse(words["padding"]) if "padding" in words else ""
        is_longest = name.startswith("DataCollator") or padding in ("True", "'longest'")
        return (is_longest and not is_masked) or (name == "pad_sequences" and "maxlen" not in words)

    def _function(self, node: ast.AST) -> str:
        return getattr(self.script.above(node, ast.FunctionDef), "name", "")

    def _has_own_axis(self, call: ast.Call, name: str, whole: str) -> bool:
        """Whether a layer that has an axis is told one that is not that of the records."""
        words = {one.arg: one.value for one in call.keywords}
        if not WATCHED.match(whole):
            return True
        if _ORDERED.fullmatch(name) and "keras" not in whole:
            return getattr(words.get("batch_first"), "value", False) is True
        given = [words[one] for one in ("dim", "axis", "start_dim") if one in words]
        if re.fullmatch("(?:Log)?Softm(?:ax|in)|(?:Un)?[fF]latten", name) and "keras" not in whole:
            given += call.args[:1]
        return all(re.fullmatch("-1|[1-9]", ast.unparse(one)) for one in given)

    # -- functions of the file ---------------------------------------------------------------------------------------

    def _is_here(self, call: ast.Call, name: str, on: Kinds) -> bool:
        """Whether a function of the file is called, or a method of a class of it."""
        if name not in self.functions:
            return False
        if not isinstance(call.func, ast.Attribute):
            return True
        is_own = last_name(call.func.value) == "self"
        return self.script.owner(self.functions[name][0]) is not None and (
            is_own or (name not in WORDS["methods"] and not on & (RECORD | FIGURE))
        )

    def _followed(self, call: ast.Call, name: str) -> Kinds:
        """A function of the file: what it is given, and what it returns."""
        found = NONE
        bodies = self.functions.get(name, [])
        if name in self.classes:
            bodies = [one for one in self.functions.get("__init__", ()) if self.script.owner(one) is self.classes[name]]
            given = [*call.args, *(one.value for one in call.keywords)]
            found = NONE.union(*map(self.of, given)) & (RECORD | FIGURE)
        for function in bodies:
            taken = dict(passed(function, call))
            for parameter, value in taken.items():
                key = function, getattr(parameter, "arg", "")
                self.add(key, self.of(value))
                self.tags[key] = self.tags.get(key, NONE) | self.tag(value)
            rest = NONE.union(*map(self.of, call.args), *(self.of(one.value) for one in call.keywords))
            for more in (function.args.vararg, function.args.kwarg):
                self.add((function, getattr(more, "arg", "")), rest)
            found |= self.kinds.get(("returned", function), NONE)
        return found

    def _mapped(self, call: ast.Call) -> None:
        """A function that puts examples into a batch goes through them one by one."""
        for word in call.keywords:
            if word.arg in ("collate_fn", "data_collator"):
                one = word.value
                if isinstance(one, ast.Call) and last_name(one.func) == "partial" and one.args:
                    one = one.args[0]
                here = self.functions.get(last_name(one), []) if isinstance(one, ast.Name | ast.Attribute) else []
                is_known = bool(LIBRARY.match(self.script.qualified(one))) or self.tag(one) == KNOWN
                if not (here or is_known) or not all(map(self._is_collated, here)):
                    self.ask(call)

    def _is_collated(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether the examples that a function is given are gone through one by one, or all given on."""
        names = [one.arg for one in function.args.args if one.arg != "self"]
        for use in (one for one in walk(function) if isinstance(one, ast.Name) and one.id == names[0]):
            above = self.script.parent[use]
            is_each = isinstance(above, ast.comprehension) and above.iter is use
            outer = self.script.parent[above]
            is_zip = isinstance(above, ast.Starred) and last_name(getattr(outer, "func", use)) == "zip"
            is_given = isinstance(above, ast.Call) and last_name(above.func) in ("len", "default_collate", "list")
            if not (is_each or is_zip or is_given):
                return False
        return True

    # -- kinds -------------------------------------------------------------------------------------------------------

    def _shown(self, call: ast.Call, name: str, on: Kinds, given: Kinds) -> Kinds:
        """What is printed, logged, or put into a list."""
        if name in PUTS and isinstance(call.func, ast.Attribute):
            self.add(self.key(self.root(call.func.value)), given)
            is_row = name == "append" and not given & (MODEL | OUTPUT) and self._is_row(call)
            if (given & (RECORD | MODEL) or (on & MODEL and given)) and not is_row:
                self.ask(call)
            return NONE
        is_other = self._function(call) == "training_step" and bool(given & FIGURE)
        is_other = is_other and ASIDE.search(" ".join(map(ast.unparse, call.args[:1]))) is not None  # "val_loss"
        if given & RECORD or is_other:
            self.ask(call)
        return NONE

    def _of_model(self, call: ast.Call, name: str, whole: str, on: Kinds, given: Kinds) -> Kinds:
        """What is done with a model: it is called, moved, saved, or given to a library that is known."""
        is_own = call in self.loop.steps and self.loop.framework == "private_transformers"  # optimizer.step(loss=loss)
        if given & (FIGURE | SIZE) and name not in WORDS["told"]:
            self.ask(call)
        is_called = isinstance(call.func, ast.Name) and (name == "self" or self.named(call.func) & MODEL)
        if is_called or not last_name(call.func):
            return RECORD | OUTPUT if given & RECORD else NONE
        if on & MODEL:
            if name == "compile":
                self._compiled(call)
            is_layer = isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "self"
            is_layer = is_layer and (bool(self.named(call.func) & MODEL) or self.tag(call.func) == KNOWN)
            if is_layer and given & RECORD:
                return RECORD | OUTPUT
            if name in ("evaluate", "predict") and given & RECORD:
                self.ask(call)
            is_fed = bool(given & RECORD) and name in WORDS["fed"]
            if name not in WORDS["methods"] or (given & RECORD and not is_fed and not is_own):
                self.ask(call)
            for one in call.args:  # a function that is given each part of the model
                for function in self.functions.get(last_name(one), ()):
                    self.add((function, function.args.args[0].arg if function.args.args else ""), MODEL)
            return RECORD | OUTPUT if given & RECORD and not is_fed else MODEL
        is_known = LIBRARY.match(whole) or name in WORDS["takes"] or self.tag(call) == KNOWN
        is_made = name[:1].isupper() or name in WORDS["fed"]
        if not is_known or (given & RECORD and not is_made):
            self.ask(call)
        return RECORD if name == "BatchMemoryManager" else MODEL

    def _compiled(self, call: ast.Call) -> None:
        """A loss of Keras that is none of the library's own is asked about as a whole."""
        losses = [one.value for one in call.keywords if one.arg == "loss"] + call.args[1:2]
        for one in losses:
            is_named = isinstance(one, ast.Constant) and isinstance(one.value, str | None)
            if not is_named and not self.tag(one) & (LOSSES | EACH_LOSS):
                self.ask(one)

    def _of_records(self, call: ast.Call, name: str, whole: str, on: Kinds, given: Kinds) -> Kinds:
        """What is made of records, each by itself, or a mean over all of them."""
        every, found = on | given, RECORD | ((on | given) & OUTPUT)
        if every & FIGURE or (every & SIZE and name not in ("view", "reshape")):
            self.ask(call)
            return found
        tags = self.tag(call if whole else call.func)  # also of nn.CrossEntropyLoss()(out, y)
        if tags & (LOSSES | EACH_LOSS):
            if tags & PAIRS:
                self._compared(call)
            return found if tags & EACH_LOSS else LOSS
        is_field = isinstance(call.func, ast.Attribute) and last_name(call.func.value) != "self"
        if tags == KNOWN and not whole and not is_field:
            return found
        axes = self._axes(call, bool(whole))
        if name in WORDS["reduces"]:
            return self._reduced(call, name, axes, every)
        several = sum(bool(self.of(one) & RECORD) for one in call.args)
        is_of_numbers = re.match(r"torch\.(?!utils)|numpy\.|tensorflow\.", whole) is not None
        if name in ("view", "reshape"):
            is_right = self._is_reshaped(call.args[bool(whole) :])
        elif name in ("cat", "concat", "concatenate", "stack"):
            is_right = self._is_joined(call, axes)
        elif name in WORDS["axed"]:
            is_last = name.endswith(("squeeze", "dims")) or (self.is_layered(call) and not self._is_squeezed(call))
            is_right = bool(axes or (name == "squeeze" and len(call.args) == bool(whole))) and all(
                re.fullmatch("[1-9]|-1" if is_last else "[1-9]", one) for one in axes or ()
            )
        elif name in WORDS["texts"] and not self.is_batch(call):  # of a file, or of a line of it
            is_right = several < 2 and not on & given & RECORD
        elif name == "select":
            is_right = last_name(getattr(call.args[0] if call.args else call, "func", call)) == "range"
        elif name in WORDS["each"] or LIBRARY.match(whole):
            is_right = not axes or all(re.fullmatch("-1|[1-9]", one) for one in axes) or not is_of_numbers
            is_right &= not is_of_numbers or several < 2
        else:
            is_right = False
        if not is_right:
            self.ask(call)
        return TOLD if name in WORDS["metrics"] and is_right else found

    def _compared(self, call: ast.Call) -> None:
        """A loss that broadcasts: outputs [B, 1] with targets [B] make all pairs."""
        texts = [ast.unparse(one) for one in call.args[:2]]
        like = re.findall(r"(?:view_as|reshape_as|expand_as)\(([\w.]+)\)", " ".join(texts))
        if not {*texts} & {*like}:
            self.ask(call)

    def _reduced(self, call: ast.Call, name: str, axes: list[str] | None, every: Kinds) -> Kinds:
        """Means and sums: along other axes than that of the records, or over all that a model made."""
        if axes and all(re.fullmatch("[1-9]", one) or (one == "-1" and not self._is_squeezed(call)) for one in axes):
            return RECORD | (every & OUTPUT)
        if not every & OUTPUT:
            self.ask(call)  # a statistic of the data
        return LOSS if not axes and name in ("mean", "reduce_mean") else TOLD

    def _is_squeezed(self, call: ast.Call) -> bool:
        """Whether the last axis may be that of the records, as another was taken away."""
        function = self.script.above(call, ast.FunctionDef) or self.script.tree
        return any(isinstance(one, ast.Attribute) and one.attr in ("squeeze", "squeeze_") for one in walk(function))

    def _is_joined(self, call: ast.Call, axes: list[str] | None) -> bool:
        """Parts of one record side by side in a layer, or the examples of a batch in its order."""
        first = call.args[0] if call.args else call
        if last_name(call.func) == "stack" and isinstance(first, ast.ListComp):
            return len(first.generators) == 1
        rows = self.script.lookup(first.id, first)[1] if isinstance(first, ast.Name) else []
        if last_name(call.func) == "stack" and rows:  # xs, ys = zip(*batch)
            return all(isinstance(row.value, ast.Call) and last_name(row.value.func) == "zip" for row in rows)
        return self.is_layered(call) and bool(axes) and all(re.fullmatch("[1-9]", one) for one in axes or ())

    def _is_reshaped(self, given: list[ast.expr]) -> bool:
        """Whether the first axis stays that of the records."""
        sizes = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        first = sizes[0] if sizes else None
        if first is None:
            return False
        if re.fullmatch(r"len\(\w+\)|\w+\.shape\[0\]|\w+\.size\(0\)", ast.unparse(first)):
            return len(sizes) > 1
        if ast.unparse(first) != "-1" or len(sizes) < 2 or not all(map(self.is_fixed, sizes[1:])):
            return False
        whole = 1
        for one in sizes[1:]:
            try:
                whole *= int(self.script.fold(one))
            except UnclearError:
                return False
        return self.is_layered(first) or whole in _WHOLES

    def _axes(self, call: ast.Call, is_of_library: bool) -> list[str] | None:
        """The axes that a call names, as they are written; None where it names none."""
        words = [one.value for one in call.keywords if one.arg in ("dim", "axis", "dims", "start_dim")]
        given = words or call.args[is_of_library:]
        given = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        return [text for one in given if re.fullmatch(r"-?\d+", text := ast.unparse(one))] or None
