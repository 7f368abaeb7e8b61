"""What one participant of a network learns, beside what somebody does who sees every message: two answers."""

from __future__ import annotations

from typing import NamedTuple

from fastacct.accountants.question import answer
from fastacct.core.inputs import UNIT, as_number
from fastacct.core.relations import Relation
from fastacct.core.words import told_names
from fastacct.mechanisms.algebra import Mechanism


class NetworkGain(NamedTuple):
    """Epsilon of two views of the same messages; made by `fastacct.network_gain`.

    Examples
    --------
    >>> import fastacct as fa
    >>> gain = fa.network_gain(fa.GOPA(1.0, 100.0, parties=1000), delta=1e-5)
    >>> gain.network < gain.local, gain.ratio > 1
    (True, True)
    """

    local: float
    """Of somebody who sees every message: certified upper bound."""
    network: float
    """Of one participant, with those who collude: certified upper bound."""

    @property
    def ratio(self) -> float:
        """How many times smaller epsilon is in the network; 1 where both are 0 or infinite."""
        return 1.0 if self.local == self.network else self.local / self.network if self.network else float("inf")


@told_names
def network_gain(mechanism: Mechanism, *, delta: float, neighbors: Relation | None = None) -> NetworkGain:
    """Epsilon for one participant of a decentralised mechanism, beside that for an observer of every message.

    **Guarantee.** Certified upper bounds, each under its conditions.  The local view is local DP; of walks it is that
    of a user who contributes exactly `rounds` times.  (On the complete graph that is the mean of a random number, which
    the network's view counts in full: a large coalition may come out worse.)

    Parameters
    ----------
    mechanism : Mechanism
        `GOPA`, `RandomWalk` or `GradientWalk`.
    delta : float
    neighbors : {"add_remove", "remove", "add", "zero_out", "replace_one"}, optional
        The first that the mechanism supports, if not given.

    Returns
    -------
    NetworkGain
        With `local`, `network` and their `ratio`.

    Raises
    ------
    TypeError, ValueError
        A mechanism that is not decentralised, or a relation that it does not support.

    Examples
    --------
    >>> import fastacct as fa
    >>> gain = fa.network_gain(fa.GOPA(1.0, 100.0, parties=1000), delta=1e-6)
    >>> round(gain.local, 3), round(gain.network, 3)
    (4.887, 0.117)
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a mechanism, not {mechanism!r}")
    if mechanism.shape:
        raise TypeError(f"mechanism has parameters of shape {mechanism.shape}; ask for one mechanism at a time")
    target = as_number("delta", delta, UNIT)
    relation = mechanism.relations[0] if neighbors is None else neighbors
    views = mechanism.local(), mechanism
    return NetworkGain(*(float(answer("epsilon", one, target, None, relation, only_upper=True).upper) for one in views))
