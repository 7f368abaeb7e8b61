"""Work that is counted: the same whatever was kept from before."""

import math
from contextlib import nullcontext

import numpy as np
import pytest

import fastacct as fa
from fastacct.core import deltas, work
from fastacct.losses.loss import Atoms, Part
from fastacct.readers import lines
from fastacct.readers.asked import EXACTLY
from fastacct.readers.contour import Contour
from fastacct.readers.grid import reader
from fastacct.readers.grid.reader import Grid
from fastacct.readers.job import _reader
from fastacct.readers.nearby import DELTA
from fastacct.readers.smoothed import Smoothed


def asked(ask):
    """The work of a question."""
    with work.counted() as done:
        ask()
    return sum(done.values())


def sampled():
    return fa.Process(fa.Laplace(2.0).poisson(0.1) * 50)


def test_nobody_counts_where_nobody_asks_to():
    work.note({"a": 1.0})
    with work.counted() as outer:
        work.note({"a": 1.0})
        with work.counted() as inner:
            work.note({"b": 2.0})
        work.note({"a": 1.0, "d": 8.0})
    work.note({"c": 4.0})
    assert (outer, inner) == ({"a": 1.0, "b": 2.0, "d": 8.0}, {"b": 2.0})


def test_a_line_counts_though_its_answer_is_kept():
    line = Contour(sampled(), "add_remove")
    first = asked(lambda: line.read_cell(0, np.array([0.7]), DELTA))
    assert first > 1e3
    assert asked(lambda: line.read_cell(0, np.array([0.7]), DELTA)) == first
    assert asked(lambda: line.read_cell(0, np.array([0.9]), DELTA)) > 1e3
    assert asked(lambda: line.read_cell(0, np.array([0.7]), DELTA)) == first
    assert asked(lambda: [line.read_cell(0, np.array([0.7]), DELTA) for _ in range(3)]) == first


@pytest.mark.parametrize(
    "job", [fa.Laplace(2.0) * 7 + fa.TruncatedLaplace(3.0, 9.0), fa.Laplace(3.0).poisson(0.2) * 20]
)
def test_a_delta_counts_the_same_alone_and_after_others(job):
    def of_one(epsilon, made):
        return asked(lambda: fa.delta(made, epsilon=epsilon, accountant=fa.PLD()))

    alone = [of_one(epsilon, fa.Process(job)) for epsilon in (0.3, 1.0, 0.5)]
    made = fa.Process(job)
    assert [of_one(epsilon, made) for epsilon in (0.3, 1.0, 0.5)] == alone
    assert of_one(0.3, made) == alone[0] > 0.0


def test_a_search_that_has_done_its_work_ends_with_what_it_has():
    """Each delta is a second of work: five or so, and a bound."""
    seen = []

    def deltas_at(epsilons):
        seen.extend(epsilons)
        work.note({("second", epsilon): 1e9 for epsilon in epsilons})
        return fa.delta(fa.Gaussian(1.0), epsilon=np.array(epsilons)).tolist()

    search = lines._Search(deltas_at, 1e-3)
    assert search.found()
    search.refined()
    assert 4 <= len(seen) <= 12
    truth = fa.tpr_at_fpr(fa.Gaussian(1.0), 1e-3)
    assert truth * (1.0 - 1e-12) <= search.best <= 1.5 * truth
    assert search.left <= 0.0
    quick = lines._Search(lambda epsilons: fa.delta(fa.Gaussian(1.0), epsilon=np.array(epsilons)).tolist(), 1e-3)
    assert quick.found()
    quick.refined()
    assert truth * (1.0 - 1e-12) <= quick.best <= truth * (1.0 + 1e-7) < search.best


def test_work_of_a_first_search_counts_in_the_second():
    """Where the first one has used all there is, the second one asks nothing."""
    seen = []
    search = lines._Search(lambda epsilons: seen.extend(epsilons) or [0.1 for _ in epsilons], 1e-3, {"before": 6e9})
    assert not search.found()
    assert seen == []


def test_a_rate_of_dear_deltas_has_the_same_bits_alone_and_among_others(monkeypatch):
    """Whatever other rates have asked counts for each of them."""

    def delta_of(job, epsilons, relation, settings=None):
        work.note({("second", epsilon): 1e9 for epsilon in epsilons.tolist()})
        return fa.delta(fa.Gaussian(1.0), epsilon=epsilons)

    monkeypatch.setattr(lines, "delta_of", delta_of)
    monkeypatch.setattr(lines, "roughly", lambda quantity, job, epsilon, relation: 1.0)
    job = fa.RDPCurve((2.0, 4.0), (0.5, 1.0)) * 1
    rates = np.array([1e-4, 1e-3, 1.1e-3, 0.2])
    together = fa.tpr_at_fpr(job, rates)
    assert [fa.tpr_at_fpr(job, rate) for rate in rates] == together.tolist()
    truth = fa.tpr_at_fpr(fa.Gaussian(1.0), rates)
    assert (truth * (1.0 - 1e-12) <= together).all()
    assert (together > truth * (1.0 + 1e-6)).any()


def test_a_grid_counts_what_its_compositions_would_take():
    """Twice as much for half the spacing, which is two levels."""
    job = fa.Process(fa.Laplace(2.0) * 70 + fa.TruncatedLaplace(3.0, 9.0) * 20)
    grid = _reader(job, 0, "remove", EXACTLY)._sides[0]._coarse
    coarse, fine, again = (asked(lambda n=level: grid._composed(1, n, True)) for level in (0, 2, 0))
    assert fine == pytest.approx(2.0 * coarse, rel=0.02)
    assert again == coarse > 1e4


def test_a_finite_sum_counts_its_points_though_it_is_kept():
    losses = Atoms(np.array([-0.3137, 0.1742, 0.6059]), np.zeros(3), np.array([0.3, 0.45, 0.25]))
    parts = [Part(losses, losses, 5)]
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    first, again, closer = (
        asked(lambda ease=ease: made._sums(made._losses(0.0), 2.0, 1.0, ease)) for ease in (1.0, 1.0, 1e-3)
    )
    assert first == again > 0.0
    assert closer > 10.0 * first


def test_a_quantile_of_dear_chances_asks_few_and_is_a_little_wider(monkeypatch):
    """Sixteen chances took 19 s."""

    def of(job):
        return fa.privacy_loss(job, neighbors="remove").quantile(1e-3)

    good = of(fa.Laplace(3.0) * 5)

    asked = []
    monkeypatch.setattr(deltas, "counted", lambda: asked.append(1) or nullcontext({"seconds": 1e9}))
    wide = of(fa.Laplace(3.0) * 5)
    assert 0.8 * good.lower <= wide.lower <= good.lower * (1.0 + 1e-12)
    assert good.upper * (1.0 - 1e-12) <= wide.upper <= good.upper * 1.02
    assert good != wide
    assert len(asked) <= 9


@pytest.mark.parametrize(
    "job",
    [
        fa.Gaussian(3.0).with_replacement(draws=8, records=20) * 7,
        fa.ZCDP(0.1).poisson(0.1) * 7,
        fa.Laplace(2.0).poisson(0.1) * 7,
        fa.from_pmf([0.3] + [0.1] * 7, [0.1] * 7 + [0.3]).poisson(0.1) * 7,
    ],
    ids=str,
)
def test_divergences_count_though_they_are_kept(job):
    """Those of a mixture are kept for all jobs that have it."""

    def of_one(made, delta):
        return asked(lambda: fa.epsilon(made, delta=delta, accountant=fa.RDP()))

    first = of_one(job, 1e-3)
    assert first > 1e6
    assert of_one(job, 1e-5) > 1e6
    assert of_one(job, 1e-3) == first == of_one(fa.Process(job), 1e-3)


def test_an_answer_that_is_kept_counts_once_in_a_search():
    seen = []

    @work.kept(2)
    def ask(x):
        seen.append(x)
        work.spend(10.0 * x)
        return x

    for _ in range(2):
        assert asked(lambda: [ask(1.0), ask(2.0), ask(1.0)]) == 30.0
    assert seen == [1.0, 2.0]
    assert asked(lambda: [work.spend(3.0), work.spend(3.0)]) == 6.0


def test_an_answer_that_was_forgotten_and_is_asked_again_counts_once():
    """What another answer that is kept was made of has the name of its question."""

    @work.kept(1)
    def part(x):
        work.spend(10.0 * x)
        return x

    @work.kept(None)
    def whole(x):
        work.spend(1.0)
        return part(x) + part(x)

    for _ in range(2):
        assert asked(lambda: [whole(1.0), part(2.0), part(1.0)]) == 31.0


def test_a_step_is_part_of_a_question_once_and_one_of_what_is_kept_is_not():
    @work.kept(4)
    def known(x):
        work.begin("own", 1e9)
        return x, work.is_left(1e30)

    with work.one_question({}), work.counted() as done:
        for _ in range(3):
            work.begin("a", 6e9)
        assert known(1) == known(1) == (1, True)
        assert work.is_left(1e9)
        assert not work.is_over()
        assert not work.is_left(1.1e9)
        assert work.is_over()
        with work.one_question({}):
            assert not work.is_over()
            assert work.is_left(7e9)
        assert work.is_over()
    assert sum(done.values()) == 7e9
    assert work.is_left(math.inf)
    assert not work.is_over()


def test_a_grid_that_costs_more_than_is_left_is_not_composed(monkeypatch):
    def bounds(*others):
        job = fa.Process(fa.Gaussian(2.0).with_replacement(8, 2) * 10)
        asked = {"neighbors": "replace_one", "accountant": fa.PLD()}
        return [fa.epsilon_bounds(job, delta=delta, **asked) for delta in (*others, 1e-9)][-1]

    def begun(key, units):
        seen.append(units)
        own(key, units)

    seen, own = [], work.begin
    monkeypatch.setattr(reader, "begin", begun)
    whole, most = bounds(), max(seen)
    monkeypatch.setattr(work, "_MOST", 0.5 * most)
    seen.clear()
    short = bounds()
    assert max(seen) < most
    assert short.lower <= whole.lower <= whole.upper <= short.upper
    assert short == bounds(1e-7)
