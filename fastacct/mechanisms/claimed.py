"""What is asked of classes of mechanisms that are somebody else's, before they are used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastacct.core.relations import Relation, both_ways
from fastacct.losses.atoms import both, epsilon_delta, in_reach
from fastacct.losses.loss import Bracket, OutOfReachError, Pair

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism

_SAID: Final = {"decompose", "divergence", "divergence_given", "losses", "sample_losses", "sampled_gaussian"}
"""What says more of a mechanism than a pure guarantee."""
Losses = Callable[..., object]


def completed(cls: type[Mechanism], base: type[Mechanism]) -> None:
    """Refuse a class that would inherit guarantees, and check the losses that somebody else's returns.

    One that says a pure guarantee alone has the losses of the worst mechanism with this guarantee, as `PureDP` has.
    """
    for one in cls.__bases__:
        if issubclass(one, base) and one is not base:
            raise TypeError(
                f"{one.__name__} is final: {cls.__name__} would inherit guarantees that need not hold for it; "
                "derive it from fastacct.Mechanism and implement losses, divergence or decompose"
            )
    said = vars(cls).keys() & {*_SAID, "pure_epsilon"}
    if not cls.__module__.startswith("fastacct.") and ("losses" in said or said == {"pure_epsilon"}):
        cls.losses = _losses(cls, vars(cls).get("losses"))  # type: ignore[assignment, method-assign]


def _losses(cls: type[Mechanism], own: Losses | None) -> Callable[[Mechanism, Relation], Pair | None]:
    """What a class returns, checked, or the losses of its pure guarantee."""

    def losses(self: Mechanism, relation: Relation) -> Pair | None:
        if own is None:
            epsilon = float(self.pure_epsilon(both_ways(relation)))
            if 0.0 <= epsilon < math.inf:
                in_reach(epsilon)
            return both(epsilon_delta(epsilon if epsilon >= 0.0 else math.inf, 0.0))
        try:
            found = own(self, relation)
        except OutOfReachError:
            raise
        except ValueError as error:
            raise ValueError(f"{self!r}.losses({relation!r}): {error}") from error
        if found is not None and not isinstance(found, Pair):
            wrong = f"{cls.__name__}.losses returned a {type(found).__name__}"
            raise TypeError(f"{wrong}: it must return a fastacct.mechanism_kit.Pair, or None where none is known")
        for side in () if found is None else ("remove", "add"):
            if not isinstance(one := getattr(found, side), Bracket):
                wrong = f"{cls.__name__}.losses returned a Pair whose {side} is a {type(one).__name__}"
                raise TypeError(f"{wrong}: it must be a loss, such as fastacct.mechanism_kit.table makes")
        return found

    return losses
