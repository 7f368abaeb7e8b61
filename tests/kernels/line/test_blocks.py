"""The capped line over several mechanisms: blocks of sampled Gaussians, and Gaussians that see every record."""

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from tests.kernels.line.test_capped_line import JOBS as ONE_MECHANISM
from tests.kernels.line.test_capped_line import _holds, _ledger
from tests.kernels.line.test_capped_line import _truth as one_line_truth

# blocks (noise, rate, steps), mu^2 of the Gaussians, epsilon
JOBS = {
    "a schedule": ([(1.0, 0.01, 400), (0.9, 0.012, 300), (1.2, 0.008, 600)], 0.0, 1.2),
    "with a release": ([(1.0, 0.01, 500), (0.8, 0.003, 900)], 0.04, 1.5),
    "a large jump": ([(0.6, 0.0003, 1500), (2.0, 0.001, 3000), (0.7, 0.0001, 700)], 0.0, 1.5),
    "one outweighs the others": ([(0.5, 0.0001, 9000), (6.0, 0.02, 40), (3.0, 0.0002, 3)], 1e-4, 0.5),
    "much noise": ([(5.0, 0.05, 10_000), (7.0, 0.03, 9000)], 0.3, 3.0),
}


def _process(blocks, mu2):
    job = sum((fa.Gaussian(noise).poisson(rate) * steps for noise, rate, steps in blocks[1:]), start=_step(blocks[0]))
    return job if mu2 == 0.0 else job + fa.Gaussian(mu2**-0.5)


def _step(block):
    noise, rate, steps = block
    return fa.Gaussian(noise).poisson(rate) * steps


def _truth(name):
    """Bounds of log delta by the usual line, which the nested integral and old answers hold to the truth."""
    blocks, mu2, epsilon = JOBS[name]
    lower, upper, _ = fa.delta_bounds(_process(blocks, mu2), epsilon=epsilon, neighbors="remove")
    return math.log(lower), math.log(upper)


def _sampled_delta(noise, rate, epsilon):
    """delta of one step at any epsilon, also a negative one."""
    if mp.exp(epsilon) <= 1 - rate:
        return 1 - mp.exp(epsilon)
    z = noise**2 * mp.log((mp.exp(epsilon) - (1 - rate)) / rate) + mp.mpf(1) / 2
    beyond = [mp.ncdf((mean - z) / noise) for mean in (0, 1)]
    return (1 - rate) * beyond[0] + rate * beyond[1] - mp.exp(epsilon) * beyond[0]


def _gaussian_delta(mu, epsilon):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def _nested(noise, rate, other, epsilon):
    """log delta of one step and `other`, the delta of all the rest: E_P1[delta_other(epsilon - L1)], in 20 digits."""
    noise, rate = mp.mpf(noise), mp.mpf(rate)
    with mp.workdps(20):

        def density(z):
            loss = mp.log(1 - rate + rate * mp.exp((z - mp.mpf(1) / 2) / noise**2))
            return mp.npdf(z, 0, noise) * mp.exp(loss) * other(epsilon - loss)

        # the other's delta bends sharply where its loss is about 0
        bend = noise**2 * mp.log((mp.exp(epsilon) - (1 - rate)) / rate) + mp.mpf(1) / 2
        points = [mp.mpf(k) * noise / 2 for k in range(-20, 2 * int(40 / noise) + 20)]
        points += [bend + sign * mp.mpf(2) ** -k for k in range(15) for sign in (-1, 1)]
        return float(mp.log(mp.quad(density, sorted(points))))


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        ((0.8, 0.01), (1.5, 0.2), 1.0),
        ((1.0, 0.001), (0.7, 0.05), 3.0),
        ((4.0, 0.3), (0.6, 0.0002), 0.4),
        ((0.9, 0.1), (0.8, None), 2.0),
        ((2.0, 0.01), (5.0, None), 0.7),
    ],
)
def test_two_different_steps_are_the_nested_integral(first, second, epsilon):
    noise, rate = second
    if rate is None:
        job, blocks, mu2 = _process([(*first, 1)], noise**-2), [(*first, 1)], noise**-2
        truth = _nested(*first, lambda x: _gaussian_delta(1 / mp.mpf(noise), x), epsilon)
    else:
        blocks, mu2 = [(*first, 1), (*second, 1)], 0.0
        job = _process(blocks, mu2)
        truth = _nested(*first, lambda x: _sampled_delta(mp.mpf(noise), mp.mpf(rate), x), epsilon)
    lower, upper, _ = fa.log_delta_bounds(job, epsilon=epsilon, neighbors="remove")
    assert lower - 1e-13 <= truth <= upper + 1e-13
    assert upper - lower < 2e-9
    for budget in ({}, {"tolerance": 12.0}, {"dead": 10.0}, {"need": 10.0}, {"floor": 1.0}):
        ledger = _ledger(blocks, mu2, epsilon, **budget)
        assert ledger is None or _holds(ledger, (truth - 1e-13, truth + 1e-13)), (budget, ledger)


@pytest.mark.parametrize(
    ("entry", "job", "budget"),
    [
        ("alias", "a schedule", {"tolerance": 4.0}),
        ("alias", "with a release", {"tolerance": 4.0}),
        ("tail", "a schedule", {"dead": 6.0}),
        ("tail", "one outweighs the others", {"dead": 5.0, "floor": 1.0}),
        ("put", "a large jump", {"cap_back": 0.0, "cap_ratio": 1.02, "dead": 60.0}),
        ("floor", "a large jump", {"tolerance": 3.0, "floor": 1.0}),
        ("quadrature", "much noise", {"need": 8.0, "tolerance": 45.0, "dead": 50.0, "left": 12.0}),
    ],
)
def test_every_entry_of_the_ledger_is_needed(entry, job, budget):
    """A line drawn so coarsely that one entry matters: with it the truth is inside, without it outside."""
    ledger, truth = _ledger(*JOBS[job], **budget), _truth(job)
    assert _holds(ledger, truth), ledger
    assert not _holds(ledger, truth, without=entry), ledger


@pytest.mark.parametrize("job", JOBS)
def test_what_lies_left_of_the_nodes_is_paid(job):
    short, whole, truth = _ledger(*JOBS[job], left=4.0), _ledger(*JOBS[job]), _truth(job)
    assert _holds(short, truth), short
    assert not _holds(short | {"up": whole["up"], "down": whole["down"]}, truth), short


@pytest.mark.parametrize("parts", [2, 4])
def test_rounding_is_needed(parts):
    """Of lines that differ in nothing but rounding, one at least is off by more than all other entries."""
    noise, rate, steps, epsilon = ONE_MECHANISM["many steps"]
    truth = one_line_truth("many steps")
    lines = [
        _ledger(
            [(noise, rate, steps / parts)] * parts, 0.0, epsilon, tolerance=45.0, dead=50.0, left=12.0, need=float(need)
        )
        for need in range(45, 66, 2)
    ]
    assert all(_holds(line, truth) for line in lines)
    assert not all(_holds(line, truth, without="rounding") for line in lines)


@pytest.mark.parametrize("job", JOBS)
def test_coarse_lines_hold_the_truth(job):
    truth = _truth(job)
    rng = np.random.default_rng(8)
    drawn = narrow = 0
    for _ in range(60):
        budget = {
            "tolerance": rng.uniform(3.0, 30.0),
            "dead": rng.uniform(5.0, 36.0),
            "need": rng.uniform(8.0, 30.0),
            "cap_ratio": rng.uniform(1.05, 2.0),
            "cap_back": rng.uniform(0.0, 1.2),
            "left": rng.uniform(5.0, 9.0),
            "floor": float(rng.integers(2)),
        }
        ledger = _ledger(*JOBS[job], **budget)
        if ledger is None:
            continue
        assert _holds(ledger, truth), (budget, ledger)
        drawn += 1
        narrow += ledger["up"] < 1.0
    assert drawn > 40
    assert narrow > 20


@pytest.mark.parametrize("parts", [2, 5, 128])
def test_equal_blocks_are_one_block(parts):
    """The kernel does not know that blocks are equal; sums over 128 of them lose nothing that is not paid."""
    whole = _ledger([(1.0, 0.01, 1280)], 0.0, 1.0)
    for budget in ({}, {"floor": 1.0}):
        ledger = _ledger([(1.0, 0.01, 1280 / parts)] * parts, 0.0, 1.0, **budget)
        assert ledger["up"] + ledger["down"] < 1e-9
        assert abs(ledger["log_value"] - whole["log_value"]) <= 2 * (ledger["up"] + ledger["down"])


def test_more_blocks_than_there_is_room_for_are_refused():
    assert _ledger([(1.0, 0.01, 1)] * 65537, 0.0, 1.0) is None


def test_random_jobs_are_certified_and_meet_their_own_delta():
    """Different mechanisms, with and without a release that sees every record."""
    rng = np.random.default_rng(5)
    narrow = 0
    for _ in range(40):
        blocks = [
            (float(s), float(q), int(t))
            for s, q, t in zip(
                np.exp(rng.uniform(np.log(0.4), np.log(8.0), 6)),
                np.exp(rng.uniform(np.log(1e-4), np.log(0.1), 6)),
                np.ceil(np.exp(rng.uniform(0.0, np.log(5000.0), 6))),
                strict=True,
            )
        ]
        job = _process(blocks, float(rng.choice([0.0, rng.uniform(1e-4, 0.1)])))
        delta = float(10.0 ** rng.uniform(-10, -3))
        found = fa.epsilon_bounds(job, delta=delta, neighbors="remove")
        narrow += found.upper - found.lower <= 1e-9 * found.upper
        back = fa.log_delta_bounds(job, epsilon=found.upper, neighbors="remove")
        assert back.lower <= np.log(delta)
    assert narrow >= 39


def test_a_target_does_not_depend_on_the_others():
    """Targets share the lines of whole powers of ten, which are the same ones whatever is asked."""
    job = _process(*JOBS["with a release"][:2])
    deltas = 10.0 ** np.linspace(-9.6, -4.2, 23)
    together = fa.epsilon_bounds(job, delta=deltas)
    backwards = fa.epsilon_bounds(job, delta=deltas[::-1].copy())
    alone = [fa.epsilon_bounds(job, delta=float(d)) for d in deltas]
    np.testing.assert_array_equal(together.upper, backwards.upper[::-1])
    np.testing.assert_array_equal(together.lower, backwards.lower[::-1])
    np.testing.assert_array_equal(together.upper, [b.upper for b in alone])
    np.testing.assert_array_equal(together.lower, [b.lower for b in alone])
    assert np.all(together.upper - together.lower <= 1e-9 * together.upper)
