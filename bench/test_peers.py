"""The adapters of other libraries ask what they say they ask; skipped where a library is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import fastacct as fa
from bench import agreement
from bench.compare import CURVE_ORDERS
from bench.configurations import everyday
from bench.peers import ADAPTERS, Peer
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
