"""Log-moments of a job: the sum over its mechanisms, and its rounding."""

from fractions import Fraction

import numpy as np

import fastacct as fa
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
