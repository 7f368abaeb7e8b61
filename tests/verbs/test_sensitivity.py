"""Sensitivities by brute force over all tiny data sets: attained, and never exceeded."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa
from fastacct import sensitivity

RELATIONS = ("add_remove", "add", "remove", "zero_out", "replace_one")
NORMS = {"l1": 1, "l2": 2, "linf": np.inf}


def neighbours(values, nothing, sizes, relation):
    """Pairs of neighbouring data sets with records of these values; `nothing` is a record that is zeroed out."""
    for n in sizes:
        for data in itertools.product(values, repeat=n):
            if relation in ("add_remove", "add", "remove"):
                for one in values:
                    yield data, (*data, one)
            elif n:
                for other in values if relation == "replace_one" else (nothing,):
                    yield data, (other, *data[1:])


def brute(query, values, nothing, relation, norm="l1", sizes=(0, 1, 2, 3)):
    found = (np.subtract(query(a), query(b)) for a, b in neighbours(values, nothing, sizes, relation))
    return max(float(np.linalg.norm(np.ravel(one), NORMS[norm])) for one in found)


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_sums_and_means(relation):
    assert brute(sum, (0, 1), 0, relation) == sensitivity.count(neighbors=relation)
    for low, high in ((0.0, 5.0), (-1.0, 5.0), (-4.0, 0.5), (2.0, 3.0)):
        values = (low, 0.5 * (low + high), high)
        found = brute(lambda data: math.fsum(data), values, 0.0, relation)
        assert found == pytest.approx(sensitivity.sum(low, high, neighbors=relation), rel=1e-15)
        for n in (2, 3):  # of the larger data set; the mean of none is not defined
            smaller = n if relation in ("replace_one", "zero_out") else n - 1
            found = brute(np.mean, values, 0.0, relation, sizes=(smaller,))
            assert found == pytest.approx(sensitivity.mean(low, high, records=n, neighbors=relation), rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_histograms_and_top_k(relation, norm):
    bins = [tuple(row) for row in np.eye(3)]
    found = brute(lambda data: np.sum([*data, np.zeros(3)], axis=0), bins, np.zeros(3), relation, norm, (0, 1, 2))
    assert found == pytest.approx(sensitivity.histogram(norm=norm, neighbors=relation), rel=1e-15)
    rows = [row for row in itertools.product((0, 1), repeat=4) if sum(row) <= 2]
    found = brute(lambda data: np.sum([*data, np.zeros(4)], axis=0), rows, np.zeros(4), relation, norm, (0, 1))
    assert found == pytest.approx(sensitivity.top_k(2, norm=norm, neighbors=relation), rel=1e-15)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("by", NORMS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_clipped_vectors(relation, by, norm, d):
    corners = [np.array(v, dtype=float) for v in itertools.product((-1, 0, 1), repeat=d) if any(v)]
    vectors = [1.5 * v / np.linalg.norm(v, NORMS[by]) for v in corners]
    found = brute(lambda data: np.sum([*data, np.zeros(d)], axis=0), vectors, np.zeros(d), relation, norm, (0, 1))
    want = sensitivity.clipped(1.5, dimension=d, by=by, norm=norm, neighbors=relation)
    assert found == pytest.approx(want, rel=1e-12)


def test_noise_for_a_mean_is_the_sensitivity_times_the_multiplier():
    far = sensitivity.mean(0.0, 10.0, records=100)
    law = fa.utility(fa.Laplace(2.0), contribution=far)
    assert law.mean_square == pytest.approx(2.0 * (2.0 * 0.1) ** 2, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sensitivity.sum(2.0, 1.0), r"low = 2\.0 is above high"),
        (lambda: sensitivity.mean(0.0, 1.0, records=0), "records = 0"),
        (lambda: sensitivity.histogram(norm="l3"), "norm = 'l3'"),
        (lambda: sensitivity.count(neighbors="both"), "neighbors = 'both'"),
        (lambda: sensitivity.clipped(0.0), "clip = 0"),
        (lambda: sensitivity.top_k(0), "k = 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_roundings_are_not_below_the_truth():
    assert sensitivity.sum(-1.0, 1e-17, neighbors="replace_one") > 1.0
    assert Fraction(sensitivity.clipped(1.0, dimension=3, norm="l1")) ** 2 >= 3
    assert Fraction(sensitivity.mean(0.0, 1.0, records=3)) >= Fraction(1, 3)


def test_a_replacement_is_not_counted_twice():
    for far in (sensitivity.mean(0.0, 1.0, records=100), sensitivity.sum(0.0, 1.0, neighbors="replace_one")):
        noisy = fa.Laplace(1.0 / far)
        assert fa.epsilon(noisy, delta=0.0) == pytest.approx(float(far), rel=1e-12)
        for job in (noisy, noisy * 3, noisy + fa.PureDP(0.1), pickle.loads(pickle.dumps(noisy)) * 2):
            with pytest.raises(ValueError, match="would count the replacement again"):
                fa.epsilon(job, delta=1e-6, neighbors="replace_one")
    with pytest.raises(ValueError, match="would count the replacement again"):
        fa.epsilon(
            fa.Gaussian(2.0 / sensitivity.count(neighbors="replace_one")).poisson(0.1),
            delta=1e-6,
            neighbors="replace_one",
        )
    noise = 2.0 / sensitivity.clipped(1.0, neighbors="replace_one")
    with pytest.raises(ValueError, match="which would count twice"):
        fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=0.1, steps=1, delta=1e-6, neighbors="replace_one")
    half = fa.Laplace(1.0 / (0.5 * sensitivity.histogram(neighbors="replace_one", norm="l1")))
    assert fa.epsilon(half, delta=0.0, neighbors="replace_one") == pytest.approx(2.0, rel=1e-12)
    one = fa.Laplace(1.0 / sensitivity.sum(0.0, 1.0))
    assert fa.epsilon(one, delta=0.0, neighbors="replace_one") == 2.0 * fa.epsilon(one, delta=0.0)


NOISE = 2.0 / sensitivity.clipped(1.0, neighbors="replace_one")
REPLACED = {
    "sum": fa.Gaussian(NOISE) + fa.Gaussian(1.0),
    "sum the other way round": fa.Gaussian(1.0) + fa.Gaussian(NOISE),
    "group": fa.Gaussian(NOISE).group(2),
    "group with another parameter": fa.Laplace(NOISE).group(2),
    "sample": fa.Gaussian(NOISE).poisson(0.1),
    "sample of a sample": fa.Gaussian(NOISE).poisson(0.5).poisson(0.2),
    "group of a sample": fa.Gaussian(NOISE).poisson(0.1).group(2),
    "group of a batch": fa.Gaussian(NOISE).fixed_size(2, 10).group(2),
    "draws": fa.Gaussian(NOISE).with_replacement(2, 10),
    "shuffled": fa.Gaussian(NOISE).shuffled(5),
    "truncated": fa.Gaussian(NOISE).poisson(0.1, at_most=5, records=20),
    "together": fa.Together(fa.Laplace(NOISE) + fa.Gaussian(2.0)),
    "one sample of several": (fa.Gaussian(2.0) + fa.Gaussian(NOISE)).poisson(0.1),
    "selection": fa.RepeatedSelection(fa.Laplace(NOISE), 5.0, eta=1.0),
    "tree": fa.TreeAggregation(NOISE, 8),
    "constant": fa.NoisyIteration(NOISE, 8),
    "array": fa.Gaussian(NOISE).poisson([0.1, 0.2]).group(2),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_a_replacement_is_not_counted_twice_at_any_depth_nor_after_a_copy(kind):
    job = REPLACED[kind] * 2
    for one in (job, pickle.loads(pickle.dumps(job)), copy.copy(job), copy.deepcopy(job), job.cell(0)):
        with pytest.raises(ValueError, match="would count the replacement again"):
            fa.delta(one, epsilon=1.0, neighbors="replace_one")
        assert one.is_replaced


def test_noise_for_a_replaced_record_is_another_mechanism_whatever_the_order_of_a_sum():
    mine, other = fa.Gaussian(NOISE), fa.Gaussian(float(NOISE))
    assert mine != other
    assert mine.poisson(0.1) != other.poisson(0.1)
    assert len(mine + other) == 2
    assert mine + other == other + mine
    assert fa.epsilon(mine + other, delta=1e-6) == fa.epsilon(other + mine, delta=1e-6)
    assert fa.epsilon(mine, delta=1e-6) == fa.epsilon(other, delta=1e-6)
    assert mine == fa.Gaussian(NOISE)
    assert hash(mine) == hash(pickle.loads(pickle.dumps(mine)))
