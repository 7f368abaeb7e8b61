"""Seeds of samples: the same again is refused, and one that somebody may know is warned of."""

import gc
import itertools
import json
import secrets
import sys
import weakref
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fastacct as fa
from fastacct.training import Meter

RUN = {"noise_multiplier": 1.0, "delta": 1e-4}
AGAIN = r"batch_iterator\(n, rng\) draws the same batches again.*rng=numpy\.random\.default_rng\(\)"
OF_JAX = """
class CyclicPoissonSampling:
    cycle_length, truncated_batch_size, iterations = 1, None, 100

    class partition_type:
        name = "EQUAL_SPLIT"

    def __init__(self, sampling_prob):
        self.sampling_prob = sampling_prob

    def batch_iterator(self, num_examples, rng=None):
        yield from (rng.choice(num_examples, size=2) for _ in range(10))

class FixedBatchSampling:
    replace, batch_size, iterations = False, 50, 100

    def batch_iterator(self, num_examples, rng=None):
        yield from (rng.choice(num_examples, size=50) for _ in range(10))

def batch_iterator(n, rng=None):
    rng = numpy.random.default_rng(rng)
    for _ in range(10):
        yield rng.choice(n, size=2)
"""
names = {"__name__": "jax_privacy.batch_selection", "numpy": np}
exec(OF_JAX, names)
batch_iterator = names["batch_iterator"]


def fresh():
    return secrets.randbits(100)


def meter(**given):
    return Meter(**RUN, sample_rate=0.1, **given)


def few(mine, rng):
    return [list(one) for one in itertools.islice(mine.batches(batch_iterator(100, rng)), 5)]


@pytest.mark.parametrize("kind", [int, np.random.default_rng, np.random.SeedSequence])
def test_a_loop_that_goes_on_with_its_old_seed_is_refused(kind):
    seed, mine = fresh(), meter()
    few(mine, kind(seed))
    again = meter()
    again.load_state_dict(json.loads(json.dumps(mine.state_dict())))
    for counted in (mine, again):
        for other in (int, np.random.default_rng):
            with pytest.raises(ValueError, match=AGAIN):
                few(counted, other(seed))
        assert counted.epsilon == fa.dpsgd.epsilon(**RUN, sample_rate=0.1, steps=5)
    few(again, kind(seed + 1))
    few(again, None)
    assert again.steps == 15


def test_a_generator_that_goes_on_draws_other_batches():
    mine, rng = meter(), np.random.default_rng()
    first, second = few(mine, rng), few(mine, rng)
    assert first != second
    assert mine.steps == 10


def test_an_old_seed_from_which_something_else_was_drawn_before_is_refused():
    """Its state is another one, and most batches are the same."""
    seed, mine = fresh(), meter()
    rng = np.random.default_rng(seed)
    few(mine, rng)
    again = np.random.default_rng(seed)
    again.random(3)
    with pytest.raises(ValueError, match=AGAIN):
        few(mine, again)
    few(mine, rng)  # goes on
    few(mine, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))))  # independent
    assert mine.steps == 15


def test_an_old_seed_of_pytorch_from_which_something_else_was_drawn_before_is_refused():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    data_loader = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed")
    data, secret = torch.utils.data.TensorDataset(torch.zeros(40, 1)), torch.Generator()

    def made(generator):
        plain = torch.utils.data.DataLoader(data, batch_size=4, generator=generator)
        return data_loader.DPDataLoader.from_data_loader(plain, generator=generator)

    seed, first = secret.seed(), made(secret)
    mine = Meter(first, **RUN)
    assert len(list(mine.batches(first)) + list(mine.batches(first))) == 20
    for shift in (0, 1):
        other = made(torch.Generator().manual_seed(seed + shift))
        next(iter(other))
        if shift:
            next(mine.batches(other))
        else:
            with pytest.raises(ValueError, match="the loader's generator draws the same batches again"):
                next(mine.batches(other))
    next(mine.batches(first))
    assert mine.steps == 22


def test_an_iterator_that_was_begun_before_is_refused():
    seed, mine = fresh(), meter()
    few(mine, seed)
    again = batch_iterator(100, seed)
    next(again)
    for counted in (mine, meter()):
        with pytest.raises(ValueError, match=r"begun before the meter saw it.*before its first batch is taken"):
            next(counted.batches(again))
    refused = batch_iterator(100, seed)
    with pytest.raises(ValueError, match=AGAIN):
        next(mine.batches(refused))
    next(refused)
    with pytest.raises(ValueError, match="begun before"):
        next(mine.batches(refused))
    assert mine.steps == 5


def test_an_iterator_is_gone_through_in_parts():
    seed, mine, other = fresh(), meter(), meter(after=fa.Gaussian(1.0).poisson(0.1) * 6)
    whole = batch_iterator(100, seed)
    parts = [list(one) for one in itertools.islice(mine.batches(whole), 3)]
    parts += [list(one) for one in itertools.islice(mine.batches(whole), 3)]
    parts += [list(one) for one in other.batches(whole)]  # its noise may be another one
    assert parts == [list(one) for one in batch_iterator(100, seed)]
    assert (mine.steps, other.steps) == (6, 4)
    for counted in (mine, other):
        assert len(counted.state_dict()["seeds"]) == 2
        with pytest.raises(ValueError, match=AGAIN):
            few(counted, seed)
    still = weakref.ref(whole)
    del whole
    gc.collect()
    assert still() is None


def test_an_iterator_of_a_loader_is_refused_where_its_samples_have_a_seed():
    sampler = type("UniformWithReplacementSampler", (), {"__module__": "opacus.utils.uniform_sampler"})()
    sampler.generator = SimpleNamespace(get_state=lambda: np.zeros(2).view(Bytes), initial_seed=int)
    batches = type("Iterator", (), {"__iter__": lambda self: self, "__next__": lambda self: [0], "_sampler_iter": None})
    mine, begun = meter(), batches()
    next(mine.batches(begun))
    begun._index_sampler = sampler
    with pytest.raises(ValueError, match="give batches\\(\\) the loader itself"):
        next(mine.batches(begun))
    assert mine.steps == 1


class Bytes(np.ndarray):
    def numpy(self):
        return self


def test_another_meter_that_is_after_the_first_sees_its_seeds():
    seed = fresh()
    few(meter(), seed)
    few(meter(), seed)  # is counted alone
    with pytest.raises(ValueError, match=AGAIN):
        few(meter(after=fa.Gaussian(1.0).poisson(0.1) * 5), seed)


def test_the_same_groups_may_come_again():
    run = {"records": 10, "batch_size": 1, "sampling": "allocation", "bins": "persistent"}
    mine, seed = Meter(**RUN, **run), fresh()
    few(mine, seed)
    few(mine, seed)
    assert mine.epsilon == fa.dpsgd.epsilon(**RUN, **run, epochs=2)


def test_seeds_that_somebody_may_know():
    for known in (7, np.random.default_rng(7)):
        with pytest.warns(UserWarning, match=r"Its seed is 7, and who .*Leave it to the system, rng=numpy"):
            few(meter(), known)
    for public in (0, 42):
        mine = meter()
        with pytest.raises(ValueError, match=f"Its seed is {public}, which everybody knows"):
            few(mine, public)
        assert mine.steps == 0


def test_a_meter_that_goes_back_keeps_its_marks():
    mine, seed = meter(), fresh()
    few(mine, fresh())
    state = mine.state_dict()
    few(mine, seed)
    mine.load_state_dict(state)
    mine.step(5)  # somebody has seen them
    with pytest.raises(ValueError, match=AGAIN):
        few(mine, seed)


def test_another_sampler_than_is_counted_is_refused(monkeypatch):
    home = ModuleType(names["__name__"])
    vars(home).update(names)
    monkeypatch.setitem(sys.modules, names["__name__"], home)
    own, other = names["CyclicPoissonSampling"](0.1), names["CyclicPoissonSampling"](0.5)
    for mine in (Meter(own, **RUN), meter()):
        assert len(list(mine.batches(own.batch_iterator(100, np.random.default_rng())))) == 10
        with pytest.raises(ValueError, match=r"draws sample_rate = 0\.5, and the meter counts 0\.1"):
            next(mine.batches(other.batch_iterator(100, np.random.default_rng())))
        assert mine.steps == 10
    fixed = names["FixedBatchSampling"]()
    keywords = {"sampling": "fixed_size", "batch_size": 50}
    for mine in (Meter(fixed, records=5000, **RUN), Meter(records=5000, **RUN, **keywords)):
        next(mine.batches(fixed.batch_iterator(5000, np.random.default_rng())))
        with pytest.raises(ValueError, match="draws from 500 records, and the meter counts records = 5000"):
            next(mine.batches(fixed.batch_iterator(500, np.random.default_rng())))


def test_marks_that_are_damaged_are_refused():
    mine = meter()
    few(mine, fresh())
    state = mine.state_dict()
    assert len(state["seeds"]) == 2
    for seeds in ("a", [1], {"a": 1}, None):
        with pytest.raises(ValueError, match="seeds are no list of words"):
            meter().load_state_dict(state | {"seeds": seeds})
