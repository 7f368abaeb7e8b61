"""Types of the public surface.

A function of numbers and arrays is overloaded twice: plain numbers alone give a float, an array among them an array::

    @overload
    def f(epsilon: Real, order: Real) -> float: ...
    @overload
    def f(epsilon: Reals, order: Reals) -> Floats: ...
    def f(epsilon: Reals, order: Reals) -> float | Floats:

The element types of arrays are checked as far as NumPy knows them, shapes are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Real: TypeAlias = float | int | np.floating[Any] | np.integer[Any]
"""A plain number.  (True and False are integers to a type checker; they are refused when called.)"""

_Row: TypeAlias = NDArray[np.floating[Any] | np.integer[Any]] | Sequence[Real]
RealArray: TypeAlias = _Row | Sequence[_Row] | Sequence[Sequence[_Row]]
"""An array of numbers, or up to three nested sequences.  (An alias that refers to itself would admit strings.)"""

Reals: TypeAlias = Real | RealArray

Floats: TypeAlias = NDArray[np.float64]

Relation: TypeAlias = Literal["add_remove", "add", "remove", "zero_out", "replace_one"]

Conversion: TypeAlias = Literal["canonne_kamath_steinke", "mironov", "optimal"]
