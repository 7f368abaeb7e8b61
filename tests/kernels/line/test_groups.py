"""Groups of up to 100 records in few steps: two steps against a sum over both, means on a lattice against others."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.pieces import columns
from fastacct_ext import _kernels
from fastacct_ext._kernels import Directions, Quantity

NO_DATA = columns(())
TWICE = {  # size, noise, rate: direction add, two steps
    "next to the largest loss": (14, 0.6044, 0.01108),
    "far out and seldom drawn": (49, 0.6088, 0.00664),
    "much noise": (54, 4.675, 0.00126),
    "often drawn": (59, 2.0, 0.2175),
}
FEW = {  # size, noise, rate, steps: not certified without the second form of the moduli beyond the nodes
    "four steps": (96, 0.5691, 0.0001143, 4),
    "three steps": (48, 0.5905, 0.000921, 3),
    "more than 65, often drawn": (74, 1.466, 0.197, 8),
}


def group(size, noise, rate, steps):
    return (fa.Gaussian(noise).poisson(rate) * steps).group(size)


def weights(size, rate):
    logs = [
        math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1) + k * math.log(rate)
        for k in range(size + 1)
    ]
    return np.exp(np.array(logs) + (size - np.arange(size + 1)) * math.log1p(-rate))


def two_steps(size, noise, rate, epsilon):
    """Delta of direction add: the first loss by Gauss points, the second in closed form."""
    p, k = weights(size, rate), np.arange(size + 1)
    erfc = np.vectorize(math.erfc)

    def loss(z):
        return np.log(np.exp(k * (z[:, None] - 0.5 * k) / noise**2) @ p)

    def where(above):
        """z with above + loss = 0, or far left."""
        low, high = np.full(above.size, -60.0 * noise), np.full(above.size, 60.0 * noise)
        for _ in range(80):
            mid = 0.5 * (low + high)
            is_left = above + loss(mid) < 0.0
            low, high = np.where(is_left, mid, low), np.where(is_left, high, mid)
        return low

    end = where(np.array([epsilon + size * math.log1p(-rate)]))[0]  # no payoff beyond, whose panels get narrow there
    ends = np.concatenate(
        [np.linspace(-15.0 * noise, end - 0.1 * noise, 240), end - 0.1 * noise * 0.5 ** np.arange(1, 40)]
    )
    points, rule = np.polynomial.legendre.leggauss(16)
    z = (0.5 * (ends[1:] + ends[:-1])[:, None] + 0.5 * np.diff(ends)[:, None] * points).ravel()
    weight = (0.5 * np.diff(ends)[:, None] * rule).ravel() * np.exp(-0.5 * (z / noise) ** 2)
    above = epsilon + loss(z)
    masses = 0.5 * erfc((k - where(above)[:, None]) / (noise * math.sqrt(2.0)))
    rest = np.maximum(masses[:, 0] - np.exp(above) * (masses @ p), 0.0)
    return float(weight @ rest) / (noise * math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize("name", TWICE)
def test_epsilons_of_two_steps_hold_the_sum_over_both(name):
    found = fa.epsilon_bounds(group(*TWICE[name], 2), delta=1e-6, neighbors="add")
    assert found.lower > (1.0 - 1e-9) * found.upper
    assert two_steps(*TWICE[name], found.upper) < 1e-6 * (1.0 + 1e-9)
    assert two_steps(*TWICE[name], found.lower) > 1e-6 * (1.0 - 1e-9)


@pytest.mark.parametrize("name", FEW)
def test_few_steps_of_a_group_are_certified_to_nine_digits(name):
    found = fa.epsilon_bounds(group(*FEW[name]), delta=1e-6, neighbors="add")
    assert found.lower > (1.0 - 1e-9) * found.upper


@pytest.mark.parametrize("neighbors", ["add", "remove"])
@pytest.mark.parametrize(
    ("size", "noise", "rate", "steps"), [(40, 1.3, 0.02, 9), (20, 3.0, 0.05, 60), (7, 0.7, 0.01, 200)]
)
def test_means_on_a_lattice_agree_with_the_same_means_on_none(size, noise, rate, steps, neighbors):
    unit = math.sqrt(0.3)  # its multiples are rounded: no exact ratio of them is whole
    shares = weights(size, rate) / weights(size, rate).sum()
    p = tuple(zip(shares.tolist(), (unit * np.arange(size + 1.0)).tolist(), strict=True))
    mixture = fa.GaussianMixture(noise * unit, p)
    lattice = fa.epsilon_bounds(group(size, noise, rate, steps), delta=1e-6, neighbors=neighbors)
    none = fa.epsilon_bounds(mixture * steps, delta=1e-6, neighbors=neighbors)
    assert lattice.lower <= none.upper * (1.0 + 1e-11)
    assert none.lower <= lattice.upper * (1.0 + 1e-11)
    assert lattice.upper - lattice.lower < 1e-9 * lattice.upper


def asked(size, noise, rate, steps, delta, off=None):
    """Bounds of epsilon, direction add, by the kernel; `off` of the delta's logarithm."""
    p = weights(size, rate)
    kinds = np.array([p.size], dtype=np.int32), np.array([1], dtype=np.int32)
    out = [np.empty(1), np.empty(1), np.empty(1), np.empty(1, dtype=np.uint8)]
    given = np.array([steps]), np.array([noise]), *kinds, np.append(p, 1.0), np.append(np.arange(size + 1.0), 0.0)
    _kernels.exact_job(
        *given,
        NO_DATA,
        np.array([delta]),
        *out,
        quantity=Quantity.EPSILON,
        directions=Directions.ADD,
        off=None if off is None else np.array([off]),
    )
    return float(out[0][0]), float(out[1][0])


@pytest.mark.parametrize("steps", [1.0, 2.0, 9.0, 300.0])
def test_a_delta_that_may_be_off_has_the_epsilons_of_both_its_ends(steps):
    job, off = (12, 1.1, 0.03, steps), 1e-7
    lower, upper = asked(*job, 1e-5, off)
    least, most = asked(*job, 1e-5 * math.exp(off))[0], asked(*job, 1e-5 * math.exp(-off))[1]
    assert lower <= least * (1.0 + 1e-12)
    assert most * (1.0 - 1e-12) <= upper
    assert upper - lower < 1.5 * (most - least) + 1e-9 * upper


def test_a_tail_that_asks_for_more_points_than_a_line_has_takes_what_it_has():
    """27 records, where delta is almost 1 and the tail falls slowly."""
    smaller, found, larger = (
        fa.delta_bounds(group(size, 0.435, 0.076, 22), epsilon=0.21, neighbors="add") for size in (26, 27, 28)
    )
    assert found.status == fa.Status.TIGHT
    assert found.upper - found.lower < 1e-9
    assert smaller.lower < found.upper < larger.upper
