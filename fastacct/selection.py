"""Mechanisms that answer with a choice: randomised response, noisy maxima, thresholds.  Parameters only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fastacct._arrays import Domain, as_cells, unwrap
from fastacct.additive import ALL_RELATIONS, Laplace
from fastacct.mechanisms import Declared, Mechanism, constant, parameter

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = [
    "AboveThreshold",
    "Exponential",
    "Paprika",
    "PermuteAndFlip",
    "RandomizedResponse",
    "RepeatedSelection",
    "SparseVector",
    "Thresholdout",
]

_EPSILON: Final = Domain(0.0, float("inf"))
_COUNT: Final = Domain(1.0, 1e9, integer=True)
_ANSWERS: Final = Domain(2.0, 1e9, integer=True)
_POSITIVE: Final = Domain(0.0, 1e300, open_low=True)


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Declared):
    """One of `answers` values: the true one with odds exp(epsilon) against each other one (the local model).

    **Guarantee.** Exact when the value of one person is replaced.  Under "zero_out" a person without a value answers
    uniformly at random.  The fair-coin version, truth with probability 3/4, is epsilon = log 3.

    Parameters
    ----------
    epsilon : float or array in [0, inf]
    answers : whole number in [2, 1e9]

    Examples
    --------
    >>> import fastacct as fa
    >>> coin = fa.RandomizedResponse(epsilon=1.0986122886681098)
    >>> round(fa.epsilon(coin * 10, delta=1e-6, neighbors="replace_one"), 4)
    10.9861
    """

    epsilon: Any = parameter(_EPSILON)
    answers: int = constant(_ANSWERS, 2)
    relations: ClassVar[tuple[str, ...]] = ("replace_one", "zero_out")


@dataclass(frozen=True, eq=False)
class Exponential(Declared):
    """The exponential mechanism: outcome r with probability proportional to exp(epsilon score(r) / (2 sensitivity)).

    **Guarantee.** A bound, tight over all mechanisms of the class: `epsilon` is the range that the losses of one pair
    of data sets can spread over (bounded range, Durfee and Rogers 2019), and the dominating pair of that class is used;
    it holds when later steps are chosen adaptively.  With scores that all move the same way (monotone),
    exp(epsilon score / sensitivity) has this range, too.

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> a, b = fa.Exponential(epsilon=0.5) * 5, fa.PureDP(epsilon=0.5) * 5
    >>> bool(fa.delta(a, epsilon=0.8) < 0.3 * fa.delta(b, epsilon=0.8))
    True
    """

    epsilon: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class PermuteAndFlip(Declared):
    """Permute-and-flip (McKenna, Sheldon 2020), and report-noisy-max with one-sided exponential or Laplace noise.

    **Guarantee.** A bound: epsilon-DP, where the noise has scale 2 sensitivity / epsilon; sensitivity / epsilon
    suffices only where all scores move the same way.  (With Gumbel noise the maximum is the exponential mechanism.)

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.PermuteAndFlip(epsilon=1.0) * 3, delta=0.0), 6)
    3.0
    """

    epsilon: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    @classmethod
    def from_scale(cls, scale: Any, sensitivity: float = 1.0, *, monotone: bool = False) -> PermuteAndFlip:
        """Of noise with this scale.  Without `monotone` some scores may rise while others fall: twice the epsilon.

        Scores that all move the same way when a record is added mostly do not when one is replaced.

        Examples
        --------
        >>> PermuteAndFlip.from_scale(2.0), PermuteAndFlip.from_scale(2.0, monotone=True)
        (PermuteAndFlip(epsilon=1.0), PermuteAndFlip(epsilon=0.5))
        """
        if not isinstance(monotone, bool):
            raise TypeError(f"monotone must be True or False, not {monotone!r}")
        cells = as_cells("scale", scale, _POSITIVE)
        top = float(as_cells("sensitivity", sensitivity, _POSITIVE))
        found = (1.0 if monotone else 2.0) * top / cells
        return cls(unwrap(np.where((found == 0.0) & (top > 0.0) & (cells < np.inf), 5e-324, found)))


@dataclass(frozen=True, eq=False)
class AboveThreshold(Declared):
    """The first query above a noisy threshold: noise Laplace(2 s/epsilon) on the threshold, Laplace(4 s/epsilon) on
    each query, s the sensitivity of a query.

    **Guarantee.** A bound: epsilon-DP however many queries are asked before the one that is above.  Releasing the value
    of that query costs a fresh `Laplace` (never the noise that was compared).  Source: Dwork, Roth 2014, section 3.6.

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.AboveThreshold(epsilon=0.1), delta=0.0), 6)
    0.1
    """

    epsilon: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class SparseVector(Declared):
    """`answers` queries above a threshold, the threshold's noise drawn afresh after each: as many `AboveThreshold`.

    **Guarantee.** A bound, the composition of its runs.

    Parameters
    ----------
    epsilon : float or array in [0, inf]
        Of one run: noise Laplace(2 s/epsilon) and Laplace(4 s/epsilon).
    answers : whole number in [1, 1e9]

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.SparseVector(epsilon=0.1, answers=3).parts("add_remove")
    Process({AboveThreshold(epsilon=0.1): 3})
    """

    epsilon: Any = parameter(_EPSILON)
    answers: int = constant(_COUNT, 1)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    def parts(self, neighbors: str) -> Process:
        """Its runs."""
        return AboveThreshold(self.epsilon) * self.answers


@dataclass(frozen=True, eq=False)
class Thresholdout(Declared):
    """The reusable holdout (Dwork et al. 2015): queries with values in [0, 1] answered from the training set until they
    differ from the holdout's by a noisy threshold, at most `budget` times.

    **Guarantee.** A bound for replacing one record of the holdout: each of the `budget` answers is one `AboveThreshold`
    (threshold noise Laplace(2 rate), comparison Laplace(4 rate)) and one value with noise Laplace(rate).  The published
    closed forms, (2 budget/(rate size), 0) and (sqrt(32 budget log(2/delta))/(rate size), delta), are looser.

    Parameters
    ----------
    rate : float in (0, 1e300]
        Scale of the answers' noise.
    size : whole number
        Records of the holdout.
    budget : whole number

    Examples
    --------
    >>> import fastacct as fa
    >>> holdout = fa.Thresholdout(rate=0.02, size=10_000, budget=50)
    >>> round(fa.epsilon(holdout, delta=0.0, neighbors="replace_one"), 6)
    0.5
    """

    rate: float = constant(_POSITIVE)
    size: int = constant(_COUNT)
    budget: int = constant(_COUNT)
    relations: ClassVar[tuple[str, ...]] = ("replace_one",)
    exact: ClassVar[bool] = False

    def parts(self, neighbors: str) -> Process:
        """Comparisons and answers."""
        # noise over the sensitivity 1/size to a replacement; what overflows is not infinite
        scale = min(self.rate * self.size, 5e307)
        one = max((1.0 + 2.0**-51) / scale, 5e-324)
        return AboveThreshold(one) * self.budget + Laplace(2.0 * scale * (1.0 - 2.0**-52)) * self.budget


@dataclass(frozen=True, eq=False)
class RepeatedSelection(Mechanism):
    """The best of a random number of runs, as in tuning of hyper-parameters (Papernot, Steinke 2022).

    **Guarantee.** A bound, by Rényi divergences: those of `base`, plus what choosing costs.  The number of runs must be
    drawn from the law named, before and independently of the data; for a fixed number of runs nothing better than their
    composition is known.

    Parameters
    ----------
    base : Mechanism or Process
        One run; plain numbers, no arrays.
    mean : float in (1, 1e9]
        Expected number of runs of the Poisson law; or, with `eta`, of the truncated negative binomial one.
    eta : float >= -0.9, optional
        1: geometric, 0: logarithmic.  Default: the Poisson law.

    Examples
    --------
    >>> import fastacct as fa
    >>> tuned = fa.RepeatedSelection(fa.Gaussian(4.0), mean=10.0)
    >>> round(fa.rdp(tuned, 6.0), 6)
    1.018605
    """

    base: Any
    mean: float
    eta: float | None = None
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        from fastacct.process import Process

        base = Process({self.base: 1}) if isinstance(self.base, Mechanism) else self.base
        if not isinstance(base, Process) or base.shape:
            raise TypeError(f"base must be a mechanism or a process of plain numbers, not {self.base!r}")
        object.__setattr__(self, "base", base)
        mean = as_cells("mean", self.mean, Domain(1.0, 1e9, open_low=True))
        eta = as_cells("eta", 0.0 if self.eta is None else self.eta, Domain(-0.9, 1e6))
        if 0.0 < abs(float(np.max(np.abs(eta)))) < 1e-12:
            raise ValueError(f"eta = {self.eta!r} is out of range; allowed: 0 or at least 1e-12 away from it")
        if mean.ndim or eta.ndim:
            raise TypeError("mean and eta must be one number each")
        object.__setattr__(self, "mean", float(mean))
        object.__setattr__(self, "eta", None if self.eta is None else float(eta))

    def _cells(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Paprika(Declared):
    """PAPRIKA, private online testing of hypotheses (Zhang, Kamath, Cummings 2021): accounted for as its theorem says.

    **Guarantee.** That of the published theorem, (epsilon, delta)-DP for the whole stream, and only under its
    conditions: p-values of multiplicative sensitivity `eta`, significance levels that depend on released bits alone.
    The theorem's use of the exact candidacy bits has not been verified here; `conditions_hold=True` says that the
    caller has.  Without it nothing is claimed.

    Parameters
    ----------
    epsilon, delta : float or array
        Of the published theorem, for the whole stream.
    conditions_hold : bool

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.delta(fa.Paprika(epsilon=1.0, delta=1e-6, conditions_hold=True), epsilon=1.0) <= 1.0000001e-6
    True
    """

    epsilon: Any = parameter(_EPSILON)
    delta: Any = parameter(Domain(0.0, 1.0))
    conditions_hold: bool = False
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.conditions_hold is not True:
            raise ValueError(
                "conditions_hold must be True: the theorem needs p-values of bounded multiplicative sensitivity and "
                "levels that depend on released bits alone; what does not satisfy it is not accounted for"
            )
        super().__post_init__()

    def parts(self, neighbors: str) -> Process:
        """One black box."""
        from fastacct.notions import ApproxDP

        return ApproxDP(self.epsilon, self.delta) * 1
