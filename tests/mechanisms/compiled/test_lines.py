"""Compositions of compiled mechanisms by a line: against built-in Gaussians, and against losses on a grid."""

import math

import numpy as np
import pytest

import fastacct as fa
from tests.densities import flat, gaussian_p, gaussian_q, laplace_p, laplace_q, rising

pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")

from fastacct.losses.atoms import pieces_of


def wide(x):
    return -0.5 * (x / 1.3) ** 2 - 0.9189385332046727 - math.log(1.3)


def cubic_p(x):
    return math.log(0.5 + (2.0 * x - 1.0) ** 3 * 0.4 + 0.5)


@pytest.fixture(scope="module")
def gaussian():
    return fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q)


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
@pytest.mark.parametrize(("rate", "count"), [(1.0, 10), (1.0, 200), (0.1, 100), (0.01, 2000), (0.5, 40)])
def test_compositions_agree_with_the_built_in_gaussian(gaussian, rate, count, delta, neighbors):
    mine = (gaussian if rate == 1.0 else gaussian.poisson(rate)) * count
    own = (fa.Gaussian(1.0) if rate == 1.0 else fa.Gaussian(1.0).poisson(rate)) * count
    bounds = fa.epsilon_bounds(mine, delta=delta, neighbors=neighbors)
    truth = fa.epsilon_bounds(own, delta=delta, neighbors=neighbors)
    assert bounds.lower <= truth.upper
    assert bounds.upper >= truth.lower
    assert bounds.upper == pytest.approx(truth.upper, rel=1e-10, abs=0.0)  # the widths of both
    assert 0.0 < bounds.upper - bounds.lower < 1e-9 * bounds.upper
    read = fa.delta_bounds(mine, epsilon=[truth.lower, truth.upper], neighbors=neighbors)
    assert read.upper[0] >= delta >= read.lower[1]  # the true epsilon lies between the two
    assert (read.upper - read.lower < 1e-8 * delta).all()


def test_different_mechanisms_in_one_composition(gaussian):
    mine = gaussian * 20 + gaussian.poisson(0.2) * 50
    own = fa.Gaussian(1.0) * 20 + fa.Gaussian(1.0).poisson(0.2) * 50
    assert fa.epsilon(mine, delta=1e-6) == pytest.approx(fa.epsilon(own, delta=1e-6), rel=1e-10, abs=0.0)


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize(("rate", "count"), [(1.0, 12), (0.2, 60)])
def test_compositions_are_within_those_of_a_grid(rate, count, neighbors):
    mine = fa.jit.mechanism(log_density_p=rising, log_density_q=flat, domain=(0.0, 1.0), panels=1024)
    job = (mine if rate == 1.0 else mine.poisson(rate)) * count
    line = fa.epsilon_bounds(job, delta=1e-5, neighbors=neighbors)
    grid = fa.epsilon_bounds(job, delta=1e-5, neighbors=neighbors, accountant=fa.PLD())
    assert grid.lower <= line.lower <= line.upper <= grid.upper
    assert line.upper - line.lower < 1e-9 * line.upper


@pytest.mark.parametrize(
    ("log_p", "log_q", "domain", "cuts"),
    [
        (laplace_p, laplace_q, (-60.0, 60.0), (0.0, 1.0)),  # constant losses
        (wide, gaussian_q, (-40.0, 40.0), ()),  # a loss that falls and rises
        (cubic_p, flat, (0.0, 1.0), (0.5,)),  # a stationary point, although it is named
    ],
)
def test_losses_without_a_bounded_density_have_no_line(log_p, log_q, domain, cuts):
    """A grid answers: nowhere near what a line says."""
    mine = fa.jit.mechanism(log_density_p=log_p, log_density_q=log_q, domain=domain, breakpoints=cuts)
    for way in ("remove", "add"):
        lower, upper, _ = fa.delta_bounds(mine * 20, epsilon=1.0, neighbors=way)
        assert 1e-9 * upper < upper - lower < 1e-4 * upper


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_few_releases_agree_with_the_built_in_gaussian(gaussian, count):
    truth = fa.delta_bounds(fa.Gaussian(1.0) * count, epsilon=[0.0, 1.0, 5.0], neighbors="remove")
    bounds = fa.delta_bounds(gaussian * count, epsilon=[0.0, 1.0, 5.0], neighbors="remove")
    assert (bounds.lower <= truth.upper).all()
    assert (bounds.upper >= truth.lower).all()
    assert (bounds.upper <= truth.upper * 1.001).all()


@pytest.mark.parametrize(("rate", "count", "way"), [(1.0, 40, "remove"), (0.1, 300, "remove"), (0.1, 300, "add")])
def test_a_target_has_the_same_bits_alone_and_among_others(gaussian, rate, count, way):
    job = (gaussian if rate == 1.0 else gaussian.poisson(rate)) * count
    deltas, epsilons = [1e-9, 0.3, 1e-4, 1.1e-4, 1e-12, 0.02], [0.0, 9.0, 3.3, 3.30001, 20.0, 0.7]
    together = fa.epsilon(job, delta=deltas, neighbors=way), fa.delta(job, epsilon=epsilons, neighbors=way)
    assert [fa.epsilon(job, delta=one, neighbors=way) for one in deltas] == together[0].tolist()
    assert [fa.delta(job, epsilon=one, neighbors=way) for one in epsilons] == together[1].tolist()


# -- features between the panels of the line and those of the mechanism ------------------------------------------------

WAVE = math.log(((1.0 - math.exp(-1024.0)) + 0.9 * (1.0 - math.exp(-1024.0)) / (1.0 + math.pi**2)) / 1024.0)


def wave_p(x):
    return math.log1p(0.9 * math.cos(math.pi * x)) - math.log(1024.0)


def wave_loss(x):
    return x + WAVE


def wave_q(x):
    return math.log1p(0.9 * math.cos(math.pi * x)) - math.log(1024.0) - x - WAVE


def test_waves_of_the_mechanisms_own_panels_count_as_variation():
    made = fa.jit.mechanism(log_density_p=wave_p, log_density_q=wave_q, loss=wave_loss, domain=(0.0, 1024.0))
    lower, upper, _ = fa.delta_bounds(made * 8, epsilon=[6908.184625579988, 6909.184625579988], neighbors="remove")
    assert lower[0] <= 1.06092682852e-4 <= upper[0]
    assert lower[1] <= 1.05403083668e-4 <= upper[1]


SPIKE, PLACE = 0.7 / 65536, 900.5 / 1024
SHARE = math.log(0.7 * (1.0 - math.exp(-2.0)) / 2.0 + 0.3 * math.exp(-2.0 * PLACE + 2.0 * SPIKE**2))


def spike_p(x):
    return math.log(0.7 + 0.3 * math.exp(-0.5 * ((x - PLACE) / SPIKE) ** 2) / (SPIKE * math.sqrt(2.0 * math.pi)))


def spike_loss(x):
    return 2.0 * x + SHARE


def spike_q(x):
    p = 0.7 + 0.3 * math.exp(-0.5 * ((x - PLACE) / SPIKE) ** 2) / (SPIKE * math.sqrt(2.0 * math.pi))
    return math.log(p) - 2.0 * x - SHARE


def excess_of_sum(n, epsilon):
    """Mean of (1 - exp(epsilon - loss))_+ where n outputs are uniform on [0, 1] and the others of 8 at the spike."""
    rest = epsilon - 2.0 * (8 - n) * PLACE - 8.0 * SHARE
    if n == 0:
        return max(0.0, -math.expm1(rest))
    points, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for low in range(n):  # Irwin-Hall: a polynomial on each of these
        first = min(max(low, 0.5 * rest), low + 1.0)
        x, size = first + 0.5 * (low + 1.0 - first) * (1.0 + points), 0.5 * (low + 1.0 - first)
        density = sum((-1) ** k * math.comb(n, k) * (x - k) ** (n - 1) for k in range(low + 1)) / math.factorial(n - 1)
        total += float(np.sum(size * weights * density * -np.expm1(np.minimum(rest - 2.0 * x, 0.0))))
    return total


def test_a_part_between_the_nodes_of_the_line():
    made = fa.jit.mechanism(
        log_density_p=spike_p, log_density_q=spike_q, loss=spike_loss, domain=(0.0, 1.0), panels=65536
    )
    assert pieces_of(made.losses("remove")) is None  # something is narrower than the panels of a line
    lower, upper, _ = fa.delta_bounds(made * 8, epsilon=3.0, neighbors="remove")
    truth = sum(math.comb(8, n) * 0.7**n * 0.3 ** (8 - n) * excess_of_sum(n, 3.0) for n in range(9))
    assert lower - 1e-9 <= truth <= upper + 1e-9  # the spike has no width here


def half_loss(x):
    return x - 0.5


def test_mass_of_either_density_outside_the_domain():
    made = fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q, loss=half_loss, domain=(-7.0, 40.0))
    for epsilon in (30.0, 50.0):
        truth = fa.delta_lower(fa.Gaussian(1.0) * 8, epsilon=epsilon)
        assert fa.delta(made * 8, epsilon=epsilon, neighbors="add") >= truth


def test_lambdas_of_one_line_are_not_mixed_up():
    one, other = (lambda x: gaussian_q(x - 1.0)), (lambda x: gaussian_q(x - 3.0))
    first, second = (fa.jit.mechanism(log_density_p=p, log_density_q=gaussian_q) for p in (one, other))
    assert first == fa.jit.mechanism(log_density_p=one, log_density_q=gaussian_q)
    assert first != second


def test_divergences_are_those_of_the_numbers_however_they_are_stored(gaussian):
    orders = np.array([2.0, 3.0, 4.0])
    stored = gaussian.divergence(orders, "add_remove")
    assert stored == pytest.approx(0.5 * orders, rel=1e-9)
    for other in (orders.astype(int), orders.astype(np.float32), orders.astype(">f8"), np.repeat(orders, 2)[::2]):
        assert (gaussian.divergence(other, "add_remove") == stored).all()
