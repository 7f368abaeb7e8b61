"""Jobs as they are read: what is known of a record that is replaced by what is known of one removed and one added."""

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.readers import job
from fastacct.readers.cell import Settings


def gaussian_delta(mu, epsilon):
    """Closed form, in 30 digits."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_a_replacement_is_a_removal_and_an_addition(mu, epsilon):
    """delta(2 e) <= (1 + exp(e)) delta'(e): of Gaussian noise the record that is replaced moves the mean by 2."""
    step = fa.Gaussian(1.0 / mu) * 1

    def twice(quantity, target):
        target = np.array([target])
        ask = job.Ask(quantity, target, target.shape, "replace_one")
        return float(job.by_cells(step, ask, Settings(("twice",))).upper[0])

    with mp.workdps(30):
        truth = gaussian_delta(2 * mpf(mu), mpf(epsilon))
        assert twice("delta", epsilon) >= truth
        assert gaussian_delta(2 * mpf(mu), mpf(twice("epsilon", float(truth)))) <= truth


def test_a_part_of_the_data_answers_as_it_does_alone():
    """Of a part of Gaussians, too, that its line leaves wide: a first bound of it is not its last one."""
    part = fa.Gaussian(0.035).poisson(0.18) * 7
    both = fa.delta_bounds(fa.Parallel(part, fa.Laplace(7e5) * 2), epsilon=0.3, neighbors="add")
    assert both == fa.delta_bounds(part, epsilon=0.3, neighbors="add")
