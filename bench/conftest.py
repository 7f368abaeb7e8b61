"""Benches check the value before they take the time; `--benchmark-disable` leaves the checks."""

from __future__ import annotations

import pytest

collect_ignore = ["peers", "compare.py", "compare_exact.py", "tightness.py"]
"""Nothing to collect there: no doctests, and no reason to import another library."""


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError("the benches need pytest-benchmark: pip install '.[bench]'")
