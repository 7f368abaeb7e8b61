"""Flower: a privacy accountant for its strategies, as its protocol `flwr.serverapp.PrivacyAccountant` asks for.

accountant = FastAccountant(config)        # instead of RdpAccountant(config)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import fastacct as fa
from fastacct.core.extras import import_extra

flwr: Any = import_extra("flwr.serverapp", "flower")

__all__ = ["FastAccountant"]

_VERSION: Final = 1  # of the state
_BACKENDS: Final = ("fastacct", "rdp")
"""Whose states are understood: Flower's `RdpAccountant` keeps the same events."""
_NEIGHBORS: Final[dict[str, Any]] = {"add-or-remove-one": "add_remove", "replace-one": "replace_one"}
_EVENT: Final = ("noise_multiplier", "sample_size", "population_size")
_CONFIG: Final = ("target_delta", "population_size", "neighboring_relation", "sampling_method", "max_epsilon")

_Counts = dict[Any, int]


class FastAccountant:
    """What a federation has released, with certified answers.

    **Guarantee.** As `fastacct.epsilon` and `fastacct.delta`: never below the truth for the sampling method and the
    relation of the configuration, rounding included.  A noise multiplier is over the clipping norm, so that a replaced
    client moves a sum by 2.  So does one that is added or removed, where a fixed number of the clients are sampled, as
    all of Flower's strategies do: no amplification is claimed for them, but the noise counts half, unless every client
    takes part.  A sampling rate that is not a floating-point number is rounded up.

    `would_exceed` changes nothing: a strategy asks it before clients train, and stops there.  `compose` records what
    has been released, also beyond `max_epsilon`: a ledger that forgot it would understate what was spent.
    Noise multipliers and sample sizes must be fixed in advance, as for `fastacct.Accountant` without a filter.

    Parameters
    ----------
    config : flwr.serverapp.PrivacyConfig
    accountant : fastacct accountant, optional
        Default `fastacct.Exact()`.
    """

    def __init__(self, config: Any, accountant: Any = None) -> None:
        self._config = config
        self._neighbors = _NEIGHBORS[config.neighboring_relation.value]
        self._accountant = accountant
        self._counts: _Counts = {}

    @property
    def config(self) -> Any:
        """The privacy configuration."""
        return self._config

    @property
    def num_releases(self) -> int:
        """How many releases have been composed."""
        return sum(self._counts.values())

    @property
    def process(self) -> fa.Process:
        """Everything composed so far."""
        return self._process(self._counts)

    def compose(self, event: Any, count: int = 1) -> None:
        """Record `count` releases like `event`; what is refused changes nothing."""
        self._counts = self._more(event, count)

    def get_epsilon(self, delta: float) -> float:
        """Certified upper bound of epsilon."""
        if not 0 < delta < 1:
            raise ValueError(f"delta = {delta!r} is out of range; allowed: (0, 1)")
        return self._epsilon(self._counts, delta)

    def bounds(self, delta: float) -> fa.Bounds:
        """Certified bounds of epsilon and their status.

        The lower end is 0 where no amplification is claimed for clients that are sampled.
        """
        asked: dict[str, Any] = {"accountant": self._accountant, "neighbors": self._neighbors}
        found = fa.epsilon_bounds(self.process, delta=delta, **asked)
        is_tight = self._config.sampling_method.value != "no-amplification"
        return found if is_tight else fa.Bounds(0.0, found.upper, fa.Status.LOOSE)

    def get_delta(self, epsilon: float) -> float:
        """Certified upper bound of delta."""
        if isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon = {epsilon!r} is out of range; allowed: [0, inf)")
        asked: dict[str, Any] = {"accountant": self._accountant, "neighbors": self._neighbors}
        return float(fa.delta(self.process, epsilon=epsilon, **asked))

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """What has been spent at `delta`, by default that of the configuration."""
        at = self._config.target_delta if delta is None else delta
        return flwr.PrivacySpent(
            epsilon=self.get_epsilon(at), delta=at, num_releases=self.num_releases, accounting_method="fastacct"
        )

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether `count` more releases like `event` would spend more than `max_epsilon`; nothing is recorded."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise ValueError("max_epsilon is neither given nor in the configuration")
        if isinstance(limit, bool) or not 0 < limit < math.inf:
            raise ValueError(f"max_epsilon = {limit!r} is out of range; allowed: (0, inf)")
        return not self._epsilon(self._more(event, count), self._config.target_delta) <= limit

    def state_dict(self) -> dict[str, object]:
        """The state as JSON can hold it; floating-point numbers keep all their digits."""
        return {
            "schema_version": _VERSION,
            "backend": _BACKENDS[0],
            "config": _config_state(self._config),
            "compositions": [
                {"event": {name: _plain(getattr(event, name)) for name in _EVENT}, "count": count}
                for event, count in self._counts.items()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the history of a state, of ours or of Flower's `RdpAccountant`, in place of this one's.

        Raises
        ------
        ValueError
            For another version, another configuration or a damaged state.  Nothing has changed then.
        """
        if state.get("schema_version") != _VERSION:
            raise ValueError(f"schema_version = {state.get('schema_version')!r} is not known; allowed: {_VERSION}")
        if state.get("backend") not in _BACKENDS:
            raise ValueError(f"backend = {state.get('backend')!r} is not one of {', '.join(map(repr, _BACKENDS))}")
        if state.get("config") != _config_state(self._config):
            raise ValueError("the state is of another configuration")
        made = FastAccountant(self._config)
        try:
            for row in state["compositions"]:
                made.compose(flwr.GaussianPrivacyEvent(**{name: row["event"][name] for name in _EVENT}), row["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: {error}") from error
        self._counts = made._counts

    def to_json(self) -> str:
        """`state_dict` as text."""
        return json.dumps(self.state_dict(), allow_nan=False)

    def _more(self, event: Any, count: int) -> _Counts:
        """The ledger with `count` more events."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"count = {count!r} is out of range; allowed: whole numbers from 1")
        if event.population_size != self._config.population_size:
            sizes = f"{event.population_size} and {self._config.population_size}"
            raise ValueError(f"population_size of the event and of the configuration differ: {sizes}")
        after = self._counts | {event: self._counts.get(event, 0) + count}
        self._process({event: after[event]})  # refused here, if at all
        return after

    def _process(self, counts: _Counts) -> fa.Process:
        return fa.Process((self._mechanism(event), count) for event, count in counts.items())

    def _mechanism(self, event: Any) -> fa.Mechanism:
        gaussian = fa.Gaussian(event.noise_multiplier)
        size, of, method = event.sample_size, event.population_size, self._config.sampling_method.value
        if method == "poisson":
            rate = size / of
            is_below = Fraction(rate) < Fraction(size, of)
            return gaussian.poisson(math.nextafter(rate, 1.0) if is_below else rate)
        if method == "without-replacement":
            return gaussian.fixed_size(batch_size=size, records=of)
        if method == "no-amplification":  # another client may take the place of one that is removed
            return gaussian if size == of else fa.Gaussian(0.5 * event.noise_multiplier)
        raise ValueError(f"sampling_method = {method!r} is not known")

    def _epsilon(self, counts: _Counts, delta: float) -> float:
        asked: dict[str, Any] = {"accountant": self._accountant, "neighbors": self._neighbors}
        return float(fa.epsilon(self._process(counts), delta=delta, **asked))


def _config_state(config: Any) -> dict[str, object]:
    """A configuration as Flower's own accountant stores it."""
    values = ((name, getattr(config, name)) for name in _CONFIG)
    return {name: _plain(getattr(value, "value", value)) for name, value in values}


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if hasattr(value, "item") else value
