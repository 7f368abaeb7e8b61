"""Jobs of Gaussians, read by the contour integral: known values, closed forms, edges, and deltas below every float."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.epsilon import (
    delta,
    delta_bounds,
    epsilon,
    epsilon_bounds,
    epsilon_lower,
    log_delta_bounds,
    rdp,
)
from fastacct.mechanisms import Gaussian, GaussianMixture
from fastacct.mechanisms.process import Process
from fastacct.readers import cell_job, contour, infinite, nearby

SAMPLED = Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.05)


def inside(bounds, truth, slack=1e-8):
    """Oracle first: the truth between the bounds.  Tightness is a second statement, for certified values only."""
    lower, upper, status = bounds
    assert lower <= mpf(truth) * (1 + mpf(10) ** -12)
    assert upper >= mpf(truth) * (1 - mpf(10) ** -12)
    if status == fa.Status.TIGHT:
        assert float(upper - lower) <= slack * float(upper)


@pytest.mark.parametrize(
    ("step", "count", "delta_", "truth"),
    [  # contour integrals at 30 digits, remove direction; the last ones published to 9 digits
        (Gaussian(1.0).poisson(0.01), 1000, 1e-5, "1.828236666516577"),
        (Gaussian(1.0).poisson(0.01), 1000, 1e-12, "3.91429815603747"),
        (Gaussian(1.0).poisson(0.01), 1000, 1e-13, "4.2298113591490"),
        (Gaussian(1.0).poisson(0.01), 1000, 1e-15, "4.854537750604924"),
        (Gaussian(4.0).poisson(0.01), 10_000, 1e-5, "0.9468668007643804"),
        (Gaussian(0.8).poisson(0.001), 20_000, 1e-7, "1.487465154879526"),
        (Gaussian(5.0).poisson(0.5), 10, 1e-6, "1.468665021160587"),
        (Gaussian(1.0).poisson(1e-4), 1_000_000, 1e-8, "0.6581136753753002"),
    ],
)
def test_sampled_gaussians_meet_the_reference_values(step, count, delta_, truth):
    for relation in ("remove", "add_remove", "zero_out"):
        inside(epsilon_bounds(step * count, delta=delta_, neighbors=relation), truth)


def test_one_step_meets_the_closed_form_in_both_directions():
    inside(delta_bounds(Gaussian(1.0).poisson(0.01), epsilon=0.05, neighbors="remove"), "0.0003110653954432247")
    inside(delta_bounds(Gaussian(0.7).poisson(1e-4), epsilon=0.5, neighbors="remove"), "5.613440032395860e-13")
    inside(delta_bounds(Gaussian(0.8).poisson(0.3), epsilon=0.2, neighbors="add"), "0.03431201142792296")


def replace_one_doubles_the_sensitivity():
    inside(epsilon_bounds(Gaussian(2.0), delta=1e-5, neighbors="replace_one"), "4.377178095681275")
    run = Gaussian(2.0).poisson(0.01) * 10_000
    lower, upper, _ = epsilon_bounds(run, delta=1e-6, neighbors="replace_one")
    assert 4.907397 < lower <= upper < 4.907399  # Koskela et al. 2020 publish 4.907397523, a fine grid has 4.907398192


def test_replace_one_doubles_the_sensitivity():
    replace_one_doubles_the_sensitivity()


def test_the_oracle_sees_a_relation_that_is_ignored(monkeypatch):
    monkeypatch.setattr("fastacct.mechanisms.gaussian.sensitivity", lambda relation: 1.0)
    with pytest.raises(AssertionError):
        replace_one_doubles_the_sensitivity()


def renyi_of_the_profile(job, alpha, relation_out, relation_in, top):
    """exp((alpha-1) D_alpha) = 1 + alpha (alpha-1) int_0^inf e^((alpha-1) t) delta(t) + e^(-alpha t) delta_in(t) dt."""
    t = np.linspace(0.0, top, 401)
    out, back = (log_delta_bounds(job, epsilon=t, neighbors=r) for r in (relation_out, relation_in))
    values = [
        np.exp((alpha - 1) * t + a) + np.exp(-alpha * t + b)
        for a, b in ((out.lower, back.lower), (out.upper, back.upper))
    ]
    simpson = np.ones(t.size)
    simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
    integrals = [float(simpson @ value) * (t[1] - t[0]) / 3.0 for value in values]
    return [math.log1p(alpha * (alpha - 1) * x) / (alpha - 1) for x in integrals]


@pytest.mark.parametrize(
    ("step", "count", "relations", "alpha", "top", "truth"),
    [
        (Gaussian(1.0).poisson(0.1).group(2), 20, ("remove", "add"), 3, 60.0, 0.2889982101341943),  # multinomial sum
        (Gaussian(1.0).poisson(0.1), 40, ("replace_one", "replace_one"), 3, 60.0, 0.067000052536352),  # quadrature
        (Gaussian(1.0).poisson(0.01), 1000, ("remove", "add"), 2, 20.0, 1.7181342207454793e-4),  # binomial series
        (Gaussian(1.5).group(2), 5, ("remove", "add"), 2.5, 80.0, 2.5 * (2 / 1.5) ** 2 / 2),  # closed form
        (Gaussian(3.0), 20, ("replace_one", "replace_one"), 2.5, 80.0, 2.5 * (2 / 3) ** 2 / 2),
    ],
)
def test_the_profile_integrates_to_the_renyi_divergence(step, count, relations, alpha, top, truth):
    lower, upper = renyi_of_the_profile(step * count, alpha, *relations, top)
    assert lower * (1.0 - 1e-4) <= count * truth <= upper * (1.0 + 1e-4)  # Simpson's rule with 400 panels
    assert upper - lower <= 1e-4 * upper


def test_plain_gaussians_compose_to_one():
    job = Gaussian(3.0) * 4 + Gaussian(2.0).group(2) * 2 + Gaussian(5.0).poisson(1.0)
    mu = mp.sqrt(mpf(4) / 9 + 2 + mpf(1) / 25)
    for eps in (0.0, 1.0, 10.0, 60.0):
        with mp.workdps(60):
            a, b = mu / 2 - eps / mu, -mu / 2 - eps / mu
            truth = mp.ncdf(a) - mp.exp(eps) * mp.ncdf(b)
        inside(delta_bounds(job, epsilon=eps), truth)


def test_log_delta_reaches_far_below_the_smallest_float():
    for eps in (60.0, 300.0):
        with mp.workdps(60):
            truth = mp.log(mp.ncdf(mpf(1) / 2 - eps) - mp.exp(eps) * mp.ncdf(-mpf(1) / 2 - eps))
        lower, upper, _ = log_delta_bounds(Gaussian(1.0), epsilon=eps)
        assert lower <= truth <= upper
        assert upper - lower < 1e-9
    lower, upper, _ = log_delta_bounds(SAMPLED * 100, epsilon=150.0)
    assert -750.0 > upper >= lower > upper - 1e-6
    assert log_delta_bounds(SAMPLED, epsilon=math.inf)[:2] == (-math.inf, -math.inf)


def test_the_mixture_of_a_sampled_gaussian_is_the_sampled_gaussian():
    pair = GaussianMixture(2.0, p=[(0.9, 0.0), (0.1, 2.0)])  # twice the unit, twice the noise
    for relation in ("add", "remove", "add_remove"):
        a = delta_bounds(pair * 100, epsilon=0.7, neighbors=relation)
        b = delta_bounds(Gaussian(1.0).poisson(0.1) * 100, epsilon=0.7, neighbors=relation)
        assert max(a.lower, b.lower) <= min(a.upper, b.upper)
        assert a.upper == pytest.approx(b.upper, rel=1e-10, abs=0.0)  # the widths of both


def test_a_group_costs_more_than_a_record_and_less_than_the_general_rule():
    run = Gaussian(1.0).poisson(0.01) * 1000
    single = epsilon(run, delta=1e-9)
    for k in (2, 3):
        lower, upper, _ = epsilon_bounds(run.group(k), delta=1e-9 * math.expm1(k * single) / math.expm1(single))
        assert single < lower <= upper < k * single


def test_the_edge_cases_have_their_answers():
    nothing = (Process(), 0 * SAMPLED, Gaussian(1.0).poisson(0.0) * 5, Gaussian(math.inf) * 3)
    for job in nothing:
        assert (epsilon(job, delta=1e-5), delta(job, epsilon=0.0), epsilon(job, delta=0.0)) == (0.0, 0.0, 0.0)
        assert rdp(job, 2.0) == 0.0
    beside = SAMPLED * 20 + nothing[2] + nothing[3]
    assert epsilon_bounds(beside, delta=1e-4) == epsilon_bounds(SAMPLED * 20, delta=1e-4)
    assert delta_bounds(beside, epsilon=0.3) == delta_bounds(SAMPLED * 20, epsilon=0.3)
    for job in (Gaussian(0.0), SAMPLED * 5 + Gaussian(0.0), GaussianMixture(0.0, [(1.0, 1.0)])):
        assert (epsilon(job, delta=0.5), delta(job, epsilon=9.0)) == (math.inf, 1.0)
        assert (epsilon(job, delta=1.0), delta(job, epsilon=math.inf)) == (0.0, 0.0)
    for job in (SAMPLED * 50, SAMPLED * 50 + Gaussian(5.0), SAMPLED.group(2) * 50):
        assert epsilon(job, delta=0.0) == math.inf
        assert (epsilon(job, delta=1.0), delta(job, epsilon=math.inf)) == (0.0, 0.0)
    largest = -50 * math.log1p(-0.05)
    assert epsilon(SAMPLED * 50, delta=0.0, neighbors="add") == pytest.approx(largest, rel=1e-14, abs=0.0)


def test_small_deltas_are_resolved():
    run = Gaussian(1.0).poisson(0.01) * 1000
    deltas = np.logspace(-10, -30, 81)
    lower, upper, status = epsilon_bounds(run, delta=deltas)
    assert (status == fa.Status.TIGHT).all()
    assert (np.diff(upper) > 0.0).all()
    assert (np.diff(upper) < 0.1).all()  # no jumps
    assert (upper < epsilon(run, delta=deltas, accountant=fa.RDP())).all()
    assert (lower > 0.0).all()


def test_the_central_limit_is_not_a_bound():
    run = Gaussian(0.6).poisson(0.01) * 200
    assert epsilon_lower(run, delta=1e-5) > 4.4
    assert fa.dpsgd.epsilon_approx(noise_multiplier=0.6, sample_rate=0.01, steps=200, delta=1e-5) < 2.3
    with pytest.raises(ValueError, match="CLT proves nothing"):
        epsilon(run, delta=1e-5, accountant=fa.CLT())


def test_low_noise_is_not_astronomical():
    run = Gaussian(0.1).poisson(1024 / 1e8) * 976_563
    assert epsilon(run, delta=1e-7) < epsilon(run, delta=1e-7, accountant=fa.RDP()) < 1393.0


def test_thousands_of_different_gaussians_lose_nothing():
    noise = 5.582751372901797 + np.arange(4000) * 2.0**-50
    job = Process((Gaussian(x), 1) for x in noise)
    for eps in (20.0, 192.51061273648384):
        with mp.workdps(60):
            mu = mp.sqrt(sum(1 / mpf(x) ** 2 for x in noise))
            a, b = mu / 2 - eps / mu, -mu / 2 - eps / mu
            truth = mp.log(mp.erfc(-a / mp.sqrt(2)) / 2 - mp.exp(eps) * mp.erfc(-b / mp.sqrt(2)) / 2)
        lower, upper, _ = log_delta_bounds(job, epsilon=eps)
        assert lower <= truth <= upper
        assert upper - lower < 1e-10


def test_a_delta_beside_hardly_any_lost_mass_is_read_once(monkeypatch):
    read, call, asked = infinite.read_job, cell_job._call, []

    def noted(job, target, what, directions, **rest):
        asked.append(("job", target.shape))
        return read(job, target, what, directions, **rest)

    def called(job, target, what, directions):
        asked.append(("kernel", target.shape))
        return call(job, target, what, directions)

    monkeypatch.setattr(infinite, "read_job", noted)
    monkeypatch.setattr(cell_job, "_call", called)
    job = Gaussian(1.92).with_replacement(24, 1000).group(3) * 3
    line = contour.Contour.of(job.decompose("zero_out"), "zero_out")
    found, _ = line.read_cell(0, np.array([2.0]), nearby.DELTA, only_upper=True)
    assert 0.0 < found.upper[0] < 1.0
    # both bounds, each at an epsilon of its own, are asked in one call
    assert asked == [("job", (2, 1)), ("kernel", (2, 1))]


def test_what_two_pairs_say_is_of_the_direction_that_is_asked():
    """Losses known from two sides, in either direction: of this batch removing costs more, whatever the other shows."""
    job = Gaussian(2.0).poisson(0.1, at_most=110, records=1000) * 100
    add, remove = (epsilon_bounds(job, delta=1e-5, neighbors=way) for way in ("add", "remove"))
    assert 0.0 < add.lower < add.upper < remove.lower < remove.upper


@pytest.mark.parametrize(
    "nothing",
    [
        fa.PureDP(0.0),
        fa.ApproxDP(0.0, 0.0).poisson(0.1),
        fa.RandomizedResponse(0.0).group(2),
        fa.from_pmf([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ],
    ids=str,
)
def test_what_has_no_loss_but_zero_is_left_out(nothing):
    """Beside a continuous loss its atoms would keep the line from certifying anything in milliseconds."""
    noise = fa.Laplace(3.0)
    job = noise + nothing * 285
    assert fa.epsilon_bounds(job, delta=1e-3, neighbors="zero_out") == fa.epsilon_bounds(
        noise, delta=1e-3, neighbors="zero_out"
    )
    assert fa.epsilon(nothing * 5, delta=0.0, neighbors="zero_out") == 0.0


@pytest.mark.parametrize("few", [fa.ApproxDP(0.0, 0.1), fa.from_losses([0.0, np.inf], [0.9, 0.1])], ids=str)
def test_what_has_an_infinite_loss_is_not_left_out(few):
    assert fa.delta_lower(few * 2, epsilon=0.0) >= 0.18
