"""Adapters of other libraries behind one small interface.

Every peer is optional: an adapter imports its library only when it is made, and `installed` leaves out those that
cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.peers.dp_accounting_rdp import DpAccountingRdp
from bench.peers.opacus_rdp import OpacusRdp


class Peer(Protocol):
    """What is asked of another library; every call takes and returns plain numbers."""

    name: str
    distribution: str
    """Its name in the package index."""
    calibration: str
    """The function that `noise_multiplier` calls, and how."""

    @property
    def version(self) -> str: ...

    @property
    def default_orders(self) -> tuple[float, ...]: ...

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        """Epsilon at its default orders."""

    def rdp_curve(self, sigma: float, q: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """Rényi divergence of one step at the orders."""

    def noise_multiplier(self, epsilon: float, delta: float, q: float, steps: int) -> float:
        """Noise multiplier for a target, with the library's own search and defaults."""


ADAPTERS: Final[tuple[Callable[[], Peer], ...]] = (OpacusRdp, DpAccountingRdp)


def installed() -> list[Peer]:
    """The adapters whose library is here."""
    found = []
    for adapter in ADAPTERS:
        try:
            found.append(adapter())
        except ImportError:
            continue
    return found
