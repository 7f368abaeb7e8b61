"""Records that a batch may hold several times, groups of them, and orders of all: every data set of tiny instances, and
the distributions of counts."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.divergence import mean_of, of_sampled_gaussian
from fastacct.losses.mixture import mixture_of
from fastacct.samplers import draws
from fastacct.samplers.fixed_size import replaced_divergence
from fastacct_ext import _kernels

NOISE, ROUGH = 1.5, 1e-6
EPSILONS = (-1.5, -0.4, 0.0, 0.3, 1.0, 2.0)
VALUES = (-1.0, 0.0, 1.0)
X = np.linspace(-20.0, 20.0, 8001)
DENSITY = {v: np.exp(-0.5 * ((X - v) / NOISE) ** 2) / (NOISE * math.sqrt(2 * math.pi)) for v in range(-8, 9)}


def with_replacement(data, size):
    counted = Counter(sum(data[i] for i in one) for one in itertools.product(range(len(data)), repeat=size))
    return sum(DENSITY[round(total)] * n for total, n in counted.items()) / len(data) ** size


def fixed_size(data, size):
    batches = list(itertools.combinations(data, size))
    return sum(DENSITY[round(sum(batch))] for batch in batches) / len(batches)


def parallel(data, rate, size):
    """`size` Poisson samples with one noise."""
    total = np.zeros_like(X)
    for counts in itertools.product(range(size + 1), repeat=len(data)):
        weight = math.prod(math.comb(size, c) * rate**c * (1 - rate) ** (size - c) for c in counts)
        total += weight * DENSITY[round(sum(c * x for c, x in zip(counts, data, strict=True)))]
    return total


def delta(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * (X[1] - X[0])


def neighbours(sampler, n, members):
    """Pairs of densities of neighbouring data sets: of `n` records, the larger, of which `members` change together."""
    for others in itertools.combinations_with_replacement(VALUES, n - members):
        gone = sampler(others) if others else None
        for mine in itertools.combinations_with_replacement(VALUES, members):
            here, zero = sampler((*others, *mine)), sampler((*others, *[0.0] * members))
            if gone is not None:
                yield from (("remove", here, gone), ("add", gone, here))
            yield from (("zero_out", here, zero), ("zero_out", zero, here))
            for instead in itertools.combinations_with_replacement(VALUES, members):
                yield "replace_one", here, sampler((*others, *instead))


def worst(sampler, n, members):
    cached = {}

    def once(data):
        key = tuple(sorted(data))
        if key not in cached:
            cached[key] = sampler(key)
        return cached[key]

    found = Counter()
    for relation, p, q in neighbours(once, n, members):
        for epsilon in EPSILONS:
            found[relation, epsilon] = max(found[relation, epsilon], delta(p, q, epsilon))
    return found


GAUSSIAN = fa.Gaussian(NOISE)
INSTANCES = {
    # the mechanism; the sampler, records and members; relations under which it is exact for one step
    "2 of 3": (GAUSSIAN.with_replacement(2, 3), (lambda data: with_replacement(data, 2), 3, 1), ("remove", "add")),
    "3 of 3": (GAUSSIAN.with_replacement(3, 3), (lambda data: with_replacement(data, 3), 3, 1), ("remove", "add")),
    "2 of 3, two members": (
        GAUSSIAN.with_replacement(2, 3).group(2), (lambda data: with_replacement(data, 2), 3, 2), ("remove", "add")),
    "fixed, two members": (
        GAUSSIAN.fixed_size(2, 4).group(2), (lambda data: fixed_size(data, 2), 4, 2), ("remove", "add")),
    "parallel": (
        GAUSSIAN.poisson(0.4, draws=2), (lambda data: parallel(data, 0.4, 2), 2, 1),
        ("remove", "add", "zero_out", "replace_one")),
    "parallel, two members": (
        GAUSSIAN.poisson(0.4, draws=2).group(2), (lambda data: parallel(data, 0.4, 2), 3, 2),
        ("remove", "add", "zero_out", "replace_one")),
}  # fmt: skip


@pytest.fixture(scope="module")
def seen():
    return {name: worst(*instance) for name, (_, instance, _) in INSTANCES.items()}


@pytest.mark.parametrize("relation", ["remove", "add", "zero_out", "replace_one"])
@pytest.mark.parametrize("name", INSTANCES)
def test_no_data_set_of_a_tiny_instance_is_above_the_bound(name, relation, seen):
    step, _, exact = INSTANCES[name]
    for epsilon in EPSILONS:
        least = seen[name][relation, epsilon]
        if epsilon < 0.0:  # the other direction's, turned: delta(-e) = 1 - exp(-e) + exp(-e) delta'(e)
            way = {"remove": "add", "add": "remove"}.get(relation, relation)
            lower, upper, _ = fa.delta_bounds(step, epsilon=-epsilon, neighbors=way)
            lower, upper = (1.0 - math.exp(epsilon) * (1.0 - one) for one in (lower, upper))
        else:
            lower, upper, _ = fa.delta_bounds(step, epsilon=epsilon, neighbors=relation)
        assert lower <= least + ROUGH
        assert least <= upper + ROUGH
        if relation in exact:
            assert upper <= least + ROUGH


@pytest.mark.parametrize(
    ("canary", "name", "relation"),
    [
        (GAUSSIAN.poisson(1 / 3, draws=2), "2 of 3", "remove"),  # noise for half the noise
        (GAUSSIAN.with_replacement(2, 4), "2 of 3", "remove"),  # n + 1 for n
        (GAUSSIAN.fixed_size(2, 3), "2 of 3", "remove"),  # as if no record came twice
        (fa.Gaussian(NOISE / 2).poisson(1 / 3, draws=3), "3 of 3", "replace_one"),  # the pair of adding a record
        (GAUSSIAN.poisson(0.4), "parallel", "remove"),  # one sample for two
        (GAUSSIAN.poisson(0.64), "parallel", "add"),  # whether a record is drawn, and not how often
        (GAUSSIAN.fixed_size(2, 4), "fixed, two members", "add"),  # one member for two
    ],
    ids=repr,
)
def test_the_tiny_instances_tell_what_must_not_pass(canary, name, relation, seen):
    way = "remove" if canary == fa.Gaussian(NOISE / 2).poisson(1 / 3, draws=3) else relation
    assert any(
        fa.delta(canary, epsilon=epsilon, neighbors=way) < seen[name][relation, epsilon] - ROUGH
        for epsilon in EPSILONS
        if epsilon >= 0.0
    )


def two_orders(data):
    """Densities of both outputs of an epoch with two batches of one record each, over the square."""
    near = [DENSITY[round(x)][::20] for x in data]
    return 0.5 * (np.outer(near[0], near[1]) + np.outer(near[1], near[0]))


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_shuffled_batches_of_two_records_are_between_the_bounds(relation):
    area = ((X[1] - X[0]) * 20) ** 2
    for epsilon in (0.0, 0.5, 1.0):
        most = 0.0
        for other, x, y in itertools.product(VALUES, VALUES, VALUES):
            if relation == "zero_out" and y != 0.0:
                continue
            p, q = (two_orders((other, one)) for one in (x, y))
            for a, b in ((p, q), (q, p)):
                most = max(most, float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) * area)
        lower, upper, status = fa.delta_bounds(GAUSSIAN.shuffled(2), epsilon=epsilon, neighbors=relation)
        assert lower <= most * (1 + 1e-4)
        assert most * (1 - 1e-4) <= upper
        assert status == fa.Status.LOOSE
        if relation == "replace_one":  # Poisson sampling would say less than what happens
            assert fa.delta(GAUSSIAN.poisson(0.5) * 2, epsilon=epsilon, neighbors="replace_one") < most


def test_a_record_is_drawn_several_times_and_the_others_are_opposite():
    """n = m = 3, noise 1, epsilon 0: 0.55246 where all others are 0, above the mixture of N(2 c)."""
    lower, upper, _ = fa.delta_bounds(fa.Gaussian(1.0).with_replacement(3, 3), epsilon=0.0, neighbors="replace_one")
    assert lower < 0.55246 < upper


@pytest.mark.parametrize(
    ("size", "rate", "records"), [(3, 0.4, 1), (40, 1.0, 60_000), (512, 1.0, 50_000), (900, 3.0, 4)]
)
def test_counts_are_binomial_rounded_outwards(size, rate, records):
    check_counts(
        draws.binomial(size, rate, records),
        lambda k: mp.binomial(size, k) * (mpf(rate) / records) ** k * (1 - mpf(rate) / records) ** (size - k),
        size,
    )


@pytest.mark.parametrize(("size", "batch", "records"), [(2, 2, 4), (5, 100, 1000), (300, 512, 50_000), (40, 3, 50)])
def test_counts_are_hypergeometric_rounded_outwards(size, batch, records):
    few = min(size, batch)
    check_counts(
        draws.hypergeometric(size, batch, records),
        lambda k: mp.binomial(size, k) * mp.binomial(records - size, batch - k) / mp.binomial(records, batch),
        few,
    )


def test_what_is_left_of_counts_is_not_lost_in_rounding():
    """Masses fall by 1e-29 from count to count: beyond the third one the difference to 1 has no digits."""
    counts = draws.binomial(100, 1e-30)
    with mp.workdps(60):
        q, beyond = mpf(1e-30), range(len(counts.below), 12)
        left = mp.fsum(mp.binomial(100, k) * q**k * (1 - q) ** (100 - k) for k in beyond)
    assert 0 < left <= mpf(counts.above[-1][0])


def check_counts(counts, mass, most):
    with mp.workdps(60):
        truth = [mass(k) for k in range(most + 1)]
        tails = [mp.fsum(truth[k:]) for k in range(most + 1)]
        for k in range(most + 1):
            tail = mp.fsum(mpf(w) for w, c in counts.above if c >= k)
            assert tail >= tails[k] * (1 - mpf(2) ** -50)
        assert counts.below is None or all(
            abs(mpf(w) - truth[int(c)]) <= truth[int(c)] * mpf(2) ** -53 for w, c in counts.below
        )
        if counts.below is not None and counts.below != counts.above:
            assert mp.fsum(tails[len(counts.below) :][:1]) <= mpf(counts.above[-1][0])
        assert len(counts.above) <= draws.MAX_COMPONENTS + 1


VALUES_OF_OTHERS = [
    # noise, records, draws, steps, epsilon, direction, delta: by a contour integral in doubles, two step sizes
    (2.0, 100, 2, 20, 0.5, "remove", 0.000311796643214054),
    (3.0, 20, 4, 10, 1.0, "remove", 0.0117159691038458),
    (2.0, 10_000, 100, 100, 0.5, "add", 4.34990536715843e-11),
    (4.0, 1000, 20, 100, 0.5, "add", 4.61046140542961e-10),
]


@pytest.mark.parametrize("case", VALUES_OF_OTHERS, ids=str)
def test_of_many_steps_it_is_the_mixture(case):
    noise, records, size, steps, epsilon, way, value = case
    step = fa.Gaussian(noise).with_replacement(size, records)
    lower, upper, status = fa.delta_bounds(step * steps, epsilon=epsilon, neighbors=way)
    assert lower * (1 - 1e-12) <= value <= upper * (1 + 1e-12)
    assert status == fa.Status.TIGHT
    assert upper - lower <= 1e-9 * value


@pytest.mark.parametrize("way", ["remove", "add"])
def test_counts_that_are_cut_say_what_all_of_them_say(way, monkeypatch):
    job = fa.Gaussian(1.0).poisson(0.001).group(20) * 500
    whole = fa.epsilon_bounds(job, delta=1e-8, neighbors=way)
    draws.binomial.cache_clear()
    monkeypatch.setattr(draws, "_FEW", 1)
    cut = fa.epsilon_bounds(fa.Gaussian(1.0).poisson(0.001).group(20) * 500, delta=1e-8, neighbors=way)
    draws.binomial.cache_clear()
    assert max(whole[0], cut[0]) <= min(whole[1], cut[1])
    assert cut[2] == fa.Status.TIGHT


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.5, 6.0), st.integers(200, 3000), st.integers(1, 100), st.integers(1, 1000), st.floats(1e-12, 1e-2),
    st.sampled_from(["remove", "add", "replace_one"]),
)  # fmt: skip
def test_more_members_and_more_draws_are_never_more_private(noise, records, size, steps, level, relation):
    few, many = (fa.Gaussian(noise).poisson(1 / records, draws=m) * steps for m in (size, 2 * size))
    lower, upper, _ = fa.epsilon_bounds(few, delta=level, neighbors=relation)
    assert 0.0 <= lower <= upper
    assert lower <= fa.epsilon(many, delta=level, neighbors=relation)


def test_a_sample_of_several_draws_is_a_group():
    step = fa.Gaussian(1.0).poisson(0.01, draws=8)
    assert step == fa.Gaussian(1.0).poisson(0.01).group(8)
    assert step.group(3) == fa.Gaussian(1.0).poisson(0.01).group(24)


# -- k of the steps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "steps", "selected"), [(1.0, 100, 5), (2.0, 1000, 10), (2.0, 50, 25), (1.0, 7, 3)])
def test_divergences_of_several_steps_are_above_the_exact_ones(noise, steps, selected):
    """At order 2, E exp(J / noise^2) over the number J of steps that two independent choices share."""
    with mp.workdps(30):
        whole = mp.binomial(steps, selected)
        shared = (
            mp.binomial(selected, j) * mp.binomial(steps - selected, selected - j) / whole * mp.exp(j / mpf(noise) ** 2)
            for j in range(selected + 1)
        )
        truth = float(mp.log(mp.fsum(shared)))
    job = fa.Gaussian(noise).allocation(steps, selected=selected)
    assert truth <= fa.rdp(job, 2.0) <= 1.15 * truth
    assert fa.rdp(job, 2.0) < fa.rdp(fa.Gaussian(noise).allocation(steps // selected) * selected, 2.0) * (1 + 1e-9)


def test_all_steps_are_no_choice_and_one_is_the_exact_one():
    whole = fa.Gaussian(2.0).allocation(5, selected=5)
    assert fa.epsilon_bounds(whole, delta=1e-5) == fa.epsilon_bounds(fa.Gaussian(2.0) * 5, delta=1e-5)
    assert fa.Gaussian(2.0).allocation(5, selected=1) == fa.Gaussian(2.0).allocation(5)
    lower, upper, _ = fa.epsilon_bounds(fa.Gaussian(2.0).allocation(6, selected=2), delta=1e-5)
    assert lower == 0.0
    assert upper == fa.epsilon(fa.Gaussian(2.0).allocation(3) * 2, delta=1e-5)


def test_blocks_of_steps_are_as_even_as_can_be():
    blocks = fa.Gaussian(2.0).allocation(7, selected=3).decompose("remove")
    assert dict(blocks) == {fa.Gaussian(2.0).allocation(2): 2, fa.Gaussian(2.0).allocation(3): 1}


def test_counts_that_are_moved_to_all_are_not_claimed_from_below():
    counts = draws.binomial(100, 1e-3)
    pair = draws.contributed(1.0, counts, "remove")
    assert mixture_of(pair.above).p == counts.above
    assert mixture_of(pair.below).p == counts.below
    assert counts.above[-1][1] == 100.0
    assert counts.below[-1][1] < 30.0
    lower, upper, _ = fa.delta_bounds(fa.Gaussian(1.0).poisson(1e-3, draws=100), epsilon=2000.0, neighbors="remove")
    assert lower < 1e-100  # so often a record is drawn with probability 1e-164
    assert upper < 1e-40


@pytest.mark.parametrize(("noise", "many", "records", "size"), [(1.157, 9, 20, 7), (3.0, 20, 100, 1), (0.5, 6, 3, 1)])
def test_divergences_of_replaced_draws_leave_out_no_more_than_a_billionth(noise, many, records, size):
    """Of counts that add next to nothing the integrals are bounded, not taken."""
    step = fa.Gaussian(noise).with_replacement(many, records) * 1
    (mechanism, _), *_ = step.group(size).decompose("zero_out") if size > 1 else step.decompose("zero_out")
    pair = mechanism.losses("zero_out")
    orders = 1.0 + np.geomspace(1e-6, 1e3, 40)
    some, rate = draws._some(pair._counts.above)
    parts = []
    for weight, k in some:
        removed = of_sampled_gaussian(np.asarray(0.5 * noise / k), np.asarray(rate), orders)
        parts.append((weight / rate, replaced_divergence(noise / k, rate, orders, removed)))
    every = mean_of(orders, parts)
    found = pair.divergence(orders)
    assert (every <= found * (1.0 + 1e-13)).all()
    assert (found <= every * (1.0 + 1e-8)).all()


@pytest.mark.parametrize(
    ("job", "delta", "most", "terms"),
    [
        (fa.Gaussian(4.04593).with_replacement(544, 26_734) * 50, 3.74e-6, 0.550024, 2e7),
        (fa.Gaussian(2.2494).with_replacement(204, 172_355) * 26_160, 5.8e-7, 1.882245, 1.6e7),
        (fa.Gaussian(1.56762).with_replacement(7, 5805) * 829, 1.7e-5, 0.981693, 2e7),
    ],
    ids=["half a record", "a tenth of one", "20,000 nodes"],
)
def test_a_question_of_draws_that_are_revealed_takes_few_lines(job, delta, most, terms):
    """One line for many targets, or one of its own for those that are nearly the same; no grid where nodes are many."""
    before = _kernels.counted()
    found = fa.epsilon(job, delta=delta, neighbors="replace_one")
    assert _kernels.counted() - before <= terms
    assert 0.99999 * most <= found <= most


def test_a_target_of_rare_draws_does_not_depend_on_others():
    deltas = [1e-9, 5.8e-7, 5.8e-7 * (1.0 + 1e-9), 5.8e-7 * (1.0 + 1e-6), 3e-5, 1e-3]

    def job():
        return fa.Gaussian(2.2494).with_replacement(204, 172_355) * 26_160

    alone = [fa.epsilon(job(), delta=delta, neighbors="replace_one") for delta in deltas]
    assert fa.epsilon(job(), delta=np.array(deltas), neighbors="replace_one").tolist() == alone
    assert fa.epsilon(job(), delta=np.array(deltas[::-1]), neighbors="replace_one").tolist() == alone[::-1]
