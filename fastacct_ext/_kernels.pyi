"""Array functions take broadcast inputs and then the arrays for the answers, which have the shape of all cells."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]
Codes = NDArray[np.uint8]

class Quantity(IntEnum):
    EPSILON = 0
    DELTA = 1
    LOG_DELTA = 2
    THRESHOLD = 3
    ABOUT = 4

class Directions(IntEnum):
    ADD = 1
    REMOVE = 2
    BOTH = 3

class Conversion(IntEnum):
    MIRONOV = 0
    CANONNE_KAMATH_STEINKE = 1
    OPTIMAL = 2

@final
class Task:
    def __call__(self, start: int, stop: int) -> int: ...

def rdp_bounds(
    noise_multiplier: Cells, sample_rate: Cells, steps: Cells, orders: Cells, lower: Cells, upper: Cells, status: Codes
) -> Task: ...
def rdp_upper(
    noise_multiplier: Cells, sample_rate: Cells, steps: Cells, orders: Cells, upper: Cells, status: Codes
) -> Task: ...
def renyi_upper(
    noise_multiplier: Cells,
    sample_rate: Cells,
    steps: Cells,
    target: Cells,
    upper: Cells,
    order: Cells,
    status: Codes,
    *,
    quantity: Quantity,
    conversion: Conversion,
    orders: Cells | None = None,
) -> Task: ...
def exact_bounds(
    noise_multiplier: Cells,
    sample_rate: Cells,
    steps: Cells,
    target: Cells,
    lower: Cells,
    upper: Cells,
    slope: Cells,
    status: Codes,
    *,
    quantity: Quantity,
    directions: Directions,
) -> Task: ...
def exact_upper(
    noise_multiplier: Cells,
    sample_rate: Cells,
    steps: Cells,
    target: Cells,
    upper: Cells,
    status: Codes,
    *,
    quantity: Quantity,
    directions: Directions,
) -> Task: ...
def calibrate_renyi(
    epsilon: Cells,
    delta: Cells,
    value: Cells,
    status: Codes,
    *,
    noise_multiplier: Cells | None = None,
    sample_rate: Cells | None = None,
    steps: Cells | None = None,
    conversion: Conversion,
    orders: Cells | None = None,
) -> Task: ...
def calibrate_exact(
    epsilon: Cells,
    delta: Cells,
    value: Cells,
    status: Codes,
    *,
    noise_multiplier: Cells | None = None,
    sample_rate: Cells | None = None,
    steps: Cells | None = None,
    directions: Directions,
) -> Task: ...
def gaussian_epsilon(mu: Cells, delta: Cells, value: Cells, status: Codes) -> Task: ...
def gaussian_delta(mu: Cells, epsilon: Cells, value: Cells, status: Codes) -> Task: ...
def basic_composition_epsilon(
    noise_multiplier: Cells, sample_rate: Cells, steps: Cells, delta: Cells, value: Cells, status: Codes
) -> Task: ...
def advanced_composition_epsilon(
    noise_multiplier: Cells, sample_rate: Cells, steps: Cells, delta: Cells, value: Cells, status: Codes
) -> Task: ...
def clt_mu_approx(noise_multiplier: Cells, sample_rate: Cells, steps: Cells, value: Cells, status: Codes) -> Task: ...
def renyi_of_history(
    noise_multiplier: Cells,
    sample_rate: Cells,
    steps: Cells,
    target: Cells,
    upper: Cells,
    order: Cells,
    status: Codes,
    *,
    quantity: Quantity,
    conversion: Conversion,
    orders: Cells | None = None,
) -> None: ...
class Data:
    def __init__(
        self,
        times: Cells,
        n_atoms: NDArray[np.int32],
        n_panels: NDArray[np.int32],
        atom: Cells,
        panel: Cells,
        n_tables: NDArray[np.int32],
        n_slices: NDArray[np.int32],
        point: Cells,
        slices: Cells,
        missed: Cells,
        smooth: Cells,
    ) -> None: ...

def exact_job(
    count: Cells,
    noise: Cells,
    n_p: NDArray[np.int32],
    n_q: NDArray[np.int32],
    weight: Cells,
    mean: Cells,
    data: Data,
    target: Cells,
    lower: Cells,
    upper: Cells,
    slope: Cells,
    status: Codes,
    *,
    quantity: Quantity,
    directions: Directions,
    mirrored: bool = ...,
    spacing: float = ...,
    off: Cells | None = ...,
    near: Cells | None = ...,
) -> None: ...
def mixture_moments(mean: Cells, p: Cells, q: Cells, origin: int, noise: float, u: Cells, rows: Cells) -> None: ...
def allocation(noise_multiplier: float, steps: int, rows: Cells, known: Cells) -> int: ...
def data_moments(data: Data, flipped: bool, lost: Cells, u: Cells, rows: Cells) -> None: ...
def bounds_of_numbers(
    by: str, run: Mapping[str, object], target: object, quantity: Quantity = ...
) -> tuple[float, float, int] | None: ...
def select(name: str | None = None) -> str: ...
def level() -> str: ...
def listen(is_given_up: Callable[[], bool]) -> None: ...
def begin() -> None: ...
def end() -> None: ...
def limit_memory(allocations: int) -> None: ...
def counted() -> float: ...
def disagreed() -> bool: ...
