"""Parallel composition: jobs on disjoint parts of the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import DeltaOf
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.laplace import Laplace
from fastacct.mechanisms.process import Process

__all__ = ["Parallel", "as_plain_job"]


def as_plain_job(name: str, job: object) -> Process:
    """A job of plain numbers."""
    process = job * 1 if isinstance(job, Mechanism) else job
    if not isinstance(process, Process) or process.shape:
        raise TypeError(f"{name} must be a mechanism or a process of plain numbers, not {job!r}")
    return process


@dataclass(frozen=True, eq=False)
class Parallel(Mechanism):
    """Jobs on disjoint parts of the data: a record is in one of them.

    **Guarantee.** The largest of the jobs' curves, when a record is added or removed.  The parts must not depend on the
    data: which part a record belongs to is a property of the record alone.  (Replace-one is refused, since a record
    may move from one part to another; that is one added and one removed.)  Composed with others: the
    maximum over the jobs that a record may be in, as far as these are few, else by Rényi divergences.  Source: McSherry
    2009, theorem 4.

    Parameters
    ----------
    *jobs : Mechanism or Process
        Plain numbers, no arrays.

    Examples
    --------
    >>> import fastacct as fa
    >>> halves = fa.Parallel(fa.Laplace(2.0), fa.Gaussian(1.0))
    >>> fa.epsilon(halves, delta=1e-5) == fa.epsilon(fa.Gaussian(1.0), delta=1e-5)
    True
    """

    jobs: tuple[Process, ...]

    def __init__(self, *jobs: Mechanism | Process) -> None:
        if not jobs:
            raise ValueError("Parallel needs at least one job")
        object.__setattr__(self, "jobs", tuple(as_plain_job(f"jobs[{i}]", job) for i, job in enumerate(jobs)))

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Whether all jobs are."""
        return all(job.tight for job in self.jobs)

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        """Whether any job is."""
        return any(mechanism.is_local for job in self.jobs for mechanism, _ in job)

    def decompose(self, relation: Relation) -> Process | None:
        """The one job, where all are the same."""
        return self.jobs[0] if len(set(self.jobs)) == 1 else None

    def alternatives(self) -> tuple[Process, ...]:
        """The jobs."""
        return self.jobs

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """The largest."""
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """The largest."""
        return np.asarray(np.maximum.reduce([job.divergence(orders, relation, delta_of) for job in self.jobs]))

    def pure_epsilon(self, relation: Relation) -> float:
        """The largest."""
        return max((job.pure_epsilon(relation) for job in self.jobs), default=inf)

    def group(self, size: int) -> Mechanism:
        """Not known: the members of a group may be in different parts."""
        raise ValueError(
            f"group privacy is not implemented for {self!r}: members may be in different parts; compose groups of the "
            "jobs"
        )

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests."""
        yield Parallel(Laplace(2.0), Gaussian(1.0))

    def __repr__(self) -> str:
        return f"Parallel({', '.join(map(repr, self.jobs))})"
