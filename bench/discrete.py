"""Jobs of discrete noise and tables beside dp_accounting's PLD, by kind and by number of releases.

python -m bench.discrete [--write]     # needs dp_accounting; writes a table of docs/backends/dp_accounting.md
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import fastacct as fa

PAGE: Final = Path(__file__).parents[1] / "docs" / "backends" / "dp_accounting.md"
MARK: Final = "<!-- made by bench/discrete.py -->"
KINDS: Final = ("discrete Gaussian", "discrete Laplace", "Skellam", "table")
COUNTS: Final = ((1, 1), (2, 10), (11, 100), (101, 1000), (1001, 5000))


class Drawn(NamedTuple):
    """A random job: the scale of its noise gives an epsilon of some tenths to tens."""

    kind: str
    rate: float
    count: int
    sigma: float
    sensitivity: int
    delta: float
    tables: tuple[np.ndarray, np.ndarray] | None

    def ours(self) -> fa.Process:
        """The job."""
        s, k = self.sigma, self.sensitivity
        made: Any
        if self.tables is not None:
            made = fa.from_pmf(*self.tables)
        elif self.kind == "discrete Gaussian":
            made = fa.DiscreteGaussian(s, sensitivity=k)
        elif self.kind == "discrete Laplace":
            made = fa.DiscreteLaplace(s / math.sqrt(2.0), sensitivity=k)
        else:
            made = fa.Skellam(s * s, sensitivity=k)
        return (made.poisson(self.rate) if self.rate < 1.0 else made) * self.count

    def theirs(self, is_upper: bool) -> float:
        """Epsilon by their PLD with its defaults, pessimistic or optimistic."""
        from dp_accounting.pld import privacy_loss_distribution as pld

        s, k, how = self.sigma, self.sensitivity, {"pessimistic_estimate": is_upper}
        if self.kind == "discrete Gaussian":
            found = pld.from_discrete_gaussian_mechanism(s, sensitivity=k, sampling_prob=self.rate, **how)
        elif self.kind == "discrete Laplace":
            step = math.sqrt(2.0) / s
            found = pld.from_discrete_laplace_mechanism(step, sensitivity=k, sampling_prob=self.rate, **how)
        else:
            p, r = self.tables or _skellam(s * s, k)
            mixed = self.rate * p + (1.0 - self.rate) * r
            up, low = (dict(enumerate(np.log(x).tolist())) for x in (mixed, r))
            found = pld.from_two_probability_mass_functions(low, up, symmetric=False, **how)
        return float(found.self_compose(self.count).get_epsilon_for_delta(self.delta))


def _skellam(variance: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ive

    x = np.arange(-int(12.0 * math.sqrt(variance) + 40.0) - shift, int(12.0 * math.sqrt(variance) + 41.0) + shift)
    p, r = ive(np.abs(x), variance), ive(np.abs(x - shift), variance)
    keep = (p > 1e-200) & (r > 1e-200)
    return p[keep], r[keep]


def drawn(rng: np.random.Generator, kind: str, is_sampled: bool, counts: tuple[int, int]) -> Drawn:
    """A job of one kind and range of counts."""

    def real(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    count, rate = round(real(*counts)), real(1e-3, 0.5) if is_sampled else 1.0
    want = real(0.1, 3.0) / rate / math.sqrt(count)
    sensitivity = int(rng.integers(1, 4)) if rng.random() < 0.3 else 1
    sigma = sensitivity * max(1.0 / math.sqrt(math.log1p(want * want)) if is_sampled else 1.0 / want, 0.5)
    sigma = min(sigma, 1000.0) if kind == "Skellam" else sigma  # a larger variance is refused
    tables = None
    if kind == "table":
        size = int(rng.integers(2, 60))
        r = rng.dirichlet(np.full(size, 2.0))
        p = r * np.exp(rng.normal(0.0, min(sensitivity / sigma, 2.0), size))
        tables = p / p.sum(), r
    return Drawn(kind, rate, count, sigma, sensitivity, real(1e-8, 1e-4), tables)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time in milliseconds, and the answer."""
    start = time.process_time()
    found = call()
    return 1e3 * (time.process_time() - start), found


def measured(one: Drawn) -> tuple[float, float, bool, float]:
    """Both times, whether ours is TIGHT, and by how much theirs is above the truth; values are compared first."""
    job = one.ours()
    ours, (_, upper, status) = timed(lambda: fa.epsilon_bounds(job, delta=one.delta))
    theirs, most = timed(lambda: one.theirs(True))
    least = one.theirs(False)
    assert upper <= most * (1.0 + 1e-9) + 1e-12, (one, upper, most)
    assert upper >= least * (1.0 - 1e-9) - 1e-12, (one, upper, least)
    return ours, theirs, status == fa.Status.TIGHT, most / upper - 1.0 if upper > 0.0 else 0.0


def table(each: int, seed: int) -> list[str]:
    """Mean times of each kind and range; what we lose is bold."""
    rng = np.random.default_rng(seed)
    for kind in KINDS:  # what is imported late
        measured(drawn(np.random.default_rng(99), kind, True, (20, 20)))
    heads = [f"{low} to {high}" if high > low else "1 release" for low, high in COUNTS]
    rows = [f"| ours / theirs, ms | {' | '.join(heads)} |", "|---|" + "---|" * len(COUNTS)]
    every: list[tuple[float, float, bool, float]] = []
    for kind in KINDS:
        for is_sampled in (False, True):
            cells = []
            for counts in COUNTS:
                found = [measured(drawn(rng, kind, is_sampled, counts)) for _ in range(each)]
                every += found
                ours, theirs = (float(np.mean([x[i] for x in found])) for i in (0, 1))
                mark = "**" if ours > theirs else ""
                cells.append(f"{mark}{ours:.3g} / {theirs:.3g}{mark}")
            rows.append(f"| {kind}{', sampled' if is_sampled else ''} | {' | '.join(cells)} |")
    times = np.array([x[:2] for x in every])
    many = np.tile(np.repeat([False, *[True] * (len(COUNTS) - 1)], each), 2 * len(KINDS))
    slower, twice = times[:, 0] > times[:, 1], times[:, 0] > 2.0 * times[:, 1]
    above = 100.0 * np.median([x[3] for x, is_one_of_many in zip(every, many, strict=True) if is_one_of_many])
    tight, share = np.mean([x[2] for x in every]), times[:, 0].sum() / times[:, 1].sum()
    rows += [
        "",
        f"Of these {len(every)} jobs {tight:.0%} are `TIGHT`. Ours take {share:.2f} of their time in all. "
        f"Of single releases ours are slower in {slower[~many].mean():.0%}. Of two and more ours are slower in "
        f"{slower[many].mean():.0%}, and take more than twice their time in {twice[many].mean():.0%}. Their epsilon of "
        f"those is too large by {above:.2g} %, in the median.",
    ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--each", type=int, default=5, help="jobs of a kind and a range")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows = table(asked.each, asked.seed)
    print("\n".join(rows))
    if asked.write:
        before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
        PAGE.write_text(MARK.join([before, "\n" + "\n".join(rows) + "\n", after]), encoding="utf-8")


if __name__ == "__main__":
    main()
