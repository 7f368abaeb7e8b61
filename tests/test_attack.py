"""What an attack can reach: advantage, Bayes risk, rates of true positives and predictive values."""

import math

import numpy as np
import pytest
from mpmath import mpf

import fastacct as fa
from fastacct.mechanisms import Gaussian
from fastacct.tradeoff import (
    advantage,
    advantage_bounds,
    bayes_risk,
    bayes_risk_bounds,
    positive_predictive_value,
    tpr_at_fpr,
    tpr_at_fpr_bounds,
    tradeoff,
)

RUN = Gaussian(1.0).poisson(0.01) * 1000


def test_attack_quantities_meet_the_reference_values():
    one = Gaussian(1.0)
    for bounds, truth in (
        (advantage_bounds(one), "0.3829249225480262"),
        (tpr_at_fpr_bounds(one, 1e-3), "0.01829846840565660"),
        (bayes_risk_bounds(one, prior=0.3), "0.2530043786236346"),
        (bayes_risk_bounds(one, prior=0.7), "0.2530043786236346"),
    ):
        assert mpf(bounds.lower) <= mpf(truth) * (1 + mpf(10) ** -15)
        assert mpf(bounds.upper) >= mpf(truth) * (1 - mpf(10) ** -15)
        assert bounds.upper - bounds.lower < 1e-11
    assert advantage(RUN, neighbors="add") == pytest.approx(
        advantage(RUN, neighbors="remove"), rel=2e-10, abs=0.0
    )  # the widths of both


@pytest.mark.parametrize("relation", ["add", "remove", "add_remove"])
def test_the_quantities_belong_to_the_curve(relation):
    x = np.linspace(0.0, 1.0, 401)
    fnr = tradeoff(RUN, x, neighbors=relation)
    assert -1e-4 < (1.0 - x - fnr).max() - advantage(RUN) < 1e-12
    for prior in (0.2, 0.5, 0.65):
        risk = bayes_risk(RUN, prior=prior, neighbors=relation)
        assert -1e-12 < (prior * x + (1.0 - prior) * fnr).min() - risk < 1e-4
    ppv = positive_predictive_value(RUN, x[1:], prior=0.9, neighbors=relation)
    tpr = tpr_at_fpr(RUN, x[1:], neighbors=relation)
    assert ppv == pytest.approx(0.1 * tpr / (0.1 * tpr + 0.9 * x[1:]), rel=1e-14, abs=0.0)  # five roundings, up
    assert positive_predictive_value(RUN, [0.0, 0.5], prior=[[0.0], [0.3], [1.0]]).shape == (3, 2)
    assert positive_predictive_value(RUN, 0.0, prior=0.3) == 1.0
    assert positive_predictive_value(RUN, 0.0, prior=1.0) == 0.0
    swapped = bayes_risk(RUN, prior=0.8, neighbors="remove")
    assert bayes_risk(RUN, prior=0.2, neighbors="add") == pytest.approx(swapped, rel=1e-10, abs=0.0)  # widths of both


def test_risks_of_a_guarantee():
    job = fa.ApproxDP(1.0, 1e-5)
    assert 0.002728281828459045 <= fa.tpr_at_fpr(job, 1e-3) <= 0.00274
    assert fa.advantage(job) == pytest.approx(0.4621225360884372, rel=1e-13, abs=0.0)  # its rounding up
    risk = fa.bayes_risk_bounds(job, prior=0.3)
    truth = 0.3 * (1.0 - fa.delta(job, epsilon=math.log(7.0 / 3.0)))
    assert risk.lower <= truth * (1.0 + 1e-12)
    assert truth <= risk.upper * (1.0 + 1e-9)
    both = fa.tradeoff(fa.PureDP(np.array([0.5, 1.0])) * 2, 0.1)
    assert both[0] == fa.tradeoff(fa.PureDP(0.5) * 2, 0.1)
    assert both[1] == fa.tradeoff(fa.PureDP(1.0) * 2, 0.1)
    with pytest.raises(ValueError, match="one direction"):
        fa.tradeoff(job, 0.1, neighbors="remove")


REFUSED = [
    (lambda: bayes_risk(RUN, prior=-0.1), r"prior = -0\.1 is out of range"),
    (lambda: positive_predictive_value(RUN, [0.1, 0.2], prior=[0.1, 0.2, 0.3]), r"fpr \(2,\), prior \(3,\)"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_with_its_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
