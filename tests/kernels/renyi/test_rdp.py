"""Renyi divergences against the oracle: the truth is inside, and the interval is narrow."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from fastacct.accountants.series import by_series
from fastacct_ext import _kernels
from tests import kernel_parts
from tests.oracle_data import load, relative_excess

POINTS = load()
LEVELS = ("baseline", "x86-64-v3", "x86-64-v4")
RTOL = 1e-11


@pytest.fixture(params=LEVELS)
def level(request):
    """Run the test at one instruction-set level, then go back to the best."""
    try:
        _kernels.select(request.param)
    except ValueError:
        pytest.skip(f"this processor cannot run {request.param}")
    yield request.param
    _kernels.select()


def bounds(points=POINTS):
    return fa.dpsgd.rdp_bounds(
        noise_multiplier=points.noise_multiplier, sample_rate=points.sample_rate, orders=points.order
    )


def contained(lower, upper, truth):
    return bool((relative_excess(upper, truth) >= 0).all() and (relative_excess(lower, truth) <= 0).all())


def test_truth_is_inside_and_the_interval_narrow_over_the_whole_domain(level):
    b = bounds()
    assert contained(b.lower, b.upper, POINTS.rdp)
    assert relative_excess(b.upper, POINTS.rdp).max() <= RTOL
    tight = b.status == fa.Status.TIGHT
    assert tight.mean() > 0.99
    assert relative_excess(b.lower[tight], [t for t, ok in zip(POINTS.rdp, tight, strict=True) if ok]).min() >= -RTOL


def test_the_containment_check_catches_a_bound_that_is_slightly_too_small():
    b = bounds()
    assert not contained(b.lower, b.upper * (1 - 1e-12), POINTS.rdp)
    assert not contained(b.lower * (1 + 1e-12), b.upper, POINTS.rdp)
    worse = b.upper.copy()
    worse[17] *= 0.999
    assert not contained(b.lower, worse, POINTS.rdp)


def test_series_and_quadrature_prove_overlapping_intervals_at_integer_orders(level):
    rng = np.random.default_rng(5)
    n = 100
    sigma, q = 10 ** rng.uniform(-1.5, 4, n), 10 ** rng.uniform(-12, 0, n)
    order = np.floor(10 ** rng.uniform(np.log10(2), 3.5, n))
    each = [by_series(float(s), float(r), int(k)) for s, r, k in zip(sigma, q, order, strict=True)]
    low, high = np.array(each).T
    b = fa.dpsgd.rdp_bounds(noise_multiplier=sigma, sample_rate=q, orders=order)
    assert (low <= high).all()
    assert (low <= b.upper).all()
    assert (b.lower <= high).all()
    assert (high / low - 1).max() < 4e-15


def test_the_series_is_public_and_agrees_at_many_whole_orders():
    rng = np.random.default_rng(6)
    sigma, q = 10 ** rng.uniform(-1, 3, 10_000), 10 ** rng.uniform(-9, 0, 10_000)
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": 10 ** rng.integers(0, 6, 10_000)}
    orders = np.floor(10 ** rng.uniform(np.log10(2), 2.5, 10_000))
    one, other = fa.dpsgd.rdp_bounds(**run, orders=orders, method="series"), fa.dpsgd.rdp_bounds(**run, orders=orders)
    assert (np.maximum(one.lower, other.lower) <= np.minimum(one.upper, other.upper)).all()
    assert (one.status == fa.Status.TIGHT).all()
    assert (fa.dpsgd.rdp(**run, orders=orders, method="series") == one.upper).all()


def test_the_series_has_closed_forms_at_its_ends_and_says_what_it_is_not_for():
    ends = {"noise_multiplier": [0.0, 1.0, 1.0, np.inf, 1e-7], "sample_rate": [0.1, 0.0, 1.0, 0.1, 0.3], "steps": 7}
    found = fa.dpsgd.rdp_bounds(**ends, orders=4, method="series")
    expected = fa.dpsgd.rdp_bounds(**ends, orders=4)
    np.testing.assert_array_equal(found.upper, expected.upper)
    np.testing.assert_array_equal(found.lower, expected.lower)
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "method": "series"}
    assert fa.dpsgd.rdp(**run, orders=[[2], [3]]).shape == (2, 1)
    for wrong, said in (
        ({"orders": 2.5}, "orders = 2.5"),
        ({"orders": [2, 2e6]}, r"orders\[1\]"),
        ({"orders": 2, "neighbors": "replace_one"}, "Poisson sampling"),
        ({"orders": 2, "method": "serie"}, "did you mean 'series'"),
    ):
        with pytest.raises(ValueError, match=said):
            fa.dpsgd.rdp(**(run | wrong))


def test_a_fresh_sample_of_the_oracle_is_contained():
    rng = np.random.default_rng(20261120)
    n = 60
    sigma, q, a = 10 ** rng.uniform(-1.5, 4, n), 10 ** rng.uniform(-12, 0, n), 10 ** rng.uniform(-7, 5, n)
    truth = [reference.rdp(s, r, 1.0 + x, digits=18) for s, r, x in zip(sigma, q, a, strict=True)]
    b = fa.dpsgd.rdp_bounds(noise_multiplier=sigma, sample_rate=q, orders=1.0 + a)
    assert contained(b.lower, b.upper, truth)
    assert relative_excess(b.upper, truth).max() <= RTOL


@pytest.mark.parametrize("share", [0.97, 0.999, 1.0, 1.001, 1.03])
def test_orders_up_to_a_million_are_narrow_where_the_sampled_bump_begins_to_show(level, share):
    sigma, q = np.array([[1.0, 7.0, 20.0, 60.0, 130.0]] * 3), np.array([[1e-3], [1e-6], [1e-11]])
    order = 1.0 + 2.0 * sigma**2 * np.log(1.0 / q) * share
    order = np.where(order < 1e6, order, 1e6)
    cells = [(s, r, x) for s, r, x in zip(sigma.flat, np.broadcast_to(q, sigma.shape).flat, order.flat, strict=True)]
    truth = [reference.rdp(float(s), float(r), float(x), digits=20) for s, r, x in cells]
    b = fa.dpsgd.rdp_bounds(noise_multiplier=sigma, sample_rate=q, orders=order)
    lower, upper = b.lower.ravel(), b.upper.ravel()
    assert contained(lower, upper, truth)
    assert relative_excess(upper, truth).max() <= RTOL
    assert relative_excess(lower, truth).min() >= -RTOL
    assert (b.status == fa.Status.TIGHT).all()


def test_lower_bounds_at_rates_next_to_the_smallest_numbers_are_not_above_the_truth():
    cells = [(4.29, 7.05e-110, 182.4), (226.5, 7.6e-112, 45474.0), (1045.7, 2.6e-120, 122755.0), (12.3, 4e-148, 1300.0)]
    for sigma, q, order in cells:
        lower, upper, _ = fa.dpsgd.rdp_bounds(noise_multiplier=sigma, sample_rate=q, orders=order)
        assert lower <= reference.rdp(sigma, q, order, digits=18) <= upper, (sigma, q, order)


def test_published_and_derived_values_are_met():
    # MTZ19 formulas at 40 digits; closed forms where they exist
    cases = [
        (1.0, 0.01, 2, "1.7181342207454793e-4"),
        (1.0, 0.01, 32, "11.246275937048069"),
        (1.0, 0.01, 1024, "507.39032818137653"),
        (4.0, 0.01, 8, "2.5899123012404281e-5"),
        (1.0, 1e-6, 4, "3.4365822312677579e-12"),
        (1.0, 0.01, 1.5, "1.2725374332744983e-4"),
        (0.3, 0.1, 1.25, "0.76933165729233341"),
        (0.2, 0.01, 3.3, "34.642581907060565"),
    ]
    for sigma, q, order, text in cases:
        value = fa.dpsgd.rdp(noise_multiplier=sigma, sample_rate=q, orders=order)
        assert abs(mpf(value) / mpf(text) - 1) < 1e-12, (sigma, q, order)


def test_tiny_sample_rates_keep_relative_accuracy_where_other_libraries_lose_it():
    value = fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=1e-8, orders=2.0)
    with mp.workdps(40):
        truth = mp.log1p(mpf(1e-8) ** 2 * mp.expm1(1))
        assert 0 <= (mpf(value) - truth) / truth <= RTOL
    assert fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=1e-8, orders=1.5) > 0


@pytest.mark.parametrize("order", [1 + 2.0**-52, 1.5, 2, 63, 1e5])
def test_closed_forms_at_the_edges(order):
    full = fa.dpsgd.rdp(noise_multiplier=2.0, sample_rate=1, orders=order)
    assert 0 <= full / (order / 8.0) - 1 <= 1e-14
    for free in (
        {"sample_rate": 0.0, "noise_multiplier": 1.0},
        {"sample_rate": 0.5, "noise_multiplier": math.inf},
        {"sample_rate": 0.5, "noise_multiplier": 1.0, "steps": 0},
    ):
        assert fa.dpsgd.rdp(orders=order, **free) == 0.0
    assert fa.dpsgd.rdp(noise_multiplier=0.0, sample_rate=0.5, orders=order) == math.inf


def test_order_one_limit_is_the_kullback_leibler_divergence():
    value = fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.01, orders=1 + 2.0**-52)
    assert value == pytest.approx(8.381220765083179e-5, rel=3e-13, abs=0.0)  # what it pays for rounding


def test_outside_the_domain_the_bound_is_looser_but_still_a_bound():
    for sigma, q, order in [
        (0.003, 0.01, 3.5),
        (1e-3, 1e-9, 1.01),
        (0.01, 0.3, 1e6),
        (3e4, 1e-6, 2e6),
        (1e-4, 0.5, 1.5),
    ]:
        lower, upper, status = fa.dpsgd.rdp_bounds(noise_multiplier=sigma, sample_rate=q, orders=order)
        truth = reference.rdp(sigma, q, order, digits=15)
        assert lower <= truth <= upper, (sigma, q, order)
        assert upper <= truth * (1 + 1e-6) or status == fa.Status.LOOSE


def test_derivatives_seen_by_the_order_search_match_the_oracle():
    for point in [(1.0, 0.01, 8.0), (0.5, 0.1, 1.7), (3.0, 1e-5, 30.5), (1.5, 0.3, 1.01)]:
        found = kernel_parts.call("ledgers", "derivatives", *point, answers=3)
        for mine, exact in zip(found, reference.log_moment_derivatives(*point, digits=20), strict=True):
            assert abs(mpf(mine) / exact - 1) < 1e-9


def test_sharing_work_threads_and_the_order_of_the_grid_change_no_bit():
    rng = np.random.default_rng(3)
    sigma, q = rng.uniform(0.3, 8, (40, 1)), 10 ** rng.uniform(-6, 0, (40, 1))
    orders = np.concatenate([np.arange(1.1, 11, 0.1), np.arange(12, 64), [150.5, 4000.0]])
    grid = fa.dpsgd.rdp(noise_multiplier=sigma, sample_rate=q, orders=orders, threads=2)
    assert (grid == fa.dpsgd.rdp(noise_multiplier=sigma, sample_rate=q, orders=orders, threads=1)).all()
    backwards = fa.dpsgd.rdp(noise_multiplier=sigma[::-1], sample_rate=q[::-1], orders=orders[::-1])
    assert (grid == backwards[::-1, ::-1]).all()
    transposed = fa.dpsgd.rdp(noise_multiplier=sigma.T, sample_rate=q.T, orders=orders[:, None])
    assert (grid == transposed.T).all()
    for i, j in [(0, 0), (7, 150), (39, 152), (20, 60)]:
        alone = fa.dpsgd.rdp(noise_multiplier=sigma[i, 0], sample_rate=q[i, 0], orders=orders[j])
        assert alone == grid[i, j]


def test_steps_multiply_and_histories_add():
    run = {"noise_multiplier": 1.3, "sample_rate": 0.02, "orders": np.array([1.5, 8.0, 40.0])}
    one, many = fa.dpsgd.rdp(**run), fa.dpsgd.rdp(**run, steps=1000)
    np.testing.assert_allclose(many, 1000 * one, rtol=4e-16, atol=0.0)  # an ulp or two
    listed = fa.dpsgd.rdp(history=[(1.3, 0.02, 400), (1.3, 0.02, 600)], orders=run["orders"])
    np.testing.assert_array_equal(listed, many)


@settings(max_examples=300, deadline=None)
@given(st.floats(0.03, 1e4), st.floats(1e-12, 1.0), st.floats(1e-7, 1e5), st.floats(1.0001, 3.0), st.floats(1e-12, 1.0))
def test_rdp_is_monotone_in_order_rate_and_noise(sigma, q, a, factor, q2):
    def at(s, r, x):
        return fa.dpsgd.rdp_bounds(noise_multiplier=s, sample_rate=r, orders=1.0 + x)

    assert at(sigma, q, a * factor).upper >= at(sigma, q, a).lower
    assert at(sigma * factor, q, a).lower <= at(sigma, q, a).upper
    assert at(sigma, max(q, q2), a).upper >= at(sigma, min(q, q2), a).lower
