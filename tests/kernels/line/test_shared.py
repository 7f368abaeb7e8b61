"""Targets of one run share capped lines, and no answer depends on which others were asked."""

import math
import time

import numpy as np
import pytest

import fastacct as fa
import fastacct.reference
from fastacct.core.work import counted
from fastacct.readers.contour import Contour
from fastacct.readers.nearby import LOG_DELTA

DELTAS = np.geomspace(1e-9, 1e-3, 21)
RUNS = [  # noise multiplier, sample rate, steps: many participations, few, hardly any; little noise
    (1.1, 0.01, 10_000),
    (4.0, 0.003, 5_000),
    (0.6, 0.0003, 12_000),
    (2.0, 0.0001, 2_000),
]


def _bounds(sigma, q, steps, delta, neighbors):
    return fa.dpsgd.epsilon_bounds(
        noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta, neighbors=neighbors, threads=1
    )


@pytest.mark.parametrize("neighbors", ["remove", "add", "add_remove"])
@pytest.mark.parametrize("run", RUNS)
def test_a_target_has_the_same_bits_alone_and_among_others(run, neighbors):
    together = _bounds(*run, DELTAS, neighbors)
    order = np.random.default_rng(1).permutation(DELTAS.size)
    shuffled = _bounds(*run, DELTAS[order], neighbors)
    for field in ("lower", "upper"):
        alone = [getattr(_bounds(*run, float(delta), neighbors), field) for delta in DELTAS]
        np.testing.assert_array_equal(getattr(together, field), alone)
        np.testing.assert_array_equal(getattr(together, field)[order], getattr(shuffled, field))


JOBS = {
    "many participations": fa.Gaussian(1.1).poisson(0.01) * 10_000,
    "two kinds": fa.Gaussian(1.0).poisson(0.01) * 1_000 + fa.Laplace(5.0) * 3,
    "a group": fa.Gaussian(4.0).poisson(0.01).group(3) * 500,
    "samples of Laplace noise": fa.Laplace(1.0).poisson(0.01) * 1_000,
    "rays": fa.Laplace(5.0) * 40,
    "a lattice": fa.DiscreteGaussian(10.0) * 50,
    "few steps next to their largest loss": fa.Gaussian(0.9).poisson(0.5) * 6,
}


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize("name", JOBS)
def test_a_log_delta_has_the_same_bits_alone_and_is_that_of_a_line_of_its_own(name, neighbors):
    epsilon = np.geomspace(1e-3, 4.0, 25)
    together = fa.log_delta_bounds(JOBS[name], epsilon=epsilon, neighbors=neighbors)
    back = fa.log_delta_bounds(JOBS[name], epsilon=epsilon[::-1], neighbors=neighbors, threads=1)
    own = fa.delta_bounds(JOBS[name], epsilon=epsilon, neighbors=neighbors)
    for field in ("lower", "upper"):
        alone = [getattr(fa.log_delta_bounds(JOBS[name], epsilon=e, neighbors=neighbors), field) for e in epsilon]
        np.testing.assert_array_equal(getattr(together, field), alone)
        np.testing.assert_array_equal(getattr(together, field), getattr(back, field)[::-1])
    assert (np.exp(together.lower) <= own.upper * (1.0 + 1e-14)).all()
    assert (own.lower * (1.0 - 1e-14) <= np.exp(together.upper)).all()
    seen = own.status == fa.Status.TIGHT
    assert (together.upper - together.lower)[seen & (own.lower > 1e-250)].max() <= 3e-9


@pytest.mark.parametrize("neighbors", ["remove", "add", "add_remove"])
def test_a_grid_has_the_same_bits_whatever_the_order_of_its_axes(neighbors):
    sigma, q = np.array([0.7, 3.0]), np.array([0.002, 0.02])
    steps = np.array([500, 3_000, 20_000])
    inner = _bounds(sigma[:, None, None], q[:, None, None], steps[:, None], DELTAS[::5], neighbors)
    outer = _bounds(sigma, q, steps[:, None], DELTAS[::5, None, None], neighbors)
    np.testing.assert_array_equal(inner.upper, np.moveaxis(outer.upper, 0, -1).swapaxes(0, 1))
    np.testing.assert_array_equal(inner.lower, np.moveaxis(outer.lower, 0, -1).swapaxes(0, 1))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("run", RUNS[:3])
@pytest.mark.parametrize("delta", [3.2e-9, 3.3e-8, 2.9e-5])  # at the far ends of what a line serves
def test_a_shared_line_agrees_with_a_line_drawn_for_that_epsilon(run, delta, direction):
    sigma, q, steps = run
    bounds = _bounds(*run, delta, direction)
    assert bounds.upper - bounds.lower <= 2e-9 * bounds.upper
    at = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "neighbors": direction}
    assert fa.dpsgd.delta_bounds(**at, epsilon=bounds.upper).lower <= delta
    assert fa.dpsgd.delta_bounds(**at, epsilon=bounds.lower).upper >= delta


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "epsilon"),
    [
        (0.387378974350469, 6.2215156111e-05, 108, 3.3546e-05),
        (0.347761527632519, 0.000135325597173, 22, 2.1313e-07),
        (0.259056880370485, 0.12721386109, 11, 7.74614e-4),
        (0.51923045570226, 1.745919181659e-06, 2, 1.5864e-08),
        (0.593945455489838, 0.00376266057, 2, 0.0),
    ],
)
def test_few_steps_near_epsilon_zero_are_certified(sigma, q, steps, epsilon):
    bounds = fa.dpsgd.delta_bounds(
        noise_multiplier=sigma, sample_rate=q, steps=steps, epsilon=epsilon, neighbors="remove"
    )
    assert bounds.upper - bounds.lower <= 4e-9 * bounds.upper
    if steps == 2:
        truth = fa.reference.exact_delta(noise_multiplier=sigma, sample_rate=q, steps=2, epsilon=epsilon)
        assert bounds.lower <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= bounds.upper


@pytest.mark.parametrize("delta", [1e-247, 1e-180, 1e-60])
def test_no_line_follows_losses_that_no_delta_notices(delta):
    """exp(u loss) outweighs everything far right of where a record ever is; the cap stands before it."""
    bounds = _bounds(4.93217, 1.17701e-05, 366_537, delta, "remove")
    assert bounds.upper - bounds.lower <= 4e-9 * bounds.upper


def test_deltas_of_few_added_steps_share_lines_up_to_their_largest_loss():
    """Their logarithms fall over a share of what is left to it: lines further apart served no target between them."""
    work, end = [], -5.0 * math.log1p(-0.412)
    for size in (400, 1600):
        line, epsilon = Contour(fa.Gaussian(0.675).poisson(0.412) * 5, "add"), end * np.linspace(0.1, 0.97, size)
        with counted() as done:
            found, _ = line.read_cell(0, epsilon, LOG_DELTA)
        assert (found.status == fa.Status.TIGHT).mean() > 0.99
        work.append(sum(done.values()))
    assert work[1] < 1.6 * work[0]  # four times as many, on the same lines


def test_at_epsilon_zero_both_directions_are_the_total_variation():
    job = fa.Gaussian(5.7).poisson(0.0083) + fa.Gaussian(3.65).poisson(0.99995)
    remove, add = (fa.delta_bounds(job, epsilon=0.0, neighbors=way) for way in ("remove", "add"))
    assert max(remove.lower, add.lower) <= min(remove.upper, add.upper)
    assert add.upper - add.lower <= 1e-8 * add.upper


@pytest.mark.parametrize(
    ("sigma", "q", "delta", "epsilon"),
    [  # 30 digits: one step's closed form, integrated over the other step's loss
        (0.3664856565428747, 0.9999983056349896, 2.925090806193843e-247, 136.698139093164),
        (0.4117910503233852, 0.9995708534705289, 7.287682897167459e-256, 122.928262336929),
    ],
)
def test_moments_beyond_the_square_root_of_doubles_are_given_up(sigma, q, delta, epsilon):
    """log |B0| above 354 overflowed where its modulus is squared: points were too small, the interval elsewhere."""
    bounds = _bounds(sigma, q, 2, delta, "remove")
    assert bounds.lower <= epsilon * (1 + 1e-14)
    assert epsilon * (1 - 1e-14) <= bounds.upper


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "epsilon"),
    [
        (24.6326419571342, 4.538379650392247e-06, 101_046, 0.026192022536384186),
        (27.21179551552092, 2.6547618151018507e-06, 33_998, 0.007643282521903399),
    ],
)
def test_a_reading_without_digits_places_no_further_line(sigma, q, steps, epsilon):
    """A sum of rounding errors, read as delta above 1, placed a cut at NaN: a segmentation fault."""
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "neighbors": "remove"}
    bounds = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
    assert 0.0 <= bounds.lower <= bounds.upper < 1e-60


def test_epsilon_where_no_line_is_certified_is_chernoffs_bound():
    """A third of Renyi DP's and less: the search once ended before its first step."""
    run = {"noise_multiplier": 2.112, "sample_rate": 2.922e-4, "steps": 3057, "neighbors": "remove"}
    epsilon = fa.dpsgd.epsilon(**run, delta=4.42e-33)
    assert 0.0 < epsilon < 0.4 * fa.dpsgd.epsilon(**run, delta=4.42e-33, accountant=fa.RDP())
    assert fa.dpsgd.delta(**run, epsilon=epsilon) <= 4.42e-33 * (1.0 + 1e-12)


DEAR = fa.DiscreteGaussian(0.7, sensitivity=3) * 2 + fa.Gaussian(0.68).poisson(0.018) * 300


def _of_a_density() -> fa.Process:
    """Losses whose own error is most of an answer's, whatever the line."""
    logistic = fa.jit.mechanism(log_density_p=_moved, log_density_q=_logistic, breakpoints=[0.0, 0.7])
    return logistic * 64 + DEAR


def _logistic(x: float) -> float:
    return -abs(x) - 2.0 * math.log1p(math.exp(-abs(x)))


def _moved(x: float) -> float:
    return -abs(x - 0.7) - 2.0 * math.log1p(math.exp(-abs(x - 0.7)))


def test_deltas_that_are_near_are_read_off_one_line_where_no_line_is_narrower():
    """What an error is of delta, which falls, rises by the line's own rate: log(width delta) is a line in epsilon."""
    epsilon = np.array([44.5, 45.0, 45.5, 46.0])
    lower, upper, status = fa.delta_bounds(_of_a_density(), epsilon=epsilon, neighbors="remove")
    assert (status == fa.Status.TIGHT).all()
    assert 1e-9 < np.max(1.0 - lower / upper) < 1e-6
    bend = np.diff(np.log(upper - lower), 2)
    assert np.abs(bend).max() < 1e-4 < 1e-3 < np.abs(np.diff(np.log(upper), 2)).max()


def test_a_delta_of_losses_that_are_data_is_that_of_its_logarithm():
    """One line answers both, drawn for all epsilons that are near."""
    epsilon = np.array([1.0, 1.1, 2.0])
    job = fa.Gaussian(4.0).poisson(0.003) * 5_000 + fa.Laplace(5.0) * 3
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon)
    low, high, _ = fa.log_delta_bounds(job, epsilon=epsilon)
    np.testing.assert_allclose(np.log(lower), low, rtol=1e-15, atol=2e-15)
    np.testing.assert_allclose(np.log(upper), high, rtol=1e-15, atol=2e-15)


def test_deltas_that_are_near_take_little_longer_than_one():
    """Where a line takes a tenth of a second, and each of them had one of its own."""
    job = _of_a_density() + fa.from_pmf((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)) * 7
    seconds = []
    for size in (1, 1, 12):
        start = time.process_time()
        fa.delta_bounds(fa.Process(list(job)), epsilon=np.linspace(45.0, 45.1, size), neighbors="add_remove")
        seconds.append(time.process_time() - start)
    assert seconds[2] < 4.0 * seconds[1]
