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
