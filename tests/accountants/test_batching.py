"""How `fastacct.dpsgd`, sweeps and the command line name samplers."""

import itertools
import json

import pytest

import fastacct as fa
from fastacct.__main__ import main

RUN = {"records": 1000, "batch_size": 10}
NAMED = [
    ({"sampling": "with_replacement", "steps": 50}, fa.Gaussian(2.0).with_replacement(10, 1000) * 50),
    ({"sampling": "truncated", "at_most": 14, "steps": 50},
     fa.Gaussian(2.0).poisson(0.01, at_most=14, records=1000) * 50),
    ({"sampling": "cyclic", "bands": 4, "steps": 50}, fa.Gaussian(2.0).poisson(0.04) * 13),
    ({"sampling": "allocation", "epochs": 3}, fa.Gaussian(2.0).allocation(100) * 3),
    ({"sampling": "allocation", "epochs": 3, "selected": 2}, fa.Gaussian(2.0).allocation(200, selected=2) * 3),
    ({"sampling": "allocation", "epochs": 3, "bins": "persistent"},
     fa.Gaussian(2.0).allocation(100, epochs=3, bins="persistent") * 1),
    ({"sampling": "shuffled", "epochs": 3, "neighbors": "zero_out"}, fa.Gaussian(2.0).shuffled(100) * 3),
    ({"sampling": "shuffled", "epochs": 3, "bins": "persistent", "neighbors": "replace_one"},
     fa.Gaussian(2.0).shuffled(100, epochs=3, bins="persistent") * 1),
]  # fmt: skip


@pytest.mark.parametrize(("named", "job"), NAMED, ids=str)
def test_dpsgd_takes_every_sampler_by_name(named, job):
    relation = named.get("neighbors", "add_remove")
    ours = fa.dpsgd.epsilon_bounds(noise_multiplier=2.0, delta=1e-5, **RUN, **named)
    assert ours == fa.epsilon_bounds(job, delta=1e-5, neighbors=relation)


@pytest.mark.parametrize(("named", "job"), NAMED, ids=str)
def test_noise_multipliers_of_every_sampler_meet_the_target(named, job):
    noise = fa.dpsgd.noise_multiplier(epsilon=2.0, delta=1e-5, **RUN, **named)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, delta=1e-5, **RUN, **named) <= 2.0
    assert fa.dpsgd.epsilon(noise_multiplier=noise * (1 - 1e-6), delta=1e-5, **RUN, **named) > 2.0


def test_an_allocation_has_whole_batches_and_an_order_a_smaller_last_one():
    run = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 30, "epochs": 2, "delta": 1e-5}
    found = fa.dpsgd.epsilon(**run, sampling="allocation")
    assert found == fa.epsilon(fa.Gaussian(2.0).allocation(33) * 2, delta=1e-5)
    found = fa.dpsgd.epsilon_bounds(**run, sampling="shuffled", neighbors="zero_out")
    assert found == fa.epsilon_bounds(fa.Gaussian(2.0).shuffled(34) * 2, delta=1e-5, neighbors="zero_out")


def test_groups_that_leave_records_out_are_smaller():
    """1,000 records in 7 groups of 142: batches of 100 draw 100/142 of a group."""
    run = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 100, "steps": 700, "delta": 1e-5}
    found = fa.dpsgd.epsilon(**run, sampling="cyclic", bands=7)
    exact = fa.epsilon(fa.Gaussian(2.0).poisson(100 / 142) * 100, delta=1e-5)
    assert exact <= found <= exact * (1 + 1e-12)  # the rate is rounded up


def test_arrays_are_cells_of_their_own():
    found = fa.dpsgd.epsilon(
        noise_multiplier=[1.0, 2.0], records=1000, batch_size=[[10], [30]], epochs=2, delta=1e-5, sampling="shuffled",
        neighbors="zero_out",
    )  # fmt: skip
    assert found.shape == (2, 2)
    assert found[1, 0] == fa.epsilon(fa.Gaussian(1.0).shuffled(34) * 2, delta=1e-5, neighbors="zero_out")
    most = fa.dpsgd.steps(
        noise_multiplier=2.0, records=1000, batch_size=10, epsilon=2.0, delta=1e-5, sampling="cyclic", bands=4
    )
    assert most % 4 == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fa.Laplace(1.0).with_replacement(1, 2), "known for Gaussian noise only"),
        (lambda: fa.Laplace(1.0).shuffled(10), "known for Gaussian noise only"),
        (lambda: fa.Gaussian(1.0).shuffled(10, epochs=2), 'epochs is for bins="persistent"'),
        (lambda: fa.Gaussian(1.0).allocation(10, selected=11), "selected = 11.0 exceeds steps = 10.0"),
        (lambda: fa.Gaussian(1.0).shuffled(10).group(2), "share a step or not"),
        (lambda: fa.Gaussian(1.0).with_replacement(1, 10).poisson(0.1), "how many records"),
        (lambda: fa.epsilon(fa.Gaussian(1.0).shuffled(10), delta=1e-5), "supported: 'zero_out'.*'replace_one'"),
        (lambda: fa.Gaussian(1.0).poisson(0.1, at_most=3, records=9, draws=2), "draws = 2: several samples"),
        (lambda: fa.Gaussian(1.0).poisson(0.1, draws=1.5), "1.5"),
        (lambda: run_with("shuffle", epochs=1), "did you mean 'shuffled'"),
        (lambda: run_with("truncated", steps=1), "needs at_most"),
        (lambda: run_with("poisson", steps=1, at_most=3), "at_most is for sampling = 'truncated'"),
        (lambda: run_with("allocation", epochs=None), "needs epochs"),
        (lambda: run_with("allocation", steps=1), "give epochs, not steps"),
        (lambda: fa.dpsgd.steps(epsilon=1.0, delta=1e-5, noise_multiplier=1.0, records=9, batch_size=3,
                                sampling="allocation"), "epochs are not calibrated"),
        (lambda: fa.dpsgd.epsilon(history=[(1.0, 0.01, 100)], delta=1e-5, bands=4), "either history or bands"),
        (lambda: fa.sweep(noise_multiplier=1.0, sample_rate=0.01, steps=9, delta=1e-5, sampling="cyclic", bands=[4, 8]),
         "bands is the same in all cells"),
        (lambda: run_with("cyclic", steps=1, bands=101), "bands = 101.0: each group is 1/bands"),
        (lambda: run_with("allocation", epochs=1, bins="old"), "bins = 'old' is not one of"),
        (lambda: run_with("allocation", epochs=1.5), "epochs = 1.5"),
        (lambda: fa.dpsgd.sample_rate(epsilon=1.0, delta=1e-5, noise_multiplier=1.0, steps=5, records=9, bands=2,
                                      sampling="cyclic"), "a batch size is not calibrated"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(call, said):
    with pytest.raises((ValueError, TypeError), match=said.replace("(", r"\(")):
        call()


def run_with(sampling, **more):
    return fa.dpsgd.epsilon(noise_multiplier=1.0, delta=1e-5, records=1000, batch_size=10, sampling=sampling, **more)


# -- sweeps and the command line -----


def test_sweeps_take_every_sampler():
    pytest.importorskip("xarray")
    axes = {"noise_multiplier": [1.0, 2.0], "batch_size": 10, "records": 1000, "epochs": [1, 3]}
    for named in ({"sampling": "allocation"}, {"sampling": "allocation", "bins": "persistent"}, {"sampling": "cyclic",
                  "bands": 4}, {"sampling": "with_replacement"}):  # fmt: skip
        grid = fa.sweep(**axes, delta=1e-5, **named).compute()
        assert grid.attrs["sampler"] == named["sampling"]
        cell = grid.epsilon.sel(noise_multiplier=2.0, epochs=3).item()
        assert cell == fa.dpsgd.epsilon(noise_multiplier=2.0, epochs=3, delta=1e-5, **RUN, **named)
    grid = fa.sweep(
        records=1000, batch_size=[10, 20], epochs=2, delta=1e-5, epsilon=2.0, sampling="allocation"
    ).compute()
    found = fa.dpsgd.noise_multiplier(
        records=1000, batch_size=20, epochs=2, delta=1e-5, epsilon=2.0, sampling="allocation"
    )
    assert grid.noise_multiplier.sel(batch_size=20).item() == found
    with pytest.raises(TypeError, match="needs at_most"):
        fa.sweep(**axes, delta=1e-5, sampling="truncated")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--epochs 3 --sampling allocation", "random steps of each epoch"),
        ("--steps 50 --sampling truncated --at-most 14", "keeps a random at_most"),
        ("--steps 50 --sampling cyclic --bands 4", "group i mod bands"),
        ("--epochs 3 --sampling shuffled --neighbors zero_out --bins persistent", "in a random order"),
        ("--steps 50 --sampling with_replacement", "draws batch_size times"),
    ],
)
def test_the_command_line_names_the_sampler(words, said, capsys):
    run = "--noise-multiplier 2 --delta 1e-5 --records 1000 --batch-size 10"
    assert main(["epsilon", *run.split(), *words.split(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    named = words.split()
    assert document["sampler"] == named[named.index("--sampling") + 1]
    keywords = {
        key.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for key, value in itertools.pairwise(named)
        if key.startswith("--")
    }
    assert document["epsilon"] == fa.dpsgd.epsilon(noise_multiplier=2.0, delta=1e-5, **RUN, **keywords)
    assert main(["epsilon", *run.split(), *words.split()]) == 0
    assert said in capsys.readouterr().out
    assert main(["noise-multiplier", "--epsilon", "2", *run.split()[2:], *words.split()]) == 0
