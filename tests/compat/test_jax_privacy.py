"""JAX Privacy's training accountants on ours: the same events, certified, and what must not pass."""

import math
import re
from pathlib import Path

import pytest

import fastacct as fa

pytest.importorskip("jax_privacy", reason="the extra jax_privacy is not installed")
accounting = pytest.importorskip("jax_privacy.accounting", reason="this jax_privacy has no accounting")
dp_accounting = pytest.importorskip("dp_accounting", reason="jax_privacy needs dp_accounting")

from fastacct.compat.dp_accounting import FastAccountant  # noqa: E402
from fastacct.compat.jax_privacy import FastAccountantConfig  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "backends" / "jax_privacy.md"
RELATION = dp_accounting.NeighboringRelation
RUN = {"num_samples": 10_000, "delta": 1e-5, "batch_size": 100}
STEPS = 200

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not hasattr(accounting, "DpParams"), reason="this jax_privacy has no training accountants"),
]


def step(noise):
    return fa.Gaussian(noise).poisson(0.01)


def binomial(k, q):
    return [(math.comb(k, i) * q**i * (1 - q) ** (k - i), i) for i in range(k + 1)]


def runs():
    """(name, training accountant, parameters, the job written down once more, whether the answer is exact)."""
    plain, user, single = (
        accounting.DpsgdTrainingAccountant,
        accounting.DpsgdTrainingUserLevelAccountant,
        accounting.SingleReleaseTrainingAccountant,
    )
    fixed = accounting.SamplingMethod.FIXED_BATCH_SIZE
    schedule = [(0, 1.0), (50, 2.0)]
    weights = binomial(4, 0.01)
    weights[0] = (1.0 - math.fsum(p for p, _ in weights[1:]), 0)
    return [
        ("poisson", plain, {"noise_multipliers": 1.0}, step(1.0) * STEPS),
        ("schedule", plain, {"noise_multipliers": schedule}, step(1.0) * 50 + step(2.0) * (STEPS - 50)),
        ("fixed", plain, {"noise_multipliers": 2.0, "sampling_method": fixed}, step(1.0) * STEPS),
        ("cycle", plain, {"noise_multipliers": 1.0, "cycle_length": 4}, fa.Gaussian(1.0).poisson(0.04) * (STEPS // 4)),
        (
            "user",
            user,
            {"noise_multipliers": 3.0, "examples_per_user": 4},
            fa.GaussianMixture(3.0, p=weights) * STEPS,
        ),
        ("single", single, {"noise_multipliers": 1.0}, fa.Gaussian(1.0) * 1),
    ]


def asked(kind, config, given):
    return kind(config).compute_epsilon(STEPS, accounting.DpParams(**RUN, **given))


def failures(config):
    """Names of the runs whose epsilon is not that of the job."""
    found = set()
    for name, kind, given, job in runs():
        epsilon = asked(kind, config, given)
        low, high = fa.epsilon_lower(job, delta=1e-5), fa.epsilon(job, delta=1e-5)
        if not low * (1 - 1e-9) <= epsilon <= high * (1 + 1e-9):  # their binomial weights are rounded
            found.add(name)
    return found


def test_epsilons_of_training_runs_are_those_of_the_same_job():
    assert failures(FastAccountantConfig()) == set()


class Low(FastAccountant):
    def get_epsilon(self, target_delta):
        return super().get_epsilon(target_delta) * 0.97


class Once(FastAccountant):
    def _maybe_compose(self, event, count, do_compose):
        return super()._maybe_compose(event, min(count, 1), do_compose)


class Forgetful(FastAccountant):
    def _maybe_compose(self, event, count, do_compose):
        if do_compose:
            FastAccountant.__init__(self, self.neighboring_relation)
        return super()._maybe_compose(event, count, do_compose)


@pytest.mark.parametrize(
    ("canary", "caught"), [(Low, 6), (Once, 5), (Forgetful, 1)], ids=["low", "count ignored", "history forgotten"]
)
def test_canaries_are_caught(canary, caught):
    class Config(FastAccountantConfig):
        def create_accountant(self):
            return canary(self.neighboring_relation, self.method)

    accounting.PldAccountantConfig.register(Config)
    assert len(failures(Config())) >= caught


def test_at_most_what_their_accountants_say():
    for name, kind, given, job in runs():
        ours = asked(kind, FastAccountantConfig(), given)
        assert ours <= asked(kind, accounting.PldAccountantConfig(), given) * (1 + 1e-9), name
        if name != "user":
            renyi = asked(kind, FastAccountantConfig(method="rdp"), given)
            assert fa.epsilon_lower(job, delta=1e-5) <= ours <= renyi * (1 + 1e-9), name
            assert renyi <= asked(kind, accounting.RdpAccountantConfig(), given) * (1 + 1e-9), name


def test_truncated_batches_are_bounded():
    given = {"noise_multipliers": 1.0, "truncated_batch_size": 120}
    ours = asked(accounting.DpsgdTrainingAccountant, FastAccountantConfig(), given)
    theirs = asked(accounting.DpsgdTrainingAccountant, accounting.PldAccountantConfig(), given)
    assert fa.epsilon_lower(step(1.0) * STEPS, delta=1e-5) <= ours <= theirs * 1.01


def test_calibrated_noise_steps_and_batches_meet_the_target_and_are_at_most_theirs():
    def calibrated(config):
        accountant = accounting.DpsgdTrainingAccountant(config)
        rest = {"target_epsilon": 1.5, "accountant": accountant, "num_samples": 10_000, "target_delta": 1e-5}
        noise = accounting.calibrate_noise_multiplier(batch_sizes=100, num_updates=STEPS, **rest)
        steps = accounting.calibrate_num_updates(batch_sizes=100, noise_multipliers=1.0, **rest)
        batch = accounting.calibrate_batch_size(num_updates=STEPS, noise_multipliers=1.0, **rest)
        return noise, steps, batch

    noise, steps, batch = calibrated(FastAccountantConfig())
    for job in (step(noise) * STEPS, step(1.0) * steps, fa.Gaussian(1.0).poisson(batch / 10_000) * STEPS):
        assert fa.epsilon_lower(job, delta=1e-5) <= 1.5 * (1 + 1e-5)  # their search stops at 1e-6 of a noise multiplier
    theirs = calibrated(accounting.PldAccountantConfig(value_discretization_interval=1e-3))
    assert (noise <= theirs[0] * (1 + 1e-5), steps >= theirs[1], batch >= theirs[2]) == (True, True, True)


@pytest.mark.parametrize("relation", list(RELATION))
def test_a_configuration_makes_fresh_accountants_and_so_does_calling_it(relation):
    config = FastAccountantConfig(neighboring_relation=relation)
    for make in (config.create_accountant, config):
        one, other = make(), make()
        assert one is not other
        assert one.neighboring_relation is relation
        one.compose(dp_accounting.GaussianDpEvent(1.0))
        assert other.get_epsilon(1e-5) == 0.0
    assert isinstance(config, accounting.DpAccountantConfig)
    assert isinstance(config, accounting.PldAccountantConfig)
    assert isinstance(config(), dp_accounting.pld.PLDAccountant)


def test_settings_that_are_not_known_are_refused_at_once():
    with pytest.raises(ValueError, match="method"):
        FastAccountantConfig(method="prv")


def test_execution_plans_take_it():
    plans = pytest.importorskip("jax_privacy.experimental.execution_plan", reason="no execution plans here")

    def noise(accountant):
        plan = plans.BandMFExecutionPlanConfig(
            iterations=40, strategy=[1.0, 0.5], epsilon=1.0, delta=1e-6, sampling_prob=0.1, accountant=accountant
        ).plan
        return plan.dp_event.event.event.noise_multiplier

    ours = noise(FastAccountantConfig(neighboring_relation=RELATION.REPLACE_SPECIAL)())
    job = fa.Gaussian(ours).poisson(0.1) * 20
    assert fa.epsilon_lower(job, delta=1e-6, neighbors="zero_out") <= 1.0
    assert ours <= noise(dp_accounting.pld.PLDAccountant(RELATION.REPLACE_SPECIAL)) * (1 + 1e-5)


def test_the_examples_of_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["epsilon"] == fa.epsilon(step(1.0) * 1000, delta=1e-5)
