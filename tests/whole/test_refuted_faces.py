"""Against users, the rest: verbs, the command line, reports, files, meters and scripts, for each sampler and relation.

A number is an epsilon, or noise that is said to keep one.  None is below the lower bound of the same loop; a relation
that the engine refuses for a sampler is refused by all.  The tables below fail where something new stands in none.
"""

import itertools
import json
import pkgutil
import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
import fastacct.compat
import fastacct.training
from fastacct.__main__ import COMMANDS
from fastacct.accountants.batching import SAMPLINGS
from fastacct.accountants.run import process_of
from fastacct.core.relations import ALL
from fastacct.reports.written import FORMATS
from fastacct.scripts.answers import check
from tests.command import call
from tests.scripts.test_answers import SCRIPTS, bounds
from tests.whole import test_refuted
from tests.whole.test_refuted import DELTA, SMALL

TARGET = 3.0
STEPPED = ("poisson", "fixed_size", "with_replacement", "truncated", "cyclic")


@cache
def least(sampling, neighbors, noise=None):
    """What is proved from below of the loop with this sampler; None where the engine refuses the relation."""
    loop = next(loop for loop in SMALL if loop.sampling == sampling)
    run = loop.keywords() | ({} if noise is None else {"noise_multiplier": noise})
    try:
        return fa.dpsgd.epsilon_bounds(**run, delta=DELTA, neighbors=neighbors).lower
    except ValueError:
        return None


# -- what is asked -----------------------------------------------------------------------------------------------------


def verb(run, neighbors):
    yield fa.dpsgd.epsilon(**run, delta=DELTA, neighbors=neighbors)
    yield fa.dpsgd.epsilon(**run, delta=[1e-3, DELTA], neighbors=neighbors)[1]
    yield fa.epsilon(process_of(run), delta=DELTA, neighbors=neighbors)
    yield fa.explain(**run, delta=DELTA, neighbors=neighbors).upper


def pld(run, neighbors):
    yield fa.epsilon(process_of(run), delta=DELTA, neighbors=neighbors, accountant=fa.PLD())


def older(run, neighbors):
    for accountant in (fa.accountants.AdvancedComposition(), fa.accountants.ZCDPComposition()):
        yield fa.epsilon(process_of(run), delta=DELTA, neighbors=neighbors, accountant=accountant)


def at_its_delta(run, neighbors):
    lower = least(run["sampling"], neighbors) or 1.0
    yield lower * fa.dpsgd.delta(**run, epsilon=0.999 * lower, neighbors=neighbors) / DELTA


def divergences(run, neighbors):
    order = 8.0
    divergence = fa.dpsgd.rdp(**run, orders=order, neighbors=neighbors)
    yield fa.textbook.convert.rdp_to_epsilon(order, divergence, DELTA)


def fitted(run, neighbors):
    yield fa.epsilon(fa.Gaussian(1.0 / fa.gdp(**run, neighbors=neighbors).mu), delta=DELTA)


def curve(run, neighbors):
    found = fa.curve.privacy_curve(**run, neighbors=neighbors, points=25)
    yield found.epsilon[np.argmax(found.log_delta_upper <= np.log(DELTA))]


def reported(run, neighbors):
    found = fa.report(**run, delta=DELTA, neighbors=neighbors)
    yield found.numbers["epsilon"]
    yield float(found.summary.split("ε ≤ ")[1].split(" ")[0])
    for format in FORMATS:
        if format not in ("html", "json"):  # pictures, and the numbers themselves
            yield float(re.search(r"(?:ε ≤|varepsilon\$ \$\\leq\$) ([\d.]*\d)", found.render(format))[1])


def written(run, neighbors):
    found = fa.guarantee(**run, delta=DELTA, neighbors=neighbors)
    yield found.epsilon.upper
    yield float(found.to_dict()["epsilon"]["upper"])
    yield float(re.search(r"at most ([\d.]*\d)", found.model_card())[1])


def certified(run, neighbors):
    yield float(fa.certify(**run, delta=DELTA, neighbors=neighbors, digits=2).epsilon)


def composed(run, neighbors):
    accountant = fa.Accountant(epsilon=1e6, delta=DELTA, neighbors=neighbors)
    accountant.compose(process_of(run))
    yield accountant.spent(delta=DELTA)


def metered(run, neighbors):
    run = {name: value for name, value in run.items() if name != "epochs"}
    meter = fa.training.Meter(**run, delta=DELTA, neighbors=neighbors)
    for _ in range(2):
        meter.epoch()
        meter.step(10)
    yield meter.epsilon


def calibrated(run, neighbors):
    """What is needed with the noise that is said to keep the target."""
    run = {name: value for name, value in run.items() if name != "noise_multiplier"}
    noise = fa.dpsgd.noise_multiplier(**run, epsilon=TARGET, delta=DELTA, neighbors=neighbors)
    plan = fa.plan(epsilon=TARGET, delta=DELTA, neighbors=neighbors, **run)
    for found in (noise, float(plan["noise_multiplier"].iloc[0])):
        assert least(run["sampling"], neighbors, found) <= TARGET
        yield float("inf")


def swept(run, neighbors):
    pytest.importorskip("xarray")
    yield fa.sweep(**run, delta=DELTA, neighbors=neighbors).compute()["epsilon"].item()


def words(run):
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in run.items())


def commanded(command):
    """A command's answer with the options of the run, as JSON and as text."""

    def how(run, neighbors):
        told = "--points 12" if command == "curve" else f"--delta {DELTA}"
        line = f"{command} {words(run)} --neighbors {neighbors} {told}"
        found = call(f"{line} --json")
        if found.exit_code == 2:
            raise ValueError(found.stderr)
        assert found.exit_code == 0, found
        document = json.loads(found.stdout)
        if command == "curve":
            rows = document["curves"][0]["points"]
            yield next(row["epsilon"] for row in rows if row["delta_upper"] <= DELTA)
        else:
            found = document["guarantee"]["epsilon"]["upper"] if command == "guarantee" else document["epsilon"]
            yield float(found)
        if command == "epsilon":
            yield float(re.search(r"epsilon <= ([\d.]*\d)", call(line).stdout)[1])

    return how


def command_for_noise(run, neighbors):
    run = {name: value for name, value in run.items() if name != "noise_multiplier"}
    for line in ("noise-multiplier", "plan"):
        found = call(f"{line} {words(run)} --epsilon {TARGET} --delta {DELTA} --neighbors {neighbors} --json")
        if found.exit_code == 2:
            raise ValueError(found.stderr)
        document = json.loads(found.stdout)
        noise = document["noise_multiplier"] if "rows" not in document else document["rows"][0]["noise_multiplier"]
        assert least(run["sampling"], neighbors, noise) <= TARGET
        yield float("inf")


def command_for_steps(run, neighbors):
    own = {name: value for name, value in run.items() if name not in ("epochs", "steps")}
    found = call(f"steps {words(own)} --epsilon {TARGET} --delta {DELTA} --neighbors {neighbors} --json")
    if found.exit_code == 2:
        raise ValueError(found.stderr)
    steps = int(json.loads(found.stdout)["steps"])
    assert fa.dpsgd.epsilon_bounds(**own, steps=steps, delta=DELTA, neighbors=neighbors).lower <= TARGET
    yield float("inf")


def recorded(run, neighbors):
    """A budget in a file, and a job in another one."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"batch_size": run["batch_size"], "records": run["records"]}
        drawn = {
            "poisson": {"poisson": run["batch_size"] / run["records"], "count": 20},
            "fixed_size": {"fixed_size": sizes, "count": 20},
            "allocation": {"allocation": 10, "count": 2},
            "shuffled": {"shuffled": 10, "count": 2},
        }
        if run["sampling"] not in drawn:
            raise ValueError("not asked in a file")
        release = {"mechanism": "Gaussian", "noise_multiplier": run["noise_multiplier"], **drawn[run["sampling"]]}
        Path(folder, "job.json").write_text(json.dumps({"release": [release]}))
        for line in (f"--epsilon 1e6 --delta {DELTA} --neighbors {neighbors}", f"--job {folder}/job.json"):
            found = call(f"budget {folder}/ledger.json {line} --json")
            if found.exit_code == 2:
                raise ValueError(found.stderr)
        yield json.loads(found.stdout)["spent"]


EACH = frozenset(SAMPLINGS)
FACES = {
    "verbs": (verb, EACH),
    "delta": (at_its_delta, EACH),
    "PLD": (pld, EACH),
    "older accountants": (older, {"poisson", "fixed_size", "cyclic"}),
    "rdp": (divergences, EACH),
    "gdp": (fitted, EACH - {"truncated", "shuffled"}),
    "curve": (curve, EACH),
    "report": (reported, EACH),
    "guarantee": (written, EACH),
    "Accountant": (composed, EACH),
    "Meter": (metered, EACH),
    "noise": (calibrated, EACH),
    "sweep": (swept, EACH),
    "fastacct epsilon": (commanded("epsilon"), EACH),
    "fastacct curve": (commanded("curve"), EACH),
    "fastacct report": (commanded("report"), EACH),
    "fastacct guarantee": (commanded("guarantee"), EACH),
    "fastacct budget": (recorded, {"poisson", "fixed_size", "allocation", "shuffled"}),
    "fastacct noise-multiplier": (command_for_noise, EACH),
    "fastacct steps": (command_for_steps, set(STEPPED)),
}
QUICK = (
    "verbs",
    "delta",
    "PLD",
    "older accountants",
    "rdp",
    "Accountant",
    "Meter",
    "fastacct epsilon",
    "fastacct budget",
)
DEAR = ("with_replacement", "truncated")
PROVED = {"certify": certified, "fastacct certify": commanded("certify")}
SUPPORTED = {
    **dict.fromkeys(STEPPED, ("add_remove", "add", "remove", "replace_one", "zero_out")),
    "allocation": ("add_remove", "add", "remove", "zero_out"),
    "shuffled": ("replace_one", "zero_out"),
}
"""Relations that the engine answers."""


def answered(how, loop, relations):
    """Relations with an answer; no answer is below what is proved."""
    found = set()
    for neighbors in relations:
        try:
            numbers = list(how(loop.keywords(), neighbors))
        except ValueError:
            continue
        assert neighbors in SUPPORTED[loop.sampling], (loop, neighbors)
        assert numbers, (loop, neighbors)
        assert min(numbers) >= least(loop.sampling, neighbors), (loop, neighbors, numbers)
        found.add(neighbors)
    return found


SHOWN = pytest.mark.parametrize("loop", SMALL, ids=lambda loop: loop.sampling)


@SHOWN
@pytest.mark.parametrize("name", FACES)
def test_no_answer(name, loop):
    how, samplers = FACES[name]
    asked = ALL if name in QUICK else ALL[:1] if loop.sampling in DEAR else (*ALL[:1], *ALL[3:])
    assert bool(answered(how, loop, {*asked} & {*SUPPORTED[loop.sampling]})) == (loop.sampling in samplers)


@SHOWN
@pytest.mark.parametrize("name", PROVED)
def test_no_certificate(name, loop):
    relations = ("zero_out",) if loop.sampling == "shuffled" else ("add_remove",)
    assert bool(answered(PROVED[name], loop, relations)) == (loop.sampling != "allocation")


@pytest.mark.parametrize("name", FACES)
def test_what_the_engine_refuses_is_refused_by_each(name):
    for loop in SMALL:
        assert not answered(FACES[name][0], loop, set(ALL) - set(SUPPORTED[loop.sampling]))


NUMBERED = {
    (one["number"].get("sampling", "poisson"), one["number"].get("neighbors", "add_remove")): name
    for name, one in SCRIPTS.items()
    if "number" in one
}


@pytest.mark.parametrize("drawn", NUMBERED, ids="-".join)
def test_no_script(drawn):
    one = SCRIPTS[NUMBERED[drawn]]
    (found,) = check(one["script"])
    assert found.epsilon >= bounds(one["number"]).lower > 0.0


def test_a_face_that_says_less_is_caught():
    def less(run, neighbors):
        yield 0.99 * least(run["sampling"], neighbors)

    def poisson(run, neighbors):
        run = {name: run[name] for name in ("noise_multiplier", "records", "batch_size", "epochs")}
        yield fa.dpsgd.epsilon(**run, delta=DELTA)

    for loop in SMALL:
        with pytest.raises(AssertionError):
            answered(less, loop, SUPPORTED[loop.sampling])
        if "replace_one" in SUPPORTED[loop.sampling]:
            with pytest.raises(AssertionError):
                answered(poisson, loop, ("replace_one",))


# -- nothing stands in no table ----------------------------------------------------------------------------------------

ADAPTERS = {
    "autodp": "test_not_autodp",
    "diffprivlib": "test_not_diffprivlib",
    "dp_accounting": "test_not_dp_accounting",
    "dp_events": "events",
    "dp_sampling": "test_not_dp_accounting",
    "flower": "test_not_flower",
    "jax_privacy": "test_not_jax_privacy",
    "jobs": "converted",
    "opacus": "test_not_opacus",
    "opacus_draws": "test_not_opacus",
    "opacus_loaders": "test_not_opacus",
    "opendp": "test_not_opendp",
    "pipelinedp": "test_not_pipelinedp",
    "prv_accountant": "prv",
    "riskcal": "test_not_riskcal",
    "tf_privacy": "tensorflow",
}
"""Modules of `fastacct.compat`, and what asks them in the file beside this."""
TRAINERS = {
    **{name: f"test_{name}" for name in ("flower", "huggingface", "keras", "lightning", "nvflare", "opacus")},
    **{name: f"test_{name}" for name in ("fits", "rounds", "seeds", "kept", "optimizers", "given", "meter")},
}
"""Modules of `fastacct.training`, and the tests of their numbers, beside the libraries."""
PUBLIC = {
    "verbs": "dpsgd epsilon epsilon_bounds explain Exact",
    "delta": "delta delta_bounds",
    "PLD": "PLD",
    "older accountants": "accountants",
    "rdp": "rdp RDP textbook",
    "gdp": "gdp",
    "curve": "curve",
    "report": "report",
    "guarantee": "guarantee read_guarantee",
    "certify": "certify",
    "Accountant": "Accountant",
    "noise": "calibrate plan",
    "sweep": "sweep",
    "chances and errors": "advantage bayes_risk positive_predictive_value privacy_loss tpr_at_fpr tradeoff utility",
    "mechanisms": "ApproxDP DiscreteGaussian Exponential Gaussian Laplace Mechanism Process PureDP RandomizedResponse",
    "and more of them": "ZCDP from_pmf jit mechanism_kit mechanisms sensitivity",
    "lower bounds, from data": "audit",
    "no number": "__version__ loader_guide plot results",
}
COMMANDED = {
    "fastacct epsilon": "epsilon delta rdp",
    "fastacct curve": "curve attack",
    "fastacct report": "report",
    "fastacct guarantee": "guarantee verify",
    "fastacct certify": "certify",
    "fastacct budget": "budget",
    "fastacct noise-multiplier": "noise-multiplier plan sample-rate",
    "fastacct steps": "steps",
    "sweep": "sweep show",
    "scripts": "check-loop",
    "no number of a loop": "audit check-loader explore conformance completion",
}


def names(module):
    return {one.name for one in pkgutil.iter_modules(module.__path__)}


def words_of(table):
    return {name for line in table.values() for name in line.split()}


def test_every_adapter_trainer_verb_command_sampler_and_relation_is_in_a_table():
    assert set(ADAPTERS) == names(fastacct.compat)
    assert all(hasattr(test_refuted, name) for name in ADAPTERS.values())
    assert set(TRAINERS) == names(fastacct.training)
    assert all(Path(__file__).parents[1].joinpath("training", f"{name}.py").exists() for name in TRAINERS.values())
    assert words_of(PUBLIC) == set(dir(fa))
    assert words_of(COMMANDED) == set(COMMANDS)
    assert set(SUPPORTED) == set(SAMPLINGS)
    assert {one for relations in SUPPORTED.values() for one in relations} == set(ALL)
    for sampling, neighbors in itertools.product(SAMPLINGS, ALL):
        assert (least(sampling, neighbors) is not None) == (neighbors in SUPPORTED[sampling])
