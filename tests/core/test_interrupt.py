"""Ctrl-C is heard soon: nothing that answers keeps Python from looking at signals for long, kernels neither."""

import signal
import time
from itertools import pairwise

import pytest

import fastacct as fa

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
JOBS = {
    "losses on a grid": (
        fa.Gaussian(1.6).poisson(0.004, at_most=597, records=1000) * 4 + fa.Skellam(40.0) * 2,
        "add_remove",
    ),
    "400 different steps": (
        sum((fa.Gaussian(1.0 + 0.01 * i).poisson(1e-4).group(2) * (10 + i) for i in range(400)), fa.Process()),
        "add_remove",
    ),
    "groups of 60": (
        sum((fa.Gaussian(1.0 + 0.01 * i).poisson(0.01).group(60) * (10 + i) for i in range(20)), fa.Process()),
        "add_remove",
    ),
    "one lattice of 20,000 steps": (fa.Gaussian(0.5).allocation(20_000) * 1, "add_remove"),
    "a record replaced": (fa.Gaussian(1.0).poisson(1e-4) * 3, "replace_one"),
}


class EnoughError(Exception):
    """The job has been watched for long enough."""


@pytest.mark.parametrize("name", JOBS)
def test_signals_are_looked_at_all_the_time(name):
    job, relation = JOBS[name]
    looked = [time.process_time()]

    def look(*_):
        looked.append(time.process_time())
        if looked[-1] - looked[0] > 2.5:
            raise EnoughError

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
    try:
        fa.epsilon(job, delta=1e-7, neighbors=relation)
    except EnoughError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    looked.append(time.process_time())
    assert looked[-1] - looked[0] > 0.02  # of processor time: it was watched at all
    assert max(after - at for at, after in pairwise(looked)) < 0.6


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_ends_when_its_call_is_given_up(threads):
    """Also in a worker, which hears no signal itself; and the next answer is that of a call never given up."""
    job = fa.Gaussian(0.5).allocation(steps=[20_000, 20_001]) * 1
    given_up = []

    def give_up(*_):
        given_up.append(time.process_time())
        raise EnoughError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(EnoughError):
            fa.delta(job, epsilon=1.0, threads=threads)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - given_up[0] < 0.6
    short = fa.Gaussian(2.0).allocation(steps=10) * 1
    assert fa.delta(short, epsilon=1.0) == fa.delta(fa.Gaussian(2.0).allocation(steps=10) * 1, epsilon=1.0) > 0.0
