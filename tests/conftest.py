"""The tier that is asked for, Hypothesis, the longest time of a test; kernels never contradict themselves."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis.database import DirectoryBasedExampleDatabase

from fastacct_ext import _kernels
from tests import costs, tiers

pytest.register_assert_rewrite("tests.containment", "tests.command", "tests.oracle_data")

os.environ.setdefault("PYTEST_TIMEOUT", "900")  # seconds: a test that hangs ends and is named (pytest-timeout reads it)

# The same code has the same examples. A campaign draws others; what failed stays in .hypothesis and is tried first.
KEPT = DirectoryBasedExampleDatabase(".hypothesis/examples")
hypothesis.settings.register_profile("here", derandomize=True, database=None, deadline=None, print_blob=True)
hypothesis.settings.register_profile("campaign", derandomize=False, database=KEPT, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.TIERS, help="run the tests of one tier only: see tests/tools/tiers.py")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("campaign" if config.getoption("--tier") == "campaign" else "here")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that have nothing for a tier are not read for it."""
    tier = config.getoption("--tier")
    if tier is None or not collection_path.name.startswith("test_"):
        return None
    return None if tiers.reads(tier, collection_path.relative_to(costs.TESTS).as_posix()) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is not of the tier is left out."""
    tier = config.getoption("--tier")
    if tier is None:
        return
    ours = [one.nodeid for one in items if one.path.is_relative_to(costs.TESTS)]
    homes, wanted = tiers.homes(ours, costs.read()), tiers.RUNS.get(tier, {tier})
    kept, left_out = [], []
    for one in items:
        (kept if homes.get(one.nodeid, tier) in wanted else left_out).append(one)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
    if tier == "quick":
        for test in {one.obj for one in kept if hasattr(one, "obj")}:
            tiers.with_fewer_examples(test)


@pytest.fixture(autouse=True)
def _certified_intervals_meet() -> Iterator[None]:
    """Whatever a test asks: certified intervals of one number that do not meet prove a mistake."""
    yield
    assert not _kernels.disagreed(), "two certified intervals of one number did not meet"
