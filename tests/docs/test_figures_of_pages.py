"""More figures in prose: those of adapters' pages, of README's comments, and of pages that quote each other."""

import json
import math
import re
from pathlib import Path

import pytest

import fastacct as fa
from bench import limits
from fastacct.plot.grids import MAP_CELLS
from fastacct.reports.sections import HALF, LARGE_DELTA, WEAK
from tests.docs.test_figures import RUN, agrees

ROOT = Path(__file__).parents[2]
README = {"records": 50_000, "batch_size": 512, "epochs": 30, "delta": 1e-6}
SMALL = {"records": 1000, "batch_size": 50, "epochs": 3, "noise_multiplier": 1.0, "delta": 1e-5}
MEMBERS = fa.Gaussian(1.117).poisson(0.01024) * 2930
CASES = json.loads((ROOT / "fastacct/conformance/cases.json").read_text())["cases"]
ORDER = {"sampling": "shuffled", "neighbors": "zero_out"}
PRINTED = README | {"delta": 1e-5}
FIXED = {"sampling": "fixed_size", "neighbors": "replace_one"}
CUT = {"sampling": "truncated", "at_most": 512, "neighbors": "zero_out"}
OF_98 = -(-(2**24) // 98) / 2**24
TRUNCATED = {"records": 10_000, "batch_size": 100, "steps": 1000, "sampling": "truncated", "at_most": 150}


def up(value, digits=4):
    """An upper bound as pages print it."""
    return math.ceil(value * 10**digits) / 10**digits


def down(value, digits):
    """A lower one."""
    return math.floor(value * 10**digits) / 10**digits


def pure(epsilon, count):
    return fa.epsilon(fa.PureDP(epsilon) * count, delta=1e-6)


def fitting(epsilon, budget):
    """How many pure releases fit."""
    return next(n for n in range(1, 10_000) if pure(epsilon, n + 1) > budget)


def noise_for(kind, count=1):
    return fa.calibrate(lambda noise: kind(noise) * count, epsilon=1.0, delta=1e-6)


def share_too_much(run):
    return 100.0 * (fa.dpsgd.epsilon(**run, accountant=fa.RDP()) / fa.dpsgd.epsilon(**run) - 1.0)


def wrong_of(accountant):
    """Answers on the wrong side, in the table that bench.conformance wrote."""
    row = re.search(rf"(?m)^\| {accountant} \|.*", (ROOT / "docs/backends/conformance.md").read_text())[0].split("|")
    return int(row[4].strip(" *")), int(row[3])


def of_24_bits(length):
    """What Opacus' rounding of the rate adds to epsilon, in percent."""
    run = {"noise_multiplier": 1.0, "steps": length, "delta": 1e-6}
    rates = 1 / length, -(-(2**24) // length) / 2**24
    plain, drawn = (fa.dpsgd.epsilon(sample_rate=rate, **run) for rate in rates)
    return 100.0 * (drawn / plain - 1.0)


def users(size):
    """Of so many examples each: 5 epochs of 10,000 examples, as compute_dp_sgd_privacy counts their steps."""
    return (fa.Gaussian(1.0).poisson(64 / 10_000) * 782).group(size)


def margin(queries, beta, epsilon=1.0):
    """Published margin of the threshold over the exact one."""
    exact = fa.utility(fa.AboveThreshold(epsilon), queries=queries).quantile(beta)
    return 8.0 * math.log(2.0 * queries / beta) / epsilon / exact


FIGURES = [
    (
        "README.md",
        r"# Rényi DP asks for (.*)\n",
        lambda: [up(fa.dpsgd.noise_multiplier(epsilon=3, **README, accountant=fa.RDP()), 3)],
    ),
    (
        "README.md",
        r"Opacus draws with probability 1/98 here, which gives (.*): ask with `loader=`",
        lambda: [up(fa.dpsgd.epsilon(noise_multiplier=1.117, sample_rate=OF_98, steps=2940, delta=1e-6), 3)],
    ),
    (
        "README.md",
        r"these are 2,940 steps: (.*)\.\n",
        lambda: [up(fa.dpsgd.epsilon(noise_multiplier=1.117, sample_rate=512 / 50_000, steps=2940, delta=1e-6), 3)],
    ),
    (
        "README.md",
        r"neighbors=\"zero_out\"\)` is (.*) here",
        lambda: [up(fa.dpsgd.epsilon(noise_multiplier=1.117, **README, **ORDER), 3)],
    ),
    (
        "docs/loaders.md",
        r"its true epsilon is at least (.*), where (.*) is printed",
        lambda: [
            down(fa.dpsgd.epsilon_lower(noise_multiplier=1.0, **README, **ORDER), 2),
            fa.dpsgd.epsilon(noise_multiplier=1.0, **README),
        ],
    ),
    (
        "docs/samplers.md",
        r"the truth is at least (.*)\. Its",
        lambda: [down(fa.dpsgd.epsilon_lower(noise_multiplier=1.0408, **PRINTED, **FIXED), 2)],
    ),
    (
        "docs/samplers.md",
        r"So the proved upper end, (.*), is five times",
        lambda: [up(fa.dpsgd.epsilon(noise_multiplier=1.0408, **PRINTED, **CUT), 2)],
    ),
    (
        "docs/howto/pipeline.md",
        r"Alone the statistics cost (.*), much",
        lambda: [fa.epsilon(fa.Laplace(20.0) * 5, delta=1e-5)],
    ),
    ("README.md", r"finds more than (.*) % of the members at 1 %", lambda: [100 * fa.tpr_at_fpr(MEMBERS, 0.01)]),
    ("README.md", r"\[(\d+) cases with a known answer", lambda: [len(CASES)]),
    (
        "docs/references.md",
        r"\(noise multiplier (1.117), Poisson sampling .*, (2.*) steps\)\. This is \((.*), 10⁻⁶\)",
        lambda: [1.117, math.ceil(30 * 50_000 / 512), fa.dpsgd.epsilon(noise_multiplier=1.117, **README)],
    ),
    (
        "docs/attacks.md",
        r"misses at least (.*) % of the members",
        lambda: [100 * fa.tradeoff(fa.Gaussian(1.0).poisson(0.01) * 1000, 0.01)],
    ),
    ("docs/attacks.md", r"rate of 0.3 it is (.*)\. Where", lambda: [fa.tradeoff(fa.Gaussian(0.1), 0.3)]),
    ("README.md", r"\[(\d+) of its (\d+) answers are too small", lambda: [*wrong_of("dp_accounting PLD")]),
    ("docs/audit.md", r"Dividing the level by the number of thresholds would give (.*)\.\n", lambda: [0.025 / 1000]),
    (
        "docs/choosing.md",
        r"the price of Rényi DP: (\d+) % without sampling, (\d+) % with it",
        lambda: [
            share_too_much(RUN | {"noise_multiplier": 10.0, "sample_rate": 1.0, "steps": 100}),
            share_too_much(RUN),
        ],
    ),
    ("docs/course/1_what_privacy_means.md", r"log 3 = (.*) by 0.6/0.2", lambda: [math.log(3.0)]),
    ("docs/course/1_what_privacy_means.md", r"delta is (\d+) times 1/n", lambda: [0.05 * 10_000]),
    (
        "docs/course/2_mechanisms.md",
        r"For pure (.*)-DP .* b = 10/2.254 = (.*) on each coordinate, a standard deviation of (.*), where",
        lambda: [e := fa.epsilon(fa.Gaussian(2.0), delta=1e-6), 10.0 / e, 10.0 / e * math.sqrt(2.0)],
    ),
    ("docs/course/2_mechanisms.md", r"the logarithm of k, by (.*) for every factor of ten", lambda: [4 * math.log(10)]),
    (
        "docs/course/5_dp_sgd.md",
        r"Rényi divergences give (\d+) % too much",
        lambda: [
            share_too_much({"noise_multiplier": 1.0, "batch_size": 256, "records": 60_000, "epochs": 10, "delta": 1e-5})
        ],
    ),
    (
        "docs/course/5_dp_sgd.md",
        r"a sixteenth of it, for (.*) times the epsilon",
        lambda: [
            fa.dpsgd.epsilon(noise_multiplier=1.0, records=60_000, epochs=10, delta=1e-5, batch_size=4096)
            / fa.dpsgd.epsilon(noise_multiplier=1.0, records=60_000, epochs=10, delta=1e-5, batch_size=256)
        ],
    ),
    (
        "docs/howto/opacus.md",
        r"PRV is in (\d+) of (\d+), and GDP in (\d+)\.",
        lambda: [*wrong_of("Opacus prv"), wrong_of("Opacus gdp")[0]],
    ),
    (
        "docs/howto/opacus.md",
        r"1,000 batches that adds (.*) % to epsilon, in one of 50,000 batches (.*) %",
        lambda: [of_24_bits(1000), of_24_bits(50_000)],
    ),
    ("docs/reports.md", r"attacks may recognize more than (\d+) % of the records", lambda: [100 * WEAK]),
    ("docs/reports.md", r"Above (\d+) % recognized", lambda: [100 * HALF]),
    ("docs/reports.md", r"Take a delta of at most a (tenth) of 1 / records", lambda: [LARGE_DELTA]),
    ("docs/reports.md", r"fewer than (\d) by (\d) cells as a table", lambda: [MAP_CELLS, MAP_CELLS]),
    ("docs/plot.md", r"of fewer than (\d) by (\d) cells a table", lambda: [MAP_CELLS, MAP_CELLS]),
    (
        "docs/samplers.md",
        r"it prints the upper end, (.*)\.\n",
        lambda: [up(fa.dpsgd.epsilon(**README | {"delta": 1e-5}, noise_multiplier=1.0408, **ORDER), 2)],
    ),
    (
        "docs/utility.md",
        r"It is (.*) to (.*) times the exact one for a hundred .* it is (.*) to (.*) times",
        lambda: [margin(10**9, 1e-4), margin(100, 0.3), margin(1, 1e-4), margin(1, 0.3)],
    ),
    (
        "docs/backends/opacus.md",
        r"batches have at least (.*)\. Here it is (.*), which",
        lambda: [
            fa.dpsgd.epsilon_bounds(**SMALL, **ORDER).lower - 0.005,
            fa.dpsgd.epsilon(**SMALL, **ORDER),
        ],
    ),
    ("docs/backends/autodp.md", r"\| 2.1078, in 31 ms \| (.*), in", lambda: [up(fa.dpsgd.epsilon(**RUN))]),
    (
        "docs/backends/flower.md",
        r"\| epsilon[^|]* \| (.*) \| (.*) \|\n",
        lambda: [up(fa.dpsgd.epsilon(**RUN, accountant=fa.RDP())), up(fa.dpsgd.epsilon(**RUN))],
    ),
    (
        "docs/backends/jax_privacy.md",
        r"\| epsilon of 1,000 steps .* 1.8283, in 870 ms \| (.*), in",
        lambda: [up(fa.dpsgd.epsilon(**RUN))],
    ),
    (
        "docs/backends/jax_privacy.md",
        r"\| number of steps for epsilon 2 \| .* \| (.*), in 10 ms",
        lambda: [fa.dpsgd.steps(epsilon=2, noise_multiplier=1.0, sample_rate=0.01, delta=1e-5)],
    ),
    (
        "docs/backends/jax_privacy.md",
        r"\| batches of at most 150 \| .* \| (.*), in 5.1 s",
        lambda: [up(fa.dpsgd.epsilon(noise_multiplier=1.0, delta=1e-5, **TRUNCATED))],
    ),
    ("docs/backends/diffprivlib.md", r"\| 100 times 0.1 \| .* \| (.*), in", lambda: [up(pure(0.1, 100))]),
    ("docs/backends/diffprivlib.md", r"\| 1,000 times 0.02 \| .* \| (.*), in", lambda: [up(pure(0.02, 1000))]),
    ("docs/backends/diffprivlib.md", r"that fit into epsilon 3 \| 122 \| (\d+) \|", lambda: [fitting(0.05, 3.0)]),
    (
        "docs/backends/opendp.md",
        r"\| epsilon \| .* \| (.*), in",
        lambda: [up(fa.epsilon(fa.Gaussian(5.0) * 100, delta=1e-6))],
    ),
    (
        "docs/backends/pipelinedp.md",
        r"\| 30 Gaussian mechanisms \| .* \| (.*), in 2 ms",
        lambda: [up(noise_for(fa.Gaussian, 30))],
    ),
    (
        "docs/backends/pipelinedp.md",
        r"\| 30 Laplace mechanisms \| .* \| (.*), in 80 ms",
        lambda: [up(math.sqrt(2.0) * noise_for(fa.Laplace, 30))],
    ),
    (
        "docs/backends/pipelinedp.md",
        r"\| 1 Gaussian of sensitivity 2 \| .* \| (.*), in 2 ms",
        lambda: [up(noise_for(fa.Gaussian))],
    ),
    ("docs/backends/prv_accountant.md", r"1.8384, in 520 ms \| (.*), in", lambda: [up(fa.dpsgd.epsilon(**RUN), 10)]),
    (
        "docs/backends/prv_accountant.md",
        r"\| 0.9604, in 20.7 s \| (.*), in",
        lambda: [fa.dpsgd.noise_multiplier(epsilon=2.0, sample_rate=0.01, steps=1000, delta=1e-5)],
    ),
    (
        "docs/backends/tf_privacy.md",
        r"\| 6.425 \| (.*) \|\n.*\| inf \| (.*) \|",
        lambda: [up(fa.epsilon(users(size), delta=1e-6), 3) for size in (3, 10)],
    ),
    (
        "docs/course/1_what_privacy_means.md",
        r"`fa.epsilon\(count \* 100, delta=1e-6\)` is (.*)\.\n",
        lambda: [up(fa.epsilon(fa.Laplace(1.0) * 100, delta=1e-6), 1)],
    ),
    (
        "docs/course/3_composition.md",
        r"(4.*) is the smallest epsilon that is true for all mechanisms that are 0.1-DP",
        lambda: [pure(0.1, 100)],
    ),
    (
        "docs/course/4_renyi_zcdp_gdp.md",
        r"The losses of one release have mean (.*) and variance (.*)\. ",
        lambda: [(loss := fa.privacy_loss(fa.Gaussian(5.0))).mean.upper, loss.variance.upper],
    ),
    (
        "docs/sweeps.md",
        r"two cores compute (1e7) exact cells \((\d+) noise multipliers, (\d+) rates, (\d+) .*, (\d+) deltas\)",
        lambda: [250 * 100 * 40 * 10, 250, 100, 40, 10],
    ),
    (
        "docs/backends/riskcal.md",
        r"1.02512, in 15 s \| (.*), in",
        lambda: [fa.calibrate(lambda noise: fa.Gaussian(noise).poisson(0.002) * 10_000, advantage=0.1)],
    ),
]
TENTH = {"tenth": "0.1"}


@pytest.mark.parametrize(("page", "sentence", "found"), FIGURES, ids=[f"{one[0]}-{i}" for i, one in enumerate(FIGURES)])
def test_a_sentence_has_the_figures_of_its_call(page, sentence, found):
    said = re.search(sentence, (ROOT / page).read_text())
    assert said, sentence
    for printed, value in zip(said.groups(), found(), strict=True):
        assert agrees(TENTH.get(printed, printed), value), (printed, value)


def test_the_table_of_limits_has_the_questions_of_its_command():
    table = limits.PAGE.read_text().split(limits.MARK)[1]
    rows = [row.strip("| ").split(" | ")[:2] for row in table.splitlines() if row.startswith("| ")][1:]
    assert rows == [[name, f"{count:,}"] for name, count, _ in limits.ROWS]
    mean, *_, certified = limits.PAGE.read_text().split(limits.MARK)[1].splitlines()[3].split(" | ")[2:]
    said = re.search(r"from 0.3 on (\S+ %) are, in (\S+) ms", (ROOT / "README.md").read_text())
    assert (said[1], float(said[2])) == (certified.strip(" |"), float(mean.removesuffix(" us")) / 1000)
