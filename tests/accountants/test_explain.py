"""Explanations: the readers named are those whose bound is the answer."""

import math

import pytest

import fastacct as fa
from fastacct.testing import examples

PARTS = fa.Parallel(fa.Gaussian(1.0) * 3, fa.Laplace(1.0) * 2)
OTHERS = [PARTS, PARTS + fa.Laplace(2.0), fa.Parallel(fa.Gaussian(1.0), fa.ZCDP(1.0)) * 2, PARTS * 1000]
CHEAP = {type(one): one for one in examples() if "add" in one.relations and type(one) is not fa.RandomWalk}
JOBS = [*CHEAP.values(), *OTHERS]


@pytest.mark.parametrize("target", [{"delta": 1e-6}, {"epsilon": 0.5}], ids=["epsilon", "delta"])
@pytest.mark.parametrize("job", JOBS, ids=lambda job: repr(job)[:40])
def test_what_answered_is_a_row_with_the_answer(job, target):
    why = fa.explain(job, **target)
    bounds = (fa.epsilon_bounds if "delta" in target else fa.delta_bounds)(job, **target)
    assert (why.lower, why.upper, why.status) == (bounds.lower, bounds.upper, bounds.status.name)
    rows = dict(why.readers)
    assert why.answered
    ends = "infinite" if why.lower == math.inf else f" {why.upper!r}"
    assert all(rows[name].rstrip("]").endswith(ends) for name in why.answered)
    assert str(why).count("answered by") == len(why.answered)


def test_parts_of_the_data_are_rows_of_which_the_largest_answers():
    why = fa.explain(PARTS, delta=1e-5)
    assert why.answered == ("a record in the part of Process({Gaussian(noise_multiplier=1.0): 3})",)
    other = dict(why.readers)["a record in the part of Process({Laplace(noise_multiplier=1.0): 2})"]
    assert other.endswith(f", {fa.epsilon(fa.Laplace(1.0) * 2, delta=1e-5)!r}]")


def test_a_reader_without_a_bound_says_why_and_is_none_that_answers():
    tuned = fa.RepeatedSelection(fa.Gaussian(4.0), mean=5.0)
    lines = str(fa.explain(tuned + fa.Laplace(4.0), delta=1e-6)).splitlines()
    assert f"not by contour: no dominating pair is known for {tuned!r}" in lines
    assert (
        "not by the job without subsampling: it is asked for Gaussian noise alone, or where nothing else answers"
        in lines
    )
    assert not [one for one in lines if one.startswith("also by") and ": at most" not in one and ": >=" not in one]


def test_where_the_lower_end_of_a_selection_is_from_is_said():
    noise = fa.Gaussian(1.0).poisson(0.01) * 1000
    why = fa.explain(fa.Exponential(0.1) + noise, delta=1e-5)
    assert why.lower == fa.epsilon_lower(noise, delta=1e-5)
    assert dict(why.readers)["the other mechanisms, from below"] == (
        f">= {why.lower!r}, as only an upper bound is known of Exponential(epsilon=0.1)"
    )
    assert "from below" not in str(fa.explain(noise, delta=1e-5))


def test_a_reader_that_proves_an_upper_end_alone_does_not_show_an_interval():
    why = fa.explain(fa.Exponential(0.1) + fa.Gaussian(1.0), delta=1e-5)
    said = dict(why.readers)
    assert said["contour"].startswith("at most ")
    assert all(said[name] == f"at most {why.upper!r}" for name in why.answered)
    endless = fa.explain(fa.Exponential(0.1) + fa.ApproxDP(1.0, 1e-4), delta=1e-5)
    assert "no finite bound" in dict(endless.readers).values()
    assert not any("[0.0" in words or "inf" in words.split("=")[0] for words in said.values())


@pytest.mark.parametrize(
    ("accountant", "job", "named"),
    [
        (fa.AnalyticGaussian(), fa.Gaussian(1.0), "AnalyticGaussian, a formula of its own"),
        (fa.RDP(), fa.Gaussian(1.0), "Rényi divergence of order 1.96246"),
        (fa.RDP(orders=[2.0, 3.0], conversion="mironov"), fa.Gaussian(1.0), "Rényi divergence of order 2"),
        (fa.RDP(orders=[2.0, 3.0], conversion="mironov"), fa.ZCDP(0.5), "Rényi divergence of order 2"),
        (fa.PLD(tolerance=0.1), fa.Laplace(1.0) * 20, "grid, remove"),
    ],
)
def test_other_accountants_are_explained_with_their_settings(accountant, job, named):
    why = fa.explain(job, epsilon=0.75, accountant=accountant)
    assert why.answered == (named,)
    upper = fa.delta(job, epsilon=0.75, accountant=accountant)
    assert dict(why.readers)[named].rstrip("]").endswith(f" {upper!r}")


def test_an_infinite_answer_is_told_apart_from_none():
    infinite = fa.explain(fa.Gaussian(1.0) * 10, delta=0.0)
    assert infinite.answered == ("contour",)
    assert "answered by contour: infinite" in str(infinite)
    assert "of order" not in str(fa.explain(fa.Gaussian(1.0), delta=0.0, accountant=fa.RDP()))
    unknown = fa.explain(fa.ZCDP(0.1), delta=0.0)
    assert unknown.answered == ("none of them",)
    assert "answered by none of them: no finite bound is known" in str(unknown)
