"""A small sweep, for tests."""

import fastacct as fa
from fastacct.sweep import cost, store
from fastacct.sweep.grid import chunk_shape

AXES = {
    "noise_multiplier": [1.0, 0.7, 2.0],
    "sample_rate": [0.01, 0.02],
    "steps": [100, 1000, 10, 5000],
    "delta": [1e-5, 1e-7],
}


def plan(**changes):
    return fa.sweep(**{**AXES, **changes})


def run(**changes):
    return plan(**changes).compute()


def cut_small(monkeypatch):
    """Files of five cells a chunk."""
    monkeypatch.setattr(store, "chunks_of", lambda one: chunk_shape(one.shape, 5))
    monkeypatch.setattr(cost, "chunks_of", lambda one: chunk_shape(one.shape, 5))
