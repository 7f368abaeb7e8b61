"""The accountant of dp_accounting's events: their own suites, random trees, and what must not pass."""

import itertools
import math
import random
import types

import numpy as np
import pytest

import fastacct as fa

dp_accounting = pytest.importorskip("dp_accounting", reason="the extra dp_accounting is not installed")
absltest = pytest.importorskip("absl.testing.absltest", reason="the suites of dp_accounting need absl")

from dp_accounting import dp_event, privacy_accountant_test  # noqa: E402
from dp_accounting.mechanism_calibration import calibrate_dp_mechanism  # noqa: E402
from dp_accounting.pld import pld_privacy_accountant, pld_privacy_accountant_test  # noqa: E402
from dp_accounting.rdp import rdp_privacy_accountant, rdp_privacy_accountant_test  # noqa: E402

from fastacct.compat.dp_accounting import FastAccountant, from_dp_accounting  # noqa: E402
from tests.pages import run_examples  # noqa: E402

RELATIONS = dict(zip(dp_accounting.NeighboringRelation, ("add_remove", "replace_one", "zero_out"), strict=True))
ADD_REMOVE, REPLACE_ONE, ZERO_OUT = RELATIONS

# -- their suites -----------------------------------------------------------------------------------------------------

KNOWN = {
    "Pld.test_composition_errors_for_neighboring_relation1": "refuses Laplace noise under REPLACE_ONE",
    "Pld.test_composition_errors_for_neighboring_relation3": "refuses discrete Laplace noise under REPLACE_ONE",
    "Pld.test_truncated_subsampled_gaussian_basic": "asserts a delta of 1e-6 where 6.3e-7 is proved",
    "Rdp.test_compute_rdp_poisson_sampled_gaussian": "asserts 4 % more at order 1.5, by interpolation",
    "Rdp.test_log_a_frac_early_termination": "tests a warning of their series",
    "Rdp.test_repeat_and_select_gaussian_poisson_large_large": "asserts that no order between theirs is better",
    "Rdp.test_repeat_and_select_gaussian_poisson_large_med": "the same",
    "Rdp.test_repeat_and_select_gaussian_poisson_med_med": "the same",
    "Rdp.test_repeat_and_select_pure_poisson_mean10": "asserts 2,500 times as much as a larger order proves",
    "Rdp.test_supports": "refuses Poisson samples under REPLACE_ONE",
}
"""Tests of theirs that assert that something is refused, or looser than what is proved here."""


class Shared(privacy_accountant_test.PrivacyAccountantTest):
    __test__ = False

    def _make_test_accountants(self):
        return [FastAccountant(relation, method) for relation in RELATIONS for method in ("exact", "rdp")]


class Pld(pld_privacy_accountant_test.PldPrivacyAccountantTest):
    __test__ = False

    def _make_test_accountants(self):
        return [FastAccountant(relation) for relation in RELATIONS]


class Rdp(rdp_privacy_accountant_test.RdpPrivacyAccountantTest):
    __test__ = False

    def _make_test_accountants(self):
        return [FastAccountant(relation, "rdp") for relation in RELATIONS]


def run_suite(monkeypatch, suite, accountant=FastAccountant):
    """Names of the tests that fail with ours in place of theirs, and how many were run."""

    def pld(relation=ADD_REMOVE, *_, **__):
        return accountant(relation)

    def rdp(orders=None, neighboring_relation=ADD_REMOVE):
        return accountant(neighboring_relation, "rdp", orders)

    for module, name, ours in (
        (pld_privacy_accountant_test, "pld_privacy_accountant", {"PLDAccountant": pld}),
        (rdp_privacy_accountant_test, "rdp_privacy_accountant", {"RdpAccountant": rdp}),
    ):
        theirs = {"pld_privacy_accountant": pld_privacy_accountant, "rdp_privacy_accountant": rdp_privacy_accountant}
        monkeypatch.setattr(module, name, types.SimpleNamespace(**vars(theirs[name]) | ours))
    result = absltest.unittest.TestResult()
    tests = absltest.unittest.defaultTestLoader.loadTestsFromTestCase(suite)
    tests.run(result)
    failed = {f"{suite.__name__}.{test._testMethodName.split(' ')[0]}" for test, _ in result.failures + result.errors}
    return failed, result.testsRun


@pytest.mark.parametrize(
    ("suite", "least"), [(Shared, 13), (Pld, 60), (Rdp, 120)], ids=lambda one: getattr(one, "__name__", "")
)
@pytest.mark.filterwarnings("ignore")
def test_their_suites_pass_but_for_what_asserts_less(monkeypatch, suite, least):
    failed, run = run_suite(monkeypatch, suite)
    assert run >= least
    assert failed == {name for name in KNOWN if name.startswith(suite.__name__)}


class Low(FastAccountant):
    def get_epsilon(self, target_delta):
        return super().get_epsilon(target_delta) * 0.97


class Forgetful(FastAccountant):
    def _maybe_compose(self, event, count, do_compose):
        if do_compose:
            self._process = fa.Process()
        return super()._maybe_compose(event, count, do_compose)


class Once(FastAccountant):
    def _maybe_compose(self, event, count, do_compose):
        return super()._maybe_compose(event, min(count, 1), do_compose)


class OneRelation(FastAccountant):
    def __init__(self, relation=ADD_REMOVE, *rest):
        super().__init__(ADD_REMOVE, *rest)


class Credulous(FastAccountant):
    def _maybe_compose(self, event, count, do_compose):
        found = super()._maybe_compose(event, count, do_compose)
        return None if not do_compose else found


CANARIES = [Low, Forgetful, Once, OneRelation, Credulous]

# -- random trees -----------------------------------------------------------------------------------------------------


def leaf(rng, relation):
    """An event and the process that it is, or None where it is refused; by rules written down here once more."""
    noise = rng.choice([0.7, 1.0, 2.5])
    rate = rng.choice([0.01, 0.2])
    gaussian, laplace = dp_event.GaussianDpEvent(noise), dp_event.LaplaceDpEvent(3.0 * noise)
    k, p = rng.choice([2, 5]), rng.choice([0.3, 0.8])
    response = dp_event.RandomizedResponseDpEvent(p, k)
    is_replace, is_add = relation is REPLACE_ONE, relation is ADD_REMOVE
    joint = 1.0 / math.sqrt(1.0 / noise**2 + 1.0)
    together = dp_event.ComposedDpEvent([gaussian, dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(2.0), 4)])
    many = [
        (dp_event.NoOpDpEvent(), fa.Process()),
        (gaussian, fa.Gaussian(noise) * 1),
        (dp_event.PoissonSampledDpEvent(rate, gaussian), fa.Gaussian(noise).poisson(rate) * 1),
        (dp_event.PoissonSampledDpEvent(rate, together), fa.Gaussian(joint).poisson(rate) * 1),
        (laplace, fa.Laplace(3.0 * noise) * 1),
        (
            dp_event.PoissonSampledDpEvent(rate, laplace),
            None if is_replace else fa.Laplace(3.0 * noise).poisson(rate) * 1,
        ),
        (dp_event.DiscreteLaplaceDpEvent(0.25, 2), fa.DiscreteLaplace(4.0, 2) * 1),
        (response, None if is_add else fa.RandomizedResponse(math.log1p(k * (1 - p) / p), k) * 1),
        (dp_event.PoissonSampledDpEvent(rate, response), None),
        (dp_event.ZCDpEvent(0.02), fa.ZCDP(0.02) * 1),
        (dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1]),
         None if is_replace else fa.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]) * 1),
        (dp_event.SingleEpochTreeAggregationDpEvent(8.0, [7, 100]),
         fa.TreeAggregation(8.0, 100) * 1 if relation is ZERO_OUT else None),
        (dp_event.UnsupportedDpEvent(), None),
        (dp_event.PoissonSampledDpEvent(0.0, dp_event.NonPrivateDpEvent()), fa.Process()),
        (dp_event.SampledWithoutReplacementDpEvent(100, 10, gaussian),
         fa.Gaussian(noise).fixed_size(10, 100) * 1 if is_add else fa.Process()),
        (dp_event.SampledWithReplacementDpEvent(100, 5, gaussian),
         fa.Gaussian(noise).with_replacement(5, 100) * 1 if is_add else fa.Process()),
    ]  # fmt: skip
    known = many[:-2] if not is_add else many  # a batch of fixed size under the others takes a second
    return rng.choice(known)


def tree(rng, relation, depth):
    """A random tree of events, the process that it is, and its leaves with their counts."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        event, process = leaf(rng, relation)
        return event, process, [(event, 1)]
    if kind < 0.7:
        count = rng.choice([1, 2, 7])
        event, process, leaves = tree(rng, relation, depth - 1)
        more = [(one, n * count) for one, n in leaves]
        return dp_event.SelfComposedDpEvent(event, count), None if process is None else process * count, more
    parts = [tree(rng, relation, depth - 1) for _ in range(rng.choice([1, 2, 3]))]
    whole = None if any(part[1] is None for part in parts) else sum((part[1] for part in parts), fa.Process())
    return dp_event.ComposedDpEvent([part[0] for part in parts]), whole, [one for part in parts for one in part[2]]


def check_tree(seed, make=FastAccountant):
    rng = random.Random(seed)
    relation = rng.choice(list(RELATIONS))
    event, process, leaves = tree(rng, relation, rng.choice([1, 2, 3]))
    accountant = make(relation)
    accountant.compose(dp_event.GaussianDpEvent(5.0))
    before = accountant.get_epsilon(1e-6)
    assert accountant.supports(event) == (process is not None), event
    if process is None:
        with pytest.raises(dp_accounting.UnsupportedEventError):
            accountant.compose(event)
        assert accountant.get_epsilon(1e-6) == before
        return
    accountant.compose(event)
    asked = {"delta": 1e-6, "neighbors": RELATIONS[relation]}
    lower, upper, _ = fa.epsilon_bounds(process + fa.Gaussian(5.0), **asked)
    found = accountant.get_epsilon(1e-6)
    assert lower * (1 - 1e-13) <= found <= upper * (1 + 1e-6)
    flat = make(relation).compose(dp_event.GaussianDpEvent(5.0))
    for one, count in sorted(leaves, key=lambda item: repr(item[0])):
        flat.compose(one, count)
    assert flat.get_epsilon(1e-6) == found


@pytest.mark.parametrize("start", range(0, 1000, 50))
def test_random_trees_of_events(start):
    for seed in range(start, start + 50):
        check_tree(seed)


@pytest.mark.parametrize("canary", CANARIES)
def test_random_trees_tell_what_must_not_pass(canary):
    def catches(seed):
        try:
            check_tree(seed, canary)
        except (AssertionError, pytest.fail.Exception, dp_accounting.UnsupportedEventError):
            return True
        return False

    assert any(catches(seed) for seed in range(60))


# -- what else it offers ----------------------------------------------------------------------------------------------


def named(name, **fields):
    """An event of a later version of the library, by its name."""
    kind = type(name, (dp_event.DpEvent,), fields | {"__module__": "dp_accounting.dp_event"})
    return kind()


@pytest.mark.parametrize(
    ("event", "mechanism", "relation"),
    [
        (named("EpsilonDeltaDpEvent", epsilon=0.3, delta=1e-7), fa.ApproxDP(0.3, 1e-7), ADD_REMOVE),
        (named("ExponentialMechanismDpEvent", epsilon=0.5), fa.Exponential(0.5), REPLACE_ONE),
        (named("PermuteAndFlipDpEvent", epsilon=0.5), fa.PermuteAndFlip(0.5), ADD_REMOVE),
        (
            named("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=2.0, dimension=1),
            fa.DiscreteGaussian(3.0, 2),
            ADD_REMOVE,
        ),
        (named("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=1.0, dimension=None), fa.ZCDP(1 / 18), ADD_REMOVE),
        (named("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=1.0, dimension=9), fa.ZCDP(4 / 18), REPLACE_ONE),
        (dp_event.ZCDpEvent(0.02, 0.1), fa.ZCDP(0.02) + fa.RDPCurve([1.000001, 1e6], [0.1, 0.1]), ADD_REMOVE),
        (dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(4.0), 10.0, math.inf),
         fa.RepeatedSelection(fa.Gaussian(4.0), 10.0), ADD_REMOVE),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(2.0)] * 2)),
         fa.Together(fa.Laplace(2.0) * 2).poisson(0.1), ADD_REMOVE),
        (dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 120, 2.0),
         fa.Gaussian(2.0).poisson(0.1, at_most=120, records=1000), ADD_REMOVE),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_events_are_what_they_say(event, mechanism, relation):
    accountant = FastAccountant(relation).compose(event, 3)
    theirs = fa.epsilon(mechanism * 3, delta=1e-6, neighbors=RELATIONS[relation])
    assert accountant.get_epsilon(1e-6) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (dp_event.SampledWithReplacementDpEvent(10, 2, dp_event.LaplaceDpEvent(1.0)), "known for Gaussian noise only"),
        (named("RandomAllocationDpEvent", num_selected=1, num_steps=3), "random allocation"),
        (
            dp_event.SampledWithoutReplacementDpEvent(10, 2, dp_event.LaplaceDpEvent(1.0)),
            "known for Gaussian noise only",
        ),
    ],
)
def test_refusals_say_what_is_known(event, said):
    with pytest.raises(dp_accounting.UnsupportedEventError, match=said):
        FastAccountant().compose(event)


def test_the_noise_that_their_calibration_finds_is_on_the_safe_side():
    def event(noise):
        return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise)), 1000)

    noise = calibrate_dp_mechanism(FastAccountant, event, 2.0, 1e-5)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=0.01, steps=1000, delta=1e-5) <= 2.0
    best = fa.dpsgd.noise_multiplier(epsilon=2.0, delta=1e-5, sample_rate=0.01, steps=1000)
    assert best <= noise <= best + 2e-6


def test_orders_and_rates():
    event = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    accountant = FastAccountant(ADD_REMOVE, "rdp", [2, 8, 32]).compose(event, 1000)
    epsilon, order = accountant.get_epsilon_and_optimal_order(1e-5)
    assert order == 8
    assert epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    assert accountant.rdp == pytest.approx(
        fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.01, steps=1000, orders=[2, 8, 32])
    )
    exact = FastAccountant().compose(event, 1000)
    job = fa.Gaussian(1.0).poisson(0.01) * 1000
    assert exact.get_true_positive_rates(0.01) == fa.tpr_at_fpr(job, fpr=0.01)
    assert exact.get_true_positive_rates(np.array([0.01, 0.1])).shape == (2,)
    assert isinstance(exact, pld_privacy_accountant.PLDAccountant)
    with pytest.raises(ValueError, match="method = 'pld'"):
        FastAccountant(ADD_REMOVE, "pld")


def test_events_as_processes():
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 7)
    assert from_dp_accounting(event) == fa.Gaussian(1.0).poisson(0.01) * 7
    with pytest.raises(dp_accounting.UnsupportedEventError, match="not private"):
        from_dp_accounting(dp_event.NonPrivateDpEvent())
    with pytest.raises(dp_accounting.UnsupportedEventError, match="REPLACE_ONE"):
        from_dp_accounting(dp_event.RandomizedResponseDpEvent(0.1, 2))


def test_the_example_of_the_page_runs(capsys):
    run_examples("dp_accounting")
    run_examples("../howto/dp_accounting")
    assert float(capsys.readouterr().out) == pytest.approx(2.0, abs=0.2)


G, S, C = dp_event.GaussianDpEvent(1.0), dp_event.SelfComposedDpEvent, dp_event.ComposedDpEvent
EXPOSED = dp_event.NonPrivateDpEvent()


@pytest.mark.parametrize("event", [C([S(G, -4)]), C([S(G, 0.5)]), C([S(S(G, 2**40), 2**40)]), S(EXPOSED, -1)])
def test_counts_inside_of_events_are_checked_and_change_nothing(event):
    accountant = FastAccountant().compose(G, 5)
    before = accountant.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="count = "):
        accountant.compose(event)
    assert accountant.get_epsilon(1e-5) == before
    with pytest.raises(ValueError, match="2\\*\\*53"):
        accountant.compose(G, 2**60)


@pytest.mark.parametrize(("kind", "count"), [(np.int8, 100), (np.uint8, 16), (np.int32, 70000), (np.int64, 2**24)])
def test_counts_of_narrow_integers_do_not_overflow(kind, count):
    accountant = FastAccountant().compose(C([S(S(G, kind(count)), kind(count))]))
    assert accountant.process == fa.Gaussian(1.0) * count**2


def test_an_event_that_has_changed_is_seen_as_it_is():
    event, accountant = C([G]), FastAccountant()
    assert accountant.supports(event)
    event.events.append(EXPOSED)
    assert accountant.compose(event).get_epsilon(1e-5) == math.inf


def test_orders_below_1_are_refused():
    with pytest.raises(ValueError, match="orders must be at least 1"):
        FastAccountant(ADD_REMOVE, "rdp", [1.0, 0.5])


def test_at_orders_beyond_those_that_are_computed_divergences_are_no_smaller():
    accountant = FastAccountant(ADD_REMOVE, "rdp", [2.0, 1e12]).compose(dp_event.GaussianDpEvent(4.0))
    assert accountant.rdp[1] >= 1e12 / 32.0
    assert np.isfinite(accountant.get_epsilon(1e-5))


PARTS = [
    dp_event.GaussianDpEvent(4.0),
    dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(2.0)),
    dp_event.SampledWithoutReplacementDpEvent(1000, 20, dp_event.GaussianDpEvent(8.0)),
    dp_event.LaplaceDpEvent(8.0),
]


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_no_composition_of_events_is_below_a_part(relation):
    """Ordered pairs with the counts (1, 40), in one accountant and in one event."""

    def alone(event, count):
        made = FastAccountant(relation).compose(event, count)
        return fa.epsilon_lower(made.process, delta=1e-3, neighbors=RELATIONS[relation])

    for first, second in itertools.permutations(PARTS, 2):
        whole = FastAccountant(relation).compose(first, 1).compose(second, 40)
        event = dp_event.ComposedDpEvent([first, dp_event.SelfComposedDpEvent(second, 40)])
        floor = max(alone(first, 1), alone(second, 40))
        assert whole.get_epsilon(1e-3) >= floor * (1.0 - 1e-9), (first, second)
        assert FastAccountant(relation).compose(event).get_epsilon(1e-3) >= floor * (1.0 - 1e-9), (first, second)


@pytest.mark.parametrize("method", ["exact", "rdp"])
@pytest.mark.parametrize("inner", [dp_event.ZCDpEvent(0.5), dp_event.ZCDpEvent(0.4, 0.1), dp_event.LaplaceDpEvent(2.0)])
def test_batches_of_fixed_size_of_what_is_not_gaussian_are_bounded_where_a_record_is_replaced(inner, method):
    def epsilon(batch, count=100):
        accountant = FastAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, method)
        event = dp_event.SampledWithoutReplacementDpEvent(1000, batch, inner)
        return accountant.compose(event, count).get_epsilon(1e-6)

    whole = FastAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, "rdp").compose(inner, 100).get_epsilon(1e-6)
    assert epsilon(0) == 0.0 < epsilon(1) < epsilon(16, 50) < epsilon(16) < epsilon(160) < whole
    assert epsilon(160) < epsilon(1000) <= whole
    if inner == dp_event.ZCDpEvent(0.5):  # Gaussian noise that moves by 1 has this rho
        gaussian = fa.Gaussian(2.0).fixed_size(16, 1000) * 100
        assert epsilon(16) >= fa.epsilon_lower(gaussian, delta=1e-6, neighbors="replace_one")
