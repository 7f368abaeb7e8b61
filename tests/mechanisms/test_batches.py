"""Batches of fixed and of bounded size: all data sets of tiny instances, the oracle, and what must not pass."""

import itertools
import math
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct.core.rounding import rate_of_batch
from fastacct.losses.divergence import mean_of
from fastacct.losses.mixture import mixture_of
from fastacct.reference.batches import Branch, batch_delta

VALUES = (-1.0, -0.5, 0.0, 0.5, 1.0)
EPSILONS = (0.0, 0.2, 0.5, 1.6, 2.5)
RELATIONS = ("remove", "add", "replace_one", "zero_out")
NOISE = 1.5
ROUGH = 1e-6
"""Error of sums over x."""
X = np.linspace(-16.0, 16.0, 12001)
DENSITY = {v: np.exp(-0.5 * ((X - v) / NOISE) ** 2) / (NOISE * math.sqrt(2 * math.pi)) for v in np.arange(-4, 4.5, 0.5)}


def fixed_size(data, size):
    """Density of the noisy sum of a random batch."""
    batches = list(itertools.combinations(data, size))
    return sum(DENSITY[sum(batch)] for batch in batches) / len(batches)


def truncated(data, rate, at_most):
    total = np.zeros_like(X)
    for k in range(len(data) + 1):
        weight = rate**k * (1 - rate) ** (len(data) - k)
        for drawn in itertools.combinations(data, k):
            kept = list(itertools.combinations(drawn, min(k, at_most)))
            total += weight / len(kept) * sum(DENSITY[sum(one)] for one in kept)
    return total


@cache
def worst(sampler, n, *settings_of_it):
    """Largest delta of all neighbouring data sets of n records (the larger), by relation and epsilon."""
    cached = cache(lambda data: sampler(data, *settings_of_it))
    found = {(relation, epsilon): 0.0 for relation in RELATIONS for epsilon in EPSILONS}
    for others in itertools.combinations_with_replacement(VALUES, n - 1):
        for x in VALUES:
            with_it = cached((*others, x))
            pairs = [("remove", with_it, cached(others)), ("add", cached(others), with_it)]
            zero = cached((*others, 0.0))
            pairs += [("zero_out", with_it, zero), ("zero_out", zero, with_it)]
            pairs += [("replace_one", with_it, cached((*others, y))) for y in VALUES]
            for (relation, p, q), epsilon in itertools.product(pairs, EPSILONS):
                delta = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * (X[1] - X[0])
                found[relation, epsilon] = max(found[relation, epsilon], delta)
    return found


INSTANCES = {
    "fixed": (fa.Gaussian(NOISE).fixed_size(2, 4), (fixed_size, 4, 2)),
    "truncated": (fa.Gaussian(NOISE).poisson(0.9, at_most=1, records=4), (truncated, 4, 0.9, 1)),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", INSTANCES)
def test_no_data_set_of_a_tiny_instance_is_above_the_bound(name, relation):
    step, instance = INSTANCES[name]
    for epsilon in EPSILONS:
        lower, upper, _ = fa.delta_bounds(step, epsilon=epsilon, neighbors=relation)
        seen = worst(*instance)[relation, epsilon]
        assert lower <= seen + ROUGH
        assert seen <= upper + ROUGH
        if name == "fixed" and relation != "zero_out":  # exact for one step
            assert upper <= seen + ROUGH


@pytest.mark.parametrize(
    ("canary", "name", "relation"),
    [
        (fa.Gaussian(NOISE).poisson(0.5), "fixed", "remove"),  # noise for half the noise
        (fa.Gaussian(NOISE).fixed_size(2, 5), "fixed", "remove"),  # n + 1 for n
        (fa.Gaussian(NOISE).poisson(0.5), "fixed", "replace_one"),  # the replaced pair of a Poisson sample
        (fa.Gaussian(NOISE).poisson(0.9), "truncated", "add_remove"),  # truncation ignored
        (fa.Gaussian(NOISE).poisson(0.9, at_most=1, records=5), "truncated", "replace_one"),
    ],
    ids=repr,
)
def test_the_tiny_instances_tell_what_must_not_pass(canary, name, relation):
    seen = worst(*INSTANCES[name][1])
    at = "remove" if relation == "add_remove" else relation
    assert any(
        fa.delta(canary, epsilon=epsilon, neighbors=relation) < seen[at, epsilon] - ROUGH for epsilon in EPSILONS
    )


ORACLE = [
    # batch size, records, noise multiplier, steps, epsilon
    (10, 1000, 2.0, 1000, 1.0),
    (5, 100, 4.0, 100, 0.5),
    (10, 1000, 2.0, 1000, 6.0),
]


@pytest.mark.parametrize(("batch", "records", "noise", "steps", "epsilon"), ORACLE)
def test_of_many_steps_a_record_replaced_is_between_the_two_pairs(batch, records, noise, steps, epsilon):
    step, q = fa.Gaussian(noise).fixed_size(batch, records), mpf(batch) / records
    lower, upper, status = fa.delta_bounds(step * steps, epsilon=epsilon, neighbors="replace_one")
    above = batch_delta([Branch(mpf(1), mpf(noise), q, "slot")], steps, epsilon, digits=8)
    below = batch_delta([Branch(mpf(1), mpf(noise) / 2, q, "sampled")], steps, epsilon, digits=8)
    assert above <= upper <= above * (1 + 2e-4)
    assert below * (1 - 2e-4) <= lower <= below
    assert status == fa.Status.LOOSE


def test_two_steps_chosen_adaptively_are_above_the_pair_that_occurs_and_below_the_bound():
    """T = 2, q = 0.1, sigma = 2: the best adaptive choice of gradients in a collinear family, by epsilon."""
    step = fa.Gaussian(2.0).fixed_size(1, 10) * 2
    for epsilon, adaptive in ((0.2, 0.020267), (0.5, 0.0047098), (1.0, 0.00052357)):
        lower, upper, _ = fa.delta_bounds(step, epsilon=epsilon, neighbors="replace_one")
        assert lower < adaptive < upper < 1.04 * adaptive


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.3, 20.0), st.integers(1, 10**4))
def test_a_record_added_or_removed_is_the_poisson_sample_at_half_the_noise(a, b, noise, steps):
    batch, records = min(a, b), max(a, b) + 1
    step = fa.Gaussian(noise).fixed_size(batch_size=batch, records=records)
    sample = fa.Gaussian(noise / 2).poisson(rate_of_batch(batch, records))
    for relation in ("add_remove", "add", "remove"):
        ours, theirs = (fa.epsilon_bounds(one * steps, delta=1e-6, neighbors=relation) for one in (step, sample))
        assert ours == theirs
        assert fa.rdp(step, 4.0, neighbors=relation) == fa.rdp(sample, 4.0, neighbors=relation)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.2, 20.0), st.floats(1e-6, 0.999), st.floats(1.01, 300.0))
def test_renyi_divergences_are_those_of_the_symmetric_pair(noise, rate, order):
    step = fa.FixedSizeBatch(fa.Gaussian(noise), round(rate * 10**7) or 1, 10**7)
    with mp.workdps(25):
        s, q, a = mpf(noise), mpf(step.sample_rate), mpf(order)

        def integrand(x):
            log_l = mp.log1p(q * mp.expm1(2 * (x - 1) / s**2))
            return mp.npdf(x, 0, s) * (mp.expm1(a * log_l) + mp.expm1((1 - a) * log_l) - mp.expm1(log_l))

        top = max(mpf(1), 2 * a)
        cuts = sorted({mpf(1) + s * k for k in (0, 0.5, 2, 5, 12, 40)} | {top + s * k for k in range(-12, 41, 4)})
        total = mp.quad(integrand, [x for x in cuts if x >= 1], method="gauss-legendre")
        truth = mp.log1p(total) / (a - 1)
    found = fa.rdp(step, order, neighbors="replace_one")
    assert truth <= found
    assert found <= truth * (1 + 1e-9 + 1e-11 / rate)


@pytest.mark.parametrize("relation", RELATIONS)
def test_keeping_all_or_drawing_all_is_no_sample(relation):
    everyone = fa.Gaussian(2.0).fixed_size(7, 7)
    whole = fa.Gaussian(1.0 if relation in ("add", "remove") else 2.0)
    none = fa.Gaussian(2.0).fixed_size(0, 7)
    assert fa.delta(everyone, epsilon=0.5, neighbors=relation) == pytest.approx(
        fa.delta(whole, epsilon=0.5, neighbors=relation), rel=1e-9
    )
    assert fa.delta(none * 5, epsilon=0.0, neighbors=relation) == 0.0
    kept = fa.Gaussian(2.0).poisson(0.1, at_most=9, records=9)
    sample = fa.Gaussian(2.0).poisson(0.1)
    assert fa.delta(kept * 3, epsilon=0.5, neighbors=relation) == fa.delta(sample * 3, epsilon=0.5, neighbors=relation)


RUN = {"records": 1000, "batch_size": 10, "delta": 1e-5, "sampling": "fixed_size"}


def test_dpsgd_takes_batches_of_a_fixed_size():
    step = fa.Gaussian(2.0).fixed_size(10, 1000)
    for relation in ("add_remove", "replace_one"):
        found = fa.dpsgd.epsilon(noise_multiplier=2.0, steps=300, neighbors=relation, **RUN)
        assert found == fa.epsilon(step * 300, delta=1e-5, neighbors=relation)
    epochs = fa.dpsgd.epsilon(noise_multiplier=[2.0, 3.0], epochs=3, **RUN)
    assert epochs[0] == fa.dpsgd.epsilon(noise_multiplier=2.0, steps=300, **RUN)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_noise_for_batches_of_a_fixed_size_is_on_the_safe_side(relation):
    noise = fa.dpsgd.noise_multiplier(epsilon=2.0, steps=20, neighbors=relation, **RUN)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, steps=20, neighbors=relation, **RUN) <= 2.0
    assert fa.dpsgd.epsilon(noise_multiplier=noise * (1 - 1e-6), steps=20, neighbors=relation, **RUN) > 2.0


def test_steps_of_batches_of_a_fixed_size():
    most = fa.dpsgd.steps(epsilon=2.0, noise_multiplier=2.0, **RUN)
    at = [fa.dpsgd.epsilon(noise_multiplier=2.0, steps=most + more, **RUN) for more in (0, 1)]
    assert at[0] <= 2.0 < at[1]


def run_with(sampling):
    return fa.dpsgd.epsilon(noise_multiplier=1.0, steps=1, **(RUN | {"sampling": sampling}))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.Laplace(1.0).fixed_size(1, 2), "known for Gaussian noise only"),
        (lambda: fa.FixedSizeBatch(fa.Gaussian(1.0).poisson(0.1), 1, 2), "known for Gaussian noise only"),
        (lambda: fa.Gaussian(1.0).fixed_size([3, 11], 10), "batch_size = 11.0 exceeds records = 10.0"),
        (lambda: fa.Gaussian(1.0).fixed_size(1.5, 10), "batch_size = 1.5"),
        (lambda: fa.Gaussian(1.0).poisson(0.1, at_most=0, records=10), "at_most = 0"),
        (lambda: fa.Gaussian(1.0).fixed_size(1, 10).poisson(0.1), "how many records"),
        (lambda: fa.PoissonSampled(fa.Gaussian(1.0).fixed_size(1, 10), 0.1), "how many records"),
        (lambda: fa.Gaussian(1.0).poisson(0.1, at_most=1, records=10).group(2), "compete for the places"),
        (lambda: run_with("x"), "sampling = 'x' is not one of"),
        (lambda: fa.dpsgd.sample_rate(epsilon=1.0, delta=1e-5, noise_multiplier=1.0, steps=5, records=9,
                                      sampling="fixed_size"), "a batch size is not calibrated"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(call, said):
    with pytest.raises((ValueError, TypeError), match="(?i)" + said.replace("(", r"\(")):
        call()


def test_the_oracle_of_batches_knows_the_closed_forms():
    """All at once: at q = 1 the batch with a record replaced is a Gaussian with sensitivity 2."""
    rate = mpf("0.999999")
    near = batch_delta([Branch(mpf(1), mpf(8), rate, "slot")], 40, 1.0, digits=10)
    # a rate that is a millionth off moves delta by up to 40 times that and the slope of the losses
    assert float(near) == pytest.approx(fa.delta(fa.Gaussian(8.0) * 40, epsilon=1.0, neighbors="replace_one"), rel=1e-4)


@pytest.mark.parametrize(
    "inner", [fa.Gaussian(1.0).fixed_size(9, 99), fa.Gaussian(1.0).poisson(0.1, at_most=5, records=99)]
)
@pytest.mark.parametrize(
    "wrap", [lambda job: fa.Parallel(job, fa.Laplace(9.0)), lambda job: fa.RepeatedSelection(job, 3.0)]
)
def test_a_job_with_such_a_batch_inside_is_not_sampled_again(inner, wrap):
    with pytest.raises(ValueError, match="how many records"):
        wrap(inner).poisson(1e-4)


@pytest.mark.parametrize(
    "group",
    [fa.Gaussian(2.0).fixed_size(10, 1000).group(3), fa.Gaussian(2.0).with_replacement(10, 1000).group(3)],
    ids=repr,
)
def test_a_group_on_such_a_batch_is_not_sampled_again(group):
    with pytest.raises(ValueError, match=r"how many records a sample leaves to draw the batch from is random"):
        group.poisson(0.25)


@pytest.mark.parametrize("relation", ["add_remove", "add", "remove"])
def test_the_losses_of_a_record_that_comes_or_goes_are_those_of_the_sample_that_it_is(relation):
    batch, sample = fa.Gaussian(2.0).fixed_size(10, 1000), fa.Gaussian(1.0).poisson(0.01)
    assert mixture_of(batch.losses(relation)) == mixture_of(sample.losses(relation)) is not None


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise", [0.0, 1e-200, 1e-155, 2e-154, 1e-140])
def test_noise_that_is_almost_none_hides_nothing(noise, relation):
    steps = (fa.Gaussian(noise).fixed_size(10, 100), fa.Gaussian(noise).poisson(0.1, at_most=5, records=100))
    for step in (*steps, fa.Gaussian(noise).poisson(0.05)):
        assert fa.delta(step, epsilon=1.0, neighbors=relation) >= (0.0 if relation == "add" else 0.0497)
        assert fa.rdp(step, 2.0, neighbors=relation) >= (0.0 if relation == "add" else 1.0)


@pytest.mark.parametrize("steps", [1, 873])
@pytest.mark.parametrize("rate", [0.001, 0.5])
def test_where_a_record_is_added_no_noise_is_worse_than_none(rate, steps):
    """Without noise a batch in which the record is not is as likely as it is not drawn, and noise hides some more."""
    records = 1000
    batch = int(rate * records)
    kinds = {
        fa.Gaussian(1.0).poisson(rate, at_most=3 * batch // 2, records=records): mpf(1 - rate),
        fa.Gaussian(1.0).with_replacement(batch, records): (1 - mpf(1) / records) ** batch,
    }
    for kind, missed in kinds.items():
        whole = -steps * mp.log(missed)
        pure = (kind * steps).pure_epsilon("add")
        assert whole <= mpf(pure) <= whole * (1 + mpf(1e-13))
        assert kind.pure_epsilon("remove") == kind.pure_epsilon("add_remove") == math.inf
        for noise in (1e-6, 0.3, 2.0):
            job = replace(kind, mechanism=fa.Gaussian(noise)) * steps
            assert fa.epsilon(job, delta=0.0, neighbors="add") == pure
            assert fa.epsilon(job, delta=1e-9, neighbors="add") <= pure
    assert fa.Gaussian(1.0).with_replacement(2, 1).pure_epsilon("add") == math.inf  # it is always drawn


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise", [1e90, 1e154, 1e156, 1e300])
def test_noise_beyond_squares_is_answered(noise, relation):
    for step in (fa.Gaussian(noise).fixed_size(10, 100), fa.Gaussian(noise).poisson(0.1, at_most=5, records=100)):
        lower, upper, _ = fa.delta_bounds(step * 3, epsilon=0.0, neighbors=relation)
        assert lower <= 3 / noise
        assert 0.0 < upper < 1e-12


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise", [1e154, 1e300])
def test_all_records_next_to_where_squares_overflow_are_answered(noise, relation):
    assert fa.delta(fa.Gaussian(noise).fixed_size(10, 10), epsilon=0.0, neighbors=relation) < 1e-12


def test_a_batch_of_all_records_claims_nothing_from_below():
    """The smaller data set has no batch of this size; if it takes what it has, the record moves the sum by 1."""
    everyone = fa.Gaussian(1.0).fixed_size(100, 100)
    lower, upper, status = fa.delta_bounds(everyone, epsilon=1.0)
    assert lower == 0.0
    assert upper >= fa.delta(fa.Gaussian(1.0), epsilon=1.0)
    assert status == fa.Status.LOOSE


@pytest.mark.parametrize("weight", [1e-12, 1e-5, 0.01, 0.5])
@pytest.mark.parametrize("large", [0.01, 0.5, 3.0, 40.0])
def test_a_rare_release_with_a_large_divergence_counts_in_full(weight, large):
    orders = np.array([1.5, 11.0, 300.0])
    found = mean_of(orders, ((1.0 - weight, np.full(3, 1e-3)), (weight, np.full(3, large))))
    with mp.workdps(60):
        for order, value in zip(orders.tolist(), found.tolist(), strict=True):
            a = mpf(order) - 1
            parts = ((1.0 - weight, 1e-3), (weight, large))
            truth = mp.log1p(mp.fsum(mpf(w) * mp.expm1(a * mpf(x)) for w, x in parts)) / a
            assert truth <= value <= truth * (1 + 1e-10)


def test_groups_of_banded_strategies_are_refused_where_columns_of_members_may_overlap():
    with pytest.raises(ValueError, match=r"columns overlap.*Gaussian\(1\.5 / 2\.0\)\.group\(size\) \* 5 bounds it"):
        fa.BandMF(1.5, 0.2, 20, 4, column_norm=2.0).group(2)
    for job in (fa.BandMF(1.5, 0.2, 20, 4) * 3, fa.BandMF(1.5, 0.2, 20, 4) + fa.Gaussian(2.0)):
        with pytest.raises(ValueError, match="no comparison with one sample is proved"):
            job.group(3)
    one_band, sampled = fa.BandMF(1.5, 0.2, 20).group(2), fa.Gaussian(1.5).poisson(0.2).group(2) * 20
    assert fa.epsilon(one_band, delta=1e-5) == fa.epsilon(sampled, delta=1e-5)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_two_members_of_different_cyclic_groups_are_at_most_two_that_share_each_sample(epsilon):
    shared = fa.Gaussian(1.5).poisson(0.3).group(2) * 4
    apart = fa.Gaussian(1.5).poisson(0.3) * 8
    assert fa.delta(apart, epsilon=epsilon) <= fa.delta_lower(shared, epsilon=epsilon)


@pytest.mark.parametrize("neighbors", ["replace_one", "zero_out"])
def test_noise_beyond_what_squares_hold_is_known_from_above_and_at_once(neighbors):
    batch = fa.Gaussian(1e120).fixed_size(100, 100) * 3
    start = time.process_time()
    lower, upper, _ = fa.delta_bounds(batch, epsilon=0.1, neighbors=neighbors, threads=1)
    assert lower == 0.0 < upper < 1e-300
    assert fa.epsilon(batch, delta=1e-6, neighbors=neighbors, threads=1) == 0.0
    assert time.process_time() - start < 5.0
