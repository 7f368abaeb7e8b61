"""What an accountant's answers are worth, told as text, as JSON and as a page."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from html import escape
from typing import Any

from fastacct.conformance.case import made
from fastacct.conformance.judge import VERDICTS, Result
from fastacct.conformance.picture import COLORS, pictures, told

__all__ = ["as_html", "as_json", "as_text", "summary"]

_COLUMNS = ("cases", *VERDICTS, "median excess", "worst excess", "slowest")


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """How many answers have each verdict, how far the others are above the truth, and the time."""
    above = [one.excess for one in results if one.verdict in ("tight", "loose") and one.excess is not None]
    asked = [one for one in results if one.verdict != "not asked"]
    wrong = [one.excess for one in results if one.verdict == "wrong" and one.excess is not None]
    return {
        "cases": len(results),
        **{verdict: sum(one.verdict == verdict for one in results) for verdict in VERDICTS},
        "median excess": statistics.median(above) if above else None,
        "worst excess": max(above, default=None),
        "too small by at most": -min(wrong) if wrong else None,
        "median seconds": statistics.median(one.seconds for one in asked) if asked else None,
        "slowest": max((one.seconds for one in asked), default=None),
        "seconds": sum(one.seconds for one in results),
    }


def as_text(name: str, results: Sequence[Result]) -> str:
    """A table by group, every wrong answer, and what went wrong otherwise."""
    rows = [["group", *_COLUMNS], *([group, *_cells(summary(part))] for group, part in _groups(results).items())]
    rows.append(["all", *_cells(summary(results))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{name}: {_sentence(results)}", ""]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for verdict, title in (("wrong", "Wrong answers"), ("error", "Errors")):
        found = [one for one in results if one.verdict == verdict]
        if found:
            lines += ["", f"{title}:"]
            lines += [f"  {one.case.name}: {_told(one)}  [{one.case}]" for one in found]
    return "\n".join(lines) + "\n"


def as_json(name: str, results: Sequence[Result]) -> str:
    """All of it; numbers that JSON has no words for are strings."""
    rows = [
        {
            "case": one.case.name,
            "question": str(one.case),
            "low": str(one.case.low),
            "high": str(one.case.high),
            "source": one.case.source,
            "verdict": one.verdict,
            "answer": _plain(one.answer),
            "excess": _plain(one.excess),
            "seconds": round(one.seconds, 6),
            "message": one.message,
        }
        for one in results
    ]
    return json.dumps({"accountant": name, "truths": made(), "summary": summary(results), "results": rows}, indent=1)


def as_html(name: str, results: Sequence[Result]) -> str:
    """One page that needs nothing else: the picture, the table by group, and every case."""
    table = [["group", *_COLUMNS], *([group, *_cells(summary(part))] for group, part in _groups(results).items())]
    table.append(["all", *_cells(summary(results))])
    order = list(VERDICTS)
    rows = [
        f'<tr><td style="color:{COLORS[one.verdict]}">{one.verdict}</td><td>{escape(one.case.name)}</td>'
        f"<td>{escape(str(one.case))}</td><td>{_short(one.case.low)}</td><td>{_short(one.case.high)}</td>"
        f"<td>{'' if one.answer is None else repr(one.answer)}</td><td>{escape(told(one).strip(' ,'))}</td>"
        f"<td>{one.seconds:.3f}</td></tr>"
        for one in sorted(results, key=lambda one: order.index(one.verdict))
    ]
    words = "".join(f'<li><b style="color:{COLORS[v]}">{v}</b>: {escape(why)}</li>' for v, why in VERDICTS.items())
    truths = made()
    source = f"mpmath {truths['mpmath']}, {truths['digits']} digits, <code>{escape(truths['command'])}</code>"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Conformance of {escape(name)}</title>
<style>body{{font-family:sans-serif;margin:2em;color:#222}} table{{border-collapse:collapse;margin:1em 0}}
td,th{{padding:2px 8px;border-bottom:1px solid #ddd;text-align:right;font-size:13px}}
td:nth-child(-n+3){{text-align:left}}</style></head><body>
<h1>Conformance of {escape(name)}</h1>
<p>{escape(_sentence(results))}</p>
{pictures({name: results})}
<p>One dot a case; a dot below the line of the truth is an epsilon that is too small. Point at a dot for its name.</p>
<ul>{words}</ul>
<h2>By group</h2>
<table>{"".join(_row(row, "th" if i == 0 else "td") for i, row in enumerate(table))}</table>
<h2>Every case</h2>
<table>{_row(["verdict", "case", "question", "truth at least", "at most", "answer", "off by", "seconds"], "th")}
{chr(10).join(rows)}</table>
<p>Truths: {source}.</p>
</body></html>
"""


def _groups(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for one in results:
        found.setdefault(one.case.group, []).append(one)
    return found


def _sentence(results: Sequence[Result]) -> str:
    counts = summary(results)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return f"{counts['cases']} cases: {said}; {counts['seconds']:.1f} s"


def _cells(counts: dict[str, Any]) -> list[str]:
    words = [str(counts[name]) if counts[name] else "." for name in ("cases", *VERDICTS)]
    excess = ["" if counts[name] is None else f"{counts[name]:.1e}" for name in ("median excess", "worst excess")]
    return [*words, *excess, "" if counts["slowest"] is None else f"{counts['slowest']:.3f} s"]


def _told(one: Result) -> str:
    if one.verdict == "error":
        return one.message
    return f"{one.answer!r}, the truth is at least {_short(one.case.low)}{told(one)}"


def _short(value: Any) -> str:
    return f"{value:.9g}"


def _plain(value: float | None) -> Any:
    return value if value is None or math.isfinite(value) else str(value)


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
