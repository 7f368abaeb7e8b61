"""Older theorems as their sources state them, to compare with; for numbers to use take the verbs (`fa.epsilon`).

>>> import fastacct as fa
>>> round(fa.textbook.classical.gaussian_noise_multiplier(epsilon=0.5, delta=1e-5), 3)
9.69
"""

from fastacct.textbook import classical, composition, convert, generalization

__all__ = ["classical", "composition", "convert", "generalization"]
