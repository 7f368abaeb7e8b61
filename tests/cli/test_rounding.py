"""Numbers that people are shown are on the safe side: in sentences, tables and findings on scripts."""

import re

import pytest

import fastacct as fa
from fastacct.cli import answers, scripts
from fastacct.core.rounding import digits_down, digits_up
from fastacct.scripts.answers import Finding
from tests.command import call


@pytest.mark.parametrize("value", [1.0000001, 0.1, 3.00587486791633, 1e-300, 123456.7, 0.0, 5907982.311])
def test_shown_numbers_round_to_the_stated_side(value):
    assert float(digits_up(value)) >= value >= float(digits_down(value))
    assert float(digits_up(value)) == pytest.approx(value, rel=1e-5, abs=0.0)  # six digits are shown
    for name in (*answers.UPPER, "fnr_upper"):
        assert float(answers._shown(name, value)) >= value
    assert float(answers._shown("fnr_lower", value)) <= value
    loop = {"sampling": "shuffled", "epsilon": value, "epsilon_lower": value, "breaks": None}
    _, least, _, most, _ = scripts._shown(loop).split()
    assert float(least) <= value <= float(most)
    for known in (loop | {"sampling": "poisson"}, loop | {"epsilon_lower": None}):
        assert float(scripts._shown(known).split()[3]) >= value
    found = Finding(1, "opacus", "shuffled", "zero_out", value, value, *[None] * 3, {}, {}, {}, (), "")
    least, _, most = found._interval(value, value).split()
    assert float(least) <= value <= float(most)
    assert float(found._replace(sampling="poisson")._interval(value, value).split()[-1]) >= value


@pytest.mark.parametrize("rate", [0.01, 0.013, 0.017])
def test_sentences_say_no_less_than_the_numbers(rate):
    run = {"noise_multiplier": 1.1, "sample_rate": rate, "steps": 1000}
    words = f"--noise-multiplier 1.1 --sample-rate {rate} --steps 1000"
    told = call(f"epsilon {words} --delta 1e-5").stdout
    most, least = map(float, re.findall(r"epsilon <= (\S+) at .* at least ([\d.]+)", told)[0])
    assert least <= fa.dpsgd.epsilon_lower(**run, delta=1e-5) <= fa.dpsgd.epsilon(**run, delta=1e-5) <= most
    target = {"epsilon": 2.0, "delta": 1e-5}
    (noise,) = re.findall(
        r"multiplier >= (\S+)", call(f"noise-multiplier {words[23:]} --epsilon 2 --delta 1e-5").stdout
    )
    assert fa.dpsgd.noise_multiplier(**target, sample_rate=rate, steps=1000) <= float(noise)
    words = "--noise-multiplier 1.1 --steps 1000 --epsilon 2 --delta 1e-5"
    (most_often,) = re.findall(r"rate <= (\S+)", call(f"sample-rate {words}").stdout)
    assert float(most_often) <= fa.dpsgd.sample_rate(**target, noise_multiplier=1.1, steps=1000)
