"""The callback for Keras on TensorFlow, in real trainings: pipelines that do not know their length."""

import os
import subprocess
import sys

import pytest

import fastacct as fa

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("keras", reason="Keras is not installed")


UNKNOWN = """
import sys
import numpy as np, keras, tensorflow as tf
from fastacct.training import Meter
from fastacct.training.keras import MeterCallback

rows = np.eye(40, dtype="float32"), np.zeros((40, 1), "float32")
data = tf.data.Dataset.from_tensor_slices(rows).filter(lambda x, y: True).shuffle(40).batch(4)
model = keras.Sequential([keras.Input((40,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.compile(keras.optimizers.SGD(4.0), lambda y, p: -p[:, 0])
given = {"records": int(sys.argv[1]), "batch_size": 4, "sampling": "shuffled", "neighbors": "zero_out"}
meter = Meter(noise_multiplier=3.0, delta=1e-4, **given)
mine = MeterCallback(meter, sys.argv[2], adds_noise=True)
try:
    model.fit(data, epochs=3, verbose=0, callbacks=[mine])
except ValueError as error:
    print(error)
uses = np.rint(model.layers[0].get_weights()[0])
print("ends", meter.steps, int(uses.min()), int(uses.max()), meter.epsilon)
"""


@pytest.mark.parametrize("records", [40, 20])
def test_a_pipeline_of_tensorflow_whose_length_is_not_known_is_counted_as_it_is_used(records, tmp_path):
    command = [sys.executable, "-c", UNKNOWN, str(records), str(tmp_path / "meter.json")]
    given = {"env": os.environ | {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}, "timeout": 300}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **given)
    assert ended.returncode == 0, ended.stderr
    run = {"noise_multiplier": 3.0, "delta": 1e-4, "neighbors": "zero_out"}
    three = fa.dpsgd.epsilon(**run, records=40, batch_size=4, sampling="shuffled", epochs=3)
    steps, least, most, epsilon = ended.stdout.split("ends ")[1].split()
    if records == 40:
        assert (steps, least, most, epsilon) == ("30", "3", "3", str(three))
    else:  # half of them, and no step beyond
        assert (steps, least, most) == ("5", "0", "1")
        assert "more than the 5 steps that a pass of the meter has" in ended.stdout
