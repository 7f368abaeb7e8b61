"""Divergences of any mechanism on a sample of fixed size: against data sets of two or three records, one replaced."""

import itertools

import mpmath
import numpy as np
import pytest

import fastacct as fa
from fastacct.compat.dp_sampling import ORDERS, sampled_divergences


def divergence(p, q, order):
    return np.logaddexp.reduce(order * np.log(p) + (1.0 - order) * np.log(q)) / (order - 1.0)


@pytest.mark.parametrize("seed", range(30))
def test_no_replaced_record_of_a_small_data_set_is_seen_better_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    n, m = [(2, 1), (3, 1), (3, 2)][seed % 3]
    spread, values = rng.choice([0.3, 1.0, 4.0]), rng.integers(2, 4)
    batches = list(itertools.combinations_with_replacement(range(values), m))
    outputs = {batch: np.exp(spread * rng.normal(size=3)) for batch in batches}
    outputs = {batch: output / output.sum() for batch, output in outputs.items()}

    def sampled(data):
        chosen = list(itertools.combinations(sorted(data), m))
        return sum(outputs[batch] for batch in chosen) / len(chosen)

    def neighbors(size):
        for rest in itertools.combinations_with_replacement(range(values), size - 1):
            for one, other in itertools.permutations(range(values), 2):
                yield tuple(sorted((*rest, one))), tuple(sorted((*rest, other)))

    own = np.array([max(divergence(outputs[a], outputs[b], order) for a, b in neighbors(m)) for order in ORDERS[:40]])
    bound = sampled_divergences(m / n, np.append(own, np.full(ORDERS.size - 40, np.inf)))
    for order, most in zip(ORDERS[:40], bound[:40], strict=True):
        assert max(divergence(sampled(a), sampled(b), order) for a, b in neighbors(n)) <= most + 1e-13
    assert (bound[40:] == np.inf).all()


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.01), (3.0, 0.1), (8.0, 0.9), (50.0, 1e-4)])
def test_gaussian_noise_is_seen_less_than_the_bound_for_any_mechanism(noise, rate):
    """A record that is replaced by its opposite, where all others are alike: a Poisson sample at half the noise."""
    seen = fa.rdp(fa.Gaussian(0.5 * noise).poisson(rate), ORDERS, neighbors="remove")
    bound = sampled_divergences(rate, ORDERS * 2.0 / noise**2)
    assert (seen <= bound).all()
    assert (bound[:3] <= 20.0 * seen[:3]).all()


def test_what_releases_nothing_and_what_has_no_protection():
    assert (sampled_divergences(0.1, np.zeros(ORDERS.size)) >= 0.0).all()
    assert (sampled_divergences(0.1, np.full(ORDERS.size, np.inf)) == np.inf).all()


def test_the_bound_is_the_published_one():
    """Theorem 9 of Wang, Balle and Kasiviswanathan 2019 at orders 2, 3 and 4, written out in 40 digits."""
    own = np.linspace(0.3, 2.0, ORDERS.size)
    with mpmath.workdps(40):
        for rate in (0.01, 0.3):
            r, (e2, e3, e4) = mpmath.mpf(rate), map(mpmath.mpf, own[:3].tolist())
            pair = r**2 * min(4 * mpmath.expm1(e2), 2 * mpmath.exp(e2))
            three, four = 2 * r**3 * mpmath.exp(2 * e3), 2 * r**4 * mpmath.exp(3 * e4)
            right = [mpmath.log(1 + pair), mpmath.log(1 + 3 * pair + three) / 2]
            right.append(mpmath.log(1 + 6 * pair + 4 * three + four) / 3)
            for found, truth in zip(sampled_divergences(rate, own)[:3].tolist(), right, strict=True):
                assert truth <= found <= truth * (1 + mpmath.mpf("1e-9"))
