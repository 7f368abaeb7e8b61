"""Rényi divergences of any mechanism on a random sample of fixed size, from its own."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

__all__ = ["ORDERS", "sampled_divergences"]

ORDERS: Final = np.arange(2.0, 257.0)
"""Where the divergences of samples are known."""


def sampled_divergences(rate: float, own: Any) -> Any:
    """Upper bounds of the divergences at `ORDERS` of a mechanism on a sample of fixed size, where a record is replaced.

    `own` are those of the mechanism on all records at the same orders, for the same relation.  Wang, Balle,
    Kasiviswanathan 2019, theorem 9; rounded up.
    """
    log_factorials = np.append(0.0, np.cumsum(np.log(np.arange(1.0, ORDERS[-1] + 1.0))))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        terms = ORDERS * math.log(rate) + math.log(2.0) + (ORDERS - 1.0) * own
        terms[0] = min(terms[0], 2.0 * math.log(rate) + math.log(4.0) + np.log(np.expm1(own[0])))
        error = 1e-13 * (log_factorials[-1] + ORDERS[-1] + np.where(terms > -np.inf, np.abs(terms), 0.0))
        found = np.empty_like(own)
        for i, order in enumerate(ORDERS.astype(int)):
            some = np.arange(2, order + 1)
            chosen = log_factorials[order] - log_factorials[some] - log_factorials[order - some] + terms[: i + 1]
            found[i] = np.logaddexp.reduce(np.append(0.0, chosen + error[: i + 1])) / (order - 1)
    return found * (1.0 + 1e-13)
