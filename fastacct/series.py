"""Rényi divergences of a run of DP-SGD: by the quadrature, or at whole orders by the log-space binomial series."""

from __future__ import annotations

from typing import Final, Literal, cast

import numpy as np

from fastacct.accountants.question import plain_bounds, renyi
from fastacct.batching import batches_of
from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Domain, Reals, as_cells, as_choice, common_shape
from fastacct.core.labels import labelled
from fastacct.core.relations import as_relation
from fastacct.mechanisms.base import Count
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.run import Run, parameters, process_of, refused
from fastacct_ext import _kernels

RenyiMethod = Literal["quadrature", "series"]
_STATUSES: Final = tuple(Status)
_AT_ONCE: Final = 64
_WHOLE_ORDERS: Final = Domain(2.0, 1e6, integer=True)


@labelled("rdp")
def divergences(orders: Reals, run: Run, *, only_upper: bool, method: RenyiMethod = "quadrature") -> Bounds:
    """Bounds of the Rényi divergence of a run, as arrays."""
    if (accountant := run.get("accountant")) is not None:
        raise TypeError(f"accountant = {accountant!r}: Rényi divergences are the same for every one; leave it out")
    if run.get("history") is None and run.get("epochs") is None:
        run.setdefault("steps", 1)
    if method != "quadrature":
        return _by_series(orders, run, method)
    if len(run) == 3 and (found := _kernels.bounds_of_numbers("rdp", run, orders)) is not None:
        return Bounds(found[0], found[1], _STATUSES[found[2]])
    relation = run.get("neighbors", "add_remove")
    return plain_bounds(renyi(process_of(run), orders, relation, run.get("threads"), only_upper=only_upper))


def _by_series(orders: Reals, run: Run, method: RenyiMethod) -> Bounds:
    """One step by the binomial series, times the steps, rounded outwards; closed forms where there is no series."""
    as_choice("method", method, ("quadrature", "series"))
    refused(run, ("history",), "method = 'series' takes one run, not {}")
    if as_relation(run.get("neighbors", "add_remove")) == "replace_one" or batches_of(run) is not None:
        raise ValueError("method = 'series' is for Poisson sampling and a record that is added, removed or zeroed out")
    given = {"orders": as_cells("orders", orders, _WHOLE_ORDERS)} | parameters(run)
    shape = common_shape(given)
    order, noise, rate, steps = (np.broadcast_to(one, shape).ravel() for one in given.values())
    lower, upper = np.empty(order.size), np.empty(order.size)
    other = (rate == 0.0) | (rate == 1.0) | (noise == 0.0) | (noise == np.inf) | (order * 2.0**-22 > noise)
    for start in range(0, order.size, _AT_ONCE):  # Ctrl-C is heard between them
        own = np.flatnonzero(~other[start : start + _AT_ONCE]) + start
        if own.size:
            low, high, codes = np.empty(own.size), np.empty(own.size), np.empty(own.size, dtype=np.uint8)
            _kernels.rdp_bounds_by_series(noise[own], rate[own], order[own], low, high, codes)
            lower[own], upper[own] = low * steps[own] * (1.0 - 2.0**-51), high * steps[own] * (1.0 + 2.0**-51)
    if other.any():
        closed = Process({Gaussian(noise[other]).poisson(rate[other]): cast("Count", steps[other])})
        lower[other], upper[other], _ = renyi(closed, order[other])
    tight = np.isfinite(upper) & (np.nan_to_num(upper) - np.nan_to_num(lower) <= 1e-12 * upper)
    status = np.where(tight, Status.TIGHT, np.where(upper == np.inf, Status.NOT_MET, Status.LOOSE)).astype(np.uint8)
    return Bounds(*(one.reshape(shape) for one in (lower, upper, status)))
