"""An independent oracle in arbitrary precision (mpmath).

Every value is computed at least twice, at two precisions and with two discretisations, and is returned only when both
agree to the digits asked for; otherwise `NotConverged` is raised. Inputs are taken exactly: a float stands for the
binary number it is. Nothing here shares code, formulas in working form, or quadrature rules with the kernels, and
`import fastacct` does not import it.
"""

# ruff: noqa: E402 (a missing library is named before the modules that need it are imported)
from fastacct.core.extras import import_extra

for _library in ("mpmath", "gmpy2"):
    import_extra(_library, "reference")

from .accountant import rdp_delta, rdp_epsilon
from .certify import NotConverged, certify
from .conversion import rdp_to_delta, rdp_to_epsilon
from .exact import exact_delta, exact_epsilon
from .gaussian import gaussian_delta, gaussian_epsilon, sampled_gaussian_delta
from .sampled_gaussian import log_moment, log_moment_derivatives, rdp

__all__ = [
    "NotConverged",
    "certify",
    "exact_delta",
    "exact_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "log_moment",
    "log_moment_derivatives",
    "rdp",
    "rdp_delta",
    "rdp_epsilon",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "sampled_gaussian_delta",
]
