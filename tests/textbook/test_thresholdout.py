"""The error of the reusable holdout: a bound, against simulations of the mechanism and of somebody who attacks it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastacct as fa


@pytest.mark.parametrize(("rate", "size", "beta"), [(0.02, 10**6, 0.05), (0.1, 10**5, 0.2), (0.05, 10**6, 0.005)])
def test_thresholdout_is_a_bound_of_a_million_answers(rate, size, beta):
    """The training set is as far off as is worst for this beta, the holdout as drawn."""
    rng = np.random.default_rng(8)
    n, base, runs = size, 0.05, 10**6
    law = fa.utility(fa.Thresholdout(rate, size, budget=1), threshold=base)
    quantiles = []
    for off in base + 0.5 * rate * np.array([0.5, 4.0, 8.0 * math.log(0.66 / beta), 8.0 * math.log(1.0 / beta)]):
        holdout = rng.binomial(n, 0.5, runs) / n - 0.5  # against the population
        compared = np.abs(off - holdout) > base + rng.laplace(0, 2 * rate, runs) + rng.laplace(0, 4 * rate, runs)
        errors = np.abs(np.where(compared, holdout + rng.laplace(0, rate, runs), off))
        quantiles.append(float(np.quantile(errors, 1 - beta)))
        for t in (base + 0.5 * rate, base + rate, base + 3 * rate, float(law.quantile(beta))):
            tail = float(law.tail(t))
            assert np.mean(errors > t) <= tail + 5 * math.sqrt(tail / runs)
    assert law.quantile(beta) <= 3 * max(quantiles)
    tau, missed = 0.5 * rate, 6 * math.exp(-0.125 * rate * rate * size)
    assert law.published(beta) == pytest.approx(base + (1 - 8 * math.log(beta - missed)) * tau, rel=1e-12)
    assert law.quantile(beta) == pytest.approx(law.published(beta), rel=1e-9)
    assert not law.is_exact


def test_thresholdout_holds_against_somebody_who_waits_for_a_high_threshold():
    """Ask until answers of the training set come five times in a row, keep that threshold, then ask for the error."""
    rng = np.random.default_rng(9)
    holdout, base, runs, last = fa.Thresholdout(rate=0.002, size=10**9, budget=1000), 0.5, 1000, 1500
    rate, row, left = 0.002, np.zeros(runs), np.full(runs, 1000)
    kept = rng.laplace(0.0, 2.0 * rate, runs)
    for question in range(last + 1):
        far = np.full(runs, 0.521) if question == last else np.where(row < 5, 0.516, 0.0)
        crossed = (far > base + kept + rng.laplace(0.0, 4.0 * rate, runs)) & (left > 0)
        row = np.where(crossed, 0, row + (row < 5))
        kept = np.where(crossed, rng.laplace(0.0, 2.0 * rate, runs), kept)
        left = left - crossed
    frequency = np.mean(~crossed)
    assert frequency > 0.3  # the statement without the factor says 0.082
    law = fa.utility(holdout, threshold=base)
    assert frequency <= law.tail(0.5209)
    assert law.published is None


def test_thresholdout_needs_a_small_budget():
    with pytest.raises(ValueError, match=r"needs budget <= \(rate/2\)\^2 size = 0.25"):
        fa.utility(fa.Thresholdout(0.01, 10_000, 3), threshold=0.1)
    assert fa.utility(fa.Thresholdout(0.01, 100_000, 1), threshold=0.1).tail(0.05) == 1.0
