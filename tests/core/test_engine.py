"""Between users' arrays and the kernels: shapes, memory, threads, Ctrl-C, and what a status says."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

import fastacct as fa
from fastacct.core import progress
from fastacct.core.engine import in_pieces, run_kernel
from fastacct.losses.pieces import columns as data_columns
from fastacct_ext import _kernels
from fastacct_ext._kernels import Conversion, Directions, Quantity

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
HISTORY = {"history": [(1.0, 0.01, 3), (2.0, 0.1, 3)]}
TWO_KNOWN = {"delta": 1e-5, "sample_rate": 0.01}
NOTHING = np.zeros((3, 0))
NO_DATA = data_columns(())

EMPTY = {
    "epsilon": lambda: fa.dpsgd.epsilon(**RUN, delta=NOTHING),
    "epsilon_bounds": lambda: fa.dpsgd.epsilon_bounds(**RUN, delta=NOTHING).status,
    "delta": lambda: fa.dpsgd.delta(**RUN, epsilon=NOTHING),
    "rdp": lambda: fa.dpsgd.rdp(**RUN, orders=NOTHING),
    "best_order": lambda: fa.dpsgd.best_order(**RUN, delta=NOTHING),
    "noise_multiplier": lambda: fa.dpsgd.noise_multiplier(**TWO_KNOWN, epsilon=NOTHING, steps=10),
    "steps": lambda: fa.dpsgd.steps(**TWO_KNOWN, epsilon=NOTHING, noise_multiplier=1.0),
    "renyi": lambda: fa.dpsgd.epsilon(**RUN, delta=NOTHING, accountant=fa.RDP()),
    "replace_one": lambda: fa.dpsgd.epsilon(**RUN, delta=NOTHING, neighbors="replace_one"),
    "history": lambda: fa.dpsgd.epsilon(**HISTORY, delta=NOTHING),
    "renyi_history": lambda: fa.dpsgd.epsilon(**HISTORY, delta=NOTHING, accountant=fa.RDP()),
    "job": lambda: fa.epsilon(fa.Gaussian(1.0) + fa.Gaussian(2.0).poisson(0.1), delta=NOTHING),
    "listed_job": lambda: fa.epsilon(fa.Laplace(1.0) * 2, delta=NOTHING),
    "mechanism": lambda: fa.epsilon(fa.Gaussian(NOTHING), delta=1e-5),
}


@pytest.mark.parametrize("name", EMPTY)
def test_no_cells_give_no_cells(name):
    assert EMPTY[name]().shape == NOTHING.shape


def test_an_accountant_without_orders_is_refused():
    with pytest.raises(ValueError, match="orders is an empty array"):
        fa.RDP(orders=[])


def test_arrays_need_not_be_aligned():
    delta = np.zeros(8 * 3 + 1, dtype=np.uint8)[1:].view(np.float64)
    delta[:] = [1e-5, 1e-6, 0.1]
    assert not delta.flags.aligned
    assert fa.dpsgd.epsilon(**RUN, delta=delta).tolist() == fa.dpsgd.epsilon(**RUN, delta=delta.copy()).tolist()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_results_beyond_memory_are_refused_by_shape(dimensions):
    side, parameters = 10**7, {}
    for i, name in enumerate(("noise_multiplier", "sample_rate", "delta")[:dimensions]):
        parameters[name] = np.full((side,) + (1,) * i, 0.5)
    with pytest.raises(MemoryError, match=r"shape \(10000000, 10000000") as caught:
        fa.dpsgd.epsilon(**({"delta": 0.5, "steps": 10} | parameters))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


GRID = {
    "noise_multiplier": np.geomspace(0.6, 20.0, 4),
    "sample_rate": np.array([0.001, 0.3, 1.0]),
    "steps": np.array([1.0, 50.0]),
    "delta": np.geomspace(1e-9, 1e-3, 5),
}


@pytest.mark.parametrize("accountant", [fa.Exact(), fa.RDP()], ids=repr)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_order_of_axes_changes_no_bit(accountant, threads):
    """Cells that share their noise and rate follow each other in the kernels, and every answer is in its own place."""
    expected = None
    for axes in itertools.permutations(range(4)):
        run = {
            name: np.expand_dims(values, tuple(other for other in range(4) if other != axis))
            for (name, values), axis in zip(GRID.items(), axes, strict=True)
        }
        found = fa.dpsgd.epsilon(**run, accountant=accountant, threads=threads).transpose(axes)
        expected = found if expected is None else expected
        assert (found == expected).all()
    at = tuple(len(values) - 1 for values in GRID.values())
    alone = {name: float(values[-1]) for name, values in GRID.items()}
    assert expected[at] == fa.dpsgd.epsilon(**(alone | {"steps": 50}), accountant=accountant)


def test_a_grid_shares_its_nodes_whatever_the_order_of_axes():
    noise, orders = np.linspace(0.7, 4.0, 20), np.geomspace(1.5, 200.0, 400)

    def seconds(noise, orders):
        start = time.process_time()
        fa.dpsgd.rdp(noise_multiplier=noise, sample_rate=0.01, orders=orders, threads=1)
        return time.process_time() - start

    both = [  # in turn
        (seconds(noise, orders[:, None]), seconds(noise[:, None], orders)) for _ in range(9)
    ]  # one beside the other
    assert min(a for a, _ in both) < 3.0 * min(b for _, b in both)  # 5 times without


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 1e4, np.inf])
@pytest.mark.parametrize(("rate", "steps"), [(0.0, 10), (1e-5, 2), (0.01, 1000), (0.5, 1), (1.0, 3), (0.1, 0)])
def test_plain_numbers_have_the_bits_of_an_array_of_one_cell(noise, rate, steps):
    asked = {
        "delta": (fa.dpsgd.epsilon_bounds, fa.dpsgd.epsilon_lower, fa.dpsgd.epsilon, (0.0, 1e-9, 1e-5, 1.0)),
        "epsilon": (fa.dpsgd.delta_bounds, fa.dpsgd.delta_lower, fa.dpsgd.delta, (0.0, 1.0, 30.0, np.inf)),
        "orders": (fa.dpsgd.rdp_bounds, None, fa.dpsgd.rdp, (1, 1.5, 64.0, 1e11, np.inf)),
    }
    run = {"sample_rate": rate, "steps": steps}
    for name, (bounds, lower, upper, targets) in asked.items():
        for target in targets:
            one = bounds(**run, noise_multiplier=noise, **{name: target})
            cell = bounds(**run, noise_multiplier=[noise], **{name: target})
            assert [type(x) for x in one] == [float, float, fa.Status]
            assert list(one) == [x[0] for x in cell]
            assert upper(**run, noise_multiplier=noise, **{name: target}) == one.upper
            if lower:
                assert lower(**run, noise_multiplier=noise, **{name: target}) == one.lower


def numbers(noise, rate, steps):
    return {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}


class Metres(float):
    """A float that somebody gave another name."""


@pytest.mark.parametrize("rate", [np.float64(0.01), Metres(0.01)])
@pytest.mark.parametrize("steps", [1000.0, np.int64(1000), np.float64(1000.0)])
@pytest.mark.parametrize("accountant", [None, fa.Exact(), fa.RDP()])
def test_numbers_out_of_arrays_are_plain_numbers(rate, steps, accountant):
    run, delta = numbers(np.float64(1.1), rate, steps), np.float64(1e-5)
    same = fa.dpsgd.epsilon(noise_multiplier=1.1, sample_rate=0.01, steps=1000, delta=1e-5, accountant=accountant)
    value = fa.dpsgd.epsilon(**run, delta=delta, accountant=accountant)
    assert value == same
    assert type(value) is float
    assert _kernels.bounds_of_numbers("exact", run, delta, Quantity.EPSILON) is not None


@pytest.mark.parametrize("steps", [True, np.bool_(True), np.timedelta64(3), "3", [3], np.array(3), None, 2**53 + 1, -1])
def test_what_is_no_plain_number_in_range_is_left_to_the_checks(steps):
    assert _kernels.bounds_of_numbers("exact", numbers(1.0, 0.01, steps), 1e-5, Quantity.EPSILON) is None
    assert _kernels.bounds_of_numbers("exact", {"sample_rate": 0.01, "steps": 3}, 1e-5, Quantity.EPSILON) is None


def job(n):
    """n different Gaussian steps, as the kernel for jobs takes them, at three targets."""
    one, out = np.ones(n, dtype=np.int32), [np.empty(3) for _ in range(3)]
    noise, rate = np.linspace(0.8, 2.0, n), np.full(n, 0.01)
    codes, target = np.zeros(3, dtype=np.uint8), np.array([1e-5, 1e-6, 1e-7])
    columns = np.full(n, 9.0), noise, one, 0 * one, rate, np.ones(n)
    _kernels.exact_job(*columns, NO_DATA, target, *out, codes, quantity=Quantity.EPSILON, directions=Directions.BOTH)
    return out[1].tolist()


def history():
    run = [np.array(x) for x in ((1.0, 2.0), (0.01, 0.1), (3.0, 3.0))]
    value, order, codes = np.empty(1), np.empty(1), np.zeros(1, dtype=np.uint8)
    how = {"quantity": Quantity.EPSILON, "conversion": Conversion.CANONNE_KAMATH_STEINKE}
    _kernels.renyi_of_history(*run, np.array([1e-5]), value, order, codes, **how)
    return value.tolist()


OPERATIONS = {
    "scalar": lambda: _kernels.bounds_of_numbers("exact", numbers(1.0, 0.01, 100), 1e-5, Quantity.EPSILON),
    "few participations": lambda: _kernels.bounds_of_numbers(
        "exact", numbers(0.5, 1e-5, 10000), 1e-8, Quantity.EPSILON
    ),
    "double-double": lambda: _kernels.bounds_of_numbers("exact", numbers(2.3, 0.65, 5_879_257), 1e-8, Quantity.EPSILON),
    "block": lambda: fa.dpsgd.epsilon(**RUN, delta=[1e-5, 1e-9]).tolist(),
    "calibration": lambda: fa.dpsgd.noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.01, steps=10),
    "job": lambda: job(3),
    "many steps": lambda: job(300),
    "history": history,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_out_of_memory_is_an_error_and_never_an_answer(name):
    run, refused = OPERATIONS[name], 0
    answer = run()
    try:
        for allocations in (*range(40), *range(40, 4000, 9)):
            _kernels.limit_memory(allocations)
            try:
                assert run() == answer
                break
            except MemoryError:
                refused += 1
    finally:
        _kernels.limit_memory(-1)
    assert refused >= 1
    assert run() == answer


def test_the_instruction_set_stays_while_calls_run():
    before = _kernels.level()

    def work(start, _):
        with pytest.raises(RuntimeError, match="are running"):
            _kernels.select("baseline")
        return start + 1

    if before == "baseline":
        pytest.skip("this processor has one level only")
    in_pieces(4, 2, work)
    assert _kernels.level() == before
    assert _kernels.select("baseline") == "baseline"
    assert _kernels.select(before) == before


@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_is_written_after_a_failed_call(threads):
    written = np.zeros(100, dtype=np.int64)

    def work(start, _):
        if start == 3:
            raise OSError("no more")
        time.sleep(0.01)
        written[start] += 1
        return start + 1

    with pytest.raises(OSError, match="no more"):
        in_pieces(100, threads, work)
    after = written.copy()
    time.sleep(0.1)
    assert (written == after).all()
    assert written.sum() < 100


INTERRUPTED = """
import signal, sys, threading, time
import numpy as np
import fastacct as fa
from fastacct.core import progress

rate = np.geomspace(1e-6, 1e-2, 160_000)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a process that a shell put in the background
pressed = []
def press():
    pressed.append(time.process_time())
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
threading.Timer(1.5, press).start()
try:
    fa.dpsgd.epsilon(noise_multiplier=0.7, sample_rate=rate, steps=2000, delta=1e-9, threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print(time.process_time() - pressed[0])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("threads", [1, 3])
def test_ctrl_c_is_heard_at_once(threads):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(threads)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.5  # 0.2 s and a cell on a machine that is free


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_written_after_ctrl_c(threads, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    written = np.zeros(3000, dtype=np.int64)

    def work(start, _):
        time.sleep(0.01)
        written[start] += 1
        return start + 1

    press = (threading.main_thread().ident, signal.SIGINT)
    threading.Timer(0.3, signal.pthread_kill, press).start()
    with pytest.raises(KeyboardInterrupt):
        in_pieces(3000, threads, work)
    after = written.copy()
    time.sleep(0.1)
    assert (written == after).all()


OFTEN = """
import contextlib, signal, threading, time
from fastacct.core.engine import in_pieces
def hear(*_):
    if heard: raise KeyboardInterrupt
def work(start, _): time.sleep(1e-4); done.append(start); return start + 1
heard, late, _ = False, 0, signal.signal(signal.SIGINT, hear)
for k in range(40):
    for after in (0.02 + 7e-4 * k, 0.0203 + 7e-4 * k):
        threading.Timer(after, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with contextlib.suppress(KeyboardInterrupt):
        with contextlib.suppress(KeyboardInterrupt):
            heard, done = True, []
            in_pieces(3000, 3, work)
        heard = False
    heard, before, _ = False, len(done), time.sleep(0.05)
    late += len(done) > before
print(late)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_leaves_no_lock_behind():
    done = subprocess.run([sys.executable, "-c", OFTEN], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "0"


def cells_of_all_sizes(n):
    """Cells whose deltas go down to the smallest numbers, and some that cannot be certified."""
    rng = np.random.default_rng(7)
    rate, steps = 10.0 ** rng.uniform(-4.0, -0.1, n), np.round(10.0 ** rng.uniform(0.0, 3.0, n))
    return 10.0 ** rng.uniform(-0.3, 1.3, n), rate, steps


@pytest.mark.parametrize("quantity", ["epsilon", "delta"])
def test_tight_means_narrow_and_loose_means_wide(quantity):
    sigma, rate, steps = cells_of_all_sizes(150)
    if quantity == "delta":  # about where delta underflows as well
        deep = np.array([5.0, 0.01, 100.0])
        sigma, rate, steps = (np.append(x, np.full(60, y)) for x, y in zip((sigma, rate, steps), deep, strict=True))
        target = np.append(np.geomspace(1e-3, 30.0, 150), np.linspace(20.0, 40.0, 60))
    else:
        target = np.geomspace(1e-300, 0.5, 150)
    how = {"quantity": Quantity[quantity.upper()], "directions": Directions.BOTH}
    kernel = partial(_kernels.exact_bounds, sigma, rate, steps, target, **how)
    (lower, upper, _), codes = run_kernel(kernel, sigma.shape, 3, 2)
    narrow = upper - lower <= 1e-6 * upper
    assert ((codes == fa.Status.TIGHT) == narrow).all()
    assert narrow.any()
    assert not narrow.all()


def test_tight_renyi_divergences_are_narrow():
    sigma, rate, _ = cells_of_all_sizes(300)
    order, steps = 1.0 + np.geomspace(1e-3, 1e4, 300), np.geomspace(1.0, 2.0**53, 300).round()
    sigma[-20:] = np.geomspace(1e-160, 1e-150, 20)  # beyond the largest float
    kernel = partial(_kernels.rdp_bounds, sigma, rate, steps, order)
    (lower, upper), codes = run_kernel(kernel, sigma.shape, 2, 2)
    tight = codes == fa.Status.TIGHT
    assert (upper[tight] - lower[tight] <= 1.1e-11 * upper[tight]).all()
    assert (codes[upper == np.inf] == fa.Status.NOT_MET).all()
    assert (upper == np.inf).any()
    assert tight.any()


def test_tight_means_narrow_for_weights_that_were_rounded():
    """Jobs of groups: a band around what the kernel reads."""
    job = fa.Gaussian(1.0).poisson(0.01).group(3) * 50
    for bounds in (
        fa.epsilon_bounds(job, delta=np.geomspace(1e-12, 0.5, 8)),
        fa.delta_bounds(job, epsilon=np.array([0.0, 0.5, 2.0, 20.0, 200.0])),
    ):
        narrow = bounds.upper - bounds.lower <= 1e-6 * bounds.upper
        assert ((bounds.status == fa.Status.TIGHT) == narrow).all()


# -- progress --------------------------------------------------------------------------------------------------------


def test_a_long_array_call_shows_how_far_it_is_on_request(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SHORT", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    noise = np.geomspace(0.6, 4.0, 2000)
    asked = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    silent = fa.dpsgd.epsilon(noise_multiplier=noise, **asked)
    assert capsys.readouterr().err == "", "nothing is shown without being asked for"
    for threads in (1, 2):
        with fa.progress():
            shown = fa.dpsgd.epsilon(noise_multiplier=noise, **asked, threads=threads)
            cells = fa.epsilon(fa.Laplace(noise[:3]) * 2, delta=1e-5, threads=threads)
        captured = capsys.readouterr()
        assert np.array_equal(silent, shown)
        assert cells.shape == (3,)
        assert captured.out == ""
        assert captured.err.count("100.0 %") == 2, "one bar for a call, none for what it calls"
    with pytest.raises(ValueError, match="noise_multiplier"), fa.progress():
        fa.dpsgd.epsilon(noise_multiplier=-noise, **asked)
    fa.dpsgd.epsilon(noise_multiplier=noise, **asked)
    assert capsys.readouterr().err == "", "the request ends with its block"


def test_short_calls_show_no_bar(capsys):
    with fa.progress():
        fa.dpsgd.epsilon(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=1000, delta=1e-5)
    assert capsys.readouterr().err == ""
