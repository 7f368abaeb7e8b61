"""Names as people write them: which one was probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Final

__all__ = ["did_you_mean", "written_out"]

_SYNONYMS: Final = {
    "sigma": "noise_multiplier",
    "noise": "noise_multiplier",
    "scale": "noise_multiplier",
    "q": "sample_rate",
    "rate": "sample_rate",
    "sampling_rate": "sample_rate",
    "sampling_probability": "sample_rate",
    "t": "steps",
    "num_steps": "steps",
    "iterations": "steps",
    "n": "records",
    "dataset_size": "records",
    "sample_size": "records",
    "lot_size": "batch_size",
    "eps": "epsilon",
    "target_epsilon": "epsilon",
    "target_delta": "delta",
    "alpha": "orders",
    "alphas": "orders",
    "order": "orders",
    "relation": "neighbors",
    "prv": "PLD",
    "kl": "divergence",
    "mse": "utility",
    "reconstruction": "tpr_at_fpr",
}
"""What other libraries and papers call it."""

_DEFAULTS: Final = {"neighbors": "add_remove", "sampling": "poisson"}
"""Of keywords that are not None where they are not given."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to a refusal; empty where no known name is near."""
    import difflib

    names = [*known]
    plain = {name.casefold(): name for name in names}
    near = [_SYNONYMS.get(word.casefold(), ""), plain.get(word.casefold(), ""), *difflib.get_close_matches(word, names)]
    meant = next((name for name in near if name in names), None)
    return f" (did you mean {meant!r}?)" if meant else ""


def written_out(keywords: Mapping[str, object], functions: Iterable[Callable[..., object]]) -> None:
    """Give functions with `**keywords` a signature with each of them, for completion and `help`."""
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name)) for name in keywords]
    for function in functions:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind != inspect.Parameter.VAR_KEYWORD]
        if len(own) < len(signature.parameters):
            more = [one for one in named if one.name not in signature.parameters]
            function.__signature__ = signature.replace(parameters=own + more)  # type: ignore[attr-defined]
