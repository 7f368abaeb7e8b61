"""What a script says of its privacy, and what its own accountant counts, where that is not what its loop does."""

from __future__ import annotations

import re
from typing import Final

from fastacct.scripts.found import Loop
from fastacct.scripts.tree import last_name

_POISSON: Final = re.compile(
    r"compute_rdp$|RDPAccountant$|PRVAccountant$|GaussianAccountant$|PoissonSampledDpEvent$|compose_poisson"
    r"|compute_dp_sgd_privacy|get_privacy_spent$|create_accountant$"
)
CURES: Final = {
    "poisson_sampling=False": "leave poisson_sampling=False out",
    "the loader that make_private": "loop over what make_private returns",
    "a loop over the loader before": "loop over what make_private returns",
    "num_microbatches": "let num_microbatches be the batch size",
    "the script's accountant": "draw Poisson batches",
    "": "draw Poisson batches",
}
"""What to do beside reporting another number, by how a break begins."""


_CLAIMS: Final = (
    *("differential priva", "differentially priva", "differential_priva", "differentially-priva", "dp_accounting"),
    *("dp-sgd", "dp_sgd", "dpsgd", "dp-ftrl", "privacy budget", "privacy_budget", "privacy loss", "accountant"),
)
_PAIR: Final = re.compile(r"\bepsilon\b.{0,40}\bdelta\b|\bPATE\b")
"""What a script says that claims to be private."""


def claims(text: str) -> bool:
    """Whether a script says that it is private."""
    low = text.lower()
    return any(word in low for word in _CLAIMS) or _PAIR.search(text) is not None


def ask_of_accountants(loop: Loop) -> None:
    """Mark an accountant of Poisson batches where a loop has others, and say where steps are left uncounted."""
    script = loop.script
    if {"one loop", "one example", "noise", "sampler"} & loop.asks.keys():
        return
    if (
        loop.breaks is None
        and loop.sampling in ("shuffled", "fixed_order", "fixed_size")
        and loop.framework != "flower"
    ):
        for call in script.calls:
            whole = script.qualified(call.func)
            if not whole.startswith("fastacct.") and _POISSON.search(whole or last_name(call.func)):
                loop.breaks = call.lineno, "the script's accountant counts Poisson batches"
                break


def cure(what: str) -> str:
    """What mends a line that breaks the guarantee."""
    return next(said for begins, said in CURES.items() if what.startswith(begins))
