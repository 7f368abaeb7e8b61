"""Random jobs with certificates, beside the engine: python -m tests.certificates [JOBS [SEED]], 100 and 1 unless told.

A proved epsilon must not be below the engine's lower bound; how far above the upper bound it is, and what it takes,
is printed.  `--kinds` lists what is drawn.
"""

import sys
import time

import numpy as np
from tests.random_jobs import RELATIONS, between

import fastacct as fa

LARGEST = 30.0
"""Epsilon of a job that is asked."""
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


def one(rng):
    """What is wrong, how far the proved epsilon is above the engine's, and seconds; None: the job is not asked."""
    job, relation, delta = random_job(rng)
    bounds = fa.epsilon_bounds(job, delta=delta, neighbors=relation)
    if not 1e-3 <= bounds.upper <= LARGEST:
        return None
    told, started = f"{job!r}, delta={delta:g}, neighbors={relation!r}", time.process_time()
    try:
        found = fa.certify(job, delta=delta, neighbors=relation)
    except ValueError as error:
        if "has no certificate" in str(error):
            return None
        return f"{told}: {error}", np.nan, time.process_time() - started
    proved, took = float(found.epsilon), time.process_time() - started
    wrong = "" if bounds.lower <= proved else f"{told}: {proved} is proved, {bounds} claimed"
    far = proved / bounds.upper - 1.0
    if far > GOALS[-1][1] or took > 60.0:
        print(f"{far:.1e} above, {took:.0f} s: {told}", flush=True)
    return wrong, far, took


def main(jobs=100, seed=1):
    """Print the summary; what is wrong, or empty."""
    wrong, far, took = [], [], []
    for i in range(10 * jobs):
        found = one(np.random.default_rng([seed, i]))
        if found is not None:
            wrong += [found[0]] if found[0] else []
            far.append(found[1])
            took.append(found[2])
            if found[0]:
                print(f"WRONG {found[0]}", flush=True)
        if len(far) == jobs:
            break
        if len(far) % 25 == 0 and found is not None:
            print(_summary(far, took), flush=True)
    print(_summary(far, took))
    return f"{len(wrong)} of {len(far)} jobs are wrong or refused" if wrong else ""


def _summary(far, took):
    known = np.array(far)[np.isfinite(far)]
    shares = ", ".join(f"{limit:g} or less above for {np.mean(known <= limit):.1%}" for _, limit in GOALS)
    return (
        f"{len(far)} jobs: median {np.median(known):.1e} above, {shares}; {np.median(took):.1f} s, {max(took):.1f} most"
    )


if __name__ == "__main__":
    sys.exit("\n".join(KINDS) if "--kinds" in sys.argv else main(*map(int, sys.argv[1:3])))
