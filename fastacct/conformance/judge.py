"""Answers against truths: what an answer is called, and by how much it is off."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from fastacct.conformance.case import Case
from fastacct.conformance.interfaces import Accountant, NotAskedError, RefusedError

__all__ = ["TIGHT", "VERDICTS", "Result", "judge", "run"]

TIGHT: Final = Decimal("1e-6")
"""An answer at most this far above the truth, relative to it, is tight."""
ROUNDING: Final = Decimal("1e-15")
"""An answer this far below the truth is one that was rounded, not a wrong one."""
VERDICTS: Final = {
    "wrong": "below the smallest epsilon that is true: the guarantee does not hold",
    "tight": "at most 1e-6 above the truth, relative to it",
    "loose": "farther above the truth",
    "infinite": "infinity, where the truth is a number",
    "refused": "the accountant says that it does not do this",
    "error": "any other exception, not a number, or no answer in time",
    "not asked": "the interface has no words for it",
}


@dataclass(frozen=True)
class Result:
    """What became of one case.

    Attributes
    ----------
    excess : float or None
        answer / truth - 1: below 0 where the answer is wrong, 0 inside the interval of the truth; None without answer.
    """

    case: Case
    verdict: str
    answer: float | None
    excess: float | None
    seconds: float
    message: str = ""


def judge(case: Case, answer: float) -> tuple[str, float | None]:
    """The verdict on an answer, and by how much it is off."""
    if math.isnan(answer):
        return "error", None
    if math.isinf(answer):
        return ("infinite", math.inf) if answer > 0 else ("wrong", -math.inf)
    found = Decimal(answer)
    if found < case.low * (1 - ROUNDING):
        return "wrong", float(found / case.low - 1)
    excess = max(found / case.high - 1, Decimal(0))
    return ("tight" if excess <= TIGHT else "loose"), float(excess)


def run(
    accountant: Accountant,
    cases: Iterable[Case],
    *,
    limit: float = 60.0,
    each: Callable[[Result], Any] | None = None,
) -> list[Result]:
    """Ask an accountant all cases, at most `limit` seconds each; `each` is called with every result."""
    results = []
    for case in cases:
        result = _ask(accountant, case, limit)
        results.append(result)
        if each is not None:
            each(result)
    return results


def _ask(accountant: Accountant, case: Case, limit: float) -> Result:
    start = time.perf_counter()

    def result(verdict: str, message: str = "", answer: float | None = None, excess: float | None = None) -> Result:
        return Result(case, verdict, answer, excess, time.perf_counter() - start, " ".join(message.split())[:300])

    try:
        with _at_most(limit):
            answer = accountant.epsilon(case)
    except NotAskedError as error:
        return result("not asked", str(error))
    except RefusedError as error:
        return result("refused", str(error))
    except Exception as error:  # whatever an accountant raises is its answer
        return result("error", f"{type(error).__name__}: {error}")
    verdict, excess = judge(case, answer)
    return result(verdict, "not a number" if verdict == "error" else "", answer, excess)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """TimeoutError after so many seconds, where the system has an alarm clock and this is the main thread."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"no answer in {seconds:g} s")

    try:
        before = signal.signal(signal.SIGALRM, ring)
    except (AttributeError, ValueError):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
