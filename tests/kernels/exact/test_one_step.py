"""One step in closed form (exact/one_step.h): its errors are needed where terms cancel; the theorems that compose such
steps (exact/classical.h)."""

import numpy as np
import pytest
from mpmath import erfc, exp, expm1, log, log1p, mp, mpf, sqrt

from tests.kernel_parts import call


def above(z):
    """The chance that a normal number is above z."""
    return erfc(z / sqrt(mpf(2))) / 2


def gaussian(mu, epsilon):
    """Delta of a Gaussian at any epsilon."""
    return above(epsilon / mu - mu / 2) - exp(epsilon) * above(epsilon / mu + mu / 2)


def of_a_sample(sigma, rate, way, epsilon):
    """Delta of one sampled Gaussian step, by that of a Gaussian at another epsilon (Balle, Barthe, Gaboardi 2018)."""
    sigma, rate, epsilon = mpf(sigma), mpf(rate), mpf(epsilon)
    if way > 0:
        return rate * gaussian(1 / sigma, log1p(expm1(epsilon) / rate))
    left = rate - (1 - rate) * expm1(epsilon)
    return left * gaussian(1 / sigma, epsilon + log(rate / left)) if left > 0 else mpf(0)


def of_mixtures(sigma, way, epsilon, p, q):
    """Delta of two mixtures of two normal distributions: both masses beyond where the loss is epsilon."""
    sigma, epsilon, (a, up), (b, down) = mpf(sigma), mpf(epsilon), map(mpf, p), map(mpf, q)

    def density(weight, mean, z):
        return (1 - weight) * exp(-((z / sigma) ** 2) / 2) + weight * exp(-(((z - mean) / sigma) ** 2) / 2)

    def mass(weight, mean, z):
        return (1 - weight) * above(way * z / sigma) + weight * above(way * (z - mean) / sigma)

    low, high = -60 * sigma - 60, 60 * sigma + 60
    for _ in range(160):
        z = (low + high) / 2
        if density(a, up, z) < exp(way * epsilon) * density(b, down, z):
            low = z
        else:
            high = z
    first, second = mass(a, up, low), mass(b, down, low)
    return first - exp(epsilon) * second if way > 0 else second - exp(epsilon) * first


def cells(count):
    """Noise, rate and how far epsilon is on the way to what is likely or possible."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        noise, rate = np.exp(rng.uniform([-1.0, -7.0], [3.0, -0.3])).tolist()
        yield noise, rate, float(rng.uniform(0.0, 1.0))


@pytest.mark.parametrize("way", [1, -1])
def test_a_sampled_step_is_between_its_bounds(way):
    with mp.workdps(60):
        for sigma, rate, share in cells(40):
            end = -np.log1p(-rate)
            for epsilon in (share * end, end * (1.0 - 10.0 ** (-9.0 * share)), 0.0):
                lower, upper = call("one_step", "sampled", sigma, rate, way, epsilon, answers=2)
                true = of_a_sample(sigma, rate, way, epsilon)
                if true > mpf(10) ** -300:
                    assert mpf(lower) <= log(true) <= mpf(upper)
                    assert upper - lower <= 1e-3 or epsilon > (1.0 - 1e-8) * end
                else:
                    assert lower < -600.0


def test_a_sampled_step_next_to_its_largest_loss_needs_what_it_adds():
    """What is left of the rate there is a difference of two numbers that are nearly equal."""
    needed = 0
    with mp.workdps(60):
        for sigma, rate, share in cells(60):
            epsilon = -float(np.log1p(-rate)) * (1.0 - 10.0 ** (-4.0 - 5.0 * share))
            lower, upper = call("one_step", "sampled", sigma, rate, -1, epsilon, answers=2)
            true = of_a_sample(sigma, rate, -1, epsilon)
            if not true > mpf(10) ** -300:
                continue
            assert mpf(lower) <= log(true) <= mpf(upper)
            with mp.workdps(16):  # the same in doubles
                found = of_a_sample(sigma, rate, -1, epsilon)
            needed += found > 0 and abs(log(found / true)) > 1e-11
    assert needed > 10


def test_a_sampled_step_a_few_roundings_below_its_largest_loss():
    """Whether anything is left there is not known from doubles; where it is, the bound is above it."""
    left = 0
    with mp.workdps(60):
        for _, rate, share in cells(20):
            epsilon = -float(np.log1p(-rate))
            for _ in range(8):
                sigma = 0.05 + 0.15 * share
                upper = call("one_step", "sampled", sigma, rate, -1, epsilon, answers=2)[1]
                true = of_a_sample(sigma, rate, -1, epsilon)
                left += true > 0
                assert true == 0 or log(true) <= mpf(upper)
                epsilon = float(np.nextafter(epsilon, 0.0))
    assert left > 50


@pytest.mark.parametrize(
    ("sigma", "way", "epsilon"), [(50.0, 1, 4e152), (1e153, -1, float(np.log(2.0)) * (1.0 - 2.0**-50))]
)
def test_a_sampled_step_whose_exponent_is_no_double_is_not_impossible(sigma, way, epsilon):
    lower, upper = call("one_step", "sampled", sigma, 0.5, way, epsilon, answers=2)
    assert lower == -np.inf
    assert upper == -(2.0**1022)


@pytest.mark.parametrize("way", [1, -1])
def test_a_step_of_mixtures_needs_its_errors(way):
    """Delta is a difference of two masses: in the middle of the bounds, what was found without errors."""
    above_it = below_it = 0
    with mp.workdps(40):
        for sigma, rate, share in cells(30):
            p, q = (rate, 1.0), (0.5 * rate * share, -1.0)
            most = float(log((1 - mpf(rate)) / (1 - mpf(q[0])))) if way < 0 else 1.0 / sigma**2
            epsilon = abs(most) * share
            lower, upper = call("one_step", "mixture", sigma, way, epsilon, lists=(list(p), list(q)), answers=2)
            true = of_mixtures(sigma, way, epsilon, p, q)
            if not true > mpf(10) ** -15:
                continue
            assert mpf(lower) <= log(true) <= mpf(upper)
            off = (exp(mpf(lower)) + exp(mpf(upper))) / (2 * true) - 1
            below_it += off < -1e-15
            above_it += off > 1e-15
    assert above_it > 3
    assert below_it > 3


def epsilon_of_a_step(sigma, rate, delta):
    """Where delta of one sampled step, direction remove, is this."""
    low, high = mpf(0), mpf(1)
    while of_a_sample(sigma, rate, 1, high) > delta:
        high *= 2
    for _ in range(120):
        middle = (low + high) / 2
        if of_a_sample(sigma, rate, 1, middle) > delta:
            low = middle
        else:
            high = middle
    return high


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(1.0, 0.01, 1000, 1e-5), (4.0, 0.3, 20, 1e-6), (8.0, 1.0, 500, 1e-4), (0.6, 0.001, 100_000, 1e-8)],
)
def test_basic_and_advanced_composition_are_what_the_theorems_say_rounded_up(sigma, rate, steps, delta):
    """Basic: steps times (epsilon, delta / steps).  Advanced: half of delta for the steps, half for the theorem."""
    with mp.workdps(40):
        one, half = (epsilon_of_a_step(sigma, rate, mpf(delta) / (share * steps)) for share in (1, 2))
        basic = steps * one
        advanced = half * sqrt(-2 * steps * log(mpf(delta) / 2)) + steps * half * expm1(half)
        found = call("one_step", "composed", sigma, rate, steps, delta, answers=2)
        for value, true in zip(found, (basic, min(basic, advanced)), strict=True):
            assert true <= value <= true * (1 + mpf(10) ** -11)
