"""Neighbouring relations: directions, the relation that theorems need, sensitivities that say what they are."""

import pytest

from fastacct.core.relations import ALL, DIRECTIONS, Replaced, as_relation, both_ways, sensitivity


def test_a_theorem_that_needs_both_directions_gets_both():
    for relation in ALL:
        assert set(DIRECTIONS[both_ways(relation)]) == {"remove", "add"}
        assert set(DIRECTIONS[relation]) <= set(DIRECTIONS[both_ways(relation)])
    assert both_ways("replace_one") == "replace_one"
    assert both_ways("zero_out") == "zero_out"


def test_a_replaced_record_moves_a_sum_twice_as_far():
    assert {one: sensitivity(one) for one in ALL} == {**dict.fromkeys(ALL, 1.0), "replace_one": 2.0}


def test_noise_divided_by_a_sensitivity_to_a_replaced_record_says_so():
    assert type(4.0 / Replaced(2.0)) is Replaced
    assert 4.0 / Replaced(2.0) == 2.0
    assert type(4.0 / 2.0) is float


def test_only_five_relations_are_known():
    assert [as_relation(one) for one in ALL] == [*ALL]
    with pytest.raises(ValueError, match="neighbors"):
        as_relation("swap")
