"""Rows of the table of dp_accounting's events that can be read without the library."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.compat.dp_events import _EVENTS, RefusedError


def test_noise_of_a_discrete_laplace_event_is_never_above_the_inverse_of_its_parameter():
    """Their noise has weights exp(-a |x|): 1/a is rounded down, or it would be less noise that is claimed."""
    make = _EVENTS["DiscreteLaplaceDpEvent"]
    for a in np.geomspace(1e-3, 30.0, 200).tolist():
        event = SimpleNamespace(noise_parameter=a, sensitivity=2)
        ((mechanism, count),) = make(event, "add_remove").blocks
        assert isinstance(mechanism, fa.DiscreteLaplace)
        assert (count, mechanism.sensitivity) == (1, 2)
        assert 1 - Fraction(1, 10**15) <= Fraction(mechanism.scale) * Fraction(a) <= 1


def test_epsilon_of_a_randomised_response_event_is_not_below_the_logarithm():
    """Odds of the true answer 1 + k (1 - p)/p, in 40 digits."""
    make = _EVENTS["RandomizedResponseDpEvent"]
    for p in np.geomspace(1e-6, 0.999, 200).tolist():
        event = SimpleNamespace(noise_parameter=p, num_buckets=7)
        ((mechanism, _),) = make(event, "replace_one").blocks
        with mp.workdps(40):
            truth = mp.log1p(7 * (1 - mpf(p)) / mpf(p))
            assert truth <= mechanism.epsilon <= truth * (1 + mpf("3e-15"))


def test_rho_of_a_discrete_gaussian_event_in_more_dimensions_is_not_below_its_fraction():
    make = _EVENTS["DiscreteGaussianDpEvent"]
    for sigma in np.geomspace(0.1, 1e3, 200).tolist():
        event = SimpleNamespace(sigma=sigma, sensitivity=3, dimension=5)
        for neighbors, far in (("add_remove", 3), ("replace_one", 6)):
            ((mechanism, _),) = make(event, neighbors).blocks
            truth = Fraction(far * far, 2) / Fraction(sigma) ** 2
            assert truth <= Fraction(mechanism.rho) <= truth * (1 + Fraction(3, 10**15))


def test_samples_of_the_nodes_of_a_tree_are_refused_before_they_are_recorded():
    kind = {"__module__": "dp_accounting.dp_event", "noise_multiplier": 1.0, "step_counts": 7}
    tree = type("SingleEpochTreeAggregationDpEvent", (), kind)()
    event = SimpleNamespace(sampling_probability=0.1, event=tree)
    with pytest.raises(RefusedError, match="consists of several releases"):
        _EVENTS["PoissonSampledDpEvent"](event, "zero_out")


def test_what_is_supported_is_answered_and_what_is_out_of_range_is_not_supported():
    dp_accounting = pytest.importorskip("dp_accounting", reason="dp_accounting is not installed")
    from fastacct.compat.dp_accounting import FastAccountant

    e, relation = dp_accounting.dp_event, dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    tree, gaussian = e.SingleEpochTreeAggregationDpEvent(1.0, 7), e.GaussianDpEvent(1.0)
    for event, taken in (
        (tree, True),
        (e.PoissonSampledDpEvent(0.1, tree), False),
        (e.PoissonSampledDpEvent(0.1, e.SelfComposedDpEvent(gaussian, 3)), True),
        (e.MixtureOfGaussiansDpEvent(1.0, [-1.0, 2.0], [0.5, 0.5]), False),
        (e.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.4]), False),
        (e.RepeatAndSelectDpEvent(gaussian, 0.5, 1.0), False),
        (e.PoissonSampledDpEvent(1.5, gaussian), False),
    ):
        accountant = FastAccountant(relation)
        assert accountant.supports(event) == taken
        if taken:
            assert accountant.compose(event).get_epsilon(1e-5) > 0
            continue
        with pytest.raises((ValueError, dp_accounting.UnsupportedEventError)):
            accountant.compose(event)
        assert accountant.get_epsilon(1e-5) == 0
