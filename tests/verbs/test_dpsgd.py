"""The exact accountant on DP-SGD: values computed elsewhere and closed forms are inside its bounds, the bounds are
narrow, and relations and edges have their answers."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from tests.containment import encloses_gaussian

RELATIONS = ("add_remove", "add", "remove", "zero_out", "replace_one")


TIGHT = fa.Status.TIGHT


# sample_rate, noise_multiplier, steps, delta, epsilon: contour integrals at 30 digits (mpmath), two
# quadratures each; the larger direction is `remove`.  As many digits as both agree on.
EPSILONS = [
    ("0.01", "1", 1000, "1e-5", "1.828236666516577", "same run, one delta after another"),
    ("0.01", "1", 1000, "1e-6", "2.1245151711201", ""),
    ("0.01", "1", 1000, "1e-8", "2.6978679344938", ""),
    ("0.01", "1", 1000, "1e-9", "2.9895827500164", ""),
    ("0.01", "1", 1000, "1e-10", "3.2904437508953", ""),
    ("0.01", "1", 1000, "1e-11", "3.5998747752228", ""),
    ("0.01", "1", 1000, "1e-12", "3.91429815603747", "FFT libraries lose it here"),
    ("0.01", "1", 1000, "1e-13", "4.2298113591490", ""),
    ("0.01", "1", 1000, "1e-14", "4.5437019885931", ""),
    ("0.01", "1", 1000, "1e-15", "4.854537750604924", ""),
    ("0.01", "4", 10000, "1e-5", "0.9468668007643804", "Abadi et al. 2016, published 1.26"),
    ("0.001", "0.8", 20000, "1e-7", "1.487465154879526", ""),
    ("0.5", "5", 10, "1e-6", "1.468665021160587", ""),
    ("1e-4", "1", 1000000, "1e-8", "0.6581136753753002", ""),
    ("0.0042666666666666666666", "1.1", 14062, "1e-5", "2.381596921424", "TF-Privacy README, published 3.01"),
    ("0.0041666666666666666666", "1.3", 3600, "1e-5", "0.8529795222699", "TF-Privacy tutorial, published 1.18"),
    ("0.0025", "1.3", 6000, "1e-5", "0.6400036734422", "TF-Privacy test, published 0.7242"),
    ("0.001", "1", 30000, "1e-7", "1.097676771536", "TF-Privacy test, published 1.4155"),
    ("0.004", "1.3", 3750, "1e-5", "0.8335354979398", "Opacus README, published 1.16"),
    ("0.004", "1.1", 15000, "1e-5", "2.295370196660", "Opacus README, published 2.91"),
    ("0.004", "0.7", 11250, "1e-5", "5.431186487154", "Opacus README, published 6.86"),
    ("0.04", "1.5", 2250, "1e-5", "6.768780393418", "Opacus test, published 7.329"),
    ("0.04", "1.5", 2249, "1e-5", "6.767044105817", "Opacus test, PRV published 6.7774"),
    ("0.01", "2", 10000, "1e-6", "2.446733944484", "Koskela et al., published 2.446733916"),
    ("0.01", "2", 10000, "1e-5", "2.162704590679", "Koskela et al., published 2.162704603"),
    ("0.01", "1", 10000, "1e-6", "6.907384495045", "Koskela et al., published 6.907422808"),
    ("0.08192", "10", 875, "1e-5", "0.9027602776127", "De et al. 2022, CIFAR-10, published 1"),
    ("0.01278834063006618184826802", "2.5", 71589, "8e-7", "7.440152238660", "De et al. 2022, ImageNet, published 8"),
]


# direction, sample_rate, noise_multiplier, steps, epsilon, delta: contour integrals in 80-bit arithmetic, two steps by
# conditioning on the first.  The multi-scale regime (few participations, small noise) is before the last row.
DELTAS = [
    ("remove", 0.01, 1.0, 10000, 6.0, "1.7597760848e-05"),
    ("add", 0.01, 1.0, 10000, 6.0, "2.2954140803e-06"),
    ("remove", 0.01, 1.0, 1000, 1.5, "1.0925590766881e-04"),
    ("remove", 0.1, 2.0, 100, 1.0, "1.1497861201e-02"),
    ("remove", 0.02, 0.5, 2, 1.0, "0.002232888468572"),
    ("remove", 0.1, 1.0, 2, 0.3, "0.01187510056858"),
    ("remove", 0.5, 2.0, 2, 0.2, "0.07473618549057"),
    ("add", 0.5, 2.0, 2, 0.2, "0.06190479977587"),
    ("remove", 1e-4, 0.5, 10000, 0.5, "1.337265729e-04"),
    ("remove", 0.02, 0.8, 10, 1.0, "1.051038519e-04"),
    ("remove", 1e-5, 0.5, 10000, 0.2, "9.8865569368e-07"),
    ("remove", 1e-4, 0.7, 1, 0.5, "5.613440032395860e-13"),
]


def ulp_of(text):
    """Half a unit of the last digit written, relative, and the doubling that floats of decimal inputs may cost."""
    digits = len(text.split("e")[0].replace(".", "").lstrip("0"))
    return 10.0 ** (1 - digits) + 1e-13


@pytest.mark.parametrize(("q", "sigma", "steps", "delta", "truth", "note"), EPSILONS)
def test_epsilon_contains_the_contour_integral_at_thirty_digits(q, sigma, steps, delta, truth, note):
    run = {"noise_multiplier": float(sigma), "sample_rate": float(q), "steps": steps, "delta": float(delta)}
    lower, upper, status = fa.dpsgd.epsilon_bounds(**run)
    slack = ulp_of(truth)
    assert lower <= float(truth) * (1 + slack), note
    assert float(truth) * (1 - slack) <= upper, note
    assert status == TIGHT
    assert upper - lower <= 1e-9 * upper
    assert fa.dpsgd.epsilon(**run) == upper
    assert fa.dpsgd.epsilon_lower(**run) == lower
    assert fa.dpsgd.epsilon_bounds(**run, neighbors="remove") == (lower, upper, status)


@pytest.mark.parametrize(("direction", "q", "sigma", "steps", "epsilon", "truth"), DELTAS)
def test_delta_contains_values_computed_elsewhere(direction, q, sigma, steps, epsilon, truth):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "epsilon": epsilon}
    lower, upper, status = fa.dpsgd.delta_bounds(**run, neighbors=direction)
    slack = ulp_of(truth)
    assert lower <= float(truth) * (1 + slack)
    assert float(truth) * (1 - slack) <= upper
    if status == TIGHT:
        assert upper - lower <= 1e-6 * upper
    assert fa.dpsgd.delta(**run, neighbors=direction) == upper
    assert fa.dpsgd.delta_lower(**run, neighbors=direction) == lower


def test_long_runs_are_certified_and_narrow():
    rng = np.random.default_rng(5)
    sigma, q = rng.uniform(0.6, 4, 200), 10 ** rng.uniform(-2.5, -1, 200)
    steps, delta = np.floor(10 ** rng.uniform(4, 5, 200)), 10 ** rng.uniform(-9, -4, 200)
    lower, upper, status = fa.dpsgd.epsilon_bounds(noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta)
    assert (status == TIGHT).all()
    assert ((upper - lower) / upper).max() < 1e-8
    assert np.median((upper - lower) / upper) < 1e-9


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_one_step_is_the_closed_form(direction):
    rng = np.random.default_rng(21)
    for _ in range(60):
        sigma, q, epsilon = 10 ** rng.uniform(-0.5, 1), 10 ** rng.uniform(-6, -0.01), 10 ** rng.uniform(-4, 0.8)
        if direction == "add":
            epsilon = -math.log1p(-q) * rng.uniform(0, 1.2)
        truth = reference.sampled_gaussian_delta(sigma, q, epsilon, direction, digits=20)
        run = {"noise_multiplier": sigma, "sample_rate": q, "steps": 1, "neighbors": direction}
        lower, upper, _ = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
        assert mpf(lower) <= truth <= mpf(upper), (sigma, q, epsilon)
        beyond = direction == "add" and epsilon >= -math.log1p(-q)
        near = -math.log1p(-q) - epsilon < 1e-6 * q  # 1 - (1-q) exp(epsilon) cancels there
        assert upper == 0.0 if beyond else upper - lower <= (1e-9 if not near else 1) * upper + 1e-300
        if truth > 1e-200 and not beyond and not near:
            low, high, _ = fa.dpsgd.epsilon_bounds(**run, delta=float(truth))
            assert low * (1 - 1e-9) <= epsilon <= high * (1 + 1e-9) + 1e-15, (sigma, q, epsilon)


def test_without_sampling_it_is_the_gaussian():
    rng = np.random.default_rng(22)
    for _ in range(25):
        sigma, steps = 10 ** rng.uniform(-0.5, 2), int(10 ** rng.uniform(0, 4))
        mu = mp.sqrt(steps) / mpf(sigma)
        delta = 10 ** rng.uniform(-40, -0.5)
        run = {"noise_multiplier": sigma, "sample_rate": 1.0, "steps": steps}
        bounds = fa.dpsgd.epsilon_bounds(**run, delta=delta)
        assert encloses_gaussian(bounds, mu, delta, 1e-9), (sigma, steps, delta)
        for relation in ("add", "remove", "zero_out"):
            assert fa.dpsgd.epsilon_bounds(**run, delta=delta, neighbors=relation) == bounds
        replaced = fa.dpsgd.epsilon_bounds(**run, delta=delta, neighbors="replace_one")
        assert encloses_gaussian(replaced, 2 * mu, delta, 1e-9), (sigma, steps, delta)
        epsilon = float(mu) * rng.uniform(0, 8) + float(mu) ** 2 / 2
        lower, upper, _ = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
        assert mpf(lower) <= reference.gaussian_delta(mu, epsilon, digits=25) <= mpf(upper), (sigma, steps, epsilon)


def test_the_advantage_is_delta_at_zero():
    run = {"noise_multiplier": 2.0, "sample_rate": 1.0, "steps": 4}
    with mp.workdps(30):
        truth = 2 * mp.ncdf(mpf("0.5")) - 1
    lower, upper, _ = fa.dpsgd.delta_bounds(**run, epsilon=0.0)
    assert lower <= truth <= upper
    directions = [
        fa.dpsgd.delta(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=0.0, neighbors=n)
        for n in ("add", "remove")
    ]
    # total variation distance: the same from both sides, up to the widths of both
    assert directions[0] == pytest.approx(directions[1], rel=2e-10, abs=0.0)


def test_add_remove_is_the_larger_direction_and_zero_out_has_the_same_pair():
    rng = np.random.default_rng(6)
    run = {
        "noise_multiplier": rng.uniform(0.6, 4, 40),
        "sample_rate": 10 ** rng.uniform(-2.5, 0, 40),
        "steps": np.floor(10 ** rng.uniform(3, 5, 40)),
    }
    for quantity, target in ((fa.dpsgd.epsilon_bounds, {"delta": 1e-6}), (fa.dpsgd.delta_bounds, {"epsilon": 0.7})):
        both, add, remove, zero_out = (
            quantity(**run, **target, neighbors=n) for n in ("add_remove", "add", "remove", "zero_out")
        )
        np.testing.assert_array_equal(both.upper, np.maximum(add.upper, remove.upper))
        assert (both.lower >= np.maximum(add.lower, remove.lower) * (1 - 1e-12)).all()
        assert (add.upper <= remove.upper * (1 + 1e-9)).all()
        for name in fa.Bounds._fields:
            np.testing.assert_array_equal(getattr(zero_out, name), getattr(both, name))


def test_the_add_direction_has_a_largest_loss():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, "neighbors": "add"}
    end = -10 * mp.log1p(-mpf(0.1))
    lower, upper, status = fa.dpsgd.epsilon_bounds(**run, delta=0.0)
    assert lower <= end <= upper < lower * (1 + 1e-14)
    assert status == TIGHT
    assert fa.dpsgd.delta(**run, epsilon=float(upper)) == 0.0
    assert fa.dpsgd.delta(**run, epsilon=float(upper) * 0.5) > 0.0
    history = [(1.0, 0.1, 4), (3.0, 0.1, 6)]
    assert fa.dpsgd.epsilon(history=history, delta=0.0, neighbors="add") == pytest.approx(
        float(end), rel=4e-15, abs=0.0
    )


@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.9])
@pytest.mark.parametrize("steps", [1, 5, 1000])
def test_without_noise_an_added_record_shows_only_where_it_is_drawn(rate, steps):
    """Surely nobody is drawn, or with probability (1 - rate)^steps: delta is 1 - exp(epsilon) times that."""
    run = {"noise_multiplier": 0.0, "sample_rate": rate, "steps": steps, "neighbors": "add"}
    job, end = fa.Gaussian(0.0).poisson(rate) * steps, -steps * mp.log1p(-mpf(rate))
    for epsilon in (0.0, 0.3 * float(end), 0.999 * float(end)):
        truth = -mp.expm1(epsilon - end)
        lower, upper, _ = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
        assert lower <= truth <= upper <= truth * (1 + 1e-9)
        assert fa.delta_bounds(job, epsilon=epsilon, neighbors="add") == (lower, upper, _)
    for delta in (0.0, 1e-12, 1e-6):
        truth = max(end + mp.log1p(-mpf(delta)), 0)
        lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, delta=delta)
        assert lower <= truth <= upper <= max(truth, end * (1 + 1e-14))
        assert fa.epsilon(job, delta=delta, neighbors="add") == upper == fa.dpsgd.epsilon(**run, delta=delta)
    other = fa.epsilon(job + fa.Gaussian(0.0).poisson(0.5) * 3, delta=1e-6, neighbors="add")
    assert end + 3 * mp.log(2) - 2e-6 <= other <= (end + 3 * mp.log(2)) * (1 + 1e-13)


def test_replace_one_meets_the_substitute_value_of_koskela_et_al():
    run = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 10000, "neighbors": "replace_one"}
    truth = 4.90739819217  # contour integral; the published Fourier accountant has 4.907397523
    lower, upper, status = fa.dpsgd.epsilon_bounds(**run, delta=1e-6)
    assert lower * (1 - 1e-11) <= truth <= upper * (1 + 1e-11)
    assert upper - lower < 1e-9
    assert status == TIGHT
    assert fa.dpsgd.epsilon(history=[(2.0, 0.01, 10000)], delta=1e-6, neighbors="replace_one") == upper


def test_one_step_of_replace_one_is_above_its_closed_form():
    # mixtures (1-q) N(0) + q N(+1) against (1-q) N(0) + q N(-1): quadrature at 30 digits
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 1, "epsilon": 0.3, "neighbors": "replace_one"}
    lower, upper, status = fa.dpsgd.delta_bounds(**run)
    assert lower <= 0.0096965637850064 * (1 + 1e-13)
    assert upper >= 0.0096965637850064 * (1 - 1e-13)
    if status == TIGHT:
        assert upper - lower <= 1e-6 * upper


def test_replace_one_is_between_one_record_and_two():
    sigma, q, steps = [1.0, 2.0, 0.8], [0.01, 0.05, 0.02], [5000, 2000, 10000]
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "delta": 1e-6}
    one, replaced = fa.dpsgd.epsilon(**run), fa.dpsgd.epsilon(**run, neighbors="replace_one")
    half = {**run, "delta": 1e-6 / (1 + np.exp(one))}
    assert (replaced > one).all()
    assert (replaced < 2 * fa.dpsgd.epsilon(**half)).all()  # remove, then add: group privacy of two


def test_replace_one_at_few_steps_is_bounded_by_more_steps():
    steps = np.array([1, 2, 3, 5, 8, 20, 50])
    run = {"noise_multiplier": 2.0, "sample_rate": 0.01, "delta": 1e-6, "neighbors": "replace_one"}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, steps=steps)
    assert (upper < 0.3).all()
    assert (lower[:-1] <= upper[1:]).all()


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("accountant", [None, fa.Exact()])
@pytest.mark.parametrize(
    ("change", "epsilon", "delta"),
    [
        ({"sample_rate": 0.0}, 0.0, 0.0),
        ({"steps": 0}, 0.0, 0.0),
        ({"noise_multiplier": math.inf}, 0.0, 0.0),
        ({"noise_multiplier": 0.0}, math.inf, 1.0),
    ],
)
def test_edge_cases_of_the_run(neighbors, accountant, change, epsilon, delta):
    if neighbors == "add" and epsilon == math.inf:
        return  # below
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10} | change
    options = {"neighbors": neighbors, "accountant": accountant}
    history = [(run["noise_multiplier"], run["sample_rate"], run["steps"]), (1.0, 0.1, 0)]
    status = fa.Status.TIGHT if epsilon == 0.0 else fa.Status.NOT_MET
    for known in (run, {"history": history}):
        assert fa.dpsgd.epsilon_bounds(**known, **options, delta=1e-5) == (0.0, epsilon, status)
        assert fa.dpsgd.delta_bounds(**known, **options, epsilon=1.0) == (0.0, delta, status)
        assert fa.dpsgd.epsilon(**known, **options, delta=1e-5) == epsilon
        assert fa.dpsgd.delta(**known, **options, epsilon=1.0) == delta


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(
    "run", [{"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 1000}, {"history": [(1.0, 0.1, 900), (2.0, 1.0, 3)]}]
)
def test_edge_cases_of_the_target(run, neighbors):
    if neighbors != "add" or "history" in run:  # without sampling the loss has no end
        assert fa.dpsgd.epsilon_bounds(**run, neighbors=neighbors, delta=0.0) == (math.inf, math.inf, fa.Status.NOT_MET)
    assert fa.dpsgd.epsilon_bounds(**run, neighbors=neighbors, delta=1.0) == (0.0, 0.0, TIGHT)
    assert fa.dpsgd.delta_bounds(**run, neighbors=neighbors, epsilon=math.inf) == (0.0, 0.0, TIGHT)
    lower, upper, _ = fa.dpsgd.delta_bounds(**run, neighbors=neighbors, epsilon=0.0)
    assert 0.0 < lower <= upper <= 1.0


def test_extreme_noise_is_on_the_safe_side():
    for neighbors in RELATIONS:
        run = {"sample_rate": 0.1, "steps": 10, "neighbors": neighbors}
        assert fa.dpsgd.delta(noise_multiplier=1e-200, **run, epsilon=1.0) >= (0.1 if neighbors != "add" else 0.0)
        assert fa.dpsgd.epsilon_lower(noise_multiplier=1e12, **run, delta=1e-5) == 0.0
        assert fa.dpsgd.epsilon(noise_multiplier=1e12, **run, delta=1e-5) < 1e-3


def test_bounds_are_floats_and_a_code_for_one_cell_and_arrays_for_many():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    one = fa.dpsgd.epsilon_bounds(**run, delta=1e-5)
    assert [type(x) for x in one] == [float, float, fa.Status]
    many = fa.dpsgd.delta_bounds(**run, epsilon=np.linspace(0.5, 2, 6).reshape(2, 3))
    assert [x.shape for x in many] == [(2, 3)] * 3
    assert [x.dtype for x in many] == [np.float64, np.float64, np.uint8]
