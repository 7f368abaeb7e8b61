"""The file of a meter, shared by fits and processes: what each counts is added up, and nothing is lost."""

import json
import secrets
import subprocess
import sys

import pytest

import fastacct as fa
from fastacct.ledger.state import sealed
from fastacct.training import Meter
from fastacct.training.kept import kept
from fastacct.training.seeds import of_numpy

RUN = {"noise_multiplier": 1.0, "delta": 1e-4}
PASSES = {"records": 40, "batch_size": 4, "sampling": "shuffled", "neighbors": "zero_out"}
POISSON = {"sample_rate": 0.1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "meter.json"


def said(path):
    found = json.loads(path.read_text())
    return found["steps"], found["units"]


def counting(state, steps, units):
    """The state of a meter that has counted so much."""
    counts = {"steps": steps, "units": units, "meters": {"another": [units, steps]}}
    return sealed({name: state[name] for name in state if name != "checksum"} | counts)


def begin_pass(meter, path):
    meter.epoch()
    with kept(meter, path):
        meter.step()


def test_passes_of_two_fits_at_a_time_add_up(path):
    one, other = Meter(**RUN, **PASSES), Meter(**RUN, **PASSES)
    begin_pass(one, path)
    for _ in range(2):
        begin_pass(other, path)
        other.step(9)
    one.step(9)  # of the pass that it began
    begin_pass(one, path)
    assert said(path)[1] == 4
    assert one.epsilon == fa.dpsgd.epsilon(**RUN, **PASSES, epochs=4)
    with kept(other, path):
        pass
    assert other.epsilon == one.epsilon
    assert said(path) == (other.steps, 4)
    with pytest.raises(ValueError, match="a pass has 10 steps"):
        other.step()


def test_jobs_that_begin_at_a_time_with_one_seed_are_refused(path):
    """Both were before their first step: 5.966 where 8.744 is the truth."""
    first, second = (Meter(**RUN, **POISSON) for _ in range(2))
    same, other = (of_numpy("fit", secrets.randbits(100), "another seed") for _ in range(2))
    for _ in range(2):  # its own try before
        with kept(first, path):
            first._draws_from(same)
    with pytest.raises(ValueError, match="fit draws the same batches again"), kept(second, path):
        second._draws_from(same)
    with kept(second, path):
        second._draws_from(other)
        second.step()
    with kept(first, path):
        first.step()
    assert len(json.loads(path.read_text())["seeds"]) == 4
    assert said(path) == (2, 2)


PROCESS = """
import sys
from tests.training.test_kept import *

for _ in range(25):
    meter = Meter(**RUN, **POISSON)
    for _ in range(2):
        with kept(meter, sys.argv[1]):
            meter.step()
"""


def test_steps_of_processes_at_a_time_add_up(path):
    running = [subprocess.Popen([sys.executable, "-c", PROCESS, path]) for _ in range(2)]
    assert [one.wait(timeout=120) for one in running] == [0, 0]
    assert said(path) == (100, 100)


def test_the_file_never_says_less(path):
    """Of passes that were broken off there are more with fewer steps."""
    meter = Meter(**RUN, **PASSES)
    state = meter.state_dict()
    with kept(meter, path):
        pass
    for file, sum in (
        ((13, 4), (13, 4)),
        ((12, 3), (13, 4)),
        ((18, 2), (13, 4)),
        ((13, 5), (13, 5)),
        ((14, 5), (14, 5)),
    ):
        path.write_text(json.dumps(counting(state, *file)))
        with kept(meter, path):
            pass
        assert said(path) == sum == (meter.steps, meter._units)


def test_a_state_that_was_loaded_and_a_file_of_others_are_not_taken_for_one(path):
    """Two notebooks of 4 and 5 passes went on with one file: 6 passes, and 11 were taken."""
    for passes in (4, 5):
        meter = Meter(**RUN, **PASSES)
        meter.load_state_dict(counting(meter.state_dict(), 10 * passes, passes))
        if passes == 4:
            begin_pass(meter, path)
            assert said(path) == (41, 5)
        else:
            with pytest.raises(ValueError, match=r"a state was loaded, and .* has a count of its own"):
                begin_pass(meter, path)
            assert (meter.steps, said(path)) == (50, (41, 5))


def test_what_a_meter_counted_before_it_met_the_file_is_its_own(path):
    first, second = Meter(**RUN, **POISSON), Meter(**RUN, **POISSON)
    first.step(3)
    second.step(5)
    for meter, steps in ((first, 3), (second, 8), (first, 8)):
        with kept(meter, path):
            pass
        assert said(path) == (steps, steps)
        assert meter.epsilon == fa.dpsgd.epsilon(**RUN, **POISSON, steps=steps)
    path.unlink()
    with kept(first, path):  # nothing is forgotten
        first.step()
    assert said(path) == (9, 9)


def test_a_budget_is_that_of_all(path):
    limit = fa.dpsgd.epsilon(**RUN, **POISSON, steps=5)
    meters = [Meter(**RUN, **POISSON, stop_at=limit) for _ in range(3)]
    for i in range(5):
        with kept(meters[i % 3], path):
            meters[i % 3].step()
    for meter in meters:
        for _ in range(2):
            with pytest.raises(fa.BudgetExceededError), kept(meter, path):
                meter.step()
            assert meter.steps == 5
    assert said(path) == (5, 5)


def test_the_file_of_another_run_is_refused_and_stays(path):
    meter, other = Meter(**RUN, **POISSON), Meter(**RUN, sample_rate=0.2)
    with kept(meter, path):
        meter.step()
    before = path.read_text()
    with pytest.raises(ValueError, match="state is of another run"), kept(other, path):
        other.step()
    assert (other.steps, path.read_text()) == (0, before)
    with pytest.raises(FileNotFoundError, match="does not exist: cannot write"), kept(meter, path.parent / "a" / "b"):
        meter.step()
