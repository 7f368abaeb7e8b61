"""riskcal's names over fastacct jobs: certified, and what must not pass."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa

pytest.importorskip("riskcal", reason="the extra riskcal is not installed")

from riskcal import analysis, calibration
from riskcal.accountants import CTDAccountant
from riskcal.calibration import CalibrationConfig, CalibrationTarget, calibrate_parameter

from fastacct.compat import riskcal as ours

STEPS = [(1.0, 0.1, 3), (2.0, 0.05, 20), (1.0, 0.1, 2)]
"""Noise multiplier, sample rate and number of steps, in this order."""
JOB = fa.Gaussian(1.0).poisson(0.1) * 5 + fa.Gaussian(2.0).poisson(0.05) * 20
ALPHAS = np.array([0.001, 0.01, 0.1, 0.5])
GRID = np.array([1e-3, 1e-5, 1e-5, 1e-5])
"""What riskcal's grid moves the false-negative rates of this job at these rates: upwards, too."""


def filled(kind):
    made = kind()
    for noise, rate, count in STEPS:
        for _ in range(count):
            made.step(noise_multiplier=noise, sample_rate=rate)
    return made


def check(kind):
    """An accountant is between the truth and riskcal's own, which is pessimistic but for its grid."""
    made, theirs = filled(kind), filled(CTDAccountant)
    for delta in (1e-3, 1e-6):
        lower, upper, _ = fa.epsilon_bounds(JOB, delta=delta)
        assert lower <= made.get_epsilon(delta=delta) <= min(upper, theirs.get_epsilon(delta=delta)) * (1 + 1e-9)
    lower, upper, _ = fa.advantage_bounds(JOB)
    assert lower <= made.get_advantage() <= min(upper, theirs.get_advantage()) * (1 + 1e-9)
    lower, upper, _ = fa.tradeoff_bounds(JOB, ALPHAS, envelope="convex")
    found = made.get_beta(alpha=ALPHAS)
    assert (lower * (1 - 1e-12) <= found).all()
    assert (found <= upper).all()
    assert np.allclose(found, theirs.get_beta(alpha=ALPHAS), rtol=0.0, atol=GRID)


def test_the_accountant_is_certified_and_near_riskcals():
    check(ours.FastAccountant)


class Low(ours.FastAccountant):
    def get_epsilon(self, **keywords):
        return super().get_epsilon(**keywords) * 0.97


class Once(ours.FastAccountant):
    @property
    def process(self):
        return fa.Process([(mechanism, 1) for mechanism, _ in super().process])


class Hopeful(ours.FastAccountant):
    def get_beta(self, **keywords):
        return super().get_beta(**keywords) * 1.001


@pytest.mark.parametrize("canary", [Low, Once, Hopeful])
def test_wrong_accountants_are_caught(canary):
    with pytest.raises(AssertionError):
        check(canary)


def test_the_accountant_keeps_riskcals_bookkeeping():
    made = filled(ours.FastAccountant)
    assert (len(made), made.history, made.process) == (25, STEPS, JOB)
    again = ours.FastAccountant()
    again.load_state_dict(made.state_dict())
    assert again.get_epsilon(delta=1e-5, grid_step=1e-3) == made.get_epsilon(delta=1e-5)
    with pytest.raises(ValueError, match="ctd"):
        again.load_state_dict(filled(CTDAccountant).state_dict())
    assert ours.FastAccountant().get_epsilon(delta=1e-5) == 0.0
    pld = made.get_pld(grid_step=1e-3)
    assert fa.epsilon_lower(JOB, delta=1e-5) <= pld.get_epsilon_for_delta(1e-5) <= fa.epsilon(JOB, delta=1e-5) + 2e-3


def test_conversions_are_riskcals_on_the_safe_side():
    pld = filled(CTDAccountant).get_pld()
    assert ours.get_advantage(JOB) == pytest.approx(analysis.get_advantage_from_pld(pld), rel=1e-5)
    assert ours.get_advantage(JOB) == fa.advantage(JOB)
    for prior in (0.2, 0.5, 0.7):
        lower, upper, _ = fa.bayes_risk_bounds(JOB, members=prior)
        assert lower <= ours.get_bayes_risk(JOB, prior) <= upper
        assert ours.get_bayes_risk(JOB, prior) == pytest.approx(analysis.get_bayes_risk_from_pld(pld, prior), abs=1e-5)
    gaussian = fa.Gaussian(2.0)
    assert ours.get_beta(gaussian, ALPHAS) == pytest.approx(analysis.get_beta_from_gdp(0.5, ALPHAS), rel=1e-9)
    assert ours.get_advantage(gaussian) == pytest.approx(analysis.get_advantage_from_gdp(0.5), rel=1e-12)
    pure = ours.get_beta(fa.ApproxDP(1.0, 0.001), ALPHAS)
    assert pure == pytest.approx(analysis.get_beta_from_adp(1.0, 0.001, ALPHAS), rel=1e-6)
    assert (ours.get_beta(gaussian, ALPHAS, neighbors="replace_one") < ours.get_beta(gaussian, ALPHAS)).all()


RUN = {"sample_rate": 0.01, "num_steps": 300}


def test_noise_for_an_advantage_meets_it_and_little_less_does_not():
    noise = ours.find_noise_multiplier_for_advantage(0.05, **RUN, advantage_tol=1.0)
    assert fa.advantage(fa.Gaussian(noise).poisson(0.01) * 300) <= 0.05
    assert fa.advantage_bounds(fa.Gaussian(noise * (1 - 1e-6)).poisson(0.01) * 300).lower > 0.05
    theirs = calibration.dpsgd.find_noise_multiplier_for_advantage(0.05, **RUN, noise_max=4.0)
    assert noise == pytest.approx(theirs, rel=0.01)
    with pytest.raises(ValueError, match="advantage"):
        ours.find_noise_multiplier_for_advantage(0.001, **RUN, noise_max=1.0)


def test_noise_for_error_rates_meets_them_and_little_less_does_not():
    noise = ours.find_noise_multiplier_for_err_rates(0.01, 0.95, **RUN, beta_tol=1.0)
    job, less = (fa.Gaussian(s).poisson(0.01) * 300 for s in (noise, noise * (1 - 1e-6)))
    assert fa.tradeoff(job, 0.01, envelope="convex") >= 0.95
    assert fa.tradeoff_bounds(less, 0.01, envelope="convex").upper < 0.95
    with pytest.raises(ValueError, match="noise_max"):
        ours.find_noise_multiplier_for_err_rates(0.01, 0.98, **RUN, noise_max=0.5)
    with pytest.raises(ValueError, match="increasing"):
        ours.find_noise_multiplier_for_err_rates(0.01, 0.5, **RUN, noise_min=1.0, noise_max=1.0)


def test_riskcals_search_takes_the_evaluators():
    evaluator = ours.create_dpsgd_evaluator(**RUN, target_alpha=0.01)
    found, job = evaluator(1.0), fa.Gaussian(1.0).poisson(0.01) * 300
    assert (found.advantage, found.beta, found.epsilon) == (fa.advantage(job), ours.get_beta(job, 0.01), None)
    config = CalibrationConfig(increasing=False, param_min=0.1, param_max=50.0)
    laplace = ours.create_evaluator(lambda scale: fa.Laplace(scale) * 4, target_delta=1e-6)
    for target in (
        CalibrationTarget(kind="advantage", advantage=0.2),
        CalibrationTarget(kind="epsilon_delta", epsilon=1.0, delta=1e-6),
    ):
        result = calibrate_parameter(laplace, target, config)
        achieved = result.achieved_advantage if target.kind == "advantage" else result.achieved_epsilon
        assert achieved == pytest.approx(target.advantage or target.epsilon, abs=1e-3)
    noise = calibration.find_noise_multiplier_for_epsilon_delta(ours.FastAccountant, 0.01, 100, 1.0, 1e-5)
    assert fa.epsilon(fa.Gaussian(noise).poisson(0.01) * 100, delta=1e-5) <= 1.0 + 1e-3


def test_riskcals_curve_of_a_long_run_is_above_what_is_refuted():
    """The claim of the page: no pair of distributions has a curve above the certified one."""
    job = fa.Gaussian(1.0).poisson(0.002) * 10_000
    theirs = calibration.dpsgd.get_beta_for_dpsgd(1.0, 0.002, 10_000, 0.01)
    assert theirs > fa.tradeoff_bounds(job, 0.01, envelope="convex").upper + 1e-4


def test_a_step_has_the_rate_that_the_loader_of_opacus_draws_with():
    class Optimizer:
        noise_multiplier, accumulated_iterations = 1.0, 1

    accountant = ours.FastAccountant()
    record = accountant.get_optimizer_hook_fn(1 / 1000)
    for _ in range(1000):
        record(Optimizer)
    drawn = fa.Gaussian(1.0).poisson(16778 / 2**24) * 1000
    assert accountant.get_epsilon(delta=1e-5) >= fa.epsilon_lower(drawn, delta=1e-5) > 0.148909


def test_steps_that_are_no_poisson_sample_are_refused_by_name():
    """Opacus calls the hook as `make_private` does: with its arguments as local variables."""

    class Optimizer:
        noise_multiplier, accumulated_iterations = 1.0, 1

    def make_private(poisson_sampling):
        return accountant.get_optimizer_hook_fn(sample_rate=0.05)

    accountant, rate = ours.FastAccountant(), math.ceil(0.05 * 2**24) / 2**24  # below which 24 bits are
    record = make_private(True)
    record(Optimizer)
    assert accountant.history == [(1.0, rate, 1)]
    Optimizer.accumulated_iterations = 4
    with pytest.raises(ValueError, match=r"a step on 4 batches: .*fastacct\.compat\.opacus"):
        record(Optimizer)
    with pytest.raises(ValueError, match=r"poisson_sampling=False: .*fastacct\.compat\.opacus"):
        make_private(False)
    assert accountant.history == [(1.0, rate, 1)]


def test_the_page_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "backends" / "riskcal.md").read_text()
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]
    exec(compile(example, "riskcal.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("counts", [(1, 40), (40, 1)])
def test_no_composition_is_below_a_part(counts):
    parts = [fa.Gaussian(8.0).fixed_size(20, 1000) * counts[0], fa.Laplace(8.0) * counts[1]]
    for job in (parts[0] + parts[1], parts[1] + parts[0]):
        whole = ours.get_advantage(job, neighbors="replace_one")
        for part in parts:
            assert whole >= fa.advantage_bounds(part, neighbors="replace_one").lower * (1.0 - 1e-9)
