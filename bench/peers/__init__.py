"""Adapters of other libraries behind one small interface.

Every peer is optional: an adapter imports its library only when it is made, and `installed` leaves out those that
cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.peers.dp_accelerator import DpAccelerator
from bench.peers.dp_accounting_pld import DpAccountingPld
from bench.peers.dp_accounting_rdp import DpAccountingRdp
from bench.peers.opacus_prv import OpacusPrv
from bench.peers.opacus_rdp import OpacusRdp
from bench.peers.prv_accountant_prv import PrvAccountantPrv


class Accountant(Protocol):
    """What is asked of every other library; every call takes and returns plain numbers."""

    name: str
    distribution: str
    """Its name in the package index."""

    @property
    def version(self) -> str: ...

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        """Epsilon with its defaults."""


class Peer(Accountant, Protocol):
    """An accountant by Renyi DP."""

    calibration: str
    """The function that `noise_multiplier` calls, and how."""

    @property
    def default_orders(self) -> tuple[float, ...]: ...

    def rdp_curve(self, sigma: float, q: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """Rényi divergence of one step at the orders."""

    def noise_multiplier(self, epsilon: float, delta: float, q: float, steps: int) -> float:
        """Noise multiplier for a target, with the library's own search and defaults."""


class Batches(Accountant, Protocol):
    """An accountant by Renyi DP that is asked for many numbers of steps at once."""

    def epsilons(self, sigma: float, q: float, steps: Sequence[int], delta: float) -> list[float]:
        """Epsilon after each number of steps."""


ADAPTERS: Final[tuple[Callable[[], Peer], ...]] = (OpacusRdp, DpAccountingRdp)
EXACT_ADAPTERS: Final[tuple[Callable[[], Accountant], ...]] = (DpAccountingPld, OpacusPrv, PrvAccountantPrv)
"""Accountants by numerical composition."""
BATCH_ADAPTERS: Final[tuple[Callable[[], Batches], ...]] = (DpAccelerator,)


def installed() -> list[Peer]:
    """The adapters by Renyi DP whose library is here."""
    return [adapter() for adapter in ADAPTERS if is_installed(adapter)]


def is_installed(adapter: Callable[[], Accountant]) -> bool:
    """Whether the library of an adapter can be imported."""
    try:
        adapter()
    except ImportError:
        return False
    return True
