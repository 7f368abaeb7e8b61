"""The explorer page: its kernels in WebAssembly against Python, and its libm against many digits."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa
from fastacct.accountants.run import process_of, steps_of_epochs
from fastacct.core.rounding import rate_of_batch
from fastacct.readers import job
from fastacct.readers.asked import Settings
from tests.explorer_runs import (
    EXPLORER,
    FPR,
    RELATIONS,
    RUNS,
    ask,
    evaluated,
    keywords,
    number,
    random_runs,
    spread,
    steps_in_all,
    uniform,
    whole_epochs,
)

__all__ = ["ask"]

MPMATH = pytest.importorskip("mpmath")


# -- arithmetic --------------------------------------------------------------------------------------------------------

N = 1500
LIBM = {
    # name: (arguments, second arguments, ulps that the kernels allow for)
    "exp": ([*uniform(-745, 709, N, 1), *uniform(-1, 1, N, 2), *spread(-1e-12, -1, N, 3)], None, 2.0),
    "expm1": ([*uniform(-40, 709, N, 4), *spread(1e-300, 1, N, 5), *spread(-1e-300, -1, N, 6)], None, 2.0),
    "log": ([*spread(1e-308, 1e308, N, 7), *uniform(0.5, 2, N, 8), *uniform(0.999, 1.001, N, 9)], None, 2.0),
    "log1p": ([*spread(1e-300, 1e300, N, 10), *spread(-1e-300, -0.999999, N, 11)], None, 2.0),
    "sin": ([*uniform(-7, 7, N, 12), *spread(7, 1e9, N, 13)], None, 2.0),
    "cos": ([*uniform(-7, 7, N, 14), *spread(7, 1e9, N, 15)], None, 2.0),
    "erf": ([*spread(1e-300, 6, N, 16), *spread(-1e-300, -6, N, 17)], None, 4.0),
    "erfc": ([*uniform(-6, 26, N, 18), *spread(1e-9, 26, N, 19)], None, 8.0),
    "exp2": (uniform(-1022, 1023, N, 20), None, 2.0),
    "log2": ([*spread(1e-308, 1e308, N, 21), *uniform(0.9, 1.1, N, 22)], None, 2.0),
    "lgamma": ([*uniform(3, 100, N, 23), *spread(100, 1e15, N, 24)], None, 4.0),
    "sqrt": (spread(1e-308, 1e308, N, 25), None, 0.5),
    "pow": (uniform(0.5, 3, N, 26), uniform(-50, 50, N, 27), 2.0),
    "atan2": (uniform(-3, 3, N, 28), uniform(-3, 3, N, 30), 2.0),
    "hypot": (spread(1e-150, 1e150, N, 32), spread(1e-150, 1e150, N, 33), 2.0),
}
"""docs/algorithms count 4 u (2 ulp) for elementary functions of numbers, and 80 u for erfc."""
TRUTH = {"log2": lambda x: MPMATH.log(x, 2), "exp2": lambda x: MPMATH.mpf(2) ** x, "lgamma": MPMATH.loggamma}
TRUTH |= {"pow": MPMATH.power}


def test_libm_is_as_good_as_the_kernels_assume(ask):
    cases = [{"name": name, "x": x, "y": y or x} for name, (x, y, _) in LIBM.items()]
    worst = {}
    with MPMATH.workprec(160):
        for (name, (x, y, _)), found in zip(LIBM.items(), ask("libm", cases), strict=True):
            truth = TRUTH.get(name) or getattr(MPMATH, name)
            columns = (x,) if y is None else (x, y)
            exact = [truth(*map(MPMATH.mpf, each)) for each in zip(*columns, strict=True)]
            worst[name] = max(
                float(abs(MPMATH.mpf(number(value)) - one) / math.ulp(float(one)))
                for value, one in zip(found, exact, strict=True)
            )
    print("ulp", {name: round(value, 3) for name, value in worst.items()})
    assert {name: value for name, value in worst.items() if not value <= LIBM[name][2]} == {}


def test_products_are_rounded_before_they_are_added_and_to_nearest(ask):
    x, y = uniform(-2, 2, N, 40), uniform(-2, 2, N, 41)
    (found,) = ask("libm", [{"name": "contracted", "x": x, "y": y}])
    assert list(map(number, found)) == [a * b + a for a, b in zip(x, y, strict=True)]
    assert "-ffp-contract=off" in (EXPLORER / "build.mjs").read_text()


def test_input_out_of_range_has_the_safe_side(ask):
    cases = [[-1, 0.1, 10, 0, 1e-5], [1, 1.5, 10, 0, 1e-5], [1, 0.1, 0.5, 0, 1e-5], [1, 0.1, 10, 7, 1e-5]]
    cases.append([1, 0.1, 10, 3, 2.0])
    assert ask("refused", cases) == [["0", "Infinity", 3]] * len(cases)


# -- agreement ---------------------------------------------------------------------------------------------------------

CELLS = 2000


def random_cells(n, seed=5):
    rng = random.Random(seed)
    return {
        "noise": spread(0.3, 20, n, rng.random()),
        "rate": [1.0 if i % 25 == 0 else x for i, x in enumerate(spread(1e-5, 1, n, rng.random()))],
        "steps": [float(round(x)) for x in spread(1, 1e5, n, rng.random())],
        "delta": spread(1e-12, 1e-2, n, rng.random()),
        "relation": [rng.choice(RELATIONS) for _ in range(n)],
    }


def of_python(cells):
    """Bounds of all cells, one call a relation; where a record is replaced without grids, which the page has not."""
    noise, rate, steps, delta = (np.array(cells[name]) for name in ("noise", "rate", "steps", "delta"))
    lower, upper, status = np.empty(noise.size), np.empty(noise.size), np.empty(noise.size, dtype=int)
    for relation in RELATIONS:
        at = np.array(cells["relation"]) == relation
        run = {"noise_multiplier": noise[at], "sample_rate": rate[at], "steps": steps[at]}
        if relation == "replace_one":
            process, ask = process_of(run), job.Ask("epsilon", delta[at], delta[at].shape, relation, 2)
            found = job.by_cells(process, ask, Settings(("line", "unsampled")))
        else:
            found = fa.dpsgd.epsilon_bounds(**run, delta=delta[at], neighbors=relation)
        lower[at], upper[at], status[at] = found
    return lower, upper, status


def test_epsilons_agree_with_python(ask):
    """Bits differ, since libm and instructions differ: by less than 1e-12, or else by a part of a wide interval."""
    cells = random_cells(CELLS)
    lower, upper, status = of_python(cells)
    found = ask("epsilon", cells)
    low, high = (np.array([number(row[i]) for row in found]) for i in (0, 1))
    codes = np.array([row[2] for row in found])
    assert (np.maximum(low, lower) <= np.minimum(high, upper)).all(), "intervals do not meet"
    assert np.flatnonzero(codes != status).tolist() == []
    tight = codes == 0
    assert tight.sum() > 0.95 * CELLS
    low, high, lower, upper = (x[tight] for x in (low, high, lower, upper))
    off = np.maximum(np.abs(high - upper), np.abs(low - lower))
    near = off <= 1e-12 * upper
    print("tight", tight.sum(), "nearer than 1e-12", near.sum(), "farthest", (off / np.maximum(upper, 1e-300)).max())
    assert near.mean() >= 0.99
    assert (near | (off <= 0.25 * (upper - lower))).all()
    assert (off <= 1e-10 * upper).all()


def test_where_the_page_certifies_a_replaced_record_python_says_the_same(ask):
    cells = {name: values[:60] for name, values in random_cells(CELLS).items()}
    cells["relation"] = ["replace_one"] * 60
    for i, (low, high, code) in enumerate(ask("epsilon", cells)):
        if code == 0:
            run = {"noise_multiplier": cells["noise"][i], "sample_rate": cells["rate"][i], "steps": cells["steps"][i]}
            found = fa.dpsgd.epsilon_bounds(**run, delta=cells["delta"][i], neighbors="replace_one")
            assert found.status == fa.Status.TIGHT
            assert max(number(low), found.lower) <= min(number(high), found.upper)


def few_steps(n, seed=9):
    """Runs of a few steps that hardly any record takes part in: delta at epsilon 0 is often below the target."""
    rng = random.Random(seed)
    return {
        "noise": spread(0.3, 2, n, rng.random()),
        "rate": spread(1e-5, 1e-2, n, rng.random()),
        "steps": [float(rng.randint(1, 12)) for _ in range(n)],
        "delta": spread(1e-5, 1e-2, n, rng.random()),
        "relation": ["replace_one"] * n,
    }


def test_the_kernel_knows_that_epsilon_is_0_where_few_steps_hardly_sample_a_replaced_record():
    """Total variation is subadditive: no line is needed."""
    run = {"noise_multiplier": 0.529, "sample_rate": 1.3e-4, "steps": 5}
    process, at = process_of(run), np.array([1.8e-3])
    found = job._contour(process, job.Ask("epsilon", at, at.shape, "replace_one", 2))
    assert tuple(float(x[0]) for x in found) == (0.0, 0.0, 0.0)
    assert fa.dpsgd.epsilon_bounds(**run, delta=1.8e-3, neighbors="replace_one") == (0.0, 0.0, fa.Status.TIGHT)
    one = fa.delta_lower(fa.Gaussian(0.529).poisson(1.3e-4), epsilon=0.0, neighbors="replace_one")
    log_delta = job._contour(process, job.Ask("log_delta", np.zeros(1), (1,), "replace_one", 2)).upper
    assert 5 * one * 0.999 < math.exp(log_delta[0]) < 5 * one * (1 + 1e-9)
    assert fa.delta_lower(fa.Gaussian(0.529).poisson(1.3e-4) * 5, epsilon=0.0, neighbors="replace_one") < 5 * one


def test_few_steps_have_epsilon_0_where_their_total_variations_add_up_to_less_than_delta(ask):
    """Python, which asks a grid, knows a few more zeros; there the page has a wide interval that holds 0."""
    cells = few_steps(24)
    noise, rate, steps, delta = (cells[name] for name in ("noise", "rate", "steps", "delta"))
    runs = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "neighbors": "replace_one"}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**runs, delta=delta)
    zeros = 0
    apart = [n * q * math.erf(math.sqrt(0.5) / sigma) for n, q, sigma in zip(steps, rate, noise, strict=True)]
    found = zip(ask("epsilon", cells), lower, upper, apart, delta, strict=True)
    for (low, high, code), least, most, sum_of_all, target in found:
        assert max(number(low), least) <= min(number(high), most)
        assert code != fa.Status.NOT_MET
        if sum_of_all < target * (1 - 1e-9):
            assert (number(high), code, most) == (0.0, 0, 0.0)
            zeros += 1
    assert zeros > 4


def test_true_positive_rates_agree_with_python_and_are_upper_bounds(ask):
    cases = [run | {"relation": relation, "fpr": FPR} for run in RUNS for relation in RELATIONS]
    for run, found in zip(cases, ask("tpr", cases), strict=True):
        steps = fa.Gaussian(run["noise"]).poisson(run["rate"]) * run["steps"]
        lower, upper, _ = fa.tpr_at_fpr_bounds(steps, FPR, neighbors=run["relation"])
        here = np.array(list(map(number, found)))
        assert (here >= lower).all(), run
        np.testing.assert_allclose(here, upper, rtol=1e-9, err_msg=str(run))


def test_what_one_epsilon_and_delta_allow_is_rounded_up(ask):
    pairs = [(3.0, 1e-5), (0.0, 1e-2), (20.0, 1e-9), (0.1, 0.5)]
    cases = [{"epsilon": eps, "delta": delta, "fpr": FPR} for eps, delta in pairs]
    for (eps, delta), found in zip(pairs, ask("pair", cases), strict=True):
        for x, value in zip(FPR, map(number, found), strict=True):
            with MPMATH.workprec(160):
                grown, lost = MPMATH.exp(eps) * x + delta, 1 - MPMATH.exp(-eps) * (1 - MPMATH.mpf(delta) - x)
                truth = min(grown, lost, MPMATH.mpf(1))
                assert truth <= value <= truth * (1 + MPMATH.mpf(1e-12)), (eps, delta, x)


def test_noise_for_a_target_meets_it_and_is_the_least(ask):
    cases = [
        {"epsilon": eps, "delta": 1e-5, "rate": run["rate"], "steps": run["steps"], "relation": relation}
        for run in RUNS
        for relation, eps in (("add_remove", 0.5), ("zero_out", 3.0), ("replace_one", 3.0))
    ]
    for case, found in zip(cases, map(number, ask("noise", cases)), strict=True):
        run = {"sample_rate": case["rate"], "steps": case["steps"], "delta": 1e-5, "neighbors": case["relation"]}
        assert fa.dpsgd.epsilon(noise_multiplier=found, **run) <= case["epsilon"] * (1 + 1e-12), case
        least = fa.dpsgd.noise_multiplier(epsilon=case["epsilon"], **run)
        assert found == pytest.approx(least, rel=1e-8), case


def test_steps_rates_and_links_are_those_of_python(ask):
    runs = [whole_epochs(run) for run in random_runs(1000) if run["noise"] >= 0.3 and 1.0 <= run["epochs"] <= 1000]
    for run, found in zip(runs, ask("runs", runs), strict=True):
        assert number(found["rate"]) == rate_of_batch(run["batch"], run["records"]), run
        assert found["steps"] == steps_in_all(run), run
        assert found["back"] == run
        assert found["refused"] == 0


@pytest.mark.parametrize(
    ("link", "refused", "allowed"),
    [
        ("#delta=1e-13", "delta", "from 1e-12 to 0.01"),
        ("#noise=0.2&delta=1e-6", "noise", "from 0.3 to 20"),
        ("#noise=inf", "noise", "from 0.3 to 20"),
        ("#delta=", "delta", "from 1e-12 to 0.01"),
        ("#epochs=ten", "epochs", "from 1 to 1000"),
        ("#sampling=shuffled&epochs=2.5", "epochs", "a whole number from 1 to 1000"),
        ("#records=1000&batch=2000", "batch", "a whole number from 1 to 1000"),
        ("#records=1e5&batch=20.5", "batch", "a whole number from 1 to 100000"),
        ("#sampling=poison", "sampling", "poisson, fixed_size, allocation, shuffled, full_batch"),
        ("#sampling=allocation&relation=replace_one", "relation", "add_remove, zero_out with sampling=allocation"),
        ("#relation=replace", "relation", "add_remove, zero_out, replace_one with sampling=poisson"),
        ("#sigma=2", "sigma", "the names noise, batch"),
        ("#delta=1e-6&delta=1e-5", "delta", "one value"),
    ],
)
def test_what_a_link_says_and_is_not_taken_is_named(ask, link, refused, allowed):
    (found,) = ask("links", [link])
    assert found["refused"] == [refused]
    assert found["said"][0].startswith(f"{refused} = ")
    assert allowed in found["said"][0]


def test_places_on_the_page_and_good_links_are_not_refused(ask):
    links = ["", "#", "#results", "#licences-title", "#delta=1e-6", "#sampling=shuffled"]
    assert [found["refused"] for found in ask("links", links)] == [[]] * len(links)


def test_lines_of_python_are_calls_with_the_run(ask):
    runs = [whole_epochs(run) for run in random_runs(40, seed=7)]
    for run, found in zip(runs, ask("runs", runs), strict=True):
        truth = fa.dpsgd.epsilon(**keywords(run), delta=run["delta"], neighbors=run["relation"])
        assert evaluated(found["python"]) == truth


def test_digits_are_on_the_safe_side(ask):
    numbers = [*spread(1e-12, 1e12, 2000, 50), 2.3, 9.99996, 99999.6, 0.1, 1.0, 1e-5, 5e-324, 1e300]
    for x, (up, down, up_12, down_12, percent) in zip(numbers, ask("digits", numbers), strict=True):
        for text, side, digits in ((up, 1, 5), (down, -1, 5), (up_12, 1, 12), (down_12, -1, 12)):
            off = (Fraction(text) - Fraction(x)) * side
            assert 0 <= off <= Fraction(x) / 10 ** (digits - 1), (x, text)
        assert Fraction(percent) >= 100 * Fraction(min(x, 1.0)), x


def test_curves_and_map_are_python_s(ask):
    run = {"noise": 1.0408, "batch": 512, "records": 50_000, "epochs": 30, "delta": 1e-5, "relation": "add_remove"}
    run["sampling"] = "poisson"
    (found,) = ask("curves", [run])
    process = fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930
    at = np.array([[one["epsilon"], one["delta"]] for one in found["curve"]])
    np.testing.assert_allclose(at[:, 1], fa.delta(process, epsilon=at[:, 0]), rtol=1e-9)
    epochs = np.array([[one["epochs"], one["epsilon"]] for one in found["epochs"]])
    given = {"noise_multiplier": 1.0408, "records": 50_000, "batch_size": 512, "delta": 1e-5}
    np.testing.assert_allclose(epochs[:, 1], fa.dpsgd.epsilon(**given, epochs=epochs[:, 0]), rtol=1e-11)
    batch, noise = (np.array(found["map"][name]) for name in ("batch", "noise"))
    assert batch.size == noise.size == 25
    given = {"sample_rate": [rate_of_batch(one, 50_000) for one in batch], "delta": 1e-5}
    steps = [steps_of_epochs(30, one, 50_000) for one in batch]
    whole = fa.dpsgd.epsilon(noise_multiplier=noise[:, None], steps=steps, **given)
    np.testing.assert_allclose(np.array(list(map(number, found["map"]["epsilon"]))).reshape(25, 25), whole, rtol=1e-11)
