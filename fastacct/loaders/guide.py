"""Which sampler a data loader is, under which neighbouring relation a number is proved for it, and what to call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fastacct.core.inputs import as_choice
from fastacct.loaders.objects import seen
from fastacct.loaders.seen import Seen

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
    uses: tuple[float, float]
    """How often an epoch, or a round, uses a record: least and most; the worst of what the settings allow."""
    lower_holds: bool
    """Whether the lower end of the interval holds, too.  If False, take the upper end alone: `fa.dpsgd.epsilon`."""
    run: Mapping[str, Any] = MappingProxyType({})
    """Of a live loader: the keywords of `fastacct.dpsgd` that it fixes.

    Empty where they would not be those of its data: JAX Privacy's `BallsInBinsSampling` does not know its records, and
    workers may repeat some.
    """

    def __str__(self) -> str:
        known = f'sampling="{self.sampling}"' if self.sampling else "no sampler with amplification"
        lines = [f"{self.loader}: {known}; neighbors: {', '.join(self.neighbors) or 'none'}", f"  {self.call}"]
        if self.neighbors:
            why = f", since records may {'be left out' if self.uses[0] == 0 else 'come twice'}" * (self.uses[1] < inf)
            ends = "both ends hold" if self.lower_holds else f"only the upper end is proved{why}"
            lines += [f"  ({_NAMES})", f"  An epoch uses a record {_times(*self.uses)}; of an interval {ends}."]
        return "\n".join([*lines, *(f"* {note}" for note in (*self.notes, *loaders()["always"]))])


def _times(least: float, most: float) -> str:
    """How often a record is used, in words."""
    known: dict[tuple[float, float], str] = {(0, 1): "at most once", (1, 1): "once", (1, 2): "once or twice"}
    known |= {(0, inf): "any number of times", (1, inf): "at least once"}
    return known.get((least, most), f"{least} to {most} times")


@cache
def loaders() -> dict[str, Any]:
    """What is said of each loader that is known, and `always`, from the file beside this one."""
    import tomllib
    from pathlib import Path

    return tomllib.loads(Path(__file__).with_name("loaders.toml").read_text("utf-8"))


def loader_guide(loader: object, **settings: Any) -> LoaderGuide:
    """Which sampler a data loader is, the relations under which a number is proved for it, and the call that gives it.

    **Guarantee.** What is said follows from the loader's documentation and from the settings given; tests draw from
    real loaders and compare.  The upper end of what the call gives holds; the lower end of its interval where
    `lower_holds` is True.  A live loader is known by its exact class: a class of yours is refused, and of what is
    given beside it (a collate function, a data set that repeats its items) nothing is known.

    Parameters
    ----------
    loader : str or object
        "torch.utils.data.DataLoader", "opacus", "transformers.Trainer", "accelerate", "lightning", "tf.data", "grain",
        or of "jax_privacy." a sampler; `fastacct check-loader` lists them.  Or a live one: a loader of PyTorch, Opacus,
        Accelerate, Lightning or grain, a `Trainer` of Transformers, a sampler of JAX Privacy.
    **settings
        How it is set, in its own words: of PyTorch `shuffle`, `drop_last`, and `replacement` (`RandomSampler`),
        `weighted` (`WeightedRandomSampler`), `distributed` (`DistributedSampler`, with `shuffle` its own and
        `sampler_drop_last` True where its drop_last is, or where the workers divide the records); of Opacus
        `poisson_sampling`, and `shuffle` and `drop_last` of the loader that make_private is given; of Transformers,
        Accelerate and Lightning `distributed`, `drop_last`, `even_batches`; of tf.data `shuffle`, `buffer_size` and
        `records` (both, where the buffer holds all), `reshuffle_each_iteration`, `repeat_before_batch`,
        `drop_remainder`; of grain `shuffle`, `repeat_before_batch`, `reseed_each_epoch`, `drop_remainder`; of JAX
        Privacy `cycle_length`, `truncated`, `equal_split`, `replace`.  Of a live loader one alone: `make_private=True`
        where Opacus' make_private is given it, and not the loop.

    Returns
    -------
    LoaderGuide

    Raises
    ------
    ValueError, TypeError
        A loader or a setting that is not known; the message names those that are.  A live loader of which nothing is
        proved; the message says what to write instead.

    Examples
    --------
    >>> import fastacct as fa
    >>> guide = fa.loader_guide("torch.utils.data.DataLoader", shuffle=True)
    >>> guide.sampling, guide.neighbors
    ('shuffled', ('zero_out', 'replace_one'))
    >>> guide.uses, guide.lower_holds
    ((1, 1), True)
    >>> fa.loader_guide("torch.utils.data.DataLoader", shuffle=True, drop_last=True).lower_holds
    False
    """
    if not isinstance(loader, str):
        if beside := [name for name in settings if name != "make_private"]:
            raise TypeError(f"{beside[0]} is what a live loader says itself: leave it out; known: make_private")
        guide = guide_of(seen(loader, **settings))
        name = "private_loader" if settings.get("make_private") else "loader"
        return guide._replace(call=guide.call.replace("=loader", f"={name}"))
    name, preset = _named(loader)
    about = loaders()["loaders"][name]
    if settings.get("replacement"):
        preset.pop("shuffle", None)  # a RandomSampler shuffles, or draws with replacement
    known = about["settings"]
    for setting, value in settings.items():
        if setting not in known:
            words = ", ".join(known) or "none"
            raise TypeError(f"{setting} is not a setting of {loader} that matters; known: {words}")
        kind = type(known[setting])
        if type(value) is not kind or (kind is int and value < 1):
            allowed = "True or False" if kind is bool else "a whole number from 1"
            raise TypeError(f"{setting} must be {allowed}, not {value!r}")
    asked = preset | settings
    if "instead" in about and about["instead"]["when"].items() <= asked.items():
        own = {one: value for one, value in asked.items() if one not in about["instead"]["when"]}
        if own:  # the loader is used as it is, and said how it is set
            guide = loader_guide(about["instead"]["loader"], **own)
            notes = (about["instead"]["note"], *(one for one in guide.notes if "make_private" not in one))
            return guide._replace(loader=name, notes=notes)
    return _answered(name, known | asked)


def guide_of(live: Seen) -> LoaderGuide:
    """What is said of a live loader, with the keywords that it fixes in the place of letters."""
    guide = _answered(live.loader, loaders()["loaders"][live.loader]["settings"] | live.settings)
    notes = (*live.notes, *guide.notes)
    if not guide.neighbors:
        return guide._replace(loader=live.name, notes=notes)
    much = "steps=t" if live.is_by_steps else "epochs=e"
    relation = "" if "add_remove" in guide.neighbors else f', neighbors="{guide.neighbors[0]}"'
    more = "".join(
        f", {name}={letter}" for name, letter in (("records", "n"), ("batch_size", "b")) if name in live.asks
    )
    call = f"fa.dpsgd.epsilon(loader=loader, noise_multiplier=s, {much}{more}, delta=d{relation})"
    is_own = live.share == 1.0 and ("records" not in live.run or live.records is not None)
    return guide._replace(loader=live.name, call=call, notes=notes, run=MappingProxyType(live.run if is_own else {}))


def _named(loader: str) -> tuple[str, dict[str, bool]]:
    """The entry of the table for what people call a loader, and what its name says of its settings."""
    table = loaders()
    known = {name.casefold(): [name] for name in table["loaders"]} | table["aliases"]
    called = loader.casefold()
    name, *true = known.get(called, known.get(called.removeprefix("torch.utils.data."), [loader]))
    if "|" in name:
        raise ValueError(f"loader = {loader!r} is one of several: {' or '.join(map(repr, name.split('|')))}")
    return as_choice("loader", name, tuple(table["loaders"])), dict.fromkeys(true, True)


def _answered(loader: str, given: dict[str, Any]) -> LoaderGuide:
    """The first answer that agrees with the settings, and what changes with those that are true."""
    about = loaders()["loaders"][loader]
    if any(sum(given[name] for name in names) > 1 for names in about.get("one_of", ())):
        raise ValueError(about["refusal"])
    given |= {name: given[one] >= given[other] for name, (one, other) in about.get("at_least", {}).items()}
    found = next(one for one in about["answers"] if one.get("when", {}).items() <= given.items())
    answer = _completed(found)
    for name, change in answer.get("more", {}).items():
        if given.get(name):
            answer |= change | {"notes": [*answer["notes"], change["note"]]}
    neighbors, notes, (least, most) = answer["neighbors"], answer["notes"], answer["uses"]
    proved = answer["call"], tuple(notes), (least, most), answer["lower_holds"]
    return LoaderGuide(loader, answer.get("sampling"), tuple(neighbors), *proved)


def _completed(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with what it takes from those that it is like."""
    like = loaders()["answers"].get(answer.get("like"))
    return (_completed(like) if like else {}) | answer
