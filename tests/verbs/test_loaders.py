"""What is said of data loaders: every call runs, and real loaders draw as is claimed."""

import itertools
import math
from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest

import fastacct as fa
from fastacct.__main__ import main
from fastacct.loaders import loaders
from fastacct.loaders.objects import accumulated
from fastacct.loaders.seen import Seen

TORCH = "torch.utils.data.DataLoader"
ASKED = [
    ("transformers.Trainer", {}, "shuffled"),
    ("transformers.Trainer", {"distributed": True}, None),
    ("transformers.Trainer", {"distributed": True, "drop_last": True}, "shuffled"),
    ("accelerate", {"shuffle": True}, "shuffled"),
    ("accelerate", {"shuffle": True, "distributed": True, "even_batches": False}, "shuffled"),
    ("accelerate", {"distributed": True, "shuffle": True}, None),
    ("accelerate", {"distributed": True, "even_batches": False}, None),
    ("lightning", {"shuffle": True}, "shuffled"),
    ("lightning", {"shuffle": True, "distributed": True}, None),
    ("torch.utils.data.DataLoader", {"shuffle": True}, "shuffled"),
    ("torch.utils.data.DataLoader", {"shuffle": True, "distributed": True, "sampler_drop_last": True}, "shuffled"),
    ("torch.utils.data.DataLoader", {"shuffle": True, "distributed": True}, None),
    ("torch.utils.data.DataLoader", {"distributed": True}, None),
    ("torch.utils.data.DataLoader", {}, None),
    ("torch.utils.data.DataLoader", {"replacement": True}, "with_replacement"),
    ("opacus", {}, "poisson"),
    ("opacus", {"poisson_sampling": False}, "shuffled"),
    ("tf.data", {"shuffle": True}, None),
    ("tf.data", {"shuffle": True, "buffer_size": 5, "records": 5}, "shuffled"),
    ("tf.data", {"shuffle": True, "buffer_size": 5, "records": 5, "reshuffle_each_iteration": False}, "shuffled"),
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
NAMES = {"fa": fa, "s": 2.0, "n": 1000, "b": 10, "e": 2, "d": 1e-5, "m": 14, "rounds": 3}
NAMES |= {
    "loader": range(100),
    "private_loader": range(100),
    "sampling_prob": 0.01,
    "iterations": 50,
    "total_participations": 2,
    "cycle_length": 4,
}


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
    """The loader's own drop_last is not the sampler's: the guide says which one to give."""
    guide = fa.loader_guide("torch.utils.data.DataLoader", shuffle=True, distributed=True, drop_last=True)
    assert "ask with sampler_drop_last=True" in str(guide)
    assert eval(guide.call, NAMES) == fa.epsilon(fa.Gaussian(1.0) * 2, delta=1e-5, neighbors="zero_out")


def test_a_buffer_shuffles_where_it_is_known_to_hold_all_records():
    for size, records, is_whole in ((10, 10, True), (11, 10, True), (9, 10, False), (10**6, None, False)):
        given = {"buffer_size": size} | ({"records": records} if records else {})
        assert (fa.loader_guide("tf.data", shuffle=True, **given).sampling == "shuffled") == is_whole, given


def test_what_has_no_number_says_so():
    for guide in (
        fa.loader_guide("torch.utils.data.DataLoader", weighted=True),
        fa.loader_guide("jax_privacy.CyclicPoissonSampling", truncated=True, cycle_length=2),
        fa.loader_guide("grain", shuffle=True),
        fa.loader_guide("tf.data", shuffle=True, buffer_size=1000, records=1000, repeat_before_batch=True),
        fa.loader_guide("jax_privacy.BMinSepSampling"),
        fa.loader_guide("transformers.Trainer", group_by_length=True),
    ):
        assert guide.sampling is None
        assert guide.neighbors == ()
        assert "no number is proved" in guide.call


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.loader_guide("torchy"), "loader = 'torchy' is not one of"),
        (lambda: fa.loader_guide("Trainer"), "one of several: 'transformers.Trainer' or 'lightning'"),
        (lambda: fa.loader_guide("jax_privacy"), "one of several"),
        (lambda: fa.loader_guide("opacus", workers=2), "known: poisson_sampling, shuffle, drop_last"),
        (lambda: fa.loader_guide("torch.utils.data.DataLoader", padded=False), "known: .*, sampler_drop_last"),
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


def every_answer():
    """Each loader with all settings that give an answer."""
    for loader, about in loaders()["loaders"].items():
        words = {name: (False, True) if isinstance(x, bool) else (1, 4) for name, x in about["settings"].items()}
        for values in itertools.product(*words.values()):
            given = dict(zip(words, values, strict=True))
            if not any(sum(given[name] for name in names) > 1 for names in about.get("one_of", ())):
                yield loader, given


def test_every_answer_says_who_is_left_out_or_repeated_and_which_ends_hold():
    asked = list(every_answer())
    assert len(asked) > 60
    for loader, given in asked:
        guide = fa.loader_guide(loader, **given)
        least, most = guide.uses
        assert 0 <= least <= most, (loader, given)
        assert most > 0, (loader, given)
        assert isinstance(guide.lower_holds, bool), (loader, given)
        if guide.neighbors:
            ends = "both ends hold" if guide.lower_holds else "only the upper end is proved"
            assert f"of an interval {ends}" in str(guide) or f"holds, {ends}" in str(guide), (loader, given)
        else:
            assert not guide.lower_holds, (loader, given)
        if guide.sampling == "shuffled" and guide.uses != (1, 1):  # it is computed for records that are all used
            assert not guide.lower_holds, (loader, given)


def test_a_record_that_is_left_out_at_random_makes_the_lower_end_false():
    """Of five records two workers with batches of 2 take four: at most 4/5 of the delta of one Gaussian."""
    one = fa.delta(fa.Gaussian(0.2), epsilon=1.0, neighbors="zero_out")
    assert abs(0.8 * one - 0.783881) < 1e-6
    guide = fa.loader_guide("torch.utils.data.DataLoader", shuffle=True, distributed=True, sampler_drop_last=True)
    lower, upper, _ = bounds(guide, 0.2)
    assert lower > 0.979 > 0.8 * one  # so that it must not be said to hold
    assert upper >= 0.8 * one
    assert not guide.lower_holds


HELD = 5


def cut(order, size, drop=False):
    """Consecutive batches."""
    found = [order[i : i + size] for i in range(0, len(order), size)]
    return [batch for batch in found if len(batch) == size or not drop]


def orders():
    """All orders of the records, each as likely."""
    return list(itertools.permutations(range(HELD)))


def worker_batches(order, size, own_drop, drop=False, workers=2):
    """DistributedSampler: an order made a multiple of the workers, who take every other one; their batches together."""
    over = len(order) % workers
    order = order[: len(order) - over] if own_drop else order + order[: (workers - over) % workers]
    parts = [cut(order[i::workers], size // workers, drop) for i in range(workers)]
    return [sum(batches, ()) for batches in zip(*parts, strict=True)]


def even_batches(order, size, workers=2):
    """Accelerate: the first records of the order fill its last batches up."""
    whole = size * workers
    return cut(order + order[: -len(order) % whole], whole)


def small_buffer(size):
    """All orders that a buffer of three gives, with how often they occur: one of it at random, then the next record."""

    def draw(buffer, left):
        if not buffer:
            yield ()
        for i, one in enumerate(buffer):
            rest = buffer[:i] + buffer[i + 1 :] + left[:1]
            for order in draw(rest, left[1:]):
                yield (one, *order)

    return [cut(order, size) for order in draw((0, 1, 2), (3, 4))]


def groups(size, is_equal):
    """CyclicPoissonSampling with rate 1 and two groups: equal ones leave a record out."""
    if is_equal:
        return [[order[:2], order[3:]] for order in orders()]
    places = itertools.product(range(2), repeat=HELD)
    return [[[i for i in range(HELD) if place[i] == j] for j in range(2)] for place in places]


def subsets(steps):
    """Poisson batches with probability 1/2."""
    one = list(itertools.chain.from_iterable(itertools.combinations(range(HELD), k) for k in range(HELD + 1)))
    return list(itertools.product(one, repeat=steps))


def drawn(drop):
    """Draws with replacement; the other records are not told apart."""
    return [
        cut([None if one else 0 for one in draws], 4, drop) for draws in itertools.product((0, 1, 1, 1, 1), repeat=5)
    ]


EPOCHS = [
    (TORCH, {"shuffle": True}, [cut(order, 4) for order in orders()], {}),
    (TORCH, {"shuffle": True, "drop_last": True}, [cut(order, 4, True) for order in orders()], {}),
    (TORCH, {}, [cut(range(HELD), 4)], {}),
    (TORCH, {"drop_last": True}, [cut(range(HELD), 4, True)], {}),
    *(
        (
            TORCH,
            {"distributed": True, "sampler_drop_last": own_drop, "shuffle": shuffle, "drop_last": drop},
            [worker_batches(tuple(order), size, own_drop, drop) for order in (orders() if shuffle else [range(HELD)])],
            {"b": min(size, HELD)},
        )
        for own_drop, shuffle, drop, size in itertools.product((True, False), (True, False), (True, False), (4, 6))
        if not (size == 6 and drop and own_drop)  # no batch at all
    ),
    ("transformers.Trainer", {}, [cut(order, 4) for order in orders()], {}),
    ("transformers.Trainer", {"drop_last": True}, [cut(order, 4, True) for order in orders()], {}),
    ("accelerate", {"shuffle": True}, [cut(order, 4) for order in orders()], {}),
    ("accelerate", {}, [cut(range(HELD), 4)], {}),
    ("lightning", {"shuffle": True}, [cut(order, 4) for order in orders()], {}),
    *(
        (name, {"shuffle": True, "distributed": True}, [made(order) for order in orders()], {})
        for name, made in (
            ("lightning", lambda order: worker_batches(order, 4, False)),
            ("accelerate", lambda order: even_batches(order, 2)),
        )
    ),
    (TORCH, {"replacement": True}, drawn(False), {"loader": range(2)}),
    (TORCH, {"replacement": True, "drop_last": True}, drawn(True), {"loader": range(1)}),
    ("opacus", {}, subsets(2), {"loader": range(2), "private_loader": range(2)}),
    ("opacus", {"poisson_sampling": False}, [cut(order, 4, True) for order in orders()], {}),
    ("tf.data", {"shuffle": True, "buffer_size": 5, "records": 5}, [cut(order, 4) for order in orders()], {}),
    (
        "tf.data",
        {"shuffle": True, "buffer_size": 5, "records": 5, "drop_remainder": True},
        [cut(order, 4, True) for order in orders()],
        {},
    ),
    ("tf.data", {"shuffle": True}, small_buffer(2), {"b": 2}),
    ("grain", {"shuffle": True, "repeat_before_batch": False}, [cut(order, 2) for order in orders()], {"b": 2}),
    (
        "grain",
        {"shuffle": True, "repeat_before_batch": False, "drop_remainder": True},
        [cut(order, 2, True) for order in orders()],
        {"b": 2},
    ),
    ("jax_privacy.CyclicPoissonSampling", {}, subsets(2), {"sampling_prob": 0.5, "iterations": 2}),
    *(
        (
            "jax_privacy.CyclicPoissonSampling",
            {"cycle_length": 2, "equal_split": is_equal},
            groups(2, is_equal),
            {"sampling_prob": 1.0, "iterations": 2, "cycle_length": 2},
        )
        for is_equal in (True, False)
    ),
    ("jax_privacy.BallsInBinsSampling", {}, groups(2, False), {"cycle_length": 2, "rounds": 1}),
    *(
        (
            "jax_privacy.RandomAllocationSampling",
            {},
            [[range(HELD) if i in steps else () for i in range(4)] for steps in itertools.combinations(range(4), k)],
            {"iterations": 4, "total_participations": k},
        )
        for k in (1, 2)
    ),
    (
        "jax_privacy.FixedBatchSampling",
        {},
        list(itertools.product(itertools.combinations(range(HELD), 2), repeat=2)),
        {"b": 2, "iterations": 2},
    ),
]


NAMED = [
    f"{loader}-{' '.join(settings)}-{given.get('b', 4)}-{i}" for i, (loader, settings, _, given) in enumerate(EPOCHS)
]


def bounds(guide, noise, **given):
    """What the guide's call says of delta at epsilon 1 where a record is zeroed out."""
    call = guide.call.replace("epsilon(", "delta_bounds(", 1).replace("delta=d", "epsilon=1.0")
    call = call if "neighbors" in call else call.removesuffix(")") + ', neighbors="zero_out")'
    return eval(call, NAMES | {"s": noise, "n": HELD, "b": 4, "e": 1, "d": None} | given)


def counts(epochs, record):
    """In which steps of an epoch a record is, and how often: with its probability."""
    found = Counter(tuple(batch.count(record) for batch in epoch) for epoch in (list(map(list, one)) for one in epochs))
    return {pattern: n / found.total() for pattern, n in found.items()}


def not_above(patterns, noise):
    """Who also knows the record's steps sees one Gaussian of their length."""
    return sum(p * gaussian_delta(math.hypot(*pattern) / noise) for pattern, p in patterns.items())


def not_below(patterns, noise):
    """Others contribute nothing, and the attack is whether any sum is above a threshold, the best of many."""
    below = NormalDist(0.0, noise).cdf

    def told(t):
        none = math.prod(below(t) for _ in next(iter(patterns)))
        missed = sum(p * math.prod(below(t - c) for c in pattern) for pattern, p in patterns.items())
        return (1.0 - missed) - math.e * (1.0 - none)

    return max(told(t) for t in np.linspace(0.0, 5.0, 101) * max(noise, 0.5))


def gaussian_delta(mu):
    """Delta at epsilon 1 of N(mu, 1) against N(0, 1)."""
    phi = NormalDist().cdf
    return phi(mu / 2 - 1 / mu) - math.e * phi(-mu / 2 - 1 / mu) if mu else 0.0


@pytest.mark.parametrize("noise", [0.2, 0.5, 1.0])
@pytest.mark.parametrize(("loader", "settings", "epochs", "given"), EPOCHS, ids=NAMED)
def test_ends_that_are_said_to_hold_do_for_epochs_as_they_are_drawn(loader, settings, epochs, given, noise):
    guide = fa.loader_guide(loader, **settings)
    lower, upper, _ = bounds(guide, noise, **given)
    records = [counts(epochs, record) for record in range(HELD)]
    assert max(not_below(one, noise) for one in records) <= upper
    if guide.lower_holds:
        assert lower <= max(not_above(one, noise) for one in records) * (1 + 1e-9)


def test_steps_that_are_drawn_out_of_a_whole_run_are_no_rounds():
    """RandomAllocationSampling, two of four steps: delta at epsilon 1 by a sum over a lattice of the four outputs."""
    z, dz = np.linspace(-5.5, 6.5, 37, retstep=True)
    mass, ratio = np.exp(-0.5 * z * z) * dz / math.sqrt(2.0 * math.pi), np.exp(z - 0.5)
    axes = np.meshgrid(ratio, ratio, ratio, ratio, sparse=True)
    likelihood = sum(axes[i] * axes[j] for i, j in itertools.combinations(range(4), 2)) / 6.0
    truth = float(np.einsum("ijkl,i,j,k,l", np.maximum(likelihood - math.e, 0.0), mass, mass, mass, mass))
    guide = fa.loader_guide("jax_privacy.RandomAllocationSampling")
    lower, upper, _ = bounds(guide, 1.0, iterations=4, total_participations=2)
    assert lower <= 1.01 * truth
    assert upper >= 0.99 * truth
    assert fa.delta_lower(fa.Gaussian(1.0).allocation(2) * 2, epsilon=1.0) > 1.05 * truth  # one step of each two


def test_records_are_used_as_often_as_is_said():
    """A finite number of uses that is said occurs, of the batch sizes that are tried; others do not."""
    occurs = {}
    for loader, settings, epochs, _ in EPOCHS:
        used = {sum(pattern) for record in range(HELD) for pattern in counts(epochs, record)}
        occurs.setdefault((loader, *settings.items()), set()).update(used)
    for (loader, *settings), used in occurs.items():
        least, most = fa.loader_guide(loader, **dict(settings)).uses
        assert least <= min(used), (loader, settings)
        assert most == math.inf or (min(used), max(used)) == (least, most), (loader, settings)


def test_gradients_of_several_batches_are_one_batch_of_all_their_records():
    run = {"sampling": "shuffled", "records": 100, "batch_size": 30}
    seen = Seen("DataLoader", TORCH, {"shuffle": True}, run, length=4, unit="epochs", per=4, is_pass=True)
    for batches, size, steps in ((1, 30, 4), (3, 90, 2), (4, 100, 1)):
        found = accumulated(seen, batches, of="a loader")
        assert (found.run["batch_size"], found.length) == (size, steps)
    assert run["batch_size"] == 30
