"""The explorer's samplers but Poisson's: bounds, noise for a target, and attacks, against Python."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.accountants.run import process_of
from fastacct.readers.contour import Contour
from fastacct_ext._kernels import Quantity
from tests.explorer_runs import FPR, SAMPLERS, ask, keywords, number, random_runs, steps_in_all, whole_epochs

__all__ = ["ask"]


def of_line(run):
    """Bounds of epsilon by the line: Python asks grids, too, where it is not tight."""
    process = process_of(keywords(run))
    whole = process.decompose(run["relation"])
    if whole.is_gaussian or not process.tight:
        found = fa.epsilon_bounds(process, delta=run["delta"], neighbors=run["relation"])
        return found.lower, found.upper, int(found.status)
    reading, _ = Contour.of(whole, run["relation"]).read_cell(0, np.array([run["delta"]]), Quantity.EPSILON)
    return tuple(float(column[0]) for column in reading)


def sampled_runs(n, seed):
    runs = (whole_epochs(run) for run in random_runs(20 * n, seed))
    fit = (run for run in runs if run["sampling"] != "poisson" and run["records"] <= 300_000)
    found = list(itertools.islice((run | {"epochs": min(run["epochs"], 300)} for run in fit), n))
    return [run | {"batch": run["records"]} if i % 25 == 0 else run for i, run in enumerate(found)]


def test_epsilons_of_other_samplers_agree_with_python(ask):
    """Lower ends of shuffled batches have a test of their own."""
    runs = sampled_runs(80, seed=11)
    far = dict.fromkeys(SAMPLERS, 0.0)
    for run, found in zip(runs, ask("samplers", runs), strict=True):
        low, high, code = number(found["lower"]), number(found["upper"]), found["status"]
        lower, upper, status = of_line(run)
        assert (code, found["steps"]) == (status, steps_in_all(run)), run
        assert max(low, lower) <= min(high, upper), run
        # where no line certifies anything a rough search bounds epsilon, which jumps by 2e-5 of itself where delta
        # moves by a rounding (noise 0.54691, batches of 25 of 995 records, zeroed out: 99.97745 or 99.97918)
        near = 1e-8 if code == fa.Status.TIGHT else 1e-4
        assert high == pytest.approx(upper, rel=near, abs=0.0), run
        if run["sampling"] != "shuffled" or steps_in_all(run) == run["epochs"]:
            assert low == pytest.approx(lower, rel=1e-8, abs=0.0), run
        far[run["sampling"]] = max(far[run["sampling"]], abs(high - upper) / upper if 0.0 < upper < math.inf else 0.0)
    print("farthest", far)


def deltas_of_largest(epsilons, run, points=1_000_001):
    """What the largest of an epoch's sums tells an attacker, by integrals of its densities: no cells, no rounding."""
    special = pytest.importorskip("scipy.special")
    noise, others = run["noise"], run["records"] // run["batch"] - 1
    x, width = np.linspace(1.0 - 9.0 * noise, 2.0 + 9.0 * noise, points, retstep=True)
    all_below = special.log_ndtr(x / noise)

    def density(own):
        near = (x - own) / noise
        first = -0.5 * near**2 + others * all_below
        second = math.log(others) + special.log_ndtr(near) - 0.5 * (x / noise) ** 2 + (others - 1) * all_below
        return np.exp(np.logaddexp(first, second)) / (noise * math.sqrt(2.0 * math.pi))

    one, other = density(2.0), density(1.0)
    both = ((one, other), (other, one))  # removed, added
    return [max(float(np.maximum(p - math.exp(e) * q, 0.0).sum() * width) for p, q in both) for e in epsilons]


def test_lower_ends_of_shuffled_batches_are_true_of_one_epoch(ask):
    """Delta at the lower end is at least the run's, and beyond it less."""
    given = {"batch": 500, "epochs": 1, "sampling": "shuffled", "relation": "zero_out"}
    noises = ((0.5, 50_000, 1e-5), (1.0, 2_000, 1e-6), (0.4, 1_000_000, 1e-9), (0.8, 5_000, 1e-3))
    runs = [given | {"noise": noise, "records": records, "delta": delta} for noise, records, delta in noises]
    for run, found in zip(runs, ask("samplers", runs), strict=True):
        low = number(found["lower"])
        at, beyond = deltas_of_largest((low, 1.001 * low), run)
        assert at >= run["delta"] * (1.0 - 1e-8), (run, low)
        assert beyond < run["delta"], (run, low)


def test_lower_ends_of_shuffled_batches_are_as_good_as_those_of_python(ask):
    """README's two intervals; 2.87 is what random allocation alone says."""
    plain = {"noise": 1.117, "batch": 512, "records": 50_000, "epochs": 30, "delta": 1e-6, "sampling": "shuffled"}
    less = {"noise": 1.0, "batch": 44, "records": 1348, "epochs": 32, "delta": 1e-4, "sampling": "shuffled"}
    many = {"noise": 1.0, "batch": 6, "records": 6_000_000, "epochs": 3, "delta": 1e-9, "sampling": "shuffled"}
    much = {"noise": 12.0, "batch": 100, "records": 2000, "epochs": 9, "delta": 1e-6, "sampling": "shuffled"}
    runs = [run | {"relation": relation} for run in (plain, less, much) for relation in SAMPLERS["shuffled"]]
    runs.append(many | {"relation": "replace_one"})
    answers = ask("samplers", runs)
    for run, found in zip(runs, answers, strict=True):
        lower, upper, _ = fa.epsilon_bounds(process_of(keywords(run)), delta=run["delta"], neighbors=run["relation"])
        near = 3e-4 if run is not runs[-1] else 0.05
        assert lower * (1.0 - near) <= number(found["lower"]) <= upper, run
        assert found["status"] == int(fa.Status.LOOSE)
    assert 12.33 < number(answers[0]["lower"]) < 12.34


def test_noise_and_attacks_of_other_samplers_agree_with_python(ask):
    run = {"noise": 0.9, "batch": 600, "records": 50_000, "epochs": 3, "delta": 1e-5}
    runs = [
        run | {"sampling": sampling, "relation": relation, "fpr": FPR, "target": 2.5}
        for sampling, relations in SAMPLERS.items()
        for relation in relations
    ]
    for one, found in zip(runs, ask("samplers", runs), strict=True):
        least = fa.dpsgd.noise_multiplier(
            **keywords(one) | {"noise_multiplier": None}, delta=1e-5, epsilon=2.5, neighbors=one["relation"]
        )
        assert number(found["noise"]) == pytest.approx(least, rel=1e-7), one
        lower, upper, _ = fa.tpr_at_fpr_bounds(process_of(keywords(one)), FPR, neighbors=one["relation"])
        here = np.array(list(map(number, found["tpr"])))
        assert (here >= lower).all(), one
        slack = 1e-3 if one["sampling"] == "fixed_size" else 1e-9  # there by a few points of the curve of delta
        assert (here <= upper * (1 + slack)).all(), one
