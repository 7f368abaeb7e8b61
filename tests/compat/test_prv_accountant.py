"""The names of prv_accountant: certified intervals, foreign mechanisms, and what must not pass."""

import itertools
import random
import subprocess
import sys
import types

import numpy as np
import pytest

import fastacct as fa
from fastacct.compat import prv_accountant as ours
from fastacct.compat.prv_accountant import dpsgd, privacy_random_variables
from fastacct.compat.prv_accountant.accountant import Accountant, PRVAccountant

NEAR = 1e-9
"""Relative: parameters are rounded to the safe side, and Laplace noise among others is read on a grid."""


def test_neither_package_imports_prv_accountant():
    code = "import sys, fastacct.compat.prv_accountant.dpsgd; print('prv_accountant' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def drawn(rng):
    """A mechanism of this package, and the same in fastacct, by rules written down here once more."""
    noise, rate, eps = rng.uniform(0.7, 3.0), rng.choice([0.001, 0.02, 1.0]), rng.uniform(0.01, 0.2)
    return rng.choice(
        [
            (ours.PoissonSubsampledGaussianMechanism(rate, noise), fa.Gaussian(noise).poisson(rate)),
            (ours.GaussianMechanism(3.0 * noise, 0.5), fa.Gaussian(6.0 * noise)),
            (ours.LaplaceMechanism(eps), fa.Laplace(1.0 / eps)),
            (ours.PureDPMechanism(eps), fa.PureDP(eps)),
            (ours.ApproximateDPMechanism(eps, 1e-9), fa.ApproxDP(eps, 1e-9)),
        ]
    )


def check(seed, accountant=PRVAccountant):
    rng = random.Random(seed)
    parts, counts = [drawn(rng) for _ in range(rng.choice([1, 2]))], [rng.choice([2, 7, 30]) for _ in range(2)]
    counts = counts[: len(parts)]
    whole = sum((one * n for (_, one), n in zip(parts, counts, strict=True)), fa.Process())
    made = accountant([prv for prv, _ in parts], 0.1, 1e-9, max_self_compositions=[30] * len(parts))
    low, high, _ = fa.epsilon_bounds(whole, delta=1e-6)
    lower, estimate, upper = made.compute_epsilon(1e-6, counts)
    assert lower <= high * (1 + NEAR)
    assert low * (1 - NEAR) <= upper == estimate <= high * (1 + NEAR) + 1e-4
    assert not upper - lower > made.eps_error
    low, high, _ = fa.delta_bounds(whole, epsilon=0.5)
    lower, estimate, upper = made.compute_delta(0.5, counts)
    assert lower <= high * (1 + NEAR)
    assert low * (1 - NEAR) <= upper == estimate <= high * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(25))
def test_bounds_contain_the_truth_and_are_narrow(seed):
    check(seed)


class Low(PRVAccountant):
    def compute_epsilon(self, *args):
        return tuple(0.97 * bound for bound in super().compute_epsilon(*args))


class Once(PRVAccountant):
    def compute_composition(self, num_self_compositions=None):
        return super().compute_composition(None)


class Wide(PRVAccountant):
    def compute_epsilon(self, *args):
        lower, estimate, upper = super().compute_epsilon(*args)
        return lower - 0.2, estimate, upper


@pytest.mark.parametrize("canary", [Low, Once, Wide])
def test_wrong_accountants_are_caught(canary):
    for seed in range(5):
        with pytest.raises(AssertionError):
            check(seed, canary)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_within_those_of_prv_accountant(seed):
    theirs = pytest.importorskip("prv_accountant", reason="prv_accountant is not installed")
    rng = random.Random(seed)
    noise, rate, steps = rng.uniform(0.8, 2.0), rng.uniform(0.005, 0.02), 500
    args = {"eps_error": 0.05, "delta_error": 1e-9, "max_self_compositions": [steps, 3]}
    prvs = [theirs.PoissonSubsampledGaussianMechanism(rate, noise), theirs.LaplaceMechanism(0.05)]
    low, _, high = theirs.PRVAccountant(prvs, **args).compute_epsilon(1e-6, [steps, 3])
    whole = fa.Gaussian(noise).poisson(rate) * steps + fa.Laplace(20.0) * 3
    lower, _, upper = PRVAccountant(prvs, **args).compute_epsilon(1e-6, [steps, 3])  # their objects
    assert low <= lower <= upper <= high
    assert fa.epsilon_lower(whole, delta=1e-6) <= upper <= fa.epsilon(whole, delta=1e-6) * (1 + 1e-6)


def test_objects_of_an_installed_prv_accountant_are_known_by_class_and_rounded_to_the_safe_side():
    def foreign(name, **parameters):
        kind = type(name, (), {"__module__": "prv_accountant.privacy_random_variables.any"})
        made = kind()
        vars(made).update(parameters)
        return made

    job_of = privacy_random_variables.job_of
    fine = np.longdouble(1) + np.finfo(np.longdouble).eps
    step = job_of(foreign("PoissonSubsampledGaussianMechanism", p=fine / 10, sigma=fine))
    assert step.mechanism.noise_multiplier == 1.0 <= fine
    assert step.sample_rate >= fine / 10
    assert job_of(foreign("GaussianMechanism", mu=0.5)).noise_multiplier == pytest.approx(2.0, rel=1e-15)
    assert job_of(foreign("GaussianMechanism", mu=0.5)).noise_multiplier < 2.0
    pure = foreign("PureDPMechanism", eps=0.5)
    assert job_of(foreign("ApproximateDPMechanism", pure_dp=pure, delta=1e-6)) == fa.ApproxDP(0.5, 1e-6)
    with pytest.raises(TypeError, match="Unheard is not supported"):
        job_of(foreign("Unheard"))


def test_a_users_own_random_variable_is_refused_by_name():
    class MyNoise(ours.PrivacyRandomVariable):
        def cdf(self, t):
            return 0.5

    class MyLaplace(ours.LaplaceMechanism):
        pass

    for made in (MyNoise(), MyLaplace(1.0), types.SimpleNamespace(cdf=abs)):
        with pytest.raises(TypeError, match=type(made).__name__):
            PRVAccountant(made, 0.1, 1e-9)
    accountant = PRVAccountant(fa.Laplace(2.0), 0.1, 1e-9, max_self_compositions=[3])
    assert accountant.compute_epsilon(0.0, 3)[2] == fa.epsilon(fa.Laplace(2.0) * 3, delta=0.0)


def test_numbers_that_do_not_fit_are_refused():
    step = ours.PoissonSubsampledGaussianMechanism(0.01, 1.0)
    accountant = PRVAccountant([step], 0.1, 1e-9, [10])
    for counts in ([11], [1, 1], [-1], [1.5], [float("nan")], 11):
        with pytest.raises(ValueError, match="num_self_compositions"):
            accountant.compute_epsilon(1e-5, counts)
    assert accountant.compute_composition(np.int64(7)) == accountant.compute_composition([7])
    assert accountant.compute_composition() == fa.Gaussian(1.0).poisson(0.01) * 1
    assert accountant.compute_epsilon(1e-5, [0]) == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="eps_error"):
        PRVAccountant([step], 0.0, 1e-9)
    for make in (lambda: ours.GaussianMechanism(1.0, 0.0), lambda: ours.LaplaceMechanism(-1.0)):
        with pytest.raises(ValueError, match="above 0"):
            make()


def test_an_interval_wider_than_asked_comes_with_a_warning():
    accountant = PRVAccountant(fa.ZCDP(0.1), 0.1, 1e-9)
    with pytest.warns(RuntimeWarning, match="no narrower interval"):
        lower, _, upper = accountant.compute_epsilon(1e-5)
    assert lower <= upper == fa.epsilon(fa.ZCDP(0.1), delta=1e-5)


def test_divergences_and_infinite_losses():
    assert ours.LaplaceMechanism(1.0).rdp(4.0) == pytest.approx(fa.rdp(fa.Laplace(1.0), 4.0), rel=1e-14)
    assert ours.ApproximateDPMechanism(1.0, 1e-6).pm_inf == 1e-6
    assert ours.PureDPMechanism(1.0).pm_inf == 0.0
    assert all(issubclass(getattr(ours, name), ours.PrivacyRandomVariable) for name in ours.__all__ if "Mech" in name)


def test_accountants_of_dp_sgd():
    truth = fa.epsilon_bounds(fa.Gaussian(1.0).poisson(0.01) * 300, delta=1e-5)
    made = dpsgd.DPSGDAccountant(noise_multiplier=1.0, sampling_probability=0.01, max_steps=1000)
    assert made.compute_epsilon(delta=1e-5, num_steps=300) == (truth.lower, truth.upper, truth.upper)
    assert made.compute_delta(1.0, 300)[2] == fa.delta(fa.Gaussian(1.0).poisson(0.01) * 300, epsilon=1.0)
    with pytest.deprecated_call():
        old = Accountant(1.0, 0.01, delta=1e-5, max_compositions=1000, eps_error=0.1)
    assert old.compute_epsilon(num_compositions=300) == made.compute_epsilon(1e-5, 300)


@pytest.mark.parametrize(("rate", "steps", "epsilon"), [(0.01, 1000, 2.0), (0.26058631921824105, 18800, 40.0)])
def test_the_noise_found_meets_the_target_and_little_less_does_not(rate, steps, epsilon):
    noise = dpsgd.find_noise_multiplier(rate, steps, epsilon, 1e-5)
    assert dpsgd.DPSGDAccountant(noise, rate, steps).compute_epsilon(1e-5, steps)[2] <= epsilon
    assert dpsgd.DPSGDAccountant(noise * (1 - 1e-6), rate, steps).compute_epsilon(1e-5, steps)[0] > epsilon
    with pytest.raises(RuntimeError, match="mu_max"):
        dpsgd.find_noise_multiplier(rate, steps, epsilon, 1e-5, mu_max=0.5)


def test_no_composition_is_below_a_part():
    batch = fa.Gaussian(8.0).poisson(0.02, at_most=40, records=1000)
    parts = [ours.GaussianMechanism(4.0), ours.LaplaceMechanism(0.1), fa.Gaussian(3.0).fixed_size(20, 1000), batch]
    for first, second in itertools.permutations(parts, 2):
        most = {"max_self_compositions": [40, 40]}
        _, _, whole = PRVAccountant([first, second], 10.0, 1e-9, **most).compute_epsilon(1e-3, [1, 40])
        for part, count in ((first, 1), (second, 40)):
            least, _, _ = PRVAccountant(part, 10.0, 1e-9, max_self_compositions=[40]).compute_epsilon(1e-3, [count])
            assert whole >= least * (1.0 - 1e-9), (first, second)
