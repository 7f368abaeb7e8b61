"""What builds its own loop on PyTorch: the trainer of dp-transformers, and loops that clip and add noise by hand."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from fastacct.scripts import noise, tables
from fastacct.scripts.accounts import claims
from fastacct.scripts.engines import draws_as, from_loader, take_trainer
from fastacct.scripts.found import Given, Loop, asked, number
from fastacct.scripts.loops import around, is_single, iterated, passes
from fastacct.scripts.names import Script
from fastacct.scripts.sources import LOADER, Loader
from fastacct.scripts.steps import ask_of_file
from fastacct.scripts.tree import UnclearError, keywords, last_name, walk

_SEED: Final = "The trainer seeds the noise with the seed of its arguments, 42 by default: take a secret one."
_TRAINS: Final = ("fit", "backward", "step", "grad", "value_and_grad", "gradient", "apply_gradients", "train")
_NOISE: Final = re.compile(rf"{noise.DRAWN.pattern}|(?:exponential|gumbel|standard_cauchy)$")
_METERS: Final = re.compile(r"fastacct\.(?:training\.)?Meter$|fastacct\.training\.\w+\.(?:Guard|Metered)$")
_VOTES: Final = re.compile(r"\bPATE\b|[Tt]eachers")
_WHOLE: Final = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_by_global_norm")
"""Functions that clip all gradients as they are, which in a loop over batches are those of a batch."""

# -- dp-transformers -------------------------------------------------------------------------------------------------


def dp_transformers(loop: Loop, call: ast.Call) -> Loop:
    """A trainer of dp-transformers: it shuffles, whatever its accountant takes the batches for."""
    script = loop.script
    if not script.qualified(call.func).startswith("dp_transformers."):
        raise UnclearError(call, "this trainer is not that of dp-transformers")
    said = keywords(call, ("model", "args", "train_dataset", "privacy_args"))
    _take_arguments(loop, call, said)
    try:
        made = script.resolve(said["privacy_args"])
        privacy = keywords(made, ()) if isinstance(made, ast.Call) else {}
    except (UnclearError, KeyError):
        privacy = {}
    loop.take("noise_multiplier", privacy.get("noise_multiplier"), "it is found when the script runs; print it")
    loop.take_delta(privacy.get("target_delta"))
    loop.target = number(script, privacy.get("target_epsilon"))
    loop.breaks = call.lineno, "this trainer shuffles, and leaves out the last records of each epoch"
    loop.notes.append(_SEED)
    ask_of_file(loop)
    draws_as(loop, Loader(LOADER[0], {"shuffle": True, "drop_last": True}, call.lineno))
    return loop


def _take_arguments(loop: Loop, call: ast.Call, said: Mapping[str, ast.expr]) -> Mapping[str, ast.expr]:
    """Take data, batches and epochs of a trainer of Hugging Face; the arguments of its TrainingArguments."""
    script, arguments = loop.script, dict[str, ast.expr]()
    trains = [one for one in script.calls if getattr(one.func, "attr", "") == "train" and not one.args]
    key = script.origin(_target(script, call))
    loop.own = trains = [one for one in trains if script.origin(one.func.value) == key]  # type: ignore[attr-defined]
    loop.data += [said["train_dataset"]] if "train_dataset" in said else []
    loop.take("records", said.get("train_dataset"))
    try:
        made = script.resolve(said["args"])
        if not isinstance(made, ast.Call) or not script.qualified(made.func).endswith(".TrainingArguments"):
            raise UnclearError(call, "TrainingArguments are not made here")
        arguments = keywords(tables.spread(script, made, partial(script.resolve, once=True)), ("output_dir",))
        size = arguments.get("per_device_train_batch_size") or ast.copy_location(ast.Constant(8), made)
        loop.take("batch_size", size)
        loop.take("epochs", arguments.get("num_train_epochs") or ast.copy_location(ast.Constant(3), made))
        if "max_steps" in arguments or len(trains) != 1 or trains[0].keywords or is_single(script, trains[0]):
            loop.ask("epochs", f"line {call.lineno}: not one train() of whole epochs")
        several = arguments.get("gradient_accumulation_steps")
        if several is not None and number(script, several) != 1:
            loop.ask("batches", f"line {made.lineno}: batches are added up")
            loop.ask_instead("batch_size", f"line {made.lineno}: of all batches of a step together")
    except (UnclearError, KeyError) as error:
        loop.ask("batch_size epochs", error)
    loop.notes.append("On one device.")
    return arguments


# -- an optimizer of Opacus that a trainer is given ------------------------------------------------------------------

_GIVEN: Final = ("model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class")
_KEEPS: Final = re.compile(
    r"output_dir|per_device_train_batch_size|num_train_epochs|gradient_accumulation_steps|logging_|save_|eval_|evaluation"
    r"|report_to|use_cpu|no_cuda|disable_tqdm|remove_unused_columns|seed|data_seed|lr_|learning_rate|weight_decay|warmup"
    r"|optim|bf16|fp16|run_name|per_device_eval|label_names|dataloader_(?:num_workers|pin_memory|drop_last)|max_grad_norm"
)
"""Arguments of Hugging Face's trainer that leave its batches and epochs as they are, or are taken."""


def with_optimizer(loop: Loop, call: ast.Call) -> Loop | None:
    """An optimizer of Opacus that a trainer of Hugging Face or Lightning is given, which shuffle; None if none is."""
    script, owner = loop.script, loop.script.owner(call)
    given = [(one, word.value) for one in script.calls for word in one.keywords if word.arg == "optimizers"]
    given = [(one, value.elts[0]) for one, value in given if isinstance(value, ast.Tuple) and value.elts]
    hook = script.above(call, ast.FunctionDef)
    if owner is not None and hook is not None and hook.name == "configure_optimizers":
        if (fit := take_trainer(loop)) is None or "train_dataloaders" not in fit:
            return None
        ends = [one.value for one in walk(hook) if isinstance(one, ast.Return) and one.value is not None]
        hooks = [one for one in script.nodes if getattr(one, "name", "") == hook.name]
        if len(hooks) > 1 or [script.resolve(one) for one in ends] != [call]:
            loop.own = []  # steps of other optimizers, too
        loop = from_loader(loop, fit["train_dataloaders"], is_poisson=False)
    elif len(given) == 1 and script.resolve(given[0][1]) is call:
        trainer = given[0][0]
        if not script.is_call(trainer, "transformers.Trainer", "transformers.trainer.Trainer"):
            return None
        said = keywords(trainer, _GIVEN)
        arguments = _take_arguments(loop, trainer, said)
        for name in arguments:
            if not _KEEPS.match(name):
                loop.ask("batches epochs", f"line {arguments[name].lineno}: {name} may change batches or epochs")
        drop = arguments.get("dataloader_drop_last")
        if "stream" in script.text or "Iterable" in script.text:
            loop.ask("batches", f"line {trainer.lineno}: data without a length is not shuffled as a whole")
        settings: dict[str, bool | int] = {"shuffle": True, "drop_last": bool(drop is not None and script.fold(drop))}
        draws_as(loop, Loader(LOADER[0], settings, trainer.lineno))
        loop.lower_holds &= "callbacks" not in said
    else:
        return None
    loop.breaks = None  # nothing says that the batches are Poisson
    own = keywords(tables.spread(script, call, partial(script.resolve, once=True)), ("optimizer",))
    loop.take("noise_multiplier", own.get("noise_multiplier"))
    loop.take_delta()
    if "generator" in own:
        loop.ask_secret(own["generator"])
    elif len(given) == 1:
        loop.notes.append(_SEED)
    for one in script.attributes["optimizer"]:
        if not isinstance(one.ctx, ast.Load) and last_name(one.value) != "self":
            loop.asks["noise"] = (
                f"line {one.lineno}: {ast.unparse(one)} is set: its steps are not those of {call.lineno}"
            )
    ask_of_file(loop)
    return loop


# -- by hand ---------------------------------------------------------------------------------------------------------


_OF_MODEL: Final = re.compile(r"^(?:\w*_)?(?:params?|parameters|grads?|gradients|weights|layers|variables)\d*$", re.I)
"""Names of what a model has several of, over which no loop is one over batches."""
_EACH: Final = re.compile(
    r"grad_?sample|grad1|grad_batch|BatchGrad|backpack|vmap|functorch|jacrev|hook|per_?(?:example|sample)", re.I
)
"""Words of scripts that find gradients of single records in one call."""


def by_hand(script: Script, place: ast.AST, given: Given) -> Loop:
    """A loop that clips gradients and adds noise by itself: its noise is always asked for."""
    found = _over_batches(script, place)
    loop = Loop(script, "by hand", found[-1][0] if found else place, given)
    if not found:
        here = script.above(place, ast.FunctionDef)
        whole = [one for one in (walk(here) if here else ()) if isinstance(one, ast.Call)]
        for call in (one for one in whole if last_name(one.func) in (*_WHOLE, "clip_gradients")):
            why = "the gradient of a whole batch is clipped: what a record adds to it has no bound of its own"
            loop.asks["noise"] = f"line {call.lineno}: {why}"
        return asked(
            loop, UnclearError(place, "noise is added to gradients here, in a loop whose batches are not found")
        )
    over, source = found[-1]
    loop.body = over
    loop.ask("noise_multiplier", f"line {over.lineno}: the noise over the clipping norm, of the sum of gradients")
    loop.take_delta()
    ask_of_file(loop)
    try:
        loops, _ = around(script, over.body[0])
        loop.values.setdefault("epochs", math.prod(passes(script, one) for one in loops[1:]))
    except UnclearError as error:
        loop.ask("epochs", error)
    loop = from_loader(loop, source, is_poisson=False)
    for call in script.calls:
        within = next((each for each in noise.loops_around(script, call)), None)
        is_here = within is over or (within is None and call in _beside(script, place, over))
        if is_here and last_name(call.func) in _WHOLE and loop.values.get("batch_size") != 1:
            why = "the gradient of a whole batch is clipped: what a record adds to it has no bound of its own"
            loop.ask("noise", f"line {call.lineno}: {why}")
        is_whole = is_here and last_name(call.func) == "backward" and not _EACH.search(script.text)
        if is_whole and loop.values.get("batch_size") != 1:
            why = "the gradient of a whole batch is found, and no gradient of one record"
            loop.ask("noise", f"line {call.lineno}: {why}")
    return loop


def _over_batches(script: Script, place: ast.AST) -> list[tuple[ast.For, ast.expr]]:
    """Loops around a place that may be over batches, and what they go through; around its function, if it has none."""
    seen: set[ast.AST] = set()
    while place not in seen:
        seen.add(place)
        sources = ((one, iterated(script, one.iter)) for one in noise.loops_around(script, place))
        rows = [row for row in sources if isinstance(row[1], ast.Name | ast.Attribute)]
        found = [row for row in rows if not _OF_MODEL.search(last_name(row[1]))]
        function = script.above(place, ast.FunctionDef)
        if found or function is None:
            return found
        try:
            place = script.caller(function)
        except UnclearError:
            return []
    return []


def _beside(script: Script, place: ast.AST, over: ast.For) -> list[ast.AST]:
    """What stands in the function that adds the noise, where it is not that of the loop."""
    function = script.above(place, ast.FunctionDef)
    is_other = function is not None and function is not script.above(over, ast.FunctionDef)
    return [*walk(function)] if function is not None and is_other else []


def without_noise(script: Script, place: ast.AST, given: Given) -> Loop:
    """Gradients of single records that are clipped, and to which nothing adds noise."""
    loop = Loop(script, "by hand", place, given)
    is_drawn = any(noise.DRAWN.search(last_name(one.func)) for one in script.calls)
    what = "it is not seen that noise of its own is added in each step" if is_drawn else "no noise is added"
    loop.asks["noise"] = f"line {loop.line}: gradients of single records are clipped, and {what}"
    return loop


def unfollowed(script: Script, given: Given) -> Loop | None:
    """Noise in a script that trains and says that it is private, or a meter of it, where no loop is understood."""
    called = {last_name(one.func) for one in script.calls}
    meters = [one for one in script.calls if _METERS.match(script.qualified(one.func))]
    drawn = [one for one in script.calls if _NOISE.search(last_name(one.func))]
    added = [one for one in script.calls if script.qualified(one.func) == "optax.add_noise"]
    drawn = added or drawn  # of a gradient of whatever batch
    if not meters and not (drawn and called & {*_TRAINS} and claims(script.text)):
        return None
    loop = Loop(script, "by hand", (meters or drawn)[0], given)
    text = f"line {loop.line}: {ast.unparse(loop.node)[:60]}"
    if meters:
        loop.asks["noise"] = f"{text} counts noise that nothing in this file is seen to add"
        return loop
    loop.asks["noise"] = f"{text} draws noise, and what it hides is not followed"
    if _VOTES.search(script.text):  # of teachers, of which a record changes one, whose vote moves
        loop.call = "fa.epsilon(fa.Gaussian(noise / 2**0.5) * answers, delta=d), or fa.Laplace(scale / 2)"
    return loop


def _target(script: Script, call: ast.Call) -> ast.expr:
    """The name that a call is assigned to."""
    above = script.parent[call]
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        return above.targets[0]
    raise UnclearError(call, "what is done with this cannot be told")
