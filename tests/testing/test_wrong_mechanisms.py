"""Wrong mechanisms that the contract must refuse, and those that it cannot see, which its documentation names."""

import numpy as np
import pytest

from fastacct.testing import ContractError, check_mechanism
from tests.wrong_mechanisms import LAPLACE, TABLES, UNSEEN, WRONG, curve, like


@pytest.mark.parametrize("name", WRONG)
def test_the_contract_refuses_a_mechanism_that_says_too_little(name):
    make, words = WRONG[name]
    with pytest.raises(ContractError, match=words):
        check_mechanism(make())


@pytest.mark.parametrize("name", UNSEEN)
def test_what_the_contract_cannot_see_it_does_not_refuse(name):
    """Its docstring and docs/adding_a_mechanism.md name these."""
    assert check_mechanism(UNSEEN[name]()) == ()


def test_an_honest_mechanism_that_is_put_together_is_not_refused():
    assert check_mechanism(like(LAPLACE)) == ()
    assert check_mechanism(like(TABLES)) == ()
    bound = curve(lambda a: np.minimum(0.5 * a, 1.0), tight=False, pure_epsilon=lambda self, relation: 1.0)
    assert check_mechanism(bound) == ()
