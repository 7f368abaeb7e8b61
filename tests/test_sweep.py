"""Sweeps: labels, files that appear whole or not at all, and errors that name what is wrong."""

from __future__ import annotations

import math
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa

xr = pytest.importorskip("xarray")

from fastacct.sweep import chunks, open_sweep  # noqa: E402

ACCOUNTANT = fa.Exact()
AXES = {
    "noise_multiplier": [1.0, 0.7, 2.0],
    "sample_rate": [0.01, 0.02],
    "steps": [100, 1000, 10, 5000],
    "delta": [1e-5, 1e-7],
}
SUFFIXES = (".parquet", ".nc")


def run(**changes):
    return fa.sweep(**{**AXES, **changes})


def test_every_cell_equals_a_direct_call_at_its_labels():
    grid = run()
    assert grid.epsilon.dims == ("noise_multiplier", "sample_rate", "steps", "delta")
    for noise in AXES["noise_multiplier"]:
        for rate in AXES["sample_rate"]:
            for steps in AXES["steps"]:
                for delta in AXES["delta"]:
                    at = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "delta": delta}
                    assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, accountant=ACCOUNTANT)


def test_delta_is_computed_when_epsilon_is_an_axis():
    grid = run(delta=None, epsilon=[1.0, 4.0])
    assert grid.delta.dims == ("noise_multiplier", "sample_rate", "steps", "epsilon")
    at = {"noise_multiplier": 0.7, "sample_rate": 0.02, "steps": 10, "epsilon": 4.0}
    assert grid.delta.sel(at).item() == fa.dpsgd.delta(**at, accountant=ACCOUNTANT)


def test_scalars_are_axes_of_length_one():
    grid = fa.sweep(noise_multiplier=1, sample_rate=0.01, steps=100, delta=1e-5, accountant=ACCOUNTANT)
    assert grid.epsilon.shape == (1, 1, 1, 1)
    assert grid.steps.dtype == np.int64


def test_attributes_say_what_is_guaranteed():
    grid = run(neighbors="add_remove")
    assert grid.attrs["guarantee"] == "certified upper bound"
    assert grid.attrs["neighbors"] == "add_remove"
    assert grid.attrs["sampler"] == "poisson"
    assert grid.attrs["accountant"] == repr(ACCOUNTANT)
    assert grid.attrs["fastacct_version"]
    assert grid.epsilon.attrs["units"] == "1"


def test_lower_bounds_are_a_second_variable(tmp_path):
    grid = run(bounds=True)
    assert list(grid.data_vars) == ["epsilon", "epsilon_lower"]
    assert grid.epsilon_lower.attrs["guarantee"] == "certified lower bound"
    assert grid.epsilon.attrs["guarantee"] == "certified upper bound"
    xr.testing.assert_identical(grid.epsilon, run().epsilon)
    at = {"noise_multiplier": 0.7, "sample_rate": 0.02, "steps": 1000, "delta": 1e-7}
    assert grid.epsilon_lower.sel(at).item() == fa.dpsgd.epsilon_lower(**at)
    for suffix in SUFFIXES:
        with run(bounds=True, path=tmp_path / f"grid{suffix}", chunk_cells=5) as stored:
            assert list(stored.data_vars) == ["epsilon", "epsilon_lower"]
            xr.testing.assert_identical(stored.load(), grid)
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "grid.parquet").column_names[-2:] == ["epsilon", "epsilon_lower"]
    deltas = run(bounds=True, delta=None, epsilon=[0.5, 2.0])
    assert (deltas.delta_lower <= deltas.delta).all()


def test_lower_bounds_are_refused_where_nothing_proves_them():
    with pytest.raises(ValueError, match="RDP proves no lower bound"):
        run(bounds=True, accountant=fa.RDP())
    with pytest.raises(TypeError, match="bounds must be True or False; got 'yes'"):
        run(bounds="yes")


def test_renyi_orders_can_be_swept():
    accountant = fa.RDP(orders=(2.0, 3.0, 4.0, 8.0, 16.0, 32.0))
    grid = run(accountant=accountant)
    assert grid.attrs["accountant"] == repr(accountant)
    at = {"noise_multiplier": 0.7, "sample_rate": 0.02, "steps": 1000, "delta": 1e-7}
    assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, accountant=accountant)


def test_replace_one_can_be_swept():
    axes = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": [10000, 100], "delta": 1e-6}
    grid = fa.sweep(**axes, neighbors="replace_one")
    assert grid.attrs["neighbors"] == "replace_one"
    assert 4.90739819217 <= grid.epsilon[0, 0, 0, 0].item() <= 4.90739819217 * (1 + 1e-10)  # its digits


def test_repeated_values_are_kept():
    grid = run(sample_rate=[0.01, 0.01])
    assert grid.sizes["sample_rate"] == 2
    np.testing.assert_array_equal(grid.epsilon[:, 0], grid.epsilon[:, 1])


@pytest.mark.parametrize("chunk_cells", [1, 2, 5, 7, 48, 10**6])
def test_chunking_does_not_change_a_bit(chunk_cells):
    xr.testing.assert_identical(run(chunk_cells=chunk_cells), run())


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (2, 3, 5), (1, 1, 9, 2), (4, 1, 1, 1)])
@pytest.mark.parametrize("largest", [1, 2, 3, 7, 1000])
def test_chunks_cover_the_grid_once_in_c_order(shape, largest):
    numbers = np.arange(math.prod(shape)).reshape(shape)
    pieces = [numbers[chunk] for chunk in chunks(shape, largest)]
    assert max(piece.size for piece in pieces) <= largest
    np.testing.assert_array_equal(np.concatenate([piece.ravel() for piece in pieces]), numbers.ravel())


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_holds_the_same_grid_as_memory(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    with run(path=path, chunk_cells=5) as stored:
        xr.testing.assert_identical(stored.load(), run())
    with open_sweep(path) as again:
        xr.testing.assert_identical(again.load(), run())
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_slices_of_a_file_are_slices_of_the_grid(tmp_path, suffix):
    whole = run()
    with run(path=tmp_path / f"grid{suffix}", chunk_cells=5) as stored:
        for place in (
            {"steps": 2, "delta": 0},
            {"noise_multiplier": [2, 0], "steps": slice(None, None, 2)},
            {"noise_multiplier": -1, "sample_rate": 1, "steps": 3, "delta": 1},
            {"steps": slice(1, 1)},
        ):
            np.testing.assert_array_equal(stored.epsilon.isel(place).values, whole.epsilon.isel(place).values)


def test_parquet_is_a_tidy_table_with_its_meaning_inside(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "grid.parquet"
    run(path=path, chunk_cells=7)
    table = parquet.read_table(path)
    assert table.column_names == ["noise_multiplier", "sample_rate", "steps", "delta", "epsilon"]
    assert table.num_rows == 48
    assert b"certified upper bound" in table.schema.metadata[b"fastacct_sweep"]
    row = table.slice(29, 1).to_pylist()[0]
    epsilon = row.pop("epsilon")
    assert epsilon == fa.dpsgd.epsilon(**row, accountant=ACCOUNTANT)


def test_infinite_cells_survive_every_format(tmp_path):
    grid = run(noise_multiplier=[0.0, 1.0])
    assert np.isinf(grid.epsilon[0]).all()
    for suffix in SUFFIXES:
        with run(noise_multiplier=[0.0, 1.0], path=tmp_path / f"grid{suffix}") as stored:
            xr.testing.assert_identical(stored.load(), grid)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_needs_memory_for_a_chunk_and_not_for_the_grid(tmp_path, monkeypatch, suffix):
    def epsilon(*, noise_multiplier, sample_rate, steps, delta, **settings):
        return 0.0 * (noise_multiplier + sample_rate + steps + delta)

    monkeypatch.setattr(fa.dpsgd, "epsilon", epsilon)
    axes = {"noise_multiplier": np.ones(100), "sample_rate": np.ones(100), "steps": np.ones(30), "delta": np.ones(10)}
    tracemalloc.start()
    try:
        with fa.sweep(**axes, path=tmp_path / f"grid{suffix}", chunk_cells=10_000) as stored:
            peak = tracemalloc.get_traced_memory()[1]
            assert stored.epsilon.nbytes == 24e6
            assert float(stored.epsilon.isel(steps=3, delta=2).sum()) == 0.0
    finally:
        tracemalloc.stop()
    assert peak < 6e6


@pytest.mark.parametrize(
    "accountant",
    [
        fa.Exact(),
        fa.AnalyticGaussian(),
        fa.BasicComposition(),
        fa.AdvancedComposition(),
        fa.ZCDPComposition(),
        fa.RDP(conversion="mironov"),
    ],
)
def test_every_certified_accountant_can_be_swept(accountant):
    axes = {"noise_multiplier": [1.0, 4.0], "sample_rate": 1.0, "steps": [1, 9], "delta": 1e-5}
    grid = fa.sweep(**axes, accountant=accountant)
    for steps in axes["steps"]:
        at = {"noise_multiplier": 4.0, "sample_rate": 1.0, "steps": steps, "delta": 1e-5}
        assert grid.epsilon.sel(at).item() == fa.dpsgd.epsilon(**at, accountant=accountant)


def test_an_approximation_is_not_swept_as_a_bound():
    with pytest.raises(ValueError, match="CLT"):
        run(accountant=fa.CLT())


def test_a_foreign_parquet_file_is_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "foreign.parquet"
    parquet.write_table(arrow.table({"epsilon": [1.0]}), path)
    with pytest.raises(ValueError, match=r"foreign\.parquet was not written by fastacct\.sweep"):
        open_sweep(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("failure", [RuntimeError("disk on fire"), KeyboardInterrupt()])
def test_a_failure_half_way_leaves_no_file(tmp_path, monkeypatch, suffix, failure):
    fail_after(monkeypatch, 20, failure)
    with pytest.raises(type(failure)):
        run(path=tmp_path / f"grid{suffix}", chunk_cells=5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_half_way_keeps_the_old_file(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"grid{suffix}"
    path.write_bytes(b"old")
    fail_after(monkeypatch, 20, RuntimeError("disk on fire"))
    with pytest.raises(RuntimeError, match="disk on fire"):
        run(path=path, chunk_cells=5, overwrite=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_existing_file_is_replaced_only_on_request(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        run(path=path)
    assert path.read_bytes() == b"old"
    with run(path=path, overwrite=True) as stored:
        xr.testing.assert_identical(stored.load(), run())


def test_a_file_that_appears_during_the_sweep_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "grid.parquet"
    after_cells(monkeypatch, 20, lambda: path.write_bytes(b"somebody else's"))
    with pytest.raises(FileExistsError):
        run(path=path, chunk_cells=5)
    assert path.read_bytes() == b"somebody else's"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"grid\.zarr.*\.parquet, \.nc"):
        run(path=tmp_path / "grid.zarr")


def test_a_missing_folder_is_an_error_before_any_work(tmp_path, monkeypatch):
    fail_after(monkeypatch, 10, AssertionError("computed"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(path=tmp_path / "nowhere" / "grid.nc")


def fail_after(monkeypatch, n_cells, failure):
    def fail():
        raise failure

    after_cells(monkeypatch, n_cells, fail)


def after_cells(monkeypatch, n_cells, action):
    """Do something once the real accountant has computed so many cells (the check of the axes does not count)."""
    real, done = fa.dpsgd.epsilon, [0]

    def epsilon(**parameters):
        result = real(**parameters)
        if np.ndim(parameters["noise_multiplier"]) == 4:
            done[0] += np.size(result)
            if done[0] >= n_cells:
                done[0] = -(10**9)
                action()
        return result

    monkeypatch.setattr(fa.dpsgd, "epsilon", epsilon)


# -- progress and errors ---------------------------------------------------------------------------------------------


def test_progress_goes_to_stderr(capsys):
    run(progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "48 of 48 cells" in captured.err


@pytest.mark.parametrize("name", ["noise_multiplier", "sample_rate", "steps", "delta"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([], ValueError, "is an empty array"),
        ([[1, 0], [1, 0]], ValueError, "2 dimensions"),
        ([0.0, math.nan], ValueError, "\\[1\\] = nan"),
        ("0.1", TypeError, "must be a number"),
        ([True, False], TypeError, "must be a number"),
        ([1j], TypeError, "must be a number"),
    ],
)
def test_a_bad_axis_is_named(name, value, error, message):
    with pytest.raises(error, match=f"^{name}.*{message}"):
        run(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise_multiplier", -1.0), ("sample_rate", 1.5), ("steps", -1), ("steps", 0.5), ("delta", 2.0)],
)
def test_a_value_out_of_range_is_refused_before_any_work(monkeypatch, tmp_path, name, value):
    fail_after(monkeypatch, 1, AssertionError("computed"))
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        run(**{name: [*AXES[name], value]}, path=tmp_path / "grid.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("both", [{"delta": None}, {"epsilon": 1.0}])
def test_exactly_one_of_delta_and_epsilon(both):
    with pytest.raises(ValueError, match=r"exactly one of delta= .* and epsilon="):
        run(**both)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (2.5, ValueError), (True, TypeError)])
def test_chunk_cells_must_be_a_positive_integer(value, error):
    with pytest.raises(error, match="chunk_cells"):
        run(chunk_cells=value)


@pytest.mark.parametrize(
    ("module", "changes"),
    [("xarray", {}), ("pyarrow.parquet", {"path": "grid.parquet"}), ("netCDF4", {"path": "grid.nc"})],
)
def test_a_missing_library_names_the_extra(monkeypatch, tmp_path, module, changes):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "fastacct\[sweep\]"'):
        run(**changes)
    assert list(Path.cwd().iterdir()) == []
