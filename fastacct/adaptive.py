"""Running totals: what has been spent, and what may still be run, for plans fixed in advance and for adaptive ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fastacct import api
from fastacct._arrays import TINY, Domain, as_cells, as_choice
from fastacct._jobs_renyi import RenyiJob
from fastacct._jobs_table import expanded, tables
from fastacct._renyi_forms import pure_epsilon, square
from fastacct.additive import DiscreteGaussian
from fastacct.calibrate import boundary, calibrate
from fastacct.jit import Compiled
from fastacct.mechanisms import Declared, Gaussian, Grouped, Mechanism, moved
from fastacct.notions import GDP, ZCDP
from fastacct.parallel import Parallel
from fastacct.process import Process
from fastacct.selection import Exponential

__all__ = ["Accountant", "BudgetExceededError"]

VERSION: Final = 1
"""Of the JSON state."""
FILTERS: Final = ("none", "gdp", "zcdp", "rdp")
_SHARE: Final = Domain(0.0, 1.0, open_low=True)
_EPSILON: Final = Domain(0.0, 1e12, open_low=True)
_ORDER: Final = Domain(1.0, 1e11, open_low=True)
_COUNT: Final = Domain(0.0, 2.0**53 - 1.0, integer=True)


class BudgetExceededError(ValueError):
    """What was to be run does not fit into the budget; nothing has been recorded."""


class Accountant:
    """A budget (epsilon, delta), the ledger of what has been run, and whether more may be run.

    **Guarantee.** What has been composed never exceeds the budget: a step is checked before it is recorded, and refused
    with `BudgetExceededError`.  With `filter="none"` the plan must be fixed in advance (the data may choose the inputs
    of a mechanism, not which one runs or when to stop): the certified epsilon of the whole ledger is what counts.  The
    other filters hold for steps chosen adaptively, parameters and number included:

    =========  =====================================================  ========================================
    filter     what adds up                                           source
    =========  =====================================================  ========================================
    "gdp"      mu^2 of Gaussian mechanisms                            Smith, Thakurta 2022; Koskela et al. 2023
    "zcdp"     rho of what is zero-concentrated                       Feldman, Zrnic 2021; Whitehouse et al. 2023
    "rdp"      the Rényi divergence at one `order`, fixed in advance  Feldman, Zrnic 2021
    =========  =====================================================  ========================================

    The sums are exact (rational numbers), so the order of steps changes nothing, and recording a step takes a time that
    does not depend on how many there have been.

    Parameters
    ----------
    epsilon, delta : float
        Budget, delta in (0, 1).
    filter : {"none", "gdp", "zcdp", "rdp"}
    order : float, optional
        Of filter "rdp"; default: the best one for a Gaussian that spends the budget at once.
    neighbors : str
        As in `epsilon`.

    Examples
    --------
    >>> import fastacct as fa
    >>> budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    >>> budget.compose(fa.Gaussian(1.0).poisson(0.01), 1000)
    >>> round(budget.spent(), 4)
    1.8282
    >>> budget.would_exceed(fa.Laplace(1.0) * 3)
    True
    >>> budget.remaining(fa.Gaussian(1.0).poisson(0.01))
    1666
    >>> sigma = budget.calibrate(lambda s: fa.Gaussian(s).poisson(0.01) * 3000)
    >>> fa.Accountant.from_json(budget.to_json()).spent() == budget.spent()
    True
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        filter: str = "none",
        order: float | None = None,
        neighbors: str = "add_remove",
    ) -> None:
        self.budget: Final = _number("epsilon", epsilon, _EPSILON)
        self.delta: Final = _number("delta", delta, _SHARE)
        if self.delta == 1.0:
            raise ValueError("delta = 1.0 is out of range; allowed: (0, 1)")
        self.filter: Final = as_choice("filter", filter, FILTERS)
        self.neighbors: Final = api.as_neighbors(neighbors)
        if order is not None and filter != "rdp":
            raise ValueError(f"order = {order!r} goes with filter = 'rdp'")
        self._limit, self.order = _limit(self.filter, self.budget, self.delta, order)
        self._sum = Fraction(0)
        self._ledger: dict[Mechanism, int] = {}

    @property
    def ledger(self) -> Process:
        """Everything that has been recorded."""
        return Process(self._ledger)

    def compose(self, job: Mechanism | Process, count: int = 1) -> None:
        """Check, then record `count` times a job.

        Raises
        ------
        BudgetExceededError
            Where it does not fit.  Nothing has been recorded then.
        """
        added = self._added(job, count)
        if self._exceeds(added):
            raise BudgetExceededError(
                f"{added!r} does not fit: epsilon = {self.budget!r} at delta = {self.delta!r} (filter "
                f"{self.filter!r}) would be exceeded"
            )
        totals = {one: int(_number("count", self._ledger.get(one, 0) + int(times), _COUNT)) for one, times in added}
        if self.filter != "none":
            self._sum += self._cost(added) or 0
        self._ledger.update(totals)

    def would_exceed(self, job: Mechanism | Process, count: int = 1) -> bool:
        """Whether `compose` would refuse."""
        return self._exceeds(self._added(job, count))

    def spent(self, delta: float | None = None) -> float:
        """Certified epsilon of the ledger, as a plan fixed in advance; with a filter: that of the sum so far.

        With a filter this is what has been spent if one stops now for reasons that do not depend on the outputs; use
        `odometer` for a bound that holds at all times at once.
        """
        at = self.delta if delta is None else _number("delta", delta, _SHARE)
        if self.filter == "none":
            return float(api.epsilon(self.ledger, delta=at, neighbors=self.neighbors))
        return _epsilon_of(self.filter, _up(self._sum), at, self.order)

    def odometer(self, delta: float | None = None) -> float:
        """An epsilon that bounds the privacy loss at all times at once, with probability 1 - delta.

        **Guarantee.** For filters "rdp" and "zcdp" ("gdp" counts as zero-concentrated): the probability that the loss
        ever exceeds the value shown at that time is at most delta, however the steps and the moment of looking are
        chosen.  exp((order - 1) (loss - sum of divergences)) is a supermartingale, and Ville's inequality gives
        sum + log(1/delta)/(order - 1) at one order; for zCDP a grid of 32 orders shares delta.
        """
        at = self.delta if delta is None else _number("delta", delta, _SHARE)
        total = _up(self._sum)
        if self.filter == "none":
            raise ValueError("an odometer needs a filter: 'gdp', 'zcdp' or 'rdp'")
        if self.filter == "rdp":
            return (total + math.log(1.0 / at) / (self.order - 1.0)) * (1.0 + 1e-15)
        rho = 0.5 * total if self.filter == "gdp" else total
        steps = 2.0 ** np.arange(-8.0, 24.0)  # order - 1
        return float(np.min(rho * (1.0 + steps) + math.log(steps.size / at) / steps)) * (1.0 + 1e-15)

    def remaining(self, job: Mechanism | Process) -> int:
        """How many more times a job fits."""
        if self.would_exceed(job):
            return 0
        low, high = 1, 2
        while high < 2**52 and not self.would_exceed(job, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.would_exceed(job, middle) else (middle, high)
        return low

    def remaining_budget(self) -> float:
        """What the filter's sum may still grow by: mu^2, rho or a divergence; "none": epsilon less `spent`."""
        if self.filter == "none":
            return max(0.0, self.budget - self.spent())
        return float(max(Fraction(0), Fraction(self._limit) - self._sum)) * (1.0 - 1e-15)

    def calibrate(self, build: Callable[[Any], Mechanism | Process], bracket: tuple[float, float] | None = None) -> Any:
        """The number x for which the rest of the run, `build(x)`, just fits, given the history.

        **Guarantee.** Safe side: `build` at the x returned fits.  Arguments as in `fastacct.calibrate`.
        """
        if self.filter == "none":
            history = self.ledger
            return calibrate(
                lambda x: history + build(x),
                epsilon=self.budget,
                delta=self.delta,
                neighbors=self.neighbors,
                bracket=bracket,
            )
        room = Fraction(self._limit) - self._sum

        def level(x: float) -> float:
            cost = self._cost(self._added(build(x), 1))
            if cost is None:
                return 690.0
            if cost <= 0 or room <= 0:
                return -50.0 if cost <= room else 50.0
            excess = math.log(cost / room) if cost < Fraction(1e300) else 690.0
            return excess if (excess <= 0.0) == (cost <= room) else math.copysign(1e-17, cost - room)

        return boundary(level, bracket, f"a sum of at most {self._limit!r}")

    def to_json(self) -> str:
        """The state; floating-point numbers keep all their digits."""
        rows = [{"mechanism": _encoded(one), "count": count} for one, count in self._ledger.items()]
        state = {
            "format": "fastacct.Accountant",
            "version": VERSION,
            "epsilon": self.budget,
            "delta": self.delta,
            "filter": self.filter,
            "order": self.order if self.filter == "rdp" else None,
            "neighbors": self.neighbors,
            "ledger": rows,
        }
        return json.dumps(state, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Accountant:
        """The accountant whose state it is, bit for bit.

        Raises
        ------
        ValueError
            For what is not a state, a version from the future, or a mechanism that is not known.
        """
        try:
            state = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"not the state of an accountant: {error}") from error
        if not isinstance(state, dict) or state.get("format") != "fastacct.Accountant":
            raise ValueError("not the state of an accountant: its format must be 'fastacct.Accountant'")
        if state.get("version") != VERSION:
            raise ValueError(f"version = {state.get('version')!r} of the state is not known; allowed: {VERSION}")
        try:
            names = ("epsilon", "delta", "filter", "order", "neighbors")
            made = cls(**{name: state[name] for name in names})
            for row in state["ledger"]:
                one, count = _decoded(row["mechanism"]), int(_number("count", row["count"], _COUNT))
                if not isinstance(one, Mechanism) or one.shape:
                    raise TypeError(f"{one!r} is not a mechanism in plain numbers")
                made._ledger[one] = int(_number("count", made._ledger.get(one, 0) + count, _COUNT))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"the state of an accountant is damaged: {error!r}") from error
        if made.filter != "none":
            spent = made._cost(made.ledger)
            if spent is None:
                raise ValueError("the state of an accountant is damaged: its ledger costs infinitely much")
            made._sum = spent
        return made

    def __repr__(self) -> str:
        return (
            f"Accountant(epsilon={self.budget!r}, delta={self.delta!r}, filter={self.filter!r}, "
            f"neighbors={self.neighbors!r}, ledger of {sum(self._ledger.values())} releases)"
        )

    def _added(self, job: Mechanism | Process, count: int) -> Process:
        process = api.as_process(job)
        if process.shape:
            raise TypeError(f"an accountant records jobs in plain numbers, not of shape {process.shape}")
        return process * int(_number("count", count, _COUNT))

    def _exceeds(self, added: Process) -> bool:
        if self.filter != "none":
            cost = self._cost(added)
            return cost is None or self._sum + cost > Fraction(self._limit)
        whole = self.ledger + added
        return not api.epsilon(whole, delta=self.delta, neighbors=self.neighbors) <= self.budget

    def _cost(self, added: Process) -> Fraction | None:
        """What a job adds to the sum; None: infinitely much."""
        total = Fraction(0)
        for mechanism, count in added:
            one = _cost_of(mechanism, self.filter, self.order, self.neighbors)
            if not one < math.inf:
                return None
            total += int(count) * Fraction(one)
        return total


def _number(name: str, value: Any, domain: Domain) -> float:
    cell = as_cells(name, value, domain)
    if cell.ndim:
        raise TypeError(f"{name} must be one number, not an array of shape {cell.shape}")
    return float(cell)


def _up(value: Fraction) -> float:
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


def _limit(filter: str, epsilon: float, delta: float, order: float | None) -> tuple[float, float]:
    """What the sum may reach, and the order of filter "rdp"."""
    if filter == "none":
        return math.inf, math.nan
    if filter == "gdp":
        mu = calibrate(GDP, epsilon=epsilon, delta=delta, bracket=(1e-12, 1e7))
        return mu * mu * (1.0 - 4e-16), math.nan
    rho = calibrate(ZCDP, epsilon=epsilon, delta=delta, bracket=(1e-24, 1e12))
    if filter == "zcdp":
        return rho, math.nan
    order = 1.0 + math.sqrt(math.log(1.0 / delta) / rho) if order is None else _number("order", order, _ORDER)
    limit = epsilon - _conversion(order, delta)
    if not limit > 0.0:
        raise ValueError(
            f"order = {order!r} leaves nothing of epsilon = {epsilon!r} at delta = {delta!r}; take a larger order"
        )
    return limit * (1.0 - 1e-14), order


def _conversion(order: float, delta: float) -> float:
    """Epsilon less the divergence, Canonne, Kamath, Steinke 2020, proposition 12, rounded up."""
    value = math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0)
    return value + 1e-14 * (abs(value) + (math.log(order) - math.log(delta)) * (1.0 + 1.0 / (order - 1.0)))


def _epsilon_of(filter: str, total: float, delta: float, order: float) -> float:
    if total == 0.0:
        return 0.0
    if filter == "gdp":
        return float(api.epsilon(GDP(math.sqrt(total) * (1.0 + 4e-16)), delta=delta))
    if filter == "zcdp":
        return float(api.epsilon(ZCDP(total), delta=delta))
    return max(0.0, total + _conversion(order, delta))


@lru_cache(maxsize=4096)
def _cost_of(mechanism: Mechanism, filter: str, order: float, neighbors: str) -> float:
    """What one release adds to the sum."""
    table = next(tables(expanded(Process({mechanism: 1}), neighbors), neighbors))
    if filter == "rdp":
        return float(RenyiJob(table, neighbors).divergence(np.array([order]))[0])
    total = 0.0
    for part, cell, count in table:
        total += count * (_mu_squared if filter == "gdp" else _rho)(part, cell, neighbors) * (1.0 + 4e-16)
    return total * (1.0 + 4e-16 * len(table))


def _mu_squared(mechanism: Mechanism, cell: Mapping[str, float], neighbors: str) -> float:
    inner = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    if not isinstance(inner, Gaussian):
        raise ValueError(f"filter 'gdp' adds Gaussian mechanisms only, not {mechanism!r}; use filter 'rdp'")
    size = mechanism.size if isinstance(mechanism, Grouped) else 1
    noise = cell["noise_multiplier"]
    mu = size * moved(neighbors) / noise if noise > 0.0 else math.inf
    return square(mu)


def _rho(mechanism: Mechanism, cell: Mapping[str, float], neighbors: str) -> float:
    if isinstance(mechanism, Gaussian | Grouped):
        return 0.5 * _mu_squared(mechanism, cell, neighbors)
    if isinstance(mechanism, DiscreteGaussian):
        return 0.5 * square(mechanism.sensitivity * moved(neighbors) / cell["scale"]) * (1.0 + 1e-15)
    if isinstance(mechanism, ZCDP) and cell["xi"] == 0.0:
        return cell["rho"]
    if isinstance(mechanism, Exponential):
        return square(cell["epsilon"]) / 8.0 * (1.0 + 1e-15)

    # the theorem needs the loss of both directions to be bounded
    both = "add_remove" if neighbors in ("add", "remove") else neighbors
    epsilon = pure_epsilon(mechanism, dict(cell), both)
    if epsilon < math.inf or cell.get("epsilon") == math.inf:  # tight for the class
        return max(epsilon * math.tanh(0.5 * epsilon) * (1.0 + 4e-15), TINY if epsilon > 0.0 else 0.0)
    raise ValueError(f"filter 'zcdp' does not know {mechanism!r} as zero-concentrated; use filter 'rdp'")


@lru_cache(maxsize=1)
def _kinds() -> dict[str, type[Mechanism]]:
    """The mechanisms of this library, by name."""
    import fastacct.groups  # which nothing else imports before it is used

    found: dict[str, type[Mechanism]] = {}
    todo: list[type[Mechanism]] = [Mechanism]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        ours = kind.__module__.startswith(f"{fastacct.__name__}.") and kind not in (Mechanism, Declared)
        if ours and not issubclass(kind, Compiled):
            found[kind.__name__] = kind
    return found


def _encoded(value: Any) -> Any:
    if isinstance(value, Mechanism):
        if _kinds().get(type(value).__name__) is not type(value):
            raise ValueError(f"{value!r} cannot be stored: only mechanisms of fastacct are")
        return {
            "kind": type(value).__name__,
            **{one.name: _encoded(getattr(value, one.name)) for one in fields(value)},
        }
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Process):
        return {"kind": "Process", "blocks": [[_encoded(one), _encoded(count)] for one, count in value]}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        given = dict(value)
        kind = given.pop("kind")
        if kind == "Process":
            return Process([(_decoded(one), count) for one, count in given["blocks"]])
        if kind not in _kinds():
            raise ValueError(f"kind = {kind!r} of a mechanism is not known")
        if kind == "Parallel":
            return Parallel(*(_decoded(job) for job in given["jobs"]))
        return _kinds()[kind](**{name: _decoded(one) for name, one in given.items()})
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    return float(value) if value in ("inf", "-inf", "nan") else value
