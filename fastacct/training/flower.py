"""Flower: a strategy that counts its rounds.

strategy = Metered(DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 0.5, 10), meter)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastacct.core.extras import Foreign, import_extra
from fastacct.training.meter import Meter

_strategy: Foreign = import_extra("flwr.serverapp.strategy", "flower")


class Metered(_strategy.Strategy):  # type: ignore[misc]
    """A strategy whose rounds of training are recorded before clients are asked, and end where one would exceed.

    **Guarantee.** That of `Meter`, for releases of clients: a step is a round, a record is a client, and the strategy
    within clips and adds noise.  All of Flower's strategies take a fixed number of clients: `sampling="fixed_size"`
    where they are drawn at random.  A round that fails counts.

    After the last round that fits no client is asked, and nothing changes.  Epsilon is among the metrics of a round.
    """

    def __init__(self, strategy: Foreign, meter: Meter) -> None:
        self.strategy, self.meter = strategy, meter

    def configure_train(self, server_round: int, arrays: Foreign, config: Foreign, grid: Foreign) -> Iterable[Foreign]:
        """Record the round, and ask the clients of it; ask nobody where it does not fit."""
        if not self.meter.remaining:
            return []
        if self.meter.waits:
            self.meter.epoch()
        self.meter.step()
        asked: Iterable[Foreign] = self.strategy.configure_train(server_round, arrays, config, grid)
        return asked

    def aggregate_train(self, server_round: int, replies: Iterable[Foreign]) -> tuple[Foreign, Foreign]:
        """The strategy's own, with epsilon among the metrics."""
        answered = [*replies]
        if not answered:
            return None, None
        arrays, metrics = self.strategy.aggregate_train(server_round, answered)
        if metrics is not None:
            metrics["epsilon"] = self.meter.epsilon
        return arrays, metrics

    def configure_evaluate(self, server_round: int, arrays: Foreign, config: Foreign, grid: Foreign) -> Any:
        """The strategy's own."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Foreign]) -> Any:
        """The strategy's own."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """The strategy's own."""
        self.strategy.summary()
