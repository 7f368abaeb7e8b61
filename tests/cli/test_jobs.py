"""Commands about jobs in files, attacks, plans, reports and budgets; formats; messages in the words of options."""

import json
import os
import re
import subprocess
import sys

import pytest

import fastacct as fa
from fastacct.cli.jobs import job_in
from tests.command import answer, call

FILE = """
[[release]]
mechanism = "Gaussian"
noise_multiplier = 1.0
poisson = 0.01
count = 1000

[[release]]
mechanism = "Laplace"
noise_multiplier = 5.0
count = 3
"""
JOB = fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.Laplace(5.0) * 3
RUN = "--noise-multiplier 1.1 --sample-rate 0.01 --steps 1000"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(FILE)
    return path


def written(tmp_path, text, name="job.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_job_in_a_file_is_the_job(file, tmp_path):
    assert job_in(file) == JOB
    same = {"release": [{"mechanism": "Gaussian", "noise_multiplier": 1.0, "poisson": 0.01, "count": 1000},
                        {"mechanism": "Laplace", "noise_multiplier": 5.0, "count": 3}]}  # fmt: skip
    assert job_in(written(tmp_path, json.dumps(same), "job.json")) == JOB
    one = 'mechanism = "Gaussian"\nnoise_multiplier = 2.0\n'
    three = fa.Gaussian(2.0).poisson(0.1).group(3)  # in this order, however the file has it
    assert job_in(written(tmp_path, f"[[release]]\n{one}group = 3\npoisson = 0.1")) == three * 1
    drawn = "fixed_size = {batch_size = 5, records = 50}"
    assert job_in(written(tmp_path, f"[[release]]\n{one}{drawn}")) == fa.Gaussian(2.0).fixed_size(5, 50) * 1
    lists = '[[release]]\nmechanism = "RDPCurve"\norders = [2, 4]\nvalues = [0.1, 0.2]'
    assert job_in(written(tmp_path, lists)) == fa.RDPCurve([2, 4], [0.1, 0.2]) * 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"must have \[\[release\]\] tables"),
        ("[[release]]\nnoise_multiplier = 1.0", r"release\[0\]: needs mechanism"),
        ('[[release]]\nmechanism = "Gausian"', "did you mean 'Gaussian'"),
        ('[[release]]\nmechanism = "Gaussian"\nsigma = 1.0', "sigma"),
        ('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = -1.0', r"release\[0\]: .*out of range"),
        ('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\npoisson = 2', "out of range"),
        ('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\ncount = 1.5', "count"),
        ('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\nnoise_multiplier = 2.0', "overwrite a value"),
        (
            '[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = [1.0, 2.0]',
            r"release\[0\]: noise_multiplier must be one",
        ),
        (
            '[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\ncount = [1, 2]',
            r"release\[0\]: count must be one",
        ),
        (
            '[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1.0\npoisson = [0.1]',
            r"release\[0\]: poisson must have",
        ),
        (
            '[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 1\nfixed_size = {batch_size = [1], records = 9}',
            r"release\[0\]: fixed_size must have one number each",
        ),
        ("[[release", "at end of document"),
        ("release = 3", r"must have \[\[release\]\] tables"),
    ],
)
def test_a_file_that_is_wrong_is_an_error_that_names_the_place(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        job_in(written(tmp_path, text))
    assert "job.toml: " in str(error.value)
    assert call(f"epsilon --delta 1e-5 --job {tmp_path / 'job.toml'}").exit_code == 2


def test_verbs_of_a_job_in_a_file(file):
    found = answer(f"epsilon --job {file} --delta 1e-5")
    assert found["epsilon"] == fa.epsilon(JOB, delta=1e-5)
    assert found["epsilon_lower"] == fa.epsilon_lower(JOB, delta=1e-5)
    assert answer(f"delta --job {file} --epsilon 2")["delta"] == fa.delta(JOB, epsilon=2.0)
    assert answer(f"epsilon --job {file} --delta 1/n --records 1000")["epsilon"] == fa.epsilon(JOB, delta=1e-3)
    both = call(f"epsilon --job {file} --delta 1e-5 {RUN}")
    assert both.exit_code == 2
    assert "either --job or the options of a run" in both.stderr


@pytest.mark.parametrize("delta", ["1e-5", "3e-7", "2e-9"])
def test_a_sentence_on_a_job_says_no_less_than_the_number(file, delta):
    told = call(f"epsilon --job {file} --delta {delta}").stdout
    most, least = map(float, re.findall(r"epsilon <= (\S+) at .* at least ([\d.]+)", told)[0])
    lower, upper, _ = fa.epsilon_bounds(JOB, delta=float(delta))
    assert least <= lower <= upper <= most


def test_plain_is_the_number_alone(file):
    assert float(call(f"epsilon --job {file} --delta 1e-5 --plain").stdout) == fa.epsilon(JOB, delta=1e-5)
    run = {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000}
    assert float(call(f"epsilon {RUN} --delta 1e-5 --plain").stdout) == fa.dpsgd.epsilon(**run, delta=1e-5)


def test_attacks(file):
    found = answer(f"attack --job {file} --fpr 0.02 --members 0.1")
    (row,) = found["rows"]
    assert row["tpr_upper"] == fa.tpr_at_fpr(JOB, 0.02)
    right = fa.positive_predictive_value(JOB, 0.02, members=0.1)
    assert row["right_at_10%_upper"] == pytest.approx(right, rel=1e-9)
    assert found["advantage"] == fa.advantage(JOB)
    former = call(f"attack --job {file} --fpr 0.02 --prior 0.1 --json")
    assert former.stderr == "warning: --prior is the share of members among the suspects: write --members\n"
    assert json.loads(former.stdout) == found
    assert "no --prior" in call(f"attack {RUN} --prior 0.1 --members 0.1").stderr
    assert "--members 2.0 is out of range" in call(f"attack {RUN} --members 0.1,2").stderr
    run = fa.Gaussian(1.1).poisson(0.01) * 1000
    assert answer(f"attack {RUN}")["rows"][1]["tpr_upper"] == fa.tpr_at_fpr(run, 0.01)


def test_tables_in_markdown_and_latex():
    markdown = call(f"attack {RUN} --format markdown").stdout.splitlines()
    assert markdown[0].split("|")[1].strip() == "fpr"
    assert set(markdown[1]) <= set("|-: ")
    latex = call(f"attack {RUN} --format latex").stdout
    assert latex.startswith("\\begin{tabular}{lll}\nfpr & tpr\\_upper")
    assert "\\end{tabular}\n% advantage" in latex
    latex = call(f"epsilon {RUN} --delta 1e-5 --format latex").stdout
    assert re.match(r"\$\\varepsilon\$ \$\\leq\$ [\d.]+ at \$\\delta\$ = 1\$\\times 10\^{-5}\$ \(the true", latex)


def test_plans(tmp_path):
    words = "plan --epsilon 3 --delta 1/n --records 50000 --batch-size 256,1024 --epochs 10,30"
    rows = answer(f"{words} --csv {tmp_path / 'p.csv'} --picture {tmp_path / 'p.svg'}")["rows"]
    table = fa.plan(records=50_000, epsilon=3.0, delta="1/n", batch_size=[256, 1024], epochs=[10, 30])
    assert [row["noise_multiplier"] for row in rows] == table["noise_multiplier"].tolist()
    assert (tmp_path / "p.csv").read_text().count("\n") == 5
    assert (tmp_path / "p.svg").exists()
    assert "exists" in call(f"{words} --csv {tmp_path / 'p.csv'}").stderr
    assert "(3 more)" in call(f"{words} --head 1").stdout


def test_reports(file, tmp_path):
    found = call(f"report --job {file} --delta 1e-6 --write {tmp_path / 'r.html'} --title Mine")
    assert "wrote" in found.stdout
    assert "<h1>Mine</h1>" in (tmp_path / "r.html").read_text()
    run = "--noise-multiplier 1 --records 50000 --batch-size 512 --epochs 30"
    assert answer(f"report {run} --delta 1e-6")["run"] == {
        "noise_multiplier": 1.0, "records": 50000, "batch_size": 512, "epochs": 30.0,
    }  # fmt: skip
    assert call(f"report {run} --delta 1e-6 --format appendix").stdout.startswith(r"\paragraph{Privacy.} We train")
    assert call(f"report {run} --delta 1e-6 --format card").stdout.startswith("## Privacy")
    assert "has no suffix" in call(f"report {run} --delta 1e-6 --format card --write {tmp_path / 'r.md'}").stderr
    assert call(f"report {run} --delta 1e-6 --format markdown").stdout.startswith("# Privacy report")
    fields = "--subject Model --data-set Reviews --unit person --date 2026-11-28 --vouched-by Turing --clipping-norm 1"
    assert answer(f"report {run} --delta 1e-6 {fields}")["about"] == {
        "subject": "Model", "data_set": "Reviews", "unit": "person", "vouched_by": "Turing", "date": "2026-11-28",
        "clipping_norm": 1.0,
    }  # fmt: skip
    assert "is no date" in call(f"report {run} --delta 1e-6 --date tomorrow").stderr
    assert "batches twice as large" in call(f"report {run} --delta 1e-6").stdout
    proof = tmp_path / "proof.json"
    proved = call(f"report --job {file} --delta 1e-6 --write {tmp_path / 'r.md'} --certify {proof}").stdout
    assert proved.endswith(f"wrote {proof}\n")
    assert fa.read_certificate(proof).verify().startswith("proved: ")
    assert "exists" in call(f"report --job {file} --delta 1e-6 --certify {proof}").stderr


def test_budgets(file, tmp_path):
    ledger = tmp_path / "ledger.json"
    assert answer(f"budget {ledger} --epsilon 3 --delta 1e-5")["spent"] == 0.0
    assert answer(f"budget {ledger} --job {file}")["spent"] == fa.epsilon(JOB, delta=1e-5)
    before = ledger.read_text()
    assert call(f"budget {ledger} --job {file} --dry-run").exit_code == 1
    refused = call(f"budget {ledger} --job {file} --count 9")
    assert refused.exit_code == 1
    assert "exceeds the budget: not recorded" in refused.stdout
    assert ledger.read_text() == before
    assert "exists" in call(f"budget {ledger} --epsilon 5 --delta 1e-5").stderr
    assert float(call(f"budget {ledger} --plain").stdout) == fa.epsilon(JOB, delta=1e-5)
    assert "delta" in call(f"budget {tmp_path / 'other.json'} --epsilon 5").stderr
    for more in ("--delta 1e-9", "--neighbors replace_one", "--count 3", "--dry-run"):
        assert call(f"budget {ledger} {more}").exit_code == 2
    endless = tmp_path / "endless.json"
    endless.write_text(fa.Accountant().to_json())
    assert "has no delta" in call(f"budget {endless} --job {file}").stderr
    assert endless.read_text() == fa.Accountant().to_json()


def test_processes_that_share_a_budget_wait_for_each_other(file, tmp_path):
    ledger, small = tmp_path / "ledger.json", tmp_path / "small.toml"
    small.write_text('[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 3.0')
    call(f"budget {ledger} --epsilon 3 --delta 1e-5")
    words = [sys.executable, "-m", "fastacct", "budget", ledger, "--job", small]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(6)]
    recorded = sum("recorded: " in one.communicate()[0].decode() for one in running)
    assert recorded == 4
    assert fa.Accountant.from_json(ledger.read_text()).ledger == fa.Gaussian(3.0) * 4
    assert fa.epsilon(fa.Gaussian(3.0) * 4, delta=1e-5) <= 3.0 < fa.epsilon(fa.Gaussian(3.0) * 5, delta=1e-5)


def test_a_budget_has_one_name(file, tmp_path):
    """Links lead to the file, where its lock is too; a second hard link would become a budget of its own."""
    ledger, link, far = tmp_path / "ledger.json", tmp_path / "link.json", tmp_path / "far" / "link.json"
    far.parent.mkdir()
    far.symlink_to("../link.json")
    link.symlink_to("ledger.json")
    assert answer(f"budget {far} --epsilon 9 --delta 1e-5")["spent"] == 0.0, "made where the link leads"
    for count, name in enumerate((ledger, link, far), 1):
        assert f"recorded: {file} * 1" in call(f"budget {name} --job {file}").stdout
        assert fa.Accountant.from_json(ledger.read_text()).ledger == JOB * count
    assert {one.name for one in tmp_path.rglob(".*")} == {".ledger.json.lock"}
    before, other = ledger.read_text(), tmp_path / "other.json"
    for name in (link, far):
        assert call(f"budget {name} --epsilon 9 --delta 1e-5").exit_code == 2, "it is there already"
        found = call(f"budget {name} --job {file} --count 10000")
        assert (found.exit_code, "exceeds the budget: not recorded" in found.stdout) == (1, True)
        assert before == ledger.read_text()
    assert far.is_symlink()
    assert link.is_symlink()
    other.hardlink_to(ledger)
    for name in (ledger, link, other):
        found = call(f"budget {name} --job {file}")
        assert found.exit_code == 2
        assert "has 2 names (hard links)" in found.stderr
    assert before == ledger.read_text() == other.read_text()
    other.unlink()
    assert call(f"budget {ledger} --job {file}").exit_code == 0


def test_a_budget_that_is_only_asked_leaves_nothing_behind(file, tmp_path):
    missing, ledger = tmp_path / "missing.json", tmp_path / "ledger.json"
    for more in ("", f"--job {file}", f"--job {file} --dry-run"):
        found = call(f"budget {missing} {more}")
        assert (found.exit_code, "missing.json does not exist: --epsilon" in found.stderr) == (2, True)
    assert call(f"budget {missing} --epsilon 3").exit_code == 2, "without a delta"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        told = call(f"budget {tmp_path / 'pipe'} --epsilon 3 --delta 1e-5 --overwrite").stderr
        assert told == f"error: {tmp_path / 'pipe'} is no regular file\n"
        (tmp_path / "pipe").unlink()
    assert [one.name for one in tmp_path.iterdir()] == ["job.toml"]
    ledger.write_text(fa.Accountant(epsilon=3.0, delta=1e-5).to_json() + "\n")
    before = ledger.stat()
    for more in ("", f"--job {file} --dry-run"):
        assert call(f"budget {ledger} {more}").exit_code == 0
    assert call(f"budget {ledger} --epsilon 9 --delta 1e-5").exit_code == 2
    assert ledger.stat() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job.toml", "ledger.json"]


def test_attacks_count_both_directions():
    """An attacker knows both data sets, whichever direction the guarantee is of."""
    run = "--noise-multiplier 0.6 --sample-rate 0.2 --steps 3"
    truth = fa.tpr_at_fpr(fa.Gaussian(0.6).poisson(0.2) * 3, 0.01)
    for neighbors in ("add", "remove", "add_remove"):
        found = answer(f"attack {run} --fpr 0.01 --neighbors {neighbors}")
        assert found["rows"][0]["tpr_upper"] == truth
    tiny = answer("attack --noise-multiplier 0.05 --sample-rate 1 --steps 1 --members 1e-17 --fpr 1e-19,0")["rows"]
    assert tiny[0]["right_at_1e-15%_upper"] > 0.9
    assert tiny[1]["right_at_1e-15%_upper"] == 1.0


def test_a_plan_that_cannot_be_met_says_so(tmp_path):
    spent = written(tmp_path, '[[release]]\nmechanism = "Gaussian"\nnoise_multiplier = 0.1', "spent.toml")
    words = "plan --epsilon 3 --records 300 --batch-size 30 --epochs 1,2"
    found = call(f"{words} --delta 0")
    assert found.exit_code == 1
    assert "No noise suffices for 2 of 2 rows" in found.stdout
    found = call(f"{words} --delta 1e-5 --after {spent}")
    assert found.exit_code == 2
    assert "what was released already costs epsilon" in found.stderr


def test_names_in_paths_are_left_alone(tmp_path):
    place = written(tmp_path, "", "sample_rate.md")
    found = call(f"report --noise-multiplier 1 --sample-rate 0.1 --steps 3 --delta 1e-5 --write {place}")
    assert found.stderr == f"error: {place} exists: pass --overwrite to replace it\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("eps", "'eps' is no command (did you mean 'epsilon'?)"),
        ("--sigma 1", "--sigma: a command comes first, such as epsilon"),
        ("epsilon --sigma 1", "unknown option --sigma (did you mean --noise-multiplier?)"),
        ("epsilon -q 1", "unknown option -q (did you mean --sample-rate?)"),
        ("epsilon 1.1 .01", "'1.1' stands alone"),
        ("epsilon --batch-size 9 --noise-multiplier 1 --delta 1e-5", "--batch-size needs --records"),
    ],
)
def test_messages_speak_options(words, message):
    found = call(words)
    assert found.exit_code == 2
    assert message in found.stderr


def test_no_command_is_a_call_for_help():
    shown = call("").stdout
    assert shown == call("--help").stdout
    assert shown.count("\n") <= 40, "more than a screen"
    assert call("").exit_code == 0


def test_completion_of_a_shell():
    pytest.importorskip("shtab", reason="the extra cli is not installed")
    script = call("completion bash").stdout
    assert "--noise-multiplier" in script

    def offered(option):
        return re.search(rf"(?m)^_shtab_fastacct_{option}_choices=\((.*)\)$", script)[1].replace("'", "").split()

    assert {"poisson", "shuffled"} <= {*offered("epsilon___sampling")}
    assert {"add_remove", "replace_one"} <= {*offered("epsilon___neighbors")}
    assert {"exact", "rdp"} <= {*offered("delta___accountant")}
    assert "canonne_kamath_steinke" in offered("delta___conversion")
    assert "persistent" in offered("epsilon___bins")
    assert "opacus" in offered("check_loader_pos_0")
    assert "callable" in offered("conformance___interface")
    asked = re.search(r"(?m)^_shtab_fastacct_conformance_option_strings=\((.*)\)$", script)[1]
    assert "--html" in asked
    assert "--format" not in asked, "which it refuses"


def test_a_value_that_a_shell_does_not_offer_has_the_message_of_the_package():
    found = call("epsilon --noise-multiplier 1 --sample-rate 0.01 --steps 9 --delta 1e-6 --sampling posson")
    assert found.exit_code == 2
    assert "did you mean 'poisson'" in found.stderr


def test_conformance_is_a_command():
    found = call("conformance --accountant no:such")
    assert found.exit_code == 2
    assert "no" in found.stderr


def test_a_target_that_no_noise_meets_has_its_reason():
    found = call("noise-multiplier --epsilon 3 --delta 0 --sample-rate 0.1 --steps 9")
    assert found.exit_code == 1
    assert found.stdout.splitlines()[0].endswith("Gaussian noise has no guarantee at delta = 0")


def test_a_guarantee_is_written_and_computed_again(tmp_path):
    path, run = tmp_path / "run.json", "--noise-multiplier 1.1 --sample-rate 0.01 --steps 1000 --delta 1e-5"
    written = call(f"guarantee {run} --rows 3 --trust-model local --write {path}")
    assert written.exit_code == 0
    assert written.stdout.splitlines()[-1] == f"wrote {path}"
    job = fa.Gaussian(1.1).poisson(0.01) * 1000
    kept = fa.guarantee(noise_multiplier=1.1, sample_rate=0.01, steps=1000, delta=1e-5, unit="user", rows=3)
    found = fa.read_guarantee(path)
    assert (found.job, found.epsilon) == (job, kept.epsilon)
    assert answer("guarantee", *run.split())["guarantee"] == fa.guarantee(job, delta=1e-5).to_dict() | {
        "run": {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000},
        "digest": fa.guarantee(noise_multiplier=1.1, sample_rate=0.01, steps=1000, delta=1e-5).to_dict()["digest"],
    }
    verified = call(f"verify {path}")
    assert verified.exit_code == 0
    assert verified.stdout == f"verified: all numbers were computed again, and agree with the file to 1e-6\n{found}\n"
    path.write_text(found.text.replace('"count": 1000', '"count": 900'))
    altered = call(f"verify {path}")
    assert altered.exit_code == 1
    assert "is not proved" in altered.stdout
    path.write_text("<!DOCTYPE html>")
    assert "is not proved: it is no JSON file, as `fastacct certify --write`" in call(f"verify {path}").stdout
    assert answer(f"guarantee {run} --unit user --rows 3")["guarantee"] == kept.to_dict()
    assert "'row', 'client', 'user'" in call(f"guarantee {run} --unit person").stderr
    assert call(f"guarantee {run} --write {path}").exit_code == 2
