"""What people write first: a call is answered, or refused with the cure in one line."""

from types import SimpleNamespace  # noqa: F401, what calls use

import pytest

import fastacct as fa
from fastacct.__main__ import main
from tests.foreign_calls import FOREIGN, FOREIGN_COMMANDS
from tests.natural_calls import ANSWERED_TOO, MORE, UNHELPED_TOO
from tests.natural_commands import COMMANDS

RUN = {"noise_multiplier": 1.0, "records": 1000, "batch_size": 50, "epochs": 2}
FIXED = {"noise_multiplier": 1.0, "sample_rate": 0.05, "steps": 20}
JOB = fa.dpsgd.job(**RUN)
GAUSSIAN, LAPLACE = fa.Gaussian(2.0), fa.Laplace(2.0)
SWEEP = (
    fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.05, steps=20, delta=1e-5)
    if pytest.importorskip("xarray")
    else 0
)

ANSWERED = [
    *("fa.report(GAUSSIAN, 1e-5)", "fa.report(**RUN, delta=1e-5)"),
    *("fa.epsilon(JOB, 1e-5)", "fa.epsilon(JOB, delta=1e-5)", "fa.epsilon(job=JOB, delta=1e-5)"),
    *(
        "fa.delta(JOB, 1.0)",
        "fa.delta(JOB, epsilon=1.0)",
        "fa.epsilon(**RUN, delta=1e-5)",
        "fa.epsilon(**FIXED, delta=1e-5)",
    ),
    *("fa.epsilon(**RUN, delta='1/n')", "fa.delta(**RUN, epsilon=1.0)", "fa.epsilon_bounds(**RUN, delta=1e-5)"),
    *("fa.epsilon_lower(JOB, 1e-5)", "fa.delta_bounds(JOB, 1.0)", "fa.delta_lower(JOB, 1.0)", "fa.log_delta(JOB, 1.0)"),
    *("fa.log_delta_bounds(JOB, 1.0)", "fa.rdp(JOB, 2)", "fa.rdp(JOB, orders=[2, 8])", "fa.rdp(**RUN, orders=2)"),
    *(
        "fa.rdp_bounds(**FIXED, orders=2.5)",
        "fa.tradeoff(JOB, 0.1)",
        "fa.tradeoff(JOB, fpr=0.1)",
        "fa.tradeoff(**RUN, fpr=0.1)",
    ),
    *("fa.tradeoff_bounds(**RUN, fpr=[0.1, 0.2])", "fa.tpr_at_fpr(JOB, 0.01)", "fa.tpr_at_fpr(**RUN, fpr=0.01)"),
    *("fa.tpr_at_fpr_bounds(JOB, 0.01)", "fa.advantage(JOB)", "fa.advantage(**RUN)", "fa.advantage_bounds(**RUN)"),
    *("fa.bayes_risk(JOB, 0.5)", "fa.bayes_risk(JOB, members=0.5)", "fa.bayes_risk(**RUN, members=0.5)"),
    *("fa.bayes_risk_bounds(JOB, 0.5)", "fa.positive_predictive_value(JOB, 0.01, 0.1)"),
    *(
        "fa.positive_predictive_value(**RUN, fpr=0.01, members=0.1)",
        "fa.positive_predictive_value_bounds(JOB, 0.01, 0.1)",
    ),
    *("fa.gdp(JOB, delta_floor=1e-4)", "fa.gdp(**RUN, delta_floor=1e-4)", "fa.gdp_bounds(JOB, delta_floor=1e-4)"),
    *("fa.explain(JOB, delta=1e-5)", "fa.explain(**RUN, delta=1e-5)", "fa.explain(**RUN, epsilon=1.0)"),
    *(
        "fa.privacy_loss(JOB).mean",
        "fa.privacy_loss(**RUN).mean",
        "fa.privacy_loss(JOB, neighbors='add').quantile(0.1)",
    ),
    *("fa.divergence(JOB, 2)", "fa.divergence(JOB, orders=[0.5, 2])", "fa.divergence(**RUN, orders=2)"),
    *("fa.divergence(([0.5, 0.5], [0.3, 0.7]), 2)", "fa.Accountant(3, 1e-5)", "fa.Accountant(3.0, delta=1e-5)"),
    *("fa.Accountant(epsilon=3, delta=1e-5).remaining(JOB)", "fa.Accountant(30, 1e-5).compose(**RUN)"),
    *("fa.Accountant(3, 1e-5).would_exceed(**RUN)", "fa.Accountant(30, 1e-5).remaining(**RUN)", "fa.dpsgd.job(**RUN)"),
    *("fa.dpsgd.job(**FIXED) * 2", "fa.dpsgd.job(**RUN) + fa.Gaussian(20.0)", "fa.dpsgd.job(history=[(1.0, 0.1, 5)])"),
    *("fa.dpsgd.job(**RUN, sampling='shuffled')", "fa.epsilon(**RUN, sampling='allocation', delta=1e-5)"),
    *("fa.epsilon(**RUN, sampling='fixed_size', delta=1e-5)", "sum([GAUSSIAN * 2, LAPLACE * 3])", "JOB.group(2)"),
    *("fa.calibrate(lambda s: fa.dpsgd.job(**{**FIXED, 'noise_multiplier': s}), epsilon=2.0, delta=1e-5)",),
    *(
        "fa.dpsgd.noise_multiplier(epsilon=3, delta=1e-5, sample_rate=0.05, steps=20)",
        "fa.dpsgd.epsilon(**RUN, delta=1e-5)",
    ),
    *(
        "fa.dpsgd.noise_multiplier(epsilon=3, delta=1e-5, sample_rate=0.05, steps=20, after=JOB * 0)",
        "fa.utility(LAPLACE)",
    ),
    *(
        "fa.epsilon(JOB, 1e-5, accountant=fa.RDP())",
        "fa.epsilon(JOB, 1e-5, neighbors='remove')",
        "fa.epsilon(GAUSSIAN, 1e-5)",
    ),
    *(
        "fa.epsilon(JOB, [1e-5, 1e-6])",
        "fa.mechanisms.Skellam",
        "fa.results.Bounds",
        "fa.textbook.convert.pure_to_zcdp(1.0)",
    ),
    *(
        "fa.convert.pure_to_zcdp(1.0)",
        "fa.accountants.CLT()",
        "fa.mechanism_kit.table([0.5, 0.5], [0.4, 0.6])",
        "fa.GOPA",
    ),
]

KEYWORDS = {
    "noise_multiplier": "sigma noise scale",
    "sample_rate": "q rate sampling_rate sampling_probability",
    "steps": "T t num_steps n_steps iterations",
    "records": "n dataset_size sample_size num_examples number_of_examples num_samples",
    "batch_size": "lot_size batch batch_sizes expected_batch_size",
    "epochs": "num_epochs n_epochs epoch",
    "neighbors": "relation adjacency neighbours",
    "sampling": "sampler",
    "delta": "target_delta",
    "epsilon": "eps target_epsilon",
    "threads": "n_jobs num_threads",
}
"""Foreign keywords of a run, and ours."""

REFUSED = [
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1)", f"did you mean {ours!r}")
        for ours, words in KEYWORDS.items()
        for word in words.split()
    ),
    *(
        (f"fa.epsilon(**FIXED, {'' if ours == 'delta' else 'delta=1e-5, '}{word}=1)", f"did you mean {ours!r}")
        for ours, words in KEYWORDS.items()
        if ours != "epsilon"
        for word in words.split()
    ),
    *((f"fa.epsilon(JOB, {word}=1e-5)", "did you mean 'delta'") for word in ("target_delta", "Delta", "dleta")),
    *((f"fa.rdp(JOB, {word}=2)", "did you mean 'orders'") for word in ("alpha", "order", "alphas")),
    *((f"fa.dpsgd.rdp(**FIXED, {word}=2)", "did you mean 'orders'") for word in ("alpha", "order", "alphas")),
    *(
        (f"fa.dpsgd.noise_multiplier(sample_rate=0.05, steps=20, delta=1e-5, {word}=2)", "did you mean 'epsilon'")
        for word in ("eps", "target_epsilon")
    ),
    (
        "fa.dpsgd.noise_multiplier(target_epsilon=3, target_delta=1e-5, sample_rate=0.05, steps=20)",
        "did you mean 'delta'",
    ),
    *((f"fa.bayes_risk(JOB, {word}=0.1)", "did you mean 'members'") for word in ("base_rate", "prevalence")),
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1.0)", "noise is given in its units")
        for word in ("max_grad_norm", "clipping_norm", "l2_norm_clip")
    ),
    *((f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1.0)", "loader_guide") for word in ("drop_last",)),
    # values
    *(
        (f"fa.epsilon(JOB, 1e-5, neighbors={word!r})", "did you mean 'replace_one'")
        for word in ("substitution", "replace", "replace-one", "swap")
    ),
    *(
        (f"fa.epsilon(JOB, 1e-5, neighbors={word!r})", "did you mean 'add_remove'")
        for word in ("unbounded", "add-remove", "add/remove")
    ),
    *((f"fa.epsilon(JOB, 1e-5, neighbors={word!r})", "did you mean 'zero_out'") for word in ("zero-out", "zeroed")),
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, sampling={word!r})", f"did you mean {ours!r}")
        for word, ours in (
            ("shuffle", "shuffled"),
            ("Poisson", "poisson"),
            ("permutation", "shuffled"),
            ("without_replacement", "fixed_size"),
            ("fixed-size", "fixed_size"),
            ("cycle", "cyclic"),
        )
    ),
    *(
        (f"fa.epsilon(JOB, 1e-5, accountant={word!r})", f"write fastacct.{ours}()")
        for word, ours in (("rdp", "RDP"), ("prv", "PLD"), ("pld", "PLD"), ("gdp", "CLT"), ("exact", "Exact"))
    ),
    ("fa.dpsgd.epsilon(**FIXED, delta='1e-5')", "write it without quotes"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=512, steps=10, delta=1e-5)", "give batch_size= and records="),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.1, steps=2929.7, delta=1e-5)", "whole numbers"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.1, steps=10, delta=2)", r"allowed: [0, 1]"),
    ("fa.dpsgd.epsilon(noise_multiplier=-1.0, sample_rate=0.1, steps=10, delta=1e-5)", "allowed: [0, inf]"),
    ("fa.dpsgd.epsilon(**RUN, delta=1e-5, sampling='shuffled')", "supported: 'zero_out'"),
    ("fa.dpsgd.epsilon(**FIXED, batch_size=5, delta=1e-5)", "give either sample_rate or batch_size"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, batch_size=5, steps=3, delta=1e-5)", "batch_size needs records"),
    ("fa.dpsgd.epsilon(**FIXED)", "delta is missing"),
    ("fa.dpsgd.delta(**FIXED)", "epsilon is missing"),
    ("fa.dpsgd.rdp(**FIXED)", "orders is missing"),
    ("fa.dpsgd.noise_multiplier(epsilon=1.0, sample_rate=0.1, steps=3)", "delta is missing"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, delta=1e-5)", "missing sample_rate, steps"),
    # a job, a run, a list
    ("fa.epsilon(JOB, **FIXED, delta=1e-5)", "give one job, or one run"),
    ("fa.tpr_at_fpr(0.01, **RUN)", "its target by name"),
    ("fa.tpr_at_fpr(fpr=0.01)", "give one job, or one run"),
    ("fa.epsilon([JOB, JOB], 1e-5)", "or their sum"),
    ("fa.epsilon(RUN, 1e-5)", "fastacct.epsilon(**run, delta=...)"),
    ("fa.epsilon('gaussian', 1e-5)", "fastacct.Gaussian(1.0)"),
    ("fa.epsilon(fa.Gaussian, 1e-5)", "such as fastacct.Gaussian(1.0)"),
    ("fa.epsilon(JOB)", "missing 1 required positional argument: 'delta'"),
    ("fa.epsilon(JOB, 1e-5, 'add')", "their names: job, delta, neighbors"),
    ("fa.dpsgd.job(**RUN, neighbors='add')", "fa.epsilon(job, neighbors=...)"),
    ("fa.dpsgd.job(**RUN, accountant=fa.RDP())", "fa.epsilon(job, accountant=...)"),
    ("fa.dpsgd.job(**RUN, threads=2)", "fa.epsilon(job, threads=...)"),
    ("fa.explain(JOB)", "give either epsilon or delta"),
    ("fa.explain(JOB, 1e-5)", "their names: job, epsilon, delta"),
    ("fa.rdp(JOB, 0.5)", "orders below 1: fa.divergence(job, orders)"),
    # parameters of mechanisms
    *(
        (f"fa.Laplace({word}=1.0)", "divided by the sensitivity")
        for word in ("scale", "b", "sigma", "epsilon", "sensitivity")
    ),
    *(
        (f"fa.Gaussian({word}=1.0)", "divided by the sensitivity")
        for word in ("sigma", "std", "scale", "noise", "sensitivity")
    ),
    ("fa.Exponential(sensitivity=1.0)", "its parameters: epsilon"),
    ("fa.PureDP(eps=1.0)", "its parameters: epsilon"),
    ("fa.ZCDP(rho_value=1.0)", "its parameters: "),
    ("fa.Gaussian(1.0).poisson(2.0)", "allowed: [0, 1]"),
    ("fa.Gaussian(1.0) * 2.5", "whole numbers"),
    # names of functions
    ("fa.PrivacyEngine", "register() of fastacct.compat.opacus"),
    ("fa.training.MeterCallback", "fastacct.training.huggingface"),
    ("fa.Gaussian(1.0).sampled(0.1)", "write .poisson(sample_rate)"),
    *(
        (f"fa.{word}", f"did you mean '{ours}'")
        for word, ours in (
            ("trade_off", "tradeoff"),
            ("auc", "tpr_at_fpr"),
            ("mia_tpr", "tpr_at_fpr"),
            ("mu", "gdp"),
            ("GaussianMechanism", "Gaussian"),
            ("roc", "tpr_at_fpr"),
            ("membership_inference", "tpr_at_fpr"),
            ("epsilom", "epsilon"),
            ("PRV", "PLD"),
            ("gaussian", "Gaussian"),
            ("laplace", "Laplace"),
            ("kl", "divergence"),
            ("mse", "utility"),
            ("eps", "epsilon"),
            ("fdp", "tradeoff"),
            ("accountant", "Accountant"),
            ("rpd", "rdp"),
        )
    ),
    ("fa.compose", "job + other, job * count"),
    ("fa.get_epsilon", "fastacct.epsilon(job, delta=...)"),
    ("fa.compute_epsilon", "fastacct.epsilon(job, delta=...)"),
    *(
        (f"fa.dpsgd.{word}", f"did you mean '{ours}'")
        for word, ours in (
            ("eps", "epsilon"),
            ("sigma", "noise_multiplier"),
            ("q", "sample_rate"),
            ("num_steps", "steps"),
            ("epsilons", "epsilon"),
            ("jobs", "job"),
        )
    ),
    ("fa.convert.rdp_to_eps", "did you mean 'rdp_to_epsilon'"),
    ("fa.sensitivity.sums", "did you mean 'sum'"),
    ("fa.curve.privacy_curves", "did you mean 'privacy_curve'"),
    ("fa.plot.tradeoffs", "did you mean 'tradeoff'"),
    ("fa.mechanisms.Gausian", "did you mean 'Gaussian'"),
    ("fa.results.Bound", "did you mean 'Bounds'"),
    # methods
    *(
        (f"JOB.{word}", f"write fastacct.{word}(job, ...)")
        for word in ("epsilon", "delta", "rdp", "tradeoff", "tpr_at_fpr", "gdp", "explain", "advantage", "report")
    ),
    *(
        (f"GAUSSIAN.{word}", f"write fastacct.{word}(job, ...)")
        for word in ("epsilon", "delta", "rdp", "bayes_risk", "privacy_loss")
    ),
    ("JOB.compose", "job + other, job * count"),
    ("GAUSSIAN.subsample", "write .poisson(sample_rate)"),
    ("JOB.plot", "fastacct.plot.tradeoff"),
    ("JOB.get_epsilon", "fastacct.epsilon(job, delta=...)"),
    *((f"fa.Accountant(3, 1e-5).{word}", "use compose(job, count)") for word in ("step", "spend", "add", "record")),
    *((f"fa.Accountant(3, 1e-5).{word}", "use spent()") for word in ("get_epsilon", "epsilon", "get_privacy_spent")),
    ("fa.Accountant(3, 1e-5).history", "use ledger"),
    ("fa.Accountant(3, 1e-5).remaining_epsilon", "use remaining_budget()"),
    ("fa.Accountant(3, 1e-5).compose(sigma=1.0)", "did you mean 'noise_multiplier'"),
    ("fa.Accountant(3, 1e-5).compose()", "give one job, or one run"),
    ("SWEEP.plot", "fastacct.plot.epsilon_grid"),
    ("SWEEP.epsilon", "compute()"),
    ("SWEEP.to_dataframe", "fastacct.feasible"),
    # numbers that are no such numbers
    ("fa.calibrate(lambda n: fa.Gaussian(1.0).poisson(0.01) * n, epsilon=2.0, delta=1e-5)", "bracket=(1, 10**7)"),
    ("fa.calibrate(fa.Gaussian(1.0), epsilon=1.0, delta=1e-5)", "must be a function of one number"),
    ("fa.calibrate(fa.Gaussian, epsilon=1.0)", "give epsilon and delta"),
    ("fa.Accountant(3)", "give delta too"),
    ("fa.tradeoff(JOB, 1.5)", "allowed: [0, 1]"),
    ("fa.tradeoff(JOB, alpha=0.1)", "unexpected keyword argument 'alpha'"),
]
REFUSED += [
    # what users of Opacus, dp_accounting, TF Privacy, R and notebooks write
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1)", cure)
        for word, cure in (
            ("poisson", "write sampling='poisson'"),
            ("poisson_sampling", "write sampling='poisson'"),
            ("len_dataset", "did you mean 'records'"),
            ("secure_mode", "no number"),
            ("num_microbatches", "clipped one by one"),
            ("gradient_accumulation_steps", "records of one noisy update"),
            ("group_size", "job.group(size)"),
            ("orders", "accountant=fastacct.RDP(orders=...)"),
        )
    ),
    *(
        (f"fa.{word}", cure)
        for word, cure in (
            ("compute_dp_sgd_privacy", "fastacct.dpsgd.epsilon(noise_multiplier="),
            ("dpsgd.compute_dp_sgd_privacy_statement", "fastacct.dpsgd.epsilon(noise_multiplier="),
            ("get_noise_multiplier", "did you mean 'dpsgd.noise_multiplier'"),
            ("noise_multiplier", "did you mean 'dpsgd.noise_multiplier'"),
            ("dpsgd.get_noise_multiplier", "did you mean 'noise_multiplier'"),
            ("dpsgd.calibrate", "did you mean 'noise_multiplier'"),
            ("dpsgd.epochs", "did you mean 'steps'"),
            ("dpsgd.batch_size", "did you mean 'sample_rate'"),
            ("PLDAccountant", "fastacct.epsilon(job, delta=...), with accountant="),
            ("PRVAccountant", "fastacct.epsilon(job, delta=...), with accountant="),
            ("RdpAccountant", "fastacct.epsilon(job, delta=...), with accountant="),
            ("SelfComposedDpEvent", "job + other, job * count"),
            ("PoissonSampledDpEvent", "write .poisson(sample_rate)"),
            ("subsample", "write .poisson(sample_rate)"),
            ("Geometric", "did you mean 'DiscreteLaplace'"),
            ("group_privacy", "job.group(size)"),
            ("filter", "did you mean 'Accountant'"),
            ("plot.roc", "did you mean 'tradeoff'"),
            ("convert.rdp_to_dp", "did you mean 'rdp_to_epsilon'"),
            ("convert.zcdp_to_dp", "fastacct.epsilon(fastacct.ZCDP(rho), delta=...)"),
            ("rho_to_epsilon", "fastacct.epsilon(fastacct.ZCDP(rho), delta=...)"),
        )
    ),
    ("GAUSSIAN.subsampled(0.01)", "write .poisson(sample_rate)"),
    ("GAUSSIAN.get_epsilon_for_delta(1e-5)", "fastacct.epsilon(job, delta=...)"),
    ("fa.Gaussian(1.0, 2.0)", "its parameters: noise_multiplier"),
    ("fa.Exponential(1.0, 2.0)", "its parameters: epsilon"),
]
REFUSED += MORE + FOREIGN
ANSWERED += ANSWERED_TOO
UNHELPED = [
    *("GAUSSIAN + 5", "GAUSSIAN(1.0)"),
    "fa.epsilon(JOB, 1e-5).upper",
    "fa.privacy",
    "fa.epsilon(**RUN, delta=1e-5, dp=True)",
    *UNHELPED_TOO,
]
"""Calls that are refused without the cure."""


def said(call):
    """What a call is refused with, or None."""
    try:
        eval(call)
    except (TypeError, ValueError, AttributeError) as refusal:
        return str(refusal)
    return None


def test_each_of_530_calls_is_asked_once():
    calls = [*ANSWERED, *(call for call, _ in REFUSED)]
    assert len(calls) == len(set(calls)) >= 530


@pytest.mark.parametrize("call", ANSWERED)
def test_a_natural_call_is_answered(call):
    assert said(call) is None


@pytest.mark.parametrize(("call", "cure"), REFUSED, ids=[call for call, _ in REFUSED])
def test_a_mistake_is_answered_with_the_cure_in_one_line(call, cure):
    message = said(call)
    assert message is not None
    assert cure in message
    assert "\n" not in message


@pytest.mark.parametrize(("words", "cure"), [*COMMANDS, *FOREIGN_COMMANDS])
def test_a_natural_command_is_answered_or_refused_with_the_cure(words, cure, capsys):
    code = main(words.split())
    answered, refused = capsys.readouterr()
    assert (code == 0) == (cure is None)
    assert answered if cure is None else cure in refused and refused.count("\n") == 1


@pytest.mark.parametrize("call", UNHELPED)
def test_a_call_that_is_not_helped_is_refused_at_least(call):
    assert said(call) is not None


def test_nine_of_ten_calls_are_answered_or_helped():
    helped = len(ANSWERED) + len(REFUSED)
    assert helped >= 0.9 * (helped + len(UNHELPED))
