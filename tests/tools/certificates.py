"""Random jobs with certificates, beside the engine: python -m tests.certificates [JOBS [SEED [FILE]]], 100 and 1.

A proved epsilon must not be below the engine's lower bound; how far above the upper bound it is, and what it takes,
is printed.  FILE has a line for each job that was drawn, and is gone on with.  `--kinds` lists what is drawn.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from tests.random_jobs import RELATIONS, between

import fastacct as fa

LARGEST = 30.0
"""Epsilon of a job that is asked."""
SLOWEST = 60.0
"""Seconds of a certificate."""
GOALS = ((0.5, 2e-5), (0.99, 1e-4))
"""Shares of the jobs, and how far above the engine the proved epsilon is there at most."""


def _gaussian(rng):
    return fa.Gaussian(number(rng, 0.6, 20.0))


def _rate(rng):
    return number(rng, 1e-3, 0.5)


def number(rng, low, high):
    """As people write numbers: three digits."""
    return float(f"{between(rng, low, high):.3g}")


def whole(rng, low, high):
    return int(rng.integers(low, high + 1))


def _table(rng):
    p, q = rng.dirichlet(np.ones(whole(rng, 2, 5)), 2).round(4)
    return fa.from_pmf([*p[:-1], 1.0 - p[:-1].sum()], [*q[:-1], 1.0 - q[:-1].sum()])


def _mixture(rng):
    weight = number(rng, 0.05, 0.95)
    q = [(1.0, 0.0)] if rng.random() < 0.5 else [(0.75, 0.0), (0.25, -number(rng, 0.1, 2.0))]
    return fa.GaussianMixture(number(rng, 1.0, 20.0), [(weight, 0.0), (1.0 - weight, number(rng, 0.1, 2.0))], q)


SIMPLE = {
    "Gaussian": _gaussian,
    "Laplace": lambda rng: fa.Laplace(number(rng, 0.5, 100.0)),
    "discrete Gaussian": lambda rng: fa.DiscreteGaussian(number(rng, 0.6, 20.0), whole(rng, 1, 3)),
    "discrete Laplace": lambda rng: fa.DiscreteLaplace(number(rng, 0.6, 30.0), whole(rng, 1, 3)),
    "Skellam": lambda rng: fa.Skellam(number(rng, 1.0, 200.0)),
    "PureDP": lambda rng: fa.PureDP(number(rng, 0.01, 2.0)),
    "ApproxDP": lambda rng: fa.ApproxDP(number(rng, 0.01, 2.0), number(rng, 1e-14, 1e-7)),
    "table": _table,
}
KINDS = {
    **SIMPLE,
    "sampled Gaussian": lambda rng: _gaussian(rng).poisson(_rate(rng)),
    "sample of another kind": lambda rng: SIMPLE[str(rng.choice(list(SIMPLE)))](rng).poisson(_rate(rng)),
    "response": lambda rng: fa.RandomizedResponse(number(rng, 0.05, 3.0), whole(rng, 2, 9)),
    "group": lambda rng: _gaussian(rng).poisson(_rate(rng)).group(whole(rng, 2, 5)),
    "group of Laplace": lambda rng: fa.Laplace(number(rng, 2.0, 100.0)).group(whole(rng, 2, 5)),
    "fixed size": lambda rng: _gaussian(rng).fixed_size(whole(rng, 1, 100), 1000),
    "group of a fixed size": lambda rng: _gaussian(rng).fixed_size(whole(rng, 1, 100), 1000).group(whole(rng, 2, 4)),
    "with replacement": lambda rng: _gaussian(rng).with_replacement(whole(rng, 1, 50), 1000),
    "at most": lambda rng: _gaussian(rng).poisson(number(rng, 1e-3, 0.1), at_most=whole(rng, 5, 150), records=1000),
    "mixture": _mixture,
    "tree": lambda rng: fa.TreeAggregation(number(rng, 2.0, 50.0), whole(rng, 1, 1000)),
    "shuffled": lambda rng: _gaussian(rng).shuffled(whole(rng, 2, 100)),
}


def random_job(rng):
    """One to three kinds with counts, a relation that all support, and a delta."""
    while True:
        try:
            parts = [KINDS[str(name)](rng) for name in rng.choice(list(KINDS), whole(rng, 1, 3), replace=False)]
        except ValueError:  # a sample or a group that there is not
            continue
        shared = [one for one in RELATIONS if all(one in part.relations for part in parts)]
        if shared:
            job = sum((part * round(between(rng, 1.0, 1000.0)) for part in parts), parts[0] * 0)
            return job, str(rng.choice(shared)), number(rng, 1e-12, 1e-2)


def one(seed, i):
    """What is claimed and proved of a job, or why not, and in how many seconds of processor time."""
    job, relation, delta = random_job(np.random.default_rng([seed, i]))
    found = {"seed": seed, "i": i, "job": repr(job), "delta": delta, "neighbors": relation}
    bounds = fa.epsilon_bounds(job, delta=delta, neighbors=relation)
    found |= {"lower": bounds.lower, "upper": bounds.upper}
    if 1e-3 <= bounds.upper <= LARGEST:
        begun = time.process_time()
        try:
            found["proved"] = float(fa.certify(job, delta=delta, neighbors=relation).epsilon)
        except ValueError as error:
            found["refused"] = str(error)
        found["seconds"] = time.process_time() - begun
    return found


def is_asked(row):
    """Whether a job has a certificate: epsilon is neither tiny nor huge, and all its kinds are covered."""
    return "seconds" in row and "has no certificate" not in row.get("refused", "")


def is_wrong(row):
    return not row.get("proved", -1.0) >= row["lower"]


def main(jobs=100, seed=1, file=None):
    """Print the summary; what is wrong, or empty."""
    lines = Path(file).read_text().splitlines() if file and Path(file).exists() else []
    known = {(row["seed"], row["i"]): row for row in map(json.loads, lines)}
    rows = []
    for i in range(10 * jobs):
        row = known.get((seed, i)) or one(seed, i)
        if file and (seed, i) not in known:
            with Path(file).open("a") as to:
                to.write(json.dumps(row) + "\n")
        if not is_asked(row):
            continue
        rows.append(row)
        if is_wrong(row) or row["proved"] > (1.0 + GOALS[-1][1]) * row["upper"] or row["seconds"] > SLOWEST:
            print(f"{'WRONG' if is_wrong(row) else 'far or slow'}: {json.dumps(row)}", flush=True)
        if len(rows) == jobs:
            break
        if len(rows) % 25 == 0:
            print(_summary(rows), flush=True)
    print(_summary(rows))
    wrong = sum(map(is_wrong, rows))
    return f"{wrong} of {len(rows)} jobs are wrong or refused" if wrong else ""


def _summary(rows):
    far = np.array([row["proved"] / row["upper"] - 1.0 for row in rows if "proved" in row])
    took = [row["seconds"] for row in rows]
    shares = ", ".join(f"{limit:g} or less above for {np.mean(far <= limit):.1%}" for _, limit in GOALS)
    return (
        f"{len(rows)} jobs: median {np.median(far):.1e} above, {shares}; {np.median(took):.1f} s, {max(took):.1f} most"
    )


if __name__ == "__main__":
    sys.exit("\n".join(KINDS) if "--kinds" in sys.argv else main(*map(int, sys.argv[1:3]), *sys.argv[3:4]))
