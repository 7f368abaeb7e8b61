"""What is asked of a training that is not plain, of a loop by hand as a whole, and of persons that are protected."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.plain import is_of_jax, odd
from fastacct.scripts.sources import LOADER
from fastacct.scripts.tree import UnclearError, last_name, parts

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
JAX: Final = (
    "the loop over its batches takes each drawn record once, as one example that is treated by itself, adds new noise "
    "to the clipped gradients as they are, once a batch, uses nothing else that is found of records, and all batches "
    "of the strategy are gone through once"
)
"""Of a loop over batches that JAX Privacy draws."""
OPTAX: Final = (
    "the loop takes each record of a batch once, as one example that is treated by itself; the private aggregate is "
    "given the plain gradients of each, of all parameters, before all else, once a batch; and nothing else that is "
    "found of records is used"
)
"""Of a loop whose gradients Optax makes private."""


def ask_of_the_unknown(loop: Loop) -> None:
    """Ask of each line that is not plain, of a loop that adds the noise by itself, and of persons."""
    if {"one loop", "one example", "noise", "sampler"} & loop.asks.keys():
        return  # for which no number is known, whatever is given
    try:
        for node, claim in (*odd(loop), *_whole(loop)):
            loop.vouch(node, claim)
    except (RecursionError, UnclearError) as error:
        loop.ask("noise", f"what is done with private records cannot be told: {error}")
        return
    for number, line in enumerate(loop.script.text.splitlines(), 1) if _PERSONS.search(loop.script.text) else ():
        if _PERSONS.search(line):
            loop.vouch_line(number, line.strip(), "no two records are of one of these")
            break


def _whole(loop: Loop) -> Iterator[tuple[ast.AST, str]]:
    """A loop by hand is asked about as a whole: what it does between clip and step is not followed."""
    if loop.framework == "by hand":
        yield (loop.node if loop.body is None else loop.body), HAND
    elif is_of_jax(loop) or loop.framework == "optax":
        yield loop.node, OPTAX if loop.framework == "optax" else JAX


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
