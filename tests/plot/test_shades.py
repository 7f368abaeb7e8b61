"""Shades of privacy curves, and names in legends that are code."""

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
