"""One release: each error of its losses and masses is paid on the side that is asked for."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.loss import Atoms, Bracket
from fastacct.readers.single import Single

LOSS, MASS = np.array([-1.0, 0.25, 0.5, 2.0]), np.array([0.25, 0.25, 0.375, 0.125])


def delta_of(loss, mass, epsilon):
    """By definition."""
    return math.fsum(
        m * -math.expm1(epsilon - x) for x, m in zip(loss.tolist(), mass.tolist(), strict=True) if x > epsilon
    )


def single(loss, mass, **errors):
    none = np.zeros(4)
    side = Atoms(loss, errors.pop("each", none), mass, **errors)
    return Single(Bracket(side, side))


@pytest.mark.parametrize("off", [1e-4, -1e-4])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_errors_of_losses_are_paid(off, epsilon):
    """The losses that are told are all a little too small, or too large."""
    truth = delta_of(LOSS, MASS, epsilon)
    reader = single(LOSS + off * (1.0 - 1e-9), MASS, each=np.full(4, 1e-4))
    found = reader.delta(epsilon)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower <= 1e-3
    found = reader.epsilon(truth)
    assert found.lower <= epsilon <= found.upper


@pytest.mark.parametrize("infinite", [1e-3, 0.1])
def test_an_infinite_loss_is_all_of_delta_beyond_the_others(infinite):
    reader = single(LOSS, MASS * (1.0 - infinite), infinite=infinite)
    found = reader.delta(0.3)
    truth = infinite + (1.0 - infinite) * delta_of(LOSS, MASS, 0.3)
    assert found.lower <= truth * (1.0 + 1e-15)
    assert truth * (1.0 - 1e-15) <= found.upper
    assert reader.delta(5.0).upper >= infinite >= reader.delta(5.0).lower
    assert reader.epsilon(infinite).upper >= 2.0
    assert reader.epsilon(0.999 * infinite)[:2] == (math.inf, math.inf)


@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-30])
def test_the_largest_loss_is_not_rounded_down(delta):
    """Of a sample of Laplace noise: the end of its losses is a float that may be below them."""
    found = fa.epsilon(fa.Laplace(1.568153037093958).poisson(0.9777476579467309), delta=delta, neighbors="remove")
    with mp.workdps(40):
        largest = mp.log1p(mpf(0.9777476579467309) * mp.expm1(1 / mpf(1.568153037093958)))
        assert largest <= found <= largest * (1 + 1e-9)


def test_a_delta_below_what_rounding_shows_next_to_the_largest_loss_is_met_a_little_beyond():
    step = fa.Gaussian(1.7402205807143372).poisson(0.043054427505395364, at_most=533, records=1000)
    lower, upper, _ = fa.epsilon_bounds(step, delta=4.8e-245, neighbors="add")
    assert upper <= lower * (1.0 + 1e-6)
