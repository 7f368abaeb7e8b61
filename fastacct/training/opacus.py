"""Opacus: a guard on an optimizer that reads its engine.

engine = PrivacyEngine(accountant="fastacct")
model, optimizer, loader = engine.make_private(...)
guard = Guard(engine, optimizer, delta=1e-6, stop_at=8.0)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

from fastacct.core.extras import Foreign
from fastacct.core.inputs import Domain, as_number
from fastacct.ledger.accountant import BudgetExceededError
from fastacct.training.optimizers import refuse_replaced, warn_of_seed, warn_of_trained
from fastacct.training.seeds import Begin, Seeds, of_generator, of_noise


class Guard:
    """Epsilon of an engine after each step of its optimizer, and an error before the step that would exceed.

    **Guarantee.** What the engine's accountant, `fastacct`, certifies: for its loader, batches that are accumulated and
    checkpoints.  The step that would exceed `stop_at` changes no parameter, and is not in the history.  Nor does one on
    a batch that the engine's loader did not draw: it is refused, and epsilon is inf from then on.  A pass of Poisson
    batches from a seed that the engine has counted is refused, also after a checkpoint.

    Raises
    ------
    TypeError
        An engine with another accountant, whose numbers are certified by nobody.
    ValueError
        An optimizer whose steps another engine records, or of which methods that add noise were replaced.
    """

    def __init__(
        self,
        engine: Foreign,
        optimizer: Foreign,
        *,
        delta: float,
        stop_at: float = math.inf,
        log: Callable[[float], object] | None = None,
    ) -> None:
        if engine.accountant.mechanism() != "fastacct":
            raise TypeError(f'accountant {engine.accountant.mechanism()!r}: take PrivacyEngine(accountant="fastacct")')
        if _accountant_of(getattr(optimizer, "step_hook", None)) is not engine.accountant:
            raise ValueError(
                "optimizer: this engine does not record its steps; give the one that make_private returned"
            )
        refuse_replaced(optimizer)
        warn_of_seed(optimizer)
        self.delta, self.stop_at = as_number("delta", delta), as_number("stop_at", stop_at, Domain(0.0, math.inf))
        self._engine, self._log, self._record = engine, log, optimizer.step_hook
        self._sampler, self._is_closed = _drawn_by(optimizer.step_hook), False
        self._begins, self._known = True, ([*engine.accountant.history], float(engine.get_epsilon(self.delta)))
        attach = optimizer.attach_step_hook
        attach(self._step)
        optimizer.attach_step_hook = lambda hook: attach(hook if _is_guard(hook) else _both(self._step, hook))

    @property
    def epsilon(self) -> float:
        """Epsilon of what was released, also by other optimizers of the engine, and of a checkpoint that it loaded."""
        if self._known[0] != self._engine.accountant.history:
            self._known = [*self._engine.accountant.history], float(self._engine.get_epsilon(self.delta))
        return self._known[1]

    def _step(self, optimizer: Foreign) -> None:
        """Let the accountant record the step; take it back where it would exceed, and refuse all others."""
        if self._is_closed:
            raise BudgetExceededError(f"the training ended at stop_at = {self.stop_at!r}; nothing was recorded")
        refuse_replaced(optimizer)
        accountant = self._engine.accountant
        if self._begins:
            warn_of_trained(optimizer, accountant, is_new=not accountant.history)
        self._refuse_again(accountant, of_noise(optimizer))
        before = [*accountant.history]
        try:
            self._record(optimizer)
        except ValueError:
            self._known = [*accountant.history], math.inf
            raise
        after = self.epsilon
        if not after <= self.stop_at:
            accountant.history[:] = before
            self._is_closed = True
            what = "the next pass over the loader" if accountant.sampling == "passes" else "1 more step"
            raise BudgetExceededError(
                f"{what} would spend epsilon {after:.6g}, above stop_at = {self.stop_at!r}; nothing was recorded"
            )
        if self._log is not None:
            self._log(after)

    def _refuse_again(self, accountant: Foreign, noise: Begin | None) -> None:
        """ValueError where a pass that was begun since the last step, or its noise, was drawn and counted already."""
        begun: list[tuple[Foreign, ...]] = getattr(self._sampler, "marks", [])
        told = getattr(self._sampler, "told", 0)
        seeds = Seeds()
        seeds.marks = accountant.seeds
        for one in begun[told:] or begun[:]:  # after an error those that came since, if any
            self._sampler.told = len(begun)
            seeds.refuse_again(of_generator(*one), is_counted=bool(accountant.history), is_after=False)
        if begun or self._begins:
            seeds.refuse_again(noise, is_counted=bool(accountant.history), is_after=False)
            self._begins = False
        if begun:
            self._sampler.marks, self._sampler.told = [], 0


def _is_guard(hook: Foreign) -> bool:
    return isinstance(getattr(hook, "__self__", None), Guard)


def _both(step: Callable[[Foreign], None], hook: Callable[[Foreign], object]) -> Callable[[Foreign], None]:
    """A hook that is attached later, behind the guard's: Opacus has one alone."""

    def both(optimizer: Foreign) -> None:
        step(optimizer)
        hook(optimizer)

    return both


def _drawn_by(hook: Foreign) -> Foreign:
    """The sampler of Poisson batches whose steps a hook of an optimizer records; None of others."""
    if isinstance(guard := getattr(hook, "__self__", None), Guard):
        return guard._sampler
    return getattr(inspect.getclosurevars(hook).nonlocals.get("used"), "sampler", None)


def _accountant_of(hook: Foreign) -> Foreign:
    """The accountant that a hook of an optimizer records steps in."""
    if isinstance(guard := getattr(hook, "__self__", None), Guard):
        return guard._engine.accountant
    return inspect.getclosurevars(hook).nonlocals.get("self") if inspect.isfunction(hook) else None
