"""Networks with parties that collude: enumeration of tiny ones, and random graphs against simulation."""

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.special import ndtr

import fastacct as fa
from fastacct.mechanisms.network import _gaps
from fastacct.mechanisms.random_graph import _few_neighbours, connected_resistance, kout_resistance

# -- averages whose noise cancels --------------------------------------------------------------------------------------


def view_of(own, shared, parties, edges, colluding):
    """mu^2 from the covariance of all that is published, given the noise that the coalition knows."""
    honest = [u for u in range(parties) if u not in colluding]
    noises = [("own", u) for u in honest] + [e for e in edges if e[0] in honest and e[1] in honest]
    mixing = np.zeros((len(honest), len(noises)))
    for k, noise in enumerate(noises):
        if noise[0] == "own":
            mixing[honest.index(noise[1]), k] = math.sqrt(own)
        else:
            mixing[honest.index(noise[0]), k] = math.sqrt(shared)
            mixing[honest.index(noise[1]), k] = -math.sqrt(shared)
    return np.linalg.inv(mixing @ mixing.T).diagonal().max()


def test_every_graph_and_coalition_of_four_parties():
    pairs = list(combinations(range(4), 2))
    for mask in range(2 ** len(pairs)):
        edges = [pair for k, pair in enumerate(pairs) if mask >> k & 1]
        for size in (0, 1, 2, 3):
            for who in combinations(range(4), size):
                found = fa.GOPA(0.5, 2.0, parties=4, edges=edges, colluding=who).mu ** 2
                assert found == pytest.approx(view_of(0.5, 2.0, 4, edges, who), rel=1e-9)


def test_a_coalition_in_the_complete_graph_leaves_the_complete_graph_of_the_others():
    for size in range(6):
        truth = view_of(0.3, 5.0, 7, list(combinations(range(7), 2)), set(range(size)))
        for who in (size, tuple(range(size))):
            assert fa.GOPA(0.3, 5.0, parties=7, colluding=who).mu ** 2 == pytest.approx(truth, rel=1e-12)


def resistance_of(adjacent):
    """Largest diagonal entry of the pseudo-inverse of the Laplacian; inf if not connected."""
    laplacian = np.diag(adjacent.sum(axis=1)) - adjacent
    values, vectors = np.linalg.eigh(laplacian)
    if len(values) > 1 and values[1] < 1e-9:
        return math.inf
    return float(((vectors[:, 1:] ** 2) @ (1.0 / values[1:])).max())


@pytest.mark.parametrize(("parties", "draws"), [(3, 1), (4, 1), (4, 2), (5, 1), (5, 2)])
def test_every_random_graph_of_a_few_parties(parties, draws):
    """All ways in which all parties can draw: the exact probability that the honest part is worse than claimed."""
    choices = [list(combinations([v for v in range(parties) if v != u], draws)) for u in range(parties)]
    for honest in range(2, parties + 1):
        seen = []
        for drawn in product(*choices):
            adjacent = np.zeros((parties, parties))
            for u, others in enumerate(drawn):
                for v in others:
                    adjacent[u, v] = adjacent[v, u] = 1.0
            seen.append(resistance_of(adjacent[:honest, :honest]))
        seen = np.array(seen)
        for delta in (1e-9, 0.01, 0.1, 0.3, 0.6, 0.9):
            bound, failure = kout_resistance(parties, honest, draws, delta)
            if math.isfinite(bound):
                assert failure <= delta
                assert np.mean(seen > bound * (1 + 1e-9)) <= failure
            else:
                assert np.mean(np.isinf(seen)) <= failure
                assert failure > delta


def test_probabilities_of_few_neighbours_are_rounded_up():
    """Against fractions: 30 digits that are never below, with powers and binomials of more digits than that."""
    for parties, honest, draws, size, w in (
        (60, 50, 8, 3, 2),
        (60, 60, 3, 20, 7),
        (150, 100, 6, 50, 0),
        (31, 20, 5, 1, 9),
    ):
        every = math.comb(parties - 1, draws)
        inside = Fraction(math.comb(parties - honest + size + w - 1, draws), every)
        outside = Fraction(math.comb(parties - 1 - size, draws), every)
        ways = math.comb(honest, size) * math.comb(honest - size, w) // (2 if 2 * size == honest and w == 0 else 1)
        truth = ways * inside**size * outside ** (honest - size - w)
        found = Fraction(_few_neighbours(parties, honest, draws, size, w))
        assert truth <= found <= truth * (1 + Fraction(1, 10**26))


@pytest.mark.parametrize(("parties", "honest", "draws"), [(60, 50, 8), (60, 60, 3), (150, 100, 6)])
def test_random_graphs_against_simulation(parties, honest, draws):
    rng = np.random.default_rng(11)
    seen = []
    for _ in range(600):
        adjacent = np.zeros((parties, parties))
        for u in range(parties):
            others = rng.choice(parties - 1, draws, replace=False)
            adjacent[u, others + (others >= u)] = 1.0
        seen.append(resistance_of(np.maximum(adjacent, adjacent.T)[:honest, :honest]))
    seen = np.array(seen)
    for delta in (0.01, 0.1, 0.5, 0.9):
        bound, failure = kout_resistance(parties, honest, draws, delta)
        if math.isfinite(bound):
            assert np.mean(seen > bound) <= failure + 5 * math.sqrt(failure / seen.size)
            assert bound <= (6 if draws == 8 else 12) * np.median(seen)  # the more each draws, the closer
        else:
            rate = np.mean(np.isinf(seen))
            assert rate <= failure + 5 * math.sqrt(failure / seen.size)
    if draws == 3:  # each has three neighbours at least, so that the graph hardly ever falls apart
        assert kout_resistance(parties, honest, draws, 0.5)[1] < 0.5


def test_no_connected_graph_is_worse_than_a_path():
    for n in (2, 3, 5, 40):
        path = np.diag(np.ones(n - 1), 1)
        assert resistance_of(path + path.T) == pytest.approx(connected_resistance(n), rel=1e-9)
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(3, 12))
        tree = np.zeros((n, n))
        for u in range(1, n):
            v = int(rng.integers(0, u))
            tree[u, v] = tree[v, u] = 1.0
        assert resistance_of(tree) <= connected_resistance(n) * (1 + 1e-9)


def test_the_graph_that_was_drawn_is_at_least_as_good_and_its_failure_is_paid():
    rng = np.random.default_rng(3)
    drawn = fa.GOPA(1.0, 50.0, parties=40, colluding=8, draws=12, graph_delta=1e-4)
    assert 0.0 < drawn.graph_failure <= 1e-4
    edges = set()
    for u in range(40):
        others = rng.choice(39, 12, replace=False)
        edges |= {tuple(sorted((u, int(v)))) for v in others + (others >= u)}
    exact = fa.GOPA(1.0, 50.0, parties=40, colluding=tuple(range(32, 40)), edges=sorted(edges))
    assert exact.mu < drawn.mu < 1.0
    assert fa.delta(drawn, epsilon=30.0, neighbors="replace_one") == pytest.approx(drawn.graph_failure, rel=1e-6)
    assert fa.epsilon(drawn, delta=1e-5, neighbors="replace_one") == math.inf or drawn.graph_failure < 1e-5


def test_what_is_refused_of_an_average():
    for make, message in (
        (lambda: fa.GOPA(1.0, 1.0, parties=5, colluding=5), r"colluding.*\[0, 4\]"),
        (lambda: fa.GOPA(1.0, 1.0, parties=5, colluding=(0, 7)), r"colluding\[1\] = 7"),
        (lambda: fa.GOPA(1.0, 1.0, parties=2, colluding=(0, 1)), "nobody is left"),
        (lambda: fa.GOPA(1.0, 1.0, parties=5, edges=[(0, 1)], colluding=2), "name the parties"),
        (lambda: fa.GOPA(1.0, 1.0, parties=5, edges=[(0, 1)], draws=2), "exclude each other"),
        (lambda: fa.GOPA(1.0, 1.0, parties=5, draws=5), r"draws = 5.*\[0, 4\]"),
        (lambda: fa.GOPA(1.0, 1.0, parties=50, colluding=25, draws=2), "disconnected with probability"),
        (lambda: fa.Gaussian(1.0).local(), "not decentralised"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()


# -- walks -------------------------------------------------------------------------------------------------------------


def paths(parties, coalition, longest):
    """All ways between two visits to the coalition, as 1 for the user in question, with their probabilities."""
    others = parties - coalition - 1
    for m in range(longest + 1):
        for path in product((0, 1), repeat=m):
            hit = sum(path)
            yield path, others ** (m - hit) / parties**m * coalition / parties


@cache
def binomial(m, share):
    return np.array([math.comb(m, k) * share**k * (1 - share) ** (m - k) for k in range(m + 1)], dtype=float)


@pytest.mark.parametrize(("parties", "coalition"), [(3, 1), (4, 1), (4, 2), (5, 3), (9, 7)])
@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_a_sum_on_a_tiny_complete_graph(parties, coalition, order):
    """E exp(c j^2 / m) over all paths of up to 13 steps, and by binomials beyond."""
    noise, longest = 3.0, 13  # with less the order 4 is infinite for three users
    c = 0.5 * order * (order - 1.0) / noise**2
    total = sum(
        mass * math.exp(c * sum(path) ** 2 / max(len(path), 1)) for path, mass in paths(parties, coalition, longest)
    )
    share, stay = 1.0 / (parties - coalition), 1.0 - coalition / parties
    for m in range(longest + 1, 700):
        j = np.arange(m + 1)
        total += stay**m * coalition / parties * float(binomial(m, share) @ np.exp(c * j**2 / m))
    truth = math.log(total) / (order - 1.0)
    walk = fa.RandomWalk(noise, 1, "complete", parties, colluding=coalition - 1)
    found = float(fa.rdp(walk, order)) / coalition
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-7)


@pytest.mark.parametrize(("parties", "coalition"), [(20, 2), (20, 10), (100, 30)])
def test_delta_of_a_coalition_is_that_of_the_mixture(parties, coalition):
    noise = 2.0
    truth = dict.fromkeys((0.0, 0.2, 0.8), 0.0)
    for m in range(1, 40 * parties // coalition):
        j = np.arange(1, min(m, 60) + 1)
        mass = [math.comb(m, int(k)) * (parties - coalition - 1) ** (m - int(k)) / parties**m for k in j]
        mu = j / (math.sqrt(m) * noise)
        for epsilon in truth:
            one = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
            truth[epsilon] += coalition / parties * float(np.array(mass) @ one)
    cycle = next(iter(fa.RandomWalk(noise, 1, "complete", parties, colluding=coalition - 1).decompose("remove")))[0]
    for epsilon, least in truth.items():
        assert least * (1 - 1e-9) <= fa.delta(cycle, epsilon=epsilon) <= least * 1.02


def hidden(path):
    """Sum of 1/gap over the steps of the user in question: the square of mu in units of one step's."""
    at = [k for k, one in enumerate(path) if one]
    return sum(1.0 / (after - before) for before, after in pairwise([*at, len(path)]))


@pytest.mark.parametrize(("parties", "coalition"), [(3, 1), (4, 1), (4, 2), (6, 4)])
@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_gradient_steps_on_a_tiny_complete_graph(parties, coalition, order):
    """The closed form is the sum over all paths, and no less than any network of linear contractions has."""
    noise, longest = 3.0, 14
    c = 0.5 * order * (order - 1.0) / noise**2
    rng = np.random.default_rng(parties)
    maps = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 1.0), *map(tuple, rng.uniform(-1.0, 1.0, (8, 2)))]
    total, exact = 0.0, np.zeros(len(maps))
    by_length = defaultdict(list)
    for path, mass in paths(parties, coalition, longest):
        total += mass * math.exp(c * hidden(path)) if path else mass
        by_length[len(path)].append((path, mass))
    for same_length in by_length.values():
        steps, mass = np.array([path for path, _ in same_length]).T, np.array([mass for _, mass in same_length])
        for k, (own, other) in enumerate(maps):
            shift, variance = np.zeros(mass.size), np.zeros(mass.size)
            for one in steps:  # x -> slope x + (1 where the user's gradient differs) + noise
                slope = np.where(one, own, other)
                shift, variance = slope * shift + one, slope * slope * variance + 1.0
            exact[k] += mass @ np.exp(c * shift * shift / np.maximum(variance, 1.0))
    cycle = next(iter(fa.GradientWalk(noise, 1, parties, coalition - 1).decompose("remove")))[0]
    found = math.exp((order - 1.0) * float(fa.rdp(cycle, order)))
    rest = (1.0 - coalition / parties) ** (longest + 1)
    assert total + rest <= found * (1 + 1e-12)
    longer = rest * np.mean([math.exp(c * hidden(rng.random(60) < 1 / (parties - coalition))) for _ in range(4000)])
    assert found <= total + 3.0 * longer + 1e-9
    assert np.all(exact + rest <= found * (1 + 1e-12))
    assert exact.max() - 1.0 >= 0.2 * (total - 1.0)  # and it is not far off


def test_blocks_of_waiting_times_are_a_bound():
    for stop in (0.9, 0.3, 1e-3, 2e-9):
        gaps, chances = _gaps(stop)
        assert np.sum(chances) == pytest.approx(1.0, abs=1e-13)
        assert np.all(chances >= 0.0)
        mean = -math.log(stop) * stop / (1.0 - stop)  # of 1/gap
        assert mean * (1 - 1e-12) <= float(chances @ (1.0 / gaps)) <= mean * 1.005


def test_coalitions_only_make_it_worse_and_the_whole_transcript_is_local_privacy():
    for walk in (
        lambda k: fa.RandomWalk(4.0, 5, "complete", 50, colluding=k),
        lambda k: fa.GradientWalk(4.0, 5, 50, colluding=k),
        lambda k: fa.GOPA(1.0, 20.0, parties=50, colluding=k),
    ):
        gains = [fa.network_gain(walk(k), delta=1e-5) for k in (0, 1, 5, 20, 40)]
        assert all(a.network < b.network for a, b in pairwise(gains))
        assert len({one.local for one in gains}) == 1
        assert gains[0].ratio > 1.4
    once, every = (
        fa.network_gain(fa.RandomWalk(4.0, 5, noise=noise, parties=9), delta=1e-5) for noise in ("once", "every")
    )
    assert once.local == math.inf > once.network  # most contributions have no noise of their own
    assert once.network == every.local
    assert every.network == pytest.approx(fa.epsilon(fa.GDP(math.sqrt(5 / 8) / 4), delta=1e-5), rel=1e-9)
    assert fa.GOPA(0.5, 9.0, parties=5, colluding=4).mu == pytest.approx(math.sqrt(2.0))


def test_the_ring_hides_behind_the_shortest_way():
    every = {"noise": "every", "parties": 12}
    for colluding, ways in (
        ((), 11),
        ((0,), 11),
        ((0, 6), 5),
        ((6,), 5),
        ((3, 6), 2),
        ((1, 2), 9),
        ((2,), 1),
        ((11,), 10),
    ):
        walk = fa.RandomWalk(3.0, 4, colluding=colluding, **every)
        truth = fa.epsilon(fa.GDP(math.sqrt(4.0 / ways) / 3.0), delta=1e-6)
        assert fa.epsilon(walk, delta=1e-6) == pytest.approx(truth, rel=1e-9)
    assert fa.RandomWalk(3.0, 4, colluding=3, **every).decompose("remove") == fa.Gaussian(3.0) * 4


def test_what_is_refused_of_walks():
    for make, message in (
        (lambda: fa.RandomWalk(1.0, 1, "complete", 5, colluding=3), r"colluding = 3.*\[0, 2\]"),
        (lambda: fa.RandomWalk(1.0, 1, "complete", 5, colluding=(1, 2)), "must be a number"),
        (lambda: fa.RandomWalk(1.0, 1, parties=5, colluding=1), "only noise='every'"),
        (lambda: fa.RandomWalk(1.0, 1, parties=3, colluding=2, noise="every"), "all 3 users"),
        (lambda: fa.RandomWalk(1.0, 1, parties=3, colluding=(1, 2), noise="every"), "all 3 users"),
        (lambda: fa.GradientWalk(1.0, 1, 10, graph="ring"), "graph"),
        (lambda: fa.GradientWalk(1.0, 1, 10).group(2), "one user's steps"),
        (lambda: fa.GradientWalk(1.0, 1, 5, colluding=3), r"colluding = 3"),
        (lambda: fa.network_gain(fa.Gaussian(1.0), delta=1e-5), "not decentralised"),
        (lambda: fa.network_gain("walk", delta=1e-5), "must be a mechanism"),
        (lambda: fa.network_gain(fa.RandomWalk([1.0, 2.0], 1), delta=1e-5), r"shape \(2,\)"),
        (lambda: fa.network_gain(fa.RandomWalk(1.0, 1), delta=[1e-5]), "delta must be one number"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()
    assert fa.epsilon(fa.GradientWalk(0.0, 1, 10), delta=1e-5) == math.inf
    assert fa.epsilon(fa.GradientWalk(math.inf, 1, 10), delta=1e-5) == 0.0
    assert fa.delta(fa.RandomWalk(1.7e308, 1, noise="every", parties=10), epsilon=0.0) > 0.0  # overflow is not infinite
    assert fa.epsilon(fa.RandomWalk(math.inf, 1, noise="every", parties=10), delta=1e-5) == 0.0


def test_parties_may_be_numpys_whole_numbers():
    assert fa.GOPA(1.0, 1.0, parties=5, colluding=np.array([3, 1])) == fa.GOPA(1.0, 1.0, parties=5, colluding=(1, 3))
    assert fa.GOPA(1.0, 1.0, parties=5, colluding=np.array(2)) == fa.GOPA(1.0, 1.0, parties=5, colluding=2)
    for edges in (np.array(5), [np.array(3)]):
        with pytest.raises(TypeError, match="edges"):
            fa.GOPA(1.0, 1.0, parties=5, edges=edges)
    assert fa.GOPA(1e-310, 1.0, parties=40, draws=10, graph_delta=1e-3).mu > 0.9 * math.sqrt(1.0 / 1e-308 / 40)
    edges = np.array([[0, 1], [2, 1]])
    assert fa.GOPA(1.0, 1.0, parties=5, edges=edges) == fa.GOPA(1.0, 1.0, parties=5, edges=((0, 1), (1, 2)))
