"""Accountants: configuration objects that say how a run of DP-SGD is read.

Every accountant answers the quantities it can and refuses the others with a message; none falls back to another
silently.  Numbers are computed in the kernels; here is only which kernel, with which options.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

import numpy as np

from fastacct._arrays import DOMAINS, Cells, Codes, as_cells, as_choice, run_kernel
from fastacct.bounds import Bounds
from fastacct_ext import _kernels

__all__ = [
    "CLT",
    "RDP",
    "AdvancedComposition",
    "AnalyticGaussian",
    "BasicComposition",
    "Method",
    "ZCDPComposition",
]

CONVERSIONS: Final = ("mironov", "canonne_kamath_steinke", "optimal")
SAMPLED_PAIR: Final = ("add_remove", "add", "remove", "zero_out")
"""Relations whose dominating pair is the sampled Gaussian against the Gaussian, in one order or both."""
NEIGHBORS: Final = (*SAMPLED_PAIR, "replace_one")
SOLVE_FOR: Final = {"noise_multiplier": 0, "sample_rate": 1, "steps": 2}
"""What a calibration may ask for, as the kernels number it."""


@dataclass(frozen=True)
class Question:
    """What is asked of an accountant: validated float64 arrays, not yet broadcast, and how to read them.

    ============================  ============================================================
    wanted                        cells
    ============================  ============================================================
    "epsilon"                     noise_multiplier, sample_rate, steps, delta
    "delta"                       noise_multiplier, sample_rate, steps, epsilon
    "noise_multiplier"            epsilon, delta, sample_rate, steps
    "sample_rate"                 epsilon, delta, noise_multiplier, steps
    "steps"                       epsilon, delta, noise_multiplier, sample_rate
    ============================  ============================================================

    With `history` the first three cells are the blocks of one run (flat, of one length), and `shape` is that of the
    target; otherwise it is the broadcast shape of all cells.
    """

    wanted: str
    cells: tuple[Cells, Cells, Cells, Cells]
    shape: tuple[int, ...]
    neighbors: str = "add_remove"
    threads: int = 1
    history: bool = False


class Answer(NamedTuple):
    """Values of a question's shape, a `Status` code each, and the order each was found at (if any)."""

    values: Cells
    status: Codes
    order: Cells | None = None


@dataclass(frozen=True)
class Method:
    """Base of all accountants: a configuration that answers questions, or refuses with a message."""

    certified: ClassVar[bool] = True
    """Whether the answers are proved upper bounds; the others are reached through `*_approx` functions only."""
    relations: ClassVar[tuple[str, ...]] = SAMPLED_PAIR
    """Neighbouring relations that it covers."""

    def read(self, question: Question) -> Answer:
        """Epsilon or delta: an upper bound where `certified`."""
        raise self.cannot(question.wanted)

    def bounds(self, question: Question) -> Bounds:
        """Certified lower and upper bounds of epsilon or delta."""
        raise ValueError(f"accountant {type(self).__name__} proves no lower bound; use fastacct.Exact()")

    def calibrate(self, question: Question) -> Answer:
        """The parameter wanted, on the safe side of the boundary."""
        raise self.cannot(f"calibration of {question.wanted}")

    def cannot(self, what: str) -> ValueError:
        """The error of an accountant that does not offer something."""
        return ValueError(f"accountant {type(self).__name__} does not offer {what}; use fastacct.Exact()")

    def one_block(self, question: Question) -> None:
        """Refuse a heterogeneous history."""
        if question.history:
            raise self.cannot(f"{question.wanted} of a heterogeneous history")


@dataclass(frozen=True)
class RDP(Method):
    """Rényi differential privacy, with the best order found in continuous alpha > 1.

    **Guarantee.** Certified upper bounds on epsilon and delta of Poisson-subsampled Gaussians under add/remove (and
    zero-out) adjacency, floating-point rounding included: every order gives a valid bound, and the one reported is
    evaluated with its error ledger.  For "add" alone the bound of "remove" is used, which is never smaller.

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
    conversion: str = "canonne_kamath_steinke"

    def __init__(
        self, orders: Iterable[float] | float | None = None, conversion: str = "canonne_kamath_steinke"
    ) -> None:
        if orders is not None:
            if isinstance(orders, Iterable) and not isinstance(orders, np.ndarray | str | bytes | dict | set):
                orders = list(orders)
            values = np.atleast_1d(as_cells("orders", orders, DOMAINS["orders"]))
            if values.ndim != 1:
                raise ValueError(f"orders must be one-dimensional, not of shape {values.shape}")
            object.__setattr__(self, "orders", tuple(float(x) for x in values))
        else:
            object.__setattr__(self, "orders", None)
        object.__setattr__(self, "conversion", as_choice("conversion", conversion, CONVERSIONS))

    def _options(self) -> tuple[int, Cells | None]:
        orders = None if self.orders is None else np.asarray(self.orders, dtype=np.float64)
        return CONVERSIONS.index(self.conversion), orders

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        conversion, orders = self._options()
        for_delta = question.wanted == "delta"
        *run, target = question.cells
        if question.history:
            values, order, status = np.empty(target.size), np.empty(target.size), np.empty(target.size, dtype=np.uint8)
            flat = np.ascontiguousarray(target.ravel())
            _kernels.history(run[0], run[1], run[2], flat, for_delta, conversion, orders, values, order, status)
            return Answer(values.reshape(target.shape), status.reshape(target.shape), order.reshape(target.shape))
        (values, order), status = run_kernel(
            _kernels.Op.READOUT,
            question.cells,
            question.shape,
            2,
            question.threads,
            option=int(for_delta),
            conversion=conversion,
            orders=orders,
        )
        return Answer(values, status, order)

    def calibrate(self, question: Question) -> Answer:
        """Safe side of the boundary, within 1e-9 relative of it."""
        conversion, orders = self._options()
        (values,), status = run_kernel(
            _kernels.Op.CALIBRATE,
            question.cells,
            question.shape,
            1,
            question.threads,
            option=SOLVE_FOR[question.wanted],
            conversion=conversion,
            orders=orders,
        )
        return Answer(values, status)


@dataclass(frozen=True)
class ZCDPComposition(Method):
    """Zero-concentrated DP: rho = steps / (2 noise_multiplier^2), converted through every order.

    **Guarantee.** Certified upper bounds.  zCDP has no amplification by sampling, so `sample_rate` counts only as
    zero or not zero: this accountant is here to show what the others gain.  Source: Bun and Steinke 2016; conversion
    of Canonne, Kamath, Steinke 2020.
    """

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        self.one_block(question)
        sigma, q, steps, target = question.cells
        return RDP().read(replace(question, cells=(sigma, np.ceil(q), steps, target)))


@dataclass(frozen=True)
class AnalyticGaussian(Method):
    """The exact privacy curve of composed Gaussians without subsampling (sample_rate = 1 or 0).

    **Guarantee.** Upper bound, equal to the truth up to about 1e-12 relative.  Refuses 0 < sample_rate < 1.
    Source: Balle and Wang 2018, theorem 8; composition of Gaussians is a Gaussian with mu = sqrt(steps) /
    noise_multiplier.
    """

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        self.one_block(question)
        sigma, q, steps, _ = question.cells
        bad = (q > 0.0) & (q < 1.0)
        if bad.any():
            value = float(q[bad].flat[0])
            raise ValueError(
                f"sample_rate = {value!r}: AnalyticGaussian covers sample_rate 0 or 1 only; use fastacct.Exact()"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where((q > 0.0) & (steps > 0.0), np.sqrt(steps) / sigma * (1.0 + 1e-15), 0.0)
        return gaussian_answer(question, mu)


def gaussian_answer(question: Question, mu: Cells) -> Answer:
    """Epsilon or delta of N(mu, 1) against N(0, 1)."""
    target, shape, threads = question.cells[3], question.shape, question.threads
    if question.wanted == "epsilon":
        (values,), status = run_kernel(_kernels.Op.CLASSICAL, (mu, mu, mu, target), shape, 1, threads, option=0)
    else:
        (values,), status = run_kernel(_kernels.Op.GAUSSIAN_DELTA, (mu, target), shape, 1, threads)
    return Answer(values, status)


@dataclass(frozen=True)
class _Classical(Method):
    """Shared by the two rules that compose (epsilon, delta) pairs."""

    rule: ClassVar[int]

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        self.one_block(question)
        if question.wanted != "epsilon":
            raise self.cannot(question.wanted)
        (values,), status = run_kernel(
            _kernels.Op.CLASSICAL, question.cells, question.shape, 1, question.threads, option=self.rule
        )
        return Answer(values, status)


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
class CLT(Method):
    """The central-limit (Gaussian DP) approximation, mu = sample_rate sqrt(steps (exp(1/noise_multiplier^2) - 1)).

    **No guarantee**: it can be far below the truth (12 % at sigma 1, q 0.01, 1000 steps, delta 1e-5).
    `dpsgd.epsilon` refuses it; `dpsgd.epsilon_approx` and `dpsgd.delta_approx` accept it.  Source: Bu, Dong, Long, Su
    2020.
    """

    certified: ClassVar[bool] = False

    def read(self, question: Question) -> Answer:
        """Approximation, not a bound."""
        self.one_block(question)
        run = question.cells[:3]
        shape = np.broadcast_shapes(*(x.shape for x in run))
        (mu,), _ = run_kernel(_kernels.Op.CLT_MU_APPROX, run, shape, 1, question.threads)
        return gaussian_answer(question, mu)
