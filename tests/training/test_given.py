"""What a meter is given beside what it counts: cycles, and states that were kept."""

import pytest

from fastacct.training.given import is_more, of_keywords, refuse_other_draws

POISSON = of_keywords({"sample_rate": 0.1})
CYCLES = POISSON._replace(per=10)


def test_samples_that_are_drawn_anew_are_no_cycles():
    with pytest.raises(ValueError, match="may draw a record again after 1 batches, and the meter counts cycles of 10"):
        refuse_other_draws(POISSON, CYCLES)
    with pytest.raises(ValueError, match="after 5 batches"):
        refuse_other_draws(POISSON._replace(per=5), CYCLES)
    refuse_other_draws(CYCLES, CYCLES)
    refuse_other_draws(CYCLES, POISSON)  # more is counted


@pytest.mark.parametrize(
    ("kept", "own", "more"),
    [
        ((4, 40), (2, 18), True),
        ((4, 13), (2, 18), True),  # four passes, of which three were broken off
        ((2, 18), (4, 13), False),
        ((2, 18), (2, 17), True),
        ((2, 17), (2, 18), False),
        ((2, 18), (2, 18), True),
    ],
)
def test_passes_count_before_steps(kept, own, more):
    names = ("units", "steps")
    assert is_more(dict(zip(names, kept, strict=True)), dict(zip(names, own, strict=True))) is more
