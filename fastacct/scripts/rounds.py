"""Rounds of a loop that takes private steps: one batch each, of which nothing is kept, and steps that have noise."""

from __future__ import annotations

import ast
import re
from typing import Final

from fastacct.scripts.calls import Calls
from fastacct.scripts.flow import place
from fastacct.scripts.kinds import MODEL, RECORD
from fastacct.scripts.tree import UnclearError, last_name, walk

_MOVES_NOTHING: Final = re.compile(
    r"sched|prof|account|meter|engine|pbar|bar$|scaler|progress|\benv\b|tracker|privacy", re.I
)


class Rounds(Calls):
    """Rounds and steps of a loop."""

    def trained(self) -> None:
        """A loop that takes private steps: one backward() for a batch, of which nothing is kept."""
        for body in (one for one in (self.loop.body, *self.loop.more) if one is not None):
            inside = [one for one in walk(body) if isinstance(one, ast.Call)]
            back = [one for one in inside if last_name(one.func) in ("backward", "manual_backward")]
            for one in back:
                outer = self.script.above(self.script.parent[one], ast.For)
                if one is not back[0] or (
                    outer is not body and outer is not None and body in self.script.around(outer)
                ):
                    self.ask(one)
            for test in (one for one in walk(body) if isinstance(one, ast.If)):
                for put in (each for each in walk(test) if isinstance(each, ast.Assign)):
                    if isinstance(put.value, ast.Name | ast.Tuple) and self.of(put.value) & RECORD:
                        self.ask(put)  # a batch that later rounds use
            names = [(one, place(self.script.statement(one))) for one in walk(body) if isinstance(one, ast.Name)]
            first: dict[str, tuple[int, int]] = {}
            for name, where in names:
                if isinstance(name.ctx, ast.Store):
                    first[name.id] = min(where, first.get(name.id, where))
            for name, where in names:
                is_old = place(body) < where <= first.get(name.id, place(body))
                if is_old and isinstance(name.ctx, ast.Load) and self.of(name) & RECORD:
                    self.ask(name)  # what an earlier round had
            for one in inside:
                if last_name(one.func) in ("append", "extend", "add") and any(
                    self.of(each) & RECORD for each in one.args
                ):
                    self.ask(one)

    def stepped(self) -> None:
        """Steps of which it is not seen that they have noise, or move nothing."""
        for one in self.script.attributes["step"] if self.loop.framework in ("opacus", "private_transformers") else ():
            call, name = self.script.parent[one], last_name(one.value)
            if isinstance(call, ast.Call) and call.func is one and call not in self.loop.steps:
                try:
                    made = self.script.resolve(one.value)
                except UnclearError:
                    made = one.value
                whole = self.script.qualified(made.func) if isinstance(made, ast.Call) else ""
                is_known = not any(self.of(each) & MODEL for each in call.args) and bool(
                    _MOVES_NOTHING.search(name) or ".lr_scheduler." in whole or self.loop.own or not self.loop.steps
                )
                if not is_known and call not in self.loop.earlier:
                    self.ask(one)
