"""Asserts of the helpers that tests share are shown with their values too; kernels never contradict themselves."""

from collections.abc import Iterator

import pytest

from fastacct_ext import _kernels

pytest.register_assert_rewrite("tests.containment", "tests.command", "tests.oracle_data")


@pytest.fixture(autouse=True)
def _certified_intervals_meet() -> Iterator[None]:
    """Whatever a test asks: certified intervals of one number that do not meet prove a mistake."""
    yield
    assert not _kernels.disagreed(), "two certified intervals of one number did not meet"
