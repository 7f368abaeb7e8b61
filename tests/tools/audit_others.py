"""How often auditors claim what is not true, ours and others': python -m tests.audit_others [RUNS], 500 unless told.

Whichever of fastacct, jax_privacy, opake and privacy_guard can be imported is asked at level 5 %.  Each of m canaries
is in or out by a coin of its own and has a score; auditors of many runs have half of the m runs with the record.  The
scores are (epsilon, delta)-DP, and a larger lower bound of epsilon is a false claim.
"""

import importlib.metadata
import sys

import numpy as np

LEVEL = 0.05
SIZES = (200, 1000, 5000)


def chance(random, included):
    """Scores say nothing: (0, 0)-DP."""
    return random.standard_normal(included.size)


def responses(random, included):
    """The sign is a randomized response of epsilon = 1, the size says nothing: (1, 0)-DP."""
    is_true = random.random(included.size) < np.e / (1.0 + np.e)
    return np.where(included == is_true, 1.0, -1.0) * random.random(included.size)


def all_or_nothing(random, included):
    """One run in ten publishes all, the others nothing: (0, 0.1)-DP."""
    is_published = random.random() < 0.1
    return included + 0.5 * random.random(included.size) if is_published else random.standard_normal(included.size)


def published(random, included):
    """One canary in ten is published: (0, 0.1)-DP."""
    return np.where(random.random(included.size) < 0.1, 9.0 * included - 4.0, random.random(included.size))


CLAIMS = {chance: (0.0, 1e-5), responses: (1.0, 1e-5), published: (0.0, 0.1), all_or_nothing: (0.0, 0.1)}
"""Epsilon and delta that are true of the scores."""


def fastacct_one_run(scores, included, delta):
    from fastacct.audit import count_guesses, one_run

    m = scores.size
    counts = count_guesses(scores, included, [m // 10, m // 4, m], drawn="independent")
    return one_run(m, *counts).epsilon(delta)


def fastacct_scores(scores, included, delta):
    from fastacct.audit import scores as of_scores

    return of_scores(scores[included], scores[~included]).epsilon(delta)


def jax_privacy_one_run(scores, included, delta):
    from jax_privacy.auditing import CanaryScoreAuditor

    return CanaryScoreAuditor(scores[included], scores[~included]).epsilon_one_run(LEVEL, delta)


def jax_privacy_clopper_pearson(scores, included, delta):
    from jax_privacy.auditing import CanaryScoreAuditor

    return CanaryScoreAuditor(scores[included], scores[~included]).epsilon_clopper_pearson(LEVEL, delta)


def opake_eps_delta(scores, included, delta):
    from opake.api.auditing.one_run._estimate import OneRunEstimate
    from opake.api.auditing.one_run._roc import get_tn_fn_counts

    inside, outside = scores[included], scores[~included]
    thresholds, tn, fn = get_tn_fn_counts(inside, outside)
    of = {"tp_counts": (fn[-1] - fn)[::-1], "fp_counts": (tn[-1] - tn)[::-1]}
    sizes = {"n_in": inside.size, "n_out": outside.size, "in_scores": inside, "out_scores": outside}
    found = OneRunEstimate(**sizes, **of, thresholds=thresholds, tn_counts=tn, fn_counts=fn)
    return found.eps_delta().epsilon_at(delta=delta, significance=LEVEL)


def privacy_guard_eps_cp(scores, included, delta):
    import torch
    from privacy_guard.analysis.mia.mia_results import MIAResults

    sides = (torch.from_numpy(scores[which]) for which in (included, ~included))
    return MIAResults(*sides).compute_acc_auc_ci_epsilon(delta)[2]


OF_ONE_RUN = (fastacct_one_run, jax_privacy_one_run, opake_eps_delta)
"""The others take every score as that of a run of its own, so that nothing can be published of all at once."""
AUDITORS = {
    fastacct_one_run: ("fastacct", "fastacct"),
    fastacct_scores: ("fastacct", "fastacct"),
    jax_privacy_one_run: ("jax_privacy", "jax-privacy"),
    jax_privacy_clopper_pearson: ("jax_privacy", "jax-privacy"),
    opake_eps_delta: ("opake", "opake-auditing"),
    privacy_guard_eps_cp: ("privacy_guard", "privacyguard-platform"),
}
"""What they import, and whose version is printed."""


def false_claims(auditor, null, m, runs, seed=1):
    """In how many runs the lower bound is above what is true, and the largest one."""
    random, (epsilon, delta) = np.random.default_rng([seed, m]), CLAIMS[null]
    found = []
    for _ in range(runs):
        included = random.random(m) < 0.5 if auditor in OF_ONE_RUN else random.permutation(m) < m // 2
        found.append(float(auditor(null(random, included), included, delta)))
    return sum(one > epsilon + 1e-6 for one in found), max(found)


def main(runs=500):
    """Print the table as Markdown."""
    print("| auditor | version | scores | m | false claims | largest claim |\n|---|---|---|---|---|---|")
    for auditor, (module, package) in AUDITORS.items():
        try:
            __import__(module)
        except ImportError:
            continue
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed, on the path"
        for null in CLAIMS:
            for m in SIZES if null is not all_or_nothing or auditor in OF_ONE_RUN else ():
                wrong, largest = false_claims(auditor, null, m, runs)
                names = f"| {auditor.__name__} | {version} | {null.__name__} | {m} ".replace("_", " ")
                print(f"{names}| {wrong} of {runs} ({wrong / runs:.1%}) | {largest:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
