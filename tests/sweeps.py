"""A small sweep, for tests."""

import fastacct as fa

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
