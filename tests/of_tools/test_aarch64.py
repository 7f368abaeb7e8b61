"""What `python -m tests.aarch64` finds wrong with answers of another processor; `make aarch64` runs it."""

from pathlib import Path

import numpy as np
import pytest

from tests.aarch64 import TRUSTED, compare, random_cells, random_jobs


@pytest.fixture(scope="module")
def asked():
    """Some cells and jobs, and what this processor says of them."""
    rng = np.random.default_rng(4)
    return random_cells(16, rng) + random_jobs(2, rng)


def told(asked, change=lambda *answer: answer):
    """What another processor would print, some answers changed."""
    rows = [
        change(one.quantity, *bounds) for one in asked for bounds in zip(one.lower, one.upper, one.status, strict=True)
    ]
    return "".join(f"{low.hex()} {high.hex()} {status}\n" for _, low, high, status in rows)


def tight(change):
    """A change of epsilons and deltas that are known and not 0 or 1."""
    return lambda name, low, high, status: (
        change(name, low, high, status)
        if name in ("e", "d", "EPSILON", "DELTA") and 0.0 < low < high < 1e300 and status == 0
        else (name, low, high, status)
    )


def test_the_same_answers_are_right(asked):
    wrong, most, count = compare(asked, told(asked))
    assert (wrong, most) == ([], 0.0)
    assert count > 16
    assert {one.quantity for one in asked} >= {"e", "d", "r", "n", "EPSILON", "DELTA", "LOG_DELTA"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda name, low, high, status: (name, low * (1 + 3e-6), high * (1 + 3e-6), status), "apart"),
        (lambda name, low, high, status: (name, low * (1 - 3e-6), high * (1 - 3e-6), status), "apart"),
        (lambda name, low, high, status: (name, low, high * (1 + 4e-12), status), "away"),
        (lambda name, low, high, status: (name, low, high, 1), "another status"),
    ],
)
def test_others_are_not(asked, change, word):
    wrong, *_ = compare(asked, told(asked, tight(change)))
    assert sum(word in one for one in wrong) > 4


def test_answers_that_are_missing_are_noticed(asked):
    with pytest.raises((StopIteration, RuntimeError)):
        compare(asked, told(asked[:-1]))
    assert compare(asked[:-1], told(asked))[0] == ["more answers than questions"]


def test_the_errors_allowed_are_those_that_the_guarantees_name():
    text = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()
    assert "`exp`, `log`, `log1p`, `expm1` of the C library are trusted to\none unit in the last place (2 u" in text
    assert "`erfc` to 10 u" in text
    assert TRUSTED == {"exp": 2.0, "expm1": 2.0, "log": 2.0, "log1p": 2.0, "erfc": 10.0}
