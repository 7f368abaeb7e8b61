"""Processes: how counts add up, how arrays become cells, what other accountants read of them, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import fastacct as fa
from fastacct.epsilon import (
    delta,
    delta_bounds,
    delta_lower,
    epsilon,
    epsilon_bounds,
    epsilon_lower,
    rdp,
    rdp_bounds,
)
from fastacct.mechanisms import Gaussian, GaussianMixture, Grouped, PoissonSampled, process
from fastacct.mechanisms.base import merge
from fastacct.mechanisms.process import Process
from fastacct.readers import cell_job

ADD_REMOVE = ("add_remove", "add", "remove", "zero_out")


SAMPLED = Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.05)


REGISTRY = {
    "gaussian": Gaussian(noise_multiplier=3.0),
    "sampled": SAMPLED,
    "sampled, rate 1": Gaussian(2.0).poisson(1.0),
    "group, no sampling": Gaussian(9.0).group(3),
    "group": SAMPLED.group(2),
    "mixture": GaussianMixture(2.0, p=[(0.7, 0.0), (0.2, 1.0), (0.1, 1.5)], q=[(0.9, 0.0), (0.1, -0.5)]),
}


CASES = [(name, relation) for name, step in REGISTRY.items() for relation in step.relations]


COUNT = 12  # enough steps that every entry of the registry is certified


def bits(job, relation="add_remove", accountant=None):
    return tuple(epsilon_bounds(job, delta=1e-4, neighbors=relation)) + tuple(
        delta_bounds(job, epsilon=0.3, neighbors=relation)
    )


def n_fold_is_repetition(step, relation):
    runs = [step * COUNT, COUNT * step, sum([step] * COUNT), (step * 3) * 4, step + step * (COUNT - 1)]
    assert {repr(bits(run, relation)) for run in runs} == {repr(bits(step * COUNT, relation))}
    assert bits(step * COUNT, relation)[0] > bits(step * (COUNT // 2), relation)[1]


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_n_times_a_step_is_n_steps_bit_for_bit(name, relation):
    n_fold_is_repetition(REGISTRY[name], relation)


def test_the_contract_sees_a_count_that_is_ignored(monkeypatch):
    for module in (process, cell_job):
        monkeypatch.setattr(module, "merge", lambda blocks, start=(): dict(start) | dict(blocks))  # the last count wins
    with pytest.raises(AssertionError):
        n_fold_is_repetition(SAMPLED, "add_remove")


def order_does_not_matter(relation):
    blocks = [SAMPLED * 30, Gaussian(2.0).poisson(0.1) * 20, Gaussian(1.7).poisson(0.03) * 100_100, Gaussian(3.0) * 2]
    answers = {repr(bits(a + b + c + d, relation)) for a, b, c, d in itertools.permutations(blocks)}
    assert len(answers) == 1
    split = SAMPLED * 10 + blocks[1] + blocks[3] + SAMPLED * 20 + blocks[2]
    assert repr(bits(split, relation)) in answers


@pytest.mark.parametrize("relation", [*ADD_REMOVE, "replace_one"])
def test_the_order_of_a_sum_does_not_matter_bit_for_bit(relation):
    order_does_not_matter(relation)


def test_the_contract_sees_blocks_that_are_not_sorted(monkeypatch):
    monkeypatch.setattr(cell_job, "sorted", list, raising=False)
    with pytest.raises(AssertionError):
        order_does_not_matter("add_remove")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(REGISTRY)), st.integers(0, 5)), max_size=8), st.randoms())
def test_every_way_to_write_a_sum_is_the_same_table(terms, random):
    total = sum((REGISTRY[name] * n for name, n in terms), Process())
    spread = [REGISTRY[name] for name, n in terms for _ in range(n)]
    random.shuffle(spread)
    assert total == sum(spread, Process()) == Process(merge((step, 1) for step in spread))
    assert hash(total) == hash(sum(spread, Process()))
    assert sum(count for _, count in total) == len(spread)
    assert total * 3 == total + total + total
    assert not total * 0


def test_cells_of_an_array_job_are_the_jobs_in_numbers_bit_for_bit():
    noise, rate, count = np.array([[0.8], [2.0]]), np.array([0.05, 0.2, 1.0]), np.array([20, 50, 7])
    one = Gaussian(noise).poisson(rate) * count
    for other in (Process(), Gaussian(2.0) * 1, Gaussian([[2.0], [3.0]]).poisson(0.2) * 50):
        job = one + other
        assert job.shape == (2, 3)
        lower, upper, _ = epsilon_bounds(job, delta=[[1e-4], [1e-6]], threads=2)
        for i, j in itertools.product(range(2), range(3)):
            plain = Gaussian(noise[i, 0]).poisson(rate[j]) * int(count[j])
            for mechanism, n in other:
                shaped = isinstance(mechanism, PoissonSampled)
                plain += (Gaussian([2.0, 3.0][i]).poisson(0.2) if shaped else mechanism) * n
            expected = epsilon_bounds(plain, delta=[1e-4, 1e-6][i], threads=1)
            assert (lower[i, j], upper[i, j]) == expected[:2]


def test_threads_and_the_other_targets_change_nothing():
    job = SAMPLED * 50 + Gaussian([4.0, 5.0, 6.0])
    targets = np.logspace(-9, -1, 40)[:, None]
    one, two = (epsilon(job, delta=targets, threads=n) for n in (1, 3))
    assert one.shape == (40, 3)
    assert (one == two).all()
    assert one[7, 1] == epsilon(SAMPLED * 50 + Gaussian(5.0), delta=targets[7, 0])


def test_algebra_and_its_printed_form():
    run = 3 * Gaussian(1.0) + SAMPLED
    assert repr(run) == (
        "Process({Gaussian(noise_multiplier=1.0): 3, Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.05): 1})"
    )
    assert dict(run) == dict(run.blocks) == {Gaussian(1.0): 3, SAMPLED: 1}
    assert (len(run), run[SAMPLED], run[Gaussian(7.0)]) == (2, 1, 0)
    assert (np.array([1, 2]) * SAMPLED).shape == (np.float64(3) * (SAMPLED * [1, 2])).shape == (2,)
    assert (0 * Gaussian([1.0, 2.0])).shape == (2,)
    assert run.group(2) == 3 * Gaussian(1.0).group(2) + SAMPLED.group(2)
    assert repr(eval(repr(SAMPLED.group(3)), {"Gaussian": Gaussian})) == repr(SAMPLED.group(3))
    with pytest.raises(TypeError):
        run.blocks[SAMPLED] = 5


def test_mechanisms_are_values():
    assert Gaussian(1) == Gaussian(1.0) != Gaussian(2.0)
    assert len({Gaussian([1.0, 2.0]), Gaussian(np.array([1.0, 2.0])), Gaussian([2.0, 1.0])}) == 2
    assert GaussianMixture(1.0, [(0.5, 2.0), (0.25, 0.0), (0.25, 0.0)]) == GaussianMixture(1.0, [(0.5, 0), (0.5, 2)])
    assert SAMPLED.group(1) is SAMPLED
    assert Gaussian(1.0).group(2).group(3) == Grouped(Gaussian(1.0), 6)
    noise = np.array([1.0, 2.0])
    step = Gaussian(noise)
    noise[0] = -5.0
    assert step.noise_multiplier[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        step.noise_multiplier[0] = 0.5
    with pytest.raises(AttributeError):
        step.noise_multiplier = 3.0


def test_fractional_orders_are_exact_and_tiny_rates_stay_positive():
    assert rdp(Gaussian(1.0).poisson(0.01), 1.5) == pytest.approx(1.2725374332744983e-4, rel=3e-13, abs=0.0)
    leading = 0.75e-4 * math.expm1(1e-4)  # the next term is 5e-7 of it
    assert rdp(Gaussian(100.0).poisson(0.01), 1.5) == pytest.approx(leading, rel=1e-6, abs=0.0)
    assert rdp(Gaussian(1.0).poisson(0.1) + Gaussian(2.0), 2) == pytest.approx(
        rdp(Gaussian(1.0).poisson(0.1), 2) + 0.25, rel=1e-14, abs=0.0
    )
    lower, upper, _ = rdp_bounds(Gaussian(1.0).poisson(1e-8) * 3, [1.5, 2.0])
    assert (lower > 0.0).all()
    assert upper[1] == pytest.approx(3 * math.expm1(1.0) * 1e-16, rel=3e-13, abs=0.0)
    small = Gaussian(1.0).poisson(1e-8) * 1000
    # total variation: 1e-8 E|sum of 1000 expm1(z - 1/2)|/2, z normal, by its characteristic function; next order 1e-8
    assert delta_lower(small, epsilon=0.0) == pytest.approx(1.64956328e-7, rel=1e-6, abs=0.0)
    assert delta(small, epsilon=0.0) == pytest.approx(1.64956328e-7, rel=1e-6, abs=0.0)
    assert epsilon(SAMPLED * 1000, delta=1e-5, accountant=fa.RDP(orders=[1.01, 2.0, 64.0])) > 0.0


def test_other_accountants_give_what_dpsgd_gives():
    run = {"noise_multiplier": [1.0, 2.0], "sample_rate": 0.01, "steps": 500, "delta": [[1e-5], [1e-8]]}
    job = Gaussian([1.0, 2.0]).poisson(0.01) * 500
    for accountant in (
        fa.RDP(),
        fa.RDP(conversion="mironov"),
        fa.ZCDPComposition(),
        fa.BasicComposition(),
        fa.Exact(),
        None,
    ):
        expected = fa.dpsgd.epsilon(**run, accountant=accountant)
        assert (epsilon(job, delta=[[1e-5], [1e-8]], accountant=accountant) == expected).all()
    assert (epsilon_bounds(job, delta=1e-5, accountant=fa.Exact()).lower == epsilon_lower(job, delta=1e-5)).all()
    mixed = job + Gaussian(2.0).poisson(0.01) * 100
    history = [(1.0, 0.01, 500), (2.0, 0.01, 100)]
    expected = fa.dpsgd.epsilon(history=history, delta=1e-5, accountant=fa.RDP())
    assert epsilon(mixed, delta=1e-5, accountant=fa.RDP())[0] == expected
    assert epsilon(mixed, delta=1e-5, accountant=fa.RDP())[1] == fa.dpsgd.epsilon(
        noise_multiplier=2.0, sample_rate=0.01, steps=600, delta=1e-5, accountant=fa.RDP()
    )
    halved = epsilon(Gaussian(2.0), delta=1e-5, neighbors="replace_one", accountant=fa.RDP())
    assert halved == pytest.approx(4.728386984943314, rel=1e-12, abs=0.0)
    assert rdp(Gaussian(3.0).group(3) * 2, 2.0, neighbors="remove") == pytest.approx(2.0, rel=1e-14, abs=0.0)


REFUSED = [
    (lambda: Gaussian(-1.0), r"noise_multiplier = -1\.0 is out of range; allowed: \[0, inf\]"),
    (lambda: Gaussian([1.0, math.nan]), r"noise_multiplier\[1\] = nan"),
    (lambda: Gaussian(1.0).poisson([0.1, 2.0]), r"sample_rate\[1\] = 2\.0 is out of range; allowed: \[0, 1\]"),
    (lambda: Gaussian([1.0, 2.0]).poisson([0.1] * 3), r"mechanism \(2,\), sample_rate \(3,\)"),
    (lambda: SAMPLED * 1.5, r"count = 1\.5 is out of range; allowed: whole numbers"),
    (lambda: -1 * SAMPLED, r"count = -1\.0"),
    (lambda: SAMPLED * True, r"count must be .* not bool True"),
    (lambda: SAMPLED * None, r"count must be .* not NoneType"),
    (lambda: SAMPLED * (2**53 + 1), r"count = 9007199254740993 is out of range"),
    (lambda: SAMPLED * 2**52 + SAMPLED * 2**52, r"count = 9007199254740992\.0 is out of range"),
    (lambda: SAMPLED * 2**53 + SAMPLED, r"count = 9007199254740992\.0 is out of range"),
    (lambda: SAMPLED * 2**52 * 3, r"count = 1\.35\d*e\+16 is out of range"),
    (lambda: SAMPLED * SAMPLED, r"count must be a whole number, not Gaussian"),
    (lambda: Gaussian([1.0, 2.0]) * [1, 2, 3], r"\(2,\), count \(3,\)"),
    (lambda: Gaussian([1.0, 2.0]) + Gaussian([1.0, 2.0, 3.0]), r"do not broadcast"),
    (lambda: SAMPLED + 1, r"jobs add up: write job \+ other"),
    (lambda: (SAMPLED * 2) * (SAMPLED * 2), r"unsupported operand"),
    (lambda: Process({1: 2}), r"a process is made of \(mechanism, count\)"),
    (lambda: Process("ab"), r"blocks must be a table"),
    (lambda: PoissonSampled(SAMPLED, 0.1), r"is a sample already; sample once, at the product"),
    (lambda: SAMPLED.group([2, 3]), r"size must be one number"),
    (lambda: GaussianMixture(1.0, [(0.5, -1.0), (0.5, 0.0)]), r"p\[0\] mean = -1\.0 is out of range"),
    (lambda: GaussianMixture(1.0, [(1.0, 0.5)], [(1.0, 1.0)]), r"q\[0\] mean = 1\.0 is out of range"),
    (lambda: GaussianMixture(1.0, [(0.5, 1.0)]), r"weights of p add up to 0\.5, not to 1"),
    (lambda: GaussianMixture(1.0, [(1.0, 1.0, 1.0)]), r"p\[0\] must be \(weight, mean\)"),
    (
        lambda: GaussianMixture(1.0, [(1 / 66, float(i)) for i in range(66)]),
        r"p has 66 components; allowed: at most 65",
    ),
    (lambda: GaussianMixture(1.0, [(1.0, 1.0)]).group(2), r"group privacy is not implemented for GaussianMixture"),
    (lambda: epsilon("run", delta=1e-5), r"job must be a mechanism or a process"),
    (lambda: epsilon(SAMPLED, delta=[0.1, 1.5]), r"delta\[1\] = 1\.5 is out of range; allowed: \[0, 1\]"),
    (lambda: delta(SAMPLED, epsilon=-1.0), r"epsilon = -1\.0 is out of range"),
    (lambda: epsilon(Gaussian([1.0, 2.0]), delta=[0.1] * 3), r"job \(2,\), delta \(3,\)"),
    (lambda: epsilon(SAMPLED, delta=0.1, neighbors="swap"), r"neighbors = 'swap' is not one of"),
    (lambda: epsilon(SAMPLED, delta=0.1, neighbors="replace_one", accountant=fa.AnalyticGaussian()), r"'replace_one'"),
    (
        lambda: epsilon(SAMPLED.group(2), delta=0.1, accountant=fa.BasicComposition()),
        r"covers Gaussians and their Poisson samples",
    ),
    (lambda: epsilon(SAMPLED, delta=0.1, accountant="rdp"), r"accountant must be an accountant object"),
    (lambda: epsilon_lower(SAMPLED, delta=0.1, accountant=fa.RDP()), r"proves no lower bound"),
    (lambda: epsilon(SAMPLED + Gaussian(1.0), delta=0.1, accountant=fa.ZCDPComposition()), r"heterogeneous"),
    (lambda: rdp_bounds(fa.ZCDP(1.0), 2.0), r"rdp_bounds covers jobs whose losses are all known, which .* is not"),
    (lambda: rdp(SAMPLED, 0.9), r"orders = 0\.9 is out of range"),
    (lambda: epsilon(SAMPLED, delta=0.1, threads=0), r"threads = 0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_with_its_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_divergences_of_mixtures_are_bounds():
    """inf where none is known; never below a Gaussian's order / 2, or a multinomial sum."""
    assert rdp(GaussianMixture(1.0, [(1.0, 1.0)]) * 3, 2.0) >= 3.0
    assert rdp(Gaussian(1.0).poisson(0.1).group(2) * 2, 3.0) >= 2.0 * 0.2889982101341943
    assert rdp(SAMPLED + GaussianMixture(1.0, [(1.0, 1.0)]), 4.0) >= 2.0


def test_a_record_may_be_in_another_part_in_every_release():
    """One release of each part is worse than two of the same one: the closed form of their sum."""
    found = fa.delta_bounds(fa.Parallel(Gaussian(1.0), fa.PureDP(1.5)) * 2, epsilon=3.0)
    with mp.workdps(30):
        true = 1 / (1 + mp.exp(-mp.mpf(3) / 2))  # of a response, whose loss is 3/2 then, and -3/2 else

        def left(epsilon):
            return mp.ncdf(mp.mpf(1) / 2 - epsilon) - mp.exp(epsilon) * mp.ncdf(-mp.mpf(1) / 2 - epsilon)

        truth = true * left(mp.mpf(3) / 2) + (1 - true) * left(mp.mpf(9) / 2)
        assert found.lower <= truth <= found.upper
    assert max(fa.delta(one * 2, epsilon=3.0) for one in (Gaussian(1.0), fa.PureDP(1.5))) < 0.7 * found.lower
