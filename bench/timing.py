"""How times are taken: processor time of one thread, interleaved, repeated, medians; other work on the machine counts
only by the caches that it fills.  And how much of the machine we were given meanwhile."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import fastacct

_IMPORT: Final = """
from time import process_time as now
times = [now()]
import numpy
times.append(now())
import fastacct
print(times[1] - times[0], now() - times[1])
"""


@dataclass(frozen=True)
class Span:
    """Wall-clock and processor seconds of one call."""

    wall: float
    cpu: float

    @property
    def cores(self) -> float:
        """How many cores the call really had."""
        return self.cpu / self.wall


def span(call: Callable[[], Any]) -> Span:
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return Span(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[list[Span], list[Span]]:
    """Spans of two calls in turn, after one unmeasured call of the second."""
    second()
    pairs = [(span(first), span(second)) for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def median_cpu(spans: list[Span]) -> float:
    return statistics.median(s.cpu for s in spans)


def import_overhead(processes: int = 25) -> tuple[float, float]:
    """Processor time of `import numpy`, and of `import fastacct` after it: medians of so many fresh interpreters."""
    root = str(Path(fastacct.__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as cache:  # both from byte code, whatever the environment says about writing it
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPYCACHEPREFIX": cache
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-c", _IMPORT]
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(processes)
        ]
    return statistics.median(float(base) for base, _ in runs), statistics.median(float(extra) for _, extra in runs)


def duration(seconds: float) -> str:
    """Seconds in three digits with a fitting unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
