"""The sweep of the public surface: which question the axes ask, and how its answer is estimated, computed and saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants import RDP, Exact, Method
from fastacct.core.extras import import_extra
from fastacct.core.inputs import DOMAINS, Reals, as_cells, check_memory
from fastacct.core.labels import labels_of
from fastacct.core.relations import Relation, as_relation
from fastacct.run import as_delta, parameters
from fastacct.sweep.cost import Estimate, estimate
from fastacct.sweep.grid import FIXED, TARGETS, Grid
from fastacct.sweep.store import save
from fastacct.sweep.work import in_memory

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Sweep", "sweep"]

AXES: Final = (
    "noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs", "delta", "epsilon", "orders",
)  # fmt: skip
"""In the order of the dimensions."""
_WHOLE: Final = ("steps", "records")


class Sweep(Grid):
    """A grid that is not computed yet: made by `fastacct.sweep`.

    `estimate` says what it takes, `compute` gives it in memory, `save` writes it to a file, resuming what was begun.
    """

    def estimate(self) -> Estimate:
        """Predict what the sweep takes, from a cost model and some cells that are evaluated now (half a second)."""
        return estimate(self)

    def compute(self, *, progress: bool = False) -> xr.Dataset:
        """Compute the grid in memory.

        **Guarantee.** As `fastacct.sweep`.  `progress` shows the share of the work done and the time left on stderr.
        MemoryError, before anything is computed, where the grid is larger than the memory.
        """
        check_memory(self.shape, len(self.variables))
        return self.labelled(in_memory(self, progress))

    def save(self, path: str | os.PathLike[str], *, progress: bool = False, overwrite: bool = False) -> xr.Dataset:
        """Compute the grid chunk by chunk into a file, or go on where a sweep was stopped; the dataset is read lazily.

        **Guarantee.** As `fastacct.sweep`.  Whatever stops the process, nothing but the chunks in flight is lost: the
        same call goes on.  The file is complete when it opens with `open_sweep`.

        Parameters
        ----------
        path : path
            `.zarr` (chunks are written as they come), `.nc` (netCDF-4) or `.parquet` (one row per cell); the last two
            are written from a Zarr store beside them when all is computed.
        progress : bool
            Show the share of the work done and the time left on stderr.
        overwrite : bool
            Replace what is at the path, unless it is this sweep, begun or complete: then go on with it.

        Raises
        ------
        ValueError
            The store at `path` has other axes or settings: the message names the first that differs.
        FileExistsError, BlockingIOError, OSError
            The file exists; another process writes it; it cannot be written.
        """
        return save(self, path, progress=progress, overwrite=overwrite)


def sweep(
    *,
    noise_multiplier: Reals | None = None,
    sample_rate: Reals | None = None,
    steps: Reals | None = None,
    batch_size: Reals | None = None,
    records: Reals | None = None,
    epochs: Reals | None = None,
    delta: Reals | str | None = None,
    epsilon: Reals | None = None,
    orders: Reals | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    bounds: bool = False,
    threads: int | None = None,
    client: Any = None,
) -> Sweep:
    """Plan every combination of the given values, as a labelled grid; nothing is computed yet.

    **Guarantee.** Every cell is what the verb of `fastacct.dpsgd` returns for that cell alone, bit for bit: a certified
    upper bound for Poisson-sampled DP-SGD under `neighbors`, and with `bounds` the lower bound and the status too.  The
    bits depend neither on chunks nor on threads or machines.

    Parameters
    ----------
    noise_multiplier, sample_rate, steps, batch_size, records, epochs : float or 1-D array
        The axes; a scalar is an axis of length 1.  Keywords as in `fastacct.dpsgd.epsilon`.
    delta, epsilon, orders : float or 1-D array
        What is computed: epsilon at `delta`, delta at `epsilon`, the Rényi divergence at `orders`.  With delta and
        epsilon the parameter left out: the smallest noise multiplier, the largest sample rate or number of steps.
        With `records`, delta may be "1/n" or a power such as "1/n^1.1".
    accountant, neighbors, threads
        As in `fastacct.dpsgd.epsilon`.
    bounds : bool
        Also compute the certified lower bound, as the variable `epsilon_lower` (`delta_lower`), and the status.
    client : dask.distributed.Client, optional
        Compute on its workers, one thread of kernels per thread of a worker.

    Returns
    -------
    Sweep
        With the methods `estimate`, `compute` and `save`.

    Raises
    ------
    ValueError, TypeError
        Empty, repeated, NaN, multi-dimensional or out-of-range values; axes that do not fix a run and one question.
    ModuleNotFoundError
        A library of the extra `sweep` is missing.

    Examples
    --------
    >>> import fastacct as fa
    >>> plan = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5)
    >>> grid = plan.compute()
    >>> round(float(grid.epsilon.sel(noise_multiplier=1.0, steps=1000).item()), 6)
    1.828237
    """
    import_extra("xarray", "sweep")
    if not isinstance(bounds, bool):
        raise TypeError(f"bounds must be True or False; got {bounds!r}")
    every = (noise_multiplier, sample_rate, batch_size, records, steps, epochs, delta, epsilon, orders)
    given: dict[str, Any] = {name: value for name, value in zip(AXES, every, strict=True) if value is not None}
    quantity = _quantity(given)
    words = given.pop("delta") if isinstance(delta, str) else None
    axes = {name: _axis(name, value) for name, value in given.items()}
    if words is not None:
        as_delta(words, axes)
    elif "records" in axes and "batch_size" not in axes:
        raise TypeError('records is for batch_size and for a delta such as "1/n"')
    chosen = accountant if accountant is not None else RDP() if quantity == "rdp" else Exact()
    plan = Sweep(quantity, axes, words, chosen, as_relation(neighbors), bounds, threads, client)
    ends = [np.unique([axis.min(), axis.max()]) for axis in axes.values()]  # no cell is more extreme than these
    run: Any = {name: one for name, one in zip(axes, np.ix_(*ends), strict=True) if name not in TARGETS}
    parameters(run, quantity)  # what no run has is refused now, not after an hour of work
    plan.evaluate((slice(0, 1),) * len(axes))
    return plan


def _quantity(given: Mapping[str, Any]) -> str:
    """What the axes ask for."""
    missing = [name for name, fixing in FIXED.items() if not any(one in given for one in fixing)]
    targets = tuple(name for name in TARGETS if name in given)
    verbs: dict[tuple[str, ...], str] = {("delta",): "epsilon", ("epsilon",): "delta", ("orders",): "rdp"}
    asked = verbs.get(targets)
    if asked and not missing:
        return asked
    if targets == ("delta", "epsilon") and len(missing) == 1:
        return missing[0]
    raise TypeError(
        "a sweep needs noise_multiplier, sample_rate (or batch_size and records), steps (or epochs), and one of delta "
        "(to compute epsilon), epsilon (to compute delta) and orders (to compute Renyi divergences); or delta and "
        f"epsilon, and two of the three; got {', '.join(given) or 'none'}"
    )


def _axis(name: str, values: Any) -> NDArray[Any]:
    """A checked axis as a 1-D array: float64, int64 for whole numbers."""
    cells = as_cells(name, np.asarray(values) if labels_of(values) else values, DOMAINS[name])
    if cells.ndim > 1:
        raise ValueError(f"{name} must be a number or a 1-D array; got {cells.ndim} dimensions, shape {cells.shape}")
    axis = np.atleast_1d(cells).astype(np.int64 if name in _WHOLE else np.float64)
    unique, first = np.unique(axis, return_index=True)
    if unique.size < axis.size:
        again = np.setdiff1d(np.arange(axis.size), first)[0]
        raise ValueError(f"{name}[{again}] = {axis[again]} repeats an earlier value: labels of an axis are different")
    return axis
