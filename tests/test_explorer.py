"""The explorer page: its kernels in WebAssembly against Python, its libm against many digits, and the page itself."""

import importlib.util
import json
import math
import os
import random
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct.cli import explore
from fastacct.core.rounding import rate_of_batch
from fastacct.readers import job
from fastacct.run import process_of, steps_of_epochs

ROOT = Path(__file__).parent.parent
EXPLORER = ROOT / "explorer"
IS_REQUIRED = bool(os.environ.get("FASTACCT_EXPLORER_REQUIRED"))
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
RELATIONS = ("add_remove", "zero_out", "replace_one")
MPMATH = pytest.importorskip("mpmath")


def missing():
    """What the tests need and have not."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not explore.PAGE.is_file() or not (EXPLORER / "node_modules").is_dir():
        return "the page is not built (make explorer)"
    if importlib.util.find_spec("ziglang") is None and not (EXPLORER / "made" / "libm.wasm").is_file():
        return "ziglang is not installed (make explorer)"
    return None


@pytest.fixture(autouse=True)
def _built(request):
    reason = None if "needs_nothing" in request.keywords else missing()
    if reason and IS_REQUIRED:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def ask(tmp_path):
    """The answers of explorer/tests/kernels.mjs to a kind of question."""

    def asked(kind, cases):
        given, out = tmp_path / "given.json", tmp_path / "out.json"
        given.write_text(json.dumps({"kind": kind, "cases": cases}))
        node("kernels.mjs", sys.executable, given, out)
        return json.loads(out.read_text())

    return asked


def node(script, *words):
    done = subprocess.run(
        ["node", EXPLORER / "tests" / script, *words], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]


def number(text):
    return float(text.replace("Infinity", "inf"))


# -- arithmetic --------------------------------------------------------------------------------------------------------


def spread(low, high, n, seed):
    """Random numbers of one sign, uniform in their logarithm."""
    rng = random.Random(seed)
    return [math.copysign(math.exp(rng.uniform(math.log(abs(low)), math.log(abs(high)))), low) for _ in range(n)]


def uniform(low, high, n, seed):
    rng = random.Random(seed)
    return [rng.uniform(low, high) for _ in range(n)]


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
            found = job._below_unsampled(process, ask, job._contour(process, ask))
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


@pytest.mark.needs_nothing
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


def test_few_steps_have_epsilon_0_where_python_says_so(ask):
    cells = few_steps(24)
    noise, rate, steps, delta = (cells[name] for name in ("noise", "rate", "steps", "delta"))
    runs = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "neighbors": "replace_one"}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**runs, delta=delta)
    zeros = 0
    for (low, high, code), least, most in zip(ask("epsilon", cells), lower, upper, strict=True):
        assert max(number(low), least) <= min(number(high), most)
        assert (number(high), code) == (0.0, 0) or most > 0.0
        zeros += most == 0.0
    assert zeros > 5


RUNS = [
    {"noise": 1.0408, "rate": 512 / 50_000, "steps": 2930},
    {"noise": 0.5, "rate": 0.01, "steps": 3000},
    {"noise": 4.0, "rate": 0.1, "steps": 1000},
    {"noise": 1.0, "rate": 1e-4, "steps": 1000},
    {"noise": 2.0, "rate": 1.0, "steps": 100},
    {"noise": 0.7, "rate": 0.3, "steps": 5},
]
FPR = [1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9]


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


def random_runs(n, seed=6):
    rng = random.Random(seed)
    for _ in range(n):
        records = round(math.exp(rng.uniform(math.log(100), math.log(1e7))))
        batch = round(math.exp(rng.uniform(0, math.log(min(records, 1e6)))))
        yield {
            "noise": float(f"{math.exp(rng.uniform(math.log(0.3), math.log(20))):.{rng.randint(1, 12)}g}"),
            "batch": batch,
            "records": records,
            "epochs": float(f"{math.exp(rng.uniform(0, math.log(1000))):.{rng.randint(1, 5)}g}"),
            "delta": float(f"{math.exp(rng.uniform(math.log(1e-12), math.log(1e-2))):.{rng.randint(1, 3)}g}"),
            "relation": rng.choice(RELATIONS),
        }


def test_steps_rates_and_links_are_those_of_python(ask):
    runs = [run for run in random_runs(1000) if run["noise"] >= 0.3 and 1.0 <= run["epochs"] <= 1000]
    for run, found in zip(runs, ask("runs", runs), strict=True):
        assert number(found["rate"]) == rate_of_batch(run["batch"], run["records"]), run
        assert found["steps"] == steps_of_epochs(run["epochs"], run["batch"], run["records"]), run
        assert found["back"] == run


def evaluated(line):
    """The number that the page's line of Python prints."""
    first, _, call = line.partition("; ")
    assert first == "import fastacct as fa"
    return eval(call.removeprefix("print(").removesuffix(")"), {"fa": fa})


def test_lines_of_python_are_calls_with_the_run(ask):
    runs = list(random_runs(40, seed=7))
    for run, found in zip(runs, ask("runs", runs), strict=True):
        given = {"noise_multiplier": run["noise"], "batch_size": run["batch"], "neighbors": run["relation"]}
        given |= {name: run[name] for name in ("records", "epochs", "delta")}
        assert evaluated(found["python"]) == fa.dpsgd.epsilon(**given)


def test_digits_are_on_the_safe_side(ask):
    numbers = [*spread(1e-12, 1e12, 2000, 50), 2.3, 9.99996, 99999.6, 0.1, 1.0, 1e-5, 5e-324, 1e300]
    for x, (up, down, up_12, down_12, percent) in zip(numbers, ask("digits", numbers), strict=True):
        for text, side, digits in ((up, 1, 5), (down, -1, 5), (up_12, 1, 12), (down_12, -1, 12)):
            off = (Fraction(text) - Fraction(x)) * side
            assert 0 <= off <= Fraction(x) / 10 ** (digits - 1), (x, text)
        assert Fraction(percent) >= 100 * Fraction(min(x, 1.0)), x


def test_curves_and_map_are_python_s(ask):
    run = {"noise": 1.0408, "batch": 512, "records": 50_000, "epochs": 30, "delta": 1e-5, "relation": "add_remove"}
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


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a browser showed (explorer/tests/browser.mjs)."""
    if missing() or not Path(CHROMIUM).exists():
        if IS_REQUIRED:
            pytest.fail(missing() or f"{CHROMIUM} is not there")
        pytest.skip(missing() or "chromium is not installed")
    folder = Path(os.environ.get("FASTACCT_EXPLORER_PICTURES", tmp_path_factory.mktemp("pictures")))
    node("browser.mjs", explore.PAGE, CHROMIUM, folder)
    found = json.loads((folder / "seen.json").read_text())
    print(folder, {name: found[name] for name in ("paint", "redraws", "processor", "maps")})
    return found


def test_the_page_shows_python_s_numbers(seen):
    assert len(seen["states"]) >= 8
    for state in seen["states"]:
        upper = evaluated(state["python"])
        off = Fraction(state["epsilon"]) - Fraction(upper)
        assert -Fraction(upper) / 10**11 <= off <= Fraction(upper) / 10**4 + Fraction(1, 10**6), state
        assert f"({state['epsilon']}, " in state["paper"]
        assert state["tpr"].removesuffix(" %") in state["paper"]


def test_true_positive_rates_on_the_page_are_python_s(seen):
    for state in seen["states"]:
        run = state["run"]
        steps = steps_of_epochs(run["epochs"], run["batch"], run["records"])
        assert state["steps"] == f"{steps:,}"
        process = fa.Gaussian(run["noise"]).poisson(rate_of_batch(run["batch"], run["records"])) * steps
        truth = fa.tpr_at_fpr(process, 0.01, neighbors=run["relation"])
        shown = float(state["tpr"].removesuffix(" %"))
        assert 100 * truth * (1 - 1e-9) <= shown <= 100 * truth * 1.011, state


def test_links_hold_the_state(seen):
    assert seen["link"]["before"] == seen["link"]["after"]
    assert seen["link"]["hash"].startswith("#noise=")


def test_fields_and_buttons_do_what_they_say(seen):
    assert seen["wrong"] == {"invalid": "true", "error": "A number from 0.3 to 20.", "changed": False}
    assert seen["target"]["noise"] == "1.04076"
    assert float(seen["target"]["epsilon"]) <= 3.0
    assert seen["copied"] == seen["states"][-1]["python"] or seen["selected"]
    assert seen["live"].startswith("Epsilon at most ")
    assert seen["broken"] == "unknown"


def test_nothing_is_loaded_and_nothing_complains(seen):
    assert seen["complaints"] == []
    assert {address.split(":")[0] for address in seen["requests"]} <= {"file", "blob"}
    assert sum(address.startswith("file:") for address in seen["requests"]) == seen["pages"]


def test_no_serious_violation_of_accessibility(seen):
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["sideways"] == []


def test_the_page_is_small_and_quick(seen):
    assert seen["bytes"] <= 1_000_000
    if IS_REQUIRED:  # else other tests run beside it
        assert seen["paint"] < 1000
        assert max(seen["redraws"]) >= 30 or min(seen["processor"]) <= 50  # ms: two processors have 66 for each of 30
        assert sorted(seen["maps"])[1] <= 500


@pytest.mark.needs_nothing
def test_the_command_says_where_the_page_is_or_how_it_is_made(monkeypatch, tmp_path, capsys):
    from fastacct.__main__ import main

    opened = []
    monkeypatch.setattr(explore.webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(explore, "PAGE", tmp_path / "index.html")
    assert main(["explore"]) == 2
    assert "make explorer" in capsys.readouterr().err
    explore.PAGE.write_text("page")
    assert main(["explore", "--print-path"]) == 0
    assert capsys.readouterr().out == f"{explore.PAGE}\n"
    assert opened == []
    assert main(["explore"]) == 0
    assert opened == [explore.PAGE.as_uri()]
