"""Noisy maxima and tests of hypotheses: what their guarantees rest on."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers.job import delta_of


def top_of_exponential(scores, scale):
    """Probability that the first of two scores wins with one-sided exponential noise."""
    gap = (scores[0] - scores[1]) / scale
    return 1.0 - 0.5 * math.exp(-gap) if gap >= 0.0 else 0.5 * math.exp(gap)


def test_a_vote_that_moves_between_candidates_costs_twice():
    """Ten votes against ten, then eleven against nine: not monotone."""
    scale = 2.0
    before, after = (top_of_exponential(one, scale) for one in ((9.0, 11.0), (10.0, 10.0)))
    moved = math.log(after / before)
    assert moved > fa.PermuteAndFlip.from_scale(scale, monotone=True).epsilon * 1.5
    assert moved <= fa.PermuteAndFlip.from_scale(scale).epsilon * (1 + 1e-12)


MONOTONE = fa.PermuteAndFlip.from_scale(2.0, monotone=True)


@pytest.mark.parametrize(
    "job", [MONOTONE, MONOTONE * 3, MONOTONE.group(2), MONOTONE.poisson(0.1), MONOTONE + fa.Gaussian(1.0)]
)
def test_monotone_scores_refuse_replace_one(job):
    """It was answered with half the truth."""
    with pytest.raises(ValueError, match="replace_one"):
        fa.epsilon(job, delta=1e-6, neighbors="replace_one")
    for neighbors in ("add_remove", "add", "remove"):
        assert fa.epsilon(job, delta=1e-6, neighbors=neighbors) < math.inf


def test_the_word_monotone_is_kept():
    assert fa.PermuteAndFlip(0.5, monotone=True) == MONOTONE
    assert fa.PermuteAndFlip(0.5) != MONOTONE
    assert repr(MONOTONE) == "PermuteAndFlip(epsilon=0.5, monotone=True)"
    assert fa.PermuteAndFlip(np.array([0.5, 1.0]), monotone=True).at((2,), 0) == MONOTONE
    assert fa.PermuteAndFlip(0.5).relations == fa.PureDP(0.5).relations
    ledger = fa.Accountant()
    ledger.compose(MONOTONE)
    ledger.compose(MONOTONE.poisson(0.5))
    state = json.loads(json.dumps(ledger.to_dict() if hasattr(ledger, "to_dict") else json.loads(ledger.to_json())))
    assert "monotone" in json.dumps(state)
    with pytest.raises(TypeError, match="monotone"):
        fa.PermuteAndFlip(0.5, monotone=1)


@pytest.mark.parametrize("sensitivity", [5e-324, 1e-320, 3e-310, 0.1, 1.0, 1e300])
@pytest.mark.parametrize("scale", [0.3, 0.7, 3.0, 1e300, 5e-324])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_quotient_is_the_least_float_above(sensitivity, scale, monotone):
    found = fa.PermuteAndFlip.from_scale(scale, sensitivity, monotone=monotone).epsilon
    exact = Fraction(sensitivity) * (1 if monotone else 2) / Fraction(scale)
    if math.isinf(found):
        assert exact > Fraction(1.7e308)
    else:
        assert Fraction(found) >= exact
        assert Fraction(math.nextafter(found, 0.0)) < exact or found == sensitivity * (1 if monotone else 2) / scale


def test_scales_may_be_arrays():
    scale = np.array([[0.3, 0.7, 3.0]])
    found = fa.PermuteAndFlip.from_scale(scale, 0.1)
    assert found.epsilon.shape == (1, 3)
    for i in range(3):
        assert found.at((1, 3), i) == fa.PermuteAndFlip.from_scale(scale[0, i], 0.1)


def test_paprika_names_what_the_printed_algorithm_lacks():
    assert "0.508" in fa.Paprika.__doc__
    assert "without a shift of the threshold" in " ".join(fa.Paprika.__doc__.split())


def test_of_runs_of_a_job_few_deltas_are_asked():
    """Where a delta adds nothing to a divergence, what is known of larger ones is enough; no order is asked twice."""
    job, asked = fa.RepeatedSelection(fa.Gaussian(3.9), 3.4), []

    def counted(one, epsilons, relation):
        asked.extend(epsilons.tolist())
        return delta_of(one, epsilons, relation)

    one = job.divergence_given(np.array([1.01]), "zero_out", counted)
    assert len(asked) <= 240
    before = len(asked)
    few = job.divergence_given(np.linspace(1.01, 1.05, 40), "zero_out", counted)
    assert len(asked) == before
    np.testing.assert_array_equal(few[:1], one)
    job.divergence_given(np.linspace(100.0, 120.0, 40), "zero_out", counted)
    assert len(asked) == before + 40
