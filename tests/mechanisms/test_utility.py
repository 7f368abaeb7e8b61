"""Accuracy: laws of errors against mpmath, enumeration and simulations of the real mechanisms; calibration by error."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa

RUNS = 1_000_000
T = (0.0, 0.3, 1.0, 2.5, 7.0)


def largest(tail, d):
    return 1 - (1 - tail) ** d


def integrated(density, kinks):
    """Tail and variance of a symmetric density on [0, inf), by integrals between its kinks."""

    def tail(t):
        return 2 * mp.quad(density, [t, *(k for k in kinks if k > t)])

    return tail, 2 * mp.quad(lambda x: x * x * density(x), [0, *kinks])


def staircase(epsilon, gamma):
    rest = mp.exp(-epsilon)
    height = (1 - rest) / (2 * (gamma + rest * (1 - gamma)))

    def density(x):
        k = mp.floor(x)
        return height * rest**k * (1 if x - k < gamma else rest)

    return density


ADDITIVE = {
    "gaussian": (fa.Gaussian(1.7), lambda x: mp.npdf(x, 0, 1.7), [5, 15, 40]),
    "laplace": (fa.Laplace(0.9), lambda x: mp.exp(-x / mp.mpf(0.9)) / (2 * mp.mpf(0.9)), [3, 10, 80]),
    "truncated": (fa.TruncatedLaplace(2.0, 5.0), lambda x: mp.exp(-x / 2) / (4 * (1 - mp.exp(mp.mpf(-2.5)))), [5]),
    "narrow": (fa.TruncatedLaplace(50.0, 3.0), lambda x: mp.exp(-x / 50) / (100 * (1 - mp.exp(mp.mpf(-0.06)))), [3]),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("d", [1, 4])
def test_laws_of_additive_noise_are_those_of_their_densities(name, d):
    mechanism, density, kinks = ADDITIVE[name]
    with mp.workdps(30):
        tail, variance = integrated(density, kinks)
        law = fa.utility(mechanism, dimension=d)
        assert law.is_exact
        assert law.mean_square == pytest.approx(float(d * variance), rel=1e-10)
        for t in T:
            want = float(largest(tail(mp.mpf(t)), d)) if t < kinks[-1] else 0.0
            assert law.tail(t) == pytest.approx(want, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize(("epsilon", "gamma"), [(0.7, None), (3.0, None), (1.0, 0.25), (1.0, 1.0)])
def test_the_staircase_is_its_density(epsilon, gamma):
    share = 1.0 / (1.0 + math.exp(epsilon / 2)) if gamma is None else gamma
    with mp.workdps(25):
        density = staircase(mp.mpf(epsilon), mp.mpf(share))
        steps = [k + part for k in range(int(60 / epsilon) + 2) for part in (0.0, share)]
        law = fa.utility(fa.Staircase(epsilon), gamma=gamma)
        pieces = list(itertools.pairwise(steps))
        middle = [(a, b, density(mp.mpf((a + b) / 2))) for a, b in pieces if b > a]
        want = 2 * mp.fsum(h * (mp.mpf(b) ** 3 - mp.mpf(a) ** 3) / 3 for a, b, h in middle)
        assert law.mean_square == pytest.approx(float(want), rel=1e-10)
        for t in T:
            want = 2 * mp.fsum(h * (b - max(mp.mpf(t), a)) for a, b, h in middle if b > t)
            assert law.tail(t) == pytest.approx(float(want), rel=1e-10)
    means = [
        np.trapezoid(fa.utility(fa.Staircase(2.0), gamma=g).tail(np.linspace(0, 40, 40001)), dx=1e-3)
        for g in (0.2, 1 / (1 + math.e), 0.35)
    ]
    assert means[1] == min(means), "the default has the least expected absolute error"


DISCRETE = {
    "geometric": (fa.DiscreteLaplace(3.0), lambda k: mp.exp(-mp.mpf(k) / 3)),
    "gaussian": (fa.DiscreteGaussian(2.3), lambda k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(2.3) ** 2))),
    "skellam": (fa.Skellam(9.0), lambda k: mp.besseli(k, 9)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_laws_of_noise_on_whole_numbers_are_sums(name):
    mechanism, weight = DISCRETE[name]
    with mp.workdps(25):
        mass = [weight(k) for k in range(150)]
        whole = mass[0] + 2 * mp.fsum(mass[1:])
        law = fa.utility(mechanism, dimension=2)
        want = 4 * mp.fsum(k * k * m for k, m in enumerate(mass)) / whole
        assert law.mean_square == pytest.approx(float(want), rel=1e-10)
        for t in (0.0, 0.5, 3.0, 3.7, 12.0):
            tail = 2 * mp.fsum(mass[math.floor(t) + 1 :]) / whole
            assert law.tail(t) == pytest.approx(float(largest(tail, 2)), rel=1e-10)
        quantile = law.quantile(0.05)
        assert quantile == int(quantile)
        assert law.tail(quantile) <= 0.05 < law.tail(quantile - 1)


def test_quantiles_are_the_smallest_on_the_safe_side():
    law = fa.utility(fa.Laplace(2.0), dimension=7)
    beta = np.array([[1.0, 0.5], [1e-3, 1e-12]])
    found = law.quantile(beta)
    assert found.shape == (2, 2)
    assert np.all(law.tail(found) <= beta)
    assert np.all(law.tail(found[1] * (1 - 1e-12)) > beta[1] * (1 - 1e-9))
    assert np.all(found <= [[law.published(b) for b in row] for row in beta])
    assert found[0, 0] == 0.0
    halved = fa.utility(fa.Laplace(2.0), dimension=7, contribution=5.0, records=10)
    np.testing.assert_allclose(halved.quantile(beta), 0.5 * found, rtol=1e-15)
    assert halved.published(0.1) == pytest.approx(0.5 * law.published(0.1), rel=1e-15)
    assert halved.mean_square == pytest.approx(0.25 * law.mean_square, rel=1e-15)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_sum_of_laplace_noise_in_a_tree(k):
    law = fa.utility(fa.TreeAggregation(1.5, steps=511, noise="laplace"), step=2**k - 1)
    assert law.mean_square == pytest.approx(2 * 1.5**2 * k, rel=1e-15)
    with mp.workdps(25):
        for t in (0.5, 3.0, 12.0):
            x = mp.mpf(t) / mp.mpf(1.5)
            inner = mp.quadosc(lambda u: mp.sin(u * x) / u / (1 + u * u) ** k, [0, mp.inf], omega=x)  # noqa: B023
            assert law.tail(t) == pytest.approx(float(1 - 2 / mp.pi * inner), rel=1e-10)


def test_a_prefix_sum_has_as_many_terms_as_ones_in_binary():
    steps = np.arange(1, 1001)
    ones = np.array([bin(t).count("1") for t in steps])
    for law, scale in (
        (fa.utility(fa.TreeAggregation(8.0, steps=1000), step=steps), 64.0),
        (fa.utility(fa.TreeAggregation(8.0, steps=1000, noise="laplace"), step=steps), 128.0),
    ):
        assert np.array_equal(law.mean_square, scale * ones)
        assert law.quantile(0.05).shape == (1000,)
    ftrl = fa.utility(fa.DPFTRL(2.0, steps=10, epochs=3), step=[10, 11, 20, 27, 30])
    assert np.array_equal(ftrl.mean_square, 4.0 * np.array([2, 3, 4, 7, 6]))
    with pytest.raises(ValueError, match=r"step = 31 is out of range"):
        fa.utility(fa.DPFTRL(2.0, steps=10, epochs=3), step=31)


def test_an_average_over_a_network_has_the_parties_own_noise_alone():
    assert fa.utility(fa.GOPA(0.5, 100.0, parties=10)).mean_square == pytest.approx(0.05, rel=1e-15)


# -- selection -------------------------------------------------------------------------------------------------------

SCORES = (0.0, 3.0, 5.0, 5.5, 5.5)


def flipped(chances):
    """Permute-and-flip by its definition: all orders, a coin for each until one is heads."""
    found = [Fraction(0)] * len(chances)
    for order in itertools.permutations(range(len(chances))):
        reached = Fraction(1)
        for r in order:
            found[r] += reached * chances[r]
            reached *= 1 - chances[r]
    return [one / math.factorial(len(chances)) for one in found]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_selections_are_their_definitions(epsilon):
    gaps = [5.5 - s for s in SCORES]
    chances = [Fraction(math.exp(-0.5 * epsilon * gap)) for gap in gaps]
    total = sum(chances)
    laws = {
        "exponential": (fa.utility(fa.Exponential(epsilon), scores=SCORES), [c / total for c in chances]),
        "flip": (fa.utility(fa.PermuteAndFlip(epsilon), scores=SCORES), flipped(chances)),
        "monotone": (fa.utility(fa.PermuteAndFlip(epsilon / 2, monotone=True), scores=SCORES), flipped(chances)),
    }
    for law, mass in laws.values():
        assert sum(mass) == 1
        assert law.mean_square == pytest.approx(
            float(sum(m * Fraction(g) ** 2 for m, g in zip(mass, gaps, strict=True))), rel=1e-12
        )
        for t in (0.0, 0.4, 0.5, 2.5, 3.0, 5.5):
            want = float(sum(m for m, g in zip(mass, gaps, strict=True) if g > t))
            assert law.tail(t) == pytest.approx(want, rel=1e-12, abs=1e-16)
    t = np.linspace(0.0, 6.0, 61)
    assert np.all(laws["flip"][0].tail(t) <= laws["exponential"][0].tail(t) * (1 + 1e-12)), "never worse"


@pytest.mark.parametrize(("epsilon", "outcomes", "beta"), [(1.0, 10, 0.05), (0.3, 1000, 0.01), (4.0, 3, 1e-3)])
def test_the_bound_for_any_scores_is_the_theorem_and_not_far_above_the_worst(epsilon, outcomes, beta):
    bound = fa.utility(fa.Exponential(epsilon), outcomes=outcomes)
    assert not bound.is_exact
    assert bound.published(beta) == pytest.approx(2.0 * math.log(outcomes / beta) / epsilon, rel=1e-15)
    assert bound.quantile(beta) == pytest.approx(bound.published(beta), rel=1e-12)
    worst = math.log((outcomes - 1) * (1 - beta) / beta) * 2.0 / epsilon  # all others this far below the best
    for mechanism in (fa.Exponential(epsilon), fa.PermuteAndFlip(epsilon)):
        law = fa.utility(mechanism, scores=[worst, *[0.0] * (outcomes - 1)])
        assert bound.tail(worst * 0.999999) >= law.tail(worst * 0.999999)
        assert bound.mean_square >= law.mean_square
    assert bound.quantile(beta) <= 3.0 * worst
    table = np.random.default_rng(0).normal(0.0, 5.0, outcomes)
    law = fa.utility(fa.Exponential(epsilon), scores=table)
    t = np.linspace(0.0, 2.0 * worst, 100)
    assert np.all(law.tail(t) <= bound.tail(t))


def wrong(queries, epsilon, margin):
    """One integral over the threshold's noise, by mpmath from the definition."""

    def below(x, scale):
        return mp.exp(x / scale) / 2 if x < 0 else 1 - mp.exp(-x / scale) / 2

    scale, epsilon = mp.mpf(4) / epsilon, mp.mpf(epsilon)

    def right(r):
        density = mp.exp(-abs(r) * epsilon / 2) * epsilon / 4
        return density * below(margin + r, scale) ** (queries - 1) * (1 - below(r - margin, scale))

    return 1 - mp.quad(right, [-600, -100, -margin - 20, -margin, 0, margin, margin + 20, margin + 60, 200, 600])


@pytest.mark.parametrize(("queries", "epsilon"), [(1, 1.0), (2, 0.5), (100, 1.0), (10_000, 1.0)])
def test_a_noisy_threshold_is_one_integral(queries, epsilon):
    law = fa.utility(fa.AboveThreshold(epsilon), queries=queries)
    with mp.workdps(25):
        for margin in (0.5, 12.0, 45.0):
            assert law.tail(margin) == pytest.approx(float(wrong(queries, epsilon, margin)), rel=1e-10)
    for beta in (0.3, 0.05, 1e-4):
        assert law.published(beta) == pytest.approx(
            8.0 * (math.log(queries) + math.log(2.0 / beta)) / epsilon, rel=1e-14
        )
        assert law.quantile(beta) <= law.published(beta) <= (3.0 if queries >= 100 else 6.0) * law.quantile(beta)


def test_a_stream_is_right_if_every_run_is():
    one, many = fa.AboveThreshold(1.0), fa.SparseVector(1.0, answers=3)
    law = fa.utility(many, queries=[5, 5, 90])
    for t in (3.0, 20.0):
        each = [1.0 - fa.utility(one, queries=k).tail(t) for k in (5, 5, 90)]
        assert law.tail(t) == pytest.approx(1.0 - math.prod(each), rel=1e-12)
    with pytest.raises(ValueError, match="broadcast"):
        fa.utility(many, queries=[5, 5])


# -- simulations -----------------------------------------------------------------------------------------------------


def simulated(name, rng):
    """Errors of the real mechanism, and its law."""
    if name == "tree":
        nodes = rng.normal(0.0, 3.0, (RUNS, 3))  # 7 = 4 + 2 + 1
        return np.abs(nodes.sum(axis=1)), fa.utility(fa.TreeAggregation(3.0, steps=8), step=7)
    if name == "laplace tree":
        nodes = rng.laplace(0.0, 3.0, (RUNS, 3))
        return np.abs(nodes.sum(axis=1)), fa.utility(fa.TreeAggregation(3.0, steps=8, noise="laplace"), step=7)
    if name == "laplace":
        return np.abs(rng.laplace(0.0, 2.0, (RUNS, 3))).max(axis=1), fa.utility(fa.Laplace(2.0), dimension=3)
    if name == "staircase":
        gamma, rest = 1.0 / (1.0 + math.exp(0.5)), math.exp(-1.0)
        low = rng.random(RUNS) >= gamma / (gamma + (1.0 - gamma) * rest)
        place = np.where(low, gamma + (1.0 - gamma) * rng.random(RUNS), gamma * rng.random(RUNS))
        return rng.geometric(1.0 - rest, RUNS) - 1.0 + place, fa.utility(fa.Staircase(1.0))
    gaps = 5.5 - np.array(SCORES)
    if name == "exponential":
        best = np.argmax(rng.gumbel(size=(RUNS, gaps.size)) - 0.5 * gaps, axis=1)
        return gaps[best], fa.utility(fa.Exponential(1.0), scores=SCORES)
    if name == "flip":
        best = np.argmax(rng.exponential(2.0, (RUNS, gaps.size)) - gaps, axis=1)
        return gaps[best], fa.utility(fa.PermuteAndFlip(1.0), scores=SCORES)
    if name == "response":
        told = rng.binomial(60, math.e / (1 + math.e), RUNS) + rng.binomial(140, 1 / (1 + math.e), RUNS)
        share = (told / 200 - 1 / (1 + math.e)) * (math.e + 1) / (math.e - 1)
        law = fa.utility(fa.RandomizedResponse(1.0), respondents=200, share=0.3)
        return np.abs(share - 0.3), law
    raise AssertionError(name)


@pytest.mark.parametrize("name", ["tree", "laplace tree", "laplace", "staircase", "exponential", "flip", "response"])
def test_a_million_runs_of_the_real_mechanism_agree(name):
    errors, law = simulated(name, np.random.default_rng(16))
    for t in np.quantile(errors, [0.1, 0.5, 0.9, 0.99]) + 1e-9:
        p = law.tail(t)
        assert abs(np.mean(errors > t) - p) <= 5.0 * math.sqrt(p * (1.0 - p) / RUNS) + 1e-12
    if name != "laplace":  # its mean square is of all coordinates
        spread = np.std(errors**2) / math.sqrt(RUNS)
        assert abs(np.mean(errors**2) - law.mean_square) <= 5.0 * spread


@pytest.mark.parametrize("margin", [5.0, 20.0, 35.0])
def test_a_million_runs_of_a_noisy_threshold_agree(margin):
    rng, k, bad = np.random.default_rng(4), 20, 0
    for _ in range(10):
        threshold = rng.laplace(0.0, 2.0, (RUNS // 10, 1))
        asked = rng.laplace(0.0, 4.0, (RUNS // 10, k)) + np.append(np.full(k - 1, -margin), margin)
        above = asked >= threshold
        bad += int(np.sum(above[:, :-1].any(axis=1) | ~above[:, -1]))
    p = fa.utility(fa.AboveThreshold(1.0), queries=k).tail(margin)
    assert abs(bad / RUNS - p) <= 5.0 * math.sqrt(p * (1.0 - p) / RUNS)


# -- randomised response ---------------------------------------------------------------------------------------------


def test_noise_is_calibrated_to_an_error():
    noise = fa.calibrate(lambda s: fa.utility(fa.Gaussian(s), dimension=10), error=5.0, beta=0.05)
    assert fa.utility(fa.Gaussian(noise), dimension=10).quantile(0.05) <= 5.0
    assert fa.utility(fa.Gaussian(noise * (1 + 2e-9)), dimension=10).quantile(0.05) > 5.0
    assert 1.5 * (1.0 - 1e-9) <= fa.calibrate(lambda s: fa.utility(fa.Gaussian(s), dimension=4), error=3.0) <= 1.5
    steps = fa.calibrate(
        lambda n: fa.utility(fa.AboveThreshold(1.0), queries=n), error=40.0, beta=0.05, bracket=(1, 10**6)
    )
    assert fa.utility(fa.AboveThreshold(1.0), queries=steps).quantile(0.05) <= 40.0
    assert fa.utility(fa.AboveThreshold(1.0), queries=steps + 1).quantile(0.05) > 40.0
    with pytest.raises(TypeError, match="build must return an error"):
        fa.calibrate(fa.Laplace, error=3.0)
    with pytest.raises(TypeError, match="or error; not beta"):
        fa.calibrate(fa.Laplace, beta=0.1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fa.utility(fa.PureDP(1.0)), ValueError, "the error of PureDP.* is not known"),
        (lambda: fa.utility(fa.Gaussian(1.0) * 3), TypeError, "must be one mechanism"),
        (lambda: fa.utility(fa.Gaussian([1.0, 2.0])), TypeError, r"parameters of shape \(2,\)"),
        (lambda: fa.utility(fa.Gaussian(1.0), dimension=0), ValueError, "dimension = 0"),
        (lambda: fa.utility(fa.Gaussian(1.0), step=1), TypeError, "unexpected keyword argument 'step'"),
        (lambda: fa.utility(fa.Exponential(1.0)), TypeError, "give scores.*or outcomes"),
        (lambda: fa.utility(fa.Exponential(1.0), scores=[1.0, 2.0], outcomes=2), TypeError, "not both"),
        (lambda: fa.utility(fa.Exponential(1.0), scores=[1.0]), ValueError, "at least two"),
        (lambda: fa.utility(fa.Gaussian(1.0)).quantile(0.0), ValueError, r"beta = 0\.0 is out of range"),
        (lambda: fa.utility(fa.Gaussian(1.0)).tail(-1.0), ValueError, r"t = -1\.0 is out of range"),
        (lambda: fa.utility(fa.RandomizedResponse(0.0), respondents=3, share=0.5), ValueError, "says nothing"),
        (lambda: fa.RandomizedResponse(1.0).estimate([1, 2, 3]), ValueError, "counts must be 2 numbers"),
        (lambda: fa.utility(fa.Staircase(0.0)), ValueError, "needs a positive"),
    ],
)
def test_what_is_not_known_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("mechanism", [fa.Gaussian(0.0), fa.Laplace(0.0), fa.TruncatedLaplace(0.0, 1.0)])
def test_without_noise_there_is_no_error(mechanism):
    law = fa.utility(mechanism, dimension=2)
    assert law.mean_square == 0.0
    assert law.tail([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert law.quantile(0.5) == 0.0


def test_extreme_noise_and_units():
    assert fa.utility(fa.Gaussian(1e160)).quantile(0.05) == pytest.approx(1.959963984540054e160, rel=1e-12)
    assert fa.utility(fa.Gaussian(1e-170)).quantile(0.05) == pytest.approx(1.959963984540054e-170, rel=1e-12)
    for never in (fa.Laplace(math.inf), fa.Gaussian(math.inf)):
        assert fa.utility(never).quantile(0.05) == math.inf
    sharp = fa.utility(fa.Exponential(math.inf), scores=[0.0, 0.0, 1.0, 2.0])
    assert (sharp.mean_square, sharp.tail(0.0), sharp.quantile(0.05)) == (0.0, 0.0, 0.0)
    assert fa.utility(fa.Exponential(math.inf), outcomes=5).tail([0.0, 1.0]).tolist() == [1.0, 0.0]
    assert fa.utility(fa.Exponential(1.0), scores=[0.0, 1e200]).mean_square == 0.0
    plain = fa.utility(fa.AboveThreshold(1.0), queries=10)
    small = fa.utility(fa.AboveThreshold(1.0), queries=10, contribution=1e-9)
    assert small.quantile(0.05) == pytest.approx(1e-9 * plain.quantile(0.05), rel=1e-12)
    assert plain.tail(math.inf) == 0.0
    with pytest.raises(ValueError, match="has no mean square: give beta"):
        fa.calibrate(lambda e: fa.utility(fa.AboveThreshold(e), queries=10), error=20.0)
