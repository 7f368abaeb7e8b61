"""Lines of jobs in which nothing decays (line/ray_line.h, line/lattice_line.h, line/long_line.h), so coarse that one of
their errors matters: with its entry of the ledger the truth is inside, without it outside."""

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


KINDS = {
    "a few": (((0.7, 1), (1.9, 3), (5.3, 2)), (0.1, 0.5, 1.0, 2.0)),
    "ten": (tuple((2.0 + 1.7 * k, 1) for k in range(10)), (0.02, 0.3, 0.9)),
    "two, often": (((4.1, 20), (7.3, 15)), (0.5, 2.0, 4.0)),
}


@cache
def of_laplaces(name, epsilon):
    """Log delta, by residues in 60 digits."""
    with mp.workdps(60):
        return float(log(laplace_sum(KINDS[name][0], mpf(epsilon))))


def points(name, epsilon, good, quiet=3.0, at=None, mu2=0.0, ref=None):
    """(log delta, errors above and below, slope, points, s^2) of a line of points."""
    scales, counts = zip(*KINDS[name][0], strict=True)
    given = len(scales), epsilon, of_laplaces(name, at or epsilon) if ref is None else ref, at or epsilon
    return call("flat", "points", *given, good, quiet, mu2, lists=(scales, counts), answers=6)


def is_inside(truth, found):
    """Whether a log delta is in an interval."""
    value, up, down, *_ = found
    return value + math.log1p(-min(down, 1.0 - 1e-9)) - 1e-14 <= truth <= value + math.log1p(up) + 1e-14


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("good", "quiet"), [(1e-1, 3.0), (1e-2, 20.0), (1e-3, 3.0), (1e-4, 20.0), (1e-6, -8.0), (1e-8, 3.0)]
)
def test_a_line_of_points_has_the_truth_inside(name, good, quiet):
    """Exact sums of residues: as coarse as asked for, and at epsilons that it was not drawn for."""
    for epsilon in KINDS[name][1]:
        found = points(name, epsilon, good, quiet)
        assert is_inside(of_laplaces(name, epsilon), found)
        assert found[1] + found[2] < 8.0 * good * max(1.0, math.exp(-quiet))
        for other in (0.9 * epsilon, 1.05 * epsilon):
            assert is_inside(of_laplaces(name, other), points(name, other, good, quiet, at=epsilon))


def test_every_error_of_a_line_of_points_is_needed():
    """What aliases, what a Gaussian adds, and what is beyond the points, each where it is nearly all there is."""
    cases = [(name, epsilon) for name in KINDS for epsilon in KINDS[name][1]]
    found = {
        quiet: [(points(*case, good, quiet), of_laplaces(*case)) for case in cases for good in goods]
        for quiet, goods in ((-8.0, [1e-6]), (20.0, [1e-2, 1e-3, 1e-4]))
    }
    assert any(value - truth > 0.2 * down and up < 0.01 * down for (value, up, down, *_), truth in found[-8.0])
    assert any(value - truth > 1.2 * up and value - truth > 0.1 * down for (value, up, down, *_), truth in found[20.0])
    assert all(up > 1e-5 for (_, up, *_), _ in found[20.0][::3])


def test_a_line_of_points_beside_a_gaussian_is_its_own_integral():
    """The contour's integral by mpmath; a moment of Laplace noise as the integral that it is."""
    scales, mu2, epsilon = [scale for scale, _ in KINDS["ten"][0]], 0.04, 0.8
    with mp.workdps(30):

        def moment(u, b):
            return (u * exp((u - 1) / b) + (u - 1) * exp(-u / b)) / (2 * u - 1)

        u, b = mpf(6) + 3j, mpf(2)
        inside = mp.quad(lambda x: exp(u * (1 - 2 * x) / b - (1 - x) / b), [0, 1]) / (2 * b)
        assert abs(exp((u - 1) / b) / 2 + exp(-u / b) / 2 + inside - moment(u, b)) < mpf(10) ** -25

        def integrand(t):
            u = mpf(6) + 1j * t
            value = exp(u * (u - 1) * mpf(mu2) / 2 - (u - 1) * epsilon) / (u * (u - 1))
            return mp.fprod([value, *[moment(u, mpf(scale)) for scale in scales]]).real

        truth = float(log(mp.quad(integrand, [0, 4, 10, 20, 35, 65], maxdegree=6) / mp.pi))
    for good in (1e-1, 1e-3, 1e-10):
        found = points("ten", epsilon, good, mu2=mu2, ref=truth)
        assert is_inside(truth, found)
        assert found[1] + found[2] < 20.0 * good
