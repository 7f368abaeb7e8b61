"""Pages of proofs have the constants of the code: a sentence, the file that has the number, its name and its value.

And README has the times that bench.compare measured.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS, PYTHON = ROOT / "fastacct_ext/include", ROOT / "fastacct"

CONSTANTS = [
    ("rays", "is below 2e-14 of", "line/ray_line.h", "FA_RAY_LOST", "2e-14"),
    ("rays", "at the best $m \\le 43$", "line/ray_ends.h", "FA_RAY_TERMS", "44"),
    ("rays", "it grows, by up to 8 times", "line/ray_line.h", "FA_RAY_FURTHER", "8.0"),
    ("rays", "rule of 32 points", "line/ray_line.h", "FA_RAY_RULE", "32"),
    ("rays", "$\\lvert\\mathrm{Im}\\, y\\rvert \\le 0.8$", "line/ray_sums.h", "FA_RAY_STRIP", "0.8"),
    ("rays", "within 4e-14 of", "line/ray_places.h", "FA_RAY_NEAR", "4e-14"),
    ("rays", "there may be 20,000", "line/ray_places.h", "FA_RAY_PICKS", "20000"),
    ("rays", "up to 2,500 entries", "line/ray_places.h", "FA_RAY_KEPT", "2500"),
    ("rays", "Chernoff's bound allows at 19 real points", "line/lattice_line.h", "FA_LATTICE_PROBES", "9"),
    ("rays", "Atoms below $e^{-42}$", "line/lattice_line.h", "FA_LATTICE_SMALL", "42.0"),
    ("rays", "gives delta to no better than 1e-8", "line/flat.h", "FA_FLAT_NEAR", "1e-8"),
    ("rays", "started afresh every 64 points", "line/long_kinds.h", "FA_LONG_RUN", "64"),
    ("rays", "less than $e^{-37}$ of", "line/long_kinds.h", "FA_LONG_SERIES", "-37.0"),
    ("rays", "at most 4,096 points", "line/long_line.h", "FA_LONG_KNOWN", "4096"),
    ("rays", "at most 3.3 in size", "line/long_line.h", "FA_LONG_SIDES", "3.3"),
    ("rays", "$s = 0$ and twelve others", "line/long_line.h", "FA_LONG_TRIED", "12"),
    ("rays", "Beyond 4e6 pairs", "line/long_line.h", "FA_LONG_SOON", "4e6"),
    ("rays", "a kind 4e-7 is enough", "line/long_line.h", "FA_LONG_GOOD", "4e-7"),
    ("rays", "and 1.5e8 are the end", "line/long_line.h", "FA_LONG_DEAR", "1.5e8"),
    ("rays", "the error is 6e-9 of delta", "line/flat.h", "FA_FLAT_FINE", "6e-9"),
    ("rays", "$\\mu_2 > 10^{-4}$ 1e-11", "line/flat.h", "FA_FLAT_CHEAP", "1e-11"),
    ("rays", "more than 8 kinds or 20,000 combinations", "line/flat_place.h", "FA_FLAT_KINDS", "8"),
    ("allocation", "h \\le 0.15/\\sqrt{g}", "loss/sums.h", "FA_SUM_STEP", "0.15"),
    ("allocation", "the polynomial through 12 neighbours on each side", "loss/sums.h", "FA_SUM_TAPS", "12"),
    ("allocation", "from $-30$ to $31$ steps", "loss/sums.h", "FA_SUM_WIDE", "30"),
    ("allocation", "at most 6 times", "loss/sums.h", "FA_SUM_FLAT", "6.0"),
    ("allocation", "below 2e-15 of $f$", "loss/sums.h", "FA_SUM_GOOD", "2e-15"),
    ("allocation", "at most $160 u$", "loss/sums.h", "FA_SUM_ULPS", "160.0"),
    ("allocation", "leave less than $e^{-35}$", "loss/allocation.h", "FA_SUM_QUIET", "-35.0"),
    ("allocation", "below 1e-32 of the maximum", "loss/sums.h", "FA_SUM_RIGHT", "1e-32"),
    ("allocation", "below $e^{-520}$", "loss/allocation.h", "FA_SUM_DEEP", "(-520.0)"),
    ("allocation", "Nodes end $14 w$ beyond the cap", "loss/smooth.h", "FA_SMOOTH_CUT", "14.0"),
    ("allocation", "more than 32,768 points", "losses/pieces.py", "MOST_ATOMS", "1 << 15"),
    ("calibration", "by at most 3e-10 relative", "invert/root.h", "FA_CALIBRATION_WIDTH", "3e-10"),
    ("calibration", "by at most 3e-9 of epsilon", "invert/root.h", "FA_SLACK", "3e-9"),
    ("calibration", "$[10^{-6}, 10^{12}]$", "invert/calibrate.h", "FA_SIGMA_FROM", "1e-6"),
    ("order_search", "from $1 + e^{-36}$ to $1 + e^{25.3}", "renyi/order_search.h", "FA_LOG_A_MAX", "25.3"),
    ("order_search", "The orders from $1 + 2^{-8}$ on", "renyi/leaves.h", "FA_LEAF_MIN", "0x1p-8"),
    ("order_search", "falls 48 below", "renyi/leaves.h", "FA_LEAF_HIDDEN", "48.0"),
    ("order_search", "+ 3.7)^2", "renyi/leaves.h", "FA_LEAF_SLOW", "3.7"),
    ("order_search", "\\le k < 42", "renyi/leaves.h", "FA_TERMS", "42"),
    ("order_search", "with $B(c) > 200$", "renyi/leaves.h", "FA_LEAF_HUGE", "200.0"),
    ("line", "7.5 widths end at", "line/capped_job.h", "FA_CAP_DEPTH", "7.5"),
    ("line", "\\mathrm{cap} + 8.6 w", "line/capped_job.h", "FA_CAP_CUT", "8.6"),
    ("line", "started afresh every 128 points", "line/capped_job.h", "FA_CAP_SYNC", "128"),
    ("line", "for $\\delta = e^{-800}$", "line/capped_job.h", "FA_CAP_DEEPEST", "-800.0"),
    ("line", "at 25 where the line has a floor or more than 60 points", "line/capped_draw.h", "FA_CAP_LONG", "60.0"),
    ("line", "at 25 where the line has a floor", "line/capped_place.h", "FA_CAP_PROBES", "25"),
    ("line", "where some noise is below 1.2", "line/capped_eps.h", "FA_CAP_CALM", "1.2"),
    ("line", "where it is below 0.8", "line/capped_eps.h", "FA_CAP_JUMPY", "0.8"),
    ("panels", "more than 38 standard deviations out", "losses/panels.py", "_FURTHEST", "38.0"),
    ("smoothed", "For $h = 1.5\\, s$", "readers/finite_sum.py", "_SHIFT", "1.5"),
    ("smoothed", "D_0 \\ge D - 1.05", "readers/finite_sum.py", "_HEIGHT", "1.05"),
    ("smoothed", "exceed $1.5 \\cdot 10^7$", "readers/finite_sum.py", "_MOST_SUMMED", "1.5e7"),
    ("grid", "less 1.12 times the difference", "readers/grid/window.py", "_OFTEN", "1.12"),
    ("grid", "the next is 5 standard deviations", "readers/grid/place.py", "_APART", "5.0"),
    ("grid", "at most 6 times", "readers/grid/reader.py", "_MAX_ROUNDS", "6"),
    ("grid", "the last 16 of them", "readers/grid/reader.py", "_KEPT", "16"),
    ("grid", "half a second allows", "readers/grid/reader.py", "_MOST_WORK", "5e5"),
    ("grid", "about 0.8 microseconds for a cell of a density, 0.1 for one of atoms, 0.12 for a point",
     "readers/grid/reader.py", "_COSTS", "(0.8, 0.1, 0.12)"),
    ("grid", "at most $2^{21}$ cells", "readers/grid/reader.py", "_MAX_CELLS", "1 << 21"),
    ("grid", "and $2^{22}$ points", "readers/grid/reader.py", "_MAX_POINTS", "1 << 22"),
    ("compiled", "on 1,024 panels", "mechanisms/compiled/pieces.py", "_PANELS", "1024"),
    ("compiled", "points up to 1e150", "mechanisms/compiled/table.py", "_WIDEST", "1e150"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "sentence", "file", "name", "value"), CONSTANTS, ids=[row[3] for row in CONSTANTS])
def test_a_proof_has_the_constant_of_the_code(page, sentence, file, name, value):
    assert sentence in " ".join((ROOT / f"docs/algorithms/{page}.md").read_text().split())
    text = ((PYTHON if file.endswith(".py") else KERNELS) / file).read_text()
    found = re.search(rf"(?m)^(?:#define {name}|{name}: Final =)\s+(.*?)\s*(?:/\*.*|#.*)?$", text)
    assert found, name
    assert found[1] == value


GROUPS, REPLACED = "groups of 2 to 8, remove", "replace_one"
SPEEDS = [
    # what README prints, and the cell of RESULTS.md: how its row begins, and which one it is
    (r"dp_accounting PLD 0\.6\.0 takes \| (\S+) times", "epsilon | everyday | dp_accounting PLD", 6),
    (r"dp_accounting PLD 0\.6\.0 takes \|[^|]*\| (\S+) times", "epsilon | broad | dp_accounting PLD", 6),
    (r"Opacus PRV 1\.6\.0 takes \| (\S+) times", "epsilon | everyday | Opacus PRV", 6),
    (r"Opacus PRV 1\.6\.0 takes \|[^|]*\| (\S+) times", "epsilon | broad | Opacus PRV", 6),
    (r"one call a run: median \| (\S+) us", "everyday | 20,000", 5),
    (r"one call a run: median \|[^|]*\| (\S+) us", "broad | 20,000", 5),
    (r"99th percentile \| (\S+) us", "everyday | 20,000", 6),
    (r"99th percentile \|[^|]*\| (\S+) us", "broad | 20,000", 6),
    (r"array call: mean \| (\S+) us", "everyday | 20,000", 2),
    (r"array call: mean \|[^|]*\| (\S+) us", "broad | 20,000", 2),
    (r"groups of 2 to 8 records, one call a run: mean \| (\S+) ms", f"everyday: epsilon of {GROUPS}", 1),
    (r"groups of 2 to 8 records, one call a run: mean \|[^|]*\| (\S+) ms", f"broad: epsilon of {GROUPS}", 1),
    (r"`replace_one`, one call a run: mean \|[^|]*\| (\S+) ms", f"broad: epsilon of {REPLACED}", 1),
    (r"Another delta of the same run takes (\S+) us", "exact epsilon of an everyday run at 100 deltas", 1),
    (r"(\S+) times less than dp_accounting's PLD", "noise multiplier | everyday | dp_accounting PLD", 8),
    (r"best real order \|[^|]*\| \S+ ms \((\S+) times\)", "epsilon | Opacus RDP", 4),
    (r"best real order \|[^|]*\|[^|]*\| \S+ ms \((\S+) times\)", "epsilon | dp_accounting RDP", 4),
    (r"151 orders \|[^|]*\| \S+ ms \((\S+) times\)", "RDP curve | Opacus RDP", 4),
    (r"151 orders \|[^|]*\|[^|]*\| \S+ ms \((\S+) times\)", "RDP curve | dp_accounting RDP", 4),
    (r"by Rényi DP \|[^|]*\| \S+ ms \((\S+) times\)", "noise multiplier | Opacus RDP", 4),
    (r"by Rényi DP \|[^|]*\|[^|]*\| \S+ ms \((\S+) times\)", "noise multiplier | dp_accounting RDP", 4),
    (r"at tiny rates \| 0 \| (\S+) \|", "RDP curve | Opacus RDP | tiny q", 6),
    (r"at tiny rates \| 0 \|[^|]*\| (\S+) \|", "RDP curve | dp_accounting RDP | tiny q", 6),
]


def number(text):
    return float(text.strip("(").replace(",", ""))


@pytest.mark.parametrize(("said", "row", "column"), SPEEDS, ids=[f"{row}-{column}" for _, row, column in SPEEDS])
def test_readme_has_the_speeds_that_were_measured(said, row, column):
    """To the two digits, or more, that it prints."""
    printed = re.search(said, (ROOT / "README.md").read_text())[1]
    rows = (ROOT / "bench/RESULTS.md").read_text().splitlines()
    cells = next(line for line in rows if line.startswith(f"| {row}")).strip("| ").split(" | ")
    value, unit = (cells[column] + " -").split()[:2]
    in_thousands = said.endswith(") ms") and unit.startswith("us")
    assert number(printed) == pytest.approx(number(value) / (1e3 if in_thousands else 1.0), rel=0.05)


def test_readme_names_the_commit_that_was_measured():
    found = re.search(r"fastacct (\S+), commit (\w+)", (ROOT / "bench/RESULTS.md").read_text())
    assert f"fastacct {found[1]}, commit {found[2]}:" in (ROOT / "README.md").read_text()
