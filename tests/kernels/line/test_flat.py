"""Lines of jobs in which nothing decays (line/ray_line.h, line/lattice_line.h), so coarse that one of their errors
matters: with its entry of the ledger the truth is inside, without it outside."""

import math
from functools import cache

import pytest
from mpmath import exp, expm1, log, log1p, loggamma, mp, mpf

from tests.kernel_parts import call
from tests.kernels.line.test_pieces import laplace_sum

SAMPLES = [(1.0, 0.01, 0.009), (1.0, 0.1, 0.1), (1.0, 0.001, 0.001), (0.5, 0.02, 0.05), (0.5, 0.02, 0.1)]
USUAL = {"rule": 29.5, "nodes": 29.5, "ends": 2e-14, "step": 0.0}


@cache
def of_a_sample(scale, rate, epsilon):
    """Delta of one release of Laplace noise, sampled: the loss is log(1 + rate (e^l - 1)) of that of Laplace noise."""
    with mp.workdps(40):
        own = log1p(expm1(mpf(epsilon)) / mpf(rate))
        return mpf(rate) * (1 - exp((own - 1 / mpf(scale)) / 2))


@cache
def of_responses(size, count, epsilon):
    """Delta of so many randomised responses: the sum over how many are true, from the first above epsilon on."""
    with mp.workdps(40):
        true = 1 / (1 + exp(-mpf(size)))
        k = max(0, int((epsilon / size + count) / 2) - 1)
        chance = exp(
            loggamma(count + 1) - loggamma(k + 1) - loggamma(count - k + 1) + k * log(true) + (count - k) * log1p(-true)
        )
        total = last = mpf(0)
        while k <= count:
            place = (2 * k - count) * mpf(size)
            part = chance * -expm1(epsilon - place) if place > epsilon else mpf(0)
            total += part
            if part < last and part < total * mpf(10) ** -20:
                break
            last = part
            chance *= true / (1 - true) * mpf(count - k) / (k + 1)
            k += 1
        return total


def ray(scale, rate, epsilon, at=None, **budget):
    """(log delta, errors above and below) of a line for one release, drawn at an epsilon."""
    known = float(log(of_a_sample(scale, rate, epsilon)))
    lists = (list((USUAL | budget).values()),)
    return call("flat", "ray", scale, rate, 1, epsilon, known, at or epsilon, lists=lists, answers=6)[:3]


def lattice(size, count, epsilon, good=29.5, fold=1, small=42.0):
    """The same of a period for responses, `fold` of them at a time."""
    known = float(log(of_responses(size, count, epsilon)))
    lists = ([good, small],)
    return call("flat", "lattice", size, fold, count / fold, epsilon, known, lists=lists, answers=6)[:3]


def holds(found, truth):
    """Whether the truth is inside."""
    value = exp(mpf(found[0]))
    return value * (1 - found[2]) <= truth <= value * (1 + found[1])


BUDGETS = {
    "aliases of the rays": {"step": 1.0},
    "what the ends leave out": {"ends": 1e-3},
    "the rule of the line": {"rule": 0.0},
    "the nodes of its points": {"nodes": -20.0},
}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_every_error_of_a_ray_is_needed(budget):
    outside = []
    for sample in SAMPLES:
        truth, usual, starved = of_a_sample(*sample), ray(*sample), ray(*sample, **budget)
        assert holds(usual, truth)
        assert usual[1] < 1e-10
        assert holds(starved, truth), sample
        outside.append(not holds([starved[0], *usual[1:]], truth))
    assert sum(outside) >= len(SAMPLES) - 1  # on both sides


@pytest.mark.parametrize("which", [0, 1, 2], ids=["places", "tables", "points"])
def test_what_a_ray_rounds_is_counted(which):
    most = 0.0
    for scale, rate, epsilon in SAMPLES:
        known = float(log(of_a_sample(scale, rate, epsilon)))
        entry, moved = call("flat", "is_counted", scale, rate, 1, epsilon, known, which, answers=2)
        assert moved <= entry
        most = max(most, moved)
    assert most > 0.0


@pytest.mark.parametrize("budget", [{}, *BUDGETS.values()], ids=["usual", *BUDGETS])
def test_a_ray_serves_other_epsilons(budget):
    for scale, rate, epsilon in SAMPLES:
        top = float(log1p(rate * expm1(1 / scale)))
        for at in (0.7 * epsilon, 0.5 * (epsilon + top)):
            assert holds(ray(scale, rate, epsilon, at=at, **budget), of_a_sample(scale, rate, epsilon))


@pytest.mark.parametrize("budget", [{"ends": 1e-1}, {"ends": 1e-3}, {"rule": 4.0}, {"nodes": 0.0}], ids=str)
def test_bounds_of_delta_and_epsilon_have_the_errors_of_their_line(budget):
    for scale, rate, epsilon in SAMPLES:
        log_delta = float(log(of_a_sample(scale, rate, epsilon)))
        lists = (list((USUAL | budget).values()),)
        found = call("flat", "answers", scale, rate, 1, epsilon, log_delta, lists=lists, answers=4)
        assert found[0] <= log_delta <= found[1]
        assert found[2] <= epsilon <= found[3]
        assert found[1] - found[0] <= 0.1
        assert found[3] - found[2] <= 0.1 * epsilon


@pytest.mark.parametrize(("scale", "count", "epsilon"), [(1e6, 2, 2e-14), (1e7, 4, 3e-14), (1e5, 2, 3.5e-14)])
def test_a_place_next_to_epsilon_counts_as_there_and_is_paid(scale, count, epsilon):
    """Half of the releases up, half of them down: an atom at 0, hardly below epsilon."""
    with mp.workdps(80):
        truth = laplace_sum([(scale, count)], mpf(epsilon))
        lists = (list(USUAL.values()),)
        found = call("flat", "ray", scale, 1.0, count, epsilon, float(log(truth)), epsilon, lists=lists, answers=6)
        assert holds(found, truth)
        assert not holds([found[0], 1e-11, 1e-11], truth)


RESPONSES = [(0.1, 100, 3.03), (1.0, 20, 8.4), (0.01, 1000, 1.5), (0.01, 1000, 1.50000001), (0.3, 40, 3.59)]


@pytest.mark.parametrize("good", [2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0])
def test_aliases_of_a_short_period_are_needed(good):
    """They are never negative: the upper bound has no entry for them, and would hold without."""
    for responses in RESPONSES:
        truth, usual, starved = of_responses(*responses), lattice(*responses), lattice(*responses, good)
        assert holds(usual, truth)
        assert holds(starved, truth), responses
        assert starved[1] < 1e-9
        assert not holds([starved[0], *usual[1:]], truth), responses


@pytest.mark.parametrize("small", [2.0, 3.0, 4.0, 6.0])
def test_atoms_that_are_left_out_of_a_period_are_needed(small):
    """Ten responses at a time have eleven losses: at most of them hardly anything is left at the line."""
    for size, count, epsilon in ((0.1, 100, 3.03), (1.0, 20, 8.4), (0.3, 40, 3.59), (2.0, 20, 25.0)):
        truth = of_responses(size, count, epsilon)
        usual = lattice(size, count, epsilon, fold=10)
        starved = lattice(size, count, epsilon, fold=10, small=small)
        assert holds(usual, truth)
        assert holds(starved, truth)
        assert not holds([starved[0], *usual[1:]], truth), (size, usual, starved)


@pytest.mark.parametrize("count", [1000, 30_000, 300_000])
def test_rounding_of_a_period_is_within_its_bound(count):
    for size in (0.001, 0.0013, 0.1):
        epsilon = size * (1.5 * math.sqrt(count) + count * math.tanh(0.5 * size))
        truth, found = of_responses(size, count, epsilon), lattice(size, count, epsilon)
        assert holds(found, truth)
        assert found[1] < 1e-7


MANY = (
    [1.2, 1.6, 1.9, 2.3, 2.8, 3.4, 4.1, 5.3, 6.1, 7.7, 9.2, 11.9],
    [17.0, 5.0, 12.0, 8.0, 16.0, 4.0, 9.0, 19.0, 6.0, 11.0, 7.0, 14.0],
)  # scales of Laplace noise, and how often


@pytest.mark.parametrize("far", [0.1, 0.2])
def test_a_tail_that_is_bounded_on_average_holds_what_few_points_leave_out(far):
    outside = []
    for epsilon in (12.0, 24.0, 36.0):
        truth, up, down, _, points = call("flat", "spread", 12, epsilon, 1.0, lists=MANY, answers=5)
        assert points == 1536
        assert up + down < 1e-4
        found = call("flat", "spread", 12, epsilon, far, lists=MANY, answers=5)
        assert 0 < found[4] <= 1536 * far**2
        assert found[0] - found[2] - down <= truth <= found[0] + found[1] + up
        outside.append(abs(found[0] - truth) > found[1] - found[3])
    assert any(outside)
