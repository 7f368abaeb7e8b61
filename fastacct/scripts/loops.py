"""How often a line of a script runs: the loops around it, through functions that are called once, up to the module."""

from __future__ import annotations

import ast
from typing import Final

from fastacct.scripts.names import Script
from fastacct.scripts.tree import ElsewhereError, UnclearError, last_name, walk

_WRAPPERS: Final = ("builtins.enumerate", "tqdm.", "rich.progress.track")
_HIDES: Final = ("contextlib.suppress", "pytest.raises")
_BUDGETS: Final = ("BudgetExceededError", "KeyboardInterrupt")
_ENDS: Final = ("sys.exit", "os._exit", "builtins.exit", "builtins.quit")


def around(script: Script, node: ast.AST) -> tuple[list[ast.For], list[ast.AST]]:
    """The loops around a node, from the inside, and the places where its functions are called.

    Raises
    ------
    UnclearError
        Where conditions, jumps or calls make it uncertain how often the node runs; `ElsewhereError` where nothing in
        the file calls its function.
    """
    loops: list[ast.For] = []
    places, seen = [node], {node}
    early: ast.AST | None = None
    while not isinstance(above := script.parent[node], ast.Module):
        if isinstance(above, ast.For | ast.AsyncFor | ast.While) and node is not getattr(above, "iter", None):
            if not isinstance(above, ast.For) or node not in above.body:
                raise UnclearError(above, "how often this loop runs cannot be told")
            _refuse_jumps(script, above)
            loops.append(above)
            if early is not None:  # after an error the next round would begin
                raise UnclearError(early, "an error may end this early")
        elif isinstance(above, ast.If) and node is not above.test:
            _refuse_branch(script, above, node in above.body)
        elif _hides_errors(script, above):
            if not _is_budget(script, above, node):
                raise UnclearError(above, "an error may end this early")
            script.early.append(early := above)
        elif isinstance(above, ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension | ast.Match | ast.ClassDef):
            raise UnclearError(above, "whether this runs cannot be told")
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.AsyncFunctionDef):
            raise UnclearError(above, "how often this runs cannot be told")
        elif isinstance(above, ast.FunctionDef):
            _refuse_returns(script, above, node)
            above = script.caller(above)
            if above in seen:
                raise UnclearError(above, "a function that calls itself")
            seen.add(above)
            places.append(above)
        node = above
    _refuse_returns(script, above, node)
    return loops, places


def passes(script: Script, loop: ast.For) -> int:
    """How often the body of a loop over range(...) runs."""
    found = iterated(script, loop.iter)
    if isinstance(found, ast.Name | ast.Attribute):
        found = script.resolve(found)
    if script.is_call(found, "builtins.range", "tqdm.trange", "tqdm.auto.trange") and 1 <= len(found.args) <= 3:
        ends = [script.fold(one) for one in found.args]
        if all(type(one) is int for one in ends) and (len(ends) < 3 or ends[2]):
            return len(range(*ends))
    raise UnclearError(loop, f"how often this loops over {ast.unparse(loop.iter)[:40]} cannot be told")


def iterated(script: Script, node: ast.expr) -> ast.expr:
    """What a loop goes through, without enumerate() and progress bars, also one that has a name: bar = tqdm(loader)."""
    while True:
        found = script.lookup(node.id, node)[1] if isinstance(node, ast.Name) else []
        made = found[0].value if len(found) == 1 and found[0].kind in ("value", "with") else node
        name = script.qualified(made.func) if isinstance(made, ast.Call) and made.args else ""
        is_spent = made is not node and name == "builtins.enumerate"  # after one round
        if not isinstance(made, ast.Call) or not name.startswith(_WRAPPERS) or name.endswith("trange") or is_spent:
            return node
        node = made.args[0]


def _refuse_jumps(script: Script, loop: ast.For) -> None:
    """A loop that may be left, or in which a round may be skipped."""
    for one in walk(loop):
        jumps = isinstance(one, ast.Break | ast.Continue) and _loop_of(script, one) is loop
        is_return = isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) and script.scope(one) is script.scope(loop)
        if jumps or is_return or script.is_call(one, *_ENDS):
            raise UnclearError(one, "the loop may be left, or a round skipped")


def _hides_errors(script: Script, node: ast.AST) -> bool:
    """Whether errors inside are caught, so that a loop may end early and the script go on."""
    if isinstance(node, ast.With):
        return any(script.is_call(one.context_expr, *_HIDES) for one in node.items)
    return isinstance(node, ast.Try | ast.TryStar) and bool(node.handlers)


def _is_budget(script: Script, above: ast.AST, node: ast.AST) -> bool:
    """Whether a training inside ends early where its budget does, or by hand: it takes fewer steps then."""
    if not isinstance(above, ast.Try) or node not in above.body:
        return False
    raised = {last_name(part) for one in script.nodes if isinstance(one, ast.Raise) for part in walk(one)}
    caught = [part for one in above.handlers for part in getattr(one.type, "elts", [one.type])]
    names = {last_name(one) for one in caught if one is not None} if None not in caught else {""}
    return names <= {*_BUDGETS} - raised


def _loop_of(script: Script, node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.For | ast.While | ast.AsyncFor):
        node = script.parent[node]
    return node


def _refuse_branch(script: Script, branch: ast.If, is_body: bool) -> None:
    """A branch that is not surely taken."""
    test = branch.test
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__":
        return
    try:
        taken = bool(script.fold(test))
    except UnclearError:
        raise UnclearError(branch, f"this depends on: {ast.unparse(test)[:60]}") from None
    if taken is not is_body:
        raise UnclearError(branch, f"this branch is not taken: {ast.unparse(test)[:60]}")


def _refuse_returns(script: Script, scope: ast.AST, node: ast.AST) -> None:
    """A function that may be left before it comes to a node, or that makes a generator."""
    line = getattr(node, "lineno", 1)
    for one in walk(scope):
        is_earlier = getattr(one, "lineno", line) < line and script.scope(one) is scope
        is_end = isinstance(one, ast.Return) or script.is_call(one, *_ENDS)
        is_generator = isinstance(one, ast.Yield | ast.YieldFrom) and script.scope(one) is scope
        if (is_end and is_earlier) or is_generator:
            raise UnclearError(one, "what follows may not run")


def is_single(script: Script, node: ast.AST) -> str:
    """Why a node may run several times or not at all; empty if once, or if its function is called elsewhere."""
    try:
        loops, _ = around(script, node)
    except ElsewhereError:
        return ""
    except UnclearError as error:
        return str(error)
    return f"line {loops[0].lineno}: this is made again in each round of a loop" if loops else ""


def refuse_added(script: Script, step: ast.AST) -> None:
    """Several gradients for one step: each is clipped by itself, and the noise is that of one."""
    backward = script.attributes["backward"]
    if len(backward) > 1 or any(around(script, one)[0] != around(script, step)[0] for one in backward):
        raise UnclearError(backward[-1], "several gradients may be added up for one step")
