"""Truncated Laplace noise, against integrals in many digits."""

import math

import mpmath
import numpy as np
import pytest

import fastacct as fa
from fastacct.reference.truncated_laplace import truncated_laplace_delta as reference

CASES = [
    (2.0, 20.0),
    (1.0, 1.5),
    (1.0, 1.0),
    (1.0, 0.75),
    (0.1, 3.0),
    (50.0, 300.0),
    (1e6, 3.0),
    (0.7, 20.0),
    (1.0, 2.0),
]


@pytest.mark.parametrize(("noise", "bound"), CASES)
@pytest.mark.parametrize("neighbors", ["add", "remove", "replace_one"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99, 1.1])
def test_one_release_is_the_integral(noise, bound, neighbors, share):
    far = 2 if neighbors == "replace_one" else 1
    epsilon = share * far / noise
    truth = reference(noise, bound, epsilon, far) if 2 * bound > far else mpmath.mpf(1)
    found = fa.delta_bounds(fa.TruncatedLaplace(noise, bound), epsilon=epsilon, neighbors=neighbors)
    assert found.lower <= truth <= found.upper
    assert found.upper <= truth * mpmath.mpf(1 + 1e-3) + mpmath.mpf(1e-289)
    if share >= 1.0:
        assert found.upper <= truth * mpmath.mpf(1 + 1e-9) + mpmath.mpf(1e-289)


@pytest.mark.parametrize(("noise", "bound"), [(2.0, 20.0), (1.0, 5.0), (0.2, 3.0)])
def test_closed_form_from_the_largest_loss_on(noise, bound):
    """Geng, Ding, Guo, Kumar 2020: bound = b log(1 + (exp(1/b) - 1)/(2 delta))."""
    for epsilon in (1.01 / noise, 2.0 / noise, 100.0):
        found = fa.delta(fa.TruncatedLaplace(noise, bound), epsilon=epsilon)
        assert noise * math.log1p(math.expm1(1.0 / noise) / (2.0 * found)) == pytest.approx(bound, rel=2e-14, abs=0.0)
    # the kernels round the largest loss by themselves
    assert fa.epsilon(fa.TruncatedLaplace(noise, bound), delta=found * 1.001) <= 1.0 / noise * (1.0 + 1e-14)
    assert fa.epsilon(fa.TruncatedLaplace(noise, bound), delta=0.999 * found) == math.inf
    assert fa.epsilon(fa.TruncatedLaplace(noise, bound), delta=0.0) == math.inf


def composed(noise, bound, count, epsilon, n=40_000):
    """By outcomes of one release on a fine table, squared: both sides within its spacing."""
    x = np.linspace(-bound, 1.0 + bound, n + 1)

    def below(at):
        at = np.clip(at, -bound, bound)
        half = -np.expm1(-np.abs(at) / noise) / (-2.0 * np.expm1(-bound / noise))
        return np.where(at > 0.0, 0.5 + half, 0.5 - half)

    p, q = np.diff(below(x)), np.diff(below(x - 1.0))
    lost = p[q <= 0.0].sum()
    keep = (q > 0.0) & (p > 0.0)
    loss, mass = np.log(p[keep] / q[keep]), p[keep]
    edges = np.linspace(-1.0 / noise - 1e-9, 1.0 / noise + 1e-9, 1500)
    cell = np.clip(np.searchsorted(edges, loss) - 1, 0, edges.size - 2)
    grid, centre = np.bincount(cell, mass, edges.size - 1), 0.5 * (edges[1:] + edges[:-1])
    total, sums = grid, centre
    for _ in range(count - 1):
        total = np.convolve(total, grid)
    sums = count * centre[0] + (edges[1] - edges[0]) * np.arange(total.size)
    finite = float(np.sum(total * np.maximum(-np.expm1(epsilon - sums), 0.0)))
    return finite + 1.0 - (1.0 - lost) ** count


@pytest.mark.parametrize(("noise", "bound"), [(2.0, 8.0), (1.0, 4.0)])
def test_several_releases(noise, bound):
    for epsilon in (0.3, 1.0):
        found = fa.delta_bounds(fa.TruncatedLaplace(noise, bound) * 3, epsilon=epsilon)
        assert composed(noise, bound, 3, epsilon) == pytest.approx(found.upper, rel=3e-3, abs=0.0)  # 1500 cells
        assert found.upper <= found.lower * (1 + 1e-2)


def test_a_sample_is_the_theorem_of_it():
    """delta'(log(1 + q (e^x - 1))) = q delta(x) for "remove"."""
    noise, bound, rate, x = 1.0, 6.0, 0.1, 0.6
    epsilon = math.log1p(rate * math.expm1(x))
    found = fa.delta_bounds(fa.TruncatedLaplace(noise, bound).poisson(rate), epsilon=epsilon, neighbors="remove")
    truth = rate * float(reference(noise, bound, x))
    assert found.lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= found.upper <= truth * (1 + 1e-5)
    assert found.lower >= truth * (1 - 1e-5)


@pytest.mark.parametrize("rate", [0.5, 1e-3])
@pytest.mark.parametrize("part", [0.0, 0.3])
def test_a_sample_of_wide_noise_has_every_digit(rate, part):
    """What a rule may be off by is small beside the least of deltas, too: p - exp(x) q, not p or q."""
    noise, bound = 1e8, 1e7
    x = mpmath.mpf(part) / noise
    with mpmath.workdps(40):
        epsilon = float(mpmath.log1p(rate * mpmath.expm1(x)))
        x = mpmath.log1p(mpmath.expm1(mpmath.mpf(epsilon)) / rate)
        ends = mpmath.mpf(bound - 1) / noise, mpmath.mpf(bound) / noise
        whole, step = -2 * mpmath.expm1(-ends[1]), mpmath.mpf(1) / noise
        far = -mpmath.expm1(-ends[0]) / whole * -mpmath.expm1(x - step)  # the largest loss
        lost = mpmath.exp(-ends[0]) * -mpmath.expm1(-step) / whole
        between = mpmath.quad(lambda y: mpmath.exp((y - step) / 2) * -mpmath.expm1(x - y), [x, step]) / (2 * whole)
        truth = float(rate * (far + lost + between))
    found = fa.delta_bounds(fa.TruncatedLaplace(noise, bound).poisson(rate), epsilon=epsilon, neighbors="remove")
    assert found.lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= found.upper <= found.lower * (1 + 1e-12)


def test_without_a_bound_it_is_laplace():
    a, b = fa.TruncatedLaplace(2.0, math.inf), fa.Laplace(2.0)
    assert fa.epsilon(a, delta=0.0) == fa.epsilon(b, delta=0.0)
    assert fa.rdp(a, 3.0) == fa.rdp(b, 3.0)
    assert fa.delta(a * 3, epsilon=0.7) == fa.delta(b * 3, epsilon=0.7)
    for relation in a.relations:
        one, other = (mechanism.losses(relation).pieces() for mechanism in (a, b))
        assert one.panels.tolist() == other.panels.tolist()
        assert one.atoms.tolist() == other.atoms.tolist()
        assert one.lost == other.lost


@pytest.mark.parametrize(("noise", "bound"), [(0.0, 5.0), (1.0, 0.0), (1.0, 0.5), (1.0, 0.3)])
def test_no_overlap_is_no_privacy(noise, bound):
    one = fa.TruncatedLaplace(noise, bound)
    assert fa.epsilon(one, delta=0.9) == math.inf
    assert fa.delta(one * 3 + fa.Laplace(1.0), epsilon=5.0) == 1.0
    assert fa.delta(one.group(3), epsilon=5.0) == 1.0


def test_groups():
    one = fa.TruncatedLaplace(4.0, 40.0)
    assert one.group(2) == fa.TruncatedLaplace(2.0, 20.0)
    three = fa.delta(one.group(3), epsilon=0.76)
    truth = reference(4.0, 40.0, 0.76, 3)
    assert truth <= three <= truth * (1 + mpmath.mpf(1e-12))
