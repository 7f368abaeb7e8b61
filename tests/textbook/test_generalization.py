"""Private analyses do not overfit: all data sets of a few bits, all outputs, exactly."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa


def chooser(n, epsilon):
    """P[output | data]: 0 or 1 says which of "share of ones" and "share of zeros" looks better; scores move by 1."""
    table = {}
    for data in itertools.product((0, 1), repeat=n):
        weights = np.exp(0.5 * epsilon * np.array([n - sum(data), sum(data)]))
        table[data] = weights / weights.sum()
    return table


def randomized(n, epsilon):
    """The first bit by randomised response: all of its budget on one record."""
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return {
        data: np.array([truth, 1 - truth] if data[0] == 0 else [1 - truth, truth])
        for data in itertools.product((0, 1), repeat=n)
    }


@pytest.mark.parametrize("make", [chooser, randomized])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_expected_gap_and_max_information_by_enumeration(make, epsilon, share):
    for n in (1, 2, 5, 8):
        table = make(n, epsilon)
        mass = {data: math.prod(share if x else 1 - share for x in data) for data in table}
        output = sum(mass[data] * table[data] for data in table)
        gap = sum(
            mass[data] * table[data][k] * (np.mean([x == k for x in data]) - (share if k else 1 - share))
            for data in table
            for k in (0, 1)
        )
        assert gap <= fa.generalization.expected_gap(epsilon)
        ratios = [math.log2(table[data][k] / output[k]) for data in table for k in (0, 1)]
        assert max(ratios) <= fa.generalization.max_information(epsilon, n) * (1 + 1e-12)
        for beta in (1e-3, 0.1):
            bits = fa.generalization.max_information(epsilon, n, beta=beta)
            # the best event: all outcomes more than 2^bits times as likely as with fresh data
            excess = sum(
                max(0.0, mass[data] * (table[data][k] - 2.0**bits * output[k])) for data in table for k in (0, 1)
            )
            assert excess <= beta
    if make is randomized and share == 0.5:  # one record, and a question about it: attained
        table = make(1, epsilon)
        gap = sum(0.5 * table[(x,)][k] * ((x == k) - 0.5) for x in (0, 1) for k in (0, 1))
        assert gap == pytest.approx(0.5 * math.tanh(epsilon / 2))  # half of it: the population's mean is 1/2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_expected_gap_is_attained_by_a_random_set_that_likes_its_own_record(epsilon):
    """Each of m equally likely values is in the set with probability p; the odds are exp(epsilon) if it is the data."""
    m, p = 5, 1.0 / (1.0 + math.exp(0.5 * epsilon))
    sets = list(itertools.product((0, 1), repeat=m))
    prior = {chosen: p ** sum(chosen) * (1.0 - p) ** (m - sum(chosen)) for chosen in sets}
    table = {x: {c: prior[c] * math.exp(epsilon * c[x]) for c in sets} for x in range(m)}
    table = {x: {c: mass / math.fsum(row.values()) for c, mass in row.items()} for x, row in table.items()}
    for x, y in itertools.permutations(range(m), 2):
        assert max(math.log(table[x][c] / table[y][c]) for c in sets) <= epsilon * (1.0 + 1e-9)
    gap = math.fsum(table[x][c] / m * (c[x] - sum(c) / m) for x in range(m) for c in sets)
    found = fa.generalization.expected_gap(epsilon)
    assert gap <= found
    # with ever more values the mean over the population tends to p: that part of the gap is known
    shift = math.fsum(table[x][c] / m * (sum(c) / m - p) for x in range(m) for c in sets)
    assert gap + shift == pytest.approx(found, rel=1e-12)


def test_the_gap_of_a_job_is_at_most_its_advantage():
    for epsilon in (0.1, 1.0, 3.0):
        found = fa.generalization.expected_gap(epsilon)
        assert found <= fa.advantage(fa.RandomizedResponse(epsilon), neighbors="replace_one")
        assert found <= epsilon / 4
        both = fa.generalization.expected_gap(epsilon, 1e-3)
        assert both == pytest.approx(fa.advantage(fa.ApproxDP(epsilon, 1e-3), neighbors="replace_one"), rel=1e-9)


def test_a_question_chosen_with_privacy_is_seldom_off():
    """All data sets of n fair bits; the analysis chooses one of two questions, as privately as it says."""
    tau, epsilon = 0.3, 0.4
    for n in (4, 9):
        table = chooser(n, epsilon)
        off = math.fsum(
            table[data][k] * 0.5**n
            for data in table
            for k in (0, 1)
            if abs(np.mean([x == k for x in data]) - 0.5) >= tau
        )
        assert off <= fa.generalization.statistical_query_error(tau, n, epsilon=epsilon)


def test_theorems_as_formulas_and_what_is_refused():
    g = fa.generalization
    assert g.max_information(0.1, 1000, beta=1e-6) == pytest.approx(
        (0.005 * 1000 + 0.1 * math.sqrt(500 * math.log(2e6))) / math.log(2)
    )
    assert g.max_information([0.1, 5.0], 10, beta=0.5).shape == (2,)
    assert g.max_information(5.0, 10, beta=0.5) == pytest.approx(50 / math.log(2))  # the smaller
    assert g.max_information(0.0, 10, beta=1e-320) == 0.0
    assert g.statistical_query_error(0.3, 10**6, epsilon=0.1) > 0.0
    assert g.statistical_query_error(0.1, 2000, epsilon=0.05) == pytest.approx(2 * math.exp(-30))
    assert g.probability_on_own_data(3.0, 0.01) == pytest.approx(0.08)
    assert g.probability_on_own_data(5000.0, 0.0, beta=0.2) == pytest.approx(0.2)
    assert g.statistical_query_error(0.1, 100, epsilon=0.2) == 1.0
    with pytest.raises(ValueError, match="beta"):
        g.max_information(0.1, 10, beta=2.0)
