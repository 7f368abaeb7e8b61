"""Seeds that samples are drawn from: whether somebody may know them, and whether they are drawn from again."""

from __future__ import annotations

import hashlib
import inspect
import sys
import weakref
from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple, cast

import numpy as np

from fastacct.core.extras import Foreign
from fastacct.loaders.keywords import refuse_known
from fastacct.loaders.pytorch import refuse_few_bits
from fastacct.loaders.seen import Seen, of_seed

_HERE: Final[set[str]] = set()
"""Marks of what any meter of this process has drawn from."""
_BEGUN: Final[MutableMapping[object, Begin]] = weakref.WeakKeyDictionary()
"""What iterators that meters have gone through began with."""
_MET: Final[dict[tuple[int, str], object]] = {}
"""Generators that meters of this process have met, by their ids and seeds; kept, so that no id comes twice."""


class Begin(NamedTuple):
    """What samples are drawn from."""

    of: str
    mark: str
    """Of the state."""
    origin: str
    """Of the seed, which stays the same while numbers are drawn."""
    cure: str
    generator: object = None
    seed: int | None = None
    """Of a generator of PyTorch its loader tells."""
    iterator: object = None
    goes_on: bool = False
    what: str = "batches"


def _mark(state: bytes) -> str:
    return hashlib.sha256(state).hexdigest()[:32]


def of_generator(generator: object, state: Foreign, seed: int) -> Begin:
    """Samples of PyTorch, by the state and the seed that their generator had."""
    marks = _mark(state.numpy().tobytes()), _mark(b"%d" % seed)
    return Begin("the loader's generator", *marks, "seed it anew, secret = torch.Generator(); secret.seed()", generator)


def of_noise(optimizer: Foreign) -> Begin | None:
    """Noise from a generator that an optimizer has for itself; None of others, and of the system's."""
    drawn: Foreign = getattr(optimizer, "generator", None)
    try:
        state, seed = drawn.get_state().numpy().tobytes(), drawn.initial_seed()
    except (AttributeError, RuntimeError):
        return None
    cure = "give it one with a new seed, secret = torch.Generator(device); secret.seed()"
    marks = _mark(b"noise" + state), _mark(b"noise %d" % seed)
    return Begin("the optimizer's generator", *marks, cure, drawn, what="noise")


def of_numpy(of: str, seed: Foreign, cure: str) -> Begin:
    """What numpy's default_rng(seed) begins with."""
    state = np.random.default_rng(seed).bit_generator
    sequence: Foreign = getattr(state, "seed_seq", None)
    given, key = getattr(sequence, "entropy", None), getattr(sequence, "spawn_key", ())
    mark = _mark(repr(state.state).encode())
    origin = mark if given is None else _mark(repr((given, key)).encode())
    return Begin(of, mark, origin, cure, state, given if isinstance(given, int) else None)


def _of_jax(batches: object) -> Mapping[str, Foreign]:
    """What `sampler.batch_iterator(n, rng)` of JAX Privacy goes by; nothing of other batches."""
    frame: Foreign = getattr(batches, "gi_frame", None)
    is_known = frame is not None and str(frame.f_globals.get("__name__")).startswith("jax_privacy.")
    return frame.f_locals if is_known else {}


def drawn_by(batches: object, run: Mapping[str, Foreign]) -> tuple[object, ...]:
    """The loader, or the sampler of JAX Privacy, that draws batches, where it is seen.

    Raises
    ------
    ValueError
        Where it draws from another number of records than the run has.
    """
    if hasattr(batches, "batch_sampler"):
        return (batches,)
    given = _of_jax(batches)
    n, records = given.get("num_examples"), run.get("records")
    if None not in (n, records) and n != records:
        raise ValueError(f"batch_iterator draws from {n} records, and the meter counts records = {records!r}")
    return (given["self"],) if "self" in given else ()


def begin_of(batches: object) -> Begin | None:
    """What `sampler.batch_iterator(n, rng)` of JAX Privacy and samples of PyTorch begin with; None of other batches.

    Raises
    ------
    ValueError
        An iterator that was begun before a meter saw it: batches that were counted may come again.
    """
    if (rng := _of_jax(batches).get("rng")) is not None:
        if batches in _BEGUN:
            return _BEGUN[batches]._replace(goes_on=True)
        if inspect.getgeneratorstate(cast("Foreign", batches)) != inspect.GEN_CREATED:
            raise ValueError(
                "this iterator was begun before the meter saw it, so that it may draw batches that were counted "
                "already: give batches() a new one, batch_iterator(n, rng), before its first batch is taken"
            )
        found = of_numpy("batch_iterator(n, rng)", rng, "take rng=numpy.random.default_rng()")
        return found._replace(iterator=batches)
    sampler: Foreign = getattr(batches, "batch_sampler", None)
    if sampler is None and hasattr(batches, "_sampler_iter"):  # iter(loader)
        sampler = getattr(batches, "_index_sampler", None)
        if of_sampler(sampler) is not None:
            raise ValueError("this iterator of a loader has been begun: give batches() the loader itself")
        return None
    return of_sampler(sampler)


def of_sampler(sampler: Foreign) -> Begin | None:
    """What samples of PyTorch begin with."""
    if type(sampler).__module__.startswith("opacus."):
        refuse_few_bits()
    else:
        sampler = getattr(sampler, "sampler", None)
        if not getattr(sampler, "replacement", False):
            return None
    drawn: Foreign = getattr(sampler, "generator", None) or sys.modules["torch"].default_generator
    try:
        return of_generator(drawn, drawn.get_state(), drawn.initial_seed())
    except RuntimeError:  # of the system, as Opacus' secure_mode has it
        return None


class Seeds:
    """Marks of the seeds that a meter has counted samples of."""

    def __init__(self, marks: object = ()) -> None:
        if not isinstance(marks, list | tuple) or not all(isinstance(one, str) for one in marks):
            raise TypeError("seeds are no list of words")
        self.marks = {*marks}
        self.theirs: set[str] = set()
        """Of others with the same file, who may be before their first step."""

    def refuse_again(self, begin: Begin | None, *, is_counted: bool, is_after: bool) -> None:
        """ValueError where samples are known, or were counted already; None begins with a new seed.

        A seed that somebody may know is warned of.  Of another meter, whose releases this one is after, seeds are known
        in this process alone.  A generator that was met before goes on; another one of its seed may draw again what it
        drew, wherever it stands.
        """
        if begin is None:
            return
        marks = {begin.mark, begin.origin}
        if begin.goes_on:  # with batches that nobody has counted
            self.marks |= marks
            return
        again = {begin.mark} if (id(begin.generator), begin.origin) in _MET else marks
        if again & self.theirs or (is_counted and again & self.marks) or (is_after and again & _HERE):
            raise ValueError(
                f"{begin.of} draws the same {begin.what} again, from a seed that was counted already: {begin.cure}"
            )
        refuse_known(Seen(begin.of, "jax_privacy", {}, {}, 0, notes=of_seed(begin.seed)))
        self.marks |= marks
        _HERE.update(marks)
        if begin.generator is not None:
            _MET[id(begin.generator), begin.origin] = begin.generator
        if begin.iterator is not None:
            _BEGUN[begin.iterator] = begin._replace(iterator=None)
