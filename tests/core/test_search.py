"""Ends of a crossing are points at which each bound has been seen on its side."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa
from fastacct.core.search import boundary, confirmed, crossing, excess, least, sketched, straightened
from fastacct.core.work import spend


@settings(max_examples=80, deadline=None)
@given(
    st.floats(0.1, 50.0),
    st.floats(-300.0, -0.1),
    st.sampled_from([0.0, 1e-14, 1e-9, 1e-3]),
    st.floats(1e-6, 1e3),
)
def test_each_end_has_been_seen_on_its_side(rate, log_target, width, top):
    target, asked = math.exp(log_target), set()

    def bounds(x):
        asked.add(x)
        value = math.exp(-rate * x)
        return value * (1.0 - width), value * (1.0 + width)

    low, high = (crossing(lambda x, i=i: bounds(x)[i], target, top, is_upper=i == 1) for i in (0, 1))
    assert 0.0 <= low <= high <= top
    assert low == 0.0 or (low in asked and bounds(low)[0] >= target)
    assert high == top or (high in asked and bounds(high)[1] <= target)
    root = -log_target / rate
    if 1e-6 * top < root < 0.99 * top and width < 1e-6:
        assert low <= root <= high
        assert high - low <= 1e-8 * root + 8.0 * width / rate


@pytest.mark.parametrize("near", [2.0, 2.0 * (1.0 + 1e-9), 2.0 * (1.0 + 1e-6), 1.9, 7.0, 1e-3, 0.0, 1e9, math.nan])
def test_a_number_that_is_said_to_be_near_is_believed_where_it_is(near):
    low, high = (crossing(lambda x: math.exp(-x), math.exp(-2.0), 50.0, is_upper=i, near=near) for i in (False, True))
    assert math.exp(-high) <= math.exp(-2.0) <= math.exp(-low)
    assert high - low < 1e-8


@pytest.mark.parametrize("jump", [0.3, 0.999999, 1e-12, 1e-30])
def test_a_jump_is_enclosed(jump):
    low, high = (crossing(lambda x: 0.5 if x < jump else 0.0, 0.1, 1.0, is_upper=i) for i in (False, True))
    assert low < jump <= high <= low * (1.0 + 1e-11)


@pytest.mark.parametrize(("start", "most"), [(1.0, 8), (1e3, 14), (1e-5, 16)])
@pytest.mark.parametrize("jitter", [0.0, 1e-8])
def test_smooth_levels_are_asked_seldom_and_rough_ones_to_the_end(start, most, jitter):
    rng = np.random.default_rng(4)
    for _ in range(50):
        root, steep, bend = math.exp(rng.uniform(-1.0, 1.0)), rng.uniform(0.7, 2.0), rng.uniform(-0.1, 0.1)
        asked = []

        def level(x, root=root, steep=steep, bend=bend, asked=asked):
            asked.append(x)
            u = math.log(x / root)
            return -steep * u * (1.0 + bend * math.tanh(u)) + jitter * math.sin(1e9 * x)

        found = boundary(level, None, "the target", start=start)
        assert len(asked) <= most + (40 if jitter else 0)
        assert len({*asked}) == len(asked)
        assert level(found) <= 0.0
        assert any(abs(x / found - 1.0) <= 1e-9 and level(x) > 0.0 for x in [*asked])


def test_a_level_on_the_scale_of_a_model_that_is_much_alike_is_straight():
    """The model is off by 30 % at the target and by a little more elsewhere; the sign stays that of the level."""
    asked = []

    def spent(x):
        asked.append(x)
        return math.expm1(2.0 / x) * (1.0 + 0.01 * math.tanh(x))

    def model(value):
        return np.where(value < 1e6, 2.6 / np.log1p(value), 0.0)

    straight, slope = straightened(model, 3.0, -1.2)

    def level(x):
        return straight(excess(spent(x), 3.0))

    root = boundary(lambda x: excess(spent(x), 3.0), None, "the target")
    for x in np.geomspace(0.2, 20.0, 60):
        assert (level(x) > 0.0) == (x < root)
        assert level(x) == pytest.approx(-math.log(x / root), abs=0.02)
    asked.clear()
    assert boundary(level, None, "the target", start=float(model(np.array(3.0))), slope=slope) == pytest.approx(
        root, rel=1e-9
    )
    assert len(asked) <= 6
    assert straightened(np.zeros_like, 3.0, -1.2) == (float, -1.2)


@pytest.mark.parametrize("slope", [-3.0, -0.6, 0.7])
def test_a_sketch_ends_at_the_root_of_a_smooth_level_with_its_slope(slope):
    """After few numbers, none of them twice; of whole numbers next to it."""
    for start, at in [(1.0, 0.03), (2.0, 1.9), (1.0, 300.0)]:
        asked = []

        def level(x, at=at, asked=asked):
            asked.append(x)
            gone = math.log(x / at)
            return slope * gone * (1.0 + 0.1 * math.tanh(gone))

        root, found = sketched(level, None, start, slope)
        assert root == pytest.approx(at, rel=1e-8)
        assert found == pytest.approx(slope, rel=0.02)
        assert len({*asked}) == len(asked) <= 9
    whole, _ = sketched(lambda n: math.log(n / 713.4), (1, 10**6), 1, 1.0)
    assert isinstance(whole, int)
    assert abs(whole - 713) <= 1


def test_a_sketch_of_what_is_flat_unknown_or_beyond_the_ends_is_none():
    for level in (lambda x: 0.3, lambda x: math.inf, lambda x: math.nan, lambda x: 1.0 - 1e-3 * math.log(x)):
        assert sketched(level, (1e-3, 1e3), 1.0, -1.0) is None


@pytest.mark.parametrize("above", [0.0, 1e-10, 2.8e-9, 8e-9, 3e-7])
def test_what_is_confirmed_meets_its_level_and_nearly(above):
    """Also where the certified level is above what was sketched; where it is far off, nothing is confirmed."""
    for slope in (-1.2, 0.8):
        asked = []

        def level(x, slope=slope, asked=asked):
            asked.append(x)
            return slope * math.log(x / 2.0) + above

        x = confirmed(level, 2.0, 1.05 * slope)
        assert -6e-9 < level(x) <= 0.0
        assert x == asked[-1]
        assert len({*asked}) <= (1 if above < 1e-9 else 3)
        assert confirmed(lambda x, level=level: level(x) + 0.01, 2.0, slope) is None
        assert confirmed(lambda x, level=level: math.copysign(max(abs(level(x)), 1e-8), level(x)), 2.0, slope) is None


def test_what_is_met_everywhere_or_nowhere_ends_at_an_end():
    asked = []
    assert boundary(lambda x: asked.append(x) or -1.0 - 1e-3 * x, (1e-3, 1e3), "it", start=1.0) == 1e-3
    assert max(asked) == 1.0
    assert boundary(lambda x: 1.0, (1e-3, 1e3), "it", start=1.0, nowhere=7.0) == 7.0
    assert boundary(lambda x: -1.0, (1, 10**6), "it") == 10**6
    with pytest.raises(ValueError, match=r"try another bracket \(it is met neither at 1 nor at 1000000"):
        boundary(lambda x: 1.0, (1, 10**6), "it")


def test_a_boundary_below_zero_is_found():
    asked = []
    found = boundary(lambda x: asked.append(x) or 0.3 + math.expm1(x), (-2.0, 5.0), "it")
    assert math.log(0.7) * (1.0 + 1e-9) <= found <= math.log(0.7)
    assert len(asked) <= 12


@pytest.mark.parametrize("ends", [(1e-3, 1e3), (-2.0, 50.0), (1, 10**6)])
def test_the_end_that_is_returned_meets_the_target(ends):
    """Of rising and of falling functions; a step further it is not met."""
    rng = np.random.default_rng(11)
    for at in rng.uniform(2.0, 40.0, 25).tolist():
        for sign in (1.0, -1.0):

            def level(x, at=at, sign=sign):
                return sign * math.atan(x - at)

            found = boundary(level, ends, "the target")
            assert level(found) <= 0.0
            assert level(found + sign * (1 if isinstance(ends[0], int) else 1e-7 * at)) > 0.0


@pytest.mark.parametrize("steep", [0.1, 1.0, 7.0])
def test_a_corner_is_found_wherever_it_is(steep):
    """Where a point fell on the least one again, but for rounding, the search looked on one side alone: 4e-5 off."""
    grid = np.geomspace(0.05, 20.0, 40)
    for corner in np.random.default_rng(3).uniform(-2.0, 2.0, 130).tolist():

        def at(x, corner=corner):
            away = np.log(x) - corner
            return 1.0 + np.where(away > 0.0, away, -steep * away)

        assert least(at, grid, 0.0, math.inf, enough=1e-9)[0] <= 1.0 + 1e-8


def test_what_is_no_number_is_the_worst_of_all_and_never_the_least():
    """Orders at which a divergence is not known must not give the least epsilon."""

    def at(x):
        return np.where(x < 2.0, np.nan, (x - 5.0) ** 2 + 1.0)

    value, place = least(at, np.geomspace(1.1, 100.0, 40), 1.0, 700.0)
    assert 1.0 <= value <= 1.0 + 1e-6
    assert abs(place - 5.0) < 1e-2
    assert least(lambda x: np.full(x.shape, np.nan), np.geomspace(1.1, 100.0, 40), 1.0, 700.0)[0] == 700.0


def test_few_points_find_the_least_value_and_where_nothing_is_left_to_gain_none_is_asked():
    asked = []

    def at(x):
        asked.append(x.size)
        return 0.02 * x + math.log(1e5) / (x - 1.0)

    truth = 0.02 + 2.0 * math.sqrt(0.02 * math.log(1e5))
    grid = 1.0 + np.geomspace(1e-3, 1e4, 60)
    value, place = least(at, grid, 1.0, math.inf, enough=4e-7)
    assert truth * (1.0 - 1e-14) <= value <= truth * (1.0 + 1e-7)
    assert place == pytest.approx(1.0 + math.sqrt(math.log(1e5) / 0.02), rel=1e-3)
    assert sum(asked) - grid.size <= 20
    asked.clear()
    assert least(lambda x: asked.append(x.size) or np.full(x.shape, 3.0), grid, 1.0, 3.0)[0] == 3.0
    assert asked == [grid.size]


def test_the_least_value_at_a_kink_is_found():
    value, _ = least(lambda x: np.maximum(0.05 * x, 2.0 - 0.01 * x), 1.0 + np.geomspace(1e-3, 1e4, 60), 1.0, math.inf)
    assert 5.0 / 3.0 <= value <= 5.0 / 3.0 * (1.0 + 1e-6)


def test_a_value_without_end_is_the_least_and_gives_no_warning():
    """Of a job that releases nothing log delta is -inf at every order."""
    grid = np.geomspace(1.5, 1e6, 40)
    assert least(lambda x: np.full(x.size, -np.inf), grid, 1.0, 0.0)[0] == -math.inf
    assert fa.delta(fa.ZCDP(0.0), epsilon=0.5) == 0.0


def test_a_bracket_is_not_made_narrower_after_some_seconds_of_work():
    asked = []

    def level(x):
        asked.append(x)
        spend(1.5e9)
        return 1.0 if x < math.pi else -1e-3

    found = boundary(level, (1.0, 100.0), "it")
    assert level(found) <= 0.0
    assert len(asked) < 8
