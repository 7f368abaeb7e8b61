"""The numbers that every wheel has to give are those of the oracle, and a wrong one is noticed."""

from pathlib import Path

import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from fastacct.reference.batches import Branch, batch_delta
from tests import check_wheel

DIGITS = 12


def laplace_twice():
    """Delta of two releases of Laplace noise 2 at epsilon 0.4: the first one's output is integrated out."""
    noise, epsilon = mpf(2), mpf(0.4)

    def of_one(eps):
        return 1 - mp.exp((eps - 1 / noise) / 2) if eps > -1 / noise else 1 - mp.exp(eps)

    def integrand(x):
        eps = epsilon - (abs(x - 1) - abs(x)) / noise
        return mp.exp(-abs(x) / noise) / (2 * noise) * (of_one(eps) if eps < 1 / noise else mpf(0))

    corner = (1 - noise * (epsilon - 1 / noise)) / 2  # where one more release proves no more than epsilon
    return mp.quad(integrand, [-mp.inf, -60, -20, 0, corner, 1, 20, 60, mp.inf])


def false_negatives():
    """1 - delta(e) - e^e fpr at the e where it is largest: next to 0.32, by a parabola."""

    def at(eps):
        delta = reference.exact_delta(1.0, 0.05, 10, eps, direction="remove", digits=14)
        return 1 - delta - mp.exp(mpf(eps)) * mpf(0.05)

    near, h = 0.3218, 0.0005
    left, mid, right = at(near - h), at(near), at(near + h)
    return at(float(near + h * (left - right) / (2 * (left - 2 * mid + right))))


TRUTHS = {
    "epsilon": lambda: reference.exact_epsilon(1.0, 0.01, 1000, 1e-5, digits=DIGITS),
    "delta": lambda: reference.exact_delta(1.1, 0.004, 3000, 1.0, digits=DIGITS),
    "Rényi divergence of order 4.5": lambda: 30 * reference.rdp(2.0, 0.05, 4.5),
    "delta of two releases of Laplace noise": laplace_twice,
    "delta of batches of fixed size": lambda: batch_delta(
        [Branch(mpf(1), mpf(4), mpf(5) / 100, "slot")], 100, 0.5, digits=11
    ),
    "false-negative rate at 5 % false positives": false_negatives,
}


def test_every_value_has_an_oracle():
    assert TRUTHS.keys() == check_wheel.VALUES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_values_are_those_of_the_oracle(name):
    with mp.workdps(25):
        assert abs(mpf(check_wheel.VALUES[name][0]) / TRUTHS[name]() - 1) < 1e-11


@pytest.mark.slow
def test_the_noise_multiplier_is_that_of_the_oracle():
    epsilon = reference.exact_epsilon(float(check_wheel.NOISE), 0.01, 1000, 1e-5, digits=DIGITS)
    assert abs(epsilon / 3 - 1) < 1e-11


def test_this_installation_has_no_faults():
    assert check_wheel.faults() == []


@pytest.mark.parametrize("name", check_wheel.VALUES)
@pytest.mark.parametrize("factor", [1.0 + 4e-9, 1.0 - 4e-9])
def test_a_value_that_is_off_in_the_ninth_digit_is_noticed(name, factor):
    truth, ask, status = check_wheel.VALUES[name]
    assert check_wheel.wrong(name, truth, lambda: [*(x * factor for x in ask()[:2]), ask()[2]], status)


@pytest.mark.parametrize("name", check_wheel.VALUES)
def test_another_status_is_noticed(name):
    truth, ask, status = check_wheel.VALUES[name]
    other = fa.Status.LOOSE if status == "TIGHT" else fa.Status.TIGHT
    assert check_wheel.wrong(name, truth, lambda: [*ask()[:2], other], status)


def test_a_noise_multiplier_that_is_too_small_is_noticed(monkeypatch):
    monkeypatch.setattr(fa.dpsgd, "noise_multiplier", lambda **_: float(check_wheel.NOISE) * (1.0 - 1e-11))
    assert len(check_wheel.faults()) == 1


def test_the_table_asks_for_no_library_but_numpy():
    text = Path(check_wheel.__file__).read_text()
    assert "import fastacct as fa" in text
    assert not any(name in text for name in ("mpmath", "scipy", "pytest"))
