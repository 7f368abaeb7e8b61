"""The table of published figures in the documentation: python -m tests.published_table --write."""

import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
MARK = "<!-- made by tests/tools/published_table.py -->"
PAGE = ROOT / "docs" / "published.md"


def script() -> ModuleType:
    """`examples/published.py`, as a module."""
    place = importlib.util.spec_from_file_location("published", ROOT / "examples" / "published.py")
    assert place is not None
    assert place.loader is not None
    made = importlib.util.module_from_spec(place)
    sys.modules["published"] = made
    place.loader.exec_module(made)
    return made


def table() -> str:
    """One row for each figure."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        script().main(["--json"])
    found = json.loads(out.getvalue())["rows"]
    lines = ["| source | noise | rate | steps | delta | published | recomputed | exact | method |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for row in found:
        exact = f"{row['exact_upper']:.5g}" + (" (above)" if row["below_exact"] else "")
        run = f"{row['noise_multiplier']:g} | {row['sample_rate']:.4g} | {row['steps']} | {row['delta']:g}"
        same = f"{row['same_orders']:.{row['decimals'] + 2}f}"
        lines.append(f"| {row['name']} | {run} | {row['published']} | {same} | {exact} | {row['method']} |")
    matching = sum(row["matches"] for row in found)
    return "\n".join([*lines, "", f"{matching} of {len(found)} figures are reproduced."])


def main() -> None:
    """Print the table, or write it into the page."""
    if "--write" in sys.argv:
        parts = PAGE.read_text().split(MARK)
        PAGE.write_text(f"{parts[0]}{MARK}\n{table()}\n{MARK}{parts[2]}")
    else:
        print(table())


if __name__ == "__main__":
    main()
