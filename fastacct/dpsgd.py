"""The vectorised fast path of DP-SGD: Poisson-subsampled Gaussian, noise multiplier sigma, sample rate q, T steps.

All functions take keywords only and broadcast over everything like a NumPy ufunc: Python numbers in, Python float
out; arrays in, float64 arrays out.  The default accountant is `fastacct.Exact()`: the privacy curve itself.

**Guarantee** (of all functions but `*_approx`). The sampler and relation named (Poisson, add_remove); numbers include
quadrature, truncation and rounding error: an epsilon, delta or Rényi divergence is never below the true value, and a
`*_lower` never above it.

=====================  ====================================================================
edge case              answer
=====================  ====================================================================
sample_rate = 0        nothing is released: epsilon 0, delta 0
steps = 0              the same
noise_multiplier inf   the same
noise_multiplier = 0   epsilon inf, delta 1 (lower bounds 0); for `neighbors="add"` as at delta = 0
delta = 0              epsilon inf (a Gaussian has no pure guarantee); for `neighbors="add"`
                       -steps log(1 - sample_rate), the largest loss there is
delta = 1              epsilon 0
epsilon = inf          delta 0
=====================  ====================================================================
"""

from __future__ import annotations

from typing import Final, Literal, Unpack, cast

import numpy as np

from fastacct.accountants import CLT, RDP, Exact
from fastacct.accountants.batching import batches_of
from fastacct.accountants.question import Job, as_accountant, as_method, asked, plain_bounds, renyi
from fastacct.accountants.run import Parameters, Run, as_delta, parameters, process_of, refused
from fastacct.accountants.series import by_series
from fastacct.calibrate import calibrated_on_loader
from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells, Domain, Floats, Reals, as_cells, as_choice, common_shape, unwrap
from fastacct.core.labels import labelled, labels_of
from fastacct.core.relations import as_relation
from fastacct.core.words import told_names, written_out
from fastacct.gradient import delta_gradient, epsilon_gradient
from fastacct.loaders.keywords import told as told_by_loader
from fastacct.loaders.keywords import upper_alone
from fastacct.mechanisms.base import Count
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask
from fastacct_ext import _kernels

__all__ = ["delta", "delta_bounds", "delta_lower", "epsilon", "epsilon_bounds", "epsilon_lower", "job"]
__all__ += ["best_order", "delta_approx", "epsilon_approx", "rdp", "rdp_bounds"]
__all__ += ["delta_gradient", "epsilon_gradient", "noise_multiplier", "sample_rate", "steps"]

_RENYI: Final = RDP()
_EPSILON, _DELTA = _kernels.Quantity.EPSILON, _kernels.Quantity.DELTA
_STATUSES: Final = tuple(Status)
_WHOLE_ORDERS: Final = Domain(2.0, 1e6, integer=True)
RenyiMethod = Literal["quadrature", "series"]
Delta = Reals | str


def job(**run: Unpack[Parameters]) -> Process:
    """A run of DP-SGD as a job: compose it with `+` and `*`, and give it to every verb, budget and picture.

    Every verb of a job takes the keywords of a run in its place, too, with the same numbers to the last bit.

    Parameters
    ----------
    noise_multiplier, sample_rate, steps, records, batch_size, epochs, history, sampling, ...
        As in `epsilon`.  Relation, accountant and threads belong to the question, not to the job.

    Returns
    -------
    Process
        Of the broadcast shape of its parameters.

    Raises
    ------
    TypeError, ValueError
        Naming argument, value, index and allowed range.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.dpsgd.job(noise_multiplier=1.0408, records=50_000, batch_size=512, epochs=30)
    >>> run == fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930
    True
    >>> round(fa.epsilon(run + fa.Gaussian(20.0), delta=1e-6), 4), round(fa.tpr_at_fpr(run, 0.01), 4)
    (3.4145, 0.0512)
    """
    if beside := run.keys() - Parameters.__annotations__.keys() - {"loader"} & Run.__annotations__.keys():
        name = min(beside)
        raise TypeError(
            f"{name} belongs to the question, not to the job: give it to a verb, as in fa.epsilon(job, {name}=...)"
        )
    return process_of(run)


def epsilon(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Smallest epsilon that the accountant proves for a run of DP-SGD at `delta`.

    **Guarantee.** Certified upper bound, for Poisson sampling and the neighbouring relation named, rounding included.

    Parameters
    ----------
    delta : float or array in [0, 1], or "1/n", "1/n^1.1" ...
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise divided by the clipping norm.
    sample_rate : float or array in [0, 1]
        Probability that a record takes part in one step (expected batch size / dataset size).
    steps : int or array of whole numbers in [0, 2**53]
    records, batch_size, epochs : int, float or array, optional
        Instead of `sample_rate`, which is then batch_size / records, and of `steps`, ceil(epochs * records /
        batch_size) = ceil(epochs / sample_rate), from the decimal digits.  With `records`, delta may be "1/n" or a
        power such as "1/n^1.1".  What no float says exactly is rounded to the safe side: a rate up, a delta down.
    history : sequence of (noise_multiplier, sample_rate, steps), optional
        One heterogeneous run instead of the parameters; only `delta` broadcasts.
    sampling : optional, default "poisson"
        How batches are drawn; methods of `Gaussian` say what is proved of each.

        * "fixed_size": `batch_size` of the `records`, without replacement; "with_replacement": as many draws.
        * "truncated": Poisson samples, cut to at most `at_most` records.
        * "cyclic": in step i a Poisson sample from group i mod `bands` of the records; batch_size is what it expects.
        * "allocation": each record in one random step of the floor(records / batch_size) of each of `epochs`, or in
          `selected` of the floor(selected * records / batch_size): an epoch has `selected` passes then.
          bins="persistent": in the same steps of all epochs.
        * "shuffled": one random order of the records in each of `epochs`, or with bins="persistent" in all of them.
    loader : optional
        A live data loader or sampler in the place of `sampling` and of all that it fixes; `fastacct.loader_guide` says
        which are known.  Give `steps` or `epochs` beside it; a pass that is begun counts as whole.
    accountant, neighbors, threads
        As in `fastacct.epsilon`.  "replace_one" exchanges a record: `Exact()`, `RDP()` and `PLD()` cover it, slowly.

    Returns
    -------
    float or ndarray
        Broadcast shape of all inputs; errors as in `fastacct.epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon(noise_multiplier=1.1, sample_rate=256 / 60000, steps=14062, delta=1e-5), 4)
    2.3816
    >>> fa.dpsgd.epsilon(history=[(1.0, 0.01, 500), (2.0, 0.02, 300)], delta=[1e-5, 1e-6]).round(4)
    array([1.5023, 1.7607])
    >>> round(fa.dpsgd.epsilon(noise_multiplier=1.1, records=60000, batch_size=256, epochs=60, delta="1/n"), 4)
    2.3071
    """
    found = _of_numbers(run, delta, _EPSILON, only_upper=True)
    return found[1] if found is not None else unwrap(_bounds("epsilon", delta, run, only_upper=True).upper)


def epsilon_lower(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Epsilon that is needed at `delta`: a certified lower bound, or 0, by `fastacct.Exact()`; else as in `epsilon`."""
    return cast("float | Floats", _both("epsilon", delta, run).lower)


def epsilon_bounds(*, delta: Delta, **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the true epsilon at `delta`, with a status per cell; see `epsilon_lower`.

    >>> import fastacct as fa
    >>> bounds = fa.dpsgd.epsilon_bounds(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=[1e-5, 1e-12])
    >>> bounds.upper.round(8), (bounds.upper - bounds.lower).max() < 1e-9, bounds.status
    (array([1.82823667, 3.91429816]), np.True_, array([0, 0], dtype=uint8))
    """
    return _both("epsilon", delta, run)


def delta(*, epsilon: Reals, **run: Unpack[Run]) -> float | Floats:
    """Smallest delta that the accountant proves for a run of DP-SGD at `epsilon`.

    **Guarantee.** Certified upper bound; 0 only where the true delta is 0.  Parameters and errors as in `epsilon`.

    >>> import fastacct as fa
    >>> f"{fa.dpsgd.delta(noise_multiplier=1.0, sample_rate=0.01, steps=1000, epsilon=1.5):.6e}"
    '1.092559e-04'
    """
    found = _of_numbers(run, epsilon, _DELTA, only_upper=True)
    return found[1] if found is not None else unwrap(_bounds("delta", epsilon, run, only_upper=True).upper)


def delta_lower(*, epsilon: Reals, **run: Unpack[Run]) -> float | Floats:
    """Largest delta that is proved to be needed at `epsilon`: no smaller one is true; as `epsilon_lower`."""
    return cast("float | Floats", _both("delta", epsilon, run).lower)


def delta_bounds(*, epsilon: Reals, **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the true delta at `epsilon`, with a status per cell; see `epsilon_lower`."""
    return _both("delta", epsilon, run)


def best_order(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """The Rényi order at which `epsilon` with `fastacct.RDP()` finds its bound (NaN where no order is involved).

    For the "optimal" conversion it is the order that is best for "canonne_kamath_steinke", where the search starts.

    >>> import fastacct as fa
    >>> round(fa.dpsgd.best_order(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 2)
    7.78
    """
    return unwrap(_orders("best_order", delta, run))


def epsilon_approx(*, delta: Delta, **run: Unpack[Run]) -> float | Floats:
    """Epsilon by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.

    >>> import fastacct as fa
    >>> round(fa.dpsgd.epsilon_approx(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 4)
    1.6177
    """
    return unwrap(_approximated("epsilon", delta, run))


def delta_approx(*, epsilon: Reals, **run: Unpack[Run]) -> float | Floats:
    """Delta by an approximation without proof (default `fastacct.CLT()`).

    **No guarantee**: it may be below the truth.
    """
    return unwrap(_approximated("delta", epsilon, run))


def rdp(*, orders: Reals, method: RenyiMethod = "quadrature", **run: Unpack[Run]) -> float | Floats:
    """Rényi divergence of a run at the given orders.

    **Guarantee.** Certified upper bound, relative excess at most 1e-11 for sample_rate in [1e-12, 1],
    noise_multiplier in [0.03, 1e5] and orders in (1, 1e6]; outside this domain certified, possibly looser (see
    `rdp_bounds` for the status).

    The orders, in [1, 1e11] or inf, broadcast with the other arguments: for curves of many configurations give
    `noise_multiplier[:, None]` and orders along the last axis, so that each curve shares its work.  Without `steps`
    the divergence of one step.  Keywords and errors as in `epsilon`, without accountant.

    `method="series"`: the log-space binomial series of Mironov, Talwar and Zhang 2019 (section 3.3) at whole orders
    from 2 to 1e6, an independent proof of the same number, but slower: it has as many terms as the order.

    >>> import fastacct as fa
    >>> fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.1, orders=[1.5, 2, 32]).round(6)
    array([1.1735000e-02, 1.7037000e-02, 1.3623138e+01])
    """
    return cast("float | Floats", _divergences(orders, run, only_upper=True, method=method).upper)


def rdp_bounds(*, orders: Reals, method: RenyiMethod = "quadrature", **run: Unpack[Run]) -> Bounds:
    """Certified lower and upper bounds of the Rényi divergence (larger of the two directions), with a status per cell.

    Parameters and errors as in `rdp`.
    """
    return plain_bounds(_divergences(orders, run, only_upper=False, method=method))


def noise_multiplier(*, epsilon: Reals, delta: Delta, after: Job | None = None, **run: Unpack[Run]) -> float | Floats:
    """Smallest noise multiplier that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side: `dpsgd.epsilon` at the value returned is at most `epsilon`, bit for bit, and at (1 - 1e-8)
    times it, it is not (where the bounds are tight; `fastacct.RDP(conversion="optimal")`: about 1e-7).  0 where no
    noise is needed, inf where no finite noise does (delta = 0).  The search covers noise multipliers from 1e-6 to 1e12.
    Of jobs whose answers take seconds each the search ends earlier, further on the safe side; so do the two below.

    Keywords as in `epsilon`, but for the one that is asked for.  Of what has been released already give the job as
    `after`, or its blocks as `history`: both together satisfy the target.  ValueError where it exceeds it alone.

    >>> import fastacct as fa
    >>> target, run = dict(epsilon=3.0, delta=1e-5), dict(sample_rate=0.01, steps=10000)
    >>> round(fa.dpsgd.noise_multiplier(**target, **run), 5)
    1.56497
    >>> round(fa.dpsgd.noise_multiplier(**target, **run, after=fa.Laplace(2.0) * 3), 4)
    2.4075
    """
    return unwrap(calibrated_on_loader("noise_multiplier", epsilon, delta, run, after))


def sample_rate(*, epsilon: Reals, delta: Delta, after: Job | None = None, **run: Unpack[Run]) -> float | Floats:
    """Largest sample rate that is certified to satisfy (epsilon, delta); keywords as in `noise_multiplier`.

    **Guarantee.** Safe side, within 1e-8 relative of the boundary; 0 where no rate above 1e-30 satisfies the target.
    With `epochs` instead of `steps` the number of steps is ceil(epochs / sample_rate).

    >>> import fastacct as fa
    >>> round(fa.dpsgd.sample_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, steps=10000), 6)
    0.005315
    """
    return unwrap(calibrated_on_loader("sample_rate", epsilon, delta, run, after))


def steps(*, epsilon: Reals, delta: Delta, after: Job | None = None, **run: Unpack[Run]) -> int | float | Floats:
    """Largest number of steps that is certified to satisfy (epsilon, delta); keywords as in `noise_multiplier`.

    **Guarantee.** Safe side: the number returned satisfies the target, one more does not.  inf where any number does
    (sample_rate = 0); at most 2**53 otherwise.  A plain int for plain numbers, float64 for arrays.

    >>> import fastacct as fa
    >>> fa.dpsgd.steps(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.01)
    2666
    """
    step_count = calibrated_on_loader("steps", epsilon, delta, run, after)
    if labels_of(step_count):
        return step_count
    return step_count if step_count.ndim else int(step_count) if np.isfinite(step_count) else float(step_count)


def _of_numbers(
    run: Run, target: Delta, quantity: _kernels.Quantity, only_upper: bool
) -> tuple[float, float, int] | None:
    """Bounds and status for plain numbers, without arrays, where a compiled function gives them."""
    accountant = run.get("accountant")
    if len(run) > 3 + ("accountant" in run):
        return None
    if accountant is None or type(accountant) is Exact:
        by = "exact"
    elif only_upper and type(accountant) is RDP and accountant.is_usual:
        by = "renyi"
    else:
        return None
    return _kernels.bounds_of_numbers(by, run, target, quantity)


def _asked(quantity: Literal["epsilon", "delta"], target: Delta, run: Run, only_upper: bool) -> tuple[Process, Ask]:
    """The job that the keywords describe, and what is asked of it."""
    told = told_by_loader(run)
    run = cast("Run", told.run)
    job = process_of(run)
    in_words = quantity == "epsilon" and isinstance(target, str)
    cells = as_delta(target, {"records": told.records}) if in_words else cast("Reals", target)
    return asked(quantity, job, cells, run.get("neighbors", "add_remove"), run.get("threads"), only_upper)


@labelled()
def _bounds(quantity: Literal["epsilon", "delta"], target: Delta, run: Run, *, only_upper: bool = False) -> Bounds:
    chosen = as_accountant(run.get("accountant"), quantity)
    return chosen.bounds(*_asked(quantity, target, run, only_upper))


def _both(quantity: Literal["epsilon", "delta"], target: Delta, run: Run) -> Bounds:
    found = _of_numbers(run, target, _EPSILON if quantity == "epsilon" else _DELTA, only_upper=False)
    if found is not None:
        return Bounds(found[0], found[1], _STATUSES[found[2]])
    both = plain_bounds(_bounds(quantity, target, run))
    return both if told_by_loader(run).lower_holds else upper_alone(both)


@labelled(outputs=("approximation",))
def _approximated(quantity: Literal["epsilon", "delta"], target: Delta, run: Run) -> Cells:
    chosen = as_method(run.get("accountant"), CLT())
    approximation: Cells = chosen.bounds(*_asked(quantity, target, run, only_upper=True)).upper
    return approximation


@labelled(outputs=("order",))
def _orders(_: str, delta: Delta, run: Run) -> Cells:
    chosen = as_method(run.get("accountant"), _RENYI)
    order: Cells = chosen.with_order(*_asked("epsilon", delta, run, only_upper=True))[2]
    return order


@labelled("rdp")
def _divergences(orders: Reals, run: Run, *, only_upper: bool, method: RenyiMethod = "quadrature") -> Bounds:
    """Bounds of the Rényi divergence of a run, as arrays."""
    if (accountant := run.get("accountant")) is not None:
        raise TypeError(f"accountant = {accountant!r}: Rényi divergences are the same for every one; leave it out")
    if run.get("history") is None and run.get("epochs") is None:
        run.setdefault("steps", 1)
    if method != "quadrature":
        return _by_series(orders, run, method)
    if len(run) == 3 and (found := _kernels.bounds_of_numbers("rdp", run, orders)) is not None:
        return Bounds(found[0], found[1], _STATUSES[found[2]])
    told = told_by_loader(run)
    job, relation = process_of(cast("Run", told.run)), run.get("neighbors", "add_remove")
    both = plain_bounds(renyi(job, orders, relation, run.get("threads"), only_upper=only_upper))
    return both if told.lower_holds else upper_alone(both)


def _by_series(orders: Reals, run: Run, method: RenyiMethod) -> Bounds:
    """One step by the binomial series, times the steps, rounded outwards; closed forms where there is no series."""
    as_choice("method", method, ("quadrature", "series"))
    refused(run, ("history",), "method = 'series' takes one run, not {}")
    if as_relation(run.get("neighbors", "add_remove")) == "replace_one" or batches_of(run) is not None:
        raise ValueError("method = 'series' is for Poisson sampling and a record that is added, removed or zeroed out")
    cells = {"orders": as_cells("orders", orders, _WHOLE_ORDERS)} | parameters(run)
    shape = common_shape(cells)
    order, noise, rate, steps = (np.broadcast_to(one, shape).ravel() for one in cells.values())
    lower, upper = np.empty(order.size), np.empty(order.size)
    is_closed = (rate == 0.0) | (rate == 1.0) | (noise == 0.0) | (noise > 1e40) | (order * 2.0**-22 > noise)
    for i in np.flatnonzero(~is_closed):
        low, high = by_series(float(noise[i]), float(rate[i]), int(order[i]))
        lower[i], upper[i] = low * steps[i] * (1.0 - 2.0**-51), high * steps[i] * (1.0 + 2.0**-51)
    if is_closed.any():
        closed = Process({Gaussian(noise[is_closed]).poisson(rate[is_closed]): cast("Count", steps[is_closed])})
        lower[is_closed], upper[is_closed], _ = renyi(closed, order[is_closed])
    tight = np.isfinite(upper) & (np.nan_to_num(upper) - np.nan_to_num(lower) <= 1e-12 * upper)
    status = np.where(tight, Status.TIGHT, np.where(upper == np.inf, Status.NOT_MET, Status.LOOSE)).astype(np.uint8)
    return Bounds(*(one.reshape(shape) for one in (lower, upper, status)))


written_out(Parameters.__annotations__, [job])
written_out(Run.__annotations__, (globals()[name] for name in __all__ if name != "job"))
globals().update({name: told_names(globals()[name], "; of a job: fastacct.epsilon(job, ...)") for name in __all__})
