"""The callback for Keras, in real trainings: each step's epsilon, the stop, and a process that is killed."""

import json
import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import fastacct as fa

pytest.importorskip("torch", reason="PyTorch is not installed")
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed")

from fastacct.training import Meter  # noqa: E402
from fastacct.training.keras import MeterCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDS, BATCH = 40, 4
BATCHES = {"records": RECORDS, "batch_size": BATCH, "sampling": "shuffled"}
RUN = {"noise_multiplier": 3.0, "delta": 1e-4, "neighbors": "zero_out"}
counting = partial(MeterCallback, adds_noise=True)  # the noise does not matter to the count


def model(**given):
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.01, **given), "mse")
    return made


def fit(made, *callbacks, epochs=3):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(RECORDS, 3)), rng.normal(size=(RECORDS, 1))
    return made.fit(*data, batch_size=BATCH, epochs=epochs, callbacks=list(callbacks), verbose=0)


def passes(epochs):
    return fa.dpsgd.epsilon(**RUN, **BATCHES, epochs=epochs)


class Heard(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epsilons = []

    def on_train_batch_end(self, batch, logs=None):
        self.epsilons.append(logs["epsilon"])


def test_each_step_has_the_epsilon_of_whole_passes():
    meter, heard = Meter(**RUN, **BATCHES), Heard()
    found = fit(model(), counting(meter), heard)
    assert heard.epsilons == [passes(1 + i // 10) for i in range(30)]
    assert found.history["epsilon"] == [passes(i) for i in (1, 2, 3)]


def test_training_ends_before_the_budget_is_exceeded():
    meter = Meter(**RUN, **BATCHES, stop_at=passes(2))
    fit(model(), counting(meter))
    assert meter.steps == 20
    with pytest.raises(fa.BudgetExceededError):
        fit(model(), counting(meter))
    assert meter.steps == 20


def test_steps_that_are_not_one_batch_are_refused():
    with pytest.raises(ValueError, match="gradient_accumulation_steps"):
        fit(model(gradient_accumulation_steps=2), counting(Meter(**RUN, **BATCHES)))


def test_steps_without_noise_are_refused():
    meter = Meter(**RUN, **BATCHES)
    with pytest.raises(ValueError, match=r"SGD adds no noise: .*MeterCallback\(meter, adds_noise=True\)"):
        fit(model(), MeterCallback(meter))
    private = model()
    private.get_noise_multiplier = lambda: 2.0  # as jax_privacy.keras_api.make_private gives a model
    with pytest.raises(ValueError, match=r"noise_multiplier = 2.0 is that of the model, and 3.0 is counted"):
        fit(private, MeterCallback(meter))
    assert meter.steps == 0


def test_a_private_model_whose_steps_are_not_taken_is_refused_at_the_first():
    private, meter = model(), Meter(**RUN, **BATCHES)
    private.get_noise_multiplier = lambda: 3.0
    private._dp_params = SimpleNamespace(poisson_sampling_in_fit=False, seed=None)
    for name, size in (("_rng", 2), ("_optimizer_steps", 1)):
        private.add_weight(name=name, shape=(size,), dtype="int64", initializer="zeros", trainable=False)
    with pytest.raises(ValueError, match="not that of make_private: these weights are not private"):
        fit(private, MeterCallback(meter))
    assert meter.steps == 1


def test_batches_that_fit_does_not_draw_are_refused():
    for other in ({"sample_rate": 0.1}, {**BATCHES, "sampling": "fixed_size"}):
        meter = Meter(noise_multiplier=3.0, delta=1e-4, **other)
        with pytest.raises(ValueError, match=r"fit\(\) goes through arrays.* once an epoch"):
            fit(model(), counting(meter, draws_batches=True))
        assert meter.steps == 0

    def drawn():
        rng = np.random.default_rng(1)
        while True:
            yield np.zeros((4, 3)), rng.normal(size=(4, 1))

    meter = Meter(noise_multiplier=3.0, delta=1e-4, sample_rate=0.1)
    model().fit(drawn(), steps_per_epoch=5, callbacks=[counting(meter)], verbose=0)
    assert meter.steps == 5


@pytest.mark.parametrize("stream", [False, True], ids=["shuffled", "Poisson"])
def test_the_file_has_each_step_of_an_epoch_that_is_broken_off(stream, tmp_path):
    class Breaks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 6:
                raise KeyboardInterrupt

    given = {"sample_rate": 0.1} if stream else BATCHES | {"neighbors": "zero_out"}
    streamed = ((np.zeros((4, 3)), np.zeros((4, 1))) for _ in range(99))
    data = (streamed,) if stream else (np.zeros((RECORDS, 3)), np.zeros((RECORDS, 1)))
    size = {"steps_per_epoch": 10} if stream else {"batch_size": BATCH}
    for times in (1, 2, 3):
        meter = Meter(noise_multiplier=3.0, delta=1e-4, **given)
        mine = counting(meter, tmp_path / "meter.json")
        broken = {"callbacks": [mine, Breaks()], "verbose": 0}
        with pytest.raises(KeyboardInterrupt):
            model().fit(*data, **size, **broken)
        much = {"steps": 7 * times} if stream else {"epochs": times}
        assert meter.epsilon == fa.dpsgd.epsilon(noise_multiplier=3.0, delta=1e-4, **given, **much)


def test_fits_at_a_time_with_one_file_share_one_count(tmp_path):
    path, first, second = tmp_path / "meter.json", Meter(**RUN, **BATCHES), Meter(**RUN, **BATCHES)

    class Other(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 0:
                fit(model(), counting(second, path), epochs=2)

    fit(model(), counting(first, path), Other(), epochs=2)
    assert first.epsilon == passes(4)
    assert json.loads(path.read_text())["units"] == 4
    again = Meter(**RUN, **BATCHES, stop_at=passes(4))
    fit(model(), counting(again, path))
    assert (again.steps, again.epsilon) == (40, passes(4))


def test_an_epoch_beyond_the_budget_of_two_fits_is_not_to_be_kept(tmp_path):
    path, limit = tmp_path / "meter.json", passes(1)

    class Other(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            other = Meter(**RUN, **BATCHES, stop_at=limit)
            fit(model(), counting(other, path, whole_epochs=True), epochs=1)

    first = Meter(**RUN, **BATCHES, stop_at=limit)
    with pytest.raises(fa.BudgetExceededError, match=r"another fit with .* has used the budget"):
        fit(model(), counting(first, path, whole_epochs=True), Other(), epochs=1)
    assert json.loads(path.read_text())["units"] == 2


KILLED = """
import signal, sys
from tests.training.test_keras import *

class Killer(keras.callbacks.Callback):
    seen = 0
    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

meter = Meter(**RUN, **BATCHES)
backup = keras.callbacks.BackupAndRestore(sys.argv[1] + "/backup")
mine = counting(meter, sys.argv[1] + "/meter.json", whole_epochs=sys.argv[3] == "True")
fit(model(), mine, backup, Killer())
print("ends", meter.steps, meter.epsilon)
"""


@pytest.mark.parametrize("whole_epochs", [True, False])
def test_a_process_that_was_killed_goes_on_from_its_backup(whole_epochs, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    given = {"capture_output": True, "timeout": 300, "check": False}
    assert subprocess.run([*command, "14", str(whole_epochs)], **given).returncode == -9
    again = subprocess.run([*command, "0", str(whole_epochs)], text=True, **given)
    assert again.returncode == 0, again.stderr
    # The epoch that was broken off at its fourth step is taken again; somebody may have seen it, or not.
    steps, much = (30, 3) if whole_epochs else (31, 4)
    assert again.stdout.split("ends ")[1].split() == [str(steps), str(passes(much))]


def test_a_training_that_goes_on_where_no_step_is_left_ends_without_one(tmp_path):
    first, path = model(), tmp_path / "meter.json"
    fit(first, counting(Meter(**RUN, **BATCHES, stop_at=passes(2)), path))
    meter, again, backup = Meter(**RUN, **BATCHES, stop_at=passes(2)), model(), tmp_path / "backup"
    before = [one.copy() for one in again.get_weights()]
    fit(again, counting(meter, path), keras.callbacks.BackupAndRestore(backup))
    assert meter.steps == 20
    assert all((one == other).all() for one, other in zip(before, again.get_weights(), strict=True))
    fit(again, counting(Meter(**RUN, **BATCHES)), epochs=1)
    assert any((one != other).any() for one, other in zip(before, again.get_weights(), strict=True))


def test_a_fit_that_begins_with_a_later_epoch_needs_what_was_counted():
    """Two passes after five that nobody counted: 1.144 where 2.344 is the truth."""
    rows, made = np.zeros((RECORDS, 3)), model()
    given = {"batch_size": BATCH, "epochs": 7, "initial_epoch": 5, "verbose": 0}
    with pytest.raises(ValueError, match=r"begins with epoch 5, and the meter has counted nothing.*after="):
        made.fit(rows, rows[:, :1], **given, callbacks=[counting(Meter(**RUN, **BATCHES))])
    meter = Meter(**RUN, **BATCHES, after=fa.Gaussian(3.0) * 5)
    made.fit(rows, rows[:, :1], **given, callbacks=[counting(meter)])
    assert meter.steps == 20
