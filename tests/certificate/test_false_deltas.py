"""Deltas that are too small: each file below was proved, and is false."""

import json
import math

import pytest

from fastacct.certificate import batches, checker


def _claim(release: dict, relation: str, epsilon: str, delta: str, step: str, first: int, *lattices: list) -> str:
    """A file of one release and few points."""
    plan = {"step": step, "places": 2, "first": first, "tilt": "1", "bits": 512}
    plans = [plan | {"lattices": [[lattice]]} for lattice in lattices]
    document = {"format": "fastacct certificate 1", "relation": relation, "epsilon": epsilon, "delta": delta}
    return json.dumps(document | {"releases": [release], "proof": dict(zip(("remove", "add"), plans, strict=False))})


_LITTLE = {"count": 1, "gaussian": "1/4835703278458516698824704", "poisson": "0.5"}
_WIDE, _NEAR = [-(10**9), 1, 10**9 + 1], [-(10**5), 1, 10**5 + 1]
_HALF = [["0.5", "0"], ["0.5", "1"]]
_APART = {
    **{"count": 1, "mixture": "1", "p": [["0.5", "0"], ["0.5", "633825300114114700748349504486"]]},
    "q": [["0.999999999", "0"], ["0.000000001", "100"]],
}
UNSETTLED = {
    "noise 0.05": _claim(
        *({"count": 1, "gaussian": "0.05", "poisson": "0.5"}, "replace_one", "0.000001", "1e-8", "1e-41", 0),
        *(_WIDE, _WIDE),
    ),
    "noise 0.02": _claim(
        *({"count": 1, "gaussian": "0.02", "poisson": "0.5"}, "replace_one", "0.000001", "1e-8", "2e-40", 0),
        *(_WIDE, _WIDE),
    ),
    "hardly any noise": _claim(_LITTLE, "replace_one", "0.000001", "0.00005", "0.000001", 0, _NEAR, _NEAR),
    "a thousand steps": _claim(
        *(_LITTLE | {"count": 1000}, "replace_one", "0.001", "0.005", "0.000001", 999, _WIDE, _WIDE)
    ),
    "a mixture": _claim(
        *({"count": 1, "mixture": "0.05", "p": _HALF, "q": _HALF}, "add_remove", "0.000001", "1e-8", "1e-41", 0),
        *(_WIDE, _WIDE),
    ),
    "means far apart": _claim(_APART, "remove", "0", "0.00003", "0.000001", -1, [-800000, -693146, 106854]),
}


@pytest.mark.parametrize("name", UNSETTLED)
def test_an_output_that_newton_does_not_find_proves_nothing(name: str) -> None:
    """Each delta is 0.5 or more.  The last step was once taken between r(x) and the tails: all of these were proved."""
    with pytest.raises(ValueError, match=r"only delta <= \[(0\.5|0\.9|1\.0)"):
        checker.proved(UNSETTLED[name])


@pytest.mark.parametrize("step", ["1e-41", "2e-40", "1e-20", "0.000001", "0.001"])
@pytest.mark.parametrize("noise", ["1/4835703278458516698824704", "0.02", "0.05", "0.3", "1"])
def test_the_delta_of_a_mixture_is_not_below_any_threshold(noise: str, step: str) -> None:
    """At every y P(x, inf) - y Q(x, inf) is at most delta, whatever x is, and wherever Newton's steps began and end."""
    with checker.ctx.workprec(512):
        scale, h = checker.ball(noise), checker.ball(step)
        delta = checker.one_release({"count": 1, "gaussian": noise, "poisson": "0.5"}, "replace_one")
        at = [((k - 50) / checker.arb(40), scale * checker.arb(2).sqrt()) for k in range(101)]
        above = [[((x - mean) / root).erfc() / 2 for mean in (-1, 0, 1)] for x, root in at]
        for k in (-(10**9), 1, 0, 1000):
            y = (h * k).exp()
            found = delta(y)
            assert not any(2 * found < zero + one - y * (other + zero) for other, zero, one in above)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_delta_of_a_mixture_holds_however_few_of_newtons_steps_are_taken(steps: int, monkeypatch) -> None:
    """The ratio is then far from y, on either side: how much is added to the tangent decides."""
    monkeypatch.setattr(batches, "range", lambda _: range(steps), raising=False)
    with checker.ctx.workprec(128):
        for noise in ("0.3", "1", "5"):
            scale, root = checker.ball(noise), checker.ball(noise) * checker.arb(2).sqrt()
            at = [scale * (k - 60) / 6 for k in range(121)]
            above = [[((x - mean) / root).erfc() / 2 for mean in (-1, 0, 1)] for x in at]
            for k in (-40, -9, -3, -1, 1, 3, 9, 40):
                y = (checker.arb(k) / 3).exp()
                delta = checker.one_release({"count": 1, "gaussian": noise, "poisson": "0.5"}, "replace_one")
                found = delta(y)
                assert not any(2 * found < zero + one - y * (other + zero) for other, zero, one in above)


def test_a_record_that_takes_the_place_of_another_counts_twice() -> None:
    """Of a sample with a largest batch: both parts of delta by hand, with probabilities that are summed."""
    n, rate, most, noise = 20, 0.3, 8, 2.0
    chances = [math.comb(n - 1, k) * rate**k * (1.0 - rate) ** (n - 1 - k) for k in range(n)]
    tau = sum(chances[most:])
    kept = rate * sum(chance * most / (k + 1) for k, chance in enumerate(chances) if k >= most) / tau
    release = {"count": 1, "gaussian": "2", "poisson": "0.3", "at_most": [most, n]}

    def above(x: float) -> float:
        return 0.5 * math.erfc(x / math.sqrt(2.0))

    def alone(y: float, share: float, mean: float) -> float:
        x = noise**2 * math.log((y - 1.0 + share) / share) / mean + 0.5 * mean
        return share * above((x - mean) / noise) + (1.0 - share - y) * above(x / noise)

    with checker.ctx.workprec(128):
        for y in (1.0, 2.0, 4.0):
            both = (1.0 - tau) * alone(y, rate, 1.0) + tau * alone(y, kept, 2.0)
            assert float(checker.one_release(release, "remove")(checker.arb(y))) == pytest.approx(both, rel=1e-12)


IMPOSSIBLE = {
    "below 0": lambda y: (1 - y).max(-0.01),
    "below 1 - y": lambda y: 0.9 * (1 - y).max(0),
    "above 1": lambda y: 1 + y / 10**9,
    "not convex": lambda y: (1 - y * y / 4).max(1 - y).max(0),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_values_that_no_delta_has_are_refused(name: str) -> None:
    step, at = checker.ball("0.1"), range(-40, 41)
    checker.masses(lambda y: (1 - y / 2).max(1 - y).max(0), step, at)
    with pytest.raises(ValueError, match="no such delta"):
        checker.masses(IMPOSSIBLE[name], step, at)
