"""Poisson samples of any mechanism: every record takes part with a probability, independently."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastacct._arrays import as_cells
from fastacct.mechanisms import Gaussian, GaussianMixture, Grouped, Mechanism, PoissonSampled, store
from fastacct.selection import RandomizedResponse, RepeatedSelection

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = ["Sampled", "poisson"]

_RELATIONS: Final = ("add_remove", "add", "remove", "zero_out")


@dataclass(frozen=True, eq=False)
class Sampled(Mechanism):
    """A mechanism on a Poisson sample of the records; made by `.poisson(sample_rate)`.

    **Guarantee.** For a mechanism with a dominating pair (P, Q) the pair of its sample is ((1 - q) Q + q P, Q) for
    "remove" and (Q, (1 - q) Q + q P) for "add" (Zhu, Dong, Wang 2022, theorem 11): exact where the pair is.  Where only
    Rényi divergences are known, the bound of Zhu and Wang 2019 (factor 3, no condition).  Replace-one is refused: the
    sample's pair needs more than the mechanism's own.  Under zero-out a record that is not drawn must be as if zeroed.
    Of a group, `mechanism.group(k).poisson(q)` draws all of it or none, `mechanism.poisson(q).group(k)` each member.

    Parameters
    ----------
    mechanism : Mechanism
    sample_rate : float or array in [0, 1]

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.Laplace(noise_multiplier=1.0).poisson(0.1)
    >>> round(fa.epsilon(step, delta=0.0), 9) == round(fa.epsilon(fa.PureDP(1.0).poisson(0.1), delta=0.0), 9)
    True
    >>> round(fa.epsilon(fa.ApproxDP(0.5, 1e-6).poisson(0.1), delta=1.001e-7), 6)  # log(1 + 0.1 (exp(0.5) - 1))
    0.062855
    """

    mechanism: Mechanism
    sample_rate: Any

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"mechanism must be a mechanism, not {self.mechanism!r}")
        inner = self.mechanism.mechanism if isinstance(self.mechanism, Grouped) else self.mechanism
        if isinstance(inner, Sampled | PoissonSampled):
            raise ValueError(f"{self.mechanism!r} is a sample already; sample once, at the product of the rates")
        if isinstance(self.mechanism, RandomizedResponse) or _has_answers(self.mechanism):
            raise ValueError(
                f"the Poisson sample of {self.mechanism!r} is not known: in the local model one sees who "
                "does not take part"
            )
        if not self.relations:
            raise ValueError(
                f"the Poisson sample of {self.mechanism!r} is not known: it supports "
                f"{', '.join(map(repr, self.mechanism.relations))}, and a sample is known for "
                f"{', '.join(map(repr, _RELATIONS))}"
            )
        store(self, "sample_rate", as_cells("sample_rate", self.sample_rate))
        _ = self.shape

    @property
    def relations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the mechanism without replace-one."""
        return tuple(one for one in self.mechanism.relations if one in _RELATIONS)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """As of the mechanism."""
        return self.mechanism.exact

    def parts(self, neighbors: str) -> Process | None:
        """The sample of the one release that the mechanism is; a composition is sampled as a whole and has no parts."""
        parts = self.mechanism.parts(neighbors)
        if parts is None:
            return None
        inner = list(parts)
        if len(inner) != 1 or not np.all(np.asarray(inner[0][1]) == 1):
            raise ValueError(
                f"{self.mechanism!r} consists of several releases: its sample is not the composition of their samples. "
                "Sample its guarantee instead, PureDP or ApproxDP"
            )
        from fastacct.process import Process

        return Process({poisson(inner[0][0], self.sample_rate): 1})

    def _cells(self) -> dict[str, Any]:
        return {**self.mechanism._cells(), "sample_rate": self.sample_rate}

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.poisson(sample_rate={self.sample_rate!r})"


def _has_answers(mechanism: Mechanism) -> bool:
    """Whether the runs that are selected from hold local answers."""
    return isinstance(mechanism, RepeatedSelection) and any(
        isinstance(one, RandomizedResponse) or _has_answers(one) for one in mechanism.base.blocks
    )


def poisson(mechanism: Mechanism, sample_rate: Any) -> Mechanism:
    """The Poisson sample in the form that is read best."""
    if isinstance(mechanism, Gaussian):
        return PoissonSampled(mechanism, sample_rate)
    whole = mechanism
    if isinstance(mechanism, Grouped) and isinstance(mechanism.mechanism, Gaussian):
        whole = GaussianMixture(mechanism.mechanism.noise_multiplier, [(1.0, mechanism.size)])
    if isinstance(whole, GaussianMixture) and whole.q == ((1.0, 0.0),):
        rate = as_cells("sample_rate", sample_rate)
        if rate.ndim == 0 and rate > 0.0:
            share = Fraction(float(rate))  # weights rounded once
            p = [(float(share * Fraction(weight)), mean) for weight, mean in whole.p]
            return GaussianMixture(whole.noise_multiplier, [*p, (float(1 - share), 0.0)])
    return Sampled(mechanism, sample_rate)
