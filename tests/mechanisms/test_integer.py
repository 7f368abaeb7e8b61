"""Noise on whole numbers at the ends of its range."""

import math
import warnings

import numpy as np
import pytest

import fastacct as fa

KINDS = (fa.DiscreteGaussian, fa.DiscreteLaplace, fa.Skellam)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-160, 1e-150])
@pytest.mark.parametrize("sensitivity", [1, 2, 10**6])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_next_to_no_noise_is_no_privacy(kind, scale, sensitivity, neighbors):
    """DiscreteGaussian(5e-324) was a ZeroDivisionError."""
    noise = kind(scale, sensitivity)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fa.epsilon(noise, delta=1e-6, neighbors=neighbors) > 300.0
        assert fa.epsilon(noise * 3, delta=1e-6, neighbors=neighbors) > 300.0
        assert fa.delta(noise, epsilon=1.0, neighbors=neighbors) == 1.0
        assert not math.isnan(float(noise.divergence(np.array([1.5, 2.0]), neighbors).sum()))
        assert fa.rdp(noise, 2.0, neighbors=neighbors) > 1e140


def test_a_sample_without_noise_shows_who_is_in_it():
    sample = fa.DiscreteGaussian(5e-324).poisson(0.1)
    found = fa.delta_bounds(sample, epsilon=1.0, neighbors="remove")
    assert found.lower <= 0.1 <= found.upper <= 0.1 * (1 + 1e-12)
    assert found.lower > 0.0999
    assert fa.epsilon(sample, delta=1e-6) == math.inf
    assert fa.epsilon(sample, delta=0.2) < math.inf


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e-10])
def test_losses_that_are_still_numbers_are_found(scale):
    found = fa.epsilon_bounds(fa.DiscreteGaussian(scale), delta=1e-6)
    assert found.lower <= 0.5 / scale / scale <= found.upper <= 0.5 / scale / scale * (1 + 1e-12)
