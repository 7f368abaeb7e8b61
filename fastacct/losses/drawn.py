"""One of several losses that are data, drawn in sight of everyone, and the same without those that are hardly ever."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fastacct.core.inputs import ROUNDING
from fastacct.losses.loss import LEAST_TAIL
from fastacct.losses.pieces import NO_ATOMS, NO_PANELS, Lost, Pieces


def left_out(mass: float = 0.0) -> Lost:
    """What is further out than any density is counted, and this mass: an infinite loss."""
    return Lost((0.0, mass + LEAST_TAIL), (0.0, mass + LEAST_TAIL))


def drawn(parts: Sequence[tuple[float, Pieces]], lost: float) -> Pieces:
    """One of several, drawn with these weights in sight of everyone; `lost` is an infinite loss."""
    atoms, panels = [NO_ATOMS], [NO_PANELS]
    for weight, pieces in parts:
        atoms.append(pieces.atoms + np.array([0.0, math.log(weight), 0.0, 8.0]))
        panels.append(pieces.panels + np.array([0.0, 0.0, math.log(weight), *[0.0] * 4, 8.0, *[0.0] * 4]))
    is_mirrored = all(pieces.is_mirrored for _, pieces in parts)
    rows = np.concatenate(panels)  # those of one loss follow each other: the kernels lay nodes for their sum
    order = np.lexsort((rows[:, 0], rows[:, 4], -rows[:, 10]))
    return Pieces(np.concatenate(atoms), rows[order], lost=left_out(lost), is_mirrored=is_mirrored, parts=tuple(parts))


def without(pieces: Pieces, most: float) -> tuple[Pieces, float]:
    """The same without parts that are hardly ever drawn, and the weight of these, at most `most`."""
    kept, gone = often(pieces, most)
    if not gone:
        return pieces, 0.0
    shares = [(weight / (1.0 - gone), part) for weight, part in kept]
    return replace(drawn(shares, 0.0), lost=pieces.lost), gone


def often(pieces: Pieces, most: float) -> tuple[list[tuple[float, Pieces]], float]:
    """Parts without those that are hardly ever drawn, and the weight of these, at most `most`."""
    kept, gone = sorted(pieces.parts, key=lambda part: -part[0]), 0.0
    while len(kept) > 1 and gone + kept[-1][0] <= most:
        gone += kept.pop()[0]
    return kept, gone * (1.0 + len(pieces.parts) * ROUNDING)
