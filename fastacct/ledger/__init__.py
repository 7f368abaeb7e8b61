"""Running totals: what has been spent, and what may still be run."""

from fastacct.ledger.accountant import Accountant, BudgetExceededError

__all__ = ["Accountant", "BudgetExceededError"]
