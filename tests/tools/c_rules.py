"""What Microsoft's compiler lacks and the kernels in C must not use: `python -m tests.c_rules`, a part of `make lint`.

It reads what that compiler would see, with its own choices in `#if`, and has a compiler that is here build one level as
strict C11, without the branches for GCC and Clang and without arrays of variable length.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEN = {"_MSC_VER", "_WIN32", "_WIN64", "_M_X64"}
"""What is defined on Windows."""
HEADERS = {"float.h", "intrin.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdlib.h", "string.h", "time.h"}
LACKED = re.compile(
    r"\b(_Complex|_Imaginary|__(?:real|imag|complex|attribute|extension|typeof|label|asm)__|__auto_type|typeof|asm"
    r"|__(?:builtin|atomic|sync)_\w+|__int128\w*|__float128|_Float\d+|__thread|_Thread_local|_Atomic|alloca)\b|\(\s*\{"
)
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
STRICT = ["-std=c11", "-pedantic-errors", "-Wvla", "-Werror=vla", "-fsyntax-only"]
ONE_LEVEL = "".join(f"#include <{name}>\n" for name in sorted(HEADERS - {"intrin.h"}))
ONE_LEVEL += '#undef __GNUC__\n#undef __clang__\n#include "fastacct_ext/src/isa_baseline.c"\n'


def holds(condition: str) -> bool:
    """Whether a condition of the preprocessor holds on Windows; names without a value are 0."""
    words = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda found: f" {int(found[1] in SEEN)} ", condition)
    words = re.sub(r"(\d+)[uUlL]+\b", r"\1", re.sub(r"\b[A-Za-z_]\w*", "0", words))
    words = re.sub(r"!(?!=)", " not ", words.replace("&&", " and ").replace("||", " or "))
    return bool(eval(words, {"__builtins__": {}}))  # digits and operators alone


def visible(source: str) -> Iterator[tuple[int, str]]:
    """The lines that the compiler sees on Windows, without comments and strings, and their numbers."""
    kept = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    levels: list[tuple[bool, bool]] = []  # whether this branch is seen, and whether one was before or is
    number, lines = 0, kept.split("\n")
    while number < len(lines):
        first, line = number + 1, lines[number]
        while line.endswith("\\") and number + 1 < len(lines):
            number += 1
            line = line[:-1] + " " + lines[number]
        number += 1
        found = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", line)
        if found is None:
            if all(seen for seen, _ in levels):
                yield first, line
            continue
        word, rest = found[1], found[2]
        if word == "endif":
            levels.pop()
            continue
        if word in ("if", "ifdef", "ifndef"):
            levels.append((False, False))
        before = levels[-1][1]
        seen = not before and {
            "if": holds,
            "elif": holds,
            "ifdef": lambda text: text.strip() in SEEN,
            "ifndef": lambda text: text.strip() not in SEEN,
            "else": lambda _: True,
        }[word](rest)
        levels[-1] = seen, before or seen


def faults(source: str) -> Iterator[tuple[int, str]]:
    """What Microsoft's compiler lacks, and in which line."""
    for number, line in visible(source):
        yield from ((number, found[0]) for found in LACKED.finditer(line))
        header = re.match(r"\s*#\s*include\s*<(.+?)>", line)
        if header and header[1] not in HEADERS:
            yield number, f"<{header[1]}>"


def complaints(compiler: str, source: str) -> str:
    """What a compiler says of a source, read as strict C11 from the top of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.c"
        path.write_text(source)
        command = [compiler, *STRICT, "-I", str(ROOT), str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def main() -> int:
    """Look at all sources of the kernels."""
    paths = sorted(path for kind in ("*.h", "*.c") for path in (ROOT / "fastacct_ext").rglob(kind))
    bad = 0
    for path in paths:
        if path.suffix == ".c" and path.with_suffix(".pyx").exists():  # made by Cython
            continue
        for number, word in faults(path.read_text()):
            print(f"{path.relative_to(ROOT)}:{number}: {word} is not known to Microsoft's compiler")
            bad += 1
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("c_rules: neither gcc nor clang is here: arrays of variable length were not looked for")
    elif said := complaints(compiler, ONE_LEVEL):
        print(said)
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
