"""Distributions of losses to and from dp_accounting."""

import math
import sys

import numpy as np
import pytest

from fastacct.core.bounds import Bounds
from fastacct.pld import LossDistribution, compose_bounds


def test_converting_without_the_library_says_what_is_missing(monkeypatch):
    from fastacct.compat.dp_accounting import to_dp_accounting

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        to_dp_accounting(LossDistribution.from_laplace(1.0))


def test_values_of_dp_accounting_bound_from_one_side():
    from fastacct.compat.dp_accounting import from_dp_accounting

    class Pmf:
        _discretization, _lower_loss, _infinity_mass = 0.5, -1, 0.125

        def __init__(self, pessimistic):
            self._pessimistic_estimate, self._probs = pessimistic, np.array([0.25, 0.0, 0.0, 0.625])

        def to_dense_pmf(self):
            return self

    class Distribution:
        _pmf_remove, _pmf_add = Pmf(True), Pmf(False)

    remove, add = from_dp_accounting(Distribution())
    truth = 0.125 + 0.625 * -math.expm1(0.25 - 1.0)
    assert remove.delta(0.25)[:2] == (0.0, pytest.approx(truth, rel=2e-14, abs=0.0))  # rounding up
    assert add.delta(0.25)[:2] == (pytest.approx(truth, rel=2e-14, abs=0.0), 1.0)
    assert remove.delta(0.25).upper >= truth >= add.delta(0.25).lower
    assert isinstance(compose_bounds([(remove, 3)], epsilon=1.0), Bounds)
    with pytest.raises(TypeError, match="not a dp_accounting"):
        from_dp_accounting(3)


def test_conversion_to_dp_accounting_stays_above_and_comes_back():
    pytest.importorskip("dp_accounting")
    from fastacct.compat.dp_accounting import from_dp_accounting, to_dp_accounting

    remove, add = (
        LossDistribution.from_sampled_gaussian(1.0, 0.1, d).at_spacing(1e-3).self_compose(20) for d in ("remove", "add")
    )
    there = to_dp_accounting(remove, add)
    back = from_dp_accounting(there)
    for epsilon in (0.0, 0.5, 1.2345, 2.0):
        mine = [one.delta(epsilon) for one in (remove, add)]
        assert there.get_delta_for_epsilon(epsilon) == pytest.approx(
            max(b.upper for b in mine), rel=1e-4, abs=0.0
        )  # its grid
        for here, again in zip(mine, back, strict=True):
            assert here.lower <= again.delta(epsilon).upper <= here.upper * (1 + 1e-4)
