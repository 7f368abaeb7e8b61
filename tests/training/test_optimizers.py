"""What callbacks see of an optimizer that adds noise."""

from types import SimpleNamespace

import pytest

from fastacct.training.optimizers import private_part, refuse_less_noise


def test_less_noise_than_is_counted_is_refused_wherever_trainers_wrap_it():
    own = SimpleNamespace(noise_multiplier=1.0)
    wrapped = SimpleNamespace(optimizer=SimpleNamespace(optimizer=own))
    assert private_part(wrapped) is own
    for one in (own, wrapped):
        refuse_less_noise(one, 1.0)
        refuse_less_noise(one, 0.9)
        with pytest.raises(ValueError, match=r"noise_multiplier = 1\.0 is what the optimizer has now"):
            refuse_less_noise(one, 1.0 + 1e-12)
    own.noise_multiplier = float("nan")
    with pytest.raises(ValueError, match="has now"):
        refuse_less_noise(own, 1.0)


def test_of_an_optimizer_that_adds_no_noise_nothing_is_said():
    assert private_part(SimpleNamespace()) is None
    refuse_less_noise(SimpleNamespace(), 1.0)
    refuse_less_noise(None, 1.0)
