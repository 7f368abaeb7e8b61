"""Calibration of any job: it stops on the safe side of its target, and says where there is none."""

import math
import sys

import pytest

import fastacct as fa
from fastacct.calibrate import calibrate
from fastacct.epsilon import epsilon
from fastacct.mechanisms import Gaussian
from fastacct.tradeoff import (
    advantage,
    tpr_at_fpr,
)

RUN = Gaussian(1.0).poisson(0.01) * 1000


def just_met(value, spent, target, worse):
    """Met at the value, not met a little further."""
    assert spent(value) <= target < spent(worse)


def test_calibration_stops_on_the_safe_side():
    def run(sigma):
        return Gaussian(sigma).poisson(0.01) * 5000

    sigma = calibrate(run, epsilon=2.0, delta=1e-5)
    just_met(sigma, lambda x: epsilon(run(x), delta=1e-5), 2.0, sigma * (1 - 1e-9))
    assert sigma == pytest.approx(
        fa.dpsgd.noise_multiplier(epsilon=2.0, delta=1e-5, sample_rate=0.01, steps=5000), rel=1e-9, abs=0.0
    )
    inverse = calibrate(lambda x: run(1 / x), epsilon=2.0, delta=1e-5)
    just_met(inverse, lambda x: epsilon(run(1 / x), delta=1e-5), 2.0, inverse * (1 + 1e-9))
    steps = calibrate(lambda n: Gaussian(1.0).poisson(0.01) * n, epsilon=2.0, delta=1e-5, bracket=(1, 10**7))
    assert type(steps) is int
    just_met(steps, lambda n: epsilon(Gaussian(1.0).poisson(0.01) * n, delta=1e-5), 2.0, steps + 1)
    rate = calibrate(lambda q: Gaussian(1.0).poisson(q) * 5000, epsilon=2.0, delta=1e-5, bracket=(0.0, 1.0))
    just_met(rate, lambda q: epsilon(Gaussian(1.0).poisson(q) * 5000, delta=1e-5), 2.0, rate * (1 + 1e-9))
    sigma = calibrate(run, advantage=0.1)
    just_met(sigma, lambda x: advantage(run(x)), 0.1, sigma * (1 - 1e-9))
    sigma = calibrate(run, tpr=0.05, fpr=0.01, neighbors="remove")
    just_met(sigma, lambda x: tpr_at_fpr(run(x), 0.01, neighbors="remove"), 0.05, sigma * (1 - 2e-9))
    mixed = calibrate(lambda x: run(x) + Gaussian(20 * x), epsilon=1.0, delta=1e-6, bracket=(1.0, 100.0))
    just_met(mixed, lambda x: epsilon(run(x) + Gaussian(20 * x), delta=1e-6), 1.0, mixed * (1 - 1e-9))
    renyi = calibrate(run, epsilon=2.0, delta=1e-5, accountant=fa.RDP())
    assert renyi > calibrate(run, epsilon=2.0, delta=1e-5)


def test_calibration_at_the_ends_of_its_bracket():
    def run(n):
        return Gaussian(50.0) * n

    assert calibrate(run, epsilon=5.0, delta=1e-5, bracket=(1, 20)) == 20
    assert calibrate(lambda s: Gaussian(s), epsilon=9.0, delta=1e-3, bracket=(5.0, 9.0)) == 5.0
    assert calibrate(run, epsilon=0.0, delta=0.01, bracket=(0, 10)) == 1
    with pytest.raises(ValueError, match=r"epsilon <= 0\.001 cannot .* met neither at 1000 nor at 2000"):
        calibrate(run, epsilon=1e-3, delta=1e-9, bracket=(1000, 2000))
    with pytest.raises(ValueError, match="the parts that do not change with the number cost alone"):
        calibrate(lambda _: RUN, epsilon=0.1, delta=1e-5)


def test_a_target_below_what_the_fixed_parts_cost_says_so():
    fixed = fa.Gaussian(2.0)
    cost = fa.epsilon(fixed, delta=1e-5)
    with pytest.raises(ValueError, match=rf"epsilon stays at {cost!r}, which the parts .* alone"):
        fa.calibrate(lambda sigma: fa.Gaussian(sigma) + fixed, epsilon=1.0, delta=1e-5)
    with pytest.raises(
        ValueError,
        match=r"met: the smallest epsilon in the bracket is 1\.99\d+; try another bracket .*neither at 1 nor at 100",
    ):
        fa.calibrate(lambda sigma: fa.Gaussian(sigma) + fixed, epsilon=1.0, delta=1e-5, bracket=(1, 100))


def test_what_is_left_without_the_number_is_asked_alone_and_first():
    """Seven jobs took 6 s, each with noise that hides nothing beside draws with replacement."""
    fixed, asked = fa.Gaussian(2.0) * 3, []

    def build(x):
        asked.append(x)
        return fixed + fa.Gaussian(2.0) * 2 + fa.Gaussian(x).poisson(0.1) * 5

    with pytest.raises(ValueError, match=r"epsilon stays at .*, which the parts"):
        fa.calibrate(build, epsilon=fa.epsilon_lower(fixed + fa.Gaussian(2.0) * 2, delta=1e-5) * 0.999, delta=1e-5)
    assert len(asked) == 2
    # what there is more of at larger numbers is no part of all
    assert fa.calibrate(lambda x: fixed * int(x) + fa.Laplace(40.0), epsilon=0.5, delta=1e-5) < 1.0


REFUSED = [
    (lambda: calibrate(lambda x: Gaussian(x), epsilon=1.0), r"give epsilon and delta, or advantage, or tpr and fpr"),
    (lambda: calibrate(lambda x: Gaussian(x), advantage=0.1, epsilon=1.0), r"not epsilon, advantage"),
    (lambda: calibrate(lambda x: Gaussian(x), advantage=1.1), r"advantage = 1\.1 is out of range"),
    (lambda: calibrate(lambda x: Gaussian(x), epsilon=1.0, delta=[0.1, 0.2]), r"delta must be one number"),
    (lambda: calibrate(lambda x: Gaussian([x, x]), advantage=0.1), r"build\(1\.0\) is a job with arrays"),
    (lambda: calibrate(lambda x: x, advantage=0.1), r"job must be a mechanism or a process"),
    (lambda: calibrate(lambda x: Gaussian(x), advantage=0.1, bracket=(2.0, 1.0)), r"must be finite and increasing"),
    (lambda: calibrate(lambda x: Gaussian(x), advantage=0.1, bracket=3), r"bracket must be \(low, high\)"),
    (lambda: calibrate(lambda x: Gaussian(x), advantage=0.1, accountant=fa.RDP()), r"accountant goes with epsilon"),
    (lambda: calibrate(lambda x: Gaussian(-x), advantage=0.1), r"noise_multiplier = -1\.0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_with_its_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_search_for_noise_asks_no_extremes(monkeypatch):
    """Noise 0 and 1e12 are slow to evaluate for draws with replacement, and decide nothing."""
    search = sys.modules["fastacct.calibrate"]
    answer, asked = search.answer, []

    def noted(quantity, job, *args, **told):
        asked.extend(float(one.noise) for one, _ in job if hasattr(one, "noise"))
        return answer(quantity, job, *args, **told)

    monkeypatch.setattr(search, "answer", noted)
    run = {"records": 1000, "batch_size": 50, "epochs": 3, "sampling": "with_replacement", "neighbors": "remove"}
    found = fa.dpsgd.noise_multiplier(**run, epsilon=2.0, delta=1e-5)
    assert 0.25 <= min(asked) <= found <= max(asked) <= 16.0
    asked.clear()
    with pytest.raises(
        ValueError, match=r"epsilon 2\.49998 alone, and exceeds the target epsilon = 2 at delta = 1e-05"
    ):
        fa.dpsgd.noise_multiplier(**run, epsilon=2.0, delta=1e-5, after=fa.Laplace(0.4))
    assert not asked or max(asked) < 1.0
    assert fa.dpsgd.noise_multiplier(**run, epsilon=math.inf, delta=1e-5) == 0.0


@pytest.mark.parametrize("sampling", [{"sampling": "truncated", "at_most": 42}, {"sampling": "with_replacement"}, {}])
@pytest.mark.parametrize("after", [None, fa.Laplace(100.0)])
def test_a_target_that_is_met_without_noise_is_not_searched(sampling, after, monkeypatch):
    """Where a record is added, answers at noise next to none take seconds each, and decide nothing."""
    search = sys.modules["fastacct.calibrate"]
    answer, asked = search.answer, []
    monkeypatch.setattr(search, "answer", lambda *args, **told: asked.append(args) or answer(*args, **told))
    run = {"records": 12_229, "batch_size": 14, "epochs": 1, **sampling, "neighbors": "add"}
    found = fa.dpsgd.noise_multiplier(**run, epsilon=7.588, delta=3.8e-7, after=after)
    assert found <= 1e-6
    assert len(asked) <= 3
    assert fa.dpsgd.epsilon(**run, noise_multiplier=found, delta=3.8e-7) <= 7.588


RUN_OF_EPOCHS = {"records": 50_000, "batch_size": 512, "epochs": 3}
SEARCHED = [
    ("noise_multiplier", {**RUN_OF_EPOCHS, "neighbors": "replace_one"}, 8),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "truncated", "at_most": 640}, 5),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "fixed_size", "neighbors": "replace_one"}, 6),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "fixed_size", "neighbors": "zero_out"}, 6),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "with_replacement"}, 6),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "with_replacement", "neighbors": "zero_out"}, 7),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "allocation"}, 6),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "sampling": "shuffled", "neighbors": "zero_out"}, 4),
    ("noise_multiplier", {**RUN_OF_EPOCHS, "after": fa.Laplace(20.0) * 3}, 8),
    ("steps", {"noise_multiplier": 2.0, "sample_rate": 0.01, "after": fa.Laplace(20.0) * 3}, 8),
    ("sample_rate", {"noise_multiplier": 2.0, "steps": 700, "neighbors": "replace_one"}, 8),
]


@pytest.mark.parametrize(
    ("wanted", "run", "most"), SEARCHED, ids=["-".join(map(str, [w, *[*r.values()][3:]])) for w, r, _ in SEARCHED]
)
def test_a_search_begins_near_the_answer_and_asks_for_few_numbers(wanted, run, most, monkeypatch):
    """It begins at the answer for Poisson samples, and most of them are not certified; what is found is met, and a step
    further it is not."""
    search, asked, sketched = sys.modules["fastacct.calibrate"], [], []
    answer, about = search.answer, search.about
    monkeypatch.setattr(search, "answer", lambda *args, **told: asked.append(args) or answer(*args, **told))
    monkeypatch.setattr(search, "about", lambda *args: sketched.append(args) or about(*args))
    found = getattr(fa.dpsgd, wanted)(**run, epsilon=3.0, delta=1e-5)
    assert len(asked) <= (3 if wanted == "noise_multiplier" else 4)  # one of what was released before
    assert len(asked) + len(sketched) <= most
    after = run.get("after", fa.Gaussian(1.0) * 0)
    told = {name: value for name, value in run.items() if name not in ("after", "neighbors")}

    def spent(x):
        job = fa.dpsgd.job(**told, **{wanted: x}) + after
        return fa.epsilon(job, delta=1e-5, neighbors=run.get("neighbors", "add_remove"))

    further = {"noise_multiplier": found * (1.0 - 1e-8), "steps": found + 1, "sample_rate": found * (1.0 + 1e-8)}
    assert spent(found) <= 3.0 < spent(further[wanted])


def test_a_search_where_a_record_is_added_begins_at_the_answer_for_poisson_samples(monkeypatch):
    """No line says about where it is, and each answer takes a second."""
    search, asked = sys.modules["fastacct.calibrate"], []
    answer = search.answer
    monkeypatch.setattr(search, "answer", lambda *args, **told: asked.append(args) or answer(*args, **told))
    run = {"records": 63_798, "batch_size": 241, "epochs": 2, "neighbors": "add"}
    found = fa.dpsgd.noise_multiplier(**run, sampling="truncated", at_most=306, epsilon=1.3, delta=2e-6)
    assert len(asked) <= 5
    assert found == pytest.approx(fa.dpsgd.noise_multiplier(**run, epsilon=1.3, delta=2e-6), rel=1e-3)


MISLED = {
    "less": lambda value: 0.97 * value,
    "more": lambda value: 1.4 * value,
    "a_little_less": lambda value: value * (1.0 - 1e-7),
    "nothing": lambda value: math.inf,
    "garbage": lambda value: math.nan,
    "one_number": lambda value: 2.0,
    "noisy": lambda value: value * (1.0 + 1e-3 * math.sin(1e9 * value)),
}


@pytest.mark.parametrize("misled", MISLED.values(), ids=MISLED)
def test_a_sketch_that_misleads_costs_time_alone(misled, monkeypatch):
    search = sys.modules["fastacct.calibrate"]
    about = search.about
    monkeypatch.setattr(search, "about", lambda *args: misled(about(*args)))
    run = {"records": 2000, "batch_size": 50, "sampling": "truncated", "at_most": 70, "neighbors": "replace_one"}

    def spent(x, steps):
        return fa.dpsgd.epsilon(**run, noise_multiplier=x, steps=steps, delta=1e-5)

    noise = fa.dpsgd.noise_multiplier(**run, steps=120, epsilon=3.0, delta=1e-5)
    assert spent(noise, 120) <= 3.0 < spent(noise * (1.0 - 1e-8), 120)
    steps = fa.dpsgd.steps(**run, noise_multiplier=1.3, epsilon=3.0, delta=1e-5)
    assert spent(1.3, steps) <= 3.0 < spent(1.3, steps + 1)

    def beside(x):
        return epsilon(fa.Gaussian(x).poisson(0.02) * 50 + fa.Laplace(9.0), delta=1e-5)

    mixed = calibrate(lambda x: fa.Gaussian(x).poisson(0.02) * 50 + fa.Laplace(9.0), epsilon=2.0, delta=1e-5)
    just_met(mixed, beside, 2.0, mixed * (1.0 - 1e-9))


def test_where_a_grid_answers_few_numbers_are_asked(monkeypatch):
    asked, ask = [], sys.modules["fastacct.calibrate"].answer
    monkeypatch.setattr(
        sys.modules["fastacct.calibrate"], "answer", lambda *args, **k: asked.append(args) or ask(*args, **k)
    )

    def spent(x, count=4):
        return epsilon(fa.Skellam(x) * count + fa.PureDP(0.1) * 3, delta=1e-6)

    floats = []
    mu = calibrate(lambda x: floats.append(type(x)) or fa.Skellam(x) * 4 + fa.PureDP(0.1) * 3, epsilon=2.0, delta=1e-6)
    assert len(asked) <= 6
    assert set(floats) == {float}
    just_met(mu, spent, 2.0, mu * (1.0 - 1e-9))
    asked.clear()
    many = {"bracket": (1, 10_000)}
    count = calibrate(lambda n: fa.Skellam(3000.0) * n + fa.PureDP(0.1) * 3, epsilon=2.0, delta=1e-6, **many)
    assert len(asked) <= 8
    just_met(count, lambda n: spent(3000.0, n), 2.0, count + 1)


def test_an_epsilon_that_is_to_be_0_is_met_and_nearly():
    """By delta at 0: epsilons of a grid say nothing of how far off they are."""
    asked = []

    def build(scale):
        asked.append(scale)
        return fa.PureDP(0.148).poisson(0.108) * 12 + fa.Gaussian(scale) * 2

    found = calibrate(build, epsilon=0.0, delta=0.0246)
    assert len(asked) < 20
    assert epsilon(build(found), delta=0.0246) == 0.0
    assert fa.delta(build(found * (1.0 - 3e-9)), epsilon=0.0) > 0.0246
    assert calibrate(lambda n: Gaussian(20.0) * n, epsilon=0.0, delta=0.1, bracket=(1, 1000)) == 25
    with pytest.raises(ValueError, match="cannot be met"):
        calibrate(lambda n: Gaussian(20.0) * n, epsilon=0.0, delta=1e-3, bracket=(1, 1000))
