"""Every example of every mechanism, alone and beside random allocation, in all verbs, with arrays of targets: nothing
but plain refusals leaves the package, and an array has the bits of its cells alone."""

import warnings

import numpy as np
import pytest

import fastacct as fa
from fastacct.testing import examples

DELTAS = np.array([1e-300, 1e-205, 1e-5, 0.5, 1.0])
EPSILONS = np.array([0.0, 0.1, 20.0, 700.0])
ORDERS = np.array([1.0, 1.5, 8.0, np.inf])
BESIDE = fa.Gaussian(5.0).allocation(5)
SLOW = ("Together", "poisson(sample_rate=0.0001)", "MatrixGaussian", "RandomWalk(noise_multiplier=10.0")


def same(ask, targets, first=0, step=1):
    """The answer to an array, which has the bits of single answers; None where it is refused in plain words.

    Single answers are asked of every `step`th target from the first one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = ask(targets)
        except (ValueError, TypeError) as error:
            if type(error) not in (ValueError, TypeError):  # a class of the package's own
                raise
            return None
        for i, target in list(enumerate(targets.tolist()))[first::step]:
            alone = ask(target)
            cell = tuple(np.asarray(one)[i] for one in found)
            is_loose = len(alone) == 3 and fa.Status.TIGHT not in (alone[2], cell[2])
            if is_loose and cell[1] <= alone[1]:
                cell = (cell[0], *alone[1:])  # a harder target of the same call bounds what is not TIGHT
            assert all(map(np.array_equal, cell, alone)), (target, found, alone)
    return found


JOBS = [one * 2 for one in examples()]
JOBS += [one + BESIDE for one in examples() if "add_remove" in one.relations and not any(x in repr(one) for x in SLOW)]


@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("half", range(2))
def test_arrays_are_one_by_one_and_refusals_plain(half, job):
    every = {"first": (JOBS.index(job) + half) % 2, "step": 2}
    relation = next(one for one in next(iter(job))[0].relations if all(one in part.relations for part, _ in job))
    told = {"neighbors": relation}
    epsilon = same(lambda at: fa.epsilon_bounds(job, delta=at, **told), DELTAS, **every)
    assert (epsilon.lower <= epsilon.upper).all()
    assert epsilon.upper[-1] == 0.0
    delta = same(lambda at: fa.delta_bounds(job, epsilon=at, **told), EPSILONS, **every)
    assert (delta.lower <= delta.upper).all()
    same(lambda at: (fa.rdp(job, at, **told),), ORDERS, **every)
    same(lambda at: fa.rdp_bounds(job, at, **told), ORDERS, **every)
    same(lambda at: (fa.epsilon(job, delta=at, accountant=fa.RDP(), **told),), DELTAS[2:], **every)
    same(lambda at: fa.bayes_risk_bounds(job, members=at, **told), np.array([0.3, 0.9]), **every)


@pytest.mark.parametrize(
    "job", [one + BESIDE for one in (fa.Laplace(2.0), fa.DiscreteGaussian(3.0), fa.PureDP(0.1))], ids=str
)
def test_jobs_that_a_line_alone_reads_have_no_losses_on_a_grid(job):
    assert same(lambda at: fa.delta_bounds(job, epsilon=at, accountant=fa.PLD()), EPSILONS).upper[0] == 1.0
    loss = fa.privacy_loss(job)
    for found in (loss.mean, loss.variance, loss.exceeds(1.0), loss.quantile(0.1), loss.divergence(2.0)):
        assert 0.0 < found.lower <= found.upper
        assert found.upper < np.inf
    assert 0.0 < fa.tradeoff(job, [0.1, 0.5])[1] < 0.5


SIXTY = fa.GaussianMixture(3.0, [(1 / 60, 0.02 * i) for i in range(60)], [(1 / 60, -0.02 * i) for i in range(60)])
BESIDE_EACH_OTHER = [
    # a delta that sees what hardly anyone loses beside deltas that do not
    (fa.Gaussian(0.68).poisson(0.0033, at_most=701, records=1000) * 740, [1.0, 4e-4, 1e-320, 9.7e-7]),
    # an infinite epsilon beside finite ones
    (SIXTY * 3 + fa.Laplace(3.0) * 2, [1e-6, 0.5, 0.0]),
]


@pytest.mark.parametrize(("job", "deltas"), BESIDE_EACH_OTHER, ids=("truncated", "sixty components"))
def test_targets_do_not_change_each_other(job, deltas):
    assert same(lambda at: fa.epsilon_bounds(job, delta=at, neighbors="add"), np.array(deltas)) is not None
