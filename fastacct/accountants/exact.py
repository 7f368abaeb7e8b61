"""The exact accountant: the privacy curve itself, between certified bounds."""

from __future__ import annotations

from functools import partial

from fastacct.accountants.base import Fixed, Method, Wanted, by_kernel
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import Cells
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import EXACTLY, Ask, Settings
from fastacct.readers.cell_job import CELLS_PER_TASK
from fastacct.readers.contour import kernel_directions
from fastacct.readers.job import exact
from fastacct_ext import _kernels


class Exact(Method):
    """The exact privacy curve, by one contour integral per answer.  The default accountant.

    **Guarantee.** `epsilon` and `delta` are upper bounds, `*_lower` lower bounds of the true value for Poisson sampling
    and the neighbouring relation named.  Truncation, aliasing, quadrature and rounding are in the ledger.  Bounds are
    5e-12 apart in the median (relative).  Where the integral cannot be certified the upper bound is Chernoff's or Rényi
    DP's (for "replace_one": of a group of two under "add_remove"), the lower bound may be 0, and the status of
    `*_bounds` is `LOOSE`.  Under "replace_one" each cell is a job of its own and slower, calibration much slower.

    References
    ----------
    Zhu, Dong, Wang 2022 (dominating pairs); Alghamdi et al. 2023 (contour and saddle point); Balle, Barthe, Gaboardi
    2018 (one step); Balle and Wang 2018 (without sampling).

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> lower, upper, status = fa.dpsgd.epsilon_bounds(**run)
    >>> round(upper, 6), upper - lower < 1e-9, fa.Status(status).name
    (1.828237, True, 'TIGHT')
    """

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified lower and upper bounds."""
        return exact(job, ask)

    def reading(self, job: Process, ask: Ask) -> tuple[str, Settings | None]:
        """All rungs."""
        return "contour", EXACTLY

    def calibrate(self, wanted: Wanted, fixed: Fixed, ask: Ask) -> Cells | None:
        """Safe side of the boundary, within 1e-8 relative of it."""
        if ask.relation == "replace_one":
            return None
        kernel = partial(_kernels.calibrate_exact, directions=kernel_directions(ask.relation))
        return by_kernel(kernel, wanted, fixed, ask, CELLS_PER_TASK)
