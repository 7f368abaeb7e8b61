"""Layers, losses and transformations that combine the records of a batch, by their names."""

from __future__ import annotations

import ast
import re
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.names import Script
from fastacct.scripts.tree import last_name, parts, walk

_MIXING: Final = re.compile(
    r"mix_?up|cut_?mix|batch_?norm|batch_?renorm|contrastive|nt_?xent|info_?nce|sup_?con|simclr|triplet|center_?loss"
    r"|barlow|vicreg|multiplenegatives|mosaic",
    re.I,
)
"""Names of layers, losses and transformations that combine records."""
_REPLACED: Final = ("fix", "fix_and_validate", "convert_batchnorm_modules")
"""Functions of Opacus that put other layers in the place of those that combine records; it refuses the latter."""
_MODELS: Final = re.compile(r"(?:tensorflow\.)?keras\.applications\.(?!.*(?:VGG|vgg))")
"""Models of Keras that normalise by batches."""
_KINDS: Final = (
    r"(?:wide_)?resne[xs]?t|densenet|mobilenet|efficientnet|inception|googlenet|shufflenet|mnasnet|regnet|vgg\d+_bn"
)
_NORMALISED: Final = re.compile(rf"torchvision\.models\.(?:\w+\.)*(?:{_KINDS})"), re.compile(rf"(?:{_KINDS})(?!\w*_gn)")
"""Models of PyTorch that normalise by batches until eval() is called: by their functions, and by words."""
_BY_WORD: Final = ("timm.create_model", "torch.hub.load")
_STAYS: Final = ("to", "cuda", "cpu", "eval", "train", "children", "named_children", "features", "requires_grad_")
"""What is a model, or parts of it, of a model."""
_TESTS: Final = re.compile(r"test|eval|valid|predict|infer|accuracy", re.I)


def combining(loop: Loop) -> ast.AST | None:
    """A layer, a loss or a transformation that combines records, by its name."""
    script = loop.script
    names = (name for name in (*script.attributes, *script.uses) if _MIXING.search(name) and name not in _REPLACED)
    is_replaced = loop.framework == "opacus" and _is_replaced(script)
    for name in names:
        if "norm" in name.lower() and is_replaced:
            continue
        for one in (*script.attributes[name], *script.uses[name]):
            above = script.parent[one]
            call = script.parent[above] if isinstance(above, ast.keyword) else above
            is_named = isinstance(call, ast.Call) and (call.func is one or name[:1].isupper())
            if (is_named and not script.is_call(call, "builtins.isinstance")) or isinstance(above, ast.ClassDef):
                return one
    normalised = () if is_replaced else (one for one in script.calls if _is_normalised(script, one))
    return next((one for one in script.calls if _MODELS.match(script.qualified(one.func))), None) or next(
        (one for one in normalised if _is_in_train_mode(script, one)), None
    )


def _is_replaced(script: Script) -> bool:
    """Whether Opacus replaces layers that normalise by batches: it leaves those that are frozen before."""
    fixed = [one.lineno for name in _REPLACED for one in script.attributes[name]]
    frozen = [one.lineno for name in ("requires_grad", "requires_grad_") for one in script.attributes[name]]
    return bool(fixed) and min(fixed) < min([*frozen, max(fixed) + 1])


def _is_normalised(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a model that normalises by batches."""
    whole, words = script.qualified(call.func), [getattr(one, "value", None) for one in call.args]
    if any(one.arg == "norm_layer" for one in call.keywords):
        return False
    by_word = whole in _BY_WORD and any(isinstance(one, str) and _NORMALISED[1].match(one) for one in words)
    return by_word or _NORMALISED[0].match(whole) is not None


def _is_in_train_mode(script: Script, made: ast.Call) -> bool:
    """Whether a model that a call makes is in train mode, as it is until its eval() is called."""
    names: set[str] = set()
    makers: set[str] = set()

    def holds(value: ast.AST | None) -> bool:
        for one in walk(value) if value is not None else ():
            above = script.parent[one]
            is_called = isinstance(above, ast.Call) and above.func is one
            known = makers if is_called else names
            if one is made or (last_name(one) in known and getattr(above, "attr", "eval") in _STAYS):
                return True
        return False

    size = -1
    while size != (size := len(names) + len(makers)):
        for node in script.nodes:
            if isinstance(node, ast.Assign) and holds(node.value):
                names |= {last_name(one) for each in node.targets for one in parts(each)}
                makers |= {owner.name for owner in (script.owner(node),) if owner is not None}
            elif isinstance(node, ast.Return) and holds(node.value):
                makers |= {one.name for one in (script.above(node, ast.FunctionDef),) if one is not None}
            elif isinstance(node, ast.FunctionDef):
                taken = [one.arg for one in node.args.args if one.arg != "self"]
                called = [one for one in script.calls if last_name(one.func) == node.name]
                given = [pair for one in called for pair in zip(taken, one.args, strict=False)]
                given += [(word.arg, word.value) for one in called for word in one.keywords if word.arg]
                names |= {name for name, value in given if holds(value)}
    on: list[ast.Attribute] = []
    off: list[ast.Attribute] = []
    for one in (*script.attributes["train"], *script.attributes["eval"]):
        within, call = script.above(one, ast.FunctionDef), script.parent[one]
        if holds(one.value) and isinstance(call, ast.Call) and not (within and _TESTS.search(within.name)):
            is_off = one.attr == "eval" or any(getattr(each, "value", 1) is False for each in call.args)
            (off if is_off else on).append(one)
    return not any(all(_is_after(script, one, each) for each in on) for one in off)


def _is_after(script: Script, off: ast.Attribute, on: ast.Attribute) -> bool:
    """Whether a part of a model is always set to eval mode after the whole is set to train mode."""
    function = script.above(off, ast.FunctionDef)
    is_method = function is not None and function.name == "train" and script.owner(function) is not None
    is_here = script.above(on, ast.FunctionDef) is function and on.lineno < off.lineno
    return isinstance(off.value, ast.Attribute) and (is_method or is_here)
