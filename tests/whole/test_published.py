"""The example that recomputes published figures: every figure, the rules of rounding, and mistakes in a file."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
specification = importlib.util.spec_from_file_location("published", EXAMPLES / "published.py")
published = importlib.util.module_from_spec(specification)
sys.modules["published"] = published
specification.loader.exec_module(published)


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def call(*words, code=None):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = published.main([*map(str, words)])
    assert code in (None, found)
    return Result(found, out.getvalue(), err.getvalue())


def answer(file):
    return json.loads(call(file, "--json", code=1).stdout)


@pytest.fixture(scope="module")
def published_rows():
    return published.compare(published.load(EXAMPLES / "published_dp_sgd.toml"))


def test_every_published_figure_is_reproduced(published_rows):
    assert len(published_rows) >= 10
    for row in published_rows:
        assert row.configuration.agrees(row.same), row
        assert row.matches, row
        # Half a unit below the last digit compared is where a nearest-rounded figure may lie.
        slack = Decimal(1).scaleb(-row.configuration.decimals)
        assert Decimal(row.continuous) <= row.configuration.published + slack


def test_every_exact_figure_is_in_its_narrow_interval(published_rows):
    known = [row for row in published_rows if row.configuration.exact is not None]
    assert len(known) >= 15
    for row in known:
        assert row.configuration.agrees_exactly(row.lower, row.upper), row
        assert row.upper - row.lower <= 1e-10 * row.upper, row


def test_an_approximation_below_the_exact_epsilon_is_marked(published_rows):
    approximate = [row for row in published_rows if row.configuration.method == "clt"]
    assert len(approximate) == 3
    assert all(row.below_truth for row in approximate)
    assert not any(row.below_truth for row in published_rows if row.configuration.method != "clt")
    assert "ok, but below exact" in call().stdout


def test_a_wrong_exact_figure_is_a_mismatch(tmp_path):
    text = (EXAMPLES / "published_dp_sgd.toml").read_text(encoding="utf-8")
    changed = tmp_path / "changed.toml"
    changed.write_text(text.replace('exact = "0.9468668007644"', 'exact = "0.94686679"'), encoding="utf-8")
    document = answer(changed)
    assert [row["name"] for row in document["rows"] if not row["matches"]] == ["Abadi et al. 2016, example"]


def test_published_prints_every_row_and_returns_zero(published_rows):
    result = call()
    assert result.returncode == 0, result.stderr
    for row in published_rows:
        assert row.configuration.name in result.stdout
    assert f"{len(published_rows)} of {len(published_rows)} published figures reproduced" in result.stdout


def test_published_fails_when_one_figure_is_wrong(tmp_path):
    text = (EXAMPLES / "published_dp_sgd.toml").read_text(encoding="utf-8")
    changed = tmp_path / "changed.toml"
    changed.write_text(text.replace('epsilon = "1.26"', 'epsilon = "1.25"'), encoding="utf-8")
    document = answer(changed)
    assert [row["name"] for row in document["rows"] if not row["matches"]] == ["Abadi et al. 2016, example"]
    assert "MISMATCH Abadi" in call(changed).stdout


def test_a_file_that_cannot_be_read_is_exit_code_2():
    assert "nowhere.toml" in call("nowhere.toml", code=2).stderr


@pytest.mark.parametrize(
    ("rounding", "inside", "outside"),
    [
        ("nearest", [1.2551, 1.26, 1.2649], [1.2549, 1.2651, math.inf, math.nan]),
        ("up", [1.2501, 1.2599], [1.25, 1.2601]),
        ("down", [1.2601, 1.2699], [1.2599, 1.27]),
    ],
)
def test_rounding_rules(published_rows, rounding, inside, outside):
    import dataclasses

    first = dataclasses.replace(
        published_rows[0].configuration, rounding=rounding, published=Decimal("1.26"), decimals=2
    )
    assert all(first.agrees(value) for value in inside)
    assert not any(first.agrees(value) for value in outside)


def test_a_continuous_search_that_is_worse_is_a_mismatch(published_rows):
    row = published_rows[0]
    assert published.Comparison(row.configuration, row.same, row.continuous, row.lower, row.upper).matches
    assert not published.Comparison(row.configuration, row.same, row.same * 1.0001, row.lower, row.upper).matches
    assert not published.Comparison(row.configuration, row.same, row.continuous, row.upper, row.lower * 0.9).matches


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('epsilon = "1.26"', "epsilon = 1.26", "epsilon must be a decimal number"),
        ('epsilon = "1.26"', 'epsilon = "about 1"', "epsilon must be a decimal number"),
        ("steps = 10000", "", "missing 1 required keyword-only argument: 'steps'"),
        ("sample_rate = 0.01", "batch_size = 5", "give either sample_rate"),
        ("sample_rate = 0.01", "sample_rate = 0.01\nsigma = 4", "unexpected keyword argument 'sigma'"),
        ("noise_multiplier =", "noise_multipler =", "unexpected keyword argument 'noise_multipler'"),
        ('orders = "moments_accountant"', 'orders = "some"', "orders = 'some' is not one of 'integers'"),
        ('method = "mironov"', 'method = "best"', "method = 'best' is not one of 'mironov'"),
        ('exact = "0.9468668007644"', 'exact = "nan"', "exact must be a decimal number"),
    ],
)
def test_a_mistake_in_a_published_file_names_file_and_key(tmp_path, old, new, message):
    text = (EXAMPLES / "published_dp_sgd.toml").read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "changed.toml"
    changed.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"changed\.toml: configuration\[0\]: .*" + message):
        published.load(changed)


def test_digits_that_two_bounds_have_in_common():
    assert published.common_digits(1.23456, 1.23457) == "1.2346"
    assert published.common_digits(0.99999, 1.00001) == "1.000"
    assert published.common_digits(2.0, 2.0) == "2.0"
    assert published.common_digits(1.0, 2.0) == "1 to 2"
    assert published.common_digits(1.0, math.inf) == "1 to inf"


@pytest.mark.parametrize("value", [1.0000001, 0.1, 3.00587486791633, 1e-300, 123456.7, 0.0, 5907982.311])
def test_figures_are_never_shown_smaller(value):
    assert value <= float(published.fixed_up(value, 4)) < value + 1.0001e-4


def test_the_page_has_the_figures_that_are_recomputed():
    from tests.published_table import MARK, PAGE, table

    assert f"{MARK}\n{table()}\n{MARK}" in PAGE.read_text()
