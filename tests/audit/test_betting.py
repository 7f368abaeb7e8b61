"""Bets against a guarantee: fair at best if it is true."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import fastacct as fa
from fastacct.audit.shared import MOST, largest_refuted


@given(
    false=st.floats(0.0, 0.3),
    epsilon=st.floats(0.0, 3.0),
    delta=st.floats(0.0, 0.1),
    way=st.sampled_from(["remove", "add"]),
    either=st.booleans(),
)
def test_a_bet_against_a_true_guarantee_is_fair_at_best(false, epsilon, delta, way, either):
    """The mean of the wealth after one pair, over the four outcomes of a mechanism at the limit of its guarantee."""
    found = min(1.0, math.exp(epsilon) * false + delta)
    # "add": the record's absence is what is found
    of_member, of_other = (found, false) if way == "remove" else (1.0 - false, 1.0 - found)
    chances = {
        (a, b): (of_member if a else 1.0 - of_member) * (of_other if b else 1.0 - of_other)
        for a in (True, False)
        for b in (True, False)
    }
    mean = sum(
        chance * fa.audit.sequential([a], [b]).wealth(epsilon, delta, neighbors="add_remove" if either else way)[0]
        for (a, b), chance in chances.items()
    )
    assert mean <= 1.0


PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(PAIRS, st.floats(0.0, 14.0), st.floats(0.0, 0.5), st.floats(0.0, 2.0), st.sampled_from(["remove", "add_remove"]))
def test_wealth_falls_with_epsilon_and_delta(pairs, epsilon, delta, more, way):
    """So that the largest epsilon that is refuted is a bound: all below it are refuted, too."""
    found = fa.audit.sequential(*zip(*pairs, strict=True))
    wealth = found.wealth(epsilon, delta, neighbors=way)
    assert np.all(found.wealth(epsilon + more, delta, neighbors=way) <= wealth * (1 + 1e-9))
    assert np.all(found.wealth(epsilon, delta + more / 4, neighbors=way) <= wealth * (1 + 1e-9))
    assert found.wealth(40.0, 0.0).tolist() == [0.0] * len(pairs)


def test_bets_show_more_the_longer_they_go_and_stop_when_they_like():
    random = np.random.default_rng(4)
    members, others = random.normal(2, 1, 4000) > 2, random.normal(0, 1, 4000) > 2
    shown = [fa.audit.sequential(members[:n], others[:n]).epsilon(1e-5) for n in (50, 500, 4000)]
    assert shown == sorted(shown)
    assert 1.5 < shown[2] < fa.epsilon(fa.Gaussian(0.5), delta=1e-5)
    found = fa.audit.sequential(members, others)
    after = found.refuted_after(1.0, 1e-5)
    assert fa.audit.sequential(members[:after], others[:after]).refuted_after(1.0, 1e-5) == after
    assert fa.audit.sequential(members[: after - 1], others[: after - 1]).refuted_after(1.0, 1e-5) is None
    assert found.refutes(fa.Gaussian(1.0))
    assert not found.refutes(fa.Gaussian(0.5))
    assert not found.refutes(fa.ApproxDP(0.0, 1.0))
    plain = fa.audit.sequential([True] * 5000, [False] * 5000)
    assert math.isfinite(plain.epsilon(1e-5))


def test_a_record_that_is_added_is_one_that_is_removed_with_both_answers_turned_round():
    random = np.random.default_rng(5)
    members, others = random.random(60) < 0.7, random.random(60) < 0.05
    added = fa.audit.sequential(members, others).wealth(0.5, 1e-3, neighbors="add")
    turned = fa.audit.sequential(~others, ~members).wealth(0.5, 1e-3, neighbors="remove")
    assert (added == turned).all()
    assert added[-1] != fa.audit.sequential(members, others).wealth(0.5, 1e-3, neighbors="remove")[-1]


def test_no_epsilon_is_shown_that_was_not_refuted():
    for most in (0.3, 5.0, 600.0, math.inf):
        found = largest_refuted(lambda epsilon, most=most: epsilon <= most)
        assert min(most, 512.0) * (1.0 - 1e-12) <= found <= min(most, MOST)
