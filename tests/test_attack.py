"""Sixty of the random jobs that `make attack` asks by the thousand, on grids that stop early."""

import numpy as np
import pytest

from fastacct.readers import cell
from tests import attack


@pytest.mark.parametrize("seed", range(60))
def test_no_random_job_is_answered_wrongly(seed, monkeypatch):
    monkeypatch.setattr(cell, "TOLERANCE", 0.3)
    rng = np.random.default_rng(seed)
    parts, relation = attack.random_job(rng)
    assert list(attack.faults(parts, relation, rng)) == [], (parts, relation)


def test_an_attack_sees_answers_that_are_too_small(monkeypatch):
    """Half the epsilon of a composition is below one of its parts, or its delta above what was asked."""
    right = attack.fa.epsilon_bounds

    def halved(job, **told):
        lower, upper, status = right(job, **told)
        return attack.fa.Bounds(0.5 * lower, 0.5 * upper, status) if len(job) > 1 else right(job, **told)

    monkeypatch.setattr(cell, "TOLERANCE", 0.3)
    monkeypatch.setattr(attack.fa, "epsilon_bounds", halved)
    rng = np.random.default_rng(5)
    parts = [(attack.fa.Gaussian(5.0), 30), (attack.fa.PureDP(0.01), 1)]
    assert any("delta at epsilon(delta)" in fault for fault in attack.faults(parts, "remove", rng))
