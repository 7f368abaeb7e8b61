"""Labelled and lazy arrays: verbs give the kind of array that they are given, with the bits of NumPy's."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import fastacct as fa

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
da = pytest.importorskip("dask.array")

NOISE = xr.DataArray([0.8, 1.0, 2.0], dims="noise", coords={"noise": [0.8, 1.0, 2.0]})
RATE = xr.DataArray([0.01, 0.1], dims="rate", coords={"rate": ["small", "large"]})
STEPS = xr.DataArray([10, 100, 1000, 5000], dims="steps", coords={"steps": [10, 100, 1000, 5000]})
RUN = {"noise_multiplier": NOISE, "sample_rate": RATE, "steps": STEPS}
PLAIN = {
    "noise_multiplier": NOISE.values[:, None, None],
    "sample_rate": RATE.values[:, None],
    "steps": STEPS.values,
}
TARGETS = {"delta": 1e-5, "epsilon": 1.5, "orders": 8.5}
VERBS = {
    "epsilon": ("delta",), "epsilon_lower": ("delta",), "epsilon_approx": ("delta",), "best_order": ("delta",),
    "delta": ("epsilon",), "delta_lower": ("epsilon",), "delta_approx": ("epsilon",), "rdp": ("orders",),
    "noise_multiplier": ("epsilon", "delta"), "sample_rate": ("epsilon", "delta"), "steps": ("epsilon", "delta"),
}  # fmt: skip
JOB = fa.Gaussian(1.0).poisson(0.01) * 1000


def asked(name, run):
    known = {key: value for key, value in run.items() if key != name}
    return getattr(fa.dpsgd, name)(**known, **{target: TARGETS[target] for target in VERBS[name]})


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_gives_the_outer_grid_with_the_bits_of_numpy(name):
    found, plain = asked(name, RUN), asked(name, PLAIN)
    assert isinstance(found, xr.DataArray)
    for dim, axis in (("noise", NOISE), ("rate", RATE), ("steps", STEPS)):
        if dim in found.dims:
            xr.testing.assert_identical(found[dim], axis[dim])
    np.testing.assert_array_equal(found.values, np.squeeze(plain))
    assert {"units", "guarantee", "neighbors", "fastacct_version"} - {"guarantee"} <= found.attrs.keys()
    chunked = asked(name, {key: one.chunk(dict.fromkeys(one.dims, 2)) for key, one in RUN.items()})
    assert chunked.chunks is not None
    xr.testing.assert_identical(chunked.compute(), found)


def test_targets_have_labels_too():
    deltas = xr.DataArray([1e-5, 1e-7], dims="delta", coords={"delta": [1e-5, 1e-7]})
    found = fa.dpsgd.epsilon(**RUN, delta=deltas)
    assert found.dims == ("noise", "rate", "steps", "delta")
    at = {"noise": 2.0, "rate": "large", "steps": 100, "delta": 1e-7}
    assert found.sel(at).item() == fa.dpsgd.epsilon(noise_multiplier=2.0, sample_rate=0.1, steps=100, delta=1e-7)
    assert found.attrs["guarantee"] == "certified upper bound"
    assert found.attrs["accountant"] == "Exact()"
    assert fa.dpsgd.epsilon(**RUN, delta=deltas, accountant=fa.RDP()).attrs["accountant"] == repr(fa.RDP())
    assert fa.dpsgd.epsilon(history=[(1.0, 0.01, 5)], delta=deltas).dims == ("delta",)
    assert fa.dpsgd.epsilon_approx(**RUN, delta=deltas).attrs["guarantee"] == "none: an approximation without proof"


def test_bounds_are_one_table():
    found, plain = fa.dpsgd.epsilon_bounds(**RUN, delta=1e-5), fa.dpsgd.epsilon_bounds(**PLAIN, delta=1e-5)
    assert isinstance(found, xr.Dataset)
    for side in ("lower", "upper", "status"):
        np.testing.assert_array_equal(found[side].values, getattr(plain, side))
    assert found.upper.attrs["guarantee"] == "certified upper bound"
    assert found.lower.attrs["guarantee"] == "certified lower bound"
    assert found.status.attrs["flag_meanings"] == "TIGHT LOOSE NOT_MET"
    assert isinstance(fa.dpsgd.rdp_bounds(**RUN, orders=3.0), xr.Dataset)
    lazy = fa.dpsgd.epsilon_bounds(**(RUN | {"steps": STEPS.chunk({"steps": 1})}), delta=1e-5)
    assert lazy.chunks
    xr.testing.assert_identical(lazy.compute(), found)


@pytest.mark.parametrize(
    "verb",
    [
        lambda x: fa.epsilon(JOB, delta=x),
        lambda x: fa.epsilon_lower(JOB, delta=x),
        lambda x: fa.delta(JOB, epsilon=x),
        lambda x: fa.rdp(JOB, 1.0 + x),
        lambda x: fa.tradeoff(JOB, x),
        lambda x: fa.tpr_at_fpr(JOB, x),
        lambda x: fa.log_delta_bounds(JOB, epsilon=x).upper,
        lambda x: fa.epsilon_bounds(JOB, delta=x).lower,
        lambda x: fa.tradeoff_bounds(JOB, x).lower,
    ],
)
def test_verbs_of_a_job_keep_the_labels_of_targets(verb):
    values = np.array([0.5, 0.01, 1e-4])
    labelled, series = xr.DataArray(values, dims="x", coords={"x": list("abc")}), pd.Series(values, index=list("abc"))
    plain = verb(values)
    found = verb(labelled)
    xr.testing.assert_equal(found.drop_attrs(), labelled.copy(data=plain))
    np.testing.assert_array_equal(verb(series), plain)
    assert verb(series).index.equals(series.index)
    lazy = verb(da.from_array(values, chunks=1))
    assert lazy.numblocks == (3,)
    np.testing.assert_array_equal(lazy.compute(), plain)


def test_series_give_series_and_tables():
    frame = pd.DataFrame({"noise": [0.8, 1.0, 2.0], "steps": [100, 1000, 10]}, index=["a", "b", "c"])
    found = fa.dpsgd.epsilon(noise_multiplier=frame.noise, sample_rate=0.01, steps=frame.steps, delta=1e-5)
    assert isinstance(found, pd.Series)
    assert found.index.equals(frame.index)
    assert found["b"] == fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    bounds = fa.dpsgd.epsilon_bounds(noise_multiplier=frame.noise, sample_rate=0.01, steps=frame.steps, delta=1e-5)
    assert list(bounds.columns) == ["lower", "upper", "status"]
    pd.testing.assert_series_equal(bounds.upper, found, check_names=False)
    with pytest.raises(ValueError, match="noise_multiplier and steps have different indexes"):
        fa.dpsgd.epsilon(noise_multiplier=frame.noise, sample_rate=0.01, steps=frame.steps[::-1], delta=1e-5)
    with pytest.raises(ValueError, match=r"shape \(2, 3\), and noise_multiplier has 3 rows"):
        fa.dpsgd.epsilon(noise_multiplier=frame.noise, sample_rate=[[0.01], [0.02]], steps=10, delta=1e-5)


def test_dask_arrays_broadcast_with_plain_ones_and_take_one_thread_a_chunk(monkeypatch):
    noise = da.from_array(NOISE.values, chunks=1)
    threads = set()
    real = fa.accountants.Exact.bounds

    def bounds(self, process, ask):
        threads.add((ask.threads, threading.current_thread() is threading.main_thread()))
        return real(self, process, ask)

    monkeypatch.setattr(fa.accountants.Exact, "bounds", bounds)
    lazy = fa.dpsgd.epsilon(noise_multiplier=noise[:, None], sample_rate=0.01, steps=[10, 100], delta=1e-5)
    assert isinstance(lazy, da.Array)
    assert not threads
    found = lazy.compute(scheduler="threads")
    assert {one for one, _ in threads} == {1}
    plain = fa.dpsgd.epsilon(noise_multiplier=NOISE.values[:, None], sample_rate=0.01, steps=[10, 100], delta=1e-5)
    np.testing.assert_array_equal(found, plain)


def test_what_has_no_labels_or_other_ones_is_refused():
    with pytest.raises(TypeError, match=r"sample_rate has no labels: give it as an xarray\.DataArray"):
        fa.dpsgd.epsilon(noise_multiplier=NOISE, sample_rate=[0.1, 0.2], steps=1, delta=1e-5)
    with pytest.raises(TypeError, match="give arrays of one library, not of pandas and xarray"):
        fa.dpsgd.epsilon(noise_multiplier=NOISE, sample_rate=pd.Series([0.1]), steps=1, delta=1e-5)
    other = NOISE.assign_coords(noise=[1.0, 2.0, 3.0]) / 10.0
    with pytest.raises(ValueError, match="exact"):
        fa.dpsgd.epsilon(noise_multiplier=NOISE, sample_rate=other, steps=1, delta=1e-5)
    with pytest.raises(ValueError, match=r"noise_multiplier\[0\] = -0.8 is out of range"):
        fa.dpsgd.epsilon(noise_multiplier=-NOISE, sample_rate=0.1, steps=1, delta=1e-5)
    with pytest.raises(TypeError, match="noise_multiplier is a DataArray, whose labels would be lost here"):
        fa.Gaussian(NOISE)
    noise = pd.Series([1.0, 2.0], index=["a", "b"])
    for lost in (
        lambda: fa.Gaussian(noise),
        lambda: fa.Gaussian(1.0) * noise.astype(int),
        lambda: fa.epsilon(noise_multiplier=noise, sample_rate=0.1, steps=9, delta=1e-5),
        lambda: fa.dpsgd.job(noise_multiplier=noise, sample_rate=0.1, steps=9),
    ):
        with pytest.raises(
            TypeError, match=r"is a Series, whose labels would be lost here: give its \.values \(fastacct\.dps"
        ):
            lost()
    assert fa.from_pmf(noise / 3.0, [0.5, 0.5]) == fa.from_pmf([1.0 / 3.0, 2.0 / 3.0], [0.5, 0.5]), "a list of outcomes"
    with pytest.raises(ValueError, match=r"noise_multiplier\[0\] = -0.8 is out of range"):
        fa.dpsgd.epsilon(noise_multiplier=(-NOISE).chunk(), sample_rate=0.1, steps=1, delta=1e-5).compute()


def test_a_job_of_arrays_is_not_paired_with_labels_by_position():
    job, deltas = fa.Gaussian([1.0, 2.0]), np.array([1e-5, 1e-6])
    for given in (xr.DataArray(deltas, dims="delta"), da.from_array(deltas, chunks=1)):
        with pytest.raises(TypeError, match=r"the job has arrays of shape \(2,\) without labels"):
            fa.epsilon(job, delta=given)
    rows = fa.epsilon(job, delta=pd.Series(deltas))
    np.testing.assert_array_equal(rows, fa.epsilon(job, delta=deltas))


def test_an_argument_that_changes_nothing_is_a_dimension_too():
    records = xr.DataArray([1000, 2000], dims="records")
    found = fa.dpsgd.epsilon(noise_multiplier=NOISE, sample_rate=0.01, steps=10, records=records, delta=1e-5)
    assert found.sizes == {"noise": 3, "records": 2}
    assert (found.isel(records=0) == found.isel(records=1)).all()


def test_no_library_is_imported_before_its_arrays_come():
    code = "import sys, fastacct as fa; fa.epsilon(fa.Gaussian([1.0, 2.0]), delta=1e-5)"
    code += "; print([m for m in ('xarray', 'pandas', 'dask', 'zarr', 'pyarrow') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_dask_arrays_of_different_chunks_and_plain_arrays_go_together():
    noise, rate = np.array([2.0, 0.8, 1.0]), np.array([0.01, 0.02, 0.03])
    want = fa.dpsgd.epsilon(noise_multiplier=noise[:, None], sample_rate=rate, steps=10, delta=1e-5)
    lazy = da.from_array(noise[:, None], chunks=(2, 1))
    for other in (rate, rate.tolist(), da.from_array(rate, chunks=1)):
        found = fa.dpsgd.epsilon(noise_multiplier=lazy, sample_rate=other, steps=10, delta=1e-5)
        assert np.array_equal(found.compute(), want)
    with pytest.raises(ValueError, match="do not broadcast"):
        fa.dpsgd.epsilon(noise_multiplier=da.from_array(noise, chunks=2), sample_rate=rate[:2], steps=10, delta=1e-5)
