"""Continual release: trees of partial sums, and DP-FTRL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from fastacct.core.inputs import COUNT, NONNEGATIVE, Domain, Reals, as_choice
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import quotient_up
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, parameter
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.guarantee import PureDP
from fastacct.mechanisms.laplace import Laplace

__all__ = ["DPFTRL", "TreeAggregation"]

_FEW: Final = Domain(1.0, 64.0, integer=True)


@dataclass(frozen=True, eq=False)
class TreeAggregation(Mechanism):
    """All prefix sums of a stream from a binary tree of noisy partial sums (Dwork et al. 2010; Chan, Shi, Song 2011).

    **Guarantee.** Exact for Gaussian noise and one participation: a record touches floor(log2 steps) + 1 of the
    nodes that are released (one more than log2 says where steps is a power of two), and its contribution is at most
    1. With several participations in one tree a node moves by as many at most, a bound (of Laplace noise: the sum
    of all pure guarantees). The data may depend on what has been released. A record that is added or removed leaves
    the places of the others as they are (its own is empty).

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Standard deviation of a node's noise ("gaussian"), or its scale ("laplace"), over the contribution.
    steps : whole number
        Leaves of the tree.
    noise : {"gaussian", "laplace"}
    participations : whole number in [1, 64]
        How often one record may occur.
    whole_tree : bool
        All nodes are released: ceil(log2 steps) + 1 per record.

    Examples
    --------
    >>> import fastacct as fa
    >>> tree = fa.TreeAggregation(noise_multiplier=8.0, steps=1000)
    >>> tree.decompose("add_remove"), round(fa.epsilon(tree, delta=1e-5), 9)
    (Process({Gaussian(noise_multiplier=8.0): 10}), 1.534679796)
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE)
    steps: int = constant(COUNT)
    noise: Literal["gaussian", "laplace"] = "gaussian"
    participations: int = constant(_FEW, 1)
    whole_tree: bool = False
    relations: ClassVar[tuple[Relation, ...]] = ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice("noise", self.noise, ("gaussian", "laplace"))

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """With one participation a record touches so many nodes and no others."""
        return self.participations == 1

    def decompose(self, relation: Relation) -> Process:
        """The nodes that one record touches."""
        nodes = (self.steps - 1).bit_length() + 1 if self.whole_tree else self.steps.bit_length()
        if self.noise == "laplace" and self.participations > 1:
            # a node may move several times as far, which several small moves do not dominate; together they are pure
            moved = sensitivity(relation) * nodes * self.participations
            return PureDP(quotient_up(moved, self.noise_multiplier)) * 1
        if self.noise == "laplace":
            return Laplace(self.noise_multiplier) * nodes
        return Gaussian(self.noise_multiplier).group(self.participations) * nodes

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (
            TreeAggregation(8.0, 1000),
            TreeAggregation(20.0, 16, noise="laplace"),
        )


@dataclass(frozen=True, eq=False)
class DPFTRL(Mechanism):
    """DP-FTRL (Kairouz et al. 2021): tree aggregation of gradients, the tree begun afresh every epoch.

    **Guarantee.** Exact for Gaussian noise and a record that occurs once an epoch.  The post-processing of the tree's
    noise (Honaker) changes nothing.  A record that is added or removed leaves the batches of the others as they are.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
    steps : whole number
        Of one epoch.
    epochs : whole number

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.DPFTRL(noise_multiplier=8.0, steps=1000, epochs=3).decompose("add_remove")
    Process({Gaussian(noise_multiplier=8.0): 30})
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE)
    steps: int = constant(COUNT)
    epochs: int = constant(COUNT, 1)
    relations: ClassVar[tuple[Relation, ...]] = ALL

    def decompose(self, relation: Relation) -> Process:
        """The nodes of all trees."""
        return Gaussian(self.noise_multiplier) * (self.steps.bit_length() * self.epochs)

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (DPFTRL(8.0, 100, 2),)
