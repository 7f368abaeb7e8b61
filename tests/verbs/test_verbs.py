"""The verbs of a job: their arguments, and a run of DP-SGD in place of the job, to the last bit."""

import inspect

import numpy as np
import pytest

import fastacct as fa
from tests.public_calls import default_of, public

NOISE = np.array([0.9, 2.0])
RUNS = {
    "poisson": {"noise_multiplier": NOISE, "sample_rate": 0.05, "steps": [[3], [9]]},
    "of records": {"noise_multiplier": NOISE, "records": 100, "batch_size": 10, "epochs": 2},
    "history": {"history": [(1.0, 0.1, 3), (2.0, 0.2, 5)]},
    "fixed_size": {"noise_multiplier": NOISE, "records": 100, "batch_size": 10, "epochs": 1, "sampling": "fixed_size"},
    "with_replacement": {"noise_multiplier": 2.0, "records": 50, "batch_size": 5, "epochs": 1},
    "truncated": {"noise_multiplier": NOISE, "records": 60, "batch_size": 6, "epochs": 1, "at_most": 12},
    "cyclic": {"noise_multiplier": NOISE, "records": 100, "batch_size": 10, "steps": 6, "bands": 2},
    "allocation": {"noise_multiplier": NOISE, "records": 100, "batch_size": 20, "epochs": 2},
    "shuffled": {"noise_multiplier": NOISE, "records": 40, "batch_size": 20, "epochs": 1},
}
for name in ("with_replacement", "truncated", "cyclic", "allocation", "shuffled"):
    RUNS[name]["sampling"] = name
RELATIONS = ("add_remove", "add", "remove", "zero_out", "replace_one")
TARGETS = {
    "epsilon": {"delta": 1e-4},
    "epsilon_lower": {"delta": [[1e-4]]},
    "epsilon_bounds": {"delta": 1e-4},
    "delta": {"epsilon": 0.7},
    "delta_lower": {"epsilon": 0.7},
    "delta_bounds": {"epsilon": 0.7},
    "log_delta": {"epsilon": 0.7},
    "log_delta_bounds": {"epsilon": 0.7},
    "rdp": {"orders": 3.0},
    "rdp_bounds": {"orders": 3.0},
    "tradeoff": {"fpr": 0.1},
    "tradeoff_bounds": {"fpr": 0.1},
    "tpr_at_fpr": {"fpr": 0.1},
    "tpr_at_fpr_bounds": {"fpr": 0.1},
    "advantage": {},
    "advantage_bounds": {},
    "bayes_risk": {"members": 0.3},
    "bayes_risk_bounds": {"members": 0.3},
    "positive_predictive_value": {"fpr": 0.1, "members": 0.3},
    "positive_predictive_value_bounds": {"fpr": 0.1, "members": 0.3},
    "gdp_bounds": {"delta_floor": 1e-3},
    "gdp": {"delta_floor": 1e-3},
}
"""The verbs that take jobs with arrays, and a target of each."""
ONE = {"explain": {"delta": 1e-4}, "privacy_loss": {}, "divergence": {"orders": 2.0}}
"""The verbs of one job in plain numbers."""


def answer(call):
    """What a call gives, or the words with which it refuses."""
    try:
        return call()
    except (TypeError, ValueError) as refusal:
        return str(refusal)


def same(one, other):
    """Whether two answers have the same bits, NaN included."""
    parts = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
    return all(type(a) is type(b) and np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in parts)


DEAR = ("fixed_size", "with_replacement", "truncated", "allocation", "shuffled")
"""Samplers that are asked of few verbs: a run is made a job in one place."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_bits_of_its_job(name):
    run, verbs = RUNS[name], ("rdp", "rdp_bounds") if name in DEAR else TARGETS
    job = fa.dpsgd.job(**run)
    answered = set()
    for verb in verbs:
        for relation in RELATIONS:
            function, options = getattr(fa, verb), {"neighbors": relation, **TARGETS[verb]}
            mine, its = answer(lambda: function(**run, **options)), answer(lambda: function(job, **options))  # noqa: B023
            assert same(mine, its), (verb, relation, mine, its)
            answered |= {verb} if not isinstance(its, str) else set()
    assert answered == {*verbs} or name == "shuffled", answered


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_answers_of_a_job_are_those_of_the_run(name, relation):
    run = RUNS[name]
    job = fa.dpsgd.job(**run)
    for verb in ("rdp",) if name in ("with_replacement", "truncated") else ("rdp", "delta", "epsilon_bounds"):
        asked = {"neighbors": relation, **TARGETS[verb]}
        mine = answer(lambda: getattr(fa.dpsgd, verb)(**run, **asked))  # noqa: B023
        its = answer(lambda: getattr(fa, verb)(job, **asked))  # noqa: B023
        assert isinstance(its, str) == isinstance(mine, str), (mine, its)
        assert isinstance(its, str) or same(mine, its), (verb, mine, its)


@pytest.mark.parametrize("verb", ONE)
def test_verbs_of_one_job_take_a_run(verb):
    run = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 5}
    mine, its = (
        getattr(fa, verb)(*job, **given, **ONE[verb]) for job, given in (((), run), ((fa.dpsgd.job(**run),), {}))
    )
    if verb == "privacy_loss":
        mine, its = mine.mean, its.mean
    assert mine == its


def test_delta_may_be_a_power_of_the_records_of_a_run():
    run = {"noise_multiplier": 1.0, "records": 1000, "batch_size": 10, "epochs": 1}
    assert fa.epsilon(**run, delta="1/n") == fa.dpsgd.epsilon(**run, delta="1/n") == fa.epsilon(**run, delta=1e-3)


def test_a_job_of_noise_divided_by_a_sensitivity_to_replacement_is_not_divided_again():
    noise = 4.0 / fa.sensitivity.sum(0.0, 1.0, neighbors="replace_one")
    for more in ({"sample_rate": 0.1, "steps": 9}, RUNS["fixed_size"]):
        job = fa.dpsgd.job(**{**more, "noise_multiplier": noise})
        with pytest.raises(ValueError, match="divided by a sensitivity"):
            fa.epsilon(job, delta=1e-5, neighbors="replace_one")
        assert fa.epsilon(job, delta=1e-5) > 0.0


JOB = fa.Gaussian(2.0)
RUN = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fa.epsilon(JOB, **RUN, delta=1e-5),
            "is given, and so is noise_multiplier, sample_rate, steps: give one",
        ),
        (lambda: fa.epsilon(job=JOB, records=9, delta=1e-5), "is given, and so is records: give one job, or one run"),
        (
            lambda: fa.tpr_at_fpr(0.01, **RUN),
            "one run of DP-SGD by the keywords of fastacct.dpsgd and its target by name",
        ),
        (lambda: fa.tpr_at_fpr(fpr=0.01), "job is missing: give one job, or one run"),
        (
            lambda: fa.tpr_at_fpr(fpr=0.01, sigma=1.0),
            "unexpected keyword argument 'sigma' .did you mean 'noise_multiplier'",
        ),
        (lambda: fa.tpr_at_fpr(fpr=0.01, noise_multiplier=1.0), "missing sample_rate, steps"),
        (lambda: fa.epsilon(JOB, 1e-5, "add"), "takes 2 arguments without names; their names: job, delta, neighbors"),
        (lambda: fa.epsilon(JOB, eps=1.0), "unexpected keyword argument 'eps'"),
        (lambda: fa.rdp(JOB, alpha=2.0), "did you mean 'orders'"),
        (lambda: fa.dpsgd.job(**RUN, neighbors="add"), "neighbors belongs to the question"),
        (lambda: fa.dpsgd.job(**RUN, accountant=fa.RDP()), "accountant belongs to the question"),
        (lambda: fa.dpsgd.job(**RUN, sigma=1.0), "unexpected keyword argument 'sigma'"),
    ],
)
def test_a_job_or_a_run_not_both_and_no_other_words(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_every_verb_that_answers_a_number_has_bounds_with_it_inside():
    job = fa.Gaussian(2.0).poisson(0.1) * 9 + fa.Laplace(4.0)
    for verb, target in TARGETS.items():
        if verb.endswith(("_bounds", "_lower")):
            continue
        lower, upper, _ = getattr(fa, f"{verb}_bounds")(job, **target)
        found = getattr(fa, verb)(job, **target)
        assert lower <= upper
        assert (found.mu if verb == "gdp" else found) in (lower, upper), verb


@pytest.mark.parametrize("members", [0.0, 0.1, 1.0])
def test_the_share_of_right_alarms_lies_between_what_the_true_positive_rates_say(members):
    fpr = np.array([0.0, 1e-4, 0.3, 1.0])
    lower, upper, status = fa.positive_predictive_value_bounds(fa.Gaussian(1.0), fpr, members)
    assert np.array_equal(upper, fa.positive_predictive_value(fa.Gaussian(1.0), fpr, members))
    tpr = fa.tpr_at_fpr(fa.Gaussian(1.0), fpr)
    if members == 0.0:
        assert not upper.any()
        assert not lower.any()
    else:
        truth = members * tpr[1:] / (members * tpr[1:] + (1.0 - members) * fpr[1:])
        assert (lower[1:] <= truth).all()
        assert (truth <= upper[1:]).all()
        assert not status[1:].any()
        assert lower[0] == 0.0, "no alarm may be had at all"


EMPTY = inspect.Parameter.empty
VERBS = {
    **dict.fromkeys(("epsilon", "epsilon_lower", "epsilon_bounds"), (("delta",), True)),
    **dict.fromkeys(("delta", "delta_lower", "delta_bounds"), (("epsilon",), True)),
    **dict.fromkeys(("log_delta", "log_delta_bounds"), (("epsilon",), False)),
    **dict.fromkeys(("rdp", "rdp_bounds", "divergence"), (("orders",), False)),
    **dict.fromkeys(("tradeoff", "tradeoff_bounds", "tpr_at_fpr", "tpr_at_fpr_bounds"), (("fpr",), False)),
    **dict.fromkeys(("advantage", "advantage_bounds", "privacy_loss", "gdp", "gdp_bounds"), ((), False)),
    **dict.fromkeys(("bayes_risk", "bayes_risk_bounds"), (("members",), False)),
    **dict.fromkeys(("positive_predictive_value", "positive_predictive_value_bounds"), (("fpr", "members"), False)),
    "explain": ((), True),
}
"""The verbs of a job: their targets, which may stand without names, and whether they take an accountant."""
OTHERWISE = {
    "explain": "asks for epsilon at delta or for delta at epsilon: both by name",
    "report": "takes a title, too, and lays out what it found",
    "guarantee": "has one delta, and holds what a verb is asked for",
    "certify": "has one of two targets, by name, and digits; a thread is of no use to it",
}
"""Functions with an argument `job` that are not in the table in every respect, and why."""
WITHOUT_THREADS = ("divergence", "explain")
RELATIONS_OF_THEIR_OWN = {
    "sensitivity.mean": "the number of records is public: none comes or goes",
    "network_gain": "the first that the mechanism supports",
    "testing.check_mechanism": "all that the mechanism supports",
}


def test_the_table_has_every_verb_of_a_job():
    taking = {name for name in fa.__all__ if callable(one := getattr(fa, name)) and not isinstance(one, type)}
    taking = {name for name in taking if "job" in inspect.signature(getattr(fa, name)).parameters}
    assert taking == VERBS.keys() | OTHERWISE.keys()
    assert TARGETS.keys() | ONE.keys() == VERBS.keys()


@pytest.mark.parametrize("name", VERBS)
def test_arguments_defaults_and_order_are_regular(name):
    targets, takes_accountant = VERBS[name]
    shown = inspect.signature(getattr(fa, name)).parameters
    places = [one.name for one in shown.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert places == ["job", *targets]
    assert shown["job"].default is EMPTY
    assert all(shown[one].default is (None if one == "members" else EMPTY) for one in targets)
    assert shown["neighbors"].default == "add_remove"
    assert ("threads" in shown) == (name not in WITHOUT_THREADS)
    assert all(shown[one].default is None for one in ("threads", "accountant") if one in shown)
    assert ("accountant" in shown) == takes_accountant
    run = inspect.signature(fa.dpsgd.job).parameters
    assert [*shown][-len(run) :] == [*run], "the keywords of a run stand last"
    assert all(shown[one].default == run[one].default for one in run)


@pytest.mark.parametrize("name", sorted({*fa.dpsgd.__all__} - {"job"}))
def test_the_verbs_of_runs_have_the_same_words_and_defaults(name):
    shown, job = (inspect.signature(one).parameters for one in (getattr(fa.dpsgd, name), fa.dpsgd.job))
    assert all(one.kind is one.KEYWORD_ONLY for one in shown.values())
    assert shown["neighbors"].default == "add_remove"
    assert shown["accountant"].default is shown["threads"].default is None
    assert all(shown[one].default == job[one].default for one in job)


def test_one_default_relation_everywhere():
    for path, function in public():
        default = default_of(function, "neighbors")
        if default not in (EMPTY, "add_remove") and not isinstance(function, type):
            assert path.removeprefix("fa.") in RELATIONS_OF_THEIR_OWN, (path, default)


def test_what_a_verb_needs_is_missing_by_name():
    for name, (targets, _) in VERBS.items():
        if targets:
            with pytest.raises(TypeError, match=f"missing.*'{targets[0]}'|{targets[0]} is missing"):
                getattr(fa, name)(JOB)
