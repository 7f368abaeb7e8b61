"""Seeds that samples are drawn from: whether somebody may know them, and whether they are drawn from again."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from fastacct.core.extras import Foreign
from fastacct.loaders.keywords import refuse_known
from fastacct.loaders.seen import Seen, of_seed

_HERE: Final[set[str]] = set()
"""Marks of what any meter of this process has drawn from."""


class Seeds:
    """Marks of the seeds that a meter has counted samples of."""

    def __init__(self, marks: object = ()) -> None:
        if not isinstance(marks, list | tuple) or not all(isinstance(one, str) for one in marks):
            raise TypeError("seeds are no list of words")
        self.marks = {*marks}

    def refuse_again(self, seed: Foreign, of: str, cure: str, *, is_counted: bool, is_after: bool) -> None:
        """ValueError where the samples that numpy's default_rng(seed) draws are known, or were counted already.

        A seed that somebody may know is warned of; None is a new one.  Of another meter, whose releases this one is
        after, seeds are known in this process alone.
        """
        if seed is None:
            return
        state = np.random.default_rng(seed).bit_generator
        mark = hashlib.sha256(repr(state.state).encode()).hexdigest()[:32]
        if (is_counted and mark in self.marks) or (is_after and mark in _HERE):
            raise ValueError(f"{of} draws the same batches again, from a seed that was counted already: {cure}")
        given = getattr(getattr(state, "seed_seq", None), "entropy", None)
        refuse_known(Seen(of, "jax_privacy", {}, {}, 0, notes=of_seed(given if isinstance(given, int) else None)))
        self.marks.add(mark)
        _HERE.add(mark)


def seed_of(batches: object) -> Foreign:
    """What `sampler.batch_iterator(n, rng)` of JAX Privacy draws from; None of other batches, and of a new seed."""
    frame: Foreign = getattr(batches, "gi_frame", None)
    is_known = frame is not None and str(frame.f_globals.get("__name__")).startswith("jax_privacy.")
    return frame.f_locals.get("rng") if is_known else None
