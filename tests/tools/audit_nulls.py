"""How often audits claim what is not true: python -m tests.audit_nulls [RUNS], 20,000 unless it says otherwise.

Every row is a claim that is true, asked of runs in which it is true as narrowly as can be.  The rate of false claims
has a lower end with confidence 99.9 %, which must not exceed the level.
"""

import sys

import numpy as np

import fastacct as fa
from fastacct.audit.counts import least_rate

LEVEL = 0.05
SIZES = (100, 1000, 5000)
RESPONSE = np.e / (1.0 + np.e)
"""Probability of a true answer with epsilon = 1."""


def lower_end(false, runs):
    """What the rate of false claims is at least, with confidence 99.9 %."""
    return float(least_rate(np.array([float(false)]), runs, float(np.log(1e-3)))[0])


def responses(random, m):
    """Scores of members and others whose signs are responses of epsilon = 1 and whose sizes say nothing."""
    scores = [random.random(m) * np.where(random.random(m) < p, 1.0, -1.0) for p in (RESPONSE, 1.0 - RESPONSE)]
    return fa.audit.scores(*scores)


def chance_scores(random, m):
    found = fa.audit.scores(random.standard_normal(m), random.standard_normal(m))
    return found.epsilon(0.0) > 0.0


def tied_scores(random, m):
    found = fa.audit.scores(random.integers(0, 4, m), random.integers(0, 4, m))
    return found.epsilon(1e-5) > 0.0


def response_scores(random, m):
    return responses(random, m).epsilon(0.0) > 1.0


def published_scores(random, m):
    """(0, .1)-DP: one in ten runs says all."""
    members, others = (np.where(random.random(m) < 0.1, sure, random.random(m)) for sure in (2.0, -1.0))
    return fa.audit.scores(members, others).epsilon(0.1) > 0.0


def gaussian_scores(random, m):
    found = fa.audit.scores(random.standard_normal(m) + 1.0, random.standard_normal(m))
    return bool(np.any(found.epsilon(DELTAS, neighbors="remove") > GAUSSIAN))


DELTAS = np.geomspace(1e-5, 0.3, 12)
GAUSSIAN = np.asarray(fa.epsilon(fa.Gaussian(1.0), delta=DELTAS))


def is_refused(found, epsilon, delta):
    """Whether what is true is called too unlikely: `epsilon(delta)` is above then, which takes a search to find."""
    return found.p_value(epsilon, delta) <= LEVEL


def one_run_responses(random, m):
    """All canaries are guessed at, and as few as a tenth: four numbers of guesses, of which the best is taken."""
    guesses = np.array([m // 10, m // 4, m // 2, m])
    right = np.cumsum(random.binomial(np.diff(guesses, prepend=0), RESPONSE))
    return is_refused(fa.audit.one_run(m, guesses, right), 1.0, 1e-5)


def one_run_chance(random, m):
    included = random.random(m) < 0.5
    counts = fa.audit.count_guesses(random.integers(0, 50, m), included, m // 3, drawn="independent")
    return is_refused(fa.audit.one_run(m, *counts), 0.0, 0.0)


def one_run_all_or_nothing(random, m):
    """(0, .1)-DP: one run in ten tells everything of all canaries."""
    right = m if random.random() < 0.1 else random.binomial(m, 0.5)
    return is_refused(fa.audit.one_run(m, m, right), 0.0, 0.1)


def refuted(m, guesses, job):
    """Which numbers of right guesses refute a job: from the least on."""
    low, high = 0, guesses + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fa.audit.one_run(m, guesses, middle).refutes(job) else (middle, high)
    return high


LEAST = {}
"""{(m, guesses): the least right guesses that refute Gaussian(1)}"""


def one_run_curve(random, m):
    """Each canary is a Gaussian of its own; the guesses are the highest and lowest scores."""
    included = random.random(m) < 0.5
    scores = random.standard_normal(m) + included
    made, right = fa.audit.count_guesses(scores, included, m // 5, drawn="independent")
    key = (m, int(made))
    if key not in LEAST:
        LEAST[key] = refuted(m, int(made), fa.Gaussian(1.0))
    return right >= LEAST[key]


def one_run_published(random, m):
    """(0, .1)-DP against its own curve."""
    key = (m, "all or nothing")
    if key not in LEAST:
        LEAST[key] = refuted(m, m, fa.ApproxDP(0.0, 0.1))
    return (m if random.random() < 0.1 else random.binomial(m, 0.5)) >= LEAST[key]


def bets(random, m):
    """(1, .01)-DP at its limit, looked at after every pair."""
    false = 0.2
    members, others = random.random(m) < np.e * false + 0.01, random.random(m) < false
    return fa.audit.sequential(members, others).refuted_after(1.0, 0.01, neighbors="remove") is not None


METHODS = [chance_scores, tied_scores, response_scores, published_scores, gaussian_scores]
METHODS += [one_run_responses, one_run_chance, one_run_all_or_nothing, one_run_curve, one_run_published, bets]


def false_claims(method, m, runs, seed=1):
    """How many of so many runs claim what is not true."""
    random = np.random.default_rng([seed, m])
    return sum(bool(method(random, m)) for _ in range(runs))


def main(runs=20_000):
    """Print the table; whether all rows keep the level."""
    worst = 0.0
    print(f"{'method':<24}{'m':>6}{'false claims':>14}{'lower end':>11}")
    for method in METHODS:
        for m in SIZES:
            false = false_claims(method, m, runs)
            end = lower_end(false, runs)
            worst = max(worst, end)
            print(f"{method.__name__:<24}{m:>6}{false / runs:>14.4f}{end:>11.4f}", flush=True)
    return worst <= LEVEL


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:2])) else "false claims exceed the level")
