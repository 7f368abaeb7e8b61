"""The stored values of the oracle: all that was asked is there, and some of it is computed again."""

import pytest
from mpmath import mp

from tests.data import make_truths
from tests.oracle_data import Question, truths

TRUTHS = truths()
AGAIN = [
    Question("exact_delta", 1.0, 0.01, 1000, 1.5, "remove"),
    Question("exact_delta", 2.0, 0.3, 20, 3.0, "add"),
    Question("exact_epsilon", 2.0, 0.3, 50, 1e-30, "add"),
    *[
        next(one for one in reversed(TRUTHS) if one.quantity == name)
        for name in ("rdp_epsilon", "rdp_delta", "kullback_leibler")
    ],
]


@pytest.mark.parametrize("question", AGAIN, ids=str)
def test_a_sample_is_reproduced(question):
    with mp.workdps(30):
        assert abs(make_truths.value(question) / TRUTHS[question] - 1) <= 10.0 ** -make_truths.DIGITS[question.quantity]


def test_every_run_that_is_listed_has_its_values():
    for run in make_truths.RUNS:
        assert {Question("exact_delta", *run, way) for way in ("remove", "add")} <= TRUTHS.keys()
    assert {Question("exact_epsilon", *tail) for tail in make_truths.TAILS} <= TRUTHS.keys()
    for run in make_truths.random_runs(8, 7):
        assert {Question("rdp_epsilon", *run, one) for one in make_truths.CONVERSIONS} <= TRUTHS.keys()
    assert sum(one.quantity == "rdp_delta" for one in TRUTHS) == 6
