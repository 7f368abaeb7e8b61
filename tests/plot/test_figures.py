"""Pictures: what is drawn, what is refused, and that files are whole."""

from __future__ import annotations

import itertools
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa

pytest.importorskip("matplotlib")
pytest.importorskip("xarray")

from fastacct import plot
from fastacct.core.rounding import digits_up

ACCOUNTANT = fa.RDP(orders=(2.0, 4.0, 8.0, 16.0, 32.0, 64.0))


@pytest.fixture(scope="module")
def grid():
    return fa.sweep(
        noise_multiplier=np.geomspace(0.5, 8, 9),
        sample_rate=np.geomspace(1e-3, 0.1, 8),
        steps=[100, 1000, 10000],
        delta=[1e-7, 1e-5],
        accountant=ACCOUNTANT,
    ).compute()


def texts(figure):
    from matplotlib.text import Text

    return [text for text in figure.findobj(Text) if text.get_text()]


def test_panels_axes_and_title(grid):
    figure = plot.epsilon_grid(grid.sel(steps=[100, 10000], delta=1e-7))
    panels = figure.axes[:2]
    assert [panel.get_title() for panel in panels] == ["100 steps", "10,000 steps"]
    assert all(panel.get_xscale() == panel.get_yscale() == "log" for panel in panels)
    title = figure.get_suptitle().replace("\n", " ")
    for part in ("certified upper bound", "1e-07", "adding or removing one record", "RDP("):
        assert part in title


def test_defaults_are_three_panels_and_the_largest_delta(grid):
    figure = plot.epsilon_grid(grid)
    assert [panel.get_title() for panel in figure.axes[:3]] == ["100 steps", "1,000 steps", "10,000 steps"]
    assert "1e-05" in figure.get_suptitle()


def test_contours_lie_where_epsilon_crosses_the_level(grid):
    figure = plot.epsilon_grid(grid.sel(steps=1000), levels=[0.3, 1, 3, 10])
    from matplotlib.contour import QuadContourSet

    lines = [item for item in figure.findobj(QuadContourSet) if not item.filled]
    assert len(lines) == 1
    epsilon = grid.epsilon.sel(steps=1000, delta=1e-5)
    checked = 0
    for level, path in zip(np.exp(lines[0].levels), lines[0].get_paths(), strict=True):
        for rate, noise in path.vertices:
            # A vertex lies on an edge of a cell: the level is between the values at that edge's ends.
            column = np.searchsorted(epsilon.sample_rate, rate * (1 - 1e-9))
            row = np.searchsorted(epsilon.noise_multiplier, noise * (1 - 1e-9))
            corner = epsilon.values[max(row - 1, 0) : row + 1, max(column - 1, 0) : column + 1]
            assert corner.min() <= level * (1 + 1e-9)
            assert corner.max() >= level * (1 - 1e-9)
            checked += 1
    assert checked > 20


def test_no_text_is_smaller_than_nine_points(grid):
    for steps in ([100, 1000, 10000], 100):
        figure = plot.epsilon_grid(grid.sel(steps=steps))
        assert min(text.get_fontsize() for text in texts(figure)) >= 9


def overlapping(figure):
    """Pairs of tick labels, of any panels, that run into each other; and what runs into the title."""
    figure.draw_without_rendering()
    labels = [
        tick.label1
        for axis in figure.axes
        for side in (axis.xaxis, axis.yaxis)
        for tick in side.get_major_ticks()
        if tick.label1.get_visible() and tick.label1.get_text()
    ]
    boxes = [(label.get_text(), label.get_window_extent()) for label in labels]
    title = [text for text in texts(figure) if text.get_text() == figure.get_suptitle()]
    boxes += [(text.get_text(), text.get_window_extent()) for text in title]
    return [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)]


@pytest.mark.parametrize("span", [1.05, 1.5, 3.0, 20.0, 90.0, 1e4, 1e8])
def test_labels_of_ticks_never_collide(span):
    for low in (0.003, 0.00017):
        grid = fa.sweep(
            noise_multiplier=np.geomspace(0.7, 0.7 * min(span, 100.0), 4),
            sample_rate=np.geomspace(low / span, low, 4) * 50,
            steps=[100, 1000, 10000],
            delta=[1e-5],
            accountant=ACCOUNTANT,
        ).compute()
        figure = plot.epsilon_grid(grid)
        assert overlapping(figure) == []
        for side in (figure.axes[0].xaxis, figure.axes[0].yaxis):
            low_end, high_end = sorted(side.get_view_interval())
            inside = [tick for tick in side.get_majorticklocs() if low_end * 0.999 <= tick <= high_end * 1.001]
            assert 2 <= len(inside) <= 7


def test_many_panels_wrap():
    grid = fa.sweep(
        noise_multiplier=[0.5, 1.0, 2.0], sample_rate=[0.01, 0.1], steps=list(range(1, 9)), delta=1e-5,
        accountant=ACCOUNTANT,
    ).compute()  # fmt: skip
    for count, columns in ((8, 4), (5, 3), (4, 4), (1, 1)):
        figure = plot.epsilon_grid(grid.sel(steps=slice(1, count)))
        panels = [axis for axis in figure.axes if axis.get_title()]
        assert len(panels) == count
        assert panels[0].get_gridspec().ncols == columns
        assert overlapping(figure) == []
        assert figure.get_figwidth() <= 12.0
        bottom = [p.xaxis.get_tick_params()["labelbottom"] for p in panels]
        assert bottom == [place + columns >= count for place in range(count)]


@pytest.mark.parametrize(("suffix", "magic"), [(".pdf", b"%PDF-"), (".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_the_suffix_is_the_format_and_the_file_repeatable(grid, tmp_path, suffix, magic):
    paths = [plot.save(plot.epsilon_grid(grid), tmp_path / f"{name}{suffix}") for name in "ab"]
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(magic)
    assert first == second


def test_zero_and_infinite_cells_are_drawn():
    grid = fa.sweep(
        noise_multiplier=[0.0, 0.5, 1.0, np.inf], sample_rate=[0.0, 0.01, 0.1], steps=[1], delta=[0.0, 1e-5],
        accountant=ACCOUNTANT,
    ).compute()  # fmt: skip
    for delta in (0.0, 1e-5):
        figure = plot.epsilon_grid(grid.sel(delta=delta))
        panel = figure.axes[0]
        assert f"delta = {delta:g} (" in figure.get_suptitle()
        assert panel.get_xlim() == (0.01, 0.1)  # what a logarithmic axis can show
        assert panel.get_ylim() == (0.5, 1.0)
        assert panel.collections


def test_nothing_is_left_in_pyplot(grid):
    plot.epsilon_grid(grid)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_the_png_is_wide_enough_and_repeatable(grid, tmp_path):
    first = plot.save(plot.epsilon_grid(grid), tmp_path / "a.png")
    second = plot.save(plot.epsilon_grid(grid), tmp_path / "b.png")
    assert first.read_bytes() == second.read_bytes()
    signature, width, height = first.read_bytes()[:8], *struct.unpack(">II", first.read_bytes()[16:24])
    assert signature == b"\x89PNG\r\n\x1a\n"
    assert (width, height) >= (1800, 600)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.png", "b.png"]


def test_a_failed_save_leaves_nothing_and_an_existing_file_is_kept(grid, tmp_path, monkeypatch):
    figure = plot.epsilon_grid(grid)
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="overwrite"):
        plot.save(figure, path)
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig",
        lambda self, name, **options: (Path(name).write_bytes(b"half"), 1 / 0),
    )
    with pytest.raises(ZeroDivisionError):
        plot.save(figure, path, overwrite=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": [1.0]}, "at least two"),
        ({"levels": [0.0, 1.0]}, "positive"),
    ],
)
def test_what_cannot_be_drawn_is_named(grid, options, message):
    with pytest.raises(ValueError, match=message):
        plot.epsilon_grid(grid, **options)


def test_a_single_noise_multiplier_is_drawn_as_lines():
    many = {"noise_multiplier": [0.5, 1.0, 2.0], "sample_rate": [0.01, 0.03, 0.1], "steps": [10, 100]}
    for single, over in (("noise_multiplier", "sample rate (Poisson)"), ("sample_rate", "noise multiplier")):
        grid = fa.sweep(**(many | {single: 0.5}), delta=1e-5, accountant=ACCOUNTANT).compute()
        axis = plot.epsilon_grid(grid).axes[0]
        assert axis.get_xlabel() == over
        assert len(axis.lines) == 2
        np.testing.assert_array_equal(axis.lines[1].get_ydata(), grid.epsilon.sel(steps=100, delta=1e-5).values.ravel())
    grid = fa.sweep(
        noise_multiplier=1.0, sample_rate=0.1, steps=[10, 20, 40], delta=1e-5, accountant=ACCOUNTANT
    ).compute()
    axis = plot.epsilon_grid(grid).axes[0]
    assert (axis.get_xlabel(), axis.lines[0].get_xdata().tolist()) == ("steps", [10.0, 20.0, 40.0])


def test_a_grid_of_deltas_a_single_cell_or_another_format_is_refused(grid, tmp_path):
    axes = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10, "accountant": ACCOUNTANT}
    with pytest.raises(ValueError, match="no variable 'epsilon'"):
        plot.epsilon_grid(fa.sweep(**axes, epsilon=1.0).compute())
    with pytest.raises(ValueError, match="a picture needs two positive finite values of noise_multiplier"):
        plot.epsilon_grid(fa.sweep(**axes, delta=1e-5).compute())
    with pytest.raises(ValueError, match=r"must end in \.png, \.pdf, \.svg"):
        plot.save(plot.epsilon_grid(grid), tmp_path / "a.gif")


def test_a_missing_matplotlib_names_the_extra(grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[plot\]"'):
        plot.epsilon_grid(grid)


def test_lines_of_equal_epsilon_over_batch_size_and_epochs():
    axes = {"records": 50_000, "batch_size": [1024, 64, 256], "epochs": [1, 10, 50], "delta": "1/n"}
    grid = fa.sweep(**axes, noise_multiplier=[0.8, 1.0]).compute()
    figure = plot.epsilon_plane(grid.sel(noise_multiplier=1.0))
    axis = figure.axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("epochs", "batch size")
    assert (axis.get_xlim(), axis.get_ylim()) == ((1.0, 50.0), (64.0, 1024.0))
    assert "noise multiplier 1" in figure.get_suptitle()
    levels = [level for one in axis.collections for level in np.ravel(getattr(one, "levels", []))]
    assert any(abs(np.exp(level) - 3.0) < 1e-9 for level in levels)  # lines are drawn in log(epsilon)
    assert overlapping(figure) == []
    with pytest.raises(ValueError, match="noise_multiplier has 2 values: choose one"):
        plot.epsilon_plane(grid)
    with pytest.raises(ValueError, match="steps must be an axis of two and more positive finite values"):
        plot.epsilon_plane(grid, "steps")


def test_pictures_of_runs_show_what_the_functions_compute():
    sizes = {"records": 50_000, "delta": 1e-5}
    figure = plot.epsilon_over_epochs([0.8, 1.5], **sizes, batch_size=512, epochs=[1, 10, 100])
    (axis,) = figure.axes
    exact, renyi = (line.get_ydata() for line in axis.lines[:2])
    run = {"noise_multiplier": 0.8, "batch_size": 512, "epochs": np.array([1.0, 10.0, 100.0])}
    np.testing.assert_array_equal(exact, fa.dpsgd.epsilon(**run, **sizes))
    assert np.all(renyi >= exact)
    step = fa.Gaussian(1.0).poisson(0.01) * 1000
    (axis,) = plot.tradeoff({"run": step}, marked=[0.01]).axes
    fpr, tpr = axis.lines[0].get_data()
    np.testing.assert_array_equal(tpr, fa.tpr_at_fpr(step, fpr))
    at, alone = axis.lines[1].get_data()
    assert np.all(alone >= fa.tpr_at_fpr(step, at) * (1 - 1e-9))
    epsilon = fa.epsilon(step, delta=1e-5)
    corner = (1.0 - 1e-5) / (1.0 + np.exp(epsilon))
    assert {*fpr} < {*at}
    assert min(abs(at - corner)) < 1e-15  # where its two straight pieces meet
    assert any(text.get_text().endswith("% at 1 %") for text in texts(axis.get_figure()))


def test_a_map_of_noise_is_drawn_into_an_axis_of_somebody_elses():
    from matplotlib.figure import Figure

    figure = Figure()
    axis = figure.subplots()
    sizes = {"records": 50_000, "batch_size": [64, 512, 4096], "epochs": [1, 10, 100]}
    assert plot.noise_map(epsilon=3.0, delta=1e-5, **sizes, axis=axis) is figure
    found = fa.dpsgd.noise_multiplier(
        epsilon=3.0, delta=1e-5, records=50_000, batch_size=np.array([[64], [512], [4096]]), epochs=[1, 10, 100]
    )
    numbers = {text.get_text() for text in axis.texts}
    assert numbers == {digits_up(one, 3) for one in found.ravel()}


def boxes_of(figure, several):
    figure.draw_without_rendering()
    return [(text.get_text(), text.get_window_extent()) for text in several]


def assert_readable(figure, axis, several):
    """No text is on another one, nor cut by the figure's edge."""
    boxes = boxes_of(figure, several)
    assert [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)] == []
    for name, box in boxes:
        assert figure.bbox.x0 <= box.x0, name
        assert box.x1 <= figure.bbox.x1, name
        assert box.y1 <= axis.get_window_extent().y1 + 1e-6, name


@pytest.mark.parametrize("noises", [(1.04, 1.03, 1.02), (0.1, 0.05), (1.0, 1.0, 1.0, 1.0), (0.6, 1.0, 3.0)])
def test_marks_of_near_curves_do_not_overprint(noises):
    jobs = [fa.Gaussian(noise).poisson(0.01) * 3000 for noise in noises]
    figure = plot.tradeoff({f"{i}": job for i, job in enumerate(jobs)}, marked=[0.001, 0.002, 0.01])
    axis = figure.axes[0]
    assert len(axis.texts) == 3 * len(noises)
    assert_readable(figure, axis, axis.texts)
    for text in axis.texts:  # each is the bound, rounded up, of its own curve
        tpr = text.xy[1]
        assert 100.0 * tpr <= float(text.get_text().split(" ")[0]) <= 100.0 * tpr * 1.01


def test_names_of_near_lines_do_not_overprint():
    figure = plot.epsilon_over_epochs(
        [0.8, 0.81, 0.82, 0.83], records=50_000, batch_size=512, epochs=[1, 10], delta=1e-6
    )
    boxes = boxes_of(figure, figure.axes[0].texts)
    assert len(boxes) == 4
    assert [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if one.overlaps(two)] == []


def test_pictures_of_runs_take_samplers():
    shuffled = {"sampling": "shuffled", "neighbors": "zero_out"}
    sizes = {"records": 1000, "batch_size": 250, "epochs": [1, 2, 4], "delta": 1e-5}
    (axis,) = plot.epsilon_over_epochs([2.0], **sizes, **shuffled).axes
    (line,) = axis.lines
    exact = fa.dpsgd.epsilon(noise_multiplier=2.0, **(sizes | {"epochs": np.array([1, 2, 4])}), **shuffled)
    np.testing.assert_array_equal(line.get_ydata(), exact)
    (axis,) = plot.noise_map(epsilon=9.0, **(sizes | {"batch_size": [250]}), **shuffled).axes
    want = fa.dpsgd.noise_multiplier(epsilon=9.0, **(sizes | {"epochs": np.array([1, 2, 4])}), **shuffled)
    assert [text.get_text() for text in axis.texts] == [digits_up(one, 3) for one in want]
    with pytest.raises(TypeError, match="did you mean 'sampling'"):
        plot.noise_map(epsilon=9.0, **sizes, samplings="shuffled")


def test_a_plan_of_few_cells_is_a_table_of_numbers_with_its_front_framed():
    pytest.importorskip("pandas")
    table = fa.plan(records=50_000, epsilon=3.0, delta=1e-6, batch_size=[256, 1024, 4096], epochs=[10, 30])
    for column in ("noise_on_mean", "noise_per_epsilon", "steps"):
        (axis,) = plot.plan(table, column).axes
        assert_readable(axis.get_figure(), axis, axis.texts)
        shown = {(round(text.get_position()[1]), round(text.get_position()[0])): text.get_text() for text in axis.texts}
        cells = table.pivot(index="batch_size", columns="epochs", values=column).to_numpy()
        assert shown == {place: digits_up(float(value), 3) for place, value in np.ndenumerate(cells)}
        frames = [one for one in axis.patches if one.get_facecolor()[3] == 0.0]
        assert len(frames) == int(table["on_front"].sum()) == 2
    assert [label.get_text() for label in axis.get_yticklabels()] == ["256", "1,024", "4,096"]
    hopeless = fa.plan(records=100, epsilon=0.1, delta=0.0, batch_size=[10], epochs=[1, 2])
    assert {text.get_text() for text in plot.plan(hopeless).axes[0].texts} == {"none"}
    with pytest.raises(ValueError, match="did you mean 'noise_on_mean'"):
        plot.plan(table, "noise_on_means")


def test_labels_of_a_map_are_not_cut():
    pytest.importorskip("pandas")
    sizes, epochs = [32, 64, 128, 256, 1024, 4096, 8192], [1, 3, 10, 20, 50, 100]
    (axis,) = plot.plan(fa.plan(records=50_000, epsilon=3.0, delta=1e-6, batch_size=sizes, epochs=epochs)).axes
    assert axis.texts
    assert_readable(axis.get_figure(), axis, axis.texts)
    inside = axis.get_window_extent()
    assert all(
        inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0
        for _, box in boxes_of(axis.figure, axis.texts)
    )
