"""The table of mechanisms in the documentation, from the code: python -m tests.mechanism_table --write."""

import re
import sys
from pathlib import Path

import fastacct as fa
from fastacct.mechanisms.algebra import Grouped, PoissonSampled
from fastacct.testing import examples

MARK = "<!-- made by tests/tools/mechanism_table.py -->"
BOUNDED = ("FixedSizeBatch`", "WithReplacement`")
"""What is not exact under every relation."""
PAGE = Path(__file__).parents[2] / "docs" / "mechanisms.md"


def read_by(mechanism: fa.Mechanism) -> str:
    """How its curve is found."""
    process = (mechanism * 1).decompose(mechanism.relations[0])
    if mechanism.alternatives():
        return "each part, the largest"
    if process.is_gaussian:
        return "contour"
    return "losses" if all(one.has_losses for one, _ in process) else "divergences"


def table() -> str:
    """One row for each type, from its first example; samples and groups of Gaussians and of the others apart."""
    lines = ["| mechanism | what it is | relations | exact or bound | computed by |", "|---|---|---|---|---|"]
    seen = set()
    for mechanism in examples():
        name = type(mechanism).__name__
        if isinstance(mechanism, PoissonSampled | Grouped):
            gaussian = (mechanism * 1).decompose(mechanism.relations[0]).is_gaussian
            name += "` of Gaussians" if gaussian else "` of others"
        else:
            name += "`"
        if name in seen:
            continue
        seen.add(name)
        text = type(mechanism).__doc__.split("\n\n")[0].replace("\n", " ")
        text = re.split(r"(?<! al)\. ", " ".join(text.split()))[0].rstrip(".").replace("|", "\\|")
        relations = "all" if len(mechanism.relations) == 5 else ", ".join(mechanism.relations)
        kind = "exact" if mechanism.tight else "bound"
        kind = "exact; a bound for replace_one, zero_out" if name in BOUNDED else kind
        kind = "an interval" if name in ("Shuffled`", "TruncatedPoisson`", "MatrixGaussian`") else kind
        lines.append(f"| `{name} | {text} | {relations} | {kind} | {read_by(mechanism)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text().split(MARK)
    page[1] = f"\n{table()}"
    if "--write" in sys.argv:
        PAGE.write_text(MARK.join(page))
    else:
        print(table())
