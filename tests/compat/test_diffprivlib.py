"""diffprivlib's budget accountant: totals that are certified, never looser than its own, and budgets that hold."""

import math
import random
import re
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

import fastacct as fa

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    diffprivlib = pytest.importorskip("diffprivlib", reason="the extra diffprivlib is not installed")

from diffprivlib.utils import BudgetError

from fastacct.compat import diffprivlib as compat
from fastacct.compat.diffprivlib import FastBudgetAccountant

PAGE = Path(__file__).parents[2] / "docs" / "backends" / "diffprivlib.md"
SPENDS = [
    [(0.1, 0.0)] * 100,
    [(0.1, 1e-7)] * 50 + [(0.02, 0.0)] * 200,
    [(0.5, 1e-6), (0.25, 0.0), (0.125, 1e-8), (1.0, 0.0), (0.0, 1e-6)],
    [(2.0**-9, 0.0)] * 700,
]
MANY = [(random.Random(1).uniform(0.01, 0.3) if not i else 0.01 + 0.003 * i, 0.0) for i in range(60)]
SLACKS = (1e-3, 1e-6, 2.0**-25)


def exact_delta(spends, slack):
    """1 - (1 - slack) prod(1 - delta), in rational numbers."""
    return 1 - math.prod((1 - Fraction(delta) for _, delta in spends), start=1 - Fraction(slack))


def job(spends):
    return fa.Process((fa.ApproxDP(epsilon, delta), 1) for epsilon, delta in spends)


def failures(make):
    """What a maker of accountants gets wrong in its totals."""
    found = []
    for i, spends in enumerate(SPENDS):
        for slack in SLACKS:
            accountant = make(slack=slack)
            for epsilon, delta in spends:
                accountant.spend(epsilon, delta)
            epsilon, delta = accountant.total()
            if (
                not exact_delta(spends, slack)
                <= Fraction(delta)
                <= exact_delta(spends, slack) * (1 + Fraction(1, 10**12))
            ):
                found.append((i, slack, "delta"))
            least = fa.epsilon_lower(job(spends), delta=min(1.0, float(delta) * (1 + 1e-9)))
            if not least <= epsilon * (1 + 1e-6):
                found.append((i, slack, "below the truth"))
            if not epsilon <= fa.epsilon(job(spends), delta=delta * (1 - 1e-9)) * (1 + 1e-6):
                found.append((i, slack, "too large"))
    return found


def test_totals_are_the_optimal_composition_of_the_class():
    assert failures(FastBudgetAccountant) == []


class Low(FastBudgetAccountant):
    def total(self, spent_budget=None, slack=None):
        epsilon, delta = super().total(spent_budget, slack)
        return compat.utils.Budget(epsilon * 0.97, delta)


class Once(FastBudgetAccountant):
    def total(self, spent_budget=None, slack=None):
        spends = self.spent_budget if spent_budget is None else spent_budget
        return super().total(sorted(set(spends)), slack)


class Forgetful(FastBudgetAccountant):
    def total(self, spent_budget=None, slack=None):
        spends = self.spent_budget if spent_budget is None else spent_budget
        return super().total(spends[-1:], slack)


class Careless(FastBudgetAccountant):
    """Deltas of spends left out."""

    def total(self, spent_budget=None, slack=None):
        spends = self.spent_budget if spent_budget is None else spent_budget
        return super().total([(epsilon, 0.0) for epsilon, _ in spends if epsilon], slack)


@pytest.mark.parametrize(
    ("canary", "caught"),
    [(Low, "below the truth"), (Once, "below the truth"), (Forgetful, "below the truth"), (Careless, "delta")],
)
def test_canaries_are_caught(canary, caught):
    assert caught in {what for *_, what in failures(canary)}


@pytest.mark.parametrize("spends", [*SPENDS, MANY], ids=len)
def test_never_looser_than_their_theorems(spends):
    for slack in (0.0, *SLACKS):
        ours = FastBudgetAccountant(spent_budget=spends, slack=slack).total()
        theirs = diffprivlib.BudgetAccountant(spent_budget=spends, slack=slack).total()
        assert ours[0] <= theirs[0] * (1 + 1e-13)  # their sums are not rounded up
        assert theirs[1] * (1 - 1e-12) <= ours[1] <= theirs[1] * (1 + 1e-12)
        if slack == 0.0:
            assert Fraction(ours[0]) >= sum(Fraction(epsilon) for epsilon, _ in spends)


def test_many_different_epsilons_are_rounded_up_and_still_certified():
    accountant = FastBudgetAccountant(spent_budget=MANY, slack=1e-6)
    exact = fa.epsilon_bounds(fa.Process((fa.PureDP(epsilon), 1) for epsilon, _ in MANY), delta=1e-6)
    assert exact.lower <= accountant.total()[0] <= exact.upper * 1.05


def test_budgets_hold_to_the_last_bit():
    accountant = FastBudgetAccountant(epsilon=1.0, delta=1e-5)
    for _ in range(4):
        accountant.spend(0.25, 0.0)  # sums that floats hold fit exactly
    with pytest.raises(BudgetError):
        accountant.spend(1e-13, 0.0)
    assert accountant.total() == (1.0, 0.0)
    assert len(accountant) == 4
    tenths = FastBudgetAccountant(epsilon=1.0)
    for _ in range(9):
        tenths.spend(0.1, 0.0)
    with pytest.raises(BudgetError):  # the double 0.1 is above one tenth
        tenths.spend(0.1, 0.0)
    FastBudgetAccountant(epsilon=math.nextafter(1.0, 2.0), spent_budget=[(0.1, 0.0)] * 10)


def test_a_budget_with_slack_takes_more_than_theirs():
    def count(kind):
        accountant, n = kind(epsilon=3.0, delta=1e-5, slack=1e-6), 0
        try:
            while n < 1000:
                accountant.spend(0.1, 1e-9)
                n += 1
        except BudgetError:
            pass
        return n, accountant

    (ours, accountant), (theirs, _) = count(FastBudgetAccountant), count(diffprivlib.BudgetAccountant)
    assert ours > theirs
    whole = fa.ApproxDP(0.1, 1e-9) * ours
    assert fa.epsilon_lower(whole, delta=accountant.total()[1]) <= 3.0
    assert fa.epsilon(whole + fa.ApproxDP(0.1, 1e-9), delta=accountant.total()[1]) > 3.0


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("slack", [0.0, 1e-6])
def test_what_remains_can_be_spent_and_hardly_more(k, slack):
    def made():
        return FastBudgetAccountant(epsilon=2.0, delta=1e-5, slack=slack, spent_budget=[(0.1, 1e-8)] * 10)

    epsilon, delta = made().remaining(k)
    accountant = made()
    for _ in range(k):
        accountant.spend(epsilon, delta)
    total = accountant.total()
    assert total[0] <= 2.0
    assert total[1] <= 1e-5
    for more in ((epsilon * (1 + 1e-8), 0.0), (0.0, delta * (1 + 1e-8))):
        with pytest.raises(BudgetError):
            made().check(*more) if k == 1 else [accountant.spend(*more) for accountant in [made()] for _ in range(k)]
    theirs = diffprivlib.BudgetAccountant(epsilon=2.0, delta=1e-5, slack=slack, spent_budget=[(0.1, 1e-8)] * 10)
    assert epsilon >= theirs.remaining(k)[0] * (1 - 1e-9)


def test_endless_and_empty_budgets():
    accountant = FastBudgetAccountant()
    assert accountant.total() == (0.0, 0.0)
    assert accountant.remaining() == (math.inf, 1.0)
    accountant.spend(math.inf, 0.0)
    assert accountant.total()[0] == math.inf
    full = FastBudgetAccountant(epsilon=1.0, delta=1e-5, spent_budget=[(1.0, 1e-5)])
    assert full.remaining() == (0.0, 0.0)
    assert FastBudgetAccountant(slack=1.0, spent_budget=[(1.0, 0.0)]).total() == (0.0, 1.0)


def test_what_is_no_spend_is_refused():
    accountant = FastBudgetAccountant(spent_budget=[(0.5, 0.0)])
    for bad in ((math.nan, 0.0), (1.0, math.nan), (-1.0, 0.0), (1.0, 2.0), (0.0, 0.0)):
        with pytest.raises(ValueError, match=r"[Ee]psilon|[Dd]elta"):
            accountant.spend(*bad)
        with pytest.raises(ValueError, match=r"[Ee]psilon|[Dd]elta"):
            accountant.total(spent_budget=[bad])
    for slack in (-1.0, 2.0, math.nan):
        with pytest.raises(ValueError, match="Slack"):
            accountant.total(slack=slack)
    for k, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="k must be"):
            accountant.remaining(k)
    assert accountant.spent_budget == [(0.5, 0.0)]


@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["accountant"].total()[0] == fa.epsilon(fa.PureDP(0.05) * 100, delta=1e-6)


@pytest.mark.parametrize("counts", [(1, 40), (40, 1)])
def test_no_total_is_below_a_part(counts):
    parts = [[(0.3, 1e-8)] * counts[0], [(0.1, 0.0)] * counts[1]]
    for spends in (parts[0] + parts[1], parts[1] + parts[0]):
        whole = FastBudgetAccountant(slack=1e-6)
        for epsilon, delta in spends:
            whole.spend(epsilon, delta)
        epsilon, delta = whole.total()
        for part in parts:
            assert epsilon >= fa.epsilon_lower(job(part), delta=float(delta)) * (1.0 - 1e-9)
