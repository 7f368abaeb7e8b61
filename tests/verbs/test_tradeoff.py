"""Trade-off curves of Gaussian jobs: closed forms, shape, arrays, and what is refused."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import findroot, mp, mpf

import fastacct as fa
from fastacct.epsilon import delta
from fastacct.gdp import gdp
from fastacct.mechanisms import Gaussian, GaussianMixture
from fastacct.mechanisms.process import Process
from fastacct.readers import attack, contour, nearby, roc
from fastacct.tradeoff import (
    advantage,
    bayes_risk,
    tpr_at_fpr,
    tpr_at_fpr_bounds,
    tradeoff,
    tradeoff_bounds,
)

RATES = np.array(
    [1e-300, 1e-30, 1.36e-14, 1e-12, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.6915, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12]
)


RUN = Gaussian(1.0).poisson(0.01) * 1000


JOBS = {
    "gaussian": Gaussian(0.8) * 1,
    "sampled": RUN,
    "many steps": Gaussian(0.7).poisson(0.02) * 5000,
    "mixed": Gaussian(1.0).poisson(0.05) * 200 + Gaussian(3.0) * 2,
    "group": Gaussian(1.0).poisson(0.05).group(2) * 60,
    "mixture": GaussianMixture(2.0, p=[(0.8, 0.0), (0.2, 1.5)], q=[(0.9, 0.0), (0.1, -0.5)]) * 40,
}


def normal_upper(p):
    """z with P(N(0, 1) > z) = p, for an exact p in (0, 1)."""
    p = mpf(p)
    if p > 0.5:
        return -normal_upper(1 - p)
    start = mp.sqrt(-2 * mp.log(p)) - (mpf(1) if p < 0.1 else mpf(0.4))
    return findroot(lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2) - mp.log(p), start)


def phi(z):
    return mp.erfc(-z / mp.sqrt(2)) / 2


def gaussian_rates(mu):
    """(tpr, fnr) at RATES."""
    return [(phi(mu - z), phi(z - mu)) for z in map(normal_upper, RATES)]


def sampled_rates(sigma, q, way):
    """One sampled step: the test is a threshold on the output, in both directions."""
    out = []
    for x in RATES:
        if way == "remove":
            z = normal_upper(x)
            back = phi((1 - sigma * z) / sigma)  # of the mean-1 component beyond the threshold
            tpr = (1 - q) * mpf(x) + q * back
            fnr = (1 - q) * phi(z) + q * phi(z - 1 / sigma)
        else:  # reject when the output is below c
            start = -normal_upper(x) * sigma
            c = findroot(
                lambda c, x=x: mp.log((1 - q) * phi(c / sigma) + q * phi((c - 1) / sigma)) - mp.log(mpf(x)), start
            )
            tpr, fnr = phi(c / sigma), phi(-c / sigma)
        out.append((tpr, fnr))
    return out


def inside(job, truth, relation, tight=1e-8):
    """Oracle first; then, where the curve claims to be tight, that it is."""
    for function, column in ((tpr_at_fpr_bounds, 0), (tradeoff_bounds, 1)):
        lower, upper, status = function(job, RATES, neighbors=relation)
        for i, rates in enumerate(truth):
            exact = rates[column]
            assert mpf(lower[i]) <= exact <= mpf(upper[i]), (function.__name__, relation, RATES[i])
            if status[i] == fa.Status.TIGHT and exact > 1e-11:
                assert upper[i] - lower[i] <= tight * upper[i], (function.__name__, relation, RATES[i])


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0])
def test_the_gaussian_curve_meets_its_closed_form(mu):
    with mp.workdps(60):
        truth = gaussian_rates(1 / mpf(1 / mu))
        for relation in ("add_remove", "add", "remove"):
            inside(Gaussian(1 / mu), truth, relation)
        inside(Gaussian(2 / mu), truth, "replace_one")


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.1), (0.5, 0.02), (3.0, 0.5)])
def test_one_sampled_step_meets_its_closed_form_in_both_directions(sigma, q):
    job = Gaussian(sigma).poisson(q)
    with mp.workdps(60):
        for way in ("remove", "add"):
            inside(job, sampled_rates(mpf(sigma), mpf(q), way), way, tight=1e-6)


def one_step_meets_its_closed_form():
    with mp.workdps(60):
        for way in ("remove", "add"):
            inside(Gaussian(1.0).poisson(0.1), sampled_rates(mpf(1), mpf(0.1), way), way)


def test_the_oracle_sees_directions_that_are_exchanged(monkeypatch):
    honest = roc.error_rates
    monkeypatch.setattr(
        attack,
        "error_rates",
        lambda job, cells, fpr, way, *rest, **kw: honest(job, cells, fpr, 3 - way, *rest, **kw),
    )
    with pytest.raises(AssertionError):
        one_step_meets_its_closed_form()


def test_the_oracle_sees_a_delta_that_is_a_thousandth_too_small(monkeypatch):
    honest = contour.Contour.read

    def smaller(self, cells, target, what, *rest, **kw):
        read = honest(self, cells, target, what, *rest, **kw)
        return read._replace(lower=read.lower - 1e-3, upper=read.upper - 1e-3) if what == nearby.LOG_DELTA else read

    monkeypatch.setattr(contour.Contour, "read", smaller)
    with pytest.raises(AssertionError):
        one_step_meets_its_closed_form()


@pytest.mark.parametrize("is_turned", [False, True])
def test_three_points_bound_the_minimum_of_a_convex_function_and_are_met_by_the_worst(is_turned):
    """It falls along a line from the first point up to a kink just before the last one, or the other way round."""
    inner, outer, steep = np.array([0.3, 0.01, 0.7]), np.array([0.2, 0.5, 0.01]), 1e9
    kink = outer * steep / (steep + 1.0)  # beyond the middle point, where both lines meet
    one, first = (np.ones(3), np.ones(3)), (1.0 + inner, 1.0 + inner)
    found = roc._convex(one, one, first, outer, inner) if is_turned else roc._convex(first, one, one, inner, outer)
    least = 1.0 - kink
    assert (found <= least).all()
    assert (found >= least - 1e-8).all()


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("relation", ["add", "remove", "add_remove"])
def test_a_curve_is_decreasing_convex_and_below_the_diagonal(name, relation):
    x = np.linspace(0.0, 1.0, 41)
    lower, upper, status = tradeoff_bounds(JOBS[name], x, neighbors=relation)
    assert (status[:-1] == fa.Status.TIGHT).all()
    assert (lower <= upper).all()
    assert (upper <= 1.0 - x + 2.0**-53).all()
    assert (lower[1:] <= upper[:-1]).all()
    if relation != "add_remove":  # the smaller of two convex curves need not be
        assert (lower[1:-1] <= 0.5 * (upper[:-2] + upper[2:])).all()
    assert (lower[0], upper[0], lower[-1], upper[-1]) == (1.0, 1.0, 0.0, 0.0)
    assert tradeoff(JOBS[name], x, neighbors=relation) == pytest.approx(lower, rel=2e-12, abs=0.0)
    tpr = tpr_at_fpr_bounds(JOBS[name], x, neighbors=relation)
    assert 1.0 - tpr.upper == pytest.approx(lower, rel=0.0, abs=1e-14)  # roundings of 1
    assert (np.maximum(tpr.lower, x) == tpr.lower).all()


@pytest.mark.parametrize("name", JOBS)
def test_add_and_remove_are_inverse_functions(name):
    x = np.array([1e-5, 0.01, 0.2, 0.5, 0.9])
    there = tradeoff_bounds(JOBS[name], x, neighbors="remove")
    back_upper = tradeoff_bounds(JOBS[name], there.lower, neighbors="add").upper
    back_lower = tradeoff_bounds(JOBS[name], there.upper, neighbors="add").lower
    assert (back_lower <= x).all()
    assert (x <= back_upper).all()
    assert back_upper == pytest.approx(x, rel=1e-8, abs=0.0)  # the slope at 1e-5 times the width of the curve


@pytest.mark.parametrize("name", ["sampled", "many steps", "mixed", "mixture"])
def test_add_remove_is_the_smaller_curve_and_its_envelope_is_symmetric(name):
    job, x = JOBS[name], np.linspace(0.02, 0.98, 33)
    add, remove, both = (tradeoff_bounds(job, x, neighbors=r) for r in ("add", "remove", "add_remove"))
    assert (both.lower == np.minimum(add.lower, remove.lower)).all()
    assert (both.upper == np.minimum(add.upper, remove.upper)).all()
    assert (add.upper < remove.lower).any()
    assert (remove.upper < add.lower).any()
    convex = tradeoff_bounds(job, x, envelope="convex")
    assert (convex.lower <= both.upper).all()
    assert (convex.lower[1:-1] <= 0.5 * (convex.upper[:-2] + convex.upper[2:])).all()
    back = tradeoff(job, convex.lower, envelope="convex")
    assert back == pytest.approx(x, rel=2e-10, abs=0.0)  # the widths of both
    # the envelope is what the epsilons and deltas say
    for eps in (0.0, 0.5, 2.0):
        d = delta(job, epsilon=eps)
        assert (convex.upper >= 1.0 - d - math.exp(eps) * x - 1e-12).all()
        assert (convex.upper >= math.exp(-eps) * (1.0 - d - x) - 1e-12).all()


def test_replace_one_is_its_own_inverse():
    job, x = Gaussian(1.0).poisson(0.05) * 200, np.array([0.01, 0.1, 0.5])
    fnr = tradeoff(job, x, neighbors="replace_one")
    assert tradeoff(job, fnr, neighbors="replace_one") == pytest.approx(x, rel=5e-12, abs=0.0)  # the widths of both
    assert (fnr < tradeoff(job, x)).all()


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.6, 5.0),
    st.floats(0.03, 1.0),
    st.integers(100, 3000),
    st.floats(0.01, 0.99),
    st.floats(0.0, 3.0),
    st.sampled_from(["add", "remove", "add_remove"]),
)
def test_no_epsilon_gives_a_better_bound_than_the_curve(sigma, q, steps, x, eps, relation):
    job = Gaussian(sigma).poisson(q) * steps
    tpr_lower, tpr_upper, _ = tpr_at_fpr_bounds(job, x, neighbors=relation)
    fnr_lower, fnr_upper, _ = tradeoff_bounds(job, x, neighbors=relation)
    assert x <= tpr_lower <= tpr_upper <= 1.0
    assert 0.0 <= fnr_lower <= fnr_upper <= 1.0 - x + 2.0**-53
    other = {"add": "remove", "remove": "add"}.get(relation, relation)
    right = delta(job, epsilon=eps, neighbors=relation) + math.exp(eps) * x
    left = math.exp(-eps) * (1.0 - x - delta(job, epsilon=eps, neighbors=other))
    assert tpr_lower <= right * (1.0 + 1e-14)
    assert fnr_upper >= left * (1.0 - 1e-14)


def test_arrays_broadcast_and_cells_do_not_know_each_other():
    job = Gaussian(np.array([[1.0], [2.0]])).poisson(0.05) * 100
    x = np.array([0.0, 0.01, 0.3, 1.0])
    table = tradeoff_bounds(job, x, threads=2)
    assert table.lower.shape == table.status.shape == (2, 4)
    for i, j in itertools.product(range(2), range(4)):
        one = tradeoff_bounds(Gaussian([1.0, 2.0][i]).poisson(0.05) * 100, x[j], threads=1)
        assert type(one.lower) is float
        assert (one.lower, one.upper) == (table.lower[i, j], table.upper[i, j])


def test_what_cannot_be_certified_stays_on_the_safe_side():
    x = np.array([0.0, 0.1, 1.0])
    for job in (Gaussian(0.0) * 1, RUN + Gaussian(0.0)):
        assert (tradeoff(job, x) == [0.0, 0.0, 0.0]).all()
        assert (tpr_at_fpr(job, x) == [1.0, 1.0, 1.0]).all()
        assert tradeoff_bounds(job, 0.1).status == fa.Status.NOT_MET
        assert (advantage(job), bayes_risk(job, members=0.4)) == (1.0, 0.0)
    for job in (Process(), 0 * RUN, Gaussian(math.inf) * 5):
        assert tradeoff(job, x) == pytest.approx(1.0 - x, rel=0.0, abs=1e-14)  # roundings of 1
        assert (tradeoff(job, x) <= 1.0 - x).all()
        assert (advantage(job), bayes_risk(job, members=0.25)) == (0.0, pytest.approx(0.25, rel=1e-14, abs=0.0))
        assert gdp(job) == (0.0, 0.0, 0.0)


def test_of_a_sample_without_noise_it_is_known_whether_anybody_was_drawn():
    never, x = 0.9**3, np.array([0.01, 0.1, 0.5, 0.9])
    drawn, added = tradeoff_bounds(job := Gaussian(0.0).poisson(0.1) * 3, x, neighbors="remove"), 1.0 - x / never
    for found, true in ((drawn, never * (1.0 - x)), (tradeoff_bounds(job, x, neighbors="add"), np.maximum(added, 0.0))):
        assert (found.lower <= true * (1.0 + 1e-15)).all()
        assert (true <= found.upper * (1.0 + 1e-15)).all()
        assert found.lower == pytest.approx(true, rel=1e-9, abs=1e-12)


def test_where_nothing_is_known_the_bounds_are_trivial(monkeypatch):
    def unknown(self, cells, target, what, *rest, **kw):
        low = -math.inf if what == nearby.LOG_DELTA else 0.0
        high = nearby.TOP[what]
        return nearby.Reading(*(np.full(target.shape, x) for x in (low, high)), np.ones(target.shape, np.uint8))

    monkeypatch.setattr(contour.Contour, "read", unknown)
    x = np.array([1e-9, 0.1, 0.9])
    for relation in ("add", "remove", "add_remove"):
        lower, upper, status = tradeoff_bounds(RUN, x, neighbors=relation)
        assert (lower == 0.0).all()
        assert (upper >= 1.0 - x).all()
        assert (upper <= 1.0 - x + 2.0**-53).all()
        assert (status == fa.Status.NOT_MET).all()


def test_a_hole_in_what_is_known_costs_nothing_but_tightness(monkeypatch):
    x = np.array([1e-6, 0.1, 0.9])
    sharp = tradeoff_bounds(RUN, x)
    honest = contour.Contour.read

    def holes(self, cells, target, what, *rest, **kw):
        read = honest(self, cells, target, what, *rest, **kw)
        if what != nearby.LOG_DELTA:
            return read
        hole = (target > 0.3) & (target < 1.5)
        return read._replace(lower=np.where(hole, -np.inf, read.lower), upper=np.where(hole, 0.0, read.upper))

    monkeypatch.setattr(contour.Contour, "read", holes)
    lower, upper, _ = tradeoff_bounds(RUN, x)
    assert (lower <= sharp.upper).all()
    assert (upper >= sharp.lower).all()
    assert (lower > 0.0).all()


REFUSED = [
    (lambda: tradeoff(RUN, 1.5), r"fpr = 1\.5 is out of range; allowed: \[0, 1\]"),
    (lambda: tradeoff(RUN, [0.1, math.nan]), r"fpr\[1\] = nan"),
    (lambda: tradeoff(RUN, None), r"fpr must be a number"),
    (lambda: tradeoff("run", 0.1), r"job must be a mechanism or a process"),
    (lambda: tradeoff(RUN, 0.1, neighbors="both"), r"neighbors = 'both' is not one of"),
    (lambda: tradeoff(RUN, 0.1, envelope=True), r"envelope must be one of 'pointwise', 'convex'"),
    (lambda: tradeoff(RUN.group(2), 0.1, neighbors="both"), r"neighbors = 'both' is not one of"),
    (lambda: tradeoff(Gaussian([1.0, 2.0]), [0.1, 0.2, 0.3]), r"job \(2,\), fpr \(3,\)"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_with_its_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


RATE, SIGMA = 0.3, 0.8  # with the record rate N(1, sigma) + (1 - rate) N(0, sigma), without it N(0, sigma)


def below(x):
    """Probabilities of outcomes below x, with the record and without it."""
    there, not_there = (0.5 * math.erfc((mean - x) / SIGMA / math.sqrt(2.0)) for mean in (1.0, 0.0))
    return RATE * there + (1.0 - RATE) * not_there, not_there


def risk(members):
    """Of a decision for the likelier hypothesis at each outcome: the record is there beyond a point."""
    ratio = (1.0 - members) / members
    if ratio <= 1.0 - RATE:
        return 1.0 - members
    miss, quiet = below(0.5 + SIGMA**2 * math.log((ratio - 1.0 + RATE) / RATE))
    return members * miss + (1.0 - members) * (1.0 - quiet)


@pytest.mark.parametrize("neighbors", ["remove", "add"])
def test_members_is_the_probability_that_the_record_is_there(neighbors):
    job, shares = Gaussian(SIGMA).poisson(RATE), [1e-20, 0.1, 0.3, 0.5, 0.55, 0.9, 1.0 - 2.0**-50]
    lower, upper, _ = fa.bayes_risk_bounds(job, members=shares, neighbors=neighbors)
    truth = np.array([risk(one) for one in shares])
    assert (lower <= truth * (1.0 + 1e-14)).all()
    assert (truth * (1.0 - 1e-14) <= upper).all()
    assert lower == pytest.approx(truth, rel=1e-9, abs=0.0)
    assert (lower == [bayes_risk(job, members=one, neighbors=neighbors) for one in shares]).all()
    assert (lower == bayes_risk(job, members=np.reshape(shares, (7, 1)), neighbors=neighbors).ravel()).all()
    rates, hits = 1.0 - np.array([below(0.5), below(1.5)]).T[::-1]
    weights = np.array(shares)
    if neighbors == "add":  # an alarm says that the record is not there
        rates, hits, weights = 1.0 - hits, 1.0 - rates, 1.0 - weights
    found = fa.positive_predictive_value(job, rates[:, None], members=shares, neighbors=neighbors)
    right, wrong = weights * hits[:, None], (1.0 - weights) * rates[:, None]
    assert found == pytest.approx(right / (right + wrong), rel=1e-9, abs=0.0)
    assert found[1, 2] == fa.positive_predictive_value(job, rates[1], members=shares[2], neighbors=neighbors)


@pytest.mark.parametrize("neighbors", ["remove", "add", "add_remove"])
def test_prior_is_the_null_hypothesis_and_says_so(neighbors):
    job, members = Gaussian(SIGMA).poisson(RATE), 0.25
    prior = members if neighbors == "add" else 1.0 - members
    words = "members = prior$" if neighbors == "add" else "members = 1 - prior$"
    for verb in (bayes_risk, fa.bayes_risk_bounds, partial(fa.positive_predictive_value, fpr=0.1)):
        with pytest.warns(DeprecationWarning, match=f"of the null hypothesis: .*{words}") as told:
            former = verb(job, prior=prior, neighbors=neighbors)
        assert (former, [one.filename for one in told]) == (verb(job, members=members, neighbors=neighbors), [__file__])
        with pytest.raises(TypeError, match="give members, and no prior"):
            verb(job, members=members, prior=prior)
        with pytest.raises(TypeError, match="members is missing"):
            verb(job)
    with pytest.raises(ValueError, match=r"members\[1\] = 2.0 is out of range"):
        bayes_risk(job, members=[0.5, 2.0])


@pytest.mark.parametrize("bound", [25.0, 30.0])
def test_without_false_positives_what_only_one_distribution_has_is_found(bound):
    """Of bounded noise: outputs that the other one cannot have."""
    with mp.workdps(30):
        least = mp.exp(-mp.mpf(bound) / 2)
        truth = (mp.exp(mp.mpf(1 - bound) / 2) - least) / (2 * (1 - least))
        found = fa.tpr_at_fpr_bounds(fa.TruncatedLaplace(2.0, bound), fpr=0.0)
        assert found.lower <= truth <= found.upper <= truth * (1 + 1e-6)
        found = fa.tradeoff_bounds(fa.TruncatedLaplace(2.0, bound), fpr=0.0)
        assert found.lower <= 1 - truth <= found.upper


@pytest.mark.parametrize("at", [-2.0, -1.0])
def test_the_convex_envelope_has_the_larger_direction_whichever_it_is(at):
    """A line of slope -exp(epsilon) touches the curve of the best test at one rate: that of outputs below `at`."""
    right, left = ([(0.7, 0.0), (0.3, mean)] for mean in (2.0, -2.0))
    with mp.workdps(30):
        fpr = float(mp.ncdf(at))
        truth = 1 - mp.mpf(0.7) * mp.ncdf(at) - mp.mpf(0.3) * mp.ncdf(at + 2)
        for job in (fa.GaussianMixture(1.0, p=[(1.0, 0.0)], q=left), fa.GaussianMixture(1.0, p=right)):
            found = fa.tradeoff_bounds(job, fpr, envelope="convex")
            assert found.lower <= truth * (1 + 1e-14)
            assert truth * (1 - 1e-14) <= found.upper <= truth * (1 + 1e-6)
