"""Labelled and lazy arrays: verbs that are given xarray, pandas or dask give the same kind of array.

The function below a verb takes NumPy arrays.  Decorated with `labelled`, it is applied to each chunk of a dask array
when that is computed, and its answers get the labels of what it was given.  No library is imported before its arrays
come.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells, Codes, common_shape, one_thread
from fastacct.core.version import __version__
from fastacct.core.words import refuse_unknown

_ARRAYS: Final = {("xarray", "DataArray"), ("pandas", "Series"), ("dask", "Array")}
_BOUNDS: Final = ("lower", "upper", "status")
_GUARANTEES: Final = {
    "lower": "certified lower bound",
    "upper": "certified upper bound",
    "calibrated": "certified to meet the target",
    "approximation": "none: an approximation without proof",
}
"""What the kinds of answers guarantee."""
NOTES: Final = {
    "noise_multiplier": "standard deviation of the Gaussian noise / L2 sensitivity",
    "sample_rate": "Poisson sampling probability of a record in a step",
    "steps": "number of steps",
    "records": "number of records of the data set",
    "batch_size": "expected number of records in a batch",
    "epochs": "expected number of times that a record is drawn",
    "delta": "delta of the (epsilon, delta) guarantee",
    "epsilon": "epsilon of the (epsilon, delta) guarantee (natural logarithm)",
    "log_delta": "natural logarithm of delta of the (epsilon, delta) guarantee",
    "orders": "order of the Renyi divergence",
    "rdp": "Renyi divergence",
    "fpr": "false-positive rate of an attack",
    "fnr": "smallest false-negative rate of an attack",
    "tpr": "largest true-positive rate of an attack",
}
"""What the axes and answers are, as attributes of labelled arrays."""
Function = TypeVar("Function", bound=Callable[..., object])
Plain = tuple[Cells | Codes, ...]
Call = Callable[..., Plain]
Labelled: TypeAlias = Any
"""An array of one of the three libraries, none of which is imported here."""
Arrays = Mapping[str, Labelled]
Types = list[type[np.float64 | np.uint8]]

_LIBRARY: Final[dict[type, str | None]] = {}
_PLAIN: Final[set[type]] = set()
"""Types of arguments that were found to have no labels."""


_WORDS: Final = frozenset({"accountant", "bins", "conversion", "method", "neighbors", "sampling", "threads"})
"""Arguments that are no arrays of numbers."""


def _library(kind: type) -> str | None:
    """The library whose labelled or lazy arrays a type is of."""
    if kind not in _LIBRARY:
        names = ((base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__)
        _LIBRARY[kind] = next((library for library, name in names if (library, name) in _ARRAYS), None)
    return _LIBRARY[kind]


def labels_of(value: object) -> str | None:
    """The library, "xarray", "pandas" or "dask", whose array a value is; None for everything else."""
    return _library(type(value))


def labelled(name: str | None = None, *, outputs: Sequence[str] = _BOUNDS) -> Callable[[Function], Function]:
    """Let a function of arrays take labelled and lazy ones.

    Its answer, called `name` (by default what its first argument says), is `Bounds`, or one array if there is one
    output.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*arguments: object, **options: object) -> object:
            refuse_unknown(options, signature.parameters)
            kinds = {*map(type, arguments), *map(type, options.values())}
            if kinds <= _PLAIN or not any(map(_is_labelled, (*arguments, *options.values()))):
                _PLAIN.update(kinds - {dict})
                return function(*arguments, **options)
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            return _applied(function, bound.arguments, name or str(arguments[0]), outputs)

        return call  # type: ignore[return-value]

    return decorate


def _type(side: str) -> type[np.float64 | np.uint8]:
    return np.uint8 if side == "status" else np.float64


def _is_labelled(value: object) -> bool:
    if type(value) is dict:
        return any(_library(type(entry)) for entry in value.values())
    return _library(type(value)) is not None


def _applied(
    function: Callable[..., object], arguments: Mapping[str, Any], name: str, outputs: Sequence[str]
) -> Bounds | Labelled:
    run = arguments.get("run", {})
    flat = run | {key: value for key, value in arguments.items() if key != "run"}
    library, labelled = _with_labels(flat)

    def on_arrays(*arrays: Cells) -> Plain:
        answer = function(**_exchanged(arguments, dict(zip(labelled, arrays, strict=True))))
        wanted = answer if isinstance(answer, Bounds) else (answer,)
        shape = np.broadcast_shapes(*map(np.shape, arrays), np.asarray(wanted[-1]).shape)
        each = zip(outputs, wanted, strict=True)
        return tuple(np.broadcast_to(np.asarray(array, dtype=_type(side)), shape) for side, array in each)

    beside = {key: value for key, value in flat.items() if key not in {*labelled, "history"}}
    parts = _APPLY[library](on_arrays, labelled, beside, [*map(_type, outputs)])
    if library != "dask":
        _describe(dict(zip(outputs, parts, strict=True)), name, flat)
    return Bounds(*parts) if len(parts) > 1 else parts[0]


def _describe(parts: Mapping[str, Labelled], name: str, flat: Mapping[str, object]) -> None:
    """Say of each answer what it is, and of what."""
    for side, values in parts.items():
        values.attrs, values.name = _attributes(name, side, flat), name


def _exchanged(arguments: Mapping[str, Any], by_name: Mapping[str, Cells]) -> dict[str, object]:
    """The arguments, those of a run among them, with plain arrays in the place of labelled ones."""
    return {
        key: _exchanged(value, by_name) if key == "run" else by_name.get(key, value) for key, value in arguments.items()
    }


def _with_labels(flat: Mapping[str, Any]) -> tuple[str, dict[str, Labelled]]:
    """The one library that arrays among the arguments are of, and these arrays."""
    labelled = {key: value for key, value in flat.items() if labels_of(value)}
    if words := _WORDS & labelled.keys():
        raise TypeError(f"{min(words)} must be one word or object, not a {type(labelled[min(words)]).__name__}")
    libraries = {str(labels_of(value)) for value in labelled.values()}
    if len(libraries) > 1:
        raise TypeError(f"give arrays of one library, not of {' and '.join(sorted(libraries))}")
    (library,) = libraries
    if library != "pandas" and (shape := getattr(flat.get("job"), "shape", ())):
        raise TypeError(f"the job has arrays of shape {shape} without labels: fa.dpsgd takes labelled parameters")
    return library, labelled | _cut_too(flat) if library == "dask" else labelled


def _cut_too(flat: Mapping[str, object]) -> dict[str, Labelled]:
    """Plain arrays beside those of dask, of which its chunks are cut, too."""
    plain = {key: value for key, value in flat.items() if isinstance(value, np.ndarray | list | tuple)}
    return {key: np.asarray(value) for key, value in plain.items() if key != "history"}


def _with_xarray(call: Call, given: Arrays, beside: Mapping[str, object], types: Types) -> Sequence[Labelled]:
    """Over the outer grid of the dimensions, chunk by chunk where there are chunks."""
    import xarray

    for key, value in beside.items():
        if isinstance(value, np.ndarray | list | tuple) and np.ndim(value):
            raise TypeError(f"{key} has no labels: give it as an xarray.DataArray, like {next(iter(given))}")
    is_lazy = any(array.chunks is not None for array in given.values())
    settings: dict[str, Any] = {"output_core_dims": [[] for _ in types], "dask": "parallelized", "output_dtypes": types}
    answer = xarray.apply_ufunc(_chunk(call, alone=is_lazy), *given.values(), **settings)
    return answer if len(types) > 1 else (answer,)


def _with_pandas(call: Call, given: Arrays, beside: Mapping[str, object], types: Types) -> Sequence[Labelled]:
    """Row by row: the series have one index."""
    import pandas

    (first, series), *others = given.items()
    for key, wrapped in others:
        if not wrapped.index.equals(series.index):
            raise ValueError(f"{first} and {key} have different indexes: align them first")
    answer = call(*(side.to_numpy() for side in given.values()))
    if answer[0].shape != series.shape:
        raise ValueError(f"the answer has the shape {answer[0].shape}, and {first} has {len(series)} rows")
    return [pandas.Series(values, index=series.index) for values in answer]


def _with_dask(call: Call, given: Arrays, beside: Mapping[str, object], types: Types) -> Sequence[Labelled]:
    """Chunk by chunk, when it is computed."""
    import dask.array

    library: Any = dask.array
    signature = f"{','.join(['()'] * len(given))}->{','.join(['()'] * len(types))}"
    settings: dict[str, Any] = {"output_dtypes": types if len(types) > 1 else types[0]}
    arrays = [library.asarray(array) for array in given.values()]
    common_shape({name: array.shape for name, array in zip(given, arrays, strict=True)})
    placed = ((array, tuple(range(-array.ndim, 0))) for array in arrays)  # dimensions counted from the last one
    _, arrays = library.core.unify_chunks(*itertools.chain(*placed))
    answer = library.apply_gufunc(_chunk(call, alone=True), signature, *arrays, **settings)
    return answer if len(types) > 1 else (answer,)


_APPLY: Final = {"xarray": _with_xarray, "pandas": _with_pandas, "dask": _with_dask}


def _chunk(call: Call, alone: bool) -> Callable[..., object]:
    """What is applied to a chunk, in one thread where a scheduler has threads of its own."""

    def work(*arrays: Cells) -> object:
        with one_thread() if alone else nullcontext():
            answer = call(*arrays)
        return answer if len(answer) > 1 else answer[0]

    return work


def together(bounds: Bounds) -> Any:
    """Labelled bounds as a Dataset or a DataFrame of lower, upper and status; others as they are."""
    library, (lower, upper, status) = labels_of(bounds.upper), bounds
    if library == "pandas":
        import pandas

        table = pandas.DataFrame(bounds._asdict())
        table.attrs = {key: value for key, value in upper.attrs.items() if key != "guarantee"}
        return table
    if library == "xarray":
        import xarray

        flags = {"flag_values": [*map(int, Status)], "flag_meanings": " ".join(code.name for code in Status)}
        parts = {"lower": lower, "upper": upper, "status": status.assign_attrs(flags)}
        attributes = {key: value for key, value in upper.attrs.items() if key != "guarantee"}
        return xarray.Dataset({key: array.rename(key) for key, array in parts.items()}, attrs=attributes)
    return bounds


def _attributes(name: str, side: str, about: Mapping[str, object]) -> dict[str, str]:
    """What an answer is, as attributes."""
    default = {"order": "RDP()", "approximation": "CLT()"}.get(side, "Exact()")
    accountant = about.get("accountant") or (None if name in ("rdp", "fnr", "tpr") else default)
    shared = {
        "long_name": NOTES.get(name, name) if side != "status" else "how the bounds were obtained",
        "units": "1",
        "guarantee": _GUARANTEES.get(side, ""),
        "neighbors": about.get("neighbors", "add_remove"),
        "accountant": accountant if isinstance(accountant, str | None) else repr(accountant),
        "fastacct_version": __version__,
    }
    return {key: str(text) for key, text in shared.items() if text}
