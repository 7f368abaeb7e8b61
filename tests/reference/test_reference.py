"""The oracle against closed forms, against itself by other methods, and against values from the literature."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

mpmath = pytest.importorskip("mpmath")
reference = pytest.importorskip("fastacct.reference")

from mpmath import mp, mpf  # noqa: E402

from tests.containment import relative_error  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "rdp_oracle.csv.gz"


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


# A decimal parameter given as a string is that decimal; the float of the same name is another number.
PUBLISHED_RDP = [
    # sigma, q, order, value, where it comes from
    ("1", "0.01", "2", "1.7181342207454793e-4", "closed form: log(1 + q^2 (e - 1))"),
    ("4", "0.01", "8", "2.5899123012404281e-5", "integer sum of Mironov, Talwar and Zhang 2019, by hand at 40 digits"),
    ("2", "1e-8", "3", "4.2603812635623104e-17", "same; the naive sum loses every digit here"),
    ("1", "0.01", "1024", "507.39032818137653", "same"),
    ("0.3", "0.1", "1.25", "0.76933165729233341", "uniform trapezoid rule at 30 digits"),
    ("1", "0.25", "1.0001", "0.039555441113057710", "same"),
    ("0.2", "0.01", "3.3", "34.642581907060565", "same"),
    ("1", "0.01", "1", "8.381220765083179e-5", "the divergence of Kullback and Leibler, by another quadrature"),
]


@pytest.mark.parametrize(("sigma", "q", "order", "value", "source"), PUBLISHED_RDP)
def test_rdp_is_the_published_value(sigma: str, q: str, order: str, value: str, source: str) -> None:
    assert relative_error(reference.rdp(sigma, q, order), value) < 2e-16, source


def test_rdp_without_sampling_is_the_gaussian_closed_form() -> None:
    for sigma, order in ((0.03, 1 + 2.0**-52), (1.7, 2.5), (1e4, 1e5)):
        exact = mpf(order) / (2 * mpf(sigma) ** 2)
        assert relative_error(reference.rdp(sigma, 1, order, digits=30), exact) < 1e-30


def test_rdp_just_below_full_sampling_meets_the_closed_form() -> None:
    q = 1 - mpf(2) ** -120
    for order in (1.5, 7.0):
        assert relative_error(reference.rdp(2.0, q, order), mpf(order) / 8) < 1e-24


def test_order_two_is_the_chi_squared_closed_form() -> None:
    rng = random.Random(2)
    for _ in range(10):
        q, sigma = log_uniform(rng, 1e-12, 1), log_uniform(rng, 0.03, 1e4)
        closed = mp.log1p(mpf(q) ** 2 * mp.expm1(1 / mpf(sigma) ** 2))
        for method in ("series", "quadrature"):
            assert relative_error(reference.rdp(sigma, q, 2, method=method), closed) < 1e-24


def test_series_and_quadrature_agree_at_integer_orders() -> None:
    rng = random.Random(7)
    for i in range(60):
        q = log_uniform(rng, 1e-12, 1) if i % 3 else 1 - log_uniform(rng, 1e-15, 0.5)
        sigma, order = log_uniform(rng, 0.03, 1e4), int(log_uniform(rng, 2, 1e5))
        if i % 2:  # where the moment passes through 2 and both bumps of the integrand count
            sigma = max(0.03, math.sqrt(order / (2 * max(-math.log(q), 1e-3) * rng.uniform(0.5, 2))))
        by_series = reference.rdp(sigma, q, order, digits=20, method="series")
        by_quadrature = reference.rdp(sigma, q, order, digits=20, method="quadrature")
        assert relative_error(by_series, by_quadrature) < 1e-20, (sigma, q, order)


def trapezoid_rdp(sigma: float, q: float, order: float, points_per_scale: int) -> mpf:
    """The same moment by the uniform trapezoid rule in z, by terms of another form: no panels, no bounds."""
    with mp.workdps(70):
        s, q_, a = mpf(sigma), mpf(q), mpf(order)
        step = min(s, s * s) / points_per_scale
        start, n = -13 * s, int((a + 26 * s) / step) + 1
        total = mpf(0)
        for i in range(n):
            z = start + i * step
            ratio = 1 - q_ + q_ * mp.exp((2 * z - 1) / (2 * s * s))
            total += mp.exp(-z * z / (2 * s * s)) * (ratio**a - a * ratio + a - 1)
        return mp.log1p(total * step / (s * mp.sqrt(2 * mp.pi))) / (a - 1)


@pytest.mark.parametrize(
    ("sigma", "q", "order", "points_per_scale"),
    [
        (1.0, 0.01, 1.5, 9),
        (0.5, 1e-6, 1.0000001, 5),
        (0.7, 0.3, 12.3, 5),
        (3.0, 1e-9, 40.25, 20),
        (30.0, 0.9, 2.5, 200),
    ],
)
def test_quadrature_agrees_with_the_trapezoid_rule(sigma: float, q: float, order: float, points_per_scale: int) -> None:
    value = reference.rdp(sigma, q, order, digits=20)
    assert relative_error(value, trapezoid_rdp(sigma, q, order, points_per_scale)) < 1e-19


def test_rdp_rises_from_the_kullback_leibler_divergence() -> None:
    for sigma, q in ((1.0, 0.01), (0.1, 1e-6), (50.0, 0.4)):
        kl, slope = reference.rdp(sigma, q, 1), reference.log_moment_derivatives(sigma, q, 1)[2] / 2
        h = mpf(2) ** -52
        near = reference.rdp(sigma, q, 1 + h)
        assert relative_error(near, kl + slope * h) < 1e-24
        assert near > kl


def test_tiny_divergences_keep_relative_accuracy() -> None:
    # for small q the divergence is a q^2 / 2 expm1(1 / s^2) to relative order q
    q, sigma, order = mpf("1e-40"), mpf(100), mpf("1.75")
    leading = order * q**2 * mp.expm1(1 / sigma**2) / 2
    assert relative_error(reference.rdp(sigma, q, order, digits=25), leading) < 1e-24


def test_huge_orders_follow_the_single_large_mode() -> None:
    q, sigma, order = 1e-3, 2.0, 1e9 + 0.5
    a = mpf(order)
    leading = a / 8 + a * mp.log(mpf(q)) / (a - 1)
    assert relative_error(reference.rdp(sigma, q, order, digits=18), leading) < 1e-17


def test_edges_of_the_domain_have_defined_answers() -> None:
    assert reference.rdp(1.0, 0, 2) == 0
    assert reference.rdp(mp.inf, 0.5, 2) == 0
    assert reference.rdp(0, 0.5, 2) == mp.inf
    assert reference.rdp(1.0, 0.5, mp.inf) == mp.inf
    for bad in ((-1, 0.5, 2), (1, 1.5, 2), (1, 0.5, 0.5), (1, 0.5, mp.nan)):
        with pytest.raises(ValueError, match="must be"):
            reference.rdp(*bad)


@pytest.mark.parametrize(
    ("sigma", "q", "order"), [(1.0, 0.01, 4.5), (0.4, 1e-5, 1.3), (20.0, 0.2, 300.0), (1.5, 1.0, 3.0)]
)
def test_derivatives_are_those_of_the_log_moment(sigma: float, q: float, order: float) -> None:
    value, first, second = reference.log_moment_derivatives(sigma, q, order, digits=20)

    def log_moment(a: mpf) -> mpf:
        return reference.log_moment(sigma, q, a, digits=32, method="quadrature")

    with mp.workdps(32):
        h = mpf(order) * mpf(10) ** -7
        numeric = mp.diff(log_moment, mpf(order), 1, h=h, relative=False)
        low, mid, high = (log_moment(mpf(order) + k * h) for k in (-1, 0, 1))
        assert relative_error(value, mid) < 1e-19
        assert relative_error(first, (high - low) / (2 * h)) < 1e-9
        assert relative_error(first, numeric) < 1e-4
        assert relative_error(second, (high - 2 * mid + low) / h**2) < 1e-9


# --- certification ---------------------------------------------------------------------------------------------------


def test_a_value_that_drifts_is_not_returned() -> None:
    with pytest.raises(reference.NotConverged):
        reference.certify(lambda goal, level: 1 + mpf(10) ** -(level + 5), 12, "drift")
    with pytest.raises(reference.NotConverged):
        reference.certify(lambda goal, level: mp.nan, 12, "nan")


def test_every_value_is_evaluated_at_two_discretisations(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastacct.reference import sampled_gaussian

    calls = []

    def spy(*args: Any) -> Any:
        calls.append(args[-2:])
        return quadrature(*args)

    quadrature = sampled_gaussian.quadrature
    monkeypatch.setattr(sampled_gaussian, "quadrature", spy)
    reference.rdp(1.0, 0.01, 2.5, digits=15)
    assert len(calls) >= 2
    assert len({goal for goal, _ in calls}) == len({level for _, level in calls}) == len(calls)


def test_too_small_a_working_precision_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastacct.reference import excess

    monkeypatch.setattr(excess, "working_bits", lambda *args: 30)
    with pytest.raises(reference.NotConverged):
        reference.rdp(1e4, 1e-12, 1.0001)


def test_too_few_nodes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastacct.reference import excess

    rule = excess.gauss_legendre
    monkeypatch.setattr(excess, "gauss_legendre", lambda n, prec: rule(n // 6, prec))
    with pytest.raises(reference.NotConverged):
        reference.rdp(1.0, 0.01, 2.5)


# --- profiles --------------------------------------------------------------------------------------------------------

GAUSSIAN_DELTA = [
    # mu, epsilon, delta: Balle and Wang 2018, Theorem 8, evaluated at 40 digits
    ("1", "1", "0.12693673750664395"),
    ("0.1", "1", "1.2308359836427042e-25"),
    ("4", "10", "0.23369880786218617"),
    ("1", "0", "0.38292492254802621"),
    ("1", "30", "4.7093263180975222e-193"),
]


@pytest.mark.parametrize(("mu", "epsilon", "value"), GAUSSIAN_DELTA)
def test_gaussian_delta_is_the_published_value(mu: str, epsilon: str, value: str) -> None:
    assert relative_error(reference.gaussian_delta(mu, epsilon), value) < 1e-16


def test_gaussian_delta_obeys_the_reversal_identity() -> None:
    # H_g(P||Q) = 1 - g + g H_(1/g)(Q||P), and the Gaussian pair is symmetric
    for mu, eps in ((0.7, 1.3), (5.0, 0.2), (1e-3, 1e-3)):
        forward, backward = reference.gaussian_delta(mu, eps), reference.gaussian_delta(mu, -eps)
        assert abs(backward - (1 - mp.exp(-mpf(eps)) + mp.exp(-mpf(eps)) * forward)) < mpf(10) ** -24


@pytest.mark.parametrize(
    ("mu", "delta", "value"),
    [("1", "1e-5", "4.3771780956812246"), ("5", "1e-8", "39.891146705007581"), ("1", "1e-30", "11.743883025231736")],
)
def test_gaussian_epsilon_is_the_published_value(mu: str, delta: str, value: str) -> None:
    epsilon = reference.gaussian_epsilon(mu, delta, digits=20)
    assert relative_error(epsilon, value) < 1e-16
    assert relative_error(reference.gaussian_delta(mu, epsilon), delta) < 1e-18


SAMPLED_DELTA = [
    # sigma, q, epsilon, direction, delta: threshold formula evaluated independently at 30 digits
    ("1", "0.01", "0.05", "remove", "3.110653954432247e-4"),
    ("0.5", "0.01", "2", "remove", "5.396716838847904e-5"),
    ("0.7", "1e-4", "0.5", "remove", "5.613440032395860e-13"),
    ("0.8", "0.3", "0.2", "add", "0.03431201142792296"),
]


@pytest.mark.parametrize(("sigma", "q", "epsilon", "direction", "value"), SAMPLED_DELTA)
def test_sampled_gaussian_delta_is_the_published_value(
    sigma: str, q: str, epsilon: str, direction: str, value: str
) -> None:
    assert relative_error(reference.sampled_gaussian_delta(sigma, q, epsilon, direction), value) < 1e-15


@cache
def sampled_densities() -> tuple[list[mpf], list[mpf]]:
    """Of a sample with noise 0.9 and rate 0.3, and of the noise alone, on a grid of width 1/200."""
    sigma, q = mpf("0.9"), mpf("0.3")
    with mp.workdps(20):
        at_0, at_1 = ([mp.npdf(mpf(k) / 200, mean, sigma) for k in range(-1800, 2001)] for mean in (0, 1))
        return [(1 - q) * one + q * other for one, other in zip(at_0, at_1, strict=True)], at_0


@pytest.mark.parametrize("epsilon", [-0.3, -0.02, 0.0, 0.4])
def test_sampled_gaussian_delta_is_the_hockey_stick_integral(epsilon: float) -> None:
    mixed, alone = sampled_densities()
    with mp.workdps(20):
        grown = mp.exp(epsilon)
        for direction, p, q in (("remove", mixed, alone), ("add", alone, mixed)):
            riemann = sum(max(mpf(0), one - grown * other) for one, other in zip(p, q, strict=True)) / 200
            value = reference.sampled_gaussian_delta(mpf("0.9"), mpf("0.3"), epsilon, direction, digits=15)
            assert abs(riemann - value) < 1e-5 * max(float(value), 0.1), direction


# --- conversions -----------------------------------------------------------------------------------------------------


def test_one_order_conversions_are_the_published_formulas() -> None:
    # Mironov 2017 Prop. 3 and Canonne, Kamath and Steinke 2020 Prop. 12, by a calculator
    assert relative_error(reference.rdp_to_epsilon("0.5", 8, "1e-5", "mironov"), "2.14470363785289") < 1e-14
    cks = reference.rdp_to_epsilon("0.5", 8, "1e-5", "canonne_kamath_steinke")
    assert relative_error(cks, "1.714109167845533") < 1e-15
    # Asoodeh et al. 2021: maximisation over pairs of coins, 10 digits
    assert relative_error(reference.rdp_to_delta("0.1", 2, "0.5", "optimal"), "0.03827216968") < 1e-10
    assert relative_error(reference.rdp_to_delta("0.5", 8, "1.5", "optimal"), "4.341296883e-5") < 1e-9


def test_optimal_conversion_is_the_maximum_over_pairs_of_coins() -> None:
    order, bound, epsilon = 2.5, 0.3, 0.4
    value = float(reference.rdp_to_delta(bound, order, epsilon, "optimal"))
    best, limit = 0.0, math.exp((order - 1) * bound)
    for i in range(1, 4000):
        p = i / 4000
        low, high = 0.0, p
        for _ in range(50):  # the smallest q that is allowed
            q = (low + high) / 2
            allowed = q > 0 and p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order) <= limit
            low, high = (low, q) if allowed else (q, high)
        best = max(best, p - math.exp(epsilon) * high)
    assert best <= value * (1 + 1e-12)
    assert best > value * (1 - 1e-6)


def test_conversions_invert_and_are_ordered() -> None:
    rng = random.Random(3)
    for _ in range(8):
        order, bound, delta = 1 + log_uniform(rng, 0.05, 100), log_uniform(rng, 1e-3, 5), log_uniform(rng, 1e-12, 1e-3)
        found = []
        for conversion in ("optimal", "canonne_kamath_steinke", "mironov"):
            epsilon = reference.rdp_to_epsilon(bound, order, delta, conversion, digits=18)
            found.append(epsilon)
            if epsilon > 0:
                back = reference.rdp_to_delta(bound, order, epsilon, conversion, digits=18)
                assert relative_error(back, delta) < 1e-14
        assert found == sorted(found)


CONTINUOUS = [
    # one release of a Gaussian with mu = 1 at delta = 1e-5: golden section over the order, 16 digits
    ("mironov", "5.298525912188081"),
    ("canonne_kamath_steinke", "4.728386984943314"),
]


@pytest.mark.parametrize(("conversion", "value"), CONTINUOUS)
def test_continuous_order_search_on_the_gaussian(conversion: str, value: str) -> None:
    epsilon, order = reference.rdp_epsilon(1, 1, 1, "1e-5", conversion)
    assert relative_error(epsilon, value) < 1e-15
    if conversion == "mironov":  # closed form: epsilon = 1/2 + sqrt(2 log(1/delta)), order = 1 + sqrt(2 log(1/delta))
        tail = mp.sqrt(-2 * mp.log(mpf("1e-5")))
        assert relative_error(epsilon, tail + mpf(1) / 2) < 1e-24
        assert relative_error(order, 1 + tail) < 1e-8
    else:  # at least the exact epsilon of the Gaussian
        assert epsilon > reference.gaussian_epsilon(1, "1e-5", digits=15)


def test_zcdp_delta_is_the_published_value() -> None:
    # rho = 1/2, epsilon = 4: infimum over the order, golden section, 16 digits
    delta, _ = reference.rdp_delta(1, 1, 1, 4, "canonne_kamath_steinke")
    assert relative_error(delta, "1.957954169577216e-4") < 1e-15


@pytest.mark.parametrize("conversion", ["mironov", "canonne_kamath_steinke", "optimal"])
@pytest.mark.parametrize(("sigma", "q", "steps", "delta"), [(4.0, 0.01, 10_000, 1e-5), (0.6, 1e-4, 500, 1e-8)])
def test_no_order_beats_the_infimum(conversion: str, sigma: float, q: float, steps: int, delta: float) -> None:
    epsilon, order = reference.rdp_epsilon(sigma, q, steps, delta, conversion, digits=12)
    best = mp.inf
    for factor in (0.25, 0.7, 0.99, 1.0, 1.01, 1.4, 4.0):
        a = 1 + (order - 1) * factor
        digits = 12 if factor == 1.0 else 7  # 1 % beside the best order epsilon is 5e-5 larger
        run = steps * reference.rdp(sigma, q, a, digits=digits + 2, method="quadrature")
        best = min(best, reference.rdp_to_epsilon(run, a, delta, conversion, digits=digits))
    assert relative_error(best, epsilon) < 1e-11
    if conversion != "optimal" or sigma == 4.0:  # the dearest, asked once
        back, _ = reference.rdp_delta(sigma, q, steps, epsilon, conversion, digits=10)
        assert relative_error(back, delta) < 1e-9


def test_infimum_is_certified_against_a_published_run() -> None:
    # Abadi et al. 2016 publish 1.26 from integer orders; over real orders it can only be a little less
    epsilon, _ = reference.rdp_epsilon("4", "0.01", 10_000, "1e-5", "mironov", digits=12)
    assert 1.258 < epsilon < 1.25857474125


def test_optimal_conversion_may_be_best_in_the_limit_of_order_one() -> None:
    delta, order = reference.rdp_delta(1.0, 0.01, 100, 0, "optimal", digits=10)
    assert order == 1
    near = 1 + mpf(10) ** -12
    run = 100 * reference.rdp(1.0, 0.01, near, digits=20)
    assert relative_error(delta, reference.rdp_to_delta(run, near, 0, "optimal", digits=12)) < 1e-9


def test_nothing_released_costs_nothing() -> None:
    for arguments in ((1.0, 0.0, 10), (1.0, 0.5, 0), (mp.inf, 0.5, 10)):
        assert reference.rdp_epsilon(*arguments, 1e-5)[0] == 0
        assert reference.rdp_delta(*arguments, 1.0)[0] == 0
    assert reference.rdp_epsilon(1.0, 0.5, 10, 0)[0] == mp.inf
    assert reference.rdp_epsilon(1.0, 0.5, 10, 1)[0] == 0
    assert reference.rdp_delta(0.1, 0.5, 10**6, 1.0)[0] == 1


# --- the data file ---------------------------------------------------------------------------------------------------


def test_a_sample_of_the_data_file_is_reproduced() -> None:
    with gzip.open(DATA, "rt") as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert len(rows) == 400
    assert {row["kind"] for row in rows} == {"corner", "integer", "real", "transition"}
    for row in rows[::9]:
        sigma, q, order = (float(row[name]) for name in ("noise_multiplier", "sample_rate", "order"))
        value = reference.rdp(sigma, q, order, digits=22, method="quadrature")
        assert relative_error(row["rdp"], value) < 1e-19, row
