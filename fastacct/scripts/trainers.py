"""What builds its own loop on PyTorch: the trainer of dp-transformers, and loops that clip and add noise by hand."""

from __future__ import annotations

import ast
import math
import re
from typing import Final

from fastacct.scripts.engines import draws_as, from_loader
from fastacct.scripts.found import Given, Loop, number
from fastacct.scripts.loops import around, is_single, iterated, passes
from fastacct.scripts.names import Script
from fastacct.scripts.sources import LOADER, Loader
from fastacct.scripts.steps import ask_of_file
from fastacct.scripts.tree import UnclearError, keywords

# -- dp-transformers -------------------------------------------------------------------------------------------------


def dp_transformers(loop: Loop, call: ast.Call) -> Loop:
    """A trainer of dp-transformers: it shuffles, whatever its accountant takes the batches for."""
    script = loop.script
    if not script.qualified(call.func).startswith("dp_transformers."):
        raise UnclearError(call, "this trainer is not that of dp-transformers")
    said = keywords(call, ("model", "args", "train_dataset", "privacy_args"))
    trains = [one for one in script.calls if getattr(one.func, "attr", "") == "train" and not one.args]
    key = script.origin(_target(script, call))
    trains = [one for one in trains if script.origin(one.func.value) == key]  # type: ignore[attr-defined]
    loop.take("records", said.get("train_dataset"))
    try:
        made = script.resolve(said["args"])
        if not isinstance(made, ast.Call) or not script.qualified(made.func).endswith(".TrainingArguments"):
            raise UnclearError(call, "TrainingArguments are not made here")
        arguments = keywords(made, ("output_dir",))
        size = arguments.get("per_device_train_batch_size") or ast.copy_location(ast.Constant(8), made)
        loop.take("batch_size", size)
        loop.take("epochs", arguments.get("num_train_epochs") or ast.copy_location(ast.Constant(3), made))
        if "max_steps" in arguments or len(trains) != 1 or is_single(script, trains[0]):
            loop.ask("epochs", f"line {call.lineno}: not one train() of whole epochs")
        several = arguments.get("gradient_accumulation_steps")
        if several is not None and number(script, several) != 1:
            loop.ask("batches", f"line {made.lineno}: batches are added up")
    except (UnclearError, KeyError) as error:
        loop.ask("batch_size epochs", error)
    try:
        made = script.resolve(said["privacy_args"])
        privacy = keywords(made, ()) if isinstance(made, ast.Call) else {}
    except (UnclearError, KeyError):
        privacy = {}
    loop.take("noise_multiplier", privacy.get("noise_multiplier"), "it is found when the script runs; print it")
    loop.take_delta(privacy.get("target_delta"))
    loop.target = number(script, privacy.get("target_epsilon"))
    loop.breaks = call.lineno, "this trainer shuffles, and leaves out the last records of each epoch"
    loop.notes.append("On one device.")
    draws_as(loop, Loader(LOADER[0], {"shuffle": True, "drop_last": True}, call.lineno))
    return loop


# -- by hand ---------------------------------------------------------------------------------------------------------

_NOISE: Final = ("randn_like", "normal", "normal_", "Normal", "gauss")
_CLIPS: Final = ("clip", "clamp", "minimum", "max_norm")
_DRAWN: Final = re.compile(r"(?:randn(?:_like)?|normal_?|Normal|gauss)\s*\(")
_SCALED: Final = re.compile(
    r"(?:sigma|noise_?(?:multiplier|scale|std)) ?\* ?[\w.]*(?:clip|norm|\bc)\b"
    r"|(?:clip|norm|\bc)\b ?\* ?[\w.]*(?:sigma|noise)"
)
"""Noise in units of a clipping norm."""


_GIVEN: Final = re.compile(r"noise_?(?:mult|scale|std)"), re.compile(r"clip|max_\w*norm")
"""Words of arguments that an optimizer or an engine of another library is given: noise, and a clipping norm."""


def is_by_hand(text: str) -> bool:
    """Whether a script may add noise to clipped gradients by itself, or by a library that is not known."""
    low, is_drawn = text.lower(), _DRAWN.search(text) is not None
    if all(one.search(low) for one in _GIVEN) or (is_drawn and "grad" in text and "DataLoader" in text):
        return True
    return _SCALED.search(low) is not None and (is_drawn or "grad" in text)


def is_given_noise(call: ast.Call) -> bool:
    """Whether a call is given noise and a clipping norm, as optimizers and engines are."""
    words = [one.arg or "" for one in call.keywords]
    words += [ast.unparse(one) for one in call.args if isinstance(one, ast.Name | ast.Attribute | ast.BinOp)]
    return all(any(one.search(word.lower()) for word in words) for one in _GIVEN)


def noisy(script: Script) -> ast.AST | None:
    """The smallest function or loop that adds noise in units of a clipping norm."""
    places = [one for one in ast.walk(script.tree) if isinstance(one, ast.FunctionDef | ast.For | ast.While)]
    texts = ((ast.unparse(one), one) for one in places)
    found = [(len(text), one) for text, one in texts if _DRAWN.search(text) and _SCALED.search(text.lower())]
    return min(found, key=lambda row: row[0])[1] if found else None


def by_hand(script: Script, loop_over: ast.For, given: Given) -> Loop | None:
    """A loop over a DataLoader that clips gradients and adds noise by itself: its noise is always asked for."""
    calls = (one.func for one in ast.walk(loop_over) if isinstance(one, ast.Call))
    names = [getattr(one, "attr", "") or getattr(one, "id", "") for one in calls]
    words = ast.unparse(loop_over).lower()
    is_private = any(one in _NOISE for one in names) and any(one in words for one in _CLIPS) and "grad" in words
    source = iterated(script, loop_over.iter)
    if not is_private or not isinstance(source, ast.Name | ast.Attribute):
        return None
    loop = Loop(script, "by hand", loop_over, given)
    loop.ask("noise_multiplier", f"line {loop_over.lineno}: the noise over the clipping norm, of the sum of gradients")
    loop.take_delta()
    ask_of_file(loop)
    try:
        loops, _ = around(script, loop_over.body[0])
        loop.values.setdefault("epochs", math.prod(passes(script, one) for one in loops[1:]))
    except UnclearError as error:
        loop.ask("epochs", error)
    return from_loader(loop, source, is_poisson=False)


def _target(script: Script, call: ast.Call) -> ast.expr:
    """The name that a call is assigned to."""
    above = script.parent[call]
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        return above.targets[0]
    raise UnclearError(call, "what is done with this cannot be told")
