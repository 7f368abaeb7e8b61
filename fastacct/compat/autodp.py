"""autodp: a fastacct job as its `Mechanism`, and a calibrator that never overspends.

mechanism = FastMechanism(fa.Gaussian(1.0).poisson(0.01) * 1000)      # instead of a composition of autodp's mechanisms
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np

import fastacct as fa
from fastacct.core.extras import import_extra

autodp_core: Any = import_extra("autodp.autodp_core", "autodp")

__all__ = ["FastCalibrator", "FastMechanism"]

_NEIGHBORS: Final = {
    "add_remove": "add_remove",
    "add": "add_only",
    "remove": "remove_only",
    "replace_one": "replace_one",
}
"""Our names of the neighbouring relations, and autodp's."""
_LARGEST: Final = 1e11
"""Finite order that is evaluated; beyond it, the divergence of order infinity bounds."""
_FAR: Final = 1e300
"""Epsilon at which delta is what no epsilon covers."""


class _OneWay(str):
    """autodp's word for one direction, which its `AmplificationBySampling` would take for both, or for replacing."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        if other in ("add_remove", "replace_one"):
            raise ValueError(
                f"{self}: sampling is not amplified in one direction; sample the job, such as "
                "FastMechanism(fa.Gaussian(1.0).poisson(0.1), 'remove'), or wrap it with neighbors='add_remove' for "
                "Poisson samples and 'replace_one' for samples of fixed size"
            )
        return super().__ne__(other)


class _Epsilon(float):
    """Epsilon of another relation, which autodp's `Composition` would multiply, and call that of "add_remove"."""

    __slots__ = ()
    __array_ufunc__ = None

    def __rmul__(self, other: object) -> float:
        raise ValueError(
            "Composition calls divergences of one direction, and of replaced records, those of 'add_remove': compose "
            "the job, such as FastMechanism(job * 2, 'replace_one'), or wrap the jobs with neighbors='add_remove'"
        )

    __mul__ = __rmul__


class FastMechanism(autodp_core.Mechanism):  # type: ignore[misc]
    """A mechanism of autodp that answers with the certified bounds of a fastacct job.

    **Guarantee.** `get_approxDP`, `get_approx_delta`, `get_eps`, `get_pureDP` and `get_RDP` are certified upper bounds,
    `get_fDP` is a certified lower bound of the false-negative rate.  What autodp's transformers compute of these is
    autodp's: compose and sample the job, then wrap it.

    Parameters
    ----------
    job : Mechanism or Process
        Of plain numbers.
    neighbors : {"add_remove", "add", "remove", "replace_one"}
    name : str, optional
        Default: the job's text.

    Raises
    ------
    ValueError
        For a relation that autodp has no word for, or that the job does not support.
    """

    def __init__(
        self,
        job: fa.Mechanism | fa.Process,
        neighbors: Literal["add_remove", "add", "remove", "replace_one"] = "add_remove",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if neighbors not in _NEIGHBORS:
            raise ValueError(f"neighbors = {neighbors!r} is not one of {', '.join(map(repr, _NEIGHBORS))}")
        self.job, self.neighbors = job, neighbors
        self.name, self.params = repr(job) if name is None else name, {"job": job}
        word, self.replace_one = _NEIGHBORS[neighbors], neighbors == "replace_one"
        is_one_way = neighbors in ("add", "remove")
        self.neighboring = _OneWay(word) if is_one_way else word
        has_divergence = math.isfinite(self._divergence(2.0))
        lost = 0.0 if has_divergence else float(fa.delta(job, epsilon=_FAR, neighbors=neighbors))
        self.propagate_updates(self._divergence, "RDP")
        self.propagate_updates(self._epsilon, "approxDP_func", delta0=lost)
        # What autodp converts between these is not certified: the job itself answers.
        self.RenyiDP, self.approxDP, self.approx_delta = self._divergence, self._epsilon, self._delta
        self.fDP, self.eps_pureDP = self._false_negatives, self._epsilon(0.0)
        if neighbors != "add_remove":
            self.eps_pureDP = _Epsilon(self.eps_pureDP)
        self.updated = True

    def _epsilon(self, delta: Any, estimated_eps: Any = None) -> Any:
        """Epsilon at delta: 0 beyond 1, infinite below 0, where autodp's searches also ask."""
        given = np.asarray(delta, dtype=np.float64)
        found = fa.epsilon(self.job, delta=np.clip(given, 0.0, 1.0), neighbors=self.neighbors)
        return _plain(np.where(given < 0.0, np.inf, found))

    def _delta(self, eps: Any) -> Any:
        """Delta at epsilon; 1 below 0."""
        given = np.asarray(eps, dtype=np.float64)
        found = fa.delta(self.job, epsilon=np.maximum(given, 0.0), neighbors=self.neighbors)
        return _plain(np.where(given < 0.0, 1.0, np.minimum(found, 1.0)))

    def _divergence(self, alpha: Any) -> Any:
        """Rényi divergence, which grows with the order: of the next order that is evaluated."""
        given = np.asarray(alpha, dtype=np.float64)
        orders = np.where(given > _LARGEST, np.inf, np.maximum(given, 1.0))
        return _plain(fa.rdp(self.job, orders, neighbors=self.neighbors))

    def _false_negatives(self, fpr: Any) -> Any:
        """The symmetric curve, which is below those of one direction."""
        neighbors: Any = "replace_one" if self.replace_one else "add_remove"
        return fa.tradeoff(self.job, fpr, neighbors=neighbors, envelope="convex")


class FastCalibrator(autodp_core.Calibrator):  # type: ignore[misc]
    """autodp's `eps_delta_calibrator`, for mechanisms made of fastacct jobs.

    **Guarantee.** The mechanism returned has a certified epsilon of at most `eps`; autodp's may be 1e-3 above.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = "FastCalibrator"
        self.calibrate = self.param_from_eps_delta

    def param_from_eps_delta(
        self,
        mech_class: Callable[..., FastMechanism],
        eps: float,
        delta: float,
        bounds: Sequence[float],
        name: str | None = None,
    ) -> FastMechanism:
        """The mechanism of the parameter within `bounds` with which (eps, delta) is just met.

        Parameters
        ----------
        mech_class : callable
            From a number to a `FastMechanism`, as `lambda sigma: FastMechanism(fa.Gaussian(sigma) * 10)`; with `name`
            it is called with that keyword, too.  The privacy loss must be monotone in the number, either way.
        eps, delta : float
        bounds : (low, high)
            Of floats: whole numbers are not searched.

        Raises
        ------
        TypeError
            For mechanisms that are not made of a job.
        ValueError
            Where no number within the bounds meets the target.
        """
        low, high = (float(end) for end in bounds)
        neighbors = _made(mech_class(high)).neighbors

        def build(x: float) -> fa.Mechanism | fa.Process:
            made = _made(mech_class(x))
            if made.neighbors != neighbors:
                raise ValueError(f"neighbors changes with the parameter: {neighbors!r} and {made.neighbors!r}")
            return made.job

        best = fa.calibrate(build, epsilon=eps, delta=delta, bracket=(low, high), neighbors=neighbors)
        return mech_class(best) if name is None else mech_class(best, name=name)


def _made(mechanism: Any) -> FastMechanism:
    if not isinstance(mechanism, FastMechanism):
        raise TypeError(f"mech_class must make a FastMechanism, not {type(mechanism).__name__}: wrap a fastacct job")
    return mechanism


def _plain(value: Any) -> Any:
    """A float for a number, else the array."""
    return float(value) if np.ndim(value) == 0 else value
