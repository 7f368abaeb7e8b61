"""PipelineDP's budget accountant: the noise that it sets keeps the budget, hardly less would, and a pipeline runs."""

import logging
import math
import re
from pathlib import Path

import pytest

import fastacct as fa

pipeline_dp = pytest.importorskip("pipeline_dp", reason="the extra pipelinedp is not installed")

from pipeline_dp import budget_accounting  # noqa: E402

from fastacct.compat.pipelinedp import FastBudgetAccountant  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "backends" / "pipelinedp.md"
TYPES = budget_accounting.MechanismType
EPSILON, DELTA = 1.0, 1e-6
LAPLACE, GAUSSIAN, GENERIC = ({"mechanism_type": one} for one in (TYPES.LAPLACE, TYPES.GAUSSIAN, TYPES.GENERIC))
PIPELINES = {
    "one Gaussian": [GAUSSIAN],
    "30 Gaussians": [GAUSSIAN | {"count": 30}],
    "30 Laplace": [LAPLACE | {"count": 30}],
    "mixed": [GAUSSIAN | {"count": 10}, LAPLACE | {"count": 5, "weight": 2.0}],
    "generic": [GENERIC | {"count": 2}, LAPLACE],
    "thresholds": [{"mechanism_type": TYPES.GAUSSIAN_THRESHOLDING}, LAPLACE],
}
BEYOND = {
    "sensitivity": [GAUSSIAN | {"sensitivity": 3.0, "count": 4}, LAPLACE | {"sensitivity": 0.5}],
    "generic weights": [GENERIC | {"weight": 3.0}, GAUSSIAN],
    "geometric": [{"mechanism_type": TYPES.TRUNCATED_GEOMETRIC}, LAPLACE],
    "many thresholds": [{"mechanism_type": TYPES.LAPLACE_THRESHOLDING, "count": 3}, GAUSSIAN],
}
"""Which theirs accounts for too little, or not at all."""


def computed(make, requests, epsilon=EPSILON, delta=DELTA):
    accountant = make(epsilon, delta)
    specs = [(accountant.request_budget(**one), one.get("sensitivity", 1.0)) for one in requests]
    accountant.compute_budgets()
    return accountant, specs


def job_of(specs):
    """What mechanisms with this noise release, and how probably a threshold fails; written down once more."""
    job, failing = fa.Process(), 0.0
    for spec, sensitivity in specs:
        name = spec.mechanism_type.name
        if name in ("GENERIC", "TRUNCATED_GEOMETRIC"):
            one = fa.ApproxDP(spec.eps, spec.delta)
        elif name.startswith("LAPLACE"):
            one = fa.Laplace(spec.noise_standard_deviation / sensitivity / math.sqrt(2.0))
        else:
            one = fa.Gaussian(spec.noise_standard_deviation / sensitivity)
        job += one * spec.count
        failing += spec.count * (spec.thresholding_delta or 0.0)
    return job, failing


def keeps(make, requests):
    """Whether the budget can hold: not where epsilon is surely above it."""
    _, specs = computed(make, requests)
    job, failing = job_of(specs)
    return failing < DELTA and fa.epsilon_lower(job, delta=DELTA - failing) <= EPSILON


@pytest.mark.parametrize("name", [*PIPELINES, *BEYOND])
def test_the_noise_keeps_the_budget_and_hardly_less_would(name):
    requests = (PIPELINES | BEYOND)[name]
    accountant, specs = computed(FastBudgetAccountant, requests)
    job, failing = job_of(specs)
    assert fa.epsilon(job, delta=DELTA - failing) <= EPSILON * (1 + 1e-6)  # of mixtures: an interval, moved a little
    assert fa.epsilon_lower(job, delta=DELTA - failing) <= EPSILON
    assert fa.epsilon(accountant.process, delta=accountant.noise_delta) <= EPSILON
    less = fa.epsilon(accountant._job(0.999 * accountant.base_noise_std), delta=accountant.noise_delta)
    assert less > EPSILON
    for spec, sensitivity in specs:
        if spec.standard_deviation_is_set:
            noise = (
                accountant.base_noise_std
                * sensitivity
                / accountant._mechanisms[specs.index((spec, sensitivity))].weight
            )
            assert noise <= spec.noise_standard_deviation <= noise * (1 + 1e-11)


@pytest.mark.parametrize("name", PIPELINES)
def test_at_most_the_noise_of_theirs(name):
    pytest.importorskip("dp_accounting", reason="their accountant needs dp_accounting")
    ours, _ = computed(FastBudgetAccountant, PIPELINES[name])
    theirs, _ = computed(budget_accounting.PLDBudgetAccountant, PIPELINES[name])
    assert ours.base_noise_std <= theirs.base_noise_std * (1 + 1e-4)  # theirs stops at 1e-4; mixtures: a wide interval


class Low(FastBudgetAccountant):
    """Epsilon times 0.97."""

    def _least_noise(self):
        return fa.calibrate(self._job, epsilon=self._total_epsilon / 0.97, delta=self.noise_delta)


class Once(FastBudgetAccountant):
    def _job(self, base):
        return fa.Process((mechanism, 1) for mechanism, _ in super()._job(base))


class Forgetful(FastBudgetAccountant):
    def _job(self, base):
        return fa.Process([(self._mechanism(base, self._mechanisms[-1]), self._mechanisms[-1].mechanism_spec.count)])


class Sensitive(FastBudgetAccountant):
    """As theirs: noise is multiplied by the sensitivity, and analysed as if the sensitivity were 1."""

    def _least_noise(self):
        most = max(one.sensitivity for one in self._mechanisms)
        return super()._least_noise() / most


@pytest.mark.parametrize(
    ("canary", "name"),
    [
        (Low, "one Gaussian"),
        (Low, "30 Laplace"),
        (Low, "thresholds"),
        (Low, "generic"),
        (Once, "30 Gaussians"),
        (Once, "30 Laplace"),
        (Once, "generic"),
        (Forgetful, "mixed"),
        (Forgetful, "generic"),
        (Sensitive, "sensitivity"),
    ],
)
def test_canaries_are_caught(canary, name):
    requests = (PIPELINES | BEYOND)[name]
    assert keeps(FastBudgetAccountant, requests)
    assert not keeps(canary, requests)


def test_without_delta_epsilons_add_up():
    requests = [LAPLACE | {"count": 3}, LAPLACE | {"weight": 2.0}]
    accountant, specs = computed(FastBudgetAccountant, requests, delta=0.0)
    job, failing = job_of(specs)
    assert failing == 0.0
    assert fa.epsilon(job, delta=0.0) <= EPSILON
    assert fa.epsilon_lower(job, delta=0.0) >= EPSILON * (1 - 1e-9)
    assert accountant.base_noise_std == pytest.approx(5.0 * math.sqrt(2.0), rel=1e-11)
    with pytest.raises(ValueError, match="total_delta"):
        FastBudgetAccountant(1.0, 0.0).request_budget(TYPES.GAUSSIAN)


def test_scopes_and_expected_aggregations_are_theirs():
    accountant = FastBudgetAccountant(EPSILON, DELTA)
    with accountant.scope(weight=1.0):
        first, second = (accountant.request_budget(TYPES.GAUSSIAN) for _ in range(2))
    third = accountant.request_budget(TYPES.GAUSSIAN)
    accountant.compute_budgets()
    assert first.noise_standard_deviation == second.noise_standard_deviation
    assert first.noise_standard_deviation == pytest.approx(2 * third.noise_standard_deviation)
    job, _ = job_of([(one, 1.0) for one in (first, second, third)])
    assert fa.epsilon(job, delta=DELTA) <= EPSILON
    with pytest.raises(ValueError, match="num_aggregations"):
        FastBudgetAccountant(EPSILON, DELTA, num_aggregations=2).compute_budgets()


def test_the_order_of_calls_is_kept_and_bad_requests_are_refused(caplog):
    accountant = FastBudgetAccountant(EPSILON, DELTA)
    for bad in ({"sensitivity": 0.0}, {"weight": math.nan}, {"count": 0}, {"count": 1.5}, {"count": True}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            accountant.request_budget(TYPES.LAPLACE, **bad)
    with pytest.raises(NotImplementedError):
        accountant.request_budget(TYPES.LAPLACE, noise_standard_deviation=1.0)
    assert accountant.mechanism_specs == []
    with pytest.raises(RuntimeError, match="before"):
        accountant.process  # noqa: B018
    with caplog.at_level(logging.WARNING):
        accountant.compute_budgets()
    assert "No budgets" in caplog.text
    with pytest.raises(RuntimeError, match="after"):
        accountant.request_budget(TYPES.LAPLACE)
    with pytest.raises(Exception, match="twice"):
        accountant.compute_budgets()
    for budget in ((math.inf, DELTA), (math.nan, DELTA), (0.0, DELTA), (1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match=r"epsilon|delta|budget"):
            FastBudgetAccountant(*budget)


@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["accountant"].finalized
    assert {key for key, _ in scope["answers"]} == {"a", "b"}


@pytest.mark.parametrize("counts", [(1, 40), (40, 1)])
def test_no_part_of_a_pipeline_is_above_the_budget(counts):
    requests = [GAUSSIAN | {"count": counts[0]}, LAPLACE | {"count": counts[1]}]
    for order in (requests, requests[::-1]):
        _, specs = computed(FastBudgetAccountant, order)
        for spec in specs:
            job, _ = job_of([spec])
            assert fa.epsilon_lower(job, delta=DELTA) <= EPSILON * (1.0 + 1e-9)
