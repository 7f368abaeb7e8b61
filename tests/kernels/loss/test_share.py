"""How much the density of a loss varies, jumps included (loss/share.h): what is left of its moments far out."""

import numpy as np
import pytest
from scipy.special import erfc

from tests.kernel_parts import call


@pytest.mark.parametrize("is_flipped", [0, 1])
@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_the_variation_of_losses_that_meet_at_0_is_bounded_and_nearly_met(mu, is_flipped):
    """Losses above 0 and their mirror images: at 0 the density goes on, so that both jumps there are taken off."""
    for rate in (1.0, 0.5, 0.01):
        for v in (-1.0, 0.3, 0.5, 0.8, 2.0, 4.0):
            bound, seen = call("share", "variation", mu, rate, v, is_flipped, answers=2)
            assert seen <= bound
            assert seen >= (0.99 if rate == 1.0 else 0.3) * bound


@pytest.mark.parametrize("rate", [1e-3, 0.3, 0.9])
def test_how_near_0_a_sampled_ratio_comes_is_bounded_and_met(rate):
    """On the path Im x = y: what is divided by it is not divided by more."""
    for left, right in [(-3.0, -1.0), (-9.0, 9.0), (0.2, 0.3), (4.0, 12.0)]:
        for y in (0.1, 1.0, 2.5):
            bound, least = call("share", "clear_of", rate, left, right, y, answers=2)
            assert bound <= least
            assert least - bound <= 1e-3 * abs(least) + 1e-12


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_what_a_window_has_on_a_rectangle_is_bounded(side):
    """Phi(side (at - l)/width) at complex losses: of what is open it may be above 1, too."""
    rng = np.random.default_rng(5)
    above = 0
    for _ in range(200):
        at, width, low = rng.uniform(-3.0, 3.0), rng.uniform(0.05, 2.0), rng.uniform(-6.0, 6.0)
        high, turn = low + rng.exponential(), width * rng.uniform(0.0, 5.0)
        rows, columns = np.meshgrid(np.linspace(low, high, 41), np.linspace(0.0, turn, 41))
        with np.errstate(divide="ignore"):
            log_most = np.log(np.abs(0.5 * erfc(side * (rows + 1j * columns - at) / (np.sqrt(2.0) * width)))).max()
        bounds = call("share", "window_of", at, width, side, low, high, turn, answers=2)
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-13, abs=1e-13)
        assert log_most <= min(bounds) + 1e-13
        above += log_most > 0.1
    assert above > 20
