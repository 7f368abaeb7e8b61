"""The accountants kept for comparison: closed forms, the oracle, and their place in the order of tightness."""

import math

import numpy as np
import pytest
from mpmath import mpf

import fastacct as fa
from fastacct import reference


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [  # Balle and Wang 2018, theorem 8, at 40 digits
        (1.0, 1.0, "0.12693673750664395"),
        (0.1, 1.0, "1.2308359836427042e-25"),
        (4.0, 10.0, "0.23369880786218617"),
        (1.0, 30.0, "4.7093263180975222e-193"),
        (1.0, 0.0, "0.38292492254802621"),
    ],
)
def test_analytic_gaussian_meets_published_values(mu, epsilon, delta):
    value = fa.dpsgd.delta(
        noise_multiplier=1 / mu, sample_rate=1, steps=1, epsilon=epsilon, accountant=fa.AnalyticGaussian()
    )
    assert value == pytest.approx(float(delta), rel=1e-11, abs=0.0)  # one erfcx, scaled: 3e-12 at 1e-193


def test_analytic_gaussian_is_never_below_the_oracle():
    rng = np.random.default_rng(4)
    for _ in range(40):
        sigma, steps = 10 ** rng.uniform(-1.5, 6), int(10 ** rng.uniform(0, 5))
        mu = mpf(steps) ** 0.5 / mpf(sigma)
        epsilon = float(mu) * rng.uniform(0, 8) + float(mu) ** 2 / 2
        run = {"noise_multiplier": sigma, "sample_rate": 1, "steps": steps, "accountant": fa.AnalyticGaussian()}
        delta = fa.dpsgd.delta(**run, epsilon=epsilon)
        truth = reference.gaussian_delta(mu, epsilon, digits=20)
        assert truth <= delta <= truth * (1 + mpf("1e-9")) + mpf(2) ** -1070, (sigma, steps, epsilon)
        target = 10 ** rng.uniform(-30, -1)
        if fa.dpsgd.delta(**run, epsilon=0.0) > target:
            # delta falls with epsilon: the exact one is at most the answer, and a little below it is too small
            answer = fa.dpsgd.epsilon(**run, delta=target)
            below = mpf(answer) / (1 + mpf("1e-9"))
            at, before = (reference.gaussian_delta(mu, epsilon, digits=20) for epsilon in (answer, below))
            assert at <= mpf(target) <= before, (sigma, steps, target)


def test_analytic_gaussian_refuses_subsampling():
    with pytest.raises(ValueError, match=r"sample_rate = 0\.5"):
        fa.dpsgd.epsilon(
            noise_multiplier=1, sample_rate=[1, 0.5], steps=1, delta=1e-5, accountant=fa.AnalyticGaussian()
        )


def test_every_certified_accountant_is_above_the_exact_value_and_in_the_expected_order():
    # exact epsilon by contour integration at 30 digits: q = 0.01, sigma = 1, T = 1000, delta = 1e-5
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    exact, optimal, rdp, mironov, zcdp, basic, advanced = (
        fa.dpsgd.epsilon(**run, accountant=a)
        for a in (
            fa.Exact(),
            fa.RDP(conversion="optimal"),
            fa.RDP(),
            fa.RDP(conversion="mironov"),
            fa.ZCDPComposition(),
            fa.BasicComposition(),
            fa.AdvancedComposition(),
        )
    )
    assert 1.828236666516576 < exact < 1.8282366666 < optimal < rdp < mironov < zcdp < basic
    assert exact == fa.dpsgd.epsilon(**run)
    assert advanced <= basic


def test_strong_composition_beats_the_basic_one_for_many_cheap_steps():
    run = {"noise_multiplier": 50.0, "sample_rate": 0.001, "steps": 10000, "delta": 1e-5}
    basic, strong = (fa.dpsgd.epsilon(**run, accountant=a) for a in (fa.BasicComposition(), fa.AdvancedComposition()))
    assert fa.dpsgd.epsilon(**run, accountant=fa.RDP()) < strong < basic


def test_one_step_of_basic_composition_is_the_exact_subsampled_gaussian():
    for sigma, q, delta in [(1.0, 0.01, 1e-5), (0.7, 0.3, 1e-3), (2.0, 1.0, 1e-8)]:
        epsilon = fa.dpsgd.epsilon(
            noise_multiplier=sigma, sample_rate=q, steps=1, delta=delta, accountant=fa.BasicComposition()
        )
        exact = reference.sampled_gaussian_delta(sigma, q, epsilon, "add_remove", digits=18)
        assert exact <= delta
        assert exact == pytest.approx(delta, rel=2e-12, abs=0.0)  # where the search for epsilon ends


def test_zcdp_ignores_amplification_and_matches_its_formula():
    run = {"noise_multiplier": 2.0, "steps": 4, "delta": 1e-6, "accountant": fa.ZCDPComposition()}
    assert fa.dpsgd.epsilon(**run, sample_rate=0.1) == fa.dpsgd.epsilon(**run, sample_rate=1.0)
    assert fa.dpsgd.epsilon(**run, sample_rate=0.0) == 0.0
    rho = 4 / (2 * 2.0**2)
    assert fa.dpsgd.epsilon(**run, sample_rate=1.0) < rho + 2 * math.sqrt(rho * math.log(1e6))


def test_the_central_limit_approximation_is_reached_by_its_name_only():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    assert fa.dpsgd.epsilon_approx(**run, delta=1e-5) == pytest.approx(1.617711808746721, rel=1e-13, abs=0.0)
    assert fa.dpsgd.epsilon_approx(**run, delta=1e-5) < 1.828236666516577  # below the truth: why it is not `epsilon`
    assert 0 < fa.dpsgd.delta_approx(**run, epsilon=1.5) < 1e-4
    for call in (
        lambda: fa.dpsgd.epsilon(**run, delta=1e-5, accountant=fa.CLT()),
        lambda: fa.dpsgd.delta(**run, epsilon=1.0, accountant=fa.CLT()),
        lambda: fa.dpsgd.epsilon_lower(**run, delta=1e-5, accountant=fa.CLT()),
        lambda: fa.dpsgd.delta_bounds(**run, epsilon=1.0, accountant=fa.CLT()),
        lambda: fa.dpsgd.noise_multiplier(epsilon=1, delta=1e-5, sample_rate=0.1, steps=3, accountant=fa.CLT()),
    ):
        with pytest.raises(ValueError, match="CLT"):
            call()


def test_what_an_accountant_does_not_offer_is_refused():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
    with pytest.raises(ValueError, match="BasicComposition does not offer delta"):
        fa.dpsgd.delta(**run, epsilon=1.0, accountant=fa.BasicComposition())
    with pytest.raises(ValueError, match="heterogeneous"):
        fa.dpsgd.epsilon(history=[(1.0, 0.1, 1), (2.0, 0.1, 1)], delta=1e-5, accountant=fa.ZCDPComposition())
    for accountant in (fa.BasicComposition(), fa.Exact()):
        with pytest.raises(ValueError, match="no orders"):
            fa.dpsgd.best_order(**run, delta=1e-5, accountant=accountant)


@pytest.mark.parametrize(
    "accountant", [fa.ZCDPComposition(), fa.BasicComposition(), fa.AdvancedComposition()], ids=repr
)
def test_accountants_without_a_kernel_calibrate_by_a_search(accountant):
    target, run = {"epsilon": 20.0, "delta": 1e-5}, {"noise_multiplier": 3.0, "sample_rate": 0.1, "steps": 20}
    for wanted, closer in (("noise_multiplier", lambda x: x * (1 - 2e-9)), ("steps", lambda n: n + 1)):
        known = {name: value for name, value in run.items() if name != wanted} | {"accountant": accountant}
        found = getattr(fa.dpsgd, wanted)(**target, **known)
        at = [fa.dpsgd.epsilon(**known, **{wanted: x}, delta=1e-5) for x in (found, closer(found))]
        assert at[0] <= 20.0 < at[1]


@pytest.mark.parametrize(
    ("job", "neighbors"),
    [
        (fa.Gaussian(1.0).poisson(0.01) * 100, "replace_one"),
        (fa.Gaussian(2.0).poisson(0.1).group(3) * 4 + fa.Gaussian(9.0), "add_remove"),
        (fa.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]) * 5, "remove"),
    ],
    ids=repr,
)
def test_renyi_covers_every_job_whose_divergence_is_known(job, neighbors):
    lower = fa.epsilon_bounds(job, delta=1e-5, neighbors=neighbors).lower
    found = fa.epsilon(job, delta=1e-5, neighbors=neighbors, accountant=fa.RDP())
    assert 0.0 < lower <= found < 2.0 * lower
    order = np.geomspace(1.5, 100.0, 60)
    at = fa.rdp(job, order, neighbors=neighbors)
    assert found <= min(fa.convert.rdp_to_epsilon(a, d, 1e-5) for a, d in zip(order, at, strict=True)) * (1 + 1e-9)
    assert fa.delta(job, epsilon=found, neighbors=neighbors, accountant=fa.RDP()) <= 1e-5 * (1 + 1e-6)


def test_where_the_contour_is_wide_exact_answers_are_not_above_those_of_losses_on_a_grid():
    job, how = fa.Gaussian(0.3).poisson(1e-5) * 10, {"neighbors": "replace_one"}
    lower, upper, _ = fa.epsilon_bounds(job, delta=1e-6, **how)
    assert 1.34643 < lower <= upper < 1.3465
    assert upper <= fa.epsilon(job, delta=1e-6, accountant=fa.PLD(), **how)


def test_a_bulk_of_losses_far_below_the_largest_one_does_not_end_the_tilts():
    # the tilted losses of this job are narrow at a tilt of 4, but their tail decides
    job = fa.Gaussian(0.7).poisson(1e-4) * 2
    lower, upper, _ = fa.delta_bounds(job, epsilon=2.5, neighbors="replace_one")
    assert 1.8e-18 < lower <= upper < 1.001 * lower


def test_a_run_under_replace_one_is_the_same_job():
    run, one = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}, {"neighbors": "replace_one"}
    job, renyi = fa.Gaussian(1.0).poisson(0.01) * 100, {"delta": 1e-5, "accountant": fa.RDP()}
    assert fa.dpsgd.epsilon(**run, **one, **renyi) == fa.epsilon(job, **one, **renyi)
    assert fa.dpsgd.rdp(**run, **one, orders=4.0) == fa.rdp(job, 4.0, **one)


@pytest.mark.parametrize(
    "accountant",
    [fa.RDP(), fa.ZCDPComposition(), fa.AnalyticGaussian(), fa.BasicComposition(), fa.AdvancedComposition()],
    ids=lambda accountant: type(accountant).__name__,
)
def test_only_the_exact_accountant_proves_lower_bounds(accountant):
    run = {"noise_multiplier": 1.0, "sample_rate": 1.0, "steps": 10}
    for call, target in (
        (fa.dpsgd.epsilon_lower, {"delta": 1e-5}),
        (fa.dpsgd.epsilon_bounds, {"delta": 1e-5}),
        (fa.dpsgd.delta_lower, {"epsilon": 1.0}),
        (fa.dpsgd.delta_bounds, {"epsilon": 1.0}),
    ):
        assert call(**run, **target) is not None
        with pytest.raises(
            ValueError, match=rf"{type(accountant).__name__} proves no lower bound; use fastacct\.Exact"
        ):
            call(**run, **target, accountant=accountant)


def test_every_upper_bound_is_above_the_exact_lower_bound():
    run = {"noise_multiplier": [0.8, 1.0, 4.0], "sample_rate": 0.01, "steps": [[1], [100], [10000]], "delta": 1e-5}
    lower = fa.dpsgd.epsilon_lower(**run)
    for accountant in (fa.RDP(), fa.RDP(conversion="optimal"), fa.ZCDPComposition(), fa.BasicComposition()):
        assert (fa.dpsgd.epsilon(**run, accountant=accountant) >= lower).all(), accountant


def test_one_step_of_basic_composition_is_the_exact_accountant():
    run = {
        "noise_multiplier": [0.7, 1.0, 2.0],
        "sample_rate": [0.3, 0.01, 1.0],
        "steps": 1,
        "delta": [1e-3, 1e-5, 1e-8],
    }
    one = fa.dpsgd.epsilon(**run, accountant=fa.BasicComposition())
    np.testing.assert_allclose(fa.dpsgd.epsilon(**run), one, rtol=1e-14, atol=0.0)  # one closed form, two searches


def test_without_sampling_the_exact_accountant_is_the_analytic_gaussian():
    run = {"noise_multiplier": [1.0, 10.0, 300.0], "sample_rate": 1.0, "steps": [3, 100, 40], "delta": 1e-7}
    analytic = fa.dpsgd.epsilon(**run, accountant=fa.AnalyticGaussian())
    np.testing.assert_allclose(fa.dpsgd.epsilon(**run), analytic, rtol=1e-14, atol=0.0)  # as above


def test_accountants_are_values():
    assert fa.RDP(orders=range(2, 5)) == fa.RDP(orders=[2.0, 3.0, 4.0])
    assert hash(fa.RDP()) == hash(fa.RDP(conversion="canonne_kamath_steinke"))
    assert fa.RDP(orders=np.array([2.5])).orders == (2.5,)
    assert fa.Exact() == fa.Exact()
    assert repr(fa.Exact()) == "Exact()"
    with pytest.raises(AttributeError):
        fa.RDP().conversion = "mironov"
