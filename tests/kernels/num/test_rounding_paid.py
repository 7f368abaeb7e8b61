"""Rounding that is paid for in closed forms: without what is added for it bounds lie on the wrong side of 40 digits."""

import math
import random
import shutil
import subprocess
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa

PROGRAM = r"""
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "renyi/conversion.h"

int main(void)
{
    double k, a, log_delta;
    while (scanf("%la %la %la", &k, &a, &log_delta) == 3)
        printf("%a\n", fa_eps_optimal(k, a, log_delta));
    return 0;
}
"""


def optimal_epsilon(k, a, delta):
    """The smallest epsilon that E exp(a L) <= exp(k) allows at delta, over the place y of the second point (nats)."""
    k, a, delta = mp.mpf(k), mp.mpf(a), mp.mpf(delta)

    def at(t):
        y = mp.exp(-mp.exp(t))
        d = mp.exp(k) - (1 + a) * y**a + a * y ** (1 + a)
        x = (y**a + d / ((1 + a) * delta)) ** (1 / a)
        return mp.log(a * (x / (1 + a) + delta / d * y**a * (x - y)))

    places = [mp.mpf(-25) + mp.mpf(i) / 4 for i in range(127)]
    best = min(range(1, 126), key=lambda i: at(places[i]))
    low, high = places[best - 1], places[best + 1]
    for _ in range(90):
        third = (high - low) / 3
        low, high = (low, high - third) if at(low + third) < at(high - third) else (low + third, high)
    return at(low)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler named cc")
def test_the_optimal_conversion_is_never_below_forty_digits(tmp_path):
    """The order is given and K exact, so that nothing else is rounded upwards."""
    rng = random.Random(3)
    cells = []
    for _ in range(24):
        a, k = math.exp(rng.uniform(math.log(0.5), math.log(60.0))), math.exp(rng.uniform(math.log(1e-3), 0.0))
        cells.append((k, a, math.log(10.0 ** rng.uniform(-12.0, -3.0))))
    (tmp_path / "program.c").write_text(PROGRAM)
    flags = ["-std=gnu11", "-O1", "-w", "-ffp-contract=off", "-I", Path(fa.get_include()), "program.c", "-lm"]
    made = subprocess.run(["cc", *flags, "-o", "program"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    asked = "\n".join(" ".join(x.hex() for x in cell) for cell in cells)
    done = subprocess.run([tmp_path / "program"], input=asked, capture_output=True, text=True, check=True)
    found = [float.fromhex(line) for line in done.stdout.split()]
    with mp.workdps(40):
        for (k, a, log_delta), epsilon in zip(cells, found, strict=True):
            exact = optimal_epsilon(k, a, mp.exp(mp.mpf(log_delta)))
            assert exact <= epsilon <= exact * (1 + mp.mpf(10) ** -10)


def test_deltas_of_gaussians_contain_sixty_digits():
    rng = np.random.default_rng(6)
    noise, steps = np.exp(rng.uniform(math.log(0.3), math.log(30.0), 200)), np.floor(np.exp(rng.uniform(0.0, 6.0, 200)))
    mu = np.sqrt(steps) / noise
    epsilon = np.maximum(mu * (0.5 * mu + rng.uniform(-1.0, 7.0, 200)), 1e-3)
    lower, upper, _ = fa.dpsgd.delta_bounds(noise_multiplier=noise, sample_rate=1.0, steps=steps, epsilon=epsilon)
    assert (upper <= lower * (1.0 + 1e-10)).all()
    with mp.workdps(60):
        for i in range(200):
            m, e = mp.sqrt(mp.mpf(steps[i])) / mp.mpf(noise[i]), mp.mpf(epsilon[i])
            exact = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
            assert lower[i] <= exact <= upper[i]
