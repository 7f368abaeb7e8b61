"""Checked inputs: what users give as arrays, numbers and words of known ranges, and the types of the public surface.

Every message names the argument, the offending value, its index in an array and the allowed range.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = (int, float, Fraction)
_USUAL: Final = (float, int, np.float64)
Cells = NDArray[np.float64]
Codes = NDArray[np.uint8]
Word = TypeVar("Word", bound=str)
Real: TypeAlias = float | int | np.floating | np.integer
"""A plain number.  (True and False are integers to a type checker; they are refused when called.)"""

_Row: TypeAlias = NDArray[np.floating | np.integer] | Sequence[Real]
RealArray: TypeAlias = _Row | Sequence[_Row] | Sequence[Sequence[_Row]]
"""An array of numbers, or up to three nested sequences.  (An alias that refers to itself would admit strings.)"""

Reals: TypeAlias = Real | RealArray

Floats: TypeAlias = NDArray[np.float64]

_MEANT: Final = {
    **dict.fromkeys(
        ("substitution", "substitute", "substitute_one", "swap", "bounded", "replacement", "change_one"), "replace_one"
    ),
    **dict.fromkeys(("unbounded", "add_or_remove_one", "addition"), "add_remove"),
    **dict.fromkeys(("zeroed", "null", "zeroing"), "zero_out"),
    **dict.fromkeys(("without_replacement", "uniform", "swor"), "fixed_size"),
    **dict.fromkeys(("balls_in_bins", "balls_and_bins"), "allocation"),
    **dict.fromkeys(("bernoulli", "poisson_subsampling"), "poisson"),
    **dict.fromkeys(("permutation", "random_reshuffling"), "shuffled"),
    **{"tex": "latex", "md": "markdown", "pdf": "latex", "txt": "text", "paragraph": "appendix", "model_card": "card"},
}
"""Words of other libraries and papers, and ours for them."""

ROUNDING: Final = 2.0**-53
"""The rounding unit of doubles."""
PAD: Final = 2.0**-49
"""Covers the rounding of a few operations, with 4 ulp for exp, expm1 and log."""
MAX_STEPS: Final = 2.0**53
MAX_ORDER: Final = 1e11
TINY: Final = 1e-300
"""The least that is told from nothing: what releases something has no smaller Rényi divergence, whose square would
underflow, and a search that comes below it is at 0."""


class Domain(NamedTuple):
    """Allowed range of an argument."""

    low: float
    high: float
    open_low: bool = False
    integer: bool = False
    or_infinite: bool = False

    def __str__(self) -> str:
        exact = {MAX_STEPS: "2**53", MAX_STEPS - 1.0: "2**53 - 1", 2.0**52: "2**52"}
        high = exact.get(self.high, f"{self.high:g}")
        closing = ")" if self.integer and self.high == np.inf else "]"
        text = f"{'(' if self.open_low else '['}{self.low:g}, {high}{closing}"
        return f"{'whole numbers in ' if self.integer else ''}{text}{' or inf' if self.or_infinite else ''}"

    def has(self, least: float, largest: float) -> bool:
        """Whether all finite numbers between two are inside, whole or not; NaN is nowhere."""
        return (self.low < least or (self.low == least and not self.open_low)) and largest <= self.high


DOMAINS: Final = {
    "noise_multiplier": Domain(0.0, np.inf),
    "sample_rate": Domain(0.0, 1.0),
    "steps": Domain(0.0, MAX_STEPS, integer=True),
    "delta": Domain(0.0, 1.0),
    "epsilon": Domain(0.0, np.inf),
    "orders": Domain(1.0, MAX_ORDER, or_infinite=True),
    "mu": Domain(0.0, np.inf),
    "records": Domain(1.0, MAX_STEPS, integer=True),
    "batch_size": Domain(0.0, MAX_STEPS, open_low=True),
    "epochs": Domain(0.0, MAX_STEPS),
}

CONVERTED: Final = Domain(1.0, MAX_ORDER, open_low=True)
"""Orders at which a Rényi divergence converts to epsilon and delta."""
NONNEGATIVE: Final = Domain(0.0, np.inf)
UNIT: Final = Domain(0.0, 1.0)
SHARE: Final = Domain(0.0, 1.0, open_low=True)
POSITIVE: Final = Domain(0.0, 1e300, open_low=True)
BILLION: Final = Domain(1.0, 1e9, integer=True)
COUNT: Final = Domain(1.0, 2.0**52, integer=True)


_LABELLED: Final = {False: ("xarray", "dask"), True: ("xarray", "dask", "pandas")}
"""Libraries whose labels would be lost: a list of outcomes, which may not be empty, needs no index of pandas."""


def as_cells(name: str, value: object, domain: Domain | None = None, *, may_be_empty: bool | None = None) -> Cells:
    """`value` as a float64 array of any shape, every entry checked against the domain of `name`.

    Empty arrays are cells too.  Arguments with a `domain` of their own may be lists without which there is no meaning:
    these must not be empty, unless it is said that they may.
    """
    may_be_empty = domain is None if may_be_empty is None else may_be_empty
    domain = DOMAINS[name] if domain is None else domain
    if type(value) in _USUAL and _is_usual(cast("float", value), domain):  # quickly
        return np.array(value, dtype=np.float64)
    raw = _numbers(name, value, domain, may_be_empty)
    array = _floats(name, raw, domain)
    if domain.integer and raw.dtype.kind in "iuO":  # a float may be rounded down into the range
        _check(name, raw, np.asarray(cast("Cells", raw) <= int(domain.high)), domain)
    if domain.integer or not _is_inside(array, domain):
        _check(name, array, _is_in(array, domain), domain)
    return array


def _is_inside(array: Cells, domain: Domain) -> bool:
    """Whether all of some entries surely are in the range, quickly."""
    if not array.size:
        return False
    return domain.has(np.minimum.reduce(array, axis=None), np.maximum.reduce(array, axis=None))


def _is_in(array: Cells, domain: Domain) -> NDArray[np.bool_]:
    """Which entries are in the domain."""
    low_ok = array > domain.low if domain.open_low else array >= domain.low
    good = low_ok & ((array <= domain.high) | (domain.or_infinite & (array == np.inf)))  # NaN fails all
    return np.asarray(good & (array == np.floor(array)) if domain.integer else good)


def _is_usual(value: float, domain: Domain) -> bool:
    """Whether a plain number is in the domain; larger integers may not be floats."""
    return value < 1e300 and domain.has(value, value) and not (domain.integer and value % 1)


def _numbers(name: str, value: object, domain: Domain, may_be_empty: bool) -> NDArray[np.generic]:
    """An array of numbers of any type, with at least one unless it may be empty."""
    _refuse_labels(name, value, may_be_empty)
    if isinstance(value, range):
        check_memory((max(0, (value.stop - value.start) // value.step),), name=name)  # len() has a largest answer
    try:
        raw = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} cannot be read as an array of numbers: {error}; allowed: {domain}") from None
    check_memory(raw.shape, name=name)  # a view may have more cells than any memory
    if raw.dtype.kind not in "fiu" and not _are_numbers(raw):
        raise _no_numbers(name, value, f"(dtype {raw.dtype}); allowed: {domain}")
    if raw.size == 0 and not may_be_empty:
        raise ValueError(f"{name} is an empty array of shape {raw.shape}; give at least one value in {domain}")
    return raw


def _are_numbers(raw: NDArray[np.generic]) -> bool:
    """Whether an array of objects has numbers, and nothing else."""
    is_listed = raw.dtype == object and raw.size > 0
    return is_listed and all(isinstance(x, _NUMBERS) and not isinstance(x, bool) for x in raw.flat)


def _refuse_labels(name: str, value: object, may_be_empty: bool) -> None:
    """Refuse arrays with more than their numbers, which would be lost."""
    if type(value).__module__.partition(".")[0] in _LABELLED[may_be_empty] and getattr(value, "ndim", True):
        lost = f"{name} is a {type(value).__name__}, whose labels would be lost here"
        raise TypeError(f"{lost}: give its .values (fastacct.dpsgd keeps labels of a Series or DataArray)")
    if "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name} is a masked array with masked entries; fill or drop them first")


def _floats(name: str, raw: NDArray[np.generic], domain: Domain) -> Cells:
    """The same array where it can be read as it is."""
    if raw.dtype == np.float64 and raw.flags.aligned:
        return cast("Cells", raw)
    try:
        with np.errstate(over="ignore"):
            return raw.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float; allowed: {domain}") from None


def _no_numbers(name: str, value: object, why: str) -> TypeError:
    """The refusal of what is no array of numbers, or is not given at all."""
    if value is ...:
        return TypeError(f"{name} is missing; {why.partition('; ')[2]}")
    quoted = isinstance(value, str) and re.fullmatch(r"\s*[-+.\d][\d._]*(e[-+]?\d+)?\s*%?\s*", value)
    hint = " (write it without quotes, a percentage as a fraction)" if quoted else ""
    return TypeError(f"{name} must be a number or an array of numbers, not {_show(value)} {why}{hint}")


def _check(name: str, array: NDArray[np.generic], good: NDArray[np.bool_], domain: Domain) -> None:
    if not good.all():
        index = np.unravel_index(int(np.argmin(good)), array.shape)
        where = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
        raise ValueError(f"{name}{where} = {array.item(*index)!s} is out of range; allowed: {domain}")


def _show(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def check_memory(shape: tuple[int, ...], arrays: int = 1, name: str = "a result") -> None:
    """Refuse results, and arguments, larger than the memory of this machine, before anything is allocated or read."""
    size = 8 * arrays * math.prod(shape)
    if size > _memory():
        raise MemoryError(f"{name} of shape {shape} takes {size / 2**30:.3g} GiB, more than this machine's memory")


@lru_cache(maxsize=1)
def _memory() -> float:
    """Bytes of memory of this machine; where the system does not say, what an array can have at most."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):
        return 2.0**62


def as_listed(name: str, value: object) -> object:
    """What may be an iterable as a list; sets and tables are refused, which lose equal values and their order."""
    if isinstance(value, set | frozenset | dict):
        raise TypeError(f"{name} must be a sequence of numbers, not a {type(value).__name__}, which loses equal ones")
    return list(value) if isinstance(value, Iterable) and not isinstance(value, np.ndarray | str | bytes) else value


def as_number(name: str, value: object, domain: Domain | None = None) -> float:
    """One checked number; arrays are refused."""
    cell = as_cells(name, value, domain)
    if cell.ndim:
        raise TypeError(f"{name} must be one number, not an array of shape {cell.shape}")
    return float(cell)


def common_shape(named: Mapping[str, Cells | tuple[int, ...]]) -> tuple[int, ...]:
    """The broadcast shape of all arrays or shapes, or a message with every name and shape."""
    shapes = [value if isinstance(value, tuple) else value.shape for value in named.values()]
    different = set(shapes) - {()}
    if len(different) < 2:  # the usual case, quickly
        shape: tuple[int, ...] = different.pop() if different else ()
        check_memory(shape)
        return shape
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        _refuse_too_many(shapes)
        listed = ", ".join(f"{name} {sizes}" for name, sizes in zip(named, shapes, strict=True))
        raise ValueError(f"shapes do not broadcast: {listed}") from None
    check_memory(shape)
    return shape


def _refuse_too_many(shapes: list[tuple[int, ...]]) -> None:
    """Refuse shapes that do broadcast, to more cells than NumPy counts."""
    longest = [(set(side) - {1} or {1}) for side in itertools.zip_longest(*map(reversed, shapes), fillvalue=1)]
    if all(len(lengths) == 1 for lengths in longest):
        check_memory(tuple(lengths.pop() for lengths in reversed(longest)))


def as_common(**given: tuple[object, Domain]) -> list[Cells]:
    """Several checked arguments, broadcast to one shape, in order."""
    read = {name: as_cells(name, value, domain) for name, (value, domain) in given.items()}
    shape = common_shape(read)
    return [np.broadcast_to(cells, shape) for cells in read.values()]


_ALONE: Final = ContextVar("one thread", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let calls that name no number of threads take one: what calls them has threads of its own."""
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def as_threads(threads: object) -> int:
    """Number of threads; None means all cores this process may use."""
    if threads is None:
        if _ALONE.get():
            return 1
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool | np.timedelta64) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads must be a positive integer or None, not {_show(threads)}")
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads = {int(threads)} is out of range; allowed: whole numbers in [1, 1024]")
    return int(threads)


def as_choice(name: str, value: object, allowed: Sequence[Word]) -> Word:
    """A word out of `allowed`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {_show(value)}")
    if value not in allowed:
        import difflib

        word = _MEANT.get(value.casefold(), value.casefold())
        near = difflib.get_close_matches(word, allowed, 1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"{name} = {value!r} is not one of {', '.join(map(repr, allowed))}{meant}")
    return allowed[allowed.index(value)]


def unwrap(array: Cells) -> float | Cells:
    """A Python float for a single cell without dimensions, else the array; labelled arrays stay what they are."""
    return float(array[()]) if array.ndim == 0 and isinstance(array, np.ndarray | np.generic) else array
