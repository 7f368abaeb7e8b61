"""The command line: numbers, JSON, exit codes, messages."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.__main__ import COMMANDS, EXIT_CODES
from fastacct.accountants.run import rate_of_batch, steps_of_epochs
from fastacct.cli.options import (
    COMMON,
    OPTIONS,
    accountant_by_name,
    numbers,
    parse_orders,
    wholes,
)
from fastacct.core.rounding import digits_down, digits_up
from tests.command import answer, call

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUN = {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000}
RUN_WORDS = "--noise-multiplier 1.1 --sample-rate 0.01 --steps 1000"
ORDERS = "2-32"
ACCOUNTANT = fa.RDP(orders=parse_orders(ORDERS))
FAST = f"--orders {ORDERS}"


# -- one number ------------------------------------------------------------------------------------------------------


def test_epsilon_and_delta_in_json_are_the_python_values():
    epsilon = answer(f"epsilon {RUN_WORDS} --delta 1e-5 {FAST}")["epsilon"]
    assert epsilon == fa.dpsgd.epsilon(**RUN, delta=1e-5, accountant=ACCOUNTANT)
    delta = answer(f"delta {RUN_WORDS} --epsilon 2 {FAST}")["delta"]
    assert delta == fa.dpsgd.delta(**RUN, epsilon=2.0, accountant=ACCOUNTANT)


def test_the_exact_accountant_is_the_default_and_gives_both_bounds():
    document = answer(f"epsilon {RUN_WORDS} --delta 1e-5")
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**RUN, delta=1e-5)
    assert document["epsilon"] == fa.dpsgd.epsilon(**RUN, delta=1e-5)
    assert (document["epsilon_lower"], document["epsilon"]) == (lower, upper)
    assert document["accountant"] == {"name": "exact"}
    assert f"at least {digits_down(lower)}" in call(f"epsilon {RUN_WORDS} --delta 1e-5").stdout
    document = answer(f"delta {RUN_WORDS} --epsilon 2")
    assert document["delta_lower"] == fa.dpsgd.delta_lower(**RUN, epsilon=2.0)
    assert document["delta"] == fa.dpsgd.delta(**RUN, epsilon=2.0)
    words = "--epsilon 3 --delta 1e-5 --sample-rate 0.01 --steps 1000"
    noise = answer(f"noise-multiplier {words}")["noise_multiplier"]
    assert noise == fa.dpsgd.noise_multiplier(epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=1000)


def test_settings_of_renyi_dp_choose_it():
    for words in ("--conversion mironov", "--orders 2-8", "--accountant rdp"):
        document = answer(f"epsilon {RUN_WORDS} --delta 1e-5 {words}")
        assert document["accountant"]["name"] == "rdp"
        assert "epsilon_lower" not in document
    assert call(f"epsilon {RUN_WORDS} --delta 1e-5 --accountant exact --orders 2-8").exit_code == 2


def test_json_says_what_is_guaranteed():
    document = answer(f"epsilon {RUN_WORDS} --delta 1e-5 {FAST} --conversion mironov")
    assert document["guarantee"] == "certified upper bound"
    assert document["neighbors"] == "add_remove"
    assert document["sampler"] == "poisson"
    assert document["accountant"] == {"name": "rdp", "orders": list(parse_orders(ORDERS)), "conversion": "mironov"}
    assert document["inputs"] == {**RUN, "delta": 1e-5}


def test_people_get_a_sentence_with_relation_and_sampler():
    output = call(f"epsilon {RUN_WORDS} --delta 1e-5 {FAST}").stdout
    value = fa.dpsgd.epsilon(**RUN, delta=1e-5, accountant=ACCOUNTANT)
    assert f"epsilon <= {digits_up(value)} at delta = 1e-05" in output
    for part in ("certified upper bound", "adding or removing one record", "Poisson", "steps 1,000"):
        assert part in output


def test_infinity_is_a_string_in_json_and_words_elsewhere():
    words = f"epsilon --noise-multiplier 0 --sample-rate 0.01 --steps 10 --delta 1e-5 {FAST}"
    assert answer(words)["epsilon"] == "inf"
    assert "no finite bound" in call(words).stdout


def test_batches_and_epochs_are_rates_and_steps():
    words = f"epsilon --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 1.5 --delta 1e-5 {FAST}"
    inputs = answer(words)["inputs"]
    assert inputs["steps"] == math.ceil(Fraction(3, 2) * Fraction(60000, 256)) == 352
    assert Fraction(inputs["sample_rate"]) >= Fraction(256, 60000)
    assert inputs["sample_rate"] == pytest.approx(256 / 60000, rel=1e-15, abs=0.0)  # an ulp up


def test_steps_may_be_written_1e3_or_1_000():
    for text in ("1e3", "1_000", "1000"):
        words = f"epsilon --noise-multiplier 1.1 --sample-rate 0.01 --steps {text} --delta 1e-5 {FAST}"
        assert answer(words)["inputs"]["steps"] == 1000


def test_rdp_lists_every_order():
    document = answer(f"rdp {RUN_WORDS} --orders 1.5,2-4")
    assert document["orders"] == [1.5, 2.0, 3.0, 4.0]
    assert document["rdp"] == [fa.dpsgd.rdp(**RUN, orders=order) for order in document["orders"]]
    once = answer("rdp --noise-multiplier 1.1 --sample-rate 0.01 --orders 2")
    assert once["inputs"]["steps"] == 1


def test_the_clt_is_labelled_an_approximation():
    document = answer(f"epsilon {RUN_WORDS} --delta 1e-5 --accountant clt")
    assert document["guarantee"] == "none (an approximation)"
    assert document["epsilon"] == fa.dpsgd.epsilon_approx(**RUN, delta=1e-5, accountant=fa.CLT())
    assert "epsilon ~ " in call(f"epsilon {RUN_WORDS} --delta 1e-5 --accountant clt").stdout


# -- targets ---------------------------------------------------------------------------------------------------------


def test_calibrations_meet_their_target():
    target = {"epsilon": 3.0, "delta": 1e-5}
    words = f"--epsilon 3 --delta 1e-5 {FAST}"
    noise = answer(f"noise-multiplier {words} --sample-rate 0.01 --steps 1000")["noise_multiplier"]
    steps = answer(f"steps {words} --noise-multiplier 1.1 --sample-rate 0.01")["steps"]
    rate = answer(f"sample-rate {words} --noise-multiplier 1.1 --steps 1000")["sample_rate"]
    for changed in ({"noise_multiplier": noise}, {"steps": steps}, {"sample_rate": rate}):
        reached = fa.dpsgd.epsilon(**{**RUN, **changed}, delta=target["delta"], accountant=ACCOUNTANT)
        assert 0.9 * target["epsilon"] < reached <= target["epsilon"]
    assert isinstance(steps, int)


def test_a_target_that_cannot_be_met_is_exit_code_1():
    document = answer(f"steps --epsilon 1e-3 --delta 1e-5 --noise-multiplier 0.1 --sample-rate 0.01 {FAST}", code=1)
    assert document["steps"] == 0
    assert document["met"] is False
    words = f"noise-multiplier --epsilon 0 --delta 0 --sample-rate 0.01 --steps 10 {FAST}"
    assert answer(words, code=1)["noise_multiplier"] == "inf"
    assert "no noise multiplier is certified" in call(words).stdout


def test_a_delta_may_be_made_of_the_records():
    run = {"noise_multiplier": 1.1, "records": 60000, "batch_size": 256, "epochs": 2}
    words = "--noise-multiplier 1.1 --records 60000 --batch-size 256 --epochs 2"
    document = answer(f"epsilon {words} --delta 1/n")
    assert document["epsilon"] == fa.dpsgd.epsilon(**run, delta="1/n")
    assert document["inputs"]["delta"] == pytest.approx(1 / 60000, rel=1e-15, abs=0.0)  # an ulp down
    document = answer(f"epsilon {RUN_WORDS} --records 60000 --delta 1/n^1.1")
    assert document["epsilon"] == fa.dpsgd.epsilon(**RUN, records=60000, delta="1/n^1.1")
    target, goal = "--epsilon 3 --delta 1/n --records 60000", {"epsilon": 3.0, "delta": "1/n", "records": 60000}
    noise = answer(f"noise-multiplier {target} --batch-size 256 --epochs 2")["noise_multiplier"]
    assert noise == fa.dpsgd.noise_multiplier(**goal, batch_size=256, epochs=2)
    steps = answer(f"steps {target} --batch-size 256 --noise-multiplier 1.1")["steps"]
    assert steps == fa.dpsgd.steps(**goal, batch_size=256, noise_multiplier=1.1)
    rate = answer(f"sample-rate {target} --noise-multiplier 1.1 --steps 100")["sample_rate"]
    assert rate == fa.dpsgd.sample_rate(**goal, noise_multiplier=1.1, steps=100)


def test_a_sample_rate_may_be_asked_for_epochs():
    document = answer("sample-rate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --epochs 2 --accountant rdp")
    same = fa.dpsgd.sample_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.1, epochs=2, accountant=fa.RDP())
    assert document["sample_rate"] == same
    assert document["inputs"] == {"epsilon": 3.0, "delta": 1e-5, "noise_multiplier": 1.1, "epochs": 2.0}


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["shuffled", "allocation"])
def test_what_is_not_calibrated_names_the_question_that_is_answered(sampling):
    run = "--noise-multiplier 1 --records 1000 --batch-size 10 --delta 1e-5 --epsilon 2"
    result = call(f"steps --sampling {sampling} {run}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "epochs are not calibrated; ask epsilon for the epochs of a few runs" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("epsilon --noise-multiplier -1 --sample-rate 0.01 --steps 10 --delta 1e-5", "--noise-multiplier -1.0 is out"),
        ("epsilon --noise-multiplier 1 --sample-rate 1.5 --steps 10 --delta 1e-5", "--sample-rate 1.5 is out"),
        ("epsilon --noise-multiplier 1 --sample-rate 0.1 --steps 10 --delta nan", "delta"),
        ("epsilon --noise-multiplier 1 --steps 10 --delta 1e-5", "--batch-size and --records"),
        (
            "epsilon --noise-multiplier 1 --batch-size 9 --dataset-size 3 --steps 1 --delta 1e-5",
            "--batch-size 9.0 exceeds --records 3.0",
        ),
        ("epsilon --noise-multiplier 1 --sample-rate 0.1 --delta 1e-5", "--steps or --epochs"),
        ("epsilon --noise-multiplier 1 --sample-rate 0 --epochs 1 --delta 1e-5", "positive --sample-rate"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --orders 2-x", "'2-x' is not a number or a range"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --conversion best", "canonne_kamath_steinke"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --accountant fft", "'exact', 'rdp', 'basic'"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --accountant zcdp --orders 2", "only the accountant rdp"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --neighbors cousins", "cousins"),
        ("sweep nowhere.toml", "nowhere.toml: No such file"),
        (
            "epsilon --noise-multiplier 1 --sample-rate 512 --steps 9 --delta 1e-5",
            "a batch size? give --batch-size and --records",
        ),
        ("epsilon --noise-multiplier 1,2 --sample-rate 0.1 --steps 9 --delta 1e-5", "one number per option"),
        ("epsilon --noise-multiplier 1e400 --sample-rate 0.1 --steps 9 --delta 1e-5", "'1e400' is not a number"),
        (f"epsilon {RUN_WORDS} --delta 1/n", "needs --records"),
        (f"epsilon {RUN_WORDS} --delta 1/m --records 9", "neither a number nor a power of the records"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --records 9", "--records is for --batch-size and --delta"),
        (f"epsilon {RUN_WORDS} --delta 1/n --records 9,10", "one number per option"),
        (f"delta {RUN_WORDS} --epsilon 1/n", "'1/n' is not a number"),
        ("sample-rate --epsilon 1 --delta 1e-5 --noise-multiplier 1", "--steps or --epochs"),
        (
            "sample-rate --epsilon 1 --delta 1e-5 --noise-multiplier 1 --steps 1 --epochs 1",
            "either steps or epochs, not both",
        ),
        (
            "sample-rate --epsilon 1 --delta 1e-5 --noise-multiplier 1 --steps 9 --records 9",
            "--records is for --batch-size and --delta",
        ),
        ("epsilon --noise-multipler 1 --sample-rate 0.1 --steps 9 --delta 1e-5", "did you mean --noise-multiplier?"),
        (f"epsilon {RUN_WORDS} --delta 1e-5 --thread 2", "unknown option --thread (see"),
    ],
)
def test_an_invalid_value_is_one_line_on_stderr_and_exit_code_2(words, message):
    result = call(words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize("words", ["epsilon", "epsilon --steps x", "nothing", "epsilon --nothing"])
def test_bad_usage_is_exit_code_2(words):
    assert call(words).exit_code == 2


BY_WORD = ("audit", "verify", "sweep", "show", "check-loader", "check-loop", "budget", "completion", "conformance")
"""Commands whose first word is no option; the last one has an example of its own."""


def test_every_command_has_help_with_an_example():
    assert {"epsilon", "delta", "rdp", "noise-multiplier", "steps", "sample-rate", "sweep", "curve", "show", "attack",
            "certify", "verify", "guarantee",
            "check-loader", "check-loop", "plan", "report", "budget", "conformance", "completion",
            "audit", "explore"} == COMMANDS.keys()  # fmt: skip
    for name in COMMANDS:
        result = call(f"{name} --help")
        assert result.exit_code == 0
        assert f"Example: fastacct {name} --" in result.stdout or name in BY_WORD


def test_exit_codes_are_documented_in_the_help_and_in_the_docs():
    assert EXIT_CODES in call("--help").stdout
    page = (EXAMPLES.parent / "docs" / "cli.md").read_text(encoding="utf-8")
    for code in ("| 0 |", "| 1 |", "| 2 |", "| 130 |", "| 141 |", "| 143 |"):
        assert code in page


def test_every_command_is_in_the_docs():
    page = (EXAMPLES.parent / "docs" / "cli.md").read_text(encoding="utf-8")
    assert all(f"| `fastacct {name}" in page for name in COMMANDS)


def test_version_and_module_entry_point():
    words = [sys.executable, "-m", "fastacct", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"fastacct {fa.__version__}\n"


def test_the_command_line_needs_no_library_but_numpy():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['typer', 'click', 'rich', 'xarray', 'matplotlib']))\n"
        "from fastacct.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    words = f"epsilon {RUN_WORDS} --delta 1e-5".split()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == call(f"epsilon {RUN_WORDS} --delta 1e-5").stdout


def test_a_reader_that_goes_away_is_no_error():
    words = f"-m fastacct rdp {RUN_WORDS} --orders 2-9999".split()
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "error: not enough memory"),
        (MemoryError("batch_size and epochs: 9 GiB"), 2, "error: not enough memory: batch_size and epochs: 9 GiB\n"),
        (ValueError("a\nb \x1b[2J"), 2, "error: a b \\x1b[2J\n"),
    ],
)
def test_no_error_is_a_traceback(monkeypatch, error, code, message):
    def fail(given):
        """Fails."""
        raise error

    monkeypatch.setitem(COMMANDS, "curve", COMMANDS["curve"]._replace(run=fail))
    result = call("curve --noise-multiplier 1")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == bool(message)


def test_options_are_written_once():
    """Every command takes its options from the one table, and every option of the table is taken by some command."""
    taken = {option for command in COMMANDS.values() for option in (*command.needs, *command.takes, *COMMON)}
    assert taken == OPTIONS.keys()


def test_an_infinite_truth_is_said_so():
    output = call("epsilon --noise-multiplier 1 --sample-rate 0.1 --steps 9 --delta 0").stdout
    assert output.startswith("epsilon = inf at delta = 0: the true value is infinite\n")
    assert "at least inf" not in output


# -- parsing and rounding --------------------------------------------------------------------------------------------


def test_orders_are_exact_decimals():
    assert parse_orders("1.1-10.9/0.1,12-63") == tuple(1 + x / 10 for x in range(1, 100)) + tuple(range(12, 64))
    for bad in ("", "2,", "3-2", "2-3/0", "2-3/-1", "2/3", "1-inf", "1-1e9"):
        with pytest.raises(ValueError, match="orders"):
            parse_orders(bad)


def test_rates_and_steps_never_round_down():
    for batch, size in ((1, 3), (256, 60000), (2, 3), (4096, 50000), (7, 7), (0, 5)):
        assert Fraction(rate_of_batch(batch, size)) >= Fraction(batch, size)
        assert rate_of_batch(batch, size) <= 1
    assert steps_of_epochs(0.1, 1, 10) == 1
    assert steps_of_epochs(60, 256, 60000) == 14063
    for epochs in ("-1", "inf", "nan", "1e999"):
        result = call(f"epsilon --noise-multiplier 1 --sample-rate 0.1 --epochs {epochs} --delta 1e-5")
        assert result.exit_code == 2
        assert "epochs" in result.stderr


def test_accountants_have_names():
    assert accountant_by_name("rdp", "2-32") == ACCOUNTANT
    assert accountant_by_name("zcdp") == fa.ZCDPComposition()
    assert accountant_by_name("exact") == fa.Exact()


def test_numbers_with_commas_are_numbers():
    assert numbers("0.1, 1_000,1e-3,inf") == [0.1, 1000.0, 1e-3, math.inf]
    assert wholes("1e3, 1_000,7") == [1000, 1000, 7]
    for read, texts in (
        (numbers, ("", "1,", "one", "nan", "1e999999999")),
        (wholes, ("", "1.5", "1e999999999", "inf")),
    ):
        for bad in texts:
            with pytest.raises(argparse.ArgumentTypeError, match="is not a"):
                read(bad)


def test_a_huge_exponent_is_refused_at_once():
    assert call("epsilon --noise-multiplier 1 --sample-rate 0.1 --steps 1e999999999 --delta 1e-5").exit_code == 2


def test_json_has_the_run_as_it_was_given():
    sizes = "--noise-multiplier 1 --records 50000 --batch-size 512 --epochs 30"
    inputs = json.loads(call(f"epsilon {sizes} --delta 1e-6 --json").stdout)["inputs"]
    assert inputs == {
        "noise_multiplier": 1.0, "sample_rate": 0.01024, "steps": 2930, "delta": 1e-6,
        "records": 50_000, "batch_size": 512, "epochs": 30.0,
    }  # fmt: skip
    assert json.loads(call(f"rdp {sizes} --orders 2 --json").stdout)["inputs"]["records"] == 50_000


def test_curves_in_a_file_are_not_printed_as_well(tmp_path):
    words = f"curve --noise-multiplier 1 --sample-rate 0.01 --steps 100 --points 5 --csv {tmp_path / 'c.csv'}"
    assert len(call(words).stdout.splitlines()) == 2
