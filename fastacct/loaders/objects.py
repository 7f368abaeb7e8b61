"""Live data loaders, told by their exact class: what they draw, without importing the library that they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastacct.core.extras import Foreign
from fastacct.loaders.pytorch import dataloader, private, shard
from fastacct.loaders.seen import LOADER, Seen, in_order, name_of, of_seed, refusal, shuffled
from fastacct.mechanisms.samplers import OF_ONE_SIZE, SAMPLERS


def seen(loader: object, *, make_private: bool = False) -> Seen:
    """What a live loader draws; with make_private what Opacus draws that is given it.

    Raises
    ------
    ValueError
        For a loader of which nothing is known.
    """
    if type(make_private) is not bool:
        raise TypeError(f"make_private must be True or False, not {make_private!r}")
    kind = name_of(loader)
    if make_private:
        return private(loader, kind)
    for known, find in _KINDS.items():
        if kind == known:
            return find(loader)._replace(name=kind)
    raise refusal(loader)


def _trainer(trainer: Foreign) -> Seen:
    return accumulated(seen(trainer.get_train_dataloader()), trainer.args.gradient_accumulation_steps, trainer)


def _lightning(trainer: Foreign) -> Seen:
    if trainer.train_dataloader is None:
        raise refusal(trainer, "a Trainer of Lightning has a loader from fit() on: give the DataLoader")
    return accumulated(seen(trainer.train_dataloader), trainer.accumulate_grad_batches, trainer)


def _combined(loaders: Foreign) -> Seen:
    if len(loaders.flattened) != 1:
        raise refusal(loaders, "each of several loaders has a number of its own")
    return seen(loaders.flattened[0])


def accumulated(live: Seen, batches: int, of: object) -> Seen:
    """What a loader draws for a step on the gradients of so many batches.

    Raises
    ------
    ValueError
        Where nothing is known of them: of samples that are no Poisson samples, and of draws that are no batch.
    """
    if batches == 1:
        return live
    if live.is_pass and live.run.get("sampling") != "allocation":
        run = dict(live.run)
        if "batch_size" in run:
            run["batch_size"] = min(run["batch_size"] * batches, run["records"])
        return live._replace(run=run, length=-(-live.length // batches), batches=batches)
    if not SAMPLERS[live.run.get("sampling", "poisson")].adds_up:
        steps = f"steps on the gradients of {batches} of its batches; .poisson(q, draws=) takes Poisson ones"
        if of is None:
            raise ValueError(
                f"accumulate = {batches}: nothing is known of sampling = {live.run['sampling']!r} and {steps}"
            )
        raise refusal(of, steps)
    run = live.run | {"batch_size": live.run["batch_size"] * batches}
    return live._replace(run=run, length=-(-live.length // batches), batches=batches)


def _jax_cyclic(sampler: Foreign) -> Seen:
    cycle, most = sampler.cycle_length, sampler.truncated_batch_size
    equal = sampler.partition_type.name == "EQUAL_SPLIT"
    settings = {"cycle_length": cycle, "truncated": most is not None, "equal_split": equal}
    run: dict[str, Any] = {"sample_rate": float(sampler.sampling_prob)}
    asks: tuple[str, ...] = ()
    if most is not None:
        run, asks = {"sampling": "truncated", "at_most": most} | run, ("records",)
    return _jax("CyclicPoissonSampling", settings, run, sampler, per=cycle, asks=asks)


def _jax_bins(sampler: Foreign) -> Seen:
    cycle = sampler.cycle_length
    run = {"sampling": "allocation", "records": cycle, "batch_size": 1, "bins": "persistent"}
    return _jax("BallsInBinsSampling", {}, run, sampler, unit="epochs", per=cycle)


def _jax_fixed(sampler: Foreign) -> Seen:
    run = {"sampling": OF_ONE_SIZE[bool(sampler.replace)], "batch_size": sampler.batch_size}
    return _jax("FixedBatchSampling", {"replace": bool(sampler.replace)}, run, sampler, asks=("records",))


def _jax(name: str, settings: dict[str, bool | int], run: dict[str, Any], sampler: Foreign, **more: Foreign) -> Seen:
    return Seen("", f"jax_privacy.{name}", settings, run, 0, most=sampler.iterations, **more)


def _grain(data: Foreign) -> Seen:
    """A chain of batch, then shuffle, then records; repeated last of all."""
    is_repeated, is_reseeded, settings = False, False, dict[str, bool | int]()
    if name_of(data) == f"{_GRAIN}repeat.RepeatMapDataset":
        is_repeated, is_reseeded, data = True, bool(data._reseed_each_epoch), data._parent
    if name_of(data) != f"{_GRAIN}batch.BatchMapDataset":
        raise refusal(data, "write source.shuffle().batch(b), and repeat(e) behind it")
    size, drops, order = data._batch_size, bool(data._drop_remainder), data._parent
    is_shuffled = name_of(order) == f"{_GRAIN}shuffle.ShuffleMapDataset"
    source = order._parent if is_shuffled else order
    if name_of(source) not in (f"{_GRAIN}source.SourceMapDataset", f"{_GRAIN}source.RangeMapDataset"):
        raise refusal(source, "between the records and their order nothing may stand")
    records = len(source)
    settings = {"shuffle": is_shuffled, "repeat_before_batch": False, "reseed_each_epoch": is_repeated and is_reseeded}
    settings["drop_remainder"] = drops and records % size != 0
    found = (shuffled if is_shuffled else in_order)({}, records, size)
    run = found.run | ({} if settings["reseed_each_epoch"] or not is_shuffled else {"bins": "persistent"})
    notes = of_seed(order._seed) if is_shuffled else ()
    return found._replace(
        loader="grain", settings=settings, run=run, length=len(data), notes=notes, repeats=is_repeated
    )


def _grain_sampler(sampler: Foreign) -> Seen:
    settings = {"shuffle": bool(sampler._shuffle), "repeat_before_batch": sampler._num_epochs != 1}
    if sampler._shuffle and sampler._num_epochs == 1:
        raise refusal(sampler, "the size of its batches is elsewhere: write source.shuffle().batch(b)")
    return Seen("", "grain", settings, {"sample_rate": 1.0}, 0, is_pass=True, records=sampler._num_records)


_GRAIN: Final = "grain._src.python.dataset.transformations."
_KINDS: Final[dict[str, Callable[[Foreign], Seen]]] = {
    LOADER: dataloader,
    "opacus.data_loader.DPDataLoader": dataloader,
    "accelerate.data_loader.DataLoaderShard": shard,
    "transformers.trainer.Trainer": _trainer,
    "lightning.pytorch.trainer.trainer.Trainer": _lightning,
    "lightning.pytorch.utilities.combined_loader.CombinedLoader": _combined,
    "lightning.fabric.wrappers._FabricDataLoader": lambda loader: seen(loader._dataloader),
    "pytorch_lightning.trainer.trainer.Trainer": _lightning,
    "pytorch_lightning.utilities.combined_loader.CombinedLoader": _combined,
    "jax_privacy.batch_selection.CyclicPoissonSampling": _jax_cyclic,
    "jax_privacy.batch_selection.BallsInBinsSampling": _jax_bins,
    "jax_privacy.batch_selection.FixedBatchSampling": _jax_fixed,
    "jax_privacy.batch_selection.BMinSepSampling": lambda sampler: _jax("BMinSepSampling", {}, {}, sampler),
    f"{_GRAIN}batch.BatchMapDataset": _grain,
    f"{_GRAIN}repeat.RepeatMapDataset": _grain,
    "grain._src.python.samplers.IndexSampler": _grain_sampler,
}
