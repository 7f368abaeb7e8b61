"""Masses between losses against 80 digits: bounds on both sides, close to each other, of small losses too."""

import itertools

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.loss import OutOfReachError, ruled
from fastacct.losses.mixture import mixture_bracket
from fastacct.losses.panels import PiecesPair, laplace, replaced_pieces, sampled_pieces, symmetric_pieces
from fastacct.losses.pieces import log_sample

CLOSE = 2e-11
"""Of both bounds, relative to either."""


def normal(low, high, mean=0):
    """Mass of N(mean, 1), by the tail that is smaller."""
    low, high = low - mean, high - mean
    return mp.ncdf(-low) - mp.ncdf(-high) if low > 0 else mp.ncdf(high) - mp.ncdf(low)


def place(loss, mu, rate, *, is_replaced):
    """The output of the mixtures with this loss, with unit noise."""
    e = mp.exp(loss)
    if not is_replaced:
        y = (e - 1 + rate) / rate
        return mp.log(y) / mu + mu / 2 if y > 0 else -mp.inf
    half, back = (1 - rate) * (e - 1) / (2 * rate), e * mp.exp(-mu * mu)
    return mp.log(half + mp.sqrt(half * half + back)) / mu + mu / 2


def of_gaussians(mu, rate, edges, direction, ends, *, is_replaced=False):
    """P's masses and what they exceed exp(lower edge) times Q's by, of (1 - rate) N(0) + rate N(mu) against N(0), or
    against (1 - rate) N(0) + rate N(-mu), between outputs `ends`."""
    mu, rate, found = mpf(mu), mpf(rate), []
    for low, high in itertools.pairwise(edges):
        at = (low, high) if direction == "remove" else (-high, -low)
        a, b = (min(max(place(mpf(x), mu, rate, is_replaced=is_replaced), ends[0]), ends[1]) for x in at)
        p = (1 - rate) * normal(a, b) + rate * normal(a, b, mu)
        q = (1 - rate) * normal(a, b) + rate * normal(a, b, -mu) if is_replaced else normal(a, b)
        p, q = (p, q) if direction == "remove" else (q, p)
        found.append((p, p - mp.exp(mpf(low)) * q))
    return found


def is_between(law, edges, truth, close=CLOSE):
    """Whether both bounds hold and are close; a slip moves both ends of a cell, and what is in excess."""
    edges = np.array(edges)
    (least, low, slip), (most, high, other) = (law.masses(edges, 0.0, side) for side in (-1.0, 1.0))
    slip = max(slip, other)
    for i, (mass, excess) in enumerate(truth[1:-1], start=1):  # what is beyond all losses is in the outer cells
        width, moved = edges[i + 1] - edges[i], 4.0 * slip * max(float(mass), most[i])
        spread = float(mass) * 4.0 * slip / width * 100.0  # no density here is steeper than that
        assert least[i] - spread <= mass <= most[i] + spread
        assert low[i] - moved - spread * width <= excess <= high[i] + moved + spread * width
        assert most[i] - least[i] <= close * most[i] + 1e-295
        assert high[i] - low[i] <= (close + 100.0 * slip / width) * high[i] + 1e-295
    assert slip <= 1e-13 * (1.0 + np.abs(edges).max())


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.4, 0.3), (1e-7, 1e-3), (3.0, 1.0), (30.0, 0.2)])
def test_masses_of_a_sampled_gaussian(direction, mu, rate):
    """Fine and coarse cells, in the bulk and far out, of losses of 1e-10 too."""
    law = PiecesPair(sampled_pieces(mu, rate)).side(direction).upper
    z = np.concatenate([[-9.0, -8.9, -3.0, -2.9999, 0.1, 0.1001, 1.0, 6.0, 6.3], mu + np.array([0.5, 9.0, 9.1])])
    loss = log_sample(rate, np.sort(mu * z - 0.5 * mu * mu))
    edges = np.unique(loss if direction == "remove" else -loss)
    with mp.workdps(80):
        is_between(law, edges, of_gaussians(mu, rate, edges.tolist(), direction, (-mp.inf, mp.inf)))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.4, 0.3), (1e-7, 1e-3), (5.0, 0.2)])
def test_masses_where_a_record_is_replaced(direction, mu, rate):
    law = PiecesPair(replaced_pieces(mu, rate)).side(direction).upper
    z = np.array([-9.0, -8.9, -2.0, -1.9999, 0.0, 0.01, 1.0, mu + 2.0, mu + 2.001, mu + 6.0])
    x = mu * z - 0.5 * mu * mu
    loss = log_sample(rate, x) - log_sample(rate, -x - mu * mu)
    edges = np.unique(loss if direction == "remove" else -loss)
    with mp.workdps(80):
        ends = -mp.inf, mp.inf
        is_between(law, edges, of_gaussians(mu, rate, edges.tolist(), direction, ends, is_replaced=True))


@pytest.mark.parametrize("is_add", [False, True])
def test_masses_of_both_halves_of_a_symmetric_loss(is_add):
    """Losses above 0 of a sample, their mirror images, and an atom at 0."""
    mu, rate = 0.8, 0.1
    law = PiecesPair(symmetric_pieces(mu, rate)).side("add" if is_add else "remove").upper
    edges = [-0.3, -0.2, -0.01, -0.001, 0.001, 0.01, 0.2, 0.3]
    with mp.workdps(80):
        half = mpf(mu) / 2, mp.inf
        up = of_gaussians(mu, rate, edges, "remove", half)
        down = of_gaussians(mu, rate, edges, "add", half)
        atom = (1 - mpf(rate)) * mp.erf(mpf(mu) / mp.sqrt(8))
        truth = [
            (a + b + atom * (i == 3), c + d + atom * (i == 3) * (1 - mp.exp(mpf(edges[3]))))
            for i, ((a, c), (b, d)) in enumerate(zip(up, down, strict=True))
        ]
        # what is beyond the ends is in the outer cells: those are not compared
        (least, low, slip), (most, high, _) = (law.masses(np.array(edges), 0.0, side) for side in (-1.0, 1.0))
    for i in range(1, 6):
        assert least[i] <= truth[i][0] * (1 + mpf("1e-12"))
        assert truth[i][0] <= most[i] * (1 + 1e-12)
        assert low[i] - 4 * slip <= truth[i][1] <= high[i] + 4 * slip
        assert most[i] - least[i] <= CLOSE * most[i]


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("scale", "rate"), [(0.05, 1.0), (2.0, 0.1), (1e8, 0.5), (1e8, 1e-3), (0.2, 1e-4)])
def test_masses_of_laplace_noise(direction, scale, rate):
    """Densities exp(-x/2) between two atoms: differences of exponentials; at 1e-8 they would cancel to nothing."""
    pieces = laplace(scale).pieces().sampled(rate)
    law = PiecesPair(pieces).side(direction).upper
    low, high, peak = pieces.panels[0, :3].tolist()
    x = low + (high - low) * np.array([0.001, 0.1, 0.1001, 0.5, 0.7, 0.999])
    near = log_sample(rate, x)
    edges = np.unique(near if direction == "remove" else -near)
    truth = []
    with mp.workdps(80):
        for one, other in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            at = (one, other) if direction == "remove" else (-other, -one)
            a, b = (mp.log1p(mp.expm1(mpf(x)) / mpf(rate)) for x in at)
            start = mp.exp(mpf(peak) + mpf(low) / 2)
            q = 2 * start * (mp.exp(-a / 2) - mp.exp(-b / 2))
            p = (1 - mpf(rate)) * q + 2 * mpf(rate) * start * (mp.exp(b / 2) - mp.exp(a / 2))
            p, q = (p, q) if direction == "remove" else (q, p)
            truth.append((p, p - mp.exp(mpf(one)) * q))
    cut = np.append(edges, 2.0 * abs(law.extent(0.0)[1]) + edges[-1])  # the atoms are below and above all cells
    (least, less, slip), (most, more, _) = (law.masses(np.append(-1e300, cut), 0.0, side) for side in (-1.0, 1.0))
    for i, (mass, excess) in enumerate(truth, start=1):
        room = 100.0 * slip / (edges[i] - edges[i - 1])
        assert least[i] * (1 - room) <= mass <= most[i] * (1 + room)
        assert less[i] * (1 - 4 * room) <= excess <= more[i] * (1 + 4 * room)
        assert most[i] - least[i] <= CLOSE * most[i]
        assert more[i] - less[i] <= (CLOSE + room) * more[i]
    assert slip <= 1e-13 * np.abs(edges).max()


@pytest.mark.parametrize(("sigma", "weight"), [(0.7, 0.3), (2.0, 0.01), (50.0, 1e-3)])
def test_masses_of_mixtures(sigma, weight):
    law = mixture_bracket(sigma, {0.0: 1.0 - weight, 1.0: weight}, {0.0: 1.0}).upper
    edges = law.loss(sigma * np.array([-4.0, -3.9, 0.0, 0.001, 2.0, 5.0, 5.1, 6.0]))[0]
    with mp.workdps(80):
        truth = of_gaussians(1.0 / mpf(sigma), weight, edges.tolist(), "remove", (-mp.inf, mp.inf))[1:-1]
    (least, low, slip), (most, high, _) = (law.masses(edges, 0.0, side) for side in (-1.0, 1.0))
    for i, (mass, excess) in enumerate(truth, start=1):
        room = 100.0 * slip / (edges[i + 1] - edges[i])
        assert least[i] * (1 - room) <= mass <= most[i] * (1 + room)
        assert low[i] - 4 * slip * most[i] <= excess * (1 + room)
        assert excess * (1 - room) <= high[i] + 4 * slip * most[i]


def test_rules_are_as_good_as_is_said():
    """Of a Gaussian density times 1, exp(distance) - 1 or 1 - exp(-distance), pieces as wide and as far out as is
    allowed."""
    for steep, wide in ((1.0, 0.1), (5.0, 2.0), (40.0, 60.0)):
        for share in (0.001, 0.02, 0.05, 0.1, 0.5, 1.0):
            half = share / steep
            ((_, points, weights),) = ruled(np.array([share]))
            with mp.workdps(40):
                low = mpf(steep) - 2 * mpf(half) - 1
                for factor in (lambda t: 1, lambda t, w=wide: mp.expm1(w * t), lambda t, w=wide: -mp.expm1(-w * t)):

                    def f(t, low=low, factor=factor):
                        return mp.exp(-low * t - t * t / 2) * factor(t)

                    truth = mp.quad(f, mp.linspace(0, 2 * half, 5))
                    terms = [w * f(2 * half * mpf(x)) for x, w in zip(points, weights, strict=True)]
                    assert abs(2 * half * mp.fsum(terms) / truth - 1) < 4e-16  # of weights in doubles
    with pytest.raises(ValueError, match="no rule"):
        list(ruled(np.array([1.01])))


def test_one_release_of_little_noise_and_of_hardly_any_information():
    """Delta is the excess above epsilon, with all digits where losses are 1e-8."""
    for noise, rate in ((1e8, 0.5), (1e8, 1e-3)):
        step = fa.Laplace(noise).poisson(rate)
        found = fa.delta_bounds(step, epsilon=0.3 * rate / noise)
        with mp.workdps(50):
            epsilon, top = mpf(0.3 * rate / noise), 1 / mpf(noise)
            x = mp.log1p(mp.expm1(epsilon) / mpf(rate))
            truth = mpf(rate) * -mp.expm1(0.5 * (x - top))
        assert found.lower <= truth <= found.upper <= found.lower * (1.0 + 1e-9)


def test_means_too_far_apart_for_any_rule_are_refused():
    with pytest.raises(OutOfReachError, match="spread"):
        PiecesPair(sampled_pieces(1e6, 0.1)).remove.upper.extent(0.0)


@pytest.mark.parametrize(
    ("mu", "rate", "edge"),
    [
        (6.376152004023354, 0.9999999993536592, 21.159694213662096),  # next to the largest loss, -log(1 - rate)
        (3.990090480990183, 0.999996444351363, 12.5469),
    ],
)
def test_an_edge_next_to_the_largest_loss_cuts_there(mu, rate, edge):
    """A place that rounds to the end of all x misses losses: those count, or the place has more digits."""
    law = PiecesPair(sampled_pieces(mu, rate)).side("add").upper
    edges = [edge - 1.0, edge, edge + 1.0]
    with mp.workdps(80):
        mass, excess = of_gaussians(mu, rate, edges, "add", (-mp.inf, mp.inf))[1]
        (least, low, below), (most, high, above) = (law.masses(np.array(edges), 1e-299, side) for side in (-1.0, 1.0))
        assert low[1] - below * least[1] <= excess <= high[1] + above * most[1]
        assert max(below, above) < 1e-13
        assert abs(most[1] / mass - 1) < 1e-6


@pytest.mark.parametrize(("mu", "rate"), [(36.0, 0.99996), (650.0, 0.9998)])
def test_a_loss_that_is_flat_about_0_has_a_place_there(mu, rate):
    """Its rounding is more than it rises by, for hundreds of x: no step of Newton's leads out of there."""
    law = PiecesPair(replaced_pieces(mu, rate)).side("remove").upper
    _, excess, slip = law.masses(np.array([-1e5, 0.0, 1e6]), 1e-299, -1.0)
    assert rate * (1.0 - 1e-8) <= excess[1] <= rate
    assert slip < 1e-8
