"""The capped line: coarse lines hold the truth by their ledger alone, and every entry of it is needed."""

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from bench import scores
from fastacct import reference
from tests import kernel_parts

ENTRIES = ("log_value", "up", "down", "tail", "quadrature", "rounding", "ends", "closed", "put", "floor", "alias")
USUAL = {
    "tolerance": 26.0, "dead": 32.0, "need": 24.0, "cap_ratio": 1.35, "cap_back": 1.0, "left": 8.3, "right": 9.0,
    "floor": 0.0, "records": 0.0,
}  # fmt: skip
JOBS = {
    "everyday": (1.0, 0.01, 1000, 1.0),
    "a large jump": (0.6, 0.0003, 2000, 1.5),
    "few participations": (0.5, 0.0001, 10_000, 0.5),
    "much noise": (5.0, 0.05, 20_000, 3.0),
    "many steps": (20.0, 0.01, 10**9, 223.47084225136297),
}


def _ledger(steps, mu2, epsilon, **budget):
    """The ledger of one line, for triples (noise, rate, count) and Gaussians with mu^2; None where there is no line."""
    columns = [list(column) for column in zip(*steps, strict=True)]
    lists = (*columns, list((USUAL | budget).values()))
    out = kernel_parts.call("ledgers", "line", len(steps), mu2, epsilon, lists=lists, answers=len(ENTRIES))
    return dict(zip(ENTRIES, out, strict=True)) if out[0] == out[0] else None


def _line(job, **budget):
    return _ledger([JOBS[job][:3]], 0.0, JOBS[job][3], **budget)


def _truth(job):
    """Bounds of log delta, from the usual line (which the oracle's tests hold to the truth) or from the reference."""
    noise, rate, steps, epsilon = JOBS[job]
    run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "epsilon": epsilon}
    if job == "many steps":
        value = float(mp.log(reference.exact_delta(**run, direction="remove")))
        return value - 1e-15, value + 1e-15
    bounds = fa.dpsgd.delta_bounds(**run, neighbors="remove")
    return math.log(bounds.lower), math.log(bounds.upper)


def _holds(ledger, truth, without=None):
    """Whether the interval meets the truth's; `without` an entry, that is left out on both sides."""
    off = 0.0 if without is None else ledger[without]
    up = ledger["log_value"] + math.log1p(ledger["up"] - (off if without != "alias" else 0.0))
    down = ledger["down"] - (off if without not in ("put", "floor") else 0.0)
    return up >= truth[0] and (down >= 1.0 or ledger["log_value"] + math.log1p(-down) <= truth[1])


@pytest.mark.parametrize(
    ("entry", "job", "budget"),
    [
        ("alias", "everyday", {"tolerance": 4.0}),
        ("alias", "much noise", {"tolerance": 4.0}),
        ("tail", "everyday", {"dead": 6.0}),
        ("tail", "few participations", {"dead": 6.0, "floor": 1.0}),
        ("put", "few participations", {"cap_back": 0.0, "cap_ratio": 1.02, "dead": 60.0}),
        ("put", "a large jump", {"cap_back": 0.0, "cap_ratio": 1.1, "dead": 60.0}),
        ("floor", "a large jump", {"tolerance": 3.0, "floor": 1.0}),
        ("quadrature", "much noise", {"need": 8.0, "tolerance": 45.0, "dead": 50.0, "left": 12.0}),
    ],
)
def test_every_entry_of_the_ledger_is_needed(entry, job, budget):
    """A line drawn so coarsely that one entry matters: with it the truth is inside, without it outside."""
    ledger, truth = _line(job, **budget), _truth(job)
    assert _holds(ledger, truth), ledger
    assert not _holds(ledger, truth, without=entry), ledger


def test_rounding_is_needed():
    """Of five lines that differ in nothing but rounding, one at least is off by more than all other entries."""
    truth = _truth("many steps")
    lines = [
        _line("many steps", tolerance=45.0, dead=50.0, left=12.0, need=need) for need in (45.0, 50.0, 55.0, 60.0, 65.0)
    ]
    assert all(_holds(line, truth) for line in lines)
    assert not all(_holds(line, truth, without="rounding") for line in lines)


@pytest.mark.parametrize("left", [4.0, 4.5])
@pytest.mark.parametrize("job", JOBS)
def test_what_lies_left_of_the_nodes_is_paid(job, left):
    """Nodes that begin too far right: what they miss is paid, by the sums' ends and by that of the mean loss."""
    short, whole, truth = _line(job, left=left), _line(job), _truth(job)
    assert _holds(short, truth), short
    assert not _holds(short | {"up": whole["up"], "down": whole["down"]}, truth), short


@pytest.mark.parametrize(("job", "right"), [("everyday", 0.0), ("much noise", 1.0)])
def test_what_lies_right_of_the_nodes_is_paid(job, right):
    """Nodes that end too early: what they miss is paid by the sums' ends."""
    short, whole, truth = _line(job, right=right), _line(job), _truth(job)
    assert _holds(short, truth), short
    assert not _holds(short | {"up": whole["up"], "down": whole["down"]}, truth), short


@pytest.mark.parametrize(
    "budget", [{}, {"floor": 1.0}, {"floor": 1.0, "need": 9.0, "tolerance": 5.0, "dead": 8.0}, {"cap_ratio": 1.05}]
)
@pytest.mark.parametrize("job", JOBS)
def test_all_entries_are_added_up(job, budget):
    ledger = _line(job, **budget)
    both = sum(ledger[name] for name in ("tail", "quadrature", "rounding", "closed"))
    assert ledger["up"] >= (both + ledger["put"] + ledger["floor"]) * (1.0 - 1e-12)
    assert ledger["down"] >= (both + ledger["alias"]) * (1.0 - 1e-12)


@pytest.mark.parametrize("job", ["everyday", "a large jump", "few participations"])
def test_aliases_of_very_coarse_lines_are_paid(job):
    """So coarse that those on the left of the line are seen beside those on its right."""
    for tolerance in (2.0, 2.1, 2.25, 2.5, 2.75, 3.05):
        ledger = _line(job, tolerance=tolerance, dead=45.0)
        assert _holds(ledger, _truth(job)), ledger


@pytest.mark.parametrize("job", JOBS)
def test_coarse_lines_hold_the_truth(job):
    truth = _truth(job)
    rng = np.random.default_rng(7)
    narrow = 0
    for _ in range(60):
        budget = {
            "tolerance": rng.uniform(3.0, 30.0),
            "dead": rng.uniform(5.0, 36.0),
            "need": rng.uniform(8.0, 30.0),
            "cap_ratio": rng.uniform(1.05, 2.0),
            "cap_back": rng.uniform(0.0, 1.2),
            "left": rng.uniform(5.0, 9.0),
            "right": rng.uniform(2.0, 9.0),
            "floor": float(rng.integers(2)),
        }
        ledger = _line(job, **budget)
        assert _holds(ledger, truth), (budget, ledger)
        narrow += ledger["up"] < 1.0
    assert narrow > 20


def test_windows_far_from_the_losses_do_not_matter():
    """Where no loss reaches the cap, there is no closed part and nothing put."""
    ledger = _line("much noise")
    assert ledger["put"] == 0.0
    assert ledger["floor"] == 0.0


@pytest.mark.parametrize("direction", ["remove", "add_remove"])
def test_everyday_cells_are_certified_to_nine_digits(direction):
    run = scores.draw("everyday", 3000).keywords() | {"neighbors": direction}
    delta = run.pop("delta")
    found = fa.dpsgd.epsilon_bounds(**run, delta=delta)
    assert np.mean(found.upper - found.lower <= 1e-9 * found.upper) >= 0.999
    back = fa.dpsgd.delta_bounds(**run, epsilon=found.upper)
    assert np.all(back.lower <= delta)


@pytest.mark.parametrize(
    ("noise", "rate", "epsilon"),
    [(1.44664, 0.256944, 11.0944), (0.704084, 0.0926767, 32.1411), (0.331743, 0.00171075, 22.2288), (30.0, 0.5, 0.02)],
)
def test_two_steps_far_out_are_the_nested_integral(noise, rate, epsilon):
    """Few steps at deltas of 1e-15 to 1e-70: points where an error is larger than |B0|, exponents that overflow."""
    run = {"noise_multiplier": noise, "sample_rate": rate, "steps": 2, "epsilon": epsilon}
    truth = float(mp.log(reference.exact_delta(**run, direction="remove", digits=14)))
    lower, upper, _ = fa.log_delta_bounds(fa.Gaussian(noise).poisson(rate) * 2, epsilon=epsilon, neighbors="remove")
    assert lower <= truth <= upper < truth + 1e-6
    for budget in ({}, {"tolerance": 12.0}, {"dead": 10.0}, {"need": 10.0}, {"floor": 1.0}):
        ledger = _ledger([(noise, rate, 2)], 0.0, epsilon, **budget)
        assert ledger is None or _holds(ledger, (truth - 1e-13, truth + 1e-13)), (budget, ledger)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon", "delta"),
    [
        (7.182551997766355, 0.2973298660508201, 9, 4.4526270149470975, 1.316483556362e-136),
        (7.997931827245407, 0.18746459269839152, 10, 3.6267530223666333, 6.78443388297e-205),
        (6.65815619634374, 0.08000051984450438, 138, 5.548116633025658, 6.2419748627e-229),
    ],
)
def test_far_out_the_strip_of_the_tail_is_narrower_where_noise_is_large(noise, rate, steps, epsilon, delta):
    job = fa.Gaussian(noise).poisson(rate) * steps
    bounds = fa.delta_bounds(job, epsilon=epsilon, neighbors="remove")
    assert bounds.status == fa.Status.TIGHT
    assert bounds.lower < delta * (1 + 1e-9)
    assert bounds.upper > delta * (1 - 1e-9)
