"""The accountant for Opacus: its own tests, a real training run, checkpoints, and what must not pass."""

import json
import unittest

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("opacus", reason="the extra opacus is not installed")

from opacus import PrivacyEngine  # noqa: E402
from opacus.accountants import create_accountant, registry  # noqa: E402
from opacus.accountants.utils import get_noise_multiplier  # noqa: E402
from opacus.tests import accountants_test  # noqa: E402

from fastacct.compat import opacus as fast  # noqa: E402
from tests.pages import run_examples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01}


def drawn(rate):
    """How often Opacus' loader takes a record: a uniform number of 24 bits is below the rate."""
    near = torch.arange(int(rate * 2**24) - 2, int(rate * 2**24) + 3) / 2**24
    return (int(rate * 2**24) - 2 + int((near < rate).sum())) / 2**24


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Names registered in a test are forgotten after it."""
    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))


# -- their tests, with numbers read as "at most theirs, not below the truth" ------------------------------------------

TRUTH = {
    7.32911117143: fa.epsilon_lower(fa.Gaussian(1.5).poisson(0.04) * 2250, delta=1e-5),
    6.777395712150674: fa.epsilon_lower(fa.Gaussian(1.5).poisson(0.04) * 2249, delta=1e-5),
    **{noise: fa.dpsgd.noise_multiplier(epsilon=8.0, delta=1e-5, sample_rate=0.04, steps=2250) * (1 - 1e-7)
       for noise in (1.416, 1.34765625)},
    **{noise: fa.dpsgd.noise_multiplier(epsilon=8.0, delta=1e-5, sample_rate=0.04, steps=2000) * (1 - 1e-7)
       for noise in (1.3562, 1.2915)},
}  # fmt: skip
"""What each number of theirs bounds."""


class AsBounds(accountants_test.AccountingTest):
    __test__ = False

    def assertAlmostEqual(self, first, second, places=None, msg=None, delta=None):  # noqa: N802
        if second not in TRUTH:  # of their own approximate accountant, which is not replaced
            assert first == pytest.approx(second, abs=0.5 * 10.0 ** -(places or 7))
        else:
            assert TRUTH[second] <= first <= second + 0.5 * 10.0 ** -(places or 7)


def their_failures(monkeypatch, accountant):
    for name in ("RDPAccountant", "PRVAccountant"):
        monkeypatch.setattr(accountants_test, name, accountant)
    for name in ("rdp", "prv"):
        registry.register_accountant(name, accountant, force=True)
    result = unittest.TestResult()
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(AsBounds)
    for other in (accountants_test.AccountantRegistryTest,):
        tests.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(other))
    tests.run(result)
    assert result.testsRun >= 15
    return [test.id().rsplit(".")[-1] for test, _ in result.failures + result.errors]


def test_their_tests_pass(monkeypatch):
    assert their_failures(monkeypatch, fast.FastAccountant) == []


class Low(fast.FastAccountant):
    def get_epsilon(self, delta, **kwargs):
        return 0.97 * super().get_epsilon(delta)


class Forgetful(fast.FastAccountant):
    def get_epsilon(self, delta, **kwargs):
        noise, rate, _ = self.history[-1]
        return fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=rate, steps=1, delta=delta)


@pytest.mark.parametrize("canary", [Low, Forgetful])
def test_their_tests_tell_what_must_not_pass(monkeypatch, canary):
    assert their_failures(monkeypatch, canary)


# -- names ------------------------------------------------------------------------------------------------------------


def test_registering_twice_and_in_place_of_theirs():
    fast.register()
    fast.register()
    assert isinstance(create_accountant("fastacct"), fast.FastAccountant)
    assert not isinstance(create_accountant("rdp"), fast.FastAccountant)
    fast.register(replace=("prv", "rdp"))
    for name in ("fastacct", "prv", "rdp"):
        made = create_accountant(name)
        assert isinstance(made, fast.FastAccountant)
        assert made.mechanism() == name
    with pytest.raises(ValueError, match="replace = 'pvr' is not one of"):
        fast.register(replace=["pvr"])


def test_the_noise_that_opacus_finds_is_on_the_safe_side():
    fast.register()
    noise = get_noise_multiplier(
        target_epsilon=3.0, target_delta=1e-5, sample_rate=0.01, epochs=30, accountant="fastacct"
    )
    assert 2.99 <= fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=0.01, steps=3000, delta=1e-5) <= 3.0


# -- history ----------------------------------------------------------------------------------------------------------


def accountant_after(steps, **run):
    made = fast.FastAccountant()
    for _ in range(steps):
        made.step(**(RUN | run))
    return made


def test_epsilon_is_that_of_the_run():
    made = accountant_after(300)
    assert made.history == [(1.0, 0.01, 300)]
    assert made.get_epsilon(1e-5) == made.get_epsilon(delta=1e-5, alphas=[2, 3], eps_error=0.1, delta_error=1e-9)
    assert made.get_epsilon(1e-5) == fa.dpsgd.epsilon(**RUN | {"sample_rate": drawn(0.01)}, steps=300, delta=1e-5)
    made.step(noise_multiplier=2.0, sample_rate=0.01)
    made.step(**RUN)
    assert made.history == [(1.0, 0.01, 300), (2.0, 0.01, 1), (1.0, 0.01, 1)]
    rows = [(1.0, drawn(0.01), 301), (2.0, drawn(0.01), 1)]
    assert made.get_epsilon(1e-5) == fa.dpsgd.epsilon(history=rows, delta=1e-5)
    epsilon, order = made.get_privacy_spent(delta=1e-5)
    assert epsilon == made.get_epsilon(1e-5)
    assert order > 1
    assert fast.FastAccountant().get_epsilon(1e-5) == 0.0
    assert len(made) == 3


@pytest.mark.parametrize("length", [3, 98, 1000, 50_000, 10**6])
def test_epsilon_is_never_below_that_of_the_rate_that_the_loader_draws_with(length):
    made = accountant_after(1, sample_rate=1 / length)
    run = {"noise_multiplier": 1.0, "steps": 1, "delta": 1e-9}
    assert made.get_epsilon(1e-9) >= fa.dpsgd.epsilon_lower(sample_rate=drawn(1 / length), **run)
    assert made.bounds(1e-9).lower > fa.dpsgd.epsilon(sample_rate=1 / length, **run)
    assert "-(-2**24 // len(loader)) / 2**24" in fa.loader_guide("opacus").call
    assert -(-(2**24) // length) / 2**24 == drawn(1 / length)


@pytest.mark.parametrize("theirs", ["fastacct", "rdp", "prv", "gdp"])
def test_checkpoints_are_taken_over(theirs):
    state = {"history": [[1.0, 0.01, 7], (2, 0.01, 3)], "mechanism": theirs}
    made = fast.FastAccountant()
    made.load_state_dict(json.loads(json.dumps(state)))
    assert made.history == [(1.0, 0.01, 7), (2.0, 0.01, 3)]
    assert [type(x) for x in made.history[0]] == [float, float, int]
    other = fast.FastAccountant()
    other.load_state_dict(made.state_dict())
    assert other.get_epsilon(1e-5) == made.get_epsilon(1e-5)


@pytest.mark.parametrize("state", [None, {}, {"history": []}, {"mechanism": "rdp"}, {"history": [], "mechanism": "x"}])
def test_other_states_are_refused(state):
    with pytest.raises(ValueError):
        fast.FastAccountant().load_state_dict(state)


@pytest.mark.parametrize(("noise", "rate"), [(-1.0, 0.1), (float("nan"), 0.1), (1.0, 1.5), (1.0, -0.1)])
def test_steps_that_are_none_are_refused_and_change_nothing(noise, rate):
    made = accountant_after(2)
    with pytest.raises(ValueError, match="out of range"):
        made.step(noise_multiplier=noise, sample_rate=rate)
    assert made.history == [(1.0, 0.01, 2)]


def registered():
    fast.register()
    return PrivacyEngine(accountant="fastacct")


def test_steps_by_hand_are_poisson_samples_and_say_so():
    made = accountant_after(3)
    assert repr(made) == "FastAccountant([(1.0, 0.01, 3)], sampling='poisson', neighbors='add_remove')"
    assert made.state_dict()["sampling"] == "poisson"


def test_the_example_of_the_page_runs():
    run_examples("opacus")
    run_examples("../howto/opacus")


DAMAGED = [None, 3, [("x", 0.1, 3)], [(1.0, 0.1, 2.7)], [(1.0, 1.1, 2)], [(-1.0, 0.1, 2)], [(1.0, 0.1)]]


@pytest.mark.parametrize("history", DAMAGED)
def test_a_damaged_checkpoint_changes_nothing(history):
    made = accountant_after(100)
    with pytest.raises(ValueError):
        made.load_state_dict({"mechanism": "rdp", "history": history})
    assert made.history == [(1.0, 0.01, 100)]


def test_steps_are_not_rounded():
    made = fast.FastAccountant()
    made.history = [(1.0, 0.01, 0.5)] * 10
    with pytest.raises(ValueError, match="steps"):
        made.get_epsilon(1e-5)


@pytest.mark.parametrize("history", [[(2.0, 0.01, 1), (1.5, 0.02, 40)], [(2.0, 0.01, 40), (1.5, 0.02, 1)]])
def test_no_history_is_below_one_of_its_blocks(history):
    whole = fast.FastAccountant()
    whole.history = history
    for noise, rate, steps in history:
        least = fa.dpsgd.epsilon_lower(noise_multiplier=noise, sample_rate=rate, steps=steps, delta=1e-5)
        assert whole.get_epsilon(delta=1e-5) >= least > 0.0


def test_accumulated_batches_are_samples_of_their_own():
    """A record may be in several of the Poisson batches whose gradients one noisy step adds up."""

    class Optimizer:
        noise_multiplier = 1.0
        accumulated_iterations = 4

    accountant = fast.FastAccountant()
    record = accountant.get_optimizer_hook_fn(0.05)
    for _ in range(200):
        record(Optimizer())
    assert accountant.history == [(1.0, 0.05, 200, 4)]
    exact = fa.epsilon(fa.Gaussian(1.0).poisson(drawn(0.05), draws=4) * 200, delta=1e-5)
    assert accountant.get_epsilon(1e-5) == exact > 25.0
    assert fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.2, steps=200, delta=1e-5) < 22.0
    again = fast.FastAccountant()
    again.load_state_dict(accountant.state_dict())
    assert again.get_epsilon(1e-5) == exact
    Optimizer.accumulated_iterations = 1
    record(Optimizer())
    assert accountant.history[-1] == (1.0, 0.05, 1)
    assert accountant.get_epsilon(1e-5) > exact
    with pytest.raises(ValueError, match="out of range"):
        again.load_state_dict({"history": [(1.0, 0.05, 200, 0)], "mechanism": "fastacct"})
