"""Jobs that go to other libraries and come back: the same numbers, or less noise by rounding; refusals by name."""

import re
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.compat import jobs
from fastacct.testing import examples

STEP = fa.Gaussian(1.1).poisson(0.01)
DELTA = 1e-6


def contained(job, back, relation):
    """Whether what came back has an epsilon in the interval of the job, but for rounding that goes up."""
    (low, high, _), found = (fa.epsilon_bounds(one, delta=DELTA, neighbors=relation) for one in (job, back))
    return found.upper >= low and found.lower <= high * (1.0 + 1e-13)


@pytest.fixture(scope="module")
def from_event():
    """Events as jobs."""
    library = pytest.importorskip("dp_accounting")
    from fastacct.compat.dp_accounting import from_dp_accounting

    names = {"add_remove": "ADD_OR_REMOVE_ONE", "replace_one": "REPLACE_ONE", "zero_out": "REPLACE_SPECIAL"}
    return lambda event, relation: from_dp_accounting(event, getattr(library.NeighboringRelation, names[relation]))


def test_mechanisms_become_events_and_come_back(from_event):
    gone, refused, exposed = 0, [], []
    for one in examples():
        for relation in {"add_remove", "replace_one", "zero_out"}.intersection(one.relations):
            try:
                event = jobs.to_event(one * 3)
            except ValueError as error:
                refused.append(str(error))
                continue
            try:
                back = from_event(event, relation)
            except ValueError as error:  # no noise at all, or a relation that they do not have
                exposed.append(type(error).__name__)
                continue
            assert contained(one * 3, back, relation)
            gone += 1
    assert gone > 20
    assert set(exposed) <= {"UnsupportedEventError"}
    assert all("dp_accounting has no" in told for told in refused)
    assert len(refused) > 20


def test_a_pipeline_becomes_one_event_and_comes_back(from_event):
    job = STEP * 1000 + fa.Laplace(20.0) * 2 + (fa.Gaussian(9.0) + fa.Laplace(9.0)).poisson(0.1)
    assert from_event(jobs.to_event(job), "add_remove") == job
    assert from_event(jobs.to_event(fa.Process()), "add_remove") == fa.Process()
    assert from_event(jobs.to_event(STEP), "add_remove") == STEP * 1


def test_their_accountant_never_says_less_of_an_event(from_event):
    library = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")
    job = STEP * 1000 + fa.Laplace(20.0) * 2
    accountant = library.PLDAccountant()
    accountant.compose(jobs.to_event(job))
    lower, upper, _ = fa.epsilon_bounds(job, delta=1e-5)
    assert lower <= accountant.get_epsilon(1e-5) <= upper * 1.01
    made = fa.guarantee(from_event(jobs.to_event(job), "add_remove"), delta=1e-5)
    assert made.epsilon == (lower, upper, fa.Status.TIGHT)


def test_rounded_parameters_of_events_have_no_more_noise(from_event):
    for one in (fa.DiscreteLaplace(3.7, 2), fa.DiscreteLaplace(0.3), *map(fa.RandomizedResponse, (0.1, 1.0, 5.0))):
        relation = one.relations[0]
        back = from_event(jobs.to_event(one), relation)
        exact, found = one.pure_epsilon(relation), next(iter(back))[0].pure_epsilon(relation)
        assert exact <= found <= exact * (1.0 + 1e-13)


@pytest.mark.parametrize(
    ("one", "event"),
    [
        (fa.PureDP(0.7), ("EpsilonDelta", 0.7, 0.0)),
        (fa.ApproxDP(0.7, 1e-7), ("EpsilonDelta", 0.7, 1e-7)),
        (fa.ZCDP(0.2), ("ZC", 0.2, 0.0)),
    ],
)
def test_guarantees_are_events_with_the_same_numbers(one, event, monkeypatch):
    """Which not every version of dp_accounting has."""
    monkeypatch.setattr(jobs, "_made", lambda name, *arguments: (name, *arguments))
    assert jobs._event(one) == event


HISTORY = [(1.1, 0.01, 1000), (2.0, 1.0, 3), (1.1, 0.02, 5)]


def test_histories_of_opacus_go_and_come_back():
    pytest.importorskip("opacus")
    known = jobs.from_opacus(HISTORY)
    assert known["job"] == fa.dpsgd.job(history=HISTORY)
    assert sorted(jobs.to_opacus(known["job"])) == sorted(HISTORY)
    made = fa.guarantee(**known, delta=1e-5)
    assert made.epsilon.upper == pytest.approx(fa.dpsgd.epsilon(history=HISTORY, delta=1e-5), rel=1e-6)
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = HISTORY
    assert jobs.from_opacus(theirs.state_dict()) == known
    assert theirs.get_epsilon(1e-5) >= made.epsilon.lower
    assert jobs.from_opacus([(1.1, 0.01, 10, 4)])["job"] == fa.Gaussian(1.1).poisson(0.01, draws=4) * 10
    passes = {"mechanism": "fastacct", "history": [(1.1, 1.0, 3)], "sampling": "passes"}
    assert jobs.from_opacus(passes) == {"job": fa.Gaussian(1.1).poisson(1.0) * 3, "neighbors": "zero_out"}
    with pytest.raises(ValueError, match=r"history\[1\]"):
        jobs.from_opacus([(1.1, 0.01, 10), (1.1, 2.0, 10)])


def test_somebody_elses_class_with_our_name_is_refused():
    mine = type("Gaussian", (fa.Mechanism,), {"noise_multiplier": 9.0, "pure_epsilon": lambda *_: 5.0})()
    for convert in (jobs.to_event, jobs.to_opacus, lambda job: jobs.to_flower(job, 9, delta=1e-5)):
        with pytest.raises(ValueError, match=r"has no event|is no Gaussian noise"):
            convert(mine)


@pytest.mark.parametrize("job", [fa.Laplace(1.0), fa.Laplace(1.0).poisson(0.1), fa.Gaussian(1.0).fixed_size(2, 10)])
def test_what_opacus_has_no_word_for_is_refused_by_name(job):
    with pytest.raises(ValueError, match="is no Gaussian noise on all records or on a Poisson sample"):
        jobs.to_opacus(STEP * 3 + job)


def test_states_of_flower_go_and_come_back():
    pytest.importorskip("flwr.serverapp")
    for job, relation in (
        (fa.Gaussian(1.5).poisson(0.05) * 20 + fa.Gaussian(2.0).poisson(0.1) * 5, "add_remove"),
        (fa.Gaussian(1.5).fixed_size(50, 1000) * 20, "replace_one"),
        (fa.Gaussian(1.5) * 3 + fa.Gaussian(2.0) * 5, "add_remove"),
        (fa.Process(), "add_remove"),
    ):
        state = jobs.to_flower(job, 1000, delta=1e-5, neighbors=relation)
        known = jobs.from_flower(state)
        assert known == {"job": job, "neighbors": relation, "delta": 1e-5}
        lower, upper, status = fa.epsilon_bounds(job, delta=1e-5, neighbors=relation)
        assert fa.guarantee(**known).epsilon == (lower, upper, status)


def test_rates_of_all_sizes_come_back_from_flower():
    pytest.importorskip("flwr.serverapp")
    for size in range(1, 200):
        state = jobs.to_flower(fa.Process(), 199, delta=1e-5)
        state["config"]["sampling_method"] = "poisson"
        about = {"noise_multiplier": 1.0, "sample_size": size, "population_size": 199}
        state["compositions"] = [{"event": about, "count": 2}]
        again = jobs.to_flower(jobs.from_flower(state)["job"], 199, delta=1e-5)
        assert again == state


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jobs.to_flower(fa.Gaussian(1.0).poisson(0.0123), 100, delta=1e-5), "whole number of 100 clients"),
        (lambda: jobs.to_flower(STEP + fa.Gaussian(1.0), 100, delta=1e-5), "drawn in one way"),
        (lambda: jobs.to_flower(STEP, 100, delta=1e-5, neighbors="zero_out"), "no word in Flower"),
        (lambda: jobs.to_flower(fa.Laplace(1.0), 100, delta=1e-5), "is no Gaussian noise"),
        (lambda: jobs.to_flower(fa.Gaussian(1.0).fixed_size(5, 99), 100, delta=1e-5), "is no Gaussian noise"),
    ],
)
def test_what_flower_has_no_word_for_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


PAGE = Path(__file__).parents[2] / "docs" / "backends" / "jobs.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_the_page_runs(block):
    for name in re.findall(r"(?m)^import (\w+)", block):
        pytest.importorskip(name)
    exec(compile(block, str(PAGE), "exec"), {})
