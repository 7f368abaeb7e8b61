"""Rounds of a Flower strategy: recorded before clients are asked, and nobody is asked beyond the budget."""

import numpy as np
import pytest

import fastacct as fa

flwr = pytest.importorskip("flwr.serverapp", reason="Flower is not installed")
app = pytest.importorskip("flwr.app", reason="Flower is not installed")

from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fastacct.training import Meter  # noqa: E402
from fastacct.training.flower import Metered  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RUN = {"noise_multiplier": 4.0, "records": 10, "batch_size": 4, "sampling": "fixed_size", "delta": 1e-3}


class Grid:
    """Ten clients, who answer with what they were sent."""

    asked = 0

    def get_node_ids(self):
        return list(range(1, 11))

    def send_and_receive(self, messages, timeout=None):
        found = []
        for message in messages:
            self.asked += message.metadata.message_type == app.MessageType.TRAIN
            arrays = app.ArrayRecord([one + 0.1 for one in message.content["arrays"].to_numpy_ndarrays()])
            content = app.RecordDict({"arrays": arrays, "metrics": app.MetricRecord({"num-examples": 1, "loss": 0.5})})
            found.append(app.Message(content, reply_to=message))
        return found

    def push_messages(self, messages):
        raise NotImplementedError


def rounds(meter, grid, count):
    inner = FedAvg(fraction_train=0.4, fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=10)
    strategy = Metered(DifferentialPrivacyServerSideFixedClipping(inner, 4.0, 1.0, 4), meter)
    return strategy.start(grid, app.ArrayRecord([np.zeros(3)]), num_rounds=count)


def test_each_round_has_its_epsilon_and_none_is_beyond_the_budget():
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    limit = fa.dpsgd.epsilon(**RUN, steps=3)
    meter, grid = Meter(**RUN, stop_at=limit), Grid()
    found = rounds(meter, grid, 5)
    assert grid.asked == 12  # three rounds of four clients
    seen = {number: metrics["epsilon"] for number, metrics in found.train_metrics_clientapp.items()}
    assert seen == {i: fa.dpsgd.epsilon(**RUN, steps=i) for i in (1, 2, 3)}
    assert meter.epsilon == limit
