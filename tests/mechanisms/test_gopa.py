"""Noise that parties share: what is known of one of them is the inverse of the covariance, at its own place."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.mechanisms import gopa


def square_of(own, shared, parties, edges, colluding=()):
    """mu^2 of the worst honest party: colluding ones take away the noise that they share with others."""
    honest = [one for one in range(parties) if one not in colluding]
    cov = own * np.eye(parties)
    for i, j in edges:
        if i in honest and j in honest:
            cov[[i, j], [i, j]] += shared
            cov[i, j] -= shared
            cov[j, i] -= shared
    inside = cov[np.ix_(honest, honest)]
    return float(np.diag(np.linalg.inv(inside)).max())


RING = [(i, (i + 1) % 7) for i in range(7)]


@pytest.mark.parametrize(("own", "shared"), [(1.0, 0.5), (0.1, 10.0), (2.0, 0.0)])
@pytest.mark.parametrize("colluding", [(), (0,), (0, 3)])
def test_noise_along_given_edges(own, shared, colluding):
    for edges in (RING, [*RING, (0, 3), (1, 5)]):
        found = fa.GOPA(own, shared, parties=7, edges=edges, colluding=colluding).mu ** 2
        truth = square_of(own, shared, 7, edges, colluding)
        assert truth * (1.0 - 1e-13) <= found <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize("colluding", [0, 1, 4])
def test_noise_between_all_parties(colluding):
    found = fa.GOPA(0.5, 2.0, parties=7, colluding=colluding).mu ** 2
    truth = square_of(0.5, 2.0, 7, list(itertools.combinations(range(7), 2)), range(colluding))
    assert truth * (1.0 - 1e-13) <= found <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize("shared", [1.0, 1e9])
def test_of_a_random_graph_the_average_and_the_failure_are_left(monkeypatch, shared):
    """However much noise is shared, it cancels in the average of all; and the graph may be a bad one."""
    monkeypatch.setattr(gopa, "kout_resistance", lambda *_: (0.25, 5e-7))
    drawn = fa.GOPA(1.0, shared, parties=14, colluding=2, draws=8, graph_delta=1e-6)
    assert 1.0 / 12.0 <= drawn.mu**2 <= 1.0
    assert fa.epsilon(drawn, delta=4e-7, neighbors=drawn.relations[0]) == math.inf
