"""The Rényi accountant: divergences, converted at the best order."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from fastacct.accountants.base import Fixed, Method, Wanted, by_kernel
from fastacct.core.bounds import Bounds
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import CONVERTED, Cells, Codes, Reals, as_cells, as_choice, as_listed
from fastacct.core.words import told_names
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import Ask, Settings
from fastacct.readers.job import by_cells, owners
from fastacct.readers.renyi import CONVERSIONS, Conversion, merged_runs
from fastacct_ext import _kernels

__all__ = ["CONVERSIONS", "RDP", "Conversion"]


class RDP(Method):
    """Rényi differential privacy, with the best order found in continuous alpha > 1.

    **Guarantee.** Certified upper bounds on epsilon and delta of every job whose divergences are known, rounding
    included: every order gives a valid bound, and the one reported is evaluated with its error ledger.  For Gaussians
    and their Poisson samples under "add" the bound of "remove" is used, which is never smaller.

    Parameters
    ----------
    orders : iterable of float, optional
        Restrict the search to these orders (all > 1), as other libraries do.  Default: every real order up to 1e11.
    conversion : {"canonne_kamath_steinke", "mironov", "optimal"}
        From RDP to (epsilon, delta).  "optimal" (Asoodeh et al. 2021) is the best any single point of the curve can
        give and costs about 100 times more.

    Raises
    ------
    TypeError, ValueError
        For orders that are not numbers > 1, or an unknown conversion.

    References
    ----------
    Mironov 2017; Mironov, Talwar, Zhang 2019; Canonne, Kamath, Steinke 2020; Asoodeh, Liao, Calmon, Kosut, Sankar 2021.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.1, sample_rate=256 / 60000, steps=14062, delta=1e-5)
    >>> [round(fa.dpsgd.epsilon(**run, accountant=a), 4) for a in (fa.RDP(), fa.RDP(conversion="mironov"))]
    [2.5965, 3.0083]
    """

    orders: tuple[float, ...] | None = None
    conversion: Conversion = "canonne_kamath_steinke"

    @told_names
    def __init__(self, orders: Reals | None = None, conversion: Conversion = "canonne_kamath_steinke") -> None:
        if orders is not None:
            object.__setattr__(self, "orders", _as_orders(orders))
        if not (isinstance(conversion, str) and str(conversion) == "cks"):
            object.__setattr__(self, "conversion", as_choice("conversion", conversion, CONVERSIONS))

    @property
    def is_usual(self) -> bool:
        """Whether nothing is set."""
        return self.orders is None and self.conversion == "canonne_kamath_steinke"

    def _options(self) -> tuple[_kernels.Conversion, Cells | None]:
        orders = None if self.orders is None else np.asarray(self.orders, dtype=np.float64)
        return _kernels.Conversion[self.conversion.upper()], orders

    @property
    def _settings(self) -> Settings:
        return Settings(("pure", "divergences"), orders=self._options()[1], conversion=self.conversion)

    def reading(self, job: Process, ask: Ask) -> tuple[str, Settings | None]:
        """The best order, of sampled Gaussians by the kernels."""
        if job.sampled(ask.relation) is None:
            return "divergences", self._settings
        order = float(self.with_order(job, ask)[2])
        return "Rényi divergence" + ("" if math.isnan(order) else f" of order {order:.6g}"), None

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified upper bounds: by the kernels where the job is of sampled Gaussians, else by sums of divergences."""
        self._refuse_lower(ask)
        if job.sampled(ask.relation) is None:
            if self.conversion == "optimal":
                raise ValueError("conversion = 'optimal' is offered for Gaussians and their Poisson samples only")
            return by_cells(job.decompose(ask.relation), ask, self._settings)
        values, status, _ = self.with_order(job, ask)
        return Bounds(np.zeros(ask.shape), values, status)

    def with_order(self, job: Process, ask: Ask) -> tuple[Cells, Codes, Cells]:
        """Upper bounds of a job of sampled Gaussians, and the order at which each was found."""
        sampled, (conversion, orders) = self._sampled(job, ask.relation), self._options()
        quantity = _kernels.Quantity.DELTA if ask.quantity == "delta" else _kernels.Quantity.EPSILON
        if (run := sampled.run) is not None:
            kernel = partial(_kernels.renyi_upper, quantity=quantity, conversion=conversion, orders=orders)
            (values, order), status = run_kernel(partial(kernel, *run, ask.target), ask.shape, 2, ask.threads)
            return values, status, order
        columns = sampled.runs
        owner, target = owners(job.shape, ask.shape), np.broadcast_to(ask.target, ask.shape).ravel()
        values, order, status = np.empty(target.size), np.empty(target.size), np.empty(target.size, dtype=np.uint8)
        for cell in range(math.prod(job.shape)):
            mine = np.flatnonzero(owner == cell)
            out = np.empty(mine.size), np.empty(mine.size), np.empty(mine.size, dtype=np.uint8)
            history = (*merged_runs(columns, cell), target[mine])
            _kernels.renyi_of_history(*history, *out, quantity=quantity, conversion=conversion, orders=orders)
            values[mine], order[mine], status[mine] = out
        return values.reshape(ask.shape), status.reshape(ask.shape), order.reshape(ask.shape)

    def calibrate(self, wanted: Wanted, fixed: Fixed, ask: Ask) -> Cells | None:
        """Safe side of the boundary, within 1e-9 relative of it."""
        if ask.relation == "replace_one":
            return None
        conversion, orders = self._options()
        kernel = partial(_kernels.calibrate_renyi, conversion=conversion, orders=orders)
        return by_kernel(kernel, wanted, fixed, ask)


def _as_orders(orders: object) -> tuple[float, ...]:
    values = np.atleast_1d(as_cells("orders", as_listed("orders", orders), CONVERTED))
    if values.ndim != 1:
        raise ValueError(f"orders must be one-dimensional, not of shape {values.shape}")
    return tuple(values.tolist())
