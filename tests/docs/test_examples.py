"""Examples do what they say."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


def test_statistics_meet_their_errors_and_their_epsilon_is_that_of_the_noise():
    from release_statistics import AGES, EDGES, release

    truth = {"people": AGES.size, "mean age": AGES.mean(), "by decade": np.histogram(AGES, EDGES)[0]}
    allowed = {"people": 20.0, "mean age": 0.2, "by decade": 60.0}
    missed = dict.fromkeys(truth, 0)
    for seed in range(400):
        answers, job = release(seed)
        for name, value in answers.items():
            missed[name] += bool(np.max(np.abs(value - truth[name])) > allowed[name])
    assert all(20 - 5 * 4.4 < count < 20 + 5 * 4.4 for count in missed.values()), missed  # of 400, 0.05 each
    assert max(missed.values()) > 5
    scales = [mechanism.noise_multiplier for mechanism, _ in job.decompose("add_remove")]
    assert fa.epsilon(job, delta=0) == pytest.approx(sum(1.0 / scale for scale in scales), rel=1e-9)


def test_pictures_of_the_course_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from course_pictures import draw

    for path in draw(tmp_path):
        assert path.stat().st_size > 10_000
        assert (EXAMPLES.parent / "docs" / "images" / path.name).exists()
