import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]

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
def spread(place: Cells, weight: Cells, n: int, out: Cells) -> None: ...

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
