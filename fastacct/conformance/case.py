"""A case: what is released, under which relation, at which delta, and an interval that holds the smallest epsilon."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatch
from importlib.resources import files
from typing import Any, Final

from fastacct.core.relations import Relation
from fastacct.mechanisms import Gaussian, Laplace, Mechanism, Process, RandomizedResponse

__all__ = ["Block", "Case", "load", "made"]

Block = dict[str, Any]
"""A kind of release, its parameters, and how often it is made."""
_FILE: Final = "cases.json"


@dataclass(frozen=True)
class Case:
    """One question with its truth.

    Attributes
    ----------
    name : str
        "group/what it is".
    blocks : tuple of dict
        Releases in their order: "kind", parameters and "count".
    relation : {"add_remove", "replace_one", "zero_out"}
    delta : float
    low, high : Decimal
        The smallest epsilon of the job is between them; at most 3e-20 wide, relatively, but one of
        2e-12 and eight of batches of which bounds alone are known.
    source : str
        The function that certified them.
    """

    name: str
    blocks: tuple[Block, ...]
    relation: Relation
    delta: float
    low: Decimal
    high: Decimal
    source: str

    @property
    def group(self) -> str:
        """The first word of the name."""
        return self.name.partition("/")[0]

    @property
    def job(self) -> Process:
        """The blocks as a process of fastacct."""
        return Process([(_MECHANISMS[block["kind"]](block), block["count"]) for block in self.blocks])

    def __str__(self) -> str:
        blocks = " + ".join(_words(block) for block in self.blocks)
        return f"{blocks}; {self.relation}, delta {self.delta:g}"


def load(pattern: str = "*") -> list[Case]:
    """Cases whose name matches a pattern of the shell; a pattern without wildcard is a part of the name."""
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return [
        Case(**{**row, "blocks": tuple(row["blocks"]), "low": Decimal(row["low"]), "high": Decimal(row["high"])})
        for row in _stored()["cases"]
        if fnmatch(row["name"], wanted)
    ]


def made() -> dict[str, Any]:
    """The command, the versions and the precision that made the truths."""
    found: dict[str, Any] = _stored()["made"]
    return found


def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath(_FILE).read_text())
    return found


def _words(block: Block) -> str:
    parameters = ", ".join(f"{key} {block[key]:g}" for key in block if key not in ("kind", "count"))
    times = f" x {block['count']}" if block["count"] != 1 else ""
    return f"{block['kind']}({parameters}){times}"


def _response(block: Block) -> Mechanism:
    """The noise parameter is the probability of a uniform answer; epsilon is rounded up."""
    p, k = block["noise_parameter"], block["buckets"]
    return RandomizedResponse(math.log1p(k * (1.0 - p) / p) * (1.0 + 4e-16), k)


_MECHANISMS: Final[dict[str, Callable[[Block], Mechanism]]] = {
    "poisson_gaussian": lambda block: Gaussian(block["noise_multiplier"]).poisson(block["sample_rate"]),
    "gaussian": lambda block: Gaussian(block["noise_multiplier"]),
    "laplace": lambda block: Laplace(block["noise_multiplier"]),
    "poisson_laplace": lambda block: Laplace(block["noise_multiplier"]).poisson(block["sample_rate"]),
    "randomized_response": _response,
    "fixed_size": lambda block: Gaussian(block["noise_multiplier"]).fixed_size(block["batch_size"], block["records"]),
}
