"""What runs a change and a night: steps that are named exist, one that fails is named, adapters are all there."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CI = ROOT / ".ci"
WORKFLOWS = ROOT / ".github" / "workflows"
pytestmark = pytest.mark.skipif(not CI.is_dir() or shutil.which("bash") is None, reason="no checkout, or no bash")


def bash(*lines):
    """What lines print after .ci/steps, and their status."""
    run = subprocess.run(
        ["bash", "-c", "\n".join((". .ci/steps", *lines))], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return run.stdout + run.stderr, run.returncode


def test_a_step_that_fails_is_named_at_the_end_and_stops_nothing():
    told, status = bash("step first sh -c 'echo why; exit 3'", "step second echo 5 passed", "finish")
    assert status == 1
    assert re.search(r"FAILED first, \d+ s: sh -c .*\nwhy\n---- end of first\n\npassed second, \d+ s: 5 passed\n", told)
    assert told.endswith("FAILED: first\n")


def test_steps_side_by_side_fail_the_run():
    told, status = bash("{ step one false; } &", "step two true", "wait $!", "finish")
    assert (status, told.splitlines()[-1]) == (1, "FAILED: one")


def test_what_is_missing_is_named_before_anything_runs():
    told, status = bash("CC=no-such-compiler PYTHON=no-such-python", "check_machine", "echo began")
    assert status == 2
    assert "missing: a C compiler" in told
    assert "missing: Python 3.11 or newer (PYTHON=no-such-python)" in told
    assert "began" not in told


def test_steps_that_workflows_name_exist():
    steps = set(re.findall(r"\bone ([a-z-]+) ", re.sub("#.*", "", (CI / "run").read_text())))
    named = re.findall(r"\.ci/run (.+)", "".join(path.read_text() for path in WORKFLOWS.glob("*.yml")))
    assert {one for names in named for one in names.split()} == steps - {"tests"}  # which runs on all platforms


def test_all_adapters_are_tested_at_night():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [path.stem for room in ("compat", "training") for path in (ROOT / "fastacct" / room).iterdir()]
    adapters = {*files, "training"} & extras.keys()
    campaign = re.search(r'ADAPTERS="(.*)"', (CI / "campaign").read_text())[1]
    nightly = re.search(r"library: \[(.*)\]", (WORKFLOWS / "nightly.yml").read_text())[1]
    assert set(campaign.split()) == set(nightly.split(", ")) == adapters


def test_five_hosted_jobs_install_the_versions_that_are_pinned():
    jobs = re.split(r"^  ([a-z-]+):", (WORKFLOWS / "ci.yml").read_text().partition("\njobs:\n")[2], flags=re.MULTILINE)
    assert jobs[1::2] == ["form", "tests", "windows", "wheel-and-adapters", "explorer-and-site"]
    assert all(".ci/run " in job or "constraints.txt" in job for job in jobs[2::2])
    assert "export CONSTRAINTS=${CONSTRAINTS-constraints.txt}" in (CI / "run").read_text()
    for script in ("tests/tools/check_backend.sh", "docs/website/make_site.sh"):  # of environments of their own
        assert "export PIP_CONSTRAINT=" in (ROOT / script).read_text()


def test_a_night_has_the_oldest_and_the_newest_and_keeps_what_failed():
    nightly = (WORKFLOWS / "nightly.yml").read_text()
    steps = re.search(r"steps: (\[.*\])", nightly)[1]
    known = re.search(r"chosen=\$\{\*:-(.*)\}", (CI / "campaign").read_text())[1].split()
    assert sorted(re.findall(r"[a-z-]+", steps)) == sorted({*known} - {"adapters"})  # which have a job of their own
    newest = nightly.partition("  newest:")[2]
    assert '"3.14"' in newest
    assert "CONSTRAINTS" not in newest
    oldest = re.search(r"numpy==(\S+) ", (ROOT / "Makefile").read_text())[1]
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [oldest.startswith(one.removeprefix("numpy>=") + ".") for one in least] == [True]
    assert re.search(r"if: always\(\).*\n +uses: actions/cache/save", nightly)  # the plain action keeps no failed night


def test_every_hosted_job_has_a_time_limit():
    for path in WORKFLOWS.glob("*.yml"):
        text = path.read_text()
        assert text.count("runs-on:") == text.count("timeout-minutes:"), path.name


def test_the_version_of_torch_stands_in_one_place():
    files = [ROOT / "Makefile", ROOT / "constraints.txt", *CI.iterdir(), *WORKFLOWS.iterdir()]
    files += [*(ROOT / "tests" / "tools").glob("*.sh"), *(ROOT / "docs" / "website").iterdir()]
    assert [path.name for path in files if path.is_file() and re.search(r"torch==\d", path.read_text())] == [
        "constraints.txt"
    ]


@pytest.mark.parametrize(
    ("message", "is_right"),
    [
        ("What changed\n\nWhy.\n", True),
        ("x" * 72, True),
        ("x" * 73, False),
        ("What changed\nand why", False),
        ("Merge branch " + "x" * 80, True),
        ("# a comment\nWhat changed\n", True),
    ],
)
def test_subjects_are_short_and_stand_alone(tmp_path, message, is_right):
    (tmp_path / "message").write_text(message)
    run = subprocess.run([CI / "subject", tmp_path / "message"], capture_output=True, check=False)
    assert (run.returncode == 0) == is_right
