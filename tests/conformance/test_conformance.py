"""The conformance suite passes the engine, fails accountants that are wrong, and tells what it found."""

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.conformance import Case, accountant_of, judge, load, run
from fastacct.conformance.__main__ import main
from fastacct.conformance.case import made
from fastacct.core.bounds import Status

CASES = load()
FEW = [
    case for case in CASES if case.group in ("everyday", "gaussian", "history", "replace-one", "randomized-response")
]
KINDS = {"poisson_gaussian", "gaussian", "laplace", "poisson_laplace", "randomized_response", "fixed_size"}


def verdicts(accountant, cases=FEW[::3]):
    return [one.verdict for one in run(accountant_of(accountant), cases)]


@pytest.fixture(scope="module")
def results():
    return run(accountant_of("fastacct:epsilon"), CASES)


def test_there_are_a_few_hundred_cases_of_every_kind_and_relation():
    assert 250 <= len(CASES) <= 400
    assert {block["kind"] for case in CASES for block in case.blocks} == KINDS
    assert {case.relation for case in CASES} == {"add_remove", "replace_one", "zero_out"}
    assert len({case.name for case in CASES}) == len(CASES)
    assert min(case.delta for case in CASES if case.delta > 0) <= 1e-30


def test_the_file_says_what_made_the_truths():
    assert made()["command"] == "python -m tests.data.make_conformance fastacct/conformance/cases.json"
    assert {"mpmath", "gmpy2", "python", "digits"} <= set(made())


def test_truths_are_intervals_as_narrow_as_their_digits():
    for case in CASES:
        assert 0 < case.low < case.high
        if "(high)" not in case.source:
            assert case.high / case.low - 1 < Decimal("1e-11")
    narrow = [case for case in CASES if case.high / case.low - 1 < Decimal("1e-19")]
    assert len(narrow) > 0.9 * len(CASES)


def test_truths_are_those_of_textbooks():
    """Published values, the closed form of Laplace noise, and pure epsilons."""
    found = {case.name: case for case in CASES}
    assert float(found["everyday/abadi"].low) == pytest.approx(0.9468668007644, rel=1e-12)
    assert float(found["everyday/koskela-sigma-2"].low) == pytest.approx(2.446733944, rel=1e-9)
    assert float(found["laplace/scale-2-T-8-delta-0"].low) == 4.0
    assert float(found["laplace/scale-1-delta-1e-06"].low) == pytest.approx(1 + 2 * math.log1p(-1e-6), rel=1e-15)
    assert float(found["randomized-response/p-0.5-of-2-T-10-delta-0"].low) == pytest.approx(10 * math.log(3), rel=1e-15)
    assert float(found["gaussian/sigma-1-T-1-1e-05"].low) == pytest.approx(4.3771780956812246, rel=1e-15)


def test_the_engine_is_never_wrong_and_nearly_always_tight(results):
    assert {one.verdict for one in results} <= {"tight", "loose"}
    counts = [one.verdict for one in results if "(high)" not in one.case.source]  # of the others bounds are known
    assert counts.count("tight") >= 0.94 * len(counts)
    for one in results:
        assert one.verdict == "tight" or one.excess < 1e-4, one


def test_lower_bounds_of_the_engine_are_not_above_the_truth():
    for case in CASES[::4]:
        lower, upper, status = fa.epsilon_bounds(case.job, delta=case.delta, neighbors=case.relation)
        assert Decimal(lower) <= case.high <= Decimal(upper) * (1 + Decimal("1e-15")), case
        assert lower > 0 or status != Status.TIGHT


@pytest.mark.parametrize(
    "canary",
    [
        lambda job, delta, neighbors: fa.epsilon(job, delta=delta, neighbors=neighbors) * (1 - 1e-6),
        lambda job, delta, neighbors: fa.epsilon(
            fa.Process([(one, 1) for one, _ in job]), delta=delta, neighbors=neighbors
        ),
        lambda job, delta, neighbors: fa.epsilon(fa.Process([next(iter(job))]), delta=delta, neighbors=neighbors),
        lambda job, delta, neighbors: fa.epsilon(job, delta=min(2 * delta, 1.0), neighbors=neighbors),
        lambda job, delta, neighbors: fa.epsilon(
            job, delta=delta, neighbors="zero_out" if neighbors == "replace_one" else neighbors
        ),
        lambda job, delta, neighbors: 0.0,
    ],
    ids=["a millionth less", "count ignored", "first block only", "twice the delta", "relation ignored", "nothing"],
)
def test_accountants_that_are_wrong_are_found(canary):
    assert "wrong" in verdicts(canary)


def test_a_millionth_less_is_wrong_wherever_the_engine_is_that_tight(results):
    tight = [one for one in results if one.excess < 5e-7]
    assert len(tight) >= 0.9 * len(results)
    for one in tight:
        if one.case.high / one.case.low - 1 > Decimal("1e-9"):
            continue  # the truth is known as an interval, of which the engine gives the upper end
        assert judge(one.case, one.answer * (1 - 1e-6))[0] == "wrong"


def test_looser_theorems_are_loose_and_not_wrong():
    found = verdicts(lambda job, delta: fa.epsilon(job, delta=delta, accountant=fa.RDP()))
    assert "wrong" not in found
    assert found.count("loose") > 5
    assert "not asked" in found  # no relation but add_remove


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (1.0, "wrong"), (-1.0, "wrong"), (-math.inf, "wrong"), (2.0 - 1e-14, "wrong"), (2.0 - 4e-16, "tight"),
        (2.0, "tight"), (2.1, "tight"), (2.2, "loose"), (math.inf, "infinite"), (math.nan, "error"),
    ],
)  # fmt: skip
def test_answers_are_judged_by_the_interval(answer, verdict):
    case = Case("a/b", (), "add_remove", 1e-5, Decimal(2), Decimal("2.1"), "")
    assert judge(case, answer)[0] == verdict


def test_refusals_errors_and_late_answers_are_no_wrong_answers():
    def refusing(job, delta):
        raise NotImplementedError("not this")

    def failing(job, delta):
        raise RuntimeError("mean differs")

    def late(job, delta):
        while True:
            pass

    for accountant, verdict in ((refusing, "refused"), (failing, "error"), (late, "error")):
        found = run(accountant_of(accountant), FEW[:2], limit=0.05)
        assert [one.verdict for one in found] == [verdict] * 2
    assert "no answer in 0.05 s" in found[0].message


class Composing:
    """The interface of dp_accounting, without it."""

    def __init__(self, neighboring_relation):
        self.relation = neighboring_relation

    def supports(self, event):
        return True

    def compose(self, event, count):
        return self

    def get_epsilon(self, target_delta):
        return math.inf


class Stepping:
    """The interface of Opacus, on the engine."""

    def __init__(self):
        self.history = []

    def step(self, *, noise_multiplier, sample_rate):
        self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta):
        run = fa.Process([(fa.Gaussian(s).poisson(q), n) for s, q, n in self.history])
        return fa.epsilon(run, delta=delta)


class LastBlock(Stepping):
    def get_epsilon(self, delta):
        self.history = self.history[-1:]
        return super().get_epsilon(delta)


def test_the_interface_of_opacus_is_asked_whole_histories():
    few = [case for case in CASES if case.group in ("everyday", "history", "laplace")][::3]
    found = [one.verdict for one in run(accountant_of(Stepping), few)]
    assert set(found) == {"tight", "not asked"}
    assert "wrong" in [one.verdict for one in run(accountant_of(LastBlock), few)]


def test_the_interface_of_dp_accounting_is_asked_events():
    pytest.importorskip("dp_accounting")
    assert set(verdicts(Composing)) == {"infinite"}
    whole = run(accountant_of("fastacct.compat.dp_accounting:FastAccountant"), CASES[::5])
    assert {one.verdict for one in whole} <= {"tight", "loose"}


def test_the_interface_can_be_named_and_is_recognised():
    assert type(accountant_of(Stepping)) is type(accountant_of(Stepping, "opacus"))
    with pytest.raises(ValueError, match="'opacus'"):
        accountant_of(Stepping, "carrier pigeon")


def test_reports_are_written_with_every_case(tmp_path, capsys):
    files = {name: tmp_path / f"report.{name}" for name in ("json", "html")}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    wanted = ["--cases", "gaussian/*", "--quiet"]
    assert main(["--accountant", "tests.conformance.test_conformance:a_little_less", *wanted, *options]) == 1
    cases, text = load("gaussian/*"), capsys.readouterr().out
    assert "Wrong answers:" in text
    report = json.loads(files["json"].read_text())
    assert [row["case"] for row in report["results"]] == [case.name for case in cases]
    assert report["summary"]["wrong"] == len(cases) == report["summary"]["cases"]
    page = files["html"].read_text()
    assert all(case.name in page for case in cases)
    assert page.count("<path d=") == len(cases)
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # it stands alone
    assert main(["--accountant", "fastacct:epsilon", *wanted]) == 0


def a_little_less(job, delta):
    return fa.epsilon(job, delta=delta) * (1 - 1e-6)


@pytest.mark.parametrize(
    "words",
    [
        ["--accountant", "no.such.module:Class"],
        ["--accountant", "fastacct:no_such_name"],
        ["--accountant", "fastacct"],
        ["--accountant", "fastacct:__version__"],
        ["--accountant", "fastacct:epsilon", "--cases", "no such case"],
        ["--accountant", "fastacct:epsilon", "--interface", "none"],
        ["--accountant", "fastacct:epsilon", "--limit", "0"],
        ["--accountant", "fastacct:epsilon", "--seconds", "nan"],
        ["--accountant", "fastacct:epsilon", "--limit", "1", "--quiet", "--json", "/no/such/folder/x.json"],
        [],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_cases_are_chosen_by_name(capsys):
    assert [case.group for case in load("zero-out/*")] == ["zero-out"] * len(load("zero-out"))
    assert main(["--accountant", "fastacct:epsilon", "--cases", "1e-30", "--limit", "2", "--list"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_the_page_shows_every_accountant_of_the_table():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "backends" / "conformance.md").read_text()
    picture = (root / "docs" / "images" / "conformance.svg").read_text()
    for name in ("fastacct", "dp_accounting PLD", "dp_accounting RDP", "Opacus prv", "prv_accountant", "autodp RDP"):
        assert f"| {name} |" in page
        assert f">{name}: " in picture


def test_one_truth_of_each_oracle_is_found_again():
    from mpmath import mp, mpf

    from tests.data.make_conformance import truth

    for name in ("gaussian/sigma-1-T-4-1e-05", "laplace/scale-1-T-5-delta-0.001", "history/two-phases"):
        case = load(name)[0]
        with mp.workdps(40):
            low, high, _ = truth(list(case.blocks), case.relation, case.delta)
            assert mpf(str(case.low)) <= high
            assert low <= mpf(str(case.high))
