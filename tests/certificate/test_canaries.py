"""What must not be proved: numbers that are not true, hostile plans, words that mislead, files that never end."""

import copy
import functools
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.certificate import checker
from fastacct.certificate.describe import text_of
from tests.certificate.test_certificate import CHECKER


def _document() -> dict:
    """Two kinds, a sample, both directions."""
    job = fa.Laplace(20.0) * 3 + fa.Gaussian(1.0).poisson(0.01) * 300
    return json.loads(fa.certify(job, delta=1e-6, digits=2).text)


@pytest.fixture(scope="module")
def document() -> dict:
    return _document()


def less(text: str, factor: float) -> str:
    return text_of(float(text) * factor)


def put(path: str, value: object):
    """A change of one place of the document."""

    def change(document: dict) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        for step in way:
            document = document[step]
        document[last] = value(document[last]) if callable(value) else value

    return change


CANARIES = {
    "3 % below the truth": put("epsilon", lambda text: less(text, 0.97)),
    "half of the delta": put("delta", lambda text: less(text, 0.5)),
    "the count grows": put("releases/1/count", 330),
    "another count grows": put("releases/0/count", 30),
    "less noise": put("releases/1/gaussian", "0.97"),
    "half of the noise": put("releases/0/laplace", "10"),
    "twice the rate": put("releases/1/poisson", "0.02"),
    "no sample": lambda document: document["releases"][1].pop("poisson"),
    "one kind more": lambda document: (
        document["releases"].append({"count": 1, "laplace": "9"}),
        [plan["lattices"].append(plan["lattices"][0]) for plan in document["proof"].values()],
    ),
    "another relation": put("relation", "replace_one"),
    "an unknown relation": put("relation", "add_or_remove"),
    "a direction left out": lambda document: document["proof"].pop("add"),
    "a lattice left out": lambda document: document["proof"]["remove"]["lattices"].pop(),
    "no release": put("releases", []),
    "a count of 0": put("releases/0/count", 0),
    "a count below 0": put("releases/0/count", -3),
    "half a count": put("releases/0/count", "1/2"),
    "a count that is true": put("releases/0/count", True),
    "a rate of 0": put("releases/1/poisson", "0"),
    "a rate above 1": put("releases/1/poisson", "1.01"),
    "a rate below 0": put("releases/1/poisson", "-0.01"),
    "a float": put("releases/1/gaussian", 1.0),
    "an epsilon that is a float": put("epsilon", 3.5),
    "no number": put("releases/1/gaussian", "nan"),
    "infinite noise": put("releases/1/gaussian", "inf"),
    "an infinite epsilon": put("epsilon", "inf"),
    "noise of 0": put("releases/1/gaussian", "0"),
    "two kinds in one": put("releases/1/laplace", "100"),
    "an unknown word": put("releases/1/poisson_rate", "0.001"),
    "an unknown kind": put("releases/1", {"count": 1, "uniform": "3"}),
    "a lattice that ends low": put("proof/remove/lattices/1", lambda ranges: [[ranges[0][0], ranges[-1][1] // 8, 1]]),
    "a lattice that begins high": put("proof/remove/lattices/1", lambda ranges: [[ranges[0][0] // 8, *ranges[-1][1:]]]),
    "a lattice turned round": put("proof/remove/lattices/1", [[10, -10, 1]]),
    "a lattice of no points": put("proof/remove/lattices/1", []),
    "a lattice of few points": put("proof/remove/lattices/1", lambda ranges: [[ranges[0][0], ranges[-1][1], 500]]),
    "a lattice that stands still": put("proof/remove/lattices/1/0/2", 0),
    "a lattice that goes back": put("proof/remove/lattices/1/0/2", -1),
    "a lattice of half steps": put("proof/remove/lattices/1/0/2", 0.5),
    "a lattice of 1e12 points": put("proof/remove/lattices/1", [[-(10**12), 10**12, 1]]),
    "a lattice that hides another's size": put("proof/remove/lattices", [[[-(2**29), 2**29, 1]], [[0, -(2**30), 1]]]),
    "a coarse lattice": put("proof/remove/step", lambda text: less(text, 40.0)),
    "a step of 0": put("proof/remove/step", "0"),
    "a step below 0": put("proof/remove/step", "-0.001"),
    "a tilt of 0": put("proof/remove/tilt", "0"),
    "a tilt that is huge": put("proof/remove/tilt", "1e300"),
    "a window above epsilon": put("proof/remove/first", lambda first: -4 * first),
    "a window far below": put("proof/remove/first", lambda first: 40 * first),
    "few places": put("proof/remove/places", 64),
    "2^40 places": put("proof/remove/places", 2**40),
    "few bits": put("proof/remove/bits", 8),
    "more places than memory": put("proof/remove/places", 2**24),
    "more points than memory": put("proof/remove/lattices/1", [[-(2**22), 2**22, 1]]),
    "more outputs than memory": put(
        "releases/1", {"count": 1, "skellam": "100000", "sensitivity": 10**5, "reach": 10**6}
    ),
    "1e9 bits": put("proof/remove/bits", 10**9),
    "no proof": put("proof", []),
    "a proof that is a word": put("proof", "believe me"),
    "guarantees that are none": put("proof", "guarantees add up"),
    "a direction that nobody reads": put("proof/epsilon", "0.1"),
    "a word in a plan": put("proof/remove/epsilon", "0.1"),
    "a word in the other plan": put("proof/add/nodes", 3),
    "a reach of geometric noise": put("releases/0", {"count": 1, "geometric": "99", "sensitivity": 1, "reach": 50}),
    "a group": put("releases/1/group", 2),
    "a group of nobody": put("releases/1/group", 0),
    "a smaller group than one": put("releases/1/group", "1/2"),
    "a batch of another kind": put("releases/1/fixed", [1, 1000]),
    "draws beside a sample": put("releases/1/draws", [1, 1000]),
    "at most so many, of fewer": put("releases/1/at_most", [100, 10]),
    "at most so few that others give way": put("releases/1/at_most", [1, 1000]),
    "a batch of all records": put("releases/1", {"count": 300, "gaussian": "1", "fixed": [10, 10]}),
    "a batch of more records": put("releases/1", {"count": 300, "gaussian": "1", "fixed": [20, 10]}),
    "a larger batch": put("releases/1", {"count": 300, "gaussian": "1", "fixed": [10, 1000]}),
    "a batch of Laplace noise": put("releases/0", {"count": 3, "laplace": "20", "fixed": [10, 1000]}),
    "a mixture that is sampled": put(
        "releases/1", {"count": 1, "mixture": "9", "p": [["1", "1"]], "q": [["1", "0"]], "poisson": "0.1"}
    ),
    "a mixture of more than everything": put(
        "releases/1", {"count": 1, "mixture": "9", "p": [["1", "0"], ["1", "1"]], "q": [["1", "0"]]}
    ),
    "a mixture of nothing": put("releases/1", {"count": 1, "mixture": "9", "p": [], "q": []}),
    "a mixture at 0": put("releases/1", {"count": 1, "mixture": "9", "p": [["1", "0"]], "q": [["1", "1"]]}),
    "a mixture without noise": put("releases/1", {"count": 1, "mixture": "0", "p": [["1", "1"]], "q": [["1", "0"]]}),
    "noise on whole numbers far out": put("releases/1", {"count": 1, "skellam": "9", "sensitivity": 1, "reach": 10**9}),
    "a reach that is too short": put("releases/1", {"count": 1, "skellam": "9", "sensitivity": 1, "reach": 3}),
    "another format": put("format", "fastacct certificate 2"),
    "a word that nobody reads": put("group", 5),
    "a sensitivity that nobody reads": put("releases/0/sensitivity", 5),
    "a sensitivity of Gaussian noise": put("releases/1/sensitivity", 5),
    "a reach that nobody reads": put("releases/0/reach", 5),
    "a guarantee that is a word": put("releases/1", {"count": 300, "guarantee": "00"}),
    "a guarantee of three numbers": put("releases/1", {"count": 1, "guarantee": ["0", "0", "0"]}),
    "a table of words": put("releases/1", {"count": 1, "table": ["10", "01"]}),
    "a mixture of words": put("releases/1", {"count": 1, "mixture": "99", "p": ["11"], "q": ["10"]}),
    "a mixture of 1e5 pairs": put(
        "releases/1", {"count": 1, "mixture": "99", "p": [["0.001", "1"]] * 400, "q": [["0.001", "0"]] * 400}
    ),
    "digits of another script": put("releases/1/gaussian", "\u0661"),
    "digits that are wide": put("epsilon", "\uff19"),
    "a blank after a number": put("epsilon", "99 "),
    "a line after a number": put("epsilon", "99\n"),
    "a sign": put("epsilon", "+99"),
    "a negative zero": put("releases/1/gaussian", "-0"),
    "an underscore": put("releases/1/gaussian", "1_0"),
    "a number to base 16": put("releases/1/gaussian", "0x10"),
    "an exponent of 1e9": put("releases/1/gaussian", "1e1000000000"),
    "a fraction over 0": put("releases/1/gaussian", "1/0"),
    "a number that is no number": put("epsilon", math.nan),
    "lists in lists": put("releases/1/gaussian", functools.reduce(lambda inner, _: [inner], range(500), "1")),
    "the relation in a list": put("relation", ["add"]),
    "releases that are no list": put("releases", {"0": {"count": 1, "laplace": "9"}}),
    "releases in another order": lambda document: document["releases"].reverse(),
    "directions exchanged": put("proof", lambda proof: {"remove": proof["add"], "add": proof["remove"]}),
    "a count that is a float": put("releases/0/count", 3.0),
    "a count in quotes": put("releases/0/count", "3"),
    "a first place that is a float": put("proof/remove/first", -5.0),
    "bits that are true": put("proof/remove/bits", True),
    "a delta of 0": put("delta", "0"),
    "a delta of 1, which is true of every job": put("delta", "1"),
    "an epsilon of 0": put("epsilon", "0"),
    "a fraction of a fraction": put("releases/1/gaussian", "1/1/1"),
    "noise of 1e999": put("releases/1/gaussian", "1e999"),
    "a release that is nothing": put("releases/0", None),
    "a direction that is a list": put("proof/remove", [1]),
    "a range of two numbers": put("proof/remove/lattices", [[[1, 2]], [[1, 2]]]),
    "one value to answer": put("releases/1", {"count": 1, "response": ["0.1", 1]}),
    "an answer that is added": put("releases/1", {"count": 1, "response": ["0.1", 2]}),
    "a guarantee of more than everything": put("releases/1", {"count": 1, "guarantee": ["0.1", "1.5"]}),
    "at most so many of no sample": put("releases/1", {"count": 1, "gaussian": "1", "at_most": [5, 100]}),
    "a table of ratios that no float holds": put(
        "releases/1", {"count": 1, "table": [["1e-400", "0.5"], ["0.5", "1e-400"]]}
    ),
}


@pytest.mark.parametrize("name", CANARIES)
def test_what_is_wrong_is_not_proved(name: str, document: dict) -> None:
    changed = copy.deepcopy(document)
    CANARIES[name](changed)
    with pytest.raises((ArithmeticError, AttributeError, LookupError, TypeError, ValueError)):
        checker.proved(json.dumps(changed))


def test_ratios_that_no_float_holds_are_compared_as_they_are() -> None:
    """Of mass 0.05 nothing is seen under Q, whatever epsilon is; a ratio of 1e319 is no infinite one."""
    document = {
        "format": "fastacct certificate 1",
        "relation": "remove",
        "epsilon": "740",
        "delta": "0.051",
        "releases": [{"count": 1, "table": [["0.1", "1e-320"], ["0.05", "0"], ["0.85", "0.85"]]}],
        "proof": {
            "remove": {
                **{"step": "1", "places": 1024, "first": -10, "tilt": "1", "bits": 256},
                "lattices": [[[-2, 742, 1]]],
            }
        },
    }
    assert checker.proved(json.dumps(document)).startswith("proved: ")
    for delta in ("0.049", "1e-9", "0"):
        with pytest.raises(ValueError, match=r"only delta <= \[0\.05"):
            checker.proved(json.dumps(document | {"delta": delta}))


def test_the_document_of_the_canaries_is_proved(document: dict) -> None:
    assert checker.proved(json.dumps(document)).startswith("proved: ")


def _guarantees() -> dict:
    return json.loads(fa.certify(fa.ApproxDP(0.5, 1e-6) * 3 + fa.PureDP(0.1), delta=3e-6).text)


SUMS = {
    "a delta of 1": put("delta", "1"),
    "a delta of 6, of guarantees of 2": lambda document: (
        document.update(delta="6.1"),
        put("releases/0/guarantee", ["0.5", "2"])(document),
    ),
    "less than the sum": put("epsilon", "1.59"),
    "less than all deltas": put("delta", "0.0000029"),
    "one more": put("releases/0/count", 4),
    "a count below 0": put("releases/1/count", -1),
    "another kind": lambda document: document["releases"].append({"count": 1, "laplace": "1000"}),
    "a sample": put("releases/0/poisson", "0.1"),
    "nothing": put("releases", []),
}


@pytest.mark.parametrize("name", SUMS)
def test_guarantees_add_up_to_no_less(name: str) -> None:
    document = _guarantees()
    assert checker.proved(json.dumps(document)).startswith("proved: epsilon <= 1.6 at delta = 0.000003")
    SUMS[name](document)
    with pytest.raises(ValueError, match=r"."):
        checker.proved(json.dumps(document))


@pytest.mark.parametrize("rows", [[["0.7", "0.5"], ["0.5", "0.5"]], [["0.5", "0.7"], ["0.5", "0.5"]]])
def test_a_table_of_more_than_everything_is_refused(rows: list[list[str]]) -> None:
    with pytest.raises(ValueError, match="probabilities are more than 1"):
        checker.one_release({"count": 1, "table": rows}, "remove")


def test_work_without_an_end_is_given_up(document: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "process_time", itertools.count(0, 100).__next__)
    with pytest.raises(ValueError, match="ten minutes are not enough"):
        checker.proved(json.dumps(document))


def test_a_pace_that_is_too_slow_is_refused_after_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "process_time", itertools.count(0.0, 0.5).__next__)
    assert len(list(checker.paced(range(100)))) == 100
    slow = checker.paced(range(10**5))
    with pytest.raises(ValueError, match="ten minutes are not enough"):
        assert len(list(itertools.islice(slow, 20))) < 20


def test_who_has_no_value_to_answer_is_said() -> None:
    """A zeroed value is answered at random, a removed one not at all; a replaced one is told apart more easily."""
    job = fa.RandomizedResponse(1.0, 3) * 7
    zeroed = json.loads(fa.certify(job, delta=1e-6, neighbors="zero_out", digits=2).text)
    for relation, told in (("add_remove", "who is not there gives no answer"), ("replace_one", "only delta")):
        with pytest.raises(ValueError, match=told):
            checker.proved(json.dumps(zeroed | {"relation": relation}))
    put("releases/0/poisson", "0.01")(zeroed)  # of local answers there is no sample
    with pytest.raises(ValueError, match="a sample of response is not known"):
        checker.proved(json.dumps(zeroed))


def test_a_key_twice_is_refused(document: dict) -> None:
    for first in ('"count"', '"\\u0063ount"'):
        text = json.dumps(document).replace('"count": 300', f'{first}: 3000, "count": 300')
        with pytest.raises(ValueError, match="a key is there twice"):
            checker.proved(text)


def test_a_long_file_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(b" " * 1_000_001)
    with pytest.raises(ValueError, match=r"long\.json has more than 1000000 bytes"):
        fa.read_certificate(path)
    assert "more than a million bytes" in refused(path)


def refused(path: Path) -> str:
    """What the program says of a file that it does not prove."""
    command = [sys.executable, str(CHECKER), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("not proved: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("name", ["pipe", "loop", "folder", "missing", "bytes", "mark", "/dev/zero"])
def test_what_is_no_file_of_text_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    elif name == "loop":
        path.symlink_to(path)
    elif name == "folder":
        path.mkdir()
    elif name == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    elif name == "mark":
        path.write_text("\ufeff{}")
    for read in (fa.read_certificate, fa.read_guarantee):
        with pytest.raises((ValueError, OSError), match=r"."):
            read(path)
    refused(path)


def test_discrete_gaussian_noise_has_mass_beyond_a_short_reach():
    """Weights that are divided by their sum up to the reach alone would be too few, and prove too little."""
    with checker.ctx.workprec(100):
        scale = checker.ball("3")
        assert checker.integers("discrete_gaussian", scale, 1, 60)(checker.ball("1.5")) > 0
        with pytest.raises(ValueError, match="not precise"):
            checker.integers("discrete_gaussian", scale, 1, 20)
