"""Build of the compiled kernels.

FASTACCT_BUILD=release (default), debug (no optimisation, assertions), sanitize (address and undefined-behaviour
sanitizers) or near (one instruction-set level, hardly optimised: for `make near`). No -march flag: every
instruction-set level is compiled into one portable module and chosen at import.
"""

import gzip
import os
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError

FLAVOURS = {
    "release": (["-O3", "-g0"], []),
    "debug": (["-O0", "-g"], []),
    "near": (["-O1", "-g0", "-w", "-DFA_ONE_LEVEL"], []),
    "sanitize": (
        ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
        ["-fsanitize=address,undefined"],
    ),
}

flavour = os.environ.get("FASTACCT_BUILD", "release")
if flavour not in FLAVOURS:
    sys.exit(f"FASTACCT_BUILD={flavour!r}: choose one of {', '.join(FLAVOURS)}")

if sys.platform == "win32":
    compile_args, link_args = ["/O2", "/fp:precise", "/std:c11"], []
else:
    flavour_args, link_args = FLAVOURS[flavour]
    compile_args = [
        *flavour_args,
        "-std=gnu11",
        "-fopenmp-simd",  # vector pragmas only: no OpenMP run-time, threads are Python's
        "-DFA_OPENMP_SIMD=1",
        "-ffp-contract=off",  # error-free transformations; fused operations are explicit
        "-fno-math-errno",
        "-fno-trapping-math",
    ]


def found(pattern: str) -> list[str]:
    """Files of the kernels, in one order on every machine."""
    return sorted(path.as_posix() for path in Path("fastacct_ext").glob(pattern))


def extension(name: str, *sources: str) -> Extension:
    """A compiled module of `fastacct_ext`."""
    return Extension(
        f"fastacct_ext.{name}",
        sources=[f"fastacct_ext/{name}.pyx", *sources],
        include_dirs=["fastacct_ext"],
        depends=[*found("**/*.h"), *found("*.pxi")],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


class Build(build_ext):
    """Compiles the levels side by side, and says what is missing where nothing can be compiled."""

    def build_extensions(self):
        """Compile all modules, the sources of each at the same time."""
        alone = self.compiler.compile

        def side_by_side(sources, *args, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = list(pool.map(lambda one: alone([one], *args, **options), sources))
            return [one for objects in made for one in objects]

        if sys.platform != "win32":  # whose compiler is found in the first call
            self.compiler.compile = side_by_side
        super().build_extensions()

    def build_extension(self, ext):
        """Compile one module."""
        try:
            super().build_extension(ext)
        except CompileError as error:
            needed = "a C11 compiler and the headers of Python (Debian, Ubuntu: apt-get install gcc python3-dev)"
            raise CompileError(f"{error}: the kernels of fastacct need {needed}") from error


class Reproducible(sdist):
    """A source archive whose bytes are those of its files and of SOURCE_DATE_EPOCH alone."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        """Write the archive with sorted names, one date, and nobody's permissions."""
        if format != "gztar" or root_dir:
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        date = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        output = Path(f"{base_name}.tar.gz")
        with (
            output.open("wb") as raw,
            gzip.GzipFile("", "wb", mtime=date, fileobj=raw) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(Path(base_dir).rglob("*"), key=str):
                entry = archive.gettarinfo(path)
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = date, 0, 0, "", ""
                entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                if entry.isfile():
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry)
        return str(output)


setup(
    ext_modules=[extension("_kernels", *found("src/*.c")), extension("_densities")],
    cmdclass={"build_ext": Build, "sdist": Reproducible},
)
