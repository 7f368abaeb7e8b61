"""Passes over a loader that is not Poisson: what steps are counted as, against all places that a record may have."""

import itertools
import random
import sys
from types import SimpleNamespace

import pytest

from fastacct.compat.opacus_draws import Draws, Used, batches_of, warn_of_seed
from fastacct.compat.opacus_loaders import Passes, passes_in, take_back


def adding(batches):
    """An optimizer whose next step is on so many batches."""
    return SimpleNamespace(accumulated_iterations=batches)


def torch_class(name):
    return type(name, (list,), {"__module__": "torch.utils.data.sampler"})


class Loader:
    def __init__(self, length):
        batches = torch_class("BatchSampler")([None] * length)
        batches.sampler = torch_class("SequentialSampler")(range(length))
        self.batch_sampler = batches

    def begin(self):
        return iter(self.batch_sampler.sampler)


def run(rng, *, most=3, is_whole=False, one_noise=False):
    """A random loop: the passes, each a list of places, the steps as (noise, [(pass, batch)]), and the history."""
    length = rng.randint(1, 4)
    loader, history, steps, pending = Loader(length), [], [], []
    passes = Passes({"data_loader": loader})
    for number in range(rng.randint(1, 4)):
        drawn = loader.begin()
        for batch in range(length if is_whole else rng.randint(0, length)):
            next(drawn)
            pending.append((number, batch))
            if not is_whole and rng.random() < 0.05:
                pending.clear()
            if len(pending) >= rng.randint(1, most):
                noise = 1.0 if one_noise else rng.choice([1.0, 2.0, 3.0])
                step = passes.step(noise, adding(len(pending)))
                if step.taken:
                    take_back(history, step.noise, step.taken)
                if step.releases:
                    history.append((noise, 1.0, step.releases))
                steps.append((noise, pending))
                pending = []
    return number + 1, length, steps, history


def worst(count, length, steps):
    """Largest sum of squares of what one record contributes over the noise, wherever it is in each pass."""
    return max(
        sum((sum(place[i] == batch for i, batch in pending) / noise) ** 2 for noise, pending in steps)
        for place in itertools.product(range(length), repeat=count)
    )


def counted(history):
    return sum(n / noise**2 for noise, _, n in history)


@pytest.mark.parametrize("most", [1, 2, 3, 6])
def test_no_record_contributes_more_than_is_counted(most):
    rng = random.Random(most)
    for _ in range(300):
        count, length, steps, history = run(rng, most=most)
        assert counted(history) >= worst(count, length, steps) * (1 - 1e-12), (length, steps)


@pytest.mark.parametrize("is_noise_one", [True, False])
def test_passes_that_are_open_beside_each_other_are_all_counted(is_noise_one):
    """As in `for a, b in zip(loader, loader)`: a record may be in a batch of either."""
    rng = random.Random(7)
    for _ in range(300):
        length, count = rng.randint(1, 4), rng.randint(2, 3)
        loader, history, steps = Loader(length), [], []
        passes = Passes({"data_loader": loader})
        left = [loader.begin() for _ in range(count)]
        for _ in range(rng.randint(0, count * length)):
            number = rng.randrange(count)
            if (batch := next(left[number], None)) is None:
                continue
            noise = 1.0 if is_noise_one else rng.choice([1.0, 2.0, 3.0])
            step = passes.step(noise, adding(1))
            if step.taken:
                take_back(history, step.noise, step.taken)
            if step.releases:
                history.append((noise, 1.0, step.releases))
            steps.append((noise, [(number, batch)]))
        assert counted(history) >= worst(count, length, steps) * (1 - 1e-12), (length, steps)


def test_whole_passes_of_single_batches_count_as_they_are():
    rng = random.Random(5)
    for _ in range(100):
        count, length, steps, history = run(rng, most=1, is_whole=True, one_noise=True)
        assert counted(history) == count == worst(count, length, steps)


def test_steps_on_another_loader_are_refused_and_beside_passes_that_nobody_used_count_each():
    loader = Loader(10)
    passes = Passes({"data_loader": loader})
    for _ in range(2):
        with pytest.raises(ValueError, match="drew no batch for this step"):
            passes.step(1.0, adding(1))
    assert len(list(loader.begin())) == 10  # looked at
    assert sum(passes.step(1.0, adding(1)).releases for _ in range(10)) == 1 + 8  # two may have waited


def test_samples_of_an_engine_that_are_drawn_from_a_known_seed_are_warned_of(monkeypatch):
    seeded = {seed: SimpleNamespace(initial_seed=lambda seed=seed: seed) for seed in (42, 7, 67280421310721, 2**62 + 7)}
    monkeypatch.setitem(sys.modules, "torch", seeded[42])
    for generator, seed in ((None, 42), (seeded[7], 7), (seeded[67280421310721], 67280421310721)):
        with pytest.warns(UserWarning, match=f"the batches are drawn from the seed {seed}: .*generator=secret"):
            warn_of_seed(SimpleNamespace(generator=generator))
    warn_of_seed(SimpleNamespace(generator=seeded[2**62 + 7]))  # or pytest makes an error of it


def test_a_loader_is_counted_by_two_accountants_at_once():
    loader = Loader(2)
    both = [Passes({"data_loader": loader}) for _ in range(2)]
    for _ in range(3):
        list(loader.begin())
        assert [one.step(1.0, adding(1)).releases for one in both for _ in range(2)] == [1, 0, 1, 0]


@pytest.mark.parametrize("times", [1, 2, 3, 5])
def test_a_batch_that_is_taken_several_times_counts_as_often(times):
    rng = random.Random(times)
    for _ in range(50):
        length = rng.randint(1, 6)
        loader, releases, steps = Loader(length), 0, []
        passes = Passes({"data_loader": loader})
        for number in range(3):
            for batch in loader.begin():
                for _ in range(rng.randint(1, times)):
                    releases += passes.step(1.0, adding(1)).releases
                    steps.append((1.0, [(number, batch)]))
                    assert releases >= worst(number + 1, length, steps)
        assert times > 1 or releases == 3


@pytest.mark.parametrize(
    ("batches", "rate", "passes"),
    [(60, 1 / 20, 3), (61, 1 / 20, 4), (59, 1 / 20, 3), (12, 0.3, 4), (33, 0.3, 11), (5, 0.7, 5), (7, 1.0, 7)]
    + [(3 * n, 1 / n, 3) for n in (49, 98, 103, 107, 10**6, 10**9)]
    + [(5, 0.0, 1), (0, 0.5, 0), (5, 5e-324, 1)],
)
def test_passes_in_so_many_batches(batches, rate, passes):
    assert passes_in(batches, rate) == passes


@pytest.mark.parametrize("parts", [False, True])
def test_batches_that_workers_prepare_are_not_used_by_steps_before(parts):
    """Five steps on one batch were taken for five samples: 2.2 where 7.929 is the truth."""
    draws, one = Draws(), adding(1)
    used, batches = Used(lambda: [draws], SimpleNamespace(num_workers=2, prefetch_factor=2)), draws.through(range(20))
    for _ in range(4):  # what two workers prepare
        next(batches)
    if parts:
        one._step_skip_queue = [False]  # of a manager of memory, whose workers prepare parts of batches
    for k in range(20 - parts):
        next(batches, None)
        assert used.take(one) == (1, 0)
        if k == 7:
            assert used.take(one) == (1, 0 if parts else 1)
    assert used.take(one) == (1, 1)


def test_a_batch_that_two_optimizers_take_is_a_sample_of_one():
    """Two models on each batch of one loader: 5.573 where 8.546 is the truth."""
    draws, used = Draws(), [0]
    first, second = (Used(lambda: [draws], SimpleNamespace(), used) for _ in range(2))
    for k, _ in enumerate(draws.through(range(10))):
        assert first.take(adding(1)) == (1, 0)
        assert second.take(adding(1)) == (1, 1)
        if k == 8:  # one of a loader of its own
            next(draws.through(range(10)))
            assert second.take(adding(1)) == (1, 0)


def test_an_optimizer_whose_batches_are_not_known_or_that_tells_more_is_refused():
    one = adding(3)
    assert batches_of(one) == 3
    one.adds_by_hand = True
    with pytest.raises(ValueError, match=r"signal_skip_step adds batches up.*step\(\) after the last"):
        batches_of(one)
    adaptive = adding(1)
    adaptive.unclipped_num_std = 2.0
    with pytest.raises(ValueError, match=r'releases the count of the gradients.*clipping="flat"'):
        batches_of(adaptive)


def test_a_step_of_ghost_clipping_is_clipped_by_its_criterion():
    weight = SimpleNamespace()
    ghost = type("DPOptimizerFastGradientClipping", (SimpleNamespace,), {})(accumulated_iterations=1, params=[weight])
    for _ in range(2):
        with pytest.raises(ValueError, match="not made by the criterion that make_private returned"):
            batches_of(ghost)
        weight.is_clipped = True
        assert batches_of(ghost) == 1
