"""Which sampler a data loader is, under which neighbouring relation a number is proved for it, and what to call."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final, NamedTuple

from fastacct.core.inputs import as_choice

__all__ = ["LOADERS", "LoaderGuide", "loader_guide"]

ALWAYS: Final = (
    "Clip each record's gradient, add noise_multiplier * clipping norm to the *sum*, then divide by a fixed number, "
    "such as the expected batch size. Dividing by the size of the batch that was drawn is not covered.",
    "Noise is added once for each optimizer step. If gradients of several batches are accumulated before it, one step "
    "is one noisy sum: batches of one epoch's order are one larger batch; independent Poisson batches are "
    ".poisson(q, draws=m).",
    "Layers that mix records, such as batch norm, have no gradient of one record: use group or layer norm.",
    "Runs that you tried and did not keep count, too: add them up, or see fastacct.RepeatedSelection.",
    "delta is below 1/records, and is chosen before.",
)


class LoaderGuide(NamedTuple):
    """What `loader_guide` says; `str` and `print` give it in words."""

    loader: str
    sampling: str | None
    """The value of `sampling=`; None: no amplification is proved, and the call says what is."""
    neighbors: tuple[str, ...]
    """Relations under which the call is proved."""
    call: str
    """What to ask, `run` being noise_multiplier, records, batch_size, epochs and delta."""
    notes: tuple[str, ...]
    """What must be true of the loader, and of the loop."""

    def __str__(self) -> str:
        known = f'sampling="{self.sampling}"' if self.sampling else "no sampler with amplification"
        run = "run = dict(noise_multiplier=..., records=..., batch_size=..., epochs=..., delta=...)"
        lines = [f"{self.loader}: {known}; neighbors: {', '.join(self.neighbors)}", f"  {run}", f"  {self.call}"]
        return "\n".join([*lines, *(f"* {note}" for note in (*self.notes, *ALWAYS))])


_COMES: Final = ("add_remove", "zero_out")
_STAYS: Final = ("zero_out", "replace_one")
_EVERY: Final = (*_COMES, "replace_one")
_WHOLE: Final = 'fa.dpsgd.epsilon(noise_multiplier=s, sample_rate=1, steps=e, delta=d, neighbors="zero_out")'
Answer = tuple[str | None, tuple[str, ...], str, tuple[str, ...]]


def _call(sampling: str, relation: str = "add_remove", more: str = "") -> str:
    named = "" if sampling == "poisson" else f', sampling="{sampling}"{more}'
    way = "" if relation == "add_remove" else f', neighbors="{relation}"'
    return f"fa.dpsgd.epsilon(**run{named}{way})"


def _poisson(*notes: str) -> Answer:
    return "poisson", _EVERY, _call("poisson"), notes


def _shuffled(*notes: str, is_kept: bool = False) -> Answer:
    own = "One random order of all records an epoch. The upper end of the interval is proved; Poisson numbers are not."
    more = ', bins="persistent"' if is_kept else ""
    return "shuffled", _STAYS, _call("shuffled", "zero_out", more), (own, *notes)


def _in_order(why: str) -> Answer:
    return None, _STAYS, _WHOLE, (why, "A record is in one known batch an epoch: no amplification.")


def _torch(
    shuffle: bool = False, drop_last: bool = False, replacement: bool = False, weighted: bool = False,
    distributed: bool = False,
) -> Answer:  # fmt: skip
    if weighted:
        why = "WeightedRandomSampler draws with weights that may depend on the data: rates must be public."
        return None, (), "no number is proved; draw uniformly, or Poisson batches", (why,)
    if replacement:
        own = "RandomSampler(replacement=True): batch_size independent draws in every step, so that records repeat."
        return "with_replacement", _EVERY, _call("with_replacement"), (own,)
    notes = []
    if drop_last:
        notes.append("drop_last=True leaves records out where batch_size does not divide records: only the upper end.")
    if distributed:
        notes.append(
            "DistributedSampler: batch_size is that of all workers together; set_epoch(epoch) must be called. Without "
            "drop_last=True it repeats records to fill the last batches: a repeated record has twice the sensitivity."
        )
    if not shuffle:
        return _in_order("Without shuffle=True records come in a fixed order.")
    return _shuffled(*notes)


def _opacus(poisson_sampling: bool = True) -> Answer:
    if poisson_sampling:
        return _poisson(
            "DPDataLoader and make_private(..., poisson_sampling=True) draw each record by itself. Empty batches are "
            "steps, too. BatchMemoryManager splits a batch without changing it."
        )
    return _shuffled("make_private(..., poisson_sampling=False) keeps your own loader: the numbers of Opacus' own "
                     "accountants are those of Poisson batches and do not hold.")  # fmt: skip


def _tf_data(shuffle: bool = False, full_buffer: bool = False, reshuffle_each_iteration: bool = True) -> Answer:
    if not shuffle:
        return _in_order("A dataset without shuffle() comes in a fixed order.")
    if not full_buffer:
        return _in_order("A buffer smaller than the data set does not shuffle uniformly: what holds for every order is")
    kept = [] if reshuffle_each_iteration else ["reshuffle_each_iteration=False keeps the first order."]
    return _shuffled(*kept, is_kept=not reshuffle_each_iteration)


def _grain(shuffle: bool = False) -> Answer:
    if not shuffle:
        return _in_order("Without shuffle records come in a fixed order.")
    return _shuffled("IndexSampler(shuffle=True) and MapDataset.shuffle().repeat() draw a new order in each epoch.")


def _jax_cyclic(cycle_length: int = 1, truncated: bool = False, equal_split: bool = False) -> Answer:
    if truncated and cycle_length > 1:
        return None, (), "no number is proved for truncated batches of groups; leave out truncated_batch_size", ()
    if truncated:
        return "truncated", _EVERY, _call("truncated", more=", at_most=m"), ("truncated_batch_size is at_most.",)
    if cycle_length > 1:
        notes = [f"bands is cycle_length, here {cycle_length}; batch_size is what one step expects."]
        if equal_split:
            notes.append("Equal groups depend on the number of records: ask for zero_out or replace_one.")
        relations = _STAYS if equal_split else _EVERY
        call = _call("cyclic", relations[0], f", bands={cycle_length}")
        return "cyclic", relations, call, tuple(notes)
    return _poisson("sampling_prob is batch_size / records.")


def _jax_bins() -> Answer:
    own = "Each record keeps its bin in all rounds. batch_size is records / cycle_length, epochs the number of rounds."
    return "allocation", _COMES, _call("allocation", more=', bins="persistent"'), (own,)


LOADERS: Final[dict[str, Callable[..., Answer]]] = {
    "torch.utils.data.DataLoader": _torch,
    "opacus": _opacus,
    "tf.data": _tf_data,
    "grain": _grain,
    "jax_privacy.CyclicPoissonSampling": _jax_cyclic,
    "jax_privacy.BallsInBinsSampling": _jax_bins,
}
"""Loaders that are known, and the function of their settings that answers."""


def loader_guide(loader: str, **settings: Any) -> LoaderGuide:
    """Which sampler a data loader is, the relations under which a number is proved for it, and the call that gives it.

    **Guarantee.** What is said follows from the loader's documentation and from the settings given; tests draw from
    PyTorch's and Opacus' loaders and compare.  A loader of yours may differ.

    Parameters
    ----------
    loader : str
        "torch.utils.data.DataLoader", "opacus", "tf.data", "grain", "jax_privacy.CyclicPoissonSampling" or
        "jax_privacy.BallsInBinsSampling".
    **settings
        How it is set, in its own words: of PyTorch `shuffle`, `drop_last`, and `replacement` (`RandomSampler`),
        `weighted` (`WeightedRandomSampler`), `distributed` (`DistributedSampler`); of Opacus `poisson_sampling`; of
        tf.data `shuffle`, `full_buffer`, `reshuffle_each_iteration`; of grain `shuffle`; of JAX Privacy `cycle_length`,
        `truncated`, `equal_split`.

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
    >>> guide.call
    'fa.dpsgd.epsilon(**run, sampling="shuffled", neighbors="zero_out")'
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
