"""Delta of two steps of the Poisson-sampled Gaussian: one integral of the closed form of one step."""

from __future__ import annotations

from itertools import pairwise

from mpmath import mp, mpf

from .certify import NotConverged, bits
from .run import Run


def two_steps(run: Run, eps: mpf, direction: str, goal: int, level: int) -> mpf:
    """Return the integral over the loss L of one step of the closed form of the other step's delta(eps -+ L).

    The closed form is not analytic where the other step's loss is at its infimum: there the integral is split. The
    tanh-sinh rule does not mind what happens at the ends.
    """
    lost = 5
    while True:
        with mp.workprec(bits(goal + lost) + 64 + 2 * max(0, -mp.mag(run.q)) + 24 * level):
            total, largest = _two_steps_sum(run, eps, direction, goal + lost, level)
            needed = 5 if total <= 0 else 5 + max(0, int(mp.log10(largest / total)) + 1)
            if total > 0 and needed <= lost:
                return total
            lost = max(needed, 2 * lost)
            if lost > 400 + 20 * goal:
                raise NotConverged(f"two steps at {run}: delta is too small")


def _two_steps_sum(run: Run, eps: mpf, direction: str, goal: int, level: int) -> tuple[mpf, mpf]:
    s, q = run.s, run.q
    least = mp.log1p(-q)
    grown = mp.exp(eps)
    half = 1 / (2 * s * s)
    root_two = mp.sqrt(2)

    def gaussian(e_eps: mpf) -> mpf:
        near, far = (half - mp.log(e_eps)) * s, (-half - mp.log(e_eps)) * s
        return (mp.erfc(-near / root_two) - e_eps * mp.erfc(-far / root_two)) / 2

    def integrand(z: mpf) -> mpf:
        ratio = 1 - q + q * mp.exp((2 * z - 1) * half)
        if direction == "remove":
            here = grown / ratio
            rest = here - 1 + q
            inner = q * gaussian(rest / q) if rest > 0 else 1 - here
            return ratio * inner
        here = grown * ratio
        rest = 1 - (1 - q) * here
        return rest * gaussian(q * here / rest) if rest > 0 else mpf(0)

    reach = s * mp.sqrt(2 * mp.log(10) * goal) + s
    low, high = -reach, reach + (1 if direction == "remove" else 0)
    # the loss of the outer step at which the inner one is at its infimum, and the z there
    bound = mp.exp(eps - least if direction == "remove" else -least - eps)
    cuts = [low, high]
    if bound > 1 - q:
        kink = (1 + 2 * s * s * mp.log((bound - 1 + q) / q)) / 2
        # beyond it the inner closed form is at most 1, so that there the normal density decides
        cuts = [min(low, kink - reach), kink, max(high, kink + reach)]
    step = mpf(2) / (goal + 10) * mpf(0.8) ** level
    total = largest = mpf(0)
    for left, right in pairwise(cuts):
        pieces = max(1, int((right - left) / (6 * s)))
        edges = [left + (right - left) * k / pieces for k in range(pieces + 1)]
        for a, b in pairwise(edges):
            reach_t = mp.asinh(mp.log(10) * (goal + 5) / mp.pi)
            n = int(reach_t / step) + 1
            for k in range(-n, n + 1):
                t = (k + mpf(level % 2) / 2) * step
                inner = mp.pi / 2 * mp.sinh(t)
                tail = 2 / (1 + mp.exp(2 * abs(inner)))  # distance from the nearer end, in half-lengths
                distance = tail * (b - a) / 2
                z = b - distance if t > 0 else a + distance
                weight = step * (b - a) / 2 * mp.pi / 2 * mp.cosh(t) / mp.cosh(inner) ** 2
                value = weight * mp.exp(-z * z * half) * integrand(z)
                total += value
                largest = max(largest, abs(value))
    norm = s * mp.sqrt(2 * mp.pi)
    return total / norm, largest / norm
