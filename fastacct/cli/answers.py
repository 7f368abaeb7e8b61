"""What a command answers: one JSON document, a table and sentences, in the format that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.words import as_json, as_latex

UPPER: Final = ("epsilon", "delta", "rdp", "noise_multiplier", "noise_on_mean", "noise_on_average", "tpr_at_1_percent")


class Answer(NamedTuple):
    """What one command found out, as JSON, as a table and in words."""

    document: Mapping[str, object]
    sentences: Sequence[str]
    exit_code: int = 0
    rows: Sequence[Mapping[str, object]] = ()
    """The table, which comes before the sentences."""
    plain: str = ""
    """The number alone, with all its digits."""
    written: str = ""
    """A whole text that a format has, in place of the sentences."""

    def text(self, format: str = "text") -> str:
        """The whole answer, ready to print."""
        if format == "json":
            return as_json(self.document)
        if format == "plain" and self.plain:
            return self.plain
        if self.written:
            return self.written
        table = [render(self.rows, format)] if self.rows else []
        if format == "latex":
            return "\n".join([*table, *(f"% {one}" if table else as_latex(one) for one in self.sentences)])
        return "\n".join([*table, *([""] if table and format == "markdown" else []), *self.sentences])


def render(rows: Sequence[Mapping[str, object]], format: str = "text") -> str:
    """Rows with the same names as a table; bounds keep their side, and columns of numbers are set to the right."""
    head = [*rows[0]]
    cells = [[_shown(name, value) for name, value in row.items()] for row in rows]
    if format == "latex":
        lines = [" & ".join(as_latex(one) for one in line) + r" \\" for line in (head, *cells)]
        return "\n".join(
            [f"\\begin{{tabular}}{{{'l' * len(head)}}}", lines[0], r"\hline", *lines[1:], r"\end{tabular}"]
        )
    columns = list(zip(head, *cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    sides = [">" if any(text[:1].isdigit() for text in column[1:]) else "<" for column in columns]
    shapes = list(zip(sides, widths, strict=True))
    if format == "markdown":
        rule = [("-" * (width - 1) + ":") if side == ">" else "-" * width for side, width in shapes]
        padded = [[f"{one:{a}{n}}" for one, (a, n) in zip(line, shapes, strict=True)] for line in (head, *cells)]
        return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))
    lines = ["  ".join(f"{one:{a}{n}}" for one, (a, n) in zip(line, shapes, strict=True)) for line in (head, *cells)]
    return "\n".join(line.rstrip() for line in [lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def _shown(name: str, value: object) -> str:
    """A value of the column `name`; a bound is never shown on its wrong side."""
    if not isinstance(value, float):
        return str(value)
    if name.endswith("_lower"):
        return digits_down(value)
    return digits_up(value) if name in UPPER or name.endswith("_upper") else f"{value:g}"
