"""The report and the calibration of tensorflow_privacy, against the numbers that its own tests state."""

import math
import re
import subprocess
import sys
from fractions import Fraction

import pytest

import fastacct as fa
from fastacct.compat import tf_privacy
from fastacct.compat.tf_privacy import AccountantType, compute_dp_sgd_privacy, compute_noise

pytestmark = pytest.mark.filterwarnings("ignore::fastacct.compat.tf_privacy.PoissonWarning")
RUN = {"number_of_examples": 10000, "batch_size": 64, "num_epochs": 5.0, "noise_multiplier": 2.0, "delta": 1e-6}
STATED = {None: (13.376, 1.616), 3: (56.224, 6.425), 10: (366.374, math.inf)}
"""{examples per user: epsilons that tensorflow_privacy 0.9 states for RUN, each example once per epoch and sampled}"""


def test_nothing_else_is_imported():
    code = (
        "import sys, fastacct.compat.tf_privacy; print([m for m in sys.modules if 'tensorflow' in m or 'scipy' in m])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def numbers(statement):
    return [float(number) for number in re.findall(r"^ +Epsilon .*:\s+(\S+)$", statement, re.MULTILINE)]


def check(size, microbatching=True, report=tf_privacy.compute_dp_sgd_privacy_statement):
    """The printed epsilons are those of the jobs, rounded up, and none above what is stated."""
    statement = report(**RUN, used_microbatching=microbatching, max_examples_per_user=size)
    noise, rate, steps = (1.0 if microbatching else 2.0), 64 / 10000, 782
    expected = []
    for k in (1,) if size is None else (1, size):
        expected.append(fa.Gaussian(noise / k) * 5)
        expected.append(fa.Gaussian(noise).poisson(rate).group(k) * steps)
    found = numbers(statement)
    assert len(found) == len(expected)
    for value, job in zip(found, expected, strict=True):
        lower, upper, _ = fa.epsilon_bounds(job, delta=1e-6)
        assert lower <= value <= upper + 1.001e-3
    return statement, found


@pytest.mark.parametrize("microbatching", [True, False])
@pytest.mark.parametrize("size", [None, 1, 3, 10])
def test_the_report_has_certified_numbers(size, microbatching):
    statement, found = check(size, microbatching)
    assert max(map(len, statement.splitlines())) <= 80
    assert f"{'with' if microbatching else 'without'} microbatching" in statement
    if microbatching and size in STATED:
        assert all(a <= b for a, b in zip(found, STATED[None] + (STATED[size] if size else ()), strict=True))


def test_the_report_says_what_the_loader_must_do():
    text = " ".join(check(None)[0].split())
    for phrase in (
        "The loader must draw Poisson samples",
        "each of the 782 steps independently",
        "with probability 64/10000",
        "For batches of shuffled data this number does not hold: their epsilon is larger",
        "No user-level privacy guarantee is possible",
        "add-or-remove-one adjacency at delta = 1e-06",
    ):
        assert phrase in text
    assert "believed" not in text


def test_wrong_reports_are_caught():
    def scaled(**keywords):
        statement = tf_privacy.compute_dp_sgd_privacy_statement(**keywords)
        return re.sub(r"\d+\.\d{3}$", lambda match: f"{float(match[0]) * 0.97:.3f}", statement, flags=re.MULTILINE)

    def one_epoch(**keywords):
        return tf_privacy.compute_dp_sgd_privacy_statement(**keywords | {"num_epochs": 1.0})

    def one_example(**keywords):
        return tf_privacy.compute_dp_sgd_privacy_statement(**keywords | {"max_examples_per_user": 1})

    def unsplit(**keywords):
        return tf_privacy.compute_dp_sgd_privacy_statement(**keywords | {"used_microbatching": False})

    for canary in (scaled, one_epoch, one_example, unsplit):
        with pytest.raises(AssertionError):
            check(3, report=canary)


def test_printed_numbers_are_rounded_up():
    for value in (1.0, 1.00000001, 12.5955, 1e-9, 123.4999):
        printed = float(tf_privacy._rounded_up(value))
        assert value <= printed < value + 1.0001e-3
    assert tf_privacy._rounded_up(math.inf) == "inf"


def test_accountants_are_the_ones_named():
    found = {
        kind: numbers(tf_privacy.compute_dp_sgd_privacy_statement(**RUN, accountant_type=kind))
        for kind in AccountantType
    }
    assert found[AccountantType.EXACT][1] <= found[AccountantType.PLD][1] <= found[AccountantType.RDP][1]
    assert found[AccountantType.RDP] == pytest.approx(STATED[None], abs=2.5e-3)
    assert "RDP(" in tf_privacy.compute_dp_sgd_privacy_statement(**RUN, accountant_type=AccountantType.RDP)


TESTED = [
    (60000, 150, 1.3, 15, 1e-5, 0.7242234026109595, 19.0),
    (100000, 100, 1.0, 30, 1e-7, 1.4154988495444842, 13.0),
    (100000000, 1024, 0.1, 10, 1e-7, 5907982.3113984, 1.25),
]
"""n, batch size, noise, epochs, delta; epsilon and order that tensorflow_privacy's tests state."""


@pytest.mark.parametrize(("n", "batch", "noise", "epochs", "delta", "stated", "stated_order"), TESTED)
def test_epsilon_is_certified_and_the_order_is_theirs(n, batch, noise, epochs, delta, stated, stated_order):
    epsilon, order = compute_dp_sgd_privacy(n, batch, noise, epochs, delta)
    steps = math.ceil(epochs * n / batch)
    lower = fa.epsilon_lower(fa.Gaussian(noise).poisson(batch / n) * steps, delta=delta)
    assert lower <= epsilon <= min(lower * (1 + 1e-6), stated)
    assert order == stated_order
    by_orders, again = tf_privacy.apply_dp_sgd_analysis(batch / n, noise, steps, tf_privacy._ORDERS, delta)
    assert (by_orders, again) == (pytest.approx(stated, rel=1e-9), stated_order)
    for wrong in (0.97 * epsilon, compute_dp_sgd_privacy(n, batch, noise, epochs / 2, delta)[0]):
        assert not lower <= wrong


@pytest.mark.parametrize(("n", "batch", "noise", "epochs", "delta", "stated", "_"), TESTED)
def test_noise_meets_the_target_and_little_less_does_not(n, batch, noise, epochs, delta, stated, _):
    found = compute_noise(n, batch, stated, epochs, delta, 1e-6)
    assert found <= noise
    assert compute_dp_sgd_privacy(n, batch, found, epochs, delta)[0] <= stated
    assert compute_dp_sgd_privacy(n, batch, found * (1 - 1e-6), epochs, delta)[0] > stated
    assert compute_noise(n, batch, stated, epochs, delta, 7.0) == 7.0  # meets the target already


def test_numbers_of_poisson_samples_say_so_and_the_report_has_one_for_any_order():
    loop = {"records": 10000, "batch_size": 64, "epochs": 5, "sampling": "shuffled", "neighbors": "zero_out"}
    with pytest.warns(tf_privacy.PoissonWarning, match="alone, which shuffled batches are not"):
        sampled, _ = compute_dp_sgd_privacy(10000, 64, 2.0, 5.0, 1e-6)
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**loop, noise_multiplier=2.0, delta=1e-6)
    any_order, printed = numbers(tf_privacy.compute_dp_sgd_privacy_statement(**RUN, used_microbatching=False))
    assert sampled <= printed < lower <= upper <= any_order
    with pytest.warns(tf_privacy.PoissonWarning):
        noise = compute_noise(10000, 64, 2.0, 5.0, 1e-6, 1e-6)
    assert fa.dpsgd.noise_multiplier(**loop, epsilon=2.0, delta=1e-6) > noise


def test_the_schedule_is_exact_and_safe():
    for examples, batch, epochs in ((10000, 64, 5.0), (3, 1, 0.1), (10**17, 3, 1), (60000, 256, 0.3), (7, 7, 2.5)):
        rate, steps = tf_privacy._schedule(examples, batch, epochs)
        assert 1.0 >= Fraction(rate) >= Fraction(batch, examples)
        assert rate == pytest.approx(batch / examples, rel=3e-16)
        assert steps == math.ceil(Fraction(str(epochs)) * examples / batch)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 10001},
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"num_epochs": 0},
        {"num_epochs": math.inf},
        {"num_epochs": math.nan},
        {"delta": 1.5},
        {"delta": -0.5},
        {"noise_multiplier": -1.0},
        {"max_examples_per_user": 0},
        {"accountant_type": "prv"},
    ],
    ids=str,
)
def test_bad_input_is_refused(change):
    with pytest.raises(ValueError):
        tf_privacy.compute_dp_sgd_privacy_statement(**RUN | change)


def test_no_noise_is_no_privacy():
    assert numbers(tf_privacy.compute_dp_sgd_privacy_statement(**RUN | {"noise_multiplier": 0.0})) == [math.inf] * 2
