"""Build of the compiled kernels.

FASTACCT_BUILD=release (default), debug (no optimisation, assertions) or sanitize (address and undefined-behaviour
sanitizers). No -march flag: every instruction-set level is compiled into one portable module and chosen at import.
"""

import os
import sys

from setuptools import Extension, setup

FLAVOURS = {
    "release": (["-O3"], []),
    "debug": (["-O0", "-g"], []),
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

setup(
    ext_modules=[
        Extension(
            "fastacct_ext._kernels",
            sources=[
                "fastacct_ext/_kernels.pyx",
                "fastacct_ext/src/dispatch.c",
                "fastacct_ext/src/isa_baseline.c",
                "fastacct_ext/src/isa_v3.c",
                "fastacct_ext/src/isa_v4.c",
            ],
            include_dirs=["fastacct_ext"],
            depends=[
                f"fastacct_ext/include/{name}.h"
                for name in (
                    "bent_path",
                    "binomial_series",
                    "calibrate",
                    "classical",
                    "contour",
                    "conversion",
                    "exact",
                    "exact_readout",
                    "fa_math",
                    "fa_vector",
                    "fa_wide",
                    "gaussian_profile",
                    "kernels",
                    "kernels_impl",
                    "log_moment",
                    "loss_nodes",
                    "many_steps",
                    "mech/gaussian_mixtures",
                    "mech/poisson_gaussian",
                    "one_step",
                    "order_search",
                    "placing",
                    "quadrature",
                    "rough",
                    "wide_line",
                )
            ],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    ]
)
