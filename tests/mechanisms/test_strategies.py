"""Sensitivities of strategy matrices, and banded matrix factorization."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa

ROOT = [math.comb(2 * j, j) / 4.0**j for j in range(8)]
"""Of the square root of the matrix of prefix sums."""
SQUARES = [
    ({"strategy": ROOT, "steps": 8}, 1.718379259109),
    ({"strategy": ROOT, "steps": 8, "separation": 2, "participations": 4}, 12.758704423904),
    ({"strategy": ROOT, "steps": 8, "separation": 3, "participations": 2}, 4.619982957840),
    ({"strategy": ROOT, "steps": 8, "separation": 4, "participations": 2, "epochs": True}, 4.299739122391),
    ({"strategy": [1.0, 0.5], "steps": 6, "separation": 2, "participations": 3}, 3.75),
]


def lower(coefficients, n):
    return np.array([[coefficients[i - j] if 0 <= i - j < len(coefficients) else 0.0 for j in range(n)]
                     for i in range(n)])  # fmt: skip


@pytest.mark.parametrize(("asked", "square"), SQUARES, ids=str)
def test_sensitivities_of_published_matrices(asked, square):
    assert fa.sensitivity.matrix(**asked) ** 2 == pytest.approx(square, rel=1e-11)


def largest(c, k, b, *, epochs=False):
    """Over all participations and signs of contributions in one dimension."""
    n, best = c.shape[1], 0.0
    for size in range(1, k + 1):
        for chosen in itertools.combinations(range(n), size):
            gaps = np.diff(chosen)
            if (gaps != b).any() if epochs else (gaps < b).any():
                continue
            for signs in itertools.product((1.0, -1.0), repeat=size - 1):
                best = max(best, float(np.linalg.norm(c[:, chosen] @ np.array([1.0, *signs]))))
    return best


@pytest.mark.parametrize("epochs", [False, True])
@pytest.mark.parametrize("kind", ["any", "not negative", "banded", "toeplitz", "rows"])
def test_no_participation_is_above_the_sensitivity(kind, epochs):
    rng = np.random.default_rng(3)
    for _ in range(20):
        n, b, k = int(rng.integers(3, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        c = np.tril(rng.normal(size=(n, n)))
        if kind == "rows":
            c = rng.normal(size=(n + 2, n))
        elif kind == "not negative":
            c = np.abs(c)
        elif kind == "banded":
            c = np.abs(np.triu(c, 1 - b))
        elif kind == "toeplitz":
            c = lower(np.sort(rng.random(n))[::-1], n)
        strategy = c[:, 0] if kind == "toeplitz" else c
        steps = n if kind == "toeplitz" else None
        found = fa.sensitivity.matrix(strategy, participations=k, separation=b, epochs=epochs, steps=steps)
        truth = largest(c, k, b, epochs=epochs)
        assert truth <= found
        if (kind == "not negative" and (epochs or k == 1)) or kind in ("banded", "toeplitz"):
            assert found <= truth * (1 + 1e-12)
    for scale in (1e-170, 1e200):
        assert fa.sensitivity.matrix(c * scale) == pytest.approx(fa.sensitivity.matrix(c) * scale, rel=1e-14)
    twice = fa.sensitivity.matrix(c, neighbors="replace_one")
    assert twice == 2 * fa.sensitivity.matrix(c)


def test_banded_factorization_is_a_poisson_sample_in_each_round():
    run = fa.BandMF(noise_multiplier=4.0, sample_rate=0.32, steps=2052, bands=32)
    for way, epsilon in (("remove", 2.79642469802), ("add", 2.53635232159)):
        low, high, _ = fa.epsilon_bounds(run, delta=1e-5, neighbors=way)
        assert low <= epsilon * (1 + 1e-11)
        assert high >= epsilon * (1 - 1e-11)
        assert high - low < 1e-9
    whole = fa.BandMF(noise_multiplier=8.0, sample_rate=1.0, steps=1000, bands=100)
    assert fa.epsilon(whole, delta=1e-5) == fa.epsilon(fa.Gaussian(8.0) * 10, delta=1e-5)
    scaled = fa.BandMF(noise_multiplier=8.0, sample_rate=0.1, steps=10, bands=2, column_norm=2.0)
    assert fa.epsilon(scaled, delta=1e-5) == pytest.approx(fa.epsilon(fa.Gaussian(4.0).poisson(0.1) * 5, delta=1e-5))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.sensitivity.matrix([1.0, 0.5]), "give steps, too"),
        (lambda: fa.sensitivity.matrix([[1.0, math.nan]]), "finite numbers"),
        (lambda: fa.sensitivity.matrix(np.eye(3), steps=4), "the strategy has 3 columns"),
        (lambda: fa.sensitivity.matrix(np.eye(3), participations=0), "participations = 0"),
        (lambda: fa.sensitivity.matrix(1j * np.eye(3)), "real numbers"),
        (lambda: fa.sensitivity.matrix([["3"]]), "real numbers"),
    ],
)
def test_strategies_that_are_none_are_refused(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()


def deltas_of_bins(modes, noise, epsilon):
    """Larger delta of the two directions, by quadrature over the plane or the space that the modes span."""
    low = np.linalg.cholesky(modes.T @ modes + 1e-14 * np.eye(modes.shape[1])).T  # columns with the same inner products
    n = {2: 700, 3: 130}[len(low)]
    axes = [np.linspace(row.min() - 6.5 * noise, row.max() + 6.5 * noise, n) for row in np.c_[low, np.zeros(len(low))]]
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    area = math.prod(float(one[1] - one[0]) for one in axes)

    def density(mean):
        power = sum((x - m) ** 2 for x, m in zip(grid, mean, strict=True))
        return np.exp(-0.5 * power / noise**2) / (noise * math.sqrt(2.0 * math.pi)) ** len(low)

    p, q = sum(density(mean) for mean in low.T) / low.shape[1], density(np.zeros(len(low)))
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) * area for a, b in ((p, q), (q, p)))


BINNED = [
    ([1.0, 0.5], 2, 4, 1.6),
    ([1.0, 0.5, 0.25], 3, 6, 2.0),
    ([[1.0, 0.0, 0.0], [0.8, 1.0, 0.0], [0.1, 0.3, 2.0]], 3, None, 1.5),
    ([[1.0, 0.0], [0.0, 1.0]], 2, None, 1.0),
]


@pytest.mark.parametrize(("strategy", "bins", "steps", "noise"), BINNED, ids=str)
def test_random_bins_are_between_the_bounds(strategy, bins, steps, noise):
    c = np.array(strategy) if steps is None else lower(strategy, steps)
    modes = np.stack([c[:, i::bins].sum(axis=1) for i in range(bins)], axis=1)
    run = fa.MatrixGaussian.from_strategy(strategy, noise, bins=bins, steps=steps)
    inner = modes.T @ modes
    alike = np.allclose(inner, inner[0, 1] + (inner[0, 0] - inner[0, 1]) * np.eye(bins))
    for epsilon in (0.1, 0.5, 1.5):
        truth = deltas_of_bins(modes, noise, epsilon)
        least, most, status = fa.delta_bounds(run, epsilon=epsilon)
        assert least * (1 - 3e-4) <= truth <= most * (1 + 3e-4)
        assert (status == fa.Status.TIGHT) == alike
        if alike:
            assert most - least <= 1e-6 * most


def test_a_strategy_of_independent_steps_is_random_allocation():
    run = fa.MatrixGaussian.from_strategy([1.0], 4.0, bins=20, steps=100)
    assert fa.epsilon(run, delta=1e-6) == pytest.approx(
        fa.epsilon(fa.Gaussian(4.0).allocation(20, epochs=5, bins="persistent"), delta=1e-6), rel=1e-9
    )


def test_bins_without_a_step_claim_nothing_from_below():
    """With 8 bins for 4 steps half of the records never take part."""
    run = fa.MatrixGaussian.from_strategy([1.0], 1.0, bins=8, steps=4)
    lower_end, upper_end, _ = fa.delta_bounds(run, epsilon=0.5)
    half = 0.5 * fa.delta(fa.Gaussian(1.0).allocation(4), epsilon=math.log1p(2.0 * math.expm1(0.5)), neighbors="remove")
    assert lower_end == 0.0
    assert half < upper_end


def test_many_bins_take_no_time():
    run = fa.MatrixGaussian.from_strategy([1.0, 0.5, 0.25], 3.0, bins=1000, steps=3000)
    assert run.classes[-1][1] == 0.0
    assert fa.epsilon_bounds(run, delta=1e-6).lower > 0.0


def test_the_class_of_a_bin_may_be_told():
    """Of 20 bins 4 apart none of the columns overlap: better than to count the overlap of neighbours for all bins."""
    run = fa.MatrixGaussian.from_strategy([1.0, 0.5, 0.375], 4.0, bins=20, steps=100)
    told = fa.Gaussian(4.0 / math.sqrt(run.own[1])).allocation(5)
    assert fa.epsilon(run, delta=1e-6) == pytest.approx(fa.epsilon(told, delta=1e-6), rel=1e-9)
    whole = fa.Gaussian(4.0 / fa.sensitivity.matrix([1.0, 0.5, 0.375], steps=100, participations=5, separation=20,
                                                    epochs=True))  # fmt: skip
    assert fa.epsilon(run, delta=1e-6) < 0.6 * fa.epsilon(whole, delta=1e-6)
    assert fa.epsilon_bounds(run, delta=1e-6).lower > 0.7


@pytest.mark.parametrize("noise", [0.0, 1e-200, 1e-100, 1e200, math.inf, [2.0, 4.0]])
def test_random_bins_with_extreme_noise(noise):
    run = fa.MatrixGaussian.from_strategy([1.0, 0.5], noise, bins=5, steps=20)
    lower_end, upper_end, _ = fa.epsilon_bounds(run, delta=1e-6)
    assert np.all(np.asarray(lower_end) <= np.asarray(upper_end))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.MatrixGaussian.from_strategy([1.0, -0.5], 1.0, bins=5, steps=20), "negative inner product"),
        (lambda: fa.MatrixGaussian.from_strategy([1.0, 0.5], 1.0, bins=0, steps=20), "bins"),
        (lambda: fa.MatrixGaussian.from_strategy([1.0, 0.5], 1.0, bins=2), "give steps"),
        (lambda: fa.MatrixGaussian.from_strategy([1.0], 1.0, bins=2, steps=4).poisson(0.1), "drawn already"),
        (lambda: fa.MatrixGaussian.from_strategy([1.0], 1.0, bins=2, steps=4).group(2), "share a bin"),
    ],
)
def test_random_bins_that_are_none_are_refused(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


def test_the_classes_of_a_noise_multiplier_do_not_depend_on_the_others_of_an_array():
    """Little noise wants large classes, much noise small inner products: 3.97 for 3.31 where the least one decides."""

    def epsilon(noise, strategy=(1.0, 0.8, 0.6, 0.4, 0.3, 0.2), bins=20, steps=200):
        return fa.epsilon(fa.MatrixGaussian.from_strategy(strategy, noise, bins=bins, steps=steps), delta=1e-6)

    noise = np.array([[1.0, 5.0], [40.0, np.inf]])
    assert epsilon(noise).tolist() == [[epsilon(one) for one in row] for row in noise.tolist()]
    assert epsilon(5.0) < 3.4
    flat = {"strategy": np.full(2, 0.5**0.5), "bins": 30, "steps": 300}
    assert epsilon([0.5, 80.0], **flat).tolist() == [epsilon(0.5, **flat), epsilon(80.0, **flat)]
    assert epsilon([]).shape == (0,)
