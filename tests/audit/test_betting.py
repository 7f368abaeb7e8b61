"""Bets against a guarantee: fair at best if it is true."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import fastacct as fa


@given(
    false=st.floats(0.0, 0.3),
    epsilon=st.floats(0.0, 3.0),
    delta=st.floats(0.0, 0.1),
    way=st.sampled_from(["remove", "add"]),
)
def test_a_bet_against_a_true_guarantee_is_fair_at_best(false, epsilon, delta, way):
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
        chance * fa.audit.sequential([a], [b]).wealth(epsilon, delta, neighbors=way)[0]
        for (a, b), chance in chances.items()
    )
    assert mean <= 1.0
    both = fa.audit.sequential([True], [False]).wealth(epsilon, delta)
    assert both[0] > 0.0


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
