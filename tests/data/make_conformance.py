"""Write the cases of `fastacct.conformance` with their truths, in arbitrary precision; it takes a quarter of an hour.

    python -m tests.data.make_conformance fastacct/conformance/cases.json

The oracles are `fastacct.reference` and, for compositions, `tests/data/conformance_truths.py`, in mpmath both; runs of
one sampled Gaussian are asked of both. Every value is certified to `DIGITS` digits and written as an interval of that width; where only bounds of
the truth are known, low and high are those bounds. Cases that cannot be certified are named and left out.
"""

from __future__ import annotations

import json
import math
import platform
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gmpy2
import mpmath
from mpmath import mp, mpf

from fastacct import reference
from fastacct.reference import NotConverged
from tests.data.conformance_truths import (
    Part,
    added_is_not_larger,
    composed_epsilon,
    laplace_epsilon,
    responses_epsilon,
    sampled_laplace_epsilon,
)

COMMAND = "python -m tests.data.make_conformance fastacct/conformance/cases.json"
DIGITS, FEWER_DIGITS = 20, 12
"""Of all truths, and of runs in which so few records take part that more would take minutes."""
SECONDS = 60
"""For one truth."""
Block = dict[str, Any]
Question = tuple[str, list[Block], str, float]
"""Name, blocks, relation, delta."""


# --- blocks -----------------------------------------------------------------------------------------------------------


def poisson(sigma: float, q: float, steps: int) -> Block:
    return {"kind": "poisson_gaussian", "noise_multiplier": sigma, "sample_rate": q, "count": steps}


def gaussian(sigma: float, count: int = 1) -> Block:
    return {"kind": "gaussian", "noise_multiplier": sigma, "count": count}


def laplace(scale: float, count: int = 1) -> Block:
    return {"kind": "laplace", "noise_multiplier": scale, "count": count}


def response(noise: float, buckets: int, count: int = 1) -> Block:
    return {"kind": "randomized_response", "noise_parameter": noise, "buckets": buckets, "count": count}


def fixed(sigma: float, batch: int, records: int, count: int = 1) -> Block:
    return {"kind": "fixed_size", "noise_multiplier": sigma, "batch_size": batch, "records": records, "count": count}


# --- questions --------------------------------------------------------------------------------------------------------


def questions() -> Iterator[Question]:
    """All cases, by group: the part of a name before its slash."""
    published = {
        "tf-privacy-readme": (1.1, 256 / 60_000, 14_062, 1e-5),
        "tf-privacy-tutorial": (1.3, 250 / 60_000, 3_600, 1e-5),
        "tf-privacy-test": (1.3, 150 / 60_000, 6_000, 1e-5),
        "tf-privacy-q-1e-3": (1.0, 1e-3, 30_000, 1e-7),
        "opacus-mnist-1": (1.3, 0.004, 3_750, 1e-5),
        "opacus-mnist-2": (1.1, 0.004, 15_000, 1e-5),
        "opacus-mnist-3": (0.7, 0.004, 11_250, 1e-5),
        "opacus-test": (1.5, 0.04, 2_250, 1e-5),
        "cifar10-large-batch": (10.0, 4096 / 50_000, 875, 1e-5),
        "imagenet": (2.5, 16_384 / 1_281_167, 71_589, 8e-7),
        "abadi": (4.0, 0.01, 10_000, 1e-5),
        "koskela-sigma-1": (1.0, 0.01, 10_000, 1e-6),
        "koskela-sigma-2": (2.0, 0.01, 10_000, 1e-6),
        "few-steps": (0.6, 0.01, 200, 1e-5),
        "half-the-records": (5.0, 0.5, 10, 1e-6),
    }
    for name, (sigma, q, steps, delta) in published.items():
        yield f"everyday/{name}", [poisson(sigma, q, steps)], "add_remove", delta
    for sigma in (0.8, 1.0, 1.5, 3.0):
        for q, steps in ((0.005, 2_000), (0.02, 1_000), (0.05, 500), (0.1, 5_000), (0.01, 20_000)):
            yield f"everyday/sigma-{sigma:g}-q-{q:g}-T-{steps}", [poisson(sigma, q, steps)], "add_remove", 1e-6
    for sigma, q, steps in ((1.0, 0.01, 1_000), (2.0, 0.1, 200), (0.7, 0.02, 500)):
        for power in (3, 8, 10, 11, 12, 13, 14, 15, 18, 20, 25, 30):
            yield (
                f"small-delta/sigma-{sigma:g}-1e-{power}",
                [poisson(sigma, q, steps)],
                "add_remove",
                float(f"1e-{power}"),
            )
    yield from hostile()
    yield from plain_gaussians()
    yield from pure()
    yield from histories()
    yield from other_relations()
    for name, blocks, relation, delta in batches():
        yield f"fixed-size/{name}", blocks, relation, delta


def hostile() -> Iterator[Question]:
    """Runs at the ends of the ranges."""
    runs = {
        "q-1e-8-one-step": (1.0, 1e-8, 1, 1e-12), "q-1e-8-two-steps": (1.0, 1e-8, 2, 1e-12),
        "q-1e-8-one-step-small-noise": (0.3, 1e-8, 1, 1e-10), "q-1e-6-one-step": (0.5, 1e-6, 1, 1e-9),
        "q-1e-5-two-steps": (0.8, 1e-5, 2, 1e-8), "q-1e-3-one-step": (0.7, 1e-3, 1, 1e-6),
        "q-0.01-one-step": (0.7, 0.01, 1, 1e-5), "q-0.1-two-steps": (1.0, 0.1, 2, 1e-5),
        "q-0.5-one-step": (2.0, 0.5, 1, 1e-5), "q-0.99-one-step": (1.0, 0.99, 1, 1e-12),
        "q-0.9-two-steps": (3.0, 0.9, 2, 1e-6), "one-step-1e-30": (1.0, 0.01, 1, 1e-30),
        "two-steps-1e-20": (2.0, 0.05, 2, 1e-20),
        "q-1e-8-1e15-steps": (1.0, 1e-8, 10**15, 1e-5), "q-1e-8-1e14-steps": (1.0, 1e-8, 10**14, 1e-5),
        "q-1e-7-1e13-steps": (1.0, 1e-7, 10**13, 1e-5), "q-1e-6-1e12-steps": (1.0, 1e-6, 10**12, 1e-5),
        "q-1e-6-1e11-steps": (2.0, 1e-6, 10**11, 1e-6), "q-1e-5-1e9-steps": (2.0, 1e-5, 10**9, 1e-6),
        "q-1e-4-1e6-steps": (1.0, 1e-4, 10**6, 1e-8), "q-1e-3-1e6-steps": (2.0, 1e-3, 10**6, 1e-5),
        "q-1e-4-1e8-steps": (3.0, 1e-4, 10**8, 1e-6),
        "sigma-100-half": (100.0, 0.5, 10_000, 1e-6), "sigma-100-q-0.1": (100.0, 0.1, 10**6, 1e-5),
        "sigma-30-q-0.01": (30.0, 0.01, 10**6, 1e-6), "sigma-100-q-0.01": (100.0, 0.01, 10**6, 1e-10),
        "sigma-0.5-q-0.01": (0.5, 0.01, 1_000, 1e-5), "sigma-0.5-q-0.1": (0.5, 0.1, 300, 1e-6),
        "sigma-0.4-q-0.5": (0.4, 0.5, 100, 1e-5), "sigma-0.3-q-0.9": (0.3, 0.9, 50, 1e-6),
        "q-0.9": (1.0, 0.9, 100, 1e-5), "q-0.99": (2.0, 0.99, 1_000, 1e-6), "q-0.999": (5.0, 0.999, 500, 1e-10),
        "epsilon-in-the-hundreds": (1.0, 0.2, 3_000, 1e-5), "epsilon-in-the-thousands": (0.8, 0.3, 10_000, 1e-5),
        "large-delta": (1.0, 0.02, 500, 0.05), "very-large-delta": (2.0, 0.1, 1_000, 0.2),
    }  # fmt: skip
    for name, (sigma, q, steps, delta) in runs.items():
        yield f"hostile/{name}", [poisson(sigma, q, steps)], "add_remove", delta


def plain_gaussians() -> Iterator[Question]:
    """Closed forms."""
    for sigma, count, delta in (
        (0.05, 1, 1e-5), (0.3, 1, 1e-6), (0.5, 10, 1e-5), (1.0, 1, 1e-5), (1.0, 1, 1e-1), (1.0, 1, 1e-12),
        (1.0, 1, 1e-15), (1.0, 1, 1e-30), (1.0, 1, 1e-100), (1.0, 4, 1e-5), (2.0, 1, 1e-5), (2.0, 1_000, 1e-6),
        (3.73, 1, 1e-5), (5.0, 1, 1e-20), (10.0, 100, 1e-9), (10.0, 1, 1e-6), (30.0, 10_000, 1e-6),
        (100.0, 1, 1e-10), (100.0, 1_000_000, 1e-5), (1_000.0, 1_000_000, 1e-8), (50.0, 7, 1e-7), (1.0, 1, 1e-200),
        (0.7, 1, 1e-8), (1.5, 20, 1e-11), (4.0, 300, 1e-13), (8.0, 1, 1e-4), (20.0, 50, 1e-3), (0.2, 5, 1e-9),
    ):  # fmt: skip
        name = f"gaussian/sigma-{sigma:g}-T-{count}-{delta:g}"
        yield name, [gaussian(sigma, count)], "add_remove", delta
    yield "gaussian/as-a-sample-of-everybody", [poisson(2.0, 1.0, 10)], "add_remove", 1e-5
    yield "gaussian/as-samples-of-everybody", [poisson(20.0, 1.0, 1_000)], "add_remove", 1e-8


def pure() -> Iterator[Question]:
    """Mechanisms that are differentially private with delta 0."""
    for scale in (0.1, 0.5, 1.0, 2.0, 10.0, 100.0):
        for delta in (0.0, 1e-6):
            yield f"laplace/scale-{scale:g}-delta-{delta:g}", [laplace(scale)], "add_remove", delta
    for scale, count, delta in (
        (1.0, 2, 1e-6), (1.0, 5, 1e-3), (2.0, 4, 1e-9), (2.0, 8, 1e-6), (2.0, 8, 0.0), (5.0, 10, 1e-5), (5.0, 12, 1e-2),
        (10.0, 16, 1e-5), (20.0, 20, 1e-6), (10.0, 20, 1e-12), (10.0, 18, 1e-4), (1.0, 3, 0.2), (3.0, 6, 1e-15),
    ):  # fmt: skip
        yield f"laplace/scale-{scale:g}-T-{count}-delta-{delta:g}", [laplace(scale, count)], "add_remove", delta
    for scale, q, delta in (
        (1.0, 0.1, 1e-6),
        (0.5, 0.01, 1e-9),
        (2.0, 0.5, 0.0),
        (0.2, 1e-3, 1e-5),
        (1.0, 1e-6, 1e-12),
    ):
        block = {"kind": "poisson_laplace", "noise_multiplier": scale, "sample_rate": q, "count": 1}
        yield f"laplace/sampled-{scale:g}-q-{q:g}-delta-{delta:g}", [block], "add_remove", delta
    for noise, buckets, count, delta in (
        (0.5, 2, 1, 0.0), (0.5, 2, 1, 1e-6), (0.5, 2, 10, 1e-6), (0.5, 2, 10, 0.0), (0.25, 2, 5, 1e-4),
        (0.75, 2, 20, 1e-5), (0.875, 2, 100, 1e-6), (0.9375, 2, 1_000, 1e-5), (0.96875, 2, 1_000, 1e-9),
        (0.5, 3, 4, 1e-6), (0.5, 10, 1, 0.0), (0.75, 10, 6, 1e-8), (0.875, 5, 30, 1e-5), (0.9375, 100, 20, 1e-6),
        (0.0625, 2, 3, 1e-3), (0.984375, 2, 2_000, 1e-6), (0.5, 2, 100, 1e-20), (0.75, 4, 50, 1e-12),
    ):  # fmt: skip
        name = f"randomized-response/p-{noise:g}-of-{buckets}-T-{count}-delta-{delta:g}"
        yield name, [response(noise, buckets, count)], "replace_one", delta


def histories() -> Iterator[Question]:
    """Several different releases."""
    together = {
        "two-phases": ([poisson(1.0, 0.01, 1_000), poisson(0.8, 0.02, 500)], 1e-6),
        "two-phases-small-delta": ([poisson(1.0, 0.01, 1_000), poisson(0.8, 0.02, 500)], 1e-13),
        "warm-up": ([poisson(4.0, 0.01, 500), poisson(1.0, 0.01, 5_000)], 1e-5),
        "last-block-is-small": ([poisson(0.8, 0.05, 1_000), poisson(20.0, 0.01, 50)], 1e-5),
        "first-block-is-small": ([poisson(20.0, 0.01, 50), poisson(0.8, 0.05, 1_000)], 1e-5),
        "noise-falls": ([poisson(1.5 - 0.125 * i, 0.01, 400) for i in range(5)], 1e-6),
        "rate-grows": ([poisson(1.25, 0.01 * 2**i, 200) for i in range(4)], 1e-7),
        "three-of-everything": ([poisson(0.75, 0.01, 300), poisson(1.5, 0.1, 300), poisson(3.0, 0.5, 30)], 1e-6),
        "pretraining-and-query": ([poisson(1.0, 0.01, 2_000), gaussian(10.0)], 1e-5),
        "training-and-statistics": ([poisson(1.1, 0.004, 5_000), gaussian(20.0, 5), gaussian(8.0)], 1e-6),
        "gaussian-first": ([gaussian(5.0, 3), poisson(1.0, 0.02, 800)], 1e-8),
        "five-gaussians": ([gaussian(s) for s in (2.0, 3.0, 5.0, 8.0, 13.0)], 1e-6),
        "two-gaussians": ([gaussian(1.0), gaussian(3.0, 4)], 1e-9),
        "gaussians-small-delta": ([gaussian(4.0, 10), gaussian(6.0, 20)], 1e-25),
        "gaussian-and-laplace": ([gaussian(5.0), laplace(2.0, 3)], 1e-5),
        "gaussian-and-many-laplace": ([gaussian(3.0, 2), laplace(10.0, 40)], 1e-7),
        "training-and-laplace": ([poisson(1.0, 0.01, 1_000), laplace(2.0, 5), gaussian(10.0, 3)], 1e-9),
        "training-and-a-histogram": ([poisson(0.9, 0.02, 1_500), laplace(1.0)], 1e-6),
        "long-and-short": ([poisson(2.0, 0.01, 100_000), poisson(1.0, 0.05, 100)], 1e-6),
        "large-batches": ([poisson(10.0, 0.5, 200), poisson(8.0, 0.25, 400)], 1e-6),
        "epsilon-in-the-hundreds": ([poisson(1.0, 0.2, 1_000), poisson(0.75, 0.1, 1_000)], 1e-5),
        "same-block-twice": ([poisson(1.0, 0.01, 600), poisson(1.0, 0.01, 400)], 1e-5),
        "many-steps": ([poisson(3.0, 0.001, 100_000), poisson(2.0, 0.01, 10_000)], 1e-10),
        "1e-20": ([poisson(1.5, 0.05, 400), poisson(2.5, 0.1, 400)], 1e-20),
    }
    for name, (blocks, delta) in together.items():
        yield f"history/{name}", blocks, "add_remove", delta
    for k in range(1, 25):
        yield f"history/mixed-{k:02d}", list(mixed(k)), "add_remove", float(f"1e-{5 + k % 9}")
    for name, blocks, delta in (
        ("responses-and-gaussian", [gaussian(4.0), response(0.5, 2, 4)], 1e-5),
        ("responses-of-two-kinds", [response(0.5, 2, 3), response(0.75, 2, 8)], 1e-6),
        ("responses-of-three-kinds", [response(0.5, 2, 3), response(0.875, 2, 20), response(0.75, 3, 5)], 1e-9),
        ("training-and-responses", [poisson(1.0, 0.01, 1_000), response(0.5, 2, 3)], 1e-9),
        ("replaced-in-two-phases", [poisson(1.0, 0.01, 1_000), poisson(2.0, 0.05, 500)], 1e-6),
        ("replaced-gaussians", [gaussian(4.0, 2), gaussian(10.0, 5)], 1e-6),
    ):
        yield f"history/{name}", blocks, "replace_one", delta


def mixed(k: int) -> Iterator[Block]:
    """Two to five blocks whose parameters go round at different speeds."""
    for j in range(2 + k % 4):
        q, steps = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)[(3 * k + j) % 6], (300, 1_000, 3_000, 10_000)[(k + 3 * j) % 4]
        yield poisson(0.75 + 0.25 * ((7 * k + 5 * j) % 13), q, steps)


def other_relations() -> Iterator[Question]:
    """One record replaced, or zeroed out."""
    for sigma, count, delta in (
        (2.0, 1, 1e-5), (1.0, 1, 1e-6), (4.0, 10, 1e-5), (10.0, 100, 1e-12), (30.0, 1_000, 1e-6), (0.5, 1, 1e-3),
        (100.0, 5, 1e-8), (5.0, 1, 1e-30), (20.0, 1, 1e-9), (3.0, 30, 1e-4),
    ):  # fmt: skip
        yield f"replace-one/gaussian-{sigma:g}-T-{count}-{delta:g}", [gaussian(sigma, count)], "replace_one", delta
    for sigma, q, steps, delta in (
        (1.0, 0.01, 1_000, 1e-5), (2.0, 0.01, 10_000, 1e-6), (1.1, 0.004, 15_000, 1e-5), (1.0, 0.1, 200, 1e-8),
        (3.0, 0.5, 50, 1e-6), (0.8, 0.02, 1_000, 1e-6), (1.0, 0.1, 1_000, 1e-12), (5.0, 0.9, 20, 1e-5),
        (10.0, 0.05, 10_000, 1e-7), (1.5, 0.02, 3_000, 1e-15), (0.7, 0.05, 300, 1e-5), (2.0, 0.2, 500, 1e-10),
        (30.0, 0.3, 2_000, 1e-6), (1.2, 0.008, 5_000, 1e-5),
    ):  # fmt: skip
        name = f"replace-one/sampled-{sigma:g}-q-{q:g}-T-{steps}-{delta:g}"
        yield name, [poisson(sigma, q, steps)], "replace_one", delta
    for name, blocks, delta in (
        ("training", [poisson(1.0, 0.01, 1_000)], 1e-5), ("small-delta", [poisson(1.0, 0.01, 1_000)], 1e-13),
        ("tf-privacy", [poisson(1.1, 256 / 60_000, 14_062)], 1e-5), ("gaussian", [gaussian(2.0)], 1e-5),
        ("gaussians", [gaussian(10.0, 100)], 1e-9), ("laplace", [laplace(2.0)], 1e-6),
        ("laplaces", [laplace(5.0, 10)], 1e-5), ("history", [poisson(1.0, 0.01, 500), gaussian(8.0)], 1e-6),
    ):  # fmt: skip
        yield f"zero-out/{name}", blocks, "zero_out", delta


def batches() -> Iterator[Question]:
    """Batches of fixed size; the truth of many steps with a replaced record is an interval."""
    for name, block, delta in (
        ("mnist", fixed(4.0, 256, 60_000, 5_000), 1e-5), ("small-data", fixed(2.0, 10, 1_000, 1_000), 1e-5),
        ("half", fixed(10.0, 500, 1_000, 50), 1e-6), ("one-step", fixed(2.0, 10, 1_000), 1e-6),
        ("everybody", fixed(8.0, 1_000, 1_000, 4), 1e-5), ("1e-12", fixed(3.0, 50, 1_000, 200), 1e-12),
    ):  # fmt: skip
        yield name, [block], "add_remove", delta
    for name, block, delta in (
        ("replaced-one-step", fixed(2.0, 10, 1_000), 1e-6), ("replaced-one-step-large", fixed(1.0, 100, 1_000), 1e-5),
        ("replaced-one-step-1e-15", fixed(4.0, 1, 100), 1e-15), ("replaced-small-data", fixed(2.0, 10, 1_000, 1_000), 1e-5),
        ("replaced-large-batch", fixed(8.0, 100, 1_000, 200), 1e-6), ("replaced-long", fixed(4.0, 20, 1_000, 4_000), 1e-5),
        ("replaced-everybody", fixed(8.0, 1_000, 1_000, 4), 1e-5),
    ):  # fmt: skip
        yield name, [block], "replace_one", delta
    for relation in ("add_remove", "replace_one"):
        for name, blocks, delta in (
            ("after-two-gaussians", [gaussian(1.0, 2), fixed(8.0, 20, 1_000)], 1e-4),
            ("before-two-gaussians", [fixed(8.0, 20, 1_000), gaussian(1.0, 2)], 1e-4),
            ("many-after-a-gaussian", [gaussian(6.0), fixed(8.0, 20, 1_000, 40)], 1e-5),
            ("of-two-sizes", [fixed(8.0, 20, 1_000, 40), fixed(12.0, 50, 1_000, 5)], 1e-5),
            ("beside-training", [poisson(1.0, 0.01, 1_000), fixed(4.0, 50, 1_000, 20)], 1e-6),
        ):
            yield f"{name}-{relation}", blocks, relation, delta


# --- truths -----------------------------------------------------------------------------------------------------------


def truth(blocks: list[Block], relation: str, delta: float) -> tuple[mpf, mpf, str]:
    """Bounds of the smallest epsilon, and where they come from."""
    kinds = {block["kind"] for block in blocks}
    if "fixed_size" in kinds:
        return of_fixed_size(blocks[0], relation, delta) if len(blocks) == 1 else of_batches(blocks, relation, delta)
    far = 2 if relation == "replace_one" else 1
    if all(kind == "gaussian" or block.get("sample_rate") == 1.0 for block in blocks for kind in [block["kind"]]):
        with mp.workdps(3 * DIGITS):
            mu = mp.sqrt(mp.fsum(b["count"] * (far / mpf(b["noise_multiplier"])) ** 2 for b in blocks))
        return around(reference.gaussian_epsilon(mu, delta, digits=DIGITS + 2), "reference.gaussian_epsilon")
    if kinds == {"poisson_gaussian"} and len(blocks) == 1 and relation != "replace_one":
        run = (blocks[0]["noise_multiplier"], blocks[0]["sample_rate"], blocks[0]["count"])
        return of_sampled(run, delta)
    if kinds == {"poisson_laplace"}:
        one = blocks[0]
        value = sampled_laplace_epsilon(one["noise_multiplier"], one["sample_rate"], delta, DIGITS + 2)
        return around(value, "conformance_truths.sampled_laplace_epsilon")
    if kinds == {"laplace"} and len(blocks) == 1:
        value = laplace_epsilon(blocks[0]["noise_multiplier"], blocks[0]["count"], delta, DIGITS + 2)
        return around(value, "conformance_truths.laplace_epsilon")
    parts = [part(block, relation) for block in blocks]
    if kinds == {"randomized_response"}:
        return around(responses_epsilon(parts, delta, DIGITS + 2), "conformance_truths.responses_epsilon")
    value = composed_epsilon(parts, delta, DIGITS + 2)
    if relation != "replace_one" and not added_is_not_larger(parts, value, delta):
        raise NotConverged("a record added needs a larger epsilon")
    return around(value, "conformance_truths.composed_epsilon")


def part(block: Block, relation: str) -> Part:
    """A block as the oracle of compositions takes it."""
    kind, count = block["kind"], block["count"]
    if kind == "randomized_response":
        return Part("response", block["noise_parameter"], count, mpf(block["buckets"]))
    noise, replaced = block["noise_multiplier"], relation == "replace_one"
    if kind == "gaussian":  # dividing by two is exact
        return Part("gaussian", noise / 2 if replaced else noise, count)
    if kind == "laplace":
        return Part("laplace", noise, count)
    return Part("mirrored" if replaced else "sampled", noise, count, mpf(block["sample_rate"]))


def of_sampled(run: tuple[Any, Any, int], delta: float, *, checked: bool = True) -> tuple[mpf, mpf, str]:
    """Steps of the sampled Gaussian: a record removed is the worse direction, which is checked.

    Two oracles that share nothing but mpmath: one finds epsilon, the other has to find `delta` there. Where the first
    fails the other does both.
    """
    digits = DIGITS
    try:
        if run[2] * run[1] < 4:
            raise NotConverged("few records take part")
        value = composed_epsilon([Part("sampled", float(run[0]), run[2], mpf(run[1]))], delta, DIGITS + 2)
        there = reference.exact_delta(*run, value, direction="remove", digits=8)
        if abs(there / mpf(delta) - 1) > mpf("1e-8"):
            raise AssertionError(f"two oracles disagree: {run}, {value}, {there}")
        source = "conformance_truths.composed_epsilon, reference.exact_delta"
    except (NotConverged, ValueError):
        digits = DIGITS if run[2] <= 2 or run[1] * run[2] > 100 else FEWER_DIGITS
        value = reference.exact_epsilon(*run, delta, direction="remove", digits=digits + 2)
        source = "reference.exact_epsilon"
    if checked and not added(run, value, delta):
        raise NotConverged("a record added needs a larger epsilon")
    return around(value, source, digits)


def added(run: tuple[Any, Any, int], epsilon: mpf, delta: float) -> bool:
    """Whether adding a record needs no larger epsilon: its losses are below -log(1 - q) each."""
    if run[1] < 1 and epsilon >= -run[2] * mp.log1p(-mpf(run[1])):
        return True
    ways = [
        lambda: added_is_not_larger([Part("sampled", float(run[0]), run[2], mpf(run[1]))], epsilon, delta),
        lambda: bool(reference.exact_delta(*run, epsilon, direction="add", digits=4) <= mpf(delta) * (1 + mpf("1e-3"))),
    ]
    for way in ways if run[1] * run[2] >= 50 else ways[::-1]:
        try:
            return way()
        except (NotConverged, ValueError) as error:
            why = error
    raise NotConverged(f"a record added: {why}")


def of_fixed_size(block: Block, relation: str, delta: float) -> tuple[mpf, mpf, str]:
    """A Poisson sample at half the noise; with a record replaced one step exactly, and bounds of many."""
    with mp.workdps(3 * DIGITS):
        q = mpf(block["batch_size"]) / block["records"]
    sigma, count = block["noise_multiplier"], block["count"]
    if q == 1:
        return truth([gaussian(sigma / 2, count)], "add_remove", delta)
    low, high, source = of_sampled((sigma / 2, q, count), delta, checked=relation == "add_remove")
    if relation == "add_remove" or count == 1:
        return low, high, source
    most = composed_epsilon([Part("slot", sigma, count, q)], delta, DIGITS + 2)
    return low, around(most, "")[1], f"{source} (low), conformance_truths.composed_epsilon (high)"


def of_batches(blocks: list[Block], relation: str, delta: float) -> tuple[mpf, mpf, str]:
    """Batches of fixed size beside other releases, by the laws that bound each step (`of_fixed_size`)."""
    ends = []
    for replaced in ("sampled", "slot"):
        parts = []
        for block in blocks:
            if block["kind"] != "fixed_size":
                parts.append(part(block, relation))
                continue
            q = mpf(block["batch_size"]) / block["records"]
            is_slot = replaced == "slot" and relation == "replace_one"
            noise = block["noise_multiplier"] if is_slot else block["noise_multiplier"] / 2
            parts.append(Part("slot" if is_slot else "sampled", noise, block["count"], q))
        value = composed_epsilon(parts, delta, DIGITS + 2)
        if relation != "replace_one" and not added_is_not_larger(parts, value, delta):
            raise NotConverged("a record added needs a larger epsilon")
        ends.append(value)
    low, high = around(ends[0], "")[0], around(ends[1], "")[1]
    name = "conformance_truths.composed_epsilon"
    return low, high, f"{name} (low), {name} (high)" if relation == "replace_one" else name


def around(value: mpf, source: str, digits: int = DIGITS) -> tuple[mpf, mpf, str]:
    """An interval as wide as the digits."""
    with mp.workdps(3 * DIGITS):
        return value * (1 - mpf(10) ** -digits), value * (1 + mpf(10) ** -digits), source


def late(*_: Any) -> None:
    """Leave a case out that takes too long."""
    raise NotConverged(f"not found in {SECONDS} s")


def main(out: Path) -> None:
    """Write the file."""
    signal.signal(signal.SIGALRM, late)
    start, rows = time.perf_counter(), []
    for name, blocks, relation, delta in questions():
        began = time.perf_counter()
        signal.alarm(SECONDS)
        try:
            low, high, source = truth(blocks, relation, delta)
        except (NotConverged, ValueError) as error:
            print(f"left out {name}: {error}", file=sys.stderr, flush=True)
            continue
        finally:
            signal.alarm(0)
        with mp.workdps(3 * DIGITS):
            ends = {"low": mp.nstr(low, DIGITS + 4), "high": mp.nstr(high, DIGITS + 4)}
        rows.append({"name": name, "blocks": blocks, "relation": relation, "delta": delta, **ends, "source": source})
        print(f"{time.perf_counter() - began:7.2f} s  {name}  {ends['low']}", file=sys.stderr, flush=True)
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(math.isfinite(float(row["high"])) and float(row["low"]) > 0 for row in rows)
    made = {
        "command": COMMAND,
        "python": platform.python_version(),
        "mpmath": mpmath.__version__,
        "gmpy2": gmpy2.version(),
        "digits": DIGITS,
        "seconds": round(time.perf_counter() - start),
    }
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    out.write_text(f'{{"made": {json.dumps(made)},\n "cases": [\n  {lines}\n]}}\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
