"""Files and folders of scripts, and the command that reads them: what cannot be read, what moved, exit codes."""

import os
import subprocess
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import pytest

from fastacct.scripts.files import LARGEST, check_files
from tests.command import answer, call

ROOT = Path(__file__).parents[2]
ROWS = tomllib.loads((Path(__file__).parent / "before.toml").read_text("utf-8"))["scripts"]
SCRIPTS = {one["name"]: one["script"] for one in ROWS}
POISSON, BROKEN = SCRIPTS["opacus_memory_manager"], SCRIPTS["private_transformers_noise"]


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"# make_private\nx = = 1\n", "line 2: no Python 3"),
        (b"print 'make_private'\n", "line 1: no Python 3"),
        (b"\x7fELF\0\0make_private", "binary"),
        ("# make_private\n".encode("utf-16"), "binary, or not UTF-8"[:6]),
        (b"# make_private \xe9\n", "no Python 3"),
        (b"# -*- coding: no-such -*-\n# make_private\n", "no Python 3"),
        (b"# make_private\n" + b" " * LARGEST, "are more than"),
        (b"# make_private\nx = " + b"(" * 3000 + b")" * 3000, "no Python 3"),
        (b"# make_private\nx = " + b"-" * 50_000 + b"1\n", "too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_and_does_not_hide_the_others(tmp_path, text, why):
    bad = written(tmp_path, "bad.py", text)
    good = written(tmp_path, "good.py", POISSON)
    result = call("check-loop", bad)
    assert result.exit_code == 2
    assert str(bad) in result.stderr
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    found = check_files([tmp_path])
    assert [*found.loops] == [good.as_posix()]
    assert why in found.unread[bad.as_posix()]


def test_other_encodings_are_read_as_python_reads_them(tmp_path):
    path = written(tmp_path, "latin.py", ("# -*- coding: latin-1 -*-\n# é\n" + POISSON).encode("latin-1"))
    assert check_files([path]).loops
    path = written(tmp_path, "marked.py", b"\xef\xbb\xbf" + POISSON.encode())
    assert check_files([path]).loops


def test_links_pipes_and_folders_that_are_not_of_the_project_do_no_harm(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "loop").symlink_to(tmp_path)
    (inner / "gone.py").symlink_to("nowhere.py")
    os.mkfifo(inner / "pipe.py")
    (tmp_path / ".venv").mkdir()
    written(tmp_path / ".venv", "train.py", BROKEN)
    written(inner, "train.py", POISSON)
    result = answer("check-loop", tmp_path)
    assert [Path(one["file"]).name for one in result["loops"]] == ["train.py"]
    assert sorted(Path(one).name for one in result["unread"]) == ["gone.py", "pipe.py"]
    assert call("check-loop", tmp_path / "no.py").exit_code == 2


def test_a_thousand_files_take_less_than_two_seconds(tmp_path):
    text = (
        '"""A module about data loaders, normal distributions and optax."""\n' + POISSON.split("privacy_engine")[0] * 4
    )
    for index in range(1000):
        written(tmp_path, f"module_{index}.py", text)
    began = time.process_time()
    found = check_files([tmp_path])
    assert time.process_time() - began < 2
    assert (found.files, found.loops) == (1000, {})


def test_the_exit_code_says_whether_a_line_breaks_a_guarantee(tmp_path):
    good, bad = written(tmp_path, "good.py", POISSON), written(tmp_path, "bad.py", BROKEN)
    assert call("check-loop", good).exit_code == 0
    result = call("check-loop", good, bad)
    assert result.exit_code == 1
    assert f"{bad}:14: private-transformers; batches: shuffled" in result.stdout
    assert (
        "  line 10: shuffle=True: 1.14294 holds for Poisson batches; this loop: 10.8587 to 22.3104 under "
        in result.stdout
    )
    assert "2 private training loops in 2 files" in result.stdout


def test_what_is_asked_for_can_be_given(tmp_path):
    path = written(tmp_path, "train.py", SCRIPTS["opacus_rdp_drop_last"])
    assert "give --records" in call("check-loop", path).stdout
    (asked,) = answer("check-loop", path)["loops"]
    assert asked["assumes"] is None  # there is no number that rests on anything
    (loop,) = answer("check-loop --records 6500", path)["loops"]
    assert f"  assumes {loop['assumes']}\n" in call("check-loop --records 6500", path).stdout
    length = 6500 // 64
    (same,) = check_files([path], records=6500).loops[path.as_posix()]
    assert loop["epsilon"] == same.epsilon
    import fastacct as fa

    run = {"noise_multiplier": 1.3, "sample_rate": -(-(2**24) // length) / 2**24, "steps": 40 * length}
    assert loop["epsilon"] == fa.dpsgd.epsilon(**run, delta=1e-4)
    for words in ("--records 0", "--delta 2", "--noise-multiplier -1", "--batches sorted"):
        assert call(f"check-loop {words}", path).exit_code == 2


def test_an_earlier_answer_shows_what_moved(tmp_path):
    path = written(tmp_path, "train.py", POISSON)
    before = written(tmp_path, "before.json", call("check-loop --json", path).stdout)
    assert "No loop moved." in call(f"check-loop --before {before}", path).stdout
    written(tmp_path, "train.py", POISSON.replace("NOISE = 0.9", "NOISE = 1.8"))
    (row,) = answer(f"check-loop --before {before}", path)["moved"]
    assert row["before"].startswith("epsilon at most 3.65706")
    assert row["now"].startswith("epsilon at most 1.1")
    assert call(f"check-loop --before {path}", path).exit_code == 2


def test_nothing_of_a_script_runs(tmp_path):
    path = written(tmp_path, "train.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n" + POISSON)
    assert call("check-loop", path).exit_code == 0
    assert not (tmp_path / "ran").exists()


def test_the_page_shows_what_the_command_prints(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "howto" / "check_loop.md").read_text("utf-8")
    script, printed = (part.split("```")[0] for part in page.split("```text\n")[1:3])
    written(tmp_path, "train.py", script)
    monkeypatch.chdir(tmp_path)
    assert call("check-loop train.py").stdout == printed


def test_the_hook_and_the_action_call_the_command(tmp_path):
    assert "entry: fastacct check-loop\n" in (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "compare.sh" in (ROOT / "action" / "action.yml").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_comments_how_a_change_moves_epsilon(tmp_path):
    shim, clone = tmp_path / "bin", tmp_path / "clone"
    shim.mkdir()
    clone.mkdir()
    program = written(shim, "fastacct", f'#!/bin/sh\nexec {sys.executable} -m fastacct "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    known = os.environ | {"PATH": f"{shim}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}

    def run(*words, **more):
        done = subprocess.run(words, cwd=clone, env=known | more, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip() + done.stderr.strip()

    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    assert run("git", "init", "-q")[0] == 0
    written(clone, "train.py", BROKEN.replace("0.85", "1.7"))
    run("git", "add", "-A")
    assert run("git", *who, "commit", "-qm", "one")[0] == 0
    base = run("git", "rev-parse", "HEAD")[1]
    written(clone, "train.py", BROKEN)
    comment = tmp_path / "comment.md"
    code, said = run("bash", str(ROOT / "action" / "compare.sh"), BASE=base, WRITE=str(comment), SCRIPTS=".")
    assert code == 1, said
    text = comment.read_text()
    assert text.startswith("<!-- fastacct check-loop -->")
    assert "epsilon 10.8587 to 22.3104" in text
    assert "no such loop" not in text
    assert run("git", "worktree", "list")[1].count("\n") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
@pytest.mark.parametrize(
    ("old", "fails", "does"),
    [
        ("", "", "repos/me/it/issues/7/comments -F body=@comment.md"),
        ("12", "", "-X PATCH repos/me/it/issues/comments/12 -F body=@comment.md"),
        ("", "--silent", "No comment was written"),
    ],
)
def test_the_action_writes_one_comment_and_changes_it_afterwards(tmp_path, old, fails, does):
    """The step that posts, with a program in the place of GitHub's that notes what it is asked for."""
    step = (ROOT / "action" / "action.yml").read_text().split("      run: |\n")[2].split("    - shell")[0]
    noted = f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncase "$*" in *--jq*) echo "{old}" ;; esac\n'
    noted += f'case "$2" in {fails or "no"}) exit 1 ;; esac\n'
    written(tmp_path, "gh", noted).chmod(0o755)
    known = {"GITHUB_REPOSITORY": "me/it", "NUMBER": "7", "WRITE": "comment.md"}
    known |= {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", textwrap.dedent(step)]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=True)
    assert does in done.stdout + (tmp_path / "asked").read_text()
