"""A table of training runs that meet a target: the noise that each one needs, and what that noise costs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import numpy as np

import fastacct.dpsgd as dpsgd
from fastacct.accountants.question import CurveOptions
from fastacct.accountants.run import Run, as_delta, parameters, process_of, refused
from fastacct.core.extras import import_extra
from fastacct.core.inputs import MAX_STEPS, POSITIVE, Cells, Domain, as_cells, as_choice, as_number, check_memory
from fastacct.core.relations import both_ways
from fastacct.core.version import __version__
from fastacct.core.words import refuse_unknown, told_names, written_out
from fastacct.tradeoff import tpr_at_fpr

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from fastacct.accountants.question import Job

FPR: Final = 0.01
_SIZES: Final = Domain(1.0, MAX_STEPS, integer=True)
_ARRAYS: Final = 10
"""Columns of a plan."""
_COLUMNS: Final = ("batch_size", "epochs", "noise_multiplier")
_CHOSEN: Final = ("noise_multiplier", "steps", "sample_rate", "history", "accountant")
_NEEDED: Final = ("epsilon", "delta", "records", "batch_size", "epochs")


def plan(
    *,
    epsilon: float | None = None,
    delta: float | str | None = None,
    cost: str | Callable[[pd.DataFrame], ArrayLike] = "epochs",
    after: Job | None = None,
    **run: Unpack[Run],
) -> pd.DataFrame:
    """Every combination of batch size and epochs, with the noise multiplier that meets (epsilon, delta).

    **Guarantee.** Each row meets the target: `noise_multiplier` is that of `dpsgd.noise_multiplier`, inf where no noise
    suffices, because what was released before costs too much.

    Rows are sorted by `noise_on_average`, the least first.  A larger batch has less noise on each mean gradient, and
    makes fewer steps.  What it is worth to you depends on your model; the columns say what privacy makes of it:

    =======================  =========================================================================================
    column                   meaning
    =======================  =========================================================================================
    batch_size, epochs       What was given.
    steps                    ceil(epochs * records / batch_size).
    noise_multiplier         Standard deviation of the noise on the sum, over the clipping norm; inf: none suffices.
    noise_on_mean            noise_multiplier / batch_size: on the mean gradient of a step, over the clipping norm.
    noise_on_average         noise_on_mean / sqrt(steps): what is left of it in the average over the whole run.
    tpr_at_1_percent         Largest true-positive rate of any attack with 1 % false positives.
    noise_per_epochs         Percent of noise multiplier that 1 % more epochs cost; estimated, NaN below 10 steps.
    noise_per_batch_size     The same for a larger batch.  Above 1, larger batches have more noise on the mean.
    noise_per_epsilon        The same for a larger epsilon: it is negative.
    cost                     Of a row, where `cost` is a function.
    on_front                 No other row has at most its cost and at most its noise_on_average.
    =======================  =========================================================================================

    Parameters
    ----------
    records : int
        Of the data set.
    epsilon, delta : float
        The target; delta also in words, "1/n".
    batch_size, epochs : array of numbers
        All combinations.
    cost : str or function
        What a run costs you: a column, such as "epochs" (computing), "batch_size" (memory) or "steps" (updates), or a
        function of the table, such as `lambda t: t.epochs * (1 + t.batch_size / 1024)`.  The front is for it.
    after : job, optional
        What has been released already: it and the run together meet the target.  Then no `noise_per_` columns.
    neighbors, sampling, at_most, bands, bins, selected, threads
        As in `dpsgd.epsilon`.  The columns `noise_per_` are for Poisson sampling.

    Returns
    -------
    pandas.DataFrame
        Its `attrs` hold the target and the settings.  `fa.plot.plan(table)` draws it.

    Raises
    ------
    ValueError, TypeError
        As `dpsgd.noise_multiplier`; a batch of more than `records`, a cost that is no column.  ModuleNotFoundError
        without pandas.

    Examples
    --------
    >>> import fastacct as fa
    >>> table = fa.plan(records=50_000, epsilon=3.0, delta=1e-5, batch_size=[256, 1024, 4096], epochs=[10, 30])
    >>> table[["batch_size", "epochs", "steps", "noise_multiplier"]].round(3).head(2).values.tolist()
    [[4096.0, 30.0, 367.0, 2.362], [1024.0, 30.0, 1465.0, 1.322]]
    """
    pandas = import_extra("pandas", "sweep")
    run = _renamed(run)
    refuse_unknown(run, {**Run.__annotations__, **dict.fromkeys(("epsilon", "delta", "cost", "after"))})
    refused(run, _CHOSEN, "plan chooses the run: do not give {}")
    needed: dict[str, object] = {"epsilon": epsilon, "delta": delta, **run}
    if missing := [name for name in _NEEDED if needed.get(name) is None]:
        raise TypeError(f"missing {', '.join(missing)}")
    given = as_cells("batch_size", run["batch_size"], _SIZES), as_cells("epochs", run["epochs"], POSITIVE)
    sizes, passes = map(np.unique, given)
    try:
        check_memory((sizes.size, passes.size), _ARRAYS)
    except MemoryError as error:
        raise MemoryError(f"batch_size and epochs: {error}") from None
    batch, length = (one.ravel() for one in np.meshgrid(sizes, passes, indexing="ij"))
    run["records"] = records = as_number("records", run["records"], _SIZES)
    goal, share = as_number("epsilon", needed["epsilon"]), as_delta(delta, run)
    if share.ndim:
        raise TypeError("delta must be one number")
    run["batch_size"], run["epochs"] = batch, length
    noise = np.asarray(dpsgd.noise_multiplier(epsilon=goal, delta=float(share), after=after, **run))
    known = parameters(run, "noise_multiplier")
    if run.get("sampling") in ("allocation", "shuffled"):  # whole epochs, of whole batches
        selected = as_number("selected", run.get("selected") or 1, _SIZES)
        known["steps"] = (np.floor if run["sampling"] == "allocation" else np.ceil)(selected * records / batch) * length
    run["noise_multiplier"] = noise
    whole = process_of(run)
    whole = whole if after is None else whole + after
    mean = noise / batch
    columns: dict[str, Any] = {"batch_size": batch.astype(np.int64), "epochs": length}
    columns |= {"steps": known["steps"].astype(np.int64), "noise_multiplier": noise, "noise_on_mean": mean}
    columns["noise_on_average"] = mean / np.sqrt(np.maximum(known["steps"], 1.0))
    options: CurveOptions = {"neighbors": run.get("neighbors", "add_remove"), "threads": run.get("threads")}
    both: CurveOptions = {"neighbors": both_ways(options["neighbors"]), "threads": options["threads"]}
    columns["tpr_at_1_percent"] = np.asarray(tpr_at_fpr(whole, FPR, **both))
    if after is None and run.get("sampling", "poisson") == "poisson" and run.get("neighbors") != "replace_one":
        columns |= _slopes(goal, float(share), noise, known, options)
    table = pandas.DataFrame(columns).sort_values(["noise_on_average", "epochs"], ignore_index=True)
    name = "cost" if callable(cost) else as_choice("cost", cost, tuple(columns))
    if callable(cost):
        table[name] = cost(table)
    table["on_front"] = _front(*(table[one].to_numpy(np.float64) for one in (name, "noise_on_average")))
    how = {name: value for name, value in run.items() if name not in (*_COLUMNS, "threads")}
    table.attrs = {"epsilon": goal, "delta": float(share), **how, "cost": name, "fastacct_version": __version__}
    return table


def _renamed(run: Run) -> Run:
    """The run with its batch sizes under their present name."""
    sizes, rest = run.get("batch_sizes"), {name: value for name, value in run.items() if name != "batch_sizes"}
    if sizes is None:
        return run
    if run.get("batch_size") is not None:
        raise TypeError("give batch_size, and no batch_sizes, which is its former name")
    warnings.warn("batch_sizes is now called batch_size", DeprecationWarning, stacklevel=3)
    return cast("Run", {**rest, "batch_size": sizes})


def _slopes(
    goal: float, delta: float, noise: Cells, known: dict[str, Cells], options: CurveOptions
) -> dict[str, Cells]:
    """By how many percent the noise grows with one percent more of something else, at the same epsilon."""
    rate, steps = known["sample_rate"], known["steps"]
    is_usual = np.isfinite(noise) & (noise > 0.0)
    at: Any = {"noise_multiplier": np.where(is_usual, noise, 1.0), "sample_rate": rate, "steps": steps}
    slope = dpsgd.epsilon_gradient(delta=delta, **at, **options)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_noise = np.where(is_usual, -slope.noise_multiplier * noise, np.nan)
        return {
            "noise_per_epochs": slope.steps * steps / by_noise,
            "noise_per_batch_size": (slope.sample_rate * rate - slope.steps * steps) / by_noise,
            "noise_per_epsilon": -goal / by_noise,
        }


def _front(cost: Cells, noise: Cells) -> Cells:
    """Which rows have less noise than all that cost less, and than the others that cost as much."""
    front, least = np.zeros(noise.size, dtype=bool), np.inf
    for row in np.lexsort((noise, cost)):
        front[row] = noise[row] < least
        least = min(least, float(noise[row]))
    return front


written_out(Run.__annotations__, [plan])
plan = told_names(plan, "; it chooses the run, and takes no job")
