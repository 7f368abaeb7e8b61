"""Compiled densities at their extremes: values that are no normal numbers, losses that turn, names that are alike."""

import math
import sys
import types

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from tests.densities import flat, gaussian_p, gaussian_q

# -- compiled densities whose values are no normal numbers -----------------------------------------------------------


def _compiled(log_p, log_q, domain, **options):
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    return fa.jit.mechanism(log_density_p=log_p, log_density_q=log_q, domain=domain, **options)


def test_losses_beyond_the_range_of_exp():
    def p(x):
        return -math.log(2.0)

    def q(x):
        return -math.log(2.0) - (720.3 - 40.0 * (x - 0.53) ** 2) if x < 1.0 else 0.0

    mine = _compiled(p, q, (0.0, 2.0), breakpoints=[1.0], panels=16)
    assert fa.delta_bounds(mine, epsilon=720.0, neighbors="remove").lower <= 0.015408943072
    assert fa.epsilon_bounds(mine, delta=0.01, neighbors="remove").lower <= 720.0797


@pytest.mark.parametrize("factor", [1.4, 1.6])
def test_densities_that_underflow_over_wide_domains(factor):
    wide = 1e300
    log_q = math.log(factor) + math.log(5e-324)
    log_p = log_q + 40.0
    with mp.workdps(50):
        p, q = wide * mp.exp(mp.mpf(log_p)), wide * mp.exp(mp.mpf(log_q))
        rest_p, rest_q = float(mp.log((1 - p) / wide)), float(mp.log((1 - q) / wide))
        truth, times = float(p - mp.exp(mp.mpf(39.9)) * q), mp.exp(mp.mpf(39.9))
        twice = float(2 * (p * (1 - p) - times * q * (1 - q)) + p**2 - times * q**2)

    def inside_p(x):
        return log_p if x < 1e300 else rest_p

    def inside_q(x):
        return log_q if x < 1e300 else rest_q

    mine = _compiled(inside_p, inside_q, (0.0, 2.0 * wide), breakpoints=[wide])
    lower, upper, _ = fa.delta_bounds(mine, epsilon=39.9, neighbors="remove")
    assert lower <= truth <= upper <= truth * (1.0 + 1e-6)
    lower, upper, _ = fa.delta_bounds(mine * 2, epsilon=39.9, neighbors="remove")
    assert lower <= twice <= upper


@pytest.mark.parametrize(("scale", "epsilon", "truth"), [(1e60, 36.0, 6.7e-278), (1e148, 30.0, 4.709e-193)])
def test_wide_gaussians(scale, epsilon, truth):
    def p(x):
        return -0.5 * ((x - scale) / scale) ** 2 - math.log(scale) - 0.9189385332046727

    def q(x):
        return -0.5 * (x / scale) ** 2 - math.log(scale) - 0.9189385332046727

    mine = _compiled(p, q, (-math.inf, math.inf))
    lower, upper, _ = fa.delta_bounds(mine, epsilon=epsilon, neighbors="remove")
    assert lower <= truth * 1.01
    assert upper >= truth


def twice_as_fast(x):
    return math.log(2.0) - 2.0 * x


def exponential(x):
    return -x


def test_the_other_density_underflows():
    mine = _compiled(twice_as_fast, exponential, (0.0, math.inf))
    lower, upper, _ = fa.delta_bounds(mine, epsilon=400.0, neighbors="add")
    assert lower <= 0.25 * math.exp(-400.0) <= upper


CONSTANT = 0.0
CONFIG = types.ModuleType("config")
CONFIG.shift = 0.0


def _scaled(x):
    return CONSTANT - 0.5 * x * x - 0.9189385332046727


def _shifted(x):
    return CONSTANT - 0.5 * (x - 1.0) ** 2 - 0.9189385332046727


def test_functions_may_read_globals():
    assert fa.delta(_compiled(_shifted, _scaled, (-40.0, 40.0)), epsilon=1.0) == pytest.approx(
        0.12693674, rel=4e-8, abs=0.0
    )


# -- mechanisms that look alike --------------------------------------------------------------------------------------


def _response(epsilon):
    """Randomized response, whose densities are steps."""
    rare = -math.log1p(math.exp(epsilon))

    def p(x):
        return rare + epsilon if x < 1.0 else rare

    def q(x):
        return rare if x < 1.0 else rare + epsilon

    return _compiled(p, q, (0.0, 2.0), breakpoints=[1.0])


def test_compiled_mechanisms_of_the_same_names_are_not_one():
    weak, strong = _response(0.05), _response(2.0)
    first, second = fa.Parallel(weak, fa.Gaussian(20.0)), fa.Parallel(strong, fa.Gaussian(20.0))
    p = 1.0 / (1.0 + math.exp(-2.0))
    assert fa.delta(first + second, epsilon=1.0) >= (p - math.e * (1.0 - p)) * (1.0 - 1e-12)
    assert fa.rdp(first + second, 4.0) >= math.log(p**4 / (1.0 - p) ** 3 + (1.0 - p) ** 4 / p**3) / 3.0 * (1.0 - 1e-12)
    accountant = fa.Accountant(epsilon=1.0, delta=1e-5)
    accountant.compose(first)
    with pytest.raises(fa.BudgetExceededError):
        accountant.compose(second)
    one, other = (fa.RepeatedSelection(base, mean=2.0) for base in (weak, strong))
    assert one + other == other + one != one + one
    assert {part for part, _ in one + other} == {one, other}


def _gaussian(scale):
    """On a bounded domain: on all numbers a divergence takes ten times as long."""

    def p(x):
        return -0.5 * ((x - 1.0) / scale) ** 2 - math.log(scale) - 0.9189385332046727

    def q(x):
        return -0.5 * (x / scale) ** 2 - math.log(scale) - 0.9189385332046727

    return _compiled(p, q, (-300.0, 300.0))


def test_selections_of_compiled_mechanisms_of_the_same_names_add_up():
    one, other = (fa.RepeatedSelection(_gaussian(scale), mean=2.0) for scale in (10.0, 0.5))
    assert fa.rdp(one + other, 4.0) == fa.rdp(other + one, 4.0) > fa.rdp(other, 4.0)


def _inside(x):
    f = lambda y: -0.5 * (y - CONSTANT) ** 2 - 0.9189385332046727  # noqa: E731 a function inside
    return f(x)


def _module(x):
    return -0.5 * (x - CONFIG.shift) ** 2 - 0.9189385332046727


@pytest.mark.parametrize("function", [_inside, _module])
def test_globals_are_seen_wherever_a_function_reads_them(monkeypatch, function):
    before = _compiled(function, _scaled, (-40.0, 40.0))
    monkeypatch.setattr(sys.modules[__name__], "CONSTANT", 1.0)
    monkeypatch.setattr(CONFIG, "shift", 1.0)
    after = _compiled(function, twice_as_wide, (-40.0, 40.0))
    assert fa.delta(before, epsilon=1.0) < 1e-9
    assert fa.delta(after, epsilon=0.5, neighbors="remove") > 1e-3
    assert before != after


def twice_as_wide(x):
    return -0.125 * x * x - 0.9189385332046727 - math.log(2.0)


# -- compiled mechanisms ---------------------------------------------------------------------------------------------


def half(x):
    return math.log(2.0) if x < 0.5 else -math.inf


def test_outputs_that_only_one_of_the_densities_has():
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    mine = fa.jit.mechanism(log_density_p=flat, log_density_q=half, domain=(0.0, 1.0), breakpoints=[0.5])
    for epsilon in (0.0, 3.0, 50.0):
        lower, upper, _ = fa.delta_bounds(mine, epsilon=epsilon, neighbors="remove")
        assert lower <= 0.5 <= upper <= 0.5 * (1.0 + 1e-9)
    assert fa.epsilon(mine, delta=1e-5) == math.inf
    assert fa.epsilon(mine, delta=0.1, neighbors="remove") == math.inf
    truth = math.log(2.0 * (1.0 - 1e-5))
    assert fa.epsilon(mine, delta=1e-5, neighbors="add") == pytest.approx(truth, rel=1e-11, abs=0.0)
    assert fa.rdp(mine, 2.0, neighbors="remove") == math.inf


def bowl(x):
    return (0.05 + 0.2 * (x - 1.0) ** 2 if x <= 2.0 else TAIL) - math.log(3.0)


def third(x):
    return -math.log(3.0)


def _tail():
    """The constant that makes the bowl a density on [0, 3]."""
    x, w = np.polynomial.legendre.leggauss(40)
    inside = float(np.sum(w * np.exp(0.05 + 0.2 * x**2)))
    return math.log(3.0 - inside)


TAIL = _tail()


@pytest.mark.parametrize("panels", [16, 64, 256])
def test_a_loss_that_turns_inside_a_panel(panels):
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    mine = fa.jit.mechanism(
        log_density_p=bowl, log_density_q=third, domain=(0.0, 3.0), breakpoints=[2.0], panels=panels
    )
    x, w = np.polynomial.legendre.leggauss(200)
    for epsilon in np.linspace(0.05, 0.2499, 60):
        edge = math.sqrt((epsilon - 0.05) / 0.2)  # the loss is above epsilon beyond it
        y = 0.5 * (1.0 - edge) * x + 0.5 * (1.0 + edge)
        above = 2.0 * float(np.sum(0.5 * (1.0 - edge) * w * (np.exp(0.05 + 0.2 * y**2) - math.exp(epsilon)))) / 3.0
        truth = above + max(0.0, math.exp(TAIL) - math.exp(epsilon)) / 3.0
        lower, upper, _ = fa.delta_bounds(mine, epsilon=float(epsilon), neighbors="remove")
        assert lower <= truth * (1.0 + 1e-12) + 1e-15
        assert upper >= truth * (1.0 - 1e-12) - 1e-15


def test_mass_outside_the_domain_is_paid():
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    cut = fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q, domain=(-6.05, 7.05))
    for neighbors in ("remove", "add"):
        assert fa.delta(cut, epsilon=7.0, neighbors=neighbors) >= 5.2e-12
        assert fa.delta(cut * 2, epsilon=9.0, neighbors=neighbors) >= fa.delta_lower(fa.Gaussian(1.0) * 2, epsilon=9.0)


def vanishing_p(x):
    return math.log(x) - x if x > 0.0 else -math.inf


def vanishing_q(x):
    return -x


def triangle(x):
    return math.log(2.0 * x) if x > 0.0 else -math.inf


def turned_triangle(x):
    return math.log(2.0 * (1.0 - x)) if x < 1.0 else -math.inf


def test_densities_that_go_to_zero_at_an_end():
    """P = x exp(-x) against Q = exp(-x); 2 (1 - x) against 2 x on [0, 1]: closed forms."""
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    mine = fa.jit.mechanism(log_density_p=vanishing_p, log_density_q=vanishing_q, domain=(0.0, math.inf))
    for epsilon in (1.0, 10.0, 12.0, 20.0):
        c = math.exp(-epsilon)  # Q - e^epsilon P > 0 below c
        series = [(-1.0) ** n / math.factorial(n) * c ** (n + 1) * (1.0 / (n + 1) - 1.0 / (n + 2)) for n in range(12)]
        truth = math.fsum(series)
        lower, upper, _ = fa.delta_bounds(mine, epsilon=epsilon, neighbors="add")
        assert lower <= truth * (1.0 + 1e-9)
        assert truth * (1.0 - 1e-9) <= upper <= truth * 1.001
    assert fa.epsilon(mine, delta=1e-7, neighbors="add") >= 15.4249
    assert fa.delta(mine * 2, epsilon=17.0, neighbors="add") >= 3.59e-7
    swapped = fa.jit.mechanism(log_density_p=turned_triangle, log_density_q=triangle, domain=(0.0, 1.0))
    for delta in (1e-3, 1e-7):
        lower, upper, _ = fa.epsilon_bounds(swapped, delta=delta)
        truth = math.log(1.0 / delta - 1.0)
        assert lower <= truth <= upper <= truth * (1.0 + 1e-6)


def step_p(x):
    return math.log(1.0 / 3.0)


def step_q(x):
    return -math.inf if x < 1.0 else math.log(0.5)


@pytest.mark.parametrize("start", [0.0, 1.0 - 1e-13])
def test_a_panel_with_finite_and_infinite_losses(start):
    """Where Q begins is not named, at an edge that no panel hits: refused, or never below the truth."""
    pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
    cuts = [start] if start else []
    given = {"log_density_p": step_p, "log_density_q": step_q, "domain": (0.0, 3.0), "panels": 100}
    if not cuts:
        with pytest.raises(ValueError, match="not resolved"):
            fa.jit.mechanism(**given)
        return
    mine = fa.jit.mechanism(**given, breakpoints=cuts)
    for epsilon in (0.0, 1.0, 3.0):
        assert fa.delta(mine, epsilon=epsilon, neighbors="remove") >= 1.0 / 3.0 - 1e-12


def test_the_larger_direction_of_a_bounded_loss():
    """Of 1/2 + x against the uniform density on (0, 1) losses are between log(1/2) and log(3/2)."""
    made = _compiled(lambda x: math.log(0.5 + x), lambda x: 0.0, (0.0, 1.0), panels=256)
    sizes = {"remove": math.log(1.5), "add": math.log(2.0), "add_remove": math.log(2.0)}
    for relation, size in sizes.items():
        assert size - 1e-9 <= fa.epsilon(made, delta=0.0, neighbors=relation) <= size + 1e-2
    assert fa.rdp(made, math.inf) >= math.log(2.0) - 1e-9


@pytest.mark.parametrize("at_most", [True, False], ids=["with the end", "without the end"])
def test_a_loss_that_jumps_at_breakpoints_has_its_own_largest_value(at_most):
    """Panels end at breakpoints, and their points do not see the other side."""
    large, middle, small = (math.log(p) for p in (0.5, 0.5 - 0.5 / math.e, 0.5 / math.e))

    def p(x):
        first, second = (x <= 1.0, x <= 2.0) if at_most else (x < 1.0, x < 2.0)
        return large if first else (middle if second else small)

    def q(x):
        first, second = (x <= 1.0, x <= 2.0) if at_most else (x < 1.0, x < 2.0)
        return small if first else (middle if second else large)

    mine = _compiled(p, q, (0.0, 3.0), breakpoints=[1.0, 2.0], panels=64)
    for neighbors in ("remove", "add"):
        lower, upper, status = fa.epsilon_bounds(mine, delta=0.0, neighbors=neighbors)
        assert lower <= 1.0 <= upper <= 1.0 + 1e-13
        assert status is fa.Status.TIGHT
