"""Two steps of any pairs of Gaussian mixtures, in both directions, against one integral over a closed form.

Pairs of all shapes that a line treats in its own way: mixtures on both sides, none of P's components at Q's, losses
that only fall beside losses that grow, groups next to their largest loss.
"""

import numpy as np
import pytest
from scipy.special import ndtr

import fastacct as fa

SAMPLED = (0.9, [(0.95, 0.0), (0.05, 1.0)], [(1.0, 0.0)])
TWO_SIDED = (1.1, [(0.9, 0.0), (0.07, 0.6), (0.03, 1.0)], [(0.96, 0.0), (0.04, -0.8)])
LESS_AT_ZERO = (0.8, [(0.8, 0.0), (0.2, 0.4)], [(0.999, 0.0), (0.001, -0.8)])
APART = (0.7, [(0.98, 0.5), (0.02, 1.2)], [(0.99, 0.0), (0.01, -0.3)])
APART_FROM_ONE = (1.5, [(0.6, 0.3), (0.4, 0.9)], [(1.0, 0.0)])
GROUP = (0.8, [(0.970299, 0.0), (0.029403, 1.0), (0.000297, 2.0), (0.000001, 3.0)], [(1.0, 0.0)])
JOBS = {
    "replaced record": [(1.0, [(0.98, 0.0), (0.02, 1.0)], [(0.98, 0.0), (0.02, -1.0)])] * 2,
    "both sides": [TWO_SIDED] * 2,
    "less mass at zero": [LESS_AT_ZERO] * 2,
    "apart": [APART] * 2,
    "apart from one": [APART_FROM_ONE] * 2,
    "a group": [GROUP] * 2,
    "a sampled Gaussian and both sides": [SAMPLED, TWO_SIDED],
    "a group and a sampled Gaussian": [GROUP, SAMPLED],
    "apart and a group": [APART, GROUP],
}


def _beyond(side, noise, z, sign):
    """The mass of a mixture beyond z, right of it or left."""
    return sum(w * ndtr(sign * (m - z) / noise) for w, m in side)


def _loss(pair, z):
    noise, *sides = pair
    p, q = (np.logaddexp.reduce([np.log(w) - 0.5 * ((z - m) / noise) ** 2 for w, m in side], axis=0) for side in sides)
    return p - q


def _one_step(pair, epsilon, sign):
    """delta of one step at any real epsilon: of P against Q, or (sign < 0) of Q against P."""
    noise, p, q = pair
    low, high = np.full(epsilon.shape, -60.0 * noise - 2.0), np.full(epsilon.shape, 60.0 * noise + 3.0)
    for _ in range(60):  # the loss increases
        middle = 0.5 * (low + high)
        is_low = _loss(pair, middle) < sign * epsilon
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    first, second = (p, q) if sign > 0 else (q, p)
    return _beyond(first, noise, low, sign) - np.exp(epsilon) * _beyond(second, noise, low, sign)


def _two_steps(first, second, epsilon, sign):
    """The first step's outcome is integrated out; losses that hardly move ask for so many trapezoids: 3e-9 of delta."""
    noise, p, q = first
    z = np.linspace(-14.0 * noise - 1.0, 14.0 * noise + 3.0, 24_001)
    density = sum(w * np.exp(-0.5 * ((z - m) / noise) ** 2) for w, m in (p if sign > 0 else q))
    values = density * _one_step(second, epsilon - sign * _loss(first, z), sign)
    return values.sum() * (z[1] - z[0]) / (noise * np.sqrt(2.0 * np.pi))


def _mechanism(pair):
    noise, p, q = pair
    return fa.GaussianMixture(noise, p=p, q=q)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("job", JOBS)
def test_two_steps_meet_the_integral(job, direction):
    pairs, sign = JOBS[job], 1.0 if direction == "remove" else -1.0
    process = fa.Process([(_mechanism(pair), 1) for pair in pairs])
    for epsilon in (0.02, 0.4):
        truth = _two_steps(*pairs, epsilon, sign)
        if truth < 1e-7:
            continue  # the integral has no digits there
        bounds = fa.delta_bounds(process, epsilon=epsilon, neighbors=direction)
        slack = 1e-8 * truth + 1e-14
        assert bounds.lower - slack <= truth <= bounds.upper + slack
        assert bounds.status == fa.Status.TIGHT


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("pair", [TWO_SIDED, LESS_AT_ZERO, APART, GROUP], ids=["both sides", "less", "apart", "group"])
def test_a_pair_turned_round_has_the_answers_of_the_other_direction(pair, direction):
    noise, p, q = pair
    turned = fa.GaussianMixture(noise, p=[(w, -m) for w, m in q], q=[(w, -m) for w, m in p])
    other = {"remove": "add", "add": "remove"}[direction]
    for steps, delta in ((2, 1e-3), (9, 1e-9), (40, 1e-20)):
        one = fa.epsilon_bounds(_mechanism(pair) * steps, delta=delta, neighbors=direction)
        two = fa.epsilon_bounds(turned * steps, delta=delta, neighbors=other)
        assert max(one.lower, two.lower) <= min(one.upper, two.upper)
        assert one.status == two.status == fa.Status.TIGHT


def test_a_pair_whose_p_has_less_at_zero_meets_the_integral_at_small_deltas():
    """Nine steps, direction add: log(p_0/q_0) times the steps is beyond epsilon.  The contour integral in 150 bits."""
    p = [
        (0.82869400281113625, 0.0),
        (0.15849907472560709, 0.1811504364013672),
        (0.012806922463256654, 0.3744385242462158),
    ]
    q = [(0.99999735560713288, 0.0), (2.6443928671238126e-06, -0.769865095615387)]
    process = fa.GaussianMixture(0.79344057636409659, p=p, q=q) * 9
    for epsilon, truth in ((0.91750607604593615, 3.806090851507432e-27), (0.91750670501750575, 3.805663544159814e-27)):
        lower, upper, _ = fa.delta_bounds(process, epsilon=epsilon, neighbors="add")
        assert lower <= truth * (1.0 + 1e-12)
        assert truth * (1.0 - 1e-12) <= upper <= truth * (1.0 + 1e-3)
