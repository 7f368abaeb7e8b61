"""Accountants: configuration objects that say how a run of DP-SGD is read.

Every accountant answers the quantities it can and refuses the others with a message; none falls back to another
silently.  Numbers are computed in the kernels; here is only which kernel, with which options.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fastacct._arrays import Cells, Codes, as_cells, as_choice, run_kernel
from fastacct_ext import _kernels

__all__ = [
    "CLT",
    "RDP",
    "ZCDP",
    "Accountant",
    "AdvancedComposition",
    "AnalyticGaussian",
    "BasicComposition",
]

CONVERSIONS: Final = ("mironov", "canonne_kamath_steinke", "optimal")
Quartet = tuple[Cells, Cells, Cells, Cells]
"""noise_multiplier, sample_rate, steps and the target (delta or epsilon), in this order."""
Answer = tuple[Cells, Cells | None, Codes]
"""Values, the order each was found at (if any), status codes."""
_SOLVE_FOR: Final = {"noise_multiplier": 0, "sample_rate": 1, "steps": 2}


@dataclass(frozen=True)
class Accountant:
    """Base of all accountants: arrays are validated float64, shapes already broadcast."""

    certified: ClassVar[bool] = True
    """Whether the answers are proved upper bounds; the others are reached through `*_approx` functions only."""

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Epsilon of each cell, the order it was found at (if any) and status codes."""
        raise self._cannot("epsilon")

    def delta(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Delta of each cell, the order it was found at (if any) and status codes."""
        raise self._cannot("delta")

    def history(self, blocks: tuple[Cells, Cells, Cells], target: Cells, quantity: str) -> Answer:
        """One heterogeneous run at flat targets."""
        raise self._cannot(f"{quantity} of a heterogeneous history")

    def calibrate(self, solve_for: str, target: Quartet, shape: tuple[int, ...], threads: int) -> tuple[Cells, Codes]:
        """The parameter `solve_for` from epsilon, delta and the other two parameters."""
        raise self._cannot(f"calibration of {solve_for}")

    def _cannot(self, what: str) -> ValueError:
        return ValueError(f"accountant {type(self).__name__} does not offer {what}; use fastacct.RDP()")


@dataclass(frozen=True)
class RDP(Accountant):
    """Rényi differential privacy, with the best order found in continuous alpha > 1.

    **Guarantee.** Certified upper bounds on epsilon and delta of Poisson-subsampled Gaussians under add/remove (and
    zero-out) adjacency,
    floating-point rounding included: every order gives a valid bound, and the one reported is evaluated with its
    error ledger.

    Parameters
    ----------
    orders : iterable of float, optional
        Restrict the search to these orders (all > 1), as other libraries do.  Default: every real order up to 1e11.
    conversion : {"canonne_kamath_steinke", "mironov", "optimal"}
        From RDP to (epsilon, delta).  "optimal" (Asoodeh et al. 2021) is the best any single point of the curve can
        give and costs about
        100 times more.

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
    >>> fa.dpsgd.epsilon(**run) < fa.dpsgd.epsilon(**run, accountant=fa.RDP(conversion="mironov"))
    True
    """

    orders: tuple[float, ...] | None = None
    conversion: str = "canonne_kamath_steinke"

    def __init__(
        self, orders: Iterable[float] | float | None = None, conversion: str = "canonne_kamath_steinke"
    ) -> None:
        if orders is not None:
            if isinstance(orders, Iterable) and not isinstance(orders, np.ndarray | str | bytes | dict | set):
                orders = list(orders)
            values = np.atleast_1d(as_cells("orders", orders))
            if values.ndim != 1:
                raise ValueError(f"orders must be one-dimensional, not of shape {values.shape}")
            object.__setattr__(self, "orders", tuple(float(x) for x in values))
        else:
            object.__setattr__(self, "orders", None)
        object.__setattr__(self, "conversion", as_choice("conversion", conversion, CONVERSIONS))

    def _options(self) -> tuple[int, Cells | None]:
        return CONVERSIONS.index(self.conversion), None if self.orders is None else np.asarray(
            self.orders, dtype=np.float64
        )

    def _readout(self, run: Quartet, shape: tuple[int, ...], threads: int, for_delta: int) -> Answer:
        conversion, orders = self._options()
        (values, order), status = run_kernel(
            _kernels.Op.READOUT, run, shape, 2, threads, option=for_delta, conversion=conversion, orders=orders
        )
        return values, order, status

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        return self._readout(run, shape, threads, 0)

    def delta(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        return self._readout(run, shape, threads, 1)

    def history(self, blocks: tuple[Cells, Cells, Cells], target: Cells, quantity: str) -> Answer:
        """Certified upper bound of the composition of all blocks."""
        conversion, orders = self._options()
        values, order, status = np.empty(target.size), np.empty(target.size), np.empty(target.size, dtype=np.uint8)
        flat = np.ascontiguousarray(target.ravel())
        _kernels.history(*blocks, flat, quantity == "delta", conversion, orders, values, order, status)
        return values.reshape(target.shape), order.reshape(target.shape), status.reshape(target.shape)

    def calibrate(self, solve_for: str, target: Quartet, shape: tuple[int, ...], threads: int) -> tuple[Cells, Codes]:
        """Safe side of the boundary, within 1e-9 relative of it."""
        conversion, orders = self._options()
        (values,), status = run_kernel(
            _kernels.Op.CALIBRATE,
            target,
            shape,
            1,
            threads,
            option=_SOLVE_FOR[solve_for],
            conversion=conversion,
            orders=orders,
        )
        return values, status


@dataclass(frozen=True)
class ZCDP(Accountant):
    """Zero-concentrated DP: rho = steps / (2 noise_multiplier^2), converted through every order.

    **Guarantee.** Certified upper bounds.  zCDP has no amplification by sampling, so `sample_rate` counts only as
    zero or not zero: this
    accountant is here to show what the others gain.  Source: Bun and Steinke 2016; conversion of Canonne, Kamath,
    Steinke 2020.
    """

    @staticmethod
    def _without_sampling(run: Quartet) -> Quartet:
        sigma, q, steps, target = run
        return sigma, np.ceil(q), steps, target

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        return RDP().epsilon(self._without_sampling(run), shape, threads)

    def delta(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        return RDP().delta(self._without_sampling(run), shape, threads)


@dataclass(frozen=True)
class AnalyticGaussian(Accountant):
    """The exact privacy curve of composed Gaussians without subsampling (sample_rate = 1 or 0).

    **Guarantee.** Upper bound, equal to the truth up to about 1e-12 relative.  Refuses 0 < sample_rate < 1.
    Source: Balle and Wang 2018, theorem 8; composition of Gaussians is a Gaussian with mu = sqrt(steps) /
    noise_multiplier.
    """

    def _mu(self, run: Quartet, shape: tuple[int, ...]) -> Cells:
        sigma, q, steps, _ = run
        bad = (q > 0.0) & (q < 1.0)
        if bad.any():
            value = float(q[bad].flat[0])
            raise ValueError(
                f"sample_rate = {value!r}: AnalyticGaussian covers sample_rate 0 or 1 only; use fastacct.RDP()"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where((q > 0.0) & (steps > 0.0), np.sqrt(steps) / sigma * (1.0 + 1e-15), 0.0)
        return np.broadcast_to(mu, shape)

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        mu = self._mu(run, shape)
        (values,), status = run_kernel(_kernels.Op.CLASSICAL, (mu, mu, mu, run[3]), shape, 1, threads, option=0)
        return values, None, status

    def delta(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        mu = self._mu(run, shape)
        (values,), status = run_kernel(_kernels.Op.GAUSSIAN_DELTA, (mu, run[3]), shape, 1, threads)
        return values, None, status


@dataclass(frozen=True)
class _Classical(Accountant):
    """Shared by the two rules that compose (epsilon, delta) pairs."""

    rule: ClassVar[int]

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Certified upper bound."""
        (values,), status = run_kernel(_kernels.Op.CLASSICAL, run, shape, 1, threads, option=self.rule)
        return values, None, status


@dataclass(frozen=True)
class BasicComposition(_Classical):
    """Epsilons and deltas add up: (steps * eps0, steps * delta0), each step subsampled and calibrated exactly.

    **Guarantee.** Upper bound; for comparison.  Source: Dwork et al. 2006; sampling: Balle, Barthe, Gaboardi 2018.
    """

    rule: ClassVar[int] = 1


@dataclass(frozen=True)
class AdvancedComposition(_Classical):
    """The strong composition theorem, half of delta spent on the steps and half on the slack.

    **Guarantee.** Upper bound; for comparison.  Source: Dwork, Rothblum, Vadhan 2010; sampling: Balle, Barthe,
    Gaboardi 2018.
    """

    rule: ClassVar[int] = 2


@dataclass(frozen=True)
class CLT(Accountant):
    """The central-limit (Gaussian DP) approximation, mu = sample_rate sqrt(steps (exp(1/noise_multiplier^2) - 1)).

    **No guarantee**: it can be far below the truth (12 % at sigma 1, q 0.01, 1000 steps, delta 1e-5).
    `dpsgd.epsilon` refuses it;
    `dpsgd.epsilon_approx` and `dpsgd.delta_approx` accept it.  Source: Bu, Dong, Long, Su 2020.
    """

    certified: ClassVar[bool] = False

    def _mu(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Cells:
        (mu,), _ = run_kernel(_kernels.Op.CLT_MU_APPROX, run[:3], shape, 1, threads)
        return mu

    def epsilon(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Approximation, not a bound."""
        mu = self._mu(run, shape, threads)
        (values,), status = run_kernel(_kernels.Op.CLASSICAL, (mu, mu, mu, run[3]), shape, 1, threads, option=0)
        return values, None, status

    def delta(self, run: Quartet, shape: tuple[int, ...], threads: int) -> Answer:
        """Approximation, not a bound."""
        mu = self._mu(run, shape, threads)
        (values,), status = run_kernel(_kernels.Op.GAUSSIAN_DELTA, (mu, run[3]), shape, 1, threads)
        return values, None, status
