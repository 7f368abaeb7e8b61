"""Measures every kernel against the oracle, domain by domain, and writes docs/accuracy.md.

    python -m tests.accuracy [--points N] [--write FILE]

The excess of an upper bound is (bound - truth) / truth: it must never be negative.  Exit status 1 if one is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from tests.oracle_data import load, relative_excess

import fastacct as fa
from bench import scores
from bench.stamp import measured_with
from fastacct import reference
from fastacct_ext import _kernels

LEVELS = ("x86-64-v4", "x86-64-v3", "baseline")


class Row(NamedTuple):
    kernel: str
    domain: str
    points: int
    below: int
    peak: float
    rms: float


def row(kernel: str, domain: str, bound: Any, truth: list[Any]) -> Row:
    excess = relative_excess(bound, truth)
    return Row(
        kernel, domain, excess.size, int((excess < 0).sum()), float(excess.max()), float(np.sqrt((excess**2).mean()))
    )


def lower_row(kernel: str, domain: str, bound: Any, truth: list[Any]) -> Row:
    """The same of a lower bound: what it lacks, and how often it is on the wrong side."""
    lack = -relative_excess(bound, truth)
    return Row(kernel, domain, lack.size, int((lack < 0).sum()), float(lack.max()), float(np.sqrt((lack**2).mean())))


def rdp_rows(n_points: int) -> list[Row]:
    rng = np.random.default_rng(1)
    stored = load()
    rows = []
    for level in LEVELS:
        try:
            _kernels.select(level)
        except ValueError:
            continue
        upper = fa.dpsgd.rdp(
            noise_multiplier=stored.noise_multiplier, sample_rate=stored.sample_rate, orders=stored.order
        )
        rows.append(
            row(f"rdp, {level}", "whole domain: q 1e-12..1, sigma 0.03..1e4, alpha 1..1e5, corners", upper, stored.rdp)
        )
    _kernels.select()
    everyday = iter(scores.draw("everyday", n_points))
    domains: dict[str, Callable[[], tuple[float, float, float]]] = {
        "everyday runs, alpha 1.1..64": lambda: (
            (run := next(everyday)).sample_rate,
            run.noise_multiplier,
            rng.uniform(1.1, 64),
        ),
        "tiny q: 1e-12..1e-6": lambda: (
            10 ** rng.uniform(-12, -6),
            10 ** rng.uniform(-1, 2),
            1 + 10 ** rng.uniform(-3, 3),
        ),
        "alpha -> 1: alpha - 1 in 1e-15..1e-3": lambda: (
            10 ** rng.uniform(-6, 0),
            10 ** rng.uniform(-1, 2),
            1 + 10 ** rng.uniform(-15, -3),
        ),
        "small sigma: 0.03..0.3": lambda: (
            10 ** rng.uniform(-8, 0),
            10 ** rng.uniform(-1.5, -0.5),
            1 + 10 ** rng.uniform(-4, 2),
        ),
        "large sigma: 100..1e4": lambda: (
            10 ** rng.uniform(-8, 0),
            10 ** rng.uniform(2, 4),
            1 + 10 ** rng.uniform(-2, 5),
        ),
    }
    for domain, draw in domains.items():
        drawn = [draw() for _ in range(n_points)]
        truth = [reference.rdp(s, q, a, digits=20) for q, s, a in drawn]
        q, s, a = (np.array(column) for column in zip(*drawn, strict=True))
        rows.append(row("rdp", domain, fa.dpsgd.rdp(noise_multiplier=s, sample_rate=q, orders=a), truth))
    return rows


def series_rows() -> list[Row]:
    stored = load()
    keep = (stored.order == np.floor(stored.order)) & (stored.sample_rate < 1) & (stored.order < 1e4)
    truth = [t for t, k in zip(stored.rdp, keep, strict=True) if k]
    upper = fa.dpsgd.rdp(
        noise_multiplier=stored.noise_multiplier[keep],
        sample_rate=stored.sample_rate[keep],
        orders=stored.order[keep],
        method="series",
    )
    return [row("binomial series", "integer alpha 2..1e4, whole domain", upper, truth)]


def gaussian_rows(n_points: int) -> list[Row]:
    rng = np.random.default_rng(2)
    sigma, epsilon, truth = [], [], []
    with mp.workdps(40):
        for _ in range(n_points):
            s = 10 ** rng.uniform(-1, 4)
            e = rng.uniform(0, 8) / s + 0.5 / s**2
            sigma.append(s)
            epsilon.append(e)
            truth.append(reference.gaussian_delta(1 / mpf(s), e, digits=20))
    value = fa.dpsgd.delta(
        noise_multiplier=sigma, sample_rate=1, steps=1, epsilon=epsilon, accountant=fa.AnalyticGaussian()
    )
    return [row("analytic Gaussian delta", "mu 1e-4..10, delta 1e-15..0.5", value, truth)]


def epsilon_rows(n_points: int) -> list[Row]:
    rows = []
    for conversion, count in (
        ("canonne_kamath_steinke", n_points),
        ("mironov", n_points),
        ("optimal", max(2, n_points // 4)),
    ):
        runs = scores.draw("everyday", count)
        truth = [reference.rdp_epsilon(*run, conversion, digits=16)[0] for run in runs]
        value = fa.dpsgd.epsilon(**runs.keywords(), accountant=fa.RDP(conversion=conversion))
        rows.append(row(f"epsilon, {conversion}", "everyday runs, best real order", value, truth))
    return rows


def exact_rows(n_points: int) -> list[Row]:
    rng = np.random.default_rng(4)

    def tiny_delta() -> tuple[float, float, int, float]:
        sigma, q = rng.uniform(0.9, 8), 10 ** rng.uniform(-3, -0.5)
        return sigma, q, int(10 ** rng.uniform(np.log10(20 / q), 5)), 10 ** rng.uniform(-30, -15)

    domains: dict[str, tuple[int, Callable[[], tuple[float, float, int, float]]]] = {
        "everyday runs": (n_points, partial(next, iter(scores.draw("everyday", 100 * n_points)))),
        "tiny delta: 1e-30..1e-15, q 1e-3..0.3, sigma 0.9..8, T 60..1e5, T q > 20": (max(2, n_points // 2), tiny_delta),
        "T = 1, 2: q 1e-3..0.5, sigma 0.6..5, delta 1e-12..1e-2": (
            n_points,
            lambda: (
                rng.uniform(0.6, 5),
                10 ** rng.uniform(-3, -0.3),
                int(rng.integers(1, 3)),
                10 ** rng.uniform(-12, -2),
            ),
        ),
    }
    rows = []
    for domain, (count, draw) in domains.items():
        for direction in ("remove", "add"):
            sigma, q, steps, epsilon, truth = [], [], [], [], []
            while len(truth) < count:
                s, p, t, delta = draw()
                run = {"noise_multiplier": s, "sample_rate": p, "steps": t, "neighbors": direction}
                eps = float(fa.dpsgd.epsilon(**run, delta=delta))
                exact = reference.exact_delta(s, p, t, eps, direction=direction, digits=16)
                if exact == 0:  # nothing to be relative to
                    continue
                for column, value in zip((sigma, q, steps, epsilon, truth), (s, p, t, eps, exact), strict=True):
                    column.append(value)
            bounds = fa.dpsgd.delta_bounds(
                noise_multiplier=sigma, sample_rate=q, steps=steps, epsilon=epsilon, neighbors=direction
            )
            rows.append(row(f"exact delta, {direction}", domain, bounds.upper, truth))
            rows.append(lower_row(f"exact delta, {direction}, lower bound", domain, bounds.lower, truth))
    return rows


def table(rows: list[Row]) -> str:
    head = "| kernel | domain | points | on the wrong side | peak excess | rms excess |\n"
    head += "|---|---|---:|---:|---:|---:|\n"
    return head + "".join(
        f"| {r.kernel} | {r.domain} | {r.points} | {r.below} | {r.peak:.1e} | {r.rms:.1e} |\n" for r in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200, help="random points per domain")
    parser.add_argument("--write", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    rows = (
        rdp_rows(options.points)
        + series_rows()
        + gaussian_rows(options.points)
        + epsilon_rows(options.points // 10)
        + exact_rows(options.points // 20)
    )
    text = f"""# Measured accuracy of the kernels

Written by `make accuracy`, measured with {measured_with()}. The oracle is `fastacct.reference` (mpmath, at least 16
certified digits). The excess of an upper bound is (bound - truth) / truth, compared exactly. It contains the allowance
for errors that is added to every result: positive where that is honest, and small where it is sharp. The truth of an
epsilon is the infimum over orders, as these are kernels of Rényi DP and of delta. README has widths of exact answers.
In the rows of a lower bound the excess is (truth - bound) / truth, and the wrong side is above the truth.

{table(rows)}
Everyday runs: {scores.REGIMES["everyday"]} (`bench.scores.draw`).
"""
    print(text)
    if options.write:
        options.write.write_text(text)
    return 1 if any(r.below for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
