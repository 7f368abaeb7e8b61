"""A person's own distribution of privacy losses: what it answers, composed and sampled, and what is no such law."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from tests.containment import holds

LAW = ([1.0, -1.0, 0.25, math.inf], [0.55, 0.125, 0.25, 0.075])


def delta(law, epsilon, direction, count=1):
    """Direct sum over all outcomes of `count` releases, at 40 digits."""
    with mp.workdps(40):
        pairs = [(mpf(m), mpf(m) * mp.exp(-mpf(x)) if x < math.inf else mpf(0)) for x, m in zip(*law, strict=True)]
        pairs.append((mpf(0), 1 - mp.fsum(q for _, q in pairs)))
        if direction == "add":
            pairs = [(q, p) for p, q in pairs]
        whole = [(mpf(1), mpf(1))]
        for _ in range(count):
            whole = [(a * p, b * q) for a, b in whole for p, q in pairs]
        return mp.fsum(max(mpf(0), p - mp.exp(mpf(epsilon)) * q) for p, q in whole)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.6, 1.9, 30.0])
def test_deltas_are_those_of_the_direct_sum(direction, count, epsilon):
    job = fa.from_losses(*LAW) * count
    truth = delta(LAW, epsilon, direction, count)
    assert holds(fa.delta_bounds(job, epsilon=epsilon, neighbors=direction), truth, 1e-6)
    assert holds(fa.delta_bounds(job, epsilon=epsilon, neighbors=direction, accountant=fa.PLD()), truth, 1e-4)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_law_and_its_tables_are_one_mechanism(direction):
    loss, mass = (np.array(one) for one in LAW)
    q = mass * np.exp(-loss)
    tables = fa.from_pmf([*mass, 0.0], [*q, 1.0 - math.fsum(q)])
    for one in (lambda m: m * 5, lambda m: m.poisson(0.1) * 20, lambda m: m + fa.Gaussian(2.0)):
        law, table = (
            fa.epsilon_bounds(one(m), delta=[0.35, 0.5, 0.8], neighbors=direction)
            for m in (fa.from_losses(*LAW), tables)
        )
        assert (law.lower <= table.upper).all()
        assert (table.lower <= law.upper).all()
        np.testing.assert_allclose(law.upper, table.upper, rtol=1e-7)
    no_end = loss[:3], mass[:3] / math.fsum(mass[:3])
    q = no_end[1] * np.exp(-no_end[0])
    tables = fa.from_pmf([*no_end[1], 0.0], [*q, 1.0 - math.fsum(q)])
    np.testing.assert_allclose(
        fa.rdp(fa.from_losses(*no_end), [1.5, 8.0], neighbors=direction),
        fa.rdp(tables, [1.5, 8.0], neighbors=direction),
        rtol=1e-9,
    )


def test_losses_that_both_have_give_a_pure_epsilon():
    share = 1.0 / (1.0 + math.exp(-0.7))
    coin = fa.from_losses([0.7, -0.7], [share, 1.0 - share]) * 9
    lower, upper, _ = fa.epsilon_bounds(coin, delta=0.0)
    assert lower <= 9 * mpf(0.7) <= upper <= lower * (1 + 1e-12)
    assert fa.epsilon(fa.from_losses([0.7, math.inf], [1.0 - 1e-6, 1e-6]), delta=9e-7) == math.inf


def test_a_loss_far_below_what_exp_can_say_is_kept():
    law = ([900.0, 0.0], [0.5, 0.5])
    assert fa.delta_bounds(fa.from_losses(*law), epsilon=850.0, neighbors="remove")[:2] == pytest.approx((0.5, 0.5))
    lower, upper, _ = fa.delta_bounds(fa.from_losses(*law), epsilon=0.0, neighbors="add")
    assert lower <= 0.5 <= upper <= 0.5 + 1e-11


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: fa.from_losses([-math.inf], [1.0]), r"loss\[0\] = -inf"),
        (lambda: fa.from_losses([math.nan], [1.0]), r"loss\[0\]"),
        (lambda: fa.from_losses([1.0], [0.5]), "mass sums to 0.5"),
        (lambda: fa.from_losses([1.0, 2.0], [0.5, 0.6]), "mass sums to 1.1"),
        (lambda: fa.from_losses([1.0, 2.0], [1.5, -0.5]), r"mass\[0\]"),
        (lambda: fa.from_losses([1.0, 2.0], [1.0]), "one length, not 2 and 1"),
        (lambda: fa.from_losses([[1.0]], [1.0]), "one-dimensional"),
        (lambda: fa.from_losses([-3.0, 1.0], [0.5, 0.5]), "at most 1"),
    ],
)
def test_what_is_no_law_of_losses_is_refused_by_name(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()
