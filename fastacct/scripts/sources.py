"""What a script trains on: data loaders of PyTorch and tf.data, how they draw, and how many records a data set has."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import Final, NamedTuple

from fastacct.scripts import tables
from fastacct.scripts.names import Script
from fastacct.scripts.tree import UnclearError, keywords, last_name

LOADER: Final = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_ARGUMENTS: Final = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
_MORE: Final = ("collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
_SETS: Final = {"MNIST": 60_000, "FashionMNIST": 60_000, "KMNIST": 60_000, "CIFAR10": 50_000, "CIFAR100": 50_000}
"""Records of the training sets of torchvision."""
_PARTS: Final = ("data", "targets", "samples", "imgs", "indices", "tensors")
"""Fields of data sets; one that is set anywhere may be that of any of them."""
_SHAPED: Final = ("randn", "rand", "zeros", "ones", "empty")
_SAME: Final = ("shuffle", "rename_column", "rename_columns", "remove_columns", "with_format", "cast", "cast_column")
"""Methods of data sets of Hugging Face that keep the number of records."""
_TOKENIZES: Final = re.compile(r"(?:return |lambda \w+: )\w*tok\w*\(")
_SAMPLERS: Final = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")


class Loader(NamedTuple):
    """A data loader: the name and the settings that `loader_guide` knows it by, and what it draws from."""

    name: str
    settings: dict[str, bool | int]
    line: int
    dataset: ast.expr | None = None
    batch_size: ast.expr | None = None
    drawn: ast.expr | None = None
    """How many indices a sampler draws an epoch, where it is not one for each record."""


def torch_loader(script: Script, node: ast.expr) -> Loader:
    """The DataLoader that an expression is."""
    made = script.resolve(node)
    func = made.func if isinstance(made, ast.Call) else None
    is_here = isinstance(func, ast.Name) and not script.qualified(func)
    if isinstance(made, ast.Call) and (is_here or getattr(func, "attr", "") == "train_dataloader"):
        made = script.returned(made)
    if not script.is_call(made, *LOADER):
        raise UnclearError(made, f"{ast.unparse(made)[:60]} is not a DataLoader that can be seen")
    given = keywords(tables.spread(script, made, partial(script.resolve, once=True)), _ARGUMENTS + _MORE)
    if "batch_sampler" in given or "dataset" not in given:
        raise UnclearError(made, "a batch_sampler draws as it likes")
    settings: dict[str, bool | int] = {}
    drawn: ast.expr | None = None
    for name in {"shuffle", "drop_last"} & given.keys():
        settings[name] = _truth(script, given[name])
    if "sampler" in given and not _is_none(given["sampler"]):
        more, drawn = _sampler(script, script.resolve(given["sampler"]))
        settings |= more
    size = given.get("batch_size") or ast.copy_location(ast.Constant(1), made)
    return Loader(LOADER[0], settings, made.lineno, given["dataset"], size, drawn)


def _sampler(script: Script, made: ast.expr) -> tuple[dict[str, bool], ast.expr | None]:
    """The settings of a sampler of PyTorch, and how many indices it draws where that is said."""
    kind = script.qualified(made.func).rpartition(".") if isinstance(made, ast.Call) else ("", "", "")
    if not kind[0].startswith("torch.utils.data") or kind[2] not in _SAMPLERS or not isinstance(made, ast.Call):
        raise UnclearError(made, f"how {ast.unparse(made)[:40]} draws cannot be told")
    if kind[2] == "WeightedRandomSampler":
        return {"weighted": True}, keywords(made, ("weights", "num_samples", "replacement"))["num_samples"]
    given = keywords(made, ("data_source", "replacement", "num_samples"))
    if kind[2] == "SequentialSampler":
        return {}, None
    is_replaced = "replacement" in given and _truth(script, given["replacement"])
    drawn = given.get("num_samples")
    settings = {"replacement": True} if is_replaced else {"shuffle": True}
    return settings, None if drawn is None or _is_none(drawn) else drawn


_SPLITS: Final = {
    "SVHN": {"train": 73_257, "extra": 531_131},
    "EMNIST": {"balanced": 112_800, "digits": 240_000, "letters": 124_800, "mnist": 60_000, "byclass": 697_932},
}
"""The same by the word that such a set is given, where another is no set to train on."""


def size_of(script: Script, node: ast.expr) -> int:
    """How many records a data set has, where the script or the name of the set says so."""
    if (part := _part(script, node)) is not None:
        return part
    if isinstance(node, ast.Attribute) and node.attr == "dataset":
        held = torch_loader(script, node.value).dataset
        return size_of(script, held if held is not None else node)
    made = script.resolve(node)
    name = script.qualified(made.func) if isinstance(made, ast.Call) else ""
    short = name.rpartition(".")[2]
    for one in (one for field in _PARTS for one in script.attributes[field]):
        owner = script.owner(one) if getattr(one.value, "id", "") == "self" else None
        is_field = owner is not None and not owner.bases  # which no data set has
        if not isinstance(one.ctx, ast.Load) and not is_field:
            raise UnclearError(one, f"{one.attr} is set: how many records are left cannot be told")
    if isinstance(made, ast.Call) and name.startswith("torchvision.datasets.") and short in _SETS:
        given = keywords(made, ("root", "train", "transform", "target_transform", "download"))
        if "train" not in given or _truth(script, given["train"]):
            return _SETS[short]
    elif isinstance(made, ast.Call) and name.startswith("torchvision.datasets.") and short in _SPLITS:
        given = keywords(made, ("root", "split", "transform", "target_transform", "download"))
        word = script.fold(given["split"]) if "split" in given else "train"
        if word in _SPLITS[short] and ("train" not in given or _truth(script, given["train"])):
            return _SPLITS[short][word]
    elif isinstance(made, ast.Call) and name.startswith("torch.utils.data.") and short == "TensorDataset" and made.args:
        return size_of(script, made.args[0])
    elif isinstance(made, ast.Call) and name.startswith("torch.") and short in (*_SHAPED, "randint"):
        tuples = [one.elts for one in made.args if isinstance(one, ast.Tuple) and one.elts]
        first = tuples[0][0] if tuples else made.args[0] if made.args and short != "randint" else made
        if type(size := script.fold(first)) is int:
            return size
    elif isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and _is_hugging_face(script, made):
        chosen = made.args[0] if last_name(made.func) == "select" and len(made.args) == 1 else made
        if script.is_call(chosen, "builtins.range") and len(chosen.args) == 1:
            return int(script.fold(chosen.args[0]))
        if last_name(made.func) in _SAME or (last_name(made.func) == "map" and _keeps(script, made)):
            return size_of(script, made.func.value)
    raise UnclearError(node, f"how many records {ast.unparse(node)[:40]} has cannot be told")


def _keeps(script: Script, call: ast.Call) -> bool:
    """Whether map() of Hugging Face gives one record for each: by itself, or of batches that are tokenized alone."""
    words = [one.arg for one in call.keywords]
    if None in words or not call.args:
        return False
    found = script.lookup(call.args[0].id, call)[1] if isinstance(call.args[0], ast.Name) else []
    text = ast.unparse(found[0].node if len(found) == 1 else call.args[0])
    return "batched" not in words or (_TOKENIZES.search(text) is not None and "overflow" not in text)


def _is_hugging_face(script: Script, made: ast.expr) -> bool:
    """Whether a chain of methods begins with load_dataset()."""
    for _ in range(20):
        if script.is_call(made, "datasets.load_dataset"):
            return True
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
            return False
        made = script.resolve(made.func.value)
    return False


def _part(script: Script, node: ast.expr) -> int | None:
    """How many records random_split() gives a name, where its call says it."""
    if not isinstance(node, ast.Name):
        return None
    found = script.lookup(node.id, node)[1]
    assign = found[0].node if len(found) == 1 and found[0].kind == "part" else None
    call, target = (assign.value, assign.targets[0]) if isinstance(assign, ast.Assign) else (None, None)
    if call is None or not script.is_call(call, "torch.utils.data.random_split") or len(call.args) < 2:
        return None
    lengths = script.resolve(call.args[1])
    if not isinstance(lengths, ast.List | ast.Tuple) or not isinstance(target, ast.Tuple):
        return None
    sizes = [script.fold(one, partial(size_of, script)) for one in lengths.elts]
    if len(sizes) != len(target.elts) or any(type(one) is not int for one in sizes) or any(script.changed(node.id)):
        return None
    return int(sizes[[last_name(one) for one in target.elts].index(node.id)])


def _truth(script: Script, node: ast.expr) -> bool:
    """True or False, as it is written."""
    value = script.fold(node)
    if value is not None and type(value) is not bool:
        raise UnclearError(node, f"{ast.unparse(node)[:40]} is neither True nor False")
    return bool(value)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# -- tf.data ---------------------------------------------------------------------------------------------------------

_KEEP: Final = ("map", "cache", "prefetch", "with_options")
_BASES: Final = ("tensorflow.data.Dataset.from_tensor_slices", "tensorflow_datasets.load")


def tf_pipeline(script: Script, node: ast.expr) -> Loader:
    """The chain of methods behind a data set of TensorFlow."""
    chain: list[ast.Call] = []
    made = script.resolve(node)
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and not script.qualified(made.func):
        if made in chain:
            raise UnclearError(made, "a data set that is made of itself")
        chain.insert(0, made)
        made = script.resolve(made.func.value)
    if not script.is_call(made, *_BASES):
        raise UnclearError(made, f"how {ast.unparse(made)[:40]} comes cannot be told")
    settings: dict[str, bool | int] = {}
    batch: ast.expr | None = None
    for call in chain:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in _KEEP:
            continue
        if name == "shuffle" and batch is None and "shuffle" not in settings:
            given = keywords(call, ("buffer_size", "seed", "reshuffle_each_iteration"))
            settings |= {"shuffle": True, "buffer_size": script.fold(given["buffer_size"])}
            if "reshuffle_each_iteration" in given:
                settings["reshuffle_each_iteration"] = _truth(script, given["reshuffle_each_iteration"])
        elif name == "repeat" and batch is None:
            settings["repeat_before_batch"] = True
        elif name == "batch" and batch is None:
            given = keywords(call, ("batch_size", "drop_remainder"))
            batch = given["batch_size"]
            settings["drop_remainder"] = "drop_remainder" in given and _truth(script, given["drop_remainder"])
        else:
            raise UnclearError(call, f"what {name}() does to the batches cannot be told")
    if batch is None:
        raise UnclearError(made, "a data set without batch()")
    return Loader("tf.data", settings, made.lineno, None, batch)
