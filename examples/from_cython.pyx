# cython: language_level=3
"""The kernels from Cython: functions on numbers that need neither Python nor the GIL.

    export CFLAGS="-I$(python -c 'import fastacct_ext; print(fastacct_ext.__path__[0])')"
    cythonize -i examples/from_cython.pyx && cd examples
    python -c "import from_cython; print(from_cython.total_epsilon([1.0, 1.5], 0.01, 1000, 1e-5))"
"""
from fastacct_ext._kernels cimport dpsgd_epsilon


def total_epsilon(list noises, double rate, double steps, double delta):
    """Sum of the epsilons of several runs."""
    cdef double total = 0.0, noise
    for noise in noises:
        total += dpsgd_epsilon(noise, rate, steps, delta)
    return total
