"""Compiled functions are values: what they read is seen when it changes, and they are in order of their content."""

import gc
import math
import os
import subprocess
import sys
import textwrap
import types
import weakref

import numpy as np
import pytest

import fastacct as fa
from fastacct.mechanisms.compiled.release import OneRelease
from fastacct.mechanisms.compiled.table import rule

numba = pytest.importorskip("numba", reason="compiled mechanisms need the extra jit")

SCALE = 1.0
PAIR = (1.0, 0.0)
TABLE = np.array([1.0, 0.0])
LARGE = np.ones(300_000)
CONFIG = types.ModuleType("config")
CONFIG.scale = 1.0


def log_density(z):
    return -0.5 * z * z - 0.9189385332046727


normal = numba.njit(log_density)


@numba.njit
def helper(x, scale=1.0):
    return -0.5 * (x / scale) ** 2 - 0.9189385332046727 - math.log(scale)


@numba.njit
def jitted(x):
    return -0.5 * (x / SCALE) ** 2 - 0.9189385332046727 - math.log(SCALE)


def reads_a_global(x):
    return normal(x / SCALE) - math.log(SCALE)


def reads_a_tuple(x):
    return normal(x / PAIR[0]) - math.log(PAIR[0])


def reads_an_array(x):
    return normal(x / TABLE[0]) - math.log(TABLE[0])


def reads_a_module(x):
    return normal(x / CONFIG.scale) - math.log(CONFIG.scale)


def calls_jitted(x):
    return jitted(x)


def calls_with_default(x):
    return helper(x)


def _set(monkeypatch, kind, value):
    module = sys.modules[__name__]
    if kind == "table":  # the same array
        TABLE[0] = value
    elif kind == "module":
        monkeypatch.setattr(CONFIG, "scale", value)
    elif kind == "default":
        monkeypatch.setattr(helper.py_func, "__defaults__", (value,))
    else:
        monkeypatch.setattr(module, "SCALE", value)
        monkeypatch.setattr(module, "PAIR", (value, 0.0))


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("global", reads_a_global),
        ("global", reads_a_tuple),
        ("table", reads_an_array),
        ("module", reads_a_module),
        ("global", calls_jitted),
        ("default", calls_with_default),
    ],
)
def test_a_change_of_what_a_function_reads_is_seen(monkeypatch, kind, function):
    def made():
        return fa.jit.mechanism(log_density_p=log_density, log_density_q=function, domain=(-40.0, 40.0), panels=2048)

    before = made()
    assert fa.delta(before, epsilon=0.5) < 1e-9  # the same density twice
    try:
        _set(monkeypatch, kind, 2.0)
        after = made()
    finally:
        TABLE[0] = 1.0
    # N(0, 1) against N(0, 4): P is above e^eps Q where |x| is small
    edge = math.sqrt(2.0 * (math.log(2.0) - 0.5) / 0.75)
    inside, wide = math.erf(edge / math.sqrt(2.0)), math.erf(edge / math.sqrt(8.0))
    assert fa.delta(after, epsilon=0.5, neighbors="remove") == pytest.approx(
        inside - math.exp(0.5) * wide, rel=1e-11, abs=0.0
    )  # 2048 panels
    assert fa.delta(before, epsilon=0.5) < 1e-9  # a mechanism that has been made stays what it was
    assert before != after


def test_a_change_of_a_closure_is_seen():
    scale = 1.0

    @numba.njit
    def inner(z):
        return -0.5 * (z / scale) ** 2 - 0.9189385332046727 - math.log(scale)

    def p(x):
        return inner(x)

    first = fa.jit.mechanism(log_density_p=log_density, log_density_q=p, domain=(-40.0, 40.0), panels=2048)
    scale = 2.0
    second = fa.jit.mechanism(log_density_p=log_density, log_density_q=p, domain=(-40.0, 40.0), panels=2048)
    assert fa.delta(first, epsilon=0.5) < 1e-9 < 1e-3 < fa.delta(second, epsilon=0.5, neighbors="remove")
    assert first != second


def plain(x):
    return log_density(x / SCALE) - math.log(SCALE)


def test_functions_that_are_called_need_no_decorator(monkeypatch):
    for scale, different in ((1.0, False), (2.0, True)):
        monkeypatch.setattr(sys.modules[__name__], "SCALE", scale)
        made = fa.jit.mechanism(log_density_p=log_density, log_density_q=plain, domain=(-40.0, 40.0), panels=512)
        assert (fa.delta(made, epsilon=0.5, neighbors="remove") > 1e-3) is different


def test_functions_of_one_content_are_equal_and_others_are_not():
    def of(shift):
        return lambda x: -0.5 * (x - shift) ** 2 - 0.9189385332046727

    def made(shift):
        return fa.jit.mechanism(log_density_p=of(shift), log_density_q=of(0.0), domain=(-40.0, 42.0), panels=512)

    assert made(1.0) == made(1.0)
    assert hash(made(1.0)) == hash(made(1.0))
    assert made(1.0) != made(2.0)
    assert len(made(1.0) + made(2.0) + made(1.0)) == 2
    assert repr(made(1.0)) != repr(made(2.0))


def reads_a_large_array(x):
    return log_density(x / LARGE[7]) - math.log(LARGE[7])


def test_a_large_array_may_change_afterwards():
    """Numba reads arrays of more than a million bytes where they are."""
    made = fa.jit.mechanism(log_density_p=log_density, log_density_q=reads_a_large_array, domain=(-40.0, 40.0))
    before = fa.delta(made * 1, epsilon=0.01)
    LARGE[7] = 2.0
    try:
        assert fa.delta(made * 1, epsilon=0.01) == before < 1e-9
        assert made.evaluate(np.ones(1))[2] == 0.0
    finally:
        LARGE[7] = 1.0


class Scale:
    """Numba does not know it."""

    value = 1.0


OBJECT = Scale()


@numba.vectorize
def once(x):
    return x


def test_what_cannot_be_compiled_anew_is_refused():
    with pytest.raises(ValueError, match="log_density_p cannot be compiled"):
        fa.jit.mechanism(log_density_p=lambda x: x * OBJECT.value, log_density_q=log_density)
    with pytest.raises(ValueError, match="values of its time"):
        fa.jit.mechanism(log_density_p=lambda x: once(x), log_density_q=log_density)


@pytest.mark.parametrize(
    "bad", [math.sin, abs, np.sin, lambda x, y: x, lambda *a: 0.0, lambda: 0.0, lambda x, s=1.0: x]
)
def test_what_is_no_function_of_one_number_is_refused(bad):
    with pytest.raises(TypeError, match="log_density_q must be a function of one number"):
        fa.jit.mechanism(log_density_p=log_density, log_density_q=bad)


def _run(code, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SUM = """
import sys
import fastacct as fa
from fastacct.mechanisms.process import Process

def pair(shift):
    def p(x):
        return -0.5 * (x - shift) ** 2 - 0.9189385332046727
    return p

padding = [object() for _ in range({padding})]
order = {order}
made = {{}}
for shift in order:
    made[shift] = fa.jit.mechanism(
        log_density_p=pair(shift), log_density_q=pair(0.0), domain=(-30.0, 31.0), panels=512
    )
job = sum((made[shift] * 3 for shift in order), Process())
(table,) = job.cells()
print([shift for one, _ in table for shift in made if made[shift] == one])
print(fa.epsilon(job, delta=1e-6).hex(), [str(hash(made[0.3])) != ""])
parallel = [fa.Parallel(made[shift], fa.Gaussian(20.0)) for shift in order]
(table,) = sum(parallel, Process()).cells()
print([repr(one) for one, _ in table])
"""


def test_the_order_of_a_sum_is_that_of_the_content(tmp_path):
    runs = [
        _run(SUM.format(order=order, padding=padding), tmp_path, PYTHONHASHSEED=seed)
        for order, padding, seed in (("[0.3, 0.5, 0.9]", 1, "1"), ("[0.9, 0.3, 0.5]", 10007, "2"))
    ]
    assert runs[0] == runs[1]


def test_caches_do_not_keep_closures_alive():
    class Heavy:
        pass

    def make():
        heavy = Heavy()
        shift = 1.0

        def p(x):
            return -0.5 * (x - shift) ** 2 - 0.9189385332046727

        p.heavy = heavy
        made = fa.jit.mechanism(log_density_p=p, log_density_q=log_density, domain=(-40.0, 41.0), panels=512)
        fa.epsilon(made * 20, delta=1e-6)
        return weakref.ref(heavy), weakref.ref(made)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_arrays_that_are_kept_cannot_be_changed():
    made = fa.jit.mechanism(log_density_p=log_density, log_density_q=helper_of_one, domain=(-40.0, 40.0), panels=512)
    kept = [*vars(made.table).values(), *rule(6), *rule(6, 10), *vars(made.table.turned()).values()]
    sums = OneRelease(made, 0)._sums
    kept += [sums.low, *sums.masses, made.pieces.table.points, made.pieces.table.slices]
    pair = made.losses("add_remove")
    for one in (pair.remove, pair.add):
        for atoms in (one.upper, one.lower):
            kept += [atoms.loss, atoms.loss_error, atoms.mass]
    flat = [x for one in kept for x in (one if isinstance(one, tuple) else (one,)) if isinstance(x, np.ndarray)]
    assert len(flat) > 30
    assert not any(x.flags.writeable for x in flat)


def helper_of_one(x):
    return helper(x)
