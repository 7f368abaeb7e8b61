"""Which sampler a data loader is, under which neighbouring relation a number is proved for it, and what to call."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final, NamedTuple

from fastacct.core.inputs import as_choice

ALWAYS: Final = (
    "Clip each record's gradient, and add noise_multiplier * clipping norm to the *sum*. Divide afterwards by a fixed "
    "number; the size of the batch that was drawn is not fixed where the sampler lets it vary.",
    "Noise is drawn afresh in each step. Correlated noise (DP-FTRL, matrix factorization) has other numbers: "
    "fastacct.BandMF, fastacct.DPFTRL, fastacct.sensitivity.matrix.",
    "Noise is added once for each optimizer step. If gradients of several batches are added up before it, they are one "
    "batch: of independent Poisson samples .poisson(q, draws=m). They must not come from two epochs.",
    "Layers that mix records, such as batch norm, have no gradient of one record: use group or layer norm.",
    "Runs that you tried and did not keep count, too: add them up, or see fastacct.RepeatedSelection.",
    "delta is below 1/records, and is chosen before. Seeds are secret.",
)
_NAMES: Final = "s: noise multiplier; n: records; b: batch size; e: epochs, rounded up; d: delta"


class LoaderGuide(NamedTuple):
    """What `loader_guide` says; `str` and `print` give it in words.

    Examples
    --------
    >>> import fastacct as fa
    >>> guide = fa.loader_guide("opacus", poisson_sampling=True)
    >>> guide.sampling, guide.neighbors[0]
    ('poisson', 'add_remove')
    """

    loader: str
    sampling: str | None
    """The value of `sampling=` that the sampler has; None: no amplification is proved, and the call says what is."""
    neighbors: tuple[str, ...]
    """Relations under which the call is proved; the first one is that of the call.  Empty: no number is proved."""
    call: str
    """What to ask: s is the noise multiplier, n records, b the batch size, e the epochs, rounded up, and d delta."""
    notes: tuple[str, ...]
    """What must be true of the loader, and of the loop."""

    def __str__(self) -> str:
        known = f'sampling="{self.sampling}"' if self.sampling else "no sampler with amplification"
        lines = [f"{self.loader}: {known}; neighbors: {', '.join(self.neighbors) or 'none'}", f"  {self.call}"]
        lines += [f"  ({_NAMES})"] if self.neighbors else []
        return "\n".join([*lines, *(f"* {note}" for note in (*self.notes, *ALWAYS))])


_COMES: Final = ("add_remove", "zero_out")
_STAYS: Final = ("zero_out", "replace_one")
_EVERY: Final = (*_COMES, "replace_one")
_RUN: Final = "noise_multiplier=s, records=n, batch_size=b, epochs=e, delta=d"
_WHOLE: Final = 'fa.dpsgd.epsilon(noise_multiplier={}, sample_rate=1, steps=e, delta=d, neighbors="zero_out")'
Answer = tuple[str | None, tuple[str, ...], str, tuple[str, ...]]


def _none(why: str) -> Answer:
    return None, (), f"no number is proved: {why}", ()


def _shuffled(*notes: str, is_kept: bool = False) -> Answer:
    own = (
        "One random order of all records an epoch, and no batch of two epochs. The upper end of the interval is proved."
    )
    more = ', bins="persistent"' if is_kept else ""
    call = f'fa.dpsgd.epsilon({_RUN}, sampling="shuffled"{more}, neighbors="zero_out")'
    return "shuffled", _STAYS, call, (own, *notes)


def _in_order(why: str, noise: str = "s") -> Answer:
    return None, _STAYS, _WHOLE.format(noise), (why,)


def _torch(
    shuffle: bool = False, drop_last: bool = False, replacement: bool = False, weighted: bool = False,
    distributed: bool = False, padded: bool = True,
) -> Answer:  # fmt: skip
    if replacement + weighted + distributed > 1 or (shuffle and (replacement or weighted)):
        raise ValueError(
            "a DataLoader has one sampler: shuffle, replacement, weighted and distributed exclude each other"
        )
    if weighted:
        return _none(
            "WeightedRandomSampler has weights that may depend on the data; draw uniformly, or Poisson batches"
        )
    if replacement:
        own = "RandomSampler(replacement=True): b independent draws in every step, so that records repeat."
        call = f'fa.dpsgd.epsilon({_RUN}, sampling="with_replacement")'
        return "with_replacement", _EVERY, call, (own,)
    notes = ["drop_last leaves records out where b does not divide n: the lower end does not hold then."] * drop_last
    if distributed:
        notes.append("b is the batch size of all workers together; set_epoch(epoch) is called; the seed is secret.")
        if padded:
            why = (
                "DistributedSampler repeats records until all workers have equally many, unless its own drop_last is "
                "True or their number divides n: a record may be twice in one batch, as if the noise were half. (The "
                "DataLoader's drop_last does not help. With fewer records than workers they repeat more often.)"
            )
            return _in_order(why, "s / 2")
    return _shuffled(*notes) if shuffle else _in_order("A record is in one known batch an epoch: no amplification.")


def _opacus(poisson_sampling: bool = True) -> Answer:
    if poisson_sampling:
        call = "fa.dpsgd.epsilon(noise_multiplier=s, sample_rate=1 / len(loader), steps=e * len(loader), delta=d)"
        return "poisson", _EVERY, call, (
            "loader is the one that make_private was given. DPDataLoader draws each record with probability "
            "1/len(loader), which is above batch_size/records where the loader has drop_last=True.",
            "An empty batch is a step, too. (Opacus' distributed sampler leaves out a worker's empty batches: then the "
            "number of steps depends on the data.) BatchMemoryManager splits a batch without changing it.",
        )  # fmt: skip
    own = "poisson_sampling=False keeps your own loader: Opacus' numbers are those of Poisson batches, and do not hold."
    return _shuffled(own, "If your loader does not shuffle, see torch.utils.data.DataLoader.")


def _tf_data(
    shuffle: bool = False, full_buffer: bool = False, reshuffle_each_iteration: bool = True,
    repeat_before_batch: bool = False,
) -> Answer:  # fmt: skip
    if shuffle and repeat_before_batch:
        return _none("a batch may hold a record of two epochs; write shuffle(n).batch(b).repeat(e)")
    if not shuffle:
        return _in_order("A dataset without shuffle() comes in a fixed order: no amplification.")
    if not full_buffer:
        return _in_order("A buffer smaller than the data set does not shuffle uniformly: this holds for every order.")
    return _shuffled(is_kept=not reshuffle_each_iteration)


def _grain(shuffle: bool = False, repeat_before_batch: bool = True, reseed_each_epoch: bool = True) -> Answer:
    if not shuffle:
        return _in_order("Without shuffle records come in a fixed order: no amplification.")
    if repeat_before_batch:
        return _none(
            "IndexSampler, and shuffle().repeat().batch(b), make batches across epochs, which may hold a record twice; "
            "write shuffle().batch(b).repeat(e)"
        )
    return _shuffled(is_kept=not reseed_each_epoch)


def _jax_cyclic(cycle_length: int = 1, truncated: bool = False, equal_split: bool = True) -> Answer:
    if truncated and cycle_length > 1:
        return _none("batches of groups are truncated; leave out truncated_batch_size")
    if truncated:
        call = "fa.epsilon(fa.Gaussian(s).poisson(sampling_prob, at_most=m, records=n) * iterations, delta=d)"
        return "truncated", _EVERY, call, ("m is truncated_batch_size, sampling_prob the rate before truncation.",)
    if cycle_length > 1:
        given = "noise_multiplier=s, sample_rate=sampling_prob, steps=iterations, bands=cycle_length"
        if equal_split:
            note = "PartitionType.EQUAL_SPLIT, the default: groups depend on the number of records."
            return "cyclic", _STAYS, f'fa.epsilon(fa.BandMF({given}), delta=d, neighbors="zero_out")', (note,)
        note = "PartitionType.INDEPENDENT: each record has a random group of its own."
        return "cyclic", _EVERY, f"fa.epsilon(fa.BandMF({given}), delta=d)", (note,)
    call = "fa.dpsgd.epsilon(noise_multiplier=s, sample_rate=sampling_prob, steps=iterations, delta=d)"
    return "poisson", _EVERY, call, ()


def _jax_bins() -> Answer:
    rounds = "rounds = math.ceil(iterations / cycle_length)"
    call = 'fa.epsilon(fa.Gaussian(s).allocation(cycle_length, epochs=rounds, bins="persistent"), delta=d)'
    return "allocation", _COMES, call, (f"{rounds}: a round that is cut short counts as a whole one.",)


def _jax_allocation() -> Answer:
    call = "fa.epsilon(fa.Gaussian(s).allocation(t, selected=k) * rounds, delta=d)"
    return (
        "allocation",
        _COMES,
        call,
        ("A record is in k of the t steps of each round; for k above 1 this is a bound.",),
    )


def _jax_fixed(replace: bool = False) -> Answer:
    if replace:
        call = "fa.epsilon(fa.Gaussian(s).with_replacement(b, n) * iterations, delta=d)"
        return "with_replacement", _EVERY, call, ("n is the larger size of two neighbouring data sets.",)
    call = "fa.epsilon(fa.Gaussian(s).fixed_size(b, n) * iterations, delta=d)"
    return "fixed_size", _EVERY, call, ("n is the larger size of two neighbouring data sets.",)


LOADERS: Final[dict[str, Callable[..., Answer]]] = {
    "torch.utils.data.DataLoader": _torch,
    "opacus": _opacus,
    "tf.data": _tf_data,
    "grain": _grain,
    "jax_privacy.CyclicPoissonSampling": _jax_cyclic,
    "jax_privacy.BallsInBinsSampling": _jax_bins,
    "jax_privacy.RandomAllocationSampling": _jax_allocation,
    "jax_privacy.FixedBatchSampling": _jax_fixed,
    "jax_privacy.BMinSepSampling": lambda: _none("of batches with a least distance between two uses of a record"),
}
"""Loaders that are known, and the function of their settings that answers."""


def loader_guide(loader: str, **settings: Any) -> LoaderGuide:
    """Which sampler a data loader is, the relations under which a number is proved for it, and the call that gives it.

    **Guarantee.** What is said follows from the loader's documentation and from the settings given; tests draw from
    PyTorch's and Opacus' loaders and compare.  A loader of yours may differ.

    Parameters
    ----------
    loader : str
        "torch.utils.data.DataLoader", "opacus", "tf.data", "grain", or of "jax_privacy." a sampler; `fastacct
        check-loader` lists them.
    **settings
        How it is set, in its own words: of PyTorch `shuffle`, `drop_last`, and `replacement` (`RandomSampler`),
        `weighted` (`WeightedRandomSampler`), `distributed` (`DistributedSampler`, with `shuffle` its own and `padded`
        False where its drop_last is True or the workers divide the records); of Opacus `poisson_sampling`; of tf.data
        `shuffle`, `full_buffer`, `reshuffle_each_iteration`, `repeat_before_batch`; of grain `shuffle`,
        `repeat_before_batch`, `reseed_each_epoch`; of JAX Privacy `cycle_length`, `truncated`, `equal_split`,
        `replace`.

    Returns
    -------
    LoaderGuide

    Raises
    ------
    ValueError, TypeError
        A loader or a setting that is not known; the message names those that are.

    Examples
    --------
    >>> import fastacct as fa
    >>> guide = fa.loader_guide("torch.utils.data.DataLoader", shuffle=True)
    >>> guide.sampling, guide.neighbors
    ('shuffled', ('zero_out', 'replace_one'))
    >>> fa.loader_guide("opacus").call
    'fa.dpsgd.epsilon(noise_multiplier=s, sample_rate=1 / len(loader), steps=e * len(loader), delta=d)'
    """
    answer = LOADERS[as_choice("loader", loader, tuple(LOADERS))]
    known = signature(answer).parameters
    for name, value in settings.items():
        if name not in known:
            words = ", ".join(known) or "none"
            raise TypeError(f"{name} is not a setting of {loader} that matters; known: {words}")
        kind = type(known[name].default)
        if type(value) is not kind or (kind is int and value < 1):
            allowed = "True or False" if kind is bool else "a whole number from 1"
            raise TypeError(f"{name} must be {allowed}, not {value!r}")
    sampling, neighbors, call, notes = answer(**settings)
    return LoaderGuide(loader, sampling, neighbors, call, notes)
