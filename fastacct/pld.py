"""Certified discretised privacy-loss distributions, to build, compose and keep.

A `LossDistribution` is the privacy loss of one release in one direction (P against Q), as two measures on a grid of
losses: the delta of one is never below the truth, at no epsilon, the delta of the other never above it.
`compose_bounds` answers questions about a composition and chooses the grids and exponential tilts: small deltas keep
their relative accuracy.  `LossDistribution.self_compose` and `.compose` give distributions to keep.
"""

from fastacct.accountants.pld import PLD
from fastacct.readers.grid.distribution import LossDistribution, compose_bounds

__all__ = ["PLD", "LossDistribution", "compose_bounds"]
