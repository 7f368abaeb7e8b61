"""The commands about certificates."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fastacct.certificate import certify as certificate_of
from fastacct.certificate import read_certificate
from fastacct.cli.answers import Answer
from fastacct.cli.jobs import job_of


def certify(given: Namespace) -> Answer:
    """A certified epsilon of a run, or of the job in a file."""
    found = certificate_of(job_of(given), delta=given.delta, neighbors=given.neighbors, digits=given.digits)
    told = [f"epsilon <= {found.epsilon} at delta = {found.delta}: proved in ball arithmetic, without the engine"]
    if given.write is not None:
        told.append(f"wrote {found.save(given.write, overwrite=given.overwrite)}")
    else:
        told.append("--write FILE keeps the certificate, which `fastacct verify FILE` proves again")
    document = {"command": "certify", "epsilon": found.epsilon, "delta": found.delta, "neighbors": found.neighbors}
    return Answer(document | {"certificate": found.document}, told, plain=found.epsilon)


def verify(given: Namespace) -> Answer:
    """Whether a certificate proves what it claims."""
    path = Path(given.certificate)
    try:
        told = read_certificate(path).verify()
    except ValueError as error:
        return Answer(
            {"command": "verify", "proved": False, "reason": str(error)}, [f"{path} is not proved: {error}"], 1
        )
    return Answer({"command": "verify", "proved": True, "claim": told}, [told])
