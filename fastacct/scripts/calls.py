"""Calls of a training that are plain, and what they make of records, of figures and of models."""

from __future__ import annotations

import ast
import re
from typing import Final

from fastacct.scripts.apart import Apart
from fastacct.scripts.kinds import (
    ALL,
    ASIDE,
    DATA,
    EACH_LOSS,
    FIGURE,
    KNOWN,
    LIBRARY,
    LOSS,
    LOSSES,
    MODEL,
    NONE,
    OUTPUT,
    RECORD,
    SHOWN,
    SUM,
    TOLD,
    WATCHED,
    WORDS,
    Kinds,
)
from fastacct.scripts.steps import is_off
from fastacct.scripts.tree import UnclearError, last_name, walk

_MEANT: Final = ("mean", "sum", "reduce_mean", "reduce_sum")
_READS: Final = re.compile(r"^load|^read|^memmap$|genfromtxt|loadtxt|Dataset$|MNIST|CIFAR|SVHN|ImageFolder")
_TABLES: Final = re.compile(
    r"^(?:pandas|polars)\.read_|^numpy\.(?:load|genfromtxt|loadtxt|memmap)$|^torchvision\.datasets\.|^datasets\.load_dataset$"
)
_NORMED: Final = re.compile(
    r"^(?:wide_)?(?:resn[e]xt|resnet|mobilenet|densenet|efficientnet|regnet|inception|shufflenet|googlenet|mnasnet"
    r"|vgg\d+_bn)|keras\.applications\.(?!VGG)"
    r"|create_model .*(?:resn|mobilenet|densenet|efficientnet|regnet|inception)",
    re.I,
)
"""Models that normalise by batches."""
_LOCAL: Final = re.compile(
    r"^[./~]|^(?:out|run|result|save|model|log|exp)\w*/|checkpoint|ckpt|\.(?:pt|pth|bin|h5|safetensors)$"
)
_PUTS: Final = ("append", "extend", "add", "update", "appendleft", "extendleft", "insert", "put", "push")
_COUNTS: Final = re.compile(r"^(?:torch|numpy|math|tensorflow|jax)\.")
_SEEDS: Final = ("seed_everything", "manual_seed", "manual_seed_all", "set_seed", "seed", "set_random_seed")
_MODE: Final = re.compile("True|False|mode|train|is_", re.I)
_HOOK: Final = re.compile(r"on_\w+|\w+_step|forward|call|__getitem__|__call__|closure")
_SHOWS: Final = re.compile(r"^(?:wandb|mlflow|logging|matplotlib|seaborn|rich)\b")


class Calls(Apart):
    """Calls with the kinds of their values."""

    def _call(self, call: ast.Call) -> Kinds:
        whole = self.script.qualified(call.func)
        name = whole.rpartition(".")[2] or last_name(call.func)  # of what is imported by another name, too
        given = [one.value if isinstance(one, ast.Starred) else one for one in call.args]
        kinds = [
            *(self.of(one) | (RECORD if name in _PUTS and self.is_length(one) else NONE) for one in given),
            *(self.of(one.value) & (ALL if one.arg not in WORDS["mapping"] else NONE) for one in call.keywords),
        ]
        within = call.func.value if isinstance(call.func, ast.Attribute) and not whole else None
        of = self.of(within) if within is not None else NONE
        by_name = self.named(call.func) & TOLD if isinstance(call.func, ast.Name) and not whole else NONE
        every = NONE.union(of, by_name, *kinds)
        if not isinstance(call.func, ast.Name | ast.Attribute):
            self.of(call.func)
        self._local(call, name, whole)
        if name in ("dump", "savez", "savetxt", "to_csv", "to_json"):
            self.add("a file", every & TOLD)
        if name in ("load", "loads", "loadtxt", "read_csv", "read_json") and (kept := self.kinds.get("a file", NONE)):
            return kept | SHOWN
        if name in WORDS["maps"] or any(one.arg in WORDS["mapping"] for one in call.keywords):
            self._mapped(call)
        if not whole and name in self.classes:
            for one in (each for each in self.classes[name].body if getattr(each, "name", "") == "__init__"):
                for parameter, value in self.flow.passed(one, call):
                    self.add((one, getattr(parameter, "arg", "")), self.of(value) & (RECORD | TOLD))
        if self._is_here(call, name, whole):
            return self._followed(call, name, given)
        called = call.func if isinstance(call.func, ast.Name) or last_name(within or call) == "self" else None
        if called is not None and not whole and (self.of(called) & MODEL or name == "self") and RECORD & every:
            if every & TOLD:
                self.ask(call)
            return RECORD | OUTPUT
        if not every and _READS.search(name):
            owner = self.script.owner(call)
            is_data = owner is not None and any(getattr(one, "name", "") == "__getitem__" for one in owner.body)
            is_aside = re.search("train=False|(?:test|valid(?:ation)?)(?![a-z])", ast.unparse(call)) is not None
            return RECORD if is_data or (_TABLES.search(whole) and not is_aside) else NONE
        if name in WORDS["extremes"] and any(map(self.is_length, given)):
            return SHOWN
        if not every:
            return MODEL if whole.startswith("torch.optim.") else NONE
        if name == "range" and every & TOLD:
            self.ask(call)
        if name in WORDS["sizes"] and (name != "len" or within is None):
            return SHOWN if every & SHOWN and name == "len" else NONE
        if (
            (name.endswith("_") or name.startswith("assign"))
            and name[:1] != "_"
            and isinstance(within, ast.Name | ast.Attribute)
            and NONE.union(*kinds)
        ):
            self.add(self.key(within), NONE.union(*kinds))
            if not isinstance(within, ast.Name) or of & (MODEL | RECORD & NONE.union(*kinds)):
                self.ask(call)
            return of | NONE.union(*kinds)
        if name in ("backward", "manual_backward"):
            is_summed = re.search("loss_reduction=.sum", self.script.text) is not None
            is_other = bool(every & FIGURE) and self.loop.framework == "opacus" and bool(every & SUM) != is_summed
            if every & (SHOWN | RECORD) or (NONE.union(*kinds) and of & FIGURE) or is_other:
                self.ask(call)
            return NONE
        if name in WORDS["learns"] and RECORD & NONE.union(*kinds):
            self.ask(call)
        is_inner = name == "getattr" and getattr(call.args[1], "value", "grad") in WORDS["inner"]
        is_inner |= name == "save" and any(re.search("optim", last_name(one)) for one in call.args)
        if name in ("watch", "setattr") or is_inner or (name[:1].isupper() and every & TOLD):
            self.ask(call)
        is_figure = name == "log" and (of & TOLD or _COUNTS.match(whole))
        if is_figure and not every & RECORD:
            return SHOWN
        is_list = name in _PUTS
        if (name in WORDS["shows"] and not (is_list and whole) and not is_figure) or _SHOWS.match(whole):
            return self._shown(call, name, of, kinds)
        if every & MODEL:
            return self._of_model(call, name, whole, of, NONE.union(*kinds))
        if every & RECORD:
            found = self._of_records(call, name, whole, every)
            if found & RECORD:
                return found | (every & OUTPUT)
            found |= SUM if name in ("sum", "reduce_sum") and found & FIGURE else NONE
            is_loss = every & OUTPUT or LOSSES.search(whole) or self.tag(call.func) & LOSS
            return found if is_loss else found | DATA
        if whole.startswith(("subprocess.", "shutil.", "os.")) or name.startswith("load"):
            self.ask(call)
        if whole in ("torch.save", "numpy.save", "numpy.savez", "pickle.dump") and every & SHOWN:
            self.ask(call)
        for thing in (*given, within) if not LIBRARY.match(whole) and not _COUNTS.match(whole) else ():
            if isinstance(thing, ast.Name | ast.Attribute | ast.Subscript):  # what may keep the others
                self.add(self.key(self.root(thing)), NONE.union(*kinds))
        return SHOWN | (every & DATA) if name not in WORDS["same"] else every  # of figures

    def _local(self, call: ast.Call, name: str, whole: str) -> None:
        """What is asked of a call whatever it is given: weights of a file, layers and axes that are not known."""
        if (WATCHED.match(whole) and not LIBRARY.match(whole)) or not self.has_own_axis(call, whole):
            self.ask(call)
        if re.search(r"^keras\.callbacks|\.callbacks\.", whole) and name not in WORDS["callbacks"]:
            self.ask(call)
        if name in ("ModelCheckpoint", "EarlyStopping") and len(call.args) > 1:
            self.ask(call)
        if name == "fit" and any(self.of(one) & RECORD for one in call.args[2:]):
            self.ask(call)
        is_learned = name.lower() in ("train", "from_files") and re.match(
            "sentencepiece|fasttext|gensim|tokenizers", whole
        )
        is_method = name == "train" and isinstance(call.func, ast.Attribute) and not whole
        if is_learned or (is_method and any(not _MODE.search(ast.unparse(one)) for one in call.args)):
            self.ask(call)
        here = self.script.above(call, ast.FunctionDef)
        if name in _SEEDS and _HOOK.match(getattr(here, "name", "")):
            self.ask(call)
        texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        odd = WORDS["odd"] - ({"weights"} if whole.startswith("torchvision.models.") else set())
        if any(one.arg in odd or "plateau" in ast.unparse(one.value).lower() for one in call.keywords):
            self.ask(call)
        words = {one.arg: one.value for one in call.keywords}
        made = f"{name} {texts[0] if name == 'create_model' and texts else ''}"
        trained = self.script.text.partition("requires_grad")[0]  # what is frozen is left as it is
        is_normed = re.search("[bB]atch_?[nN]orm", name) or (
            _NORMED.search(whole if "keras.app" in whole else made) and "norm_layer" not in words
        )
        if name in WORDS["sets"] or (is_normed and "ModuleValidator.fix(" not in trained):
            self.ask(call)
        if any(one in words and self.of(words[one]) & RECORD for one in WORDS["aside"]):
            self.ask(call)
        watched = words.get("monitor") or next(iter(call.args if name == "EarlyStopping" else ()), None)
        if watched is not None and not ASIDE.search(ast.unparse(watched)):
            self.ask(call)
        hooks = words.get("callbacks")
        for one in hooks.elts if isinstance(hooks, ast.List | ast.Tuple) else [hooks] if hooks is not None else []:
            made = last_name(one.func) if isinstance(one, ast.Call) else last_name(one)
            if made not in WORDS["callbacks"] and made not in self.classes and not isinstance(one, ast.Name):
                self.ask(call)
        if name == "TensorBoard" and {one.arg for one in call.keywords} - {"log_dir"}:
            self.ask(call)
        if (name == "from_pretrained" and any(map(_LOCAL.search, texts))) or name in ("load_model", "load_weights"):
            self.ask(call)

    def _is_here(self, call: ast.Call, name: str, whole: str) -> bool:
        if whole or name not in self.functions:
            return False
        is_own = last_name(getattr(call.func, "value", call)) == "self"
        if name in {"backward", "save", "dump"} | WORDS["reduces"] and not is_own:
            return isinstance(call.func, ast.Name)
        return not isinstance(call.func, ast.Attribute) or self.script.owner(self.functions[name][0]) is not None

    def _followed(self, call: ast.Call, name: str, given: list[ast.expr]) -> Kinds:
        """A function of the file: what it is given, and what it returns."""
        found = NONE
        for function in self.functions[name]:
            for parameter, value in self.flow.passed(function, call):
                key = function, getattr(parameter, "arg", "")
                self.add(key, self.of(value))
                self.tags[key] = self.tags.get(key, NONE) | self.tag(value)
            every = NONE.union(*map(self.of, (*given, *(one.value for one in call.keywords))))
            for rest in (function.args.vararg, function.args.kwarg):
                self.add((function, getattr(rest, "arg", "")), every)
            found |= self.kinds.get(("returned", function), NONE)
        return found

    def _mapped(self, call: ast.Call) -> None:
        """A function that a data set is mapped with is given records."""
        words = {one.value: one.arg or "" for one in call.keywords}
        for one in (*call.args, *words):
            whole = words.get(one, "")
            is_given = whole in ("collate_fn", "data_collator") and isinstance(one, ast.Name | ast.Attribute)
            if is_given and last_name(one) not in self.functions and not self._is_of_library(one):
                self.ask(call)
            taken: list[ast.arg] = []
            if isinstance(one, ast.Lambda):
                taken, scope = one.args.args, one
                for each in taken:
                    self.add((scope, each.arg), RECORD)
                self.of(one.body)
            for function in self.functions.get(last_name(one), ()) if isinstance(one, ast.Name) else ():
                if whole in ("collate_fn", "data_collator") and not self._is_collated(function):
                    self.ask(call)
                free = len(function.args.args) - len(function.args.defaults)
                for each in function.args.args[: max(1, free)]:
                    self.add((function, each.arg), RECORD)
                if self.kinds.get(("returned", function), NONE) & TOLD and not whole.endswith("func"):
                    self.ask(call)

    def _is_of_library(self, node: ast.expr) -> bool:
        return LIBRARY.match(self.script.qualified(node)) is not None or self.tag(node) == KNOWN

    def _is_collated(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether the examples that a function puts into a batch are gone through one by one, or all given on."""
        name = function.args.args[0].arg if function.args.args else ""
        for use in (one for one in walk(function) if isinstance(one, ast.Name) and one.id == name):
            above = self.script.parent[use]
            if isinstance(above, ast.comprehension) and above.iter is use:
                ok = len(getattr(self.script.parent[above], "generators", ())) == 1
            elif isinstance(above, ast.Starred):
                outer = self.script.parent[above]
                ok = isinstance(outer, ast.Call) and last_name(outer.func) == "zip"
            else:
                ok = isinstance(above, ast.Call) and use in above.args
                name_of = last_name(above.func) if isinstance(above, ast.Call) else ""
                ok = ok and name_of not in ("chain", "append", "extend", "cat", "concatenate", "repeat")
            if not ok:
                return False
        return True

    def _shown(self, call: ast.Call, name: str, of: Kinds, kinds: list[Kinds]) -> Kinds:
        """What is printed, logged, or put into a list."""
        given = NONE.union(*kinds)
        if name in _PUTS and isinstance(call.func, ast.Attribute):
            self.add(self.key(self.root(call.func.value)), given)
            is_used = of & given & RECORD and not isinstance(self.script.parent[call], ast.Expr)
            root = self.root(call.func.value)
            rows = self.script.lookup(root.id, root)[1] if isinstance(root, ast.Name) else []
            is_more = any(isinstance(row.value, ast.ListComp) and self.of(row.value) & RECORD for row in rows)
            if (of & MODEL and given & TOLD) or is_used or (is_more and given & RECORD):
                self.ask(call)
            return NONE
        here = getattr(self.script.above(call, ast.FunctionDef), "name", "")
        is_hidden = (
            here == "training_step" and given & TOLD and ASIDE.search(" ".join(map(ast.unparse, call.args[:1])))
        )  # "val_loss"
        if given & (RECORD | DATA) or is_hidden:
            self.ask(call)
        return NONE

    def _of_model(self, call: ast.Call, name: str, whole: str, of: Kinds, given: Kinds) -> Kinds:
        """What is done with a model: it is called, it is moved to a device, or given to a library that is known."""
        within = call.func.value if isinstance(call.func, ast.Attribute) else None
        if of & MODEL:
            if name == "compile":
                self._compiled(call)
            is_state = name == "load_state_dict" and within is not None and "opt" in last_name(within).lower()
            is_state |= name == "load_state_dict" and call.lineno < self.loop.line and not self._is_public(call)
            if is_state or (given & TOLD and name not in WORDS["told"] | WORDS["shows"]):
                self.ask(call)
            if within is not None and last_name(within) == "self" and self.is_layer(call):
                return RECORD
            for one in call.args:  # a function that is given each part of the model
                for function in self.functions.get(last_name(one), ()):
                    self.add((function, function.args.args[0].arg if function.args.args else ""), MODEL)
            if name in ("fit", "predict") and given & RECORD and within is not None and not self._trains(within):
                self.ask(call)
            if name in WORDS["methods"] or re.match(r"get_\w*epsilon", name):
                return MODEL if not given & RECORD or name in ("fit",) else RECORD
            self.ask(call)
            return RECORD if given & RECORD else MODEL
        if given & TOLD and name not in WORDS["both"]:
            self.ask(call)
        is_both = bool(given & MODEL and given & RECORD) and name[:1].islower()
        is_both = is_both and name not in WORDS["both"] and not name.startswith("make_private")
        if is_both:
            self.ask(call)
        is_made = isinstance(within, ast.Name) and self.tag(within) == KNOWN and name in WORDS["methods"]
        is_library = LIBRARY.match(whole) is not None and not is_both
        if (
            name.startswith("make_private")
            or is_library
            or is_made
            or name in WORDS["takes"]
            or (self.tag(call) == KNOWN and not is_both)
        ):
            is_loader = name == "BatchMemoryManager" or (given & RECORD and not given & MODEL)
            return RECORD if is_loader else MODEL
        self.ask(call)
        return given

    def _is_public(self, call: ast.Call) -> bool:
        """Whether weights are those of another module, or of an address."""
        try:
            made = [part for one in call.args for part in walk(self.script.resolve(one)) if isinstance(part, ast.Call)]
        except UnclearError:
            return False
        return is_off(self.script, call) or all(
            last_name(one.func) == "state_dict" or "url" in last_name(one.func) for one in made
        )

    def _trains(self, node: ast.expr) -> bool:
        """Whether what has a method fit() is no thing of a library that learns from records without noise."""
        try:
            made = self.script.resolve(node)
        except UnclearError:
            made = node
        whole = self.script.qualified(made.func) if isinstance(made, ast.Call) else ""
        return not whole or LIBRARY.match(whole) is not None

    def _compiled(self, call: ast.Call) -> None:
        """A loss of Keras that is none of the library's own is asked about as a whole."""
        losses = [one.value for one in call.keywords if one.arg == "loss"] + call.args[1:2]
        for one in losses:
            is_named = isinstance(one, ast.Constant) and isinstance(one.value, str | None)
            if not is_named and not self.tag(one) & (LOSS | EACH_LOSS):
                self.ask(one)

    def _of_object(self, call: ast.Call) -> Kinds:
        """What forward() of a class of the file tells of records, where one of its objects is called."""
        rows = self.script.lookup(call.func.id, call)[1] if isinstance(call.func, ast.Name) else []
        made = [self.classes.get(last_name(row.value.func)) for row in rows if isinstance(row.value, ast.Call)]
        ends = [
            each for one in made if one for each in one.body if getattr(each, "name", "") in ("forward", "__call__")
        ]
        return NONE.union(*(self.kinds.get(("returned", one), NONE) & TOLD for one in ends))

    def _of_records(self, call: ast.Call, name: str, whole: str, every: Kinds) -> Kinds:
        """What is made of records."""
        if every & TOLD:
            self.ask(call)
            return RECORD
        tags = NONE if whole and not LOSSES.search(whole) else self.tag(call if whole else call.func)
        if tags & (LOSS | EACH_LOSS):
            return RECORD if tags & EACH_LOSS else FIGURE | (tags & SUM)
        axes = self.axes(call, whole)
        if (told := self._of_object(call)) or self.is_layer(call):  # also one with the name of such a function
            return told or RECORD
        if name in WORDS["reduces"]:
            if axes is None:
                if name == "sum" and any(isinstance(one, ast.List) for one in call.args[1:]):
                    self.ask(call)
                return FIGURE if name in _MEANT else RECORD | SHOWN if name in WORDS["extremes"] else SHOWN
            return RECORD if axes and all(re.fullmatch("-1|[1-9]|.*range.*", one) for one in axes) else SHOWN
        if name in WORDS["orders"]:
            if axes is None or "0" in (axes[1:] if name == "permute" else axes) or self.is_flat(call, axes):
                self.ask(call)
            return RECORD
        if name in ("view", "reshape") and call.args:
            if not self.is_reshaped(call.args[0 if isinstance(call.func, ast.Attribute) and not whole else 1 :]):
                self.ask(call)
            return RECORD
        if name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"):
            return self.joined(call, axes)
        if not self.is_one_by_one(call, name, whole):
            self.ask(call)
        if name in WORDS["metrics"]:
            return SHOWN
        if name in ("Subset", "select") and not self.is_once(call):
            self.ask(call)
        if name in WORDS["each"] or LIBRARY.match(whole) or self.is_layer(call) or (not whole and name in self.classes):
            return RECORD
        self.ask(call)
        return RECORD
