"""The contract of every mechanism, and canaries that it must catch."""

import subprocess
import sys
import time

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.bounds import Bounds
from fastacct.testing import ContractError, check_mechanism, examples

EXAMPLES = list(examples())


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_contract(mechanism):
    assert check_mechanism(mechanism, seconds=None) == ()


def scaled(job, **target):
    """0.1 % too small."""
    lower, upper, status = fa.delta_bounds(job, **target)
    return Bounds(lower * 0.999, upper * 0.999, status)


def uncounted(job, **target):
    process = job if isinstance(job, fa.Process) else fa.Process({job: 1})
    once = fa.Process((mechanism, np.minimum(count, 1)) for mechanism, count in process)
    return fa.delta_bounds(once, **target)


def turned(job, **target):
    """Loss with the wrong sign: delta(-epsilon) of the other direction, less what is certain."""
    lower, upper, status = fa.delta_bounds(job, **target)
    return Bounds(
        lower * np.exp(-np.asarray(target["epsilon"])), upper * np.exp(-np.asarray(target["epsilon"])), status
    )


def without_infinite_losses(job, **target):
    process = job if isinstance(job, fa.Process) else fa.Process({job: 1})
    kept = fa.Process((fa.ApproxDP(m.epsilon, 0.0) if isinstance(m, fa.ApproxDP) else m, n) for m, n in process)
    return fa.delta_bounds(kept, **target)


@pytest.mark.parametrize("canary", [scaled, uncounted, turned])
@pytest.mark.parametrize(
    "mechanism",
    [
        fa.RandomizedResponse(1.0),
        fa.DiscreteLaplace(2.0, 3),
        fa.DiscreteGaussian(1.0),
        fa.Skellam(10.0),
        fa.PureDP(0.3),
        fa.ApproxDP(0.3, 1e-6),
    ],
    ids=repr,
)
def test_the_contract_catches_a_canary(mechanism, canary):
    with pytest.raises(ContractError, match="delta_bounds: "):
        check_mechanism(mechanism, neighbors=mechanism.relations[0], seconds=None, delta_bounds=canary)


def test_the_contract_catches_an_infinite_loss_dropped():
    with pytest.raises(ContractError, match=r"ApproxDP.*neighbors = 'add_remove', delta_bounds: .* is below the sum"):
        check_mechanism(
            fa.ApproxDP(0.3, 0.01), neighbors="add_remove", seconds=None, delta_bounds=without_infinite_losses
        )


def test_the_contract_bites_where_assertions_are_switched_off():
    code = (
        "import fastacct as fa\n"
        "from fastacct.core.bounds import Bounds\n"
        "from fastacct.testing import check_mechanism\n"
        "low = lambda job, **target: Bounds(*(0.5 * x for x in fa.delta_bounds(job, **target)[:2]), 0)\n"
        "check_mechanism(fa.RandomizedResponse(1.0), neighbors='replace_one', seconds=None, delta_bounds=low)\n"
    )
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ContractError" in run.stderr


def test_the_contract_keeps_to_its_time_and_says_what_it_left_out():
    asked, shown = [], []

    def slow(job, **target):
        asked.append(1)
        time.sleep(0.05)
        return fa.delta_bounds(job, **target)

    skipped = check_mechanism(fa.PureDP(0.3), seconds=0.01, progress=shown.append, delta_bounds=slow)
    assert len(asked) <= 1
    assert shown[0] == "equality and refusals"
    assert "counts, replace_one" in skipped
    assert check_mechanism(fa.PureDP(0.3), neighbors="remove", seconds=None, progress=shown.append) == ()
    assert shown[-1] == "epsilon and delta, remove"
    with pytest.raises(ValueError, match=r"seconds = 0\.0"):
        check_mechanism(fa.PureDP(0.3), seconds=0.0)
