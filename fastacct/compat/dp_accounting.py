"""Google's dp_accounting: an accountant of its events, its events as processes, and its PLD objects.

accountant = FastAccountant()              # instead of PLDAccountant() or RdpAccountant()
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal

import numpy as np

import fastacct as fa
from fastacct.compat.dp_events import NEIGHBORS, RefusedError, job_of, times
from fastacct.core.extras import import_extra

dp_accounting: Any = import_extra("dp_accounting", "dp_accounting")
pld_privacy_accountant: Any = import_extra("dp_accounting.pld.pld_privacy_accountant", "dp_accounting")

__all__ = ["FastAccountant", "from_dp_accounting", "to_dp_accounting"]

_Details: Final = dp_accounting.PrivacyAccountant.CompositionErrorDetails
_TAIL: Final = 1e-15
"""Delta of a PLD object at its largest loss; mass beyond it counts as an infinite loss."""
_OTHER_WAY: Final[dict[Any, tuple[Any, Any]]] = {
    "add_remove": ("remove", "add"), "remove": ("remove", "add"), "add": ("add", "remove")
}  # fmt: skip
"""The direction of a PLD object's losses above 0, and that whose losses above 0 are its losses below 0."""
_ORDERS: Final = np.array([1.0 + x / 10.0 for x in range(1, 100)] + list(range(11, 64)) + [128.0, 256.0, 512.0, 1024.0])
"""Of `rdp`, if none are given."""
_LARGEST: Final = 1e11
"""Finite order that is searched."""
_MOST: Final = 2**53
_NOTHING: Final = fa.Process()


class FastAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]
    """An accountant of dp_accounting's events with certified answers.

    **Guarantee.** As `fastacct.epsilon` and `fastacct.delta`: never below the truth under the relation, rounding
    included.  Under REPLACE_ONE the noise multiplier of an event is over the clipping norm, so that a replaced record
    moves a sum by 2.  Events that are not known are refused, and a refused event changes nothing.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        REPLACE_SPECIAL is "zero_out".
    method : {"exact", "rdp"}
    orders : iterable of float, optional
        Of `rdp`, and with "rdp" those that are searched; default: all for the search, a usual list for `rdp`.
    """

    def __init__(
        self,
        neighboring_relation: Any = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        method: Literal["exact", "rdp"] = "exact",
        orders: Iterable[float] | None = None,
    ) -> None:
        super().__init__(neighboring_relation)
        if method not in ("exact", "rdp"):
            raise ValueError(f"method = {method!r} is not one of 'exact', 'rdp'")
        self._neighbors = NEIGHBORS[neighboring_relation.name]
        self._orders = _ORDERS if orders is None else np.array([float(order) for order in orders])
        if not (self._orders >= 1.0).all():
            raise ValueError(f"orders must be at least 1, not {self._orders.tolist()}")
        searched = self._orders[self._is_usable()]
        is_restricted = orders is not None and searched.size > 0
        self._accountant = fa.Exact() if method == "exact" else fa.RDP(orders=searched if is_restricted else None)
        self._is_exposed = False
        self._process = _NOTHING
        self._first: tuple[Any, ...] = ()
        """The only block so far, until a process is asked for: a calibration has one event an accountant."""

    def supports(self, event: Any) -> bool:
        """Whether `compose` takes the event; False also where a parameter of it is out of range."""
        try:
            return bool(super().supports(event))
        except (TypeError, ValueError):
            return False

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        try:
            job = times(job_of(event, self._neighbors), count)
        except RefusedError as error:
            return _Details(invalid_event=error.event, error_message=str(error))
        for mechanism, n in job.blocks if self._first or self._process else ():
            if self.process[mechanism] + n > _MOST:
                raise ValueError(f"count = {count!r}: more than 2**53 releases of {mechanism!r}")
        if do_compose:
            if count == 0:
                raise ValueError("count = 0 is out of range; allowed: whole numbers from 1")
            if len(job.blocks) == 1 and not self._first and not self._process:
                self._first = job.blocks
            else:
                self._process = self.process + job.process
            self._is_exposed = self._is_exposed or job.is_exposed
        return None

    @property
    def process(self) -> fa.Process:
        """Everything composed so far, but for what has no protection."""
        if self._first:
            self._process, self._first = fa.Process(self._first), ()
        return self._process

    def get_epsilon(self, target_delta: float) -> float:
        """Certified upper bound of epsilon."""
        if self._is_exposed:
            return math.inf
        if (one := self._only_step()) is not None:
            return float(fa.dpsgd.epsilon(delta=target_delta, **one))
        return float(fa.epsilon(self.process, delta=target_delta, **self._asked()))

    def get_delta(self, target_epsilon: float) -> float:
        """Certified upper bound of delta."""
        if self._is_exposed:
            return 1.0
        return float(fa.delta(self.process, epsilon=target_epsilon, **self._asked()))

    def get_epsilon_and_optimal_order(self, target_delta: float) -> tuple[float, float]:
        """Epsilon by Rényi divergences, and the best of `orders`."""
        divergences, usable = self.rdp, self._is_usable()
        divergences = np.where(usable, divergences, np.inf)
        if not np.isfinite(divergences).any() or not target_delta > 0:
            return math.inf if self.process or self._is_exposed else 0.0, float(self._orders[0])
        each = np.full(divergences.shape, np.inf)
        each[usable] = fa.convert.rdp_to_epsilon(self._orders[usable], divergences[usable], target_delta)
        best = int(np.argmin(each))
        return float(each[best]), float(self._orders[best])

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """Largest true-positive rate of any test with these false-positive rates; `deltas` are not needed."""
        if self._is_exposed:
            return np.ones_like(false_positive_rates) if np.ndim(false_positive_rates) else 1.0
        return fa.tpr_at_fpr(self.process, fpr=false_positive_rates, neighbors=self._neighbors)

    @property
    def orders(self) -> Any:
        """Orders of `rdp`."""
        return self._orders.copy()

    @property
    def rdp(self) -> Any:
        """Rényi divergences at `orders`."""
        if self._is_exposed:
            return np.full(self._orders.shape, np.inf)
        at = np.where(self._orders <= _LARGEST, self._orders, np.inf)  # divergences increase with the order
        return fa.rdp(self.process, at, neighbors=self._neighbors)

    _rdp = rdp

    def _is_usable(self) -> Any:
        return (self._orders > 1.0) & (self._orders <= _LARGEST)

    def _only_step(self) -> dict[str, Any] | None:
        """The keywords of a run of one kind of steps, which take the shortest way."""
        blocks = self._first or tuple(self._process)
        if len(blocks) != 1 or not isinstance(self._accountant, fa.Exact):
            return None
        ((mechanism, count),) = blocks
        step = mechanism.sampled_gaussian(self._neighbors)
        if step is None or not step.is_exact:
            return None
        return {"noise_multiplier": float(step.noise), "sample_rate": float(step.rate), "steps": count}

    def _asked(self) -> dict[str, Any]:
        return {"accountant": self._accountant, "neighbors": self._neighbors}


pld_privacy_accountant.PLDAccountant.register(FastAccountant)  # for isinstance in jax_privacy


def from_dp_accounting(event: Any, relation: Any = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE) -> fa.Process:
    """The process that an event describes; UnsupportedEventError where it is not known, or not private at all."""
    try:
        job = job_of(event, NEIGHBORS[relation.name])
    except RefusedError as error:
        raise dp_accounting.UnsupportedEventError(f"{error} (subevent {error.event})") from None
    if job.is_exposed:
        raise dp_accounting.UnsupportedEventError(f"{event} is not private: no process describes it")
    return job.process


def to_dp_accounting(job: fa.Mechanism | fa.Process, *, neighbors: Any = "add_remove", spacing: float = 1e-3) -> Any:
    """A pessimistic PLD object of dp_accounting with the losses of a job, at multiples of `spacing`.

    **Guarantee.** Its deltas, summed exactly, are never below the true ones.  What dp_accounting composes of it is not
    certified: its convolutions have a floor of about 1e-14.  Compose first, here, then convert.

    Raises
    ------
    ValueError
        For a job of which only divergences or a bound are known.
    """
    whole = job if isinstance(job, fa.Process) else job * 1
    for mechanism, _ in whole.decompose(neighbors):
        if not mechanism.has_losses:
            raise ValueError(f"no privacy losses are known for {mechanism!r}")
    ways = _OTHER_WAY.get(neighbors, (neighbors, neighbors))
    ends = [int(fa.epsilon(whole, delta=_TAIL, neighbors=way) / spacing) + 1 for way in ways]
    pmf = import_extra("dp_accounting.pld.pld_pmf", "dp_accounting")
    library = import_extra("dp_accounting.pld.privacy_loss_distribution", "dp_accounting")
    deltas = [
        np.asarray(fa.delta(whole, epsilon=spacing * np.arange(n + 1), neighbors=way))
        for n, way in zip(ends, ways, strict=True)
    ]
    pmfs = [
        pmf.DensePLDPmf(spacing, -(other.size - 1), *_dots(own, other, spacing), True)
        for own, other in (deltas, deltas[::-1])
    ]
    return library.PrivacyLossDistribution(*(pmfs[:1] if neighbors in ("remove", "add") else pmfs))


def _dots(own: Any, other: Any, spacing: float) -> tuple[Any, float]:
    """Masses at multiples of the spacing from the deltas of both directions at epsilon >= 0, and that of infinity."""
    below = spacing * np.arange(-(other.size - 1), 0)
    x = np.exp(np.append(below, spacing * np.arange(own.size)))
    delta = _hull(x, np.append(-np.expm1(below) + np.exp(below) * other[:0:-1] * (1 + 1e-15), own))
    gap = math.expm1(spacing)
    rise = np.diff(delta)
    mass = np.append(rise, 0.0) / gap - np.append(0.0, rise) * math.exp(spacing) / gap
    mass[0] += 1.0 - delta[0]
    return np.maximum(mass, 0.0), float(delta[-1])


def _hull(x: Any, delta: Any) -> Any:
    """The largest convex function below bounds of a convex function: a bound, too."""
    corners: list[int] = []
    for i in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (delta[b] - delta[a]) * (x[i] - x[a]) < (delta[i] - delta[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return np.interp(x, x[corners], delta[corners]) * (1 + 4e-16)
