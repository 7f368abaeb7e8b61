"""Poisson samples with a largest batch: how often one is cut, and what that costs."""

import math
import time

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.readers import cell
from fastacct.reference.batches import Branch, batch_delta
from fastacct.reference.batches import truncation as oracle_of_truncation
from fastacct.samplers.truncated import kept_at_most, truncation
from tests.containment import holds


@pytest.mark.parametrize("relation", ["remove", "add", "replace_one"])
def test_truncated_samples_agree_with_the_oracle_from_above(relation):
    rate, at_most, records, noise, steps, epsilon = 0.1, 110, 1000, 2.0, 100, 3.0
    step = fa.Gaussian(noise).poisson(rate, at_most=at_most, records=records)
    tau, swapped = oracle_of_truncation(rate, at_most, records)
    kinds = [("replaced", noise), ("slot", noise)] if relation == "replace_one" else [("sampled", noise)] * 2
    if relation != "replace_one":
        kinds[1] = ("sampled", noise / 2)
    weights = ((1 - tau, mpf(rate)), (tau, swapped))
    branches = [Branch(w, mpf(s), q, kind) for (w, q), (kind, s) in zip(weights, kinds, strict=True)]
    truth = batch_delta(branches, steps, epsilon, add=relation == "add", digits=8)
    upper = fa.delta(step * steps, epsilon=epsilon, neighbors=relation)
    assert truth <= upper <= truth * (1 + 2e-4)


@pytest.mark.parametrize(
    ("rate", "at_most", "records"),
    [(0.1, 110, 1000), (0.4, 2, 4), (1e-3, 30, 1000), (0.5, 3, 40), (0.3, 39, 40), (1e-300, 1, 5)],
)
def test_probabilities_of_truncation_are_good_to_an_ulp(rate, at_most, records):
    found = truncation(rate, at_most, records)
    with mp.workdps(60):
        tau, swapped = oracle_of_truncation(rate, at_most, records)
        kept = (1 - tau) * mpf(rate) + tau * swapped
        for value, truth, side in (
            (found.tau, tau, 1),
            (found.rest, 1 - tau, 1),
            (found.replaced, swapped, 1),
            (found.kept, kept, -1),
        ):
            assert 0 <= side * (mpf(value) - truth) <= mpf(math.ulp(value))


def test_truncation_of_a_large_data_set_is_that_of_the_counts_below():
    """P[Bin >= B] of 10^7 records, against the complement summed from the other end."""
    rate, at_most, records = 1e-3, 10_300, 10**7
    found = truncation(rate, at_most, records)
    with mp.workdps(40):
        p = mpf(rate)
        term = mp.exp(
            mp.loggamma(records) - mp.loggamma(at_most + 1) - mp.loggamma(records - at_most)
            + at_most * mp.log(p) + (records - 1 - at_most) * mp.log1p(-p)
        )  # fmt: skip
        total = mpf(0)
        for k in range(at_most, at_most + 4000):
            total += term
            term *= mpf(records - 1 - k) / (k + 1) * p / (1 - p)
        assert abs(found.tau / total - 1) < 1e-15


def test_truncation_that_never_happens_changes_nothing_that_can_be_seen(monkeypatch):
    monkeypatch.setattr(cell, "TOLERANCE", 2e-4)
    rare, never = (fa.Gaussian(1.0).poisson(0.01, at_most=b, records=10_000) for b in (400, 2000))
    sample = fa.delta_bounds(fa.Gaussian(1.0).poisson(0.01) * 20, epsilon=1.0)
    for step in (rare, never):
        assert holds(fa.delta_bounds(step * 20, epsilon=1.0), 0.5 * (sample.lower + sample.upper), 3e-4, 1e-9)
    assert fa.rdp(never, 2.0) >= fa.rdp(fa.Gaussian(1.0).poisson(0.01), 2.0)


def test_a_truncation_too_rare_for_products_of_masses_is_paid():
    """Of 1e-291: at losses that nothing but a record which takes another one's place has, it is all of delta."""
    noise, epsilon, given = 1.0 / 35.0, 2082.0, truncation(1e-4, 110, 1000)
    assert 1e-295 < given.tau * given.replaced < 1e-290
    assert fa.delta(fa.Gaussian(noise).poisson(1e-4), epsilon=epsilon) < 1e-320
    with mp.workdps(30):  # p' N(2, noise) + (1 - p') N(0, noise) against N(0, noise): what takes the place is opposite
        mu, share = 2 / mpf(noise), mpf(given.replaced)
        at = epsilon + mp.log(1 - (1 - share) * mp.exp(-epsilon)) - mp.log(share)  # of the loss without a sample
        truth = given.tau * share * (mp.ncdf(mu / 2 - at / mu) - mp.exp(at) * mp.ncdf(-mu / 2 - at / mu))
    assert truth > 1e-296
    law = kept_at_most(noise, 1e-4, given, "zero_out").remove.upper
    beyond = float(law.masses(np.array([-1e4, epsilon, 1e4]), 0.0, 1.0).mass[1])
    assert truth <= law.infinite + beyond < 1e-290


def test_probabilities_near_1_keep_the_accuracy_of_the_rest():
    found = truncation(0.9987, 1, 21)
    with mp.workdps(80):
        assert abs(found.rest / ((1 - mpf(0.9987)) ** 20) - 1) < 1e-15


def test_rdp_of_truncated_samples_is_not_below_the_moments_of_the_oracle():
    """Truncation is rare, and the release that it makes costs much at this order."""
    step, order = fa.Gaussian(2.0).poisson(0.1, at_most=150, records=1000), 12.0
    tau, swapped = oracle_of_truncation(0.1, 150, 1000)
    with mp.workdps(40):
        moments = [mp.exp((order - 1) * fa.rdp(fa.Gaussian(s).poisson(float(q)), order))
                   for s, q in ((2.0, 0.1), (1.0, swapped))]  # fmt: skip
        truth = mp.log((1 - tau) * moments[0] + tau * moments[1]) / (order - 1)
    assert truth * (1 - 1e-9) <= fa.rdp(step, order) <= truth * (1 + 1e-9)


def test_truncated_batches_of_too_many_records_are_refused_at_once():
    """A tail of 1e8 terms: whether it ends in time is known from its first and its last one."""
    start = time.process_time()
    step = fa.Gaussian(1.0).poisson(0.5, at_most=2**52, records=2**53)
    for relation in ("add_remove", "replace_one"):
        with pytest.raises(ValueError, match="at_most and records are too large") as refusal:
            fa.epsilon(step, delta=1e-5, neighbors=relation)
        assert type(refusal.value) is ValueError
    assert time.process_time() - start < 1.0
    far = fa.Gaussian(1.0).poisson(1e-3, at_most=2**52, records=2**53)  # truncation never happens
    poisson = fa.epsilon(fa.Gaussian(1.0).poisson(1e-3), delta=1e-5)
    assert fa.epsilon(far, delta=1e-5) == pytest.approx(poisson, rel=1e-6)
