"""Running totals: what has been spent, and what may still be run."""
