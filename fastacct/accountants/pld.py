"""The discretised accountant: losses on a grid, for every job whose losses are known."""

from __future__ import annotations

import numpy as np

from fastacct.accountants.base import Method
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import SHARE, Domain, as_number
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask, Settings
from fastacct.readers.job import bound_only, by_cells


class PLD(Method):
    """Discretised privacy-loss distributions of both directions: the slow cross-check of the exact accountant.

    **Guarantee.** Certified upper bounds (and lower ones in `bounds`) for every job whose losses are known; each
    direction is composed separately.  About a second per cell, in Python.

    Parameters
    ----------
    spacing : float, optional
        One grid for all; by default it is chosen and refined for each cell.
    tolerance : float in (0, 1)
        Refine until the upper bound moves by no more than this (relative); in `bounds`, until the interval is no wider.

    Examples
    --------
    >>> import fastacct as fa
    >>> from fastacct import PLD
    >>> run = dict(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> 1.828236666516577 <= fa.dpsgd.epsilon(**run, accountant=PLD()) <= 1.8283
    True
    """

    spacing: float | None = None
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        object.__setattr__(self, "tolerance", as_number("tolerance", self.tolerance, SHARE))
        if self.spacing is not None:
            spacing = as_number("spacing", self.spacing, Domain(0.0, np.inf, open_low=True))
            object.__setattr__(self, "spacing", spacing)

    @property
    def _settings(self) -> Settings:
        return Settings(("pure", "losses"), self.tolerance, self.spacing)

    def reading(self, job: Process, ask: Ask) -> tuple[str, Settings | None]:
        """Losses on a grid."""
        return "grid", self._settings

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified lower and upper bounds."""
        blocks = job.decompose(ask.relation)
        for mechanism, _ in blocks:
            if not mechanism.has_losses:
                raise ValueError(f"accountant PLD: no dominating pair is known for {mechanism!r}; use fastacct.RDP()")
        bounds = by_cells(blocks, ask, self._settings)
        return bounds if job.tight else Bounds(*bound_only(bounds.upper, ask.quantity))
