"""Older theorems as their sources state them: composition of (epsilon, delta), conversions, classical calibrations.

Here to compare with; for numbers to use take the verbs (`fa.epsilon`, `fa.calibrate`).
"""

from fastacct.textbook import classical, composition, convert

__all__ = ["classical", "composition", "convert"]
