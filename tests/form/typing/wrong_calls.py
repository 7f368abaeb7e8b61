"""Twenty wrong calls that `mypy --strict` must reject, each on a line with its mark, among right ones that it accepts.

Read by `tests/form/test_typing.py`; the calls stand in functions that nobody runs.
"""

import numpy as np

import fastacct as fa

RUN = fa.Gaussian(1.0).poisson(0.01) * 1000


def right_calls() -> None:
    """What must stay accepted."""
    fa.epsilon(RUN, delta=1e-5)
    fa.epsilon(RUN, delta=[1e-5, 1e-6], neighbors="add", accountant=fa.RDP(), threads=2)
    fa.delta(RUN, epsilon=np.linspace(0.0, 2.0, 5))
    fa.dpsgd.epsilon(noise_multiplier=1, sample_rate=np.float64(0.01), steps=np.int64(10), delta=1e-5)
    fa.dpsgd.epsilon(noise_multiplier=[[0.8], [1.0]], sample_rate=0.01, steps=[10, 20], delta=1e-5)
    fa.dpsgd.epsilon(history=[(1.0, 0.01, 500), (2.0, 0.02, 300)], delta=1e-5)
    fa.rdp(RUN, [2.0, 4])
    fa.epsilon(RUN, 1e-5)
    fa.tpr_at_fpr(fpr=0.01, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    fa.epsilon(noise_multiplier=1.0, records=1000, batch_size=10, epochs=3, delta="1/n")
    fa.tpr_at_fpr(fa.dpsgd.job(noise_multiplier=1.0, sample_rate=0.01, steps=1000) + RUN, 0.01)
    fa.tradeoff(RUN, (0.01, 0.1))
    fa.calibrate(fa.Gaussian, epsilon=1.0, delta=1e-5)
    fa.Gaussian([1.0, 2.0]).poisson(np.full(2, 0.01))
    fa.convert.pure_to_zcdp(1.0)
    fa.convert.zcdp_to_epsilon_closed_form(np.ones(3), 1e-5)


def wrong_calls() -> None:
    """One mark, one error."""
    fa.epsilon(RUN, delta=1e-5, neighbors="add_or_remove")  # expect-error: a misspelt relation
    fa.epsilon(RUN, delta=1e-5, accountant="rdp")  # expect-error: an accountant by name
    fa.epsilon(RUN, delta=1e-5, threads="2")  # expect-error: a number of threads as a string
    fa.epsilon(RUN, delta=None)  # expect-error: no delta
    fa.epsilon(RUN, delta=["1e-5", "1e-6"])  # expect-error: a list of strings as delta
    fa.tpr_at_fpr(fpr=0.01, noise_multipler=1.0)  # expect-error: a misspelt keyword of a run in place of a job
    fa.epsilon("gaussian", delta=1e-5)  # expect-error: a job as a string
    fa.epsilonn(RUN, delta=1e-5)  # expect-error: a misspelt verb
    fa.delta(RUN, epsilon="1.0")  # expect-error: epsilon as a string
    fa.rdp(RUN, np.asarray(["2"], dtype=np.str_))  # expect-error: an array of strings as orders
    fa.tradeoff(RUN, ["0.1"])  # expect-error: a list of strings as false positive rates
    fa.dpsgd.epsilon(noise_multiplier="1.0", sample_rate=0.1, steps=9, delta=0.1)  # expect-error: noise as a string
    fa.dpsgd.epsilon(noise_multipler=1.0, sample_rate=0.1, steps=9, delta=0.1)  # expect-error: a misspelt keyword
    fa.dpsgd.delta(history=[(1.0, "0.1", 500)], epsilon=1.0)  # expect-error: a rate in a history as a string
    fa.dpsgd.steps(epsilon=None, delta=0.1, noise_multiplier=1.0, sample_rate=0.1)  # expect-error: no target
    fa.Gaussian("1.0")  # expect-error: a mechanism's noise as a string
    fa.Gaussian(1.0).poisson(["0.1"])  # expect-error: a list of strings as rates
    fa.Gaussian(1.0) * "10"  # expect-error: a count as a string
    fa.calibrate(fa.Gaussian(1.0), epsilon=1.0, delta=1e-5)  # expect-error: a mechanism where its maker is wanted
    fa.convert.rdp_to_epsilon(8, 0.5, 1e-5, "optimum")  # expect-error: a misspelt conversion
