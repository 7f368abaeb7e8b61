"""Random allocation: the definition in many digits, all data sets of tiny instances, the real sampler, and what it does
beside other mechanisms."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.atoms import pieces_of
from fastacct.samplers.allocation import allocated
from tests.containment import holds

VALUES = [
    # (direction, noise, steps, epochs, epsilon, delta): one epoch by inverting a Laplace transform in 300 bits, more by
    # composing the law of one in 80 bits
    ("remove", 1.0, 2, 1, 1.0, 0.0592065010858927),
    ("add", 1.0, 2, 1, 1.0, 0.0501976623694882),
    ("add", 0.5, 10, 1, 2.0, 0.0106911425474377),
    ("remove", 1.0, 10, 1, 4.0, 5.09412093596307e-10),
    ("add", 1.0, 10, 1, 4.0, 2.8265074489182e-33),
    ("add", 1.0, 100, 1, 0.5, 5.9252836917091e-07),
    ("remove", 0.6, 1000, 1, 1.0, 4.13051108964655e-05),
    ("remove", 1.0, 1000, 1, 0.1, 0.000148206902727411),
    ("add", 1.0, 1000, 1, 0.1, 9.28339204910396e-05),
    ("remove", 2.0, 50, 1, 0.3, 9.31329488990998e-07),
    ("remove", 1.0, 100, 10, 3.0, 1.923728356e-10),
    ("add", 1.0, 1000, 10, 0.5, 2.11906444346e-06),
    ("remove", 2.0, 100, 20, 2.0, 2.43954970079e-18),
]


OTHERS = [fa.Laplace(4.0), fa.Gaussian(2.0).poisson(0.02), fa.DiscreteLaplace(4.0), fa.PureDP(0.1)]


def bounds(noise, steps, epochs, epsilon, direction):
    return fa.delta_bounds(fa.Gaussian(noise).allocation(steps) * epochs, epsilon=epsilon, neighbors=direction)


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_published_digits_are_inside(case):
    direction, noise, steps, epochs, epsilon, delta = case
    lower, upper, status = bounds(noise, steps, epochs, epsilon, direction)
    assert lower * (1 - 1e-9) <= delta <= upper * (1 + 1e-9)
    if delta > 1e-17:  # what the lattice leaves out at its ends is not nothing beside less
        assert status == fa.Status.TIGHT
        assert upper - lower <= max(4e-12 * steps, 1e-10) * 100 * delta


def of_two(noise, epsilon, direction):
    """Delta of one epoch of two steps: the second ratio has a closed form, the first one is integrated."""
    with mp.workdps(25):
        tau, e = 1 / mpf(noise), mp.exp(mpf(epsilon))
        level = (
            2 * e if direction == "remove" else 2 / e
        )  # E (S/2 - e)_+, or E (1 - e S/2)_+ = 1 - e + e E (S/2 - 1/e)_+

        def rest(z):
            """Of the mean of (X - k)_+, X log-normal with mean 1, k what the first ratio leaves."""
            k = level - mp.exp(tau * z - tau * tau / 2)
            if k <= 0:
                return mp.npdf(z) * (1 - k)
            d = (tau * tau / 2 - mp.log(k)) / tau
            return mp.npdf(z) * (mp.ncdf(d) - k * mp.ncdf(d - tau))

        edge = (mp.log(level) + tau * tau / 2) / tau
        near = [edge + side * mpf(2) ** -k for side, ks in ((-1, range(-2, 25)), (1, range(24, -3, -1))) for k in ks]
        points = sorted({*(mpf(x) for x in range(-14, 15 + int(tau) + 2)), edge, *near})
        mean = mp.quad(rest, points, maxdegree=4) / 2
        return mean if direction == "remove" else 1 - e + e * mean


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("noise", "epsilon"), [(0.6, 1.5), (1.0, 0.7), (2.5, 0.2)])
def test_one_epoch_of_two_steps_is_what_the_definition_says(noise, epsilon, direction):
    truth = of_two(noise, epsilon, direction)
    lower, upper, _ = bounds(noise, 2, 1, epsilon, direction)
    assert lower * (1 - 1e-12) <= truth <= upper * (1 + 1e-12)
    assert upper - lower < 1e-9 * upper


@cache
def law(noise, steps):
    """Losses and their chances under Q."""
    pieces = pieces_of(allocated(noise, steps))
    return pieces.atoms[:, 0], np.exp(pieces.atoms[:, 1])


def drawn_laws():
    """Some everyday and some extreme ones, and one whose points lie next to the lattice's of another law."""
    rng = np.random.default_rng(3)
    yield from ((0.3, 40), (1.0, 1000), (3.0, 6), (20.0, 4096), (1.0, 77777), (0.4487050056285235, 79))
    for _ in range(40):
        yield float(np.exp(rng.uniform(math.log(0.4), math.log(10.0)))), int(np.exp(rng.uniform(0.7, math.log(2000.0))))


@pytest.mark.parametrize(("noise", "steps"), [*drawn_laws()])
def test_masses_and_moments_of_the_law(noise, steps):
    loss, weight = law(noise, steps)
    more = math.expm1(noise**-2.0) / steps
    for power, moment in ((0, 1.0), (1, 1.0), (2, 1.0 + more)):
        assert np.sum(weight * np.exp(power * loss)) == pytest.approx(moment, rel=1e-14 + 1e-15 * steps)


@pytest.mark.parametrize(("noise", "steps"), [(0.40653928451221993, 138), (1.0, 1000), (2.5, 7)])
def test_negative_moments_are_integrals_of_a_transform(noise, steps):
    """E S^-a is the integral of x^(a-1) E exp(-x S) over x, over Gamma(a), in 30 digits."""
    with mp.workdps(30):
        tau, step, gap = 1 / mpf(noise), mpf("0.06") * min(1, mpf(noise)), mpf("0.06")
        points = [k * step for k in range(-int(12 / step), int(12 / step) + 1)]
        weight = [mp.npdf(z) * step for z in points]
        ratio = [mp.exp(tau * z - tau * tau / 2) for z in points]
        centre = -mp.log(steps)
        turns = [centre + k * gap for k in range(-330, 140)]
        whole = [mp.fsum(w * mp.exp(-mp.exp(t) * x) for w, x in zip(weight, ratio, strict=True)) for t in turns]
        for power in (mpf("2.5"), mpf(9)):
            total = gap * mp.fsum(mp.exp(power * t) * one**steps for t, one in zip(turns, whole, strict=True))
            truth = total * mpf(steps) ** power / mp.gamma(power)
            loss, chance = law(noise, steps)
            found = math.fsum((chance * np.exp(-float(power) * loss)).tolist())
            assert found == pytest.approx(float(truth), rel=1e-13 + 1e-15 * steps)


@pytest.mark.parametrize("steps", [2, 3, 5, 12, 97, 640])
def test_whole_orders_are_moments_of_a_sum(steps):
    noise = 1.1
    with mp.workdps(30):
        power = [mp.exp(k * (k - 1) / mpf(noise) ** 2 / 2) / mp.factorial(k) for k in range(9)]
        total = [mpf(1)] + [mpf(0)] * 8
        for _ in range(steps):
            total = [mp.fsum(total[j] * power[k - j] for j in range(k + 1)) for k in range(9)]
        truth = [mp.log(total[k] * mp.factorial(k) / mpf(steps) ** k) / (k - 1) for k in range(2, 9)]
    found = fa.rdp(fa.Gaussian(noise).allocation(steps), np.arange(2.0, 9.0), neighbors="remove")
    for one, other in zip(found, truth, strict=True):
        assert other <= one <= other * (1 + 1e-8)
    orders = np.array([2.5, 4.2, 7.9])
    loss, weight = law(noise, steps)
    below = [math.log(np.sum(weight * np.exp(a * loss))) / (a - 1) for a in orders.tolist()]
    above = fa.rdp(fa.Gaussian(noise).allocation(steps), orders, neighbors="remove")
    assert np.all(np.array(below) * (1 - 1e-9) <= above)


@pytest.mark.parametrize("steps", [2, 3])
def test_divergences_of_the_other_direction(steps):
    noise, points = 1.2, np.linspace(-11.0, 11.0, 241)
    density = np.exp(-0.5 * points**2) * (points[1] - points[0]) / math.sqrt(2 * math.pi)
    ratio = np.exp(points / noise - 0.5 / noise**2)
    mean = sum(np.meshgrid(*[ratio] * steps, indexing="ij")) / steps
    weight = math.prod(np.meshgrid(*[density] * steps, indexing="ij"))
    for order in (1.5, 2.0, 6.0):
        truth = math.log(np.sum(weight * mean ** (1.0 - order))) / (order - 1.0)
        found = float(fa.rdp(fa.Gaussian(noise).allocation(steps), order, neighbors="add"))
        assert truth * (1 - 1e-10) <= found <= truth * (1 + 1e-8)


@pytest.mark.parametrize(
    ("noise", "steps", "order"), [(0.7, 2, 32), (1.0, 10, 128), (0.5, 100, 1024), (2.0, 1000, 4096)]
)
def test_orders_beyond_the_lattice_are_not_below_the_truth(noise, steps, order):
    """The loss is a normal number of variance 1/(steps noise^2) and another one: at least the former's divergence."""
    found = fa.rdp(fa.Gaussian(noise).allocation(steps), order, neighbors="add")
    assert order / (2.0 * steps * noise**2) <= found <= order / (2.0 * noise**2) * (1.0 + 1e-12)


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 2**53), (1e4, 10**6), (100.0, 2**53 - 1), (1000.0, 10**6)])
def test_very_many_steps_are_bounded_at_once(noise, steps):
    found = fa.epsilon_bounds(fa.Gaussian(noise).allocation(steps) * 3, delta=1e-6)
    assert 0.0 <= found.lower <= found.upper <= fa.epsilon(fa.Gaussian(noise) * 3, delta=1e-6)


def test_the_mean_of_the_loss_is_inside_its_bounds():
    loss, weight = law(1.0, 30)
    lower, upper, _ = fa.privacy_loss(fa.Gaussian(1.0).allocation(30)).mean
    assert lower <= np.sum(weight * np.exp(loss) * loss) <= upper


def test_one_step_is_the_mechanism_itself():
    job = fa.Gaussian(1.3).allocation(1) * 7
    assert fa.epsilon(job, delta=1e-6) == fa.epsilon(fa.Gaussian(1.3) * 7, delta=1e-6)


def test_kept_bins_are_one_epoch_with_less_noise():
    kept = fa.Gaussian(2.0).allocation(steps=50, epochs=4, bins="persistent")
    one = fa.epsilon_bounds(kept, delta=1e-6)
    other = fa.epsilon_bounds(fa.Gaussian(1.0).allocation(steps=50), delta=1e-6)
    assert one.upper == pytest.approx(other.upper, rel=1e-9)
    assert one.upper > fa.epsilon(fa.Gaussian(2.0).allocation(steps=50) * 4, delta=1e-6) * 1.001


def profile(mu, epsilon):
    """Delta of a Gaussian."""
    side = [0.5 * math.erfc(x / math.sqrt(2.0)) for x in (epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu)]
    return max(0.0, side[0] - math.exp(epsilon) * side[1])


@pytest.mark.parametrize(("steps", "selected", "epochs"), [(4, 4, 1), (30, 4, 1), (30, 4, 9)])
def test_on_the_whole_data_set_a_record_contributes_as_often_as_it_takes_part(steps, selected, epochs):
    """Known steps are that many Gaussians, which are one with less noise."""
    bins = {"bins": "persistent", "epochs": epochs} if epochs > 1 else {}
    whole = fa.Gaussian(2.0).allocation(steps, selected=selected, **bins).unsampled()
    each = fa.Gaussian(2.0) * (selected * epochs)
    assert fa.epsilon(whole, delta=1e-5) == pytest.approx(fa.epsilon(each, delta=1e-5), rel=1e-12)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_beside_a_gaussian_it_is_the_mean_of_its_curve(direction):
    loss, weight = law(0.9, 30)
    if direction == "add":
        loss, weight = -loss, weight * np.exp(loss)
    epsilon, mu = 0.8, 0.4
    truth = sum(w * math.exp(x) * profile(mu, epsilon - x) for x, w in zip(loss.tolist(), weight.tolist(), strict=True))
    job = fa.Gaussian(0.9).allocation(30) + fa.Gaussian(1.0 / mu)
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors=direction)
    assert lower * (1 - 1e-9) <= truth <= upper * (1 + 1e-9)
    assert upper - lower < 1e-8 * upper


@settings(max_examples=20, deadline=None)
@given(
    noise=st.floats(0.5, 4.0),
    steps=st.integers(2, 200),
    epochs=st.integers(1, 20),
    other=st.sampled_from([fa.Laplace(4.0), fa.Gaussian(2.0).poisson(0.02), fa.DiscreteLaplace(4.0), fa.PureDP(0.1)]),
    count=st.integers(1, 30),
)
def test_beside_others_it_is_never_below_a_part(noise, steps, epochs, other, count):
    epoch = fa.Gaussian(noise).allocation(steps)
    both = fa.epsilon_bounds(epoch * epochs + other * count, delta=1e-5)
    parts = [fa.epsilon_bounds(one, delta=1e-5) for one in (epoch * epochs, other * count)]
    assert both.upper >= max(one.lower for one in parts)
    assert both.upper == fa.epsilon(other * count + epoch * epochs, delta=1e-5)
    assert all(one.lower <= one.upper for one in (both, *parts))


def test_fewer_steps_and_more_epochs_are_less_private():
    upper = [fa.epsilon(fa.Gaussian(1.0).allocation(steps) * 3, delta=1e-6) for steps in (1, 2, 3, 7, 50, 51, 400)]
    assert upper == sorted(upper, reverse=True)
    upper = [fa.epsilon(fa.Gaussian(1.0).allocation(50) * epochs, delta=1e-6) for epochs in (1, 2, 3, 10, 100)]
    assert upper == sorted(upper)


def test_it_is_not_always_better_than_poisson_sampling():
    whole = fa.epsilon_bounds(fa.Gaussian(0.41).allocation(12) * 200, delta=1e-5)
    assert whole.lower > fa.epsilon(fa.Gaussian(0.41).poisson(1 / 12) * 2400, delta=1e-5)


def test_what_no_lattice_holds_is_bounded_by_fewer_steps():
    found = fa.epsilon_bounds(fa.Gaussian(0.2).allocation(10**6), delta=1e-6)
    assert found.status != fa.Status.TIGHT
    assert found.upper <= fa.epsilon(fa.Gaussian(0.2), delta=1e-6)


def test_all_data_sets_of_a_tiny_instance():
    """Two steps, at most three records on a line: no pair of neighbours exceeds the bound, and one attains it."""
    noise, x = 1.0, np.linspace(-9.0, 11.0, 401)
    cell = (x[1] - x[0]) ** 2
    one = {v: np.exp(-0.5 * (x - v) ** 2) / math.sqrt(2 * math.pi) for v in np.arange(-3.0, 3.5, 0.5)}

    def output(data):
        total = np.zeros((x.size, x.size))
        for bins in itertools.product((0, 1), repeat=len(data)):
            sums = [sum(v for v, at in zip(data, bins, strict=True) if at == step) for step in (0, 1)]
            total += np.outer(one[sums[0]], one[sums[1]]) / 2 ** len(data)
        return total

    worst = {("remove", e): 0.0 for e in (0.3, 1.0)} | {("add", e): 0.0 for e in (0.3, 1.0)}
    for others in ((), (1.0,), (-1.0, 1.0), (0.5, 1.0), (1.0, 1.0)):
        for record in (-1.0, 0.5, 1.0):
            pair = output((*others, record)), output(others)
            for (direction, epsilon), found in worst.items():
                p, q = pair if direction == "remove" else pair[::-1]
                delta = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * cell
                worst[direction, epsilon] = max(found, delta)
    for (direction, epsilon), found in worst.items():
        assert holds(bounds(noise, 2, 1, epsilon, direction), found, 2e-3, 2e-3)  # of a sum over 401 points an axis


def test_the_real_sampler_sees_a_noise_that_is_halved():
    """An attack on drawn runs of 20 steps and 5 epochs: what it tells is below the bound, and most of it."""
    noise, steps, epochs, n, epsilon = 1.0, 20, 5, 200_000, 1.0
    rng = np.random.default_rng(11)

    def loss(is_in, sigma):
        total = np.zeros(n)
        for _ in range(epochs):
            sums = sigma * rng.standard_normal((n, steps))
            if is_in:
                sums[np.arange(n), rng.integers(steps, size=n)] += 1.0
            total += np.log(np.exp(sums / sigma**2 - 0.5 / sigma**2).mean(axis=1))
        return total

    for sigma, is_inside in ((noise, True), (0.5 * noise, False)):
        told = np.mean(loss(True, sigma) > epsilon) - math.exp(epsilon) * np.mean(loss(False, sigma) > epsilon)
        off = 5.0 * math.exp(epsilon) / math.sqrt(n)
        lower, upper, _ = bounds(noise, steps, epochs, epsilon, "remove")
        assert (told <= upper + off) == is_inside
        if is_inside:
            assert told >= lower - off


def test_arrays_are_cell_by_cell():
    noise, steps = np.array([0.8, 1.5]), np.array([[10], [40]])
    found = fa.epsilon(fa.Gaussian(noise).allocation(steps) * 3, delta=1e-6)
    assert found.shape == (2, 2)
    assert found[1, 0] == fa.epsilon(fa.Gaussian(0.8).allocation(40) * 3, delta=1e-6)


def test_dp_sgd_takes_it():
    run = {"records": 1000, "batch_size": 30, "epochs": 4, "sampling": "allocation", "delta": 1e-6}
    job = fa.Gaussian(1.2).allocation(33) * 4
    assert fa.dpsgd.epsilon(noise_multiplier=1.2, **run) == fa.epsilon(job, delta=1e-6)
    noise = fa.dpsgd.noise_multiplier(epsilon=2.0, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, **run) == pytest.approx(2.0, rel=1e-6)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, **run) <= 2.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.Laplace(1.0).allocation(3), "known for Gaussian noise only"),
        (lambda: fa.Gaussian(1.0).allocation(0), "steps = 0"),
        (lambda: fa.Gaussian(1.0).allocation(2.5), "steps = 2.5"),
        (lambda: fa.Gaussian(1.0).allocation(3, epochs=2), "multiply"),
        (lambda: fa.Gaussian(1.0).allocation(3, bins="keep"), "bins = 'keep'"),
        (lambda: fa.Gaussian(1.0).allocation(3).group(2), "may share a step"),
        (lambda: fa.Gaussian(1.0).allocation(3).poisson(0.1), "drawn already"),
        (lambda: fa.epsilon(fa.Gaussian(1.0).allocation(3), delta=1e-5, neighbors="replace_one"), "not supported"),
        (lambda: fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.1, steps=3, delta=1e-5, sampling="allocation"),
         "give epochs, not steps"),
        (lambda: fa.dpsgd.steps(epsilon=1.0, noise_multiplier=1.0, delta=1e-5, sampling="allocation", records=9,
                                batch_size=3, epochs=2), "epochs"),
    ],
)  # fmt: skip
def test_refusals(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


@pytest.mark.parametrize(("noise", "steps", "epochs"), [(0.3, 97, 1), (0.25, 12, 3), (0.15, 500, 2), (0.13, 40, 1)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_little_noise_is_certified(noise, steps, epochs, direction):
    """As of bins that are kept for many epochs: noise 1 for ten of them is 0.316."""
    job = fa.Gaussian(noise).allocation(steps) * epochs
    for delta in (1e-3, 1e-6, 1e-12):
        lower, upper, status = fa.epsilon_bounds(job, delta=delta, neighbors=direction)
        assert status == fa.Status.TIGHT
        assert upper - lower <= 1e-8 * upper


@pytest.mark.parametrize(("noise", "steps", "epsilon"), [(0.3, 97, 10.0), (0.1826, 97, 20.0), (0.25, 12, 10.0)])
def test_little_noise_agrees_with_what_is_drawn(noise, steps, epsilon):
    rng = np.random.default_rng(5)
    z = rng.standard_normal((200_000, steps))
    z[:, 0] += 1 / noise
    a = z / noise - 0.5 / noise**2
    loss = np.logaddexp.reduce(a, axis=1) - math.log(steps)
    seen = np.maximum(-np.expm1(epsilon - loss), 0.0)
    lower, upper, _ = fa.delta_bounds(fa.Gaussian(noise).allocation(steps), epsilon=epsilon, neighbors="remove")
    off = 5.0 * seen.std() / math.sqrt(seen.size)
    assert lower - off <= seen.mean() <= upper + off
    assert off < 0.5 * upper


def test_pure_guarantees_are_answered_for_arrays_of_steps():
    assert fa.Gaussian(1.0).allocation([2, 3]).pure_epsilon("add") == math.inf
    assert fa.Gaussian(math.inf).allocation([2, 3]).pure_epsilon("add") == 0.0
    assert fa.Gaussian(1.0).fixed_size(0, 10).pure_epsilon("add") == 0.0


@pytest.mark.parametrize("steps", [4, 10])
def test_noise_that_has_no_lattice_is_bounded_from_above_alone(steps):
    """Less noise stands for it; total variation is at most half the root of the second moment, less 1."""
    found = fa.delta_bounds(fa.Gaussian(3e4).allocation(steps), epsilon=0.0)
    assert found.lower <= 0.5 * math.sqrt(math.expm1(3e4**-2.0) / steps)
    assert found.upper >= 0.4 * math.sqrt(math.expm1(3e4**-2.0) / steps) * 0.9
    assert found.status != fa.Status.TIGHT


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
def test_divergences_between_whole_orders_are_not_those_below(noise, steps):
    """They rise with the order: at least that of order 2, which has a closed form."""
    second = math.log1p(math.expm1(noise**-2.0) / steps)
    rising = [second, *(fa.rdp(fa.Gaussian(noise).allocation(steps), order) for order in (2.25, 2.5, 2.9))]
    assert all(one < other for one, other in itertools.pairwise(rising))
