"""Users' mechanisms against built-in ones and closed forms; kernels called from Numba and Cython."""

import copy
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
import fastacct_ext
from fastacct.mechanisms.compiled.release import OneRelease
from fastacct.testing import check_mechanism
from tests.densities import flat, gaussian_p, gaussian_q, laplace_p, laplace_q, rising

numba = pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")
EXAMPLES = Path(__file__).parents[2] / "examples"


def cauchy_q(x):
    return -math.log(math.pi * (1.0 + x * x))


def cauchy_p(x):
    return -math.log(math.pi * (1.0 + (x - 1.0) ** 2))


@pytest.fixture(scope="module")
def gaussian():
    return fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q)


@pytest.fixture(scope="module")
def laplace():
    return fa.jit.mechanism(log_density_p=laplace_p, log_density_q=laplace_q, breakpoints=[0.0, 1.0])


@pytest.mark.parametrize("neighbors", ["add_remove", "add", "remove"])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0, 9.0])
def test_one_release_is_the_gaussian_to_ten_digits(gaussian, epsilon, neighbors):
    lower, upper, status = fa.delta_bounds(gaussian, epsilon=epsilon, neighbors=neighbors)
    truth = fa.delta_bounds(fa.Gaussian(1.0), epsilon=epsilon, neighbors=neighbors)
    assert lower <= truth.upper
    assert truth.lower <= upper <= truth.upper * (1.0 + 1e-10)
    assert lower >= truth.lower * (1.0 - 1e-10)
    assert status == fa.Status.TIGHT


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-40])
def test_epsilon_of_one_release_is_the_gaussians(gaussian, delta):
    lower, upper, _ = fa.epsilon_bounds(gaussian, delta=delta)
    truth = fa.epsilon(fa.Gaussian(1.0), delta=delta)
    assert lower <= truth * (1.0 + 1e-12)
    assert truth * (1.0 - 1e-12) <= upper <= truth * (1.0 + 1e-10)


def test_divergences_are_the_gaussians(gaussian):
    orders = np.array([1.01, 1.5, 2.0, 8.0, 24.0])
    found = fa.rdp(gaussian, orders)
    np.testing.assert_allclose(found, 0.5 * orders, rtol=5e-11, atol=0.0)  # where the infinite domain is cut
    assert np.all(found >= 0.5 * orders * (1.0 - 1e-15))
    assert fa.rdp(gaussian, 64.0) == np.inf  # the tilted mass is where the infinite domain was cut off


@pytest.mark.parametrize("job", [lambda m: m * 30, lambda m: m.poisson(0.1) * 5, lambda m: m * 2 + fa.Laplace(2.0)])
def test_compositions_samples_and_mixtures_enclose_the_built_in(gaussian, job):
    for epsilon in (0.5, 3.0):
        ours = fa.delta_bounds(job(gaussian), epsilon=epsilon)
        truth = fa.delta_bounds(job(fa.Gaussian(1.0)), epsilon=epsilon)
        assert ours.lower <= truth.upper
        assert truth.lower <= ours.upper <= truth.upper * 1.05


def test_laplace_with_kinks_named(laplace):
    for epsilon in (0.0, 0.3, 0.9):
        lower, upper, _ = fa.delta_bounds(laplace, epsilon=epsilon)
        truth = -math.expm1((epsilon - 1.0) / 2.0)
        assert lower <= truth <= upper <= truth * (1.0 + 1e-8)


def _laplace(scale, direction):
    """Densities as a user writes them, and the loss as the difference or without its cancellation."""
    log_size = math.log(2.0 * scale)

    def p(x):
        return -abs(x - 1.0) / scale - log_size

    def q(x):
        return -abs(x) / scale - log_size

    def loss(x):
        return (1.0 if x > 1.0 else -1.0 if x < 0.0 else 2.0 * x - 1.0) / scale

    return fa.jit.mechanism(
        log_density_p=p, log_density_q=q, breakpoints=[0.0, 1.0], loss=loss if direction == "loss" else None
    )


@pytest.mark.parametrize(
    ("scale", "direction"),
    [(scale, "difference") for scale in (0.05, 0.3, 2.0, 5.0, 50.0, 500.0)] + [(5.0, "loss"), (500.0, "loss")],
)
def test_laplace_noise_of_any_scale_is_the_built_in(scale, direction):
    """Also pure differential privacy: the loss does not grow where the domain is cut."""
    mine, own = _laplace(scale, direction), fa.Laplace(scale)
    for delta in (0.0, 1e-6, 1e-4):
        lower, upper, status = fa.epsilon_bounds(mine, delta=delta)
        truth = fa.epsilon_bounds(own, delta=delta)
        exact = max(0.0, 1.0 / scale + 2.0 * math.log1p(-delta))
        assert lower <= truth.upper
        assert lower <= exact * (1.0 + 1e-15)
        assert truth.lower <= upper
        assert exact * (1.0 - 1e-15) <= upper <= exact * (1.0 + 1e-8) + 1e-12
        assert status == fa.Status.TIGHT
    assert fa.delta(mine, epsilon=1.01 / scale) == 0.0
    exact = -math.expm1(-0.25 / scale)
    assert exact * (1.0 - 1e-14) <= fa.delta(mine, epsilon=0.5 / scale) <= exact * (1.0 + 1e-9)
    assert fa.delta(mine, epsilon=0.5 / scale) >= fa.delta_lower(own, epsilon=0.5 / scale)


@pytest.mark.parametrize(("column", "factor"), [(2, 1.0), (3, math.exp(0.5))])
def test_errors_of_masses_above_epsilon_widen_both_ends(gaussian, column, factor):
    """Of P, and of Q with the factor exp(epsilon)."""
    reader = OneRelease(gaussian, 0)
    before = reader.delta(0.5)
    reader._sums = copy.copy(reader._sums)
    reader._sums.masses = [mass + 1e-3 * (i == column) for i, mass in enumerate(reader._sums.masses)]
    after = reader.delta(0.5)
    assert after.upper - before.upper >= 1e-3 * factor * (1.0 - 1e-9)
    assert before.lower - after.lower >= 1e-3 * factor * (1.0 - 1e-9)


def test_only_bounded_losses_are_pure(gaussian):
    assert fa.epsilon(gaussian, delta=0.0) == math.inf
    assert fa.delta(gaussian, epsilon=60.0) > 0.0
    cut = fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q, domain=(-30.0, 31.0), panels=1024)
    assert fa.epsilon(cut, delta=0.0) == math.inf  # its tails go on


def test_densities_that_end_where_the_domain_ends_are_pure():
    made = fa.jit.mechanism(log_density_p=rising, log_density_q=flat, domain=(0.0, 1.0), panels=1024)
    for neighbors, truth in (("remove", math.log(1.5)), ("add", math.log(2.0))):
        lower, upper, status = fa.epsilon_bounds(made, delta=0.0, neighbors=neighbors)
        assert lower <= truth <= upper <= truth * (1.0 + 1e-9)
        assert status == fa.Status.TIGHT


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_epsilon_next_to_an_atom(laplace, delta):
    """delta = 1 - exp((epsilon - 1)/2) up to the largest loss, 1."""
    truth = 1.0 + 2.0 * math.log1p(-delta)
    lower, upper, _ = fa.epsilon_bounds(laplace, delta=delta)
    assert lower <= truth <= upper <= lower + 1e-6


def test_a_domain_that_leaves_mass_out_is_refused():
    """Cauchy noise on a domain that leaves mass out."""
    with pytest.raises(ValueError, match="integrates to"):
        fa.jit.mechanism(log_density_p=cauchy_p, log_density_q=cauchy_q, domain=(-50.0, 50.0))


def test_the_contract(laplace):
    assert check_mechanism(laplace, neighbors="remove", seconds=None) == ()


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"log_density_p": 3.0}, TypeError, "log_density_p must be a function"),
        ({"domain": (1.0, 0.0)}, ValueError, "domain"),
        ({"breakpoints": [5.0], "domain": (0.0, 1.0)}, ValueError, "breakpoints"),
        ({"panels": 3}, ValueError, "panels"),
        ({"relations": ["other"]}, ValueError, "relations"),
        ({"log_density_p": lambda x: math.log(0.9) + gaussian_p(x)}, ValueError, r"integrates to 0\.8999"),
        ({"log_density_p": lambda x: "text"}, ValueError, "cannot be compiled"),
        ({"log_density_p": lambda x: math.nan}, ValueError, "not a number"),
    ],
)
def test_bad_mechanisms_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        fa.jit.mechanism(
            **{"log_density_p": gaussian_p, "log_density_q": gaussian_q, "domain": (-40.0, 41.0), **keywords}
        )


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: 0.5 * (x - 0.5),
        lambda x: 0.99 * (x - 0.5),
        lambda x: (1.0 - 1e-13) * (x - 0.5),
        lambda x: x - 0.5 if x < 3.0 else 2.5,
        lambda x: x - 0.5 if x > -3.0 else -math.inf,
        lambda x: x - 0.5 if x < 9.0 else math.nan,
        lambda x: 0.5 - x,
    ],
)
def test_a_loss_that_is_not_the_difference_of_the_log_densities_is_refused(loss):
    """N(1, 1) against N(0, 1) has the loss x - 1/2: delta(1) is 0.1269, and 0.0499 of half that loss."""
    given = {"log_density_p": gaussian_p, "log_density_q": gaussian_q, "domain": (-12.0, 13.0)}
    with pytest.raises(ValueError, match=r"loss\(.*\) = .* is not log_density_p - log_density_q"):
        fa.jit.mechanism(**given, loss=loss)
    right = fa.jit.mechanism(**given, loss=lambda x: x - 0.5)
    assert fa.delta(right, epsilon=1.0) >= fa.delta_lower(fa.Gaussian(1.0), epsilon=1.0)


def test_a_loss_is_infinite_where_one_of_the_densities_is_zero():
    """Uniform noise on [0, 1] and on [0, 2]: where P has nothing, a finite loss is wrong for those who are added."""

    def one(x):
        return 0.0 if x < 1.0 else -math.inf

    given = {
        "log_density_p": one,
        "log_density_q": lambda x: -math.log(2.0),
        "domain": (0.0, 2.0),
        "breakpoints": [1.0],
    }
    with pytest.raises(ValueError, match="= -inf there"):
        fa.jit.mechanism(**given, loss=lambda x: math.log(2.0))
    right = fa.jit.mechanism(**given, loss=lambda x: math.log(2.0) if x < 1.0 else -math.inf)
    assert fa.delta(right, epsilon=0.1, neighbors="add") == pytest.approx(0.5, rel=1e-6)


def test_what_an_infinite_domain_does_not_hold_is_refused_for_its_reason():
    with pytest.raises(ValueError, match="too heavy tails for an infinite domain"):
        fa.jit.mechanism(log_density_p=cauchy_p, log_density_q=cauchy_q)

    def narrow(at):
        return lambda x: -0.5 * ((x - at) / 1e-4) ** 2 - math.log(1e-4) - 0.9189385332046727

    both = {"log_density_p": narrow(1.0), "log_density_q": narrow(0.0)}
    with pytest.raises(ValueError, match=r"the part of .* in which densities .* were found; give a finite domain"):
        fa.jit.mechanism(**both)
    named = fa.jit.mechanism(**both, breakpoints=[0.0, 1.0])
    assert fa.delta(named, epsilon=1.0) >= 1.0 - 1e-9

    def turned(moved):
        return lambda t: -math.log(math.pi) - math.log((math.cos(t)) ** 2 + (math.sin(t) - moved * math.cos(t)) ** 2)

    half = 0.5 * math.pi
    cauchy = fa.jit.mechanism(log_density_p=turned(1.0), log_density_q=turned(0.0), domain=(-half, half))
    largest = math.log(0.5 * (3.0 + math.sqrt(5.0)))  # of (1 + x^2) / (1 + (x - 1)^2)
    assert fa.delta(cauchy, epsilon=largest - 0.01) > 0.0
    assert fa.delta(cauchy, epsilon=largest + 1e-6) == 0.0


def test_an_unnamed_jump_is_refused():
    def jump(x):
        return 0.0 if 0.0 <= x <= 1.0 else -math.inf

    with pytest.raises(ValueError, match="breakpoints"):
        fa.jit.mechanism(log_density_p=jump, log_density_q=jump, domain=(-1.01, 2.0), panels=100)


def test_relations_are_those_named(gaussian):
    with pytest.raises(ValueError, match="replace_one"):
        fa.delta(gaussian, epsilon=1.0, neighbors="replace_one")
    assert gaussian == fa.jit.mechanism(log_density_p=gaussian_p, log_density_q=gaussian_q)
    assert gaussian != fa.jit.mechanism(log_density_p=gaussian_q, log_density_q=gaussian_p)


def test_compiled_code_is_fast_to_make():
    start = time.process_time()
    fa.jit.mechanism(log_density_p=lambda x: -0.5 * (x - 2.0) ** 2 - 0.9189385332046727, log_density_q=gaussian_q)
    assert time.process_time() - start < 3.0


# -- kernels for compiled code -----------------------------------------------------------------------------------------


def test_kernels_give_the_same_bits_in_numba():
    epsilon, delta, rdp = fa.jit.dpsgd_epsilon(), fa.jit.dpsgd_delta(), fa.jit.dpsgd_rdp()

    @numba.njit
    def all_three(sigma, q, steps):
        return epsilon(sigma, q, steps, 1e-5), delta(sigma, q, steps, 1.0), rdp(sigma, q, steps, 4.0)

    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    expected = (
        fa.dpsgd.epsilon(**run, delta=1e-5),
        fa.dpsgd.delta(**run, epsilon=1.0),
        fa.dpsgd.rdp(**run, orders=4.0),
    )
    assert all_three(1.0, 0.01, 1000.0) == expected
    for bad in ((-1.0, 0.5, 1.0), (1.0, 2.0, 1.0), (1.0, 0.5, 1.5), (math.nan, 0.5, 1.0)):
        assert all_three(*bad) == (math.inf, 1.0, math.inf)


@pytest.mark.parametrize("name", ["own_mechanism.py", "from_numba.py"])
def test_the_examples_run(name):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_kernels_are_called_from_cython(tmp_path):
    pytest.importorskip("Cython", reason="Cython is needed to build the example")
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    shutil.copy(EXAMPLES / "from_cython.pyx", tmp_path)
    home = Path(fastacct_ext.__file__).parent
    paths = {"PYTHONPATH": str(home.parent), "CFLAGS": f"-I{home}"}
    build = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-q", "from_cython.pyx"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **paths})
    code = "import from_cython; print(repr(from_cython.total_epsilon([1.0, 1.5], 0.01, 1000, 1e-5)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    run = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    assert float(done.stdout) == sum(fa.dpsgd.epsilon(noise_multiplier=s, **run) for s in (1.0, 1.5))


@pytest.mark.parametrize("panels", [1024, 4096])
def test_divergences_next_to_a_kink_are_not_too_small_at_large_orders(panels):
    made = fa.jit.mechanism(log_density_p=laplace_p, log_density_q=laplace_q, breakpoints=[0.0, 1.0], panels=panels)
    orders = np.array([1.2, 2.0, 32.0, 100.0, 1e3, 1e4, 1e6])
    assert np.all(fa.rdp(made, orders, neighbors="remove") >= fa.rdp(fa.Laplace(1.0), orders) * (1.0 - 1e-11))


def _logistic(x):
    return -abs(x) - 2.0 * math.log1p(math.exp(-abs(x)))


def _logistic_moved(x):
    return -abs(x - 0.7) - 2.0 * math.log1p(math.exp(-abs(x - 0.7)))


def test_thirteen_logistic_noises_are_tight_and_near_a_sum_on_a_grid_of_numpy():
    made = fa.jit.mechanism(log_density_p=_logistic_moved, log_density_q=_logistic, breakpoints=[0.0, 0.7])
    found = fa.epsilon_bounds(made * 13, delta=7.4e-9, neighbors="add")
    assert found.status == fa.Status.TIGHT
    x = np.linspace(-60.0, 60.0, 1 << 21)
    size = np.abs(x) + 2.0 * np.log1p(np.exp(-np.abs(x)))
    moved = np.abs(x - 0.7) + 2.0 * np.log1p(np.exp(-np.abs(x - 0.7)))
    mass, loss = np.exp(-size) * (x[1] - x[0]), moved - size  # of direction add: Q against P
    step = 1.4 / (1 << 13)
    place = (loss + 0.7) / step
    first = np.clip(np.floor(place).astype(int), 0, (1 << 13) - 1)
    masses = np.bincount(first, mass * (1.0 - place + first), 1 << 18) + np.bincount(
        first + 1, mass * (place - first), 1 << 18
    )
    tilt = 12.0  # what decides so small a delta is the bulk
    tilted = masses * np.exp(tilt * (step * np.arange(1 << 18) - 0.7).clip(max=0.7))
    total = np.fft.irfft(np.fft.rfft(tilted) ** 13)
    at = -9.1 + step * np.arange(1 << 18)
    for end, side in ((found.lower, 1.0), (found.upper, -1.0)):
        above = at > end
        delta = float(np.sum(total[above] * np.exp(-tilt * at[above]) * -np.expm1(end - at[above])))
        assert side * delta >= side * 7.4e-9 * (1.0 - side * 1e-4)


def test_a_loss_that_falls_and_rises_has_no_line():
    made = fa.jit.mechanism(
        log_density_p=lambda x: -0.5 * (x / 1.9) ** 2 - 0.5 * math.log(2.0 * math.pi * 3.61),
        log_density_q=lambda x: -0.125 * x * x - 0.5 * math.log(8.0 * math.pi),
    )
    assert made.pieces is None
    falling = fa.jit.mechanism(log_density_p=_logistic, log_density_q=_logistic_moved, breakpoints=[0.0, 0.7])
    for rule in (slice(0, 10), slice(10, 16)):
        loss = falling.pieces.table.points.reshape(-1, 16, 4)[:, rule, 0]
        assert (np.diff(loss.ravel()) >= 0.0).all()


@pytest.mark.parametrize("low", [0.0, 0.3, -7.7])
def test_densities_that_are_steps_are_randomised_responses(low):
    """Panels next to a breakpoint that is not 0 are as short as rounding allows, and are not cut again."""
    likely, seldom, at = math.log(1.5), math.log(0.5), low + 0.5
    made = fa.jit.mechanism(
        log_density_p=lambda x: likely if x < at else seldom,
        log_density_q=lambda x: seldom if x < at else likely,
        domain=(low, low + 1.0),
        breakpoints=[at],
    )
    assert (np.diff(made.table.edges) > 0.0).all()
    lower, upper, status = fa.epsilon_bounds(made, delta=0.1)
    assert lower <= math.log(2.6) <= upper
    assert status == fa.Status.TIGHT
    twenty = fa.epsilon_bounds(fa.from_pmf([0.75, 0.25], [0.25, 0.75]) * 20, delta=1e-6)
    assert twenty.lower <= fa.epsilon(made * 20, delta=1e-6) <= twenty.upper * (1.0 + 1e-6)


def test_what_is_asked_first_does_not_matter():
    made = fa.jit.mechanism(log_density_p=_logistic_moved, log_density_q=_logistic, breakpoints=[0.0, 0.7])
    assert made.pure_epsilon("remove") >= 0.7  # reads sums that are kept beside the panels
    assert made * 2 == fa.Process({made: 2})


def test_nothing_is_known_of_the_largest_loss_of_a_density_beside_a_table():
    """The lower end was infinite, though all losses are bounded."""
    made = fa.jit.mechanism(log_density_p=_logistic_moved, log_density_q=_logistic, breakpoints=[0.0, 0.7])
    found = fa.epsilon_bounds(made * 2 + fa.from_pmf([0.5, 0.5], [0.4, 0.6]), delta=0.0)
    assert found.lower <= 1.4 + math.log(1.25)
