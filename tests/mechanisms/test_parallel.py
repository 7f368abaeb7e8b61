"""Parallel composition: the larger of its parts, told apart in every cell."""

from contextlib import nullcontext

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers import job as job_reader
from fastacct.readers import ladder, renyi
from fastacct.readers.contour import Contour
from fastacct.readers.grid import reader


def test_parallel_is_the_largest_and_composes():
    a, b = fa.Laplace(2.0) * 2, fa.Gaussian(1.0)
    both = fa.Parallel(a, b)
    for epsilon in (0.1, 0.9):
        expected = np.maximum(*(np.array(fa.delta_bounds(job, epsilon=epsilon)) for job in (a, b)))
        np.testing.assert_array_equal(np.array(fa.delta_bounds(both, epsilon=epsilon)), expected)
    assert fa.delta(fa.Parallel(b, b) * 2, epsilon=1.0) == fa.delta(b * 2, epsilon=1.0)
    orders = np.array([1.5, 2.0, 8.0])
    larger = np.maximum(fa.rdp(a, orders), fa.rdp(b, orders))
    np.testing.assert_allclose(fa.rdp(both, orders), larger, rtol=2e-14, atol=0.0)  # its rounding up
    assert fa.delta(both * 2, epsilon=1.0) >= fa.delta(b * 2, epsilon=1.0)
    with pytest.raises(ValueError, match="replace_one"):
        fa.delta(both, epsilon=1.0, neighbors="replace_one")
    with pytest.raises(ValueError, match="different parts"):
        both.group(2)
    with pytest.raises(TypeError, match=r"jobs\[1\]"):
        fa.Parallel(b, fa.Gaussian(np.array([1.0, 2.0])) * 1)


def test_parts_of_the_data_are_told_apart_for_every_count_of_an_array():
    """Once the divergences of all parts together, where the count was an array."""
    parts, counts = fa.Parallel(fa.PureDP(0.5), fa.Laplace(10.0)), np.array([1, 0, 3])
    lower, upper, _ = fa.delta_bounds(parts * counts, epsilon=[[0.2], [0.7]])
    for i, j in np.ndindex(2, 3):
        one = fa.delta_bounds(parts * int(counts[j]), epsilon=(0.2, 0.7)[i])
        assert (lower[i, j], upper[i, j]) == one[:2]


@pytest.fixture
def read_in_full(monkeypatch):
    """Which dear rungs were asked."""
    asked = []
    for name in ("losses", "divergences"):
        rung = ladder.LADDER[name]
        ask = lambda *given, name=name, rung=rung: asked.append(name) or rung.ask(*given)  # noqa: E731
        monkeypatch.setitem(ladder.LADDER, name, rung._replace(ask=ask))
    return asked


def test_alternatives_that_are_known_to_be_smaller_are_not_read_in_full(read_in_full):
    """Of ten ways to split nine releases over two parts each one was: of 38 it took two minutes."""
    noise = fa.DiscreteGaussian(12.0) * 3, fa.DiscreteGaussian(11.0) * 4 + fa.PureDP(0.073) * 7
    parts = fa.Parallel(*noise) * 9 + fa.PureDP(0.2171) * 3
    loose = fa.Parallel(fa.Exponential(0.7).poisson(0.3) * 3, fa.ApproxDP(0.4, 1e-9)) * 9 + fa.PureDP(0.2171) * 3
    for job, rung, few in ((parts, "losses", 1), (loose, "divergences", 2)):
        for ask, target in ((fa.epsilon_bounds, {"delta": 1e-6}), (fa.delta_bounds, {"epsilon": 2.0})):
            read_in_full.clear()
            found = ask(fa.Process(list(job)), **target)
            assert read_in_full.count(rung) <= few
            each = [ask(one, **target) for one in job.decompose("add_remove").alternatives("add_remove")]
            assert read_in_full.count(rung) >= 5, "each of these alternatives is read in full by itself"
            assert found.upper == max(one.upper for one in each)
            assert found.lower == (
                max(one.lower for one in each) if job.tight else ask(fa.PureDP(0.2171) * 3, **target).lower
            )


def test_alternatives_have_the_same_bits_alone_and_in_an_array():
    job = fa.Parallel(fa.PureDP(0.1) * 30, fa.PureDP(0.05) * 40 + fa.PureDP(0.0731) * 17) * 4 + fa.PureDP(0.2171) * 3
    delta, epsilon = np.array([1e-6, 1e-250, 0.3, 0.0, 1e-14]), np.array([0.0, 14.0, 2.0, 1e300, 14.7])
    asked = ((fa.epsilon_bounds, fa.epsilon, "delta", delta), (fa.delta_bounds, fa.delta, "epsilon", epsilon))
    for ask, upper, name, targets in asked:
        found = ask(job, **{name: targets})
        for i, target in enumerate(targets.tolist()):
            assert tuple(x[i] for x in found) == ask(job, **{name: target})
        assert found.upper[1] == upper(job, **{name: targets[1]})


def test_relations_are_those_of_all_parts():
    """A part that supports only some of them is not found out in the middle of an answer."""
    answers = fa.RandomizedResponse(0.5, 4)
    assert fa.Parallel(answers, fa.Gaussian(1.0)).relations == ("zero_out",)
    assert fa.RepeatedSelection(answers, 5.0).relations == ("zero_out", "replace_one")
    assert fa.Together(answers + fa.Gaussian(1.0)).relations == ("zero_out", "replace_one")
    assert fa.Parallel(fa.Laplace(1.0), fa.Gaussian(1.0)).relations == ("add_remove", "add", "remove", "zero_out")
    with pytest.raises(ValueError, match="not supported by Parallel"):
        fa.epsilon(fa.Parallel(answers, fa.Gaussian(1.0)), delta=1e-5)


def test_divergences_are_those_of_the_largest_part():
    """Whichever of the parts is the largest one."""
    for parts in ((fa.Laplace(2.0), fa.Laplace(5.0) * 2), (fa.Laplace(5.0) * 2, fa.Laplace(2.0))):
        assert fa.rdp(fa.Parallel(*parts) * 3, 2.0) >= 3.0 * fa.rdp_bounds(fa.Laplace(2.0), 2.0).lower * (1.0 - 1e-12)


def test_after_some_seconds_parts_are_told_apart_without_grids(monkeypatch):
    """Twenty-two seconds, of four alternatives."""
    step, parts = fa.PureDP(0.1) * 2, (fa.Skellam(30.0) * 2, fa.PureDP(0.1) * 3)
    whole, alone = fa.Parallel(*parts) * 2 + step, [step + a + b for a in parts for b in parts]
    most = {delta: max(fa.epsilon_lower(one, delta=delta) for one in alone) for delta in (1e-3, 1e-9)}
    monkeypatch.setattr(job_reader, "counted", lambda: nullcontext({"before": 1e11}))
    monkeypatch.setattr(reader.Grid, "_composed", None)
    for delta, least in most.items():
        lower, upper, _ = fa.epsilon_bounds(whole, delta=delta)
        assert 0.0 <= lower <= least * (1.0 + 1e-9)
        assert least <= upper < 3.0 * least


def test_what_a_rough_grid_said_of_a_part_holds_after_some_seconds(monkeypatch):
    """It was replaced by what is known without grids: 2.24 for 2.15."""
    whole = fa.Parallel(fa.Skellam(30.0) * 2, fa.PureDP(0.1) * 3) * 2 + fa.PureDP(0.1) * 2
    asked = []

    class Work(dict):
        def values(self):
            asked.append(1)
            return [0.0] if len(asked) == 1 else [1e11]

    monkeypatch.setattr(job_reader, "counted", lambda: nullcontext(Work()))
    assert 2.146 < fa.epsilon(whole, delta=1e-9) < 2.147


def test_lines_far_out_are_not_drawn_for_parts_after_some_seconds(monkeypatch):
    """Twelve parts took 30 s at a delta of 1e-174: each line that gives up there takes some seconds."""
    parts = (fa.Laplace(3.0) * 3, fa.Gaussian(5.0).poisson(0.01) * 4)
    lines, read = [], Contour.read_cell
    monkeypatch.setattr(Contour, "read_cell", lambda *given, **named: lines.append(1) or read(*given, **named))
    for delta, most in ((1e-174, 0), (1e-50, 11)):  # of Gaussians alone one call reads all
        exactly = fa.epsilon(fa.Parallel(*parts) * 11, delta=delta)
        with monkeypatch.context() as patched:
            patched.setattr(job_reader, "counted", lambda: nullcontext({"before": 1e11}))
            lines.clear()
            upper = fa.epsilon(fa.Parallel(*parts) * 11, delta=delta)
            assert exactly * (1.0 - 1e-9) <= upper < 3.0 * exactly
            assert len(lines) == most


def test_what_is_kept_of_parts_serves_the_next_question(monkeypatch):
    """Divergences were computed again for each of the 513 deltas of a variance."""
    asked, divergence = [], renyi.cell_divergence
    monkeypatch.setattr(renyi, "cell_divergence", lambda *given: asked.append(given[1].size) or divergence(*given))
    for parts in (fa.Parallel(fa.PureDP(0.1), fa.ZCDP(0.2)) * 3, fa.Parallel(fa.PureDP(0.1), fa.ZCDP(0.2)) * 100):
        one = fa.delta(parts, epsilon=2.0)
        asked.clear()
        assert fa.delta(parts, epsilon=2.0) == one
        assert not asked
