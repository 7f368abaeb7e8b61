"""What `fit` of Keras does: the batches that it draws, and whether it takes the steps of JAX Privacy's model.

Nothing here imports Keras.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Final

from fastacct.core.extras import Foreign
from fastacct.loaders.seen import TORCH, Seen
from fastacct.training.given import KERAS
from fastacct.training.meter import Meter
from fastacct.training.seeds import of_numpy

_WORD: Final = "draws_batches=True"
_HELD: Final = {"TorchDataLoaderAdapter": "_dataloader", "GrainDatasetAdapter": "_dataset"}
_ONCE: Final = ("Cache", "Filter", "Map", "Options", "Prefetch", "Range", "Shard", "Shuffle", "Skip", "TensorSlice")
_PLAIN: Final = {"Batch", "Repeat", "Take", *_ONCE}
"""Steps of a pipeline after which its batches are those of a pass, and no Poisson samples."""
_JAX: Final = "jax_privacy.CyclicPoissonSampling"


def _of_fit(name: str) -> Foreign:
    """A variable of the `fit` that called this; None where it has none."""
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("keras.") and "epoch_iterator" in frame.f_locals:
            return frame.f_locals.get(name)
        frame = frame.f_back
    return None


def data_of_fit() -> Foreign:
    """What the `fit` that called this goes through, as Keras holds it; None where it does not tell."""
    return getattr(_of_fit("epoch_iterator"), "data_adapter", None)


def is_over(meter: Meter, model: Foreign) -> bool:
    """Whether no step comes although Keras tells of one; ValueError where one comes that a pass does not have.

    Of data whose length is not known TensorFlow and JAX find the end in the step after the last one.
    """
    length = meter._live.length
    if not meter._live.is_pass or meter._in_pass != length:
        return False
    more = ValueError(
        f"an epoch of this fit() has more than the {length} steps that a pass of the meter has: give the meter as many "
        "records as there are, after filters, and the size of their batches; leave out repeat() and a larger "
        "steps_per_epoch. The step was not taken"
    )
    if getattr(data_of_fit(), "num_batches", 0) is not None:
        raise more
    step = model.train_function

    def beyond(*given: Foreign) -> Foreign:
        model.train_function = step
        if meter._in_pass != length:  # a fit after one that was broken off here
            return step(*given)
        for _ in given[-1]:
            raise more
        raise StopIteration

    model.train_function = beyond
    return True


def refuse_other_batches(meter: Meter, model: Foreign, data: Foreign, *, draws_batches: bool = False) -> None:
    """ValueError where `fit` draws other batches than the meter counts.

    Arrays are shuffled, or come in their order, once an epoch: they are no Poisson samples, nor others of one step.
    With `draws_batches` data of the user's own are taken for what is counted.
    """
    kind, settings = type(data).__name__, _settings(model)
    is_pass = meter._drawn.is_pass
    chain = _chain(getattr(data, "_dataset", None)) if kind == "TFDatasetAdapter" and not draws_batches else []
    is_batched = "Batch" in chain and _PLAIN.issuperset(chain)
    if kind == "ArrayDataAdapter" or (is_batched and not is_pass):
        if data.num_batches == 1 and not is_pass:  # all records, each step
            meter.refuse_other(_poisson(1.0))
        elif not is_pass or meter._drawn.run.get("sampling") == "allocation":
            sampling = meter._drawn.run.get("sampling", "poisson")
            raise ValueError(
                "fit() goes through arrays, and a pipeline with batch(), once an epoch, shuffled, and the meter counts "
                f"sampling = {sampling!r}: "
                'Meter(records=n, batch_size=b, sampling="shuffled", neighbors="zero_out"), or give fit() batches that '
                "are drawn so (of JAX Privacy DPKerasConfig(poisson_sampling_in_fit=True), for Poisson samples)"
            )
        else:
            meter.refuse_other(Seen(KERAS, TORCH, {"shuffle": True}, {"sampling": "shuffled"}, 0))
    elif getattr(settings, "poisson_sampling_in_fit", False):
        meter.refuse_other(_poisson(settings.batch_size / settings.train_size))
    elif kind in _HELD and hasattr(data, _HELD[kind]):
        meter.refuse_other(getattr(data, _HELD[kind]))
    elif not draws_batches:
        if "Repeat" in chain[chain.index("Batch") if "Batch" in chain else len(chain) :]:
            raise ValueError(
                "repeat() stands before batch(), so that a batch may hold records of two passes, and a record is in "
                f"more batches than are counted: write batch().repeat(). If it draws as is counted, say {_WORD}"
            )
        if not is_pass and data is None:
            raise ValueError(f"this Keras does not tell what fit() was given: if it draws as is counted, say {_WORD}")
        if getattr(getattr(data, "py_dataset", None), "workers", 1) > 1:
            raise ValueError(
                "PyDataset(workers=1): Keras looks at a batch beforehand, and with more workers uses one twice in the "
                f"first epoch. If this one was built before, say {_WORD}"
            )


def _chain(data: Foreign) -> list[str]:
    """What the steps of a pipeline of TensorFlow do, the last one first."""
    found = []
    while data is not None:
        kind, data = type(data).__name__, getattr(data, "_input_dataset", None)
        found.append(kind.strip("_").removesuffix("Dataset").removeprefix("Parallel").removeprefix("Padded"))
    return found


def refuse_batches_again(meter: Meter, model: Foreign, data: Foreign) -> None:
    """ValueError where `fit` would draw from its seed the Poisson batches that it drew before.

    Without a seed of its own it takes one from NumPy's global generator, which scripts seed.
    """
    settings, rng = _settings(model), getattr(getattr(data, "py_dataset", None), "_rng", None)
    if getattr(settings, "poisson_sampling_in_fit", False):
        drawn = None if rng is None else rng.bit_generator.seed_seq.entropy
        seed = drawn if settings.seed is None else settings.seed
        of = "each fit() with this DPKerasConfig(seed=...)"
        cure = "call fit() once, for all epochs, or make the model private with seed=secrets.randbits(63) for each"
        meter._draws_from(None if seed is None else of_numpy(of, seed, cure))


def retrace(model: Foreign) -> None:
    """Let `fit` take the steps that a model of JAX Privacy has now.

    Keras keeps the function that it made for a fit before `make_private`, and JAX what it has traced.
    """
    now = model.train_step, model._dp_params
    own: dict[str, Foreign] = model.__dict__
    kept = own.get("_fastacct_steps")
    if kept is not None and kept[0] is model.train_function and kept[1:] == now:
        return
    step = model.train_step
    model.train_step = lambda *given: step(*given)  # new to JAX
    try:
        model.make_train_function(force=True)
    finally:
        model.train_step = step
    own["_fastacct_steps"] = (model.train_function, *now)


def steps_of(model: Foreign) -> int:
    """Private steps that a model of JAX Privacy has counted."""
    if (sync := getattr(model, "jax_state_sync", None)) is not None:
        sync()
    return int(_weight(model, "_optimizer_steps").numpy().item())


def warn_of_key(model: Foreign) -> None:
    """Warn of noise that somebody may know: its key is a weight of the model, and of 32 bits, or of a seed."""
    seed, (high, low) = model._dp_params.seed, map(int, _weight(model, "_rng").numpy())
    if high == 0 or (seed is not None and low == seed % 2**32):
        warnings.warn(
            f"the noise is drawn from {'a key of 32 bits' if seed is None else f'the seed {seed}'}: who finds it can "
            "take the noise away, and no epsilon holds for them. Give the model a secret key before fit(): "
            'next(w for w in model.non_trainable_weights if w.name == "_rng").assign('
            'numpy.frombuffer(os.urandom(8), "uint32"))',
            stacklevel=3,
        )
    warnings.warn(
        "the weights of a model of make_private hold the key of the noise that comes next, _rng: who sees two files of "
        "them has the gradients between, and no epsilon holds for them. Give out model.trainable_variables alone, and "
        "after a restart nobody may have seen the steps that are taken again",
        stacklevel=3,
    )


def _settings(model: Foreign) -> Foreign:
    """Of a model of JAX Privacy; None of others."""
    return getattr(model, "_dp_params", None)


def _weight(model: Foreign, name: str) -> Foreign:
    return next(one for one in model.non_trainable_weights if one.name == name)


def _poisson(rate: float) -> Seen:
    """Each record with this probability, each step."""
    settings: dict[str, bool | int] = {"cycle_length": 1, "truncated": False, "equal_split": True}
    return Seen(KERAS, _JAX, settings, {"sample_rate": rate}, 0)
