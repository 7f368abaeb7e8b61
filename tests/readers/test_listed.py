"""Losses whose sums are listed: few atoms and lattices, against sums in many digits."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.core.bounds import Found
from fastacct.losses.loss import Atoms, Part
from fastacct.readers import listed
from fastacct.readers.contour import Contour
from fastacct.readers.listed import Listed
from fastacct.readers.nearby import EPSILON


@pytest.mark.parametrize(
    ("job", "delta", "truth"),
    [
        (fa.PureDP(0.1) * 100, 1e-6, 4.774567588107986),  # sums of randomised responses, between lattice points
        (fa.PureDP(0.05) * 400, 1e-5, 4.359702992618818),
    ],
)
def test_few_losses_are_listed_and_not_put_on_a_grid(job, delta, truth):
    lower, upper, status = fa.epsilon_bounds(job, delta=delta)
    assert lower <= truth * (1.0 + 1e-15)
    assert truth * (1.0 - 1e-15) <= upper <= lower * (1.0 + 1e-11)
    assert status == fa.Status.TIGHT


@pytest.mark.parametrize("count", [1, 2, 7, 300, 10_000])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 1.1, 7.0])
def test_binomial_sums_against_forty_digits(count, epsilon):
    mp.dps = 40
    e, start = mpf(0.07), mpf(epsilon)
    truth = mpf(0)
    p = mp.e**e / (1 + mp.e**e)
    mass = (1 - p) ** count
    for k in range(count + 1):
        loss = (2 * k - count) * e
        if loss > start:
            truth += mass * (1 - mp.e ** (start - loss))
        mass *= mpf(count - k) / (k + 1) * p / (1 - p)
    lower, upper, _ = fa.delta_bounds(fa.PureDP(0.07) * count, epsilon=epsilon)
    if truth > 1e-250:
        assert lower <= truth <= upper
        assert upper <= lower * (1.0 + 1e-7)


@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("epsilon", [0.0, 1.3, 4.0])
def test_sums_on_a_lattice_against_thirty_digits(count, epsilon):
    """Discrete Gaussian noise of scale 1.5: losses (2 k + 1)/4.5, which no grid of doubles hits."""
    mp.dps = 30
    reach = range(-30, 31)
    weight = [mp.exp(-mpf(k * k) / (2 * mpf("2.25"))) for k in reach]
    total = mp.fsum(weight)
    one = [w / total for w in weight]
    sums = [mpf(1)]
    for _ in range(count):
        out = [mpf(0)] * (len(sums) + len(one) - 1)
        for i, a in enumerate(sums):
            for j, b in enumerate(one):
                out[i + j] += a * b
        sums = out
    truth = mpf(0)
    for place, mass in enumerate(sums):
        loss = (2 * mpf(place - 30 * count) + count) / mpf("4.5")
        if loss > epsilon:
            truth += mass * -mp.expm1(epsilon - loss)
    lower, upper, status = fa.delta_bounds(fa.DiscreteGaussian(1.5) * count, epsilon=epsilon)
    assert lower <= truth <= upper <= lower * (1.0 + 1e-9)
    assert status == fa.Status.TIGHT


@pytest.mark.parametrize("count", [40, 100, 1000])
def test_many_sums_on_a_lattice_agree_with_the_grid_of_losses(count):
    """Past what is listed or convolved directly the discretised losses answer; both enclose the truth."""
    job, epsilon = fa.DiscreteGaussian(5.0) * count, 0.1 * count**0.5
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon)
    gaussian = fa.delta(fa.Gaussian(5.0) * count, epsilon=epsilon)  # nearly the same at this scale
    assert lower <= upper <= lower * (1.0 + 2e-4)
    assert abs(upper / gaussian - 1.0) < 0.01


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(("infinite", "off"), [(0.0, 1e-3), (0.1, 0.0), (0.02, -1e-3), (0.0, -1e-11)])
def test_sums_of_three_losses_are_all_sums(count, infinite, off):
    """Some of the mass at an infinite loss, and all losses told a little too small, or too large."""
    loss, mass = np.array([-1.0, 0.3, 0.7]), np.array([0.25, 0.5, 0.25]) * (1.0 - infinite)
    side = Atoms(loss - off * (1.0 - 1e-9), np.full(3, abs(off)), mass, infinite=infinite)
    reader = Listed.of([Part(side, side, count)])
    for epsilon in (0.0, 0.2, 1.5):
        sums = itertools.product(zip(loss.tolist(), mass.tolist(), strict=True), repeat=count)
        rest = (
            math.prod(m for _, m in one) * -math.expm1(epsilon - total)
            for one in sums
            if (total := math.fsum(x for x, _ in one)) > epsilon
        )
        truth = 1.0 - (1.0 - infinite) ** count + math.fsum(rest)
        found = reader.delta(epsilon)
        assert found.lower <= truth * (1.0 + 1e-14)
        assert truth * (1.0 - 1e-14) <= found.upper
        assert found.upper - found.lower <= 2.1 * count * abs(off) + 1e-12


@pytest.mark.parametrize("size", [41, 90, 160])
def test_three_releases_of_many_losses_are_listed_with_all_their_rounding(size):
    """Against all ordered triples in 64 bits."""
    rng = np.random.default_rng(size)
    mass, loss = rng.dirichlet(np.ones(size)), rng.normal(0.0, 2.0, size)
    side = Atoms(loss, np.zeros(size), mass)
    reader = Listed.of([Part(side, side, 3)])
    many, chance = np.longdouble(loss), np.longdouble(mass)
    sums = (many[:, None, None] + many[:, None] + many).ravel()
    product = (chance[:, None, None] * chance[:, None] * chance).ravel()
    for epsilon in (0.0, 1.5, 6.0):
        truth = (product * -np.expm1(np.minimum(epsilon - sums, 0.0))).sum()
        found = reader.delta(epsilon)
        assert found.lower <= truth <= found.upper <= found.lower * (1.0 + 1e-11)


@pytest.mark.parametrize("counts", [(4, 1), (2, 3), (1, 2)])
def test_sums_of_two_kinds_are_read_from_two_halves(counts):
    """Against all ordered sums in 64 bits, with infinite losses, and losses hundreds apart."""
    rng = np.random.default_rng(sum(counts))
    sums, product, parts = np.zeros(1, np.longdouble), np.ones(1, np.longdouble), []
    for count, spread in zip(counts, (2.0, 400.0), strict=True):
        loss, mass = rng.normal(0.0, spread, 7), 0.99 * rng.dirichlet(np.full(7, 0.3))
        side = Atoms(loss, np.zeros(7), mass, infinite=0.01)
        parts.append(Part(side, side, count))
        for _ in range(count):
            sums = np.add.outer(sums, np.longdouble(loss)).ravel()
            product = np.multiply.outer(product, np.longdouble(mass)).ravel()
    reader, lost = Listed.of(parts), 1.0 - np.longdouble(0.99) ** sum(counts)
    for epsilon in (0.0, 1.5, 6.0, 300.0, float(np.sort(sums)[-2])):
        truth = lost + (product * -np.expm1(np.minimum(epsilon - sums, 0.0))).sum()
        found = reader.delta(epsilon)
        assert found.lower <= truth * (1.0 + 1e-16)
        assert truth * (1.0 - 1e-16) <= found.upper <= found.lower * (1.0 + 1e-11)


def test_losses_of_a_wide_release_are_summed_over_stretches():
    """Exponentials of losses 600 apart are no normal numbers together."""
    loss, mass = np.linspace(1500.0, 0.0, 3000), np.full(3000, 1.0 / 3000)
    side = Atoms(loss, np.zeros(3000), mass)
    for epsilon in (0.1, 600.1, 899.7, 1499.9):
        truth = (np.longdouble(mass) * -np.expm1(np.minimum(epsilon - np.longdouble(loss), 0.0))).sum()
        found = Listed.of([Part(side, side, 1)]).delta(epsilon)
        assert found.lower <= truth <= found.upper <= found.lower * (1.0 + 1e-9)


@pytest.mark.parametrize("delta", [1e-4, 1e-9, 1e-19])
def test_losses_that_are_hardly_ever_drawn_are_left_out_where_they_do_not_matter(delta):
    """Against all sums in 64 bits; of the smallest delta all sums matter, which are too many to be listed."""
    mass = np.exp(-0.5 * (np.arange(-30, 31.0) / 1.4) ** 2)
    loss, mass, asked = np.arange(-30, 31.0) * 0.4987 + 0.1 * np.sin(np.arange(61.0)), mass / mass.sum(), []
    side = Atoms(loss, np.zeros(61), mass)

    class Instead:
        def epsilon(self, target):
            asked.append(target)
            return Found(0.0, math.inf, fa.Status.NOT_MET)

    found = Listed.of([Part(side, side, 6)], Instead).epsilon(delta)
    assert bool(asked) == (delta < 1e-18)
    if not asked:
        half = (
            np.add.outer(np.add.outer(loss, loss), loss).ravel(),
            np.multiply.outer(np.outer(mass, mass), mass).ravel(),
        )
        order = np.argsort(-half[0])
        sums, chance = (column[order][half[1][order] > 1e-22] for column in half)
        for epsilon, is_above in ((found.lower, True), (found.upper, False)):
            at = np.searchsorted(-sums, sums - epsilon)
            p, q = (np.append(0.0, np.cumsum(np.longdouble(x))) for x in (chance, chance * np.exp(-sums)))
            truth = float((chance * (p[at] - np.exp(epsilon - sums) * q[at])).sum())
            assert truth * (1.0 + 1e-6) >= delta if is_above else truth * (1.0 - 1e-6) <= delta
        assert found.upper <= found.lower * (1.0 + 1e-9)


@pytest.mark.parametrize(("size", "count"), [(1, 10**15), (2, 2**20), (19, 10**6), (10**4, 10**9), (92, 6)])
def test_it_is_known_at_once_that_sums_are_too_many(size, count):
    side = Atoms(np.arange(size, dtype=np.float64), np.zeros(size), np.full(size, 1.0 / size))
    assert Listed.of([Part(side, side, count)]) is None


def test_where_epsilon_is_a_list_sees_at_once(monkeypatch):
    """Few deltas are asked, and both ends are next to each other."""
    rng, asked = np.random.default_rng(4), []
    p, q = rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40))
    delta_of = listed._Sums._read
    monkeypatch.setattr(listed._Sums, "_read", lambda sums, at: asked.append(at) or delta_of(sums, at))
    for count in (1, 2, 3):
        for delta in (1e-5, 1e-3, 0.02):
            asked.clear()
            lower, upper, _ = fa.epsilon_bounds(fa.from_pmf(p, q) * count, delta=delta, neighbors="remove")
            assert len(asked) <= 2 * 14
            assert lower <= upper <= lower * (1.0 + 1e-11)


NOISE = fa.Gaussian(0.4).poisson(3e-5) * 90


@pytest.mark.parametrize("few", [fa.PureDP(0.28) * 2, fa.ApproxDP(0.5, 1e-6) * 3, fa.from_pmf((0.2, 0.8), (0.3, 0.7))])
@pytest.mark.parametrize("relation", ["remove", "add", "add_remove"])
def test_few_losses_beside_rare_samples_are_listed(few, relation):
    """A grid took seconds, and was 1e-4 wide: a line alone does not decay where hardly any step draws the record."""
    job, asked = few + NOISE, {"neighbors": relation, "accountant": fa.PLD(tolerance=1e-4)}
    for target in (3e-2, 2e-4, 3e-5):
        lower, upper, status = fa.epsilon_bounds(job, delta=target, neighbors=relation)
        assert status == fa.Status.TIGHT
        other = fa.epsilon_bounds(job, delta=target, **asked)
        assert lower <= other.upper
        assert other.lower <= upper
    for target in (0.0, 0.1, 0.57):
        lower, upper, status = fa.delta_bounds(job, epsilon=target, neighbors=relation)
        assert status == fa.Status.TIGHT
        other = fa.delta_bounds(job, epsilon=target, **asked)
        assert lower <= other.upper
        assert other.lower <= upper


def test_sums_beside_noise_against_deltas_of_the_noise():
    e = 0.28
    p = math.exp(e) / (1.0 + math.exp(e))
    sums = {2 * e: p * p, 0.0: 2.0 * p * (1.0 - p), -2 * e: (1.0 - p) ** 2}
    for epsilon in (0.3, 0.56, 0.9):
        exact = sum(
            mass * fa.delta(NOISE, epsilon=epsilon - loss, neighbors="remove")
            if epsilon >= loss
            else mass
            * (
                math.exp(epsilon - loss) * fa.delta(NOISE, epsilon=loss - epsilon, neighbors="add")
                - math.expm1(epsilon - loss)
            )
            for loss, mass in sums.items()
        )
        lower, upper, _ = fa.delta_bounds(fa.PureDP(e) * 2 + NOISE, epsilon=epsilon, neighbors="remove")
        assert lower * (1.0 - 1e-9) <= exact <= upper * (1.0 + 1e-9)
        assert upper <= lower * (1.0 + 1e-8)


def test_what_is_asked_beside_sums_is_little(monkeypatch):
    """Far out a line gives up after some hundredths of a second, where it says nothing: it is not asked there."""
    seen, read = [], Contour.read_cell

    def watched(self, cell, target, what, **named):
        seen.extend(np.ravel(target) if what != EPSILON and self.is_gaussian else [])
        return read(self, cell, target, what, **named)

    monkeypatch.setattr(Contour, "read_cell", watched)
    job = fa.PureDP(0.8) * 5 + fa.Gaussian(2.0).poisson(1e-6) * 20
    assert fa.epsilon_bounds(job, delta=1e-6, neighbors="add").status == fa.Status.TIGHT
    assert 0.0 < max(seen) < 1e-3


def test_a_delta_below_the_smallest_normal_number_is_looked_for():
    """A quotient by it overflows."""
    lower, upper, status = fa.epsilon_bounds(
        fa.RandomizedResponse(0.753526441892702, answers=6) * 16, delta=1e-320, neighbors="zero_out"
    )
    assert status == fa.Status.TIGHT
    assert 0.7 * 16 * 0.753526441892702 < lower <= upper <= 16 * 0.753526441892702
