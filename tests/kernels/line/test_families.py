"""What nodes of losses that are data leave out of moments for which they are not made (line/families.h)."""

from functools import cache

import pytest
from mpmath import exp, expm1, log, log1p, mp, mpf, quad

from tests.kernel_parts import call


@cache
def moment(scale, rate, a):
    """log E[exp(a L)] under the data without the record, of one sampled release of Laplace noise."""
    with mp.workdps(30):
        top = 1 / mpf(scale)

        def grown(x):
            return exp(a * log1p(mpf(rate) * expm1(x)))

        ends = (grown(-top) + exp(-top) * grown(top)) / 2
        return log(ends + quad(lambda x: exp(-(x + top) / 2) * grown(x) / 4, [-top, 0, top]))


@pytest.mark.parametrize(
    ("scale", "rate", "a", "least"),
    [(0.05, 1.0, -4.0, 1e-3), (0.05, 1.0, -1.5, 1e-6), (0.1, 1.0, -4.0, 1e-6), (0.1, 0.3, -1.5, 1e-7)],
)
def test_moments_for_which_nodes_are_not_made_have_what_these_leave_out(scale, rate, a, least):
    """Of sums that come back: nodes of a line are made for other exponents."""
    truth = moment(scale, rate, a)
    plain, more = call("flat", "back", scale, rate, 0.5, 1e3, a, answers=2)
    assert plain + least < truth <= more
