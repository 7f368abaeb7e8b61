"""What type checkers see: wrong calls are rejected, right ones are not, and the installed package is found."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("mypy")

ROOT = Path(__file__).parents[2]
CALLS = Path("tests", "form", "typing", "wrong_calls.py")
MARKED = {
    number: line.partition("# expect-error: ")[2]
    for number, line in enumerate((ROOT / CALLS).read_text().splitlines(), 1)
    if "# expect-error" in line
}
NOT_YET = {
    "an array of strings as orders",
}
"""Marks of calls that pass today because the function takes Any: this list may only shrink."""


def mypy(folder, *arguments):
    """Lines that mypy --strict prints, run in `folder`."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout.splitlines()


@cache
def rejected():
    """Numbers of the lines of the file of calls that mypy rejects."""
    found = (re.match(rf"{re.escape(str(CALLS))}:(\d+): error:", line) for line in mypy(ROOT, str(CALLS)))
    return {int(match[1]) for match in found if match}


def test_there_are_twenty_different_wrong_calls():
    assert len(MARKED) == len(set(MARKED.values())) == 20
    assert set(MARKED.values()) >= NOT_YET


def test_right_calls_are_accepted():
    assert rejected() <= set(MARKED)


@pytest.mark.parametrize(("line", "mark"), MARKED.items(), ids=MARKED.values())
def test_a_wrong_call_is_rejected(line, mark, request):
    if mark in NOT_YET:
        request.applymarker(pytest.mark.xfail(strict=True, reason="the function takes Any"))
    assert line in rejected()


def test_the_installed_package_brings_its_types(tmp_path):
    (tmp_path / "user.py").write_text(
        "import fastacct as fa\nreveal_type(fa.Gaussian(1.0))\nreveal_type(fa.calibrate(fa.Gaussian, advantage=0.1))\n"
    )
    told = mypy(tmp_path, "--config-file", os.devnull, "user.py")
    assert re.fullmatch(r'.*"fastacct\.[\w.]*Gaussian"\n.*"float"', "\n".join(told)), told
