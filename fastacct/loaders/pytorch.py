"""What loaders of PyTorch draw, alone, under Accelerate and with Opacus."""

from __future__ import annotations

import sys
from typing import Final

from fastacct.core.extras import Foreign
from fastacct.core.rounding import rate_of_float32
from fastacct.loaders.seen import LOADER, TORCH, Seen, in_order, name_of, of_generator, of_seed, refusal, shuffled
from fastacct.mechanisms.samplers import OF_ONE_SIZE

__all__ = ["dataloader", "private", "shard"]

_BATCHES: Final = "torch.utils.data.sampler.BatchSampler"
_POISSON: Final = "opacus.utils.uniform_sampler.UniformWithReplacementSampler"
_POISSON_OF_WORKERS: Final = "opacus.utils.uniform_sampler.DistributedUniformWithReplacementSampler"
_STREAM: Final = "torch.utils.data.dataloader._InfiniteConstantSampler"
_SEEDABLE: Final = "accelerate.data_loader.SeedableRandomSampler"
_SEQUENTIAL: Final = "torch.utils.data.sampler.SequentialSampler"
_SUBSET: Final = "torch.utils.data.sampler.SubsetRandomSampler"
_WEIGHTED: Final = "torch.utils.data.sampler.WeightedRandomSampler"
_COUNTED: Final = "fastacct.compat.opacus_draws.Counted"
_PUT_TOGETHER: Final = ("torch.utils.data.dataset.Subset", "torch.utils.data.dataset.ConcatDataset")
_SAMPLERS: Final = (_SEQUENTIAL, _SUBSET, _WEIGHTED, _SEEDABLE, "torch.utils.data.sampler.RandomSampler")


def dataloader(loader: Foreign) -> Seen:
    """A loader of PyTorch, or Opacus' own."""
    if loader.batch_sampler is None:
        raise refusal(loader, "batch_size=None leaves batches to the data set, and what a record is", is_unknown=True)
    return _batches(loader.batch_sampler, loader)


def _batches(batches: Foreign, loader: Foreign, synchronized: Foreign = None) -> Seen:
    """A batch sampler, of one worker or cut among those of Accelerate."""
    kind = name_of(batches)
    if kind in (_POISSON, _POISSON_OF_WORKERS):
        return _of_opacus(batches, kind)
    if kind == "accelerate.data_loader.BatchSamplerShard":
        return _of_accelerate(batches, loader, synchronized)
    if kind != _BATCHES:
        raise refusal(batches)
    _refuse_repeats(loader.dataset)
    _refuse_empty(loader, batches)
    sampler = _order(batches)
    found = _sampler(sampler, batches.batch_size, bool(batches.drop_last))
    if not found.settings.get("distributed") and _world() > 1:
        raise refusal(sampler, "each of several workers draws from all records: take a DistributedSampler")
    return found._replace(length=len(batches))


def _order(batches: Foreign) -> Foreign:
    """The sampler of batches, also where the engine of Opacus' loader counts what it draws."""
    return batches.sampler.sampler if name_of(batches.sampler) == _COUNTED else batches.sampler


def _sampler(sampler: Foreign, size: int, drops: bool) -> Seen:
    """A sampler of PyTorch with the size of its batches, and whether the last one of an epoch is left out."""
    kind = name_of(sampler)
    if kind == "torch.utils.data.distributed.DistributedSampler":
        return _of_workers(sampler, size, drops)
    drawn = len(sampler) if kind in _SAMPLERS else 0
    drops = drops and drawn % size != 0
    if kind == _SEQUENTIAL:
        return in_order({"drop_last": drops}, drawn, size)
    if kind == _SUBSET:
        _refuse_repeated(sampler)
        return shuffled({"drop_last": drops}, drawn, size)
    if kind == _WEIGHTED:
        return Seen("", TORCH, {"weighted": True}, {}, 0)
    if kind not in _SAMPLERS:
        raise refusal(sampler, "a stream has an order of its own" if kind == _STREAM else "", is_unknown=True)
    records, notes = len(sampler.data_source), _notes(sampler)
    if sampler.replacement:
        most = -(-(2**32) // records)  # of 32 bits modulo the records
        run = {"sampling": OF_ONE_SIZE[True], "records": 2**32 // most, "batch_size": size}
        settings: dict[str, bool | int] = {"replacement": True, "drop_last": drops or drawn % size == 0}
        return Seen("", TORCH, settings, run, 0, records=records, notes=notes)
    if drawn > records:
        raise refusal(sampler, f"num_samples = {drawn} of {records} records: some come twice")
    return shuffled({"drop_last": drops or drawn < records}, records, size, notes)


def _of_workers(sampler: Foreign, size: int, drops: bool) -> Seen:
    records, workers = len(sampler.dataset), sampler.num_replicas
    if records < workers:
        raise refusal(sampler, f"{workers} workers share {records} records, which repeat")
    settings: dict[str, bool | int] = {"distributed": True, "shuffle": bool(sampler.shuffle), "drop_last": drops}
    settings["sampler_drop_last"] = records % workers == 0 or bool(sampler.drop_last)
    return _cut(settings, records, size * workers, of_seed(sampler.seed))


def _cut(settings: dict[str, bool | int], records: int, size: int, notes: tuple[str, ...]) -> Seen:
    """One order cut among workers, who repeat some records unless they leave some out."""
    if not settings["sampler_drop_last"]:
        found = in_order(settings, records, size, notes)
        return found._replace(share=0.5)
    return (shuffled if settings["shuffle"] else in_order)(settings, records, size, notes)


def _of_accelerate(shard: Foreign, loader: Foreign, synchronized: Foreign) -> Seen:
    inner = shard.batch_sampler
    if name_of(inner) != _BATCHES:
        raise refusal(inner)
    _refuse_repeats(loader.dataset)
    sampler, workers = _order(inner), shard.num_processes
    one = _sampler(sampler, inner.batch_size, bool(inner.drop_last))
    is_common = one.settings.get("shuffle") is None or name_of(sampler) == _SEEDABLE
    if not one.is_pass or one.settings.get("distributed"):
        raise refusal(sampler, "among the workers of Accelerate it is not known")
    if not is_common and (synchronized is None or synchronized is not sampler.generator):
        raise refusal(sampler, "each worker may draw an order of its own: use_seedable_sampler=True")
    if one.unit == "epochs" and is_common and workers > 1 and sampler.initial_seed >= 2**32:
        raise refusal(sampler, "nobody seeded this process, so that each worker has an order of its own: call set_seed")
    size = inner.batch_size * (1 if shard.split_batches else workers)
    drawn = len(sampler)
    if shard.even_batches and not inner.drop_last and drawn < size:
        raise refusal(shard, f"even_batches repeats {drawn} records in batches of {size}")
    settings: dict[str, bool | int] = {
        "distributed": True,
        "shuffle": one.unit == "epochs",
        "drop_last": bool(inner.drop_last),
    }
    settings["sampler_drop_last"] = drawn % size == 0 or bool(inner.drop_last) or not shard.even_batches
    return _cut(settings, drawn, size, one.notes)._replace(length=-(-drawn // size))


def _refuse_empty(loader: Foreign, batches: Foreign) -> None:
    """A loader without batches, or of data without a length."""
    try:
        length = len(batches)
    except TypeError:
        raise refusal(loader, "its data set has no length", is_unknown=True) from None
    if length == 0:
        left = f"batch_size = {batches.batch_size!r} with drop_last = {batches.drop_last!r} leaves no batch"
        raise refusal(loader, f"{left} of {len(loader.dataset)} records")


def _refuse_repeats(data: Foreign) -> None:
    """Subsets, and data that are put together, may hold a record several times."""
    parts = [data]
    for one in parts:
        if name_of(one) == _PUT_TOGETHER[0]:
            _refuse_repeated(one)
            parts.append(one.dataset)
        elif name_of(one) == _PUT_TOGETHER[1]:
            parts += one.datasets
    wholes = [id(one) for one in parts if name_of(one) not in _PUT_TOGETHER]
    rows = _rows(data) if len({*wholes}) < len(wholes) else []
    if len({*rows}) < len(rows):
        raise refusal(data, "it holds records several times")


def _rows(data: Foreign) -> list[tuple[int, int]]:
    """The records of a data set: what they are of, and their index there."""
    if name_of(data) == _PUT_TOGETHER[0]:
        inner = _rows(data.dataset)
        return [inner[int(index)] for index in data.indices]
    if name_of(data) == _PUT_TOGETHER[1]:
        return [row for part in data.datasets for row in _rows(part)]
    return [(id(data), index) for index in range(len(data))]


def _refuse_repeated(chosen: Foreign) -> None:
    """Indices, of tensors too; negative ones may be others counted from the end."""
    indices = [int(index) for index in chosen.indices]
    if len({*indices}) != len(indices):
        raise refusal(chosen, "its indices repeat")
    if min(indices, default=0) < 0:
        raise refusal(chosen, "an index below 0 may be another one's record")


def _world() -> int:
    """Workers of PyTorch that train together."""
    group: Foreign = sys.modules.get("torch.distributed")
    return int(group.get_world_size()) if group and group.is_available() and group.is_initialized() else 1


def _notes(sampler: Foreign) -> tuple[str, ...]:
    """What is to be said of the seed of a sampler of records; an order needs no secret one."""
    if name_of(sampler) == _SEEDABLE:
        return of_seed(int(sampler.initial_seed))
    return () if sampler.generator is None and not sampler.replacement else of_generator(sampler.generator)


# -- Opacus -----------------------------------------------------------------------------------------------------------


def refuse_few_bits() -> None:
    """ValueError where Opacus' uniform numbers, of the default type, have fewer than 24 bits."""
    torch: Foreign = sys.modules.get("torch")
    kind = getattr(torch, "get_default_dtype", lambda: None)()
    if kind is not None and torch.finfo(kind).eps > 2.0**-23:
        raise ValueError(
            f"Opacus draws batches by uniform numbers of the default type, {kind}, which has fewer than 24 bits: the "
            "rate is larger than 1 / len(loader). Call torch.set_default_dtype(torch.float32)"
        )


def _poisson(rate: float, steps: int, records: int, notes: tuple[str, ...]) -> Seen:
    """Each record by itself: its uniform number of 24 bits is below the rate."""
    refuse_few_bits()
    run = {"sample_rate": rate_of_float32(rate)}
    return Seen("", "opacus", {"poisson_sampling": True}, run, steps, records=records, notes=notes)


def _of_opacus(batches: Foreign, kind: str) -> Seen:
    if kind == _POISSON_OF_WORKERS and batches.num_replicas > 1:
        raise refusal(batches, "workers leave out empty batches, so that the number of steps depends on the data")
    if _world() > 1 and kind == _POISSON:
        raise refusal(batches, "each of several workers draws from all records")
    records = batches.total_size if kind == _POISSON_OF_WORKERS else batches.num_samples
    return _poisson(batches.sample_rate, len(batches), records, of_generator(batches.generator))


def private(loader: Foreign, kind: str) -> Seen:
    """What make_private makes of a loader: batches of its own, whatever sampler the loader has."""
    if kind == "opacus.data_loader.DPDataLoader":
        return dataloader(loader)._replace(name=kind)
    if kind != LOADER:
        raise refusal(loader, "Opacus takes a DataLoader of PyTorch")
    if _world() > 1 or name_of(loader.sampler) == _STREAM or loader.batch_sampler is None:
        raise refusal(loader, "Opacus' sampler is known for one worker and a data set with a length")
    _refuse_repeats(loader.dataset)
    _refuse_empty(loader, loader.batch_sampler)
    rate = 1.0 / len(loader)
    notes = of_generator(loader.generator)
    return _poisson(rate, int(1.0 / rate), len(loader.dataset), notes)._replace(name=kind)


def shard(loader: Foreign) -> Seen:
    """A loader that Accelerate has prepared."""
    if name_of(loader.base_dataloader) != LOADER:
        raise refusal(loader.base_dataloader)
    return _batches(loader.base_dataloader.batch_sampler, loader.base_dataloader, loader.synchronized_generator)
