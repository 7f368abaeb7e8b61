"""Calls of another library in a process of their own, with a limit of time and of memory.

Some accountants need minutes or all of the memory for one answer; a comparison has to survive that, and to count it.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

GIGABYTE: Final = 1 << 30
MEMORY: Final = 12 * GIGABYTE
START_SECONDS: Final = 120.0
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Reply:
    """One answer; NaN with a reason where there is none."""

    value: float
    seconds: float
    reason: str = ""


def _serve(adapter: Callable[[], Any], pipe: Connection, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings.simplefilter("ignore")
    peer = adapter()
    pipe.send("ready")
    while True:
        method, arguments = pipe.recv()
        start = time.process_time()
        try:
            value, reason = float(getattr(peer, method)(*arguments)), ""
        except Exception as error:  # whatever another library raises is its answer
            value, reason = math.nan, f"{type(error).__name__}: {error}".splitlines()[0]
        pipe.send(Reply(value, time.process_time() - start, reason))


@dataclass
class Isolated:
    """An adapter in a process of its own; a process that exceeds its limits is replaced."""

    adapter: Callable[[], Any]
    seconds: float = 60.0
    memory: int = MEMORY
    _process: Any = field(default=None, repr=False)
    _pipe: Any = field(default=None, repr=False)

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(self.adapter, theirs, self.memory), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(START_SECONDS) or self._pipe.recv() != "ready":
            self.stop()
            raise RuntimeError(f"{self.adapter.__name__} does not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None

    def call(self, method: str, *arguments: Any) -> Reply:
        if self._process is None:
            self.start()
        self._pipe.send((method, arguments))
        try:
            if self._pipe.poll(self.seconds):
                reply: Reply = self._pipe.recv()
                return reply
            reason, spent = f"no answer within {self.seconds:g} s", self.seconds
        except (EOFError, ConnectionError):
            reason, spent = "the process died (memory)", math.nan
        self.stop()
        return Reply(math.nan, spent, reason)
