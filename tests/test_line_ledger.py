"""Each entry of the ledger of the line of compiled mechanisms is needed: bounds hold with it, and without it do not.

Lines are made so coarse, or end so early, that one entry matters; taking it out must break the containment.
"""

from __future__ import annotations

import numpy as np
import pytest

import fastacct as fa

pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")

from fastacct.readers import line as module
from fastacct.readers import line_nodes
from fastacct.readers.line import CompiledLine, _Line

COUNT, EPSILON = 20, 20.0
AROUND = np.linspace(14.0, 30.0, 33)


def log_p(x):
    return -0.5 * (x - 1.0) ** 2 - 0.9189385332046727


def log_q(x):
    return -0.5 * x * x - 0.9189385332046727


@pytest.fixture(scope="module")
def truth():
    return fa.log_delta_bounds(fa.Gaussian(1.0) * COUNT, epsilon=AROUND, neighbors="remove")


def made(**options) -> _Line:
    """The line of some Gaussians that serves one epsilon."""
    gaussian = fa.jit.mechanism(log_density_p=log_p, log_density_q=log_q, **options)
    job = CompiledLine([(gaussian, 1.0, float(COUNT))], 0)
    return job._evaluated(round(job._saddle(EPSILON, None)[0] / module._APART))


def violations(line, truth):
    """At how many epsilons a bound is on the wrong side of the truth."""
    found = np.array([line.bounds(epsilon) for epsilon in AROUND.tolist()])
    return int(((found[:, 0] > truth.upper) | (found[:, 1] < truth.lower)).sum())


def test_aliases_of_a_coarse_line_are_paid(monkeypatch, truth):
    monkeypatch.setattr(module, "_TOLERANCE", 4.0)
    line = made()
    assert violations(line, truth) == 0
    line.sides = []
    assert violations(line, truth) > 0


def test_the_tail_of_a_line_that_ends_early_is_paid(monkeypatch, truth):
    place = _Line._place
    monkeypatch.setattr(module, "_TOLERANCE", 2.0)
    monkeypatch.setattr(
        _Line, "_place", lambda self, parts, epsilon, target, width: place(self, parts, epsilon, target - 500.0, width)
    )
    line = made()
    assert violations(line, truth) == 0
    line.log_tail = -np.inf
    assert violations(line, truth) > 0


def test_errors_of_coarse_nodes_are_paid(monkeypatch, truth):
    monkeypatch.setattr(line_nodes, "_PANELS", 16)
    monkeypatch.setattr(line_nodes, "_MISSED", 1.0)  # else such panels are refused
    line = made()
    assert violations(line, truth) == 0
    line.grown = 0.0
    assert violations(line, truth) > 0
