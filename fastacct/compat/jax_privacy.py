"""JAX Privacy: its accountant configurations, and what makes fresh accountants for its calibrations.

config = FastAccountantConfig()            # instead of PldAccountantConfig() or RdpAccountantConfig()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from fastacct.compat.dp_accounting import FastAccountant
from fastacct.core.extras import import_extra

jax_privacy: Any = import_extra("jax_privacy.accounting", "jax_privacy")
dp_accounting: Any = import_extra("dp_accounting", "jax_privacy")

__all__ = ["FastAccountantConfig"]

_Config: Any = getattr(jax_privacy, "DpAccountantConfig", object)  # later versions than 2.0 have none
_ADD_REMOVE: Final = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


@dataclass(frozen=True, kw_only=True)
class FastAccountantConfig(_Config):  # type: ignore[misc]
    """What a training accountant of JAX Privacy makes its accountants from.

    **Guarantee.** Its accountants answer as `fastacct.epsilon`: never below the truth of the events that they are
    given, rounding included.  Which events a training run is stays JAX Privacy's own statement.

    A configuration can be called as well, for `dp_accounting.calibrate_dp_mechanism` and whatever else asks for a
    function that makes a fresh accountant.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        Default ADD_OR_REMOVE_ONE, as in the other configurations.  Execution plans ask for REPLACE_SPECIAL.
    method : {"exact", "rdp"}
    """

    neighboring_relation: Any = _ADD_REMOVE
    method: Literal["exact", "rdp"] = "exact"

    def __post_init__(self) -> None:
        """Check the settings."""
        self.create_accountant()

    def create_accountant(self) -> FastAccountant:
        """An accountant that has composed nothing."""
        return FastAccountant(self.neighboring_relation, self.method)

    def __call__(self) -> FastAccountant:
        """The same."""
        return self.create_accountant()


if hasattr(jax_privacy, "PldAccountantConfig"):  # user-level and truncated accounting ask for it by class
    jax_privacy.PldAccountantConfig.register(FastAccountantConfig)
