"""What is told of a live loader: its class, and what it draws."""

from __future__ import annotations

import math
import sys
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple

from fastacct.core.extras import Foreign

TORCH: Final = "torch.utils.data.DataLoader"
"""The entry of the table for PyTorch's loader."""
LOADER: Final = "torch.utils.data.dataloader.DataLoader"
_PUBLIC: Final = "which everybody knows"
_PUBLIC_SEEDS: Final = (0, 42, 67280421310721)
"""Of DistributedSampler, of transformers.Trainer, and of a torch.Generator that nobody seeded."""
_HOMES: Final = (
    "torch.",
    "opacus.",
    "accelerate.",
    "transformers.",
    "lightning.",
    "pytorch_lightning.",
    "grain.",
    "jax_privacy.",
)
_INSTEAD: Final = (
    'if you know how it draws, say so: fa.loader_guide("torch.utils.data.DataLoader", ...), or sampling= of '
    "fa.dpsgd.epsilon"
)
_BESIDE: Final = {
    "opacus.privacy_engine.PrivacyEngine": "give the loader that make_private returns",
    "transformers.training_args.TrainingArguments": "give the Trainer",
    "transformers.trainer.Trainer": "it may draw otherwise than its parent: give what get_train_dataloader() returns",
    "lightning.pytorch.core.module.LightningModule": "give what its train_dataloader() returns",
    "builtins.NoneType": "a Trainer of Lightning has a loader from fit() on: give the DataLoader",
}
"""What stands beside a loader, and is given in its place."""


class Seen(NamedTuple):
    """What a live loader draws."""

    name: str
    """Its class."""
    loader: str
    """The entry of the table whose answer holds, with these settings."""
    settings: dict[str, bool | int]
    run: dict[str, Any]
    """The keywords of a run that it fixes."""
    length: int
    """Steps of a pass over it; 0 where it does not say."""
    unit: Literal["steps", "epochs"] = "steps"
    """The keyword that counts: a unit is `per` steps, the last one begun."""
    per: int = 1
    is_pass: bool = False
    """Whether a unit is a pass over the loader, which may be left before its end."""
    repeats: bool = False
    """Whether passes come one after another."""
    share: float = 1.0
    """The noise counts as so much of it."""
    most: float = math.inf
    """Steps that it draws at all."""
    records: int | None = None
    batches: int = 1
    """Batches whose gradients are added up for a step."""
    asks: tuple[str, ...] = ()
    """Keywords that it does not know, and a run needs."""
    notes: tuple[str, ...] = ()
    """Of its seed."""

    @property
    def is_guessed(self) -> bool:
        """Whether everybody knows who is in a batch, where the number holds for those who do not."""
        return not self.is_pass and any(_PUBLIC in note for note in self.notes)

    @property
    def is_by_steps(self) -> bool:
        """Whether a run is asked for by its steps."""
        return not self.is_pass


def name_of(thing: object) -> str:
    """The full name of a class that its module holds under this name; else "", also for one that is not what it says.

    An object that has methods of its own is not what its class says.
    """
    kind = type(thing)
    module, name = kind.__module__, kind.__qualname__
    held = getattr(sys.modules.get(module), name, None) if isinstance(module, str) else None
    own = vars(thing) if hasattr(thing, "__dict__") else {}
    is_changed = any(isinstance(getattr(kind, one, None), FunctionType) for one in own)
    return f"{module}.{name}" if held is kind and not is_changed else ""


class UnknownLoaderError(ValueError):
    """A loader of which nothing is known, not even that it draws otherwise than one may say."""


def refusal(thing: object, why: str = "", *, is_unknown: bool = False) -> ValueError:
    """The error for what is not known, or known and not proved, with what to say instead.

    Without a reason the class is not known.
    """
    kind = UnknownLoaderError if is_unknown or not why else ValueError
    mine, *parents = (f"{one.__module__}.{one.__qualname__}" for one in type(thing).__mro__)
    parent = next((name for name in parents if name.startswith(_HOMES)), mine if mine.startswith(_HOMES) else "")
    why = why or next((_BESIDE[name] for name in (mine, *parents) if name in _BESIDE), "")
    if not why and mine.startswith("tensorflow."):
        why = 'a data set of tf.data does not tell: fa.loader_guide("tf.data", shuffle=, buffer_size=, records=)'
    if not why and parent:
        why = "only loaders of its library are known, not classes made of them, nor objects whose methods were changed"
    return kind(f"loader: nothing is known of {mine}{': ' + why if why else ''}; {_INSTEAD}")


def shuffled(settings: dict[str, bool | int], records: int, size: int, notes: tuple[str, ...] = ()) -> Seen:
    """One random order of the records in each pass."""
    run = {"sampling": "shuffled", "records": records, "batch_size": min(size, records)}
    length = -(-records // size)
    found = Seen("", TORCH, {"shuffle": True} | settings, run, length, "epochs", records=records, notes=notes)
    return found._replace(is_pass=True)


def in_order(settings: dict[str, bool | int], records: int, size: int, notes: tuple[str, ...] = ()) -> Seen:
    """Each record once in each pass, in an order that is not random, or not known to be."""
    length = -(-records // size)
    return Seen("", TORCH, settings, {"sample_rate": 1.0}, length, is_pass=True, records=records, notes=notes)


def of_seed(seed: int | None) -> tuple[str, ...]:
    """What is to be said of a seed, if somebody may know it: of a secret one nothing, and not what it is."""
    if seed is None or not (seed < 2**32 or seed in _PUBLIC_SEEDS):
        return ()
    known = f"{_PUBLIC}, and" if seed in _PUBLIC_SEEDS else "and"
    return (f"Its seed is {seed}, {known} who knows it knows the batches: take a secret one.",)


def of_generator(generator: Foreign) -> tuple[str, ...]:
    """The same of a generator of PyTorch; where it is None, of PyTorch's own, which a script or a trainer seeds."""
    torch: Foreign = sys.modules["torch"]
    try:
        seed = int((torch if generator is None else generator).initial_seed())
    except RuntimeError:  # one that has no seed, as Opacus' secure_mode has it
        return ()
    if generator is not None or seed >= 2**32:
        return of_seed(seed)
    return (f"It draws from PyTorch's own generator, whose seed is {seed}: who knows it knows the batches.",)
