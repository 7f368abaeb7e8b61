"""Privacy and trade-off curves: values, order of the bounds, files, and what is refused."""

from __future__ import annotations

import csv
import inspect
import json
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.rounding import digits_up
from fastacct.curve import PrivacyCurve, Run, privacy_curve, tradeoff_curve, write_csv
from tests import command

RUN = Run(1.0, 0.01, 1000)


def test_the_curve_is_delta_at_every_epsilon():
    epsilon = np.array([0.0, 0.5, 1.5, 3.0])
    both = [np.exp(privacy_curve(RUN, way, epsilon=epsilon).log_delta_upper) for way in ("add", "remove")]
    want = fa.dpsgd.delta(**RUN._asdict(), epsilon=epsilon)
    np.testing.assert_allclose(np.max(both, axis=0), want, rtol=2e-10, atol=0.0)  # widths of the intervals


def test_bounds_are_in_order_and_fall_with_epsilon():
    for direction in ("remove", "add"):
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
        (RUN, {"neighbors": "both"}, "neighbors"),
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
    assert rows[-1]["neighbors"] == "add"
    for row in rows:
        assert float(row["delta_lower"]) <= float(row["delta_upper"])
    with pytest.raises(FileExistsError, match="overwrite"):
        write_csv(curves, path)
    write_csv([tradeoff_curve(RUN, fpr=[0.1, 0.2])], path, overwrite=True)
    assert [row["fpr"] for row in csv.DictReader(path.read_text().splitlines())] == ["0.1", "0.2"]
    assert list(tmp_path.iterdir()) == [path]


PIPELINE = fa.Gaussian(1.0).poisson(0.01) * 300 + fa.Laplace(8.0) * 2 + fa.Exponential(0.1)
SHUFFLED = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 250, "epochs": 2, "sampling": "shuffled"}


@pytest.mark.parametrize(
    ("job", "neighbors"),
    [
        (PIPELINE, "add_remove"),
        (PIPELINE, "add"),
        (fa.Laplace(1.0), "replace_one"),
        (fa.Gaussian(2.0).fixed_size(10, 100) * 9, "add_remove"),
        (fa.Gaussian(2.0).shuffled(4) * 2, "zero_out"),
        (fa.ApproxDP(1.0, 1e-5) * 2, "add_remove"),
    ],
    ids=["pipeline", "pipeline, add", "Laplace", "fixed size", "shuffled", "guarantee"],
)
def test_a_curve_of_any_job_is_its_delta_at_every_epsilon(job, neighbors):
    curve = privacy_curve(job, neighbors, points=9)
    alone = [fa.delta_bounds(job, epsilon=float(x), neighbors=neighbors) for x in curve.epsilon]
    for row, bounds in zip(curve.points(), alone, strict=True):
        assert row["delta_lower"] <= bounds.upper
        assert row["delta_upper"] >= bounds.lower
        assert row["delta_upper"] == pytest.approx(bounds.upper, rel=1e-6, abs=1e-300)
    assert (curve.job, curve.neighbors) == (job, neighbors)
    assert np.all(curve.log_delta_lower <= curve.log_delta_upper)


def test_both_directions_are_the_default_and_the_larger_one():
    epsilon = [0.0, 0.5, 1.0]
    both, *each = (privacy_curve(PIPELINE, *way, epsilon=epsilon) for way in ((), ("remove",), ("add",)))
    np.testing.assert_array_equal(both.log_delta_upper, np.max([one.log_delta_upper for one in each], axis=0))


def test_a_run_by_keywords_is_its_job():
    fixed = {"noise_multiplier": 2.0, "records": 100, "batch_size": 10, "steps": 9, "sampling": "fixed_size"}
    job = fa.Gaussian(2.0).fixed_size(10, 100) * 9
    for make in (privacy_curve, tradeoff_curve):
        at = {"epsilon" if make is privacy_curve else "fpr": [0.1, 0.5]}
        assert make(**fixed, **at) == make(job, **at)
    shuffled = tradeoff_curve(neighbors="zero_out", **SHUFFLED, fpr=[0.1])
    assert shuffled == tradeoff_curve(fa.Gaussian(2.0).shuffled(4) * 2, "zero_out", fpr=[0.1])


def test_a_curve_whose_delta_falls_no_further_ends_beyond_its_last_step():
    curve = privacy_curve(fa.ApproxDP(1.0, 1e-5), points=30)
    assert curve.epsilon[-1] > 1.0
    assert curve.log_delta_upper[-1] == pytest.approx(math.log(1e-5), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy_curve(), "give a job .* or the keywords"),
        (lambda: privacy_curve(PIPELINE, noise_multiplier=1.0), "either a job or noise_multiplier"),
        (lambda: privacy_curve(PIPELINE, sampling="poisson"), "either a job or sampling"),
        (lambda: privacy_curve(PIPELINE, step=3), "unexpected keyword argument 'step'.*did you mean 'steps'"),
        (lambda: privacy_curve(fa.Gaussian([1.0, 2.0])), "no arrays of shape"),
        (lambda: tradeoff_curve(**RUN._asdict(), accountant=fa.RDP()), "a curve is exact: give no accountant"),
        (lambda: tradeoff_curve(3), "job must be a mechanism"),
    ],
)
def test_what_is_no_job_is_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_the_former_word_direction_warns():
    with pytest.warns(DeprecationWarning, match="direction is now called neighbors"):
        assert privacy_curve(RUN, direction="add", points=3) == privacy_curve(RUN, "add", points=3)


def test_tables_of_jobs_name_them(tmp_path):
    path = write_csv([privacy_curve(PIPELINE, points=3), privacy_curve(RUN, points=3)], tmp_path / "a.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["job"] for row in rows[::3]] == [
        "Gaussian(1.0).poisson(0.01) * 300 + Laplace(8.0) * 2 + Exponential(0.1)",
        "sigma 1, q 0.01, 1,000 steps",
    ]


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
    with pytest.raises(ValueError, match="jobs is empty"):
        plot.privacy_curves([])


def test_a_legend_names_every_run_once_and_stands_beside_the_curves():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    runs = [Run(sigma, 0.01, 100) for sigma in range(1, 11)]
    figure = plot.privacy_curves([privacy_curve(run, way, points=9) for run in runs for way in ("remove", "add")])
    figure.draw_without_rendering()
    axis, legend = figure.axes[0], figure.legends[0]
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*map(str, runs), "removing one record", "adding one record"]
    assert legend.get_window_extent().x0 >= axis.get_window_extent().x1
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    few = plot.tradeoff({str(run): run.job for run in runs[:2]}, delta=1e-6).axes[0]
    most = [digits_up(fa.epsilon(run.job, 1e-6), 3) for run in runs[:2]]
    told = [rf"{run} ($\varepsilon \leq$ {one})" for run, one in zip(runs[:2], most, strict=True)]
    assert [text.get_text() for text in few.get_legend().get_texts()] == [*told, "guessing"]
    assert r"$\delta = 10^{-6}$" in few.get_title()
    assert "thin: by" in few.get_title()
    assert "alone set no limit here" in plot.tradeoff(fa.Gaussian(0.3), delta=1e-6).axes[0].get_title()
    none = plot.tradeoff({"zero noise": fa.Gaussian(0.0), "runs": runs[0].job}).axes[0].get_legend().get_texts()
    assert none[0].get_text() == r"zero noise (no finite $\varepsilon$)"


def test_unknown_bounds_are_shaded_and_not_drawn_as_lines():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    unknown = PrivacyCurve(RUN, "add", np.array([0.0, 1.0]), np.array([-1.0, -np.inf]), np.array([-1.0, -5.0]))
    axis = plot.privacy_curves([unknown]).axes[0]
    assert np.isfinite(axis.lines[0].get_ydata()).all()


def test_no_line_runs_along_the_lower_edge():
    """Curves that have come down end there; one that falls no further is drawn on."""
    pytest.importorskip("matplotlib")
    from fastacct import plot

    step = fa.Gaussian(1.0).poisson(0.01) * 100
    axis = plot.privacy_curves({"few": step, "many": step * 9, "level": fa.ApproxDP(0.5, 1e-4)}, points=21).axes[0]
    drawn = [np.array([line.get_xdata(), line.get_ydata()], float) for line in axis.lines if len(line.get_xdata())]
    last, floor = axis.get_xlim()[1], axis.get_ylim()[0]
    assert [x.max() == last for x, _ in drawn] == [False, False, True, False, True, True]
    assert all((y <= 0.98 * floor).sum() <= 3 for _, y in drawn), "points at the lower edge"


def test_pictures_take_a_job_a_list_or_a_dict():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    name = "Gaussian(1.0).poisson(0.01) * 300 + Laplace(8.0) * 2 + Exponential(0.1)"
    for jobs, names in (
        (PIPELINE, [name]),
        (RUN, [str(RUN)]),
        ([PIPELINE, RUN], [name, str(RUN)]),
        ({"a": PIPELINE, "b": fa.Gaussian(1.0)}, ["a", "b"]),
    ):
        figure = plot.privacy_curves(jobs, points=5)
        legend = [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]
        one_of = next((f" of {name}" for name in names[:1] if len(names) > 1), "")
        shaded = [f"down to the lower bound{one_of}"] * (jobs is not RUN)
        told = [name + ", both ways" * (name == "b") for name in names]  # one line of two
        assert legend == [*told, "removing one record", "adding one record", *shaded]
        assert len([line for line in figure.axes[0].lines if len(line.get_xdata())]) == 2 * len(names)
        few = plot.tradeoff(jobs, thin=False).axes[0].get_legend()
        assert [text.get_text().replace("\n", " ") for text in few.get_texts()] == [*names, "guessing"]
    one = plot.privacy_curves(fa.Gaussian(2.0).shuffled(4), neighbors="zero_out", points=5)
    (line,) = [line for line in one.axes[0].lines if len(line.get_xdata())]
    drawn = privacy_curve(fa.Gaussian(2.0).shuffled(4), "zero_out", points=5)
    assert one.axes[0].get_title() == "Certified privacy curves, zeroing out one record"
    np.testing.assert_array_equal(line.get_ydata(), np.clip(drawn.log_delta_upper / math.log(10.0), -24, 0))


KEYWORDS = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def test_pictures_of_jobs_take_runs_by_their_keywords():
    pytest.importorskip("matplotlib")
    from fastacct import plot

    job = fa.dpsgd.job(**KEYWORDS)
    pictures = (
        (plot.privacy_curves, {"points": 5}),
        (plot.tradeoff, {}),
        (plot.privacy_loss, {"smallest": 1e-3}),
        (plot.budget, {"epsilon": 3.0, "delta": 1e-5}),
    )
    for draw, options in pictures:

        def drawn(*jobs, **more):
            axis = draw(*jobs, **options, **more).axes[0]  # noqa: B023
            return [[*line.get_ydata()] for line in axis.lines if len(line.get_ydata())], [
                (bar.get_height(), bar.get_width()) for bar in axis.patches
            ]

        assert drawn(job) == drawn(**KEYWORDS) == drawn(KEYWORDS) == drawn([KEYWORDS]) == drawn({"mine": KEYWORDS})
        assert drawn({"a": job, "steps": job}) == drawn({"a": KEYWORDS, "steps": job})
        with pytest.raises(TypeError, match=r"either (jobs|losses|releases) or the keywords of a run"):
            draw(job, **options, **KEYWORDS)
        with pytest.raises(TypeError, match="or the keywords of a run"):
            draw(**options)
        with pytest.raises(TypeError, match="did you mean 'noise_multiplier'"):
            draw(**options, noise_multplier=1.0)
        assert "noise_multiplier" in inspect.signature(draw).parameters, "for completion"
    with pytest.raises(TypeError, match="epsilon is missing"):
        plot.budget(job, delta=1e-5)
    replaced = plot.budget(job, epsilon=30.0, delta=1e-5, neighbors="replace_one").axes[0]
    assert replaced.patches[0].get_height() == fa.epsilon(job, delta=1e-5, neighbors="replace_one")
    assert replaced.get_title() == "replacing one record"
    with pytest.raises(ValueError, match="empty"):
        plot.tradeoff({})


def call(words, *more):
    return command.call(f"curve {words}", *more)


def test_command_draws_several_runs(tmp_path):
    pytest.importorskip("matplotlib")
    files = "--csv", tmp_path / "c.csv", "--picture", tmp_path / "c.png"
    words = "--noise-multiplier 1,2 --sample-rate 0.01 --steps 100,1e3 --points 5"
    result = call(words, *files, "--json")
    assert result.exit_code == 0, result
    document = json.loads(result.stdout)
    assert [(c["noise_multiplier"], c["steps"], c["points"][0]["neighbors"]) for c in document["curves"]] == [
        (1.0, 100, "remove"), (1.0, 100, "add"), (2.0, 1000, "remove"), (2.0, 1000, "add"),
    ]  # fmt: skip
    assert sorted(item.name for item in tmp_path.iterdir()) == ["c.csv", "c.png"]
    assert call(words, *files).exit_code == 2
    assert call(words, *files, "--overwrite").exit_code == 0


def test_command_takes_jobs_and_samplers(tmp_path):
    pytest.importorskip("matplotlib")
    job = tmp_path / "job.toml"
    job.write_text('[[release]]\nmechanism = "Laplace"\nnoise_multiplier = 2.0\ncount = 3\n')
    result = call("--points 3 --json --neighbors replace_one --job", job, "--picture", tmp_path / "c.png")
    document = json.loads(result.stdout)
    (curve,) = document["curves"]
    assert curve["job"] == repr(fa.Laplace(2.0) * 3)
    assert curve["points"][1]["delta_upper"] >= fa.delta_lower(
        fa.Laplace(2.0) * 3, epsilon=curve["points"][1]["epsilon"], neighbors="replace_one"
    )
    assert document["sampler"] is None
    run = "--noise-multiplier 2 --records 1000 --batch-size 250 --epochs 2 --sampling shuffled --neighbors zero_out"
    document = json.loads(call(f"{run} --points 3 --json").stdout)
    assert document["sampler"] == "shuffled"
    assert document["curves"][0]["job"] == repr(fa.Gaussian(2.0).shuffled(4) * 2)


def test_command_takes_batches_epochs_and_trade_offs():
    result = call("--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 1.5 --kind tradeoff --json")
    curve = json.loads(result.stdout)["curves"][0]
    assert curve["steps"] == 352
    assert {"fpr", "fnr_lower", "tpr_upper"} <= curve["points"][0].keys()
    assert (
        "error rates of the best attack"
        in call("--noise-multiplier 1 --sample-rate 0.1 --steps 9 --kind tradeoff").stdout
    )


def test_a_curve_is_printed_in_one_line():
    curve = fa.curve.privacy_curve(fa.Gaussian(1.0) * 3, points=5)
    assert repr(curve) == (
        "PrivacyCurve of Gaussian(1.0) * 3, add_remove: 5 points of epsilon, log_delta_lower, log_delta_upper"
    )
    assert "fpr, fnr_lower, fnr_upper, tpr_lower, tpr_upper" in repr(fa.curve.tradeoff_curve(fa.Laplace(1.0)))


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
