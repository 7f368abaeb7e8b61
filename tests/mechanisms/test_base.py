"""Fields of every mechanism and accountant, as users and saved states give them: garbage is refused, by TypeError or
ValueError alone."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

import fastacct as fa
from fastacct.mechanisms import EVERY
from fastacct.testing import examples

ACCOUNTANTS = (fa.Exact(), fa.RDP([2.0, 4.0]), fa.PLD(), fa.CLT())
INSIDE = (one for one, _ in fa.GradientWalk(4.0, 3, 50, 2).decompose("add_remove"))  # states may name it, too
KINDS = {type(one): one for one in (*examples(), *INSIDE, *ACCOUNTANTS)}
WRONG = (
    math.nan,
    -math.inf,
    -1.0,
    "no such word",
    b"1",
    1j,
    10**400,
    object(),
    {"a": 1.0},
    [math.nan],
    (math.nan, math.nan),
    ("a", "b"),
    ((1, math.nan),),
    ((1.0, -1.0), (1.0,)),
    np.array([0.5, math.nan]),
    fa.Gaussian,
)
"""What no field allows."""
STRANGE = (math.inf, None, True, 0, 0.5, 2, "", [], (), set(), {}, (math.inf, 1.0), (1.0,), (1.0, 2.0, 3.0), ((1.0,),))
STRANGE += (((0, 0.0),), ((10**9, 0.0),), ((1.0, 2.0, 3.0),), np.zeros((2, 3)), fa.Gaussian(1.0) * 3)
"""What some do."""
CASES = [
    pytest.param(made, one.name, id=f"{kind.__name__}-{one.name}")
    for kind, made in KINDS.items()
    for one in fields(made)
]


def answer(made):
    """Of the mechanism, or of the accountant."""
    hash(made), repr(made)
    if isinstance(made, fa.Mechanism):
        return fa.delta(made, epsilon=0.5, neighbors=made.relations[0])
    return fa.epsilon(fa.Gaussian(2.0), delta=1e-3, accountant=made)


def test_every_mechanism_has_an_example_whose_fields_are_asked():
    assert set(EVERY) <= KINDS.keys()


@pytest.mark.parametrize(("made", "name"), CASES)
def test_what_no_field_allows_is_refused_when_it_is_made(made, name):
    for wrong in WRONG:
        with pytest.raises((TypeError, ValueError)):
            replace(made, **{name: wrong})


@pytest.mark.parametrize(("made", "name"), CASES)
def test_what_some_fields_allow_is_refused_or_answered_with_a_number(made, name):
    for strange in STRANGE:
        try:
            found = answer(replace(made, **{name: strange}))
        except (TypeError, ValueError):
            continue
        assert np.all(np.asarray(found) >= 0.0), (strange, found)


RUN = fa.MatrixGaussian.from_strategy([1.0, 0.5, 0.375], 4.0, bins=20, steps=100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("own", (math.nan, math.nan)),
        ("own", (1.0, math.inf)),
        ("own", (2.0, 1.0)),
        ("own", (-1.0, 1.0)),
        ("own", (1.0, 2.0, 3.0)),
        ("own", (1.0,)),
        ("own", ("a", "b")),
        ("classes", ((10**9, 0.0),)),
        ("classes", ((21, 0.0),)),
        ("classes", ((0, 0.0),)),
        ("classes", ((1.5, 0.0),)),
        ("shared", 4.0),
        ("classes", ((1, math.nan),)),
        ("classes", ((1, -1.0),)),
        ("classes", ()),
        ("classes", ((1, 1.0, 1.0),)),
        ("shared", math.nan),
        ("shared", -1.0),
        ("bins", 0),
        ("bins", 19),
    ],
)
def test_a_matrix_mechanism_made_by_hand_is_checked_as_one_made_from_a_strategy(name, value):
    with pytest.raises((TypeError, ValueError), match=f"{name}|classes"):
        replace(RUN, **{name: value})
    assert fa.epsilon(replace(RUN), delta=1e-6) == fa.epsilon(RUN, delta=1e-6)


def test_tables_are_no_sets_which_lose_equal_values():
    for call in (
        lambda: fa.from_pmf({0.5}, {0.5}),
        lambda: fa.from_losses({0.1, -0.1}, [0.5, 0.5]),
        lambda: fa.RDPCurve({2.0, 4.0}, [0.1, 0.2]),
        lambda: fa.RDPCurve([2.0, 4.0], {0.1: 1, 0.2: 2}),
    ):
        with pytest.raises(TypeError, match="must be a sequence of numbers, not a"):
            call()


def test_one_cell_of_noise_for_a_replaced_record_says_so():
    many = fa.Gaussian(np.array([1.0, 2.0])).marked(True)
    assert many.at((2,), 1).is_replaced
    assert many.at((2,), 1).noise_multiplier == 2.0
    assert not fa.Gaussian(np.array([1.0, 2.0])).at((2,), 1).is_replaced
