"""Derivatives of log delta from their integrals, in arbitrary precision: `python -m tests.gradient_oracle`.

Along the hyperbola of `fastacct.reference.path`, with M(u) = E_Q[exp(u L)], p = 1 - exp(-l) and l = L - log(1-q),
dM/ds = -u (u-1)/s^3 E_Q[p^2 exp(u L)], dM/dq = u/q E_Q[(1 - exp(-L)) exp(u L)], d M^T/dT = M^T log M, log M followed
along the path.
"""

import contextlib
import math

import gmpy2
import numpy as np
from mpmath import mp, mpf

from fastacct.reference.certify import NotConverged, bits
from fastacct.reference.hyperbola import CELL, Hyperbola
from fastacct.reference.loss_in_doubles import LossInDoubles
from fastacct.reference.path import _nodes, _to_mpfr
from fastacct.reference.run import Run

ANGLE, MOST_TERMS = 74.0, 1_500_000


def plan_of(run, eps, direction, digits):
    """The hyperbola through the saddle, and how far and fine it is summed."""
    loss, nats = LossInDoubles(run), math.log(10) * digits + 6
    saddle, width = loss.saddle(run.steps, eps, direction)
    hyperbola = Hyperbola(loss, run.steps, eps, direction, saddle, 2.0 * width, math.radians(ANGLE))
    least = float(hyperbola.log_size(np.zeros(1), loss.line(np.full(1, complex(saddle)), nats)[1])[0])
    plan = hyperbola.plan(nats, least)
    if plan is None or plan.n_terms > MOST_TERMS:
        raise NotConverged("no path that is short enough")
    return plan


def log_gradient(noise_multiplier, sample_rate, steps, epsilon, direction, digits=22):
    """log delta and its derivatives by noise multiplier, sample rate, steps and epsilon; steps may be real."""
    run = Run(noise_multiplier, sample_rate, 2)
    run.steps = float(steps)
    plan = plan_of(run, float(epsilon), direction, digits)
    vertex, size, angle, h = plan.hyperbola.vertex, plan.hyperbola.size, plan.hyperbola.angle, plan.step
    total, j, before = [gmpy2.mpfr(0)] * 5, 0, None
    precision = bits(digits + math.log10(run.steps)) + 16 + int(math.log2(plan.biggest * run.steps + 2))
    with gmpy2.context(gmpy2.get_context(), precision=precision), mp.workprec(precision + max(0, -mp.mag(run.q))):
        constants = [
            _to_mpfr(v) for v in (run.s, mp.log(run.q / (1 - run.q)), mp.log1p(-run.q), 1 / mp.sqrt(2 * mp.pi))
        ]
        s, kappa, q, eps = constants[0], constants[2], _to_mpfr(run.q), _to_mpfr(mpf(epsilon))
        for i, (line, _) in enumerate(plan.cells):
            nodes = [(loss, log_w, gmpy2.exp(-loss)) for loss, log_w in _nodes(line, constants, 0.0)]
            while j * h < (i + 1) * CELL:
                turn = gmpy2.mpc(gmpy2.mpfr(h) * j, angle)
                u = vertex + size * (gmpy2.cosh(turn) - gmpy2.cos(gmpy2.mpfr(angle)))
                terms = [(gmpy2.exp(u * loss + log_w), loss, down) for loss, log_w, down in nodes]
                m = sum(e for e, _, _ in terms)
                log_m, slope = gmpy2.log(m), sum(e * loss for e, loss, _ in terms) / m
                if before is not None:  # the branch that continues that of the point before
                    expected = before[1] + float((before[2] * (u - before[0])).imag)
                    log_m += gmpy2.mpc(0, 2 * gmpy2.const_pi() * round((expected - float(log_m.imag)) / (2 * math.pi)))
                before = u, float(log_m.imag), slope
                log_m += kappa * u
                rate = 1 - u if direction == "remove" else u
                weight = size * gmpy2.sinh(turn) / (u * (u - 1)) * (h * (2 if j else 1)) / gmpy2.mpc(0, 2)
                f = gmpy2.exp(run.steps * log_m + rate * eps) * weight / gmpy2.const_pi()
                by_noise = -run.steps / s**3 * u * (u - 1) * sum(e * (1 - down) ** 2 for e, _, down in terms) / m
                by_rate = run.steps / q * u * sum(e * (1 - down * gmpy2.exp(-kappa)) for e, _, down in terms) / m
                factors = (1, by_noise, by_rate, log_m, rate)
                total = [t + (f * factor).real for t, factor in zip(total, factors, strict=True)]
                j += 1
        return float(gmpy2.log(total[0])), *(float(t / total[0]) for t in total[1:])


RUNS = [  # noise_multiplier, sample_rate, steps, epsilon, direction
    (1.0, 0.01, 1000, 1.5, "remove"),
    (1.0, 0.01, 1000, 1.5, "add"),
    (1.0, 0.01, 10000, 6.0, "remove"),
    (1.0, 0.01, 10000, 6.0, "add"),
    (1.1, 0.004, 14062.5, 2.4, "remove"),
    (2.0, 0.1, 100, 1.0, "remove"),
    (2.0, 0.1, 100, 1.0, "add"),
    (0.9, 1e-3, 5000, 0.4, "remove"),
    (0.5, 1e-4, 10000, 0.15, "add"),
    (0.8, 0.02, 12, 1.0, "remove"),
    (0.8, 0.02, 12, 0.1, "add"),
    (4.0, 0.3, 1000, 16.0, "remove"),
    (6.0, 0.24, 4915, 23.4, "add"),
    (0.75, 0.16, 5, 0.7, "add"),
    (1.25, 0.22, 3, 4.6, "remove"),
    (7.0, 1e-5, 60000, 1e-3, "remove"),
]

if __name__ == "__main__":
    for one in RUNS:
        with contextlib.suppress(NotConverged):
            print(f"    ({one!r}, {log_gradient(*one)!r}),", flush=True)
