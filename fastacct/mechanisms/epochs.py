"""Gaussian noise in the steps of an epoch in which every record takes part once, or a few times."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells, Reals, unwrap
from fastacct.core.relations import SAMPLED, Relation, sensitivity
from fastacct.losses.loss import NOTHING, Apart, Pair
from fastacct.losses.mixture import LEAST_NOISE, Mixture, MixturePair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import AT_LEAST_ONE, Count, parameter, plain
from fastacct.mechanisms.samplers import OfGaussian
from fastacct.samplers import allocation, shuffled
from fastacct.samplers.draws import MOST_NOISE

_NO_GROUP: Final = "its members may share a step or not"
_NO_SAMPLE: Final = "its records are drawn already"


class RandomAllocation(OfGaussian, Mechanism, relations=SAMPLED, no_group=_NO_GROUP, no_sample=_NO_SAMPLE):
    """Gaussian noise in each of the steps of an epoch, where a record takes part in one of them, drawn uniformly and
    independently of other records ("balls and bins"); made by `.allocation(steps=...)`.

    **Guarantee.** Exact for adding, removing or zeroing out a record, for any number of epochs with fresh draws
    (`* epochs`), the steps of an epoch being chosen adaptively.  With `epochs` above 1 every record keeps its step in
    all of them: that is one epoch with noise_multiplier / sqrt(epochs).  How many steps an epoch has is public.  The
    batches of a shuffled data set are something else: their sizes do not vary.  Replacing a record is not supported.
    With `selected` above 1 a record takes part in so many of the steps: a bound, by blocks of steps.
    Source: docs/algorithms/allocation.md; the sampler: Chua et al. 2024; Feldman, Shenfeld 2025.

    Examples
    --------
    >>> import fastacct as fa
    >>> epoch = fa.Gaussian(noise_multiplier=1.0).allocation(steps=100)
    >>> round(fa.epsilon(epoch * 10, delta=1e-6), 6)
    1.96427
    >>> round(fa.epsilon(fa.Gaussian(1.0).poisson(0.01) * 1000, delta=1e-6), 6)
    2.124515
    """

    made_by, ordered = "allocation", ("selected", "steps")
    steps: Reals = parameter(AT_LEAST_ONE, about="Of an epoch.")
    epochs: Reals = parameter(AT_LEAST_ONE, default=1.0, about="In which records keep their steps.")
    selected: Reals = parameter(AT_LEAST_ONE, default=1.0, about="So many of the steps, at most all of them.")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Where a record takes part in one step, or in all."""
        selected = np.asarray(self.selected)
        return bool(np.all((selected == 1.0) | (selected == np.asarray(self.steps))))

    def decompose(self, relation: Relation) -> Process | None:
        """Blocks of steps, in each of which a record takes part once; the mechanism itself, where these have one."""
        steps, selected = np.broadcast_arrays(np.asarray(self.steps), np.asarray(self.selected))
        if np.all(selected == 1.0):
            return self.unsampled() * 1 if np.all(steps == 1.0) else None
        few, longer = steps // selected, steps % selected
        sizes = (few, selected - longer), (few + 1.0, longer)
        blocks: list[tuple[Mechanism, Count]] = [(replace(self, steps=size, selected=1.0), n) for size, n in sizes]
        return Process(blocks).decompose(relation)

    def unsampled(self) -> Mechanism:
        """Of all that a record contributes, as one release."""
        return _together(self.mechanism, unwrap(np.asarray(self.epochs) * np.asarray(self.selected)))

    def losses(self, relation: Relation) -> Pair | None:
        noise, steps = float(self.unsampled().plain_noise()), int(plain(self.steps))
        if plain(self.selected) != 1.0:
            return None
        if noise == math.inf:
            return NOTHING
        if steps == 1 or noise < LEAST_NOISE:
            return self.unsampled().losses(relation)
        return allocation.allocated(noise, steps)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        noise, steps = float(self.unsampled().plain_noise()), int(plain(self.steps))
        if noise in (0.0, math.inf):
            return self.unsampled().divergence(orders, relation)
        if (whole := self.decompose(relation)) is not None:
            return whole.divergence(orders, relation)
        return allocation.divergence(noise, steps, orders, relation)

    def __repr__(self) -> str:
        selected = f", selected={self.selected!r}" if np.any(np.asarray(self.selected) != 1.0) else ""
        return f"{self.mechanism!r}.allocation(steps={self.steps!r}{selected}{_kept(self.epochs)})"


def _together(mechanism: Mechanism, epochs: Reals) -> Mechanism:
    """One release that stands for all epochs of a record's own step."""
    if np.all(np.asarray(epochs) == 1.0):
        return mechanism
    together = mechanism.sampled_together([(mechanism, np.asarray(epochs, dtype=np.float64))], 1.0)
    assert together is not None
    return together.unsampled()


def _kept(epochs: Reals) -> str:
    return f", epochs={epochs!r}, bins='persistent'" if np.any(np.asarray(epochs) != 1.0) else ""


class Shuffled(OfGaussian, Mechanism, relations=("zero_out", "replace_one"), no_group=_NO_GROUP, no_sample=_NO_SAMPLE):
    """Gaussian noise on the batches of one random order of all records, each in one of the `steps` of an epoch; made by
    `.shuffled(steps=...)`.

    **Guarantee.** An interval that is not tight.  From above a record takes part in one step that everyone knows: no
    amplification by shuffling is proved for gradients and batches of several records.  From below the other records
    contribute nothing, or the opposite of the record: random allocation at noise_multiplier or half of it, or what the
    largest sum of an epoch says.  Batch sizes are public, so that adding and removing records is not defined.  Poisson
    sampling at 1/steps may give less than the lower bound (Chua et al. 2024).  With `epochs` above 1 the order is drawn
    once and kept for all of them; an order drawn afresh is `* epochs`.

    Examples
    --------
    >>> import fastacct as fa
    >>> epoch = fa.Gaussian(noise_multiplier=1.0).shuffled(steps=100)
    >>> lower, upper, _ = fa.epsilon_bounds(epoch, delta=1e-6, neighbors="zero_out")
    >>> round(lower, 3), round(upper, 3)
    (4.681, 4.887)
    """

    made_by = "shuffled"
    steps: Reals = parameter(AT_LEAST_ONE, about="Of an epoch.")
    epochs: Reals = parameter(AT_LEAST_ONE, default=1.0, about="In which the order of the records is the same.")

    def decompose(self, relation: Relation) -> Process | None:
        """The mechanism itself, where an epoch has one step."""
        return self.unsampled() * 1 if np.all(np.asarray(self.steps) == 1.0) else None

    def unsampled(self) -> Mechanism:
        return _together(self.mechanism, self.epochs)

    def losses(self, relation: Relation) -> Pair | None:
        whole, noise = self.unsampled().losses(relation), float(self.unsampled().plain_noise())
        if whole is None or whole.is_nothing or noise < LEAST_NOISE:
            return whole
        if noise > MOST_NOISE:
            return Apart(MixturePair(Mixture(MOST_NOISE, ((1.0, sensitivity(relation)),))), NOTHING)
        below = partial(shuffled.from_below, noise, int(plain(self.steps)), relation)
        return Apart(whole, below, is_ordered=relation == "zero_out")

    def others_alike(self, relation: Relation) -> Mechanism:
        """The allocation that it is where the other records contribute nothing, of one that is zeroed out."""
        return RandomAllocation(self.mechanism, self.steps, self.epochs) if relation == "zero_out" else self

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.unsampled().divergence(orders, relation)

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.shuffled(steps={self.steps!r}{_kept(self.epochs)})"
