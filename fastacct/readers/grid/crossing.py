"""Where delta meets a target: the search that the grid readers share, rounded to the side asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

from fastacct.losses.loss import ROUNDING, weighted
from fastacct.losses.measure import GridMeasure, as_source, grid_delta
from fastacct.readers.grid.composition import saddle_of_delta

__all__ = ["crossing", "grid_epsilon", "sum_of"]


def sum_of(value: float, other: float, upwards: bool) -> float:
    """A sum, rounded to one side."""
    total = value + other
    if other == 0.0 or value == 0.0:
        return total
    return total * (1.0 + 2.0 * ROUNDING) if upwards else total * (1.0 - 2.0 * ROUNDING)


def crossing(
    delta_at: Callable[[float], float], delta: float, guess: float, slope: float, top: float
) -> tuple[float, float]:
    """Epsilons close together with delta_at(low) > delta >= delta_at(high), or low = 0, or high = `top`."""
    low, high = 0.0, top
    point = guess if low < guess < high else 0.5 * (low + high)
    log_delta, last = math.log(delta), (0.0, 0.0)
    for attempt in range(100):
        value = delta_at(point)
        if value > delta:
            low = point
        else:
            high = point
        if high - low <= 1e-12 * high:
            break
        error = (math.log(value) if value > 0.0 else -750.0) - log_delta
        if attempt and last[0] != point and (error - last[1]) * (point - last[0]) < 0.0:
            slope = (last[1] - error) / (point - last[0])
        last = (point, error)
        step = error / slope
        # past the root by a little: the other end of the bracket comes close, too
        step += math.copysign(max(1e-3 * abs(step), 3e-13 * point), step)
        point += step
        if not low < point < high or attempt % 8 == 7:
            point = 0.5 * (low + high)
    return low, high


def grid_epsilon(measure: GridMeasure, delta: float, is_upper: bool) -> float:
    """Smallest epsilon >= 0 at which a measure has at most this delta, rounded to the safe side."""
    if delta >= 1.0:
        return 0.0
    if measure.infinite > delta:
        return math.inf
    sketch = weighted(as_source(measure), 1)
    if not sketch[1].size:
        return 0.0
    sign = 1.0 if is_upper else -1.0
    top = measure.origin + measure.spacing * (measure.mass.size - 1)
    top += sign * (measure.slack + 8.0 * ROUNDING * (abs(measure.origin) + measure.spacing * measure.mass.size))
    if measure.infinite == delta:
        return max(top, 0.0)
    tilt, guess, _ = saddle_of_delta([sketch], math.log(delta - measure.infinite))
    if grid_delta(measure, 0.0, is_upper) <= delta:
        return 0.0
    pair = crossing(lambda epsilon: grid_delta(measure, epsilon, is_upper), delta, guess, tilt, max(top, 0.0))
    return pair[1] if is_upper else pair[0]
