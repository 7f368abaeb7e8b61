"""Older accountants of DP-SGD, to compare with: zCDP, composition theorems, central limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fastacct.accountants.base import Method
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import Cells, Codes
from fastacct_ext import _kernels

if TYPE_CHECKING:
    from fastacct.mechanisms.base import Run
    from fastacct.readers.asked import Ask
    from fastacct_ext._kernels import Task


class ZCDPComposition(Method):
    """Zero-concentrated DP: rho = steps / (2 noise_multiplier^2), converted through every order.

    **Guarantee.** Certified upper bounds.  zCDP has no amplification by sampling, so `sample_rate` counts only as
    zero or not zero: this accountant is here to show what the others gain.  Source: Bun and Steinke 2016; conversion
    of Canonne, Kamath, Steinke 2020.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=10, sample_rate=1, steps=100, delta=1e-5)
    >>> round(fa.dpsgd.epsilon(**run, accountant=fa.ZCDPComposition()), 3)
    4.728
    """

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        sigma, q, steps = run
        quantity = _kernels.Quantity.DELTA if ask.quantity == "delta" else _kernels.Quantity.EPSILON
        conversion = _kernels.Conversion.CANONNE_KAMATH_STEINKE
        kernel = partial(_kernels.renyi_upper, quantity=quantity, conversion=conversion)
        (values, _), status = run_kernel(
            partial(kernel, sigma, np.ceil(q), steps, ask.target), ask.shape, 2, ask.threads
        )
        return values, status


class AnalyticGaussian(Method):
    """The exact privacy curve of composed Gaussians without subsampling (sample_rate = 1 or 0).

    **Guarantee.** Upper bound, equal to the truth up to about 1e-12 relative.  Refuses 0 < sample_rate < 1.
    Source: Balle and Wang 2018, theorem 8; composition of Gaussians is a Gaussian with mu = sqrt(steps) /
    noise_multiplier.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=10, sample_rate=1, steps=100, delta=1e-5)
    >>> round(fa.dpsgd.epsilon(**run, accountant=fa.AnalyticGaussian()), 3)
    4.377
    """

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        sigma, q, steps = run
        bad = q[(q > 0.0) & (q < 1.0)]
        if bad.size:
            raise ValueError(
                f"sample_rate = {float(bad[0])!r}: AnalyticGaussian covers sample_rate 0 or 1 only; use "
                "fastacct.Exact()"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where((q > 0.0) & (steps > 0.0), np.sqrt(steps) / sigma * (1.0 + 1e-15), 0.0)
        return _of_gaussian(mu, ask)


class _Composition(Method):
    """A rule by which (epsilon, delta) pairs compose."""

    _kernel: ClassVar[Callable[..., Task]]

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        if ask.quantity != "epsilon":
            raise self.cannot(ask.quantity)
        return _read(type(self)._kernel, (*run, ask.target), ask)


class BasicComposition(_Composition):
    """Epsilons and deltas add up: (steps * eps0, steps * delta0), each step subsampled and calibrated exactly.

    **Guarantee.** Upper bound; for comparison.  Source: Dwork et al. 2006; sampling: Balle, Barthe, Gaboardi 2018.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=10, sample_rate=1, steps=100, delta=1e-5)
    >>> round(fa.dpsgd.epsilon(**run, accountant=fa.BasicComposition()), 2)
    44.71
    """

    _kernel = staticmethod(_kernels.basic_composition_epsilon)


class AdvancedComposition(_Composition):
    """The strong composition theorem, half of delta spent on the steps and half on the slack.

    **Guarantee.** Upper bound; for comparison.  Source: Dwork, Rothblum, Vadhan 2010; sampling: Balle, Barthe,
    Gaboardi 2018.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=10, sample_rate=1, steps=100, delta=1e-5)
    >>> round(fa.dpsgd.epsilon(**run, accountant=fa.AdvancedComposition()), 2)
    44.71
    """

    _kernel = staticmethod(_kernels.advanced_composition_epsilon)


class CLT(Method):
    """The central-limit (Gaussian DP) approximation, mu = sample_rate sqrt(steps (exp(1/noise_multiplier^2) - 1)).

    **No guarantee**: it can be far below the truth (12 % at sigma 1, q 0.01, 1000 steps, delta 1e-5).
    `dpsgd.epsilon` refuses it; `dpsgd.epsilon_approx` and `dpsgd.delta_approx` accept it.  Source: Bu, Dong, Long, Su
    2020.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> round(fa.dpsgd.epsilon_approx(**run, accountant=fa.CLT()), 3)
    1.618
    """

    certified: ClassVar[bool] = False

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        return _of_gaussian(_read(_kernels.clt_mu_approx, run, ask)[0], ask)


def _of_gaussian(mu: Cells, ask: Ask) -> tuple[Cells, Codes]:
    """Epsilon or delta of N(mu, 1) against N(0, 1)."""
    kernel = _kernels.gaussian_epsilon if ask.quantity == "epsilon" else _kernels.gaussian_delta
    return _read(kernel, (mu, ask.target), ask)


def _read(kernel: Callable[..., Task], inputs: tuple[Cells, ...], ask: Ask) -> tuple[Cells, Codes]:
    (values,), status = run_kernel(partial(kernel, *inputs), ask.shape, 1, ask.threads)
    return values, status
