"""Processes of simpler mechanisms: trees of partial sums, DP-FTRL, noisy iterations."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import COUNT, NONNEGATIVE, POSITIVE, SHARE, TINY, UNIT, Domain, Reals, as_cells, as_number
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import divided_down, quotient_up
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.gaussian import GDP, Gaussian
from fastacct.mechanisms.guarantee import ZCDP, PureDP
from fastacct.mechanisms.laplace import Laplace

_FEW: Final = Domain(1.0, 64.0, integer=True)
_DIAMETER: Final = Domain(0.0, math.inf, open_low=True)
_UP: Final = 1.0 + 1e-9
"""What is added for the rounding of mu."""


class TreeAggregation(Mechanism, relations=ALL):
    """All prefix sums of a stream from a binary tree of noisy partial sums (Dwork et al. 2010; Chan, Shi, Song 2011).

    **Guarantee.** Exact for Gaussian noise and one participation of at most 1.  A record touches floor(log2 steps) + 1
    of the nodes that are released (one more than log2 says where steps is a power of two).
    With several participations in one tree a node moves by as many at most, a bound (of Laplace noise: the sum
    of all pure guarantees). The data may depend on what has been released. A record that is added or removed leaves
    the places of the others as they are (its own is empty).

    Examples
    --------
    >>> import fastacct as fa
    >>> tree = fa.TreeAggregation(noise_multiplier=8.0, steps=1000)
    >>> tree.decompose("add_remove"), round(fa.epsilon(tree, delta=1e-5), 9)
    (Process({Gaussian(noise_multiplier=8.0): 10}), 1.534679796)
    """

    noise_multiplier: Reals = parameter(
        NONNEGATIVE, about="Of a node: standard deviation or scale, over the contribution."
    )
    steps: int = constant(COUNT, about="Leaves of the tree.")
    noise: Literal["gaussian", "laplace", "laplace_l2"] = option(
        ("gaussian", "laplace", "laplace_l2"), "gaussian", about="Of a node; laplace_l2: `LaplaceL2`, for vectors."
    )
    participations: int = constant(_FEW, 1, about="How often one record may occur.")
    whole_tree: bool = option((False, True), False, about="All nodes are released: ceil(log2 steps) + 1 per record.")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """With one participation a record touches so many nodes and no others."""
        return self.participations == 1 and self.noise != "laplace_l2"

    def error_law(self, *, step: Reals, dimension: float = 1) -> error.ErrorLaw:
        """The noise of the prefix sum after `step` leaves, which may be an array: as many nodes as ones in binary."""
        terms, d = _ones(step, self.steps), error.as_dimension(dimension)
        if self.noise == "laplace_l2":
            return error.sum_of_norms(plain(self.noise_multiplier), d, terms)
        if d > 1:
            raise ValueError(f"dimension = {d}: of noise on each coordinate ask for one coordinate")
        if self.noise == "laplace":
            return error.sum_of_laplace(plain(self.noise_multiplier), terms)
        return error.gaussian(plain(self.noise_multiplier), terms=terms)

    def decompose(self, relation: Relation) -> Process:
        nodes = (self.steps - 1).bit_length() + 1 if self.whole_tree else self.steps.bit_length()
        if self.noise != "gaussian" and self.participations > 1:
            # a node may move several times as far, which several small moves do not dominate; together they are pure
            moved = sensitivity(relation) * nodes * self.participations
            return PureDP(quotient_up(moved, self.noise_multiplier)) * 1
        if self.noise != "gaussian":  # which dominates noise in L2, too
            return Laplace(self.noise_multiplier) * nodes
        return Gaussian(self.noise_multiplier).group(self.participations) * nodes


def _as_steps(step: Reals, most: int) -> NDArray[np.int64]:
    return as_cells("step", step, Domain(1.0, float(most), integer=True)).astype(np.int64)


def _ones(step: Reals, most: int) -> NDArray[np.int64]:
    """How many ones there are in binary: the nodes that a prefix sum consists of."""
    return np.asarray(np.frompyfunc(int.bit_count, 1, 1)(_as_steps(step, most).astype(object)), dtype=np.int64)


class DPFTRL(Mechanism, relations=ALL):
    """DP-FTRL (Kairouz et al. 2021): tree aggregation of gradients, the tree begun afresh every epoch.

    **Guarantee.** Exact for Gaussian noise and a record that occurs once an epoch.  The post-processing of the tree's
    noise (Honaker) changes nothing.  Adding or removing a record must not shift the others.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.DPFTRL(noise_multiplier=8.0, steps=1000, epochs=3).decompose("add_remove")
    Process({Gaussian(noise_multiplier=8.0): 30})
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE)
    steps: int = constant(COUNT, about="Of one epoch.")
    epochs: int = constant(COUNT, 1)

    def error_law(self, *, step: Reals) -> error.ErrorLaw:
        """The noise of the sum of all gradients up to `step`, counted over all epochs, which may be an array."""
        whole, rest = np.divmod(_as_steps(step, self.steps * self.epochs), self.steps)
        terms = whole * self.steps.bit_count() + np.where(rest > 0, _ones(np.maximum(rest, 1), self.steps), 0)
        return error.gaussian(plain(self.noise_multiplier), terms=terms)

    def decompose(self, relation: Relation) -> Process:
        return Gaussian(self.noise_multiplier) * (self.steps.bit_length() * self.epochs)


class BandMF(Mechanism, relations=ALL):
    """Banded matrix factorization with cyclic Poisson batches (Choquette-Choo et al. 2023); DP-SGD with one band.

    **Guarantee.** The records are in `bands` groups, fixed without looking at the data; step i takes a Poisson sample
    of group i mod bands.  The strategy matrix is lower triangular with so many bands, its columns have norm at most
    `column_norm`.  Participations of a record do not overlap then: it is a Poisson sample in each of ceil(steps /
    bands) rounds; exact where all columns have this norm.  Groups of equal size depend on the number of records: ask
    for zero_out or replace_one then.  `.group(k)` is refused with several bands: members may be in different groups of
    records, whose columns overlap.  Without amplification, `Gaussian(noise_multiplier / column_norm).group(k)` in each
    round bounds them, by the triangle inequality.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.BandMF(noise_multiplier=4.0, sample_rate=0.32, steps=2052, bands=32)
    >>> run.decompose("add_remove"), round(fa.epsilon(run, delta=1e-5), 6)
    (Process({Gaussian(noise_multiplier=4.0).poisson(sample_rate=0.32): 65}), 2.796425)
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Standard deviation of the noise over the clipping norm.")
    sample_rate: Reals = parameter(UNIT, about="Inside a group: `bands` times the share of all records.")
    steps: int = constant(COUNT)
    bands: int = constant(COUNT, 1)
    column_norm: float = constant(POSITIVE, 1.0, about="The largest norm of a column of the strategy matrix.")

    @property
    def no_group(self) -> str:  # type: ignore[override]
        """Within one band columns do not overlap, and every sample of a run is one of the whole group."""
        if self.bands == 1:
            return ""
        return (
            "its members may be in different groups of records, whose columns overlap, and no comparison with one "
            f"sample is proved; Gaussian({self.noise_multiplier!r} / {self.column_norm!r}).group(size) * "
            f"{-(-self.steps // self.bands)} bounds it, without amplification"
        )

    def decompose(self, relation: Relation) -> Process:
        noise = self.noise_multiplier
        if self.column_norm != 1.0:
            noise = divided_down(noise, self.column_norm)
        return Gaussian(noise).poisson(self.sample_rate) * -(-self.steps // self.bands)


class NoisyIteration(Mechanism, relations=ALL, tight=False):
    """The last iterate of noisy gradient descent, or of any iteration of contractive maps with Gaussian noise.

    **Guarantee.** mu-for hidden iterates of full-batch steps that contract by `contraction` (1: convex and smooth
    losses, step size at most 2/smoothness), projections included; exact on quadratics.  With `diameter` the set the
    iterates are projected to bounds mu whatever the number of steps.  Sources: Bok, Su, Altschuler 2024; Feldman et
    al. 2018 for the second bound.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.NoisyIteration(noise_multiplier=3.75, steps=500, contraction=0.99)
    >>> round(step.mu, 6)
    3.73716
    """

    noise_multiplier: float = constant(
        POSITIVE, about="Standard deviation over the largest change of one gradient, both before the step size."
    )
    steps: int = constant(COUNT)
    contraction: float = constant(SHARE, 1.0)
    diameter: float = constant(
        _DIAMETER, math.inf, about="Of the set, over step size times the largest change of one gradient."
    )

    @property
    def mu(self) -> float:
        """Of Gaussian DP, the smaller of the bounds."""
        c, n = self.contraction, float(self.steps)
        if c == 1.0:
            square = n
        else:
            log_c = math.log(c)
            square = math.tanh(-0.5 * n * log_c) / math.tanh(-0.5 * log_c)
        if self.diameter < n:
            for k in (math.floor(self.diameter) or 1, math.ceil(self.diameter)):
                square = min(square, (self.diameter + k) ** 2 / k)
        return math.sqrt(square) / self.noise_multiplier

    @staticmethod
    def single_pass(noise_multiplier: float, steps: int, position: int) -> ZCDP:
        """One pass of noisy SGD over `steps` records, the one at `position` (from 1) changed; the last iterate.

        **Guarantee.** rho = 1 / (2 noise_multiplier^2 (steps - position + 1)), amplification by iteration (Feldman,
        Mironov, Talwar, Thakurta 2018, theorem 23).  It needs convex smooth losses, a step size of at most
        2/smoothness, and hidden iterates.
        Noise over the largest change of one gradient (2 L for L-Lipschitz losses).  The record at the end has
        no amplification: take the worst position unless the order is random and hidden.

        Examples
        --------
        >>> import fastacct as fa
        >>> early = fa.NoisyIteration.single_pass(noise_multiplier=3.75, steps=20, position=5)
        >>> round(fa.rdp(early, 4.0), 12)
        0.008888888889
        """
        noise = as_number("noise_multiplier", noise_multiplier, POSITIVE)
        total, place = as_number("steps", steps, COUNT), as_number("position", position, COUNT)
        if place > total:
            raise ValueError(f"position = {int(place)} is out of range; allowed: whole numbers in [1, {int(total)}]")
        with np.errstate(over="ignore"):
            rho = float(0.5 / (noise * noise * (total - place + 1.0)) * (1.0 + 2e-15))
        return ZCDP(max(rho, TINY) if noise < np.inf else 0.0)

    def decompose(self, relation: Relation) -> Process:
        return GDP(self.mu * _UP) * 1
