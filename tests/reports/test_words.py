"""What reports say: fields, verdicts, paragraphs for papers; of every mechanism, in every format, rounded up."""

import datetime
import itertools
import json
import math
import re
from xml.etree import ElementTree

import pytest

import fastacct as fa
from fastacct.reports.numbers import KNOWN, POISSON
from fastacct.reports.sections import released
from fastacct.reports.shown import power
from fastacct.reports.written import FORMATS, in_six_digits
from fastacct.testing.examples import examples

RUN = {"noise_multiplier": 1.0408, "records": 50_000, "batch_size": 512, "epochs": 30}
SMALL = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 250, "epochs": 3}
SAMPLERS = {
    "poisson": SMALL,
    "poisson by rate": {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 90},
    "history": {"history": [(2.0, 0.01, 50), (1.5, 0.02, 20)]},
    "fixed_size": SMALL | {"sampling": "fixed_size"},
    "with_replacement": {
        "noise_multiplier": 2.0,
        "records": 1000,
        "batch_size": 10,
        "steps": 20,
        "sampling": "with_replacement",
    },
    "truncated": SMALL | {"sampling": "truncated", "at_most": 300},
    "cyclic": SMALL | {"sampling": "cyclic", "bands": 2},
    "allocation": SMALL | {"sampling": "allocation"},
    "several of an epoch": SMALL | {"sampling": "allocation", "selected": 2},
    "shuffled": SMALL | {"sampling": "shuffled", "neighbors": "zero_out"},
    "shuffled, replaced": SMALL | {"sampling": "shuffled", "neighbors": "replace_one"},
}
LATEX_SPECIAL = re.compile(r"(?<!\\)[%#]|(?<![\\\w}])_|[^\x00-\x7f]")


def number(text):
    """A number of a report; a power of ten in raised digits is one."""
    plain = text.replace(",", "").replace(" %", "").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))
    digits, _, power = plain.rpartition("10-") if "10-" in plain else (plain, "", "0")
    return float(digits.rstrip("× ") or 1.0) * 10.0 ** -float(power)


def assert_sound(found):
    """Every epsilon and every rate that is shown is one that was proved, rounded up by at most a hundredth."""
    n = found.numbers

    def shows(text, value):
        if value == math.inf:
            assert text == "none is proved"
        else:
            assert value * (1 - 1e-12) <= number(text) <= value * 1.01 * (1 + 1e-12), (text, value)

    for row, (epsilon, tpr) in zip(found.part("What would change it").rows, n["what_if"].values(), strict=True):
        shows(row[1], epsilon)
        shows(row[2], 100.0 * tpr)
    attacks = [*n["tpr_at_fpr"].values(), *n["right_alarms"].values(), n["advantage"]]
    for row, share in zip(found.part("What an attacker can do at best").rows, attacks, strict=True):
        shows(row[1], 100.0 * share)
    for row, (delta, epsilon) in zip(
        found.part("The same guarantee with other δ").rows, n["epsilon_at"].items(), strict=True
    ):
        shows(row[0], delta)
        shows(row[1], epsilon)
    if n["epsilon"] < math.inf:
        shows(re.search(r"ε ≤ (\S+)", found.summary)[1], n["epsilon"])


def assert_readable(found):
    """Nothing infinite or missing is in a sentence, and signs are those of the format."""
    for part in found.sections[:-1]:  # the last one has the code of mechanisms
        for text in (*part.sentences, *itertools.chain(*part.rows)):
            assert not re.search(r"\b(inf|nan|None)\b", text), text
    for format in FORMATS:
        if format == "html":
            continue  # as the others, and a picture: below
        text = found.render(format)
        if format == "json":
            assert json.loads(text)["summary"] == found.summary
            continue
        if format in ("latex", "appendix"):
            body = re.sub(r"\\\w+|\$[^$]*\$", "", text.replace(r"\%", "").replace(r"\_", "").replace(r"\&", ""))
            assert not LATEX_SPECIAL.search(body), LATEX_SPECIAL.search(body)
            assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
            assert '"' not in text


@pytest.mark.parametrize("mechanism", [*examples()], ids=repr)
def test_a_report_of_every_mechanism_is_sound_in_every_format(mechanism):
    relation = next(one for one in ("add_remove", "zero_out", "replace_one") if one in mechanism.relations)
    found = fa.report(mechanism, delta=1e-6, neighbors=relation)
    assert_sound(found)
    assert_readable(found)


@pytest.mark.parametrize("run", [*SAMPLERS.values()], ids=[*SAMPLERS])
def test_a_report_of_every_sampler_has_all_parameters(run):
    found = fa.report(**run, delta=1e-5)
    assert_sound(found)
    assert_readable(found)
    paragraph = found.render("appendix").replace(r"\allowbreak{}", "")
    for name in ("noise_multiplier", "records", "batch_size", "epochs", "steps", "sample_rate", "at_most", "bands"):
        if (value := run.get(name)) is not None:
            assert f"{value:,}".removesuffix(".0") in paragraph, name
    for noise, rate, steps in run.get("history", ()):
        assert f"{steps} steps with noise multiplier {noise} and sample rate {rate}" in paragraph
    if "epochs" in run:
        steps = {"several of an epoch": 24}.get(next(name for name, one in SAMPLERS.items() if one is run), 12)
        assert f"({steps} steps)" in paragraph
    assert r"\cite{fastacct}" in paragraph
    assert fa.__version__ in paragraph


def test_the_paragraph_of_a_paper():
    told = fa.report(**RUN, delta=1e-6, unit="person", clipping_norm=1.5).render("appendix")
    assert told.splitlines()[:2] == [
        r"\paragraph{Privacy.} We train with DP-SGD: noise multiplier 1.0408, expected batch size 512 of 50,000 "
        "records, 30 epochs (2,930 steps), gradients clipped to norm 1.5; every step samples each record independently "
        "(Poisson).",
        r"What the training releases satisfies ($\varepsilon$, $\delta$)-differential privacy with "
        r"$\varepsilon$ $\leq$ 3.41 at $\delta$ = 10$^{-6}$, for data sets that differ by adding or removing one "
        "record.",
    ]
    assert "compare two such data sets (one record is one person)" in told
    assert told.endswith(
        r", by which the smallest true $\varepsilon$ is 3.41 (rounded up; the two proved bounds agree to a millionth)."
    )


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("sample rate 0.010309278350515464, 970 steps", "sample rate 1/97, 970 steps"),
        ("poisson(sample_rate=0.0035840000000000001)", "poisson(sample_rate=0.003584)"),
        ("epsilon=1.2345678901e-07; scale 0.01024", "epsilon=1.23457e-07; scale 0.01024"),
        ("1,234,567 records, 2930 steps, fastacct 0.3.0", "1,234,567 records, 2930 steps, fastacct 0.3.0"),
    ],
)
def test_parameters_in_a_paper_have_six_digits(text, shorter):
    assert in_six_digits(text) == shorter


def test_a_rate_of_many_digits_is_whole_in_a_report_and_short_in_a_paper():
    found = fa.report(noise_multiplier=1.1, sample_rate=1 / 97, steps=970, delta=1e-6)
    assert "sample rate 1/97, 970 steps" in found.render("appendix")
    assert "sample_rate=0.010309278350515464" in found.part("How it was computed").sentences[1]


@pytest.mark.parametrize(
    ("number", "written"),
    [(0.01, "0.01"), (1e-3, "0.001"), (1e-4, "10⁻⁴"), (1.234e-4, "1.24 × 10⁻⁴"), (1e-6, "10⁻⁶"), (0.0, "0")],
)
def test_small_numbers_are_powers_of_ten_rounded_up(number, written):
    assert power(number) == written


@pytest.mark.parametrize("mechanism", [fa.Gaussian(0.9), fa.Gaussian(1.7).poisson(0.1) * 99, fa.Laplace(0.3)])
def test_the_factor_is_that_of_the_epsilon_beside_it(mechanism):
    shown, sentence = (fa.report(mechanism, delta=1e-6).part("What is guaranteed").sentences[i] for i in (0, 1))
    epsilon, factor = number(re.search(r"ε ≤ (\S+) at", shown)[1]), number(re.search(r"e\^ε ≤ ([\d.]*\d)", sentence)[1])
    assert math.exp(epsilon) <= factor <= 1.01 * math.exp(epsilon)


def test_assumptions_about_the_gradient_and_the_seed():
    """Of batches whose size is public it may be divided by it."""
    for run, secret in ((RUN, True), (RUN | {"sampling": "shuffled", "neighbors": "zero_out"}, False)):
        assumed = " ".join(words for words, _ in fa.report(**run, delta=1e-6).part("What is assumed").rows)
        assert "no batch normalization" in assumed
        assert "the seed of the random numbers" in assumed
        assert ("divided by a fixed number" in assumed) is secret


def test_shuffled_batches_are_compared_with_poisson_ones_and_need_not_be_secret():
    found = fa.report(**RUN, sampling="shuffled", neighbors="zero_out", delta=1e-6)
    rows = {words.split(":")[0]: (epsilon, tpr) for words, epsilon, tpr in found.part("What would change it").rows}
    plain = fa.report(**RUN, delta=1e-6)
    assert number(rows["Poisson batches"][0]) == pytest.approx(plain.numbers["epsilon"], rel=1e-2)
    assert found.numbers["what_if"][POISSON] == (
        plain.numbers["epsilon"],
        pytest.approx(plain.numbers["tpr_at_fpr"][0.01], rel=1e-9),
    )
    assert "stays secret" not in "".join(words for words, _ in found.part("What is assumed").rows[:3])
    assert KNOWN not in found.numbers["what_if"]
    assert KNOWN in plain.numbers["what_if"]


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (
            fa.Exponential(0.1),
            "at most 0.0981; how far below it is not known. Only an upper bound is known of",
        ),
        (fa.Exponential(0.1) + fa.Gaussian(4.0), "Exponential; the lower end is what the rest"),
        (fa.Gaussian(4.0), "The calculation is exact"),
        (fa.Gaussian(1.0).shuffled(9), "and may be well below the latter"),
    ],
)
def test_why_there_is_no_lower_end_is_said(job, told):
    neighbors = "zero_out" if "shuffled" in repr(job) else "add_remove"
    assert told in fa.report(job, delta=1e-5, neighbors=neighbors).part("What is guaranteed").sentences[-1]


FIELDS = {
    "subject": 'Model <b>3</b> & "co" \\input{x} 5 % |',
    "data_set": "Reviews_2026 #1 ${a}",
    "unit": "person",
    "date": datetime.date(2026, 11, 28),
    "vouched_by": "A. Turing\n\n## Forged\n* ε ≤ 0",
    "clipping_norm": 1.5,
}


def test_fields_are_shown_and_escaped():
    found = fa.report(**RUN, delta=1e-6, **FIELDS)
    stated = dict(found.part("What this report is about").rows)
    assert stated["data set"] == FIELDS["data_set"]
    assert stated["date"] == "2026-11-28"
    assert stated["one record is one"] == "person"
    assert stated["clipping norm"] == "1.5"
    assert found.part("What this report is about").sentences == ()
    assert found.part("What is assumed").sentences == ("Vouched for by A. Turing ## Forged * ε ≤ 0.",)
    assert {one.heading for one in found.sections} == {one.heading for one in fa.report(**RUN, delta=1e-6).sections}
    page, tex, markdown = (found.render(format) for format in ("html", "latex", "markdown"))
    assert "&lt;b&gt;3&lt;/b&gt; &amp; &#34;co&#34;" in page
    assert "<b>3" not in page
    assert r"``co'' \textbackslash{}input\{x\} 5 \% |" in tex
    assert r"Reviews\_2026 \#1 \$\{a\}" in tex
    assert r"Reviews\_2026 \#1 $\{a\}" in markdown
    assert "\n## Forged" not in markdown
    assert json.loads(found.render("json"))["about"]["vouched_by"] == "A. Turing ## Forged * ε ≤ 0"
    assert_readable(found)


def test_what_is_not_stated_is_said():
    (told,) = fa.report(fa.Laplace(2.0), delta=1e-6, subject="a histogram").part("What this report is about").sentences
    assert told == "Not stated: data set, date, who vouches for what is assumed."


@pytest.mark.parametrize(
    ("field", "error", "message"),
    [
        ({"subject": 5}, TypeError, "subject must be a text"),
        ({"unit": " \n "}, ValueError, "unit has 0 characters; allowed: 1 to 300"),
        ({"vouched_by": "x" * 301}, ValueError, "vouched_by has 301 characters"),
        ({"date": "28/11/2026"}, ValueError, "date = '28/11/2026' is no date; write it as '2026-11-28'"),
        ({"clipping_norm": 0.0}, ValueError, "clipping_norm"),
        ({"subjects": "a"}, TypeError, "unexpected keyword argument 'subjects'"),
    ],
)
def test_fields_are_checked(field, error, message):
    with pytest.raises(error, match=message):
        fa.report(**RUN, delta=1e-6, **field)


def test_a_guarantee_that_protects_nobody_says_so_at_the_top():
    weak = fa.report(**RUN, sampling="shuffled", neighbors="zero_out", delta=1e-6)
    assert weak.numbers["tpr_at_fpr"][0.01] > 0.9
    assert weak.verdict.startswith("This guarantee is too weak to protect a single record: up to 99.9 %")
    void = fa.report(fa.Laplace(1.0) + fa.Gaussian(4.0), delta=0.0)
    assert void.verdict.startswith("No finite ε is proved at δ = 0")
    large = fa.report(**RUN, delta=2e-5)
    assert large.verdict.startswith("This guarantee protects nobody: who publishes one record")
    assert fa.report(**RUN | {"records": 60_000}, delta=1.6666666666666664e-5).verdict == large.verdict  # 1/n, rounded
    for found in (weak, void, large):
        assert found.verdict in found.summary
        for kind in ("text", "markdown"):
            page = " ".join(found.render(kind).replace("*", "").split())
            assert page.index(found.verdict) < page.index("What this report is about")
        assert found.part("In plain words").sentences[0] == found.verdict
        page = found.render("html")
        assert page.index('class="number void"') < page.index(found.verdict) < page.index("<section>")
        for format in ("text", "card"):
            assert " ".join(found.verdict.split()) in " ".join(found.render(format).split())
    assert fa.report(**RUN, delta=1e-6).verdict == ""
    assert ", which limits next to nothing." in " ".join(str(weak).split())


def test_averages_are_called_averages():
    found = fa.report(**RUN, delta=1e-6)
    plain = found.part("In plain words").sentences
    assert "on average they recognize at most 5.12 of 100" in plain[0]
    assert "on average they say it of at most 11.6 of 100 that have A" in plain[1]
    assert "on average at most" in plain[2]
    assert "on average at most 5.12 %" in found.render("html")
    assumed = dict(found.part("What is assumed").rows)
    shuffled = next(text for words, text in assumed.items() if words.startswith("How batches are drawn"))
    assert shuffled == (
        "The numbers do not hold. If the loader shuffles, next to nothing is promised: "
        "up to 99.9 % of the used records may be recognized, if 1 % of the unused are wrongly suspected."
    )


@pytest.mark.parametrize(
    ("neighbors", "words"),
    [
        ("add_remove", "unbounded: adding or removing one record; they differ in size"),
        ("replace_one", "bounded: replacing one record; their number of records is public"),
        ("zero_out", "zero-out: replacing one record by an empty one; their number of records is public"),
    ],
)
def test_the_terms_of_nist_are_answered(neighbors, words):
    found = fa.report(fa.Gaussian(4.0), delta=1e-6, neighbors=neighbors, unit="person")
    terms = dict(found.part("In the terms of NIST SP 800-226").rows)
    assert terms["neighboring data sets"] == words
    assert terms["unit of privacy"].startswith("one person")
    assert {"trust model", "side channels, floating point", "security, access control"} < terms.keys()
    assert "doi.org/10.6028/NIST.SP.800-226" in found.render("markdown")


@pytest.mark.parametrize("job", [fa.Gaussian(1.0408).poisson(0.01024) * 2930, fa.Gaussian(0.0), fa.Laplace(9.0)])
def test_the_picture_of_a_page_has_no_notes_on_each_other(job):
    from fastacct import plot

    found = fa.report(job, delta=1e-6)
    drawn, new = [], plot.tradeoff
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plot, "tradeoff", lambda *jobs, **how: drawn.append(new(*jobs, **how)) or drawn[-1])
        page = found.render("html")
    ElementTree.fromstring(page.split("aria-label", 1)[1].split(">", 1)[1].split("</figure>")[0])
    (figure,) = drawn
    figure.draw_without_rendering()
    boxes = [(one.get_text(), one.get_window_extent()) for one in figure.axes[0].texts]
    assert len(boxes) == 2
    assert [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)] == []


def test_large_epsilons_are_whole_numbers_rounded_up():
    found = fa.report(fa.Gaussian(0.02), delta=1e-6)
    assert f"ε ≤ {math.ceil(found.numbers['epsilon']):,} at" in found.summary
    assert found.numbers["epsilon"] > 1000.0


def test_advantage_is_delta_at_epsilon_0():
    for job in (fa.Laplace(2.0) * 3, fa.Gaussian(1.0).poisson(0.1) * 9):
        assert fa.report(job, delta=1e-6).numbers["advantage"] == fa.advantage(job)


def test_groups_of_what_is_one_record_are_no_people_with_several_records():
    """Where a record is a person, a group of five is five persons."""
    rows, people = (fa.report(**RUN, delta=1e-6, unit=unit) for unit in ("row", "person"))
    assert "Of people with 5 records" in rows.render("html")
    assert "Of groups of 5 records (each one person) that are used together or not at all" in people.render("html")
    assert "people with" not in str(people)
    assert people.part("If several records belong together").columns[0] == "records of a group, each one person"
    assert (
        rows.part("If several records belong together").rows == people.part("If several records belong together").rows
    )


def test_the_head_of_a_page_names_the_relation():
    for neighbors, words in (("add_remove", "adding or removing one record"), ("replace_one", "replacing one record")):
        head = fa.report(fa.Gaussian(4.0), delta=1e-6, neighbors=neighbors).render("html").split("<section>")[0]
        assert f"for data sets that differ by {words}</small>" in head


def test_a_guarantee_by_which_most_records_are_found_is_called_weak():
    strong, weak, broken = (fa.report(fa.Gaussian(noise), 1e-6) for noise in (1.0, 0.32, 0.2))
    assert strong.verdict == ""
    assert 0.75 < weak.numbers["tpr_at_fpr"][0.01] < 0.85
    assert weak.verdict.startswith("This guarantee is weak: up to 78.8 % of the records that were used may be")
    assert weak.verdict in weak.summary
    assert weak.verdict in " ".join(weak.part("In plain words").sentences)
    assert weak.part("Whom it protects, and from whom").sentences[0].startswith("It protects each record")
    assert "too weak to protect a single record" in broken.verdict


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (fa.Laplace(10.0) * 3, "3 times the Laplace mechanism (noise multiplier 10)."),
        (
            fa.Gaussian(1.25).poisson(0.01) * 2000,
            "2,000 times the Gaussian mechanism (noise multiplier 1.25), on Poisson samples (sample rate 0.01).",
        ),
        (
            fa.DiscreteGaussian(3.0) + fa.AboveThreshold(0.5),
            "once the Discrete Gaussian mechanism (scale 3, sensitivity 1); "
            "once the Above Threshold mechanism (epsilon 0.5).",
        ),
    ],
)
def test_the_paragraph_of_a_job_has_no_code(job, words):
    assert released(fa.report(job, 1e-6).numbers).endswith(words)


def test_a_delta_without_a_number_of_records_says_for_how_many_it_is():
    small, large = (" ".join(str(fa.report(fa.Gaussian(3.0) * 1, delta=one)).split()) for one in (1e-5, 0.5))
    assert "which is not stated: this one is for 10,000 records or fewer." in small
    assert "δ is more than 0.1: with this chance nothing is promised of a record, of however many." in large
    assert "which is not stated" not in str(fa.report(fa.Gaussian(3.0) * 1, delta=1e-5, records=1000))
    assert "δ should be" not in str(fa.report(fa.Laplace(3.0) * 1, delta=0.0))
