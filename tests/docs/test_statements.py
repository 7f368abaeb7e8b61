"""Statements with numbers in docstrings: each is measured here or elsewhere, or it is said why it needs no measurement.

A number is a share, a time, a factor, digits, or a power of ten such as 1e-9.  Examples run as they stand.
"""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct import conformance
from fastacct.audit.shared import largest_refuted

ROOT = Path(__file__).parents[2]
PACKAGE = Path(fa.__file__).parent
NUMBER = re.compile(
    r"(?<![\w.])\d[\d,.]*(?:e-?\d+)?(?: ?%| ms\b| us\b| s\b(?![/^*])| seconds?\b| times\b| digits\b)"
    r"|(?<![\w.=([])[1-9](?:\.\d+)?e-\d+"
)
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
STEP = fa.Gaussian(1.0).poisson(0.01)


@cache
def statements():
    """(file, sentence) of each sentence with a number."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            said = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
            if not said or not NUMBER.search(said):
                continue
            text = re.sub(r"(?m)^\s*(>>>|\.\.\.).*\n(?:(?!\s*>>>).+\n?)*", "\n", f"{said}\n")
            sentences = re.split(r"(?<=[.:;])\s+", re.sub(r"\s+", " ", text))
            found += [(file.relative_to(PACKAGE).as_posix(), one) for one in sentences if NUMBER.search(one)]
    return found


def width(bounds):
    """Relative width of an interval, the largest of several."""
    return float(np.max((np.asarray(bounds.upper) - bounds.lower) / np.asarray(bounds.upper)))


def rates_at_the_boundary():
    rate = fa.dpsgd.sample_rate(epsilon=2.0, delta=1e-6, noise_multiplier=1.0, steps=1000)
    assert fa.dpsgd.epsilon(**RUN | {"sample_rate": rate}, delta=1e-6) <= 2.0
    assert fa.dpsgd.epsilon(**RUN | {"sample_rate": rate * (1 + 1e-8)}, delta=1e-6) > 2.0
    assert fa.dpsgd.sample_rate(epsilon=0.0, delta=1e-300, noise_multiplier=0.1, steps=10**9) == 0.0


def renyi_noise_at_the_boundary():
    run = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-6, "accountant": fa.RDP()}
    noise = fa.dpsgd.noise_multiplier(epsilon=2.0, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=noise, **run) <= 2.0
    assert fa.dpsgd.epsilon(noise_multiplier=noise * (1 - 1e-9), **run) > 2.0


def noise_by_the_optimal_conversion():
    run = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-6, "accountant": fa.RDP(conversion="optimal")}
    noise = fa.dpsgd.noise_multiplier(epsilon=2.0, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=noise * (1 - 1e-6), **run) > 2.0


def calibrated_noise():
    noise = fa.calibrate(fa.Gaussian, epsilon=1.0, delta=1e-6)
    assert fa.epsilon(fa.Gaussian(noise), delta=1e-6) <= 1.0
    assert fa.epsilon(fa.Gaussian(noise * (1 - 1e-9)), delta=1e-6) > 1.0


def ends_of_the_search():
    run = {"sample_rate": 1.0, "steps": 1, "delta": 0.9}
    assert fa.dpsgd.noise_multiplier(epsilon=1e12, **run | {"delta": 1e-6}) >= 1e-6
    assert fa.dpsgd.noise_multiplier(epsilon=1e-13, **run | {"delta": 0.0}) == np.inf


def gaussian_curve():
    noise, steps = np.array([1.0, 10.0, 100.0]), np.array([1, 10, 100])
    run = {"noise_multiplier": noise, "sample_rate": 1.0, "steps": steps, "delta": 1e-6}
    exact, other = fa.dpsgd.epsilon_bounds(**run), fa.dpsgd.epsilon(**run, accountant=fa.AnalyticGaussian())
    assert (other >= exact.lower).all()
    assert (other <= exact.upper * (1 + 5e-12)).all()


def limit_theorem():
    low = fa.dpsgd.epsilon_approx(**RUN, delta=1e-5, accountant=fa.CLT())
    assert round(100 * (1 - low / fa.dpsgd.epsilon(**RUN, delta=1e-5))) == 12


def truths():
    wide = [case for case in conformance.load() if float(case.high - case.low) > 3e-20 * float(case.high)]
    assert sum(case.group == "fixed-size" for case in wide) == 8
    (other,) = (case for case in wide if case.group != "fixed-size")
    assert float((other.high - other.low) / other.high) == pytest.approx(2e-12)


def summary_by_mu():
    fit = fa.gdp(STEP * 1000, delta_floor=1e-5)
    assert fit.mu - fit.mu_lower <= 1e-6 * fit.mu


def gradients_of_what_is_certified():
    slope = fa.dpsgd.epsilon_gradient(**RUN, delta=1e-5)
    assert np.isfinite(slope.noise_multiplier)
    assert fa.dpsgd.epsilon_bounds(**RUN, delta=1e-5).status == fa.Status.TIGHT


def masses():
    fa.from_pmf([0.5, 0.5 + 9e-13], [0.4, 0.6])
    with pytest.raises(ValueError, match="sum"):
        fa.from_pmf([0.5, 0.5 + 1e-11], [0.4, 0.6])


def components():
    fa.GaussianMixture(1.0, [(0.5, 0.0), (0.5 + 9e-13, 1.0)])
    with pytest.raises(ValueError, match="weights"):
        fa.GaussianMixture(1.0, [(0.5, 0.0), (0.5 + 1e-11, 1.0)])


def several_releases_on_a_sample():
    job = (fa.Gaussian(2.0) + fa.Laplace(5.0)).poisson(0.01)
    assert width(fa.epsilon_bounds(job * 1000, delta=1e-6)) < 1.5e-6


def releases_of_discrete_noise_on_a_sample():
    job = (fa.DiscreteGaussian(3).poisson(0.5) * 2).poisson(0.1)
    assert width(fa.epsilon_bounds(job * 10, delta=1e-6)) < 1e-2


def variance_of_the_loss():
    assert width(fa.privacy_loss(fa.Laplace(1.0) * 10).variance) <= 1e-9


def tails_of_the_loss():
    assert width(fa.privacy_loss(STEP * 1000).exceeds(1.0)) < 1e-4


def concentration_of_the_loss():
    assert fa.privacy_loss(fa.Gaussian(2.0) * 1).concentration.tau == pytest.approx(0.5, rel=1e-3)


def textbook_noise():
    for epsilon, is_enough in ((8.3, True), (8.5, False)):
        noise = np.sqrt(2 * np.log(1.25 / 1e-5)) / epsilon
        assert (fa.delta(fa.Gaussian(noise), epsilon=epsilon) <= 1e-5) == is_enough


def curve_of_attacks():
    assert width(fa.tradeoff_bounds(STEP * 1000, [1e-5, 0.01, 0.5])) <= 1e-9


def error_of_a_release():
    law = fa.utility(fa.Laplace(2.0))
    assert law.mean_square == pytest.approx(8.0, rel=1e-10)


def median_width():
    """Of the random runs that the benches draw."""
    scores = pytest.importorskip("bench.scores")
    for regime in scores.REGIMES:
        found = fa.dpsgd.epsilon_bounds(**scores.draw(regime, 500).keywords())
        assert 3e-12 < np.median((found.upper - found.lower) / found.upper) < 7e-12


def largest_epsilon_refuted():
    for edge in (1e-6, 0.37, 123.4):
        assert edge * (1 - 1e-13) <= largest_refuted(lambda epsilon, edge=edge: epsilon < edge) <= edge


SETTING = "what may be given, or where a search ends, and no measurement"
OTHER = "of another library; its adapter is tested beside it (make backends)"
ROWS = [
    ("accountants/exact.py", "5e-12 apart in the median", median_width),
    ("accountants/exact.py", "within 1e-8 relative of it", rates_at_the_boundary),
    ("accountants/older.py", "equal to the truth up to about 1e-12", gaussian_curve),
    ("accountants/older.py", "12 % at sigma 1", limit_theorem),
    ("accountants/rdp.py", "costs about 100 times more", "a time: bench/RESULTS.md has it, by python -m bench.compare"),
    ("accountants/rdp.py", "within 1e-9 relative of it", renyi_noise_at_the_boundary),
    ("audit/betting.py", "1e-6 to 0.1", SETTING),
    ("audit/counts.py", "within 0.1 % below", "tests/audit/test_counts.py"),
    ("audit/shared.py", "up to 1e-13 of it", largest_epsilon_refuted),
    ("calibrate.py", "within 1e-9 relative (or at the next", calibrated_noise),
    ("calibrate.py", "outwards from 1, to 1e-6 or 1e12", SETTING),
    ("compat/autodp.py", "autodp's may be 1e-3 above", OTHER),
    ("compat/diffprivlib.py", "by 6e-17", OTHER),
    ("compat/dp_accounting.py", "a floor of about 1e-14", OTHER),
    ("compat/opacus.py", "epsilon is at most 1e-6 above the truth", "what TIGHT means: core/bounds.py"),
    ("core/search.py", "at most 0 and not below -6e-9", "tests/core/test_search.py"),
    ("core/search.py", "some 1e-9 above sketches", "tests/verbs/test_calibrate.py"),
    ("conformance/case.py", "at most 3e-20 wide", truths),
    ("curve.py", "which is at least 1e-300", SETTING),
    ("curve.py", "logarithms down to 1e-6", SETTING),
    ("dpsgd.py", "relative excess at most 1e-11", "tests/docs/test_figures.py"),
    ("dpsgd.py", "at (1 - 1e-8) times it", "tests/docs/test_figures.py"),
    ("dpsgd.py", "about 1e-7)", noise_by_the_optimal_conversion),
    ("dpsgd.py", "from 1e-6 to 1e12", ends_of_the_search),
    ("dpsgd.py", "Safe side, within 1e-8 relative", rates_at_the_boundary),
    ("dpsgd.py", "no rate above 1e-30", rates_at_the_boundary),
    ("epsilon.py", "relative excess of at most 1e-11", "tests/docs/test_figures.py"),
    ("gdp.py", "most 1e-6 relative, or by more where deltas take long", summary_by_mu),
    ("gradient.py", "1e-5 below 1", "tests/verbs/test_gradient.py"),
    ("gradient.py", "good to 2 to 6 digits", "tests/verbs/test_gradient.py"),
    ("gradient.py", "is not certified to 1e-6", gradients_of_what_is_certified),
    ("guarantees/__init__.py", "differ by more than 1e-6", "tests/guarantees/test_guarantees.py"),
    ("losses/divergence.py", "checked against 50 digits", "tests/losses/test_divergence.py"),
    ("losses/loss.py", "good to 1e-13 only", "of NumPy: a reason for what is done, which the oracle checks"),
    ("readers/grid/place.py", "log tilt to 3 digits", "a search, which proves nothing: any tilt is valid"),
    (
        "mechanisms/finite.py",
        "0 to n successes, to 1e-12",
        "of SciPy; what it is used for is compared with the reference",
    ),
    (r"mechanisms/finite\.py|mechanism_kit\.py", "sums to 1 within 1e-12", masses),
    ("mechanisms/finite.py", "if that is below 1e-12", masses),
    ("mechanisms/gaussian.py", "adding up to 1 within 1e-12", components),
    ("mechanisms/integer.py", "8e-12 is the largest error seen", "tests/mechanisms/test_integer.py"),
    ("mechanisms/integer.py", "3e-11 is added", "an entry of a ledger, larger than the error in the row above"),
    ("mechanisms/integer.py", "are below 1e-290", "how the end is chosen; the mass beyond it is bounded"),
    ("mechanisms/nested.py", "The bounds are about 1e-6 of themselves apart", several_releases_on_a_sample),
    ("mechanisms/nested.py", "Its bounds are up to 1e-2 apart", releases_of_discrete_noise_on_a_sample),
    ("plot/figures.py", "2 and 5 times them", SETTING),
    ("privacy_loss.py", "To 1e-9 of itself", variance_of_the_loss),
    ("privacy_loss.py", "about 1e-6 of the second moment", "tests/verbs/test_privacy_loss.py"),
    ("privacy_loss.py", "tau to about 1e-3", concentration_of_the_loss),
    ("privacy_loss.py", "About 1e-5 wide for losses", tails_of_the_loss),
    ("reports/planning.py", "1 % false positives", SETTING),
    ("reports/planning.py", "1 % more epochs cost", "the definition of a column"),
    ("samplers/fixed_size.py", "integrals below 1e-9 of these", "tests/samplers/test_draws.py"),
    ("samplers/truncated.py", "more than 1e-30 of the k-th", "tests/samplers/test_truncated.py"),
    ("samplers/truncated.py", "next term is below 1e-31", "tests/samplers/test_truncated.py"),
    ("testing/__init__.py", "to 1e-9 on the unsafe side", "tests/testing/test_contract.py"),
    ("textbook/classical.py", "from epsilon = 8.42 at delta = 1e-5", textbook_noise),
    ("tradeoff.py", "Relative accuracy of 1e-9", curve_of_attacks),
    ("mechanisms/utility.py", "Exact to 1e-10", error_of_a_release),
]
"""(file or files, part of the sentence, the check, or the test file that has it, or why there is none)."""


def test_every_statement_is_measured_or_has_a_reason():
    known = {
        (file, sentence): [row for row in ROWS if re.fullmatch(row[0], file) and row[1] in sentence]
        for file, sentence in statements()
    }
    assert [one for one, rows in known.items() if len(rows) != 1] == []


def test_no_row_is_of_a_statement_that_is_gone():
    assert [
        row[:2] for row in ROWS if not any(re.fullmatch(row[0], file) and row[1] in one for file, one in statements())
    ] == []


def test_reasons_are_words_and_files_exist():
    for _, _, reason in ROWS:
        if isinstance(reason, str) and reason.startswith("tests/"):
            assert (ROOT / reason).is_file(), reason
        else:
            assert callable(reason) or len(reason.split()) > 3


CHECKS = sorted({row[2] for row in ROWS if callable(row[2])}, key=lambda check: check.__name__)


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_a_statement_holds(check):
    check()
