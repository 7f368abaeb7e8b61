"""Steps of an optimizer: where they are taken, how often, and what else in a file changes batches or noise."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.loops import around, iterated, passes
from fastacct.scripts.names import Key, Script
from fastacct.scripts.tree import ElsewhereError, NoNumberError, UnclearError, last_name

_MANY: Final = ("torch.distributed", "torch.utils.data.distributed", "opacus.distributed", "accelerate", "deepspeed")
_MOVED: Final = {
    "noise_multiplier": ("noise_multiplier", "_noise_multiplier", "add_noise", "max_grad_norm", "_l2_norm_clip"),
    "epochs": ("max_epochs", "max_steps", "num_train_epochs", "min_epochs", "min_steps"),
    "batches": (
        *("sampler", "batch_sampler", "batch_size", "sample_rate", "drop_last", "dataset", "expected_batch_size"),
        *("per_device_train_batch_size", "gradient_accumulation_steps", "accumulate_grad_batches"),
        *("step", "pre_step", "clip_and_accumulate", "history", "train_dataset"),
    ),
}
"""Fields of loaders, optimizers, trainers and accountants that mean another loop where they are set."""
_SEEDS: Final = ("manual_seed", "seed_everything", "set_seed", "set_random_seed", "enable_full_determinism")
_SHARED: Final = "on one batch: the batches of its steps are not drawn one by one"
_OPEN: Final = "; if its data is public, check the script without it"
_ADDED: Final = "where it adds up k Poisson batches, fa.Gaussian(noise).poisson(rate, draws=k) is a step"
_ACCUMULATED: Final = ("virtual_step", "signal_skip_step", "accumulate", "no_sync", "original_optimizer")


def steps_of(script: Script, optimizer: Key) -> list[ast.Call]:
    """Calls of step() of an optimizer."""
    found = []
    for one in script.attributes["step"]:
        call = script.parent[one]
        try:
            is_own = script.origin(one.value) == optimizer
            passed = [*call.args, *(word.value for word in call.keywords)] if isinstance(call, ast.Call) else []
            is_other = any(script.origin(each) == optimizer for each in passed)  # scaler.step(optimizer)
        except UnclearError:
            continue
        if is_other or (is_own and (not isinstance(call, ast.Call) or call.func is not one)):
            raise UnclearError(one, "a step is taken in a way that cannot be followed")
        found += [call] if is_own and isinstance(call, ast.Call) else []
    return found


def over(script: Script, step: ast.AST) -> ast.For:
    """The loop that a step is in, once a round."""
    node, seen = step, {step}
    while True:
        node = script.parent[node]
        if isinstance(node, ast.For):
            return node
        if isinstance(node, ast.If | ast.IfExp | ast.Try | ast.BoolOp | ast.Match):
            raise UnclearError(step, f"a step is not taken in each round: {_ADDED}")
        if isinstance(node, ast.FunctionDef):
            node = script.caller(node)
            if node in seen:
                raise UnclearError(node, "a function that calls itself")
            seen.add(node)
        elif isinstance(node, ast.While | ast.Module | ast.ClassDef | ast.Lambda | ast.AsyncFunctionDef):
            raise UnclearError(step, "the loop around this step is not over a loader")


def refuse_shared(script: Script, steps: Sequence[ast.Call]) -> None:
    """Several steps in one round of a loop: the batch of the second is that of the first."""
    loops = [over(script, one) for one in steps]
    for number, one in enumerate(loops):
        if one in loops[:number]:
            raise NoNumberError(steps[number], f"several steps {_SHARED}")


def refuse_inside(script: Script, inner: ast.AST, loaders: set[Key]) -> None:
    """A loop in each round of which steps are taken, within a loop over a loader."""
    outer = script.above(script.parent[inner], ast.For)
    while outer is not None:
        if script.origin(iterated(script, outer.iter)) in loaders:
            raise NoNumberError(inner, f"each round takes a step {_SHARED}")
        outer = script.above(script.parent[outer], ast.For)


def take_epochs(loop: Loop, steps: Sequence[ast.Call], after: ast.Call) -> None:
    """How often a loop over a loader runs, or ask."""
    script = loop.script
    try:
        if not steps:
            raise UnclearError(after, "no step of this optimizer is seen")
        loops, places = around(script, steps[0])
        if any(script.scope(one) is script.scope(after) and one.lineno < after.lineno for one in places):  # type: ignore[attr-defined]
            raise UnclearError(steps[0], "this runs before the engine is made")
        loop.values.setdefault("epochs", math.prod(passes(script, one) for one in loops[1:]))
    except UnclearError as error:
        if not isinstance(error, ElsewhereError) or "epochs" not in loop.given:
            loop.ask("epochs", error)


def refuse_rebound(script: Script, target: ast.expr, call: ast.Call) -> None:
    """An optimizer or a loader that is set again after it was made private."""
    if isinstance(target, ast.Name):
        found = script.lookup(target.id, target)[1]
        later = [one.node for one in found if getattr(one.node, "lineno", 0) > call.lineno]
    elif isinstance(target, ast.Attribute):
        stores = [one for one in script.attributes[target.attr] if not isinstance(one.ctx, ast.Load)]
        later = [one for one in stores if one is not target and getattr(script.scope(one), "name", "") != "__init__"]
    else:
        later = [target]
    if later:
        raise UnclearError(later[0], f"{ast.unparse(target)} is set again")


def refuse_others(script: Script, optimizer: ast.expr, loader: ast.expr) -> None:
    """A function of another file that is given both the optimizer and the loader, and may train with them."""
    if not isinstance(optimizer, ast.Name) or not isinstance(loader, ast.Name):
        return
    for call in script.calls:
        names = {getattr(one, "id", "") for one in (*call.args, *(word.value for word in call.keywords))}
        is_here = (
            isinstance(call.func, ast.Name)
            and script.lookup(call.func.id, call)[1]
            and not (script.qualified(call.func))
        )
        is_method = isinstance(call.func, ast.Attribute) and not script.qualified(call.func)
        known = script.qualified(call.func).startswith(("opacus.", "torch."))
        if {optimizer.id, loader.id} <= names and not (is_here or is_method or known):
            raise UnclearError(call, f"{ast.unparse(call.func)} may train, too")


def goes_on(script: Script, loader: ast.expr, call: ast.Call) -> bool:
    """Whether a loader is given to something in the scope where it was made private."""
    if not isinstance(loader, ast.Name):
        return False
    uses = [one for one in script.uses[loader.id] if one.lineno > call.lineno]
    return any(not isinstance(script.statement(one), ast.Return) for one in uses)


def ask_of_file(loop: Loop) -> None:
    """Ask where something else in the file changes batches or noise."""
    script = loop.script
    imports = {one.name for found in script.bindings.values() for rows in found.values() for one in rows}
    if any(f"{one}.".startswith(tuple(f"{name}." for name in _MANY)) for one in imports) or (
        script.attributes["DistributedSampler"] or script.attributes["init_process_group"]
    ):
        loop.ask("batches", "several processes share the batches")
    for name in _ACCUMULATED:
        if script.attributes[name]:
            loop.ask("batches", f"line {script.attributes[name][0].lineno}: {name} takes steps in a way of its own")
    for one in script.attributes["step"]:
        if _is_public(script, one):
            loop.ask("noise", f"line {one.lineno}: {ast.unparse(one.value)[:40]} takes steps without noise{_OPEN}")
    for one in script.attributes["train"]:
        if _is_trainer(script, one):
            loop.ask("noise", f"line {one.lineno}: {ast.unparse(one)[:40]} trains without noise{_OPEN}")
    for call in script.calls:
        if script.qualified(call.func).endswith(".ReduceLROnPlateau"):
            text = "ReduceLROnPlateau: what its step() is given must not come from the records that are trained on"
            loop.notes.append(f"line {call.lineno}: {text}.")
    moved = ((asks, one) for asks, names in _MOVED.items() for name in names for one in script.attributes[name])
    for asks, one in moved:
        if not isinstance(one.ctx, ast.Load) and ast.unparse(one.value) != "self":
            loop.ask(asks, f"line {one.lineno}: {one.attr} is set")
    patches = [one.func for one in script.calls if script.qualified(one.func).startswith(("unittest.mock.", "mock."))]
    fields = [*script.uses["setattr"], *script.attributes["setattr"]]
    fields += [*script.uses["vars"], *script.attributes["__dict__"]]
    for any_field in (*patches, *fields):
        if any_field in patches or not _is_read(script, any_field):
            loop.ask("noise_multiplier", f"line {any_field.lineno}: this may set any field")
    released = [one for name in ("load_state_dict", "step", "history") for one in script.attributes[name]]
    released = [one for one in released if "accountant" in ast.unparse(one.value)]
    for one in (*script.attributes["load_checkpoint"], *released):
        loop.ask("epochs", f"line {one.lineno}: steps that this loop does not take are counted")
    if any(one.startswith("opacus.schedulers") for one in imports):
        loop.ask("noise_multiplier", "a schedule changes the noise")
    words = (word for one in script.calls for word in one.keywords if word.arg == "secure_mode")
    seeds = [one for one in script.calls if last_name(one.func) in _SEEDS]
    if seeds and not any(getattr(word.value, "value", None) is True for word in words):
        seed = ast.unparse(seeds[0])[:40]
        loop.notes.append(f"line {seeds[0].lineno}: {seed}: who knows the seed can take the noise away.")


def _is_read(script: Script, node: ast.AST) -> bool:
    """Whether fields are only shown or passed on: vars(x), x.__dict__, where no element of them is set."""
    above = script.parent[node] if isinstance(node, ast.Attribute) else script.parent[script.parent[node]]
    is_set = isinstance(above, ast.Subscript | ast.Attribute) and not getattr(above, "attr", "").startswith("items")
    return "setattr" not in (getattr(node, "id", ""), getattr(node, "attr", "")) and not is_set


def _is_trainer(script: Script, train: ast.Attribute) -> bool:
    """Whether a method is that of a plain trainer of Hugging Face."""
    try:
        made = script.resolve(train.value)
    except UnclearError:
        return False
    return isinstance(made, ast.Call) and script.qualified(made.func).startswith(("transformers.", "trl."))


def _is_public(script: Script, step: ast.Attribute) -> bool:
    """Whether a step is surely that of a plain optimizer of PyTorch, which no engine was given."""
    whole = step.value
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    if isinstance(whole, ast.Name) and whole is step.value and len(script.lookup(whole.id, whole)[1]) != 1:
        return False
    try:
        made = [script.resolve(whole)]
    except UnclearError:
        made = []
    if whole is not step.value:  # an element of a list, or of a dictionary
        same = ast.unparse(step.value)
        stores = [one for one in ast.walk(script.tree) if isinstance(one, ast.Assign)]
        made += [one.value for one in stores if any(ast.unparse(target) == same for target in one.targets)]
        made = [part for one in made for part in ast.walk(one) if isinstance(part, ast.Call)]
    names = [script.qualified(one.func) for one in made if isinstance(one, ast.Call)]
    plain = [one for one in names if one.startswith("torch.optim.")]
    if not plain or any(one.startswith("torch.optim.lr_scheduler.") for one in plain):
        return False
    uses: list[ast.AST] = [*script.uses[whole.id]] if isinstance(whole, ast.Name) else []
    above = [script.parent[one] for one in uses]
    above += [script.parent[one] for one in above if isinstance(one, ast.Subscript)]
    return not any(isinstance(one, ast.keyword | ast.Call) for one in above)
