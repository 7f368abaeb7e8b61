"""Jobs of losses that are data, atoms and densities: against residues and binomial sums in many digits, and a grid."""

import itertools
import math

import numpy as np
import pytest
from mpmath import binomial, exp, expm1, mp, mpf

import fastacct as fa
from fastacct import Status


def laplace_sum(kinds, epsilon):
    """Delta of Laplace noise, [(scale, count)], from the residues at u = 0, 1/2, 1 of every combination of ends.

    M(u) = ((u e^(u/b - 1/b...))): with w = 2u - 1, the log-moment of one release of scale b is
    (u e^((u - 1)/b) + (u - 1) e^(-u/b))/w, so that a product is a sum of exponentials over powers of w.
    """
    n = sum(count for _, count in kinds)
    total = mpf(0)
    for ups in itertools.product(*[range(count + 1) for _, count in kinds]):
        place = sum((2 * k - count) / mpf(scale) for k, (scale, count) in zip(ups, kinds, strict=True))
        if place <= epsilon:
            continue
        up, weight = sum(ups), mpf(1)
        for k, (scale, count) in zip(ups, kinds, strict=True):
            weight *= binomial(count, k) * exp(-mpf(k) / scale)
        away = place - epsilon
        # residue at 1/2 of u^(up-1) (u-1)^(n-up-1) e^(u away)/(2u-1)^n, x = u - 1/2
        first, second = _powers(mpf(1) / 2, up - 1, n), _powers(-mpf(1) / 2, n - up - 1, n)
        series = [sum(first[i] * second[m - i] for i in range(m + 1)) for m in range(n)]
        term = sum(away**j / mp.factorial(j) * series[n - 1 - j] for j in range(n))
        term *= mpf(2) ** -n * exp(place / 2 + mpf(epsilon) / 2)
        if up == n:
            term += exp(place)
        if up == 0:
            term += mpf(-1) ** (n - 1) / mpf(-1) ** n * exp(mpf(epsilon))
        total += weight * term
    return total


def _powers(c, power, n):
    """Coefficients of (c + x)^power up to x^(n-1)."""
    out = [mpf(c) ** power]
    for k in range(1, n):
        out.append(out[-1] * (power - k + 1) / k / c)
    return out


def with_responses(size, times, kinds, epsilon):
    """The same beside randomised responses of this epsilon."""
    true = 1 / (1 + exp(-mpf(size)))
    return sum(
        binomial(times, k)
        * (1 - true) ** k
        * true ** (times - k)
        * exp((2 * k - times) * mpf(size))
        * laplace_sum(kinds, epsilon - (2 * k - times) * mpf(size))
        for k in range(times + 1)
    )


def inside(bounds, truth, width):
    """Whether the truth is between bounds, and these are near each other."""
    assert bounds.lower <= truth * (1 + mpf(2) ** -50)
    assert truth <= bounds.upper * (1 + mpf(2) ** -50)
    assert bounds.upper - bounds.lower <= width * bounds.upper


RNG = np.random.default_rng(20)
SUMS = []
for _ in range(24):
    some = [
        (float(RNG.choice([0.5, 1.0, 2.0, 5.0, 10.0])), int(RNG.choice([1, 2, 3, 5, 8])))
        for _ in range(RNG.integers(1, 3))
    ]
    top = sum(count / scale for scale, count in some)
    SUMS.append((tuple(some), float(RNG.choice([0.0, 0.1, 0.25, 0.5, 0.9, 0.999])) * top))


@pytest.mark.parametrize(("kinds", "epsilon"), SUMS)
def test_sums_of_laplace_noises_against_residues(kinds, epsilon):
    mp.dps = 60
    job = sum((fa.Laplace(scale) * count for scale, count in kinds), fa.Laplace(math.inf) * 0)
    inside(fa.delta_bounds(job, epsilon=epsilon), laplace_sum(kinds, epsilon), 1e-8)


@pytest.mark.parametrize(
    ("scale", "count", "epsilon"), [(1.0, 10, 4.0), (5.0, 40, 2.0), (5.0, 40, 2.0000001), (2.0, 1, 0.3)]
)
def test_places_at_epsilon_and_next_to_it(scale, count, epsilon):
    """Ten releases have an atom at exactly 4."""
    mp.dps = 80
    job = fa.Laplace(scale) * count
    truth = laplace_sum([(scale, count)], epsilon)
    inside(fa.delta_bounds(job, epsilon=epsilon), truth, 1e-10)
    back = fa.epsilon_bounds(job, delta=float(truth))
    assert back.lower <= epsilon * (1 + 1e-12)
    assert back.upper >= epsilon * (1 - 1e-12)
    assert back.upper - back.lower < 1e-9 * back.upper


@pytest.mark.parametrize(("size", "times", "epsilon"), [(0.1, 60, 1.0), (0.1, 60, 5.0), (0.5, 12, 3.0), (1.7, 3, 6.0)])
def test_responses_beside_laplace_noise(size, times, epsilon):
    mp.dps = 60
    job = fa.PureDP(size) * times + fa.Laplace(1.0) * 2
    inside(fa.delta_bounds(job, epsilon=epsilon), with_responses(size, times, [(1.0, 2)], epsilon), 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("size", "lost", "times"), [(0.1, 1e-4, 50), (0.5, 0.01, 7), (2.0, 1e-9, 3)])
def test_infinite_losses_are_the_published_sum(size, lost, times, epsilon):
    """Kairouz, Oh, Viswanath 2015: 1 - (1 - d)^n (1 - what n responses leave)."""
    mp.dps = 40
    true, rest = 1 / (1 + exp(-mpf(size))), mpf(0)
    for k in range(times + 1):
        place = (2 * k - times) * mpf(size)
        if place > epsilon:
            rest += binomial(times, k) * true**k * (1 - true) ** (times - k) * -expm1(epsilon - place)
    whole = (1 - mpf(lost)) ** times
    inside(fa.delta_bounds(fa.ApproxDP(size, lost) * times, epsilon=epsilon), 1 - whole + whole * rest, 1e-9)


def test_infinite_losses_beside_a_mixture_have_two_directions():
    """Of one of them alone both directions are the same."""
    mixture = fa.GaussianMixture(1.0, [(1.0, 0.2)], [(0.95, 0.0), (0.05, -1.0)])  # "add" is larger
    job = fa.TruncatedLaplace(2.0, 40.0) * 2 + mixture * 30
    one, other, both = (fa.epsilon(job, delta=1e-3, neighbors=way) for way in ("add", "remove", "add_remove"))
    assert other < one == both


TABLES = fa.from_pmf([0.8, 0.2], [0.02, 0.98]) * 2, fa.from_pmf([1.0, 8e-22], [0.08, 0.92]) * 5
FAR = [
    (fa.PureDP(31.0).poisson(1e-9) * 1, 1e-10, "remove", 10.1714118964099),
    (fa.PureDP(31.0).poisson(1e-6) * 8, 1e-40, "remove", 103.106931573036),
    (fa.PureDP(200.0).poisson(0.3) * 12 + TABLES[0], 1e-9, "remove", 2392.927140806264),
    (fa.PureDP(10.0).poisson(0.9) * 20, 0.9999, "remove", 98.1296739088),
    (fa.PureDP(12.0).poisson(0.9) * 20, 0.9999, "remove", 122.132638272),
    (TABLES[1], 0.999, "add", 87.7317075417),
    (fa.PureDP(100.0).poisson(0.999999) * 20, 0.999, "remove", 1993.072042207),
]


@pytest.mark.parametrize(("job", "delta", "way", "true"), FAR, ids=str)
def test_large_losses_and_large_deltas(job, delta, way, true):
    """By enumeration in 60 digits: losses above 30 at small rates, tables that underflow, lines next to 1."""
    found = fa.epsilon_bounds(job, delta=delta, neighbors=way)
    assert found.lower <= true * (1.0 + 1e-12)
    assert true * (1.0 - 1e-12) <= found.upper
    assert found.status == Status.TIGHT


def test_infinite_losses_with_nearly_all_of_the_mass():
    """By enumeration in 80 digits: what the target leaves of 1 is a fortieth of what infinite losses leave."""
    p, q = [0.9999685388627562, 3.1461137243885015e-05, 1.3245057714558204e-34], [0.0, 3.901668933036251e-12]
    job = fa.PureDP(3.0).poisson(0.01) * 8 + fa.from_pmf(p, [*q, 0.9999999999960983]) * 3
    found = fa.epsilon_bounds(job, delta=0.9999999999999992, neighbors="remove")
    assert found.lower <= 44.0179597477236 <= found.upper
    assert found.upper - found.lower <= 1e-8


@pytest.mark.parametrize(("count", "delta"), [(331, 4e-5), (1000, 1e-3), (3000, 1e-9)])
def test_many_releases_of_little_noise(count, delta):
    """Where no ray is narrow, the line that ends is."""
    assert fa.epsilon_bounds(fa.Laplace(0.8) * count, delta=delta).status == Status.TIGHT


JOBS = [
    fa.Laplace(2.0).poisson(0.1) * 20,
    fa.Laplace(1.0).poisson(0.3) * 3,
    fa.Laplace(1.0) * 3 + fa.Gaussian(1.0).poisson(0.01) * 1000,
    fa.Laplace(3.0).poisson(0.2) * 30 + fa.PureDP(0.2) * 5 + fa.Gaussian(4.0) * 2,
    fa.Laplace(5.0) * 10 + fa.Gaussian(0.7).poisson(0.02) * 100 + fa.Laplace(2.0).poisson(0.05) * 100,
    fa.DiscreteGaussian(3.0) * 20 + fa.Gaussian(5.0),
    fa.DiscreteGaussian(3.0) * 12 + fa.PureDP(2 / 9),
    fa.TruncatedLaplace(2.0, 30.0) * 5,
    fa.ApproxDP(0.2, 1e-5).poisson(0.3) * 10 + fa.Gaussian(3.0).poisson(0.1) * 30,
    fa.RandomizedResponse(0.8, 5) * 20,
]


@pytest.mark.parametrize("job", JOBS, ids=repr)
def test_bounds_are_within_those_of_a_grid(job):
    ways = ["replace_one"] if any(type(one).__name__ == "RandomizedResponse" for one, _ in job) else ["remove", "add"]
    for way in ways:
        for delta in (1e-3, 1e-8):
            line = fa.epsilon_bounds(job, delta=delta, neighbors=way)
            grid = fa.epsilon_bounds(job, delta=delta, neighbors=way, accountant=fa.PLD())
            assert line.lower <= grid.upper * (1 + 1e-15)
            assert line.upper >= grid.lower * (1 - 1e-15)
            assert line.status == fa.Status.TIGHT or line.lower == math.inf  # more than delta is lost
            at = fa.delta_bounds(job, epsilon=line.upper, neighbors=way)
            assert at.lower <= delta * (1 + 1e-12) or line.lower == math.inf


@pytest.mark.parametrize("count", [10**3, 10**6, 10**9])
def test_very_many_releases_are_nearly_gaussian(count):
    job = fa.Laplace(5.0) * count
    lower, _, status = fa.epsilon_bounds(job, delta=1e-6, neighbors="remove")
    assert status == fa.Status.TIGHT
    x = np.linspace(-0.2, 0.2, 200_001)
    mass = 0.25 * np.exp(0.5 * (x - 0.2)) * (x[1] - x[0])  # of P, the density; the atoms beside it
    mean = np.sum(mass * x) + 0.5 * 0.2 - 0.5 * math.exp(-0.2) * 0.2
    second = np.sum(mass * x * x) + 0.04 * (0.5 + 0.5 * math.exp(-0.2))
    gauss = fa.epsilon(fa.Gaussian(1.0 / math.sqrt(count * (second - mean * mean))), delta=1e-6)
    mu2 = count * (second - mean * mean)
    assert lower == pytest.approx(gauss + count * mean - 0.5 * mu2, rel=30.0 / math.sqrt(count), abs=0.0)


def test_answers_do_not_depend_on_other_targets_or_cells():
    job = fa.Laplace(5.0) * 100
    deltas = [1e-3, 1e-9, 1e-5]
    assert fa.epsilon(job, delta=deltas).tolist() == [fa.epsilon(job, delta=one) for one in deltas]
    noise = np.array([2.0, 5.0, 9.0])
    alone = [fa.epsilon(fa.Laplace(one) * 7 + fa.Gaussian(3.0), delta=1e-5) for one in noise.tolist()]
    assert fa.epsilon(fa.Laplace(noise) * 7 + fa.Gaussian(3.0), delta=1e-5).tolist() == alone


def test_the_pair_of_the_other_direction_is_the_mirror_image():
    """Laplace noise is its own; of its sample remove is the larger one, and both are one total variation at 0."""
    job = fa.Laplace(2.0).poisson(0.2) * 15
    remove, add = (fa.delta_bounds(job, epsilon=[0.0, 0.5], neighbors=way) for way in ("remove", "add"))
    assert remove.lower[0] <= add.upper[0]
    assert add.lower[0] <= remove.upper[0]
    assert add.upper[1] < remove.lower[1]
    same = [fa.epsilon(fa.Laplace(2.0) * 9, delta=1e-4, neighbors=way) for way in ("remove", "add")]
    assert same[0] == same[1]


def test_places_that_count_as_at_epsilon_are_paid():
    """A loss 1e-15 above epsilon: delta is a twentieth of what moving it there may change."""
    job = fa.RandomizedResponse(0.0001523151910061995, 10)
    lower, upper, _ = fa.delta_bounds(job, epsilon=0.00013708262786583857, neighbors="zero_out")
    assert lower <= 1.0522889164439406e-16 <= upper
    assert lower >= 1e-16


def responses(epsilon, count):
    """Sums of the losses of so many responses, and their chances under P, in many digits."""
    p = 1 / (1 + exp(-mpf(epsilon)))
    return [
        ((2 * k - count) * mpf(epsilon), binomial(count, k) * p**k * (1 - p) ** (count - k)) for k in range(count + 1)
    ]


@pytest.mark.parametrize(
    "kinds", [[(0.1, 100)], [(1.0, 20)], [(0.01, 1000)], [(0.1, 5), (0.1414213562373095, 4)], [(3.0, 4), (0.36, 7)]]
)
def test_epsilons_next_to_places_of_the_sum(kinds):
    """Up to 1e-9 of a lattice before a place the line took the next one: deltas were off by as much and more."""
    job = sum((fa.PureDP(epsilon) * count for epsilon, count in kinds), fa.Process())
    with mp.workdps(50):
        sums = [(mpf(0), mpf(1))]
        for kind in kinds:
            sums = [(a + b, x * y) for a, x in sums for b, y in responses(*kind)]
        places = sorted({float(loss) for loss, chance in sums if loss > 0 and chance > 1e-290})
        for place in (places[len(places) // 4], places[len(places) // 2], places[-2], places[-1]):
            for off in (1e-9, 3e-10, 1e-11, 1e-13, 1e-14, 2e-16, 0.0):
                for epsilon in {place * (1.0 - off), place * (1.0 + off)}:
                    true = sum((x * -expm1(mpf(epsilon) - loss) for loss, x in sums if loss > epsilon), mpf(0))
                    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon)
                    assert lower <= true <= upper


def many_laplaces(scales, epsilon, spacing):
    """Delta of one release of Laplace noise of each scale: losses split onto a lattice with their means, by FFT."""
    size = 1 << math.ceil(math.log2(2.0 * sum(1.0 / b for b in scales) / spacing + 10.0))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    x = (np.arange(20_000) + 0.5) / 20_000
    for b in scales:
        loss = np.concatenate([[1.0 / b, -1.0 / b], (1.0 - 2.0 * x) / b]) / spacing
        mass = np.concatenate([[0.5, 0.5 * math.exp(-1.0 / b)], np.exp(-x / b) / (2.0 * b) / x.size])
        place = np.floor(loss).astype(int)
        one = np.zeros(size)
        np.add.at(one, place % size, mass * (1.0 - loss + place))
        np.add.at(one, (place + 1) % size, mass * (loss - place))
        spectrum *= np.fft.rfft(one)
    losses = ((np.arange(size) + size // 2) % size - size // 2) * spacing
    return float(np.sum(np.fft.irfft(spectrum, size) * np.maximum(0.0, -np.expm1(epsilon - losses))))


@pytest.mark.parametrize(
    ("scales", "epsilon"), [(np.linspace(2.0, 20.0, 200), 8.0), (np.geomspace(1.5, 15.0, 100), 6.0)]
)
def test_very_many_kinds_of_ends(scales, epsilon):
    """What the line leaves out is bounded on average; the lattice's error falls as the square of its spacing."""
    job = sum((fa.Laplace(float(b)) for b in scales), fa.Process())
    lower, upper, status = fa.log_delta_bounds(job, epsilon=epsilon)
    coarse, fine = (math.log(many_laplaces(scales, epsilon, spacing)) for spacing in (1e-4, 5e-5))
    assert status == Status.TIGHT
    assert lower <= fine + (fine - coarse) / 3.0 <= upper
    found = fa.epsilon_bounds(job, delta=math.exp(upper))
    assert found.status == Status.TIGHT
    assert found.lower <= epsilon <= found.upper * (1.0 + 1e-6)
