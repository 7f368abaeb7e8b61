"""Against users: no number of ours for a training loop is below the lower bound that the engine proves of this loop.

Every sampler of `fastacct.dpsgd`, in every accountant and adapter that answers or refuses it.  Adapters of libraries
that are not installed are left out; beside its library each runs by `make backends`.
"""

import itertools
import re
from types import SimpleNamespace

import pytest

import fastacct as fa
from fastacct.accountants.batching import SAMPLINGS
from fastacct.compat import dp_events, jobs, tf_privacy
from fastacct.compat.prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

DELTA = 1e-5
SIZES = [(1.0, 1000, 50, 3), (2.0, 40, 20, 5), (1.5, 60, 6, 2)]
"""Noise multiplier, records, batch size (a divisor), epochs."""
RELATIONS = {
    "poisson": ("add_remove", "zero_out", "replace_one"),
    "fixed_size": ("add_remove", "zero_out", "replace_one"),
    "with_replacement": ("add_remove", "zero_out", "replace_one"),
    "truncated": ("add_remove", "zero_out", "replace_one"),
    "cyclic": ("add_remove", "zero_out", "replace_one"),
    "allocation": ("add_remove", "zero_out"),
    "shuffled": ("zero_out", "replace_one"),
}
THEIRS = {"ADD_OR_REMOVE_ONE": "add_remove", "REPLACE_ONE": "replace_one", "REPLACE_SPECIAL": "zero_out"}
"""Relations of dp_accounting."""


class Loop(SimpleNamespace):
    """A training loop: how batches are drawn, and its sizes."""

    @property
    def steps(self):
        return self.epochs * self.records // self.batch

    @property
    def rate(self):
        return self.batch / self.records

    @property
    def at_most(self):
        return int(1.1 * self.batch)

    def keywords(self):
        run = {"noise_multiplier": self.noise, "records": self.records, "batch_size": self.batch, "epochs": self.epochs}
        more = {"truncated": {"at_most": self.at_most}, "cyclic": {"bands": 2}}.get(self.sampling, {})
        return run | more | {"sampling": self.sampling}

    def lower(self, neighbors):
        if neighbors not in self.known:
            bounds = fa.dpsgd.epsilon_bounds(**self.keywords(), delta=DELTA, neighbors=neighbors)
            self.known[neighbors] = bounds.lower
        return self.known[neighbors]


LOOPS = [
    Loop(sampling=sampling, noise=noise, records=records, batch=batch, epochs=epochs, known={})
    for sampling, (noise, records, batch, epochs) in itertools.product(SAMPLINGS, SIZES)
]
FULL = [pytest.param(loop, id=f"{loop.sampling}-{loop.noise}") for loop in LOOPS]


def check(loop, how, *given):
    """Whether the adapter answers, and that no answer is below what is proved from below, though it refuses another."""
    found = []
    try:
        for neighbors, epsilon in how(loop, *given):
            found.append(neighbors)
            assert epsilon >= loop.lower(neighbors), (loop, neighbors)
    except (ValueError, TypeError, NotImplementedError) as refusal:
        if re.search("unexpected keyword|positional argument|unpack", str(refusal)):  # a wrong call
            raise
        return False
    return bool(found)


def test_every_sampler_and_relation_is_asked():
    assert set(RELATIONS) == set(SAMPLINGS)
    for loop in LOOPS[:: len(SIZES)]:
        for neighbors in ("add_remove", "zero_out", "replace_one"):
            if neighbors not in RELATIONS[loop.sampling]:
                with pytest.raises(ValueError, match="not supported"):
                    loop.lower(neighbors)
    assert sum(loop.lower(RELATIONS[loop.sampling][0]) > 0.0 for loop in LOOPS) >= len(LOOPS) - 2


@pytest.mark.parametrize("loop", FULL)
@pytest.mark.parametrize("accountant", [fa.Exact(), fa.RDP(orders=(2, 4, 8, 16, 32))], ids=repr)
def test_no_accountant(loop, accountant):
    def how(loop):
        for neighbors in RELATIONS[loop.sampling]:
            asked = {"delta": DELTA, "neighbors": neighbors, "accountant": accountant}
            yield neighbors, fa.dpsgd.epsilon(**loop.keywords(), **asked)

    assert check(loop, how)


# -- adapters that need no library ------------------------------------------------------------------------------------


def tensorflow(loop):
    """The line for any order, and the number of Poisson samples, each for the loop that it names."""
    sizes = {"number_of_examples": loop.records, "batch_size": loop.batch, "num_epochs": loop.epochs}
    rest = {"noise_multiplier": loop.noise, "delta": DELTA, "used_microbatching": False}
    text = tf_privacy.compute_dp_sgd_privacy_statement(**sizes, **rest)
    any_order, sampled = (float(line.split()[-1]) for line in text.splitlines() if line.startswith("    Epsilon"))
    if loop.sampling == "shuffled":
        yield "zero_out", any_order
    if loop.sampling == "poisson":
        yield "add_remove", sampled
        with pytest.warns(tf_privacy.PoissonWarning):
            printed = tf_privacy.compute_dp_sgd_privacy(loop.records, loop.batch, loop.noise, loop.epochs, DELTA)
        yield "add_remove", printed[0]


def prv(loop):
    if loop.sampling == "poisson":
        step = PoissonSubsampledGaussianMechanism(loop.rate, loop.noise)
        yield "add_remove", PRVAccountant([step], None, 0.0, [loop.steps]).compute_epsilon(DELTA, [loop.steps])[2]


def event(name, **fields):
    return type(name, (SimpleNamespace,), {"__module__": "dp_accounting.dp_event"})(**fields)


def as_event(loop, event=event):
    """The event that dp_accounting has for a step, or an epoch, and how often it happens; None where it has none."""
    gaussian = event("GaussianDpEvent", noise_multiplier=loop.noise)
    sizes = {"source_dataset_size": loop.records, "sample_size": loop.batch, "event": gaussian}
    rows = {
        "poisson": ("PoissonSampledDpEvent", {"sampling_probability": loop.rate, "event": gaussian}),
        "fixed_size": ("SampledWithoutReplacementDpEvent", sizes),
        "with_replacement": ("SampledWithReplacementDpEvent", sizes),
        "truncated": (
            "TruncatedSubsampledGaussianDpEvent",
            {
                "dataset_size": loop.records,
                "sampling_probability": loop.rate,
                "truncated_batch_size": loop.at_most,
                "noise_multiplier": loop.noise,
            },
        ),
        "cyclic": ("PoissonSampledDpEvent", {"sampling_probability": 2 * loop.rate, "event": gaussian}),
        "allocation": (
            "RandomAllocationDpEvent",
            {"event": gaussian, "num_steps": loop.records // loop.batch, "num_selected": 1},
        ),
    }
    if loop.sampling not in rows:
        return None
    name, fields = rows[loop.sampling]
    counts = {"allocation": loop.epochs, "cyclic": -(-loop.steps // 2)}
    return event(name, **fields), counts.get(loop.sampling, loop.steps)


def events(loop):
    if (found := as_event(loop)) is None:
        return
    for neighbors in RELATIONS[loop.sampling]:
        job = dp_events.times(dp_events.job_of(found[0], neighbors), found[1])
        yield neighbors, fa.epsilon(job.process, delta=DELTA, neighbors=neighbors)


def converted(loop):
    """What is written down for another library, read as it reads it."""
    step = fa.Gaussian(loop.noise)
    if loop.sampling == "poisson":
        rows = jobs.to_opacus(step.poisson(loop.rate) * loop.steps)
        yield "add_remove", fa.dpsgd.epsilon(history=rows, delta=DELTA)
        state = jobs.to_flower(step.poisson(loop.rate) * loop.steps, loop.records, delta=DELTA)
    elif loop.sampling == "fixed_size":
        job = step.fixed_size(loop.batch, loop.records) * loop.steps
        state = jobs.to_flower(job, loop.records, delta=DELTA, neighbors="replace_one")
    else:
        return
    about, count = state["compositions"][0]["event"], state["compositions"][0]["count"]
    run = {"noise_multiplier": about["noise_multiplier"], "batch_size": about["sample_size"], "steps": count}
    neighbors = "add_remove" if loop.sampling == "poisson" else "replace_one"
    asked = {"records": about["population_size"], "neighbors": neighbors, "sampling": loop.sampling}
    yield neighbors, fa.dpsgd.epsilon(**run, **asked, delta=DELTA)


PLAIN = {"tf_privacy": tensorflow, "prv_accountant": prv, "dp_events": events, "jobs": converted}
ANSWERED = {"tf_privacy": 2, "prv_accountant": 1, "dp_events": 6, "jobs": 2}
"""How many samplers each answers."""


@pytest.mark.parametrize("name", PLAIN)
def test_no_adapter_without_a_library(name):
    answered = {loop.sampling for loop in LOOPS if check(loop, PLAIN[name])}
    assert len(answered) == ANSWERED[name]


def test_a_number_for_other_batches_is_caught():
    """The number of Poisson samples, printed for a shuffled loader; no noise halved for batches of fixed size."""

    def poisson(loop):
        for neighbors in RELATIONS[loop.sampling]:
            run = {"noise_multiplier": loop.noise, "sample_rate": loop.rate, "steps": loop.steps}
            yield neighbors, fa.dpsgd.epsilon(**run, delta=DELTA)

    for sampling in ("shuffled", "fixed_size", "with_replacement"):
        for loop in (loop for loop in LOOPS if loop.sampling == sampling):
            with pytest.raises(AssertionError):
                check(loop, poisson)


# -- adapters beside their library ------------------------------------------------------------------------------------


BESIDE = pytest.mark.filterwarnings("ignore")  # of the libraries


def library(name):
    """The adapter; the test is left out where its library is not installed."""
    try:
        return __import__(f"fastacct.compat.{name}", fromlist=["_"])
    except ModuleNotFoundError:
        pytest.skip(f"the library of the adapter {name} is not installed")


def all_loops(how, *given, loops=LOOPS):
    return {loop.sampling for loop in loops if check(loop, how, *given)}


SMALL = LOOPS[len(SIZES) - 1 :: len(SIZES)]
"""For adapters whose library asks many times."""


def of_jobs(job_epsilon, relations):
    """For adapters that take our jobs."""

    def how(loop):
        from fastacct.accountants.run import process_of

        for neighbors in set(RELATIONS[loop.sampling]) & set(relations):
            yield neighbors, job_epsilon(process_of(loop.keywords()), neighbors)

    return all_loops(how, loops=SMALL)


@BESIDE
def test_not_autodp():
    fast = library("autodp")
    asked = of_jobs(lambda job, how: fast.FastMechanism(job, how).get_approxDP(DELTA), ("add_remove", "replace_one"))
    assert asked == set(SAMPLINGS)


@BESIDE
def test_not_opendp():
    fast = library("opendp")
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    every = ("add_remove", "zero_out", "replace_one")
    asked = of_jobs(lambda job, how: fast.privacy_profile(job, neighbors=how).epsilon(DELTA), every)
    assert asked == set(SAMPLINGS)


@BESIDE
@pytest.mark.parametrize("method", ["exact", "rdp"])
def test_not_dp_accounting(method):
    fast = library("dp_accounting")
    kinds, relations = fast.dp_accounting.dp_event, fast.dp_accounting.NeighboringRelation

    def theirs(name, **fields):
        return getattr(kinds, name, SimpleNamespace)(**fields)

    def how(loop, relation):
        found = as_event(loop, theirs)
        if found is not None and THEIRS[relation.name] in RELATIONS[loop.sampling]:
            accountant = fast.FastAccountant(relation, method).compose(*found)
            yield THEIRS[relation.name], accountant.get_epsilon(DELTA)

    for relation in relations:
        asked = {"poisson", "fixed_size", "with_replacement", "truncated", "cyclic"}
        if hasattr(kinds, "RandomAllocationDpEvent") and relation is not relations.REPLACE_ONE:
            asked.add("allocation")
        assert all_loops(how, relation) == asked


@BESIDE
@pytest.mark.parametrize("method", ["exact", "rdp"])
def test_not_jax_privacy(method):
    fast = library("jax_privacy")
    if not hasattr(fast.jax_privacy, "DpsgdTrainingAccountant"):
        pytest.skip("this jax_privacy has no training accountants")
    kinds = fast.jax_privacy.SamplingMethod

    def how(loop, relation):
        neighbors = THEIRS[relation.name]
        more = {
            "poisson": {},
            "fixed_size": {"sampling_method": kinds.FIXED_BATCH_SIZE},
            "truncated": {"truncated_batch_size": loop.at_most},
            "cyclic": {"cycle_length": 2},
        }.get(loop.sampling)
        if more is not None and neighbors in RELATIONS[loop.sampling]:
            config = fast.FastAccountantConfig(neighboring_relation=relation, method=method)
            run = {"noise_multipliers": loop.noise, "num_samples": loop.records, "batch_size": loop.batch}
            params = fast.jax_privacy.DpParams(**run, **more, delta=DELTA)
            yield neighbors, fast.jax_privacy.DpsgdTrainingAccountant(config).compute_epsilon(loop.steps, params)

    for relation in fast.dp_accounting.NeighboringRelation:
        assert all_loops(how, relation, loops=SMALL) == {"poisson", "fixed_size", "truncated", "cyclic"}


@BESIDE
def test_not_flower():
    fast = library("flower")
    from flwr.supercore.privacy_accounting import NeighboringRelation, SamplingMethod

    def how(loop):
        add, replace = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
        models = {
            "poisson": [(SamplingMethod.POISSON, add), (SamplingMethod.NO_AMPLIFICATION, add)],
            "fixed_size": [(SamplingMethod.WITHOUT_REPLACEMENT, replace), (SamplingMethod.NO_AMPLIFICATION, add)],
        }
        for method, relation in models.get(loop.sampling, []):
            accountant = fast.FastAccountant(fast.flwr.PrivacyConfig(DELTA, loop.records, relation, method, None))
            accountant.compose(fast.flwr.GaussianPrivacyEvent(loop.noise, loop.batch, loop.records), loop.steps)
            yield "replace_one" if relation is replace else "add_remove", accountant.get_epsilon(DELTA)

    assert all_loops(how) == {"poisson", "fixed_size"}


@BESIDE
def test_not_riskcal():
    fast = library("riskcal")

    def how(loop):
        accountant = fast.FastAccountant()
        record = make_private(accountant, None, loop.sampling == "poisson", loop.rate)
        for _ in range(loop.steps):
            record(SimpleNamespace(noise_multiplier=loop.noise, accumulated_iterations=1))
        yield "add_remove", accountant.get_epsilon(delta=DELTA)

    assert all_loops(how) == {"poisson"}


def make_private(accountant, data_loader, poisson_sampling, sample_rate):
    """Opacus asks for the hook with its arguments as local variables."""
    return accountant.get_optimizer_hook_fn(sample_rate=sample_rate)


@BESIDE
def test_not_diffprivlib():
    """Of releases that are known by (epsilon, delta) alone."""
    accountant = library("diffprivlib").FastBudgetAccountant(slack=DELTA)
    for _ in range(30):
        accountant.spend(0.1, 1e-7)
    epsilon, delta = accountant.total()
    assert epsilon >= fa.epsilon_bounds(fa.ApproxDP(0.1, 1e-7) * 30, delta=min(1.0, 1.000001 * delta)).lower > 0.0


@BESIDE
def test_not_pipelinedp():
    """The noise that it sets keeps the budget, whatever is asked of noise."""
    fast = library("pipelinedp")
    for kind in ("LAPLACE", "GAUSSIAN"):
        accountant = fast.FastBudgetAccountant(1.0, DELTA)
        spec = accountant.request_budget(getattr(fast.budget_accounting.MechanismType, kind), count=20)
        accountant.compute_budgets()
        noise = spec.noise_standard_deviation
        one = fa.Gaussian(noise) if kind == "GAUSSIAN" else fa.Laplace(noise / 2.0**0.5)
        assert 1.0 >= fa.epsilon_bounds(one * 20, delta=DELTA).lower > 0.9


@BESIDE
@pytest.mark.parametrize("given", [{}, {"epochs": 2, "left": 3}], ids=["whole epochs", "epochs that are left early"])
def test_not_opacus(given):
    fast = library("opacus")
    from torch.utils.data import DataLoader, RandomSampler

    def loader(loop):
        if loop.sampling == "with_replacement":
            return DataLoader(range(loop.records), loop.batch, sampler=RandomSampler(range(loop.records), True))
        return DataLoader(range(loop.records), loop.batch, shuffle=loop.sampling == "shuffled")

    def how(loop):
        if loop.sampling not in ("poisson", "shuffled", "with_replacement"):
            return
        accountant, drawn = fast.FastAccountant(), loader(loop)
        record = make_private(accountant, drawn, loop.sampling == "poisson", 1 / len(drawn))
        for _ in range(loop.epochs):
            for i, _ in enumerate(drawn):
                if i == given.get("left"):
                    break
                record(SimpleNamespace(noise_multiplier=loop.noise, accumulated_iterations=1))
        if not given or loop.sampling == "shuffled":  # a record may be in what was not left out
            yield "zero_out" if loop.sampling == "shuffled" else "add_remove", accountant.get_epsilon(DELTA)

    assert all_loops(how) == ({"poisson", "shuffled"} if not given else {"shuffled"})
