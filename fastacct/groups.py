"""Groups of records that change together, for any mechanism: what is known of them, in every notion."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fastacct._arrays import Domain, as_cells
from fastacct.additive import DiscreteGaussian, DiscreteLaplace, Laplace, Skellam, Staircase
from fastacct.mechanisms import Gaussian, Grouped, Mechanism, PoissonSampled, moved
from fastacct.notions import GDP, ZCDP, ApproxDP, PureDP, RDPCurve
from fastacct.selection import AboveThreshold, Exponential, PermuteAndFlip, RandomizedResponse, SparseVector

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = ["GroupOf", "group"]

_SIZE: Final = Domain(1.0, 1e6, integer=True)


@dataclass(frozen=True, eq=False)
class GroupOf(Mechanism):
    """A mechanism, for `size` records that change together; made by `.group(size)`.

    **Guarantee.** A bound.  Additive noise: the query moves `size` times as far.  Pure DP: size epsilon.  (epsilon,
    delta): (size epsilon, delta (exp(size epsilon) - 1)/(exp(epsilon) - 1)).  zCDP: size^2 rho.  GDP: size mu.
    Rényi DP: Mironov 2017, proposition 2, at the next power of two.  Randomised response: every member of the group
    answers.  What is made of these by composition: part by part.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.PureDP(0.5).group(2).parts("add_remove")
    Process({PureDP(epsilon=1.0000000000000002): 1})
    >>> fa.rdp(fa.ZCDP(rho=0.1).group(3), 2.0) < 1.8000001
    True
    """

    mechanism: Mechanism
    size: int
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        size = as_cells("size", self.size, _SIZE)
        if size.ndim:
            raise TypeError(f"size must be one number, not an array of shape {size.shape}")
        object.__setattr__(self, "size", int(size))

    @property
    def relations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the mechanism."""
        return self.mechanism.relations

    def parts(self, neighbors: str) -> Process:
        """The groups of all parts."""
        from fastacct.process import Process

        parts = self.mechanism.parts(neighbors)
        whole = Process()
        if parts is not None and self.size > 1:
            # members of a group may touch different noises: of Laplace noise only the pure guarantee is known then
            far = self.size * moved(neighbors)
            for mechanism, count in parts:
                if isinstance(mechanism, Laplace):
                    with np.errstate(divide="ignore"):
                        total = _up(np.asarray(count) * far / np.asarray(mechanism.noise_multiplier), 1.0 + 4e-16)
                    whole = whole + PureDP(total)
            parts = Process((one, count) for one, count in parts if not isinstance(one, Laplace))
        for mechanism, count in parts if parts is not None else Process({self.mechanism: 1}):
            whole = whole + Process({mechanism: 1} if self.size == 1 else _grouped(mechanism, self.size)) * count
        return whole

    def group(self, size: int) -> Mechanism:
        """Groups of groups."""
        return GroupOf(self.mechanism, self.size * GroupOf(self.mechanism, size).size)

    def _cells(self) -> dict[str, Any]:
        return self.mechanism._cells()

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.group({self.size})"


def group(mechanism: Mechanism, size: int) -> Mechanism:
    """The group in the form that is read best; refused where nothing is known."""
    wanted = GroupOf(mechanism, size)
    if wanted.size == 1:
        return mechanism
    direct = _direct(mechanism, wanted.size)
    if direct is not None:
        return direct
    for relation in mechanism.relations[:1]:
        wanted.parts(relation)  # refuses here what is not known
    return wanted


def _direct(mechanism: Mechanism, size: int) -> Mechanism | None:
    """The same kind of mechanism with another parameter, where that is exact."""
    if isinstance(mechanism, DiscreteLaplace | DiscreteGaussian | Skellam):
        return replace(mechanism, sensitivity=size * mechanism.sensitivity)
    for name, times in (("noise_multiplier", False), ("mu", True), ("epsilon", True)):
        if hasattr(mechanism, name) and isinstance(
            mechanism, Laplace | GDP | Staircase | AboveThreshold | PermuteAndFlip | Exponential | SparseVector
        ):
            value = np.asarray(getattr(mechanism, name))
            moved = value * size if times else value / size
            back = moved / size if times else moved * size
            if np.array_equal(back, value) and float(np.log2(size)).is_integer():
                changed: dict[str, Any] = {name: moved if moved.ndim else float(moved)}
                return replace(mechanism, **changed)
    return None


def _up(value: Any, size: float) -> Any:
    with np.errstate(over="ignore"):
        moved = np.asarray(np.asarray(value) * size)
    moved = np.where(moved > 0.0, np.nextafter(moved, np.inf), moved)
    return moved if moved.ndim else float(moved)


def _down(value: Any, size: float) -> Any:
    moved = np.asarray(np.asarray(value) / size)
    moved = np.where(np.isfinite(moved) & (moved > 0.0), np.nextafter(moved, 0.0), moved)
    return moved if moved.ndim else float(moved)


@singledispatch
def _grouped(mechanism: Mechanism, size: int) -> dict[Mechanism, int]:
    raise ValueError(
        f"nothing is known of groups for {mechanism!r}: give the pair of the group (GaussianMixture, from_pmf) or its "
        "guarantee (PureDP, ApproxDP) instead"
    )


@_grouped.register(Gaussian)
@_grouped.register(PoissonSampled)
@_grouped.register(Grouped)
@_grouped.register(DiscreteLaplace)
@_grouped.register(DiscreteGaussian)
@_grouped.register(Skellam)
def _own(mechanism: Mechanism, size: int) -> dict[Mechanism, int]:
    return {mechanism.group(size): 1}


@_grouped.register(Laplace)
def _noise(mechanism: Any, size: int) -> dict[Mechanism, int]:
    return {replace(mechanism, noise_multiplier=_down(mechanism.noise_multiplier, size)): 1}


@_grouped.register(PureDP)
@_grouped.register(Staircase)
@_grouped.register(AboveThreshold)
@_grouped.register(PermuteAndFlip)
@_grouped.register(Exponential)
@_grouped.register(SparseVector)
def _pure(mechanism: Any, size: int) -> dict[Mechanism, int]:
    return {replace(mechanism, epsilon=_up(mechanism.epsilon, size)): 1}


@_grouped.register(GDP)
def _gaussian(mechanism: GDP, size: int) -> dict[Mechanism, int]:
    return {GDP(_up(mechanism.mu, size)): 1}


@_grouped.register(RandomizedResponse)
def _answers(mechanism: RandomizedResponse, size: int) -> dict[Mechanism, int]:
    return {mechanism: size}


@_grouped.register(ApproxDP)
def _approximate(mechanism: ApproxDP, size: int) -> dict[Mechanism, int]:
    epsilon, delta = np.broadcast_arrays(np.asarray(mechanism.epsilon), np.asarray(mechanism.delta))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        times = np.where(epsilon > 0.0, np.expm1(size * epsilon) / np.expm1(epsilon), float(size))
        total = np.nextafter(delta * times * (1.0 + 1e-14 + 1e-15 * size * epsilon), np.inf)
        found = np.where(delta > 0.0, np.minimum(total, 1.0), 0.0)
    found = np.where(np.isnan(found), 1.0, found)
    return {ApproxDP(_up(epsilon, size), found if found.ndim else float(found)): 1}


@_grouped.register(ZCDP)
def _concentrated(mechanism: ZCDP, size: int) -> dict[Mechanism, int]:
    if np.any(np.asarray(mechanism.xi) > 0.0):
        raise ValueError(f"groups of {mechanism!r} are known for xi = 0 only")
    return {ZCDP(_up(mechanism.rho, float(size) * size)): 1}


@_grouped.register(RDPCurve)
def _curve(mechanism: RDPCurve, size: int) -> dict[Mechanism, int]:
    doublings = math.ceil(math.log2(size))
    rows = [
        (order / 2.0**doublings, value * 3.0**doublings * (1.0 + 1e-15))
        for order, value in zip(mechanism.orders, mechanism.values, strict=True)
        if order >= 2.0 ** (doublings + 1)
    ]
    if not rows:
        raise ValueError(f"groups of {size} need an order of at least {2 ** (doublings + 1)} in {mechanism!r}")
    return {RDPCurve([order for order, _ in rows], [value for _, value in rows]): 1}
