"""The adapters of other libraries ask what they say they ask; skipped where a library is not installed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import pytest

import fastacct as fa
from bench import agreement, edgeworth, scores
from bench.compare import CURVE_ORDERS
from bench.configurations import everyday
from bench.isolated import Isolated
from bench.peers import ADAPTERS, BATCH_ADAPTERS, EXACT_ADAPTERS, Accountant, Batches, Peer
from bench.peers.opacus_rdp import OpacusRdp

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs, not ours


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.__name__)
def peer(request: pytest.FixtureRequest) -> Peer:
    try:
        adapter: Peer = request.param()
    except ImportError as error:
        pytest.skip(str(error))
    return adapter


def test_epsilon_of_fastacct_never_exceeds_a_peer(peer: Peer) -> None:
    found = agreement.compare_epsilon(peer, everyday(10))
    assert found.failed == 0
    assert found.equal + found.above + found.below_truth == found.total


def test_epsilon_at_the_orders_of_a_peer_is_not_above_it(peer: Peer) -> None:
    configurations = everyday(10)
    ours = fa.dpsgd.epsilon(**configurations.run(), accountant=fa.RDP(orders=peer.default_orders))
    for c, mine in zip(configurations, ours, strict=True):
        theirs = peer.epsilon(c.noise_multiplier, c.sample_rate, c.steps, c.delta)
        assert mine <= theirs * (1 + 1e-6)  # their rounding


def test_curves_agree_at_whole_orders(peer: Peer) -> None:
    orders = (2.0, 5.0, 32.0)
    for c in everyday(5):
        ours = fa.dpsgd.rdp(noise_multiplier=c.noise_multiplier, sample_rate=c.sample_rate, orders=orders)
        np.testing.assert_allclose(peer.rdp_curve(c.noise_multiplier, c.sample_rate, orders), ours, rtol=1e-6)


def test_noise_multiplier_of_fastacct_never_exceeds_a_peer(peer: Peer) -> None:
    found = agreement.compare_noise_multiplier(peer, everyday(2), judged=1)
    assert found.failed == 0


def test_opacus_adapter_is_its_accountant() -> None:
    pytest.importorskip("opacus")
    peer = OpacusRdp()
    assert peer.default_orders == CURVE_ORDERS
    for c in everyday(3):
        run = c.noise_multiplier, c.sample_rate, c.steps, c.delta
        assert peer.epsilon(*run) == peer.accountant_epsilon(*run)


@pytest.mark.parametrize("adapter", BATCH_ADAPTERS)
def test_a_batch_is_single_answers_and_above_ours(adapter: Callable[[], Batches]) -> None:
    try:
        peer = adapter()
    except ImportError as error:
        pytest.skip(str(error))
    c = next(iter(everyday(1)))
    run, steps = (c.noise_multiplier, c.sample_rate), [c.steps, 2 * c.steps]
    values = peer.epsilons(*run, steps, c.delta)
    assert values == [peer.epsilon(*run, count, c.delta) for count in steps]
    found = agreement.compare_epsilon(peer, everyday(10))
    assert found.total == 10 == found.above


@pytest.fixture(params=EXACT_ADAPTERS, ids=lambda adapter: adapter.__name__)
def exact_peer(request: pytest.FixtureRequest) -> Accountant:
    try:
        adapter: Accountant = request.param()
    except ImportError as error:
        pytest.skip(str(error))
    return adapter


def test_numerical_composition_is_just_above_the_certified_interval(exact_peer: Accountant) -> None:
    lower, upper, _ = fa.dpsgd.epsilon_bounds(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    value = exact_peer.epsilon(1.0, 0.01, 1000, 1e-5)
    assert upper <= value <= lower + 0.011  # the error in epsilon that the loosest of them allows itself


def test_agreement_counts_what_is_above_the_interval(exact_peer: Accountant) -> None:
    runs = scores.Runs("test", *(np.array([x]) for x in (1.0, 0.01, 1000.0, 1e-5)))
    values = np.array([exact_peer.epsilon(*query) for query in runs])
    found = agreement.compare_exact(exact_peer.name, runs, scores.truth(runs), values)
    assert (found.total, found.above, found.failed, found.below_truth) == (1, 1, 0, 0)


def test_agreement_stops_at_a_value_that_rounding_cannot_explain() -> None:
    runs = scores.Runs("test", *(np.array([x]) for x in (1.0, 0.01, 1000.0, 1e-5)))
    bounds = scores.truth(runs)
    with pytest.raises(agreement.FastacctWrongError, match="short"):
        agreement.compare_exact("peer", runs, bounds, 0.999 * bounds.lower)
    found = agreement.compare_exact("peer", runs, bounds, (1.0 - 1e-8) * bounds.lower)
    assert found.below_truth == 1
    assert agreement.compare_exact("peer", runs, bounds, np.array([np.nan])).failed == 1


def test_edgeworth_is_the_published_approximation() -> None:
    value = edgeworth.delta(1.0, 0.01, 1000, np.array([1.5]))[0]
    assert value == pytest.approx(1.707e-4, rel=1e-3)
    epsilon = edgeworth.epsilon(1.0, 0.01, 1000, float(value))
    assert epsilon == pytest.approx(1.5, rel=1e-9)


class Sleeper:
    """An adapter that answers, raises, dies or never answers."""

    name = "sleeper"

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        if sigma < 0.0:
            raise ValueError("negative")
        if sigma == 0.0:
            os._exit(1)
        time.sleep(sigma)
        return delta


def test_an_isolated_peer_survives_errors_deaths_and_silence() -> None:
    with Isolated(Sleeper, seconds=1.0) as peer:
        assert peer.call("epsilon", 0.01, 0.1, 1, 0.25).value == 0.25
        failed = peer.call("epsilon", -1.0, 0.1, 1, 0.25)
        assert np.isnan(failed.value)
        assert failed.reason == "ValueError: negative"
        assert "died" in peer.call("epsilon", 0.0, 0.1, 1, 0.25).reason
        assert "no answer" in peer.call("epsilon", 30.0, 0.1, 1, 0.25).reason
        assert peer.call("epsilon", 0.01, 0.1, 1, 0.5).value == 0.5
