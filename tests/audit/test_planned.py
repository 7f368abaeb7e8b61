"""What an audit can show, the line of a report, and how often audits claim what is not true."""

import math
import time

import numpy as np
import pytest

import fastacct as fa
from tests import audit_nulls


def sampled(noise):
    return fa.Gaussian(noise).poisson(0.05) * 200


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(8, (0.68, 1.89, 2.96, 3.94)), (3, (0.03, 0.67, 1.25, 1.75)), (1, (0, 0.10, 0.36, 0.58))]
)
def test_plans_are_near_those_of_other_code(epsilon, shown):
    """Other code took fewer thresholds, and counts that are not whole."""
    noise = fa.dpsgd.noise_multiplier(epsilon=epsilon, delta=1e-5, sample_rate=0.01, steps=1000)
    found = fa.audit.plan(fa.Gaussian(noise).poisson(0.01) * 1000, delta=1e-5)
    assert found.epsilon == pytest.approx(np.array(shown), abs=0.05)
    assert np.all(np.diff(found.epsilon) > 0.0)
    assert np.all(found.epsilon < found.proved)


def test_a_plan_is_what_the_best_attack_shows():
    """The median of audits that know their threshold is what the plan says, and the bands' is near."""
    random, m = np.random.default_rng(5), 1000
    plan = fa.audit.plan(fa.Gaussian(0.5), m, delta=1e-5)
    shown = [fa.audit.scores(random.normal(2, 1, m), random.normal(0, 1, m)).epsilon(1e-5) for _ in range(60)]
    assert 0.75 * plan.epsilon < np.median(shown) < plan.epsilon
    begin = time.process_time()
    fa.audit.plan(sampled(1.0), 10_000, delta=1e-5)
    assert time.process_time() - begin < 1.0


def test_a_line_of_a_report_says_both_numbers_on_their_safe_sides():
    found = fa.audit.compare(fa.audit.one_run(1000, 200, 140), fa.Gaussian(1.0), delta=1e-5)
    assert str(found) == "proved: epsilon at most 4.38; shown: at least 0.583 (95 %); the guarantee is not refuted"
    worse = fa.audit.compare(fa.audit.one_run(1000, 200, 200, confidence=0.99), fa.Gaussian(9.0), delta=1e-5)
    assert worse.refuted
    assert worse.shown > worse.proved
    assert str(worse).endswith("(99 %); the guarantee is refuted")
    bets = fa.audit.sequential([True] * 200, [False] * 200)  # which answer one question at a time
    assert fa.audit.compare(bets, fa.Gaussian(9.0), delta=1e-5).refuted
    assert bets.refutes(fa.Gaussian(1.0))  # at another delta, which would be a second question
    assert not fa.audit.compare(bets, fa.Gaussian(1.0), delta=1e-5).refuted
    assert fa.audit.compare(fa.audit.scores([1.0], [0.0]), fa.Gaussian(1.0), delta=0).proved == math.inf


@pytest.mark.parametrize("method", audit_nulls.METHODS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("m", audit_nulls.SIZES)
def test_false_claims_are_as_rare_as_was_asked(method, m):
    """A few hundred runs of what `python -m tests.audit_nulls` does with 20,000."""
    runs = 300
    assert audit_nulls.lower_end(audit_nulls.false_claims(method, m, runs, seed=2), runs) <= audit_nulls.LEVEL


def test_false_claims_would_be_noticed():
    assert audit_nulls.lower_end(33, 300) > audit_nulls.LEVEL
    too_sure = sum(audit_nulls.responses(np.random.default_rng(s), 100).epsilon(0.0) > 0.1 for s in range(50))
    assert audit_nulls.lower_end(too_sure, 50) > audit_nulls.LEVEL
