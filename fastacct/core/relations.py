"""Neighbouring relations: their names, the directions in which they compare data sets, and what they do to a sum."""

from __future__ import annotations

from typing import Final, Literal

from fastacct.core.inputs import as_choice

Relation = Literal["add_remove", "add", "remove", "zero_out", "replace_one"]
Direction = Literal["remove", "add"]

RELATIONS: Final = {
    "add_remove": "adding or removing one record",
    "add": "adding one record",
    "remove": "removing one record",
    "replace_one": "replacing one record",
    "zero_out": "zeroing out one record",
}
"""What a neighbouring relation does to a data set."""
SAMPLED: Final[tuple[Relation, ...]] = ("add_remove", "add", "remove", "zero_out")
"""Relations under which any dominating pair can be Poisson-subsampled."""
ALL: Final[tuple[Relation, ...]] = (*SAMPLED, "replace_one")
DIRECTIONS: Final[dict[Relation, tuple[Direction, ...]]] = {
    **dict.fromkeys(ALL, ("remove", "add")),
    "add": ("add",),
    "remove": ("remove",),
}
"""Each direction is composed separately; a relation's answer is the larger one."""


def as_relation(neighbors: object) -> Relation:
    """One of the neighbouring relations."""
    return as_choice("neighbors", neighbors, ALL)


def sensitivity(relation: Relation) -> float:
    """Sensitivity of a sum, in units of one record's contribution: 2 for replace-one, else 1."""
    return 2.0 if relation == "replace_one" else 1.0


def both_ways(relation: Relation) -> Relation:
    """The relation in both directions, for theorems that need both."""
    return "add_remove" if relation in ("add", "remove") else relation


def refuse(what: object, relation: Relation, supported: tuple[Relation, ...]) -> ValueError:
    """The error for a relation that is not supported."""
    listed = ", ".join(f"{relation!r} ({RELATIONS[relation]})" for relation in supported)
    public = (
        "the sizes of its batches are public, so that no record comes or goes: take 'zero_out' to compare with Poisson"
    )
    public = f"; {public} batches and papers, 'replace_one' to hide which of two values a record has"
    which = public if supported == ("zero_out", "replace_one") else ""
    return ValueError(f"neighbors = {relation!r} is not supported by {what!r}; supported: {listed}{which}")


class Replaced(float):
    """A sensitivity to a record that is replaced, or noise divided by one.

    A verb under replace_one counts the replacement by itself, and refuses to do it twice.
    """

    def __rtruediv__(self, noise: float) -> float:
        ratio = noise / float(self)
        return Replaced(ratio) if type(ratio) is float else ratio
