"""What callbacks see of an optimizer that adds noise."""

from types import SimpleNamespace

import numpy as np
import pytest

from fastacct.training.optimizers import private_part, refuse_less_noise, up_to_32_bits


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


def test_an_optimizer_that_adds_batches_up_or_tells_its_norms_is_refused():
    """Eight steps of five Poisson samples were counted as forty: 4.688 where 16.297 is the truth."""
    for skips in ({"_step_skip_queue": [False, True]}, {"_is_last_step_skipped": True}):
        with pytest.raises(ValueError, match=r"signal_skip_step adds batches up.*Meter\(accumulate=\)"):
            refuse_less_noise(SimpleNamespace(noise_multiplier=1.0, **skips), 1.0)
    refuse_less_noise(SimpleNamespace(noise_multiplier=1.0, _step_skip_queue=[], _is_last_step_skipped=False), 1.0)
    with pytest.raises(ValueError, match=r'a release of its own.*clipping="flat"'):
        refuse_less_noise(SimpleNamespace(noise_multiplier=1.0, unclipped_num_std=2.0), 1.0)


def test_ghost_clipping_needs_a_word_where_a_trainer_takes_its_own_loss():
    """Nothing is clipped then: an update of .58 where .0003 is the norm."""
    ghost = type("DPOptimizerFastGradientClipping", (SimpleNamespace,), {})(noise_multiplier=1.0)
    with pytest.raises(ValueError, match="ghost clipping clips in the loss that make_private returns"):
        refuse_less_noise(ghost, 1.0)
    refuse_less_noise(ghost, 1.0, adds_noise=True)


def test_an_optimizer_that_adds_no_noise_is_refused_unless_the_noise_is_said_to_be_elsewhere():
    assert private_part(SimpleNamespace()) is None
    for one in (SimpleNamespace(), SimpleNamespace(optimizer=SimpleNamespace()), None):
        with pytest.raises(ValueError, match="adds no noise: no epsilon holds"):
            refuse_less_noise(one, 1.0)
        refuse_less_noise(one, 1.0, adds_noise=True)
    with pytest.raises(ValueError, match="has now"):
        refuse_less_noise(SimpleNamespace(noise_multiplier=0.5), 1.0, adds_noise=True)


def test_what_is_logged_in_32_bits_is_not_below():
    exact = np.random.default_rng(1).uniform(0.0, 10.0, 1000)
    logged = np.array([up_to_32_bits(one) for one in exact.tolist()])
    assert (logged.astype(np.float32) == logged).all()
    assert (logged >= exact).all()
    assert (logged <= exact * (1.0 + 2.0**-23)).all()
