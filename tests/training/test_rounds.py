"""Rounds of strategies that stand in for Flower's, without it: what has less noise than is counted is refused."""

import contextlib
import random
from types import SimpleNamespace

import numpy as np
import pytest

from fastacct.training import Meter
from fastacct.training.rounds import refuse_clients, refuse_noise, refuse_weights, unseeded

HERE = "flwr.serverapp.strategy"


def flowers(name, **more):
    """A class of Flower, whose methods are its own."""

    def method(self, *given):
        return given

    method.__module__ = HERE
    names = ("aggregate_train", "configure_train", "_add_noise_to_aggregated_arrays", "_check_and_log_replies")
    return type(name, (), {**dict.fromkeys(names, method), "__module__": HERE, **more})


FedAvg = flowers("FedAvg")
Fixed = flowers("Fixed")
FedAdam = flowers("FedAdam")  # whose mean is another one, of Flower's own
GRID = SimpleNamespace(get_node_ids=lambda: range(10))
SAMPLE = {"noise_multiplier": 2.0, "sampling": "fixed_size", "records": 10, "batch_size": 4, "delta": 1e-3}
ALL = {"noise_multiplier": 2.0, "sample_rate": 1.0, "neighbors": "zero_out", "delta": 1e-3}


def given(thing, **fields):
    vars(thing).update(fields)
    return thing


def private(noise=2.0, clients=10, inner=None, kind=Fixed, available=10, **more):
    inner = given(FedAvg() if inner is None else inner, min_available_nodes=available)
    return given(kind(), noise_multiplier=noise, num_sampled_clients=clients, strategy=inner, **more)


class Keeps(FedAvg):
    def _check_and_log_replies(self, *given):
        return given[:1]


class Mine(Fixed):
    def _add_noise_to_aggregated_arrays(self, arrays):
        return arrays


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (FedAvg(), "FedAvg adds no noise: no epsilon holds"),
        (private(inner=FedAdam()), "FedAdam is not the mean of the clients"),
        (private(inner=given(FedAvg(), aggregate_train=len)), "FedAvg is not the mean of the clients"),
        (private(kind=Mine), "_add_noise_to_aggregated_arrays of the strategy was replaced"),
        (given(private(), aggregate_train=len), "aggregate_train of the strategy was replaced"),
        (private(inner=given(FedAvg(), _check_and_log_replies=len)), "it has its own _check_and_log_replies"),
        (private(inner=Keeps()), "Keeps is not the mean of the clients .*: it has its own _check_and_log_replies"),
        (SimpleNamespace(strategy=private()), "SimpleNamespace is not Flower's"),
        (SimpleNamespace(noise_multiplier=2.0), "aggregate_train of the strategy was replaced"),
        (private(kind=Mine, clipped_count_stddev=1.0), "_add_noise_to_aggregated_arrays of the strategy was"),
    ],
)
def test_noise_that_is_not_known_needs_a_word(strategy, said):
    with pytest.raises(ValueError, match=said):
        refuse_noise(strategy, 2.0, FedAvg, adds_noise=False)
    refuse_noise(strategy, 2.0, FedAvg, adds_noise=True)


@pytest.mark.parametrize("adds_noise", [False, True])
def test_less_noise_is_refused_with_a_word_or_without(adds_noise):
    refuse_noise(private(), 2.0, FedAvg, adds_noise=adds_noise)
    for strategy, said in (
        (private(1.99), "1.99 is what the strategy has now, and noise_multiplier = 2.0 is counted"),
        (SimpleNamespace(strategy=private(1.99)), "1.99 is what the strategy has now"),
        (private(clipped_count_stddev=1.0), "adaptive clipping"),
    ):
        with pytest.raises(ValueError, match=said):
            refuse_noise(strategy, 2.0, FedAvg, adds_noise=adds_noise)


@pytest.mark.parametrize(
    ("strategy", "run", "asked", "said"),
    [
        (private(clients=4), SAMPLE, 5, "5 .* asked, and the meter counts batch_size = 4: .*min_train_nodes=4"),
        (private(clients=5), SAMPLE, 4, "4 clients are asked, and the noise is for num_sampled_clients = 5"),
        (private(clients=4, available=9), SAMPLE, 4, "4 of at least 9 clients are asked"),
        (private(clients=4), ALL | {"sample_rate": 0.4}, 4, "Flower asks a fixed number of clients"),
        (private(clients=4), SAMPLE | {"sampling": "truncated", "at_most": 9}, 4, "asks a fixed number of clients"),
        (private(), ALL | {"neighbors": "add_remove"}, 10, "add_remove' where all clients are asked"),
        (private(clients=9), SAMPLE | {"batch_size": 10}, 10, "add_remove' where all clients are"),
    ],
)
def test_other_clients_than_are_counted_are_refused(strategy, run, asked, said):
    with pytest.raises(ValueError, match=said):
        refuse_clients(strategy, Meter(**run).counted, asked, GRID, adds_noise=False)


@pytest.mark.parametrize(
    ("strategy", "run", "asked"),
    [
        (private(), ALL, 10),
        (private(), {**ALL, "sample_rate": None, "records": 10, "batch_size": 10}, 10),
        (private(), SAMPLE | {"batch_size": 10, "neighbors": "zero_out"}, 10),
        (private(clients=3), SAMPLE, 4),
        (private(clients=4), ALL | {"neighbors": "replace_one"}, 4),
        (private(clients=4), ALL | {"neighbors": "zero_out"}, 5),
    ],
)
def test_the_clients_that_are_counted_may_be_asked(strategy, run, asked):
    refuse_clients(strategy, Meter(**run).counted, asked, GRID, adds_noise=False)


def test_a_choice_of_clients_of_ones_own_needs_a_word():
    run = Meter(**ALL | {"sample_rate": 0.4}).counted
    inside = private(clients=4, inner=flowers("Own", configure_train=len)())
    for strategy in (inside, private(clients=4, kind=flowers("Mine", configure_train=len))):
        with pytest.raises(ValueError, match="configure_train of the strategy was replaced: nothing is known of the"):
            refuse_clients(strategy, run, 5, GRID, adds_noise=False)
        refuse_clients(strategy, run, 5, GRID, adds_noise=True)


def test_another_client_does_not_take_the_place_of_one_that_is_missing():
    run = Meter(**ALL | {"neighbors": "add_remove"}).counted
    with pytest.raises(ValueError, match="4 of 10 clients are asked, so that another takes the place"):
        refuse_clients(private(clients=4), run, 4, GRID, adds_noise=True)
    refuse_clients(private(), run, 10, GRID, adds_noise=True)


class Harmless(FedAvg):
    """A FedAvg with a start and an evaluation of its own."""

    def __init__(self):
        self.own = 1

    def summary(self):
        return None

    def configure_evaluate(self, *given):
        return []


def test_what_does_not_move_the_mean_may_be_ones_own():
    refuse_noise(private(inner=Harmless()), 2.0, FedAvg, adds_noise=False)


def test_noise_of_the_global_generator_has_a_seed_that_nobody_knows():
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.RandomState(5).normal(size=9)
    first = np.random.normal(size=3)  # noqa: NPY002
    drawn = []
    for error in (None, KeyError):
        with contextlib.suppress(KeyError), unseeded():
            drawn += [*np.random.normal(size=3)]  # noqa: NPY002
            if error:
                raise error
    assert (first == expected[:3]).all()
    assert (np.random.normal(size=6) == expected[3:]).all()  # noqa: NPY002
    assert not {*drawn} & {*expected}
    random.seed(5)
    expected = [random.random() for _ in range(2)]
    random.seed(5)
    with unseeded():
        drawn.append(random.random())
    assert drawn[-1] != expected[0] == random.random()
    assert len({*drawn}) == 7


def test_clients_that_weigh_differently_are_refused():
    def reply(weight, failed=False):
        return SimpleNamespace(
            has_error=lambda: failed, content=SimpleNamespace(metric_records={"metrics": {"num-examples": weight}})
        )

    refuse_weights([reply(7), reply(7.0)], "num-examples")
    refuse_weights([reply(7), reply(8, failed=True)], "num-examples")  # the strategy skips such a round
    with pytest.raises(ValueError, match="weigh differently, by their num-examples"):
        refuse_weights([reply(7), reply(7), reply(8)], "num-examples")
