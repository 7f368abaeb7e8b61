"""Rounds of federated strategies: the noise that they add, the clients that they ask, and how those weigh."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from fastacct.core.extras import Foreign
from fastacct.training.optimizers import private_part, refuse_less, replaced

_HARMLESS: Final = (
    "__init__",
    "aggregate_evaluate",
    "configure_evaluate",
    "configure_train",  # is asked for by refuse_clients
    "start",
    "summary",
)
_WORD: Final = (
    "If your rounds ask, clip, weigh and add the noise as is counted, say so: Metered(strategy, meter, adds_noise=True)"
)


def refuse_noise(strategy: Foreign, noise_multiplier: float, mean: Foreign, *, adds_noise: bool) -> None:
    """ValueError where rounds have less noise than is counted, or not known to be as much; `mean` is Flower's FedAvg.

    With `adds_noise` a strategy of which nothing is known is taken for what it is said to be.
    """
    own = private_part(strategy, "strategy")
    name = "" if own is None else _replaced(own)
    if own is not None:
        refuse_less(own, noise_multiplier, "strategy")
        if hasattr(own, "clipped_count_stddev") and not name:
            raise ValueError(
                "adaptive clipping: Flower adds noise of the clipping norm after its update, which may be smaller than "
                "the one that clients were clipped to: no epsilon holds. Take fixed clipping"
            )
    if adds_noise:
        return
    if own is None:
        raise ValueError(
            f"{type(strategy).__name__} adds no noise: no epsilon holds. Give it to "
            "DifferentialPrivacyServerSideFixedClipping(strategy, noise_multiplier, clipping_norm, "
            f"num_sampled_clients). {_WORD}"
        )
    if own is not strategy:
        raise ValueError(f"{type(strategy).__name__} is not Flower's: nothing is known of its noise. {_WORD}")
    if name:
        raise ValueError(f"{name} of the strategy was replaced: nothing is known of its noise. {_WORD}")
    inner = own.strategy
    other = _replaced(inner)
    if type(inner).aggregate_train is not mean.aggregate_train or other:
        raise ValueError(
            f"{type(inner).__name__} is not the mean of the clients that FedAvg takes"
            f"{other and ': it has its own '}{other}, and noise is added behind it: nothing is known of how far a "
            f"client moves it. {_WORD}"
        )


def _replaced(strategy: Foreign) -> str:
    """A method of Flower's that a strategy has replaced, of those that matter; "" where it has none."""
    theirs = (kind for kind in type(strategy).__mro__ if kind.__module__.startswith("flwr."))
    names = {name for kind in theirs for name, one in vars(kind).items() if inspect.isfunction(one)}
    return replaced(strategy, "flwr.", sorted({"aggregate_train", *names} - {*_HARMLESS}))


def refuse_clients(
    strategy: Foreign, run: Mapping[str, Foreign], asked: int, grid: Foreign, *, adds_noise: bool
) -> None:
    """ValueError where other clients are asked than are counted, or fewer than the noise is for."""
    is_fixed = run.get("sampling", "poisson") == "fixed_size"
    is_all = _asks_all(run)
    may_miss = is_all and run.get("neighbors", "add_remove") not in ("zero_out", "replace_one")
    if not adds_noise:
        if may_miss:
            raise ValueError(
                "neighbors = 'add_remove' where all clients are asked: FedAvg takes the mean of those that are there, "
                "so that without a client both the mean and its noise are others: say Meter(neighbors='zero_out')"
            )
        if asked < (needed := strategy.num_sampled_clients):
            raise ValueError(f"{asked} clients are asked, and the noise is for num_sampled_clients = {needed}")
    if is_fixed and asked > run["batch_size"]:
        raise ValueError(
            f"{asked} clients are asked, and the meter counts batch_size = {run['batch_size']!r}: count as many, or "
            f"ask so many of any number, FedAvg(fraction_train=1e-9, min_train_nodes={run['batch_size']})"
        )
    chooses, owns = strategy, replaced(strategy, "flwr.", ("configure_train",))
    while (inner := getattr(chooses, "strategy", None)) is not None:
        chooses, owns = inner, owns or replaced(inner, "flwr.", ("configure_train",))
    if owns and not adds_noise:
        raise ValueError(f"{owns} of the strategy was replaced: nothing is known of the clients that it asks. {_WORD}")
    if owns:
        return  # who is asked is the user's own
    if not (is_fixed or is_all):
        raise ValueError(
            "Flower asks a fixed number of clients: Meter(sampling='fixed_size', records=, batch_size=), or "
            "sample_rate=1.0 where all are asked"
        )
    if is_fixed and (least := max(getattr(chooses, "min_available_nodes", 0), asked)) < run["records"]:
        raise ValueError(
            f"{asked} of at least {least} clients are asked, and the meter counts records = {run['records']!r}: "
            f"FedAvg(min_available_nodes={run['records']}) waits for as many"
        )
    if may_miss and asked < (there := len([*grid.get_node_ids()])):
        raise ValueError(
            f"{asked} of {there} clients are asked, so that another takes the place of one that is missing: "
            "FedAvg(fraction_train=1.0) asks all, Meter(sampling='fixed_size', ...) counts a sample of them"
        )


def _asks_all(run: Mapping[str, Foreign]) -> bool:
    """Whether a meter counts every client in every round."""
    if run.get("sampling", "poisson") not in ("poisson", "fixed_size"):
        return False
    return run.get("sample_rate") == 1.0 or ("records" in run and run["records"] == run.get("batch_size"))


def refuse_weights(replies: list[Foreign], key: str) -> None:
    """ValueError where a client weighs more than another: noise is for equal weights."""
    if any(reply.has_error() for reply in replies):
        return  # the strategy skips the round
    records: list[Foreign] = [[*reply.content.metric_records.values()][:1] for reply in replies]
    weights = {one.get(key) for found in records for one in found}
    if len(weights) > 1:
        some = ", ".join(map(str, [*weights][:3]))
        raise ValueError(
            f"the clients weigh differently, by their {key} ({some}, ...), and the noise is for equal weights: let "
            "each reply the same number, or give FedAvg weighted_by_key= of which all reply the same"
        )


@contextlib.contextmanager
def unseeded() -> Iterator[None]:
    """NumPy's global generator, which Flower draws its noise from, with a seed that nobody knows; then as it was.

    Scripts seed it, and who knows the seed can take the noise away.  The same of Python's, which it draws clients from.
    """
    drawn: Foreign = np.random
    before, state, clients = drawn.get_bit_generator(), drawn.get_state(legacy=False), random.getstate()
    random.seed(os.urandom(32))
    drawn.set_bit_generator(np.random.PCG64DXSM())
    try:
        yield
    finally:
        random.setstate(clients)
        drawn.set_bit_generator(before)
        drawn.set_state(state)  # with the half of a pair that is kept
