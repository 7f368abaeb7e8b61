"""What scripts say to TensorFlow Privacy, JAX Privacy, Optax and Flower."""

from __future__ import annotations

import ast
from typing import Final

from fastacct.loaders import loader_guide
from fastacct.scripts.found import Loop, asked, number
from fastacct.scripts.loops import is_single
from fastacct.scripts.names import Script
from fastacct.scripts.noise import loops_around
from fastacct.scripts.sources import tf_pipeline
from fastacct.scripts.tree import UnclearError, keywords, last_name

_FIT: Final = ("x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split")
_FIELDS: Final = ("noise_multiplier", "_noise_multiplier", "l2_norm_clip", "_l2_norm_clip", "num_microbatches")
_CYCLIC: Final = ("sampling_prob", "iterations", "truncated_batch_size", "cycle_length", "partition_type")


# -- Keras -----------------------------------------------------------------------------------------------------------


def tf_privacy(loop: Loop, call: ast.Call) -> Loop:
    """An optimizer, or a model, of TensorFlow Privacy."""
    script, target = loop.script, loop.script.parent[call]
    said = keywords(call, ("l2_norm_clip", "noise_multiplier", "num_microbatches"))
    is_model = script.qualified(call.func).endswith(("DPModel", "DPSequential"))
    made = target.targets[0] if isinstance(target, ast.Assign) else call
    models = _models(script, made, is_model)
    loop.take("noise_multiplier", said.get("noise_multiplier"))
    loop.take_delta()
    _in_fit(loop, models)
    for one in script.attributes["compile"]:
        own = script.parent[one]
        is_other = isinstance(own, ast.Call) and ast.unparse(one.value) == models and not is_model
        if is_other and isinstance(own, ast.Call) and not _is_with(script, own, made):
            loop.asks["noise"] = f"line {one.lineno}: compiles the model again, with an optimizer that adds no noise"
    for field in (one for name in _FIELDS for one in script.attributes[name] if not isinstance(one.ctx, ast.Load)):
        loop.ask_instead("noise_multiplier", f"line {field.lineno}: {field.attr} is set")
    if "gradient_accumulation_steps" in said:
        loop.ask("batches", f"line {call.lineno}: batches are added up")
        loop.ask_instead("batch_size", f"line {call.lineno}: of all batches of a step together")
    groups = said.get("num_microbatches")
    if groups is not None and not (isinstance(groups, ast.Constant) and groups.value is None):
        try:
            size = script.fold(groups)
        except UnclearError as error:
            size = str(error)
        if size != loop.values.get("batch_size", size):
            why = "a record moves the sum of clipped microbatches by up to twice the norm: give noise_multiplier / 2"
            loop.values.pop("noise_multiplier", None) if "noise_multiplier" not in loop.given else None
            loop.ask("noise_multiplier", f"line {groups.lineno}: {why}")
            loop.breaks = groups.lineno, f"num_microbatches={ast.unparse(groups)} is not the batch size"
    return loop


def _is_with(script: Script, compiled: ast.Call, made: ast.expr) -> bool:
    """Whether compile() is given an optimizer, by itself or by its name."""
    given = keywords(compiled, ("optimizer", "loss", "metrics")).get("optimizer")
    if given is None or isinstance(made, ast.Call):
        return given is made
    return script.origin(given) == script.origin(made)


def _models(script: Script, made: ast.AST, is_model: bool) -> str:
    """The model that is compiled with an optimizer, as it is written."""
    assert isinstance(made, ast.expr)
    if is_model:
        return ast.unparse(made)
    found = set()
    for one in script.calls:
        if isinstance(one.func, ast.Attribute) and one.func.attr == "compile":
            found |= {ast.unparse(one.func.value)} if _is_with(script, one, made) else set()
    if len(found) != 1:
        raise UnclearError(made, "not one model is compiled with this optimizer")
    return found.pop()


def _in_fit(loop: Loop, model: str) -> None:
    """The one fit() of a Keras model: arrays are shuffled once an epoch, a pipeline comes as it is made."""
    script = loop.script
    fits = [one for one in script.calls if isinstance(one.func, ast.Attribute) and one.func.attr == "fit"]
    fits = [one for one in fits if isinstance(one.func, ast.Attribute) and ast.unparse(one.func.value) == model]
    try:
        if len(fits) != 1:
            raise UnclearError(loop.node, f"not one fit() of {model}")
        loop.own = fits
        if why := is_single(script, fits[0]):
            raise UnclearError(fits[0], why)
        said, line = keywords(fits[0], _FIT), fits[0].lineno
        if script.attributes["train_on_batch"] or script.attributes["train_step"]:
            raise UnclearError(fits[0], "batches of its own")
    except UnclearError as error:
        loop.ask("batches records batch_size epochs", error)
        return
    loop.data += [said[name] for name in ("x", "y") if name in said]
    loop.take("epochs", said.get("epochs") or ast.copy_location(ast.Constant(1), fits[0]))
    loop.ask_where(said, "epochs", "callbacks steps_per_epoch initial_epoch", "changes how long the training is")
    if "validation_split" in said:
        loop.ask("records", f"line {line}: validation_split takes records away")
    if "y" not in said and "batch_size" not in said:
        _from_pipeline(loop, said.get("x"), line)
        return
    loop.take("records", said.get("x"))
    loop.take("batch_size", said.get("batch_size") or ast.copy_location(ast.Constant(32), fits[0]))
    try:
        shuffle = script.fold(said["shuffle"]) if "shuffle" in said else True
        shuffle = False if shuffle == "batch" else shuffle  # batches stay as they are, in another order
        if type(shuffle) is not bool:
            raise UnclearError(fits[0], f"shuffle={shuffle!r} orders records in a way of its own")
    except UnclearError as error:
        loop.ask("batches", error)
        return
    loop.sampling, loop.lower_holds = ("shuffled" if shuffle else "fixed_order"), True
    loop.breaks = line, "fit() shuffles arrays" if shuffle else "fit(shuffle=False) keeps the order"


def _from_pipeline(loop: Loop, node: ast.expr | None, line: int) -> None:
    """The sampler of a pipeline of tf.data."""
    try:
        if node is None:
            raise UnclearError(loop.node, "no data is given to fit()")
        found = tf_pipeline(loop.script, node)
        loop.take("batch_size", found.batch_size)
        loop.take("records", None)
        settings = found.settings
        if settings.get("shuffle") and "records" in loop.values and "repeat_before_batch" not in settings:
            settings = settings | {"records": loop.values["records"]}
        elif settings.get("shuffle") and "repeat_before_batch" not in settings:
            return
        guide = loader_guide("tf.data", **settings)
        if not guide.neighbors:
            loop.refuse("sampler", f"line {line}: {guide.call}")
            return
        if settings.get("reshuffle_each_iteration") is False:
            loop.refuse("sampler", f"line {line}: all epochs have the order of the first one: see check-loader tf.data")
            return
    except UnclearError as error:
        loop.ask("batches", error)
        loop.ask(" ".join(name for name in ("batch_size", "records") if name not in loop.values), error)
        return
    loop.drop_last = bool(settings.get("drop_remainder"))
    loop.sampling, loop.lower_holds = guide.sampling or "fixed_order", guide.lower_holds
    loop.breaks = line, "a pipeline that shuffles" if guide.sampling else "a pipeline that does not shuffle all records"


# -- JAX -------------------------------------------------------------------------------------------------------------


_PADS: Final = ("pad_to_multiple_of", "split_and_pad_global_batch")


def jax_selection(loop: Loop, call: ast.Call) -> Loop | None:
    """A strategy of jax_privacy.batch_selection; its noise is in units that are not seen."""
    script = loop.script
    home, _, kind = script.qualified(call.func).rpartition(".")
    if not home.endswith(".batch_selection"):
        return None
    loop.ask("noise_multiplier", f"line {call.lineno}: the noise over the sensitivity of the sum of clipped gradients")
    for one in script.calls:
        words = {word.arg: word.value for word in one.keywords}
        for seed in (words[name] for name in ("rng", "prng_key") if name in words):
            loop.note_seed(seed)
    loop.take_delta()
    try:
        said = keywords(call, _CYCLIC if kind == "CyclicPoissonSampling" else ())
        settings: dict[str, bool | int] = {}
        if kind == "CyclicPoissonSampling":
            if "cycle_length" in said:
                settings["cycle_length"] = script.fold(said["cycle_length"])
            if "truncated_batch_size" in said:
                settings["truncated"] = script.fold(said["truncated_batch_size"]) is not None
            if "partition_type" in said:
                settings["equal_split"] = ast.unparse(said["partition_type"]).endswith("EQUAL_SPLIT")
        elif kind == "FixedBatchSampling" and "replace" in said:
            settings["replace"] = script.fold(said["replace"])
        guide = loader_guide(f"jax_privacy.{kind}", **settings)
        if guide.sampling is None:
            raise UnclearError(call, guide.call)
        for one in script.calls:
            if script.qualified(one.func).endswith("batch_selection.UserSelectionStrategy"):
                loop.refuse(
                    "one example", f"line {one.lineno}: it draws users, of whom several records may be in a batch"
                )
                return loop
    except (UnclearError, ValueError, TypeError) as error:
        return asked(loop, error)
    pads = next((one for one in script.calls if last_name(one.func) in _PADS), None)
    if pads is not None and not any(word.arg == "is_padding_example" for one in script.calls for word in one.keywords):
        why = "pads batches with index -1, which is the last record, and clipped_grad is given no is_padding_example"
        loop.asks["one example"] = f"line {pads.lineno}: {ast.unparse(pads.func)[:50]} {why}"
    loop.sampling, loop.lower_holds = guide.sampling, guide.lower_holds
    if guide.sampling == "poisson":
        loop.take("sample_rate", said.get("sampling_prob"))
        loop.take("steps", said.get("iterations"))
        if {"sample_rate", "steps"} & loop.asks.keys():  # of which there are no options
            for name in ("sample_rate", "steps"):
                loop.asks.pop(name, None)
                loop.values.pop(name, None)
    else:
        loop.call = guide.call
    return loop


def jax_keras(loop: Loop, call: ast.Call) -> Loop:
    """The settings of jax_privacy.keras_api: fit() shuffles arrays, unless it is told to sample."""
    script, said = loop.script, keywords(call, ())
    made = [one for one in script.calls if script.qualified(one.func).endswith("keras_api.make_private")]
    target = script.parent[made[0]] if len(made) == 1 else call
    if not isinstance(target, ast.Assign):
        raise UnclearError(call, "not one model is made private")
    loop.take("noise_multiplier", said.get("noise_multiplier"), "it is found when the script runs; print it")
    loop.target = number(script, said.get("epsilon"))
    loop.take_delta(said.get("delta"))
    _in_fit(loop, ast.unparse(target.targets[0]))
    for name, usual in (("poisson_sampling_in_fit", False), ("gradient_accumulation_steps", 1)):
        try:
            is_usual = name not in said or script.fold(said[name]) == usual
        except UnclearError:
            is_usual = False
        if not is_usual:
            loop.ask("batches", f"line {said[name].lineno}: {name} changes the batches")
            if name == "gradient_accumulation_steps":
                loop.ask_instead("batch_size", f"line {said[name].lineno}: of all batches of a step together")
            loop.breaks = None
    return loop


def optax(loop: Loop, call: ast.Call) -> Loop:
    """A transformation of Optax: it sees gradients, not batches."""
    try:
        said = keywords(call, ("learning_rate",) if loop.script.qualified(call.func).endswith(".dpsgd") else ())
        loop.take("noise_multiplier", said.get("noise_multiplier"))
        for one in (said[name] for name in ("seed", "key") if name in said):
            text = f"line {one.lineno}: {ast.unparse(one)[:40]} gives the noise"
            loop.notes.append(f"{text}: who knows it can take the noise away.")
    except UnclearError as error:
        loop.ask("noise_multiplier", error)
    loop.ask("batches records batch_size epochs", f"line {call.lineno}: Optax does not draw the batches")
    loop.take_delta()
    return loop


# -- Flower ----------------------------------------------------------------------------------------------------------


def flower(loop: Loop, call: ast.Call) -> Loop:
    """A strategy of Flower with noise: a round takes a fixed number of clients, and may weigh them by their records."""
    if loop.script.qualified(call.func).endswith("LocalDpMod"):
        loop.refuse("added up", f"line {call.lineno}: each round releases a message of each client, whatever it costs")
        loop.call = "fa.epsilon(fa.ApproxDP(epsilon=e, delta=d) * num_rounds, delta=num_rounds * d)"
        return loop
    why = "a client's largest weight decides: the noise over what it moves the average by"
    loop.ask("noise_multiplier", f"line {call.lineno}: {why}")
    loop.ask("records", f"line {call.lineno}: how many clients there are")
    loop.ask("batch_size", f"line {call.lineno}: how many clients a round takes, at most")
    loop.take_delta()
    loop.sampling = "fixed_size"
    rounds = [word.value for one in loop.script.calls for word in one.keywords if word.arg == "num_rounds"]
    if len(rounds) == 1 and "FixedClipping" in ast.unparse(call.func):
        loop.take("steps", rounds[0])
    if loop.asks.pop("steps", "") or "steps" not in loop.values:  # of which there is no option
        loop.call = (
            "fa.dpsgd.epsilon(noise_multiplier=s, records=clients, batch_size=num_sampled_clients, steps=num_rounds, "
            'delta=d, sampling="fixed_size")'
        )
    elif over := next(loops_around(loop.script, call), None):
        loop.asks["one loop"] = f"line {over.lineno}: this is made again in each round of a loop"
    elif loop.values.get("batch_size") == loop.values.get("records", 0):  # all of them in each round
        loop.sampling, loop.values["epochs"] = "fixed_order", loop.values["steps"]
    loop.vouch(call, "of a client nothing is shown but its clipped update, and it is one client in a round")
    return loop
