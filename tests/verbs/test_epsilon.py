"""Epsilon and delta by Renyi DP: against the oracle, in the corners, over histories, and as a function of
everything.  What does not depend on the accountant is tried with the default too."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from tests.oracle_data import Question, truths

RDP = fa.RDP()
TRUTHS = truths()
OPACUS_ORDERS = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))


def epsilon_of(**run):
    return fa.dpsgd.epsilon(**{"accountant": RDP, **run})


def delta_of(**run):
    return fa.dpsgd.delta(**{"accountant": RDP, **run})


def variation(sigma, q, steps):
    """Bound of delta(0) by the Kullback-Leibler divergence: Pinsker, Bretagnolle and Huber."""
    return pinsker(mpf(steps) * reference.rdp(sigma, q, 1, digits=18))


def pinsker(kl):
    return mp.sqrt(min(kl / 2, -mp.expm1(-kl)))


def random_runs(n, seed):
    rng = np.random.default_rng(seed)
    sigma, q = 10 ** rng.uniform(-1.2, 3, n), 10 ** rng.uniform(-9, 0, n)
    steps, delta = np.floor(10 ** rng.uniform(0, 8, n)), 10 ** rng.uniform(-60, -1, n)
    return sigma, q, steps, delta


def stored(quantity, conversion):
    """Random runs with the infimum over orders and the Kullback-Leibler divergence, from tests/data/truths.csv."""
    found = [one for one in TRUTHS if (one.quantity, one.word) == (quantity, conversion)]
    assert len(found) >= 6
    for one in found:
        run = {"noise_multiplier": one.sigma, "sample_rate": one.sample_rate, "steps": one.steps}
        kl = TRUTHS[Question("kullback_leibler", one.sigma, one.sample_rate, one.steps, 0.0, "")]
        yield run, one.target, TRUTHS[one], pinsker(kl)


@pytest.mark.parametrize("conversion", ["mironov", "canonne_kamath_steinke"])
def test_epsilon_is_never_below_the_infimum_over_orders_and_close_to_it(conversion):
    for run, delta, truth, at_zero in stored("rdp_epsilon", conversion):
        mine = epsilon_of(**run, delta=delta, accountant=fa.RDP(conversion=conversion))
        if conversion != "mironov" and at_zero <= delta:
            truth = mpf(0)
        assert mpf(mine) >= truth, (run, delta)
        assert mpf(mine) <= truth * (1 + mpf("1e-10")), (run, delta)


def test_delta_is_never_below_the_infimum_over_orders_and_close_to_it():
    for run, epsilon, truth, at_zero in stored("rdp_delta", "canonne_kamath_steinke"):
        truth = min(truth, at_zero)
        mine = delta_of(**run, epsilon=epsilon)
        assert mpf(mine) >= truth, (run, epsilon)
        assert mpf(mine) <= max(truth * (1 + mpf("1e-9")), mpf(2) ** -1070), (run, epsilon)


def test_divergences_near_order_one_prove_epsilon_zero_where_the_conversion_does_not():
    run = {"noise_multiplier": 5.0, "sample_rate": 1e-9, "steps": 1000}
    limit = variation(5.0, 1e-9, 1000)
    assert epsilon_of(**run, delta=float(limit) * 1.001) == 0.0
    assert epsilon_of(**run, delta=float(limit) * 0.999) > 0.0
    assert epsilon_of(**run, delta=float(limit) * 1.001, accountant=fa.RDP(conversion="mironov")) > 0.0
    at_zero = delta_of(**run, epsilon=0.0)
    assert limit <= at_zero <= limit * (1 + mpf("1e-9"))


def test_optimal_conversion_is_certified_and_between_truth_and_the_default():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    best = epsilon_of(**run, accountant=fa.RDP(conversion="optimal"))
    truth, _ = reference.rdp_epsilon(1.0, 0.01, 1000, 1e-5, "optimal", digits=10)
    assert truth <= best <= truth * (1 + mpf("1e-7"))
    assert best < epsilon_of(**run) < epsilon_of(**run, accountant=fa.RDP(conversion="mironov"))
    exact = 1.828236666516577  # contour integral at 30 digits
    assert best > exact


@pytest.mark.parametrize(
    ("order", "rdp", "epsilon"),
    [(8.0, 0.5, 1.5), (2.0, 0.1, 0.5), (1.3, 0.01, 0.1), (40.0, 2.0, 3.0), (3.0, 1e-6, 1e-3)],
)
def test_each_conversion_at_one_order_is_never_below_the_oracle(order, rdp, epsilon):
    sigma = math.sqrt(order / (2 * rdp))  # q = 1: rdp(order) = order / (2 sigma^2)
    exact_rdp = mpf(order) / (2 * mpf(sigma) ** 2)
    for conversion in ("mironov", "canonne_kamath_steinke", "optimal"):
        accountant = fa.RDP(orders=[order], conversion=conversion)
        delta = delta_of(noise_multiplier=sigma, sample_rate=1, steps=1, epsilon=epsilon, accountant=accountant)
        truth = min(mpf(1), reference.rdp_to_delta(exact_rdp, order, epsilon, conversion, digits=18))
        if conversion != "mironov":
            truth = min(truth, mp.sqrt(min(exact_rdp / 2, -mp.expm1(-exact_rdp))))
        assert truth <= delta <= truth * (1 + mpf("1e-6")), conversion
        plateau = conversion != "mironov" and delta == delta_of(
            noise_multiplier=sigma, sample_rate=1, steps=1, epsilon=0.0, accountant=accountant
        )
        if delta < 1 and not plateau:
            back = epsilon_of(noise_multiplier=sigma, sample_rate=1, steps=1, delta=delta, accountant=accountant)
            assert back == pytest.approx(epsilon, rel=1e-11, abs=0.0)  # where the search ends


def test_continuous_orders_are_never_worse_than_a_list():
    sigma, q, steps, delta = random_runs(300, 11)
    free = epsilon_of(noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta)
    listed = epsilon_of(
        noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta, accountant=fa.RDP(orders=OPACUS_ORDERS)
    )
    assert (free <= listed * (1 + 1e-9)).all()
    assert (free < 0.9 * listed).mean() > 0.2


def test_no_floor_at_extreme_targets():
    tiny = epsilon_of(noise_multiplier=1e4, sample_rate=1e-6, steps=100, delta=1e-40)
    assert 0 < tiny < 1e-6
    assert epsilon_of(noise_multiplier=1.0, sample_rate=0.01, steps=100, delta=1e-300) < 79.83
    huge = epsilon_of(noise_multiplier=0.05, sample_rate=0.5, steps=100, delta=1e-5)
    assert 1e4 < huge < 1e5
    assert 0 < delta_of(noise_multiplier=4.0, sample_rate=1e-4, steps=10, epsilon=30) < 1e-280


@pytest.mark.parametrize(
    ("change", "epsilon", "delta"),
    [
        ({"sample_rate": 0.0}, 0.0, 0.0),
        ({"steps": 0}, 0.0, 0.0),
        ({"noise_multiplier": math.inf}, 0.0, 0.0),
        ({"noise_multiplier": 0.0}, math.inf, 1.0),
        ({"noise_multiplier": 1e-200}, math.inf, 1.0),
    ],
)
def test_edge_cases_of_the_run(change, epsilon, delta):
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10} | change
    for accountant in (None, RDP, fa.RDP(conversion="optimal"), fa.RDP(orders=[2, 3]), fa.ZCDPComposition()):
        assert epsilon_of(**run, delta=1e-5, accountant=accountant) == epsilon
        expected = delta
        if accountant is None and run["noise_multiplier"] == 1e-200:  # the record took part at all
            expected = pytest.approx(1.0 - 0.9**10, rel=2e-14, abs=0.0)  # rounding up
        assert delta_of(**run, epsilon=1.0, accountant=accountant) == expected


def test_edge_cases_of_the_target():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10}
    assert epsilon_of(**run, delta=0) == math.inf
    assert epsilon_of(**run, delta=1) == 0.0
    assert delta_of(**run, epsilon=math.inf) == 0.0
    assert 0 < delta_of(**run, epsilon=0) < 1


def test_history_of_equal_blocks_is_the_run_and_order_does_not_matter():
    whole = epsilon_of(noise_multiplier=1.1, sample_rate=0.004, steps=5000, delta=[1e-5, 1e-9])
    parts = [(1.1, 0.004, 1000), (1.1, 0.004, 3500), (1.1, 0.004, 500)]
    np.testing.assert_array_equal(epsilon_of(history=parts, delta=[1e-5, 1e-9]), whole)
    mixed = [(0.8, 0.01, 200), (2.0, 0.1, 300), (5.0, 1.0, 4), (1.0, 0.0, 99), (3.0, 0.5, 0)]
    forward, backward = (delta_of(history=h, epsilon=3.0) for h in (mixed, mixed[::-1]))
    assert forward == backward
    assert epsilon_of(history=mixed, delta=1e-5) > epsilon_of(history=mixed[:2], delta=1e-5)


def test_history_composes_at_one_order_as_the_sum_of_divergences():
    history = [(0.8, 0.01, 200), (2.0, 0.1, 300), (5.0, 1.0, 4)]
    order = fa.dpsgd.best_order(history=history, delta=1e-6)
    total = sum(n * reference.rdp(s, q, order, digits=20) for s, q, n in history)
    truth = reference.rdp_to_epsilon(total, order, 1e-6, "canonne_kamath_steinke", digits=18)
    mine = epsilon_of(history=history, delta=1e-6)
    assert truth * (1 - mpf("1e-12")) <= mine <= truth * (1 + mpf("1e-11"))


def test_scalars_arrays_threads_and_chunks_agree_bit_for_bit():
    sigma, q, steps, delta = random_runs(3000, 13)
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "delta": delta}
    grid = epsilon_of(**run, threads=1)
    assert (grid == epsilon_of(**run, threads=2)).all()
    assert (grid == epsilon_of(**{k: v[::-1] for k, v in run.items()})[::-1]).all()
    for i in range(0, 3000, 171):
        one = epsilon_of(
            noise_multiplier=float(sigma[i]), sample_rate=float(q[i]), steps=int(steps[i]), delta=float(delta[i])
        )
        assert type(one) is float
        assert one == grid[i]


@pytest.mark.parametrize("accountant", [None, RDP])
def test_broadcasting_follows_numpy(accountant):
    out = fa.dpsgd.epsilon(
        accountant=accountant,
        noise_multiplier=np.linspace(0.8, 2, 3)[:, None, None],
        sample_rate=[[0.01], [0.02]],
        steps=[10, 100, 1000, 10000],
        delta=1e-5,
    )
    assert out.shape == (3, 2, 4)
    assert out.dtype == np.float64
    for axis, sign in ((0, -1), (1, 1), (2, 1)):
        assert (sign * np.diff(out, axis=axis) > 0).all()
    strided = np.arange(1, 9, dtype=np.float32)[::-2]
    run = {"sample_rate": 0.1, "delta": 1e-5, "accountant": accountant}
    assert fa.dpsgd.epsilon(noise_multiplier=strided, steps=10, **run).shape == (4,)
    assert isinstance(fa.dpsgd.epsilon(noise_multiplier=np.float64(1), steps=np.int64(3), **run), float)


def test_relations_that_are_not_covered_are_refused():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10, "delta": 1e-5}
    for name in ("add_remove", "add", "remove", "zero_out"):
        assert epsilon_of(**run, neighbors=name) == epsilon_of(**run)
    for accountant in (
        fa.ZCDPComposition(),
        fa.BasicComposition(),
        fa.AdvancedComposition(),
        fa.AnalyticGaussian(),
    ):
        with pytest.raises(ValueError, match=rf"{type(accountant).__name__} covers .* 'replace_one'"):
            epsilon_of(**run, neighbors="replace_one", accountant=accountant)
    for name in ("add_remove", "replace_one"):
        assert fa.dpsgd.epsilon(**run, neighbors=name) > 0.0


@settings(max_examples=200, deadline=None)
@given(st.floats(0.05, 100), st.floats(1e-9, 1.0), st.integers(1, 10**7), st.floats(1e-200, 0.5), st.floats(1.001, 4.0))
def test_epsilon_is_monotone(sigma, q, steps, delta, factor):
    def at(s, r, n, d):
        return epsilon_of(noise_multiplier=s, sample_rate=r, steps=n, delta=d)

    base, slack = at(sigma, q, steps, delta), 1 + 1e-10
    assert at(sigma * factor, q, steps, delta) <= base * slack + 1e-12
    assert at(sigma, min(1.0, q * factor), steps, delta) * slack + 1e-12 >= base
    assert at(sigma, q, steps * 2, delta) * slack + 1e-12 >= base
    assert at(sigma, q, steps, min(1.0, delta * factor)) <= base * slack + 1e-12


@settings(max_examples=150, deadline=None)
@given(st.floats(0.3, 20), st.floats(1e-7, 1.0), st.integers(1, 10**5), st.floats(1e-30, 0.1))
def test_delta_inverts_epsilon(sigma, q, steps, delta):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps}
    epsilon = epsilon_of(**run, delta=delta)
    assume(epsilon > 0.0)
    assert delta_of(**run, epsilon=epsilon) == pytest.approx(delta, rel=1e-7, abs=0.0)  # epsilon is within 1e-10


@settings(max_examples=100, deadline=None)
@given(st.floats(0.3, 10), st.floats(1e-4, 1.0), st.integers(1, 10**4), st.floats(0.0, 5.0), st.floats(0.1, 2.0))
def test_delta_falls_with_epsilon(sigma, q, steps, epsilon, gap):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps}
    left, right = (delta_of(**run, epsilon=epsilon + i * gap) for i in range(2))
    assert right <= left * (1 + 1e-10)


HUGE = [
    (fa.Gaussian(50.0), 4e152),
    (fa.Gaussian(50.0), 1e153),
    (fa.Gaussian(1e150) * 1000, 1.0),
    (fa.Gaussian(1e100), 1e12 * 1e42),
    (fa.Gaussian(1e100), 1e12),
]


@pytest.mark.parametrize(("job", "epsilon"), HUGE)
@pytest.mark.parametrize("neighbors", ["remove", "add", "zero_out", "replace_one"])
def test_deltas_of_losses_without_an_end_are_never_0(job, epsilon, neighbors):
    """Where the square of noise * epsilon is no double, too."""
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors=neighbors)
    assert lower == 0.0 < upper <= 5e-324
    log_lower, log_upper, _ = fa.log_delta_bounds(job, epsilon=epsilon, neighbors=neighbors)
    assert log_lower <= log_upper < -1e200
    assert math.isfinite(log_upper)


def test_deltas_of_samples_are_0_only_beyond_the_largest_loss():
    step = fa.Gaussian(50.0).poisson(0.5)
    assert fa.delta(step, epsilon=4e152, neighbors="remove") > 0.0
    assert fa.delta(step, epsilon=4e152, neighbors="add") == 0.0
    for noise in (1e153, 1e155):  # the largest loss of one that is added is log 2
        near = math.log(2.0) * (1.0 - 2.0**-52 * np.array([2.0, 10.0, 40.0]))
        assert (fa.delta(fa.Gaussian(noise).poisson(0.5), epsilon=near, neighbors="add") > 0.0).all()
        assert fa.delta(fa.Gaussian(noise).poisson(0.5), epsilon=0.7, neighbors="add") == 0.0
