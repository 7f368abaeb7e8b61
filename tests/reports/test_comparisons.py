"""What a report compares with, and what follows from a job that releases nothing or has public sizes."""

import math
import re

import pytest

import fastacct as fa
from fastacct.core.words import in_one_line
from fastacct.reports.numbers import SHUFFLED
from fastacct.reports.sections import _as_code
from fastacct.reports.shown import three_up
from fastacct.testing import examples
from tests.reports.test_words import RUN, SAMPLERS, SMALL


def test_runs_by_rate_and_steps_are_compared_with_shuffled_batches():
    """As many passes as their steps need: whole batches that a rate of 1 / 97.7 cuts from the data are 97."""
    fixed = {"noise_multiplier": 1.0408, "sample_rate": 512 / 50_000, "steps": 2930}
    passes = fa.Gaussian(1.0408) * math.ceil(2930 / 97)
    for run, job in ((fixed, passes), ({"history": [(1.0408, 0.01, 250), (2.0, 1.0, 3)]}, None)):
        found = fa.report(**run, delta=1e-6).numbers["what_if"][SHUFFLED]
        job = fa.Gaussian(1.0408) * 3 + fa.Gaussian(2.0) * 3 if job is None else job
        assert found[0] == fa.epsilon(job, delta=1e-6, neighbors="zero_out")
    assert SHUFFLED not in fa.report(**fixed | {"steps": 0}, delta=1e-6).numbers["what_if"]


def test_a_job_that_releases_nothing_is_guessed_and_no_more():
    found = fa.report(noise_multiplier=math.inf, sample_rate=0.01, steps=10, delta=1e-5)
    assert found.numbers["tpr_at_fpr"] == {0.001: 0.001, 0.01: 0.01}
    assert "at most 1 of 100 that were" in found.part("In plain words").sentences[0]
    assert found.part("What is guaranteed").sentences[1].endswith("; e^ε = 1.")
    assert found.part("What is guaranteed").sentences[-1].endswith("the smallest ε that is true is 0.")


def test_data_sets_whose_sizes_are_public_do_not_differ_in_size():
    """Under add_remove one of them is larger, and its size is that of the numbers."""
    run = SMALL | {"sampling": "fixed_size"}
    for neighbors, words, rows in (
        ("add_remove", "draws 250 of the records without replacement", "the larger one has 1,000 records"),
        ("zero_out", "without replacement, and both numbers are public", "their number of records is public"),
    ):
        found = fa.report(**run, neighbors=neighbors, delta=1e-5)
        assumed, terms = found.part("What is assumed").rows, found.part("In the terms of NIST SP 800-226").rows
        assert assumed[0][0].endswith(f"{words}.")
        assert dict(terms)["neighboring data sets"].endswith(rows)
    assert "keeps a random 300 of them, and this number and that of all records" in str(
        " ".join(str(fa.report(**SAMPLERS["truncated"], neighbors="zero_out", delta=1e-5)).split())
    )


@pytest.mark.parametrize(
    ("number", "shown"),
    [(2.4973, "2.50"), (2.5, "2.5"), (0.19996, "0.200"), (29.96, "30.0"), (99.96, "100"), (0.0, "0")],
)
def test_what_is_rounded_has_three_digits(number, shown):
    assert three_up(number) == shown


def test_a_shuffled_run_needs_no_random_order_and_says_that_nothing_is_gained_by_it():
    run = SMALL | {"noise_multiplier": 0.3, "sampling": "shuffled", "neighbors": "zero_out"}
    found = fa.report(**run, delta=1e-6)
    assumed = " ".join(words for words, _ in found.part("What is assumed").rows)
    assert "in any order that does not depend on the data" in assumed
    assert "random order" not in assumed
    assert any("No gain from shuffling" in one for one in found.part("What is guaranteed").sentences)
    assert "How far below it the best attack stays is not known: the true ε is between" in found.verdict
    assert "It protects from" not in str(found)
    known = fa.dpsgd.epsilon(noise_multiplier=0.3, sample_rate=1, steps=3, delta=1e-6, neighbors="zero_out")
    assert found.numbers["epsilon"] == known


def test_a_report_asks_for_a_certificate_where_one_can_be_made_only():
    tuned = fa.report(fa.Laplace(3.0) + fa.RepeatedSelection(fa.Gaussian(4.0), mean=10.0, eta=1.0), delta=1e-6)
    allocated = fa.report(**SMALL, sampling="allocation", delta=1e-6)
    for found in (tuned, allocated):
        with pytest.raises(ValueError, match="no certificate"):
            fa.certify(found.job, delta=1e-6)
        assert any(
            "No certificate can be made of this job" in one for one in found.part("How it was computed").sentences
        )
    assert any(
        "fastacct.certify(job" in one for one in fa.report(**RUN, delta=1e-6).part("How it was computed").sentences
    )
    assumed = [words for words, _ in tuned.part("What is assumed").rows]
    assert any("The number of runs of RepeatedSelection was drawn" in words for words in assumed)
    assert not any("numbers that are listed" in words for words in assumed)


def test_the_call_of_a_report_computes_its_number_again():
    """Of every mechanism that is written whole; code that somebody else wrote is not printed."""
    for job in (fa.Gaussian(1.0).shuffled(steps=100) * 1200, fa.Laplace(3.0) * 2 + fa.Gaussian(2.0).poisson(0.1)):
        found = fa.report(job, delta=1e-5, neighbors="zero_out")
        (told,) = [one for one in found.part("How it was computed").sentences if "compute it again" in one]
        given = re.fullmatch(
            r"To compute it again, in Python: (import fastacct); job = (.*); (fastacct\.epsilon.*)\.", told
        )
        names = {"fastacct": fa, "job": eval(given[2], {"fastacct": fa})}
        assert names["job"] == job
        assert eval(given[3], names) == found.numbers["epsilon"]


def test_the_code_of_a_mechanism_makes_it_again():
    for mechanism in examples():
        code = _as_code({"job": [("3", in_one_line(repr(mechanism)))]})
        assert bool(code) != type(mechanism).__name__.startswith("PairOf"), mechanism
        if code:
            assert eval(code, {"fastacct": fa, "inf": math.inf}) == mechanism * 3


def test_code_that_is_no_mechanism_is_not_printed():
    for text in ("__import__('os').system('ls')", "Noise(1.0)", "Gaussian(1.0)\n; x", 'Gaussian("a")'):
        assert not _as_code({"job": [("1", text)]})


def test_a_picture_that_takes_long_is_left_out_and_the_report_says_so(monkeypatch):
    """Draws with replacement: each of the sixty rates of a picture would take half a second."""
    job = fa.Gaussian(2.0).with_replacement(62, 1000) * 43
    drawn = []
    monkeypatch.setattr(fa.plot, "tradeoff", lambda *asked, **about: drawn.append(about))
    found = fa.report(job, delta=1e-5, neighbors="zero_out")
    page = found.render("html")
    assert not drawn
    assert "has no picture" in page
    assert "What an attacker can do" in page
    assert "has no picture" not in fa.report(fa.Laplace(5.0), delta=1e-5).render("text")
