"""A meter of a training run: its epsilon is that of `fastacct.dpsgd`, it stops in time, no step is lost or repeated."""

import itertools
import json
import math
import random
import time

import pytest

import fastacct as fa
from fastacct.training import Meter

POISSON = {"noise_multiplier": 1.0, "sample_rate": 0.05, "delta": 1e-5}
SHUFFLED = {"noise_multiplier": 2.0, "records": 100, "batch_size": 15, "sampling": "shuffled", "neighbors": "zero_out"}
SHUFFLED |= {"delta": 1e-4}


def of_epochs(epochs, **given):
    return fa.dpsgd.epsilon(**SHUFFLED | given, epochs=epochs)


@pytest.mark.parametrize(
    "run",
    [
        POISSON,
        {"noise_multiplier": 1.0, "records": 1000, "batch_size": 50, "delta": "1/n"},
        POISSON | {"neighbors": "zero_out", "accountant": fa.RDP()},
        {"noise_multiplier": 2.0, "records": 1000, "batch_size": 50, "sampling": "fixed_size", "delta": 1e-5},
        {"noise_multiplier": 2.0, "records": 1000, "batch_size": 50, "sampling": "with_replacement", "delta": 1e-5},
        {
            "noise_multiplier": 2.0,
            "records": 1000,
            "batch_size": 50,
            "sampling": "truncated",
            "at_most": 60,
            "delta": 1e-5,
        },
        {"noise_multiplier": 2.0, "sample_rate": 0.05, "sampling": "cyclic", "bands": 4, "delta": 1e-5},
    ],
    ids=lambda run: run.get("sampling", "poisson"),
)
def test_epsilon_after_each_step_is_that_of_dpsgd_to_the_last_bit(run):
    meter = Meter(**run)
    assert meter.epsilon == 0.0
    for step in range(1, 6):
        meter.step()
        assert meter.epsilon == fa.dpsgd.epsilon(**run, steps=step)
    meter.step(7)
    assert meter.epsilon == fa.dpsgd.epsilon(**run, steps=12)


def test_in_the_middle_of_a_pass_epsilon_is_that_of_the_whole():
    meter = Meter(**SHUFFLED)
    for epoch in (1, 2):
        meter.epoch()
        assert meter.epsilon == of_epochs(epoch - 1)
        for _ in range(7):
            meter.step()
            assert meter.epsilon == of_epochs(epoch)
    allocation = {"noise_multiplier": 2.0, "records": 100, "batch_size": 20, "sampling": "allocation", "delta": 1e-4}
    meter = Meter(**allocation)
    meter.epoch()
    meter.step()
    assert meter.epsilon == fa.dpsgd.epsilon(**allocation, epochs=1)


def test_a_pass_that_is_left_early_counts_as_whole_and_must_be_told():
    meter = Meter(**SHUFFLED)
    with pytest.raises(ValueError, match="call epoch"):
        meter.step()
    for _ in range(5):
        meter.epoch()
        meter.step(2)
    assert meter.epsilon == of_epochs(5)
    meter.epoch()  # begun and nothing released
    assert meter.epsilon == of_epochs(5)
    meter.step(7)
    with pytest.raises(ValueError, match="a pass has 7 steps, and this would be step 8"):
        meter.step()
    assert (meter.steps, meter.epsilon) == (17, of_epochs(6))


@pytest.mark.parametrize("run", [POISSON, SHUFFLED])
def test_it_stops_before_the_step_that_would_exceed(run):
    meter = Meter(**run, stop_at=4.0)
    left = meter.remaining
    taken = 0
    while meter.remaining:
        if "records" in run and meter.steps % 7 == 0:
            meter.epoch()
        meter.step()
        taken += 1
        assert meter.remaining == left - taken
        assert meter.epsilon <= 4.0
    if "records" in run:
        meter.epoch()
    before = meter.state_dict()
    with pytest.raises(fa.BudgetExceededError, match=r"(1 more step|the next pass over the loader) would spend"):
        meter.step()
    assert meter.state_dict() == before
    assert taken == left > 5
    units = taken if "records" not in run else taken // 7
    more = {"steps": units + 1} if "records" not in run else {"epochs": units + 1}
    assert fa.dpsgd.epsilon(**run, **more) > 4.0 >= meter.epsilon


def test_the_largest_number_of_steps_is_that_of_dpsgd():
    rng = random.Random(3)
    for _ in range(20):
        run = {"noise_multiplier": rng.uniform(0.6, 3.0), "sample_rate": 10 ** rng.uniform(-3, -0.5), "delta": 1e-6}
        budget = rng.uniform(0.3, 6.0)
        assert Meter(**run, stop_at=budget).remaining == fa.dpsgd.steps(epsilon=budget, **run)


def test_a_budget_that_nothing_or_anything_fits():
    assert Meter(**POISSON).remaining == math.inf
    assert Meter(**POISSON, stop_at=0.0).remaining == 0
    assert Meter(**POISSON | {"noise_multiplier": math.inf}, stop_at=0.0).remaining == math.inf
    spent = Meter(**POISSON, stop_at=1.0, after=fa.Laplace(0.5))
    assert spent.remaining == 0
    assert spent.epsilon == fa.epsilon(fa.Laplace(0.5), delta=1e-5)


def test_what_was_released_before_and_several_batches_a_step():
    meter = Meter(**POISSON, after=fa.Laplace(4.0) * 2, accumulate=3)
    meter.step(4)
    job = fa.Laplace(4.0) * 2 + fa.Gaussian(1.0).poisson(0.05, draws=3) * 4
    assert meter.epsilon == fa.epsilon(job, delta=1e-5)
    meter = Meter(**SHUFFLED, accumulate=2)
    meter.epoch()
    meter.step(4)  # 7 batches
    assert meter.epsilon == of_epochs(1, batch_size=30)
    with pytest.raises(ValueError, match="a pass has 4 steps"):
        meter.step()
    replaced = {
        "noise_multiplier": 2.0,
        "records": 1000,
        "batch_size": 50,
        "sampling": "with_replacement",
        "delta": 1e-5,
    }
    meter = Meter(**replaced, accumulate=2)
    meter.step()
    assert meter.epsilon == fa.dpsgd.epsilon(**replaced | {"batch_size": 100}, steps=1)
    for sampling in ("fixed_size", "allocation"):
        with pytest.raises(ValueError, match="steps on the gradients of 2"):
            Meter(**replaced | {"sampling": sampling}, accumulate=2)


def test_several_releases_of_one_batch_are_one_with_less_noise():
    """Not steps of their own: a record that is drawn is in all of them."""
    run = {"sample_rate": 0.05, "delta": 1e-5}
    meter = Meter(noise_multiplier=[1.0, 3.0], **run)
    meter.step(10)
    noise = 1.0 / math.sqrt(1.0 + 1.0 / 9.0)
    whole = fa.dpsgd.epsilon(noise_multiplier=noise, steps=10, **run)
    assert whole <= meter.epsilon <= whole * (1 + 1e-9)
    apart = fa.Gaussian(1.0).poisson(0.05) * 10 + fa.Gaussian(3.0).poisson(0.05) * 10
    assert meter.epsilon > fa.epsilon(apart, delta=1e-5)
    assert Meter(noise_multiplier=[1.0, 0.0], **run).remaining == math.inf
    assert meter.least_noise == 1.0  # of the gradients, below which an optimizer is refused
    assert Meter(noise_multiplier=[3.0, 1.0], **run).least_noise == 3.0


def test_a_state_goes_on_where_it_was_saved():
    rng = random.Random(5)
    for run in (POISSON, SHUFFLED):
        for _ in range(30):
            meter, whole = Meter(**run), Meter(**run)
            for step in range(21):
                for one in (meter, whole):
                    if step % 7 == 0 and run is SHUFFLED:
                        one.epoch()
                    one.step()
                if rng.random() < 0.3:
                    state = json.loads(json.dumps(meter.state_dict()))
                    meter = Meter(**run)
                    meter.load_state_dict(state)
                    assert meter.epsilon == whole.epsilon
                    assert meter.was_open == (run is SHUFFLED and step % 7 != 6)  # one that is over goes on no more
                    if meter.was_open:
                        meter.epoch(goes_on=True)
            assert (meter.steps, meter.epsilon) == (whole.steps, whole.epsilon)


def test_a_pass_whose_order_is_lost_counts_again():
    meter = Meter(**SHUFFLED)
    meter.epoch()
    meter.step(3)
    again = Meter(**SHUFFLED)
    again.load_state_dict(meter.state_dict())
    assert again.epsilon == of_epochs(1)
    with pytest.raises(ValueError, match="call epoch"):
        again.step()
    again.epoch()
    again.step()
    assert again.epsilon == of_epochs(2)
    with pytest.raises(ValueError, match="no pass was open"):
        again.epoch(goes_on=True)


def test_states_of_others_and_damaged_ones_change_nothing():
    meter = Meter(**SHUFFLED)
    meter.epoch()
    meter.step(3)
    state = meter.state_dict()
    with pytest.raises(ValueError, match="of another run"):
        Meter(**SHUFFLED | {"noise_multiplier": 2.1}).load_state_dict(state)
    with pytest.raises(ValueError, match="of another run"):
        Meter(**SHUFFLED, after=fa.Laplace(1.0)).load_state_dict(state)
    damage = [
        {"steps": 2.5},
        {"steps": 99},
        {"units": 0},
        {"units": 4},
        {"in_pass": 8},
        {"version": 2},
        {"steps": None},
        {"meters": {}},
        {"meters": {"a": [1, 2]}},
        {"meters": {"a": [1, 3, 0]}},
        {"meters": {"a": (1, 3)}},
        {"meters": {"a": [2, 3], "b": [-1, 0]}},
    ]
    former = {name: value for name, value in state.items() if name != "checksum"}  # as earlier versions wrote it
    for change in damage:
        for whole in (state, former):
            other = Meter(**SHUFFLED)
            with pytest.raises(ValueError, match=r"damaged|another run"):
                other.load_state_dict(whole | change)
            assert other.steps == 0
    for name in former:
        with pytest.raises(ValueError, match=r"damaged|another run"):
            Meter(**SHUFFLED).load_state_dict({key: value for key, value in former.items() if key != name})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (POISSON | {"steps": 3}, "steps is what a meter counts"),
        (SHUFFLED | {"neighbors": "add_remove"}, "supported"),
        ({**SHUFFLED, "records": None}, "needs records"),
        (POISSON | {"sigma": 1.0}, "sigma"),
        (POISSON | {"stop_at": -1.0}, "stop_at"),
        (POISSON | {"max_epsilon": 3.0}, "max_epsilon: the largest epsilon of a meter is stop_at"),
        (POISSON | {"epsilon": 3.0}, "the largest epsilon of a meter is stop_at"),
        (POISSON | {"accumulate": 1.5}, "accumulate"),
        (POISSON | {"noise_multiplier": []}, "noise_multiplier is empty"),
        (POISSON | {"delta": "1/n"}, "needs records"),
        (POISSON | {"loader": 3}, "nothing is known of builtins.int"),
        (POISSON | {"after": Meter(**POISSON)}, "after is a meter: give the job"),
    ],
)
def test_mistakes_are_named(given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Meter(**given)


def test_names_of_other_meters_say_what_to_read():
    for name, said in (
        ("get_epsilon", "read epsilon"),
        ("update", "step"),
        ("budget", "stop_at"),
        ("remaning", "remaining"),
    ):
        with pytest.raises(AttributeError, match=said):
            getattr(Meter(**POISSON), name)


def test_batches_are_counted_before_they_are_given_out():
    meter = Meter(**SHUFFLED, stop_at=of_epochs(2))
    seen = [batch for _ in range(4) for batch in meter.batches(range(7))]
    assert seen == [*range(7)] * 2
    assert meter.steps == 14
    meter = Meter(**POISSON, accumulate=3)
    steps = [meter.steps for _ in meter.batches(range(8))]
    assert steps == [1, 1, 1, 2, 2, 2, 3, 3]
    with pytest.raises(TypeError, match="needs a loader"):
        next(meter.batches())


def test_no_record_contributes_more_than_is_counted():
    """Random loops over passes in any order, left early and resumed: the sum of squares of what one record releases."""
    rng = random.Random(1)
    for _ in range(200):
        length, meter = rng.randint(1, 4), None
        run = {"noise_multiplier": 1.0, "records": length, "batch_size": 1, "sampling": "shuffled", "delta": 1e-3}
        meter = Meter(**run, neighbors="zero_out")
        passes = []
        for _ in range(rng.randint(1, 4)):
            meter.epoch()
            used = rng.randint(0, length)
            for _ in range(used):
                meter.step()
            passes.append(used)
        worst = max(
            sum(place < used for place, used in zip(places, passes, strict=True))
            for places in itertools.product(range(length), repeat=len(passes))
        )
        assert meter.epsilon == fa.dpsgd.epsilon(**run, neighbors="zero_out", epochs=worst)


def test_a_step_costs_less_than_a_fifth_of_a_millisecond():
    meter = Meter(**POISSON, stop_at=50.0)
    _ = meter.remaining
    start = time.process_time()
    for _ in range(500):
        if meter.remaining:
            meter.step()
            _ = meter.epsilon
    assert (time.process_time() - start) / 500 < 0.0002


def test_epsilon_that_is_read_in_each_step_is_asked_for_several_steps_at_once(monkeypatch):
    from fastacct.training import meter as module

    run = {"noise_multiplier": 2.5, "records": 5000, "batch_size": 50, "sampling": "fixed_size", "delta": 1e-6}
    counted, calls = module.epsilon_of_run, []
    monkeypatch.setattr(module, "epsilon_of_run", lambda **given: calls.append(given) or counted(**given))
    meter = Meter(**run)
    for steps in (*range(1, 41), 60, 61):
        meter.step(steps - meter.steps)
        assert meter.epsilon == fa.dpsgd.epsilon(**run, steps=steps)
    assert len(calls) <= 6  # one by one it is 42


@pytest.mark.parametrize("neighbors", ["zero_out", "replace_one"])
@pytest.mark.parametrize(("records", "size"), [(40, 4), (7, 4), (8, 8), (999, 10)])
def test_shuffled_passes_cost_what_the_verb_says_to_the_last_bit(records, size, neighbors):
    """Asked of one step on all records a pass, which is the upper end of what is proved of shuffled batches."""
    run = {"records": records, "batch_size": size, "sampling": "shuffled", "neighbors": neighbors}
    for noise, delta in ((0.7, 1e-2), (3.0, 1e-4), (11.0, 1e-9)):
        meter = Meter(noise_multiplier=noise, delta=delta, **run)
        for epochs in (1, 2, 30):
            for _ in range(epochs - meter.steps):  # a pass that is left after its first step counts whole
                meter.epoch()
                meter.step()
            assert meter.epsilon == fa.dpsgd.epsilon(**run, noise_multiplier=noise, epochs=epochs, delta=delta)


def test_another_budget_holds_from_the_next_step_on():
    meter = Meter(**POISSON, stop_at=9.0)
    before = meter.remaining
    meter.stop_at = 1.0
    assert meter.remaining < before
    with pytest.raises(fa.BudgetExceededError):
        meter.step(before)
    with pytest.raises(ValueError, match="stop_at"):
        meter.stop_at = math.nan


PLAIN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "delta": 1e-5}
SIZED = {"noise_multiplier": 1.0, "delta": 1e-5, "records": 100, "batch_size": 10, "neighbors": "zero_out"}
SIZED |= {"sampling": "shuffled"}


@pytest.mark.parametrize(
    ("run", "name", "value"),
    [
        (PLAIN, "noise_multiplier", b"\x01"),
        (PLAIN, "delta", []),
        (PLAIN, "sample_rate", []),
        (PLAIN, "make_private", True),
        *(
            (SIZED, name, value)
            for name in ("records", "batch_size")
            for value in (b"\x01", "x", 0, math.nan, [1, 2], [])
        ),
    ],
)
def test_odd_values_are_refused_by_the_name_of_their_argument(run, name, value):
    with pytest.raises((ValueError, TypeError), match=f"^{name}") as error:
        Meter(**(run | {name: value}))
    assert name == "make_private" or repr(value) in str(error.value) or str(float(value)) in str(error.value)


@pytest.mark.parametrize("state", [None, 3, [], "x"])
def test_what_is_no_state_is_refused_as_such(state):
    with pytest.raises(ValueError, match="is not what state_dict"):
        Meter(**PLAIN).load_state_dict(state)


def test_releases_with_very_much_or_little_noise_together():
    for noise, alone in (
        ([1e200, 1e200], 1e200),
        ([math.inf, 1.0], 1.0),
        ([1e-200, 1e-200], 1e-200),
        ([1e200, 2.0], 2.0),
    ):
        both = Meter(**(PLAIN | {"noise_multiplier": noise}))._run["noise_multiplier"]
        assert alone / math.sqrt(2) * (1 - 1e-12) <= both <= alone
