"""Parallel composition: jobs on disjoint parts of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fastacct.mechanisms import Mechanism
from fastacct.process import Process

__all__ = ["Parallel"]


@dataclass(frozen=True, eq=False)
class Parallel(Mechanism):
    """Jobs on disjoint parts of the data: a record is in one of them.

    **Guarantee.** The largest of the jobs' curves, when a record is added or removed.  The parts must not depend on the
    data: which part a record belongs to is a property of the record alone.  (Replace-one is refused, since a record
    may move from one part to another; that is one added and one removed.)  Alone: the maximum of the jobs' certified
    curves; composed with others: by Rényi divergences.  Source: McSherry 2009, theorem 4.

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
    relations: ClassVar[tuple[str, ...]] = ("add_remove", "add", "remove", "zero_out")

    def __init__(self, *jobs: Any) -> None:
        read = [Process({job: 1}) if isinstance(job, Mechanism) else job for job in jobs]
        for i, job in enumerate(read):
            if not isinstance(job, Process) or job.shape:
                raise TypeError(f"jobs[{i}] must be a mechanism or a process of plain numbers, not {jobs[i]!r}")
        if not read:
            raise ValueError("Parallel needs at least one job")
        object.__setattr__(self, "jobs", tuple(read))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether all jobs are."""
        return all(mechanism.exact for job in self.jobs for mechanism, _ in job)

    def parts(self, neighbors: str) -> Process | None:
        """The one job, where all are the same."""
        return self.jobs[0] if len(set(self.jobs)) == 1 else None

    def group(self, size: int) -> Mechanism:
        """Not known: the members of a group may be in different parts."""
        raise ValueError(
            f"nothing is known of groups for {self!r}: members may be in different parts; compose groups of the jobs"
        )

    def _cells(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return f"Parallel({', '.join(map(repr, self.jobs))})"
