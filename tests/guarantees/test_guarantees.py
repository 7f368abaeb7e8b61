"""Guarantees as files: written whole, read back as they were, refused where they are altered, computed again."""

import json
import math
import os
import random
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
import fastacct.guarantees as room
from fastacct.guarantees import content
from fastacct.ledger.state import checksum
from fastacct.results import Guarantee, read_guarantee
from fastacct.testing import examples
from tests.documents import AUDITED, HOSTILE, RUN, of_a_user, places, put, sealed


@pytest.fixture
def written():
    return of_a_user()


def in_file(folder, text):
    path = Path(folder) / "forged.json"
    path.write_text(text)
    return path


def is_refused(text, folder, verify):
    with pytest.raises(ValueError, match=r"forged\.json: .{10}"):
        read_guarantee(in_file(folder, text), verify=verify)
    return True


# -- what is written comes back ----------------------------------------------------------------------------------------


def test_a_guarantee_of_a_run_says_what_the_verbs_say(written, tmp_path):
    job = fa.dpsgd.job(**RUN)
    assert written.epsilon == fa.epsilon_bounds(job.group(2), delta=1e-6)
    assert (written.job, written.delta, written.neighbors) == (job, 1e-6, "add_remove")
    document = written.to_dict()
    curve = fa.epsilon_bounds(job.group(2), delta=[float(f"1e-{k}") for k in range(1, 21)])
    assert [[float(one) for one in row[1:]] for row in document["curve"]] == np.stack(curve[:2], axis=1).tolist()
    rates = [float(row[0]) for row in document["tradeoff"]]
    misses = fa.tradeoff_bounds(job.group(2), rates)
    assert [[float(one) for one in row[1:]] for row in document["tradeoff"]] == np.stack(misses[:2], axis=1).tolist()
    assert document["run"] == RUN
    assert document["sampler"] == ["poisson"]
    shown = float(document["audits"][0]["epsilon_lower"])
    assert shown == AUDITED.epsilon(1e-6)
    again = read_guarantee(written.save(tmp_path / "run.json"), verify=True)
    assert again.text == written.text


@pytest.fixture
def quickly(monkeypatch):
    """Guarantees whose numbers are not computed: a job is all that they are about."""
    known = fa.guarantee(fa.Gaussian(1.0), delta=1e-6).to_dict()
    kept = {name: known[name] for name in ("epsilon", "curve", "tradeoff")}
    monkeypatch.setattr(room, "numbers_of", lambda *_: deepcopy(kept))


@pytest.mark.parametrize("count", [1, 2**40])
def test_every_mechanism_comes_back(quickly, count):
    for one in examples():
        for relation in one.relations:
            made = fa.guarantee(one * count, delta=1e-6, neighbors=relation)
            again = Guarantee(made.text)
            assert (again.job, again.neighbors) == (one * count, relation)
            assert again.to_dict()["job"] == json.loads(fa.Accountant.to_json(recorded(again)))["ledger"]
            assert str(again) == str(made)
            assert again._repr_html_().startswith("<table>")


def recorded(found):
    budget = fa.Accountant(neighbors=found.neighbors)
    budget.compose(found.job)
    return budget


SAVED = json.loads((Path(__file__).parents[1] / "data" / "accountant_states.json").read_text())


def test_budgets_of_all_earlier_versions_make_guarantees(quickly):
    for saved in SAVED["filters"].values():
        budget = fa.Accountant.from_json(saved["state"])
        made = fa.guarantee(budget, delta=1e-6)
        assert made.neighbors == budget.neighbors
        is_fixed = budget.filter == "none"
        assert made.job == (budget.ledger if is_fixed else fa.ApproxDP(budget.budget, budget.delta) * 1)
        assert Guarantee(made.text).job == made.job
    ledger = fa.Accountant.from_json(SAVED["every_mechanism"]).ledger
    for one, count in ledger:
        made = fa.guarantee(fa.Process({one: count}), delta=1e-6, neighbors=one.relations[0])
        assert Guarantee(made.text).job == fa.Process({one: count})
    assert len(ledger) > 50


def test_a_budget_with_a_filter_guarantees_the_budget_and_no_less():
    budget = fa.Accountant(epsilon=2.0, delta=1e-6, filter="zcdp")
    budget.compose(fa.Gaussian(20.0), 30)
    made = fa.guarantee(budget)
    assert 1.0 <= made.epsilon.upper / 2.0 <= 1.0 + 1e-14
    assert fa.epsilon(budget.ledger, delta=1e-6) < 1.9
    assert made.delta == 1e-6
    with pytest.raises(ValueError, match="guarantees nothing"):
        fa.guarantee(fa.Accountant(delta=1e-6, filter="rdp", order=8.0), delta=1e-6)
    with pytest.raises(ValueError, match="not that of the budget"):
        fa.guarantee(budget, neighbors="replace_one")


HARD = [
    (fa.Gaussian(3.0).shuffled(3) * 1, "zero_out"),
    (fa.Gaussian(2.0).poisson(0.1).group(3) * 40 + fa.Laplace(20.0), "add_remove"),
    (fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.DiscreteLaplace(10.0) * 2 + fa.PureDP(0.1), "remove"),
    (fa.Gaussian(2.0).poisson(0.1) * 10, "replace_one"),
    (fa.Gaussian(3.0 / fa.sensitivity.clipped(1.0, neighbors="replace_one")) * 2, "add_remove"),
    (fa.ApproxDP(0.3, 1e-4) * 2, "add_remove"),
    (fa.Gaussian(0.0) * 1, "add_remove"),
    (fa.PureDP(math.inf) * 1, "add"),
    (fa.RandomizedResponse(1.0) * 3, "replace_one"),
    (fa.Process(), "add_remove"),
]


@pytest.mark.parametrize(("job", "relation"), HARD, ids=str)
def test_hard_jobs_are_written_read_and_verified(job, relation, tmp_path):
    made = fa.guarantee(job, delta=1e-6, neighbors=relation)
    again = read_guarantee(made.save(tmp_path / "run.json"), verify=True)
    assert again.text == made.text
    assert again.epsilon == fa.epsilon_bounds(job, delta=1e-6, neighbors=relation)
    assert again.job == job
    assert again.job.is_replaced == job.is_replaced
    assert all("\n" not in told for _, told in made._rows())


def test_an_infinite_epsilon_says_so():
    made = fa.guarantee(fa.Gaussian(0.0), delta=1e-6)
    assert made.epsilon == (0.0, math.inf, fa.Status.NOT_MET)
    assert "epsilon: no finite one is proved" in str(made)


def test_a_certificate_goes_along_and_is_proved_again(tmp_path, monkeypatch):
    pytest.importorskip("flint")
    job, about = fa.PureDP(0.5) + fa.ApproxDP(0.1, 1e-7), {"delta": 1e-6, "neighbors": "remove"}
    proof = fa.certify(job, **about, digits=2)
    monkeypatch.setattr(room, "certify", lambda *_, **__: proof)
    made = fa.guarantee(job, **about, certificate=True)
    assert made.text == fa.guarantee(job, **about, certificate=proof).text
    again = read_guarantee(made.save(tmp_path / "run.json"), verify=True)
    assert float(again.certificate.epsilon) >= again.epsilon.lower
    assert again.certificate.epsilon in str(again)
    with pytest.raises(ValueError, match="of another job"):
        fa.guarantee(fa.PureDP(0.6), **about, certificate=proof)
    with pytest.raises(ValueError, match="certificate is at delta"):
        fa.guarantee(job, delta=1e-5, neighbors="remove", certificate=proof)
    document = made.to_dict()
    document["certificate"] |= {
        "epsilon": "0.7",
        "proof": "guarantees add up",
    }  # above the truth, and proved by nothing
    assert read_guarantee(in_file(tmp_path, sealed(document))).certificate.epsilon == "0.7"
    document["certificate"]["proof"] = {}
    assert is_refused(sealed(document), tmp_path, verify=True)
    for name, others in {
        "epsilon": ("0.5", "1e-999999999", "NaN", "x", "-1"),
        "delta": ("0.00001", "1e999999999", "sNaN", "1/0"),
    }.items():
        for value in others:
            assert is_refused(sealed(put(document, ("certificate", name), value)), tmp_path, verify=False)
    document["certificate"] = fa.certify(fa.PureDP(0.1), **about, digits=2).document
    assert is_refused(sealed(document), tmp_path, verify=False)


def test_a_certificate_of_a_group_is_of_its_job(tmp_path):
    """The file says how many members at once are listed, and the job does not."""
    pytest.importorskip("flint")
    run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 5, "delta": 1e-5}
    proof = fa.certify(fa.Gaussian(4.0).poisson(0.01).group(3) * 5, delta=1e-5, digits=2)
    assert "reach" in proof.document["releases"][0]
    made = fa.guarantee(**run, unit="user", rows=3, certificate=proof)
    assert read_guarantee(made.save(tmp_path / "run.json"), verify=True).certificate.epsilon == proof.epsilon
    other = fa.certify(fa.Gaussian(4.0).poisson(0.01).group(2) * 5, delta=1e-5, digits=2)
    with pytest.raises(ValueError, match="of another job"):
        fa.guarantee(**run, unit="user", rows=3, certificate=other)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_every_altered_field_is_refused_by_its_digest(written, tmp_path):
    document, tried = written.to_dict(), 0
    for i, at in enumerate(places(document)):
        for value in HOSTILE[i % 3 :: 3]:
            changed = put(document, at, value)
            if checksum({**changed, "digest": 0}) != checksum({**document, "digest": 0}) or at == ("digest",):
                with pytest.raises(ValueError, match=r"no guarantee, or a damaged one: ."):
                    Guarantee(json.dumps(changed))
                tried += 1
    assert tried > 1500
    assert is_refused(json.dumps(put(document, ("delta",), "1e-05")), tmp_path, verify=False)


def test_random_flips_are_refused_or_change_nothing(written):
    draw, raw, same = random.Random(7), bytearray(written.text.encode()), 0
    for _ in range(400):
        flipped = bytearray(raw)
        flipped[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        try:
            found = Guarantee(flipped.decode())
        except ValueError:
            continue
        assert found.to_dict() == written.to_dict()  # a blank for another one
        same += 1
    assert same < 20


SAID = ("digest", "public", "trust_model", "versions", "run", "audits", "unit")
"""What the writer says and nobody can compute; and what is tried apart."""


def test_a_forger_who_makes_a_new_digest_is_refused_by_the_numbers(tmp_path):
    document = fa.guarantee(fa.Gaussian(1.0).poisson(0.01) * 1000, delta=1e-5).to_dict()
    tried = 0
    for at in places(document):
        kept = document
        for name in at:
            kept = kept[name]
        if at[0] in SAID or kept is None or isinstance(kept, dict | list):
            continue
        others = ["add", "bounded", "LOOSE"]
        if isinstance(kept, int | float):
            others = [kept * 2, kept + 1]
        elif kept[:1].isdigit():
            others = [repr(float(kept) * factor + shift) for factor in (0.5, 0.9999, 1.0001, 2.0) for shift in (0, 1)]
            others = [one for one in others if float(one) != float(kept)]
        for value in others:
            changed = put(document, at, value)
            tried += changed != document and is_refused(sealed(changed), tmp_path, verify=True)
    assert tried > 500
    kept = read_guarantee(in_file(tmp_path, sealed(document)), verify=True)
    assert kept.to_dict() == document


def test_an_end_inside_the_interval_is_replaced_by_what_is_computed(tmp_path):
    made = fa.guarantee(fa.Gaussian(1.0).poisson(0.01) * 1000, delta=1e-5)
    lower, upper, _ = made.epsilon
    assert lower < math.nextafter(upper, 0.0) < upper
    forged = put(made.to_dict(), ("epsilon", "upper"), repr(math.nextafter(upper, 0.0)))
    assert read_guarantee(in_file(tmp_path, sealed(forged))).epsilon.upper < upper
    assert read_guarantee(in_file(tmp_path, sealed(forged)), verify=True).text == made.text
    end = repr(lower * (1.0 - 1e-9))  # as near as rounding may be, and below what is proved from below
    below = put(made.to_dict(), ("epsilon",), {"lower": end, "upper": end, "status": "TIGHT"})
    assert is_refused(sealed(below), tmp_path, verify=True)


def test_a_run_and_an_audit_that_are_told_otherwise_are_refused(written, tmp_path):
    document = written.to_dict()
    assert is_refused(sealed(put(document, ("run", "batch_size"), 256)), tmp_path, verify=True)
    assert is_refused(sealed(put(document, ("run", "steps"), 10)), tmp_path, verify=True)
    assert is_refused(sealed(put(document, ("unit", "rows"), 3)), tmp_path, verify=True)
    assert is_refused(sealed(put(document, ("audits", 0, "epsilon_lower"), "0.9")), tmp_path, verify=True)
    assert is_refused(sealed(put(document, ("audits", 0, "of", "right"), [121])), tmp_path, verify=True)
    assert is_refused(sealed(put(document, ("audits", 0, "of"), {})), tmp_path, verify=True)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("audits", 0, "epsilon_lower"), "9.0"),
        (("audits", 0, "confidence"), "7.0"),
        (("audits", 0, "confidence"), "0"),
        (("delta",), "2.0"),
        (("delta",), "inf"),
    ],
)
def test_what_nobody_can_have_shown_is_refused_without_computing(written, at, value, tmp_path):
    assert is_refused(sealed(put(written.to_dict(), at, value)), tmp_path, verify=False)


def test_words_of_a_run_are_those_of_the_job(tmp_path):
    document = fa.guarantee(fa.Gaussian(2.0).poisson(0.01) * 100, delta=1e-6, records=500).to_dict()
    assert document["run"] == {"records": 500}
    read_guarantee(in_file(tmp_path, sealed(document)), verify=True)
    for run in ({"steps": 10, "sample_rate": 0.01}, {"epochs": 3.0}, {"clipping_norm": 1.0}):
        assert is_refused(sealed(put(document, ("run",), run)), tmp_path, verify=True)
    divided = 3.0 / fa.sensitivity.clipped(1.0, neighbors="replace_one")  # a number that says whose noise it is
    made = fa.guarantee(noise_multiplier=divided, sample_rate=0.1, steps=9, delta=1e-6)
    assert made.to_dict()["run"] == {}
    read_guarantee(made.save(tmp_path / "run.json"), verify=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fa.guarantee(delta=1e-6), "give either a job"),
        (lambda: fa.guarantee(fa.Gaussian(1.0)), "delta is missing"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, steps=3), "give either a job"),
        (lambda: fa.guarantee(fa.Gaussian([1.0, 2.0]), delta=1e-6), "one job and one delta"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=[1e-6, 1e-5]), "one job and one delta"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=2.0), "delta = 2.0"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, unit="person"), "unit = 'person'"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, rows=2), "rows = 2 is for unit = 'user'"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, unit="user", rows=0), "rows = 0"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, trust_model="centrl"), "did you mean 'central'"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, neighbours="add"), "neighbors"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, accountant=fa.RDP()), "give no accountant"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, public={"x": [1]}), "public.x"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, public={"x": math.nan}), "JSON compliant"),
        (lambda: fa.guarantee(fa.Gaussian(1.0), delta=1e-6, audits=[3]), "audits must hold results"),
        (lambda: fa.guarantee(**RUN, delta=1e-6, audits=[fa.audit.one_run(1000, 600, 600)]), "an audit refutes"),
        (lambda: fa.guarantee(fa.Gaussian(2.0).allocation(3), delta=1e-6, unit="user", rows=2), "share a step"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_mechanism_of_ones_own_is_refused_by_name():
    class Mine(fa.Mechanism):
        def pure_epsilon(self, relation):
            return 1.0

    with pytest.raises(ValueError, match="only mechanisms of fastacct are"):
        fa.guarantee(Mine(), delta=1e-6)


# -- files and faces ---------------------------------------------------------------------------------------------------


def test_files_are_whole_or_not_there(written, tmp_path, monkeypatch):
    path = written.save(tmp_path / "run.json")
    with pytest.raises(FileExistsError):
        written.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        written.save(path, overwrite=True)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_texts_of_the_writer_make_no_lines_and_no_fence():
    public = {"a\nb": "x\n```\n\x1b[31m: y"}
    made = fa.guarantee(fa.Gaussian(1.0), delta=1e-6, public=public)
    yaml = pytest.importorskip("yaml")
    heading, _, fence, *rows, end, _ = made.model_card().split("\n")
    assert (heading, fence, end) == ("## Privacy guarantee", "```yaml", "```")
    read = yaml.safe_load("\n".join(rows))["differential_privacy"]
    assert read == {name.replace(" ", "_"): told for name, told in made._rows()}
    assert "\x1b" not in made.model_card() + str(made)
    assert "<script>" not in fa.guarantee(fa.Gaussian(1.0), delta=1e-6, public={"x": "<script>"})._repr_html_()


def test_public_words_do_not_hide_those_of_the_run(written):
    forged = put(written.to_dict(), ("public",), {"noise_multiplier": 99.0})
    rows = dict(Guarantee(sealed(forged))._rows())
    assert "noise_multiplier = 1.0408; records = 50000" in rows["run"]
    assert rows["public"] == "noise_multiplier = 99.0"


def test_reports_and_rows_of_sweeps_make_guarantees():
    pytest.importorskip("xarray")
    about = fa.report(**RUN, delta=1e-6)
    assert about.guarantee().epsilon.upper == about.numbers["epsilon"]
    grid = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5).compute()
    row = fa.feasible(grid, "epsilon <= 2", sort="-epsilon").iloc[0]
    assert fa.guarantee(**row.drop("epsilon")).epsilon.upper == row["epsilon"]


def test_attacks_on_a_dear_job_are_bounded_between_every_third_rate(monkeypatch):
    """Twenty rates, and as many deltas, of draws with replacement took 12 s."""
    asked, tradeoff = [], content.tradeoff_bounds
    monkeypatch.setattr(content, "counted", lambda: nullcontext({"seconds": 3e9}))
    monkeypatch.setattr(
        content, "tradeoff_bounds", lambda job, at, **k: asked.append(at.size) or tradeoff(job, at, **k)
    )
    job = fa.Gaussian(2.0).poisson(0.1) * 20
    found = fa.guarantee(job, delta=1e-5)
    assert asked == [7]
    rows = np.array(found.to_dict()["tradeoff"], dtype=float)
    right = fa.tradeoff_bounds(job, rows[:, 0])
    assert (rows[:, 1] <= right.lower).all()
    assert (rows[:, 2] >= right.upper).all()
    assert (np.diff(rows[:, 1:], axis=0) <= 0.0).all()
    np.testing.assert_array_equal(rows[::3, 1:], np.transpose(right[:2])[::3])
    assert (rows[1:-1, 1] >= right.lower[2:] * (1.0 - 1e-12))[np.arange(18) % 3 == 1].all()
