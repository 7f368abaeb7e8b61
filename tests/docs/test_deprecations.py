"""The page of what is old: every row warns, and its successor says the same."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct.__main__ import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deprecations.md").read_text()
ROWS = re.findall(r"^\| `([^`]*)` \| `([^`]*)` \| 0\.\d+ \| 0\.\d+ \|$", PAGE, re.MULTILINE)
NAMES = {"fa": fa, "job": fa.Gaussian(2.0).poisson(0.1) * 9, "fpr": 0.1, "p": 0.25, "a": 3.0}
PLAN = "records=100, epsilon=1.0, delta=1e-3, epochs=[1], "


def answer(call, capsys):
    """What a call on the page says."""
    if call.startswith("fastacct "):
        words = [
            *call.removeprefix("fastacct ").replace(" p", " 0.25").split(),
            "--noise-multiplier",
            "2",
            "--steps",
            "9",
        ]
        assert main([*words, "--sample-rate", "0.1", "--fpr", "0.1", "--json"]) == 0
        said = capsys.readouterr()
        if said.err:
            warnings.warn(said.err, DeprecationWarning, stacklevel=1)
        return said.out
    found = eval(call.replace("plan(", f"plan({PLAN}").replace("[...]", "[10, 20]"), NAMES)
    return found.points() if isinstance(found, fa.curve.PrivacyCurve) else str(np.asarray(found).tolist())


@pytest.mark.parametrize(("old", "new"), ROWS)
def test_what_is_old_warns_and_says_what_its_successor_says(old, new, capsys):
    if "plan" in old:
        pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = answer(new, capsys)
    named = re.search(r"(?<=[(-])\w+(?==| p$)|(?<= )\w+(?==)", new)
    with pytest.warns(DeprecationWarning, match=named[0] if named else "neighbors"):
        assert answer(old, capsys) == expected


def test_every_warning_in_the_package_is_on_the_page():
    """One row for each keyword that is still taken by its former name."""
    assert len(ROWS) == 6
    package = "".join(path.read_text() for path in (ROOT / "fastacct").rglob("*.py"))
    old = {*re.findall(r'"(\w+) is (?:now called|the probability of the null)', package)}
    old |= {*re.findall(r'formerly=\{"(\w+)"', package)}
    assert old == {"prior", "order", "batch_sizes", "direction"}
    assert all(re.search(rf"\b{word}\b", PAGE) for word in old)
