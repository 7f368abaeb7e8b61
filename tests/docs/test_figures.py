"""Figures in the prose of pages, each against what the call beside it gives: rounded as they are printed."""

import math
import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct.__main__ import main

DOCS = Path(__file__).parents[2] / "docs"
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
PLAIN = {"noise_multiplier": 10.0, "sample_rate": 1.0, "steps": 100, "delta": 1e-5}
FEW = {"noise_multiplier": 0.3, "sample_rate": 1e-6, "steps": 9, "delta": 1e-5}
SIZED = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 10, "steps": 1000, "delta": 1e-5}
WORKERS = {"noise_multiplier": 0.2, "records": 5, "batch_size": 4, "epochs": 1, "epsilon": 1.0}
ZEROED = {"sampling": "shuffled", "neighbors": "zero_out"}
MNIST = {"records": 60_000, "batch_size": 150, "epochs": 15, "delta": 1e-5}
COURSE = {"noise_multiplier": 1.0, "batch_size": 256, "records": 60_000, "delta": 1e-5}


def both(bounds):
    """The ends of a certified interval that is narrow enough to be printed as one number."""
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper
    return bounds[:2]


def allocated_mean(noise, steps):
    """Mean loss of an epoch of random allocation, by E log Y, Y = X_1 + ... + X_t, the first of them shifted.

    log y is the integral of (exp(-t) - exp(-t y))/t over t > 0, and E exp(-t Y) a product of one-dimensional means.
    """
    z, dz = np.linspace(-14.0, 14.0, 1401, retstep=True)
    density = np.exp(-0.5 * z * z) * dz / math.sqrt(2.0 * math.pi)
    t, dw = np.exp(np.linspace(-60.0, 60.0, 6001)), 0.02
    own, other = (
        np.exp(-t[:, None] * np.exp(z / noise + shift / noise**2)[None, :]) @ density for shift in (0.5, -0.5)
    )
    return float(np.sum(np.exp(-t) - own * other ** (steps - 1))) * dw - math.log(steps)


def sampled_mean(noise, rate, steps):
    """Mean loss of Poisson samples, by quadrature of both parts of the mixture."""
    z, dz = np.linspace(-14.0, 14.0, 20_001, retstep=True)
    density = np.exp(-0.5 * z * z) * dz / math.sqrt(2.0 * math.pi)
    out, drawn = (np.log1p(rate * np.expm1(z / noise + shift / noise**2)) @ density for shift in (-0.5, 0.5))
    return steps * float((1.0 - rate) * out + rate * drawn)


def allocation(noise, steps, epochs, delta):
    """Of one epoch the mean losses, of all of them epsilon: random allocation and Poisson samples."""
    drawn, sampled = fa.Gaussian(noise).allocation(steps), fa.Gaussian(noise).poisson(1.0 / steps)
    of_one = sampled_mean(noise, 1.0 / steps, steps)
    lower, upper, _ = fa.privacy_loss(sampled * steps, neighbors="remove").mean
    assert lower - 1e-9 <= of_one <= upper + 1e-9
    job, other = drawn * epochs, sampled * (steps * epochs)
    return allocated_mean(noise, steps), of_one, *(both(fa.epsilon_bounds(one, delta=delta)) for one in (job, other))


def shuffled(up):
    run = {"noise_multiplier": 1.0, "records": 50_000, "batch_size": 512, "epochs": 30, "delta": 1e-6}
    return [math.ceil(fa.dpsgd.epsilon(**run, **ZEROED) * up) / up]


def limit(run):
    """What the central limit theorem says of mu."""
    return run["sample_rate"] * math.sqrt(run["steps"] * math.expm1(run["noise_multiplier"] ** -2.0))


def accumulated(noise, rate, draws, steps, delta):
    """Independent Poisson samples in a step, and one sample at the sum of their rates."""
    step = fa.Gaussian(noise)
    jobs = step.poisson(rate, draws=int(draws)) * int(steps), step.poisson(rate * draws) * int(steps)
    return [both(fa.epsilon_bounds(job, delta=delta)) for job in jobs]


def share_of_bound(dimension, scale=2.0, epsilon=0.25):
    """True delta of noise in L2, by place along the record's move and distance from that line, in % of the bound."""
    x, h = np.meshgrid(np.linspace(-50.0, 51.0, 2021), np.linspace(0.0, 50.0, 1001), indexing="ij")
    weight = h ** (dimension - 2) * np.where(h == 0.0, 0.5, 1.0)
    p, q = (np.exp(-np.hypot(x - place, h) / scale) * weight for place in (1.0, 0.0))
    truth = np.maximum(p - math.exp(epsilon) * q, 0.0).sum() / q.sum()
    return 100.0 * truth / fa.delta(fa.LaplaceL2(scale), epsilon=epsilon)


def normal(x):
    """Normal distribution function and density."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0)), math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def excess(t):
    """exp(t) less its first two terms."""
    return math.exp(t) - 1.0 - t


FIGURES = [
    ("algorithms/quadrature.md", r"is (0.0753) at \$c = 1\$\. Four times the inverse: \$(53.1) s",
     lambda: [(bracket := 2.0 * normal(-1.0)[0] - normal(1.0)[1]), 4.0 / bracket]),
    ("algorithms/quadrature.md", r"cos\(0.45 \\pi\) = (703.2)\$", lambda: [110.0 / math.cos(0.45 * math.pi)]),
    ("algorithms/quadrature.md", r"64 \\Phi\(-8\)\) = (.*)\$; smaller .* \\Phi\(-8\) = (\S+) \\cdot 10\^\{-16\}\$",
     lambda: [(8.0 * normal(8.0)[1] / (p := normal(-8.0)[0]) + 1.0) / 64.0, 1e16 * p]),
    ("algorithms/arithmetic.md", r"\$t = \(\\ln 2\)/2\$, where \$E_2 = (.*)\$\. In",
     lambda: [excess(math.log(2.0) / 2)]),
    ("algorithms/arithmetic.md", r"\$t = -\(\\ln 2\)/2\$, \$E_2 = (.*)\$ and", lambda: [excess(-math.log(2.0) / 2)]),
    ("algorithms/line.md", r"which \$(1.11) = \\sqrt\{1 \+ 0.475\^2\}\$ bounds", lambda: [math.hypot(1.0, 0.475)]),
    (
        "algorithms/allocation.md",
        r"At noise (0.41) and (12) steps the mean loss under \$P\$ is (.*) an epoch, and (.*) for Poisson sampling: "
        r"with hundreds of epochs epsilon is larger \((.*) and (.*) at (235) epochs and delta (3.8e-6)\)",
        lambda: [0.41, 12, *allocation(0.41, 12, 235, 3.8e-6), 235, 3.8e-6],
    ),
    ("loaders.md", r"here (.*) \(rounded up\)", lambda: shuffled(1000)),
    (
        "loaders.md",
        r"under `zero_out`, the lower end of delta at epsilon 1 is (.*), and the truth is at most (.*)\. The",
        lambda: [
            fa.dpsgd.delta_bounds(**WORKERS, **ZEROED).lower,
            0.8 * fa.delta(fa.Gaussian(0.2), epsilon=1.0, neighbors="zero_out"),
        ],
    ),
    (
        "loaders.md",
        r"epsilon is (.*) for Poisson batches and (.*) for batches of fixed size \(add or remove\). Where a record is "
        r"replaced only bounds are known: report (.*); the truth is at least (.*)\.\n",
        lambda: [
            fa.dpsgd.epsilon(noise_multiplier=2.0, sample_rate=0.01, steps=1000, delta=1e-5),
            fa.dpsgd.epsilon(**SIZED, sampling="fixed_size"),
            fa.dpsgd.epsilon(**SIZED, sampling="fixed_size", neighbors="replace_one"),
            fa.dpsgd.epsilon_bounds(**SIZED, sampling="fixed_size", neighbors="replace_one").lower,
        ],
    ),
    (
        "attacks.md",
        r"theorem says (.*) at every floor. That is not a bound: `fa.dpsgd.epsilon_approx` gives (.*) for this run at "
        r"delta 1e-5, where the certified interval is around (.*)\.\n",
        lambda: [limit(RUN), fa.dpsgd.epsilon_approx(**RUN, accountant=fa.CLT()), both(fa.dpsgd.epsilon_bounds(**RUN))],
    ),
    (
        "mechanisms.md",
        r"for b = (2), epsilon = (0.25) the true delta is (\d+) % of the bound in two dimensions and (\d+) % in three",
        lambda: [2, 0.25, share_of_bound(2), share_of_bound(3)],
    ),
    (
        "choosing.md",
        r"`RDP\(\)` proves (.*), `optimal` (.*) and `BasicComposition\(\)` (.*)\. `Exact\(\)` finds (.*), too",
        lambda: [
            fa.dpsgd.epsilon(**FEW, accountant=one)
            for one in (fa.RDP(), fa.RDP(conversion="optimal"), fa.BasicComposition(), fa.Exact())
        ],
    ),
    ("course/1_what_privacy_means.md", r"\$e\^\{0.1\} = (.*)\$: no output is more than (.*) % more probable",
     lambda: [math.exp(0.1), 100.0 * math.expm1(0.1)]),
    ("course/1_what_privacy_means.md", r"At epsilon = 10 it is (22,026)", lambda: [math.exp(10.0)]),
    ("course/2_mechanisms.md", r"beta = 0.05\$, here (.*), as a bound", lambda: [2.0 * math.log(10 / 0.05)]),
    ("course/3_composition.md", r"`fa.epsilon\(fa.PureDP\(0.01\) \* 1000, delta=1e-6\)` is (.*)\.\n",
     lambda: [fa.epsilon(fa.PureDP(0.01) * 1000, delta=1e-6)]),
    ("course/5_dp_sgd.md", r"`fa.dpsgd.epsilon` says (.*) for 10 epochs above and (.*) for 20",
     lambda: [fa.dpsgd.epsilon(**COURSE, epochs=epochs) for epochs in (10, 20)]),
    (
        "backends/opacus.md",
        r"noise (1), rate (0.05), (4) batches a step, (200) steps, delta 1e-5 is (.*), not (.*) \|",
        lambda: [1, 0.05, 4, 200, *accumulated(1.0, 0.05, 4, 200, 1e-5)],
    ),
    (
        "backends/riskcal.md",
        r"at noise (1), rate (0.002), (10,000) steps and alpha = (0.01) it returns .*\n"
        r"where every value above (.*) is refuted",
        lambda: [1, 0.002, 10_000, 0.01, both(fa.tradeoff_bounds(fa.Gaussian(1.0).poisson(0.002) * 10_000, 0.01))],
    ),
    (
        "backends/tf_privacy.md",
        r"n = 60,000, batch 150, noise 1.3, 15 epochs, delta 1e-5 \| \S+ \| (.*) \|\n"
        r"\| noise multiplier for epsilon 0.724223 \| 1.3 \| (.*) \|\n"
        r"\| epsilon, n = 10\^8, batch 1,024, noise 0.1, 10 epochs, delta 1e-7 \| \S+ \| (.*) \|\n",
        lambda: [
            fa.dpsgd.epsilon(**MNIST, noise_multiplier=1.3),
            fa.dpsgd.noise_multiplier(**MNIST, epsilon=0.724223),
            fa.dpsgd.epsilon(noise_multiplier=0.1, records=10**8, batch_size=1024, epochs=10, delta=1e-7),
        ],
    ),
    ("backends/diffprivlib.md", r"epsilon (.*) at delta = slack",
     lambda: [fa.epsilon(fa.PureDP(0.05) * 100, delta=1e-6)]),
]  # fmt: skip


def agrees(printed, found):
    """Whether a number is what is printed, to half a unit of its last digit."""
    number = printed.replace(",", "")
    mantissa, _, power = number.lower().partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    lower, upper = found if isinstance(found, tuple) else (found, found)
    return lower - 0.501 * unit <= float(number) <= upper + 0.501 * unit


@pytest.mark.parametrize(("page", "sentence", "found"), FIGURES, ids=[f"{one[0]}-{i}" for i, one in enumerate(FIGURES)])
def test_a_sentence_has_the_figures_of_its_call(page, sentence, found):
    said = re.search(sentence, (DOCS / page).read_text())
    assert said, sentence
    for printed, value in zip(said.groups(), found(), strict=True):
        assert agrees(printed, value), (printed, value)


@cache
def chosen(name, run):
    """What an accountant says of one of the two runs of the table."""
    accountant = eval(name, {one: getattr(fa, one) for one in fa.accountants.__all__})
    run = {"sampled": RUN, "plain": PLAIN}[run]
    if name == "CLT()":
        return fa.dpsgd.epsilon_approx(**run, accountant=accountant)
    return fa.dpsgd.epsilon(**run, accountant=accountant)


def test_accountants_prove_what_their_table_says():
    """Rounded up in the digits that are printed."""
    rows = re.findall(r"(?m)^\| `(\w+\(.*?\))` \|[^|]*\| ([^|]*) \| ([^|]*) \|", (DOCS / "choosing.md").read_text())
    assert len(rows) >= 9
    for name, *printed in rows:
        for run, number in zip(("plain", "sampled"), printed, strict=True):
            if number == "refused":
                with pytest.raises(ValueError, match="sample"):
                    chosen(name, run)
            elif number != "-":
                found, unit = chosen(name, run), 10.0 ** -len(number.partition(".")[2])
                assert 0.0 <= float(number) - found + 1e-12 < unit, (name, run, number, found)


DOMAIN = (
    r"at most (\S+) (?:relative )?for sample_rate in \[(\S+), (\S+)\], noise_multiplier in \[(\S+), (\S+)\] and orders "
    r"in \((\S+), (\S+)\]"
)


def test_the_excess_that_is_promised_of_renyi_divergences_is_said_alike_and_holds():
    texts = [re.sub(r"\s+", " ", text) for text in (fa.dpsgd.rdp.__doc__, (DOCS / "guarantees.md").read_text())]
    said = {re.search(DOMAIN, text).groups() for text in texts}
    assert len(said) == 1
    excess, *ends = map(float, said.pop())
    assert f"excess of at most {excess:g} in the domain" in fa.rdp.__doc__
    rng = np.random.default_rng(5)
    q, noise = (np.exp(rng.uniform(*np.log(ends[i : i + 2]), 400)) for i in (0, 2))
    orders = ends[4] + np.exp(rng.uniform(math.log(1e-9), math.log(ends[5] - ends[4]), 400))
    corners = [one.ravel() for one in np.meshgrid(ends[:2], ends[2:4], [1.0 + 1e-12, 2.0, ends[5]])]
    q, noise, orders = (np.concatenate(both_of) for both_of in zip((q, noise, orders), corners, strict=True))
    lower, upper, _ = fa.dpsgd.rdp_bounds(noise_multiplier=noise, sample_rate=q, steps=1, orders=orders)
    assert ((upper - lower) <= excess * lower).all()
    measured = re.findall(r"(?m)^\| rdp,? .*\| (\S+) \| \S+ \|$", (DOCS / "accuracy.md").read_text())
    assert len(measured) > 3
    assert max(map(float, measured)) <= excess


def test_groups_are_certified_as_their_page_says():
    (size,) = re.findall(
        r"Groups of (\d+) records of a sample are certified from both", (DOCS / "processes.md").read_text()
    )
    job = fa.Gaussian(1.0).poisson(0.01) * 1000
    for group in (65, int(size)):
        assert fa.epsilon_bounds(job.group(group), delta=1e-5).status == fa.Status.TIGHT


@pytest.mark.parametrize(
    ("word", "job", "is_tight"),
    [
        ("Laplace noise", fa.Laplace(5.0) * 100, True),
        ("responses", fa.PureDP(0.1) * 100, True),
        ("sums", fa.Laplace(5.0) * 10 + fa.Gaussian(2.0), True),
        ("Poisson samples", fa.Laplace(1.0).poisson(0.1) * 100, True),
        ("tables", fa.from_pmf([0.6, 0.4], [0.5, 0.5]) * 20, True),
        ("staircases", fa.Staircase(1.0) * 5, False),
        ("Skellam noise", fa.Skellam(20.0) * 5, False),
        ("a discrete Gaussian beside Laplace noise", fa.DiscreteGaussian(4.0) + fa.Laplace(5.0), False),
        ("`Parallel`", fa.Parallel(fa.Laplace(2.0), fa.Laplace(3.0)) + fa.Gaussian(3.0), False),
        ("samples of discrete Gaussians", fa.DiscreteGaussian(4.0).poisson(0.1) * 10, False),
    ],
)
def test_attacks_are_exact_where_their_page_says(word, job, is_tight):
    said = re.search(
        r"They are exact for (.*?)\. For others .*? says `LOOSE` where that is wide: (.*)",
        (DOCS / "mechanisms.md").read_text(),
    )
    assert word in (said[1] if is_tight or "`" in word else said[2])
    assert (fa.tpr_at_fpr_bounds(job, 0.01).status == fa.Status.TIGHT) == is_tight


def test_noise_is_the_least_to_the_digit_that_pages_say():
    (digit,) = re.findall(r"smallest such noise, up to (\S+)\. ", (DOCS / "howto" / "noise.md").read_text())
    assert f"at (1 - {digit})" in fa.dpsgd.noise_multiplier.__doc__
    assert f"instead of {digit}" in (DOCS / "choosing.md").read_text()
    rate, steps = np.array([[0.149, 1585], [0.07, 2696], [0.00385, 6216], [0.372, 3473]]).T
    run, epsilon = {"sample_rate": rate, "steps": steps, "delta": 1e-6}, np.array([0.79, 3.37, 0.172, 1.79])
    noise = fa.dpsgd.noise_multiplier(epsilon=epsilon, **run)
    assert (fa.dpsgd.epsilon(noise_multiplier=noise, **run) <= epsilon).all()
    assert (fa.dpsgd.epsilon(noise_multiplier=noise * (1.0 - float(digit)), **run) > epsilon).all()


def test_a_budget_refuses_with_the_exit_code_of_its_page(tmp_path, capsys):
    page = (DOCS / "cli.md").read_text()
    (code,) = re.findall(r"refuses it with exit code (\d)", page)
    assert re.search(rf"(?m)^\| {code} \| .*would exceed the budget \(`budget`\)", page)
    job, ledger = tmp_path / "job.toml", str(tmp_path / "ledger.json")
    job.write_text('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\ncount = 9\n')
    assert main(["budget", ledger, "--epsilon", "1", "--delta", "1e-5"]) == 0
    assert main(["budget", ledger, "--job", str(job)]) == int(code)
    assert "not recorded" in capsys.readouterr().out


COMMANDS = re.findall(r"(?m)^ {4}\$ fastacct (.*)\n((?: {4}[^$\s].*\n)+)", (DOCS / "cli.md").read_text())


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[one[0][:40] for one in COMMANDS])
def test_commands_print_what_their_page_shows(command, output, capsys):
    assert main(shlex.split(command)) == 0
    shown = [line.strip() for line in output.splitlines()]
    assert capsys.readouterr().out.split() == " ".join(shown).split()
