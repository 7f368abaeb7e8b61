"""What is asked of a job, and how: a quantity at targets, and the rungs of the ladder that may answer."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation

Quantity = Literal["epsilon", "delta", "log_delta"]


class Settings(NamedTuple):
    """Which rungs an accountant asks, and how."""

    rungs: tuple[str, ...] = ("line", "pure", "twice", "losses", "divergences", "unsampled")
    tolerance: float | None = None
    """Of the grid alone; None: every reader of losses, the grid with its own tolerance."""
    spacing: float | None = None
    orders: Cells | None = None
    conversion: str = "canonne_kamath_steinke"
    only_lower: bool = False
    """Of grids: the upper ends are not looked at."""


EXACTLY: Final = Settings()
DIVERGENCES: Final = Settings(rungs=("pure", "divergences"))
QUICKLY: Final = Settings(rungs=("line", "pure"))
ROUGHLY: Final = Settings(rungs=("line", "pure", "coarse"))
SPARINGLY: Final = Settings(rungs=("pure", "divergences", "unsampled"))


class Ask(NamedTuple):
    """What is asked of a job: a quantity at targets, under a relation."""

    quantity: Quantity
    target: Cells
    shape: tuple[int, ...]
    """Broadcast shape of the job and the target."""
    relation: Relation = "add_remove"
    threads: int = 1
    only_upper: bool = False
