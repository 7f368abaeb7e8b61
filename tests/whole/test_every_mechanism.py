"""The errors of other libraries, shown absent for every mechanism, every relation that it supports and every accountant
that reads it: count ignored, one contribution instead of two under replace-one, fail-open, orders interpolated."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.testing import examples
from fastacct.testing.contract import Contract

EXAMPLES = list(examples())
METHODS = [fa.Exact(), fa.RDP()]
OLDER = [fa.BasicComposition(), fa.AdvancedComposition(), fa.ZCDPComposition()]
DELTA = 1e-6
DOUBLED = (
    fa.Gaussian,
    fa.Laplace,
    fa.DiscreteLaplace,
    fa.DiscreteGaussian,
    fa.Skellam,
    fa.TreeAggregation,
    fa.DPFTRL,
    fa.RandomWalk,
)
"""Noise added to what records contribute: replacing one moves it twice as far."""


@functools.cache
def epsilon(job, neighbors, method):
    """Asked once: several tests compare the same answers.  Jobs are values, so that equal sums are one question."""
    return fa.epsilon(job, delta=DELTA, neighbors=neighbors, accountant=method)


def cases(mechanism):
    """Relations and accountants: both read every mechanism, and a refusal is an error."""
    return itertools.product(mechanism.relations, METHODS)


def is_sampled_gaussian(mechanism, neighbors):
    """What the older accountants read, and nothing else."""
    parts = (mechanism * 1).decompose(neighbors)
    return all(one.sampled_gaussian(neighbors) is not None for one, _ in parts)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_the_count_counts(mechanism):
    """(That a sum has the bits of the product is in the contract, `check_mechanism`.)"""
    assert mechanism + mechanism * 2 == mechanism * 3
    for neighbors, method in cases(mechanism):
        once, thrice = epsilon(mechanism, neighbors, method), epsilon(mechanism * 3, neighbors, method)
        assert thrice >= once, (neighbors, method)
        if 1e-3 < once < math.inf:
            assert thrice > 1.0005 * once, (neighbors, method)


@pytest.mark.parametrize("mechanism", [m for m in EXAMPLES if "replace_one" in m.relations], ids=repr)
def test_replacing_one_record_is_not_cheaper_and_moves_noise_twice(mechanism):
    for method in METHODS:
        replaced = epsilon(mechanism * 3, "replace_one", method)
        if "add_remove" in mechanism.relations:
            assert replaced >= epsilon(mechanism * 3, "add_remove", method) * (1.0 - 1e-9), method
        if isinstance(mechanism, DOUBLED) and 1e-3 < replaced < math.inf:
            assert replaced > 1.5 * epsilon(mechanism * 3, "add_remove", method), method


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_divergences_rise_with_the_order_and_are_not_interpolated(mechanism):
    """(order - 1) D is convex: a value between two orders is at most on the chord, and D itself is not linear there."""
    orders = np.array([1.2, 1.5, 2.0, 2.5, 3.0, 7.5, 8.0])
    for neighbors in mechanism.relations:
        value = fa.rdp(mechanism * 2, orders, neighbors=neighbors)
        finite = np.isfinite(value)
        assert np.all(np.diff(value[finite]) >= -1e-9 * value[finite][:-1] - 1e-13), neighbors
        if finite[[2, 3, 4]].all():
            chord = 0.5 * (value[2] + 2.0 * value[4]) / 1.5
            assert value[3] <= chord * (1.0 + 1e-6) + 1e-13, neighbors


def has_one_law(job):
    """Whether the losses of both directions are the same: no reader tells them apart."""
    pairs = [mechanism.losses("add_remove") for mechanism, _ in job.decompose("add_remove")]
    return all(pair is not None and pair.is_mirrored for pair in pairs)


# without a bound the truncated Laplace noise has the losses of Laplace noise, as test_laplace_truncated.py says
@pytest.mark.parametrize("mechanism", [m for m in EXAMPLES if m != fa.TruncatedLaplace(1.0, math.inf)], ids=repr)
def test_delta_falls_to_nothing_where_the_sum_of_pure_guarantees_is_reached(mechanism):
    """No answer gets worse because the target became easier, up to that sum and across it."""
    distance = np.array([-0.3, -1e-6, -1e-9, -1e-12, 0.0, 1e-12])
    for neighbors in {"remove", "add", "replace_one"}.intersection(mechanism.relations):
        for job in (mechanism * 3, mechanism + fa.PureDP(0.25)):
            pure = job.pure_epsilon(neighbors)
            if not 0.0 < pure < math.inf:
                continue
            at = pure * (1.0 + distance)
            if neighbors == "add" and has_one_law(job):
                far = [fa.delta(job, epsilon=at[0], neighbors=way) for way in ("add", "remove")]
                assert far[0] == far[1], job
                continue
            found = fa.delta(job, epsilon=at, neighbors=neighbors)
            assert np.all(np.diff(found) <= 0.0), (neighbors, job)
            assert np.all(found[at >= pure] == 0.0), (neighbors, job)
            # the kernels round the largest loss by themselves
            assert fa.epsilon(job, delta=0.0, neighbors=neighbors) <= pure * (1.0 + 1e-13), (neighbors, job)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_no_other_accountant_is_below_the_exact_one(mechanism):
    """`PLD()` stops refining a grid of its own at the same tolerance of 1e-4, anywhere below it."""
    seen = set()
    for neighbors in mechanism.relations:
        best = epsilon(mechanism * 3, neighbors, fa.Exact())
        # close to the largest loss both are tight, and the divergences are not asked
        assert best <= epsilon(mechanism * 3, neighbors, fa.RDP()) * (1.0 + 1e-9), neighbors
        for other in OLDER:
            if is_sampled_gaussian(mechanism, neighbors):
                assert best <= epsilon(mechanism * 3, neighbors, other) * (1.0 + 1e-12), (neighbors, other)
            else:
                with pytest.raises(ValueError, match=f"accountant {type(other).__name__} covers Gaussians"):
                    epsilon(mechanism * 3, neighbors, other)
        statement = Contract(mechanism, neighbors, fa.delta_bounds).statement()
        if statement in seen:
            continue  # the same losses: one grid says it
        seen.add(statement)
        if all(one.has_losses for one, _ in (mechanism * 1).decompose(neighbors)):
            assert best <= epsilon(mechanism * 3, neighbors, fa.PLD()) * (1.0 + 1e-4), neighbors
        else:
            with pytest.raises(ValueError, match="accountant PLD: no dominating pair is known"):
                epsilon(mechanism * 3, neighbors, fa.PLD())


def test_the_older_accountants_read_what_they_read():
    """A kind that begins to be refused is missing here."""
    read = [(one, neighbors) for one in EXAMPLES for neighbors in one.relations if is_sampled_gaussian(one, neighbors)]
    assert len(read) == 81


@pytest.mark.parametrize(
    "mechanism",
    [
        fa.Gaussian(0.0),
        fa.Gaussian(0.0).poisson(0.5),
        fa.Laplace(0.0),
        fa.PureDP(math.inf),
        fa.ApproxDP(0.1, 1.0),
        fa.GDP(math.inf),
        fa.ZCDP(math.inf),
        fa.Exponential(math.inf),
        fa.Staircase(math.inf),
        fa.RandomizedResponse(math.inf),
        fa.TreeAggregation(0.0, 10),
        fa.DPFTRL(0.0, 10),
        fa.RandomWalk(0.0, 3),
        fa.RDPCurve([2.0], [math.inf]),
        fa.GOPA(0.0, 1.0, parties=3),
        fa.Laplace(0.0).poisson(0.5),
        fa.PureDP(math.inf).poisson(0.5),
        fa.Parallel(fa.Gaussian(1.0), fa.Gaussian(0.0)),
    ],
    ids=repr,
)
def test_nothing_fails_open(mechanism):
    """Without noise, or without a guarantee, the answer is the safe side, alone and among others."""
    for neighbors, method in cases(mechanism):
        if neighbors == "add" and "poisson" in repr(mechanism):
            continue  # added to a sample the record hides: the largest loss is -log(1 - q)
        for job in (mechanism, mechanism * 3, mechanism * 2 + mechanism):
            assert epsilon(job, neighbors, method) == math.inf, (neighbors, method)
        if "add_remove" in mechanism.relations:
            assert epsilon(mechanism + fa.Gaussian(1.0), neighbors, method) == math.inf, (neighbors, method)
        assert fa.delta(mechanism, epsilon=1.0, neighbors=neighbors, accountant=method) >= 0.5


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_a_relation_that_is_not_supported_is_refused_by_every_reader(mechanism):
    for neighbors in {"add_remove", "replace_one", "zero_out"} - set(mechanism.relations):
        for method in METHODS:
            with pytest.raises(ValueError, match=f"{neighbors}|covers Gaussians"):
                epsilon(mechanism, neighbors, method)
        with pytest.raises(ValueError, match=f"{neighbors}|covers Gaussians"):
            fa.rdp(mechanism, 2.0, neighbors=neighbors)
        with pytest.raises(ValueError, match=f"{neighbors}|covers Gaussians"):
            fa.tradeoff(mechanism, 0.1, neighbors=neighbors)


FLOATS = [
    (one, field.name)
    for one in EXAMPLES
    for field in dataclasses.fields(one)
    if field.init and isinstance(getattr(one, field.name), float)
]


@pytest.mark.parametrize(("mechanism", "name"), FLOATS, ids=repr)
def test_parameters_that_are_not_numbers_are_refused(mechanism, name):
    with pytest.raises((ValueError, TypeError), match=name):
        dataclasses.replace(mechanism, **{name: math.nan})
