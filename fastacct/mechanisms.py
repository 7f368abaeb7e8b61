"""Mechanisms: what one step releases, by its parameters.  Frozen values; nothing here computes a privacy number.

Parameters may be arrays; they broadcast like NumPy arrays, and a job made of such mechanisms is read cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fastacct._arrays import MAX_STEPS, Domain, as_cells, common_shape

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = ["Declared", "Gaussian", "GaussianMixture", "Grouped", "Mechanism", "PoissonSampled", "moved", "parameter"]

MAX_COMPONENTS: Final = 65
"""Of each side of a Gaussian mixture."""
WEIGHTS_OFF: Final = 1e-12
"""How far from 1 the weights of a mixture may add up: rounding of the sum, no more."""
_WEIGHT: Final = Domain(0.0, 1.0)
_MEAN: Final = Domain(-1e150, 1e150)
_SIZE: Final = Domain(1.0, MAX_STEPS, integer=True)


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Base of all mechanisms: compose them with `*` and `+`, compare and hash them by their parameters."""

    relations: ClassVar[tuple[str, ...]] = ("add_remove", "add", "remove", "zero_out")
    """Neighbouring relations whose dominating pair is known."""
    exact: ClassVar[bool] = True
    """Whether the pair that is read is the mechanism's own, or the worst of the class that it stands for.  Of a bound
    nothing is known from below: its lower bounds are 0."""
    __array_ufunc__: ClassVar[None] = None  # numpy.array([10, 20]) * mechanism is one process

    def parts(self, neighbors: str) -> Process | None:
        """The process of simpler mechanisms that this one is, under a relation; None for one that is read itself."""
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters; () for plain numbers."""
        cells = self._cells()
        if all(isinstance(value, float) for value in cells.values()):
            return ()
        return common_shape({name: np.asarray(value) for name, value in cells.items()})

    def group(self, size: int) -> Mechanism:
        """The same mechanism, for `size` records that change together."""
        from fastacct.groups import group  # what a group of any mechanism is stands above the mechanisms

        return group(self, size)

    def poisson(self, sample_rate: Any) -> Mechanism:
        """The same mechanism on a random batch: every record takes part with probability `sample_rate`."""
        from fastacct.sampling import poisson

        return poisson(self, sample_rate)

    def _cells(self) -> dict[str, Any]:
        """Parameters that may be arrays, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _key(self) -> tuple[Any, ...]:
        return (type(self), *(hashable(getattr(self, field.name)) for field in fields(self)))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Mechanism) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __mul__(self, count: Any) -> Process:
        return _process()({self: count})

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Process:
        total: Process = _process()({self: 1}) + other
        return total

    def __radd__(self, other: Any) -> Process:
        return other + _process()({self: 1})  # type: ignore[no-any-return]


def moved(neighbors: str) -> float:
    """How far a sum moves under a relation, when every record contributes at most 1."""
    return 2.0 if neighbors == "replace_one" else 1.0


def parameter(domain: Domain, default: Any = MISSING) -> Any:
    """A field of a mechanism that may be an array, with its allowed range."""
    return field(metadata={"domain": domain}, default=default)


def constant(domain: Domain, default: Any = MISSING) -> Any:
    """A field of a mechanism that is one number, with its allowed range; whole numbers are stored as int."""
    return field(metadata={"constant": domain}, default=default)


@dataclass(frozen=True, eq=False)
class Declared(Mechanism):
    """A mechanism whose parameters are checked by their declarations."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if "domain" in one.metadata:
                store(self, one.name, as_cells(one.name, getattr(self, one.name), one.metadata["domain"]))
            elif "constant" in one.metadata:
                domain = one.metadata["constant"]
                cell = as_cells(one.name, getattr(self, one.name), domain)
                if cell.ndim:
                    raise TypeError(f"{one.name} must be one number, not an array of shape {cell.shape}")
                object.__setattr__(self, one.name, int(cell) if domain.integer else float(cell) + 0.0)
        _ = self.shape  # refuse shapes that do not broadcast here, where their names are known

    def _cells(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self) if "domain" in one.metadata}


def _process() -> type[Process]:
    from fastacct.process import Process  # processes are made of mechanisms; only the operators look up

    return Process


@dataclass(frozen=True, eq=False)
class Gaussian(Mechanism):
    """Noise N(0, noise_multiplier^2) on a sum to which every record contributes a vector of norm at most 1.

    **Guarantee.** `noise_multiplier` is the standard deviation of the noise divided by the clipping norm.  Under
    add/remove and zero-out the sum moves by at most 1; under replace-one by at most 2, and the readouts know that.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        0: no noise, nothing can be certified.  inf: nothing is released.

    Raises
    ------
    TypeError, ValueError
        Naming the value and the allowed range.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01) * 1000
    Process({Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01): 1000})
    """

    noise_multiplier: Any
    relations: ClassVar[tuple[str, ...]] = ("add_remove", "add", "remove", "zero_out", "replace_one")

    def __post_init__(self) -> None:
        store(self, "noise_multiplier", as_cells("noise_multiplier", self.noise_multiplier))

    def poisson(self, sample_rate: Any) -> PoissonSampled:
        """The same noise on the sum over a random batch: every record takes part with probability `sample_rate`."""
        return PoissonSampled(self, sample_rate)

    def group(self, size: int) -> Mechanism:
        """`size` records change together: the sum moves `size` times as far."""
        return _grouped(self, size)


@dataclass(frozen=True, eq=False)
class PoissonSampled(Mechanism):
    """A Gaussian on a Poisson sample: every record takes part independently with probability `sample_rate`.

    **Guarantee.** The amplification is that of Poisson sampling.  Shuffled or fixed-size batches are other mechanisms.

    Parameters
    ----------
    mechanism : Gaussian
    sample_rate : float or array in [0, 1]
        Expected batch size divided by the size of the data set.

    Raises
    ------
    TypeError, ValueError
        For another mechanism, a rate out of range, or shapes that do not broadcast.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.PoissonSampled(fa.Gaussian(noise_multiplier=1.0), sample_rate=0.01)
    >>> step == fa.Gaussian(1.0).poisson(0.01)
    True
    """

    mechanism: Gaussian
    sample_rate: Any
    relations: ClassVar[tuple[str, ...]] = ("add_remove", "add", "remove", "zero_out", "replace_one")

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Gaussian):
            raise TypeError(f"mechanism must be a Gaussian, not {self.mechanism!r}; only its sampling is known")
        store(self, "sample_rate", as_cells("sample_rate", self.sample_rate))
        _ = self.shape  # refuse shapes that do not broadcast here, where their names are known

    def group(self, size: int) -> Mechanism:
        """`size` records change together; how many of them are drawn is binomial, and accounted for exactly.

        At most 64 records.  Not offered under replace-one.
        """
        return _grouped(self, size)

    def _cells(self) -> dict[str, Any]:
        return {**self.mechanism._cells(), "sample_rate": self.sample_rate}

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.poisson(sample_rate={self.sample_rate!r})"


@dataclass(frozen=True, eq=False)
class Grouped(Mechanism):
    """A mechanism, for `size` records that change together; made by `.group(size)`.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Gaussian(noise_multiplier=2.0).poisson(sample_rate=0.1).group(3)
    Gaussian(noise_multiplier=2.0).poisson(sample_rate=0.1).group(3)
    """

    mechanism: Gaussian | PoissonSampled
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Gaussian | PoissonSampled):
            raise TypeError(f"mechanism must be a Gaussian or its Poisson sample, not {self.mechanism!r}")
        size = as_cells("size", self.size, _SIZE)
        if size.ndim:
            raise TypeError(f"size must be one number, not an array of shape {size.shape}")
        if isinstance(self.mechanism, PoissonSampled) and size >= MAX_COMPONENTS:
            raise ValueError(f"size = {int(size)} is out of range; allowed: whole numbers in [1, {MAX_COMPONENTS - 1}]")
        object.__setattr__(self, "size", int(size))

    @property
    def relations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the mechanism; replace-one only without sampling."""
        return self.mechanism.relations if isinstance(self.mechanism, Gaussian) else Mechanism.relations

    def group(self, size: int) -> Mechanism:
        """Groups of groups."""
        return _grouped(self.mechanism, self.size * Grouped(self.mechanism, size).size)

    def _cells(self) -> dict[str, Any]:
        return self.mechanism._cells()

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.group({self.size})"


def _grouped(mechanism: Gaussian | PoissonSampled, size: int) -> Mechanism:
    made = Grouped(mechanism, size)
    return mechanism if made.size == 1 else made


@dataclass(frozen=True, eq=False)
class GaussianMixture(Mechanism):
    """A pair of one-dimensional Gaussian mixtures with one noise: P with the records, Q without.

    **Guarantee.** Numbers hold for every mechanism that the pair dominates; that it does is the caller's claim.
    "remove" reads P against Q, "add" Q against P, "add_remove" the larger of both.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise, in the unit of the means.
    p : sequence of (weight, mean)
        Weights positive, adding up to 1 within 1e-12; means >= 0; at most 65 components.
    q : sequence of (weight, mean)
        The same with means <= 0.  Default: all weight at 0.

    Raises
    ------
    TypeError, ValueError
        Naming component, value and range.  Means on the wrong side of 0 are refused: the privacy loss would not be
        increasing, and the readouts rest on that.  (Shifting all means by one number changes nothing.)

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.GaussianMixture(noise_multiplier=2.0, p=[(0.9, 0.0), (0.1, 1.0)])
    GaussianMixture(noise_multiplier=2.0, p=((0.9, 0.0), (0.1, 1.0)), q=((1.0, 0.0),))
    """

    noise_multiplier: Any
    p: tuple[tuple[float, float], ...]
    q: tuple[tuple[float, float], ...] = ((1.0, 0.0),)

    def __init__(
        self,
        noise_multiplier: Any,
        p: Iterable[tuple[float, float]],
        q: Iterable[tuple[float, float]] = ((1.0, 0.0),),
    ) -> None:
        store(self, "noise_multiplier", as_cells("noise_multiplier", noise_multiplier))
        object.__setattr__(self, "p", _components("p", p, 1.0))
        object.__setattr__(self, "q", _components("q", q, -1.0))

    def _cells(self) -> dict[str, Any]:
        return {"noise_multiplier": self.noise_multiplier}


def _components(name: str, value: Any, side: float) -> tuple[tuple[float, float], ...]:
    """Components with distinct means on the given side of 0, sorted outwards."""
    if isinstance(value, str | bytes | dict | set) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of (weight, mean), not {value!r}")
    weights: dict[float, list[float]] = {}
    for i, part in enumerate(value):
        if isinstance(part, str | bytes) or not isinstance(part, Iterable) or len(pair := list(part)) != 2:
            raise TypeError(f"{name}[{i}] must be (weight, mean), not {part!r}")
        weight = as_cells(f"{name}[{i}] weight", pair[0], _WEIGHT)
        mean = as_cells(f"{name}[{i}] mean", pair[1], _MEAN)
        if weight.ndim or mean.ndim:
            raise TypeError(f"{name}[{i}] must be two numbers, not arrays")
        if mean * side < 0.0:
            raise ValueError(
                f"{name}[{i}] mean = {float(mean)!r} is on the wrong side: means of p must be >= 0 and means of q "
                "<= 0, or the privacy loss is not increasing"
            )
        if weight > 0.0:
            weights.setdefault(float(mean) + 0.0, []).append(float(weight))
    total = math.fsum(w for parts in weights.values() for w in parts)
    if abs(total - 1.0) > WEIGHTS_OFF:
        raise ValueError(f"the weights of {name} add up to {total!r}, not to 1")
    if len(weights) > MAX_COMPONENTS:
        raise ValueError(f"{name} has {len(weights)} components; allowed: at most {MAX_COMPONENTS}")
    return tuple((math.fsum(weights[mean]), mean) for mean in sorted(weights, key=abs))


def store(mechanism: Mechanism, name: str, cells: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """A Python float, or a private array that nobody can change."""
    value: Any = float(cells) + 0.0 if cells.ndim == 0 else cells + 0.0  # no negative zero: equality is by value
    if cells.ndim:
        value.flags.writeable = False
    object.__setattr__(mechanism, name, value)


def hashable(value: Any) -> Any:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
