"""What a C compiler makes of a source for a test, and what that prints: kept beside pytest's cache, by a hash of what
the compiler read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
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


def sources(source: Path, *folders: Path) -> list[Path]:
    """A source and what it includes from its folder and these, directly or not; what the system has is left out."""
    found = [source.resolve()]
    for one in found:  # which grows
        for name in re.findall(r'^\s*#\s*include\s+"(.+)"', one.read_text("utf-8"), re.MULTILINE):
            path = next((path for folder in (one.parent, *folders) if (path := folder / name).exists()), None)
            if path is not None and path.resolve() not in found:
                found.append(path.resolve())
    return found


def digest(source: Path, *folders: Path) -> str:
    """The same as long as a source and what it includes from these folders are, on every machine."""
    whole = hashlib.sha256()
    for one in sources(source, *folders):
        whole.update(one.name.encode() + one.read_bytes().replace(b"\r\n", b"\n"))
    return whole.hexdigest()[:24]


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
