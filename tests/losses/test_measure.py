"""Losses rounded to a grid: each side bounds the curve everywhere, and what is left out is paid for."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from fastacct import reference
from fastacct.losses.loss import Atoms, legendre
from fastacct.losses.measure import GridMeasure, lower_measure, upper_measure
from fastacct.losses.mixture import GaussianMixtures, mixture_bracket
from fastacct.losses.panels import laplace
from fastacct.readers.grid.composition import Composition
from tests.grids import gaussian, lower_delta, step, window


def laplace_delta(scale, epsilon):
    """Closed form of one release of Laplace noise, at any real epsilon."""
    top = 1 / mpf(scale)
    with mp.workdps(30):
        return max(mpf(0), -mp.expm1((mpf(epsilon) - top) / 2)) if epsilon >= -top else -mp.expm1(mpf(epsilon))


SOURCES = {
    "gaussian": (gaussian(1.3), lambda e: reference.gaussian_delta(1 / mpf(1.3), e, 20)),
    "remove": (step(0.9, 0.07), lambda e: reference.sampled_gaussian_delta(0.9, 0.07, e, "remove", 20)),
    "add": (step(0.9, 0.07, "add"), lambda e: reference.sampled_gaussian_delta(0.9, 0.07, e, "add", 20)),
    "laplace": (laplace(0.5).remove, functools.partial(laplace_delta, 0.5)),
    "tiny rate": (step(0.6, 1e-5), lambda e: reference.sampled_gaussian_delta(0.6, 1e-5, e, "remove", 20)),
}


@functools.cache
def exact(name, epsilon):
    """Asked once for all grids of one loss."""
    return SOURCES[name][1](epsilon)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("spacing", [0.5, 0.11, 0.013, 0.0017])
def test_every_grid_bounds_the_curve_everywhere(name, spacing):
    loss, _ = SOURCES[name]
    upper, lower = upper_measure(loss.upper, spacing, 1e-30), lower_measure(loss.lower, spacing, 1e-30)
    assert 1.0 <= upper.mass.sum() + upper.infinite <= 1.0 + 1e-11
    below = lower.below
    assert 1.0 - 1e-11 <= below.mass.sum() + below.infinite <= 1.0
    for epsilon in np.concatenate([np.linspace(-1.5, 4.0, 12), below.losses()[:: max(1, below.mass.size // 7)]]):
        truth = exact(name, float(epsilon))
        assert lower_delta(lower, epsilon) <= truth <= window(upper, True).delta(epsilon), epsilon


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("tail", "floor"), [(0.02, -math.inf), (1e-30, -0.05), (1e-30, 0.05), (0.3, 0.02)])
def test_what_a_grid_leaves_out_is_paid_for(name, tail, floor):
    loss, _ = SOURCES[name]
    upper = upper_measure(loss.upper, 0.01, tail, floor)
    lower = lower_measure(loss.lower, 0.01, tail, floor)
    assert upper.mass.sum() + upper.infinite >= 1.0
    assert lower.below.mass.sum() + lower.below.infinite + lower.below.bottom <= 1.0
    for epsilon in np.linspace(-0.4, 2.0, 13):
        truth = exact(name, float(epsilon))
        assert lower_delta(lower, epsilon) <= truth <= window(upper, True).delta(epsilon), epsilon


@pytest.mark.parametrize("name", ["gaussian", "remove", "add"])
def test_both_grids_are_of_second_order(name):
    # log-moments: E exp(2 L) of both differ by 3 spacing^2 / 2, also where a density begins or ends steeply
    loss, _ = SOURCES[name]
    gaps = []
    for spacing in (0.004, 0.002):
        upper, lower = upper_measure(loss.upper, spacing, 1e-30), lower_measure(loss.lower, spacing, 1e-30).below
        above, below = (math.log(float(m.mass @ np.exp(2 * m.losses()))) for m in (upper, lower))
        gaps.append((above - below) / spacing**2)
    assert all(1.45 < gap < 1.6 for gap in gaps)


@settings(max_examples=150, deadline=None)
@example([(-0.3, 5), (0.2, 3), (0.21, 3), (0.9, 1)], 0.25)
@example([(0.0, 9), (0.1, 9), (0.2, 9), (0.3, 9), (0.4, 9), (0.4375, 1)], 0.1)
@given(
    st.lists(st.tuples(st.floats(-1.5, 1.5), st.integers(1, 40)), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.1, 0.25, 0.7, 3.0, 800.0]),
)
def test_atoms_between_points_are_inside(atoms, spacing):
    loss = np.array(sorted({x for x, _ in atoms}))
    mass = np.array([n for _, n in atoms[: loss.size]]) / sum(n for _, n in atoms[: loss.size])
    source = Atoms(loss, np.zeros(loss.size), mass)
    upper, lower = upper_measure(source, spacing, 0.0), lower_measure(source, spacing, 0.0)
    points = lower.dots.losses()
    assert lower.below.mass.min() >= 0.0
    for epsilon in np.unique(np.concatenate([loss, points[(points > -2.0) & (points < 2.0)], np.linspace(-2, 2, 9)])):
        truth = math.fsum(m * -math.expm1(epsilon - x) for x, m in zip(loss, mass, strict=True) if x > epsilon)
        off = 1e-15 + 1e-13 * truth  # of this sum, and of a window without a tilt
        assert lower_delta(lower, epsilon) <= truth + off
        assert truth - off <= window(upper, True).delta(epsilon)


def test_upper_masses_meet_the_connect_the_dots_formula():
    loss = gaussian(5.0)
    upper = upper_measure(loss.upper, 0.01, 1e-30)
    near = int(np.argmin(np.abs(upper.losses() - 1.4)))
    assert upper.losses()[near] == pytest.approx(1.4, rel=1e-15, abs=0.0)
    assert upper.mass[near] == pytest.approx(9.2434941619975e-13, rel=1e-12, abs=0.0)


def test_quadrature_weights_are_good_to_an_ulp():
    for n in (2, 5, 16, 33):
        points, weights = legendre(n)
        with mp.workdps(40):
            for x, w in zip(points.tolist(), weights.tolist(), strict=True):
                root = mp.findroot(lambda t: mp.legendre(n, t), mpf(x))  # noqa: B023
                slope = n * (root * mp.legendre(n, root) - mp.legendre(n - 1, root)) / (root**2 - 1)
                assert abs(root - x) < 2e-16
                assert abs(2 / ((1 - root**2) * slope**2) / w - 1) < 2.5e-16


@pytest.mark.parametrize("counts", [(1,), (2,), (13,), (3, 5)])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_convolution_errors_are_inside_their_bounds(counts, tilt):
    rng = np.random.default_rng(3)
    spacing = 0.125
    parts = []
    for count in counts:
        mass = 2.0 ** -rng.integers(1, 30, 6).astype(float)
        parts.append((GridMeasure(-0.375, spacing, mass / 2.0), count))
    for is_upper in (True, False):
        composition = Composition(parts, is_upper)
        tilted = composition.window(tilt, -60.0, 1 << 12)
        exact = [Fraction(1)]
        for measure, count in parts:
            for _ in range(count):
                exact = [
                    sum(
                        exact[i - j] * Fraction(m)
                        for j, m in enumerate(measure.mass.tolist())
                        if 0 <= i - j < len(exact)
                    )
                    for i in range(len(exact) + measure.mass.size - 1)
                ]
        with mp.workdps(40):
            worst = norm = mpf(0)
            for i, mass in enumerate(tilted.mass.tolist()):
                at = mpf(exact[tilted.offset + i].numerator) / exact[tilted.offset + i].denominator
                loss = mpf(composition.origin.numerator) / composition.origin.denominator + (tilted.offset + i) * mpf(
                    spacing
                )
                off = mass - at * mp.exp(tilt * loss - mpf(tilted.log_scale))
                # tilted inputs are rounded to the safe side
                worst = max(worst, -off if is_upper else off)
                norm += off**2
            assert worst <= tilted.each_error
            assert tilted.each_error < 1e-11
            assert mp.sqrt(norm) <= 1e-10


RARE = [
    (0.87, {55.5: 1.2e-161, 61.0: 2.2e-134, 79.4: 1.5e-201}),  # the density of the last is exp(800) times the first's
    (1.0, {1.0: 1e-300, 40.0: 1e-250}),
    (3.0, {2.0: 0.3, 50.0: 1e-9, 75.0: 5e-324}),
]


@pytest.mark.parametrize(("sigma", "rest"), RARE)
def test_losses_of_rare_components_are_within_their_error(sigma, rest):
    loss = mixture_bracket(sigma, {0.0: 1.0 - math.fsum(rest.values()), **rest}, {0.0: 1.0}).upper
    outputs = np.linspace(-30.0 * sigma, max(rest) + 38.0 * sigma, 200)
    with mp.workdps(400):
        for x, value, error in zip(*map(np.ndarray.tolist, (outputs, *loss.loss(outputs)[:2])), strict=True):
            more = (w * mp.expm1(m * (mpf(x) - mpf(m) / 2) / mpf(sigma) ** 2) for m, w in rest.items())
            assert abs(mp.log1p(mp.fsum(more)) - value) <= error, x


def many_components(sigma: float, rate: float, n: int) -> GaussianMixtures:
    """A binomial number of draws of a record, each of which moves the sum by 1, against none."""
    weights = {float(k): math.comb(n, k) * rate**k * (1.0 - rate) ** (n - k) for k in range(n + 1)}
    source = mixture_bracket(sigma, weights, {0.0: 1.0}).upper
    assert isinstance(source, GaussianMixtures)
    return source


@pytest.mark.parametrize(("sigma", "rate", "n"), [(0.03, 0.05, 12), (0.4, 0.3, 20), (0.2, 1e-6, 8)])
def test_components_that_are_left_out_are_negligible(sigma, rate, n):
    """Losses and densities are within their errors of sums over all components, wherever few matter."""
    source = many_components(sigma, rate, n)
    weights, left_out = [mp.mpf(one) for one in source.p.tolist()], 0
    with mp.workdps(40):
        weights[0] = weights[0] if weights[0] < 0.5 else 1 - mp.fsum(weights[1:])  # as the loss takes it
    for x in np.linspace(-10.0 * sigma, n + 10.0 * sigma, 57).reshape(19, 3):
        left_out += source._matters(source.p, x)[0].count(False)
        (loss, loss_error, _), (density, density_error) = source.loss(x), source._density(x)
        with mp.workdps(40):
            for i, at in enumerate(x.tolist()):
                terms = [w * mp.exp(-(((mp.mpf(at) - k) / sigma) ** 2) / 2) for k, w in enumerate(weights)]
                true = mp.log(mp.fsum(terms)) + (mp.mpf(at) / sigma) ** 2 / 2
                assert abs(true - loss[i]) <= loss_error[i]
                assert abs(mp.fsum(terms) / (sigma * mp.sqrt(2 * mp.pi)) - density[i]) <= density_error[i] + 1e-300
    assert left_out > 100


def test_little_noise_needs_few_points(monkeypatch):
    """Outputs between components far apart, and losses far from 0, take no more points than others."""
    source, density, seen = many_components(0.004, 0.05, 20), GaussianMixtures._density, []
    edges = np.linspace(-1.0, 1.0 + source.extent(1e-20)[1], 2000)
    monkeypatch.setattr(GaussianMixtures, "_density", lambda self, x: seen.append(x.size) or density(self, x))
    source.points()
    assert sum(seen) < 2_000_000
    seen.clear()
    source.masses(edges, 1e-20, 1.0)
    assert sum(seen) < 5_000_000
