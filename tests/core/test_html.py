"""What a notebook shows of the public objects: a picture or a small table, and never an address."""

import re

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.html import table

STEP = fa.Gaussian(1.0).poisson(0.01)
RUN = fa.curve.Run(1.0, 0.01, 100)


def accountant():
    made = fa.Accountant(epsilon=3.0, delta=1e-5)
    made.compose(STEP, 100)
    return made


SHOWN = {
    "job": lambda: STEP * 100 + fa.Laplace(2.0),
    "array of jobs": lambda: fa.Gaussian(np.linspace(1.0, 2.0, 50)) * 3,
    "bounds": lambda: fa.epsilon_bounds(STEP * 100, delta=1e-5),
    "bounds of an array": lambda: fa.epsilon_bounds(STEP * 100, delta=np.geomspace(1e-9, 1e-3, 40)),
    "accountant": accountant,
    "explanation": lambda: fa.explain(fa.Laplace(2.0) * 5, delta=1e-6),
    "privacy loss": lambda: fa.privacy_loss(fa.Laplace(2.0)),
    "error": lambda: fa.utility(fa.Laplace(2.0)),
    "sweep": lambda: fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=100, delta=1e-5),
    "curve": lambda: fa.curve.privacy_curve(RUN, points=21),
    "trade-off": lambda: fa.curve.tradeoff_curve(RUN),
}


@pytest.mark.parametrize("name", SHOWN)
def test_public_objects_have_a_small_table_and_a_repr_without_an_address(name):
    one = SHOWN[name]()
    found = one._repr_html_()
    assert found.startswith("<table>")
    assert found.count("<tr>") <= 14
    for text in (repr(one), str(one), found):
        assert not re.search(r"0x[0-9a-f]{6}|<function|<lambda>|object at", text)


def test_what_is_shown_is_escaped():
    assert table("<b>", [("<i>",)]).count("&lt;") == 2


def test_statuses_are_shown_by_name():
    assert str(fa.Status.TIGHT) == f"{fa.Status.TIGHT}" == "TIGHT"
    assert f"{fa.Status.LOOSE:d}" == "1"
    assert str(fa.divergence(fa.Laplace(1.0), 2.0).status) in {"TIGHT", "LOOSE"}
    bounds = fa.epsilon_bounds(STEP * 100, delta=[1e-5, 1e-6, 0.0])
    assert "2 of 3 TIGHT, 1 of 3 NOT_MET" in str(bounds)
    assert "2 of 3 TIGHT, 1 of 3 NOT_MET" in bounds._repr_html_()


def test_completion_of_a_mechanism_shows_what_a_person_uses():
    words = "allocation decompose fixed_size group local noise_multiplier poisson relations shuffled tight"
    words += " with_replacement"
    assert [name for name in dir(fa.Gaussian(1.0)) if name[0] != "_"] == words.split()
    assert {"mechanism", "sample_rate"} < set(dir(STEP))

    class Mine(fa.Mechanism):
        mine: float

        def of_mine(self):
            return self.mine

    assert {"mine", "of_mine", "poisson"} < set(dir(Mine(1.0)))


def test_pictures_show_themselves():
    pytest.importorskip("matplotlib")
    figure = fa.plot.privacy_curves([fa.curve.privacy_curve(fa.curve.Run(1.0, 0.01, 100), points=21)])
    assert figure._repr_png_().startswith(b"\x89PNG")


PICTURES = {
    "epsilon_grid": "fa.plot.epsilon_grid(grid)",
    "epsilon_plane": "fa.plot.epsilon_plane(grid.isel(noise_multiplier=0), x='steps', y='sample_rate')",
    "epsilon_over_epochs": "fa.plot.epsilon_over_epochs([1.0], **sizes, batch_size=512, epochs=[1, 10])",
    "noise_map": "fa.plot.noise_map(epsilon=3.0, **sizes, batch_size=[64, 512], epochs=[1, 10])",
    "plan": "fa.plot.plan(fa.plan(**sizes, epsilon=3.0, batch_size=[64, 512], epochs=[1, 10]))",
    "samplers": "fa.plot.samplers(noise_multiplier=1.0, records=5000, batch_size=500, epochs=2, delta=1e-5)",
    "budget": "fa.plot.budget({'one': step * 100, 'two': fa.Gaussian(0.5)}, epsilon=1.0, delta=1e-5)",
    "hockey_stick": "fa.plot.hockey_stick('laplace')",
    "batches": "fa.plot.batches()",
    "noise_for_releases": "fa.plot.noise_for_releases({'L': fa.Laplace}, releases=[1, 9], epsilon=1.0, delta=1e-6)",
    "tradeoff": "fa.plot.tradeoff({'run': step * 100})",
    "privacy_curves": "fa.plot.privacy_curves([fa.curve.privacy_curve(run, points=9)])",
    "accuracy": "fa.plot.accuracy({'Laplace': fa.curve.accuracy_curve(fa.Laplace, [1.0, 2.0], delta=1e-6)})",
    "prefix_error": "fa.plot.prefix_error({'tree': fa.utility(tree, step=[1, 2, 3])}, [1, 2, 3])",
    "privacy_loss": "fa.plot.privacy_loss({'coin': fa.privacy_loss(fa.from_pmf([0.6, 0.4], [0.4, 0.6]) * 5)})",
    "network_gain": "fa.plot.network_gain({'gradients': gains})",
}
SET_UP = """
import fastacct as fa
step, run = fa.Gaussian(1.0).poisson(0.01), fa.curve.Run(1.0, 0.01, 100)
sizes = {"records": 50_000, "delta": 1e-5}
axes = {"noise_multiplier": [1.0, 2.0], "sample_rate": [0.01, 0.1], "steps": [100, 1000]}
grid = fa.sweep(**axes, delta=1e-5, accountant=fa.RDP()).compute()
tree = fa.TreeAggregation(8.0, 16)
gains = {n: fa.network_gain(fa.GradientWalk(4.0, 10, n), delta=1e-6) for n in (10, 100)}
"""


def test_every_picture_appears_in_a_notebook_that_is_run():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    public = {name for name in fa.plot.__all__ if name not in ("save", "as_picture")}
    assert public == PICTURES.keys()
    cells = [nbformat.v4.new_code_cell(code) for code in (SET_UP, *PICTURES.values(), "step * 100", "fa.Status.TIGHT")]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    for name, cell in zip(PICTURES, book.cells[1:], strict=False):
        assert any("image/png" in output.get("data", {}) for output in cell.outputs), name
    assert "text/html" in book.cells[-2].outputs[0]["data"]
    assert "0x" not in str([cell.outputs[0]["data"].get("text/plain") for cell in book.cells[-2:]])
