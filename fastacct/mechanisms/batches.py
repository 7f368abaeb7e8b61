"""Gaussian noise on random batches that are no Poisson samples: of a fixed or bounded size."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.core.inputs import MAX_STEPS, UNIT, Cells, Domain, Reals, unwrap
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import rate_of_batch
from fastacct.losses.divergence import mean_of, of_sampled_gaussian
from fastacct.losses.loss import NOTHING, Apart, Pair
from fastacct.losses.mixture import LEAST_NOISE, Mixture, MixturePair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import AT_LEAST_ONE, parameter, plain
from fastacct.mechanisms.samplers import OfGaussian
from fastacct.samplers.draws import MOST_NOISE, binomial, hypergeometric, swapped
from fastacct.samplers.fixed_size import replaced, replaced_divergence
from fastacct.samplers.truncated import Truncation, kept_at_most, truncation

_BATCH: Final = Domain(0.0, MAX_STEPS, integer=True)
_RATE: Final = np.frompyfunc(rate_of_batch, 2, 1)
_NO_GROUP: Final = "its members compete for the places of one batch"
_NO_SAMPLE: Final = "how many records a sample leaves to draw the batch from is random"


def _keeps_its_place(relation: Relation) -> bool:
    """Whether the neighbour of a record takes its place in the batch."""
    return relation in ("replace_one", "zero_out")


class FixedSizeBatch(OfGaussian, Mechanism, relations=ALL, has_groups=True, no_sample=_NO_SAMPLE):
    """Gaussian noise on a batch of `batch_size` records, drawn without replacement; made by `.fixed_size(...)`.

    **Guarantee.** `records` is public, and of two neighbouring data sets the larger size.  Adding or removing a record:
    exact, the Poisson sample with rate batch_size / records at *half* the noise (a record takes the place of another
    one, which moves the sum by up to 2; Zhu, Dong, Wang 2022).  Replacing one: exact for one step, and for more an
    interval that is not tight, since no pair of data sets is known to be the worst (Balle, Barthe, Gaboardi 2018;
    Lebeda et al. 2024).  Zeroing one out, which keeps its place in the batch: an interval, from above that of replacing
    it.  A rate that no float says exactly is rounded up.  For a batch of all records nothing is claimed from below: the
    smaller data set cannot fill it.  The sum must not be divided by what depends on the batch.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.Gaussian(2.0).fixed_size(batch_size=10, records=1000)
    >>> fa.delta(step * 1000, epsilon=1.0) == fa.delta(fa.Gaussian(1.0).poisson(0.01) * 1000, epsilon=1.0)
    True
    >>> lower, upper, _ = fa.epsilon_bounds(step * 1000, delta=1e-5, neighbors="replace_one")
    >>> round(lower, 3), round(upper, 3)
    (1.828, 2.199)
    """

    made_by, ordered, drawn = "fixed_size", ("batch_size", "records"), "batch_size"
    batch_size: Reals = parameter(_BATCH, about="At most `records`.")
    records: Reals = parameter(AT_LEAST_ONE, about="Of the larger of two neighbouring data sets.")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Not where every record of the larger data set is in the batch: the smaller one cannot fill its places."""
        return bool(np.all(np.asarray(self.batch_size) < np.asarray(self.records)))

    @property
    def sample_rate(self) -> float | Cells:
        """Probability that a record is in the batch, rounded up."""
        return unwrap(np.asarray(_RATE(np.asarray(self.batch_size), np.asarray(self.records)), dtype=np.float64))

    def decompose(self, relation: Relation) -> Process | None:
        """Under add-remove, a Poisson sample at half the noise."""
        if _keeps_its_place(relation):
            return None
        return self.unsampled().poisson(self.sample_rate) * 1

    def unsampled(self) -> Mechanism:
        return self.moved_by(np.asarray(2.0))

    def losses(self, relation: Relation) -> Pair:
        noise, rate = float(self.noise), plain(self.sample_rate)
        if self.is_nothing:
            return NOTHING
        if not _keeps_its_place(relation):
            return self.unsampled().sample_losses(rate, 1, relation) or NOTHING
        if rate == 1.0 or noise < LEAST_NOISE:
            whole = MixturePair(Mixture(min(noise, MOST_NOISE), ((1.0, sensitivity(relation)),)))
            return whole if noise <= MOST_NOISE else Apart(whole, NOTHING)
        if noise > MOST_NOISE:
            return Apart(replaced(MOST_NOISE, rate, relation), NOTHING)
        return replaced(noise, rate, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair:
        """Of a group: how many of it are in the batch is hypergeometric."""
        batch, records, noise = int(plain(self.batch_size)), int(plain(self.records)), float(self.noise)
        if self.is_nothing:
            return NOTHING
        if not LEAST_NOISE < noise < MOST_NOISE or size + batch > records:
            few = min(size, batch) * sensitivity(relation if _keeps_its_place(relation) else "replace_one")
            return Apart(MixturePair(Mixture(min(noise, MOST_NOISE), ((1.0, few),))), NOTHING)
        return swapped(noise, hypergeometric(size, batch, records), relation)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        noise, rate = float(self.noise), plain(self.sample_rate)
        if not 0.0 < rate < 1.0 or noise in (0.0, math.inf):
            return super().divergence(orders, relation)
        removed = of_sampled_gaussian(np.asarray(0.5 * noise), np.asarray(rate), orders)
        return replaced_divergence(noise, rate, orders, removed) if _keeps_its_place(relation) else removed


class WithReplacement(OfGaussian, Mechanism, relations=ALL, has_groups=True, no_sample=_NO_SAMPLE):
    """Gaussian noise on `draws` independent draws from the records, uniform each; made by `.with_replacement(...)`.

    **Guarantee.** `records` is public, and of two neighbouring data sets the larger size.  A record contributes as
    often as it is drawn, and each time takes the place of another one.  Adding or removing a record: exact, the mixture
    of N(2 c) over the binomial number c of its draws.  Replacing or zeroing one out: an interval that is not tight;
    from above it is revealed how often the record is drawn (Balle, Barthe, Gaboardi 2018).  The sum must not be divided
    by what depends on the batch.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.Gaussian(2.0).with_replacement(draws=10, records=1000)
    >>> [round(fa.epsilon(step * 1000, delta=1e-5, neighbors=how), 3) for how in ("add_remove", "replace_one")]
    [1.882, 4.631]
    """

    made_by, drawn = "with_replacement", "draws"
    draws: Reals = parameter(_BATCH, about="Of a batch.")
    records: Reals = parameter(AT_LEAST_ONE, about="Of the larger of two neighbouring data sets.")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Not where the smaller data set has no records to draw."""
        return bool(np.all(np.asarray(self.records) > 1.0))

    def pure_epsilon(self, relation: Relation) -> float:
        """Where a record is added, it may not be drawn: losses are at most minus the logarithm of that chance."""
        draws, records = plain(self.draws), plain(self.records)
        added = -draws * math.log1p(-1.0 / records) * (1.0 + 4e-15) if relation == "add" and records > 1.0 else math.inf
        return min(super().pure_epsilon(relation), added)

    def unsampled(self) -> Mechanism:
        return self.moved_by(2.0 * np.maximum(np.asarray(self.draws), 1.0))

    def losses(self, relation: Relation) -> Pair:
        return self.sample_losses(1.0, 1, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair:
        """Of a group: how many draws are of it is binomial."""
        draws, records, noise = int(plain(self.draws)), int(plain(self.records)), float(self.noise)
        if self.is_nothing:
            return NOTHING
        if not LEAST_NOISE < noise < MOST_NOISE or size >= records:
            far = draws * sensitivity(relation if _keeps_its_place(relation) else "replace_one")
            return Apart(MixturePair(Mixture(min(noise, MOST_NOISE), ((1.0, far),))), NOTHING)
        return swapped(noise, binomial(draws, float(size), records), relation)


class TruncatedPoisson(OfGaussian, Mechanism, relations=ALL, no_group=_NO_GROUP, no_sample=_NO_SAMPLE):
    """Gaussian noise on a Poisson batch of which at most `at_most` are kept; made by `.poisson(q, at_most=...)`.

    **Guarantee.** `records` is public, and of two neighbouring data sets the larger size.  From above it is revealed
    whether as many of the other records were drawn: then a record takes the place of another one, which moves the sum
    by up to 2.  From below the other records contribute nothing.  The interval is narrow where truncation is rare.  The
    kept records must be a random choice, not the first of an ordered loader, and the sum must not be divided by their
    number.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.Gaussian(1.0).poisson(0.01, at_most=700, records=60_000)
    >>> [f"{fa.delta(one * 1000, epsilon=2.0):.2e}" for one in (step, fa.Gaussian(1.0).poisson(0.01))]
    ['5.25e-06', '2.67e-06']
    """

    made_by, drawn = "poisson", "sample_rate"
    sample_rate: Reals = parameter(UNIT, about="Probability that a record is drawn.")
    at_most: Reals = parameter(AT_LEAST_ONE, about="So many of those drawn are kept.")
    records: Reals = parameter(AT_LEAST_ONE, about="Of the larger of two neighbouring data sets.")

    def decompose(self, relation: Relation) -> Process | None:
        """A Poisson sample, where there are not more records than may be kept."""
        if np.all(np.asarray(self.at_most) >= np.asarray(self.records)):
            return self.mechanism.poisson(self.sample_rate) * 1
        return None

    def unsampled(self) -> Mechanism:
        return self.moved_by(np.asarray(2.0))

    def pure_epsilon(self, relation: Relation) -> float:
        """That of the Poisson sample: a record takes another one's place less often than it is drawn."""
        return self.mechanism.poisson(self.sample_rate).pure_epsilon(relation)

    def _truncation(self) -> Truncation | None:
        at_most, records = int(plain(self.at_most)), int(plain(self.records))
        return truncation(plain(self.sample_rate), at_most, records) if at_most < records else None

    def losses(self, relation: Relation) -> Pair | None:
        noise = float(self.noise)
        if self.is_nothing:
            return NOTHING
        if noise < LEAST_NOISE or (given := self._truncation()) is None:
            return self.mechanism.poisson(self.sample_rate).losses(relation)
        kept = kept_at_most(min(noise, MOST_NOISE), plain(self.sample_rate), given, relation)
        return kept if noise <= MOST_NOISE else Apart(kept, NOTHING)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """One of two releases is made, in sight of everyone: exponentials of (alpha - 1) D have their mean."""
        poisson = self.mechanism.poisson(self.sample_rate)
        whole = poisson.divergence(orders, relation)
        if self.is_nothing or self.noise == 0.0 or (given := self._truncation()) is None:
            return whole
        swap = of_sampled_gaussian(0.5 * self.noise, np.asarray(given.replaced), orders)
        if _keeps_its_place(relation):
            swap = replaced_divergence(float(self.noise), given.replaced, orders, swap)
        return mean_of(orders, ((given.rest, whole), (given.tau, swap)))
