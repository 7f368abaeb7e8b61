"""The exact profiles of the oracle against closed forms, against each other, and inside the kernels' intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

mpmath = pytest.importorskip("mpmath")
reference = pytest.importorskip("fastacct.reference")

from mpmath import mp, mpf  # noqa: E402

import fastacct as fa  # noqa: E402
from fastacct.reference import exact_delta, exact_epsilon  # noqa: E402
from tests.containment import relative_error  # noqa: E402
from tests.oracle_data import Question, truths  # noqa: E402


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


# --- methods against each other --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon", "direction"),
    [("1.5", "0.3", "0.2", "add"), ("2", "0.4", "0.1", "remove")],
)
def test_contour_of_one_step_is_the_closed_form(sigma: str, q: str, epsilon: str, direction: str) -> None:
    closed = exact_delta(sigma, q, 1, epsilon, direction=direction)
    contour = exact_delta(sigma, q, 1, epsilon, direction=direction, method="contour", digits=26)
    assert relative_error(contour, closed) < 1e-26


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon", "direction"),
    [
        ("1.5", "0.3", "0.2", "remove"),
        ("3", "0.2", "0.1", "add"),
    ],
)
def test_contour_of_two_steps_is_the_nested_integral(sigma: str, q: str, epsilon: str, direction: str) -> None:
    nested = exact_delta(sigma, q, 2, epsilon, direction=direction, method="nested")
    contour = exact_delta(sigma, q, 2, epsilon, direction=direction, method="contour", digits=26)
    assert relative_error(contour, nested) < 1e-26


def test_two_steps_are_the_integral_over_both_outputs() -> None:
    q, grown, n = mpf("0.3"), mp.exp(mpf("0.2")), 240
    with mp.workdps(16):
        grid = [(k + mpf(1) / 2) * mpf(14) / n - 6 for k in range(n)]
        density = [mp.npdf(z) * 14 / n for z in grid]
        ratio = [1 - q + q * mp.exp(z - mpf(1) / 2) for z in grid]
        pairs = list(zip(density, ratio, strict=True))
        remove = sum(d1 * d2 * max(mpf(0), r1 * r2 - grown) for d1, r1 in pairs for d2, r2 in pairs)
        add = sum(d1 * d2 * max(mpf(0), 1 - grown * r1 * r2) for d1, r1 in pairs for d2, r2 in pairs)
    assert relative_error(remove, exact_delta(1, q, 2, "0.2", direction="remove", digits=15)) < 2e-3
    assert relative_error(add, exact_delta(1, q, 2, "0.2", direction="add", digits=15)) < 2e-3


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon", "log_delta"),
    [
        ("1.44664", "0.256944", "11.0944", "-101.900228115352"),
        ("0.704084", "0.0926767", "32.1411", "-161.59557240048"),
    ],
)
def test_two_steps_reach_as_far_as_a_tiny_delta_asks(sigma: str, q: str, epsilon: str, log_delta: str) -> None:
    """Values of the nested integral by mpmath's own quadrature, 60 digits, from -14 to 44 standard deviations."""
    found = mp.log(exact_delta(sigma, q, 2, epsilon, direction="remove", digits=14))
    assert abs(found - mpf(log_delta)) < 1e-10


def test_contour_near_full_sampling_meets_the_gaussian() -> None:
    q = 1 - mpf(2) ** -120
    gaussian = reference.gaussian_delta(mp.sqrt(mpf(5)) / 2, 3, digits=30)
    assert exact_delta(2, 1, 5, 3, direction="remove") == gaussian == exact_delta(2, 1, 5, 3, direction="add")
    for direction in ("remove", "add"):
        assert relative_error(exact_delta(2, q, 5, 3, direction=direction, digits=26), gaussian) < 1e-26


@pytest.mark.parametrize(("sigma", "q", "steps", "epsilon"), [(2.0, 0.02, 1000, 0.5), (2.0, 0.3, 20, 1.0)])
def test_directions_obey_the_reversal_identity(sigma: float, q: float, steps: int, epsilon: float) -> None:
    # H_g(P||Q) = 1 - g + g H_(1/g)(Q||P), whatever the pair
    remove = exact_delta(sigma, q, steps, epsilon, direction="remove", digits=20)
    add = exact_delta(sigma, q, steps, -epsilon, direction="add", digits=25)
    grown = mp.exp(epsilon)
    assert relative_error(1 - grown + grown * add, remove) < 1e-19


def test_both_directions_are_the_total_variation_at_epsilon_zero() -> None:
    remove, add = (exact_delta(2.0, 0.02, 500, 0, direction=d) for d in ("remove", "add"))
    assert relative_error(remove, add) < 1e-29


# --- known values ----------------------------------------------------------------------------------------------------

DELTA = [
    # q, sigma, steps, epsilon, direction, delta: 80-bit oracle of the tests, ten digits
    (0.01, 1.0, 10_000, 6.0, "remove", 1.7597760848e-05),
    (0.01, 1.0, 10_000, 6.0, "add", 2.2954140803e-06),
    (0.01, 1.0, 1_000, 1.5, "remove", 1.0925590767e-04),
    (0.1, 2.0, 100, 1.0, "remove", 1.1497861201e-02),
]


@pytest.mark.parametrize(("q", "sigma", "steps", "epsilon", "direction", "delta"), DELTA)
def test_delta_is_the_published_value(
    q: float, sigma: float, steps: int, epsilon: float, direction: str, delta: float
) -> None:
    assert relative_error(exact_delta(sigma, q, steps, epsilon, direction=direction, digits=16), delta) < 1e-10


EPSILON = [(1e-5, "1.828236666516577"), (1e-12, "3.91429815603747")]


@pytest.mark.parametrize(("delta", "epsilon"), EPSILON)
def test_epsilon_is_the_published_value(delta: float, epsilon: str) -> None:
    value = exact_epsilon(1.0, 0.01, 1000, delta, direction="remove", digits=16)
    assert relative_error(value, epsilon) < 3e-15


def test_epsilon_inverts_the_closed_forms() -> None:
    one = exact_epsilon(0.8, 0.3, 1, 1e-3, direction="add", digits=20)
    assert relative_error(reference.sampled_gaussian_delta(0.8, 0.3, one, "add"), 1e-3) < 1e-18
    two = exact_epsilon(1.5, 0.3, 2, 1e-3, direction="remove", digits=12)
    assert relative_error(exact_delta(1.5, 0.3, 2, two, direction="remove", digits=12), 1e-3) < 1e-11
    assert exact_epsilon(2, 1, 9, "1e-5") == reference.gaussian_epsilon("1.5", "1e-5", digits=30)


@pytest.mark.parametrize(("steps", "direction"), [(1, "remove"), (1, "add"), (2, "remove")])
def test_epsilon_of_few_steps_inverts_delta_to_few_digits(steps: int, direction: str) -> None:
    found = exact_epsilon(1.0, 0.1, steps, 1e-3, direction=direction, digits=5)
    again = exact_delta(1.0, 0.1, steps, found, direction=direction, digits=5)
    assert relative_error(again, 1e-3) < 1e-4


def test_epsilon_of_steps_on_all_records_is_that_of_one_gaussian() -> None:
    assert relative_error(exact_epsilon(2, 1, 9, "1e-5"), reference.gaussian_epsilon("1.5", "1e-5", digits=30)) < 1e-28
    assert relative_error(exact_delta(2, 1, 9, 0.5), reference.gaussian_delta("1.5", 0.5, 30)) < 1e-28
    assert exact_epsilon(2, 0, 9, "1e-5") == exact_epsilon(2, 0.5, 9, 1) == 0


# --- edges -----------------------------------------------------------------------------------------------------------


def test_edges_of_the_domain_have_defined_answers() -> None:
    for arguments in ((1.0, 0.0, 10), (1.0, 0.5, 0), (mp.inf, 0.5, 10)):
        assert exact_delta(*arguments, 0.3) == 0
        assert exact_epsilon(*arguments, 1e-5) == 0
    assert exact_delta(1.0, 0.5, 10, mp.inf) == 0
    assert exact_epsilon(1.0, 0.5, 10, 1) == 0
    assert exact_epsilon(1.0, 0.5, 10, 0.999999) == 0
    assert exact_epsilon(1.0, 0.5, 10, 0) == mp.inf
    for bad in ((-1, 0.5, 2, 1), (1, 1.5, 2, 1), (1, 0.5, 2.5, 1), (1, 0.5, -1, 1), (1, 0.5, 2, mp.nan)):
        with pytest.raises(ValueError, match="must"):
            exact_delta(*bad)
    with pytest.raises(ValueError, match="must"):
        exact_delta(1, 0.5, 2, 1, direction="replace_one")
    with pytest.raises(ValueError, match="must"):
        exact_delta(1, 0.5, 2, 1, method="guess")


def test_add_is_zero_beyond_the_largest_loss() -> None:
    most = -100 * mp.log1p(-mpf("0.5"))
    assert exact_delta(1, "0.5", 100, most + mpf(10) ** -50, direction="add") == 0
    assert relative_error(exact_epsilon(1, "0.5", 100, 0, direction="add"), most) < 1e-29
    assert exact_delta(1, "0.5", 2, "1.3", direction="add", digits=15) > 0


def test_seen_records_cost_the_probability_of_one() -> None:
    seen = -mp.expm1(10 * mp.log1p(-mpf("0.1")))
    assert relative_error(exact_delta(0, "0.1", 10, 0.5, direction="remove"), seen) < 1e-29
    assert relative_error(exact_delta(0, "0.1", 10, 0, direction="add"), seen) < 1e-29
    assert exact_epsilon(0, "0.1", 10, 0.1, direction="remove") == mp.inf
    eps = exact_epsilon(0, "0.1", 10, 0.1, direction="add")
    assert relative_error(exact_delta(0, "0.1", 10, eps, direction="add"), 0.1) < 1e-28


# --- certification ---------------------------------------------------------------------------------------------------


def test_every_value_is_evaluated_on_two_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastacct.reference.path import Path

    made = []
    read = Path.read

    def spy(path: Any, eps: Any) -> Any:
        made.append((path.n_terms, path.context.precision))
        return read(path, eps)

    monkeypatch.setattr(Path, "read", spy)
    exact_delta(1.0, 0.01, 1000, 1.5, direction="remove", digits=12)
    assert len(made) >= 2
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("what", ["theta", "zeta"])
def test_too_few_nodes_are_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from fastacct.reference.hyperbola import Hyperbola
    from fastacct.reference.loss_in_doubles import LossInDoubles

    plan, line = Hyperbola.plan, LossInDoubles.line

    def short_plan(*arguments: Any) -> Any:
        full = plan(*arguments)
        return full and full._replace(step=40 * full.step)

    def short_line(*arguments: Any) -> Any:
        full, sizes, moduli = line(*arguments)
        return full._replace(step=12 * full.step), sizes, moduli

    if what == "theta":
        monkeypatch.setattr(Hyperbola, "plan", short_plan)
    else:
        monkeypatch.setattr(LossInDoubles, "line", short_line)
    with pytest.raises(reference.NotConverged):
        exact_delta(1.0, 0.01, 1000, 1.5, direction="remove", digits=12)


def test_too_long_a_sum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastacct.reference import path

    monkeypatch.setattr(path, "MAX_TERMS", 1000)
    with pytest.raises(reference.NotConverged, match="terms"):
        exact_delta(1.0, 0.01, 1000, 1.5, direction="remove", digits=12)


# --- the kernels -----------------------------------------------------------------------------------------------------

TRUTHS = truths()
DELTAS, EPSILONS = ([one for one in TRUTHS if one.quantity == name] for name in ("exact_delta", "exact_epsilon"))


def run_of(question: Question) -> dict[str, Any]:
    names = {"noise_multiplier": question.sigma, "sample_rate": question.sample_rate, "steps": question.steps}
    return names | {"neighbors": question.word}


@pytest.mark.parametrize("question", DELTAS, ids=str)
def test_the_interval_of_delta_contains_the_truth(question: Question) -> None:
    bounds = fa.dpsgd.delta_bounds(**run_of(question), epsilon=question.target)
    assert mpf(float(bounds.lower)) <= TRUTHS[question] <= mpf(float(bounds.upper))
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper


@pytest.mark.parametrize("question", EPSILONS, ids=str)
def test_the_interval_of_epsilon_contains_the_truth(question: Question) -> None:
    bounds = fa.dpsgd.epsilon_bounds(**run_of(question), delta=question.target)
    assert mpf(float(bounds.lower)) <= TRUTHS[question] <= mpf(float(bounds.upper))
    assert bounds.upper - bounds.lower <= 1e-9 * bounds.upper
