"""Rows of the table of dp_accounting's events that can be read without the library."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

import fastacct as fa
from fastacct.compat.dp_events import _EVENTS


def test_noise_of_a_discrete_laplace_event_is_never_above_the_inverse_of_its_parameter():
    """Their noise has weights exp(-a |x|): 1/a is rounded down, or it would be less noise that is claimed."""
    make = _EVENTS["DiscreteLaplaceDpEvent"]
    for a in np.geomspace(1e-3, 30.0, 200).tolist():
        event = SimpleNamespace(noise_parameter=a, sensitivity=2)
        ((mechanism, count),) = make(event, "add_remove").blocks
        assert isinstance(mechanism, fa.DiscreteLaplace)
        assert (count, mechanism.sensitivity) == (1, 2)
        assert 1 - Fraction(1, 10**15) <= Fraction(mechanism.scale) * Fraction(a) <= 1
