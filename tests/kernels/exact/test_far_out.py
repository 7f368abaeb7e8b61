"""Deltas far out, where one large loss decides, against an integral of the sums that have one, in doubles.

Of steps with the moment B = S + D at Q's exponent u, D that of losses beyond a smooth edge at z0, the sums with exactly
one such loss have T D S^(T - 1).  Two of them, and none, are next to nothing (Chernoff's bounds of both are asserted).
On a line where T D S^(T - 1) is near its least no digits cancel.
"""

import numpy as np
import pytest
from scipy.special import log_ndtr

import fastacct as fa

FAR = [  # noise, rate, steps, epsilon, z0
    (8.667735318747814, 0.00434802276143526, 125, 3.1734805235797103, 480.0),
    (3.0, 1e-3, 40, 4.0, 72.0),
    (1.5, 3e-4, 200, 3.0, 20.0),
]


def one_large_loss(noise, rate, steps, epsilon, edge):
    """Log delta of removal, of sums with one loss beyond the edge; and bounds of the logs of all others."""
    z = np.arange(-12.0 * noise, edge + 300.0 * noise, noise / 40.0)
    loss = np.log1p(rate * np.expm1((2.0 * z - 1.0) / (2.0 * noise**2)))
    density = -0.5 * (z / noise) ** 2 - np.log(40.0 * np.sqrt(2.0 * np.pi))
    sides = [density + log_ndtr(sign * (z - edge) / (0.5 * noise)) for sign in (1.0, -1.0)]

    def moments(c):
        return [np.logaddexp.reduce(side + c * loss) for side in sides]

    def payoff(c):
        return -(c - 1.0) * epsilon - np.log(c * (c - 1.0))

    tried = [(c, *moments(c), payoff(c)) for c in np.geomspace(1.01, 5000.0, 600)]
    c, large, small, paid = min(tried, key=lambda row: row[1] + (steps - 1) * row[2] + row[3])
    none = min(steps * row[2] + row[3] for row in tried)
    two = min(2.0 * np.log(steps) + 2.0 * row[1] + (steps - 2) * row[2] + row[3] for row in tried)
    weights = [np.exp(side + c * loss - whole) for side, whole in zip(sides, (large, small), strict=True)]
    means = [weight @ loss for weight in weights]
    spread = [weight @ (loss - mean) ** 2 for weight, mean in zip(weights, means, strict=True)]
    t = np.arange(0.0, 14.0 / np.sqrt(spread[0] + (steps - 1) * spread[1]) + 100.0, 0.05)
    d, s = (np.exp(1j * np.outer(t, loss[w > 1e-20])) @ w[w > 1e-20] for w in weights)
    u = c + 1j * t
    terms = d * s ** (steps - 1) * np.exp(-1j * t * epsilon) * c * (c - 1.0) / (u * (u - 1.0))
    whole = (terms.real.sum() - 0.5) * 0.05 / np.pi
    assert whole > 1e-3  # digits of a sum that cancels say nothing
    assert abs(terms[-1]) < 1e-9 * whole
    return np.log(steps) + large + (steps - 1) * small + paid + np.log(whole), none, two


@pytest.mark.parametrize("row", FAR)
def test_a_delta_far_out_has_the_sums_with_one_large_loss_inside(row):
    truth, none, two = one_large_loss(*row)
    assert none < truth - 20.0
    assert two < truth - 20.0
    noise, rate, steps, epsilon, _ = row
    lower, upper, _ = fa.log_delta_bounds(fa.Gaussian(noise).poisson(rate) * steps, epsilon=epsilon, neighbors="remove")
    assert lower - 1e-9 <= truth <= upper + 1e-9
