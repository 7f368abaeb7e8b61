"""Mechanisms that users write: what they do not say is taken for the worst, and no subclass inherits a guarantee."""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

import fastacct as fa
from fastacct import mechanisms
from fastacct.epsilon import (
    delta,
    delta_bounds,
    delta_lower,
    epsilon,
    epsilon_bounds,
    epsilon_lower,
    log_delta_bounds,
    rdp,
)
from fastacct.mechanisms import Gaussian, Mechanism

ADD_REMOVE = ("add_remove", "add", "remove", "zero_out")


@dataclass(frozen=True)
class Claimed(Mechanism):
    """A parameter by the name of a guarantee proves nothing."""

    epsilon: float


@dataclass(frozen=True)
class Silent(Mechanism):
    """In a built-in mechanism this noise would release nothing."""

    noise_multiplier: float = math.inf


@dataclass(frozen=True)
class Rare(Mechanism):
    """In a built-in mechanism this rate would release nothing."""

    noise_multiplier: float = 1.0
    sample_rate: float = 0.0


class Unknown(Mechanism):
    """Nothing is said of it."""


UNPROVED = [Claimed(0.1), Claimed(0.0), Silent(), Rare(), Unknown()]


def is_refused_or(value, call):
    try:
        return bool(np.all(call() == value))
    except (TypeError, ValueError):
        return True


@pytest.mark.parametrize("accountant", [None, fa.Exact(), fa.PLD(), fa.RDP(), fa.RDP(conversion="mironov")], ids=repr)
@pytest.mark.parametrize("own", UNPROVED, ids=repr)
def test_of_a_users_mechanism_without_losses_nothing_is_proved(own, accountant):
    jobs = (own, own * 3, own + Gaussian(2.0), own.poisson(0.5), own.poisson(1.0), Gaussian([2.0, 3.0]) + own)
    for job, relation in itertools.product(jobs, ADD_REMOVE):
        if job == own.poisson(0.5) and relation == "add":
            continue  # see below
        keywords = {"neighbors": relation, "accountant": accountant}
        for at in (0.0, 0.1, 1.0, 700.0):
            assert is_refused_or(1.0, functools.partial(delta, job, epsilon=at, **keywords))
        for at in (0.0, 1e-5, 0.999):
            assert is_refused_or(math.inf, functools.partial(epsilon, job, delta=at, **keywords))


@pytest.mark.parametrize("own", UNPROVED, ids=repr)
def test_a_record_that_is_added_to_a_sample_is_hidden_by_those_who_were_not_drawn(own):
    """Q against (1 - q) Q + q P: the loss is at most -log(1 - q), whatever P is."""
    assert epsilon(own.poisson(0.5), delta=0.0, neighbors="add") == pytest.approx(math.log(2.0), rel=2e-14, abs=0.0)
    assert epsilon(own.poisson(0.5), delta=0.0, neighbors="add") >= math.log(2.0)
    assert delta(own.poisson(0.5), epsilon=0.6, neighbors="add") >= 1.0 - 0.5 * math.exp(0.6)
    assert epsilon(own.poisson(1.0), delta=0.0, neighbors="add") == math.inf


@pytest.mark.parametrize("own", UNPROVED, ids=repr)
def test_every_verb_takes_a_users_mechanism_without_losses_for_the_worst(own):
    assert (epsilon(own, delta=1e-5), delta(own, epsilon=1.0)) == (math.inf, 1.0)
    assert epsilon_bounds(own, delta=1e-5) == (0.0, math.inf, fa.Status.NOT_MET)
    assert delta_bounds(own, epsilon=1.0) == (0.0, 1.0, fa.Status.NOT_MET)
    assert log_delta_bounds(own, epsilon=1.0) == (-math.inf, 0.0, fa.Status.NOT_MET)
    assert (epsilon_lower(own, delta=1e-5), delta_lower(own, epsilon=1.0)) == (0.0, 0.0)
    assert rdp(own, 2.0) == math.inf
    worst = [
        (lambda: fa.advantage(own), 1.0),
        (lambda: fa.tradeoff(own, 0.1), 0.0),
        (lambda: fa.tpr_at_fpr(own, 0.1), 1.0),
        (lambda: fa.epsilon(fa.Parallel(own, Gaussian(9.0)), delta=1e-5), math.inf),
        (lambda: fa.epsilon(own.group(2), delta=1e-5), math.inf),
        (lambda: fa.epsilon(fa.RepeatedSelection(own, mean=2.0), delta=1e-5), math.inf),
        (lambda: fa.epsilon((own * 2).group(3), delta=1e-5), math.inf),
    ]
    for call, value in worst:
        assert is_refused_or(value, call)
    for kind in ("none", "gdp", "zcdp", "rdp"):
        budget = fa.Accountant(epsilon=10.0, delta=1e-5, filter=kind)
        assert is_refused_or("recorded", functools.partial(budget.compose, own))
        assert not budget.ledger
    ledger = fa.Accountant(delta=1e-5)
    ledger.compose(own)
    assert ledger.spent() == math.inf
    with pytest.raises(ValueError, match="cannot be stored"):
        ledger.to_json()


def test_what_a_user_says_of_a_mechanism_counts():
    @dataclass(frozen=True)
    class Own(Mechanism):
        rho: float

        def divergence(self, orders, relation):
            return self.rho * orders

    assert rdp(Own(0.1) * 3, 2.0) == pytest.approx(0.6, rel=1e-14, abs=0.0)
    assert epsilon(Own(0.1) * 3, delta=1e-5) == pytest.approx(epsilon(fa.ZCDP(0.3), delta=1e-5), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("kind", [*mechanisms.EVERY, Claimed], ids=lambda kind: kind.__name__)
def test_a_subclass_of_a_mechanism_is_refused(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} is final: Noisier would inherit guarantees"):
        type("Noisier", (kind,), {})


def test_a_subclass_of_laplace_is_refused():
    with pytest.raises(TypeError, match="Laplace is final"):

        class Truncated(fa.Laplace):
            pass

    assert mechanisms.Mechanism.relations == ADD_REMOVE


@dataclass(frozen=True)
class TwoWays(Mechanism):
    """Divergences of each direction."""

    removed: float
    added: float

    def divergence(self, orders, relation):
        return {"remove": self.removed, "add": self.added}.get(relation, max(self.removed, self.added)) * orders


@pytest.mark.parametrize("neighbors", ["remove", "add", "add_remove"])
def test_a_sample_of_divergences_rests_on_both_directions(neighbors):
    """The moments of a sample mix the two orders of a pair: of one direction alone the theorem says nothing."""
    orders = np.array([2.0, 3.0, 10.0])
    one, both = (rdp(step.poisson(0.1), orders, neighbors=neighbors) for step in (TwoWays(0.1, 2.0), TwoWays(2.0, 2.0)))
    alone = rdp(TwoWays(0.1, 2.0), orders, neighbors=neighbors)
    assert (one >= np.minimum(both, alone)).all()


@dataclass(frozen=True, eq=False)
class PureAlone(Mechanism):
    """A pure guarantee and nothing beside it."""

    level: float

    def pure_epsilon(self, relation):
        return self.level


def test_a_pure_guarantee_alone_composes_as_pure_dp():
    for job, same in (
        (PureAlone(0.3) * 30, fa.PureDP(0.3) * 30),
        (PureAlone(0.3).poisson(0.1) * 30, fa.PureDP(0.3).poisson(0.1) * 30),
        (PureAlone(0.3) + fa.Gaussian(3.0), fa.PureDP(0.3) + fa.Gaussian(3.0)),
    ):
        for relation in ADD_REMOVE:
            assert epsilon_bounds(job, 1e-6, neighbors=relation) == epsilon_bounds(same, 1e-6, neighbors=relation)
    assert epsilon(PureAlone(math.inf), delta=0.5) == math.inf
    assert epsilon(PureAlone(1e6), delta=1e-6) == pytest.approx(1e6)


@dataclass(frozen=True, eq=False)
class Directed(Mechanism):
    """Its guarantee of one direction is no guarantee of both."""

    def pure_epsilon(self, relation):
        return 0.1 if relation == "remove" else 1.0


def test_a_pure_guarantee_is_taken_of_both_directions():
    for relation in ("remove", "add", "add_remove"):
        assert delta(Directed(), epsilon=0.0, neighbors=relation) == pytest.approx(math.tanh(0.5), rel=1e-9)


HALF = fa.mechanism_kit.table([0.5, 0.5], [0.3, 0.7])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([0.1, 0.2], r"Mine.losses returned a list: it must return a fastacct.mechanism_kit.Pair, or None"),
        (0.1, r"Mine.losses returned a float: it must"),
        ((HALF, HALF), r"Mine.losses returned a tuple: it must"),
        (HALF, r"Mine.losses returned a Bracket: it must"),
        (fa.mechanism_kit.Pair(HALF, [0.1]), r"Mine.losses returned a Pair whose add is a list: it must be a loss"),
    ],
)
def test_losses_of_another_type_are_answered_by_name(returned, message):
    class Mine(Mechanism):
        def losses(self, relation):
            return returned

    for call in (lambda: epsilon(Mine() * 3, delta=1e-6), lambda: rdp(Mine(), 2.0), lambda: fa.tradeoff(Mine(), 0.1)):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_table_that_is_none_is_told_with_the_mechanism():
    class Mine(Mechanism):
        def losses(self, relation):
            return fa.mechanism_kit.table([0.5, 0.4], [0.5, 0.5])

    with pytest.raises(ValueError, match=r"Mine\(\)\.losses\('add_remove'\): .*sum"):
        epsilon(Mine() * 3, delta=1e-6)
    with pytest.raises(ValueError, match=r"Mine\(\); a class of your own says group_powers or grouped"):
        Mine().group(2)


def test_tables_of_the_kit_are_checked():
    table = fa.mechanism_kit.table
    for p, q, message in (
        ([0.5, 0.4], [0.5, 0.5], "sum"),
        ([0.5, 0.5], [1.0], "one length"),
        ([1.5, -0.5], [0.5, 0.5], "out of range"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            table(p, q)
