"""The kernels' erfc (num/window.h): the bound of its error is proved in ball arithmetic from the header as it is."""

import pytest

pytest.importorskip("flint", reason="python-flint is not installed")

from bench import proof_erfc


def test_the_bound_is_proved_everywhere():
    farthest, used = proof_erfc.prove()
    assert farthest < 0.5  # units in the last place, of the polynomial
    assert 0.8 < used <= 1.0  # and the bound is no larger than it has to be


def test_another_polynomial_is_not_proved(monkeypatch):
    changed = proof_erfc.coefficients()
    changed[-1] *= 1 + 2.0**-50
    monkeypatch.setattr(proof_erfc, "coefficients", lambda: changed)
    with pytest.raises(AssertionError):
        proof_erfc.prove()


def test_a_smaller_bound_is_not_proved(monkeypatch):
    monkeypatch.setattr(proof_erfc, "LEAST", 9.0)
    with pytest.raises(AssertionError):
        proof_erfc.prove()
