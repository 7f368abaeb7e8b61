"""Flower: a strategy that counts its rounds.

strategy = Metered(DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 0.5, 10), meter)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from fastacct.core.extras import Foreign, import_extra
from fastacct.training.meter import Meter
from fastacct.training.rounds import refuse_clients, refuse_noise, refuse_weights, unseeded

_strategy: Foreign = import_extra("flwr.serverapp.strategy", "flower")


class Metered(_strategy.Strategy):  # type: ignore[misc]
    """A strategy whose rounds of training are recorded before clients are asked, and end where one would exceed.

    **Guarantee.** That of `Meter`, for releases of clients: a step is a round, a record is a client, and the strategy
    within clips and adds noise.  All of Flower's strategies take a fixed number of clients: `sampling="fixed_size"`
    where they are drawn at random, and `sample_rate=1.0` where all are asked.  A round that fails counts.  Metrics that
    clients send have no noise, and are not counted.

    Refused are strategies that add less noise than is counted or none, that ask other clients, or that clients weigh
    differently in.  A round in which fewer clients reply than the noise is for changes nothing, and warns.

    Noise from NumPy's global generator, and clients from Python's, have seeds that nobody knows, whatever the script
    seeds.

    After the last round that fits no client is asked, and nothing changes.  Epsilon is among the metrics of a round.

    Parameters
    ----------
    strategy : flwr.serverapp.strategy.Strategy
    meter : Meter
    adds_noise : bool
        Whether rounds clip the clients, weigh them and add the noise as is counted, otherwise than by Flower's own
        strategies of fixed clipping around its FedAvg.  Others are refused without it.
    clients_clip : bool
        Whether each client clips what it sends, as by `mods=[fixedclipping_mod]`.  The server does not see it; a
        strategy that leaves the clipping to its clients is refused without it.
    """

    def __init__(
        self, strategy: Foreign, meter: Meter, *, adds_noise: bool = False, clients_clip: bool = False
    ) -> None:
        self.strategy, self.meter, self.adds_noise, self.clients_clip = strategy, meter, adds_noise, clients_clip
        self._refuse_noise()

    def configure_train(self, server_round: int, arrays: Foreign, config: Foreign, grid: Foreign) -> Iterable[Foreign]:
        """Record the round, and ask the clients of it; ask nobody where it does not fit."""
        if not self.meter.remaining:
            return []
        self._refuse_noise()
        with unseeded():
            asked = [*self.strategy.configure_train(server_round, arrays, config, grid)]
        if not asked:
            return asked
        if self.meter._live.per > 1:
            raise ValueError("the meter counts cycles of a sampler, and Flower asks its clients anew in each round")
        refuse_clients(self.strategy, self.meter.counted, len(asked), grid, adds_noise=self.adds_noise)
        if self.meter.waits:
            self.meter.epoch()
        self.meter.step()
        return asked

    def aggregate_train(self, server_round: int, replies: Iterable[Foreign]) -> tuple[Foreign, Foreign]:
        """The strategy's own, with epsilon among the metrics."""
        answered = [*replies]
        if not answered:
            return None, None
        self._refuse_noise()
        if not self.adds_noise:
            if len(answered) < (needed := self.strategy.num_sampled_clients):
                warnings.warn(
                    f"{len(answered)} clients replied, and the noise is for num_sampled_clients = {needed}: this round "
                    "changes nothing. Ask more clients than num_sampled_clients, so that some may be missing",
                    stacklevel=2,
                )
                return None, None
            refuse_weights(answered, self.strategy.strategy.weighted_by_key)
        with unseeded():
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

    def _refuse_noise(self) -> None:
        refuse_noise(self.strategy, self.meter.least_noise, _strategy.FedAvg, adds_noise=self.adds_noise)
        kinds = "".join(kind.__name__ for kind in type(self.strategy).__mro__)
        if not (self.adds_noise or self.clients_clip) and "ClientSide" in kinds:
            raise ValueError(
                "the clients clip by themselves, which the server does not see: without it no epsilon holds. If the "
                "ClientApp of each has mods=[fixedclipping_mod], say so: Metered(strategy, meter, clients_clip=True)"
            )
