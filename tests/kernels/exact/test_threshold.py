"""Thresholds of the best test, which the kernel searches for: nothing to either side of them proves more."""

import numpy as np
import pytest
from scipy import stats

from fastacct.mechanisms import Gaussian
from fastacct.readers import cell_job, contour, nearby
from tests.verbs.test_tradeoff import JOBS


@pytest.mark.parametrize("way", ["remove", "add"])
@pytest.mark.parametrize("name", JOBS)
def test_the_threshold_found_is_the_best_one(name, way):
    """delta(e) + e^e fpr is least there: a threshold a little to either side proves no more."""
    directions, other = (cell_job.REMOVE, cell_job.ADD) if way == "remove" else (cell_job.ADD, cell_job.REMOVE)
    job, fpr = contour.Contour(JOBS[name], "add_remove"), np.array([1e-7, 1e-3, 0.05, 0.3, 0.7, 0.99])

    def value(e):
        at = np.zeros(fpr.size, dtype=np.intp)
        reads = [job.read(at, np.abs(e), nearby.LOG_DELTA, d, 1) for d in (directions, other)]
        ahead, turned = (np.exp(read.upper) for read in reads)
        return np.where(e >= 0.0, ahead + np.exp(e) * fpr, -np.expm1(e) + np.exp(e) * (turned + fpr))

    best = job.read(np.zeros(fpr.size, dtype=np.intp), fpr, nearby.THRESHOLD, directions, 1)
    least = value(best.lower)
    for step in (-0.1, -1e-3, 1e-3, 0.1):
        assert (least <= value(best.lower + step) * (1.0 + 1e-9)).all()
    assert (best.upper >= 0.0).all()


def test_the_threshold_of_gaussian_noise_is_that_of_the_normal_distribution():
    fpr = np.array([1e-9, 1e-3, 0.2, 0.5, 0.9])
    job = contour.Contour(Gaussian(0.5) * 1, "add_remove")
    found = job.read(np.zeros(fpr.size, dtype=np.intp), fpr, nearby.THRESHOLD, cell_job.REMOVE, 1).lower
    assert found == pytest.approx(2.0 * stats.norm.isf(fpr) - 2.0, rel=0.0, abs=1e-5)
