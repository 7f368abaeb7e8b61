"""What is said of data loaders: every call runs, and real loaders draw as is claimed."""

import itertools
from collections import Counter

import numpy as np
import pytest

import fastacct as fa
from fastacct.__main__ import main
from fastacct.loaders import loaders

ASKED = [
    ("torch.utils.data.DataLoader", {"shuffle": True}, "shuffled"),
    ("torch.utils.data.DataLoader", {"shuffle": True, "distributed": True, "padded": False}, "shuffled"),
    ("torch.utils.data.DataLoader", {"shuffle": True, "distributed": True}, None),
    ("torch.utils.data.DataLoader", {"distributed": True}, None),
    ("torch.utils.data.DataLoader", {}, None),
    ("torch.utils.data.DataLoader", {"replacement": True}, "with_replacement"),
    ("opacus", {}, "poisson"),
    ("opacus", {"poisson_sampling": False}, "shuffled"),
    ("tf.data", {"shuffle": True}, None),
    ("tf.data", {"shuffle": True, "full_buffer": True}, "shuffled"),
    ("tf.data", {"shuffle": True, "full_buffer": True, "reshuffle_each_iteration": False}, "shuffled"),
    ("grain", {"shuffle": True, "repeat_before_batch": False}, "shuffled"),
    ("jax_privacy.CyclicPoissonSampling", {}, "poisson"),
    ("jax_privacy.CyclicPoissonSampling", {"cycle_length": 4}, "cyclic"),
    ("jax_privacy.CyclicPoissonSampling", {"cycle_length": 4, "equal_split": False}, "cyclic"),
    ("jax_privacy.CyclicPoissonSampling", {"truncated": True}, "truncated"),
    ("jax_privacy.BallsInBinsSampling", {}, "allocation"),
    ("jax_privacy.RandomAllocationSampling", {}, "allocation"),
    ("jax_privacy.FixedBatchSampling", {}, "fixed_size"),
    ("jax_privacy.FixedBatchSampling", {"replace": True}, "with_replacement"),
]
NAMES = {"fa": fa, "s": 2.0, "n": 1000, "b": 10, "e": 2, "d": 1e-5, "m": 14, "t": 20, "k": 2, "rounds": 3}
NAMES |= {"loader": range(100), "sampling_prob": 0.01, "iterations": 50, "cycle_length": 4}


@pytest.mark.parametrize(("loader", "settings", "sampling"), ASKED, ids=str)
def test_calls_run_under_each_relation_that_is_named(loader, settings, sampling):
    guide = fa.loader_guide(loader, **settings)
    assert guide.sampling == sampling
    assert guide.call in str(guide)
    found = eval(guide.call, NAMES)
    plain = guide.call.split(", neighbors")[0].rstrip(")")
    open_ = plain.count("(") - plain.count(")") - 1
    for i, relation in enumerate(guide.neighbors):
        value = eval(f'{plain}{")" * open_}, neighbors="{relation}")', NAMES)
        assert 0.0 < value < 100.0
        assert i > 0 or value == found
    if sampling in ("allocation", "shuffled"):
        for relation in {"add_remove", "replace_one"} - {*guide.neighbors}:
            with pytest.raises(ValueError, match="supported"):
                eval(f'{plain}{")" * open_}, neighbors="{relation}")', NAMES)


def test_a_record_that_comes_twice_counts_twice():
    guide = fa.loader_guide("torch.utils.data.DataLoader", shuffle=True, distributed=True)
    assert eval(guide.call, NAMES) == fa.epsilon(fa.Gaussian(1.0) * 2, delta=1e-5, neighbors="zero_out")


def test_what_has_no_number_says_so():
    for guide in (
        fa.loader_guide("torch.utils.data.DataLoader", weighted=True),
        fa.loader_guide("jax_privacy.CyclicPoissonSampling", truncated=True, cycle_length=2),
        fa.loader_guide("grain", shuffle=True),
        fa.loader_guide("tf.data", shuffle=True, full_buffer=True, repeat_before_batch=True),
        fa.loader_guide("jax_privacy.BMinSepSampling"),
    ):
        assert guide.sampling is None
        assert guide.neighbors == ()
        assert "no number is proved" in guide.call


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.loader_guide("torch"), "loader = 'torch' is not one of"),
        (lambda: fa.loader_guide("opacus", shuffle=True), "known: poisson_sampling"),
        (lambda: fa.loader_guide("grain", shuffle=1), "shuffle must be True or False, not 1"),
        (lambda: fa.loader_guide("jax_privacy.CyclicPoissonSampling", cycle_length=0), "a whole number from 1"),
        (lambda: fa.loader_guide("torch.utils.data.DataLoader", shuffle=True, weighted=True), "has one sampler"),
    ],
)
def test_mistakes_are_named(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()


def test_the_command_says_the_same(capsys):
    assert main(["check-loader"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in loaders()["loaders"])
    assert main(["check-loader", "opacus", "--setting", "poisson_sampling=False"]) == 0
    assert "do not hold" in capsys.readouterr().out
    assert main(["check-loader", "opacus", "--setting", "poisson_sampling"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


DRAWS, RECORDS, BATCH = 4000, 6, 2


def patterns(epoch):
    """How often record 0 takes part in each step of an epoch, and record 1, as they occur."""
    return Counter(tuple((batch.count(0), batch.count(1)) for batch in epoch()) for _ in range(DRAWS))


def agrees(seen, expected):
    """Whether frequencies are within five standard deviations; patterns that are not expected do not occur."""
    assert abs(sum(expected.values()) - 1.0) < 1e-9
    assert set(seen) <= set(expected)
    for pattern, p in expected.items():
        assert abs(seen[pattern] / DRAWS - p) <= 5.0 * np.sqrt(p * (1 - p) / DRAWS) + 1e-3, pattern


def shuffled_patterns():
    """Two records in the three batches of a random order."""
    found = Counter()
    for first, second in itertools.permutations(range(RECORDS), 2):
        pattern = tuple((int(first // BATCH == i), int(second // BATCH == i)) for i in range(RECORDS // BATCH))
        found[pattern] += 1.0 / (RECORDS * (RECORDS - 1))
    return found


def independent(one):
    """Of two records in three steps, from the probabilities of what happens to both in one."""
    return {p: float(np.prod([one[x] for x in p])) for p in itertools.product(one, repeat=RECORDS // BATCH)}


def test_pytorch_draws_one_random_order():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is an extra")
    loader = data.DataLoader(list(range(RECORDS)), batch_size=BATCH, shuffle=True)
    agrees(patterns(lambda: [batch.tolist() for batch in loader]), shuffled_patterns())


def test_pytorch_draws_with_replacement():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is an extra")
    sampler = data.RandomSampler(range(RECORDS), replacement=True, num_samples=RECORDS)
    loader = data.DataLoader(list(range(RECORDS)), batch_size=BATCH, sampler=sampler)
    one = Counter()
    for pair in itertools.product(range(RECORDS), repeat=BATCH):
        one[pair.count(0), pair.count(1)] += RECORDS**-BATCH
    agrees(patterns(lambda: [batch.tolist() for batch in loader]), independent(one))


def test_opacus_draws_each_record_by_itself():
    samplers = pytest.importorskip("opacus.utils.uniform_sampler", reason="Opacus is an extra")
    q = BATCH / RECORDS
    sampler = samplers.UniformWithReplacementSampler(num_samples=RECORDS, sample_rate=q, steps=RECORDS // BATCH)
    one = {(a, b): (q if a else 1 - q) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)}
    agrees(patterns(lambda: [list(batch) for batch in sampler]), independent(one))


def test_the_comparison_sees_another_sampler():
    rng = np.random.default_rng(0)

    def bins():
        place = rng.integers(RECORDS // BATCH, size=RECORDS)
        return [np.flatnonzero(place == i).tolist() for i in range(RECORDS // BATCH)]

    with pytest.raises(AssertionError):
        agrees(patterns(bins), shuffled_patterns())
