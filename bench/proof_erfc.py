"""Proof, in ball arithmetic, of the error of erfc in the kernels (num/window.h): python -m bench.proof_erfc.

It reads the polynomial from the header. On each of some hundred intervals that cover [0, 26], two bounds are computed
and added, in units of u = 2^-53:

* how far t exp(p(y) - x^2) is from erfc(x) in exact arithmetic: Taylor's formula about the middle of the interval, with
  Lagrange's remainder, whose coefficient is enclosed on all of it;
* what rounding makes of it: a running analysis of the operations, without fused ones, which round once less.

docs/algorithms/arithmetic.md has it in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flint import arb, arb_series, ctx

HEADER: Final = Path(__file__).resolve().parents[1] / "fastacct_ext" / "include" / "num" / "window.h"
END: Final = 26.0
ORDER: Final = 16
"""Terms of Taylor's formula."""
EXP: Final = 4.0
"""Units that the exponential of num/vector.h may be off by (docs/algorithms/arithmetic.md)."""
LEAST, SQUARE = 13.0, 2.0
"""The bound is LEAST + SQUARE x^2 units."""


def coefficients() -> list[arb]:
    """Those of the polynomial, highest power first, as doubles."""
    body = HEADER.read_text().split("double fa_erfc_parts_v(")[1].split("}")[0]
    found = [float(number) for number in re.findall(r"-?\d+\.\d+(?:[eE][-+]\d+)?", body)]
    assert found[:3] == [2.0, 2.0, 2.0], "t = 2.0/(2.0 + x), y = 2.0 t - 1.0"
    return [arb(number) for number in found[4:]]


def distance(x: arb, p: list[arb]) -> arb_series:
    """log of erfc(x) exp(x^2)/t, less p(y), as a series in the distance from x."""
    at = arb_series([x, 1])
    t = 2 / (at + 2)
    value = arb_series([0])
    for c in p:
        value = value * (2 * t - 1) + c
    return at.erfc().log() + at * at - t.log() - value


def approximation(low: float, high: float, p: list[arb]) -> arb:
    """How far the polynomial may be from that logarithm on [low, high]."""
    middle, radius = (arb(low) + arb(high)) / 2, (arb(high) - arb(low)) / 2
    ctx.cap = ORDER + 1
    near = distance(middle, p)
    far = distance(middle + arb(0, 1) * radius, p)
    value = far[ORDER]
    for k in reversed(range(ORDER)):
        value = value * (arb(0, 1) * radius) + near[k]
    return value


def rounding(low: float, high: float, p: list[arb]) -> arb:
    """What rounding makes of the value on [low, high], relative, in units; the exponential's own error is EXP."""
    x = arb(low).union(arb(high))
    t = 2 / (x + 2)
    y = 2 * t - 1
    # of t: the sum 2 + x is rounded, and the quotient, whose last place is at most half of that of 1
    ulp = 1.0 if high <= 2.0 else 0.5 if high <= 6.0 else 0.25 if high <= 14.0 else 0.125
    t_off = 1 + 0.5 * ulp / t.abs_lower()
    value, off, slope = p[0], arb(0), arb(0)
    for c in p[1:]:
        slope = slope * y + value
        product = value * y
        off = off * y.abs_upper() + product.abs_upper()
        value = product + c
        off = off + value.abs_upper()
    of_t = (1 + 2 * t * slope).abs_upper() * t_off  # y = 2 t - 1 is exact below x = 6; beyond, rounded once
    if high > 6.0:
        of_t = of_t + slope.abs_upper() * y.abs_upper()
    exponent = (value - x * x).abs_upper()
    return of_t + off + (x * x).abs_upper() + exponent + EXP + 1


def intervals() -> Iterator[tuple[float, float]]:
    """Neighbours that cover [0, END], so narrow that erfc changes little on each."""
    low = 0.0
    while low < END:
        high = min(low + 0.0625 / (1.0 + low), *(edge for edge in (2.0, 6.0, 14.0, END) if edge > low))
        yield low, high
        low = high


def prove() -> tuple[float, float]:
    """The largest distance in units, and the largest part of the bound that is used; raises where it does not hold."""
    ctx.prec = 160
    p = coefficients()
    farthest = used = 0.0
    for low, high in intervals():
        near = float((approximation(low, high, p).abs_upper() * 2**53).upper())
        units = near + float(rounding(low, high, p).abs_upper()) * (1 + 1e-9)
        assert units <= LEAST + SQUARE * low * low, (low, high, near, units)
        farthest, used = max(farthest, near), max(used, units / (LEAST + SQUARE * low * low))
    return farthest, used


def main() -> None:
    """Print what is proved."""
    farthest, used = prove()
    print(f"erfc on [0, {END:g}] within ({LEAST:g} + {SQUARE:g} x^2) u: proved, at most {100 * used:.0f} % of it used;")
    print(f"its polynomial is within {farthest:.3f} u of log(erfc(x) exp(x^2)/t)")


if __name__ == "__main__":
    main()
