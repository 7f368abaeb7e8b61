"""What `fit` of Keras draws and steps by, with stand-ins for the models and data that Keras holds."""

import json
import secrets
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.rounding import rate_of_float32
from fastacct.training import Meter
from fastacct.training.fits import (
    _poisson,
    data_of_fit,
    is_over,
    refuse_batches_again,
    refuse_other_batches,
    retrace,
    steps_of,
    warn_of_key,
)

RUN = {"noise_multiplier": 1.0, "delta": 1e-4}
GIVEN = {"records": 40, "batch_size": 4, "sampling": "shuffled", "neighbors": "zero_out"}
PASS = Meter(**RUN, **GIVEN)
PLAIN = SimpleNamespace()


class ArrayDataAdapter(SimpleNamespace):
    """As Keras' own, by its name."""


class TorchDataLoaderAdapter(SimpleNamespace):
    """As Keras' own, by its name."""


ARRAYS = ArrayDataAdapter(num_batches=10)


def private(**settings):
    given = {"poisson_sampling_in_fit": True, "batch_size": 4, "train_size": 40, "seed": None} | settings
    return SimpleNamespace(_dp_params=SimpleNamespace(**given))


def test_arrays_are_passes_and_nothing_else_is_counted_of_them():
    refuse_other_batches(PASS, PLAIN, ARRAYS)
    refuse_other_batches(PASS, private(poisson_sampling_in_fit=False), ARRAYS)
    for other in (
        {"sample_rate": 0.1},
        {"sample_rate": 1.0},
        {"records": 40, "batch_size": 4},
        {"sampling": "fixed_size", "records": 40, "batch_size": 4},
        {"sampling": "allocation", "records": 40, "batch_size": 4},
    ):
        for word in (False, True):  # the arrays are seen, whatever is said
            with pytest.raises(
                ValueError, match=r"arrays.* once an epoch, shuffled, and the meter counts sampling = '"
            ):
                refuse_other_batches(Meter(**RUN, **other), PLAIN, ARRAYS, draws_batches=word)


def test_one_batch_of_all_records_is_a_sample_at_rate_1():
    whole = ArrayDataAdapter(num_batches=1)
    refuse_other_batches(Meter(**RUN, sample_rate=1.0), PLAIN, whole)
    with pytest.raises(ValueError, match=r"draws sample_rate = 1\.0, and the meter counts 0\.1"):
        refuse_other_batches(Meter(**RUN, sample_rate=0.1), PLAIN, whole)


def test_poisson_samples_of_a_private_model_have_its_rate_or_less():
    for counted in ({"sample_rate": 0.1}, {"sample_rate": 0.11}, {"records": 40, "batch_size": 4}):
        refuse_other_batches(Meter(**RUN, **counted), private(), object())
    for less in ({"sample_rate": 0.0999}, {"records": 40, "batch_size": 3}):
        said = r"draws sample_rate = 0\.1, and the meter counts 0\.0.*what fit\(\) draws: sample_rate=0\.1,"
        with pytest.raises(ValueError, match=said):
            refuse_other_batches(Meter(**RUN, **less), private(), object(), draws_batches=True)
    with pytest.raises(ValueError, match="draws sampling = 'poisson', and the meter counts 'shuffled'"):
        refuse_other_batches(PASS, private(), object())


def test_data_that_are_not_seen_need_a_word_where_steps_are_counted():
    counted = Meter(**RUN, sample_rate=0.1)
    refuse_other_batches(counted, PLAIN, object())  # a generator: as it was said
    refuse_other_batches(PASS, PLAIN, None)
    with pytest.raises(ValueError, match="say draws_batches=True"):
        refuse_other_batches(counted, PLAIN, None)
    refuse_other_batches(counted, PLAIN, None, draws_batches=True)
    refuse_other_batches(counted, PLAIN, TorchDataLoaderAdapter(_dataloader=object()))


class TFDatasetAdapter(SimpleNamespace):
    """As Keras' own, by its name."""


def pipeline(*kinds, batches=10):
    made = None
    for kind in kinds:
        made = type(kind, (SimpleNamespace,), {})(_input_dataset=made)
    return TFDatasetAdapter(_dataset=made, num_batches=batches)


def test_a_pipeline_that_repeats_records_before_batches_is_refused():
    """Of 42 records in batches of 40 one was in all batches of ten epochs: 16.103 where 25.907 is the truth."""
    twice = pipeline("_ShuffleDataset", "_RepeatDataset", "_BatchDataset", "_PrefetchDataset")
    with pytest.raises(ValueError, match=r"write batch\(\)\.repeat\(\)"):
        refuse_other_batches(PASS, PLAIN, twice)
    refuse_other_batches(PASS, PLAIN, twice, draws_batches=True)
    refuse_other_batches(PASS, PLAIN, pipeline("_ShuffleDataset", "_ParallelBatchDataset", "_RepeatDataset"))


def test_batches_of_a_pipeline_are_no_poisson_samples():
    """Of 42 records in batches of 4 one was in three of 22 steps: 2.855 where 7.411 is the truth."""
    plain = ("_TensorSliceDataset", "_ParallelMapDataset", "_ShuffleDataset", "_BatchDataset", "_PrefetchDataset")
    for other in ({"sample_rate": 0.1}, {"sampling": "fixed_size", "records": 40, "batch_size": 4}):
        counted = Meter(**RUN, **other)
        with pytest.raises(ValueError, match=r"a pipeline with batch\(\), once an epoch"):
            refuse_other_batches(counted, PLAIN, pipeline(*plain))
        refuse_other_batches(counted, PLAIN, pipeline(*plain), draws_batches=True)
        refuse_other_batches(counted, PLAIN, pipeline("_RangeDataset", "_MapDataset"))  # may draw anything
        refuse_other_batches(counted, PLAIN, pipeline("_TensorDataset", "_FlatMapDataset", "_BatchDataset"))
    refuse_other_batches(PASS, PLAIN, pipeline(*plain))
    refuse_other_batches(Meter(**RUN, sample_rate=1.0), PLAIN, pipeline(*plain, batches=1))


def test_a_data_set_of_several_workers_is_refused():
    data = SimpleNamespace(py_dataset=SimpleNamespace(workers=2))
    with pytest.raises(ValueError, match=r"PyDataset\(workers=1\).*uses one twice"):
        refuse_other_batches(PASS, PLAIN, data)
    refuse_other_batches(PASS, PLAIN, data, draws_batches=True)
    data.py_dataset.workers = 1
    refuse_other_batches(PASS, PLAIN, data)


def test_a_seed_draws_the_same_batches_again():
    counted, secret = Meter(**RUN, sample_rate=0.1), secrets.randbits(63) + 2**62
    refuse_batches_again(counted, private(seed=secret), None)
    refuse_batches_again(counted, private(seed=secret), None)  # no step was taken
    counted.step()
    with pytest.raises(ValueError, match=r"each fit\(\) with this DPKerasConfig.* draws the same batches again"):
        refuse_batches_again(counted, private(seed=secret), None)
    again = Meter(**RUN, sample_rate=0.1)
    again.load_state_dict(json.loads(json.dumps(counted.state_dict())))
    with pytest.raises(ValueError, match=r"seed=secrets\.randbits"):
        refuse_batches_again(again, private(seed=secret), None)
    after = Meter(**RUN, sample_rate=0.1, after=fa.Gaussian(1.0).poisson(0.1))
    with pytest.raises(ValueError, match="the same batches again"):
        refuse_batches_again(after, private(seed=secret), None)
    for new in (private(), private(seed=secret, poisson_sampling_in_fit=False), PLAIN, private(seed=secret + 1)):
        refuse_batches_again(counted, new, None)
    refuse_batches_again(after, private(seed=secret + 2), None)
    data = SimpleNamespace(py_dataset=SimpleNamespace(_rng=np.random.default_rng(secret)))
    with pytest.raises(ValueError, match="the same batches again"):
        refuse_batches_again(counted, private(), data)
    refuse_batches_again(Meter(**RUN, sample_rate=0.1), private(seed=secret), None)  # a model of its own, counted alone


def test_a_seed_of_the_batches_that_somebody_may_know_gives_a_warning():
    with pytest.warns(UserWarning, match=r"Its seed is 7, and .*seed=secrets\.randbits\(63\)"):
        refuse_batches_again(Meter(**RUN, sample_rate=0.1), private(seed=7), None)
    with pytest.raises(ValueError, match="Its seed is 42, which everybody knows"):
        refuse_batches_again(Meter(**RUN, sample_rate=0.1), private(seed=42), None)


def test_steps_are_those_that_the_model_takes_now():
    def make(force):
        assert force
        own = model.train_step
        model.train_function = lambda: own()

    model = private()
    model.train_function, model.make_train_function = None, make
    model.train_step = lambda: "private"
    model.train_function = lambda: "of a fit before"
    retrace(model)
    made, step = model.train_function, model.train_step
    assert made() == step() == "private"
    retrace(model)
    assert model.train_function is made  # nothing has changed
    model._dp_params = private(batch_size=8)._dp_params
    retrace(model)
    assert model.train_function is not made
    assert model.train_step is step


def weights(key):
    counted = SimpleNamespace(name="_optimizer_steps", numpy=lambda: np.array([3], np.uint32))
    return [SimpleNamespace(name="_rng", numpy=lambda: np.array(key, np.uint32)), counted]


def test_a_key_that_is_a_weight_gives_warnings():
    model = private()
    for key, seed, of in (
        ((0, 5), None, "a key of 32 bits"),
        ((3, 7), 2**32 + 7, "the seed 4294967303"),
        ((3, 5), 7, ""),
    ):
        model.non_trainable_weights, model._dp_params.seed = weights(key), seed
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            warn_of_key(model)
        texts = [str(one.message) for one in heard]
        assert "hold the key of the noise that comes next" in texts[-1]
        assert len(texts) == 1 + bool(of)
        assert not of or f"the noise is drawn from {of}: " in texts[0]
    assert steps_of(model) == 3


def test_without_a_fit_nothing_is_seen():
    assert data_of_fit() is None
    held = {"__name__": "keras.src.backend.jax.trainer", "data_of_fit": data_of_fit, "SimpleNamespace": SimpleNamespace}
    exec("def fit(x):\n    epoch_iterator = SimpleNamespace(data_adapter=x)\n    return data_of_fit()", held)
    assert held["fit"](7) == 7


def test_a_loader_at_another_rate_than_records_and_batches_is_refused():
    counted = Meter(**RUN, records=40, batch_size=4)
    counted.refuse_other(_poisson(0.1))
    counted.refuse_other(_poisson(0.09))  # more is counted
    with pytest.raises(ValueError, match=r"draws sample_rate = 0\.5, and the meter counts 0\.1"):
        counted.refuse_other(_poisson(0.5))
    with pytest.raises(ValueError, match="draws sample_rate"):  # the loader of Opacus, whose rate is rounded up
        Meter(**RUN, sample_rate=0.001).refuse_other(_poisson(rate_of_float32(0.001)))


@pytest.mark.parametrize("is_jax", [False, True])
def test_a_step_that_is_told_and_does_not_come_is_none_and_one_beyond_a_pass_is_refused(is_jax):
    """TensorFlow and JAX find the end of data of unknown length in the step after the last one."""
    meter, taken = Meter(**RUN, **GIVEN), []
    model = SimpleNamespace(train_function=lambda *given: taken.append(given))
    step, state = model.train_function, ("state",) * is_jax
    fit = (
        "def told(length):\n"
        "    epoch_iterator = Namespace(data_adapter=Namespace(num_batches=length))\n"
        "    return is_over(meter, model)\n"
    )
    names = {"__name__": "keras.src.trainer", "Namespace": SimpleNamespace, "is_over": is_over}
    names |= {"meter": meter, "model": model}
    exec(fit, names)
    for _ in range(2):
        meter.epoch()
        for _ in range(10):
            assert not names["told"](None)
            assert not names["told"](11)
            meter.step()
        for left, error in (([], StopIteration), ([1, 2], ValueError)):
            assert names["told"](None)
            with pytest.raises(error) as raised:
                model.train_function(*state, iter(left))
            assert not left or "more than the 10 steps that a pass of the meter has" in str(raised.value)
            assert model.train_function is step
        for length in (11, 20):
            with pytest.raises(ValueError, match="more than the 10 steps that a pass of the meter has"):
                names["told"](length)
    with pytest.raises(ValueError, match="more than the 10 steps"):
        is_over(meter, model)
    assert names["told"](None)  # and the fit is broken off
    meter.epoch()
    meter.step()
    assert not taken
    model.train_function(*state, [5])
    assert taken == [(*state, [5])]
    assert model.train_function is step
    assert (meter.steps, meter.epsilon) == (21, fa.dpsgd.epsilon(**RUN, **GIVEN, epochs=3))
    meter = Meter(**RUN, sample_rate=0.1)  # has no passes
    meter.epoch()
    assert not is_over(meter, model)
