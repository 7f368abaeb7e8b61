"""The command line as a function, for tests."""

from __future__ import annotations

import contextlib
import io
import json
from typing import NamedTuple

from fastacct.__main__ import main


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def call(words, *more):
    """Run `fastacct` with the words of a line, and more that may hold blanks."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*words.split(), *map(str, more)])
        except SystemExit as stop:
            code = stop.code
    return Result(code, out.getvalue(), err.getvalue())


def answer(words, *more, code=0):
    result = call(words, *more, "--json")
    assert result.exit_code == code, result
    return json.loads(result.stdout)
