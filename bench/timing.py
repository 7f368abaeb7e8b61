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

_IMPORT: Final = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


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


def import_seconds(module: str, environment: dict[str, str]) -> float:
    """Processor time of `import module` in a fresh interpreter."""
    out = subprocess.run(
        [sys.executable, "-c", _IMPORT.format(module)], env=environment, capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def import_overhead(groups: int = 5, best_of: int = 5) -> tuple[float, float]:
    """Seconds of `import numpy`, and how much longer `import fastacct` takes: median of the best of each group."""
    root = str(Path(fastacct.__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as cache:  # both from byte code, whatever the environment says about writing it
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPYCACHEPREFIX": cache
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        import_seconds("fastacct", environment)
        base, extra = [], []
        for _ in range(groups):
            pairs = [
                (import_seconds("numpy", environment), import_seconds("fastacct", environment)) for _ in range(best_of)
            ]
            base.append(min(a for a, _ in pairs))
            extra.append(min(b for _, b in pairs) - base[-1])
    return statistics.median(base), statistics.median(extra)


def duration(seconds: float) -> str:
    """Seconds in three digits with a fitting unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
