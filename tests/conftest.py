"""Asserts of the helpers that tests share are shown with their values too."""

import pytest

pytest.register_assert_rewrite("tests.containment", "tests.command", "tests.oracle_data")
