"""The table of samplers: one row for each way to draw batches.  All that names, lists or refuses one looks there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast

import numpy as np

from fastacct.core.inputs import Cells, unwrap
from fastacct.core.record import fields_of
from fastacct.core.relations import Relation
from fastacct.mechanisms.base import Value
from fastacct.mechanisms.error import ErrorLaw

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism


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
    keeps_size: bool = False
    """Whether a record takes the place of another one, whatever the relation."""
    is_seen: bool = False
    """Whether everyone knows in which step of an epoch a record takes part, as far as is proved."""

    @property
    def hides_size(self) -> bool:
        """Whether the number of records in a batch is secret."""
        return not (self.keeps_size or self.is_seen)

    @property
    def names_records(self) -> bool:
        """Whether its numbers hold for one number of all records."""
        return "records" in self.needs and not self.is_by_epochs


_SIZES: Final = ("batch_size", "records")
# fmt: off
SAMPLERS: Final = {
    "poisson": Sampler(
        "every step samples each record independently (Poisson)",
        title="Poisson", drawn=("add_remove", "replace_one"), first="sample_rate",
    ),
    "fixed_size": Sampler(
        "every step draws batch_size of the records without replacement, and both numbers are public",
        _SIZES, title="fixed size", drawn=("add_remove",), refused="batches of fixed size are", keeps_size=True,
    ),
    "with_replacement": Sampler(
        "every step draws batch_size times from the records, uniformly, and both numbers are public",
        _SIZES, title="with replacement", drawn=("add_remove",), refused="batches drawn with replacement are",
        adds_up=True, keeps_size=True,
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
        refused="shuffled batches are", first="steps", is_by_epochs=True, is_seen=True,
    ),
}
# fmt: on
VERBS: Final = tuple(name for name, one in SAMPLERS.items() if one.refused or one.first)
"""Those that are methods of mechanisms."""
OF_ONE_SIZE: Final = ("fixed_size", "with_replacement")
"""What draws batches of one size, by whether a record may be drawn twice."""
_SHOWN: Final = (*VERBS, "decompose", "group", "local", "relations", "tight")
"""Attributes that `dir` of a mechanism shows beside its parameters."""


class Refusals(Value):
    """What is refused by name, unless a mechanism says otherwise: samplers, the distribution of its error."""

    def __dir__(self) -> list[str]:
        """Parameters, and what a person does with a mechanism; what a class of somebody else's adds."""
        kind = type(self)
        theirs = (base for base in kind.__mro__[:-1] if not base.__module__.startswith("fastacct."))
        verbs = (name for name in dir(kind) if name in _SHOWN or name.startswith("from_"))
        return sorted({*(own.name for own in fields_of(kind)), *verbs, *(name for own in theirs for name in vars(own))})

    def error_law(self, *args: Any, **about: Any) -> ErrorLaw:
        """The distribution of a release's error, in units of one record's contribution; each mechanism has keywords."""
        raise ValueError(f"the error of {self!r} is not known: it depends on more than the mechanism says")

    def others_alike(self, relation: Relation) -> Mechanism:
        """What it releases at least where the other records contribute nothing: of most, itself."""
        return cast("Mechanism", self)

    def plain_noise(self) -> Cells:
        """The noise multiplier of plain Gaussian noise."""
        raise ValueError(f"batches of fixed or bounded size are known for Gaussian noise only, not for {self!r}")


def _refusing(verb: str, what: str) -> Callable[..., Value]:
    def refuse(self: Value, *args: object, **settings: object) -> Value:
        raise ValueError(f"{what} known for Gaussian noise only, not for {self!r}")

    refuse.__name__, refuse.__qualname__ = verb, f"{Refusals.__qualname__}.{verb}"
    refuse.__doc__ = f"Refused: {what} known for Gaussian noise only."
    return refuse


for _verb in VERBS:
    if SAMPLERS[_verb].refused:
        setattr(Refusals, _verb, _refusing(_verb, SAMPLERS[_verb].refused))


class OfGaussian(Value):
    """What mechanisms share that are plain Gaussian noise on random batches."""

    mechanism: Mechanism
    made_by: ClassVar[str]
    """The verb that makes one."""
    ordered: ClassVar[tuple[str, str] | None] = None
    """A parameter, and the one that it must not exceed."""
    drawn: ClassVar[str | None] = None
    """The parameter that is 0 where no record is drawn."""

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Refusals):
            raise TypeError(f"mechanism must be a mechanism, not {self.mechanism!r}")
        self.mechanism.plain_noise()  # refuses what is not plain Gaussian noise
        super().__post_init__()
        if self.ordered is not None:
            least, most = np.broadcast_arrays(*(getattr(self, name) for name in self.ordered))
            if (least > most).any():
                (name, limit), first = self.ordered, np.argmax(least > most)
                raise ValueError(f"{name} = {float(least.flat[first])!r} exceeds {limit} = {float(most.flat[first])!r}")

    @property
    def noise(self) -> Cells:
        """Noise multiplier of the mechanism on all records."""
        return self.mechanism.plain_noise()

    @property
    def is_nothing(self) -> bool:
        """Whether the noise hides all, or no record is drawn."""
        return self.noise == math.inf or (self.drawn is not None and getattr(self, self.drawn) == 0.0)

    def moved_by(self, far: Cells) -> Mechanism:
        """The mechanism, where a record that takes the places of others moves the sum so far."""
        noise = self.noise / far
        less = unwrap(np.where(far == 2.0, noise, np.nextafter(noise, 0.0)))
        changed: dict[str, float | Cells] = {"noise_multiplier": less}
        return replace(self.mechanism, **changed).marked(self.is_replaced)

    def pure_epsilon(self, relation: Relation) -> float:
        return 0.0 if self.is_nothing else math.inf

    def __repr__(self) -> str:
        shown = (f"{own.name}={getattr(self, own.name)!r}" for own in fields_of(type(self))[1:])
        return f"{self.mechanism!r}.{self.made_by}({', '.join(shown)})"
