"""Words that are misspelt, or no words at all: every public function that takes one refuses it and names it."""

import numpy as np
import pytest

import fastacct as fa
from tests.public_calls import OPEN, default_of, good_call, parameters_of, public

pd = pytest.importorskip("pandas")

WORDS = ("neighbors", "sampling", "accountant", "bins", "conversion")
RESULTS = (fa.curve.PrivacyCurve, fa.curve.TradeoffCurve, fa.curve.AccuracyCurve, fa.LoaderGuide, fa.Sweep)
"""Classes of answers, which have the words of the question as they were answered."""
NUMBERS = (fa.MatrixGaussian, fa.MatrixGaussian.from_strategy)
"""Where bins are a number of bins."""
CASES = [
    pytest.param(path, function, word, id=f"{path}-{word}")
    for path, function in public()
    for word in WORDS
    if word in parameters_of(function) and function not in (NUMBERS if word == "bins" else RESULTS)
]
WRONG = {
    "neighbors": "replace",
    "sampling": "poison",
    "accountant": "exact",
    "bins": "persistant",
    "conversion": "balle",
}


def is_optional(function, word):
    """Whether None says that nothing is given."""
    return (function in OPEN and word in ("accountant", "bins")) or default_of(function, word) is None


@pytest.mark.parametrize(("path", "function", "word"), CASES)
def test_a_misspelt_word_is_refused_by_name(path, function, word):
    call = good_call(path, function, word)
    for wrong in (WRONG[word], 5, None, np.array([WRONG[word], "add"]), pd.Series([WRONG[word], "add"]), {WRONG[word]}):
        if wrong is not None or not is_optional(function, word):
            with pytest.raises((TypeError, ValueError), match=word):
                call(**{word: wrong})


def test_good_calls_are_good_and_many():
    assert len(CASES) >= 124
    assert {word for _, _, word in (case.values for case in CASES)} == set(WORDS)
    relations = [case.values for case in CASES if case.values[2] == "neighbors" and case.values[1] is not fa.certify]
    for path, function, word in relations:  # what is refused above is refused for its word alone
        call = good_call(path, function, word)
        call(
            neighbors="remove"
            if path in ("fa.divergence", "fa.privacy_loss")
            else call.keywords.get("neighbors", "add_remove")
        )


def test_replacing_moves_a_sum_of_both_signs_further_and_no_other_spelling_answers():
    assert fa.sensitivity.sum(-1.0, 5.0, neighbors="replace_one") == 6.0
    for wrong in ("replace", "replace-one", "Replace_one", "zero", None, 5):
        with pytest.raises((TypeError, ValueError), match="neighbors"):
            fa.sensitivity.sum(-1.0, 5.0, neighbors=wrong)
