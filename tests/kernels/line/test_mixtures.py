"""Steps of Gaussian mixtures on the capped line: groups and replaced records, against a contour integral in NumPy."""

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from tests.kernels.line.test_capped_line import _holds, _ledger

REPLACED = -1
JOBS = {  # noise, rate, steps, epsilon, records
    "a group of four": (2.0, 0.01, 1000, 2.9, 4),
    "a group of two, few participations": (1.0, 0.001, 300, 0.5, 2),
    "a dear group": (0.8, 0.01, 500, 6.0, 3),
    "a replaced record": (1.0, 0.01, 1000, 2.8, REPLACED),
    "a replaced record, few participations": (0.8, 0.002, 100, 1.0, REPLACED),
    "a replaced record, much noise": (5.0, 0.02, 5000, 0.8, REPLACED),
    "a replaced record, often drawn": (8.0, 0.5, 50, 1.0, REPLACED),
}


def pair(noise, rate, records):
    """Weights and means of both sides."""
    if records == REPLACED:
        return ([1 - rate, rate], [0.0, 1.0]), ([1 - rate, rate], [0.0, -1.0])
    drawn = range(records + 1)
    return ([math.comb(records, i) * rate**i * (1 - rate) ** (records - i) for i in drawn], [*drawn]), ([1.0], [0.0])


def contour_integral(noise, rate, steps, epsilon, records):
    """Delta of direction remove: 1/(2 pi) times the integral of M(u)^steps exp(-(u-1) epsilon)/(u (u-1)), by sums."""
    p, q = pair(noise, rate, records)

    def log_density(side, z):
        return np.logaddexp.reduce([math.log(w) - 0.5 * ((z - m) / noise) ** 2 for w, m in zip(*side, strict=True)])

    h = min(noise * noise / 150 / max(records, 1), noise / 10)  # losses move by at most 1/150 between nodes
    z = np.arange(-10 * noise - 3, 16 * noise + 12 * max(records, 1), h)
    loss = log_density(p, z) - log_density(q, z)
    weight = np.exp(log_density(q, z)) * h / (noise * math.sqrt(2 * math.pi))
    seen = weight > 1e-60
    loss, weight = loss[seen], weight[seen]

    def integrand(u):
        moment = 1.0 + np.expm1(np.multiply.outer(u, loss)) @ weight
        return np.exp(steps * np.log(moment) - (u - 1) * epsilon) / (u * (u - 1))

    candidates = 1 + np.geomspace(0.02, 60, 120)
    with np.errstate(over="ignore"):
        sizes = integrand(candidates)
    c = candidates[np.nanargmin(np.where(sizes > 0, sizes, np.nan))]
    step = 0.02 * min(1.0, c - 1, 1 / epsilon)
    total, t = 0.5 * integrand(np.array([c + 0j])).real.sum(), step
    while True:
        values = integrand(c + 1j * (t + step * np.arange(200)))
        total += values.real.sum()
        t += 200 * step
        if np.abs(values[-20:]).max() * t < 1e-14 * total:
            return total * step / math.pi


#: log of what contour_integral gives, in 14 s.
LOG_DELTA = {
    "a group of four": -11.55143734602222,
    "a group of two, few participations": -18.309344565150496,
    "a dear group": -8.460597690448596,
    "a replaced record": -11.256933685867384,
    "a replaced record, few participations": -17.08226981782813,
    "a replaced record, much noise": -3.5364291347172743,
    "a replaced record, often drawn": -2.435477349120313,
}


@pytest.mark.parametrize("name", JOBS)
def test_what_is_stored_is_the_contour_integral(name):
    assert math.log(contour_integral(*JOBS[name])) == pytest.approx(LOG_DELTA[name], abs=1e-12)


def line(name, **budget):
    *run, epsilon, records = JOBS[name]
    return _ledger([tuple(run)], 0.0, epsilon, records=float(records), **budget)


def truth(name):
    return LOG_DELTA[name] - 1e-10, LOG_DELTA[name] + 1e-10


@pytest.mark.parametrize("name", JOBS)
def test_lines_hold_the_contour_integral(name):
    ledger = line(name)
    assert _holds(ledger, truth(name)), ledger
    assert ledger["up"] + ledger["down"] < 1e-7


@pytest.mark.parametrize("name", JOBS)
def test_epsilons_hold_the_contour_integral(name):
    noise, rate, steps, epsilon, records = JOBS[name]
    step = fa.Gaussian(noise).poisson(rate)
    job = (step if records == REPLACED else step.group(records)) * steps
    relation = "replace_one" if records == REPLACED else "remove"
    found = fa.epsilon_bounds(job, delta=math.exp(LOG_DELTA[name]), neighbors=relation)
    assert found.lower <= epsilon * (1 + 1e-10)
    assert epsilon * (1 - 1e-10) <= found.upper
    assert found.upper - found.lower <= 1e-8 * epsilon
    deltas = fa.delta_bounds(job, epsilon=epsilon, neighbors=relation)
    assert math.log(deltas.lower) <= truth(name)[1]
    assert truth(name)[0] <= math.log(deltas.upper)


@pytest.mark.parametrize(
    ("entry", "name", "budget"),
    [
        ("tail", "a replaced record", {"dead": 6.0}),
        ("tail", "a replaced record, few participations", {"dead": 6.0, "floor": 1.0}),
        ("tail", "a dear group", {"dead": 6.0}),
        ("alias", "a group of four", {"tolerance": 3.0, "dead": 50.0}),
        ("alias", "a replaced record, few participations", {"tolerance": 3.0, "dead": 50.0}),
        ("put", "a group of two, few participations", {"cap_back": 0.0, "cap_ratio": 1.02, "dead": 60.0}),
        ("put", "a dear group", {"cap_back": 0.0, "cap_ratio": 1.1, "dead": 60.0}),
        ("quadrature", "a replaced record, often drawn", {"need": 0.0, "tolerance": 45.0, "dead": 50.0}),
    ],
)
def test_every_entry_is_needed(entry, name, budget):
    ledger = line(name, **budget)
    assert _holds(ledger, truth(name)), ledger
    assert not _holds(ledger, truth(name), without=entry), ledger


@pytest.mark.parametrize(
    ("name", "left"), [("a group of four", 4.0), ("a dear group", 4.0), ("a replaced record, much noise", 1.0)]
)
def test_what_lies_left_of_the_nodes_is_paid(name, left):
    short, whole = line(name, left=left), line(name)
    assert _holds(short, truth(name)), short
    assert not _holds(short | {"up": whole["up"], "down": whole["down"]}, truth(name)), short


@pytest.mark.parametrize("name", JOBS)
def test_coarse_lines_hold_the_truth(name):
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(40):
        budget = {
            "tolerance": rng.uniform(3.0, 26.0), "dead": rng.uniform(4.0, 32.0), "need": rng.uniform(4.0, 24.0),
            "cap_ratio": rng.uniform(1.05, 2.0), "cap_back": rng.uniform(0.0, 1.2), "left": rng.uniform(5.0, 9.0),
            "right": rng.uniform(2.0, 9.0), "floor": float(rng.integers(2)),
        }  # fmt: skip
        ledger = line(name, **budget)
        if ledger is not None:
            found += 1
            assert _holds(ledger, truth(name)), (budget, ledger)
    assert found > 20


@pytest.mark.parametrize("noise", [0.6, 1.0, 4.0])
def test_a_group_of_one_is_a_sampled_gaussian(noise):
    """The same pair on nodes of either kind."""
    for rate, steps in ((0.01, 1000), (0.0005, 4000), (0.2, 3)):
        run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "neighbors": "remove"}
        epsilon = fa.dpsgd.epsilon(**run, delta=1e-7)
        own, mixed = (_ledger([(noise, rate, steps)], 0.0, epsilon, records=n, floor=1.0) for n in (0.0, 1.0))
        assert own["up"] + own["down"] + mixed["up"] + mixed["down"] < 1e-6
        assert _holds(mixed, (own["log_value"] + math.log1p(-own["down"]), own["log_value"] + math.log1p(own["up"])))


@pytest.mark.parametrize("neighbors", ["remove", "add"])
def test_one_step_of_a_group_or_a_mixture_has_a_closed_form(neighbors):
    for noise, p, q in (
        (16.6, *pair(16.6, 0.003, 13)),
        (6.25, ([0.99883, 0.0005, 0.0004, 0.00027], [0.0, 0.3, 0.5, 0.9]), ([0.999, 0.001], [0.0, -0.7])),
    ):
        sides = [tuple(zip(*side, strict=True)) for side in (p, q)]
        job = fa.GaussianMixture(noise, *(((1.0 - math.fsum(w for w, _ in s[1:]), s[0][1]), *s[1:]) for s in sides))
        found = fa.epsilon_bounds(job, delta=1e-5, neighbors=neighbors)
        assert found.status == fa.Status.TIGHT
        for epsilon, sign in ((found.lower, -1), (found.upper, 1)):
            assert sign * (_one_step(noise, *sides, epsilon, neighbors) - mp.mpf(1e-5)) <= 1e-17
        assert fa.epsilon(job, delta=1e-300, neighbors=neighbors) < math.inf


def _one_step(noise, p, q, epsilon, neighbors):
    """Delta of a pair whose loss increases, by its two tails."""
    with mp.workdps(40):

        def side(weights, x, sign):
            first = 1 - mp.fsum(w for w, _ in weights[1:])
            return mp.fsum(w * mp.ncdf(sign * (x - m) / noise) for w, m in ((first, weights[0][1]), *weights[1:]))

        def loss(x):
            densities = [
                mp.fsum(w * mp.exp(-(((x - m) / mp.mpf(noise)) ** 2) / 2) for w, m in side_) for side_ in (p, q)
            ]
            return mp.log(densities[0] / densities[1])

        sign = 1 if neighbors == "remove" else -1
        low, high = mp.mpf(-60 * noise), mp.mpf(60 * noise)
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) < sign * epsilon else (low, middle)
        first, second = (p, q) if sign > 0 else (q, p)
        return side(first, low, -sign) - mp.exp(epsilon) * side(second, low, -sign)


@pytest.mark.parametrize(
    ("job", "delta", "neighbors"),
    [
        (
            fa.GaussianMixture(5, [(0.97, 0), (0.02, 0.25), (0.01, 0.8)], [(0.995, 0), (0.005, -0.7)]) * 4000,
            2e-9,
            "add",
        ),
        (fa.GaussianMixture(7, [(0.93, 0), (0.07, 0.5)], [(0.98, 0), (0.02, -0.9)]) * 33, 1e-8, "remove"),
        (fa.Gaussian(14.0).poisson(0.0016).group(13) * 5, 3.5e-5, "add"),
        (fa.Gaussian(56.0).poisson(0.1).group(33) * 17, 1e-8, "add"),
        (fa.Gaussian(8.0).poisson(0.0035).group(2) * 54, 7e-10, "remove"),
        (fa.Gaussian(2.3).poisson(0.0003) * 15, 1e-9, "replace_one"),
    ],
)
def test_components_of_different_size_and_few_participations_are_certified(job, delta, neighbors):
    found = fa.epsilon_bounds(job, delta=delta, neighbors=neighbors)
    assert found.status == fa.Status.TIGHT
    grid = fa.epsilon_bounds(job, delta=delta, neighbors=neighbors, accountant=fa.PLD())
    assert grid.lower <= found.upper
    assert found.lower <= grid.upper < 2.0 * found.upper
