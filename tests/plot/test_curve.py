"""Privacy and trade-off curves: values, order of the bounds, files, and what is refused."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.curve import PrivacyCurve, Run, privacy_curve, tradeoff_curve, write_csv
from tests import command

RUN = Run(1.0, 0.01, 1000)


def test_the_curve_is_delta_at_every_epsilon():
    epsilon = np.array([0.0, 0.5, 1.5, 3.0])
    both = [np.exp(privacy_curve(RUN, way, epsilon=epsilon).log_delta_upper) for way in ("add", "remove")]
    want = fa.dpsgd.delta(**RUN._asdict(), epsilon=epsilon)
    np.testing.assert_allclose(np.max(both, axis=0), want, rtol=2e-10, atol=0.0)  # widths of the intervals


def test_bounds_are_in_order_and_fall_with_epsilon():
    for direction in ("add", "remove"):
        curve = privacy_curve(RUN, direction, smallest_delta=1e-40, points=60)
        assert curve.epsilon[0] == 0.0
        assert np.all(curve.log_delta_lower <= curve.log_delta_upper)
        for bound in (curve.log_delta_lower, curve.log_delta_upper):
            assert np.all(bound[1:] <= bound[:-1])
    assert curve.log_delta_upper[-1] == pytest.approx(math.log(1e-40), rel=1e-9, abs=0.0)  # where epsilon is found


def test_epsilons_are_sorted():
    curve = privacy_curve(RUN, epsilon=[2.0, 0.0, 1.0])
    assert curve.epsilon.tolist() == [0.0, 1.0, 2.0]


def test_deltas_below_the_smallest_double_keep_their_logarithm_and_side():
    curve = privacy_curve(Run(0.5, 1.0, 1), epsilon=[0.0, 100.0, 1000.0])
    rows = curve.points()
    assert rows[2]["delta_lower"] == 0.0
    assert 0.0 < rows[2]["delta_upper"] < 1e-300
    assert rows[2]["log10_delta_upper"] == pytest.approx(curve.log_delta_upper[2] / math.log(10.0), rel=1e-15, abs=0.0)
    assert rows[2]["log10_delta_upper"] < -1000.0


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        (Run(0.0, 0.01, 10), {}, "give the epsilons yourself"),
        (RUN, {"smallest_delta": 1e-301}, "smallest_delta"),
        (RUN, {"smallest_delta": 1.0}, "smallest_delta"),
        (RUN, {"points": 1}, "points = 1"),
        (RUN, {"direction": "both"}, "direction"),
        (RUN, {"epsilon": [-1.0]}, "epsilon"),
        (Run(1.0, 1.5, 10), {}, "sample_rate"),
    ],
)
def test_what_has_no_curve_is_named(run, options, message):
    with pytest.raises(ValueError, match=message):
        privacy_curve(run, **options)


def test_a_run_that_releases_nothing_has_a_curve():
    curve = privacy_curve(Run(1.0, 0.0, 10), points=5)
    assert np.all(curve.log_delta_upper == -np.inf)


def test_a_full_batch_has_the_trade_off_of_a_gaussian():
    scipy_stats = pytest.importorskip("scipy.stats")
    fpr = np.array([0.0, 1e-3, 0.1, 0.5, 1.0])
    curve = tradeoff_curve(Run(2.0, 1.0, 9), fpr=fpr)
    want = scipy_stats.norm.cdf(scipy_stats.norm.isf(fpr) - 3.0 / 2.0)
    # the search for the best epsilon ends at 1e-13; next to a rate of 0 or 1 a rounding of 1 remains
    np.testing.assert_allclose(curve.fnr_lower, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(curve.tpr_upper, 1.0 - want, rtol=1e-12, atol=1e-13)
    assert np.all(curve.fnr_lower <= curve.fnr_upper)


def test_no_attack_of_a_privacy_curve_beats_the_trade_off_curve():
    curve = tradeoff_curve(RUN)
    epsilon = np.array([0.1, 1.0, 2.0])
    delta = fa.dpsgd.delta_lower(**RUN._asdict(), epsilon=epsilon)
    # every point is on or above the lines of its epsilons
    lines = 1.0 - fa.dpsgd.delta(**RUN._asdict(), epsilon=epsilon) - np.exp(epsilon) * curve.fpr[:, None]
    assert np.all(curve.fnr_upper >= lines.max(axis=1) - 1e-12)
    # and some attack comes close to each line
    gaps = curve.fnr_lower[:, None] - (1.0 - delta - np.exp(epsilon) * curve.fpr[:, None])
    assert np.all(gaps.min(axis=0) < 1e-3)


def test_tables_have_every_point(tmp_path):
    curves = [privacy_curve(RUN, direction, points=7) for direction in ("remove", "add")]
    path = write_csv(curves, tmp_path / "a.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 14
    assert float(rows[3]["epsilon"]) == curves[0].epsilon[3]
    assert rows[-1]["direction"] == "add"
    for row in rows:
        assert float(row["delta_lower"]) <= float(row["delta_upper"])
    with pytest.raises(FileExistsError, match="overwrite"):
        write_csv(curves, path)
    write_csv([tradeoff_curve(RUN, fpr=[0.1, 0.2])], path, overwrite=True)
    assert [row["fpr"] for row in csv.DictReader(path.read_text().splitlines())] == ["0.1", "0.2"]
    assert list(tmp_path.iterdir()) == [path]


# -- pictures and command --------------------------------------------------------------------------------------------


def test_pictures_show_every_curve():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    curves = [privacy_curve(Run(sigma, 0.01, 100), way, points=9) for sigma in (1, 2) for way in ("add", "remove")]
    axis = plot.privacy_curves(curves).axes[0]
    drawn = [line for line in axis.lines if len(line.get_xdata())]
    assert len(drawn) == 4
    assert {line.get_linestyle() for line in drawn} == {"-", "--"}
    assert len({str(line.get_color()) for line in drawn}) == 2
    with pytest.raises(ValueError, match="curves is empty"):
        plot.privacy_curves([])


def test_a_legend_names_every_run_once_and_stands_beside_the_curves():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    runs = [Run(sigma, 0.01, 100) for sigma in range(1, 11)]
    figure = plot.privacy_curves([privacy_curve(run, way, points=9) for run in runs for way in ("remove", "add")])
    figure.draw_without_rendering()
    axis, legend = figure.axes[0], figure.legends[0]
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*map(str, runs), "remove a record", "add a record"]
    assert legend.get_window_extent().x0 >= axis.get_window_extent().x1
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    few = plot.tradeoff({str(run): run.job for run in runs[:2]}).axes[0].get_legend()
    assert [text.get_text() for text in few.get_texts()] == [*map(str, runs[:2]), "guessing"]


def test_unknown_bounds_are_shaded_and_not_drawn_as_lines():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    unknown = PrivacyCurve(RUN, "add", np.array([0.0, 1.0]), np.array([-1.0, -np.inf]), np.array([-1.0, -5.0]))
    axis = plot.privacy_curves([unknown]).axes[0]
    assert np.isfinite(axis.lines[0].get_ydata()).all()


def call(words, *more):
    return command.call(f"curve {words}", *more)


def test_command_draws_several_runs(tmp_path):
    pytest.importorskip("matplotlib")
    files = "--csv", tmp_path / "c.csv", "--picture", tmp_path / "c.png"
    words = "--noise-multiplier 1,2 --sample-rate 0.01 --steps 100,1e3 --points 5"
    result = call(words, *files, "--json")
    assert result.exit_code == 0, result
    document = json.loads(result.stdout)
    assert [(c["noise_multiplier"], c["steps"], c["points"][0]["direction"]) for c in document["curves"]] == [
        (1.0, 100, "remove"), (1.0, 100, "add"), (2.0, 1000, "remove"), (2.0, 1000, "add"),
    ]  # fmt: skip
    assert sorted(item.name for item in tmp_path.iterdir()) == ["c.csv", "c.png"]
    assert call(words, *files).exit_code == 2
    assert call(words, *files, "--overwrite").exit_code == 0


def test_command_takes_batches_epochs_and_trade_offs():
    result = call("--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 1.5 --kind tradeoff --json")
    curve = json.loads(result.stdout)["curves"][0]
    assert curve["steps"] == 352
    assert {"fpr", "fnr_lower", "tpr_upper"} <= curve["points"][0].keys()
    assert (
        "error rates of the best attack"
        in call("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --kind tradeoff").stdout
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--noise-multiplier 1,2 --sample-rate 0.1,0.2,0.3 --steps 9",
            "shapes do not broadcast: --noise-multiplier (2,), --sample-rate (3,)",
        ),
        ("--noise-multiplier x --sample-rate 0.1 --steps 9", "--noise-multiplier: 'x' is not a number"),
        ("--noise-multiplier 1 --sample-rate 0.1 --steps 9.5", "--steps: '9.5' is not a whole number"),
        ("--noise-multiplier 1 --sample-rate 0.1", "--steps or --epochs"),
        ("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --kind curve", "kind"),
        ("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --neighbors cousins", "neighbors"),
        ("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --csv a.txt", "must end in .csv"),
        ("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --csv nowhere/a.csv", "does not exist"),
    ],
)
def test_mistakes_are_one_line(words, message):
    result = call(words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
