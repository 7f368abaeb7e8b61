"""What a C compiler makes of a source for a test, kept beside pytest's cache by a hash of what it read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache" / "compiled"
PLAIN = {"PATH": os.environ["PATH"]}
"""An environment that knows no Python."""


def compiled(source: Path, flags: Sequence[str], suffix: str, libraries: Sequence[str] = ()) -> Path:
    """A file made of a source by `cc` with these flags, once for all processes. What is wrong is the error's text."""

    def cc(*words: str | Path) -> bytes:
        run = subprocess.run(["cc", *flags, *words], capture_output=True, check=False, env=PLAIN, cwd=source.parent)
        if run.returncode:
            raise RuntimeError(f"cc {source.name}: {run.stderr.decode()[-4000:]}")
        return run.stdout

    read = cc("-E", "-P", source) + " ".join([*flags, *libraries]).encode()
    made = KEPT / f"{source.stem}-{hashlib.sha256(read).hexdigest()[:24]}{suffix}"
    with contextlib.ExitStack() as stack:
        if not made.exists():
            KEPT.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(ImportError):  # Windows may compile twice
                import fcntl

                fcntl.flock(stack.enter_context(open(KEPT / f"{made.name}.lock", "w")), fcntl.LOCK_EX)
        if not made.exists():
            new = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=KEPT))) / made.name
            cc(source, *libraries, "-o", new)
            os.replace(new, made)
    return made
