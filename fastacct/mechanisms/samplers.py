"""The table of samplers: one row for each way to draw batches.  All that names, lists or refuses one looks there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fastacct.core.relations import Relation


class Sampler(NamedTuple):
    """One way to draw batches: a value of `sampling=`, and most often a method of Gaussian noise of the same name."""

    about: str
    """When a number holds."""
    needs: tuple[str, ...] = ()
    """What fixes its batches ..."""
    takes: tuple[str, ...] = ()
    """... and what may be given beside it."""
    title: str = ""
    """In pictures, which draw it under these relations."""
    drawn: tuple[Relation, ...] = ()
    refused: str = ""
    """Of a method that mechanisms of other noise refuse: what is known for Gaussian noise only."""
    first: str = ""
    """The parameter of the method that alone says all."""
    is_by_epochs: bool = False
    """Whether a run is whole epochs, and no number of steps."""
    adds_up: bool = False
    """Whether several of its batches are one larger batch."""


_SIZES: Final = ("batch_size", "records")
# fmt: off
SAMPLERS: Final = {
    "poisson": Sampler(
        "every step samples each record independently (Poisson)",
        title="Poisson", drawn=("add_remove", "replace_one"), first="sample_rate",
    ),
    "fixed_size": Sampler(
        "every step draws batch_size of the records without replacement, and both numbers are public",
        _SIZES, title="fixed size", drawn=("add_remove",), refused="batches of fixed size are",
    ),
    "with_replacement": Sampler(
        "every step draws batch_size times from the records, uniformly, and both numbers are public",
        _SIZES, title="with replacement", drawn=("add_remove",), refused="batches drawn with replacement are",
        adds_up=True,
    ),
    "truncated": Sampler(
        "every step samples each record independently and keeps a random at_most of them, and at_most and records are "
        "public",
        ("records", "at_most"),
    ),
    "cyclic": Sampler(
        "step i samples each record of group i mod bands independently, and the groups do not depend on the data",
        ("bands",), _SIZES,
    ),
    "allocation": Sampler(
        "every record takes part in random steps of each epoch, drawn by itself, and the steps of an epoch are public",
        (*_SIZES, "epochs"), ("bins", "selected"),
        title="each record in one random step", drawn=("add_remove",),
        refused="random allocation is", first="steps", is_by_epochs=True,
    ),
    "shuffled": Sampler(
        "the records are cut into batches in a random order in each epoch, and the sizes of batches are public",
        (*_SIZES, "epochs"), ("bins",),
        title="shuffled", drawn=("zero_out", "replace_one"),
        refused="shuffled batches are", first="steps", is_by_epochs=True,
    ),
}
# fmt: on
VERBS: Final = tuple(name for name, one in SAMPLERS.items() if one.refused or one.first)
"""Those that are methods of mechanisms."""
OF_ONE_SIZE: Final = ("fixed_size", "with_replacement")
"""What draws batches of one size, by whether a record may be drawn twice."""
