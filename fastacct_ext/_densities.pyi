import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]
Complex = NDArray[np.complex128]

TOGETHER: int

def tabulate(address: int, x: Cells, out: Cells) -> None: ...
def excess_of_panel(
    log_p: int,
    log_q: int,
    loss: int,
    turned: bool,
    low: float,
    high: float,
    epsilon: float,
    points: Cells,
    weights: Cells,
    rough: int,
    good: float,
) -> tuple[float, float]: ...
def convolve(a: Cells, b: Cells, out: Cells) -> None: ...
def phases_at(weights: Cells, losses: Cells, t: float, out: Complex) -> None: ...
def phases_along(weights: Cells, losses: Cells, h: float, first: int, room: Cells, out: Complex) -> None: ...
def phases_line(size: Cells, phase: Cells, t: Cells, epsilon: float) -> tuple[float, float]: ...
def phases_size(
    size: Cells, log_f: Cells, phase: Cells, t: Cells, epsilon: float, fall: float, more: float
) -> float: ...

class TiltedMasses:
    def __init__(
        self,
        all_above: Cells,
        gain_above: Cells,
        *,
        is_upper: bool,
        first: float,
        spacing: float,
        infinite: float,
        slack: float,
        top: float,
        tilt: float,
        log_scale: float,
        each_error: float,
        norm_error: float,
        below: float,
        above: float,
        log_moment: float,
        place_error: float,
        sum_error: float,
        peak: float,
    ) -> None: ...
    def finite(self, epsilon: float) -> float: ...
    def delta(self, epsilon: float) -> float: ...
    def epsilon(self, delta: float) -> float: ...
