"""Steps of an optimizer: where they are taken, how often, and what else in a file changes batches or noise."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from fastacct.scripts.found import Loop, number
from fastacct.scripts.loops import around, iterated, passes
from fastacct.scripts.names import Key, Script
from fastacct.scripts.noise import is_looped, seeded_again
from fastacct.scripts.tree import AddedError, ElsewhereError, NoNumberError, UnclearError, last_name

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
_MORE: Final = {
    **dict.fromkeys(("step", "pre_step", "clip_and_accumulate"), "noise_multiplier"),
    **dict.fromkeys(("dataset", "train_dataset", "sampler", "batch_sampler"), "records batch_size"),
    **dict.fromkeys(("batch_size", "sample_rate", "per_device_train_batch_size"), "batch_size"),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches", "expected_batch_size"), "batch_size"),
}
"""What else changes with some of them."""
_SEEDS: Final = (
    "manual_seed",
    "manual_seed_all",
    "seed_everything",
    "set_seed",
    "set_random_seed",
    "enable_full_determinism",
)
_RESTORES: Final = ("set_rng_state", "set_rng_state_all", "set_state", "setstate", "fork_rng")
_SHARED: Final = "on one batch: the batches of its steps are not drawn one by one"
_ADDED: Final = "where it adds up k Poisson batches, fa.Gaussian(noise).poisson(rate, draws=k) is a step"
_KEPT: Final = ("state_dict", "load_state_dict", "param_groups", "state", "defaults")
"""What may be asked of an optimizer without a step."""
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
            raise AddedError(step, f"a step is not taken in each round: {_ADDED}")
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
    for place, one in enumerate(loops):
        if one in loops[:place]:
            raise NoNumberError(steps[place], f"several steps {_SHARED}")


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
        epochs = 0
        for step in steps:
            loops, places = around(script, step)
            if any(script.scope(one) is script.scope(after) and one.lineno < after.lineno for one in places):  # type: ignore[attr-defined]
                raise UnclearError(step, "this runs before the engine is made")
            epochs += math.prod(passes(script, one) for one in loops[1:])
        loop.values.setdefault("epochs", epochs)
    except UnclearError as error:
        if not isinstance(error, ElsewhereError) or "epochs" not in loop.given:
            loop.ask("epochs", error)


def refuse_rebound(script: Script, target: ast.expr, call: ast.Call) -> None:
    """An optimizer or a loader that is set again after it was made private."""
    if isinstance(target, ast.Name) and target.id == "_" and not script.uses["_"]:
        return
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
        loop.ask_instead("batch_size", "several processes share the batches; of all processes together")
    for call in script.calls if loop.framework == "by hand" else ():
        if last_name(call.func) == "DistributedSampler" and "drop_last=True" not in ast.unparse(call):
            loop.vouch(call, "the processes divide the records: else some come twice in an epoch")
    for name in _ACCUMULATED:
        found = [one for one in script.attributes[name] if getattr(script.parent[one], "attr", "") not in _KEPT]
        found = [one for one in found if not _is_scheduled(script, one)]
        if found:
            where = f"line {found[0].lineno}: {name} takes steps in a way of its own"
            if name == "original_optimizer":
                loop.refuse("noise", f"{where}, without noise")
            else:
                loop.ask_added(f"{where}: {_ADDED}")
    for call in script.calls:
        if script.qualified(call.func).endswith(".ReduceLROnPlateau"):
            text = "ReduceLROnPlateau: what its step() is given must not come from the records that are trained on"
            loop.notes.append(f"line {call.lineno}: {text}.")
    moved = ((asks, one) for asks, names in _MOVED.items() for name in names for one in script.attributes[name])
    for asks, one in moved:
        if not isinstance(one.ctx, ast.Load) and ast.unparse(one.value) != "self":
            why = f"line {one.lineno}: {one.attr} is set"
            loop.ask(asks, why)
            if more := _MORE.get(one.attr, ""):
                loop.ask_instead(more, why)
            stored = script.parent[one]
            is_none = isinstance(stored, ast.Assign) and number(script, stored.value) == 0
            if asks == "noise_multiplier" and is_none and "noise" in one.attr:
                loop.asks["noise"] = f"line {one.lineno}: {one.attr} is set to 0: no noise is added"
    made = [one for one in script.calls if last_name(one.func) == "DataLoader" and loop.sampling == "poisson"]
    for word in (one for call in made for one in call.keywords if one.arg == "generator"):  # others need no secret
        loop.note_seed(word.value)
    patches = [one.func for one in script.calls if script.qualified(one.func).startswith(("unittest.mock.", "mock."))]
    fields = [*script.uses["setattr"], *script.attributes["setattr"]]
    fields += [*script.uses["vars"], *script.attributes["__dict__"]]
    for any_field in (*patches, *fields):
        if any_field in patches or not _is_read(script, any_field):
            loop.ask("noise_multiplier", f"line {any_field.lineno}: this may set any field")
    restored = [one for one in script.calls if last_name(one.func) in _RESTORES and is_looped(script, one, set())]
    for call in restored[:1]:
        text = f"{ast.unparse(call)[:50]} brings a state back: the same batches and noise again"
        loop.ask("noise", f"line {call.lineno}: {text}")
    released = [one for name in ("load_state_dict", "step", "history") for one in script.attributes[name]]
    released = [one for one in released if "accountant" in ast.unparse(one.value)]
    for one in (*script.attributes["load_checkpoint"], *released):
        loop.ask("epochs", f"line {one.lineno}: steps that this loop does not take are counted")
    if any(one.startswith("opacus.schedulers") for one in imports):
        loop.ask("noise_multiplier", "a schedule changes the noise: the smallest of all steps")
    words = (word for one in script.calls for word in one.keywords if word.arg == "secure_mode")
    seeds = [one for one in script.calls if last_name(one.func) in _SEEDS and "Generator" not in ast.unparse(one.func)]
    if seeds and not any(getattr(word.value, "value", None) is True for word in words):
        seed = ast.unparse(seeds[0])[:40]
        loop.notes.append(f"line {seeds[0].lineno}: {seed}: who knows the seed can take the noise away.")
        if (again := seeded_again(script, is_torch=True)) is not None:
            loop.ask("noise", f"line {again.lineno}: {ast.unparse(again)[:50]} gives the same noise again and again")


def _is_read(script: Script, node: ast.AST) -> bool:
    """Whether fields are only shown or passed on: vars(x), x.__dict__, where no element of them is set."""
    above = script.parent[node] if isinstance(node, ast.Attribute) else script.parent[script.parent[node]]
    is_set = isinstance(above, ast.Subscript | ast.Attribute) and not getattr(above, "attr", "").startswith("items")
    return "setattr" not in (getattr(node, "id", ""), getattr(node, "attr", "")) and not is_set


_ADDS: Final = ("accumulate_grad_batches", "gradient_accumulation_steps")


def ask_of_trainers(loop: Loop) -> None:
    """Ask of batches that a trainer adds up for a step of an optimizer of Opacus."""
    script = loop.script
    made = [one for one in script.calls if last_name(one.func).endswith(("Trainer", "TrainingArguments"))]
    for call, word in ((one, word) for one in made if loop.framework == "opacus" for word in one.keywords):
        if word.arg in _ADDS and number(script, word.value) != 1:
            why = f"line {call.lineno}: {word.arg} adds up batches for a step"
            if loop.sampling == "poisson" or "shuffled" not in (loop.sampling, loop.given.get("batches", "shuffled")):
                loop.refuse("added up", why)
            else:
                loop.ask("batches", why)
                loop.ask_instead("batch_size", f"{why}; of all batches of a step together")


def ask_of_kinds(loop: Loop, said: Mapping[str, ast.expr], made: ast.Call) -> None:
    """No number where Opacus draws by numbers of few bits, or where ghost clipping has another loss than its own."""
    script = loop.script
    for call in script.calls:
        if last_name(call.func) == "set_default_dtype" and not re.search("float(?:32|64)", ast.unparse(call)):
            text = f"{ast.unparse(call)[:50]}: Opacus draws by numbers of that type, at a larger rate"
            loop.ask("noise", f"line {call.lineno}: {text}")
    mode = said.get("grad_sample_mode")
    if mode is None or getattr(mode, "value", "ghost") in ("hooks", "functorch", "ew"):
        return
    target = script.parent[made]
    names = target.targets[0] if isinstance(target, ast.Assign) else None
    criterion = names.elts[2] if isinstance(names, ast.Tuple) and len(names.elts) == 4 else None
    uses = script.uses[criterion.id] if isinstance(criterion, ast.Name) else []
    if not any(isinstance(one.ctx, ast.Load) for one in uses):
        loop.ask("noise", f"line {made.lineno}: the criterion that this returns is not used, and no other loss clips")


def is_earlier(script: Script, step: ast.AST, made: ast.AST) -> bool:
    """Whether a step is surely taken before an engine is given its optimizer."""
    node, home, seen = step, script.scope(made), {step}
    try:
        while (scope := script.scope(node)) is not home:
            node = script.caller(scope)
            if node in seen:
                return False  # a function that calls itself
            seen.add(node)
    except UnclearError:
        return False
    is_before = getattr(node, "lineno", 0) < getattr(made, "lineno", 0)
    return is_before and not script.in_loop(made, home) and not script.in_loop(home, script.tree)


def _is_scheduled(script: Script, optimizer: ast.Attribute) -> bool:
    """Whether an optimizer is given to what changes its learning rate alone."""
    above = script.parent[optimizer]
    above = script.parent[above] if isinstance(above, ast.keyword) else above
    whole = script.qualified(above.func) if isinstance(above, ast.Call) and optimizer is not above.func else ""
    return whole.startswith(("torch.optim.lr_scheduler.", "transformers.get_"))
