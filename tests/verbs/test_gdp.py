"""Gaussian differential privacy: the Gaussian that lies below a job, and its regret."""

import math
import sys

import numpy as np
import pytest

from fastacct.epsilon import delta_bounds, epsilon
from fastacct.gdp import _search, gdp
from fastacct.mechanisms import Gaussian
from fastacct.readers.contour import Contour
from fastacct.readers.nearby import LOG_DELTA
from fastacct.tradeoff import (
    tradeoff,
    tradeoff_bounds,
)

RUN = Gaussian(1.0).poisson(0.01) * 1000
MIXED = Gaussian(1.0).poisson(0.05) * 200 + Gaussian(3.0) * 2


@pytest.mark.parametrize("floor", [1e-2, 1e-6, 1e-12])
def test_the_fitted_gaussian_lies_below_the_job(floor):
    for job in (RUN, MIXED):
        mu, mu_lower, regret = gdp(job, delta_floor=floor)
        assert mu_lower <= mu <= mu_lower * (1 + 1e-6)
        end = epsilon(job, delta=floor)
        eps = np.append(np.linspace(0.0, 1.2 * end, 257), end * (1 - 1e-6))
        gaussian = delta_bounds(Gaussian(1 / mu), epsilon=eps)
        truth = delta_bounds(job, epsilon=eps)
        assert (truth.lower <= np.maximum(gaussian.upper, floor)).all()
        assert (gaussian.lower - truth.upper <= regret * (1.0 + np.exp(eps))).all()
        x = np.linspace(0.001, 0.999, 65)
        curve = tradeoff(job, x, envelope="convex")
        assert (curve >= tradeoff(Gaussian(1 / mu), x) - floor - 1e-9).all()
        moved = tradeoff(job, np.minimum(x + regret, 1.0), envelope="convex") - regret
        assert (moved <= tradeoff_bounds(Gaussian(1 / mu), x).upper + 1e-9).all()
        too_small = delta_bounds(Gaussian(1 / (mu_lower * (1 - 1e-4))), epsilon=eps)
        assert (truth.lower > np.maximum(too_small.upper, floor)).any()


def test_mu_grows_towards_that_of_the_steps_without_sampling():
    run = Gaussian(2.0).poisson(0.3) * 50
    found = [gdp(run, delta_floor=floor).mu for floor in (1e-3, 1e-10, 1e-60, 1e-290)]
    assert found == sorted(found)
    assert found[0] < found[-1] < math.sqrt(50) / 2
    fit = gdp(Gaussian(1.0) * 4, delta_floor=1e-4)
    assert (fit.mu, fit.regret) == (
        pytest.approx(2.0, rel=1.1e-6, abs=0.0),  # the search ends 1e-6 above
        pytest.approx(0.0, rel=0.0, abs=1e-5),
    )
    assert gdp(RUN, neighbors="add") == gdp(RUN) == gdp(RUN, neighbors="remove")
    # the central limit theorem says 0.41, which is no bound
    assert gdp(RUN, delta_floor=1e-5).mu_lower > 0.01 * math.sqrt(1000 * math.expm1(1.0))
    assert gdp(Gaussian(0.0), delta_floor=0.5).mu == math.inf
    assert gdp(Gaussian([1.0, 2.0]), delta_floor=0.1).mu == pytest.approx([1.0, 0.5], rel=1.1e-6, abs=0.0)


REFUSED = [
    (lambda: gdp(RUN, delta_floor=0.0), r"delta_floor = 0\.0 is out of range"),
    (lambda: gdp(RUN, delta_floor=[0.1, 0.2]), r"delta_floor must be one number"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_with_its_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_cells_in_which_lines_are_wide_are_given_up(monkeypatch):
    """Rare participation, where log deltas are known to 1e-5 and some not at all: halving on took minutes."""
    read, points = Contour.read, []

    def counted(self, cells, *args, **told):
        points.append(cells.size)
        return read(self, cells, *args, **told)

    monkeypatch.setattr(Contour, "read", counted)
    mu, mu_lower, regret = gdp(Gaussian(33.3).poisson(5.8e-7) * 1021, neighbors="replace_one")
    assert sum(points) < 2000
    assert 0.0 < mu_lower <= mu < math.sqrt(1021) / 33.3 * 2.0
    assert 0.0 < regret < 1.0


@pytest.mark.parametrize(
    ("noise", "rate", "floor"),
    [(44.24291024710611, 0.00016891514496936242, 7.2e-07), (18.650914615095353, 8.825537705233152e-06, 5.6e-06)],
)
def test_all_cells_may_be_given_up(noise, rate, floor):
    mu, mu_lower, regret = gdp(Gaussian(noise).poisson(rate) * 100_000, delta_floor=floor, neighbors="replace_one")
    assert 0.0 <= mu_lower <= mu < math.inf
    assert mu > 0.0
    assert 0.0 < regret <= 1.0


def test_every_epsilon_is_read_once(monkeypatch):
    read, asked = Contour.read, []

    def noted(self, cells, target, what, *rest, **options):
        if what == LOG_DELTA:
            asked.extend(target.tolist())
        return read(self, cells, target, what, *rest, **options)

    monkeypatch.setattr(Contour, "read", noted)
    fit = gdp(Gaussian(1.5).poisson(0.02) * 50, delta_floor=1e-8)
    assert fit.mu * (1.0 - 1e-6) <= fit.mu_lower <= fit.mu
    assert len(asked) == len(set(asked)) > 50


def test_statements_that_hold_are_not_asked_again():
    levels, asked = np.geomspace(1e-3, 10.0, 101), []

    def holds(mu, left):
        asked.append(left.size)
        return levels[left] <= mu

    low, high = _search(holds, levels.size)
    assert low < 10.0 <= high < low * (1.0 + 1e-10)
    assert asked[-1] == 1
    assert sum(asked) < 20 * levels.size


def test_few_deltas_are_asked_where_each_is_dear(monkeypatch):
    """Of rare steps a delta takes milliseconds: the first cells are few."""
    asked, read = [], Contour.read
    monkeypatch.setattr(
        Contour, "read", lambda self, cells, *given: asked.append(len(cells)) or read(self, cells, *given)
    )
    fit = gdp(Gaussian(0.3787).poisson(2.82e-5) * 178, neighbors="replace_one")
    assert sum(asked) <= 60
    assert fit.mu_lower <= fit.mu <= fit.mu_lower * (1.0 + 1.1e-6)


def test_where_deltas_take_long_the_search_ends_with_what_is_proved(monkeypatch):
    class Dear:
        def __enter__(self):
            return {"minutes": 1e13}

        def __exit__(self, *_):
            return None

    good = gdp(MIXED, delta_floor=1e-6)
    monkeypatch.setattr(sys.modules["fastacct.gdp"], "counted", Dear)
    mu, mu_lower, regret = gdp(MIXED, delta_floor=1e-6)
    assert mu_lower <= good.mu_lower * (1.0 + 1e-9)
    assert good.mu * (1.0 + 1e-5) < mu < 2.0 * good.mu
    eps = np.linspace(0.0, 1.2 * epsilon(MIXED, delta=1e-6), 101)
    gaussian, truth = delta_bounds(Gaussian(1 / mu), epsilon=eps), delta_bounds(MIXED, epsilon=eps)
    assert (truth.lower <= np.maximum(gaussian.upper, 1e-6)).all()
    assert (gaussian.lower - truth.upper <= regret * (1.0 + np.exp(eps))).all()


def test_losses_beyond_what_exponentials_hold():
    job = Gaussian(0.023633634292013914).poisson(1.4153784007519192e-06) * 6
    mu, mu_lower, regret = gdp(job, delta_floor=1e-10, neighbors="add")
    assert mu_lower <= mu < 60.0
    assert regret <= 0.51
