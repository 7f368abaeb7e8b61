"""Files that were made to mislead the checker, or to keep it busy: each is refused with a reason, and soon."""

import copy
import json
from fractions import Fraction
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.certificate import checker
from tests.certificate.test_canaries import refused

_LATTICE = {"step": "0.01", "places": 1024, "first": -10, "tilt": "1", "bits": 64, "lattices": [[[-100, 100, 1]]]}
_MANY = [[[0, 9, 1]]] * 100
_LINE = {"line": "2", "step": "0.1", "nodes": 100, "cuts": ["0.5"], "reach": "9", "bits": 128}


def _claim(release: object, relation: str = "remove", plan: dict = _LATTICE, **other: object) -> str:
    """A file of one release, or of several."""
    document = {"format": "fastacct certificate 1", "relation": relation, "epsilon": "1", "delta": "1e-6"}
    document |= {"releases": release if isinstance(release, list) else [release]}
    return json.dumps(document | {"proof": dict.fromkeys(checker.DIRECTIONS[relation], plan)} | other)


def _in_place(old: str, new: str) -> str:
    """What no library writes."""
    text = _claim({"count": 1, "laplace": "20"})
    assert text.count(old) == 1
    return text.replace(old, new)


HOSTILE = {
    "a sample of Laplace noise, replaced": (
        _claim({"count": 1, "laplace": "20", "poisson": "0.01"}, "replace_one"),
        "a sample of laplace is not known like that",
    ),
    "a mixture, replaced": (
        _claim({"count": 1, "mixture": "20", "p": [["1", "1"]], "q": [["1", "0"]]}, "replace_one"),
        "not a mixture like that",
    ),
    "a batch on a line, replaced": (
        _claim({"count": 1, "gaussian": "9", "fixed": [10, 1000]}, "replace_one", _LINE),
        "its records keep their places",
    ),
    "a group of which some are kept": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.01", "at_most": [30, 1000], "group": 2}),
        "at_most",
    ),
    "a batch of which some are kept": (
        _claim({"count": 1, "gaussian": "9", "fixed": [10, 1000], "at_most": [30, 1000]}, "zero_out"),
        "drawn in two ways",
    ),
    "draws beside a sample": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.5", "draws": [1, 1000]}),
        "drawn in two ways",
    ),
    "a batch of everybody": (_claim({"count": 1, "gaussian": "9", "fixed": [10, 10]}), "there are too few records"),
    "a mixture of two Q, on a line": (
        _claim({"count": 1, "mixture": "9", "p": [["1", "1"]], "q": [["1", "0"], ["1", "0"]]}, plan=_LINE),
        "weights are more than 1",
    ),
    "a reach of nobody": (_claim({"count": 1, "gaussian": "9", "poisson": "0.1", "group": 2, "reach": 0}), "reach = 0"),
    "a reach that is true": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.1", "group": 2, "reach": True}),
        "reach = True",
    ),
    "a prime number of places": (
        _claim({"count": 1, "gaussian": "9"}, plan=_LATTICE | {"bits": 1536, "places": 65521}),
        "so many places",
    ),
    "4194304 places": (
        _claim({"count": 1, "gaussian": "9"}, plan=_LATTICE | {"places": 2**22}),
        "places = 4194304 is not whole",
    ),
    "256 times a prime number of places": (
        _claim({"count": 1, "gaussian": "9"}, plan=_LATTICE | {"places": 256 * 5323}),
        "so many places",
    ),
    "half a million places of 100 kinds": (
        _claim([{"count": 2, "laplace": "9"}] * 100, plan=_LATTICE | {"places": 2**19, "lattices": _MANY}),
        "so many places",
    ),
    "a lattice that goes back": (
        _claim({"count": 1, "gaussian": "9"}, plan=_LATTICE | {"lattices": [[[-100, 100, 1], [100, -100, -1]]]}),
        "points: none, or many",
    ),
    "4096 bits": (_claim({"count": 1, "gaussian": "9"}, plan=_LATTICE | {"bits": 4096}), "bits = 4096 is not whole"),
    "half a billion records that are kept": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.5", "at_most": [5 * 10**8, 10**9]}),
        "so many kept records take long",
    ),
    "a replaced group of 300, on a line": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.5", "group": 300}, "replace_one", _LINE),
        "more than 64 parts take long",
    ),
    "an integral over 1e300 deviations, on a line": (
        _claim({"count": 1, "gaussian": "9", "poisson": "0.5"}, plan=_LINE | {"reach": "1e300"}),
        "a wide step, or few nodes",
    ),
    "a mixture of 101 times 100 pairs": (
        _claim({"count": 1, "mixture": "9", "p": [["0.001", "1"]] * 101, "q": [["0.001", "0"]] * 100}),
        "there are too many",
    ),
    "an exponent of a count": (_in_place('"count": 1', '"count": 1e0'), "count = 1.0 is not whole"),
    "Infinity": (_in_place('"places": 1024', '"places": Infinity'), "places = inf is not whole"),
    "minus Infinity": (_in_place('"first": -10', '"first": -Infinity'), "first = -inf is not whole"),
    "a number of 1e5 digits": (_in_place('"places": 1024', f'"places": {"9" * 10**5}'), "Exceeds the limit"),
    "brackets without an end": ("[" * 10**5, "RecursionError"),
    "objects without an end": ('{"a":' * 10**5, "RecursionError"),
    "half of a letter": (_in_place('"relation": "remove"', '"relation": "\\ud800"'), "KeyError"),
    "delta twice": (_in_place('"delta": "1e-6"', '"delta": "0.9", "delta": "1e-6"'), "a key is there twice"),
    "a plan that is a word": (_claim({"count": 1, "laplace": "20"}, plan="liness"), "TypeError"),
    "noise of 1e-999": (_claim({"count": 10**9, "laplace": "1e-999"}), "only delta"),
    "a step of 1e999": (_claim({"count": 1, "gaussian": "1"}, plan=_LATTICE | {"step": "1e999"}), "only delta"),
    "a tilt of 1e999": (_claim({"count": 1, "gaussian": "1"}, plan=_LATTICE | {"tilt": "1e999"}), "only delta"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    text, reason = HOSTILE[name]
    path = tmp_path / "hostile.json"
    path.write_text(text)
    told = refused(path)
    assert reason in told
    assert len(told) < 1000
    with pytest.raises(ValueError, match=r"."):
        fa.read_certificate(path).verify()


def test_replaced_members_beyond_the_reach_are_an_infinite_loss() -> None:
    """Of a batch a record of which is replaced, and of the mixture that a replaced record makes of a sample."""
    for one in ({"fixed": [300, 1000]}, {"poisson": "0.3"}):
        release = {"count": 1, "gaussian": "9", "group": 3, **one}
        known = copy.deepcopy(release) | {"reach": 2}
        with checker.ctx.workprec(192):
            far = checker.ball("1e9")
            assert checker.one_release(release, "replace_one")(far) < 1e-20
            all_three = checker.beside("batches").places(release, checker)[1][3]
            assert abs(checker.one_release(known, "replace_one")(far) - all_three) < 1e-20


def test_tables_that_sum_to_more_than_1_by_rounding_are_stated_as_less() -> None:
    """Ten doubles of 0.1 sum to 1, their decimals to 1 and a little: the checker refuses such a table."""
    p = [0.1] * 9 + [1.0 - sum([0.1] * 9)]
    assert sum(map(Fraction, map(repr, p))) > 1
    found = fa.certify(fa.from_pmf(p, [*p[:8], 0.05, 1.0 - sum(p[:8]) - 0.05]) * 2, delta=0.01, digits=2)
    assert all(sum(map(Fraction, side)) <= 1 for side in zip(*found.document["releases"][0]["table"], strict=True))
