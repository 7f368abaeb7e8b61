"""What one mechanism gives beside its guarantee: the error of a release."""

from __future__ import annotations

from fastacct.core.inputs import COUNT, POSITIVE, as_number
from fastacct.core.words import told_names
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.error import ErrorLaw


@told_names
def utility(mechanism: Mechanism, *, contribution: float = 1.0, records: float = 1, **about: object) -> ErrorLaw:
    """The distribution of the error of one release: its mean square, tail and quantiles.

    **Guarantee.** Exact to 1e-10; where only a bound is known, `is_exact` is False, and mean
    square, tail and quantiles are never below the truth.  `published` is the quantile of the published theorem.

    Parameters
    ----------
    mechanism : Mechanism
        In plain numbers.
    contribution : float
        Largest contribution of one record (the clipping norm), or sensitivity of a score: the unit of the error.
    records : int
        Number of records of a mean: the error of the sum is divided by it.
    **about
        What this mechanism's error depends on: `dimension` of additive noise (default 1), the `step` of a tree or
        of DP-FTRL (an array gives arrays); `scores` or number of `outcomes` of a selection; `queries` of
        `AboveThreshold` and `SparseVector`; `gamma` of `Staircase`; `respondents` and `share`
        of randomised response (rounded to whole people); `monotone` of `Exponential`.

    Returns
    -------
    ErrorLaw
        With `mean_square`, `root_mean_square`, `tail(t)`, `quantile(beta)`, `published(beta)`, `is_exact`, `source`.

    Raises
    ------
    TypeError, ValueError
        Naming what the error of the mechanism depends on, or why it is not known.

    Examples
    --------
    >>> import fastacct as fa
    >>> error = fa.utility(fa.Laplace(2.0), dimension=10)
    >>> error.mean_square, round(error.quantile(0.05), 6), round(error.published(0.05), 6)
    (80.0, 10.550688, 10.596635)
    >>> fa.utility(fa.TreeAggregation(8.0, steps=1000), step=[1, 2, 3, 1000]).mean_square.tolist()
    [64.0, 64.0, 128.0, 384.0]
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be one mechanism, whose release has an error of its own, not {mechanism!r}")
    if mechanism.shape:
        raise TypeError(f"mechanism has parameters of shape {mechanism.shape}; ask for one mechanism at a time")
    by = as_number("contribution", contribution, POSITIVE) / as_number("records", records, COUNT)
    law = mechanism.error_law(**about)
    return law if by == 1.0 else law.scaled(by)
