"""Events of Google's dp_accounting as processes: one row of a table for each."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

import fastacct as fa
from fastacct.compat.dp_sampling import ORDERS, sampled_divergences

__all__ = ["EXPOSED", "NEIGHBORS", "NOTHING", "Job", "RefusedError", "job_of", "times"]

NEIGHBORS: Final[dict[str, Any]] = {
    "ADD_OR_REMOVE_ONE": "add_remove",
    "REPLACE_ONE": "replace_one",
    "REPLACE_SPECIAL": "zero_out",
}
"""Their names of the neighbouring relations, and ours."""
_MOST: Final = 2**53


class RefusedError(Exception):
    """An event that is not supported under a relation, and why."""

    def __init__(self, event: Any, why: str) -> None:
        super().__init__(why)
        self.event = event


class Job(NamedTuple):
    """What an event releases; with `is_exposed` something without any protection as well."""

    blocks: tuple[tuple[fa.Mechanism, int], ...] = ()
    is_exposed: bool = False

    @property
    def process(self) -> fa.Process:
        """All but what has no protection."""
        return fa.Process(self.blocks)


NOTHING: Final = Job()
EXPOSED: Final = Job((), True)


def job_of(event: Any, neighbors: Any) -> Job:
    """What an event releases under a relation; RefusedError where that is not known."""
    for kind in type(event).__mro__:
        if kind.__name__ in _EVENTS and kind.__module__.startswith("dp_accounting"):
            return _EVENTS[kind.__name__](event, neighbors)
    raise RefusedError(event, "Unsupported event.")


def _one(event: Any, mechanism: fa.Mechanism, neighbors: Any) -> Job:
    if neighbors not in mechanism.relations:
        known = " or ".join(f"`{key}`" for key, name in NEIGHBORS.items() if name in mechanism.relations)
        raise RefusedError(event, f"neighboring_relation must be {known} for `{type(event).__name__}`.")
    return Job(((mechanism, 1),))


def _composed(event: Any, neighbors: Any) -> Job:
    jobs = [job_of(one, neighbors) for one in event.events]
    return Job(tuple(block for job in jobs for block in job.blocks), any(job.is_exposed for job in jobs))


def _repeated(event: Any, neighbors: Any) -> Job:
    return times(job_of(event.event, neighbors), event.count)


def times(job: Job, count: Any) -> Job:
    """The same, so many times; ValueError for what is no count."""
    n = operator.index(count) if hasattr(count, "__index__") else -1
    if isinstance(count, bool) or n < 0:
        raise ValueError(f"count = {count!r} is out of range; allowed: whole numbers in [0, 2**53]")
    if n == 1:
        return job
    blocks = tuple((mechanism, n * each) for mechanism, each in job.blocks if n > 0)
    if any(each > _MOST for _, each in blocks):
        raise ValueError(f"count = {count!r}: more than 2**53 releases of one kind")
    return Job(blocks, job.is_exposed and n > 0)


def _noisy(make: Callable[[Any], fa.Mechanism], noise: str = "noise_multiplier") -> Callable[[Any, Any], Job]:
    """Events that are exposed without noise."""

    def job(event: Any, neighbors: Any) -> Job:
        level = getattr(event, noise)
        if level < 0:
            raise ValueError(f"Noise multiplier and the like must be non-negative: {noise} = {level!r}")
        return _one(event, make(event), neighbors) if level > 0 else EXPOSED

    return job


def _mixture(event: Any, neighbors: Any) -> Job:
    if all(far == 0 for far in event.sensitivities):
        return NOTHING
    parts = list(zip(event.sampling_probs, event.sensitivities, strict=True))
    mixture = _noisy(lambda one: fa.GaussianMixture(one.standard_deviation, p=parts), "standard_deviation")
    return mixture(event, neighbors)


def _response(event: Any, neighbors: Any) -> Job:
    p, k = event.noise_parameter, event.num_buckets
    if not 0 <= p <= 1 or k < 1:
        raise ValueError(f"noise_parameter must be in [0, 1] and num_buckets at least 1, not {p!r} and {k!r}")
    response = fa.RandomizedResponse(math.log1p(k * (1 - p) / p) * (1 + 1e-15) if p > 0 else math.inf, max(k, 2))
    job = _one(event, response, neighbors)
    return NOTHING if k == 1 else job if p > 0 else EXPOSED


def _discrete_gaussian(event: Any, neighbors: Any) -> Job:
    if not event.sigma > 0:
        return _noisy(lambda one: fa.Gaussian(one.sigma), "sigma")(event, neighbors)
    far = event.sensitivity * (2 if neighbors == "replace_one" else 1)
    if event.dimension == 1 and event.sensitivity == int(event.sensitivity):
        return _one(event, fa.DiscreteGaussian(event.sigma, int(event.sensitivity)), neighbors)
    return _one(event, fa.ZCDP(0.5 * (far / event.sigma) ** 2 * (1 + 1e-15)), neighbors)


def _concentrated(event: Any, neighbors: Any) -> Job:
    if event.rho < 0 or event.xi < 0:
        raise ValueError(f"rho and xi must be at least 0, not {event.rho!r} and {event.xi!r}")
    constant = fa.RDPCurve([1 + 1e-9, 1e11], [event.xi, event.xi])
    return Job(((fa.ZCDP(event.rho), 1), *(((constant, 1),) if event.xi > 0 else ())))


def _tree(event: Any, neighbors: Any) -> Job:
    if neighbors != "zero_out":
        raise RefusedError(event, "neighboring_relation must be `REPLACE_SPECIAL`: an added record moves all others.")
    counts: list[int] = list(np.atleast_1d(event.step_counts).tolist())
    if not counts or min(counts) < 0:
        raise ValueError(f"step_counts must be non-negative, and at least one: {event.step_counts!r}")
    make = _noisy(lambda one: fa.TreeAggregation(one.noise_multiplier, steps=max(counts)))
    return make(event, neighbors) if max(counts) > 0 else NOTHING


def _selected(event: Any, neighbors: Any) -> Job:
    job = job_of(event.event, neighbors)
    eta = None if event.shape == math.inf else event.shape
    if job.is_exposed:
        return EXPOSED
    return _one(event, fa.RepeatedSelection(job.process, event.mean, eta), neighbors) if job.blocks else NOTHING


def _sampled(event: Any, neighbors: Any) -> Job:
    rate = event.sampling_probability
    if not 0 <= rate <= 1:
        raise ValueError(f"Sampling rate must be in [0, 1]: sampling_probability = {rate!r}")
    job = job_of(event.event, neighbors)
    if rate == 0 or job == NOTHING or job.is_exposed:
        return EXPOSED if rate > 0 and job.is_exposed else NOTHING
    whole = job.blocks[0][0] if len(job.blocks) == 1 and job.blocks[0][1] == 1 else job.process
    try:
        found = _one(event, whole.poisson(rate), neighbors)
        found.blocks[0][0].decompose(neighbors)  # refuses several releases, such as the nodes of a tree
        return found
    except ValueError as error:
        raise RefusedError(event, str(error)) from None


def _batch(verb: str) -> Callable[[Any, Any], Job]:
    """So many records or draws of a data set: a verb of Gaussians."""

    def made(event: Any, neighbors: Any) -> Job:
        job = job_of(event.event, neighbors)
        if event.sample_size == 0 or job == NOTHING:
            return NOTHING
        if job.is_exposed:
            return EXPOSED
        try:
            whole: Any = job.process.poisson(1.0)
            batch = getattr(whole.mechanism, verb)(event.sample_size, event.source_dataset_size)
        except ValueError as error:
            raise RefusedError(event, str(error)) from None
        return _one(event, batch, neighbors)

    return made


def _fixed_size(event: Any, neighbors: Any) -> Job:
    """Exact pairs of Gaussian noise; of another event that is known where a record is replaced, its divergences."""
    try:
        return _batch("fixed_size")(event, neighbors)
    except RefusedError:
        share = Fraction(int(event.sample_size), int(event.source_dataset_size))
        if neighbors != "replace_one" or share > 1:
            raise
    job = job_of(event.event, neighbors)
    if share == 1:
        return job
    own = np.asarray(fa.rdp(job.process, ORDERS, neighbors="replace_one"))
    bound = np.minimum(own, sampled_divergences(math.nextafter(float(share), 2.0), own))
    known = np.isfinite(bound)
    return Job(((fa.RDPCurve(ORDERS[known], bound[known]), 1),)) if known.any() else EXPOSED


def _allocated(event: Any, neighbors: Any) -> Job:
    inner, steps, selected = (getattr(event, name, None) for name in ("event", "num_steps", "num_selected"))
    if type(inner).__name__ != "GaussianDpEvent" or steps is None or selected is None:
        known = "random allocation is known for Gaussian noise"
        raise RefusedError(event, f"{known}: fastacct.Gaussian(s).allocation(steps, selected=selected)")
    made = _noisy(lambda one: fa.Gaussian(one.noise_multiplier).allocation(steps, selected=selected))
    return made(inner, neighbors)


def _truncated(event: Any, neighbors: Any) -> Job:
    if 0 in (event.sampling_probability, event.truncated_batch_size, event.dataset_size):
        return NOTHING
    cap = {"at_most": event.truncated_batch_size, "records": event.dataset_size}
    make = _noisy(lambda one: fa.Gaussian(one.noise_multiplier).poisson(one.sampling_probability, **cap))
    return make(event, neighbors)


def _simple(make: Callable[[Any], fa.Mechanism]) -> Callable[[Any, Any], Job]:
    return lambda event, neighbors: _one(event, make(event), neighbors)


_EVENTS: Final[dict[str, Callable[[Any, Any], Job]]] = {
    "NoOpDpEvent": lambda event, neighbors: NOTHING,
    "NonPrivateDpEvent": lambda event, neighbors: EXPOSED,
    "ComposedDpEvent": _composed,
    "SelfComposedDpEvent": _repeated,
    "GaussianDpEvent": _noisy(lambda event: fa.Gaussian(event.noise_multiplier)),
    "LaplaceDpEvent": _noisy(lambda event: fa.Laplace(event.noise_multiplier)),
    "DiscreteLaplaceDpEvent": _noisy(
        lambda event: fa.DiscreteLaplace((1 - 4e-16) / event.noise_parameter, event.sensitivity), "noise_parameter"
    ),
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "MixtureOfGaussiansDpEvent": _mixture,
    "RandomizedResponseDpEvent": _response,
    "ExponentialMechanismDpEvent": _simple(lambda event: fa.Exponential(event.epsilon)),
    "PermuteAndFlipDpEvent": _simple(lambda event: fa.PermuteAndFlip(event.epsilon)),
    "EpsilonDeltaDpEvent": _simple(lambda event: fa.ApproxDP(event.epsilon, event.delta)),
    "ZCDpEvent": _concentrated,
    "RepeatAndSelectDpEvent": _selected,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "PoissonSampledDpEvent": _sampled,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "SampledWithReplacementDpEvent": _batch("with_replacement"),
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "RandomAllocationDpEvent": _allocated,
}
"""By name, since the classes differ between versions; what a new one releases is one row."""
