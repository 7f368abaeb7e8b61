"""What a C compiler makes of a source for a test, and what that prints: kept beside pytest's cache, by a hash of what
the compiler read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache" / "compiled"
PLAIN = {"PATH": os.environ["PATH"]}
"""An environment that knows no Python."""


def once(name: str, make: Callable[[Path], object]) -> Path:
    """A file that is made once for all processes; `make` writes it under another name."""
    made = KEPT / name
    with contextlib.ExitStack() as stack:
        if not made.exists():
            KEPT.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(ImportError):  # Windows may make it twice
                import fcntl

                fcntl.flock(stack.enter_context(open(KEPT / f"{name}.lock", "w")), fcntl.LOCK_EX)
        if not made.exists():
            new = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=KEPT))) / name
            make(new)
            os.replace(new, made)
    return made


def compiled(source: Path, flags: Sequence[str], suffix: str, libraries: Sequence[str] = ()) -> Path:
    """A file made of a source by `cc` with these flags. What is wrong is the error's text."""

    def cc(*words: str | Path) -> bytes:
        run = subprocess.run(["cc", *flags, *words], capture_output=True, check=False, env=PLAIN, cwd=source.parent)
        if run.returncode:
            raise RuntimeError(f"cc {source.name}: {run.stderr.decode()[-4000:]}")
        return run.stdout

    read = cc("-E", "-P", source) + " ".join([*flags, *libraries]).encode()
    name = f"{source.stem}-{hashlib.sha256(read).hexdigest()[:24]}{suffix}"
    return once(name, lambda new: cc(source, *libraries, "-o", new))


def printed(program: Path, *arguments: object) -> str:
    """What such a program prints with these arguments: numbers that nothing but its source decides."""
    words = [str(one) for one in arguments]

    def run(new: Path) -> None:
        with new.open("w") as out:
            subprocess.run([program, *words], stdout=out, check=True)

    return once("-".join([program.name, *words]), run).read_text()
