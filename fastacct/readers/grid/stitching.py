"""A composed measure to keep: each mass from the exponential tilt that knows it best."""

from __future__ import annotations

import math

import numpy as np

from fastacct.losses.loss import ROUNDING
from fastacct.losses.measure import GridMeasure
from fastacct.readers.grid.composition import Composition
from fastacct.readers.grid.window import Window, sum_of

__all__ = ["stitched"]


def stitched(composition: Composition, smallest: float) -> GridMeasure:
    """The composed measure, each mass from the exponential tilt that knows it best.

    Tilts go from 0 to where delta is about `smallest`.  Losses below the first window are moved up to it, those beyond
    the last one to infinity (or are dropped, in a lower measure).
    """
    is_upper, spacing = composition.is_upper, composition.spacing
    infinite = composition.infinite()
    if composition.has_no_finite_loss:
        return GridMeasure(0.0, spacing, np.zeros(1), infinite, bottom=0.0 if is_upper else composition.finite())
    pieces: list[Window] = []
    tilt = 0.0
    for _ in range(64):
        piece = composition.window(tilt, -46.0, 1 << 22)
        if pieces and piece.offset > max(one.offset + one.mass.size for one in pieces):
            break
        pieces.append(piece)
        moment = composition.moment(tilt)
        width = math.sqrt(moment.variance)
        if moment.value - tilt * moment.mean < math.log(smallest) - 3.0 or moment.mean + width >= composition.top:
            break
        tilt += 6.0 / max(width, spacing)
    first = min(piece.offset for piece in pieces)
    stop = max(piece.offset + piece.mass.size for piece in pieces)
    mass = np.full(stop - first, np.inf if is_upper else 0.0)
    missing = math.inf
    for piece in pieces:
        mine = slice(piece.offset - first, piece.offset - first + piece.mass.size)
        loss = piece.first + spacing * np.arange(piece.mass.size)
        exponent = piece.log_scale - piece.tilt * loss
        size = abs(piece.first) + spacing * piece.mass.size
        error = 4.0 * ROUNDING * (abs(piece.log_scale) + piece.tilt * (np.abs(loss) + size) + 8.0)
        if is_upper:
            masses = (np.maximum(piece.mass, 0.0) + piece.each_error) * np.exp(np.minimum(exponent + error, 700.0))
            mass[mine] = np.minimum(mass[mine], np.maximum(masses, 2.0**-1022))
            beyond = piece.log_scale - piece.tilt * composition.loss_at(piece.offset + piece.mass.size)
            if piece.offset + piece.mass.size == stop:
                missing = min(missing, piece.above * math.exp(min(beyond + float(error[-1]), 700.0)))
        else:
            masses = piece.mass - (piece.each_error + piece.below + piece.above)
            masses = np.maximum(masses, 0.0) * np.exp(np.minimum(exponent - error, 700.0))
            mass[mine] = np.maximum(mass[mine], masses)
    if is_upper:
        # the first piece is not tilted
        mass[pieces[0].offset - first] += pieces[0].below * math.exp(pieces[0].log_scale) * (1.0 + 1e-9)
        mass *= 1.0 + 4.0 * ROUNDING
        infinite = sum_of(infinite, missing, True)
    bottom = 0.0 if is_upper else max(0.0, composition.finite() - float(mass.sum()) * (1.0 + 1e-14))
    slack = composition.slack + 2.0 * ROUNDING * (abs(composition.loss_at(first)) + spacing)
    return GridMeasure(composition.loss_at(first), spacing, mass, min(infinite, 1.0), slack, bottom)
