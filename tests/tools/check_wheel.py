"""Check the fastacct that is installed: complete, outside of the checkout, and right.

    python tests/tools/check_wheel.py

The numbers are those of fastacct.reference, which is not asked here: NumPy is all that is needed.
tests/of_tools/test_wheel.py computes them anew.
"""

import os
import sys
from importlib import metadata

import fastacct as fa

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
NEAR = 1e-9
"""How far bounds, and a calibrated value on the safe side, may be from the truth, relatively."""
VALUES = {  # the truth, bounds of it, and their status
    "epsilon": ("1.8282366665165769", lambda: fa.dpsgd.epsilon_bounds(**RUN, delta=1e-5), "TIGHT"),
    "delta": (
        "6.705136979991852e-6",
        lambda: fa.dpsgd.delta_bounds(noise_multiplier=1.1, sample_rate=0.004, steps=3000, epsilon=1.0),
        "TIGHT",
    ),
    "Rényi divergence of order 4.5": (
        "0.049743415985753517",
        lambda: fa.dpsgd.rdp_bounds(noise_multiplier=2.0, sample_rate=0.05, steps=30, orders=4.5),
        "TIGHT",
    ),
    "delta of two releases of Laplace noise": (
        "0.14805904621602445",
        lambda: fa.delta_bounds(fa.Laplace(2.0) * 2, epsilon=0.4),
        "TIGHT",
    ),
    "delta of batches of fixed size": (
        "0.0087522455743033362",
        lambda: fa.delta_bounds(fa.Gaussian(4.0).fixed_size(5, 100) * 100, epsilon=0.5, neighbors="replace_one"),
        "LOOSE",
    ),
    "false-negative rate at 5 % false positives": (
        "0.91900193062219927",
        lambda: fa.tradeoff_bounds(fa.Gaussian(1.0).poisson(0.05) * 10, 0.05, neighbors="remove"),
        "TIGHT",
    ),
}
NOISE = "0.81358446744252791"
"""The least noise multiplier of 1,000 steps at rate 0.01 with epsilon 3 at delta 1e-5."""


def wrong(name, truth, ask, status):
    """What is wrong with the bounds of one value; empty if nothing is."""
    lower, upper, code = (float(x) for x in ask())
    truth, half_a_digit = float(truth), 1e-13 * float(truth)
    told = f"{name}: [{lower!r}, {upper!r}] {fa.Status(int(code)).name}, and the truth is {truth!r}, {status}"
    is_inside = lower - half_a_digit <= truth <= upper + half_a_digit
    is_near = upper <= truth * (1.0 + NEAR) and (status == "LOOSE" or lower >= truth * (1.0 - NEAR))
    return "" if is_inside and is_near and fa.Status(int(code)).name == status else told


def faults():
    """What is wrong with the numbers of this installation."""
    found = [text for name, row in VALUES.items() if (text := wrong(name, *row))]
    given = {"sample_rate": 0.01, "steps": 1000, "epsilon": 3.0, "delta": 1e-5}
    noise, least = fa.dpsgd.noise_multiplier(**given), float(NOISE)
    if not least * (1.0 - 1e-12) <= noise <= least * (1.0 + NEAR):
        found.append(f"noise multiplier: {noise!r}, and the least one is {least!r}")
    return found


if __name__ == "__main__":
    assert fa.__version__ == metadata.version("fastacct"), fa.__version__
    assert fa.__file__.startswith(sys.prefix), fa.__file__
    assert fa.get_include().startswith(sys.prefix), fa.get_include()
    assert os.path.isfile(os.path.join(fa.get_include(), "fastacct.h"))
    assert os.path.isfile(os.path.join(fa.get_include(), "..", "fastacct.c"))
    assert not faults(), "\n".join(faults())
    print(len(VALUES) + 1, "values right, from", fa.__file__, "on", sys.version.split()[0])
