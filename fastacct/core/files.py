"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raise unless `path` can be written: its folder exists, and it is new or may be replaced."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: cannot write {path.name} there")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: pass overwrite=True (command line: --overwrite) to replace it")


def real_file(path: str | os.PathLike[str]) -> Path:
    """The file behind symbolic links, there or not; OSError where it has more names than one, or is a device.

    Files are replaced as a whole: another name of theirs, a hard link, would keep what was in them before.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not (real.is_file() or real.is_dir()):
        raise OSError(f"{real} is no regular file")
    if real.is_file() and (names := real.stat().st_nlink) > 1:
        raise OSError(f"{real} has {names} names (hard links), which would become different files: remove the others")
    return real


def text_in(path: str | os.PathLike[str], most: int) -> str:
    """What a file of at most so many bytes says.  Pipes and devices, which need not end, are refused.

    Raises
    ------
    ValueError
        It is no regular file, is longer, or is no UTF-8.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise ValueError(f"{path} is no regular file")
    with Path(path).open("rb") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise ValueError(f"{path} has more than {most} bytes")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}") from None


@contextlib.contextmanager
def atomic_output(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success it replaces `path`, on any exception it is removed.

    Readers see the old file or the complete new one, never a part.  A process that is killed leaves the temporary
    file, which is hidden.
    """
    refuse_existing(path, overwrite)
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.partial")
    try:
        yield temporary
        _flush_to_disk(temporary)
        # Hours may have passed since the first check: somebody else's file is worth more than ours.
        refuse_existing(path, overwrite)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_to_disk(path.parent)


def _take(file: int, *, waits: bool) -> None:
    """Lock an open file until it is closed."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_LOCK if waits else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))


@contextlib.contextmanager
def locked(path: Path, busy: str = "") -> Iterator[None]:
    """Keep other processes of this package from a file while it is changed; they wait, or are told that it is busy.

    The lock is a hidden file beside it, and ends with the process that has it: give the name that `real_file` returns.
    """
    # A lock file may be removed only where those who opened it before, and lock it after, find out that it is no file
    # of that name any more; else two processes hold two locks.  Who is told "busy" looks, and so its lock file goes.
    # Those who wait would have to look and begin again, which a network file system may answer from its cache: a
    # budget would forget a release.  There the empty file stays.
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("w") as file:
        try:
            _take(file.fileno(), waits=not busy)
            is_held = not busy or os.path.samestat(os.fstat(file.fileno()), lock.stat())
        except (BlockingIOError, PermissionError, FileNotFoundError):  # another's; that of Windows; removed by another
            if not busy:
                raise
            is_held = False
        if not is_held:
            raise BlockingIOError(busy)
        try:
            yield
        finally:
            if busy and sys.platform != "win32":  # which removes no open file
                lock.unlink(missing_ok=True)


def remove_partial(path: Path) -> None:
    """Remove what writers of `path` left that were killed; nobody else may be writing it."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        partial.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    """fsync a file or a folder; a folder that cannot be opened (Windows) is left to the system."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
