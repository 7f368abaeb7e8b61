"""Rounds of a Flower strategy: recorded before clients are asked, and nobody is asked beyond the budget."""

import numpy as np
import pytest

import fastacct as fa

flwr = pytest.importorskip("flwr.serverapp", reason="Flower is not installed")
app = pytest.importorskip("flwr.app", reason="Flower is not installed")

from flwr.serverapp.strategy import (  # noqa: E402
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedAvgM,
)
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fastacct.training import Meter  # noqa: E402
from fastacct.training.flower import Metered  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RUN = {"noise_multiplier": 4.0, "records": 10, "batch_size": 4, "sampling": "fixed_size", "delta": 1e-3}


ALL = {"noise_multiplier": 4.0, "sample_rate": 1.0, "neighbors": "zero_out", "delta": 1e-3}


class Grid:
    """Clients, who answer with what they were sent, as far as they reply."""

    asked = 0

    def __init__(self, nodes=10, replies=10, weight=lambda node: 1):
        self.nodes, self.replies, self.weight = nodes, replies, weight

    def get_node_ids(self):
        return list(range(1, self.nodes + 1))

    def send_and_receive(self, messages, timeout=None):
        found = []
        for message in messages:
            self.asked += message.metadata.message_type == app.MessageType.TRAIN
            arrays = app.ArrayRecord([one + 0.1 for one in message.content["arrays"].to_numpy_ndarrays()])
            weight = self.weight(message.metadata.dst_node_id)
            metrics = app.MetricRecord({"num-examples": weight, "loss": 0.5})
            found.append(app.Message(app.RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message))
        return found[: self.replies]

    def push_messages(self, messages):
        raise NotImplementedError


def mean(fraction=1.0, kind=FedAvg, available=10, **more):
    given = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": available}
    return kind(fraction_train=fraction, **given | more)


def private(inner, noise=4.0, clients=10, kind=DifferentialPrivacyServerSideFixedClipping):
    return kind(inner, noise, 1.0, clients)


def start(strategy, grid=None, count=1):
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    return strategy.start(grid or Grid(), app.ArrayRecord([np.zeros(3)]), num_rounds=count)


def test_each_round_has_its_epsilon_and_none_is_beyond_the_budget():
    limit = fa.dpsgd.epsilon(**RUN, steps=3)
    meter, grid = Meter(**RUN, stop_at=limit), Grid()
    found = start(Metered(private(mean(0.4), clients=4), meter), grid, 5)
    assert grid.asked == 12  # three rounds of four clients
    seen = {number: metrics["epsilon"] for number, metrics in found.train_metrics_clientapp.items()}
    assert seen == {i: fa.dpsgd.epsilon(**RUN, steps=i) for i in (1, 2, 3)}
    assert meter.epsilon == limit


class Own(FedAvg):
    """A mean that nobody knows."""

    def aggregate_train(self, server_round, replies):
        return super().aggregate_train(server_round, replies)


class Keeps(FedAvg):
    """One client of all."""

    def _check_and_log_replies(self, replies, is_train, validate=True):
        valid, errors = super()._check_and_log_replies(replies, is_train, validate)
        return valid[:1], errors


class Quiet(DifferentialPrivacyServerSideFixedClipping):
    def _add_noise_to_aggregated_arrays(self, aggregated_arrays):
        return aggregated_arrays


class Around(FedAvg):
    def __init__(self, strategy):
        super().__init__()
        self.strategy = strategy


def patched():
    strategy = private(mean())
    strategy._add_noise_to_aggregated_arrays = lambda arrays: arrays
    return strategy


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (mean, "FedAvg adds no noise: no epsilon holds. Give it to DifferentialPrivacyServerSide"),
        (lambda: private(mean(kind=FedAvgM)), "FedAvgM is not the mean of the clients"),
        (lambda: private(mean(kind=Own)), "Own is not the mean of the clients"),
        (lambda: private(mean(kind=Keeps)), "it has its own _check_and_log_replies"),
        (lambda: private(mean(), kind=Quiet), "_add_noise_to_aggregated_arrays of the strategy was replaced"),
        (patched, "_add_noise_to_aggregated_arrays of the strategy was replaced"),
        (lambda: Around(private(mean())), "Around is not Flower's: nothing is known of its noise"),
    ],
)
def test_rounds_whose_noise_is_not_known_need_a_word(strategy, said):
    with pytest.raises(ValueError, match=said) as error:
        Metered(strategy(), Meter(**ALL))
    assert "Metered(strategy, meter, adds_noise=True)" in str(error.value)
    Metered(strategy(), Meter(**ALL), adds_noise=True)


def test_a_seed_of_the_script_is_not_that_of_the_noise():
    found = []
    for _ in range(2):
        np.random.seed(1)  # noqa: NPY002
        found.append(start(Metered(private(mean()), Meter(**ALL))).arrays.to_numpy_ndarrays()[0])
        assert np.random.normal() == np.random.RandomState(1).normal()  # noqa: NPY002
    assert not (found[0] == found[1]).any()


def test_less_noise_than_is_counted_is_refused_with_a_word_or_without():
    for words in ({}, {"adds_noise": True}):
        for strategy in (private(mean(), 3.9), Around(private(mean(), 3.9))):
            with pytest.raises(ValueError, match=r"3.9 is what the strategy has now, and noise_multiplier = 4.0"):
                Metered(strategy, Meter(**ALL), **words)
    later = private(mean())
    strategy = Metered(later, Meter(**ALL))
    later.noise_multiplier = 3.9
    with pytest.raises(ValueError, match=r"3.9 is what the strategy has now"):
        start(strategy)
    assert strategy.meter.steps == 0


def test_adaptive_clipping_of_flower_has_less_noise_than_it_says():
    """All are clipped: the norm falls before the noise is drawn."""
    strategy = DifferentialPrivacyServerSideAdaptiveClipping(mean(), 1.0, 10, clipped_count_stddev=5.0)
    scales: list[float] = []
    strategy._noisy_fraction = lambda count, total: count / total
    drawn = np.random.normal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "normal", lambda loc, scale, *size: scales.append(scale) or drawn(loc, scale, *size))
        start(strategy)
    said = strategy.noise_multiplier * 0.1 / 10
    if scales[-1] >= said:
        pytest.skip("this version of Flower draws the noise before the norm moves")
    assert scales[-1] == pytest.approx(said * np.exp(-0.2 * 0.5))
    made = DifferentialPrivacyServerSideAdaptiveClipping(mean(), 1.0, 10, clipped_count_stddev=5.0)
    for words in ({}, {"adds_noise": True}):
        with pytest.raises(ValueError, match=r"adaptive clipping: .* Take fixed clipping"):
            Metered(made, Meter(**ALL | {"noise_multiplier": [1.0, 5.0]}), **words)


def test_a_round_with_fewer_replies_than_its_noise_is_for_changes_nothing():
    meter = Meter(**ALL)
    with pytest.warns(UserWarning, match="9 clients replied, and the noise is for num_sampled_clients = 10"):
        found = start(Metered(private(mean()), meter), Grid(replies=9))
    assert not found.arrays
    assert not found.train_metrics_clientapp
    assert meter.epsilon == fa.dpsgd.epsilon(**ALL, steps=1)  # it counts
    run = RUN | {"batch_size": 10, "records": 20}
    found = start(Metered(private(mean(0.5, available=20), clients=9), Meter(**run)), Grid(20, replies=9))
    assert found.train_metrics_clientapp[1]["epsilon"] == fa.dpsgd.epsilon(**run, steps=1)


def test_clients_that_weigh_differently_are_refused():
    unequal = Grid(weight=lambda node: 10**6 if node == 1 else 1)
    with pytest.raises(ValueError, match="the clients weigh differently, by their num-examples"):
        start(Metered(private(mean()), Meter(**ALL)), unequal)
    found = start(Metered(private(mean()), Meter(**ALL)), Grid(weight=lambda node: 7))
    assert found.train_metrics_clientapp[1]["epsilon"] == fa.dpsgd.epsilon(**ALL, steps=1)
    equal = private(mean(weighted_by_key="loss"), kind=DifferentialPrivacyClientSideFixedClipping)
    other = private(mean(), kind=type("Ours", (DifferentialPrivacyClientSideFixedClipping,), {}))
    for one in (equal, other):
        with pytest.raises(ValueError, match="the server does not see: without it no epsilon holds"):
            Metered(one, Meter(**ALL))
    assert start(Metered(equal, Meter(**ALL), clients_clip=True), unequal).train_metrics_clientapp
    start(Metered(mean(), Meter(**ALL), adds_noise=True), unequal)


@pytest.mark.parametrize(
    ("strategy", "run", "said"),
    [
        (private(mean(0.5), clients=5), RUN, "5 clients are asked, and the meter counts batch_size = 4"),
        (private(mean(0.4), clients=5), RUN, "4 clients are asked, and the noise is for num_sampled_clients = 5"),
        (private(mean(0.4, available=9), clients=4), RUN, r"counts records = 10: FedAvg\(min_available_nodes=10\)"),
        (private(mean(0.4), clients=4), ALL | {"sample_rate": 0.4}, "Flower asks a fixed number of clients"),
        (private(mean(0.4), clients=4), RUN | {"sampling": "truncated", "at_most": 9}, "asks a fixed number"),
        (private(mean()), ALL | {"neighbors": "add_remove"}, "add_remove' where all clients are asked"),
        (private(mean(), clients=9), RUN | {"batch_size": 10}, "add_remove' where all clients are asked"),
    ],
)
def test_other_clients_than_are_counted_are_refused(strategy, run, said):
    meter, grid = Meter(**run), Grid()
    with pytest.raises(ValueError, match=said):
        start(Metered(strategy, meter), grid)
    assert (meter.steps, grid.asked) == (0, 0)


@pytest.mark.parametrize(
    ("strategy", "run"),
    [
        (private(mean()), ALL),
        (private(mean()), {**ALL, "sample_rate": None, "records": 10, "batch_size": 10}),
        (private(mean()), RUN | {"batch_size": 10, "neighbors": "zero_out"}),
        (private(mean(0.4), clients=4), ALL | {"neighbors": "replace_one"}),
        (private(mean(0.4), clients=3), ALL | {"neighbors": "zero_out"}),
        (private(mean(0.4), 5.0, 3), RUN | {"noise_multiplier": [4.0, 20.0]}),
    ],
)
def test_right_rounds_have_the_epsilon_of_the_verb(strategy, run):
    meter = Meter(**run)
    assert start(Metered(strategy, meter), count=2).train_metrics_clientapp[2]["epsilon"] == meter.epsilon > 0
    assert meter.steps == 2


def test_who_is_asked_may_be_the_users_own():
    class Chosen(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return super().configure_train(server_round, arrays, config, grid)

    run = ALL | {"sample_rate": 0.4}
    with pytest.raises(ValueError, match="configure_train of the strategy was replaced"):
        start(Metered(private(mean(0.4, Chosen), clients=4), Meter(**run)))
    chosen = Metered(private(mean(0.4, Chosen), clients=4), Meter(**run), adds_noise=True)
    assert start(chosen).train_metrics_clientapp
    assert not start(Metered(private(mean(0.0)), Meter(**ALL))).train_metrics_clientapp  # nobody is asked
