"""What a script does with private records by calls that are known: all else is asked about, line by line.

A number is given where each record is one example that is treated by itself. What is known to break this is refused
elsewhere; here stands what is known to keep it. A line that is in neither is named, and the user may vouch for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts import single
from fastacct.scripts.beside import ALONE, BESIDE, LABEL, PLOTS, WORDS, choices, is_shown, statistics, steps
from fastacct.scripts.copies import DATA_SETS
from fastacct.scripts.copies import whole as made_of
from fastacct.scripts.flow import Flow
from fastacct.scripts.found import Loop
from fastacct.scripts.names import Script
from fastacct.scripts.sources import LOADER
from fastacct.scripts.tree import FUNCTIONS, Function, UnclearError, last_name, parts, walk

_LIBRARIES: Final = re.compile("|".join(sorted(WORDS["libraries"])))
_CALLED: Final = re.compile(
    r"(?:^|_)(?:model|net|enc|dec|loss|crit|criterion|bce|ce|mse|head|encoder|decoder|backbone|classifier|bert|gpt|unet|vae|critic"
    r"|generator|disc|discriminator|policy|tok|tokenizer|transform|body|embed|embedding|mlp|cnn|linear|fc|conv|act|layer"
    r"|block|attn|grad|per_\w+|apply|forward)(?:[A-Z0-9_]|fn|s?$)|accuracy|metric|auc|f1"
)
"""Names of models, their layers, losses, gradients and accuracies that are called."""
_READS: Final = re.compile(
    r"^load|^read_|fetch|^memmap$|genfromtxt|loadtxt|get_data|^make_|ImageFolder|Dataset$|MNIST|CIFAR|SVHN"
)
"""Functions and classes that data comes from."""
_KEPT: Final = re.compile(r"state|ckpt|checkpoint|model|net|weights|params|config|cfg|tok|vocab", re.I)
_WHO: Final = "(?:user|patient|person|customer|author|speaker)"
_PERSONS: Final = re.compile(
    rf"{_WHO}s?[-_ ]level|(?:protect\w*|privacy (?:of|for)|hides?)(?: \w+){{0,3}} {_WHO}|per[-_ ]{_WHO}"
    rf"|{_WHO}s? (?:is|are|stays?) (?:protected|private|hidden)",
    re.I,
)
"""What a script says that means all records of a person together."""
_ASIDE: Final = re.compile(r"test|valid|\bval|dev\b|public|eval|held", re.I)


HAND: Final = (
    "each round of the loop does the following and nothing else with gradients: the gradient of each record, of all "
    "parameters that the step moves, is scaled down to the clipping norm in L2 where it is longer; each is added once; "
    "Gaussian noise of --noise-multiplier times that norm is drawn anew for each coordinate of the sum, from a secret "
    "seed; what has the noise, and nothing before it, is used"
)
"""Of a loop that clips and adds noise by itself."""


def ask_of_the_unknown(loop: Loop) -> None:
    """Name each line that touches private records in a way that is not known."""
    if {"one loop", "one example", "noise", "sampler"} & loop.asks.keys():
        return  # for which no number is known, whatever is given
    try:
        flow = Flow(loop.script, loop.data, loop.noised)
        found = [*_calls(loop, flow), *statistics(loop, flow), *choices(loop, flow), *_items(loop.script)]
        found += [
            *_slices(loop, flow),
            *_joins(loop, flow),
            *steps(loop, flow),
            *single.found(loop),
            *_whole(loop),
        ]
    except (RecursionError, UnclearError) as error:
        loop.ask("noise", f"what is done with private records cannot be told: {error}")
        return
    for node, claim in found:
        loop.vouch(node, claim)
    for number, line in enumerate(loop.script.text.splitlines(), 1) if _PERSONS.search(loop.script.text) else ():
        if _PERSONS.search(line):
            loop.vouch_line(number, line.strip(), "no two records are of one of these")
            break


def _whole(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """A loop by hand is asked about as a whole: what it does between clip and step is not followed."""
    if loop.framework == "by hand":
        yield (loop.node if loop.body is None else loop.body), HAND
    elif loop.framework == "optax":
        for call in loop.script.calls:
            first = call.args[:1] if last_name(call.func) == "chain" else []
            is_first = any(re.search("private|dp_?sgd", ast.unparse(one), re.I) for one in first)
            if last_name(call.func) in ("masked", "multi_transform", "partition") or (first and not is_first):
                yield call, "the private aggregate is given the plain gradients of all parameters, before all else"


def guess_data(loop: Loop) -> None:
    """Take for private what a script reads, loads or fits, where it is not seen what a loop goes through."""
    script = loop.script
    found: list[ast.expr] = []
    for call in script.calls if not loop.data else ():
        name, words = last_name(call.func), {one.arg: one.value for one in call.keywords}
        if script.is_call(call, *LOADER):
            found += [*call.args[:1], *(words[one] for one in ("dataset",) if one in words)]
        elif name == "fit" or name.endswith("Trainer"):
            found += [
                words[one] for one in ("x", "y", "train_dataset", "train_dataloaders", "datamodule") if one in words
            ]
            found += call.args[: 2 if name == "fit" else 0]
        statement = script.statement(call)
        if _READS.search(name) and isinstance(statement, ast.Assign):
            names = [last_name(one) for target in statement.targets for one in parts(target)]
            uses = [script.uses[one] for one in names if one and not _KEPT.search(one)]
            found += [use[0] for use in uses if use]
    loop.data += [one for one in found if not _ASIDE.search(ast.unparse(one))]


def _calls(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Calls that are given records, or what is found of them, and that are not known."""
    script = loop.script
    touched = {call for region in loop.regions for call in region.touched}
    for call in script.calls:
        if _is_known(script, flow, call):
            continue
        given = [*call.args, *(one.value for one in call.keywords)]
        if isinstance(call.func, ast.Attribute) and not script.qualified(call.func):
            given.append(call.func.value)
        kinds = frozenset().union(*map(flow.kinds, given))
        if call not in touched and is_shown(script, call):
            continue
        if call in touched or kinds & {"data", "record"}:
            yield call, ALONE
        elif kinds and last_name(call.func) not in WORDS["shows"] and not PLOTS.match(script.qualified(call.func)):
            yield call, BESIDE


def _is_known(script: Script, flow: Flow, call: ast.Call) -> bool:
    """Whether a call is of a list, of the file itself, or of a model or a loss."""
    name, whole = last_name(call.func), script.qualified(call.func)
    if name in ("argsort", "bincount") and LABEL.search(ast.unparse(call)):
        return True
    is_joined = name == "sum" and any(isinstance(one, ast.List) for one in call.args[1:])  # sum(lists, [])
    if is_joined or (name in WORDS["suspect"] and isinstance(call.func, ast.Attribute)):
        return False
    if name in WORDS["known"] or _LIBRARIES.match(whole):
        return True
    if whole:
        return False
    if name in flow.defined or any(one.name == name for one in script.nodes if isinstance(one, ast.ClassDef)):
        return True
    if flow.is_model(name) or _CALLED.search(name) or name == "self":
        return True
    if (
        isinstance(call.func, ast.Attribute)
        and not flow.kinds(call.func.value)
        and _is_of_library(script, call.func.value)
    ):
        return True
    made = [*flow.fields.get(name, ())] if isinstance(call.func, ast.Attribute) else []
    if not made:
        try:
            made = [script.resolve(call.func)]
        except UnclearError:
            return not isinstance(call.func, ast.Name | ast.Attribute) and not name
    return bool(made) and all(_is_made(script, flow, one) for one in made)


def _is_of_library(script: Script, node: ast.expr) -> bool:
    """Whether an object is made by a library that is known."""
    try:
        made = script.resolve(node)
    except UnclearError:
        return False
    return isinstance(made, ast.Call) and _LIBRARIES.match(script.qualified(made.func)) is not None


def _is_made(script: Script, flow: Flow, node: ast.expr) -> bool:
    """Whether a value is a function of the file, or is made by a library that is known."""
    if isinstance(node, ast.Tuple):
        return all(_is_made(script, flow, one) for one in node.elts)
    if isinstance(node, ast.Name) and not flow.kinds(node):
        return flow.is_model(node.id) or _CALLED.search(node.id) is not None
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Lambda) or last_name(node) in flow.defined
    return _is_known(script, flow, node)


_JOINS: Final = (*DATA_SETS, "concat", "concatenate", "vstack", "cat")
"""Functions that join data, of which the parts must be seen."""


_LISTED: Final = re.compile(r"\.values\(\)|parameters|leaves|grad")


def _joins(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Data that is joined of parts that do not stand there one by one, and of which several may have one record."""
    inside = {node for region in loop.regions for node in region.nodes}
    for call in loop.script.calls:
        if last_name(call.func) not in _JOINS or not call.args or call in inside:
            continue
        whole = call.args[0]
        if isinstance(whole, ast.Name):
            found = loop.script.lookup(whole.id, whole)[1]
            whole = found[0].value if len(found) == 1 and found[0].value is not None else whole
        is_data = last_name(call.func) in DATA_SETS or "data" in flow.kinds(call)
        axis = [one.value for one in call.keywords if one.arg in ("dim", "axis")] + call.args[1:2]
        is_across = any(ast.unparse(one) != "0" for one in axis) or _LISTED.search(ast.unparse(whole)) is not None
        parts = whole.elts if isinstance(whole, ast.List | ast.Tuple) else []
        of = [made_of(flow, one, set(), is_part=True) for one in parts]
        is_apart = bool(parts) and not any(one & other for place, one in enumerate(of) for other in of[:place])
        is_apart |= bool(parts) and last_name(call.func) not in DATA_SETS
        if is_data and not is_across and not is_apart and not _is_by_file(whole):
            yield call, "no record is in several of the parts"


def _is_by_file(node: ast.expr) -> bool:
    """Whether each part comes from a file of its own: [load(path) for path in paths]."""
    if not isinstance(node, ast.ListComp | ast.GeneratorExp) or len(node.generators) != 1:
        return False
    names = {one.id for one in walk(node.generators[0].target) if isinstance(one, ast.Name)}
    read = next((one for one in walk(node.elt) if isinstance(one, ast.Call) and one.args), None)
    first = read.args[0] if read is not None else node
    return bool(names & {one.id for one in walk(first) if isinstance(one, ast.Name)})


# -- data sets of the file -------------------------------------------------------------------------------------------


def _items(script: Script) -> Iterator[tuple[ast.AST, str]]:
    """What a data set of the file takes its items from, if not from one place each, and lengths that are no length."""
    for function in (one for one in script.nodes if isinstance(one, Function)):
        if script.owner(function) is None:
            continue
        ends = [one.value for one in walk(function) if isinstance(one, ast.Return) and one.value is not None]
        if function.name == "__len__":
            yield from ((one, ALONE) for one in ends if isinstance(one, ast.BinOp))
        elif function.name == "__getitem__" and len(function.args.args) > 1:
            place = function.args.args[1].arg
            for one in walk(function):
                if isinstance(one, ast.Subscript) and _is_of_self(one.value) and not _is_at(script, one, place):
                    yield one, ALONE


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute) and last_name(node.value) != "self":
        node = node.value
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _is_at(script: Script, node: ast.Subscript, place: str) -> bool:
    """Whether an element is that of an index, or of a key, and of no other record."""
    at = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    for _ in range(4):
        if isinstance(at, ast.Call) and last_name(at.func) in ("int", "tolist", "item"):
            at = at.args[0] if at.args else at.func.value if isinstance(at.func, ast.Attribute) else at
        found = script.lookup(at.id, at)[1] if isinstance(at, ast.Name) else []
        if len(found) != 1 or found[0].kind != "value" or found[0].value is None:
            break
        at = found[0].value
    if isinstance(at, ast.Subscript):  # an element by its index, as of self.indices[i]
        return _is_at(script, at, place)
    names = [one for one in walk(at) if isinstance(one, ast.Name)]
    return isinstance(at, ast.Constant) or (isinstance(at, ast.Name) and at.id == place) or not names


# -- examples cut out of longer ones ---------------------------------------------------------------------------------


def _slices(loop: Loop, flow: Flow) -> Iterator[tuple[ast.AST, str]]:
    """Examples that are cut at each place of a loop, of which several may have one record."""
    script, inside = loop.script, {*walk(loop.body)} if loop.body is not None else set()
    regions = [region for region in loop.regions if not isinstance(region.node, ast.For)]
    for node in script.nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice) or node in inside:
            continue
        if node.slice.lower is None or node.slice.upper is None:
            continue
        names = {one.id for one in walk(node.slice) if isinstance(one, ast.Name)}
        outer = script.around(node, *FUNCTIONS, ast.Lambda)
        over = [each for one in outer for each in getattr(one, "generators", [one])]
        loops = [one for one in over if isinstance(one, ast.For | ast.comprehension)]
        moving = {each.id for one in loops for each in walk(one.target) if isinstance(each, ast.Name)}
        is_held = any(region.holds(node.value) for region in regions if node in region.nodes)
        if names & moving and (is_held or "data" in flow.kinds(node.value)):
            yield node, ALONE
