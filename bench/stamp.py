"""Which version and commit measured a table."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import fastacct as fa


def measured_with() -> str:
    """The version, the commit and the day; changes that are not committed are said."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--exclude=*", "--dirty= with changes"]
    try:
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no checkout
        commit = "unknown"
    return f"fastacct {fa.__version__}, commit {commit}, {datetime.now(UTC):%Y-%m-%d}"
