"""Gradients of epsilon and log delta: against integrals in arbitrary precision, differences of certified values, closed
forms and edge cases."""

import functools
import math

import numpy as np
import pytest
from mpmath import mp

import fastacct as fa
from fastacct import reference
from fastacct.core import inputs
from tests.gradient_oracle import log_gradient

TIGHT, LOOSE, NOT_MET = fa.Status
NAMES = ("noise_multiplier", "sample_rate", "steps")

# arguments of tests.gradient_oracle.log_gradient, and what it gives: `python -m tests.gradient_oracle` (gmpy2 2.2, 22
# digits asked of every sum)
DERIVATIVES = [
    (
        (1.0, 0.01, 1000, 1.5, "remove"),
        (-9.121817650678832, -21.42594611289925, 1172.2820654324828, 0.005380804928543022, -6.959177181141301),
    ),
    (
        (1.0, 0.01, 1000, 1.5, "add"),
        (-12.58694834578195, -28.368562247082302, 2150.541033517615, 0.011935962675985063, -13.317878786102916),
    ),
    (
        (1.0, 0.01, 10000, 6.0, "remove"),
        (-10.947738888561926, -34.418244351543606, 2093.6599246830842, 0.001023695261920504, -2.9715438514844474),
    ),
    (
        (1.0, 0.01, 10000, 6.0, "add"),
        (-12.984597303564374, -38.814707576227065, 2686.7474387416673, 0.0014164711840915106, -3.9287614769715025),
    ),
    (
        (1.1, 0.004, 14062.5, 2.4, "remove"),
        (-12.918508743517496, -29.030364238425882, 5222.048021729474, 0.0007246755661245854, -7.873137602554387),
    ),
    (
        (2.0, 0.1, 100, 1.0, "remove"),
        (-4.465594243439589, -3.0421912781041844, 52.332737010829526, 0.0256834196178753, -3.9271226813298354),
    ),
    (
        (2.0, 0.1, 100, 1.0, "add"),
        (-5.021727245860339, -3.4370571629463016, 66.22797585535416, 0.03507916338798084, -5.235037929178171),
    ),
    (
        (0.5, 0.0001, 10000, 0.15, "add"),
        (-10.595479371712724, -70.32831426835294, 138615.8673739822, 0.0008340690603957158, -85.4794443111051),
    ),
    (
        (0.8, 0.02, 12, 1.0, "remove"),
        (-8.934347370800777, -18.438550107110363, 201.76253845091637, 0.10515761318624536, -4.332744708449283),
    ),
    (
        (0.8, 0.02, 12, 0.1, "add"),
        (-5.307442030713994, -5.872165154073928, 234.28545544829015, 0.2632407565396197, -36.60677263219369),
    ),
    (
        (4.0, 0.3, 1000, 16.0, "remove"),
        (-18.33304438080657, -11.349832751540688, 144.99637780801723, 0.021716667166839402, -2.290335825958997),
    ),
    (
        (6.0, 0.24, 4915, 23.4, "add"),
        (-28.58960249201126, -11.961691841678055, 299.43355754597053, 0.007373095538104993, -2.612239815230589),
    ),
    (
        (0.75, 0.16, 5, 0.7, "add"),
        (-7.359559880878168, -14.027568254156506, 149.76235605548055, 3.7161110868732043, -30.34464999631984),
    ),
    (
        (1.25, 0.22, 3, 4.6, "remove"),
        (-22.73474861885484, -33.05867573788267, 62.74883749809398, 2.229775972448053, -5.4095690143184845),
    ),
    # runs drawn at random, as the regimes "everyday" and "small-delta" of bench.scores are
    (
        (4.7, 0.00115, 2066, 0.0236, "remove"),
        (-9.4775157325279, -1.4677719151913542, 5835.064333061046, 0.0016159330002030697, -241.47733190835325),
    ),
    (
        (1.45, 0.0132, 194, 0.705, "remove"),
        (-14.504624139323393, -18.658143088681182, 1323.5953255989616, 0.03837534469383748, -23.348391119472915),
    ),
    (
        (6.02, 0.0154, 644, 0.196, "remove"),
        (-10.38605378459649, -1.9212806114590504, 733.6474326770002, 0.008690779215112744, -52.07436281941383),
    ),
    (
        (5.19, 0.0329, 426, 0.612, "remove"),
        (-16.089363367713883, -4.58740359977209, 695.6235826206079, 0.026342643718063847, -35.331767182837254),
    ),
    (
        (2.76, 0.00316, 465, 0.0607, "add"),
        (-9.66420817296568, -3.2364593473007996, 2714.8954878698746, 0.009429586633225217, -124.3983146042623),
    ),
    (
        (3.67, 0.00781, 3996, 0.619, "add"),
        (-16.188888880272042, -6.665563636110431, 3052.944023751606, 0.0030147866301458394, -36.42462297368949),
    ),
    (
        (1.06, 0.0104, 513, 1.1, "add"),
        (-15.440325589551305, -30.92501599837054, 2610.7094494487797, 0.030180138488401148, -23.43146550372413),
    ),
    (
        (5.97, 0.0316, 521, 0.951, "remove"),
        (-35.581442243884325, -10.318282865343654, 1869.2343673109917, 0.055211160096645374, -60.66555212459062),
    ),
    (
        (1.79, 0.0115, 448, 1.2, "remove"),
        (-32.43305967264026, -36.908319243972485, 4226.418862710679, 0.047619904156515354, -39.52218583814526),
    ),
    (
        (1.58, 0.083, 527, 11.2, "remove"),
        (-29.05306202957494, -44.864774706199796, 634.2564035446663, 0.04656531586471646, -4.4070609296541425),
    ),
    (
        (5.13, 0.00684, 5916, 0.779, "remove"),
        (-34.635252513887416, -11.610897155513122, 8462.529818898012, 0.004846412290291018, -72.54513322283601),
    ),
]


def run_of(noise, rate, steps):
    return {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}


@pytest.mark.parametrize(("cell", "truth"), DERIVATIVES, ids=[str(cell) for cell, _ in DERIVATIVES])
def test_derivatives_are_those_of_their_integrals(cell, truth):
    noise, rate, steps, epsilon, direction = cell
    found = fa.dpsgd.delta_gradient(**run_of(noise, rate, steps), epsilon=epsilon, neighbors=direction)
    for name, error, exact in zip(found._fields, found.errors_approx, truth[1:], strict=False):
        if name == "steps" and steps < 10:
            assert (math.isnan(found.steps), error) == (True, math.inf)
        elif name == "steps" and steps < 100:
            assert abs(found.steps - exact) <= error <= 1e-2 * abs(exact)
        else:
            assert abs(getattr(found, name) - exact) <= error <= 1e-6 * abs(exact), name
            assert getattr(found, name) == pytest.approx(exact, rel=1e-9, abs=0), name
    assert found.status == (TIGHT if steps >= 100 else LOOSE)


def test_epsilon_moves_as_delta_does():
    run, delta = run_of([0.8, 1.0, 3.0], [[0.002], [0.05]], 700), 1e-6
    epsilon = fa.dpsgd.epsilon(**run, delta=delta)
    of_epsilon, of_delta = (
        fa.dpsgd.epsilon_gradient(**run, delta=delta),
        fa.dpsgd.delta_gradient(**run, epsilon=epsilon),
    )
    for name in NAMES:
        quotient = -getattr(of_delta, name) / of_delta.epsilon
        np.testing.assert_allclose(getattr(of_epsilon, name), quotient, rtol=1e-8)


def cells_of_differences(n):
    """Random runs whose derivatives by all parameters are known, and deltas."""
    draw = np.random.default_rng(11)
    low, high = np.log([0.4, 1e-6, 110.0, 1e-12]), np.log([8.0, 0.5, 1e5, 1e-2])
    cells = np.exp(low + (high - low) * draw.random((n, 4))).T
    cells[2] = np.round(cells[2])
    return dict(zip((*NAMES, "delta"), cells, strict=True))


def worst_of_differences(n, neighbors):
    """How far derivatives are from differences of certified values, over what these leave open: one per parameter.

    Differences over h and 2 h are extrapolated; a third of what that changes, twice, is what is left of the series.
    """
    cells, steps = cells_of_differences(n), {"noise_multiplier": 3e-4, "sample_rate": 3e-4, "steps": 0.0}
    found = fa.dpsgd.epsilon_gradient(**cells, neighbors=neighbors)
    known = (found.status == TIGHT) & (found.noise_multiplier != 0.0)
    assert known.sum() > 0.8 * n
    worst = []
    for name in NAMES:
        h = np.maximum(steps[name] * cells[name], np.where(name == "steps", np.ceil(3e-3 * cells[name]), 0.0))
        differences, doubt = [], 0.0
        for far in (h, 2.0 * h):
            ends = [
                fa.dpsgd.epsilon_bounds(**cells | {name: cells[name] + side * far}, neighbors=neighbors)
                for side in (1.0, -1.0)
            ]
            middle = [0.5 * (end.lower + end.upper) for end in ends]
            differences.append((middle[0] - middle[1]) / (2.0 * far))
            doubt = doubt + sum(end.upper - end.lower for end in ends) / (2.0 * far)
        known &= np.isfinite(doubt)
        left = (differences[0] - differences[1]) / 3.0
        off = np.abs(getattr(found, name) - differences[0] - left)
        allowed = doubt + 0.3 * np.abs(left) + found.errors_approx[NAMES.index(name)]
        worst.append(np.max(off[known] / allowed[known]))
    return worst


@pytest.mark.parametrize("neighbors", ["add_remove", "add"])
def test_derivatives_are_within_differences_of_certified_values(neighbors):
    assert max(worst_of_differences(120, neighbors)) <= 1.0


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon"),
    [(0.7, 0.2, 1, 0.05), (5.0, 0.9, 1, 0.05), (1.5, 1.0, 7, 0.05), (20.0, 1.0, 1.5, 0.05), (26.7, 1.0, 1, 17.2)],
)
def test_closed_forms_are_those_of_the_reference(neighbors, noise, rate, steps, epsilon):
    h = mp.mpf(10) ** -12

    def log_delta(noise, rate, steps, epsilon):
        if rate == 1:  # so many steps are one step with less noise
            noise, steps = noise / mp.sqrt(steps), 1
        return mp.log(reference.exact_delta(noise, rate, steps, epsilon, direction=neighbors, digits=40))

    found = fa.dpsgd.delta_gradient(**run_of(noise, rate, steps), epsilon=epsilon, neighbors=neighbors)
    at = [mp.mpf(x) for x in (noise, rate, steps, epsilon)]
    with mp.workdps(60):
        for i, (name, error) in enumerate(zip((*NAMES, "epsilon"), found.errors_approx, strict=True)):
            if (name == "sample_rate" and rate == 1) or (name == "steps" and rate < 1):
                continue
            ends = [[x + side * h if j == i else x for j, x in enumerate(at)] for side in (1, -1)]
            exact = (log_delta(*ends[0]) - log_delta(*ends[1])) / (2 * h)
            assert abs(getattr(found, name) - exact) <= error <= 2e-8 * abs(exact), name


def test_answers_broadcast_and_do_not_depend_on_threads():
    run = run_of(np.linspace(0.6, 2.0, 7)[:, None], 0.01, [100, 1000, 5000]) | {"delta": 1e-6}
    one, four = (fa.dpsgd.epsilon_gradient(**run, threads=n) for n in (1, 4))
    cell = fa.dpsgd.epsilon_gradient(**run_of(run["noise_multiplier"][3, 0], 0.01, 1000), delta=1e-6)
    assert one.steps.shape == one.errors_approx[1].shape == one.direction.shape == one.status.shape == (7, 3)
    for i in range(3):
        np.testing.assert_array_equal(one[i], four[i])
        assert type(cell[i]) is float
        assert cell[i] == one[i][3, 1]
    assert type(cell.direction) is str
    whole = fa.dpsgd.epsilon_gradient(**run_of(np.linspace(1.0, 9.0, 11), 1.0, 20), delta=1e-6)
    for i, noise in enumerate(np.linspace(1.0, 9.0, 11)):
        alone = fa.dpsgd.epsilon_gradient(**run_of(noise, 1.0, 20), delta=1e-6)
        assert alone[:3] == tuple(one[i] for one in whole[:3])
    assert fa.dpsgd.delta_gradient(**run_of(1.0, [], 100), epsilon=1.0).epsilon.shape == (0,)


def test_a_batch_size_is_a_rate():
    by_batch = fa.dpsgd.epsilon_gradient(noise_multiplier=1.0, records=1000, batch_size=10, epochs=5, delta="1/n")
    assert by_batch == fa.dpsgd.epsilon_gradient(**run_of(1.0, 0.01, 500), delta=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"history": [(1.0, 0.1, 10)]}, "is of one run: give noise_multiplier, sample_rate and steps, not history"),
        ({"accountant": fa.RDP()}, r"accountant must be fastacct.Exact\(\)"),
        ({"neighbors": "replace_one"}, "neighbors = 'replace_one' is not supported"),
        ({"steps": -0.5}, r"steps = -0.5 is out of range; allowed: \[0, 2\*\*53\]"),
        ({"steps": [1.0, math.nan]}, r"steps\[1\] = nan is out of range"),
        ({"sample_rate": 1.5}, "sample_rate = 1.5 is out of range"),
        ({"delta": [2.0]}, r"delta\[0\] = 2.0 is out of range"),
        ({"sigma": 1.0}, "unexpected keyword argument 'sigma'"),
        ({"epochs": 3}, "give either steps or epochs, not both"),
        ({"steps": None}, "missing steps"),
        ({"noise_multiplier": [1.0, 2.0], "sample_rate": [0.1, 0.1, 0.1]}, "shapes do not broadcast"),
        ({"sampling": "fixed_size", "sample_rate": None, "records": 10, "batch_size": 2}, "is for Poisson sampling"),
        ({"threads": 0}, "threads = 0 is out of range"),
    ],
)
def test_what_has_no_gradient_is_refused_by_name(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fa.dpsgd.epsilon_gradient(**run_of(1.0, 0.1, 100) | {"delta": 1e-5} | change)


def test_results_larger_than_memory_are_refused(monkeypatch):
    monkeypatch.setattr(inputs, "_memory", functools.partial(float, 8.0 * 100 * 6))
    with pytest.raises(MemoryError, match="takes"):
        fa.dpsgd.epsilon_gradient(**run_of(np.ones(100), 0.1, 100), delta=1e-5)


def test_the_oracle_is_the_derivative_of_the_reference():
    at, h = (6.0, 0.24, 4915, 23.4), mp.mpf(10) ** -5
    found = log_gradient(*at, "remove")
    for i in (0, 1):
        ends = []
        for side in (1, -1):
            moved = [mp.mpf(x) + (side * h if i == j else 0) for j, x in enumerate(at)]
            value = reference.exact_delta(moved[0], moved[1], at[2], at[3], direction="remove", digits=14)
            ends.append(mp.log(value))
        assert found[1 + i] == pytest.approx(float((ends[0] - ends[1]) / (2 * h)), rel=1e-6)
