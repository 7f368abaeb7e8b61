"""Reports and plans: their numbers are those of the verbs, and every format says what they are."""

import hashlib
import json
import math
import re
from contextlib import nullcontext
from xml.etree import ElementTree

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.words import as_latex
from fastacct.reports import numbers as numbers_of_reports
from fastacct.reports.sections import at_most, percent, power
from fastacct.reports.written import FORMATS

RUN = {"noise_multiplier": 1.0408, "records": 50_000, "batch_size": 512, "epochs": 30}
JOB = fa.Gaussian(4.0) * 3 + fa.Laplace(5.0)


def test_numbers_of_a_report_are_those_of_the_verbs():
    found, job = fa.report(**RUN, delta=1e-5), fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930
    numbers = found.numbers
    assert numbers["epsilon"] == fa.dpsgd.epsilon(**RUN, delta=1e-5)
    assert numbers["epsilon_lower"] == fa.dpsgd.epsilon_lower(**RUN, delta=1e-5)
    assert numbers["advantage"] == pytest.approx(fa.advantage(job), rel=1e-9)
    assert numbers["tpr_at_fpr"][0.01] == pytest.approx(fa.tpr_at_fpr(job, 0.01), rel=1e-9)
    right = fa.positive_predictive_value(job, 0.01, members=0.1)
    assert numbers["right_alarms"][0.1] == pytest.approx(right, rel=1e-9)
    two = fa.epsilon(job.group(2), delta=1e-5), fa.tpr_at_fpr(job.group(2), 0.01)
    assert numbers["groups"][2] == pytest.approx(two, rel=1e-9)
    noisier = {**RUN, "noise_multiplier": 1.1 * 1.0408}
    replaced = {**RUN, "neighbors": "replace_one"}
    shuffled = {**RUN, "neighbors": "zero_out", "sampling": "shuffled"}
    what_if = {
        "10 % more noise": (noisier, fa.Gaussian(1.1 * 1.0408).poisson(512 / 50_000) * 2930),
        "another relation: a record is replaced by another one": (replaced, job),
        "batches of shuffled data, as in most loaders (an empty record takes the place of one)": (
            shuffled,
            fa.Gaussian(1.0408).shuffled(98) * 30,
        ),
    }
    for words, (run, whole) in what_if.items():
        about, tpr = run.get("neighbors", "add_remove"), numbers["what_if"][words]
        assert tpr[0] == fa.dpsgd.epsilon(**run, delta=1e-5)
        assert tpr[1] == pytest.approx(fa.tpr_at_fpr(whole, 0.01, neighbors=about), rel=1e-9)
    assert numbers["epsilon_at"][1e-7] == fa.dpsgd.epsilon(**RUN, delta=1e-7)


@pytest.mark.parametrize("what", [RUN, {"job": JOB}], ids=["run", "job"])
@pytest.mark.parametrize("format", [one for one in FORMATS if one != "json"])
def test_every_format_has_the_guarantee_rounded_up(what, format):
    found = fa.report(**what, delta=1e-6)
    text = found.render(format)
    shown = found.summary.split("ε ≤ ")[1].split(" ")[0]
    assert float(shown) >= found.numbers["epsilon"] > float(shown) * (1.0 - 1e-2)
    assert shown in text
    assert "adding or removing one record" in text
    assert "{" not in text.replace("\\", "") or format in ("latex", "appendix", "html")


def test_a_report_without_a_finite_epsilon_is_a_report():
    found = fa.report(fa.Gaussian(0.0), delta=1e-5)
    assert found.summary == "No finite ε is proved at δ = 10⁻⁵: at this δ nothing is promised."
    assert json.loads(found.render("json"))["epsilon"] == "inf"
    for format in FORMATS:
        assert "nothing is promised" in found.render(format)
        assert not re.search(r"\binf\b", found.render(format)) or format == "json"


def test_the_page_is_one_file_with_a_picture(tmp_path):
    page = fa.report(**RUN, delta=1e-5).save(tmp_path / "report.html").read_text()
    ElementTree.fromstring(page.split("aria-label", 1)[1].split(">", 1)[1].split("</figure>")[0])
    assert "src=" not in page.lower()
    assert "@import" not in page
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fa.report(**RUN, delta=1e-5).save(tmp_path / "report.html")
    with pytest.raises(ValueError, match=r"must end in \.txt"):
        fa.report(**RUN, delta=1e-5).save(tmp_path / "report.doc")


def test_titles_are_escaped():
    found = fa.report(JOB, delta=1e-6, title="a <b> & 5 % of_it")
    assert "a &lt;b&gt; &amp; 5 % of_it" in found.render("html")
    assert r"a $<$b$>$ \& 5 \% of\_it" in found.render("latex")


class Named(fa.Mechanism):
    """Of somebody else, with a name that is not one."""

    relations = ("add_remove", "remove", "add")

    def losses(self, relation):
        return fa.Laplace(2.0).losses(relation)

    def __repr__(self):
        return "Noise\n\n## Forged\n* epsilon <= 0\n| a | b |\n\x1b[2J\u202e"


def test_names_and_titles_make_no_sections_and_no_signs_that_terminals_obey():
    found = fa.report(Named(), delta=1e-5, title="A\x1b[2J\n## Forged\n* epsilon <= 0")
    assert found.title == r"A\x1b[2J ## Forged * epsilon <= 0"
    known = {one.heading for one in fa.report(fa.Laplace(2.0), delta=1e-5).sections}
    assert {one.heading for one in found.sections} <= known
    assert found.part("How it was computed").rows == ()
    assert found.part("How it was computed").sentences[1] == (
        r"once Noise ## Forged * epsilon <= 0 | a | b | \x1b[2J\u202e"
    )
    for format in ("text", "markdown", "latex", "html", "card", "appendix"):
        text = found.render(format)
        assert not {"\x1b", "\u202e"} & {*text}, format
        assert "\n## Forged" not in text, format
        assert "<h2>Forged" not in text, format


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("delta = 1e-05.", r"$\delta$ = 1$\times 10^{-5}$."),
        ("log_delta <= 2.5e+300", r"log\_delta $\leq$ 2.5$\times 10^{300}$"),
        ("wrote a/run1e-05.csv and 1e-05.csv", "wrote a/run1e-05.csv and 1e-05.csv"),
    ],
)
def test_numbers_in_latex(text, latex):
    assert as_latex(text) == latex


def test_what_a_report_refuses():
    with pytest.raises(TypeError, match="either a job "):
        fa.report(delta=1e-5)
    with pytest.raises(TypeError, match="give no accountant"):
        fa.report(**RUN, delta=1e-5, accountant=fa.RDP())
    with pytest.raises(TypeError, match="title must be a text"):
        fa.report(JOB, delta=1e-5, title=5)
    with pytest.raises(TypeError, match="either a job "):
        fa.report(JOB, **RUN, delta=1e-5)
    with pytest.raises(TypeError, match="no arrays"):
        fa.report(fa.Gaussian([1.0, 2.0]), delta=1e-5)
    with pytest.raises(ValueError, match="did you mean 'markdown'"):
        fa.report(JOB, delta=1e-5).render("markdwn")


def test_a_large_delta_is_warned_of_and_a_small_one_is_not():
    assert "δ is larger than advised: it is 0.5 divided by the number of records" in str(fa.report(**RUN, delta=1e-5))
    for delta in (1e-6, 2e-6):  # at most a tenth of 1 / records
        assert "larger than advised" not in str(fa.report(**RUN, delta=delta))


@pytest.mark.parametrize("delta", [1.0049e-5, 1 / 300, 1.2345e-7, 0.00123456])
def test_the_delta_that_is_shown_is_not_smaller(delta):
    """With a smaller one, the epsilon beside it would be too small."""
    found = fa.report(fa.Gaussian(1.0), delta=delta)
    shown = found.summary.split("δ = ")[1].split(",")[0]
    number, _, power = shown.rpartition("10") if "10" in shown and "⁻" in shown else (shown, "", "")
    exponent = power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or "0"
    value = float(number.replace("×", "") or 1.0) * 10.0 ** int(exponent)
    assert delta * (1 - 1e-12) <= value < 1.01 * delta


@pytest.mark.parametrize("neighbors", ["add", "remove"])
def test_one_direction_promises_one_direction(neighbors):
    job = fa.Gaussian(0.6).poisson(0.2) * 3
    found = fa.report(job, delta=1e-5, neighbors=neighbors)
    assert found.numbers["epsilon"] == fa.epsilon(job, delta=1e-5, neighbors=neighbors)
    assert found.numbers["tpr_at_fpr"][0.01] == fa.tpr_at_fpr(job, 0.01)
    first, second = ("without", "with") if neighbors == "add" else ("with", "without")
    assert f"{first} the record is at most" in found.part("What is guaranteed").sentences[1]
    assert f"its probability {second} it" in found.part("What is guaranteed").sentences[1]


def test_plain_words_say_the_conditions_and_what_people_with_several_records_have():
    found = fa.report(**RUN, delta=1e-5)
    plain = " ".join(found.part("In plain words").sentences)
    assert "one of the 50,000 rows" in plain
    assert f"with 5 records, on average at most {math.ceil(1000 * found.numbers['groups'][5][1]) / 10:g}" in plain
    assert "This report does not check it" in plain
    assert len(found.part("What is assumed").rows) == 8


def test_reports_of_samples_say_that_batches_are_secret():
    assert "Who is in which batch stays secret" in str(fa.report(**RUN, delta=1e-7))
    assert "Who is in which batch stays secret" in str(fa.report(fa.Gaussian(1.0).poisson(0.1), delta=1e-7))
    assert "Who is in which batch stays secret" not in str(fa.report(JOB, delta=1e-7))


def test_a_job_and_its_records():
    assert "advised: it is 10 divided" in str(fa.report(JOB, delta=1e-2, records=1000))
    assert fa.report(JOB, delta="1/n", records=np.int64(1000)).numbers["run"] == {"records": 1000}


# -- plans -----------------------------------------------------------------------------------------------------------

SIZES, EPOCHS = [64, 512, 4096], [1, 10, 100]
TARGET = {"records": 50_000, "epsilon": 3.0, "delta": 1e-5}


def test_rows_of_a_plan_meet_the_target_and_less_noise_does_not():
    table = fa.plan(**TARGET, batch_size=SIZES, epochs=EPOCHS)
    assert len(table) == 9
    for row in table.to_dict("records"):
        run = {"records": 50_000, "batch_size": int(row["batch_size"]), "epochs": row["epochs"]}
        noise = row["noise_multiplier"]
        assert noise == fa.dpsgd.noise_multiplier(**run, epsilon=3.0, delta=1e-5)
        assert fa.dpsgd.epsilon(**run, noise_multiplier=noise, delta=1e-5) <= 3.0
        assert row["steps"] == math.ceil(row["epochs"] * 50_000 / row["batch_size"])
        assert row["noise_on_mean"] == noise / row["batch_size"]
        job = fa.Gaussian(noise).poisson(row["batch_size"] / 50_000) * int(row["steps"])
        assert row["tpr_at_1_percent"] == pytest.approx(fa.tpr_at_fpr(job, 0.01), rel=1e-9)
    assert table["noise_on_average"].is_monotonic_increasing


def test_slopes_of_a_plan_are_differences():
    run = {**TARGET, "records": 10**6}
    table = fa.plan(**run, batch_size=[1000, 1010], epochs=[10, 10.1]).set_index(["batch_size", "epochs"])
    at = np.log(table["noise_multiplier"])
    by_epochs = (at[1000, 10.1] - at[1000, 10.0]) / math.log(1.01)
    by_batch = (at[1010, 10.0] - at[1000, 10.0]) / math.log(1.01)
    # differences over one per cent stand for derivatives
    assert table["noise_per_epochs"][1000, 10.0] == pytest.approx(by_epochs, rel=0.02)
    assert table["noise_per_batch_size"][1000, 10.0] == pytest.approx(by_batch, rel=0.02)


def test_the_front_has_no_row_that_is_worse_in_both():
    table = fa.plan(**TARGET, batch_size=SIZES, epochs=[1, 3, 10, 30, 100])
    for row in table.to_dict("records"):
        better = table[(table["epochs"] <= row["epochs"]) & (table["noise_on_average"] < row["noise_on_average"])]
        assert bool(len(better)) != row["on_front"]


def test_the_front_is_for_the_cost_that_is_named():
    for cost in ("batch_size", "steps", lambda table: table["epochs"] * (1.0 + table["batch_size"] / 256.0)):
        table = fa.plan(**TARGET, batch_size=SIZES, epochs=[1, 3, 10, 30, 100], cost=cost)
        name = "cost" if callable(cost) else cost
        assert table.attrs["cost"] == name
        for row in table.to_dict("records"):
            better = table[(table[name] <= row[name]) & (table["noise_on_average"] < row["noise_on_average"])]
            assert bool(len(better)) != row["on_front"]
    assert len({*table[table["on_front"]]["batch_size"]}) > 1  # more than a row of the map
    with pytest.raises(ValueError, match="cost = 'memory' is not one of"):
        fa.plan(**TARGET, batch_size=SIZES, epochs=[1], cost="memory")


def test_the_former_word_batch_sizes_warns():
    with pytest.warns(DeprecationWarning, match="batch_sizes is now called batch_size"):
        former = fa.plan(**TARGET, batch_sizes=[512], epochs=[10])
    assert former.equals(fa.plan(**TARGET, batch_size=[512], epochs=[10]))
    with pytest.raises(TypeError, match="give batch_size, and no batch_sizes"):
        fa.plan(**TARGET, batch_sizes=[512], batch_size=[512], epochs=[10])


def test_a_plan_after_a_release_meets_the_target_with_it():
    table = fa.plan(**TARGET, batch_size=[512], epochs=[10], after=JOB)
    noise = float(table["noise_multiplier"][0])
    assert noise > fa.plan(**TARGET, batch_size=[512], epochs=[10])["noise_multiplier"][0]
    whole = JOB + fa.Gaussian(noise).poisson(512 / 50_000) * 977
    assert fa.epsilon(whole, delta=1e-5) <= 3.0 < fa.epsilon(whole, delta=1e-5) * (1 + 1e-6)
    assert float(table["tpr_at_1_percent"][0]) >= fa.tpr_at_fpr(whole, 0.01) * (1 - 1e-9)
    assert not [name for name in table.columns if name.startswith("noise_per_")]


def test_a_plan_for_another_sampler():
    table = fa.plan(**TARGET, batch_size=[512], epochs=[10], sampling="fixed_size")
    noise = fa.dpsgd.noise_multiplier(**TARGET, batch_size=512, epochs=10, sampling="fixed_size")
    assert table["noise_multiplier"][0] == noise


def test_steps_of_a_plan_are_those_that_count():
    for sampling, steps in (("shuffled", 12), ("allocation", 9)):
        goal = {"records": 1000, "epsilon": 30.0, "delta": 1e-5, "neighbors": "zero_out", "sampling": sampling}
        assert fa.plan(**goal, batch_size=[300], epochs=[3])["steps"][0] == steps


def test_steps_of_several_passes_an_epoch_are_counted():
    goal = {"records": 1000, "epsilon": 30.0, "delta": 1e-5, "sampling": "allocation", "selected": 2}
    table = fa.plan(**goal, batch_size=[300], epochs=[3])
    assert table["steps"][0] == 18  # floor(2 * 1000 / 300) an epoch
    assert table["noise_on_average"][0] == table["noise_on_mean"][0] / math.sqrt(18)


def test_what_a_plan_refuses():
    for wrong in ({"batch_size": [0.5]}, {"epochs": [0]}, {"records": [1000, 2000]}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            fa.plan(**{**TARGET, "batch_size": [100], "epochs": [1], **wrong})
    with pytest.raises(TypeError, match="do not give noise_multiplier"):
        fa.plan(**TARGET, batch_size=[512], epochs=[10], noise_multiplier=1.0)
    with pytest.raises(ValueError, match="exceeds records"):
        fa.plan(**TARGET, batch_size=[60_000], epochs=[10])
    with pytest.raises(MemoryError, match=r"batch_size and epochs: a result of shape \(1000000, 1000000\) takes"):
        fa.plan(
            epsilon=3.0, delta=1e-5, records=10**6, batch_size=np.arange(1, 10**6 + 1), epochs=np.arange(1, 10**6 + 1)
        )
    with pytest.raises(TypeError, match="missing records"):
        fa.plan(epsilon=3.0, delta=1e-5, batch_size=[512], epochs=[10])
    with pytest.raises(TypeError, match="missing batch_size"):
        fa.plan(**TARGET, epochs=[10])
    with pytest.raises(TypeError, match="did you mean 'epsilon'"):
        fa.plan(eps=3.0)
    with pytest.raises(TypeError, match="did you mean"):
        fa.plan(**TARGET, batch_size=[512], epochs=[10], sampler="poisson")


def test_a_plan_is_one_array_call(monkeypatch):
    """A thousand searches in Python would take a minute."""
    calls, solve = [], fa.dpsgd.noise_multiplier
    monkeypatch.setattr(fa.dpsgd, "noise_multiplier", lambda **given: calls.append(given) or solve(**given))
    table = fa.plan(**TARGET, batch_size=np.arange(64, 6464, 200), epochs=np.arange(1, 33))
    assert len(table) == 1024
    assert len(calls) == 1


def test_after_is_a_job_of_plain_numbers():
    with pytest.raises(TypeError, match="after must be a job of plain numbers"):
        fa.dpsgd.noise_multiplier(epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=10, after=fa.Gaussian([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"released already costs epsilon .* exceeds the target"):
        fa.dpsgd.steps(epsilon=1.0, delta=1e-5, sample_rate=0.01, noise_multiplier=1.0, after=fa.Gaussian(0.5))
    with pytest.raises(ValueError, match=r"released already costs epsilon .* exceeds the target"):
        fa.dpsgd.noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.01, steps=9, after=fa.Gaussian(0.5))


def test_after_and_history_are_the_same():
    run = {"epsilon": 3.0, "delta": 1e-5, "sample_rate": 0.01, "steps": 1000}
    before = fa.Gaussian(1.0).poisson(0.02) * 500
    noise = fa.dpsgd.noise_multiplier(**run, after=before)
    assert noise == fa.dpsgd.noise_multiplier(**run, history=[(1.0, 0.02, 500)])
    both = fa.dpsgd.noise_multiplier(**run, history=[(1.0, 0.02, 300)], after=fa.Gaussian(1.0).poisson(0.02) * 200)
    assert noise == both


def test_a_report_asks_no_epsilon_twice(monkeypatch):
    plain, bounds, asked = numbers_of_reports.epsilon, numbers_of_reports.epsilon_bounds, []

    def noted(of):
        def ask(job, *, delta, neighbors):
            asked.extend((job, one, neighbors) for one in np.ravel(delta).tolist())
            return of(job, delta=delta, neighbors=neighbors)

        return ask

    monkeypatch.setattr(numbers_of_reports, "epsilon", noted(plain))
    monkeypatch.setattr(numbers_of_reports, "epsilon_bounds", noted(bounds))
    job = fa.Gaussian(2.0) * 3
    numbers = fa.report(job, delta=1e-5).numbers
    assert len(asked) == len(set(asked))
    assert numbers["epsilon_at"] == {d: fa.epsilon(job, delta=d) for d in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)}


def test_a_certificate_and_an_audit_stand_beside_what_is_proved():
    audit = fa.audit.one_run(1000, guesses=200, right=150)
    found = fa.report(fa.Laplace(1.0) * 2, delta=1e-6, certificate=True, audit=audit)
    text, known = " ".join(found.part("What is guaranteed").sentences), found.certificate
    assert known is not None
    assert known.verify().startswith("proved: epsilon <= 2 at delta")
    assert f"ε ≤ {known.epsilon} at δ = 0.000001" in text
    assert f"SHA-256 {hashlib.sha256(known.text.encode()).hexdigest()}" in text
    assert "Proved: at most 2.00; shown by an audit: at least 0.821 (95 %); the guarantee is not refuted." in text
    assert found.numbers["audit"]["shown"] == audit.epsilon(1e-6)
    assert known.epsilon in found.render("html")


def test_a_report_begins_with_an_audit_that_refutes_it():
    found = fa.report(fa.Gaussian(4.0), delta=1e-6, audit=fa.audit.one_run(1000, guesses=200, right=200))
    assert found.verdict.startswith("An audit refutes this guarantee, with confidence 95 %")
    assert found.verdict in found.summary
    assert found.certificate is None


def test_a_report_refuses_a_certificate_that_there_is_not():
    with pytest.raises(ValueError, match=r"ZCDP.*has no certificate"):
        fa.report(fa.ZCDP(0.1), delta=1e-6, certificate=True)


@pytest.mark.parametrize("number", [0.012345, 0.99994, 0.05, 1.23456e-5, 9.9951e-9])
def test_numbers_in_words_are_rounded_up_and_not_by_much(number):
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    plain = power(number).translate(raised).replace(" × 10", "e")
    shown = [
        float(percent(number).removesuffix(" %")) / 100.0,
        float(f"1e{plain[2:]}" if plain[:3] == "10-" else plain),
    ]
    for one in shown:
        assert number * (1 - 1e-12) <= one <= 1.01 * number
    assert number * 1e4 <= float(at_most(number * 1e4).replace(",", "")) <= max(1.01 * number * 1e4, number * 1e4 + 1.0)


def test_a_report_of_numbers_that_take_long_has_those_of_the_job_alone_and_says_so(monkeypatch):
    whole = fa.report(fa.Laplace(5.0) * 3, delta=1e-5)

    monkeypatch.setattr("fastacct.reports.numbers.counted", lambda: nullcontext({"seconds": 3e9}))
    short = fa.report(fa.Laplace(5.0) * 3, delta=1e-5)
    assert short.numbers["what_if"] == short.numbers["groups"] == {}
    assert whole.numbers["what_if"]
    assert whole.numbers["groups"]
    assert short.numbers["epsilon"] == whole.numbers["epsilon"]
    assert short.numbers["tpr_at_fpr"] == whole.numbers["tpr_at_fpr"]
    assert "take too long" in str(short)
    assert "take too long" not in str(whole)
