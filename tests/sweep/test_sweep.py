"""Sweeps: labels, what a grid asks for, chunks, what it takes, decisions, and errors that name what is wrong."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from tests.sweeps import AXES, plan, run

xr = pytest.importorskip("xarray")
pytest.importorskip("zarr")

from fastacct.core.progress import Bar  # noqa: E402
from fastacct.sweep import cost  # noqa: E402
from fastacct.sweep.grid import chunk_at, chunk_shape  # noqa: E402

ACCOUNTANT = fa.Exact()


def test_every_cell_equals_a_direct_call_at_its_labels():
    grid = run()
    assert grid.epsilon.dims == ("noise_multiplier", "sample_rate", "steps", "delta")
    for noise in AXES["noise_multiplier"]:
        for rate in AXES["sample_rate"]:
            for steps in AXES["steps"]:
                for delta in AXES["delta"]:
                    at = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "delta": delta}
                    assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, accountant=ACCOUNTANT)
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**at, accountant=ACCOUNTANT)
    both = run(bounds=True).sel(at)
    assert (both.epsilon_lower.item(), both.epsilon.item()) == (lower, upper)


def test_what_is_computed_follows_from_the_axes():
    epsilon, delta = [1.0, 4.0], [1e-5, 1e-6]
    asked = {
        "delta": ({**AXES, "delta": None, "epsilon": epsilon}, {"epsilon": 4.0, "noise_multiplier": 0.7}),
        "rdp": ({**AXES, "delta": None, "orders": [2.0, 8.5]}, {"orders": 8.5, "noise_multiplier": 0.7}),
        "noise_multiplier": ({**AXES, "noise_multiplier": None, "epsilon": epsilon}, {"epsilon": 1.0, "delta": 1e-7}),
        "sample_rate": ({**AXES, "sample_rate": None, "epsilon": epsilon}, {"epsilon": 1.0, "delta": 1e-7}),
        "steps": ({**AXES, "steps": None, "epsilon": epsilon, "delta": delta}, {"epsilon": 4.0, "delta": 1e-6}),
    }
    for quantity, (axes, at) in asked.items():
        grid = fa.sweep(**axes).compute()
        assert list(grid.data_vars) == [quantity]
        cell = grid[quantity].sel(at).isel(dict.fromkeys(set(grid.dims) - at.keys(), -1))
        named = {str(name): cell[name].item() for name in grid.dims}
        assert cell.item() == getattr(fa.dpsgd, quantity)(**named)


def test_batches_epochs_and_a_delta_in_words():
    grid = fa.sweep(
        noise_multiplier=[1.0, 2.0], batch_size=[100, 250], records=[10_000, 60_000], epochs=[3, 10], delta="1/n^1.1"
    ).compute()
    assert grid.epsilon.dims == ("noise_multiplier", "batch_size", "records", "epochs")
    at = {"noise_multiplier": 2.0, "batch_size": 250, "records": 60_000, "epochs": 3}
    assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, delta="1/n^1.1")
    assert grid.delta.dims == ("records",)
    assert grid.delta.sel(records=60_000).item() == pytest.approx(60_000**-1.1, rel=1e-12)
    assert grid.attrs["delta"] == "1/n^1.1"


def test_scalars_are_axes_of_length_one():
    grid = fa.sweep(noise_multiplier=1, sample_rate=0.01, steps=100, delta=1e-5).compute()
    assert grid.epsilon.shape == (1, 1, 1, 1)
    assert grid.steps.dtype == np.int64


def test_attributes_say_what_is_guaranteed():
    grid = run(neighbors="add_remove", bounds=True)
    assert grid.attrs["neighbors"] == "add_remove"
    assert grid.attrs["sampler"] == "poisson"
    assert grid.attrs["accountant"] == repr(ACCOUNTANT)
    assert grid.attrs["fastacct_version"]
    assert grid.epsilon.attrs["units"] == "1"
    assert grid.epsilon.attrs["guarantee"] == "certified upper bound"
    assert grid.epsilon_lower.attrs["guarantee"] == "certified lower bound"
    assert list(grid.data_vars) == ["epsilon", "epsilon_lower", "status"]
    xr.testing.assert_identical(grid.epsilon, run().epsilon)
    at = {"noise_multiplier": 0.7, "sample_rate": 0.02, "steps": 1000, "delta": 1e-7}
    assert grid.epsilon_lower.sel(at).item() == fa.dpsgd.epsilon_lower(**at)
    assert (grid.status == 0).all()


def test_lower_bounds_are_refused_where_nothing_proves_them():
    with pytest.raises(ValueError, match="RDP proves no lower bound"):
        plan(bounds=True, accountant=fa.RDP())
    with pytest.raises(TypeError, match="bounds must be True or False; got 'yes'"):
        plan(bounds="yes")


@pytest.mark.parametrize(
    "accountant",
    [
        fa.AnalyticGaussian(),
        fa.BasicComposition(),
        fa.AdvancedComposition(),
        fa.ZCDPComposition(),
        fa.RDP(conversion="mironov"),
        fa.RDP(orders=(2.0, 3.0, 4.0, 8.0, 16.0, 32.0)),
    ],
)
def test_every_certified_accountant_can_be_swept(accountant):
    axes = {"noise_multiplier": [1.0, 4.0], "sample_rate": 1.0, "steps": [1, 9], "delta": 1e-5}
    grid = fa.sweep(**axes, accountant=accountant).compute()
    assert grid.attrs["accountant"] == repr(accountant)
    for steps in axes["steps"]:
        at = {"noise_multiplier": 4.0, "sample_rate": 1.0, "steps": steps, "delta": 1e-5}
        assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, accountant=accountant)


def test_an_approximation_is_not_swept_as_a_bound():
    with pytest.raises(ValueError, match="CLT"):
        plan(accountant=fa.CLT())


def test_replace_one_can_be_swept():
    grid = fa.sweep(
        noise_multiplier=2.0, sample_rate=0.01, steps=[10000, 100], delta=1e-6, neighbors="replace_one"
    ).compute()
    assert grid.attrs["neighbors"] == "replace_one"
    assert 4.90739819217 <= grid.epsilon[0, 0, 0, 0].item() <= 4.90739819217 * (1 + 1e-10)  # its digits


@pytest.mark.parametrize("cells", [1, 2, 5, 7, 48, 10**6])
def test_chunking_does_not_change_a_bit(monkeypatch, cells):
    whole = run()
    monkeypatch.setattr(cost, "chunks_of", lambda one: chunk_shape(one.shape, cells))
    xr.testing.assert_identical(run(), whole)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (2, 3, 5), (1, 1, 9, 2), (4, 1, 1, 1)])
@pytest.mark.parametrize("largest", [1, 2, 3, 7, 1000])
def test_chunks_cover_the_grid_once_in_c_order(shape, largest):
    numbers, chunks = np.arange(math.prod(shape)).reshape(shape), chunk_shape(shape, largest)
    count = math.prod(-(-whole // part) for whole, part in zip(shape, chunks, strict=True))
    pieces = [numbers[chunk_at(shape, chunks, index)] for index in range(count)]
    assert max(piece.size for piece in pieces) <= largest
    np.testing.assert_array_equal(np.concatenate([piece.ravel() for piece in pieces]), numbers.ravel())


def test_a_task_is_of_cheap_chunks_and_every_chunk_is_in_one():
    costs = np.random.default_rng(0).exponential(0.2, 200)
    groups = cost.tasks(costs, range(3, 200))
    assert sorted(index for group in groups for index in group) == list(range(3, 200))
    spent = [costs[group].sum() for group in groups]
    assert sum(one < cost.TASK_SECONDS for one in spent) <= 1
    assert all(costs[group[:-1]].sum() < cost.TASK_SECONDS for group in groups)
    last = spent[len(spent) * 3 // 4 :]
    assert last == sorted(last, reverse=True), "the last ones by falling cost"
    assert cost.tasks(costs, []) == []


def test_chunks_of_a_grid_have_nearly_equal_sizes():
    assert chunk_shape((250, 100, 40, 10), 31_250) == (1, 50, 40, 10)
    assert chunk_shape((7, 10), 45) == (4, 10)


# -- what a sweep takes ----------------------------------------------------------------------------------------------


def test_an_estimate_counts_cells_and_warns():
    found = plan(bounds=True).estimate()
    assert (found.cells, found.bytes, found.chunks) == (48, 48 * 17, 1)
    assert 0.0 < found.seconds < 10.0
    assert found.warning is None
    assert "48 cells" in str(found)
    axis = np.geomspace(0.5, 5.0, 2000)
    large = fa.sweep(noise_multiplier=axis, sample_rate=axis / 100, steps=np.arange(1, 2001), delta=[1e-5, 1e-6])
    found = large.estimate()
    assert found.cells == 2000**3 * 2
    assert "hours and 119.2 GiB" in found.warning
    endless = fa.sweep(noise_multiplier=axis, sample_rate=axis / 100, steps=np.arange(1, 2001), delta=axis / 1e5)
    assert endless.estimate().seconds > 3.6e6


def test_costs_are_of_the_whole_grid():
    one = plan(steps=np.arange(1, 301), sample_rate=np.linspace(0.01, 0.02, 50))
    for cells in (7, 300, 5000, 10**9):
        chunks = chunk_shape(one.shape, cells)
        costs = cost.chunk_costs(one, chunks)
        assert costs.size == math.prod(-(-a // b) for a, b in zip(one.shape, chunks, strict=True))
        assert np.all(costs > 0.0)


def test_the_bar_counts_cost_and_goes_to_stderr(capsys):
    plan().compute(progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "100.0 % of 48 cells, 0 s left" in captured.err
    bar = Bar(10.0, shown=False)
    bar.start -= 1.0
    bar.advance(2.5)
    assert bar.left == pytest.approx(3.0, rel=0.05)


# -- large grids -----------------------------------------------------------------------------------------------------


def test_a_plan_of_batches_and_epochs_is_not_slower_for_its_size():
    start = time.process_time()
    large = fa.sweep(
        noise_multiplier=[1.0, 2.0],
        batch_size=np.arange(1, 30_001),
        records=[50_000, 60_000],
        epochs=np.arange(1, 100_001),
        delta=1e-5,
    )
    found = large.estimate()
    assert time.process_time() - start < 20.0  # of work: hours without
    assert found.cells == 2 * 30_000 * 2 * 100_000
    assert "hours" in found.warning
    with pytest.raises(ValueError, match=r"batch_size = 300\.0 exceeds records = 200\.0"):
        fa.sweep(noise_multiplier=1.0, batch_size=[100, 300], records=[200, 400], epochs=3, delta=1e-5)


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["noise_multiplier", "sample_rate", "steps"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([], ValueError, "is an empty array"),
        ([[1, 0], [1, 0]], ValueError, "2 dimensions"),
        ([0.0, math.nan], ValueError, "\\[1\\] = nan"),
        ("0.1", TypeError, "must be a number"),
        ([True, False], TypeError, "must be a number"),
        ([1j], TypeError, "must be a number"),
        ([0, 1, 0], ValueError, "\\[2\\] = 0.* repeats"),
    ],
)
def test_a_bad_axis_is_named(name, value, error, message):
    with pytest.raises(error, match=f"^{name}.*{message}"):
        plan(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise_multiplier", -1.0), ("sample_rate", 1.5), ("steps", -1), ("steps", 0.5), ("delta", 2.0)],
)
def test_a_value_out_of_range_is_refused_before_any_work(name, value):
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        plan(**{name: [*AXES[name], value]})


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": None},
        {"epsilon": 1.0},
        {"orders": 2.0},
        {"steps": None},
        {"steps": None, "noise_multiplier": None, "epsilon": 1.0},
    ],
)
def test_axes_must_fix_a_run_and_one_question(changes):
    with pytest.raises(TypeError, match="a sweep needs noise_multiplier"):
        plan(**changes)


def test_axes_that_mean_nothing_are_refused():
    with pytest.raises(TypeError, match="either sample_rate or batch_size"):
        plan(batch_size=10, records=1000)
    with pytest.raises(TypeError, match="records is for batch_size"):
        plan(records=1000)
    with pytest.raises(ValueError, match=r"batch_size = 200\.0 exceeds records = 100\.0"):
        plan(sample_rate=None, batch_size=[10, 200], records=[1000, 100])
    with pytest.raises(TypeError, match="needs records"):
        plan(delta="1/n")


def test_a_grid_beyond_memory_is_refused_before_any_work():
    axis = np.linspace(0.001, 0.9, 10_000)
    one = fa.sweep(noise_multiplier=axis, sample_rate=axis, steps=np.arange(10_000), delta=1e-5)
    with pytest.raises(MemoryError, match="more than this machine's memory"):
        one.compute()


@pytest.mark.parametrize(
    ("module", "suffix"), [("xarray", ""), ("zarr", ".zarr"), ("pyarrow.parquet", ".parquet"), ("h5netcdf", ".nc")]
)
def test_a_missing_library_names_the_extra(monkeypatch, tmp_path, module, suffix):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "\.\[sweep\]"'):
        plan().save(f"grid{suffix}")
    assert list(Path.cwd().iterdir()) == []


# -- decisions -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid():
    return fa.sweep(
        noise_multiplier=np.geomspace(0.6, 4, 12), batch_size=[64, 256, 1024], records=50_000, epochs=[1, 5, 20],
        delta="1/n^1.1",
    ).compute()  # fmt: skip


def test_feasible_cells_are_those_of_the_condition(grid):
    rows = fa.feasible(grid, "epsilon <= 3 and epochs > 1", sort=["noise_multiplier", "-epochs"])
    for same in (
        "epsilon <= 3 and not epochs == 1",
        "(epsilon <= 3) & (epochs in [5, 20])",
        "0 < -1 + epochs * epsilon",
    ):
        assert len(fa.feasible(grid, same)) > 0, same
    mask = (grid.epsilon <= 3) & (grid.epochs > 1)
    assert len(rows) == int(mask.sum()) > 10
    assert (rows.epsilon <= 3).all()
    assert rows.noise_multiplier.is_monotonic_increasing
    assert rows.groupby("noise_multiplier").epochs.apply(lambda x: x.is_monotonic_decreasing).all()
    assert list(rows.columns) == ["noise_multiplier", "batch_size", "records", "epochs", "delta", "epsilon"]
    bad_words = ["epsilonn <= 3", "epsilon <=", "epochs // 5", "0", "[0, 1]", "index", "@rows.epochs > 1"]
    bad_words += ["9**9**9 > epsilon", "9 << 9**9 > epsilon", "epsilon.to_csv('here') != 1", "sin(epsilon) > 0"]
    bad_words += ["epsilon.values > 1", "epochs['0'] > 1", "epochs > 'a'", "(lambda: epsilon > 1)()"]
    for bad in bad_words:
        with pytest.raises(ValueError, match="is not a condition on"):
            fa.feasible(grid, bad)
    for bad, name in (("index >= 0", "index"), ("ilevel_0 >= 0", "ilevel_0"), ("Timestamp > 0", "Timestamp")):
        with pytest.raises(ValueError, match=f"is not a condition on .*: {name} is none of them"):  # names of pandas
            fa.feasible(grid, bad)
    with pytest.raises(ValueError, match=r"epsilonn is none of them \(did you mean 'epsilon'"):
        fa.feasible(grid, "epsilonn <= 3")
    assert len(fa.feasible(grid, "epsilon < inf")) == grid.epsilon.size
    with pytest.raises(ValueError, match=r"sort = 'cost' is not a column .*; there are noise_multiplier, batch_size"):
        fa.feasible(grid, sort="cost")
    with pytest.raises(ValueError, match=r"sort = '-epoch' is not a column \(did you mean '-epochs'"):
        fa.feasible(grid, sort=["epochs", "-epoch"])
    with pytest.raises(TypeError, match="sort must be a column or a list of columns, not 3"):
        fa.feasible(grid, sort=3)


def test_the_cheapest_value_of_an_axis_meets_and_the_next_does_not(grid):
    found = fa.cheapest(grid, "epsilon <= 3", "noise_multiplier")
    assert found.dims == ("batch_size", "records", "epochs")
    values = grid.noise_multiplier.values
    for place in np.ndindex(found.shape):
        at = dict(zip(found.dims, place, strict=True))
        column = grid.epsilon.isel(at).values
        feasible = values[column <= 3.0]
        assert found.isel(at).item() == feasible.min() if feasible.size else np.isnan(found.isel(at).item())
    with pytest.raises(TypeError, match=r"grid must be a dataset such as .*, not int"):
        fa.cheapest(3, "epsilon <= 3", "noise_multiplier")
    with pytest.raises(ValueError, match="axis = 'epsilon' is not an axis"):
        fa.cheapest(grid, "epsilon <= 3", "epsilon")
    most = fa.cheapest(grid, "epsilon <= 0.1", "epochs", largest=True)
    assert np.isnan(most.sel(noise_multiplier=values[0])).all()
    last = fa.cheapest(grid, "epsilon <= 3", "epochs", largest=True).max()
    assert last == grid.epochs.where(grid.epsilon <= 3.0).max() > grid.epochs.min()


def test_no_cell_is_better_than_one_of_the_front(grid):
    front = fa.pareto(grid, "epsilon <= 3", minimize=["noise_multiplier", "epochs"], maximize="batch_size")
    rows = fa.feasible(grid, "epsilon <= 3")

    def goals(table):
        return np.column_stack([table.noise_multiplier, table.epochs, -table.batch_size])

    for one in goals(front):
        better = (goals(rows) <= one).all(axis=1) & (goals(rows) < one).any(axis=1)
        assert not better.any()
    kept = {tuple(one) for one in goals(front)}
    for one in goals(rows):
        is_front = not ((goals(rows) <= one).all(axis=1) & (goals(rows) < one).any(axis=1)).any()
        assert is_front == (tuple(one) in kept)
    for name in ("minimize", "maximize"):
        with pytest.raises(ValueError, match=f"{name} = 'cost' is not a column"):
            fa.pareto(grid, **{name: "cost"})
        with pytest.raises(TypeError, match=f"{name} must be a column or a list of columns, not 3"):
            fa.pareto(grid, **{name: 3})
