"""OpenDP: privacy profiles and privacy maps that are never below the truth, and what must not pass."""

import gc
import math
import re
from pathlib import Path

import pytest

import fastacct as fa

dp = pytest.importorskip("opendp.prelude", reason="the extra opendp is not installed")

from fastacct.compat import opendp as compat  # noqa: E402
from fastacct.compat.opendp import privacy_map, privacy_profile  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "backends" / "opendp.md"
SCALE = 5.0
JOBS = [
    fa.Gaussian(1.0) * 3,
    fa.Gaussian(1.0).poisson(0.01) * 1000,
    fa.Laplace(1.0) * 4 + fa.Gaussian(2.0),
    fa.RandomizedResponse(1.0) * 2,
]


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


def gaussians(d_in):
    return fa.Gaussian(SCALE / d_in) * 10


def laplaces(d_in):
    return fa.Laplace(SCALE / d_in) * 10


def measurement(measure, mapped):
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(float)
    return dp.m.make_user_measurement(*space, measure, lambda x: x, mapped)


def relation(job):
    return "add_remove" if "add_remove" in next(iter(job))[0].relations else "replace_one"


def failures(make):
    """Jobs of which a maker of profiles says something wrong."""
    found = []
    for job in JOBS:
        asked = {"neighbors": relation(job)}
        profile = make(job, **asked)
        for epsilon in (0.0, 0.5, 1.0, 3.0):
            least, most = fa.delta_lower(job, epsilon=epsilon, **asked), fa.delta(job, epsilon=epsilon, **asked)
            if not least <= profile.delta(epsilon) <= most:
                found.append((job, "delta", epsilon))
        for delta in (1e-3, 1e-6):
            least, most = fa.epsilon_lower(job, delta=delta, **asked), fa.epsilon(job, delta=delta, **asked)
            if not least <= profile.epsilon(delta) <= most * (1 + 1e-8):
                found.append((job, "epsilon", delta))
    return found


def test_profiles_are_those_of_fastacct():
    assert failures(privacy_profile) == []


def cheap(job, **options):
    """Epsilon times 0.97."""
    return dp.new_privacy_profile(lambda epsilon: min(1.0, fa.delta(job, epsilon=epsilon / 0.97, **options)))


def once(job, **options):
    """The count ignored."""
    return privacy_profile(fa.Process((one, 1) for one, _ in job), **options)


def forgetful(job, **options):
    """All but the first mechanism forgotten, and one of its releases."""
    (first, count), *_ = job
    return privacy_profile(first * (count - 1), **options)


@pytest.mark.parametrize("canary", [cheap, once, forgetful])
def test_canaries_are_caught(canary):
    found = failures(canary)
    assert all(any(job is one for one, *_ in found) for job in JOBS)


def test_questions_out_of_range_are_refused():
    profile = privacy_profile(JOBS[0])
    for bad in (-1.0, math.nan):
        with pytest.raises(dp.OpenDPException):
            profile.delta(bad)
    assert profile.delta(math.inf) == 0.0
    assert profile.epsilon(0.0) == math.inf
    with pytest.raises(ValueError, match="replace"):
        privacy_profile(fa.RandomizedResponse(1.0) * 2, neighbors="add_remove")
    with pytest.raises(TypeError, match="arrays"):
        privacy_profile(fa.Gaussian([1.0, 2.0]))


def test_maps_are_those_of_the_job_at_the_distance():
    profile = measurement(dp.smoothed_max_divergence(), privacy_map(gaussians))
    pair = measurement(dp.approximate(dp.max_divergence()), privacy_map(gaussians, "approximate", delta=1e-6))
    pure = measurement(dp.max_divergence(), privacy_map(laplaces, "pure"))
    renyi = measurement(dp.renyi_divergence(), privacy_map(laplaces, "renyi"))
    for d_in in (0.5, 1.0, 2.0):
        job = gaussians(d_in)
        low, high = fa.epsilon_lower(job, delta=1e-6), fa.epsilon(job, delta=1e-6)
        assert low <= profile.map(d_in).epsilon(1e-6) <= high * (1 + 1e-8)
        assert pair.map(d_in) == (high, 1e-6)
        assert dp.c.make_fix_delta(profile, 1e-6).map(d_in)[0] >= low
        assert 10 * d_in / SCALE <= pure.map(d_in) <= 10 * d_in / SCALE * (1 + 1e-12)
        assert renyi.map(d_in)(4.0) == fa.rdp(laplaces(d_in), 4.0)
    assert profile.map(0.0).delta(0.0) == pure.map(0.0) == 0.0
    assert pair.map(0.0) == (0.0, 1e-6)
    assert pair(3.0) == 3.0


def test_maps_outlive_what_made_them():
    mapped = measurement(dp.smoothed_max_divergence(), privacy_map(gaussians))
    first = mapped.map(1.0)
    kept = first.epsilon(1e-6)
    for i in range(200):
        mapped.map(0.5 + 0.01 * i)
    gc.collect()
    assert first.epsilon(1e-6) == mapped.map(1.0).epsilon(1e-6) == kept


def test_at_most_what_opendp_says_of_its_own_mechanisms():
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(float)
    theirs = dp.c.make_zCDP_to_approxDP(dp.c.make_composition([dp.m.make_gaussian(*space, SCALE)] * 10))
    ours = measurement(dp.smoothed_max_divergence(), privacy_map(gaussians))
    for delta in (1e-3, 1e-6, 1e-9):
        assert ours.map(1.0).epsilon(delta) <= theirs.map(1.0).epsilon(delta)
    theirs = dp.c.make_composition([dp.m.make_laplace(*space, SCALE)] * 10)
    ours = measurement(dp.max_divergence(), privacy_map(laplaces, "pure"))
    # they add the scale of their discrete sampler's grid
    assert ours.map(1.0) <= theirs.map(1.0) * (1 + 1e-12)


def test_distances_and_measures_that_make_no_sense_are_refused():
    mapped = privacy_map(gaussians)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="d_in"):
            mapped(bad)
    with pytest.raises(ValueError, match="measure"):
        privacy_map(gaussians, "zcdp")
    with pytest.raises(TypeError, match="delta"):
        privacy_map(gaussians, "approximate")
    with pytest.raises(TypeError, match="delta"):
        privacy_map(gaussians, "pure", delta=1e-6)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            privacy_map(gaussians, "approximate", delta=delta)
    for measure in ("pure", "renyi"):
        with pytest.raises(ValueError, match="accountant"):
            privacy_map(gaussians, measure, accountant=fa.RDP())


def test_features_of_opendp_are_asked_for():
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        privacy_profile(JOBS[0])
    assert compat.opendp.__name__ == "opendp.measures"


def test_the_examples_of_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["release"].map(1) == (fa.epsilon(fa.Gaussian(4.0) * 10, delta=1e-6), 1e-6)


@pytest.mark.parametrize("counts", [(1, 40), (40, 1)])
def test_no_composition_is_below_a_part(counts):
    parts = [fa.Gaussian(8.0).fixed_size(20, 1000) * counts[0], fa.Laplace(8.0) * counts[1]]
    for job in (parts[0] + parts[1], parts[1] + parts[0]):
        whole = privacy_profile(job, neighbors="replace_one").delta(0.3)
        for part in parts:
            assert whole >= fa.delta_lower(part, epsilon=0.3, neighbors="replace_one") * (1.0 - 1e-9)
