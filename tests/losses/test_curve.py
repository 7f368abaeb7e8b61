"""Losses of which deltas are known, as atoms above and below: against curves in closed form, and integrals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfcx, ndtr

import fastacct as fa
from fastacct.core.inputs import ROUNDING
from fastacct.core.work import spend
from fastacct.losses import curve
from fastacct.losses.loss import Atoms, Bracket, OutOfReachError, Pair
from fastacct.samplers.poisson import sample


def gaussian(mu, off=0.0, seed=0):
    """Bounds of the deltas of a Gaussian, `off` of themselves apart, the truth anywhere between them."""
    random = np.random.default_rng(seed)

    def deltas(direction, epsilon):
        near, away = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        truth = ndtr(-near) - np.exp(epsilon) * ndtr(-away)
        far = near > 8.0  # the difference has few digits, that of both over the density more
        ratios = erfcx(near[far] / math.sqrt(2.0)) - erfcx(away[far] / math.sqrt(2.0))
        truth[far] = 0.5 * np.exp(-0.5 * near[far] ** 2) * ratios
        share = random.random(epsilon.size)
        return truth * (1.0 - off * share - 1e-12), truth * (1.0 + off * (1.0 - share) + 1e-12)

    return deltas


def delta_of(one: Atoms, epsilon: float) -> float:
    """The sum over all atoms."""
    return float(np.sum(one.mass * np.maximum(-np.expm1(np.minimum(epsilon - one.loss, 0.0)), 0.0))) + one.infinite


@pytest.mark.parametrize("direction", ["remove", "add"])
@given(
    mu=st.floats(0.02, 6.0),
    place=st.floats(-3.0, 6.0),
    off=st.sampled_from([0.0, 1e-10, 9e-8]),
    seed=st.integers(0, 99),
)
def test_both_curves_are_on_their_sides(mu, place, off, seed, direction):
    mu *= 0.75 if off > 1e-8 else 1.0  # where losses are large and deltas wide, a curve is refused
    epsilon = mu * (place + mu / 2)
    pair = curve.of_deltas(gaussian(mu, off, seed))
    truth = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    above, below = (delta_of(one.side(direction).upper, epsilon) for one in (pair.above, pair.below))
    noise = 4.0 * ROUNDING * (1.0 + math.exp(epsilon))  # of the difference that is the truth here
    assert below <= truth + noise
    assert truth - noise <= above


@pytest.mark.parametrize(("dear", "least", "most"), [(0.0, 40_000, 55_000), (4e6, 500, 5_500)])
def test_where_a_delta_takes_milliseconds_few_are_asked(dear, least, most):
    count, ask = [], gaussian(1.0)

    def deltas(direction, epsilon):
        spend(dear * epsilon.size)
        count.append(epsilon.size)
        return ask(direction, epsilon)

    pair = curve.of_deltas(deltas)
    assert least < sum(count) < most
    truth = ndtr(0.5 - 1.0) - math.exp(1.0) * ndtr(-0.5 - 1.0)
    above, below = (delta_of(one.side("remove").upper, 1.0) for one in (pair.above, pair.below))
    assert below <= truth <= above < below * (1.0 + 1e-4)


@pytest.mark.parametrize("direction", ["remove", "add"])
@given(place=st.floats(0.0, 1.1), off=st.sampled_from([0.0, 9e-8]), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_where_the_curve_is_straight_errors_are_all_there_is(place, off, share, direction):
    """Losses -1, 0 and 1: what the bounds of deltas are apart is not hidden by what points are."""

    def deltas(way, epsilon):
        truth = 0.6 * np.maximum(-np.expm1(epsilon - 1.0), 0.0)
        return truth * (1.0 - off * share), truth * (1.0 + off * (1.0 - share))

    pair, truth = curve.of_deltas(deltas), 0.6 * max(-math.expm1(place - 1.0), 0.0)
    above, below = (delta_of(one.side(direction).upper, place) for one in (pair.above, pair.below))
    assert below <= truth * (1.0 + 1e-14)
    assert truth * (1.0 - 1e-14) <= above


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("until", [1.0, 2.5])
def test_where_nothing_is_known_from_below_the_curve_ends(until, direction):
    exact = gaussian(1.0)

    def deltas(way, epsilon):
        low, high = exact(way, epsilon)
        return np.where(epsilon < until, low, 0.0), high

    def known(low, high):
        """Whatever most of them are apart."""
        return low, high

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve, "_falling", known)
        below = curve.of_deltas(deltas).below.side(direction).upper
    places = np.linspace(0.0, until + 0.1, 3001)
    assert np.all(np.array([delta_of(below, place) for place in places]) <= exact(direction, places)[1])


@pytest.mark.parametrize("points", [512, 4096])
def test_it_is_of_second_order(points):
    pair = curve.of_deltas(gaussian(1.0), points)
    for epsilon in (0.1, 1.0, 3.0):
        above, below = (delta_of(one.remove.upper, epsilon) for one in (pair.above, pair.below))
        assert above - below <= 6e-5 * above * (4096 / points) ** 2


@pytest.mark.parametrize(("mu", "rate", "count"), [(1.0, 0.1, 100), (0.3, 0.5, 20), (2.0, 0.01, 1000), (1.0, 0.3, 1)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_samples_of_it_hold_those_in_closed_form(mu, rate, count, direction):
    pair = sample(curve.of_deltas(gaussian(mu)), rate)

    class Known(fa.Mechanism):
        def losses(self, relation):
            return pair

    exact = fa.Gaussian(1.0 / mu).poisson(rate) * count
    for delta in (1e-3, 1e-8):
        truth = fa.epsilon_bounds(exact, delta=delta, neighbors=direction)
        found = fa.epsilon_bounds(Known() * count, delta=delta, neighbors=direction)
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper <= truth.upper + 3e-5 * max(truth.upper, 0.01)


def through(noise, rate, steps, client, rounds, epsilon, tilt, losses, ends, apart):
    """Delta of rounds in which a client is drawn, and its record in each step, by integrals of analytic functions.

    The density of a client's loss from its characteristic function, its log-moments from that, and delta from these.
    """
    z = np.arange(-12.0, 14.0 + 2.0 / noise, 0.02)
    one, weight = (
        np.log1p(rate * np.expm1(z / noise - 0.5 / noise**2)),
        np.exp(-z * z / 2) * 0.02 / math.sqrt(2 * math.pi),
    )
    density = np.zeros(losses.size)
    for s in np.array_split(np.arange(0.0, ends[0], apart[0]), 16):
        u = tilt + 1j * s
        moment = (weight * np.exp(np.multiply.outer(u, one))).sum(axis=1) ** steps
        terms = (moment[:, None] * np.exp(-np.multiply.outer(u, losses))).real * np.where(s == 0.0, 0.5, 1.0)[:, None]
        density += terms.sum(axis=0) * apart[0] / math.pi
    drawn, h = np.log1p(client * np.expm1(losses)), losses[1] - losses[0]
    t = np.arange(0.0, ends[1], apart[1])
    u = 1.0 + tilt + 1j * t
    moment = np.array([(density * np.exp(x * drawn)).sum() * h for x in u])
    assert abs(moment[-1] / moment[0]) ** rounds < 1e-12
    value = moment**rounds * np.exp(-(u - 1.0) * epsilon) / (u * (u - 1.0)) * np.where(t == 0.0, 0.5, 1.0)
    return value.real.sum() * apart[1] / math.pi


@pytest.mark.parametrize(
    ("numbers", "epsilon", "tilt", "losses", "ends", "apart"),
    [
        ((1.0, 0.1, 10, 0.2, 100), 5.04639, 4.0, np.arange(-1.054, 14.0, 0.02), (200.0, 30.0), (0.1, 0.02)),
        ((2.0, 0.01, 50, 0.05, 200), 0.098113, 20.0, np.arange(-0.51, 1.5, 0.002), (400.0, 800.0), (0.4, 0.4)),
    ],
)
def test_samples_within_samples_against_integrals(numbers, epsilon, tilt, losses, ends, apart):
    noise, rate, steps, client, rounds = numbers
    truth = through(noise, rate, steps, client, rounds, epsilon, tilt, losses, ends, apart)
    job = (fa.Gaussian(noise).poisson(rate) * steps).poisson(client) * rounds
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors="remove")
    assert lower <= truth * (1.0 + 1e-9)
    assert truth * (1.0 - 1e-9) <= upper
    assert upper - lower <= 1e-4 * truth


def counted(patch):
    """How many deltas each pair of curves asks for, but for those that the first one has asked."""
    asked, made = [], curve._finer

    def count(deltas, rough, left):
        def ask(direction, epsilon):
            asked[-1] += epsilon.size
            return deltas(direction, epsilon)

        asked.append(0)
        return made(ask, rough, left)

    patch.setattr(curve, "_finer", count)
    return asked


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "client", "rounds", "most"),  # of each client the curve is kept
    [(1.0, 0.11, 10, 0.2, 100, 15_000), (2.0, 0.05, 30, 0.02, 1000, 9_000), (0.7, 0.3, 4, 0.1, 20, 16_000)],
)
def test_an_epsilon_asks_for_the_points_it_needs(noise, rate, steps, client, rounds, most, direction, monkeypatch):
    asked = counted(monkeypatch)
    job = (fa.Gaussian(noise).poisson(rate) * steps).poisson(client) * rounds
    assert fa.epsilon_bounds(job, delta=1e-6, neighbors=direction).status == fa.Status.TIGHT
    assert len(asked) == 1
    assert 2000 < asked[0] < most


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_so_does_a_delta(direction, monkeypatch):
    asked = counted(monkeypatch)
    job = (fa.Gaussian(2.0).poisson(0.06) * 30).poisson(0.02) * 1000
    assert fa.delta_bounds(job, epsilon=0.4, neighbors=direction).status == fa.Status.TIGHT
    assert len(asked) == 1
    assert 10_000 < asked[0] < 40_000


@pytest.mark.parametrize(("rate", "direction"), [(0.13, "remove"), (0.14, "add")])
def test_many_points_are_asked_where_few_say_too_little(rate, direction, monkeypatch):
    asked, near = counted(monkeypatch), curve._near
    monkeypatch.setattr(curve, "_near", lambda *given: {way: 0.1 * left for way, left in near(*given).items()})
    job = (fa.Gaussian(1.0).poisson(rate) * 10).poisson(0.2) * 100
    assert fa.epsilon_bounds(job, delta=1e-6, neighbors=direction).status == fa.Status.TIGHT
    few, many = asked
    assert few < 1500 < 45_000 < many


@given(mu=st.floats(0.1, 1.5), rate=st.floats(0.01, 1.0), tilt=st.floats(0.1, 2.0), off=st.sampled_from([0.0, 1e-10]))
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_curves_by_the_points_of_a_question_are_on_their_sides(mu, rate, tilt, off, direction):
    pair = curve.curve_of(gaussian(mu, off)).soon.near(direction, tilt, 1.0, 1e4 * rate)
    for epsilon in mu * (np.array([-2.0, -0.5, 0.0, 1.0, 3.0, 5.0]) + mu / 2):
        truth = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        above, below = (delta_of(one.side(direction).upper, epsilon) for one in (pair.above, pair.below))
        noise = 4.0 * ROUNDING * (1.0 + math.exp(epsilon))
        assert below <= truth + noise
        assert truth - noise <= above


def test_what_asks_for_more_than_epsilon_has_many_points():
    pair = curve.curve_of(gaussian(1.0))
    drawn = sample(pair, 0.1)
    for one in (pair, drawn):
        few, many = (len(known.remove.upper.as_atoms().loss) for known in (one.soon, one))
        assert few < 20_000 < 40_000 < many
    few, same = (known.add.lower.as_atoms() for known in (sample(pair.soon, 0.1), drawn.soon))
    assert np.array_equal(few.loss, same.loss)
    assert np.array_equal(few.mass, same.mass)


@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_one_round_is_the_amplified_curve_of_its_client(rate):
    inner = fa.Gaussian(1.0).poisson(0.1) * 10 + fa.Laplace(4.0)
    for epsilon in (0.05, 0.4):
        truth = rate * fa.delta(inner, epsilon=math.log1p(math.expm1(epsilon) / rate), neighbors="remove")
        lower, upper, _ = fa.delta_bounds(inner.poisson(rate), epsilon=epsilon, neighbors="remove")
        assert lower <= truth * (1.0 + 1e-9)
        assert truth * (1.0 - 1e-9) <= upper <= truth * (1.0 + 1e-4)


def test_many_steps_and_every_direction_have_both_bounds():
    job = (fa.Gaussian(1.0).poisson(0.001) * 2000).poisson(0.05) * 100
    for relation in ("add", "zero_out"):
        lower, upper, _ = fa.epsilon_bounds(job, delta=1e-6, neighbors=relation)
        assert 0.0 < upper - lower <= 2e-5 * upper
    assert fa.epsilon(fa.Gaussian(1.0).poisson(5e-5) * 200_000, delta=1e-6) < fa.epsilon(job, delta=1e-6)


@pytest.mark.parametrize("kind", ["wide", "infinite", "small"])
def test_what_it_refuses(kind):
    def deltas(direction, epsilon):
        if kind == "wide":
            return gaussian(1.0, 1e-6)(direction, epsilon)
        truth = np.full(epsilon.size, 1e-3) if kind == "infinite" else np.maximum(1e-12 - epsilon, 0.0)
        return truth, truth

    with pytest.raises(OutOfReachError):
        curve.of_deltas(deltas)


def test_a_pair_that_needs_no_curve_is_itself():
    one = Atoms(np.array([0.1, -0.2]), np.zeros(2), np.array([0.6, 0.4]))
    pair = Pair(Bracket(one, one), Bracket(one, one))
    assert pair.given(lambda *asked: asked) is pair
