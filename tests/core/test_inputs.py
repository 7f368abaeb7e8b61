"""Garbage in: a ValueError or TypeError that names the argument; never a crash, a NaN or a number that looks like an
answer."""

import functools
import math
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastacct as fa

GOOD = {
    "noise_multiplier": 1.0,
    "sample_rate": 0.01,
    "steps": 100,
    "delta": 1e-5,
    "epsilon": 1.0,
    "orders": 4.0,
}
VERBS = {
    "epsilon": (fa.dpsgd.epsilon, ("noise_multiplier", "sample_rate", "steps", "delta")),
    "epsilon_lower": (fa.dpsgd.epsilon_lower, ("noise_multiplier", "sample_rate", "steps", "delta")),
    "epsilon_bounds": (fa.dpsgd.epsilon_bounds, ("noise_multiplier", "sample_rate", "steps", "delta")),
    "delta": (fa.dpsgd.delta, ("noise_multiplier", "sample_rate", "steps", "epsilon")),
    "delta_lower": (fa.dpsgd.delta_lower, ("noise_multiplier", "sample_rate", "steps", "epsilon")),
    "delta_bounds": (fa.dpsgd.delta_bounds, ("noise_multiplier", "sample_rate", "steps", "epsilon")),
    "best_order": (fa.dpsgd.best_order, ("noise_multiplier", "sample_rate", "steps", "delta")),
    "epsilon_approx": (fa.dpsgd.epsilon_approx, ("noise_multiplier", "sample_rate", "steps", "delta")),
    "delta_approx": (fa.dpsgd.delta_approx, ("noise_multiplier", "sample_rate", "steps", "epsilon")),
    "rdp": (fa.dpsgd.rdp, ("noise_multiplier", "sample_rate", "steps", "orders")),
    "rdp_bounds": (fa.dpsgd.rdp_bounds, ("noise_multiplier", "sample_rate", "steps", "orders")),
    "noise_multiplier": (fa.dpsgd.noise_multiplier, ("epsilon", "delta", "sample_rate", "steps")),
    "steps": (fa.dpsgd.steps, ("epsilon", "delta", "noise_multiplier", "sample_rate")),
    "sample_rate": (fa.dpsgd.sample_rate, ("epsilon", "delta", "noise_multiplier", "steps")),
    "epsilon_gradient": (
        functools.partial(fa.dpsgd.epsilon_gradient, steps=100),
        ("noise_multiplier", "sample_rate", "delta"),
    ),
    "delta_gradient": (
        functools.partial(fa.dpsgd.delta_gradient, steps=100),
        ("noise_multiplier", "sample_rate", "epsilon"),
    ),
    "sweep": (fa.sweep, ("noise_multiplier", "sample_rate", "steps", "delta")),
}
CASES = [(verb, name) for verb, (_, names) in VERBS.items() for name in names]
EXAMPLES = 2600  # per argument: more than 10,000 for each public function


def out_of_range(name):
    low_side = st.floats(max_value=0 if name != "orders" else 1, exclude_max=True)
    by_name = {
        "sample_rate": st.floats(min_value=1, exclude_min=True),
        "delta": st.floats(min_value=1, exclude_min=True),
        "steps": st.floats(min_value=0, max_value=1e6).filter(lambda x: x != math.floor(x))
        | st.floats(min_value=2.0**53, exclude_min=True)
        | st.integers(min_value=2**53 + 1),
        "orders": st.floats(min_value=1e11, exclude_min=True, allow_infinity=False),  # 1 and inf are orders
    }
    return low_side | by_name.get(name, st.nothing()) | st.just(math.nan)


WRONG_TYPE = (
    st.none()
    | st.text(max_size=4)
    | st.binary(max_size=3)
    | st.booleans()
    | st.complex_numbers(max_magnitude=2)
    | st.dictionaries(st.text(max_size=1), st.floats(), max_size=1)
    | st.sets(st.integers(), max_size=2)
    | st.just(object())
    | st.just(Decimal("0.5"))
    | st.just(np.datetime64("2020-01-01"))
    | st.just([[1.0], [1.0, 2.0]])
    | st.just([None])
    | st.just([True])
    | st.just(["0.5"])
    | st.just(np.ma.masked_array([0.5, 0.5], mask=[True, False]))
    | st.just(np.array([0.5 + 0j]))
)


def garbage(name):
    bad = out_of_range(name)
    in_array = st.tuples(st.lists(st.just(GOOD[name]), max_size=3), bad, st.lists(st.just(GOOD[name]), max_size=2)).map(
        lambda parts: [*parts[0], parts[1], *parts[2]]
    )
    return bad | WRONG_TYPE | in_array | in_array.map(lambda x: [x, x])


@functools.cache
def pieces_of_garbage(name):
    """EXAMPLES of them, drawn once for all functions that take the argument."""
    drawn = []

    @settings(
        max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
    )
    @given(garbage(name))
    def draw(value):
        drawn.append(value)

    draw()
    assert len(drawn) >= EXAMPLES
    return drawn


VIEW = np.broadcast_to(0.5, (10**6, 10**6))
"""More cells than any memory has, in 8 bytes."""


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: fa.Gaussian(VIEW), "noise_multiplier"),
        (lambda: fa.Gaussian(1.0).poisson(VIEW), "sample_rate"),
        (lambda: fa.Gaussian(1.0) * np.broadcast_to(3, VIEW.shape), "count"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=VIEW), "delta"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=range(10**12)), "delta"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=range(0, -(10**30), -1)), "delta"),
        (lambda: fa.delta(fa.Gaussian(1.0), epsilon=VIEW), "epsilon"),
        (lambda: fa.rdp(fa.Gaussian(1.0), VIEW), "orders"),
        (lambda: fa.dpsgd.epsilon(noise_multiplier=VIEW, sample_rate=0.1, steps=1, delta=0.1), "noise_multiplier"),
        (lambda: fa.RDP(VIEW), "orders"),
        (lambda: fa.MatrixGaussian.from_strategy(VIEW, 1.0, bins=3), "strategy"),
    ],
)
def test_views_of_more_cells_than_memory_are_refused_before_they_are_read(call, name):
    start = time.process_time()
    with pytest.raises(MemoryError, match=f"{name} of shape"):
        call()
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fa.composition.basic({0.1, 0.2}), "epsilons must be a sequence of numbers, not a set"),
        (lambda: fa.composition.basic([0.1], {1e-6}), "deltas must be a sequence of numbers, not a set"),
        (lambda: fa.composition.basic({0.1: 1}), "epsilons must be a sequence of numbers, not a dict"),
        (lambda: fa.composition.basic(epsilons=3), "epsilons must be a sequence of numbers, not 3"),
        (lambda: fa.composition.basic([0.1], 3), "deltas must be a sequence of numbers, not 3"),
        (lambda: fa.RDP({2.0, 3.0}), "orders must be a sequence of numbers, not a set"),
        (lambda: fa.calibrate(3, epsilon=1.0, delta=1e-5), "build must be a function"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=0.1, threads=np.timedelta64(3, "s")), "threads must be"),
    ],
)
def test_what_is_no_sequence_function_or_number_is_refused_by_name(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_equal_steps_of_a_basic_composition_count_each():
    assert fa.composition.basic([0.1, 0.1, 0.1]) == fa.composition.basic(iter([0.1, 0.1, 0.1]))
    assert fa.composition.basic(np.array([0.1, 0.1, 0.1]))[0] >= 0.3
    assert fa.composition.basic([0.1], ())[1] == 0.0


def test_settings_are_kept_as_the_floats_that_were_checked():
    for spacing in (np.float16(0.5), np.float64(0.5), 0.5):
        assert type(fa.PLD(spacing=spacing).spacing) is float
        assert fa.PLD(spacing=spacing) == fa.PLD(spacing=0.5)
        assert fa.epsilon(fa.Gaussian(2.0), delta=1e-3, accountant=fa.PLD(spacing=spacing)) > 1.3
    assert fa.epsilon(fa.Gaussian(2.0), delta=1e-3, accountant=fa.PLD(spacing=2**64 - 1)) > 1.3
    assert type(fa.PLD(tolerance=np.float16(0.5)).tolerance) is float


@pytest.mark.parametrize(("verb", "name"), CASES, ids=[f"{v}-{n}" for v, n in CASES])
def test_garbage_is_refused_with_a_message_that_names_the_argument(verb, name):
    function, names = VERBS[verb]
    rest = {other: GOOD[other] for other in names if other != name}
    for value in pieces_of_garbage(name):
        message = "an answer"
        try:
            function(**rest, **{name: value})
        except (ValueError, TypeError) as refusal:
            message = str(refusal)
        assert name in message, repr(value)


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_anything_at_all_gives_a_valid_answer_or_a_clear_error(data):
    verb = data.draw(st.sampled_from(sorted(VERBS.keys() - {"sweep", "epsilon_gradient", "delta_gradient"})))
    function, names = VERBS[verb]
    anything = st.floats() | st.integers() | st.lists(st.floats(), max_size=3) | WRONG_TYPE
    kwargs = {name: data.draw(anything | st.just(GOOD[name])) for name in names}
    try:
        answer = function(**kwargs)
    except (ValueError, TypeError) as error:
        answer = str(error)
    if isinstance(answer, str):
        assert any(name in answer for name in [*names, "broadcast"])
    elif isinstance(answer, fa.Bounds):
        assert (np.asarray(answer.lower) >= 0).all()
        assert (np.asarray(answer.lower) <= answer.upper).all()
        assert np.isin(answer.status, list(fa.Status)).all()
    elif verb != "best_order":  # NaN there where nothing is released: no order is involved
        assert (np.asarray(answer) >= 0).all()


def test_messages_name_argument_value_index_and_range():
    with pytest.raises(ValueError, match=r"sample_rate\[1, 0\] = 1\.5 is out of range; allowed: \[0, 1\]"):
        fa.dpsgd.epsilon(noise_multiplier=1, sample_rate=[[0.1], [1.5]], steps=1, delta=1e-5)
    with pytest.raises(ValueError, match=r"steps = 2\.5 .*whole numbers"):
        fa.dpsgd.epsilon(noise_multiplier=1, sample_rate=0.1, steps=2.5, delta=1e-5)
    with pytest.raises(ValueError, match=r"shapes do not broadcast: noise_multiplier \(2,\), sample_rate \(3,\)"):
        fa.dpsgd.epsilon(noise_multiplier=[1, 2], sample_rate=[0.1, 0.1, 0.1], steps=1, delta=1e-5)
    with pytest.raises(ValueError, match=r"noise_multiplier = nan"):
        fa.dpsgd.epsilon(noise_multiplier=math.nan, sample_rate=0.1, steps=1, delta=1e-5)
    with pytest.raises(TypeError, match="missing steps"):
        fa.dpsgd.epsilon(noise_multiplier=1, sample_rate=0.1, delta=1e-5)
    with pytest.raises(TypeError, match="delta"):
        fa.dpsgd.epsilon(noise_multiplier=1, sample_rate=0.1, steps=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "history",
    [
        [],
        [(1.0, 0.1)],
        [(1.0, 0.1, 1, 2)],
        [1.0],
        "abc",
        {"a": 1},
        5,
        [(1.0, 2.0, 3)],
        [(-1, 0.1, 3)],
        [([1.0, 2.0], 0.1, 3)],
    ],
)
def test_bad_histories_are_refused(history):
    for call in (
        lambda: fa.dpsgd.epsilon(history=history, delta=1e-5),
        lambda: fa.dpsgd.delta(history=history, epsilon=1.0),
        lambda: fa.dpsgd.epsilon_bounds(history=history, delta=1e-5),
        lambda: fa.dpsgd.delta_lower(history=history, epsilon=1.0, neighbors="replace_one"),
        lambda: fa.dpsgd.epsilon(history=history, delta=1e-5, accountant=fa.RDP()),
        lambda: fa.dpsgd.rdp(history=history, orders=2.0),
    ):
        with pytest.raises((TypeError, ValueError), match=r"history|missing"):
            call()


def test_history_and_parameters_together_are_refused():
    for call, target in ((fa.dpsgd.epsilon, {"delta": 1e-5}), (fa.dpsgd.delta_bounds, {"epsilon": 1.0})):
        with pytest.raises(TypeError, match="not both"):
            call(history=[(1.0, 0.1, 1)], steps=3, **target)


@pytest.mark.parametrize("bad", ["remove_add", "", None, 3, ["add"]])
def test_unknown_relations_are_refused(bad):
    run = {"noise_multiplier": 1, "sample_rate": 0.1, "steps": 1}
    for call in (
        lambda: fa.dpsgd.epsilon(**run, delta=1e-5, neighbors=bad),
        lambda: fa.dpsgd.delta_bounds(**run, epsilon=1.0, neighbors=bad),
        lambda: fa.dpsgd.rdp(**run, orders=2.0, neighbors=bad),
        lambda: fa.dpsgd.steps(epsilon=1, delta=1e-5, noise_multiplier=1, sample_rate=0.1, neighbors=bad),
    ):
        with pytest.raises((TypeError, ValueError), match="neighbors"):
            call()


@pytest.mark.parametrize("bad", [0, -1, 2.5, "2", True, 10**9, [1]])
def test_bad_threads_are_refused(bad):
    for call in (fa.dpsgd.epsilon, fa.dpsgd.epsilon_bounds):
        with pytest.raises((TypeError, ValueError), match="threads"):
            call(noise_multiplier=1, sample_rate=0.1, steps=1, delta=1e-5, threads=bad)


@pytest.mark.parametrize(
    "bad", [{"orders": []}, {"orders": [1.0]}, {"orders": [0.5]}, {"orders": "abc"}, {"orders": [[2.0]]}, {"orders":
    math.nan},
            {"conversion": "best"}, {"conversion": None}, {"orders": {2, 3}}, {"orders": [2, None]}],
)  # fmt: skip
def test_bad_accountant_options_are_refused(bad):
    with pytest.raises((TypeError, ValueError), match=r"orders|conversion"):
        fa.RDP(**bad)


@pytest.mark.parametrize("bad", ["RDP", fa.RDP, fa.Exact, 3])
def test_what_is_not_an_accountant_is_refused(bad):
    for call in (fa.dpsgd.epsilon, fa.dpsgd.epsilon_bounds, fa.dpsgd.epsilon_approx):
        with pytest.raises(TypeError, match="accountant"):
            call(noise_multiplier=1, sample_rate=0.1, steps=1, delta=1e-5, accountant=bad)


def test_numbers_of_other_types_are_read_exactly():
    run = {"noise_multiplier": 1, "steps": 10, "delta": 1e-5}
    quarter = fa.dpsgd.epsilon(**run, sample_rate=0.25)
    for same in (Fraction(1, 4), np.float32(0.25), np.array(0.25), np.float16(0.25)):
        assert fa.dpsgd.epsilon(**run, sample_rate=same) == quarter
