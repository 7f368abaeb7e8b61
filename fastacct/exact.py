"""The exact accountant: the privacy curve itself, between certified bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fastacct import _exact_runs as runs
from fastacct import _exact_search
from fastacct._arrays import Cells, Codes, run_kernel
from fastacct._jobs_exact import CELLS_PER_TASK, DIRECTIONS
from fastacct.accountants import NEIGHBORS, SOLVE_FOR, Answer, Method, Question
from fastacct.bounds import Bounds
from fastacct_ext import _kernels

__all__ = ["Exact"]


@dataclass(frozen=True)
class Exact(Method):
    """The exact privacy curve, by one contour integral per answer.  The default accountant.

    **Guarantee.** `epsilon` and `delta` are upper bounds, `*_lower` lower bounds of the true value for Poisson sampling
    and the neighbouring relation named, with truncation, aliasing, quadrature and rounding in the ledger.  They are
    typically 1e-10 apart (relative).  Where the integral cannot be certified the upper bound is that of Rényi DP (for
    "replace_one": of a group of two under "add_remove"), the lower bound may be 0, and the status of `*_bounds` is
    `LOOSE`.

    ================  ===================================================================
    neighbors         answer
    ================  ===================================================================
    "add_remove"      the larger of "add" and "remove", each composed separately
    "zero_out"        the same pair, and so the same numbers
    "replace_one"     one record exchanged for another; each cell is a job of its own and
                      slower, calibration much slower
    ================  ===================================================================

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

    relations: ClassVar[tuple[str, ...]] = NEIGHBORS

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        if question.history or question.neighbors == "replace_one":
            _, upper, status = self.bounds(question)
            return Answer(upper, status)
        (upper,), status = _run(_kernels.Op.EXACT_UPPER, question, 1, runs.WHAT[question.wanted])
        return Answer(upper, status)

    def bounds(self, question: Question) -> Bounds:
        """Certified lower and upper bounds."""
        if not question.history and question.neighbors != "replace_one":
            (lower, upper, _), status = _run(_kernels.Op.EXACT, question, 3, runs.WHAT[question.wanted])
            return Bounds(lower, upper, status)
        flat = runs.flat(question)
        bounds = runs.job_bounds(flat)
        if question.neighbors == "replace_one":
            runs.improve_by_two(flat, bounds, lambda other: self.read(other).values)
        return runs.shaped(bounds, question.shape)

    def calibrate(self, question: Question) -> Answer:
        """Safe side of the boundary, within 1e-8 relative of it."""
        if question.neighbors == "replace_one":
            return _exact_search.calibrate(question, lambda other: self.read(other).values)
        (values,), status = _run(_kernels.Op.EXACT_CALIBRATE, question, 1, SOLVE_FOR[question.wanted])
        return Answer(values, status)


def _run(op: int, question: Question, n_outputs: int, option: int) -> tuple[list[Cells], Codes]:
    return run_kernel(
        op,
        question.cells,
        question.shape,
        n_outputs,
        question.threads,
        option=option,
        conversion=DIRECTIONS[question.neighbors],
        cells_per_task=CELLS_PER_TASK,
    )
