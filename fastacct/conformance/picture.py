"""One picture of an accountant, as SVG: how far every answer is from the truth, one dot a case."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from fastacct.conformance.judge import Result

__all__ = ["COLORS", "mark", "panel", "pictures"]

COLORS: Final = {
    "wrong": "#b23a00", "loose": "#0072b2", "tight": "#00785a", "infinite": "#a84380", "refused": "#6e6e6e",
    "error": "#8a6a00", "not asked": "#6e6e6e",
}  # fmt: skip
"""Okabe and Ito's, darkened for text; a verdict has a shape of its own as well."""
_SHAPES: Final = {
    "wrong": "m-4,-4l8,8m-8,0l8,-8", "loose": "m0,-4l3.6,6.4h-7.2z", "tight": "m-3,0a3,3 0 1 0 6,0a3,3 0 1 0 -6,0z",
    "infinite": "m0,-4l4,4l-4,4l-4,-4z", "refused": "m-3,-3h6v6h-6z", "error": "m-4,0h8m-4,-4v8",
}  # fmt: skip
WIDTH, HEIGHT = 420, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 22, 30, 38
_X = (1e-3, 1e4)
_DECADES_UP, _DECADES_DOWN = (-7, 3), (-8, 0)
_INFINITE, _LOOSEST, _TRUE, _DEEPEST, _NONE = 46.0, 62.0, 158.0, 248.0, 276.0
"""Rows of the picture: infinite, the top and the bottom of what is above the truth, what is below it, no answer."""
_STYLE: Final = "font-family:sans-serif;font-size:13px;fill:#333"


def panel(title: str, results: Sequence[Result]) -> str:
    """The picture of one accountant, as a group of WIDTH x HEIGHT."""
    wrong = sum(one.verdict == "wrong" for one in results)
    asked = sum(one.verdict != "not asked" for one in results)
    style = 'style="font-weight:bold;font-size:15px"'
    parts = [
        f'<text x="{_LEFT}" y="18" {style}>{escape(title)}: {wrong} wrong of {asked}</text>',
        *_frame(),
    ]
    for one in sorted(results, key=lambda one: one.verdict == "wrong"):
        x, y = _place(one)
        if one.verdict == "not asked":
            continue
        tip = escape(f"{one.case.name}: {one.verdict}{told(one)}")
        parts.append(mark(one.verdict, x, y, tip))
    return "\n".join(parts)


def mark(verdict: str, x: float, y: float, tip: str) -> str:
    """The dot of a case."""
    color, fill = COLORS[verdict], "none" if verdict == "refused" else COLORS[verdict]
    look = f'fill="{fill}" stroke="{color}" stroke-width="{2 if verdict == "wrong" else 1}" opacity="0.7"'
    return f'<path d="M{x:.1f},{y:.1f}{_SHAPES[verdict]}" {look}><title>{tip}</title></path>'


def pictures(panels: Mapping[str, Sequence[Result]], columns: int = 2) -> str:
    """Panels side by side: a picture that stands alone."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = f'width="{columns * WIDTH}" height="{rows * HEIGHT}" viewBox="0 0 {columns * WIDTH} {rows * HEIGHT}"'
    groups = [
        f'<g transform="translate({i % columns * WIDTH},{i // columns * HEIGHT})">\n{panel(title, results)}\n</g>'
        for i, (title, results) in enumerate(panels.items())
    ]
    background = '<rect width="100%" height="100%" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{_STYLE}">'
    return "\n".join([head, background, *groups, "</svg>\n"])


def told(one: Result) -> str:
    """By how much an answer is off, in words."""
    if one.excess is None or one.verdict == "tight":
        return f" ({one.message})" if one.message else ""
    if not math.isfinite(one.excess):
        return ""
    size = abs(one.excess)
    amount = f"{100 * size:.3g} %" if size < 1 or one.verdict == "wrong" else f"{1 + size:.3g} times"
    return f", {amount}" + (" too small" if one.verdict == "wrong" else " of the truth" if size >= 1 else " above")


def _place(one: Result) -> tuple[float, float]:
    low, high = map(math.log10, _X)
    at = (math.log10(min(max(float(one.case.low), _X[0]), _X[1])) - low) / (high - low)
    x = _LEFT + at * (WIDTH - _LEFT - _RIGHT)
    if one.verdict == "infinite":
        return x, _INFINITE
    if one.excess is None:
        return x, _NONE
    if one.verdict == "wrong":
        return x, _TRUE + _share(-one.excess, _DECADES_DOWN) * (_DEEPEST - _TRUE)
    return x, _TRUE - _share(one.excess, _DECADES_UP) * (_TRUE - _LOOSEST)


def _share(size: float, decades: tuple[int, int]) -> float:
    """Where a size is between the smallest and the largest decade, 0 to 1."""
    low, high = decades
    return (math.log10(min(max(size, 10.0**low), 10.0**high)) - low) / (high - low)


def _frame() -> list[str]:
    right = WIDTH - _RIGHT

    def text(x: float, y: float, word: str, more: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{word}</text>'

    def line(y: float, color: str) -> str:
        return f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}"/>'

    def box(y: float, height: float, style: str) -> str:
        return f'<rect x="{_LEFT}" y="{y}" width="{right - _LEFT}" height="{height}" {style}/>'

    end = 'text-anchor="end"'
    parts = [
        box(_TOP, HEIGHT - _TOP - _BOTTOM, 'fill="none" stroke="#999"'),
        box(_TRUE, _DEEPEST - _TRUE + 6, 'fill="#c62828" fill-opacity="0.06"'),
        line(_TRUE, "#333"),
        text(_LEFT - 4, _TRUE + 4, "truth", end),
        text(_LEFT - 4, _INFINITE + 4, "infinite", end),
        text(_LEFT - 4, _NONE + 4, "no answer", end),
    ]
    for size, word in ((1e-5, "+1e-5"), (1e-3, "+0.1 %"), (0.1, "+10 %"), (10.0, "+1000 %"), (1e3, "x 1000")):
        y = _TRUE - _share(size, _DECADES_UP) * (_TRUE - _LOOSEST)
        parts += [line(y, "#e4e4e4"), text(_LEFT - 4, y + 4, word, end)]
    for size, word in ((1e-6, "-1e-6"), (1e-3, "-0.1 %"), (1.0, "-100 %")):
        y = _TRUE + _share(size, _DECADES_DOWN) * (_DEEPEST - _TRUE)
        parts += [line(y, "#eccccc"), text(_LEFT - 4, y + 4, word, end)]
    low, high = map(math.log10, _X)
    for decade in range(int(low), int(high) + 1):
        x = _LEFT + (decade - low) / (high - low) * (right - _LEFT)
        parts.append(
            text(
                x, HEIGHT - _BOTTOM + 14, ("≤ " if decade == low else "") + f"{10.0**decade:g}", 'text-anchor="middle"'
            )
        )
    parts.append(text((_LEFT + right) / 2, HEIGHT - 8, "smallest true ε", 'text-anchor="middle"'))
    return parts
