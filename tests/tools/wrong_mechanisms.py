"""Wrong mechanisms: each says too little in one of the methods that a mechanism may have."""

import math
from dataclasses import dataclass

import numpy as np

import fastacct as fa
from fastacct.core.relations import ALL
from fastacct.losses.loss import Atoms, Bracket, Pair
from fastacct.mechanisms.base import SampledGaussian

LAPLACE, GAUSSIAN = fa.Laplace(1.0), fa.Gaussian(1.0)
TABLES = fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
HALF = fa.Laplace(2.0)


def like(base, relations=None, **facts):
    """A class that says what another mechanism says, but for what is given; None: nothing."""
    said = {
        "losses": lambda self, relation: base.losses(relation),
        "divergence": lambda self, orders, relation: base.divergence(orders, relation),
        "pure_epsilon": lambda self, relation: base.pure_epsilon(relation),
    }
    said = {name: value for name, value in (said | facts).items() if value is not None}
    return type("Wrong", (fa.Mechanism,), said, relations=relations or base.relations)()


def curve(of_orders, **facts):
    """A divergence, and nothing else."""
    said = {"divergence": lambda self, orders, relation: of_orders(np.asarray(orders, dtype=np.float64))}
    return type("Curve", (fa.Mechanism,), said | facts, relations=ALL)()


def dented(low, high, share):
    def divergence(self, orders, relation):
        return np.where((orders > low) & (orders < high), share, 1.0) * LAPLACE.divergence(orders, relation)

    return divergence


def mixed(one, other, when):
    """What one says, and what another says under some relations."""
    return lambda self, relation: (other if when(relation) else one).losses(relation)


def is_add(relation):
    return relation == "add"


def sampled(change, base=LAPLACE):
    """Losses of samples at another rate; the mechanism's own are right."""
    return lambda self, rate, size, relation: base.sample_losses(rate if rate == 1.0 else change(rate), 1, relation)


def changed_later():
    asked = [0]

    def losses(self, relation):
        asked[0] += 1
        return (LAPLACE if asked[0] % 7 else fa.Laplace(3.0)).losses(relation)

    return losses


def of_members(self, rate, size, relation):
    """A group that is drawn or not is right, one of which each member is drawn is not."""
    return GAUSSIAN.sample_losses(rate, size if rate == 1.0 else 1, relation)


def with_finite_losses(self, relation):
    """What gives a record away has the loss of 1 instead."""
    pair = fa.ApproxDP(0.5, 0.1).losses(relation)
    laws = [pair.side(way).upper for way in ("remove", "add")]
    laws = [Atoms(np.append(x.loss, 1.0), np.append(x.loss_error, 0.0), np.append(x.mass, x.infinite)) for x in laws]
    return Pair(*(Bracket(law, law) for law in laws))


@dataclass(frozen=True, eq=False)
class Powers(fa.Mechanism, group_powers={"noise": 1}):
    """The noise of a group is multiplied instead of divided."""

    noise: float

    def losses(self, relation):
        return fa.Laplace(self.noise).losses(relation)

    def divergence(self, orders, relation):
        return fa.Laplace(self.noise).divergence(orders, relation)

    def pure_epsilon(self, relation):
        return fa.Laplace(self.noise).pure_epsilon(relation)


@dataclass(frozen=True, eq=False)
class Same(fa.Mechanism):
    """Equal to others of its class, whatever their noise."""

    noise: float

    def losses(self, relation):
        return fa.Laplace(self.noise).losses(relation)

    def __eq__(self, other):
        return isinstance(other, Same)

    def __hash__(self):
        return 1


WRONG = {
    # concentration
    "a tenth of the concentration": (
        lambda: like(LAPLACE, concentration=lambda self, relation: 0.1 * LAPLACE.concentration(relation)),
        r"concentration: .* is at least",
    ),
    "concentration one per cent too small": (
        lambda: like(GAUSSIAN, concentration=lambda self, relation: 0.495),
        r"concentration: ",
    ),
    "a tenth of the concentration in one direction": (
        lambda: like(LAPLACE, concentration=lambda self, rel: (0.1 if rel == "remove" else 1.0) * 0.5),
        r"'remove', concentration: ",
    ),
    "concentration of an infinite loss": (
        lambda: like(fa.TruncatedLaplace(2.0, 20.0), concentration=lambda self, relation: 1.0),
        r"concentration: 1\.0 .* at least inf",
    ),
    "a bound's concentration below its divergence at every order": (
        lambda: curve(lambda a: 0.1 * a, tight=False, concentration=lambda self, relation: 0.01),
        r"concentration: 0\.01 of .* is below",
    ),
    # divergence
    "a divergence that falls": (lambda: curve(lambda a: 1.0 / a), r"divergence: falls"),
    "a divergence that jumps": (lambda: curve(lambda a: np.where(a < 5.0, 0.001 * a, 0.5)), r"divergence: .* convex"),
    "a divergence that stops growing": (lambda: curve(lambda a: np.minimum(0.5 * a, 0.6)), r"divergence: .* convex"),
    "a divergence of 0 up to an order": (
        lambda: curve(lambda a: np.where(a < 5.0, 0.0, 0.1 * (a - 5.0))),
        r"divergence: .* is 0 at some orders",
    ),
    "a negative divergence": (lambda: curve(lambda a: -0.1 * a), r"divergence.*: .* at least 0"),
    "a divergence too small between two orders": (
        lambda: like(LAPLACE, divergence=dented(4.2, 7.8, 0.5)),
        "divergence: ",
    ),
    "a divergence a little too small far out": (
        lambda: like(LAPLACE, divergence=dented(33.0, 99.0, 0.95)),
        "divergence: ",
    ),
    "a divergence right at round orders only": (
        lambda: like(
            LAPLACE,
            divergence=lambda self, orders, rel: (
                np.where(np.isin(orders, [1.01, 1.2, 1.5, *range(2, 101), 1e3, 1e4, 1e6, 1e8, 1e13]), 1.0, 0.5)
                * LAPLACE.divergence(orders, rel)
            ),
        ),
        r"divergence: .* is less than what follows from",
    ),
    "less of a divergence to accountants": (
        lambda: like(LAPLACE, divergence_given=lambda self, a, rel, delta_of: 0.1 * LAPLACE.divergence(a, rel)),
        r"divergence: .* is less than what follows from",
    ),
    "less of a divergence when one record is removed than added or removed": (
        lambda: curve(lambda a: 0.1 * a, divergence=lambda self, a, rel: (0.1 if rel == "add_remove" else 0.2) * a),
        r"divergence: is .* under 'remove'",
    ),
    # losses and the pure guarantee
    "losses that change from call to call": (
        lambda: like(LAPLACE, losses=changed_later()),
        r"losses: |delta_bounds: |divergence: ",
    ),
    "losses of one direction of another table": (
        lambda: like(
            TABLES,
            losses=lambda self, rel: Pair(
                TABLES.losses(rel).remove, fa.from_pmf([0.5, 0.3, 0.2], [0.4, 0.3, 0.3]).losses(rel).add
            ),
        ),
        r"losses: ",
    ),
    "losses of add one per cent too small": (
        lambda: like(
            LAPLACE.poisson(0.1),
            losses=lambda self, rel: Pair(
                LAPLACE.poisson(0.1).losses(rel).remove, fa.Laplace(1.01).poisson(0.1).losses(rel).add
            ),
        ),
        r"losses: ",
    ),
    "losses of both directions that are smaller than those of one": (
        lambda: like(TABLES, losses=mixed(fa.PureDP(0.1), fa.PureDP(0.2), is_add), divergence=None, pure_epsilon=None),
        r"losses: of direction 'add' have another delta",
    ),
    "bounds of losses exchanged": (
        lambda: like(
            LAPLACE,
            losses=lambda self, rel: Pair(*[Bracket(HALF.losses(rel).add.upper, LAPLACE.losses(rel).add.lower)] * 2),
        ),
        r"losses: |divergence: |pure_epsilon: ",
    ),
    "an infinite loss that is made a finite one": (
        lambda: like(fa.ApproxDP(0.5, 0.1), losses=with_finite_losses, divergence=None, pure_epsilon=None),
        r"losses: .* remove and add differ",
    ),
    "a pure guarantee of one direction": (
        lambda: like(LAPLACE, pure_epsilon=lambda self, rel: 0.5 if rel == "add" else LAPLACE.pure_epsilon(rel)),
        r"'add', pure_epsilon: 0\.5",
    ),
    "a negative pure guarantee": (
        lambda: like(LAPLACE, losses=None, divergence=None, pure_epsilon=lambda self, relation: -1.0),
        r"pure_epsilon: .*-1\.0",
    ),
    # what it consists of
    "simpler mechanisms that say less than the losses": (
        lambda: like(LAPLACE, decompose=lambda self, relation: HALF * 1),
        r"decompose: ",
    ),
    "simpler mechanisms that say less in one direction": (
        lambda: like(LAPLACE, decompose=lambda self, relation: (HALF if relation == "add" else LAPLACE) * 1),
        r"'add', decompose: ",
    ),
    "a release that is left out": (
        lambda: like(
            LAPLACE,
            losses=None,
            divergence=lambda self, a, rel: 3.0 * LAPLACE.divergence(a, rel),
            decompose=lambda self, relation: LAPLACE * 2,
        ),
        r"decompose: ",
    ),
    "a divergence below that of the simpler mechanisms": (
        lambda: like(LAPLACE, losses=None, divergence=dented(1.0, 1e99, 0.5), decompose=lambda self, rel: LAPLACE * 1),
        r"divergence: is below",
    ),
    "a pure guarantee below that of the simpler mechanisms": (
        lambda: like(
            LAPLACE,
            losses=None,
            divergence=None,
            pure_epsilon=lambda self, relation: 0.5,
            decompose=lambda self, relation: LAPLACE * 1,
        ),
        r"pure_epsilon: 0\.5 is below",
    ),
    "more noise as a sampled Gaussian": (
        lambda: like(GAUSSIAN, sampled_gaussian=lambda self, relation: fa.Gaussian(1.1).sampled_gaussian(relation)),
        r"sampled_gaussian: |delta_bounds: ",
    ),
    "a smaller rate as a sampled Gaussian": (
        lambda: like(
            GAUSSIAN.poisson(0.2),
            relations=("add_remove", "remove"),
            sampled_gaussian=lambda self, relation: SampledGaussian(np.asarray(1.0), np.asarray(0.1), True),
        ),
        r"sampled_gaussian: |delta_bounds: ",
    ),
    "a sampled Gaussian with infinite noise": (
        lambda: curve(
            lambda a: 0.5 * a,
            sampled_gaussian=lambda self, relation: SampledGaussian(np.asarray(math.inf), np.asarray(1.0), True),
        ),
        r"concentration: 0\.0 of|sampled_gaussian: ",
    ),
    "alternatives of which one is left out": (
        lambda: curve(
            lambda a: np.maximum(LAPLACE.divergence(a, "remove"), 0.1 * a),
            alternatives=lambda self: (LAPLACE * 1, fa.Gaussian(9.0) * 1),
        ),
        r"alternatives: ",
    ),
    "alternatives that say less than the losses": (
        lambda: like(LAPLACE, alternatives=lambda self: (fa.Laplace(5.0) * 1, fa.Laplace(4.0) * 1)),
        r"alternatives: |delta_bounds: ",
    ),
    # the whole data set, and all messages
    "less of the whole data set": (
        lambda: like(LAPLACE, unsampled=lambda self: fa.PureDP(0.001)),
        r"unsampled: .*PureDP",
    ),
    "a whole data set for another relation": (
        lambda: like(LAPLACE, unsampled=lambda self: fa.from_pmf([0.9, 0.1], [0.1, 0.9])),
        r"unsampled: .* does not support neighbors = 'replace_one'",
    ),
    "a whole data set whose divergence is smaller": (
        lambda: like(LAPLACE, unsampled=lambda self: like(LAPLACE, divergence=dented(1.0, 1e99, 0.1))),
        r"unsampled: .* has the divergence",
    ),
    "less where all messages are seen": (
        lambda: like(GAUSSIAN, local=lambda self: fa.Gaussian(3.0) * 1),
        r"local: ",
    ),
    # samples
    "samples of half the rate": (lambda: like(LAPLACE, sample_losses=sampled(lambda q: 0.5 * q)), r"sample_losses: "),
    "samples right at a rate of a quarter only": (
        lambda: like(LAPLACE, sample_losses=sampled(lambda q: q if q == 0.25 else 0.5 * q)),
        r"sample_losses: ",
    ),
    "samples whose directions are exchanged": (
        lambda: like(
            TABLES,
            sample_losses=lambda self, q, n, rel: Pair(
                TABLES.sample_losses(q, n, rel).add, TABLES.sample_losses(q, n, rel).remove
            ),
        ),
        r"sample_losses: ",
    ),
    "the divergence of samples of half the rate": (
        lambda: like(
            LAPLACE,
            sample_divergence=lambda self, a, q, rel, own: LAPLACE.sample_divergence(a, 0.5 * q, rel, own),
        ),
        r"divergence: .* is less than what follows from",
    ),
    "the divergence of samples too small for one direction": (
        lambda: like(
            LAPLACE,
            sample_divergence=lambda self, a, q, rel, own: (
                (0.5 if rel == "add" else 1.0) * LAPLACE.sample_divergence(a, q, rel, own)
            ),
        ),
        r"'add', divergence: .* is less than what follows from",
    ),
    "the divergence of samples without losses, a tenth": (
        lambda: curve(lambda a: 0.1 * a, sample_divergence=lambda self, a, q, rel, own: 0.1 * q * q * own(a, rel)),
        r"sample_divergence: .* at order 2",
    ),
    "the divergence of samples above the mechanism's": (
        lambda: curve(lambda a: 0.1 * a, sample_divergence=lambda self, a, q, rel, own: 2.0 * own(a, rel)),
        r"sample_divergence: ",
    ),
    # groups
    "a group that is one record": (
        lambda: like(LAPLACE, grouped=lambda self, size, relation: self * 1),
        r"group: the size is ignored",
    ),
    "a group's losses that are those of one record": (
        lambda: like(
            GAUSSIAN, sample_losses=lambda self, q, n, rel: GAUSSIAN.sample_losses(q, 1, rel), has_groups=True
        ),
        r"group: the size is ignored",
    ),
    "a group of which only one member is drawn": (
        lambda: like(GAUSSIAN, sample_losses=of_members, has_groups=True, relations=("add_remove", "remove")),
        r"sample_losses: .*size 3",
    ),
    "a group that is less than one record": (lambda: Powers(2.0), r"group: is below one record"),
    "a group, exactly, that is one record": (
        lambda: like(LAPLACE, group_exactly=lambda self, size: self),
        r"group: the size is ignored",
    ),
    "a bound of groups below what they are exactly": (
        lambda: like(
            LAPLACE,
            group_exactly=lambda self, size: fa.Laplace(1.0 / size),
            grouped=lambda self, size, relation: fa.PureDP(0.5) * 1,
        ),
        r"grouped: ",
    ),
    "a group in several releases whose count is ignored": (
        lambda: like(
            LAPLACE,
            grouped=lambda self, size, relation: fa.Laplace(1.0 / size) * 1,
            grouped_within=lambda self, count, size, relation: fa.Laplace(1.0 / size) * 1,
        ),
        r"grouped_within: ",
    ),
    "a group that is more than its members one after the other, from below": (
        lambda: like(LAPLACE, group_exactly=lambda self, size: fa.Laplace(0.1 / size)),
        r"group: is more from below than 3 changes",
    ),
    # values
    "equal to everything": (
        lambda: like(LAPLACE, __eq__=lambda self, other: True, __hash__=lambda self: 1),
        r"==: equals ",
    ),
    "equal to itself with another noise": (lambda: Same(1.0), r"==: equals Same\(noise=2\.0\)"),
}


UNSEEN = {
    "one guarantee, said once": lambda: curve(lambda a: 0.1 * LAPLACE.divergence(a, "remove")),
    "what is wrong everywhere": lambda: like(HALF),
    "replacing a record is said to be as zeroing it out": lambda: like(
        GAUSSIAN,
        relations=ALL,
        losses=lambda self, relation: GAUSSIAN.losses("zero_out"),
        divergence=lambda self, a, relation: GAUSSIAN.divergence(a, "zero_out"),
    ),
    "everyone sees who takes part, and samples are claimed": lambda: like(
        fa.RandomizedResponse(1.0), relations=("replace_one", "zero_out")
    ),
    "a group that grows too slowly": lambda: like(
        LAPLACE, grouped=lambda self, size, relation: fa.Laplace(1.0 / math.sqrt(size)) * 1
    ),
    "the smaller one of two bounds": lambda: like(
        LAPLACE, tight=False, losses=None, decompose=lambda self, relation: HALF * 1
    ),
}
