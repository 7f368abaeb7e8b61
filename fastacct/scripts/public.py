"""Steps and trainings without noise beside a private loop: on public data, as the user says, or else no number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop, number
from fastacct.scripts.loops import iterated
from fastacct.scripts.names import Script
from fastacct.scripts.tree import Binding, UnclearError, last_name, walk

_TRAINERS: Final = ("transformers.", "trl.", "sentence_transformers.")
_FITTED: Final = ("lightning.Trainer", "pytorch_lightning.Trainer", "lightning.pytorch.Trainer")
_KERAS: Final = ("keras.", "tensorflow.keras.")
_MAKES: Final = re.compile(r"priva|attach|dp|engine|prepare|wrap|setup", re.I)
"""Functions that may make an optimizer private."""
_ADDS: Final = ("accumulate_grad_batches", "gradient_accumulation_steps")
_DATA: Final = ("train_dataset", "train_dataloaders", "datamodule", "train_dataloader", "x")


def ask_of_others(loop: Loop) -> None:
    """Ask which data is public where other steps are taken; what is trained on privately never is."""
    _ask_of_trainers(loop)
    for node, what, data in (*_steps(loop), *_trainings(loop)):
        line = f"line {node.lineno}: {what}"
        names = set() if data is None else _roots(loop, data)
        if data is None or not names:
            loop.ask("noise", f"{line} without noise, on data that is not seen")
        elif names & _roots(loop, *loop.data):
            loop.ask(
                "noise", f"{line} without noise, on {ast.unparse(data)[:40]}, which is what is trained on privately"
            )
        elif said := names & {*loop.given.get("public", ())}:
            loop.notes.append(f"{line} without noise; {min(said)} is public, as --public says.")
        else:
            loop.asks.setdefault("public", f"{line} without noise: NAME is {min(names)}, if its records are public")


def _ask_of_trainers(loop: Loop) -> None:
    """Ask of batches that a trainer adds up for a step of an optimizer of Opacus."""
    script = loop.script
    made = [one for one in script.calls if last_name(one.func).endswith(("Trainer", "TrainingArguments"))]
    for call, word in ((one, word) for one in made if loop.framework == "opacus" for word in one.keywords):
        if word.arg in _ADDS and number(script, word.value) != 1:
            why = f"line {call.lineno}: {word.arg} adds up batches for a step"
            if loop.sampling == "poisson" or "shuffled" not in (loop.sampling, loop.given.get("batches", "shuffled")):
                loop.refuse("added up", why)
            else:
                loop.ask("batches", why)
                loop.ask_instead("batch_size", f"{why}; of all batches of a step together")


def _roots(loop: Loop, *data: ast.expr) -> set[str]:
    """The names of data, and of what it is made of."""
    return Flow(loop.script, data).roots


def _steps(loop: Loop) -> Iterator[tuple[ast.expr, str, ast.expr | None]]:
    """Steps of optimizers that no engine was given, and what they loop over."""
    script = loop.script
    found = [one for one in script.attributes["step"] if _is_plain(script, one) and not _is_own(loop, one)]
    for one in (*found, *(step.func for step in loop.earlier if isinstance(step.func, ast.Attribute))):
        yield one, f"{ast.unparse(one.value)[:40]} takes steps", _looped(script, one)


def _is_own(loop: Loop, step: ast.Attribute) -> bool:
    """Whether a step is that of a loop that adds the noise by itself."""
    return loop.framework == "by hand" and loop.body is not None and step in [*walk(loop.body)]


def _looped(script: Script, node: ast.AST) -> ast.expr | None:
    """The data that the loops around a node go through."""
    seen: set[ast.AST] = set()
    first = node
    while not isinstance(node, ast.Module) and node not in seen:
        seen.add(node)
        node = script.parent[node]
        if isinstance(node, ast.For) and ast.unparse(node.target) != ast.unparse(getattr(first, "value", first)):
            over = iterated(script, node.iter)
            while isinstance(over, ast.Name) and _is_parameter(script, over):
                try:
                    over = script.argument(_function(script, over), over.id)
                except UnclearError:
                    break
            if not script.is_call(over, "builtins.range", "tqdm.trange", "tqdm.auto.trange"):
                return over
        elif isinstance(node, ast.FunctionDef):
            try:
                node = script.caller(node)
            except UnclearError:
                return None
    return None


def _is_parameter(script: Script, name: ast.Name) -> bool:
    found = script.lookup(name.id, name)[1]
    return len(found) == 1 and found[0].kind == "parameter"


def _function(script: Script, name: ast.Name) -> ast.AST:
    return script.parent[script.parent[script.lookup(name.id, name)[1][0].node]]


def _trainings(loop: Loop) -> Iterator[tuple[ast.expr, str, ast.expr | None]]:
    """Trainers of Hugging Face, Lightning and Keras that are not those of the private loop."""
    script = loop.script
    for one in (*script.attributes["train"], *script.attributes["fit"]):
        call = script.parent[one]
        if not isinstance(call, ast.Call) or call.func is not one or call in loop.own:
            continue
        if _is_given_private(loop, one.value):
            continue
        try:
            made = script.resolve(one.value)
        except UnclearError:
            continue
        whole = script.qualified(made.func) if isinstance(made, ast.Call) else ""
        is_trainer = whole.startswith(_TRAINERS) and "Trainer" in whole and one.attr == "train"  # no mode of a model
        is_fitted = one.attr == "fit" and (whole in _FITTED or (whole.startswith(_KERAS) and "layers" not in whole))
        if not (is_trainer or is_fitted) or not isinstance(made, ast.Call):
            continue
        words = {word.arg: word.value for word in (*made.keywords, *call.keywords)}
        fitted = _made(script, call.args[0]) if call.args else words.get("model")
        if is_fitted and isinstance(fitted, ast.Call) and _is_fitted_private(script, fitted.func):
            continue
        given = [words[name] for name in _DATA if name in words]
        given += call.args[:1] if whole.startswith(_KERAS) else call.args[1:2] if is_fitted else made.args[2:3]
        data = next((each for each in given if not isinstance(each, ast.Constant)), None)
        owner = script.owner(loop.node)
        is_part = data is None and owner is not None and isinstance(fitted, ast.Call)
        is_part = is_part and last_name(getattr(fitted, "func", one)) == getattr(owner, "name", "")
        yield one, f"{ast.unparse(one)[:40]} trains" + ", and some of its steps may be" * is_part, data


def _is_given_private(loop: Loop, trainer: ast.expr) -> bool:
    """Whether a trainer is given an optimizer of Opacus, or that which make_private returned, and draws batches."""
    target = getattr(loop.script.parent[loop.node], "targets", [None])[0]
    made = _made(loop.script, trainer)
    if not isinstance(made, ast.Call):
        return False
    words = [word.value for word in made.keywords if word.arg == "optimizers"]
    if any(_is_of_opacus(loop.script, one.elts[0]) for one in words if isinstance(one, ast.Tuple) and one.elts):
        return True
    given = [part for word in words for part in walk(word)]
    is_made = isinstance(target, ast.Tuple) and len(target.elts) > 2
    return is_made and last_name(target.elts[1]) in {last_name(one) for one in given} - {"", "_"}


def _is_of_opacus(script: Script, optimizer: ast.AST | None) -> bool:
    """Whether an optimizer is surely one of Opacus, which clips and adds noise in its step."""
    made = _made(script, optimizer) if isinstance(optimizer, ast.expr) else None
    return isinstance(made, ast.Call) and script.qualified(made.func).startswith("opacus.optimizers.")


def _is_fitted_private(script: Script, module: ast.expr) -> bool:
    """Whether the optimizers of a module of Lightning, of this file, are all of Opacus."""
    kinds = [one for one in script.nodes if isinstance(one, ast.ClassDef) and one.name == last_name(module)]
    bodies = [one for kind in kinds for one in kind.body if getattr(one, "name", "") == "configure_optimizers"]
    ends = [one.value for body in bodies for one in walk(body) if isinstance(one, ast.Return)]
    return len(bodies) == 1 and bool(ends) and all(_is_of_opacus(script, one) for one in ends)


def _made(script: Script, node: ast.expr) -> ast.expr | None:
    """What a value is, where it is sure."""
    try:
        return script.resolve(node)
    except UnclearError:
        return None


def _elements(script: Script, binding: Binding) -> Sequence[ast.expr]:
    """What a loop over a list or a dictionary of the script gives its variable."""
    above = script.parent.get(binding.node)
    above = script.parent[above] if isinstance(above, ast.Tuple) else above  # of items()
    whole = above.iter if isinstance(above, ast.For | ast.comprehension) else None
    if isinstance(whole, ast.Call) and last_name(whole.func) in ("values", "items") and not whole.args:
        whole = getattr(whole.func, "value", None)
    try:
        whole = None if whole is None else script.resolve(whole)
    except UnclearError:
        return ()
    return whole.values if isinstance(whole, ast.Dict) else getattr(whole, "elts", ())


def _is_replaced(script: Script, found: Sequence[Binding]) -> bool:
    """Whether a name of a private optimizer is given a plain one later."""
    rows = sorted(found, key=lambda one: getattr(one.node, "lineno", 0))
    names = [(one.value.func if isinstance(one.value, ast.Call) else None) for one in rows]
    private = [
        place for place, one in enumerate(names) if one is not None and last_name(one).startswith("make_private")
    ]
    later = names[private[0] + 1 :] if private else []
    whole = [script.qualified(one) for one in later if one is not None]
    return any(one.startswith("torch.optim.") and ".lr_scheduler." not in one for one in whole)


def _is_plain(script: Script, step: ast.Attribute) -> bool:
    """Whether a step is surely that of a plain optimizer of PyTorch, which no engine was given."""
    whole = step.value
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    while whole is step.value and isinstance(whole, ast.Name) and _is_parameter(script, whole):
        try:
            whole = script.argument(_function(script, whole), whole.id)
        except UnclearError:
            return False
        step = ast.copy_location(ast.Attribute(whole, "step", ast.Load()), step)
    if isinstance(whole, ast.Name) and whole is step.value:
        found = script.lookup(whole.id, whole)[1]
        if len(found) != 1:
            return _is_replaced(script, found)
        named = (ast.copy_location(ast.Attribute(one, "step", ast.Load()), step) for one in _elements(script, found[0]))
        if any(_is_plain(script, one) for one in named):  # for one in (first, second): one.step()
            return True
    try:
        made = [script.resolve(whole)]
    except UnclearError:
        made = []
    if whole is not step.value:  # an element of a list, or of a dictionary
        same = ast.unparse(step.value)
        stores = [one for one in script.nodes if isinstance(one, ast.Assign)]
        made += [one.value for one in stores if any(ast.unparse(target) == same for target in one.targets)]
        made = [part for one in made for part in walk(one) if isinstance(part, ast.Call)]
    names = [script.qualified(one.func) for one in made if isinstance(one, ast.Call)]
    plain = [one for one in names if one.startswith("torch.optim.")]
    if not plain or any(one.startswith("torch.optim.lr_scheduler.") for one in plain):
        return False
    uses: list[ast.AST] = []
    if isinstance(whole, ast.Name):  # and not another name that is spelled the same
        home = script.lookup(whole.id, whole)[0]
        uses += [one for one in script.uses[whole.id] if script.lookup(whole.id, one)[0] is home]
    above = [script.parent[one] for one in uses]
    above += [script.parent[one] for one in above if isinstance(one, ast.Subscript | ast.keyword)]
    return not any(isinstance(one, ast.Call) and _MAKES.search(last_name(one.func)) for one in above)
