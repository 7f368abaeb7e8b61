"""What scripts say to engines: to Opacus, also before 1.0 and in Lightning, and to private-transformers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import Final

from fastacct.loaders import loader_guide
from fastacct.scripts import tables
from fastacct.scripts.found import Loop, asked, number
from fastacct.scripts.loops import is_single, iterated, refuse_added
from fastacct.scripts.names import Script
from fastacct.scripts.sources import Loader, size_of, torch_loader
from fastacct.scripts.steps import (
    ask_of_file,
    ask_of_kinds,
    goes_on,
    is_earlier,
    over,
    refuse_inside,
    refuse_rebound,
    refuse_shared,
    steps_of,
    take_epochs,
)
from fastacct.scripts.tree import AddedError, NoNumberError, UnclearError, keywords, last_name, walk

_ENGINES: Final = ("opacus.PrivacyEngine", "opacus.privacy_engine.PrivacyEngine")
_OLD: Final = ("private_transformers.PrivacyEngine", "private_transformers.privacy_engine.PrivacyEngine", *_ENGINES)
_RATE: Final = "Opacus draws at 1 / len(loader), so records / batch size must be len(loader)"
_FITTED: Final = ("model", "train_dataloaders", "val_dataloaders", "datamodule")
_TRAINERS: Final = ("lightning.Trainer", "pytorch_lightning.Trainer", "lightning.pytorch.Trainer")


def opacus(loop: Loop, call: ast.Call) -> Loop:
    """A call of make_private, or of make_private_with_epsilon; an accountant of fastacct tells batches apart."""
    loop = _private(loop, call)
    engine = loop.script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
    words = [one.value for one in getattr(engine, "keywords", ()) if one.arg == "accountant"]
    is_own = [getattr(one, "value", "") for one in words] == ["fastacct"] and last_name(call.func) == "make_private"
    if is_own and loop.breaks and loop.breaks[1] == "poisson_sampling=False":
        loop.notes.append(f"line {loop.breaks[0]}: the accountant, fastacct, counts these batches as they are.")
        loop.breaks = None
    return loop


def _private(loop: Loop, call: ast.Call) -> Loop:
    """What make_private makes private, and its loop."""
    script = loop.script
    assert isinstance(call.func, ast.Attribute)
    loop.sampling, is_poisson = "poisson", True
    if not script.is_call(script.resolve(call.func.value), *_ENGINES):
        raise UnclearError(call, "this is no PrivacyEngine that can be seen")
    said = keywords(tables.spread(script, call, partial(script.resolve, once=True)), ())
    try:
        if "poisson_sampling" in said and script.fold(said["poisson_sampling"]) is not True:
            loop.sampling, is_poisson = "", False
            loop.breaks = said["poisson_sampling"].lineno, "poisson_sampling=False"
    except UnclearError as error:
        loop.ask("batches", error)
    if call.func.attr == "make_private":
        loop.take("noise_multiplier", said.get("noise_multiplier"))
        loop.take_delta()
    else:
        loop.ask("noise_multiplier", f"line {call.lineno}: Opacus finds it; print optimizer.noise_multiplier")
        loop.target = number(script, said.get("target_epsilon"))
        loop.take_delta(said.get("target_delta"))
    try:
        clipping = script.fold(said["clipping"]) if "clipping" in said else "flat"
    except UnclearError:
        clipping = ""
    if clipping not in ("flat", "per_layer", "ghost"):
        loop.ask("noise_multiplier", f"line {call.lineno}: clipping that changes the noise")
    if "noise_generator" in said:
        loop.ask_secret(said["noise_generator"])
    ask_of_kinds(loop, said, call)
    ask_of_file(loop)
    if _is_lightning(script, call):
        return _in_lightning(loop, said, is_poisson)
    if _is_fitted(loop, call) and "data_loader" in said and take_trainer(loop) is not None:
        return from_loader(loop, said["data_loader"], is_poisson=is_poisson)
    return _in_own_loop(loop, call, said, is_poisson)


def _in_own_loop(loop: Loop, call: ast.Call, said: Mapping[str, ast.expr], is_poisson: bool) -> Loop:
    """A loop of the script over what make_private returned, or over something else."""
    script, source = loop.script, said.get("data_loader")
    targets = script.parent[call]
    names = targets.targets[0] if isinstance(targets, ast.Assign) and len(targets.targets) == 1 else None
    if not isinstance(names, ast.Tuple) or not 3 <= len(names.elts) <= 4 or source is None:
        return asked(loop, UnclearError(call, "what is done with what this returns cannot be told"))
    optimizer, private = names.elts[1], names.elts[-1]
    loop.data.append(private)
    is_used = True
    try:
        steps = steps_of(script, script.origin(optimizer))
        refuse_rebound(script, optimizer, call)
        loop.earlier = [one for one in steps if is_earlier(script, one, call)]
        loop.steps = steps = [one for one in steps if one not in loop.earlier]
        try:
            refuse_rebound(script, private, call)
        except UnclearError as error:
            loop.ask_instead("records batch_size", error)
            raise
        inner = over(script, steps[0]) if steps else None
        refuse_shared(script, steps)
        for one in steps[1:]:
            again = over(script, one)
            if inner is None or script.origin(iterated(script, again.iter)) != script.origin(
                iterated(script, inner.iter)
            ):
                raise UnclearError(steps[1], "several lines take a step of this optimizer")
            refuse_inside(script, again, {script.origin(private), script.origin(source)})
            loop.more.append(again)
        if not steps and not goes_on(script, private, call):
            if isinstance(private, ast.Name) and not script.uses[private.id] and loop.breaks is None:
                loop.breaks = call.lineno, "the loader that make_private returns is not used"
            raise UnclearError(call, "what is done with the private loader is not seen")
        if inner is not None:
            loop.body = inner
            key = script.origin(iterated(script, inner.iter))
            if key not in {script.origin(private), script.origin(source)}:
                refuse_inside(script, inner, {script.origin(private), script.origin(source)})
                loop.vouch(inner, "each round has a batch that is drawn anew, and none that is kept")
                raise UnclearError(inner, f"{ast.unparse(inner.iter)[:40]} is not the loader that was made private")
            is_used = key == script.origin(private)
            if not is_used:
                loop.breaks = inner.lineno, f"a loop over the loader before make_private, {ast.unparse(source)}"
        if steps and not (is_poisson and is_used):  # else Opacus refuses to add gradients up
            refuse_added(script, steps[0])
        take_epochs(loop, steps, call)
    except NoNumberError as error:
        loop.ask("noise", error)
    except AddedError as error:
        loop.ask_added(error)
        loop.ask("epochs", error)
    except UnclearError as error:
        loop.ask("batches epochs", error)
    return from_loader(loop, source, is_poisson=is_poisson and is_used)


def from_loader(loop: Loop, source: ast.expr, *, is_poisson: bool) -> Loop:
    """The numbers of a DataLoader, and its sampler where it is used as it is."""
    loop.lower_holds = True
    loop.data.append(source)
    try:
        found = torch_loader(loop.script, source)
        loop.data += [found.dataset] if found.dataset is not None else []
        if found.drawn is not None and not is_poisson and "weighted" not in found.settings:
            loop.ask_instead("epochs", f"line {found.drawn.lineno}: num_samples: passes over all records, rounded up")
    except UnclearError as error:
        if not is_poisson:
            loop.ask("batches", error)
        loop.ask("records batch_size", f"{error}; {_RATE}" if is_poisson else error)
        loop.notes += [f"line {getattr(source, 'lineno', loop.line)}: {_RATE}."] * is_poisson
        return loop
    if is_poisson:
        found = found._replace(settings=found.settings | {"shuffle": True, "weighted": False, "replacement": False})
    if is_poisson and found.drawn is not None:
        _take_drawn(loop, found.drawn)
    else:
        loop.take("records", found.dataset)
    loop.take("batch_size", found.batch_size)
    draws_as(loop, found, is_poisson=is_poisson)
    return loop


def _take_drawn(loop: Loop, drawn: ast.expr) -> None:
    """Take what a sampler draws an epoch for the records: the engine's rate comes from the length of the loader."""
    why = f"line {drawn.lineno}: num_samples counts for the records: {_RATE}"
    loop.notes.append(f"{why}.")
    try:
        count = loop.script.fold(drawn, partial(size_of, loop.script))
    except UnclearError:
        count = None
    if type(count) is int and count >= 1:
        loop.values["records"] = count
    else:
        loop.ask("records", why)


def draws_as(loop: Loop, found: Loader, *, is_poisson: bool = False) -> None:
    """Take the sampler of a loader that is used as it is; drop_last counts where the batches do not divide the data."""
    records, batch = loop.values.get("records"), loop.values.get("batch_size")
    loop.drop_last = bool(found.settings.get("drop_last"))
    if is_poisson or loop.is_told or "batches" in loop.asks:
        return
    settings = found.settings
    if records and batch and records % batch == 0:
        settings = settings | {"drop_last": "replacement" in settings}
    guide = loader_guide(found.name, **settings)
    loop.lower_holds = guide.lower_holds
    if guide.sampling is None and not guide.neighbors:
        loop.refuse("sampler", f"line {found.line}: {guide.call}")
        return
    loop.sampling = guide.sampling or "fixed_order"
    if loop.breaks is None and loop.framework != "by hand":
        loop.breaks = found.line, "shuffle=True" if settings.get("shuffle") else "a DataLoader that does not draw anew"


# -- Lightning -------------------------------------------------------------------------------------------------------


def _is_lightning(script: Script, call: ast.Call) -> bool:
    owner = script.owner(call)
    return owner is not None and any(script.qualified(one).endswith(".LightningModule") for one in owner.bases)


def _in_lightning(loop: Loop, said: Mapping[str, ast.expr], is_poisson: bool) -> Loop:
    """A LightningModule: its Trainer loops, over a data module of Opacus or over the loader of the module."""
    script = loop.script
    if (fit := take_trainer(loop)) is None:
        return loop
    source = fit.get("datamodule") or fit.get("train_dataloaders")
    if source is not None and script.is_call(source, "opacus.lightning.DPLightningDataModule"):
        loop.ask("records batch_size", f"line {source.lineno}: of the data module nothing is seen")
        loop.lower_holds = True
        if not is_poisson:
            loop.ask("batches", f"line {source.lineno}: the data module samples, make_private does not")
        return loop
    if source is None and "data_loader" not in said:
        return asked(loop, UnclearError(loop.node, "no loader is given to make_private"))
    is_private = source is None and _is_hooked(script, loop.node)
    return from_loader(loop, source or said["data_loader"], is_poisson=is_private and is_poisson)


def take_trainer(loop: Loop) -> Mapping[str, ast.expr] | None:
    """Take epochs, and what changes batches, from the one Trainer; the arguments of its fit(), or None if not found."""
    script = loop.script
    try:
        fits = [one for one in script.calls if getattr(one.func, "attr", "") == "fit"]
        if len(fits) != 1 or script.attributes["automatic_optimization"]:
            raise UnclearError(loop.node, "not one Trainer and one fit()")
        made = _trainer(script, fits[0])
        if not script.is_call(made, *_TRAINERS):
            raise UnclearError(loop.node, "not one Trainer and one fit()")
        if why := is_single(script, fits[0]):
            raise UnclearError(fits[0], why)
        loop.own = fits
        trainer = keywords(made, ())
        fit = keywords(fits[0], _FITTED)
    except UnclearError as error:
        asked(loop, error)
        return None
    loop.take("epochs", trainer.get("max_epochs"))
    early = "max_steps max_time limit_train_batches overfit_batches callbacks fast_dev_run"
    loop.ask_where(trainer, "epochs", early, "may end the training early")
    changing = "accumulate_grad_batches strategy num_nodes overfit_batches"
    loop.ask_where(trainer, "batches", changing, "changes the batches")
    several = [one for name, one in trainer.items() if name in changing.split()]
    if "devices" in trainer and number(script, trainer["devices"]) != 1:
        loop.ask("batches", f"line {trainer['devices'].lineno}: several devices")
        several.append(trainer["devices"])
    for one in several[:1]:
        loop.ask_instead("batch_size", f"line {one.lineno}: of all devices, and of all batches of a step, together")
    if "overfit_batches" in trainer:
        loop.ask_instead("records", f"line {trainer['overfit_batches'].lineno}: those of its few batches alone")
    loop.notes.append("On one device.")
    return fit


def _is_fitted(loop: Loop, call: ast.Call) -> bool:
    """Whether a Trainer goes through what make_private returned, with the optimizer that it returned and no other."""
    script, above = loop.script, loop.script.parent[call]
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    hooks = [one for one in script.nodes if getattr(one, "name", "") == "configure_optimizers"]
    values = [one.value for hook in hooks for one in walk(hook) if isinstance(one, ast.Return) and one.value]
    if not isinstance(target, ast.Tuple) or len(values) != 1 or not last_name(values[0]):
        return False
    optimizer, private = target.elts[1], target.elts[-1]
    try:
        refuse_rebound(script, private, call)
        refuse_rebound(script, optimizer, call)
        fits = [keywords(one, _FITTED) for one in script.calls if last_name(one.func) == "fit"]
        sources = [script.origin(one["train_dataloaders"]) for one in fits if "train_dataloaders" in one]
        is_own = sources == [script.origin(private)] and not steps_of(script, script.origin(optimizer))
    except UnclearError:
        return False
    loop.data.append(private)
    return is_own and last_name(values[0]) == last_name(optimizer)


def _trainer(script: Script, fit: ast.Call) -> ast.expr:
    """What makes the trainer of a call of fit(); a trainer that is changed afterwards is asked about elsewhere."""
    trainers = [one for one in script.calls if script.is_call(one, *_TRAINERS)]
    return trainers[0] if len(trainers) == 1 else script.resolve(fit.func.value)  # type: ignore[attr-defined]


def _is_hooked(script: Script, call: ast.AST) -> bool:
    """Whether train_dataloader() of the module returns the loader that make_private returned."""
    above, owner = script.parent[call], script.owner(call)
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    hooks = [one for one in getattr(owner, "body", ()) if getattr(one, "name", "") == "train_dataloader"]
    values = [one.value for hook in hooks for one in walk(hook) if isinstance(one, ast.Return) and one.value]
    if not isinstance(target, ast.Tuple) or len(values) != 1:
        return False
    try:
        refuse_rebound(script, target.elts[-1], call)  # type: ignore[arg-type]
        return script.origin(values[0]) == script.origin(target.elts[-1])
    except UnclearError:
        return False


# -- Opacus before 1.0, and private-transformers -----------------------------------------------------------------------


def attached(loop: Loop, call: ast.Call) -> Loop | None:
    """An engine made of a model and attached to an optimizer: its batches are those of the loop's own loader."""
    script = loop.script
    if not call.args and not {one.arg for one in call.keywords} & {"noise_multiplier", "target_epsilon", "module"}:
        return None
    loop.framework = script.qualified(call.func).partition(".")[0] or loop.framework
    try:
        if script.qualified(call.func) not in _OLD:
            raise UnclearError(call, "this is no PrivacyEngine that can be seen")
        said = keywords(call, ("module",))
        loops = [one for one in script.calls if getattr(one.func, "attr", "") == "attach" and one.args]
        if len(loops) != 1:
            raise UnclearError(call, "not one optimizer is attached")
        loop.steps = steps = steps_of(script, script.origin(loops[0].args[0]))
        inner = over(script, steps[0]) if len(steps) == 1 else None
        if inner is None:
            raise UnclearError(call, "not one loop takes a step of this optimizer")
        loop.body = inner
    except AddedError as error:
        loop = asked(loop, error)
        loop.ask_instead("batch_size", f"{error}; of all batches of a step together")
        loop.ask_left(error)
        return loop
    except UnclearError as error:
        return asked(loop, error)
    if "noise_multiplier" in said:
        loop.take("noise_multiplier", said["noise_multiplier"])
    else:
        loop.ask("noise_multiplier", f"line {call.lineno}: it is found when the script runs; print it")
        loop.target = number(script, said.get("target_epsilon"))
    loop.take_delta(said.get("target_delta"))
    if "gradient_accumulation_steps" in said:
        loop.ask("batches", f"line {call.lineno}: batches are added up")
        loop.ask_instead("batch_size", f"line {call.lineno}: of all batches of a step together")
    ask_of_file(loop)
    take_epochs(loop, steps, call)
    return from_loader(loop, iterated(script, inner.iter), is_poisson=False)
