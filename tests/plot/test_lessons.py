"""Pictures of accuracy, prefix sums, losses and networks: what is drawn are the numbers given."""

import math

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import fastacct as fa


def line(axis, label):
    """The points of a labelled line."""
    (one,) = [each for each in axis.get_lines() if each.get_label() == label]
    return np.asarray(one.get_xdata(), float), np.asarray(one.get_ydata(), float)


def test_accuracy_draws_epsilon_over_error():
    curves = {
        "a": fa.curve.accuracy_curve(fa.Laplace, [0.5, 2.0], delta=0.0, beta=0.1),
        "b": fa.curve.accuracy_curve(fa.Gaussian, [0.5, 2.0], delta=1e-6, beta=0.1, dimension=3),
    }
    axis = fa.plot.accuracy(curves).axes[0]
    errors, epsilons = line(axis, "a")
    assert errors == pytest.approx([0.5 * math.log(10), 2 * math.log(10)])
    assert epsilons == pytest.approx([2.0, 0.5])
    assert line(axis, "b")[1].tolist() == [fa.epsilon(fa.Gaussian(s), delta=1e-6) for s in (0.5, 2.0)]
    assert "probability 0.1" in axis.get_xlabel()
    with pytest.raises(ValueError, match="curves is empty"):
        fa.plot.accuracy({})


def test_prefix_error_draws_a_step_for_each_sum():
    steps = list(range(1, 9))
    axis = fa.plot.prefix_error({"tree": fa.utility(fa.TreeAggregation(2.0, 8), step=steps)}, steps).axes[0]
    assert line(axis, "tree")[1] == pytest.approx([2 * math.sqrt(t.bit_count()) for t in steps])


def test_network_gain_draws_both_views():
    gains = {n: fa.network_gain(fa.GradientWalk(4.0, 5, n), delta=1e-6) for n in (10, 100)}
    axis = fa.plot.network_gain({"walk": gains}).axes[0]
    assert line(axis, "walk")[1].tolist() == [gains[10].network, gains[100].network]
    assert any(np.array_equal(one.get_ydata(), [gains[10].local, gains[100].local]) for one in axis.get_lines())


def test_privacy_loss_draws_the_tail_below_the_subgaussian():
    loss = fa.privacy_loss(fa.Laplace(1.0) * 5)
    axis = fa.plot.privacy_loss({"five": loss}, smallest=1e-4).axes[0]
    at, tail = line(axis, "five")
    assert tail == pytest.approx(np.asarray(loss.exceeds(at).upper))
    thin = [one for one in axis.get_lines() if one.get_linewidth() < 1.0]
    beyond, bound = thin[0].get_data()
    assert np.all(loss.exceeds(beyond).lower <= bound * (1 + 1e-12))
    shown = fa.plot.privacy_loss(
        {"leak": fa.privacy_loss(fa.from_pmf([0.9, 0.1, 0.0], [0.9, 0.0, 0.1]), neighbors="remove")}
    )
    assert shown.axes[0].get_lines()


def test_a_bound_that_is_far_above_does_not_hide_the_tail():
    """Of a sampled Gaussian the sub-Gaussian bound reaches 167 where the tail ends at 2.4."""
    axis = fa.plot.privacy_loss([fa.Gaussian(1.0).poisson(0.01) * 1000]).axes[0]
    low, high = axis.get_xlim()
    assert -2.0 < low < 0.0 < 2.0 < high < 8.0


def test_an_interval_of_shuffled_batches_is_rounded_outwards():
    """16.2542 is no less than 16.3."""
    run = {"noise_multiplier": 1.117, "records": 50_000, "batch_size": 512, "epochs": 30, "delta": 1e-6}
    notes = [text.get_text() for text in fa.plot.samplers(**run).axes[0].texts]
    assert notes[-2:] == ["12.3 to 34.7", "16.2 to 93.9"]


def test_records_and_steps_are_whole_numbers_on_the_axes():
    for axis in fa.plot.batches(records=20, batch_size=4, epochs=2).axes:
        assert all(float(tick).is_integer() for tick in [*axis.get_xticks(), *axis.get_yticks()])
