"""Log-moments of a job: the sum over its mechanisms, and its rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa
from fastacct.moments import smallest_tau
from fastacct.readers import moments


def test_the_rounding_of_a_sum_is_paid(monkeypatch):
    """Of mechanisms whose own moments are exact."""
    rng = np.random.default_rng(8)
    for size in (1, 2, 5, 12):
        own, counts = rng.uniform(-1.0, 1.0, (size, 50)), rng.integers(1, 10**6, size).tolist()
        rows = iter([np.broadcast_to(one, (6, 50)) for one in own])
        monkeypatch.setattr(moments, "_of_pair", lambda *_, rows=rows: next(rows))
        parts = [(fa.Gaussian(1.0 + k), count) for k, count in enumerate(counts)]
        found = moments.moments(parts, "add_remove", "remove", np.zeros(50))
        for k in range(50):
            truth = sum(Fraction(x) * n for x, n in zip(own[:, k].tolist(), counts, strict=True))
            for low, high in found[:, k].reshape(3, 2).tolist():
                assert Fraction(low) <= truth <= Fraction(high)
                assert high - low <= 1e-14 * sum(counts)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.05, 1e-4, 0.9, 0.9999])
def test_the_standard_of_a_loss_with_two_values_is_the_published_one(share):
    """Kearns, Saul 1998: tau^2 = (1 - 2 p)/(2 log((1 - p)/p)), the variance 1/4 at p = 1/2; values 0 and 1."""
    square = (1.0 - 2.0 * share) / (2.0 * math.log((1.0 - share) / share)) if share != 0.5 else 0.25

    def log_moment(s):
        return np.log1p(share * np.expm1(np.minimum(s, 700.0))) + np.maximum(s - 700.0, 0.0)

    deviation = math.sqrt(share * (1.0 - share))
    given = log_moment, lambda s: float(log_moment(np.array(s))), fa.Bounds(share, share, fa.Status.TIGHT), deviation
    found = smallest_tau(*given, lambda s: 2.0 / np.abs(s))  # no loss is further than 1 from the mean
    assert math.sqrt(square) <= found <= math.sqrt(square) * 1.01
    assert smallest_tau(*given, lambda s: np.full(s.shape, 9.0)) >= 3.0
