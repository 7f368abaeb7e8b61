"""Shades and ends of privacy curves, bars of budgets, and names in legends that are code."""

import numpy as np
import pytest

import fastacct as fa
from fastacct import plot
from fastacct.curve import Run

pytest.importorskip("matplotlib")

RUN = Run(1.0, 0.01, 1000)
PIPELINE = fa.Gaussian(1.0).poisson(0.01) * 300 + fa.Laplace(8.0) * 2 + fa.Exponential(0.1)


def test_shades_of_several_jobs_are_told_apart():
    axis = plot.privacy_curves({"a": PIPELINE, "b": PIPELINE * 2, "c": RUN}, points=9).axes[0]
    shades = [shade for shade in axis.collections if shade.get_hatch()]
    assert len({(shade.get_hatch(), str(shade.get_facecolor())) for shade in shades}) == 2
    assert [shade.get_label().replace("\n", " ") for shade in shades if not shade.get_label().startswith("_")] == [
        "down to the lower bound of a",
        "down to the lower bound of b",
    ]
    alone = plot.privacy_curves(PIPELINE, points=9).axes[0]
    assert not any(shade.get_hatch() for shade in alone.collections)


def test_a_curve_that_falls_to_zero_does_not_end_the_axis_of_the_others():
    """Laplace noise has delta 0 from its pure epsilon on: the line falls there, and not before."""
    axis = plot.privacy_curves({"histogram": fa.Laplace(4.0), "all": RUN}, neighbors="remove", points=21).axes[0]
    assert axis.get_ylim()[0] < -11.0
    x, y = (np.asarray(one, float) for one in axis.lines[0].get_data())
    assert x[y < -4.0].min() >= 0.2499
    assert y[-1] < -11.0
    alone = plot.privacy_curves(fa.Laplace(4.0), points=21).axes[0]
    assert alone.get_ylim()[0] == -12.0


def test_a_bar_that_is_cut_says_so():
    axis = plot.budget({"counts": fa.Laplace(4.0), "training": fa.Gaussian(0.5)}, epsilon=1.0, delta=1e-6).axes[0]
    notes = [note.get_text() for note in axis.texts]
    assert axis.patches[1].get_y() + axis.patches[1].get_height() == 1.5
    assert [note.endswith(", bar cut") for note in notes if "refused" in note] == [True], notes
    fitting = plot.budget({"counts": fa.Laplace(4.0), "more": fa.Laplace(1.0)}, epsilon=1.0, delta=0.0).axes[0]
    assert not any("cut" in note.get_text() for note in fitting.texts)


def test_long_names_break_where_terms_and_brackets_end():
    from fastacct.plot.figures import wrapped

    name = "Gaussian(5.0) + Laplace(3.0) * 2 + RepeatedSelection(Process({Gaussian(1.1).poisson(0.01): 200}), 10.0)"
    assert wrapped(name, 28).splitlines() == [
        "Gaussian(5.0) +",
        "Laplace(3.0) * 2 +",
        "RepeatedSelection(",
        "Process({",
        "Gaussian(1.1).poisson(0.01):",
        "200}), 10.0)",
    ]
