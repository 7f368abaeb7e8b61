"""The drawing of docs/design.md, from its table of rooms: `python -m bench.architecture` (needs Graphviz)."""

import re
import subprocess
import sys
from pathlib import Path

from bench import dark

PAGE = Path(__file__).parent.parent / "docs" / "design.md"
ABOUT = {
    "kernels": "certified numbers in C",
    "core": "input, threads, bounds",
    "losses": "what a loss is",
    "samplers": "how batches are drawn",
    "mechanisms": "what is released",
    "readers": "who answers a question",
    "accountants": "exact, Rényi, older ones",
    "verbs": "epsilon, delta, trade-off, dpsgd",
    "cli": "the command fastacct",
    "compat": "other libraries",
    "reference": "the oracle, in mpmath",
}
OUTSIDE = ("testing", "conformance", "reference", "compat")


def rooms() -> dict[str, set[str]]:
    """{room: rooms that it imports}."""
    table = PAGE.read_text().split("\n## Rooms\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in re.findall(r"^\|.*\|$", table, re.MULTILINE)[2:]]
    return {row[0].strip(): {one.strip() for one in row[3].split(",") if one.strip()} for row in rows if len(row) == 4}


def beneath(room: str, table: dict[str, set[str]]) -> set[str]:
    """All rooms below one."""
    return table[room].union(*(beneath(one, table) for one in table[room]))


def drawing(table: dict[str, set[str]]) -> str:
    """The graph, without arrows that others imply."""
    lines = ["digraph rooms {", "rankdir=TB; nodesep=0.25; ranksep=0.4; bgcolor=white;"]
    lines.append(
        'node [shape=box, style="rounded,filled", fillcolor="#e8f1f8", color="#0072b2", fontname="sans-serif"];'
    )
    lines.append('edge [color="#555555", arrowsize=0.7];')
    for room, below in table.items():
        name = f"{room}\\n{ABOUT[room]}" if room in ABOUT else room
        look = ', fillcolor="#fdf0e4", color="#d55e00"' if room in OUTSIDE else ""
        lines.append(f'"{room}" [label="{name}"{look}];')
        direct = [one for one in below if not any(one in beneath(other, table) for other in below - {one})]
        lines += [f'"{room}" -> "{one}";' for one in sorted(direct)]
    return "\n".join([*lines, "}"])


def main() -> int:
    picture = subprocess.run(
        ["dot", "-Tsvg"], input=drawing(rooms()), capture_output=True, text=True, check=True
    ).stdout
    picture = re.sub(r"<!--.*?-->\n?", "", picture, flags=re.DOTALL)
    target = PAGE.parent / "images" / "architecture.svg"
    target.write_text(picture)
    dark.follow(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
