"""A guarantee with most of what a document may have, and what is done to documents."""

import json
from copy import deepcopy
from functools import cache

import fastacct as fa
from fastacct.ledger.state import checksum

HOSTILE = (
    *(None, True, -1, 0, 1.5, 1e300, 2**53 + 2, "", "0", "1", "-1.0", "inf", "nan", "1e-6", "0.10", "\ud800"),
    *([], {}, [1], [["0.1", "0", "0"]], {"kind": "Gaussian", "noise_multiplier": 1.0}, ...),
)
"""What stands in place of a value; ... takes it out."""
RUN = {"noise_multiplier": 1.0408, "records": 50_000, "batch_size": 512, "epochs": 30}
AUDITED = fa.audit.one_run(1000, guesses=200, right=120)


@cache
def of_a_user():
    """A guarantee with all that a document may have but a certificate."""
    public = {"clipping_norm": 1.5, "layers": 12, "optimizer": "Adam"}
    audits = [AUDITED, fa.audit.scores([1.0, 2.0], [0.0])]
    return fa.guarantee(**RUN, delta=1e-6, unit="user", rows=2, public=public, audits=audits)


def sealed(document):
    """The text of an altered document with a digest of its own, as a forger makes it."""
    rest = {name: one for name, one in document.items() if name != "digest"}
    return json.dumps({**rest, "digest": checksum(rest)})


def places(part, at=()):
    """All places of a document that hold a value, those inside others too."""
    for name, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*at, name)
        if isinstance(value, dict | list):
            yield from places(value, (*at, name))


def put(document, at, value):
    """The document with a value in another place; ... takes it out."""
    changed = deepcopy(document)
    part = changed
    for name in at[:-1]:
        part = part[name]
    if value is ...:
        del part[at[-1]]
    else:
        part[at[-1]] = value
    return changed
