"""Random allocation: rare large losses, which are counted beyond the cap of a line."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.atoms import pieces_of
from fastacct.samplers.allocation import allocated
from tests.samplers.test_allocation import bounds


def delta_of_the_law(noise, steps, epsilon, fine=32, taps=30):
    """Delta of one epoch from the law itself: its density between the points of the lattice, and the payoff's kink by
    Euler and Maclaurin."""
    atoms = pieces_of(allocated(noise, steps)).atoms
    loss, log_mass = atoms[:, 0], atoms[:, 1]
    h = loss[1] - loss[0]
    at = np.arange(epsilon, loss[-taps - 2], h / fine)
    i = np.clip(np.floor((at - loss[0]) / h).astype(int), 1, len(loss) - taps - 2)
    turn = 0.5 * (log_mass[i + 1] - log_mass[i - 1])
    part, density = (at - loss[i]) / h, np.zeros(len(at))
    for m in range(-taps + 1, taps + 1):
        j = np.clip(i + m, 0, len(loss) - 1)
        x = part - m
        density += np.sinc(x) * np.exp(-0.5 * (9.0 * x / taps) ** 2 + log_mass[j] - log_mass[i] - turn * m)
    density *= np.exp(log_mass[i] + turn * part) / h
    gain = density * np.exp(epsilon) * np.expm1(at - epsilon)
    return h / fine * gain.sum() + (h / fine) ** 2 / 12.0 * density[0] * math.exp(epsilon)


@pytest.mark.parametrize(
    ("noise", "steps", "log_delta"),
    [(1.3, 1000, -23.0), (1.0, 1000, -23.0), (1.0, 1000, -12.0), (0.7, 5000, -16.0), (0.4, 3000, -14.0),
     (2.0, 200, -25.0), (0.5, 50, -9.0), (3.0, 10, -40.0)],
)  # fmt: skip
def test_rare_large_losses_are_counted_beyond_the_cap(noise, steps, log_delta):
    lower, upper, status = fa.epsilon_bounds(fa.Gaussian(noise).allocation(steps), delta=math.exp(log_delta))
    assert status == fa.Status.TIGHT
    assert upper - lower <= 1e-6 * upper
    assert delta_of_the_law(noise, steps, upper) * (1 - 1e-7) <= math.exp(log_delta)
    assert math.exp(log_delta) <= delta_of_the_law(noise, steps, lower) * (1 + 1e-7)
    for epsilon in (0.3 * lower, 1.7 * lower):
        low, high, _ = bounds(noise, steps, 1, epsilon, "remove")
        assert low * (1 - 1e-7) <= delta_of_the_law(noise, steps, epsilon) <= high * (1 + 1e-7)
        assert high - low < 1e-5 * high or high < 1e-13


@pytest.mark.parametrize(("noise", "steps", "epsilon"), [(0.5, 1000, 0.0), (0.5, 1000, 1e-12), (0.78, 19, 17.0)])
def test_where_a_cap_does_not_help(noise, steps, epsilon):
    """At the bulk itself, and where large losses are all there is far out."""
    lower, upper, status = fa.log_delta_bounds(
        fa.Gaussian(noise).allocation(steps), epsilon=epsilon, neighbors="remove"
    )
    assert status == fa.Status.TIGHT
    assert upper - lower < 1e-7
    assert lower - 1e-7 <= math.log(delta_of_the_law(noise, steps, epsilon)) <= upper + 1e-7  # of a law on a grid


def test_a_target_that_is_met_at_once_is_met_at_epsilon_0():
    assert fa.epsilon(fa.Gaussian(0.8).allocation(100), delta=0.1) < 1e-50
