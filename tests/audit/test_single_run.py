"""Audits by one run: values of other code, guesses that do not look, what is refused."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import fastacct as fa
from fastacct.audit.shared import least_miss, lines
from fastacct.audit.single_run import too_many


def sampled(noise):
    return fa.Gaussian(noise).poisson(0.05) * 200


@pytest.mark.parametrize(
    ("counts", "claim", "chance"),
    [
        ((1000, 200, 140), (0.5, 1e-5), 0.0140890998726),
        ((1000, 200, 140), (0.2, 1e-5), 4.76714240393e-4),
        ((1000, 600, 600), (5.0, 1e-5), 0.0208500003764),
        ((100_000, 2000, 1500), (0.9, 1e-6), 0.00178922779608),
        ((5000, 500, 400), (1.2, 1e-8), 0.0513141536568),
    ],
)
def test_p_values_of_one_run_are_those_of_other_code(counts, claim, chance):
    assert fa.audit.one_run(*counts).p_value(*claim) == pytest.approx(chance, rel=1e-9)
    assert fa.audit.one_run(*counts).p_value(*claim) >= chance * (1 - 1e-11)


@pytest.mark.parametrize(
    ("counts", "delta", "epsilon"),
    [
        ((1000, 600, 600), 1e-5, 5.270399464),
        ((1000, 200, 140), 1e-5, 0.583613888),
        ((1000, 1000, 700), 1e-5, 0.731740449),
        ((100_000, 2000, 1500), 1e-6, 1.011210616),
    ],
)
def test_epsilons_of_one_run_are_those_of_other_code(counts, delta, epsilon):
    assert fa.audit.one_run(*counts).epsilon(delta) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize(
    ("counts", "mu"),
    [
        ((1000, 200, 150), 0.33946631151),
        ((1000, 1000, 700), 0.35721078660),
        ((1000, 100, 100), 1.22553345243),
        ((5000, 500, 400), 0.42959600855),
    ],
)
def test_one_run_against_gaussians_is_that_of_other_code(counts, mu):
    def gap(one):
        return too_many(*counts, 0.05, lambda fpr: float(ndtr(ndtri(1.0 - fpr) - one)))

    assert gap(mu - 1e-9) > 0.0
    assert gap(mu + 1e-9) <= 0.0
    noise = fa.audit.one_run(*counts).noise(fa.Gaussian)
    assert 1.0 / mu <= noise <= (1.0 + 1e-5) / mu  # the curve is the one that certified deltas prove


@pytest.mark.parametrize(
    ("noise", "counts", "least"),
    [(1.0, (1000, 200), 193), (1.0, (5000, 500), 485), (2.0, (1000, 200), 156), (2.0, (5000, 500), 391)],
)
def test_a_composed_job_is_refuted_from_as_many_on_as_other_code_says(noise, counts, least):
    begin = time.process_time()
    assert fa.audit.one_run(*counts, least).refutes(sampled(noise))
    assert not fa.audit.one_run(*counts, least - 1).refutes(sampled(noise))
    assert time.process_time() - begin < 2 * 0.3


@pytest.mark.parametrize("job", [sampled(1.0) + fa.Laplace(5.0) * 3, fa.Laplace(9.0) * 9 + fa.Gaussian(8.0)], ids=str)
def test_a_job_of_several_mechanisms_is_tested_at_once(job):
    begin = time.process_time()
    assert fa.audit.one_run(1000, 200, 200).refutes(job)
    assert not fa.audit.one_run(1000, 200, 120).refutes(job)
    assert time.process_time() - begin < 2 * 0.3


def test_who_publishes_everything_with_a_small_probability_is_not_refuted():
    everything = fa.audit.one_run(1000, 1000, 1000)
    assert not everything.refutes(fa.ApproxDP(0.0, 0.1))
    assert everything.refutes(fa.ApproxDP(0.0, 0.01))
    assert everything.epsilon(0.1) == 0.0


@pytest.mark.parametrize("job", [sampled(1.0), fa.Laplace(2.0) * 4, fa.PureDP(1.0), fa.ApproxDP(0.5, 0.01)])
def test_the_curve_of_a_claim_is_never_above_the_certified_one(job):
    miss = least_miss(*lines(job, "add_remove", 1e-8))
    fpr = np.concatenate([np.geomspace(1e-7, 0.5, 40), 1.0 - np.geomspace(1e-7, 0.5, 40), [0.0, 1.0]])
    found = np.array([miss(float(x)) for x in fpr])
    exact = fa.tradeoff_bounds(job, fpr, envelope="convex")
    assert np.all(found <= np.asarray(exact.upper) + 1e-15)
    assert np.all(found >= np.asarray(exact.lower) - 2e-4)  # edges of a curve may be between two lines


@given(st.integers(1, 60), st.data())
def test_more_right_guesses_never_show_less(guesses, data):
    right = data.draw(st.integers(0, guesses - 1))
    fewer, more = (fa.audit.one_run(100, guesses, k) for k in (right, right + 1))
    assert fewer.p_value(0.7, 1e-3) >= more.p_value(0.7, 1e-3) * (1 - 1e-9)
    assert fewer.epsilon(1e-3) <= more.epsilon(1e-3) + 1e-9
    wide = fa.audit.one_run(100, guesses, right, confidence=0.99)
    assert wide.epsilon(1e-3) <= fewer.epsilon(1e-3)


def test_several_numbers_of_guesses_share_the_level():
    both = fa.audit.one_run(1000, [200, 600], [140, 600])
    assert both.p_value(5.0, 1e-5) == pytest.approx(2 * 0.0208500003764, rel=1e-9)
    one = fa.audit.one_run(1000, 600, 600, confidence=0.975)
    assert both.epsilon(1e-5) == pytest.approx(one.epsilon(1e-5), rel=1e-9)
    assert both.noise(fa.Gaussian) == pytest.approx(one.noise(fa.Gaussian), rel=1e-6)


def test_guesses_do_not_look_at_the_truth():
    """Equal scores, members first: their order would tell who is in."""
    included = np.arange(1000) < 501
    assert [one.tolist() for one in fa.audit.count_guesses(np.zeros(1000), included, [200])] == [[0.0], [0.0]]
    assert fa.audit.one_run(1000, 0, 0).epsilon(1e-5) == 0.0
    assert not fa.audit.one_run(1000, 0, 0).refutes(fa.Gaussian(9.0))
    scores = np.r_[np.full(600, 5.0), np.zeros(400)]
    made, right = fa.audit.count_guesses(scores, included, [300, 900, 1000])
    assert made.tolist() == [0.0, 400.0, 400.0]
    assert right.tolist() == [0.0, 400.0, 400.0]


def test_guesses_are_counted_as_by_hand():
    scores = [5.0, 4.0, 3.0, 2.0, 1.0]
    included = np.array([True, False, True, False, False])
    assert [float(one) for one in fa.audit.count_guesses(scores, included, 2)] == [2.0, 2.0]
    made, right = fa.audit.count_guesses(scores, included, [1, 3, 5])
    assert made.tolist() == [1.0, 3.0, 5.0]
    assert right.tolist() == [1.0, 2.0, 4.0]


def test_halves_that_were_fixed_are_refused():
    scores, included = np.arange(10.0), np.arange(10) % 2 == 0
    with pytest.raises(ValueError, match=r"exactly half of the canaries.*say drawn='independent'"):
        fa.audit.count_guesses(scores, included, 4)
    assert fa.audit.count_guesses(scores, included, 4, drawn="independent")[0] == 4
    for call in (
        lambda: fa.audit.count_guesses(scores, included, 4, drawn="fixed_half"),
        lambda: fa.audit.one_run(10, 4, 4, drawn="fixed_half"),
    ):
        with pytest.raises(ValueError, match="'fixed_half' is not supported"):
            call()


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((10, 11, 5), r"guesses = 11.* is out of range; allowed: whole numbers in \[0, 10\]"),
        ((10, 4, 5), r"right = 5 is out of range; allowed: whole numbers in \[0, 4\], the guesses"),
        ((10, [4, 4], [3, 5]), r"right\[1\] = 5 is out of range"),
        ((10, [4, 4], 3), "guesses and right must be two numbers or two lists"),
        ((10, 4.5, 3), "guesses = 4.5 is out of range"),
        ((0, 0, 0), "canaries = 0"),
        ((2_000_000, 5, 5), "canaries = 2000000"),
    ],
)
def test_counts_that_cannot_be_are_refused(given_, message):
    with pytest.raises(ValueError, match=message):
        fa.audit.one_run(*given_)


def test_one_run_needs_both_directions():
    for call in ("epsilon", "refutes", "noise"):
        target = {"epsilon": 1e-5, "refutes": fa.Gaussian(1.0), "noise": fa.Gaussian}[call]
        with pytest.raises(ValueError, match="neighbors = 'remove'"):
            getattr(fa.audit.one_run(10, 5, 5), call)(target, neighbors="remove")


def test_flags_that_are_none_are_refused():
    with pytest.raises(TypeError, match="included must be 2 values True or False"):
        fa.audit.count_guesses([1.0, 2.0], [1, 0], 1)
    with pytest.raises(TypeError, match="members must be a list of True and False"):
        fa.audit.sequential([1, 0], [True, False])
    with pytest.raises(ValueError, match="they have 1 and 2 entries"):
        fa.audit.sequential([True], [True, False])
    with pytest.raises(TypeError, match="build must be a function of a noise multiplier"):
        fa.audit.scores([1.0], [0.0]).noise(fa.Gaussian(1.0))
