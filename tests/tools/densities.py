"""Log-densities that tests compile: those of built-in mechanisms, and two on an interval."""

import math


def gaussian_p(x):
    return -0.5 * (x - 1.0) ** 2 - 0.9189385332046727


def gaussian_q(x):
    return -0.5 * x * x - 0.9189385332046727


def laplace_p(x):
    return -abs(x - 1.0) - 0.6931471805599453


def laplace_q(x):
    return -abs(x) - 0.6931471805599453


def rising(x):
    return math.log(0.5 + x)


def flat(x):
    return 0.0
