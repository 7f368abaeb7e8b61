"""Shuffled batches: what is sure of one random order of all records."""

import functools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.samplers import shuffled


@pytest.mark.parametrize(("relation", "noise", "alike"), [("zero_out", 5.0, 5.0), ("replace_one", 1.5, 0.75)])
def test_shuffled_batches_are_at_least_random_allocation(relation, noise, alike):
    lower, upper, _ = fa.epsilon_bounds(fa.Gaussian(noise).shuffled(50) * 3, delta=1e-6, neighbors=relation)
    assert lower == pytest.approx(fa.epsilon(fa.Gaussian(alike).allocation(50) * 3, delta=1e-6), rel=1e-8)
    assert upper == pytest.approx(fa.epsilon(fa.Gaussian(noise) * 3, delta=1e-6, neighbors=relation), rel=1e-12)


@pytest.mark.parametrize(("noise", "steps"), [(0.6, 2), (1.0, 2), (0.8, 3)])
def test_of_a_record_zeroed_out_the_largest_sum_says_nearly_all(noise, steps):
    """One of the sums is 2 or 1, the others 0: on a grid, and the bound at most that, not far below."""
    x = np.linspace(-5.0 * noise, 2.0 + 5.0 * noise, 180)
    near = [np.exp(-0.5 * ((x - mean) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) for mean in (0.0, 1.0, 2.0)]

    def density(mean):
        places = range(steps)
        return sum(functools.reduce(np.multiply.outer, [near[mean * (i == k)] for i in places]) for k in places) / steps

    p, q, area = density(2), density(1), (x[1] - x[0]) ** steps
    for epsilon in (0.2, 1.0, 2.0):
        most = max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) * area for a, b in ((p, q), (q, p)))
        lower, _, _ = fa.delta_bounds(fa.Gaussian(noise).shuffled(steps), epsilon=epsilon, neighbors="zero_out")
        assert 0.85 * most < lower < most * (1.0 + 1e-3)


def test_the_record_is_on_one_side_of_opposed_others():
    """No data set has sums 1 against 2 where another release has its sides exchanged: at most 5e-6 is attained."""
    job = fa.Gaussian(0.8).shuffled(50) * 3 + fa.from_pmf([1e-4, 0.9999], [0.2, 0.8])
    lower, upper, _ = fa.delta_bounds(job, epsilon=12.0, neighbors="zero_out")
    assert lower < 5e-6 < upper


def test_little_noise_leaves_no_gap_between_the_bounds_of_a_record_zeroed_out():
    lower, upper, _ = fa.epsilon_bounds(fa.Gaussian(0.4).shuffled(100) * 10, delta=1e-5, neighbors="zero_out")
    assert 0.999 * upper < lower < upper


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta"), [(1.92, 747, 6, 7e-7), (3.49, 20, 1, 3e-5), (5.0, 20, 3, 1e-6)]
)
def test_of_two_data_sets_the_larger_lower_end_counts(noise, steps, epochs, delta, monkeypatch):
    job = fa.Gaussian(noise).shuffled(steps) * epochs
    lower = fa.epsilon_lower(job, delta, neighbors="zero_out")
    alike = fa.epsilon_lower(fa.Gaussian(noise).allocation(steps) * epochs, delta, neighbors="zero_out")
    monkeypatch.setattr(shuffled, "from_below", lambda noise, steps, relation: shuffled._opposed(noise, steps, 1.0))
    monkeypatch.setattr("fastacct.readers.job.others_alike", lambda job, relation: job)
    opposed = fa.epsilon_lower(fa.Gaussian(noise).shuffled(steps) * epochs, delta, neighbors="zero_out")
    assert lower >= max(alike, opposed) * (1.0 - 1e-4)
    assert lower <= max(alike, opposed) * (1.0 + 1e-4)


def test_of_two_shuffled_epochs_beside_a_table_both_data_sets_are_asked():
    """Two batches, one epoch, one release: all that an observer sees, on a grid, and the bound not far below."""
    noise, table = 3.0, ([0.6, 0.4], [0.5, 0.5])
    x = np.linspace(-6.0 * noise, 2.0 + 6.0 * noise, 500)
    near = [np.exp(-0.5 * ((x - mean) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) for mean in (0.0, 1.0, 2.0)]

    def density(mean):
        return (np.multiply.outer(near[mean], near[0]) + np.multiply.outer(near[0], near[mean])) / 2.0

    most = 0.0
    for p, q in ((density(1), density(0)), (density(2), density(1)), (density(1), density(2))):
        for one, other in (table, table[::-1]):
            parts = [np.maximum(a * p - math.exp(0.3) * b * q, 0.0).sum() for a, b in zip(one, other, strict=True)]
            most = max(most, float(sum(parts)) * (x[1] - x[0]) ** 2)
    job = fa.Gaussian(noise).shuffled(2) + fa.from_pmf(*table)
    lower = fa.delta_lower(job, epsilon=0.3, neighbors="zero_out")
    assert 0.85 * most < lower < most * (1.0 + 1e-3)


def test_who_asks_from_above_alone_does_not_wait_for_what_is_known_from_below(monkeypatch):
    """An allocation's lattice takes a hundred times longer than the line from above."""

    def never(*args):
        raise AssertionError("the pair from below was made")

    monkeypatch.setattr("fastacct.mechanisms.epochs.shuffled.from_below", never)
    job = fa.Gaussian(1.9).shuffled(steps=77) * 3
    for relation in ("zero_out", "replace_one"):
        assert 0.0 < fa.epsilon(job, delta=1e-5, neighbors=relation) < 20.0
        with pytest.raises(AssertionError, match="from below"):
            fa.epsilon_lower(job, delta=1e-5, neighbors=relation)
