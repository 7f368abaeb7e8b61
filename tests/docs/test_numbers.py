"""Numbers in the prose of README and of guides: each is written or checked by something, or it is said what it is.

A number is a share, a time, a factor, digits, a decimal, or one with a comma.  What stands in code runs as it stands;
tables between two marks are written by the command in the marks.  Proofs have `test_constants.py`; pages of adapters
name the command of their tables, and `test_figures_of_pages.py` has our column.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs import test_figures, test_figures_of_pages

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(
    r"(?<![\w.])\d[\d,.]*(?:e-?\d+)?(?: ?%| (?:ms|us|s|seconds?|minutes?|times|digits|of \d+)\b(?![/^*]))"
    r"|(?<![\w.=([^])[1-9](?:\.\d+)?e-\d+|(?<![\w.^_{$-])\d+\.\d+\b(?!\.\d)|(?<![\w.^_{$-])\d{1,3}(?:,\d{3})+"
)
WRITTEN = "written by a command: accuracy.md, published.md"
SPEEDS, TIGHT = "tests/docs/test_constants.py", "the definition of TIGHT, in fastacct/core/bounds.py"
VERSION, GIVEN = "a version, checked where it is installed", "an input of what is asked beside it"
SEVERAL = "python -m bench.compare"
AUDITS, OTHERS = "python -m tests.audit_nulls", "python -m tests.audit_others"
TIMES = "measured when the page was written: a time that depends on the machine"
ROWS = [
    ("README.md", r"agree in 11 digits", SPEEDS),
    ("README.md", r"295 cases", "tests/docs/test_figures_of_pages.py"),
    ("README.md", r"Deltas down to 1e-300", "tests/whole/test_extreme_runs.py"),
    ("README.md", r"on 675,000 combinations", "examples/sweep.toml"),
    ("README.md", r"truth at 5,863|at most \de-\d \|", "tests/kernels/exact/test_oracle.py"),
    (
        "README.md",
        r"side by side in one run|\| .* (us|ms|times) |epsilon above the truth|5e-12 wide|divergences more",
        SPEEDS,
    ),
    ("README.md", r"Each accountant's epsilon over", "python -m bench.tightness"),
    ("README.md", r"larger epsilon is than at the best order|^Slower:", SEVERAL),
    ("README.md", r"Random questions of twelve kinds|1e-290", "python -m bench.limits"),
    ("README.md", r"within 1e-6 of each|not certified to 1e-6", TIGHT),
    ("README.md", r"Apache 2\.0", VERSION),
    (r"README.md|docs/(README|develop|support).md", r"Python 3\.11|CPython|glibc|musl|NumPy 1\.26|until 1\.0", VERSION),
    ("docs/attacks.md", r"1 % of the cases", "tests/docs/test_figures.py"),
    ("docs/deprecations.md", r"", VERSION),
    ("docs/attacks.md", r"within 1e-6 of mu", "tests/verbs/test_gdp.py"),
    ("docs/attacks.md", r"here 31\.6", "the root of 1,000 steps, at noise multiplier 1"),
    ("docs/audit.md", r"epsilon 3 at delta 1e-5|noise multiplier 0\.5|confidence=0\.995|95 %|5 % at most", GIVEN),
    ("docs/audit.md", r"audit of 1,000 runs", "tests/audit/test_planned.py"),
    ("docs/audit.md", r"eta is 5\.3e-4", "tests/docs/test_figures_of_pages.py"),
    ("docs/audit.md", r"audit_nulls|^\| `(scores|one_run|sequential)", AUDITS),
    ("docs/audit.md", r"audit_others|^\| (auditor|fastacct 0|jax-privacy|opake|privacyguard)|Rates in bold", OTHERS),
    ("docs/check.md", r"audit_nulls", AUDITS),
    (
        "docs/certificates.md",
        r"^\* (There are at most|Balls|Places|Points|A mixture|A line|Records)",
        "tests/certificate/test_hostile.py",
    ),
    ("docs/certificates.md", r"ApproxDP\(0\.5|not a lattice", GIVEN),
    ("docs/choosing.md", r"^One configuration", GIVEN),
    ("docs/choosing.md", r"^\| `|optimal`: the smallest|noise multiplier 0\.3", "tests/docs/test_figures.py"),
    ("docs/choosing.md", r"5e-12 apart", SPEEDS),
    ("docs/cli.md", r"as small as 1e-300", "tests/whole/test_extreme_runs.py"),
    ("docs/design.md", r"at most 2,000 lines|on average \| 17\.\d", "tests/form/test_simplicity.py"),
    ("docs/design.md", r"at most 1e-6 wide", TIGHT),
    ("docs/design.md", r"30 ms to import|pip 25\.1", TIMES),
    ("docs/design.md", r"few atoms on no lattice", "a sentence on what is not certified"),
    ("docs/develop.md", r"`make |\.ci/run|levels|process time|seconds|35 s", "tests/tools/tiers.py"),
    ("docs/explorer.md", r"lines at 0\.5|6 digits|delta of 1e-13|0\.7 s|100 %", "explorer/src"),
    ("docs/explorer.md", r"random runs|0\.03 %|0\.1 % above", "tests/explorer/test_samplers.py"),
    ("docs/faq.md", r"Which delta", "tests/docs/test_docs.py"),
    ("docs/faq.md", r"LOOSE", TIGHT),
    ("docs/guarantees.md", r"at most 1e-11 relative|sample_rate in", "tests/docs/test_figures.py"),
    ("docs/guarantees.md", r"Exact epsilons and deltas", SPEEDS),
    ("docs/guarantees.md", r"\| `TIGHT`", TIGHT),
    ("docs/guarantees.md", r"^How long random questions", "the limits in the heads of the table"),
    ("docs/guarantees.md", r"below 1e-290", "python -m bench.limits"),
    ("docs/guarantees.md", r"0\.1 means", "the double nearest to 0.1"),
    ("docs/guarantees.md", r"Some constants in the proofs", "docs/trust.md has the debts one by one"),
    ("docs/howto/check_loop.md", r"before 1\.0", VERSION),
    ("docs/howto/guarantee.md", r"epsilon at delta 0\.1", "tests/guarantees/test_guarantees.py"),
    ("docs/howto/noise.md", r"up to 1e-8", "tests/docs/test_figures.py"),
    ("docs/howto/opacus.md", r"batches at rate 0\.1", GIVEN),
    ("docs/howto/training.md", r"microseconds", TIMES),
    ("docs/loaders.md", r"\(after 2\.0\)", VERSION),
    ("docs/loaders.md", r"Ends that hold|Fixed size", "tests/docs/test_figures.py"),
    ("docs/mechanisms.md", r"\*contour\*|\*losses\*", SPEEDS),
    ("docs/mechanisms.md", r"1,024 steps", "tests/mechanisms/test_compound.py"),
    ("docs/mechanisms.md", r"integrated to about 1e-12", "tests/mechanisms/compiled/test_extremes.py"),
    ("docs/processes.md", r"certified to about 1e-12|Why it is certified", "tests/docs/test_statements.py"),
    ("docs/processes.md", r"1e-9 further", "tests/verbs/test_calibrate.py"),
    ("docs/reports.md", r"^\| `(tpr_at_1|noise_per)", "the definition of a column"),
    ("docs/reports.md", r"whole numbers from 1,000 on", "tests/reports/test_words.py"),
    ("docs/reports.md", r"protects nobody", "the false alarms that a verdict is about"),
    ("docs/loaders.md", r"^\| shuffle, then", "at noise 0.5 the run of README has 108.29 to 111.25"),
    ("docs/samplers.md", r"^The same training run", GIVEN),
    ("docs/samplers.md", r"from its Rényi accountant", "of the table above it, by python -m bench.samplers"),
    ("docs/support.md", r"seven values of the oracle", "tests/tools/check_wheel.py"),
    ("docs/support.md", r"abi3|size of the wheel|import fastacct|first name|100,000 runs", TIMES),
    ("docs/sweeps.md", r"^On paper", "python -m bench.sweep_cost"),
    ("docs/trust.md", r"^\| ", "the last column of its table"),
    ("docs/utility.md", r"theorem 3\.11", "the number of a theorem"),
    ("docs/utility.md", r"Thresholdout", "tests/textbook/test_thresholdout.py"),
    ("docs/utility.md", r"agree with mpmath", "tests/mechanisms/test_utility.py"),
    (r"docs/(accuracy|published).md", r"", WRITTEN),
    (r"docs/course/\w+.md", r"^\d\. |\*\*Try it|!\[A budget|^\* \*\*(epsilon|Averaging)", GIVEN),
    ("docs/course/2_mechanisms.md", r"vector of 100 coordinates|^Of a stream", GIVEN),
    ("docs/course/3_composition.md", r"says how often|A hundred releases|max-information|chosen question", GIVEN),
    ("docs/course/5_dp_sgd.md", r"So a step is|With both|An \*\*epoch", GIVEN),
    ("docs/course/6_streams_and_networks.md", r"Each day|A token", GIVEN),
    ("docs/course/6_streams_and_networks.md", r"!\[Noise in each", "examples/course_pictures.py"),
    (r"docs/notebooks/\w+.md", r"^A |^At a few|^The (noise|gap)", GIVEN),
    ("docs/notation.md|docs/relations.md|docs/adding_a_mechanism.md|docs/references.md", r"", GIVEN),
]
"""(page, what its line has, the test file or the command that has the number, or what else it is)."""
PAGES = [
    ROOT / "README.md",
    *(one for part in ("", "howto", "course", "notebooks") for one in sorted((ROOT / "docs" / part).glob("*.md"))),
]


def prose(text):
    """A page of as many lines and letters, without code, addresses, formulas, and tables that a command wrote."""

    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])

    for other in (r"(?s)<!-- made by.*?<!-- made by[^>]*-->", r"(?ms)^```.*?^```", r"(?m)^    .*$", r"\]\([^)]*\)"):
        text = re.sub(other, blank, text)
    return re.sub(r"`[^`\n]*`|\$[^$\n]*\$", blank, text)


@cache
def numbers():
    """(page, line, number) of each number that no row of the tests of figures has."""
    found = []
    for file in PAGES:
        page, text = file.relative_to(ROOT).as_posix(), file.read_text()
        rows = [row[1] for row in test_figures.FIGURES if f"docs/{row[0]}" == page]
        rows += [row[1] for row in test_figures_of_pages.FIGURES if row[0] == page]
        checked = [one.span() for row in rows for one in re.finditer(row, text)]
        lines = text.splitlines()
        for one in NUMBER.finditer(prose(text)):
            if not any(first <= one.start() < last for first, last in checked):
                found.append((page, lines[text.count("\n", 0, one.start())], one[0]))
    return found


def rows_of(page, line):
    return [row for row in ROWS if re.fullmatch(row[0], page) and re.search(row[1], line)]


def test_every_number_is_written_or_checked_or_said_to_be_given():
    assert [one for one in numbers() if not rows_of(*one[:2])] == []


def test_no_row_is_of_numbers_that_are_gone():
    lines = {one[:2] for one in numbers()}
    assert [row for row in ROWS if not any(row in rows_of(*line) for line in lines)] == []


@pytest.mark.parametrize("how", sorted({row[2] for row in ROWS}))
def test_what_has_the_number_exists(how):
    if how.startswith("python -m "):
        parts = how.split()[2].split(".")
        assert any(
            (ROOT / place).with_suffix(".py").is_file() for place in ("/".join(parts), f"tests/tools/{parts[-1]}")
        )
    elif "/" in how and " " not in how:
        assert (ROOT / how).exists()
    else:
        assert len(how.split()) > 2


def main():
    """Print each number of these pages with what has it: python -m tests.docs.test_numbers."""
    for page, line, number in numbers():
        print(f"{page}: {number}: {'; '.join(row[2] for row in rows_of(page, line)) or 'NOTHING'}")


if __name__ == "__main__":
    main()
