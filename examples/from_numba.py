"""The kernels in compiled code: a search that calls the exact accountant without leaving Numba.

python examples/from_numba.py
"""

import numba
import numpy as np

import fastacct as fa

epsilon_of = fa.jit.dpsgd_epsilon()


@numba.njit
def smallest_noise(rates: np.ndarray, steps: float, delta: float, target: float) -> np.ndarray:
    """By bisection, for every rate."""
    out = np.empty(rates.size)
    for i in range(rates.size):
        low, high = 0.2, 50.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            if epsilon_of(middle, rates[i], steps, delta) > target:
                low = middle
            else:
                high = middle
        out[i] = high
    return out


if __name__ == "__main__":
    rates = np.geomspace(1e-3, 1e-1, 5)
    print(smallest_noise(rates, 1000.0, 1e-5, 2.0))
    print(fa.dpsgd.noise_multiplier(epsilon=2.0, delta=1e-5, sample_rate=rates, steps=1000))
