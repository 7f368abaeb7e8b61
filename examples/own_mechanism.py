"""A mechanism of one's own: the logistic distribution as noise, from its densities alone.

python examples/own_mechanism.py
"""

import math

import fastacct as fa
from fastacct.testing import check_mechanism

SCALE = 1.0


def log_density(x: float) -> float:
    """Logistic noise, without overflow."""
    y = -abs(x) / SCALE
    return y - 2.0 * math.log1p(math.exp(y)) - math.log(SCALE)


def with_record(x: float) -> float:
    """The query is 1."""
    y = -abs(x - 1.0) / SCALE
    return y - 2.0 * math.log1p(math.exp(y)) - math.log(SCALE)


if __name__ == "__main__":
    noise = fa.jit.mechanism(log_density_p=with_record, log_density_q=log_density, breakpoints=(0.0, 1.0), panels=2048)
    print("one release      ", fa.epsilon_bounds(noise, delta=1e-6))
    print("pure epsilon     ", 1.0 / SCALE)
    print("ten, with Laplace", fa.epsilon_bounds(noise * 10 + fa.Laplace(5.0), delta=1e-6))
    print("sampled          ", fa.epsilon_bounds(noise.poisson(0.01) * 10, delta=1e-6))
    check_mechanism(noise, neighbors="remove")
    print("keeps the contract")
