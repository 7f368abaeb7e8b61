from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]

class Op(IntEnum):
    RDP = 0
    RDP_SERIES = 1
    READOUT = 2
    CALIBRATE = 3
    LOG_MOMENT = 4
    CLASSICAL = 5
    GAUSSIAN_DELTA = 6
    CLT_MU_APPROX = 7
    RDP_UPPER = 8
    EXACT = 9
    EXACT_UPPER = 10
    EXACT_CALIBRATE = 11

def select(name: str | None = None) -> str: ...
def level() -> str: ...
def begin() -> None: ...
def end() -> None: ...
def limit_memory(allocations: int) -> None: ...
def capped_line(
    noise_multiplier: float, sample_rate: float, steps: float, epsilon: float, budget: Cells, out: Cells
) -> bool: ...
def apply(
    op: int,
    inputs: tuple[Cells, ...],
    shape: tuple[int, ...],
    start: int,
    stop: int,
    out0: Cells | None,
    out1: Cells | None,
    out2: Cells | None,
    status: NDArray[np.uint8] | None,
    option: int = 0,
    conversion: int = 0,
    orders: Cells | None = None,
    seconds: float = ...,
) -> int: ...
def history(
    noise_multiplier: Cells,
    sample_rate: Cells,
    steps: Cells,
    target: Cells,
    for_delta: bool,
    conversion: int,
    orders: Cells | None,
    out: Cells,
    order_out: Cells,
    status: NDArray[np.uint8],
) -> None: ...
def readout_scalar(
    noise_multiplier: object, sample_rate: object, steps: object, target: object, for_delta: bool, exact: bool
) -> float | None: ...
def exact_job(
    count: Cells,
    noise: Cells,
    n_p: NDArray[np.int32],
    n_q: NDArray[np.int32],
    weight: Cells,
    mean: Cells,
    target: Cells,
    what: int,
    directions: int,
    lower: Cells,
    upper: Cells,
    slope: Cells,
    status: NDArray[np.uint8],
) -> None: ...
def tabulate(address: int, x: Cells, out: Cells) -> None: ...
def convolve(a: Cells, b: Cells, out: Cells) -> None: ...
def refine(
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
