"""The callback for Keras beside models of JAX Privacy, in a process of their own: Keras has one backend in each."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import fastacct as fa

TRAININGS = """
import json, os, warnings
import numpy as np, keras
import fastacct as fa
from jax_privacy import keras_api
from fastacct.training import Meter
from fastacct.training.keras import MeterCallback

n, b = 40, 4
x, y = np.ones((n, 2)), np.ones((n, 1))
SHUFFLED = {"records": n, "batch_size": b, "sampling": "shuffled", "neighbors": "zero_out"}
found = {}

def made(noise=4.0, public=False, **settings):
    m = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    m.compile(keras.optimizers.SGD(1.0), "mse")
    if public:
        m.fit(np.zeros((8, 2)), np.zeros((8, 1)), batch_size=b, verbose=0)
    given = {"epsilon": 1e6, "delta": 1e-4, "clipping_norm": 1.0, "batch_size": b, "train_steps": 1000}
    given |= {"gradient_accumulation_steps": 1, "train_size": n, "noise_multiplier": noise} | settings
    return keras_api.make_private(m, keras_api.DPKerasConfig(**given))

def fit(m, meter, steps=None, data=(x, y), **given):
    size = {} if len(data) == 1 else {"batch_size": m._dp_params.batch_size}
    try:
        m.fit(*data, **size, verbose=0, steps_per_epoch=steps, callbacks=[MeterCallback(meter)], **given)
    except ValueError as error:
        return [str(error), meter.steps]
    return [m.layers[0].get_weights()[0].ravel().tolist(), meter.steps, meter.epsilon]

def meter(noise=4.0, **run):
    return Meter(noise_multiplier=noise, delta=1e-4, **(run or SHUFFLED))

sampling = {"poisson_sampling_in_fit": True, "seed": 12345}
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    found["plain"] = fit(made(), meter(), epochs=3)
found["warnings"] = [str(one.message) for one in heard]
warnings.simplefilter("ignore")
found["pretrained"] = [fit(made(public=True), meter(), 1) for _ in range(2)]
found["pretrained poisson"] = [fit(made(public=True, **sampling), meter(sample_rate=0.1), 1) for _ in range(2)]
m = made(public=True)
m.train_step = super(type(m), m).train_step  # as though make_private had done nothing
found["not taken"] = fit(m, meter(), 1)
found["poisson"] = fit(made(), meter(sample_rate=0.1))
found["rate"] = fit(made(batch_size=20, **sampling), meter(sample_rate=0.01))
found["right rate"] = fit(made(batch_size=20, **sampling), meter(sample_rate=0.5))
m, one = made(**sampling), meter(sample_rate=0.1)
found["fits"] = [fit(m, one), fit(m, one)]
before = {"sample_rate": 0.1, "after": fa.Gaussian(4.0).poisson(0.1) * 10}
found["after"] = fit(m, meter(**before))
found["new seed"] = fit(made(**sampling | {"seed": 2**40 + 7}), meter(**before))
one = meter(sample_rate=0.1)
for name in ("seeded", "seeded again"):
    np.random.seed(4)
    found[name] = fit(made(**sampling | {"seed": None}), one)
m, one = made(), meter()
found["two fits"] = [fit(m, one), fit(m, one)]

class Data(keras.utils.PyDataset):
    def __len__(self):
        return n // b
    def __getitem__(self, i):
        return x[i * b : (i + 1) * b], y[i * b : (i + 1) * b]

def rows(count):
    for i in range(count):
        yield x[:b], y[:b]

found["streams"] = [fit(made(), meter(), data=(rows(count),)) for count in (10, 7, 12)]
found["workers"] = [fit(made(), meter(), data=(Data(workers=k),)) for k in (1, 2)]
m = made()
key = next(w for w in m.non_trainable_weights if w.name == "_rng")
key.assign(np.frombuffer(os.urandom(7) + bytes([1]), "uint32"))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    fit(m, meter(), 1)
found["secret"] = [str(one.message) for one in heard]
print("found", json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    for name in ("keras", "jax", "jax_privacy"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    here = os.environ | {"KERAS_BACKEND": "jax"}
    given = {"capture_output": True, "text": True, "timeout": 600, "check": False, "env": here}
    done = subprocess.run([sys.executable, "-c", TRAININGS], **given)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rsplit("found", 1)[1])


def passes(epochs):
    run = {"records": 40, "batch_size": 4, "sampling": "shuffled", "neighbors": "zero_out"}
    return fa.dpsgd.epsilon(noise_multiplier=4.0, delta=1e-4, epochs=epochs, **run)


def test_steps_of_a_private_model_count(found):
    assert found["plain"][1:] == [30, passes(3)]
    assert found["two fits"][1][1:] == [20, passes(2)]
    assert found["right rate"][1:] == [2, fa.dpsgd.epsilon(noise_multiplier=4.0, sample_rate=0.5, steps=2, delta=1e-4)]


def test_a_model_that_was_fitted_before_it_was_private_takes_private_steps(found):
    for name in ("pretrained", "pretrained poisson"):
        one, other = found[name]
        assert one[1] == other[1] == 1
        assert one[0] != [2.0, 2.0]  # the gradient, neither clipped nor noisy
        if name == "pretrained":
            assert one[0] != other[0]
    assert "not that of make_private: these weights are not private" in found["not taken"][0]


def test_other_batches_than_are_counted_are_refused(found):
    assert found["poisson"] == [found["poisson"][0], 0]
    assert "once an epoch, shuffled, and the meter counts sampling = 'poisson'" in found["poisson"][0]
    assert "draws sample_rate = 0.5, and the meter counts 0.01" in found["rate"][0]
    first, second = found["fits"]
    assert first[1] == second[1] == 10
    assert "draws the same batches again, from a seed that was counted already" in second[0]
    assert "draws the same batches again" in found["after"][0]
    assert found["after"][1] == 0
    assert found["new seed"][1] == 10
    assert found["seeded"][1] == 10
    assert "draws the same batches again" in found["seeded again"][0]
    one, two = found["workers"]
    assert one[1:] == [10, passes(1)]
    assert "PyDataset(workers=1)" in two[0]


def test_data_of_unknown_length_are_counted_as_they_are_used(found):
    whole, part, more = found["streams"]
    assert whole[1:] == [10, passes(1)]
    assert part[1:] == [8, passes(1)]  # of the step that did not come
    assert "more than the 10 steps that a pass of the meter has" in more[0]
    assert more[1] == 10


def test_a_key_of_the_noise_that_somebody_may_know_gives_a_warning(found):
    plain, secret = (" ".join(found[name]) for name in ("warnings", "secret"))
    assert "a key of 32 bits" in plain
    assert "a key of 32 bits" not in secret
    for text in (plain, secret):
        assert "hold the key of the noise that comes next, _rng" in text
