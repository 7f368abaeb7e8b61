"""Audits: values computed by other code, false claims, power, and what must not change an answer."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import fastacct as fa
from fastacct.audit.counts import least_rate, local_level, rate_bounds
from fastacct.audit.shared import least_miss, lines
from fastacct.audit.single_run import too_many
from tests import audit_nulls

mpmath = pytest.importorskip("mpmath")


def sampled(noise):
    return fa.Gaussian(noise).poisson(0.05) * 200


# -- bounds of rates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 2, 7, 50, 1000, 2000])
@pytest.mark.parametrize("level", [0.3, 0.025, 1e-3, 1e-9])
def test_bounds_of_rates_are_quantiles_of_the_beta_distribution_from_below(trials, level):
    for count in {1, 2, trials // 2 or 1, trials - 1 or 1, trials} & set(range(trials + 1)):
        rate = least_rate(np.array([float(count)]), trials, math.log(level))[0]
        with mpmath.workdps(30):
            chance = mpmath.betainc(count, trials - count + 1, 0, mpmath.mpf(float(rate)), regularized=True)
            assert (1 - 1e-8) * level <= chance <= level


def holds(counts, rates, trials):
    """Probability that each k-th smallest of uniform numbers is at least its rate: whole numbers, exactly."""
    law, before = {0: Fraction(1)}, Fraction(0)
    for k, rate in zip(counts, map(Fraction, rates), strict=True):
        share = (rate - before) / (1 - before)
        after = {}
        for j, chance in law.items():
            for more in range(k - j):
                left = trials - j
                step = math.comb(left, more) * share**more * (1 - share) ** (left - more)
                after[j + more] = after.get(j + more, 0) + chance * step
        law, before = after, rate
    return sum(law.values())


@pytest.mark.parametrize("trials", [1, 2, 5, 12])
@pytest.mark.parametrize("alpha", [0.2, 0.0125, 1e-5])
def test_all_bounds_of_a_sample_hold_together_as_often_as_was_asked(trials, alpha):
    found = 1 - holds(range(1, trials + 1), rate_bounds(trials, alpha)[1:].tolist(), trials)
    assert alpha * (1 - 1e-7) <= found <= alpha


@pytest.mark.parametrize(
    ("trials", "level"), [(10, 0.003681842191), (100, 0.001093783689), (1000, 0.00053291785)], ids=str
)
def test_levels_are_those_of_a_recursion_in_other_code(trials, level):
    assert local_level(trials, 0.025) == pytest.approx(level, rel=1e-9)


def test_bounds_of_large_samples_hold_and_lose_little():
    """3,000 trials, where not every count has a bound of its own: violated in alpha of all samples."""
    random, trials, alpha, runs = np.random.default_rng(3), 3000, 0.1, 4000
    bounds = rate_bounds(trials, alpha)
    false = sum(bool(np.any(np.sort(random.random(trials)) < bounds[1:])) for _ in range(runs))
    assert 0.08 < false / runs < 0.115
    assert np.all(np.diff(bounds) >= 0.0)
    assert local_level(trials, alpha) > local_level(2000, alpha) * 0.9


# -- scores ----------------------------------------------------------------------------------------------------------


def test_a_test_by_hand_is_what_scores_show():
    """Every member above every other: all thresholds between them have 100 of 100 and 0 of 100."""
    found = fa.audit.scores(range(100, 200), range(100), confidence=0.9)
    level = local_level(100, 0.025)
    hits = level ** (1 / 100)
    assert found.epsilon(1e-3) == pytest.approx(math.log((hits - 1e-3) / (1 - hits)), rel=1e-9)


def test_power_of_many_runs():
    random = np.random.default_rng(7)
    audits = [fa.audit.scores(random.normal(2, 1, 1000), random.normal(0, 1, 1000)) for _ in range(400)]
    shown = [found.epsilon(1e-5) for found in audits]
    assert np.median(shown) >= 2.75
    assert max(shown) < fa.epsilon(fa.Gaussian(0.5), delta=1e-5)
    assert not any(found.refutes(fa.Gaussian(0.5)) for found in audits[:40])
    assert all(found.refutes(fa.Gaussian(0.75)) for found in audits[:40])


def test_the_noise_that_is_refuted_is_refuted_and_less_is_not():
    random = np.random.default_rng(1)
    found = fa.audit.scores(random.normal(2, 1, 1000), random.normal(0, 1, 1000))
    noise = found.noise(fa.Gaussian)
    assert 0.5 < noise < 0.65
    assert found.refutes(fa.Gaussian(noise))
    assert not found.refutes(fa.Gaussian(noise * (1 - 1e-6)))
    assert fa.audit.scores([1.0, 2.0], [1.0, 2.0]).noise(fa.Gaussian) == math.inf


def test_one_direction_is_asked_as_it_was_drawn():
    """Members are sure in one of five runs, others never: the loss of a removed record is infinite, of an added not."""
    random = np.random.default_rng(2)
    members, others = np.where(random.random(2000) < 0.2, 1.0, 0.0), np.zeros(2000)
    found = fa.audit.scores(members, others)
    remove, add = (found.epsilon(0.0, neighbors=way) for way in ("remove", "add"))
    assert remove > 3.0
    assert add < 0.25
    assert found.epsilon(0.0) == max(remove, add)
    assert fa.audit.scores(others, members).epsilon(0.0, neighbors="add") == pytest.approx(remove)
    assert found.refutes(fa.PureDP(1.0))
    assert not found.refutes(fa.ApproxDP(0.0, 0.25))


SCORES = st.lists(st.integers(-6, 6), min_size=1, max_size=30)


@given(members=SCORES, others=SCORES, delta=st.sampled_from([0.0, 1e-5, 0.1]), random=st.randoms(use_true_random=False))
def test_only_the_order_of_scores_matters(members, others, delta, random):
    shown = fa.audit.scores(members, others).epsilon(delta)
    mixed = random.sample(members, len(members)), random.sample(others, len(others))
    assert fa.audit.scores(*mixed).epsilon(delta) == shown
    assert fa.audit.scores([x**3 - 7.5 for x in members], [x**3 - 7.5 for x in others]).epsilon(delta) == shown
    assert fa.audit.scores(others, members).epsilon(delta) == shown
    assert fa.audit.scores([-x for x in members], [-x for x in others]).epsilon(delta) == shown
    swapped = fa.audit.scores(others, members).epsilon(delta, neighbors="add")
    assert swapped == fa.audit.scores(members, others).epsilon(delta, neighbors="remove")


@given(members=SCORES, others=SCORES, low=st.floats(0.5, 0.999), more=st.floats(0.0, 0.0009), delta=st.floats(0.0, 1.0))
def test_more_confidence_or_delta_never_shows_more(members, others, low, more, delta):
    less, sure = (fa.audit.scores(members, others, confidence=c) for c in (low, low + more))
    assert sure.epsilon(delta) <= less.epsilon(delta) * (1 + 1e-8) + 1e-9
    assert less.epsilon(min(1.0, delta + 0.01)) <= less.epsilon(delta)


def test_ties_are_counted_as_what_they_are():
    """Scores of 0 and 1: three tests, whatever the order in which they are given."""
    found = fa.audit.scores([1] * 90 + [0] * 10, [1] * 20 + [0] * 80)
    spread = fa.audit.scores([1.0 + i * 1e-9 for i in range(90)] + [0] * 10, [1] * 20 + [0] * 80)
    assert 0.0 < found.epsilon(0.0) <= spread.epsilon(0.0)
    assert fa.audit.scores([0.0] * 100, [0.0] * 100).epsilon(0.0) == 0.0


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (([1.0, math.nan], [0.0]), r"members\[1\] = nan is out of range"),
        (([1.0], [0.0, 1.0, math.nan]), r"others\[2\] = nan"),
        (([], [0.0]), "members is an empty array"),
        (([[1.0]], [0.0]), r"members must be one list of numbers, not an array of shape \(1, 1\)"),
        ((["a"], [0.0]), "members must be a number or an array"),
    ],
)
def test_scores_that_are_none_are_refused(given_, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fa.audit.scores(*given_)


@pytest.mark.parametrize("confidence", [0.4, 1.0, math.nan, 95])
def test_a_confidence_out_of_range_is_refused(confidence):
    for make in (
        lambda: fa.audit.scores([1.0], [0.0], confidence=confidence),
        lambda: fa.audit.one_run(10, 5, 5, confidence=confidence),
        lambda: fa.audit.sequential([True], [False], confidence=confidence),
        lambda: fa.audit.plan(fa.Gaussian(1.0), delta=1e-5, confidence=confidence),
    ):
        with pytest.raises(ValueError, match="confidence = "):
            make()


def test_infinite_scores_are_scores():
    plain = fa.audit.scores([1.0, 2.0, 9.0] * 20, [0.0, -9.0, 1.0] * 20).epsilon(1e-5)
    assert fa.audit.scores([1.0, 2.0, math.inf] * 20, [0.0, -math.inf, 1.0] * 20).epsilon(1e-5) == plain > 0.0


# -- one run ---------------------------------------------------------------------------------------------------------


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


# -- bets ------------------------------------------------------------------------------------------------------------


@given(
    false=st.floats(0.0, 0.3),
    epsilon=st.floats(0.0, 3.0),
    delta=st.floats(0.0, 0.1),
    way=st.sampled_from(["remove", "add"]),
)
def test_a_bet_against_a_true_guarantee_is_fair_at_best(false, epsilon, delta, way):
    """The mean of the wealth after one pair, over the four outcomes of a mechanism at the limit of its guarantee."""
    found = min(1.0, math.exp(epsilon) * false + delta)
    # "add": the record's absence is what is found
    of_member, of_other = (found, false) if way == "remove" else (1.0 - false, 1.0 - found)
    chances = {
        (a, b): (of_member if a else 1.0 - of_member) * (of_other if b else 1.0 - of_other)
        for a in (True, False)
        for b in (True, False)
    }
    mean = sum(
        chance * fa.audit.sequential([a], [b]).wealth(epsilon, delta, neighbors=way)[0]
        for (a, b), chance in chances.items()
    )
    assert mean <= 1.0
    both = fa.audit.sequential([True], [False]).wealth(epsilon, delta)
    assert both[0] > 0.0


def test_bets_show_more_the_longer_they_go_and_stop_when_they_like():
    random = np.random.default_rng(4)
    members, others = random.normal(2, 1, 4000) > 2, random.normal(0, 1, 4000) > 2
    shown = [fa.audit.sequential(members[:n], others[:n]).epsilon(1e-5) for n in (50, 500, 4000)]
    assert shown == sorted(shown)
    assert 1.5 < shown[2] < fa.epsilon(fa.Gaussian(0.5), delta=1e-5)
    found = fa.audit.sequential(members, others)
    after = found.refuted_after(1.0, 1e-5)
    assert fa.audit.sequential(members[:after], others[:after]).refuted_after(1.0, 1e-5) == after
    assert fa.audit.sequential(members[: after - 1], others[: after - 1]).refuted_after(1.0, 1e-5) is None
    assert found.refutes(fa.Gaussian(1.0))
    assert not found.refutes(fa.Gaussian(0.5))
    assert not found.refutes(fa.ApproxDP(0.0, 1.0))
    plain = fa.audit.sequential([True] * 5000, [False] * 5000)
    assert math.isfinite(plain.epsilon(1e-5))


# -- plans and lines -------------------------------------------------------------------------------------------------


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
    assert fa.audit.compare(fa.audit.scores([1.0], [0.0]), fa.Gaussian(1.0), delta=0).proved == math.inf


# -- false claims ----------------------------------------------------------------------------------------------------


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
